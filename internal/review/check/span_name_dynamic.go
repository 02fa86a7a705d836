// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"strings"

	"assay/internal/review/instrumentation"
	"assay/internal/review/syntax"
)

var spanNameDynamic = &Check{
	ID:       "span-name-dynamic",
	Title:    "Span name is built from variables",
	Category: Volume,
	Severity: High,
	Rules:    []string{"SPA-003"},
	Why: "A span name identifies a class of operations. A name with an id, a path or user input in it gives every request a class of its own: " +
		"backends cannot aggregate the spans, and metrics generated from spans get one time series for each name.",
	Fix: "Use a constant name, such as `process order`, and record the variables as attributes. A name may contain the method, the route template, " +
		"or the name of the operation or table, because these have few values. " +
		"The check reports a suggestion where the names of the variables do not show whether they have few values.",
	Fixable: true,
	Source: func(p *Pass, u *instrumentation.Uses) {
		seen := map[*syntax.Node]bool{}
		for _, s := range u.Spans {
			if s.Name == nil {
				continue
			}
			built := buildsName(u, s.Name)
			if built == nil || seen[built] {
				continue
			}
			seen[built] = true
			part, severity := variablePart(u, built)
			if part == nil || helper(u, s, part) {
				continue
			}
			var fix []Edit
			if severity == "" {
				fix = p.constantName(u, s, built)
			}
			p.mark(u, built, Finding{
				Severity: severity, Fix: fix,
				Subject: constantParts(u, built),
				Message: fmt.Sprintf("The span name contains `%s`, so that the number of names is not limited.", brief(u, part)),
				Names:   Names{SpanName: constantParts(u, built), ScopeName: s.Scope},
			})
		}
	},
	Examples: []Example{
		{
			Name: "names built by concatenation, Sprintf and a variable",
			Files: map[string]string{"order.go": goFile(`
func process(ctx context.Context, id string, r *http.Request) {
	ctx, a := tracer.Start(ctx, "process "+id)
	defer a.End()
	ctx, b := tracer.Start(ctx, fmt.Sprintf("order %s", id))
	defer b.End()
	name := "GET " + r.URL.Path
	_, c := tracer.Start(ctx, name)
	defer c.End()
}
`)},
			Findings: []string{"order.go:6", "order.go:8", "order.go:10"},
		},
		{
			Name: "constant names, and names of a method and a route",
			Files: map[string]string{"order.go": goFile(`
const prefix = "orders"

func process(ctx context.Context, id string, r *http.Request) {
	ctx, a := tracer.Start(ctx, prefix+".process", trace.WithAttributes(attribute.String("order.id", id)))
	defer a.End()
	_, b := tracer.Start(ctx, r.Method+" "+r.Pattern)
	defer b.End()
}
`)},
		},
		{
			Name: "a tracer of another library",
			Files: map[string]string{"order.go": `package order

import "github.com/opentracing/opentracing-go"

func process(ctx context.Context, tracer Tracer, id string) {
	span := tracer.Start(ctx, "process "+id)
	defer span.End()
}
`},
		},
		{
			Name: "names given to functions of the project",
			Files: map[string]string{
				"order.go": goFile(`
func pull(ctx context.Context, path string) error {
	span, ctx := tracing.StartSpan(ctx, "pull "+path)
	defer func() { tracing.FinishWithError(span, work(ctx)) }()
	return tracing.WithSpan(ctx, "push "+path, func(ctx context.Context) error { return work(ctx) })
}
`),
				"order.ts":  "import { withSpan } from './tracing';\nexport const load = (id: string) => withSpan(`load ${id}`, async (span) => work(span));\n",
				"order.py":  "from app.tracing import trace_call\n\ndef load(order_id):\n    with trace_call(f'load {order_id}') as span:\n        work(span)\n",
				"worker.ts": "import { tracer } from './telemetry';\nexport const run = (id: string) => tracer.startActiveSpan(async (span) => work(span), { name: `run ${id}` });\n",
			},
			Findings: []string{"order.go:6", "order.go:8", "order.py:4", "order.ts:2", "worker.ts:2"},
		},
		{
			Name: "names of classes, tables and agents",
			Files: map[string]string{
				"agent.py": `from opentelemetry import trace
tracer = trace.get_tracer("agent")

def run(agent_name, handler):
    name = handler.__class__.__name__
    guard = getattr(handler, "__name__", "guard")
    with tracer.start_as_current_span(f"{name}.run"):
        with tracer.start_as_current_span(f"{guard}.guard"):
            with tracer.start_as_current_span(f"invoke_agent {agent_name}"):
                work()
`,
				"copy.go": goFile(`
func copyFrom(ctx context.Context, data Data) {
	_, span := tracer.Start(ctx, "copy_from "+data.TableName.Sanitize())
	defer span.End()
}
`),
			},
		},
	},
}

