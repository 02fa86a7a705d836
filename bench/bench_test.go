// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
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

// TestRenew holds a renewed workload to what it promises: still well-formed, as
// many records, no request like the one before.
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
						n, err := walk(signal, r.body)
						require.NoError(t, err)
						records += n.records
						if s.records > 0 && signal != wire.Metrics {
							require.Equal(t, s.records, n.records)
						}
					}
					require.Equal(t, w.records, records)
				}
			})
		}
	}
}

// traceOf is what has to survive in a trace: how many spans it has, and how many of
// them have their parent in it.
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

// TestUniqueValues checks that the shape without repetition has none.
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

// TestAnalysisJudges runs the side of the engine bench that is assay's.
func TestAnalysisJudges(t *testing.T) {
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
		require.Error(t, a.check(w), "a wrong result is found out")
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

// TestForwardIsCompared passes events through the bare proxy of the gateway bench.
func TestForwardIsCompared(t *testing.T) {
	body, err := eventsBody()
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "body.json")
	require.NoError(t, os.WriteFile(file, body, 0o600))
	bare, err := newBare(file)
	require.NoError(t, err)
	backend := httptest.NewServer(bare)
	defer backend.Close()
	h, err := newBareProxy(backend.URL)
	require.NoError(t, err)
	defer h.Transport.(*http.Transport).CloseIdleConnections()
	proxy := httptest.NewServer(h)
	defer proxy.Close()
	defer http.DefaultClient.CloseIdleConnections()

	require.NoError(t, sameData(t.Context(), proxy.URL+forwardedPath, "", body))
	other := bytes.Replace(body, []byte(`"seq":18`), []byte(`"seq":19`), 1)
	require.Error(t, sameData(t.Context(), proxy.URL+forwardedPath, "", other), "other data is found out")
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
