// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	logspb "go.opentelemetry.io/proto/otlp/logs/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"

	"assay"
	"assay/internal/delta"
	"assay/internal/engine"
	"assay/internal/fair"
	"assay/internal/rules/catalog"
	. "assay/internal/rules/rulestest"
	"assay/internal/wire"
)

// measured is a store that records the rows per transaction and fails on demand.
type measured struct {
	slow
	seen map[delta.Request]bool
	rows []int
	fail map[int]bool // by transaction number, from 0; only those with something new
}

func (m *measured) Commit(_ context.Context, _ time.Time, requests []delta.Request, merge func([]bool) *delta.Delta) error {
	fresh := make([]bool, len(requests))
	for i, r := range requests {
		fresh[i] = !m.seen[r]
	}
	d, rows := merge(fresh), len(requests)
	for _, o := range d.Organizations {
		for _, s := range o.Services {
			rows += 1 + len(s.Verdicts) + len(s.Claims) + len(s.Distinct)
		}
	}
	m.rows = append(m.rows, rows)
	if m.fail[len(m.rows)-1] && slices.Contains(fresh, true) {
		return assay.Errorf(assay.CodeUnavailable, "unavailable")
	}
	for _, r := range requests {
		m.seen[r] = true
	}
	m.facts.Merge(d)
	return nil
}

func (m *measured) engine(t *testing.T) *engine.Engine {
	m.seen, m.now = make(map[delta.Request]bool), T0
	e := engine.New(engine.Config{Store: m, Now: func() time.Time { return m.now }, CommitInterval: time.Microsecond, CPU: fair.NewCPU(1, time.Now)})
	t.Cleanup(func() { require.NoError(t, e.Close(context.WithoutCancel(t.Context()))) })
	return e
}

func (m *measured) observed(r catalog.Rule) (n uint64) {
	for _, s := range m.facts.Organizations["org"].Services {
		for i := range s.Verdicts {
			n += s.Verdicts[i].Counts[r].Observed
		}
	}
	return n
}

// TestRequestInParts: a request with many services is committed in several transactions and counts once, even if some
// transactions fail and the request is retried.
func TestRequestInParts(t *testing.T) {
	const services = 1000
	var entries []*logspb.ResourceLogs
	for i := range services {
		entries = append(entries, Logs(Service(fmt.Sprint("service ", i)), Log("x"), Log("y")))
	}
	q := LogsRequest(entries...)
	for _, fail := range []map[int]bool{nil, {0: true}, {1: true}, {2: true, 3: true}} {
		m := &measured{fail: fail}
		e := m.engine(t)
		tries := 1
		for ; tries < 10; tries++ {
			if _, err := e.Ingest(t.Context(), "org", q.Signal, q.Body); err == nil {
				break
			}
		}
		require.True(t, !fail[0] || tries > 1)
		require.EqualValues(t, 2*services, m.observed(catalog.LOG002), fail)
		m.fail = nil
		_, err := e.Ingest(t.Context(), "org", q.Signal, q.Body)
		require.NoError(t, err)
		require.EqualValues(t, 2*services, m.observed(catalog.LOG002), "again")
		require.EqualValues(t, 1, e.Counters().Repeated.Load())
		require.EqualValues(t, 2, e.Counters().Requests.Load())
	}
}

// TestMalformedPart: a request with a malformed last entry is not committed at all, and the error has the offset.
func TestMalformedPart(t *testing.T) {
	m := &measured{}
	e := m.engine(t)
	where := func(entries int) (after int) {
		var list []*logspb.ResourceLogs
		for i := range entries {
			list = append(list, Logs(Service(fmt.Sprint("service ", i)), Log("x")))
		}
		q := LogsRequest(list...)
		_, err := e.Ingest(t.Context(), "org", q.Signal, append(q.Body, 0x0a, 2, 0x0a, 9)) // an entry with a truncated resource
		var malformed *wire.Error
		require.ErrorAs(t, err, &malformed)
		return malformed.Offset - len(q.Body)
	}
	require.Equal(t, where(1), where(200))
	require.Empty(t, m.rows)
}

// TestManyFactsOfOneService: detached claims and distinct sets of a request are complete.
func TestManyFactsOfOneService(t *testing.T) {
	var metrics []*metricspb.Metric
	for i := range 1500 {
		metrics = append(metrics, Gauge(fmt.Sprint("metric.", i), "s", Point(T0, "a", i, "b", i, "c", i, "d", i, "e", i)))
	}
	m := &measured{}
	e := m.engine(t)
	q := MetricsRequest(Metrics(Service("a"), metrics...))
	_, err := e.Ingest(t.Context(), "org", q.Signal, q.Body)
	require.NoError(t, err)
	require.Greater(t, len(m.rows), 1)
	s := m.facts.Organizations["org"].Services
	require.Len(t, s, 1)
	for _, facts := range s {
		require.Len(t, facts.Claims, 1500)
		require.Len(t, facts.Distinct, 5*1500)
	}
}

// TestManyHours: a request with records in too many hours is refused. The whole window of two services is accepted.
func TestManyHours(t *testing.T) {
	request := func(services int) Request {
		var entries []*logspb.ResourceLogs
		for i := range services {
			var records []*logspb.LogRecord
			for h := range 719 {
				records = append(records, Log("x", func(r *logspb.LogRecord) { r.TimeUnixNano = Nano(After(-time.Duration(h) * time.Hour)) }))
			}
			entries = append(entries, Logs(Service(fmt.Sprint("service ", i)), records...))
		}
		return LogsRequest(entries...)
	}
	m := &measured{}
	e := m.engine(t)
	q := request(2)
	_, err := e.Ingest(t.Context(), "org", q.Signal, q.Body)
	require.NoError(t, err)
	q = request(3)
	_, err = e.Ingest(t.Context(), "org", q.Signal, q.Body)
	require.ErrorContains(t, err, "send smaller requests")
}

// TestManyServicesInAPart: a part with very many services is refused, also if they have no
// records, which would fall into hours. Many entries make the parts large.
func TestManyServicesInAPart(t *testing.T) {
	request := func(services, empty int) []byte {
		var entries []*logspb.ResourceLogs
		for i := range services {
			entries = append(entries, Logs(Service(fmt.Sprint("service ", i))))
		}
		return append(LogsRequest(entries...).Body, bytes.Repeat([]byte{0x0a, 0}, empty)...)
	}
	m := &measured{}
	e := m.engine(t)
	_, err := e.Ingest(t.Context(), "org", wire.Logs, request(400, 0))
	require.NoError(t, err)
	_, err = e.Ingest(t.Context(), "org", wire.Logs, request(200, 200_000))
	require.NoError(t, err)
	_, err = e.Ingest(t.Context(), "org", wire.Logs, request(400, 200_000))
	require.ErrorContains(t, err, "send smaller requests")
}
