// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/assaytest"
	"assay/internal/auth"
	"assay/internal/lease"
	"assay/internal/score"
	"assay/internal/store/sqlite"
)

// replicaServer starts one of several servers on the store of a directory.
func replicaServer(t *testing.T, dir, name string) *server {
	t.Helper()
	cfg := testConfig(t, dir)
	cfg.ReplicaName = name
	s, _ := startServer(t, cfg)
	return s
}

// scoring returns the organizations that the servers score. It fails if two servers score the same one.
func scoring(t require.TestingT, servers ...*server) []string {
	holders := make(map[string]int)
	var all []string
	for i, s := range servers {
		for _, name := range s.replica.Held(score.Lease("")) {
			other, twice := holders[name]
			require.False(t, twice, "servers %d and %d score %s", i, other, name)
			holders[name] = i
			all = append(all, strings.TrimPrefix(name, score.Lease("")))
		}
	}
	return all
}

// TestReplicas runs two servers on one store: what they receive is merged, each organization is scored by one
// of them, and the other takes over when it stops.
func TestReplicas(t *testing.T) {
	dir := t.TempDir()
	a := replicaServer(t, dir, "a")
	for _, name := range []string{"second", "third", "fourth"} {
		require.Zero(t, call{}.run("organization", "create", name, "--data-dir", dir).code)
	}
	b := replicaServer(t, dir, "b")
	ids, err := a.store.OrganizationIDs(t.Context())
	require.NoError(t, err)
	require.Len(t, ids, 4)
	require.EventuallyWithT(t, func(ct *assert.CollectT) {
		require.ElementsMatch(ct, ids, scoring(ct, a, b))
		require.NotEmpty(ct, a.replica.Held(score.Lease("")))
		require.NotEmpty(ct, b.replica.Held(score.Lease("")))
		require.NotEqual(ct, a.replica.Holds(score.ExpiryLease), b.replica.Holds(score.ExpiryLease))
	}, assaytest.Limit, 100*time.Millisecond)
	_, metrics := get(t, client(t), a.metricsURL(), "")
	require.Contains(t, metrics, "\nassay_leases{kind=\"score\"} ")
	require.Contains(t, metrics, "\nassay_clock_skew_seconds ")

	// Either replica shows what the other one received, and recognises a repeated request.
	now := time.Now()
	sendAll(t, a, now)
	sendAll(t, b, now)
	c := client(t)
	awaitVerdicts(t, c, a)
	awaitVerdicts(t, c, b)
	_, metrics = get(t, c, b.metricsURL(), "")
	require.Contains(t, metrics, "\nassay_requests_repeated_total 6\n")

	require.NoError(t, stopServer(a))
	require.Empty(t, a.replica.Held(""))
	require.EventuallyWithT(t, func(ct *assert.CollectT) {
		require.ElementsMatch(ct, ids, scoring(ct, b))
		require.True(ct, b.replica.Holds(score.ExpiryLease))
	}, assaytest.Limit, 100*time.Millisecond)
	sendAll(t, b, now.Add(time.Second))
	awaitVerdicts(t, c, b)
}

// TestLogVolumeOfReplicas checks that log records that either replica receives are counted once in the
// responses of both.
func TestLogVolumeOfReplicas(t *testing.T) {
	dir := t.TempDir()
	a, b := replicaServer(t, dir, "a"), replicaServer(t, dir, "b")
	c, now := client(t), time.Now()
	for _, s := range []*server{a, b, a} {
		sendAll(t, s, now)
	}
	sendAll(t, b, now.Add(time.Second))
	for _, s := range []*server{a, b} {
		code, body := get(t, c, s.restURL()+"/v1/analytics/log-volume?period=1h", testKey)
		require.Equal(t, http.StatusOK, code, body)
		var got struct {
			Data struct {
				TotalCount int `json:"total_count"`
			}
		}
		require.NoError(t, json.Unmarshal([]byte(body), &got))
		require.Equal(t, 4, got.Data.TotalCount)
	}
}

