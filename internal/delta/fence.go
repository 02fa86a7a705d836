// SPDX-License-Identifier: Apache-2.0

package delta

import (
	"errors"
	"time"
)

// ErrLeaseLost reports that another holder has the lease required by a transaction. The transaction has been rolled
// back.
var ErrLeaseLost = errors.New("lease lost")

// Fence is the lease that a transaction requires, with its holder. An expired lease counts as held until another
// holder acquires it, which cannot happen before the transaction has ended. The zero value requires no lease.
type Fence struct{ Lease, Holder string }

// MaxLease is the maximum duration of a lease. A lease that ends later was acquired under a clock that was ahead, as
// after a failover, and counts as expired: its holder may be dead, or will renew it under the current clock.
const MaxLease = time.Minute
