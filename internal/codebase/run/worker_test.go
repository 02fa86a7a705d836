// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"assay"
	"assay/internal/assaytest"
	"assay/internal/codebase/sandbox"
	"assay/internal/codebase/source"
	"assay/internal/codebase/verify"
	"assay/internal/review"
	"assay/internal/review/check"
	"assay/internal/review/fix"
	"assay/internal/review/patch"
	"assay/internal/review/worker"
	"assay/internal/store/sqlite"
	"assay/internal/store/sqlite/fresh"
)

func TestMain(m *testing.M) {
	sandbox.Main()
	goleak.VerifyTestMain(m)
}

// clock is the store's time, which tests move.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// world is a store with a repository, and the calls of workers.
type world struct {
	t            *testing.T
	clock        *clock
	store        *sqlite.Store
	organization string
	repository   *assay.Repository

	mu       sync.Mutex
	checkout func(ctx context.Context, w source.Want, dir string) (*source.Checkout, error)
	review   func(ctx context.Context, dir string) (*review.Report, error)
	wants    []source.Want

	made      func(ctx context.Context, dir string, c worker.Change) (*worker.Response, error)
	verified  func(ctx context.Context, o verify.Options) (*verify.Result, error)
	published []*source.Change
	pull      *source.Pull
	refusal   error // of Publish
	preview   bool  // scheduled runs are previews
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, clock: &clock{now: time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)}}
	var err error
	w.store, err = sqlite.Open(t.Context(), sqlite.Config{Path: fresh.Path(t), Now: w.clock.Now})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.store.Close()) })
	o := &assay.Organization{Name: "acme", Tier: assay.TierFree}
	require.NoError(t, w.store.CreateOrganization(t.Context(), o))
	w.organization = o.ID
	i := &assay.Installation{ID: uuid.NewString(), OrganizationID: o.ID, Provider: "git", Account: "acme", Status: "active"}
	require.NoError(t, w.store.SaveInstallation(t.Context(), i))
	w.repository = &assay.Repository{OrganizationID: o.ID, InstallationID: i.ID, FullName: "acme/shop", URL: "https://example.com/acme/shop", Access: "granted"}
	require.NoError(t, w.store.SaveRepositories(t.Context(), o.ID, []*assay.Repository{w.repository}))
	_, err = w.store.ActivateRepositories(t.Context(), o.ID, []string{w.repository.ID}, true, 10)
	require.NoError(t, err)
	w.checkout = func(_ context.Context, want source.Want, dir string) (*source.Checkout, error) {
		return &source.Checkout{Dir: dir, DefaultBranch: "main", Commit: strings.Repeat("a", 40)}, nil
	}
	w.review = func(context.Context, string) (*review.Report, error) { return newReport(), nil }
	return w
}

// Change implements Reviewer.
func (w *world) Change(ctx context.Context, dir string, _ assay.RepositorySettings, c worker.Change) (*worker.Response, error) {
	w.mu.Lock()
	f := w.made
	w.mu.Unlock()
	return f(ctx, dir, c)
}

// Verify implements Verifier.
func (w *world) Verify(ctx context.Context, o verify.Options) (*verify.Result, error) {
	w.mu.Lock()
	f := w.verified
	w.mu.Unlock()
	return f(ctx, o)
}

func newReport() *review.Report {
	return &review.Report{
		Instrumentation: review.Instrumentation{OTelPresent: true, Services: []string{"shop"}},
		Findings: []review.Finding{{
			ID: "otel-000000000001", Check: "span-name-dynamic", Rules: []string{"SPA-003"}, Severity: check.High, Category: check.Volume, Title: "t", DisplayTitle: "d", Summary: "s",
			Locations: []review.Location{{File: "a.go", Line: 3}}, Detail: &review.Detail{Code: "x := 1", Names: check.Names{SpanName: "GET /search/*"}},
		}},
	}
}

