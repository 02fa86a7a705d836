// SPDX-License-Identifier: Apache-2.0

package sign

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"assay"
	"assay/internal/auth"
)

// Config configures a Signer. Store, Issuer and Audience are required.
type Config struct {
	Store    assay.SigningKeyStore
	Issuer   string      // iss: the URL of this installation
	Audience string      // aud: the agent backend
	Secret   auth.Secret // 32 bytes that encrypt the stored private keys; "": they are stored in clear
	Now      func() time.Time
	Logger   *slog.Logger // default: none
}

// Signer signs tokens and publishes the public keys. It is safe for concurrent use.
type Signer struct {
	cfg   Config
	vault *vault
	ring  atomic.Pointer[ring]
}

// New returns a signer with the keys of the store. It generates the first key of an empty store, and encrypts keys
// that are stored in clear if there is a secret. It fails if the newest key is encrypted and the secret is missing or
// wrong. An older key that cannot be decrypted is only published.
func New(ctx context.Context, c Config) (*Signer, error) {
	if c.Store == nil || c.Issuer == "" || c.Audience == "" {
		return nil, errors.New("sign: a store, an issuer and an audience are required")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	v, err := newVault(c.Secret)
	if err != nil {
		return nil, fmt.Errorf("sign: the secret is %w", err)
	}
	s := &Signer{cfg: c, vault: v}
	s.ring.Store(&ring{})
	stored, err := s.makeFirst(ctx)
	if err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	newest := stored[len(stored)-1]
	if _, err := v.open(newest); err != nil {
		return nil, fmt.Errorf("sign: the signing key %s cannot be used: %w", newest.ID, err)
	}
	if err := s.take(ctx, stored); err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	if err := v.encrypt(ctx, c.Store, stored); err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	return s, nil
}

// makeFirst returns the keys of the store. If there is none, makeFirst generates the first one.
func (s *Signer) makeFirst(ctx context.Context) ([]*assay.SigningKey, error) {
	stored, err := s.cfg.Store.FindSigningKeys(ctx)
	if err != nil || len(stored) > 0 {
		return stored, err
	}
	k, err := s.vault.generate()
	if err != nil {
		return nil, err
	}
	switch err := s.cfg.Store.CreateSigningKey(ctx, k); {
	case err == nil:
		s.cfg.Logger.InfoContext(ctx, "created the first signing key", "key_id", k.ID)
	case assay.ErrorCode(err) != assay.CodeConflict: // on a conflict, another replica was first
		return nil, err
	}
	stored, err = s.cfg.Store.FindSigningKeys(ctx)
	if err == nil && len(stored) == 0 {
		err = errNoKeys
	}
	return stored, err
}

var errNoKeys = errors.New("the store has no signing key any more")

// Run polls the store for changes until ctx ends. It logs an unavailable store once.
func (s *Signer) Run(ctx context.Context) {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		err := s.refresh(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !failing:
			s.cfg.Logger.WarnContext(ctx, "failed to refresh the signing keys, the known ones stay in use", "error", err)
		case err == nil && failing:
			s.cfg.Logger.InfoContext(ctx, "signing keys are refreshed again")
		}
		failing = err != nil
	}
}

// refresh reads the keys of the store, encrypts keys that are stored in clear and deletes the keys whose tokens have
// expired.
func (s *Signer) refresh(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	stored, err := s.cfg.Store.FindSigningKeys(ctx)
	if err != nil {
		return err
	}
	if len(stored) == 0 {
		return errNoKeys
	}
	if err := s.take(ctx, stored); err != nil {
		return err
	}
	if err := s.vault.encrypt(ctx, s.cfg.Store, stored); err != nil {
		return err
	}
	ended := s.cfg.Now().Add(-retention)
	for _, k := range stored {
		if !k.RetiredAt.IsZero() && k.RetiredAt.Before(ended) {
			return s.cfg.Store.DeleteSigningKeys(ctx, ended)
		}
	}
	return nil
}

// take replaces the ring by the stored keys. Keys that are already known are not decrypted again.
func (s *Signer) take(ctx context.Context, stored []*assay.SigningKey) error {
	old := s.ring.Load()
	if old.holds(stored) {
		return nil
	}
	now := s.cfg.Now()
	var keys []*key
	var published []*assay.SigningKey
	for _, k := range stored {
		if len(k.Public) != ed25519.PublicKeySize {
			continue // the format is unknown to this version
		}
		prepared := old.find(k.ID)
		if prepared == nil {
			var err error
			if prepared, err = s.prepare(ctx, k, now); err != nil {
				return err
			}
		}
		keys, published = append(keys, prepared), append(published, k)
	}
	next, err := newRing(published, keys)
	if err != nil {
		return err
	}
	s.ring.Store(next)
	return nil
}

// prepare decrypts a key that was read for the first time.
func (s *Signer) prepare(ctx context.Context, k *assay.SigningKey, now time.Time) (*key, error) {
	private, err := s.vault.open(k)
	if err != nil {
		s.cfg.Logger.ErrorContext(ctx, "a signing key cannot be used and is only published; tokens are signed with another one", "key_id", k.ID, "error", err)
		return newKey(k, nil, now)
	}
	return newKey(k, private, now)
}

// claims are the claims of a token. Times are seconds since 1970.
type claims struct {
	Issuer         string `json:"iss"`
	Subject        string `json:"sub"`
	Audience       string `json:"aud"`
	OrganizationID string `json:"org_id"`
	Credential     string `json:"credential"`
	IssuedAt       int64  `json:"iat"`
	NotBefore      int64  `json:"nbf"`
	ExpiresAt      int64  `json:"exp"`
	ID             string `json:"jti"`
}

// Sign returns a new token for a request of p: sub is the subject of p, org_id the id of its organization, credential
// "api_key" or "user". The token expires after 60 s.
func (s *Signer) Sign(_ context.Context, p *assay.Principal) (string, error) {
	if p == nil || p.Subject == "" || p.OrganizationID == "" {
		return "", errors.New("sign: a token needs a subject and an organization")
	}
	now := s.cfg.Now()
	k := s.ring.Load().current(now)
	if k == nil {
		return "", errors.New("sign: no signing key can be used")
	}
	credential := "api_key"
	if p.User {
		credential = "user"
	}
	payload, err := json.Marshal(claims{
		Issuer: s.cfg.Issuer, Subject: p.Subject, Audience: s.cfg.Audience,
		OrganizationID: p.OrganizationID, Credential: credential,
		IssuedAt: now.Unix(), NotBefore: now.Unix(), ExpiresAt: now.Add(lifetime).Unix(), ID: rand.Text(),
	})
	if err != nil {
		return "", fmt.Errorf("sign: encode the claims: %w", err)
	}
	return k.sign(payload), nil
}
