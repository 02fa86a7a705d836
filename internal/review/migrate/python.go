// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"bytes"
	"cmp"
	_ "embed"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"assay/internal/review/syntax"
)

func pythonTable() *scriptTable {
	return &scriptTable{
		languages: []syntax.Language{syntax.Python},
		manifests: []string{"pyproject.toml", "requirements.txt", "setup.cfg", "Pipfile"},
		libraries: []string{
			"opentracing", "jaeger_client", "ddtrace", "opencensus.trace", "opencensus.common.transports", "opencensus.ext.ocagent.trace_exporter",
			"opencensus.ext.jaeger.trace_exporter", "opencensus.ext.zipkin.trace_exporter", "opencensus.ext.azure.trace_exporter", "py_zipkin",
		},
		prefixes: []string{"opencensus", "aiozipkin", "pyramid_zipkin", "opentracing_instrumentation", "flask_opentracing", "django_opentracing", "grpc_opentracing", "basictracer"},
		methods:  slices.Concat(scriptMethods, pyMethods),
		kinds:    append(slices.Clone(scriptCalls), syntax.Assign, syntax.Operator),
		prepare:  censusPrepare,
		hoist:    pythonHoist,
		call:     pythonCall,
		imports:  pythonImports,
		manifest: pythonManifest,
	}
}

func pythonHoist(s *script, block *syntax.Node) {
	s.hoist(block)
	s.hoistScope(block)
	s.hoistSettings(block)
	s.dropStatus(block)
	if s.unit.census {
		s.censusHoist(block)
	}
}

// dropStatus finds span.error = 1 of ddtrace before or after span.set_traceback() or span.set_exc_info(), which set the
// status.
func (s *script) dropStatus(block *syntax.Node) {
	recorded := map[string]bool{}
	for _, n := range block.Children {
		if of, method := n.Called(); method == "set_traceback" || method == "set_exc_info" {
			recorded[s.f.Code(of)] = true
		}
	}
	for _, n := range block.Children {
		if of := s.setsError(n); of != nil && recorded[s.f.Code(of)] {
			s.mark(n)
			s.gone[n] = true
		}
	}
}

// setsError returns the span of span.error = 1, otherwise nil.
func (s *script) setsError(n *syntax.Node) *syntax.Node {
	if !s.unit.rooted || n.Kind != syntax.Assign || n.Text != "=" || len(n.Children) != 2 || n.Children[0].Kind != syntax.Member || n.Children[0].Text != "error" {
		return nil
	}
	of, value := n.Children[0].Children[0], n.Value()
	if s.kind(of) != spanValue || value.Text != "1" && (value.Kind != syntax.Bool || !strings.EqualFold(value.Text, "true")) {
		return nil
	}
	return of
}

// hoistScope finds scope = tracer.start_active_span(...) before a try statement whose finally clause only closes the
// scope.
func (s *script) hoistScope(block *syntax.Node) {
	for i, n := range block.Children[:max(0, len(block.Children)-1)] {
		try := block.Children[i+1]
		if n.Kind != syntax.Assign || n.Text != "=" || len(n.Children) != 2 || try.Kind != syntax.Try || len(try.Children) != 2 || try.Children[1].Kind != syntax.Finally {
			continue
		}
		receiver, method := n.Value().Called()
		end := try.Children[1].Body()
		if method != "start_active_span" || s.kind(receiver) != tracerValue || !s.alone(n) || len(end.Children) != 1 || s.commented(try.Children[1]) {
			continue
		}
		if of, method := end.Children[0].Called(); method != "close" || s.f.Code(of) != n.Children[0].Text || len(bytes.TrimSpace(s.f.Source[n.End:try.Start])) > 0 {
			continue
		}
		head, _, ok := bytes.Cut(s.f.Source[try.Start:], []byte{':'})
		if ok && string(bytes.TrimSpace(head)) == "try" {
			s.scopes[n], s.gone[try.Children[1]] = true, true
			s.before = append(s.before, edit{n.End, try.Start + len(head), ""})
		}
	}
}

// isCurrent reports whether the value of an expression or variable is the current span, which is never None in
// OpenTelemetry.
func (s *script) isCurrent(n *syntax.Node) bool {
	if d := s.f.Definition(n); n.Kind == syntax.Name && d != nil && d.Kind == syntax.Assign && len(d.Children) == 2 && !n.Within(d) {
		n = d.Value()
	}
	if _, method := n.Called(); method == "current_span" || method == "get_current_span" {
		return true
	}
	return n.Kind == syntax.Member && n.Text == "active_span" && s.kind(n.Children[0]) == tracerValue
}

