// SPDX-License-Identifier: Apache-2.0

package codebase

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"assay"
	"assay/internal/auth"
	"assay/internal/codebase/source"
	"assay/internal/store/sqlite"
	"assay/internal/store/sqlite/fresh"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const issuer = "https://assay.example.com"

// clock is a time that tests move.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// signer is what assay is to the agent: it signs tokens and publishes keys.
type signer struct {
	*httptest.Server
	mu     sync.Mutex
	keys   []jose.JSONWebKey // private
	body   string            // published instead of the keys, unless empty
	status int
	gets   atomic.Int64
}

func newSigner(t testing.TB, ids ...string) *signer {
	s := &signer{status: http.StatusOK}
	for _, id := range ids {
		s.add(t, id)
	}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s.gets.Add(1)
		s.mu.Lock()
		defer s.mu.Unlock()
		var set jose.JSONWebKeySet
		for _, k := range s.keys {
			set.Keys = append(set.Keys, k.Public())
		}
		w.WriteHeader(s.status)
		body := []byte(s.body)
		if s.body == "" {
			var err error
			if body, err = json.Marshal(set); err != nil {
				t.Error(err)
			}
		}
		w.Write(body)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *signer) add(t testing.TB, id string) {
	_, private, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys = append(s.keys, jose.JSONWebKey{Key: private, KeyID: id, Algorithm: string(jose.EdDSA), Use: "sig"})
}

// sign signs claims with the last key.
func (s *signer) sign(t require.TestingT, claims map[string]any) string {
	s.mu.Lock()
	key := s.keys[len(s.keys)-1]
	s.mu.Unlock()
	return signWith(t, jose.SigningKey{Algorithm: jose.EdDSA, Key: key}, claims)
}

func signWith(t require.TestingT, key jose.SigningKey, claims map[string]any) string {
	sig, err := jose.NewSigner(key, (&jose.SignerOptions{}).WithType("JWT"))
	require.NoError(t, err)
	token, err := jwt.Signed(sig).Claims(claims).Serialize()
	require.NoError(t, err)
	return token
}

// fakeSources connect what they are told.
type fakeSources struct {
	*source.Sources
	connect func(*source.Request) (*source.Connection, error)

	authorize func(kind string, g source.Grant) (*source.Connection, error)
	event     func(kind string, body []byte) (*source.Event, error)
	busy      bool   // too many sources are being connected
	lost      string // an organization whose installations are lost
}

func (f *fakeSources) Connect(_ context.Context, r *source.Request) (*source.Connection, error) {
	return f.connect(r)
}

// turns is a store that records the organizations of the contexts of callbacks.
type turns struct {
	*sqlite.Store
	mu   sync.Mutex
	seen []string
}

func (s *turns) note(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, assay.OrganizationOf(ctx))
}

func (s *turns) OnboardingState(ctx context.Context, hash [32]byte, now time.Time) (*assay.OnboardingState, error) {
	s.note(ctx)
	return s.Store.OnboardingState(ctx, hash, now)
}

func (s *turns) TakeOnboardingState(ctx context.Context, hash [32]byte, now time.Time) (*assay.OnboardingState, error) {
	s.note(ctx)
	return s.Store.TakeOnboardingState(ctx, hash, now)
}

