// SPDX-License-Identifier: Apache-2.0

package summary

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"assay"
)

// table has the leases of several processes.
type table struct {
	mu      sync.Mutex
	holders map[string]string
	acquire error
	release error
}

// process is one of them.
type process struct {
	*table
	name string
}

func (p process) Acquire(ctx context.Context, name string) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := errors.Join(ctx.Err(), p.acquire); err != nil {
		return false, err
	}
	if p.holders[name] == "" {
		p.holders[name] = p.name
	}
	return p.holders[name] == p.name, nil
}

func (p process) Release(_ context.Context, name string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.holders[name] == p.name {
		delete(p.holders, name)
	}
	return p.release
}

// pair is two replicas with one store.
func pair(t *testing.T) (leases *table, a, b *fixture) {
	leases = &table{holders: map[string]string{}}
	a = newFixture(t, func(c *Config) { c.Leases = process{leases, "a"} })
	b = newFixture(t, func(c *Config) { c.Leases, c.Store = process{leases, "b"}, a.store })
	b.store = a.store
	return leases, a, b
}

// TestOneCallOfTwoReplicas: replicas that are asked at the same time make one call.
func TestOneCallOfTwoReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases, a, b := pair(t)
		slowly := func(ctx context.Context) (string, error) { return answer, sleep(ctx, 3*time.Second) }
		a.script(slowly)
		b.script(slowly)
		var wg sync.WaitGroup
		for _, f := range []*fixture{a, b} {
			wg.Go(func() {
				got, err := f.Summarize(t.Context(), insight())
				if err != nil || got.Content != answer {
					t.Error(got, err)
				}
			})
		}
		// Another insight is nobody's business.
		got, err := b.Summarize(t.Context(), numbered(1))
		require.NoError(t, err)
		require.Equal(t, answer, got.Content)
		wg.Wait()
		require.Len(t, append(a.calls(), b.calls()...), 2)
		require.Equal(t, 2, a.outcomes[Generated]+b.outcomes[Generated])
		require.Equal(t, 1, a.outcomes[Cached]+b.outcomes[Cached])
		require.Empty(t, leases.holders)
	})
}

// TestOtherReplicaFails: who waited for another replica tries it then.
func TestOtherReplicaFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases, a, b := pair(t)
		a.script(func(ctx context.Context) (string, error) {
			return "", errors.Join(sleep(ctx, time.Second), status(401))
		})
		var wg sync.WaitGroup
		wg.Go(func() { a.unavailable(insight()) })
		synctest.Wait()
		got, err := b.Summarize(t.Context(), insight())
		require.NoError(t, err)
		require.False(t, got.Cached)
		wg.Wait()
		require.Len(t, a.calls(), 1)
		require.Len(t, b.calls(), 1)
		require.Empty(t, leases.holders)
	})
}

// TestOtherReplicaHangs: nobody waits beyond his own time.
func TestOtherReplicaHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases, _, b := pair(t)
		leases.holders[leasePrefix+insight().ID] = "dead"
		began := time.Now()
		require.Equal(t, afterBusy, b.unavailable(insight()))
		require.Equal(t, DefaultTimeout, time.Since(began))
		require.Empty(t, b.calls())

		// A lease that nobody gave back has expired.
		delete(leases.holders, leasePrefix+insight().ID)
		_, err := b.Summarize(t.Context(), insight())
		require.NoError(t, err)
	})
}

func TestLeasesFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases, a, _ := pair(t)
		away := assay.Errorf(assay.CodeUnavailable, "the store is away")
		leases.acquire = away
		_, err := a.Summarize(t.Context(), insight())
		require.ErrorIs(t, err, away)
		require.Empty(t, a.calls())
		leases.acquire, leases.release = nil, away
		_, err = a.Summarize(t.Context(), insight())
		require.NoError(t, err, "what is written is shown all the same")
		require.Contains(t, a.log.String(), "other replicas wait")
	})
}
