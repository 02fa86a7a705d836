// SPDX-License-Identifier: Apache-2.0

package syntax

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// javaScript translates the trees of the JavaScript, TypeScript and TSX grammars.
type javaScript struct{ *adapter }

func (j javaScript) skip(kind string) bool {
	switch kind {
	case "hash_bang_line", "empty_statement", "debugger_statement", "type_alias_declaration", "ambient_declaration", "import_alias", "function_signature",
		"index_signature", "call_signature", "construct_signature", "accessibility_modifier", "override_modifier", "jsx_text", "jsx_closing_element", "html_character_reference",
		"property_identifier", "type_identifier", "statement_identifier", "predefined_type", "asserts_annotation", "omitting_type_annotation", "opting_type_annotation",
		"type_annotation", "type_arguments", "type_parameters", "type_predicate_annotation", "export_clause", "namespace_export", "regex_pattern", "regex_flags":
		return true
	}
	return strings.HasSuffix(kind, "_type")
}

func (j javaScript) translate(i int32) []*Node {
	switch j.Kind(i) {
	case "import_statement":
		j.imports(i)
		return nil
	case "export_statement":
		if source := j.ChildByField(i, "source"); source >= 0 {
			j.f.Imports = append(j.f.Imports, Import{Path: j.expr(source).Text, Node: j.node(Other, source)})
			return nil
		}
		decorators := j.nodes(j.fields(i, "decorator"))
		out := j.nodes(append(j.fields(i, "declaration"), j.fields(i, "value")...))
		if len(out) > 0 && len(decorators) > 0 {
			out[0].Children = append(decorators, out[0].Children...)
		}
		return out
	case "lexical_declaration", "variable_declaration", "expression_statement":
		return j.nodes(j.named(i))
	case "sequence_expression":
		if j.Kind(j.Nodes[i].Parent) == "expression_statement" {
			return j.nodes(j.named(i))
		}
	case "internal_module", "module", "labeled_statement":
		return j.statement(j.ChildByField(i, "body"))
	case "class_body", "interface_body", "enum_body":
		return j.members(i)
	}
	return one(j.expression(i))
}

func (j javaScript) imports(i int32) {
	source := j.ChildByField(i, "source")
	require := j.child(i, "import_require_clause")
	if require >= 0 {
		source = j.ChildByField(require, "source")
	}
	if source < 0 {
		return
	}
	base := Import{Path: j.expr(source).Text, Node: j.node(Other, source)}
	add := func(member string, name int32) {
		imp := base
		imp.Member, imp.Name = member, j.code(name)
		j.f.Imports = append(j.f.Imports, imp)
	}
	before := len(j.f.Imports)
	for _, c := range j.named(require) {
		if j.Kind(c) == "identifier" {
			add("", c)
		}
	}
	for _, c := range j.named(j.child(i, "import_clause")) {
		switch j.Kind(c) {
		case "identifier":
			add("default", c)
		case "namespace_import":
			add("", j.child(c, "identifier"))
		case "named_imports":
			for _, s := range j.named(c) {
				name := j.ChildByField(s, "name")
				local := j.ChildByField(s, "alias")
				if local < 0 {
					local = name
				}
				add(j.key(name).Text, local)
			}
		}
	}
	if len(j.f.Imports) == before {
		j.f.Imports = append(j.f.Imports, base)
	}
}

