// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/x509"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"assay/internal/auth"
	"assay/internal/fair"
	"assay/internal/tlsreload"
)

// identityConfig holds the flags of the identity provider.
type identityConfig struct {
	OIDCIssuer            string `name:"oidc-issuer" placeholder:"URL" help:"URL of the OpenID Connect provider whose tokens are accepted in addition to API keys."`
	OIDCAudience          string `name:"oidc-audience" placeholder:"TEXT" help:"Required audience of tokens."`
	OIDCOrganizationClaim string `name:"oidc-organization-claim" default:"org_id" placeholder:"NAME" help:"Claim with the external id of the user's organization (${default})."`
	OIDCCA                string `name:"oidc-ca" placeholder:"FILE" help:"CA certificates in PEM for the provider. Default: the system's."`

	OIDCClientID         string      `name:"oidc-client-id" placeholder:"TEXT" help:"Client id for signing in to the dashboard at the provider. Without it users sign in with an API key."`
	OIDCClientSecret     auth.Secret `name:"oidc-client-secret" placeholder:"SECRET" help:"Client secret. Without it the client is public."`
	OIDCClientSecretFile string      `name:"oidc-client-secret-file" placeholder:"FILE" help:"File that contains the client secret."`
	OIDCScopes           []string    `name:"oidc-scopes" default:"openid,profile" placeholder:"SCOPE" help:"Scopes requested at sign-in (${default})." hidden:""`
	OIDCAdminClaim       string      `name:"oidc-admin-claim" placeholder:"NAME" help:"Claim of the users that may manage API keys and webhooks. Without it, users cannot."`
	OIDCAdminValue       string      `name:"oidc-admin-value" default:"true" placeholder:"TEXT" help:"Required value of --oidc-admin-claim; for a claim with several values, one of them (${default})."`

	AuthFailureLimit int `default:"0" placeholder:"N" help:"Maximum failed authentications a minute from each address; 0 means unlimited (${default}). A valid key is never rejected by this limit."`
}

func (c *identityConfig) problems() []error {
	var ck check
	ck.that(c.AuthFailureLimit >= 0, "--auth-failure-limit: %d is negative", c.AuthFailureLimit)
	if c.OIDCIssuer == "" {
		ck.that(c.OIDCAudience == "" && c.OIDCCA == "" && c.OIDCClientID == "" && c.OIDCAdminClaim == "",
			"--oidc-audience, --oidc-ca, --oidc-client-id and --oidc-admin-claim need --oidc-issuer")
		return ck.problems
	}
	ck.that(c.OIDCAudience != "", "--oidc-audience: the audience is not given; without one, tokens made for other services would be accepted")
	ck.that(c.OIDCClientID != "" || (c.OIDCClientSecret == "" && c.OIDCClientSecretFile == ""), "--oidc-client-secret needs --oidc-client-id")
	_, err := c.clientSecret()
	ck.add(err)
	for _, scope := range c.OIDCScopes {
		ck.that(scope != "" && !strings.ContainsAny(scope, " \"\\"), "--oidc-scopes: %q is not a scope", scope)
	}
	_, err = c.roots()
	ck.err("oidc-ca", err)
	if c.OIDCAudience != "" {
		_, err := c.provider(noOrganizations{}, nil, nil, wallClock, slog.New(slog.DiscardHandler))
		ck.err("oidc-issuer", err)
	}
	return ck.problems
}

// clientSecret returns the secret of --oidc-client-id, or "" for a public client.
func (c *identityConfig) clientSecret() (auth.Secret, error) {
	return readSecret("oidc-client-secret", c.OIDCClientSecret, c.OIDCClientSecretFile)
}

// noOrganizations replaces the store while the configuration is checked.
type noOrganizations struct{ auth.OrganizationFinder }

// roots returns the certificates of --oidc-ca, or nil for the system's.
func (c *identityConfig) roots() (*x509.CertPool, error) { return tlsreload.ReadRoots(c.OIDCCA) }

// provider returns the token verifier, or nil if no provider is configured. It does not connect. wrap and cpu are those of
// auth.ProviderConfig.
func (c *identityConfig) provider(organizations auth.OrganizationFinder, wrap func(http.RoundTripper) http.RoundTripper, cpu *fair.Semaphore, now func() time.Time, logger *slog.Logger) (*auth.Provider, error) {
	if c.OIDCIssuer == "" {
		return nil, nil
	}
	roots, err := c.roots()
	if err != nil {
		return nil, err
	}
	return auth.NewProvider(auth.ProviderConfig{
		Issuer: c.OIDCIssuer, Audience: c.OIDCAudience, OrganizationClaim: c.OIDCOrganizationClaim,
		AdminClaim: c.OIDCAdminClaim, AdminValue: c.OIDCAdminValue, Organizations: organizations, RootCAs: roots, Wrap: wrap, CPU: cpu, Now: now, Logger: logger,
	})
}

// identify prepares the authentication of requests.
func (s *server) identify() (err error) {
	s.auth = &auth.Authenticator{
		Keys: s.store, Prefix: s.cfg.APIKeyPrefix, FailureLimit: s.cfg.AuthFailureLimit, Now: s.replica.Now, Logger: s.logger,
	}
	if s.provider, err = s.cfg.identityConfig.provider(s.store, s.own.Transport, s.cpu, s.replica.Now, s.logger); err != nil {
		return err
	}
	if s.provider != nil {
		s.auth.Tokens = s.provider
	}
	return nil
}
