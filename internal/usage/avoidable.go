// SPDX-License-Identifier: Apache-2.0

package usage

import "assay"

// method says what fixing an insight of a type saves of one part of the cost, in
// the same words as docs/costs.md, which is made from the table.
type method struct {
	insight string
	part    part
	formula string // "" saves nothing
	reason  string
	// share is the formula, before it is held between 0 and 1.
	share func(u *assay.ServiceUsage, i assay.InsightUsage) float64
}

const (
	// spansPerTrace is how many spans are counted for a trace that fails SPA-001,
	// which takes at least 11 INTERNAL spans of the service, or SPA-005, which takes
	// at least 21 short spans, of which the service made the most.
	spansPerTrace = 11
	// valuesPerHour is the number of attribute values from which MET-001 fails.
	valuesPerHour = 10_000
	// debugShare is the part of a day's logs that is taken for DEBUG records.
	debugShare = 0.25
)

// methods has a row for every insight type. Nothing is assumed where counting is
// possible: records are counted at the least number that the rule needs to fail.
var methods = []method{
	{
		insight: "excessive_internal_spans", part: traces,
		formula: "11 × failed ÷ spans",
		reason:  "`failed` counts traces with more than 10 INTERNAL spans of the service. Each holds at least 11, for which the fix makes log records of the span around them, a histogram, or nothing.",
		share: func(u *assay.ServiceUsage, i assay.InsightUsage) float64 {
			return ratio(spansPerTrace*float64(i.Failed), u.Traces.Items)
		},
	},
	{
		insight: "excessive_short_spans", part: traces,
		formula: "11 × failed ÷ spans",
		reason:  "`failed` counts traces with more than 20 spans under 5 ms, of which this service made the most. Half of the least number, 21, is taken for its own.",
		share: func(u *assay.ServiceUsage, i assay.InsightUsage) float64 {
			return ratio(spansPerTrace*float64(i.Failed), u.Traces.Items)
		},
	},
	{
		insight: "unbounded_metric_attributes", part: series,
		formula: "(active series − 10,000) ÷ active series",
		reason:  "An attribute with 10,000 or more values in an hour makes as many series. Once it is gone, the service keeps 10,000: what the rule takes for too many of a single attribute is left to all its metrics together.",
		share: func(u *assay.ServiceUsage, _ assay.InsightUsage) float64 {
			return ratio(float64(u.ActiveSeries)-valuesPerHour, u.ActiveSeries)
		},
	},
	{
		insight: "unbounded_metric_attributes", part: metrics,
		formula: "10,000 × failed ÷ data points",
		reason:  "`failed` counts hours in which an attribute of a metric had 10,000 or more values, so at least as many data points, which the fix makes a few. Every export after the first of the hour is left out.",
		share: func(u *assay.ServiceUsage, i assay.InsightUsage) float64 {
			return ratio(valuesPerHour*float64(i.Failed), u.Metrics.Items)
		},
	},
	{
		insight: "debug_logs_in_production", part: logs,
		formula: "0.25 × failed ÷ observed",
		reason:  "`failed` counts days with DEBUG records and `observed` days with logs. How many of a day's records are DEBUG is not counted. A quarter is an assumption, and a low one: turning DEBUG on commonly multiplies the volume of a log.",
		share: func(_ *assay.ServiceUsage, i assay.InsightUsage) float64 {
			return debugShare * ratio(float64(i.Failed), i.Observed)
		},
	},

	{insight: "client_root_spans", reason: "The fix adds the SERVER or CONSUMER span above."},
	{insight: "default_service_name", reason: "The fix changes a name."},
	{insight: "deprecated_attributes", reason: "The fix renames attributes."},
	{insight: "discouraged_metric_resource_attributes", reason: "The bytes of the attributes are few, and how many series they split is not counted."},
	{insight: "duplicate_service_instance_id", reason: "The fix separates series that overwrite each other."},
	{insight: "inconsistent_histogram_buckets", reason: "The fix changes bounds."},
	{insight: "inconsistent_metric_unit", reason: "The fix changes a unit."},
	{insight: "invalid_service_criticality", reason: "The fix changes a value."},
	{insight: "metric_named_like_attribute", reason: "The fix renames a metric."},
	{insight: "misplaced_attributes", reason: "The fix moves attributes; what they weigh on each record is not counted."},
	{insight: "missing_deployment_environment", reason: "The fix adds an attribute."},
	{insight: "missing_k8s_pod_uid", reason: "The fix adds an attribute."},
	{insight: "missing_log_severity", reason: "The fix adds a field."},
	{insight: "missing_metric_unit", reason: "The fix adds or changes a unit."},
	{insight: "missing_service_instance_id", reason: "The fix adds an attribute."},
	{insight: "missing_service_name", reason: "The fix adds an attribute."},
	{insight: "orphan_spans", reason: "The fix brings the missing parents back rather than drop their children."},
	{insight: "quota_exceeded", reason: "The fix makes names few; the records stay."},
	{insight: "sensitive_log_data", reason: "The fix removes or hashes a value; its bytes are negligible."},
	{insight: "sensitive_metric_data", reason: "The fix removes or hashes a value; its bytes are negligible."},
	{insight: "sensitive_resource_data", reason: "The fix removes or hashes a value; its bytes are negligible."},
	{insight: "sensitive_span_data", reason: "The fix removes or hashes a value; its bytes are negligible."},
	{insight: "unbounded_span_names", reason: "The fix makes names few; the spans stay."},
	{insight: "unit_in_metric_name", reason: "The fix renames a metric."},
	{insight: "unsupported_runtime", reason: "The fix changes the runtime."},
}

// ratio returns a part of a whole, held between 0 and 1; 0 of nothing.
func ratio(a float64, whole uint64) float64 {
	if whole == 0 {
		return 0
	}
	return min(max(a/float64(whole), 0), 1)
}

// avoidable returns what fixing the active insights of one service would save of
// each of its costs. Shares of one part are combined as if they fell on it at random:
// 1 − ∏(1 − share), so that they never save more than the part costs.
func avoidable(u *assay.ServiceUsage, c *costs) costs {
	stays := [partCount]float64{1, 1, 1, 1}
	for i := range methods { // in the order of the table, so that sums do not depend on the insights'
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
