// SPDX-License-Identifier: Apache-2.0

package syntax

import (
	"strings"
)

// java translates the trees of the Java grammar.
type java struct{ *adapter }

func (j java) skip(kind string) bool {
	switch kind {
	case "type_arguments", "type_parameters", "throws", "permits", "dimensions", "wildcard", "annotated_type", "module_declaration", "catch_type", "type_list", "modifiers":
		return true
	}
	return strings.HasSuffix(kind, "_type") && kind != "generic_type"
}

func (j java) translate(i int32) []*Node {
	switch j.Kind(i) {
	case "package_declaration":
		for _, c := range j.named(i) {
			if k := j.Kind(c); k == "scoped_identifier" || k == "identifier" {
				j.f.Package = j.code(c)
			}
		}
		return nil
	case "import_declaration":
		j.imports(i)
		return nil
	case "expression_statement":
		return j.nodes(j.named(i))
	case "labeled_statement":
		if c := j.named(i); len(c) == 2 {
			return j.statement(c[1])
		}
	case "local_variable_declaration", "field_declaration", "constant_declaration":
		out := j.decorators(i)
		typ := j.code(j.ChildByField(i, "type"))
		for _, d := range j.fields(i, "declarator") {
			out = append(out, j.declarator(d, typ))
		}
		return out
	case "enum_body_declarations", "static_initializer":
		return j.nodes(j.named(i))
	}
	return one(j.expression(i))
}

func (j java) imports(i int32) {
	for _, c := range j.named(i) {
		if j.Kind(c) == "asterisk" {
			continue
		}
		imp := Import{Path: j.code(c), Member: "*", Node: j.node(Other, c)}
		if !j.has(i, "asterisk") {
			if at := strings.LastIndexByte(imp.Path, '.'); at >= 0 {
				imp.Path, imp.Member = imp.Path[:at], imp.Path[at+1:]
				imp.Name = imp.Member
			}
		}
		j.f.Imports = append(j.f.Imports, imp)
	}
}

// decorators returns the annotations of a declaration.
func (j java) decorators(i int32) []*Node {
	var out []*Node
	for _, m := range j.named(j.child(i, "modifiers")) {
		if k := j.Kind(m); k == "annotation" || k == "marker_annotation" {
			out = append(out, j.expr(m))
		}
	}
	return out
}

func (j java) declarator(i int32, typ string) *Node {
	n := j.node(Declare, i, j.field(i, "name")).typed(typ)
	if v := j.ChildByField(i, "value"); v >= 0 {
		n.Kind, n.Text = Assign, "="
		n.Children = append(n.Children, j.expr(v))
	}
	return n
}

