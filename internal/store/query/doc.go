// SPDX-License-Identifier: Apache-2.0

// Package query holds the queries that are the same in every database: organizations, API
// keys, sessions, signing keys, services, insights, scores, usage, log volume, summaries,
// leases, and repositories of code with their runs and findings.
//
// Queries implements the store contracts of the domain. Packages sqlite and postgres
// embed it. They provide an Engine, which runs statements, and a Dialect, which holds the
// SQL that differs. Connections, transactions, commits, fences, partitions, backups and
// migrations belong to these packages.
//
// Statements are portable: parameters are $1, $2 and so on, casts are CAST(x AS type),
// conflict clauses name their columns. Arguments are Go values; an engine converts the
// types ID, Text, []ID, []int64 and []string. Times are microseconds since 1970, 0 for none.
package query
