// SPDX-License-Identifier: Apache-2.0

package agentstub

import (
	"bytes"
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

// signer is what assay is to the stand-in: it signs tokens and publishes keys.
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

// world is a stand-in with a signer and a clock.
type world struct {
	t       require.TestingT
	clock   *clock
	signer  *signer
	handler http.Handler
	log     *lockedBuffer
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

func newWorld(t testing.TB, cfg Config) *world {
	w := &world{t: t, clock: newClock(), signer: newSigner(t, "key-1"), log: &lockedBuffer{}}
	cfg.JWKSURL, cfg.Issuer, cfg.Now = w.signer.URL, issuer, w.clock.Now
	cfg.Logger = slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	w.handler = New(cfg)
	return w
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

// reply is what the stand-in answered.
type reply struct {
	status int
	header http.Header
	Data   json.RawMessage `json:"data"`
	Meta   struct {
		Timestamp time.Time `json:"timestamp"`
		Total     *int      `json:"total"`
	} `json:"meta"`
	Links map[string]string `json:"links"`
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
	require.Equal(w.t, "true", a.header.Get(Header))
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

// The resources as tests read them.
type (
	gotRun struct {
		StandIn      bool    `json:"stand_in"`
		ID           string  `json:"id"`
		Type         string  `json:"type"`
		Status       string  `json:"status"`
		RepositoryID string  `json:"repository_id"`
		CurrentPhase *string `json:"current_phase"`
		Summary      *string `json:"summary"`
		Error        *string `json:"error"`
		Result       *struct {
			FindingCount   int     `json:"finding_count"`
			PullRequestURL *string `json:"pull_request_url"`
			MigratedFrom   *string `json:"migrated_from"`
		} `json:"result"`
		Phases []struct {
			Name   string `json:"name"`
			Order  int    `json:"order"`
			Status string `json:"status"`
		} `json:"phases"`
		Events []gotEvent `json:"events"`
	}
	gotEvent struct {
		Seq       int       `json:"seq"`
		Type      string    `json:"type"`
		Phase     *string   `json:"phase"`
		FindingID *string   `json:"finding_id"`
		CreatedAt time.Time `json:"created_at"`
	}
	gotRepository struct {
		StandIn         bool   `json:"stand_in"`
		ID              string `json:"id"`
		Name            string `json:"name"`
		Active          bool   `json:"active"`
		Instrumentation struct {
			Status  string  `json:"status"`
			Partner *string `json:"partner"`
		} `json:"instrumentation"`
		ActiveFindings  []gotFinding `json:"active_findings"`
		LastExecutionID *string      `json:"last_execution_id"`
	}
	gotInstallation struct {
		StandIn      bool            `json:"stand_in"`
		ID           string          `json:"id"`
		Repositories []gotRepository `json:"repositories"`
	}
	gotFinding struct {
		StandIn      bool   `json:"stand_in"`
		ID           string `json:"id"`
		ExecutionID  string `json:"execution_id"`
		RepositoryID string `json:"repository_id"`
		Status       string `json:"status"`
		Severity     string `json:"severity"`
		Category     string `json:"category"`
	}
	gotSummary struct {
		StandIn    bool           `json:"stand_in"`
		Total      int            `json:"total"`
		BySeverity map[string]int `json:"by_severity"`
		ByCategory map[string]int `json:"by_category"`
	}
	gotOnboarding struct {
		StandIn         bool    `json:"stand_in"`
		State           string  `json:"state"`
		InstallationURL *string `json:"installation_url"`
		Repositories    struct {
			Total  int `json:"total"`
			Active int `json:"active"`
			Limit  int `json:"limit"`
		} `json:"repositories"`
	}
)

// repositories returns those of an organization by name.
func (c *client) repositories() map[string]gotRepository {
	all := make(map[string]gotRepository)
	for _, in := range get[[]gotInstallation](c, "GET /repositories", "") {
		for _, r := range in.Repositories {
			all[r.Name] = r
		}
	}
	return all
}

// start starts a run on a repository.
func (c *client) start(path, name string) gotRun {
	return get[gotRun](c, "POST "+path, fmt.Sprintf(`{"repository_id":%q}`, c.repositories()[name].ID))
}

const (
	pathReview          = "/codebase/review/execute"
	pathFix             = "/codebase/fix/execute"
	pathInstrumentation = "/codebase/instrumentation/execute"
	pathMigration       = "/codebase/partner/migrate/execute"
)
