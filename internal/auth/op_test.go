// SPDX-License-Identifier: Apache-2.0

package auth_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"sync"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/auth"
	"assay/internal/auth/oidctest"
)

type finder func(externalID string) (*assay.Organization, error)

func (f finder) FindOrganizationByExternalID(_ context.Context, externalID string) (*assay.Organization, error) {
	return f(externalID)
}

// TestRealProvider verifies tokens that a provider issues to users.
func TestRealProvider(t *testing.T) {
	r, err := oidctest.Start()
	require.NoError(t, err)
	t.Cleanup(r.Close)
	start := func(audience string) *auth.Authenticator {
		p, err := auth.NewProvider(auth.ProviderConfig{
			Issuer: r.URL, Audience: audience,
			Organizations: finder(func(externalID string) (*assay.Organization, error) {
				if externalID == "customer-7" {
					return &assay.Organization{ID: "org-7"}, nil
				}
				return nil, assay.Errorf(assay.CodeNotFound, "no such organization")
			}),
		})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { p.Run(ctx) })
		t.Cleanup(func() {
			cancel()
			wg.Wait()
		})
		return &auth.Authenticator{Tokens: p, Prefix: "assay"}
	}
	a := start(oidctest.Client)
	defer a.Close()
	check := func(a *auth.Authenticator, token string) (*assay.Principal, assay.Code) {
		p, err := a.Authenticate(t.Context(), "Bearer "+token, "127.0.0.1:1")
		return p, assay.ErrorCode(err)
	}
	login := func() (access, id string) {
		t.Helper()
		access, id, err := r.Tokens(t.Context())
		require.NoError(t, err)
		return access, id
	}

	access, id := login()
	for _, token := range []string{access, id} {
		p, code := check(a, token)
		require.Empty(t, code)
		require.Equal(t, &assay.Principal{
			OrganizationID: "org-7", Subject: oidctest.Subject, User: true, Scopes: []assay.Scope{assay.ScopeRead, assay.ScopeAgent},
		}, p)
		require.False(t, p.Allows(assay.ScopeIngest), "users send no telemetry")
	}

	// Replace the key with one of another type.
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	r.SetKey("second", jose.ES256, key)
	rotated, _ := login()
	_, code := check(a, rotated)
	require.Empty(t, code)
	_, code = check(a, access)
	require.Equal(t, assay.CodeInvalidToken, code, "of a removed key")

	// Users without an organization or of an unknown one.
	for _, org := range []any{nil, "customer-8", []string{"customer-7"}, 7} {
		r.SetClaim("org_id", org)
		token, _ := login()
		_, code = check(a, token)
		require.Equal(t, assay.CodeForbidden, code, org)
	}

	// A token for another service.
	other := start("another-service")
	defer other.Close()
	_, code = check(other, rotated)
	require.Equal(t, assay.CodeInvalidToken, code)

	// While the provider is unavailable, existing tokens remain valid.
	r.Close()
	_, code = check(a, rotated)
	require.Empty(t, code)
	late := start(oidctest.Client)
	defer late.Close()
	_, code = check(late, rotated)
	require.Equal(t, assay.CodeUnavailable, code)
}
