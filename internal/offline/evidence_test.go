// SPDX-License-Identifier: Apache-2.0

package offline_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	. "assay/internal/rules/rulestest"
)

// evidence returns the attributes of an insight.
func evidence(t *testing.T, service, insight string, in ...Request) map[string]any {
	t.Helper()
	s := serviceOf(scoreOf(t, time.Time{}, in...), service)
	require.NotNil(t, s)
	for _, i := range s.Insights {
		if i.Name == insight {
			return i.Attributes
		}
	}
	t.Fatalf("service %s has no insight %s: %+v", service, insight, s.Insights)
	return nil
}

// list decodes evidence that is a JSON array of texts.
func list(t *testing.T, v any) (items []string) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(v.(string)), &items))
	return items
}

func TestEvidence(t *testing.T) {
	a := Service("a")
	x := evidence(t, "a", "excessive_internal_spans", Traces(Spans(a, spans(11, 1, 1, 0, kind(internal))...)))
	require.Equal(t, []string{"GET /cart"}, list(t, x["span_names"]))
	require.EqualValues(t, 1, x["sampling_rate"])
	require.Equal(t, "TRACES", x["signal_type"])
	require.EqualValues(t, 1, x["observations_total"])
	require.EqualValues(t, 1, x["violations_total"])

	x = evidence(t, "a", "unbounded_metric_attributes", func() Request {
		m := Gauge("m", "1")
		points := &m.GetGauge().DataPoints
		for i := range 11_000 {
			*points = append(*points, Point(T0, "id", i, "other", "x"))
		}
		return MetricsRequest(Metrics(a, m))
	}())
	require.Equal(t, []string{"m"}, list(t, x["metric_names"]))
	require.Equal(t, []string{"id"}, list(t, x["attribute_keys"]))
	require.EqualValues(t, 2, x["observations_total"])
	require.EqualValues(t, 1, x["violations_total"])
	require.Equal(t, "METRICS", x["signal_type"])

	x = evidence(t, "a", "inconsistent_metric_unit", MetricsRequest(Metrics(a, Gauge("m", "s"), Gauge("n", "1"))), MetricsRequest(Metrics(Service("b"), Gauge("m", ""))))
	require.Equal(t, []string{"m"}, list(t, x["metric_names"]))
	require.Equal(t, []string{"", "s"}, list(t, x["units"]))

	x = evidence(t, "a", "missing_deployment_environment", one(Attrs("service.name", "a"))...)
	require.Equal(t, "deployment.environment.name", x["missing_attribute"])

	// The signal of a resource rule is that of its example.
	for signal, q := range eachSignal(Attrs("service.name", "a")) {
		require.Equal(t, strings.ToUpper(signal), evidence(t, "a", "missing_service_instance_id", q)["signal_type"])
	}
	for signal, q := range eachSignal(Service("a", "http.method", "GET", "url.full", "https://u:p@h")) {
		for _, insight := range []string{"misplaced_attributes", "deprecated_attributes", "sensitive_resource_data"} {
			require.Equal(t, strings.ToUpper(signal), evidence(t, "a", insight, q)["signal_type"], insight)
		}
	}

	x = evidence(t, "a", "deprecated_attributes", one(Service("a", "deployment.environment", "x", "http.target", "/", "k8s.pod.labels.app", "y"))...)
	require.Equal(t, []string{"deployment.environment", "http.target", "k8s.pod.labels.app"}, list(t, x["attribute_keys"]))
	require.Equal(t, []string{"deployment.environment:deployment.environment.name", "k8s.pod.labels.app:k8s.pod.label.app"}, list(t, x["renamed_to"]))
	x = evidence(t, "a", "deprecated_attributes", one(Service("a", "http.target", "/"))...)
	require.NotContains(t, x, "renamed_to")

	x = evidence(t, "a", "sensitive_span_data", Traces(Spans(a, Span(1, 1, 0, func(s *tracepb.Span) { s.Attributes = Attrs("url.full", "jane@example.com") }))))
	require.JSONEq(t, `[{"where":"attribute: url.full","kind":"email"}]`, x["findings"].(string))

	var many []*tracepb.Span
	for i := range 50 {
		many = append(many, Span(i+1, 1, 0, kind(client), named(fmt.Sprintf("op %02d", i))))
	}
	x = evidence(t, "a", "client_root_spans", Traces(Spans(a, many...)))
	require.Len(t, list(t, x["span_names"]), 20)
	require.EqualValues(t, 50, x["violations_total"])
}
