// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/fair"
)

const (
	testIssuer   = "https://id.example.com/realm"
	testAudience = "assay"
)

// testKeys are private keys by the algorithm that they sign with.
var testKeys = sync.OnceValue(func() map[string]crypto.Signer {
	keys := map[string]crypto.Signer{}
	for _, alg := range []string{"RS256", "other"} {
		key, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			panic(err)
		}
		keys[alg] = key
	}
	keys["RS384"], keys["RS512"], keys["PS256"] = keys["RS256"], keys["RS256"], keys["RS256"]
	for alg, curve := range map[string]elliptic.Curve{"ES256": elliptic.P256(), "ES384": elliptic.P384(), "ES512": elliptic.P521()} {
		key, err := ecdsa.GenerateKey(curve, rand.Reader)
		if err != nil {
			panic(err)
		}
		keys[alg] = key
	}
	_, keys["EdDSA"], _ = ed25519.GenerateKey(rand.Reader)
	return keys
})

// sign creates a token according to RFC 7515, without the library that reads it. key is a crypto.Signer, the
// secret of a MAC, or nil for no signature.
func sign(t testing.TB, key any, header, claims string) string {
	t.Helper()
	encode := base64.RawURLEncoding.EncodeToString
	input := encode([]byte(header)) + "." + encode([]byte(claims))
	var named struct{ Alg string }
	_ = json.Unmarshal([]byte(header), &named) // headers that are no JSON come with any signature
	hash := crypto.SHA256
	switch {
	case strings.HasSuffix(named.Alg, "384"):
		hash = crypto.SHA384
	case strings.HasSuffix(named.Alg, "512"):
		hash = crypto.SHA512
	}
	h := hash.New()
	h.Write([]byte(input))
	var signature []byte
	var err error
	switch key := key.(type) {
	case nil:
	case []byte:
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(input))
		signature = mac.Sum(nil)
	case *rsa.PrivateKey:
		if strings.HasPrefix(named.Alg, "PS") {
			signature, err = rsa.SignPSS(rand.Reader, key, hash, h.Sum(nil), nil)
		} else {
			signature, err = rsa.SignPKCS1v15(nil, key, hash, h.Sum(nil))
		}
	case *ecdsa.PrivateKey:
		r, s, signErr := ecdsa.Sign(rand.Reader, key, h.Sum(nil))
		require.NoError(t, signErr)
		size := (key.Params().BitSize + 7) / 8
		signature = append(r.FillBytes(make([]byte, size)), s.FillBytes(make([]byte, size))...)
	case ed25519.PrivateKey:
		signature = ed25519.Sign(key, []byte(input))
	}
	require.NoError(t, err)
	return input + "." + encode(signature)
}

// header returns the header of a token for an algorithm. The key id is the name of the algorithm.
func header(alg string) string { return fmt.Sprintf(`{"alg":%q,"typ":"JWT","kid":%q}`, alg, alg) }

// claims returns the claims of a valid token with changes. A nil value removes a claim.
func claims(now time.Time, change map[string]any) string {
	all := map[string]any{
		"iss": testIssuer, "aud": testAudience, "sub": "user-1", "org_id": "ext-1",
		"iat": now.Add(-time.Minute).Unix(), "exp": now.Add(time.Hour).Unix(),
	}
	maps.Copy(all, change)
	maps.DeleteFunc(all, func(_ string, v any) bool { return v == nil })
	b, _ := json.Marshal(all) // only maps and numbers: cannot fail
	return string(b)
}

// publicSet returns the JSON Web Keys of the private keys, each with its name as id.
func publicSet(t testing.TB, keys map[string]crypto.Signer) []json.RawMessage {
	t.Helper()
	var all []json.RawMessage
	for id, key := range keys {
		b, err := (&jose.JSONWebKey{Key: key.Public(), KeyID: id, Use: "sig"}).MarshalJSON()
		require.NoError(t, err)
		all = append(all, b)
	}
	return all
}

// finder is an OrganizationFinder of a function.
type finder func(externalID string) (*assay.Organization, error)

func (f finder) FindOrganizationByExternalID(_ context.Context, externalID string) (*assay.Organization, error) {
	return f(externalID)
}

// organizations finds the organization org-1 by ext-1.
func organizations(externalID string) (*assay.Organization, error) {
	if externalID != "ext-1" {
		return nil, assay.Errorf(assay.CodeNotFound, "no such organization")
	}
	return &assay.Organization{ID: "org-1", ExternalID: externalID}, nil
}

