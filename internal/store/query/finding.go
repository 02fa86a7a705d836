// SPDX-License-Identifier: Apache-2.0

package query

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"assay"
	"assay/internal/store/connpool"
	"assay/internal/store/paging"
)

// severities are the severities of findings. The stored form of the first is 1.
var severities = []string{"critical", "high", "medium", "low", "suggestion"}

func severityNumber(s string) int64 { return int64(slices.Index(severities, s) + 1) }

func severityOf(n int64) string {
	if n < 1 || n > int64(len(severities)) {
		return ""
	}
	return severities[n-1]
}

// States of findings, a set.
const (
	findingResolved  int64 = 1
	findingDismissed int64 = 2
)

// findingPrefix and findingDigits are the parts of a finding's id.
const (
	findingPrefix = "otel-"
	findingDigits = 12
)

// findingNumber returns the stored form of a finding's id.
func findingNumber(id string) (int64, bool) {
	digits, ok := strings.CutPrefix(id, findingPrefix)
	if !ok || len(digits) != findingDigits || strings.ContainsFunc(digits, func(c rune) bool { return !strings.ContainsRune("0123456789abcdef", c) }) {
		return 0, false
	}
	n, err := strconv.ParseInt(digits, 16, 64)
	return n, err == nil
}

func findingID(n int64) string { return fmt.Sprintf("%s%0*x", findingPrefix, findingDigits, n) }

const (
	findingRun    = `coalesce(f.run_id, r.reviewed_run)`
	selectFinding = `
SELECT f.id, o.id, r.id, ` + findingRun + `, f.check_name, f.severity, f.category, f.service, f.insights, f.body, f.state, f.dismissed_reason,
	f.created_at, f.resolved_at, f.fix_status, f.fix_note, f.pull_request, f.pull_status
FROM `
	joinFinding = ` JOIN repositories r ON r.repo = f.repo JOIN organizations o ON o.org = f.org`
)

func scanFinding(row Row) (*assay.CodeFinding, error) {
	var (
		f                   = new(assay.CodeFinding)
		id, severity, state int64
		insights, body      []byte
	)
	if err := row.Scan(&id, (*ID)(&f.OrganizationID), (*ID)(&f.RepositoryID), (*ID)(&f.RunID), (*Text)(&f.Check), &severity, (*Text)(&f.Category),
		(*Text)(&f.Service), &insights, &body, &state, (*Text)(&f.DismissedReason), (*Time)(&f.CreatedAt), (*Time)(&f.ResolvedAt),
		(*Text)(&f.FixStatus), (*Text)(&f.FixNote), &f.PullRequest, (*Text)(&f.PullStatus)); err != nil {
		return nil, err
	}
	f.ID, f.Severity, f.Body = findingID(id), severityOf(severity), body
	f.Resolved, f.Dismissed = state&findingResolved != 0, state&findingDismissed != 0
	if insights != nil {
		return f, json.Unmarshal(insights, &f.InsightIDs)
	}
	return f, nil
}

// findingFilter is a filter as SQL. The conditions are on code_findings f or, if counted,
// on code_finding_counts f as well. The first argument is the organization.
type findingFilter struct {
	conditions
	counted bool
	from    string // tables
}

// filterFindings converts a filter. Unknown values match no finding.
func filterFindings(organizationID string, f *assay.FindingFilter) (*findingFilter, error) {
	c := &findingFilter{conditions: conditions{args: []any{ID(organizationID)}}, counted: true, from: `code_findings f`}
	c.and(`f.org = (SELECT org FROM organizations WHERE id = $1)`)
	var states []any
	switch f.Status {
	case "", "active":
		states = []any{int64(0)}
	case "resolved":
		states = []any{findingResolved}
	case "all":
		states = []any{int64(0), findingResolved}
	default:
		return nil, assay.Errorf(assay.CodeInvalid, "unknown status of findings %q", f.Status)
	}
	if f.Dismissed {
		for _, st := range states {
			states = append(states, st.(int64)|findingDismissed)
		}
	}
	c.in(`f.state`, states)
	severity := f.Severities
	if len(severity) == 0 && (f.RepositoryID != "" || f.RunID != "") {
		severity = severities // so that the index finds the findings of a repository
	}
	numbers, err := filterValues(severity, func(s string) any { return severityNumber(s) })
	if err != nil {
		return nil, err
	}
	c.in(`f.severity`, numbers)
	categories, err := filterValues(f.Categories, textValue)
	if err != nil {
		return nil, err
	}
	c.in(`f.category`, categories)
	if f.RepositoryID != "" {
		c.and(`f.repo = (SELECT repo FROM repositories WHERE id = ` + c.param(ID(f.RepositoryID)) + `)`)
	}
	if f.RunID != "" {
		c.counted = false
		run := c.param(ID(f.RunID))
		c.and(`f.repo = (SELECT repo FROM runs WHERE id = ` + run + `) AND coalesce(f.run_id, (SELECT reviewed_run FROM repositories r WHERE r.repo = f.repo)) = ` + run)
	}
	if f.InsightID != "" {
		c.counted, c.from = false, `code_finding_insights n CROSS JOIN code_findings f`
		c.and(`n.insight = ` + c.param(ID(f.InsightID)) + ` AND f.repo = n.repo AND f.id = n.id`)
	}
	if f.FindingID != "" {
		c.counted = false
		id, ok := findingNumber(f.FindingID)
		if !ok {
			return nil, errNoFinding()
		}
		c.and(`f.id = ` + c.param(id))
	}
	if f.PullStatus != "" {
		c.counted = false
		c.and(`f.pull_status = ` + c.param(Text(f.PullStatus)))
	}
	return c, nil
}

