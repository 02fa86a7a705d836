// SPDX-License-Identifier: Apache-2.0

// Package migrations holds the schema of the stores as numbered SQL files, one
// folder for each dialect. Files are applied in order and never edited once
// released; each says in a comment why it exists.
//
// The row compatible_since of table memory holds the oldest version whose programs can
// work on the store: those may be started on it, after an upgrade is taken back or while
// replicas are upgraded one by one. A migration that they cannot work with, because it
// takes away or changes what they use, or because they leave out what newer programs count
// on, sets it to its own version. Such a change is made in two releases where that can be
// done: one adds, and the one after takes away.
package migrations
