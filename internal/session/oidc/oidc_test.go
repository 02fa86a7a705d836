// SPDX-License-Identifier: Apache-2.0

package oidc_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/auth"
	"assay/internal/auth/oidctest"
	"assay/internal/session"
	"assay/internal/session/oidc"
)

type finder struct{}

func (finder) FindOrganizationByExternalID(_ context.Context, externalID string) (*assay.Organization, error) {
	if externalID == "customer-7" {
		return &assay.Organization{ID: "org-7"}, nil
	}
	return nil, assay.Errorf(assay.CodeNotFound, "no such organization")
}

// provider returns an auth.Provider for an issuer.
func provider(t *testing.T, issuer string) *auth.Provider {
	t.Helper()
	p, err := auth.NewProvider(auth.ProviderConfig{Issuer: issuer, Audience: "the API", Organizations: finder{}, AdminClaim: "roles", AdminValue: "assay-admin"})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { p.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
	return p
}

const verifier = "a-verifier-of-forty-three-characters-or-more-"

func authorization() session.Authorization {
	challenge := sha256.Sum256([]byte(verifier))
	return session.Authorization{
		RedirectURI: "http://127.0.0.1:4711" + oidctest.RedirectPath, State: "state-1", Nonce: "nonce-1",
		Challenge: base64.RawURLEncoding.EncodeToString(challenge[:]),
	}
}

// TestRealProvider signs in at a certified provider.
func TestRealProvider(t *testing.T) {
	op, err := oidctest.Start()
	require.NoError(t, err)
	t.Cleanup(op.Close)
	p := provider(t, op.URL)
	for name, cfg := range map[string]oidc.Config{
		"public":       {ClientID: oidctest.Client, Scopes: []string{"profile"}},
		"confidential": {ClientID: oidctest.ConfidentialClient, ClientSecret: oidctest.ClientSecret},
	} {
		t.Run(name, func(t *testing.T) {
			cfg.Provider = p
			c, err := oidc.New(cfg)
			require.NoError(t, err)
			code := func(a session.Authorization) string {
				t.Helper()
				to, err := c.AuthorizationURL(t.Context(), a)
				require.NoError(t, err)
				back, err := op.Follow(t.Context(), to)
				require.NoError(t, err)
				require.Equal(t, a.State, back.Query().Get("state"))
				require.NotEmpty(t, back.Query().Get("code"), back)
				return back.Query().Get("code")
			}
			a := authorization()
			if name == "confidential" { // its redirect URL must be the registered one
				a.RedirectURI = "http://127.0.0.1" + oidctest.RedirectPath
			}
			used := code(a)
			user, err := c.Exchange(t.Context(), used, verifier, a)
			require.NoError(t, err)
			require.Equal(t, "org-7", user.OrganizationID)
			require.Equal(t, oidctest.Subject, user.Subject)
			require.False(t, user.Admin)

			refused := func(want assay.Code, code, verifier string, a session.Authorization) {
				t.Helper()
				_, err := c.Exchange(t.Context(), code, verifier, a)
				require.Equal(t, want, assay.ErrorCode(err), "%v", err)
				require.NotContains(t, err.Error(), oidctest.ClientSecret)
				require.NotContains(t, err.Error(), code)
			}
			refused(assay.CodeInvalidToken, used, verifier, a)
			refused(assay.CodeInvalidToken, code(a), "another-verifier-of-forty-three-characters---", a)
			other := a
			other.Nonce = "nonce-2"
			refused(assay.CodeInvalidToken, code(a), verifier, other)

			for _, roles := range []any{[]string{"reader", "assay-admin"}, "assay-admin"} {
				op.SetClaim("roles", roles)
				user, err = c.Exchange(t.Context(), code(a), verifier, a)
				require.NoError(t, err)
				require.True(t, user.Admin, roles)
			}
			for _, roles := range []any{"assay-admins", []string{"assay", "admin"}, true, map[string]any{"assay-admin": true}, nil} {
				op.SetClaim("roles", roles)
				user, err = c.Exchange(t.Context(), code(a), verifier, a)
				require.NoError(t, err)
				require.False(t, user.Admin, roles)
			}
			op.SetClaim("org_id", "customer-8")
			refused(assay.CodeForbidden, code(a), verifier, a)
			op.SetClaim("org_id", "customer-7")
		})
	}

	wrong, err := oidc.New(oidc.Config{Provider: p, ClientID: oidctest.ConfidentialClient, ClientSecret: "not the secret"})
	require.NoError(t, err)
	a := authorization()
	a.RedirectURI = "http://127.0.0.1" + oidctest.RedirectPath
	to, err := wrong.AuthorizationURL(t.Context(), a)
	require.NoError(t, err)
	back, err := op.Follow(t.Context(), to)
	require.NoError(t, err)
	_, err = wrong.Exchange(t.Context(), back.Query().Get("code"), verifier, a)
	require.Equal(t, assay.CodeUnavailable, assay.ErrorCode(err), "a mistake in the configuration is nothing the user can mend")
	require.NotContains(t, err.Error(), "not the secret")
}

// lying is a provider with arbitrary responses.
type lying struct {
	*httptest.Server
	discovery string // members in addition to issuer and jwks_uri
	token     http.HandlerFunc
}

func newLying(t *testing.T) *lying {
	l := new(lying)
	l.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/.well-known/openid-configuration":
			_, _ = w.Write([]byte(`{"issuer":"` + l.URL + `","jwks_uri":"` + l.URL + `/keys"` + l.discovery + `}`))
		case "/keys":
			_, _ = w.Write([]byte(`{"keys":[]}`))
		default:
			l.token(w, r)
		}
	}))
	t.Cleanup(l.Close)
	l.discovery = `,"authorization_endpoint":"` + l.URL + `/authorize?tenant=a%26b","token_endpoint":"` + l.URL + `/token"`
	return l
}

