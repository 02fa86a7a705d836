// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"assay/internal/auth"
	"assay/internal/connlimit"
	"assay/internal/dashboard"
	"assay/internal/score"
	"assay/internal/session"
	"assay/internal/session/oidc"
)

// dashboardConfig says who may look at the dashboard and for how long, as flags.
type dashboardConfig struct {
	Dashboard   bool          `default:"true" negatable:"" help:"Serve the dashboard at / (${default})."`
	SessionIdle time.Duration `default:"8h" help:"Who is signed in to the dashboard and does nothing for so long is signed out (${default})."`
	SessionLife time.Duration `default:"168h" help:"And whoever signed in so long ago (${default})."`

	PublicOTLPHTTPURL string `name:"public-otlp-http-url" placeholder:"URL" help:"Where clients send OTLP/HTTP, scheme and host, as the dashboard shows it beside a new key. Default: the host of --public-url and the port of the listener."`
	PublicOTLPGRPCURL string `name:"public-otlp-grpc-url" placeholder:"URL" help:"The same for OTLP/gRPC; https means TLS."`
}

// maxSession bounds the times of sessions: what is longer is a mistake.
const maxSession = 90 * 24 * time.Hour

func (c *dashboardConfig) problems() []error {
	var ck check
	ck.that(c.SessionIdle >= time.Minute, "--session-idle: %v is under 1m", c.SessionIdle)
	ck.that(c.SessionLife >= c.SessionIdle && c.SessionLife <= maxSession, "--session-life: %v is not in the range from --session-idle to %v", c.SessionLife, maxSession)
	ck.err("public-otlp-http-url", checkPublicURL(c.PublicOTLPHTTPURL))
	ck.err("public-otlp-grpc-url", checkPublicURL(c.PublicOTLPGRPCURL))
	return ck.problems
}

// signInFailures is how many sign-ins of an address may fail in a minute where
// --auth-failure-limit does not say, by keys and at the provider each: a key is 128 random
// bits, so what is limited is the load.
const signInFailures = 30

// dashboardPaths are the first parts of the dashboard's paths, which the API's cannot be.
var dashboardPaths = []string{"/assets", "/costs", "/favicon.ico", "/insights", "/keys", "/rules", "/services", "/sign-in", "/sign-out", "/theme"}

// hasDashboard tells whether the dashboard is served. It has no place beside an API at
// the root.
func (s *server) hasDashboard() bool { return s.cfg.Dashboard && s.basePath() != "" }

// openDashboard returns the dashboard behind its sign-in, nil where it is not served.
func (s *server) openDashboard() (http.Handler, error) {
	if !s.hasDashboard() {
		return nil, nil
	}
	overHTTP, overGRPC := s.otlpURLs()
	pages, err := dashboard.New(dashboard.Config{
		Session:       session.FromContext,
		Organizations: s.store, Services: s.store, ServiceLists: s.store, Overviews: s.store, Insights: s.store,
		States:    &score.Reader{Store: s.store, Window: s.cfg.Window, Step: s.cfg.WindowStep, Now: s.replica.Now},
		Analyst:   s.analyst,
		Keys:      &auth.KeyManager{Store: s.store, Prefix: s.cfg.APIKeyPrefix, Now: s.replica.Now, Logger: s.logger},
		LogVolume: s.logVolume(),
		Summaries: s.summarizer(),
		OTLPHTTP:  overHTTP, OTLPGRPC: overGRPC, APIPath: s.basePath(), Version: version(), PublicURL: s.cfg.PublicURL,
		Window: s.cfg.Window, Now: s.replica.Now, Logger: s.logger,
	})
	if err != nil {
		return nil, err
	}
	s.pages = pages
	provider, err := s.cfg.signIn(s.provider)
	if err != nil {
		return nil, err
	}
	// Beside the one of the API, so that what fails here is limited in any case.
	limit := cmp.Or(s.cfg.AuthFailureLimit, signInFailures)
	s.signIns = &auth.Authenticator{
		Keys: s.store, Prefix: s.cfg.APIKeyPrefix, FailureLimit: limit, Now: s.replica.Now, Logger: s.logger,
	}
	sessions, err := session.New(session.Config{
		Store: s.store, Authenticate: s.signIns.Authenticate, Failures: auth.NewFailureLimiter(limit, s.replica.Now), Signer: s.signer,
		Keys: s.store, Provider: provider, PublicURL: s.cfg.PublicURL,
		Idle: s.cfg.SessionIdle, Life: s.cfg.SessionLife, Assets: dashboard.AssetsPath,
		Page: pages.SignInPage, Fail: pages.Fail, Now: s.replica.Now, Logger: s.logger,
	})
	if err != nil {
		return nil, err
	}
	return sessions.Handler(identified(pages)), nil
}

