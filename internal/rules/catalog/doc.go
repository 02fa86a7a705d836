// SPDX-License-Identifier: Apache-2.0

// Package catalog is the one table of the Instrumentation Score rules and of
// the insight types. The reference page, the REST API, the command line and
// the insights all take ids, names, impacts and texts from here.
//
// There are 29 entries: the 26 rules of the specification, which are the only
// ones that enter a score, and three insight types that a score never sees.
// What is short and must be exact (id, impact, target, criterion) is Go code in
// rules.go. What is long and meant to be read is one Markdown file per entry
// below texts, embedded in the binary.
package catalog
