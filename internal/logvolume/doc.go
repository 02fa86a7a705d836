// SPDX-License-Identifier: Apache-2.0

// Package logvolume counts the log records that were accepted, by organization and
// severity, and answers how many there were in a period.
//
// Counter is what any Prometheus scrapes: the counter logs_severity_total since the
// start of the process. Two readers answer for a period: Embedded keeps the counter in
// a Prometheus TSDB of its own and is exact; Remote asks a store that speaks the
// Prometheus HTTP API and is as exact as scraping allows. docs/log-volume.md has
// the queries and the bounds.
package logvolume
