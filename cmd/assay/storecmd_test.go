// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// storeWith creates a store with an organization in a new directory.
func storeWith(t *testing.T, name string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	r := call{}.run("organization", "create", name, "--data-dir", dir)
	require.Zero(t, r.code, r.stderr)
	return dir
}

func TestStoreMigrate(t *testing.T) {
	dir := t.TempDir()
	migrate := func(args ...string) result {
		return call{}.run(append([]string{"store", "migrate", "--data-dir", dir}, args...)...)
	}
	r := migrate("--dry-run")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.stderr, "there is no store at")
	require.Empty(t, entries(t, dir), "no file is created")
	require.Contains(t, migrate().stderr, "is up to date: it has schema version ")
	require.Contains(t, migrate("--dry-run").stderr, "is up to date: it has schema version ")
}

func entries(t *testing.T, dir string) (names []string) {
	t.Helper()
	found, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range found {
		names = append(names, e.Name())
	}
	return names
}

// TestStoreBackup backs up a store that a server has open, and restores it after the server has stopped.
func TestStoreBackup(t *testing.T) {
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "backup.db")
	cfg := testConfig(t, dir)
	s, _ := startServer(t, cfg)
	assay := func(args ...string) result { return call{}.run(append(args, "--data-dir", dir)...) }
	require.Zero(t, assay("organization", "create", "before").code)
	r := assay("store", "backup", file)
	require.Zero(t, r.code, r.stderr)
	require.Contains(t, r.stderr, "is backed up to "+file+" (schema version ")
	require.Empty(t, r.stdout)
	require.Zero(t, assay("organization", "create", "after").code)

	r = assay("store", "backup", file)
	require.Equal(t, 1, r.code)
	require.Contains(t, r.stderr, "exists already (--force replaces it)")
	copied := filepath.Join(t.TempDir(), "copy.db")
	require.Zero(t, assay("store", "backup", copied).code)
	require.Zero(t, assay("store", "backup", copied, "--force").code)

	r = assay("store", "restore", file, "--force")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.stderr, "is in use; stop the servers first")
	require.NoError(t, stopServer(s))
	r = assay("store", "restore", file)
	require.Equal(t, 1, r.code)
	require.Contains(t, r.stderr, "exists already (--force replaces it)")
	require.Contains(t, assay("organization", "list").stdout, "after")
	r = assay("store", "restore", file, "--force")
	require.Zero(t, r.code, r.stderr)
	require.NotContains(t, r.stderr, "credential-key", "the data directory has the key")
	list := assay("organization", "list").stdout
	require.Contains(t, list, "before")
	require.NotContains(t, list, "after")

	restored, log := startServer(t, cfg)
	code, _ := get(t, client(t), restored.restURL()+"/v1/organization", testKey)
	require.Equal(t, 200, code)
	requireNoErrors(t, log)
	require.NoError(t, stopServer(restored))

	// Restore to another directory.
	other := filepath.Join(t.TempDir(), "new")
	r = call{}.run("store", "restore", file, "--data-dir", other)
	require.Zero(t, r.code, r.stderr)
	require.Contains(t, r.stderr, "copy the file credential-key of the former data directory to "+other)
	require.Contains(t, call{}.run("organization", "list", "--data-dir", other).stdout, "before")
	// A server warns once that it cannot use the credentials of the backup, and uses its own key from then on.
	cfg = testConfig(t, other)
	for _, warnings := range []int{1, 0} {
		s, log := startServer(t, cfg)
		require.NoError(t, stopServer(s))
		require.Equal(t, warnings, strings.Count(log.String(), "are encrypted with another key"))
	}

	nowhere := t.TempDir()
	r = call{}.run("store", "backup", file+".2", "--data-dir", nowhere)
	require.Equal(t, 1, r.code)
	require.Contains(t, r.stderr, "there is no store at")
	require.Empty(t, entries(t, nowhere))
	r = call{}.run("store", "restore", filepath.Join(nowhere, "none"), "--data-dir", nowhere)
	require.Equal(t, 1, r.code)
	require.Contains(t, r.stderr, "no such file")
}

func TestStoreStats(t *testing.T) {
	dir := storeWith(t, "acme")
	stats := func(args ...string) string {
		r := call{}.run(append([]string{"store", "stats", "--data-dir", dir}, args...)...)
		require.Zero(t, r.code, r.stderr)
		return r.stdout
	}
	text := stats()
	for _, want := range []string{
		"organizations          1\n", "services               0\n", "oldest bucket          -\n", "per service and month  about 0 B\n", "\nTABLE ", "\norganizations ",
	} {
		require.Contains(t, text, want)
	}
	var st storeStats
	require.NoError(t, json.Unmarshal([]byte(stats("--format", "json")), &st))
	require.Equal(t, filepath.Join(dir, "assay.db"), st.Store)
	require.EqualValues(t, 1, st.Organizations)
	require.Nil(t, st.OldestBucket)
	require.Equal(t, st.Schema.Known, st.Schema.Version)
	require.Positive(t, st.Bytes)
	for _, table := range st.Tables {
		require.Positive(t, table.Bytes, table.Name)
		require.NotContains(t, table.Name, "sqlite_")
	}
}

