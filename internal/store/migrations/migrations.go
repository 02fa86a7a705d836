// SPDX-License-Identifier: Apache-2.0

package migrations

import "embed"

// SQLite holds the files of the SQLite schema, below the folder sqlite.
//
//go:embed sqlite/*.sql
var SQLite embed.FS
