// SPDX-License-Identifier: Apache-2.0

package commit

import (
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

// Store makes facts durable. Implementations may be used concurrently.
type Store interface {
	// Commit runs one durable transaction. It records the requests not seen within
	// the last 10 minutes, calls merge with fresh[i] telling whether requests[i] is
	// one of those, and applies the delta that merge returns. merge may be called
	// again when the transaction is repeated.
	Commit(ctx context.Context, now time.Time, requests []delta.Request, merge func(fresh []bool) *delta.Delta) error
}

// Facts are what one request, or the traces that closed, add.
type Facts interface {
	// MergeInto is called by one goroutine, possibly more than once, each time with an
	// empty or shared delta, and must not change the facts.
	MergeInto(d *delta.Delta)
	// Rows returns about how many rows a store writes for them alone, or as how many
	// they are while they wait in memory; at least 1.
	Rows() int
}

// Owned is facts that are no request's but take the turn of an organization.
type Owned interface {
	Facts
	// Organization returns the id of the organization.
	Organization() string
}

// Journal keeps what is in memory in step with the store. Its methods are called by
// one goroutine, in the order of the transactions.
type Journal interface {
	// Prepare is called before a transaction of some facts, and every time it is tried
	// again. When it fails, the transaction has failed.
	Prepare(ctx context.Context, now time.Time, facts []Facts) error
	// Merge adds to d what is to be durable together with the facts that are new. Like
	// MergeInto it may be called more than once.
	Merge(d *delta.Delta, facts []Facts)
	// Done says how the transaction ended. It tells whether it is worth trying again at
	// once.
	Done(ctx context.Context, err error) (again bool)
}

// Config of a Committer. Store and Filter are needed; the zero value of another
// field means its default.
type Config struct {
	Store    Store
	Filter   *delta.Filter
	Interval time.Duration // between commits under load; default 100 ms
	Timeout  time.Duration // of one transaction; default 5 s
	Pending  int           // requests that wait for a commit at most; default 4096
	Rows     int           // rows of all that wait at most, which are held in memory; default 262,144
	Journal  Journal       // nil: none
	Now      func() time.Time
	Logger   *slog.Logger

	// Committed is called with the log records of each organization that a
	// transaction added some for, after it has committed and before its requests
	// get their results. The calls come one at a time, in the order of the
	// transactions; what they take, requests wait for.
	Committed func(records map[string]assay.SeverityCounts)
}

// Committer groups submissions into transactions, the organizations in turn. It may
// be used concurrently.
type Committer struct {
	cfg     Config
	queue   *fair.Queue[*submission]
	closing chan struct{}
	done    chan struct{}

	since  atomic.Int64              // Unix nanoseconds; see Behind
	failed atomic.Pointer[time.Time] // nil: not the last time; see Failed

	// Of the committing goroutine.
	budget       int       // rows of one group
	facts        []Facts   // of the transaction in hand that are new
	wrote        int       // rows of the last transaction, about
	organization string    // whose request came last
	others       time.Time // when that changed; zero: never

	mu     sync.RWMutex // guards closed against additions to the queue
	closed bool
}

// All senders wait for one transaction, so that one organization's many services must not
// make it long. While several organizations send, a group is sized to take half of the
// commit interval: a request waits for the group before its own, too. While one sends, it
// is sized to take half of the timeout. But the facts of requests merge, so that many
// small groups write more than a few large ones: however long it takes, a group is not
// made smaller that writes no more than smallGroup rows, or as many as its largest member
// up to sharedGroup.
const (
	smallGroup  = 1024
	sharedGroup = 4096 // rows of the first group after another organization begins to send
	largeGroup  = 1 << 20
	// mergedRows is how many rows merge in the time in which a store writes one, at least.
	mergedRows = 16
	// sharedFor is for how long after requests of two organizations both are expected to
	// send again. Many send once a minute.
	sharedFor = 2 * time.Minute
)

// maxTries is how often a transaction is tried when the journal asks for it.
const maxTries = 3

type submission struct {
	request *delta.Request // nil: facts that are no request's
	facts   Facts
	rows    int // of the facts, which the sender has back once it has its result
	result  chan result
}

// organization returns the organization whose turn the submission waits for. It is "" for
// facts of none, which fair.Queue does not limit: they adopt journals, a few at a time.
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

// New starts a Committer; Close ends it.
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
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	c := &Committer{
		cfg: cfg, queue: fair.NewQueue[*submission](cfg.Pending, cfg.Rows), closing: make(chan struct{}), done: make(chan struct{}), budget: largeGroup,
	}
	go c.run()
	return c
}

