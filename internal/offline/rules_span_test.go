// SPDX-License-Identifier: Apache-2.0

package offline_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	. "assay/internal/rules/rulestest"
)

func kind(k tracepb.Span_SpanKind) func(*tracepb.Span) {
	return func(s *tracepb.Span) { s.Kind = k }
}

func lasting(d time.Duration) func(*tracepb.Span) {
	return func(s *tracepb.Span) { s.StartTimeUnixNano = s.EndTimeUnixNano - uint64(d) }
}

func named(name string) func(*tracepb.Span) {
	return func(s *tracepb.Span) { s.Name = name }
}

func ending(at time.Time) func(*tracepb.Span) {
	return func(s *tracepb.Span) {
		s.StartTimeUnixNano = Nano(at) - (s.EndTimeUnixNano - s.StartTimeUnixNano)
		s.EndTimeUnixNano = Nano(at)
	}
}

// spans returns n spans of a trace with ids starting at from, all children of parent.
func spans(n, trace, from, parent int, set ...func(*tracepb.Span)) []*tracepb.Span {
	list := make([]*tracepb.Span, n)
	for i := range list {
		list[i] = Span(trace, from+i, parent, set...)
	}
	return list
}

// repeated returns a span n times.
func repeated(n int, s *tracepb.Span) []*tracepb.Span { return slices.Repeat([]*tracepb.Span{s}, n) }

const (
	internal = tracepb.Span_SPAN_KIND_INTERNAL
	client   = tracepb.Span_SPAN_KIND_CLIENT
)

