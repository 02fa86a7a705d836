// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"cmp"
	_ "embed"
	"fmt"
	"go/ast"
	"go/constant"
	"go/format"
	"go/token"
	"go/types"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"

	"assay/internal/lists"
	"assay/internal/review/patch"
)

// jaegerSetup holds the settings of a configuration of the Jaeger client, or the service of a Zipkin endpoint.
type jaegerSetup struct {
	service string
	sampler ast.Expr // the last setting of the sampler, nil for none
	kind    string   // the type of the sampler
	param   ast.Expr
	env     ast.Node // the call that reads the configuration from the environment, nil for none
}

// config records the configuration of the Jaeger client that a statement defines. It reports whether the statement can
// be removed.
func (r *goRewriter) config(s *ast.AssignStmt) bool {
	if len(s.Lhs) != 1 {
		return false
	}
	value := ast.Unparen(s.Rhs[0])
	if u, ok := value.(*ast.UnaryExpr); ok {
		value = u.X
	}
	lit, ok := value.(*ast.CompositeLit)
	if !ok || lit.Type == nil || r.symbol(lit.Type) != "jaegercfg.Configuration" || !r.configures(s) {
		return false
	}
	setup := r.configuration(lit)
	r.configs[r.object(s.Lhs[0])] = setup
	return setup != nil
}

// configures reports whether a statement defines a variable as its first that has one use, after assignments of its
// fields in the same block.
func (r *goRewriter) configures(s *ast.AssignStmt) bool {
	uses := r.uses(r.defined(s.Lhs[0]))
	return len(uses) > 0 && !slices.ContainsFunc(uses[:len(uses)-1], func(id *ast.Ident) bool {
		var n ast.Node = id
		for selector(r.parents[n]) {
			n = r.parents[n]
		}
		a, ok := r.parents[n].(*ast.AssignStmt)
		return !ok || len(a.Lhs) != 1 || a.Lhs[0] != n || a.Tok != token.ASSIGN || r.parents[a] != r.parents[s]
	})
}

func selector(n ast.Node) bool {
	_, ok := n.(*ast.SelectorExpr)
	return ok
}

// set records an assignment of a field of a configuration. It reports whether the statement can be removed.
func (r *goRewriter) set(s *ast.AssignStmt) bool {
	field := ""
	e := s.Lhs[0]
	for ; selector(e); e = e.(*ast.SelectorExpr).X {
		field = e.(*ast.SelectorExpr).Sel.Name + "." + field
	}
	setup := r.configs[r.object(e)]
	if field == "" || setup == nil {
		return false
	}
	r.mark(s.Lhs[0])
	return r.setting(setup, strings.TrimSuffix(field, "."), s.Rhs[0])
}

// configuration reads the literal of a configuration. It returns nil if a setting is in no table.
func (r *goRewriter) configuration(lit *ast.CompositeLit) *jaegerSetup {
	setup := &jaegerSetup{service: `""`}
	r.markName(lit.Type)
	if !r.settings(setup, "", lit) {
		return nil
	}
	return setup
}

// settings records the fields of a literal. prefix is put before their names.
func (r *goRewriter) settings(setup *jaegerSetup, prefix string, lit *ast.CompositeLit) bool {
	return !slices.ContainsFunc(lit.Elts, func(e ast.Expr) bool {
		kv, ok := e.(*ast.KeyValueExpr)
		if !ok {
			return true
		}
		r.mark(kv.Key)
		return !r.setting(setup, prefix+r.code(kv.Key), kv.Value)
	})
}

// setting records a field of a configuration. It returns false if the setting is in no table.
func (r *goRewriter) setting(setup *jaegerSetup, field string, value ast.Expr) bool {
	switch field {
	case "ServiceName":
		setup.service = r.text(value)
		return true
	case "Gen128Bit", // trace ids of OpenTelemetry have 128 bits
		"Reporter.LogSpans", "Reporter.QueueSize", "Reporter.BufferFlushInterval":
	case "Reporter", "Reporter.LocalAgentHostPort", "Reporter.CollectorEndpoint":
		r.note(value, "The exporter reads its endpoint from OTEL_EXPORTER_OTLP_ENDPOINT. Set it where the address of the Jaeger agent or collector is configured.")
	case "Sampler":
		setup.sampler, setup.kind, setup.param = value, "", nil
		if u, ok := ast.Unparen(value).(*ast.UnaryExpr); ok {
			value = u.X
		}
		if lit, ok := value.(*ast.CompositeLit); ok && !r.settings(setup, "Sampler.", lit) {
			return false
		}
	case "Sampler.Type":
		setup.sampler = cmp.Or(setup.sampler, value)
		setup.kind, _ = r.known(value)
	case "Sampler.Param":
		setup.sampler = cmp.Or(setup.sampler, value)
		setup.param = value
	default:
		r.fail(value, "The field %s of the configuration is in no table.", field)
		return false
	}
	r.mark(value)
	return true
}

