// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"bytes"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"assay/internal/review/syntax"
)

// The exporters, samplers and propagators of OpenCensus for Python that the setup replaces.
var (
	censusExporters   = []string{"TraceExporter", "JaegerExporter", "ZipkinExporter", "AzureExporter", "PrintExporter"}
	censusSamplers    = []string{"AlwaysOnSampler", "AlwaysOffSampler", "ProbabilitySampler"}
	censusPropagators = regexp.MustCompile(`^\w+Propagator$`)
)

// pairedSpan holds the names of a span that starts and ends in one block, and of its context token.
type pairedSpan struct{ span, token string }

// censusPrepare detects OpenCensus and py_zipkin in a project. It blocks a project that uses OpenCensus and another
// library, because methods of both have the same names.
func censusPrepare(u *scriptUnit) bool {
	for _, s := range u.files {
		for _, i := range s.f.Imports {
			u.census = u.census || isCensus(i.Path)
			u.zipkin = u.zipkin || i.Path == "py_zipkin" || strings.HasPrefix(i.Path, "py_zipkin.")
		}
	}
	for _, s := range u.files {
		for _, i := range s.f.Imports {
			if u.census && s.isSource(i.Path) && !isCensus(i.Path) {
				s.blockAt(i.Node, "%s in a project of OpenCensus is in no table: methods of both have the same names.", i.Path)
			}
		}
	}
	return false
}

func isCensus(module string) bool {
	return module == "opencensus" || strings.HasPrefix(module, "opencensus.") || strings.HasPrefix(module, "@opencensus/")
}

// libraryFunction returns the function or class of a library that is called, or "".
func (s *script) libraryFunction(c *syntax.Node) string {
	if c.Kind != syntax.Call || !s.ofLibrary(c.Callee()) {
		return ""
	}
	receiver, name := c.Method()
	if receiver == nil {
		i, _ := s.f.Imported(name)
		return i.Member
	}
	return name
}

// isSetting reports whether a call makes an exporter, a sampler, a propagator or a transport.
func (s *script) isSetting(c *syntax.Node) bool {
	f := s.libraryFunction(c)
	return slices.Contains(censusExporters, f) || slices.Contains(censusSamplers, f) || f == "SimpleHTTPTransport" || censusPropagators.MatchString(f)
}

// hoistSettings finds and removes the statements of a block that make parts of the setup.
func (s *script) hoistSettings(block *syntax.Node) {
	for _, n := range block.Children {
		if n.Kind != syntax.Assign || n.Text != "=" || len(n.Children) != 2 || n.Children[0].Kind != syntax.Name || !s.isSetting(n.Value()) {
			continue
		}
		name := n.Children[0].Text
		switch {
		case s.settings[name] != nil:
			s.blockAt(n, "%s has several values: no table knows which one is used.", name)
		case s.unit.imported[name] && n.Enclosing(syntax.Func) == nil:
			s.blockAt(n, "%s is imported by another file.", name)
		}
		s.settings[name], s.gone[n] = n.Value(), true
		s.mark(n)
	}
}

// censusHoist finds the statements of a block that set the kind of a span, and the calls that end a span of the block.
func (s *script) censusHoist(block *syntax.Node) {
	starts := map[string]*syntax.Node{}
	if w := block.Parent; w != nil && w.Kind == syntax.With {
		for _, n := range w.Children {
			if n.Kind == syntax.Assign && n.Value().Kind == syntax.Call {
				starts[n.Children[0].Text] = n.Value()
			}
		}
	}
	var open []*syntax.Node
	end := func(n *syntax.Node) {
		if len(open) == 0 || n.Kind != syntax.Call || s.pairs[n] != nil || len(n.Args()) > 0 || !s.ownLines(n) {
			return
		}
		if receiver, name := n.Method(); name != "end_span" || s.kind(receiver) != tracerValue {
			return
		}
		start := open[len(open)-1]
		open = open[:len(open)-1]
		p := &pairedSpan{}
		if start.Parent.Kind == syntax.Assign {
			p.span = start.Parent.Children[0].Text
		} else {
			p.span = s.fresh("span")
		}
		p.token = s.fresh("token")
		s.pairs[start], s.pairs[n] = p, p
	}
	for _, n := range block.Children {
		c := n
		if n.Kind == syntax.Assign && n.Text == "=" && len(n.Children) == 2 {
			target, value := n.Children[0], n.Value()
			switch {
			case target.Kind == syntax.Member && target.Text == "span_kind" && target.Children[0].Kind == syntax.Name:
				kind, ok := s.tagOf(value)
				if start := starts[target.Children[0].Text]; start != nil && ok && spanKinds[kind] != "" {
					s.hoists[start], s.gone[n] = kind, true
					s.mark(n)
					continue
				}
			case target.Kind == syntax.Name && value.Kind == syntax.Call:
				c, starts[target.Text] = value, value
			}
		}
		switch c.Kind {
		case syntax.Call:
			if receiver, name := c.Method(); (name == "start_span" || name == "span") && receiver != nil && s.kind(receiver) == tracerValue && s.ownLines(n) {
				open = append(open, c)
			}
			end(c)
		case syntax.Try:
			for _, f := range c.Children {
				if f.Kind == syntax.Finally {
					for _, n := range f.Children[0].Children {
						end(n)
					}
				}
			}
		}
	}
}

