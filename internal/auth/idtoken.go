// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"context"
	"crypto/subtle"
	"net/http"
	"slices"
	"strings"

	"github.com/go-jose/go-jose/v4/json"

	"assay"
)

// Endpoints returns where people sign in. It is CodeUnavailable while the provider has
// not been reached, and where it does not sign people in.
func (p *Provider) Endpoints(ctx context.Context) (Endpoints, error) {
	e, err := p.keys.whereabouts(ctx)
	if err != nil {
		return Endpoints{}, err
	}
	if e.Authorization == "" {
		return Endpoints{}, assay.Errorf(assay.CodeUnavailable, "the identity provider does not say where people sign in")
	}
	return e, nil
}

// Client returns the client that the provider is spoken to with.
func (p *Provider) Client() *http.Client { return p.keys.client }

// IDToken is what an ID token says about a user.
type IDToken struct {
	Principal *assay.Principal
	claims    object
}

// VerifyIDToken checks an ID token that was asked for by a client with a nonce. Errors
// are those of VerifyToken.
// Source: OpenID Connect Core 1.0, section 3.1.3.7.
func (p *Provider) VerifyIDToken(ctx context.Context, raw Secret, clientID, nonce string) (*IDToken, error) {
	t, who, err := p.verify(ctx, raw, clientID)
	if err != nil {
		return nil, err
	}
	switch {
	case subtle.ConstantTimeCompare([]byte(t.claims.text("nonce")), []byte(nonce)) != 1 || nonce == "":
		return nil, errToken("it is of another sign-in")
	case !t.claims.has("iat"):
		return nil, errToken("its iat is missing")
	case t.claims.has("azp") && t.claims.text("azp") != clientID, !t.claims.has("azp") && t.claims.manyAudiences():
		return nil, errToken("it was made for another client")
	}
	return &IDToken{Principal: who, claims: t.claims}, nil
}

// maxDisplayName is the longest name for people that is taken over, in bytes.
const maxDisplayName = 200

// Name returns what the provider calls the user, "" for nothing that can be shown.
func (t *IDToken) Name() string {
	for _, claim := range []string{"name", "preferred_username", "email"} {
		if name := strings.TrimSpace(t.claims.text(claim)); isName(name, maxDisplayName) {
			return name
		}
	}
	return ""
}

// Has tells whether a claim is a value, or an array that has it: text, or true and
// false.
func (t *IDToken) Has(claim, value string) bool {
	var one any
	if json.Unmarshal(t.claims[claim], &one) != nil {
		return false
	}
	is := func(v any) bool {
		switch v := v.(type) {
		case string:
			return v == value
		case bool:
			return v && value == "true" || !v && value == "false"
		default:
			return false
		}
	}
	if all, ok := one.([]any); ok {
		return slices.ContainsFunc(all, is)
	}
	return is(one)
}

// manyAudiences tells whether the claim aud is an array of more than one.
func (o object) manyAudiences() bool {
	var all []string
	return json.Unmarshal(o["aud"], &all) == nil && len(all) > 1
}
