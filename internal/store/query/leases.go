// SPDX-License-Identifier: Apache-2.0

package query

import (
	"context"
	"time"

	"assay/internal/delta"
	"assay/internal/store/connpool"
)

// AcquireLeases implements lease.Store.
func (q *Queries) AcquireLeases(ctx context.Context, holder string, names []string, ttl time.Duration) (held []string, now time.Time, err error) {
	err = q.engine.Update(ctx, connpool.OwnWork, "acquire leases", func(tx Tx) (err error) {
		if now, err = tx.Now(ctx); err != nil {
			return err
		}
		held = nil
		b := new(Batch)
		b.Query(collect(&held, value[string]), `INSERT INTO leases AS l (name, holder, expires_at)
			SELECT DISTINCT value, CAST($2 AS text), CAST($3 AS bigint) FROM `+q.sql.Texts(`$1`, `n`)+` WHERE true ORDER BY value
			ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, expires_at = excluded.expires_at
				WHERE l.holder = excluded.holder OR l.expires_at <= $4 OR l.expires_at > $5
			RETURNING name`, names, holder, leaseEnd(now, ttl), Micros(now), leaseEnd(now, delta.MaxLease))
		return tx.Send(ctx, b)
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
func (q *Queries) ReleaseLeases(ctx context.Context, holder string) error {
	return q.update(ctx, connpool.OwnWork, "release leases", nil,
		`DELETE FROM leases WHERE `+q.sql.InSelect(`name`, `SELECT name FROM leases WHERE holder = $1 ORDER BY name`+q.sql.LockRows), holder)
}
