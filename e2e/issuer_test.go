// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/stretchr/testify/require"
)

const audience = "assay-e2e"

// issuer is a minimal identity provider.
type issuer struct {
	*httptest.Server
	signer jose.Signer
}

func startIssuer(t *testing.T) *issuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	i := new(issuer)
	i.signer, err = jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: "e2e"}}, new(jose.SignerOptions).WithType("JWT"))
	require.NoError(t, err)
	mux := http.NewServeMux()
	i.Server = httptest.NewServer(mux)
	t.Cleanup(i.Close)
	answer := func(path string, v any) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(v) // the client may have disconnected
		})
	}
	answer("/.well-known/openid-configuration", map[string]any{
		"issuer": i.URL, "jwks_uri": i.URL + "/keys", "authorization_endpoint": i.URL + "/authorize", "token_endpoint": i.URL + "/token",
		"response_types_supported": []string{"code"}, "subject_types_supported": []string{"public"}, "id_token_signing_alg_values_supported": []string{"ES256"},
	})
	answer("/keys", jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "e2e", Algorithm: "ES256", Use: "sig"}}})
	return i
}

// flags returns the flags with which a server trusts the provider.
func (i *issuer) flags() []string {
	return []string{"--oidc-issuer", i.URL, "--oidc-audience", audience, "--oidc-admin-claim", "roles", "--oidc-admin-value", administrator}
}

// administrator is the role of users that may manage API keys and webhooks.
const administrator = "assay-administrator"

// token returns a token of a user of the organization with an external id. With "" the user has no
// organization.
func (i *issuer) token(t *testing.T, externalID string, roles ...string) string {
	t.Helper()
	claims := map[string]any{
		"iss": i.URL, "aud": audience, "sub": "user-of-" + externalID,
		"iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(), "roles": roles,
	}
	if externalID != "" {
		claims["org_id"] = externalID
	}
	token, err := jwt.Signed(i.signer).Claims(claims).Serialize()
	require.NoError(t, err)
	return token
}
