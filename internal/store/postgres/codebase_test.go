// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/store/query"
	"assay/internal/store/storetest"
)

// TestCodebasePlans requires that indexes find runs to claim, due repositories, and pages of
// runs and findings.
func TestCodebasePlans(t *testing.T) {
	s := open(t, Config{})
	ctx := t.Context()
	id := organization(t, s, "a")
	for _, statement := range []string{
		`INSERT INTO organizations (id, name, tier, created_at) SELECT gen_random_uuid(), 'org ' || n, 'free', 1 FROM generate_series(1, 100) AS n`,
		`INSERT INTO installations (id, org, provider, external_id, account, status, created_at, created_by, last_error) SELECT gen_random_uuid(), org, '', '', '', '', 1, '', '' FROM organizations`,
		`INSERT INTO repositories (id, org, installation, full_name, url, default_branch, active, access, attempted_at, created_at, settings)
			SELECT gen_random_uuid(), org, installation, convert_to(n::text, 'UTF8'), '', '', 1, '', n, 1, '{}' FROM installations, generate_series(1, 10) AS n`,
		`INSERT INTO runs (id, org, repo, repository_name, type, status, cause, ref, created_at, started_at)
			SELECT gen_random_uuid(), org, repo, '', 'review', CASE n WHEN 5 THEN 1 WHEN 4 THEN 2 ELSE 3 END, '', '', 1, CASE n WHEN 5 THEN 0 ELSE 1 END FROM repositories, generate_series(1, 5) AS n WHERE n <> 4 OR repo % 20 = 0`,
		`INSERT INTO code_findings (repo, id, org, severity, state, digest, created_at, resolved_at, category, check_name, service, fix_status, fix_note, pull_request, pull_status, body)
			SELECT repo, n, org, 1 + n % 5, CASE n % 10 WHEN 0 THEN 1 ELSE 0 END, '', 1, CASE n % 10 WHEN 0 THEN n ELSE 0 END, 'Volume', '', '', '', '', 0, '', '{}' FROM repositories, generate_series(1, 10) AS n`,
		`INSERT INTO code_finding_insights (insight, repo, id) SELECT gen_random_uuid(), repo, id FROM code_findings WHERE id < 5`,
		`INSERT INTO code_finding_counts (org, repo, state, severity, category, n) SELECT org, repo, state, severity, category, count(*) FROM code_findings GROUP BY 1, 2, 3, 4, 5`,
		`ANALYZE organizations, installations, repositories, runs, code_findings, code_finding_insights, code_finding_counts`,
	} {
		_, err := s.pool.Exec(ctx, statement)
		require.NoError(t, err)
	}
	var total int64
	require.NoError(t, s.pool.QueryRow(ctx, `SELECT count(*) FROM code_findings`).Scan(&total))
	recorder := new(storetest.Recorder)
	queries := query.New(recorder, &dialect)
	findings := func(f assay.FindingFilter) func() error {
		return func() error {
			recorder.Row = [2]int64{total, total}
			_, _, err := queries.Findings(ctx, id, f)
			return err
		}
	}
	for _, c := range []struct {
		what  string
		begin string
		call  func() error
		want  [][]string // of each statement
	}{
		{"claim", beginCommit, func() error {
			_, err := queries.ClaimRun(ctx, "a", time.Second)
			return err
		}, [][]string{nil, {"runs_pending on runs", "runs_running on runs", "runs_started on runs"}}},
		{"due", beginView, func() error {
			_, err := queries.DueRepositories(ctx, time.UnixMicro(3), 10)
			return err
		}, [][]string{{"repositories_due on repositories"}}},
		{
			"expire", beginCommit, func() error { return queries.ExpireCodebase(ctx, time.UnixMicro(2)) },
			[][]string{{"code_findings_resolved on code_findings"}, {"onboarding_states_expired"}, {"runs_by_repo on runs"}},
		},
		{"runs", beginView, func() error {
			_, _, err := queries.Runs(ctx, id, assay.RunFilter{})
			return err
		}, [][]string{{"runs_by_org"}, {"runs_by_org"}}},
		{"findings", beginView, findings(assay.FindingFilter{Limit: 10}), [][]string{{"code_finding_counts_by_org"}, {"code_findings_by_severity"}}},
		{"findings of a repository", beginView, findings(assay.FindingFilter{RepositoryID: id, Limit: 10}), [][]string{{"code_finding_counts"}, {"code_findings"}}},
		{"findings of a run", beginView, findings(assay.FindingFilter{RunID: id, Limit: 10}), [][]string{{"runs_id_key"}, {"runs_id_key"}}},
		{
			"findings of an insight", beginView, findings(assay.FindingFilter{InsightID: id, Limit: 10}),
			[][]string{{"code_finding_insights_pkey", "code_findings_pkey"}, {"code_finding_insights_pkey", "code_findings_pkey"}},
		},
	} {
		recorder.Row, recorder.Statements = [2]int64{}, nil
		require.NoError(t, c.call(), c.what)
		require.Len(t, recorder.Statements, len(c.want), c.what)
		for i, st := range recorder.Statements {
			var lines []string
			require.NoError(t, s.transact(ctx, pages, "explain", c.begin, func(tx pgx.Tx) error {
				rows, err := tx.Query(ctx, `EXPLAIN `+st.SQL, native(st.Args)...)
				if err != nil {
					return err
				}
				lines, err = pgx.CollectRows(rows, pgx.RowTo[string])
				return err
			}))
			plan := strings.Join(lines, "\n")
			for _, want := range c.want[i] {
				require.Contains(t, plan, want, c.what)
			}
			for _, table := range []string{"runs", "code_findings", "code_finding_insights", "code_finding_counts"} {
				require.NotContains(t, plan, "Seq Scan on "+table+" ", "%s", c.what)
			}
		}
	}
}
