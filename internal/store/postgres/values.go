// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"assay/internal/store/codec"
	"assay/internal/store/merge"
)

// valueTable is a table with one value for each service, in the column facts.
type valueTable struct {
	find, add, change string
	// needed reports whether the facts of a service may change its value.
	needed func(*service) bool
	// merge returns the value to store, nil if nothing changes, and the columns beside it.
	merge func(s *service, stored []byte) (facts []byte, columns []int64, err error)
	// scored: a change of the value may change the score.
	scored bool
}

var valueTables = [len(service{}.values)]valueTable{
	{
		find:   `SELECT svc, facts FROM examples WHERE svc = ANY ($1::bigint[])`,
		add:    `INSERT INTO examples (svc, facts) SELECT svc, facts FROM unnest($1::bigint[], $2::bytea[]) AS n (svc, facts)`,
		change: `UPDATE examples e SET facts = n.facts FROM unnest($1::bigint[], $2::bytea[]) AS n (svc, facts) WHERE e.svc = n.svc`,
		needed: func(s *service) bool { return s.facts.Examples != (codec.Examples{}) },
		merge: func(s *service, stored []byte) ([]byte, []int64, error) {
			facts, err := merge.Examples(stored, &s.facts.Examples)
			return facts, nil, err
		},
		scored: true,
	},
	{
		find: `SELECT svc, facts FROM items WHERE svc = ANY ($1::bigint[])`,
		add: `INSERT INTO items (svc, facts, oldest)
			SELECT svc, facts, oldest FROM unnest($1::bigint[], $2::bytea[], $3::bigint[]) AS n (svc, facts, oldest)`,
		change: `UPDATE items i SET facts = n.facts, oldest = n.oldest
			FROM unnest($1::bigint[], $2::bytea[], $3::bigint[]) AS n (svc, facts, oldest) WHERE i.svc = n.svc`,
		needed: func(s *service) bool {
			return len(s.facts.Items) > 0 || len(s.facts.Distinct) > 0 // a set that becomes full adds an item
		},
		merge: func(s *service, stored []byte) ([]byte, []int64, error) {
			items := merge.AddItems(s.facts.Items, s.found)
			if len(items) == 0 {
				return nil, nil, nil
			}
			facts, oldest, err := merge.Items(stored, items)
			return facts, []int64{int64(oldest)}, err
		},
		scored: true,
	},
	{
		find: `SELECT svc, facts FROM series WHERE svc = ANY ($1::bigint[])`,
		add: `INSERT INTO series (svc, facts, oldest, n)
			SELECT svc, facts, oldest, n FROM unnest($1::bigint[], $2::bytea[], $3::bigint[], $4::bigint[]) AS a (svc, facts, oldest, n)`,
		change: `UPDATE series s SET facts = a.facts, oldest = a.oldest, n = a.n
			FROM unnest($1::bigint[], $2::bytea[], $3::bigint[], $4::bigint[]) AS a (svc, facts, oldest, n) WHERE s.svc = a.svc`,
		needed: func(s *service) bool { return !s.facts.Series.Empty() },
		merge: func(s *service, stored []byte) ([]byte, []int64, error) {
			kept, facts, err := merge.Series(stored, &s.facts.Series)
			if facts == nil || err != nil {
				return nil, nil, err
			}
			return facts, []int64{int64(kept.Oldest()), int64(kept.Count())}, nil
		},
	},
}

// queueValues reads the stored values that the facts may change.
func queueValues(b *pgx.Batch, bySvc map[int64]*service) {
	svcs := slices.Sorted(maps.Keys(bySvc))
	for i, t := range valueTables {
		needed := slices.DeleteFunc(slices.Clone(svcs), func(svc int64) bool { return !t.needed(bySvc[svc]) })
		if len(needed) == 0 {
			continue
		}
		b.Queue(t.find, needed).Query(eachRow(func(rows pgx.Rows) error {
			var svc int64
			var facts []byte
			if err := rows.Scan(&svc, &facts); err != nil {
				return err
			}
			bySvc[svc].values[i] = facts
			return nil
		}))
	}
}

// valueRows are rows of a valueTable, in columns.
type valueRows struct {
	svcs  []int64
	facts [][]byte
	more  [2][]int64
}

func (r *valueRows) add(svc int64, facts []byte, more []int64) {
	r.svcs, r.facts = append(r.svcs, svc), append(r.facts, facts)
	for i, n := range more {
		r.more[i] = append(r.more[i], n)
	}
}

func (r *valueRows) args() []any {
	args := []any{r.svcs, r.facts}
	for _, column := range r.more {
		if column != nil {
			args = append(args, column)
		}
	}
	return args
}

// queueValueRows merges the facts with the stored values and writes those that change.
func queueValueRows(b *pgx.Batch, services []*service) error {
	for i, t := range valueTables {
		var added, changed valueRows
		for _, s := range services {
			if !t.needed(s) {
				continue
			}
			facts, more, err := t.merge(s, s.values[i])
			if err != nil {
				return err
			}
			if facts == nil {
				continue
			}
			rows := &changed
			if s.values[i] == nil {
				rows = &added
			}
			rows.add(s.svc, facts, more)
			s.changed = s.changed || t.scored
		}
		if len(added.svcs) > 0 {
			b.Queue(t.add, added.args()...)
		}
		if n := len(changed.svcs); n > 0 {
			queueUpdate(b, n, t.change, changed.args()...)
		}
	}
	return nil
}