// world is an agent with a store, a signer and a clock.
type world struct {
	t       require.TestingT
	clock   *clock
	signer  *signer
	store   *turns
	sources *fakeSources
	handler http.Handler
	public  http.Handler
	log     *lockedBuffer
	acme    string // ids of organizations
	other   string
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func newWorld(t testing.TB, cfg Config) *world { return newWorldWith(t, cfg) }

// newWorldWith returns a world whose server is configured for kinds of source hosts.
func newWorldWith(t testing.TB, cfg Config, kinds ...string) *world {
	w := &world{t: t, clock: newClock(), signer: newSigner(t, "key-1"), log: &lockedBuffer{}}
	store, err := sqlite.Open(t.Context(), sqlite.Config{Path: fresh.Path(t), Now: w.clock.Now})
	require.NoError(t, err)
	w.store = &turns{Store: store}
	t.Cleanup(func() { require.NoError(t, w.store.Close()) })
	for _, o := range []struct {
		name string
		tier assay.Tier
		id   *string
	}{{"acme", assay.TierEnterprise, &w.acme}, {"other", assay.TierPro, &w.other}} {
		organization := &assay.Organization{Name: o.name, Tier: o.tier}
		require.NoError(t, w.store.CreateOrganization(t.Context(), organization))
		*o.id = organization.ID
	}
	forges := map[string]source.ForgeConfig{}
	for _, kind := range kinds {
		forges[kind] = source.ForgeConfig{URL: "https://" + kind + ".example.com", ClientID: "client", ClientSecret: "client-secret", WebhookSecret: "hook-secret"}
	}
	sources, err := source.New(source.Config{Secret: auth.Secret(strings.Repeat("k", 32)), WorkDir: t.TempDir(), Forges: forges})
	require.NoError(t, err)
	w.sources = &fakeSources{Sources: sources, connect: connectGit}
	cfg.JWKSURL, cfg.Keys, cfg.Issuer, cfg.Now = w.signer.URL, KeyTransport(nil), issuer, w.clock.Now
	cfg.Store, cfg.Organizations, cfg.Sources, cfg.ConnectURL = w.store, w.store, w.sources, issuer+"/repositories/connect"
	cfg.Logger = slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	w.handler, w.public = New(cfg)
	return w
}

// connectGit connects every URL: the last two segments are owner and name.
func connectGit(r *source.Request) (*source.Connection, error) {
	parts := strings.Split(r.URL, "/")
	if len(parts) < 2 {
		return nil, &assay.Error{Code: assay.CodeUnprocessable, Message: "the source cannot be connected", Details: map[string]string{"url": "must be a URL"}}
	}
	owner, name := parts[len(parts)-2], parts[len(parts)-1]
	return &source.Connection{
		Provider: r.Kind, Account: owner, Credential: r.Credential,
		Repositories: []*assay.Repository{{FullName: owner + "/" + name, URL: r.URL, DefaultBranch: "main", Access: "granted"}},
	}, nil
}

// in returns the world for a test within the test.
func (w *world) in(t require.TestingT) *world {
	inner := *w
	inner.t = t
	return &inner
}

// claims are those of a good token.
func (w *world) claims(organization, credential string) map[string]any {
	now := w.clock.Now()
	return map[string]any{
		"iss": issuer, "aud": DefaultAudience, "sub": "somebody", "org_id": organization, "credential": credential,
		"iat": now.Unix(), "nbf": now.Unix(), "exp": now.Add(time.Minute).Unix(), "jti": "1",
	}
}

// as returns a client that calls with good tokens.
func (w *world) as(organization, credential string) *client {
	return &client{world: w, organization: organization, credential: credential}
}

type client struct {
	*world
	organization, credential string
	header                   http.Header
}

// reply is what the agent answered.
type reply struct {
	status int
	header http.Header
	Data   json.RawMessage `json:"data"`
	Meta   struct {
		Timestamp time.Time `json:"timestamp"`
	} `json:"meta"`
	Error *struct {
		Code    string            `json:"code"`
		Message string            `json:"message"`
		Details map[string]string `json:"details"`
	} `json:"error"`
}

// do calls an operation: "GET /findings?page=2".
func (c *client) do(target, body string) *reply {
	method, path, _ := strings.Cut(target, " ")
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	for name, values := range c.header {
		r.Header[name] = values
	}
	r.Header.Set("Authorization", "Bearer "+c.signer.sign(c.t, c.claims(c.organization, c.credential)))
	return c.serve(r)
}

// serve has a request answered and checks what holds for every answer.
func (w *world) serve(r *http.Request) *reply {
	rec := httptest.NewRecorder()
	w.handler.ServeHTTP(rec, r)
	a := &reply{status: rec.Code, header: rec.Header()}
	if a.status == http.StatusNotModified {
		require.Zero(w.t, rec.Body.Len())
		return a
	}
	require.Equal(w.t, "application/json", a.header.Get("Content-Type"))
	require.NoError(w.t, json.Unmarshal(rec.Body.Bytes(), a), rec.Body.String())
	require.False(w.t, a.Meta.Timestamp.IsZero())
	if a.status == http.StatusOK {
		require.Nil(w.t, a.Error)
		require.NotEmpty(w.t, a.Data)
	} else {
		require.NotNil(w.t, a.Error, rec.Body.String())
		require.NotEmpty(w.t, a.Error.Code)
		require.NotEmpty(w.t, a.Error.Message)
	}
	return a
}

// get calls an operation that succeeds and reads its data.
func get[T any](c *client, target, body string) T {
	a := c.do(target, body)
	require.Equal(c.t, http.StatusOK, a.status, "%s: %+v", target, a.Error)
	var data T
	require.NoError(c.t, json.Unmarshal(a.Data, &data), string(a.Data))
	return data
}

// connect connects a repository and returns its id.
func (c *client) connect(url string) string {
	made := get[connected](c, "POST /onboarding/installations", fmt.Sprintf(`{"kind":"git","url":%q,"token":"t"}`, url))
	require.Len(c.t, made.Repositories, 1)
	return made.Repositories[0].ID
}

// activate connects and activates a repository.
func (c *client) activate(url string) string {
	id := c.connect(url)
	get[activation](c, "PATCH /repositories/"+id, `{"is_active":true}`)
	return id
}
