// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/delta"
)

func (s *suite) TestRuns(t *testing.T) {
	ctx := s.ctx()
	org := s.organization()
	repo, other := s.repository(org), s.repository(org)
	want := &assay.Run{
		ID: "11111111-2222-4333-8444-555555555555", OrganizationID: org, RepositoryID: repo.ID, Type: assay.RunFix, Trigger: assay.TriggerPush, Ref: odd,
		Input: json.RawMessage(`{"finding_ids": ["otel-000000000001"], "odd": "\u0000"}`),
	}
	run, created := must2(s.ScheduleRun(ctx, want))(t)
	require.True(t, created)
	want.InstallationID, want.RepositoryName, want.Status, want.CreatedAt = repo.InstallationID, odd, assay.RunPending, micro(s.clock.now())
	require.Equal(t, want, run)
	again := *want
	again.ID = ""
	run, created = must2(s.ScheduleRun(ctx, &again))(t)
	require.False(t, created)
	require.Equal(t, want, run)

	// Another type, ref, input or repository is another run, up to the limit.
	var all []*assay.Run
	all = append(all, want)
	for _, differs := range []func(*assay.Run){
		func(r *assay.Run) { r.Type = assay.RunReview },
		func(r *assay.Run) { r.Ref = "" },
		func(r *assay.Run) { r.Input = nil },
		func(r *assay.Run) { r.RepositoryID = other.ID },
	} {
		next := again
		differs(&next)
		run, created := must2(s.ScheduleRun(ctx, &next))(t)
		require.True(t, created)
		_, created = must2(s.ScheduleRun(ctx, &next))(t)
		require.False(t, created)
		all = append(all, run)
	}
	code(t, assay.CodeConflict, errOf3(s.ScheduleRun(ctx, &assay.Run{ID: want.ID, OrganizationID: org, RepositoryID: repo.ID})))
	for _, bad := range []*assay.Run{
		{Input: json.RawMessage("{")},
		{Input: json.RawMessage(`"` + strings.Repeat("x", assay.MaxDocumentBytes) + `"`)},
		{Ref: strings.Repeat("x", assay.MaxCodeTextBytes+1)},
		{ID: "no id"},
	} {
		bad.OrganizationID, bad.RepositoryID = org, repo.ID
		code(t, assay.CodeInvalid, errOf3(s.ScheduleRun(ctx, bad)))
	}

	list := func(f assay.RunFilter, want ...int) {
		t.Helper()
		found, total := must2(s.Runs(ctx, org, f))(t)
		require.Equal(t, len(want), total)
		var ids, wanted []string
		for i, n := range want {
			ids, wanted = append(ids, found[i].ID), append(wanted, all[n].ID)
		}
		require.Equal(t, wanted, ids)
		page, total := must2(s.Runs(ctx, org, assay.RunFilter{Statuses: f.Statuses, Types: f.Types, RepositoryID: f.RepositoryID, Limit: 1, Offset: 1}))(t)
		require.Equal(t, len(want), total)
		if len(want) > 1 {
			require.Equal(t, found[1:2], page)
		} else {
			require.Empty(t, page)
		}
	}
	require.NoError(t, s.CancelRun(ctx, org, all[3].ID))
	list(assay.RunFilter{}, 4, 3, 2, 1, 0)
	list(assay.RunFilter{RepositoryID: other.ID}, 4)
	list(assay.RunFilter{RepositoryID: unknownID})
	list(assay.RunFilter{Statuses: []string{assay.RunPending, "odd\x00"}, Types: []string{assay.RunFix, assay.RunMigration, "odd\x00"}}, 4, 2, 0)
	list(assay.RunFilter{Statuses: []string{assay.RunCancelled}}, 3)
	list(assay.RunFilter{Statuses: []string{"odd"}})
	code(t, assay.CodeInvalid, errOf3(s.Runs(ctx, org, assay.RunFilter{Types: make([]string, 21)})))
	cancelled := must(s.Run(ctx, org, all[3].ID))(t)
	require.Equal(t, micro(s.clock.now()), cancelled.EndedAt)
	require.NoError(t, s.CancelRun(ctx, org, all[3].ID))
	require.Equal(t, cancelled, must(s.Run(ctx, org, all[3].ID))(t))

	for n := range assay.MaxPendingRuns - 3 {
		s.schedule(repo, fmt.Sprint(n))
	}
	code(t, assay.CodeConflict, errOf3(s.ScheduleRun(ctx, &assay.Run{OrganizationID: org, RepositoryID: repo.ID, Type: assay.RunReview})))
	_, created = must2(s.ScheduleRun(ctx, &again))(t)
	require.False(t, created)
}

