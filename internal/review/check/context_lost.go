// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"assay/internal/review/instrumentation"
	"assay/internal/review/syntax"
)

var contextLost = &Check{
	ID:       "context-lost",
	Title:    "Instrumented call gets a fresh context",
	Category: Correctness,
	Severity: Suggestion,
	Rules:    []string{"SPA-002", "SPA-004"},
	Why: "The context carries the span of the request. A call with a fresh context starts a trace of its own, so that the request's trace ends there, " +
		"and the call also misses the request's deadline and cancellation.",
	Fix:     "Pass the context of the function. Work that has to outlive the request keeps the trace with `context.WithoutCancel(ctx)`.",
	Fixable: true,
	Source: func(p *Pass, u *instrumentation.Uses) {
		ended := map[*syntax.Node]int{}
		parents := map[*syntax.Node]bool{} // contexts in which spans start
		for _, s := range u.Spans {
			parents[s.Context] = true
		}
		traced := tracedFunctions(u)
		for n := range u.File.Root.All(syntax.Call, syntax.Name, syntax.Member) {
			if !fresh(u, n) {
				continue
			}
			call, ctx := n.Parent, n
			if call != nil && call.Kind == syntax.Argument {
				call = call.Parent
			}
			hand := atHand(u, n)
			if hand == "" || call == nil || replaces(n, hand) {
				continue
			}
			if derivesContext(call) || call.Kind == syntax.Assign {
				if call, ctx = derivedUse(u, n, ended, traced); call == nil {
					continue
				}
			}
			if call.Kind != syntax.Call || call.Callee() == ctx || !parents[ctx] && !propagates(u, call, ctx, traced) || outlives(n, ended) {
				continue
			}
			f := Finding{Subject: name(call), Message: fmt.Sprintf("`%s` gets a fresh context although `%s` is at hand.", brief(u, call.Callee()), hand)}
			if u.File.Language == syntax.Go && replaceable(u, n, call, hand) {
				text := hand
				if derivesContext(n.Parent) && name(n.Parent) != "WithValue" { // it has its own cancellation or deadline
					text = "context.WithoutCancel(" + hand + ")"
				}
				f.Fix = []Edit{{Start: n.Start, End: n.End, Text: text}}
			}
			p.keepLost(u, n, f)
		}
		for _, s := range u.Spans {
			if at := withoutParent(u, s); at != nil && atHand(u, at) != "" && !outlives(at, ended) {
				p.keepLost(u, at, Finding{Subject: name(s.Start), Message: "The span starts a trace of its own although the context of its caller is at hand."})
			}
		}
	},
	Repository: func(p *RepositoryPass) {
		for _, k := range p.Kept {
			if c := p.Coverage(); c.anywhere || c.vendor { // otherwise, no call is instrumented
				p.Report(k.(Finding))
			}
		}
	},
	Related: func(any) []string {
		return []string{"telemetry", "otel", "trac", "Trac", "opencensus", "zipkin", "skywalking", "apm", "relic", "entry"}
	},
}

// keepLost reports a finding at a node. In a file without spans, it keeps the finding, which is reported only if the
// repository uses OpenTelemetry or another tracer.
func (p *Pass) keepLost(u *instrumentation.Uses, n *syntax.Node, f Finding) {
	if len(u.Spans) > 0 {
		p.mark(u, n, f)
		return
	}
	p.Keep(f.marked(u, n))
}

// fresh reports whether an expression is a new root context.
func fresh(u *instrumentation.Uses, n *syntax.Node) bool {
	if n.Kind != syntax.Call {
		script := u.File.Language == syntax.JavaScript || u.File.Language == syntax.TypeScript
		return script && n.Text == "ROOT_CONTEXT" && (n.Kind == syntax.Name || n.Children[0].Kind == syntax.Name)
	}
	recv, m := n.Method()
	switch u.File.Language {
	case syntax.Go:
		i, _ := u.File.Imported("context")
		return len(n.Args()) == 0 && (m == "Background" || m == "TODO") && recv != nil && recv.Text == "context" && i.Path == "context"
	case syntax.Java:
		return m == "root" && recv != nil && recv.Text == "Context" && u.File.ImportsAny("io.opentelemetry.context")
	case syntax.Python:
		return m == "Context" && len(n.Args()) == 0 && u.File.ImportsAny("opentelemetry.context")
	default:
		return false
	}
}

