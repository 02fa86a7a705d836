// SPDX-License-Identifier: Apache-2.0

package logvolume

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/api"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"assay"
)

// remoteQueries bounds how many questions are with the store at once.
const remoteQueries = 16

// RemoteConfig says which store is asked, and how. URL is needed; the zero value of
// another field means its default. Username and BearerToken exclude each other.
type RemoteConfig struct {
	URL string // of the Prometheus HTTP API without /api/v1; may have a path such as /prometheus

	Username, Password string // of basic authentication
	PasswordFile       string // read anew when it changes
	BearerToken        string
	BearerTokenFile    string // read anew for every question
	Headers            map[string]string

	CAFile             string // PEM; default: the system's certificates
	CertFile, KeyFile  string // of the client, PEM
	InsecureSkipVerify bool   // accept any certificate

	// ScrapeInterval is how often the store scrapes; default 1 m, which is
	// Prometheus's own. The shape of the series comes from windows of at least four
	// scrapes.
	ScrapeInterval time.Duration

	// Wrap returns a transport around the one that is given, for traces and metrics;
	// nil leaves it as it is.
	Wrap func(http.RoundTripper) http.RoundTripper

	Timeout time.Duration // of an answer in total; default 5 s
	Now     func() time.Time
}

// Remote asks a store that speaks the Prometheus HTTP API and scrapes Counter. It
// may be used concurrently.
type Remote struct {
	api            v1.API
	client         *http.Client
	queries        places
	scrapeInterval time.Duration
	timeout        time.Duration
	now            func() time.Time
}

var _ assay.LogVolumeReader = (*Remote)(nil)

// NewRemote returns a Remote that has not connected yet. Close ends it.
func NewRemote(cfg RemoteConfig) (*Remote, error) {
	client, err := newHTTPClient(cfg)
	if err != nil {
		return nil, err
	}
	c, err := newClient(cfg.URL, client)
	if err != nil {
		return nil, err
	}
	return newRemote(cfg, c, client), nil
}

func newRemote(cfg RemoteConfig, c api.Client, client *http.Client) *Remote {
	r := &Remote{
		api:            v1.NewAPI(c),
		client:         client,
		queries:        make(places, remoteQueries),
		scrapeInterval: cfg.ScrapeInterval,
		timeout:        cfg.Timeout,
		now:            cfg.Now,
	}
	if r.scrapeInterval <= 0 {
		r.scrapeInterval = time.Minute
	}
	if r.timeout <= 0 {
		r.timeout = queryTimeout
	}
	if r.now == nil {
		r.now = time.Now
	}
	return r
}

// Close closes the connections that are not in use.
func (r *Remote) Close() { r.client.CloseIdleConnections() }

// LogVolume implements assay.LogVolumeReader.
func (r *Remote) LogVolume(ctx context.Context, organizationID string, period assay.LogVolumePeriod) (*assay.LogVolume, error) {
	v, err := newVolume(period, r.now())
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	if err := r.queries.take(ctx); err != nil {
		return nil, err
	}
	defer r.queries.release()

	totals, _, _, err := r.api.Query(ctx, increase(organizationID, period.Duration()), v.End, v1.WithTimeout(r.timeout))
	if err != nil {
		return nil, failure(err)
	}
	if err := setCounts(v, totals); err != nil {
		return nil, err
	}
	if v.Counts.Total() == 0 {
		return v, nil
	}
	window := max(step(v), 4*r.scrapeInterval)
	steps := v1.Range{Start: v.Start.Add(step(v)), End: v.End, Step: step(v)}
	shape, _, _, err := r.api.QueryRange(ctx, increase(organizationID, window), steps, v1.WithTimeout(r.timeout))
	if err != nil {
		return nil, failure(err)
	}
	if err := setSeries(v, shape); err != nil {
		return nil, err
	}
	return v, nil
}

// increase asks for the records of an organization in the window before a moment.
// PromQL's string literals are Go's
// (https://prometheus.io/docs/prometheus/latest/querying/basics/#string-literals).
func increase(organizationID string, window time.Duration) string {
	return fmt.Sprintf("sum by (%s) (increase(%s{%s=%s}[%s]))",
		severityLabel, metricName, organizationLabel, strconv.Quote(organizationID), model.Duration(window))
}

// maxCount is the largest count; past it float64 has no whole numbers.
const maxCount = 1 << 53

// setCounts fills in the counts from the answer to an instant query.
func setCounts(v *assay.LogVolume, answer model.Value) error {
	vector, ok := answer.(model.Vector)
	if !ok {
		return errNoResult
	}
	var sums [assay.SeverityCount]float64
	for _, s := range vector {
		if s == nil {
			return errNoResult
		}
		sums[severityOf(string(s.Metric[severityLabel]))] += float64(s.Value)
	}
	for severity, sum := range sums {
		if math.IsNaN(sum) || math.Abs(sum) > maxCount {
			return upstream("the metrics store answered with a number that is no count", nil)
		}
		v.Counts[severity] = uint64(math.Floor(max(sum, 0) + 0.5))
	}
	return nil
}

// setSeries shares the counts out over the series in the proportions of the answer
// to a range query.
func setSeries(v *assay.LogVolume, answer model.Value) error {
	matrix, ok := answer.(model.Matrix)
	if !ok {
		return errNoResult
	}
	var weights [assay.SeverityCount][points]float64
	start, step := v.Start.UnixMilli(), step(v).Milliseconds()
	for _, stream := range matrix {
		if stream == nil {
			return errNoResult
		}
		severity := severityOf(string(stream.Metric[severityLabel]))
		for _, sample := range stream.Values {
			// What is counted at the end of a step belongs to it; the end may be a rounding off.
			if i := (int64(sample.Timestamp)-start+step/2)/step - 1; i >= 0 && i < points {
				weights[severity][i] += float64(sample.Value)
			}
		}
	}
	for severity, n := range v.Counts {
		for i, share := range apportion(n, weights[severity][:]) {
			v.Series[i].Counts[severity] = share
		}
	}
	return nil
}
