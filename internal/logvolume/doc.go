// SPDX-License-Identifier: Apache-2.0

// Package logvolume counts accepted log records by organization and severity, and returns their number in a period.
//
// Counter is the counter logs_severity_total since the start of the process, for scraping by Prometheus. Two readers
// return the volume of a period: Embedded reads the store and is exact. Remote queries a store with the Prometheus
// HTTP API and is as exact as scraping allows. docs/log-volume.md describes the queries and their error bounds.
// ReadTSDB reads the log volume that earlier versions kept beside the store.
package logvolume
