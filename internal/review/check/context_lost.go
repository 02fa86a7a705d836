// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"fmt"
	"math"
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
		parents := map[*syntax.Node]bool{} // contexts that spans get
		for _, s := range u.Spans {
			parents[s.Context] = true
		}
		for n := range u.File.Root.All() {
			if n.Kind != syntax.Call && n.Kind != syntax.Name && n.Kind != syntax.Member || !fresh(u, n) {
				continue
			}
			call := n.Parent
			if call == nil || call.Kind != syntax.Call || call.Callee() == n {
				continue
			}
			hand := atHand(u, n)
			if hand == "" || !parents[n] && !propagates(u, call, n) || outlives(n, ended) {
				continue
			}
			f := Finding{Subject: name(call), Message: fmt.Sprintf("`%s` gets a fresh context although `%s` is at hand.", brief(u, call.Callee()), hand)}
			if u.File.Language == syntax.Go {
				f.Fix = []Edit{{Start: n.Start, End: n.End, Text: hand}}
			}
			p.At(u, n, f)
		}
	},
	Examples: []Example{
		{
			Name: "a fresh context for a span, a query and a request",
			Files: map[string]string{"order.go": goFile(`
func handle(ctx context.Context, db *sql.DB) {
	_, span := tracer.Start(context.Background(), "handle")
	defer span.End()
	db.QueryContext(context.TODO(), "SELECT 1")
}

func serve(w http.ResponseWriter, r *http.Request) {
	req, _ := http.NewRequestWithContext(context.Background(), "GET", "http://stock/", nil)
	http.DefaultClient.Do(req)
}
`)},
			Findings: []string{"order.go:6", "order.go:8", "order.go:12"},
		},
		{
			Name: "no context at hand, and work that outlives the request",
			Files: map[string]string{"order.go": goFile(`
func main() {
	_, span := tracer.Start(context.Background(), "main")
	defer span.End()
}

func handle(ctx context.Context, db *sql.DB, server *http.Server) {
	go db.ExecContext(context.Background(), "VACUUM")
	defer db.ExecContext(context.Background(), "ROLLBACK")
	<-ctx.Done()
	server.Shutdown(context.Background())
}

func detached(ctx context.Context, db *sql.DB) {
	db.ExecContext(context.WithoutCancel(ctx), "INSERT")
}
`)},
		},
		{
			Name: "handlers of Gin, clients of gRPC and spans without a parent",
			Files: map[string]string{
				"order.go": goFile(`
type server struct {
	stock pb.StockClient
}

func (s *server) handle(c *gin.Context) {
	_, span := tracer.Start(context.Background(), "handle")
	defer span.End()
}

func (s *server) serve(w http.ResponseWriter, r *http.Request) {
	s.stock.Reserve(context.TODO(), &pb.Request{})
}
`),
				"Order.java": `import io.opentelemetry.api.trace.Span;
import io.opentelemetry.context.Context;
class Order {
  Tracer tracer;
  void handle(Context parent) {
    Span span = tracer.spanBuilder("handle").setParent(Context.root()).startSpan();
    span.end();
  }
  void other(Context parent) {
    Span span = tracer.spanBuilder("other").setParent(parent).startSpan();
    span.end();
  }
}
`,
			},
			Findings: []string{"Order.java:6", "order.go:10", "order.go:15"},
		},
	},
}

// fresh reports whether an expression is a new root context.
func fresh(u *instrumentation.Uses, n *syntax.Node) bool {
	switch u.File.Language {
	case syntax.Go:
		if n.Kind != syntax.Call || len(n.Args()) > 0 {
			return false
		}
		recv, m := n.Method()
		if m != "Background" && m != "TODO" || recv == nil || recv.Text != "context" {
			return false
		}
		i, ok := u.File.Imported("context")
		return ok && i.Path == "context"
	case syntax.JavaScript, syntax.TypeScript:
		return n.Kind == syntax.Name && n.Text == "ROOT_CONTEXT"
	case syntax.Java:
		if n.Kind != syntax.Call || !u.File.ImportsAny("io.opentelemetry.context") {
			return false
		}
		recv, m := n.Method()
		return recv != nil && recv.Text == "Context" && m == "root"
	case syntax.Python:
		if n.Kind != syntax.Call || len(n.Args()) > 0 || name(n) != "Context" {
			return false
		}
		return u.File.ImportsAny("opentelemetry.context")
	}
	return false
}

// atHand returns the expression of the context that a place has, "" if none.
func atHand(u *instrumentation.Uses, n *syntax.Node) string {
	fn := n.Enclosing(syntax.Func)
	if fn == nil {
		return ""
	}
	for _, p := range fn.Params() {
		if p.Text == "_" || p.Text == "" {
			continue
		}
		switch {
		case p.Type == "context.Context":
			return p.Text
		case u.File.Language == syntax.Go && p.Type == "*http.Request":
			return p.Text + ".Context()"
		case u.File.Language == syntax.Go && p.Type == "*gin.Context":
			return p.Text + ".Request.Context()"
		case u.File.Language == syntax.Go && p.Type == "echo.Context":
			return p.Text + ".Request().Context()"
		case u.File.Language != syntax.Go && (p.Text == "ctx" || p.Text == "context" || p.Text == "parentContext" || p.Type == "Context"):
			return p.Text
		}
	}
	return ""
}

// propagates reports whether a call passes the context on to instrumentation: it starts a span, or is a call to
// another service or a database.
func propagates(u *instrumentation.Uses, call, ctx *syntax.Node) bool {
	if i, ok := slices.BinarySearchFunc(u.Spans, call.Start, func(s *instrumentation.Span, at int) int { return cmp.Compare(s.Start.Start, at) }); ok && u.Spans[i].Start == call {
		return true
	}
	if u.File.Language != syntax.Go || call.Arg(0) != ctx {
		return false
	}
	recv, m := call.Method()
	if recv == nil {
		return false
	}
	if contextCalls[m] {
		return true
	}
	if def := u.File.Definition(recv); def != nil && strings.HasSuffix(def.Type, "Client") {
		return true // of gRPC
	}
	w := last(words(name(recv)))
	return w == "client" || w == "db" || w == "conn" || w == "pool" || w == "tx" || w == "rdb" || w == "redis" || w == "producer" || w == "publisher"
}

// contextCalls are functions of clients that get a context.
var contextCalls = map[string]bool{
	"QueryContext": true, "QueryRowContext": true, "ExecContext": true, "PingContext": true, "PrepareContext": true, "GetContext": true, "SelectContext": true,
	"NamedExecContext": true, "NewRequestWithContext": true, "BeginTx": true, "BeginTxx": true, "DoContext": true, "InvokeContext": true, "PublishWithContext": true,
}

var (
	// cleanups are words of functions that clean up after the request.
	cleanups = setOf("shutdown stop close cleanup clean rollback release unlock flush teardown drain disconnect unsubscribe deregister abort cancel delete finalize")
	// lifetimes are words of functions that run as long as the program, or apart from a request.
	lifetimes = setOf("main run start init setup background async detached watch loop")
)

// outlives reports whether a place runs on purpose without the context of the request. The map has the positions from
// which on functions do.
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

// independent returns the position in a function from which on the work has nothing to do with its context: where the
// context has ended, or the start of a function that links its traces instead.
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