// required records that an assignment gives names to a module: const x = require("y"), const { z } = await import("y").
func (j javaScript) required(assign *Node) {
	target, value := assign.Children[0], assign.Value()
	member := ""
	for value.Kind == Await && len(value.Children) == 1 || value.Kind == Member {
		if value.Kind == Member {
			if member != "" {
				return
			}
			member = value.Text
		}
		value = value.Children[0]
	}
	at := len(j.f.Imports) - 1
	if at < 0 || j.f.Imports[at].Node != value {
		return
	}
	base := j.f.Imports[at]
	base.Member = member
	switch {
	case target.Kind == Name:
		j.f.Imports[at].Member, j.f.Imports[at].Name = member, target.Text
	case target.Kind == Object && member == "":
		for _, p := range target.Children {
			if p.Kind != Pair || p.Children[0].Kind != String {
				continue
			}
			local := p.Children[1]
			if local.Kind == Operator && len(local.Children) > 0 {
				local = local.Children[0]
			}
			if local.Kind == Name {
				j.f.Imports = append(j.f.Imports, Import{Path: base.Path, Member: p.Children[0].Text, Name: local.Text, Node: value})
			}
		}
	}
}

func (j javaScript) expression(i int32) *Node {
	switch j.Kind(i) {
	case "identifier", "this", "super", "shorthand_property_identifier", "shorthand_property_identifier_pattern", "import", "private_property_identifier", "meta_property", "nested_identifier":
		return j.node(Name, i).text(j.code(i))
	case "null", "undefined":
		return j.node(Null, i)
	case "number":
		return j.node(Number, i).text(j.code(i))
	case "string":
		return j.node(String, i).text(j.unquoted(i))
	case "template_string":
		return j.template(i)
	case "as_expression", "satisfies_expression", "non_null_expression", "type_assertion", "instantiation_expression":
		for _, c := range j.named(i) {
			if !j.skip(j.Kind(c)) {
				return j.expr(c)
			}
		}
	case "member_expression":
		return j.node(Member, i, j.field(i, "object")).text(j.code(j.ChildByField(i, "property")))
	case "subscript_expression":
		return j.node(Index, i, j.field(i, "object"), j.field(i, "index"))
	case "call_expression":
		n := j.node(Call, i, append([]*Node{j.field(i, "function")}, j.arguments(i)...)...)
		if f := n.Children[0]; f.Kind == Await && len(f.Children) == 1 && j.ChildByField(i, "type_arguments") >= 0 {
			// The grammar parses await f<T>(x) as a call of the awaited expression.
			n.Children[0], n.Start = f.Children[0], f.Children[0].Start
			return &Node{Kind: Await, Start: f.Start, End: n.End, Children: []*Node{n}}
		}
		if c := n.Children[0]; c.Kind == Name && (c.Text == "require" || c.Text == "import") && len(n.Children) == 2 && n.Children[1].Kind == String {
			j.f.Imports = append(j.f.Imports, Import{Path: n.Children[1].Text, Node: n})
		}
		return n
	case "new_expression":
		return j.node(New, i, append([]*Node{j.field(i, "constructor")}, j.arguments(i)...)...)
	case "object", "object_pattern":
		return j.object(i)
	case "assignment_pattern", "object_assignment_pattern":
		return j.node(Operator, i, j.field(i, "left"), j.field(i, "right")).text("=")
	case "assignment_expression", "augmented_assignment_expression":
		op := "="
		if c := j.ChildByField(i, "operator"); c >= 0 {
			op = j.code(c)
		}
		n := j.node(Assign, i, j.field(i, "left"), j.field(i, "right")).text(op)
		j.required(n)
		return n
	case "variable_declarator", "field_definition", "public_field_definition", "property_signature":
		return j.declarator(i)
	case "await_expression":
		return j.node(Await, i, j.exprs(j.named(i))...).text("await")
	case "yield_expression":
		return j.node(Await, i, j.exprs(j.named(i))...).text("yield")
	case "jsx_opening_element", "jsx_self_closing_element":
		return j.node(Other, i, j.nodes(j.fields(i, "attribute"))...)

	case "function_declaration", "generator_function_declaration", "function_expression", "generator_function", "arrow_function", "method_definition", "method_signature", "abstract_method_signature":
		return j.function(i)
	case "class_declaration", "abstract_class_declaration", "class", "interface_declaration", "enum_declaration":
		return j.class(i)

	case "statement_block", "class_static_block":
		if body := j.ChildByField(i, "body"); body >= 0 {
			return j.block(body)
		}
		return j.block(i)
	case "for_in_statement":
		left, right := j.field(i, "left"), j.field(i, "right")
		header := &Node{Kind: Assign, Start: left.Start, End: right.End, Text: j.code(j.ChildByField(i, "operator")), Children: []*Node{left, right}}
		return j.node(Loop, i, header, j.block(j.ChildByField(i, "body")))
	case "switch_statement":
		n := j.node(Switch, i, j.field(i, "value"))
		for _, c := range j.named(j.ChildByField(i, "body")) {
			label := j.node(Case, c, j.nodes(j.fields(c, "value"))...)
			label.Children = append(label.Children, around(j.nodes(j.fields(c, "body")), label.End))
			n.Children = append(n.Children, label)
		}
		return n
	case "try_statement":
		n := j.node(Try, i, j.block(j.ChildByField(i, "body")))
		if c := j.ChildByField(i, "handler"); c >= 0 {
			handler := j.node(Catch, c)
			if p := j.ChildByField(c, "parameter"); p >= 0 {
				handler.Children = append(handler.Children, j.param(p, p, -1).typed(j.typeOf(c)))
			}
			handler.Children = append(handler.Children, j.block(j.ChildByField(c, "body")))
			n.Children = append(n.Children, handler)
		}
		if c := j.ChildByField(i, "finalizer"); c >= 0 {
			n.Children = append(n.Children, j.node(Finally, c, j.block(j.ChildByField(c, "body"))))
		}
		return n
	}
	return j.common(i)
}

