// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"assay"
)

const (
	// MaxLiveKeys limits the live keys of an organization. Above it a KeyManager creates no further keys.
	MaxLiveKeys = 1000
	// MaxKeys limits all keys of an organization. Keys are never deleted, and the live keys of all organizations must be
	// readable in seconds when many clients fail.
	MaxKeys = 100_000

	makeAttempts = 5 // to find a free id among 57 billion
)

// KeyManager implements assay.KeyManager. All fields are required. It is safe for concurrent use.
type KeyManager struct {
	Store  assay.APIKeyStore
	Prefix string // of API keys, without "_sk_"
	Now    func() time.Time
	Logger *slog.Logger // logs each key that is created or revoked, without its secret
}

// FindKeys implements assay.KeyManager.
func (m *KeyManager) FindKeys(ctx context.Context, principal *assay.Principal, page assay.Page) (*assay.APIKeyPage, error) {
	if !mayManage(principal) {
		return nil, errNotAdmin()
	}
	return m.Store.FindAPIKeyPage(ctx, principal.OrganizationID, m.Now(), page)
}

// FindKey implements assay.KeyManager.
func (m *KeyManager) FindKey(ctx context.Context, principal *assay.Principal, id string) (*assay.APIKey, error) {
	if !mayManage(principal) {
		return nil, errNotAdmin()
	}
	k, err := m.Store.FindAPIKey(ctx, id)
	if err == nil && k.OrganizationID != principal.OrganizationID {
		err = assay.Errorf(assay.CodeNotFound, "no such API key")
	}
	if err != nil {
		return nil, err
	}
	return k, nil
}

// Preview implements assay.KeyManager.
func (m *KeyManager) Preview(k *assay.APIKey) string { return m.Prefix + separator + k.ID + "_***" }

// CreateKey implements assay.KeyManager. The id of the key is derived from Once, and the store accepts an id once.
func (m *KeyManager) CreateKey(ctx context.Context, principal *assay.Principal, n assay.NewAPIKey) (*assay.APIKey, string, error) {
	if err := check(principal, &n); err != nil {
		return nil, "", err
	}
	until, err := m.expiry(ctx, principal)
	if err != nil {
		return nil, "", err
	}
	for attempt := range makeAttempts {
		id := newID(rand.Reader)
		if n.Once != "" {
			id = onceID(n.Once, byte(attempt))
		}
		secret, k := newKey(m.Prefix, id)
		k.OrganizationID, k.Name, k.CreatedBy = principal.OrganizationID, n.Name, principal.Subject
		for _, scope := range assay.Scopes() { // in order, without duplicates
			if slices.Contains(n.Scopes, scope) {
				k.Scopes = append(k.Scopes, scope)
			}
		}
		if n.ExpiresIn > 0 {
			k.ExpiresAt = m.Now().Add(n.ExpiresIn).UTC().Truncate(time.Microsecond)
		}
		if !until.IsZero() && (k.ExpiresAt.IsZero() || k.ExpiresAt.After(until)) {
			k.ExpiresAt = until
		}
		err = m.Store.CreateAPIKey(ctx, k, assay.APIKeyLimits{Live: MaxLiveKeys, All: MaxKeys})
		if err == nil {
			m.Logger.InfoContext(ctx, "created an API key", "organization_id", principal.OrganizationID, "key_id", k.ID, "scopes", k.Scopes, "by", principal.Subject)
			return k, string(secret), nil
		}
		if assay.ErrorCode(err) != assay.CodeConflict || errors.Is(err, assay.ErrTooManyAPIKeys) {
			return nil, "", err
		}
		if n.Once == "" {
			continue
		}
		switch made, lookup := m.FindKey(ctx, principal, k.ID); {
		case lookup == nil:
			return nil, "", assay.Errorf(assay.CodeConflict, "A key was already created from this form: %s (%s). It was shown once. If it was lost, revoke it; to create another one, send the form again.", made.Name, made.ID)
		case assay.ErrorCode(lookup) != assay.CodeNotFound: // the id belongs to another organization, by chance
			return nil, "", lookup
		}
	}
	return nil, "", err
}

// expiry returns when the key of a principal expires, zero if it does not. A key cannot create one that outlives it.
func (m *KeyManager) expiry(ctx context.Context, principal *assay.Principal) (time.Time, error) {
	id, ok := strings.CutPrefix(principal.Subject, "key:")
	if !ok || principal.User {
		return time.Time{}, nil
	}
	k, err := m.FindKey(ctx, principal, id)
	if assay.ErrorCode(err) == assay.CodeNotFound { // made by another program of this organization
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, err
	}
	return k.ExpiresAt, nil
}

// check validates the parameters of CreateKey, and removes white space around the name.
func check(principal *assay.Principal, n *assay.NewAPIKey) error {
	if !mayManage(principal) {
		return errNotAdmin()
	}
	details := map[string]string{}
	for _, scope := range n.Scopes {
		switch {
		case !slices.Contains(assay.Scopes(), scope):
			details["scopes"] = "must be a list of read, agent, ingest, admin"
		case !principal.Allows(scope):
			return assay.Errorf(assay.CodeForbidden, "this credential does not have the scope %q, so it cannot grant it", scope)
		}
	}
	if len(n.Scopes) == 0 {
		details["scopes"] = "must not be empty"
	}
	if n.Name = strings.TrimSpace(n.Name); n.Name == "" || len(utf16.Encode([]rune(n.Name))) > assay.MaxAPIKeyName || !utf8.ValidString(n.Name) || strings.ContainsFunc(n.Name, unicode.IsControl) {
		details["description"] = fmt.Sprintf("must have 1 to %d characters, without control characters", assay.MaxAPIKeyName)
	}
	if n.ExpiresIn < 0 || n.ExpiresIn > assay.MaxAPIKeyLife {
		details["expires_in"] = fmt.Sprintf("must be a number of seconds from 1 to %d", int(assay.MaxAPIKeyLife.Seconds()))
	}
	if len(n.Once) > assay.MaxAPIKeyOnce {
		details["once"] = fmt.Sprintf("must have at most %d bytes", assay.MaxAPIKeyOnce)
	}
	if len(details) > 0 {
		return assay.Invalid(details)
	}
	return nil
}

// RevokeKey implements assay.KeyManager.
func (m *KeyManager) RevokeKey(ctx context.Context, principal *assay.Principal, id string) error {
	if _, err := m.FindKey(ctx, principal, id); err != nil {
		return err
	}
	if err := m.Store.RevokeAPIKey(ctx, id); err != nil {
		return err
	}
	m.Logger.InfoContext(ctx, "revoked an API key", "organization_id", principal.OrganizationID, "key_id", id, "by", principal.Subject)
	return nil
}

// mayManage reports whether a caller may list, create and revoke keys.
func mayManage(principal *assay.Principal) bool {
	return principal.Allows(assay.ScopeAdmin) && principal.OrganizationID != ""
}

func errNotAdmin() error {
	return assay.Errorf(assay.CodeForbidden, "managing API keys needs the scope %q", assay.ScopeAdmin)
}
