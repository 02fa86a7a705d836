// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"assay"
	"assay/internal/auth"
	"assay/internal/engine"
	"assay/internal/lease"
	"assay/internal/score"
	"assay/internal/store/inspect"
	"assay/internal/store/postgres"
	"assay/internal/store/sqlite"
)

// store is what the commands need of a store.
type store interface {
	engine.Store
	engine.JournalStore
	score.Store
	lease.Store
	assay.OrganizationStore
	assay.ServiceStore
	assay.InsightStore
	assay.APIKeyStore
	assay.SummaryStore
	assay.SigningKeyStore
	assay.LogRecordStore
	assay.UsageStore
	assay.SessionStore
	assay.ServiceLister
	assay.OverviewStore
	score.FactStore
	Schema(ctx context.Context) (inspect.Schema, error)
	Stats(ctx context.Context) (*inspect.Stats, error)
	Ping(ctx context.Context) error
	Close() error
}

// storeConfig says which store, as flags.
type storeConfig struct {
	Store     auth.Secret `placeholder:"sqlite|URL" help:"The store: sqlite, a file in the data directory, or a PostgreSQL database, postgres://USER:PASSWORD@HOST:PORT/DATABASE (sqlite)."`
	StoreFile string      `placeholder:"FILE" help:"File that holds the URL of the store, password included."`
	DataDir   string      `default:"./assay-data" placeholder:"DIR" help:"Where data is kept (${default})."`

	StoreMaxConns         int           `placeholder:"N" help:"Connections of one process to PostgreSQL (10, or pool_max_conns of the URL)."`
	StoreStatementTimeout time.Duration `default:"5s" help:"Limit for a statement in PostgreSQL that nobody else limits (${default})."`
}

// storeSQLite is the store that is no URL.
const storeSQLite = "sqlite"

func (c *storeConfig) problems() []error {
	var ck check
	_, err := c.postgres()
	ck.add(err)
	ck.that(c.DataDir != "", "--data-dir: no directory is given")
	ck.that(c.StoreMaxConns >= 0 && c.StoreMaxConns <= 10_000, "--store-max-conns: %d is not in the range from 0 to 10000", c.StoreMaxConns)
	ck.that(c.StoreStatementTimeout > 0, "--store-statement-timeout: %v is not a positive time", c.StoreStatementTimeout)
	return ck.problems
}

// postgres returns the URL of a PostgreSQL store, nil for SQLite.
func (c *storeConfig) postgres() (*url.URL, error) {
	secret, err := readSecret("store", c.Store, c.StoreFile)
	if err != nil || secret == "" || secret == storeSQLite {
		return nil, err
	}
	// What cannot be read may be a password. Of one with a slash, a question mark or a
	// hash a part is taken for host and port, and the at sign after it stands too late.
	u, err := url.Parse(string(secret))
	switch {
	case err != nil, strings.Contains(u.EscapedPath(), "@"), u.User == nil && strings.Contains(u.RawQuery+u.EscapedFragment(), "@"):
		return nil, errors.New("--store: not a URL; characters of the password that mean something in one have to be escaped, such as @ by %40")
	case u.Scheme != "postgres" && u.Scheme != "postgresql":
		return nil, errors.New("--store: unknown kind of store; use sqlite or a URL that begins with postgres://")
	}
	return u, nil
}

// path is where the SQLite store is.
func (c *storeConfig) path() string { return filepath.Join(c.DataDir, storeFile) }

// name is how people are told of the store: without user, password and parameters.
func (c *storeConfig) name() string {
	u, err := c.postgres()
	if u == nil || err != nil {
		return c.path()
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: "/" + strings.TrimPrefix(u.Path, "/")}).String()
}

// openMode says what opening a store may do to it.
type openMode int

const (
	openExisting openMode = iota // a store that is not there, or has an older schema, is an error
	openOrCreate                 // like openExisting, but makes a store that is not there
	openMigrate                  // makes the store or brings its schema up to date
)

// openStore opens the store. The caller closes it. logger is told what a server wants to
// know of it.
func openStore(ctx context.Context, c *storeConfig, mode openMode, logger *slog.Logger) (store, error) {
	u, err := c.postgres()
	if err != nil {
		return nil, err
	}
	if u != nil {
		return openPostgres(ctx, c, u, mode, logger)
	}
	path := c.path()
	_, err = os.Stat(path)
	missing := errors.Is(err, os.ErrNotExist)
	if missing && mode == openExisting {
		return nil, fmt.Errorf("there is no store at %s (see --data-dir)", path)
	}
	s, err := sqlite.Open(ctx, sqlite.Config{Path: path, Migrate: mode == openMigrate || missing, Now: wallClock})
	if err != nil {
		return nil, fmt.Errorf("open the store %s: %w", path, err)
	}
	return s, nil
}

// openPostgres opens a PostgreSQL store. One that is empty is taken for one that is not
// there.
func openPostgres(ctx context.Context, c *storeConfig, u *url.URL, mode openMode, logger *slog.Logger) (store, error) {
	cfg := postgres.Config{
		URL: u.String(), Migrate: mode == openMigrate, MaxConns: c.StoreMaxConns, StatementTimeout: c.StoreStatementTimeout, Logger: logger,
	}
	s, err := postgres.Open(ctx, cfg)
	var unfit *inspect.SchemaError
	if mode == openOrCreate && errors.As(err, &unfit) && unfit.Version == 0 {
		cfg.Migrate = true
		s, err = postgres.Open(ctx, cfg)
	}
	if err != nil {
		return nil, fmt.Errorf("open the store %s: %w", c.name(), err)
	}
	return s, nil
}

// withStore runs a command on a store.
func withStore(e *environment, c *storeConfig, mode openMode, run func(ctx context.Context, s store) error) (err error) {
	s, err := openStore(e.ctx, c, mode, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return run(e.ctx, s)
}
