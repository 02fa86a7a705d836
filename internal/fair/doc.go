// SPDX-License-Identifier: Apache-2.0

// Package fair shares limited resources between keys, such as organizations. A key with a high demand delays only
// itself.
//
// Queue, Semaphore and Limiter use Shares for accounting: when a resource is full, the key that holds most gives way, and
// a key within its share never does. Queue and Semaphore serve keys in turn. Recent reports whether several keys are
// active. RateLimiter holds token buckets of credentials and addresses; AddressOf groups addresses.
package fair
