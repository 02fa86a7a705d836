// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"regexp"
	"strconv"
	"strings"

	"assay/internal/review/syntax"
)

var zipkinSpanArgs = []string{
	"service_name", "span_name", "zipkin_attrs", "transport_handler", "max_span_batch_size", "annotations", "binary_annotations", "port", "sample_rate", "include",
	"add_logging_annotation", "report_root_timestamp", "use_128bit_trace_id", "host", "context_stack", "span_storage", "firehose_handler", "kind", "timestamp",
	"duration", "encoding",
}

// pyZipkin rewrites the nodes of py_zipkin. A node that no table knows is marked.
func (s *script) pyZipkin(n *syntax.Node) (string, bool) {
	switch n.Kind {
	case syntax.Name:
		if i, ok := s.f.Imported(n.Text); ok && i.Member == "BaseTransportHandler" && s.isSource(i.Path) && n.Parent.Kind == syntax.Class {
			s.done[n] = true
			s.note(n, "The transport handler is not called any more. Remove it.")
			return "object", true
		}
		return "", false
	case syntax.Member:
		of := n.Children[0]
		if of.Kind == syntax.Member && of.Text == "zipkin_attrs" && s.kind(of.Children[0]) == spanValue && (n.Text == "trace_id" || n.Text == "span_id") {
			return s.use("trace") + ".format_" + n.Text + "(" + s.text(of.Children[0]) + ".get_span_context()." + n.Text + ")", true
		}
		if n.Text == "zipkin_attrs" && s.kind(of) == spanValue {
			return s.fail(n, "%s is in no table.", s.brief(n))
		}
		return "", false
	case syntax.Call:
	default:
		return "", false
	}
	args := n.Args()
	switch f := s.libraryFunction(n); f {
	case "zipkin_span", "zipkin_client_span", "zipkin_server_span":
		return s.zipkinSpan(n, f)
	case "extract_zipkin_attrs_from_headers":
		if len(args) == 0 || args[0].Kind == syntax.Argument {
			return s.fail(n, "The arguments of %s are in no table.", f)
		}
		s.mark(n.Callee())
		return s.use("propagate") + ".extract(" + s.text(args[0]) + ")", true
	case "ZipkinAttrs":
		headers := s.zipkinHeaders(n)
		if headers == nil {
			return s.fail(n, "The context is not read from headers in a way that a table knows.")
		}
		s.mark(n.Callee())
		return s.use("propagate") + ".extract(" + s.text(headers) + ")", true
	}
	if text, ok := s.pyHeaders(n); ok {
		return text, true
	}
	receiver, name := n.Method()
	if receiver == nil || s.kind(receiver) != spanValue {
		if receiver != nil && s.kind(receiver) == unknownValue && (name == "update_binary_annotations" || name == "add_sa_binary_annotation" || name == "override_span_name") {
			return s.fail(n, "%s may be a method of a span: what it is called on is not known.", s.brief(n.Callee()))
		}
		return "", false
	}
	unknown := func() (string, bool) { return s.fail(n, "The arguments of %s are in no table.", s.brief(n.Callee())) }
	span := s.receiverText(n)
	switch name {
	case "update_binary_annotations":
		if len(args) != 1 || args[0].Kind != syntax.Object || n.Parent.Kind != syntax.Block {
			return unknown()
		}
		return s.zipkinTags(n, span, args[0])
	case "add_annotation":
		values := pyArgs(n, "value", "timestamp")
		if values["value"] == nil {
			return unknown()
		}
		text := span + ".add_event(" + s.text(values["value"])
		if t := values["timestamp"]; t != nil {
			text += ", timestamp=int((" + s.text(t) + ") * 1_000_000_000)"
		}
		return text + ")", true
	case "override_span_name":
		if len(args) != 1 || args[0].Kind == syntax.Argument {
			return unknown()
		}
		return span + ".update_name(" + s.text(args[0]) + ")", true
	case "add_sa_binary_annotation":
		names := []string{"port", "service_name", "host"}
		values := pyArgs(n, names...)
		if len(values) == 0 {
			return unknown()
		}
		var out []string
		for i, key := range []string{"server.port", "service.peer.name", "network.peer.address"} {
			if v := values[names[i]]; v != nil {
				out = append(out, s.quote(key)+": "+s.text(v))
			}
		}
		return span + ".set_attributes({" + strings.Join(out, ", ") + "})", true
	case "start", "stop", "get_tracer":
		return s.fail(n, "%s is in no table.", s.brief(n.Callee()))
	}
	return "", false
}

// zipkinTags rewrites the tags of a literal. The tag error becomes a status.
func (s *script) zipkinTags(at *syntax.Node, span string, tags *syntax.Node) (string, bool) {
	var lines, out []string
	for _, p := range tags.Children {
		if p.Kind != syntax.Pair {
			return s.blockAt(at, "%s has tags that are not known.", s.brief(at))
		}
		if k, ok := s.tagOf(p.Children[0]); ok && k == "error" {
			lines = append(lines, span+".set_status("+s.use("trace")+".StatusCode.ERROR, "+s.text(p.Value())+")")
		} else {
			out = append(out, s.key(p.Children[0])+": "+s.text(p.Value()))
		}
	}
	if len(out) > 0 {
		lines = append([]string{span + ".set_attributes({" + strings.Join(out, ", ") + "})"}, lines...)
	}
	if len(lines) == 0 || len(lines) > 1 && !s.ownLines(at) {
		return s.blockAt(at, "The arguments of %s are in no table.", s.brief(at.Callee()))
	}
	return strings.Join(lines, "\n"+s.indent(at.Start)), true
}

