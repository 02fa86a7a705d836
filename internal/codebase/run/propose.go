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
	"strings"
	"time"

	"assay"
	"assay/internal/codebase/propose"
	"assay/internal/codebase/verify"
	"assay/internal/report"
	"assay/internal/review"
	"assay/internal/review/patch"
	"assay/internal/review/worker"
)

// modelResult is what a language model did in a run.
type modelResult struct {
	Name     string            `json:"name"`
	Usage    propose.Usage     `json:"usage"`
	Attempts []propose.Attempt `json:"attempts"`
	// Patch is the hash of the stored patch with the changes of the attempts, "" if they change nothing.
	Patch string `json:"patch,omitempty"`
}

// fixed reports whether the model has fixed a finding.
func (m *modelResult) fixed(id string) bool {
	return m != nil && slices.ContainsFunc(m.Attempts, func(a propose.Attempt) bool { return a.Fixed && a.FindingID == id })
}

var errModelTime = errors.New("the time for the language model is over")

// propose has the language model change the code for findings that the mechanical fixes leave. At most half of the run's
// time is for this, so that the change can be verified and published.
func (j *job) propose(ctx context.Context) error {
	p := j.cfg.Proposer
	if p == nil || j.run.Type != assay.RunFix {
		return nil
	}
	root, err := os.OpenRoot(j.files.Dir)
	if err != nil {
		return err
	}
	defer root.Close()
	tree := propose.NewTree(root, j.change.Paths, j.change.Patch.Files)
	m := j.result.Model
	if m == nil {
		m = &modelResult{Name: report.Printable(p.Model.Model(), maxPhrase)}
		j.result.Model = m
	}
	limited, cancel := context.WithTimeoutCause(ctx, j.run.StartedAt.Add(j.cfg.Timeout/2).Sub(j.cfg.Now()), errModelTime)
	defer cancel()
	for _, f := range j.change.Findings {
		if !slices.Contains(j.result.Left, f.ID) || slices.ContainsFunc(m.Attempts, func(a propose.Attempt) bool { return a.FindingID == f.ID }) {
			continue
		}
		a, err := p.Propose(limited, j.task(&f, tree))
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
			if err := j.savePatch(ctx); err != nil {
				return err
			}
			m.Patch = sum(j.change.Diff)
		}
		m.Attempts = append(m.Attempts, *a)
		j.result.of(j.change)
		text := "The language model has fixed " + f.ID
		if !a.Fixed {
			text = "The language model has not fixed " + f.ID + ": " + a.Reason
		}
		if err := j.saveModel(ctx, assay.RunEvent{Name: "note", Message: text, Phase: j.run.Phase}); err != nil {
			return err
		}
		if a.Final {
			break
		}
	}
	if len(j.change.Patch.Fixed) == 0 {
		return assay.Errorf(assay.CodeUnprocessable, "none of these findings has a mechanical fix, and the language model has fixed none%s", firstReason(m.Attempts))
	}
	return nil
}

func firstReason(attempts []propose.Attempt) string {
	if len(attempts) == 0 {
		return ""
	}
	return ": " + attempts[0].Reason
}

// task returns the task to fix a finding.
func (j *job) task(f *review.Finding, tree *propose.Tree) *propose.Task {
	return &propose.Task{
		Finding: *f, Instructions: j.repository.Settings.FixInstructions, Tree: tree, Usage: &j.result.Model.Usage,
		Verify: func(ctx context.Context) (string, error) { return j.assess(ctx, f, tree) },
		Spend: func(ctx context.Context, at time.Time, usage, limit assay.ModelUsage) (bool, error) {
			ok, err := j.cfg.Store.SpendModel(ctx, j.run.OrganizationID, at, usage, limit)
			if err != nil {
				err = storeError{err}
			}
			return ok, err
		},
		Now: j.cfg.Now,
		Step: func(ctx context.Context, events []propose.Event) error {
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
		},
	}
}

// saveModel saves events together with what the model has used, for the process that continues the run.
func (j *job) saveModel(ctx context.Context, events ...assay.RunEvent) (err error) {
	if j.run.Result, err = j.result.saved(); err != nil {
		return err
	}
	return j.update(ctx, events...)
}

// assess returns what is wrong with the change in a tree, or "" if it fixes the finding and may stay.
func (j *job) assess(ctx context.Context, f *review.Finding, tree *propose.Tree) (string, error) {
	files, err := tree.Files()
	if err != nil {
		return "", err
	}
	ch, made := *j.change, *j.change.Response
	ch.Response = &made
	p := *j.change.Patch
	p.Files, p.Fixed = files, append(slices.Clip(p.Fixed), *f)
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
	paths := make([]string, len(files))
	for i, f := range files {
		paths[i] = f.Path
	}
	got, err := j.cfg.Reviewer.Change(ctx, after, j.repository.Settings, worker.Change{Parse: paths})
	switch before := ch.Report; {
	case assay.ErrorCode(err) == assay.CodeUnprocessable && ctx.Err() == nil:
		return message(err), nil
	case err != nil:
		return "", err
	case len(got.Broken) > 0:
		return "a changed file does not parse:\n" + strings.Join(got.Broken, "\n"), nil
	case got.Files.Read != before.Files.Read || len(got.Errors) > len(before.Errors):
		return "the review cannot read a file that it could before the change", nil
	}
	v := newVerification(compare(&ch, got.Report))
	if len(v.Review.Introduced) > 0 {
		return "the review still has this finding, or has new ones:\n" + strings.Join(v.Review.Introduced, "\n"), nil
	}
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
	j.proposed, j.proved = &ch, v
	return "", nil
}

// savePatch saves the patch.
func (j *job) savePatch(ctx context.Context) error {
	if err := j.cfg.Store.SavePatch(ctx, j.cfg.Holder, j.run.ID, j.change.Diff); err != nil {
		return storeError{err}
	}
	return nil
}

// restore adds the changes to which the model led in another process. If the stored patch is another one, because that
// process died between saving the patch and the result, the attempts are repeated.
func (j *job) restore(ctx context.Context, ch *change) error {
	m := j.result.Model
	if m == nil || m.Patch == "" {
		return nil
	}
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

// describeModel says which changes a language model proposed.
func describeModel(b *strings.Builder, ch *change, r *changeResult) {
	if r.Model == nil || r.Model.Patch == "" {
		return
	}
	fmt.Fprintf(b, "\nA language model (%s) proposed the changes for these findings. The review and the tests accept them; read them as code of a stranger.\n\n", report.MarkdownCode(r.Model.Name))
	for _, f := range ch.Patch.Fixed {
		if r.Model.fixed(f.ID) {
			fmt.Fprintf(b, "- `%s` in %s\n", f.Check, report.MarkdownCode(report.Printable(f.Locations[0].File, maxPhrase)))
		}
	}
}
