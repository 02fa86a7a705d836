// SPDX-License-Identifier: Apache-2.0

// Package syntax is one syntax tree for the languages that a review reads: Go, JavaScript, TypeScript, Python and Java.
//
// A check asks the same questions in every language: which call, on what, with which literal, in which block of
// which function. The tree has nodes for the answers and no others. Constructs without a [Kind] of their own are
// [Other], with their children in source order, so that a walk reaches every call of a file.
//
// Each language has an adapter, in a file of its own: Go's translates the tree of go/parser, the others translate
// the trees of package treesitter. An adapter never fails on a construct that it does not know. Every node has its
// exact byte range in the source, without surrounding white space: a fix edits that range.
package syntax
