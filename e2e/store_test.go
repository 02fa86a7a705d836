// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"assay"
	"assay/internal/engine"
	"assay/internal/score"
	"assay/internal/store/postgres"
	"assay/internal/store/postgres/pgtest"
	"assay/internal/store/sqlite"
	"assay/internal/store/sqlite/sqlitetest"
)

// The suite runs on each store: go test ./e2e -store postgres.
var storeKind = flag.String("store", "sqlite", "Store of the servers under test: sqlite or postgres")

// databases is the PostgreSQL server; nil with sqlite.
var databases *pgtest.Server

func TestMain(m *testing.M) {
	flag.Parse()
	if *storeKind == "postgres" {
		config := pgtest.Config{Settings: map[string]string{"max_connections": "400"}}
		goleak.VerifyTestMain(pgtest.With(m, config, &databases))
	}
	goleak.VerifyTestMain(m)
}

// database returns the URL of the database for a data directory. It creates the database on first use.
var database = func() func(t *testing.T, dir string) string {
	var mu sync.Mutex
	urls := make(map[string]string)
	return func(t *testing.T, dir string) string {
		t.Helper()
		mu.Lock()
		defer mu.Unlock()
		if urls[dir] == "" {
			url, err := databases.NewDatabase(t.Context())
			require.NoError(t, err)
			urls[dir] = url
		}
		return urls[dir]
	}
}()

// storeEnviron returns the environment of a program that uses the store of a data directory.
func storeEnviron(t *testing.T, dir string) []string {
	t.Helper()
	if databases == nil {
		return nil
	}
	secret := filepath.Join(dir, "secret.key")
	if _, err := os.Stat(secret); err != nil {
		require.NoError(t, os.WriteFile(secret, []byte(strings.Repeat("0a", 32)), 0o600))
	}
	return []string{"ASSAY_STORE=" + database(t, dir), "ASSAY_METRICS_STORE=embedded", "ASSAY_SECRET_KEY_FILE=" + secret}
}

// opened is the part of a store that tests use directly.
type opened interface {
	engine.Store
	score.Store
	assay.OrganizationStore
	assay.ServiceStore
	assay.InsightStore
	Close() error
}

// openCopy opens a copy of the store of a data directory whose server has stopped.
func openCopy(t *testing.T, dir string, now func() time.Time) opened {
	t.Helper()
	if databases != nil {
		url, err := databases.NewDatabaseFrom(t.Context(), database(t, dir))
		require.NoError(t, err)
		store, err := postgres.Open(t.Context(), postgres.Config{URL: url, Now: now})
		require.NoError(t, err)
		return store
	}
	copied := t.TempDir()
	require.NoError(t, os.CopyFS(copied, os.DirFS(dir)))
	store, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(copied, "assay.db"), Now: now})
	require.NoError(t, err)
	return store
}

// openNew opens an empty store.
func openNew(t *testing.T, now func() time.Time) opened {
	t.Helper()
	dir := t.TempDir()
	if databases != nil {
		store, err := postgres.Open(t.Context(), postgres.Config{URL: database(t, dir), Migrate: true, Now: now})
		require.NoError(t, err)
		return store
	}
	store, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(dir, "assay.db"), Migrate: true, Now: now})
	require.NoError(t, err)
	return store
}

// hideTables renames tables of the store of a data directory.
func hideTables(t *testing.T, dir string, tables ...string) (restore func(context.Context) error) {
	t.Helper()
	var err error
	if databases != nil {
		restore, err = pgtest.Hide(t.Context(), database(t, dir), tables...)
	} else {
		restore, err = sqlitetest.Hide(t.Context(), filepath.Join(dir, "assay.db"), tables...)
	}
	require.NoError(t, err)
	return restore
}

// addStore adds the content of the store of a data directory.
func (h *haystack) addStore(t *testing.T, name, dir string) {
	t.Helper()
	h.addFiles(t, name, dir)
	if databases == nil {
		return
	}
	values, err := pgtest.Values(t.Context(), database(t, dir))
	require.NoError(t, err)
	for table, all := range values {
		h.add(name+" "+table, all)
	}
}
