// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"assay/internal/store/lane"
)

// raw is the destination of a string that is stored as bytea.
type raw string

// ScanBytes implements pgtype.BytesScanner.
func (r *raw) ScanBytes(b []byte) error {
	*r = raw(b)
	return nil
}

// instant is the destination of a time that is stored as micros returns it.
type instant time.Time

// ScanInt64 implements pgtype.Int64Scanner. NULL is the zero time.
func (t *instant) ScanInt64(n pgtype.Int8) error {
	*t = instant(timeOf(n.Int64))
	return nil
}

// storable tells whether a column of type text can hold s: PostgreSQL has neither
// NUL nor invalid UTF-8 in texts. No row has another text.
func storable(s string) bool { return utf8.ValidString(s) && !strings.Contains(s, "\x00") }

// one reads the row that a query returns: missing() where there is none.
func one[T any](ctx context.Context, s *Store, l lane.Lane, what string, missing func() error, of pgx.RowToFunc[T], query string, args ...any) (T, error) {
	var found, none T
	err := s.read(ctx, l, what, func(b *pgx.Batch) {
		b.Queue(query, args...).Query(func(rows pgx.Rows) (err error) {
			found, err = pgx.CollectOneRow(rows, of)
			if errors.Is(err, pgx.ErrNoRows) {
				err = missing()
			}
			return err
		})
	})
	if err != nil {
		return none, err
	}
	return found, nil
}

// list reads the rows that a query returns.
func list[T any](ctx context.Context, s *Store, l lane.Lane, what string, of pgx.RowToFunc[T], query string, args ...any) ([]T, error) {
	var found []T
	err := s.read(ctx, l, what, func(b *pgx.Batch) {
		b.Queue(query, args...).Query(func(rows pgx.Rows) (err error) {
			found, err = pgx.CollectRows(rows, of)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}
