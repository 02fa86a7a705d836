// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"assay/internal/delta"
	"assay/internal/store/connpool"
)

// within returns delta.ErrLeaseLost when a fence rejects the transaction. The lease
// cannot change hands before the transaction ends, since it is the only one that writes.
func within(ctx context.Context, tx *sql.Tx, f delta.Fence) error {
	if f == (delta.Fence{}) {
		return nil
	}
	var one int
	err := tx.QueryRowContext(ctx, `SELECT 1 FROM leases WHERE name = ? AND holder = ?`, f.Lease, f.Holder).Scan(&one)
	if errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("lease %s: %w", f.Lease, delta.ErrLeaseLost)
	}
	return err
}

// LeaseNames implements lease.Store.
func (s *Store) LeaseNames(ctx context.Context, prefix string) ([]string, error) {
	var names []string
	now := s.now()
	err := s.query(ctx, connpool.OwnWork, "list leases", func(db *sql.DB) error {
		rows, err := db.QueryContext(ctx, `SELECT name FROM leases WHERE name >= ?1 AND name < ?1 || char(0x10ffff) AND expires_at > ?2 AND expires_at <= ?3 ORDER BY name`,
			prefix, micros(now), micros(now.Add(delta.MaxLease)))
		return each(rows, err, func(rows *sql.Rows) error {
			var name string
			if err := rows.Scan(&name); err != nil {
				return err
			}
			names = append(names, name)
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return names, nil
}
