// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"cmp"
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

// replicaPrefix is the prefix of the leases that mark live replicas.
const replicaPrefix = "replica:"

// Config configures a Coordinator. Store is required. Other zero fields select the default.
type Config struct {
	Store Store
	// Work returns the names of the leases that the replicas share. Default: none.
	Work func(ctx context.Context) ([]string, error)
	// Name is the human-readable name of the replica, without a slash. A Coordinator without a name is no replica and
	// gets no work. It only knows the store's time.
	Name string
	// Holder is unique to the process. Default: a random UUID.
	Holder   string
	TTL      time.Duration        // duration of a lease; default 10 s
	Interval time.Duration        // between renewals; default 3 s
	Now      func() time.Time     // local wall clock; default time.Now
	Elapsed  func() time.Duration // local monotonic clock; default that of package time
	Logger   *slog.Logger
}

// Coordinator holds leases for one replica and knows the store's time. It is safe for concurrent use.
//
// It measures the duration of a lease from before the call of the store, by the monotonic clock. So a lease expires
// here before it expires in the store, and a held lease is held by no other replica. That is not a fence: a caller
// may act late, after it has checked. Operations that must not happen twice have to check the lease in their own
// transaction.
type Coordinator struct {
	cfg   Config
	self  string // lease that marks this replica as live
	clock *clock
	calls chan struct{} // serializes calls of the store, so that results arrive in order

	gained chan struct{}

	mu       sync.Mutex
	held     map[string]grant
	own      map[string]struct{} // leases from Acquire
	terms    uint64
	replicas int  // live replicas at the last renewal
	failing  bool // the last renewal failed
	skewed   bool // the clocks differed at the last renewal
}

// grant is a held lease.
type grant struct {
	until time.Duration // monotonic clock
	term  uint64
}

// New returns a Coordinator that holds no leases.
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
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
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

// Holder returns the holder name of the leases.
func (c *Coordinator) Holder() string { return c.cfg.Holder }

// Now returns the store's time, or the local time before the first call of the store. It continues while the store is
// unavailable and ignores changes of the local clock.
func (c *Coordinator) Now() time.Time { return c.clock.now() }

// Skew returns how far the store's clock is ahead of the local clock, or 0 before the first call of the store.
func (c *Coordinator) Skew() time.Duration { return c.clock.skew() }

// Holds reports whether a lease is held.
func (c *Coordinator) Holds(name string) bool { return c.Term(name) != 0 }

// Term returns a number that is constant while a lease is held without interruption and differs for each acquisition.
// It is 0 while the lease is not held.
func (c *Coordinator) Term(name string) uint64 {
	now := c.cfg.Elapsed()
	c.mu.Lock()
	defer c.mu.Unlock()
	if g := c.held[name]; now < g.until {
		return g.term
	}
	return 0
}

// Held returns the sorted names of the held leases with a prefix.
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

// Replicas returns the number of live replicas, including this one, at the last renewal.
func (c *Coordinator) Replicas() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.replicas
}

// Gained receives a value after work leases were gained. It supports one receiver at a time.
func (c *Coordinator) Gained() <-chan struct{} { return c.gained }

// Run renews the leases and takes its share of the work until ctx ends. Then it releases all leases, for at most one
// interval. A failed renewal is logged and retried.
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

// Renew renews the leases once, as Run does periodically, and takes the replica's share of the work or releases the part that
// exceeds it. Call it at the start, before Run.
func (c *Coordinator) Renew(ctx context.Context) error {
	if err := c.lock(ctx); err != nil {
		return err
	}
	defer c.unlock()
	if c.cfg.Name == "" {
		_, err := c.acquire(ctx, nil)
		return err
	}
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
		return fmt.Errorf("distribute work: %w", err)
	}
	return nil
}

// Acquire acquires a lease that is not part of the work. It is renewed until Release or until another replica holds
// it. Acquire reports whether the lease is held.
func (c *Coordinator) Acquire(ctx context.Context, name string) (bool, error) {
	if err := c.lock(ctx); err != nil {
		return false, err
	}
	defer c.unlock()
	c.mu.Lock()
	c.own[name] = struct{}{}
	c.mu.Unlock()
	if _, err := c.acquire(ctx, []string{name}); err != nil {
		// The store may have granted it. Without renewal it expires.
		c.forget([]string{name})
		return false, fmt.Errorf("acquire lease %s: %w", name, err)
	}
	return c.Holds(name), nil
}

// Release releases a lease from Acquire. On errors the lease expires.
func (c *Coordinator) Release(ctx context.Context, name string) error {
	if err := c.lock(ctx); err != nil {
		return err
	}
	defer c.unlock()
	return c.giveUp(ctx, []string{name})
}

// lock serializes calls of the store.
func (c *Coordinator) lock(ctx context.Context) error {
	select {
	case c.calls <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (c *Coordinator) unlock() { <-c.calls }

// acquire requests leases from the store and records the ones held. It returns the number gained.
func (c *Coordinator) acquire(ctx context.Context, names []string) (gained int, err error) {
	// A renewal may wait for a transaction that holds the lease. Leave time for a second renewal.
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
		// If the old grant does not cover the call, another replica may have held the lease in between.
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

// giveUp releases leases.
func (c *Coordinator) giveUp(ctx context.Context, names []string) error {
	c.forget(names)
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Interval)
	defer cancel()
	if _, _, err := c.cfg.Store.AcquireLeases(ctx, c.cfg.Holder, names, 0); err != nil {
		return fmt.Errorf("release leases: %w", err)
	}
	return nil
}

// forget removes leases from the held ones.
func (c *Coordinator) forget(names []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range names {
		delete(c.held, name)
		delete(c.own, name)
	}
}

// share takes this replica's share of the work, or releases the part that exceeds it. The shares of all live replicas add up
// to the work. share returns the number of leases gained.
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
		return 0, errors.New("the lease of this replica has expired")
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
		default: // the work no longer exists
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
		c.cfg.Logger.InfoContext(ctx, "released work to other replicas", "leases", len(back), "share", share, "replicas", replicas)
	}
	shuffle(free) // avoid conflicts with other replicas
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
		c.cfg.Logger.InfoContext(ctx, "acquired work", "leases", gained, "share", share, "replicas", replicas)
	}
	return gained, nil
}

func shuffle(names []string) {
	rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
}

// release releases all leases.
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
		c.cfg.Logger.WarnContext(ctx, "failed to release leases, they will expire", "ttl", c.cfg.TTL, "error", err)
	}
}

// warnSkew is the difference between the store's clock and the local clock above which a warning is logged.
const warnSkew = time.Second

// report logs when renewals start to fail and when they succeed again, and when the clocks differ.
func (c *Coordinator) report(ctx context.Context, err error) {
	c.mu.Lock()
	wasFailing, wasSkewed := c.failing, c.skewed
	skew := c.clock.skew()
	c.failing, c.skewed = err != nil, skew.Abs() >= warnSkew
	failing, skewed := c.failing, c.skewed
	c.mu.Unlock()
	switch {
	case failing && !wasFailing:
		c.cfg.Logger.WarnContext(ctx, "leases cannot be renewed; other replicas take over expired leases", "ttl", c.cfg.TTL, "error", err)
	case wasFailing && !failing:
		c.cfg.Logger.InfoContext(ctx, "leases are renewed again")
	}
	if skewed && !wasSkewed {
		c.cfg.Logger.WarnContext(ctx, "the local clock differs from the store's clock, which is authoritative; synchronize it", "store_ahead_by", skew)
	}
}
