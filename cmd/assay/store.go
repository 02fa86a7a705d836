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
	"assay/internal/fair"
	"assay/internal/lease"
	"assay/internal/score"
	"assay/internal/store/inspect"
	"assay/internal/store/postgres"
	"assay/internal/store/sqlite"
)

// store is the interface of a store for all commands.
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
	assay.CredentialKeyStore
	assay.LogRecordStore
	assay.UsageStore
	assay.SessionStore
	assay.ServiceLister
	assay.OverviewStore
	assay.CodebaseStore
	assay.WebhookStore
	score.FactStore
	Schema(ctx context.Context) (inspect.Schema, error)
	Stats(ctx context.Context) (*inspect.Stats, error)
	Ping(ctx context.Context) error
	Close() error
}

// storeConfig holds the flags of the store.
type storeConfig struct {
	Store     auth.Secret `placeholder:"sqlite|URL" help:"Store: sqlite for a file in the data directory, or the URL of a PostgreSQL database, postgres://USER:PASSWORD@HOST:PORT/DATABASE. Default: sqlite." group:"common"`
	StoreFile string      `placeholder:"FILE" help:"File that contains the URL of the store with its password." group:"store"`
	DataDir   string      `default:"./assay-data" placeholder:"DIR" help:"Data directory (${default})." group:"common"`

	StoreMaxConns         int           `placeholder:"N" help:"Maximum connections of one process to PostgreSQL. Default: pool_max_conns of the URL, else 10." group:"store" hidden:""`
	StoreStatementTimeout time.Duration `default:"5s" help:"Timeout for PostgreSQL queries that have no deadline of their own (${default})." group:"store" hidden:""`

	cpu *fair.Semaphore // of a server; see sqlite.Config and postgres.Config
}

// storeSQLite selects the SQLite store in the data directory.
const storeSQLite = "sqlite"

func (c *storeConfig) problems() []error {
	var ck check
	_, err := c.url()
	ck.add(err)
	ck.that(c.DataDir != "", "--data-dir: no directory is given")
	ck.that(c.StoreMaxConns >= 0 && c.StoreMaxConns <= 10_000, "--store-max-conns: %d is not in the range from 0 to 10000", c.StoreMaxConns)
	ck.that(c.StoreStatementTimeout > 0, "--store-statement-timeout: %v is not a positive time", c.StoreStatementTimeout)
	return ck.problems
}

// url returns the URL of a database that servers share, or nil for SQLite, whose file belongs to one server.
func (c *storeConfig) url() (*url.URL, error) {
	secret, err := readSecret("store", c.Store, c.StoreFile)
	if err != nil || secret == "" || secret == storeSQLite {
		return nil, err
	}
	// Do not print a URL that cannot be parsed: it may contain a password. If a password contains an unescaped slash,
	// question mark or hash, part of it is parsed as host and port.
	u, err := url.Parse(string(secret))
	switch {
	case err != nil, strings.Contains(u.EscapedPath(), "@"), u.User == nil && strings.Contains(u.RawQuery+u.EscapedFragment(), "@"):
		return nil, errors.New("--store: not a URL; escape reserved characters in the password, such as @ as %40")
	case u.Scheme != "postgres" && u.Scheme != "postgresql":
		return nil, errors.New("--store: unknown kind of store; use sqlite or a URL that begins with postgres://")
	}
	return u, nil
}

// path returns the path of the SQLite store.
func (c *storeConfig) path() string { return filepath.Join(c.DataDir, storeFile) }

// name returns the name of the store for messages: without user, password and parameters.
func (c *storeConfig) name() string {
	u, err := c.url()
	if u == nil || err != nil {
		return c.path()
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: "/" + strings.TrimPrefix(u.Path, "/")}).String()
}

// openMode is the set of changes that opening a store may make.
type openMode int

const (
	openExisting openMode = iota // fail if the store does not exist or has an older schema
	openOrCreate                 // like openExisting, but create a store that does not exist
	openMigrate                  // create the store or migrate its schema
)

// openStore opens the store. The caller closes it. logger receives messages for the operator of a server.
func openStore(ctx context.Context, c *storeConfig, mode openMode, logger *slog.Logger) (store, error) {
	u, err := c.url()
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
	s, err := sqlite.Open(ctx, sqlite.Config{Path: path, Migrate: mode == openMigrate || missing, Now: wallClock, CPU: c.cpu})
	if err != nil {
		return nil, fmt.Errorf("open the store %s: %w", path, err)
	}
	return s, nil
}

// openPostgres opens a PostgreSQL store. An empty database counts as a store that does not exist.
func openPostgres(ctx context.Context, c *storeConfig, u *url.URL, mode openMode, logger *slog.Logger) (store, error) {
	cfg := postgres.Config{
		URL: u.String(), Migrate: mode == openMigrate, MaxConns: c.StoreMaxConns, StatementTimeout: c.StoreStatementTimeout, CPU: c.cpu,
		Logger: logger,
	}
	s, err := postgres.Open(ctx, cfg)
	if unfit, ok := errors.AsType[*inspect.SchemaError](err); ok && mode == openOrCreate && unfit.Version == 0 {
		cfg.Migrate = true
		s, err = postgres.Open(ctx, cfg)
	}
	if err != nil {
		return nil, fmt.Errorf("open the store %s: %w", c.name(), err)
	}
	return s, nil
}

// withStore opens the store, calls run and closes the store.
func withStore(e *environment, c *storeConfig, mode openMode, run func(ctx context.Context, s store) error) (err error) {
	s, err := openStore(e.ctx, c, mode, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return run(e.ctx, s)
}
