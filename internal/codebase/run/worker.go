// SPDX-License-Identifier: Apache-2.0

package run

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"assay"
	"assay/internal/codebase/propose"
	"assay/internal/codebase/source"
	"assay/internal/delta"
)

// Defaults of Config.
const (
	DefaultSlots   = 1
	DefaultTimeout = 15 * time.Minute
	DefaultLease   = 15 * time.Second
	DefaultRenew   = 5 * time.Second
	DefaultPoll    = 2 * time.Second
)

// Sources is the part of source.Sources that runs use.
type Sources interface {
	Checkout(ctx context.Context, i *assay.Installation, r *assay.Repository, w source.Want, dir string) (*source.Checkout, error)
	Publish(ctx context.Context, i *assay.Installation, r *assay.Repository, ch *source.Change, dir string) (*source.Published, error)
	Pull(ctx context.Context, i *assay.Installation, r *assay.Repository, number int) (*source.Pull, error)
}

// Config configures a Worker. All fields without a default are required.
type Config struct {
	Store     assay.CodebaseStore
	Telemetry Telemetry
	Sources   Sources
	Reviewer  Reviewer
	Verifier  Verifier // nil: code of repositories is not executed
	// Proposer changes code for findings without a mechanical fix, and for boundaries that general instrumentation does
	// not cover. nil: there is no language model.
	Proposer *propose.Proposer
	Name     string // name of this process, the prefix of the holders of its leases
	WorkDir  string // for clones; Run removes everything in it

	Slots   int           // concurrent runs; default DefaultSlots
	Timeout time.Duration // of a run, including takeovers; default DefaultTimeout

	Lease time.Duration // duration of the lease of a run; default DefaultLease
	Renew time.Duration // interval between renewals; default DefaultRenew
	Poll  time.Duration // interval between attempts to claim a run; default DefaultPoll

	Now    func() time.Time // time of the store; default time.Now
	Logger *slog.Logger     // default: none
}

// Worker executes runs in this process.
type Worker struct {
	cfg  Config
	wake chan struct{}
}

// New returns a Worker. Call Run to start it.
func New(cfg Config) *Worker {
	cfg.Slots = cmp.Or(max(cfg.Slots, 0), DefaultSlots)
	cfg.Timeout = cmp.Or(max(cfg.Timeout, 0), DefaultTimeout)
	cfg.Lease = cmp.Or(max(cfg.Lease, 0), DefaultLease)
	cfg.Renew = cmp.Or(max(cfg.Renew, 0), DefaultRenew)
	cfg.Poll = cmp.Or(max(cfg.Poll, 0), DefaultPoll)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	return &Worker{cfg: cfg, wake: make(chan struct{}, 1)}
}

// Wake makes the worker try to claim a run now. It does not block.
func (w *Worker) Wake() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Run executes runs until ctx ends. It then releases the runs in progress, and another process continues them.
func (w *Worker) Run(ctx context.Context) {
	if err := empty(w.cfg.WorkDir); err != nil {
		w.cfg.Logger.ErrorContext(ctx, "failed to empty the directory for clones", "error", err)
	}
	var slots sync.WaitGroup
	for range w.cfg.Slots {
		slots.Go(func() { w.slot(ctx) })
	}
	slots.Go(func() { w.schedule(ctx) })
	slots.Wait()
}

// empty creates a directory, or removes the files of earlier processes in it.
func empty(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
	}
	return err
}

// slot executes runs one after another until ctx ends.
func (w *Worker) slot(ctx context.Context) {
	poll := time.NewTicker(w.cfg.Poll)
	defer poll.Stop()
	for ctx.Err() == nil {
		// Each claim has its own holder, since another slot may claim a run whose lease expired while this process was
		// paused, and which this process still executes.
		holder := w.cfg.Name + "/" + rand.Text()
		r, err := w.cfg.Store.ClaimRun(ctx, holder, w.cfg.Lease)
		if err != nil && ctx.Err() == nil {
			w.cfg.Logger.ErrorContext(ctx, "failed to claim a run", "error", err)
		}
		if err == nil && r != nil {
			w.Wake() // more runs may be pending, for other slots
			w.execute(ctx, holder, r)
			continue
		}
		select {
		case <-ctx.Done():
		case <-w.wake:
		case <-poll.C:
		}
	}
}

