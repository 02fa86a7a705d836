// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/delta"
	"assay/internal/store/inspect"
	"assay/internal/store/storetest"
)

var testTime = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// usageOf returns the log records that an organization sent.
func usageOf(t *testing.T, s *Store, org string) (n int64) {
	t.Helper()
	records, err := s.LogRecords(t.Context(), org, time.Unix(0, 0), time.Now().AddDate(1, 0, 0), time.Minute)
	require.NoError(t, err)
	for i := range records {
		n += int64(records[i].Counts[assay.SeverityInfo])
	}
	return n
}

// addRecords commits one log record, and services to give the store some pages.
func addRecords(t *testing.T, s *Store, org string, services int) {
	t.Helper()
	require.NoError(t, s.Commit(t.Context(), testTime, nil, func([]bool) *delta.Delta {
		d := load(org, services, 1, testTime)
		d.Organization(org).LogRecords[assay.SeverityInfo] = 1
		return d
	}))
}

// filled returns a store in a directory with an organization that sent one record.
func filled(t *testing.T, dir string) (s *Store, path, org string) {
	t.Helper()
	path = filepath.Join(dir, "assay.db")
	s = open(t, Config{Path: path, Migrate: true})
	org = organization(t, s, "acme")
	addRecords(t, s, org, 50)
	return s, path, org
}

// names returns the names of the files in a directory.
func names(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	require.NoError(t, err)
	defer in.Close()
	out, err := os.Create(to)
	require.NoError(t, err)
	_, err = io.Copy(out, in)
	require.NoError(t, err)
	require.NoError(t, out.Close())
}

// TestBackup copies a store during writes: the copy is one snapshot, and commits do not
// restart it.
func TestBackup(t *testing.T) {
	defer func(step int32) { copyStep = step }(copyStep)
	copyStep = 8
	s, path, org := filled(t, t.TempDir())
	to := filepath.Join(t.TempDir(), "50%?#&=.db")
	hash := storetest.HashOf(t, s, org)
	calls, last := 0, int64(0)
	schema, err := Backup(t.Context(), BackupConfig{Path: path, To: to, Progress: func(done, total int64) {
		require.Greater(t, done, last)
		require.LessOrEqual(t, done, total)
		calls, last = calls+1, done
		require.NoFileExists(t, to, "only when it is whole")
		addRecords(t, s, org, 20)
	}})
	require.NoError(t, err)
	require.NoError(t, schema.Check())
	require.Greater(t, calls, 3)
	require.EqualValues(t, 1+calls, usageOf(t, s, org))

	info, err := os.Stat(to)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	require.EqualValues(t, last, info.Size())
	require.Equal(t, []string{filepath.Base(to)}, names(t, filepath.Dir(to)), "one file")

	// The backup is readable in a directory without write access.
	require.NoError(t, os.Chmod(filepath.Dir(to), 0o500))
	db, err := sql.Open("sqlite", "file:"+filepath.Dir(to)+"/50%25%3f%23&=.db?mode=ro")
	require.NoError(t, err)
	var n int
	require.NoError(t, db.QueryRow(`SELECT count(*) FROM services`).Scan(&n))
	require.NoError(t, db.Close())
	require.Equal(t, 50, n)
	require.NoError(t, os.Chmod(filepath.Dir(to), 0o700))

	copied := open(t, Config{Path: to})
	require.Equal(t, hash, storetest.HashOf(t, copied, org))
	require.EqualValues(t, 1, usageOf(t, copied, org))
	addRecords(t, copied, org, 1)
	require.EqualValues(t, 2, usageOf(t, copied, org))
}

