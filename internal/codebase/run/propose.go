// SPDX-License-Identifier: Apache-2.0

package run

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"assay"
	"assay/internal/codebase/propose"
	"assay/internal/codebase/verify"
	"assay/internal/report"
	"assay/internal/review"
	"assay/internal/review/instrument"
	"assay/internal/review/patch"
	"assay/internal/review/worker"
)

// modelResult is the result of the language model in a run.
type modelResult struct {
	Name     string            `json:"name"`
	Usage    propose.Usage     `json:"usage"`
	Attempts []propose.Attempt `json:"attempts"`
	// Patch is the hash of the stored patch with the changes of the attempts; "" if they changed nothing.
	Patch string `json:"patch,omitempty"`
}

// fixed reports whether the model has fixed a finding.
func (m *modelResult) fixed(id string) bool {
	return m != nil && slices.ContainsFunc(m.Attempts, func(a propose.Attempt) bool { return a.Fixed && a.FindingID == id })
}

// maxTargets limits the boundaries that a model instruments in a run. The findings of a fix have the same limit.
const maxTargets = 10

// targets returns the tasks that the mechanical change leaves to the model, in order: findings without a mechanical fix, and
// boundaries that the mechanical instrumentation does not cover. fixed are the ids of the findings that are already fixed.
func (ch *change) targets(fixed []string) (all []*propose.Task) {
	for i := range ch.Findings {
		if id := ch.Findings[i].ID; slices.Contains(ch.FindingIDs, id) && !slices.Contains(fixed, id) {
			all = append(all, &propose.Task{Finding: &ch.Findings[i]})
		}
	}
	for i := range ch.Patch.Steps {
		// The result contains the path. A longer path could make the result too large.
		if s := &ch.Patch.Steps[i]; ch.Kind == instrument.General && s.Boundary != (patch.Boundary{}) && len(s.File) <= maxPhrase && len(all) < maxTargets {
			all = append(all, &propose.Task{Step: s})
		}
	}
	return all
}

// record records the outcome of an attempt in the step of its task.
func record(t *propose.Task, a *propose.Attempt) {
	switch {
	case t.Step == nil || !t.Step.Open:
	case a.Fixed:
		t.Step.Open = false
		t.Step.Text = fmt.Sprintf("Instrument the %s of `%s` as the language model proposed", t.Step.Boundary.SpanKind, t.Step.Boundary.Library)
	default:
		t.Step.Text += ". The language model did not instrument it: " + a.Reason
	}
}

var errModelTime = errors.New("the time limit for the language model has passed")

// propose lets the language model change the code for the remaining tasks. It takes at most half of the timeout of the
// run, so that the change can be verified and published.
func (j *job) propose(ctx context.Context) error {
	p := j.cfg.Proposer
	if p == nil {
		return nil
	}
	targets := j.change.targets(j.result.Fixed)
	if j.run.Type != assay.RunFix && len(targets) == 0 {
		return nil
	}
	root, err := os.OpenRoot(j.files.Dir)
	if err != nil {
		return err
	}
	defer root.Close()
	tree, err := propose.NewTree(ctx, root, j.change.Paths, j.change.Configurations, j.change.Patch.Files)
	if err != nil {
		return err
	}
	m := j.result.Model
	if m == nil {
		m = &modelResult{Name: report.Printable(p.Model.Model(), maxPhrase)}
		j.result.Model = m
	}
	limited, cancel := context.WithTimeoutCause(ctx, j.run.StartedAt.Add(j.cfg.Timeout/2).Sub(j.cfg.Now()), errModelTime)
	defer cancel()
	for _, t := range targets {
		if slices.ContainsFunc(m.Attempts, t.Tried) {
			continue
		}
		if err := j.prepare(ctx, t, tree); err != nil {
			return err
		}
		a, err := p.Propose(limited, t)
		if errors.Is(err, errModelTime) && ctx.Err() == nil {
			a.Reason, a.Final, err = errModelTime.Error(), true, nil
		}
		if err != nil {
			return err
		}
		if a.Err != nil {
			j.cfg.Logger.WarnContext(ctx, "the language model proposed no change", "run", j.run.ID, "model", m.Name, "error", a.Err)
		}
		if a.Fixed {
			j.change = j.proposed
			if t.Step != nil {
				j.reviewed = j.proposedReview
			}
			if err := j.savePatch(ctx); err != nil {
				return err
			}
			m.Patch = sum(j.change.Diff)
		}
		m.Attempts = append(m.Attempts, *a)
		record(t, a)
		j.result.setChange(j.change)
		if err := j.saveModel(ctx, assay.RunEvent{Name: "note", Message: outcomeOf(t, a), Phase: j.run.Phase}); err != nil {
			return err
		}
		if a.Final {
			break
		}
	}
	switch {
	case len(j.change.Patch.Files) > 0:
		return nil
	case j.run.Type == assay.RunFix:
		return assay.Errorf(assay.CodeUnprocessable, "none of these findings has a mechanical fix, and the language model has fixed none%s", firstReason(m.Attempts))
	default:
		return assay.Errorf(assay.CodeUnprocessable, "there is nothing to change mechanically, and the language model has instrumented nothing%s", firstReason(m.Attempts))
	}
}

