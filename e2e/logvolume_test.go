// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay/internal/rules/rulestest"
)

// requireVolumes checks that the log volume of every period is exact.
func (d *daemon) requireVolumes(t *testing.T, key string, perSeverity int) {
	t.Helper()
	counts := make([]int, len(severities))
	for i := range counts {
		counts[i] = perSeverity
	}
	for _, period := range []string{"1h", "6h", "12h", "24h", "7d", "30d"} {
		requireVolume(t, getAs[restLogVolume](t, d, key, "/v1/analytics/log-volume?period="+period).Data, counts)
	}
}

// TestLogVolumeIsExact counts bursts of logs across restarts and a crash. Acknowledged records are in the
// next response, and none is counted twice.
func TestLogVolumeIsExact(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	flags := []string{"--bootstrap-api-key", bootstrapKey, "--commit-interval", "10ms"}
	d := startDaemon(t, dir, flags...)
	d.requireVolumes(t, bootstrapKey, 0)

	// Records count at their acceptance, whatever their timestamp.
	sent := 0
	burst := func(n int, at time.Time) rulestest.Request {
		r := logsOf(fmt.Sprintf("service-%d", sent), n, at)
		d.mustPost(t, bootstrapKey, r)
		sent += n
		return r
	}
	burst(1000, time.Now())
	d.requireVolumes(t, bootstrapKey, sent)
	repeated := burst(7, time.Now().Add(-20*24*time.Hour))
	burst(3, time.Now().Add(-400*24*time.Hour))
	d.requireVolumes(t, bootstrapKey, sent)
	d.mustPost(t, bootstrapKey, repeated)
	d.requireVolumes(t, bootstrapKey, sent)

	other := d.newOrganization(t, "other")
	d.mustPost(t, other, logsOf("service-0", 5, time.Now()))
	d.requireVolumes(t, other, 5)
	d.requireVolumes(t, bootstrapKey, sent)

	d.stop(t)
	d = startDaemon(t, dir, flags...)
	d.requireVolumes(t, bootstrapKey, sent)
	burst(11, time.Now())
	d.requireVolumes(t, bootstrapKey, sent)

	d.Kill()
	d = startDaemon(t, dir, flags...)
	d.requireVolumes(t, bootstrapKey, sent)
	burst(13, time.Now())
	d.requireVolumes(t, bootstrapKey, sent)
	d.requireVolumes(t, other, 5)

	// Metrics for Prometheus count from the start of the process.
	a, err := d.ask(t.Context(), http.MethodGet, d.Root+"/metrics", nil)
	require.NoError(t, err)
	for _, s := range severities {
		require.Regexp(t, `(?m)^logs_severity_total\{organization_id="[0-9a-f-]{36}",severity="`+s.name+`"\} 13$`, string(a.Body))
		require.Regexp(t, `(?m)^logs_severity_total\{organization_id="[0-9a-f-]{36}",severity="`+s.name+`"\} 0$`, string(a.Body), "the organization that has sent none yet")
	}
	a, err = d.ask(t.Context(), http.MethodGet, d.Root+"/metrics", nil, "Accept", "application/openmetrics-text; version=1.0.0")
	require.NoError(t, err)
	require.Contains(t, string(a.Body), "logs_severity_created{")
}

// TestMetricsStoreUnavailable requests log volume with metrics stores that fail. Each response is a 502
// within the timeout, and other operations are not affected.
func TestMetricsStoreUnavailable(t *testing.T) {
	t.Parallel()
	hanging, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer hanging.Close()
	for name, address := range map[string]string{"hangs": hanging.Addr().String(), "refuses": "127.0.0.1:1"} {
		d := startDaemon(t, t.TempDir(), "--bootstrap-api-key", bootstrapKey, "--metrics-store", "http://"+address+"/prometheus",
			"--metrics-store-token", "e2e-token-of-the-store", "--log-level", "debug")
		answers := make(chan *answered, 8)
		for range cap(answers) {
			go func() {
				a, err := d.ask(t.Context(), http.MethodGet, d.REST+"/v1/analytics/log-volume", nil, "Authorization", "Bearer "+bootstrapKey)
				if err != nil {
					a = &answered{Body: []byte(err.Error())}
				}
				answers <- a
			}()
		}
		require.Equal(t, 200, d.get(t, bootstrapKey, "/v1/services").Status, name)
		for range cap(answers) {
			requireError(t, <-answers, 502, "UPSTREAM_ERROR")
		}
		a, err := d.ask(t.Context(), http.MethodGet, d.Root+"/metrics", nil)
		require.NoError(t, err)
		require.Regexp(t, `(?m)^http_client_request_duration_seconds_count\{error_type=".+"`, string(a.Body), "an operator sees whose fault it is")
		require.NotContains(t, d.Log.String(), "e2e-token-of-the-store")
		d.stop(t)
	}
}
