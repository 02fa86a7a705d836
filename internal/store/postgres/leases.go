// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"assay/internal/delta"
)

// LeaseNames implements lease.Store.
func (s *Store) LeaseNames(ctx context.Context, prefix string) ([]string, error) {
	var names []string
	err := s.read(ctx, ownWork, "list leases", func(b *pgx.Batch) {
		b.Queue(`SELECT name FROM leases, (SELECT coalesce($2::bigint, `+serverMicros+`) AS now) AS c
			WHERE starts_with(name, $1) AND expires_at > now AND expires_at <= now + $3::bigint ORDER BY name`,
			prefix, s.injectedNow(), delta.MaxLease.Microseconds()).Query(func(rows pgx.Rows) (err error) {
			names, err = pgx.CollectRows(rows, pgx.RowTo[string])
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return names, nil
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
