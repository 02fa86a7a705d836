// SPDX-License-Identifier: Apache-2.0

package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"assay"
)

// Paths of this package.
const (
	SignInPath     = "/sign-in"
	ProviderPath   = "/sign-in/provider"
	CallbackPath   = "/sign-in/callback"
	SignOutPath    = "/sign-out"
	SignOutAllPath = "/sign-out/all"
)

// BackgroundHeader marks a request that a page sent without user action. Its value is ignored.
const BackgroundHeader = "Assay-Live"

const (
	touchInterval = time.Minute // between writes of a session's last use
	touchTimeout  = time.Second // for one of them

	findTimeout   = 10 * time.Second // timeout for looking up a session
	signInTimeout = 30 * time.Second // timeout for a request that signs in or out

	// maxExchanges limits the concurrent exchanges of codes at the provider. Each is a request of up to ten seconds
	// that any client of the callback can cause.
	maxExchanges = 16
	// maxStrangers limits the exchanges for browsers with which no user has signed in.
	maxStrangers = maxExchanges * 3 / 4
)

// Provider is an OpenID Connect provider. Implementations must be safe for concurrent use.
type Provider interface {
	// AuthorizationURL returns the URL at which a browser signs in. It returns CodeUnavailable when the provider is
	// unavailable.
	AuthorizationURL(ctx context.Context, a Authorization) (string, error)
	// Exchange exchanges a code for the user that has signed in. It returns CodeInvalidToken if the code or the
	// response is invalid, CodeForbidden for a user without an organization, and CodeUnavailable when the provider is
	// unavailable.
	Exchange(ctx context.Context, code, verifier string, a Authorization) (*User, error)
}

// Authorization holds the values that bind a callback to its sign-in.
type Authorization struct {
	RedirectURI string
	State       string
	Nonce       string
	Challenge   string // S256 challenge of the code verifier; RFC 7636
}

// User is a user that has signed in at a provider.
type User struct {
	OrganizationID string
	Subject        string
	Name           string // display name; may be ""
	Admin          bool   // may manage API keys and webhooks
}

// SignInPage is the content of the sign-in page.
type SignInPage struct {
	Return   string // target after the sign-in: the form field, and the query parameter of ProviderPath
	Provider bool   // a provider is configured
	Failure  string // a sentence that describes the failure; "" for none
}

// FailureLimiter counts failures by the name of a known client, or by address if known is "". remoteAddr is host and
// port. Implementations must be safe for concurrent use.
type FailureLimiter interface {
	// Refuse returns CodeRateLimited, with a method RetryAfter() time.Duration, for a client that has failed too
	// often, else nil.
	Refuse(remoteAddr, known string) error
	// Failed counts a failure.
	Failed(remoteAddr, known string)
}

// TextSigner signs texts that browsers store, for all replicas. Implementations must be safe for concurrent use.
type TextSigner interface {
	// SignText returns the text with a signature in front. The result contains only characters that are valid in a
	// cookie, if the text does.
	SignText(purpose, text string) (string, error)
	// VerifyText returns the text that was passed to SignText with the same purpose. ok is false if the signature is
	// invalid.
	VerifyText(purpose, signed string) (text string, ok bool)
}

// Config configures a Manager. Store, Authenticate, Keys, Page and Fail are required. Signer is required with a
// Provider.
type Config struct {
	Store assay.SessionStore
	// Authenticate returns the principal of an Authorization header, as in the REST API.
	Authenticate func(ctx context.Context, authorizationHeader, remoteAddr string) (*assay.Principal, error)
	Keys         assay.APIKeyStore // for the names of keys
	Provider     Provider          // nil: no provider is configured
	Failures     FailureLimiter    // of sign-ins at the provider; nil: no limit
	Signer       TextSigner        // of the cookies for sign-ins at the provider
	PublicURL    string            // scheme and host under which browsers reach the server; default: from the request

	Idle time.Duration // default assay.DefaultSessionIdle
	Life time.Duration // default assay.DefaultSessionLife

	Assets string // prefix of paths that need no session; "" for none

	// Page writes the sign-in page.
	Page func(w http.ResponseWriter, r *http.Request, status int, p SignInPage)
	// Fail writes an error page.
	Fail func(w http.ResponseWriter, r *http.Request, status int, message string)

	Now    func() time.Time // default time.Now
	Logger *slog.Logger     // default: none
}

// Manager signs users in and out. It is safe for concurrent use.
type Manager struct {
	cfg       Config
	public    *url.URL // of Config.PublicURL, or nil
	cross     *http.CrossOriginProtection
	exchanges chan struct{} // one element for each exchange in progress
	strangers chan struct{} // one element for each of them from an unknown browser
	known     knownSessions
}

