// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"assay/internal/store/lane"
)

// partitioned is a table with a partition for each day, UTC. What is written and
// deleted goes to the partitions themselves: they are known, so no statement is
// planned for all of them.
type partitioned struct {
	name    string
	second  int64  // in the units of the column it is partitioned by
	options string // storage parameters of a partition
}

const secondsPerDay = 24 * 60 * 60

// Rows of hours and distinct_sets are written over and over while their day is the
// present one.
var (
	hoursTable  = &partitioned{"hours", 1, "fillfactor = 70, autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 1000"}
	setsTable   = &partitioned{"distinct_sets", 1, "fillfactor = 80, autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 1000"}
	scoresTable = &partitioned{"scores", 1_000_000, "fillfactor = 100"}
)

// partition is one day of a table.
type partition struct {
	table *partitioned
	day   int64 // since 1970
}

// of returns the partition of a value.
func (t *partitioned) of(value int64) partition {
	day := value / (secondsPerDay * t.second)
	if value < 0 && value%(secondsPerDay*t.second) != 0 {
		day--
	}
	return partition{t, day}
}

// dayFormat is how a day ends the name of its partition.
const dayFormat = "20060102"

// name is the name of its table, such as hours_20261121. The years have four digits.
func (p partition) name() string {
	return p.table.name + "_" + time.Unix(p.day*secondsPerDay, 0).UTC().Format(dayFormat)
}

// parse returns the partition of a name.
func (t *partitioned) parse(name string) (partition, bool) {
	day, ok := strings.CutPrefix(name, t.name+"_")
	if !ok {
		return partition{}, false
	}
	at, err := time.Parse(dayFormat, day)
	return partition{t, at.Unix() / secondsPerDay}, err == nil
}

// from is the first value of the partition; that of the next day is past its last.
func (p partition) from() int64 { return p.day * secondsPerDay * p.table.second }

func (p partition) next() partition { return partition{p.table, p.day + 1} }

// maxDay is the last one whose year has four digits.
var maxDay = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC).Unix() / secondsPerDay

// partitions remembers which partitions there are. Others may drop them.
type partitions struct {
	mu    sync.Mutex
	known map[partition]bool
}

// missingError has partitions made before the transaction is tried again.
type missingError struct{ partitions []partition }

func (e *missingError) Error() string {
	return fmt.Sprintf("%d partitions are missing", len(e.partitions))
}

// need returns a missingError for those of the wanted partitions that are not known.
func (ps *partitions) need(wanted map[partition]bool) error {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	var missing []partition
	for p := range wanted {
		if p.day < 0 || p.day > maxDay {
			return fmt.Errorf("table %s: a time %d days after 1970", p.table.name, p.day)
		}
		if !ps.known[p] {
			missing = append(missing, p)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return &missingError{missing}
}

func (ps *partitions) add(p partition) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.known == nil {
		ps.known = make(map[partition]bool)
	}
	ps.known[p] = true
}

func (ps *partitions) forget(wanted map[partition]bool) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	maps.DeleteFunc(ps.known, func(p partition, _ bool) bool { return wanted[p] })
}

// maxPartitionTries is how often a transaction begins again for partitions: each
// time others may have dropped one meanwhile, or merged facts be of another day.
const maxPartitionTries = 10

// updatePartitions is update for what writes to partitions, which do calls for with
// use. Those that are missing are made, and do runs again.
func (s *Store) updatePartitions(ctx context.Context, l lane.Lane, what, begin string, do func(tx pgx.Tx, use func(...partition) error) error) error {
	for try := 1; ; try++ {
		used := make(map[partition]bool)
		err := s.transact(ctx, l, what, begin, func(tx pgx.Tx) error {
			clear(used)
			return do(tx, func(wanted ...partition) error {
				for _, p := range wanted {
					used[p] = true
				}
				return s.partitions.need(used)
			})
		})
		var missing *missingError
		switch {
		case err == nil || try == maxPartitionTries:
			return err
		case errors.As(err, &missing):
			if err := s.makePartitions(ctx, missing.partitions); err != nil {
				return err
			}
		case stateOf(err) == undefinedTable && len(used) > 0:
			s.partitions.forget(used)
		default:
			return err
		}
	}
}

// partitionLock is the key of the advisory lock of those who make partitions.
const partitionLock = migrationLock + 1

// makePartitions makes partitions that may be there already. A new table is made and
// then attached: unlike CREATE TABLE ... PARTITION OF that lets others read and write
// the parent meanwhile.
func (s *Store) makePartitions(ctx context.Context, wanted []partition) error {
	slices.SortFunc(wanted, func(a, b partition) int { return strings.Compare(a.name(), b.name()) })
	for _, p := range wanted {
		name := p.name()
		err := s.update(ctx, ownWork, "make the partition "+name, func(tx pgx.Tx) error {
			var exists bool
			b := new(pgx.Batch)
			b.Queue(`SELECT pg_advisory_xact_lock($1)`, int64(partitionLock))
			b.Queue(`SELECT to_regclass($1::text) IS NOT NULL`, name).QueryRow(func(row pgx.Row) error { return row.Scan(&exists) })
			if err := tx.SendBatch(ctx, b).Close(); err != nil || exists {
				return err
			}
			_, err := tx.Exec(ctx, fmt.Sprintf(`CREATE TABLE %[1]s (LIKE %[2]s INCLUDING DEFAULTS INCLUDING STORAGE) WITH (%[3]s);
				ALTER TABLE %[2]s ATTACH PARTITION %[1]s FOR VALUES FROM (%[4]d) TO (%[5]d)`,
				name, p.table.name, p.table.options, p.from(), p.next().from()))
			return err
		})
		if err != nil {
			return err
		}
		s.partitions.add(p)
	}
	return nil
}

