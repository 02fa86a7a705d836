// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// relay accepts connections before the address of their target is known.
type relay struct {
	net.Listener
	wg sync.WaitGroup
}

func newRelay(t *testing.T) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r := &relay{Listener: l}
	t.Cleanup(func() {
		l.Close()
		r.wg.Wait()
	})
	return r
}

// to forwards connections to address, including those accepted before, until either side closes.
func (r *relay) to(address string) {
	r.wg.Go(func() {
		for {
			in, err := r.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", address)
			if err != nil {
				in.Close()
				continue
			}
			for from, to := range map[net.Conn]net.Conn{in: out, out: in} {
				r.wg.Go(func() {
					_, _ = io.Copy(to, from)
					to.Close()
					from.Close()
				})
			}
		}
	})
}

// metric returns the value of a series of /metrics, or 0 if it is missing.
func (d *daemon) metric(t *testing.T, series string) int {
	t.Helper()
	m, err := d.Metrics(t.Context())
	require.NoError(t, err)
	return int(m[series])
}

// TestItself has a server send its own telemetry to itself. It scores 100 without insights, and evaluating
// its own telemetry does not produce more telemetry.
func TestItself(t *testing.T) {
	t.Parallel()
	r := newRelay(t)
	d := startDaemonWith(t, []string{
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + r.Addr().String(),
		"OTEL_EXPORTER_OTLP_PROTOCOL=grpc",
		"OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20" + bootstrapKey,
		"OTEL_BSP_SCHEDULE_DELAY=50", "OTEL_BLRP_SCHEDULE_DELAY=50", "OTEL_METRIC_EXPORT_INTERVAL=200",
	}, t.TempDir(), "--bootstrap-api-key", bootstrapKey, "--log-level", "debug",
		"--trace-idle", "500ms", "--score-interval", "100ms", "--commit-interval", "10ms")
	r.to(d.OTLPGRPC)

	const (
		spans         = `assay_records_total{signal="traces"}`
		records       = `assay_records_total{signal="logs"}`
		metricExports = `assay_receive_requests_total{outcome="accepted",signal="metrics",transport="grpc"}`
	)
	eventually(t, func() bool { return d.metric(t, metricExports) > 0 && d.metric(t, records) > 0 }, "the metrics and the log arrive")
	service := d.service(t, bootstrapKey, "assay")
	require.NotNil(t, service)
	require.Equal(t, "unspecified", service.Environment)

	requested := 1 // requests by d.service
	ask := func(method, path string, headers ...string) int {
		a, err := d.ask(t.Context(), method, d.Root+path, nil, headers...)
		require.NoError(t, err, path)
		requested++
		return a.Status
	}
	const unknown = "6f0a5b0e-6b5e-5f0c-9d8e-2f1d3c4b5a69"
	for path, status := range map[string]int{
		"/api/v1/services": 200,
		"/api/v1/services?limit=1&email=someone@example.com": 200,
		"/api/v1/services/" + service.ID:                     200,
		"/api/v1/services/" + service.ID + "/insights":       200,
		"/api/v1/services/" + unknown:                        404,
		"/api/v1/services/someone@example.com":               404,
		"/api/v1/services?limit=0":                           400,
		"/api/v1/insights":                                   200,
		"/api/v1/insights?status=unknown":                    400,
		"/api/v1/insights/" + unknown:                        404,
		"/api/v1/insights/" + unknown + "/summary":           404,
		"/api/v1/insights/nonsense":                          400,
		"/api/v1/organization":                               200,
		"/api/openapi.json":                                  200,
		"/api/v1/../v1/services":                             400,
		"/nothing/password=hunter2/%ff":                      404,
	} {
		require.Equal(t, status, ask(http.MethodGet, path, "Authorization", "Bearer "+bootstrapKey), path)
	}
	require.Equal(t, 401, ask(http.MethodGet, "/api/v1/services"))
	require.Equal(t, 401, ask(http.MethodGet, "/api/v1/services", "Authorization", "Bearer someone@example.com"))
	require.Equal(t, 405, ask("INVENTED", "/api/v1/services"))
	require.Equal(t, 405, ask(http.MethodDelete, "/api/v1/services/"+service.ID))
	for _, body := range []string{"no protobuf", "\x0a"} {
		a, err := d.ask(t.Context(), http.MethodPost, d.OTLPHTTP+"/v1/traces", []byte(body), "Authorization", "Bearer "+bootstrapKey, "Content-Type", "application/x-protobuf")
		require.NoError(t, err)
		require.Equal(t, 400, a.Status)
	}

	// Only /metrics is requested from here, which has no spans.
	lines := func() int { return strings.Count(d.Log.String(), "\n") }
	eventually(t, func() bool {
		return d.metric(t, spans) >= requested && d.metric(t, "assay_open_traces") == 0 && d.metric(t, records) >= lines()
	}, "every request is a span, its trace is evaluated, and every log line is a record")
	logged, exports := lines(), d.metric(t, metricExports)
	eventually(t, func() bool { return d.metric(t, metricExports) >= exports+3 }, "metrics continue")
	require.Equal(t, requested, d.metric(t, spans), "OTLP requests have no spans")
	require.Equal(t, logged, lines(), "OTLP requests are not logged")
	require.Equal(t, logged, d.metric(t, records))

	want := []string{
		"LOG-002", "LOG-003", "MET-001", "MET-002", "MET-003", "MET-004", "MET-005", "MET-006", "MET-007", "MET-008",
		"RES-001", "RES-002", "RES-004", "RES-005", "RES-007", "RES-010", "SDK-001",
		"SPA-001", "SPA-003", "SPA-004", "SPA-005", "SPA-006",
	}
	eventually(t, func() bool {
		service = d.service(t, bootstrapKey, "assay")
		return service != nil && service.Score != nil && len(service.Score.Evaluated) >= len(want)
	}, "the rules are evaluated")
	require.Subset(t, service.Score.Evaluated, want)
	require.Empty(t, d.insights(t, bootstrapKey))
	require.Equal(t, 100, service.Score.Score)
	require.NotContains(t, d.Log.String(), `"level":"WARN"`)
	require.NotContains(t, d.Log.String(), bootstrapKey)
}
