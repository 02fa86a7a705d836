// SPDX-License-Identifier: Apache-2.0

package instrument

import (
	"bytes"
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"assay/internal/review/patch"
	"assay/internal/review/syntax"
)

// decorator decorates a function that a decorator registers.
func (f *pythonFile) decorator(d *syntax.Node) {
	named := d.Children[0]
	var call *syntax.Node
	if named.Kind == syntax.Call {
		named, call = named.Callee(), named
	}
	b := f.match(named, pythonDecorator)
	if b == nil || call != nil && f.probe(b, call) {
		return
	}
	helper := b.helper
	if b.helper == "trace_task" {
		helper += "(" + strconv.Quote(b.system) + f.destination(b, call) + ")"
	}
	f.decorate(b, d.Parent, d, helper)
}

// probes match routes for health checks and metrics, which need no spans.
var probes = regexp.MustCompile(`(?i)^/?(healthz?|health[-_]?check|ready|readyz|readiness|live|livez|liveness|ping|metrics)/?$`)

// probe reports whether a call registers a handler for one of probes.
func (f *pythonFile) probe(b *pythonBoundary, call *syntax.Node) bool {
	return b.kind() == "SERVER" && slices.ContainsFunc(call.Args(), func(a *syntax.Node) bool {
		route, ok := f.Known(a)
		return ok && probes.MatchString(route)
	})
}

// destination returns the argument with the name of a queue, or "" if unknown.
func (f *pythonFile) destination(b *pythonBoundary, call *syntax.Node) string {
	if call == nil {
		return ""
	}
	n := call.Named(b.queue)
	if n == nil && b.destination >= 0 {
		n = call.Arg(b.destination)
	}
	if n == nil {
		return ""
	}
	if name, ok := f.Known(n); ok && plainQueue.MatchString(name) {
		return ", " + strconv.Quote(name)
	}
	return ""
}

// plainQueue matches names of queues without wildcards.
var plainQueue = regexp.MustCompile(`^[\w./:-]{1,128}$`)

// decorate adds a decorator to a function, below the decorator that registers it, if any.
func (f *pythonFile) decorate(b *pythonBoundary, fn, registers *syntax.Node, helper string) {
	if f.done[fn] {
		return
	}
	f.done[fn] = true
	if f.spans.inside(fn) || f.traced(fn) {
		return
	}
	if f.generators[fn] {
		f.leave(b, fn, "`"+fn.Text+"` is left: it is a generator, which runs after it returns")
		return
	}
	at, ok := f.def(fn)
	if !ok {
		return
	}
	line := at
	if registers != nil && !bytes.HasPrefix(f.Source[at:], []byte("async")) {
		last := -1
		for i, c := range fn.Children {
			if c.Kind == syntax.Decorator && f.registers(c, b) {
				if last = i; derivesPath(b, c.Children[0]) {
					f.leave(b, fn, "`"+fn.Text+"` is left: its path comes from its parameters")
					return
				}
			}
		}
		if next := fn.Children[last+1]; next.Kind == syntax.Decorator {
			at = next.Start
		}
	}
	indent, alone := indentOf(f.Source, at)
	if !alone {
		return
	}
	f.add(b, line, "`"+fn.Text+"`", pythonEdit{at, "@" + helper + newline(f.Source) + indent})
}

// derivesPath reports whether a decorator or call registers a handler of Bottle without a path. Bottle then derives the
// path from the parameters of the handler.
func derivesPath(b *pythonBoundary, n *syntax.Node) bool {
	return b.helper == "trace_bottle" && (n.Kind != syntax.Call || n.Arg(0) == nil && n.Named("path") == nil)
}

// registers reports whether a decorator belongs to a boundary.
func (f *pythonFile) registers(d *syntax.Node, b *pythonBoundary) bool {
	n := d.Children[0]
	if n.Kind == syntax.Call {
		n = n.Callee()
	}
	return b.path.MatchString(f.qualified(n, 0))
}

// def returns the offset of `def` or `async def`.
func (f *pythonFile) def(fn *syntax.Node) (int, bool) {
	at := fn.Start
	for _, c := range fn.Children {
		if c.Kind == syntax.Decorator {
			at = c.End
		}
	}
	m := defKeyword.FindSubmatchIndex(f.Source[at:fn.End])
	if m == nil {
		return 0, false
	}
	return at + m[2], true
}

// defKeyword matches the code before the name of a function, without comments.
var defKeyword = regexp.MustCompile(`^(?:\s|#[^\n]*\n)*((?:async\s+)?def\b)`)

// traced reports whether a function has a decorator that starts spans.
func (f *pythonFile) traced(fn *syntax.Node) bool {
	return slices.ContainsFunc(fn.Children, func(c *syntax.Node) bool { return c.Kind == syntax.Decorator && tracing.MatchString(f.Code(c)) })
}