// Checkout implements Sources.
func (w *world) Checkout(ctx context.Context, _ *assay.Installation, _ *assay.Repository, want source.Want, dir string) (*source.Checkout, error) {
	w.mu.Lock()
	w.wants = append(w.wants, want)
	f := w.checkout
	w.mu.Unlock()
	return f(ctx, want, dir)
}

// Publish implements Sources.
func (w *world) Publish(_ context.Context, _ *assay.Installation, _ *assay.Repository, ch *source.Change, _ string) (*source.Published, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.published = append(w.published, ch)
	return &source.Published{Commit: strings.Repeat("b", 40), Pull: w.pull}, w.refusal
}

// Pull implements Sources.
func (w *world) Pull(_ context.Context, _ *assay.Installation, _ *assay.Repository, number int) (*source.Pull, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pull == nil || w.pull.Number != number {
		return nil, errors.New("no such pull request")
	}
	return w.pull, nil
}

// Review implements Reviewer.
func (w *world) Review(ctx context.Context, dir string, _ assay.RepositorySettings) (*review.Report, error) {
	w.mu.Lock()
	f := w.review
	w.mu.Unlock()
	return f(ctx, dir)
}

// set replaces the functions for checkout and review.
func (w *world) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

// start starts a worker that looks for runs often, and returns a function that stops it.
func (w *world) start(holder string, change func(*Config)) (stop func()) {
	cfg := Config{
		Store: w.store, Telemetry: w.store, Sources: w, Reviewer: w, Name: holder, WorkDir: filepath.Join(w.t.TempDir(), holder),
		Renew: assaytest.PollInterval, Poll: assaytest.PollInterval, Now: w.clock.Now,
	}
	if change != nil {
		change(&cfg)
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	var done sync.WaitGroup
	done.Go(func() { New(cfg).Run(ctx) })
	stopped := sync.OnceFunc(func() {
		cancel()
		done.Wait()
		left, err := os.ReadDir(cfg.WorkDir)
		require.NoError(w.t, err)
		require.Empty(w.t, left, "clones stay")
	})
	w.t.Cleanup(stopped)
	return stopped
}

func (w *world) schedule(runType string) string {
	r, created, err := w.store.ScheduleRun(w.t.Context(), &assay.Run{
		OrganizationID: w.organization, RepositoryID: w.repository.ID, InstallationID: w.repository.InstallationID, RepositoryName: w.repository.FullName,
		Type: runType, Status: assay.RunPending, Trigger: assay.TriggerManual,
	})
	require.NoError(w.t, err)
	require.True(w.t, created)
	return r.ID
}

func (w *world) run(id string) *assay.Run {
	r, err := w.store.Run(w.t.Context(), w.organization, id)
	require.NoError(w.t, err)
	return r
}

// wait waits until a run has a status.
func (w *world) wait(id, status string) *assay.Run {
	w.t.Helper()
	require.Eventually(w.t, func() bool { return w.run(id).Status == status }, assaytest.Limit, assaytest.PollInterval, "the run is not %s", status)
	return w.run(id)
}

// timeline returns the transitions of a run's phases.
func (w *world) timeline(id string) (all []string) {
	events, latest, err := w.store.RunEvents(w.t.Context(), w.organization, id, -1, 1000)
	require.NoError(w.t, err)
	for i, e := range events {
		require.EqualValues(w.t, i, e.Seq)
		all = append(all, strings.TrimSpace(e.Phase+" "+e.Transition))
	}
	require.EqualValues(w.t, len(events)-1, latest)
	return all
}

var reviewTimeline = []string{
	"checkout started", "checkout completed", "scan started", "scan completed", "correlate started", "correlate completed", "report started", "report completed",
}

func TestReview(t *testing.T) {
	w := newWorld(t)
	id := w.schedule(assay.RunReview)
	w.start("a", nil)
	r := w.wait(id, assay.RunCompleted)
	require.Equal(t, reviewTimeline, w.timeline(id))
	require.Equal(t, strings.Repeat("a", 40), r.Commit)
	require.Equal(t, "report", r.Phase)
	require.JSONEq(t, `{"finding_count":1,"branch":"main","commit_sha":"`+r.Commit+`","pull_request_url":null,"patch_url":null,"verification":null}`, string(r.Result))
	found, total, err := w.store.Findings(t.Context(), w.organization, assay.FindingFilter{RunID: id, Limit: 10})
	require.NoError(t, err)
	require.Equal(t, 1, total)
	require.Equal(t, "otel-000000000001", found[0].ID)
	require.Equal(t, "shop", found[0].Service)
	require.Contains(t, string(found[0].Body), `"excerpt":{"start_line":3,"lines":["x := 1"]`)
	repo, err := w.store.Repository(t.Context(), w.organization, w.repository.ID)
	require.NoError(t, err)
	require.Equal(t, "main", repo.DefaultBranch)
	require.Equal(t, r.Commit, repo.ReviewedCommit)
	require.Contains(t, string(repo.Instrumentation), `"otel_present":true`)

	w.set(func() {
		w.review = func(context.Context, string) (*review.Report, error) { return &review.Report{}, nil }
	})
	next := w.schedule(assay.RunReview)
	w.wait(next, assay.RunCompleted)
	_, total, err = w.store.Findings(t.Context(), w.organization, assay.FindingFilter{Limit: 10})
	require.NoError(t, err)
	require.Zero(t, total, "resolved")
}

// TestPartialReview requires that a finding that a report does not cover is not resolved.
func TestPartialReview(t *testing.T) {
	for name, tt := range map[string]struct {
		failed  review.Error
		disable string
		active  int
	}{
		"its file":                {failed: review.Error{File: "a.go", Message: "m"}, active: 1},
		"another file":            {failed: review.Error{File: "b.go", Message: "m"}},
		"the whole review":        {failed: review.Error{Message: "m"}, active: 1},
		"its check":               {failed: review.Error{Check: "span-name-dynamic", Message: "m"}, active: 1},
		"another check":           {failed: review.Error{Check: "metric-unit", Message: "m"}},
		"a check that is off now": {failed: review.Error{Message: "m"}, disable: "span-name-dynamic"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.start("a", nil)
			w.wait(w.schedule(assay.RunReview), assay.RunCompleted)
			w.set(func() {
				w.review = func(context.Context, string) (*review.Report, error) {
					return &review.Report{Errors: []review.Error{tt.failed}}, nil
				}
			})
			if tt.disable != "" {
				settings := w.repository.Settings
				settings.DisabledChecks = []string{tt.disable}
				require.NoError(t, w.store.SaveRepositorySettings(t.Context(), w.organization, w.repository.ID, settings))
			}
			r := w.wait(w.schedule(assay.RunReview), assay.RunCompleted)
			require.Contains(t, string(r.Result), fmt.Sprintf(`"finding_count":%d`, tt.active))
			_, total, err := w.store.Findings(t.Context(), w.organization, assay.FindingFilter{Limit: 10})
			require.NoError(t, err)
			require.Equal(t, tt.active, total)
		})
	}
}

