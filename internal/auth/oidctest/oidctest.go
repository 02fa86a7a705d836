// SPDX-License-Identifier: Apache-2.0

package oidctest

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"fmt"
	"html/template"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"

	"github.com/go-jose/go-jose/v4"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
	"golang.org/x/text/language"
)

// Clients and user of a Provider. RedirectPath is allowed on any port of loopback. Client is public; the other client
// has a secret.
const (
	Client             = "dashboard"
	ConfidentialClient = "dashboard with a secret"
	ClientSecret       = "se:cret + %41"
	RedirectPath       = "/sign-in/callback"

	User     = "test-user2"
	Subject  = "id2"
	Password = "verysecure"
)

// Provider is a running provider. It is safe for concurrent use.
type Provider struct {
	URL string // the issuer

	storage *provider
	server  *httptest.Server
}

// Start starts a provider whose users have the claim org_id "customer-7". Close stops it.
func Start() (*Provider, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	server := httptest.NewUnstartedServer(nil)
	p := &Provider{URL: "http://" + server.Listener.Addr().String(), server: server}
	redirect := "http://127.0.0.1" + RedirectPath
	p.storage = &provider{
		Storage: storage.NewStorageWithClients(storage.NewUserStore(p.URL), map[string]*storage.Client{
			Client:             storage.NativeClient(Client, redirect),
			ConfidentialClient: storage.WebClient(ConfidentialClient, ClientSecret, redirect),
		}),
		key: signingKey{"first", jose.RS256, key}, claims: map[string]any{"org_id": "customer-7"},
	}
	handler, err := op.NewProvider(&op.Config{CodeMethodS256: true, SupportedUILocales: []language.Tag{language.English}}, p.storage, op.StaticIssuer(p.URL),
		op.WithAllowInsecure(), op.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		server.Close()
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/", handler)
	mux.HandleFunc("GET "+loginPath, p.showLogin)
	mux.HandleFunc("POST "+loginPath, p.login)
	server.Config.Handler = mux
	server.Start()
	return p, nil
}

// Close stops the provider.
func (p *Provider) Close() { p.server.Close() }

// SetKey replaces the signing key for further tokens.
func (p *Provider) SetKey(id string, algorithm jose.SignatureAlgorithm, key crypto.Signer) {
	p.storage.mu.Lock()
	defer p.storage.mu.Unlock()
	p.storage.key = signingKey{id, algorithm, key}
}

// SetClaim sets a claim of further tokens. A nil value removes it.
func (p *Provider) SetClaim(name string, value any) {
	p.storage.mu.Lock()
	defer p.storage.mu.Unlock()
	if value == nil {
		delete(p.storage.claims, name)
	} else {
		p.storage.claims[name] = value
	}
}

// Follow signs the user in like a browser. It begins at the URL of an authorization request and returns the
// URL of the final redirect.
func (p *Provider) Follow(ctx context.Context, authorization string) (*url.URL, error) {
	login, err := p.redirected(ctx, http.MethodGet, authorization, nil)
	if err != nil || login.Path != loginPath {
		return login, err
	}
	back, err := p.redirected(ctx, http.MethodPost, login.String(), url.Values{"username": {User}, "password": {Password}})
	if err != nil {
		return nil, err
	}
	return p.redirected(ctx, http.MethodGet, back.String(), nil)
}

func (p *Provider) redirected(ctx context.Context, method, address string, form url.Values) (*url.URL, error) {
	req, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	res, err := p.server.Client().Transport.RoundTrip(req) // does not follow redirects
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode/100 != 3 {
		return nil, fmt.Errorf("%s answered %d", req.URL.Path, res.StatusCode)
	}
	return res.Location()
}

// Tokens signs the user in by the authorization code flow with PKCE, as the public client.
func (p *Provider) Tokens(ctx context.Context) (accessToken, idToken string, err error) {
	verifier, redirect := strings.Repeat("v", 43), "http://127.0.0.1"+RedirectPath
	back, err := p.Follow(ctx, p.URL+"/authorize?"+url.Values{
		"client_id": {Client}, "redirect_uri": {redirect}, "response_type": {"code"}, "scope": {"openid"}, "state": {"s"},
		"code_challenge": {oidc.NewSHACodeChallenge(verifier)}, "code_challenge_method": {"S256"},
	}.Encode())
	if err != nil {
		return "", "", err
	}
	form := url.Values{
		"grant_type": {"authorization_code"}, "code": {back.Query().Get("code")}, "redirect_uri": {redirect},
		"client_id": {Client}, "code_verifier": {verifier},
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.URL+"/oauth/token", strings.NewReader(form.Encode()))
	if err != nil {
		return "", "", err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	res, err := p.server.Client().Do(req)
	if err != nil {
		return "", "", err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return "", "", fmt.Errorf("the token endpoint answered %d", res.StatusCode)
	}
	var answer struct {
		AccessToken string `json:"access_token"`
		IDToken     string `json:"id_token"`
	}
	err = json.NewDecoder(res.Body).Decode(&answer)
	return answer.AccessToken, answer.IDToken, err
}

const loginPath = "/login"

var loginPage = template.Must(template.New("login").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Sign in</title></head><body><main><h1>Sign in</h1>
<form method="post"><p><label>User <input name="username" autocomplete="username"></label></p>
<p><label>Password <input name="password" type="password" autocomplete="current-password"></label></p>
<p><button>Sign in</button></p></form></main></body></html>`))

func (p *Provider) showLogin(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = loginPage.Execute(w, nil) // the browser may have disconnected
}

func (p *Provider) login(w http.ResponseWriter, r *http.Request) {
	id := r.URL.Query().Get("id")
	if err := p.storage.CheckUsernamePassword(r.PostFormValue("username"), r.PostFormValue("password"), id); err != nil {
		http.Error(w, "wrong user or password", http.StatusForbidden)
		return
	}
	http.Redirect(w, r, p.URL+"/authorize/callback?"+url.Values{"id": {id}}.Encode(), http.StatusFound)
}

// provider is the example's storage with keys and claims that tests can change.
type provider struct {
	*storage.Storage

	mu     sync.Mutex
	key    signingKey
	claims map[string]any
}

func (p *provider) SigningKey(context.Context) (op.SigningKey, error) { return p.currentKey(), nil }

func (p *provider) KeySet(context.Context) ([]op.Key, error) {
	return []op.Key{publicKey{p.currentKey()}}, nil
}

func (p *provider) SignatureAlgorithms(context.Context) ([]jose.SignatureAlgorithm, error) {
	return []jose.SignatureAlgorithm{p.currentKey().algorithm}, nil
}

func (p *provider) GetPrivateClaimsFromScopes(context.Context, string, string, []string) (map[string]any, error) {
	return p.currentClaims(), nil
}

func (p *provider) SetUserinfoFromRequest(_ context.Context, info *oidc.UserInfo, request op.IDTokenRequest, _ []string) error {
	info.Subject = request.GetSubject()
	for name, value := range p.currentClaims() {
		info.AppendClaims(name, value)
	}
	return nil
}

func (p *provider) GetClientByClientID(ctx context.Context, id string) (op.Client, error) {
	c, err := p.Storage.GetClientByClientID(ctx, id)
	return client{c}, err
}

func (p *provider) currentKey() signingKey {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.key
}

func (p *provider) currentClaims() map[string]any {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.claims)
}

type signingKey struct {
	id        string
	algorithm jose.SignatureAlgorithm
	key       crypto.Signer
}

func (k signingKey) ID() string                                  { return k.id }
func (k signingKey) SignatureAlgorithm() jose.SignatureAlgorithm { return k.algorithm }
func (k signingKey) Key() any                                    { return k.key }

type publicKey struct{ signingKey }

func (k publicKey) Algorithm() jose.SignatureAlgorithm { return k.algorithm }
func (k publicKey) Use() string                        { return "sig" }
func (k publicKey) Key() any                           { return k.key.Public() }

// client gets JWT access tokens and has a login page.
type client struct{ op.Client }

func (client) AccessTokenType() op.AccessTokenType { return op.AccessTokenTypeJWT }
func (client) LoginURL(id string) string           { return loginPath + "?" + url.Values{"id": {id}}.Encode() }
