// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// collector exports assay's own metrics to Prometheus with the names from the table of instruments.
// OpenTelemetry's Prometheus exporter would generate other names and omit the start time of counters.
type collector struct {
	reader *sdkmetric.ManualReader // cumulative
	names  map[string]string       // name on /metrics by OpenTelemetry name
}

func newCollector(r *sdkmetric.ManualReader) *collector {
	c := &collector{reader: r, names: make(map[string]string)}
	for _, i := range instruments {
		c.names[i.name] = i.prometheus
	}
	return c
}

// Describe sends nothing: the collector is unchecked, because attributes may be absent.
func (c *collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	var read metricdata.ResourceMetrics
	if err := c.reader.Collect(ctx, &read); err != nil {
		if !errors.Is(err, sdkmetric.ErrReaderShutdown) {
			ch <- prometheus.NewInvalidMetric(prometheus.NewInvalidDesc(err), err)
		}
		return
	}
	for _, s := range read.ScopeMetrics {
		for _, m := range s.Metrics {
			if name, ok := c.names[m.Name]; ok && s.Scope.Name == scope {
				collect(ch, name, m)
			}
		}
	}
}

// collect sends one metric.
func collect(ch chan<- prometheus.Metric, name string, m metricdata.Metrics) {
	send := func(attributes attribute.Set, make func(*prometheus.Desc, []string) (prometheus.Metric, error)) {
		var labels, values []string
		for _, a := range attributes.ToSlice() {
			labels = append(labels, strings.ReplaceAll(string(a.Key), ".", "_"))
			values = append(values, a.Value.String())
		}
		desc := prometheus.NewDesc(name, m.Description, labels, nil)
		metric, err := make(desc, values)
		if err != nil {
			metric = prometheus.NewInvalidMetric(desc, err)
		}
		ch <- metric
	}
	switch data := m.Data.(type) {
	case metricdata.Sum[int64]:
		for _, p := range data.DataPoints {
			send(p.Attributes, func(d *prometheus.Desc, values []string) (prometheus.Metric, error) {
				if !data.IsMonotonic {
					return prometheus.NewConstMetric(d, prometheus.GaugeValue, float64(p.Value), values...)
				}
				return prometheus.NewConstMetricWithCreatedTimestamp(d, prometheus.CounterValue, float64(p.Value), p.StartTime, values...)
			})
		}
	case metricdata.Gauge[float64]:
		for _, p := range data.DataPoints {
			send(p.Attributes, func(d *prometheus.Desc, values []string) (prometheus.Metric, error) {
				return prometheus.NewConstMetric(d, prometheus.GaugeValue, p.Value, values...)
			})
		}
	case metricdata.Histogram[float64]:
		for _, p := range data.DataPoints {
			send(p.Attributes, func(d *prometheus.Desc, values []string) (prometheus.Metric, error) {
				buckets := make(map[float64]uint64, len(p.Bounds))
				var below uint64
				for i, bound := range p.Bounds {
					below += p.BucketCounts[i]
					buckets[bound] = below
				}
				return prometheus.NewConstHistogramWithCreatedTimestamp(d, p.Count, p.Sum, buckets, p.StartTime, values...)
			})
		}
	default: // no instrument has this type
		err := fmt.Errorf("%s is a %T", m.Name, m.Data)
		ch <- prometheus.NewInvalidMetric(prometheus.NewInvalidDesc(err), err)
	}
}
