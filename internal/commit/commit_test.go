// SPDX-License-Identifier: Apache-2.0

package commit

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"assay"
	"assay/internal/delta"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memory is a store that counts items by service name. Before each transaction it calls fail, if set, and waits for
// the configured duration.
type memory struct {
	mu    sync.Mutex
	fail  func(requests []delta.Request, d *delta.Delta) error
	lasts time.Duration

	perRequest time.Duration // additional duration per request
	perRow     time.Duration // additional duration per row
	seen       map[delta.Request]bool
	items      map[string]uint64
	groups     []int // requests by transaction
	begun      []time.Time
	repeated   bool // transactions call merge twice
}

func (m *memory) Commit(ctx context.Context, _ time.Time, requests []delta.Request, merge func([]bool) *delta.Delta) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.groups, m.begun = append(m.groups, len(requests)), append(m.begun, time.Now())
	fresh := make([]bool, len(requests))
	now := make(map[delta.Request]bool)
	for i, r := range requests {
		fresh[i] = !m.seen[r] && !now[r]
		now[r] = true
	}
	d := merge(fresh)
	if m.repeated {
		d = merge(fresh)
	}
	if lasts := m.lasts + time.Duration(len(requests))*m.perRequest + time.Duration(written(d))*m.perRow; lasts > 0 {
		select {
		case <-time.After(lasts):
		case <-ctx.Done():
			return &assay.Error{Code: assay.CodeUnavailable, Message: "too slow", Err: ctx.Err()}
		}
	}
	if m.fail != nil {
		if err := m.fail(requests, d); err != nil {
			return err
		}
	}
	if m.seen == nil {
		m.seen, m.items = make(map[delta.Request]bool), make(map[string]uint64)
	}
	for r := range now {
		m.seen[r] = true
	}
	for _, o := range d.Organizations {
		for k, s := range o.Services {
			for i := range s.Usage {
				m.items[k.Name] += s.Usage[i].Usage[delta.Traces].Items
			}
		}
	}
	return nil
}

func (m *memory) count(name string) uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.items[name]
}

// fact is one item of a service, with a hash to be remembered, and claims of many keys.
type fact struct {
	name         string
	hash         uint64
	from, claims int
}

func (f fact) MergeInto(d *delta.Delta) {
	s := d.Organization("o").Service(assay.ServiceKey{Name: f.name})
	s.AddUsage(0, delta.Traces, delta.Usage{Items: 1})
	for i := range f.claims {
		s.AddClaim(delta.Claim{Key: delta.Hash128{High: 1, Low: uint64(f.from + i)}}, delta.ClaimFact{Last: 1})
	}
	d.Remember = append(d.Remember, f.hash)
}

func (f fact) Rows() int { return 1 + f.claims }

func request(n int) *delta.Request {
	return &delta.Request{OrganizationID: "o", Hash: [16]byte{byte(n), byte(n >> 8), byte(n >> 16)}}
}

func committer(store Store, set ...func(*Config)) *Committer {
	cfg := Config{Store: store, Filter: delta.NewFilter(10)}
	for _, f := range set {
		f(&cfg)
	}
	return New(cfg)
}

// submitter returns a function that submits a request of an organization in a goroutine of wg.
func submitter(t *testing.T, c *Committer, wg *sync.WaitGroup) func(organization string, n, rows int) {
	return func(organization string, n, rows int) {
		wg.Go(func() {
			r := request(n)
			r.OrganizationID = organization
			_, err := c.Submit(t.Context(), r, fact{name: organization, claims: rows})
			require.NoError(t, err)
		})
	}
}

func TestGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{}
		c := committer(m)
		defer c.Close()
		began := time.Now()
		fresh, err := c.Submit(t.Context(), request(0), fact{name: "first"})
		require.NoError(t, err)
		require.True(t, fresh)
		require.Zero(t, time.Since(began), "no wait after an idle interval")

		const n = 500
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				_, err := c.Submit(t.Context(), request(i+1), fact{name: "a", hash: uint64(i + 1)})
				require.NoError(t, err)
			})
		}
		wg.Wait()
		require.Equal(t, 100*time.Millisecond, time.Since(began), "the rest is one group, an interval later")
		require.Equal(t, []int{1, n}, m.groups)
		require.EqualValues(t, n, m.count("a"))
		require.True(t, c.cfg.Filter.Has(7))
	})
}

func TestRepeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{repeated: true}
		c := committer(m)
		defer c.Close()
		_, err := c.Submit(t.Context(), nil, fact{name: "warm"}) // the next submissions share a group
		require.NoError(t, err)
		var wg sync.WaitGroup
		var mu sync.Mutex
		news := 0
		for range 5 {
			wg.Go(func() {
				fresh, err := c.Submit(t.Context(), request(1), fact{name: "a"})
				require.NoError(t, err)
				mu.Lock()
				defer mu.Unlock()
				if fresh {
					news++
				}
			})
		}
		wg.Wait()
		require.Equal(t, []int{0, 5}, m.groups)
		require.Equal(t, 1, news)
		require.EqualValues(t, 1, m.count("a"), "one of a group counts, also when the transaction is retried")
		fresh, err := c.Submit(t.Context(), request(1), fact{name: "a"})
		require.NoError(t, err)
		require.False(t, fresh, "a later one does not count")
		require.EqualValues(t, 1, m.count("a"))
		for range 2 {
			fresh, err := c.Submit(t.Context(), nil, fact{name: "no request"})
			require.NoError(t, err)
			require.True(t, fresh, "facts without a request always count")
		}
		require.EqualValues(t, 2, m.count("no request"))
	})
}

// TestCommitted: Committed is called after the transaction and before the senders get their results, in order, once
// per transaction.
func TestCommitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const senders = 6
		var heard []map[string]assay.SeverityCounts
		var results atomic.Int32
		m := &memory{lasts: time.Second, repeated: true}
		c := committer(m, func(c *Config) {
			c.Interval = 10 * time.Second
			c.Committed = func(records map[string]assay.SeverityCounts) {
				time.Sleep(time.Second) // senders wait for this call
				require.Len(t, m.begun, len(heard)+2, "called between its transaction and the next")
				require.EqualValues(t, senders*len(heard), results.Load(), "its senders are waiting")
				heard = append(heard, records)
			}
		})
		defer c.Close()
		_, err := c.Submit(t.Context(), nil, fact{name: "warm"}) // the next submissions share groups
		require.NoError(t, err)
		for round := range 3 {
			var wg sync.WaitGroup
			for i := range senders {
				wg.Go(func() { // two senders send the same request
					_, err := c.Submit(t.Context(), request(10*round+max(i, 1)), logRecords{fmt.Sprint("o", max(i, 1)%2), 1})
					require.NoError(t, err)
					results.Add(1)
				})
			}
			wg.Wait()
		}
		want := map[string]assay.SeverityCounts{"o0": {assay.SeverityError: 2}, "o1": {assay.SeverityError: 3}}
		require.Equal(t, []map[string]assay.SeverityCounts{want, want, want}, heard)
	})
}

// TestCommittedNothing: Committed is not called without log records or without a commit.
func TestCommittedNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		heard := 0
		m := &memory{}
		c := committer(m, func(c *Config) { c.Committed = func(map[string]assay.SeverityCounts) { heard++ } })
		defer c.Close()
		_, err := c.Submit(t.Context(), request(1), fact{name: "a"})
		require.NoError(t, err)
		m.mu.Lock()
		m.fail = func([]delta.Request, *delta.Delta) error { return errors.New("disk full") }
		m.mu.Unlock()
		_, err = c.Submit(t.Context(), request(2), logRecords{"o", 1})
		require.Error(t, err)
		m.mu.Lock()
		m.fail = nil
		m.mu.Unlock()
		require.Zero(t, heard)
		for range 2 {
			_, err = c.Submit(t.Context(), request(2), logRecords{"o", 1})
			require.NoError(t, err)
			require.Equal(t, 1, heard)
		}
	})
}

// logRecords are n ERROR records of an organization.
type logRecords struct {
	org string
	n   uint64
}