// atHand returns the code of the context that is available at a node, "" if there is none.
func atHand(u *instrumentation.Uses, n *syntax.Node) string {
	fn := n.Enclosing(syntax.Func)
	if fn == nil {
		return ""
	}
	for _, p := range fn.Params() {
		if p.Text == "_" || p.Text == "" {
			continue
		}
		getter, ok := goContexts[p.Type]
		switch {
		case ok && u.File.Language == syntax.Go:
			return p.Text + getter
		case u.File.Language != syntax.Go && (contextParams[p.Text] && (p.Type == "" || ofContext.MatchString(p.Type)) || p.Type == "Context"):
			return p.Text
		case u.File.Language == syntax.Java && (p.Type == "HttpServletRequest" || p.Type == "ServerWebExchange"):
			return "Context.current()"
		}
	}
	return ""
}

// goContexts maps types of parameters in Go to the code that gets the context of a parameter.
var goContexts = map[string]string{
	"context.Context": "", "*http.Request": ".Context()", "*gin.Context": ".Request.Context()", "echo.Context": ".Request().Context()",
	"*fiber.Ctx": ".UserContext()",
}

// contextParams are names of parameters that hold a context, or a request whose context is the current context.
var contextParams = setOf("ctx context parentContext parent_context parent_ctx parentCtx req request")

// ofContext matches types of contexts and of requests.
var ofContext = regexp.MustCompile(`(Context|Request|Exchange)\b|^any$`)

// withoutParent returns the code that makes a span a root span: {root: true}, setNoParent().
func withoutParent(u *instrumentation.Uses, s *instrumentation.Span) *syntax.Node {
	switch u.File.Language {
	case syntax.JavaScript, syntax.TypeScript:
		if root := s.Start.Arg(1).Get("root"); root != nil && root.Kind == syntax.Bool && root.Text == "true" {
			return root
		}
	case syntax.Java:
		for n := s.Start; n != nil && n.Kind == syntax.Call; n, _ = n.Method() {
			if name(n) == "setNoParent" {
				return n
			}
		}
	}
	return nil
}

// replaces reports whether the code replaces the context hand on purpose: it assigns to the same variable, or has
// checked that hand is nil.
func replaces(n *syntax.Node, hand string) bool {
	fn := n.Enclosing(syntax.Func)
	assign := n.Enclosing(syntax.Assign, syntax.Func, syntax.Block)
	if assign.Kind == syntax.Assign && assign.Targets()[0].Text == hand && (assign.Value() == n || assign.Enclosing(syntax.If, syntax.Case, syntax.Func) != fn) {
		return assign.Text == "=" || assign.Enclosing(syntax.Block) == fn.Body()
	}
	for p := n; p != fn; p = p.Parent {
		if up := p.Parent; up.Kind == syntax.If && up.Children[1] == p && isNull(up.Children[0], hand) {
			return true
		}
	}
	return false
}

// opens are functions whose results are valid only until their context ends.
var opens = setOf("BeginTx BeginTxx Conn QueryContext QueryxContext PrepareContext PreparexContext")

// replaceable reports whether a call can use the context at hand. The variable must still hold the context of the
// function or of a span. The result of the call must not outlive the function, because its caller or a deferred call
// may end the context.
func replaceable(u *instrumentation.Uses, n, call *syntax.Node, hand string) bool {
	fn := n.Enclosing(syntax.Func)
	variable, _, _ := strings.Cut(hand, ".")
	for c := range fn.Body().All() {
		if c.Start < n.Start && (c.Kind == syntax.Assign || c.Kind == syntax.Declare) && c.Enclosing(syntax.Func) == fn &&
			slices.ContainsFunc(c.Targets(), func(t *syntax.Node) bool { return t.Text == variable }) && !(c.Kind == syntax.Assign && startsSpan(u, c.Value())) {
			return false
		}
	}
	result := call.Enclosing(syntax.Assign, syntax.Return, syntax.Pair, syntax.Block)
	switch result.Kind {
	case syntax.Return:
		return !opens[name(call)]
	case syntax.Pair:
		return false
	case syntax.Assign:
	default:
		return true
	}
	target := result.Targets()[0]
	if target.Kind != syntax.Name {
		return false
	}
	return !fn.Body().Has(func(c *syntax.Node) bool {
		return c.Kind == syntax.Name && c.Text == target.Text && c.Start > result.End && escapes(c, fn, opens[name(call)])
	})
}