// Submit waits until the facts have been committed and tells whether the request
// was new; a repeated one adds nothing. request is nil for facts that are no
// request's. The facts are not used after it returns. When the transaction
// failed, the error has CodeUnavailable and the request may be sent again. The same holds
// when too many submissions wait and the organization has more than its share of them
// (see fair.Queue): new ones are refused, and the newest ones that wait give way to those of
// other organizations. It also holds when ctx ends before their transaction has begun. Submit
// waits for a transaction that has begun. Facts of no organization are never refused for
// the number of those that wait.
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
	evicted, ok := c.queue.Push(s.organization(), s, s.rows)
	for _, e := range evicted {
		e.result <- result{err: errFull()}
	}
	if !ok {
		return errFull()
	}
	return nil
}

// errFull is the error of a submission for which the queue has no room.
func errFull() error {
	return assay.Errorf(assay.CodeUnavailable, "too many requests wait to be committed")
}

// Close refuses further submissions, commits those that wait and returns when
// the last one has its result. It may be called more than once.
func (c *Committer) Close() {
	c.mu.Lock()
	if !c.closed {
		c.closed = true
		close(c.closing)
	}
	c.mu.Unlock()
	<-c.done
}

// Behind returns for how long submissions have waited without one having been
// committed, 0 when none waits.
func (c *Committer) Behind() time.Duration {
	since := c.since.Load()
	if since == 0 {
		return 0
	}
	return max(0, time.Since(time.Unix(0, since)))
}

// Failed tells whether the store took nothing the last time that something was to be
// committed, and how long ago that was.
func (c *Committer) Failed() (ago time.Duration, ok bool) {
	failed := c.failed.Load()
	if failed == nil {
		return 0, false
	}
	return time.Since(*failed), true
}

// run commits the first submission after a quiet time at once, and under load one
// group an interval.
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
		if c.queue.Keys() > 1 {
			c.share()
		}
		if group := c.queue.Take(c.budget); len(group) > 0 {
			c.since.CompareAndSwap(0, last.UnixNano())
			c.meet(group)
			_ = c.commit(group) // its senders know
		}
		if c.queue.Len() > 0 {
			continue
		}
		c.since.Store(0)
		if closing == nil {
			return
		}
	}
}

// meet notes whose submissions a group has.
func (c *Committer) meet(group []*submission) {
	for _, s := range group {
		id := s.organization()
		if id == "" || id == c.organization {
			continue
		}
		if c.organization != "" {
			c.share()
		}
		c.organization = id
	}
}

// shared reports whether several organizations have sent lately.
func (c *Committer) shared() bool {
	return !c.others.IsZero() && time.Since(c.others) < sharedFor
}

// share notes that several organizations send.
func (c *Committer) share() {
	if !c.shared() {
		c.budget = min(c.budget, sharedGroup)
	}
	c.others = time.Now()
}

// adapt sizes the next group by how long one took that has been committed.
func (c *Committer) adapt(group []*submission, took time.Duration) {
	rows, largest := rowsOf(group)
	wrote, enough := c.wrote+len(group)+rows/mergedRows, max(smallGroup, min(largest, sharedGroup))
	most := c.cfg.Interval / 2
	if !c.shared() {
		most = max(c.cfg.Interval, c.cfg.Timeout/2)
	}
	switch {
	case took > most && wrote > enough:
		c.budget = max(int(float64(rows)*max(most.Seconds()/took.Seconds(), float64(enough)/float64(wrote))), 1)
	case rows >= c.budget && took < most/2:
		c.budget = min(2*c.budget, largeGroup)
	}
}

