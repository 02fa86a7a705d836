// SPDX-License-Identifier: Apache-2.0

// Package fair shares limited resources between keys, which are organizations here. A key
// that asks for much waits for itself and does not delay the others.
//
// Shares is the account that all of them use: when a resource is full, the key that holds
// most gives way, and a key within its share of the resource never does. Queue and Semaphore
// let keys take turns.
package fair