func TestBackupRefusals(t *testing.T) {
	dir := t.TempDir()
	_, path, _ := filled(t, t.TempDir())
	there := filepath.Join(dir, "there.db")
	require.NoError(t, os.WriteFile(there, []byte("mine"), 0o644))
	text := filepath.Join(dir, "text.db")
	require.NoError(t, os.WriteFile(text, []byte("this is a text file, and a long enough one, of more than a hundred bytes, so that it could have a header"), 0o600))
	other := filepath.Join(dir, "other.db")
	db, err := sql.Open("sqlite", other)
	require.NoError(t, err)
	_, err = db.Exec(`CREATE TABLE memory (name, value); CREATE TABLE goose_db_version (version_id, is_applied); INSERT INTO goose_db_version VALUES (7, 1)`)
	require.NoError(t, err)
	require.NoError(t, db.Close())
	empty := filepath.Join(dir, "empty.db")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	before := names(t, dir)
	free := filepath.Join(dir, "free.db")
	for name, c := range map[string]struct {
		config BackupConfig
		code   assay.Code
	}{
		"there":     {BackupConfig{Path: path, To: there}, assay.CodeConflict},
		"itself":    {BackupConfig{Path: path, To: path, Replace: true}, assay.CodeInvalid},
		"log":       {BackupConfig{Path: path, To: path + "-wal", Replace: true}, assay.CodeInvalid},
		"journal":   {BackupConfig{Path: path, To: filepath.Join(filepath.Dir(path), ".", filepath.Base(path)) + "-journal"}, assay.CodeInvalid},
		"directory": {BackupConfig{Path: path, To: dir, Replace: true}, assay.CodeInvalid},
		"text":      {BackupConfig{Path: text, To: free}, assay.CodeInvalid},
		"other":     {BackupConfig{Path: other, To: free}, assay.CodeInvalid},
		"empty":     {BackupConfig{Path: empty, To: free}, assay.CodeInvalid},
	} {
		_, err := Backup(t.Context(), c.config)
		require.Equal(t, c.code, assay.ErrorCode(err), "%s: %v", name, err)
	}
	_, err = Backup(t.Context(), BackupConfig{Path: filepath.Join(dir, "none.db"), To: free})
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = Backup(t.Context(), BackupConfig{Path: path, To: filepath.Join(dir, "none", "a.db")})
	require.ErrorIs(t, err, os.ErrNotExist)
	ctx, cancel := context.WithCancel(t.Context())
	_, err = Backup(ctx, BackupConfig{Path: path, To: free, Progress: func(int64, int64) { cancel() }})
	require.ErrorIs(t, err, context.Canceled)
	after := names(t, dir)
	for _, n := range []string{"text.db.lock", "other.db.lock", "empty.db.lock"} {
		require.Contains(t, after, n)
		require.NoError(t, os.Remove(filepath.Join(dir, n)))
	}
	require.Equal(t, before, names(t, dir), "nothing is left")

	schema, err := Backup(t.Context(), BackupConfig{Path: path, To: there, Replace: true})
	require.NoError(t, err)
	require.Positive(t, schema.Version)
	open(t, Config{Path: there})
	info, err := os.Stat(there)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
}

// TestDamageIsNotBackedUp: a backup of a damaged store fails.
func TestDamageIsNotBackedUp(t *testing.T) {
	s, path, _ := filled(t, t.TempDir())
	require.NoError(t, s.Close())
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	info, err := f.Stat()
	require.NoError(t, err)
	noise := make([]byte, info.Size()/2)
	for i := range noise {
		noise[i] = byte(i * 7)
	}
	_, err = f.WriteAt(noise, info.Size()/2)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	dir := t.TempDir()
	_, err = Backup(t.Context(), BackupConfig{Path: path, To: filepath.Join(dir, "a.db")})
	require.Error(t, err)
	require.Empty(t, names(t, dir))
}

func TestRestore(t *testing.T) {
	source, path, org := filled(t, t.TempDir())
	from := filepath.Join(t.TempDir(), "backup.db")
	_, err := Backup(t.Context(), BackupConfig{Path: path, To: from})
	require.NoError(t, err)
	addRecords(t, source, org, 10)

	// crashed copies the files of the source, unchanged, to the path of a store.
	crashed := func(t *testing.T, to string) {
		for _, suffix := range []string{"", "-wal", "-shm"} {
			copyFile(t, path+suffix, to+suffix)
		}
	}
	for name, prepare := range map[string]func(t *testing.T, to string){
		"nothing": func(t *testing.T, to string) { require.NoError(t, os.Remove(filepath.Dir(to))) },
		"closed": func(t *testing.T, to string) {
			s, _, _ := filled(t, filepath.Dir(to))
			require.NoError(t, s.Close())
		},
		"killed": crashed,
		"damaged": func(t *testing.T, to string) {
			crashed(t, to)
			require.NoError(t, os.WriteFile(to, make([]byte, 8192), 0o600))
		},
		"emptied": func(t *testing.T, to string) {
			crashed(t, to)
			require.NoError(t, os.Truncate(to, 0))
		},
		"lost but for the log": func(t *testing.T, to string) {
			crashed(t, to)
			require.NoError(t, os.Remove(to))
		},
	} {
		t.Run(name, func(t *testing.T) {
			to := filepath.Join(t.TempDir(), "data", "assay.db")
			require.NoError(t, os.Mkdir(filepath.Dir(to), 0o700))
			prepare(t, to)
			_, existed := os.Stat(to)
			schema, err := Restore(t.Context(), RestoreConfig{From: from, Path: to})
			if existed == nil {
				require.Equal(t, assay.CodeConflict, assay.ErrorCode(err), "%v", err)
				schema, err = Restore(t.Context(), RestoreConfig{From: from, Path: to, Replace: true})
			}
			require.NoError(t, err)
			require.NoError(t, schema.Check())
			require.Equal(t, []string{"assay.db", "assay.db.lock"}, names(t, filepath.Dir(to)))
			info, err := os.Stat(to)
			require.NoError(t, err)
			require.Equal(t, os.FileMode(0o600), info.Mode())
			s := open(t, Config{Path: to})
			require.EqualValues(t, 1, usageOf(t, s, org), "data after the backup is removed")
			addRecords(t, s, org, 1)
		})
	}
	require.EqualValues(t, 2, usageOf(t, source, org))
}

