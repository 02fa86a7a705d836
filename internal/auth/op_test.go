// SPDX-License-Identifier: Apache-2.0

package auth_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
	"golang.org/x/text/language"

	"assay"
	"assay/internal/auth"
)

const (
	clientID    = "dashboard"
	redirectURI = "http://127.0.0.1/callback"
)

// realProvider is a certified OpenID provider on loopback, with its own example
// storage, whose users belong to organizations and whose keys can be changed.
type realProvider struct {
	*storage.Storage
	server *httptest.Server

	mu    sync.Mutex
	alg   jose.SignatureAlgorithm
	key   crypto.Signer
	keyID string
	org   any // the claim org_id; nil: none
}

func (r *realProvider) SigningKey(context.Context) (op.SigningKey, error) { return r.current(), nil }

func (r *realProvider) KeySet(context.Context) ([]op.Key, error) {
	return []op.Key{publicKey{r.current()}}, nil
}

func (r *realProvider) SignatureAlgorithms(context.Context) ([]jose.SignatureAlgorithm, error) {
	return []jose.SignatureAlgorithm{r.current().alg}, nil
}

func (r *realProvider) GetPrivateClaimsFromScopes(context.Context, string, string, []string) (map[string]any, error) {
	return r.organization(), nil
}

func (r *realProvider) SetUserinfoFromRequest(_ context.Context, info *oidc.UserInfo, request op.IDTokenRequest, _ []string) error {
	info.Subject = request.GetSubject()
	for name, value := range r.organization() {
		info.AppendClaims(name, value)
	}
	return nil
}

func (r *realProvider) GetClientByClientID(ctx context.Context, id string) (op.Client, error) {
	client, err := r.Storage.GetClientByClientID(ctx, id)
	return jwtClient{client}, err
}

func (r *realProvider) organization() map[string]any {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.org == nil {
		return nil
	}
	return map[string]any{"org_id": r.org}
}

func (r *realProvider) current() signingKey {
	r.mu.Lock()
	defer r.mu.Unlock()
	return signingKey{r.keyID, r.alg, r.key}
}

func (r *realProvider) change(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
}

type signingKey struct {
	id  string
	alg jose.SignatureAlgorithm
	key crypto.Signer
}

func (k signingKey) ID() string                                  { return k.id }
func (k signingKey) SignatureAlgorithm() jose.SignatureAlgorithm { return k.alg }
func (k signingKey) Key() any                                    { return k.key }

type publicKey struct{ signingKey }

func (k publicKey) Algorithm() jose.SignatureAlgorithm { return k.alg }
func (k publicKey) Use() string                        { return "sig" }
func (k publicKey) Key() any                           { return k.key.Public() }

// jwtClient gets access tokens that are JWTs.
type jwtClient struct{ op.Client }

func (jwtClient) AccessTokenType() op.AccessTokenType { return op.AccessTokenTypeJWT }
func (jwtClient) LoginURL(id string) string           { return "/login?id=" + id }

func startProvider(t *testing.T) *realProvider {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	r := &realProvider{alg: jose.RS256, key: key, keyID: "first", org: "customer-7"}
	r.server = httptest.NewUnstartedServer(nil)
	issuer := "http://" + r.server.Listener.Addr().String()
	r.Storage = storage.NewStorageWithClients(storage.NewUserStore(issuer), map[string]*storage.Client{
		clientID: storage.NativeClient(clientID, redirectURI),
	})
	provider, err := op.NewProvider(&op.Config{CodeMethodS256: true, SupportedUILocales: []language.Tag{language.English}}, r, op.StaticIssuer(issuer),
		op.WithAllowInsecure(), op.WithLogger(slog.New(slog.DiscardHandler)))
	require.NoError(t, err)
	r.server.Config.Handler = provider
	r.server.Start()
	t.Cleanup(r.server.Close)
	return r
}

