// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/delta"
)

const otherInsight = "00000000-0000-4000-8000-000000000001"

// TestReviews follows findings over reviews: active, resolved, active again, dismissed.
func (s *suite) TestReviews(t *testing.T) {
	ctx := s.ctx()
	org := s.organization()
	repo, other := s.repository(org), s.repository(org)
	full := finding(1, "critical")
	full.InsightIDs, full.FixStatus, full.PullRequest, full.PullStatus = []string{unknownID, otherInsight, unknownID}, "proposed", 7, "open"
	s.clock.advance(time.Minute)
	first := s.review(repo, finding(3, "low"), full, finding(2, "critical"), finding(3, "high"))
	created := micro(s.clock.now())
	want := func(f *assay.CodeFinding, run *assay.Run, change func(*assay.CodeFinding)) *assay.CodeFinding {
		w := *f
		w.OrganizationID, w.RepositoryID, w.RunID, w.CreatedAt = org, repo.ID, run.ID, created
		if change != nil {
			change(&w)
		}
		return &w
	}
	unique := func(f *assay.CodeFinding) { f.InsightIDs = []string{unknownID, otherInsight} }
	require.Equal(t, []*assay.CodeFinding{want(full, first, unique), want(finding(2, "critical"), first, nil), want(finding(3, "high"), first, nil)},
		s.findings(org, assay.FindingFilter{}), "the first of two with an id is the worst")
	counts := func(want string) {
		t.Helper()
		severities, categories := must2(s.CountFindings(ctx, org))(t)
		got := ""
		for _, c := range severities {
			got += fmt.Sprintf("%s %d ", c.Value, c.Count)
		}
		got += "|"
		for _, c := range categories {
			got += fmt.Sprintf(" %s %d", c.Value, c.Count)
		}
		require.Equal(t, want, got)
	}
	counts("critical 2 high 1 | Volume 3")
	r := must(s.Repository(ctx, org, repo.ID))(t)
	require.Equal(t, map[string]int{"critical": 2, "high": 1}, r.Findings)
	require.Equal(t, first.StartedAt, r.ReviewedAt)

	// A finding that disappears is resolved; those that stay name the new run.
	s.clock.advance(time.Minute)
	repo.Instrumentation, repo.DefaultBranch, repo.Access = json.RawMessage(`{"otel_present": true, "odd": "\u0000"}`), "trunk", "granted"
	second := s.started(repo, "replica")
	second.Commit = odd
	worse := finding(3, "critical")
	worse.Category, worse.Body = "Governance", json.RawMessage(`{"title": "changed"}`)
	require.NoError(t, s.SaveReview(ctx, "replica", second, repo, []*assay.CodeFinding{finding(2, "critical"), worse, finding(4, "suggestion")}))
	s.end("replica", second)
	resolved := micro(s.clock.now())
	gone := want(full, first, func(f *assay.CodeFinding) { unique(f); f.Resolved, f.ResolvedAt = true, resolved })
	require.Equal(t, []*assay.CodeFinding{gone}, s.findings(org, assay.FindingFilter{Status: "resolved"}))
	require.Equal(t, []*assay.CodeFinding{
		want(finding(2, "critical"), second, nil), want(worse, second, nil),
		want(finding(4, "suggestion"), second, func(f *assay.CodeFinding) { f.CreatedAt = resolved }),
	}, s.findings(org, assay.FindingFilter{}))
	counts("critical 2 suggestion 1 | Governance 1 Volume 2")
	r = must(s.Repository(ctx, org, repo.ID))(t)
	require.Equal(t, second.StartedAt, r.ReviewedAt)
	require.Equal(t, odd, r.ReviewedCommit)
	require.Equal(t, "trunk", r.DefaultBranch)
	require.Equal(t, repo.Instrumentation, r.Instrumentation)

	// A dismissed finding stays dismissed, and so it does when it comes back.
	require.NoError(t, s.DismissFinding(ctx, org, repo.ID, full.ID, true, odd))
	require.NoError(t, s.DismissFinding(ctx, org, repo.ID, finding(2, "").ID, true, strings.Repeat("é", assay.MaxMessageBytes)))
	require.Equal(t, "3 4", findingIDs(s.findings(org, assay.FindingFilter{})))
	require.Equal(t, "2 3 4", findingIDs(s.findings(org, assay.FindingFilter{Dismissed: true})))
	require.Empty(t, s.findings(org, assay.FindingFilter{Status: "resolved"}))
	require.Equal(t, "1", findingIDs(s.findings(org, assay.FindingFilter{Status: "resolved", Dismissed: true})))
	require.Equal(t, "1 2 3 4", findingIDs(s.findings(org, assay.FindingFilter{Status: "all", Dismissed: true})))
	require.Equal(t, "3 4", findingIDs(s.findings(org, assay.FindingFilter{Status: "all"})))
	for n := 1; n <= 3; n++ { // resolved, dismissed and active
		one := assay.FindingFilter{RepositoryID: repo.ID, FindingID: finding(n, "").ID, Status: "all", Dismissed: true}
		require.Equal(t, strconv.Itoa(n), findingIDs(s.findings(org, one)))
	}
	counts("critical 1 suggestion 1 | Governance 1 Volume 1")
	s.clock.advance(time.Minute)
	repo.Instrumentation, repo.DefaultBranch, repo.Access = nil, "", ""
	back := finding(1, "critical")
	third := s.review(repo, back, finding(2, "critical"))
	require.Equal(t, []*assay.CodeFinding{
		want(back, third, func(f *assay.CodeFinding) {
			f.Dismissed, f.DismissedReason, f.FixStatus, f.PullRequest, f.PullStatus = true, odd, "proposed", 7, "open"
		}),
		want(finding(2, "critical"), third, func(f *assay.CodeFinding) {
			f.Dismissed, f.DismissedReason = true, strings.Repeat("é", assay.MaxMessageBytes/2)
		}),
	}, s.findings(org, assay.FindingFilter{Dismissed: true}))
	require.Empty(t, s.findings(org, assay.FindingFilter{}))
	counts("|")
	r = must(s.Repository(ctx, org, repo.ID))(t)
	require.Equal(t, "trunk", r.DefaultBranch)
	require.Nil(t, r.Instrumentation)
	require.Empty(t, r.Findings)
	require.NoError(t, s.DismissFinding(ctx, org, repo.ID, back.ID, false, odd))
	require.NoError(t, s.DismissFinding(ctx, org, repo.ID, back.ID, false, odd))
	found := s.findings(org, assay.FindingFilter{})
	require.Equal(t, "1", findingIDs(found))
	require.Empty(t, found[0].DismissedReason)
	counts("critical 1 | Volume 1")
	code(t, assay.CodeNotFound, s.DismissFinding(ctx, org, other.ID, back.ID, true, ""))

	// The same id in another repository is another finding.
	s.review(other, finding(1, "low"))
	require.Equal(t, "1 1", findingIDs(s.findings(org, assay.FindingFilter{})))
	s.review(other)
	require.Equal(t, "1", findingIDs(s.findings(org, assay.FindingFilter{})))
}

