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

	"assay/internal/store/connpool"
)

// partitioned is a table with one partition a day (UTC). Statements write to and delete
// from a partition directly, so the server never plans a statement for all partitions.
type partitioned struct {
	name    string
	second  int64  // one second in the units of the partition column
	options string // storage parameters of a partition
}

const secondsPerDay = 24 * 60 * 60

// Rows of hours and distinct_sets are updated repeatedly during their day.
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

// dayFormat is the format of the day at the end of a partition's name.
const dayFormat = "20060102"

// name returns the name of the partition's table, such as hours_20261121. Years have four
// digits.
func (p partition) name() string {
	return p.table.name + "_" + time.Unix(p.day*secondsPerDay, 0).UTC().Format(dayFormat)
}

// parse returns the partition with a name.
func (t *partitioned) parse(name string) (partition, bool) {
	day, ok := strings.CutPrefix(name, t.name+"_")
	if !ok {
		return partition{}, false
	}
	at, err := time.Parse(dayFormat, day)
	return partition{t, at.Unix() / secondsPerDay}, err == nil
}

// from returns the first value of the partition. The first value of the next day is its
// exclusive end.
func (p partition) from() int64 { return p.day * secondsPerDay * p.table.second }

func (p partition) next() partition { return partition{p.table, p.day + 1} }

// maxDay is the last day of a year with four digits.
var maxDay = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC).Unix() / secondsPerDay

// partitions caches the existing partitions. Other replicas may drop one.
type partitions struct {
	mu    sync.Mutex
	known map[partition]bool
}

// missingError requests that partitions are created before the transaction is retried.
type missingError struct{ partitions []partition }

func (e *missingError) Error() string {
	return fmt.Sprintf("%d partitions are missing", len(e.partitions))
}

// need returns a missingError for wanted partitions that are not in the cache.
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

// maxPartitionTries limits the restarts of a transaction for missing partitions. In each
// restart, another replica may have dropped one, or the merged facts may belong to
// another day.
const maxPartitionTries = 10

// updatePartitions is update for transactions that write to partitions. do requests
// partitions with use; updatePartitions creates missing ones and runs do again.
func (s *Store) updatePartitions(ctx context.Context, pool connpool.Pool, what string, do func(tx pgx.Tx, use func(...partition) error) error) error {
	for try := 1; ; try++ {
		used := make(map[partition]bool)
		err := s.transact(ctx, pool, what, beginCommit, func(tx pgx.Tx) error {
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

// partitionLock is the key of the advisory lock that serializes the creation of
// partitions.
const partitionLock = migrationLock + 1

// makePartitions creates partitions that may exist already. It creates a table and then
// attaches it. Unlike CREATE TABLE ... PARTITION OF, this does not block reads and writes
// of the parent.
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

// makePartitionsAhead creates the missing partitions of a time's day and of the next day.
func (s *Store) makePartitionsAhead(ctx context.Context, now time.Time) error {
	wanted := make(map[partition]bool)
	for _, t := range []*partitioned{hoursTable, setsTable, scoresTable} {
		today := t.of(now.Unix() * t.second)
		wanted[today], wanted[today.next()] = true, true
	}
	err := s.partitions.need(wanted)
	if missing, ok := errors.AsType[*missingError](err); ok {
		return s.makePartitions(ctx, missing.partitions)
	}
	return err
}

// partitionsBefore returns the partitions of a table that begin before a value, oldest
// first.
func (s *Store) partitionsBefore(ctx context.Context, t *partitioned, before int64) ([]partition, error) {
	var found []partition
	err := s.read(ctx, scoring, "list partitions of "+t.name, func(b *pgx.Batch) {
		found = nil
		b.Queue(`SELECT c.relname::text FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = $1::text::regclass`, t.name).
			Query(eachRow(func(rows pgx.Rows) error {
				var name string
				if err := rows.Scan(&name); err != nil {
					return err
				}
				if p, ok := t.parse(name); ok && p.from() < before {
					found = append(found, p)
				}
				return nil
			}))
	})
	slices.SortFunc(found, func(a, b partition) int { return int(a.day - b.day) })
	return found, err
}

// dropTimeout limits how long a drop waits for statements that use the table. Later
// statements queue behind the drop.
const dropTimeout = 200 * time.Millisecond

// dropPartition drops a partition; with onlyEmpty, only if it has no rows. If it cannot
// lock the table in time, the next expiry tries again.
func (s *Store) dropPartition(ctx context.Context, p partition, onlyEmpty bool) error {
	name := p.name()
	dropped := false
	err := s.update(ctx, scoring, "drop the partition "+name, func(tx pgx.Tx) error {
		// Lock the parent first, as all other statements do.
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
	case undefinedTable: // another replica has dropped it
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

// A partition is rewritten when it has this size and its rows would need a quarter of it.
const (
	compactBytes = 1 << 20
	compactRow   = 200 // bytes of a full distinct set with its index entries
)

// compactPartition rewrites a partition when most of it is free space. Its day is over,
// so later rows will not reuse the space. If it cannot lock the table in time, the next
// expiry tries again.
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
