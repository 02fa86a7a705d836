// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/store/sqlite"
)

// keyStore is an assay.APIKeyStore of three functions; the rest is not called.
type keyStore struct {
	assay.APIKeyStore
	FindAPIKeyFn      func(ctx context.Context, id string) (*assay.APIKey, error)
	FindLiveAPIKeysFn func(ctx context.Context, now time.Time) ([]*assay.APIKey, error)
	TouchAPIKeyFn     func(ctx context.Context, id string, at time.Time) error
}

func (s *keyStore) FindAPIKey(ctx context.Context, id string) (*assay.APIKey, error) {
	return s.FindAPIKeyFn(ctx, id)
}

func (s *keyStore) FindLiveAPIKeys(ctx context.Context, now time.Time) ([]*assay.APIKey, error) {
	return s.FindLiveAPIKeysFn(ctx, now)
}

func (s *keyStore) TouchAPIKey(ctx context.Context, id string, at time.Time) error {
	return s.TouchAPIKeyFn(ctx, id, at)
}

// memory is a store of keys that can fail and counts its calls.
type memory struct {
	mu      sync.Mutex
	keys    map[string]assay.APIKey
	err     error
	finds   int
	lists   int
	touches []touch
}

// found returns the number of lookups.
func (m *memory) found() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.finds
}

func (m *memory) store() *keyStore {
	return &keyStore{
		FindAPIKeyFn: func(_ context.Context, id string) (*assay.APIKey, error) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.finds++
			if m.err != nil {
				return nil, m.err
			}
			k, ok := m.keys[id]
			if !ok {
				return nil, assay.Errorf(assay.CodeNotFound, "API key %s not found", id)
			}
			return &k, nil
		},
		FindLiveAPIKeysFn: func(_ context.Context, now time.Time) ([]*assay.APIKey, error) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.lists++
			if m.err != nil {
				return nil, m.err
			}
			var all []*assay.APIKey
			for _, k := range m.keys {
				if k.Live(now) {
					all = append(all, &k)
				}
			}
			return all, nil
		},
		TouchAPIKeyFn: func(_ context.Context, id string, at time.Time) error {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.touches = append(m.touches, touch{id, at})
			if m.err != nil {
				return m.err
			}
			k := m.keys[id]
			k.LastUsedAt = at
			m.keys[id] = k
			return nil
		},
	}
}

func (m *memory) change(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
}

func (m *memory) add(t testing.TB, change func(*assay.APIKey)) Secret {
	t.Helper()
	key, k := NewKey("assay")
	k.OrganizationID, k.Scopes = "org-1", assay.Scopes()
	if change != nil {
		change(k)
	}
	m.change(func() {
		if m.keys == nil {
			m.keys = map[string]assay.APIKey{}
		}
		m.keys[k.ID] = *k
	})
	return key
}

