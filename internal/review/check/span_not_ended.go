// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"assay/internal/review/instrumentation"
	"assay/internal/review/syntax"
)

var spanNotEnded = &Check{
	ID:       "span-not-ended",
	Title:    "Span is not ended on every path",
	Category: Correctness,
	Severity: High,
	Why: "The SDK exports a span when it ends. A span that is not ended never arrives: its children have a parent that does not exist, and the operation is missing " +
		"where it matters most, because the forgotten path is usually an error path. A scope of Java that is not closed leaves its span the current one of the thread: " +
		"the spans of later requests on the thread become its children.",
	Fix: "End the span where it is started: `defer span.End()` in Go, `with tracer.start_as_current_span(...)` in Python, `try` and `finally` in JavaScript and Java. " +
		"Close the scope of `makeCurrent()`: `try (Scope scope = span.makeCurrent())`.",
	Fixable: true,
	Source: func(p *Pass, u *instrumentation.Uses) {
		perFunction := map[*syntax.Node]int{}
		helper := sync.OnceValue(func() bool { return endsFromContext(u.File.Root) })
		for _, s := range u.Spans {
			fn := s.Func()
			if fn == nil || s.EndsItself || s.Name == nil && s.Body == fn {
				continue
			}
			if perFunction[fn]++; perFunction[fn] > maxSpans {
				continue
			}
			if !notEnded(u, fn, s, helper) {
				continue
			}
			f := spanFinding(u, s, "Some path to the end of the function does not end the span.")
			if len(s.Ends) == 0 {
				f.Message = "The span is never ended."
			}
			if f.Names.SpanName != "" {
				f.Message += fmt.Sprintf(" Its name is `%s`.", f.Names.SpanName)
			}
			f.Fix = p.endSpan(u, fn, s)
			p.At(u, s.Start, f)
		}
		if u.File.Language == syntax.Java && u.File.ImportsAny("io.opentelemetry") {
			p.droppedScopes(u)
		}
	},
}

// cleanup matches the code before a variable that Lombok closes.
var cleanup = regexp.MustCompile(`@(lombok\.)?Cleanup\b[^;{}]*$`)

// unused reports whether a local variable holds the result of a call and its function does not use the variable.
func unused(u *instrumentation.Uses, call *syntax.Node) bool {
	a, fn := call.Parent, call.Enclosing(syntax.Func)
	if a.Kind != syntax.Assign || a.Type == "" || a.Parent.Kind != syntax.Block || fn == nil || len(a.Targets()) != 1 || a.Targets()[0].Kind != syntax.Name {
		return false
	}
	variable := a.Targets()[0]
	return !cleanup.Match(u.File.Source[max(fn.Start, variable.Start-128):variable.Start]) && !fn.Has(func(n *syntax.Node) bool {
		return n != variable && n.Text == variable.Text && (n.Kind == syntax.Name || n.Kind == syntax.Member)
	})
}

// droppedScopes reports the calls in Java that make the span or context in a variable current and discard the scope, or
// never use it: span.makeCurrent();
func (p *Pass) droppedScopes(u *instrumentation.Uses) {
	for n := range u.File.Root.All(syntax.Call) {
		recv, m := n.Method()
		if m != "makeCurrent" || recv == nil || len(n.Args()) > 0 || recv.Kind != syntax.Name && recv.Kind != syntax.Member {
			continue // such as the context of the process, which does not end
		}
		if n.Parent == nil || n.Parent.Kind != syntax.Block && !unused(u, n) {
			continue
		}
		subject := brief(u, recv)
		p.At(u, n, Finding{Subject: subject + " scope", About: subject, Message: fmt.Sprintf("The scope of `%s` is never closed.", subject)})
	}
}

// maxSpans limits the spans of one function that are checked, so that the work stays linear.
const maxSpans = 32

