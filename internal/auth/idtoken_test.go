// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay"
)

func TestIDToken(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	keys := testKeys()
	p := loadedProvider(t, now, publicSet(t, keys), nil)
	const client, nonce = "dashboard", "n-1"
	verify := func(change map[string]any) (*IDToken, error) {
		t.Helper()
		all := map[string]any{"aud": client, "nonce": nonce}
		for name, value := range change {
			all[name] = value
		}
		return p.VerifyIDToken(t.Context(), Secret(sign(t, keys["ES256"], header("ES256"), claims(now, all))), client, nonce)
	}
	for name, change := range map[string]map[string]any{
		"plain": nil,
		"azp":   {"azp": client},
		"many":  {"aud": []string{"another", client}, "azp": client},
		"one":   {"aud": []string{client}},
	} {
		token, err := verify(change)
		require.NoError(t, err, name)
		require.Equal(t, &assay.Principal{
			OrganizationID: "org-1", Subject: "user-1", User: true, Scopes: []assay.Scope{assay.ScopeRead, assay.ScopeAgent},
		}, token.Principal)
	}
	for name, change := range map[string]map[string]any{
		"no nonce":            {"nonce": nil},
		"empty nonce":         {"nonce": ""},
		"another nonce":       {"nonce": "n-2"},
		"nonce of many":       {"nonce": []string{nonce}},
		"for the API":         {"aud": testAudience},
		"no iat":              {"iat": nil},
		"another party":       {"azp": "another"},
		"azp of another type": {"azp": []string{client}},
		"many without azp":    {"aud": []string{"another", client}},
		"expired":             {"exp": now.Add(-2 * time.Minute).Unix()},
		"another issuer":      {"iss": "https://evil.example.com"},
	} {
		_, err := verify(change)
		require.Equal(t, assay.CodeInvalidToken, assay.ErrorCode(err), "%s: %v", name, err)
	}
	_, err := verify(map[string]any{"org_id": "ext-2"})
	require.Equal(t, assay.CodeForbidden, assay.ErrorCode(err))
	_, err = p.VerifyIDToken(t.Context(), Secret(sign(t, keys["ES256"], header("ES256"), claims(now, map[string]any{"aud": client, "nonce": ""}))), client, "")
	require.Equal(t, assay.CodeInvalidToken, assay.ErrorCode(err), "the request had no nonce")
	_, err = p.VerifyIDToken(t.Context(), Secret(sign(t, nil, `{"alg":"none"}`, claims(now, map[string]any{"aud": client, "nonce": nonce}))), client, nonce)
	require.Equal(t, assay.CodeInvalidToken, assay.ErrorCode(err))
	_, err = p.VerifyToken(t.Context(), Secret(sign(t, keys["ES256"], header("ES256"), claims(now, map[string]any{"aud": client, "nonce": nonce}))))
	require.Equal(t, assay.CodeInvalidToken, assay.ErrorCode(err), "an ID token is no access token for the API")

	long := strings.Repeat("x", maxDisplayName+1)
	for want, change := range map[string]map[string]any{
		"Ada Example":     {"name": " Ada Example ", "email": "ada@example.com"},
		"ada":             {"name": "", "preferred_username": "ada"},
		"ada@example.com": {"name": long, "preferred_username": "a\nb", "email": "ada@example.com"},
		"":                {"name": 7, "email": nil},
	} {
		token, err := verify(change)
		require.NoError(t, err)
		require.Equal(t, want, token.Name())
	}
}