// ownLines reports whether no other code is on the lines of a statement, so that lines can be added after it.
func (s *script) ownLines(n *syntax.Node) bool {
	before := s.f.Source[lineStart(s.f.Source, n.Start):n.Start]
	line, _, _ := bytes.Cut(s.f.Source[n.End:], []byte("\n"))
	after := bytes.TrimSpace(line)
	return strings.TrimSpace(string(before)) == "" && (len(after) == 0 || after[0] == '#')
}

// fresh returns a name that the file does not use, and reserves it.
func (s *script) fresh(name string) string {
	local := name
	for s.taken[local] {
		s.numbers[name]++
		local = name + strconv.Itoa(s.numbers[name]+1)
	}
	s.taken[local] = true
	return local
}

// pyArgs returns the arguments of a call by name. It returns nil if there are arguments with other names.
func pyArgs(c *syntax.Node, names ...string) map[string]*syntax.Node {
	values := map[string]*syntax.Node{}
	for i, a := range c.Args() {
		switch {
		case a.Kind == syntax.Argument && slices.Contains(names, a.Text):
			values[a.Text] = a.Children[0]
		case a.Kind != syntax.Argument && a.Kind != syntax.Spread && i < len(names):
			values[names[i]] = a
		default:
			return nil
		}
	}
	return values
}

// census rewrites the nodes of a project of OpenCensus.
func (s *script) census(n *syntax.Node) (string, bool) {
	switch n.Kind {
	case syntax.Call:
		return s.censusCall(n)
	case syntax.Assign:
		target := n.Children[0]
		if n.Text != "=" || len(n.Children) != 2 || target.Kind != syntax.Member || s.kind(target.Children[0]) != spanValue {
			return "", false
		}
		switch span := target.Children[0]; target.Text {
		case "name":
			return s.text(span) + ".update_name(" + s.text(n.Value()) + ")", true
		case "status":
			return s.censusStatus(n, s.text(span), n.Value())
		case "span_kind":
			s.blockAt(n, "The kind of a span is set when it starts; here it is set elsewhere.")
		}
	case syntax.Member:
		return s.censusMember(n)
	}
	return "", false
}

func (s *script) censusMember(n *syntax.Node) (string, bool) {
	if n.Parent.Kind == syntax.Call && n.Parent.Callee() == n {
		return "", false
	}
	of := n.Children[0]
	switch {
	case s.kind(of) == spanValue:
		switch n.Text {
		case "span_id":
			return s.use("trace") + ".format_span_id(" + s.text(of) + ".get_span_context().span_id)", true
		case "attributes", "parent_span", "annotations", "message_events", "links", "start_time", "end_time", "stack_trace", "same_process_as_parent_span",
			"children", "context_tracer", "name", "status", "span_kind":
			s.blockAt(n, "%s is in no table.", s.brief(n))
		}
	case of.Kind == syntax.Member && of.Text == "span_context" && s.kind(of.Children[0]) == tracerValue && (n.Text == "trace_id" || n.Text == "span_id"):
		s.mark(n)
		trace := s.use("trace")
		return trace + ".format_" + n.Text + "(" + trace + ".get_current_span().get_span_context()." + n.Text + ")", true
	case s.kind(of) == tracerValue && slices.Contains([]string{"span_context", "sampler", "exporter", "propagator", "tracer"}, n.Text):
		s.blockAt(n, "%s is in no table, or used in a way that no table knows.", s.brief(n))
	}
	return "", false
}

