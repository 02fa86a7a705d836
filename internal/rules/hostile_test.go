// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"math"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	logspb "go.opentelemetry.io/proto/otlp/logs/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"

	"assay"
	"assay/internal/delta"
	"assay/internal/rules/catalog"
	"assay/internal/rules/rulestest"
	"assay/internal/wire"
	"assay/internal/wire/wiretest"
)

// The largest request that a server accepts.
const maxRequest = 64 << 20

func field(number protowire.Number, b []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), b)
}

// stringAttr is an encoded KeyValue.
func stringAttr(key, value string) []byte {
	return append(field(1, []byte(key)), field(2, field(1, []byte(value)))...)
}

// heapGrowth returns the growth of the live heap after an evaluation, including the facts
// of the request. The steps are not limited.
func heapGrowth(t *testing.T, e *Evaluator, signal wire.Signal, body []byte) (*Batch, int64, error) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	b := new(Batch)
	began := time.Now()
	err := e.Evaluate(t.Context(), signal, body, unlimited(), b)
	took := time.Since(began)
	runtime.GC()
	runtime.ReadMemStats(&after)
	grown := int64(after.HeapAlloc) - int64(before.HeapAlloc)
	t.Logf("%d MiB request: %s, %d MiB retained, %d services, %v", len(body)>>20, took.Round(time.Millisecond), grown>>20, len(b.services), err)
	runtime.KeepAlive(body)
	return b, grown, err
}

const memoryLimit = 400 << 20

