// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"assay"
)

const (
	attacker = "192.0.2.1:40000"
	neighbor = "192.0.2.2:40000"
)

// guess returns the header of an unknown key.
func guess() string {
	key, _ := NewKey("assay")
	return "Bearer " + string(key)
}

// otherSecret returns a key with the id of another and a secret that is wrong.
func otherSecret(key Secret) string {
	return string(key[:len(key)-1]) + map[bool]string{true: "1", false: "0"}[strings.HasSuffix(string(key), "0")]
}

func retryAfter(t testing.TB, err error) time.Duration {
	t.Helper()
	var retry interface{ RetryAfter() time.Duration }
	require.ErrorAs(t, err, &retry)
	return retry.RetryAfter()
}

func TestFailuresOfAnAddressAreLimited(t *testing.T) {
	m := &memory{}
	now := time.Now()
	used := func(k *assay.APIKey) { k.LastUsedAt = now }
	inUse, fresh := m.add(t, used), m.add(t, used)
	expired := m.add(t, func(k *assay.APIKey) { k.ExpiresAt = now })
	a := &Authenticator{
		Keys: m.store(), Prefix: "assay", FailureLimit: 60, Now: func() time.Time { return now },
		Tokens: tokens(func(_ context.Context, s Secret) (*assay.Principal, error) {
			switch s {
			case "good.to.ken":
				return &assay.Principal{User: true}, nil
			case "no.or.ganization":
				return nil, assay.Errorf(assay.CodeForbidden, "no organization")
			}
			return nil, assay.Errorf(assay.CodeInvalidToken, "not valid")
		}),
	}
	defer a.Close()
	code := func(header, address string) assay.Code {
		_, err := a.Authenticate(t.Context(), header, address)
		return assay.ErrorCode(err)
	}
	bad := []string{guess(), "Bearer " + otherSecret(inUse), "Bearer a.b.c", "Bearer x", "Bearer " + string(expired)}
	for n := range 60 {
		require.NotEqual(t, assay.CodeRateLimited, code(bad[n%len(bad)], attacker), n)
	}
	for _, header := range append(bad, guess()) {
		_, err := a.Authenticate(t.Context(), header, attacker)
		require.Equal(t, assay.CodeRateLimited, assay.ErrorCode(err))
		require.Equal(t, time.Second, retryAfter(t, err))
	}

	// Valid credentials from the same address are accepted: cached, new, and a user's token.
	for _, header := range []string{"Bearer " + string(inUse), "Bearer " + string(fresh), "Bearer good.to.ken"} {
		require.Empty(t, code(header, attacker))
	}
	// A request without a credential does not count as a guess.
	require.Equal(t, assay.CodeMissingCredentials, code("", attacker))
	require.Equal(t, assay.CodeForbidden, code("Bearer no.or.ganization", attacker))
	// Other addresses are not affected.
	require.Equal(t, assay.CodeInvalidAPIKey, code(guess(), neighbor))

	// One failure is allowed per second, up to a burst of sixty.
	now = now.Add(time.Second)
	require.Equal(t, assay.CodeInvalidAPIKey, code("Bearer x", attacker))
	require.Equal(t, assay.CodeRateLimited, code("Bearer x", attacker))
	now = now.Add(time.Hour)
	for range 60 {
		require.Equal(t, assay.CodeInvalidAPIKey, code("Bearer x", attacker))
	}
	require.Equal(t, assay.CodeRateLimited, code("Bearer x", attacker))

	// A clock that steps back does not extend the wait beyond a minute.
	now = now.Add(-time.Hour)
	_, err := a.Authenticate(t.Context(), "Bearer x", attacker)
	require.Equal(t, time.Second, retryAfter(t, err))
}

