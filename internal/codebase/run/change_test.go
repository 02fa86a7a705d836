// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/codebase/propose"
	"assay/internal/codebase/source"
	"assay/internal/codebase/verify"
	"assay/internal/report"
	"assay/internal/review"
	"assay/internal/review/fix"
	"assay/internal/review/patch"
	"assay/internal/review/treesitter"
	"assay/internal/review/worker"
)

// shop has a span name of variables, an e-mail address in an attribute, and a finding without a mechanical fix.
const shop = `package shop

import (
	"context"
	"log/slog"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
)

func handle(ctx context.Context, id, email string) {
	ctx, span := otel.Tracer("shop").Start(ctx, "order "+id)
	defer span.End()
	span.SetAttributes(attribute.String("user.email", email))
	slog.InfoContext(ctx, "ordered", "email", email)
}
`

// grammars are loaded once for all tests.
var grammars = sync.OnceValues(func() (*treesitter.Parser, error) { return review.NewParser(context.Background(), "") })

// newShop returns a world whose repository has shop.go, with its findings by check.
func newShop(t *testing.T) (w *world, byCheck map[string]string) {
	w = newWorld(t)
	w.checkout = func(_ context.Context, _ source.Want, dir string) (*source.Checkout, error) {
		return &source.Checkout{Dir: dir, DefaultBranch: "main", Commit: strings.Repeat("a", 40)}, errors.Join(
			os.WriteFile(filepath.Join(dir, "shop.go"), []byte(shop), 0o600), os.WriteFile(filepath.Join(dir, "run.sh"), []byte("#!/bin/sh\n"), 0o700))
	}
	w.review = func(ctx context.Context, dir string) (*review.Report, error) {
		return review.Run(ctx, review.Options{Root: dir})
	}
	w.made = func(ctx context.Context, dir string, c worker.Change) (*worker.Response, error) {
		text, err := json.Marshal(worker.Request{Options: review.Options{Root: dir}, Change: c}) // as it goes to the child
		if err != nil {
			return nil, err
		}
		req := new(worker.Request)
		if err := json.Unmarshal(text, req); err != nil {
			return nil, err
		}
		if req.Parser, err = grammars(); err != nil {
			return nil, err
		}
		made, err := worker.Serve(ctx, req)
		if err != nil {
			return nil, err
		}
		text, err = json.Marshal(made) // as it comes from the child
		if err != nil {
			return nil, err
		}
		made = new(worker.Response)
		return made, json.Unmarshal(text, made)
	}
	w.verified = func(context.Context, verify.Options) (*verify.Result, error) {
		return &verify.Result{Status: verify.Verified, Command: "go test ./...", Rules: []report.RuleStates{{ID: "SPA-003", Service: "shop|@all", Pair: report.Pair[report.RuleState]{Before: report.Failed, After: report.Passed}}}}, nil
	}
	w.pull = &source.Pull{Number: 7, URL: "https://example.com/acme/shop/pull/7", State: assay.PullOpen}
	w.grant(true)
	stop := w.start("first", nil)
	w.wait(w.schedule(assay.RunReview), assay.RunCompleted)
	stop()
	found, _, err := w.store.Findings(t.Context(), w.organization, assay.FindingFilter{Limit: 10})
	require.NoError(t, err)
	byCheck = map[string]string{}
	for _, f := range found {
		byCheck[f.Check] = f.ID
	}
	require.Contains(t, byCheck, "span-name-dynamic")
	require.Contains(t, byCheck, "sensitive-attribute")
	require.Contains(t, byCheck, "sensitive-log")
	return w, byCheck
}

// grant gives or takes write access.
func (w *world) grant(write bool) {
	all, err := w.store.Installations(w.t.Context(), w.organization)
	require.NoError(w.t, err)
	all[0].Write = write
	require.NoError(w.t, w.store.SaveInstallation(w.t.Context(), all[0]))
}

