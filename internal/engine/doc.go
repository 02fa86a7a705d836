// SPDX-License-Identifier: Apache-2.0

// Package engine processes one request: it evaluates the bytes, commits the facts, and adds the spans to the open
// traces. The verdicts of closed traces are committed in the same way.
//
// Open traces can have a journal in the store. A process writes the state that it would lose if it were killed to the
// journal, in the transactions that change that state. Each start begins a new journal and moves the traces of
// abandoned journals to it.
package engine
