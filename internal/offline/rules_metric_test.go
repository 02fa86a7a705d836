// SPDX-License-Identifier: Apache-2.0

package offline_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"

	. "assay/internal/rules/rulestest"
)

// TestMetricRules tests MET-002 and MET-005 to MET-008.
func TestMetricRules(t *testing.T) {
	a := Service("a")
	of := func(metrics ...*metricspb.Metric) []Request { return []Request{MetricsRequest(Metrics(a, metrics...))} }
	var cases []verdictCase
	add := func(name string, in []Request, want ...string) {
		cases = append(cases, verdictCase{name: name, in: in, want: want})
	}

	// MET-002
	for unit, want := range map[string]string{
		"1": "+", "%": "+", "{request}": "+", "By/s": "+", "ms": "+", "Cel": "+", "s": "+", "KiBy": "+", "kBy": "+", "m/s2": "+", "{fault}/s": "+",
		"": "-", "seconds": "-", "bytes": "-", "ms per op": "-", "requests": "-", " ": "-", "By/": "-", "{request": "-", "S/x": "-", "msec": "-",
	} {
		add("MET-002 "+unit, of(Gauge("x", unit)), "a: "+want+"MET-002")
	}
	for name, m := range map[string]func(unit string) *metricspb.Metric{
		"gauge":                 func(u string) *metricspb.Metric { return Gauge("x", u) },
		"sum":                   func(u string) *metricspb.Metric { return Sum("x", u) },
		"histogram":             func(u string) *metricspb.Metric { return Histogram("x", u, T0, nil) },
		"exponential histogram": func(u string) *metricspb.Metric { return ExponentialHistogram("x", u) },
		"summary":               func(u string) *metricspb.Metric { return Summary("x", u) },
	} {
		add("MET-002 in a "+name, of(m("1")), "a: +MET-002 +MET-003 +MET-006 +MET-007 +MET-008 ~MET-001 ~MET-005")
		add("MET-002 failing in a "+name, of(m("requests")), "a: -MET-002")
	}
	add("one bad metric of two", of(Gauge("x", "1"), Gauge("y", "")), "a: -MET-002")

	// MET-005
	for _, c := range []struct{ name, unit, want string }{
		{"process.uptime", "s", "+"},
		{"process.uptime.seconds", "s", "-"},
		{"process_uptime_Second", "s", "-"},
		{"s", "s", "+"},
		{"uptimeseconds", "s", "+"},
		{"http/server-milliseconds", "ms", "-"},
		{"http.ms", "ms", "-"},
		{"http.MS", "ms", "-"},
		{"http.seconds", "ms", "+"},
		{"http.us", "us", "-"},
		{"http.ns", "ns", "-"},
		{"weight.kg", "kg", "-"},
		{"weight.g", "g", "+"},
		{"temperature.min", "min", "+"},
		{"temperature.minutes", "min", "-"},
		{"age.hours", "h", "-"},
		{"age.days", "d", "-"},
		{"memory.bytes", "By", "-"},
		{"memory.By", "By", "+"},
		{"memory.kilobytes", "kBy", "-"},
		{"memory.kibibytes", "KiBy", "-"},
		{"memory.kibibytes", "kBy", "+"},
		{"memory.megabyte", "MBy", "-"},
		{"memory.mebibyte", "MiBy", "-"},
		{"memory.gigabytes", "GBy", "-"},
		{"memory.gibibytes", "GiBy", "-"},
		{"link.bits", "bit", "-"},
		{"cpu.percent", "%", "-"},
		{"cpu.percentage", "%", "+"},
		{"room.celsius", "Cel", "-"},
		{"cpu.hertz", "Hz", "-"},
		{"heat.joules", "J", "-"},
		{"power.watts", "W", "-"},
		{"supply.volts", "V", "-"},
		{"supply.amperes", "A", "-"},
		{"way.meters", "m", "-"},
		{"way.metre", "m", "-"},
		{"weight.grams", "g", "-"},
		{"weight.kilograms", "kg", "-"},
		{"http.requests", "{request}", "~"},
		{"x.ratio", "1", "~"},
		{"x.seconds", "", "~"},
		{"x.bytes", "By/s", "~"},
		{"x.seconds", "seconds", "~"},
	} {
		add("MET-005 "+c.name+" in "+c.unit, of(Gauge(c.name, c.unit)), "a: "+c.want+"MET-005")
	}

	// MET-006
	for name, want := range map[string]string{
		"http.request.method": "-", "http.method": "-", "service.name": "-",
		"http.request.header": "+", "http.request.header.x": "+", "http.server.request.duration": "+", "HTTP.request.method": "+",
	} {
		add("MET-006 "+name, of(Gauge(name, "1")), "a: "+want+"MET-006")
	}

	// MET-007
	for _, key := range []string{"host.ip", "host.mac", "process.command_args", "process.command_line", "process.runtime.description", "os.description"} {
		for signal, q := range eachSignal(Service("a", key, []any{"x"})) {
			want := "~"
			if signal == "metrics" {
				want = "-"
			}
			add("MET-007 "+key+" on "+signal, []Request{q}, "a: "+want+"MET-007")
		}
		add("MET-007 an empty "+key, []Request{MetricsRequest(Metrics(Service("a", key, ""), Gauge("x", "1")))}, "a: +MET-007")
	}
	add("MET-007 another key", []Request{MetricsRequest(Metrics(Service("a", "host.name", "h", "process.command", "x"), Gauge("x", "1")))}, "a: +MET-007")
	add("MET-007 on traces, metrics clean", []Request{
		Traces(Spans(Service("a", "host.ip", "x"), Span(1, 1, 0))), MetricsRequest(Metrics(a, Gauge("x", "1"))),
	}, "a: +MET-007")

	// MET-008
	const mail = "jane@example.com"
	described := func(text string) *metricspb.Metric {
		m := Gauge("x", "1")
		m.Description = text
		return m
	}
	exemplar := func(m *metricspb.Metric) *metricspb.Metric {
		list := []*metricspb.Exemplar{{TimeUnixNano: Nano(T0), FilteredAttributes: Attrs("x", mail)}}
		switch d := m.Data.(type) {
		case *metricspb.Metric_Gauge:
			d.Gauge.DataPoints[0].Exemplars = list
		case *metricspb.Metric_Sum:
			d.Sum.DataPoints[0].Exemplars = list
		case *metricspb.Metric_Histogram:
			d.Histogram.DataPoints[0].Exemplars = list
		case *metricspb.Metric_ExponentialHistogram:
			d.ExponentialHistogram.DataPoints[0].Exemplars = list
		}
		return m
	}
	scoped := func(scope *commonpb.InstrumentationScope) []Request {
		e := Metrics(a, Gauge("x", "1"))
		e.ScopeMetrics[0].Scope = scope
		return []Request{MetricsRequest(e)}
	}
	add("MET-008 in the name", of(Gauge(mail, "1")), "a: -MET-008")
	add("MET-008 in the description", of(described("mail "+mail)), "a: -MET-008")
	add("MET-008 in the unit", of(Gauge("x", "{"+mail+"}")), "a: -MET-008")
	add("MET-008 in the metadata, which is not looked at", of(&metricspb.Metric{Name: "x", Unit: "1", Metadata: Attrs("x", mail), Data: Gauge("", "").Data}), "a: +MET-008")
	for name, m := range map[string]*metricspb.Metric{
		"gauge": Gauge("x", "1", Point(T0, "x", mail)), "sum": Sum("x", "1", "x", mail), "histogram": Histogram("x", "1", T0, nil, "x", mail),
		"exponential histogram": ExponentialHistogram("x", "1", "x", mail), "summary": Summary("x", "1", "x", mail),
	} {
		add("MET-008 in an attribute of a "+name, of(m), "a: -MET-008 +MET-001 +RES-010")
	}
	for name, m := range map[string]*metricspb.Metric{
		"gauge": Gauge("x", "1"), "sum": Sum("x", "1"), "histogram": Histogram("x", "1", T0, nil), "exponential histogram": ExponentialHistogram("x", "1"),
	} {
		add("MET-008 in an exemplar of a "+name, of(exemplar(m)), "a: -MET-008 ~MET-001")
	}
	add("MET-008 in the last of many points", of(Gauge("x", "1", Point(T0), Point(T0, "x", "y"), Point(T0, "x", mail))), "a: -MET-008")
	add("MET-008 in the scope's name", scoped(&commonpb.InstrumentationScope{Name: mail}), "a: -MET-008")
	add("MET-008 in the scope's version", scoped(&commonpb.InstrumentationScope{Version: mail}), "a: -MET-008")
	add("MET-008 in the scope's attributes", scoped(&commonpb.InstrumentationScope{Attributes: Attrs("db.password", "hunter2")}), "a: -MET-008")

	add("no metrics", one(a), "a: ~MET-001 ~MET-002 ~MET-003 ~MET-004 ~MET-005 ~MET-006 ~MET-007 ~MET-008")
	add("a metric without data", of(&metricspb.Metric{Name: "x", Unit: ""}), "a: absent")
	add("a metric without points", of(&metricspb.Metric{Name: "x", Data: &metricspb.Metric_Sum{Sum: &metricspb.Sum{}}}), "a: absent")
	add("a metric without points beside another", of(&metricspb.Metric{Name: "x", Data: &metricspb.Metric_Sum{Sum: &metricspb.Sum{}}}, Gauge("y", "1")), "a: +MET-002")
	requireVerdicts(t, cases)
}

