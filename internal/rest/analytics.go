// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"math"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"assay"
)

// LogVolume is how many log records an organization sent in a period.
type LogVolume struct {
	Period     string           `json:"period" enum:"1h,6h,12h,24h,7d,30d" doc:"The period asked for." example:"24h"`
	Start      Time             `json:"start" doc:"Begin of the period."`
	End        Time             `json:"end" doc:"End of the period."`
	Total      uint64           `json:"total" doc:"Records of all severities." example:"130000"`
	Severities []SeverityVolume `json:"severities" nullable:"false" minItems:"7" maxItems:"7" doc:"Every severity, from TRACE to UNSPECIFIED."`
	Series     []LogVolumePoint `json:"series" nullable:"false" doc:"The period in about 60 steps, oldest first. They add up to total."`
}

// SeverityVolume is the log records of one severity.
type SeverityVolume struct {
	Severity string  `json:"severity" enum:"TRACE,DEBUG,INFO,WARN,ERROR,FATAL,UNSPECIFIED" doc:"Range of OpenTelemetry severity numbers." example:"INFO"`
	Count    uint64  `json:"count" doc:"Records with it." example:"117000"`
	Percent  float64 `json:"percent" minimum:"0" maximum:"100" doc:"Share of the total, rounded to two decimals; 0 where there is none." example:"90"`
}

// LogVolumePoint is one step of a series.
type LogVolumePoint struct {
	Timestamp Time           `json:"timestamp" doc:"Begin of the step."`
	Counts    SeverityCounts `json:"counts" doc:"Records in the step."`
}

