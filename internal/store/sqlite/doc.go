// SPDX-License-Identifier: Apache-2.0

// Package sqlite keeps everything in one SQLite file.
//
// One connection writes, in transactions that take the write lock at their
// start; a pool of connections reads, each query or group of queries from one
// snapshot. Other processes, such as the command line beside a running server,
// open the same file and take their turn by SQLite's locks. A commit returns
// when it is on disk (write-ahead log, synchronous=FULL).
//
// Backup copies a store in use; Restore puts a copy in the place of one that nobody has
// open, which a lock on a file beside it tells.
//
// The schema is in package migrations. Errors of the driver come back as
// assay.CodeUnavailable where waiting may help (locked, full, I/O) and as plain
// wrapped errors otherwise.
package sqlite