// TestConflictRules tests MET-003 and MET-004.
func TestConflictRules(t *testing.T) {
	const day = 24 * time.Hour
	at := func(service, unit string, when time.Time) Request {
		return MetricsRequest(Metrics(Service(service), Gauge("x", unit, Point(when))))
	}
	bounds := func(service string, when time.Time, b ...float64) Request {
		return MetricsRequest(Metrics(Service(service), Histogram("h", "s", when, b)))
	}
	now := Traces(Spans(Service("clock"), Span(1, 1, 0))) // the window ends at T0
	requireVerdicts(t, []verdictCase{
		{name: "one unit", in: []Request{at("a", "s", T0), at("b", "s", T0)}, want: []string{"a: +MET-003 ~MET-004", "b: +MET-003"}},
		{name: "two units in one service", in: []Request{at("a", "s", T0), at("a", "ms", T0)}, want: []string{"a: -MET-003"}},
		{name: "two units in one request", in: []Request{MetricsRequest(Metrics(Service("a"), Gauge("x", "s"), Gauge("x", "ms")))}, want: []string{"a: -MET-003"}},
		{name: "two units in two services", in: []Request{at("a", "s", T0), at("b", "ms", T0), at("c", "s", T0)}, want: []string{"a: -MET-003", "b: -MET-003", "c: -MET-003"}},
		{name: "an empty unit against a set one", in: []Request{at("a", "", T0), at("b", "s", T0)}, want: []string{"a: -MET-003", "b: -MET-003"}},
		{name: "empty units agree", in: []Request{at("a", "", T0), at("b", "", T0)}, want: []string{"a: +MET-003 -MET-002", "b: +MET-003"}},
		{name: "units are compared exactly", in: []Request{at("a", "s", T0), at("b", "S", T0)}, want: []string{"a: -MET-003"}},
		{name: "names are compared exactly", in: []Request{at("a", "s", T0), MetricsRequest(Metrics(Service("b"), Gauge("X", "ms")))}, want: []string{"a: +MET-003", "b: +MET-003"}},
		{name: "types do not matter to MET-003", in: []Request{at("a", "s", T0), MetricsRequest(Metrics(Service("b"), Histogram("x", "ms", T0, nil)))}, want: []string{"a: -MET-003", "b: -MET-003 +MET-004"}},
		{name: "one conflict of many names", in: []Request{MetricsRequest(Metrics(Service("a"), Gauge("x", "s"), Gauge("y", "s"))), at("b", "ms", T0), MetricsRequest(Metrics(Service("c"), Gauge("y", "s")))}, want: []string{"a: -MET-003", "b: -MET-003", "c: +MET-003"}},
		{name: "exactly 14 days old", in: []Request{now, at("a", "s", After(-14*day)), at("b", "ms", T0)}, want: []string{"a: -MET-003", "b: -MET-003"}},
		{name: "older than 14 days: neither evaluated nor a conflict", in: []Request{now, at("a", "s", After(-14*day-1)), at("b", "ms", T0)}, want: []string{"a: ~MET-003 +MET-002", "b: +MET-003"}},
		{name: "own older unit is no conflict", in: []Request{now, at("a", "s", After(-15*day)), at("a", "ms", T0)}, want: []string{"a: +MET-003"}},
		{name: "an old unit in recent data", in: []Request{now, at("a", "s", After(-15*day)), at("a", "s", After(-13*day)), at("b", "ms", T0)}, want: []string{"a: -MET-003", "b: -MET-003"}},
		{name: "a metric has the time of its newest point", in: []Request{MetricsRequest(Metrics(Service("a"), Gauge("x", "s", Point(After(-20*day)), Point(T0)))), at("b", "ms", T0)}, want: []string{"a: -MET-003", "b: -MET-003"}},
		{
			name: "across namespaces, environments and versions", in: []Request{
				MetricsRequest(Metrics(Service("a", "service.version", "1"), Gauge("x", "s"))), MetricsRequest(Metrics(Service("a", "service.version", "2"), Gauge("x", "ms"))),
			},
			want: []string{"|a|test|1: -MET-003", "|a|test|2: -MET-003"},
		},

		{name: "one list of bounds", in: []Request{bounds("a", T0, 1, 2), bounds("b", T0, 1, 2)}, want: []string{"a: +MET-004 +MET-003", "b: +MET-004"}},
		{name: "two lists in two services", in: []Request{bounds("a", T0, 1, 2), bounds("b", T0, 1, 3), bounds("c", T0, 1, 2)}, want: []string{"a: -MET-004 +MET-003", "b: -MET-004", "c: -MET-004"}},
		{name: "two lists in one service", in: []Request{bounds("a", T0, 1, 2), bounds("a", T0, 1)}, want: []string{"a: -MET-004"}},
		{name: "two lists in one metric", in: []Request{func() Request {
			m, n := Histogram("h", "s", T0, []float64{1}), Histogram("h", "s", T0, []float64{2})
			m.GetHistogram().DataPoints = append(m.GetHistogram().DataPoints, n.GetHistogram().DataPoints...)
			return MetricsRequest(Metrics(Service("a"), m))
		}()}, want: []string{"a: -MET-004"}},
		{name: "no bounds against some", in: []Request{bounds("a", T0), bounds("b", T0, 1)}, want: []string{"a: -MET-004", "b: -MET-004"}},
		{name: "no bounds agree", in: []Request{bounds("a", T0), bounds("b", T0)}, want: []string{"a: +MET-004", "b: +MET-004"}},
		{name: "zero and minus zero are one bound", in: []Request{bounds("a", T0, 0, 1), bounds("b", T0, math.Copysign(0, -1), 1)}, want: []string{"a: +MET-004", "b: +MET-004"}},
		{name: "the order matters", in: []Request{bounds("a", T0, 1, 2), bounds("b", T0, 2, 1)}, want: []string{"a: -MET-004"}},
		{name: "bounds 14 days old", in: []Request{now, bounds("a", After(-14*day), 1), bounds("b", T0, 2)}, want: []string{"a: -MET-004", "b: -MET-004"}},
		{name: "bounds older than that", in: []Request{now, bounds("a", After(-14*day-1), 1), bounds("b", T0, 2)}, want: []string{"a: ~MET-004 ~MET-003", "b: +MET-004"}},
		{name: "an exponential histogram has no bounds to compare", in: []Request{bounds("a", T0, 1), MetricsRequest(Metrics(Service("b"), ExponentialHistogram("h", "s")))}, want: []string{"a: +MET-004", "b: ~MET-004 +MET-003"}},
	})
}

