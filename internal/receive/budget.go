// SPDX-License-Identifier: Apache-2.0

package receive

import (
	"context"
	"slices"
	"sync"
	"time"

	"assay/internal/fair"
)

// budget limits the requests in flight and the bytes that they hold. Organizations share
// both (fair.Shares): when one of them is used up, the newest leases of the organization that
// holds most are ended, so that an organization within its share waits only until those have
// given back what they hold.
//
// A request above the share of its organization waits for others to end. Where several
// wait, the organization that would hold least comes first, and of one organization the
// leases that hold something already. When each of those waits, so that none would ever give
// something back, the newest one is ended.
type budget struct {
	capacity int64
	most     int64 // bytes of one lease

	mu       sync.Mutex
	bytes    *fair.Shares
	requests *fair.Shares
	ending   int64               // bytes of leases that were ended and have not given back
	accounts map[string]*account // of organizations with leases
	waiting  []*account          // those with waiters
}

// account has the leases of one organization.
type account struct {
	organization string
	leases       []*lease // the oldest first
	holders      int      // leases that hold bytes
	growers      []*lease // hold bytes and wait for more
	newcomers    []*lease // hold no bytes and wait
}

// newBudget returns a budget of so many bytes for so many requests. One lease gets at most
// three quarters of the bytes, or what the largest request needs, so that it does not have
// to give way to each small one.
func newBudget(capacity, largest int64, requests int) *budget {
	return &budget{
		capacity: capacity, most: min(max(capacity-capacity/4, largest), capacity),
		bytes: fair.NewShares(capacity), requests: fair.NewShares(int64(requests)), accounts: make(map[string]*account),
	}
}

func (b *budget) held() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.bytes.Total() + b.ending
}

// lease is what one request holds. Its methods are not safe for concurrent use.
type lease struct {
	budget  *budget
	maxWait time.Duration // left for waiting
	waited  time.Duration
	bytes   int64 // held

	// turn, if set, is given back while the lease waits, so that others can go on and
	// give back what it waits for.
	turn *turn

	// Guarded by budget.mu.
	account *account // nil: the lease has ended
	cancel  context.CancelCauseFunc
	asks    int64      // bytes that it waits for
	ready   chan error // takes the one answer
}

// begin returns the lease of a request whose organization is not known yet. It waits for at
// most maxWait in all. If the lease has to give way, begin's cancel is called with errBusy, and
// the request has to end soon. The error is errBusy.
//
// Requests without an organization count for one together. Its oldest ones give way: a
// credential is checked quickly, unless there are too many of them.
func (b *budget) begin(maxWait time.Duration, cancel context.CancelCauseFunc) (*lease, error) {
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
			b.evict(a.leases[0])
		default:
			b.evict(a.leases[len(a.leases)-1])
		}
	}
	l := &lease{budget: b, maxWait: maxWait, cancel: cancel, ready: make(chan error, 1)}
	b.join(l, "")
	b.settle()
	return l, nil
}

// identify sets the organization of a lease that holds no bytes yet.
func (l *lease) identify(organization string) {
	b := l.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if l.account != nil {
		b.leave(l)
		b.join(l, organization)
	}
}

// take adds n bytes to the lease, or as many as one lease can have. It returns errBusy
// when it cannot have them within maxWait, or the cause of the end of ctx.
func (l *lease) take(ctx context.Context, n int64) error {
	if l.budget.request(l, n) {
		return nil
	}
	if l.turn == nil {
		return l.wait(ctx)
	}
	l.turn.end()
	if err := l.wait(ctx); err != nil {
		return err
	}
	return l.turn.begin(ctx)
}

func (l *lease) wait(ctx context.Context) error {
	began := time.Now()
	defer func() {
		waited := time.Since(began)
		l.waited += waited
		l.maxWait = max(0, l.maxWait-waited)
	}()
	timer := time.NewTimer(l.maxWait)
	defer timer.Stop()
	var err error
	select {
	case err = <-l.ready:
		return err
	case <-timer.C:
		err = errBusy
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if !l.budget.abandon(l) {
		return <-l.ready // was answered meanwhile
	}
	return err
}

// give returns n bytes.
func (l *lease) give(n int64) {
	b := l.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	b.give(l, n)
	b.settle()
}

// end returns all bytes, and ends the lease.
func (l *lease) end() {
	b := l.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	b.give(l, l.bytes)
	if l.account != nil {
		b.leave(l)
		l.account = nil
	}
	b.settle()
}

func (b *budget) give(l *lease, n int64) {
	n = min(n, l.bytes)
	if n <= 0 {
		return
	}
	l.bytes -= n
	if l.account == nil {
		b.ending -= n
		return
	}
	b.bytes.Add(l.account.organization, -n)
	if l.bytes == 0 {
		l.account.holders--
	}
}

// request takes n bytes and reports whether it could do so at once. If it could not, the
// lease waits for the answer.
func (b *budget) request(l *lease, n int64) (ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n = min(n, b.most-l.bytes)
	if n <= 0 {
		return true
	}
	if l.account == nil {
		l.ready <- errBusy
		return false
	}
	a := l.account
	if len(a.growers)+len(a.newcomers) == 0 {
		b.waiting = append(b.waiting, a)
	}
	queue := a.queue(l)
	*queue = append(*queue, l)
	l.asks = n
	b.settle()
	select {
	case err := <-l.ready:
		if err == nil {
			return true
		}
		l.ready <- err
	default:
	}
	return false
}

// abandon stops waiting. It returns false when the lease has its answer.
func (b *budget) abandon(l *lease) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if l.asks == 0 {
		return false
	}
	b.unwait(l)
	b.settle()
	return true
}

