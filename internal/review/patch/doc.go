// SPDX-License-Identifier: Apache-2.0

// Package patch holds changes of the files of a repository: edits of exact ranges, which leave all other bytes as they
// are, and new files.
package patch