// loadedProvider returns a Provider that has loaded its keys and does not fetch others.
func loadedProvider(t testing.TB, now time.Time, keys []json.RawMessage, change func(*ProviderConfig)) *Provider {
	t.Helper()
	cfg := ProviderConfig{
		Issuer: testIssuer, Audience: testAudience, Organizations: finder(organizations),
		Now: func() time.Time { return now },
	}
	if change != nil {
		change(&cfg)
	}
	p, err := NewProvider(cfg)
	require.NoError(t, err)
	p.keys.begin()
	p.keys.end(usableKeys(keys), Endpoints{}, nil)
	p.keys.asked = now
	return p
}

func TestVerifyToken(t *testing.T) {
	now := time.Now()
	keys := testKeys()
	p := loadedProvider(t, now, publicSet(t, keys), nil)
	rs := keys["RS256"]
	ago := func(d time.Duration) any { return now.Add(-d).Unix() }

	good := map[string]string{
		"aud in an array":          sign(t, rs, header("RS256"), claims(now, map[string]any{"aud": []string{"other", testAudience}})),
		"expired 59 s ago":         sign(t, rs, header("RS256"), claims(now, map[string]any{"exp": ago(59 * time.Second)})),
		"exp with a fraction":      sign(t, rs, header("RS256"), claims(now, map[string]any{"exp": float64(now.Unix()) + 0.5})),
		"nbf in 59 s":              sign(t, rs, header("RS256"), claims(now, map[string]any{"nbf": ago(-59 * time.Second)})),
		"iat in 59 s":              sign(t, rs, header("RS256"), claims(now, map[string]any{"iat": ago(-59 * time.Second)})),
		"no iat":                   sign(t, rs, header("RS256"), claims(now, map[string]any{"iat": nil})),
		"no typ":                   sign(t, rs, `{"alg":"RS256","kid":"RS256"}`, claims(now, nil)),
		"access token":             sign(t, rs, `{"alg":"RS256","kid":"RS256","typ":"at+jwt"}`, claims(now, nil)),
		"access token, written so": sign(t, rs, `{"alg":"RS256","kid":"RS256","typ":"application/AT+JWT"}`, claims(now, nil)),
		"no kid":                   sign(t, keys["ES384"], `{"alg":"ES384"}`, claims(now, nil)),
		"jku that is not followed": sign(t, rs, `{"alg":"RS256","kid":"RS256","jku":"https://attacker.example.com/keys"}`, claims(now, nil)),
		"subject of 255 bytes":     sign(t, rs, header("RS256"), claims(now, map[string]any{"sub": strings.Repeat("s", 255)})),
		"claims nobody asked for":  sign(t, rs, header("RS256"), claims(now, map[string]any{"email": "x@example.com", "roles": []any{1, map[string]any{"a": nil}}})),
	}
	for _, alg := range []string{"RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "EdDSA"} {
		good[alg] = sign(t, keys[alg], header(alg), claims(now, nil))
	}
	for name, token := range good {
		t.Run(name, func(t *testing.T) {
			principal, err := p.VerifyToken(t.Context(), Secret(token))
			require.NoError(t, err)
			require.Equal(t, "org-1", principal.OrganizationID)
			require.True(t, principal.User)
			require.Equal(t, []assay.Scope{assay.ScopeRead, assay.ScopeAgent}, principal.Scopes)
			if !strings.Contains(name, "255") {
				require.Equal(t, "user-1", principal.Subject)
			}
		})
	}
}