func (w *world) scheduleFix(ids ...string) string {
	input := changeInput{FindingIDs: ids, Issue: 12}
	if w.preview {
		input.Publish = new(bool)
	}
	in, err := json.Marshal(input)
	require.NoError(w.t, err)
	r, _, err := w.store.ScheduleRun(w.t.Context(), &assay.Run{
		OrganizationID: w.organization, RepositoryID: w.repository.ID, InstallationID: w.repository.InstallationID, RepositoryName: w.repository.FullName,
		Type: assay.RunFix, Status: assay.RunPending, Trigger: assay.TriggerManual, Input: in,
	})
	require.NoError(w.t, err)
	return r.ID
}

func (w *world) result(id string) *changeResult {
	r := new(changeResult)
	require.NoError(w.t, json.Unmarshal(w.run(id).Result, r))
	return r
}

// fixes returns fix status and pull request of the findings, by check.
func (w *world) fixes() map[string]string {
	found, _, err := w.store.Findings(w.t.Context(), w.organization, assay.FindingFilter{Status: "all", Limit: 10})
	require.NoError(w.t, err)
	all := map[string]string{}
	for _, f := range found {
		if f.FixStatus != "" || f.PullStatus != "" {
			all[f.Check] = fmt.Sprintf("%s %d %s", f.FixStatus, f.PullRequest, f.PullStatus)
		}
	}
	return all
}

var fixTimeline = []string{
	"checkout started", "checkout completed", "plan started", "plan completed", "change started", "change completed",
	"verify started", "verify completed", "publish started", "publish completed",
}

func withVerifier(w *world) func(*Config) { return func(c *Config) { c.Verifier = w } }

func TestFix(t *testing.T) {
	w, found := newShop(t)
	w.verified = func(_ context.Context, o verify.Options) (*verify.Result, error) {
		before, err := os.ReadFile(filepath.Join(o.Before, "shop.go"))
		after, failed := os.ReadFile(filepath.Join(o.After, "shop.go"))
		script, missing := os.Stat(filepath.Join(o.After, "run.sh"))
		switch {
		case errors.Join(err, failed, missing) != nil:
			return nil, errors.Join(err, failed, missing)
		case string(before) != shop || strings.Contains(string(after), "user.email") || script.Mode().Perm() != 0o700:
			return nil, fmt.Errorf("before %s, after %s, %v", before, after, script.Mode())
		}
		o.Progress("tests before the change")
		return &verify.Result{Status: verify.Verified, Rules: []report.RuleStates{{ID: strings.Join(o.Rules, " "), Service: "shop|@all"}}}, nil
	}
	id := w.scheduleFix(found["span-name-dynamic"], found["sensitive-attribute"], found["sensitive-log"])
	w.start("a", withVerifier(w))
	run := w.wait(id, assay.RunCompleted)
	require.Equal(t, strings.Repeat("a", 40), run.Commit)
	require.Equal(t, slices.Insert(slices.Clone(fixTimeline), 7, "verify"), w.timeline(id))

	r := w.result(id)
	require.Equal(t, 2, r.FindingCount)
	require.ElementsMatch(t, []string{found["span-name-dynamic"], found["sensitive-attribute"]}, r.Fixed)
	require.Equal(t, []string{found["sensitive-log"]}, r.Left)
	require.Equal(t, "https://example.com/acme/shop/pull/7", *r.PullRequestURL)
	require.Equal(t, strings.Repeat("b", 40), *r.Commit)
	require.Equal(t, verify.Verified, r.Verification.Status)
	require.Equal(t, reviewed{Before: 3, After: 1, Introduced: []string{}}, r.Verification.Review)
	require.Equal(t, "MET-008 RES-010 SPA-003 SPA-006", r.Verification.Rules[0].ID)
	require.Equal(t, 1, r.FilesChanged)
	require.Positive(t, r.LinesAdded)
	require.Positive(t, r.LinesRemoved)

	patch, err := w.store.Patch(t.Context(), w.organization, id)
	require.NoError(t, err)
	require.Contains(t, string(patch), "--- a/shop.go\n+++ b/shop.go\n")
	require.Len(t, w.published, 1)
	p := w.published[0]
	require.Equal(t, *r.Branch, p.Branch)
	require.Equal(t, "main", p.Base)
	require.Equal(t, run.CreatedAt, p.Time)
	require.Equal(t, "Fix telemetry: 2 findings", p.Title)
	require.Len(t, p.Files, 1)
	require.NotContains(t, string(p.Files[0].Content), "user.email")
	require.Contains(t, p.Body, "### Verification: verified")
	require.Contains(t, p.Body, "For #12.")
	require.Contains(t, p.Body, `shop\|&#64;&#8203;all`, "texts of telemetry mention nobody")
	require.Equal(t, map[string]string{"span-name-dynamic": "proposed 7 open", "sensitive-attribute": "proposed 7 open"}, w.fixes())

	// The same again has the same branch.
	again := w.scheduleFix(found["span-name-dynamic"], found["sensitive-attribute"], found["sensitive-log"])
	w.wait(again, assay.RunCompleted)
	require.Equal(t, p.Branch, w.published[1].Branch)

	// Reviews follow the pull request.
	w.wait(w.schedule(assay.RunReview), assay.RunCompleted)
	require.Equal(t, "proposed 7 open", w.fixes()["span-name-dynamic"])
	w.set(func() { w.pull = &source.Pull{Number: 7, State: assay.PullMerged} })
	w.wait(w.schedule(assay.RunReview), assay.RunCompleted)
	require.Equal(t, "merged 7 merged", w.fixes()["span-name-dynamic"])
}

