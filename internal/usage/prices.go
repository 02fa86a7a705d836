// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"regexp"

	"assay"
)

// Prices are prices of telemetry for a month of 30 days.
type Prices struct {
	// Per GB of 10^9 uncompressed OTLP protobuf bytes.
	TracesPerGB, MetricsPerGB, LogsPerGB float64
	// Per 1,000 metric series that were active in the month.
	SeriesPer1000 float64
	// Currency is an ISO 4217 code. It is only displayed; amounts are not converted.
	Currency string
}

// DefaultPrices returns the public list prices of Grafana Cloud Pro in US dollars (https://grafana.com/pricing/ on 25
// May 2026): 0.50 per GB of traces or logs with 30 days of retention, and 6.50 per 1,000 active series. Metrics are
// billed by series and not by GB. Included amounts and platform fees are ignored.
func DefaultPrices() Prices {
	return Prices{TracesPerGB: 0.50, MetricsPerGB: 0, LogsPerGB: 0.50, SeriesPer1000: 6.50, Currency: "USD"}
}

// maxPrice ensures that every cost is finite.
const maxPrice = 1e9

var currency = regexp.MustCompile(`^[A-Z]{3}$`)

// Validate returns CodeInvalid for a price that is not a number between 0 and 10^9, and for a currency that is not
// three capital letters.
func (p Prices) Validate() error {
	for _, x := range []struct {
		name  string
		price float64
	}{
		{"traces per GB", p.TracesPerGB}, {"metrics per GB", p.MetricsPerGB}, {"logs per GB", p.LogsPerGB}, {"1,000 series", p.SeriesPer1000},
	} {
		if !(x.price >= 0 && x.price <= maxPrice) { // also rejects NaN
			return assay.Errorf(assay.CodeInvalid, "the price of %s is %g, not a number between 0 and %.0f", x.name, x.price, maxPrice)
		}
	}
	if !currency.MatchString(p.Currency) {
		return assay.Errorf(assay.CodeInvalid, "the currency %q is not three capital letters", p.Currency)
	}
	return nil
}

// part is one component of the cost.
type part uint8

const (
	traces part = iota
	metrics
	logs
	series
	partCount
)

// costs holds the cost of each part.
type costs [partCount]float64

func (p Prices) costs(tracesBytes, metricsBytes, logsBytes, activeSeries uint64) costs {
	const gb, thousand = 1e9, 1e3
	return costs{
		traces:  float64(tracesBytes) / gb * p.TracesPerGB,
		metrics: float64(metricsBytes) / gb * p.MetricsPerGB,
		logs:    float64(logsBytes) / gb * p.LogsPerGB,
		series:  float64(activeSeries) / thousand * p.SeriesPer1000,
	}
}

func (c *costs) sum() float64 {
	sum := 0.0
	for _, x := range c {
		sum += x
	}
	return sum
}