// TestTakeover stops a worker in each phase, with and without giving the run up, and has another one continue.
func TestTakeover(t *testing.T) {
	for _, phase := range []string{"checkout", "scan"} {
		for _, killed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, killed: %v", phase, killed), func(t *testing.T) {
				w := newWorld(t)
				began := make(chan struct{}, 1)
				hang := func(ctx context.Context) error {
					began <- struct{}{}
					<-ctx.Done()
					return ctx.Err()
				}
				checkout, scan := w.checkout, w.review
				if phase == "checkout" {
					w.checkout = func(ctx context.Context, _ source.Want, _ string) (*source.Checkout, error) { return nil, hang(ctx) }
				} else {
					w.review = func(ctx context.Context, _ string) (*review.Report, error) { return nil, hang(ctx) }
				}
				id := w.schedule(assay.RunReview)
				stop := w.start("a", func(c *Config) {
					if killed { // a worker that renews no more, and gives nothing up
						c.Renew = time.Hour
						c.Store = &deaf{c.Store}
					}
				})
				<-began
				w.set(func() { w.checkout, w.review = checkout, scan })
				if killed {
					w.clock.move(DefaultLease + time.Second)
				} else {
					stop()
				}
				w.start("b", nil)
				r := w.wait(id, assay.RunCompleted)
				require.Equal(t, reviewTimeline, w.timeline(id), "no event is lost or repeated")
				require.Equal(t, strings.Repeat("a", 40), r.Commit)
				last := w.wants[len(w.wants)-1]
				if phase == "scan" {
					require.Equal(t, r.Commit, last.Commit, "the same commit again")
				}
				stop() // the first worker wakes up and cannot write
				require.Equal(t, assay.RunCompleted, w.run(id).Status)
				require.Equal(t, reviewTimeline, w.timeline(id))
			})
		}
	}
}

