// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/stretchr/testify/require"

	"assay"
)

func TestSchema(t *testing.T) {
	address, err := server.NewDatabase(t.Context())
	require.NoError(t, err)
	_, err = Open(t.Context(), Config{URL: address})
	require.ErrorContains(t, err, "migrate the store first")
	s, err := Open(t.Context(), Config{URL: address, Migrate: true, MaxConns: 1})
	require.NoError(t, err)
	_, err = s.pool.Exec(t.Context(), `INSERT INTO goose_db_version (version_id, is_applied) VALUES (99, true)`)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	open := func(migrate bool) error {
		s, err := Open(t.Context(), Config{URL: address, Migrate: migrate})
		if err != nil {
			return err
		}
		return s.Close()
	}
	for _, migrate := range []bool{false, true} {
		require.NoError(t, open(migrate), "a newer schema that was made for this program, too")
	}
	s, err = Open(t.Context(), Config{URL: address})
	require.NoError(t, err)
	_, err = s.pool.Exec(t.Context(), `UPDATE memory SET value = 99 WHERE name = 'compatible_since'`)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	for _, migrate := range []bool{false, true} {
		require.ErrorContains(t, open(migrate), "use a newer program")
	}
}

// said is a log handler that signals a message.
type said struct {
	slog.Handler
	message string
	once    sync.Once
	heard   chan struct{}
}

func (s *said) Enabled(context.Context, slog.Level) bool { return true }

func (s *said) Handle(_ context.Context, r slog.Record) error {
	if strings.Contains(r.Message, s.message) {
		s.once.Do(func() { close(s.heard) })
	}
	return nil
}

// TestMigrationWaits: a replica that waits for another one's migration logs it.
func TestMigrationWaits(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	address, err := server.NewDatabase(ctx)
	require.NoError(t, err)
	other, err := pgx.Connect(ctx, address)
	require.NoError(t, err)
	defer other.Close(context.WithoutCancel(ctx))
	tx, err := other.Begin(ctx)
	require.NoError(t, err)
	_, err = tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(migrationLock))
	require.NoError(t, err)
	log := &said{Handler: slog.DiscardHandler, message: "another process migrates", heard: make(chan struct{})}
	opened := make(chan error, 1)
	go func() {
		s, err := Open(ctx, Config{URL: address, Migrate: true, Logger: slog.New(log)})
		if err == nil {
			err = s.Close()
		}
		opened <- err
	}()
	select {
	case <-log.heard:
	case err := <-opened:
		t.Fatalf("it has not waited: %v", err)
	}
	require.NoError(t, tx.Rollback(ctx))
	require.NoError(t, <-opened)
}

// TestOpenTogether opens several replicas on an empty database concurrently.
func TestOpenTogether(t *testing.T) {
	address, err := server.NewDatabase(t.Context())
	require.NoError(t, err)
	var wg sync.WaitGroup
	errs := make([]error, 5)
	for i := range errs {
		wg.Go(func() {
			s, err := Open(context.Background(), Config{URL: address, Migrate: true})
			if err == nil {
				err = s.Close()
			}
			errs[i] = err
		})
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
	s, err := Open(t.Context(), Config{URL: address})
	require.NoError(t, err)
	defer s.Close()
	var versions, rows int
	require.NoError(t, s.pool.QueryRow(t.Context(), `SELECT count(DISTINCT version_id), count(*) FROM goose_db_version`).Scan(&versions, &rows))
	require.Greater(t, versions, 1)
	require.Equal(t, versions, rows, "each migration was applied once")
}

func TestEncoding(t *testing.T) {
	s := open(t, Config{})
	_, err := s.pool.Exec(t.Context(), `DROP DATABASE IF EXISTS latin1`)
	require.NoError(t, err)
	_, err = s.pool.Exec(t.Context(), `CREATE DATABASE latin1 TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'`)
	require.NoError(t, err)
	address, err := url.Parse(server.URL())
	require.NoError(t, err)
	address.Path = "/latin1"
	_, err = Open(t.Context(), Config{URL: address.String(), Migrate: true})
	require.ErrorContains(t, err, "UTF8")
	require.Equal(t, assay.CodeInvalid, assay.ErrorCode(err))
}

// refusing is a server that rejects every login.
func refusing(t *testing.T) net.Addr {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var wg sync.WaitGroup
	t.Cleanup(func() {
		require.NoError(t, listener.Close())
		wg.Wait()
	})
	wg.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			backend := pgproto3.NewBackend(conn, conn)
			if _, err := backend.ReceiveStartupMessage(); err == nil {
				backend.Send(&pgproto3.AuthenticationCleartextPassword{})
				_ = backend.Flush()
				_, _ = backend.Receive()
				backend.Send(&pgproto3.ErrorResponse{Severity: "FATAL", Code: "28P01", Message: `password authentication failed for user "assay"`})
				_ = backend.Flush()
			}
			_ = conn.Close()
		}
	})
	return listener.Addr()
}