func TestVerifyTokenRefuses(t *testing.T) {
	now := time.Now()
	keys := testKeys()
	p := loadedProvider(t, now, publicSet(t, keys), nil)
	rs := keys["RS256"]
	good := sign(t, rs, header("RS256"), claims(now, nil))
	parts := strings.Split(good, ".")
	der, err := x509.MarshalPKIXPublicKey(rs.Public())
	require.NoError(t, err)
	attacker, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	embedded, err := (&jose.JSONWebKey{Key: attacker.Public(), KeyID: "ES256"}).MarshalJSON()
	require.NoError(t, err)
	with := func(change map[string]any) string { return sign(t, rs, header("RS256"), claims(now, change)) }
	headed := func(h string) string { return sign(t, rs, h, claims(now, nil)) }
	claimed := func(c string) string { return sign(t, rs, header("RS256"), c) }
	at := func(d time.Duration) int64 { return now.Add(d).Unix() }

	for name, c := range map[string]struct {
		token  string
		code   assay.Code
		reason string
	}{
		// The signature.
		"unsigned":                      {sign(t, nil, `{"alg":"none"}`, claims(now, nil)), assay.CodeInvalidToken, "algorithm"},
		"unsigned, written so":          {sign(t, nil, `{"alg":"NoNe","kid":"RS256"}`, claims(now, nil)), assay.CodeInvalidToken, "algorithm"},
		"no algorithm":                  {headed(`{"kid":"RS256"}`), assay.CodeInvalidToken, "algorithm"},
		"MAC with the public key":       {sign(t, der, `{"alg":"HS256","kid":"RS256"}`, claims(now, nil)), assay.CodeInvalidToken, "algorithm"},
		"PS256":                         {sign(t, keys["PS256"], header("PS256"), claims(now, nil)), assay.CodeInvalidToken, "algorithm"},
		"algorithm in lower case":       {headed(`{"alg":"rs256","kid":"RS256"}`), assay.CodeInvalidToken, "algorithm"},
		"algorithm of another type":     {headed(`{"alg":["RS256"],"kid":"RS256"}`), assay.CodeInvalidToken, "algorithm"},
		"no signature":                  {parts[0] + "." + parts[1] + ".", assay.CodeInvalidToken, "signature does not match"},
		"signature of another token":    {parts[0] + "." + parts[1] + with(map[string]any{"sub": "x"})[strings.LastIndexByte(with(map[string]any{"sub": "x"}), '.'):], assay.CodeInvalidToken, "signature does not match"},
		"claims changed":                {parts[0] + "." + strings.Split(with(map[string]any{"sub": "admin"}), ".")[1] + "." + parts[2], assay.CodeInvalidToken, "signature does not match"},
		"key of another kind":           {sign(t, keys["ES256"], `{"alg":"ES256","kid":"RS256"}`, claims(now, nil)), assay.CodeInvalidToken, "signature does not match"},
		"algorithm of another kind":     {sign(t, rs, `{"alg":"ES256","kid":"RS256"}`, claims(now, nil)), assay.CodeInvalidToken, "signature does not match"},
		"P-256 with ES384":              {sign(t, keys["ES256"], `{"alg":"ES384","kid":"ES256"}`, claims(now, nil)), assay.CodeInvalidToken, "signature does not match"},
		"unknown key":                   {sign(t, attacker, `{"alg":"ES256","kid":"attacker"}`, claims(now, nil)), assay.CodeInvalidToken, "not the provider's"},
		"key id that is a path":         {sign(t, attacker, `{"alg":"ES256","kid":"../../dev/null"}`, claims(now, nil)), assay.CodeInvalidToken, "not the provider's"},
		"no key id and a strange key":   {sign(t, attacker, `{"alg":"ES256"}`, claims(now, nil)), assay.CodeInvalidToken, "not the provider's"},
		"embedded key":                  {sign(t, attacker, `{"alg":"ES256","jwk":`+string(embedded)+`}`, claims(now, nil)), assay.CodeInvalidToken, "not the provider's"},
		"embedded key with a known id":  {sign(t, attacker, `{"alg":"ES256","kid":"ES256","jwk":`+string(embedded)+`}`, claims(now, nil)), assay.CodeInvalidToken, "signature does not match"},
		"addresses of the attacker":     {sign(t, attacker, `{"alg":"ES256","jku":"https://attacker.example.com/","x5u":"https://attacker.example.com/"}`, claims(now, nil)), assay.CodeInvalidToken, "not the provider's"},
		"signature with a bit too much": {good[:len(good)-1] + lastWithSpareBits(good), assay.CodeInvalidToken, "signature is malformed"},
		"signature with padding":        {good + "==", assay.CodeInvalidToken, "signature is malformed"},

		// The header.
		"extension":              {headed(`{"alg":"RS256","kid":"RS256","crit":["exp"]}`), assay.CodeInvalidToken, "extension"},
		"payload not encoded":    {headed(`{"alg":"RS256","kid":"RS256","b64":false}`), assay.CodeInvalidToken, "extension"},
		"nested token":           {headed(`{"alg":"RS256","kid":"RS256","cty":"JWT"}`), assay.CodeInvalidToken, "another token"},
		"logout token":           {headed(`{"alg":"RS256","kid":"RS256","typ":"logout+jwt"}`), assay.CodeInvalidToken, "type"},
		"type of another type":   {headed(`{"alg":"RS256","kid":"RS256","typ":7}`), assay.CodeInvalidToken, "type"},
		"key id of another type": {headed(`{"alg":"RS256","kid":{}}`), assay.CodeInvalidToken, "key id"},
		"two algorithms":         {headed(`{"alg":"RS256","alg":"none","kid":"RS256"}`), assay.CodeInvalidToken, "header is malformed"},
		"header not JSON":        {headed(`alg: RS256`), assay.CodeInvalidToken, "header is malformed"},
		"header null":            {headed(`null`), assay.CodeInvalidToken, "header is malformed"},
		"header an array":        {headed(`["RS256"]`), assay.CodeInvalidToken, "header is malformed"},
		"header not UTF-8":       {headed("{\"alg\":\"RS256\",\"x\":\"\xff\"}"), assay.CodeInvalidToken, "header is malformed"},
		"encrypted":              {headed(`{"alg":"RSA-OAEP","enc":"A256GCM"}`), assay.CodeInvalidToken, "algorithm"},
		"encrypted, in five":     {good + ".a.b", assay.CodeInvalidToken, "three parts"},
		"empty":                  {"", assay.CodeInvalidToken, "three parts"},
		"empty parts":            {"..", assay.CodeInvalidToken, "header is malformed"},
		"space":                  {" " + good, assay.CodeInvalidToken, "header is malformed"},
		"other base64":           {base64.StdEncoding.EncodeToString([]byte(`{"alg":"RS256","kid":"??>"}`)) + "." + parts[1] + "." + parts[2], assay.CodeInvalidToken, "header is malformed"},

		// The claims.
		"claims not JSON":        {claimed(`iss`), assay.CodeInvalidToken, "claims are malformed"},
		"claims null":            {claimed(`null`), assay.CodeInvalidToken, "claims are malformed"},
		"claims twice":           {claimed(claims(now, nil)[:len(claims(now, nil))-1] + `,"sub":"admin"}`), assay.CodeInvalidToken, "claims are malformed"},
		"something after claims": {claimed(claims(now, nil) + `{}`), assay.CodeInvalidToken, "claims are malformed"},
		"deep":                   {claimed(`{"iss":` + strings.Repeat(`[`, 4000) + strings.Repeat(`]`, 4000) + `}`), assay.CodeInvalidToken, "issuer"},
		"deeper than it ends":    {claimed(`{"iss":` + strings.Repeat(`{"a":`, 2000)), assay.CodeInvalidToken, "claims are malformed"},
		"other issuer":           {with(map[string]any{"iss": "https://id.example.com/other"}), assay.CodeInvalidToken, "issuer"},
		"issuer with a slash":    {with(map[string]any{"iss": testIssuer + "/"}), assay.CodeInvalidToken, "issuer"},
		"issuer in an array":     {with(map[string]any{"iss": []string{testIssuer}}), assay.CodeInvalidToken, "issuer"},
		"issuer in upper case":   {claimed(strings.Replace(claims(now, nil), `"iss"`, `"ISS"`, 1)), assay.CodeInvalidToken, "issuer"},
		"no issuer":              {with(map[string]any{"iss": nil}), assay.CodeInvalidToken, "issuer"},
		"other audience":         {with(map[string]any{"aud": "other"}), assay.CodeInvalidToken, "audience"},
		"other audiences":        {with(map[string]any{"aud": []string{"other", testAudience + "2"}}), assay.CodeInvalidToken, "audience"},
		"audience a number":      {with(map[string]any{"aud": []any{testAudience, 1}}), assay.CodeInvalidToken, "audience"},
		"no audience":            {with(map[string]any{"aud": nil}), assay.CodeInvalidToken, "audience"},
		"empty audience":         {with(map[string]any{"aud": ""}), assay.CodeInvalidToken, "audience"},
		"expired 61 s ago":       {with(map[string]any{"exp": at(-61 * time.Second)}), assay.CodeInvalidToken, "expired"},
		"no exp":                 {with(map[string]any{"exp": nil}), assay.CodeInvalidToken, "exp"},
		"exp null":               {claimed(strings.Replace(claims(now, map[string]any{"exp": 0}), `"exp":0`, `"exp":null`, 1)), assay.CodeInvalidToken, "exp"},
		"exp a string":           {with(map[string]any{"exp": fmt.Sprint(at(time.Hour))}), assay.CodeInvalidToken, "exp"},
		"exp negative":           {with(map[string]any{"exp": -1}), assay.CodeInvalidToken, "exp"},
		"exp huge":               {with(map[string]any{"exp": json.Number("1e300")}), assay.CodeInvalidToken, "exp"},
		"exp past all":           {with(map[string]any{"exp": json.Number("1" + strings.Repeat("0", 400))}), assay.CodeInvalidToken, "exp"},
		"exp in milliseconds":    {with(map[string]any{"exp": now.Add(time.Hour).UnixMilli()}), assay.CodeInvalidToken, "exp"},
		"exp true":               {with(map[string]any{"exp": true}), assay.CodeInvalidToken, "exp"},
		"nbf in 61 s":            {with(map[string]any{"nbf": at(62 * time.Second)}), assay.CodeInvalidToken, "not valid yet"},
		"iat in 61 s":            {with(map[string]any{"iat": at(62 * time.Second)}), assay.CodeInvalidToken, "not valid yet"},
		"nbf a string":           {with(map[string]any{"nbf": "1"}), assay.CodeInvalidToken, "nbf"},
		"no subject":             {with(map[string]any{"sub": nil}), assay.CodeInvalidToken, "subject"},
		"empty subject":          {with(map[string]any{"sub": ""}), assay.CodeInvalidToken, "subject"},
		"subject a number":       {with(map[string]any{"sub": 1}), assay.CodeInvalidToken, "subject"},
		"subject with NUL":       {with(map[string]any{"sub": "user\x00"}), assay.CodeInvalidToken, "subject"},
		"long subject":           {with(map[string]any{"sub": strings.Repeat("s", 256)}), assay.CodeInvalidToken, "subject"},

		// The organization.
		"no organization":          {with(map[string]any{"org_id": nil}), assay.CodeForbidden, "names no organization"},
		"empty organization":       {with(map[string]any{"org_id": ""}), assay.CodeForbidden, "names no organization"},
		"organization an array":    {with(map[string]any{"org_id": []string{"ext-1"}}), assay.CodeForbidden, "names no organization"},
		"organization a number":    {with(map[string]any{"org_id": 1}), assay.CodeForbidden, "names no organization"},
		"long organization":        {with(map[string]any{"org_id": strings.Repeat("o", 256)}), assay.CodeForbidden, "names no organization"},
		"organization with NUL":    {with(map[string]any{"org_id": "ext-1\x00"}), assay.CodeForbidden, "names no organization"},
		"unknown organization":     {with(map[string]any{"org_id": "ext-2"}), assay.CodeForbidden, "not known here"},
		"our id of the org":        {with(map[string]any{"org_id": "org-1"}), assay.CodeForbidden, "not known here"},
		"unsigned and no organiz.": {sign(t, attacker, `{"alg":"ES256","kid":"ES256"}`, claims(now, map[string]any{"org_id": nil})), assay.CodeInvalidToken, "signature does not match"},
	} {
		t.Run(name, func(t *testing.T) {
			principal, err := p.VerifyToken(t.Context(), Secret(c.token))
			require.Nil(t, principal)
			require.Equal(t, c.code, assay.ErrorCode(err), "%v", err)
			require.ErrorContains(t, err, c.reason)
		})
	}

	// Headers beyond the maximum size are rejected without parsing.
	a := &Authenticator{Tokens: p}
	defer a.Close()
	_, err = a.Authenticate(t.Context(), "Bearer "+with(map[string]any{"x": strings.Repeat("x", maxHeader)}), "")
	require.Equal(t, assay.CodeInvalidAPIKey, assay.ErrorCode(err))
	_, err = a.Authenticate(t.Context(), "Bearer "+good, "")
	require.NoError(t, err)
}

