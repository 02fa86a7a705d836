// SPDX-License-Identifier: Apache-2.0

package run

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"assay"
	"assay/internal/codebase/source"
	"assay/internal/codebase/verify"
	"assay/internal/lists"
	"assay/internal/report"
	"assay/internal/review"
	"assay/internal/review/instrument"
	"assay/internal/review/patch"
	"assay/internal/review/worker"
)

// Verifier compares a repository before and after a change. It is safe for concurrent use.
type Verifier interface {
	Verify(ctx context.Context, o verify.Options) (*verify.Result, error)
}

// change is the change that a run makes to the code.
type change struct {
	changeInput
	*worker.Response
	missing []string // ids of requested findings that the code no longer has
}

// changeResult is the result of a run that changes code, as callers see it.
type changeResult struct {
	FindingCount   int           `json:"finding_count"` // findings that the change fixes
	Branch         *string       `json:"branch"`        // pushed branch
	Commit         *string       `json:"commit_sha"`    // newest commit of the branch
	PullRequestURL *string       `json:"pull_request_url"`
	PatchURL       *string       `json:"patch_url"` // set when the result is read
	Verification   *verification `json:"verification"`

	Fixed []string `json:"fixed_finding_ids"`
	Left  []string `json:"left_finding_ids"`
	// Steps are the parts of an instrumentation or migration, including the manual steps that remain.
	Steps        []patch.Step    `json:"steps,omitempty"`
	Kind         instrument.Kind `json:"type,omitempty"` // for an instrumentation
	Model        *modelResult    `json:"model,omitempty"`
	FilesChanged int             `json:"files_changed"`
	LinesAdded   int             `json:"lines_added"`
	LinesRemoved int             `json:"lines_removed"`
	Note         string          `json:"note,omitempty"` // why nothing was published
	Preview      bool            `json:"preview"`        // not published only because the caller requested a preview
}

// verification is the evidence for a change.
type verification struct {
	*verify.Result
	// Review is the review of the changed code.
	Review reviewed `json:"review"`
}

// reviewed counts findings before and after a change.
type reviewed struct {
	Before     int      `json:"findings_before"`
	After      int      `json:"findings_after"`
	Introduced []string `json:"introduced"` // checks and files with more findings than before
}

// changeInput is the input of a run that changes code.
type changeInput struct {
	FindingIDs []string        `json:"finding_ids,omitempty"`  // for a fix
	Issue      int             `json:"issue_number,omitempty"` // issue that the pull request of a fix refers to
	Kind       instrument.Kind `json:"type,omitempty"`         // for an instrumentation
	Publish    *bool           `json:"publish,omitempty"`      // nil: true
}

// maxSteps limits the steps of a result.
const maxSteps = 200

// stepChange executes a phase of a run that changes code.
func (j *job) stepChange(ctx context.Context, key string) (note string, err error) {
	if key == "checkout" {
		return j.checkout(ctx)
	}
	if err := j.needChange(ctx); err != nil {
		return "", err
	}
	switch key {
	case "plan":
		note := fmt.Sprintf("%d of %d findings can be fixed mechanically", len(j.change.Patch.Fixed), len(j.result.Fixed)+len(j.result.Left))
		if n := len(j.change.missing); n > 0 {
			note += fmt.Sprintf("; the code no longer has %d of them", n)
		}
		return note, nil
	case "detect":
		open := 0
		for _, s := range j.change.Patch.Steps {
			if s.Open {
				open++
			}
		}
		return fmt.Sprintf("Steps: %d; left to people: %d", len(j.change.Patch.Steps)-open, open), nil
	case "change", "instrument", "translate":
		if err := j.propose(ctx); err != nil {
			return "", err
		}
		if err := j.savePatch(ctx); err != nil {
			return "", err
		}
		r := j.result
		return fmt.Sprintf("Files: %d; lines added: %d, removed: %d", r.FilesChanged, r.LinesAdded, r.LinesRemoved), nil
	case "verify":
		if err := j.verify(ctx); err != nil {
			return "", err
		}
		v := j.result.Verification
		note := "Verification: " + string(v.Status)
		if v.Reason != "" {
			note += ": " + v.Reason
		}
		return note, nil
	default:
		return j.publish(ctx)
	}
}

