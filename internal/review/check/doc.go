// SPDX-License-Identifier: Apache-2.0

// Package check contains the checks of a review. Each check has one file with its documentation and its code. The
// examples in package checktest, code with and without findings, are the tests of the checks and part of their
// documentation (docs/checks.md).
//
// A check reads the facts of package instrumentation, which are the same for every language, parsed configuration
// files, or both for the whole repository. Checks prefer precision over recall.
package check
