// SPDX-License-Identifier: Apache-2.0

package syntax

import (
	"context"
	"path"
	"slices"
	"strings"

	"assay/internal/review/treesitter"
)

// maxDepth is the maximum depth of a node. Deeper nodes are left out, and their file is Broken. Some searches visit all
// nodes above a node, or below each node, so the depth multiplies their work.
const maxDepth = 1000

// Parse parses a file: Go with ParseGo, other languages with p, whose errors it returns. A file with syntax errors
// gives the tree of the parts that parse, and is Broken.
func Parse(ctx context.Context, p *treesitter.Parser, name string, language Language, source []byte) (*File, error) {
	grammar := treesitter.JavaScript
	switch language {
	case Go:
		return ParseGo(name, source)
	case TypeScript:
		if grammar = treesitter.TypeScript; strings.EqualFold(path.Ext(name), ".tsx") {
			grammar = treesitter.TSX
		}
	case Python:
		grammar = treesitter.Python
	case Java:
		grammar = treesitter.Java
	}
	tree, err := p.Parse(ctx, grammar, source)
	if err != nil {
		return nil, err
	}
	a := &adapter{Tree: tree, f: &File{Path: name, Language: language, Source: source}}
	switch language {
	case Python:
		a.translate, a.skip = python{a}.translate, python{a}.skip
	case Java:
		a.translate, a.skip = java{a}.translate, java{a}.skip
	default:
		a.translate, a.skip = javaScript{a}.translate, javaScript{a}.skip
	}
	for i, n := range tree.Nodes {
		a.f.Broken = a.f.Broken || n.Error || n.Missing
		if n.Named && strings.HasSuffix(tree.Kind(int32(i)), "comment") {
			a.f.Comments = append(a.f.Comments, Comment{int(n.Start), int(n.End)})
		}
	}
	a.f.Root = &Node{Kind: Block, End: len(source), Children: a.nodes(a.named(0))}
	f := a.f.finish()
	f.Unparsed = f.Unparsed || f.Broken && a.lacks()
	return f, nil
}

// lacks reports whether the tree of a broken file lacks code.
func (a *adapter) lacks() bool {
	name := strings.ToLower(a.f.Path)
	switch {
	case a.f.Language != JavaScript && a.f.Language != TypeScript:
		return true
	case strings.HasSuffix(name, ".d.ts") || strings.HasSuffix(name, ".d.mts") || strings.HasSuffix(name, ".d.cts"):
		return false // declarations of types only
	}
	return slices.ContainsFunc(a.Nodes, func(n treesitter.Node) bool {
		return n.Error && a.f.LineOf(int(n.Start)) < a.f.LineOf(int(n.End))
	})
}

// adapter translates a tree of package treesitter. The adapters of languages embed it.
type adapter struct {
	*treesitter.Tree
	f     *File
	depth int
	scope *Node // the function whose body is translated, for Python
	// translate returns the nodes for a node of the grammar: one for an expression, any number for a statement.
	translate func(i int32) []*Node
	// skip reports whether nodes of a kind contain no code, such as types.
	skip func(kind string) bool
}

func (a *adapter) node(kind Kind, i int32, children ...*Node) *Node {
	n := a.Nodes[i]
	return &Node{Kind: kind, Start: int(n.Start), End: int(n.End), Children: children}
}

func (a *adapter) code(i int32) string {
	if i < 0 {
		return ""
	}
	n := a.Nodes[i]
	return string(a.f.Source[n.Start:n.End])
}

// named returns the children that are neither punctuation nor comments.
func (a *adapter) named(i int32) []int32 {
	var out []int32
	if i >= 0 {
		for c := range a.Children(i) {
			if a.Nodes[c].Named && !strings.HasSuffix(a.Kind(c), "comment") {
				out = append(out, c)
			}
		}
	}
	return out
}

// fields returns the named children in a field.
func (a *adapter) fields(i int32, field string) []int32 {
	var out []int32
	for c := range a.Children(i) {
		if a.Field(c) == field && a.Nodes[c].Named {
			out = append(out, c)
		}
	}
	return out
}

// child returns the first child with a kind, or -1.
func (a *adapter) child(i int32, kind string) int32 {
	for c := range a.Children(i) {
		if a.Kind(c) == kind {
			return c
		}
	}
	return -1
}

func (a *adapter) has(i int32, kind string) bool { return a.child(i, kind) >= 0 }

func (a *adapter) nodes(list []int32) []*Node {
	var out []*Node
	for _, i := range list {
		out = append(out, a.statement(i)...)
	}
	return out
}

func (a *adapter) statement(i int32) []*Node {
	if i < 0 || a.skip(a.Kind(i)) {
		return nil
	}
	if a.depth >= maxDepth {
		a.f.Broken, a.f.Unparsed = true, true
		return []*Node{a.node(Other, i)}
	}
	a.depth++
	defer func() { a.depth-- }()
	return a.translate(i)
}

// expr returns the node of an expression, which is empty for a missing child.
func (a *adapter) expr(i int32) *Node {
	if i < 0 {
		return &Node{}
	}
	nodes := a.statement(i)
	if len(nodes) == 1 {
		return nodes[0]
	}
	return a.node(Other, i, nodes...)
}

func (a *adapter) field(i int32, name string) *Node {
	n := a.expr(a.ChildByField(i, name))
	if n.End == 0 { // the field is missing in a broken file
		n.Start = int(a.Nodes[i].End)
		n.End = n.Start
	}
	return n
}

// optional returns a list with the node of a field, or an empty list without the field.
func (a *adapter) optional(i int32, name string) []*Node {
	if c := a.ChildByField(i, name); c >= 0 {
		return []*Node{a.expr(c)}
	}
	return nil
}