// commit commits a group and gives each its result. The error is that of the last
// transaction.
func (c *Committer) commit(group []*submission) error {
	began := time.Now()
	fresh, err := c.transact(group)
	if away(err) {
		now := time.Now()
		c.failed.Store(&now)
	}
	switch {
	case err == nil:
		now := time.Now()
		c.since.Store(now.UnixNano())
		c.failed.Store(nil)
		c.adapt(group, now.Sub(began))
	case errors.Is(err, context.DeadlineExceeded):
		// Too much for one transaction, or a slow store: what comes back is tried in smaller groups.
		rows, _ := rowsOf(group)
		c.budget = max(rows/2, 1)
		if rest, heaviest := withoutHeaviest(group); len(rest) > 0 {
			c.cfg.Logger.Warn("commit took too long, trying the requests of other organizations", "requests", len(group), "error", err)
			c.refuse(heaviest, err)
			return c.commit(rest)
		}
	case len(group) > 1 && !away(err):
		// Whatever is wrong with one must not fail the others.
		c.cfg.Logger.Warn("commit failed, trying its halves", "requests", len(group), "error", err)
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

// withoutHeaviest splits a group of several organizations: the submissions of the one with
// most rows, and the others.
func withoutHeaviest(group []*submission) (rest, heaviest []*submission) {
	rows := make(map[string]int)
	most := ""
	for _, s := range group {
		id := s.organization()
		if rows[id] += s.rows; rows[id] > rows[most] || most == "" {
			most = id
		}
	}
	for _, s := range group {
		if s.organization() == most {
			heaviest = append(heaviest, s)
		} else {
			rest = append(rest, s)
		}
	}
	return rest, heaviest
}

// halve commits the halves of a group, as long as the store is there.
func (c *Committer) halve(group []*submission) error {
	first, second := group[:len(group)/2], group[len(group)/2:]
	if err := c.commit(first); away(err) {
		c.refuse(second, err)
		return err
	}
	return c.commit(second)
}

// away tells whether the store takes nothing, whatever it is.
func away(err error) bool {
	return assay.ErrorCode(err) == assay.CodeUnavailable || errors.Is(err, context.DeadlineExceeded)
}

// refuse tells that submissions were not committed.
func (c *Committer) refuse(group []*submission, err error) {
	c.cfg.Logger.Error("commit failed", "requests", len(group), "error", err)
	err = &assay.Error{Code: assay.CodeUnavailable, Message: "the store did not take the request", Err: err}
	for _, s := range group {
		s.result <- result{err: err}
	}
}

// rowsOf returns the rows of a group, as if nothing merged, and of its largest member.
func rowsOf(group []*submission) (rows, largest int) {
	for _, s := range group {
		rows, largest = rows+s.rows, max(largest, s.rows)
	}
	return rows, largest
}

// written returns about how many rows a store writes for the facts of d.
func written(d *delta.Delta) (rows int) {
	for _, o := range d.Organizations {
		for _, s := range o.Services {
			rows += 1 + len(s.Verdicts) + len(s.Claims) + len(s.Distinct)
		}
	}
	return rows
}

// transact runs one transaction and tells which of the group it added.
func (c *Committer) transact(group []*submission) ([]bool, error) {
	requests := make([]delta.Request, 0, len(group))
	index := make([]int, len(group)) // of the submission's request; -1: none
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
		return d
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.cfg.Timeout)
	defer cancel()
	defer func() {
		clear(c.facts[:cap(c.facts)])
	}()
	for try := 1; ; try++ {
		again, err := c.try(ctx, group, requests, merge)
		if err == nil {
			break
		}
		if !again || try == maxTries {
			return nil, err
		}
	}
	c.wrote = written(d)
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

// try runs one transaction once and, when it failed, tells whether to run it again.
func (c *Committer) try(ctx context.Context, group []*submission, requests []delta.Request, merge func([]bool) *delta.Delta) (again bool, err error) {
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
