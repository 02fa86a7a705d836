// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"assay"
	"assay/internal/delta"
	"assay/internal/trace"
)

// JournalStore keeps the journals of all processes. Implementations may be used
// concurrently.
type JournalStore interface {
	// ReadJournal returns at most limit entries of a journal with numbers greater than
	// after, in order.
	ReadJournal(ctx context.Context, name string, after uint64, limit int) ([]delta.JournalEntry, error)
	// Journals returns the names of the journals that have entries.
	Journals(ctx context.Context) ([]string, error)
	// LeaseNames returns the names with a prefix of the leases that have not expired.
	LeaseNames(ctx context.Context, prefix string) ([]string, error)
}

// Leases are held for this process. Implementations may be used concurrently.
type Leases interface {
	// Holder returns the name under which they are held.
	Holder() string
	// Acquire takes a lease, and goes on renewing it until Release or until another
	// process has it. It tells whether it is held now.
	Acquire(ctx context.Context, name string) (bool, error)
	// Release gives a lease up.
	Release(ctx context.Context, name string) error
}

// JournalConfig says where open traces are kept so that no process takes them with it
// when it is killed. Name, Store and Leases are needed; the zero value of another
// field means its default.
type JournalConfig struct {
	// Name is the replica's. Each of its processes adds something of its own.
	Name   string
	Store  JournalStore
	Leases Leases
	// Interval is how often to look for journals that were left behind. Default 3 s.
	Interval time.Duration
	// Expiry is the time after which leases of a process that was killed are free. For
	// so long after the start traces stay open, lest they are judged without what a
	// process before this one got of them. Default 10 s.
	Expiry time.Duration
	// Patience is how long a journal that is free is left to a process of the replica
	// that wrote it: when that is started again, senders go on sending it the rest of
	// the traces. Default 10 s; negative: not at all.
	Patience time.Duration
}

const (
	// pageEntries is how many entries of a journal are read at a time. One is seldom
	// larger than a mebibyte.
	pageEntries = 8
	// overKept is how long the last entry of a journal is kept whose traces have moved. It
	// keeps a process that was frozen, and is not dead, from going on with them.
	overKept = 24 * time.Hour
)

// journal is where the open traces of this process are written to, and what looks
// for those of others.
type journal struct {
	cfg       JournalConfig
	assembler *trace.Assembler
	now       func() time.Time
	logger    *slog.Logger

	// Of the committing goroutine.
	unknown bool // whether an entry with the next number has been committed
	wrote   bool // such an entry, in the transaction in hand
	adopts  bool // likewise, from another journal

	mu      sync.Mutex
	name    string // "": none yet
	started time.Time
	settled bool // no journal that is older than this process is left behind
	looking bool

	passes sync.Mutex // held by whoever looks for journals
	over   map[string]time.Time
	left   map[string]bool      // of a newer version
	free   map[string]time.Time // of other replicas: when they were first seen without a holder
}

func newJournal(cfg JournalConfig, a *trace.Assembler, now func() time.Time, logger *slog.Logger) *journal {
	if cfg.Interval <= 0 {
		cfg.Interval = 3 * time.Second
	}
	if cfg.Expiry <= 0 {
		cfg.Expiry = 10 * time.Second
	}
	if cfg.Patience == 0 {
		cfg.Patience = 10 * time.Second
	}
	return &journal{
		cfg: cfg, assembler: a, now: now, logger: logger,
		over: make(map[string]time.Time), left: make(map[string]bool), free: make(map[string]time.Time),
	}
}

func (j *journal) own() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.name
}

// waits tells whether traces stay open, whatever their time.
func (j *journal) waits() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return !j.settled || j.looking
}

// prepare sees to it that the journal is this process's and that memory holds what
// the journal says.
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
		return fmt.Errorf("begin a journal of open traces: %w", err)
	}
	if !held {
		return assay.Errorf(assay.CodeUnavailable, "begin a journal of open traces: the lease of %s is another process's", name)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.name = name
	return nil
}

// processSeparator stands between a replica's name and what its process added, which
// does not have it.
const processSeparator = "-"

// replicaOf returns the name of the replica that wrote a journal.
func replicaOf(journal string) string {
	return journal[:max(0, strings.LastIndex(journal, processSeparator))]
}