func TestAuthenticateHeader(t *testing.T) {
	m := &memory{}
	key := string(m.add(t, nil))
	expired := string(m.add(t, func(k *assay.APIKey) { k.ExpiresAt = time.Now().Add(-time.Second) }))
	revoked := string(m.add(t, func(k *assay.APIKey) { k.RevokedAt = time.Now().Add(-time.Second) }))
	unknown, _ := NewKey("assay")
	wrong := otherSecret(Secret(key))
	a := &Authenticator{Keys: m.store(), Prefix: "assay"}
	defer a.Close()

	for name, c := range map[string]struct {
		header string
		code   assay.Code
	}{
		"good":                      {"Bearer " + key, ""},
		"scheme in lower case":      {"bearer " + key, ""},
		"scheme in upper case":      {"BEARER " + key, ""},
		"more spaces":               {"  Bearer \t  " + key + " \t", ""},
		"tab":                       {"Bearer\t" + key, ""},
		"nothing":                   {"", assay.CodeMissingCredentials},
		"only spaces":               {" \t ", assay.CodeMissingCredentials},
		"only the scheme":           {"Bearer", assay.CodeMissingCredentials},
		"scheme and space":          {"Bearer  ", assay.CodeMissingCredentials},
		"key without scheme":        {key, assay.CodeMissingCredentials},
		"token without scheme":      {"aaa.bbb.ccc", assay.CodeMissingCredentials},
		"basic":                     {"Basic " + key, assay.CodeMissingCredentials},
		"scheme that begins alike":  {"Bearers " + key, assay.CodeMissingCredentials},
		"colon after scheme":        {"Bearer: " + key, assay.CodeMissingCredentials},
		"token":                     {"Bearer aaa.bbb.ccc", assay.CodeInvalidToken},
		"token of empty parts":      {"Bearer ..", assay.CodeInvalidToken},
		"key with two dots":         {"Bearer " + key + "..", assay.CodeInvalidToken},
		"two parts":                 {"Bearer aaa.bbb", assay.CodeInvalidAPIKey},
		"four parts":                {"Bearer a.b.c.d", assay.CodeInvalidAPIKey},
		"not a key":                 {"Bearer nonsense", assay.CodeInvalidAPIKey},
		"unknown key":               {"Bearer " + string(unknown), assay.CodeInvalidAPIKey},
		"known id, other secret":    {"Bearer " + wrong, assay.CodeInvalidAPIKey},
		"expired":                   {"Bearer " + expired, assay.CodeInvalidAPIKey},
		"revoked":                   {"Bearer " + revoked, assay.CodeInvalidAPIKey},
		"two credentials":           {"Bearer " + key + " " + key, assay.CodeInvalidAPIKey},
		"two headers joined":        {"Bearer " + key + ", Bearer " + key, assay.CodeInvalidAPIKey},
		"quoted":                    {`Bearer "` + key + `"`, assay.CodeInvalidAPIKey},
		"upper-case key":            {"Bearer " + strings.ToUpper(key), assay.CodeInvalidAPIKey},
		"NUL inside":                {"Bearer " + key + "\x00", assay.CodeInvalidAPIKey},
		"line feed inside":          {"Bearer " + key + "\nX: y", assay.CodeInvalidAPIKey},
		"not UTF-8":                 {"Bearer \xff\xfe", assay.CodeInvalidAPIKey},
		"no-break space after":      {"Bearer " + key + "\u00a0", assay.CodeInvalidAPIKey},
		"a megabyte":                {"Bearer " + strings.Repeat("a", 1<<20), assay.CodeInvalidAPIKey},
		"a megabyte of separators":  {"Bearer assay_sk_" + strings.Repeat("_sk_", 1<<18), assay.CodeInvalidAPIKey},
		"a megabyte without scheme": {strings.Repeat("a", 1<<20), assay.CodeInvalidAPIKey},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := a.Authenticate(t.Context(), c.header, "")
			require.Equal(t, c.code, assay.ErrorCode(err))
			if c.code != "" {
				require.Nil(t, p)
				for _, secret := range []string{key[16:], expired[16:], revoked[16:], string(unknown)[16:]} {
					require.NotContains(t, fmt.Sprintf("%v %+v", err, err), secret)
				}
				return
			}
			require.Equal(t, &assay.Principal{
				OrganizationID: "org-1", Subject: "key:" + key[9:15], Scopes: assay.Scopes(),
			}, p)
		})
	}
}

func TestAuthenticateExpires(t *testing.T) {
	m := &memory{}
	now := time.Now()
	key := m.add(t, func(k *assay.APIKey) { k.ExpiresAt = now.Add(time.Second) })
	a := &Authenticator{Keys: m.store(), Prefix: "assay", Now: func() time.Time { return now }}
	defer a.Close()
	_, err := a.Authenticate(t.Context(), "Bearer "+string(key), "")
	require.NoError(t, err)
	now = now.Add(time.Second) // still cached
	_, err = a.Authenticate(t.Context(), "Bearer "+string(key), "")
	require.Equal(t, assay.CodeInvalidAPIKey, assay.ErrorCode(err))
}

type tokens func(context.Context, Secret) (*assay.Principal, error)

func (f tokens) VerifyToken(ctx context.Context, s Secret) (*assay.Principal, error) {
	return f(ctx, s)
}