// TestTraceRules tests SPA-001, SPA-002 and SPA-005.
func TestTraceRules(t *testing.T) {
	a, b := Service("a"), Service("b")
	short := lasting(5*time.Millisecond - 1)
	requireVerdicts(t, []verdictCase{
		// SPA-001
		{name: "10 internal spans", in: []Request{Traces(Spans(a, spans(10, 1, 1, 0, kind(internal))...))}, want: []string{"a: +SPA-001"}},
		{name: "11 internal spans", in: []Request{Traces(Spans(a, spans(11, 1, 1, 0, kind(internal))...))}, want: []string{"a: -SPA-001"}},
		{name: "11 internal spans in 11 requests", in: func() (in []Request) {
			for _, s := range spans(11, 1, 1, 0, kind(internal)) {
				in = append(in, Traces(Spans(a, s)))
			}
			return in
		}(), want: []string{"a: -SPA-001"}},
		{name: "11 internal spans in two traces", in: []Request{Traces(Spans(a, append(spans(6, 1, 1, 0, kind(internal)), spans(5, 2, 1, 0, kind(internal))...)...))}, want: []string{"a: +SPA-001"}},
		{name: "11 internal spans of two services", in: []Request{Traces(Spans(a, spans(10, 1, 1, 0, kind(internal))...), Spans(b, Span(1, 11, 0, kind(internal))))}, want: []string{"a: +SPA-001", "b: +SPA-001"}},
		{
			name: "11 internal spans of two versions", in: []Request{Traces(
				Spans(Service("a", "service.version", "1"), spans(10, 1, 1, 0, kind(internal))...), Spans(Service("a", "service.version", "2"), Span(1, 11, 0, kind(internal))))},
			want: []string{"|a|test|1: +SPA-001", "|a|test|2: +SPA-001"},
		},
		{
			name: "11 internal spans of two instances", in: []Request{Traces(
				Spans(a, spans(10, 1, 1, 0, kind(internal))...), Spans(Service("a", "x", "y"), Span(1, 11, 0, kind(internal))))},
			want: []string{"a: -SPA-001"},
		},
		{name: "11 spans of an unspecified kind", in: []Request{Traces(Spans(a, spans(11, 1, 1, 0, kind(0))...))}, want: []string{"a: +SPA-001"}},
		{name: "one bad trace of two", in: []Request{Traces(Spans(a, append(spans(11, 1, 1, 0, kind(internal)), Span(2, 1, 0))...))}, want: []string{"a: -SPA-001"}},
		{name: "another service in the trace passes", in: []Request{Traces(Spans(a, spans(11, 1, 1, 0, kind(internal))...), Spans(b, Span(1, 50, 0)))}, want: []string{"a: -SPA-001", "b: +SPA-001"}},
		{name: "spans without a trace id are in no trace", in: []Request{Traces(Spans(a, spans(11, 1, 1, 0, kind(internal), func(s *tracepb.Span) { s.TraceId = nil })...))}, want: []string{"a: ~SPA-001 ~SPA-002 ~SPA-005 +SPA-006"}},
		{name: "an all-zero trace id is none", in: []Request{Traces(Spans(a, spans(11, 1, 1, 0, kind(internal), func(s *tracepb.Span) { s.TraceId = make([]byte, 16) })...))}, want: []string{"a: ~SPA-001"}},

		{name: "6 internal spans twice", in: []Request{Traces(Spans(a, spans(6, 1, 1, 0, kind(internal))...)), Traces(Spans(Service("a", "x", "y"), spans(6, 1, 1, 0, kind(internal))...))}, want: []string{"a: +SPA-001"}},
		{name: "10 internal spans twice", in: []Request{Traces(Spans(a, append(spans(10, 1, 1, 0, kind(internal)), spans(10, 1, 1, 0, kind(internal))...)...))}, want: []string{"a: +SPA-001"}},
		{name: "11 internal spans twice", in: []Request{Traces(Spans(a, append(spans(11, 1, 1, 0, kind(internal)), spans(11, 1, 1, 0, kind(internal))...)...))}, want: []string{"a: -SPA-001"}},
		{name: "10 internal spans and 10 client spans with their ids", in: []Request{Traces(Spans(a, append(spans(10, 1, 1, 0, kind(client)), spans(10, 1, 1, 0, kind(internal))...)...))}, want: []string{"a: +SPA-001"}},
		{name: "11 internal spans without an id", in: []Request{Traces(Spans(a, repeated(11, Span(1, 0, 0, kind(internal)))...))}, want: []string{"a: -SPA-001"}},
		{name: "21 internal spans without an id", in: []Request{Traces(Spans(a, repeated(21, Span(1, 0, 0, kind(internal)))...))}, want: []string{"a: -SPA-001"}},

		// SPA-002
		{name: "only a root", in: []Request{Traces(Spans(a, Span(1, 1, 0)))}, want: []string{"a: ~SPA-002"}},
		{name: "an all-zero parent is none", in: []Request{Traces(Spans(a, Span(1, 1, 0, func(s *tracepb.Span) { s.ParentSpanId = make([]byte, 8) })))}, want: []string{"a: ~SPA-002 +SPA-004"}},
		{name: "a parent in the request", in: []Request{Traces(Spans(a, Span(1, 1, 0), Span(1, 2, 1)))}, want: []string{"a: +SPA-002"}},
		{name: "a parent in a later request", in: []Request{Traces(Spans(a, Span(1, 2, 1))), Traces(Spans(a, Span(1, 1, 0)))}, want: []string{"a: +SPA-002"}},
		{name: "a parent of another service", in: []Request{Traces(Spans(b, Span(1, 1, 0))), Traces(Spans(a, Span(1, 2, 1)))}, want: []string{"a: +SPA-002", "b: ~SPA-002"}},
		{name: "a missing parent", in: []Request{Traces(Spans(a, Span(1, 2, 1)))}, want: []string{"a: -SPA-002"}},
		{name: "the parent is in another trace", in: []Request{Traces(Spans(a, Span(1, 2, 1), Span(2, 1, 0)))}, want: []string{"a: -SPA-002"}},
		{name: "one orphan of many", in: []Request{Traces(Spans(a, append(spans(30, 1, 2, 1), Span(1, 1, 0), Span(1, 99, 98))...))}, want: []string{"a: -SPA-002"}},
		{name: "the orphan's service fails, not the others", in: []Request{Traces(Spans(a, Span(1, 1, 0), Span(1, 2, 1)), Spans(b, Span(1, 3, 99)))}, want: []string{"a: +SPA-002", "b: -SPA-002"}},
		{name: "a span that names itself has a parent that arrived", in: []Request{Traces(Spans(a, Span(1, 1, 1)))}, want: []string{"a: +SPA-002"}},
		{name: "spans without an id are not parents", in: []Request{Traces(Spans(a, Span(1, 0, 0), Span(1, 2, 9)))}, want: []string{"a: -SPA-002"}},

		// SPA-005
		{name: "20 short spans", in: []Request{Traces(Spans(a, spans(20, 1, 1, 0, short)...))}, want: []string{"a: +SPA-005"}},
		{name: "21 short spans", in: []Request{Traces(Spans(a, spans(21, 1, 1, 0, short)...))}, want: []string{"a: -SPA-005"}},
		{name: "21 spans of exactly 5 ms", in: []Request{Traces(Spans(a, spans(21, 1, 1, 0, lasting(5*time.Millisecond))...))}, want: []string{"a: +SPA-005"}},
		{name: "21 spans of no length", in: []Request{Traces(Spans(a, spans(21, 1, 1, 0, lasting(0))...))}, want: []string{"a: -SPA-005"}},
		{name: "21 spans that end before they start", in: []Request{Traces(Spans(a, spans(21, 1, 1, 0, func(s *tracepb.Span) { s.StartTimeUnixNano = s.EndTimeUnixNano + 1 })...))}, want: []string{"a: +SPA-005"}},
		{name: "21 spans without an end", in: []Request{Traces(Spans(a, spans(21, 1, 1, 0, func(s *tracepb.Span) { s.EndTimeUnixNano = 0 })...))}, want: []string{"a: +SPA-005"}},
		{
			name: "21 short spans of three services: the one with the most", in: []Request{Traces(
				Spans(a, spans(5, 1, 1, 0, short)...), Spans(b, spans(9, 1, 11, 0, short)...), Spans(Service("c"), spans(7, 1, 21, 0, short)...), Spans(Service("d"), Span(1, 31, 0)))},
			want: []string{"a: +SPA-005", "b: -SPA-005", "c: +SPA-005", "d: +SPA-005"},
		},
		{name: "a tie: the first by name, whichever was seen first", in: []Request{Traces(Spans(b, Span(1, 90, 0)), Spans(a, spans(11, 1, 1, 0, short)...), Spans(b, spans(11, 1, 21, 0, short)...))}, want: []string{"a: -SPA-005", "b: +SPA-005"}},
		{name: "a tie, in other order", in: []Request{Traces(Spans(a, spans(11, 1, 1, 0, short)...)), Traces(Spans(b, spans(11, 1, 21, 0, short)...))}, want: []string{"a: -SPA-005", "b: +SPA-005"}},
		{name: "21 short spans in two traces", in: []Request{Traces(Spans(a, append(spans(11, 1, 1, 0, short), spans(10, 2, 1, 0, short)...)...))}, want: []string{"a: +SPA-005"}},
		{name: "20 short spans twice", in: []Request{Traces(Spans(a, spans(20, 1, 1, 0, short)...)), Traces(Spans(Service("a", "x", "y"), spans(20, 1, 1, 0, short)...))}, want: []string{"a: +SPA-005"}},
		{name: "a short span 21 times", in: []Request{Traces(Spans(a, repeated(21, Span(1, 1, 0, short))...))}, want: []string{"a: +SPA-005"}},
		{name: "11 short spans of each of two services that share ids", in: []Request{Traces(Spans(b, spans(11, 1, 1, 0, short)...), Spans(a, spans(11, 1, 1, 0, short)...))}, want: []string{"a: -SPA-005", "b: +SPA-005"}},
		{
			name: "repeated spans do not make a service the one with the most", in: []Request{Traces(
				Spans(a, append(spans(10, 1, 1, 0, short), spans(10, 1, 1, 0, short)...)...), Spans(b, spans(11, 1, 21, 0, short)...))},
			want: []string{"a: +SPA-005", "b: -SPA-005"},
		},
		{
			name: "two resources of one service count together", in: []Request{Traces(
				Spans(a, spans(8, 1, 1, 0, short)...), Spans(Service("a", "x", "y"), spans(8, 1, 11, 0, short)...), Spans(b, spans(9, 1, 21, 0, short)...))},
			want: []string{"a: -SPA-005", "b: +SPA-005"},
		},
	})
}