// TestFixUnpublished has changes that are not published.
func TestFixUnpublished(t *testing.T) {
	for name, c := range map[string]struct {
		change func(w *world)
		status verify.Status
		want   string
	}{
		"tests that break": {func(w *world) {
			w.verified = func(context.Context, verify.Options) (*verify.Result, error) {
				return &verify.Result{Status: verify.Rejected, Reason: "the tests fail after the change"}, nil
			}
		}, verify.Rejected, "verification rejects it"},
		"another finding": {func(w *world) {
			scan := w.review
			w.review = func(ctx context.Context, dir string) (*review.Report, error) {
				r, err := scan(ctx, dir)
				if err == nil && strings.HasSuffix(dir, "after") {
					r.Findings = append(r.Findings, review.Finding{Check: "metric-unit", Locations: []review.Location{{File: "shop.go"}}})
				}
				return r, err
			}
		}, verify.Rejected, "verification rejects it"},
		"a finding that stays": {func(w *world) {
			scan := w.review
			w.review = func(ctx context.Context, dir string) (*review.Report, error) {
				return scan(ctx, strings.Replace(dir, "after", "source", 1))
			}
		}, verify.Rejected, "verification rejects it"},
		"no write access": {func(w *world) { w.grant(false) }, verify.Verified, "no write access"},
		"a preview":       {func(w *world) { w.preview = true }, verify.Verified, "is a preview"},
		"a preview without write access": {func(w *world) {
			w.preview = true
			w.grant(false)
		}, verify.Verified, "no write access"},
		"no branch": {func(w *world) {
			checkout := w.checkout
			w.checkout = func(ctx context.Context, want source.Want, dir string) (*source.Checkout, error) {
				_, err := checkout(ctx, want, dir)
				return &source.Checkout{Dir: dir}, err
			}
		}, verify.Verified, "no branch"},
	} {
		t.Run(name, func(t *testing.T) {
			w, found := newShop(t)
			c.change(w)
			id := w.scheduleFix(found["span-name-dynamic"])
			w.start("a", withVerifier(w))
			w.wait(id, assay.RunCompleted)
			r := w.result(id)
			require.Equal(t, c.status, r.Verification.Status)
			require.Contains(t, r.Note, c.want)
			require.Equal(t, name == "a preview", r.Preview, "it can be published")
			require.Nil(t, r.Branch)
			require.Nil(t, r.PullRequestURL)
			require.Empty(t, w.published)
			require.Empty(t, w.fixes())
			_, err := w.store.Patch(t.Context(), w.organization, id)
			require.NoError(t, err)
		})
	}
}

