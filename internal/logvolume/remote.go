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
	"assay/internal/fair"
)

// remoteQueries limits the concurrent queries. One organization may use half of them.
const remoteQueries = 16

// RemoteConfig configures a Remote. URL is required; zero values of other fields select defaults. Username and
// BearerToken exclude each other.
type RemoteConfig struct {
	URL string // of the Prometheus HTTP API without /api/v1; may have a path such as /prometheus

	Username, Password string // of basic authentication
	PasswordFile       string // reloaded when it changes
	BearerToken        string
	BearerTokenFile    string // read again for every query
	Headers            map[string]string

	CAFile             string // PEM; default: the system's certificates
	CertFile, KeyFile  string // of the client, PEM
	InsecureSkipVerify bool   // accept any certificate

	// ScrapeInterval is the store's scrape interval. Default: 1 m, the default of Prometheus. The series is computed
	// from windows of at least four scrapes.
	ScrapeInterval time.Duration

	// Wrap wraps the transport for traces and metrics. nil: the transport is not wrapped.
	Wrap func(http.RoundTripper) http.RoundTripper

	Timeout time.Duration // of all queries for one call; default 5 s
	Now     func() time.Time
}

// Remote queries a store that has the Prometheus HTTP API and scrapes Counter. It is safe for concurrent use.
type Remote struct {
	api            v1.API
	client         *http.Client
	queries        *fair.Semaphore // by organization
	scrapeInterval time.Duration
	timeout        time.Duration
	now            func() time.Time
}

var _ assay.LogVolumeReader = (*Remote)(nil)

// NewRemote returns a Remote. It does not connect. The caller must call Close.
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
		queries:        fair.NewSemaphore(remoteQueries, remoteQueries/2),
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

// Close closes idle connections.
func (r *Remote) Close() { r.client.CloseIdleConnections() }

// LogVolume implements assay.LogVolumeReader.
func (r *Remote) LogVolume(ctx context.Context, organizationID string, period assay.LogVolumePeriod) (*assay.LogVolume, error) {
	v, err := newVolume(period, r.now())
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	if r.queries.Acquire(ctx, organizationID) != nil {
		return nil, upstream("too many queries of log volume are in flight", ctx.Err())
	}
	defer r.queries.Release(organizationID)

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

// increase returns the query for the records of an organization in the window before a time. PromQL's string literals
// are Go's (https://prometheus.io/docs/prometheus/latest/querying/basics/#string-literals).
func increase(organizationID string, window time.Duration) string {
	return fmt.Sprintf("sum by (%s) (increase(%s{%s=%s}[%s]))",
		severityLabel, metricName, organizationLabel, strconv.Quote(organizationID), model.Duration(window))
}

// maxCount is the largest count; above it float64 does not represent all integers.
const maxCount = 1 << 53

// setCounts sets the counts from the result of an instant query.
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
			return upstream("the metrics store answered with a number that is not a count", nil)
		}
		v.Counts[severity] = uint64(math.Floor(max(sum, 0) + 0.5))
	}
	return nil
}

// setSeries distributes the counts over the series in proportion to the result of a range query.
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
			// A sample at the end of a step belongs to that step. Tolerate a rounded timestamp.
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