func (j javaScript) arguments(i int32) []*Node {
	args := j.ChildByField(i, "arguments")
	if args < 0 {
		return nil
	}
	if j.Kind(args) == "template_string" {
		return one(j.expr(args))
	}
	return j.exprs(j.named(args))
}

// key returns the key of a property: a String, or an expression if it is computed.
func (j javaScript) key(i int32) *Node {
	if i < 0 {
		return &Node{Kind: String}
	}
	switch j.Kind(i) {
	case "computed_property_name":
		if c := j.named(i); len(c) == 1 {
			return j.expr(c[0])
		}
	case "string":
		return j.expr(i)
	}
	return j.node(String, i).text(j.code(i))
}

func (j javaScript) object(i int32) *Node {
	n := j.node(Object, i)
	for _, c := range j.named(i) {
		var child *Node
		switch j.Kind(c) {
		case "pair", "pair_pattern":
			child = j.node(Pair, c, j.key(j.ChildByField(c, "key")), j.field(c, "value"))
		case "shorthand_property_identifier", "shorthand_property_identifier_pattern":
			child = j.node(Pair, c, j.node(String, c).text(j.code(c)), j.expr(c))
		case "object_assignment_pattern":
			left := j.ChildByField(c, "left")
			child = j.node(Pair, c, j.node(String, left).text(j.code(left)), j.expr(c))
		default:
			child = j.expr(c)
		}
		n.Children = append(n.Children, child)
	}
	return n
}

// typeOf returns the declared type of a node, without the colon.
func (j javaScript) typeOf(i int32) string {
	for _, field := range []string{"type", "return_type"} {
		if c := j.ChildByField(i, field); c >= 0 {
			return strings.TrimSpace(strings.TrimPrefix(j.code(c), ":"))
		}
	}
	return ""
}

// declarator translates a variable or field.
func (j javaScript) declarator(i int32) *Node {
	name := j.ChildByField(i, "name")
	if name < 0 {
		name = j.ChildByField(i, "property") // of the JavaScript grammar
	}
	var target *Node
	switch j.Kind(name) {
	case "property_identifier", "private_property_identifier":
		target = j.node(Name, name).text(j.code(name))
	case "object_pattern", "array_pattern", "identifier":
		target = j.expr(name)
	default:
		target = j.key(name)
	}
	n := j.node(Declare, i, target).typed(j.typeOf(i))
	if v := j.ChildByField(i, "value"); v >= 0 {
		n.Kind, n.Text = Assign, "="
		n.Children = append(n.Children, j.expr(v))
		j.required(n)
	}
	return n
}

