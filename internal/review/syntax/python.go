// SPDX-License-Identifier: Apache-2.0

package syntax

import "strings"

// python translates the trees of the Python grammar.
type python struct{ *adapter }

func (p python) skip(kind string) bool {
	switch kind {
	case "pass_statement", "type_alias_statement", "type", "type_parameter", "type_conversion", "keyword_separator", "positional_separator", "line_continuation":
		return true
	}
	return false
}

func (p python) translate(i int32) []*Node {
	switch p.Kind(i) {
	case "import_statement", "import_from_statement":
		p.imports(i, p.outside(i, "import"))
		return nil
	case "future_import_statement":
		p.outside(i, "future")
		return nil
	case "global_statement", "nonlocal_statement":
		p.outside(i, strings.TrimSuffix(p.Kind(i), "_statement"), p.exprs(p.named(i))...)
		return nil
	case "expression_statement":
		var out []*Node
		for _, c := range p.named(i) {
			if p.Kind(c) == "assignment" {
				out = append(out, p.assignments(c)...)
			} else {
				out = append(out, p.expr(c))
			}
		}
		return out
	case "if_statement":
		clauses := p.fields(i, "alternative")
		return one(p.ifs(i, i, clauses))
	case "for_statement":
		x := p.field(i, "right")
		return p.loop(i, p.assign(p.targets(p.ChildByField(i, "left")), x, "in"))
	case "while_statement":
		return p.loop(i, p.field(i, "condition"))
	}
	return one(p.expression(i))
}

// outside adds a statement to File.Statements.
func (p python) outside(i int32, text string, names ...*Node) *Node {
	n := p.node(Other, i, names...).text(text)
	n.Parent = p.scope
	p.f.Statements = append(p.f.Statements, n)
	return n
}

func (p python) imports(i int32, statement *Node) {
	module := p.code(p.ChildByField(i, "module_name"))
	for c := range p.Children(i) {
		switch {
		case p.Kind(c) == "wildcard_import":
			p.f.Imports = append(p.f.Imports, Import{Path: module, Member: "*", Node: statement})
		case p.Field(c) == "name":
			name, local := p.code(c), p.code(c)
			if p.Kind(c) == "aliased_import" {
				name, local = p.code(p.ChildByField(c, "name")), p.code(p.ChildByField(c, "alias"))
			}
			imp := Import{Path: name, Name: local, Node: p.node(Other, c)}
			imp.Node.Parent = statement
			if module != "" {
				imp.Path, imp.Member = module, name
			} else if first, _, dotted := strings.Cut(local, "."); dotted { // import a.b gives a name to a
				imp.Name = ""
				p.f.Imports = append(p.f.Imports, Import{Path: first, Name: first, Node: imp.Node})
			}
			p.f.Imports = append(p.f.Imports, imp)
		}
	}
}

func (p python) ifs(clause, whole int32, rest []int32) *Node {
	n := p.node(If, clause, p.field(clause, "condition"), p.block(p.ChildByField(clause, "consequence")))
	n.End = int(p.Nodes[whole].End)
	if len(rest) > 0 {
		if p.Kind(rest[0]) == "elif_clause" && p.depth < maxDepth {
			p.depth++
			n.Children = append(n.Children, p.ifs(rest[0], whole, rest[1:]))
			p.depth--
		} else {
			n.Children = append(n.Children, p.block(p.ChildByField(rest[0], "body")))
		}
	}
	return n
}

// loop returns a Loop, and the Block of its else clause if there is one.
func (p python) loop(i int32, header *Node) []*Node {
	body := p.block(p.ChildByField(i, "body"))
	out := one(p.node(Loop, i, header, body))
	if c := p.ChildByField(i, "alternative"); c >= 0 {
		out[0].End = body.End
		out = append(out, p.block(p.ChildByField(c, "body")))
	}
	return out
}

// targets returns the targets on the left side of an assignment.
func (p python) targets(i int32) []*Node {
	if i >= 0 && p.Kind(i) == "pattern_list" {
		return p.exprs(p.named(i))
	}
	return one(p.expr(i))
}

func (p python) assign(targets []*Node, value *Node, op string) *Node {
	return &Node{Kind: Assign, Start: targets[0].Start, End: value.End, Text: op, Children: append(targets, value)}
}

// assignments returns an assignment, split into one for each target if there are as many values.
func (p python) assignments(i int32) []*Node {
	left, right := p.ChildByField(i, "left"), p.ChildByField(i, "right")
	if right >= 0 && p.Kind(right) == "expression_list" && left >= 0 && p.Kind(left) == "pattern_list" {
		targets, values := p.targets(left), p.exprs(p.named(right))
		if len(targets) == len(values) {
			var out []*Node
			for k, t := range targets {
				out = append(out, p.assign([]*Node{t}, values[k], "="))
			}
			return out
		}
	}
	return one(p.expr(i))
}

