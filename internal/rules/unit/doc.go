// SPDX-License-Identifier: Apache-2.0

// Package unit checks metric units: whether a unit is a valid expression of the Unified
// Code for Units of Measure (rule MET-002), and whether a metric name repeats its unit
// (rule MET-005).
//
// The grammar is that of the UCUM specification, version 2.2, in its case-sensitive
// variant, over the whole unit table (table.go). All functions are pure, allocate
// nothing, run in time linear in their input and are safe for concurrent use.
package unit
