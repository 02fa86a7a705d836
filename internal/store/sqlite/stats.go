// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"database/sql"
	"os"

	"assay/internal/delta"
	"assay/internal/store/connpool"
	"assay/internal/store/inspect"
)

// Stats returns the contents of the store, with rows and bytes of every table. It reads
// every page of the file, so it is not for frequent use.
func (s *Store) Stats(ctx context.Context) (*inspect.Stats, error) {
	st := new(inspect.Stats)
	err := s.view(ctx, connpool.Pages, "read statistics of tables", func(tx *sql.Tx) (err error) {
		if st.Schema, err = readSchema(ctx, tx, s.known); err != nil {
			return err
		}
		var oldest, newest sql.NullInt64
		if err := tx.QueryRowContext(ctx, `SELECT (SELECT min(bucket) FROM hours), (SELECT max(bucket) FROM hours)`).Scan(&oldest, &newest); err != nil {
			return err
		}
		if oldest.Valid {
			st.Oldest, st.Newest = delta.Bucket(oldest.Int64).Time(), delta.Bucket(newest.Int64).Time()
		}
		if st.Tables, err = readTables(ctx, tx); err != nil {
			return err
		}
		return tx.QueryRowContext(ctx, `SELECT page_count * page_size, freelist_count * page_size FROM pragma_page_count, pragma_page_size, pragma_freelist_count`).
			Scan(&st.Bytes, &st.Free)
	})
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(s.path + "-wal"); err == nil {
		st.Log = info.Size()
		st.Bytes += st.Log
	}
	return st, nil
}

// readTables returns every table, including the bytes of its indexes.
func readTables(ctx context.Context, tx *sql.Tx) ([]inspect.Table, error) {
	var tables []inspect.Table
	rows, err := tx.QueryContext(ctx, `SELECT m.tbl_name, sum(d.pgsize) FROM dbstat AS d JOIN sqlite_schema AS m ON m.name = d.name
		WHERE d.aggregate = TRUE AND m.tbl_name NOT LIKE 'sqlite\_%' ESCAPE '\' GROUP BY m.tbl_name ORDER BY m.tbl_name`)
	err = each(rows, err, func(rows *sql.Rows) error {
		var t inspect.Table
		err := rows.Scan(&t.Name, &t.Bytes)
		tables = append(tables, t)
		return err
	})
	if err != nil {
		return nil, err
	}
	for i := range tables {
		if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM `+tables[i].Name).Scan(&tables[i].Rows); err != nil {
			return nil, err
		}
	}
	return tables, nil
}
