// SPDX-License-Identifier: Apache-2.0

package codebase

import (
	"bytes"
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"time"

	"assay"
	"assay/internal/codebase/source"
	"assay/internal/connlimit"
	"assay/internal/fair"
)

// Defaults of Config.
const (
	DefaultAudience          = "assay-agent"
	DefaultRepositoryLimit   = 100
	DefaultSessionsPerMinute = 5
)

// maxBody is the maximum size of a request body, in bytes. It is that of the API.
const maxBody = 1 << 20

// Large answers that are made at a time, of all organizations and of one. One has up to a thousand findings of 16 KiB,
// and takes several times its size while it is made.
const (
	maxLarge     = 4
	maxLargeEach = 2
)

// Sources is the part of source.Sources that the handler uses.
type Sources interface {
	// Connect checks that a repository can be read and returns the data to store. Errors have a code.
	Connect(ctx context.Context, r *source.Request) (*source.Connection, error)
	// Seal and Open encrypt and decrypt the credential of an installation.
	Seal(installationID string, c source.Credential) ([]byte, error)
	Open(i *assay.Installation) (source.Credential, error)

	// The methods for hosts with an API: see source.Sources.
	Forges() []string
	AuthorizeURL(kind, state, verifier, callback string, write bool) (string, error)
	Authorize(ctx context.Context, kind string, g source.Grant, callback string) (*source.Connection, error)
	Named(kind, fullName string) (*assay.Repository, bool)
	Lost(ctx context.Context, i *assay.Installation) bool
	Webhooks(kind string) bool
	Event(kind string, header http.Header, body []byte) (*source.Event, error)
}

// Config configures the handler. All fields without a default are required.
type Config struct {
	JWKSURL  string            // URL of the public keys of assay's tokens
	Keys     http.RoundTripper // transport for JWKSURL
	Issuer   string            // required claim iss of a token: assay's public URL
	Audience string            // required audience of a token; default DefaultAudience

	Store         assay.CodebaseStore
	Organizations assay.OrganizationStore
	Sources       Sources

	// ConnectURL is the page on which users connect repositories. Onboarding sessions lead there if no source host with
	// an API is configured.
	ConnectURL        string
	RepositoriesURL   string // the page with the repositories
	PublicURL         string // under which browsers and source hosts reach the paths of IsPublic; "": they do not
	RepositoryLimit   int    // active repositories of an organization; default DefaultRepositoryLimit
	SessionsPerMinute int    // onboarding sessions of an organization in any minute; default DefaultSessionsPerMinute

	Wake func()          // called when a run was scheduled; default: none
	CPU  *fair.Semaphore // for decoding bodies and encoding answers, by organization; nil: no limit

	Now    func() time.Time // default time.Now
	Logger *slog.Logger     // default: none
}

// server handles requests. It is safe for concurrent use.
type server struct {
	cfg      Config
	verifier *verifier
	large    *fair.Semaphore // of answers that are made, by organization
	sessions sessionLimit
	webhooks *webhooks
}

// New returns the handler of the operations for the root of the agent's URL, and the one of the paths that need no
// token (IsPublic). They start no goroutines and are safe for concurrent use.
func New(cfg Config) (operations, public http.Handler) {
	cfg.Audience = cmp.Or(cfg.Audience, DefaultAudience)
	cfg.RepositoryLimit = cmp.Or(max(cfg.RepositoryLimit, 0), DefaultRepositoryLimit)
	cfg.SessionsPerMinute = cmp.Or(max(cfg.SessionsPerMinute, 0), DefaultSessionsPerMinute)
	if cfg.Wake == nil {
		cfg.Wake = func() {}
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	s := &server{
		cfg: cfg, webhooks: newWebhooks(), large: fair.NewSemaphore(maxLarge, maxLargeEach),
		verifier: &verifier{
			issuer: cfg.Issuer, audience: cfg.Audience, now: cfg.Now,
			keys: newKeySet(cfg.JWKSURL, cfg.Keys, cfg.Now, cfg.Logger),
		},
	}
	return s, http.HandlerFunc(s.public)
}

// ServeHTTP handles a request. It checks the credential first.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var op *operation
	var data any
	from, err := s.verifier.verify(r.Context(), r.Header)
	if err != nil {
		// Anyone can send such a request.
		s.cfg.Logger.DebugContext(r.Context(), "agent rejected a token", "reason", err)
	} else if err = connlimit.Identify(r.Context(), from.organization); err == nil {
		var ids []string
		if op, ids, err = route(w, r); err == nil && op.large {
			if err = s.large.Acquire(r.Context(), from.organization); err == nil {
				defer s.large.Release(from.organization) // after the answer is written
			}
		}
		if err == nil {
			data, err = s.answer(w, r, from, op, ids)
		}
	}
	status := s.write(w, r, from.organization, data, err)
	// Do not log the path, the query or other claims: they may contain anything. The credential is its kind.
	s.cfg.Logger.DebugContext(r.Context(), "agent answered", "method", r.Method, "status", status,
		"organization", from.organization, "credential", from.credential) // assay-ignore: sensitive-log
}

func (s *server) answer(w http.ResponseWriter, r *http.Request, from caller, op *operation, ids []string) (any, error) {
	if op.usersOnly && from.credential != credentialUser {
		return nil, assay.Errorf(assay.CodeForbidden, "this operation needs a user's session, not an API key")
	}
	var body []byte
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		var err error
		if body, err = readBody(w, r, maxBody); err != nil {
			return nil, err
		}
	}
	ctx := assay.WithOrganization(r.Context(), from.organization)
	return op.do(ctx, &call{server: s, caller: from, ids: ids, query: readQuery(r.URL.RawQuery), body: bytes.TrimSpace(body), header: w.Header()})
}

// now returns the time in UTC with microseconds, the format of resources.
func (s *server) now() time.Time { return s.cfg.Now().UTC().Truncate(time.Microsecond) }
