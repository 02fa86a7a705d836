// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"time"
)

// Store stores leases. Expiry is determined by the store's own clock. If that clock has gone back, a lease that ends
// more than a minute from now counts as expired. Implementations must be safe for concurrent use by any number of
// processes.
type Store interface {
	// AcquireLeases acquires or renews, in one transaction, each of the named leases that is free, expired or held by
	// holder, for ttl from now, at most a minute. It returns the names held afterwards, in no order, and the store's
	// time. A ttl of 0 releases the holder's leases; none is held afterwards.
	AcquireLeases(ctx context.Context, holder string, names []string, ttl time.Duration) (held []string, now time.Time, err error)
	// ReleaseLeases releases all leases of a holder.
	ReleaseLeases(ctx context.Context, holder string) error
	// LeaseNames returns the names of the unexpired leases with a prefix, in byte order.
	LeaseNames(ctx context.Context, prefix string) ([]string, error)
}