// outcomeOf returns the outcome of an attempt, for the timeline.
func outcomeOf(t *propose.Task, a *propose.Attempt) string {
	done := "fixed " + a.FindingID
	if t.Step != nil {
		done = "instrumented " + report.Printable(t.Step.File+":"+strconv.Itoa(t.Step.Line), maxPhrase)
	}
	if a.Fixed {
		return "The language model has " + done
	}
	return "The language model has not " + done + ": " + a.Reason
}

func firstReason(attempts []propose.Attempt) string {
	if len(attempts) == 0 {
		return ""
	}
	return ": " + attempts[0].Reason
}

// prepare sets the fields of a task for this run.
func (j *job) prepare(ctx context.Context, task *propose.Task, tree *propose.Tree) error {
	task.Instructions, task.Tree, task.Usage, task.Now = j.repository.Settings.FixInstructions, tree, &j.result.Model.Usage, j.cfg.Now
	var boundary *worker.Boundary
	if task.Step != nil {
		if err := j.needReviewed(ctx); err != nil {
			return err
		}
		boundary = &worker.Boundary{Step: *task.Step}
		boundary.Line, _ = tree.Line(boundary.File, boundary.Line)
		boundary.Before, _ = tree.Read(boundary.File) // otherwise the model cannot change it
	}
	task.Verify = func(ctx context.Context) (string, error) { return j.assess(ctx, task.Finding, boundary, tree) }
	task.Spend = func(ctx context.Context, at time.Time, usage, limit assay.ModelUsage) (bool, error) {
		ok, err := j.cfg.Store.SpendModel(ctx, j.run.OrganizationID, at, usage, limit)
		if err != nil {
			err = storeError{err}
		}
		return ok, err
	}
	task.Report = func(ctx context.Context, events []propose.Event) error {
		all := make([]assay.RunEvent, 0, len(events))
		for _, e := range events {
			payload, err := json.Marshal(e)
			if err != nil {
				return err
			}
			text := "The language model: " + cmp.Or(e.Preview, "no text")
			if e.ToolName != "" {
				text = "Tool " + e.ToolName + ": " + e.Preview
			}
			all = append(all, assay.RunEvent{Name: "agent", Message: text, Phase: j.run.Phase, Payload: payload})
		}
		return j.saveModel(ctx, all...)
	}
	return nil
}

// needReviewed reviews and tests the mechanical instrumentation alone, unless j has the result. The result shows which
// findings, and which failures of tests without the new dependencies, the model does not cause.
func (j *job) needReviewed(ctx context.Context) (err error) {
	if j.reviewed != nil {
		return nil
	}
	if len(j.change.Patch.Files) == 0 {
		j.reviewed, j.testable = j.change.Report, true
		return nil
	}
	after := filepath.Join(j.dir, "after")
	if j.reviewed, j.proved, err = j.prove(ctx, after); err != nil {
		return err
	}
	j.testable = j.proved.Tests.After != nil && j.proved.Tests.After.Passed
	return nil
}

// saveModel saves events together with the result of the model, so that another process can continue the run.
func (j *job) saveModel(ctx context.Context, events ...assay.RunEvent) (err error) {
	if j.run.Result, err = j.result.saved(); err != nil {
		return err
	}
	return j.update(ctx, events...)
}

