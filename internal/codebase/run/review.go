// SPDX-License-Identifier: Apache-2.0

package run

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"assay"
	"assay/internal/codebase/source"
	"assay/internal/review"
	"assay/internal/review/check"
)

// job is a run in progress.
type job struct {
	*Worker
	run          *assay.Run
	holder       string // holder of its lease
	repository   *assay.Repository
	installation *assay.Installation
	dir          string   // for the clone
	savedNotes   []string // notes that another process has saved for the current phase

	// Results of earlier phases. They are computed again if another process began the run.
	files     *source.Checkout
	report    *review.Report
	findings  []*assay.CodeFinding
	telemetry *telemetry
	change    *change

	result         *changeResult  // for a run that changes code
	reviewed       *review.Report // review of the code with the instrumentation and the changes of the model
	testable       bool           // the tests of that code pass, so its dependencies are installed
	proposed       *change        // change with the last verified change of the language model
	proposedReview *review.Report // review of the proposed change
	proved         *verification  // verification of the change
}

// step executes a phase and returns a note for the timeline, or "".
func (j *job) step(ctx context.Context, key string) (note string, err error) {
	if j.run.Type == assay.RunReview {
		return j.stepReview(ctx, key)
	}
	if note, err = j.stepChange(ctx, key); err != nil {
		return "", err
	}
	j.run.Result, err = j.result.saved()
	return note, err
}

// stepReview executes a phase of a review.
func (j *job) stepReview(ctx context.Context, key string) (note string, err error) {
	switch key {
	case "checkout":
		return j.checkout(ctx)
	case "scan":
		if err := j.needReport(ctx); err != nil {
			return "", err
		}
		note := fmt.Sprintf("Read %d files, parsed %d, skipped %d: %d findings", j.report.Files.Read, j.report.Files.Parsed, j.report.Files.Skipped, len(j.report.Findings))
		if n := len(j.report.Errors); n > 0 {
			note += fmt.Sprintf("; the report is partial: %s", j.report.Errors[0].Message)
			if n > 1 {
				note += fmt.Sprintf(" (and %d more)", n-1)
			}
		}
		return note, nil
	case "correlate":
		if err := j.needFindings(ctx); err != nil {
			return "", err
		}
		linked := 0
		for _, f := range j.findings {
			if len(f.InsightIDs) > 0 {
				linked++
			}
		}
		return fmt.Sprintf("Open insights confirm %d of %d findings", linked, len(j.findings)), nil
	default:
		return "", j.save(ctx)
	}
}

// checkout executes the first phase of a run.
func (j *job) checkout(ctx context.Context) (note string, err error) {
	if err := j.needFiles(ctx); err != nil {
		return "", err
	}
	return "Commit " + cmp.Or(j.files.Commit, "none: the directory is no git repository"), nil
}

// needFiles checks the commit out, unless j has the files.
func (j *job) needFiles(ctx context.Context) error {
	if j.files != nil {
		return nil
	}
	dir := filepath.Join(j.dir, "source")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	files, err := j.cfg.Sources.Checkout(ctx, j.installation, j.repository, source.Want{Ref: j.run.Ref, Commit: j.run.Commit}, dir)
	j.saveSourceState(ctx, err)
	if err != nil {
		return err
	}
	j.files, j.run.Commit = files, files.Commit
	return nil
}

// saveSourceState stores the last error of a source, or that it has none, at its installation.
func (j *job) saveSourceState(ctx context.Context, err error) {
	if j.installation.Status == assay.InstallationSuspended {
		return // a webhook reports the end of the suspension
	}
	text, status := "", assay.InstallationActive
	if err != nil {
		if ctx.Err() != nil {
			return
		}
		text, status = message(err), assay.InstallationFailed
	}
	if j.installation.LastError == text && j.installation.Status == status {
		return
	}
	failure := j.cfg.Store.SetInstallationState(ctx, j.run.OrganizationID, j.installation.ID, status, text)
	if failure != nil && ctx.Err() == nil {
		j.cfg.Logger.WarnContext(ctx, "failed to save the state of an installation", "installation", j.installation.ID, "error", failure)
	}
}

// needReport reviews the files, unless j has the report.
func (j *job) needReport(ctx context.Context) error {
	if j.report != nil {
		return nil
	}
	if err := j.needFiles(ctx); err != nil {
		return err
	}
	report, err := j.cfg.Reviewer.Review(ctx, j.files.Dir, j.repository.Settings)
	if err != nil {
		return err
	}
	j.report = report
	return nil
}

// needFindings joins the report to telemetry, unless j has the findings.
func (j *job) needFindings(ctx context.Context) error {
	if j.findings != nil {
		return nil
	}
	if err := j.needReport(ctx); err != nil {
		return err
	}
	t, err := readTelemetry(ctx, j.cfg.Telemetry, j.run.OrganizationID)
	if err != nil {
		return storeError{err}
	}
	j.telemetry = t
	c := t.newCorrelation(len(j.report.Findings), t.servicesOf(j.repository, j.report.Instrumentation.Services)...)
	findings := make([]*assay.CodeFinding, 0, len(j.report.Findings))
	for i := range j.report.Findings {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		f := &j.report.Findings[i]
		joined, err := c.correlate(ctx, f)
		if err != nil {
			return err
		}
		text, err := body(f, joined.note)
		if err != nil {
			return err
		}
		findings = append(findings, &assay.CodeFinding{
			ID: f.ID, OrganizationID: j.run.OrganizationID, RepositoryID: j.repository.ID, RunID: j.run.ID, Check: f.Check,
			Severity: string(joined.severity), Category: f.Category, Service: joined.service, InsightIDs: joined.insights, Body: text,
		})
	}
	j.findings = findings
	return nil
}

