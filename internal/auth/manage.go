// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"assay"
)

const (
	// MaxLiveKeys is how many keys of an organization may live at a time for another one
	// to be made by a KeyManager.
	MaxLiveKeys = 1000

	maxKeyName   = 200 // bytes
	makeAttempts = 5   // to find an id that is not taken, of 57 thousand million
)

// KeyManager manages the API keys of an organization for somebody who is signed in. All
// of its fields are needed. It may be used concurrently.
type KeyManager struct {
	Store  assay.APIKeyStore
	Prefix string // of API keys, without "_sk_"
	Now    func() time.Time
	Logger *slog.Logger // gets a record of each key that is made or revoked, without the key
}

// FindKeys returns the keys of the session's organization, by creation.
func (m *KeyManager) FindKeys(ctx context.Context, s *assay.Session) ([]*assay.APIKey, error) {
	if s.OrganizationID == "" { // which would be all
		return nil, nil
	}
	return m.Store.FindAPIKeys(ctx, s.OrganizationID)
}

// CreateKey makes a key that ends after a time, never for 0, and returns it with its
// secret, which is kept nowhere. CodeForbidden for a session that may not manage keys
// and for scopes that it does not have itself, CodeInvalid for a name, scopes or a time
// that cannot be, CodeConflict for an organization with too many keys.
func (m *KeyManager) CreateKey(ctx context.Context, s *assay.Session, name string, scopes []assay.Scope, expiresIn time.Duration) (*assay.APIKey, string, error) {
	if err := m.check(s, name, scopes, expiresIn); err != nil {
		return nil, "", err
	}
	all, err := m.FindKeys(ctx, s)
	if err != nil {
		return nil, "", err
	}
	now, live := m.Now(), 0
	for _, k := range all {
		if k.Live(now) {
			live++
		}
	}
	if live >= MaxLiveKeys {
		return nil, "", assay.Errorf(assay.CodeConflict, "The organization has %d keys. Revoke one that is not used any more.", live)
	}
	for attempt := 1; ; attempt++ {
		secret, k := NewKey(m.Prefix)
		k.OrganizationID, k.Name = s.OrganizationID, name
		for _, scope := range assay.Scopes() { // in their order, each once
			if slices.Contains(scopes, scope) {
				k.Scopes = append(k.Scopes, scope)
			}
		}
		if expiresIn > 0 {
			k.ExpiresAt = now.Add(expiresIn).UTC().Truncate(time.Microsecond)
		}
		err := m.Store.CreateAPIKey(ctx, k)
		if assay.ErrorCode(err) == assay.CodeConflict && attempt < makeAttempts {
			continue
		}
		if err != nil {
			return nil, "", err
		}
		m.Logger.InfoContext(ctx, "an API key was made", "organization_id", s.OrganizationID, "key_id", k.ID, "scopes", k.Scopes, "by", s.Subject)
		return k, string(secret), nil
	}
}

// check tells what is wrong with a key that is to be made.
func (m *KeyManager) check(s *assay.Session, name string, scopes []assay.Scope, expiresIn time.Duration) error {
	if !s.Admin() || s.OrganizationID == "" {
		return errNotAdmin()
	}
	for _, scope := range scopes {
		if !slices.Contains(assay.Scopes(), scope) {
			return assay.Errorf(assay.CodeInvalid, "There is no such scope.")
		}
		if !s.Allows(scope) {
			return assay.Errorf(assay.CodeForbidden, "You do not have the scope %s yourself.", scope)
		}
	}
	switch {
	case len(scopes) == 0:
		return assay.Errorf(assay.CodeInvalid, "A key needs a scope.")
	case strings.TrimSpace(name) == "" || len(name) > maxKeyName || !utf8.ValidString(name) || strings.ContainsRune(name, 0):
		return assay.Errorf(assay.CodeInvalid, "A key needs a name of at most %d bytes.", maxKeyName)
	case expiresIn < 0:
		return assay.Errorf(assay.CodeInvalid, "A key cannot have ended when it is made.")
	}
	return nil
}

// RevokeKey revokes a key of the session's organization. CodeForbidden for a session that
// may not manage keys, CodeNotFound for an id that is unknown or another organization's.
func (m *KeyManager) RevokeKey(ctx context.Context, s *assay.Session, id string) error {
	if !s.Admin() {
		return errNotAdmin()
	}
	k, err := m.Store.FindAPIKey(ctx, id)
	if err == nil && k.OrganizationID != s.OrganizationID {
		err = assay.Errorf(assay.CodeNotFound, "no such API key")
	}
	if err != nil {
		return err
	}
	if err := m.Store.RevokeAPIKey(ctx, id); err != nil {
		return err
	}
	m.Logger.InfoContext(ctx, "an API key was revoked", "organization_id", s.OrganizationID, "key_id", id, "by", s.Subject)
	return nil
}

func errNotAdmin() error {
	return assay.Errorf(assay.CodeForbidden, "Managing keys needs the scope admin.")
}
