// SPDX-License-Identifier: Apache-2.0

package assay

import (
	"context"
	"slices"
	"time"
)

// Limits of sessions. Past them the session that was used least recently ends.
const (
	MaxSubjectSessions      = 20
	MaxOrganizationSessions = 10_000
)

// How long sessions last when nothing else is configured.
const (
	DefaultSessionIdle = 8 * time.Hour      // without a request
	DefaultSessionLife = 7 * 24 * time.Hour // in all
)

// Session is somebody's sign-in to the dashboard. The token that the browser holds
// is never kept.
type Session struct {
	Hash           [32]byte // SHA-256 of the token
	OrganizationID string
	Subject        string  // "key:<key id>" or an identity provider's subject, as in Principal
	KeyID          string  // of the API key that signed in; "" for a user of an identity provider
	Name           string  // for the page: the key's name, or what the provider calls the user
	Scopes         []Scope // what the session may do, and the most that keys made in it may
	CreatedAt      time.Time
	UsedAt         time.Time // of the last request, exact to a minute
	IdleAt         time.Time // when it ends unless it is used before
	ExpiresAt      time.Time // when it ends however much it is used
}

// Allows tells whether the session has the scope.
func (s *Session) Allows(scope Scope) bool { return slices.Contains(s.Scopes, scope) }

// Admin tells whether the session may manage API keys.
func (s *Session) Admin() bool { return s.Allows(ScopeAdmin) }

// User tells whether an identity provider signed the session in.
func (s *Session) User() bool { return s.KeyID == "" }

// Live tells whether the session has not ended at now. Whether its key has is known
// by the store.
func (s *Session) Live(now time.Time) bool { return now.Before(s.IdleAt) && now.Before(s.ExpiresAt) }

// Principal returns who makes requests in the session.
func (s *Session) Principal() *Principal {
	return &Principal{
		OrganizationID: s.OrganizationID, Subject: s.Subject, User: s.User(), Scopes: slices.Clone(s.Scopes),
	}
}

// SessionStore keeps sessions. A session that has ended, or whose API key is revoked
// or has expired, is not there any more. Implementations may be used concurrently.
type SessionStore interface {
	// CreateSession keeps a session from its UsedAt on, which it takes for the present.
	// It makes room by the limits of sessions. An organization that does not exist is
	// CodeNotFound; so is a key that is not the organization's or does not live. A hash
	// that is taken is CodeConflict.
	CreateSession(ctx context.Context, s *Session) error
	// FindSession returns CodeNotFound for a hash of no session that lives at now.
	FindSession(ctx context.Context, hash [32]byte, now time.Time) (*Session, error)
	// TouchSession sets UsedAt and IdleAt where usedAt is newer; an unknown hash is no error.
	TouchSession(ctx context.Context, hash [32]byte, usedAt, idleAt time.Time) error
	// DeleteSession ends one session; an unknown hash is no error.
	DeleteSession(ctx context.Context, hash [32]byte) error
	// DeleteSessions ends all sessions of the one who is signed in by s, in the
	// organization of s, and returns how many.
	DeleteSessions(ctx context.Context, s *Session) (int, error)
}
