// SPDX-License-Identifier: Apache-2.0

// Package review reads a directory of source code and finds the places that lead to bad telemetry.
//
// [Run] lists the files below a directory, parses the files that mention telemetry, runs the checks of package check on
// them, and returns a report. It needs no network and executes nothing in the directory. The content may be hostile:
// Run opens only files below the root, does not follow symbolic links, and limits all sizes and counts. If it reaches a
// limit, the report is partial and contains an error. The same content gives the same report.
//
// Everything runs in the calling process. To limit time and memory, run `assay review-worker`, which reads [Options] as
// JSON and writes the [Report] as JSON.
package review
