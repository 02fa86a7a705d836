// SPDX-License-Identifier: Apache-2.0

// Package unit judges metric units: whether one is a valid expression of the
// Unified Code for Units of Measure (rule MET-002), and whether a metric name
// repeats its unit (rule MET-005).
//
// The grammar is that of the UCUM specification, version 2.2, in its
// case-sensitive variant, over the whole unit table (table.go). Everything
// here is pure, allocates nothing, runs in time linear in its input and is
// safe for concurrent use.
package unit