func (j javaScript) function(i int32) *Node {
	n := j.node(Func, i).typed(j.typeOf(i))
	if name := j.ChildByField(i, "name"); name >= 0 {
		n.Text = j.key(name).Text
	}
	n.Children = j.nodes(j.fields(i, "decorator"))
	if p := j.ChildByField(i, "parameter"); p >= 0 {
		n.Children = append(n.Children, j.param(p, p, -1))
	}
	for _, p := range j.named(j.ChildByField(i, "parameters")) {
		switch j.Kind(p) {
		case "required_parameter", "optional_parameter":
			param := j.param(p, j.ChildByField(p, "pattern"), j.ChildByField(p, "value")).typed(j.typeOf(p))
			param.Children = append(j.nodes(j.fields(p, "decorator")), param.Children...)
			n.Children = append(n.Children, param)
		case "assignment_pattern":
			n.Children = append(n.Children, j.param(p, j.ChildByField(p, "left"), j.ChildByField(p, "right")))
		default:
			n.Children = append(n.Children, j.param(p, p, -1))
		}
	}
	n.Children = append(n.Children, j.body(i))
	return n
}

// param returns the Param of the range i with the name or pattern and the default value, -1 for none.
func (j javaScript) param(i, pattern, value int32) *Node {
	n := j.node(Param, i)
	if pattern < 0 {
		return n
	}
	if j.Kind(pattern) == "rest_pattern" {
		if c := j.named(pattern); len(c) == 1 {
			pattern = c[0]
		}
	}
	if k := j.Kind(pattern); k == "identifier" || k == "this" {
		n.Text = j.code(pattern)
		if value >= 0 {
			n.Children = one(j.expr(value))
		}
		return n
	}
	n.Children = one(j.expr(pattern))
	if value >= 0 {
		v := j.expr(value)
		n.Children = one(&Node{Kind: Operator, Start: n.Children[0].Start, End: v.End, Text: "=", Children: []*Node{n.Children[0], v}})
	}
	return n
}

func (j javaScript) class(i int32) *Node {
	n := j.node(Class, i, j.nodes(j.fields(i, "decorator"))...)
	n.Text = j.code(j.ChildByField(i, "name"))
	for _, c := range j.named(i) {
		switch j.Kind(c) {
		case "class_heritage":
			for _, h := range j.named(c) {
				if j.Kind(h) == "extends_clause" {
					n.Children = append(n.Children, j.exprs(j.fields(h, "value"))...)
				} else if j.Kind(h) == "implements_clause" {
					n.Children = append(n.Children, j.types(h)...)
				} else {
					n.Children = append(n.Children, j.expr(h))
				}
			}
		case "extends_type_clause":
			n.Children = append(n.Children, j.types(c)...)
		}
	}
	n.Children = append(n.Children, j.members(j.ChildByField(i, "body"))...)
	return n
}

// types returns the types of a clause as Name or Member.
func (j javaScript) types(clause int32) []*Node {
	var out []*Node
	for _, c := range j.named(clause) {
		if j.Kind(c) == "generic_type" {
			c = j.ChildByField(c, "name")
		}
		if c >= 0 {
			out = append(out, j.dotted(c))
		}
	}
	return out
}

