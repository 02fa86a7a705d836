// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/assaytest"
	"assay/internal/delta"
	"assay/internal/engine"
	"assay/internal/rules/rulestest"
	"assay/internal/store/sqlite/sqlitetest"
)

func TestClockNote(t *testing.T) {
	for skew, want := range map[time.Duration]string{
		0:                          "",
		-999 * time.Millisecond:    "",
		90 * time.Second:           "the store's clock is 1m30s ahead and is authoritative",
		-time.Hour:                 "the store's clock is 1h0m0s behind and is authoritative",
		time.Hour + time.Second:    "the store's clock is 1h0m1s ahead and is authoritative; expiry is suspended",
		-2*time.Hour - time.Minute: "the store's clock is 2h1m0s behind and is authoritative; expiry is suspended",
	} {
		require.Equal(t, want, clockNote(skew))
	}
}

// TestReady breaks the dependencies of a server and restores them.
func TestReady(t *testing.T) {
	cfg := testConfig(t, t.TempDir())
	s, _ := startServer(t, cfg)
	c := client(t)
	// probe returns the status and the failed checks.
	probe := func() (int, map[string]string) {
		t.Helper()
		code, body := get(t, c, s.rootURL()+"/readyz", "")
		var answer struct {
			Data struct {
				Status string
				Checks map[string]string
			}
			Error struct {
				Code    string
				Details map[string]string
			}
		}
		require.NoError(t, json.Unmarshal([]byte(body), &answer), body)
		if code == http.StatusOK {
			require.Equal(t, "ok", answer.Data.Status)
			return code, answer.Data.Checks
		}
		require.Equal(t, "SERVICE_UNAVAILABLE", answer.Error.Code)
		require.NotContains(t, body, "sqlite")
		require.NotContains(t, body, cfg.DataDir)
		return code, answer.Error.Details
	}
	// await waits for a status and returns the failed checks.
	await := func(want int) (found map[string]string) {
		t.Helper()
		require.Eventually(t, func() bool {
			var code int
			code, found = probe()
			return code == want
		}, assaytest.Limit, 100*time.Millisecond)
		return found
	}
	// requireReadyMetric waits for the result in /metrics, which runs the same checks as /readyz.
	requireReadyMetric := func(want string) {
		t.Helper()
		require.Eventually(t, func() bool {
			_, body := get(t, c, s.metricsURL(), "")
			return strings.Contains(body, "\nassay_ready "+want+"\n")
		}, assaytest.Limit, 100*time.Millisecond)
	}
	found := await(http.StatusOK)
	requireReadyMetric("1")
	for _, name := range []string{"intake", "store", "schema", "commits", "clock", "traces"} {
		require.True(t, strings.HasPrefix(found[name], "ok"), "%s: %s", name, found[name])
	}
	require.Len(t, found, 6)

	restore, err := sqlitetest.Hide(t.Context(), cfg.path(), "memory")
	require.NoError(t, err)
	found = await(http.StatusServiceUnavailable)
	require.Equal(t, "failed: not available", found["store"])
	require.Equal(t, "ok", found["intake"])
	requireReadyMetric("0")
	code, _ := get(t, c, s.rootURL()+"/livez", "")
	require.Equal(t, http.StatusOK, code)
	require.NoError(t, restore(t.Context()))
	await(http.StatusOK)

	// A newer version upgrades the schema, which this version does not support.
	require.NoError(t, sqlitetest.Upgrade(t.Context(), cfg.path(), 99, 99))
	found = await(http.StatusServiceUnavailable)
	require.Contains(t, found["schema"], "failed: the store has schema version 99, for programs that know 99 or newer")
	require.NoError(t, sqlitetest.Upgrade(t.Context(), cfg.path(), 99, 1))
	found = await(http.StatusOK)
	require.Contains(t, found["schema"], "ok: the store has version 99, newer than version ")

	s.draining.Store(true)
	found = await(http.StatusServiceUnavailable)
	require.Equal(t, map[string]string{"intake": "failed: shutting down"}, found)
}

// refusing is a store that can be read but not written to, as with a full disk.
type refusing struct {
	engine.Store
	err error
}

func (r *refusing) Commit(_ context.Context, _ time.Time, requests []delta.Request, merge func([]bool) *delta.Delta) error {
	merge(make([]bool, len(requests)))
	return r.err
}

func (*refusing) KnownServices(context.Context, string) ([]assay.ServiceKey, error) { return nil, nil }

func (*refusing) HashKey(context.Context, string) (delta.HashKey, error) {
	return delta.NewHashKey(make([]byte, delta.HashSecretBytes))
}

func (*refusing) KnownMetricNames(context.Context, string) (map[assay.ServiceKey][]uint64, error) {
	return nil, nil
}

// TestReadyWithoutCommits checks that a store that rejects commits is reported although no request waits,
// until a commit succeeds or no commit was tried for a while.
func TestReadyWithoutCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &refusing{}
		s := &server{engine: engine.New(engine.Config{Store: store})}
		defer func() { require.NoError(t, s.engine.Close(t.Context())) }()
		send := func(err error) {
			t.Helper()
			store.err = err
			q := rulestest.LogsRequest(rulestest.Logs(rulestest.Service("a"), rulestest.Log("x")))
			_, got := s.engine.Ingest(t.Context(), "org", q.Signal, q.Body)
			require.ErrorIs(t, got, err)
			synctest.Wait()
		}
		full := assay.Errorf(assay.CodeUnavailable, "disk full")
		require.NoError(t, s.checkCommits().Err)
		send(full)
		time.Sleep(refusedLimit - time.Millisecond)
		require.Equal(t, assay.CodeUnavailable, assay.ErrorCode(s.checkCommits().Err))
		time.Sleep(time.Millisecond)
		require.NoError(t, s.checkCommits().Err, "without commits the result would not change")
		send(full)
		require.Error(t, s.checkCommits().Err)
		send(nil)
		require.NoError(t, s.checkCommits().Err)
	})
}
