// SPDX-License-Identifier: Apache-2.0

package session

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"time"

	"assay"
)

// signInLife is how long signing in at a provider may take.
const signInLife = 10 * time.Minute

// maxCode is the longest authorization code that is looked at, in bytes.
const maxCode = 4096

// What the page says about a sign-in at the provider that failed.
const (
	failedBinding  = "The sign-in took too long or was begun in another window. Try again."
	failedRefused  = "The identity provider did not sign you in. Try again, or ask who runs it."
	failedUser     = "Your account belongs to no organization that is known here. Ask who runs this server."
	failedProvider = "The identity provider cannot be reached at the moment. Try again in a few seconds."
)

// flow is a sign-in at the provider that is under way. The browser alone keeps it: a
// secret, from which everything that the provider sees of it is derived, so that what
// comes back belongs to the browser that went there.
type flow struct {
	secret secret
	back   string
}

// String is how the flow is written into its cookie.
func (f flow) String() string {
	return f.secret.String() + "." + base64.RawURLEncoding.EncodeToString([]byte(f.back))
}

// parseFlow is the inverse of String.
func parseFlow(text string) (f flow, ok bool) {
	first, second, found := strings.Cut(text, ".")
	if f.secret, ok = parseSecret(first); !ok || !found {
		return flow{}, false
	}
	back, err := base64.RawURLEncoding.DecodeString(second)
	if err != nil {
		return flow{}, false
	}
	f.back = safeReturn(string(back))
	return f, true
}

// derive returns a value for one purpose that tells nothing about the others.
func (f flow) derive(purpose string) string {
	h := sha256.New()
	h.Write(f.secret[:])
	h.Write([]byte(purpose))
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

func (f flow) verifier() string { return f.derive("code verifier") }

// authorization returns what the provider sees of the flow.
func (f flow) authorization(redirectURI string) Authorization {
	challenge := sha256.Sum256([]byte(f.verifier()))
	return Authorization{
		RedirectURI: redirectURI, State: f.derive("state"), Nonce: f.derive("nonce"),
		Challenge: base64.RawURLEncoding.EncodeToString(challenge[:]),
	}
}

// goToProvider begins a sign-in at the provider.
func (m *Manager) goToProvider(w http.ResponseWriter, r *http.Request) {
	back := safeReturn(r.URL.Query().Get("return"))
	if m.cfg.Provider == nil {
		m.page(w, r, http.StatusNotFound, back, "No identity provider is configured.")
		return
	}
	f := flow{secret: newSecret(), back: back}
	to, err := m.cfg.Provider.AuthorizationURL(r.Context(), f.authorization(m.redirectURI(r)))
	if err != nil {
		m.providerFailed(w, r, back, err)
		return
	}
	m.setCookie(w, r, signInCookie, f.String(), signInLife)
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// comeBack completes a sign-in at the provider.
// Source: RFC 6749, section 4.1.2, and OpenID Connect Core 1.0, section 3.1.2.5.
func (m *Manager) comeBack(w http.ResponseWriter, r *http.Request) {
	if m.cfg.Provider == nil {
		m.page(w, r, http.StatusNotFound, "/", "No identity provider is configured.")
		return
	}
	f, ok := m.flowOf(r)
	m.dropCookie(w, r, signInCookie) // whatever comes of it, it is used up
	if !ok {
		m.page(w, r, http.StatusBadRequest, "/", failedBinding)
		return
	}
	a := f.authorization(m.redirectURI(r))
	query := r.URL.Query()
	state, code := single(query, "state"), single(query, "code")
	switch {
	case subtle.ConstantTimeCompare([]byte(state), []byte(a.State)) != 1:
		m.page(w, r, http.StatusBadRequest, "/", failedBinding)
		return
	case query.Has("error"):
		m.cfg.Logger.InfoContext(r.Context(), "the identity provider refused a sign-in", "error", printable(single(query, "error")))
		m.page(w, r, http.StatusForbidden, f.back, failedRefused)
		return
	case code == "" || len(code) > maxCode:
		m.page(w, r, http.StatusBadRequest, f.back, failedRefused)
		return
	}
	user, err := m.cfg.Provider.Exchange(r.Context(), code, f.verifier(), a)
	if err != nil {
		m.providerFailed(w, r, f.back, err)
		return
	}
	s := &assay.Session{
		OrganizationID: user.OrganizationID, Subject: user.Subject, Name: user.Name,
		Scopes: []assay.Scope{assay.ScopeRead, assay.ScopeAgent},
	}
	if user.Admin {
		s.Scopes = assay.Scopes()
	}
	if err := m.begin(w, r, s); err != nil {
		m.unavailable(w, r, err)
		return
	}
	http.Redirect(w, r, f.back, http.StatusSeeOther)
}

// flowOf returns the flow in the request's cookie.
func (m *Manager) flowOf(r *http.Request) (flow, bool) {
	c, err := r.Cookie(m.cookieName(r, signInCookie))
	if err != nil {
		return flow{}, false
	}
	return parseFlow(c.Value)
}

func (m *Manager) providerFailed(w http.ResponseWriter, r *http.Request, back string, err error) {
	status, failure := http.StatusServiceUnavailable, failedProvider
	switch assay.ErrorCode(err) {
	case assay.CodeForbidden:
		status, failure = http.StatusForbidden, failedUser
	case assay.CodeInvalidToken:
		status, failure = http.StatusForbidden, failedRefused
	default:
		w.Header().Set("Retry-After", "5")
	}
	if r.Context().Err() == nil {
		m.cfg.Logger.WarnContext(r.Context(), "a sign-in at the identity provider failed", "error", err)
	}
	m.page(w, r, status, back, failure)
}

// redirectURI is where the provider sends the browser back to.
func (m *Manager) redirectURI(r *http.Request) string {
	base := url.URL{Scheme: "http", Host: r.Host, Path: CallbackPath}
	if m.public != nil {
		base.Scheme, base.Host = m.public.Scheme, m.public.Host
	} else if r.TLS != nil {
		base.Scheme = "https"
	}
	return base.String()
}

// single returns a parameter that came once, else "".
func single(query url.Values, name string) string {
	if v := query[name]; len(v) == 1 {
		return v[0]
	}
	return ""
}

// printable returns a text for the log: an error code of OAuth, or what is wrong with it.
// Source: RFC 6749, section 4.1.2.1.
func printable(code string) string {
	if code == "" || len(code) > 64 || strings.Trim(code, "abcdefghijklmnopqrstuvwxyz_") != "" {
		return "malformed"
	}
	return code
}
