// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"assay/internal/lists"
	"assay/internal/report"
	"assay/internal/store/inspect"
	"assay/internal/store/sqlite"
)

type storeCmd struct {
	Migrate storeMigrateCmd `cmd:"" help:"Create the store or migrate its schema."`
	Backup  storeBackupCmd  `cmd:"" help:"Back up the store to a file while servers run."`
	Restore storeRestoreCmd `cmd:"" help:"Replace the store by a backup while no server runs."`
	Stats   storeStatsCmd   `cmd:"" help:"Print statistics of the store: rows and size."`
}

type storeMigrateCmd struct {
	storeConfig
	DryRun bool `help:"Report whether a migration is due, without applying it."`
}

// Run migrates the store.
func (c *storeMigrateCmd) Run(e *environment) error {
	mode := openMigrate
	if c.DryRun {
		mode = openExisting
	}
	err := withStore(e, &c.storeConfig, mode, func(ctx context.Context, s store) error {
		schema, err := s.Schema(ctx)
		if err == nil {
			e.say("the store %s is up to date: it has schema version %d, this program knows %d", c.name(), schema.Version, schema.Known)
		}
		return err
	})
	if unfit, ok := errors.AsType[*inspect.SchemaError](err); ok && c.DryRun && unfit.Older() {
		e.say("the store %s has to be migrated: it has schema version %d, this program needs %d", c.name(), unfit.Version, unfit.Known)
		return nil
	}
	return err
}

type storeBackupCmd struct {
	storeConfig
	File  string `arg:"" help:"File to write."`
	Force bool   `help:"Overwrite an existing file."`
}

// Run backs up the store.
func (c *storeBackupCmd) Run(e *environment) error {
	u, err := c.url()
	if err != nil {
		return err
	}
	if u != nil {
		e.say("assay: a PostgreSQL store is backed up by PostgreSQL's own tool, while servers use it:")
		e.say("  pg_dump --format=custom --file=%s --dbname=%s", shellQuote(c.File), shellQuote(libpqURL(u)))
		return sayPassword(e, u)
	}
	if _, err := os.Stat(c.path()); errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("there is no store at %s (see --data-dir)", c.path())
	}
	ctx, stop := signal.NotifyContext(e.ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	progress, done := showProgress(e)
	schema, err := sqlite.Backup(ctx, sqlite.BackupConfig{Path: c.path(), To: c.File, Replace: c.Force, Progress: progress})
	done()
	if err != nil {
		return withForce(err)
	}
	e.say("the store %s is backed up to %s (schema version %d)", c.path(), c.File, schema.Version)
	return nil
}

type storeRestoreCmd struct {
	storeConfig
	File  string `arg:"" help:"File written by backup."`
	Force bool   `help:"Overwrite the existing store; its data is lost."`
}

// Run restores a backup.
func (c *storeRestoreCmd) Run(e *environment) error {
	u, err := c.url()
	if err != nil {
		return err
	}
	if u != nil {
		database := strings.TrimPrefix(u.Path, "/")
		e.say("assay: a PostgreSQL store is restored by PostgreSQL's own tools, to a database that is new:")
		e.say("  createdb --maintenance-db=%s --template=template0 --encoding=UTF8 %s", shellQuote(libpqURL(u.JoinPath("../postgres"))), shellQuote(database))
		e.say("  pg_restore --no-owner --single-transaction --dbname=%s %s", shellQuote(libpqURL(u)), shellQuote(c.File))
		e.say("Call this with another name in --store and have the servers use that, or stop them and remove the former database by dropdb.")
		return sayPassword(e, u)
	}
	ctx, stop := signal.NotifyContext(e.ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	progress, done := showProgress(e)
	schema, err := sqlite.Restore(ctx, sqlite.RestoreConfig{From: c.File, Path: c.path(), Replace: c.Force, Progress: progress})
	done()
	if err != nil {
		return withForce(err)
	}
	e.say("the store %s is restored from %s (schema version %d)", c.path(), c.File, schema.Version)
	if schema.Version < schema.Known {
		e.say("it has to be migrated to version %d before this program can use it, which `assay serve` and `assay store migrate` do", schema.Known)
	}
	if _, err := os.Stat(c.credentialKeyPath()); errors.Is(err, os.ErrNotExist) {
		e.say("the backup does not contain the key for webhook secrets and tokens of source hosts: start the server with the same --secret-key-file, or copy the file %s of the former data directory to %s first", credentialKeyFile, c.DataDir)
	}
	return nil
}

// withForce adds a hint at --force to an error about existing data.
func withForce(err error) error {
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%w (--force replaces it)", err)
	}
	return err
}

// Minimum size of a copy for progress, and interval between updates.
const (
	progressOver     = 64 << 20
	progressInterval = 100 * time.Millisecond
)

