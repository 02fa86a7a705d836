// SPDX-License-Identifier: Apache-2.0

package sign

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/store/sqlite"
	"assay/internal/store/sqlite/fresh"
)

const (
	testIssuer   = "https://assay.example.com"
	testAudience = "assay-agent"
)

var caller = &assay.Principal{OrganizationID: "0e6d6048-a35c-49f0-adbf-c3e293fafd2c", Subject: "key:WBYJgk", Scopes: assay.Scopes()}

// clock is a time that tests set.
type clock struct{ offset atomic.Int64 }

func (c *clock) now() time.Time {
	return time.Date(2026, time.November, 21, 12, 0, 0, 999_999_999, time.UTC).Add(time.Duration(c.offset.Load()))
}

func (c *clock) advance(d time.Duration) { c.offset.Add(int64(d)) }

// open opens a handle of the store in a directory, or of a new store for "".
func open(t testing.TB, dir string, now func() time.Time) *sqlite.Store {
	t.Helper()
	path := filepath.Join(dir, "assay.db")
	if dir == "" {
		path = fresh.Path(t)
	}
	s, err := sqlite.Open(t.Context(), sqlite.Config{Path: path, Migrate: true, Now: now})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func newSigner(t testing.TB, c Config) *Signer {
	t.Helper()
	c.Issuer, c.Audience = testIssuer, testAudience
	s, err := New(t.Context(), c)
	require.NoError(t, err)
	return s
}

func (s *Signer) mustSign(t testing.TB) string {
	t.Helper()
	token, err := s.Sign(t.Context(), caller)
	require.NoError(t, err)
	return token
}

// get requests the JWKS.
func (s *Signer) get(header http.Header, method string) *http.Response {
	r := httptest.NewRequest(method, Path, nil)
	r.Header = header
	w := httptest.NewRecorder()
	s.JWKS().ServeHTTP(w, r)
	return w.Result()
}

// published returns the JWKS as parsed by the library.
func (s *Signer) published(t testing.TB) *jose.JSONWebKeySet {
	t.Helper()
	var set jose.JSONWebKeySet
	require.NoError(t, json.NewDecoder(s.get(nil, http.MethodGet).Body).Decode(&set))
	return &set
}

// kid returns the key id of a token.
func kid(t testing.TB, token string) string {
	t.Helper()
	parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.EdDSA})
	require.NoError(t, err)
	require.Len(t, parsed.Headers, 1)
	return parsed.Headers[0].KeyID
}

// kids returns the key ids of the JWKS.
func (s *Signer) kids(t testing.TB) []string {
	t.Helper()
	var ids []string
	for _, k := range s.published(t).Keys {
		ids = append(ids, k.KeyID)
	}
	return ids
}

func rotate(t testing.TB, r Rotation) string {
	t.Helper()
	id, err := Rotate(t.Context(), r)
	require.NoError(t, err)
	return id
}

// journal collects log output.
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

func (j *journal) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(j, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func TestToken(t *testing.T) {
	c := new(clock)
	s := newSigner(t, Config{Store: open(t, "", c.now), Now: c.now})
	for _, p := range []*assay.Principal{
		caller,
		{OrganizationID: caller.OrganizationID, Subject: `auth0|<ä "x">`, User: true},
	} {
		token, err := s.Sign(t.Context(), p)
		require.NoError(t, err)
		parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.EdDSA})
		require.NoError(t, err)
		require.Equal(t, "EdDSA", parsed.Headers[0].Algorithm)
		require.Equal(t, "JWT", parsed.Headers[0].ExtraHeaders[jose.HeaderType])
		require.Nil(t, parsed.Headers[0].JSONWebKey, "the key is not in the token")

		var standard jwt.Claims
		var all map[string]any
		require.NoError(t, parsed.Claims(s.published(t), &standard, &all))
		require.NoError(t, standard.ValidateWithLeeway(jwt.Expected{Issuer: testIssuer, AnyAudience: jwt.Audience{testAudience}, Subject: p.Subject, Time: c.now()}, 0))
		require.ErrorIs(t, standard.ValidateWithLeeway(jwt.Expected{Time: c.now().Add(time.Minute + time.Second)}, 0), jwt.ErrExpired)
		credential := "api_key"
		if p.User {
			credential = "user"
		}
		iat := float64(c.now().Unix())
		require.Len(t, all["jti"], 26)
		delete(all, "jti")
		require.Equal(t, map[string]any{
			"iss": testIssuer, "aud": testAudience, "sub": p.Subject, "org_id": p.OrganizationID, "credential": credential,
			"iat": iat, "nbf": iat, "exp": iat + 60,
		}, all)
	}

	ids := map[string]bool{}
	for range 100 {
		var claims jwt.Claims
		parsed, err := jwt.ParseSigned(s.mustSign(t), []jose.SignatureAlgorithm{jose.EdDSA})
		require.NoError(t, err)
		require.NoError(t, parsed.UnsafeClaimsWithoutVerification(&claims))
		ids[claims.ID] = true
	}
	require.Len(t, ids, 100)

	for _, p := range []*assay.Principal{nil, {Subject: "x"}, {OrganizationID: "x"}} {
		_, err := s.Sign(t.Context(), p)
		require.Error(t, err)
	}
}

