// SPDX-License-Identifier: Apache-2.0

// Package engine is the way of one request: it judges the bytes, has the facts
// committed, and hands the spans on to the open traces. Closed traces come back
// as facts and go the same way.
//
// Open traces can have a journal in the store, to which a process writes what its
// memory would lose, in the transactions that change it. It begins a new one at each
// start, and moves there what it finds in journals that were left behind.
package engine
