// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"bytes"
	"context"
	"crypto"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// journal collects log output. It is safe for concurrent use.
type journal struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.buf.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.buf.String()
}

// TestNoCredentialIsLogged sends valid and invalid credentials of both kinds through all failures, and
// searches logs and errors for them.
func TestNoCredentialIsLogged(t *testing.T) {
	keys := testKeys()
	synctest.Test(t, func(t *testing.T) {
		var log journal
		logger := slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug - 4}))
		i := &idp{down: errors.New("connection refused")}
		p, err := NewProvider(ProviderConfig{
			Issuer: testIssuer, Audience: testAudience, Organizations: finder(organizations), Logger: logger,
		})
		require.NoError(t, err)
		p.keys.client.Transport = i
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			p.Run(ctx)
		}()

		m := &memory{}
		key := m.add(t, nil)
		store := m.store()
		store.TouchAPIKeyFn = func(context.Context, string, time.Time) error { return errors.New("read-only") }
		a := &Authenticator{Keys: store, Prefix: "assay", Tokens: p, Logger: logger, FailureLimit: 100}
		credentials := []string{
			string(key), otherSecret(key), strings.TrimPrefix(guess(), "Bearer "), "hunter2",
			string(tokenOf(t, keys["EdDSA"], "EdDSA", "EdDSA")),
			string(tokenOf(t, keys["ES256"], "ES256", "unknown")),
			sign(t, keys["EdDSA"], header("EdDSA"), claims(time.Now(), map[string]any{"sub": "someone@example.com", "org_id": "ext-2"})),
			sign(t, keys["EdDSA"], header("EdDSA"), claims(time.Now(), map[string]any{"exp": 1})),
			sign(t, []byte("secret"), `{"alg":"HS256"}`, claims(time.Now(), nil)),
			sign(t, nil, `{"alg":"x","kid":["someone@example.com"]}`, `{"sub":"someone@example.com"`),
		}
		var said []string
		try := func() {
			for range 20 { // past the limit of failures, too
				for _, c := range credentials {
					for _, form := range []string{"Bearer %s", "%s", "Basic %s", "Bearer %s x"} {
						if _, err := a.Authenticate(t.Context(), fmt.Sprintf(form, c), "203.0.113.77:1234"); err != nil {
							said = append(said, fmt.Sprintf("%v %+v", err, err))
						}
					}
				}
			}
			time.Sleep(2 * refreshInterval)
		}
		try()
		i.change(func() { i.set = "<html>" })
		try()
		i.change(func() { i.down, i.set, i.keys = nil, "", map[string]crypto.Signer{} })
		try()
		i.change(func() { i.keys["EdDSA"] = keys["EdDSA"] })
		try()
		m.change(func() { m.err = errors.New("store is away") })
		try()
		a.Close()
		cancel()
		<-done

		for _, want := range []string{"could not be fetched", "can be fetched again", "has no key", "was not written"} {
			require.True(t, strings.Contains(log.String(), want), "the test does not cover %q", want)
		}
		all := log.String() + strings.Join(said, "\n")
		for _, c := range append(credentials, "someone@example.com", "user-1", "203.0.113.77") {
			for _, part := range append(strings.Split(c, "."), c) {
				if strings.HasPrefix(part, "assay_sk_") {
					part = part[len("assay_sk_123456_"):]
				}
				if len(part) > 6 {
					require.False(t, strings.Contains(all, part), "%q is in a log or an error", part)
				}
			}
		}
		require.True(t, strings.Contains(all, "too many failed authentications"))
	})
}
