// SPDX-License-Identifier: Apache-2.0

// Package lease coordinates replicas that share a store, without a protocol between them. Leases in the store assign
// the work, and the store's clock is the common time.
package lease
