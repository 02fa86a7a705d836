// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/delta"
	"assay/internal/engine"
	"assay/internal/rules"
)

// shared is the common state of replicas: a store of services and their metric names, and a clock.
type shared struct {
	engine.Store
	services map[assay.ServiceKey]map[uint64]bool
	now      time.Time
	reads    int // reads of services
	slow     time.Duration
	fail     error
}

func (s *shared) KnownServices(context.Context, string) ([]assay.ServiceKey, error) {
	s.reads++
	if s.fail != nil {
		return nil, s.fail
	}
	keys := []assay.ServiceKey{{Name: assay.OverflowService}}
	for k := range s.services {
		keys = append(keys, k)
	}
	return keys, nil
}

func (*shared) HashKey(context.Context, string) (delta.HashKey, error) {
	return delta.NewHashKey(make([]byte, delta.HashSecretBytes))
}

func (s *shared) KnownMetricNames(context.Context, string) (map[assay.ServiceKey][]uint64, error) {
	s.now = s.now.Add(s.slow)
	names := make(map[assay.ServiceKey][]uint64)
	for k, set := range s.services {
		for n := range set {
			names[k] = append(names[k], n)
		}
	}
	return names, s.fail
}

func (s *shared) add(k assay.ServiceKey, names ...uint64) {
	if s.services[k] == nil {
		s.services[k] = make(map[uint64]bool)
	}
	for _, n := range names {
		s.services[k][n] = true
	}
}

const (
	quotaServices = 1200
	quotaNames    = 240
)

func newShared() *shared {
	return &shared{services: make(map[assay.ServiceKey]map[uint64]bool), now: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)}
}

func (s *shared) replica(t *testing.T, replicas int) *engine.Quota {
	t.Helper()
	q := engine.NewQuota(engine.QuotaConfig{
		Store: s, MaxServices: quotaServices, MaxMetricNames: quotaNames,
		Replicas: func() int { return replicas }, Now: func() time.Time { return s.now },
	})
	require.NoError(t, q.Load(t.Context(), "org"))
	return q
}

func numbered(i int) assay.ServiceKey { return assay.ServiceKey{Name: fmt.Sprint(i)} }

// TestQuotaOfReplicas floods three replicas with distinct services and checks the documented bound.
func TestQuotaOfReplicas(t *testing.T) {
	const replicas = 3
	for seed := range uint64(4) {
		random := rand.New(rand.NewPCG(seed, 1))
		s := newShared()
		var quotas []*engine.Quota
		for range replicas {
			quotas = append(quotas, s.replica(t, replicas))
		}
		every := time.Duration(random.IntN(20)+1) * time.Millisecond
		var free []int // before each step
		most := 0      // 0: the limit has not been exceeded
		for i := range 6 * quotaServices {
			q := quotas[random.IntN(replicas)]
			if i < 2*quotaServices && seed%2 == 1 {
				q = quotas[0] // the others receive no requests for a long time
			}
			s.now = s.now.Add(every)
			free = append(free, quotaServices-len(s.services))
			if ok, isNew := q.AdmitService("org", numbered(i)); ok {
				require.True(t, isNew)
				s.add(numbered(i))
				q.Keep("org", []rules.Admission{{Service: numbered(i)}})
			}
			if len(s.services) > quotaServices && most == 0 {
				before := free[max(0, i-int(5*time.Second/every))]
				most = quotaServices + quotaServices/4 + before/2 + replicas
			}
			if most > 0 {
				require.LessOrEqual(t, len(s.services), most, "seed %d, after %d", seed, i)
			}
		}
		require.GreaterOrEqual(t, len(s.services), quotaServices)
		for i := range quotas {
			ok, _ := quotas[i].AdmitService("org", numbered(-1))
			require.False(t, ok, "replica %d", i)
		}
	}
}