func (l logRecords) MergeInto(d *delta.Delta) {
	d.Organization(l.org).LogRecords[assay.SeverityError] += l.n
}

func (l logRecords) Rows() int { return 1 }

func TestFailingStore(t *testing.T) {
	for name, failure := range map[string]error{
		"unavailable": assay.Errorf(assay.CodeUnavailable, "busy"),
		"other":       errors.New("disk full"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &memory{fail: func([]delta.Request, *delta.Delta) error { return failure }}
				c := committer(m)
				defer c.Close()
				var wg sync.WaitGroup
				for i := range 20 {
					wg.Go(func() {
						fresh, err := c.Submit(t.Context(), request(i), fact{name: "a", hash: 77})
						require.False(t, fresh)
						require.Equal(t, assay.CodeUnavailable, assay.ErrorCode(err))
						require.ErrorIs(t, err, failure)
					})
				}
				wg.Wait()
				require.False(t, c.cfg.Filter.Has(77), "uncommitted facts are not in the filter")
				if name == "unavailable" {
					require.LessOrEqual(t, len(m.groups), 2, "halves are not tried")
				}
				m.mu.Lock()
				m.fail = nil
				m.mu.Unlock()
				fresh, err := c.Submit(t.Context(), request(3), fact{name: "a", hash: 77})
				require.NoError(t, err)
				require.True(t, fresh, "a retry is accepted")
				require.True(t, c.cfg.Filter.Has(77))
			})
		})
	}
}

func TestSlowStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{lasts: time.Hour}
		c := committer(m, func(c *Config) { c.Timeout = 3 * time.Second })
		defer c.Close()
		began := time.Now()
		_, err := c.Submit(t.Context(), request(1), fact{name: "a"})
		require.Equal(t, assay.CodeUnavailable, assay.ErrorCode(err))
		require.Equal(t, 3*time.Second, time.Since(began))
	})
}

// TestGroupsShrink: a group that takes too long is retried in smaller groups.
func TestGroupsShrink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{perRequest: 100 * time.Millisecond}
		c := committer(m, func(c *Config) { c.Timeout = 2 * time.Second }) // 20 requests
		defer c.Close()
		_, err := c.Submit(t.Context(), nil, fact{name: "warm"})
		require.NoError(t, err)
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				for {
					if _, err := c.Submit(t.Context(), request(i), fact{name: "a"}); err == nil {
						return
					}
					time.Sleep(time.Millisecond)
				}
			})
		}
		wg.Wait()
		require.EqualValues(t, 100, m.count("a"))
	})
}

// TestFaultySubmission: a request that the store rejects does not fail others.
func TestFaultySubmission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		poison := *request(3)
		m := &memory{fail: func(requests []delta.Request, _ *delta.Delta) error {
			for _, r := range requests {
				if r == poison {
					return errors.New("constraint failed")
				}
			}
			return nil
		}}
		c := committer(m)
		defer c.Close()
		_, err := c.Submit(t.Context(), nil, fact{name: "warm"})
		require.NoError(t, err)
		var wg sync.WaitGroup
		for i := range 10 {
			wg.Go(func() {
				_, err := c.Submit(t.Context(), request(i), fact{name: fmt.Sprint("s", i)})
				if i == 3 {
					require.Equal(t, assay.CodeUnavailable, assay.ErrorCode(err))
				} else {
					require.NoError(t, err)
				}
			})
		}
		wg.Wait()
		for i := range 10 {
			want := uint64(1)
			if i == 3 {
				want = 0
			}
			require.Equal(t, want, m.count(fmt.Sprint("s", i)))
		}
	})
}

// TestFaultySubmissionBeforeOutage: if the store becomes unavailable while parts of a group are retried, the Committer does
// not wait for a timeout per part.
func TestFaultySubmissionBeforeOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{}
		m.fail = func(requests []delta.Request, _ *delta.Delta) error {
			if len(requests) > 1 {
				m.lasts = time.Hour // from the next transaction on
				return errors.New("constraint failed")
			}
			return nil
		}
		c := committer(m)
		defer c.Close()
		_, err := c.Submit(t.Context(), nil, fact{name: "warm"})
		require.NoError(t, err)
		began := time.Now()
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				_, err := c.Submit(t.Context(), request(i), fact{name: "a"})
				require.Equal(t, assay.CodeUnavailable, assay.ErrorCode(err))
			})
		}
		wg.Wait()
		require.Less(t, time.Since(began), 10*time.Second)
	})
}

