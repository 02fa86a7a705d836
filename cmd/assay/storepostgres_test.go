// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay/internal/auth"
	"assay/internal/store/postgres/pgtest"
)

// TestPostgres runs every command and a server on PostgreSQL. It backs up and restores the database with the
// printed commands.
func TestPostgres(t *testing.T) {
	pg, err := pgtest.Start(pgtest.Config{TCP: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, pg.Close()) }()
	store, err := pg.NewDatabase(t.Context())
	require.NoError(t, err)
	secret := file(t, "store", store+"\n")
	assay := func(args ...string) result { return call{}.run(append(args, "--store-file", secret)...) }

	// An empty database is like a missing file.
	r := assay("organization", "list")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.stderr, "migrate the store first")
	require.Contains(t, assay("store", "migrate", "--dry-run").stderr, "has to be migrated: it has schema version 0")
	other, err := pg.NewDatabase(t.Context())
	require.NoError(t, err)
	require.Zero(t, call{}.run("organization", "create", "first", "--store", other).code)
	r = assay("store", "migrate")
	require.Zero(t, r.code, r.stderr)
	require.NotContains(t, r.stderr, "@")
	require.Contains(t, assay("store", "migrate", "--dry-run").stderr, "is up to date")

	cfg := testConfig(t, t.TempDir())
	cfg.Store = auth.Secret(store)
	s, log := startServer(t, cfg)
	now := time.Now()
	sendAll(t, s, now)
	c := client(t)
	awaitVerdicts(t, c, s)
	require.NoFileExists(t, cfg.path())
	require.Zero(t, assay("organization", "create", "before").code)
	id := getList(t, c, s.restURL()+"/v1/insights?limit=1").Data[0].ID
	for _, args := range [][]string{
		{"organization", "set-tier", "before", "pro"},
		{"organization", "set-external-id", "before", "org_1"},
		{"key", "create", "--organization", "before", "--name", "ci"},
		{"key", "list"},
		{"insight", "list"},
		{"insight", "mute", id},
		{"signing-key", "rotate"},
		{"store", "stats"},
	} {
		r := assay(args...)
		require.Zero(t, r.code, "%v: %s", args, r.stderr)
	}
	var st storeStats
	require.NoError(t, json.Unmarshal([]byte(assay("store", "stats", "--format", "json").stdout), &st))
	require.EqualValues(t, 2, st.Organizations)
	require.EqualValues(t, 2, st.Services)
	require.NotNil(t, st.NewestBucket)
	require.Positive(t, st.PerServiceMonth)
	require.NotContains(t, st.Store, "@")

	u, err := url.Parse(store)
	require.NoError(t, err)
	password, _ := u.User.Password()
	// tools runs the commands that a call prints.
	tools := func(args ...string) {
		t.Helper()
		r := call{}.run(args...)
		require.Equal(t, exitUsage, r.code)
		require.NotContains(t, r.stderr, password)
		ran := 0
		for line := range strings.Lines(r.stderr) {
			command, ok := strings.CutPrefix(line, "  ")
			if !ok {
				continue
			}
			cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
			cmd.Env = []string{"PATH=" + pg.Programs() + ":" + os.Getenv("PATH"), "PGPASSWORD=" + password}
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s: %s", command, out)
			ran++
		}
		require.Positive(t, ran, r.stderr)
	}
	dump := filepath.Join(t.TempDir(), "a dump")
	tools("store", "backup", dump, "--store", store)

	// Write more of everything.
	require.Zero(t, assay("organization", "create", "after").code)
	require.Zero(t, assay("insight", "unmute", id).code)
	body, err := logRequest("late", now.Add(-10*24*time.Hour)).MarshalProto()
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, post(t, c, s, "logs", "application/x-protobuf", testKey, body))
	require.NoError(t, stopServer(s))
	require.NotContains(t, log.String(), password)

	u.Path = "/restored"
	store, cfg.Store = u.String(), auth.Secret(u.String())
	tools("store", "restore", dump, "--store", store)
	require.NoError(t, os.WriteFile(secret, []byte(store), 0o600))
	list := assay("organization", "list").stdout
	require.Contains(t, list, "before")
	require.NotContains(t, list, "after")
	require.Contains(t, assay("insight", "list", "--status", "muted").stdout, id)
	restarted, log := startServer(t, cfg)
	require.Equal(t, 2, getList(t, c, restarted.restURL()+"/v1/services").Meta.Total)
	require.Equal(t, http.StatusOK, post(t, c, restarted, "logs", "application/x-protobuf", testKey, body), "the restored store accepts telemetry")
	require.NoError(t, stopServer(restarted))
	requireNoErrors(t, log)
}