// TestFixes follows a fix until its finding comes back.
func (s *suite) TestFixes(t *testing.T) {
	ctx := s.ctx()
	org := s.organization()
	repo, other := s.repository(org), s.repository(org)
	s.review(repo, finding(1, "high"), finding(2, "low"))
	s.review(other, finding(1, "high"))
	fixes := func() string {
		t.Helper()
		var all []string
		for _, f := range s.findings(org, assay.FindingFilter{Status: "all"}) {
			if f.RepositoryID == repo.ID {
				all = append(all, fmt.Sprintf("%s:%s:%d:%s", f.ID[len(f.ID)-1:], f.FixStatus, f.PullRequest, f.PullStatus))
			} else {
				require.Equal(t, assay.CodeFix{}, f.CodeFix)
			}
		}
		return strings.Join(all, " ")
	}

	run := s.started(repo, "replica")
	code(t, assay.CodeNotFound, errOf(s.Patch(ctx, org, run.ID)))
	for _, patch := range []string{"first", odd} {
		require.NoError(t, s.SavePatch(ctx, "replica", run.ID, []byte(patch)))
		require.Equal(t, patch, string(must(s.Patch(ctx, org, run.ID))(t)))
	}
	code(t, assay.CodeInvalid, s.SavePatch(ctx, "replica", run.ID, make([]byte, assay.MaxPatchBytes+1)))
	proposed := assay.CodeFix{FixStatus: assay.FixProposed, PullRequest: 7, PullStatus: assay.PullOpen}
	require.NoError(t, s.SaveFix(ctx, "replica", run.ID, []string{finding(1, "").ID, finding(9, "").ID, "no id"}, proposed))
	require.Equal(t, "1:proposed:7:open 2::0:", fixes())
	require.Equal(t, "1", findingIDs(s.findings(org, assay.FindingFilter{RepositoryID: repo.ID, PullStatus: assay.PullOpen})))
	require.Empty(t, s.findings(org, assay.FindingFilter{RepositoryID: repo.ID, PullStatus: assay.PullClosed}))
	code(t, assay.CodeInvalid, s.SaveFix(ctx, "replica", run.ID, nil, assay.CodeFix{FixStatus: strings.Repeat("x", assay.MaxCodeTextBytes+1)}))
	for _, holder := range []string{"another", ""} {
		require.ErrorIs(t, s.SaveFix(ctx, holder, run.ID, []string{finding(2, "").ID}, proposed), delta.ErrLeaseLost)
		require.ErrorIs(t, s.SavePatch(ctx, holder, run.ID, nil), delta.ErrLeaseLost)
	}
	s.end("replica", run)
	require.ErrorIs(t, s.SavePatch(ctx, "replica", run.ID, nil), delta.ErrLeaseLost)

	s.review(repo, finding(1, "high"), finding(2, "low"))
	require.Equal(t, "1:proposed:7:open 2::0:", fixes(), "a review that reports the finding changes nothing")
	run = s.started(repo, "replica")
	require.NoError(t, s.SaveFix(ctx, "replica", run.ID, []string{finding(1, "").ID}, assay.CodeFix{FixStatus: assay.FixMerged, PullRequest: 7, PullStatus: assay.PullMerged}))
	s.end("replica", run)
	s.review(repo, finding(1, "high"), finding(2, "low"))
	require.Equal(t, "1:merged:7:merged 2::0:", fixes(), "the review may be of a commit before the merge")
	s.review(repo, finding(2, "low"))
	require.Equal(t, "1:merged:7:merged 2::0:", fixes())
	s.review(repo, finding(1, "high"), finding(2, "low"))
	require.Equal(t, "1::0: 2::0:", fixes(), "the finding came back after the merge")

	run = s.started(repo, "replica")
	require.NoError(t, s.SaveFix(ctx, "replica", run.ID, []string{finding(1, "").ID}, assay.CodeFix{FixStatus: assay.FixMerged, PullRequest: 7, PullStatus: assay.PullMerged}))
	s.end("replica", run)
	s.review(repo, finding(2, "low"))
	again := finding(1, "high")
	again.CodeFix = assay.CodeFix{FixStatus: assay.FixRefuted, FixNote: odd, PullRequest: 7, PullStatus: assay.PullMerged}
	s.review(repo, again, finding(2, "low"))
	require.Equal(t, "1:refuted:7:merged 2::0:", fixes(), "telemetry shows that the fix failed")
	require.Equal(t, odd, s.findings(org, assay.FindingFilter{RepositoryID: repo.ID, PullStatus: assay.PullMerged})[0].FixNote)
	s.review(repo, finding(1, "high"), finding(2, "low"))
	require.Equal(t, "1::0: 2::0:", fixes(), "the code has the finding again")
}