func TestHostileRequests(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: requests of up to 64 MiB")
	}
	repeat := func(part func(i int) []byte) []byte {
		body := make([]byte, 0, maxRequest)
		for i := 0; ; i++ {
			part := part(i)
			if len(body)+len(part) > maxRequest {
				return body
			}
			body = append(body, part...)
		}
	}
	one := rulestest.T0.UnixNano()
	times := func(n int64) []byte { // of a data point or log record
		return protowire.AppendFixed64(protowire.AppendTag(nil, 3, protowire.Fixed64Type), uint64(n))
	}
	inScope := func(resource, records []byte) []byte {
		return field(1, append(field(1, resource), field(2, records)...))
	}
	metricPoints := func(points []byte) []byte { // a gauge
		return field(2, append(field(1, []byte("m")), field(5, points)...))
	}
	for _, c := range []struct {
		name    string
		signal  wire.Signal
		body    func() []byte
		refused bool
	}{
		{name: "distinct services", signal: wire.Logs, body: func() []byte {
			return repeat(func(i int) []byte {
				return inScope(field(1, stringAttr("service.name", "s"+strconv.Itoa(i))), field(2, nil))
			})
		}},
		{name: "distinct instances of distinct services", signal: wire.Logs, refused: true, body: func() []byte {
			return repeat(func(i int) []byte {
				r := append(field(1, stringAttr("service.name", "s"+strconv.Itoa(i%20000))), field(1, stringAttr("service.instance.id", strconv.Itoa(i)))...)
				return inScope(append(r, field(1, stringAttr("host.name", strconv.Itoa(i)))...), field(2, nil))
			})
		}},
		{name: "distinct resources with much to show", signal: wire.Traces, body: func() []byte {
			return repeat(func(i int) []byte {
				return inScope(append(field(1, stringAttr("service.name", "s")), field(1, stringAttr("x"+strconv.Itoa(i), strings.Repeat("y", 200)))...),
					field(2, append(field(1, rulestest.TraceID(1)), field(2, rulestest.SpanID(i+1))...)))
			})
		}},
		{name: "tiny log records", signal: wire.Logs, refused: true, body: func() []byte {
			return inScope(field(1, stringAttr("service.name", "s")), []byte(strings.Repeat("\x12\x00", 5_000_000)))
		}},
		{name: "tiny spans", signal: wire.Traces, refused: true, body: func() []byte {
			return inScope(field(1, stringAttr("service.name", "s")), []byte(strings.Repeat("\x12\x00", 5_000_000)))
		}},
		{name: "tiny data points", signal: wire.Metrics, refused: true, body: func() []byte {
			return inScope(field(1, stringAttr("service.name", "s")), metricPoints([]byte(strings.Repeat("\x0a\x00", 5_000_000))))
		}},
		{name: "a million attribute keys of one metric", signal: wire.Metrics, body: func() []byte {
			var points []byte
			for i := range 1_000_000 {
				points = append(points, field(1, append(times(one), field(7, stringAttr("k"+strconv.Itoa(i), "v"))...))...)
			}
			return inScope(field(1, stringAttr("service.name", "s")), metricPoints(points))
		}},
		{name: "one attribute in a million values", signal: wire.Metrics, body: func() []byte {
			var points []byte
			for i := range 1_000_000 {
				points = append(points, field(1, append(times(one), field(7, stringAttr("k", "v"+strconv.Itoa(i)))...))...)
			}
			return inScope(field(1, stringAttr("service.name", "s")), metricPoints(points))
		}},
		{name: "a thousand keys in each hour of the window", signal: wire.Metrics, refused: true, body: func() []byte {
			var points []byte
			for i := range 1_500_000 {
				at := one - int64(i/1000%700)*int64(time.Hour)
				points = append(points, field(1, append(times(at), field(7, stringAttr("k"+strconv.Itoa(i%1000), "v"))...))...)
			}
			return inScope(field(1, stringAttr("service.name", "s")), metricPoints(points))
		}},
		{name: "distinct span names", signal: wire.Traces, body: func() []byte {
			var spans []byte
			for i := range 900_000 {
				spans = append(spans, field(2, append(field(1, rulestest.TraceID(i)), append(field(2, rulestest.SpanID(i+1)), field(5, []byte("n"+strconv.Itoa(i)))...)...))...)
			}
			return inScope(field(1, stringAttr("service.name", "s")), spans)
		}},
		{name: "records of many services in many hours", signal: wire.Logs, refused: true, body: func() []byte {
			return repeat(func(i int) []byte {
				var records []byte
				for h := range 20 {
					records = append(records, field(2, protowire.AppendFixed64(protowire.AppendTag(nil, 1, protowire.Fixed64Type), uint64(one-int64(h)*int64(time.Hour))))...)
				}
				return inScope(field(1, stringAttr("service.name", "s"+strconv.Itoa(i))), records)
			})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			body := c.body()
			require.LessOrEqual(t, len(body), maxRequest+1000)
			e := NewEvaluator(Config{Quota: newLimits(), Filter: delta.NewFilter(20)})
			b, grown, err := heapGrowth(t, e, c.signal, body)
			require.Equal(t, c.refused, err != nil)
			require.Less(t, grown, int64(memoryLimit))
			runtime.KeepAlive(b)
			b.Reset()
			runtime.KeepAlive(e)
		})
	}
}

// limits is a quota of the usual sizes for one organization and metric name.
type limits struct {
	services map[assay.ServiceKey]bool
	details  map[assay.ServiceKey]map[uint64]bool
}

func newLimits() *limits {
	return &limits{services: make(map[assay.ServiceKey]bool), details: make(map[assay.ServiceKey]map[uint64]bool)}
}

func (l *limits) AdmitService(_ string, k assay.ServiceKey) (ok, isNew bool) {
	if l.services[k] || len(l.services) >= assay.DefaultMaxServices {
		return l.services[k], false
	}
	l.services[k] = true
	return true, true
}

func (l *limits) AdmitMetricName(string, assay.ServiceKey, uint64) (ok, isNew bool) {
	return true, false
}

func (l *limits) AdmitInstance(string, assay.ServiceKey, uint64, uint64) (ok, isNew bool) {
	return true, false
}

func (l *limits) AdmitMetricDetail(_ string, k assay.ServiceKey, detail uint64) (ok, isNew bool) {
	m := l.details[k]
	if m == nil {
		m = make(map[uint64]bool)
		l.details[k] = m
	}
	if m[detail] || len(m) >= 10*assay.DefaultMaxMetricNames {
		return m[detail], false
	}
	m[detail] = true
	return true, true
}

