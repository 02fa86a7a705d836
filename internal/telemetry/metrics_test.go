// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/stretchr/testify/require"

	"assay/internal/engine"
	"assay/internal/receive"
	"assay/internal/rules/semconv"
	"assay/internal/rules/unit"
	"assay/internal/trace"
	"assay/internal/wire"
)

type fakeEngine struct{ counters engine.Counters }

func (e *fakeEngine) Counters() *engine.Counters { return &e.counters }
func (e *fakeEngine) Traces() trace.Stats {
	return trace.Stats{Traces: 1, Spans: 2, Bytes: 3, SamplingRate: 0.25, Dropped: 4, JournalBytes: 5}
}

type fakeReceiver struct{}

func (fakeReceiver) BytesInFlight() int64 { return 5 }
func (fakeReceiver) Requests() int        { return 6 }

func (fakeReceiver) Connections(t receive.Transport) (open int, closed, refused uint64) {
	if t == receive.GRPC {
		return 7, 8, 9
	}
	return 0, 0, 0
}

type fakeLeases struct{}

func (fakeLeases) Skew() time.Duration { return -1500 * time.Millisecond }

func (fakeLeases) Held(prefix string) []string {
	return map[string][]string{"score:": {"score:a", "score:b"}, "expire": {"expire"}}[prefix]
}

// scrape returns the response of /metrics and requires that it parses.
func scrape(t testing.TB, own *Telemetry, accept string) (body, contentType string) {
	t.Helper()
	r := httptest.NewRequest("GET", "/metrics", nil)
	r.Header.Set("Accept", accept)
	w := httptest.NewRecorder()
	own.MetricsHandler().ServeHTTP(w, r)
	require.Equal(t, 200, w.Code, w.Body)
	return w.Body.String(), w.Header().Get("Content-Type")
}

func TestMetrics(t *testing.T) {
	own := start(t, io.Discard)
	e := &fakeEngine{}
	require.NoError(t, own.Watch(e, fakeReceiver{}))
	require.NoError(t, own.WatchLeases(fakeLeases{}, "score:", "expire", "journal:"))
	isReady := true
	require.NoError(t, own.WatchReady(func() bool { return isReady }))
	e.counters.Requests.Add(7)
	e.counters.Repeated.Add(8)
	e.counters.Refused.Add(9)
	e.counters.Spans.Add(10)
	e.counters.Points.Add(11)
	e.counters.Records.Add(12)
	e.counters.Bytes.Add(13)
	e.counters.Overflow.Add(14)
	e.counters.Unevaluated.Add(15)
	own.Observe(receive.Event{Transport: receive.GRPC, Signal: wire.Metrics, Outcome: receive.TooLarge, Received: 100, Duration: 20 * time.Millisecond})
	own.Observe(receive.Event{Transport: receive.GRPC, Signal: wire.Metrics, Outcome: receive.Accepted, Received: 50, Duration: 20 * time.Second})

	body, contentType := scrape(t, own, "")
	require.Contains(t, contentType, "text/plain; version=0.0.4")
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
		`assay_open_trace_journal_bytes 5`,
		`assay_trace_sampling_rate 0.25`,
		`assay_trace_spans_dropped_total 4`,
		`assay_traces_unevaluated_total 15`,
		`assay_leases{kind="score"} 2`,
		`assay_leases{kind="expire"} 1`,
		`assay_leases{kind="journal"} 0`,
		`assay_clock_skew_seconds -1.5`,
		`assay_ready 1`,
		`assay_receive_bytes_in_flight 5`,
		`assay_receive_requests_in_flight 6`,
		`assay_receive_connections{transport="grpc"} 7`,
		`assay_receive_connections{transport="http"} 0`,
		`assay_receive_connections_shed_total{outcome="closed",transport="grpc"} 8`,
		`assay_receive_connections_shed_total{outcome="refused",transport="grpc"} 9`,
		`assay_receive_requests_total{outcome="too_large",signal="metrics",transport="grpc"} 1`,
		`assay_receive_requests_total{outcome="accepted",signal="metrics",transport="grpc"} 1`,
		`assay_receive_bytes_total{signal="metrics",transport="grpc"} 150`,
		`assay_receive_duration_seconds_bucket{transport="grpc",le="0.025"} 1`,
		`assay_receive_duration_seconds_count{transport="grpc"} 2`,
		`go_goroutines `,
		`process_start_time_seconds `,
		`# TYPE assay_requests_total counter`,
		`# TYPE assay_open_traces gauge`,
		`# TYPE assay_receive_duration_seconds histogram`,
		`# HELP assay_requests_total ` + requests.description,
	} {
		require.Contains(t, body, "\n"+want)
	}
	require.NotContains(t, body, "\ngo_memory_", "that is for OTLP")

	isReady = false
	body, _ = scrape(t, own, "")
	require.Contains(t, body, "\nassay_ready 0\n")
}

