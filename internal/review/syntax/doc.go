// SPDX-License-Identifier: Apache-2.0

// Package syntax provides one syntax tree for the languages that a review reads: Go, JavaScript, TypeScript, Python and
// Java.
//
// Checks need the same facts in every language: a call, its receiver and literals, and the block and function around
// it. The tree has nodes for these facts only. Constructs without a [Kind] are [Other], with their children in source
// order, so that a walk reaches every call of a file.
//
// Each language has an adapter in its own file. The adapter of Go translates the tree of go/parser, the others
// translate the trees of package treesitter. An adapter never fails on an unknown construct. Every node has its exact
// byte range in the source, without surrounding white space: a fix edits that range.
package syntax
