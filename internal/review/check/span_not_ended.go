// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"slices"

	"assay/internal/review/instrumentation"
	"assay/internal/review/syntax"
)

var spanNotEnded = &Check{
	ID:       "span-not-ended",
	Title:    "Span is not ended on every path",
	Category: Correctness,
	Severity: High,
	Why: "The SDK exports a span when it ends. A span that is not ended never arrives: its children have a parent that does not exist, and the operation is missing " +
		"where it matters most, since the forgotten path is mostly that of an error.",
	Fix:     "End the span where it is started: `defer span.End()` in Go, `with tracer.start_as_current_span(...)` in Python, `try` and `finally` in JavaScript and Java.",
	Fixable: true,
	Source: func(p *Pass, u *instrumentation.Uses) {
		perFunction := map[*syntax.Node]int{}
		for _, s := range u.Spans {
			fn := function(s)
			if fn == nil || s.EndsItself || s.Name == nil {
				continue
			}
			if perFunction[fn]++; perFunction[fn] > maxSpans {
				continue
			}
			if !notEnded(u, fn, s) {
				continue
			}
			message := "Some path to the end of the function does not end the span."
			if len(s.Ends) == 0 {
				message = "The span is never ended."
			}
			named := spanName(u, s)
			subject := named
			if named == "" {
				subject = brief(u, s.Name)
			}
			if named != "" {
				message = fmt.Sprintf("%s Its name is `%s`.", message, named)
			}
			p.At(u, s.Start, Finding{Subject: subject, Message: message, Names: Names{SpanName: named, ScopeName: s.Scope}, Fix: p.endSpan(u, fn, s)})
		}
	},
	Examples: []Example{
		{
			Name: "spans that a return, a branch, a loop or everything forgets",
			Files: map[string]string{"order.go": goFile(`
func never(ctx context.Context) {
	_, span := tracer.Start(ctx, "never")
	span.SetAttributes(attribute.Int("n", 1))
}

func early(ctx context.Context, db *sql.DB) error {
	ctx, span := tracer.Start(ctx, "early")
	if err := db.PingContext(ctx); err != nil {
		return err
	}
	span.End()
	return nil
}

func loop(ctx context.Context, items []int) {
	for _, item := range items {
		_, span := tracer.Start(ctx, "loop")
		if item == 0 {
			continue
		}
		span.End()
	}
}

func discarded(ctx context.Context) {
	ctx, _ = tracer.Start(ctx, "discarded")
	work(ctx)
}
`)},
			Findings: []string{"order.go:6", "order.go:11", "order.go:21", "order.go:30"},
		},
		{
			Name: "spans that are ended, handed on or kept",
			Files: map[string]string{"order.go": goFile(`
func deferred(ctx context.Context) error {
	ctx, span := tracer.Start(ctx, "deferred")
	defer span.End()
	return work(ctx)
}

func closure(ctx context.Context) (err error) {
	ctx, span := tracer.Start(ctx, "closure")
	defer func() {
		if err != nil {
			span.RecordError(err)
		}
		span.End()
	}()
	return work(ctx)
}

func every(ctx context.Context) error {
	ctx, span := tracer.Start(ctx, "every")
	if err := work(ctx); err != nil {
		span.End()
		return err
	}
	switch n := count(ctx); n {
	case 0:
		os.Exit(1)
	default:
		span.End()
	}
	return nil
}

func handed(ctx context.Context) {
	_, span := tracer.Start(ctx, "handed")
	go finish(span)
}

func returned(ctx context.Context) (context.Context, trace.Span) {
	return tracer.Start(ctx, "returned")
}

func (h *hook) Before(ctx context.Context) context.Context {
	ctx, _ = tracer.Start(ctx, "before")
	return ctx
}

func (h *hook) Open(ctx context.Context) {
	_, h.span = tracer.Start(ctx, "open")
}

func optional(ctx context.Context, traced bool) {
	var span trace.Span
	if traced {
		_, span = tracer.Start(ctx, "optional")
	}
	work(ctx)
	if span != nil {
		span.End()
	}
}

func callback(ctx context.Context, q *Queue) {
	_, span := tracer.Start(ctx, "callback")
	q.Send(func(err error) { span.End() })
}
`)},
		},
		{
			Name: "a try in another one, and spans as context managers",
			Files: map[string]string{
				"Writer.java": `import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.Tracer;
import io.opentelemetry.context.Scope;
class Writer {
  Tracer tracer;
  void close() throws IOException {
    try (Scope outer = openSpan.makeCurrent()) {
      Span span = tracer.spanBuilder("close").startSpan();
      try (Scope inner = span.makeCurrent()) {
        delegate.close();
      } catch (Throwable t) {
        span.recordException(t);
        throw t;
      } finally {
        span.end();
      }
    } catch (IOException e) {
      openSpan.recordException(e);
      throw e;
    } finally {
      openSpan.end();
    }
  }
}
`,
				"load.py": `from opentelemetry import trace
tracer = trace.get_tracer("load")

def load(key):
    with tracer.start_span("load") as span:
        span.set_attribute("key.length", len(key))
        return fetch(key)
`,
			},
		},
		{
			Name: "spans of which only the scope is kept",
			Files: map[string]string{"Load.java": `import io.opentelemetry.api.trace.Span;
class Load {
  Tracer tracer;
  void load() {
    try (Scope scope = tracer.spanBuilder("load").startSpan().makeCurrent()) {
      work();
    }
  }
  void current() {
    try (Scope scope = tracer.spanBuilder("current").startSpan().makeCurrent()) {
      work();
      Span.current().end();
    }
  }
}
`},
			Findings: []string{"Load.java:5"},
		},
		{
			Name: "spans that an advice gets at the end of a method",
			Files: map[string]string{"LoadAdvice.java": `import io.opentelemetry.api.trace.Span;
class LoadAdvice {
  @Advice.OnMethodEnter
  static void enter(@Advice.Local("otelSpan") Span span, @Advice.Local("otelScope") Scope scope) {
    span = tracer.spanBuilder("load").startSpan();
    scope = span.makeCurrent();
  }
}
`},
		},
	},
}

