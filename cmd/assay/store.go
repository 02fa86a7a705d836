// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"assay"
	"assay/internal/engine"
	"assay/internal/lease"
	"assay/internal/score"
	"assay/internal/store/sqlite"
)

// store is what the commands need of a store.
type store interface {
	engine.Store
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
	Ping(ctx context.Context) error
	Close() error
}

// storeConfig says which store, as flags.
type storeConfig struct {
	Store   string `default:"sqlite" placeholder:"sqlite" help:"The store: sqlite, a file in the data directory (${default})."`
	DataDir string `default:"./assay-data" placeholder:"DIR" help:"Where data is kept (${default})."`
}

func (c *storeConfig) problems() []error {
	var ck check
	switch {
	case c.Store == "sqlite":
	case strings.HasPrefix(c.Store, "postgres://"), strings.HasPrefix(c.Store, "postgresql://"):
		ck.that(false, "--store: PostgreSQL is not supported by this version; use sqlite")
	default:
		ck.that(false, "--store: unknown kind of store; use sqlite")
	}
	ck.that(c.DataDir != "", "--data-dir: no directory is given")
	return ck.problems
}

func (c *storeConfig) path() string { return filepath.Join(c.DataDir, "assay.db") }

// openMode says what opening a store may do to it.
type openMode int

const (
	openExisting openMode = iota // a store that is not there, or has an older schema, is an error
	openOrCreate                 // like openExisting, but makes a store that is not there
	openMigrate                  // makes the store or brings its schema up to date
)

// openStore opens the store. The caller closes it.
func openStore(ctx context.Context, c *storeConfig, mode openMode) (store, error) {
	path := c.path()
	_, err := os.Stat(path)
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

// withStore runs a command on a store.
func withStore(e *environment, c *storeConfig, mode openMode, run func(ctx context.Context, s store) error) (err error) {
	s, err := openStore(e.ctx, c, mode)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return run(e.ctx, s)
}

type storeCmd struct {
	Migrate storeMigrateCmd `cmd:"" help:"Make the store, or bring its schema up to date."`
}

type storeMigrateCmd struct{ storeConfig }

// Run migrates.
func (c *storeMigrateCmd) Run(e *environment) error {
	return withStore(e, &c.storeConfig, openMigrate, func(context.Context, store) error {
		e.say("the store %s is up to date", c.path())
		return nil
	})
}