func (s *script) censusCall(c *syntax.Node) (string, bool) {
	receiver, name := c.Method()
	unknown := func() (string, bool) { return s.failCall(c, "%s is in no table.", s.brief(c.Callee())) }
	statement := c.Parent != nil && c.Parent.Kind == syntax.Block
	args := c.Args()
	switch s.libraryFunction(c) {
	case "Tracer":
		return s.censusTracer(c)
	case "get_opencensus_tracer":
		s.mark(c)
		return s.pyTracer(), true
	case "get_current_span":
		s.mark(c)
		return s.use("trace") + ".get_current_span()", true
	case "trace_integrations":
		if !statement {
			return unknown()
		}
		s.note(c, "OpenCensus instrumented libraries here. Add their instrumentation packages, opentelemetry-instrumentation-*, and start the process with opentelemetry-instrument.")
		s.mark(c)
		return "", true
	}
	if text, ok := s.pyHeaders(c); ok {
		return text, true
	}
	if receiver == nil {
		return "", false
	}
	if name == "from_headers" && len(args) == 1 && s.isPropagator(receiver) {
		s.mark(receiver)
		return s.use("propagate") + ".extract(" + s.text(args[0]) + ", " + s.use("context") + ".Context())", true
	}
	switch k := s.kind(receiver); k {
	case tracerValue:
		switch name {
		case "span", "start_span":
			return s.censusStart(c, "")
		case "end_span":
			p := s.pairs[c]
			if p == nil {
				return s.failCall(c, "No start of a span in the same block belongs to this end.")
			}
			s.mark(receiver)
			return p.span + ".end()\n" + s.indent(c.Start) + s.use("context") + ".detach(" + p.token + ")", true
		case "trace_decorator":
			if d := c.Parent; d != nil && d.Kind == syntax.Decorator && d.Parent.Kind == syntax.Func && len(args) == 0 {
				return s.receiverText(c) + ".start_as_current_span(" + s.quote(d.Parent.Text) + ")", true
			}
			return unknown()
		case "current_span":
			s.mark(c)
			return s.use("trace") + ".get_current_span()", true
		case "add_attribute_to_current_span":
			s.mark(c.Callee())
			return s.censusAttribute(c, s.use("trace")+".get_current_span()")
		case "finish", "should_sample", "get_tracer", "store_tracer", "list_collected_spans":
			return unknown()
		}
	case spanValue:
		switch name {
		case "span":
			return s.censusStart(c, s.text(receiver))
		case "add_attribute":
			return s.censusAttribute(c, s.receiverText(c))
		case "add_annotation":
			return s.censusAnnotation(c)
		case "set_status":
			if len(args) != 1 {
				return unknown()
			}
			return s.censusStatus(c, s.receiverText(c), args[0])
		case "start", "finish", "add_link", "add_message_event", "on_create":
			return unknown()
		}
	case unknownValue:
		with := name == "span" && len(args) > 0 && s.isResource(c)
		if with || slices.Contains([]string{"add_attribute", "add_annotation", "end_span", "add_attribute_to_current_span", "to_headers", "from_headers"}, name) {
			return s.failCall(c, "%s may be a method of a span or tracer: what it is called on is not known.", s.brief(c.Callee()))
		}
	}
	return "", false
}

// isResource reports whether a call is the context manager of a with statement or of enter_context.
func (s *script) isResource(c *syntax.Node) bool {
	p := c.Parent
	if p != nil && p.Kind == syntax.Call && p.Callee() != c {
		_, name := p.Method()
		return name == "enter_context"
	}
	return p != nil && (p.Kind == syntax.With || p.Kind == syntax.Assign && p.Text == "as")
}

