// SPDX-License-Identifier: Apache-2.0

package logvolume

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/require"

	"assay"
)

// expose returns a handler that shows the counter as a server would.
func expose(t testing.TB, c prometheus.Collector) http.Handler {
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(c))
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true, EnableOpenMetricsTextCreatedSamples: true})
}

func scrape(t testing.TB, h http.Handler, accept string) string {
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/metrics", nil)
	r.Header.Set("Accept", accept)
	h.ServeHTTP(w, r)
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	return w.Body.String()
}

func TestCounter(t *testing.T) {
	now := time.Unix(1000, 0)
	c := NewCounter(func() time.Time { return now })
	h := expose(t, c)
	require.Empty(t, scrape(t, h, ""))

	c.Know("first", "sec\"ond\n")
	now = time.Unix(2000, 500e6)
	c.Add(map[string]assay.SeverityCounts{"first": counts(1, 2, 3, 4, 5, 6, 1<<40), "third": counts(7)})
	c.Know("first", "third")
	c.Add(map[string]assay.SeverityCounts{"first": counts(1)})

	require.Equal(t, strings.TrimLeft(`
# HELP logs_severity_total Log records accepted by organization and severity.
# TYPE logs_severity_total counter
logs_severity_total{organization_id="first",severity="DEBUG"} 2
logs_severity_total{organization_id="first",severity="ERROR"} 5
logs_severity_total{organization_id="first",severity="FATAL"} 6
logs_severity_total{organization_id="first",severity="INFO"} 3
logs_severity_total{organization_id="first",severity="TRACE"} 2
logs_severity_total{organization_id="first",severity="UNSPECIFIED"} 1.099511627776e+12
logs_severity_total{organization_id="first",severity="WARN"} 4
logs_severity_total{organization_id="sec\"ond\n",severity="DEBUG"} 0
logs_severity_total{organization_id="sec\"ond\n",severity="ERROR"} 0
logs_severity_total{organization_id="sec\"ond\n",severity="FATAL"} 0
logs_severity_total{organization_id="sec\"ond\n",severity="INFO"} 0
logs_severity_total{organization_id="sec\"ond\n",severity="TRACE"} 0
logs_severity_total{organization_id="sec\"ond\n",severity="UNSPECIFIED"} 0
logs_severity_total{organization_id="sec\"ond\n",severity="WARN"} 0
logs_severity_total{organization_id="third",severity="DEBUG"} 0
logs_severity_total{organization_id="third",severity="ERROR"} 0
logs_severity_total{organization_id="third",severity="FATAL"} 0
logs_severity_total{organization_id="third",severity="INFO"} 0
logs_severity_total{organization_id="third",severity="TRACE"} 7
logs_severity_total{organization_id="third",severity="UNSPECIFIED"} 0
logs_severity_total{organization_id="third",severity="WARN"} 0
`, "\n"), scrape(t, h, "text/plain"))

	open := scrape(t, h, "application/openmetrics-text; version=1.0.0")
	require.Contains(t, open, `logs_severity_created{organization_id="first",severity="TRACE"} 1000.0`)
	require.Contains(t, open, `logs_severity_created{organization_id="third",severity="TRACE"} 2000.5`)
	require.Contains(t, open, `logs_severity_total{organization_id="third",severity="TRACE"} 7.0`)
}

func TestCounterConcurrently(t *testing.T) {
	c := NewCounter(time.Now)
	h := expose(t, c)
	var g sync.WaitGroup
	for range 4 {
		g.Go(func() {
			for range 100 {
				c.Know("a", "b")
				c.Add(map[string]assay.SeverityCounts{"a": counts(1, 1)})
			}
			scrape(t, h, "")
		})
	}
	g.Wait()
	require.Contains(t, scrape(t, h, ""), `logs_severity_total{organization_id="a",severity="DEBUG"} 400`)
}
