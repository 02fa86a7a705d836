// SPDX-License-Identifier: Apache-2.0

package logvolume

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/prometheus/tsdb"
)

// What is below EmbeddedConfig.Dir.
const (
	lockFile    = "lock"
	databaseDir = "tsdb"
	damagedDir  = "damaged" // what could not be read the last time that something could not
)

// openDatabase opens the TSDB below dir, whose lock the caller holds. What cannot
// be read and keeps it from opening is moved away: single blocks, else the write-ahead
// log, which holds the last hours, else everything.
func openDatabase(dir string, logger *slog.Logger) (*database, error) {
	d := &database{logger: slog.New(quiet{logger.Handler()})}
	path := filepath.Join(dir, databaseDir)
	open := func() (err error) {
		// Its samples are in the log as well. Where the log has lost a series, the next one to get its
		// number would get its chunks.
		if err := os.RemoveAll(filepath.Join(path, headChunks)); err != nil {
			return err
		}
		d.DB, err = tsdb.Open(path, d.logger, nil, options(), nil)
		return err
	}
	aside := aside{dir: dir}
	damage := aside.moveBlocks(d.logger)
	err := open()
	if err != nil {
		damage = errors.Join(damage, err)
		for _, name := range headFiles {
			_ = aside.move(filepath.Join(databaseDir, name)) // the next to open tells whether it helped
		}
		err = open()
	}
	if err != nil {
		err = errors.Join(aside.undo(), aside.move(databaseDir), open())
	}
	if err != nil {
		// Not for damage, then: a full disk, a lack of permission.
		return nil, errors.Join(damage, aside.undo())
	}
	if damage != nil {
		logger.Error("part of log volume cannot be read and is missing; its files are kept",
			"directory", filepath.Join(dir, damagedDir), "files", aside.moved, "error", damage)
	}
	return d, nil
}

const headChunks = "chunks_head"

// headFiles are where a TSDB keeps what is not yet in a block.
var headFiles = []string{"wal", "wbl", headChunks}

// aside moves files from below a directory to its damagedDir, in place of those of
// an earlier time.
type aside struct {
	dir   string
	moved []string // relative to dir
}

func (a *aside) move(name string) error {
	damaged := filepath.Join(a.dir, damagedDir)
	if len(a.moved) == 0 {
		if err := errors.Join(os.RemoveAll(damaged), os.Mkdir(damaged, 0o700)); err != nil {
			return err
		}
	}
	if err := os.Rename(filepath.Join(a.dir, name), filepath.Join(damaged, filepath.Base(name))); err != nil {
		return err
	}
	a.moved = append(a.moved, name)
	return nil
}

// undo moves everything back, over what was made in its place.
func (a *aside) undo() error {
	var errs []error
	for _, name := range a.moved {
		path := filepath.Join(a.dir, name)
		errs = append(errs, os.RemoveAll(path), os.Rename(filepath.Join(a.dir, damagedDir, filepath.Base(name)), path))
	}
	a.moved = nil
	return errors.Join(errs...)
}

// moveBlocks moves the blocks that cannot be opened, one of which would keep the
// TSDB from opening, and returns why.
func (a *aside) moveBlocks(logger *slog.Logger) error {
	path := filepath.Join(a.dir, databaseDir)
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil //nolint:nilerr // there is none yet, or it will not open
	}
	var damage []error
	for _, entry := range entries {
		if _, err := ulid.ParseStrict(entry.Name()); err != nil {
			continue
		}
		b, err := tsdb.OpenBlock(logger, filepath.Join(path, entry.Name()), nil, nil)
		if err == nil {
			err = b.Close()
		}
		if err != nil {
			damage = append(damage, err, a.move(filepath.Join(databaseDir, entry.Name())))
		}
	}
	return errors.Join(damage...)
}
