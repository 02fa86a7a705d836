// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	_ "embed"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"sort"
	"strings"

	"assay/internal/review/syntax"
)

func javaScriptTable() *scriptTable {
	return &scriptTable{
		languages: []syntax.Language{syntax.JavaScript, syntax.TypeScript},
		manifests: []string{"package.json"},
		libraries: []string{
			"opentracing", "jaeger-client", "dd-trace", "@opencensus/nodejs", "@opencensus/nodejs-base", "@opencensus/core", "@opencensus/exporter-zipkin",
			"@opencensus/exporter-jaeger", "@opencensus/exporter-ocagent", "@opencensus/propagation-b3", "@opencensus/propagation-tracecontext",
			"zipkin", "zipkin-context-cls", "zipkin-transport-http",
		},
		prefixes: []string{"zipkin", "@opencensus", "express-opentracing"},
		methods:  append(slices.Clone(scriptMethods), ".startRootSpan(", ".startChildSpan(", ".addAttribute(", ".addAnnotation(", ".currentRootSpan", ".setStatus(", ".recordBinary(", ".recordAnnotation(", ".recordRpc(", ".letId(", ".scoped(", ".local("),
		kinds:    append(slices.Clone(scriptCalls), syntax.Assign),
		prepare:  zipkinPrepare,
		hoist:    (*script).jsHoist,
		call:     javaScriptCall,
		imports:  javaScriptImports,
		manifest: javaScriptManifest,
	}
}

// spanContextOf returns the source of a context for a span or span context.
func (s *script) spanContextOf(n *syntax.Node) (string, bool) {
	if n.Kind == syntax.Call {
		if receiver, name := n.Method(); name == "context" && s.kind(receiver) == spanValue {
			n = receiver
		}
	}
	switch s.kind(n) {
	case spanValue:
		return fmt.Sprintf("%s.setSpan(%s, %s)", s.use("trace"), s.use("ROOT_CONTEXT"), s.text(n)), true
	case contextValue:
		return s.text(n), true
	}
	s.blockAt(n, "It is not known whether %s is a span or a context.", s.brief(n))
	return "", false
}

