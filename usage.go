// SPDX-License-Identifier: Apache-2.0

package assay

import (
	"context"
	"time"
)

// SignalUsage is what a service sent of one signal.
type SignalUsage struct {
	Items uint64 // spans, metric data points or log records
	Bytes uint64 // uncompressed OTLP protobuf bytes
}

// ServiceUsage is what one service sent in the window.
type ServiceUsage struct {
	Service Service // ID, organization, key, first and last seen; its score is not filled

	Traces, Metrics, Logs SignalUsage

	// ActiveSeries is the number of distinct metric series seen in the window, and
	// in the rest of the day in which it starts: data points that differ in resource
	// attributes, scope, metric name, unit, type or attributes. It is exact up to
	// 4,096 and an estimate above, with a standard error of 1.6 %.
	ActiveSeries uint64

	Insights []InsightUsage // the active ones, by type
}

// Bytes returns the bytes of all signals.
func (u *ServiceUsage) Bytes() uint64 { return u.Traces.Bytes + u.Metrics.Bytes + u.Logs.Bytes }

// InsightUsage is how often the rule behind an active insight looked and failed in
// the buckets kept. For LOG-001 these are days with logs and days with DEBUG records.
// The failures of RES-002, MET-003 and MET-004, which compare services, are not
// counted.
type InsightUsage struct {
	Type     string // name of the insight type
	Observed uint64
	Failed   uint64
}

// UsageStore reads usage. Implementations may be used concurrently.
type UsageStore interface {
	// FindUsage returns the usage of all of an organization's services that sent
	// something in the buckets kept, in no order.
	FindUsage(ctx context.Context, organizationID string) ([]*ServiceUsage, error)
}

// ServiceAnalytics is what an organization's services sent and cost in a period.
type ServiceAnalytics struct {
	Start, End time.Time
	Currency   string // ISO 4217
	TotalBytes uint64 // of the organization, also of services that are not listed
	TotalCost  float64
	Services   []ServiceCost // most bytes first, then by name, namespace, environment
}

// ServiceCost is one service, all its versions together.
type ServiceCost struct {
	ID        string // of the version last seen
	Name      string
	Namespace string

	Environment           string
	Version               string // last seen
	Traces, Metrics, Logs SignalUsage
	ActiveSeries          uint64

	TracesCost, MetricsCost, LogsCost SignalCost // that of metrics with the active series

	EstimatedCost float64 // of all signals
	AvoidableCost float64 // what fixing the active insights would save
}

// SignalCost is what a service's telemetry of one signal costs.
type SignalCost struct {
	Estimated float64
	Avoidable float64 // what fixing the active insights would save of it
}

// Bytes returns the bytes of all signals.
func (c *ServiceCost) Bytes() uint64 { return c.Traces.Bytes + c.Metrics.Bytes + c.Logs.Bytes }

// Analyst works out usage and cost. Implementations may be used concurrently.
type Analyst interface {
	// Analyze returns at most limit services.
	Analyze(ctx context.Context, organizationID string, limit int) (*ServiceAnalytics, error)
}