// helper reports whether a function only starts a span for its callers, which give it the variable part of the name.
func helper(u *instrumentation.Uses, s *instrumentation.Span, part *syntax.Node) bool {
	if !s.Escapes || s.Start.Parent == nil || s.Start.Parent.Kind != syntax.Return {
		return false
	}
	def := u.File.Definition(part)
	return def != nil && def.Kind == syntax.Param
}

// formatters are functions that build a text from a format and values.
var formatters = setOf("sprintf sprint sprintln format formatted join concat")

// buildsName returns the expression that builds a name: itself, or the definition of a variable.
func buildsName(u *instrumentation.Uses, n *syntax.Node) *syntax.Node {
	for range 3 {
		switch n.Kind {
		case syntax.Template:
			return n
		case syntax.Operator:
			if len(n.Children) == 2 && (n.Text == "%" || n.Text == "+") && n.Children[0].Kind == syntax.String {
				return n
			}
			return nil
		case syntax.Call:
			if formatters[strings.ToLower(name(n))] && len(n.Args()) > 0 {
				return n
			}
			return nil
		case syntax.Name:
			def := u.File.Definition(n)
			if def == nil || def.Kind != syntax.Assign || len(def.Targets()) != 1 || n.Within(def) {
				return nil
			}
			n = def.Value()
		default:
			return nil
		}
	}
	return nil
}

var (
	// boundedWords name values of which there are few, by convention part of span names.
	boundedWords = setOf(`method verb operation op action route pattern template kind type rpc handler endpoint function func fn stage phase
		level mode component prefix suffix table collection topic queue destination driver protocol version scope namespace service package pkg
		class classname module plugin provider system status command cmd step layer tool model backend qualname language direction role
		procedure tablename operationname methodname servicename spanname typename functionname basename funcname routepath stmttype verbname
		const constant category signal agent hook field property relation middleware graph workflow cache bucket binding vendor propertykey fieldname resourcetype engine adapter source sourcetype`)
	// unboundedWords name values of which there is one for each request, user or object.
	unboundedWords = setOf(`id ids uuid guid uid url uri path email user username customer order session request query sql statement token
		address addr ip timestamp time date now number num index i j idx count hash filename file message msg body text title sku title slug
		input value val host hostname search term prompt question account cart target href`)
)

// variablePart returns the part of a built name that has many values, or nil. Its severity is that of the check if the
// part's name says so, otherwise that of a suggestion.
func variablePart(u *instrumentation.Uses, n *syntax.Node) (*syntax.Node, Severity) {
	parts := n.Children
	if n.Kind == syntax.Call {
		parts = n.Args()
		if r, m := n.Method(); r != nil && (r.Kind == syntax.String || m == "formatted") { // "order {}".format(id)
			parts = append([]*syntax.Node{r}, parts...)
		}
	}
	var unsure *syntax.Node
	for _, c := range flatten(parts) {
		if constant(u, c) || packageValue(u, c) || c.Kind == syntax.Func {
			continue
		}
		w := describing(c)
		if c.Kind == syntax.Name && !boundedWords[last(w)] && !unboundedWords[last(w)] { // what it was given says more
			if def := u.File.Definition(c); def != nil && def.Kind == syntax.Assign && len(def.Targets()) == 1 && !c.Within(def) {
				if given := describing(def.Value()); boundedWords[last(given)] || unboundedWords[last(given)] {
					w = given
				}
			}
		}
		switch {
		case boundedWords[last(w)], len(w) > 1 && boundedWords[w[len(w)-2]+last(w)], len(w) > 1 && last(w) == "id" && fewIDs[w[len(w)-2]]:
		case unboundedWords[last(w)] || unboundedCall(c):
			return c, ""
		default:
			if unsure == nil {
				unsure = c
			}
		}
	}
	return unsure, Suggestion
}

// reshapers are methods whose result is another spelling of their receiver.
var reshapers = setOf("trim strip lower upper tolower toupper tolowercase touppercase trimspace sanitize quote escape tostring string str")