// pyCurrent rewrites the current span where it is a condition.
func (s *script) pyCurrent(n *syntax.Node) (string, bool) {
	p := n
	for p.Parent != nil && p.Parent.Kind == syntax.Operator && slices.Contains([]string{"not", "and", "or"}, p.Parent.Text) {
		p = p.Parent
	}
	condition := p.Parent != nil && slices.Contains([]syntax.Kind{syntax.If, syntax.Conditional, syntax.Loop}, p.Parent.Kind) && p.Parent.Children[0] == p
	condition = condition || p != n && p.Text == "not"
	switch {
	case p == n && !condition, !s.isCurrent(n):
		return "", false
	case !condition:
		return s.fail(p, "%s is in no table: OpenTelemetry always has a current span, which may be invalid.", s.brief(p))
	}
	text := s.f.Code(n)
	if n.Kind != syntax.Name {
		s.mark(n)
		text = s.use("trace") + ".get_current_span()"
	}
	return text + ".get_span_context().is_valid", true
}

// pyComparison rewrites a comparison of the current span with None. Other spans may be None.
func (s *script) pyComparison(n *syntax.Node) (string, bool) {
	if n.Kind != syntax.Operator || len(n.Children) != 2 || n.Children[1].Kind != syntax.Null || s.kind(n.Children[0]) != spanValue || !s.isCurrent(n.Children[0]) {
		return "", false
	}
	valid := s.pySpan(n.Children[0]) + ".get_span_context().is_valid"
	switch n.Text {
	case "is", "==":
		return "not " + valid, true
	case "is not", "!=":
		return valid, true
	}
	return "", false
}

func (s *script) pySpanContext(n *syntax.Node) (string, bool) {
	if n.Kind == syntax.Member && n.Text == "context" && s.kind(n.Children[0]) == spanValue {
		n = n.Children[0]
	}
	set := func(n *syntax.Node) string {
		return s.use("trace") + ".set_span_in_context(" + s.pySpan(n) + ")"
	}
	switch s.kind(n) {
	case spanValue:
		text := set(n)
		if d := s.f.Definition(n); n.Kind == syntax.Name && d != nil && s.optional[d] && !s.unit.rooted {
			text += " if " + n.Text + " else None" // the current span is the parent
		}
		return text, true
	case contextValue:
		return s.text(n), true
	}
	if of := s.contextOf(n); of != nil && s.kind(of) == unknownValue {
		return set(of), true
	}
	return s.blockAt(n, "It is not known whether %s is a span or a context.", s.brief(n))
}

func (s *script) pySpan(n *syntax.Node) string {
	if text, ok := s.pyMember(n); ok {
		return text
	}
	return s.text(n)
}

// pyMember rewrites scope.span, span.context and opentracing.tracer.
func (s *script) pyMember(n *syntax.Node) (string, bool) {
	if n.Kind == syntax.Name {
		if i, ok := s.f.Imported(n.Text); ok && i.Path == "opentracing" && i.Member == "tracer" {
			s.done[n] = true
			return s.pyTracer(), true
		}
		return "", false
	}
	if n.Kind != syntax.Member || n.Parent != nil && n.Parent.Kind == syntax.Assign && n.Parent.Children[0] == n {
		return "", false
	}
	of := n.Children[0]
	switch k := s.kind(of); {
	case n.Text == "span" && k == scopeValue && of.Kind == syntax.Name:
		return s.f.Code(of), true
	case n.Text == "context" && k == spanValue:
		return s.use("trace") + ".set_span_in_context(" + s.pySpan(of) + ")", true
	case n.Text == "tracer" && k == libraryValue && of.Kind == syntax.Name && (of.Text == "opentracing" || of.Text == "ddtrace"):
		s.mark(n)
		return s.pyTracer(), true
	case s.unit.rooted && k == spanValue && (n.Text == "trace_id" || n.Text == "span_id"):
		return s.pySpan(of) + ".get_span_context()." + n.Text, true
	case s.unit.rooted && k == spanValue && slices.Contains(ddFields, n.Text):
		return s.fail(n, "%s is in no table.", s.brief(n))
	case k == tracerValue && n.Text == "active_span":
		s.mark(n)
		return s.use("trace") + ".get_current_span()", true
	case k == tracerValue && n.Text == "scope_manager":
		return s.fail(n, "%s is in no table.", s.brief(n))
	}
	return "", false
}