// escapes reports whether a value may outlive the function through a use of its variable: in another function, in a
// structure, in a channel or, if returned is set, in a return statement.
func escapes(use, fn *syntax.Node, returned bool) bool {
	for p := use.Parent; p != fn; p = p.Parent {
		switch p.Kind {
		case syntax.Spawn, syntax.Func, syntax.Object, syntax.List:
			return true
		case syntax.Return:
			return returned
		case syntax.Assign:
			if p.Targets()[0].Kind != syntax.Name {
				return true
			}
		case syntax.Operator:
			if p.Text == "<-" {
				return true
			}
		case syntax.Block:
			if use.Enclosing(syntax.Func) == fn {
				return false
			}
		}
	}
	return false
}

// isNull reports whether a condition compares a variable with nil or null: ctx == nil.
func isNull(cond *syntax.Node, variable string) bool {
	return cond.Kind == syntax.Operator && strings.HasPrefix(cond.Text, "==") && len(cond.Children) == 2 && cond.Children[0].Text == variable && cond.Children[1].Kind == syntax.Null
}

// derivesContext reports whether a call derives a context from another one: context.WithTimeout(parent, d).
func derivesContext(call *syntax.Node) bool {
	recv, m := call.Called()
	return recv != nil && recv.Text == "context" && (m == "WithTimeout" || m == "WithCancel" || m == "WithDeadline" || m == "WithValue")
}

// derivedUse returns the first instrumented call that gets a fresh context through a variable, and its argument. It
// returns nil if there is none, or if the variable is used for more than calls in the request.
func derivedUse(u *instrumentation.Uses, n *syntax.Node, ended map[*syntax.Node]int, traced map[string]bool) (call, ctx *syntax.Node) {
	assign := n.Enclosing(syntax.Assign, syntax.Func, syntax.Block)
	if u.File.Language != syntax.Go || assign == nil || assign.Kind != syntax.Assign || assign.Targets()[0].Kind != syntax.Name || assign.Targets()[0].Text == "_" {
		return nil, nil
	}
	target := assign.Targets()[0].Text
	fn := n.Enclosing(syntax.Func)
	for c := range fn.Body().All(syntax.Name) {
		if c.Text != target || c.Start < assign.End || u.File.Definition(c) != assign {
			continue
		}
		if c.Parent.Kind != syntax.Call || c.Parent.Arg(0) != c || outlives(c, ended) || derivesContext(c.Parent) {
			return nil, nil
		}
		if call == nil && propagates(u, c.Parent, c, traced) {
			call, ctx = c.Parent, c
		}
	}
	return call, ctx
}

// tracedFunctions returns the names of the functions of a Go file that start a span with their context parameter:
// "place", and "Service.Place" for a method.
func tracedFunctions(u *instrumentation.Uses) map[string]bool {
	traced := map[string]bool{}
	if u.File.Language != syntax.Go {
		return traced
	}
	for _, s := range u.Spans {
		fn := s.Start.Enclosing(syntax.Func)
		if fn == nil || fn.Text == "" || s.Context == nil || s.Context.Kind != syntax.Name {
			continue
		}
		params := fn.Params()
		switch slices.IndexFunc(params, func(p *syntax.Node) bool { return p.Text == s.Context.Text }) {
		case 0:
			traced[fn.Text] = true
		case 1:
			traced[method(params[0], fn.Text)] = true
		}
	}
	return traced
}

// method returns the name of a method with the type of its receiver: "Service.Place".
func method(receiver *syntax.Node, name string) string {
	return strings.TrimPrefix(receiver.Type, "*") + "." + name
}

