// SPDX-License-Identifier: Apache-2.0

// Package commit groups the facts of many requests into a few durable transactions. A request is released after the
// transaction with its facts has committed. So nothing is acknowledged that a crash could lose, and a repeated
// request counts once.
package commit