// notEnded reports whether some path does not end a span. helper reports whether a function of the file ends the span
// in a context.
func notEnded(u *instrumentation.Uses, fn *syntax.Node, s *instrumentation.Span, helper func() bool) bool {
	if s.Escapes || contextEscapes(u, s, fn) {
		return false
	}
	if s.Variable == "" || s.Variable == "_" {
		return discards(s) && !(contextGiven(s, fn) && helper())
	}
	if advised(fn, s.Variable) {
		return false
	}
	if a := s.Start.Assignment(); stored(s) || s.Body != fn && (a == nil || a.Text != ":=") && declaredOutside(fn, s.Variable) {
		return false
	}
	ends := map[*syntax.Node]bool{}
	var callback *syntax.Node
	for i, o := range u.Spans { // spans may share a variable
		if o != s && (i > 4*maxSpans || o.Variable != s.Variable || o.Func() != fn) {
			continue
		}
		for _, e := range o.Ends {
			ends[e] = true
			if e.Kind != syntax.Call { // span.End as a value
				return false
			}
			if in := e.Enclosing(syntax.Func); in != fn && !deferred(in, fn) && e.Start > s.Start.Start {
				if !getsError(in) || callback != nil && callback != in {
					return false // a callback ends it
				}
				callback = in
			}
		}
	}
	if callback != nil { // which runs once
		return leaksSpan(u.File, callback, s.Start, s.Variable, ends)
	}
	for n := range fn.All(syntax.Call) {
		if name(n) == "use_span" && n.Arg(0) != nil && n.Arg(0).Text == s.Variable {
			if v := n.Named("end_on_exit"); v != nil && !strings.EqualFold(v.Text, "false") {
				ends[n] = true
			}
		}
	}
	return leaksSpan(u.File, fn, s.Start, s.Variable, ends)
}

// getsError reports whether a function is a callback of Node.js, which gets the error or the result of a call:
// client.query(text, (err, result) => {}).
func getsError(fn *syntax.Node) bool {
	params := fn.Params()
	return len(params) > 0 && (params[0].Text == "err" || params[0].Text == "error") && fn.Parent != nil && fn.Parent.Kind == syntax.Call && fn.Parent.Callee() != fn &&
		!setOf("on once addListener then catch")[name(fn.Parent)]
}

// advised reports whether a variable is a parameter with an annotation, such as @Advice.Local, which passes the span to
// the advice at the end of a method.
func advised(fn *syntax.Node, variable string) bool {
	return slices.ContainsFunc(fn.Params(), func(p *syntax.Node) bool {
		return p.Text == variable && slices.ContainsFunc(p.Children, func(c *syntax.Node) bool { return c.Kind == syntax.Decorator })
	})
}

// declaredOutside reports whether a variable is declared outside of a function, so that other functions can use it.
func declaredOutside(fn *syntax.Node, variable string) bool {
	for out := fn.Parent; out != nil; out = out.Parent {
		if out.Kind != syntax.Block && out.Kind != syntax.Class {
			continue
		}
		for _, c := range out.Children {
			if (c.Kind == syntax.Declare || c.Kind == syntax.Assign) && slices.ContainsFunc(c.Targets(), func(t *syntax.Node) bool { return t.Text == variable }) {
				return true
			}
		}
	}
	return false
}

// discards reports whether the code discards the span that a call starts.
func discards(s *instrumentation.Span) bool {
	if s.Body != nil && s.Body.Kind == syntax.Func {
		return false // the callback does not name its parameter
	}
	if a := s.Start.Assignment(); a != nil {
		t := a.Targets()
		return t[len(t)-1].Kind == syntax.Name && t[len(t)-1].Text == "_" && !laterFromContext(s.Start.Enclosing(syntax.Func))
	}
	return s.Start.Parent != nil && s.Start.Parent.Kind == syntax.Block || onlyCurrent(s)
}