// sampled is a collector like that of a package with its own counters.
type sampled struct{}

var counting = time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)

func (sampled) Describe(chan<- *prometheus.Desc) {}
func (sampled) Collect(ch chan<- prometheus.Metric) {
	ch <- prometheus.MustNewConstMetricWithCreatedTimestamp(prometheus.NewDesc("sampled_total", "Sampled.", []string{"severity"}, nil),
		prometheus.CounterValue, 3, counting, "ERROR")
}

// TestCreated checks the start time of counters, of assay's own metrics and of registered ones.
func TestCreated(t *testing.T) {
	before := time.Now().Add(-time.Second)
	own := start(t, io.Discard)
	require.NoError(t, own.Register(sampled{}))
	own.Observe(receive.Event{Transport: receive.HTTP, Signal: wire.Logs, Outcome: receive.Accepted, Received: 5, Duration: time.Second})

	body, contentType := scrape(t, own, "application/openmetrics-text;version=1.0.0")
	require.Contains(t, contentType, "application/openmetrics-text")
	require.Regexp(t, `(?m)^sampled_total\{severity="ERROR"\} 3\.0\n`+`sampled_created\{severity="ERROR"\} 1\.7952534e\+09$`, body)
	require.Regexp(t, `(?m)^assay_receive_bytes_created\{signal="logs",transport="http"\} \d`, body)
	require.Regexp(t, `(?m)^assay_receive_duration_seconds_created\{transport="http"\} \d`, body)
	require.True(t, strings.HasSuffix(body, "# EOF\n"))

	body, contentType = scrape(t, own, "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited")
	decode := expfmt.NewDecoder(strings.NewReader(body), expfmt.ResponseFormat(map[string][]string{"Content-Type": {contentType}}))
	found := map[string]*dto.Metric{}
	for {
		var f dto.MetricFamily
		err := decode.Decode(&f)
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		found[f.GetName()] = f.GetMetric()[0]
	}
	require.Equal(t, counting, found["sampled_total"].GetCounter().GetCreatedTimestamp().AsTime())
	require.True(t, found["assay_receive_bytes_total"].GetCounter().GetCreatedTimestamp().AsTime().After(before))
	require.True(t, found["assay_receive_duration_seconds"].GetHistogram().GetCreatedTimestamp().AsTime().After(before))

	require.ErrorContains(t, own.Register(collectorOf("assay_build_info")), "register metrics")
}

func collectorOf(name string) prometheus.Collector {
	return prometheus.NewGauge(prometheus.GaugeOpts{Name: name})
}