// TestRestoreRefuses restores while a process has the store open, and from files that are not backups. The
// store stays unchanged.
func TestRestoreRefuses(t *testing.T) {
	s, path, org := filled(t, t.TempDir())
	from := filepath.Join(t.TempDir(), "backup.db")
	_, err := Backup(t.Context(), BackupConfig{Path: path, To: from})
	require.NoError(t, err)
	addRecords(t, s, org, 1)
	restore := func() error {
		_, err := Restore(t.Context(), RestoreConfig{From: from, Path: path, Replace: true})
		return err
	}
	err = restore()
	require.Equal(t, assay.CodeConflict, assay.ErrorCode(err), "%v", err)
	require.ErrorContains(t, err, "stop the servers")
	require.NoError(t, s.Close())

	// A program that ignores the lock.
	db, err := sql.Open("sqlite", "file:"+path)
	require.NoError(t, err)
	var n int
	require.NoError(t, db.QueryRow(`SELECT count(*) FROM services`).Scan(&n))
	err = restore()
	require.Equal(t, assay.CodeConflict, assay.ErrorCode(err), "%v", err)
	require.NoError(t, db.Close())

	// A restore keeps other processes out.
	held, err := lock(path, true)
	require.NoError(t, err)
	_, err = Open(t.Context(), Config{Path: path})
	require.Equal(t, assay.CodeUnavailable, assay.ErrorCode(err), "%v", err)
	_, err = Backup(t.Context(), BackupConfig{Path: path, To: from, Replace: true})
	require.Equal(t, assay.CodeUnavailable, assay.ErrorCode(err), "%v", err)
	require.NoError(t, held.Close())

	newer := filepath.Join(t.TempDir(), "newer.db")
	copyFile(t, from, newer)
	db, err = sql.Open("sqlite", "file:"+newer)
	require.NoError(t, err)
	_, err = db.Exec(`INSERT INTO goose_db_version (version_id, is_applied) VALUES (99, 1); UPDATE memory SET value = 99 WHERE name = 'compatible_since'`)
	require.NoError(t, err)
	require.NoError(t, db.Close())
	text := filepath.Join(t.TempDir(), "text.db")
	require.NoError(t, os.WriteFile(text, []byte("this is a text file, and a long enough one, of more than a hundred bytes, so that it could have a header"), 0o600))
	_, err = Restore(t.Context(), RestoreConfig{From: newer, Path: path, Replace: true})
	var unfit *inspect.SchemaError
	require.ErrorAs(t, err, &unfit)
	for _, c := range []RestoreConfig{{From: text, Path: path, Replace: true}, {From: path, Path: path, Replace: true}} {
		_, err = Restore(t.Context(), c)
		require.Equal(t, assay.CodeInvalid, assay.ErrorCode(err), "%v", err)
	}
	_, err = Restore(t.Context(), RestoreConfig{From: text + ".none", Path: path, Replace: true})
	require.ErrorIs(t, err, os.ErrNotExist)
	ctx, cancel := context.WithCancel(t.Context())
	_, err = Restore(ctx, RestoreConfig{From: from, Path: path, Replace: true, Progress: func(int64, int64) { cancel() }})
	require.ErrorIs(t, err, context.Canceled)

	require.Equal(t, []string{"assay.db", "assay.db.lock"}, names(t, filepath.Dir(path)))
	s = open(t, Config{Path: path})
	require.EqualValues(t, 2, usageOf(t, s, org))
	require.NoError(t, s.Close())
	require.NoError(t, restore())
}

// BenchmarkBackup copies a store of some size; the target is that of the disk.
func BenchmarkBackup(b *testing.B) {
	path := filepath.Join(b.TempDir(), "assay.db")
	s := open(b, Config{Path: path, Migrate: true})
	org := organization(b, s, "bench")
	for hour := range 24 {
		at := testTime.Add(time.Duration(hour) * time.Hour)
		require.NoError(b, s.Commit(b.Context(), at, nil, func([]bool) *delta.Delta { return load(org, 2000, hour, at) }))
	}
	info, err := os.Stat(path)
	require.NoError(b, err)
	b.SetBytes(info.Size())
	for i := 0; b.Loop(); i++ {
		_, err := Backup(b.Context(), BackupConfig{Path: path, To: filepath.Join(b.TempDir(), fmt.Sprint(i))})
		require.NoError(b, err)
	}
}
