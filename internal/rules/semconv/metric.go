// SPDX-License-Identifier: Apache-2.0

package semconv

import (
	_ "embed"
	"sync"
)

// MetricEntry is one metric of the conventions.
type MetricEntry struct {
	Name, Instrument, Unit string
	Deprecated             bool
	Successor              string // the name that replaces a deprecated metric, "" if none does
}

//go:embed metrics.csv
var metricsCSV string

// metrics has the metrics of the conventions by name.
var metrics = sync.OnceValue(func() map[string]MetricEntry {
	m := map[string]MetricEntry{}
	for _, c := range rows(metricsCSV) {
		// metric,instrument,unit,stability,deprecated,renamed_to
		m[c[0]] = MetricEntry{Name: c[0], Instrument: c[1], Unit: c[2], Deprecated: c[4] == "yes", Successor: c[5]}
	}
	return m
})

// LookupMetric returns the metric of the conventions with this name.
func LookupMetric(name string) (MetricEntry, bool) {
	m, ok := metrics()[name]
	return m, ok
}