// tracing matches decorators that start spans.
var tracing = regexp.MustCompile(`(?i)^@[\w.]*(trace|tracing|span|instrument|otel|telemetry|monitor)`)

// inSpan reports whether code runs in a span that the file starts.
func (f *pythonFile) inSpan(n *syntax.Node) bool {
	for up := n; up != nil; up = up.Parent {
		if at, ok := f.bodies[up]; ok && (at < n.Start || up.Kind == syntax.Func) {
			return true
		}
	}
	return false
}

// class decorates the methods of a class that extends a server.
func (f *pythonFile) class(c *syntax.Node) {
	for _, base := range c.Children {
		if base.Kind != syntax.Name && base.Kind != syntax.Member {
			continue
		}
		b := f.match(base, pythonMethods)
		if b == nil {
			continue
		}
		for _, m := range c.Children {
			if m.Kind == syntax.Func && strings.HasPrefix(m.Text, "do_") && !f.delegates(m) {
				f.decorate(b, m, nil, b.helper)
			}
		}
		return
	}
}

// delegates reports whether a method calls a method do_*, which gets a span.
func (f *pythonFile) delegates(m *syntax.Node) bool {
	return m.Has(func(n *syntax.Node) bool {
		recv, name := n.Called()
		return recv != nil && recv.Text == "self" && strings.HasPrefix(name, "do_")
	})
}

// call wraps a call of a client, or a callback among its arguments.
func (f *pythonFile) call(n *syntax.Node) {
	if n.Parent != nil && n.Parent.Kind == syntax.Decorator || n.Callee().Kind != syntax.Member && n.Callee().Kind != syntax.Name {
		return
	}
	b := f.match(n.Callee(), pythonCallback, pythonRegistered, pythonCall, pythonPackage) // the last one notes the package
	if b == nil {
		return
	}
	switch b.form {
	case pythonCallback, pythonRegistered:
		arg := f.registered(b, n)
		if arg == nil || f.probe(b, n) {
			return
		}
		if derivesPath(b, n) {
			f.leave(b, n, "`"+f.Code(arg)+"` is left: its path comes from its parameters")
			return
		}
		if b.form == pythonCallback {
			more := ""
			if b.kind() == "CONSUMER" {
				more = f.destination(b, n)
			}
			f.callback(b, arg, more)
		} else if fn, in := f.named(arg); fn != nil && arg.Kind == syntax.Name && fn.Parent == in.Root {
			in.decorate(b, fn, nil, b.helper)
		} else if arg.Kind == syntax.Name || arg.Kind == syntax.Member {
			f.leave(b, n, "`"+f.Code(arg)+"` is left: it is not the name of a function of the service")
		}
	case pythonCall:
		f.client(b, n)
	}
}

// function returns the function of the file that a name refers to, nil if there is none or more than one.
func (f *pythonFile) function(n *syntax.Node) *syntax.Node {
	found := f.functions[n.Text]
	if len(found) != 1 {
		return nil
	}
	if n.Kind == syntax.Name {
		if def := f.definition(n.Text, n); def != nil && def != found[0] {
			return nil
		}
	}
	return found[0]
}

// named returns the function that a name refers to, or nil if unknown, and its file. The file of an imported name is
// another file, or nil if unknown.
func (f *pythonFile) named(n *syntax.Node) (*syntax.Node, *pythonFile) {
	if n.Kind == syntax.Name {
		if i, ok := f.imported(n.Text, n); ok {
			return f.p.function(i)
		}
	}
	return f.function(n), f
}

// function returns an imported function and its file, or nil if unknown.
func (p *pythonService) function(i syntax.Import) (*syntax.Node, *pythonFile) {
	files := p.modules[i.Path[strings.LastIndexByte(i.Path, '.')+1:]]
	if len(files) != 1 || len(files[0].functions[i.Member]) != 1 {
		return nil, nil
	}
	return files[0].functions[i.Member][0], files[0]
}

// callback wraps a function that a library calls.
func (f *pythonFile) callback(b *pythonBoundary, n *syntax.Node, more string) {
	if n.Kind != syntax.Name && n.Kind != syntax.Member {
		return // such as a function that is made for the call, or that is wrapped already
	}
	fn, in := f.named(n)
	if fn == nil && in == f {
		return // a variable, which may have been wrapped
	}
	if fn != nil {
		if in.done[fn] || in.spans.inside(fn) || slices.ContainsFunc(fn.Children, func(c *syntax.Node) bool { return c.Kind == syntax.Decorator }) {
			return // a decorator may replace the function
		}
		if in.generators[fn] {
			f.leave(b, n, "`"+fn.Text+"` is left: it is a generator, which runs after it returns")
			return
		}
	}
	if f.formatted(n) {
		f.leave(b, n, "`"+f.Code(n)+"` is left: before Python 3.12, quotes end the f-string around it")
		return
	}
	f.add(b, n.Start, "`"+f.Code(n)+"`", pythonEdit{n.Start, b.helper + "("}, pythonEdit{n.End, more + ")"})
}

