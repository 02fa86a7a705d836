// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"assay"
	"assay/internal/fair"
	"assay/internal/requestid"
)

// readyTimeout limits one readiness check.
const readyTimeout = 2 * time.Second

// Config configures the API. Authenticate, Ready and the stores are required.
type Config struct {
	// BasePath is the path of the API root, "" for the root of the host. A trailing slash is
	// dropped.
	BasePath string
	// PublicURL is the scheme and host under which clients reach the server, such as
	// https://assay.example.com. Only the OpenAPI document shows it. If it is empty, the
	// document has the base path only.
	PublicURL string

	// Authenticate returns the caller for an Authorization header, "" for none, and the host
	// and port of the client. The response has the code of its error.
	Authenticate func(ctx context.Context, authorizationHeader, remoteAddr string) (*assay.Principal, error)

	Services      assay.ServiceStore
	ServiceLists  assay.ServiceLister
	Insights      assay.InsightStore
	Organizations assay.OrganizationStore

	// Backends of single operations. nil: not configured; the operation responds 503.
	LogVolume assay.LogVolumeReader // GET /v1/analytics/log-volume
	Analyst   assay.Analyst         // GET /v1/analytics/services
	Summaries assay.Summarizer      // GET /v1/insights/{id}/summary
	Agent     assay.AgentBackend    // everything below /v1/agent
	Codebase  CodeFinder            // code_locations of GET /v1/insights/{id}; nil: there are none

	// Webhooks manages webhooks. nil: not configured; their operations respond 503.
	Webhooks assay.WebhookManager

	// Keys manages API keys. nil: not configured; their operations respond 503.
	Keys assay.KeyManager

	// AgentAlias is a second name of the path /v1/agent, "" for none: its operations are at /v1/ALIAS too. New panics if
	// the API Serves it.
	AgentAlias string

	// Window is the scoring window that is shown for scores without one; default
	// assay.DefaultWindow.
	Window time.Duration

	// RateLimit is the burst of requests of a credential, which refills evenly over a
	// minute. 0 means no limit.
	RateLimit int

	// Ready runs the readiness checks, until ctx ends.
	Ready func(ctx context.Context) []Check

	// Metrics serves GET /metrics with the metrics of an organization, for a caller with the
	// scope read. nil: the API does not have the path.
	Metrics func(organizationID string) http.Handler

	CPU    *fair.Semaphore  // for decoding bodies and encoding responses, by organization; nil: no limit
	Now    func() time.Time // default time.Now
	Logger *slog.Logger     // default: none
}

// CodeFinder finds the places in code behind an insight. assay.CodebaseStore implements it.
type CodeFinder interface {
	Findings(ctx context.Context, organizationID string, f assay.FindingFilter) ([]*assay.CodeFinding, int, error)
	Repository(ctx context.Context, organizationID, id string) (*assay.Repository, error)
}

// server is the handler that New returns.
type server struct {
	cfg     Config
	base    string
	mux     *http.ServeMux
	doc     *document
	limiter *fair.RateLimiter[string] // by credential; nil: no limit
	bodies  *fair.Limiter             // limits the bytes of bodies in memory, by organization
	methods map[string][]string       // by path
}

// New returns the handler of the API below its base path, including the OpenAPI document
// and its rendering, and of the probes /livez and /readyz. It is safe for concurrent use.
//
// Use it as the root handler of the listener, not behind a ServeMux, which would redirect
// paths that the API rejects. A request with a header above the limit of the http.Server
// never reaches it; net/http responds in plain text.
func New(cfg Config) *API { return &API{newServer(cfg)} }

// API is the handler that New returns.
type API struct{ *server }

// Authenticate returns the caller of a request to another handler. It has the limits of the API, which the request counts
// for. If it returns nil, it has responded with an error, as the API does.
func (a *API) Authenticate(w http.ResponseWriter, r *http.Request) *assay.Principal {
	x := &exchange{ResponseWriter: w, s: a.server, r: r, traceID: requestid.TraceID(r.Context())}
	principal, err := a.authenticate(r.Context(), x)
	if err != nil {
		w.Header().Add("Vary", "Accept-Encoding")
		x.fail(err)
		return nil
	}
	return principal
}

func newServer(cfg Config) *server {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	cfg.Window = cmp.Or(cfg.Window, assay.DefaultWindow)
	s := &server{
		cfg:     cfg,
		base:    strings.TrimRight(cfg.BasePath, "/"),
		mux:     http.NewServeMux(),
		methods: map[string][]string{},
		bodies:  fair.NewLimiter(maxBodies),
		doc:     sharedDocument(),
	}
	if s.base != "" && !strings.HasPrefix(s.base, "/") {
		s.base = "/" + s.base
	}
	if cfg.RateLimit > 0 {
		s.limiter = fair.NewRateLimiter[string](cfg.RateLimit)
	}

	s.services()
	s.serviceLists()
	s.insights()
	s.summary()
	s.organization()
	s.analytics()
	s.agent()
	s.webhooks()
	s.apiKeys()

	s.publish()
	s.refuse()
	s.probe("/livez", func(context.Context) []Check { return nil })
	s.probe("/readyz", cfg.Ready)
	if cfg.Metrics != nil {
		s.metrics()
	}
	s.mux.HandleFunc("/", func(_ http.ResponseWriter, r *http.Request) {
		exchangeOf(r.Context()).fail(errUnknownPath())
	})
	return s
}

func (s *server) now() time.Time { return s.cfg.Now() }

// ServeHTTP implements http.Handler.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &exchange{ResponseWriter: w, s: s, traceID: requestid.TraceID(r.Context())}
	x.r = r.WithContext(context.WithValue(r.Context(), exchangeKey{}, x))
	defer x.recover()
	w.Header().Add("Vary", "Accept-Encoding")
	if err := unclean(r.URL); err != nil {
		// The id of an operation is malformed, and operations check the credential first.
		if assay.ErrorCode(err) == assay.CodeInvalid && strings.HasPrefix(r.URL.Path, s.base+"/v1/") {
			ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
			defer cancel()
			if _, denied := s.authenticate(ctx, x); denied != nil {
				err = denied
			}
		}
		x.fail(err)
		return
	}
	defer func() { r.Pattern = x.r.Pattern }() // for metrics and logs around this handler
	s.mux.ServeHTTP(x, x.r)
}