func (j java) expression(i int32) *Node {
	switch j.Kind(i) {
	case "identifier", "this", "super", "type_identifier", "underscore_pattern":
		return j.node(Name, i).text(j.code(i))
	case "scoped_identifier", "scoped_type_identifier":
		return j.dotted(i)
	case "generic_type":
		if c := j.named(i); len(c) > 0 {
			return j.expr(c[0])
		}
	case "null_literal":
		return j.node(Null, i)
	case "decimal_integer_literal", "hex_integer_literal", "octal_integer_literal", "binary_integer_literal", "decimal_floating_point_literal", "hex_floating_point_literal":
		return j.node(Number, i).text(j.code(i))
	case "character_literal":
		return j.node(String, i).text(unescape(strings.Trim(j.code(i), "'"), false))
	case "string_literal":
		return j.string(i)
	case "template_expression":
		return j.field(i, "template_argument")
	case "cast_expression":
		return j.field(i, "value")
	case "field_access":
		return j.node(Member, i, j.field(i, "object")).text(j.code(j.ChildByField(i, "field")))
	case "class_literal":
		n := j.node(Member, i).text("class")
		for c := range j.Children(i) {
			if j.Nodes[c].Named {
				n.Children = one(j.dotted(c))
				break
			}
		}
		return n
	case "array_access":
		return j.node(Index, i, j.field(i, "array"), j.field(i, "index"))
	case "method_invocation":
		name := j.ChildByField(i, "name")
		callee := j.node(Name, max(name, i)).text(j.code(name))
		if object := j.ChildByField(i, "object"); object >= 0 {
			callee.Kind, callee.Start, callee.Children = Member, int(j.Nodes[object].Start), one(j.expr(object))
		}
		return j.node(Call, i, append(one(callee), j.arguments(i)...)...)
	case "explicit_constructor_invocation":
		return j.node(Call, i, append(one(j.field(i, "constructor")), j.arguments(i)...)...)
	case "object_creation_expression":
		n := j.node(New, i, append(one(j.field(i, "type")), j.arguments(i)...)...)
		if body := j.child(i, "class_body"); body >= 0 {
			n.Children = append(n.Children, j.node(Class, body, j.nodes(j.named(body))...))
		}
		return n
	case "method_reference":
		n := j.node(Member, i)
		if c := j.named(i); len(c) > 0 {
			n.Children = one(j.dotted(c[0]))
			if k := j.Kind(c[0]); !j.skip(k) {
				n.Children = one(j.expr(c[0]))
			}
		}
		_, n.Text, _ = strings.Cut(j.code(i), "::")
		return n
	case "lambda_expression", "method_declaration", "constructor_declaration", "compact_constructor_declaration", "annotation_type_element_declaration":
		return j.function(i)
	case "array_creation_expression":
		n := j.node(List, i).text(j.code(j.ChildByField(i, "type")))
		for _, d := range j.fields(i, "dimensions") {
			n.Children = append(n.Children, j.nodes(j.named(d))...)
		}
		if v := j.ChildByField(i, "value"); v >= 0 {
			n.Children = j.exprs(j.named(v))
		}
		return n
	case "assignment_expression":
		return j.node(Assign, i, j.field(i, "left"), j.field(i, "right")).text(j.code(j.ChildByField(i, "operator")))
	case "instanceof_expression":
		return j.node(Operator, i, j.field(i, "left")).text("instanceof")
	case "update_expression":
		return j.node(Operator, i, j.exprs(j.named(i))...).text(j.operator(i))

	case "annotation", "marker_annotation":
		name := j.field(i, "name")
		if args := j.ChildByField(i, "arguments"); args >= 0 {
			name = &Node{Kind: Call, Start: name.Start, End: int(j.Nodes[args].End), Children: append(one(name), j.exprs(j.named(args))...)}
		}
		return j.node(Decorator, i, name)
	case "element_value_pair":
		return j.node(Argument, i, j.field(i, "value")).text(j.code(j.ChildByField(i, "key")))
	case "class_declaration", "interface_declaration", "enum_declaration", "record_declaration", "annotation_type_declaration":
		return j.class(i)
	case "enum_constant":
		name := j.field(i, "name")
		if args := j.ChildByField(i, "arguments"); args >= 0 || j.has(i, "class_body") {
			value := &Node{Kind: New, Start: name.Start, End: int(j.Nodes[i].End), Children: append([]*Node{{Kind: Name, Start: name.Start, End: name.Start}}, j.arguments(i)...)}
			if body := j.ChildByField(i, "body"); body >= 0 {
				value.Children = append(value.Children, j.node(Class, body, j.nodes(j.named(body))...))
			}
			return j.node(Assign, i, name, value).text("=")
		}
		return j.node(Declare, i, name)

	case "enhanced_for_statement":
		name, value := j.field(i, "name"), j.field(i, "value")
		header := &Node{Kind: Assign, Start: name.Start, End: value.End, Text: ":", Type: j.code(j.ChildByField(i, "type")), Children: []*Node{name, value}}
		return j.node(Loop, i, header, j.block(j.ChildByField(i, "body")))
	case "switch_expression":
		return j.switches(i)
	case "try_statement", "try_with_resources_statement":
		return j.try(i)
	}
	return j.common(i)
}

func (j java) arguments(i int32) []*Node {
	return j.exprs(j.named(j.ChildByField(i, "arguments")))
}

func (j java) function(i int32) *Node {
	n := j.node(Func, i, j.decorators(i)...).text(j.code(j.ChildByField(i, "name"))).typed(j.code(j.ChildByField(i, "type")))
	switch params := j.ChildByField(i, "parameters"); {
	case params < 0:
	case j.Kind(params) == "identifier":
		n.Children = append(n.Children, j.node(Param, params).text(j.code(params)))
	default:
		for _, p := range j.named(params) {
			name, typ := j.ChildByField(p, "name"), j.ChildByField(p, "type")
			switch j.Kind(p) {
			case "identifier":
				name = p
			case "receiver_parameter":
				continue
			case "spread_parameter":
				name = j.ChildByField(j.child(p, "variable_declarator"), "name")
				for _, c := range j.named(p) {
					if k := j.Kind(c); k != "modifiers" && k != "variable_declarator" {
						typ = c
					}
				}
			}
			n.Children = append(n.Children, j.node(Param, p, j.decorators(p)...).text(j.code(name)).typed(j.code(typ)))
		}
	}
	n.Children = append(n.Children, j.body(i))
	return n
}

func (j java) class(i int32) *Node {
	n := j.node(Class, i, j.decorators(i)...).text(j.code(j.ChildByField(i, "name")))
	for _, c := range j.named(i) {
		switch j.Kind(c) {
		case "superclass":
			n.Children = append(n.Children, j.types(c)...)
		case "super_interfaces", "extends_interfaces":
			n.Children = append(n.Children, j.types(j.child(c, "type_list"))...)
		case "formal_parameters": // of a record
			for _, p := range j.named(c) {
				n.Children = append(n.Children, j.decorators(p)...)
				n.Children = append(n.Children, j.node(Declare, p, j.field(p, "name")).typed(j.code(j.ChildByField(p, "type"))))
			}
		}
	}
	n.Children = append(n.Children, j.nodes(j.named(j.ChildByField(i, "body")))...)
	return n
}