func (s *suite) TestFindings(t *testing.T) {
	ctx := s.ctx()
	org := s.organization()
	a, b := s.repository(org), s.repository(org)
	with := func(f *assay.CodeFinding, category string, insights ...string) *assay.CodeFinding {
		f.Category, f.InsightIDs = category, insights
		return f
	}
	old := s.review(a, finding(9, "high"))
	runA := s.review(a, with(finding(1, "low"), "Volume", unknownID), with(finding(2, "critical"), "Governance"), with(finding(3, "medium"), odd, otherInsight, unknownID))
	runB := s.review(b, with(finding(4, "critical"), "Volume", unknownID), with(finding(5, "low"), odd))
	list := func(want string, f assay.FindingFilter) {
		t.Helper()
		require.Equal(t, want, findingIDs(s.findings(org, f)), "%+v", f)
	}
	list("2 4 3 1 5", assay.FindingFilter{})
	list("2 4 9 3 1 5", assay.FindingFilter{Status: "all"})
	list("2 3 1", assay.FindingFilter{RepositoryID: a.ID})
	list("", assay.FindingFilter{RepositoryID: unknownID})
	list("2 3 1", assay.FindingFilter{RunID: runA.ID})
	list("4 5", assay.FindingFilter{RunID: runB.ID, Status: "all", Dismissed: true})
	list("9", assay.FindingFilter{RunID: old.ID, Status: "all"})
	list("", assay.FindingFilter{RunID: old.ID})
	list("", assay.FindingFilter{RunID: unknownID})
	list("1 5", assay.FindingFilter{Severities: []string{"low", "high", "odd\x00"}})
	list("", assay.FindingFilter{Severities: []string{"odd"}})
	list("4 3 1 5", assay.FindingFilter{Categories: []string{"Volume", odd}})
	list("1", assay.FindingFilter{Categories: []string{"Volume", odd}, Severities: []string{"low"}, RepositoryID: a.ID, InsightID: unknownID})
	list("4 3 1", assay.FindingFilter{InsightID: unknownID})
	list("3", assay.FindingFilter{InsightID: otherInsight})
	list("", assay.FindingFilter{InsightID: "\x00"})
	code(t, assay.CodeInvalid, errOf3(s.Findings(ctx, org, assay.FindingFilter{Status: "odd"})))
	code(t, assay.CodeInvalid, errOf3(s.Findings(ctx, org, assay.FindingFilter{Categories: make([]string, 21)})))

	// An insight loses the findings that no longer explain it.
	s.review(a, with(finding(3, "medium"), odd, otherInsight))
	list("4", assay.FindingFilter{InsightID: unknownID})
	list("3", assay.FindingFilter{InsightID: otherInsight})
	list("4 1", assay.FindingFilter{InsightID: unknownID, Status: "all"})

	run := s.started(a, "replica")
	big := `"` + strings.Repeat("x", assay.MaxFindingBytes) + `"`
	for _, change := range []func(*assay.CodeFinding){
		func(f *assay.CodeFinding) { f.ID = "otel-00000000000A" },
		func(f *assay.CodeFinding) { f.ID = "otel-1" },
		func(f *assay.CodeFinding) { f.ID = "otel-+00000000001" },
		func(f *assay.CodeFinding) { f.Severity = "odd" },
		func(f *assay.CodeFinding) { f.Check = big },
		func(f *assay.CodeFinding) { f.Body = json.RawMessage(big) },
		func(f *assay.CodeFinding) { f.Body = nil },
		func(f *assay.CodeFinding) { f.Body = json.RawMessage("{") },
		func(f *assay.CodeFinding) { f.InsightIDs = []string{"odd"} },
	} {
		f := finding(7, "low")
		change(f)
		code(t, assay.CodeInvalid, s.SaveReview(ctx, "replica", run, a, []*assay.CodeFinding{f}))
	}
	code(t, assay.CodeInvalid, s.SaveReview(ctx, "replica", run, &assay.Repository{ID: a.ID, Instrumentation: json.RawMessage(big)}, nil))
	code(t, assay.CodeNotFound, s.SaveReview(ctx, "replica", run, b, nil))
	list("4 3 5", assay.FindingFilter{})
	many := finding(7, "low")
	for n := range assay.MaxFindingInsights + 1 {
		many.InsightIDs = append(many.InsightIDs, fmt.Sprintf("00000000-0000-4000-8000-%012d", n))
	}
	require.NoError(t, s.SaveReview(ctx, "replica", run, a, []*assay.CodeFinding{many}))
	found := s.findings(org, assay.FindingFilter{RepositoryID: a.ID})
	require.Equal(t, many.InsightIDs[:assay.MaxFindingInsights], found[0].InsightIDs)
	s.end("replica", run)
}