func (a *adapter) exprs(list []int32) []*Node {
	var out []*Node
	for _, i := range list {
		if !a.skip(a.Kind(i)) {
			out = append(out, a.expr(i))
		}
	}
	return out
}

// other returns an Other with all named children.
func (a *adapter) other(i int32) *Node { return a.node(Other, i, a.nodes(a.named(i))...) }

// common translates nodes with kinds and fields that the grammars share.
func (a *adapter) common(i int32) *Node {
	switch kind := a.Kind(i); kind {
	case "true", "false":
		return a.node(Bool, i).text(kind)
	case "binary_expression", "binary_operator":
		return a.binary(i)
	case "ternary_expression":
		return a.node(Conditional, i, a.field(i, "condition"), a.field(i, "consequence"), a.field(i, "alternative"))
	case "parenthesized_expression":
		for _, c := range a.named(i) {
			if !a.skip(a.Kind(c)) {
				return a.expr(c)
			}
		}
	case "array_initializer", "element_value_array_initializer", "array", "array_pattern", "list", "tuple", "set", "expression_list", "pattern_list", "tuple_pattern", "list_pattern":
		return a.node(List, i, a.exprs(a.named(i))...)
	case "spread_element", "rest_pattern", "list_splat", "dictionary_splat", "list_splat_pattern", "dictionary_splat_pattern":
		return a.node(Spread, i, a.exprs(a.named(i))...)
	case "unary_expression", "update_expression", "unary_operator":
		operand := "argument"
		if a.f.Language == Java {
			operand = "operand"
		}
		return a.node(Operator, i, a.field(i, operand)).text(a.code(a.ChildByField(i, "operator")))
	case "if_statement":
		n := a.node(If, i, a.field(i, "condition"), a.block(a.ChildByField(i, "consequence")))
		alternative := a.fields(i, "alternative")
		if len(alternative) == 1 && a.Kind(alternative[0]) == "else_clause" {
			alternative = a.named(alternative[0])
		}
		for _, c := range alternative {
			if a.Kind(c) == "if_statement" {
				n.Children = append(n.Children, a.expr(c))
			} else {
				n.Children = append(n.Children, a.block(c))
			}
		}
		return n
	case "decorator":
		return a.node(Decorator, i, a.exprs(a.named(i))...)
	case "block", "constructor_body", "statement_block":
		return a.block(i)
	case "for_statement":
		n := a.node(Loop, i)
		for _, field := range []string{"initializer", "init", "condition", "increment", "update"} {
			n.Children = append(n.Children, a.nodes(a.fields(i, field))...)
		}
		n.Children = append(n.Children, a.block(a.ChildByField(i, "body")))
		return n
	case "while_statement", "do_statement":
		return a.node(Loop, i, a.field(i, "condition"), a.block(a.ChildByField(i, "body")))
	case "return_statement":
		return a.node(Return, i, a.exprs(a.named(i))...)
	case "throw_statement", "raise_statement":
		return a.node(Throw, i, a.exprs(a.named(i))...)
	case "break_statement", "continue_statement":
		return a.node(Jump, i).text(strings.TrimSuffix(kind, "_statement"))
	}
	return a.other(i)
}

// block returns a Block for a block or a single statement.
func (a *adapter) block(i int32) *Node {
	if i < 0 {
		return &Node{Kind: Block}
	}
	if a.isBlock(i) {
		return a.node(Block, i, a.nodes(a.named(i))...)
	}
	return a.node(Block, i, a.statement(i)...)
}

func (a *adapter) isBlock(i int32) bool {
	return slices.Contains([]string{"block", "constructor_body", "statement_block"}, a.Kind(i))
}

// body returns the body of a function: a Block, which is empty without a body, or the expression of a lambda.
func (a *adapter) body(fn int32) *Node {
	switch i := a.ChildByField(fn, "body"); {
	case i < 0:
		return around(nil, int(a.Nodes[fn].End))
	case a.isBlock(i):
		return a.block(i)
	default:
		return a.expr(i)
	}
}

// around returns a Block around nodes, or an empty one at an offset.
func around(nodes []*Node, at int) *Node {
	b := &Node{Kind: Block, Start: at, End: at, Children: nodes}
	if len(nodes) > 0 {
		b.Start, b.End = nodes[0].Start, nodes[len(nodes)-1].End
	}
	return b
}

// operator returns the text of the unnamed children: the words of an operator between operands.
func (a *adapter) operator(i int32) string {
	var words []string
	for c := range a.Children(i) {
		if !a.Nodes[c].Named {
			words = append(words, a.code(c))
		}
	}
	return strings.Join(words, " ")
}

// binary returns a concatenation for x + y with a string, otherwise an Operator.
func (a *adapter) binary(i int32) *Node {
	op := a.code(a.ChildByField(i, "operator"))
	x, y := a.field(i, "left"), a.field(i, "right")
	if op == "+" {
		if n := concat(a.node(Template, i), x, y); n != nil {
			return n
		}
	}
	return a.node(Operator, i, x, y).text(op)
}

// dotted returns a qualified name as Name or Member.
func (a *adapter) dotted(i int32) *Node {
	n := a.Nodes[i]
	var out *Node
	start := int(n.Start)
	for part := range strings.SplitSeq(a.code(i), ".") {
		end := start + len(part)
		name := strings.TrimSpace(part)
		if out == nil {
			out = &Node{Kind: Name, Start: start, End: end, Text: name}
		} else {
			out = &Node{Kind: Member, Start: int(n.Start), End: end, Text: name, Children: []*Node{out}}
		}
		start = end + 1
	}
	return out
}

func one(n *Node) []*Node { return []*Node{n} }
