// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"assay/internal/review/syntax"
)

// OpenTracing keeps baggage in spans, and OpenTelemetry in contexts. Rows exist where one context is known to have the
// baggage of the span: the current one in a with statement of Python, and the extracted one at the start of a span.

// pyBaggage rewrites set_baggage_item and get_baggage_item of the span of the innermost with statement.
func (s *script) pyBaggage(c, span *syntax.Node, name string) (string, bool) {
	left := func() (string, bool) {
		return s.failCall(c, "%s is in no table: the context that has the baggage of %s is not known.", s.brief(c.Callee()), s.brief(span))
	}
	start := s.startOfWith(c)
	args := c.Args()
	if start == nil || start.Parent.Kind != syntax.Assign || span.Kind != syntax.Member || s.f.Code(span.Children[0]) != start.Parent.Children[0].Text {
		return left()
	}
	if name == "set_baggage_item" {
		if len(args) != 2 || args[0].Kind == syntax.Argument || args[1].Kind == syntax.Argument || c.Parent.Kind != syntax.Block {
			return left()
		}
		return s.use("context") + ".attach(" + s.use("baggage") + ".set_baggage(" + s.list(args) + "))", true // until the with statement ends
	}
	if len(args) != 1 || args[0].Kind == syntax.Argument {
		return left()
	}
	parent := start.Named("child_of")
	sets := start.Parent.Parent.Has(func(n *syntax.Node) bool {
		_, method := n.Called()
		return method == "set_baggage_item"
	})
	switch {
	case parent == nil && s.unit.functionUses()["extract"] == nil && start.Named("references") == nil && len(start.Args()) > 0 && start.Arg(1) == nil:
		return s.use("baggage") + ".get_baggage(" + s.list(args) + ")", true
	case s.extracted(parent) && !sets:
		return s.use("baggage") + ".get_baggage(" + s.list(args) + ", context=" + parent.Text + ")", true
	}
	return left()
}

// startOfWith returns the call of start_active_span of the innermost with statement that starts a span, in the same
// function, or nil.
func (s *script) startOfWith(n *syntax.Node) *syntax.Node {
	for w := n.Enclosing(syntax.With, syntax.Func); w != nil && w.Kind == syntax.With; w = w.Enclosing(syntax.With, syntax.Func) {
		for i := len(w.Children) - 2; i >= 0; i-- {
			item := w.Children[i]
			if item.Kind == syntax.Assign {
				item = item.Value()
			}
			if of, method := item.Called(); method == "start_active_span" && s.kind(of) == tracerValue {
				return item
			}
		}
	}
	return nil
}

// extracted reports whether a node is a variable with the only value tracer.extract(...).
func (s *script) extracted(n *syntax.Node) bool {
	if n == nil || n.Kind != syntax.Name {
		return false
	}
	d := s.f.Definition(n)
	if d == nil || d.Kind != syntax.Assign || len(d.Children) != 2 || d.Text != "=" || d.Enclosing(syntax.Func) != n.Enclosing(syntax.Func) {
		return false
	}
	of, method := d.Value().Called()
	return method == "extract" && s.kind(of) == tracerValue
}

// jsBaggage rewrites getBaggageItem of a span that starts as the child of an extracted context.
func (s *script) jsBaggage(c, span *syntax.Node) (string, bool) {
	if d := s.f.Definition(span); span.Kind == syntax.Name && d != nil && d.Kind == syntax.Assign && d.Enclosing(syntax.Func) == c.Enclosing(syntax.Func) && len(c.Args()) == 1 {
		if _, method := d.Value().Called(); method == "startSpan" && d.Value().Arg(1) != nil {
			if parent := d.Value().Arg(1).Get("childOf"); s.extracted(parent) {
				if s.f.Root.Has(func(n *syntax.Node) bool { _, method := n.Called(); return method == "inject" }) {
					s.note(c, "Requests get no baggage from the span. To send it on, inject the extracted context with the span.")
				}
				return s.use("propagation") + ".getBaggage(" + parent.Text + ")?.getEntry(" + s.list(c.Args()) + ")?.value", true
			}
		}
	}
	return s.failCall(c, "%s is in no table: the context that has the baggage of %s is not known.", s.brief(c.Callee()), s.brief(span))
}