func TestAuthenticateToken(t *testing.T) {
	user := &assay.Principal{User: true}
	a := &Authenticator{Tokens: tokens(func(_ context.Context, s Secret) (*assay.Principal, error) {
		if s == "a.b.c" {
			return user, nil
		}
		return nil, assay.Errorf(assay.CodeForbidden, "no organization")
	})}
	defer a.Close()
	p, err := a.Authenticate(t.Context(), "Bearer a.b.c", "")
	require.NoError(t, err)
	require.Same(t, user, p)
	_, err = a.Authenticate(t.Context(), "Bearer a.b.d", "")
	require.Equal(t, assay.CodeForbidden, assay.ErrorCode(err))
}

func TestCacheHoldsForThreeSeconds(t *testing.T) {
	m := &memory{}
	now := time.Now()
	key := m.add(t, func(k *assay.APIKey) { k.LastUsedAt = now })
	a := &Authenticator{Keys: m.store(), Prefix: "assay", Now: func() time.Time { return now }}
	defer a.Close()
	check := func(want assay.Code, finds int) {
		t.Helper()
		_, err := a.Authenticate(t.Context(), "Bearer "+string(key), "")
		require.Equal(t, want, assay.ErrorCode(err))
		require.Equal(t, finds, m.finds)
	}
	check("", 1)
	m.change(func() {
		k := m.keys[string(key)[9:15]]
		k.RevokedAt = now
		m.keys[k.ID] = k
	})
	now = now.Add(cacheTTL - time.Nanosecond)
	check("", 1)
	now = now.Add(time.Nanosecond)
	check(assay.CodeInvalidAPIKey, 2)

	// An unknown key is cached for the same time.
	fresh, k := NewKey("assay")
	key = fresh
	check(assay.CodeInvalidAPIKey, 3)
	m.change(func() { m.keys[k.ID] = *k })
	check(assay.CodeInvalidAPIKey, 3)
	now = now.Add(cacheTTL)
	check("", 4)

	// A deleted key expires from the cache like a revoked one.
	m.change(func() { delete(m.keys, k.ID) })
	now = now.Add(cacheTTL)
	check(assay.CodeInvalidAPIKey, 5)

	// A clock that steps back does not extend the life of an entry.
	now = now.Add(-time.Hour)
	check(assay.CodeInvalidAPIKey, 6)
}

// TestRevocationReachesEveryReplica revokes a key that two replicas on one store have cached.
func TestRevocationReachesEveryReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{}
		key := m.add(t, nil)
		var replicas []*Authenticator
		for range 2 {
			a := &Authenticator{Keys: m.store(), Prefix: "assay"}
			defer a.Close()
			replicas = append(replicas, a)
		}
		use := func(want assay.Code) {
			t.Helper()
			for _, a := range replicas {
				_, err := a.Authenticate(t.Context(), "Bearer "+string(key), "")
				require.Equal(t, want, assay.ErrorCode(err))
			}
		}
		for range 7 { // in the middle of the life of their cache entries
			use("")
			time.Sleep(700 * time.Millisecond)
		}
		m.change(func() {
			k := m.keys[string(key)[9:15]]
			k.RevokedAt = time.Now()
			m.keys[k.ID] = k
		})
		time.Sleep(4 * time.Second)
		use(assay.CodeInvalidAPIKey)
	})
}

func TestStoreUnavailable(t *testing.T) {
	m := &memory{}
	now := time.Now()
	key := m.add(t, func(k *assay.APIKey) { k.LastUsedAt = now })
	a := &Authenticator{Keys: m.store(), Prefix: "assay", Now: func() time.Time { return now }}
	defer a.Close()
	_, err := a.Authenticate(t.Context(), "Bearer "+string(key), "")
	require.NoError(t, err)

	cause := errors.New("dial tcp: connection refused")
	m.change(func() { m.err = cause })
	_, err = a.Authenticate(t.Context(), "Bearer "+string(key), "")
	require.NoError(t, err, "cached")
	now = now.Add(cacheTTL)
	for range 2 { // a failure is not cached
		_, err = a.Authenticate(t.Context(), "Bearer "+string(key), "")
		require.Equal(t, assay.CodeUnavailable, assay.ErrorCode(err))
		require.ErrorIs(t, err, cause)
		require.NotContains(t, err.Error(), "dial", "the cause is for logs")
	}
	m.change(func() { m.err = nil })
	_, err = a.Authenticate(t.Context(), "Bearer "+string(key), "")
	require.NoError(t, err)
}