func javaScriptCall(s *script, c *syntax.Node) (string, bool) {
	if s.unit.zipkin {
		if text, ok, known := s.jsZipkin(c); known {
			return text, ok
		}
	}
	if s.unit.census {
		return s.jsCensus(c)
	}
	if c.Kind != syntax.Call {
		return "", false
	}
	receiver, name := c.Method()
	args := c.Args()
	if receiver == nil {
		i, ok := s.f.Imported(name)
		if ok && s.isSource(i.Path) && i.Member == "initTracer" {
			return s.initTracer(c)
		}
		if ok && s.isSource(i.Path) {
			name = i.Member
			return s.libraryCall(c, name, args)
		}
		return "", false
	}
	statement := c.Parent != nil && c.Parent.Kind == syntax.Block
	code := func() string { return s.receiverText(c) }
	switch k := s.kind(receiver); {
	case k == libraryValue:
		s.done[receiver] = true
		return s.libraryCall(c, name, args)
	case name == "startSpan" && k != tracerValue, (name == "setTag" || name == "addTags" || name == "setOperationName") && k == unknownValue:
		if receiver.Kind == syntax.Name {
			if _, imported := s.f.Imported(receiver.Text); imported {
				return "", false
			}
		}
		return s.failCall(c, "%s may be a method of a span or tracer: what it is called on is not known.", s.brief(c.Callee()))
	case k == tracerValue:
		switch name {
		case "startSpan":
			return s.jsStart(c, code(), args)
		case "inject":
			if len(args) != 3 || !s.textFormat(args[1]) {
				return s.failCall(c, "The format of inject is in no table.")
			}
			s.mark(receiver) // the propagators are global
			from, ok := s.spanContextOf(args[0])
			return fmt.Sprintf("%s.inject(%s, %s)", s.use("propagation"), from, s.text(args[2])), ok
		case "extract":
			if len(args) != 2 || !s.textFormat(args[0]) {
				return s.failCall(c, "The format of extract is in no table.")
			}
			s.mark(receiver)
			return fmt.Sprintf("%s.extract(%s, %s)", s.use("propagation"), s.use("ROOT_CONTEXT"), s.text(args[1])), true
		case "init":
			return s.ddInit(c, receiver)
		case "close":
			return "", false // the setup adds it
		case "scope", "use", "trace", "wrap", "setUrl", "dogstatsd", "setUser", "appsec", "profilerStarted":
			return s.failCall(c, "%s is in no table.", s.brief(c.Callee()))
		}
	case k == spanValue:
		switch name {
		case "finish":
			return code() + ".end(" + s.list(args) + ")", true
		case "setOperationName":
			return code() + ".updateName(" + s.list(args) + ")", true
		case "context":
			text, ok := s.spanContextOf(c)
			return text, ok
		case "setTag":
			if len(args) != 2 {
				return s.failCall(c, "setTag has other arguments than a key and a value.")
			}
			return s.jsTag(c, code(), args[0], args[1], statement)
		case "addTags":
			if len(args) != 1 || args[0].Kind != syntax.Object {
				return s.failCall(c, "The tags of addTags are not known.")
			}
			attributes, ok := s.jsAttributes(args[0], nil)
			if !ok {
				return "", false
			}
			return code() + ".setAttributes(" + attributes + ")", true
		case "log":
			return s.jsLog(c, code(), args)
		case "setBaggageItem", "getBaggageItem", "tracer", "logEvent", "addReference", "addLink":
			return s.failCall(c, "%s is in no table.", s.brief(c.Callee()))
		}
	case k == unknownValue && receiver.Kind == syntax.Call:
		inner, scope := receiver.Method()
		if scope != "scope" || s.kind(inner) != tracerValue {
			return "", false
		}
		switch {
		case name == "active" && len(args) == 0:
			s.mark(receiver)
			return s.use("trace") + ".getActiveSpan()", true
		case name == "activate" && len(args) == 2:
			s.mark(receiver)
			return fmt.Sprintf("%[1]s.with(%[2]s.setSpan(%[1]s.active(), %[3]s), %[4]s)", s.use("context"), s.use("trace"), s.text(args[0]), s.text(args[1])), true
		}
	}
	return "", false
}

func (s *script) list(args []*syntax.Node) string {
	var out []string
	for _, a := range args {
		out = append(out, s.text(a))
	}
	return strings.Join(out, ", ")
}

// textFormat reports whether a format of propagation is one of text.
func (s *script) textFormat(n *syntax.Node) bool {
	v, ok := s.tagOf(n)
	s.mark(n)
	return ok && (v == "http_headers" || v == "text_map")
}

// libraryCall rewrites a call of a function of opentracing.
func (s *script) libraryCall(c *syntax.Node, name string, args []*syntax.Node) (string, bool) {
	switch name {
	case "globalTracer":
		s.mark(c)
		return s.use("trace") + ".getTracer(" + s.quote(s.scope()) + ")", true
	case "initGlobalTracer":
		if len(args) == 1 && s.kind(args[0]) == tracerValue && args[0].Kind == syntax.Name && c.Parent.Kind == syntax.Block {
			s.mark(c.Callee())
			return "", true
		}
	case "initTracer", "initTracerFromEnv":
		if name == "initTracer" {
			s.mark(c.Callee())
			return s.initTracer(c)
		}
	case "childOf", "followsFrom":
		return "", false // of references
	}
	return s.failCall(c, "%s is in no table, or used in a way that no table knows.", s.brief(c.Callee()))
}

// scope returns the name of the instrumentation scope: the package, by its directory.
func (s *script) scope() string {
	name := path.Base(s.f.Path)
	return strings.TrimSuffix(name, path.Ext(name))
}

