// SPDX-License-Identifier: Apache-2.0

package commit

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"assay"
	"assay/internal/delta"
	"assay/internal/fair"
)

// Store makes facts durable. Implementations must be safe for concurrent use.
type Store interface {
	// Commit adds the delta that merge returns to the stored facts, in one transaction that is on disk when Commit
	// returns. It records the requests; fresh[i] reports whether requests[i] was absent from the last minutes by the
	// store's own clock. If the transaction is retried, merge is called again. After an error, nothing is stored. An
	// organization that does not exist is assay.CodeNotFound, a journal that its holder has lost is
	// delta.ErrJournalLost, one with an unknown entry delta.ErrJournalConflict. New claims beyond the store's limit
	// for an organization are left out.
	Commit(ctx context.Context, now time.Time, requests []delta.Request, merge func(fresh []bool) *delta.Delta) error
}

// Facts are the facts of one request or of closed traces.
type Facts interface {
	// MergeInto merges the facts into d. It may be called several times, from one goroutine, with an empty or shared
	// delta. It must not modify the facts.
	MergeInto(d *delta.Delta)
	// Rows returns an estimate of the rows that a store writes for these facts alone, or the equivalent of their
	// memory use while they are queued. It is at least 1.
	Rows() int
}

// Owned is implemented by facts without a request that are queued for an organization.
type Owned interface {
	Facts
	// Organization returns the id of the organization.
	Organization() string
	// First reports whether the facts are queued before the requests of the organization.
	First() bool
}

// Journal keeps the in-memory state consistent with the store. Its methods are called from one goroutine, in the
// order of the transactions.
type Journal interface {
	// Prepare is called before each attempt of a transaction. If it fails, the transaction fails.
	Prepare(ctx context.Context, now time.Time, facts []Facts) error
	// Merge adds to d the facts that must be durable together with the new ones. It may be called several times, like
	// MergeInto.
	Merge(d *delta.Delta, facts []Facts)
	// Done reports the result of a transaction. It returns whether to retry it immediately.
	Done(ctx context.Context, err error) (retry bool)
}

// Config configures a Committer. Store and Filter are required. Other zero fields select the default.
type Config struct {
	Store    Store
	Filter   *delta.Filter
	Interval time.Duration // interval between commits under load; default 100 ms
	Timeout  time.Duration // timeout of one transaction; default 5 s
	Pending  int           // maximum number of queued requests; default 4096
	Rows     int           // maximum number of queued rows, which are held in memory; default 262,144
	Journal  Journal       // may be nil
	Replicas func() int    // number of processes that share the store; default 1
	Now      func() time.Time
	Logger   *slog.Logger

	// Committed is called after a transaction with the number of log records that it added, by organization, before
	// its requests get their results. Calls are sequential and in the order of the transactions. The requests wait
	// for the call to return.
	Committed func(records map[string]assay.SeverityCounts)
}

// Committer groups submissions into transactions. The organizations take turns. It is safe for concurrent use.
type Committer struct {
	cfg     Config
	queue   *fair.Queue[*submission]
	recent  *fair.Recent // organizations that send
	closing chan struct{}
	done    chan struct{}

	since  atomic.Int64              // Unix nanoseconds; see Behind
	failed atomic.Pointer[time.Time] // nil: the last commit succeeded; see Failed

	// Used by the committing goroutine only.
	budget int     // maximum rows of a group
	facts  []Facts // new facts of the current transaction
	wrote  int     // estimated rows of the last transaction
	shared bool    // other organizations may wait for the transaction

	mu     sync.RWMutex // closed is checked before additions to the queue
	closed bool
}

// All senders wait for one transaction, so the many services of one organization must not make it long. Organizations
// with few queued rows are committed first, in a transaction of their own, and wait only for the one in progress. While
// several organizations send, a group is sized to take half of the commit interval. The same applies while other
// replicas use the store, because their transactions may wait for locks of this one. Otherwise a group is sized to take
// half of the timeout. Facts of requests merge, so many small groups write more rows than a few large ones. A group is
// therefore not reduced while it writes at most smallGroup rows, or as many as its largest member up to sharedGroup,
// regardless of its duration.
const (
	lightQueue  = 256 // rows up to which the queue of an organization is light
	smallGroup  = 1024
	sharedGroup = 4096 // rows of the first group after a second organization starts sending
	largeGroup  = 1 << 20
	// mergedRows is the minimum number of rows that are merged in the time it takes to write one.
	mergedRows = 16
	// journalBytes is the number of journal bytes that cost as much time as a row, including their encoding and the
	// change of the memory after the commit.
	journalBytes = 512
)

