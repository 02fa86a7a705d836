// SPDX-License-Identifier: Apache-2.0

package receive

import (
	"context"
	"slices"
	"sync"
	"time"

	"assay/internal/fair"
)

// budget limits the number of requests in flight and the bytes that they hold. Organizations share both through
// fair.Shares. When one of the two is exhausted, the budget evicts the newest reservations of the organization that
// holds most. An organization within its share waits only until the evicted requests have released their memory.
//
// A request above the share of its organization waits for other requests to end. Of several waiters, the organization that
// would hold least is served first. Within an organization, reservations that already hold bytes are served first. If
// all of them wait, so that none would ever release anything, the newest one is evicted.
type budget struct {
	capacity       int64
	maxReservation int64 // maximum bytes of one reservation

	mu       sync.Mutex
	bytes    *fair.Shares
	requests *fair.Shares
	ending   int64               // bytes of evicted reservations, until they are released
	accounts map[string]*account // by organization; only those with reservations
	waiting  []*account          // accounts with waiters
}

// account holds the reservations of one organization.
type account struct {
	organization string
	reservations []*reservation // oldest first
	holders      int            // number of reservations that hold bytes
	growers      []*reservation // hold bytes and wait for more
	newcomers    []*reservation // hold no bytes and wait
}

// newBudget returns a budget of capacity bytes for the given number of requests. One reservation is limited to three
// quarters of the bytes, or to the size of the largest request, so that it is not evicted for each small request.
func newBudget(capacity, largest int64, requests int) *budget {
	return &budget{
		capacity: capacity, maxReservation: min(max(capacity-capacity/4, largest), capacity),
		bytes: fair.NewShares(capacity), requests: fair.NewShares(int64(requests)), accounts: make(map[string]*account),
	}
}

func (b *budget) held() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.bytes.Total() + b.ending
}

// reservation is the memory reserved by one request. Its methods are not safe for concurrent use.
type reservation struct {
	budget  *budget
	maxWait time.Duration // remaining
	waited  time.Duration
	bytes   int64

	most int64 // content of the fullest freed buffer, in bytes

	// cpu, if set, is released while the reservation waits, so that other requests can finish and release memory.
	cpu *cpuSlot

	// Guarded by budget.mu.
	account   *account // nil after the end or an eviction
	cancel    context.CancelCauseFunc
	requested int64      // bytes it waits for; 0 while not waiting
	ready     chan error // receives the result of a wait
}

// begin returns the reservation of a request whose organization is not known yet. Its waits are limited to maxWait in
// total. If the reservation is evicted, the budget calls cancel with errBusy, and the request has to end soon. begin
// returns errBusy if there is no room.
//
// Requests without an organization share one account. The oldest of them are evicted first: checking a credential is
// fast unless there are too many of them.
func (b *budget) begin(maxWait time.Duration, cancel context.CancelCauseFunc) (*reservation, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for {
		loser, full := b.requests.GivesWay("", 1)
		if !full {
			break
		}
		a := b.accounts[loser]
		switch {
		case a == nil:
			return nil, errBusy
		case loser == "":
			b.evict(a.reservations[0])
		default:
			b.evict(a.reservations[len(a.reservations)-1])
		}
	}
	r := &reservation{budget: b, maxWait: maxWait, cancel: cancel, ready: make(chan error, 1)}
	b.join(r, "")
	b.serveWaiters()
	return r, nil
}

// identify sets the organization of a reservation that holds no bytes yet.
func (r *reservation) identify(organization string) {
	b := r.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if r.account != nil {
		b.leave(r)
		b.join(r, organization)
	}
}

// take adds n bytes to the reservation, up to the maximum of one reservation. It returns errBusy after maxWait, or
// the cause if ctx ends.
func (r *reservation) take(ctx context.Context, n int64) error {
	if r.budget.request(r, n) {
		return nil
	}
	if r.cpu == nil {
		return r.wait(ctx)
	}
	r.cpu.release()
	if err := r.wait(ctx); err != nil {
		return err
	}
	return r.cpu.acquire(ctx)
}

func (r *reservation) wait(ctx context.Context) error {
	began := time.Now()
	defer func() {
		waited := time.Since(began)
		r.waited += waited
		r.maxWait = max(0, r.maxWait-waited)
	}()
	timer := time.NewTimer(r.maxWait)
	defer timer.Stop()
	var err error
	select {
	case err = <-r.ready:
		return err
	case <-timer.C:
		err = errBusy
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if !r.budget.abandon(r) {
		return <-r.ready // answered in the meantime
	}
	return err
}

// give releases n bytes.
func (r *reservation) give(n int64) {
	b := r.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	b.give(r, n)
	b.serveWaiters()
}

// end releases all bytes and ends the reservation.
func (r *reservation) end() {
	b := r.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	b.give(r, r.bytes)
	if r.account != nil {
		b.leave(r)
		r.account = nil
	}
	b.serveWaiters()
}

func (b *budget) give(r *reservation, n int64) {
	n = min(n, r.bytes)
	if n <= 0 {
		return
	}
	r.bytes -= n
	if r.account == nil {
		b.ending -= n
		return
	}
	b.bytes.Add(r.account.organization, -n)
	if r.bytes == 0 {
		r.account.holders--
	}
}

// request takes n bytes and reports whether it could do so without waiting. If not, the result arrives on r.ready.
func (b *budget) request(r *reservation, n int64) (ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n = min(n, b.maxReservation-r.bytes)
	if n <= 0 {
		return true
	}
	if r.account == nil {
		r.ready <- errBusy
		return false
	}
	a := r.account
	if len(a.growers)+len(a.newcomers) == 0 {
		b.waiting = append(b.waiting, a)
	}
	queue := a.queue(r)
	*queue = append(*queue, r)
	r.requested = n
	b.serveWaiters()
	select {
	case err := <-r.ready:
		if err == nil {
			return true
		}
		r.ready <- err
	default:
	}
	return false
}

// abandon stops waiting. It returns false if the reservation has its result.
func (b *budget) abandon(r *reservation) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r.requested == 0 {
		return false
	}
	b.dequeue(r)
	b.serveWaiters()
	return true
}

