// SPDX-License-Identifier: Apache-2.0

package score_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/delta"
	"assay/internal/lease"
	"assay/internal/rules/catalog"
	"assay/internal/score"
)

var _ score.Leases = (*lease.Coordinator)(nil)

const ttl = 10 * time.Second

// replica is one of several scorers of a store.
type replica struct {
	*score.Scorer
	f      *fixture
	holder string
	gained chan struct{}

	mu    sync.Mutex
	terms map[string]uint64
	last  uint64
}

func (f *fixture) replica(holder string) *replica {
	r := &replica{f: f, holder: holder, gained: make(chan struct{}, 1), terms: make(map[string]uint64)}
	r.Scorer = score.New(score.Config{Store: f, Leases: r, Interval: time.Hour, Now: func() time.Time { return f.now }})
	return r
}

func (r *replica) Holder() string { return r.holder }

func (r *replica) Term(name string) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.terms[name]
}

func (r *replica) Gained() <-chan struct{} { return r.gained }

// take gains leases that no replica holds.
func (r *replica) take(names ...string) {
	r.f.t.Helper()
	held, _, err := r.f.AcquireLeases(r.f.t.Context(), r.holder, names, ttl)
	require.NoError(r.f.t, err)
	require.Len(r.f.t, held, len(names))
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range names {
		r.last++
		r.terms[name] = r.last
	}
}

// lose records that leases have expired.
func (r *replica) lose(names ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range names {
		delete(r.terms, name)
	}
}

func (r *replica) round() {
	r.f.t.Helper()
	require.NoError(r.f.t, r.Round(r.f.t.Context()))
}

func TestOnlyLeasedOrganizations(t *testing.T) {
	f := newFixture(t)
	first, second := f.org, f.organization("second")
	for _, f.org = range []string{first, second} {
		f.seen("x", catalog.RES001, true)
	}
	a, b := f.replica("A"), f.replica("B")
	a.round()
	b.round()
	require.Zero(t, f.saved, "no leases, nothing scored")
	a.take(score.Lease(first))
	a.round()
	b.round()
	require.Equal(t, 1, f.saved)
	f.org = first
	require.NotNil(t, f.score("x"))
	require.NotNil(t, f.organizationScore())
	b.take(score.Lease(second))
	b.round()
	a.round()
	require.Equal(t, 2, f.saved)
	f.org = second
	require.NotNil(t, f.score("x"))
}

// TestTakeOver moves an organization to another replica and back. The first replica must not use its old state.
func TestTakeOver(t *testing.T) {
	f := newFixture(t)
	a, b := f.replica("A"), f.replica("B")
	name := score.Lease(f.org)
	a.take(name)
	f.seen("a", catalog.RES001, false)
	f.seen("b", catalog.RES001, false)
	a.round()
	require.NotContains(t, f.score("a").EvaluatedRuleIDs, "MET-003", "no claims")

	a.lose(name)
	f.now = f.now.Add(ttl)
	b.take(name)
	f.claim("a", catalog.MET003, 1, 1)
	f.claim("b", catalog.MET003, 1, 2)
	b.round()
	require.Equal(t, []string{"MET-003"}, f.score("a").FailedRuleIDs)

	b.lose(name)
	require.NoError(t, f.Store.Expire(t.Context(), f.now, 0, 1<<40)) // the claims are gone
	f.now = f.now.Add(ttl)
	a.take(name)
	a.round()
	require.NotContains(t, f.score("a").EvaluatedRuleIDs, "MET-003", "no claims, as when the lease was lost")
	require.Equal(t, assay.InsightArchived, f.insight("a", catalog.MET003).Status)

	// Without a change nothing is written.
	insight, rows := f.insight("a", catalog.MET003), f.history("a")
	a.lose(name)
	f.now = f.now.Add(ttl)
	b.take(name)
	b.round()
	require.Equal(t, insight, f.insight("a", catalog.MET003))
	require.Equal(t, rows, f.history("a"))
}