// lastWithSpareBits returns the token with another last letter that decodes to the same bytes in a lenient
// decoder: the last four of its six bits are unused.
func lastWithSpareBits(token string) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	return string(alphabet[strings.IndexByte(alphabet, token[len(token)-1])+1])
}

func TestOrganizationOfAToken(t *testing.T) {
	now := time.Now()
	keys := testKeys()
	var asked []string
	answer := assay.Organization{ID: "org-1"}
	var failure error
	p := loadedProvider(t, now, publicSet(t, keys), func(cfg *ProviderConfig) {
		cfg.OrganizationClaim = "https://example.com/organization"
		cfg.Now = func() time.Time { return now }
		cfg.Organizations = finder(func(externalID string) (*assay.Organization, error) {
			asked = append(asked, externalID)
			if failure != nil {
				return nil, failure
			}
			return &answer, nil
		})
	})
	token := Secret(sign(t, keys["ES256"], header("ES256"), claims(now, map[string]any{
		"org_id": "ext-2", "https://example.com/organization": "ext-1",
	})))
	check := func(want string, code assay.Code, lookups int) {
		t.Helper()
		principal, err := p.VerifyToken(t.Context(), token)
		require.Equal(t, code, assay.ErrorCode(err))
		if code == "" {
			require.Equal(t, want, principal.OrganizationID)
		}
		require.Len(t, asked, lookups)
	}
	check("org-1", "", 1)
	answer.ID = "org-2"
	now = now.Add(cacheTTL - 1)
	check("org-1", "", 1)
	now = now.Add(1)
	check("org-2", "", 2)

	failure = errors.New("dial tcp: connection refused")
	check("org-2", "", 2)
	now = now.Add(cacheTTL)
	check("", assay.CodeUnavailable, 3)
	check("", assay.CodeUnavailable, 4)

	failure = assay.Errorf(assay.CodeNotFound, "no such organization")
	check("", assay.CodeForbidden, 5)
	failure = nil
	check("", assay.CodeForbidden, 5)
	now = now.Add(cacheTTL)
	check("org-2", "", 6)
	for _, externalID := range asked {
		require.Equal(t, "ext-1", externalID)
	}
}

