// SPDX-License-Identifier: Apache-2.0

// Package trace holds the spans of open traces in bounded memory. When a trace closes, it evaluates the rules that
// need the whole trace: SPA-001, SPA-002 and SPA-005.
//
// A span takes 24 bytes without pointers. Memory has a budget. Over budget, whole traces are sampled by a hash of
// their id: one in 2, 4, 8 and so on is kept. Single spans are never dropped from a trace. Evidence shows the
// sampling rate.
//
// A Transaction can write its changes to a journal in the store, in the same transaction as the facts, at about 15
// bytes per span. The journal always shows which traces are open and which of their spans have arrived. When a
// process is killed, another one moves the traces of its journal to its own (Recovery).
package trace
