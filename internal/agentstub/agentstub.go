// SPDX-License-Identifier: Apache-2.0

package agentstub

import (
	"crypto/x509"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Header is in every response, with the value true.
const Header = "X-Assay-Stand-In"

// Defaults of Config.
const (
	DefaultAudience          = "assay-agent"
	DefaultRepositoryLimit   = 5
	DefaultSessionsPerMinute = 5
	DefaultMaxRuns           = 200
	DefaultMaxOrganizations  = 1000
	DefaultPhase             = time.Second
)

// EveryOrganization in Config.PartnerOrganizations stands for all of them.
const EveryOrganization = "*"

// maxBody is the size of the longest body of a request, in bytes. It is smaller than
// what assay forwards, so that a 413 of the backend can be seen.
const maxBody = 64 << 10

// Config says whose tokens are accepted and how much is kept. JWKSURL and Issuer are
// required: without them every request is refused.
type Config struct {
	JWKSURL  string         // where assay publishes the public keys of its tokens
	RootCAs  *x509.CertPool // for the certificate of that address; nil: those of the system
	Issuer   string         // claim iss that a token must have: assay's public URL
	Audience string         // audience that a token must have; default DefaultAudience

	RepositoryLimit   int // active repositories of an organization; default DefaultRepositoryLimit
	SessionsPerMinute int // onboarding sessions of an organization in any minute; default DefaultSessionsPerMinute
	MaxRuns           int // runs of an organization that are remembered; default DefaultMaxRuns
	MaxOrganizations  int // organizations that are remembered; default DefaultMaxOrganizations

	// PartnerOrganizations are the ids of the organizations that may start partner
	// migrations, or EveryOrganization. Default: none.
	PartnerOrganizations []string

	Phase time.Duration // how long each phase of a run takes; default DefaultPhase

	Now    func() time.Time // default time.Now
	Logger *slog.Logger     // default: none
}

// server answers requests. It may be used concurrently.
type server struct {
	cfg      Config
	verifier *verifier

	mu            sync.Mutex
	organizations map[string]*organization // by id
	uses          uint64                   // of organizations, for the least recently used one
}

// New returns the stand-in as a handler, whose root is the backend's URL. It starts
// nothing and may be used concurrently.
func New(cfg Config) http.Handler {
	if cfg.Audience == "" {
		cfg.Audience = DefaultAudience
	}
	for _, n := range []struct {
		value    *int
		fallback int
	}{
		{&cfg.RepositoryLimit, DefaultRepositoryLimit},
		{&cfg.SessionsPerMinute, DefaultSessionsPerMinute},
		{&cfg.MaxRuns, DefaultMaxRuns},
		{&cfg.MaxOrganizations, DefaultMaxOrganizations},
	} {
		if *n.value <= 0 {
			*n.value = n.fallback
		}
	}
	if cfg.Phase <= 0 {
		cfg.Phase = DefaultPhase
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &server{
		cfg: cfg,
		verifier: &verifier{
			issuer: cfg.Issuer, audience: cfg.Audience, now: cfg.Now,
			keys: newKeySet(cfg.JWKSURL, cfg.RootCAs, cfg.Now, cfg.Logger),
		},
		organizations: make(map[string]*organization),
	}
}

// ServeHTTP answers a request. The credential is checked before anything else.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set(Header, "true")
	from, answer, err := s.answer(w, r)
	status := s.write(w, r, answer, err)
	// Neither the path nor the query, which can hold anything, and no claim but these.
	s.cfg.Logger.DebugContext(r.Context(), "stand-in answered", "method", r.Method, "status", status,
		"organization", from.organization, "credential", from.credential)
}

func (s *server) answer(w http.ResponseWriter, r *http.Request) (caller, response, error) {
	from, err := s.verifier.verify(r.Context(), r.Header)
	if err != nil {
		s.cfg.Logger.InfoContext(r.Context(), "stand-in refused a token", "reason", err)
		return caller{}, response{}, err
	}
	op, ids, err := route(r)
	if err != nil {
		return from, response{}, err
	}
	if op.usersOnly && from.credential != credentialUser {
		return from, response{}, refuse(http.StatusForbidden, "this operation is for users alone, not for API keys")
	}
	query, err := readQuery(r.URL.RawQuery)
	if err != nil {
		return from, response{}, err
	}
	var body []byte
	if r.Method == http.MethodPost || r.Method == http.MethodPatch {
		if body, err = readBody(w, r); err != nil {
			return from, response{}, err
		}
	}
	o := s.organization(from.organization)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.settle(s.now())
	answer, err := op.do(&call{cfg: &s.cfg, organization: o, ids: ids, query: query, body: body})
	return from, answer, err
}

// now returns the time in UTC, in microseconds, as resources show it.
func (s *server) now() time.Time { return s.cfg.Now().UTC().Truncate(time.Microsecond) }

// organization returns what is kept for an organization. On first sight it is made,
// in place of the one that was not used for longest where there are too many.
func (s *server) organization(id string) *organization {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.organizations[id]
	if o == nil {
		if len(s.organizations) >= s.cfg.MaxOrganizations {
			oldest := ""
			for id, other := range s.organizations {
				if oldest == "" || other.used < s.organizations[oldest].used {
					oldest = id
				}
			}
			delete(s.organizations, oldest)
		}
		o = newOrganization(id, s.cfg.RepositoryLimit, s.now())
		s.organizations[id] = o
	}
	s.uses++
	o.used = s.uses
	return o
}

// mayMigrate tells whether an organization may start partner migrations.
func (c *Config) mayMigrate(organization string) bool {
	return slices.Contains(c.PartnerOrganizations, organization) || slices.Contains(c.PartnerOrganizations, EveryOrganization)
}