// zipkinSpan rewrites zipkin_span(...) as a context manager or decorator.
func (s *script) zipkinSpan(c *syntax.Node, function string) (string, bool) {
	values := pyArgs(c, zipkinSpanArgs...)
	if values == nil {
		return s.fail(c, "The arguments of %s are in no table.", function)
	}
	for _, name := range []string{"annotations", "include", "context_stack", "span_storage", "firehose_handler", "timestamp", "duration"} {
		if v := values[name]; v != nil && v.Kind != syntax.Null {
			return s.fail(c, "The argument %s of a span is in no table.", name)
		}
	}
	if !s.isResource(c) && c.Parent.Kind != syntax.Decorator {
		return s.fail(c, "A span outside of a with statement or decorator is in no table.")
	}
	name, service := s.quote("span"), values["service_name"]
	if v := values["span_name"]; v != nil {
		name = s.text(v)
	}
	if service == nil {
		return s.fail(c, "The service of the span is not known.")
	}
	if !s.oneService(service) {
		return s.fail(c, anotherService)
	}
	kind := map[string]string{"zipkin_client_span": "client", "zipkin_server_span": "server"}[function]
	if v := values["kind"]; v != nil && v.Kind != syntax.Null {
		k, ok := s.tagOf(v)
		if !ok || spanKinds[k] == "" {
			return s.fail(c, "The kind of the span is not known.")
		}
		kind = k
		s.mark(v)
	}
	tags := ""
	if v := values["binary_annotations"]; v != nil && v.Kind != syntax.Null {
		if v.Kind != syntax.Object {
			return s.fail(c, "The tags of the span are no dictionary literal.")
		}
		text, ok := s.pyAttributes(v, nil)
		if !ok {
			return "", false
		}
		tags = text
	}
	tracer, parent := s.pyTracer, ""
	attrs, rate := values["zipkin_attrs"], values["sample_rate"]
	switch {
	case attrs != nil && attrs.Kind != syntax.Null && s.kind(attrs) == contextValue:
		parent = s.text(attrs)
	case attrs != nil && attrs.Kind != syntax.Null:
		return s.fail(c, "It is not known whether %s is a context.", s.brief(attrs))
	case rate != nil && rate.Kind != syntax.Null: // starts a trace
		parent = s.use("context") + ".Context()"
	}
	if handler := values["transport_handler"]; handler != nil && handler.Kind != syntax.Null && parent != "" {
		config := "service_name=" + s.text(service)
		if rate != nil && rate.Kind != syntax.Null {
			config = "config={" + s.quote("sampler") + ": {" + s.quote("type") + ": " + s.quote("probabilistic") + ", " + s.quote("param") + ": " + s.percent(rate) + "}}, " + config
		}
		tracer = func() string {
			return s.pySetup(c, config, "The exporter reads its endpoint from OTEL_EXPORTER_OTLP_ENDPOINT. Set it where the address of Zipkin is configured. "+propagationNote)
		}
	}
	if parent != "" && kind == "" {
		kind = "server" // the kind that py_zipkin sends
	}
	if kind != "" && kind != "internal" {
		name += ", kind=" + s.use("trace") + ".SpanKind." + strings.ToUpper(kind)
	}
	if parent != "" {
		name += ", context=" + parent
	}
	if tags != "" && tags != "{}" {
		name += ", attributes=" + tags
	}
	for _, dropped := range []string{"transport_handler", "max_span_batch_size", "port", "add_logging_annotation", "report_root_timestamp", "use_128bit_trace_id", "host", "encoding"} {
		if v := values[dropped]; v != nil {
			s.mark(v)
		}
	}
	s.mark(c.Callee())
	return tracer() + ".start_as_current_span(" + name + ")", true
}

// percent returns the source of a rate from 0 to 1 for a percentage.
func (s *script) percent(n *syntax.Node) string {
	if f, err := strconv.ParseFloat(n.Text, 64); err == nil && n.Kind == syntax.Number {
		return strconv.FormatFloat(f/100, 'g', 12, 64)
	}
	if n.Kind == syntax.Name || n.Kind == syntax.Member {
		return s.text(n) + " / 100"
	}
	return "(" + s.text(n) + ") / 100"
}

var b3Header = regexp.MustCompile(`(?i)^x-b3-(trace|span|parentspan)id$`)

// zipkinHeaders returns the carrier from which ZipkinAttrs(...) reads all ids, or nil.
func (s *script) zipkinHeaders(c *syntax.Node) *syntax.Node {
	values := pyArgs(c, "trace_id", "span_id", "parent_span_id", "flags", "is_sampled")
	var headers *syntax.Node
	for _, id := range []string{"trace_id", "span_id", "parent_span_id"} {
		v := values[id]
		if v == nil {
			return nil
		}
		var from, key *syntax.Node
		switch receiver, name := v.Called(); {
		case name == "get" && receiver != nil && v.Arg(0) != nil:
			from, key = receiver, v.Arg(0)
		case v.Kind == syntax.Index && len(v.Children) == 2:
			from, key = v.Children[0], v.Children[1]
		default:
			return nil
		}
		if header, ok := s.f.Known(key); !ok || !b3Header.MatchString(header) || headers != nil && s.f.Code(headers) != s.f.Code(from) {
			return nil
		}
		headers = from
	}
	for _, flag := range []string{"flags", "is_sampled"} {
		if v := values[flag]; v != nil && v.Kind != syntax.String && v.Kind != syntax.Bool && v.Kind != syntax.Null && !strings.Contains(s.f.Code(v), s.f.Code(headers)) {
			return nil
		}
	}
	return headers
}