// New returns a Manager. It returns an error if the configuration is invalid.
func New(cfg Config) (*Manager, error) {
	if cfg.Store == nil || cfg.Authenticate == nil || cfg.Keys == nil || cfg.Page == nil || cfg.Fail == nil {
		return nil, errors.New("sessions: Store, Authenticate, Keys, Page and Fail are needed")
	}
	if cfg.Provider != nil && cfg.Signer == nil {
		return nil, errors.New("sessions: Signer is needed with a Provider")
	}
	if cfg.Idle <= 0 {
		cfg.Idle = assay.DefaultSessionIdle
	}
	if cfg.Life <= 0 {
		cfg.Life = assay.DefaultSessionLife
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	m := &Manager{cfg: cfg, cross: http.NewCrossOriginProtection(), exchanges: make(chan struct{}, maxExchanges), strangers: make(chan struct{}, maxStrangers)}
	m.cross.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cfg.Fail(w, r, http.StatusForbidden, "The request came from another site.")
	}))
	if cfg.PublicURL != "" {
		u, err := url.Parse(cfg.PublicURL)
		if err != nil || u.Host == "" {
			return nil, errors.New("sessions: the public URL is not one of scheme and host")
		}
		m.public = &url.URL{Scheme: u.Scheme, Host: u.Host}
		if err := m.cross.AddTrustedOrigin(m.public.String()); err != nil {
			return nil, fmt.Errorf("sessions: %w", err)
		}
	}
	return m, nil
}

// key is the context key of a session.
type key struct{}

// FromContext returns the session of a request that Handler passed on, or nil if the request has no session.
func FromContext(ctx context.Context) *assay.Session {
	s, _ := ctx.Value(key{}).(*assay.Session)
	return s
}

// NewContext returns a context with a session, for tests of pages.
func NewContext(ctx context.Context, s *assay.Session) context.Context {
	return context.WithValue(assay.WithOrganization(ctx, s.OrganizationID), key{}, s)
}

// Handler serves the paths of this package. It passes all other requests on to pages, with the session in their
// context if there is one. It refuses cross-origin requests with an unsafe method.
func (m *Manager) Handler(pages http.Handler) http.Handler {
	return m.cross.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case SignInPath:
			m.only(w, r, route{http.MethodGet: m.showSignIn, http.MethodPost: m.signInByKey})
		case ProviderPath:
			m.only(w, r, route{http.MethodGet: m.goToProvider})
		case CallbackPath:
			m.only(w, r, route{http.MethodGet: m.comeBack})
		case SignOutPath:
			m.only(w, r, route{http.MethodPost: m.signOut})
		case SignOutAllPath:
			m.only(w, r, route{http.MethodPost: m.signOutEverywhere})
		default:
			m.serve(w, r, pages)
		}
	}))
}

// route holds the handlers of a path by method. GET includes HEAD.
type route map[string]http.HandlerFunc

// only calls the handler for the request's method, or answers that the method is not allowed.
func (m *Manager) only(w http.ResponseWriter, r *http.Request, by route) {
	w.Header().Set("Cache-Control", "no-store")
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	if handle := by[method]; handle != nil {
		ctx, cancel := context.WithTimeout(r.Context(), signInTimeout)
		defer cancel()
		handle(w, r.WithContext(ctx))
		return
	}
	var allowed []string
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		if by[method] != nil {
			allowed = append(allowed, method)
		}
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	m.cfg.Fail(w, r, http.StatusMethodNotAllowed, "This address does not support the method of the request.")
}

// serve passes a request on, with its session if it has one.
func (m *Manager) serve(w http.ResponseWriter, r *http.Request, pages http.Handler) {
	if m.cfg.Assets != "" && strings.HasPrefix(r.URL.Path, m.cfg.Assets) {
		pages.ServeHTTP(w, r)
		return
	}
	s, err := m.find(r)
	switch {
	case err != nil:
		m.unavailable(w, r, err)
	case s == nil:
		pages.ServeHTTP(w, r)
	default:
		r = r.WithContext(NewContext(r.Context(), s))
		m.touch(r, s)
		pages.ServeHTTP(w, r)
	}
}

// find returns the session of the request's cookie, or nil if there is none or it has ended.
func (m *Manager) find(r *http.Request) (*assay.Session, error) {
	hash, ok := m.tokenHash(r)
	if !ok {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), findTimeout)
	defer cancel()
	s, err := m.cfg.Store.FindSession(assay.WithOrganization(ctx, m.known.organization(hash)), hash, m.cfg.Now())
	switch {
	case err == nil:
		m.known.set(hash, s.OrganizationID)
	case assay.ErrorCode(err) == assay.CodeNotFound:
		m.known.set(hash, "")
		return nil, nil
	}
	return s, err
}

// touch records the use of a session. It waits for at most touchTimeout, and only logs an error.
func (m *Manager) touch(r *http.Request, s *assay.Session) {
	now := m.cfg.Now()
	if r.Header.Get(BackgroundHeader) != "" || now.Sub(s.UsedAt) < touchInterval {
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), touchTimeout)
	defer cancel()
	if err := m.cfg.Store.TouchSession(ctx, s.Hash, now, now.Add(m.cfg.Idle)); err != nil {
		m.cfg.Logger.WarnContext(r.Context(), "the last use of a session was not written", "error", err)
	}
}

// unavailable answers a request whose session could not be looked up.
func (m *Manager) unavailable(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() == nil {
		m.cfg.Logger.ErrorContext(r.Context(), "a session could not be read or written", "error", err)
	}
	w.Header().Set("Retry-After", "5")
	m.cfg.Fail(w, r, http.StatusServiceUnavailable, "The store cannot be reached at the moment. Try again in a few seconds.")
}