// needChange makes the patch, unless j has it. The patch is the same for each execution on a commit.
func (j *job) needChange(ctx context.Context) error {
	if j.change != nil {
		return nil
	}
	if err := j.needFiles(ctx); err != nil {
		return err
	}
	var in changeInput
	if len(j.run.Input) > 0 {
		if err := json.Unmarshal(j.run.Input, &in); err != nil {
			return fmt.Errorf("decode the input of the run: %w", err)
		}
	}
	made, err := j.cfg.Reviewer.Change(ctx, j.files.Dir, j.repository.Settings, worker.Change{
		Fix: in.FindingIDs, Instrument: in.Kind, Name: path.Base(j.repository.FullName), Migrate: j.run.Type == assay.RunMigration, List: j.cfg.Proposer != nil && (j.run.Type == assay.RunFix || in.Kind == instrument.General),
	})
	if err != nil {
		return err
	}
	ch := &change{changeInput: in, Response: made, missing: lists.Filter(in.FindingIDs, func(id string) bool {
		return !slices.ContainsFunc(made.Findings, func(f review.Finding) bool { return f.ID == id })
	})}
	if err := j.restore(ctx, ch); err != nil {
		return err
	}
	switch {
	case j.run.Type != assay.RunFix && len(made.Patch.Files) == 0 && (j.cfg.Proposer == nil || len(ch.targets(nil)) == 0):
		return assay.Errorf(assay.CodeUnprocessable, "there is nothing to change%s", firstOpen(made.Patch.Steps))
	case j.run.Type != assay.RunFix:
	case len(ch.missing) == len(in.FindingIDs):
		return assay.Errorf(assay.CodeUnprocessable, "the code no longer has these findings")
	case len(made.Patch.Fixed) == 0 && j.cfg.Proposer == nil:
		return assay.Errorf(assay.CodeUnprocessable, "none of these findings has a fix that can be made mechanically")
	}
	if len(made.Diff) > assay.MaxPatchBytes {
		return assay.Errorf(assay.CodeUnprocessable, "the patch has more than %d bytes", assay.MaxPatchBytes)
	}
	j.change = ch
	j.result.setChange(ch)
	return nil
}

// setChange sets the fields of the result that describe the change.
func (r *changeResult) setChange(ch *change) {
	r.FindingCount, r.FilesChanged = len(ch.Patch.Fixed), len(ch.Patch.Files)
	r.Fixed = lists.Map(ch.Patch.Fixed, func(f review.Finding) string { return f.ID })
	r.Left = append([]string{}, lists.Filter(ch.FindingIDs, func(id string) bool { return !slices.Contains(r.Fixed, id) })...)
	r.Kind = ch.Kind
	r.Steps = ch.Patch.Steps[:min(len(ch.Patch.Steps), maxSteps)]
	r.LinesAdded, r.LinesRemoved = 0, 0
	for line := range bytes.Lines(ch.Diff) {
		switch {
		case bytes.HasPrefix(line, []byte("+++ ")), bytes.HasPrefix(line, []byte("--- ")):
		case line[0] == '+':
			r.LinesAdded++
		case line[0] == '-':
			r.LinesRemoved++
		}
	}
}

// firstOpen returns the first manual step as a suffix for an error message, or "".
func firstOpen(steps []patch.Step) string {
	for _, s := range steps {
		if s.Open {
			return ": " + strconv.Quote(report.Printable(cmp.Or(s.File, ".")+": "+s.Text, maxPhrase))
		}
	}
	return ""
}