// Causes for ending a run early.
var (
	errCancelled = errors.New("a caller cancelled the run")
	errLost      = errors.New("another execution holds the lease of the run")
	errDeadline  = errors.New("the run did not finish in time")
)

// storeError is an error of the store. The run is not failed: its lease expires, and a process continues it.
type storeError struct{ error }

func (e storeError) Unwrap() error { return e.error }

// execute executes a run that holder has claimed.
func (w *Worker) execute(parent context.Context, holder string, r *assay.Run) {
	ctx, cancel := context.WithCancelCause(assay.WithOrganization(parent, r.OrganizationID))
	defer cancel(nil)
	if !r.StartedAt.IsZero() {
		left := r.StartedAt.Add(w.cfg.Timeout).Sub(w.cfg.Now())
		deadline := time.AfterFunc(left, func() { cancel(errDeadline) })
		defer deadline.Stop()
	}
	if r.Cancel {
		cancel(errCancelled)
	}
	var renewing sync.WaitGroup
	defer renewing.Wait()
	renewCtx, stop := context.WithCancel(ctx)
	defer stop()
	renewing.Go(func() { w.renew(renewCtx, holder, r.ID, cancel) })

	logger := w.cfg.Logger.With("run", r.ID, "type", r.Type, "organization_id", r.OrganizationID)
	logger.InfoContext(ctx, "run begins", "phase", r.Phase)
	j := &job{Worker: w, run: r, holder: holder}
	err := j.do(ctx)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause // a run without an error is complete, even if ctx has ended
	}
	stop()
	end, release := context.WithTimeout(context.WithoutCancel(ctx), w.cfg.Lease)
	defer release()
	switch {
	case errors.Is(err, errLost) || errors.Is(err, delta.ErrLeaseLost):
		logger.WarnContext(end, "run lost to another execution")
		return
	case err != nil && parent.Err() != nil || errors.As(err, new(storeError)):
		logger.InfoContext(end, "run given up", "error", err)
		if parent.Err() != nil {
			if _, err := w.cfg.Store.RenewRun(end, holder, r.ID, 0); err != nil {
				logger.WarnContext(end, "failed to give up a run", "error", err)
			}
		}
		return
	}
	if failure := j.end(end, err); failure != nil {
		logger.ErrorContext(end, "failed to end a run", "error", failure)
		return
	}
	if err != nil {
		logger = logger.With("error", err)
	}
	logger.InfoContext(end, "run ended", "status", r.Status)
}

// renew renews the lease of a run until ctx ends. It calls end if the run is cancelled or the lease is lost.
func (w *Worker) renew(ctx context.Context, holder, id string, end context.CancelCauseFunc) {
	ticker := time.NewTicker(w.cfg.Renew)
	defer ticker.Stop()
	renewed := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		began := time.Now()
		cancelled, err := w.cfg.Store.RenewRun(ctx, holder, id, w.cfg.Lease)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			renewed = began
			if cancelled {
				end(errCancelled)
				return
			}
		case errors.Is(err, delta.ErrLeaseLost) || time.Since(renewed) >= w.cfg.Lease:
			end(errLost)
			return
		}
	}
}