// deaf is the store of a worker that is about to be killed: it gives up no run.
type deaf struct{ assay.CodebaseStore }

func (*deaf) RenewRun(context.Context, string, string, time.Duration) (bool, error) {
	return false, nil
}

// TestFailedClaim: a run whose claim failed is not executed.
func TestFailedClaim(t *testing.T) {
	w := newWorld(t)
	id := w.schedule(assay.RunReview)
	log := new(assaytest.Output)
	claimed := make(chan struct{})
	stop := w.start("a", func(c *Config) {
		c.Store = &torn{CodebaseStore: c.Store, claimed: claimed, id: id}
		c.Logger = slog.New(slog.NewTextHandler(log, nil))
	})
	<-claimed
	<-claimed
	stop()
	require.Contains(t, log.String(), "failed to claim a run")
	require.NotContains(t, log.String(), "run begins")
	require.Equal(t, assay.RunPending, w.run(id).Status)
}

// torn is a store whose transaction fails after it has read the run.
type torn struct {
	assay.CodebaseStore
	claimed chan struct{}
	id      string
}

func (s *torn) ClaimRun(ctx context.Context, _ string, _ time.Duration) (*assay.Run, error) {
	select {
	case s.claimed <- struct{}{}:
	case <-ctx.Done():
	}
	return &assay.Run{ID: s.id, Type: assay.RunReview}, errors.New("commit failed")
}

// TestStopAfterTheEnd stops a worker between the last write of a run and its return.
func TestStopAfterTheEnd(t *testing.T) {
	w := newWorld(t)
	id := w.schedule(assay.RunReview)
	log := new(assaytest.Output)
	ended := make(chan struct{})
	stop := w.start("a", func(c *Config) {
		c.Store = &lingering{c.Store, ended}
		c.Logger = slog.New(slog.NewTextHandler(log, nil))
	})
	<-ended
	stop()
	require.Equal(t, assay.RunCompleted, w.run(id).Status)
	require.Contains(t, log.String(), `msg="run ended"`)
	require.NotContains(t, log.String(), "error=")
	require.NotContains(t, log.String(), "give")
}

// lingering is a store that returns from the last write of a run when the worker is stopped.
type lingering struct {
	assay.CodebaseStore
	ended chan struct{}
}

func (s *lingering) UpdateRun(ctx context.Context, holder string, r *assay.Run, events []assay.RunEvent) error {
	err := s.CodebaseStore.UpdateRun(ctx, holder, r, events)
	if r.Status == assay.RunCompleted {
		close(s.ended)
		<-ctx.Done()
	}
	return err
}

