// SPDX-License-Identifier: Apache-2.0

// Package sqlite stores all data in one SQLite file.
//
// One connection writes, in transactions that take the write lock at their start. A pool
// of connections reads, each query or group of queries from one snapshot. Other
// processes, such as the command line next to a running server, open the same file;
// SQLite's locks serialize their writes. A commit returns when it is on disk (write-ahead
// log, synchronous=FULL).
//
// Backup copies a store in use. Restore replaces a store that no process has open,
// according to a lock on a file next to it.
//
// Package query has the queries that are the same in every database; package migrations
// has the schema. Driver errors that may pass (locked, full, I/O) become
// assay.CodeUnavailable, other driver errors plain wrapped errors.
package sqlite
