// SPDX-License-Identifier: Apache-2.0

// Package postgres keeps everything in one PostgreSQL database that any number of
// replicas share.
//
// Every call is one transaction, or for the scorer's expiry several short ones. A
// transaction sets its own limits of time (SET LOCAL), so nothing depends on the
// state of a session and a pooler may stand between. Calls are repeated where
// that is safe: after a serialization failure or a deadlock, and after the loss of a
// connection before COMMIT was sent. An outcome that is not known is
// assay.CodeUnavailable.
//
// What goes on at the same time waits for each other's rows in one order, and so
// never in a circle: requests by key; services by svc, and with them all rows that
// are theirs; insights by id; the tables of counts by key; organizations by org; log
// records by key; leases by name. New services come after the locked ones, by id.
//
// The schema is in package migrations.
package postgres