// members returns the members of a class. They include constructor parameters that declare a property.
func (j javaScript) members(body int32) []*Node {
	var out, decorators []*Node
	for _, c := range j.named(body) {
		switch j.Kind(c) {
		case "decorator": // precedes the method that it decorates
			decorators = append(decorators, j.expr(c))
			continue
		case "enum_assignment":
			key := j.key(j.ChildByField(c, "name"))
			key.Kind = Name
			out = append(out, j.node(Assign, c, key, j.field(c, "value")).text("="))
			continue
		case "property_identifier":
			out = append(out, j.node(Declare, c, j.node(Name, c).text(j.code(c))))
			continue
		}
		members := j.statement(c)
		if k := j.Kind(c); k == "public_field_definition" || k == "field_definition" {
			decorators = append(decorators, j.nodes(j.fields(c, "decorator"))...)
		}
		if len(members) == 1 && members[0].Kind == Func {
			members[0].Children = append(decorators, members[0].Children...)
		} else {
			out = append(out, decorators...)
		}
		decorators = nil
		out = append(out, members...)
		for _, p := range j.named(j.ChildByField(c, "parameters")) {
			if name := j.ChildByField(p, "pattern"); name >= 0 && (j.has(p, "accessibility_modifier") || j.has(p, "readonly")) {
				out = append(out, j.node(Declare, name, j.node(Name, name).text(j.code(name))).typed(j.typeOf(p)))
			}
		}
	}
	return out
}

// unquoted returns the value of a string literal.
func (j javaScript) unquoted(i int32) string {
	s := j.code(i)
	if len(s) < 2 {
		return ""
	}
	return unescape(s[1:len(s)-1], false)
}

// template returns a String for a template without substitutions, otherwise a Template.
func (j javaScript) template(i int32) *Node {
	n := j.node(Template, i)
	at := n.Start + 1
	known := func(end int) {
		if end > at {
			n.Children = append(n.Children, &Node{Kind: String, Start: at, End: end, Text: unescape(string(j.f.Source[at:end]), false)})
		}
	}
	for _, c := range j.named(i) {
		if j.Kind(c) == "template_substitution" {
			known(int(j.Nodes[c].Start))
			n.Children = append(n.Children, j.nodes(j.named(c))...)
			at = int(j.Nodes[c].End)
		}
	}
	known(n.End - 1)
	switch {
	case len(n.Children) == 0:
		n.Kind = String
	case len(n.Children) == 1 && n.Children[0].Kind == String && at == n.Start+1:
		n.Kind, n.Text, n.Children = String, n.Children[0].Text, nil
	}
	return n
}

// unescape replaces the escape sequences of JavaScript, Java and Python, as far as they are the same. Unknown sequences
// keep the backslash if keepUnknown is set, as in Python, and lose it otherwise, as in JavaScript.
func unescape(s string, keepUnknown bool) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		at := strings.IndexByte(s, '\\')
		if at < 0 || at == len(s)-1 {
			break
		}
		b.WriteString(s[:at])
		c := s[at+1]
		s = s[at+2:]
		hex := func(digits int) {
			if v, err := strconv.ParseUint(s[:min(digits, len(s))], 16, 32); err == nil && len(s) >= digits {
				b.WriteRune(rune(v))
				s = s[digits:]
			}
		}
		switch c {
		case 'n':
			b.WriteByte('\n')
		case 't':
			b.WriteByte('\t')
		case 'r':
			b.WriteByte('\r')
		case 'b':
			b.WriteByte('\b')
		case 'f':
			b.WriteByte('\f')
		case '\n': // a line continuation
		case 'x':
			hex(2)
		case 'u':
			if inner, rest, ok := strings.Cut(strings.TrimPrefix(s, "{"), "}"); ok && strings.HasPrefix(s, "{") {
				if v, err := strconv.ParseUint(inner, 16, 32); err == nil && v <= utf8.MaxRune {
					b.WriteRune(rune(v))
				}
				s = rest
				continue
			}
			hex(4)
		case 'U':
			hex(8)
		default:
			if keepUnknown && !slices.Contains([]byte(`\'"`), c) {
				b.WriteByte('\\')
			}
			b.WriteByte(c)
		}
	}
	return b.String() + s
}
