// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/delta"
	"assay/internal/engine"
	"assay/internal/lease"
	"assay/internal/rules/catalog"
	scorer "assay/internal/score"
	"assay/internal/store/inspect"
)

// Store is all interfaces of a store.
type Store interface {
	assay.OrganizationStore
	assay.ServiceStore
	assay.InsightStore
	assay.APIKeyStore
	assay.SummaryStore
	assay.SigningKeyStore
	assay.CredentialKeyStore
	assay.LogRecordStore
	assay.UsageStore
	assay.SessionStore
	assay.ServiceLister
	assay.OverviewStore
	assay.CodebaseStore
	assay.WebhookStore

	engine.Store
	engine.JournalStore
	scorer.Store
	scorer.FactStore
	lease.Store

	// Schema returns the version of the schema and the newest one that the program knows.
	Schema(ctx context.Context) (inspect.Schema, error)
	// Stats counts the rows of the tables, which are sorted by name.
	Stats(ctx context.Context) (*inspect.Stats, error)
	// Ping checks that the store is readable and writable. The error is CodeUnavailable if it is not.
	Ping(ctx context.Context) error
	// Close closes the store. Calls in progress fail or end first.
	Close() error
}

// Opener opens another handle of the same store, as another process would. The suite
// closes handles; the store is deleted when the test ends.
type Opener func() (Store, error)

// Run runs the suite: each method of suite whose name begins with Test, with a store of its own. make prepares a new,
// empty store whose handles use the clock now, and store at most MaxClaims claims of an organization.
func Run(t *testing.T, make func(t testing.TB, now func() time.Time) Opener) {
	for part := range reflect.TypeFor[*suite]().Methods() {
		if name, ok := strings.CutPrefix(part.Name, "Test"); ok {
			t.Run(name, func(t *testing.T) {
				part.Func.Call([]reflect.Value{reflect.ValueOf(newSuite(t, make)), reflect.ValueOf(t)})
			})
		}
	}
}

// suite is a store under test and its clock.
type suite struct {
	Store
	t     testing.TB
	clock *clock
	open  Opener
	made  int
}

// epoch is the start time of the suite's clocks: an hour, but not a whole microsecond,
// which stores truncate.
var epoch = time.Date(2026, time.November, 21, 12, 0, 0, 1234, time.UTC)

type clock struct{ offset atomic.Int64 }

func (c *clock) now() time.Time { return epoch.Add(time.Duration(c.offset.Load())) }

func (c *clock) advance(d time.Duration) { c.offset.Add(int64(d)) }

func newSuite(t testing.TB, make func(t testing.TB, now func() time.Time) Opener) *suite {
	c := new(clock)
	s := &suite{t: t, clock: c, open: make(t, c.now)}
	s.Store = s.handle()
	return s
}

// handle opens one more handle, closed at the end of the test.
func (s *suite) handle() Store {
	s.t.Helper()
	st := must(s.open())(s.t)
	s.t.Cleanup(func() { require.NoError(s.t, st.Close()) })
	return st
}

// organization creates an organization with a unique name.
func (s *suite) organization() string {
	s.t.Helper()
	s.made++
	o := &assay.Organization{Name: fmt.Sprintf("org %d", s.made), Tier: assay.TierFree}
	require.NoError(s.t, s.CreateOrganization(s.ctx(), o))
	return o.ID
}

func (s *suite) ctx() context.Context { return s.t.Context() }

// race runs do n times at once, on two handles in turn, and returns how often it did what it was to do. An error with
// the code lost is no failure.
func (s *suite) race(n int, lost assay.Code, do func(i int, st Store) (bool, error)) int {
	s.t.Helper()
	handles := []Store{s.Store, s.handle()}
	var done atomic.Int64
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			switch ok, err := do(i, handles[i%2]); {
			case err != nil && (lost == "" || assay.ErrorCode(err) != lost):
				s.t.Error(i, err)
			case err == nil && ok:
				done.Add(1)
			}
		})
	}
	wg.Wait()
	return int(done.Load())
}

// commit commits a delta as it is.
func (s *suite) commit(d *delta.Delta) {
	s.t.Helper()
	require.NoError(s.t, s.Commit(s.ctx(), s.clock.now(), nil, func([]bool) *delta.Delta { return d }))
}

// seen commits one observation of a service, an hour ago, by a rule.
func (s *suite) seen(org string, k assay.ServiceKey, r catalog.Rule, failed bool) string {
	s.t.Helper()
	s.commit(one(org, k, func(f *delta.Service) {
		at := epoch.Add(-time.Hour)
		f.Seen(uint64(at.UnixNano()))
		c := delta.Count{Observed: 1}
		if failed {
			c.Failed = 1
		}
		f.Counts(bucket(at))[r].Add(c)
	}))
	return delta.ServiceID(org, k)
}

// facts loads the facts of one service.
func (s *suite) facts(org, svc string) *delta.Facts {
	s.t.Helper()
	fs := must(s.Facts(s.ctx(), org, []string{svc}, 0))(s.t)
	require.Len(s.t, fs, 1)
	return fs[0]
}

// one is a delta with one service.
func one(org string, k assay.ServiceKey, fill func(*delta.Service)) *delta.Delta {
	d := new(delta.Delta)
	fill(d.Organization(org).Service(k))
	return d
}

func named(name string) assay.ServiceKey { return assay.ServiceKey{Name: name} }

// bucket returns the hour of a time.
func bucket(t time.Time) delta.Bucket { return delta.BucketOf(uint64(t.UnixNano()), time.Hour) }

// micro returns t with the precision of a store.
func micro(t time.Time) time.Time { return t.Truncate(time.Microsecond).UTC() }

// code requires that err has a code.
func code(t testing.TB, want assay.Code, err error) {
	t.Helper()
	require.Error(t, err)
	require.Equal(t, want, assay.ErrorCode(err), "%v", err)
}

// must returns the result of a call that must not fail: must(call())(t).
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		require.NoError(t, err)
		return v
	}
}

// must2 is must for a call with two results.
func must2[T, U any](v T, w U, err error) func(testing.TB) (T, U) {
	return func(t testing.TB) (T, U) {
		t.Helper()
		require.NoError(t, err)
		return v, w
	}
}

// paged returns all pages of a list, and checks their sizes and the total of each.
func paged[T any](t testing.TB, size, total int, page func(assay.Page) ([]T, int, error)) (all []T) {
	t.Helper()
	for offset := 0; offset <= total; offset += size {
		found, n := must2(page(assay.Page{Limit: size, Offset: offset}))(t)
		require.Equal(t, total, n)
		require.LessOrEqual(t, len(found), size)
		all = append(all, found...)
	}
	return all
}

// errOf and errOf3 return the error of a call.
func errOf[T any](_ T, err error) error { return err }

func errOf3[T, U any](_ T, _ U, err error) error { return err }
