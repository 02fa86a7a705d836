// SPDX-License-Identifier: Apache-2.0

package score

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"assay"
	"assay/internal/delta"
	"assay/internal/fair"
	"assay/internal/rules/catalog"
)

// Store is the store of a Scorer. Implementations must be safe for concurrent use.
type Store interface {
	// OrganizationIDs returns the ids of all organizations.
	OrganizationIDs(ctx context.Context) ([]string, error)
	// Expire deletes everything in buckets before start, and claims of MET-003 and MET-004 before metricStart. A
	// service whose facts change becomes unscored.
	Expire(ctx context.Context, now time.Time, start, metricStart delta.Bucket) error
	// ExpiredBefore returns the start of the last window to which Expire has reduced the counts and claims, or 0.
	ExpiredBefore(ctx context.Context) (delta.Bucket, error)
	// UnscoredServices returns the ids of the services whose facts have changed since they were scored. With all, it
	// returns every service that has facts, a score or insights.
	UnscoredServices(ctx context.Context, organizationID string, all bool) ([]string, error)
	// ClaimsRevision returns a number that changes with every change of a claim in the organization.
	ClaimsRevision(ctx context.Context, organizationID string) (uint64, error)
	// ClaimCounter returns a counter of the claims of a rule since a bucket.
	ClaimCounter(organizationID string, rule catalog.Rule, since delta.Bucket) delta.ClaimCounter
	// Facts loads the input for scoring the given services, at most maxFacts of them. It ignores ids of other
	// organizations.
	Facts(ctx context.Context, organizationID string, serviceIDs []string, since delta.Bucket) ([]*delta.Facts, error)
	// SaveScores stores results in one transaction. A service whose facts have changed since the revision of its
	// result stays unscored. An insight that has been muted in the meantime stays muted. Without the lease of the
	// fence it returns delta.ErrLeaseLost.
	SaveScores(ctx context.Context, f delta.Fence, organizationID string, results []delta.Result) error
	// OrganizationMean returns the mean of the unrounded scores of the scored services, and their number.
	OrganizationMean(ctx context.Context, organizationID string) (mean float64, services int, err error)
	// SaveOrganizationScore stores an organization's score, or nil for none. Without the lease of the fence it
	// returns delta.ErrLeaseLost.
	SaveOrganizationScore(ctx context.Context, f delta.Fence, organizationID string, score *float64, at time.Time) error
}

// maxFacts is the number of services loaded and saved at a time. Commits wait for the transaction that saves them, and the
// facts of a service with evidence of every rule have some 200 KB.
const maxFacts = 64

// claimSlice is how long claims are counted before the CPU is released to others. The next wait for the CPU may be long
// if the organization has many requests.
const claimSlice = 50 * time.Millisecond

// Expired facts cannot be recovered, so expiry must not follow a clock that has jumped.
const (
	// MaxSkew is the maximum difference between the store's clock and the local clock for expiry.
	MaxSkew = time.Hour
	// expiryPause is the pause after a failed expiry, which scans all facts.
	expiryPause = 5 * time.Minute
)

// ExpiryLease is the lease whose holder expires facts.
const ExpiryLease = "expire"

// Lease returns the name of the lease whose holder scores an organization.
func Lease(organizationID string) string { return "score:" + organizationID }

// Leases reports which part of the work belongs to this process. Implementations must be safe for concurrent use.
type Leases interface {
	// Holder returns the holder name of this process's leases.
	Holder() string
	// Term returns a number that is constant while a lease is held without interruption, and 0 while it is not held.
	Term(name string) uint64
	// Gained receives a value after leases were gained.
	Gained() <-chan struct{}
}

// Config configures a Scorer. Store is required. Other zero fields select the default.
type Config struct {
	Store    Store
	Leases   Leases          // default: this process does all of the work
	CPU      *fair.Semaphore // for counting claims, and loading and evaluating facts, by organization; default: no limit
	Window   time.Duration   // default 30 days
	Step     time.Duration   // bucket size of the window; default 1 h
	Interval time.Duration   // interval between rounds of Run; default 10 s
	Now      func() time.Time
	Skew     func() time.Duration // difference between Now and the local clock; default 0. See MaxSkew
	Logger   *slog.Logger
}