func TestFixFailures(t *testing.T) {
	w, found := newShop(t)
	w.start("a", nil)
	fail := func(ids ...string) string {
		id := w.scheduleFix(ids...)
		return w.wait(id, assay.RunFailed).Error
	}
	require.Contains(t, fail(found["sensitive-log"]), "none of these findings has a fix")
	require.Contains(t, fail("otel-000000000000"), "no longer has these findings")
	w.set(func() { w.refusal = assay.Errorf(assay.CodeUnprocessable, "the source host denies access") })
	id := w.scheduleFix(found["span-name-dynamic"])
	require.Contains(t, w.wait(id, assay.RunFailed).Error, "denies access")
	r := w.result(id)
	require.Equal(t, verify.Unverified, r.Verification.Status, "there is no verifier")
	require.Nil(t, r.Branch)
	_, err := w.store.Patch(t.Context(), w.organization, id)
	require.NoError(t, err, "the patch can be downloaded all the same")
	require.Empty(t, w.fixes())
}

// TestFixTakeover kills a worker in each phase. Another one continues and publishes the same change.
func TestFixTakeover(t *testing.T) {
	for _, phase := range []string{"checkout", "plan", "verify", "publish"} {
		t.Run(phase, func(t *testing.T) {
			w, found := newShop(t)
			began := make(chan struct{}, 1)
			hang := func(ctx context.Context) error {
				began <- struct{}{}
				<-ctx.Done()
				return ctx.Err()
			}
			checkout, scan, fixing, verified := w.checkout, w.review, w.made, w.verified
			tests := 0
			w.verified = func(ctx context.Context, o verify.Options) (*verify.Result, error) {
				tests++
				o.Progress("tests")
				return verified(ctx, o)
			}
			counted := w.verified
			switch phase {
			case "checkout":
				w.checkout = func(ctx context.Context, _ source.Want, _ string) (*source.Checkout, error) { return nil, hang(ctx) }
			case "plan":
				w.made = func(ctx context.Context, _ string, _ worker.Change) (*worker.Response, error) { return nil, hang(ctx) }
			case "verify":
				w.verified = func(ctx context.Context, o verify.Options) (*verify.Result, error) {
					o.Progress("tests")
					return nil, hang(ctx)
				}
			}
			id := w.scheduleFix(found["span-name-dynamic"])
			stop := w.start("a", func(c *Config) {
				c.Renew, c.Store, c.Verifier = time.Hour, &deaf{c.Store}, w
				if phase == "publish" {
					c.Sources = &stuck{w, hang}
				}
			})
			<-began
			w.set(func() { w.checkout, w.review, w.made, w.verified = checkout, scan, fixing, counted })
			w.clock.move(DefaultLease + time.Second)
			w.start("b", withVerifier(w))
			w.wait(id, assay.RunCompleted)
			noted := slices.Index(fixTimeline, "verify started") + 1
			require.Equal(t, slices.Insert(slices.Clone(fixTimeline), noted, "verify"), w.timeline(id), "no event is lost or repeated")
			require.Equal(t, verify.Verified, w.result(id).Verification.Status)
			require.Equal(t, 1, tests, "a phase that has ended is not repeated")
			stop()
			require.Equal(t, assay.RunCompleted, w.run(id).Status)
			for _, p := range w.published[1:] {
				require.Equal(t, w.published[0], p, "one branch with one commit")
			}
			require.Equal(t, map[string]string{"span-name-dynamic": "proposed 7 open"}, w.fixes())
		})
	}
}

