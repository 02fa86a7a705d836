// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/delta"
	"assay/internal/engine"
	"assay/internal/rules"
	. "assay/internal/rules/rulestest"
)

func TestQuota(t *testing.T) {
	f := newFixture(t)
	q := engine.NewQuota(engine.QuotaConfig{Store: f.store, MaxServices: 2, MaxMetricNames: 2})
	a, b, c := assay.ServiceKey{Name: "a"}, assay.ServiceKey{Name: "b"}, assay.ServiceKey{Name: "c"}
	service := func(k assay.ServiceKey) [2]bool {
		ok, isNew := q.AdmitService(f.org, k)
		return [2]bool{ok, isNew}
	}
	name := func(k assay.ServiceKey, n uint64) [2]bool {
		ok, isNew := q.AdmitMetricName(f.org, k, n)
		return [2]bool{ok, isNew}
	}
	detail := func(k assay.ServiceKey, n uint64) [2]bool {
		ok, isNew := q.AdmitMetricDetail(f.org, k, n)
		return [2]bool{ok, isNew}
	}
	fresh, known, refused := [2]bool{true, true}, [2]bool{true, false}, [2]bool{false, false}

	require.Equal(t, refused, service(a), "not admitted before the organization is loaded")
	require.NoError(t, q.Load(t.Context(), f.org))
	require.Equal(t, fresh, service(a))
	require.Equal(t, fresh, service(a), "another request shares the admission")
	require.Equal(t, fresh, service(b))
	require.Equal(t, refused, service(c))
	require.NoError(t, q.Load(t.Context(), f.org))
	require.Equal(t, refused, service(c), "loading again has no effect")
	q.Release(f.org, []rules.Admission{{Service: b}})
	require.Equal(t, fresh, service(c))

	require.Equal(t, fresh, name(a, 1))
	require.Equal(t, known, name(a, 1))
	require.Equal(t, fresh, name(a, 2))
	require.Equal(t, refused, name(a, 3))
	require.Equal(t, fresh, name(c, 3))
	q.Release(f.org, []rules.Admission{{Service: a, MetricName: 1}})
	require.Equal(t, fresh, name(a, 3))

	for n := range uint64(20) {
		require.Equal(t, fresh, detail(a, n+1))
	}
	require.Equal(t, refused, detail(a, 21))
	q.Release(f.org, []rules.Admission{{Service: a, Detail: 7}})
	require.Equal(t, fresh, detail(a, 21))

	// Refresh while requests are in progress: their admissions are not in the store yet.
	require.NoError(t, q.Refresh(t.Context()))
	require.Equal(t, fresh, service(a))
	require.Equal(t, known, name(a, 2))
	require.Equal(t, known, name(a, 3))
	require.Equal(t, refused, name(a, 9))
	require.Equal(t, refused, service(b))
	require.Equal(t, fresh, detail(a, 9), "details were reset")

	// Committed services that are no longer in the store make room.
	q.Keep(f.org, []rules.Admission{{Service: a}, {Service: a, MetricName: 2}, {Service: a, Detail: 9}})
	require.NoError(t, q.Refresh(t.Context()))
	require.Equal(t, fresh, service(b))
	require.Equal(t, known, name(a, 9), "admitted recently, no longer in the store")
	require.Equal(t, known, detail(a, 9))
	q.Release(f.org, []rules.Admission{{Service: a}, {Service: b}})
	require.Equal(t, fresh, service(b))
	q.Keep("unknown", []rules.Admission{{Service: a}})
	q.Release("unknown", []rules.Admission{{Service: a}})
	q.Release(f.org, []rules.Admission{{Service: assay.ServiceKey{Name: "unknown"}, MetricName: 1}})

	require.Error(t, q.Load(canceled(t), "6ba7b810-9dad-11d1-80b4-00c04fd430c8"))
}

