// SPDX-License-Identifier: Apache-2.0

//go:build linux

package faults

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"assay/internal/store/postgres/pgtest"
)

// postgresDiskFull fills the disk of the database. Where mounting is not allowed, the server returns the same
// error instead.
func postgresDiskFull(t *testing.T, pg *pgtest.Server) {
	dir, err := os.MkdirTemp("", "assay-faults-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o755)) // for the server's user
	d, err := MountDisk(dir, diskSize)
	if err != nil {
		t.Logf("%v; simulating the error of a full disk", err)
		postgresAnswersFull(t, pg)
		return
	}
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	fleet := onPostgres(t, pg)
	moveTo(t, pg, fleet.Database, d)
	postgresFull(t, fleet, true,
		func(context.Context) error { return d.Fill(0) }, func(context.Context) error { return d.Free(0) })
}

// postgresAnswersFull makes every write fail with the error of a full disk.
func postgresAnswersFull(t *testing.T, pg *pgtest.Server) {
	fleet := onPostgres(t, pg)
	fill, free := answerFull(fleet.Database)
	postgresFull(t, fleet, false, fill, free)
}

func postgresFull(t *testing.T, fleet FleetConfig, mounted bool, fill, free func(context.Context) error) {
	l := loads.get(t, in(8, 60), false)
	p := plan{load: l.load, every: in(300*time.Millisecond, time.Second), idle: "1s", fleet: fleet}
	// Fill the disk before the load: it can take longer than the whole load.
	p.before = func(s *scenario) {
		require.NoError(t, fill(s.ctx))
		s.Fault("disk full", "the disk of the database is full, mounted: %v", mounted)
	}
	p.breaks = func(s *scenario) {
		s.awaitUnavailable(0)
		<-time.After(in(500*time.Millisecond, 10*time.Second))
		require.NoError(s, free(s.ctx))
		ended := time.Now()
		s.Event("freed the disk")
		for i := range s.fleet.Replicas {
			s.ready(i, ended)
		}
	}
	run(t, p, l.reference)
}

// moveTo moves an empty database to a disk, and drops it at the end of the test.
func moveTo(t *testing.T, pg *pgtest.Server, database string, d *Disk) {
	t.Helper()
	const tablespace = "small"
	admin, err := pgx.Connect(t.Context(), pg.URL())
	require.NoError(t, err)
	defer admin.Close(t.Context())
	var data string
	require.NoError(t, admin.QueryRow(t.Context(), `SHOW data_directory`).Scan(&data))
	info, err := os.Stat(data)
	require.NoError(t, err)
	owner := info.Sys().(*syscall.Stat_t)
	location := filepath.Join(d.Dir, "tablespace")
	require.NoError(t, os.Mkdir(location, 0o700))
	require.NoError(t, os.Chown(location, int(owner.Uid), int(owner.Gid)))

	config, err := pgx.ParseConfig(database)
	require.NoError(t, err)
	name := pgx.Identifier{config.Database}.Sanitize()
	for _, statement := range []string{
		fmt.Sprintf(`CREATE TABLESPACE %s LOCATION '%s'`, tablespace, location),
		fmt.Sprintf(`ALTER DATABASE %s SET TABLESPACE %s`, name, tablespace),
	} {
		_, err := admin.Exec(t.Context(), statement)
		require.NoError(t, err, statement)
	}
	t.Cleanup(func() { // before the disk is unmounted
		require.NoError(t, pg.DropDatabase(context.Background(), database))
		require.NoError(t, execute(context.Background(), pg.URL(), `DROP TABLESPACE `+tablespace))
	})
}

// answerFull returns functions that install and remove triggers with which every write fails as on a full
// disk.
func answerFull(database string) (fill, free func(context.Context) error) {
	const each = `DO $$ DECLARE t regclass; BEGIN
		FOR t IN SELECT oid FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition LOOP
			EXECUTE format('%s', t);
		END LOOP; END $$`
	fill = func(ctx context.Context) error {
		return execute(ctx, database,
			`CREATE FUNCTION disk_full() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
				RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = 'disk_full';
			END $$`,
			fmt.Sprintf(each, `CREATE TRIGGER disk_full BEFORE INSERT OR UPDATE ON %s EXECUTE FUNCTION disk_full()`))
	}
	free = func(ctx context.Context) error { return execute(ctx, database, `DROP FUNCTION disk_full() CASCADE`) }
	return fill, free
}

// execute runs statements on a database in a new connection.
func execute(ctx context.Context, url string, statements ...string) error {
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer c.Close(context.WithoutCancel(ctx))
	for _, statement := range statements {
		if _, err := c.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}