// TestRequestsShareAnOrganization checks that concurrent requests share the lookup of an organization, which continues
// when one of them ends.
func TestRequestsShareAnOrganization(t *testing.T) {
	keys := testKeys()
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		asked := 0
		p := loadedProvider(t, now, publicSet(t, keys), func(cfg *ProviderConfig) {
			cfg.Organizations = finder(func(externalID string) (*assay.Organization, error) {
				asked++
				time.Sleep(time.Second)
				return organizations(externalID)
			})
		})
		token := Secret(sign(t, keys["EdDSA"], header("EdDSA"), claims(now, nil)))
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			if _, err := p.VerifyToken(ctx, token); assay.ErrorCode(err) != assay.CodeUnavailable {
				t.Error(err)
			}
		})
		synctest.Wait()
		for range 100 {
			all.Go(func() {
				if _, err := p.VerifyToken(t.Context(), token); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		cancel()
		all.Wait()
		require.Equal(t, 1, asked)
	})
}

func TestKeysWithOneID(t *testing.T) {
	now := time.Now()
	keys := testKeys()
	var set []json.RawMessage
	for _, name := range []string{"ES256", "other", "RS256", "EdDSA"} {
		set = append(set, publicSet(t, map[string]crypto.Signer{"same": keys[name]})...)
	}
	p := loadedProvider(t, now, set, nil)
	for _, alg := range []string{"RS256", "ES256", "EdDSA"} {
		_, err := p.VerifyToken(t.Context(), Secret(sign(t, keys[alg], `{"alg":"`+alg+`","kid":"same"}`, claims(now, nil))))
		require.NoError(t, err, alg)
	}
	_, err := p.VerifyToken(t.Context(), Secret(sign(t, keys["ES384"], `{"alg":"ES384","kid":"same"}`, claims(now, nil))))
	require.Equal(t, assay.CodeInvalidToken, assay.ErrorCode(err))
}

