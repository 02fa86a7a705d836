// SPDX-License-Identifier: Apache-2.0

// Package check has the checks of a review. Each is one file with its documentation and its code.
// Package checktest has examples of code with and without findings of each check, which are its tests and its
// documentation (docs/checks.md).
//
// A check reads the facts of package instrumentation, which are the same for every language, or a parsed
// configuration file, or both for the whole repository. Precision comes before recall.
package check
