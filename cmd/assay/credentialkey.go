// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"assay"
	"assay/internal/auth"
	"assay/internal/auth/seal"
	"assay/internal/auth/sign"
)

// credentialSecret returns the secret that encrypts credentials in the store: the configured one, else a generated one
// in the data directory. Servers that share a PostgreSQL store need the same secret. So a generated one is used only if
// no server uses another one. The result is "" for a server without a secret, which rejects new credentials. With SQLite,
// the only server always uses its secret; another one encrypted a store that was restored without it.
func (c *storeConfig) credentialSecret(
	ctx context.Context, st assay.CredentialKeyStore, configured auth.Secret, logger *slog.Logger,
) (auth.Secret, error) {
	u, err := c.url()
	if err != nil {
		return "", err
	}
	secret := configured
	if secret == "" {
		secret, err = c.generatedSecret()
	}
	if err != nil {
		if u == nil {
			return "", err
		}
		// Such as a read-only file system.
		logger.WarnContext(ctx, "failed to generate a key for credentials; set --secret-key-file to store credentials", "error", err)
		return "", nil
	}
	own := seal.Fingerprint(secret)
	stored, err := st.ClaimCredentialKey(ctx, own, false)
	switch {
	case err != nil:
		return "", err
	case stored == own:
		return secret, nil
	case u != nil && configured == "":
		logger.WarnContext(ctx, "another server encrypts the credentials in the store with its own key; set --secret-key-file "+
			"to the same key on all servers, such as the file "+credentialKeyFile+" in its data directory")
		return "", nil
	}
	logger.WarnContext(ctx, "the credentials in the store are encrypted with another key, so webhooks and source hosts fail; stop the server and restore that key, "+
		"such as the one that a server without --secret-key-file generated, or create webhooks and connect repositories again", "file", c.credentialKeyPath())
	_, err = st.ClaimCredentialKey(ctx, own, true) // for new credentials
	return secret, err
}

// credentialKeyPath returns the path of the generated secret.
func (c *storeConfig) credentialKeyPath() string { return filepath.Join(c.DataDir, credentialKeyFile) }

// generatedSecret returns the secret in the data directory. It generates one if there is none.
func (c *storeConfig) generatedSecret() (auth.Secret, error) {
	path := c.credentialKeyPath()
	for {
		text, err := readBounded(path, maxSecretFile)
		if err == nil {
			secret, err := sign.ParseSecret(text)
			if err != nil {
				return "", fmt.Errorf("%s: %w", path, err)
			}
			return secret, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		if err := os.MkdirAll(c.DataDir, 0o700); err != nil {
			return "", err
		}
		var key [32]byte
		rand.Read(key[:])
		// Link the complete file: another process may read it at once.
		err = writePrivate(path, hex.EncodeToString(key[:])+"\n", os.Link)
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return "", fmt.Errorf("write the key for credentials: %w", err)
		}
	}
}