// login takes a user through the authorization code flow with PKCE.
func (r *realProvider) login(t *testing.T, user string) (accessToken, idToken auth.Secret) {
	t.Helper()
	client := *r.server.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	redirect := func(path string, query url.Values) url.Values {
		res, err := client.Get(r.server.URL + path + "?" + query.Encode())
		require.NoError(t, err)
		defer res.Body.Close()
		require.Equal(t, http.StatusFound, res.StatusCode)
		to, err := res.Location()
		require.NoError(t, err)
		return to.Query()
	}
	verifier := strings.Repeat("v", 43)
	asked := redirect("/authorize", url.Values{
		"client_id": {clientID}, "redirect_uri": {redirectURI}, "response_type": {"code"}, "scope": {"openid"}, "state": {"s"},
		"code_challenge": {oidc.NewSHACodeChallenge(verifier)}, "code_challenge_method": {"S256"},
	})
	require.NoError(t, r.CheckUsernamePassword(user, "verysecure", asked.Get("id")))
	back := redirect("/authorize/callback", url.Values{"id": {asked.Get("id")}})
	require.NotEmpty(t, back.Get("code"), back)

	res, err := client.PostForm(r.server.URL+"/oauth/token", url.Values{
		"grant_type": {"authorization_code"}, "code": {back.Get("code")}, "redirect_uri": {redirectURI},
		"client_id": {clientID}, "code_verifier": {verifier},
	})
	require.NoError(t, err)
	defer res.Body.Close()
	require.Equal(t, http.StatusOK, res.StatusCode)
	var answer struct {
		AccessToken string `json:"access_token"`
		IDToken     string `json:"id_token"`
	}
	require.NoError(t, json.NewDecoder(res.Body).Decode(&answer))
	return auth.Secret(answer.AccessToken), auth.Secret(answer.IDToken)
}

type finder func(externalID string) (*assay.Organization, error)

func (f finder) FindOrganizationByExternalID(_ context.Context, externalID string) (*assay.Organization, error) {
	return f(externalID)
}

// TestRealProvider verifies what a provider gives out to users who log in.
func TestRealProvider(t *testing.T) {
	r := startProvider(t)
	start := func(audience string) *auth.Authenticator {
		p, err := auth.NewProvider(auth.ProviderConfig{
			Issuer: r.server.URL, Audience: audience,
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
	a := start(clientID)
	defer a.Close()
	check := func(a *auth.Authenticator, token auth.Secret) (*assay.Principal, assay.Code) {
		p, err := a.Authenticate(t.Context(), "Bearer "+string(token), "127.0.0.1:1")
		return p, assay.ErrorCode(err)
	}

	access, id := r.login(t, "test-user2")
	for _, token := range []auth.Secret{access, id} {
		p, code := check(a, token)
		require.Empty(t, code)
		require.Equal(t, &assay.Principal{
			OrganizationID: "org-7", Subject: "id2", User: true, Scopes: []assay.Scope{assay.ScopeRead, assay.ScopeAgent},
		}, p)
		require.False(t, p.Allows(assay.ScopeIngest), "users send no telemetry")
	}

	// Another kind of key takes the place of the first.
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	r.change(func() { r.alg, r.key, r.keyID = jose.ES256, key, "second" })
	rotated, _ := r.login(t, "test-user2")
	_, code := check(a, rotated)
	require.Empty(t, code)
	_, code = check(a, access)
	require.Equal(t, assay.CodeInvalidToken, code, "of a key that is gone")

	// Users without an organization, and of one that is not known.
	for _, org := range []any{nil, "customer-8", []string{"customer-7"}, 7} {
		r.change(func() { r.org = org })
		token, _ := r.login(t, "test-user2")
		_, code = check(a, token)
		require.Equal(t, assay.CodeForbidden, code, org)
	}

	// A token for another service.
	other := start("another-service")
	defer other.Close()
	_, code = check(other, rotated)
	require.Equal(t, assay.CodeInvalidToken, code)

	// The provider goes away: who has a token goes on.
	r.server.Close()
	_, code = check(a, rotated)
	require.Empty(t, code)
	late := start(clientID)
	defer late.Close()
	_, code = check(late, rotated)
	require.Equal(t, assay.CodeUnavailable, code)
}
