// SPDX-License-Identifier: Apache-2.0

// Package catalog is the single table of the Instrumentation Score rules and of the
// insight types. The reference page, the REST API, the command line and the insights take
// their ids, names, impacts and texts from this package.
//
// The rules of the specification come first and enter a score. The other insight types never
// do. Short, exact fields (id, impact, target, criterion) are Go
// code in rules.go. Long texts are Markdown files below texts, one for each entry,
// embedded in the binary.
package catalog
