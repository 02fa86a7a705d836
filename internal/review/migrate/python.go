// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"bytes"
	_ "embed"
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
	s.hoistSettings(block)
	if s.unit.census {
		s.censusHoist(block)
	}
}

// pyComparison rewrites a comparison of a span with None.
func (s *script) pyComparison(n *syntax.Node) (string, bool) {
	if n.Kind != syntax.Operator || len(n.Children) != 2 || n.Children[1].Kind != syntax.Null || s.kind(n.Children[0]) != spanValue {
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
	switch s.kind(n) {
	case spanValue:
		return s.use("trace") + ".set_span_in_context(" + s.pySpan(n) + ")", true
	case contextValue:
		return s.text(n), true
	}
	s.blockAt(n, "It is not known whether %s is a span or a context.", s.brief(n))
	return "", false
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
	case n.Text == "tracer" && k == libraryValue && of.Kind == syntax.Name && of.Text == "opentracing":
		s.mark(n)
		return s.pyTracer(), true
	case k == tracerValue && (n.Text == "active_span" || n.Text == "scope_manager"):
		s.blockAt(n, "%s is in no table: OpenTelemetry always has a current span, which may be invalid.", s.brief(n))
	}
	return "", false
}

func (s *script) pyTracer() string { return s.use("trace") + ".get_tracer(__name__)" }

func pythonCall(s *script, c *syntax.Node) (string, bool) {
	if s.unit.zipkin {
		if text, ok, known := s.pyZipkin(c); known {
			return text, ok
		}
	}
	switch {
	case c.Kind == syntax.Operator:
		return s.pyComparison(c)
	case s.unit.census:
		return s.census(c)
	case c.Kind != syntax.Call:
		return s.pyMember(c)
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
	case k == tracerValue:
		switch name {
		case "start_active_span", "start_span", "trace":
			return s.pyStart(c, code(), name)
		case "wrap":
			if len(args) == 1 && args[0].Kind != syntax.Argument && c.Parent != nil && c.Parent.Kind == syntax.Decorator {
				return code() + ".start_as_current_span(" + s.text(args[0]) + ")", true
			}
			return unknown()
		case "current_span", "current_root_span":
			if name == "current_span" && len(args) == 0 {
				s.mark(c)
				return s.use("trace") + ".get_current_span()", true
			}
			return unknown()
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
		case "set_tag", "set_tag_str":
			if len(args) != 2 || args[0].Kind == syntax.Argument || args[1].Kind == syntax.Argument {
				return unknown()
			}
			return s.pyTag(c, code(), args[0], args[1], statement)
		case "log_kv":
			return s.pyLog(c, code(), args)
		case "set_baggage_item", "get_baggage_item", "set_tags", "set_metric", "set_exc_info", "set_traceback", "log_event", "link_span":
			return unknown()
		}
	case k == scopeValue && name == "close":
		return s.failCall(c, "A scope that is closed outside of a with statement is in no table.")
	}
	return "", false
}