func TestConfig(t *testing.T) {
	store := open(t, "", nil)
	for name, c := range map[string]Config{
		"no store":     {Issuer: testIssuer, Audience: testAudience},
		"no issuer":    {Store: store, Audience: testAudience},
		"no audience":  {Store: store, Issuer: testIssuer},
		"short secret": {Store: store, Issuer: testIssuer, Audience: testAudience, Secret: "swordfish"},
	} {
		_, err := New(t.Context(), c)
		require.Error(t, err, name)
		require.NotContains(t, err.Error(), "swordfish")
	}
	keys, err := store.FindSigningKeys(t.Context())
	require.NoError(t, err)
	require.Empty(t, keys)
}

func TestJWKS(t *testing.T) {
	c := new(clock)
	store := open(t, "", c.now)
	s := newSigner(t, Config{Store: store, Now: c.now})
	res := s.get(nil, http.MethodGet)
	require.Equal(t, http.StatusOK, res.StatusCode)
	require.Equal(t, "application/json", res.Header.Get("Content-Type"))
	require.Equal(t, "public, max-age=5", res.Header.Get("Cache-Control"))
	var set map[string][]map[string]string
	require.NoError(t, json.NewDecoder(res.Body).Decode(&set))
	require.Len(t, set["keys"], 1)
	k := set["keys"][0]
	require.Len(t, k["x"], 43)
	delete(k, "x")
	require.Equal(t, map[string]string{"kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "use": "sig", "kid": kid(t, s.mustSign(t))}, k, "and nothing private")

	head := s.get(nil, http.MethodHead)
	require.Equal(t, http.StatusOK, head.StatusCode)
	require.Equal(t, res.Header, head.Header)

	etag := res.Header.Get("ETag")
	require.Regexp(t, `^"[0-9a-f]{32}"$`, etag)
	same := s.get(http.Header{"If-None-Match": {etag}}, http.MethodGet)
	require.Equal(t, http.StatusNotModified, same.StatusCode)
	require.Equal(t, "public, max-age=5", same.Header.Get("Cache-Control"))

	rotate(t, Rotation{Store: store, Now: c.now})
	require.NoError(t, s.refresh(t.Context()))
	changed := s.get(http.Header{"If-None-Match": {etag}}, http.MethodGet)
	require.Equal(t, http.StatusOK, changed.StatusCode)
	require.NotEqual(t, etag, changed.Header.Get("ETag"))
	other := newSigner(t, Config{Store: store, Now: c.now})
	require.Equal(t, changed.Header.Get("ETag"), other.get(nil, http.MethodGet).Header.Get("ETag"), "the same on every replica")

	for _, method := range []string{http.MethodPost, http.MethodOptions, http.MethodDelete} {
		res := s.get(nil, method)
		require.Equal(t, http.StatusMethodNotAllowed, res.StatusCode)
		require.Equal(t, "GET, HEAD", res.Header.Get("Allow"))
		require.Equal(t, "no-store", res.Header.Get("Cache-Control"))
		var body map[string]map[string]string
		require.NoError(t, json.NewDecoder(res.Body).Decode(&body))
		require.Equal(t, "METHOD_NOT_ALLOWED", body["error"]["code"])
		require.NotEmpty(t, body["error"]["message"])
		require.Equal(t, "2026-11-21T12:00:00.999999Z", body["meta"]["timestamp"])
		require.Regexp(t, `^[0-9a-f]{32}$`, body["meta"]["trace_id"])
	}
}

// TestReplicasStartTogether starts many replicas on an empty store at the same time.
func TestReplicasStartTogether(t *testing.T) {
	dir := t.TempDir()
	stores := []*sqlite.Store{open(t, dir, nil), open(t, dir, nil)}
	signers := make([]*Signer, 8)
	var wg sync.WaitGroup
	for i := range signers {
		wg.Go(func() {
			var err error
			if signers[i], err = New(t.Context(), Config{Store: stores[i%2], Issuer: testIssuer, Audience: testAudience}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.False(t, t.Failed())
	want := signers[0].kids(t)
	require.Len(t, want, 1)
	for _, s := range signers {
		require.Equal(t, want, s.kids(t))
		require.Equal(t, want[0], kid(t, s.mustSign(t)))
	}
}

// run runs a signer until the end of the test.
func run(t *testing.T, s *Signer) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
}

// TestOldKeyIsDeleted follows the keys of one rotation until the old one is deleted, on a server and in the
// store.
func TestOldKeyIsDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := open(t, "", nil)
		s := newSigner(t, Config{Store: store})
		run(t, s)
		old := kid(t, s.mustSign(t))
		time.Sleep(10*time.Minute + 500*time.Millisecond)
		next := rotate(t, Rotation{Store: store})
		at := time.Now()
		after := func(d time.Duration) {
			time.Sleep(time.Until(at.Add(d)))
			synctest.Wait()
		}
		after(time.Second)
		require.Equal(t, []string{old, next}, s.kids(t), "published before it signs")
		require.Equal(t, old, kid(t, s.mustSign(t)))
		after(7 * time.Second)
		require.Equal(t, old, kid(t, s.mustSign(t)))
		after(10 * time.Second)
		require.Equal(t, next, kid(t, s.mustSign(t)))
		after(retention)
		require.Equal(t, []string{old, next}, s.kids(t))
		keys, err := store.FindSigningKeys(t.Context())
		require.NoError(t, err)
		require.True(t, PublishedUntil(keys[0]).Equal(at.Add(retention)))
		require.Zero(t, PublishedUntil(keys[1]))
		after(retention + 2*time.Second)
		require.Equal(t, []string{next}, s.kids(t))
		keys, err = store.FindSigningKeys(t.Context())
		require.NoError(t, err)
		require.Len(t, keys, 1)
		require.Equal(t, next, kid(t, s.mustSign(t)))
	})
}

// TestStartDuringRotation starts replicas at each point of a rotation. Each signs with a key that all others
// have published for long enough.
func TestStartDuringRotation(t *testing.T) {
	now := new(clock)
	store := open(t, "", now.now)
	old := kid(t, newSigner(t, Config{Store: store, Now: now.now}).mustSign(t))
	now.advance(time.Hour)
	next := rotate(t, Rotation{Store: store, Now: now.now})
	made := now.offset.Load()
	for _, c := range []struct {
		age  time.Duration // of the new key, by the replica's clock
		want string        // key with which it signs first
	}{
		{-90 * time.Second, old}, // a clock that is behind
		{0, old},
		{7 * time.Second, old},
		{50 * time.Second, old}, // its clock may be ahead
		{time.Minute, next},
		{retention - time.Second, next},
	} {
		own := new(clock)
		own.offset.Store(made + int64(c.age))
		s := newSigner(t, Config{Store: store, Now: own.now})
		require.Equal(t, []string{old, next}, s.kids(t))
		require.Equal(t, c.want, kid(t, s.mustSign(t)), c.age)
		own.advance(settling)
		require.Equal(t, next, kid(t, s.mustSign(t)), c.age)
	}
}

// TestYoungStore rotates the key of a store that is seconds old.
func TestYoungStore(t *testing.T) {
	now := new(clock)
	store := open(t, "", now.now)
	first := kid(t, newSigner(t, Config{Store: store, Now: now.now}).mustSign(t))
	now.advance(time.Second)
	rotate(t, Rotation{Store: store, Now: now.now})
	s := newSigner(t, Config{Store: store, Now: now.now})
	require.Equal(t, first, kid(t, s.mustSign(t)))
}

// faulty is a store that can fail or be empty.
type faulty struct {
	assay.SigningKeyStore
	fault atomic.Pointer[fault]
}

type fault struct{ err error } // nil: there is no key

func (f *faulty) FindSigningKeys(ctx context.Context) ([]*assay.SigningKey, error) {
	if now := f.fault.Load(); now != nil {
		return nil, now.err
	}
	return f.SigningKeyStore.FindSigningKeys(ctx)
}

// TestStoreUnavailable checks that a signer continues with the known keys, and logs the failure once.
func TestStoreUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log journal
		store := &faulty{SigningKeyStore: open(t, "", nil)}
		s := newSigner(t, Config{Store: store, Logger: log.logger()})
		run(t, s)
		old := kid(t, s.mustSign(t))
		away := &fault{errors.New("the disk is gone")}
		for _, f := range []*fault{away, {}} {
			store.fault.Store(f)
			time.Sleep(10 * time.Minute)
			require.Equal(t, old, kid(t, s.mustSign(t)))
			require.Equal(t, []string{old}, s.kids(t))
			store.fault.Store(nil)
			time.Sleep(2 * time.Second)
		}
		synctest.Wait()
		require.Equal(t, 2, strings.Count(log.String(), "level=WARN"), log.String())
		require.Equal(t, 2, strings.Count(log.String(), "refreshed again"))

		store.fault.Store(away)
		_, err := New(t.Context(), Config{Store: store, Issuer: testIssuer, Audience: testAudience})
		require.ErrorIs(t, err, away.err)
	})
}

func TestTooManyRotations(t *testing.T) {
	now := new(clock)
	store := open(t, "", now.now)
	var err error
	for range maxKeys {
		_, err = Rotate(t.Context(), Rotation{Store: store, Now: now.now})
		require.NoError(t, err)
	}
	_, err = Rotate(t.Context(), Rotation{Store: store, Now: now.now})
	require.Equal(t, assay.CodeConflict, assay.ErrorCode(err))
	now.advance(retention + time.Second)
	rotate(t, Rotation{Store: store, Now: now.now})
	require.Len(t, newSigner(t, Config{Store: store, Now: now.now}).kids(t), 2, "the rotation deletes expired keys")
}

func BenchmarkSign(b *testing.B) {
	s := newSigner(b, Config{Store: open(b, "", nil)})
	b.ReportAllocs()
	for b.Loop() {
		s.mustSign(b)
	}
}
