// SPDX-License-Identifier: Apache-2.0

package logvolume

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"assay"
)

// Name and labels of the counter, here and in the metrics stores.
const (
	metricName        = "logs_severity_total"
	organizationLabel = "organization_id"
	severityLabel     = "severity"
)

var counterDesc = prometheus.NewDesc(metricName,
	"Log records accepted by organization and severity.",
	[]string{organizationLabel, severityLabel}, nil)

// Counter is the counter logs_severity_total of this process. All severities of an organization are exposed as soon as
// the organization is known, so that a store scrapes zeros before the first record. That time is also the counter's
// created timestamp. It is safe for concurrent use.
type Counter struct {
	now func() time.Time

	mu            sync.Mutex
	organizations map[string]*organizationCounts
}

type organizationCounts struct {
	since  time.Time
	counts assay.SeverityCounts
}

var _ prometheus.Collector = (*Counter)(nil)

// NewCounter returns a counter without organizations. now is the clock of the created timestamps.
func NewCounter(now func() time.Time) *Counter {
	return &Counter{now: now, organizations: make(map[string]*organizationCounts)}
}

// Know exposes the organizations. New ones start at zero.
func (c *Counter) Know(organizationIDs ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range organizationIDs {
		c.know(id)
	}
}

func (c *Counter) know(organizationID string) *organizationCounts {
	o := c.organizations[organizationID]
	if o == nil {
		o = &organizationCounts{since: c.now()}
		c.organizations[organizationID] = o
	}
	return o
}

// Add counts records by organization id.
func (c *Counter) Add(records map[string]assay.SeverityCounts) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, n := range records {
		c.know(id).counts.Add(&n)
	}
}

// Describe implements prometheus.Collector.
func (c *Counter) Describe(descs chan<- *prometheus.Desc) { descs <- counterDesc }

// Collect implements prometheus.Collector.
func (c *Counter) Collect(metrics chan<- prometheus.Metric) {
	for id, o := range c.snapshot() {
		for s, n := range o.counts {
			m, err := prometheus.NewConstMetricWithCreatedTimestamp(counterDesc, prometheus.CounterValue,
				float64(n), o.since, id, assay.Severity(s).String())
			if err != nil {
				m = prometheus.NewInvalidMetric(counterDesc, err)
			}
			metrics <- m
		}
	}
}

// snapshot returns a copy, so that a slow scrape does not block Add.
func (c *Counter) snapshot() map[string]organizationCounts {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := make(map[string]organizationCounts, len(c.organizations))
	for id, o := range c.organizations {
		s[id] = *o
	}
	return s
}
