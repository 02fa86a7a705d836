// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/delta"
)

func (s *suite) TestInstallations(t *testing.T) {
	ctx := s.ctx()
	org := s.organization()
	a := s.installation(org)
	require.Equal(t, micro(s.clock.now()), a.CreatedAt)
	b := &assay.Installation{ID: "11111111-2222-4333-8444-555555555555", OrganizationID: org, Provider: "local"}
	require.NoError(t, s.SaveInstallation(ctx, b))
	list := func() []*assay.Installation {
		t.Helper()
		return must(s.Installations(ctx, org))(t)
	}
	require.Equal(t, []*assay.Installation{a, b}, list())

	// A replaced one keeps its place, its creation time and its author.
	s.clock.advance(time.Hour)
	again := &assay.Installation{ID: a.ID, OrganizationID: org, Provider: "gitea", Account: "acme", OwnerID: 7, Status: "failed", CreatedBy: "another", LastError: strings.Repeat("é", assay.MaxMessageBytes)}
	require.NoError(t, s.SaveInstallation(ctx, again))
	require.Equal(t, a.CreatedAt, again.CreatedAt)
	require.Equal(t, a.CreatedBy, again.CreatedBy)
	again.LastError = strings.Repeat("é", assay.MaxMessageBytes/2)
	require.Equal(t, []*assay.Installation{again, b}, list())

	for _, bad := range []*assay.Installation{
		{OrganizationID: org, Account: strings.Repeat("a", 257)},
		{OrganizationID: org, Credential: make([]byte, assay.MaxCredentialBytes+1)},
		{OrganizationID: org, ID: "no id"},
	} {
		code(t, assay.CodeInvalid, s.SaveInstallation(ctx, bad))
	}
	code(t, assay.CodeNotFound, s.SaveInstallation(ctx, &assay.Installation{OrganizationID: unknownID}))
	for range assay.MaxInstallations - 2 {
		s.installation(org)
	}
	code(t, assay.CodeConflict, s.SaveInstallation(ctx, &assay.Installation{OrganizationID: org}))
	require.NoError(t, s.SaveInstallation(ctx, again), "no new one")
	require.Len(t, list(), assay.MaxInstallations)
	s.installation(s.organization())
}

func (s *suite) TestRepositories(t *testing.T) {
	ctx := s.ctx()
	org := s.organization()
	first, second := s.installation(org), s.installation(org)
	of2 := s.repositories(second, "b", odd, "a")
	of1 := s.repositories(first, "a")
	list := func() []*assay.Repository {
		t.Helper()
		return must(s.Repositories(ctx, org))(t)
	}
	want := []*assay.Repository{of1[0], of2[1], of2[2], of2[0]}
	for _, r := range want {
		r.OrganizationID, r.CreatedAt, r.Findings = org, micro(s.clock.now()), map[string]int{}
	}
	require.Equal(t, want, list())
	require.Equal(t, of2[1], must(s.Repository(ctx, org, of2[1].ID))(t))

	// Saving them again updates them, and keeps what the source does not say.
	s.clock.advance(time.Hour)
	again := []*assay.Repository{
		{InstallationID: second.ID, FullName: odd, URL: "ssh://elsewhere", Access: "denied"},
		{InstallationID: first.ID, FullName: "a", URL: "https://host.example/a", DefaultBranch: "trunk", Access: "granted"},
	}
	require.NoError(t, s.SaveRepositories(ctx, org, again))
	require.Equal(t, []string{of2[1].ID, of1[0].ID}, []string{again[0].ID, again[1].ID})
	of2[1].URL, of2[1].Access, of1[0].DefaultBranch = "ssh://elsewhere", "denied", "trunk"
	require.Equal(t, want, list())
	require.NoError(t, s.SaveRepositories(ctx, org, nil))

	settings := assay.RepositorySettings{ReviewInstructions: odd[:4], DisabledChecks: []string{"span-noise"}, Services: []string{"shop"}}
	require.NoError(t, s.SaveRepositorySettings(ctx, org, of1[0].ID, settings))
	require.Equal(t, settings, must(s.Repository(ctx, org, of1[0].ID))(t).Settings)
	code(t, assay.CodeNotFound, s.SaveRepositorySettings(ctx, org, unknownID, settings))
	settings.FixInstructions = strings.Repeat("x", assay.MaxDocumentBytes)
	code(t, assay.CodeInvalid, s.SaveRepositorySettings(ctx, org, of1[0].ID, settings))

	long := strings.Repeat("x", assay.MaxCodeTextBytes)
	require.NoError(t, s.SaveRepositories(ctx, org, []*assay.Repository{{InstallationID: first.ID, FullName: long, URL: long, DefaultBranch: long, Access: long}}))
	for _, bad := range []*assay.Repository{{FullName: long + "x"}, {URL: long + "x"}, {DefaultBranch: long + "x"}, {Access: long + "x"}} {
		bad.InstallationID = first.ID
		code(t, assay.CodeInvalid, s.SaveRepositories(ctx, org, []*assay.Repository{bad}))
	}
	code(t, assay.CodeNotFound, s.SaveRepositories(ctx, org, []*assay.Repository{{InstallationID: first.ID, FullName: "c"}, {InstallationID: unknownID, FullName: "d"}}))
	require.Len(t, list(), 5)

	// The limit is of all installations.
	var names []string
	for i := range assay.MaxRepositories - 5 {
		names = append(names, fmt.Sprintf("many/%d", i))
	}
	s.repositories(first, names...)
	more := []*assay.Repository{{InstallationID: second.ID, FullName: "one more"}}
	code(t, assay.CodeConflict, s.SaveRepositories(ctx, org, more))
	require.Empty(t, more[0].ID)
	s.repositories(first, names[:3]...)
	require.Len(t, list(), assay.MaxRepositories)
	s.repositories(s.installation(s.organization()), "a")
}