// TestPause pauses a process longer than the lease of its run. Another slot of it claims the run, and the first
// execution ends.
func TestPause(t *testing.T) {
	w := newWorld(t)
	began, done := make(chan int64, 2), make(chan struct{})
	var lost atomic.Value
	var executions atomic.Int64
	w.checkout = func(ctx context.Context, _ source.Want, dir string) (*source.Checkout, error) {
		n := executions.Add(1)
		began <- n
		if n == 1 {
			<-ctx.Done()
			lost.Store(context.Cause(ctx))
			return nil, ctx.Err()
		}
		return &source.Checkout{Dir: dir, DefaultBranch: "main", Commit: strings.Repeat("a", 40)}, nil
	}
	w.review = func(ctx context.Context, _ string) (*review.Report, error) {
		select {
		case <-done:
		case <-ctx.Done():
		}
		return newReport(), nil
	}
	id := w.schedule(assay.RunReview)
	store := &paused{w.store, make(chan struct{})}
	w.start("a", func(c *Config) { c.Store, c.Slots = store, 2 })
	require.EqualValues(t, 1, <-began)
	w.clock.move(DefaultLease + time.Second)
	require.EqualValues(t, 2, <-began)
	close(store.resumed)
	require.Eventually(t, func() bool { return lost.Load() == errLost }, assaytest.Limit, assaytest.PollInterval, "the first execution goes on")
	close(done)
	w.wait(id, assay.RunCompleted)
	require.EqualValues(t, 2, executions.Load())
}

// paused is a store that no renewal of a lease reaches until it is resumed.
type paused struct {
	assay.CodebaseStore
	resumed chan struct{}
}

func (s *paused) RenewRun(ctx context.Context, holder, id string, ttl time.Duration) (bool, error) {
	select {
	case <-s.resumed:
	case <-ctx.Done():
	}
	return s.CodebaseStore.RenewRun(ctx, holder, id, ttl)
}

func TestCancel(t *testing.T) {
	w := newWorld(t)
	began := make(chan struct{}, 1)
	w.review = func(ctx context.Context, _ string) (*review.Report, error) {
		began <- struct{}{}
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	running := w.schedule(assay.RunReview)
	w.start("a", nil)
	<-began
	pending := w.schedule(assay.RunReview)
	require.NoError(t, w.store.CancelRun(t.Context(), w.organization, pending))
	require.Equal(t, assay.RunCancelled, w.run(pending).Status)
	require.NoError(t, w.store.CancelRun(t.Context(), w.organization, running))
	r := w.wait(running, assay.RunCancelled)
	require.Empty(t, r.Error)
	require.Equal(t, []string{"checkout started", "checkout completed", "scan started", "scan"}, w.timeline(running))
}

func TestFailures(t *testing.T) {
	for name, c := range map[string]struct {
		change func(w *world)
		run    string
		want   string
	}{
		"source": {func(w *world) {
			w.checkout = func(context.Context, source.Want, string) (*source.Checkout, error) {
				return nil, assay.Errorf(assay.CodeUnprocessable, "the source host rejected the credential")
			}
		}, assay.RunReview, "the source host rejected the credential"},
		"internal": {func(w *world) {
			w.review = func(context.Context, string) (*review.Report, error) { return nil, errors.New("secret detail") }
		}, assay.RunReview, "the agent failed; the cause is in the log of the server"},
		"panic": {func(w *world) {
			w.review = func(context.Context, string) (*review.Report, error) { panic("secret detail") }
		}, assay.RunReview, "the agent failed; the cause is in the log of the server"},
		"nothing to change": {func(w *world) {
			w.made = func(context.Context, string, worker.Change) (*worker.Response, error) {
				return &worker.Response{Report: newReport(), Patch: &fix.Patch{Patch: patch.Patch{Steps: []patch.Step{{File: "package.json", Text: "`dd-trace` sets up telemetry", Open: true}}}}}, nil
			}
		}, assay.RunInstrumentation, "there is nothing to change: \"package.json: `dd-trace` sets up telemetry\""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c.change(w)
			id := w.schedule(c.run)
			w.start("a", nil)
			r := w.wait(id, assay.RunFailed)
			require.Equal(t, c.want, r.Error)
			if c.run == assay.RunReview {
				require.Nil(t, r.Result)
			}
			events := w.timeline(id)
			require.Equal(t, r.Phase+" failed", events[len(events)-1])
			installations, err := w.store.Installations(t.Context(), w.organization)
			require.NoError(t, err)
			if name == "source" {
				require.Equal(t, c.want, installations[0].LastError)
				require.Equal(t, "failed", installations[0].Status)
			} else {
				require.Empty(t, installations[0].LastError)
			}
		})
	}
}

