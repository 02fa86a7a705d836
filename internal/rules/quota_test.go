// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	logspb "go.opentelemetry.io/proto/otlp/logs/v1"

	"assay"
	"assay/internal/delta"
	"assay/internal/rules/catalog"
	"assay/internal/rules/rulestest"
)

// quota admits a limited number of services, names, details and instances; 0 means all.
type quota struct {
	services, names, details, instances int
	admitted                            map[any]bool
}

func (q *quota) admit(limit int, kind string, k any) (ok, isNew bool) {
	if q.admitted == nil {
		q.admitted = make(map[any]bool)
	}
	id := [2]any{kind, k}
	if q.admitted[id] {
		return true, false
	}
	n := 0
	for other := range q.admitted {
		if other.([2]any)[0] == kind {
			n++
		}
	}
	if limit > 0 && n >= limit {
		return false, false
	}
	q.admitted[id] = true
	return true, true
}

func (q *quota) AdmitService(_ string, k assay.ServiceKey) (ok, isNew bool) {
	return q.admit(q.services, "service", k)
}

func (q *quota) AdmitMetricName(_ string, k assay.ServiceKey, name uint64) (ok, isNew bool) {
	return q.admit(q.names, "name of "+k.Name, name)
}

func (q *quota) AdmitMetricDetail(_ string, k assay.ServiceKey, detail uint64) (ok, isNew bool) {
	return q.admit(q.details, "detail of "+k.Name, detail)
}

func (q *quota) AdmitInstance(_ string, k assay.ServiceKey, hour, instance uint64) (ok, isNew bool) {
	return q.admit(q.instances, fmt.Sprint("instance of ", k.Name, " in ", hour), instance)
}

func evaluateWithQuota(t *testing.T, q Quota, requests ...rulestest.Request) (*delta.Organization, []Batch) {
	t.Helper()
	e := NewEvaluator(Config{Quota: q})
	d := new(delta.Delta)
	batches := make([]Batch, len(requests))
	for i, r := range requests {
		require.NoError(t, e.Evaluate(t.Context(), r.Signal, r.Body, input(), &batches[i]))
		batches[i].MergeInto(d)
	}
	return d.Organizations[org], batches
}

func TestServicePastTheQuota(t *testing.T) {
	for signal := range 3 {
		entry := func(name string) rulestest.Request {
			r := rulestest.Service(name)
			return []rulestest.Request{
				rulestest.Traces(rulestest.Spans(r, rulestest.Span(1, 1, 5), rulestest.Span(1, 2, 5))),
				rulestest.MetricsRequest(rulestest.Metrics(r, rulestest.Gauge("x", "", rulestest.Point(rulestest.T0), rulestest.Point(rulestest.T0)))),
				rulestest.LogsRequest(rulestest.Logs(r, rulestest.Log("x"), rulestest.Log("y"))),
			}[signal]
		}
		o, batches := evaluateWithQuota(t, &quota{services: 1}, entry("a"), entry("b"), entry("a"))
		require.Len(t, o.Services, 2)
		over := o.Services[assay.ServiceKey{Name: assay.OverflowService}]
		require.NotNil(t, over)
		require.Len(t, over.Verdicts, 1)
		for r := range catalog.Rule(catalog.Count) {
			want := delta.Count{}
			if r == catalog.QuotaExceeded {
				want = delta.Count{Observed: 2, Failed: 2}
			}
			require.Equal(t, want, total(over, r), r.Info().Name)
		}
		require.Equal(t, delta.Usage{Items: 2, Bytes: uint64(len(entry("b").Body))}, over.Usage[0].Usage[signal], "it is counted as usage")
		require.Empty(t, over.Claims)
		require.Empty(t, over.Distinct)
		require.EqualValues(t, 2, batches[1].OverflowItems)
		require.Zero(t, batches[2].OverflowItems)
		require.Contains(t, batches[0].Admitted, Admission{Service: assay.ServiceKey{Name: "a", Environment: "test"}})
		require.Empty(t, batches[1].Admitted)
		require.Empty(t, batches[2].Admitted)
		if signal == 0 {
			require.True(t, batches[1].Spans[0].Resource.ParentsOnly)
			require.False(t, batches[0].Spans[0].Resource.ParentsOnly)
		}
	}
}

