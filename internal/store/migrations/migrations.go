// SPDX-License-Identifier: Apache-2.0

package migrations

import "embed"

// SQLite holds the files of the SQLite schema, below the folder sqlite.
//
//go:embed sqlite/*.sql
var SQLite embed.FS

// Postgres holds the files of the PostgreSQL schema, below the folder postgres.
//
//go:embed postgres/*.sql
var Postgres embed.FS
