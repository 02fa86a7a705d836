// SPDX-License-Identifier: Apache-2.0

// Package check has the checks of a review. Each is one file: what it reports and why, how to fix it, and its code.
// Package checktest has examples of what it reports and of what it must not report, which are its tests and its
// documentation (docs/checks.md).
//
// A check reads the facts of package instrumentation, which are the same for every language, or a parsed
// configuration file, or both for the whole repository. Precision comes before recall.
package check
