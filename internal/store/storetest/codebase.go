// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/delta"
	"assay/internal/lists"
)

// odd is a text that a repository or a source host may choose.
const odd = "'; -- \x00 \xff\xfe \u202e $1 é"

// installation saves an installation of an organization.
func (s *suite) installation(org string) *assay.Installation {
	s.t.Helper()
	i := &assay.Installation{
		OrganizationID: org, Provider: "git", Account: odd, Status: "active",
		Credential: []byte{0, 1, 0xff}, Write: true, CreatedBy: odd, LastError: odd,
	}
	require.NoError(s.t, s.SaveInstallation(s.ctx(), i))
	require.Len(s.t, i.ID, 36)
	return i
}

// repositories saves repositories of an installation.
func (s *suite) repositories(i *assay.Installation, names ...string) []*assay.Repository {
	s.t.Helper()
	var repos []*assay.Repository
	for _, name := range names {
		repos = append(repos, &assay.Repository{
			InstallationID: i.ID, FullName: name, URL: "https://host.example/" + name, DefaultBranch: "main", Access: "granted",
			Settings: assay.RepositorySettings{Ignore: []string{"vendor/**", "\x00 \u202e"}, ReviewInstructions: "short"},
		})
	}
	require.NoError(s.t, s.SaveRepositories(s.ctx(), i.OrganizationID, repos))
	return repos
}

// repository saves an active repository of a new installation.
func (s *suite) repository(org string) *assay.Repository {
	s.t.Helper()
	r := s.repositories(s.installation(org), odd)[0]
	require.NoError(s.t, errOf(s.ActivateRepositories(s.ctx(), org, []string{r.ID}, true, assay.MaxRepositories)))
	return r
}

// schedule schedules a run with an input.
func (s *suite) schedule(r *assay.Repository, input string) *assay.Run {
	s.t.Helper()
	run, created, err := s.ScheduleRun(s.ctx(), &assay.Run{
		OrganizationID: r.OrganizationID, RepositoryID: r.ID, Type: assay.RunReview, Trigger: assay.TriggerManual, Input: json.RawMessage(input),
	})
	require.NoError(s.t, err)
	require.True(s.t, created)
	return run
}

const runTTL = 30 * time.Second

// claim claims a run, which must be want. "" means that there is none.
func (s *suite) claim(st Store, holder, want string) *assay.Run {
	s.t.Helper()
	run := must(st.ClaimRun(s.ctx(), holder, runTTL))(s.t)
	if want == "" {
		require.Nil(s.t, run)
		return nil
	}
	require.NotNil(s.t, run)
	require.Equal(s.t, want, run.ID)
	require.Equal(s.t, assay.RunRunning, run.Status)
	return run
}

// started schedules and claims a run of a repository, the only one that waits.
func (s *suite) started(r *assay.Repository, holder string) *assay.Run {
	s.t.Helper()
	return s.claim(s, holder, s.schedule(r, `{}`).ID)
}

// end completes a run.
func (s *suite) end(holder string, run *assay.Run) {
	s.t.Helper()
	ended := *run
	ended.Status = assay.RunCompleted
	require.NoError(s.t, s.UpdateRun(s.ctx(), holder, &ended, nil))
}

// finding is a finding with a number for its id.
func finding(n int, severity string) *assay.CodeFinding {
	return &assay.CodeFinding{
		ID: fmt.Sprintf("otel-%012x", n), Check: "span-name-dynamic", Severity: severity, Category: "Volume", Service: odd,
		Body: json.RawMessage(fmt.Sprintf(`{"title": "finding %d", "odd": "\u0000"}`, n)),
	}
}

// review runs a review that reports findings.
func (s *suite) review(r *assay.Repository, findings ...*assay.CodeFinding) *assay.Run {
	s.t.Helper()
	run := s.started(r, "replica")
	require.NoError(s.t, s.SaveReview(s.ctx(), "replica", run, r, findings))
	s.end("replica", run)
	return run
}

