// SPDX-License-Identifier: Apache-2.0

package session

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"assay"
)

const (
	// signInLife limits the duration of a sign-in at a provider.
	signInLife = 10 * time.Minute
	// knownLife is how long the server recognizes a browser after a user has signed in with it at a provider.
	knownLife = 90 * 24 * time.Hour
)

// Purposes of signed texts.
const (
	signedFlow  = "sign-in"
	signedKnown = "known browser"
)

// maxCode is the maximum length of an authorization code, in bytes.
const maxCode = 4096

// Messages on the sign-in page after a failed sign-in at the provider.
const (
	failedBinding  = "The sign-in took too long or was begun in another window. Try again."
	failedRefused  = "The identity provider did not sign you in. Try again, or ask its administrator."
	failedUser     = "Your account belongs to no organization that is known here. Ask the administrator of this server."
	failedProvider = "The identity provider cannot be reached at the moment. Try again in a few seconds."
	failedBusy     = "Too many people are signing in at the moment. Try again in a few seconds."
)

// flow is a sign-in at the provider that is in progress. It is stored in a signed cookie only. All values that the
// provider receives are derived from its secret, so a callback is accepted only from the browser that started the
// flow.
type flow struct {
	secret secret
	back   string
}

// String returns the flow as the text of its cookie.
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

// derive returns a value for one purpose. It reveals nothing about the values for other purposes.
func (f flow) derive(purpose string) string {
	h := sha256.New()
	h.Write(f.secret[:])
	h.Write([]byte(purpose))
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

func (f flow) verifier() string { return f.derive("code verifier") }

// authorization returns the values of the flow that the provider receives.
func (f flow) authorization(redirectURI string) Authorization {
	challenge := sha256.Sum256([]byte(f.verifier()))
	return Authorization{
		RedirectURI: redirectURI, State: f.derive("state"), Nonce: f.derive("nonce"),
		Challenge: base64.RawURLEncoding.EncodeToString(challenge[:]),
	}
}

// goToProvider starts a sign-in at the provider.
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
	if err := m.setSigned(w, r, signInCookie, signedFlow, f.String(), signInLife); err != nil {
		m.providerFailed(w, r, back, err)
		return
	}
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
	m.dropCookie(w, r, signInCookie) // a flow is used once, whatever the result
	if !ok {
		m.page(w, r, http.StatusBadRequest, "/", failedBinding)
		return
	}
	a := f.authorization(m.redirectURI(r))
	known := m.knownUser(r)
	query := r.URL.Query()
	state, code := single(query, "state"), single(query, "code")
	switch {
	case subtle.ConstantTimeCompare([]byte(state), []byte(a.State)) != 1:
		m.page(w, r, http.StatusBadRequest, "/", failedBinding)
		return
	case query.Has("error"):
		m.cfg.Logger.InfoContext(r.Context(), "the identity provider refused a sign-in", "error", OAuthError(single(query, "error")))
		m.page(w, r, http.StatusForbidden, f.back, failedRefused)
		return
	case code == "" || len(code) > maxCode:
		m.page(w, r, http.StatusBadRequest, f.back, failedRefused)
		return
	}
	user, err := m.exchange(r, known, code, f.verifier(), a)
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
	switch err := m.begin(w, r, s); {
	case assay.ErrorCode(err) == assay.CodeNotFound: // the organization was deleted after the token was checked
		m.page(w, r, http.StatusForbidden, f.back, failedUser)
	case err != nil:
		m.unavailable(w, r, err)
	default:
		// If the cookie cannot be set, the browser is only counted as unknown at the next sign-in.
		_ = m.setSigned(w, r, knownCookie, signedKnown, nameOf(user), knownLife)
		http.Redirect(w, r, f.back, http.StatusSeeOther)
	}
}