func (s *suite) TestActivation(t *testing.T) {
	ctx := s.ctx()
	org := s.organization()
	repos := s.repositories(s.installation(org), "a", "b", "c", "d")
	foreign := s.repository(s.organization())
	id := func(n int) string { return repos[n].ID }
	active := func(want ...bool) {
		t.Helper()
		found := must(s.Repositories(ctx, org))(t)
		for i, r := range found {
			require.Equal(t, want[i], r.Active, r.FullName)
		}
	}
	activate := func(want int, on bool, limit int, ids ...string) {
		t.Helper()
		n := must(s.ActivateRepositories(ctx, org, ids, on, limit))(t)
		require.Equal(t, want, n)
	}
	refused := func(want assay.Code, limit int, ids ...string) {
		t.Helper()
		_, err := s.ActivateRepositories(ctx, org, ids, true, limit)
		code(t, want, err)
	}
	activate(2, true, 3, id(0), id(1), id(0))
	activate(2, true, 3)
	refused(assay.CodeConflict, 3, id(2), id(3))
	refused(assay.CodeNotFound, 9, id(2), foreign.ID)
	active(true, true, false, false)
	activate(3, true, 3, id(2))
	activate(3, true, 3, id(2))
	activate(2, false, 0, id(1), id(3))
	active(true, false, true, false)

	// Onboarding activates all repositories or none, once.
	state := func(want string) {
		t.Helper()
		require.Equal(t, want, must(s.Onboarding(ctx, org))(t))
	}
	state("not_started")
	require.NoError(t, s.StartOnboarding(ctx, org))
	s.clock.advance(time.Minute)
	require.NoError(t, s.StartOnboarding(ctx, org))
	code(t, assay.CodeNotFound, s.StartOnboarding(ctx, unknownID))
	state("in_progress")
	code(t, assay.CodeConflict, errOf(s.CompleteOnboarding(ctx, org, []string{id(1), id(3)}, 3)))
	code(t, assay.CodeNotFound, errOf(s.CompleteOnboarding(ctx, org, []string{id(1), unknownID}, 9)))
	state("in_progress")
	active(true, false, true, false)
	require.Equal(t, 3, must(s.CompleteOnboarding(ctx, org, []string{id(1)}, 3))(t))
	state("completed")
	active(true, true, true, false)
	code(t, assay.CodeConflict, errOf(s.CompleteOnboarding(ctx, org, []string{id(3)}, 9)))
	active(true, true, true, false)
	require.NoError(t, s.StartOnboarding(ctx, org))
	state("completed")
	require.Equal(t, "not_started", must(s.Onboarding(ctx, foreign.OrganizationID))(t))
}

