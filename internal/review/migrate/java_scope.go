// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"strconv"
	"strings"

	"assay/internal/review/syntax"
)

// javaHoist finds the statements of a block that set the kind of a span after its start. The start sets the kind
// instead.
func javaHoist(s *script, block *syntax.Node) {
	for _, n := range block.Children {
		if n.Kind != syntax.Call || len(n.Args()) != 2 {
			continue
		}
		receiver, name := n.Method()
		if receiver == nil || name != "set" && name != "setTag" {
			continue
		}
		span, key, value := s.javaTagged(n)
		k, _ := s.javaKnown(key)
		kind, ok := s.javaKnown(value)
		if k != "span.kind" || !ok || spanKinds[kind] == "" {
			continue
		}
		if start := s.javaStarted(span, block); start != nil && s.hoists[start] == "" {
			s.hoists[start] = kind
			s.gone[n] = true
			s.mark(n)
		}
	}
}

// javaStarted returns the call that starts a span, if each run of a block follows a start, or nil.
func (s *script) javaStarted(span, block *syntax.Node) *syntax.Node {
	method := "start"
	if span.Kind == syntax.Call {
		receiver, name := span.Method()
		if name != "span" || receiver == nil {
			return nil
		}
		span, method = receiver, "startActive"
	}
	if span.Kind != syntax.Name {
		return nil
	}
	in, d := s.javaDefinition(span)
	if in != s || d == nil || d.Kind != syntax.Assign || d.Value().Kind != syntax.Call {
		return nil
	}
	receiver, name := d.Value().Method()
	if receiver == nil || strings.TrimSuffix(name, "Manual") != method || s.typeOf(receiver) != otBuilder {
		return nil
	}
	for block != d.Parent {
		p := block.Parent
		if p == nil || p.Kind != syntax.With && p.Kind != syntax.Try || p.Body() != block {
			return nil
		}
		if p == d.Parent {
			break
		}
		if block = p.Parent; block == nil || block.Kind != syntax.Block {
			return nil
		}
	}
	return d.Value()
}

// javaStartActive rewrites try (Scope scope = builder.startActive(true)) { ... }, and startScopedSpan() of OpenCensus.
// A scope of OpenTelemetry does not end its span.
func javaStartActive(s *script, c *syntax.Node) (string, bool) {
	unknown := func() (string, bool) {
		return s.fail(c, "%s outside of the first resource of a try statement is in no table.", c.Callee().Text)
	}
	d := c.Parent
	if d == nil || d.Kind != syntax.Assign || d.Value() != c || d.Parent == nil || d.Parent.Kind != syntax.With || d.Parent.Children[0] != d || len(c.Args()) == 1 && c.Args()[0].Kind != syntax.Bool {
		return unknown()
	}
	if name := s.java.scopes[d]; name != "" {
		return name + ".makeCurrent()", true
	}
	with := d.Parent
	statement := with
	if p := with.Parent; p.Kind == syntax.Block && p.Start == with.Start && p.Parent != nil && p.Parent.Kind == syntax.Try && p.Parent.Start == with.Start {
		statement = p.Parent
	}
	if b := statement.Parent; b == nil || b.Kind != syntax.Block || b.Start == b.End || s.f.Source[b.Start] != '{' {
		return unknown()
	}
	name := s.newLocal(d, "span")
	s.java.scopes[d] = name
	indent := s.indent(statement.Start)
	s.java.insert(edit{statement.Start, statement.Start, s.javaUse("Span") + " " + name + " = " + s.javaStartText(c) + ";\n" + indent})
	if len(c.Args()) == 0 || c.Args()[0].Text == "true" { // startScopedSpan() ends its span
		inner := indent + "    "
		if body := with.Body(); len(body.Children) > 0 && s.indent(body.Children[0].Start) != indent {
			inner = s.indent(body.Children[0].Start)
		}
		end := edit{statement.End, statement.End, " finally {\n" + inner + name + ".end();\n" + indent + "}"}
		if last := statement.Children[len(statement.Children)-1]; last.Kind == syntax.Finally {
			at := last.Body().Start + 1
			end = edit{at, at, "\n" + inner + name + ".end();"}
		}
		s.java.insert(end)
	}
	return name + ".makeCurrent()", true
}

// newLocal returns an unused name for an added variable: the span of a declared scope, or the scope of a declared span.
func (s *script) newLocal(d *syntax.Node, name string) string {
	f := d.Enclosing(syntax.Func)
	names := s.java.locals[f]
	if names == nil {
		names = map[string]bool{}
		s.java.locals[f] = names
	}
	suffix := strings.ToUpper(name[:1]) + name[1:]
	for i := 1; s.taken[name] || names[name]; i++ {
		if name = d.Children[0].Text + suffix; i > 1 {
			name += strconv.Itoa(i)
		}
	}
	names[name] = true
	return name
}

// insert adds an edit to j.more, in order.
func (j *javaFile) insert(e edit) {
	j.more = append(j.more, e)
	sortEdits(j.more)
}

// javaScopeSpan rewrites scope.span().
func javaScopeSpan(s *script, c *syntax.Node) (string, bool) {
	receiver, _ := c.Method()
	if _, name := receiver.Called(); name == "active" {
		s.mark(c.Callee())
		return s.javaUse("Span") + ".current()", true
	}
	if receiver.Kind == syntax.Name {
		if _, d := s.javaDefinition(receiver); d != nil && s.java.scopes[d] != "" {
			return s.java.scopes[d], true
		}
	}
	return s.fail(c, "The span of %s is not known: a scope of OpenTelemetry does not have it.", s.brief(receiver))
}
