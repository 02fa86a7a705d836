// SPDX-License-Identifier: Apache-2.0

// Package semconv holds the attribute registry of the OpenTelemetry semantic
// conventions, as far as the rules need it: which keys exist, on which kinds
// of telemetry the conventions place them, and which are renamed or obsolete.
//
// The registry is attributes.csv, its deprecated attributes are deprecated.csv. The levels
// include two hand-written conventions: AWS Lambda places cloud.account.id on spans,
// and the compatibility with Prometheus places server.address, server.port and url.scheme on
// the resource of scraped metrics. Keys are compared byte by byte. All lookups are pure,
// allocate nothing and are safe for concurrent use.
package semconv