func (l *lying) client(t *testing.T, secret auth.Secret) *oidc.Client {
	t.Helper()
	c, err := oidc.New(oidc.Config{Provider: provider(t, l.URL), ClientID: "a client & more", ClientSecret: secret, Scopes: []string{"profile", "email"}})
	require.NoError(t, err)
	return c
}

func TestAuthorizationURL(t *testing.T) {
	l := newLying(t)
	a := authorization()
	to, err := l.client(t, "").AuthorizationURL(t.Context(), a)
	require.NoError(t, err)
	u, err := url.Parse(to)
	require.NoError(t, err)
	require.Equal(t, url.Values{
		"tenant": {"a&b"}, "response_type": {"code"}, "client_id": {"a client & more"}, "redirect_uri": {a.RedirectURI}, "scope": {"openid profile email"},
		"state": {a.State}, "nonce": {a.Nonce}, "code_challenge": {a.Challenge}, "code_challenge_method": {"S256"},
	}, u.Query())

	for _, discovery := range []string{
		``, `,"authorization_endpoint":"javascript:alert(1)","token_endpoint":"/token"`,
		`,"authorization_endpoint":"` + l.URL + `/authorize"`, `,"token_endpoint":"` + l.URL + `/token"`,
		`,"authorization_endpoint":"//evil.example","token_endpoint":"` + l.URL + `/token"`,
	} {
		bad := newLying(t) // the client of another one may still fetch its document
		bad.discovery = discovery
		_, err := bad.client(t, "").AuthorizationURL(t.Context(), a)
		require.Equal(t, assay.CodeUnavailable, assay.ErrorCode(err), discovery)
	}
}