// TestActivationRace activates more repositories concurrently than the limit allows, and
// completes the onboarding.
func (s *suite) TestActivationRace(t *testing.T) {
	const racers, limit = 12, 5
	ctx := s.ctx()
	org := s.organization()
	i := s.installation(org)
	var won atomic.Int64
	completed := s.race(racers, assay.CodeConflict, func(n int, st Store) (bool, error) {
		r := []*assay.Repository{{InstallationID: i.ID, FullName: fmt.Sprint("racer ", n%8)}}
		if err := st.SaveRepositories(ctx, org, r); err != nil {
			t.Error(err)
		}
		switch _, err := st.ActivateRepositories(ctx, org, []string{r[0].ID}, true, limit); {
		case err == nil:
			won.Add(1)
		case assay.ErrorCode(err) != assay.CodeConflict:
			t.Error(err)
		}
		return true, errOf(st.CompleteOnboarding(ctx, org, nil, limit))
	})
	found := must(s.Repositories(ctx, org))(t)
	require.Len(t, found, 8)
	active := 0
	for _, r := range found {
		if r.Active {
			active++
		}
	}
	require.Equal(t, limit, active)
	require.GreaterOrEqual(t, won.Load(), int64(limit))
	require.Equal(t, 1, completed)
}

func (s *suite) TestDueRepositories(t *testing.T) {
	ctx := s.ctx()
	org := s.organization()
	never, reviewed, inactive := s.repository(org), s.repository(s.organization()), s.repositories(s.installation(org), "inactive")[0]
	due := func(want ...*assay.Repository) {
		t.Helper()
		found := must(s.DueRepositories(ctx, s.clock.now().Add(-time.Hour), 10))(t)
		require.Len(t, found, len(want))
		for i, r := range found {
			require.Equal(t, want[i].ID, r.ID)
			require.NotEqual(t, inactive.ID, r.ID)
		}
	}
	due(never, reviewed)
	s.review(reviewed, finding(1, "high"))
	due(never)
	s.clock.advance(time.Hour + time.Second)
	due(never, reviewed)
	require.Len(t, must(s.DueRepositories(ctx, s.clock.now(), 1))(t), 1)
	require.Empty(t, must(s.DueRepositories(ctx, s.clock.now(), 0))(t))
	require.Equal(t, map[string]int{"high": 1}, must(s.DueRepositories(ctx, s.clock.now(), 10))(t)[1].Findings)

	// A review of the default branch postpones the next one from its creation, so also while it runs and if it
	// fails. One of another branch and other runs do not.
	for _, r := range []*assay.Run{{Type: assay.RunReview, Ref: "other"}, {Type: assay.RunFix}} {
		r.OrganizationID, r.RepositoryID, r.Trigger = org, never.ID, assay.TriggerManual
		_, created := must2(s.ScheduleRun(ctx, r))(t)
		require.True(t, created)
	}
	due(never, reviewed)
	s.schedule(never, `{}`)
	due(reviewed)
	s.clock.advance(time.Hour + time.Second)
	due(reviewed, never)

	// So does one that is refused, for otherwise full repositories would keep others from being due first.
	for n := range assay.MaxPendingRuns {
		_, created, err := s.ScheduleRun(ctx, &assay.Run{
			OrganizationID: reviewed.OrganizationID, RepositoryID: reviewed.ID, Type: assay.RunFix, Trigger: assay.TriggerManual, Input: fmt.Appendf(nil, `{"n":%d}`, n),
		})
		require.NoError(t, err)
		require.True(t, created)
	}
	due(reviewed, never)
	code(t, assay.CodeConflict, errOf3(s.ScheduleRun(ctx, &assay.Run{OrganizationID: reviewed.OrganizationID, RepositoryID: reviewed.ID, Type: assay.RunReview, Trigger: assay.TriggerScheduled})))
	due(never)
}

