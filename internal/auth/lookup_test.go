// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"assay"
)

// slow delays every lookup of a store by a second.
func slow(s *keyStore) *keyStore {
	find := s.FindAPIKeyFn
	s.FindAPIKeyFn = func(ctx context.Context, id string) (*assay.APIKey, error) {
		select {
		case <-time.After(time.Second):
			return find(ctx, id)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return s
}

// TestRequestsShareALookup checks that concurrent requests share the lookup of a key, and that a request that
// gives up does not cancel the lookup for the others.
func TestRequestsShareALookup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{}
		key := "Bearer " + string(m.add(t, func(k *assay.APIKey) { k.LastUsedAt = time.Now() }))
		a := &Authenticator{Keys: slow(m.store()), Prefix: "assay"}
		defer a.Close()
		for round := 1; round <= 2; round++ {
			var wg sync.WaitGroup
			impatient, cancel := context.WithCancel(t.Context())
			wg.Go(func() {
				if _, err := a.Authenticate(impatient, key, ""); assay.ErrorCode(err) != assay.CodeUnavailable {
					t.Error(err)
				}
			})
			synctest.Wait() // the lookup was started by the request that gives up
			for range 100 {
				wg.Go(func() {
					if _, err := a.Authenticate(t.Context(), key, ""); err != nil {
						t.Error(err)
					}
				})
			}
			synctest.Wait()
			cancel()
			wg.Wait()
			require.Equal(t, round, m.found())
			time.Sleep(cacheTTL)
		}
	})
}

// TestLookupEnds checks that the result of a slow lookup is not older than the life of a cache entry.
func TestLookupEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &Authenticator{Prefix: "assay", Keys: &keyStore{FindAPIKeyFn: func(ctx context.Context, _ string) (*assay.APIKey, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}}
		defer a.Close()
		key, _ := NewKey("assay")
		began := time.Now()
		_, err := a.Authenticate(t.Context(), "Bearer "+string(key), "")
		require.Equal(t, assay.CodeUnavailable, assay.ErrorCode(err))
		require.Equal(t, cacheTTL, time.Since(began))
	})
}

// TestGuessesDoNotDelayKeys looks up more unknown ids than the store can handle at a time, together with a
// cached key and a key that was not used before.
func TestGuessesDoNotDelayKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{}
		key := "Bearer " + string(m.add(t, func(k *assay.APIKey) { k.LastUsedAt = time.Now() }))
		other := "Bearer " + string(m.add(t, func(k *assay.APIKey) { k.LastUsedAt = time.Now() }))
		a := &Authenticator{Keys: slow(m.store()), Prefix: "assay"}
		defer a.Close()
		_, err := a.Authenticate(t.Context(), key, "")
		require.NoError(t, err)
		time.Sleep(cacheTTL)
		before := m.found()
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() { _, _ = a.Authenticate(ctx, guess(), "") })
		}
		synctest.Wait()
		require.Len(t, a.strangers, maxStrangers)
		began := time.Now()
		_, err = a.Authenticate(t.Context(), key, "")
		require.NoError(t, err)
		require.Equal(t, time.Second, time.Since(began), "it waits only for its own lookup")
		for range 100 {
			wg.Go(func() { _, _ = a.Authenticate(ctx, guess(), "") })
		}
		_, err = a.Authenticate(t.Context(), other, "")
		require.NoError(t, err)
		cancel()
		wg.Wait()
		time.Sleep(2 * lookupTimeout) // the lookups continue after their requests have ended
		require.Empty(t, a.strangers)
		require.LessOrEqual(t, m.found()-before, 2*maxStrangers+2, "most guesses cost the store nothing")
	})
}