// jsStart rewrites tracer.startSpan(name, options).
func (s *script) jsStart(c *syntax.Node, tracer string, args []*syntax.Node) (string, bool) {
	if len(args) == 0 || len(args) > 2 || len(args) == 2 && args[1].Kind != syntax.Object {
		return s.fail(c, "The options of startSpan are no object literal.")
	}
	name, parent := s.text(args[0]), ""
	var start jsStarting
	if kind := s.hoists[c]; kind != "" {
		start.kind = spanKinds[kind]
	}
	var options []string
	if len(args) == 2 {
		for _, p := range args[1].Children {
			if p.Kind != syntax.Pair || p.Children[0].Kind != syntax.String {
				return s.fail(p, "%s is no option of startSpan that a table knows.", s.brief(p))
			}
			value := p.Value()
			switch key := p.Children[0].Text; key {
			case "childOf":
				text, ok := s.spanContextOf(value)
				if !ok || parent != "" {
					return "", false
				}
				parent = text
			case "references":
				if value.Kind != syntax.List || len(value.Children) != 1 || value.Children[0].Kind != syntax.Call || parent != "" {
					return s.fail(p, "A span has one parent in OpenTelemetry; the references are not known, or several.")
				}
				ref := value.Children[0]
				if _, f := ref.Method(); f != "childOf" && f != "followsFrom" || len(ref.Args()) != 1 {
					return s.fail(p, "The reference is in no table.")
				}
				s.mark(ref.Callee())
				text, ok := s.spanContextOf(ref.Args()[0])
				if !ok {
					return "", false
				}
				parent = text
			case "tags":
				if value.Kind != syntax.Object {
					return s.fail(p, "The tags of startSpan are no object literal.")
				}
				attributes, ok := s.jsAttributes(value, &start)
				if !ok {
					return "", false
				}
				if attributes != "{}" {
					options = append(options, "attributes: "+attributes)
				}
			case "startTime":
				options = append(options, "startTime: "+s.text(value))
			default:
				return s.fail(p, "The option %s of startSpan is in no table.", key)
			}
		}
	}
	if start.name != "" {
		operation := fmt.Sprintf("'operation.name': %s", name)
		added := false
		for i, o := range options {
			if rest, ok := strings.CutPrefix(o, "attributes: {"); ok {
				options[i], added = "attributes: { "+operation+","+rest, true
			}
		}
		if !added {
			options = append(options, "attributes: { "+operation+" }")
		}
		name = start.name
	}
	if parent == "" && s.unit.rooted {
		options = append(options, "root: true")
	}
	if start.kind != "" {
		options = append([]string{"kind: " + s.use("SpanKind") + "." + strings.ToUpper(start.kind)}, options...)
	}
	out := []string{name}
	if len(options) > 0 || parent != "" {
		object := "{}"
		if len(options) > 0 {
			object = "{ " + strings.Join(options, ", ") + " }"
		}
		out = append(out, object)
	}
	if parent != "" {
		out = append(out, parent)
	}
	return tracer + ".startSpan(" + strings.Join(out, ", ") + ")", true
}

// jsStarting is what the tags of a start say besides attributes.
type jsStarting struct{ kind, name string }

