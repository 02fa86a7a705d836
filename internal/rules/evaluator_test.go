// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	logspb "go.opentelemetry.io/proto/otlp/logs/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"assay"
	"assay/internal/delta"
	"assay/internal/rules/catalog"
	"assay/internal/rules/rulestest"
	"assay/internal/trace"
	"assay/internal/wire"
	"assay/internal/wire/wiretest"
)

const (
	org = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"
	day = 24 * time.Hour
)

// testKey is the hash key of org.
var testKey, _ = delta.NewHashKey(make([]byte, delta.HashSecretBytes))

// input returns the Input of requests that arrive at rulestest.T0.
func input() Input {
	t := rulestest.T0
	return Input{
		OrganizationID: org, HashKey: testKey, Start: rulestest.Nano(t.Add(-30 * day)), MetricStart: rulestest.Nano(t.Add(-14 * day)),
		Arrival: rulestest.Nano(t), Latest: rulestest.Nano(t.Add(time.Minute)),
	}
}

// facts returns the facts of requests.
func facts(t require.TestingT, e *Evaluator, in Input, requests ...rulestest.Request) *delta.Delta {
	d := new(delta.Delta)
	for _, q := range requests {
		var b Batch
		require.NoError(t, e.Evaluate(context.Background(), q.Signal, q.Body, in, &b))
		b.MergeInto(d)
	}
	return d
}

// factsOf returns the facts about one service from a new evaluator without a filter.
func factsOf(t *testing.T, name string, requests ...rulestest.Request) *delta.Service {
	t.Helper()
	for k, s := range facts(t, NewEvaluator(Config{}), input(), requests...).Organizations[org].Services {
		if k.Name == name {
			return s
		}
	}
	t.Fatalf("no service %q", name)
	return nil
}

// total returns the counts of a rule over all buckets.
func total(s *delta.Service, r catalog.Rule) (c delta.Count) {
	for i := range s.Verdicts {
		c.Add(s.Verdicts[i].Counts[r])
	}
	return c
}

// texts returns an evidence list, sorted.
func texts(s *delta.Service, r catalog.Rule, l delta.List) (list []string) {
	for it := range s.Items {
		if it.Rule == r && it.List == l {
			list = append(list, it.Text)
		}
	}
	slices.Sort(list)
	return list
}

// diff compares facts. It ignores the examples, which depend on the order of equally new
// failures, and the bytes, which depend on the framing.
func diff(a, b *delta.Delta) string {
	return cmp.Diff(a.Organizations, b.Organizations,
		cmpopts.SortSlices(func(x, y delta.Verdicts) bool { return x.Bucket < y.Bucket }),
		cmpopts.SortSlices(func(x, y delta.HourUsage) bool { return x.Bucket < y.Bucket }),
		cmp.Transformer("Set", func(s delta.Set) string {
			b, err := s.MarshalBinary()
			return fmt.Sprintf("%d %d %x %v", s.Limit, s.Count(), b, err)
		}),
		cmp.Transformer("Series", func(s delta.Series) string {
			var own delta.Series // looking at it must not change the one compared
			own.Merge(&s)
			return fmt.Sprintf("%d %x", own.Count(), own.AppendBinary(nil))
		}),
		cmpopts.IgnoreFields(delta.Usage{}, "Bytes"),
		cmp.Transformer("Example", func(e *delta.Example) bool { return e != nil }),
		cmpopts.IgnoreUnexported(delta.Service{}),
		cmpopts.EquateEmpty())
}

// TestFieldOrder: SDKs write fields in ascending order, the Collector in descending.
func TestFieldOrder(t *testing.T) {
	for _, r := range append(wiretest.Fixtures(), wiretest.Real()...) {
		e := NewEvaluator(Config{})
		in := input()
		in.Arrival, in.Latest = math.MaxInt64, math.MaxInt64
		a := facts(t, e, in, rulestest.Request{Signal: r.Signal, Body: r.Body})
		b := facts(t, e, in, rulestest.Request{Signal: r.Signal, Body: wiretest.Ascending(r.Signal, r.Body)})
		require.Empty(t, diff(a, b), r.Name)
	}
}