// TestClaimRuns: one run of a repository at a time, the oldest of the organization with the
// fewest running runs first.
func (s *suite) TestClaimRuns(t *testing.T) {
	ctx := s.ctx()
	b := s.handle()
	s.claim(s, "A", "")
	many, few := s.organization(), s.organization()
	r1, r2, r3, r4 := s.repository(many), s.repository(many), s.repository(many), s.repository(few)
	first, second := s.schedule(r1, `1`), s.schedule(r1, `2`)
	third, fourth, fifth := s.schedule(r2, `3`), s.schedule(r3, `4`), s.schedule(r4, `5`)
	started := s.claim(s, "A", first.ID)
	require.Equal(t, micro(s.clock.now()), started.StartedAt)
	require.Equal(t, started.StartedAt, started.SeenAt)
	s.claim(b, "B", fifth.ID)
	s.claim(b, "B", third.ID)
	s.claim(s, "A", fourth.ID)
	s.claim(s, "A", "")
	s.end("A", started)
	s.clock.advance(time.Second)
	s.claim(b, "B", second.ID)
	for _, id := range []string{third.ID, second.ID, fifth.ID} {
		cancel := must(b.RenewRun(ctx, "B", id, runTTL))(t)
		require.False(t, cancel)
	}

	// Another holder takes a run over when its lease has expired, before newer ones.
	newest := s.schedule(s.repository(few), `6`)
	require.NoError(t, s.CancelRun(ctx, few, newest.ID))
	s.clock.advance(runTTL - time.Second)
	taken := s.claim(b, "B", fourth.ID)
	require.Equal(t, started.StartedAt, taken.StartedAt)
	require.Equal(t, micro(s.clock.now()), taken.SeenAt)
	s.claim(s, "A", "")
	require.ErrorIs(t, errOf(s.RenewRun(ctx, "A", fourth.ID, runTTL)), delta.ErrLeaseLost)
	fourth.Status = assay.RunCompleted
	require.ErrorIs(t, s.UpdateRun(ctx, "A", fourth, []assay.RunEvent{{Name: "note"}}), delta.ErrLeaseLost)
	require.ErrorIs(t, s.SaveReview(ctx, "A", fourth, r3, []*assay.CodeFinding{finding(1, "low")}), delta.ErrLeaseLost)
	require.Empty(t, s.findings(many, assay.FindingFilter{}))

	// A holder whose lease has expired keeps the run until another one claims it.
	s.clock.advance(time.Hour)
	require.False(t, must(b.RenewRun(ctx, "B", fourth.ID, runTTL))(t))
	require.NoError(t, s.CancelRun(ctx, many, fourth.ID))
	require.True(t, must(b.RenewRun(ctx, "B", fourth.ID, runTTL))(t))
	fourth.Status = assay.RunCancelled
	require.NoError(t, b.UpdateRun(ctx, "B", fourth, nil))
	require.ErrorIs(t, errOf(b.RenewRun(ctx, "B", fourth.ID, runTTL)), delta.ErrLeaseLost, "it has ended")

	// A holder gives a run up.
	for _, want := range []*assay.Run{second, fifth, third} {
		require.NoError(t, errOf(b.RenewRun(ctx, "B", want.ID, 0)))
	}
	for _, want := range []*assay.Run{second, fifth, third} {
		s.claim(s, "A", want.ID)
	}
	require.NoError(t, errOf(s.RenewRun(ctx, "A", third.ID, 0)))
	s.claim(b, "C", third.ID)
	s.claim(b, "C", "")

	// A clock that was ahead blocks no run, and no lease lasts longer than a minute.
	s.clock.advance(-time.Hour)
	for _, holder := range []string{"D", "E"} {
		for _, want := range []*assay.Run{second, fifth, third} {
			require.Equal(t, want.ID, must(s.ClaimRun(ctx, holder, time.Hour))(t).ID)
		}
		s.claim(s, holder, "")
		s.clock.advance(delta.MaxLease)
	}
}

// TestRunClaims: a run whose holders keep stopping fails, and the next one begins. Holders that give it up do not count.
func (s *suite) TestRunClaims(t *testing.T) {
	ctx := s.ctx()
	org := s.organization()
	repo := s.repository(org)
	first := s.started(repo, "replica")
	for range 2 * assay.MaxRunClaims {
		require.NoError(t, errOf(s.RenewRun(ctx, "replica", first.ID, 0)))
		s.claim(s, "replica", first.ID)
	}
	for range assay.MaxRunClaims - 1 {
		s.claim(s, "replica", "")
		s.clock.advance(runTTL)
		s.claim(s, "replica", first.ID)
	}
	second := s.schedule(repo, `2`)
	s.claim(s, "replica", "")
	s.clock.advance(runTTL)
	s.claim(s, "replica", second.ID)
	failed := must(s.Run(ctx, org, first.ID))(t)
	require.Equal(t, assay.RunFailed, failed.Status)
	require.NotEmpty(t, failed.Error)
	require.Equal(t, micro(s.clock.now()), failed.EndedAt)
	require.ErrorIs(t, errOf(s.RenewRun(ctx, "replica", first.ID, runTTL)), delta.ErrLeaseLost)
}