// jsAttributes returns the attributes for an object of tags. Tags that only a start has are in start, nil if there is
// none.
func (s *script) jsAttributes(o *syntax.Node, start *jsStarting) (string, bool) {
	var out []string
	multiline := strings.Contains(s.f.Code(o), "\n")
	for _, p := range o.Children {
		if p.Kind == syntax.Spread || p.Kind != syntax.Pair {
			s.blockAt(p, "%s has tags that are not known.", s.brief(p))
			return "", false
		}
		k, known := s.tagOf(p.Children[0])
		value := p.Value()
		switch {
		case known && (k == "span.kind" || k == "resource.name" || k == "span.type") && start != nil:
			v, ok := s.tagOf(value)
			kind := spanKinds[v]
			if k == "span.type" {
				kind = datadogTypes[v]
			}
			if k == "resource.name" {
				start.name = s.text(value)
			} else if ok && kind != "" {
				start.kind = kind
			} else {
				s.blockAt(p, "The %s of the span is in no table.", k)
				return "", false
			}
			s.mark(p)
			continue
		case known && (k == "error" || k == "span.kind" || k == "resource.name" || leftTags[k] != ""):
			s.blockAt(p, "The tag %s is in no table here.", k)
			return "", false
		case s.f.Code(p) == s.f.Code(value): // { rows }
			out = append(out, s.f.Code(p))
			continue
		}
		key := s.f.Code(p.Children[0])
		if known && (p.Children[0].Kind != syntax.String || attributeKey(k) != k) {
			key = s.quote(attributeKey(k))
			s.mark(p.Children[0])
		} else if p.Children[0].Kind != syntax.String {
			key = "[" + s.text(p.Children[0]) + "]"
		}
		out = append(out, key+": "+s.text(value))
	}
	switch {
	case len(out) == 0:
		return "{}", true
	case multiline && len(out) > 2:
		indent := s.indent(o.Start)
		return "{\n" + indent + "    " + strings.Join(out, ",\n"+indent+"    ") + ",\n" + indent + "  }", true
	}
	return "{ " + strings.Join(out, ", ") + " }", true
}

// indent returns the white space at the start of the line of an offset.
func (s *script) indent(at int) string { return lineIndent(s.f.Source, at) }

// jsTag rewrites span.setTag(key, value).
func (s *script) jsTag(c *syntax.Node, span string, key, value *syntax.Node, statement bool) (string, bool) {
	k, known := s.tagOf(key)
	fail := func(format string, a ...any) (string, bool) {
		s.mark(key)
		return s.failCall(c, format, a...)
	}
	switch {
	case known && k == "span.kind":
		return fail("The kind of a span is set when it starts; here it is set elsewhere.")
	case known && leftTags[k] != "":
		return fail("The tag %s has no counterpart: %s.", k, leftTags[k])
	case known && (k == "resource.name" || k == "span.name"):
		s.mark(key)
		return span + ".updateName(" + s.text(value) + ")", true
	case known && k == "error":
		s.mark(key)
		if value.Kind == syntax.Bool && value.Text == "true" {
			return span + ".setStatus({ code: " + s.use("SpanStatusCode") + ".ERROR })", true
		}
		if s.isCaught(value) && statement && !s.isBranch(c) {
			e := s.text(value)
			separator := "\n" + s.indent(c.Start)
			if c.End < len(s.f.Source) && s.f.Source[c.End] == ';' {
				separator = ";" + separator
			}
			return fmt.Sprintf("%s.recordException(%s)%s%s.setStatus({ code: %s.ERROR, message: %[2]s.message })", span, e, separator, span, s.use("SpanStatusCode")), true
		}
		return fail("The tag error has the value %s, which no table knows.", s.brief(value))
	}
	return span + ".setAttribute(" + s.key(key) + ", " + s.text(value) + ")", true
}

// isCaught reports whether an expression is the name of a caught error.
func (s *script) isCaught(n *syntax.Node) bool {
	if n.Kind != syntax.Name {
		return false
	}
	d := s.f.Definition(n)
	return d != nil && d.Kind == syntax.Param && d.Parent != nil && d.Parent.Kind == syntax.Catch
}

// jsLog rewrites span.log({ event, ... }).
func (s *script) jsLog(c *syntax.Node, span string, args []*syntax.Node) (string, bool) {
	if len(args) == 0 || len(args) > 2 || args[0].Kind != syntax.Object {
		s.blockAt(c, "The fields of log are no object literal.")
		return "", false
	}
	event, exception := s.quote("log"), ""
	var out []string
	for _, p := range args[0].Children {
		if p.Kind != syntax.Pair {
			s.blockAt(p, "%s has fields that are not known.", s.brief(p))
			return "", false
		}
		k, _ := s.tagOf(p.Children[0])
		switch {
		case k == "event":
			event = s.text(p.Value())
		case k == "error.object":
			exception = s.text(p.Value())
		case s.f.Code(p) == s.f.Code(p.Value()):
			out = append(out, s.f.Code(p))
		case p.Children[0].Kind == syntax.String:
			key := s.f.Code(p.Children[0])
			if attributeKey(k) != k {
				key = s.quote(attributeKey(k))
			}
			out = append(out, key+": "+s.text(p.Value()))
		default:
			out = append(out, "["+s.text(p.Children[0])+"]: "+s.text(p.Value()))
		}
	}
	time := ""
	if len(args) == 2 {
		time = ", " + s.text(args[1])
	}
	if exception != "" {
		return span + ".recordException(" + exception + time + ")", true
	}
	attributes := ""
	if len(out) > 0 {
		attributes = ", { " + strings.Join(out, ", ") + " }"
	}
	return span + ".addEvent(" + event + attributes + time + ")", true
}