// mail is sensitive, and no evidence may show it.
const mail = "jane.doe@example.com"

// drawn makes random requests, some of which fail rules.
type drawn struct{ t *rapid.T }

func (d drawn) n(label string, limit int) int { return rapid.IntRange(0, limit).Draw(d.t, label) }

func (d drawn) time() time.Time {
	return rulestest.T0.Add(-time.Duration(d.n("hours", 40)) * 20 * time.Hour).Add(-time.Duration(d.n("ns", 1000)))
}

func (d drawn) attributes() []rulestest.Attr {
	all := []any{
		"a", 1, "b", "x", "host.name", "h", "http.method", "GET", "db.password", "hunter22", "mail", mail,
		"list",
		[]any{"x", mail},
		"map", rulestest.Attrs("y", true, "z", 1.5), "none", nil,
	}
	var list []rulestest.Attr
	for range d.n("attributes", 3) {
		i := 2 * d.n("attribute", len(all)/2-1)
		list = append(list, rulestest.Attrs(all[i], all[i+1])...)
	}
	return list
}

func (d drawn) resource() []rulestest.Attr {
	r := rulestest.Service(fmt.Sprint("s", d.n("service", 2)), "host.name", fmt.Sprint("h", d.n("host", 1)))
	switch d.n("environment", 2) {
	case 0:
		r = append(r[:2], r[3:]...)
	case 1:
		r[2] = rulestest.Attrs("deployment.environment.name", "prod")[0]
	}
	return append(r, d.attributes()...)
}

func (d drawn) spans() []*tracepb.Span {
	var list []*tracepb.Span
	for range d.n("spans", 6) {
		list = append(list, rulestest.Span(d.n("trace", 2), d.n("id", 9), d.n("parent", 9), func(s *tracepb.Span) {
			s.Kind = tracepb.Span_SpanKind(d.n("kind", 5))
			s.Name = fmt.Sprint("op ", d.n("name", 5))
			s.EndTimeUnixNano = rulestest.Nano(d.time())
			s.Attributes = d.attributes()
			s.Events = []*tracepb.Span_Event{{Name: "e", Attributes: d.attributes()}}
		}))
	}
	return list
}

func (d drawn) metrics() []*metricspb.Metric {
	var list []*metricspb.Metric
	for range d.n("metrics", 5) {
		name, unit := fmt.Sprint("m", d.n("name", 3)), []string{"", "s", "ms", "requests"}[d.n("unit", 3)]
		if d.n("type", 1) == 0 {
			list = append(list, rulestest.Histogram(name, unit, d.time(), []float64{0, float64(d.n("bound", 2))}, "k", d.n("value", 5)))
			continue
		}
		p := rulestest.Point(d.time())
		p.Attributes = d.attributes()
		list = append(list, rulestest.Gauge(name, unit, p))
	}
	return list
}

func (d drawn) records() []*logspb.LogRecord {
	var list []*logspb.LogRecord
	for range d.n("records", 6) {
		list = append(list, rulestest.Log([]any{"x", mail, 5, []any{"--password", "x"}}[d.n("body", 3)], func(r *logspb.LogRecord) {
			r.TimeUnixNano = rulestest.Nano(d.time())
			r.SeverityNumber = logspb.SeverityNumber(d.n("severity", 9))
			r.Attributes = d.attributes()
		}))
	}
	return list
}

// entry is a random entry of a signal, and a request of entries.
func (d drawn) entry(signal wire.Signal) proto.Message {
	switch signal {
	case wire.Traces:
		return rulestest.Spans(d.resource(), d.spans()...)
	case wire.Metrics:
		return rulestest.Metrics(d.resource(), d.metrics()...)
	default:
		return rulestest.Logs(d.resource(), d.records()...)
	}
}