// TestInstruments evaluates the table with assay's own rules, and checks that the names on /metrics are the
// translated names, except for bytes and ratios.
func TestInstruments(t *testing.T) {
	suffix := map[string]string{"s": "_seconds"}
	names := map[string]bool{}
	for _, i := range instruments {
		require.True(t, unit.Valid([]byte(i.unit)), i.name)
		require.False(t, unit.NamedIn([]byte(i.unit), []byte(i.name)), i.name)
		_, attribute := semconv.Lookup([]byte(i.name))
		require.False(t, attribute, i.name)
		require.Regexp(t, `^[A-Z].*\.$`, i.description)
		require.False(t, names[i.name] || names[i.prometheus], i.name)
		names[i.name], names[i.prometheus] = true, true
		if i.unit != "By" && i.unit != "1" {
			require.Equal(t, strings.ReplaceAll(i.name, ".", "_")+suffix[i.unit], strings.TrimSuffix(i.prometheus, "_total"))
		}
	}
}

// TestDocumentation compares the table of docs/telemetry.md with the instruments.
func TestDocumentation(t *testing.T) {
	text, err := os.ReadFile("../../docs/telemetry.md")
	require.NoError(t, err)
	rows := regexp.MustCompile("(?m)^\\| `([a-z_.]+)` \\| `([^`]+)` \\| `([a-z_]+)` \\| [a-z]+ \\|.*\\| (.+) \\|$").FindAllStringSubmatch(string(text), -1)
	var documented []instrument
	for _, r := range rows {
		documented = append(documented, instrument{r[1], r[2], r[4], r[3]})
	}
	require.ElementsMatch(t, instruments, documented)
}

// TestObserveAllocatesNothing checks the code path of every OTLP request.
func TestObserveAllocatesNothing(t *testing.T) {
	own := start(t, io.Discard)
	e := receive.Event{Transport: receive.GRPC, Signal: wire.Traces, Outcome: receive.Accepted, Received: 1 << 10, Duration: time.Millisecond}
	require.Zero(t, testing.AllocsPerRun(100, func() { own.Observe(e) }))
}

func BenchmarkObserve(b *testing.B) {
	own := start(b, io.Discard)
	e := receive.Event{Transport: receive.GRPC, Signal: wire.Traces, Outcome: receive.Accepted, Received: 1 << 10, Duration: time.Millisecond}
	b.ReportAllocs()
	for b.Loop() {
		own.Observe(e)
	}
}

func TestBrokenInstrument(t *testing.T) {
	own := start(t, io.Discard)
	m := &meter{Meter: own.meter.Meter}
	m.counter(instrument{name: "1 is no name"})
	require.Error(t, m.err)
}

// TestScrapesTakeTurns: scrapes of one organization leave room for those of others.
func TestScrapesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own := start(t, io.Discard)
		var running atomic.Int64
		end := make(chan struct{})
		require.NoError(t, own.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "slow"}, func() float64 {
			running.Add(1)
			<-end
			return 0
		})))
		var all sync.WaitGroup
		scrape := func(organization string) {
			all.Go(func() {
				w := httptest.NewRecorder()
				own.MetricsOf(organization).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
				if w.Code != 200 {
					t.Error(organization, w.Code)
				}
			})
		}
		for range 2 * maxScrapes {
			scrape("a")
		}
		synctest.Wait()
		require.EqualValues(t, maxScrapes/2, running.Load())
		scrape("b")
		synctest.Wait()
		require.EqualValues(t, maxScrapes/2+1, running.Load())
		close(end)
		all.Wait()
	})
}

// TestEndedScrape: a client that disconnects during a scrape is no error.
func TestEndedScrape(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		own := start(t, &logged)
		var disconnect func()
		var gone chan struct{}
		require.NoError(t, own.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "slow"}, func() float64 {
			disconnect()
			<-gone
			return 0
		})))
		for name, h := range map[string]http.Handler{"all": own.MetricsHandler(), "organization": own.MetricsOf("a")} {
			ctx, cancel := context.WithCancel(t.Context())
			disconnect = cancel
			gone = make(chan struct{})
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, "GET", "/metrics", nil))
			close(gone)
			synctest.Wait()
			require.Empty(t, logged.String(), name)
		}
	})
}
