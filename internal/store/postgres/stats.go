// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// tables are those whose rows Stats counts.
var tables = []string{
	"organizations", "api_keys", "services", "hours", "examples", "items", "claims", "distinct_sets", "requests", "scores", "insights",
	"summaries", "summary_calls", "signing_keys",
	"log_records", "series", "leases", "journals",
}

// countedBytes is the size up to which the rows of a table are counted.
const countedBytes = 64 << 20

// Stats returns how many rows each table has and how many bytes the database has,
// with its indexes. A large table's rows are as many as the server's statistics say.
func (s *Store) Stats(ctx context.Context) (rows map[string]int64, bytes int64, err error) {
	rows = make(map[string]int64, len(tables))
	var small []string
	err = s.read(ctx, "count rows",
		func(b *pgx.Batch) {
			small = nil
			b.Queue(`SELECT pg_database_size(current_database())`).QueryRow(func(row pgx.Row) error { return row.Scan(&bytes) })
			// reltuples is below 0 where a table was never looked at.
			b.Queue(`SELECT t.name, bool_or(c.reltuples < 0) OR sum(pg_relation_size(c.oid)) <= $2, sum(c.reltuples)::bigint
				FROM unnest($1::text[]) AS t (name),
					LATERAL (SELECT t.name::regclass AS oid UNION SELECT relid FROM pg_partition_tree(t.name::regclass)) AS p
					JOIN pg_class AS c USING (oid)
				WHERE c.relkind = 'r' GROUP BY t.name`, tables, countedBytes).Query(func(r pgx.Rows) error {
				var (
					table    string
					count    bool
					estimate int64
				)
				_, err := pgx.ForEachRow(r, []any{&table, &count, &estimate}, func() error {
					if rows[table] = estimate; count {
						small = append(small, table)
					}
					return nil
				})
				return err
			})
		},
		func(b *pgx.Batch) {
			for _, table := range small {
				b.Queue(`SELECT count(*) FROM ` + table).QueryRow(func(row pgx.Row) error {
					var n int64
					err := row.Scan(&n)
					rows[table] = n
					return err
				})
			}
		})
	if err != nil {
		return nil, 0, err
	}
	return rows, bytes, nil
}