// pyStart rewrites tracer.start_active_span, tracer.start_span and tracer.trace.
func (s *script) pyStart(c *syntax.Node, tracer, method string) (string, bool) {
	with := c.Parent != nil && (c.Parent.Kind == syntax.With || c.Parent.Kind == syntax.Assign && c.Parent.Text == "as")
	to := "start_span"
	if method != "start_span" {
		if !with {
			return s.fail(c, "%s outside of a with statement is in no table.", method)
		}
		to = "start_as_current_span"
	}
	name, parent := "", ""
	var start jsStarting
	if kind := s.hoists[c]; kind != "" {
		start.kind = spanKinds[kind]
	}
	attributes, more := "", ""
	for i, a := range c.Args() {
		var key string
		value := a
		switch {
		case a.Kind == syntax.Argument:
			key, value = a.Text, a.Children[0]
		case i == 0:
			key = "operation_name"
		default:
			return s.fail(a, "%s is no option of a span that a table knows.", s.brief(a))
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
			if value.Kind != syntax.Object {
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
		case "span_type":
			kind, ok := s.tagOf(value)
			if !ok || datadogTypes[kind] == "" {
				return s.fail(a, "The type of the span is in no table.")
			}
			if start.kind == "" {
				start.kind = datadogTypes[kind]
			}
		default:
			return s.fail(a, "The option %s of a span is in no table.", key)
		}
	}
	if name == "" {
		return s.fail(c, "The name of the span is not known.")
	}
	if start.name != "" {
		operation := s.quote("operation.name") + ": " + name
		if rest, ok := strings.CutPrefix(attributes, "{"); ok && rest != "}" {
			attributes = "{" + operation + ", " + rest
		} else {
			attributes = "{" + operation + "}"
		}
		name = start.name
	}
	out := name
	if parent != "" {
		out += ", context=" + parent
	}
	if start.kind != "" {
		out += ", kind=" + s.use("trace") + ".SpanKind." + strings.ToUpper(start.kind)
	}
	if attributes != "" && attributes != "{}" {
		out += ", attributes=" + attributes
	}
	return tracer + "." + to + "(" + out + more + ")", true
}

// pyAttributes returns the attributes for a dictionary of tags.
func (s *script) pyAttributes(o *syntax.Node, start *jsStarting) (string, bool) {
	var out []string
	for _, p := range o.Children {
		if p.Kind != syntax.Pair {
			s.blockAt(p, "%s has tags that are not known.", s.brief(p))
			return "", false
		}
		k, known := s.tagOf(p.Children[0])
		v, ok := s.tagOf(p.Value())
		switch {
		case known && k == "span.kind" && start != nil && ok && spanKinds[v] != "":
			start.kind = spanKinds[v]
			s.mark(p)
			continue
		case known && (k == "error" || k == "span.kind" || k == "resource.name" || leftTags[k] != ""):
			s.blockAt(p, "The tag %s is in no table here.", k)
			return "", false
		}
		out = append(out, s.key(p.Children[0])+": "+s.text(p.Value()))
	}
	return "{" + strings.Join(out, ", ") + "}", true
}

// pyTag rewrites span.set_tag(key, value).
func (s *script) pyTag(c *syntax.Node, span string, key, value *syntax.Node, statement bool) (string, bool) {
	k, known := s.tagOf(key)
	switch {
	case known && k == "span.kind":
		return s.fail(c, "The kind of a span is set when it starts; here it is set elsewhere.")
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
	}
	return span + ".set_attribute(" + s.key(key) + ", " + s.text(value) + ")", true
}

// pyLog rewrites span.log_kv({...}).
func (s *script) pyLog(c *syntax.Node, span string, args []*syntax.Node) (string, bool) {
	if len(args) != 1 || args[0].Kind != syntax.Object {
		s.blockAt(c, "The fields of log_kv are no dictionary literal.")
		return "", false
	}
	event, exception := s.quote("log"), ""
	var out []string
	for _, p := range args[0].Children {
		if p.Kind != syntax.Pair {
			s.blockAt(p, "%s has fields that are not known.", s.brief(p))
			return "", false
		}
		switch k, _ := s.tagOf(p.Children[0]); k {
		case "event":
			event = s.text(p.Value())
		case "error.object":
			exception = s.text(p.Value())
		default:
			out = append(out, s.key(p.Children[0])+": "+s.text(p.Value()))
		}
	}
	switch {
	case exception != "":
		return span + ".record_exception(" + exception + ")", true
	case len(out) > 0:
		return span + ".add_event(" + event + ", {" + strings.Join(out, ", ") + "})", true
	}
	return span + ".add_event(" + event + ")", true
}

// pyPropagate rewrites tracer.inject(context, format, carrier) and tracer.extract(format, carrier).
func (s *script) pyPropagate(c *syntax.Node, name string) (string, bool) {
	names := []string{"span_context", "format", "carrier"}
	if name == "extract" {
		names = names[1:]
	}
	values := map[string]*syntax.Node{}
	for i, a := range c.Args() {
		switch {
		case a.Kind == syntax.Argument:
			values[a.Text] = a.Children[0]
		case i < len(names):
			values[names[i]] = a
		}
	}
	format, carrier, from := values["format"], values["carrier"], values["span_context"]
	if format == nil || carrier == nil || len(values) != len(names) || !s.textFormat(format) {
		return s.failCall(c, "The arguments of %s are in no table.", name)
	}
	s.mark(c.Callee()) // with the tracer, as the propagators are global
	if name == "extract" {
		return s.use("propagate") + ".extract(" + s.text(carrier) + ")", true
	}
	context, ok := s.pySpanContext(from)
	return s.use("propagate") + ".inject(" + s.text(carrier) + ", context=" + context + ")", ok
}

// pyConfig keeps Config(...), which the added module has.
func (s *script) pyConfig(c *syntax.Node) (string, bool) {
	s.setup, s.config = true, "Config"
	s.mark(c.Callee())
	s.note(c, "The exporter reads its endpoint from OTEL_EXPORTER_OTLP_ENDPOINT. Set it where the address of the Jaeger agent is configured. "+propagationNote)
	if c.Callee().Kind == syntax.Name {
		return "", false // only its import changes
	}
	return "Config(" + s.list(c.Args()) + ")", true
}

// pyImported finds the names that files import from modules.
var pyImported = regexp.MustCompile(`(?m)^[ \t]*from[ \t]+\S+[ \t]+import[ \t]+(\([^()]*\)|[^\n(]*)`)

var pyImport = regexp.MustCompile(strings.ReplaceAll(`(?m)^(?:from LIBRARY(?:\.[\w.]+)? import (?:\([^()]*\)|[^\n(]*)|import LIBRARY(?:\.[\w.]+)?)[ \t]*(?:#[^\n]*)?$`, "LIBRARY", `(?:opentracing|jaeger_client|ddtrace|opencensus|py_zipkin)`))

// pythonImports replaces the imports of source libraries.
func pythonImports(s *script) ([]edit, bool) {
	source := s.f.Source
	places := pyImport.FindAllIndex(source, -1)
	tracer := ""
	for _, i := range s.f.Imports {
		if !s.isSource(i.Path) || i.Node == nil {
			continue
		}
		if !slices.ContainsFunc(places, func(p []int) bool { return p[0] <= i.Node.Start && i.Node.Start < p[1] }) || i.Member == "*" {
			s.blockAt(i.Node, "The import of %s has a form that no table knows.", i.Path)
			return nil, false
		}
		if i.Path == "ddtrace" && i.Member == "tracer" {
			tracer = i.Name
			s.note(i.Node, "Start the process with opentelemetry-instrument instead of ddtrace-run, and replace the DD_* variables by OTEL_* variables.")
			for n := range s.f.Root.All() {
				if n.Kind == syntax.Name && n.Text == tracer {
					s.done[n] = true
				}
			}
		} else if i.Path == "ddtrace" && i.Member != "tracer" || strings.HasPrefix(i.Path, "ddtrace.") && i.Path != "ddtrace.ext" {
			s.blockAt(i.Node, "%s of %s is in no table.", i.Member, i.Path)
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
	if tracer != "" { // after the last import
		last := 0
		for _, i := range s.f.Imports {
			if i.Node != nil && i.Node.Enclosing(syntax.Func) == nil {
				last = max(last, i.Node.End)
			}
		}
		for last < len(source) && source[last] != '\n' {
			last++
		}
		edits = append(edits, edit{last, last, "\n\n" + tracer})
	}
	return edits, true
}

// imported returns names for an import, sorted by their names in the file.
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

// pyTypes keeps the types of spans and tracers in annotations, which have no nodes.
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
	for _, name := range u.requirementFiles() {
		list, source := u.dependencies(name)
		old, missing := u.replacement(list)
		if len(old) == 0 {
			continue
		}
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
	u.open(path.Join(u.dir, "requirements.txt"), 0, "Install the packages of OpenTelemetry (%s) and update the lock file, if there is one.", strings.Join(slices.Sorted(maps.Keys(u.packages)), ", "))
}