// TestFullQueue: two greedy organizations fill the queue. Neither may add to it. Their newest submissions are evicted
// for those of a third organization, except those in a transaction. Facts without a request are always accepted.
func TestFullQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{lasts: 2 * time.Second}
		c := committer(m, func(c *Config) { c.Pending = 4 })
		defer c.Close()
		submit := func(organization string, n int) <-chan error {
			done := make(chan error, 1)
			var r *delta.Request
			if organization != "" {
				r = request(n)
				r.OrganizationID = organization
			}
			go func() {
				_, err := c.Submit(t.Context(), r, fact{name: "a"})
				done <- err
			}()
			synctest.Wait()
			return done
		}
		refused := func(done <-chan error) {
			t.Helper()
			require.Len(t, done, 1, "at once")
			require.Equal(t, assay.CodeUnavailable, assay.ErrorCode(<-done))
		}
		taken := []<-chan error{
			submit("greedy", 0), // in a transaction
			submit("greedy", 1), submit("greed", 1),
		}
		first, second := submit("greedy", 2), submit("greed", 2)
		refused(submit("greedy", 3))
		refused(submit("greed", 3))
		taken = append(taken, submit("", 0), submit("", 0), submit("third", 0))
		refused(second)
		require.Empty(t, first)
		taken = append(taken, submit("fourth", 0))
		refused(first)
		refused(submit("fourth", 1))
		taken = append(taken, submit("", 0))
		for _, done := range taken {
			require.NoError(t, <-done)
		}
		require.EqualValues(t, len(taken), m.count("a"))
	})
}

// TestTurns: many rows of one organization neither make a transaction long nor delay the request of another
// organization.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const each = 200
		m := &memory{perRow: time.Millisecond / 2}
		c := committer(m, func(c *Config) { c.Timeout, c.Rows = time.Hour, 1<<20 })
		defer c.Close()
		submit := func(organization string, n int) {
			r := request(n)
			r.OrganizationID = organization
			_, err := c.Submit(t.Context(), r, fact{name: organization, from: each * n, claims: each})
			require.NoError(t, err)
		}
		submit("greedy", 0)
		var wg sync.WaitGroup
		for round := range 20 {
			for i := range 50 {
				wg.Go(func() { submit("greedy", 1+50*round+i) })
			}
			time.Sleep(50 * time.Millisecond)
		}
		for i := range 10 {
			began := time.Now()
			submit("quiet", i)
			maxTook := 2 * time.Minute // queued before the durations of transactions were known
			if i > 5 {
				maxTook = 2 * (smallGroup + 2*each) * m.perRow
			}
			require.LessOrEqual(t, time.Since(began), maxTook, "request %d", i)
		}
		wg.Wait()
		require.EqualValues(t, 1001, m.count("greedy"))
	})
}

// verdicts are facts without a request.
type verdicts struct {
	fact
	first bool
}

func (verdicts) Organization() string { return "greedy" }

func (v verdicts) First() bool { return v.first }

// TestFirst: verdicts do not wait for the queued requests of their organization, and other facts without a request do.
func TestFirst(t *testing.T) {
	for _, first := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			const requests, each = 60, 200
			committed, before := 0, -1
			m := &memory{perRow: time.Millisecond, fail: func(requests []delta.Request, d *delta.Delta) error {
				if d.Organization("o").Service(assay.ServiceKey{Name: "verdicts"}).Usage != nil {
					before = committed
				}
				committed += len(requests)
				return nil
			}}
			c := committer(m, func(c *Config) { c.Timeout = time.Hour })
			defer c.Close()
			var wg sync.WaitGroup
			submit := submitter(t, c, &wg)
			submit("quiet", 0, 1)
			submit("greedy", 0, 1)
			wg.Wait()
			for i := range requests {
				submit("greedy", 1+i, each)
			}
			synctest.Wait()
			_, err := c.Submit(t.Context(), nil, verdicts{fact{name: "verdicts", claims: each}, first})
			require.NoError(t, err)
			wg.Wait()
			require.Equal(t, 2+requests, committed)
			require.Equal(t, first, before < requests/2, "%d requests were committed before", before)
		})
	}
}