// note records an open step, which is added if the module is migrated.
func (r *goRewriter) note(n ast.Node, text string) {
	r.unit.notes = append(r.unit.notes, patch.Step{File: r.f.path, Line: r.unit.fset.PositionFor(n.Pos(), false).Line, Text: text, Open: true})
}

const jaegerPropagation = "Requests carry traceparent instead of uber-trace-id. Add the propagator of go.opentelemetry.io/contrib/propagators/jaeger if peers still need the old header."

// jaegerSetupOf returns the setup for a method call with options on a configuration, or nil if a part is in no table.
func (r *goRewriter) jaegerSetupOf(c *ast.CallExpr, options []ast.Expr) *jaegerSetup {
	for _, o := range options {
		switch call, name := r.call(o); {
		case name == "jaegercfg.Logger", name == "jaegercfg.Gen128Bit",
			name == "jaegercfg.Metrics" && len(call.Args) == 1 && r.symbol(cmp.Or(r.assigned(call.Args[0]), call.Args[0])) == "jaegermetrics.NullFactory":
			r.mark(o)
		default:
			r.fail(o, "%s is in no table as an option of the tracer.", r.brief(o))
			return nil
		}
	}
	return r.jaegerConfig(method(c))
}

// jaegerConfig returns the setup of a configuration: a literal or a variable.
func (r *goRewriter) jaegerConfig(config ast.Expr) *jaegerSetup {
	config = ast.Unparen(config)
	if u, ok := config.(*ast.UnaryExpr); ok {
		config = u.X
	}
	if lit, ok := config.(*ast.CompositeLit); ok {
		return r.configuration(lit)
	}
	return r.configs[r.object(config)]
}

func (r *goRewriter) newTracer(c *ast.CallExpr, setup *jaegerSetup) (string, bool) {
	if setup == nil {
		return "", false
	}
	arguments, variables := setup.service, "OTEL_SERVICE_NAME, OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_TRACES_SAMPLER and OTEL_RESOURCE_ATTRIBUTES."
	if setup.sampler != nil {
		root := r.jaegerSampler(setup)
		if root == "" {
			return r.fail(setup.sampler, "The sampler is in no table: constant and probabilistic ones are.")
		}
		variables = "OTEL_SERVICE_NAME, OTEL_EXPORTER_OTLP_ENDPOINT and OTEL_RESOURCE_ATTRIBUTES. The sampler is set in code, so no variable changes it."
		arguments += fmt.Sprintf(", %s.WithSampler(%[1]s.ParentBased(%[1]s.%s))", r.use("sdktrace"), root)
	}
	if setup.env != nil {
		r.note(setup.env, "Replace the JAEGER_* variables by "+variables)
	}
	r.note(c, jaegerPropagation)
	return r.helper("newTracer") + "(" + arguments + ")", true
}

// jaegerSampler returns the sampler of root spans, or "" if it is in no table.
func (r *goRewriter) jaegerSampler(s *jaegerSetup) string {
	switch {
	case s.kind == "const" && s.param == nil && s.env == nil:
		return "NeverSample()"
	case s.kind == "const" && s.param != nil && r.info.Types[s.param].Value != nil:
		if constant.Sign(constant.ToFloat(r.info.Types[s.param].Value)) == 0 {
			return "NeverSample()"
		}
		return "AlwaysSample()"
	case s.kind == "probabilistic" && s.param != nil:
		return "TraceIDRatioBased(" + r.text(s.param) + ")"
	}
	return ""
}

func jaegerNewTracer(r *goRewriter, c *ast.CallExpr) (string, bool) {
	return r.newTracer(c, r.jaegerSetupOf(c, c.Args))
}

func jaegerInitGlobal(r *goRewriter, c *ast.CallExpr) (string, bool) {
	if len(c.Args) == 0 {
		return "", false
	}
	setup := r.jaegerSetupOf(c, c.Args[1:])
	if name, known := r.known(c.Args[0]); setup != nil && (!known || name != "") {
		setup.service = r.text(c.Args[0])
	}
	return r.newTracer(c, setup)
}

