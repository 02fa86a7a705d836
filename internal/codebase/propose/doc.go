// SPDX-License-Identifier: Apache-2.0

// Package propose has a language model propose changes of code: for findings without a mechanical fix, and for boundaries
// that a mechanical instrumentation leaves.
//
// The model works by tools alone (tools.go): it lists, reads and searches files, replaces lines, and has its change
// verified. The tools act on a Tree (tree.go): the reviewed files of a repository with the changes so far, in memory. A
// tree has no other files, so no path, link or directory of the server is in reach. Only the file of the finding or
// boundary can be changed, unless it says how code is built and tested; and no lines that contain sensitive data, which the model does not
// see (view.go, package redact).
//
// The model does not decide whether a change is good: the caller's verification does (propose.go). A change that is not
// verified after three repairs is undone. Each call is paid from the budgets of the run and of the day (budget.go).
//
// Text of the repository is hostile. It reaches the model between random marks, and the changes that it can
// cause have the bounds above.
package propose