// TestLateScorer: a slow replica saves after another one has taken over and scored.
func TestLateScorer(t *testing.T) {
	f := newFixture(t)
	a, b := f.replica("A"), f.replica("B")
	name := score.Lease(f.org)
	a.take(name)
	f.seen("x", catalog.RES001, true)
	var opened *assay.Insight
	var scored *assay.Score
	f.beforeSave = func() {
		f.now = f.now.Add(ttl)
		b.take(name)
		f.seen("x", catalog.RES001, false)
		b.round()
		opened, scored = f.insight("x", catalog.RES001), f.score("x")
		require.NotNil(t, opened)
		require.NotNil(t, scored)
	}
	a.round()
	require.Equal(t, opened, f.insight("x", catalog.RES001))
	require.Equal(t, scored, f.score("x"))
	require.Equal(t, 1, f.history("x"))
	require.EqualValues(t, 2, number(t, f.insight("x", catalog.RES001).Attributes["observations_total"]))

	// The same before it saves the score of the organization.
	f.now = f.now.Add(ttl)
	a.take(name)
	f.seen("x", catalog.RES005, true)
	f.afterSave = func() {
		f.now = f.now.Add(ttl)
		b.take(name)
		require.NoError(t, f.SaveOrganizationScore(t.Context(), delta.Fence{Lease: name, Holder: b.holder}, f.org, nil, f.now))
	}
	a.round()
	require.Nil(t, f.organizationScore())
}

// TestLeaseEndsInARound: a lease expires between two chunks of a round.
func TestLeaseEndsInARound(t *testing.T) {
	f := newFixture(t)
	a := f.replica("A")
	name := score.Lease(f.org)
	a.take(name)
	d := new(delta.Delta)
	for i := range 600 { // more than one chunk
		at := uint64(f.now.UnixNano())
		s := d.Organization(f.org).Service(assay.ServiceKey{Name: fmt.Sprint("s", i)})
		s.Seen(at)
		s.Counts(delta.BucketOf(at, time.Hour))[catalog.RES001].Observed++
	}
	require.NoError(t, f.Commit(t.Context(), f.now, nil, func([]bool) *delta.Delta { return d }))
	f.afterSave = func() { a.lose(name) }
	a.round()
	require.Equal(t, score.MaxFacts, f.saved, "of one chunk")
	a.take(name)
	a.round()
	require.Equal(t, score.MaxFacts+600, f.saved, "scored services are scored again")
}

func TestExpiryLease(t *testing.T) {
	f := newFixture(t)
	a, b := f.replica("A"), f.replica("B")
	a.round()
	require.Zero(t, f.expiry)
	a.take(score.ExpiryLease)
	for range 3 {
		a.round()
		b.round()
	}
	require.Equal(t, 1, f.expiry, "once per step of the window, by one replica")
	f.now = f.now.Add(time.Hour)
	b.round()
	a.round()
	require.Equal(t, 2, f.expiry)
	a.lose(score.ExpiryLease)
	b.take(score.ExpiryLease)
	a.round()
	b.round()
	require.Equal(t, 3, f.expiry, "the new holder expires again")
	b.lose(score.ExpiryLease)
	f.now = f.now.Add(ttl)
	a.take(score.ExpiryLease)
	a.round()
	require.Equal(t, 4, f.expiry)
}

// TestGained: gained organizations are scored without waiting for the next interval.
func TestGained(t *testing.T) {
	f := newFixture(t)
	a := f.replica("A")
	f.seen("x", catalog.RES001, true)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.Run(ctx)
	}()
	a.gained <- struct{}{}
	a.gained <- struct{}{} // the first round has ended, or the second has begun
	a.take(score.Lease(f.org))
	a.gained <- struct{}{}
	require.Eventually(t, func() bool { return f.score("x") != nil }, time.Minute, 5*time.Millisecond)
	cancel()
	<-done
}
