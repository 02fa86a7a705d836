// SPDX-License-Identifier: Apache-2.0

// Package propose lets a language model propose changes of code: for findings without a mechanical fix, and for
// boundaries that the mechanical instrumentation does not cover.
//
// The model works only through tools (tools.go): it lists, reads and searches files, replaces lines, and has its change
// verified. The tools act on a Tree (tree.go): the reviewed files of a repository with the changes so far, in memory. A
// tree contains no other files, so no path, link or directory of the server is in reach. The model can change only the
// file of the finding or boundary, and not if that file determines how code is built and tested. It cannot change lines
// with sensitive data, which it does not see (view.go, package redact).
//
// The verification of the caller decides whether a change is good, not the model (propose.go). A change that is not
// verified after three repairs is undone. Each call is charged to the budgets of the run and of the day (budget.go).
//
// Text of the repository is untrusted. It is passed to the model between random marks, and the limits above bound the
// changes that it can cause.
package propose