// stuck publishes and hangs before it returns.
type stuck struct {
	*world
	hang func(context.Context) error
}

func (s *stuck) Publish(ctx context.Context, i *assay.Installation, r *assay.Repository, ch *source.Change, dir string) (*source.Published, error) {
	if _, err := s.world.Publish(ctx, i, r, ch, dir); err != nil {
		return nil, err
	}
	return nil, s.hang(ctx)
}

func TestResultIsBounded(t *testing.T) {
	r := &changeResult{Verification: &verification{Result: &verify.Result{Status: verify.Rejected}, Review: reviewed{}}}
	v := r.Verification
	v.Tests.Before, v.Tests.After = &verify.Tests{Output: strings.Repeat("é\n", 20_000)}, &verify.Tests{Output: strings.Repeat("x", 20_000)}
	for n := range 2000 {
		v.Rules = append(v.Rules, report.RuleStates{ID: "SPA-001", Service: fmt.Sprint("service ", n)})
		v.Scores = append(v.Scores, report.Scores{Service: fmt.Sprint("service ", n)})
		v.Review.Introduced = append(v.Review.Introduced, fmt.Sprint("metric-unit in file ", n))
	}
	text, err := r.saved()
	require.NoError(t, err)
	require.LessOrEqual(t, len(text), assay.MaxDocumentBytes)
	require.Contains(t, string(text), `"status":"rejected"`)

	// The result after all of these parts are dropped.
	r = &changeResult{
		Verification: &verification{Result: &verify.Result{Command: strings.Repeat("<", 1000)}, Review: reviewed{}},
		Model:        &modelResult{Attempts: []propose.Attempt{{Reason: strings.Repeat("<", 2000)}}},
	}
	text, err = r.saved()
	require.NoError(t, err)
	require.LessOrEqual(t, len(text), assay.MaxDocumentBytes)
	r.Model.Attempts[0].Reason = strings.Repeat("x", assay.MaxDocumentBytes)
	_, err = r.saved()
	require.ErrorContains(t, err, "too large")

	r = &changeResult{} // before the verification
	for n := range maxSteps {
		r.Steps = append(r.Steps, patch.Step{File: fmt.Sprint("services/", n, "/package.json"), Text: strings.Repeat("x", 200)})
	}
	text, err = r.saved()
	require.NoError(t, err)
	require.LessOrEqual(t, len(text), assay.MaxDocumentBytes)
	require.NotEmpty(t, r.Steps)
}

// TestLargePatch: a patch that is too large fails the run at once.
func TestLargePatch(t *testing.T) {
	w, _ := newShop(t)
	w.made = func(context.Context, string, worker.Change) (*worker.Response, error) {
		return &worker.Response{Report: newReport(), Patch: &fix.Patch{Patch: patch.Patch{Files: []patch.File{patch.Create("a", nil)}}}, Diff: make([]byte, assay.MaxPatchBytes+1)}, nil
	}
	w.start("second", nil)
	r, _, err := w.store.ScheduleRun(t.Context(), &assay.Run{
		OrganizationID: w.organization, RepositoryID: w.repository.ID, InstallationID: w.repository.InstallationID, RepositoryName: w.repository.FullName,
		Type: assay.RunMigration, Status: assay.RunPending, Trigger: assay.TriggerManual, Input: json.RawMessage(`{}`),
	})
	require.NoError(t, err)
	require.Contains(t, w.wait(r.ID, assay.RunFailed).Error, "the patch has more than")
}

