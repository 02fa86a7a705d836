// SPDX-License-Identifier: Apache-2.0

package codebase

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"time"

	"assay"
)

// maxFindingsPage limits lists of findings that have no page size of their own.
const maxFindingsPage = 1000

// categories of findings.
var categories = []string{"Sensitive Data", "Volume", "Coverage & Correctness", "Governance"}

// findingData is a finding as its review reported it, with its state.
type findingData struct {
	ID           string   `json:"finding_id"`
	RepositoryID string   `json:"repository_id"`
	FullName     string   `json:"repo_full_name"`
	URL          string   `json:"repo_url"`
	ExecutionID  string   `json:"execution_id"`
	Check        string   `json:"check"`
	Rules        []string `json:"rules"`
	InsightIDs   []string `json:"insight_ids"`
	Severity     string   `json:"severity"`
	Category     string   `json:"category"`
	findingText
	Status      string     `json:"status"`
	Checked     bool       `json:"checked"` // in the issue of a forge, which none has yet
	FixStatus   *string    `json:"fix_status"`
	FixNote     *string    `json:"fix_note"` // an addition
	PullRequest *int       `json:"pr_number"`
	PullStatus  *string    `json:"pr_status"`
	Dismissed   bool       `json:"dismissed"`
	Reason      *string    `json:"dismissed_reason"`
	CreatedAt   *time.Time `json:"created_at"`
	ResolvedAt  *time.Time `json:"resolved_at"`
}

// findingText are fields of a finding that its review determined.
type findingText struct {
	Title        string          `json:"title"`
	DisplayTitle string          `json:"display_title"`
	Summary      string          `json:"summary"`
	Why          string          `json:"why"`
	Fix          string          `json:"fix"`
	Fixable      bool            `json:"fixable"`
	Locations    json.RawMessage `json:"locations"` // the first one with an excerpt, an addition
}

func showFinding(f *assay.CodeFinding, r *assay.Repository) (findingData, error) {
	var b struct {
		Rules []string `json:"rules"`
		findingText
	}
	if err := json.Unmarshal(f.Body, &b); err != nil {
		return findingData{}, fmt.Errorf("decode finding %s: %w", f.ID, err)
	}
	d := findingData{
		ID: f.ID, RepositoryID: f.RepositoryID, ExecutionID: f.RunID, Check: f.Check, Rules: nonNil(b.Rules), InsightIDs: nonNil(f.InsightIDs),
		Severity: f.Severity, Category: f.Category, findingText: b.findingText, Status: "active", FixStatus: some(f.FixStatus), FixNote: some(f.FixNote),
		PullStatus: some(f.PullStatus), Dismissed: f.Dismissed, Reason: some(f.DismissedReason), CreatedAt: moment(f.CreatedAt), ResolvedAt: moment(f.ResolvedAt),
	}
	if len(d.Locations) == 0 {
		d.Locations = json.RawMessage("[]")
	}
	if f.Resolved {
		d.Status = "resolved"
	}
	if f.PullRequest != 0 {
		d.PullRequest = &f.PullRequest
	}
	if r != nil {
		d.FullName, d.URL = r.FullName, r.URL
	}
	return d, nil
}

// nonNil returns items, never nil, so that they are encoded as an array.
func nonNil[T any](items []T) []T {
	if items == nil {
		return []T{}
	}
	return items
}

// findings returns a page of findings with the names of their repositories.
func (c *call) findings(ctx context.Context, f assay.FindingFilter) ([]findingData, int, error) {
	found, total, err := c.cfg.Store.Findings(ctx, c.organization, f)
	if err != nil {
		return nil, 0, err
	}
	fixes, err := c.fixesInProgress(ctx, f.RepositoryID)
	if err != nil {
		return nil, 0, err
	}
	repositories := map[string]*assay.Repository{}
	for _, finding := range found {
		if _, known := repositories[finding.RepositoryID]; known {
			continue
		}
		r, err := c.cfg.Store.Repository(ctx, c.organization, finding.RepositoryID)
		if err != nil && assay.ErrorCode(err) != assay.CodeNotFound { // deleted meanwhile
			return nil, 0, err
		}
		repositories[finding.RepositoryID] = r
	}
	leave, err := c.cfg.CPU.Enter(ctx, c.organization)
	if err != nil {
		return nil, 0, err
	}
	defer leave()
	all := make([]findingData, len(found))
	for i, finding := range found {
		if all[i], err = showFinding(finding, repositories[finding.RepositoryID]); err != nil {
			return nil, 0, err
		}
		if fixes[finding.RepositoryID+finding.ID] {
			all[i].FixStatus = &inProgress
		}
	}
	return all, total, nil
}

// inProgress is the fix status of findings that a run is to fix.
var inProgress = "in_progress"