// jaegerFromEnv removes cfg, err := config.FromEnv() and the error test after it.
func jaegerFromEnv(r *goRewriter, s *ast.AssignStmt, c *ast.CallExpr, rest []ast.Stmt) ([]string, int) {
	if len(s.Lhs) != 2 || !r.configures(s) {
		return nil, 0
	}
	setup := &jaegerSetup{service: `""`}
	if r.symbol(c.Fun) == "jaegercfg.Configuration.FromEnv" {
		setup = r.jaegerConfig(method(c))
	}
	if setup == nil {
		return nil, 0
	}
	setup.env = c
	r.configs[r.object(s.Lhs[0])] = setup
	if len(rest) == 0 || !r.isErrorTest(rest[0], s.Lhs[1]) {
		return r.noError(s, s), 1
	}
	r.mark(rest[0])
	return r.noError(s, rest[0]), 2
}

// noError returns the declaration of the error that a removed statement defines, if a statement after last needs it.
func (r *goRewriter) noError(s *ast.AssignStmt, last ast.Stmt) []string {
	o := r.defined(s.Lhs[1])
	for _, id := range r.uses(o) {
		if id.Pos() < last.End() {
			continue
		}
		if a, ok := r.parents[id].(*ast.AssignStmt); ok && a.Tok == token.DEFINE && r.parents[a] == r.parents[s] && slices.Contains(a.Lhs, ast.Expr(id)) {
			return nil // defines it
		}
		return []string{"var " + o.Name() + " error"}
	}
	return nil
}

// setGlobalTracer removes the statement if newTracer makes the tracer, because newTracer sets the global provider.
func setGlobalTracer(r *goRewriter, c *ast.CallExpr) ([]string, bool) {
	fn, tracer, made := r.function(c), ast.Unparen(c.Args[0]), 0
	if fn != nil {
		r.inspect(fn, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && r.unit.makesTracer(r.f, call, 0) {
				made++
			}
			return true
		})
	}
	if made != 1 || !r.unit.isTracer(r.f, fn, tracer, 0) {
		r.fail(c, "The tracer is not made by the configuration of the Jaeger client, or it is one of several.")
		return nil, false
	}
	switch o := r.object(tracer); {
	case o == nil:
		return []string{r.text(tracer)}, true
	case !r.unneeded[o] && r.onlyGlobal(o):
		return []string{"_ = " + r.text(tracer)}, true
	}
	return nil, true
}

// onlyGlobal reports whether a tracer variable is only assigned and passed to SetGlobalTracer.
func (r *goRewriter) onlyGlobal(o types.Object) bool {
	return !slices.ContainsFunc(r.uses(o), func(id *ast.Ident) bool {
		switch p := r.parents[id].(type) {
		case *ast.CallExpr:
			return r.symbol(p.Fun) != "ot.SetGlobalTracer"
		case *ast.AssignStmt:
			return !slices.Contains(p.Lhs, ast.Expr(id))
		}
		return true
	})
}

// makesTracer reports whether a result of a call is a tracer from NewTracer. The call is of NewTracer, or of a function
// of the module whose result is always such a tracer or nil.
func (u *goUnit) makesTracer(f *goFile, c *ast.CallExpr, result int) bool {
	var fn *types.Func
	switch e := ast.Unparen(c.Fun).(type) {
	case *ast.Ident:
		fn, _ = f.info.Uses[e].(*types.Func)
	case *ast.SelectorExpr:
		fn, _ = f.info.Uses[e.Sel].(*types.Func)
	}
	if fn == nil || fn.Pkg() == nil {
		return false
	}
	if goSources[fn.Pkg().Path()] == "jaegercfg" {
		return fn.Name() == "NewTracer" && result == 0
	}
	f, d := u.declaration(fn)
	key := fn.FullName() + " " + strconv.Itoa(result)
	if made, ok := u.makers[key]; ok || d == nil {
		return made
	}
	u.makers[key] = false // for recursive calls
	results := f.info.Defs[d.Name].(*types.Func).Signature().Results()
	if result >= results.Len() || !fromSource(results.At(result).Type()) {
		return false
	}
	made, other := false, false
	ast.Inspect(d.Body, func(n ast.Node) bool {
		s, ok := n.(*ast.ReturnStmt)
		if !ok {
			_, inner := n.(*ast.FuncLit)
			return !inner
		}
		switch len(s.Results) {
		case 0:
			ok = u.tracers(f, d, results.At(result))
		case results.Len():
			if id, is := s.Results[result].(*ast.Ident); is && id.Name == "nil" {
				return false
			}
			ok = u.isTracer(f, d, s.Results[result], 0)
		default:
			ok = u.isTracer(f, d, s.Results[0], result)
		}
		made, other = made || ok, other || !ok
		return false
	})
	u.makers[key] = made && !other
	return made && !other
}

