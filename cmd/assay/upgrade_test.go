// SPDX-License-Identifier: Apache-2.0

package main

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// previousStore is what a server of the version before left behind, with schema version
// 6: telemetry of three services in five hours, judged; two organizations; keys, of which
// one is revoked; a muted insight. Its bootstrap key is testKey.
const previousStore = "testdata/store-v6.db.gz"

// previousEnd is when that server ended.
var previousEnd = time.Date(2026, time.November, 22, 2, 59, 0, 0, time.UTC)

// TestUpgrade starts a server on the store of the version before, and takes that back by a
// backup.
func TestUpgrade(t *testing.T) {
	defer func(clock func() time.Time) { wallClock = clock }(wallClock)
	shift := time.Until(previousEnd)
	wallClock = func() time.Time { return time.Now().Add(shift) }

	cfg := testConfig(t, t.TempDir())
	unpackStore(t, cfg.path())
	assay := func(args ...string) result { return call{}.run(append(args, "--data-dir", cfg.DataDir)...) }
	r := assay("organization", "list")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.stderr, "migrate the store first")
	require.Contains(t, assay("store", "migrate", "--dry-run").stderr, "has to be migrated: it has schema version 6")
	backup := filepath.Join(t.TempDir(), "before.db")
	r = assay("store", "backup", backup)
	require.Zero(t, r.code, r.stderr)
	require.Contains(t, r.stderr, "(schema version 6)")

	s, log := startServer(t, cfg)
	c := client(t)
	testPreviousStore(t, c, s)
	r = assay("organization", "list")
	require.Zero(t, r.code, r.stderr)
	require.Contains(t, r.stdout, "org_globex")

	// It goes on.
	sendAll(t, s, wallClock())
	require.Eventually(t, func() bool {
		scored := 0
		for _, svc := range getList(t, c, s.restURL()+"/v1/services").Data {
			if svc.Score != nil {
				scored++
			}
		}
		return scored == 5
	}, 20*time.Second, 50*time.Millisecond)
	require.NoError(t, stopServer(s))
	require.NotContains(t, log.String(), "level=ERROR")

	// Back, for the version before, and forth again.
	r = assay("store", "restore", backup, "--force")
	require.Zero(t, r.code, r.stderr)
	require.Contains(t, assay("store", "migrate", "--dry-run").stderr, "has to be migrated: it has schema version 6")
	again, log := startServer(t, cfg)
	testPreviousStore(t, c, again)
	require.NoError(t, stopServer(again))
	require.NotContains(t, log.String(), "level=ERROR")
}

func unpackStore(t *testing.T, to string) {
	t.Helper()
	packed, err := os.Open(previousStore)
	require.NoError(t, err)
	defer packed.Close()
	text, err := gzip.NewReader(packed)
	require.NoError(t, err)
	f, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	require.NoError(t, err)
	_, err = io.Copy(f, text)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

// testPreviousStore looks for all that is in previousStore.
func testPreviousStore(t *testing.T, c *http.Client, s *server) {
	t.Helper()
	read := func(path string, into any) {
		t.Helper()
		code, body := get(t, c, s.restURL()+path, testKey)
		require.Equal(t, http.StatusOK, code, body)
		require.NoError(t, json.Unmarshal([]byte(body), into))
	}
	var organization struct {
		Data struct {
			Name     string
			Score    struct{ Value int }
			Services int `json:"services_count"`
			Insights int `json:"active_insights_count"`
		}
	}
	read("/v1/organization", &organization)
	require.Equal(t, "default", organization.Data.Name)
	require.Equal(t, 84, organization.Data.Score.Value)
	require.Equal(t, 3, organization.Data.Services)
	require.Equal(t, 10, organization.Data.Insights)

	scores := map[string]int{}
	for _, svc := range getList(t, c, s.restURL()+"/v1/services").Data {
		require.NotNil(t, svc.Score, svc.Name)
		scores[svc.Name] = svc.Score.Score
	}
	require.Equal(t, map[string]int{"cart": 84, "checkout": 95, "search": 72}, scores)

	statuses := map[string]int{}
	for _, i := range getList(t, c, s.restURL()+"/v1/insights?limit=100").Data {
		statuses[i.Status]++
	}
	require.Equal(t, map[string]int{"active": 10, "muted": 1}, statuses)
	muted := getList(t, c, s.restURL()+"/v1/insights?status=muted").Data
	require.Equal(t, "0e307064-3b30-5373-9f3e-8f5397df0dff", muted[0].ID)

	var usage struct {
		Data struct {
			Bytes    int `json:"total_bytes"`
			Services []struct {
				Name   string
				Spans  int `json:"traces_count"`
				Points int `json:"metrics_count"`
				Logs   int `json:"logs_count"`
				Series int `json:"active_series"`
			}
		}
	}
	read("/v1/analytics/services", &usage)
	require.Equal(t, 18360, usage.Data.Bytes)
	require.Len(t, usage.Data.Services, 3)
	for _, svc := range usage.Data.Services {
		require.Equal(t, 30, svc.Spans, svc.Name)
		require.Equal(t, 20, svc.Points, svc.Name)
		require.Equal(t, 4, svc.Series, svc.Name)
	}

	var keys []keyRow
	r := call{}.run("key", "list", "--format", "json", "--data-dir", s.cfg.DataDir)
	require.Zero(t, r.code, r.stderr)
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &keys))
	got := map[string]string{}
	for _, k := range keys {
		got[k.Name] = k.Organization + " " + k.Status
	}
	require.Equal(t, map[string]string{"bootstrap": "default active", "ci": "globex active", "old": "default revoked"}, got)

	_, jwks := get(t, c, s.rootURL()+jwksPath, "")
	require.Contains(t, jwks, "TCC3H2XUFTJKDIVM", "the key that tokens were signed with")
}