// TestQuotaOfOrganization: all services of an organization together may have fewer metric
// names and details than the sum of what each may have.
func TestQuotaOfOrganization(t *testing.T) {
	f := newFixture(t)
	const names = 1000 // where a service may have one name
	q := engine.NewQuota(engine.QuotaConfig{Store: f.store, MaxServices: 3 * names, MaxMetricNames: 1})
	require.NoError(t, q.Load(t.Context(), f.org))
	service := func(i int) assay.ServiceKey { return assay.ServiceKey{Name: fmt.Sprint(i)} }
	instance := func(i int) uint64 { return uint64(i) + 1 }
	fill := func() (admittedNames, admittedDetails int) {
		for i := range 2 * names {
			k := service(i)
			ok, _ := q.AdmitService(f.org, k)
			require.True(t, ok)
			if ok, _ := q.AdmitMetricName(f.org, k, 1); ok {
				admittedNames++
			}
			if ok, _ := q.AdmitMetricDetail(f.org, k, 1); ok {
				admittedDetails++
			}
			if ok, isNew := q.AdmitInstance(f.org, k, 1, instance(i)); ok && isNew {
				admittedDetails += 2 // and its hour
			}
		}
		return admittedNames, admittedDetails
	}
	for range 2 {
		n, d := fill()
		require.Equal(t, names, n)
		require.InDelta(t, names, d, 1)
		// What requests that failed took is free again.
		for i := range 2 * names {
			k := service(i)
			q.Release(f.org, []rules.Admission{{Service: k, MetricName: 1}, {Service: k, Detail: 1}, {Service: k, Instance: instance(i)}, {Service: k}})
		}
	}
	require.NoError(t, q.Refresh(t.Context()))
	n, d := fill()
	require.Equal(t, names, n)
	require.InDelta(t, names, d, 1)
	require.NoError(t, q.Refresh(t.Context()))
	ok, _ := q.AdmitMetricName(f.org, service(2*names-1), 1)
	require.False(t, ok, "names under way count after they were read anew")
	ok, _ = q.AdmitMetricDetail(f.org, service(2*names-1), 1)
	require.True(t, ok, "details are counted anew")
}

// TestRefreshContinues: an organization that cannot be read in time does not stop the refresh of others.
func TestRefreshContinues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &expiring{kept: 1}
		q := engine.NewQuota(engine.QuotaConfig{Store: s, MaxServices: 1})
		organizations := []string{"a", "b", "c", "d", "hangs", "fails"}
		for _, o := range organizations {
			require.NoError(t, q.Load(t.Context(), o))
		}
		s.kept = 0
		s.broken = true
		err := q.Refresh(t.Context())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, errBroken)
		for i, o := range organizations {
			ok, _ := q.AdmitService(o, assay.ServiceKey{Name: "new"})
			require.Equal(t, i < 4, ok, o)
		}
		require.ErrorIs(t, q.Refresh(canceled(t)), context.Canceled)
	})
}

// expiring is a store with some services per organization. Reading two of the organizations can fail.
type expiring struct {
	engine.Store
	kept   int
	broken bool
}

var errBroken = errors.New("broken")

func (e *expiring) KnownServices(ctx context.Context, organizationID string) ([]assay.ServiceKey, error) {
	switch {
	case e.broken && organizationID == "hangs":
		<-ctx.Done()
		return nil, ctx.Err()
	case e.broken && organizationID == "fails":
		return nil, errBroken
	}
	return []assay.ServiceKey{{Name: "old"}}[:e.kept], nil
}

func (*expiring) HashKey(context.Context, string) (delta.HashKey, error) {
	return delta.NewHashKey(make([]byte, delta.HashSecretBytes))
}

func (*expiring) KnownMetricNames(context.Context, string) (map[assay.ServiceKey][]uint64, error) {
	return nil, nil
}

