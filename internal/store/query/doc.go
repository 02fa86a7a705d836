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
// Statements are the common SQL of SQLite and PostgreSQL: parameters $1, $2 and so on, CAST(x
// AS type), INSERT ... ON CONFLICT (columns) DO UPDATE ... WHERE, RETURNING, FILTER, WITH ...
// AS MATERIALIZED, limits that are expressions, division of integers to an integer,
// assignments of an UPDATE that read the old values, and columns named key and signal.
// Another database needs an engine that translates them.
//
// Arguments are Go values; an engine converts the types ID, Text, []ID, []int64 and []string.
// Times are microseconds since 1970, 0 for none.
//
// Triggers of the schema maintain what no statement writes: the counts of insights and
// services of an organization, the counts of a service's insights by impact, and the
// deliveries of webhooks. Changes of insights add deliveries; at most 10,000 of a webhook
// stay, of which at most 5,000 are pending; a delivery updates last_seq and due_at of its
// webhook. The unique indexes runs_running and signing_keys_current are partial.
package query