// showProgress returns a function that shows the progress of a copy on a terminal, and one that clears it. Both do
// nothing elsewhere.
func showProgress(e *environment) (progress sqlite.Progress, done func()) {
	if _, tty := terminalWidth(e.stderr); !tty {
		return nil, func() {}
	}
	var last time.Time
	shown := false
	show := func(text string) {
		shown = true
		_, _ = fmt.Fprintf(e.stderr, "\r%-40s", text) // only a progress display
	}
	return func(done, total int64) {
			switch now := time.Now(); {
			case total < progressOver:
			case done == total:
				show("copied " + sizeText(total) + ", checking the copy")
			case now.Sub(last) >= progressInterval:
				last = now
				show(fmt.Sprintf("copied %d%% of %s", 100*done/total, sizeText(total)))
			}
		}, func() {
			if shown {
				_, _ = fmt.Fprintf(e.stderr, "\r%-40s\r", "")
			}
		}
}

// libpqParameters are the URL parameters that PostgreSQL's tools support, except passwords. Other parameters configure
// the connection pool or a session, such as search_path, and do not apply to a copy of a whole database.
// Source: https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-PARAMKEYWORDS
var libpqParameters = []string{
	"host", "hostaddr", "port", "dbname", "user", "passfile", "require_auth", "channel_binding", "connect_timeout", "options", "application_name",
	"keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count", "tcp_user_timeout", "gssencmode", "sslmode", "sslnegotiation", "sslcert", "sslkey",
	"sslcertmode", "sslrootcert", "sslcrl", "sslcrldir", "sslsni", "requirepeer", "ssl_min_protocol_version", "ssl_max_protocol_version",
	"krbsrvname", "gsslib", "gssdelegation", "service", "target_session_attrs", "load_balance_hosts",
}

// libpqURL returns a URL for PostgreSQL's tools, without the password.
func libpqURL(u *url.URL) string {
	shown := *u
	if u.User != nil {
		shown.User = url.User(u.User.Username())
	}
	q := u.Query()
	for name := range q {
		if !slices.Contains(libpqParameters, name) {
			q.Del(name)
		}
	}
	shown.RawQuery = q.Encode()
	return shown.String()
}

// sayPassword explains how to pass the password, which is not printed, to the tools. It returns an error because the
// command itself has copied nothing.
func sayPassword(e *environment, u *url.URL) error {
	if _, set := u.User.Password(); set || u.Query().Has("password") {
		e.say("The password is not shown; the tools take it from the variable PGPASSWORD or the file ~/.pgpass.")
	}
	return exitError(exitUsage)
}

// shellQuote quotes a word for a POSIX shell.
func shellQuote(s string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=@%+,"
	if s != "" && strings.Trim(s, plain) == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

type storeStatsCmd struct {
	storeConfig
	listFormat
}

// storeStats is the JSON form of the statistics.
type storeStats struct {
	Store           string          `json:"store"`
	Schema          inspect.Schema  `json:"schema"`
	Organizations   int64           `json:"organizations"`
	Services        int64           `json:"services"`
	OldestBucket    *time.Time      `json:"oldest_bucket"`
	NewestBucket    *time.Time      `json:"newest_bucket"`
	Bytes           int64           `json:"bytes"`
	FreeBytes       int64           `json:"free_bytes"`
	LogBytes        int64           `json:"log_bytes"`
	PerServiceMonth int64           `json:"bytes_per_service_month"`
	Tables          []inspect.Table `json:"tables"`
}

// Run prints the statistics.
func (c *storeStatsCmd) Run(e *environment) error {
	return withStore(e, &c.storeConfig, openExisting, func(ctx context.Context, s store) error {
		st, err := s.Stats(ctx)
		if err != nil {
			return err
		}
		if c.Format == "json" {
			return writeJSON(e.stdout, storeStats{
				Store: c.name(), Schema: st.Schema, Organizations: st.Organizations(), Services: st.Services(),
				OldestBucket: jsonTime(st.Oldest), NewestBucket: jsonTime(st.Newest),
				Bytes: st.Bytes, FreeBytes: st.Free, LogBytes: st.Log, PerServiceMonth: st.PerServiceMonth(), Tables: st.Tables,
			})
		}
		size := sizeText(st.Bytes)
		if st.Free > 0 || st.Log > 0 {
			size += fmt.Sprintf(" (%s not in use, %s write-ahead log)", sizeText(st.Free), sizeText(st.Log))
		}
		if err := report.Table(e.stdout, []string{"STORE", c.name()}, [][]string{
			{"schema version", fmt.Sprintf("%d, this program knows %d", st.Schema.Version, st.Schema.Known)},
			{"organizations", fmt.Sprint(st.Organizations())},
			{"services", fmt.Sprint(st.Services())},
			{"oldest bucket", tableTime(st.Oldest)},
			{"newest bucket", tableTime(st.Newest)},
			{"size", size},
			{"per service and month", "about " + sizeText(st.PerServiceMonth())},
		}); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(e.stdout); err != nil {
			return err
		}
		rows := lists.Map(st.Tables, func(t inspect.Table) []string { return []string{t.Name, fmt.Sprint(t.Rows), sizeText(t.Bytes)} })
		return report.Table(e.stdout, []string{"TABLE", "ROWS", "SIZE"}, rows)
	})
}

func sizeText(bytes int64) string { return report.Bytes(uint64(max(bytes, 0))) }
