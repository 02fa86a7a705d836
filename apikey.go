// SPDX-License-Identifier: Apache-2.0

package assay

import (
	"context"
	"slices"
	"time"
)

// Scope is a part of the API that a key may use.
type Scope string

// The scopes.
const (
	ScopeRead   Scope = "read"   // the REST API
	ScopeAgent  Scope = "agent"  // the forwarded agent operations
	ScopeIngest Scope = "ingest" // sending OTLP
	ScopeAdmin  Scope = "admin"  // managing API keys on the dashboard
)

// Scopes returns all scopes.
func Scopes() []Scope { return append(DefaultScopes(), ScopeAdmin) }

// DefaultScopes returns the scopes of a key for which none are named.
func DefaultScopes() []Scope { return []Scope{ScopeRead, ScopeAgent, ScopeIngest} }

// MaxAPIKeyName is the longest name of a key that is made on the dashboard, in UTF-16
// code units, which browsers count.
const MaxAPIKeyName = 100

// APIKey is a stored credential of an organization. The secret itself is never
// kept.
type APIKey struct {
	ID             string // the six public characters
	OrganizationID string
	Name           string
	Hash           [32]byte // SHA-256 of the whole key
	Scopes         []Scope
	CreatedAt      time.Time
	ExpiresAt      time.Time // zero: never
	LastUsedAt     time.Time // zero: never; exact to a minute
	RevokedAt      time.Time // zero: not revoked
}

// Allows tells whether the key has the scope.
func (k *APIKey) Allows(s Scope) bool { return slices.Contains(k.Scopes, s) }

// Live tells whether the key is neither revoked nor expired at now.
func (k *APIKey) Live(now time.Time) bool {
	return k.RevokedAt.IsZero() && (k.ExpiresAt.IsZero() || now.Before(k.ExpiresAt))
}

// APIKeyPage is a part of the list of an organization's keys.
type APIKeyPage struct {
	Keys  []*APIKey
	Total int // keys of the organization, with those that are revoked or have expired
	Live  int // of them
}

// APIKeyStore keeps API keys, for good: none is ever deleted. Implementations may be used concurrently.
type APIKeyStore interface {
	// CreateAPIKey fills CreatedAt. An id that is taken is CodeConflict.
	CreateAPIKey(ctx context.Context, k *APIKey) error
	// FindAPIKey returns CodeNotFound for an unknown id. Revoked and expired keys are returned.
	FindAPIKey(ctx context.Context, id string) (*APIKey, error)
	// FindAPIKeys returns the keys of an organization ("" means all), by creation, then id.
	FindAPIKeys(ctx context.Context, organizationID string) ([]*APIKey, error)
	// FindAPIKeyPage returns some keys of an organization: those that live at now come first,
	// then the newest, then by id, descending.
	FindAPIKeyPage(ctx context.Context, organizationID string, now time.Time, page Page) (*APIKeyPage, error)
	// RevokeAPIKey returns CodeNotFound for an unknown id; revoking twice keeps the first time.
	RevokeAPIKey(ctx context.Context, id string) error
	// TouchAPIKey sets LastUsedAt to at when that is newer.
	TouchAPIKey(ctx context.Context, id string, at time.Time) error
}