// describing returns the words that describe the value of an expression.
func describing(n *syntax.Node) []string {
	for range 4 {
		switch n.Kind {
		case syntax.Call:
			recv, m := n.Method()
			w := words(m)
			if m == "TypeOf" || m == "type" || m == "getClass" {
				return []string{"type"}
			}
			if len(w) > 1 && (w[0] == "get" || w[0] == "to") {
				w = w[1:]
			}
			switch {
			case m == "getattr" && n.Arg(1) != nil && (n.Arg(1).Text == "__name__" || n.Arg(1).Text == "__qualname__"):
				return []string{"qualname"}
			case keeps(n) && len(n.Args()) > 0:
				n = n.Args()[0]
				continue
			case recv != nil && recv.Kind != syntax.String && len(n.Args()) == 0 && reshapers[strings.ToLower(m)]:
				n = recv
				continue
			case (keeps(n) || m == "getSimpleName" || m == "getName" || m == "Name" || m == "name") && recv != nil && recv.Kind != syntax.String:
				n = recv
				continue
			}
			if len(w) > 1 && last(w) == "name" {
				return w[:len(w)-1]
			}
			return w
		case syntax.Member:
			w := words(n.Text)
			if name(n.Children[0]) == "constructor" {
				return []string{"class"}
			}
			if l := last(w); l == "name" || l == "value" || l == "path" {
				w = append(words(name(n.Children[0])), w...)
				if len(w) > 1 && l != "path" && (boundedWords[w[len(w)-2]] || w[len(w)-2] == "constructor") {
					return w[:len(w)-1]
				}
				if len(w) > 1 && w[len(w)-2] == "route" { // req.route.path
					return w[:len(w)-1]
				}
			}
			if n.Text == "__name__" || n.Text == "__qualname__" {
				return []string{"qualname"}
			}
			return w
		case syntax.Name:
			w := words(n.Text)
			if len(w) > 1 && last(w) == "name" {
				return w[:len(w)-1]
			}
			return w
		case syntax.Index, syntax.Await, syntax.Spread, syntax.Argument:
			if len(n.Children) == 0 {
				return nil
			}
			if n.Kind == syntax.Index && len(n.Children) == 2 && n.Children[1].Kind == syntax.String {
				return words(n.Children[1].Text)
			}
			n = n.Children[0]
		case syntax.Operator, syntax.Conditional:
			if len(n.Children) == 0 {
				return nil
			}
			n = n.Children[len(n.Children)-1]
		default:
			return nil
		}
	}
	return nil
}

// unboundedCall reports whether an expression makes a new id or time.
func unboundedCall(n *syntax.Node) bool {
	if n.Kind != syntax.Call {
		return false
	}
	w := words(name(n))
	return setOf("uuid randomuuid uuid4 nanoid ulid now timestamp randint random unixnano").any(append(w, strings.Join(w, "")))
}

// flatten returns nodes with the parts of templates and lists in their place.
func flatten(nodes []*syntax.Node) []*syntax.Node {
	var out []*syntax.Node
	for _, n := range nodes {
		if n.Kind == syntax.Template || n.Kind == syntax.List {
			out = append(out, n.Children...)
		} else {
			out = append(out, n)
		}
	}
	return out
}

// packageValue reports whether an expression is a constant by its looks: a member of a package, or a name in capitals.
func packageValue(u *instrumentation.Uses, n *syntax.Node) bool {
	if n.Kind == syntax.Member && n.Children[0].Kind == syntax.Name {
		if _, ok := u.File.Imported(n.Children[0].Text); ok && u.File.Definition(n.Children[0]) == nil {
			return true
		}
	}
	return (n.Kind == syntax.Name || n.Kind == syntax.Member) && len(n.Text) > 1 && n.Text == strings.ToUpper(n.Text)
}

// constantParts returns a built text with * in place of its variables.
func constantParts(u *instrumentation.Uses, n *syntax.Node) string {
	parts := n.Children
	if n.Kind == syntax.Call {
		format, ok := u.Known(n.Arg(0))
		if r, m := n.Method(); m == "format" && r != nil {
			format, ok = u.Known(r)
		}
		if !ok {
			return "*"
		}
		return verbs.ReplaceAllString(format, "*")
	}
	if n.Kind == syntax.Operator {
		format, _ := u.Known(parts[0])
		return verbs.ReplaceAllString(format, "*")
	}
	var b strings.Builder
	for _, c := range parts {
		if s, ok := u.Known(c); ok {
			b.WriteString(s)
		} else {
			b.WriteByte('*')
		}
	}
	return b.String()
}

// brief returns the source of an expression for a message: on one line and short.
func brief(u *instrumentation.Uses, n *syntax.Node) string {
	s := strings.Join(strings.Fields(u.File.Code(n)), " ")
	const limit = 60
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit], "") + "..."
	}
	return strings.ReplaceAll(s, "`", "'")
}