// TestRunTurns: an organization with many pending runs does not delay one with a single run by more than the run that
// is running, even if one run at a time is claimed.
func (s *suite) TestRunTurns(t *testing.T) {
	many, one := s.organization(), s.organization()
	var runs []*assay.Run
	for range 4 {
		runs = append(runs, s.schedule(s.repository(many), `{}`))
	}
	claim := func(want *assay.Run) {
		t.Helper()
		run := s.claim(s, "replica", want.ID)
		s.clock.advance(time.Second)
		s.end("replica", run)
	}
	running := s.claim(s, "replica", runs[0].ID)
	s.clock.advance(time.Second)
	first, second := s.schedule(s.repository(one), `{}`), s.schedule(s.repository(one), `{}`)
	s.clock.advance(time.Second)
	s.end("replica", running)
	claim(first)
	claim(runs[1])
	claim(second)
	claim(runs[2])
	claim(runs[3])
}

// TestRunTime: an organization whose runs take long goes last, until they are an hour ago.
func (s *suite) TestRunTime(t *testing.T) {
	slow, quick := s.organization(), s.organization()
	run := func(want *assay.Run, d time.Duration) {
		t.Helper()
		r := s.claim(s, "replica", want.ID)
		s.clock.advance(d)
		s.end("replica", r)
	}
	var runs [2][]*assay.Run
	for range 6 {
		for i, org := range []string{slow, quick} {
			runs[i] = append(runs[i], s.schedule(s.repository(org), `{}`))
		}
	}
	run(runs[0][0], 3*time.Minute)
	for i := range 3 {
		run(runs[1][i], 50*time.Second)
	}
	run(runs[1][3], 90*time.Second) // it has used 2 minutes, and now 4
	run(runs[0][1], 10*time.Second)
	run(runs[0][2], time.Minute) // 3 minutes, and now 4; the other one waits longer
	run(runs[1][4], time.Second)
	s.clock.advance(2 * time.Hour)
	run(runs[0][3], time.Minute)
	run(runs[1][5], time.Second)
	run(runs[0][4], time.Minute)
}

func (s *suite) TestRunEvents(t *testing.T) {
	ctx := s.ctx()
	org := s.organization()
	repo := s.repository(org)
	run := s.started(repo, odd)
	events := func(after int64, limit int, latest int64, want ...assay.RunEvent) {
		t.Helper()
		got, last := must2(s.RunEvents(ctx, org, run.ID, after, limit))(t)
		require.Equal(t, latest, last)
		if len(want) == 0 {
			require.Empty(t, got)
			return
		}
		require.Equal(t, want, got)
	}
	events(-1, 10, -1)
	all := []assay.RunEvent{
		{Name: "phase", Phase: "checkout", Transition: "started"},
		{Name: "agent", Message: strings.Repeat("x", assay.MaxMessageBytes) + "é", Payload: json.RawMessage(`{"preview": "\u0000"}`), Seq: 99, At: epoch.Add(-time.Hour)},
		{Name: odd, Message: odd, Phase: odd, Transition: odd},
	}
	run.Commit, run.Phase, run.Ref = odd, "checkout", "ignored"
	run.PhaseTimes = []assay.RunPhase{{Key: "checkout", Started: micro(s.clock.now())}}
	run.Result, run.Error = json.RawMessage(`{"finding_count": 1}`), strings.Repeat("é", assay.MaxMessageBytes)
	s.clock.advance(time.Second)
	require.NoError(t, s.UpdateRun(ctx, odd, run, all[:2]))
	s.clock.advance(time.Second)
	require.NoError(t, s.UpdateRun(ctx, odd, run, all[2:]))
	for i := range all {
		all[i].Seq, all[i].At = int64(i), micro(epoch.Add(time.Duration(max(i, 1))*time.Second))
	}
	all[1].Message = all[1].Message[:assay.MaxMessageBytes]
	events(-1, 10, 2, all...)
	events(0, 10, 2, all[1:]...)
	events(0, 1, 2, all[1])
	events(2, 10, 2)
	events(-1, 0, 2)
	got := must(s.Run(ctx, org, run.ID))(t)
	run.Ref, run.Error = "", strings.Repeat("é", assay.MaxMessageBytes/2)
	run.SeenAt = micro(s.clock.now())
	require.Equal(t, run, got)

	big := json.RawMessage(`"` + strings.Repeat("x", assay.MaxDocumentBytes) + `"`)
	for _, bad := range []func(r *assay.Run, e *assay.RunEvent){
		func(r *assay.Run, _ *assay.RunEvent) { r.Status = assay.RunPending },
		func(r *assay.Run, _ *assay.RunEvent) { r.Status = "odd" },
		func(r *assay.Run, _ *assay.RunEvent) { r.Commit = string(big) },
		func(r *assay.Run, _ *assay.RunEvent) { r.Result = big },
		func(r *assay.Run, _ *assay.RunEvent) { r.Result = json.RawMessage("{") },
		func(r *assay.Run, _ *assay.RunEvent) { r.PhaseTimes = make([]assay.RunPhase, 1000) },
		func(_ *assay.Run, e *assay.RunEvent) { e.Name = string(big) },
		func(_ *assay.Run, e *assay.RunEvent) { e.Payload = big[:assay.MaxEventPayloadBytes+1] },
		func(_ *assay.Run, e *assay.RunEvent) { e.Payload = json.RawMessage("nil") },
	} {
		r, e := *run, assay.RunEvent{}
		bad(&r, &e)
		code(t, assay.CodeInvalid, s.UpdateRun(ctx, odd, &r, []assay.RunEvent{e}))
	}
	events(-1, 10, 2, all...)

	// Events beyond the limit are dropped, and the run ends all the same.
	run.Status, run.EndedAt = assay.RunFailed, micro(epoch.Add(time.Minute))
	require.NoError(t, s.UpdateRun(ctx, odd, run, make([]assay.RunEvent, assay.MaxRunEvents)))
	_, latest := must2(s.RunEvents(ctx, org, run.ID, -1, 1))(t)
	require.EqualValues(t, assay.MaxRunEvents-1, latest)
	require.EqualValues(t, assay.MaxRunEvents, s.rows()["run_events"])
	require.Equal(t, run, must(s.Run(ctx, org, run.ID))(t))
	require.ErrorIs(t, s.UpdateRun(ctx, odd, run, nil), delta.ErrLeaseLost)
}

