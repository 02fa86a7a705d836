// SPDX-License-Identifier: Apache-2.0

package session

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strings"
	"time"
)

// The names of the cookies. Browsers take a name that begins with __Host- only from
// the host itself, with TLS and for all its paths.
// Source: https://httpwg.org/http-extensions/draft-ietf-httpbis-rfc6265bis.html#name-the-__host-prefix
const (
	sessionCookie = "assay_session"
	signInCookie  = "assay_sign_in"
	knownCookie   = "assay_known"
	hostPrefix    = "__Host-"
)

// secretBytes is how random a token is.
const secretBytes = 32

// secret is the random value of a cookie.
type secret [secretBytes]byte

func newSecret() (s secret) {
	rand.Read(s[:]) // never fails: crypto/rand ends the program instead
	return s
}

func (s secret) String() string { return base64.RawURLEncoding.EncodeToString(s[:]) }

func parseSecret(text string) (s secret, ok bool) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) != secretBytes || strings.ContainsAny(text, "\r\n") { // which the decoder skips
		return s, false
	}
	return secret(b), true
}

// hash returns what the store knows of a session's token.
func (s secret) hash() [32]byte { return sha256.Sum256(s[:]) }

// secure tells whether the browser reaches the server with TLS.
func (m *Manager) secure(r *http.Request) bool {
	if m.public != nil {
		return m.public.Scheme == "https"
	}
	return r.TLS != nil
}

func (m *Manager) cookieName(r *http.Request, name string) string {
	if m.secure(r) {
		return hostPrefix + name
	}
	return name
}

// tokenHash returns the hash of the token in a request's cookie.
func (m *Manager) tokenHash(r *http.Request) (hash [32]byte, ok bool) {
	c, err := r.Cookie(m.cookieName(r, sessionCookie))
	if err != nil {
		return hash, false
	}
	token, ok := parseSecret(c.Value)
	return token.hash(), ok
}

// setCookie gives the browser a cookie for a while. A cookie of another site's request
// goes along with a navigation only.
func (m *Manager) setCookie(w http.ResponseWriter, r *http.Request, name, value string, life time.Duration) {
	http.SetCookie(w, &http.Cookie{
		Name: m.cookieName(r, name), Value: value, Path: "/", MaxAge: int(life / time.Second),
		HttpOnly: true, Secure: m.secure(r), SameSite: http.SameSiteLaxMode,
	})
}

// dropCookie takes a cookie away from the browser.
func (m *Manager) dropCookie(w http.ResponseWriter, r *http.Request, name string) {
	http.SetCookie(w, &http.Cookie{
		Name: m.cookieName(r, name), Path: "/", MaxAge: -1,
		HttpOnly: true, Secure: m.secure(r), SameSite: http.SameSiteLaxMode,
	})
}
