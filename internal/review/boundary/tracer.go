// SPDX-License-Identifier: Apache-2.0

package boundary

import (
	"cmp"
	"slices"
	"strings"

	"assay/internal/review/instrumentation"
	"assay/internal/review/syntax"
)

// origins determines where the tracers of a file come from.
type origins struct {
	*file
	functions map[string][]*syntax.Node // by name
	classes   map[string]bool
	traced    map[string]bool       // names of functions that start a span with the API
	known     map[*syntax.Node]bool // results of real and returns
	depth     int
}

func newOrigins(f *file) *origins {
	o := &origins{file: f, functions: map[string][]*syntax.Node{}, classes: map[string]bool{}, traced: map[string]bool{}, known: map[*syntax.Node]bool{}}
	for n := range f.Root.All() {
		switch n.Kind {
		case syntax.Func:
			o.functions[nameOf(n)] = append(o.functions[nameOf(n)], n)
		case syntax.Class:
			o.classes[n.Text] = true
		}
	}
	for _, s := range f.uses.Spans {
		if t := tracerOf(s); f.runs[s.Start] && t != nil && o.real(t) {
			for up := s.Start.Enclosing(syntax.Func); up != nil; up = up.Enclosing(syntax.Func) {
				o.traced[nameOf(up)] = true
			}
		}
	}
	return o
}

// tracerOf returns the tracer that starts a span, or nil if a function of the project or an annotation starts it.
func tracerOf(s *instrumentation.Span) *syntax.Node {
	if recv, name := s.Start.Called(); s.Tracer == nil && slices.Contains(startNames, name) {
		return recv
	}
	return s.Tracer
}

// recorded reports whether the OpenTelemetry API starts a span, as far as the file shows: with a real tracer, or in a
// function that uses one.
func (o *origins) recorded(s *instrumentation.Span) bool {
	if t := tracerOf(s); t != nil {
		return o.real(t)
	}
	if s.Start.Kind != syntax.Call { // an annotation
		return true
	}
	_, name := s.Start.Method()
	return !o.uses.Noop(s.Start) && (len(o.functions[name]) == 0 || o.traced[name])
}

// real reports whether a tracer, or the object that holds it, comes from an import or from code outside of the file.
// Literals, classes and functions of the file are not real tracers, nor are no-op implementations.
func (o *origins) real(n *syntax.Node) bool {
	const maxDepth = 64 // variables and calls
	is, ok := o.known[n]
	if ok || o.depth == maxDepth {
		return is
	}
	o.known[n] = true // ignore the reference to itself in this.tracer = this.tracer || getTracer()
	o.depth++
	is = o.find(n)
	o.depth--
	o.known[n] = is
	return is
}

func (o *origins) all(nodes []*syntax.Node) bool {
	return !slices.ContainsFunc(nodes, func(n *syntax.Node) bool { return !o.real(n) })
}

func (o *origins) find(n *syntax.Node) bool {
	switch n.Kind {
	case syntax.Await, syntax.Index:
		return len(n.Children) > 0 && o.real(n.Children[0])
	case syntax.Conditional:
		return o.all(n.Children[1:])
	case syntax.Operator:
		return slices.Contains([]string{"||", "??", "or", "&&", "and"}, n.Text) && o.all(n.Children)
	case syntax.Call:
		return o.returned(n)
	case syntax.New:
		i, ok := o.Imported(n.Callee().Text)
		return ok && n.Callee().Kind == syntax.Name && o.mayMake(i) && !syntax.Below(i.Path, telemetryAPI[o.Language])
	case syntax.Member:
		switch def := o.Definition(n); {
		case instrumentation.NoopName(n.Text):
			return false
		case def != nil && def.Value() != nil:
			return o.real(def.Value())
		case def != nil:
			return true
		}
		return o.field(n.Children[0], n.Text)
	case syntax.Name:
		if i, ok := o.Imported(n.Text); ok {
			return o.mayMake(i)
		}
		if def := o.Definition(n); def != nil {
			return def.Value() == nil || o.real(def.Value())
		}
		return o.elsewhere(n.Text)
	default:
		return false
	}
}

// field reports whether a field of a value is a real tracer. In an object literal, it may also come from a spread
// value.
func (o *origins) field(n *syntax.Node, name string) bool {
	v := n
	if def := o.Definition(n); def != nil && def.Value() != nil {
		v = def.Value()
	}
	if v.Kind != syntax.Object {
		return o.real(n)
	}
	return slices.ContainsFunc(v.Children, func(c *syntax.Node) bool {
		if c.Kind != syntax.Pair {
			return o.real(c)
		}
		return c.Children[0].Text == name && o.real(c.Value())
	})
}

// returned reports whether a call returns a real tracer.
func (o *origins) returned(n *syntax.Node) bool {
	recv, name := n.Method()
	if name == "" || instrumentation.NoopName(name) {
		return false
	}
	root := cmp.Or(recv, n.Callee())
	if i, ok := o.Imported(root.Text); ok && root.Kind == syntax.Name {
		return o.mayMake(i)
	}
	if recv == nil && (name == "require" || name == "import") && n.Arg(0) != nil {
		return o.mayMake(syntax.Import{Path: n.Arg(0).Text})
	}
	if functions := o.functions[name]; len(functions) > 0 {
		return !slices.ContainsFunc(functions, func(fn *syntax.Node) bool { return !o.returns(fn) })
	}
	if recv != nil {
		return o.real(recv)
	}
	return o.elsewhere(name)
}

// returns reports whether each return of a function returns a real tracer or null.
func (o *origins) returns(fn *syntax.Node) bool {
	is, ok := o.known[fn]
	if ok {
		return is
	}
	o.known[fn] = true
	is = true
	if body := fn.Body(); body.Kind != syntax.Block {
		is = o.real(body)
	}
	for n := range fn.All(syntax.Return) {
		if len(n.Children) > 0 && n.Children[0].Kind != syntax.Null && n.Enclosing(syntax.Func) == fn {
			is = is && slices.ContainsFunc(n.Children, o.real)
		}
	}
	o.known[fn] = is
	return is
}

// elsewhere reports whether a name that the file neither imports nor defines may be defined in another file.
func (o *origins) elsewhere(name string) bool {
	switch {
	case instrumentation.NoopName(name), o.classes[name], len(o.functions[name]) > 0:
		return false
	case o.Language == syntax.Go, o.Language == syntax.Java:
		return name != "new"
	default: // other names belong to the language
		return slices.Contains([]string{"this", "self", "cls", "globalThis"}, name) || slices.ContainsFunc(o.Imports, func(i syntax.Import) bool { return i.Member == "*" })
	}
}

// mayMake reports whether an imported object may be or create a real tracer. The standard library has none.
func (o *origins) mayMake(i syntax.Import) bool {
	return !instrumentation.NoopName(i.Path) && !instrumentation.NoopName(i.Member) &&
		(o.Language == syntax.Go || strings.HasPrefix(i.Path, ".") || !standard(o.Language, i.Path))
}