// findings returns the findings of a filter, and checks that pages divide them.
func (s *suite) findings(org string, f assay.FindingFilter) []*assay.CodeFinding {
	s.t.Helper()
	all, total := must2(s.Findings(s.ctx(), org, f))(s.t)
	require.Len(s.t, all, total)
	require.Equal(s.t, all, paged(s.t, 2, total, func(p assay.Page) ([]*assay.CodeFinding, int, error) {
		f.Limit, f.Offset = p.Limit, p.Offset
		return s.Findings(s.ctx(), org, f)
	}))
	return all
}

func findingIDs(findings []*assay.CodeFinding) string {
	ids := lists.Map(findings, func(f *assay.CodeFinding) string { return strings.TrimLeft(strings.TrimPrefix(f.ID, "otel-"), "0") })
	return strings.Join(ids, " ")
}

// TestCodebaseIsolation uses the ids of one organization with the id of another.
func (s *suite) TestCodebaseIsolation(t *testing.T) {
	ctx := s.ctx()
	mine, theirs := s.organization(), s.organization()
	i := s.installation(mine)
	repo := s.repositories(i, "a")[0]
	s.review(repo, finding(1, "high"))
	patched := s.started(repo, "replica")
	require.NoError(t, s.SavePatch(ctx, "replica", patched.ID, []byte("patch")))
	s.end("replica", patched)
	run := s.schedule(repo, `{"n": 2}`)
	before := s.rows()
	for _, org := range []string{theirs, unknownID, "", "no id"} {
		other := *i
		other.OrganizationID = org
		code(t, assay.CodeNotFound, s.SaveInstallation(ctx, &other))
		code(t, assay.CodeNotFound, s.DeleteInstallation(ctx, org, i.ID))
		code(t, assay.CodeNotFound, s.SaveRepositories(ctx, org, []*assay.Repository{{InstallationID: i.ID, FullName: "b"}}))
		code(t, assay.CodeNotFound, errOf(s.Repository(ctx, org, repo.ID)))
		code(t, assay.CodeNotFound, errOf(s.ActivateRepositories(ctx, org, []string{repo.ID}, true, 10)))
		code(t, assay.CodeNotFound, errOf(s.CompleteOnboarding(ctx, org, []string{repo.ID}, 10)))
		code(t, assay.CodeNotFound, s.SaveRepositorySettings(ctx, org, repo.ID, assay.RepositorySettings{}))
		code(t, assay.CodeNotFound, errOf3(s.ScheduleRun(ctx, &assay.Run{OrganizationID: org, RepositoryID: repo.ID, Type: assay.RunReview})))
		code(t, assay.CodeNotFound, s.CancelRun(ctx, org, run.ID))
		code(t, assay.CodeNotFound, errOf(s.Run(ctx, org, run.ID)))
		code(t, assay.CodeNotFound, errOf3(s.RunEvents(ctx, org, run.ID, -1, 10)))
		code(t, assay.CodeNotFound, errOf(s.Patch(ctx, org, patched.ID)))
		code(t, assay.CodeNotFound, s.DismissFinding(ctx, org, repo.ID, finding(1, "").ID, true, ""))

		require.Empty(t, must(s.Installations(ctx, org))(t))
		require.Empty(t, must(s.Repositories(ctx, org))(t))
		require.Equal(t, "not_started", must(s.Onboarding(ctx, org))(t))
		for _, f := range []assay.RunFilter{{}, {RepositoryID: repo.ID}} {
			runs, total := must2(s.Runs(ctx, org, f))(t)
			require.Empty(t, runs)
			require.Zero(t, total)
		}
		for _, f := range []assay.FindingFilter{{}, {RepositoryID: repo.ID}, {RunID: run.ID}} {
			require.Empty(t, s.findings(org, f))
		}
		severities, categories := must2(s.CountFindings(ctx, org))(t)
		require.Empty(t, severities)
		require.Empty(t, categories)
	}
	require.Equal(t, before, s.rows())
	require.Equal(t, run, must(s.Run(ctx, mine, run.ID))(t))

	// Ids of one organization that are unknown.
	for _, id := range []string{unknownID, "", "no id", "\x00"} {
		code(t, assay.CodeNotFound, s.DeleteInstallation(ctx, mine, id))
		code(t, assay.CodeNotFound, errOf(s.ActivateRepositories(ctx, mine, []string{repo.ID, id}, true, 10)))
		code(t, assay.CodeNotFound, s.CancelRun(ctx, mine, id))
		code(t, assay.CodeNotFound, s.DismissFinding(ctx, mine, id, finding(1, "").ID, true, ""))
		code(t, assay.CodeNotFound, s.DismissFinding(ctx, mine, repo.ID, id, true, ""))
		require.ErrorIs(t, errOf(s.RenewRun(ctx, "replica", id, runTTL)), delta.ErrLeaseLost)
	}
	require.Len(t, s.findings(mine, assay.FindingFilter{}), 1)
}