func requestOf(signal wire.Signal, entries ...proto.Message) rulestest.Request {
	switch signal {
	case wire.Traces:
		var list []*tracepb.ResourceSpans
		for _, e := range entries {
			list = append(list, e.(*tracepb.ResourceSpans))
		}
		return rulestest.Traces(list...)
	case wire.Metrics:
		var list []*metricspb.ResourceMetrics
		for _, e := range entries {
			list = append(list, e.(*metricspb.ResourceMetrics))
		}
		return rulestest.MetricsRequest(list...)
	default:
		var list []*logspb.ResourceLogs
		for _, e := range entries {
			list = append(list, e.(*logspb.ResourceLogs))
		}
		return rulestest.LogsRequest(list...)
	}
}

// TestSplitAndMerge: facts depend neither on a Collector's batching nor on earlier
// requests of the evaluator, and no evidence contains a sensitive value.
func TestSplitAndMerge(t *testing.T) {
	warm := NewEvaluator(Config{})
	rapid.Check(t, func(t *rapid.T) {
		d := drawn{t}
		signal := wiretest.Signals[d.n("signal", 2)]
		var entries []proto.Message
		var split []rulestest.Request
		for range 1 + d.n("entries", 3) {
			entries = append(entries, d.entry(signal))
			split = append(split, requestOf(signal, entries[len(entries)-1]))
		}
		whole := facts(t, warm, input(), requestOf(signal, entries...))
		require.Empty(t, diff(whole, facts(t, warm, input(), split...)), "split")
		slices.Reverse(split)
		require.Empty(t, diff(whole, facts(t, NewEvaluator(Config{}), input(), split...)), "in other order, unseen")
		require.NotContains(t, fmt.Sprintf("%+v", shownFacts(whole)), mail)
	})
}

// shownFacts are the texts of facts.
func shownFacts(d *delta.Delta) (list []any) {
	for _, o := range d.Organizations {
		for _, s := range o.Services {
			list = append(list, s.Items, s.Claims)
			for _, e := range s.Examples {
				if e != nil {
					list = append(list, *e)
				}
			}
			for _, f := range s.Distinct {
				list = append(list, f.Metric, f.Attr)
			}
		}
	}
	return list
}

// TestFilterLosesNothing: with a filter, committed facts are not sent again, and the
// store has the same facts in the end.
func TestFilterLosesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawn{t}
		filter := delta.NewFilter(12)
		filtered, plain := NewEvaluator(Config{Filter: filter}), NewEvaluator(Config{})
		store, want := new(delta.Delta), new(delta.Delta)
		for range 1 + d.n("requests", 5) {
			signal := wiretest.Signals[d.n("signal", 2)]
			q := requestOf(signal, d.entry(signal), d.entry(signal))
			want.Merge(facts(t, plain, input(), q))
			got := facts(t, filtered, input(), q)
			if d.n("commit", 3) > 0 { // else the commit fails, and the sender repeats it
				for _, h := range got.Remember {
					filter.Add(h)
				}
			} else {
				got = facts(t, filtered, input(), q)
			}
			store.Merge(got)
		}
		require.Empty(t, diff(want, store))
	})
}

// TestBatchIsReusable: a batch holds nothing of a request after Reset.
func TestBatchIsReusable(t *testing.T) {
	e := NewEvaluator(Config{})
	var used Batch
	rapid.Check(t, func(t *rapid.T) {
		d := drawn{t}
		signal := wiretest.Signals[d.n("signal", 2)]
		q := requestOf(signal, d.entry(signal), d.entry(signal))
		used.Reset()
		require.NoError(t, e.Evaluate(t.Context(), q.Signal, q.Body, input(), &used))
		got := new(delta.Delta)
		used.MergeInto(got)
		require.Empty(t, diff(facts(t, e, input(), q), got))
		twice := new(delta.Delta)
		used.MergeInto(twice)
		require.Empty(t, diff(got, twice), "merging leaves the batch as it is")
	})
	var entries []*logspb.ResourceLogs
	for i := range 500 {
		entries = append(entries, rulestest.Logs(rulestest.Service(fmt.Sprint("many", i)), rulestest.Log("x")))
	}
	large := rulestest.LogsRequest(entries...)
	used.Reset()
	require.NoError(t, e.Evaluate(t.Context(), large.Signal, large.Body, input(), &used))
	require.Len(t, used.services, 500)
	used.Reset()
	require.LessOrEqual(t, len(used.free), 64, "a large batch does not keep its memory")
}