// Scorer scores services with new facts. It must not be used by several goroutines. It scores several organizations
// concurrently, the slowest ones last, so that a large organization does not delay the others.
type Scorer struct {
	cfg    Config
	start  delta.Bucket // start of the window at the last expiry
	term   uint64       // term of the lease at the last expiry
	failed time.Time    // time of the last failed expiry
	skewed delta.Bucket // start of the window at the last log message about differing clocks

	work  sync.WaitGroup
	slots chan struct{} // limits the organizations scored concurrently

	// An organization counts its claims for this time in a round, and the rest in the next rounds; 0: no limit. It waits for
	// the CPU for at most about an interval.
	claimTime time.Duration

	mu            sync.Mutex      // guards the fields below
	busy          map[string]bool // organizations being scored, by id; "" during expiry
	organizations map[string]*organization
	failures      []error
	unavailable   bool // the store is unavailable in this round
}

// concurrent is the number of organizations scored concurrently. The stores limit their connections.
const concurrent = 4

// organization is the state of an organization between rounds. It is valid while no other process scores the
// organization.
type organization struct {
	took     time.Duration        // duration of the last round
	term     uint64               // term of its lease
	start    delta.Bucket         // start of the window at the last round
	next     delta.Bucket         // start of the window at the last round that began
	moved    time.Time            // when the window moved, while its expiry may be in progress; zero: it is not
	claims   *claims              // nil: not counted yet
	counting *claims              // nil: none
	later    map[string]time.Time // services with deferred evidence updates, and when these are due
	score    *float64
	saved    time.Time // time when score was saved
}

// claims are the claims of an organization's services at a revision, for a window. Counting them may take several
// rounds.
type claims struct {
	revision uint64
	period   Period
	rules    []catalog.Rule     // still to count
	counter  delta.ClaimCounter // of the first of rules; nil: not begun
	of       map[string]Claims  // by service id
}