// TestDeleteInstallation deletes an installation with more rows than one transaction
// deletes.
func (s *suite) TestDeleteInstallation(t *testing.T) {
	ctx := s.ctx()
	org := s.organization()
	stays := s.repository(org)
	s.review(stays, finding(1, "high"))
	before := s.rows()
	i := s.installation(org)
	repos := s.repositories(i, "a", "b", "c", "d", "e", "f", "g")
	var findings []*assay.CodeFinding
	for n := range 2100 {
		f := finding(n, "low")
		f.InsightIDs = []string{unknownID}
		findings = append(findings, f)
	}
	s.review(repos[0], findings...)
	s.review(repos[1], findings[0])
	running := s.started(repos[0], "replica")
	events := make([]assay.RunEvent, 2100)
	require.NoError(t, s.UpdateRun(ctx, "replica", running, events))
	waiting := s.schedule(repos[1], `{}`)
	require.NoError(t, s.DeleteInstallation(ctx, org, i.ID))
	require.Equal(t, before, s.rows())
	code(t, assay.CodeNotFound, s.DeleteInstallation(ctx, org, i.ID))
	for _, run := range []*assay.Run{running, waiting} {
		code(t, assay.CodeNotFound, errOf(s.Run(ctx, org, run.ID)))
	}
	require.ErrorIs(t, s.UpdateRun(ctx, "replica", running, nil), delta.ErrLeaseLost)
	require.ErrorIs(t, s.SaveReview(ctx, "replica", running, repos[0], nil), delta.ErrLeaseLost)
	s.claim(s, "replica", "")
	require.Equal(t, "1", findingIDs(s.findings(org, assay.FindingFilter{})))
	require.NoError(t, s.SaveInstallation(ctx, &assay.Installation{ID: i.ID, OrganizationID: org, Credential: json.RawMessage("x")}))
}

// TestInstallationRace deletes installations while replicas review their repositories.
func (s *suite) TestInstallationRace(t *testing.T) {
	const installations, repositories = 3, 3
	ctx := s.ctx()
	org := s.organization()
	before := s.rows()
	handles := []Store{s.Store, s.handle()}
	lost := func(err error) bool {
		return err == nil || errors.Is(err, delta.ErrLeaseLost) || assay.ErrorCode(err) == assay.CodeNotFound
	}
	var wg sync.WaitGroup
	for n := range installations {
		i := s.installation(org)
		repos := s.repositories(i, "a", "b", "c")
		reviewing := make(chan struct{}, repositories)
		for r, repo := range repos {
			s.schedule(repo, fmt.Sprint(n))
			wg.Go(func() {
				st, holder := handles[r%2], fmt.Sprint("holder ", n, r)
				run, err := st.ClaimRun(ctx, holder, runTTL)
				reviewing <- struct{}{}
				if err != nil || run == nil {
					if err != nil {
						t.Error(err)
					}
					return
				}
				for k := range 10 {
					if err := st.SaveReview(ctx, holder, run, &assay.Repository{ID: run.RepositoryID}, []*assay.CodeFinding{finding(k, "low"), finding(99, "high")}); !lost(err) {
						t.Error(err)
					}
					if err := st.DismissFinding(ctx, org, run.RepositoryID, finding(99, "").ID, k%2 == 0, ""); !lost(err) {
						t.Error(err)
					}
					if err := st.UpdateRun(ctx, holder, run, []assay.RunEvent{{Name: "note"}}); !lost(err) {
						t.Error(err)
					}
					if _, _, err := st.ScheduleRun(ctx, &assay.Run{OrganizationID: org, RepositoryID: run.RepositoryID, Type: assay.RunFix}); !lost(err) {
						t.Error(err)
					}
				}
			})
		}
		wg.Go(func() {
			for range repositories {
				<-reviewing
			}
			if err := handles[n%2].DeleteInstallation(ctx, org, i.ID); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.Equal(t, before, s.rows())
}
