// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"fmt"
	"go/ast"
	"go/types"
)

// zipkinReporter removes the definition of a reporter that is only passed to NewTracer, in the same function, and
// closed.
func zipkinReporter(r *goRewriter, s *ast.AssignStmt, c *ast.CallExpr, _ []ast.Stmt) ([]string, int) {
	o := r.defined(s.Lhs[0])
	if o == nil || len(s.Lhs) != 1 || len(c.Args) != 1 {
		return nil, 0
	}
	for _, id := range r.uses(o) {
		switch p := r.parents[id].(type) {
		case *ast.CallExpr:
			if r.symbol(p.Fun) != "zipkin.NewTracer" || r.function(p) != r.function(c) {
				return nil, 0
			}
		case *ast.SelectorExpr:
			if r.symbol(p) != "zipkinrep.Reporter.Close" {
				return nil, 0
			}
		default:
			return nil, 0
		}
	}
	r.note(c, "The exporter reads its endpoint from OTEL_EXPORTER_OTLP_ENDPOINT. Set it where the address of Zipkin is configured.")
	return nil, 1
}

// defined returns the variable that an expression defines, or nil.
func (r *goRewriter) defined(e ast.Expr) types.Object {
	if id, ok := e.(*ast.Ident); ok {
		return r.info.Defs[id]
	}
	return nil
}

func zipkinClose(r *goRewriter, c *ast.CallExpr) ([]string, bool) {
	return []string{r.helper("stopTracing") + "()"}, simple(method(c))
}

// zipkinEndpoint removes the definition of an endpoint whose only use is an option of a tracer in the same function.
// The tracer gets the service of the endpoint.
func zipkinEndpoint(r *goRewriter, s *ast.AssignStmt, c *ast.CallExpr, rest []ast.Stmt) ([]string, int) {
	o := r.defined(s.Lhs[0])
	if o == nil || len(s.Lhs) != 2 || len(c.Args) != 2 || len(r.uses(o)) != 1 {
		return nil, 0
	}
	call, _ := r.parents[r.uses(o)[0]].(*ast.CallExpr)
	if call == nil || r.symbol(call.Fun) != "zipkin.WithLocalEndpoint" || r.function(call) != r.function(c) {
		return nil, 0
	}
	n := 1
	if !isBlank(s.Lhs[1]) {
		if len(rest) == 0 || !r.isErrorTest(rest[0], s.Lhs[1]) {
			return nil, 0
		}
		r.mark(rest[0])
		n++
	}
	r.configs[o] = &jaegerSetup{service: r.text(c.Args[0])}
	return nil, n
}

func zipkinNewTracer(r *goRewriter, c *ast.CallExpr) (string, bool) {
	if len(c.Args) == 0 || !simple(c.Args[0]) {
		return "", false
	}
	service := ""
	for _, o := range c.Args[1:] {
		option, name := r.call(o)
		switch name {
		case "zipkin.WithLocalEndpoint":
			setup := r.configs[r.object(option.Args[0])]
			if setup == nil {
				return "", false
			}
			service = setup.service
		case "zipkin.WithSharedSpans", "zipkin.WithTraceID128Bit": // no counterpart is needed
		default:
			return r.fail(o, "%s is in no table as an option of the tracer.", r.brief(o))
		}
		r.mark(o)
	}
	if service == "" {
		return "", false
	}
	r.note(c, "Requests carry traceparent instead of B3 headers. Add the propagator of go.opentelemetry.io/contrib/propagators/b3 if peers still need them.")
	return r.helper("newServiceTracer") + "(" + service + ")", true
}

// zipkinExtract rewrites tracer.Extract(b3.ExtractHTTP(request)).
func zipkinExtract(r *goRewriter, c *ast.CallExpr) (string, bool) {
	from, name := r.call(c.Args[0])
	if name != "b3.ExtractHTTP" || !simple(from.Args[0]) {
		return "", false
	}
	r.markName(from.Fun)
	return fmt.Sprintf("%s.GetTextMapPropagator().Extract(%s.Background(), %s.HeaderCarrier(%s.Header))", r.use("otel"), r.use("context"), r.use("propagation"), r.text(from.Args[0])), true
}

// zipkinInject rewrites b3.InjectHTTP(request)(spanContext).
func zipkinInject(r *goRewriter, c *ast.CallExpr) (string, bool) {
	to, ok := ast.Unparen(c.Fun).(*ast.CallExpr)
	if !ok || len(to.Args) != 1 || len(c.Args) != 1 || !simple(to.Args[0]) {
		return "", false
	}
	r.markName(to.Fun)
	return fmt.Sprintf("%s.GetTextMapPropagator().Inject(%s, %s.HeaderCarrier(%s.Header))", r.use("otel"), r.text(c.Args[0]), r.use("propagation"), r.text(to.Args[0])), true
}