// settle serves the waiters in order, until one has to go on waiting.
func (b *budget) settle() {
	for {
		a := b.next()
		if a == nil {
			return
		}
		l := a.first()
		loser, full := b.bytes.GivesWay(a.organization, l.asks)
		switch {
		case !full && l.asks > b.capacity-b.bytes.Total()-b.ending:
			return // until ended leases have given back
		case !full:
			b.grant(l)
		case loser != a.organization:
			b.evict(b.accounts[loser].newest())
		default:
			stuck := b.stuck(a)
			if stuck == nil {
				return
			}
			b.evict(stuck)
		}
	}
}

// next returns the account to be served first: the one that would hold least.
func (b *budget) next() (next *account) {
	for _, a := range b.waiting {
		if next == nil || b.then(a) < b.then(next) {
			next = a
		}
	}
	return next
}

// then returns what an account holds once its first waiter is served.
func (b *budget) then(a *account) int64 { return b.bytes.Held(a.organization) + a.first().asks }

// stuck returns the lease to be ended, so that others can go on, when a is to be served next
// and its request is above its share; nil if leases that do not wait will give something back.
func (b *budget) stuck(a *account) *lease {
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
		if other.holders > 0 && (last.holders == 0 || b.then(other) > b.then(last)) {
			last = other
		}
	}
	return last.newest()
}

func (b *budget) grant(l *lease) {
	if l.bytes == 0 {
		l.account.holders++
	}
	n := l.asks
	b.unwait(l)
	l.bytes += n
	b.bytes.Add(l.account.organization, n)
	l.ready <- nil
}

// evict ends a lease, which gives back what it holds as soon as its request has ended.
func (b *budget) evict(l *lease) {
	l.cancel(errBusy)
	if l.asks > 0 {
		b.unwait(l)
		l.ready <- errBusy
	}
	b.leave(l)
	l.account = nil
	b.ending += l.bytes
}

// join adds a lease to the account of an organization.
func (b *budget) join(l *lease, organization string) {
	a := b.accounts[organization]
	if a == nil {
		a = &account{organization: organization}
		b.accounts[organization] = a
	}
	a.leases = append(a.leases, l)
	if l.bytes > 0 {
		a.holders++
	}
	l.account = a
	b.requests.Add(organization, 1)
	b.bytes.Add(organization, l.bytes)
}

// leave removes a lease, which does not wait, from its account.
func (b *budget) leave(l *lease) {
	a := l.account
	i := slices.Index(a.leases, l)
	a.leases = slices.Delete(a.leases, i, i+1)
	if l.bytes > 0 {
		a.holders--
	}
	if len(a.leases) == 0 {
		delete(b.accounts, a.organization)
	}
	b.requests.Add(a.organization, -1)
	b.bytes.Add(a.organization, -l.bytes)
}

// unwait removes a lease from those that wait.
func (b *budget) unwait(l *lease) {
	a := l.account
	queue := a.queue(l)
	i := slices.Index(*queue, l)
	*queue = slices.Delete(*queue, i, i+1)
	l.asks = 0
	if len(a.growers)+len(a.newcomers) == 0 {
		i := slices.Index(b.waiting, a)
		b.waiting = slices.Delete(b.waiting, i, i+1)
	}
}

// queue returns the queue in which a lease waits.
func (a *account) queue(l *lease) *[]*lease {
	if l.bytes > 0 {
		return &a.growers
	}
	return &a.newcomers
}

// first returns the lease to be served first.
func (a *account) first() *lease {
	if len(a.growers) > 0 {
		return a.growers[0]
	}
	return a.newcomers[0]
}

// newest returns the newest lease that holds bytes, of which there is one.
func (a *account) newest() *lease {
	for _, l := range slices.Backward(a.leases) {
		if l.bytes > 0 {
			return l
		}
	}
	return nil
}
