// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/store/query"
	"assay/internal/store/storetest"
)

// TestCodebasePlans requires that indexes find runs to claim, due repositories, and pages of
// runs and findings.
func TestCodebasePlans(t *testing.T) {
	s := open(t, Config{})
	const id = "00000000-0000-4000-8000-000000000000"
	ctx := t.Context()
	recorder := new(storetest.Recorder)
	queries := query.New(recorder, &dialect)
	findings := func(f assay.FindingFilter) func() error {
		return func() error {
			recorder.Row = [2]int64{1000, 1000}
			_, _, err := queries.Findings(ctx, id, f)
			return err
		}
	}
	for _, c := range []struct {
		what string
		call func() error
		want [][]string // of each statement
	}{
		{"claim", func() error {
			_, err := queries.ClaimRun(ctx, "a", time.Second)
			return err
		}, [][]string{{"runs_pending", "runs_pending (org>?)", "runs_pending (org=?)", "runs_running (repo=?)", "SCAN r USING INDEX runs_running", "SEARCH o USING INDEX runs_started (org=?)"}}},
		{"due", func() error {
			_, err := queries.DueRepositories(ctx, time.Unix(1, 0), 10)
			return err
		}, [][]string{{"repositories_due (attempted_at<?)"}}},
		{"expire", func() error { return queries.ExpireCodebase(ctx, time.Unix(1, 0)) }, [][]string{{"code_findings_resolved (resolved_at>? AND resolved_at<?)"}, {"onboarding_states_expired (expires_at<?)"}, {"runs_by_repo (repo>?)"}}},
		{"connected installations", func() error {
			_, err := queries.ConnectedInstallations(ctx, "github", "42")
			return err
		}, [][]string{{"installations_by_external_id (provider=? AND external_id=?)"}}},
		{"connected repositories", func() error {
			_, err := queries.ConnectedRepositories(ctx, "github", "acme/shop")
			return err
		}, [][]string{{"repositories_active_by_name (full_name=?)"}}},
		{"runs", func() error {
			_, _, err := queries.Runs(ctx, id, assay.RunFilter{})
			return err
		}, [][]string{{"COVERING INDEX runs_by_org (org=?)"}, {"COVERING INDEX runs_by_org (org=?)"}}},
		{"findings", findings(assay.FindingFilter{}), [][]string{{"code_finding_counts_by_org (org=?)"}, {"COVERING INDEX code_findings_by_severity (org=?)"}}},
		{
			"findings of a repository", findings(assay.FindingFilter{RepositoryID: id}),
			[][]string{{"code_finding_counts_by_org (org=? AND repo=?"}, {"COVERING INDEX code_findings_by_severity (org=? AND severity=? AND repo=?)"}},
		},
		{
			"findings of a run", findings(assay.FindingFilter{RunID: id}),
			[][]string{{"code_findings_by_severity (org=? AND severity=? AND repo=?)"}, {"code_findings_by_severity (org=? AND severity=? AND repo=?)"}},
		},
		{
			"findings of an insight", findings(assay.FindingFilter{InsightID: id}),
			[][]string{{"n USING PRIMARY KEY (insight=?)", "f USING INDEX sqlite_autoindex_code_findings_1 (repo=? AND id=?)"}, {"n USING PRIMARY KEY (insight=?)"}},
		},
	} {
		recorder.Row, recorder.Statements = [2]int64{}, nil
		require.NoError(t, c.call(), c.what)
		require.Len(t, recorder.Statements, len(c.want), c.what)
		for i, st := range recorder.Statements {
			plan := explain(t, s, st.SQL, native(st.Args)...)
			for _, want := range c.want[i] {
				require.Contains(t, plan, want, c.what)
			}
			require.NotRegexp(t, regexp.MustCompile(`(?m)^SCAN (r|f|n|runs|repositories)$`), plan, c.what)
		}
	}
}
