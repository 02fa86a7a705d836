// SPDX-License-Identifier: Apache-2.0

package usage

import "assay"

// method defines the saving for an insight type in one part of the cost. The table in docs/costs.md is generated from
// it.
type method struct {
	insight string
	part    part
	formula string // "" for no saving
	reason  string
	// share is the formula before it is limited to the range 0 to 1.
	share func(u *assay.ServiceUsage, i assay.InsightUsage) float64
}

const (
	// spansPerTrace is the number of spans counted for a trace that fails SPA-001, which needs at least 11 INTERNAL
	// spans of the service, or SPA-005, which needs at least 21 short spans, most of them of the service.
	spansPerTrace = 11
	// valuesPerHour is the number of attribute values from which MET-001 fails.
	valuesPerHour = 10_000
	// debugShare is the assumed fraction of DEBUG records in a day's logs.
	debugShare = 0.25
)

// methods has a row for every insight type. Records are counted where possible, at the minimum number with which the
// rule fails.
var methods = []method{
	{
		insight: "excessive_internal_spans", part: traces,
		formula: "11 × failed ÷ spans",
		reason:  "`failed` counts traces with more than 10 INTERNAL spans of the service. Each contains at least 11, which the fix replaces by log records of the enclosing span, a histogram, or nothing.",
		share: func(u *assay.ServiceUsage, i assay.InsightUsage) float64 {
			return ratio(spansPerTrace*float64(i.Failed), u.Traces.Items)
		},
	},
	{
		insight: "excessive_short_spans", part: traces,
		formula: "11 × failed ÷ spans",
		reason:  "`failed` counts traces with more than 20 spans under 5 ms, of which this service created the most. Half of the minimum, 21, is attributed to it.",
		share: func(u *assay.ServiceUsage, i assay.InsightUsage) float64 {
			return ratio(spansPerTrace*float64(i.Failed), u.Traces.Items)
		},
	},
	{
		insight: "unbounded_metric_attributes", part: series,
		formula: "(active series − 10,000) ÷ active series",
		reason:  "An attribute with 10,000 or more values in an hour creates as many series. Without it, the service is assumed to keep 10,000 series in total, the rule's limit for a single attribute.",
		share: func(u *assay.ServiceUsage, _ assay.InsightUsage) float64 {
			return ratio(float64(u.ActiveSeries)-valuesPerHour, u.ActiveSeries)
		},
	},
	{
		insight: "unbounded_metric_attributes", part: metrics,
		formula: "10,000 × failed ÷ data points",
		reason:  "`failed` counts hours in which an attribute of a metric had 10,000 or more values, so at least as many data points, which the fix reduces to a few. Only the first export of the hour is counted.",
		share: func(u *assay.ServiceUsage, i assay.InsightUsage) float64 {
			return ratio(valuesPerHour*float64(i.Failed), u.Metrics.Items)
		},
	},
	{
		insight: "debug_logs_in_production", part: logs,
		formula: "0.25 × failed ÷ observed",
		reason:  "`failed` counts days with DEBUG records and `observed` days with logs. The share of DEBUG records of a day is not counted. A quarter is a conservative assumption: enabling DEBUG commonly multiplies the log volume.",
		share: func(_ *assay.ServiceUsage, i assay.InsightUsage) float64 {
			return debugShare * ratio(float64(i.Failed), i.Observed)
		},
	},

	{insight: "client_root_spans", reason: "The fix adds the parent SERVER or CONSUMER span."},
	{insight: "default_service_name", reason: "The fix changes a name."},
	{insight: "deprecated_attributes", reason: "The fix renames attributes."},
	{insight: "discouraged_metric_resource_attributes", reason: "The attributes are small, and the number of series that they split is not counted."},
	{insight: "duplicate_service_instance_id", reason: "The fix separates conflicting series."},
	{insight: "inconsistent_histogram_buckets", reason: "The fix changes bounds."},
	{insight: "inconsistent_metric_unit", reason: "The fix changes a unit."},
	{insight: "invalid_service_criticality", reason: "The fix changes a value."},
	{insight: "metric_named_like_attribute", reason: "The fix renames a metric."},
	{insight: "misplaced_attributes", reason: "The fix moves attributes; their size on each record is not counted."},
	{insight: "missing_deployment_environment", reason: "The fix adds an attribute."},
	{insight: "missing_k8s_pod_uid", reason: "The fix adds an attribute."},
	{insight: "missing_log_severity", reason: "The fix adds a field."},
	{insight: "missing_metric_unit", reason: "The fix adds or changes a unit."},
	{insight: "missing_service_instance_id", reason: "The fix adds an attribute."},
	{insight: "missing_service_name", reason: "The fix adds an attribute."},
	{insight: "orphan_spans", reason: "The fix restores the missing parents and drops nothing."},
	{insight: "quota_exceeded", reason: "The fix reduces the number of names; the records stay."},
	{insight: "sensitive_log_data", reason: "The fix removes or hashes a value; its bytes are negligible."},
	{insight: "sensitive_metric_data", reason: "The fix removes or hashes a value; its bytes are negligible."},
	{insight: "sensitive_resource_data", reason: "The fix removes or hashes a value; its bytes are negligible."},
	{insight: "sensitive_span_data", reason: "The fix removes or hashes a value; its bytes are negligible."},
	{insight: "unbounded_span_names", reason: "The fix reduces the number of names; the spans stay."},
	{insight: "unit_in_metric_name", reason: "The fix renames a metric."},
	{insight: "unsupported_runtime", reason: "The fix changes the runtime."},
}

// ratio returns a/whole, limited to the range 0 to 1, and 0 if whole is 0.
func ratio(a float64, whole uint64) float64 {
	if whole == 0 {
		return 0
	}
	return min(max(a/float64(whole), 0), 1)
}

// avoidable returns the saving from fixing the active insights of a service, for each of its costs. Shares of one
// part are combined as independent, 1 − ∏(1 − share), so they never exceed the cost of the part.
func avoidable(u *assay.ServiceUsage, c *costs) costs {
	stays := [partCount]float64{1, 1, 1, 1}
	for i := range methods { // in table order, so that sums do not depend on the order of the insights
		m := &methods[i]
		if m.share == nil {
			continue
		}
		for _, insight := range u.Insights {
			if insight.Type == m.insight && insight.Failed > 0 {
				stays[m.part] *= 1 - m.share(u, insight)
			}
		}
	}
	var saved costs
	for p, stay := range stays {
		saved[p] = c[p] * (1 - stay)
	}
	return saved
}