const propagationNote = "Requests carry traceparent instead of the old headers. Configure the old propagation beside it until all peers are migrated."

// initTracer rewrites initTracer(config, options) of jaeger-client to the one of the added module.
func (s *script) initTracer(c *syntax.Node) (string, bool) {
	args := c.Args()
	if len(args) == 0 {
		s.blockAt(c, "The configuration of the tracer is not known.")
		return "", false
	}
	s.mark(c.Callee())
	s.setup = true
	s.note(c, "The exporter reads its endpoint from OTEL_EXPORTER_OTLP_ENDPOINT. Set it where the address of the Jaeger agent or collector is configured. "+propagationNote)
	if len(args) > 1 {
		s.note(args[1], "The options of the tracer are removed: the logger has no counterpart, and tags belong to OTEL_RESOURCE_ATTRIBUTES.")
	}
	if len(args) == 1 && c.Callee().Kind == syntax.Name {
		return "", false // only its import changes
	}
	return "initTracer(" + s.text(args[0]) + ")", true
}

// ddInit rewrites require('dd-trace').init(options).
func (s *script) ddInit(c, receiver *syntax.Node) (string, bool) {
	args := c.Args()
	config := "{}"
	if len(args) == 1 && args[0].Kind == syntax.Object {
		var out []string
		for _, p := range args[0].Children {
			key := ""
			if p.Kind == syntax.Pair {
				key, _ = s.tagOf(p.Children[0])
			}
			switch key {
			case "service", "env", "version":
				name := map[string]string{"service": "serviceName", "env": "environment", "version": "version"}[key]
				out = append(out, name+": "+s.text(p.Value()))
			case "logInjection", "runtimeMetrics", "profiling", "startupLogs", "debug", "hostname", "port", "url":
				s.note(p, fmt.Sprintf("The setting %s is removed; OTEL_* variables configure the SDK.", key))
			default:
				s.blockAt(p, "The setting %s of the Datadog tracer is in no table.", s.brief(p))
				return "", false
			}
		}
		if len(out) > 0 {
			config = "{ " + strings.Join(out, ", ") + " }"
		}
	} else if len(args) > 0 {
		s.blockAt(c, "The settings of the Datadog tracer are no object literal.")
		return "", false
	}
	s.mark(receiver)
	s.setup = true
	s.note(c, "The Datadog tracer instruments libraries by itself. Add their instrumentation, such as @opentelemetry/auto-instrumentations-node, to opentelemetry.js. "+propagationNote)
	return "initTracer(" + config + ")", true
}

var (
	jsRequire = `(?m)^[ \t]*(?:const|let|var)\s+(?:\{(?:[^{}]|\{[^{}]*\})*\}|[\w$]+)\s*=\s*require\(\s*['"](?:%s)['"]\s*\)[ \t]*;?[ \t]*$`
	jsImport  = `(?m)^[ \t]*import\s+(?:type\s+)?[\w$*{}\s,]+\s+from\s+['"](?:%s)['"][ \t]*;?[ \t]*$`
	jsLibrary = `opentracing(?:/[\w/]+)?|jaeger-client|dd-trace(?:/[\w/]+)?|@opencensus/(?:nodejs|nodejs-base|core|exporter-(?:zipkin|jaeger|ocagent)|propagation-(?:b3|tracecontext))|zipkin|zipkin-context-cls|zipkin-transport-http`
	requires  = regexp.MustCompile(fmt.Sprintf(jsRequire, jsLibrary))
	importsES = regexp.MustCompile(fmt.Sprintf(jsImport, jsLibrary))
	jsTags    = regexp.MustCompile(`(?m)^[ \t]*(?:const|let|var)\s+\{[^{}]*\}\s*=\s*[\w$]+[ \t]*;?[ \t]*$`)
)