// place is a location of a finding. The first one includes its code.
type place struct {
	review.Location
	Excerpt *excerpt `json:"excerpt,omitempty"`
}

// excerpt is the code at a location. The bytes from Mark to MarkEnd of its first line are to be highlighted.
type excerpt struct {
	Start   int      `json:"start_line"`
	Lines   []string `json:"lines"`
	Mark    int      `json:"mark"`
	MarkEnd int      `json:"mark_end"`
}

// body returns the stored form of a finding. note is appended to its summary.
func body(f *review.Finding, note string) (json.RawMessage, error) {
	b := struct {
		Rules        []string    `json:"rules"`
		Title        string      `json:"title"`
		DisplayTitle string      `json:"display_title"`
		Summary      string      `json:"summary"`
		Why          string      `json:"why"`
		Fix          string      `json:"fix"`
		Fixable      bool        `json:"fixable"`
		Locations    []place     `json:"locations"`
		Names        check.Names `json:"names"`
	}{Rules: f.Rules, Title: f.Title, DisplayTitle: f.DisplayTitle, Summary: f.Summary, Why: f.Why, Fix: f.Fix, Fixable: f.Fixable}
	if note != "" {
		b.Summary += " " + note
	}
	for _, l := range f.Locations {
		b.Locations = append(b.Locations, place{Location: l})
	}
	if f.Detail != nil {
		b.Names = f.Detail.Names
		if len(b.Locations) > 0 && f.Detail.Code != "" {
			b.Locations[0].Excerpt = &excerpt{b.Locations[0].Line, []string{f.Detail.Code}, f.Detail.Mark, f.Detail.MarkEnd}
		}
	}
	text, err := json.Marshal(b)
	if err == nil && len(text) > assay.MaxFindingBytes {
		err = errors.New("a finding of the review is too large")
	}
	return text, err
}

// save saves the result of the run, and its findings if the run is for the default branch.
func (j *job) save(ctx context.Context) error {
	if err := j.needFindings(ctx); err != nil {
		return err
	}
	onDefault := j.run.Ref == "" || j.run.Ref == j.files.DefaultBranch
	findings := j.findings
	if onDefault {
		missed, err := j.missed(ctx)
		if err != nil {
			return err
		}
		findings = slices.Concat(findings, missed)
		refuted, err := j.judgeFixes(ctx, findings)
		if err != nil {
			return err
		}
		findings = append(findings, refuted...)
	}
	instrumentation, err := json.Marshal(j.report.Instrumentation)
	if err != nil {
		return err
	}
	result := struct {
		FindingCount   int     `json:"finding_count"`
		Branch         *string `json:"branch"`
		Commit         *string `json:"commit_sha"`
		PullRequestURL *string `json:"pull_request_url"`
		PatchURL       *string `json:"patch_url"`
		Verification   *string `json:"verification"`
	}{FindingCount: len(findings)}
	if branch := cmp.Or(j.run.Ref, j.files.DefaultBranch); branch != "" {
		result.Branch = &branch
	}
	if j.run.Commit != "" {
		result.Commit = &j.run.Commit
	}
	text, err := json.Marshal(result)
	if err != nil {
		return err
	}
	j.run.Result = text
	if !onDefault {
		return nil // stored findings belong to the default branch
	}
	if err := j.follow(ctx); err != nil {
		return err
	}
	repo := *j.repository
	repo.DefaultBranch, repo.Access, repo.ReviewedCommit, repo.Instrumentation = j.files.DefaultBranch, "granted", j.run.Commit, instrumentation
	if err := j.cfg.Store.SaveReview(ctx, j.holder, j.run, &repo, findings); err != nil {
		return storeError{err}
	}
	return nil
}

// missed returns the active findings whose file or check a partial report does not cover. The code may still have them.
func (j *job) missed(ctx context.Context) (missed []*assay.CodeFinding, err error) {
	if len(j.report.Errors) == 0 {
		return nil, nil
	}
	reported := make(map[string]bool, len(j.findings))
	for _, f := range j.findings {
		reported[f.ID] = true
	}
	for offset, total := 0, 1; offset < total; offset += assay.MaxCodebasePage {
		var page []*assay.CodeFinding
		page, total, err = j.cfg.Store.Findings(ctx, j.run.OrganizationID, assay.FindingFilter{
			RepositoryID: j.repository.ID, Dismissed: true, Limit: assay.MaxCodebasePage, Offset: offset,
		})
		if err != nil {
			return nil, storeError{err}
		}
		for _, f := range page {
			var body struct {
				Locations []review.Location `json:"locations"`
			}
			if reported[f.ID] || slices.Contains(j.repository.Settings.DisabledChecks, f.Check) || json.Unmarshal(f.Body, &body) != nil || len(body.Locations) == 0 {
				continue
			}
			if !j.report.Covers(body.Locations[0].File, f.Check) {
				missed = append(missed, f)
			}
		}
	}
	return missed, nil
}