// TestReplicaTakesOverAfterCrash starts a server while the leases of a killed one have not expired.
func TestReplicaTakesOverAfterCrash(t *testing.T) {
	dir := t.TempDir()
	first := replicaServer(t, dir, "first")
	ids, err := first.store.OrganizationIDs(t.Context())
	require.NoError(t, err)
	require.NoError(t, stopServer(first))

	s, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(dir, "assay.db")})
	require.NoError(t, err)
	defer s.Close()
	const dead = "dead"
	held, _, err := s.AcquireLeases(t.Context(), dead, []string{"replica:x/dead", score.ExpiryLease, score.Lease(ids[0])}, 3*time.Second)
	require.NoError(t, err)
	require.Len(t, held, 3)

	b := replicaServer(t, dir, "b")
	for {
		mine := scoring(t, b)
		names, err := s.LeaseNames(t.Context(), "replica:x/")
		require.NoError(t, err)
		if len(names) == 0 {
			break
		}
		require.Empty(t, mine, "the leases of the other one have not expired")
	}
	sendAll(t, b, time.Now())
	awaitVerdicts(t, client(t), b)
	require.Equal(t, ids, scoring(t, b))
}

// TestConcurrentBootstrap starts several servers on one empty store at the same time.
func TestConcurrentBootstrap(t *testing.T) {
	for name, given := range map[string]auth.Secret{"made": "", "given": testKey} {
		t.Run(name, func(t *testing.T) {
			const servers = 4
			path := filepath.Join(t.TempDir(), "assay.db")
			cfg := testConfig(t, filepath.Dir(path))
			cfg.APIKeyPrefix, cfg.BootstrapAPIKey = assay.DefaultAPIKeyPrefix, given
			var mu sync.Mutex
			var made []auth.Secret
			var wg sync.WaitGroup
			for range servers {
				s, err := sqlite.Open(t.Context(), sqlite.Config{Path: path, Migrate: true})
				require.NoError(t, err)
				defer s.Close()
				wg.Go(func() {
					key, err := bootstrap(t.Context(), s, lease.New(lease.Config{Store: s}), &cfg, func(auth.Secret) error { return nil }, slog.New(slog.DiscardHandler))
					assert.NoError(t, err)
					if key != "" {
						mu.Lock()
						defer mu.Unlock()
						made = append(made, key)
					}
				})
			}
			wg.Wait()
			s, err := sqlite.Open(t.Context(), sqlite.Config{Path: path})
			require.NoError(t, err)
			defer s.Close()
			organizations, err := s.FindOrganizations(t.Context())
			require.NoError(t, err)
			require.Len(t, organizations, 1)
			keys, err := s.FindAPIKeys(t.Context(), organizations[0].ID)
			require.NoError(t, err)
			require.Len(t, keys, 1)
			want := given
			if given == "" {
				require.Len(t, made, 1, "only one server creates the key")
				want = made[0]
			} else {
				require.Empty(t, made)
			}
			require.Equal(t, auth.HashKey(want), keys[0].Hash)
			leases, err := s.LeaseNames(t.Context(), "")
			require.NoError(t, err)
			require.Empty(t, leases)
		})
	}
}

// TestBootstrapWaits checks the timeout for the other server's bootstrap.
func TestBootstrapWaits(t *testing.T) {
	s, err := sqlite.Open(t.Context(), sqlite.Config{})
	require.NoError(t, err)
	defer s.Close()
	other := lease.New(lease.Config{Store: s})
	held, err := other.Acquire(t.Context(), bootstrapLease)
	require.NoError(t, err)
	require.True(t, held)
	cfg := testConfig(t, "")
	ctx, cancel := context.WithTimeout(t.Context(), 3*bootstrapWait)
	defer cancel()
	_, err = bootstrap(ctx, s, lease.New(lease.Config{Store: s}), &cfg, func(auth.Secret) error { return nil }, slog.New(slog.DiscardHandler))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	_, err = s.FindOrganizationByName(t.Context(), firstOrganization)
	require.Equal(t, assay.CodeNotFound, assay.ErrorCode(err))
}

func TestReplicaName(t *testing.T) {
	for name, good := range map[string]bool{
		"": true, "web-1.example_x": true, "a/b": false, "a:b": false, "ä": false, strings.Repeat("x", 256): false,
	} {
		c := replicaConfig{ReplicaName: name}
		require.Equal(t, good, len(c.problems()) == 0, "%q", name)
	}
}
