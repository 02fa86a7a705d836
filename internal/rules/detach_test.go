// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	logspb "go.opentelemetry.io/proto/otlp/logs/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"

	"assay"
	"assay/internal/delta"
	. "assay/internal/rules/rulestest"
)

// TestDetach: the detached groups and the remaining batch together have the facts of the
// batch.
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
	const rows = 3 * (200 + 2*200*delta.SetRows + delta.SeriesRows + delta.EvidenceRows) // a unit and two attributes of each metric, the series and evidence
	require.Empty(t, b.Detach(rows), "few enough")
	groups := b.Detach(100)
	require.GreaterOrEqual(t, len(groups), rows/100-1)
	got := new(delta.Delta)
	for _, d := range groups {
		n := 0
		for _, s := range d.Organizations[input().OrganizationID].Services {
			n += len(s.Claims) + len(s.Distinct)*delta.SetRows
			if !s.Series.Empty() {
				n += delta.SeriesRows
			}
			n += s.EvidenceRows()
			require.NotZero(t, s.FirstSeen)
		}
		require.LessOrEqual(t, n, 100)
		got.Merge(d)
		got.Merge(d) // any number of times
	}
	require.LessOrEqual(t, b.Rows(), 1+3+3*bucketRows, "a row of each service and those of its hour")
	b.MergeInto(got)
	for k, s := range want.Organizations[input().OrganizationID].Services {
		o := got.Organizations[input().OrganizationID].Services[k]
		require.Equal(t, s.Claims, o.Claims)
		require.Equal(t, s.Series.Count(), o.Series.Count())
		require.Len(t, o.Distinct, len(s.Distinct))
		for key, f := range s.Distinct {
			require.Equal(t, f.Values.Count(), o.Distinct[key].Values.Count())
		}
		require.Equal(t, s.Verdicts, o.Verdicts)
	}
	require.Contains(t, want.Organizations[input().OrganizationID].Services, assay.ServiceKey{Name: "service 0", Environment: "test"})
}

// TestDetachEvidence: large evidence of many services is committed in groups, too, and small evidence, which is added to
// large stored one.
func TestDetachEvidence(t *testing.T) {
	for _, bytes := range []int{1, 400} {
		t.Run(fmt.Sprint(bytes), func(t *testing.T) { testDetachEvidence(t, bytes) })
	}
}

func testDetachEvidence(t *testing.T, bytes int) {
	severity0 := func(r *logspb.LogRecord) { r.SeverityNumber = 0 }
	var entries []*logspb.ResourceLogs
	for i := range 50 {
		var attributes []any
		for j := range 10 {
			attributes = append(attributes, fmt.Sprint("attribute.", j), strings.Repeat("x", bytes))
		}
		entries = append(entries, Logs(Attrs(append(attributes, "service.name", fmt.Sprint("service ", i))...), Log("no severity", severity0)))
	}
	q := LogsRequest(entries...)
	evaluated := func() (*Batch, *delta.Delta) {
		b, d := new(Batch), new(delta.Delta)
		require.NoError(t, NewEvaluator(Config{}).Evaluate(t.Context(), q.Signal, q.Body, input(), b))
		b.MergeInto(d)
		return b, d
	}
	b, want := evaluated()
	each := want.Organizations[input().OrganizationID].Services
	rows := 0
	for _, s := range each {
		require.GreaterOrEqual(t, s.EvidenceRows(), delta.EvidenceRows)
		rows += s.EvidenceRows()
	}
	require.GreaterOrEqual(t, b.Rows(), rows)
	require.Empty(t, b.Detach(2*rows+1000), "few enough")
	before := b.Rows()
	groups := b.Detach(20)
	require.GreaterOrEqual(t, len(groups), rows/20)
	require.LessOrEqual(t, b.Rows(), before-rows)
	got := new(delta.Delta)
	for _, d := range groups {
		n := 0
		for _, s := range d.Organizations[input().OrganizationID].Services {
			n += s.EvidenceRows()
		}
		require.LessOrEqual(t, n, 20)
		got.Merge(d)
		got.Merge(d)
	}
	b.MergeInto(got)
	for k, s := range each {
		o := got.Organizations[input().OrganizationID].Services[k]
		require.Equal(t, s.Examples, o.Examples)
		require.Equal(t, s.Items, o.Items)
		require.Equal(t, s.Verdicts, o.Verdicts)
	}
}

// TestRowsOfTexts: the texts of resources, which the trace journal repeats for each request, count as rows.
func TestRowsOfTexts(t *testing.T) {
	rows := func(attributes int) int {
		var list []any
		for i := range attributes {
			list = append(list, fmt.Sprint("note", i), strings.Repeat("x", 100))
		}
		q := Traces(Spans(Service("a", list...), Span(1, 1, 0)), Spans(Service("b"), Span(1, 2, 0)))
		b := new(Batch)
		require.NoError(t, NewEvaluator(Config{}).Evaluate(t.Context(), q.Signal, q.Body, input(), b))
		return b.Rows()
	}
	require.InDelta(t, 20*110/textsPerRow, rows(20)-rows(0), 1)
}

// TestRowsCoverMemory: the rows of a request with many hours cover the memory of its counts, because the queue of
// requests is limited in rows.
func TestRowsCoverMemory(t *testing.T) {
	for _, hours := range []int{1, 2, 17, 34, 65, 700} {
		var records []*logspb.LogRecord
		for i := range hours {
			records = append(records, Log("x", func(r *logspb.LogRecord) { r.TimeUnixNano = Nano(T0.Add(-time.Duration(i) * time.Hour)) }))
		}
		q := LogsRequest(Logs(Service("a"), records...))
		in, b := input(), new(Batch)
		in.Start = 0
		require.NoError(t, NewEvaluator(Config{}).Evaluate(t.Context(), q.Signal, q.Body, in, b))
		s := b.services[0]
		require.Len(t, s.Verdicts, hours)
		size := cap(s.Verdicts)*int(unsafe.Sizeof(s.Verdicts[0])) + cap(s.Usage)*int(unsafe.Sizeof(s.Usage[0]))
		require.LessOrEqual(t, size, 512*b.Rows(), "%d hours", hours)
	}
}
