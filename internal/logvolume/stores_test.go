// SPDX-License-Identifier: Apache-2.0

package logvolume

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/assaytest"
)

// TestStores has real metrics stores scrape two replicas, one of which restarts, and queries them like a
// server. docs/log-volume.md derives the bounds.
func TestStores(t *testing.T) {
	t.Parallel()
	for _, store := range []struct {
		program string
		args    func(address, config, data string) []string
		extra   float64 // maximum overestimation of an increase by the store, in scrape intervals
	}{
		{"prometheus", func(address, config, data string) []string {
			return []string{
				"--web.listen-address=" + address, "--config.file=" + config, "--storage.tsdb.path=" + data, "--log.level=warn",
				"--query.max-concurrency=4",
			}
		}, 2.2},
		{"victoria-metrics", func(address, config, data string) []string {
			return []string{
				"-httpListenAddr=" + address, "-promscrape.config=" + config, "-storageDataPath=" + data, "-loggerLevel=WARN",
				"-search.latencyOffset=1ms", "-memory.allowedBytes=64MB",
			}
		}, 0},
	} {
		t.Run(store.program, func(t *testing.T) {
			t.Parallel()
			const organization, strange = "00000000-0000-4000-8000-000000000001", "a\"} or vector(9) #\\\n"
			one, two := newReplica(t, organization, strange), newReplica(t, organization, strange)
			address := startStore(t, store.program, store.args, one.URL, two.URL)
			var now atomic.Int64
			remote, err := NewRemote(RemoteConfig{
				URL: "http://" + address, Now: func() time.Time { return time.UnixMilli(now.Load()) },
				ScrapeInterval: 500 * time.Millisecond, Timeout: time.Minute,
			})
			require.NoError(t, err)
			t.Cleanup(remote.Close)

			polls := 0
			// scraped waits until the store has these values, and returns all samples of the series.
			scraped := func(organization string, one, two assay.SeverityCounts) (samples model.Matrix) {
				t.Helper()
				values := [2]assay.SeverityCounts{one, two}
				require.Eventually(t, func() bool {
					polls++ // VictoriaMetrics caches for ten seconds that a selector has no series
					query := fmt.Sprintf("%s{%s=%s,poll!=\"%d\"}[1h]", metricName, organizationLabel, strconv.Quote(organization), polls)
					answer, _, _, err := remote.api.Query(t.Context(), query, time.Now())
					if err != nil {
						return false
					}
					samples = answer.(model.Matrix)
					for _, s := range samples {
						replica, err := strconv.Atoi(string(s.Metric["replica"]))
						require.NoError(t, err)
						if last := s.Values[len(s.Values)-1]; uint64(last.Value) != values[replica][severityOf(string(s.Metric[severityLabel]))] {
							return false
						}
					}
					return len(samples) == 2*int(assay.SeverityCount)
				}, time.Minute, 20*time.Millisecond)
				return samples
			}
			scraped(organization, counts(), counts())
			scraped(strange, counts(), counts())

			first, second, third := counts(1000, 2, 30000, 400, 5, 0, 7), counts(1, 0, 1, 2_000_000, 0, 3, 0), counts(9, 1, 8, 7, 1, 0, 6)
			one.Add(organization, first)
			two.Add(organization, second)
			two.Add(strange, counts(5))
			scraped(organization, first, second)
			one.restart(organization, strange)
			one.Add(organization, third)
			// Every series has its last value and all samples before it.
			var end model.Time
			for _, s := range scraped(organization, third, second) {
				end = max(end, s.Values[len(s.Values)-1].Timestamp)
			}
			var samples model.Matrix
			require.Eventually(t, func() bool {
				samples = scraped(organization, third, second)
				for _, s := range samples {
					if s.Values[len(s.Values)-1].Timestamp < end {
						return false
					}
				}
				return true
			}, time.Minute, 20*time.Millisecond)
			now.Store(int64(end))
			want := first
			want.Add(&second)
			want.Add(&third)
			var most [assay.SeverityCount]float64
			for _, s := range samples {
				var n, grown, before float64
				for _, v := range s.Values {
					value := float64(v.Value)
					switch {
					case v.Timestamp > end, math.IsNaN(value): // NaN: a failed scrape
						continue
					case n > 0 && value < before:
						grown += value // counter reset
					case n > 0:
						grown += value - before
					}
					n, before = n+1, value
				}
				require.Greater(t, n, 1.0)
				most[severityOf(string(s.Metric[severityLabel]))] += grown * (1 + store.extra/(n-1))
			}
			for _, period := range []assay.LogVolumePeriod{"1h", "24h", "30d"} {
				v, err := remote.LogVolume(t.Context(), organization, period)
				require.NoError(t, err)
				var series assay.SeverityCounts
				for _, p := range v.Series {
					series.Add(&p.Counts)
				}
				require.Equal(t, v.Counts, series)
				if period == "30d" {
					require.Equal(t, v.Counts, v.Series[points-1].Counts, "all of it is of the last hours")
				}
				for s, n := range v.Counts {
					require.GreaterOrEqual(t, n, want[s], "%s %s", period, assay.Severity(s))
					require.LessOrEqual(t, float64(n), most[s]+0.5, "%s %s", period, assay.Severity(s))
				}
			}
			v, err := remote.LogVolume(t.Context(), strange, "1h")
			require.NoError(t, err)
			require.GreaterOrEqual(t, v.Counts.Total(), uint64(5))
			require.LessOrEqual(t, v.Counts.Total(), uint64(16), "of one of its series, and no 9")
			v, err = remote.LogVolume(t.Context(), "nobody", "1h")
			require.NoError(t, err)
			require.Zero(t, v.Counts.Total())
		})
	}
}