// ddFields are the fields of a ddtrace span, other than its ids.
var ddFields = []string{"name", "resource", "service", "span_type", "error", "parent_id", "start", "start_ns", "duration", "duration_ns"}

// pyAssign rewrites assignments to fields of spans and to the configuration of ddtrace.
func (s *script) pyAssign(n *syntax.Node) (string, bool) {
	target := n.Children[0]
	if s.scopes[n] {
		return "with " + s.text(n.Value()) + " as " + target.Text, true
	}
	if !s.unit.rooted || n.Text != "=" || len(n.Children) != 2 || target.Kind != syntax.Member {
		return "", false
	}
	of, value := target.Children[0], n.Value()
	if i, ok := s.f.Imported(of.Text); ok && of.Kind == syntax.Name && s.isSource(i.Path) && i.Member == "config" || s.f.Code(of) == "ddtrace.config" {
		switch target.Text {
		case "service":
			if !s.oneService(value) {
				return s.fail(n, anotherService)
			}
			s.note(n, "The setting config.service is removed. Set OTEL_SERVICE_NAME to it.")
		case "env", "version":
			key := map[string]string{"env": "deployment.environment.name", "version": "service.version"}[target.Text]
			s.note(n, "The setting config."+target.Text+" is removed. Set "+key+" in OTEL_RESOURCE_ATTRIBUTES to it.")
		default:
			return "", false
		}
		s.mark(n)
		return "", true
	}
	if s.kind(of) != spanValue || !slices.Contains(ddFields, target.Text) {
		return "", false
	}
	switch {
	case s.setsError(n) != nil:
		return s.pySpan(of) + ".set_status(" + s.use("trace") + ".StatusCode.ERROR)", true
	case target.Text == "resource":
		return s.pySpan(of) + ".update_name(" + s.text(value) + ")", true
	}
	return s.fail(n, "%s is in no table.", s.brief(n))
}

func (s *script) pyTracer() string { return s.use("trace") + ".get_tracer(__name__)" }