// TestPassword searches the errors of Open for the password of an invalid URL.
func TestPassword(t *testing.T) {
	address := refusing(t)
	for _, c := range []struct {
		url, password string
		code          assay.Code
	}{
		{"postgres://assay:s3cret-pass@" + address.String() + "/assay?sslmode=disable", "s3cret-pass", assay.CodeUnavailable},
		{"postgres://assay@" + address.String() + "/assay?sslmode=disable&password=s3cret-pass", "s3cret-pass", assay.CodeUnavailable},
		{"postgres://assay:s3cret%2Fpass@127.0.0.1:1/assay?sslmode=disable", "s3cret", assay.CodeUnavailable},
		{"postgres://assay:s3cret-pass@127.0.0.1:1/assay?sslmode=whatever", "s3cret-pass", assay.CodeInvalid},
		{"postgres://assay:s3cret-pass@127.0.0.1:1/assay?target_session_attrs=whatever", "s3cret-pass", assay.CodeInvalid},
		{"postgres://assay:s3cret-pass@127.0.0.1:port/assay", "s3cret-pass", assay.CodeInvalid},
		{"postgres://assay:s3cret-pass@127.0.0.1:1/assay?pool_max_conns=many", "s3cret-pass", assay.CodeInvalid},
		{"postgres://assay:s3cret/pass@127.0.0.1:1/assay", "s3cret", assay.CodeInvalid},
		{"postgres://assay:12345/s3cret@127.0.0.1:1/assay", "12345", assay.CodeInvalid},
		{"postgres://assay:12345?s3cret@127.0.0.1:1/assay", "12345", assay.CodeInvalid},
		{"postgres://assay:p@127.0.0.1/s3cret@127.0.0.1:1/assay", "s3cret", assay.CodeInvalid},
		{"postgres://assay:s3cret#pass@127.0.0.1:1/assay", "s3cret", assay.CodeUnavailable},
		{"postgres://assay:s3cret%zzpass@127.0.0.1:1/assay", "s3cret", assay.CodeInvalid},
		{"mysql://assay:s3cret-pass@127.0.0.1/assay", "s3cret-pass", assay.CodeInvalid},
		{"host=127.0.0.1 port=1 user=assay password=s3cret-pass", "s3cret-pass", assay.CodeInvalid},
		{"s3cret-pass", "s3cret-pass", assay.CodeInvalid},
	} {
		var log bytes.Buffer
		_, err := Open(t.Context(), Config{URL: c.url, Migrate: true, Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
		require.Error(t, err)
		require.Equal(t, c.code, assay.ErrorCode(err), "%v", err)
		for e := err; e != nil; e = errors.Unwrap(e) {
			require.NotContains(t, e.Error(), c.password)
		}
		require.NotContains(t, fmt.Sprintf("%+v", err), c.password)
		require.NotContains(t, log.String(), c.password)
	}
}

// TestHosts names several servers. The first is unreachable.
func TestHosts(t *testing.T) {
	config, err := parseURL("postgres://u:p@one:1,two,three:3/assay?pool_max_conns=3&connect_timeout=7")
	require.NoError(t, err)
	require.Equal(t, "one", config.ConnConfig.Host)
	require.EqualValues(t, 3, config.MaxConns)
	require.Equal(t, 7*time.Second, config.ConnConfig.ConnectTimeout)
	config, err = parseURL("postgresql://one,two/assay")
	require.NoError(t, err)
	require.EqualValues(t, defaultConns, config.MaxConns)
	require.Equal(t, connectTimeout, config.ConnConfig.ConnectTimeout)
	require.NotNil(t, config.ConnConfig.ValidateConnect, "the writable server")

	address, err := url.Parse(migrated(t))
	require.NoError(t, err)
	q := address.Query()
	q.Set("host", "127.0.0.1,"+q.Get("host"))
	q.Set("port", "1,5432")
	address.RawQuery = q.Encode()
	s, err := Open(t.Context(), Config{URL: address.String()})
	require.NoError(t, err)
	require.NoError(t, s.Close())
}

// TestStandby opens a store on a server that rejects writes.
func TestStandby(t *testing.T) {
	s := open(t, Config{})
	readOnly := func(state string) {
		t.Helper()
		_, err := s.pool.Exec(t.Context(), `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = `+state+`', current_database()); END $$`)
		require.NoError(t, err)
	}
	readOnly("on")
	_, err := s.pool.Exec(t.Context(), `SET default_transaction_read_only = on`)
	require.NoError(t, err)
	s.pool.Reset()
	err = s.Ping(t.Context())
	require.Equal(t, assay.CodeUnavailable, assay.ErrorCode(err), "%v", err)
	_, err = Open(t.Context(), Config{URL: s.pool.Config().ConnString()})
	require.Equal(t, assay.CodeUnavailable, assay.ErrorCode(err), "%v", err)
}

// TestFailures checks the conversion of the server's errors.
func TestFailures(t *testing.T) {
	s := open(t, Config{})
	for state, want := range map[string]assay.Code{
		"40001": assay.CodeUnavailable, "40P01": assay.CodeUnavailable, "55P03": assay.CodeUnavailable, "57014": assay.CodeUnavailable,
		"57P01": assay.CodeUnavailable, "57P02": assay.CodeUnavailable, "57P03": assay.CodeUnavailable, "25006": assay.CodeUnavailable, "25P03": assay.CodeUnavailable,
		"08006": assay.CodeUnavailable, "53100": assay.CodeUnavailable, "53300": assay.CodeUnavailable, "58030": assay.CodeUnavailable,
		"22021": assay.CodeInvalid, "54000": assay.CodeInvalid, "42P01": assay.CodeInternal, "42501": assay.CodeInternal, "23505": assay.CodeInternal,
	} {
		err := s.fail(t.Context(), "do something", &pgconn.PgError{Severity: "ERROR", Code: state, Message: "m", Detail: "Key (name)=(a value)"})
		require.Equal(t, want, assay.ErrorCode(err), "%v", err)
		require.ErrorContains(t, err, "postgres: do something: ")
		require.NotContains(t, err.Error(), "a value")
		require.Equal(t, state == "57014", errors.Is(err, context.DeadlineExceeded), "a statement that took too long")
	}
	domain := assay.Errorf(assay.CodeConflict, "taken")
	require.Same(t, domain, s.fail(t.Context(), "do something", domain))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, s.fail(ctx, "do something", &pgconn.PgError{Code: "57014"}), context.Canceled)
}

func TestClosed(t *testing.T) {
	s, err := Open(t.Context(), Config{URL: migrated(t)})
	require.NoError(t, err)
	org := organization(t, s, "a")
	require.NoError(t, s.Close())
	require.NoError(t, s.Close(), "twice")
	require.Equal(t, assay.CodeUnavailable, assay.ErrorCode(s.Ping(t.Context())))
	require.Equal(t, assay.CodeUnavailable, assay.ErrorCode(s.Commit(t.Context(), benchTime, nil, observation(org, 1))))
	_, err = s.FindAPIKey(t.Context(), "aaaaaa")
	require.Equal(t, assay.CodeUnavailable, assay.ErrorCode(err))
}
