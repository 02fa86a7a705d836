// SPDX-License-Identifier: Apache-2.0

// Package commit turns the facts of many requests into few durable transactions
// and releases each request when the transaction that holds its facts has
// committed: nothing is acknowledged that a crash could lose, and a repeated
// request counts once.
package commit
