// SPDX-License-Identifier: Apache-2.0

// Package migrations holds the schema of the stores as numbered SQL files, one
// folder for each dialect. Files are applied in order and never edited once
// released; each says in a comment why it exists.
package migrations
