// SPDX-License-Identifier: Apache-2.0

// Package semconv holds the attribute registry of the OpenTelemetry semantic
// conventions, as far as the rules need it: which keys exist, on which kinds
// of telemetry the conventions place them, and which are deprecated.
//
// The registry is attributes.csv; table.go is generated from it. Keys are
// compared byte by byte. All lookups are pure, allocate nothing and are safe
// for concurrent use.
package semconv

//go:generate go run ./gen -in attributes.csv -out table.go