// TestCandidates: anyone can send a token without a key id. It is compared with a few keys of its algorithm, once for
// each fetch.
func TestCandidates(t *testing.T) {
	now := time.Now()
	keys := testKeys()
	var set []json.RawMessage
	public := func(key crypto.Signer) json.RawMessage {
		return publicSet(t, map[string]crypto.Signer{"": key})[0]
	}
	for range 10 {
		set = append(set, public(keys["RS256"]), public(keys["ES384"]), public(keys["ES512"]), public(keys["EdDSA"]))
	}
	others := make([]json.RawMessage, maxCandidates)
	for i := range others {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		require.NoError(t, err)
		others[i] = public(key)
	}
	right := public(keys["ES256"])
	token := Secret(sign(t, keys["ES256"], `{"alg":"ES256"}`, claims(now, nil)))
	check := func(want assay.Code, set ...json.RawMessage) {
		t.Helper()
		require.Equal(t, want, verify(t, loadedProvider(t, now, set, nil), token))
	}
	check("", append(slices.Clone(set), right)...)
	check("", append(slices.Concat(set, others[1:]), right)...)
	check(assay.CodeInvalidToken, append(slices.Concat(set, others), right)...)

	for fetches, want := range map[int]assay.Code{0: assay.CodeInvalidToken, 1: ""} {
		p := loadedProvider(t, now, set, nil)
		p.keys.now = func() time.Time { // renew asks for the time after the first comparison
			p.keys.keys = usableKeys([]json.RawMessage{right})
			p.keys.fetches += fetches
			return now
		}
		require.Equal(t, want, verify(t, p, token), "%d fetches since", fetches)
	}
}