// censusStart rewrites tracer.span and tracer.start_span, and span.span with its span as the parent.
func (s *script) censusStart(c *syntax.Node, parent string) (string, bool) {
	values := pyArgs(c, "name")
	pair := s.pairs[c]
	switch {
	case values == nil:
		return s.blockAt(c, "The arguments of %s are in no table.", s.brief(c.Callee()))
	case pair == nil && !s.isResource(c):
		return s.failCall(c, "A span that starts outside of a with statement and does not end in the same block is in no table.")
	}
	name := s.quote("span")
	if parent != "" {
		name = s.quote("child_span")
	}
	if values["name"] != nil {
		name = s.text(values["name"])
	}
	if kind := s.hoists[c]; kind != "" {
		name += ", kind=" + s.use("trace") + ".SpanKind." + strings.ToUpper(kind)
	}
	if remote := s.parents[c]; remote != "" {
		name += ", context=" + remote
	}
	switch {
	case parent != "":
		return s.pyTracer() + ".start_span(" + name + ", context=" + s.use("trace") + ".set_span_in_context(" + parent + "))", true
	case pair == nil:
		return s.receiverText(c) + ".start_as_current_span(" + name + ")", true
	}
	assign := ""
	if c.Parent.Kind != syntax.Assign {
		assign = pair.span + " = "
	}
	return assign + s.receiverText(c) + ".start_span(" + name + ")\n" +
		s.indent(c.Start) + pair.token + " = " + s.use("context") + ".attach(" + s.use("trace") + ".set_span_in_context(" + pair.span + "))", true
}

func (s *script) censusAttribute(c *syntax.Node, span string) (string, bool) {
	values := pyArgs(c, "attribute_key", "attribute_value")
	if len(values) != 2 {
		return s.blockAt(c, "The arguments of %s are in no table.", s.brief(c.Callee()))
	}
	return span + ".set_attribute(" + s.key(values["attribute_key"]) + ", " + s.text(values["attribute_value"]) + ")", true
}

// censusAnnotation rewrites span.add_annotation(description, **attributes).
func (s *script) censusAnnotation(c *syntax.Node) (string, bool) {
	description := ""
	var out []string
	for i, a := range c.Args() {
		switch {
		case a.Kind == syntax.Argument && a.Text == "description":
			description = s.text(a.Children[0])
		case a.Kind == syntax.Argument:
			out = append(out, s.quote(a.Text)+": "+s.text(a.Children[0]))
		case a.Kind == syntax.Spread && strings.HasPrefix(s.f.Code(a), "**"):
			out = append(out, s.text(a))
		case i == 0 && a.Kind != syntax.Spread:
			description = s.text(a)
		}
	}
	if description == "" {
		return s.blockAt(c, "The description of the annotation is not known.")
	}
	if len(out) > 0 {
		description += ", {" + strings.Join(out, ", ") + "}"
	}
	return s.receiverText(c) + ".add_event(" + description + ")", true
}

// censusStatus rewrites the setting of a status: a Status with a known code, of an exception, or OK.
func (s *script) censusStatus(at *syntax.Node, span string, status *syntax.Node) (string, bool) {
	set := func(code, message string) (string, bool) {
		s.mark(status.Callee())
		return span + ".set_status(" + s.use("trace") + ".StatusCode." + code + message + ")", true
	}
	switch f := s.libraryFunction(status); f {
	case "as_ok":
		return set("OK", "")
	case "from_exception":
		if len(status.Args()) == 1 {
			return set("ERROR", ", str("+s.list(status.Args())+")")
		}
	case "Status":
		values := pyArgs(status, "code", "message")
		code := values["code"]
		if code == nil || code.Kind != syntax.Number && (code.Kind != syntax.Member || strings.ToUpper(code.Text) != code.Text) {
			break
		}
		message := ""
		if m := values["message"]; m != nil && m.Kind != syntax.Null {
			message = ", " + s.text(m)
		}
		if code.Text == "0" || code.Text == "OK" {
			return set("OK", "")
		}
		return set("ERROR", message)
	}
	return s.blockAt(at, "The status is not known.")
}

// setting returns the call that makes a part of the setup, and the function or class that it calls. n is the call, or a
// variable with its result.
func (s *script) setting(n *syntax.Node, at *syntax.Node) (*syntax.Node, string) {
	c := n
	if n.Kind == syntax.Name && s.settings[n.Text] != nil {
		c = s.settings[n.Text]
		s.done[n] = true
		if f := c.Enclosing(syntax.Func); f != at.Enclosing(syntax.Func) && (f != nil || !s.isConstant(c)) {
			return nil, ""
		}
	}
	if !s.isSetting(c) {
		return nil, ""
	}
	s.mark(c)
	return c, s.libraryFunction(c)
}