func pythonCall(s *script, c *syntax.Node) (string, bool) {
	if s.unit.zipkin {
		covered := s.done[c]
		if text, ok := s.pyZipkin(c); ok || s.done[c] != covered {
			return text, ok
		}
	}
	if !s.unit.census {
		if text, ok := s.pyCurrent(c); ok {
			return text, true
		}
	}
	switch {
	case c.Kind == syntax.Operator:
		return s.pyComparison(c)
	case s.unit.census:
		return s.census(c)
	case c.Kind == syntax.Assign:
		return s.pyAssign(c)
	case c.Kind != syntax.Call:
		return s.pyMember(c)
	}
	if f := s.libraryFunction(c); (f == "patch_all" || f == "patch") && c.Parent.Kind == syntax.Block {
		s.note(c, "The call of "+f+" is removed. "+ddtraceNote)
		s.mark(c)
		s.ddtrace()
		return "", true
	}
	receiver, name := c.Method()
	unknown := func() (string, bool) { return s.failCall(c, "%s is in no table.", s.brief(c.Callee())) }
	if receiver == nil {
		i, ok := s.f.Imported(name)
		if !ok || !s.isSource(i.Path) {
			return "", false
		}
		switch i.Member {
		case "Config":
			return s.pyConfig(c)
		case "global_tracer":
			s.mark(c)
			return s.pyTracer(), true
		case "set_global_tracer":
			s.mark(c.Callee())
			return "", c.Parent.Kind == syntax.Block
		}
		return unknown()
	}
	code := func() string {
		if text, ok := s.pyMember(receiver); ok {
			return text
		}
		return s.receiverText(c)
	}
	statement := c.Parent != nil && c.Parent.Kind == syntax.Block
	args := c.Args()
	switch k := s.kind(receiver); {
	case k == libraryValue && receiver.Kind == syntax.Name:
		switch name {
		case "global_tracer":
			s.mark(c)
			return s.pyTracer(), true
		case "set_global_tracer":
			if statement {
				s.mark(c.Callee())
				return "", true
			}
		case "Config":
			return s.pyConfig(c)
		}
		return unknown()
	case k == unknownValue && (name == "set_tag" || name == "log_kv" || name == "start_active_span" || name == "set_operation_name"):
		return s.failCall(c, "%s may be a method of a span or tracer: what it is called on is not known.", s.brief(c.Callee()))
	case k == unknownValue && name == "finish" && s.ofUnit(receiver):
		return s.failCall(c, "%s may be a method of a span: what it is called on is not known.", s.brief(c.Callee()))
	case k == tracerValue:
		switch name {
		case "start_active_span", "start_span", "trace", "wrap":
			s.markTracer(receiver)
			return s.pyStart(c, code(), name)
		case "current_span":
			s.mark(c)
			return s.use("trace") + ".get_current_span()", true
		case "current_root_span":
			return s.failCall(c, "%s is in no table: OpenTelemetry does not keep the root span of a trace.", s.brief(c.Callee()))
		case "inject", "extract":
			return s.pyPropagate(c, name)
		case "configure", "set_tags", "flush", "shutdown", "get_call_context":
			return unknown()
		}
	case k == spanValue:
		switch name {
		case "finish":
			if len(args) > 0 {
				return unknown()
			}
			return code() + ".end()", true
		case "set_operation_name":
			return code() + ".update_name(" + s.list(args) + ")", true
		case "set_tag", "set_tag_str", "set_metric":
			if len(args) != 2 || args[0].Kind == syntax.Argument || args[1].Kind == syntax.Argument {
				return s.failCall(c, "%s has other arguments than a key and a value.", s.brief(c.Callee()))
			}
			return s.pyTag(c, code(), args[0], args[1], statement)
		case "set_tags":
			if len(args) != 1 || args[0].Kind != syntax.Object {
				return s.failCall(c, "The tags of set_tags are no dictionary literal.")
			}
			attributes, ok := s.pyAttributes(args[0], nil)
			return code() + ".set_attributes(" + attributes + ")", ok
		case "set_traceback", "set_exc_info":
			return s.pyException(c, code(), name)
		case "log_kv":
			return s.pyLog(c, code(), args)
		case "set_baggage_item", "get_baggage_item":
			return s.pyBaggage(c, receiver, name)
		case "log_event", "link_span":
			return unknown()
		}
	case k == scopeValue && name == "close":
		return s.failCall(c, "A scope that is closed outside of a with statement is in no table.")
	}
	return "", false
}

// pyException rewrites span.set_traceback() and span.set_exc_info(*sys.exc_info()) of ddtrace in an except clause.
func (s *script) pyException(c *syntax.Node, span, method string) (string, bool) {
	catch := c.Enclosing(syntax.Catch, syntax.Func)
	args := c.Args()
	switch {
	case catch == nil || catch.Kind != syntax.Catch || !s.ownLines(c):
		return s.failCall(c, "%s outside of an except clause is in no table.", method)
	case method == "set_traceback" && len(args) > 0, method == "set_exc_info" && (len(args) != 1 || s.f.Code(args[0]) != "*sys.exc_info()"):
		return s.failCall(c, "The arguments of %s are in no table.", method)
	}
	exception := "sys.exc_info()[1]"
	if p := catch.Children[0]; p.Kind == syntax.Param {
		exception = p.Text
	} else if i, ok := s.f.Imported("sys"); !ok && s.taken["sys"] || ok && (i.Path != "sys" || i.Node.Enclosing(syntax.Func) != nil) {
		return s.failCall(c, "The exception of %s has no name.", method)
	} else if !ok {
		s.sys = true
	}
	return span + ".record_exception(" + exception + ")\n" + s.indent(c.Start) + span + ".set_status(" + s.use("trace") + ".StatusCode.ERROR, str(" + exception + "))", true
}