// TestDeadline: a run whose time is over fails, also when it was taken over.
func TestDeadline(t *testing.T) {
	w := newWorld(t)
	id := w.schedule(assay.RunReview)
	_, err := w.store.ClaimRun(t.Context(), "dead", DefaultLease)
	require.NoError(t, err)
	w.clock.move(2 * DefaultTimeout)
	w.start("a", nil)
	require.Contains(t, w.wait(id, assay.RunFailed).Error, "did not finish within")
}

// TestSchedule: a repository is reviewed once a day.
func TestSchedule(t *testing.T) {
	w := newWorld(t)
	worker := New(Config{Store: w.store, Now: w.clock.Now})
	runs := func() int {
		_, total, err := w.store.Runs(t.Context(), w.organization, assay.RunFilter{Limit: 1})
		require.NoError(t, err)
		return total
	}
	require.NoError(t, worker.scheduleDue(t.Context()))
	require.NoError(t, worker.scheduleDue(t.Context()))
	require.Equal(t, 1, runs())
	w.start("a", nil)
	require.Eventually(t, func() bool {
		all, _, err := w.store.Runs(t.Context(), w.organization, assay.RunFilter{Limit: 1})
		return err == nil && all[0].Status == assay.RunCompleted && all[0].Trigger == assay.TriggerScheduled
	}, assaytest.Limit, assaytest.PollInterval)
	w.clock.move(reviewInterval - time.Minute)
	require.NoError(t, worker.scheduleDue(t.Context()))
	require.Equal(t, 1, runs())
	w.clock.move(2 * time.Minute)
	require.NoError(t, worker.scheduleDue(t.Context()))
	require.Equal(t, 2, runs())
}