// client wraps the callee of a call in a function.
func (f *pythonFile) client(b *pythonBoundary, n *syntax.Node) {
	fn := n.Enclosing(syntax.Func)
	if fn == nil || fn.Text == "main" && fn.Parent == f.Root || f.inSpan(n) {
		return // code that runs when the program starts is not part of a request or message
	}
	if f.formatted(n) {
		f.leave(b, n, "The call of `"+abbreviated(f.Code(n.Callee()))+"` is left: before Python 3.12, quotes end the f-string around it")
		return
	}
	more := ""
	switch b.helper {
	case "trace_http":
		if _, name := n.Method(); name != "request" {
			if n.Callee().Kind == syntax.Name {
				if i, ok := f.imported(name, n); ok {
					name = i.Member
				}
			}
			more = ", " + strconv.Quote(strings.ToUpper(name))
		}
	case "trace_nats_publish":
		more = f.destination(b, n)
	case "trace_query":
		more = ", " + strconv.Quote(b.system)
		for _, part := range statementOf(f.statement(cmp.Or(n.Named(b.keyword), n.Arg(0)))) {
			more += ", " + strconv.Quote(part)
		}
	}
	f.add(b, n.Start, "the call of `"+abbreviated(f.Code(n.Callee()))+"`", pythonEdit{n.Callee().Start, b.helper + "("}, pythonEdit{n.Callee().End, more + ")"})
}

// formatted reports whether code is inside an f-string.
func (f *pythonFile) formatted(n *syntax.Node) bool {
	for t := n.Enclosing(syntax.Template); t != nil; n, t = t, t.Enclosing(syntax.Template) {
		for n.Parent != t {
			n = n.Parent
		}
		before := bytes.TrimRight(f.Source[t.Start:n.Start], " \t\r\n\f(")
		if bytes.HasSuffix(before, []byte{'{'}) {
			return true
		}
	}
	return false
}

// statement returns the constant prefix of an SQL statement.
func (f *pythonFile) statement(n *syntax.Node) (text string, whole bool) {
	if n == nil {
		return "", false
	}
	if text, ok := f.Known(n); ok {
		return text, true
	}
	if n.Kind == syntax.Template && len(n.Children) > 0 && n.Children[0].Kind == syntax.String {
		return n.Children[0].Text, false
	}
	return "", false
}

var (
	sqlOperation = regexp.MustCompile(`(?i)^\s*(SELECT|INSERT|UPDATE|DELETE|REPLACE|MERGE|CREATE|DROP|ALTER|TRUNCATE|CALL|PRAGMA)\s`)
	sqlTable     = regexp.MustCompile(`(?i)\b(?:FROM|INTO|UPDATE|JOIN|TABLE(?:\s+IF\s+(?:NOT\s+)?EXISTS)?)\s+"?([a-z_][\w.]*)`)
)

// statementOf returns the operation of an SQL statement, and its table if it has one and no other.
func statementOf(text string, whole bool) []string {
	m := sqlOperation.FindStringSubmatch(text)
	if m == nil {
		return nil
	}
	out := []string{strings.ToUpper(m[1])}
	tables := sqlTable.FindAllStringSubmatch(text, 2)
	if whole && len(tables) == 1 && len(tables[0][1]) <= 128 {
		out = append(out, tables[0][1])
	}
	return out
}

// abbreviated returns the beginning of code, for a step.
func abbreviated(code string) string {
	if line, _, more := strings.Cut(code, "\n"); more || len(line) > 60 {
		return strings.ToValidUTF8(line[:min(len(line), 60)], "") + "…"
	}
	return code
}

// add adds the edits of a boundary.
func (f *pythonFile) add(b *pythonBoundary, at int, what string, edits ...pythonEdit) {
	if f.existing+len(f.steps) >= maxFileBoundaries || f.p.count >= maxServiceBoundaries {
		f.p.omitted++
		return
	}
	f.p.count++
	f.edits = append(f.edits, edits...)
	f.helpers[b.helper] = true
	h := pythonHelpers[b.helper]
	text := "Add a span of kind " + h.kind
	if h.metric != "" {
		text += " and `" + h.metric + "`"
	}
	f.steps = append(f.steps, patch.Step{File: f.Path, Line: f.LineOf(at), Text: text + " to " + what + " by `" + b.helper + "`"})
}

// leave adds a step for a boundary that is not changed.
func (f *pythonFile) leave(b *pythonBoundary, n *syntax.Node, text string) {
	f.p.leaveBoundary(f.Path, f.LineOf(n.Start), patch.Boundary{SpanKind: strings.ToLower(b.kind()), Library: b.module}, text)
}