// isTracer reports whether an expression in a function is a tracer from NewTracer: a local variable, or a result of a
// call.
func (u *goUnit) isTracer(f *goFile, fn ast.Node, e ast.Expr, result int) bool {
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		return u.tracers(f, fn, f.info.Uses[e])
	case *ast.CallExpr:
		return u.makesTracer(f, e, result)
	}
	return false
}

// tracers reports whether a local variable of a function is only assigned tracers from NewTracer.
func (u *goUnit) tracers(f *goFile, fn ast.Node, o types.Object) bool {
	if fn == nil || o == nil || o.Pos() < fn.Pos() || o.Pos() > fn.End() {
		return false
	}
	made, other := false, false
	for n := range ast.Preorder(fn) {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for i, e := range n.Lhs {
				id, ok := e.(*ast.Ident)
				if !ok || f.info.ObjectOf(id) != o {
					continue
				}
				value, result := n.Rhs[0], i
				if len(n.Rhs) == len(n.Lhs) {
					value, result = n.Rhs[i], 0
				}
				call, ok := ast.Unparen(value).(*ast.CallExpr)
				ok = ok && u.makesTracer(f, call, result)
				made, other = made || ok, other || !ok
			}
		case *ast.UnaryExpr:
			id, ok := ast.Unparen(n.X).(*ast.Ident)
			other = other || ok && n.Op == token.AND && f.info.Uses[id] == o
		case *ast.ValueSpec:
			for _, id := range n.Names {
				other = other || f.info.Defs[id] == o && len(n.Values) > 0
			}
		}
	}
	return made && !other
}

// declaration returns the declaration of a function of the module and its file, or nil.
func (u *goUnit) declaration(fn *types.Func) (*goFile, *ast.FuncDecl) {
	if u.functions == nil {
		u.functions = map[string]goFunction{}
		for _, f := range u.files {
			if f.info == nil || f.tree == nil {
				continue
			}
			for _, d := range f.tree.Decls {
				if d, ok := d.(*ast.FuncDecl); ok && d.Body != nil {
					if o, ok := f.info.Defs[d.Name].(*types.Func); ok {
						u.functions[o.FullName()] = goFunction{f, d}
					}
				}
			}
		}
	}
	found := u.functions[fn.FullName()]
	return found.file, found.decl
}

func ocStartSpan(r *goRewriter, c *ast.CallExpr) (string, bool) {
	return r.ocStart(c, r.text(c.Args[0]), 2), true
}

func ocStartRemote(r *goRewriter, c *ast.CallExpr) (string, bool) {
	if len(c.Args) < 3 {
		return "", false
	}
	parent := fmt.Sprintf("%s.ContextWithRemoteSpanContext(%s, %s)", r.use("trace"), r.text(c.Args[0]), r.text(c.Args[2]))
	return r.ocStart(c, parent, 3), true
}

// ocStart returns the call that starts a span. The options of c begin at an index.
func (r *goRewriter) ocStart(c *ast.CallExpr, parent string, options int) string {
	text := r.globalTracer() + ".Start(" + parent + ", " + r.text(c.Args[1])
	if len(c.Args) > options {
		text += ", " + r.list(c, options)
	}
	return text + ")"
}

func ocSpanKind(r *goRewriter, c *ast.CallExpr) (string, bool) {
	kind := map[string]string{"oc.SpanKindServer": "Server", "oc.SpanKindClient": "Client", "oc.SpanKindUnspecified": "Internal"}[r.symbol(c.Args[0])]
	r.mark(c.Args[0])
	return fmt.Sprintf("%s.WithSpanKind(%[1]s.SpanKind%s)", r.use("trace"), kind), kind != ""
}

func ocAttribute(of string) func(r *goRewriter, c *ast.CallExpr) (string, bool) {
	return func(r *goRewriter, c *ast.CallExpr) (string, bool) {
		return fmt.Sprintf("%s.%s(%s, %s)", r.use("attribute"), of, r.key(c.Args[0]), r.text(c.Args[1])), len(c.Args) == 2
	}
}

// ocAnnotate rewrites span.Annotate(attributes, message) and span.Annotatef(attributes, format, args...).
func ocAnnotate(r *goRewriter, c *ast.CallExpr) (string, bool) {
	if len(c.Args) < 2 {
		return "", false
	}
	attributes := ""
	switch a := ast.Unparen(c.Args[0]).(type) {
	case *ast.CompositeLit:
		list := lists.Map(a.Elts, func(e ast.Expr) string { return r.text(e) })
		r.mark(a.Type)
		attributes = strings.Join(list, ", ")
	case *ast.Ident:
		if a.Name != "nil" {
			attributes = a.Name + "..."
		}
	default:
		return "", false
	}
	message := r.text(c.Args[1])
	if strings.HasSuffix(r.symbol(c.Fun), "f") {
		message = r.use("fmt") + ".Sprintf(" + r.list(c, 1) + ")"
	}
	var list []string
	if attributes != "" {
		list = append(list, attributes)
	}
	return r.event(r.text(method(c)), message, list), true
}

