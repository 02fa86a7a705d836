// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"assay"
	"assay/internal/delta"
	"assay/internal/trace"
)

// JournalStore stores the journals of all processes. Implementations must be safe for concurrent use.
type JournalStore interface {
	// ReadJournal returns at most limit entries of a journal with numbers greater than after, in order.
	ReadJournal(ctx context.Context, name string, after uint64, limit int) ([]delta.JournalEntry, error)
	// Journals returns the names of all journals with entries.
	Journals(ctx context.Context) ([]string, error)
	// LeaseNames returns the names of the unexpired leases with a prefix.
	LeaseNames(ctx context.Context, prefix string) ([]string, error)
}

// Leases are leases of this process. Implementations must be safe for concurrent use.
type Leases interface {
	// Holder returns the holder name of the leases.
	Holder() string
	// Acquire acquires a lease and renews it until Release or until another process holds it. It reports whether the
	// lease is held.
	Acquire(ctx context.Context, name string) (bool, error)
	// Release releases a lease.
	Release(ctx context.Context, name string) error
}

// JournalConfig configures the journal of open traces. Name, Store and Leases are required. Other zero fields select
// the default.
type JournalConfig struct {
	// Name is the name of the replica. Each process appends a unique suffix.
	Name   string
	Store  JournalStore
	Leases Leases
	// Interval is the interval between searches for abandoned journals. Default 3 s.
	Interval time.Duration
	// Expiry is the time until the leases of a killed process expire. After the start, traces stay open for this
	// time, so that they are not evaluated without the spans that an earlier process received. Default 10 s.
	Expiry time.Duration
	// RestartGrace is how long a free journal is reserved for a new process of the replica that wrote it: after a
	// restart, senders continue to send the rest of the traces to it. Default 10 s; negative: no reservation.
	RestartGrace time.Duration
}

const (
	// pageEntries is the number of journal entries per read. Entries rarely exceed 1 MiB.
	pageEntries = 8
	// movedRetention is how long the last entry of a moved journal stays. It stops a suspended process that resumes
	// from continuing with the traces.
	movedRetention = 24 * time.Hour
)

// journal is the journal of this process's open traces. It also searches for abandoned journals of other processes.
type journal struct {
	cfg       JournalConfig
	assembler *trace.Assembler
	now       func() time.Time
	logger    *slog.Logger

	// Used by the committing goroutine only.
	unknown bool // whether the next entry has been committed is unknown
	wrote   bool // the current transaction wrote the next entry
	adopts  bool // the current transaction adopts from another journal

	mu      sync.Mutex
	name    string // "" before the first transaction
	started time.Time
	settled bool // all journals older than this process have been handled
	looking bool

	passes     sync.Mutex // held during a search for journals
	moved      map[string]time.Time
	unreadable map[string]bool      // journals of an unknown version
	free       map[string]time.Time // free journals of other replicas, by the time first seen
	retry      map[string]time.Time // journals whose adoption failed, by the time of the next attempt
}

func newJournal(cfg JournalConfig, a *trace.Assembler, now func() time.Time, logger *slog.Logger) *journal {
	if cfg.Interval <= 0 {
		cfg.Interval = 3 * time.Second
	}
	if cfg.Expiry <= 0 {
		cfg.Expiry = 10 * time.Second
	}
	cfg.RestartGrace = cmp.Or(cfg.RestartGrace, 10*time.Second)
	return &journal{
		cfg: cfg, assembler: a, now: now, logger: logger,
		moved: make(map[string]time.Time), unreadable: make(map[string]bool), free: make(map[string]time.Time), retry: make(map[string]time.Time),
	}
}

func (j *journal) own() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.name
}

// waits reports whether traces stay open even if they are due.
func (j *journal) waits() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return !j.settled || j.looking
}

