// SPDX-License-Identifier: Apache-2.0

package query

import (
	"context"
	"math"

	"assay/internal/delta"
	"assay/internal/store/connpool"
)

// ReadJournal returns the entries of a journal with a sequence number greater than after, in
// order of their numbers and at most limit of them.
func (q *Queries) ReadJournal(ctx context.Context, name string, after uint64, limit int) ([]delta.JournalEntry, error) {
	if after > math.MaxInt64 || limit <= 0 {
		return nil, nil
	}
	return list(ctx, q, connpool.Lookups, "read a journal", func(r Row) (e delta.JournalEntry, err error) {
		var seq int64
		err = r.Scan(&seq, &e.Data)
		e.Seq = uint64(seq)
		return e, err
	}, `SELECT seq, data FROM journals WHERE name = $1 AND seq > $2 ORDER BY seq LIMIT $3`, name, int64(after), limit)
}

// Journals returns the names of the journals that have entries, in order.
func (q *Queries) Journals(ctx context.Context) ([]string, error) {
	// A loose index scan reads one entry for each name.
	return list(ctx, q, connpool.Lookups, "list journals", value[string], `WITH RECURSIVE n (name) AS (
			SELECT min(name) FROM journals
			UNION ALL SELECT (SELECT min(j.name) FROM journals j WHERE j.name > n.name) FROM n WHERE n.name IS NOT NULL)
		SELECT name FROM n WHERE name IS NOT NULL`)
}