// ocSetStatus rewrites span.SetStatus(trace.Status{Code: code, Message: message}) for constant codes.
func ocSetStatus(r *goRewriter, c *ast.CallExpr) (string, bool) {
	lit, ok := ast.Unparen(c.Args[0]).(*ast.CompositeLit)
	if !ok || lit.Type == nil {
		return "", false
	}
	code, message := constant.MakeInt64(0), `""`
	for _, e := range lit.Elts {
		kv, ok := e.(*ast.KeyValueExpr)
		if !ok {
			return "", false
		}
		r.mark(kv.Key)
		if r.code(kv.Key) == "Message" {
			message = r.text(kv.Value)
			continue
		}
		if code = r.info.Types[kv.Value].Value; code == nil {
			return r.fail(kv.Value, "The code of the status is not constant.")
		}
		r.mark(kv.Value)
	}
	r.mark(lit.Type)
	to := "Error"
	if constant.Sign(code) == 0 {
		to = "Ok"
		message = `""`
	}
	return fmt.Sprintf("%s.SetStatus(%s.%s, %s)", r.text(method(c)), r.use("codes"), to, message), true
}

// ocRegister removes the registration of an exporter that becomes a tracer provider.
func ocRegister(r *goRewriter, c *ast.CallExpr) ([]string, bool) {
	t := r.info.TypeOf(c.Args[0])
	if !simple(c.Args[0]) || !fromSource(t) || typeName(t) != "Exporter" {
		r.fail(c, "The exporter is in no table: the one of ocagent is.")
		return nil, false
	}
	return nil, true
}

// ocApplyConfig removes the configuration if a setup in the same function uses its sampler.
func ocApplyConfig(r *goRewriter, c *ast.CallExpr) ([]string, bool) {
	setup := false
	if fn := r.function(c); fn != nil {
		r.inspect(fn, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				setup = setup || r.symbol(call.Fun) == "ocagent.NewExporter"
			}
			return true
		})
	}
	if !setup {
		r.fail(c, "The exporter is made in another function; its setup needs the sampler.")
		return nil, false
	}
	if _, ok := r.ocSampler(c); !ok {
		r.fail(c, "The sampler is in no table: AlwaysSample, NeverSample and ProbabilitySampler are.")
		return nil, false
	}
	r.mark(c)
	return nil, true
}

func (r *goRewriter) ocSampler(c *ast.CallExpr) (string, bool) {
	lit, ok := ast.Unparen(c.Args[0]).(*ast.CompositeLit)
	if !ok || len(lit.Elts) != 1 {
		return "", false
	}
	kv, ok := lit.Elts[0].(*ast.KeyValueExpr)
	if !ok {
		return "", false
	}
	s, name := r.call(kv.Value)
	switch name {
	case "oc.AlwaysSample":
		return "AlwaysSample()", true
	case "oc.NeverSample":
		return "NeverSample()", true
	case "oc.ProbabilitySampler":
		return "TraceIDRatioBased(" + r.text(s.Args[0]) + ")", true
	}
	return "", false
}

// ocagentNew rewrites ocagent.NewExporter(options).
func ocagentNew(r *goRewriter, c *ast.CallExpr) (string, bool) {
	service := `""`
	for _, o := range c.Args {
		option, name := r.call(o)
		switch name {
		case "ocagent.WithServiceName":
			service = r.text(option.Args[0])
			r.markName(option.Fun)
		case "ocagent.WithInsecure", "ocagent.WithAddress":
			r.mark(option)
		default:
			return "", false
		}
	}
	root := "TraceIDRatioBased(1e-4)" // the default of OpenCensus
	if config := r.sampler[r.function(c)]; config != nil {
		s, ok := r.ocSampler(config)
		if !ok {
			return "", false
		}
		root = s
	}
	r.note(c, "The exporter reads its endpoint from OTEL_EXPORTER_OTLP_ENDPOINT. Set it where the address of the OpenCensus agent is configured.")
	sdk := r.use("sdktrace")
	return fmt.Sprintf("%s(%s, %s.WithSampler(%[3]s.ParentBased(%[3]s.%s)))", r.helper("newTracerProvider"), service, sdk, root), true
}

