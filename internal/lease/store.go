// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"time"
)

// Store keeps leases. Whether one has expired is judged by the store's own clock; where
// that went back, one that ends more than a minute from now has.
// Implementations may be used concurrently, by any number of processes.
type Store interface {
	// AcquireLeases takes or renews, in one transaction, each of the named leases that
	// is free, expired or the holder's own, until ttl from now, a minute at most. It returns
	// those the holder has afterwards, in no order, and the store's time. A ttl of 0 gives up
	// those that the holder has; none is held then.
	AcquireLeases(ctx context.Context, holder string, names []string, ttl time.Duration) (held []string, now time.Time, err error)
	// ReleaseLeases gives up everything that a holder has.
	ReleaseLeases(ctx context.Context, holder string) error
	// LeaseNames returns the names with a prefix of the leases that have not expired,
	// sorted bytewise.
	LeaseNames(ctx context.Context, prefix string) ([]string, error)
}
