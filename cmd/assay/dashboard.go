// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"assay/internal/auth"
	"assay/internal/connlimit"
	"assay/internal/dashboard"
	"assay/internal/score"
	"assay/internal/session"
	"assay/internal/session/oidc"
)

// dashboardConfig holds the flags of the dashboard.
type dashboardConfig struct {
	Dashboard   bool          `default:"true" negatable:"" help:"Serve the dashboard at / (${default})."`
	SessionIdle time.Duration `default:"8h" help:"Sign out idle dashboard sessions after this duration (${default})." hidden:""`
	SessionLife time.Duration `default:"168h" help:"Maximum duration of a dashboard session (${default})." hidden:""`

	PublicOTLPHTTPURL string `name:"public-otlp-http-url" placeholder:"URL" help:"External URL of OTLP/HTTP, shown with a new key: scheme and host. Default: the host of --public-url and the port of the listener."`
	PublicOTLPGRPCURL string `name:"public-otlp-grpc-url" placeholder:"URL" help:"External URL of OTLP/gRPC, shown with a new key: scheme and host; https means TLS. Default: the host of --public-url and the port of the listener."`
}

// maxSession is the maximum of the session durations.
const maxSession = 90 * 24 * time.Hour

func (c *dashboardConfig) problems() []error {
	var ck check
	ck.that(c.SessionIdle >= time.Minute, "--session-idle: %v is under 1m", c.SessionIdle)
	ck.that(c.SessionLife >= c.SessionIdle && c.SessionLife <= maxSession, "--session-life: %v is not in the range from --session-idle to %v", c.SessionLife, maxSession)
	ck.err("public-otlp-http-url", checkPublicURL(c.PublicOTLPHTTPURL))
	ck.err("public-otlp-grpc-url", checkPublicURL(c.PublicOTLPGRPCURL))
	return ck.problems
}

// signInFailures is the default limit of failed sign-ins of an address per minute, if --auth-failure-limit is not set.
// Sign-ins with keys and at the provider are counted separately. The limit reduces load; a key has 128 random bits and
// cannot be guessed.
const signInFailures = 30

// dashboardPaths are the first segments of the dashboard's paths. The API's base path must not use them.
var dashboardPaths = []string{"/assets", "/costs", "/favicon.ico", "/findings", "/insights", "/keys", "/repositories", "/rules", "/runs", "/services", "/sign-in", "/sign-out", "/theme", "/webhooks"}

// hasDashboard reports whether the dashboard is served. It cannot be served if the API's base path is the root.
func (s *server) hasDashboard() bool { return s.cfg.Dashboard && s.basePath() != "" }

// openDashboard returns the dashboard behind its sign-in, or nil if it is not served.
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
		Keys:      s.keys,
		LogVolume: s.logVolume,
		Summaries: s.summarizer(),
		Agent:     s.agentBackend(),
		Code:      s.store, AgentModel: s.cfg.AgentModelProvider != "",
		Webhooks: s.outgoing,
		OTLPHTTP: overHTTP, OTLPGRPC: overGRPC, APIPath: s.basePath(), Version: version(), PublicURL: s.cfg.PublicURL,
		CPU: s.cpu, Window: s.cfg.Window, Now: s.replica.Now, Logger: s.logger,
	})
	if err != nil {
		return nil, err
	}
	s.pages = pages
	provider, err := s.cfg.signIn(s.provider)
	if err != nil {
		return nil, err
	}
	// The limit is separate from the API's, and sign-ins are limited even if the API is not.
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

// identified counts requests and their connections for the organization of their session.
func identified(pages *dashboard.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if session := session.FromContext(r.Context()); session != nil {
			if err := connlimit.Identify(r.Context(), session.OrganizationID); err != nil {
				pages.Fail(w, r, http.StatusServiceUnavailable, "Your organization sends too many requests.")
				return
			}
		}
		pages.ServeHTTP(w, r)
	})
}

// signIn returns the sign-in at the identity provider, or nil if none is configured.
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
	})
}

// forDashboard reports whether a request is for the dashboard and not for the API. The API answers unknown paths in
// JSON. Only browsers accept HTML; at /, the address of the dashboard, so does a client that accepts anything.
func forDashboard(r *http.Request) bool {
	if acceptsHTML(r) || r.URL.Path == "/" && acceptsAnything(r) {
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
	return slices.ContainsFunc(r.Header.Values("Accept"), func(accept string) bool { return strings.Contains(accept, "text/html") })
}

// acceptsAnything reports whether a client reads a page in any format.
func acceptsAnything(r *http.Request) bool {
	accept := strings.Join(r.Header.Values("Accept"), ",")
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) && (accept == "" || strings.Contains(accept, "*/*"))
}

// isAPI reports whether a path, in any spelling, belongs to the API.
func (s *server) isAPI(path string) bool {
	base := s.basePath()
	switch path {
	case "/livez", "/readyz", "/metrics", base:
		return true
	}
	return strings.HasPrefix(strings.TrimLeft(path, "/")+"/", base[1:]+"/")
}

// otlpURLs returns the OTLP URLs as far as the server knows them: the values of the flags, or the listener's scheme and
// port with the host of the public URL or of the listener. If the listener accepts connections on all addresses and no
// flag names a host, the URL has no host. The dashboard then uses the host of the request.
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

// dashboardURL returns the URL of the dashboard, or "" if it is not served.
func (s *server) dashboardURL() string {
	if !s.hasDashboard() {
		return ""
	}
	return s.rootURL() + "/"
}
