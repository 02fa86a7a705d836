// SPDX-License-Identifier: Apache-2.0

// Package offline scores recorded telemetry: it reads OTLP files and returns a report. It runs the rules, store and
// scorer of a server on a temporary store. The window ends at the newest timestamp read.
package offline
