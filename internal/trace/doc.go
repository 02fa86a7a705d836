// SPDX-License-Identifier: Apache-2.0

// Package trace keeps the spans of open traces in bounded memory and judges a
// trace by the rules that need all of it (SPA-001, SPA-002, SPA-005) when it
// closes.
//
// Of a span it keeps 24 bytes without pointers. Memory has a budget; over it,
// whole traces are dropped by a hash of their id (one in 2, 4, 8 ... is kept),
// never single spans, and the rate in force stands in the evidence.
//
// What a Transaction does to the open traces can be written to a journal in the
// store, in the same transaction as the facts, so that the journal says at any time
// which traces are open and what of them arrived: some 15 bytes a span. Whoever
// finds the journal of a process that was killed moves its traces to his own
// (Recovery).
package trace