// replica is a server whose /metrics is scraped.
type replica struct {
	*httptest.Server
	counter atomic.Pointer[Counter]
}

func newReplica(t *testing.T, organizationIDs ...string) *replica {
	r := new(replica)
	r.restart(organizationIDs...)
	r.Server = httptest.NewServer(expose(t, r))
	t.Cleanup(r.Server.Close)
	return r
}

// restart counts from zero, as a new process does.
func (r *replica) restart(organizationIDs ...string) {
	c := NewCounter(time.Now)
	c.Know(organizationIDs...)
	r.counter.Store(c)
}

func (r *replica) Add(organizationID string, n assay.SeverityCounts) {
	r.counter.Load().Add(map[string]assay.SeverityCounts{organizationID: n})
}

func (r *replica) Describe(descs chan<- *prometheus.Desc) { r.counter.Load().Describe(descs) }

func (r *replica) Collect(metrics chan<- prometheus.Metric) { r.counter.Load().Collect(metrics) }

// startStore starts a store that scrapes the URLs, and returns its address. It is killed at the end of the
// test.
func startStore(t *testing.T, program string, args func(address, config, data string) []string, urls ...string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	require.NoError(t, err, "%s is missing; scripts/deps installs what the tests need", program)
	dir := t.TempDir()
	config := "global: {scrape_interval: 500ms, scrape_timeout: 500ms}\nscrape_configs:\n- job_name: assay\n  static_configs:\n"
	for i, u := range urls {
		config += fmt.Sprintf("  - {targets: [%q], labels: {replica: \"%d\"}}\n", u[len("http://"):], i)
	}
	configFile := filepath.Join(dir, "config.yml")
	require.NoError(t, os.WriteFile(configFile, []byte(config), 0o600))
	for try := range 5 { // another process may bind the port in the meantime
		address, err := assaytest.FreeAddress(t.Context())
		require.NoError(t, err)
		cmd := exec.CommandContext(context.Background(), path, args(address, configFile, filepath.Join(dir, fmt.Sprint("data", try)))...)
		cmd.Dir = dir
		p, err := assaytest.StartProcess(program, cmd, nil)
		require.NoError(t, err)
		t.Cleanup(func() {
			p.Kill()
			if t.Failed() {
				t.Logf("%s: %s", program, p.Log)
			}
		})
		require.NoError(t, assaytest.Await(t.Context(), assaytest.Limit, assaytest.PollInterval, func() error {
			if !p.Running() {
				return nil
			}
			_, err := assaytest.Get(t.Context(), http.DefaultClient, "http://"+address+"/api/v1/query?query=1", "")
			return err
		}), program)
		http.DefaultClient.CloseIdleConnections()
		if p.Running() {
			return address
		}
	}
	require.FailNow(t, "the store does not stay", program)
	return ""
}