// pyStart rewrites tracer.start_active_span, tracer.start_span, tracer.trace and @tracer.wrap.
func (s *script) pyStart(c *syntax.Node, tracer, method string) (string, bool) {
	with := c.Parent != nil && (c.Parent.Kind == syntax.With || c.Parent.Kind == syntax.Assign && c.Parent.Text == "as" || s.scopes[c.Parent])
	to := "start_as_current_span"
	name, parent := "", ""
	positions := []string{"operation_name"}
	switch method {
	case "start_span":
		to = "start_span"
	case "wrap":
		if c.Parent == nil || c.Parent.Kind != syntax.Decorator || c.Parent.Parent.Kind != syntax.Func {
			return s.failCall(c, "wrap outside of the decorators of a function is in no table.")
		}
		if f := c.Parent.Parent; s.yields(f) {
			return s.failCall(c, "wrap of a generator is in no table.")
		}
		name = "__name__ + " + s.quote("."+c.Parent.Parent.Text)
	default:
		if !with {
			return s.fail(c, "%s outside of a with statement is in no table.", method)
		}
	}
	if method == "trace" || method == "wrap" {
		positions = []string{"name", "service", "resource", "span_type"}
	}
	var start jsStarting
	if kind := s.hoists[c]; kind != "" {
		start.kind = spanKinds[kind]
	}
	attributes, more := "", ""
	if s.scopes[c.Parent] { // close does not record exceptions
		more = ", record_exception=False, set_status_on_exception=False"
	}
	for i, a := range c.Args() {
		var key string
		value := a
		switch {
		case a.Kind == syntax.Argument:
			key, value = a.Text, a.Children[0]
		case i < len(positions):
			key = positions[i]
		default:
			return s.fail(a, "%s is no option of a span that a table knows.", s.brief(a))
		}
		if value.Kind == syntax.Null && s.unit.rooted { // the default
			continue
		}
		switch key {
		case "operation_name", "name":
			name = s.text(value)
		case "child_of":
			text, ok := s.pySpanContext(value)
			if !ok {
				return "", false
			}
			parent = text
		case "references":
			return s.fail(a, "References are in no table.")
		case "tags":
			if value = s.object(value); value.Kind != syntax.Object {
				return s.fail(a, "The tags of the span are no dictionary literal.")
			}
			text, ok := s.pyAttributes(value, &start)
			if !ok {
				return "", false
			}
			attributes = text
		case "finish_on_close":
			if value.Kind == syntax.Bool && strings.EqualFold(value.Text, "true") {
				continue
			}
			more += ", end_on_exit=" + s.text(value)
		case "resource":
			start.name = s.text(value)
		case "service":
			if !s.ddService(value) {
				return s.fail(a, anotherService)
			}
		case "span_type":
			kind, ok := s.tagOf(value)
			if !ok {
				return s.fail(a, "The type of the span is not known.")
			}
			start.setType(kind)
			s.mark(value)
		default:
			return s.fail(a, "The option %s of a span is in no table.", key)
		}
	}
	if name == "" {
		return s.fail(c, "The name of the span is not known.")
	}
	var operation []string
	if start.name != "" {
		operation = append(operation, s.quote("operation.name")+": "+name)
		name = start.name
	}
	if start.other != "" {
		operation = append(operation, s.quote("span.type")+": "+s.quote(start.other))
	}
	if len(operation) > 0 {
		if rest, ok := strings.CutPrefix(attributes, "{"); ok && rest != "}" {
			attributes = "{" + strings.Join(operation, ", ") + ", " + rest
		} else {
			attributes = "{" + strings.Join(operation, ", ") + "}"
		}
	}
	if parent == "" && s.unit.rooted && method == "start_span" {
		parent = s.use("context") + ".Context()"
	}
	out := name
	if parent != "" {
		out += ", context=" + parent
	}
	if kind := cmp.Or(start.kind, start.typed); kind != "" {
		out += ", kind=" + s.use("trace") + ".SpanKind." + strings.ToUpper(kind)
	}
	if attributes != "" && attributes != "{}" {
		out += ", attributes=" + attributes
	}
	return tracer + "." + to + "(" + out + more + ")", true
}

// yields reports whether a function is a generator.
func (s *script) yields(f *syntax.Node) bool {
	return f.Has(func(n *syntax.Node) bool {
		return n.Kind == syntax.Await && n.Text == "yield" && n.Enclosing(syntax.Func) == f
	})
}