// javaScriptImports replaces the imports of source libraries.
func javaScriptImports(s *script) ([]edit, bool) {
	source := s.f.Source
	var places [][]int
	places = append(places, requires.FindAllIndex(source, -1)...)
	es := importsES.FindAllIndex(source, -1)
	places = append(places, es...)
	slices.SortFunc(places, func(a, b []int) int { return a[0] - b[0] })
	inPlace := func(offset int) bool {
		return slices.ContainsFunc(places, func(p []int) bool { return p[0] <= offset && offset <= p[1] })
	}
	// Names taken from a library, such as const { Tags } = opentracing, go with it.
	tags := jsTags.FindAllIndex(source, -1)
	for n := range s.f.Root.All() {
		if n.Kind != syntax.Assign || n.Value().Kind != syntax.Name {
			continue
		}
		at := sort.Search(len(tags), func(i int) bool { return tags[i][1] >= n.End })
		if at < len(tags) && tags[at][0] <= n.Start && s.ofLibrary(n.Value()) {
			places = append(places, tags[at])
			s.mark(n)
		}
	}
	initialized := false // const tracer = require('dd-trace').init(...)
	for _, i := range s.f.Imports {
		if !s.isSource(i.Path) || i.Node == nil || inPlace(i.Node.Start) {
			continue
		}
		if s.done[i.Node] {
			initialized = true
			continue
		}
		s.blockAt(i.Node, "The import of %s has a form that no table knows.", i.Path)
	}
	for n := range s.f.Root.All() { // the definitions of the imports themselves
		if n.Kind == syntax.Name && inPlace(n.Start) {
			s.done[n] = true
			if _, ok := s.f.Imported(n.Text); !ok && n.Text != "require" { // { jsonEncoder: { JSON_V2 } }, { globalTracer }
				s.settings[n.Text] = n
			}
		}
	}
	if !s.left() || s.unit.blocked {
		return nil, false
	}
	if s.f.Language == syntax.TypeScript { // types have no nodes
		covered := make([]bool, len(source))
		for n := range s.done {
			if n.Kind == syntax.Name {
				covered[n.Start] = true
			}
		}
		cover := func(start, end int) {
			for i := start; i < end; i++ {
				covered[i] = true
			}
		}
		for n := range s.f.Root.All() {
			if n.Kind == syntax.String {
				cover(n.Start, n.End)
			}
		}
		for _, c := range s.f.Comments {
			cover(c.Start, c.End)
		}
		for _, i := range s.f.Imports {
			if s.isSource(i.Path) && i.Name != "" {
				word := regexp.MustCompile(`\b` + regexp.QuoteMeta(i.Name) + `\b`)
				for _, m := range word.FindAllIndex(source, -1) {
					if inPlace(m[0]) || covered[m[0]] || m[0] > 0 && source[m[0]-1] == '.' {
						continue
					}
					if i.Member == "Span" || i.Member == "Tracer" {
						s.used[i.Name] = i.Member
						continue
					}
					s.blockAt(&syntax.Node{Start: m[0]}, "%s is in no table as a type.", i.Name)
					return nil, false
				}
			}
		}
	}
	if len(places) == 0 && len(s.used) == 0 && !initialized {
		return nil, true
	}
	var lines []string
	var names []string
	esm := len(es) > 0 || regexp.MustCompile(`(?m)^(import|export)\s`).Match(source)
	for _, local := range slices.Sorted(maps.Keys(s.used)) {
		name := s.used[local]
		if local != name {
			if esm {
				name += " as " + local
			} else {
				name += ": " + local
			}
		}
		names = append(names, name)
	}
	end := ""
	if len(places) > 0 && strings.HasSuffix(strings.TrimSpace(string(source[places[0][0]:places[0][1]])), ";") || len(places) == 0 && strings.Contains(string(source), ";\n") {
		end = ";"
	}
	line := func(names, from string) {
		if esm {
			lines = append(lines, "import { "+names+" } from "+s.quote(from)+end)
		} else {
			lines = append(lines, "const { "+names+" } = require("+s.quote(from)+")"+end)
		}
	}
	if len(names) > 0 {
		line(strings.Join(names, ", "), "@opentelemetry/api")
		s.unit.packages["@opentelemetry/api"] = true
	}
	if s.setup {
		ext := path.Ext(s.f.Path)
		from := "./opentelemetry"
		if esm && s.f.Language == syntax.JavaScript {
			from += ext
		}
		line("initTracer", from)
		s.addSetup(esm, ext)
	}
	if s.local != "" {
		name, ext, from := "local", path.Ext(s.f.Path), "./opentelemetry-local"
		if esm && s.f.Language == syntax.JavaScript {
			from += ext
		}
		if s.local != name {
			name += map[bool]string{true: " as ", false: ": "}[esm] + s.local
		}
		line(name, from)
		s.addModule("opentelemetry-local", ext, jsLocal, "local", esm)
		s.unit.packages["@opentelemetry/api"] = true
	}
	edits := replaceLines(source, places, lines)
	if len(places) == 0 && len(lines) > 0 {
		at := s.top()
		edits = append(edits, edit{at, at, strings.Join(lines, "\n") + "\n"})
	}
	return edits, true
}