// isConstant reports whether the arguments of a call have the same values anywhere in the file.
func (s *script) isConstant(c *syntax.Node) bool {
	for _, a := range c.Args() {
		if a.Kind == syntax.Argument {
			a = a.Children[0]
		}
		if _, known := s.f.Known(a); !known && a.Kind != syntax.Number && a.Kind != syntax.Bool && !s.ofLibrary(a) {
			return false
		}
	}
	return true
}

// censusTracer rewrites Tracer(...) to the tracer of the added module.
func (s *script) censusTracer(c *syntax.Node) (string, bool) {
	values := pyArgs(c, "span_context", "sampler", "exporter", "propagator")
	parent := values["span_context"]
	if values == nil || parent != nil && !s.censusRemote(c, parent) {
		return s.failCall(c, "The arguments of the tracer are in no table.")
	}
	fail := func(n *syntax.Node) (string, bool) {
		s.mark(c.Callee())
		return s.blockAt(n, "%s is in no table as a part of the tracer.", s.brief(n))
	}
	sampler, service := s.quote("probabilistic")+", "+s.quote("param")+": 0.0001", ""
	note := "The exporter reads its endpoint from OTEL_EXPORTER_OTLP_ENDPOINT. Set it where the address of the old exporter is configured."
	if v := values["sampler"]; v != nil {
		made, class := s.setting(v, c)
		switch class {
		case "AlwaysOnSampler":
			sampler = s.quote("const") + ", " + s.quote("param") + ": 1"
		case "AlwaysOffSampler":
			sampler = s.quote("const") + ", " + s.quote("param") + ": 0"
		case "ProbabilitySampler":
			rates := pyArgs(made, "rate")
			if rates == nil {
				return fail(v)
			}
			if rates["rate"] != nil {
				sampler = s.quote("probabilistic") + ", " + s.quote("param") + ": " + s.text(rates["rate"])
			}
		default:
			return fail(v)
		}
	}
	if v := values["exporter"]; v != nil {
		made, class := s.setting(v, c)
		switch {
		case !slices.Contains(censusExporters, class):
			return fail(v)
		case class == "AzureExporter":
			note += " Azure Monitor is reached by a collector with its exporter azuremonitor."
		case class != "PrintExporter" && made.Arg(0) != nil:
			service = s.text(made.Arg(0))
		case class != "PrintExporter" && made.Named("service_name") != nil:
			service = s.text(made.Named("service_name"))
		}
	}
	if v := values["propagator"]; v != nil {
		_, class := s.setting(v, c)
		if !censusPropagators.MatchString(class) {
			return fail(v)
		}
		if class != "TraceContextPropagator" {
			note += " " + propagationNote
		}
	}
	config := "config={" + s.quote("sampler") + ": {" + s.quote("type") + ": " + sampler + "}}"
	if service == "" {
		note += " Set OTEL_SERVICE_NAME to the name of the service."
	} else {
		config += ", service_name=" + service
	}
	s.mark(c.Callee())
	return s.pySetup(c, config, note), true
}

// censusRemote sets the remote parent of a tracer as the parent of its spans. It reports whether the function that
// makes the tracer uses it only to start such spans, and within them.
func (s *script) censusRemote(c, parent *syntax.Node) bool {
	assign, f := c.Parent, c.Enclosing(syntax.Func)
	if f == nil || parent.Kind != syntax.Name || s.kind(parent) != contextValue || assign.Kind != syntax.Assign || len(assign.Children) != 2 || assign.Children[0].Kind != syntax.Name {
		return false
	}
	for n := range f.All() {
		if s.work++; s.work > maxGoWork {
			return false
		}
		if n.Kind != syntax.Name || n.Text != assign.Children[0].Text || n == assign.Children[0] || s.inSpan(n) {
			continue
		}
		call := n.Parent.Parent
		if n.Parent.Kind != syntax.Member || n.Parent.Text != "span" || call.Kind != syntax.Call || call.Callee() != n.Parent || !s.isResource(call) {
			return false
		}
		s.parents[call] = parent.Text
	}
	return true
}

