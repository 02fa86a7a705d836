// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"assay/internal/delta"
	"assay/internal/store/lane"
)

// AcquireLeases implements lease.Store.
func (s *Store) AcquireLeases(ctx context.Context, holder string, names []string, ttl time.Duration) (held []string, now time.Time, err error) {
	list := []byte("[]")
	if len(names) > 0 {
		if list, err = json.Marshal(names); err != nil {
			return nil, time.Time{}, fmt.Errorf("sqlite: encode names of leases: %w", err)
		}
	}
	err = s.update(ctx, lane.OwnWork, "acquire leases", func(tx *sql.Tx) error {
		now = stored(s.now())
		expires, last := now.Add(min(max(ttl, 0), delta.MaxLease)), now.Add(delta.MaxLease)
		rows, err := tx.QueryContext(ctx, `INSERT INTO leases (name, holder, expires_at) SELECT DISTINCT value, ?1, ?2 FROM json_each(?4) WHERE true
			ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, expires_at = excluded.expires_at
				WHERE holder = excluded.holder OR expires_at <= ?3 OR expires_at > ?5
			RETURNING name`, holder, micros(expires), micros(now), string(list), micros(last))
		held = nil
		return each(rows, err, func(rows *sql.Rows) error {
			var name string
			if err := rows.Scan(&name); err != nil {
				return err
			}
			held = append(held, name)
			return nil
		})
	})
	if err != nil {
		return nil, time.Time{}, err
	}
	if ttl <= 0 {
		held = nil
	}
	return held, now, nil
}

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

// ReleaseLeases implements lease.Store.
func (s *Store) ReleaseLeases(ctx context.Context, holder string) error {
	return s.update(ctx, lane.OwnWork, "release leases", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `DELETE FROM leases WHERE holder = ?`, holder)
		return err
	})
}

// LeaseNames implements lease.Store.
func (s *Store) LeaseNames(ctx context.Context, prefix string) ([]string, error) {
	var names []string
	now := s.now()
	err := s.query(ctx, lane.OwnWork, "list leases", func(db *sql.DB) error {
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
