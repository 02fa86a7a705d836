// SPDX-License-Identifier: Apache-2.0

// Package treesitter parses JavaScript, TypeScript, Python and Java with tree-sitter.
//
// The runtime and the grammars of tree-sitter are C code, compiled to one WebAssembly module without imports
// (scripts/grammars). wazero runs it: the module has its own memory, with a limit, and reaches nothing else. A source
// is hostile. Its work is bounded by counts and not by a clock, so the same source always gives the same result; a
// source that exceeds them gives [ErrTooComplex]. docs/adr/0015-source-parsing.md has the measurements.
package treesitter