// inSpan reports whether a node is in the body of a with statement that starts a span.
func (s *script) inSpan(n *syntax.Node) bool {
	for w := n.Enclosing(syntax.With); w != nil; w = w.Enclosing(syntax.With) {
		resources, body := w.Children[:len(w.Children)-1], w.Children[len(w.Children)-1]
		if n.Within(body) && slices.ContainsFunc(resources, func(r *syntax.Node) bool {
			if r.Kind == syntax.Assign {
				r = r.Value()
			}
			receiver, name := r.Called()
			return name == "span" && receiver != nil && s.kind(receiver) == tracerValue
		}) {
			return true
		}
	}
	return false
}

// pySetup returns the source of a tracer of the added module, and adds a step.
func (s *script) pySetup(c *syntax.Node, config, note string) string {
	if s.unit.tracer == "" {
		s.unit.tracer = config
	} else if s.unit.tracer != config {
		note += " OpenTelemetry has one sampler and one service in a process: those of the tracer that is made first."
	}
	s.note(c, note)
	return s.setupName() + "(" + config + ").initialize_tracer()"
}

// setupName returns the name in the file of the added module's class Config.
func (s *script) setupName() string {
	s.setup = true
	if s.config == "" {
		s.config = "Config"
		if _, imported := s.f.Imported("Config"); imported || s.taken["Config"] || regexp.MustCompile(`(?m)^[ \t]*class Config\b`).Match(s.f.Source) {
			s.config = s.fresh("TracingConfig")
		}
	}
	return s.config
}

// isHeaders reports whether a call returns the headers of a request.
func (s *script) isHeaders(c *syntax.Node) bool {
	if c.Kind != syntax.Call {
		return false
	}
	receiver, name := c.Method()
	if f := s.libraryFunction(c); (f == "create_http_headers_for_new_span" || f == "create_http_headers") && len(c.Args()) == 0 {
		return true
	}
	if receiver == nil || name != "to_headers" || len(c.Args()) != 1 {
		return false
	}
	from := c.Args()[0]
	if from.Kind != syntax.Member || from.Text != "span_context" || s.kind(from.Children[0]) != tracerValue {
		return false
	}
	return s.isPropagator(receiver)
}

func (s *script) isPropagator(receiver *syntax.Node) bool {
	return censusPropagators.MatchString(s.libraryFunction(s.partOf(receiver))) || receiver.Kind == syntax.Member && receiver.Text == "propagator" && s.kind(receiver.Children[0]) == tracerValue
}

// pyHeaders rewrites headers.update(new), headers = new and other uses of new headers.
func (s *script) pyHeaders(c *syntax.Node) (string, bool) {
	receiver, name := c.Method()
	if args := c.Args(); receiver != nil && name == "update" && len(args) == 1 && s.isHeaders(args[0]) && c.Parent.Kind == syntax.Block {
		s.mark(args[0])
		return s.use("propagate") + ".inject(" + s.text(receiver) + ")", true
	}
	if !s.isHeaders(c) {
		return "", false
	}
	s.mark(c)
	if p := c.Parent; p.Kind == syntax.Assign && p.Text == "=" && len(p.Children) == 2 && p.Parent.Kind == syntax.Block && s.ownLines(p) {
		return "{}\n" + s.indent(c.Start) + s.use("propagate") + ".inject(" + s.f.Code(p.Children[0]) + ")", true
	}
	at := c
	for at.Parent != nil && at.Parent.Kind != syntax.Block {
		at = at.Parent
		kinds := []syntax.Kind{syntax.Call, syntax.Argument, syntax.Assign, syntax.Return, syntax.Object, syntax.Pair, syntax.Spread, syntax.Await}
		if !slices.Contains(kinds, at.Kind) && (at.Kind != syntax.With || len(at.Children) != 2) {
			return s.blockAt(c, "Headers are made in an expression that no table knows.")
		}
	}
	start := lineStart(s.f.Source, at.Start)
	if strings.TrimSpace(string(s.f.Source[start:at.Start])) != "" {
		return s.blockAt(c, "Headers are made in an expression that no table knows.")
	}
	headers, indent := s.fresh("headers"), s.indent(at.Start)
	s.before = append(s.before, edit{start, start, indent + headers + " = {}\n" + indent + s.use("propagate") + ".inject(" + headers + ")\n"})
	return headers, true
}