// maxSpans bounds the spans of one function that are followed, so that the work stays linear.
const maxSpans = 32

// notEnded reports whether some path does not end a span.
func notEnded(u *instrumentation.Uses, fn *syntax.Node, s *instrumentation.Span) bool {
	if s.Escapes || contextEscapes(s, fn) {
		return false
	}
	if s.Variable == "" || s.Variable == "_" {
		return discards(s)
	}
	if advised(fn, s.Variable) {
		return false
	}
	if a := assignment(s.Start); stored(s) || s.Body != fn && (a == nil || a.Text != ":=") && declaredOutside(fn, s.Variable) {
		return false
	}
	ends := map[*syntax.Node]bool{}
	for i, o := range u.Spans { // spans may share a variable
		if i > 4*maxSpans && o != s {
			continue
		}
		if o != s && (o.Variable != s.Variable || function(o) != fn) {
			continue
		}
		for _, e := range o.Ends {
			ends[e] = true
			if e.Kind != syntax.Call { // span.End as a value
				return false
			}
			if in := e.Enclosing(syntax.Func); in != fn && !deferred(in, fn) && e.Start > s.Start.Start {
				return false // a callback ends it
			}
		}
	}
	for n := range fn.All() {
		if n.Kind == syntax.Call && name(n) == "use_span" && n.Arg(0) != nil && n.Arg(0).Text == s.Variable {
			if v := n.Named("end_on_exit"); v != nil {
				ends[n] = true
			}
		}
	}
	return leaksSpan(u.File, fn, s.Start, s.Variable, ends)
}

// advised reports whether a variable is a parameter with an annotation, such as @Advice.Local, through which the advice at
// the end of a method gets the span.
func advised(fn *syntax.Node, variable string) bool {
	return slices.ContainsFunc(fn.Params(), func(p *syntax.Node) bool {
		return p.Text == variable && slices.ContainsFunc(p.Children, func(c *syntax.Node) bool { return c.Kind == syntax.Decorator })
	})
}

