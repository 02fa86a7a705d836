// SPDX-License-Identifier: Apache-2.0

package codebase

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"assay"
)

// Values of the claim credential: the kind of credential that the caller sent to assay.
const (
	credentialUser = "user"
	credentialKey  = "api_key"
)

const (
	leeway   = 5 * time.Second // between assay's clock and this one
	maxToken = 8 << 10         // bytes
	maxID    = 255             // bytes of an organization's id and of a subject
)

// caller is the caller of a request.
type caller struct {
	organization string
	subject      string
	credential   string
}

// verifier verifies the tokens that assay signs. It checks the signature (EdDSA only, with a key that assay
// publishes), issuer, audience and time.
type verifier struct {
	issuer   string
	audience string
	now      func() time.Time
	keys     *keySet
}

// verify returns the caller of a request. Its errors give the reason and contain no part of the token.
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
	// Accept no other algorithm, neither none nor a MAC, for which a public key could be used as a secret.
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
	// The library does not require these claims to be present.
	if v.issuer == "" || v.audience == "" || claims.Expiry == nil || claims.NotBefore == nil || claims.IssuedAt == nil {
		return caller{}, errToken("a claim that is required is missing")
	}
	if err := claims.ValidateWithLeeway(jwt.Expected{
		Issuer: v.issuer, AnyAudience: jwt.Audience{v.audience}, Time: v.now(),
	}, leeway); err != nil {
		return caller{}, errToken(err.Error()) // a fixed error text of the library
	}
	switch {
	case claims.Subject == "":
		return caller{}, errToken("it has no subject")
	case len(claims.Subject) > maxID:
		return caller{}, errToken("its subject is too long")
	case claims.Organization == "" || len(claims.Organization) > maxID:
		return caller{}, errToken("it names no organization")
	case claims.Credential != credentialUser && claims.Credential != credentialKey:
		return caller{}, errToken("it does not say what the caller's credential is")
	}
	return caller{organization: claims.Organization, subject: claims.Subject, credential: claims.Credential}, nil
}

func errNoToken() error {
	return assay.Errorf(assay.CodeMissingCredentials, "a Bearer token is required")
}

func errToken(reason string) error {
	return assay.Errorf(assay.CodeInvalidToken, "the token is not valid: %s", reason)
}