// TestQuotaReadsNearLimit: far below a limit the quota does not read the store. Near the limit it reads the admissions of
// other replicas.
func TestQuotaReadsNearLimit(t *testing.T) {
	s := newShared()
	a := s.replica(t, 2)
	admit := func(k assay.ServiceKey, want bool) {
		t.Helper()
		ok, _ := a.AdmitService("org", k)
		require.Equal(t, want, ok)
	}
	keep := func(i int) {
		t.Helper()
		admit(numbered(i), true)
		s.add(numbered(i))
		a.Keep("org", []rules.Admission{{Service: numbered(i)}})
	}
	s.reads = 0
	far := quotaServices / 8
	for i := range far {
		s.now = s.now.Add(time.Minute)
		keep(i)
	}
	require.Zero(t, s.reads, "no reads far below the limit")
	keep(far)
	require.Equal(t, 1, s.reads)
	for i := far + 1; i < 2*far; i++ {
		keep(i)
	}
	require.Equal(t, 1, s.reads, "a recent reading suffices for a share")

	// Another replica fills the organization.
	for i := range quotaServices {
		s.add(assay.ServiceKey{Name: "other", Version: fmt.Sprint(i)})
		if len(s.services) == quotaServices {
			break
		}
	}
	s.now = s.now.Add(5 * time.Second)
	admit(numbered(-1), false)
	require.Equal(t, 2, s.reads)
	admit(assay.ServiceKey{Name: "other", Version: "0"}, true)
	admit(numbered(-2), false)
	require.Equal(t, 2, s.reads, "at the limit a flood of services does not cause a flood of queries")

	// The store expires one service. The first request to ask is admitted.
	delete(s.services, numbered(0))
	admit(numbered(-2), false)
	s.now = s.now.Add(5 * time.Second)
	admit(numbered(-2), true)
	require.Equal(t, 3, s.reads)

	// Without the store the last reading is used for another five seconds.
	s.fail = errors.New("unavailable")
	s.now = s.now.Add(5 * time.Second)
	admit(numbered(-3), false)
	admit(numbered(-4), false)
	require.Equal(t, 4, s.reads)
	a.Release("org", []rules.Admission{{Service: numbered(-2)}})
	admit(numbered(-3), true)
	s.fail = nil
	s.now = s.now.Add(5 * time.Second)
	admit(numbered(-5), false)
	require.Equal(t, 5, s.reads)
	admit(numbered(-3), true) // its transaction is in progress during all of this
}

// TestQuotaShare reads again when the share of the free admissions is used up.
func TestQuotaShare(t *testing.T) {
	s := newShared()
	for i := range quotaServices / 2 {
		s.add(numbered(i))
	}
	a := s.replica(t, 3)
	s.reads = 0
	for i := range 100 { // a sixth of what is free
		ok, _ := a.AdmitService("org", numbered(-1-i))
		require.True(t, ok)
	}
	require.Zero(t, s.reads)
	ok, _ := a.AdmitService("org", numbered(-1000))
	require.True(t, ok)
	require.Equal(t, 1, s.reads, "uncommitted services are kept")
	ok, isNew := a.AdmitService("org", numbered(-1))
	require.True(t, ok)
	require.True(t, isNew, "another request shares the admission")
}

// TestQuotaOfSingleReplica: a single replica does not read the store again.
func TestQuotaOfSingleReplica(t *testing.T) {
	s := newShared()
	q := s.replica(t, 1)
	s.reads = 0
	for i := range 2 * quotaServices {
		s.now = s.now.Add(time.Minute)
		ok, _ := q.AdmitService("org", numbered(i))
		require.Equal(t, i < quotaServices, ok)
	}
	require.Zero(t, s.reads)
}

func TestMetricNamesOfReplicas(t *testing.T) {
	s := newShared()
	svc := numbered(1)
	s.add(svc, 1)
	a, b := s.replica(t, 2), s.replica(t, 2)
	admit := func(q *engine.Quota, name uint64) bool {
		t.Helper()
		ok, isNew := q.AdmitMetricName("org", svc, name)
		if isNew {
			s.add(svc, name)
			q.Keep("org", []rules.Admission{{Service: svc, MetricName: name}})
		}
		return ok
	}
	for n := uint64(2); len(s.services[svc]) < quotaNames; n++ {
		s.now = s.now.Add(time.Second)
		require.True(t, admit(a, n))
	}
	require.False(t, admit(a, 9999))

	// b has not seen these names. It admits its part of a quarter and then reads the store.
	over := 0
	for n := uint64(10_000); admit(b, n); n++ {
		s.now = s.now.Add(time.Second)
		over++
	}
	require.Equal(t, quotaNames/8-1, over)
	require.True(t, admit(b, 5), "admitted by another replica")

	// Readings that take longer are less frequent.
	b = s.replica(t, 2)
	for n := range s.services[svc] {
		if n > 100 {
			delete(s.services[svc], n)
		}
	}
	s.slow = time.Second
	require.NoError(t, b.Refresh(t.Context()))
	for n := uint64(101); len(s.services[svc]) < quotaNames; n++ {
		s.add(svc, n)
	}
	s.now = s.now.Add(18 * time.Second)
	require.True(t, admit(b, 20_000), "not read yet")
	s.now = s.now.Add(2 * time.Second)
	require.False(t, admit(b, 20_001))
}