// TestLightOrganizations: an organization with few queued rows is in a transaction without those with many, and before
// theirs.
func TestLightOrganizations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var groups []map[string]int
		m := &memory{fail: func(requests []delta.Request, _ *delta.Delta) error {
			senders := make(map[string]int)
			for _, r := range requests {
				senders[r.OrganizationID]++
			}
			groups = append(groups, senders)
			return nil
		}}
		c := committer(m)
		defer c.Close()
		var wg sync.WaitGroup
		submit := submitter(t, c, &wg)
		submit("a", 0, 1)
		wg.Wait()
		for i := range 8 {
			submit("greedy", 1+i, 200)
			submit("busy", 1+i, 100)
		}
		submit("quiet", 0, 1)
		submit("calm", 0, lightQueue/2)
		wg.Wait()
		require.Equal(t, []map[string]int{{"a": 1}, {"quiet": 1, "calm": 1}, {"greedy": 8, "busy": 8}}, groups)
	})
}

// TestSameRows: requests that write the same rows do not make a transaction longer, whichever organization waits for
// it.
func TestSameRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const each = smallGroup / 2
		m := &memory{perRow: 200 * time.Microsecond}
		c := committer(m)
		defer c.Close()
		var wg sync.WaitGroup
		began := time.Now()
		for i := range 200 {
			wg.Go(func() {
				r := request(i)
				r.OrganizationID = fmt.Sprint(i % 2)
				_, err := c.Submit(t.Context(), r, fact{name: "a", claims: each})
				require.NoError(t, err)
			})
			time.Sleep(20 * time.Millisecond)
		}
		wg.Wait()
		require.Less(t, time.Since(began), 6*time.Second)
	})
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{lasts: time.Second}
		c := committer(m)
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() {
				_, err := c.Submit(t.Context(), request(i), fact{name: "a"})
				require.NoError(t, err, "queued submissions are committed")
			})
		}
		synctest.Wait()
		for range 3 {
			wg.Go(c.Close)
		}
		synctest.Wait()
		_, err := c.Submit(t.Context(), request(99), fact{name: "late"})
		require.Equal(t, assay.CodeUnavailable, assay.ErrorCode(err), "no new submissions while draining")
		wg.Wait()
		c.Close()
		require.EqualValues(t, 50, m.count("a"))
		require.Zero(t, m.count("late"))
	})
}

// TestParallelSenders: with a store that fails at random, senders retry until they get an acknowledgement. At the end
// each request is stored exactly once.
func TestParallelSenders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 2)) // used under the store's lock
		m := &memory{lasts: time.Millisecond, fail: func([]delta.Request, *delta.Delta) error {
			switch r.IntN(4) {
			case 0:
				return errors.New("transient")
			case 1:
				return assay.Errorf(assay.CodeUnavailable, "busy")
			default:
				return nil
			}
		}}
		c := committer(m, func(c *Config) { c.Pending = 30 })
		const senders, each = 16, 60
		var wg sync.WaitGroup
		for s := range senders {
			wg.Go(func() {
				for i := range each {
					for {
						_, err := c.Submit(t.Context(), request(s*each+i), fact{name: fmt.Sprint("s", s)})
						if err == nil {
							break
						}
						require.Equal(t, assay.CodeUnavailable, assay.ErrorCode(err))
						time.Sleep(time.Millisecond)
					}
					if i%7 == 0 { // a lost acknowledgement
						_, err := c.Submit(t.Context(), request(s*each+i), fact{name: fmt.Sprint("s", s)})
						_ = err // rejected or repeated: adds nothing
					}
				}
			})
		}
		wg.Wait()
		c.Close()
		for s := range senders {
			require.EqualValues(t, each, m.count(fmt.Sprint("s", s)))
		}
	})
}