// TestSpanNameRule tests SPA-003.
func TestSpanNameRule(t *testing.T) {
	hour := time.Date(2026, 10, 15, 11, 0, 0, 0, time.UTC)
	names := func(from, n int, at time.Time, resource []Attr) Request {
		var list []*tracepb.Span
		for i := range n {
			list = append(list, Span(from+i+1, 1, 0, named(fmt.Sprint("op ", from+i)), ending(at)))
		}
		return Traces(Spans(resource, list...))
	}
	a := Service("a")
	requireVerdicts(t, []verdictCase{
		{name: "1,000 names in an hour", in: []Request{names(0, 1000, hour, a)}, want: []string{"a: +SPA-003"}},
		{name: "1,001 names in an hour", in: []Request{names(0, 1001, hour, a)}, want: []string{"a: -SPA-003"}},
		{name: "1,001 names in two requests", in: []Request{names(0, 600, hour, a), names(600, 401, hour.Add(time.Hour-1), a)}, want: []string{"a: -SPA-003"}},
		{name: "1,000 names twice", in: []Request{names(0, 1000, hour, a), names(0, 1000, hour.Add(time.Minute), a)}, want: []string{"a: +SPA-003"}},
		{name: "1,001 names in two clock hours", in: []Request{names(0, 1000, hour.Add(time.Hour-1), a), names(1000, 1, hour.Add(time.Hour), a)}, want: []string{"a: +SPA-003"}},
		{name: "a bad hour, then a good one", in: []Request{names(0, 1001, hour.Add(-5*time.Hour), a), names(0, 1, hour, a)}, want: []string{"a: -SPA-003"}},
		{name: "1,001 names of two versions", in: []Request{names(0, 1000, hour, a), names(1000, 1, hour, Service("a", "service.version", "2"))}, want: []string{"|a|test|: +SPA-003", "|a|test|2: +SPA-003"}},
		{name: "the empty name is a name", in: []Request{names(0, 1000, hour, a), Traces(Spans(a, Span(9999, 1, 0, named(""), ending(hour))))}, want: []string{"a: -SPA-003"}},
		{name: "names that differ in case and in sensitive parts are different", in: func() []Request {
			var list []*tracepb.Span
			for i := range 1001 {
				list = append(list, Span(i+1, 1, 0, named(fmt.Sprintf("mail u%d@example.com", i))))
			}
			return []Request{Traces(Spans(a, list...))}
		}(), want: []string{"a: -SPA-003 -SPA-006"}},
		{name: "no spans", in: []Request{LogsRequest(Logs(a, Log("x")))}, want: []string{"a: ~SPA-001 ~SPA-002 ~SPA-003 ~SPA-004 ~SPA-005 ~SPA-006"}},
	})
}