// New returns a Scorer.
func New(cfg Config) *Scorer {
	if cfg.Window <= 0 {
		cfg.Window = assay.DefaultWindow
	}
	if cfg.Step <= 0 {
		cfg.Step = assay.DefaultWindowStep
	}
	if cfg.Interval <= 0 {
		cfg.Interval = 10 * time.Second
	}
	if cfg.Leases == nil {
		cfg.Leases = alone{}
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Skew == nil {
		cfg.Skew = func() time.Duration { return 0 }
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	return &Scorer{
		cfg: cfg, slots: make(chan struct{}, concurrent), busy: make(map[string]bool), organizations: make(map[string]*organization),
	}
}

// alone implements Leases for a process that does all of the work.
type alone struct{}

func (alone) Holder() string          { return "" }
func (alone) Term(string) uint64      { return 1 }
func (alone) Gained() <-chan struct{} { return nil }

// Run scores at each interval, and when leases are gained, until ctx ends. Failures are logged and retried in the
// next round. A round does not wait for organizations that an earlier round is still scoring, nor for an earlier
// expiry.
func (s *Scorer) Run(ctx context.Context) {
	defer s.work.Wait()
	s.claimTime = s.cfg.Interval / 4
	ticker := time.NewTicker(s.cfg.Interval)
	defer ticker.Stop()
	for {
		now := s.cfg.Now().UTC()
		p := PeriodAt(now, s.cfg.Window, s.cfg.Step)
		s.begin("", func() error { return s.expire(ctx, now, p) })
		s.organizationsRound(ctx, now, p)
		for _, err := range s.takeFailures() {
			if ctx.Err() == nil {
				s.cfg.Logger.ErrorContext(ctx, "scoring failed", "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-s.cfg.Leases.Gained():
		}
	}
}

// Round expires old facts and scores changed services.
func (s *Scorer) Round(ctx context.Context) error {
	now := s.cfg.Now().UTC()
	p := PeriodAt(now, s.cfg.Window, s.cfg.Step)
	failure := s.expire(ctx, now, p)
	if ctx.Err() != nil {
		return failure
	}
	return errors.Join(failure, s.RoundAt(ctx, now, p))
}

// RoundAt scores changed services in a fixed window, without expiry. It is used for the offline report.
func (s *Scorer) RoundAt(ctx context.Context, now time.Time, p Period) error {
	s.organizationsRound(ctx, now, p)
	s.work.Wait()
	return errors.Join(s.takeFailures()...)
}

// begin starts work unless work of the same name is in progress.
func (s *Scorer) begin(name string, do func() error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy[name] {
		return
	}
	s.busy[name] = true
	s.work.Go(func() {
		err := do()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.busy, name)
		if err != nil {
			s.failures = append(s.failures, err)
		}
	})
}

// takeFailures returns the errors since its last call.
func (s *Scorer) takeFailures() []error {
	s.mu.Lock()
	defer s.mu.Unlock()
	failures := s.failures
	s.failures = nil
	return failures
}

// Period is the scoring window at a time.
type Period struct {
	Start       time.Time // start of the window
	MetricStart time.Time // start of the shorter window of MET-003 and MET-004
}

// PeriodAt returns the window at a time. The window moves in steps: it covers the current step and the full length
// before it.
func PeriodAt(now time.Time, window, step time.Duration) Period {
	begin := now.Truncate(step)
	return Period{Start: begin.Add(-window), MetricStart: begin.Add(-min(window, assay.MetricWindow))}
}

// expire deletes facts that left the window, if this process holds the lease and the window has moved since the last
// expiry. It does nothing while the clocks differ.
func (s *Scorer) expire(ctx context.Context, now time.Time, p Period) error {
	start, term := bucket(p.Start, s.cfg.Step), s.cfg.Leases.Term(ExpiryLease)
	if term == 0 || start == s.start && term == s.term {
		return nil
	}
	if skew := s.cfg.Skew(); skew.Abs() > MaxSkew {
		if start != s.skewed {
			s.skewed = start
			s.cfg.Logger.ErrorContext(ctx, "expiry is suspended while the clocks of the store and of this machine differ by more than an hour", "store_ahead_by", skew)
		}
		return nil
	}
	s.skewed = 0
	if since := now.Sub(s.failed); since >= 0 && since < expiryPause {
		return nil
	}
	if err := s.cfg.Store.Expire(ctx, now, start, bucket(p.MetricStart, s.cfg.Step)); err != nil {
		s.failed = now
		return fmt.Errorf("expire facts: %w", err)
	}
	s.start, s.term = start, term
	return nil
}

// storeUnavailable reports whether an error concerns the store as a whole rather than one query, such as a query that
// takes too long.
func storeUnavailable(ctx context.Context, err error) bool {
	return ctx.Err() != nil || assay.ErrorCode(err) == assay.CodeUnavailable && !errors.Is(err, context.DeadlineExceeded)
}

// organizationsRound starts scoring the organizations of this process. Errors are available from takeFailures.
func (s *Scorer) organizationsRound(ctx context.Context, now time.Time, p Period) {
	ids, err := s.cfg.Store.OrganizationIDs(ctx)
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.failures = append(s.failures, fmt.Errorf("list organizations: %w", err))
		return
	}
	for _, id := range s.prepare(ids) {
		select {
		case s.slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		s.mu.Lock()
		o, skip := s.organizations[id], s.unavailable || s.busy[id]
		s.mu.Unlock()
		if skip || o == nil {
			<-s.slots
			continue
		}
		s.begin(id, func() error {
			defer func() { <-s.slots }()
			return s.scoreOrganization(ctx, id, o, now, p)
		})
	}
}

// prepare drops the state of organizations that another process may have scored since. It returns the organizations
// to score, the fastest of the last round first.
func (s *Scorer) prepare(ids []string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unavailable = false
	terms := make(map[string]uint64, len(ids))
	for _, id := range ids {
		if term := s.cfg.Leases.Term(Lease(id)); term != 0 {
			terms[id] = term
		}
	}
	for id, o := range s.organizations {
		if terms[id] != o.term {
			delete(s.organizations, id)
		}
	}
	ids = slices.DeleteFunc(ids, func(id string) bool { return terms[id] == 0 || s.busy[id] })
	for _, id := range ids {
		if s.organizations[id] == nil {
			s.organizations[id] = &organization{term: terms[id], later: make(map[string]time.Time)}
		}
	}
	slices.SortStableFunc(ids, func(a, b string) int { return cmp.Compare(s.organizations[a].took, s.organizations[b].took) })
	return ids
}

// scoreOrganization scores one organization.
func (s *Scorer) scoreOrganization(ctx context.Context, id string, o *organization, now time.Time, p Period) error {
	began := time.Now()
	err := s.organizationRound(assay.WithOrganization(ctx, id), id, o, now, p)
	s.mu.Lock()
	defer s.mu.Unlock()
	o.took = time.Since(began)
	if err == nil {
		return nil
	}
	if s.organizations[id] == o { // unscored changes must not count as seen
		s.organizations[id] = &organization{term: o.term, took: o.took, later: make(map[string]time.Time)}
	}
	if errors.Is(err, delta.ErrLeaseLost) {
		s.cfg.Logger.InfoContext(ctx, "another replica scores the organization", "organization", id)
		return nil
	}
	s.unavailable = s.unavailable || storeUnavailable(ctx, err)
	return fmt.Errorf("organization %s: %w", id, err)
}

// fence returns the fence for writing the scores of an organization.
func (s *Scorer) fence(organizationID string) delta.Fence {
	if s.cfg.Leases.Holder() == "" {
		return delta.Fence{}
	}
	return delta.Fence{Lease: Lease(organizationID), Holder: s.cfg.Leases.Holder()}
}

func (s *Scorer) organizationRound(ctx context.Context, id string, o *organization, now time.Time, p Period) error {
	start := bucket(p.Start, s.cfg.Step)
	stepped := o.start != start
	if stepped && o.next != start { // not again in the next round, if this one fails
		o.moved, o.next = now, start
	}
	expired := false
	if !o.moved.IsZero() {
		before, err := s.cfg.Store.ExpiredBefore(ctx)
		if err != nil {
			return fmt.Errorf("read the window: %w", err)
		}
		if expired = before >= start || !recent(now.Sub(o.moved)); expired {
			o.moved = time.Time{}
		}
	}
	services, err := s.cfg.Store.UnscoredServices(ctx, id, stepped)
	if err != nil {
		return fmt.Errorf("list unscored services: %w", err)
	}
	moved, err := s.claims(ctx, id, o, p)
	if err != nil || o.claims == nil { // without claims, rules would pass that fail
		return err
	}
	services = append(services, moved...)
	for service, due := range o.later {
		if expired || !now.Before(due) {
			services = append(services, service)
			delete(o.later, service)
		}
	}
	slices.Sort(services)
	services = slices.Compact(services)
	for chunk := range slices.Chunk(services, maxFacts) {
		if s.cfg.Leases.Term(Lease(id)) != o.term {
			return delta.ErrLeaseLost
		}
		if err := s.score(ctx, id, o, chunk, now, start); err != nil {
			return err
		}
	}
	if len(services) > 0 || stepped {
		if err := s.mean(ctx, id, o, now); err != nil {
			return err
		}
	}
	o.start = start
	return nil
}

// claims counts the claims of the organization's services again if they may have changed. When it has counted all, it
// returns the services for which they have changed.
func (s *Scorer) claims(ctx context.Context, id string, o *organization, p Period) ([]string, error) {
	if o.counting == nil {
		revision, err := s.cfg.Store.ClaimsRevision(ctx, id)
		if err != nil {
			return nil, fmt.Errorf("read claims revision: %w", err)
		}
		if o.claims != nil && revision == o.claims.revision && p == o.claims.period {
			return nil, nil
		}
		o.counting = &claims{
			revision: revision, period: p, rules: catalog.Claiming(catalog.Instances, catalog.Definitions), of: make(map[string]Claims),
		}
	}
	c, began, counted := o.counting, time.Now(), time.Duration(0)
	for len(c.rules) > 0 {
		took, err := s.count(ctx, id, c)
		if err != nil {
			return nil, fmt.Errorf("count claims of %s: %w", c.rules[0].ID(), err)
		}
		// Allow more time for the wait for the CPU, which may take longer than counting.
		if counted += took; s.claimTime > 0 && len(c.rules) > 0 && (counted >= s.claimTime || time.Since(began) >= s.cfg.Interval) {
			return nil, nil
		}
	}
	var before map[string]Claims
	if o.claims != nil {
		before = o.claims.of
	}
	var moved []string
	for service, n := range c.of {
		if !reflect.DeepEqual(n, before[service]) {
			moved = append(moved, service)
		}
	}
	for service := range before {
		if c.of[service] == nil {
			moved = append(moved, service)
		}
	}
	o.claims, o.counting = c, nil
	return moved, nil
}

// count counts pieces of claims with a CPU, for up to a claimSlice, and returns how long it took.
func (s *Scorer) count(ctx context.Context, id string, c *claims) (took time.Duration, err error) {
	release, err := s.acquireCPU(ctx, id)
	if err != nil {
		return 0, err
	}
	defer release()
	most := claimSlice
	if s.claimTime > 0 {
		most = min(most, s.claimTime)
	}
	for began := time.Now(); len(c.rules) > 0 && took < most; took = time.Since(began) {
		if err := s.countPiece(ctx, id, c); err != nil {
			return 0, err
		}
	}
	return took, nil
}

// countPiece counts one piece of claims.
func (s *Scorer) countPiece(ctx context.Context, id string, c *claims) error {
	r := c.rules[0]
	if c.counter == nil {
		since := c.period.Start
		if r.Claims() == catalog.Definitions {
			since = c.period.MetricStart
		}
		c.counter = s.cfg.Store.ClaimCounter(id, r, bucket(since, s.cfg.Step))
	}
	more, err := c.counter.Next(ctx)
	if err != nil || more {
		return err
	}
	for service, n := range c.counter.Counts() {
		if c.of[service] == nil {
			c.of[service] = make(Claims)
		}
		c.of[service][r] = n
	}
	c.rules, c.counter = c.rules[1:], nil
	return nil
}

// acquireCPU waits for a CPU for an organization.
func (s *Scorer) acquireCPU(ctx context.Context, id string) (release func(), err error) {
	if s.cfg.CPU == nil {
		return func() {}, nil
	}
	if err := s.cfg.CPU.Acquire(ctx, id); err != nil {
		return nil, fmt.Errorf("wait for the CPU: %w", err)
	}
	return func() { s.cfg.CPU.Release(id) }, nil
}

// score scores one chunk of services.
func (s *Scorer) score(ctx context.Context, id string, o *organization, services []string, now time.Time, since delta.Bucket) error {
	results, err := s.evaluate(ctx, id, o, services, now, since)
	if err != nil {
		return err
	}
	if err := s.cfg.Store.SaveScores(ctx, s.fence(id), id, results); err != nil {
		return fmt.Errorf("save scores: %w", err)
	}
	return nil
}

// evaluate returns the results for one chunk of services.
func (s *Scorer) evaluate(ctx context.Context, id string, o *organization, services []string, now time.Time, since delta.Bucket) ([]delta.Result, error) {
	release, err := s.acquireCPU(ctx, id)
	if err != nil {
		return nil, err
	}
	defer release()
	facts, err := s.cfg.Store.Facts(ctx, id, services, since)
	if err != nil {
		return nil, fmt.Errorf("load facts: %w", err)
	}
	results := make([]delta.Result, 0, len(facts))
	for _, f := range facts {
		claims := o.claims.of[f.Service.ID]
		v := f.Verdicts(claims)
		result := delta.Result{ServiceID: f.Service.ID, Revision: f.Revision}
		result.Score, result.NewRow = s.scoreOf(f, &v, now)
		var later time.Time
		result.Insights, later = insights(f, &v, claims, !o.moved.IsZero(), now)
		if !later.IsZero() {
			o.later[f.Service.ID] = later
		}
		results = append(results, result)
	}
	return results, nil
}

// scoreOf returns the current score of a service, and whether to add it to the history: when it has changed, and once
// an hour.
func (s *Scorer) scoreOf(f *delta.Facts, v *[catalog.Count]delta.Count, now time.Time) (*assay.Score, bool) {
	value, evaluated, failed, ok := Value(v)
	if !ok || f.Service.Overflow() {
		return nil, false
	}
	old := f.Service.Score
	if old != nil && old.Value == value && slices.Equal(old.EvaluatedRuleIDs, evaluated) && slices.Equal(old.FailedRuleIDs, failed) &&
		old.Window == s.cfg.Window && old.CalculatedAt.Truncate(time.Hour).Equal(now.Truncate(time.Hour)) {
		return old, false
	}
	return &assay.Score{
		ID: uuid.NewString(), Value: value, EvaluatedRuleIDs: evaluated, FailedRuleIDs: failed,
		CalculatedAt: now, Window: s.cfg.Window, CreatedAt: now,
	}, true
}

// mean updates the organization's score when it has changed, and once an hour for the history.
func (s *Scorer) mean(ctx context.Context, id string, o *organization, now time.Time) error {
	mean, n, err := s.cfg.Store.OrganizationMean(ctx, id)
	if err != nil {
		return fmt.Errorf("read mean score: %w", err)
	}
	var score *float64
	if n > 0 {
		score = &mean
	}
	if reflect.DeepEqual(score, o.score) && o.saved.Truncate(time.Hour).Equal(now.Truncate(time.Hour)) {
		return nil
	}
	if err := s.cfg.Store.SaveOrganizationScore(ctx, s.fence(id), id, score, now); err != nil {
		return fmt.Errorf("save organization score: %w", err)
	}
	o.score, o.saved = score, now
	return nil
}

func bucket(t time.Time, step time.Duration) delta.Bucket {
	if t.Before(time.Unix(0, 0)) {
		return 0
	}
	return delta.BucketOf(uint64(t.UnixNano()), step)
}