// nameOf returns the name under which failures of the user's browsers are counted.
func nameOf(u *User) string {
	sum := sha256.Sum256([]byte(u.OrganizationID + "\x00" + u.Subject))
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

// knownUser returns the name of the user that last signed in at the provider with this browser, or "" if there is
// none.
func (m *Manager) knownUser(r *http.Request) string {
	name, _ := m.signed(r, knownCookie, signedKnown)
	return name
}

// setSigned sets a cookie with a signed text. The method signed returns the text until life is over.
func (m *Manager) setSigned(w http.ResponseWriter, r *http.Request, cookie, purpose, text string, life time.Duration) error {
	value, err := m.cfg.Signer.SignText(purpose, strconv.FormatInt(m.cfg.Now().Add(life).Unix(), 10)+"."+text)
	if err != nil {
		return err
	}
	m.setCookie(w, r, cookie, value, life)
	return nil
}

// signed returns the text of a cookie that was set by setSigned.
func (m *Manager) signed(r *http.Request, cookie, purpose string) (text string, ok bool) {
	c, err := r.Cookie(m.cookieName(r, cookie))
	if err != nil {
		return "", false
	}
	all, ok := m.cfg.Signer.VerifyText(purpose, c.Value)
	expires, text, _ := strings.Cut(all, ".")
	end, err := strconv.ParseInt(expires, 10, 64)
	if !ok || err != nil || m.cfg.Now().Unix() >= end {
		return "", false
	}
	return text, true
}

// errBusy reports that the maximum number of exchanges is in progress.
var errBusy = errors.New("too many code exchanges at the moment")

// exchange exchanges a code, unless the client has failed too often or too many exchanges are in progress. Every
// failure counts, because every code causes a request to the provider, and any client can start a sign-in and invent a
// code. A browser with which a user has signed in before counts under the name of that user, and some exchanges are
// reserved for such browsers.
func (m *Manager) exchange(r *http.Request, known, code, verifier string, a Authorization) (*User, error) {
	if m.cfg.Failures != nil {
		if err := m.cfg.Failures.Refuse(r.RemoteAddr, known); err != nil {
			return nil, err
		}
	}
	places := []chan struct{}{m.exchanges}
	if known == "" {
		places = []chan struct{}{m.strangers, m.exchanges}
	}
	for _, p := range places {
		select {
		case p <- struct{}{}:
			defer func() { <-p }()
		default:
			return nil, errBusy
		}
	}
	user, err := m.cfg.Provider.Exchange(r.Context(), code, verifier, a)
	if err != nil && m.cfg.Failures != nil {
		m.cfg.Failures.Failed(r.RemoteAddr, known)
	}
	return user, err
}

// flowOf returns the flow in the request's cookie.
func (m *Manager) flowOf(r *http.Request) (flow, bool) {
	text, ok := m.signed(r, signInCookie, signedFlow)
	if !ok {
		return flow{}, false
	}
	return parseFlow(text)
}

func (m *Manager) providerFailed(w http.ResponseWriter, r *http.Request, back string, err error) {
	status, failure, logged := http.StatusServiceUnavailable, failedProvider, r.Context().Err() == nil
	switch code := assay.ErrorCode(err); {
	case code == assay.CodeForbidden:
		status, failure = http.StatusForbidden, failedUser
	case code == assay.CodeInvalidToken:
		status, failure = http.StatusForbidden, failedRefused
	case code == assay.CodeRateLimited:
		setRetryAfter(w, err)
		status, failure, logged = http.StatusTooManyRequests, failedTooOften, false
	case errors.Is(err, errBusy):
		w.Header().Set("Retry-After", "5")
		failure, logged = failedBusy, false
	default:
		w.Header().Set("Retry-After", "5")
	}
	if logged {
		m.cfg.Logger.WarnContext(r.Context(), "a sign-in at the identity provider failed", "error", err)
	}
	m.page(w, r, status, back, failure)
}

// redirectURI returns the URL to which the provider redirects the browser.
func (m *Manager) redirectURI(r *http.Request) string {
	base := url.URL{Scheme: "http", Host: r.Host, Path: CallbackPath}
	if m.public != nil {
		base.Scheme, base.Host = m.public.Scheme, m.public.Host
	} else if r.TLS != nil {
		base.Scheme = "https"
	}
	return base.String()
}

// single returns the value of a parameter that occurs exactly once, else "".
func single(query url.Values, name string) string {
	if v := query[name]; len(v) == 1 {
		return v[0]
	}
	return ""
}

// OAuthError returns an OAuth error code for the log, or a description of an invalid one.
// Source: RFC 6749, sections 4.1.2.1 and 5.2.
func OAuthError(code string) string {
	if code == "" {
		return "none"
	}
	if len(code) > 64 || strings.Trim(code, "abcdefghijklmnopqrstuvwxyz_") != "" {
		return "malformed"
	}
	return code
}