// TestForgedTokensTakeTurns: tokens whose signature is not known wait for each other but not for pages, and tokens
// in use for none.
func TestForgedTokensTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cpu, start := fair.NewSemaphore(2, 1), time.Now()
		keys := testKeys()
		set := publicSet(t, map[string]crypto.Signer{"ES384": keys["ES384"]})
		p := loadedProvider(t, start, set, func(c *ProviderConfig) { c.CPU, c.Now = cpu, time.Now })
		fetched := func(set []json.RawMessage) {
			p.keys.begin()
			p.keys.end(usableKeys(set), Endpoints{}, nil)
		}
		issue := func(change map[string]any) Secret {
			return Secret(sign(t, keys["ES384"], header("ES384"), claims(start, change)))
		}
		check := func(want assay.Code, wait time.Duration, token Secret) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			began := time.Now()
			_, err := p.VerifyToken(ctx, token)
			require.Equal(t, want, assay.ErrorCode(err))
			require.Equal(t, wait, time.Since(began))
		}
		used, fresh := issue(nil), issue(map[string]any{"sub": "user-2"})
		forged := used[:len(used)-4] + "AAAA"
		check("", 0, used)
		check(assay.CodeInvalidToken, 0, forged)
		require.NoError(t, cpu.Acquire(t.Context(), assay.Anonymous)) // a page without a session
		check("", 0, issue(map[string]any{"sub": "user-3"}))
		cpu.Release(assay.Anonymous)
		require.NoError(t, cpu.Acquire(t.Context(), signatures))
		check("", 0, used)
		for _, token := range []Secret{forged, fresh} {
			check(assay.CodeUnavailable, time.Second, token)
		}
		for name, value := range map[string]any{
			"iss": "https://other.example.com", "aud": "other", "exp": start.Add(-time.Hour).Unix(), "nbf": start.Add(time.Hour).Unix(),
		} {
			check(assay.CodeInvalidToken, 0, issue(map[string]any{name: value}))
		}
		fetched(set)
		check("", 0, used)
		fetched(publicSet(t, map[string]crypto.Signer{"ES384": keys["ES384"], "RS256": keys["RS256"]}))
		check(assay.CodeUnavailable, time.Second, used)
		cpu.Release(signatures)
		for range 3 {
			check("", 0, used)
			check("", 0, fresh)
			check(assay.CodeInvalidToken, 0, forged)
		}
		fetched(publicSet(t, map[string]crypto.Signer{"ES384": keys["ES256"]}))
		check(assay.CodeInvalidToken, 0, used)
		fetched(set)
		check("", 0, used)
		<-time.After(2 * time.Hour)
		check(assay.CodeInvalidToken, 0, used)
	})
}

func TestNewProviderRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*ProviderConfig)
		want   string
	}{
		"no issuer":        {func(c *ProviderConfig) { c.Issuer = "" }, "https://"},
		"no scheme":        {func(c *ProviderConfig) { c.Issuer = "id.example.com" }, "https://"},
		"file":             {func(c *ProviderConfig) { c.Issuer = "file:///etc/passwd" }, "https://"},
		"no host":          {func(c *ProviderConfig) { c.Issuer = "https:///realm" }, "host"},
		"not a URL":        {func(c *ProviderConfig) { c.Issuer = "https://user:hunter2@id.example.com:x/" }, "URL"},
		"with a password":  {func(c *ProviderConfig) { c.Issuer = "https://user:hunter2@id.example.com" }, "user"},
		"with a query":     {func(c *ProviderConfig) { c.Issuer += "?a=b" }, "query"},
		"with a fragment":  {func(c *ProviderConfig) { c.Issuer += "#a" }, "fragment"},
		"no audience":      {func(c *ProviderConfig) { c.Audience = "" }, "audience"},
		"no organizations": {func(c *ProviderConfig) { c.Organizations = nil }, "Organizations"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := ProviderConfig{Issuer: testIssuer, Audience: testAudience, Organizations: finder(organizations)}
			c.change(&cfg)
			_, err := NewProvider(cfg)
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), "hunter2")
		})
	}
}

