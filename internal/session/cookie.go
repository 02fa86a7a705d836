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

// Names of the cookies. Browsers accept a name with the prefix __Host- only from the host itself, over TLS and with
// Path=/.
// Source: https://httpwg.org/http-extensions/draft-ietf-httpbis-rfc6265bis.html#name-the-__host-prefix
const (
	sessionCookie = "assay_session"
	signInCookie  = "assay_sign_in"
	knownCookie   = "assay_known"
	hostPrefix    = "__Host-"
)

// secretBytes is the number of random bytes in a token.
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
	if err != nil || len(b) != secretBytes || strings.ContainsAny(text, "\r\n") { // the decoder skips line breaks
		return s, false
	}
	return secret(b), true
}

// hash returns the hash under which the store keeps the session of this token.
func (s secret) hash() [32]byte { return sha256.Sum256(s[:]) }

// secure reports whether the browser reaches the server over TLS.
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

// tokenHash returns the hash of the session token in the request's cookie.
func (m *Manager) tokenHash(r *http.Request) (hash [32]byte, ok bool) {
	c, err := r.Cookie(m.cookieName(r, sessionCookie))
	if err != nil {
		return hash, false
	}
	token, ok := parseSecret(c.Value)
	return token.hash(), ok
}

// setCookie sets a cookie that expires after life. On requests from another site, the browser sends it with top-level
// navigation only (SameSite=Lax).
func (m *Manager) setCookie(w http.ResponseWriter, r *http.Request, name, value string, life time.Duration) {
	http.SetCookie(w, &http.Cookie{
		Name: m.cookieName(r, name), Value: value, Path: "/", MaxAge: int(life / time.Second),
		HttpOnly: true, Secure: m.secure(r), SameSite: http.SameSiteLaxMode,
	})
}

// dropCookie deletes a cookie in the browser.
func (m *Manager) dropCookie(w http.ResponseWriter, r *http.Request, name string) {
	http.SetCookie(w, &http.Cookie{
		Name: m.cookieName(r, name), Path: "/", MaxAge: -1,
		HttpOnly: true, Secure: m.secure(r), SameSite: http.SameSiteLaxMode,
	})
}