func TestSlowOldLookupDoesNotUndoANewerOne(t *testing.T) {
	now := time.Now()
	a := &Authenticator{Now: func() time.Time { return now }}
	a.prepare.Do(a.init)
	newer, older := &assay.APIKey{ID: "k"}, &assay.APIKey{ID: "k"}
	a.remember("k", &entry{key: newer, asOf: now})
	a.remember("k", &entry{key: older, asOf: now.Add(-time.Second)})
	require.Same(t, newer, a.cached("k", now).key)
	a.remember("k", &entry{asOf: now.Add(-time.Second)})
	require.Same(t, newer, a.cached("k", now).key)
	a.remember("k", &entry{asOf: now.Add(time.Millisecond)})
	a.remember("k", &entry{key: older, asOf: now})
	require.Nil(t, a.cached("k", now.Add(time.Millisecond)).key, "revoked meanwhile")
}

func TestCacheIsBounded(t *testing.T) {
	m := &memory{}
	now := time.Now()
	key := m.add(t, func(k *assay.APIKey) { k.LastUsedAt = now })
	a := &Authenticator{Keys: m.store(), Prefix: "assay", Now: func() time.Time { return now }}
	defer a.Close()
	_, err := a.Authenticate(t.Context(), "Bearer "+string(key), "")
	require.NoError(t, err)
	for range 3 * maxUnknown {
		guess, _ := NewKey("assay")
		_, err := a.Authenticate(t.Context(), "Bearer "+string(guess), "")
		require.Equal(t, assay.CodeInvalidAPIKey, assay.ErrorCode(err))
	}
	require.Equal(t, maxUnknown, a.unknown.len())
	require.Len(t, a.unknown.items, maxUnknown)
	finds := m.finds
	_, err = a.Authenticate(t.Context(), "Bearer "+string(key), "")
	require.NoError(t, err)
	require.Equal(t, finds, m.finds, "guesses pushed out a key in use")

	c := newCache[string, int](2)
	one, two := 1, 2
	c.put("a", &one)
	c.put("b", &one)
	require.NotNil(t, c.get("a"))
	c.put("c", &one)
	require.Nil(t, c.get("b"), "the least recently used goes")
	require.Same(t, &one, c.get("a"))
	c.put("a", &two)
	require.Equal(t, 2, c.len())
	require.Same(t, &two, c.get("a"))
}

func TestLastUseIsWrittenOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{}
		key := m.add(t, nil)
		start := time.Now()
		a := &Authenticator{Keys: m.store(), Prefix: "assay"}
		for range 130 { // every second, across many refreshes of the cache
			_, err := a.Authenticate(t.Context(), "Bearer "+string(key), "")
			require.NoError(t, err)
			time.Sleep(time.Second)
		}
		a.Close()
		a.Close()
		var at []time.Duration
		for _, w := range m.touches {
			require.Equal(t, string(key)[9:15], w.id)
			at = append(at, w.at.Sub(start))
		}
		require.Equal(t, []time.Duration{0, time.Minute, 2 * time.Minute}, at)

		_, err := a.Authenticate(t.Context(), "Bearer "+string(key), "")
		require.NoError(t, err, "after Close")
	})
}

func TestLastUseFailsOncePerMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{}
		key := m.add(t, nil)
		s := m.store()
		var tries atomic.Int32
		s.TouchAPIKeyFn = func(context.Context, string, time.Time) error {
			tries.Add(1)
			return errors.New("read-only")
		}
		a := &Authenticator{Keys: s, Prefix: "assay"}
		for range 61 {
			_, err := a.Authenticate(t.Context(), "Bearer "+string(key), "")
			require.NoError(t, err)
			time.Sleep(time.Second)
		}
		a.Close()
		require.EqualValues(t, 2, tries.Load())
	})
}

func TestLastUseNeverBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{}
		s := m.store()
		s.TouchAPIKeyFn = func(ctx context.Context, _ string, _ time.Time) error {
			<-ctx.Done() // a store that hangs
			return ctx.Err()
		}
		a := &Authenticator{Keys: s, Prefix: "assay"}
		start := time.Now()
		for range 2*touchQueue + 10 { // more keys than fit in the queue
			key := m.add(t, nil)
			_, err := a.Authenticate(t.Context(), "Bearer "+string(key), "")
			require.NoError(t, err)
		}
		require.Zero(t, time.Since(start))
		a.Close()
		require.LessOrEqual(t, time.Since(start), touchTimeout)
	})
}

func TestCloseWithoutUse(t *testing.T) {
	a := &Authenticator{}
	a.Close()
	a.Close()
}

func TestAuthenticateConcurrently(t *testing.T) {
	m := &memory{}
	key := m.add(t, nil)
	a := &Authenticator{Keys: m.store(), Prefix: "assay"}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				if _, err := a.Authenticate(t.Context(), "Bearer "+string(key), ""); err != nil {
					t.Error(err)
				}
				guess, _ := NewKey("assay")
				if _, err := a.Authenticate(t.Context(), "Bearer "+string(guess), ""); assay.ErrorCode(err) != assay.CodeInvalidAPIKey {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	a.Close()
	require.Len(t, m.touches, 1)
}

func FuzzAuthenticate(f *testing.F) {
	m := &memory{}
	key := string(m.add(f, nil))
	for _, s := range []string{"Bearer " + key, "bearer a.b.c", "Bearer", key, "", "Basic x", "Bearer " + key + "\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, header string) {
		a := &Authenticator{Keys: m.store(), Prefix: "assay"}
		defer a.Close()
		p, err := a.Authenticate(t.Context(), header, "")
		if (p == nil) == (err == nil) {
			t.Fatalf("principal %v, error %v", p, err)
		}
		if err == nil && !strings.Contains(header, key) {
			t.Fatalf("accepted %q", header)
		}
		switch assay.ErrorCode(err) {
		case "", assay.CodeMissingCredentials, assay.CodeInvalidAPIKey, assay.CodeInvalidToken:
		default:
			t.Fatalf("code of %v", err)
		}
	})
}

// BenchmarkRefusal compares the time to reject a key with an unknown id, a new one each time, with the time
// to reject a wrong secret of a known id. The two alternate. The ratio unknown/wrong must be at least one.
func BenchmarkRefusal(b *testing.B) {
	store, err := sqlite.Open(b.Context(), sqlite.Config{Path: filepath.Join(b.TempDir(), "assay.db"), Migrate: true})
	require.NoError(b, err)
	defer store.Close()
	org := &assay.Organization{Name: "default", Tier: assay.TierFree}
	require.NoError(b, store.CreateOrganization(b.Context(), org))
	key, k := NewKey("assay")
	k.OrganizationID, k.Name, k.Scopes = org.ID, "bench", assay.Scopes()
	require.NoError(b, store.CreateAPIKey(b.Context(), k, assay.APIKeyLimits{}))
	a := &Authenticator{Keys: store, Prefix: "assay", Now: time.Now}
	defer a.Close()

	wrong := "Bearer " + otherSecret(key)
	refuse := func(header string) time.Duration {
		began := time.Now()
		_, err := a.Authenticate(b.Context(), header, attacker)
		took := time.Since(began)
		if assay.ErrorCode(err) != assay.CodeInvalidAPIKey {
			b.Fatal(err)
		}
		return took
	}
	var unknownTook, wrongTook time.Duration
	for b.Loop() {
		unknown := guess()
		unknownTook += refuse(unknown)
		wrongTook += refuse(wrong)
	}
	b.ReportMetric(float64(unknownTook)/float64(b.N), "ns/unknown")
	b.ReportMetric(float64(wrongTook)/float64(b.N), "ns/wrong")
	b.ReportMetric(float64(unknownTook)/float64(wrongTook), "unknown/wrong")
}

func BenchmarkAuthenticate(b *testing.B) {
	m := &memory{}
	key := "Bearer " + string(m.add(b, func(k *assay.APIKey) { k.LastUsedAt = time.Now() }))
	a := &Authenticator{Keys: m.store(), Prefix: "assay"}
	defer a.Close()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := a.Authenticate(b.Context(), key, ""); err != nil {
			b.Fatal(err)
		}
	}
}