// onlyCurrent reports whether a span is only made current, and the function does not get the current span:
// tracer.spanBuilder("n").startSpan().makeCurrent().
func onlyCurrent(s *instrumentation.Span) bool {
	m := s.Start.Parent
	if m == nil || m.Kind != syntax.Member || m.Text != "makeCurrent" {
		return false
	}
	return !s.Start.Enclosing(syntax.Func).Has(func(n *syntax.Node) bool {
		return n.Kind == syntax.Member && n.Text == "current" && n.Children[0].Text == "Span"
	})
}

// laterFromContext reports whether a function gets a span from a context.
func laterFromContext(fn *syntax.Node) bool {
	return fn.Has(func(n *syntax.Node) bool { return n.Kind == syntax.Call && name(n) == "SpanFromContext" })
}

// endsFromContext reports whether a function of a Go file ends a span that it gets from trace.SpanFromContext(ctx).
func endsFromContext(file *syntax.Node) bool {
	got := map[string]*syntax.Node{} // variables with a span, and their functions
	return file.Has(func(n *syntax.Node) bool {
		switch n.Kind {
		case syntax.Assign:
			if v := n.Value(); v.Kind == syntax.Call && name(v) == "SpanFromContext" {
				got[n.Targets()[0].Text] = n.Enclosing(syntax.Func)
			}
		case syntax.Call:
			if recv, m := n.Method(); m == "End" && recv != nil && recv.Kind == syntax.Name {
				in, ok := got[recv.Text]
				return ok && in != nil && n.Within(in)
			}
		}
		return false
	})
}

// contextGiven reports whether a call after the start of a span gets the context with the span.
func contextGiven(s *instrumentation.Span, fn *syntax.Node) bool {
	a := s.Start.Assignment()
	if a == nil || len(a.Targets()) != 2 || a.Targets()[0].Kind != syntax.Name {
		return false
	}
	ctx := a.Targets()[0].Text
	return has(direct(fn.Body()), func(n *syntax.Node) bool {
		return n.Kind == syntax.Name && n.Text == ctx && n.Start > a.End && n.Parent.Kind == syntax.Call && n.Parent.Callee() != n
	})
}

// stored reports whether a span is stored in a structure.
func stored(s *instrumentation.Span) bool {
	a := s.Start.Assignment()
	if a == nil {
		return false
	}
	return slices.ContainsFunc(a.Targets(), func(t *syntax.Node) bool { return t.Kind == syntax.Member && t.Text == s.Variable })
}

// contextEscapes reports whether the context with a span is returned or stored, so that other code may end the span.
func contextEscapes(u *instrumentation.Uses, s *instrumentation.Span, fn *syntax.Node) bool {
	a := s.Start.Assignment()
	if a == nil || len(a.Targets()) != 2 {
		return false
	}
	ctx := a.Targets()[0]
	if s.Variable != "" && s.Variable != "_" && ctx.Text == s.Variable {
		ctx = a.Targets()[1]
	}
	if ctx.Kind == syntax.Member {
		return true
	}
	if ctx.Kind != syntax.Name || ctx.Text == "_" {
		return false
	}
	first, _, _ := strings.Cut(fn.Type, ",")
	derives := strings.HasSuffix(first, "context.Context") // a call that the function returns derives a context from its argument
	return has(direct(fn.Body(), syntax.Name), func(n *syntax.Node) bool {
		return n.Text == ctx.Text && n.Start > a.End &&
			(u.Leaves(n) || derives && n.Enclosing(syntax.Return, syntax.Block, syntax.Func).Kind == syntax.Return)
	})
}

// deferred reports whether a function literal is deferred in fn.
func deferred(in, fn *syntax.Node) bool {
	if in == nil || in.Parent == nil || in.Parent.Kind != syntax.Call || in.Parent.Callee() != in {
		return false
	}
	d := in.Parent.Parent
	return d != nil && d.Kind == syntax.Defer && d.Enclosing(syntax.Func) == fn
}
