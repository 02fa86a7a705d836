// SPDX-License-Identifier: Apache-2.0

// Package catalog is the single table of the Instrumentation Score rules and of the
// insight types. The reference page, the REST API, the command line and the insights take
// their ids, names, impacts and texts from this package.
//
// The rules of the specification come first and enter a score. The other insight types never
// do. Each entry is a Markdown file below texts, embedded in the binary: its short, exact
// fields (id, impact, target, criterion), then its long texts.
package catalog
