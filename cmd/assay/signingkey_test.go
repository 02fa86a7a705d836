// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSigningKeyCommands(t *testing.T) {
	dir := t.TempDir()
	assay := func(args ...string) result { return call{}.run(append(args, "--data-dir", dir)...) }
	list := func() []signingKeyRow {
		t.Helper()
		var rows []signingKeyRow
		r := assay("signing-key", "list", "--format", "json")
		require.Zero(t, r.code, r.stderr)
		require.NoError(t, json.Unmarshal([]byte(r.stdout), &rows))
		return rows
	}
	for _, args := range [][]string{{"signing-key", "list"}, {"signing-key", "rotate"}} {
		r := assay(args...)
		require.Equal(t, exitFailed, r.code)
		require.Contains(t, r.stderr, "there is no store at")
	}
	require.Zero(t, assay("store", "migrate").code)
	require.Empty(t, list())

	r := assay("signing-key", "rotate")
	require.Zero(t, r.code, r.stderr)
	rows := list()
	require.Len(t, rows, 1)
	require.Equal(t, "servers sign with the key "+rows[0].ID+" within 10 s\n", r.stderr)
	require.False(t, rows[0].Encrypted)
	require.Nil(t, rows[0].RetiredAt)
	require.Nil(t, rows[0].PublishedUntil)

	secret := file(t, "secret", strings.Repeat("5a", 32)+"\n")
	require.Zero(t, assay("signing-key", "rotate", "--secret-key-file", secret).code)
	first := rows[0].ID
	rows = list()
	require.Len(t, rows, 2)
	require.Equal(t, first, rows[0].ID)
	require.Equal(t, "retired", rows[0].State)
	require.Equal(t, "active", rows[1].State)
	require.True(t, rows[0].Encrypted && rows[1].Encrypted)
	require.Equal(t, rows[1].CreatedAt, rows[0].RetiredAt)
	require.True(t, rows[0].PublishedUntil.Equal(rows[0].RetiredAt.Add(5*time.Minute)))

	table := assay("signing-key", "list").stdout
	require.Regexp(t, `^KID +STATE +ENCRYPTED +CREATED +RETIRED +PUBLISHED UNTIL\n`+rows[0].ID+` +retired +yes +[^-].*\n`+rows[1].ID+` +active +yes +\S+ \S+ +- +-\n$`, table)

	// A missing or wrong secret is an error.
	other := file(t, "other", strings.Repeat("\xa5", 32))
	for _, args := range [][]string{{}, {"--secret-key-file", other}} {
		for _, command := range [][]string{
			{"signing-key", "rotate"},
			{"serve", "--http-address", "127.0.0.1:0", "--otlp-grpc-address", "127.0.0.1:0", "--otlp-http-address", "127.0.0.1:0"},
		} {
			r := assay(append(command, args...)...)
			require.Equal(t, exitUsage, r.code, "a service manager does not start it again")
			require.Contains(t, r.stderr, "--secret-key-file: ")
			require.NotContains(t, r.stderr, "\xa5")
		}
	}
	require.Len(t, list(), 2)
	require.Zero(t, assay("signing-key", "rotate", "--secret-key-file", other, "--replace-secret").code)
	require.Len(t, list(), 3)
}

func TestSecretKeyFile(t *testing.T) {
	raw := "\x00" + strings.Repeat("\xc3", 31)
	for name, c := range map[string]struct {
		path, want string
	}{
		"missing":  {"/does/not/exist", "--secret-key-file: open /does/not/exist"},
		"empty":    {file(t, "secret", ""), "not 32 random bytes"},
		"password": {file(t, "secret", "swordfish swordfish swordfish!!!"), "not 32 random bytes"},
		"short":    {file(t, "secret", hex.EncodeToString([]byte(raw[1:]))), "not 32 random bytes"},
		"large":    {file(t, "secret", strings.Repeat("x", maxSecretFile+1)), "more than"},
	} {
		r := call{}.run("signing-key", "rotate", "--data-dir", t.TempDir(), "--secret-key-file", c.path)
		require.Equal(t, exitUsage, r.code, name)
		require.Contains(t, r.stderr, c.want, name)
		require.NotContains(t, r.stderr, "swordfish", name)
		require.NotContains(t, r.stderr, "c3c3", name)
	}
	for _, content := range []string{raw, hex.EncodeToString([]byte(raw)) + "\n"} {
		got, err := (&secretKeyConfig{SecretKeyFile: file(t, "secret", content)}).secretKey()
		require.NoError(t, err)
		require.Equal(t, raw, string(got))
	}
}
