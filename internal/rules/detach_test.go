// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"

	"assay"
	"assay/internal/delta"
	. "assay/internal/rules/rulestest"
)

// TestDetach: what is detached, and what stays, are together the facts of the batch.
func TestDetach(t *testing.T) {
	var entries []*metricspb.ResourceMetrics
	for i := range 3 {
		var metrics []*metricspb.Metric
		for j := range 200 {
			metrics = append(metrics, Gauge(fmt.Sprint("metric.", j), "s", Point(T0, "a", j, "b", j)))
		}
		entries = append(entries, Metrics(Service(fmt.Sprint("service ", i)), metrics...))
	}
	q := MetricsRequest(entries...)
	evaluated := func() (*Batch, *delta.Delta) {
		b, d := new(Batch), new(delta.Delta)
		require.NoError(t, NewEvaluator(Config{}).Evaluate(t.Context(), q.Signal, q.Body, input(), b))
		b.MergeInto(d)
		return b, d
	}
	b, want := evaluated()
	require.Empty(t, b.Detach(3*3*200), "few enough")
	groups := b.Detach(100)
	require.Len(t, groups, 3*3*200/100)
	got := new(delta.Delta)
	for _, d := range groups {
		n := 0
		for _, s := range d.Organizations[input().OrganizationID].Services {
			n += len(s.Claims) + len(s.Distinct)
			require.NotZero(t, s.FirstSeen)
		}
		require.Equal(t, 100, n)
		got.Merge(d)
		got.Merge(d) // any number of times
	}
	require.LessOrEqual(t, b.Rows(), 1+3+3, "a row of each service, and one of its hour")
	b.MergeInto(got)
	for k, s := range want.Organizations[input().OrganizationID].Services {
		o := got.Organizations[input().OrganizationID].Services[k]
		require.Equal(t, s.Claims, o.Claims)
		require.Len(t, o.Distinct, len(s.Distinct))
		for key, f := range s.Distinct {
			require.Equal(t, f.Values.Count(), o.Distinct[key].Values.Count())
		}
		require.Equal(t, s.Verdicts, o.Verdicts)
	}
	require.Contains(t, want.Organizations[input().OrganizationID].Services, assay.ServiceKey{Name: "service 0", Environment: "test"})
}
