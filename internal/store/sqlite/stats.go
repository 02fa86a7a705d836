// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"database/sql"
)

// tables are those whose rows Stats counts.
var tables = []string{
	"organizations", "api_keys", "services", "hours", "examples", "items", "claims", "distinct_sets", "requests", "scores", "insights",
	"summaries", "summary_calls", "signing_keys",
	"log_records", "series", "leases", "journals", "sessions", "organization_scores",
}

// Stats returns how many rows each table has and how many bytes the database
// has, without its write-ahead log. It reads every table, so it is not for
// frequent use.
func (s *Store) Stats(ctx context.Context) (rows map[string]int64, bytes int64, err error) {
	rows = make(map[string]int64, len(tables))
	err = s.view(ctx, "count rows", func(tx *sql.Tx) error {
		for _, t := range tables {
			var n int64
			if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM `+t).Scan(&n); err != nil {
				return err
			}
			rows[t] = n
		}
		return tx.QueryRowContext(ctx, `SELECT page_count * page_size FROM pragma_page_count, pragma_page_size`).Scan(&bytes)
	})
	if err != nil {
		return nil, 0, err
	}
	return rows, bytes, nil
}
