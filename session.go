// SPDX-License-Identifier: Apache-2.0

package assay

import (
	"context"
	"slices"
	"time"
)

// Limits of sessions. Above them the least recently used session ends.
const (
	MaxSubjectSessions      = 20
	MaxOrganizationSessions = 10_000
)

// Default durations of sessions.
const (
	DefaultSessionIdle = 8 * time.Hour      // maximum idle time
	DefaultSessionLife = 7 * 24 * time.Hour // maximum lifetime
)

// Session is a sign-in to the dashboard. The token in the browser is not stored.
type Session struct {
	Hash           [32]byte // SHA-256 of the token
	OrganizationID string
	Subject        string  // "key:<key id>" or an identity provider's subject, as in Principal
	KeyID          string  // id of the API key; "" for a user of an identity provider
	Name           string  // display name: name of the key, or of the user at the provider
	Scopes         []Scope // scopes of the session, and the maximum for keys created in it
	CreatedAt      time.Time
	UsedAt         time.Time // time of the last request, one-minute precision
	IdleAt         time.Time // expiry unless used
	ExpiresAt      time.Time // expiry in any case
}

// Allows reports whether the session has the scope.
func (s *Session) Allows(scope Scope) bool { return slices.Contains(s.Scopes, scope) }

// Admin reports whether the session may manage API keys.
func (s *Session) Admin() bool { return s.Allows(ScopeAdmin) }

// User reports whether the session was signed in by an identity provider.
func (s *Session) User() bool { return s.KeyID == "" }

// Live reports whether the session has not expired at now. The store checks the API key of the session.
func (s *Session) Live(now time.Time) bool { return now.Before(s.IdleAt) && now.Before(s.ExpiresAt) }

// Principal returns the principal of requests in the session.
func (s *Session) Principal() *Principal {
	return &Principal{
		OrganizationID: s.OrganizationID, Subject: s.Subject, User: s.User(), Scopes: slices.Clone(s.Scopes),
	}
}

// SessionStore stores sessions. It does not return expired sessions, nor sessions whose API key is revoked or
// expired. Implementations must be safe for concurrent use.
type SessionStore interface {
	// CreateSession stores a session. It takes UsedAt for the current time and ends other sessions to stay within the
	// limits. It returns CodeNotFound if the organization does not exist, or the key is not live or belongs to
	// another organization, and CodeConflict if the hash exists.
	CreateSession(ctx context.Context, s *Session) error
	// FindSession returns CodeNotFound if no session with that hash is live at now.
	FindSession(ctx context.Context, hash [32]byte, now time.Time) (*Session, error)
	// TouchSession sets UsedAt and IdleAt if usedAt is newer. It ignores an unknown hash.
	TouchSession(ctx context.Context, hash [32]byte, usedAt, idleAt time.Time) error
	// DeleteSession ends one session. It ignores an unknown hash.
	DeleteSession(ctx context.Context, hash [32]byte) error
	// DeleteSessions ends all sessions of the subject of s in the organization of s, and returns their number.
	DeleteSessions(ctx context.Context, s *Session) (int, error)
}