func TestUnknownSignal(t *testing.T) {
	var b Batch
	require.Error(t, NewEvaluator(Config{}).Evaluate(t.Context(), 0, nil, input(), &b))
	require.Error(t, Timestamps(t.Context(), 9, rulestest.Traces(rulestest.Spans(nil, rulestest.Span(1, 1, 0))).Body, func(uint64) {}))
}

func TestEmptyRequest(t *testing.T) {
	for _, s := range wiretest.Signals {
		require.True(t, facts(t, NewEvaluator(Config{}), input(), rulestest.Request{Signal: s}).Empty())
	}
}

// TestDamagedRequests: every damaged request returns an error, and none panics.
func TestDamagedRequests(t *testing.T) {
	e := NewEvaluator(Config{})
	var b Batch
	for _, r := range wiretest.Fixtures() {
		if len(r.Body) > 3000 {
			continue
		}
		for name, body := range wiretest.Damaged(r.Body) {
			b.Reset()
			err := e.Evaluate(t.Context(), r.Signal, body, input(), &b)
			if wire.Validate(r.Signal, body) == nil {
				require.NoError(t, err, "%s %s: valid", r.Name, name)
				continue
			}
			if err == nil && r.Signal == wire.Metrics && strings.Contains(wire.Validate(r.Signal, body).Error(), "group") {
				continue // replaced by other data of the same metric, so it is not read
			}
			var w *wire.Error
			require.ErrorAs(t, err, &w, "%s %s: invalid", r.Name, name)
		}
	}
}

// TestServiceKeysOfHostileParts: parts are stored as sent, as far as a store can hold
// them.
func TestServiceKeysOfHostileParts(t *testing.T) {
	e := NewEvaluator(Config{})
	d := facts(t, e, input(), rulestest.LogsRequest(rulestest.Logs(rulestest.Service("a\x00b"), rulestest.Log("x")),
		rulestest.Logs(rulestest.Service(string(make([]byte, 3000))), rulestest.Log("x"))))
	for k := range d.Organizations[org].Services {
		require.LessOrEqual(t, len(k.Name), 3*maxPartBytes)
		require.NotContains(t, k.Name, "\x00")
	}
	require.Contains(t, d.Organizations[org].Services, assay.ServiceKey{Name: "a\uFFFDb", Environment: "test"})
}

// TestSpansHandedOn checks the spans that the trace assembler receives.
func TestSpansHandedOn(t *testing.T) {
	var b Batch
	q := rulestest.Traces(rulestest.Spans(rulestest.Service("a"),
		rulestest.Span(1, 2, 3, func(s *tracepb.Span) {
			s.Kind, s.Name, s.StartTimeUnixNano = tracepb.Span_SPAN_KIND_INTERNAL, "mail to "+mail, s.EndTimeUnixNano-uint64(5*time.Millisecond)+1
		}),
		rulestest.Span(1, 3, 0), rulestest.Span(1, 4, 0, func(s *tracepb.Span) { s.TraceId = nil })))
	require.NoError(t, NewEvaluator(Config{}).Evaluate(t.Context(), q.Signal, q.Body, input(), &b))
	require.Len(t, b.Spans, 2)
	s := b.Spans[0]
	require.NotContains(t, s.Name, mail)
	require.NotEqual(t, s.NameHash, b.Spans[1].NameHash)
	s.Name, s.NameHash = "", 0
	r := s.Resource
	s.Resource = nil
	want := trace.Span{Time: rulestest.Nano(rulestest.T0), Internal: true, Short: true}
	copy(want.TraceID[:], rulestest.TraceID(1))
	copy(want.SpanID[:], rulestest.SpanID(2))
	copy(want.ParentID[:], rulestest.SpanID(3))
	require.Equal(t, want, s)
	require.Equal(t, assay.ServiceKey{Name: "a", Environment: "test"}, r.Service)
	require.Same(t, r, b.Spans[1].Resource)
	require.False(t, b.Spans[1].Short)
	require.False(t, b.Spans[1].Internal)
	require.EqualValues(t, 3, b.Items[delta.Traces])
}
