// SPDX-License-Identifier: Apache-2.0

// Package report holds the result of judging recorded telemetry and writes it as
// text for a terminal, JSON for programs, Markdown for a pull request, JUnit XML
// and SARIF for CI systems.
package report