func (j java) types(i int32) []*Node {
	var out []*Node
	for _, c := range j.named(i) {
		if j.Kind(c) == "generic_type" {
			if g := j.named(c); len(g) > 0 {
				c = g[0]
			}
		}
		out = append(out, j.dotted(c))
	}
	return out
}

func (j java) switches(i int32) *Node {
	n := j.node(Switch, i, j.field(i, "condition"))
	for _, group := range j.named(j.ChildByField(i, "body")) {
		c := j.node(Case, group)
		var body []*Node
		for _, s := range j.named(group) {
			switch j.Kind(s) {
			case "switch_label":
				c.Children = append(c.Children, j.exprs(j.named(s))...)
			case "block":
				if j.Kind(group) == "switch_rule" {
					body = append(body, j.nodes(j.named(s))...)
					continue
				}
				fallthrough
			default:
				body = append(body, j.statement(s)...)
			}
		}
		c.Children = append(c.Children, around(body, c.End))
		n.Children = append(n.Children, c)
	}
	return n
}

// try returns a Try, or a With for resources without clauses. For both, it returns a Try whose body contains a With.
func (j java) try(i int32) *Node {
	body := j.block(j.ChildByField(i, "body"))
	resources := j.ChildByField(i, "resources")
	if resources >= 0 {
		with := &Node{Kind: With, Start: int(j.Nodes[i].Start), End: body.End}
		for _, r := range j.named(resources) {
			if j.ChildByField(r, "value") >= 0 {
				with.Children = append(with.Children, j.declarator(r, j.code(j.ChildByField(r, "type"))))
			} else {
				with.Children = append(with.Children, j.nodes(j.named(r))...)
			}
		}
		with.Children = append(with.Children, body)
		if !j.has(i, "catch_clause") && !j.has(i, "finally_clause") {
			return with
		}
		body = &Node{Kind: Block, Start: with.Start, End: with.End, Children: one(with)}
	}
	n := j.node(Try, i, body)
	for _, c := range j.named(i) {
		switch j.Kind(c) {
		case "catch_clause":
			param := j.child(c, "catch_formal_parameter")
			handler := j.node(Catch, c)
			if param >= 0 {
				handler.Children = one(j.node(Param, param).text(j.code(j.ChildByField(param, "name"))).typed(j.code(j.child(param, "catch_type"))))
			}
			handler.Children = append(handler.Children, j.block(j.ChildByField(c, "body")))
			n.Children = append(n.Children, handler)
		case "finally_clause":
			n.Children = append(n.Children, j.node(Finally, c, j.block(j.child(c, "block"))))
		}
	}
	return n
}

// string translates a literal or text block to a String, or to a Template if it has interpolations.
func (j java) string(i int32) *Node {
	code := j.code(i)
	if text, ok := strings.CutPrefix(code, `"""`); ok && j.has(i, `"""`) {
		return j.node(String, i).text(textBlock(strings.TrimSuffix(text, `"""`)))
	}
	n := j.node(Template, i)
	var known *Node
	for _, c := range j.named(i) {
		if j.Kind(c) == "string_interpolation" {
			n.Children = append(n.Children, j.nodes(j.named(c))...)
			known = nil
			continue
		}
		if known == nil {
			known = j.node(String, c)
			n.Children = append(n.Children, known)
		}
		known.End = int(j.Nodes[c].End)
	}
	for _, c := range n.Children {
		if c.Kind == String {
			c.Text = unescape(j.f.Code(c), false)
		}
	}
	if len(n.Children) == 0 || len(n.Children) == 1 && known != nil {
		n.Kind, n.Children = String, nil
		if len(code) >= 2 {
			n.Text = unescape(code[1:len(code)-1], false)
		}
	}
	return n
}

// textBlock removes the indentation of a text block, whose content starts on the line after its delimiter.
func textBlock(s string) string {
	_, s, _ = strings.Cut(s, "\n")
	lines := strings.Split(s, "\n")
	indent := -1
	for k, l := range lines {
		if trimmed := strings.TrimLeft(l, " \t"); trimmed != "" || k == len(lines)-1 {
			if n := len(l) - len(trimmed); indent < 0 || n < indent {
				indent = n
			}
		}
	}
	for k, l := range lines {
		lines[k] = strings.TrimRight(l[min(max(indent, 0), len(l)):], " \t\r")
	}
	return unescape(strings.Join(lines, "\n"), false)
}