// ddStart rewrites tracer.Start(options).
func ddStart(r *goRewriter, c *ast.CallExpr) (string, bool) {
	if c.Ellipsis.IsValid() {
		return "", false
	}
	var attributes, options []string
	attribute := func(key, value string) {
		attributes = append(attributes, fmt.Sprintf("%s.String(%q, %s)", r.use("attribute"), key, value))
	}
	for _, o := range c.Args {
		option, name := r.call(o)
		if option == nil {
			return r.fail(o, "%s is in no table as an option of tracer.Start.", r.brief(o))
		}
		r.markName(option.Fun)
		switch name {
		case "dd.WithService", "dd.WithServiceName":
			attribute("service.name", r.text(option.Args[0]))
		case "dd.WithEnv":
			attribute("deployment.environment.name", r.text(option.Args[0]))
		case "dd.WithServiceVersion", "dd.WithUniversalVersion":
			attribute("service.version", r.text(option.Args[0]))
		case "dd.WithGlobalTag":
			attributes = append(attributes, r.attribute(option.Args[0], option.Args[1]))
		case "dd.WithAgentAddr", "dd.WithAgentURL":
			r.mark(option)
			r.note(o, "The exporter reads its endpoint from OTEL_EXPORTER_OTLP_ENDPOINT. Set it where the address of the Datadog agent is configured.")
		case "dd.WithAnalytics", "dd.WithDebugMode", "dd.WithLogStartup", "dd.WithRuntimeMetrics":
			r.mark(option)
			r.note(o, fmt.Sprintf("%s has no counterpart; it is removed.", r.brief(o)))
		case "dd.WithSamplerRate":
			options = append(options, r.ratio(option.Args[0]))
		case "dd.WithSamplingRules": // a single rule for all spans
			lit, ok := ast.Unparen(option.Args[0]).(*ast.CompositeLit)
			if !ok || len(lit.Elts) != 1 {
				return "", false
			}
			rule, of := r.call(lit.Elts[0])
			if of != "dd.RateRule" || len(rule.Args) != 1 {
				return "", false
			}
			r.mark(lit.Type)
			r.markName(rule.Fun)
			options = append(options, r.ratio(rule.Args[0]))
		case "dd.WithSampler":
			sampler, of := r.call(option.Args[0])
			switch of {
			case "dd.NewRateSampler":
				options = append(options, r.ratio(sampler.Args[0]))
			case "dd.NewAllSampler":
			default:
				return "", false
			}
			r.markName(sampler.Fun)
		default:
			return r.fail(o, "%s is in no table as an option of tracer.Start.", r.brief(o))
		}
	}
	list := "nil"
	if len(attributes) > 0 {
		list = "[]" + r.use("attribute") + ".KeyValue{" + strings.Join(attributes, ", ") + "}"
	}
	r.note(c, "Requests carry traceparent instead of x-datadog-trace-id. Set DD_TRACE_PROPAGATION_STYLE=tracecontext for peers that keep the Datadog tracer. Replace the DD_* variables by OTEL_* variables.")
	return r.helper("startTracing") + "(" + strings.Join(append([]string{list}, options...), ", ") + ")", true
}

// datadogService returns the service of the Datadog tracer, or "" unless the module sets exactly one constant service.
func (u *goUnit) datadogService() string {
	if u.service != nil {
		return *u.service
	}
	services := map[string]bool{}
	for _, f := range u.files {
		if f.info == nil || f.tree == nil {
			continue
		}
		for n := range ast.Preorder(f.tree) {
			c, ok := n.(*ast.CallExpr)
			if !ok {
				continue
			}
			s, ok := c.Fun.(*ast.SelectorExpr)
			if !ok {
				continue
			}
			if o := f.info.Uses[s.Sel]; o != nil && o.Pkg() != nil && goSources[o.Pkg().Path()] == "dd" && strings.HasPrefix(o.Name(), "WithService") && o.Name() != "WithServiceVersion" && len(c.Args) == 1 {
				value := ""
				if v := f.info.Types[c.Args[0]].Value; v != nil && v.Kind() == constant.String {
					value = constant.StringVal(v)
				}
				services[value] = true
			}
		}
	}
	u.service = new("")
	if len(services) == 1 {
		for s := range services {
			*u.service = s
		}
	}
	return *u.service
}

