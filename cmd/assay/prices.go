// SPDX-License-Identifier: Apache-2.0

package main

import "assay/internal/usage"

// priceConfig holds the flags of the prices. The defaults are usage.DefaultPrices.
type priceConfig struct {
	PriceTracesPerGB   float64 `name:"price-traces-per-gb" default:"0.5" placeholder:"N" help:"Price of a GB of traces (${default})."`
	PriceMetricsPerGB  float64 `name:"price-metrics-per-gb" default:"0" placeholder:"N" help:"Price of a GB of metrics (${default})."`
	PriceLogsPerGB     float64 `name:"price-logs-per-gb" default:"0.5" placeholder:"N" help:"Price of a GB of logs (${default})."`
	PricePer1000Series float64 `name:"price-per-1000-series" default:"6.5" placeholder:"N" help:"Price of 1,000 active metric series a month (${default})."`
	PriceCurrency      string  `default:"USD" placeholder:"CODE" help:"Currency of the prices, ISO 4217 (${default})."`
}

func (c *priceConfig) prices() usage.Prices {
	return usage.Prices{
		TracesPerGB: c.PriceTracesPerGB, MetricsPerGB: c.PriceMetricsPerGB, LogsPerGB: c.PriceLogsPerGB,
		SeriesPer1000: c.PricePer1000Series, Currency: c.PriceCurrency,
	}
}

func (c *priceConfig) problems() []error {
	var ck check
	all := c.prices()
	for flag, one := range map[string]usage.Prices{
		"price-traces-per-gb":   {TracesPerGB: all.TracesPerGB},
		"price-metrics-per-gb":  {MetricsPerGB: all.MetricsPerGB},
		"price-logs-per-gb":     {LogsPerGB: all.LogsPerGB},
		"price-per-1000-series": {SeriesPer1000: all.SeriesPer1000},
	} {
		one.Currency = usage.DefaultPrices().Currency
		ck.err(flag, one.Validate())
	}
	ck.err("price-currency", usage.Prices{Currency: all.Currency}.Validate())
	return ck.problems
}
