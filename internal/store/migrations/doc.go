// SPDX-License-Identifier: Apache-2.0

// Package migrations holds the schema of the stores as numbered SQL files, one
// folder for each dialect. Files are applied in order and never edited once
// released; each says in a comment why it exists.
//
// The row compatible_since of table memory holds the oldest schema version whose programs
// can use the store, after a rollback or during a rolling upgrade. A migration sets it to
// its own version if it breaks older programs: it removes or changes something that they
// use, or newer programs depend on data that older ones do not write. Where possible, make
// such a change in two releases: the first adds, the second removes.
package migrations
