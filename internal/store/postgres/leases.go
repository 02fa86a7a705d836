// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"assay/internal/delta"
)

const acquireLeases = `INSERT INTO leases AS l (name, holder, expires_at)
	SELECT DISTINCT name, $2::text, $3::bigint FROM unnest($1::text[]) AS n (name) ORDER BY name
	ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, expires_at = excluded.expires_at
		WHERE l.holder = excluded.holder OR l.expires_at <= $4::bigint OR l.expires_at > $5::bigint
	RETURNING name`

// AcquireLeases implements lease.Store.
func (s *Store) AcquireLeases(ctx context.Context, holder string, names []string, ttl time.Duration) (held []string, now time.Time, err error) {
	if names == nil {
		names = []string{}
	}
	err = s.update(ctx, ownWork, "acquire leases", func(tx pgx.Tx) error {
		held = nil
		if now, err = s.now(ctx, tx); err != nil {
			return err
		}
		last := now.Add(delta.MaxLease)
		rows, err := tx.Query(ctx, acquireLeases, names, holder, micros(now.Add(min(max(ttl, 0), delta.MaxLease))), micros(now), micros(last))
		if err != nil {
			return err
		}
		held, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	if err != nil {
		return nil, time.Time{}, err
	}
	if ttl <= 0 {
		held = nil
	}
	return held, now, nil
}

// ReleaseLeases implements lease.Store.
func (s *Store) ReleaseLeases(ctx context.Context, holder string) error {
	return s.update(ctx, ownWork, "release leases", func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `DELETE FROM leases l USING (SELECT name FROM leases WHERE holder = $1 ORDER BY name FOR UPDATE) AS mine WHERE l.name = mine.name`, holder)
		return err
	})
}

// LeaseNames implements lease.Store.
func (s *Store) LeaseNames(ctx context.Context, prefix string) (names []string, err error) {
	err = s.read(ctx, ownWork, "list leases", func(b *pgx.Batch) {
		b.Queue(`SELECT name FROM leases, (SELECT coalesce($2::bigint, `+serverMicros+`) AS now) AS c
			WHERE starts_with(name, $1) AND expires_at > now AND expires_at <= now + $3::bigint ORDER BY name`,
			prefix, s.injectedNow(), delta.MaxLease.Microseconds()).Query(func(rows pgx.Rows) error {
			names, err = pgx.CollectRows(rows, pgx.RowTo[string])
			return err
		})
	})
	return names, err
}

// holdLeases finds the leases that their holders hold, and locks them until the
// transaction ends.
const holdLeases = `SELECT l.name, l.holder FROM unnest($1::text[], $2::text[]) AS w (name, holder) JOIN leases l ON l.name = w.name AND l.holder = w.holder
	ORDER BY l.name FOR SHARE OF l`

// queueLeases checks that leases are held. Call lost after the batch: it returns the
// leases that are not held.
func queueLeases(b *pgx.Batch, names, holders []string) (lost func() []string) {
	var held []string
	b.Queue(holdLeases, names, holders).Query(func(rows pgx.Rows) (err error) {
		held, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (name string, err error) {
			var holder string
			err = row.Scan(&name, &holder)
			return name, err
		})
		return err
	})
	return func() []string {
		return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(held, name) })
	}
}

// queueFence checks the lease of a fence. Call lost after the batch: it returns the error
// if the lease is not held.
func queueFence(b *pgx.Batch, f delta.Fence) (lost func() error) {
	if f == (delta.Fence{}) {
		return func() error { return nil }
	}
	names := queueLeases(b, []string{f.Lease}, []string{f.Holder})
	return func() error {
		if len(names()) > 0 {
			return fmt.Errorf("lease %s: %w", f.Lease, delta.ErrLeaseLost)
		}
		return nil
	}
}