func (p python) expression(i int32) *Node {
	kind := p.Kind(i)
	switch kind {
	case "identifier":
		return p.node(Name, i).text(p.code(i))
	case "dotted_name":
		n := p.dotted(i)
		if parent := p.Kind(p.Nodes[i].Parent); n.Kind == Name && (parent == "case_pattern" || parent == "keyword_pattern" || parent == "union_pattern") {
			return p.node(Declare, i, n) // a pattern that matches everything and gives it a name
		}
		return n
	case "none":
		return p.node(Null, i)
	case "integer", "float":
		return p.node(Number, i).text(p.code(i))
	case "string":
		return p.string(i)
	case "concatenated_string":
		var n *Node
		for _, c := range p.exprs(p.named(i)) {
			if n == nil {
				n = c
			} else if joined := concat(p.node(Template, i), n, c); joined != nil {
				n = joined
			}
		}
		if n != nil {
			n.Start, n.End = int(p.Nodes[i].Start), int(p.Nodes[i].End)
			return n
		}
	case "as_pattern_target", "case_pattern", "parenthesized_list_splat":
		if c := p.named(i); len(c) == 1 {
			return p.expr(c[0])
		}
	case "attribute":
		return p.node(Member, i, p.field(i, "object")).text(p.code(p.ChildByField(i, "attribute")))
	case "subscript":
		return p.node(Index, i, append(one(p.field(i, "value")), p.exprs(p.fields(i, "subscript"))...)...)
	case "call":
		n := p.node(Call, i, p.field(i, "function"))
		if args := p.ChildByField(i, "arguments"); args >= 0 && p.Kind(args) == "argument_list" {
			n.Children = append(n.Children, p.exprs(p.named(args))...)
		} else if args >= 0 {
			n.Children = append(n.Children, p.expr(args))
		}
		return n
	case "keyword_argument":
		return p.node(Argument, i, p.field(i, "value")).text(p.code(p.ChildByField(i, "name")))
	case "splat_pattern":
		n := p.node(Spread, i)
		for _, c := range p.named(i) {
			n.Children = append(n.Children, p.node(Declare, c, p.expr(c)))
		}
		return n
	case "as_pattern":
		if c := p.named(i); len(c) == 2 {
			return p.node(Assign, i, p.expr(c[1]), p.expr(c[0])).text("as")
		}
	case "dictionary":
		return p.node(Object, i, p.exprs(p.named(i))...)
	case "pair":
		return p.node(Pair, i, p.field(i, "key"), p.field(i, "value"))
	case "list_comprehension", "set_comprehension", "dictionary_comprehension", "generator_expression":
		n := p.node(Loop, i)
		for _, c := range p.named(i) {
			switch p.Kind(c) {
			case "for_in_clause":
				if right := p.fields(c, "right"); len(right) > 0 {
					n.Children = append(n.Children, p.assign(p.targets(p.ChildByField(c, "left")), p.expr(right[0]), "in"))
				}
			case "if_clause":
				n.Children = append(n.Children, p.exprs(p.named(c))...)
			}
		}
		n.Children = append(n.Children, p.field(i, "body"))
		return n
	case "assignment":
		targets := p.targets(p.ChildByField(i, "left"))
		typ := p.code(p.ChildByField(i, "type"))
		right := p.ChildByField(i, "right")
		if right < 0 {
			return p.node(Declare, i, targets...).typed(typ)
		}
		for p.Kind(right) == "assignment" && p.ChildByField(right, "right") >= 0 { // a = b = c
			targets = append(targets, p.targets(p.ChildByField(right, "left"))...)
			right = p.ChildByField(right, "right")
		}
		return p.node(Assign, i, append(targets, p.expr(right))...).typed(typ).text("=")
	case "augmented_assignment":
		return p.node(Assign, i, p.field(i, "left"), p.field(i, "right")).text(p.code(p.ChildByField(i, "operator")))
	case "named_expression":
		return p.node(Assign, i, p.field(i, "name"), p.field(i, "value")).text(":=")
	case "boolean_operator":
		return p.node(Operator, i, p.field(i, "left"), p.field(i, "right")).text(p.code(p.ChildByField(i, "operator")))
	case "not_operator":
		return p.node(Operator, i, p.field(i, "argument")).text("not")
	case "comparison_operator":
		return p.node(Operator, i, p.exprs(p.named(i))...).text(p.operator(i))
	case "conditional_expression":
		if c := p.exprs(p.named(i)); len(c) == 3 {
			return p.node(Conditional, i, c[1], c[0], c[2])
		}
	case "await", "yield":
		return p.node(Await, i, p.exprs(p.named(i))...).text(kind)

	case "lambda", "function_definition":
		return p.function(i)
	case "class_definition":
		n := p.node(Class, i, p.exprs(p.named(p.ChildByField(i, "superclasses")))...).text(p.code(p.ChildByField(i, "name")))
		n.Children = append(n.Children, p.nodes(p.named(p.ChildByField(i, "body")))...)
		return n
	case "decorated_definition":
		n := p.field(i, "definition")
		n.Start = int(p.Nodes[i].Start)
		var decorators []*Node
		for _, c := range p.named(i) {
			if p.Kind(c) == "decorator" {
				decorators = append(decorators, p.expr(c))
			}
		}
		n.Children = append(decorators, n.Children...)
		return n

	case "with_statement":
		n := p.node(With, i)
		for _, item := range p.named(p.child(i, "with_clause")) {
			n.Children = append(n.Children, p.field(item, "value"))
		}
		n.Children = append(n.Children, p.block(p.ChildByField(i, "body")))
		return n
	case "try_statement":
		n := p.node(Try, i, p.block(p.ChildByField(i, "body")))
		for _, c := range p.named(i) {
			switch p.Kind(c) {
			case "except_clause", "except_group_clause":
				n.Children = append(n.Children, p.except(c))
			case "else_clause":
				n.Children = append(n.Children, p.block(p.ChildByField(c, "body")))
			case "finally_clause":
				n.Children = append(n.Children, p.node(Finally, c, p.block(p.child(c, "block"))))
			}
		}
		return n
	case "return_statement":
		n := p.node(Return, i)
		for _, c := range p.named(i) {
			if p.Kind(c) == "expression_list" {
				n.Children = append(n.Children, p.exprs(p.named(c))...)
			} else {
				n.Children = append(n.Children, p.expr(c))
			}
		}
		return n
	case "match_statement":
		n := p.node(Switch, i, p.exprs(p.fields(i, "subject"))...)
		for _, c := range p.named(p.ChildByField(i, "body")) {
			n.Children = append(n.Children, p.expr(c))
		}
		return n
	case "case_clause":
		n := p.node(Case, i)
		for _, c := range p.named(i) {
			if p.Field(c) != "consequence" {
				n.Children = append(n.Children, p.expr(c))
			}
		}
		n.Children = append(n.Children, p.block(p.ChildByField(i, "consequence")))
		return n
	case "if_clause":
		if c := p.named(i); len(c) == 1 {
			return p.expr(c[0])
		}
	}
	return p.common(i)
}

