// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"assay"
)

const (
	// MaxLiveKeys is how many keys of an organization may live at a time for another one
	// to be made by a KeyManager.
	MaxLiveKeys = 1000

	maxOnce      = 64 // bytes
	makeAttempts = 5  // to find an id that is not taken, of 57 thousand million
)

// KeyManager manages the API keys of an organization for somebody who is signed in. All
// of its fields are needed. It may be used concurrently.
type KeyManager struct {
	Store  assay.APIKeyStore
	Prefix string // of API keys, without "_sk_"
	Now    func() time.Time
	Logger *slog.Logger // gets a record of each key that is made or revoked, without the key
}

// FindKeys returns a part of the keys of the session's organization: what can be used
// first, then the newest. CodeForbidden for a session that may not manage keys.
func (m *KeyManager) FindKeys(ctx context.Context, s *assay.Session, page assay.Page) (*assay.APIKeyPage, error) {
	if !mayManage(s) {
		return nil, errNotAdmin()
	}
	return m.Store.FindAPIKeyPage(ctx, s.OrganizationID, m.Now(), page)
}

// FindKey returns a key of the session's organization. CodeForbidden for a session that
// may not manage keys, CodeNotFound for an id that is unknown or another organization's.
func (m *KeyManager) FindKey(ctx context.Context, s *assay.Session, id string) (*assay.APIKey, error) {
	if !mayManage(s) {
		return nil, errNotAdmin()
	}
	k, err := m.Store.FindAPIKey(ctx, id)
	if err == nil && k.OrganizationID != s.OrganizationID {
		err = assay.Errorf(assay.CodeNotFound, "no such API key")
	}
	if err != nil {
		return nil, err
	}
	return k, nil
}

// CreateKey makes a key that ends after a time, never for 0, and returns it with its
// secret, which is kept nowhere. For one value of once, at most 64 bytes, a session makes
// one key, also at several replicas at a time: the key's id comes from both, and the
// store takes an id once. CodeForbidden for a session that may not manage keys
// and for scopes that it does not have itself, CodeInvalid for a name, scopes or a time
// that cannot be, CodeConflict for a key that was made before and for an organization
// with too many keys.
func (m *KeyManager) CreateKey(ctx context.Context, s *assay.Session, once, name string, scopes []assay.Scope, expiresIn time.Duration) (*assay.APIKey, string, error) {
	if err := m.check(s, once, name, scopes, expiresIn); err != nil {
		return nil, "", err
	}
	counts, err := m.FindKeys(ctx, s, assay.Page{Limit: 1})
	if err != nil {
		return nil, "", err
	}
	if counts.Live >= MaxLiveKeys {
		return nil, "", assay.Errorf(assay.CodeConflict, "The organization has %d keys. Revoke one that is not used any more.", counts.Live)
	}
	for attempt := range makeAttempts {
		secret, k := newKey(m.Prefix, onceID(s.Hash, once, byte(attempt)))
		k.OrganizationID, k.Name = s.OrganizationID, name
		for _, scope := range assay.Scopes() { // in their order, each once
			if slices.Contains(scopes, scope) {
				k.Scopes = append(k.Scopes, scope)
			}
		}
		if expiresIn > 0 {
			k.ExpiresAt = m.Now().Add(expiresIn).UTC().Truncate(time.Microsecond)
		}
		err = m.Store.CreateAPIKey(ctx, k)
		if err == nil {
			m.Logger.InfoContext(ctx, "an API key was made", "organization_id", s.OrganizationID, "key_id", k.ID, "scopes", k.Scopes, "by", s.Subject)
			return k, string(secret), nil
		}
		if assay.ErrorCode(err) != assay.CodeConflict {
			return nil, "", err
		}
		switch made, lookup := m.FindKey(ctx, s, k.ID); {
		case lookup == nil:
			return nil, "", assay.Errorf(assay.CodeConflict, "A key was made from this form already: %s (%s). It was shown that one time. If it was lost, revoke it; to make another one, send the form again.", made.Name, made.ID)
		case assay.ErrorCode(lookup) != assay.CodeNotFound: // which is another organization's, by chance
			return nil, "", lookup
		}
	}
	return nil, "", err
}

// check tells what is wrong with a key that is to be made.
func (m *KeyManager) check(s *assay.Session, once, name string, scopes []assay.Scope, expiresIn time.Duration) error {
	if !mayManage(s) {
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
	case strings.TrimSpace(name) == "" || len(utf16.Encode([]rune(name))) > assay.MaxAPIKeyName || !utf8.ValidString(name) || strings.ContainsRune(name, 0):
		return assay.Errorf(assay.CodeInvalid, "A key needs a name of at most %d characters.", assay.MaxAPIKeyName)
	case once == "" || len(once) > maxOnce:
		return assay.Errorf(assay.CodeInvalid, "The form was not complete. Send it again.")
	case expiresIn < 0:
		return assay.Errorf(assay.CodeInvalid, "A key cannot have ended when it is made.")
	}
	return nil
}

// RevokeKey revokes a key of the session's organization. Its errors are those of FindKey.
func (m *KeyManager) RevokeKey(ctx context.Context, s *assay.Session, id string) error {
	if _, err := m.FindKey(ctx, s, id); err != nil {
		return err
	}
	if err := m.Store.RevokeAPIKey(ctx, id); err != nil {
		return err
	}
	m.Logger.InfoContext(ctx, "an API key was revoked", "organization_id", s.OrganizationID, "key_id", id, "by", s.Subject)
	return nil
}

// mayManage tells whether a session may see, make and revoke keys.
func mayManage(s *assay.Session) bool { return s.Admin() && s.OrganizationID != "" }

func errNotAdmin() error {
	return assay.Errorf(assay.CodeForbidden, "Managing keys needs the scope admin.")
}