func TestMetricNamePastTheQuota(t *testing.T) {
	r := rulestest.Service("a")
	o, batches := evaluateWithQuota(t, &quota{names: 1},
		rulestest.MetricsRequest(rulestest.Metrics(r, rulestest.Gauge("x", "1"), rulestest.Gauge("y", "", rulestest.Point(rulestest.T0, "k", "v"), rulestest.Point(rulestest.T0)))))
	s := o.Services[assay.ServiceKey{Name: "a", Environment: "test"}]
	require.Equal(t, delta.Count{Observed: 1}, total(s, catalog.MET002))
	require.Equal(t, delta.Count{Observed: 1}, total(s, catalog.RES001), "its resource is evaluated")
	require.Empty(t, s.Distinct)
	require.Len(t, s.Claims, 1)
	over := o.Services[assay.ServiceKey{Name: assay.OverflowService}]
	require.Equal(t, delta.Count{Observed: 2, Failed: 2}, total(over, catalog.QuotaExceeded))
	require.EqualValues(t, 1, s.Usage[0].Usage[delta.Metrics].Items)
	require.EqualValues(t, 2, over.Usage[0].Usage[delta.Metrics].Items)
	require.EqualValues(t, 2, batches[0].OverflowItems)
	require.EqualValues(t, 3, batches[0].Items[delta.Metrics])
}

func TestDetailsPastTheQuota(t *testing.T) {
	var attributes []any
	for i := range 50 {
		attributes = append(attributes, fmt.Sprint("k", i), "v")
	}
	o, batches := evaluateWithQuota(t, &quota{details: 5}, rulestest.MetricsRequest(rulestest.Metrics(rulestest.Service("a"),
		rulestest.Histogram("x", "1", rulestest.T0, []float64{1}, attributes...))))
	s := o.Services[assay.ServiceKey{Name: "a", Environment: "test"}]
	require.Equal(t, 5, len(s.Claims)+len(s.Distinct), "bounds beyond the quota are not compared")
	require.Equal(t, delta.Count{Observed: 1}, total(s, catalog.MET002), "the rest is evaluated")
	over := o.Services[assay.ServiceKey{Name: assay.OverflowService}]
	require.NotNil(t, over)
	require.Equal(t, delta.Count{Observed: 47, Failed: 47}, total(over, catalog.QuotaExceeded), "the unit, the bounds and 50 keys, but 5")
	require.Empty(t, over.Usage, "the record counts for its service")
	require.Zero(t, batches[0].OverflowItems)
}

// TestInstancesPastTheQuota: instances beyond the quota are not compared, but their
// telemetry is evaluated.
func TestInstancesPastTheQuota(t *testing.T) {
	entry := func(instance, host string, hours int) rulestest.Request {
		r := rulestest.Attrs("service.name", "a", "service.instance.id", instance, "host.name", host)
		return rulestest.LogsRequest(rulestest.Logs(r, rulestest.Log("x", func(r *logspb.LogRecord) {
			r.TimeUnixNano = rulestest.Nano(rulestest.T0.Add(-time.Duration(hours) * time.Hour))
		})))
	}
	o, batches := evaluateWithQuota(t, &quota{instances: 2},
		entry("1", "h", 0), entry("1", "g", 0), entry("1", "h", 0), entry("2", "h", 0), entry("2", "h", 1))
	s := o.Services[assay.ServiceKey{Name: "a"}]
	require.Len(t, s.Claims, 3, "an id on two hosts, and one of another hour")
	require.Equal(t, delta.Count{Observed: 5}, total(s, catalog.RES002))
	require.EqualValues(t, 5, s.Usage[0].Usage[delta.Logs].Items)
	require.NotContains(t, o.Services, assay.ServiceKey{Name: assay.OverflowService})
	for i, places := range []int{2, 1, 0, 0, 1} {
		require.Len(t, batches[i].Admitted, places, "request %d", i)
	}
	a := batches[1].Admitted[0]
	require.Equal(t, Admission{Service: s.Key, Instance: a.Instance}, a)
	require.NotZero(t, a.Instance)
}

func TestOverflowServiceIsNotEvaluated(t *testing.T) {
	o, _ := evaluateWithQuota(t, nil, rulestest.LogsRequest(rulestest.Logs(rulestest.Attrs("service.name", assay.OverflowService), rulestest.Log("x"))))
	s := o.Services[assay.ServiceKey{Name: assay.OverflowService}]
	require.Zero(t, total(s, catalog.RES001).Observed)
	require.Len(t, o.Services, 1)
}