// propagates reports whether a call passes the context on to instrumentation: it starts a span, or calls a traced
// function, another service or a database.
func propagates(u *instrumentation.Uses, call, ctx *syntax.Node, traced map[string]bool) bool {
	if i, ok := slices.BinarySearchFunc(u.Spans, call.Start, func(s *instrumentation.Span, at int) int { return cmp.Compare(s.Start.Start, at) }); ok && u.Spans[i].Start == call {
		return true
	}
	recv, m := call.Method()
	if recv == nil {
		return call.Arg(0) == ctx && traced[name(call)]
	}
	switch u.File.Language {
	case syntax.JavaScript, syntax.TypeScript:
		return m == "with" && name(recv) == "context" && call.Arg(0) == ctx && startsSpan(u, call)
	case syntax.Python:
		return m == "attach" && call.Arg(0) == ctx
	case syntax.Go:
	default:
		return false
	}
	if call.Arg(0) != ctx {
		return false
	}
	if contextCalls[m] {
		return true
	}
	if def := u.File.Definition(recv); def != nil && (strings.HasSuffix(def.Type, "Client") || def.Kind == syntax.Param && traced[method(def, m)]) {
		return true // a client of gRPC, or a traced method
	}
	if _, ok := u.File.Imported(name(recv)); !ok && contextReceivers.any(words(name(recv))) {
		return true
	}
	w := last(words(name(recv)))
	return w == "client" || w == "db" || w == "conn" || w == "pool" || w == "tx" || w == "rdb" || w == "redis" || w == "producer" || w == "publisher"
}

// startsSpan reports whether a node contains the start of a span.
func startsSpan(u *instrumentation.Uses, n *syntax.Node) bool {
	i, _ := slices.BinarySearchFunc(u.Spans, n.Start, func(s *instrumentation.Span, at int) int { return cmp.Compare(s.Start.Start, at) })
	return i < len(u.Spans) && u.Spans[i].Start.End <= n.End
}

// contextReceivers are words in names of objects whose methods get the context of a request: repositories, services.
var contextReceivers = setOf("repo repository repositories svc service services store storage dao gateway api stub")

// contextCalls are functions of clients that get a context as the first argument.
var contextCalls = setOf(`QueryContext QueryRowContext ExecContext PingContext PrepareContext GetContext
	SelectContext NamedExecContext NewRequestWithContext BeginTx BeginTxx DoContext InvokeContext PublishWithContext`)

var (
	// cleanups are words in names of functions that clean up after the request.
	cleanups = setOf("shutdown stop close cleanup clean rollback release unlock flush teardown drain disconnect unsubscribe deregister abort cancel delete finalize")
	// lifetimes are words in names of functions that run as long as the program, or independently of a request.
	lifetimes = setOf("main run start init setup background async detached watch loop")
)

// outlives reports whether the code at a node deliberately runs without the context of the request. ended caches the
// results of independent.
func outlives(n *syntax.Node, ended map[*syntax.Node]int) bool {
	fn := n.Enclosing(syntax.Func)
	for p := n.Parent; p != nil; p = p.Parent {
		switch p.Kind {
		case syntax.Defer, syntax.Spawn, syntax.Finally:
			return true
		case syntax.Call:
			if cleanups.any(words(name(p))) && p.Enclosing(syntax.Func) == fn {
				return true
			}
		}
		if p == fn {
			break
		}
	}
	if fn.Parent != nil && (fn.Parent.Kind == syntax.Spawn || fn.Parent.Parent != nil && fn.Parent.Parent.Kind == syntax.Spawn) {
		return true
	}
	if w := words(fn.Text); len(w) > 0 {
		for _, end := range []string{w[0], w[len(w)-1]} {
			if cleanups[end] || lifetimes[end] {
				return true
			}
		}
	}
	at, ok := ended[fn]
	if !ok {
		at = independent(fn)
		ended[fn] = at
	}
	return n.Start > at
}

// independent returns the position from which the work of a function does not depend on its context: the first use of
// Done, where the context may have ended, or the start of a function that links its spans to other traces. It returns
// math.MaxInt if there is none.
func independent(fn *syntax.Node) int {
	at := math.MaxInt
	for c := range direct(fn.Body()) {
		switch {
		case c.Kind == syntax.Call && (strings.HasPrefix(name(c), "Link") || name(c) == "WithLinks" || name(c) == "AddLink"):
			return fn.Start
		case (c.Kind == syntax.Call || c.Kind == syntax.Member) && name(c) == "Done":
			at = min(at, c.Start)
		}
	}
	return at
}