// findingOrder orders pages.
func findingOrder(reversed bool) string {
	return orderBy([]term{{sql: `f.severity`}, {sql: `f.repo`}, {sql: `f.id`}}, reversed)
}

// Findings implements assay.CodebaseStore.
func (q *Queries) Findings(ctx context.Context, organizationID string, f assay.FindingFilter) (page []*assay.CodeFinding, total int, err error) {
	c, err := filterFindings(organizationID, &f)
	if err != nil {
		return nil, 0, err
	}
	where := c.where()
	err = q.engine.View(ctx, connpool.Pages, "list findings",
		func(b *Batch) {
			page, total = nil, 0
			count := `SELECT count(*) FROM ` + c.from
			if c.counted {
				count = `SELECT CAST(coalesce(sum(f.n), 0) AS bigint) FROM code_finding_counts f`
			}
			b.Query(func(r Row) error { return r.Scan(&total) }, count+where, c.args...)
		},
		func(b *Batch) {
			part := paging.PartOf(codebasePage(f.Limit, f.Offset), total)
			if part.Limit == 0 {
				return
			}
			limited := conditions{args: slices.Clone(c.args)}
			keys := `SELECT f.repo, f.id FROM ` + c.from + where + findingOrder(part.Reversed) + limited.pageOf(part)
			b.Query(collect(&page, scanFinding), selectFinding+`(`+keys+`) AS p JOIN code_findings f ON f.repo = p.repo AND f.id = p.id`+joinFinding+findingOrder(false), limited.args...)
		})
	return pair(page, total, err)
}

// CountFindings implements assay.CodebaseStore.
func (q *Queries) CountFindings(ctx context.Context, organizationID string) (severityCounts, categories []assay.FacetCount, err error) {
	const counts = `CAST(sum(n) AS bigint) FROM code_finding_counts WHERE org = (SELECT org FROM organizations WHERE id = $1) AND state = 0 GROUP BY `
	err = q.engine.View(ctx, connpool.Pages, "count findings", func(b *Batch) {
		severityCounts, categories = nil, nil
		b.Query(collect(&severityCounts, func(r Row) (f assay.FacetCount, err error) {
			var n int64
			err = r.Scan(&n, &f.Count)
			f.Value = severityOf(n)
			return f, err
		}), `SELECT severity, `+counts+`severity ORDER BY severity`, ID(organizationID))
		b.Query(collect(&categories, func(r Row) (f assay.FacetCount, err error) {
			return f, r.Scan((*Text)(&f.Value), &f.Count)
		}), `SELECT category, `+counts+`category ORDER BY category`, ID(organizationID))
	})
	return pair(severityCounts, categories, err)
}

// countFindings counts the findings of a repository again.
func countFindings(b *Batch, org, repo int64) {
	b.Exec(`DELETE FROM code_finding_counts WHERE repo = $1`, repo)
	b.Exec(`INSERT INTO code_finding_counts (org, repo, state, severity, category, n)
		SELECT f.org, f.repo, f.state, f.severity, f.category, count(*) FROM code_findings f
		WHERE f.org = $1 AND f.severity IN (1, 2, 3, 4, 5) AND f.repo = $2 GROUP BY f.org, f.repo, f.state, f.severity, f.category`, org, repo)
}

// DismissFinding implements assay.CodebaseStore.
func (q *Queries) DismissFinding(ctx context.Context, organizationID, repositoryID, findingID string, dismissed bool, reason string) error {
	id, ok := findingNumber(findingID)
	if !ok {
		return errNoFinding()
	}
	set, text := int64(0), Text("")
	if dismissed {
		set, text = findingDismissed, message(reason)
	}
	return q.engine.Update(ctx, connpool.Pages, "dismiss a finding", func(tx Tx) error {
		var org, repo int64
		if err := need(ctx, tx, errNoRepository, []any{&org, &repo},
			`SELECT r.org, r.repo FROM repositories r WHERE r.id = $1 AND r.org = (SELECT org FROM organizations WHERE id = $2)`+q.sql.LockRows,
			ID(repositoryID), ID(organizationID)); err != nil {
			return err
		}
		if err := change(ctx, tx, errNoFinding, `UPDATE code_findings SET state = state & 1 | $1, dismissed_reason = $2 WHERE repo = $3 AND id = $4`, set, text, repo, id); err != nil {
			return err
		}
		b := new(Batch)
		countFindings(b, org, repo)
		return tx.Send(ctx, b)
	})
}