// ddID rewrites the id of a span context. A numeric trace id is the lower half of the OpenTelemetry id.
func ddID(r *goRewriter, c *ast.CallExpr) (string, bool) {
	var of string
	if call, name := r.call(method(c)); name == "dd.Span.Context" {
		r.markName(call.Fun)
		of = r.text(method(call)) + ".SpanContext()"
	} else {
		of = r.use("trace") + ".SpanContextFromContext(" + r.text(method(c)) + ")"
	}
	t, _ := r.info.TypeOf(c).(*types.Basic)
	switch {
	case strings.HasSuffix(r.symbol(c.Fun), ".SpanID"):
		return r.helper("spanNumber") + "(" + of + ".SpanID())", true
	case t != nil && t.Kind() == types.String:
		return of + ".TraceID().String()", true
	}
	return r.helper("traceNumber") + "(" + of + ".TraceID())", true
}

func (r *goRewriter) ratio(rate ast.Expr) string {
	return fmt.Sprintf("%s.WithSampler(%[1]s.ParentBased(%[1]s.TraceIDRatioBased(%s)))", r.use("sdktrace"), r.text(rate))
}

// ddCall returns the rewrite of a call of the Datadog tracer to a call of an added function.
func ddCall(helper string) func(*goRewriter, *ast.CallExpr) ([]string, bool) {
	return func(r *goRewriter, _ *ast.CallExpr) ([]string, bool) {
		return []string{r.helper(helper) + "()"}, r.startsHere()
	}
}

// startsHere reports whether the package of the file starts the Datadog tracer.
func (r *goRewriter) startsHere() bool {
	p := r.unit.packages[r.unit.importPath(directory(r.f.path))]
	if starts, ok := r.unit.starts[p]; ok {
		return starts
	}
	starts := false
	for _, f := range p.files {
		if f.info == nil {
			continue
		}
		for _, o := range f.info.Uses {
			starts = starts || o.Name() == "Start" && o.Pkg() != nil && goSources[o.Pkg().Path()] == "dd"
		}
		break // the files of a package share their types
	}
	r.unit.starts[p] = starts
	return starts
}

// ddSpanFromContext rewrites span, ok := tracer.SpanFromContext(ctx).
func ddSpanFromContext(r *goRewriter, s *ast.AssignStmt, c *ast.CallExpr, _ []ast.Stmt) ([]string, int) {
	if len(s.Lhs) != 2 || !simple(c.Args[0]) {
		return nil, 0
	}
	ctx := r.text(c.Args[0])
	trace := r.use("trace")
	if isBlank(s.Lhs[1]) {
		return []string{fmt.Sprintf("%s %s %s.SpanFromContext(%s)", r.text(s.Lhs[0]), s.Tok, trace, ctx)}, 1
	}
	return []string{fmt.Sprintf("%s, %s %s %s.SpanFromContext(%s), %[4]s.SpanContextFromContext(%[5]s).IsValid()", r.text(s.Lhs[0]), r.text(s.Lhs[1]), s.Tok, trace, ctx)}, 1
}

// ddFinish rewrites span.Finish(options).
func ddFinish(r *goRewriter, c *ast.CallExpr) ([]string, bool) {
	if c.Ellipsis.IsValid() || !simple(method(c)) {
		return nil, false
	}
	span := r.text(method(c))
	var lines []string
	end := ""
	for _, o := range c.Args {
		option, name := r.call(o)
		switch {
		case name == "dd.WithError" && (simple(option.Args[0]) || end == ""):
			lines = append(lines, r.recordError(span, option.Args[0])...)
		case name == "dd.FinishTime":
			end = r.use("trace") + ".WithTimestamp(" + r.text(option.Args[0]) + ")"
		case name == "dd.NoDebugStack":
		default:
			return nil, false
		}
		r.markName(option.Fun)
	}
	return append(lines, span+".End("+end+")"), true
}

// helper returns the name of a function that the migration adds to the package of the file.
func (r *goRewriter) helper(name string) string {
	dir := directory(r.f.path)
	if strings.HasSuffix(r.f.tree.Name.Name, "_test") && strings.HasSuffix(r.f.path, "_test.go") {
		r.fail(r.f.tree.Name, "An external test needs a function that the migration adds to packages only.")
		return name
	}
	if r.unit.helpers[dir] == nil {
		r.unit.helpers[dir] = map[string]bool{}
	}
	r.unit.helpers[dir][name] = true
	return name
}

//go:embed helpers/opentelemetry.go.txt
var goHelperParts string

// goHelper is one of the functions that a migration adds, with its imports and types.
type goHelper struct {
	name    string
	imports []string
	names   []string // declared names, which the package must not have
	source  string
}

var (
	goHelperImport = regexp.MustCompile(`(?m)^import (.+)\n`)
	goHelperName   = regexp.MustCompile(`(?m)^(?:func|type|var) (\w+)`)
)

