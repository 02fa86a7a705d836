// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/base64"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/json" // rejects duplicate members and matches names case-sensitively
)

// algorithms are the accepted signature algorithms: RS256, ES256 and EdDSA and their longer variants. MACs are not
// accepted, so a public key cannot be used as a secret.
var algorithms = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
}

// maxCandidates limits the keys with which the signature of a token is verified. Each takes up to a few milliseconds,
// and anyone can send a token without a key id, which may be signed with any key.
const maxCandidates = 4

// endOfTime is the last second of the year 9999. Later times in a token are invalid.
const endOfTime = 253402300799

// token is a JWT in JWS compact serialization. Its signature is not verified yet.
type token struct {
	signed    *jose.JSONWebSignature
	algorithm jose.SignatureAlgorithm
	keyID     string // "": the header has none
	claims    object
}

// parseToken parses a token and checks its header. It ignores keys in the header (jwk, x5c) and URLs of keys (jku,
// x5u).
func parseToken(s string) (*token, error) {
	parts := strings.Split(s, ".")
	if len(parts) != 3 {
		return nil, errToken("it does not have three parts")
	}
	header, err := decodeObject(parts[0])
	if err != nil {
		return nil, errToken("its header is malformed")
	}
	t := &token{algorithm: jose.SignatureAlgorithm(header.text("alg")), keyID: header.text("kid")}
	switch {
	case !slices.Contains(algorithms, t.algorithm):
		return nil, errToken("its algorithm is not accepted")
	case header.has("crit") || header.has("b64"):
		return nil, errToken("its header asks for an extension")
	case header.has("cty"):
		return nil, errToken("it contains another token")
	case header.has("kid") && t.keyID == "":
		return nil, errToken("its key id is malformed")
	case header.has("typ") && !acceptedType(header.text("typ")):
		return nil, errToken("its type is not accepted")
	}
	if t.claims, err = decodeObject(parts[1]); err != nil {
		return nil, errToken("its claims are malformed")
	}
	if _, err := base64.RawURLEncoding.Strict().DecodeString(parts[2]); err != nil {
		return nil, errToken("its signature is malformed")
	}
	if t.signed, err = jose.ParseSignedCompact(s, algorithms); err != nil {
		return nil, errToken("it is malformed")
	}
	return t, nil
}

// acceptedType reports whether typ is the type of a token for an API: a JWT without a type or an access token.
// Source: RFC 7519, section 5.1, and RFC 9068, section 4.
func acceptedType(typ string) bool {
	switch strings.TrimPrefix(strings.ToLower(typ), "application/") {
	case "jwt", "at+jwt":
		return true
	}
	return false
}

// curves are the curves of the ECDSA algorithms.
var curves = map[jose.SignatureAlgorithm]elliptic.Curve{
	jose.ES256: elliptic.P256(), jose.ES384: elliptic.P384(), jose.ES512: elliptic.P521(),
}

// fits reports whether the key is one for the token's algorithm.
func (t *token) fits(k jose.JSONWebKey) bool {
	if k.Algorithm != "" && k.Algorithm != string(t.algorithm) {
		return false
	}
	switch key := k.Key.(type) {
	case *rsa.PublicKey:
		return strings.HasPrefix(string(t.algorithm), "RS")
	case *ecdsa.PublicKey:
		return key.Curve == curves[t.algorithm]
	case ed25519.PublicKey:
		return t.algorithm == jose.EdDSA
	}
	return false
}

// signedWithOne reports whether one of the first keys that fit made the token's signature.
func (t *token) signedWithOne(keys []jose.JSONWebKey) bool {
	candidates := 0
	for _, k := range keys {
		if !t.fits(k) {
			continue
		}
		if candidates++; candidates > maxCandidates {
			return false
		}
		if _, err := t.signed.Verify(k.Key); err == nil {
			return true
		}
	}
	return false
}

// object holds the members of a JSON object.
type object map[string]json.RawMessage

var errNotObject = errors.New("not a JSON object")

// decodeObject decodes a JSON object in base64url without padding.
func decodeObject(part string) (object, error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(part)
	if err != nil {
		return nil, err
	}
	if !utf8.Valid(b) {
		return nil, errNotObject
	}
	var o object
	if err := json.Unmarshal(b, &o); err != nil {
		return nil, err
	}
	if o == nil { // null
		return nil, errNotObject
	}
	return o, nil
}

func (o object) has(name string) bool {
	_, ok := o[name]
	return ok
}

// text returns a member if it is a string, else "".
func (o object) text(name string) string {
	var s string
	if json.Unmarshal(o[name], &s) != nil {
		return ""
	}
	return s
}

// hasAudience reports whether the claim aud equals the audience or is an array that contains it.
func (o object) hasAudience(audience string) bool {
	if o.text("aud") == audience {
		return true
	}
	var all []string
	return json.Unmarshal(o["aud"], &all) == nil && slices.Contains(all, audience)
}

// checkTimes checks the claims exp, which is required, nbf and iat.
func (o object) checkTimes(now time.Time) error {
	exp, ok := o.time("exp")
	if !ok {
		return errToken("its exp is missing or not a time")
	}
	if !now.Before(exp.Add(leeway)) {
		return errToken("it has expired")
	}
	for _, name := range []string{"nbf", "iat"} {
		if !o.has(name) {
			continue
		}
		from, ok := o.time(name)
		if !ok {
			return errToken("its " + name + " is not a time")
		}
		if now.Before(from.Add(-leeway)) {
			return errToken("it is not valid yet")
		}
	}
	return nil
}

// time returns a member that is a NumericDate: seconds since 1970, with an optional fraction.
// Source: RFC 7519, section 2.
func (o object) time(name string) (time.Time, bool) {
	seconds, err := strconv.ParseFloat(string(o[name]), 64) // a JSON string keeps its quotes
	if err != nil || !(seconds >= 0 && seconds <= endOfTime) {
		return time.Time{}, false
	}
	whole := int64(seconds)
	return time.Unix(whole, int64((seconds-float64(whole))*1e9)), true
}