// resolve finds out whether a transaction committed that seemed to fail.
func (j *journal) resolve(ctx context.Context, now time.Time) error {
	name := j.own()
	for {
		entries, err := j.cfg.Store.ReadJournal(ctx, name, j.assembler.Next()-1, pageEntries)
		if err != nil {
			return fmt.Errorf("see what was committed: %w", err)
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

// lose goes on without the traces and the journal, which are another process's, or
// will be.
func (j *journal) lose(ctx context.Context, now time.Time, err error) {
	name := j.own()
	j.logger.WarnContext(ctx, "the journal of open traces was taken over by another process, which judges them", "journal", name, "error", err)
	j.assembler.Abandon(now)
	j.mu.Lock()
	j.name = ""
	j.mu.Unlock()
	j.unknown = false
	if err := j.cfg.Leases.Release(ctx, delta.JournalLease(name)); err != nil {
		j.logger.WarnContext(ctx, "the lease of a lost journal was not released", "journal", name, "error", err)
	}
}

// write returns what a transaction writes to journals.
func (j *journal) write(tx *trace.Transaction) []delta.Journal {
	journals := tx.Journals(j.own(), j.cfg.Leases.Holder())
	j.wrote = tx.Journaled()
	j.adopts = tx.Adopts()
	j.unknown = j.unknown || j.wrote
	return journals
}

// committed says that the transaction in hand has committed.
func (j *journal) committed() {
	if j.wrote {
		j.unknown = false
	}
}

// failed says that the transaction in hand failed. It tells whether to try it again.
func (j *journal) failed(ctx context.Context, err error) (again bool) {
	switch {
	case j.adopts: // it may be about the other journal, without which the facts are tried again anyway
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
		return errors.Is(err, delta.ErrJournalConflict)
	}
}

// submit has a transaction move some of the traces that are left.
type submit func(ctx context.Context, left *trace.Recovery) error

// run looks for journals that were left behind until ctx ends.
func (j *journal) run(ctx context.Context, submit submit) {
	ticker := time.NewTicker(j.cfg.Interval)
	defer ticker.Stop()
	for {
		if err := j.takeOver(ctx, submit); err != nil && ctx.Err() == nil {
			j.logger.ErrorContext(ctx, "open traces of other processes wait in their journals", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// takeOver moves the traces of all journals to this process's whose lease is free.
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
	waiting, err := j.pass(ctx, now, submit)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.looking = false
	// A journal whose lease is held may be that of a process which died a moment ago.
	j.settled = j.settled || err == nil && (!waiting || now.Sub(j.started) >= j.cfg.Expiry)
	return err
}

// pass looks at all journals once. It tells whether others hold some.
func (j *journal) pass(ctx context.Context, now time.Time, submit submit) (waiting bool, err error) {
	names, err := j.cfg.Store.Journals(ctx)
	if err != nil {
		return false, fmt.Errorf("list the journals of open traces: %w", err)
	}
	leased, err := j.cfg.Store.LeaseNames(ctx, delta.JournalLease(""))
	if err != nil {
		return false, fmt.Errorf("list the leases of journals: %w", err)
	}
	for name := range j.over {
		if !slices.Contains(names, name) {
			delete(j.over, name)
		}
	}
	for name := range j.free {
		if !slices.Contains(names, name) || slices.Contains(leased, delta.JournalLease(name)) {
			delete(j.free, name)
		}
	}
	var failures []error
	for _, name := range names {
		since, isOver := j.over[name]
		if name == j.own() || j.left[name] || isOver && now.Sub(since) < overKept {
			continue
		}
		lease := delta.JournalLease(name)
		if slices.Contains(leased, lease) {
			waiting = true
			continue
		}
		if j.leaves(name, now) {
			waiting = true
			continue
		}
		held, err := j.cfg.Leases.Acquire(ctx, lease)
		if err != nil {
			return false, fmt.Errorf("take journal %s over: %w", name, err)
		}
		if !held {
			waiting = true
			continue
		}
		if err := j.adopt(ctx, name, now, submit); err != nil {
			failures = append(failures, fmt.Errorf("take journal %s over: %w", name, err))
		}
		if err := j.cfg.Leases.Release(ctx, lease); err != nil {
			failures = append(failures, fmt.Errorf("release journal %s: %w", name, err))
		}
	}
	return waiting, errors.Join(failures...)
}

// leaves tells whether a journal that is free is left to the replica that wrote it.
func (j *journal) leaves(name string, now time.Time) bool {
	if replicaOf(name) == j.cfg.Name {
		return false
	}
	since, seen := j.free[name]
	if !seen {
		since = now
		j.free[name] = since
	}
	return now.Sub(since) < j.cfg.Patience
}

// adopt moves the traces of a journal whose lease is held.
func (j *journal) adopt(ctx context.Context, name string, now time.Time, submit submit) error {
	r := j.assembler.Recovery(name)
	for {
		entries, err := j.cfg.Store.ReadJournal(ctx, name, r.Last(), pageEntries)
		if err != nil {
			return err
		}
		if err := r.Read(entries); err != nil {
			j.left[name] = true
			j.logger.WarnContext(ctx, "a journal of open traces is left to processes that can read it", "journal", name, "error", err)
			return nil
		}
		if len(entries) < pageEntries {
			break
		}
	}
	since, over := r.Over()
	if over && now.Sub(since) < overKept {
		j.over[name] = since
		return nil
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
	if !over {
		j.over[name] = now
		j.logger.InfoContext(ctx, "open traces of another process were taken over", "journal", name, "traces", traces, "damaged_entries", r.Damaged)
	}
	return nil
}

// close gives the journal up, so that others need not wait.
func (j *journal) close(ctx context.Context) error {
	name := j.own()
	if name == "" {
		return nil
	}
	if err := j.cfg.Leases.Release(ctx, delta.JournalLease(name)); err != nil {
		return fmt.Errorf("release the journal of open traces: %w", err)
	}
	return nil
}

// TakeOver looks for journals of open traces that processes left behind and moves
// them to this one's, as Run does all the time. Without a journal it does nothing.
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