// SeverityCounts are numbers of log records by severity.
type SeverityCounts struct {
	Trace       uint64 `json:"TRACE" doc:"Severity numbers 1 to 4." example:"0"`
	Debug       uint64 `json:"DEBUG" doc:"Severity numbers 5 to 8." example:"200"`
	Info        uint64 `json:"INFO" doc:"Severity numbers 9 to 12." example:"1950"`
	Warn        uint64 `json:"WARN" doc:"Severity numbers 13 to 16." example:"12"`
	Error       uint64 `json:"ERROR" doc:"Severity numbers 17 to 20." example:"3"`
	Fatal       uint64 `json:"FATAL" doc:"Severity numbers 21 to 24." example:"0"`
	Unspecified uint64 `json:"UNSPECIFIED" doc:"No severity number, or one that OpenTelemetry does not know." example:"1"`
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
		Period: string(v.Period), Start: Time(v.Start), End: Time(v.End), Total: v.Counts.Total(),
		Severities: make([]SeverityVolume, assay.SeverityCount), Series: make([]LogVolumePoint, len(v.Series)),
	}
	for s, n := range v.Counts {
		out.Severities[s] = SeverityVolume{Severity: assay.Severity(s).String(), Count: n, Percent: percent(n, out.Total)}
	}
	for i := range v.Series {
		out.Series[i] = LogVolumePoint{Timestamp: Time(v.Series[i].Start), Counts: showCounts(&v.Series[i].Counts)}
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

// ServiceAnalytics is what an organization's services sent and cost in a period.
type ServiceAnalytics struct {
	PeriodStart Time          `json:"period_start" doc:"Begin of the period."`
	PeriodEnd   Time          `json:"period_end" doc:"End of the period."`
	Currency    string        `json:"currency" doc:"ISO 4217 code of the currency of all costs." example:"USD"`
	TotalBytes  uint64        `json:"total_bytes" doc:"Of the whole organization, also of services that are not listed." example:"188000000000"`
	TotalCost   float64       `json:"total_cost" doc:"Of the whole organization, also of services that are not listed. Rounded to four decimals." example:"415"`
	Services    []ServiceCost `json:"services" nullable:"false" doc:"Services with the most bytes first, then by name, namespace and environment."`
}

// ServiceCost is what one service sent and costs, all its versions together. Bytes
// are uncompressed OTLP protobuf bytes as received.
type ServiceCost struct {
	ID             string         `json:"id" format:"uuid" doc:"Id of the version last seen." example:"6f0a5b0e-6b5e-5f0c-9d8e-2f1d3c4b5a69"`
	Name           string         `json:"name" doc:"service.name as it was sent." example:"checkout"`
	Namespace      string         `json:"namespace" doc:"service.namespace, empty without one." example:"shop"`
	Environment    string         `json:"environment" doc:"Deployment environment, empty without one." example:"production"`
	TotalBytes     uint64         `json:"total_bytes" doc:"Uncompressed OTLP protobuf bytes of all signals." example:"188000000000"`
	TotalPercent   float64        `json:"total_percent" minimum:"0" maximum:"100" doc:"Share of the organization's bytes, rounded to two decimals." example:"100"`
	TracesBytes    uint64         `json:"traces_bytes" doc:"Bytes of spans." example:"60000000000"`
	TracesPercent  float64        `json:"traces_percent" minimum:"0" maximum:"100" doc:"Share of the service's bytes, rounded to two decimals." example:"31.91"`
	TracesCount    uint64         `json:"traces_count" doc:"Spans." example:"100000000"`
	MetricsBytes   uint64         `json:"metrics_bytes" doc:"Bytes of metrics." example:"8000000000"`
	MetricsPercent float64        `json:"metrics_percent" minimum:"0" maximum:"100" doc:"Share of the service's bytes, rounded to two decimals." example:"4.26"`
	MetricsCount   uint64         `json:"metrics_count" doc:"Metric data points." example:"40000000"`
	LogsBytes      uint64         `json:"logs_bytes" doc:"Bytes of log records." example:"120000000000"`
	LogsPercent    float64        `json:"logs_percent" minimum:"0" maximum:"100" doc:"Share of the service's bytes, rounded to two decimals." example:"63.83"`
	LogsCount      uint64         `json:"logs_count" doc:"Log records." example:"300000000"`
	ActiveSeries   uint64         `json:"active_series" doc:"Distinct metric series." example:"50000"`
	EstimatedCost  float64        `json:"estimated_cost" minimum:"0" doc:"At the configured prices, rounded to four decimals." example:"415"`
	AvoidableCost  float64        `json:"avoidable_cost" minimum:"0" doc:"The part of it that fixing the service's active insights would save, rounded to four decimals." example:"15.5"`
	LatestVersion  *LatestVersion `json:"latest_version"`
}

// TransformSchema lets the version be null.
func (ServiceCost) TransformSchema(r huma.Registry, s *huma.Schema) *huma.Schema {
	s.Properties["latest_version"] = nullable[LatestVersion](r, "The version last seen, null for a service that sends none.")
	return s
}

// LatestVersion is the version of a service that was seen last.
type LatestVersion struct {
	ID      string `json:"id" format:"uuid" doc:"Id of the service with this version." example:"6f0a5b0e-6b5e-5f0c-9d8e-2f1d3c4b5a69"`
	Version string `json:"version" doc:"service.version as it was sent." example:"1.4.2"`
}

func showServiceAnalytics(a *assay.ServiceAnalytics) ServiceAnalytics {
	out := ServiceAnalytics{
		PeriodStart: Time(a.Start), PeriodEnd: Time(a.End), Currency: a.Currency,
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

// cost rounds an amount of money to four decimals: a service that sends little
// costs less than the smallest coin and still not nothing.
func cost(amount float64) float64 { return round(amount, 4) }

type logVolumeParams struct {
	Period assay.LogVolumePeriod `query:"period" enum:"1h,6h,12h,24h,7d,30d" default:"24h" doc:"How far to look back." example:"7d"`
}

type serviceAnalyticsParams struct {
	Limit int `query:"limit" minimum:"1" maximum:"100" default:"50" doc:"Maximum number of services." example:"50"`
}

func (s *server) analytics() {
	register(s, operation{
		Path: "/v1/analytics/log-volume", ID: "get-log-volume", Tag: tagAnalytics, Scope: assay.ScopeRead,
		Summary:     "Get the log volume",
		Description: "How many log records the organization sent in a period, by severity.",
		Errors:      []int{http.StatusBadGateway},
		Volatile:    true,
		Example:     exampleLogVolume(),
	}, func(ctx context.Context, c *call, p *logVolumeParams) (LogVolume, error) {
		if s.cfg.LogVolume == nil {
			return LogVolume{}, assay.Errorf(assay.CodeUnavailable, "the metrics store is not configured")
		}
		v, err := s.cfg.LogVolume.LogVolume(ctx, c.Principal.OrganizationID, p.Period)
		if err != nil {
			return LogVolume{}, err
		}
		return showLogVolume(v), nil
	})

	register(s, operation{
		Path: "/v1/analytics/services", ID: "get-service-analytics", Tag: tagAnalytics, Scope: assay.ScopeRead,
		Summary:     "Get usage and cost of the services",
		Description: "What the organization's services sent in the last 30 days and what that costs. Both costs are estimates.",
		Volatile:    true,
		Example:     exampleServiceAnalytics(),
	}, func(ctx context.Context, c *call, p *serviceAnalyticsParams) (ServiceAnalytics, error) {
		if s.cfg.Analyst == nil {
			return ServiceAnalytics{}, assay.Errorf(assay.CodeUnavailable, "service analytics are not configured")
		}
		a, err := s.cfg.Analyst.Analyze(ctx, c.Principal.OrganizationID, p.Limit)
		if err != nil {
			return ServiceAnalytics{}, err
		}
		return showServiceAnalytics(a), nil
	})
}

// exampleLogVolume has the last two steps of a series.
func exampleLogVolume() LogVolume {
	end := exampleTime.Truncate(time.Minute)
	points := []assay.LogVolumePoint{
		{Start: end.Add(-2 * time.Minute), Counts: assay.SeverityCounts{0, 200, 1950, 12, 3, 0, 1}},
		{Start: end.Add(-time.Minute), Counts: assay.SeverityCounts{0, 180, 2010, 9, 0, 0, 2}},
	}
	v := assay.LogVolume{Period: "1h", Start: end.Add(-time.Hour), End: end, Series: points}
	for i := range points {
		v.Counts.Add(&points[i].Counts)
	}
	return showLogVolume(&v)
}

func exampleServiceAnalytics() ServiceAnalytics {
	end := exampleTime.Truncate(time.Hour)
	return showServiceAnalytics(&assay.ServiceAnalytics{
		Start: end.Add(-30 * 24 * time.Hour), End: end, Currency: "USD", TotalBytes: 200e9, TotalCost: 421.0025,
		Services: []assay.ServiceCost{{
			ID: exampleServiceID, Name: "checkout", Namespace: "shop", Environment: "production", Version: "1.4.2",
			Traces: assay.SignalUsage{Items: 100e6, Bytes: 60e9}, Metrics: assay.SignalUsage{Items: 40e6, Bytes: 8e9},
			Logs: assay.SignalUsage{Items: 300e6, Bytes: 120e9}, ActiveSeries: 50_000, EstimatedCost: 415, AvoidableCost: 15.5,
		}},
	})
}