// maxTries limits the attempts of a transaction that the journal asks to retry.
const maxTries = 3

type submission struct {
	request *delta.Request // nil for facts without a request
	facts   Facts
	rows    int // rows of facts; the sender may modify facts after the result
	result  chan result
}

// organization returns the organization in whose queue the submission waits. It is "" for facts without an
// organization, which fair.Queue does not limit: they adopt journals, a few at a time.
func (s *submission) organization() string {
	if s.request != nil {
		return s.request.OrganizationID
	}
	if o, ok := s.facts.(Owned); ok {
		return o.Organization()
	}
	return ""
}

type result struct {
	fresh bool
	err   error
}

// New starts a Committer. Close stops it.
func New(cfg Config) *Committer {
	if cfg.Interval <= 0 {
		cfg.Interval = 100 * time.Millisecond
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = 5 * time.Second
	}
	if cfg.Pending <= 0 {
		cfg.Pending = 4096
	}
	if cfg.Rows <= 0 {
		cfg.Rows = 1 << 18
	}
	if cfg.Replicas == nil {
		cfg.Replicas = func() int { return 1 }
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	c := &Committer{
		cfg: cfg, queue: fair.NewQueue[*submission](cfg.Pending, cfg.Rows), closing: make(chan struct{}), done: make(chan struct{}), budget: largeGroup,
		recent: fair.NewRecent(time.Now),
	}
	go c.run()
	return c
}

// Submit waits until the facts are committed. It reports whether the request was new; a repeated request adds
// nothing. request is nil for facts without a request. Submit does not retain facts. If the transaction fails, the
// error has CodeUnavailable and the sender may retry. The same error is returned when the queue is full and the
// organization has more than its share of it (see fair.Queue): new submissions are refused, and the newest queued
// ones are evicted for submissions of other organizations. It is also returned when ctx ends before the transaction has
// begun. Submit waits for a transaction that has begun. Facts without an organization are never refused for lack of
// room.
func (c *Committer) Submit(ctx context.Context, request *delta.Request, facts Facts) (fresh bool, err error) {
	s := &submission{request: request, facts: facts, rows: facts.Rows(), result: make(chan result, 1)}
	if err := c.enqueue(s); err != nil {
		return false, err
	}
	select {
	case r := <-s.result:
		return r.fresh, r.err
	case <-ctx.Done():
	}
	if c.queue.Remove(s.organization(), s) {
		return false, &assay.Error{Code: assay.CodeUnavailable, Message: "the request was not committed in time", Err: context.Cause(ctx)}
	}
	r := <-s.result
	return r.fresh, r.err
}

func (c *Committer) enqueue(s *submission) error {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.closed {
		return assay.Errorf(assay.CodeUnavailable, "shutting down")
	}
	c.recent.Note(s.organization())
	push := c.queue.Push
	if o, ok := s.facts.(Owned); ok && o.First() {
		push = c.queue.PushFirst
	}
	evicted, ok := push(s.organization(), s, s.rows)
	for _, e := range evicted {
		e.result <- result{err: errFull()}
	}
	if !ok {
		return errFull()
	}
	return nil
}

// errFull is the error for a submission for which the queue has no room.
func errFull() error {
	return assay.Errorf(assay.CodeUnavailable, "too many requests wait to be committed")
}

// Close refuses further submissions, commits the queued ones and returns when all have their results. It may be
// called several times.
func (c *Committer) Close() {
	c.mu.Lock()
	if !c.closed {
		c.closed = true
		close(c.closing)
	}
	c.mu.Unlock()
	<-c.done
}

// Behind returns how long submissions have been waiting without a commit, or 0 if none is waiting.
func (c *Committer) Behind() time.Duration {
	since := c.since.Load()
	if since == 0 {
		return 0
	}
	return max(0, time.Since(time.Unix(0, since)))
}

// Failed reports whether the store was unavailable at the last commit, and how long ago.
func (c *Committer) Failed() (ago time.Duration, ok bool) {
	failed := c.failed.Load()
	if failed == nil {
		return 0, false
	}
	return time.Since(*failed), true
}

// run commits groups. After an idle interval the first submission is committed at once. Under load there is one group
// per interval.
func (c *Committer) run() {
	defer close(c.done)
	var last time.Time
	closing := c.closing
	for {
		select {
		case <-c.queue.Ready():
		case <-closing:
			closing = nil
			if c.queue.Len() == 0 {
				return
			}
			continue
		}
		if wait := c.cfg.Interval - time.Since(last); wait > 0 {
			select {
			case <-time.After(wait):
			case <-c.closing:
			}
		}
		last = time.Now()
		if shared := c.recent.Several() || c.cfg.Replicas() > 1; shared != c.shared {
			c.shared, c.budget = shared, min(c.budget, sharedGroup)
		}
		c.commitNext(c.queue.TakeLight(lightQueue, c.budget))
		c.commitNext(c.queue.Take(c.budget))
		if c.queue.Len() > 0 {
			continue
		}
		c.since.Store(0)
		if closing == nil {
			return
		}
	}
}

// commitNext commits a group from the queue, if it is not empty.
func (c *Committer) commitNext(group []*submission) {
	if len(group) == 0 {
		return
	}
	c.since.CompareAndSwap(0, time.Now().UnixNano())
	_ = c.commit(group) // errors go to the senders
}

// adjustBudget sizes the next group by the duration of a committed one.
func (c *Committer) adjustBudget(group []*submission, took time.Duration) {
	rows, largest := rowsOf(group)
	wrote, enough := c.wrote+len(group)+rows/mergedRows, max(smallGroup, min(largest, sharedGroup))
	maxTook := c.cfg.Interval / 2
	if !c.shared {
		maxTook = max(c.cfg.Interval, c.cfg.Timeout/2)
	}
	switch {
	case took > maxTook && wrote > enough:
		c.budget = max(int(float64(rows)*max(maxTook.Seconds()/took.Seconds(), float64(enough)/float64(wrote))), 1)
	case rows >= c.budget && took < maxTook/2:
		c.budget = min(2*c.budget, largeGroup)
	}
}

// commit commits a group and gives each submission its result. It returns the error of the last transaction.
func (c *Committer) commit(group []*submission) error {
	began := time.Now()
	fresh, err := c.transact(group)
	if storeUnavailable(err) {
		now := time.Now()
		c.failed.Store(&now)
	}
	switch {
	case err == nil:
		now := time.Now()
		c.since.Store(now.UnixNano())
		c.failed.Store(nil)
		c.adjustBudget(group, now.Sub(began))
	case errors.Is(err, context.DeadlineExceeded):
		// The group was too large or the store is slow: retries come in smaller groups.
		rows, _ := rowsOf(group)
		c.budget = max(rows/2, 1)
		if rest, heaviest := withoutHeaviest(group); len(rest) > 0 {
			c.cfg.Logger.Warn("commit timed out, retrying without the largest organization", "requests", len(group), "error", err)
			c.refuse(heaviest, err)
			return c.commit(rest)
		}
	case len(group) > 1 && !storeUnavailable(err):
		// A faulty submission must not fail the others.
		c.cfg.Logger.Warn("commit failed, retrying in halves", "requests", len(group), "error", err)
		return c.halve(group)
	}
	if err != nil {
		c.refuse(group, err)
		return err
	}
	for i, s := range group {
		s.result <- result{fresh: fresh[i]}
	}
	return nil
}

// withoutHeaviest splits a group of several organizations into the submissions of the organization with the most
// rows, and the rest.
func withoutHeaviest(group []*submission) (rest, heaviest []*submission) {
	rows := make(map[string]int)
	heaviestID := ""
	for _, s := range group {
		id := s.organization()
		if rows[id] += s.rows; rows[id] > rows[heaviestID] || heaviestID == "" {
			heaviestID = id
		}
	}
	for _, s := range group {
		if s.organization() == heaviestID {
			heaviest = append(heaviest, s)
		} else {
			rest = append(rest, s)
		}
	}
	return rest, heaviest
}

// halve commits the halves of a group while the store is available.
func (c *Committer) halve(group []*submission) error {
	first, second := group[:len(group)/2], group[len(group)/2:]
	if err := c.commit(first); storeUnavailable(err) {
		c.refuse(second, err)
		return err
	}
	return c.commit(second)
}

// storeUnavailable reports whether the error means that the store is unavailable.
func storeUnavailable(err error) bool {
	return assay.ErrorCode(err) == assay.CodeUnavailable || errors.Is(err, context.DeadlineExceeded)
}

// refuse returns an error to the submissions of a group.
func (c *Committer) refuse(group []*submission, err error) {
	c.cfg.Logger.Error("commit failed", "requests", len(group), "error", err)
	err = &assay.Error{Code: assay.CodeUnavailable, Message: "the store could not commit the request", Err: err}
	for _, s := range group {
		s.result <- result{err: err}
	}
}

// rowsOf returns the number of rows of a group, without merging, and of its largest member.
func rowsOf(group []*submission) (rows, largest int) {
	for _, s := range group {
		rows, largest = rows+s.rows, max(largest, s.rows)
	}
	return rows, largest
}

// written returns an estimate of the rows that a store writes for the facts of d. Sets count as delta.SetRows each, series
// as delta.SeriesRows, evidence and journals by their bytes.
func written(d *delta.Delta) (rows int) {
	for _, j := range d.Journals {
		for _, e := range j.Append {
			rows += 1 + len(e.Data)/journalBytes
		}
		rows += len(j.Forget)
	}
	for _, o := range d.Organizations {
		for _, s := range o.Services {
			rows += 1 + len(s.Verdicts) + len(s.Claims) + len(s.Distinct)*delta.SetRows + s.EvidenceRows()
			if !s.Series.Empty() {
				rows += delta.SeriesRows
			}
		}
	}
	return rows
}

// transact runs one transaction and reports which submissions of the group it added.
func (c *Committer) transact(group []*submission) ([]bool, error) {
	requests := make([]delta.Request, 0, len(group))
	index := make([]int, len(group)) // index of the submission's request; -1: none
	for i, s := range group {
		index[i] = -1
		if s.request != nil {
			index[i] = len(requests)
			requests = append(requests, *s.request)
		}
	}
	added := make([]bool, len(group))
	var d *delta.Delta
	merge := func(fresh []bool) *delta.Delta {
		d, c.facts = new(delta.Delta), c.facts[:0]
		for i, s := range group {
			added[i] = index[i] < 0 || fresh[index[i]]
			if added[i] {
				s.facts.MergeInto(d)
				c.facts = append(c.facts, s.facts)
			}
		}
		if c.cfg.Journal != nil {
			c.cfg.Journal.Merge(d, c.facts)
		}
		c.wrote = written(d) // before the journal reuses the memory of its entries
		return d
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.cfg.Timeout)
	defer cancel()
	defer func() {
		clear(c.facts[:cap(c.facts)])
	}()
	for try := 1; ; try++ {
		retry, err := c.try(ctx, group, requests, merge)
		if err == nil {
			break
		}
		if !retry || try == maxTries {
			return nil, err
		}
	}
	for _, h := range d.Remember {
		c.cfg.Filter.Add(h)
	}
	if c.cfg.Committed != nil {
		if records := d.LogRecords(); records != nil {
			c.cfg.Committed(records)
		}
	}
	return added, nil
}

// try runs one attempt of a transaction. If it failed, try reports whether to retry.
func (c *Committer) try(ctx context.Context, group []*submission, requests []delta.Request, merge func([]bool) *delta.Delta) (retry bool, err error) {
	now, j := c.cfg.Now(), c.cfg.Journal
	if j == nil {
		return false, c.cfg.Store.Commit(ctx, now, requests, merge)
	}
	c.facts = c.facts[:0]
	for _, s := range group {
		c.facts = append(c.facts, s.facts)
	}
	if err := j.Prepare(ctx, now, c.facts); err != nil {
		return false, err
	}
	err = c.cfg.Store.Commit(ctx, now, requests, merge)
	return j.Done(ctx, err), err
}
