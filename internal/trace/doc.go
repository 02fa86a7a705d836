// SPDX-License-Identifier: Apache-2.0

// Package trace keeps the spans of open traces in bounded memory and judges a
// trace by the rules that need all of it (SPA-001, SPA-002, SPA-005) when it
// closes.
//
// Of a span it keeps 24 bytes without pointers. Memory has a budget; over it,
// whole traces are dropped by a hash of their id (one in 2, 4, 8 ... is kept),
// never single spans, and the rate in force stands in the evidence.
package trace
