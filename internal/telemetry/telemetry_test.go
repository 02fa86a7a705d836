// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay/internal/engine"
	"assay/internal/receive"
	"assay/internal/trace"
	"assay/internal/wire"
)

func TestNewLogger(t *testing.T) {
	var b bytes.Buffer
	l, err := NewLogger(&b, "json", "warn")
	require.NoError(t, err)
	l.Info("left out")
	l.Warn("told", "n", 3)
	var line map[string]any
	require.NoError(t, json.Unmarshal(b.Bytes(), &line), b.String())
	require.Equal(t, "told", line["msg"])
	require.Equal(t, "WARN", line["level"])
	require.Equal(t, 3.0, line["n"])
	require.Regexp(t, `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,3})?Z$`, line["time"])

	b.Reset()
	l, err = NewLogger(&b, "text", "debug")
	require.NoError(t, err)
	l.Debug("told", "time", "mine")
	require.Regexp(t, `^time=\S+Z level=DEBUG msg=told time=mine\n$`, b.String())

	for _, c := range [][2]string{{"xml", "info"}, {"text", "loud"}, {"", ""}} {
		_, err := NewLogger(&b, c[0], c[1])
		require.Error(t, err, c)
	}
}

type fakeEngine struct{ counters engine.Counters }

func (e *fakeEngine) Counters() *engine.Counters { return &e.counters }
func (e *fakeEngine) Traces() trace.Stats {
	return trace.Stats{Traces: 1, Spans: 2, Bytes: 3, SamplingRate: 0.25, Dropped: 4}
}

type fakeReceiver struct{}

func (fakeReceiver) BytesInFlight() int64 { return 5 }
func (fakeReceiver) Requests() int        { return 6 }

func TestMetrics(t *testing.T) {
	m := NewMetrics("1.2.3")
	e := &fakeEngine{}
	m.Watch(e, fakeReceiver{})
	e.counters.Requests.Add(7)
	e.counters.Repeated.Add(8)
	e.counters.Refused.Add(9)
	e.counters.Spans.Add(10)
	e.counters.Points.Add(11)
	e.counters.Records.Add(12)
	e.counters.Bytes.Add(13)
	e.counters.Overflow.Add(14)
	m.Observe(receive.Event{Transport: receive.GRPC, Signal: wire.Metrics, Outcome: receive.TooLarge, Received: 100, Duration: 20 * time.Millisecond})
	m.Observe(receive.Event{Transport: receive.GRPC, Signal: wire.Metrics, Outcome: receive.Accepted, Received: 50, Duration: 20 * time.Second})

	w := httptest.NewRecorder()
	m.Handler(slog.New(slog.DiscardHandler)).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	body, err := io.ReadAll(w.Body)
	require.NoError(t, err)
	require.Equal(t, 200, w.Code)
	require.Contains(t, w.Header().Get("Content-Type"), "text/plain; version=0.0.4")
	for _, want := range []string{
		`assay_build_info{goversion="go`,
		`assay_requests_total 7`,
		`assay_requests_repeated_total 8`,
		`assay_requests_refused_total 9`,
		`assay_records_total{signal="traces"} 10`,
		`assay_records_total{signal="metrics"} 11`,
		`assay_records_total{signal="logs"} 12`,
		`assay_ingest_bytes_total 13`,
		`assay_overflow_records_total 14`,
		`assay_open_traces 1`,
		`assay_open_trace_spans 2`,
		`assay_open_trace_bytes 3`,
		`assay_trace_sampling_rate 0.25`,
		`assay_trace_spans_dropped_total 4`,
		`assay_receive_bytes_in_flight 5`,
		`assay_receive_requests_in_flight 6`,
		`assay_receive_requests_total{outcome="too_large",signal="metrics",transport="grpc"} 1`,
		`assay_receive_requests_total{outcome="accepted",signal="metrics",transport="grpc"} 1`,
		`assay_receive_bytes_total{signal="metrics",transport="grpc"} 150`,
		`assay_receive_duration_seconds_bucket{transport="grpc",le="0.025"} 1`,
		`assay_receive_duration_seconds_count{transport="grpc"} 2`,
		`go_goroutines `,
		`process_start_time_seconds `,
	} {
		require.Contains(t, string(body), "\n"+want)
	}
}