// prepare ensures that this process holds its journal and that memory matches the journal.
func (j *journal) prepare(ctx context.Context, now time.Time) error {
	j.wrote, j.adopts = false, false
	if j.unknown {
		if err := j.resolve(ctx, now); err != nil {
			return err
		}
	}
	if j.own() != "" {
		return nil
	}
	name := fmt.Sprintf("%s%s%08x", j.cfg.Name, processSeparator, rand.Uint32())
	held, err := j.cfg.Leases.Acquire(ctx, delta.JournalLease(name))
	if err != nil {
		return fmt.Errorf("acquire lease of trace journal: %w", err)
	}
	if !held {
		return assay.Errorf(assay.CodeUnavailable, "acquire lease of trace journal: %s is held by another process", name)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.name = name
	return nil
}

// processSeparator separates the replica name from the suffix of the process, which does not contain it.
const processSeparator = "-"

// replicaOf returns the name of the replica that wrote a journal.
func replicaOf(journal string) string {
	return journal[:max(0, strings.LastIndex(journal, processSeparator))]
}

// resolve finds out whether a transaction with an unknown outcome has committed.
func (j *journal) resolve(ctx context.Context, now time.Time) error {
	name := j.own()
	for {
		entries, err := j.cfg.Store.ReadJournal(ctx, name, j.assembler.Next()-1, pageEntries)
		if err != nil {
			return fmt.Errorf("resolve outcome of last transaction: %w", err)
		}
		for _, e := range entries {
			taken, err := j.assembler.Replay(now, e)
			if taken || err != nil {
				j.lose(ctx, now, err)
				return nil
			}
			j.unknown = false
		}
		if len(entries) < pageEntries {
			return nil
		}
	}
}

// lose drops the traces and the journal, because another process has taken them over or will.
func (j *journal) lose(ctx context.Context, now time.Time, err error) {
	name := j.own()
	j.logger.WarnContext(ctx, "another process took over the trace journal and its traces", "journal", name, "error", err)
	j.assembler.Abandon(now)
	j.mu.Lock()
	j.name = ""
	j.mu.Unlock()
	j.unknown = false
	if err := j.cfg.Leases.Release(ctx, delta.JournalLease(name)); err != nil {
		j.logger.WarnContext(ctx, "failed to release the lease of the lost trace journal", "journal", name, "error", err)
	}
}

// write returns the changes of a transaction to journals.
func (j *journal) write(tx *trace.Transaction) []delta.Journal {
	journals := tx.Journals(j.own(), j.cfg.Leases.Holder())
	j.wrote = tx.Journaled()
	j.adopts = tx.Adopts()
	j.unknown = j.unknown || j.wrote
	return journals
}

// committed records that the current transaction has committed.
func (j *journal) committed() {
	if j.wrote {
		j.unknown = false
	}
}

// failed handles the failure of the current transaction. It reports whether to retry it.
func (j *journal) failed(ctx context.Context, err error) (retry bool) {
	switch {
	case j.adopts: // the error may concern the other journal; the facts are retried without it anyway
		if errors.Is(err, delta.ErrJournalLost) {
			if held, err := j.cfg.Leases.Acquire(ctx, delta.JournalLease(j.own())); err == nil && !held {
				j.lose(ctx, j.now(), nil)
			}
		}
		return false
	case errors.Is(err, delta.ErrJournalLost):
		j.lose(ctx, j.now(), nil)
		return true
	default:
		conflict := errors.Is(err, delta.ErrJournalConflict)
		j.unknown = j.unknown || conflict // a transaction that only deletes has written no entry
		return conflict
	}
}

// submit runs a transaction that moves some of the remaining traces.
type submit func(ctx context.Context, left *trace.Recovery) error

// run searches for abandoned journals until ctx ends.
func (j *journal) run(ctx context.Context, submit submit) {
	ticker := time.NewTicker(j.cfg.Interval)
	defer ticker.Stop()
	for {
		if err := j.takeOver(ctx, submit); err != nil && ctx.Err() == nil {
			j.logger.ErrorContext(ctx, "failed to adopt trace journals, will retry", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// takeOver moves the traces of all journals with a free lease to the journal of this process.
func (j *journal) takeOver(ctx context.Context, submit submit) error {
	j.passes.Lock()
	defer j.passes.Unlock()
	now := j.now()
	j.mu.Lock()
	if j.started.IsZero() {
		j.started = now
	}
	j.looking = true
	j.mu.Unlock()
	var waiting bool
	names, leased, err := j.list(ctx)
	if err == nil {
		waiting, err = j.pass(ctx, now, names, leased, submit)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.looking = false
	// A journal whose lease is held may belong to a process that has just died, so wait until that lease expires. Do
	// not wait longer: a journal that cannot be adopted must not delay the verdicts of all organizations.
	j.settled = j.settled || names != nil && (!waiting || now.Sub(j.started) >= j.cfg.Expiry)
	return err
}

// list returns the names of all journals, not nil, and of the leases of journals.
func (j *journal) list(ctx context.Context) (names, leased []string, err error) {
	if names, err = j.cfg.Store.Journals(ctx); err != nil {
		return nil, nil, fmt.Errorf("list trace journals: %w", err)
	}
	if leased, err = j.cfg.Store.LeaseNames(ctx, delta.JournalLease("")); err != nil {
		return nil, nil, fmt.Errorf("list journal leases: %w", err)
	}
	return append([]string{}, names...), leased, nil
}

// pass visits all journals once. It reports whether journals remain that other processes hold or that could not be
// adopted.
func (j *journal) pass(ctx context.Context, now time.Time, names, leased []string, submit submit) (waiting bool, err error) {
	for name := range j.moved {
		if !slices.Contains(names, name) || slices.Contains(leased, delta.JournalLease(name)) { // its owner continues
			delete(j.moved, name)
		}
	}
	maps.DeleteFunc(j.retry, func(name string, _ time.Time) bool { return !slices.Contains(names, name) })
	for name := range j.free {
		if !slices.Contains(names, name) || slices.Contains(leased, delta.JournalLease(name)) {
			delete(j.free, name)
		}
	}
	var failures []error
	for _, name := range names {
		since, isOver := j.moved[name]
		if name == j.own() || j.unreadable[name] || isOver && now.Sub(since) < movedRetention {
			continue
		}
		lease := delta.JournalLease(name)
		if slices.Contains(leased, lease) {
			waiting = true
			continue
		}
		if j.reserved(name, now) || j.retry[name].After(now) {
			waiting = true
			continue
		}
		held, err := j.cfg.Leases.Acquire(ctx, lease)
		if err != nil {
			return true, fmt.Errorf("adopt journal %s: %w", name, err)
		}
		if !held {
			waiting = true
			continue
		}
		if err := j.adopt(ctx, name, now, submit); err != nil {
			waiting = true
			if !errors.Is(err, delta.ErrJournalLost) && !errors.Is(err, delta.ErrJournalConflict) {
				j.retry[name] = j.now().Add(j.cfg.Expiry) // no trace closes during an attempt, which may take long
			}
			failures = append(failures, fmt.Errorf("adopt journal %s: %w", name, err))
		}
		if err := j.cfg.Leases.Release(ctx, lease); err != nil {
			failures = append(failures, fmt.Errorf("release journal %s: %w", name, err))
		}
	}
	return waiting, errors.Join(failures...)
}

// reserved reports whether a free journal is still reserved for the replica that wrote it.
func (j *journal) reserved(name string, now time.Time) bool {
	if replicaOf(name) == j.cfg.Name {
		return false
	}
	since, seen := j.free[name]
	if !seen {
		since = now
		j.free[name] = since
	}
	return now.Sub(since) < j.cfg.RestartGrace
}

// read reads the journal of another process. It returns nil if it has an unknown version.
func (j *journal) read(ctx context.Context, name string) (*trace.Recovery, error) {
	r := j.assembler.Recovery(name)
	for {
		entries, err := j.cfg.Store.ReadJournal(ctx, name, r.Last(), pageEntries)
		if err != nil {
			return nil, err
		}
		if err := r.Read(entries); err != nil {
			j.unreadable[name] = true
			j.logger.WarnContext(ctx, "skipping a trace journal of an unknown version", "journal", name, "error", err)
			return nil, nil
		}
		if len(entries) < pageEntries {
			return r, nil
		}
	}
}

// adopt moves the traces of a journal whose lease this process holds.
func (j *journal) adopt(ctx context.Context, name string, now time.Time, submit submit) error {
	r, err := j.read(ctx, name)
	if r == nil {
		return err
	}
	since, allMoved := r.AllMoved()
	if allMoved && now.Sub(since) < movedRetention {
		j.moved[name] = since
		return nil
	}
	if !r.Claimed() {
		if err := submit(ctx, r); err != nil {
			return err
		}
		mark := r.Last()
		if r, err = j.read(ctx, name); r == nil {
			return err
		}
		if !r.Continue(mark) {
			return errors.New("another process is adopting it")
		}
	}
	traces := r.Traces()
	for !r.Ended() {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := submit(ctx, r); err != nil {
			return err
		}
	}
	if !allMoved {
		j.moved[name] = now
		j.logger.InfoContext(ctx, "adopted the traces of another process", "journal", name, "traces", traces, "damaged_entries", r.Damaged)
	}
	return nil
}

// close releases the journal, so that other processes do not wait for it.
func (j *journal) close(ctx context.Context) error {
	name := j.own()
	if name == "" {
		return nil
	}
	if err := j.cfg.Leases.Release(ctx, delta.JournalLease(name)); err != nil {
		return fmt.Errorf("release trace journal: %w", err)
	}
	return nil
}

// TakeOver searches for abandoned journals once and moves their traces to the journal of this process, as Run does
// periodically. Without a journal it does nothing.
func (e *Engine) TakeOver(ctx context.Context) error {
	if e.traces.journal == nil {
		return nil
	}
	return e.traces.journal.takeOver(ctx, e.adopt)
}

func (e *Engine) adopt(ctx context.Context, r *trace.Recovery) error {
	_, err := e.committer.Submit(ctx, nil, adoption{r})
	return err
}
