// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"assay"
)

// readyTimeout bounds one check of readiness.
const readyTimeout = 2 * time.Second

// Config is what the API works with. Authenticate, Ready and the stores are
// required.
type Config struct {
	// BasePath is the path of the API root, "" for the root of the host. A slash
	// at its end is dropped.
	BasePath string
	// PublicURL is where clients reach the server, scheme and host, such as
	// https://assay.example.com. It is only shown in the OpenAPI document; empty,
	// the document names the base path.
	PublicURL string

	// Authenticate returns who sends a request with this Authorization header, ""
	// for none, from this address, host and port. Its errors are shown as they are
	// coded.
	Authenticate func(ctx context.Context, authorizationHeader, remoteAddr string) (*assay.Principal, error)

	Services      assay.ServiceStore
	Insights      assay.InsightStore
	Organizations assay.OrganizationStore

	// What answers these operations; nil means that it is not configured, which is
	// a 503.
	LogVolume assay.LogVolumeReader // GET /v1/analytics/log-volume
	Analyst   assay.Analyst         // GET /v1/analytics/services
	Summaries assay.Summarizer      // GET /v1/insights/{id}/summary
	Agent     assay.AgentBackend    // everything below /v1/agent

	// Window is what a score looks back on, shown for scores that do not say;
	// default assay.DefaultWindow.
	Window time.Duration

	// RateLimit is how many requests a credential may make at once; they come
	// back evenly over a minute. 0 means no limit.
	RateLimit int

	// CacheTTL is how long the answer to a GET of the store's resources is kept in
	// memory: what a client is shown is never older. 0 means 1 s, less than 0 that
	// nothing is kept.
	CacheTTL time.Duration
	// Revision returns a number that changes when an organization's resources may
	// have: what was kept before is not shown any more. nil: only time tells.
	Revision func(organizationID string) uint64

	// Ready looks at what has to be well for requests to be served, in the time that ctx
	// gives.
	Ready func(ctx context.Context) []Check

	// Metrics answers GET /metrics with what a caller with the scope read may see of an
	// organization's metrics. nil: the path is none of the API's.
	Metrics func(organizationID string) http.Handler

	// Other serves what is neither below BasePath nor a probe; nil answers it
	// with the 404 of the API. It is here because the standard mux, put before
	// this handler, would redirect the paths that the API refuses.
	Other http.Handler

	Now    func() time.Time // default time.Now
	Logger *slog.Logger     // default: none
}

// server is the handler that New returns.
type server struct {
	cfg     Config
	base    string
	mux     *http.ServeMux
	api     huma.API
	limiter *limiter // nil: no limit
	cache   *cache   // nil: nothing is kept
	methods map[string][]string

	documented []*huma.Operation // as they were registered
}

// New returns the handler of the API below its base path, with the OpenAPI
// document and its rendering, and of the probes /livez and /readyz. It may be used concurrently.
//
// Put it at the root of the listener, not behind a ServeMux (see Config.Other).
// A request header that is larger than the http.Server allows never gets here and
// is answered by net/http, in plain text.
func New(cfg Config) http.Handler { return newServer(cfg) }

func newServer(cfg Config) *server {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Window == 0 {
		cfg.Window = assay.DefaultWindow
	}
	s := &server{
		cfg:     cfg,
		base:    strings.TrimRight(cfg.BasePath, "/"),
		mux:     http.NewServeMux(),
		methods: map[string][]string{},
	}
	if s.base != "" && !strings.HasPrefix(s.base, "/") {
		s.base = "/" + s.base
	}
	if cfg.RateLimit > 0 {
		s.limiter = newLimiter(cfg.RateLimit)
	}
	if cfg.CacheTTL == 0 {
		cfg.CacheTTL = defaultCacheTTL
	}
	if cfg.CacheTTL > 0 {
		s.cache = newCache(cfg.CacheTTL, cfg.Now)
	}
	s.api = humago.NewWithPrefix(s.mux, s.base, s.openAPI())

	s.services()
	s.insights()
	s.summary()
	s.organization()
	s.analytics()
	s.agent()

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

func (s *server) schemas() huma.Registry { return s.api.OpenAPI().Components.Schemas }

func (s *server) now() time.Time { return s.cfg.Now() }

// ServeHTTP answers a request.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.cfg.Other != nil && !s.owns(r.URL.Path) {
		s.cfg.Other.ServeHTTP(w, r)
		return
	}
	x := &exchange{ResponseWriter: w, s: s, traceID: traceID(r)}
	x.r = r.WithContext(context.WithValue(r.Context(), exchangeKey{}, x))
	defer x.recover()
	if err := unclean(r.URL); err != nil {
		x.fail(err)
		return
	}
	defer func() { r.Pattern = x.r.Pattern }() // for metrics and logs around this handler
	s.mux.ServeHTTP(x, x.r)
}

// owns tells whether a path is the API's or a probe.
func (s *server) owns(path string) bool {
	switch path {
	case metricsPath:
		return s.cfg.Metrics != nil
	case "/livez", "/readyz", s.base + specJSON, s.base + specYAML, s.base + docsPath, s.base + docsStyle:
		return true
	}
	root := s.base
	if root == "" {
		root = "/v1" // the rest of the host is free
	}
	return path == root || strings.HasPrefix(path, root+"/")
}
