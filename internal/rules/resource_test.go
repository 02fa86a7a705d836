// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	logspb "go.opentelemetry.io/proto/otlp/logs/v1"

	"assay"
	"assay/internal/delta"
	"assay/internal/rules/catalog"
	"assay/internal/rules/rulestest"
)

func TestResourceIsSeenOncePerEntry(t *testing.T) {
	good, bad := rulestest.Service("a"), rulestest.Attrs("service.name", "a")
	d := facts(t, NewEvaluator(Config{}), input(), rulestest.Traces(
		rulestest.Spans(good, rulestest.Span(1, 1, 0), rulestest.Span(1, 2, 1)), rulestest.Spans(good, rulestest.Span(1, 3, 1)),
		rulestest.Spans(bad, rulestest.Span(1, 4, 1)), rulestest.Spans(good)))
	require.Equal(t, delta.Count{Observed: 2}, total(d.Organizations[org].Services[assay.ServiceKey{Name: "a", Environment: "test"}], catalog.RES001))
	s := d.Organizations[org].Services[assay.ServiceKey{Name: "a"}]
	require.Equal(t, delta.Count{Observed: 1, Failed: 1}, total(s, catalog.RES001))
	require.Equal(t, []string{"service.instance.id"}, texts(s, catalog.RES001, delta.MissingAttribute))
	require.Equal(t, []string{"deployment.environment.name"}, texts(s, catalog.RES007, delta.MissingAttribute))
	require.NotNil(t, s.Examples[catalog.RES001])
	require.Equal(t, rulestest.TraceID(1), s.Examples[catalog.RES001].TraceID[:])
	require.Nil(t, s.Examples[catalog.RES005])
}

// TestInstanceClaims checks the claims of RES-002.
func TestInstanceClaims(t *testing.T) {
	claims := func(when time.Time, more ...any) map[delta.Claim]delta.ClaimFact {
		s := factsOf(t, "a", rulestest.LogsRequest(rulestest.Logs(rulestest.Service("a", more...), rulestest.Log("x", func(r *logspb.LogRecord) {
			r.TimeUnixNano = rulestest.Nano(when)
		}))))
		return s.Claims
	}
	one := func(m map[delta.Claim]delta.ClaimFact) delta.Claim {
		require.Len(t, m, 1)
		for c := range m {
			return c
		}
		panic("empty")
	}
	require.Empty(t, claims(rulestest.T0))
	base := one(claims(rulestest.T0, "host.name", "h"))
	require.Equal(t, base, one(claims(rulestest.T0.Add(-29*time.Minute), "host.name", "h", "service.namespace", "n", "service.version", "2")))
	require.NotEqual(t, base.Key, one(claims(rulestest.T0.Add(-31*time.Minute), "host.name", "h")).Key, "another hour")
	other := one(claims(rulestest.T0, "host.name", "g"))
	require.Equal(t, base.Key, other.Key)
	require.NotEqual(t, base.Value, other.Value)
	require.NotEqual(t, base.Key, one(claims(rulestest.T0, "host.id", "h")).Key, "another kind of workload")
	require.EqualValues(t, rulestest.T0.Truncate(time.Hour).Unix(), claims(rulestest.T0, "host.name", "h")[base].Last)
}

// TestDiscouragedOnMetricsOnly: MET-007 ignores the resources of other signals.
func TestDiscouragedOnMetricsOnly(t *testing.T) {
	r := rulestest.Service("a", "host.ip", "10.0.0.1", "os.description", "x")
	s := factsOf(t, "a", rulestest.MetricsRequest(rulestest.Metrics(r, rulestest.Gauge("x", "1"))))
	require.Equal(t, delta.Count{Observed: 1, Failed: 1}, total(s, catalog.MET007))
	require.Equal(t, []string{"host.ip", "os.description"}, texts(s, catalog.MET007, delta.DiscouragedAttributes))
	s = factsOf(t, "a", rulestest.LogsRequest(rulestest.Logs(r, rulestest.Log("x"))))
	require.Equal(t, delta.Count{}, total(s, catalog.MET007))
	require.Empty(t, texts(s, catalog.MET007, delta.DiscouragedAttributes))
}

// TestResourceCache: organizations do not share cached resources.
func TestResourceCache(t *testing.T) {
	e := NewEvaluator(Config{})
	q := rulestest.Traces(rulestest.Spans(rulestest.Service("a"), rulestest.Span(1, 1, 0)))
	var first, second Batch
	in := input()
	require.NoError(t, e.Evaluate(t.Context(), q.Signal, q.Body, in, &first))
	in.OrganizationID = "other"
	require.NoError(t, e.Evaluate(t.Context(), q.Signal, q.Body, in, &second))
	require.NotEqual(t, first.Spans[0].Resource.Hash, second.Spans[0].Resource.Hash)

	for i := range maxResources + 10 { // the cache is emptied
		q := rulestest.Traces(rulestest.Spans(rulestest.Service("a", "n", i), rulestest.Span(1, 1, 0)))
		var b Batch
		require.NoError(t, e.Evaluate(t.Context(), q.Signal, q.Body, in, &b))
	}
	require.LessOrEqual(t, len(e.resources), maxResources)

	long := strings.Repeat("x", 3000)
	for i := range 3 * maxResourceBytes / 4096 { // it is also emptied by size
		q := rulestest.Traces(rulestest.Spans(rulestest.Service("a", "n", i, "a", long, "b", long), rulestest.Span(1, 1, 0)))
		var b Batch
		require.NoError(t, e.Evaluate(t.Context(), q.Signal, q.Body, in, &b))
		require.LessOrEqual(t, e.resourcesSize, maxResourceBytes)
	}
}
