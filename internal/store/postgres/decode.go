// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"assay"
	"assay/internal/store/query"
)

// turnBytes is the size of the rows that are decoded in one turn at the CPU, within a few milliseconds.
const turnBytes = 256 << 10

// eachInTurn is eachRow for a page: scan runs while the organization of ctx holds a slot of the CPUs. It copies rows
// before it waits for the slot, since nothing may wait for the server while it holds one.
func (s *Store) eachInTurn(ctx context.Context, scan func(query.Row) error) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		defer rows.Close()
		var copied copiedRows
		decode := func() error {
			leave, err := s.cpu.Enter(ctx, assay.OrganizationOf(ctx))
			if err != nil {
				return err
			}
			defer leave()
			return copied.each(scan)
		}
		for rows.Next() {
			copied.add(rows)
			if copied.bytes < turnBytes {
				continue
			}
			if err := decode(); err != nil {
				return err
			}
			copied.rows, copied.bytes = copied.rows[:0], 0
		}
		if err := rows.Err(); err != nil || len(copied.rows) == 0 {
			return err
		}
		return decode()
	}
}

// copiedRows are rows that have been read and not decoded.
type copiedRows struct {
	types  *pgtype.Map
	fields []pgconn.FieldDescription
	rows   [][][]byte
	bytes  int
}

// add copies the current row. The driver reuses its memory.
func (c *copiedRows) add(rows pgx.Rows) {
	c.types, c.fields = rows.Conn().TypeMap(), rows.FieldDescriptions()
	values := rows.RawValues()
	size := 0
	for _, v := range values {
		size += len(v)
	}
	row, all := make([][]byte, len(values)), make([]byte, 0, size)
	for i, v := range values {
		if v == nil {
			continue // NULL
		}
		begin := len(all)
		all = append(all, v...)
		row[i] = all[begin:]
	}
	c.rows, c.bytes = append(c.rows, row), c.bytes+size
}

func (c *copiedRows) each(scan func(query.Row) error) error {
	for _, row := range c.rows {
		if err := scan(copiedRow{c, row}); err != nil {
			return err
		}
	}
	return nil
}

// copiedRow is one of copiedRows.
type copiedRow struct {
	*copiedRows
	values [][]byte
}

// Scan implements query.Row.
func (r copiedRow) Scan(dest ...any) error { return pgx.ScanRow(r.types, r.fields, r.values, dest...) }