// identified returns pages whose requests count for the organization of their session.
func identified(pages http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if session := session.FromContext(r.Context()); session != nil {
			connlimit.Identify(r.Context(), session.OrganizationID)
		}
		pages.ServeHTTP(w, r)
	})
}

// signIn returns how people sign in at the identity provider, nil when that is not
// configured.
func (c *identityConfig) signIn(provider *auth.Provider) (session.Provider, error) {
	if provider == nil || c.OIDCClientID == "" {
		return nil, nil
	}
	secret, err := c.clientSecret()
	if err != nil {
		return nil, err
	}
	return oidc.New(oidc.Config{
		Provider: provider, ClientID: c.OIDCClientID, ClientSecret: secret, Scopes: c.OIDCScopes,
		AdminClaim: c.OIDCAdminClaim, AdminValue: c.OIDCAdminValue,
	})
}

// forDashboard tells whether a request is for the dashboard and not for the API, whose
// answer to a path that nobody has is JSON. Only browsers ask for HTML.
func forDashboard(r *http.Request) bool {
	if acceptsHTML(r) {
		return true
	}
	for _, p := range dashboardPaths {
		if r.URL.Path == p || strings.HasPrefix(r.URL.Path, p+"/") {
			return true
		}
	}
	return r.URL.Path == "/" && r.Header.Get(session.BackgroundHeader) != ""
}

func acceptsHTML(r *http.Request) bool {
	for _, accept := range r.Header.Values("Accept") {
		if strings.Contains(accept, "text/html") {
			return true
		}
	}
	return false
}

// isAPI tells whether a path belongs to the API, however it is written.
func (s *server) isAPI(path string) bool {
	base := s.basePath()
	switch path {
	case "/livez", "/readyz", "/metrics", base:
		return true
	}
	return strings.HasPrefix(strings.TrimLeft(path, "/")+"/", base[1:]+"/")
}

// otlpURLs returns where telemetry is sent to, as far as the server can know: what the
// flags say, else the listener's port and scheme at the host by which browsers come. A
// listener of all addresses has no host where no flag names one; the dashboard takes the
// one of the request then.
func (s *server) otlpURLs() (overHTTP, overGRPC string) {
	scheme, public := "http", ""
	if s.certificate != nil {
		scheme = "https"
	}
	if u, err := url.Parse(s.cfg.PublicURL); err == nil {
		public = u.Hostname()
	}
	at := func(flag string, l net.Listener) string {
		if flag != "" {
			return strings.TrimRight(flag, "/")
		}
		host, port, err := net.SplitHostPort(l.Addr().String())
		if err != nil {
			return scheme + "://" + l.Addr().String()
		}
		if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
			host = ""
		}
		return scheme + "://" + net.JoinHostPort(cmp.Or(public, host), port)
	}
	return at(s.cfg.PublicOTLPHTTPURL, s.otlpHTTP), at(s.cfg.PublicOTLPGRPCURL, s.grpc)
}

// dashboardURL is where the dashboard is, "" where it is not served.
func (s *server) dashboardURL() string {
	if !s.hasDashboard() {
		return ""
	}
	return s.rootURL() + "/"
}
