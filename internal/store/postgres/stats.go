// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"assay/internal/delta"
	"assay/internal/store/inspect"
)

// countedBytes is the size up to which Stats counts the rows of a table.
const countedBytes = 64 << 20

// Stats returns the contents of the store, with rows and bytes of every table. The row
// count of a large table is the estimate of the server's statistics. Log and Free are
// unknown.
func (s *Store) Stats(ctx context.Context) (*inspect.Stats, error) {
	var (
		st    *inspect.Stats
		small []int // indexes in its tables
	)
	err := s.read(ctx, pages, "read statistics of tables",
		func(b *pgx.Batch) {
			st, small = new(inspect.Stats), nil
			b.Queue(`SELECT pg_database_size(current_database()), (SELECT min(bucket) FROM hours), (SELECT max(bucket) FROM hours)`).QueryRow(func(row pgx.Row) error {
				var oldest, newest *int64
				err := row.Scan(&st.Bytes, &oldest, &newest)
				if oldest != nil && newest != nil {
					st.Oldest, st.Newest = delta.Bucket(*oldest).Time(), delta.Bucket(*newest).Time()
				}
				return err
			})
			// reltuples is negative for a table without statistics.
			b.Queue(`SELECT t.relname, bool_or(c.reltuples < 0) OR sum(pg_relation_size(c.oid)) <= $1, sum(greatest(c.reltuples, 0))::bigint, sum(pg_total_relation_size(c.oid))::bigint
				FROM pg_class AS t,
					LATERAL (SELECT t.oid UNION SELECT relid FROM pg_partition_tree(t.oid)) AS p
					JOIN pg_class AS c USING (oid)
				WHERE t.relkind IN ('r', 'p') AND NOT t.relispartition
					AND t.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'organizations'::regclass)
				GROUP BY t.relname ORDER BY t.relname COLLATE "C"`, countedBytes).Query(func(r pgx.Rows) error {
				var (
					t     inspect.Table
					count bool
				)
				_, err := pgx.ForEachRow(r, []any{&t.Name, &count, &t.Rows, &t.Bytes}, func() error {
					if count {
						small = append(small, len(st.Tables))
					}
					st.Tables = append(st.Tables, t)
					return nil
				})
				return err
			})
		},
		func(b *pgx.Batch) {
			for _, i := range small {
				b.Queue(`SELECT count(*) FROM ` + pgx.Identifier{st.Tables[i].Name}.Sanitize()).QueryRow(func(row pgx.Row) error {
					return row.Scan(&st.Tables[i].Rows)
				})
			}
		})
	if err != nil {
		return nil, err
	}
	if st.Schema, err = s.Schema(ctx); err != nil {
		return nil, err
	}
	return st, nil
}
