// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"assay/internal/report"
	"assay/internal/store/inspect"
	"assay/internal/store/sqlite"
)

type storeCmd struct {
	Migrate storeMigrateCmd `cmd:"" help:"Make the store, or bring its schema up to date."`
	Backup  storeBackupCmd  `cmd:"" help:"Copy the store to a file while servers use it."`
	Restore storeRestoreCmd `cmd:"" help:"Put a backup in the place of the store while no server uses it."`
	Stats   storeStatsCmd   `cmd:"" help:"Say what is in the store and how much room it takes."`
}

type storeMigrateCmd struct {
	storeConfig
	DryRun bool `help:"Only say whether a migration is due."`
}

// Run migrates.
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
	var unfit *inspect.SchemaError
	if c.DryRun && errors.As(err, &unfit) && unfit.Older() {
		e.say("the store %s has to be migrated: it has schema version %d, this program needs %d", c.name(), unfit.Version, unfit.Known)
		return nil
	}
	return err
}

type storeBackupCmd struct {
	storeConfig
	File  string `arg:"" help:"File to make."`
	Force bool   `help:"Replace a file that is there."`
}

// Run makes a backup.
func (c *storeBackupCmd) Run(e *environment) error {
	u, err := c.postgres()
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
	progress, done := showProgress(e)
	schema, err := sqlite.Backup(e.ctx, sqlite.BackupConfig{Path: c.path(), To: c.File, Replace: c.Force, Progress: progress})
	done()
	if err != nil {
		return withForce(err)
	}
	e.say("the store %s is backed up to %s (schema version %d)", c.path(), c.File, schema.Version)
	return nil
}

type storeRestoreCmd struct {
	storeConfig
	File  string `arg:"" help:"File that backup made."`
	Force bool   `help:"Replace the store that is there; what it holds is lost."`
}

// Run restores a backup.
func (c *storeRestoreCmd) Run(e *environment) error {
	u, err := c.postgres()
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
	progress, done := showProgress(e)
	schema, err := sqlite.Restore(e.ctx, sqlite.RestoreConfig{From: c.File, Path: c.path(), Replace: c.Force, Progress: progress})
	done()
	if err != nil {
		return withForce(err)
	}
	e.say("the store %s is what was backed up to %s (schema version %d)", c.path(), c.File, schema.Version)
	if schema.Version < schema.Known {
		e.say("it has to be migrated to version %d before this program can use it, which `assay serve` and `assay store migrate` do", schema.Known)
	}
	return nil
}

// withForce says how to replace what is in the way.
func withForce(err error) error {
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%w (--force replaces it)", err)
	}
	return err
}

// progressOver is the size from which on progress is shown, and how often that is.
const (
	progressOver     = 64 << 20
	progressInterval = 100 * time.Millisecond
)

// showProgress returns what shows the progress of a copy on a terminal, and what ends
// that; nothing is shown elsewhere.
func showProgress(e *environment) (progress sqlite.Progress, done func()) {
	if _, tty := terminalWidth(e.stderr); !tty {
		return nil, func() {}
	}
	var last time.Time
	shown := false
	show := func(text string) {
		shown = true
		_, _ = fmt.Fprintf(e.stderr, "\r%-40s", text) // nobody to tell
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

// libpqParameters are those of the URL that PostgreSQL's own tools know, but for passwords.
// Others are the pool's, or settings of a session, such as search_path, that mean nothing to
// a copy of a whole database.
// Source: https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-PARAMKEYWORDS
var libpqParameters = []string{
	"host", "hostaddr", "port", "dbname", "user", "passfile", "require_auth", "channel_binding", "connect_timeout", "options", "application_name",
	"keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count", "tcp_user_timeout", "gssencmode", "sslmode", "sslnegotiation", "sslcert", "sslkey",
	"sslcertmode", "sslrootcert", "sslcrl", "sslcrldir", "sslsni", "requirepeer", "ssl_min_protocol_version", "ssl_max_protocol_version",
	"krbsrvname", "gsslib", "gssdelegation", "service", "target_session_attrs", "load_balance_hosts",
}

// libpqURL returns a URL as PostgreSQL's own tools take it, without the password.
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

// sayPassword says how the tools get the password that is not shown. The command that
// was called has not done what it is for.
func sayPassword(e *environment, u *url.URL) error {
	if _, set := u.User.Password(); set || u.Query().Has("password") {
		e.say("The password is not shown; the tools take it from the variable PGPASSWORD or the file ~/.pgpass.")
	}
	return exitError(exitUsage)
}

// shellQuote returns a word as a POSIX shell takes it.
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

// storeStats are the statistics as JSON.
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
		rows := make([][]string, len(st.Tables))
		for i, t := range st.Tables {
			rows[i] = []string{t.Name, fmt.Sprint(t.Rows), sizeText(t.Bytes)}
		}
		return report.Table(e.stdout, []string{"TABLE", "ROWS", "SIZE"}, rows)
	})
}

func sizeText(bytes int64) string { return report.Bytes(uint64(max(bytes, 0))) }