// serveWaiters serves the waiters in order until one has to keep waiting.
func (b *budget) serveWaiters() {
	for {
		a := b.next()
		if a == nil {
			return
		}
		r := a.first()
		loser, full := b.bytes.GivesWay(a.organization, r.requested)
		switch {
		case !full && r.requested > b.capacity-b.bytes.Total()-b.ending:
			return // until evicted reservations release their bytes
		case !full:
			b.grant(r)
		case loser != a.organization:
			b.evict(b.accounts[loser].newest())
		default:
			deadlocked := b.deadlocked(a)
			if deadlocked == nil {
				return
			}
			b.evict(deadlocked)
		}
	}
}

// next returns the account to serve first: the one that would hold least.
func (b *budget) next() (next *account) {
	for _, a := range b.waiting {
		if next == nil || b.heldAfter(a) < b.heldAfter(next) {
			next = a
		}
	}
	return next
}

// heldAfter returns the bytes that an account holds once its first waiter is served.
func (b *budget) heldAfter(a *account) int64 {
	return b.bytes.Held(a.organization) + a.first().requested
}

// deadlocked returns the reservation to evict to resolve a deadlock, when a is next and its request is above its share. It
// returns nil if a reservation that does not wait will release bytes.
func (b *budget) deadlocked(a *account) *reservation {
	if b.ending > 0 {
		return nil
	}
	if len(a.growers) == a.holders && a.holders > 1 {
		return a.newest()
	}
	last := a
	for _, other := range b.accounts {
		if len(other.growers) < other.holders {
			return nil
		}
	}
	for _, other := range b.waiting {
		if other.holders > 0 && (last.holders == 0 || b.heldAfter(other) > b.heldAfter(last)) {
			last = other
		}
	}
	return last.newest()
}

func (b *budget) grant(r *reservation) {
	if r.bytes == 0 {
		r.account.holders++
	}
	n := r.requested
	b.dequeue(r)
	r.bytes += n
	b.bytes.Add(r.account.organization, n)
	r.ready <- nil
}

// evict ends a reservation. Its bytes are released when its request has ended.
func (b *budget) evict(r *reservation) {
	r.cancel(errBusy)
	if r.requested > 0 {
		b.dequeue(r)
		r.ready <- errBusy
	}
	b.leave(r)
	r.account = nil
	b.ending += r.bytes
}

// join adds a reservation to the account of an organization.
func (b *budget) join(r *reservation, organization string) {
	a := b.accounts[organization]
	if a == nil {
		a = &account{organization: organization}
		b.accounts[organization] = a
	}
	a.reservations = append(a.reservations, r)
	if r.bytes > 0 {
		a.holders++
	}
	r.account = a
	b.requests.Add(organization, 1)
	b.bytes.Add(organization, r.bytes)
}

// leave removes a reservation from its account. The reservation must not be waiting.
func (b *budget) leave(r *reservation) {
	a := r.account
	i := slices.Index(a.reservations, r)
	a.reservations = slices.Delete(a.reservations, i, i+1)
	if r.bytes > 0 {
		a.holders--
	}
	if len(a.reservations) == 0 {
		delete(b.accounts, a.organization)
	}
	b.requests.Add(a.organization, -1)
	b.bytes.Add(a.organization, -r.bytes)
}

// dequeue removes a reservation from its queue.
func (b *budget) dequeue(r *reservation) {
	a := r.account
	queue := a.queue(r)
	i := slices.Index(*queue, r)
	*queue = slices.Delete(*queue, i, i+1)
	r.requested = 0
	if len(a.growers)+len(a.newcomers) == 0 {
		i := slices.Index(b.waiting, a)
		b.waiting = slices.Delete(b.waiting, i, i+1)
	}
}

// queue returns the queue in which a reservation waits.
func (a *account) queue(r *reservation) *[]*reservation {
	if r.bytes > 0 {
		return &a.growers
	}
	return &a.newcomers
}

// first returns the reservation to serve first.
func (a *account) first() *reservation {
	if len(a.growers) > 0 {
		return a.growers[0]
	}
	return a.newcomers[0]
}

// newest returns the newest reservation that holds bytes. There must be one.
func (a *account) newest() *reservation {
	for _, r := range slices.Backward(a.reservations) {
		if r.bytes > 0 {
			return r
		}
	}
	return nil
}
