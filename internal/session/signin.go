// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"assay"
	"assay/internal/safetext"
)

const (
	maxForm = 16 << 10 // bytes of a sign-in form
	maxName = 200      // bytes of a session's name
)

// Messages on the sign-in page after a failed sign-in.
const (
	failedKey       = "This API key is not valid: it was mistyped, has expired or was revoked."
	failedScope     = "This API key may not read. Signing in needs a key with the scope read."
	failedTooOften  = "Too many failed sign-ins from your address. Wait a minute and try again."
	failedStore     = "The store cannot be reached at the moment. Try again in a few seconds."
	failedMalformed = "The form could not be read. Try again."
)

// showSignIn shows the sign-in page, or redirects a request that has a session.
func (m *Manager) showSignIn(w http.ResponseWriter, r *http.Request) {
	back := safeReturn(r.URL.Query().Get("return"))
	s, err := m.find(r)
	switch {
	case err != nil:
		m.unavailable(w, r, err)
	case s != nil:
		http.Redirect(w, r, back, http.StatusSeeOther)
	default:
		m.page(w, r, http.StatusOK, back, "")
	}
}

func (m *Manager) page(w http.ResponseWriter, r *http.Request, status int, back, failure string) {
	m.cfg.Page(w, r, status, SignInPage{Return: back, Provider: m.cfg.Provider != nil, Failure: failure})
}

// signInByKey signs a user in with an API key.
func (m *Manager) signInByKey(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		m.page(w, r, http.StatusBadRequest, "/", failedMalformed)
		return
	}
	back := safeReturn(r.PostForm.Get("return"))
	s, err := m.sessionOfKey(r, strings.TrimSpace(r.PostForm.Get("key")))
	if err == nil {
		err = m.begin(w, r, s)
	}
	if err != nil {
		status, failure := m.failure(w, r, err)
		m.page(w, r, status, back, failure)
		return
	}
	http.Redirect(w, r, back, http.StatusSeeOther)
}

// sessionOfKey returns the session for an API key, without the fields that begin sets.
func (m *Manager) sessionOfKey(r *http.Request, apiKey string) (*assay.Session, error) {
	if strings.ContainsAny(apiKey, ". \t\r\n") { // a provider's token, or several words
		apiKey = "-"
	}
	principal, err := m.cfg.Authenticate(r.Context(), "Bearer "+apiKey, r.RemoteAddr)
	if err != nil {
		return nil, err
	}
	id, ok := strings.CutPrefix(principal.Subject, "key:")
	if principal.User || !ok {
		return nil, assay.Errorf(assay.CodeInvalidAPIKey, "not an API key")
	}
	if !principal.Allows(assay.ScopeRead) {
		return nil, assay.Errorf(assay.CodeForbidden, "the API key does not have the scope read")
	}
	stored, err := m.cfg.Keys.FindAPIKey(assay.WithOrganization(r.Context(), principal.OrganizationID), id)
	if err != nil {
		return nil, err
	}
	return &assay.Session{
		OrganizationID: principal.OrganizationID, Subject: principal.Subject, KeyID: id, Name: stored.Name, Scopes: principal.Scopes,
	}, nil
}

// failure returns the status and the message of the page for a failed sign-in with a key.
func (m *Manager) failure(w http.ResponseWriter, r *http.Request, err error) (status int, message string) {
	switch assay.ErrorCode(err) {
	case assay.CodeInvalidAPIKey, assay.CodeInvalidToken, assay.CodeMissingCredentials, assay.CodeNotFound:
		return http.StatusUnauthorized, failedKey
	case assay.CodeForbidden:
		return http.StatusForbidden, failedScope
	case assay.CodeRateLimited:
		setRetryAfter(w, err)
		return http.StatusTooManyRequests, failedTooOften
	default:
		if r.Context().Err() == nil {
			m.cfg.Logger.ErrorContext(r.Context(), "a sign-in could not be completed", "error", err)
		}
		w.Header().Set("Retry-After", "5")
		return http.StatusServiceUnavailable, failedStore
	}
}

// setRetryAfter sets the header Retry-After if the error has a delay.
func setRetryAfter(w http.ResponseWriter, err error) {
	var wait interface{ RetryAfter() time.Duration }
	if errors.As(err, &wait) {
		w.Header().Set("Retry-After", strconv.Itoa(int(max(1, (wait.RetryAfter()+time.Second-1)/time.Second))))
	}
}

// begin stores a new session and sets its cookie. The token is always new, never a value that the browser sent. An
// existing session of the browser ends.
func (m *Manager) begin(w http.ResponseWriter, r *http.Request, s *assay.Session) error {
	ctx := assay.WithOrganization(r.Context(), s.OrganizationID)
	if old, ok := m.tokenHash(r); ok {
		if err := m.cfg.Store.DeleteSession(ctx, old); err != nil {
			return err
		}
	}
	token, now := newSecret(), m.cfg.Now()
	s.Hash = token.hash()
	s.Name = safetext.Start(s.Name, maxName)
	s.CreatedAt, s.UsedAt, s.IdleAt, s.ExpiresAt = now, now, now.Add(m.cfg.Idle), now.Add(m.cfg.Life)
	if err := m.cfg.Store.CreateSession(ctx, s); err != nil {
		return err
	}
	m.known.set(s.Hash, s.OrganizationID)
	m.setCookie(w, r, sessionCookie, token.String(), m.cfg.Life)
	m.log(ctx, "begun", s)
	return nil
}

// signOut ends the session of the request.
func (m *Manager) signOut(w http.ResponseWriter, r *http.Request) {
	m.end(w, r, func(s *assay.Session) error {
		m.log(r.Context(), "ended", s)
		return m.cfg.Store.DeleteSession(r.Context(), s.Hash)
	})
}

// signOutEverywhere ends all sessions of the user.
func (m *Manager) signOutEverywhere(w http.ResponseWriter, r *http.Request) {
	m.end(w, r, func(s *assay.Session) error {
		m.log(r.Context(), "ended everywhere", s)
		_, err := m.cfg.Store.DeleteSessions(r.Context(), s)
		return err
	})
}

func (m *Manager) end(w http.ResponseWriter, r *http.Request, end func(*assay.Session) error) {
	s, err := m.find(r)
	if err == nil && s != nil {
		err = end(s)
	}
	if err != nil {
		m.unavailable(w, r, err)
		return
	}
	m.dropCookie(w, r, sessionCookie)
	w.Header().Set("Clear-Site-Data", `"cache"`) // so that the Back button shows no page of the session
	http.Redirect(w, r, SignInPath, http.StatusSeeOther)
}

// log logs an event of a session, without its token.
func (m *Manager) log(ctx context.Context, event string, s *assay.Session) {
	m.cfg.Logger.InfoContext(ctx, "session of the dashboard", "event", event, "organization_id", s.OrganizationID, "subject", s.Subject)
}
