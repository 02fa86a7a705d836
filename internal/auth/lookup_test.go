// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"context"
	"fmt"
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

// TestLookupsAreBounded sends more requests than the store can handle at a time: guesses, revoked and expired keys of
// an organization, and more live keys of several than are cached. They do not delay the keys of other organizations.
func TestLookupsAreBounded(t *testing.T) {
	add := func(t *testing.T, m *memory, n int, organization string, change func(k *assay.APIKey, i int)) (headers []string) {
		for i := range n {
			headers = append(headers, "Bearer "+string(m.add(t, func(k *assay.APIKey) {
				k.OrganizationID, k.LastUsedAt = organization, time.Now()
				if change != nil {
					change(k, i)
				}
			})))
		}
		return headers
	}
	for name, headers := range map[string]func(t *testing.T, m *memory) []string{
		"guesses": func(*testing.T, *memory) (all []string) {
			for range 2000 {
				all = append(all, guess())
			}
			return all
		},
		"revoked and expired": func(t *testing.T, m *memory) []string {
			return add(t, m, 2000, "attacker", func(k *assay.APIKey, i int) {
				k.RevokedAt = time.Now()
				if i%2 == 0 {
					k.RevokedAt, k.ExpiresAt = time.Time{}, time.Now()
				}
			})
		},
		"live": func(t *testing.T, m *memory) []string { return add(t, m, MaxLiveKeys, "attacker", nil) },
		"beyond the cache": func(t *testing.T, m *memory) (all []string) {
			for i := range 1 + maxFound/MaxLiveKeys {
				all = append(all, add(t, m, MaxLiveKeys, fmt.Sprint("attacker ", i), nil)...)
			}
			return all
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &memory{}
				victim := add(t, m, 2, "victim", nil)
				attack := headers(t, m)
				s := slow(m.store())
				var mu sync.Mutex
				lookups, most := map[string]int{}, 0
				find := s.FindAPIKeyFn
				s.FindAPIKeyFn = func(ctx context.Context, id string) (*assay.APIKey, error) {
					count := func(n int) {
						mu.Lock()
						defer mu.Unlock()
						lookups[assay.OrganizationOf(ctx)] += n
						all := 0
						for _, n := range lookups {
							all += n
						}
						most = max(most, all)
					}
					count(1)
					defer count(-1)
					return find(ctx, id)
				}
				list := s.FindLiveAPIKeysFn
				s.FindLiveAPIKeysFn = func(ctx context.Context, now time.Time) ([]*assay.APIKey, error) {
					time.Sleep(time.Second)
					return list(ctx, now)
				}
				a := &Authenticator{Keys: s, Prefix: "assay"}
				defer a.Close()
				_, err := a.Authenticate(t.Context(), victim[0], "")
				require.NoError(t, err)
				time.Sleep(cacheTTL)
				for range 3 { // the first round makes live keys known
					time.Sleep(cacheTTL)
					ctx, cancel := context.WithCancel(t.Context())
					var wg sync.WaitGroup
					for _, header := range attack {
						wg.Go(func() { _, _ = a.Authenticate(ctx, header, "") })
					}
					synctest.Wait()
					for _, key := range victim { // used before, and not used before
						began := time.Now()
						_, err = a.Authenticate(t.Context(), key, "")
						require.NoError(t, err)
						require.LessOrEqual(t, time.Since(began), time.Second, "it waits for one lookup only")
					}
					cancel()
					wg.Wait()
					time.Sleep(time.Second) // lookups continue after their requests have ended
					synctest.Wait()
					for organization, n := range lookups {
						require.Zero(t, n, organization)
					}
				}
				require.LessOrEqual(t, most, 2*maxLookups)
				require.LessOrEqual(t, m.found(), 1+3*2*maxLookups, "most requests cost the store nothing")
				require.LessOrEqual(t, m.lists, 6)
				require.Zero(t, a.running.InUse())
			})
		})
	}
}

// TestLookupsTakeTurns checks that the lookup of a key that was found before is queued under its organization. Lookups
// of ids without a live key are queued as one organization.
func TestLookupsTakeTurns(t *testing.T) {
	m := &memory{}
	now := time.Now()
	key := m.add(t, func(k *assay.APIKey) { k.OrganizationID, k.LastUsedAt = "org-2", now })
	s := m.store()
	var lookups []string
	find := s.FindAPIKeyFn
	s.FindAPIKeyFn = func(ctx context.Context, id string) (*assay.APIKey, error) {
		lookups = append(lookups, assay.OrganizationOf(ctx))
		return find(ctx, id)
	}
	a := &Authenticator{Keys: s, Prefix: "assay", Now: func() time.Time { return now }}
	defer a.Close()
	for range 2 {
		_, err := a.Authenticate(t.Context(), "Bearer "+string(key), "")
		require.NoError(t, err)
		now = now.Add(cacheTTL)
	}
	m.change(func() {
		k := m.keys[string(key)[9:15]]
		k.RevokedAt = now
		m.keys[k.ID] = k
	})
	for range 2 {
		_, err := a.Authenticate(t.Context(), "Bearer "+string(key), "")
		require.Equal(t, assay.CodeInvalidAPIKey, assay.ErrorCode(err))
		now = now.Add(cacheTTL)
	}
	require.Equal(t, []string{assay.Anonymous, "org-2", "org-2", assay.Anonymous}, lookups)
}
