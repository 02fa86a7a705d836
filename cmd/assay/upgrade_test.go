// SPDX-License-Identifier: Apache-2.0

package main

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay/internal/assaytest"
	"assay/internal/logvolume/logvolumetest"
)

// previousStore is the store of a server of the previous version, with schema version 6. It has evaluated
// telemetry of three services over five hours, two organizations, keys of which one is revoked, and a muted
// insight. Its bootstrap key is testKey.
const previousStore = "testdata/store-v6.db.gz"

// previousEnd is the time at which that server stopped.
var previousEnd = time.Date(2026, time.November, 22, 2, 59, 0, 0, time.UTC)

// TestUpgrade starts a server on the store of the previous version, and rolls back with a backup.
func TestUpgrade(t *testing.T) {
	defer func(clock func() time.Time) { wallClock = clock }(wallClock)
	shift := time.Until(previousEnd)
	wallClock = func() time.Time { return time.Now().Add(shift) }

	cfg := testConfig(t, t.TempDir())
	decompressStore(t, cfg.path())
	logvolumetest.Unpack(t, cfg.DataDir)
	require.NoError(t, os.Chmod(filepath.Join(cfg.DataDir, "metrics"), 0o755))
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
	testPreviousLogVolume(t, c, s)
	require.Contains(t, log.String(), "imported the log volume of an earlier version")
	imported, err := filepath.Glob(filepath.Join(cfg.DataDir, "metrics.imported-*"))
	require.NoError(t, err)
	require.Len(t, imported, 1)
	require.NoDirExists(t, filepath.Join(cfg.DataDir, "metrics"))
	r = assay("organization", "list")
	require.Zero(t, r.code, r.stderr)
	require.Contains(t, r.stdout, "org_globex")

	// The upgraded store accepts telemetry.
	sendAll(t, s, wallClock())
	require.Eventually(t, func() bool {
		scored := 0
		for _, svc := range getList(t, c, s.restURL()+"/v1/services").Data {
			if svc.Score != nil {
				scored++
			}
		}
		return scored == 5
	}, assaytest.Limit, 50*time.Millisecond)
	require.NoError(t, stopServer(s))
	requireNoErrors(t, log)

	// Restore the backup for the previous version, and upgrade it a second time.
	r = assay("store", "restore", backup, "--force")
	require.Zero(t, r.code, r.stderr)
	require.Contains(t, assay("store", "migrate", "--dry-run").stderr, "has to be migrated: it has schema version 6")
	require.NoError(t, os.Rename(imported[0], filepath.Join(cfg.DataDir, "metrics")))
	for _, imports := range []bool{true, false} {
		upgraded, log := startServer(t, cfg)
		testPreviousStore(t, c, upgraded)
		testPreviousLogVolume(t, c, upgraded)
		require.NoError(t, stopServer(upgraded))
		requireNoErrors(t, log)
		require.Equal(t, imports, strings.Contains(log.String(), "imported the log volume of an earlier version"))
	}
}

func decompressStore(t *testing.T, to string) {
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

// testPreviousLogVolume compares log volume with the responses of the previous version. The first records of
// the 24-hour period leave it after two hours, those of the 30-day period during the test.
func testPreviousLogVolume(t *testing.T, c *http.Client, s *server) {
	t.Helper()
	total := func(period string) int {
		t.Helper()
		code, body := get(t, c, s.restURL()+"/v1/analytics/log-volume?period="+period, testKey)
		require.Equal(t, http.StatusOK, code, body)
		var got struct {
			Data struct {
				TotalCount int `json:"total_count"`
			}
		}
		require.NoError(t, json.Unmarshal([]byte(body), &got))
		return got.Data.TotalCount
	}
	require.Equal(t, logvolumetest.Day, total("24h"))
	require.InEpsilon(t, logvolumetest.Month, total("30d"), 0.02)
}

// testPreviousStore checks the content of previousStore.
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