func (p python) except(i int32) *Node {
	n := p.node(Catch, i)
	for _, v := range p.fields(i, "value") {
		typ, alias := v, p.ChildByField(i, "alias")
		if p.Kind(v) == "as_pattern" {
			if c := p.named(v); len(c) == 2 {
				typ, alias = c[0], c[1]
			}
		}
		if alias >= 0 {
			n.Children = append(n.Children, p.node(Param, alias).text(p.code(alias)).typed(p.code(typ)))
		}
	}
	n.Children = append(n.Children, p.block(p.child(i, "block")))
	return n
}

func (p python) function(i int32) *Node {
	n := p.node(Func, i).text(p.code(p.ChildByField(i, "name"))).typed(p.code(p.ChildByField(i, "return_type")))
	for _, c := range p.named(p.ChildByField(i, "parameters")) {
		name := c
		if f := p.ChildByField(c, "name"); f >= 0 {
			name = f
		} else if p.Kind(c) == "typed_parameter" {
			name = p.named(c)[0]
		}
		if k := p.Kind(name); k == "list_splat_pattern" || k == "dictionary_splat_pattern" {
			if s := p.named(name); len(s) == 1 {
				name = s[0]
			}
		}
		if p.Kind(name) != "identifier" {
			continue
		}
		n.Children = append(n.Children, p.node(Param, c, p.optional(c, "value")...).text(p.code(name)).typed(p.code(p.ChildByField(c, "type"))))
	}
	around := p.scope
	p.scope = n
	n.Children = append(n.Children, p.body(i))
	p.scope = around
	return n
}

// string translates a literal with its prefix; an f-string with interpolations is a Template.
func (p python) string(i int32) *Node {
	prefix := strings.ToLower(p.code(p.child(i, "string_start")))
	raw, formatted := strings.ContainsRune(prefix, 'r'), strings.ContainsAny(prefix, "ft")
	n := p.node(Template, i)
	known := func(start, end int) {
		if end <= start {
			return
		}
		text := string(p.f.Source[start:end])
		if !raw {
			text = unescape(text, true)
		}
		if formatted {
			text = strings.NewReplacer("{{", "{", "}}", "}").Replace(text)
		}
		n.Children = append(n.Children, &Node{Kind: String, Start: start, End: end, Text: text})
	}
	at, end := n.Start, n.End
	variable := false
	for c := range p.Children(i) {
		from, to := int(p.Nodes[c].Start), int(p.Nodes[c].End)
		switch p.Kind(c) {
		case "string_start":
			at = to
		case "string_end":
			end = from
		case "interpolation":
			known(at, from)
			at, variable = to, true
			for _, e := range p.named(c) {
				if k := p.Kind(e); k == "format_specifier" {
					for _, f := range p.named(e) {
						n.Children = append(n.Children, p.optional(f, "expression")...)
					}
				} else if !p.skip(k) {
					n.Children = append(n.Children, p.expr(e))
				}
			}
		}
	}
	known(at, end)
	if !variable {
		n.Kind = String
		if len(n.Children) > 0 {
			n.Text = n.Children[0].Text
		}
		n.Children = nil
	}
	return n
}