// FuzzVerifyToken checks that only tokens signed with the provider's key are accepted.
func FuzzVerifyToken(f *testing.F) {
	now := time.Unix(1_800_000_000, 0)
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	p := loadedProvider(f, now, publicSet(f, map[string]crypto.Signer{"EdDSA": key}), nil)
	good := sign(f, key, header("EdDSA"), claims(now, nil))
	for _, token := range []string{
		good, good[:len(good)-1], good + ".", strings.Replace(good, ".", "..", 1), "a.b.c", "..", "",
		sign(f, nil, `{"alg":"none"}`, claims(now, nil)),
		sign(f, key, `{"alg":"EdDSA"}`, claims(now, map[string]any{"aud": []string{"x", testAudience}, "exp": 1e12})),
		sign(f, key, `{"alg":"EdDSA","crit":[],"jwk":{"kty":"EC"}}`, `{"exp":-0.5e-3,"exp":null}`),
		sign(f, []byte("secret"), `{"alg":"HS256","x5c":["AA=="]}`, claims(now, nil)),
	} {
		f.Add(token)
	}
	f.Fuzz(func(t *testing.T, token string) {
		principal, err := p.VerifyToken(t.Context(), Secret(token))
		if (principal == nil) == (err == nil) {
			t.Fatalf("principal %v, error %v", principal, err)
		}
		if err == nil && token != good {
			t.Fatalf("accepted %q", token)
		}
		if code := assay.ErrorCode(err); err != nil && code != assay.CodeInvalidToken {
			t.Fatalf("%q: %v", token, err)
		}
	})
}

func BenchmarkVerifyToken(b *testing.B) {
	now := time.Now()
	keys := testKeys()
	p := loadedProvider(b, now, publicSet(b, keys), nil)
	for _, alg := range []string{"RS256", "ES256", "EdDSA"} {
		token := Secret(sign(b, keys[alg], header(alg), claims(now, nil)))
		b.Run(alg, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := p.VerifyToken(b.Context(), token); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestAdministrators: the admin claim gives a user all scopes.
func TestAdministrators(t *testing.T) {
	now, keys := time.Now(), testKeys()
	users := []assay.Scope{assay.ScopeRead, assay.ScopeAgent}
	for _, tc := range []struct {
		value any
		want  string
		admin bool
	}{
		{"admin", "admin", true},
		{"admin", "adm", false},
		{[]any{"a", 7, "admin"}, "admin", true},
		{[]any{[]any{"admin"}}, "admin", false},
		{true, "true", true},
		{true, "false", false},
		{false, "false", true},
		{"true", "true", true},
		{1, "1", false},
		{1, "true", false},
		{map[string]any{"admin": true}, "admin", false},
		{nil, "", false},
		{nil, "null", false},
	} {
		p := loadedProvider(t, now, publicSet(t, keys), func(cfg *ProviderConfig) { cfg.AdminClaim, cfg.AdminValue = "role", tc.want })
		principal, err := p.VerifyToken(t.Context(), Secret(sign(t, keys["ES256"], header("ES256"), claims(now, map[string]any{"role": tc.value, "roles": "admin"}))))
		require.NoError(t, err)
		want := users
		if tc.admin {
			want = assay.Scopes()
		}
		require.Equal(t, want, principal.Scopes, "%v %q", tc.value, tc.want)
	}
	p := loadedProvider(t, now, publicSet(t, keys), nil)
	principal, err := p.VerifyToken(t.Context(), Secret(sign(t, keys["ES256"], header("ES256"), claims(now, map[string]any{"": "", "admin": true}))))
	require.NoError(t, err)
	require.Equal(t, users, principal.Scopes, "without a claim")
}
