// SPDX-License-Identifier: Apache-2.0

// Package report holds the scores of recorded telemetry and writes them, and the findings of code reviews, as text for
// a terminal, JSON for programs, Markdown for pull requests, and JUnit XML and SARIF for CI systems.
package report
