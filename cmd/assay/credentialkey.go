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
// no server uses another one. The result is "" for a server without a secret, which rejects new credentials.
func (c *storeConfig) credentialSecret(
	ctx context.Context, st assay.CredentialKeyStore, configured auth.Secret, logger *slog.Logger,
) (auth.Secret, error) {
	u, err := c.postgres()
	if err != nil {
		return "", err
	}
	secret := configured
	if secret == "" {
		secret, err = c.generatedSecret()
	}
	if u == nil {
		return secret, err
	}
	if err != nil { // such as a read-only file system
		logger.WarnContext(ctx, "failed to generate a key for credentials; set --secret-key-file to store credentials", "error", err)
		return "", nil
	}
	own := seal.Fingerprint(secret)
	stored, err := st.ClaimCredentialKey(ctx, own, configured != "")
	if err != nil {
		return "", err
	}
	if stored != own {
		logger.WarnContext(ctx, "another server encrypts the credentials in the store with its own key; set --secret-key-file "+
			"to the same key on all servers, such as the file "+credentialKeyFile+" in its data directory")
		return "", nil
	}
	return secret, nil
}

// generatedSecret returns the secret in the data directory. It generates one if there is none.
func (c *storeConfig) generatedSecret() (auth.Secret, error) {
	path := filepath.Join(c.DataDir, credentialKeyFile)
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