func TestDeepNesting(t *testing.T) {
	e := NewEvaluator(Config{})
	for _, depth := range []int{10, wire.MaxDepth, wire.MaxDepth + 1, 10_000} {
		for _, mixed := range []bool{false, true} {
			kv := wiretest.Nested(depth, mixed)
			for name, body := range map[string][]byte{
				"resource": append(wiretest.InResource(kv), wiretest.InRecord(nil)...),
				"span":     wiretest.InRecord(field(9, kv)),
				"log":      wiretest.InRecord(field(6, kv)),
			} {
				signal := wire.Traces
				if name == "log" {
					signal = wire.Logs
				}
				var b Batch
				err := e.Evaluate(t.Context(), signal, body, input(), &b)
				require.Equal(t, depth > wire.MaxDepth, err != nil, "%s %d %v: %v", name, depth, mixed, err)
			}
		}
	}
}

func TestAbsurdTimes(t *testing.T) {
	e := NewEvaluator(Config{})
	for _, start := range []uint64{0, input().Start} {
		in := input()
		in.Start, in.MetricStart = start, start
		for _, latest := range []uint64{in.Latest, math.MaxUint64} {
			in.Latest = latest
			for _, at := range []uint64{0, 1, 1 << 62, 1<<63 - 1, 1 << 63, math.MaxUint64 - 1, math.MaxUint64} {
				point := rulestest.Point(rulestest.T0, "k", "v")
				point.TimeUnixNano = at
				d := facts(t, e, in,
					rulestest.Traces(rulestest.Spans(rulestest.Service("a"), rulestest.Span(1, 1, 0, func(s *tracepb.Span) { s.EndTimeUnixNano, s.StartTimeUnixNano = at, math.MaxUint64-at }))),
					rulestest.MetricsRequest(rulestest.Metrics(rulestest.Service("a"), rulestest.Gauge("x", "1", point))),
					rulestest.LogsRequest(rulestest.Logs(rulestest.Service("a"), rulestest.Log("x", func(r *logspb.LogRecord) { r.TimeUnixNano = at }))))
				require.Len(t, d.Organizations[org].Services, 1)
				for _, s := range d.Organizations[org].Services {
					require.LessOrEqual(t, s.LastSeen, latest)
					want := uint64(1)
					if at != 0 && at < start {
						want = 0
					}
					require.Equal(t, want, total(s, catalog.LOG002).Observed, "%d with latest %d", at, latest)
					require.Equal(t, want, total(s, catalog.SPA004).Observed)
					require.Equal(t, want, total(s, catalog.MET002).Observed)
					require.EqualValues(t, 1, s.Usage[0].Usage[delta.Logs].Items)
				}
			}
		}
	}
}

// TestNamesOfAnyBytes: evidence is valid UTF-8, on one line, and short.
func TestNamesOfAnyBytes(t *testing.T) {
	e := NewEvaluator(Config{})
	e.ctx, e.budget = t.Context(), NewBudget(0)
	for _, name := range []string{"\xff\xfe", "a\nb\x00c", strings.Repeat("ä", 1000), strings.Repeat("x", 100_000), ""} {
		s := e.clean([]byte(name))
		require.LessOrEqual(t, len(s), delta.MaxItemBytes+len("..."))
		require.True(t, strings.ToValidUTF8(s, "?") == s, "%q", s)
		require.NotContains(t, s, "\n")
		require.NotContains(t, s, "\x00")
	}
}

// TestIdleEvaluator: an evaluator keeps no memory of a request.
func TestIdleEvaluator(t *testing.T) {
	e := NewEvaluator(Config{})
	for _, signal := range wiretest.Signals {
		h := wiretest.Hostile{Signal: signal, At: rulestest.T0, RecordShare: 8, Content: wiretest.Text, Detail: wiretest.Bounds}
		var b Batch
		require.NoError(t, e.Evaluate(t.Context(), signal, h.Request(4<<20), input(), &b))
		require.LessOrEqual(t, cap(e.valueBuf), maxValueBuf)
		require.Zero(t, e.entry)
		require.Zero(t, e.record)
		require.Zero(t, e.point)
		require.Zero(t, e.span)
		require.Empty(t, e.resourceAttributes)
	}
}
