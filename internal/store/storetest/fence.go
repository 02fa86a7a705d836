// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/delta"
	"assay/internal/rules/catalog"
)

// TestFence: a scorer that lost its lease tries to overwrite the result of its successor.
func (s *suite) TestFence(t *testing.T) {
	ctx := s.ctx()
	org := s.organization()
	svc := s.seen(org, named("a"), catalog.RES001, true)
	lease := "score:" + org
	a, b := delta.Fence{Lease: lease, Holder: "A"}, delta.Fence{Lease: lease, Holder: "B"}
	in := newInsight(org, svc, catalog.RES001)
	value := 60.0
	save := func(st Store, f delta.Fence, sc *assay.Score, at time.Time) (scores, organization error) {
		in.DetectedAt, in.UpdatedAt = micro(at), micro(at)
		results := []delta.Result{{ServiceID: svc, Revision: s.facts(org, svc).Revision, Score: sc, NewRow: true, Insights: []*assay.Insight{in}}}
		return st.SaveScores(ctx, f, org, results), st.SaveOrganizationScore(ctx, f, org, &value, micro(at))
	}
	stored := func() []any {
		t.Helper()
		history := must(s.ScoreHistory(ctx, org, svc, time.Time{}))(t)
		o := must(s.FindOrganizationByID(ctx, org))(t)
		return []any{s.facts(org, svc), history, o, s.unscored(org)}
	}
	refused := func(f delta.Fence) {
		t.Helper()
		before := stored()
		scores, organization := save(s, f, score(1), epoch)
		require.ErrorIs(t, scores, delta.ErrLeaseLost)
		require.ErrorIs(t, organization, delta.ErrLeaseLost)
		require.Equal(t, before, stored())
	}
	allowed := func(f delta.Fence, value float64, at time.Time) {
		t.Helper()
		scores, organization := save(s, f, score(value), at)
		require.NoError(t, scores)
		require.NoError(t, organization)
		require.Equal(t, value, s.facts(org, svc).Service.Score.Value)
		require.Empty(t, s.unscored(org))
	}
	refused(a) // no replica holds the lease
	s.acquire(s, "A", leaseTTL, lease)
	refused(b)
	refused(delta.Fence{Lease: lease + "x", Holder: "A"})
	refused(delta.Fence{Lease: lease})
	refused(delta.Fence{Holder: "A"})
	allowed(a, 10, epoch)
	s.clock.advance(10 * leaseTTL)
	allowed(a, 20, s.clock.now()) // the lease has expired, but no replica has taken it

	s.acquire(s.handle(), "B", leaseTTL, lease)
	allowed(b, 30, s.clock.now())
	refused(a)
	require.NoError(t, s.ReleaseLeases(ctx, "B"))
	refused(b)
	allowed(delta.Fence{}, 40, s.clock.now())
	require.Equal(t, micro(s.clock.now()), s.facts(org, svc).Insights[0].UpdatedAt)
}

// takeOver has B acquire the lease of A on another handle and read, while A writes. It returns the error of write.
func (s *suite) takeOver(b Store, lease string, write, read func() error) (written error) {
	s.t.Helper()
	s.acquire(s, "A", leaseTTL, lease)
	s.clock.advance(leaseTTL)
	var writer sync.WaitGroup
	writer.Go(func() { written = write() })
	held, _, err := b.AcquireLeases(s.ctx(), "B", []string{lease}, leaseTTL)
	require.NoError(s.t, err)
	require.Len(s.t, held, 1)
	require.NoError(s.t, read())
	writer.Wait()
	return written
}

// TestFenceRace: one scorer writes while another takes over. The new holder sees all
// writes of the former one.
func (s *suite) TestFenceRace(t *testing.T) {
	const rounds = 30
	b := s.handle()
	org := s.organization()
	svc := s.seen(org, named("a"), catalog.RES001, true)
	lease := "score:" + org
	for i := range rounds {
		var read []*delta.Facts
		written := s.takeOver(b, lease, func() error {
			results := []delta.Result{{ServiceID: svc, Revision: 1, Score: score(float64(i)), NewRow: true}}
			return s.SaveScores(s.ctx(), delta.Fence{Lease: lease, Holder: "A"}, org, results)
		}, func() (err error) {
			read, err = b.Facts(s.ctx(), org, []string{svc}, 0)
			return err
		})
		require.Len(t, read, 1)
		if written == nil {
			require.NotNil(t, read[0].Service.Score)
			require.Equal(t, float64(i), read[0].Service.Score.Value)
		} else {
			require.ErrorIs(t, written, delta.ErrLeaseLost)
			require.Equal(t, read, []*delta.Facts{s.facts(org, svc)})
		}
		require.NoError(t, b.ReleaseLeases(s.ctx(), "B"))
	}
}