// TestGuessesDoNotReachTheStore counts queries while an address guesses.
func TestGuessesDoNotReachTheStore(t *testing.T) {
	m := &memory{}
	now := time.Now()
	key := m.add(t, func(k *assay.APIKey) { k.LastUsedAt = now })
	a := &Authenticator{Keys: m.store(), Prefix: "assay", FailureLimit: 10, Now: func() time.Time { return now }}
	defer a.Close()
	code := func(header string) assay.Code {
		_, err := a.Authenticate(t.Context(), header, attacker)
		return assay.ErrorCode(err)
	}
	for range 1000 {
		code(guess())
	}
	require.Equal(t, 10, m.finds)
	require.Equal(t, 1, m.lists)
	require.Empty(t, code("Bearer "+string(key)))
	require.Equal(t, 10, m.finds)

	// A new key passes after three seconds, in which no second list is read.
	late := m.add(t, func(k *assay.APIKey) { k.LastUsedAt = now })
	require.Equal(t, assay.CodeRateLimited, code("Bearer "+string(late)))
	now = now.Add(cacheTTL)
	require.Empty(t, code("Bearer "+string(late)))
	require.Equal(t, 2, m.lists)

	// A store that is unavailable does not count as a wrong key.
	m.change(func() { m.err = errors.New("connection refused") })
	now = now.Add(cacheTTL)
	code("Bearer x")
	for range 20 {
		require.NotEqual(t, assay.CodeInvalidAPIKey, code(guess()))
	}
	require.Equal(t, assay.CodeUnavailable, code("Bearer "+string(key)))
}

// TestGuessesShareOneList sends many guesses while the store is slow.
func TestGuessesShareOneList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{}
		key := m.add(t, func(k *assay.APIKey) { k.LastUsedAt = time.Now() })
		s := m.store()
		list := s.FindLiveAPIKeysFn
		s.FindLiveAPIKeysFn = func(ctx context.Context, now time.Time) ([]*assay.APIKey, error) {
			time.Sleep(time.Second)
			return list(ctx, now)
		}
		a := &Authenticator{Keys: s, Prefix: "assay", FailureLimit: 1}
		defer a.Close()
		_, err := a.Authenticate(t.Context(), "Bearer x", attacker)
		require.Equal(t, assay.CodeInvalidAPIKey, assay.ErrorCode(err))
		var wg sync.WaitGroup
		for range 500 {
			wg.Go(func() {
				if _, err := a.Authenticate(t.Context(), guess(), attacker); assay.ErrorCode(err) != assay.CodeRateLimited {
					t.Error(err)
				}
			})
		}
		wg.Go(func() {
			if _, err := a.Authenticate(t.Context(), "Bearer "+string(key), attacker); err != nil {
				t.Error(err)
			}
		})
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			if _, err := a.Authenticate(ctx, guess(), attacker); assay.ErrorCode(err) != assay.CodeUnavailable {
				t.Error(err)
			}
		})
		wg.Wait()
		require.Equal(t, 1, m.lists)
	})
}

func TestFailuresWithoutLimit(t *testing.T) {
	m := &memory{}
	a := &Authenticator{Keys: m.store(), Prefix: "assay"}
	defer a.Close()
	for range 1000 {
		_, err := a.Authenticate(t.Context(), guess(), attacker)
		require.Equal(t, assay.CodeInvalidAPIKey, assay.ErrorCode(err))
	}
	require.Zero(t, m.lists)
}

// TestFailureLimiter checks that failures of unknown clients do not affect a known client at the same
// address, and the reverse.
func TestFailureLimiter(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	l := NewFailureLimiter(2, func() time.Time { return now })
	const address, other = "192.0.2.1:1", "192.0.2.2:1"
	for range 3 {
		l.Failed(address, "")
	}
	err := l.Refuse("192.0.2.1:2", "")
	require.Equal(t, assay.CodeRateLimited, assay.ErrorCode(err))
	var wait interface{ RetryAfter() time.Duration }
	require.ErrorAs(t, err, &wait)
	require.Equal(t, 30*time.Second, wait.RetryAfter())
	require.NoError(t, l.Refuse(other, ""))
	require.NoError(t, l.Refuse(address, "ada"))
	for range 3 {
		l.Failed(other, "ada")
	}
	require.Equal(t, assay.CodeRateLimited, assay.ErrorCode(l.Refuse("192.0.2.3:1", "ada")), "wherever it is")
	require.NoError(t, l.Refuse(other, ""))
	require.NoError(t, l.Refuse(other, "grace"))
	now = now.Add(30 * time.Second)
	require.NoError(t, l.Refuse(address, ""))
	require.NoError(t, l.Refuse(address, "ada"))
}