// verify verifies the change with a review and with the tests of the repository.
func (j *job) verify(ctx context.Context) error {
	if j.proved == nil {
		_, v, err := j.prove(ctx, filepath.Join(j.dir, "after"))
		if err != nil {
			return err
		}
		// Code that an instrumentation or a migration adds may have new findings.
		if n := len(v.Review.Introduced); n > 0 && j.run.Type == assay.RunFix {
			v.Status, v.Reason = verify.Rejected, "the review of the changed code has findings that were not there before"
		}
		j.proved = v
	}
	j.result.Verification = j.proved
	return nil
}

// prove writes the changed code to the new directory after, and reviews and tests it there.
func (j *job) prove(ctx context.Context, after string) (*review.Report, *verification, error) {
	if err := j.writeAfter(ctx, after, j.change.Patch.Files); err != nil {
		return nil, nil, err
	}
	report, err := j.cfg.Reviewer.Review(ctx, after, j.repository.Settings)
	if err != nil {
		return nil, nil, err
	}
	v := newVerification(compare(j.change.Findings, j.change.Patch.Fixed, report))
	return report, v, j.test(ctx, j.change, after, v)
}

// newVerification returns a verification with a review and without tests.
func newVerification(r reviewed) *verification {
	return &verification{Review: r, Result: &verify.Result{Status: verify.Unverified, Reason: "this server runs no code of repositories"}}
}

// test runs the tests of the repository before and after a change, and sets their result in v. after is the directory
// with the changed code.
func (j *job) test(ctx context.Context, ch *change, after string, v *verification) (err error) {
	if j.cfg.Verifier != nil {
		v.Result, err = j.cfg.Verifier.Verify(ctx, verify.Options{
			Before: j.files.Dir, After: after, Changed: lists.Map(ch.Patch.Files, func(f patch.File) string { return f.Path }),
			Command: j.repository.Settings.TestCommand, Rules: ch.rules(), Installs: j.run.Type != assay.RunFix && !j.testable,
			Progress: func(text string) { j.remark(ctx, j.run.Phase, "Running "+text) },
		})
	}
	return err
}

// remark adds a note to the timeline, unless another process has added it. The run continues if that fails.
func (j *job) remark(ctx context.Context, phase, text string) {
	if slices.Contains(j.savedNotes, text) {
		return
	}
	if err := j.update(ctx, assay.RunEvent{Name: "note", Message: text, Phase: phase}); err != nil {
		j.cfg.Logger.WarnContext(ctx, "failed to save an event of a run", "run", j.run.ID, "error", err)
	}
}

