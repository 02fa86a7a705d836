// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"go.uber.org/goleak"

	"assay/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func loadWorkload(t *testing.T, signal wire.Signal, s shape) *workload {
	t.Helper()
	recordings, err := readRecordings("../testdata/recordings")
	require.NoError(t, err)
	w, err := newWorkload(recordings, signal, s, 1)
	require.NoError(t, err)
	return w
}

// TestRenew checks that a renewed workload is well-formed, has the same number of records, and repeats no
// request.
func TestRenew(t *testing.T) {
	for _, s := range append([]shape{{name: "batches", records: ingestBatch}}, engineShapes...) {
		for _, signal := range []wire.Signal{wire.Traces, wire.Metrics, wire.Logs} {
			t.Run(signal.String()+"/"+s.name, func(t *testing.T) {
				w := loadWorkload(t, signal, s)
				for range 3 {
					var before [][]byte
					for _, r := range w.requests {
						before = append(before, bytes.Clone(r.body))
					}
					w.renew(time.Second)
					records := 0
					for i, r := range w.requests {
						require.NoError(t, wire.Validate(signal, r.body))
						require.NotEqual(t, before[i], r.body)
						n, err := countRecords(signal, r.body)
						require.NoError(t, err)
						records += n
						if s.records > 0 && signal != wire.Metrics {
							require.Equal(t, s.records, n)
						}
					}
					require.Equal(t, w.records, records)
				}
			})
		}
	}
}

// traceOf is the structure of a trace: the number of spans, and the number of spans with a parent in the
// trace.
type traceOf struct{ spans, children int }

func traces(t *testing.T, w *workload) map[traceOf]int {
	t.Helper()
	ids := make(map[pcommon.TraceID]map[pcommon.SpanID]bool)
	parents := make(map[pcommon.TraceID][]pcommon.SpanID)
	for _, r := range w.requests {
		x := ptraceotlp.NewExportRequest()
		require.NoError(t, x.UnmarshalProto(r.body))
		for _, rs := range x.Traces().ResourceSpans().All() {
			for _, ss := range rs.ScopeSpans().All() {
				for _, s := range ss.Spans().All() {
					if ids[s.TraceID()] == nil {
						ids[s.TraceID()] = make(map[pcommon.SpanID]bool)
					}
					ids[s.TraceID()][s.SpanID()] = true
					if !s.ParentSpanID().IsEmpty() {
						parents[s.TraceID()] = append(parents[s.TraceID()], s.ParentSpanID())
					}
				}
			}
		}
	}
	all := make(map[traceOf]int)
	for id, spans := range ids {
		x := traceOf{spans: len(spans)}
		for _, p := range parents[id] {
			if spans[p] {
				x.children++
			}
		}
		all[x]++
	}
	return all
}

func TestRenewKeepsTraces(t *testing.T) {
	w := loadWorkload(t, wire.Traces, engineShapes[0])
	want := traces(t, w)
	require.Greater(t, len(want), 3)
	w.renew(time.Second)
	require.Equal(t, want, traces(t, w))
}

// TestUniqueValues checks that the unique shape repeats no value.
func TestUniqueValues(t *testing.T) {
	w := loadWorkload(t, wire.Logs, shape{unique: true})
	require.Equal(t, w.share.values, len(w.share.newValues))
	require.Equal(t, w.share.bodies, len(w.share.newBodies))
	w.renew(time.Second)
	seen := make(map[string]bool)
	for _, r := range w.requests {
		for _, s := range r.sites {
			if s.kind == siteDigits {
				text := string(r.body[s.off : s.off+s.n])
				require.False(t, seen[text], "%q is written twice", text)
				seen[text] = true
			}
		}
	}
	require.NotEmpty(t, seen)
}

// TestAnalysisEvaluates runs assay's side of the engine bench.
func TestAnalysisEvaluates(t *testing.T) {
	for _, signal := range []wire.Signal{wire.Traces, wire.Metrics, wire.Logs} {
		w := loadWorkload(t, signal, engineShapes[0])
		a, err := newAnalysis(t.Context(), signal)
		require.NoError(t, err)
		for range 5 {
			w.renew(passTime)
			require.NoError(t, a.pass(t.Context(), w))
			require.NoError(t, a.check(w))
		}
		w.records++
		require.Error(t, a.check(w), "a wrong result is detected")
	}
}

func TestTable(t *testing.T) {
	x := &table{
		Bench: "engine", Title: "title", Columns: []string{"MB/s", "x"},
		Rows:    []row{{"one", []value{1234567, 1}}, {"another", []value{0.0123, none}}},
		Notes:   []string{"note"},
		Targets: []target{atLeast("speed", 2, 1.99), atMost("allocations", 0.05, 0.05)},
	}
	var b bytes.Buffer
	require.NoError(t, x.print(&b))
	require.Equal(t, `
engine: title

                MB/s     x
  one      1,234,567  1.00
  another      0.012     -
  note
  target: speed at least 2.00: 1.99, MISSED
  target: allocations at most 0.05: 0.05, reached
`, b.String())
	text, err := json.Marshal(value(math.NaN()))
	require.NoError(t, err)
	require.Equal(t, "null", string(text))
}

func TestQuantile(t *testing.T) {
	v := []float64{5, 1, 4, 2, 3}
	require.Equal(t, 3.0, median(v))
	require.Equal(t, 2.5, median(v[1:]))
	require.Equal(t, 5.0, quantile(v, 0.99))
	require.Equal(t, 3.0, quantile(v, 0.5))
	require.Equal(t, 1.0, quantile(v, 0))
}

func TestRun(t *testing.T) {
	var out, log bytes.Buffer
	require.NoError(t, run(t.Context(), []string{"-list"}, &out, &log))
	for _, b := range benches {
		require.Contains(t, out.String(), b.name)
	}
	require.Error(t, run(t.Context(), []string{"-run", "("}, &out, &log))
	require.Error(t, run(t.Context(), []string{"-rounds", "0"}, &out, &log))
	require.Error(t, run(t.Context(), []string{"engine"}, &out, &log))
}

// TestResults decodes responses of the REST API: the fair bench compares what it finds in them.
func TestResults(t *testing.T) {
	read := func(name string, data any) {
		t.Helper()
		b, err := os.ReadFile("../internal/rest/testdata/" + name)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(b, &struct{ Data any }{data}))
	}
	var service scoredService
	var insight seenInsight
	read("service.json", &service)
	read("insight.json", &insight)
	got, err := results([]scoredService{service}, []seenInsight{insight})
	require.NoError(t, err)
	require.Equal(t, `insight checkout-000 missing_service_name RES-005 active map[resource_attributes:{"service.name":"checkout"} sampling_rate:0.25 signal_type:TRACES]
service checkout-000 64 [RES-005 SPA-001]`, got)
	for _, empty := range []struct {
		services []scoredService
		insights []seenInsight
	}{
		{[]scoredService{{Name: "unscored"}}, []seenInsight{insight}},
		{[]scoredService{service}, []seenInsight{{Service: "a"}}},
		{[]scoredService{service}, nil},
		{nil, []seenInsight{insight}},
	} {
		_, err := results(empty.services, empty.insights)
		require.Error(t, err)
	}
}