// TestWithdrawn: a submission whose context ends leaves the queue and releases its rows, unless its transaction has
// begun.
func TestWithdrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{lasts: 3 * time.Second}
		c := committer(m, func(c *Config) { c.Rows = 100 })
		defer c.Close()
		var wg sync.WaitGroup
		submit := func(n int, timeout time.Duration, want error) {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), timeout)
				defer cancel()
				began := time.Now()
				fresh, err := c.Submit(ctx, request(n), fact{name: fmt.Sprint("s", n), claims: 29})
				require.ErrorIs(t, err, want)
				require.Equal(t, want == nil, fresh)
				if want != nil {
					require.Equal(t, assay.CodeUnavailable, assay.ErrorCode(err))
					require.Equal(t, timeout, time.Since(began))
				}
			})
			synctest.Wait()
		}
		submit(0, time.Second, nil) // in a transaction
		submit(1, 2*time.Second, context.DeadlineExceeded)
		submit(2, time.Hour, nil)
		time.Sleep(2500 * time.Millisecond)
		submit(3, time.Hour, nil) // room retry
		wg.Wait()
		require.Equal(t, []int{1, 2}, m.groups)
		for n := range 4 {
			require.EqualValues(t, min(1, (n-1)*(n-1)), m.count(fmt.Sprint("s", n)))
		}
	})
}

// TestCloseAfterWithdrawal: Close does not wait for withdrawn submissions.
func TestCloseAfterWithdrawal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{}
		c := committer(m, func(c *Config) { c.Interval = time.Minute })
		defer c.Close()
		_, err := c.Submit(t.Context(), request(0), fact{name: "a"})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = c.Submit(ctx, request(1), fact{name: "a"}) // waits for the interval
		require.ErrorIs(t, err, context.DeadlineExceeded)
		c.Close()
		require.Zero(t, c.Behind())
		require.Equal(t, []int{1}, m.groups)
	})
}

// TestBehind: Behind grows while a transaction that requests wait for is running or failing.
func TestBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{lasts: 2 * time.Second}
		c := committer(m, func(*Config) {})
		defer c.Close()
		require.Zero(t, c.Behind())
		var wg sync.WaitGroup
		submit := func(n int) {
			wg.Go(func() { _, _ = c.Submit(t.Context(), request(n), fact{name: "a"}) })
		}
		submit(0)
		time.Sleep(1500 * time.Millisecond)
		require.Equal(t, 1500*time.Millisecond, c.Behind())
		submit(1)
		time.Sleep(time.Second)
		require.Equal(t, 500*time.Millisecond, c.Behind(), "since the first commit")
		wg.Wait()
		synctest.Wait()
		require.Zero(t, c.Behind())
	})
}

// TestFailed: Failed reports the last time the store was unavailable, until a commit succeeds.
func TestFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var full error = assay.Errorf(assay.CodeUnavailable, "disk full")
		m := &memory{fail: func(requests []delta.Request, _ *delta.Delta) error {
			if requests[0] == *request(1) {
				return errors.New("constraint failed")
			}
			return full
		}}
		c := committer(m)
		defer c.Close()
		submit := func(n int) error {
			_, err := c.Submit(t.Context(), request(n), fact{name: "a"})
			synctest.Wait() // until the transaction is handled
			return err
		}
		failed := func(want bool, ago time.Duration) {
			t.Helper()
			got, ok := c.Failed()
			require.Equal(t, want, ok)
			require.Equal(t, ago, got)
		}
		failed(false, 0)
		require.Error(t, submit(1))
		failed(false, 0) // the request was at fault
		require.ErrorIs(t, submit(0), full)
		require.Zero(t, c.Behind(), "the queue is empty")
		failed(true, 0)
		time.Sleep(time.Second)
		failed(true, time.Second)
		require.Error(t, submit(1))
		failed(true, time.Second)
		full = nil
		require.NoError(t, submit(2))
		failed(false, 0)
	})
}

