// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/x509"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"time"

	"assay/internal/auth"
)

// identityConfig says whose tokens are accepted beside API keys, as flags.
type identityConfig struct {
	OIDCIssuer            string `name:"oidc-issuer" placeholder:"URL" help:"OpenID Connect provider whose tokens are accepted beside API keys."`
	OIDCAudience          string `name:"oidc-audience" placeholder:"TEXT" help:"Audience that a token must have."`
	OIDCOrganizationClaim string `name:"oidc-organization-claim" default:"org_id" placeholder:"NAME" help:"Claim that holds the external id of the user's organization (${default})."`
	OIDCCA                string `name:"oidc-ca" placeholder:"FILE" help:"Certificates that the provider's is checked against, PEM; default those of the system."`

	OIDCClientID         string      `name:"oidc-client-id" placeholder:"TEXT" help:"Client id by which people sign in to the dashboard at the provider; without it, by an API key alone."`
	OIDCClientSecret     auth.Secret `name:"oidc-client-secret" placeholder:"SECRET" help:"Its secret; without one the client is public."`
	OIDCClientSecretFile string      `name:"oidc-client-secret-file" placeholder:"FILE" help:"File that holds the secret."`
	OIDCScopes           []string    `name:"oidc-scopes" default:"openid,profile" placeholder:"SCOPE" help:"Scopes asked for when people sign in (${default})."`
	OIDCAdminClaim       string      `name:"oidc-admin-claim" placeholder:"NAME" help:"Claim that says which users may manage API keys on the dashboard; without it, none."`
	OIDCAdminValue       string      `name:"oidc-admin-value" default:"true" placeholder:"TEXT" help:"What the claim is, or holds, for those who may (${default})."`

	AuthFailureLimit int `default:"0" placeholder:"N" help:"Failed authentications a minute for each address; 0 means no limit. A good key is never refused for it."`
}

func (c *identityConfig) problems() []error {
	var ck check
	ck.that(c.AuthFailureLimit >= 0, "--auth-failure-limit: %d is negative", c.AuthFailureLimit)
	if c.OIDCIssuer == "" {
		ck.that(c.OIDCAudience == "" && c.OIDCCA == "" && c.OIDCClientID == "", "--oidc-audience, --oidc-ca and --oidc-client-id need --oidc-issuer")
		return ck.problems
	}
	ck.that(c.OIDCAudience != "", "--oidc-audience: the audience is not given; without one, tokens made for other services would be accepted")
	ck.that(c.OIDCClientID != "" || (c.OIDCClientSecret == "" && c.OIDCClientSecretFile == "" && c.OIDCAdminClaim == ""),
		"--oidc-client-secret and --oidc-admin-claim need --oidc-client-id")
	if _, err := c.clientSecret(); err != nil {
		ck.add(err)
	}
	for _, scope := range c.OIDCScopes {
		ck.that(scope != "" && !strings.ContainsAny(scope, " \"\\"), "--oidc-scopes: %q is no scope", scope)
	}
	_, err := c.roots()
	ck.err("oidc-ca", err)
	if c.OIDCAudience != "" {
		_, err := c.provider(noOrganizations{}, nil, wallClock, slog.New(slog.DiscardHandler))
		ck.err("oidc-issuer", err)
	}
	return ck.problems
}

// clientSecret returns the secret of --oidc-client-id, "" for a public client.
func (c *identityConfig) clientSecret() (auth.Secret, error) {
	return readSecret("oidc-client-secret", c.OIDCClientSecret, c.OIDCClientSecretFile)
}

// noOrganizations stands for a store while settings are checked.
type noOrganizations struct{ auth.OrganizationFinder }

// roots returns the certificates of --oidc-ca, nil for those of the system.
func (c *identityConfig) roots() (*x509.CertPool, error) { return readRoots(c.OIDCCA) }

// readRoots reads certificates in PEM, nil for no file.
func readRoots(path string) (*x509.CertPool, error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s holds no certificate", path)
	}
	return pool, nil
}

// provider returns who verifies tokens, nil when no provider is configured. It does
// not connect. wrap is that of auth.ProviderConfig.
func (c *identityConfig) provider(organizations auth.OrganizationFinder, wrap func(http.RoundTripper) http.RoundTripper, now func() time.Time, logger *slog.Logger) (*auth.Provider, error) {
	if c.OIDCIssuer == "" {
		return nil, nil
	}
	roots, err := c.roots()
	if err != nil {
		return nil, err
	}
	return auth.NewProvider(auth.ProviderConfig{
		Issuer: c.OIDCIssuer, Audience: c.OIDCAudience, OrganizationClaim: c.OIDCOrganizationClaim,
		Organizations: organizations, RootCAs: roots, Wrap: wrap, Now: now, Logger: logger,
	})
}

// identify prepares the check of credentials.
func (s *server) identify() (err error) {
	s.auth = &auth.Authenticator{
		Keys: s.store, Prefix: s.cfg.APIKeyPrefix, FailureLimit: s.cfg.AuthFailureLimit, Now: s.replica.Now, Logger: s.logger,
	}
	if s.provider, err = s.cfg.identityConfig.provider(s.store, s.own.Transport, s.replica.Now, s.logger); err != nil {
		return err
	}
	if s.provider != nil {
		s.auth.Tokens = s.provider
	}
	return nil
}