// top returns the offset of the first statement after directives and comments.
func (s *script) top() int {
	for _, n := range s.f.Root.Children {
		if n.Kind == syntax.String {
			continue
		}
		return lineStart(s.f.Source, n.Start)
	}
	return 0
}

// addSetup adds the module that sets up the SDK.
func (s *script) addSetup(esm bool, ext string) {
	packages := []string{"@opentelemetry/api", "@opentelemetry/exporter-trace-otlp-http", "@opentelemetry/resources", "@opentelemetry/sdk-trace-node"}
	for _, p := range packages {
		s.unit.packages[p] = true
	}
	s.addModule("opentelemetry", ext, javaScriptSetup, "initTracer", esm)
}

// addModule adds a module with a function beside the file.
func (s *script) addModule(name, ext, text, function string, esm bool) {
	if !esm {
		text = regexp.MustCompile(`(?m)^import (\{[^}]*\}) from ('[^']*')$`).ReplaceAllString(text, "const $1 = require($2)")
		text = strings.Replace(text, "export function "+function, "function "+function, 1) + "\nmodule.exports = { " + function + " }\n"
		text = "'use strict'\n\n" + text
	}
	if s.f.Language == syntax.TypeScript {
		text = strings.NewReplacer(
			"initTracer(config)", "initTracer(config: Record<string, any>)",
			"sampler(config)", "sampler(config: any)",
			"close(done)", "close(done?: (err?: unknown) => void)",
			"const attributes = {}", "const attributes: Record<string, string> = {}",
			"local(tracer, name, f)", "local(tracer: any, name: string, f: () => any): any",
			"(span) =>", "(span: any) =>", "(err) =>", "(err: any) =>", "(output) =>", "(output: any) =>", "let result\n", "let result: any\n",
		).Replace(text)
	}
	s.unit.created[path.Join(path.Dir(s.f.Path), name+ext)] = []byte(text)
}

// javaScriptSetup is the module that sets up the SDK.
//
//go:embed helpers/opentelemetry.js
var javaScriptSetup string

// javaScriptManifest replaces the dependencies of package.json.
func javaScriptManifest(u *scriptUnit) { u.jsonManifest(path.Join(u.dir, "package.json")) }