// makePartitionsAhead makes those partitions of a moment's day and the day after that
// are missing.
func (s *Store) makePartitionsAhead(ctx context.Context, now time.Time) error {
	wanted := make(map[partition]bool)
	for _, t := range []*partitioned{hoursTable, setsTable, scoresTable} {
		today := t.of(now.Unix() * t.second)
		wanted[today], wanted[today.next()] = true, true
	}
	err := s.partitions.need(wanted)
	var missing *missingError
	if errors.As(err, &missing) {
		return s.makePartitions(ctx, missing.partitions)
	}
	return err
}

// partitionsBefore returns the partitions of a table whose first value is before
// one, oldest first.
func (s *Store) partitionsBefore(ctx context.Context, t *partitioned, before int64) ([]partition, error) {
	var found []partition
	err := s.read(ctx, scoring, "list partitions of "+t.name, func(b *pgx.Batch) {
		found = nil
		b.Queue(`SELECT c.relname::text FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = $1::text::regclass`, t.name).
			Query(func(rows pgx.Rows) error {
				return each(rows, nil, func(rows pgx.Rows) error {
					var name string
					if err := rows.Scan(&name); err != nil {
						return err
					}
					if p, ok := t.parse(name); ok && p.from() < before {
						found = append(found, p)
					}
					return nil
				})
			})
	})
	slices.SortFunc(found, func(a, b partition) int { return int(a.day - b.day) })
	return found, err
}

// dropTimeout is how long a partition's drop waits for those who use its table.
// Others wait behind it.
const dropTimeout = 200 * time.Millisecond

// dropPartition drops a partition, one that is kept while it has rows if it is empty.
// When that is not possible at once it stays for the next time.
func (s *Store) dropPartition(ctx context.Context, p partition, onlyEmpty bool) error {
	name := p.name()
	dropped := false
	err := s.update(ctx, scoring, "drop the partition "+name, func(tx pgx.Tx) error {
		// The parent first, as everybody does who comes by it.
		if _, err := tx.Exec(ctx, `SET LOCAL lock_timeout = `+milliseconds(dropTimeout)+`; LOCK TABLE ONLY `+p.table.name+` IN ACCESS EXCLUSIVE MODE; LOCK TABLE `+name+` IN ACCESS EXCLUSIVE MODE`); err != nil {
			return err
		}
		if onlyEmpty {
			var some bool
			if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM `+name+`)`).Scan(&some); err != nil || some {
				return err
			}
		}
		_, err := tx.Exec(ctx, `DROP TABLE `+name)
		dropped = true
		return err
	})
	switch stateOf(err) {
	case undefinedTable: // somebody else was faster
		err, dropped = nil, true
	case lockNotAvailable:
		s.logger.DebugContext(ctx, "postgres: partition is in use", "partition", name)
		return nil
	}
	if dropped && err == nil {
		s.partitions.forget(map[partition]bool{p: true})
	}
	return err
}

// When a partition is worth writing anew: it is this large, and its rows would take a
// quarter of that.
const (
	compactBytes = 1 << 20
	compactRow   = 200 // bytes of a full distinct set with its index entries
)

// compactPartition writes a partition anew when most of it is room that rows have left,
// which nobody will use: its day is over. When that is not possible at once it stays
// for the next time.
func (s *Store) compactPartition(ctx context.Context, p partition) error {
	name := p.name()
	err := s.update(ctx, scoring, "compact the partition "+name, func(tx pgx.Tx) error {
		var wasted bool
		err := tx.QueryRow(ctx, `SELECT size > $2 AND (SELECT count(*) FROM `+name+`) * $3 < size / 4
			FROM (SELECT pg_total_relation_size(to_regclass($1::text)) AS size) AS now`, name, compactBytes, compactRow).Scan(&wasted)
		if err != nil || !wasted {
			return err
		}
		_, err = tx.Exec(ctx, `SET LOCAL lock_timeout = `+milliseconds(dropTimeout)+`; LOCK TABLE `+name+` IN ACCESS EXCLUSIVE MODE;
			CREATE TEMPORARY TABLE kept ON COMMIT DROP AS TABLE `+name+`; TRUNCATE `+name+`; INSERT INTO `+name+` TABLE kept`)
		return err
	})
	switch stateOf(err) {
	case undefinedTable: // it has been dropped
		return nil
	case lockNotAvailable:
		s.logger.DebugContext(ctx, "postgres: partition is in use", "partition", name)
		return nil
	}
	return err
}