// TestGroupsGrow: groups that became small while the store hung grow retry, even if every transaction takes longer
// than an interval.
func TestGroupsGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{lasts: time.Hour}
		c := committer(m, func(c *Config) { c.Timeout = time.Second })
		defer c.Close()
		for range 20 {
			_, err := c.Submit(t.Context(), nil, fact{name: "a"})
			require.Error(t, err)
		}
		m.mu.Lock()
		m.lasts = 150 * time.Millisecond
		m.mu.Unlock()
		began := time.Now()
		var wg sync.WaitGroup
		for i := range 400 {
			wg.Go(func() {
				_, err := c.Submit(t.Context(), request(i), fact{name: "a"})
				require.NoError(t, err)
			})
		}
		wg.Wait()
		require.Less(t, time.Since(began), 3*time.Second)
	})
}

// TestSingleOrganization: requests of one organization that write many of the same rows share one transaction while no other
// organization waits.
func TestSingleOrganization(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const requests, each, keys = 500, 200, 4200
		m := &memory{perRow: time.Millisecond / 2}
		c := committer(m)
		defer c.Close()
		var wg sync.WaitGroup
		began := time.Now()
		for i := range requests {
			wg.Go(func() {
				_, err := c.Submit(t.Context(), request(i), fact{name: "a", from: 37 * each * i % keys, claims: each})
				require.NoError(t, err)
			})
			time.Sleep(20 * time.Millisecond)
		}
		wg.Wait()
		require.Less(t, time.Since(began), 15*time.Second)
	})
}

// TestQueuedRowsAreLimited: the number of queued rows is limited, because they are held in memory.
func TestQueuedRowsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{lasts: time.Second}
		c := committer(m, func(c *Config) { c.Rows = 100 })
		defer c.Close()
		var wg sync.WaitGroup
		var refused atomic.Int32
		for i := range 10 {
			wg.Go(func() {
				if _, err := c.Submit(t.Context(), request(i), fact{name: "a", claims: 29}); err != nil {
					require.Equal(t, assay.CodeUnavailable, assay.ErrorCode(err))
					refused.Add(1)
				}
			})
			synctest.Wait()
		}
		wg.Wait()
		require.EqualValues(t, 6, refused.Load(), "one in a transaction, three queued")
		_, err := c.Submit(t.Context(), request(10), fact{name: "a", claims: 200})
		require.NoError(t, err, "a single submission is accepted, however large")
	})
}

// TestSingleOrganizationWithinTimeout: the groups of a single organization do not grow until they repeatedly fail.
func TestSingleOrganizationWithinTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{perRow: time.Millisecond / 2}
		c := committer(m) // 10,000 rows take the maximum duration of a transaction
		defer c.Close()
		var failed atomic.Int32
		var wg sync.WaitGroup
		for sender := range 300 {
			wg.Go(func() {
				for i := range 4 {
					n := 4*sender + i
					for {
						_, err := c.Submit(t.Context(), request(n), fact{name: "a", from: 200 * n, claims: 200})
						if err == nil {
							break
						}
						failed.Add(1)
						time.Sleep(time.Second)
					}
				}
			})
		}
		wg.Wait()
		require.Less(t, failed.Load(), int32(600), "at most the first two groups fail")
	})
}

// TestReplicas: while other replicas use the store, the groups of a single organization are as small as those of
// several, because organizations that send to another replica may wait for its locks.
func TestReplicas(t *testing.T) {
	const senders, rows = 300, 200
	largest := func(t *testing.T, replicas int) (n int) {
		synctest.Test(t, func(t *testing.T) {
			m := &memory{perRow: 10 * time.Microsecond}
			c := committer(m, func(c *Config) { c.Replicas = func() int { return replicas } })
			defer c.Close()
			var wg sync.WaitGroup
			for sender := range senders {
				wg.Go(func() {
					for i := range 4 {
						_, err := c.Submit(t.Context(), request(4*sender+i), fact{name: "a", from: rows * (4*sender + i), claims: rows - 1})
						require.NoError(t, err)
					}
				})
			}
			wg.Wait()
			n = rows * slices.Max(m.groups)
		})
		return n
	}
	require.Greater(t, largest(t, 1), 4*sharedGroup)
	require.LessOrEqual(t, largest(t, 2), 2*sharedGroup)
}