// TestQuotaOfInstances counts the instances of an hour, each once.
func TestQuotaOfInstances(t *testing.T) {
	f := newFixture(t)
	now := T0
	q := engine.NewQuota(engine.QuotaConfig{Store: f.store, Now: func() time.Time { return now }})
	a, b := assay.ServiceKey{Name: "a"}, assay.ServiceKey{Name: "b"}
	require.NoError(t, q.Load(t.Context(), f.org))
	for _, k := range []assay.ServiceKey{a, b} {
		q.AdmitService(f.org, k)
	}
	const limit = 1000
	hour := uint64(After(0).Unix() / 3600)
	admit := func(k assay.ServiceKey, hour, n uint64) [2]bool {
		ok, isNew := q.AdmitInstance(f.org, k, hour, n)
		return [2]bool{ok, isNew}
	}
	fresh, known, refused := [2]bool{true, true}, [2]bool{true, false}, [2]bool{false, false}
	admission := func(n uint64) []rules.Admission {
		return []rules.Admission{{Service: a, Instance: n}}
	}
	for n := range uint64(limit) {
		require.Equal(t, fresh, admit(a, hour, n+1))
	}
	require.Equal(t, refused, admit(a, hour, limit+1))
	require.Equal(t, known, admit(a, hour, 7), "in another uncommitted request")
	require.Equal(t, fresh, admit(b, hour, limit+1))
	require.Equal(t, fresh, admit(a, hour-2, limit+2))

	q.Release(f.org, admission(7))
	q.Release(f.org, admission(7))
	require.Equal(t, fresh, admit(a, hour, limit+1), "a released admission is available")
	require.Equal(t, refused, admit(a, hour, 9000), "one")
	q.Keep(f.org, admission(8))
	require.Equal(t, refused, admit(a, hour, 9000), "committed instances keep their admission")
	require.Equal(t, known, admit(a, hour, 8), "also when the filter has evicted them")

	for n := uint64(1); n < limit; n++ {
		require.Equal(t, fresh, admit(a, hour-2, limit+2+n))
	}
	require.Equal(t, refused, admit(a, hour-2, 5000))
	require.NoError(t, q.Refresh(t.Context()))
	require.Equal(t, refused, admit(a, hour, 9000))
	require.Equal(t, known, admit(a, hour, 8))
	require.Equal(t, fresh, admit(a, hour-2, 5000), "few instances of past hours arrive")
	now = now.Add(time.Hour)
	require.NoError(t, q.Refresh(t.Context()))
	require.Equal(t, refused, admit(a, hour, 9000))
	now = now.Add(time.Hour)
	require.NoError(t, q.Refresh(t.Context()))
	require.Equal(t, fresh, admit(a, hour, 9000))
	require.Equal(t, known, admit(assay.ServiceKey{Name: "unknown"}, hour, 1))
}

// TestQuotaMemory: organizations share the memory for admissions. When it is full, the largest gets no more, and
// another one still gets its share.
func TestQuotaMemory(t *testing.T) {
	const memory, hashBytes = 128 << 10, 24
	q := engine.NewQuota(engine.QuotaConfig{Store: &expiring{}, MaxMemory: memory})
	k := assay.ServiceKey{Name: "a"}
	for _, o := range []string{"large", "small"} {
		require.NoError(t, q.Load(t.Context(), o))
	}
	service := func(n uint64) assay.ServiceKey {
		return assay.ServiceKey{Name: fmt.Sprint(n), Version: strings.Repeat("v", 100)}
	}
	admit := map[string]func(o string, n uint64) (ok, isNew bool){
		"names":     func(o string, n uint64) (bool, bool) { return q.AdmitMetricName(o, k, n) },
		"details":   func(o string, n uint64) (bool, bool) { return q.AdmitMetricDetail(o, k, n) },
		"instances": func(o string, n uint64) (bool, bool) { return q.AdmitInstance(o, k, n, n) },
		"services":  func(o string, n uint64) (bool, bool) { return q.AdmitService(o, service(n)) },
	}
	fill := func(o string) (admitted int) {
		q.AdmitService(o, k)
		for n := range uint64(2000) {
			for _, name := range slices.Sorted(maps.Keys(admit)) {
				if ok, isNew := admit[name](o, n+1); ok && isNew {
					admitted++
				}
			}
		}
		return admitted
	}
	admitted := fill("large")
	require.Positive(t, admitted)
	require.Less(t, admitted, memory/hashBytes)
	ok, isNew := q.AdmitService("small", k)
	require.True(t, ok && isNew)
	for name, admit := range admit {
		ok, _ := admit("large", 5000)
		require.False(t, ok, name)
		ok, isNew = admit("small", 5000)
		require.True(t, ok && isNew, name)
	}
	shared := fill("small")
	require.Less(t, shared, admitted)
	require.Greater(t, shared, admitted/4)
	ok, _ = q.AdmitMetricName("small", k, 5000)
	require.True(t, ok, "known")

	// Admissions that a failed request returns make room.
	ok, _ = q.AdmitMetricDetail("large", k, 5000)
	require.False(t, ok)
	for n := range uint64(2000) {
		q.Release("large", []rules.Admission{{Service: k, MetricName: n + 1}, {Service: k, Detail: n + 1}, {Service: k, Instance: n + 1}, {Service: service(n + 1)}})
	}
	ok, isNew = q.AdmitMetricDetail("large", k, 5000)
	require.True(t, ok && isNew)
}