// fixesInProgress returns the ids of repositories and findings that runs are to fix. An empty repositoryID selects all.
func (c *call) fixesInProgress(ctx context.Context, repositoryID string) (map[string]bool, error) {
	runs, _, err := c.cfg.Store.Runs(ctx, c.organization, assay.RunFilter{
		RepositoryID: repositoryID, Types: []string{assay.RunFix}, Statuses: []string{assay.RunPending, assay.RunRunning}, Limit: assay.MaxCodebasePage,
	})
	if err != nil {
		return nil, err
	}
	all := make(map[string]bool)
	for _, r := range runs {
		var in struct {
			FindingIDs []string `json:"finding_ids"`
		}
		if json.Unmarshal(r.Input, &in) != nil {
			continue
		}
		for _, id := range in.FindingIDs {
			all[r.RepositoryID+id] = true
		}
	}
	return all, nil
}

func listFindings(ctx context.Context, c *call) (any, error) {
	p := c.params()
	f := assay.FindingFilter{Severities: p.list("severity", severities...), Categories: p.list("category", categories...)}
	page := p.integer("page", 1, 1, maxOffset/100)
	f.Limit = p.integer("page_size", 50, 1, 100)
	if err := p.err(); err != nil {
		return nil, err
	}
	f.Offset = (page - 1) * f.Limit
	found, total, err := c.findings(ctx, f)
	return pageOf(found, f.Limit, f.Offset, total), err
}

// listRunFindings lists the findings of a run, dismissed ones included. limit, offset, repositoryId and findingId are
// additions.
func listRunFindings(ctx context.Context, c *call) (any, error) {
	p := c.params()
	f := assay.FindingFilter{
		RunID: p.id("executionId"), RepositoryID: p.id("repositoryId"), FindingID: p.text("findingId"), Status: p.enum("status", "active", "active", "resolved", "all"), Dismissed: true,
		Limit: p.integer("limit", maxFindingsPage, 1, maxFindingsPage), Offset: p.integer("offset", 0, 0, maxOffset),
	}
	if f.FindingID != "" && !findingID.MatchString(f.FindingID) {
		p.details["findingId"] = "must be the id of a finding"
	}
	if err := p.err(); err != nil {
		return nil, err
	}
	found, total, err := c.findings(ctx, f)
	return pageOf(found, f.Limit, f.Offset, total), err
}

type (
	severityCount struct {
		Severity string `json:"severity"`
		Count    int    `json:"count"`
	}
	categoryCount struct {
		Category string `json:"category"`
		Count    int    `json:"count"`
	}
	findingsSummary struct {
		Total      int             `json:"total"`
		BySeverity []severityCount `json:"by_severity"`
		ByCategory []categoryCount `json:"by_category"`
	}
)

// summarizeFindings counts active findings that are not dismissed, zeros included.
func summarizeFindings(ctx context.Context, c *call) (any, error) {
	bySeverity, byCategory, err := c.cfg.Store.CountFindings(ctx, c.organization)
	if err != nil {
		return nil, err
	}
	count := func(all []assay.FacetCount, value string) int {
		for _, f := range all {
			if f.Value == value {
				return f.Count
			}
		}
		return 0
	}
	var s findingsSummary
	for _, name := range severities {
		n := count(bySeverity, name)
		s.Total += n
		s.BySeverity = append(s.BySeverity, severityCount{name, n})
	}
	for _, name := range categories {
		s.ByCategory = append(s.ByCategory, categoryCount{name, count(byCategory, name)})
	}
	return s, nil
}

var findingID = regexp.MustCompile(`^otel-[0-9a-f]{12}$`)

// maxReason limits why a finding is dismissed, in bytes.
const maxReason = 1024

// dismissal is the answer to updateFinding.
type dismissal struct {
	ID           string  `json:"finding_id"`
	RepositoryID string  `json:"repository_id"`
	Dismissed    bool    `json:"dismissed"`
	Reason       *string `json:"dismissed_reason"`
}

// updateFinding dismisses a finding or takes the dismissal back.
func updateFinding(ctx context.Context, c *call) (any, error) {
	var dismissed *bool
	var reason string
	if len(c.body) == 0 {
		return nil, assay.Invalid(map[string]string{"body": "must be a JSON object"})
	}
	if err := c.decode(ctx, fields{"dismissed": &dismissed, "dismissed_reason": &reason}); err != nil {
		return nil, err
	}
	switch {
	case dismissed == nil:
		return nil, unprocessable(map[string]string{"dismissed": "is required"})
	case len(reason) > maxReason:
		return nil, unprocessable(map[string]string{"dismissed_reason": fmt.Sprintf("must have at most %d bytes", maxReason)})
	}
	r, err := c.repository(ctx, c.ids[0])
	if err != nil {
		return nil, err
	}
	if !*dismissed {
		reason = ""
	}
	if !findingID.MatchString(c.ids[1]) {
		return nil, errNoFinding()
	}
	err = c.cfg.Store.DismissFinding(ctx, c.organization, r.ID, c.ids[1], *dismissed, reason)
	if assay.ErrorCode(err) == assay.CodeNotFound {
		err = errNoFinding()
	}
	return dismissal{ID: c.ids[1], RepositoryID: r.ID, Dismissed: *dismissed, Reason: some(reason)}, err
}

func errNoFinding() error {
	return assay.Errorf(assay.CodeNotFound, "there is no finding with this id")
}