// rules returns the rules that fail because of the fixed findings.
func (ch *change) rules() []string {
	var all []string
	for _, f := range ch.Patch.Fixed {
		all = append(all, f.Rules...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// compare compares the findings before and after a change that should fix some of them. It compares the number of
// findings for each check and file, since the id of a finding depends on equal findings before it in the file.
func compare(findings, fixes []review.Finding, after *review.Report) reviewed {
	type place struct{ check, file string }
	count := func(findings []review.Finding) map[place]int {
		n := map[place]int{}
		for _, f := range findings {
			n[place{f.Check, f.Locations[0].File}]++
		}
		return n
	}
	r := reviewed{Before: len(findings), After: len(after.Findings), Introduced: []string{}}
	before, fixed := count(findings), count(fixes)
	for p, n := range count(after.Findings) {
		if n > before[p]-fixed[p] {
			r.Introduced = append(r.Introduced, p.check+" in "+p.file)
		}
	}
	slices.Sort(r.Introduced)
	return r
}

// writeAfter writes the repository with changed files to a new directory.
func (j *job) writeAfter(ctx context.Context, dir string, files []patch.File) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	from, err := os.OpenRoot(j.files.Dir)
	if err != nil {
		return err
	}
	defer from.Close()
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	to, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer to.Close()
	if err := source.Copy(ctx, from, to, source.Limits{}); err != nil { // the checkout has applied the limits
		return fmt.Errorf("copy the repository: %w", err)
	}
	for _, f := range files {
		name := filepath.FromSlash(f.Path)
		if info, err := to.Lstat(name); err == nil && (f.Created || !info.Mode().IsRegular()) {
			return fmt.Errorf("change %q: the file exists, or is not a regular file", f.Path)
		}
		if err := to.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := to.WriteFile(name, f.After, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// publish pushes the change and opens a pull request. It does not publish a rejected change or a preview, nor without
// write access.
func (j *job) publish(ctx context.Context) (note string, err error) {
	if j.result.Verification == nil {
		return "", errors.New("a change that was not verified cannot be published")
	}
	r := j.result
	base := j.files.DefaultBranch
	switch {
	case r.Verification.Status == verify.Rejected:
		r.Note = "The change is not published because its verification rejects it; the patch can be downloaded"
	case !j.installation.Write:
		r.Note = "The installation gives no write access; the patch can be downloaded"
	case j.files.Commit == "" || base == "":
		r.Note = "The source has no branch to propose changes for; the patch can be downloaded"
	case j.change.Publish != nil && !*j.change.Publish:
		r.Preview, r.Note = true, "The change is a preview; the patch can be downloaded"
	}
	if r.Note != "" {
		return r.Note, nil
	}
	ch := &source.Change{
		Branch: branchOf(j.run.Type, j.change), Base: base, Commit: j.files.Commit, Title: title(j.run.Type, j.change), Body: describe(j.change, r), Time: j.run.CreatedAt,
	}
	ch.Files = lists.Map(j.change.Patch.Files, func(f patch.File) source.File { return source.File{Path: f.Path, Content: f.After} })
	dir := filepath.Join(j.dir, "publish")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	published, err := j.cfg.Sources.Publish(ctx, j.installation, j.repository, ch, dir)
	j.saveSourceState(ctx, err)
	if err != nil {
		return "", err
	}
	r.Branch, r.Commit = &ch.Branch, &published.Commit
	state := assay.CodeFix{FixStatus: assay.FixProposed}
	note = "Branch " + ch.Branch
	if p := published.Pull; p != nil {
		r.PullRequestURL = &p.URL
		state.PullRequest, state.PullStatus = p.Number, p.State
		note = "Pull request " + p.URL
	}
	if len(r.Fixed) == 0 {
		return note, nil
	}
	if err := j.cfg.Store.SaveFix(ctx, j.holder, j.run.ID, r.Fixed, state); err != nil {
		return "", storeError{err}
	}
	return note, nil
}

// saved returns the stored form of the result. It drops details if the result is too large.
func (r *changeResult) saved() (json.RawMessage, error) {
	for {
		text, err := json.Marshal(r)
		if err != nil || len(text) <= assay.MaxDocumentBytes {
			return text, err
		}
		// The largest parts are the output of tests, the steps, and the rules of the services.
		v := r.Verification
		if v == nil || v.Result == nil {
			v = &verification{Result: &verify.Result{}}
		}
		switch {
		case v.Tests.Before != nil && v.Tests.Before.Output != "" || v.Tests.After != nil && v.Tests.After.Output != "":
			for _, t := range []*verify.Tests{v.Tests.Before, v.Tests.After} {
				if t != nil {
					t.Output = strings.ToValidUTF8(t.Output[len(t.Output)-len(t.Output)/2:], "")
				}
			}
		case len(r.Steps) > 0:
			r.Steps = r.Steps[:len(r.Steps)/2]
		case len(v.Rules) > 0:
			v.Rules = v.Rules[:len(v.Rules)/2]
		case len(v.Scores) > 0:
			v.Scores = v.Scores[:len(v.Scores)/2]
		case len(v.Review.Introduced) > 0:
			v.Review.Introduced = v.Review.Introduced[:len(v.Review.Introduced)/2]
		case v.Command != "":
			v.Command = ""
		default:
			return nil, errors.New("the result of the run is too large")
		}
	}
}