// assess returns the problem with the change in a tree, or "" if the change fixes the finding or instruments the boundary.
func (j *job) assess(ctx context.Context, finding *review.Finding, boundary *worker.Boundary, tree *propose.Tree) (string, error) {
	files, err := tree.Files()
	if err != nil {
		return "", err
	}
	ch, made := *j.change, *j.change.Response
	ch.Response = &made
	p := *j.change.Patch
	p.Files = files
	if finding != nil {
		p.Fixed = append(slices.Clip(p.Fixed), *finding)
	}
	made.Patch = &p
	var diff bytes.Buffer
	if err := p.Diff(&diff); err != nil {
		return "", err
	}
	if made.Diff = diff.Bytes(); len(made.Diff) > assay.MaxPatchBytes {
		return "the patch is too large", nil
	}
	after := filepath.Join(j.dir, "after")
	if err := j.writeAfter(ctx, after, files); err != nil {
		return "", err
	}
	var paths []string
	for _, f := range files {
		if finding != nil || f.Path == boundary.File { // the mechanical instrumentation checks the other files
			paths = append(paths, f.Path)
		}
	}
	before := ch.Report
	if boundary != nil {
		before = j.reviewed
	}
	got, err := j.cfg.Reviewer.Change(ctx, after, j.repository.Settings, worker.Change{Parse: paths, Boundary: boundary})
	switch {
	case assay.ErrorCode(err) == assay.CodeUnprocessable && ctx.Err() == nil:
		return message(err), nil
	case err != nil:
		return "", err
	case len(got.Broken) > 0:
		return "a changed file does not parse:\n" + strings.Join(got.Broken, "\n"), nil
	case got.Files.Read != before.Files.Read || len(got.Errors) > len(before.Errors):
		return "the review cannot read a file that it could before the change", nil
	case got.Lacks != "":
		return got.Lacks, nil
	}
	if n := compare(before.Findings, p.Fixed, got.Report).Introduced; len(n) > 0 {
		return "the review still has this finding, or has new ones:\n" + strings.Join(n, "\n"), nil
	}
	v := newVerification(compare(ch.Findings, p.Fixed, got.Report))
	if err := j.test(ctx, &ch, after, v); err != nil {
		return "", err
	}
	if v.Status == verify.Rejected {
		problem := v.Reason
		if t := v.Tests.After; t != nil && !t.Passed {
			problem += "\n" + t.Output
		}
		return problem, nil
	}
	j.proposed, j.proposedReview, j.proved = &ch, got.Report, v
	return "", nil
}

// savePatch saves the patch.
func (j *job) savePatch(ctx context.Context) error {
	if err := j.cfg.Store.SavePatch(ctx, j.holder, j.run.ID, j.change.Diff); err != nil {
		return storeError{err}
	}
	return nil
}

// restore applies the changes of the model that another process has stored. If the stored patch does not match, because
// that process crashed between saving the patch and the result, the attempts are repeated.
func (j *job) restore(ctx context.Context, ch *change) error {
	m := j.result.Model
	if m == nil {
		return nil
	}
	if m.Patch != "" {
		if err := j.restorePatch(ctx, ch); err != nil {
			return err
		}
	}
	for _, t := range ch.targets(nil) {
		for i := range m.Attempts {
			if t.Tried(m.Attempts[i]) {
				record(t, &m.Attempts[i])
			}
		}
	}
	return nil
}

func (j *job) restorePatch(ctx context.Context, ch *change) error {
	m := j.result.Model
	diff, err := j.cfg.Store.Patch(ctx, j.run.OrganizationID, j.run.ID)
	if err != nil && assay.ErrorCode(err) != assay.CodeNotFound {
		return storeError{err}
	}
	if sum(diff) != m.Patch {
		m.Attempts, m.Patch = nil, ""
		return nil
	}
	root, err := os.OpenRoot(j.files.Dir)
	if err != nil {
		return err
	}
	defer root.Close()
	restored, err := patch.Restore(root, diff)
	if err != nil {
		return assay.Errorf(assay.CodeUnprocessable, "the files have changed since the language model read them: %w", err)
	}
	ch.Patch.Files, ch.Diff = restored.Files, diff
	for _, f := range ch.Findings {
		if m.fixed(f.ID) {
			ch.Patch.Fixed = append(ch.Patch.Fixed, f)
		}
	}
	return nil
}

func sum(diff []byte) string {
	h := sha256.Sum256(diff)
	return hex.EncodeToString(h[:8])
}

// describeModel lists the changes that a language model proposed.
func describeModel(b *strings.Builder, ch *change, r *changeResult) {
	if r.Model == nil || r.Model.Patch == "" {
		return
	}
	fmt.Fprintf(b, "\nA language model (%s) proposed the changes at these places. The review and the tests accept them; read them as code of a stranger.\n\n", report.MarkdownCode(r.Model.Name))
	for _, f := range ch.Patch.Fixed {
		if r.Model.fixed(f.ID) {
			fmt.Fprintf(b, "- `%s` in %s\n", f.Check, report.MarkdownCode(report.Printable(f.Locations[0].File, maxPhrase)))
		}
	}
	for _, a := range r.Model.Attempts {
		if a.Fixed && a.File != "" {
			fmt.Fprintf(b, "- %s\n", report.MarkdownCode(report.Printable(a.File+":"+strconv.Itoa(a.Line), maxPhrase)))
		}
	}
}
