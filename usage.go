// SPDX-License-Identifier: Apache-2.0

package assay

import (
	"context"
	"time"
)

// SignalUsage is the telemetry of one signal that a service sent.
type SignalUsage struct {
	Items uint64 // spans, metric data points or log records
	Bytes uint64 // uncompressed OTLP protobuf bytes
}

// ServiceUsage is the telemetry that a service sent in the window.
type ServiceUsage struct {
	Service Service // ID, organization, key, first and last seen; Score is not set

	Traces, Metrics, Logs SignalUsage

	// ActiveSeries is the number of distinct metric series in the window, including the whole first day. Series
	// differ in resource attributes, scope, metric name, unit, type or attributes. The number is exact up to 4,096
	// and an estimate above, with a standard error of 1.6 %.
	ActiveSeries uint64

	Insights []InsightUsage // active insights, by type
}

// Bytes returns the bytes of all signals.
func (u *ServiceUsage) Bytes() uint64 { return u.Traces.Bytes + u.Metrics.Bytes + u.Logs.Bytes }

// InsightUsage holds the observations and failures in the window for the rule of an active insight. For LOG-001 these
// are days with logs and days with DEBUG records. Failures of RES-002, MET-003 and MET-004, which compare services,
// are not counted.
type InsightUsage struct {
	Type     string // name of the insight type
	Observed uint64
	Failed   uint64
}

// UsageStore reads usage. Implementations must be safe for concurrent use.
type UsageStore interface {
	// FindUsage returns the usage of all of an organization's services with telemetry in the window, in no order.
	FindUsage(ctx context.Context, organizationID string) ([]*ServiceUsage, error)
}

// ServiceAnalytics is the usage and cost of an organization's services in a period.
type ServiceAnalytics struct {
	Start, End time.Time
	Currency   string // ISO 4217
	TotalBytes uint64 // total of the organization, including unlisted services
	TotalCost  float64
	Services   []ServiceCost // most bytes first, then by name, namespace, environment
}

// ServiceCost is the usage and cost of one service, with all its versions.
type ServiceCost struct {
	ID        string // id of the version last seen
	Name      string
	Namespace string

	Environment           string
	Version               string // version last seen
	Traces, Metrics, Logs SignalUsage
	ActiveSeries          uint64

	TracesCost, MetricsCost, LogsCost SignalCost // the cost of metrics includes active series

	EstimatedCost float64 // sum of all signals
	AvoidableCost float64 // saving from fixing the active insights
}

// SignalCost is the cost of a service's telemetry of one signal.
type SignalCost struct {
	Estimated float64
	Avoidable float64 // saving from fixing the active insights
}

// Bytes returns the bytes of all signals.
func (c *ServiceCost) Bytes() uint64 { return c.Traces.Bytes + c.Metrics.Bytes + c.Logs.Bytes }

// Analyst computes usage and cost. Implementations must be safe for concurrent use.
type Analyst interface {
	// Analyze returns at most limit services.
	Analyze(ctx context.Context, organizationID string, limit int) (*ServiceAnalytics, error)
}