// TestQuotaOfVersions: many details of all organizations leave room for new services and their metrics.
func TestQuotaOfVersions(t *testing.T) {
	const organizations, services, names = 20, 30, 200
	q := engine.NewQuota(engine.QuotaConfig{Store: &expiring{}, MaxMemory: 12 << 20})
	organization := func(i int) string { return fmt.Sprint("organization ", i) }
	for i := range organizations {
		require.NoError(t, q.Load(t.Context(), organization(i)))
		for s := range services {
			k := assay.ServiceKey{Name: fmt.Sprint(s)}
			q.AdmitService(organization(i), k)
			for n := range uint64(names) {
				ok, _ := q.AdmitMetricName(organization(i), k, n+1)
				require.True(t, ok)
				for d := range uint64(5) {
					q.AdmitMetricDetail(organization(i), k, 5*n+d+1)
				}
			}
		}
	}
	for i := range organizations {
		k := assay.ServiceKey{Name: "0", Version: "2"}
		ok, _ := q.AdmitMetricDetail(organization(i), assay.ServiceKey{Name: "0"}, 9999)
		require.False(t, ok, "the memory for details is full")
		ok, _ = q.AdmitService(organization(i), k)
		require.True(t, ok)
		ok, _ = q.AdmitMetricName(organization(i), k, 1)
		require.True(t, ok)
	}
}

// canceled returns a canceled context.
func canceled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// waiting is a store that delays its answers. Its transactions take turns by the organization of their context.
type waiting struct {
	engine.Store
	answer chan struct{}
	asked  atomic.Int64
}

func (w *waiting) KnownServices(ctx context.Context, organizationID string) ([]assay.ServiceKey, error) {
	w.asked.Add(1)
	if assay.OrganizationOf(ctx) != organizationID {
		return nil, errors.New("not the turn of the organization")
	}
	select {
	case <-w.answer:
		return nil, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (*waiting) HashKey(context.Context, string) (delta.HashKey, error) {
	return delta.NewHashKey(make([]byte, delta.HashSecretBytes))
}

func (w *waiting) KnownMetricNames(context.Context, string) (map[assay.ServiceKey][]uint64, error) {
	return nil, nil
}

// TestQuotaLoadsOnce: an organization is read once for all requests that arrive at the start, even if some of them
// end.
func TestQuotaLoadsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &waiting{answer: make(chan struct{})}
		q := engine.NewQuota(engine.QuotaConfig{Store: w})
		ctx, leave := context.WithCancel(t.Context())
		var left, loaded atomic.Int64
		var all sync.WaitGroup
		for i := range 100 {
			all.Go(func() {
				if i%10 != 0 {
					if assert.NoError(t, q.Load(t.Context(), "org")) {
						loaded.Add(1)
					}
				} else if assert.ErrorIs(t, q.Load(ctx, "org"), context.Canceled) {
					left.Add(1)
				}
			})
			synctest.Wait()
		}
		leave()
		synctest.Wait()
		require.EqualValues(t, 10, left.Load(), "an ended request does not wait")
		close(w.answer)
		all.Wait()
		require.EqualValues(t, 90, loaded.Load())
		require.EqualValues(t, 1, w.asked.Load())
	})
}

// TestSharedAdmissions: a service admission shared by several requests is released when the last of them fails, and kept
// if any of them commits.
func TestSharedAdmissions(t *testing.T) {
	f := newFixture(t)
	one, other := assay.ServiceKey{Name: "one"}, assay.ServiceKey{Name: "other"}
	admission := []rules.Admission{{Service: one}}
	quota := func() *engine.Quota {
		q := engine.NewQuota(engine.QuotaConfig{Store: f.store, MaxServices: 1})
		require.NoError(t, q.Load(t.Context(), f.org))
		for range 2 {
			ok, isNew := q.AdmitService(f.org, one)
			require.True(t, ok)
			require.True(t, isNew, "each has an admission to release")
		}
		return q
	}
	q := quota()
	q.Release(f.org, admission)
	q.Keep(f.org, admission)
	_, isNew := q.AdmitService(f.org, one)
	require.False(t, isNew)
	ok, _ := q.AdmitService(f.org, other)
	require.False(t, ok)

	q = quota()
	q.Keep(f.org, admission)
	q.Release(f.org, admission)
	ok, _ = q.AdmitService(f.org, other)
	require.False(t, ok)

	q = quota()
	q.Release(f.org, admission)
	ok, _ = q.AdmitService(f.org, other)
	require.False(t, ok)
	q.Release(f.org, admission)
	ok, _ = q.AdmitService(f.org, other)
	require.True(t, ok, "no request uses it any more")
}