// TestExpireCodebase expires findings and runs.
func (s *suite) TestExpireCodebase(t *testing.T) {
	ctx := s.ctx()
	org := s.organization()
	repo, other := s.repository(org), s.repository(org)
	s.review(repo, finding(1, "high"), finding(2, "high"), finding(3, "low"))
	s.review(repo, finding(2, "high"), finding(3, "low"))
	s.clock.advance(24 * time.Hour)
	s.review(repo, finding(3, "low"))
	all := assay.FindingFilter{Status: "all"}
	require.Equal(t, "1 2 3", findingIDs(s.findings(org, all)))
	expire := func() {
		t.Helper()
		s.expire(bucket(s.clock.now()), 0)
	}
	s.clock.advance(89*24*time.Hour - time.Second)
	expire()
	require.Equal(t, "1 2 3", findingIDs(s.findings(org, all)))
	s.clock.advance(2 * time.Second)
	expire()
	require.Equal(t, "2 3", findingIDs(s.findings(org, all)), "resolved 90 days ago")
	s.clock.advance(24 * time.Hour)
	expire()
	require.Equal(t, "3", findingIDs(s.findings(org, all)), "an active one stays")

	// Of a repository's runs, the newest stay, and those that have not ended.
	s.end("replica", s.started(other, "replica"))
	waiting := s.schedule(other, `{"waiting": true}`)
	var runs []*assay.Run
	for range assay.MaxRepositoryRuns + 2 {
		run, _ := must2(s.ScheduleRun(ctx, &assay.Run{OrganizationID: org, RepositoryID: other.ID, Type: assay.RunFix}))(t)
		require.NoError(t, s.CancelRun(ctx, org, run.ID))
		runs = append(runs, run)
	}
	events := []assay.RunEvent{{Name: "note"}, {Name: "note"}}
	held := s.claim(s, "replica", waiting.ID)
	require.NoError(t, s.UpdateRun(ctx, "replica", held, events))
	expire()
	kept, total := must2(s.Runs(ctx, org, assay.RunFilter{RepositoryID: other.ID}))(t)
	require.Equal(t, assay.MaxRepositoryRuns+1, total)
	require.Equal(t, runs[len(runs)-1].ID, kept[0].ID)
	require.Equal(t, waiting.ID, kept[total-1].ID, "it runs")
	s.end("replica", held)
	require.EqualValues(t, 2, s.rows()["run_events"])
	expire()
	require.Zero(t, s.rows()["run_events"])
	_, total = must2(s.Runs(ctx, org, assay.RunFilter{RepositoryID: repo.ID}))(t)
	require.Equal(t, 3, total)
	code(t, assay.CodeNotFound, errOf(s.Run(ctx, org, waiting.ID)))
}
