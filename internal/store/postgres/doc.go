// SPDX-License-Identifier: Apache-2.0

// Package postgres stores all data in one PostgreSQL database that any number of replicas
// share.
//
// Every call is one transaction; the expiry runs several short ones. A transaction sets
// its own timeouts (SET LOCAL). No call depends on session state, so a pooler may be in
// between. The store retries a call where this is safe: after a serialization failure or
// a deadlock, and after a lost connection before COMMIT was sent. An unknown outcome is
// assay.CodeUnavailable.
//
// All transactions lock rows in one order, which excludes deadlocks: requests by key;
// services by svc, together with all rows of a service; insights by id; the count tables
// by key; organizations by org; log records by key; leases by name. New services come
// after the locked ones, by id.
//
// Package query has the queries that are the same in every database; package migrations
// has the schema.
package postgres