// TestPostgresBackupCommands checks that the command prints the commands to run, without the password.
func TestPostgresBackupCommands(t *testing.T) {
	const store = "postgres://ops:se%27cret@db.example.com:5432/assay?pool_max_conns=7&search_path=x&sslmode=verify-full&sslpassword=hidden"
	secret := file(t, "store", store+"\n")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"backup", "my file"}, "  pg_dump --format=custom --file='my file' --dbname='postgres://ops@db.example.com:5432/assay?sslmode=verify-full'\n"},
		{[]string{"restore", "file"}, "  createdb --maintenance-db='postgres://ops@db.example.com:5432/postgres?sslmode=verify-full' --template=template0 --encoding=UTF8 assay\n" +
			"  pg_restore --no-owner --single-transaction --dbname='postgres://ops@db.example.com:5432/assay?sslmode=verify-full' file\n"},
	} {
		for _, from := range []call{{environ: []string{"ASSAY_STORE=" + store}}, {environ: []string{"ASSAY_STORE_FILE=" + secret}}} {
			r := from.run(append([]string{"store"}, c.args...)...)
			require.Equal(t, exitUsage, r.code)
			require.Empty(t, r.stdout)
			require.Contains(t, r.stderr, c.want)
			require.Contains(t, r.stderr, "PGPASSWORD")
			require.NotContains(t, r.stderr, "cret")
			require.NotContains(t, r.stderr, "hidden")
		}
	}
	r := call{}.run("store", "backup", "f", "--store", "postgres:///assay?host=/run/postgresql")
	require.Equal(t, exitUsage, r.code)
	require.NotContains(t, r.stderr, "PGPASSWORD")
	require.NoFileExists(t, "f")
}

func TestStoreSetting(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"both":      {[]string{"--store", "postgres://a/b", "--store-file", file(t, "s", "postgres://a/b")}, "--store and --store-file are both set"},
		"no file":   {[]string{"--store-file", "/does/not/exist"}, "--store-file: "},
		"kind":      {[]string{"--store", "mysql://se-cret@h/d"}, "unknown kind of store"},
		"slash":     {[]string{"--store", "postgres://u:1234/se-cret@127.0.0.1:1/d"}, "escape reserved characters"},
		"at":        {[]string{"--store", "postgres://u:p@127.0.0.1/se-cret@127.0.0.1:1/d"}, "escape reserved characters"},
		"question":  {[]string{"--store", "postgres://u:1234?se-cret@127.0.0.1:1/d"}, "escape reserved characters"},
		"hash":      {[]string{"--store", "postgres://u:1234#se-cret@127.0.0.1:1/d"}, "escape reserved characters"},
		"malformed": {[]string{"--store", "postgres://u:se-cret%zz@h/d"}, "escape reserved characters"},
		"conns":     {[]string{"--store-max-conns", "-1"}, "--store-max-conns"},
		"timeout":   {[]string{"--store-statement-timeout", "0s"}, "--store-statement-timeout"},
	} {
		r := call{}.run(append([]string{"store", "stats"}, c.args...)...)
		require.Equal(t, exitUsage, r.code, name)
		require.Contains(t, r.stderr, c.want, name)
		require.NotContains(t, r.stderr, "se-cret", name)
	}
	// No server listens on this port.
	r := call{}.run("organization", "list", "--store", "postgres://u:se-cret@127.0.0.1:1/assay?connect_timeout=2")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.stderr, "open the store postgres://127.0.0.1:1/assay: ")
	require.NotContains(t, r.stderr, "se-cret")
	require.Contains(t, call{}.run("organization", "list", "--store", "sqlite", "--data-dir", t.TempDir()).stderr, "there is no store at")
}

func TestShellQuote(t *testing.T) {
	for in, want := range map[string]string{"": "''", "a-b_c/d.e": "a-b_c/d.e", "a b": "'a b'", "a'b": `'a'\''b'`, "$(x)": "'$(x)'", "a?b&c": "'a?b&c'", "~": "'~'"} {
		require.Equal(t, want, shellQuote(in))
	}
	u, err := url.Parse("postgres://a,b:5432/d?password=x&target_session_attrs=read-write")
	require.NoError(t, err)
	require.Equal(t, "postgres://a,b:5432/d?target_session_attrs=read-write", libpqURL(u))
	require.True(t, strings.HasPrefix(libpqURL(u), "postgres://"))
}