// TestMigration: a migration has its own branch, and its pull request lists the changes.
func TestMigration(t *testing.T) {
	w, _ := newShop(t)
	w.checkout = func(_ context.Context, _ source.Want, dir string) (*source.Checkout, error) {
		return &source.Checkout{Dir: dir, DefaultBranch: "main", Commit: strings.Repeat("b", 40)}, os.CopyFS(dir, os.DirFS("../../review/migrate/testdata/python-opentracing"))
	}
	w.start("second", withVerifier(w))
	r, _, err := w.store.ScheduleRun(t.Context(), &assay.Run{
		OrganizationID: w.organization, RepositoryID: w.repository.ID, InstallationID: w.repository.InstallationID, RepositoryName: w.repository.FullName,
		Type: assay.RunMigration, Status: assay.RunPending, Trigger: assay.TriggerManual, Input: json.RawMessage(`{}`),
	})
	require.NoError(t, err)
	w.wait(r.ID, assay.RunCompleted)
	w.set(func() {
		require.Len(t, w.published, 1)
		change := w.published[0]
		require.Equal(t, "assay/migration", change.Branch)
		require.Equal(t, "Migrate to OpenTelemetry", change.Title)
		require.Contains(t, change.Body, "What is left to do")
		require.True(t, slices.ContainsFunc(change.Files, func(f source.File) bool {
			return f.Path == "app.py" && strings.Contains(string(f.Content), "from opentelemetry import") && !strings.Contains(string(f.Content), "import opentracing")
		}))
	})
}

// TestInstrumentation: an instrumentation is verified as a change that adds dependencies, and published on its branch
// with the remaining manual steps.
func TestInstrumentation(t *testing.T) {
	w, _ := newShop(t)
	w.checkout = func(_ context.Context, _ source.Want, dir string) (*source.Checkout, error) {
		return &source.Checkout{Dir: dir, DefaultBranch: "main", Commit: strings.Repeat("b", 40)}, errors.Join(
			os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"scripts": {"start": "node server.js"}, "dependencies": {"express": "^5.0.0"}}`), 0o600),
			os.WriteFile(filepath.Join(dir, "Dockerfile"), []byte("FROM node:20\nCMD [\"npm\", \"start\"]\n"), 0o600),
			os.WriteFile(filepath.Join(dir, "package-lock.json"), []byte(`{}`), 0o600))
	}
	var options verify.Options
	w.verified = func(_ context.Context, o verify.Options) (*verify.Result, error) {
		w.set(func() { options = o })
		return &verify.Result{Status: verify.Unverified, Reason: "nothing is installed"}, nil
	}
	w.start("second", withVerifier(w))
	r, _, err := w.store.ScheduleRun(t.Context(), &assay.Run{
		OrganizationID: w.organization, RepositoryID: w.repository.ID, InstallationID: w.repository.InstallationID, RepositoryName: w.repository.FullName,
		Type: assay.RunInstrumentation, Status: assay.RunPending, Trigger: assay.TriggerManual, Input: json.RawMessage(`{"type":"minimum"}`),
	})
	require.NoError(t, err)
	run := w.wait(r.ID, assay.RunCompleted)
	require.Equal(t, "publish", run.Phase)
	w.set(func() {
		require.True(t, options.Installs)
		require.Empty(t, options.Rules)
		require.Len(t, w.published, 1)
		change := w.published[0]
		require.Equal(t, "assay/instrumentation-minimum", change.Branch)
		require.Equal(t, "Add OpenTelemetry (minimum)", change.Title)
		require.Contains(t, change.Body, "- [ ] `package-lock.json`: Run `npm install`")
		require.Contains(t, change.Body, "### Verification: unverified")
		require.Len(t, change.Files, 2)
		require.Contains(t, string(change.Files[0].Content), `OTEL_SERVICE_NAME="shop"`, "the name of the repository")
		require.Contains(t, string(change.Files[1].Content), `"@opentelemetry/auto-instrumentations-node"`)
	})
	result := w.result(r.ID)
	require.Len(t, result.Steps, 4)
	require.Empty(t, result.Fixed)
	require.Equal(t, "https://example.com/acme/shop/pull/7", *result.PullRequestURL)
	text, err := w.store.Patch(t.Context(), w.organization, r.ID)
	require.NoError(t, err)
	require.Contains(t, string(text), "+++ b/package.json")
}