// pyAttributes returns the attributes for a dictionary of tags.
func (s *script) pyAttributes(o *syntax.Node, start *jsStarting) (string, bool) {
	var out []string
	for _, p := range o.Children {
		if p.Kind != syntax.Pair {
			return s.blockAt(p, "%s has tags that are not known.", s.brief(p))
		}
		k, known := s.tagOf(p.Children[0])
		v, ok := s.tagOf(p.Value())
		switch {
		case known && k == "span.kind" && start != nil && ok && spanKinds[v] != "":
			start.kind = spanKinds[v]
			s.mark(p)
			continue
		case known && (k == "error" || k == "span.kind" || k == "resource.name" || leftTags[k] != ""):
			return s.blockAt(p, "The tag %s is in no table here.", k)
		}
		out = append(out, s.key(p.Children[0])+": "+s.text(p.Value()))
	}
	return "{" + strings.Join(out, ", ") + "}", true
}

// pyTag rewrites span.set_tag(key, value).
func (s *script) pyTag(c *syntax.Node, span string, key, value *syntax.Node, statement bool) (string, bool) {
	k, known := s.tagOf(key)
	switch {
	case known && leftTags[k] != "":
		return s.fail(c, "The tag %s has no counterpart: %s.", k, leftTags[k])
	case known && k == "resource.name":
		s.mark(key)
		return span + ".update_name(" + s.text(value) + ")", true
	case known && k == "error":
		s.mark(key)
		if value.Kind == syntax.Bool && strings.EqualFold(value.Text, "true") {
			return span + ".set_status(" + s.use("trace") + ".StatusCode.ERROR)", true
		}
		return s.fail(c, "The tag error has the value %s, which no table knows.", s.brief(value))
	case !statement:
		return s.fail(c, "set_tag is part of an expression here: no table knows that form.")
	case known && k == "span.kind":
		s.note(c, lateKind)
		if kind, ok := s.tagOf(value); ok && value.Kind != syntax.String {
			s.mark(value)
			return span + ".set_attribute(" + s.key(key) + ", " + s.quote(kind) + ")", true
		}
	}
	return span + ".set_attribute(" + s.key(key) + ", " + s.text(value) + ")", true
}

// pyLog rewrites span.log_kv({...}).
func (s *script) pyLog(c *syntax.Node, span string, args []*syntax.Node) (string, bool) {
	if len(args) != 1 || args[0].Kind != syntax.Object {
		return s.blockAt(c, "The fields of log_kv are no dictionary literal.")
	}
	event, exception, attributes, ok := s.fields(args[0])
	if exception != "" {
		return span + ".record_exception(" + exception + ")", ok
	}
	if attributes != "" {
		event += ", {" + attributes + "}"
	}
	return span + ".add_event(" + event + ")", ok
}

// pyPropagate rewrites tracer.inject(context, format, carrier) and tracer.extract(format, carrier).
func (s *script) pyPropagate(c *syntax.Node, name string) (string, bool) {
	names := []string{"span_context", "format", "carrier"}
	if name == "extract" {
		names = names[1:]
	}
	values := pyArgs(c, names...)
	format, carrier, from := values["format"], values["carrier"], values["span_context"]
	if format == nil || carrier == nil || len(values) != len(names) || !s.textFormat(format) {
		return s.failCall(c, "The arguments of %s are in no table.", name)
	}
	s.mark(c.Callee()) // with the tracer, as the propagators are global
	if name == "extract" {
		// dict(headers) has the names as sent, but propagators look for lower case. The headers themselves ignore case.
		if carrier.Kind == syntax.Call && carrier.Callee().Text == "dict" && len(carrier.Args()) == 1 {
			if copied := carrier.Arg(0); copied != nil && copied.Kind == syntax.Member && copied.Text == "headers" {
				carrier = copied
			}
		}
		return s.use("propagate") + ".extract(" + s.text(carrier) + ")", true
	}
	context, ok := s.pySpanContext(from)
	return s.use("propagate") + ".inject(" + s.text(carrier) + ", context=" + context + ")", ok
}

// pyConfig keeps Config(...): the added module has this class.
func (s *script) pyConfig(c *syntax.Node) (string, bool) {
	s.setup, s.config = true, "Config"
	s.mark(c.Callee())
	s.note(c, "The exporter reads its endpoint from OTEL_EXPORTER_OTLP_ENDPOINT. Set it where the address of the Jaeger agent is configured. "+propagationNote)
	if c.Callee().Kind == syntax.Name {
		return "", false // only its import changes
	}
	return "Config(" + s.list(c.Args()) + ")", true
}

// pyImported matches the names that a file imports from modules.
var pyImported = regexp.MustCompile(`(?m)^[ \t]*from[ \t]+\S+[ \t]+import[ \t]+(\([^()]*\)|[^\n(]*)`)