// TestSpanRules tests SPA-004, SPA-006 and RES-004.
func TestSpanRules(t *testing.T) {
	a := Service("a")
	const mail = "jane@example.com"
	web := func(language any) []Attr { return Service("a", "telemetry.sdk.language", language) }
	attributes := func(pairs ...any) func(*tracepb.Span) {
		return func(s *tracepb.Span) { s.Attributes = Attrs(pairs...) }
	}
	event := func(name string, pairs ...any) func(*tracepb.Span) {
		return func(s *tracepb.Span) { s.Events = []*tracepb.Span_Event{{Name: name, Attributes: Attrs(pairs...)}} }
	}
	link := func(pairs ...any) func(*tracepb.Span) {
		return func(s *tracepb.Span) {
			s.Links = []*tracepb.Span_Link{{TraceId: TraceID(7), SpanId: SpanID(7), Attributes: Attrs(pairs...)}}
		}
	}
	of := func(resource []Attr, set ...func(*tracepb.Span)) []Request {
		return []Request{Traces(Spans(resource, Span(1, 1, 0, set...)))}
	}
	scoped := func(scope *commonpb.InstrumentationScope) []Request {
		return []Request{Traces(ScopeSpans(a, scope, Span(1, 1, 0)))}
	}
	cases := []verdictCase{
		{name: "a server root", in: of(a), want: []string{"a: +SPA-004"}},
		{name: "a client root", in: of(a, kind(client)), want: []string{"a: -SPA-004"}},
		{name: "a client root in a browser", in: of(web("webjs"), kind(client)), want: []string{"a: ~SPA-004"}},
		{name: "a client root in node", in: of(web("nodejs"), kind(client)), want: []string{"a: -SPA-004"}},
		{name: "webjs is compared exactly", in: of(web("WebJS"), kind(client)), want: []string{"a: -SPA-004"}},
		{name: "a language that is no string", in: of(web([]any{"webjs"}), kind(client)), want: []string{"a: -SPA-004"}},
		{name: "a client child", in: []Request{Traces(Spans(a, Span(1, 2, 1, kind(client))))}, want: []string{"a: ~SPA-004"}},
		{name: "a producer root", in: of(a, kind(tracepb.Span_SPAN_KIND_PRODUCER)), want: []string{"a: +SPA-004"}},
		{name: "a client root without a trace id", in: of(a, kind(client), func(s *tracepb.Span) { s.TraceId = nil }), want: []string{"a: -SPA-004"}},

		{name: "nothing sensitive", in: of(a, attributes("x", "y"), event("e", "x", "y"), link("x", "y")), want: []string{"a: +SPA-006 +RES-010"}},
		{name: "in the name", in: of(a, named("mail to "+mail)), want: []string{"a: -SPA-006 +RES-010"}},
		{name: "in the status", in: of(a, func(s *tracepb.Span) { s.Status = &tracepb.Status{Message: "no such user " + mail} }), want: []string{"a: -SPA-006"}},
		{name: "in an attribute", in: of(a, attributes("x", mail)), want: []string{"a: -SPA-006"}},
		{name: "in an attribute's key", in: of(a, attributes(mail, 1)), want: []string{"a: -SPA-006"}},
		{name: "by an attribute's name", in: of(a, attributes("db.password", "hunter2")), want: []string{"a: -SPA-006"}},
		{name: "in an array", in: of(a, attributes("x", []any{1, []any{"a", mail}})), want: []string{"a: -SPA-006"}},
		{name: "in a map", in: of(a, attributes("x", Attrs("y", Attrs("ssn", 123456789)))), want: []string{"a: -SPA-006"}},
		{name: "after a flag", in: of(a, attributes("process.args", []any{"--password", "x"})), want: []string{"a: -SPA-006"}},
		{name: "an int under a name that counts strings only", in: of(a, attributes("password", 12345)), want: []string{"a: +SPA-006"}},
		{name: "a card as an int", in: of(a, attributes("n", 4111111111111111)), want: []string{"a: -SPA-006"}},
		{name: "a double and bytes never", in: of(a, attributes("ssn", 123456789.0, "password", []byte("hunter22"))), want: []string{"a: +SPA-006"}},
		{name: "in an event's name", in: of(a, event("mail "+mail)), want: []string{"a: -SPA-006"}},
		{name: "in an event's attribute", in: of(a, event("e", "x", mail)), want: []string{"a: -SPA-006"}},
		{name: "in a link's attribute", in: of(a, link("x", mail)), want: []string{"a: -SPA-006"}},
		{name: "in the scope's name", in: scoped(&commonpb.InstrumentationScope{Name: mail}), want: []string{"a: -SPA-006"}},
		{name: "in the scope's version", in: scoped(&commonpb.InstrumentationScope{Name: "l", Version: mail}), want: []string{"a: -SPA-006"}},
		{name: "in the scope's attribute", in: scoped(&commonpb.InstrumentationScope{Name: "l", Attributes: Attrs("x", mail)}), want: []string{"a: -SPA-006"}},
		{name: "in the trace state, which is not looked at", in: of(a, func(s *tracepb.Span) { s.TraceState = "x=" + mail }), want: []string{"a: +SPA-006"}},

		{name: "RES-004 in an event", in: of(a, event("e", "host.name", "h")), want: []string{"a: +RES-004"}},
		{name: "RES-004 in a link", in: of(a, link("host.name", "h")), want: []string{"a: +RES-004"}},
		{name: "RES-004 in a scope", in: scoped(&commonpb.InstrumentationScope{Name: "l", Attributes: Attrs("host.name", "h")}), want: []string{"a: +RES-004"}},
		{name: "RES-004 in a data point", in: []Request{MetricsRequest(Metrics(a, Gauge("x", "1", Point(T0, "host.name", "h"))))}, want: []string{"a: +RES-004"}},
	}
	for key, want := range map[string]string{
		"host.name": "-", "telemetry.sdk.language": "-", "k8s.pod.label.app": "-", "cloud.provider": "-", "cloud.account.id": "+", "cloud.resource_id": "+",
		"http.request.method": "+", "k8s.pod.label.": "+", "my.key": "+", "user.id": "+",
	} {
		cases = append(cases,
			verdictCase{name: "RES-004 on a span: " + key, in: of(a, attributes(key, "x")), want: []string{"a: " + want + "RES-004"}},
			verdictCase{name: "RES-004 on a nested key of a span: " + key, in: of(a, attributes("my.map", Attrs(key, "x"))), want: []string{"a: +RES-004"}})
	}
	requireVerdicts(t, cases)
}
