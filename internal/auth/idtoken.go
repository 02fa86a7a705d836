// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"context"
	"crypto/subtle"
	"net/http"
	"strings"

	"github.com/go-jose/go-jose/v4/json"

	"assay"
)

// Endpoints returns the sign-in endpoints of the provider. It returns CodeUnavailable until the provider has been
// reached, and if the provider has no such endpoints.
func (p *Provider) Endpoints(ctx context.Context) (Endpoints, error) {
	e, err := p.keys.awaitEndpoints(ctx)
	if err != nil {
		return Endpoints{}, err
	}
	if e.Authorization == "" {
		return Endpoints{}, assay.Errorf(assay.CodeUnavailable, "the discovery document of the identity provider has no authorization endpoint")
	}
	return e, nil
}

// Client returns the HTTP client for requests to the provider.
func (p *Provider) Client() *http.Client { return p.keys.client }

// IDToken holds the claims of an ID token.
type IDToken struct {
	Principal *assay.Principal
	claims    object
}

// VerifyIDToken verifies an ID token that the client requested with the nonce. It returns the errors of VerifyToken.
// Source: OpenID Connect Core 1.0, section 3.1.3.7.
func (p *Provider) VerifyIDToken(ctx context.Context, raw Secret, clientID, nonce string) (*IDToken, error) {
	t, principal, err := p.verify(ctx, raw, clientID)
	if err != nil {
		return nil, err
	}
	switch {
	case subtle.ConstantTimeCompare([]byte(t.claims.text("nonce")), []byte(nonce)) != 1 || nonce == "":
		return nil, errToken("its nonce is not that of this sign-in")
	case !t.claims.has("iat"):
		return nil, errToken("its iat is missing")
	case t.claims.has("azp") && t.claims.text("azp") != clientID, !t.claims.has("azp") && t.claims.manyAudiences():
		return nil, errToken("it was issued for another client")
	}
	return &IDToken{Principal: principal, claims: t.claims}, nil
}

// maxDisplayName is the maximum length of a display name, in bytes.
const maxDisplayName = 200

// Name returns the user's display name, or "" if the token has none that can be shown.
func (t *IDToken) Name() string {
	for _, claim := range []string{"name", "preferred_username", "email"} {
		if name := strings.TrimSpace(t.claims.text(claim)); isName(name, maxDisplayName) {
			return name
		}
	}
	return ""
}

// manyAudiences reports whether the claim aud is an array of more than one element.
func (o object) manyAudiences() bool {
	var all []string
	return json.Unmarshal(o["aud"], &all) == nil && len(all) > 1
}
