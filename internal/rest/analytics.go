// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"math"

	"assay"
)

// LogVolume is the number of log records that an organization sent in a period.
type LogVolume struct {
	Period     string           `json:"period"`
	Start      string           `json:"start"`
	End        string           `json:"end"`
	Total      uint64           `json:"total_count"`
	Severities []SeverityVolume `json:"severities"`
	Series     []LogVolumePoint `json:"series"`
}

// SeverityVolume is the log records of one severity.
type SeverityVolume struct {
	Severity string  `json:"severity_text"`
	Count    uint64  `json:"record_count"`
	Percent  float64 `json:"percent"`
}

// LogVolumePoint is one step of a series.
type LogVolumePoint struct {
	Timestamp string         `json:"timestamp"`
	Counts    SeverityCounts `json:"counts"`
}

// SeverityCounts are numbers of log records by severity.
type SeverityCounts struct {
	Trace       uint64 `json:"TRACE"`
	Debug       uint64 `json:"DEBUG"`
	Info        uint64 `json:"INFO"`
	Warn        uint64 `json:"WARN"`
	Error       uint64 `json:"ERROR"`
	Fatal       uint64 `json:"FATAL"`
	Unspecified uint64 `json:"UNSPECIFIED"`
}

func showCounts(c *assay.SeverityCounts) SeverityCounts {
	return SeverityCounts{
		Trace: c[assay.SeverityTrace], Debug: c[assay.SeverityDebug], Info: c[assay.SeverityInfo],
		Warn: c[assay.SeverityWarn], Error: c[assay.SeverityError], Fatal: c[assay.SeverityFatal],
		Unspecified: c[assay.SeverityUnspecified],
	}
}

func showLogVolume(v *assay.LogVolume) LogVolume {
	out := LogVolume{
		Period: string(v.Period), Start: timestamp(v.Start), End: timestamp(v.End), Total: v.Counts.Total(),
		Severities: make([]SeverityVolume, assay.SeverityCount), Series: make([]LogVolumePoint, len(v.Series)),
	}
	for s, n := range v.Counts {
		out.Severities[s] = SeverityVolume{Severity: assay.Severity(s).String(), Count: n, Percent: percent(n, out.Total)}
	}
	for i := range v.Series {
		out.Series[i] = LogVolumePoint{Timestamp: timestamp(v.Series[i].Start), Counts: showCounts(&v.Series[i].Counts)}
	}
	return out
}

// percent returns the share of part in whole, rounded to two decimals.
func percent(part, whole uint64) float64 {
	if whole == 0 {
		return 0
	}
	return round(100*float64(part)/float64(whole), 2)
}

func round(v float64, decimals int) float64 {
	scale := math.Pow10(decimals)
	return math.Round(v*scale) / scale
}

// ServiceAnalytics is the usage and the cost of an organization's services in a period.
type ServiceAnalytics struct {
	PeriodStart string        `json:"period_start"`
	PeriodEnd   string        `json:"period_end"`
	Currency    string        `json:"currency"`
	TotalBytes  uint64        `json:"total_bytes"`
	TotalCost   float64       `json:"total_cost"`
	Services    []ServiceCost `json:"services"`
}

// ServiceCost is the usage and the cost of one service, including all its versions. Bytes
// are uncompressed OTLP protobuf bytes as received.
type ServiceCost struct {
	ID             string         `json:"id"`
	Name           string         `json:"name"`
	Namespace      string         `json:"namespace"`
	Environment    string         `json:"environment"`
	TotalBytes     uint64         `json:"total_bytes"`
	TotalPercent   float64        `json:"total_percent"`
	TracesBytes    uint64         `json:"traces_bytes"`
	TracesPercent  float64        `json:"traces_percent"`
	TracesCount    uint64         `json:"traces_count"`
	MetricsBytes   uint64         `json:"metrics_bytes"`
	MetricsPercent float64        `json:"metrics_percent"`
	MetricsCount   uint64         `json:"metrics_count"`
	LogsBytes      uint64         `json:"logs_bytes"`
	LogsPercent    float64        `json:"logs_percent"`
	LogsCount      uint64         `json:"logs_count"`
	ActiveSeries   uint64         `json:"active_series"`
	EstimatedCost  float64        `json:"estimated_cost"`
	AvoidableCost  float64        `json:"avoidable_cost"`
	LatestVersion  *LatestVersion `json:"latest_version"`
}

// LatestVersion is the most recently seen version of a service.
type LatestVersion struct {
	ID      string `json:"id"`
	Version string `json:"version"`
}

func showServiceAnalytics(a *assay.ServiceAnalytics) ServiceAnalytics {
	out := ServiceAnalytics{
		PeriodStart: timestamp(a.Start), PeriodEnd: timestamp(a.End), Currency: a.Currency,
		TotalBytes: a.TotalBytes, TotalCost: cost(a.TotalCost), Services: make([]ServiceCost, len(a.Services)),
	}
	for i := range a.Services {
		out.Services[i] = showServiceCost(&a.Services[i], a.TotalBytes)
	}
	return out
}

func showServiceCost(c *assay.ServiceCost, organizationBytes uint64) ServiceCost {
	total := c.Bytes()
	out := ServiceCost{
		ID: c.ID, Name: c.Name, Namespace: c.Namespace, Environment: c.Environment,
		TotalBytes: total, TotalPercent: percent(total, organizationBytes),
		TracesBytes: c.Traces.Bytes, TracesPercent: percent(c.Traces.Bytes, total), TracesCount: c.Traces.Items,
		MetricsBytes: c.Metrics.Bytes, MetricsPercent: percent(c.Metrics.Bytes, total), MetricsCount: c.Metrics.Items,
		LogsBytes: c.Logs.Bytes, LogsPercent: percent(c.Logs.Bytes, total), LogsCount: c.Logs.Items,
		ActiveSeries: c.ActiveSeries, EstimatedCost: cost(c.EstimatedCost), AvoidableCost: cost(c.AvoidableCost),
	}
	if c.Version != "" {
		out.LatestVersion = &LatestVersion{ID: c.ID, Version: c.Version}
	}
	return out
}

// cost rounds an amount of money to four decimals: a service may cost less than the
// smallest coin and more than nothing.
func cost(amount float64) float64 { return round(amount, 4) }

func (s *server) analytics() {
	handleFound(s, "get-log-volume", route{scope: assay.ScopeRead}, showLogVolume, func(ctx context.Context, c *call) (*assay.LogVolume, error) {
		if s.cfg.LogVolume == nil {
			return nil, assay.Errorf(assay.CodeUnavailable, "the metrics store is not configured")
		}
		return s.cfg.LogVolume.LogVolume(ctx, c.Principal.OrganizationID, assay.LogVolumePeriod(param[string](c.params, "period")))
	})

	handleFound(s, "get-service-analytics", route{scope: assay.ScopeRead}, showServiceAnalytics, func(ctx context.Context, c *call) (*assay.ServiceAnalytics, error) {
		if s.cfg.Analyst == nil {
			return nil, assay.Errorf(assay.CodeUnavailable, "service analytics are not configured")
		}
		return s.cfg.Analyst.Analyze(ctx, c.Principal.OrganizationID, param[int](c.params, "limit"))
	})
}
