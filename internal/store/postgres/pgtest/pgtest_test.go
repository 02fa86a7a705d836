// SPDX-License-Identifier: Apache-2.0

package pgtest_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"assay/internal/store/postgres/pgtest"
)

// childEnv makes the test binary a program that starts a server and waits to be killed.
const childEnv = "PGTEST_CHILD_DIR"

var server *pgtest.Server

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		s, err := pgtest.Start(pgtest.Config{Dir: dir})
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(s.URL())
		select {}
	}
	goleak.VerifyTestMain(pgtest.With(m, pgtest.Config{}, &server))
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close(context.Background()) }) // the server may have stopped
	return c
}

func number(t *testing.T, c *pgx.Conn, query string) (n int64) {
	t.Helper()
	require.NoError(t, c.QueryRow(t.Context(), query).Scan(&n))
	return n
}

func TestDatabases(t *testing.T) {
	ctx := t.Context()
	first, err := server.NewDatabase(ctx)
	require.NoError(t, err)
	c := connect(t, first)
	_, err = c.Exec(ctx, `CREATE TABLE t AS SELECT 7::bigint AS n`)
	require.NoError(t, err)
	var encoding, order, fsync string
	require.NoError(t, c.QueryRow(ctx, `SELECT current_setting('server_encoding'), datcollate, current_setting('fsync')
FROM pg_database WHERE datname = current_database()`).Scan(&encoding, &order, &fsync))
	require.Equal(t, []string{"UTF8", "C", "off"}, []string{encoding, order, fsync})
	require.NoError(t, c.Close(ctx))

	second, err := server.NewDatabaseFrom(ctx, first)
	require.NoError(t, err)
	require.NotEqual(t, first, second)
	c = connect(t, second)
	require.EqualValues(t, 7, number(t, c, `SELECT n FROM t`))
	third, err := server.NewDatabase(ctx)
	require.NoError(t, err)
	require.Zero(t, number(t, connect(t, third), `SELECT count(*) FROM pg_class WHERE relname = 't'`), "empty")

	require.NoError(t, server.DropDatabase(ctx, second), "with a connection to it")
	_, err = pgx.Connect(ctx, second)
	require.ErrorContains(t, err, "does not exist")
}

func TestStops(t *testing.T) {
	ctx := t.Context()
	s, err := pgtest.Start(pgtest.Config{TCP: true, Durable: true, Password: "p@ss/word?", Settings: map[string]string{"max_connections": "7"}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	require.True(t, strings.HasPrefix(s.Address(), "127.0.0.1:"))
	url, err := s.NewDatabase(ctx)
	require.NoError(t, err)
	require.Contains(t, url, s.Address())
	_, err = pgx.Connect(ctx, strings.Replace(url, "p%40ss", "other", 1))
	require.ErrorContains(t, err, "authentication failed")
	require.ErrorContains(t, s.StartAgain(ctx), "runs already")

	c := connect(t, url)
	require.EqualValues(t, 7, number(t, c, `SELECT current_setting('max_connections')::bigint`))
	require.EqualValues(t, 1, number(t, c, `SELECT count(*) FROM pg_settings WHERE name = 'fsync' AND setting = 'on'`))
	_, err = c.Exec(ctx, `CREATE TABLE t (n bigint)`)
	require.NoError(t, err)
	for _, stop := range []func(context.Context) error{s.StopImmediate, s.Stop} {
		_, err := c.Exec(ctx, `INSERT INTO t VALUES (1)`)
		require.NoError(t, err)
		require.NoError(t, stop(ctx))
		require.NoError(t, stop(ctx), "again")
		_, err = pgx.Connect(ctx, url)
		require.Error(t, err)
		require.NoError(t, s.StartAgain(ctx))
		c = connect(t, url)
	}
	require.EqualValues(t, 2, number(t, c, `SELECT count(*) FROM t`))
	require.Contains(t, s.Log(), "immediate shutdown request")
	require.Contains(t, s.Log(), "fast shutdown request")
}

// serverDir returns a directory that the server's user can read.
func serverDir(t *testing.T) string {
	dir := t.TempDir()
	for _, d := range []string{filepath.Dir(dir), dir} {
		require.NoError(t, os.Chmod(d, 0o755))
	}
	return dir
}

func TestStartFails(t *testing.T) {
	dir := serverDir(t)
	_, err := pgtest.Start(pgtest.Config{Dir: dir, Settings: map[string]string{"no_such_parameter": "1"}})
	require.ErrorContains(t, err, `unrecognized configuration parameter "no_such_parameter"`)
	require.NotContains(t, err.Error(), "postgres://")
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

// TestKilled: a server ends with its process, and the next server deletes its files.
func TestKilled(t *testing.T) {
	dir := serverDir(t)
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), childEnv+"="+dir)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	url, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	url = strings.TrimSpace(url)
	c := connect(t, url)
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	require.Len(t, left, 1)

	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	require.Eventually(t, func() bool {
		_, err := c.Exec(t.Context(), `SELECT 1`)
		return err != nil
	}, time.Minute, 10*time.Millisecond)
	_, err = pgx.Connect(t.Context(), url)
	require.Error(t, err)

	s, err := pgtest.Start(pgtest.Config{Dir: dir})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	require.NoDirExists(t, left[0])
}