func TestTokenRequest(t *testing.T) {
	l := newLying(t)
	var form url.Values
	var user, password string
	l.token = func(w http.ResponseWriter, r *http.Request) {
		user, password, _ = r.BasicAuth()
		_ = r.ParseForm()
		form = r.PostForm
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"error":"invalid_grant","error_description":"<script>"}`))
	}
	a := authorization()
	ask := func(secret auth.Secret) {
		t.Helper()
		_, err := l.client(t, secret).Exchange(t.Context(), "c&de", verifier, a)
		require.Equal(t, assay.CodeInvalidToken, assay.ErrorCode(err))
	}
	want := url.Values{"grant_type": {"authorization_code"}, "code": {"c&de"}, "redirect_uri": {a.RedirectURI}, "code_verifier": {verifier}}
	ask("s:cret")
	require.Equal(t, want, form)
	require.Equal(t, []string{"a+client+%26+more", "s%3Acret"}, []string{user, password})
	l.discovery += `,"token_endpoint_auth_methods_supported":["client_secret_post"]`
	ask("s:cret")
	want["client_id"], want["client_secret"] = []string{"a client & more"}, []string{"s:cret"}
	require.Equal(t, want, form)
	require.Empty(t, user+password)
	ask("")
	delete(want, "client_secret")
	require.Equal(t, want, form)
}

// TestHostileAnswers checks that no response of a hostile token endpoint signs a user in, and that errors do
// not quote it.
func TestHostileAnswers(t *testing.T) {
	l := newLying(t)
	c := l.client(t, "a-secret")
	answer := func(status int, contentType, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", contentType)
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		}
	}
	unsigned := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)) + "." +
		base64.RawURLEncoding.EncodeToString([]byte(`{"iss":"`+l.URL+`","aud":"a client & more","sub":"x","nonce":"nonce-1","org_id":"customer-7","exp":9999999999,"iat":1}`)) + "."
	for name, tc := range map[string]struct {
		answer http.HandlerFunc
		want   assay.Code
	}{
		"500":           {answer(500, "application/json", `{}`), assay.CodeUnavailable},
		"401":           {answer(401, "application/json", `{"error":"invalid_client"}`), assay.CodeUnavailable},
		"HTML":          {answer(200, "text/html", `{"id_token":"a.b.c"}`), assay.CodeUnavailable},
		"not JSON":      {answer(200, "application/json", `HOSTILE`), assay.CodeUnavailable},
		"no token":      {answer(200, "application/json", `{"access_token":"x"}`), assay.CodeUnavailable},
		"odd token":     {answer(200, "application/json", `{"id_token":["x"]}`), assay.CodeUnavailable},
		"null":          {answer(200, "application/json", `null`), assay.CodeUnavailable},
		"opaque token":  {answer(200, "application/json; charset=utf-8", `{"id_token":"HOSTILE"}`), assay.CodeInvalidToken},
		"unsigned":      {answer(200, "application/json", `{"id_token":"`+unsigned+`"}`), assay.CodeInvalidToken},
		"another error": {answer(400, "application/json", `{"error":"HOSTILE\n<b>"}`), assay.CodeUnavailable},
		"endless": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			for range 3 << 10 {
				if _, err := w.Write([]byte(strings.Repeat(" ", 1<<10))); err != nil {
					return
				}
			}
		}, assay.CodeUnavailable},
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/elsewhere" {
				t.Error("the secret went elsewhere")
			}
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		}, assay.CodeUnavailable},
		"cut off": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = w.Write([]byte(`{"id_token":"`))
		}, assay.CodeUnavailable},
	} {
		l.token = tc.answer
		user, err := c.Exchange(t.Context(), "code", verifier, authorization())
		require.Nil(t, user, name)
		require.Equal(t, tc.want, assay.ErrorCode(err), "%s: %v", name, err)
		for _, secret := range []string{"HOSTILE", "a-secret", unsigned, l.URL} {
			require.NotContains(t, err.Error(), secret, name)
		}
	}

	// The endpoint hangs or is unavailable.
	hang := make(chan struct{})
	l.token = func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-hang:
		case <-r.Context().Done():
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := c.Exchange(ctx, "code", verifier, authorization())
	require.Equal(t, assay.CodeUnavailable, assay.ErrorCode(err), "%v", err)
	close(hang)
	l.Close()
	_, err = c.Exchange(t.Context(), "code", verifier, authorization())
	require.Equal(t, assay.CodeUnavailable, assay.ErrorCode(err), "%v", err)
	require.NotContains(t, err.Error(), "/token", "no address")
}

func TestNew(t *testing.T) {
	_, err := oidc.New(oidc.Config{ClientID: "x"})
	require.Error(t, err)
	_, err = oidc.New(oidc.Config{Provider: provider(t, "http://127.0.0.1:1")})
	require.Error(t, err)
}
