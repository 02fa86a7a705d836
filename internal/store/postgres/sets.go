// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"assay/internal/delta"
	"assay/internal/store/codec"
	"assay/internal/store/merge"
)

// setPartitions returns the partitions of the distinct sets of services.
func setPartitions(services []*service) []partition {
	days := make(map[partition]bool)
	for _, s := range services {
		for k := range s.facts.Distinct {
			days[setsTable.of(k.Hour)] = true
		}
	}
	return slices.Collect(maps.Keys(days))
}

// setRows are the keys and stored values of distinct sets in one partition, in columns.
type setRows struct {
	hours, svcs, keys, lasts []int64
	rules                    []int16
	full                     []bool
	members                  [][]byte
}

func (r *setRows) add(svc int64, k delta.DistinctKey) {
	r.hours, r.svcs = append(r.hours, k.Hour), append(r.svcs, svc)
	r.rules, r.keys = append(r.rules, int16(codec.RuleNumber(k.Rule))), append(r.keys, int64(k.Key))
}

// queueSets reads the distinct sets that the facts change.
func queueSets(b *pgx.Batch, bySvc map[int64]*service) {
	byDay := make(map[partition]*setRows)
	for _, svc := range slices.Sorted(maps.Keys(bySvc)) {
		s := bySvc[svc]
		s.sets = make(map[delta.DistinctKey]*merge.Set)
		for k := range s.facts.Distinct {
			in(byDay, setsTable.of(k.Hour)).add(svc, k)
		}
	}
	for p, r := range byDay {
		b.Queue(`SELECT d.hour, d.svc, d.rule, d.key, d.last, d.is_full, d.members FROM unnest($1::bigint[], $2::bigint[], $3::smallint[], $4::bigint[]) AS k (hour, svc, rule, key)
			JOIN `+p.name()+` d ON d.hour = k.hour AND d.svc = k.svc AND d.rule = k.rule AND d.key = k.key`, r.hours, r.svcs, r.rules, r.keys).
			Query(eachRow(func(rows pgx.Rows) error {
				var hour, svc, key, last int64
				var number int16
				set := new(merge.Set)
				if err := rows.Scan(&hour, &svc, &number, &key, &last, &set.Full, &set.Members); err != nil {
					return err
				}
				set.Last = delta.Bucket(last)
				rule, _ := codec.RuleByNumber(int64(number)) // the query asks for known rules only
				bySvc[svc].sets[delta.DistinctKey{Rule: rule, Hour: hour, Key: uint64(key)}] = set
				return nil
			}))
	}
}

// in returns the rows of a partition and adds an empty entry if there is none.
func in[T any](byDay map[partition]*T, p partition) *T {
	if byDay[p] == nil {
		byDay[p] = new(T)
	}
	return byDay[p]
}

// addSets merges the sets of the facts with the stored ones. It adds counts to the
// buckets and findings to the evidence, and keeps the sets to store.
func (s *service) addSets() error {
	changed := make(map[delta.DistinctKey]*merge.Set)
	for k, fact := range s.facts.Distinct {
		set, err := s.sets[k].Add(k, fact, s.buckets, s.found)
		if err != nil {
			return err
		}
		if set != nil {
			changed[k], s.changed = set, true
		}
	}
	s.sets = changed
	return nil
}

// queueSetRows writes the distinct sets that have changed.
func (c *commit) queueSetRows(b *pgx.Batch, services []*service) {
	byDay := make(map[partition]*setRows)
	for _, s := range services {
		for _, k := range slices.SortedFunc(maps.Keys(s.sets), merge.CompareSets) {
			set, r := s.sets[k], in(byDay, setsTable.of(k.Hour))
			r.add(s.svc, k)
			r.lasts, r.full, r.members = append(r.lasts, int64(set.Last)), append(r.full, set.Full), append(r.members, set.Members)
		}
	}
	for p, r := range byDay {
		b.Queue(`INSERT INTO `+p.name()+` (hour, svc, rule, key, last, is_full, written_at, members)
			SELECT hour, svc, rule, key, last, is_full, $1::bigint, members
			FROM unnest($2::bigint[], $3::bigint[], $4::smallint[], $5::bigint[], $6::bigint[], $7::boolean[], $8::bytea[]) AS n (hour, svc, rule, key, last, is_full, members)
			ON CONFLICT (hour, svc, rule, key) DO UPDATE SET last = excluded.last, is_full = excluded.is_full, written_at = excluded.written_at, members = excluded.members`,
			c.now, r.hours, r.svcs, r.rules, r.keys, r.lasts, r.full, r.members)
	}
}