// do executes the phases that have not ended. A panic fails the run, not the process.
func (j *job) do(ctx context.Context) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if j.repository, err = j.cfg.Store.Repository(ctx, j.run.OrganizationID, j.run.RepositoryID); err != nil {
		return storeError{err}
	}
	installations, err := j.cfg.Store.Installations(ctx, j.run.OrganizationID)
	if err != nil {
		return storeError{err}
	}
	for _, i := range installations {
		if i.ID == j.repository.InstallationID {
			j.installation = i
		}
	}
	if j.installation == nil {
		return errLost // the installation was deleted
	}
	if j.run.Type != assay.RunReview {
		j.result = &changeResult{Fixed: []string{}, Left: []string{}}
		if j.run.Result != nil { // result of the phases that another process has completed
			if err := json.Unmarshal(j.run.Result, j.result); err != nil {
				return fmt.Errorf("decode the result of the run: %w", err)
			}
		}
	}
	if j.dir, err = os.MkdirTemp(j.cfg.WorkDir, "run-"); err != nil {
		return fmt.Errorf("make a directory for the clone: %w", err)
	}
	defer func() {
		if failure := os.RemoveAll(j.dir); failure != nil {
			j.cfg.Logger.WarnContext(ctx, "failed to remove a clone", "error", failure)
		}
	}()
	all := Phases(j.run.Type)
	for n, p := range all {
		at, err := j.begin(ctx, p)
		if err != nil {
			return err
		}
		if at < 0 {
			continue
		}
		note, err := j.step(ctx, p.Key)
		if err != nil {
			return err
		}
		j.run.PhaseTimes[at].Ended = j.cfg.Now()
		text := p.Label + " completed"
		if note != "" {
			text = note
		}
		if n == len(all)-1 {
			j.run.Status, j.run.EndedAt = assay.RunCompleted, j.run.PhaseTimes[at].Ended
		}
		if err := j.update(ctx, assay.RunEvent{Name: "phase", Message: text, Phase: p.Key, Transition: "completed"}); err != nil {
			return err
		}
	}
	return nil
}

// begin records the start of a phase and returns its index in PhaseTimes, or -1 if the phase has ended. It adds no
// event for a phase that another process began.
func (j *job) begin(ctx context.Context, p Phase) (int, error) {
	for i, t := range j.run.PhaseTimes {
		if t.Key == p.Key {
			if !t.Ended.IsZero() {
				return -1, nil
			}
			return i, j.readNotes(ctx, p.Key)
		}
	}
	j.run.Phase = p.Key
	j.run.PhaseTimes = append(j.run.PhaseTimes, assay.RunPhase{Key: p.Key, Started: j.cfg.Now()})
	return len(j.run.PhaseTimes) - 1, j.update(ctx, assay.RunEvent{Name: "phase", Message: p.Label + " started", Phase: p.Key, Transition: "started"})
}

// readNotes reads the notes on a phase that another process has added to the timeline, so that they are not repeated.
func (j *job) readNotes(ctx context.Context, phase string) error {
	events, _, err := j.cfg.Store.RunEvents(ctx, j.run.OrganizationID, j.run.ID, -1, assay.MaxRunEvents)
	if err != nil {
		return storeError{err}
	}
	for _, e := range events {
		if e.Name == "note" && e.Phase == phase {
			j.savedNotes = append(j.savedNotes, e.Message)
		}
	}
	return nil
}

func (j *job) update(ctx context.Context, events ...assay.RunEvent) error {
	if err := j.cfg.Store.UpdateRun(ctx, j.holder, j.run, events); err != nil {
		return storeError{err}
	}
	return nil
}

// end ends a run that failed or was cancelled. It does nothing for a completed run.
func (j *job) end(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	e := assay.RunEvent{Name: "phase", Phase: j.run.Phase, Transition: "failed", Message: message(err)}
	j.run.Status, j.run.EndedAt, j.run.Error = assay.RunFailed, j.cfg.Now(), e.Message
	if j.run.Type == assay.RunReview {
		j.run.Result = nil
	}
	switch {
	case errors.Is(err, errCancelled):
		j.run.Status, j.run.Error = assay.RunCancelled, ""
		e.Name, e.Transition = "note", ""
	case errors.Is(err, errDeadline):
		j.run.Error = fmt.Sprintf("the run did not finish within %v", j.cfg.Timeout)
		e.Message = j.run.Error
	case assay.ErrorCode(err) == assay.CodeInternal:
		j.cfg.Logger.ErrorContext(ctx, "run failed", "run", j.run.ID, "error", err)
	}
	return j.update(ctx, e)
}

// message returns the text of an error that callers may see.
func message(err error) string {
	var coded *assay.Error
	switch {
	case errors.As(err, &coded):
		text := coded.Message
		for field, detail := range coded.Details {
			text += ": " + field + " " + detail
		}
		return strings.TrimPrefix(text, ": ")
	case errors.Is(err, errCancelled), errors.Is(err, errDeadline):
		return err.Error()
	default:
		return "the agent failed; the cause is in the log of the server"
	}
}