// TestManyFindings saves reviews with more findings than a repository keeps.
func (s *suite) TestManyFindings(t *testing.T) {
	org := s.organization()
	repo := s.repository(org)
	list := func(first, n int, severity string) []*assay.CodeFinding {
		var findings []*assay.CodeFinding
		for i := range n {
			findings = append(findings, finding(first+i, severity))
		}
		return findings
	}
	counts := func(active, resolved int) {
		t.Helper()
		for _, c := range []struct {
			status string
			want   int
		}{{"active", active}, {"resolved", resolved}} {
			page, total := must2(s.Findings(s.ctx(), org, assay.FindingFilter{Status: c.status, Offset: c.want - 1}))(t)
			require.Equal(t, c.want, total, c.status)
			require.Len(t, page, min(c.want, 1))
		}
		require.EqualValues(t, active+resolved, s.rows()["code_findings"])
	}
	s.review(repo, append(list(0, assay.MaxFindings, "low"), list(20_000, 10, "critical")...)...)
	counts(assay.MaxFindings, 0)
	page, _ := must2(s.Findings(s.ctx(), org, assay.FindingFilter{Limit: 11}))(t)
	require.Equal(t, "critical low", page[9].Severity+" "+page[10].Severity)
	s.clock.advance(time.Second)
	s.review(repo, list(30_000, 20, "high")...)
	counts(20, assay.MaxFindings)
	s.clock.advance(time.Second)
	s.review(repo, list(40_000, assay.MaxFindings, "high")...)
	counts(assay.MaxFindings, assay.MaxFindings)
	s.clock.advance(time.Second)
	s.review(repo)
	page, total := must2(s.Findings(s.ctx(), org, assay.FindingFilter{Status: "all", Limit: 1}))(t)
	require.Equal(t, assay.MaxFindings, total, "the last resolved stay")
	require.Equal(t, fmt.Sprintf("otel-%012x", 40_000), page[0].ID)

	large := list(60_000, assay.MaxReviewBytes/assay.MaxFindingBytes+1, "low")
	for _, f := range large {
		f.Body = json.RawMessage(`"` + strings.Repeat("x", assay.MaxFindingBytes-2) + `"`)
	}
	large[1].Severity = "high"
	s.review(repo, large...)
	_, total = must2(s.Findings(s.ctx(), org, assay.FindingFilter{Limit: 1}))(t)
	require.Equal(t, len(large)-1, total)
	page, _ = must2(s.Findings(s.ctx(), org, assay.FindingFilter{Limit: 1}))(t)
	require.Equal(t, large[1].ID, page[0].ID)

	linked := list(70_000, assay.MaxReviewInsights/assay.MaxFindingInsights+1, "low")
	for _, f := range linked {
		for n := range assay.MaxFindingInsights {
			f.InsightIDs = append(f.InsightIDs, fmt.Sprintf("00000000-0000-4000-8000-%012d", n))
		}
	}
	linked[len(linked)-1].Severity = "high"
	s.review(repo, linked...)
	require.EqualValues(t, assay.MaxReviewInsights, s.rows()["code_finding_insights"])
	page, total = must2(s.Findings(s.ctx(), org, assay.FindingFilter{InsightID: linked[0].InsightIDs[0], Limit: 1}))(t)
	require.Equal(t, len(linked)-1, total)
	require.Equal(t, linked[len(linked)-1].ID, page[0].ID)
}
