// SPDX-License-Identifier: Apache-2.0

package session

import (
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

// The paths of this package.
const (
	SignInPath     = "/sign-in"
	ProviderPath   = "/sign-in/provider"
	CallbackPath   = "/sign-in/callback"
	SignOutPath    = "/sign-out"
	SignOutAllPath = "/sign-out/all"
)

// BackgroundHeader marks a request that a page made of its own. Any value does.
const BackgroundHeader = "Assay-Live"

const (
	touchInterval = time.Minute // between writes of a session's last use
	touchTimeout  = time.Second // for one of them

	findTimeout   = 10 * time.Second // of looking a session up
	signInTimeout = 30 * time.Second // of a request that signs in or out

	// maxExchanges is how many codes are exchanged at the provider at a time: each is a
	// request of up to ten seconds that whoever asks for the callback causes.
	maxExchanges = 16
	// maxStrangers is how many of them are for browsers in which no user has signed in.
	maxStrangers = maxExchanges * 3 / 4
)

// Provider is an OpenID Connect provider. Implementations may be used concurrently.
type Provider interface {
	// AuthorizationURL returns where a browser signs in. CodeUnavailable when the
	// provider is away.
	AuthorizationURL(ctx context.Context, a Authorization) (string, error)
	// Exchange turns a code into who has signed in. CodeInvalidToken for a code or an
	// answer that is not accepted, CodeForbidden for a user without an organization,
	// CodeUnavailable when the provider is away.
	Exchange(ctx context.Context, code, verifier string, a Authorization) (*User, error)
}

// Authorization is what a sign-in at a provider is bound to.
type Authorization struct {
	RedirectURI string
	State       string
	Nonce       string
	Challenge   string // of the code verifier, by S256; RFC 7636
}

// User is who has signed in at a provider.
type User struct {
	OrganizationID string
	Subject        string
	Name           string // for people; may be ""
	Admin          bool   // may manage API keys
}

// SignInPage is what the sign-in page shows.
type SignInPage struct {
	Return   string // where to go afterwards: the form field, and the query parameter of ProviderPath
	Provider bool   // signing in at a provider is possible
	Failure  string // a sentence for people about what went wrong; "" for nothing
}

// FailureLimiter counts what failed, for each address, host and port, but for the name of
// a client that is known where that is not "". Implementations may be used concurrently.
type FailureLimiter interface {
	// Refuse returns CodeRateLimited, with a method RetryAfter() time.Duration, for a
	// client that has failed too often.
	Refuse(remoteAddr, known string) error
	// Failed counts a failure.
	Failed(remoteAddr, known string)
}

// TextSigner signs what browsers keep, for all replicas. Implementations may be used
// concurrently.
type TextSigner interface {
	// SignText returns the text behind a signature, in characters of a cookie where the
	// text is in such.
	SignText(purpose, text string) (string, error)
	// VerifyText returns the text that SignText was given with the same purpose.
	VerifyText(purpose, signed string) (text string, ok bool)
}

// Config of a Manager. Store, Authenticate, Keys, Page and Fail are needed, Signer with a
// Provider.
type Config struct {
	Store assay.SessionStore
	// Authenticate tells who an Authorization header belongs to, as in the REST API.
	Authenticate func(ctx context.Context, authorizationHeader, remoteAddr string) (*assay.Principal, error)
	Keys         assay.APIKeyStore // tells the names of keys
	Provider     Provider          // nil: none is configured
	Failures     FailureLimiter    // of sign-ins at the provider; nil: no limit
	Signer       TextSigner        // of what browsers keep of sign-ins at the provider
	PublicURL    string            // scheme and host by which browsers come; "": those of the request

	Idle time.Duration // default assay.DefaultSessionIdle
	Life time.Duration // default assay.DefaultSessionLife

	Assets string // paths that begin so are for everybody; "" for none

	// Page answers with the sign-in page.
	Page func(w http.ResponseWriter, r *http.Request, status int, p SignInPage)
	// Fail answers with a page about what went wrong.
	Fail func(w http.ResponseWriter, r *http.Request, status int, message string)

	Now    func() time.Time // default time.Now
	Logger *slog.Logger     // default: none
}

// Manager signs in and out. It may be used concurrently.
type Manager struct {
	cfg       Config
	public    *url.URL // of Config.PublicURL, nil for none
	cross     *http.CrossOriginProtection
	exchanges chan struct{} // one for each code that is being exchanged
	strangers chan struct{} // one for each of these from a browser that is not known
}

// New returns a Manager, or what is wrong with the configuration.
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
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
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

// key is the key of a session in a context.
type key struct{}

// FromContext returns the session of a request that Handler passed on, nil when nobody
// is signed in.
func FromContext(ctx context.Context) *assay.Session {
	s, _ := ctx.Value(key{}).(*assay.Session)
	return s
}

// NewContext returns a context with a session, for tests of pages.
func NewContext(ctx context.Context, s *assay.Session) context.Context {
	return context.WithValue(assay.WithOrganization(ctx, s.OrganizationID), key{}, s)
}

// Handler answers on the paths of this package and passes everything else on to pages,
// with the session of whoever is signed in. It refuses what would change something and
// comes from another site.
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

// route is what answers a path, by method; GET stands for HEAD as well.
type route map[string]http.HandlerFunc

// only answers a request whose method the path has.
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
	m.cfg.Fail(w, r, http.StatusMethodNotAllowed, "This address is not for such requests.")
}

// serve passes a request on, with its session where it has one.
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

// find returns the session of a request's cookie, nil for none that lives.
func (m *Manager) find(r *http.Request) (*assay.Session, error) {
	hash, ok := m.tokenHash(r)
	if !ok {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), findTimeout)
	defer cancel()
	s, err := m.cfg.Store.FindSession(ctx, hash, m.cfg.Now())
	if assay.ErrorCode(err) == assay.CodeNotFound {
		return nil, nil
	}
	return s, err
}

// touch keeps an idle session alive. The page does not wait long for it, nor fail.
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