// goHelpers returns the parts of goHelperParts in order.
func goHelpers() (helpers []goHelper) {
	group := func(match []string) string { return match[1] }
	_, parts, _ := strings.Cut(goHelperParts, "\n// part ")
	for part := range strings.SplitSeq(parts, "\n// part ") {
		var h goHelper
		h.name, h.source, _ = strings.Cut(part, "\n")
		h.imports = lists.Map(goHelperImport.FindAllStringSubmatch(h.source, -1), group)
		h.source = goHelperImport.ReplaceAllString(h.source, "")
		h.names = lists.Map(goHelperName.FindAllStringSubmatch(h.source, -1), group)
		helpers = append(helpers, h)
	}
	return helpers
}

// helperFiles returns a file for each package that needs added functions. It returns false if a file or a name exists.
func (u *goUnit) helperFiles() ([]patch.File, bool) {
	var out []patch.File
	for _, dir := range slices.Sorted(maps.Keys(u.helpers)) {
		p := u.packages[u.importPath(dir)]
		name := path.Join(dir, "opentelemetry.go")
		if p == nil || len(p.files) == 0 || slices.Contains(u.paths, name) {
			u.open(name, 0, "The migration adds this file, but it exists.")
			return nil, false
		}
		want := u.helpers[dir]
		want["startTracing"] = want["startTracing"] || want["stopTracing"] || want["flushTraces"] || want["newServiceTracer"]
		want["provider"] = want["newTracer"] || want["newTracerProvider"] || want["startTracing"]
		var std, other []string
		body := ""
		for _, h := range goHelpers() {
			if !want[h.name] {
				continue
			}
			for _, n := range h.names {
				if p.types != nil && p.types.Scope().Lookup(n) != nil {
					u.open(name, 0, "The migration adds the function %s, but the package has that name.", n)
					return nil, false
				}
			}
			for _, i := range h.imports {
				if strings.Contains(i, ".") {
					other = append(other, i)
				} else {
					std = append(std, i)
				}
			}
			body += h.source
		}
		body = strings.ReplaceAll(body, "$scope", strconv.Quote(u.importPath(dir)))
		source, err := format.Source([]byte("package " + p.files[0].tree.Name.Name + "\n\n" + importBlock(std, other) + "\n" + body))
		if err != nil {
			u.open(name, 0, "The migration cannot make this file.")
			return nil, false
		}
		out = append(out, patch.Create(name, source))
	}
	return out, true
}

// goMod removes the requirements of source libraries and adds requirements for the imported packages.
func (u *goUnit) goMod(file string, text []byte, used map[string]bool) {
	f, err := modfile.Parse(file, text, nil)
	if err != nil {
		u.open(file, 0, "go.mod has syntax errors: replace the requirements of the old libraries by those of OpenTelemetry.")
		return
	}
	var list []*modfile.Require
	direct := map[string]bool{}
	for _, r := range f.Require {
		if !r.Indirect && isGoSource(r.Mod.Path) && !u.keeps(r.Mod.Path) || r.Indirect && goVersions[r.Mod.Path] != "" {
			continue
		}
		direct[r.Mod.Path] = true
		list = append(list, r)
	}
	for _, name := range slices.Sorted(maps.Keys(goVersions)) {
		needed := false
		for p := range used {
			needed = needed || goModuleOf(p) == name
		}
		if needed && !direct[name] {
			list = append(list, &modfile.Require{Mod: module.Version{Path: name, Version: goVersions[name]}})
		}
	}
	f.SetRequireSeparateIndirect(list)
	f.Cleanup()
	after, err := f.Format()
	if err != nil {
		u.open(file, 0, "go.mod cannot be written.")
		return
	}
	u.change(file, text, after)
	command := "`go mod tidy`"
	if _, err := u.root.Lstat(filepath.FromSlash(path.Join(u.dir, "vendor", "modules.txt"))); err == nil {
		command += " and `go mod vendor`"
	}
	u.open(file, 0, "Run %s: go.sum and indirect requirements need the network.", command)
}

// keeps reports whether a file of the unit imports a package for metrics of a module.
func (u *goUnit) keeps(module string) bool {
	return slices.ContainsFunc(u.files, func(f *goFile) bool {
		return f.imported(func(p string) bool { return isGoMetrics(p) && strings.HasPrefix(p, module+"/") })
	})
}

// goModuleOf returns the module of goVersions that holds a package, or "".
func goModuleOf(p string) string {
	for {
		if goVersions[p] != "" {
			return p
		}
		at := strings.LastIndexByte(p, '/')
		if at < 0 {
			return ""
		}
		p = p[:at]
	}
}