// TestCardinalityRule tests MET-001.
func TestCardinalityRule(t *testing.T) {
	hour := time.Date(2026, 10, 15, 11, 0, 0, 0, time.UTC)
	values := func(resource []Attr, metric string, from, n int, at time.Time, value func(int) any) Request {
		points := make([]*metricspb.NumberDataPoint, n)
		for i := range points {
			points[i] = Point(at, "k", value(from+i))
		}
		return MetricsRequest(Metrics(resource, Gauge(metric, "1", points...)))
	}
	a := Service("a")
	text := func(i int) any { return fmt.Sprint("v", i) }
	cases := []verdictCase{
		{name: "no attributes", in: []Request{MetricsRequest(Metrics(a, Gauge("x", "1")))}, want: []string{"a: ~MET-001"}},
		{name: "9,700 values", in: []Request{values(a, "x", 0, 9700, hour, text)}, want: []string{"a: +MET-001"}},
		{name: "9,800 values, the sketch's tolerance below", in: []Request{values(a, "x", 0, 9800, hour, text)}, want: []string{"a: +MET-001"}},
		{name: "10,200 values", in: []Request{values(a, "x", 0, 10200, hour, text)}, want: []string{"a: -MET-001"}},
		{name: "10,200 values in two requests", in: []Request{values(a, "x", 0, 5100, hour, text), values(a, "x", 5100, 5100, hour.Add(time.Hour-1), text)}, want: []string{"a: -MET-001"}},
		{name: "11,000 values in two clock hours", in: []Request{values(a, "x", 0, 5500, hour.Add(time.Hour-1), text), values(a, "x", 5500, 5500, hour.Add(time.Hour), text)}, want: []string{"a: +MET-001"}},
		{name: "9,000 values sent twice", in: []Request{values(a, "x", 0, 9000, hour, text), values(a, "x", 0, 9000, hour, text)}, want: []string{"a: +MET-001"}},
		{name: "11,000 values of two metrics", in: []Request{values(a, "x", 0, 5500, hour, text), values(a, "y", 5500, 5500, hour, text)}, want: []string{"a: +MET-001"}},
		{name: "11,000 values of two services", in: []Request{values(a, "x", 0, 5500, hour, text), values(Service("b"), "x", 5500, 5500, hour, text)}, want: []string{"a: +MET-001", "b: +MET-001"}},
		{name: "11,000 ints", in: []Request{values(a, "x", 0, 11000, hour, func(i int) any { return i })}, want: []string{"a: -MET-001"}},
		{
			name: "5,500 numbers as ints and as strings", in: []Request{
				values(a, "x", 0, 5500, hour, func(i int) any { return i }), values(a, "x", 0, 5500, hour, func(i int) any { return fmt.Sprint(i) }),
			},
			want: []string{"a: +MET-001"},
		},
		{name: "a bad hour, then a good one", in: []Request{values(a, "x", 0, 11000, hour.Add(-48*time.Hour), text), values(a, "x", 0, 1, hour, text)}, want: []string{"a: -MET-001"}},
		{name: "values of an exemplar do not count", in: []Request{func() Request {
			m := Gauge("x", "1")
			p := m.GetGauge().DataPoints[0]
			for i := range 11000 {
				p.Exemplars = append(p.Exemplars, &metricspb.Exemplar{FilteredAttributes: Attrs("k", fmt.Sprint(i))})
			}
			return MetricsRequest(Metrics(a, m))
		}()}, want: []string{"a: ~MET-001"}},
	}
	requireVerdicts(t, cases)
}
