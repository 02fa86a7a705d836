// SPDX-License-Identifier: Apache-2.0

package lease

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

	"github.com/google/uuid"
)

// replicaPrefix begins the names of the leases that say which replicas live.
const replicaPrefix = "replica:"

// Config of a Coordinator. Store is needed; the zero value of another field means
// its default.
type Config struct {
	Store Store
	// Work returns the names of the leases that the replicas share out among
	// themselves. Default: there are none.
	Work func(ctx context.Context) ([]string, error)
	// Name is the replica's, for people; it holds no slash.
	Name string
	// Holder is no other process's. Default: a random UUID.
	Holder   string
	TTL      time.Duration        // of a lease; default 10 s
	Interval time.Duration        // between renewals; default 3 s
	Now      func() time.Time     // the local wall clock; default time.Now
	Elapsed  func() time.Duration // the local monotonic clock; default that of package time
	Logger   *slog.Logger
}

// Coordinator holds leases for one replica and knows the store's time. It may be
// used concurrently.
//
// What it says it holds is no other replica's: it counts the time to live from before
// it asked the store, by a clock that nobody sets, so that its leases end here before
// they end there. That is no fence: whoever looked a moment ago may be late. What
// must not happen twice has to be checked in the transaction that does it.
type Coordinator struct {
	cfg   Config
	self  string // the lease that says that this replica lives
	clock *clock
	calls chan struct{} // held while the store is asked, so that answers come in order

	gained chan struct{}

	mu       sync.Mutex
	held     map[string]grant
	own      map[string]struct{} // those that Acquire took
	terms    uint64
	replicas int  // that lived at the last renewal
	failing  bool // the last renewal failed
	skewed   bool // the clocks differed at the last renewal
}

// grant is a lease that is held.
type grant struct {
	until time.Duration // by the monotonic clock
	term  uint64
}

