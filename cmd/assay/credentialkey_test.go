// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/internal/auth"
)

// claims is the fingerprint in a store.
type claims int64

func (c *claims) ClaimCredentialKey(_ context.Context, fingerprint int64, replace bool) (int64, error) {
	if *c == 0 || replace {
		*c = claims(fingerprint)
	}
	return int64(*c), nil
}

// TestCredentialSecret: servers on one PostgreSQL store encrypt with one key, or not at all.
func TestCredentialSecret(t *testing.T) {
	var stored claims
	var log strings.Builder
	secretOf := func(c *storeConfig, configured auth.Secret) auth.Secret {
		t.Helper()
		log.Reset()
		secret, err := c.credentialSecret(t.Context(), &stored, configured, slog.New(slog.NewTextHandler(&log, nil)))
		require.NoError(t, err)
		return secret
	}
	server := func() *storeConfig {
		return &storeConfig{Store: "postgres://assay@127.0.0.1/assay", DataDir: filepath.Join(t.TempDir(), "data")}
	}
	first, second := server(), server()
	generated := secretOf(first, "")
	require.Len(t, string(generated), 32)
	require.Equal(t, generated, secretOf(first, ""), "after a restart")
	require.Empty(t, log.String())
	require.Empty(t, secretOf(second, ""))
	require.Contains(t, log.String(), "--secret-key-file")
	require.Equal(t, generated, secretOf(second, generated), "configured from the file of the first server")

	configured := auth.Secret(strings.Repeat("s", 32))
	require.Equal(t, configured, secretOf(second, configured))
	require.Contains(t, log.String(), "webhooks and source hosts fail", "the generated key encrypted the credentials")
	require.Equal(t, configured, secretOf(second, configured), "after a restart")
	require.Empty(t, log.String())
	require.Empty(t, secretOf(first, ""), "the configured key is that of the operator")

	// A server that cannot write its data directory works without credentials.
	full := server()
	require.NoError(t, os.WriteFile(full.DataDir, nil, 0o600))
	require.Empty(t, secretOf(full, ""))
	require.Contains(t, log.String(), "--secret-key-file")

	// An SQLite store has one data directory. It may be a new one, after a restore.
	sqlite := &storeConfig{Store: storeSQLite, DataDir: t.TempDir()}
	generated = secretOf(sqlite, "")
	require.Len(t, string(generated), 32)
	require.Contains(t, log.String(), "encrypted with another key")
	require.Equal(t, generated, secretOf(sqlite, ""), "after a restart")
	require.Empty(t, log.String())
}