var pyImport = regexp.MustCompile(strings.ReplaceAll(`(?m)^(?:from LIBRARY(?:\.[\w.]+)? import (?:\([^()]*\)|[^\n(]*)|import LIBRARY(?:\.[\w.]+)?)[ \t]*(?:#[^\n]*)?$`, "LIBRARY", `(?:opentracing|jaeger_client|ddtrace|opencensus|py_zipkin)`))

// pythonImports replaces the imports of source libraries.
func pythonImports(s *script) ([]edit, bool) {
	source := s.f.Source
	places := pyImport.FindAllIndex(source, -1)
	tracer := ""
	inPlace := func(at int) bool {
		return slices.ContainsFunc(places, func(p []int) bool { return p[0] <= at && at < p[1] })
	}
	for _, i := range s.f.Imports {
		if i.Path == "opentelemetry.shim.opentracing_shim" && i.Node != nil {
			s.note(i.Node, "Remove the OpenTracing shim: nothing of OpenTracing uses its tracer any longer.")
		}
		if !s.isSource(i.Path) || i.Node == nil {
			continue
		}
		if !inPlace(i.Node.Start) || i.Member == "*" {
			s.blockAt(i.Node, "The import of %s has a form that no table knows.", i.Path)
			return nil, false
		}
		switch {
		case isDatadog(i):
			if s.ddtrace() {
				s.note(i.Node, ddtraceNote)
			}
			if s.tracerStays(i.Name, inPlace) || s.unit.imported[i.Name] {
				tracer = i.Name
			}
		case i.Path == "ddtrace.auto" && i.Member == "":
			s.ddtrace()
			s.note(i.Node, "The import of ddtrace.auto is removed. "+ddtraceNote)
		case i.Path == "ddtrace" && slices.Contains([]string{"", "Span", "config", "patch", "patch_all"}, i.Member), i.Path == "ddtrace.ext":
		case strings.HasPrefix(i.Path, "ddtrace"):
			s.blockAt(i.Node, "%s is in no table.", strings.TrimSuffix(i.Path+"."+i.Member, "."))
			return nil, false
		}
	}
	if !s.pyTypes() || !s.left() || s.unit.blocked {
		return nil, false
	}
	if tracer != "" {
		tracer += " = " + s.pyTracer()
	}
	var lines []string
	if s.sys {
		lines = append(lines, "import sys")
	}
	if names := imported(s.used); len(names) > 0 {
		s.unit.packages["opentelemetry-api"] = true
		lines = append(lines, "from opentelemetry import "+strings.Join(names, ", "))
	}
	if len(s.types) > 0 {
		lines = append(lines, "from opentelemetry.trace import "+strings.Join(imported(s.types), ", "))
		s.unit.packages["opentelemetry-api"] = true
	}
	if s.setup {
		dir := path.Dir(s.f.Path)
		from := "opentelemetry_setup"
		if slices.Contains(s.unit.paths, path.Join(dir, "__init__.py")) {
			from = ".opentelemetry_setup"
		}
		lines = append(lines, "from "+from+" import "+imported(map[string]string{s.config: "Config"})[0])
		s.unit.created[path.Join(dir, "opentelemetry_setup.py")] = []byte(pythonSetup)
		for _, p := range []string{"opentelemetry-api", "opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http"} {
			s.unit.packages[p] = true
		}
	}
	edits := replaceLines(source, places, lines)
	if len(places) == 0 && len(lines) > 0 {
		s.blockAt(nil, "The file uses spans without an import of the library: its imports are not known.")
		return nil, false
	}
	if tracer != "" {
		at := s.afterImports(places)
		edits = append(edits, edit{at, at, "\n\n" + tracer})
	}
	return edits, true
}

const ddtraceNote = "Start the process with opentelemetry-instrument instead of ddtrace-run, install the instrumentation of its libraries with `opentelemetry-bootstrap -a install`, and replace the DD_* variables by OTEL_* variables."

// ddtrace adds the packages of opentelemetry-instrument to the unit. It reports whether they are new.
func (s *script) ddtrace() bool {
	added := !s.unit.packages["opentelemetry-distro"]
	for _, p := range []string{"opentelemetry-distro", "opentelemetry-exporter-otlp"} {
		s.unit.packages[p] = true
	}
	return added
}

