// SPDX-License-Identifier: Apache-2.0

package delta

import (
	"errors"
	"time"
)

// ErrLeaseLost says that another holder has the lease that a transaction was to be
// made under. Nothing of the transaction is stored.
var ErrLeaseLost = errors.New("the lease has been lost")

// Fence is the lease that a transaction is made under, and its holder. A lease that
// has expired still counts as the holder's until another one takes it, which cannot
// happen before the transaction has ended. The zero value lets everything through.
type Fence struct{ Lease, Holder string }

// MaxLease is how long leases are given at most. One that ends later was given by a
// clock that was ahead, as after a failover to another server, and has expired: its
// holder may be dead, or renews it by the present clock.
const MaxLease = time.Minute
