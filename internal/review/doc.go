// SPDX-License-Identifier: Apache-2.0

// Package review reads a directory of source code and finds the places that lead to bad telemetry.
//
// [Run] lists the files below a directory, parses those that mention telemetry, runs the checks of package check on
// them, and returns a report. It needs no network and executes nothing of the directory. The content is hostile: files
// are opened below the root only, symbolic links are not followed, and every quantity is bounded. A bound that is
// reached ends in a partial report with an error in it. The same content gives the same report.
//
// Everything runs in the calling process. A caller that has to limit time and memory runs `assay review-worker`, which
// takes [Options] as JSON and writes the [Report] as JSON.
package review