// New returns a Coordinator that holds nothing yet.
func New(cfg Config) *Coordinator {
	if cfg.Work == nil {
		cfg.Work = func(context.Context) ([]string, error) { return nil, nil }
	}
	if cfg.Holder == "" {
		cfg.Holder = uuid.NewString()
	}
	if cfg.TTL <= 0 {
		cfg.TTL = 10 * time.Second
	}
	if cfg.Interval <= 0 {
		cfg.Interval = 3 * time.Second
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Elapsed == nil {
		start := time.Now()
		cfg.Elapsed = func() time.Duration { return time.Since(start) }
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Coordinator{
		cfg:    cfg,
		self:   replicaPrefix + cfg.Name + "/" + cfg.Holder,
		clock:  newClock(cfg.Now, cfg.Elapsed),
		calls:  make(chan struct{}, 1),
		gained: make(chan struct{}, 1),
		held:   make(map[string]grant),
		own:    make(map[string]struct{}),

		replicas: 1,
	}
}

// Holder returns the name under which the leases are held.
func (c *Coordinator) Holder() string { return c.cfg.Holder }

// Now returns the store's time, and the local one before the store has been asked.
// It goes on while the store is away and does not follow changes of the local clock.
func (c *Coordinator) Now() time.Time { return c.clock.now() }

// Skew returns how far the store's clock is ahead of the local one; 0 before the
// store has been asked.
func (c *Coordinator) Skew() time.Duration { return c.clock.skew() }

// Holds tells whether a lease is held.
func (c *Coordinator) Holds(name string) bool { return c.Term(name) != 0 }

// Term returns a number that is the same for as long as a lease has been held
// without a gap, another one each time it was gained, and 0 while it is not held.
func (c *Coordinator) Term(name string) uint64 {
	now := c.cfg.Elapsed()
	c.mu.Lock()
	defer c.mu.Unlock()
	if g := c.held[name]; now < g.until {
		return g.term
	}
	return 0
}

// Held returns the names with a prefix of the leases that are held, sorted.
func (c *Coordinator) Held(prefix string) []string {
	now := c.cfg.Elapsed()
	var names []string
	c.mu.Lock()
	for name, g := range c.held {
		if now < g.until && strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	c.mu.Unlock()
	slices.Sort(names)
	return names
}

// Replicas returns how many replicas live, this one among them, as of the last renewal.
func (c *Coordinator) Replicas() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.replicas
}

// Gained gets a value after leases of the work were gained. One reader at a time
// may wait for it.
func (c *Coordinator) Gained() <-chan struct{} { return c.gained }

// Run renews what is held and shares the work out until ctx ends, then gives up
// everything, for which it takes another interval at most. A renewal that fails is
// logged and tried again.
func (c *Coordinator) Run(ctx context.Context) {
	ticker := time.NewTicker(c.cfg.Interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			c.release(context.WithoutCancel(ctx))
			return
		case <-ticker.C:
			err := c.Renew(ctx)
			if ctx.Err() == nil {
				c.report(ctx, err)
			}
		}
	}
}

// Renew renews what is held, as Run does all the time, and takes the replica's share
// of the work, or gives back what is above it. It is for the start, before Run.
func (c *Coordinator) Renew(ctx context.Context) error {
	if err := c.lock(ctx); err != nil {
		return err
	}
	defer c.unlock()
	c.mu.Lock()
	names := []string{c.self}
	for name := range c.held {
		if name != c.self {
			names = append(names, name)
		}
	}
	c.mu.Unlock()
	regained, err := c.acquire(ctx, names)
	if err != nil {
		return fmt.Errorf("renew leases: %w", err)
	}
	gained, err := c.share(ctx)
	if regained+gained > 0 {
		select {
		case c.gained <- struct{}{}:
		default:
		}
	}
	if err != nil {
		return fmt.Errorf("share out the work: %w", err)
	}
	return nil
}

// Acquire takes a lease that is no part of the work and goes on renewing it, until
// Release or until the store says that another replica has it. It returns whether the
// lease is held now.
func (c *Coordinator) Acquire(ctx context.Context, name string) (bool, error) {
	if err := c.lock(ctx); err != nil {
		return false, err
	}
	defer c.unlock()
	c.mu.Lock()
	c.own[name] = struct{}{}
	c.mu.Unlock()
	if _, err := c.acquire(ctx, []string{name}); err != nil {
		// The store may have given it: what is not renewed expires.
		c.forget([]string{name})
		return false, fmt.Errorf("acquire lease %s: %w", name, err)
	}
	return c.Holds(name), nil
}

// Release gives up a lease that Acquire took. When that fails, the lease expires.
func (c *Coordinator) Release(ctx context.Context, name string) error {
	if err := c.lock(ctx); err != nil {
		return err
	}
	defer c.unlock()
	return c.giveUp(ctx, []string{name})
}

// lock waits for the turn to ask the store.
func (c *Coordinator) lock(ctx context.Context) error {
	select {
	case c.calls <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (c *Coordinator) unlock() { <-c.calls }

// acquire asks the store for leases and notes which of them are held. It returns
// how many were gained.
func (c *Coordinator) acquire(ctx context.Context, names []string) (gained int, err error) {
	// A renewal may have to wait for a transaction that is made under the lease. There
	// is time for a second one.
	ctx, cancel := context.WithTimeout(ctx, c.cfg.TTL/2)
	defer cancel()
	before := c.cfg.Elapsed()
	held, now, err := c.cfg.Store.AcquireLeases(ctx, c.cfg.Holder, names, c.cfg.TTL)
	if err != nil {
		return 0, err
	}
	after := c.cfg.Elapsed()
	c.clock.set(now, before, after)
	got := make(map[string]bool, len(held))
	for _, name := range held {
		got[name] = true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range names {
		if !got[name] {
			delete(c.held, name)
			delete(c.own, name)
			continue
		}
		// The old grant covers the call, or else somebody may have had the lease in between.
		term := c.held[name].term
		if term == 0 || c.held[name].until <= after {
			c.terms++
			term = c.terms
			gained++
		}
		c.held[name] = grant{until: before + c.cfg.TTL, term: term}
	}
	return gained, nil
}

// giveUp gives up leases.
func (c *Coordinator) giveUp(ctx context.Context, names []string) error {
	c.forget(names)
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Interval)
	defer cancel()
	if _, _, err := c.cfg.Store.AcquireLeases(ctx, c.cfg.Holder, names, 0); err != nil {
		return fmt.Errorf("give up leases: %w", err)
	}
	return nil
}

// forget holds leases no longer.
func (c *Coordinator) forget(names []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range names {
		delete(c.held, name)
		delete(c.own, name)
	}
}

// share takes this replica's share of the work, or gives back what it has more. The
// shares of all replicas that live add up to the work. It returns how
// many leases were gained.
func (c *Coordinator) share(ctx context.Context) (gained int, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Interval)
	defer cancel()
	work, err := c.cfg.Work(ctx)
	if err != nil {
		return 0, err
	}
	taken, err := c.cfg.Store.LeaseNames(ctx, "")
	if err != nil {
		return 0, err
	}
	isTaken := make(map[string]bool, len(taken))
	replicas, rank := 0, 0
	for _, name := range taken {
		isTaken[name] = true
		if strings.HasPrefix(name, replicaPrefix) {
			replicas++
			if name < c.self {
				rank++
			}
		}
	}
	if !isTaken[c.self] {
		return 0, errors.New("the store does not know of this replica any more")
	}
	isWork := make(map[string]bool, len(work))
	for _, name := range work {
		isWork[name] = true
	}
	share := len(isWork) / replicas
	if rank < len(isWork)%replicas {
		share++
	}

	var mine, back, free []string
	c.mu.Lock()
	c.replicas = replicas
	for name := range c.held {
		_, own := c.own[name]
		switch {
		case name == c.self || own:
		case isWork[name]:
			mine = append(mine, name)
		default: // the work is no more
			back = append(back, name)
		}
	}
	for name := range isWork {
		if _, held := c.held[name]; !held && !isTaken[name] {
			free = append(free, name)
		}
	}
	c.mu.Unlock()
	if len(mine) > share {
		shuffle(mine)
		back = append(back, mine[share:]...)
	}
	if len(back) > 0 {
		if err := c.giveUp(ctx, back); err != nil {
			return 0, err
		}
		c.cfg.Logger.InfoContext(ctx, "work is given back to the other replicas", "leases", len(back), "share", share, "replicas", replicas)
	}
	shuffle(free) // other replicas take some, too
	for len(mine)+gained < share && len(free) > 0 {
		want := min(share-len(mine)-gained, len(free))
		got, err := c.acquire(ctx, free[:want])
		if err != nil {
			return gained, err
		}
		gained += got
		free = free[want:]
	}
	if gained > 0 {
		c.cfg.Logger.InfoContext(ctx, "work is taken over", "leases", gained, "share", share, "replicas", replicas)
	}
	return gained, nil
}

func shuffle(names []string) {
	rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
}

// release gives up everything.
func (c *Coordinator) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Interval)
	defer cancel()
	err := c.lock(ctx)
	if err == nil {
		defer c.unlock()
		err = c.cfg.Store.ReleaseLeases(ctx, c.cfg.Holder)
	}
	c.mu.Lock()
	clear(c.held)
	clear(c.own)
	c.mu.Unlock()
	if err != nil {
		c.cfg.Logger.WarnContext(ctx, "leases were not released and expire", "ttl", c.cfg.TTL, "error", err)
	}
}

// warnSkew is a difference between the store's clock and the local one that is told.
const warnSkew = time.Second

// report logs when renewals begin to fail and when they work again, and when the
// clocks differ.
func (c *Coordinator) report(ctx context.Context, err error) {
	c.mu.Lock()
	wasFailing, wasSkewed := c.failing, c.skewed
	skew := c.clock.skew()
	c.failing, c.skewed = err != nil, skew.Abs() >= warnSkew
	failing, skewed := c.failing, c.skewed
	c.mu.Unlock()
	switch {
	case failing && !wasFailing:
		c.cfg.Logger.WarnContext(ctx, "leases cannot be renewed and shared out; other replicas take over those that expire", "ttl", c.cfg.TTL, "error", err)
	case wasFailing && !failing:
		c.cfg.Logger.InfoContext(ctx, "leases are renewed and shared out again")
	}
	if skewed && !wasSkewed {
		c.cfg.Logger.WarnContext(ctx, "the clock of this machine differs from the store's, by which everything is judged; synchronize it", "store_ahead_by", skew)
	}
}