// TestRunRace: holders on two handles claim, renew and end runs concurrently. Each run has
// one holder at a time, and a repository one running run.
func (s *suite) TestRunRace(t *testing.T) {
	const repositories, each, holders = 6, 4, 6
	ctx := s.ctx()
	var repos []*assay.Repository
	for range repositories / 2 {
		org := s.organization()
		repos = append(repos, s.repository(org), s.repository(org))
	}
	var (
		mu      sync.Mutex
		busy    = make(map[string]bool) // repositories
		claimed = make(map[string]int)
	)
	s.race(repositories*each, "", func(n int, st Store) (bool, error) {
		run := &assay.Run{
			OrganizationID: repos[n%repositories].OrganizationID, RepositoryID: repos[n%repositories].ID, Type: assay.RunReview, Input: json.RawMessage(fmt.Sprint(n)),
		}
		return true, errors.Join(errOf3(st.ScheduleRun(ctx, run)), errOf3(st.ScheduleRun(ctx, run))) // twice the same
	})
	s.race(holders, "", func(h int, st Store) (bool, error) {
		holder := fmt.Sprint("holder ", h)
		for {
			run, err := st.ClaimRun(ctx, holder, runTTL)
			if err != nil || run == nil {
				return true, err
			}
			mu.Lock()
			if busy[run.RepositoryID] {
				t.Errorf("two runs of repository %s", run.RepositoryID)
			}
			busy[run.RepositoryID] = true
			claimed[run.ID]++
			mu.Unlock()
			renewed := errOf(st.RenewRun(ctx, holder, run.ID, runTTL))
			repo, err := st.Repository(ctx, run.OrganizationID, run.RepositoryID)
			if err != nil {
				return false, err
			}
			err = errors.Join(renewed, st.SaveReview(ctx, holder, run, repo, []*assay.CodeFinding{finding(h, "low"), finding(100, "high")}),
				st.DismissFinding(ctx, run.OrganizationID, run.RepositoryID, finding(100, "").ID, h%2 == 0, odd))
			mu.Lock()
			busy[run.RepositoryID] = false
			mu.Unlock()
			run.Status = assay.RunCompleted
			if err := errors.Join(err, st.UpdateRun(ctx, holder, run, make([]assay.RunEvent, 3))); err != nil {
				return false, err
			}
		}
	})
	// A holder stops when all repositories are busy, so that some runs may be left.
	for {
		run := must(s.ClaimRun(ctx, "last", runTTL))(t)
		if run == nil {
			break
		}
		claimed[run.ID]++
		s.end("last", run)
	}
	require.Len(t, claimed, repositories*each)
	for id, n := range claimed {
		require.Equal(t, 1, n, id)
	}
}