// assignment returns the Assign that gets the value of a call, nil if none does.
func assignment(n *syntax.Node) *syntax.Node {
	p := n.Parent
	for p != nil && p.Kind == syntax.Await {
		p = p.Parent
	}
	if p == nil || p.Kind != syntax.Assign {
		return nil
	}
	return p
}

// declaredOutside reports whether a variable is declared around a function, which gives it a value for others.
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

// discards reports whether the value of a call that starts a span is lost.
func discards(s *instrumentation.Span) bool {
	if s.Body != nil && s.Body.Kind == syntax.Func {
		return false // the callback does not name its parameter
	}
	if a := assignment(s.Start); a != nil {
		t := a.Targets()
		return t[len(t)-1].Kind == syntax.Name && t[len(t)-1].Text == "_" && !laterFromContext(s.Start.Enclosing(syntax.Func))
	}
	return s.Start.Parent != nil && s.Start.Parent.Kind == syntax.Block || onlyCurrent(s)
}

// onlyCurrent reports whether nothing holds a span but the scope in which it is the current one, and the function does not
// get the current span: tracer.spanBuilder("n").startSpan().makeCurrent().
func onlyCurrent(s *instrumentation.Span) bool {
	m := s.Start.Parent
	if m == nil || m.Kind != syntax.Member || m.Text != "makeCurrent" {
		return false
	}
	for n := range s.Start.Enclosing(syntax.Func).All() {
		if n.Kind == syntax.Member && n.Text == "current" && n.Children[0].Text == "Span" {
			return false
		}
	}
	return true
}

// laterFromContext reports whether a function gets a span from a context.
func laterFromContext(fn *syntax.Node) bool {
	for n := range fn.All() {
		if n.Kind == syntax.Call && name(n) == "SpanFromContext" {
			return true
		}
	}
	return false
}

// stored reports whether a span is kept in a structure.
func stored(s *instrumentation.Span) bool {
	a := assignment(s.Start)
	if a == nil {
		return false
	}
	return slices.ContainsFunc(a.Targets(), func(t *syntax.Node) bool { return t.Kind == syntax.Member && t.Text == s.Variable })
}

// contextEscapes reports whether the context that holds the span is returned or stored, so that other code ends the
// span that it finds there.
func contextEscapes(s *instrumentation.Span, fn *syntax.Node) bool {
	a := assignment(s.Start)
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
	for n := range direct(fn.Body()) {
		if n.Kind != syntax.Name || n.Text != ctx.Text || n.Start <= a.End {
			continue
		}
		for p := n; p.Parent != nil; p = p.Parent {
			up := p.Parent
			switch up.Kind {
			case syntax.Return:
				if p == n || wrapsContext(p) {
					return true
				}
			case syntax.Assign:
				if up.Value() == p && up.Targets()[0].Kind == syntax.Member && (p == n || wrapsContext(p)) {
					return true
				}
				if up.Value() == p && wrapsContext(p) && up.Targets()[0].Kind == syntax.Name { // r = r.WithContext(ctx)
					continue
				}
			case syntax.Pair, syntax.Object:
				return true
			case syntax.Call:
				continue
			}
			break
		}
	}
	return false
}

// wrapsContext reports whether a call makes a context, or something that holds one, of another.
func wrapsContext(n *syntax.Node) bool {
	if n.Kind != syntax.Call {
		return false
	}
	switch name(n) {
	case "WithValue", "WithContext", "WithCancel", "WithTimeout", "ContextWithSpan", "SetContext", "WithUserContext", "Clone":
		return true
	}
	return false
}

// deferred reports whether a function literal is deferred in fn.
func deferred(in, fn *syntax.Node) bool {
	if in == nil || in.Parent == nil || in.Parent.Kind != syntax.Call || in.Parent.Callee() != in {
		return false
	}
	d := in.Parent.Parent
	return d != nil && d.Kind == syntax.Defer && d.Enclosing(syntax.Func) == fn
}
