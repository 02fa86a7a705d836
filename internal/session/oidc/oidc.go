// SPDX-License-Identifier: Apache-2.0

package oidc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"assay"
	"assay/internal/auth"
	"assay/internal/session"
)

const (
	exchangeTimeout = 10 * time.Second
	maxAnswer       = 1 << 20 // bytes of a token response
)

// Provider is the subset of auth.Provider that a Client uses.
type Provider interface {
	Endpoints(ctx context.Context) (auth.Endpoints, error)
	VerifyIDToken(ctx context.Context, token auth.Secret, clientID, nonce string) (*auth.IDToken, error)
	Client() *http.Client
}

// Config configures a Client. Provider and ClientID are required.
type Config struct {
	Provider     Provider
	ClientID     string
	ClientSecret auth.Secret // "": a public client, protected by PKCE alone
	Scopes       []string    // requested scopes; openid is always added
}

// Client signs users in. It is safe for concurrent use.
type Client struct{ cfg Config }

var _ session.Provider = (*Client)(nil)

// New returns a Client. It does not contact the provider.
func New(cfg Config) (*Client, error) {
	if cfg.Provider == nil || cfg.ClientID == "" {
		return nil, errors.New("signing in at an identity provider needs the provider and a client id")
	}
	if !slices.Contains(cfg.Scopes, "openid") {
		cfg.Scopes = append([]string{"openid"}, cfg.Scopes...)
	}
	return &Client{cfg: cfg}, nil
}

// AuthorizationURL implements session.Provider.
// Source: OpenID Connect Core 1.0, section 3.1.2.1, and RFC 7636, section 4.3.
func (c *Client) AuthorizationURL(ctx context.Context, a session.Authorization) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, exchangeTimeout)
	defer cancel()
	endpoints, err := c.cfg.Provider.Endpoints(ctx)
	if err != nil {
		return "", err
	}
	u, err := url.Parse(endpoints.Authorization)
	if err != nil {
		return "", &assay.Error{Code: assay.CodeUnavailable, Message: "the identity provider's authorization endpoint is malformed", Err: err}
	}
	query := u.Query()
	for name, value := range map[string]string{
		"response_type": "code", "client_id": c.cfg.ClientID, "redirect_uri": a.RedirectURI, "scope": strings.Join(c.cfg.Scopes, " "),
		"state": a.State, "nonce": a.Nonce, "code_challenge": a.Challenge, "code_challenge_method": "S256",
	} {
		query.Set(name, value)
	}
	u.RawQuery = query.Encode()
	return u.String(), nil
}

// Exchange implements session.Provider.
func (c *Client) Exchange(ctx context.Context, code, verifier string, a session.Authorization) (*session.User, error) {
	ctx, cancel := context.WithTimeout(ctx, exchangeTimeout)
	defer cancel()
	endpoints, err := c.cfg.Provider.Endpoints(ctx)
	if err != nil {
		return nil, err
	}
	raw, err := c.redeem(ctx, endpoints, code, verifier, a.RedirectURI)
	if err != nil {
		return nil, err
	}
	token, err := c.cfg.Provider.VerifyIDToken(ctx, raw, c.cfg.ClientID, a.Nonce)
	if err != nil {
		return nil, err
	}
	return &session.User{
		OrganizationID: token.Principal.OrganizationID, Subject: token.Principal.Subject, Name: token.Name(),
		Admin: token.Principal.Allows(assay.ScopeAdmin),
	}, nil
}

// redeem exchanges a code for an ID token at the token endpoint.
// Source: RFC 6749, sections 2.3.1, 4.1.3 and 5, and RFC 7636, section 4.5.
func (c *Client) redeem(ctx context.Context, endpoints auth.Endpoints, code, verifier, redirectURI string) (auth.Secret, error) {
	form := url.Values{
		"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {redirectURI}, "code_verifier": {verifier},
	}
	basic := c.cfg.ClientSecret != "" && !endpoints.SecretInBody
	if !basic {
		form.Set("client_id", c.cfg.ClientID)
		if c.cfg.ClientSecret != "" {
			form.Set("client_secret", string(c.cfg.ClientSecret))
		}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoints.Token, strings.NewReader(form.Encode()))
	if err != nil {
		return "", unavailable("the identity provider's token endpoint is malformed", err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	if basic {
		req.SetBasicAuth(url.QueryEscape(c.cfg.ClientID), url.QueryEscape(string(c.cfg.ClientSecret)))
	}
	res, err := c.client().Do(req)
	if err != nil {
		return "", unavailable("the identity provider does not answer", causeOf(err))
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	switch {
	case err != nil:
		return "", unavailable("the identity provider's answer broke off", err)
	case len(body) > maxAnswer:
		return "", unavailable("the identity provider's answer is too large", nil)
	}
	return answered(res, body)
}

// client returns a client that does not follow redirects, because the request contains a secret.
func (c *Client) client() *http.Client {
	client := *c.cfg.Provider.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &client
}

// answered returns the ID token of a token response.
func answered(res *http.Response, body []byte) (auth.Secret, error) {
	var answer struct {
		IDToken auth.Secret `json:"id_token"`
		Error   string      `json:"error"`
	}
	err := json.Unmarshal(body, &answer)
	switch {
	case res.StatusCode == http.StatusBadRequest && err == nil && answer.Error == "invalid_grant":
		return "", assay.Errorf(assay.CodeInvalidToken, "the identity provider rejected the code: it is unknown or has expired")
	case res.StatusCode != http.StatusOK:
		return "", unavailable(fmt.Sprintf("the identity provider answered a token request with %d, error %s", res.StatusCode, session.OAuthError(answer.Error)), nil)
	case !isJSON(res.Header.Get("Content-Type")) || err != nil:
		return "", unavailable("the identity provider's answer is not JSON", nil)
	case answer.IDToken == "":
		return "", unavailable("the identity provider's answer has no ID token", nil)
	}
	return answer.IDToken, nil
}

// unavailable returns a CodeUnavailable error with a message for the log. err may be nil.
func unavailable(message string, err error) error {
	if err != nil {
		return assay.Errorf(assay.CodeUnavailable, "%s: %w", message, err)
	}
	return assay.Errorf(assay.CodeUnavailable, "%s", message)
}

// causeOf removes the URL from an error of http.Client.
func causeOf(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

func isJSON(contentType string) bool {
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && media == "application/json"
}
