// SPDX-License-Identifier: Apache-2.0

package assay

import (
	"context"
	"errors"
	"slices"
	"time"
)

// Scope is a permission of an API key.
type Scope string

// The scopes.
const (
	ScopeRead   Scope = "read"   // the REST API
	ScopeAgent  Scope = "agent"  // forwarded agent operations
	ScopeIngest Scope = "ingest" // sending OTLP
	ScopeAdmin  Scope = "admin"  // managing API keys and webhooks
)

// Scopes returns all scopes.
func Scopes() []Scope { return append(DefaultScopes(), ScopeAdmin) }

// DefaultScopes returns the scopes of a key that is created without scopes.
func DefaultScopes() []Scope { return []Scope{ScopeRead, ScopeAgent, ScopeIngest} }

// Limits of keys created by a KeyManager.
const (
	// MaxAPIKeyName is the maximum length of a name, in UTF-16 code units, like maxlength in browsers.
	MaxAPIKeyName = 100
	// MaxAPIKeyLife is the maximum lifetime of a key that expires.
	MaxAPIKeyLife = 3650 * 24 * time.Hour
	// MaxAPIKeyOnce is the maximum length of NewAPIKey.Once, in bytes.
	MaxAPIKeyOnce = 128
)

// APIKey is a stored credential of an organization. The secret itself is not stored.
type APIKey struct {
	ID             string // the six public characters
	OrganizationID string
	Name           string
	Hash           [32]byte // SHA-256 of the whole key
	Scopes         []Scope
	CreatedAt      time.Time
	CreatedBy      string    // Principal.Subject of its creator; "": the command line, the first start or unknown
	ExpiresAt      time.Time // zero: never
	LastUsedAt     time.Time // zero: never; one-minute precision
	RevokedAt      time.Time // zero: not revoked
}

// Allows reports whether the key has the scope.
func (k *APIKey) Allows(s Scope) bool { return slices.Contains(k.Scopes, s) }

// Live reports whether the key is neither revoked nor expired at now.
func (k *APIKey) Live(now time.Time) bool {
	return k.RevokedAt.IsZero() && (k.ExpiresAt.IsZero() || now.Before(k.ExpiresAt))
}

// APIKeyPage is a page of an organization's keys.
type APIKeyPage struct {
	Keys  []*APIKey
	Total int // keys of the organization, including revoked and expired ones
	Live  int // keys neither revoked nor expired
}

// NewAPIKey describes a key to create.
type NewAPIKey struct {
	Name      string
	Scopes    []Scope
	ExpiresIn time.Duration // 0: never
	// Once identifies the request. Requests with the same one, also concurrent ones at several replicas, create one key.
	// It must not be guessable by other organizations. "": each request creates a key.
	Once string
}

// KeyManager manages the API keys of the caller's organization. Each method returns CodeForbidden for a caller without
// the scope admin. Implementations must be safe for concurrent use.
type KeyManager interface {
	// FindKeys returns a page of keys: usable keys first, then the newest.
	FindKeys(ctx context.Context, principal *Principal, page Page) (*APIKeyPage, error)
	// FindKey returns CodeNotFound for an id that is unknown or another organization's.
	FindKey(ctx context.Context, principal *Principal, id string) (*APIKey, error)
	// CreateKey returns a new key and its secret, which is not stored. Errors: CodeForbidden for scopes that the caller
	// lacks; CodeInvalid with details by the names of the REST API; CodeConflict if Once has created a key, and for an
	// organization with too many keys.
	CreateKey(ctx context.Context, principal *Principal, k NewAPIKey) (*APIKey, string, error)
	// RevokeKey returns CodeNotFound for an id that is unknown or another organization's. Revoking again keeps the first
	// time.
	RevokeKey(ctx context.Context, principal *Principal, id string) error
	// Preview returns a key without its secret part.
	Preview(k *APIKey) string
}

// DefaultAPIKeyPrefix is the prefix of the keys of a store for which none is chosen.
const DefaultAPIKeyPrefix = "assay"

// APIKeyLimits limits the keys of an organization. 0 means no limit.
type APIKeyLimits struct {
	Live int // keys neither revoked nor expired
	All  int // keys ever created
}

// ErrTooManyAPIKeys is the cause of an error for an organization that has reached a limit of its keys.
var ErrTooManyAPIKeys = errors.New("too many API keys")

// APIKeyStore stores API keys. Keys are never deleted. Implementations must be safe for concurrent use.
type APIKeyStore interface {
	// APIKeyPrefix returns the prefix of all keys of the store, without "_sk_". The first call that gives one sets it for
	// good. It returns "" if none is given and none is set.
	APIKeyPrefix(ctx context.Context, given string) (string, error)
	// CreateAPIKey sets CreatedAt. It returns CodeConflict if the id exists, and CodeConflict with the cause
	// ErrTooManyAPIKeys if the organization has as many keys as a limit, also for concurrent calls.
	CreateAPIKey(ctx context.Context, k *APIKey, limits APIKeyLimits) error
	// FindAPIKey also returns revoked and expired keys. It returns CodeNotFound for an unknown id.
	FindAPIKey(ctx context.Context, id string) (*APIKey, error)
	// FindAPIKeys returns the keys of an organization ("" for all), ordered by creation and id.
	FindAPIKeys(ctx context.Context, organizationID string) ([]*APIKey, error)
	// FindLiveAPIKeys returns the keys of all organizations that are live at now, in any order.
	FindLiveAPIKeys(ctx context.Context, now time.Time) ([]*APIKey, error)
	// FindAPIKeyPage returns a page of an organization's keys: first those live at now, then newest first, then by
	// descending id.
	FindAPIKeyPage(ctx context.Context, organizationID string, now time.Time, page Page) (*APIKeyPage, error)
	// RevokeAPIKey returns CodeNotFound for an unknown id. Revoking again keeps the first time.
	RevokeAPIKey(ctx context.Context, id string) error
	// TouchAPIKey sets LastUsedAt to at if at is newer.
	TouchAPIKey(ctx context.Context, id string, at time.Time) error
}
