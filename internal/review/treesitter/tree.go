// SPDX-License-Identifier: Apache-2.0

package treesitter

import "iter"

// Tree is a syntax tree. It is safe for concurrent use, as nothing changes it.
type Tree struct {
	Nodes []Node // in preorder; the first one is the root
	names *names
}

// Node is a node of a tree. Indices are indices of Tree.Nodes.
type Node struct {
	Symbol     uint16 // Tree.Kind has its name
	Field      uint16 // the field of the parent that holds this node, 0 for none
	Start, End uint32 // byte offsets in the source, without surrounding white space
	Parent     int32  // -1 for the root
	Next       int32  // the first node after the subtree, which may not exist
	Named      bool   // a rule of the grammar; other nodes are keywords and punctuation, with their text as kind
	Error      bool   // source that does not match the grammar; its kind is "ERROR"
	Missing    bool   // not in the source, inserted to match the grammar
}

// Kind returns the name of a node's kind as the grammar has it: "call_expression", "(", "ERROR".
func (t *Tree) Kind(node int32) string {
	if n := t.Nodes[node]; int(n.Symbol) < len(t.names.symbols) {
		return t.names.symbols[n.Symbol]
	}
	return "ERROR"
}

// Field returns the name of the field of the parent that holds a node, "" for none.
func (t *Tree) Field(node int32) string { return t.names.fields[t.Nodes[node].Field] }

// Children returns the children of a node in source order, those that are not named included.
func (t *Tree) Children(node int32) iter.Seq[int32] {
	return func(yield func(int32) bool) {
		end := t.Nodes[node].Next
		for c := node + 1; c < end; c = t.Nodes[c].Next {
			if !yield(c) {
				return
			}
		}
	}
}

// ChildByField returns the first child of a node that a field holds, or -1.
func (t *Tree) ChildByField(node int32, field string) int32 {
	for c := range t.Children(node) {
		if t.Field(c) == field {
			return c
		}
	}
	return -1
}