// imported returns names for an import statement, sorted by their names in the file.
func imported(names map[string]string) []string {
	var out []string
	for _, local := range slices.Sorted(maps.Keys(names)) {
		name := names[local]
		if local != name {
			name += " as " + local
		}
		out = append(out, name)
	}
	return out
}

// pyTypes keeps the types of spans and tracers in annotations, which have no nodes. For other types it blocks the unit
// and returns false.
func (s *script) pyTypes() bool {
	words := map[string]bool{}
	for n := range s.f.Root.All() {
		for _, word := range strings.FieldsFunc(n.Type, func(r rune) bool { return r < 0x80 && !isWord(byte(r)) }) {
			words[word] = true
		}
	}
	for _, i := range s.f.Imports {
		if i.Name == "" || !s.isSource(i.Path) || !words[i.Name] {
			continue
		}
		if i.Member != "Span" && i.Member != "Tracer" {
			s.blockAt(i.Node, "%s is in no table as a type.", i.Name)
			return false
		}
		s.types[i.Name] = i.Member
	}
	return true
}

// pythonSetup is the module that sets up the SDK.
//
//go:embed helpers/opentelemetry_setup.py
var pythonSetup string

// pythonManifest replaces the requirements of the manifests of a project.
func pythonManifest(u *scriptUnit) {
	if u.packages["opentelemetry-distro"] {
		u.commands("ddtrace")
	}
	named := false
	for _, name := range u.requirementFiles() {
		list, source := u.dependencies(name)
		for _, d := range list {
			if d.Name == "opentelemetry-opentracing-shim" {
				named = true
				u.open(name, bytes.Count(source[:d.Start], []byte{'\n'})+1, "Remove %s with the code that uses it: it depends on opentracing.", d.Name)
			}
		}
		old, missing := u.replacement(list)
		if len(old) == 0 {
			continue
		}
		named = true
		if !strings.HasSuffix(name, ".txt") {
			u.open(name, 0, "Replace the dependencies of the old libraries by %s.", strings.Join(slices.Sorted(maps.Keys(u.packages)), ", "))
			continue
		}
		var places [][]int
		for _, d := range old {
			start := lineStart(source, d.Start)
			line, _, _ := bytes.Cut(source[start:], []byte{'\n'})
			places = append(places, []int{start, start + len(line)})
		}
		for i, p := range missing {
			missing[i] = p + pypiVersions[p]
		}
		edits := replaceLines(source, places, missing)
		sortEdits(edits)
		u.change(name, source, []byte(replace(source, 0, len(source), edits)))
	}
	named = u.requirementDirectory() || named
	name := path.Join(u.dir, "requirements.txt")
	if files := u.requirementFiles(); !slices.Contains(files, name) && len(files) > 0 {
		name = files[0]
	}
	if !named && len(u.requirementFiles()) > 0 {
		u.open(name, 0, "Remove the dependencies of the old libraries: the requirements name none in a form that is read.")
	}
	if len(u.packages) > 0 {
		u.open(name, 0, "Install the packages of OpenTelemetry (%s) and update the lock file, if there is one.", strings.Join(slices.Sorted(maps.Keys(u.packages)), ", "))
	}
}

var pyRequirement = regexp.MustCompile(`(?m)^[ \t]*[\w.-]+`)

// requirementDirectory adds a step for each old library in the files of the directory requirements, which reviews do
// not list. It reports whether there are any.
func (u *scriptUnit) requirementDirectory() (named bool) {
	files, err := fs.ReadDir(u.root.FS(), path.Join(cmp.Or(u.dir, "."), "requirements"))
	if err != nil {
		return false
	}
	for _, f := range files {
		name := path.Join(u.dir, "requirements", f.Name())
		source, err := u.read(name)
		if err != nil || path.Ext(name) != ".txt" && path.Ext(name) != ".in" {
			continue
		}
		for _, m := range pyRequirement.FindAllIndex(source, -1) {
			if oldPackage(strings.ToLower(strings.ReplaceAll(strings.TrimSpace(string(source[m[0]:m[1]])), "_", "-"))) {
				u.open(name, bytes.Count(source[:m[0]], []byte{'\n'})+1, "Replace the dependency of the old library by %s.", strings.Join(slices.Sorted(maps.Keys(u.packages)), ", "))
				named = true
			}
		}
	}
	return named
}