func TestScanner(t *testing.T) {
	dir := t.TempDir()
	script := func(text string) *Scanner {
		return &Scanner{Program: []string{"/bin/sh", "-c", text}, Memory: 512 << 20, Time: assaytest.Limit, maxReport: 10_000}
	}
	r, err := script(`cat > /dev/null; echo '{"findings":[{"finding_id":"otel-000000000001","detail":{"names":{"SpanName":"x"}}}]}'`).Review(t.Context(), dir, assay.RepositorySettings{})
	require.NoError(t, err)
	require.Equal(t, "x", r.Findings[0].Detail.Names.SpanName)

	_, err = script(`read line; echo "{\"errors\":[{\"file\":\"\",\"message\":\"x\"}]}"; [ "$line" = '`+optionsOf(t, dir)+`' ]`).Review(t.Context(), dir, assay.RepositorySettings{Ignore: []string{"vendor"}, DisabledChecks: []string{"span-noise", "check of a later version"}})
	require.NoError(t, err)

	r, err = script(`printf '{"findings":[{"summary":"%05000d","detail":{"names":{"SpanName":"%04000d"}}}]}' 1 1`).Review(t.Context(), dir, assay.RepositorySettings{})
	require.NoError(t, err)
	require.Len(t, r.Findings[0].Summary, maxResponseText)
	require.Len(t, r.Findings[0].Detail.Names.SpanName, 4000)

	for name, c := range map[string]struct {
		script string
		change worker.Change
		want   string
	}{
		"errors":          {"echo '{\"errors\":['; yes '{},' | head -n 1000; echo '{}]}'", worker.Change{}, "the report of the review is too large"},
		"findings":        {"echo '{\"findings\":['; yes '{},' | head -n 10000; echo '{}]}'", worker.Change{}, "the report of the review is too large"},
		"rules":           {"echo '{\"findings\":[{\"rules\":['; yes '\"\",' | head -n 10; echo '\"\"]}]}'", worker.Change{}, "the report of the review is too large"},
		"fixed findings":  {"echo '{\"findings\":[],\"patch\":{\"fixed\":['; yes '{},' | head -n 10000; echo '{}]}}'", worker.Change{Migrate: true}, "the report of the migration is too large"},
		"crash":           {"echo 'fatal: x' >&2; exit 2", worker.Change{}, `the review failed: "fatal: x"`},
		"instrumentation": {"echo 'assay: no manifest' >&2; exit 1", worker.Change{Instrument: "minimum"}, `the instrumentation failed: "no manifest"`},
		"migration":       {"echo 'assay: x' >&2; exit 1", worker.Change{Migrate: true}, `the migration failed: "x"`},
		"fix":             {"echo 'assay: x' >&2; exit 1", worker.Change{Fix: []string{"otel-000000000001"}}, `the fix failed: "x"`},
		"changed files":   {"echo 'assay: x' >&2; exit 1", worker.Change{Parse: []string{"a.go"}}, `the check of the change failed: "x"`},
		"silence":         {"sleep 60", worker.Change{}, "the review did not finish"},
		"flood":           {"yes", worker.Change{}, "the report of the review is too large"},
		"values":          {"echo '{\"findings\":['; yes '{},' | head -n 200001; echo '{}]}'", worker.Change{}, "the report of the review is too large"},
		"no JSON":         {"echo x", worker.Change{Migrate: true}, "decode the report of the migration"},
		"no patch":        {"echo '{\"report\":{}}'", worker.Change{Migrate: true}, "the report of the migration is not complete"},
		"memory":          {"echo 'fatal error: runtime: out of memory' >&2; exit 2", worker.Change{}, "the review needs more memory"},
		"too long":        {"printf '%0500d' 1 >&2; exit 1", worker.Change{}, "the review failed"},
	} {
		t.Run(name, func(t *testing.T) {
			s := script(c.script)
			switch name {
			case "silence":
				s.Time = 50 * time.Millisecond
			case "values", "findings", "fixed findings":
				s.maxReport = 0
			}
			_, err := s.Change(t.Context(), dir, assay.RepositorySettings{}, c.change)
			require.ErrorContains(t, err, c.want)
			require.Less(t, len(err.Error()), 400)
		})
	}
}

// TestDecodable: arrays, objects and the whole text have limits; texts in strings do not count.
func TestDecodable(t *testing.T) {
	many := strings.Repeat("1,", maxItems-1) + "1"
	for text, want := range map[string]bool{
		"": true, "]}": true, "x": true, "[" + many + "]": true, "[" + many + ",1]": false, "{" + many + ",1}": false,
		`["` + many + `,,\"` + many + `"]`: true, "[" + strings.Repeat("["+many+"],", 9) + "1]": true,
		"[" + strings.Repeat("["+many+"],", 10) + "1]": false, strings.Repeat("[", maxNesting) + strings.Repeat("]", maxNesting): true, strings.Repeat("[", maxNesting+1): false,
	} {
		require.Equal(t, want, decodable([]byte(text)), "%.10q of %d bytes", text, len(text))
	}
}

func optionsOf(t *testing.T, dir string) string {
	text, err := json.Marshal(review.Options{Root: dir, Ignore: []string{"vendor"}, Disable: []string{"span-noise"}})
	require.NoError(t, err)
	return string(text)
}
