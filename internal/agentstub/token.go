// SPDX-License-Identifier: Apache-2.0

package agentstub

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// Values of the claim credential: what the caller showed to assay.
const (
	credentialUser = "user"
	credentialKey  = "api_key"
)

const (
	leeway   = 5 * time.Second // between assay's clock and this one
	maxToken = 8 << 10         // bytes
	maxID    = 255             // bytes of an organization's id
)

// caller is on whose behalf a request is made.
type caller struct {
	organization string
	credential   string
}

// verifier verifies the tokens that assay signs: EdDSA alone, by a key that assay
// publishes, from the issuer, for the audience and at this time.
type verifier struct {
	issuer   string
	audience string
	now      func() time.Time
	keys     *keySet
}

// verify returns the caller of a request. Its errors say what is wrong with the token
// and hold no part of it.
func (v *verifier) verify(ctx context.Context, h http.Header) (caller, error) {
	fields := h.Values("Authorization")
	if len(fields) != 1 {
		return caller{}, errNoToken()
	}
	scheme, text, ok := strings.Cut(fields[0], " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return caller{}, errNoToken()
	}
	if len(text) > maxToken {
		return caller{}, errToken("it is too long")
	}
	// No other algorithm is understood: not none, and no MAC, for which a public key
	// could be taken for a secret.
	token, err := jwt.ParseSigned(text, []jose.SignatureAlgorithm{jose.EdDSA})
	if err != nil || len(token.Headers) != 1 {
		return caller{}, errToken("it is not a JWT that is signed with EdDSA")
	}
	key, err := v.keys.find(ctx, token.Headers[0].KeyID)
	if err != nil {
		return caller{}, err
	}
	var claims struct {
		jwt.Claims
		Organization string `json:"org_id"`
		Credential   string `json:"credential"`
	}
	if token.Claims(key, &claims) != nil {
		return caller{}, errToken("its signature or its claims are not valid")
	}
	// The library does not look at what is not there.
	if v.issuer == "" || v.audience == "" || claims.Expiry == nil || claims.NotBefore == nil || claims.IssuedAt == nil {
		return caller{}, errToken("a claim that is required is missing")
	}
	if err := claims.ValidateWithLeeway(jwt.Expected{
		Issuer: v.issuer, AnyAudience: jwt.Audience{v.audience}, Time: v.now(),
	}, leeway); err != nil {
		return caller{}, errToken(err.Error()) // one of the fixed errors of the library
	}
	switch {
	case claims.Subject == "":
		return caller{}, errToken("it has no subject")
	case claims.Organization == "" || len(claims.Organization) > maxID:
		return caller{}, errToken("it names no organization")
	case claims.Credential != credentialUser && claims.Credential != credentialKey:
		return caller{}, errToken("it does not say what the caller's credential is")
	}
	return caller{organization: claims.Organization, credential: claims.Credential}, nil
}

func errNoToken() error {
	return &refusal{status: http.StatusUnauthorized, code: "MISSING_CREDENTIALS", message: "a Bearer token is required"}
}

func errToken(reason string) error {
	return refuse(http.StatusUnauthorized, "the token is not valid: "+reason)
}
