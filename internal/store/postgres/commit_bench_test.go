// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/delta"
	"assay/internal/rules/catalog"
	"assay/internal/score"
	"assay/internal/store/postgres/pgtest"
)

// durable opens a store on a separate server that waits until commits are on disk.
func durable(b *testing.B) *Store {
	b.Helper()
	server, err := pgtest.Start(pgtest.Config{Durable: true, Settings: map[string]string{"shared_buffers": "512MB", "max_wal_size": "4GB"}})
	require.NoError(b, err)
	s, err := Open(context.Background(), Config{URL: server.URL(), Migrate: true})
	require.NoError(b, err)
	b.Cleanup(func() {
		require.NoError(b, s.Close())
		require.NoError(b, server.Close())
	})
	return s
}

// benchRules is the number of evaluated rules per service of the benchmarks. Every fourth fails.
const benchRules = 20

var benchTime = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func benchKey(i int) assay.ServiceKey {
	return assay.ServiceKey{Namespace: "shop", Name: fmt.Sprintf("service-%d", i), Environment: "production", Version: "1.2.3"}
}

// load is the telemetry of a number of services in one group of requests: counts of all rules, usage, and for
// a failing rule an example and an item.
func load(org string, services, round int, at time.Time) *delta.Delta {
	d := new(delta.Delta)
	b := delta.BucketOf(uint64(at.UnixNano()), time.Hour)
	o := d.Organization(org)
	for i := range services {
		f := o.Service(benchKey(i))
		f.Seen(uint64(at.UnixNano()) + uint64(round)*uint64(time.Millisecond))
		resource := fmt.Sprintf(`{"service.name":"service-%d","k8s.pod.name":"pod-%d","padding":"%0500d"}`, i, i, i)
		for r := range benchRules {
			c := delta.Count{Observed: 100}
			if r%4 == 0 {
				c.Failed = 3
				f.AddExample(catalog.Rule(r), &delta.Example{TimeUnixNano: uint64(at.UnixNano()) + uint64(round), ResourceAttributes: resource})
				f.AddItem(delta.Item{Rule: catalog.Rule(r), List: delta.AttributeKeys, Text: fmt.Sprintf("attribute.%d", round%20)}, b)
			}
			f.Counts(b)[r].Add(c)
		}
		for s := range delta.SignalCount {
			f.AddUsage(b, s, delta.Usage{Items: 100, Bytes: 20_000})
		}
	}
	return d
}

// claims adds the claims of the services' metrics in an hour.
func claims(d *delta.Delta, org string, perService int, at time.Time) {
	hour := delta.BucketOf(uint64(at.UnixNano()), time.Hour)
	for _, f := range d.Organizations[org].Services {
		for m := range uint64(perService) {
			text := fmt.Sprintf("http.server.metric.%d", m)
			f.AddClaim(delta.Claim{Rule: catalog.MET003, Key: delta.Hash128{High: 1, Low: delta.HashString(text)}, Value: 1}, delta.ClaimFact{Last: hour, KeyText: text, ValueText: "ms"})
		}
	}
}

// BenchmarkCommit repeatedly commits the telemetry of a number of services.
func BenchmarkCommit(b *testing.B) {
	s := durable(b)
	for _, services := range []int{1, 100, 1000, 10_000} {
		b.Run(fmt.Sprintf("services=%d", services), func(b *testing.B) {
			org := organization(b, s, fmt.Sprintf("bench %d %d", services, b.N))
			commit := func(round int) {
				request := delta.Request{OrganizationID: org, Hash: uuid.New()}
				d := load(org, services, round, benchTime)
				b.StartTimer()
				require.NoError(b, s.Commit(b.Context(), benchTime, []delta.Request{request}, func([]bool) *delta.Delta { return d }))
				b.StopTimer()
			}
			b.StopTimer()
			commit(0)
			b.ResetTimer()
			for round := range b.N {
				b.StopTimer()
				commit(round + 1)
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*services), "µs/service")
		})
	}
	// At the start of an hour, every claim moves.
	b.Run("services=1000/claims=20", func(b *testing.B) {
		org := organization(b, s, fmt.Sprintf("claims %d", b.N))
		for round := range b.N {
			b.StopTimer()
			at := benchTime.Add(time.Duration(round) * time.Hour)
			d := load(org, 1000, round, at)
			claims(d, org, 20, at)
			b.StartTimer()
			require.NoError(b, s.Commit(b.Context(), at, nil, func([]bool) *delta.Delta { return d }))
		}
	})
}

// BenchmarkReplicas commits the telemetry of the same 100 services from several replicas
// concurrently.
func BenchmarkReplicas(b *testing.B) {
	s := durable(b)
	for _, replicas := range []int{1, 2, 4} {
		b.Run(fmt.Sprintf("replicas=%d", replicas), func(b *testing.B) {
			org := organization(b, s, fmt.Sprintf("bench %d %d", replicas, b.N))
			deltas := make([]*delta.Delta, replicas)
			for i := range deltas {
				deltas[i] = load(org, 100, i, benchTime)
			}
			require.NoError(b, s.Commit(b.Context(), benchTime, nil, func([]bool) *delta.Delta { return load(org, 100, 0, benchTime) }))
			var left atomic.Int64
			left.Store(int64(b.N))
			var wg sync.WaitGroup
			b.ResetTimer()
			for _, d := range deltas {
				wg.Go(func() {
					for left.Add(-1) >= 0 {
						if err := s.Commit(context.Background(), benchTime, nil, func([]bool) *delta.Delta { return d }); err != nil {
							b.Error(err)
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
		})
	}
}

// BenchmarkScoring measures a round of scoring after all of 10,000 services sent telemetry: the first round,
// which creates the insights, and later ones.
func BenchmarkScoring(b *testing.B) {
	const services = 10_000
	s := durable(b)
	for _, perService := range []int{0, 20} {
		b.Run(fmt.Sprintf("services=%d/claims=%d", services, services*perService), func(b *testing.B) {
			org := organization(b, s, fmt.Sprintf("bench %d %d", perService, b.N))
			now := benchTime
			fill := func(round int) {
				d := load(org, services, round, now)
				claims(d, org, perService, now)
				require.NoError(b, s.Commit(b.Context(), now, nil, func([]bool) *delta.Delta { return d }))
			}
			fill(0)
			scorer := score.New(score.Config{Store: s, Now: func() time.Time { return now }})
			began := time.Now()
			require.NoError(b, scorer.Round(b.Context()))
			b.Logf("first round: %v", time.Since(began))
			b.ResetTimer()
			for round := range b.N {
				b.StopTimer()
				now = now.Add(2 * time.Minute)
				fill(round + 1)
				b.StartTimer()
				require.NoError(b, scorer.Round(b.Context()))
			}
		})
	}
}
