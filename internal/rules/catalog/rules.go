// SPDX-License-Identifier: Apache-2.0

package catalog

import "assay"

const (
	critical  = assay.ImpactCritical
	important = assay.ImpactImportant
	normal    = assay.ImpactNormal
	low       = assay.ImpactLow

	trace  = assay.SignalTrace
	metric = assay.SignalMetric
	log    = assay.SignalLog
)

// table holds the exact fields of each entry. Rules of the resource and of the SDK apply
// to every signal but belong to the trace group, as in the specification.
func table() [Count]Info {
	return [Count]Info{
		LOG001: {
			ID: "LOG-001", Name: "debug_logs_in_production", DisplayName: "Debug logs in production",
			Impact: important, Signal: log,
			Target:    "service and day",
			Applies:   "The service sent log records and its environment is production: `production` or `prod`, in any case.",
			Criterion: "DEBUG records (severity number 5 to 8, or severity text `DEBUG` in any case) on more than 14 distinct UTC days of the window.",
		},
		LOG002: {
			ID: "LOG-002", Name: "missing_log_severity", DisplayName: "Log records without severity",
			Impact: important, Signal: log,
			Target:    "log record",
			Applies:   "Always.",
			Criterion: "The severity number is 0 (unspecified).",
		},
		LOG003: {
			ID: "LOG-003", Name: "sensitive_log_data", DisplayName: "Sensitive data in logs",
			Impact: critical, Signal: log,
			Target:    "log record",
			Applies:   "Always.",
			Criterion: "Sensitive data in the record: body (strings and nested maps and arrays), attributes, event name, scope name, scope version or scope attributes.",
		},
		MET001: {
			ID: "MET-001", Name: "unbounded_metric_attributes", DisplayName: "Metric attribute with too many values",
			Impact: important, Signal: metric,
			Target:    "metric name, attribute key and hour",
			Applies:   "The metric has data point attributes.",
			Criterion: "10,000 or more distinct values of one attribute key in one hour.",
		},
		MET002: {
			ID: "MET-002", Name: "missing_metric_unit", DisplayName: "Metric unit missing or invalid",
			Impact: important, Signal: metric,
			Target:    "metric",
			Applies:   "Always.",
			Criterion: "The unit is empty or not a valid UCUM expression (case-sensitive codes).",
		},
		MET003: {
			ID: "MET-003", Name: "inconsistent_metric_unit", DisplayName: "One metric name with several units",
			Impact: important, Signal: metric,
			Target:    "metric name in the organization, 14 days",
			Applies:   "Always.",
			Criterion: "Two different units were seen for the name.",
		},
		MET004: {
			ID: "MET-004", Name: "inconsistent_histogram_buckets", DisplayName: "One histogram name with several bucket layouts",
			Impact: normal, Signal: metric,
			Target:    "explicit-bucket histogram name in the organization, 14 days",
			Applies:   "Always.",
			Criterion: "Two different lists of bounds were seen for the name.",
		},
		MET005: {
			ID: "MET-005", Name: "unit_in_metric_name", DisplayName: "Unit in the metric name",
			Impact: normal, Signal: metric,
			Target:    "metric",
			Applies:   "The unit is one of those listed under Choices.",
			Criterion: "One of the words of the metric name is the unit's name.",
		},
		MET006: {
			ID: "MET-006", Name: "metric_named_like_attribute", DisplayName: "Metric named like an attribute",
			Impact: important, Signal: metric,
			Target:    "metric",
			Applies:   "Always.",
			Criterion: "The metric name equals an attribute key of the semantic conventions.",
		},
		MET007: {
			ID: "MET-007", Name: "discouraged_metric_resource_attributes", DisplayName: "Volatile resource attributes on metrics",
			Impact: normal, Signal: metric,
			Target:    "resource of metrics",
			Applies:   "Always.",
			Criterion: "The resource carries `host.ip`, `host.mac`, `process.command_args`, `process.command_line`, `process.runtime.description` or `os.description`.",
		},
		MET008: {
			ID: "MET-008", Name: "sensitive_metric_data", DisplayName: "Sensitive data in metrics",
			Impact: critical, Signal: metric,
			Target:    "metric",
			Applies:   "Always.",
			Criterion: "Sensitive data in the metric: name, description, unit, data point attributes, exemplar attributes, scope name, scope version or scope attributes.",
		},
		RES001: {
			ID: "RES-001", Name: "missing_service_instance_id", DisplayName: "Missing service.instance.id",
			Impact: normal, Signal: trace,
			Target:    "resource of traces, metrics and logs",
			Applies:   "Always.",
			Criterion: "`service.instance.id` is absent or an empty string.",
		},
		RES002: {
			ID: "RES-002", Name: "duplicate_service_instance_id", DisplayName: "Duplicate service.instance.id",
			Impact: important, Signal: trace,
			Target:    "resource of traces, metrics and logs",
			Applies:   "`service.instance.id` is set and the resource names a workload: a pod, a container or a host.",
			Criterion: "The same service name and instance id are seen on two workloads within one hour.",
		},
		RES003: {
			ID: "RES-003", Name: "missing_k8s_pod_uid", DisplayName: "Missing k8s.pod.uid",
			Impact: important, Signal: trace,
			Target:    "resource of traces, metrics and logs",
			Applies:   "The resource describes a pod or what runs in one: it has a `k8s.pod.` or `k8s.container.` key, or `service.name` and another `k8s.` key that is not under `k8s.cluster.` or `k8s.node.`.",
			Criterion: "`k8s.pod.uid` is absent or an empty string.",
		},
		RES004: {
			ID: "RES-004", Name: "misplaced_attributes", DisplayName: "Attributes at the wrong level",
			Impact: important, Signal: trace,
			Target:    "resource, span and log record",
			Applies:   "Always.",
			Criterion: "A resource attribute whose convention levels exclude resource, or a span or log attribute whose only level is resource.",
		},
		RES005: {
			ID: "RES-005", Name: "missing_service_name", DisplayName: "Missing service.name",
			Impact: critical, Signal: trace,
			Target:    "resource of traces, metrics and logs",
			Applies:   "Always.",
			Criterion: "`service.name` is absent, not a string, or empty.",
		},
		RES006: {
			ID: "RES-006", Name: "invalid_service_criticality", DisplayName: "Invalid service.criticality",
			Impact: normal, Signal: trace,
			Target:    "resource of traces, metrics and logs",
			Applies:   "`service.criticality` is present.",
			Criterion: "The value is not exactly `mission_critical`, `high`, `medium` or `low`.",
		},
		RES007: {
			ID: "RES-007", Name: "missing_deployment_environment", DisplayName: "Missing deployment.environment.name",
			Impact: important, Signal: trace,
			Target:    "resource of traces, metrics and logs",
			Applies:   "Always.",
			Criterion: "`deployment.environment.name` is absent, not a string, or empty.",
		},
		RES010: {
			ID: "RES-010", Name: "sensitive_resource_data", DisplayName: "Sensitive data in resource attributes",
			Impact: critical, Signal: trace,
			Target:    "resource of traces, metrics and logs",
			Applies:   "Always.",
			Criterion: "Sensitive data in a resource attribute.",
		},
		SDK001: {
			ID: "SDK-001", Name: "unsupported_runtime", DisplayName: "Runtime not supported by the SDK",
			Impact: low, Signal: trace,
			Target:    "resource of traces, metrics and logs",
			Applies:   "The resource has `telemetry.sdk.language`, `telemetry.sdk.version` and `process.runtime.version`, and the language and SDK version are in the support table.",
			Criterion: "The runtime's version is outside what that SDK version supports.",
		},
		SPA001: {
			ID: "SPA-001", Name: "excessive_internal_spans", DisplayName: "Too many internal spans",
			Impact: normal, Signal: trace,
			Target:    "service in a closed trace",
			Applies:   "The service has a span in the trace.",
			Criterion: "More than 10 spans of that service in that trace have kind INTERNAL.",
		},
		SPA002: {
			ID: "SPA-002", Name: "orphan_spans", DisplayName: "Spans whose parent is missing",
			Impact: normal, Signal: trace,
			Target:    "span with a parent id in a closed trace",
			Applies:   "Always.",
			Criterion: "No span with the parent's id arrived in that trace.",
		},
		SPA003: {
			ID: "SPA-003", Name: "unbounded_span_names", DisplayName: "Too many span names",
			Impact: important, Signal: trace,
			Target:    "service and hour",
			Applies:   "The service has a span.",
			Criterion: "More than 1,000 distinct span names in one hour.",
		},
		SPA004: {
			ID: "SPA-004", Name: "client_root_spans", DisplayName: "Root spans of kind CLIENT",
			Impact: important, Signal: trace,
			Target:    "root span (no parent id)",
			Applies:   "The SDK language is not `webjs`.",
			Criterion: "The span's kind is CLIENT.",
		},
		SPA005: {
			ID: "SPA-005", Name: "excessive_short_spans", DisplayName: "Too many short spans",
			Impact: important, Signal: trace,
			Target:    "closed trace",
			Applies:   "Always.",
			Criterion: "More than 20 spans of the trace last under 5 ms.",
		},
		SPA006: {
			ID: "SPA-006", Name: "sensitive_span_data", DisplayName: "Sensitive data in spans",
			Impact: critical, Signal: trace,
			Target:    "span",
			Applies:   "Always.",
			Criterion: "Sensitive data in the span: name, status message, attributes, events (name and attributes), link attributes, scope name, scope version or scope attributes.",
		},
		DefaultServiceName: {
			Name: "default_service_name", DisplayName: "Default service.name",
			Impact: important, Signal: trace,
			Target:    "resource of traces, metrics and logs",
			Applies:   "`service.name` was sent.",
			Criterion: "The name is `unknown_service` or begins with `unknown_service:`.",
		},
		DeprecatedAttributes: {
			Name: "deprecated_attributes", DisplayName: "Deprecated attributes",
			Impact: low, Signal: trace,
			Target:    "attribute keys",
			Applies:   "Always.",
			Criterion: "The attribute registry marks the key as renamed or obsoleted.",
		},
		QuotaExceeded: {
			Name: "quota_exceeded", DisplayName: "Telemetry above a limit",
			Impact: important, Signal: trace,
			Target:    "record",
			Applies:   "The organization exceeds its limit of services, or a service its limit of metric names or of their units, bounds and keys.",
			Criterion: "The record counts for the service `assay_overflow` and is not evaluated, or a unit, bucket bounds or an attribute key of a metric are not compared.",
		},
	}
}
