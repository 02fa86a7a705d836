// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/go-jose/go-jose/v4"
	"golang.org/x/sync/singleflight"

	"assay"
	"assay/internal/fair"
	"assay/internal/netguard"
)

// DefaultOrganizationClaim is the claim of a token that names the organization.
const DefaultOrganizationClaim = "org_id"

const (
	// leeway is the tolerated difference between the clocks of the provider and of this machine.
	leeway = 60 * time.Second

	// maxOrganizations limits the cached external ids.
	maxOrganizations = 4096

	// maxSubject and maxExternalID are maximum lengths, in bytes. Source of maxSubject: OpenID Connect Core 1.0,
	// section 2.
	maxSubject    = 255
	maxExternalID = 255
)

// OrganizationFinder is the subset of assay.OrganizationStore that a Provider uses.
type OrganizationFinder interface {
	FindOrganizationByExternalID(ctx context.Context, externalID string) (*assay.Organization, error)
}

// ProviderConfig configures a Provider. Issuer, Audience and Organizations are required.
type ProviderConfig struct {
	Issuer   string // exactly as in the provider's tokens and discovery document
	Audience string // must be among the audiences of a token

	// OrganizationClaim is the claim that contains the external id of the user's organization. Default:
	// DefaultOrganizationClaim.
	OrganizationClaim string
	Organizations     OrganizationFinder

	// AdminClaim and AdminValue select the users with all scopes: the claim of their token equals AdminValue or is an
	// array that contains it. If AdminClaim is "", there are none.
	AdminClaim, AdminValue string

	RootCAs *x509.CertPool // for the provider's certificate; nil: the system's

	// Wrap wraps the transport for traces and metrics. nil: the transport is not wrapped.
	Wrap func(http.RoundTripper) http.RoundTripper

	CPU    *fair.Semaphore  // for verifying signatures, by organization; default: its own semaphore
	Now    func() time.Time // default time.Now
	Logger *slog.Logger     // default: none
}

// Provider verifies the tokens of an OpenID Connect provider. It is safe for concurrent use. Run must be running for
// it to have public keys.
type Provider struct {
	cfg  ProviderConfig
	keys *keySet

	lookups singleflight.Group // of organizations, by external id

	mu            sync.Mutex
	organizations *cache[string, membership] // by external id
}

var _ TokenVerifier = (*Provider)(nil)

// membership is the result of an organization lookup.
type membership struct {
	organizationID string    // "": no organization has this external id
	asOf           time.Time // when the lookup began
}

// NewProvider returns a Provider without keys. It does not contact the provider, which may be unavailable.
func NewProvider(cfg ProviderConfig) (*Provider, error) {
	// OpenID Connect Discovery 1.0, section 3, but plain HTTP is allowed.
	issuer, err := netguard.ParseURL(cfg.Issuer)
	if err != nil {
		return nil, fmt.Errorf("issuer of the identity provider: %w", err)
	}
	if cfg.Audience == "" {
		return nil, errors.New("identity provider: an audience is required, or tokens for other services would be accepted")
	}
	if cfg.Organizations == nil {
		return nil, errors.New("identity provider: Organizations is required")
	}
	cfg.OrganizationClaim = cmp.Or(cfg.OrganizationClaim, DefaultOrganizationClaim)
	if cfg.CPU == nil {
		cfg.CPU = fair.NewCPU(runtime.GOMAXPROCS(0), time.Now)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	if issuer.Scheme == "http" && !netguard.IsLoopback(issuer.Hostname()) {
		cfg.Logger.Warn("the identity provider is reached without TLS: an attacker on the network path can forge tokens", "issuer", cfg.Issuer)
	}
	client := newClient(cfg.RootCAs)
	if cfg.Wrap != nil {
		client.Transport = cfg.Wrap(client.Transport)
	}
	return &Provider{
		cfg:           cfg,
		keys:          newKeySet(cfg.Issuer, client, cfg.Now, cfg.Logger),
		organizations: newCache[string, membership](maxOrganizations),
	}, nil
}

// Run fetches the provider's keys at once and then periodically, until ctx ends. It retries while the provider is
// unavailable.
func (p *Provider) Run(ctx context.Context) { p.keys.run(ctx) }

// VerifyToken implements TokenVerifier. It waits for the provider only if no known key may have signed the token.
func (p *Provider) VerifyToken(ctx context.Context, token Secret) (*assay.Principal, error) {
	_, principal, err := p.verify(ctx, token, p.cfg.Audience)
	return principal, err
}

// verify verifies a token for an audience. It returns the token and its principal.
func (p *Provider) verify(ctx context.Context, raw Secret, audience string) (*token, *assay.Principal, error) {
	t, err := parseToken(string(raw))
	if err != nil {
		return nil, nil, err
	}
	// Check the issuer, the times and the audience before the signature, which takes longer and may cause a fetch.
	if t.claims.text("iss") != p.cfg.Issuer {
		return nil, nil, errToken("it has another issuer")
	}
	if err := t.claims.checkTimes(p.cfg.Now()); err != nil {
		return nil, nil, err
	}
	if !t.claims.hasAudience(audience) {
		return nil, nil, errToken("it is for another audience")
	}
	externalID := t.claims.text(p.cfg.OrganizationClaim)
	hash, fetch := sha256.Sum256([]byte(raw)), 0
	verified := p.keys.hasVerified(externalID, hash)
	if !verified {
		if fetch, err = p.checkSignature(ctx, t); err != nil {
			return nil, nil, err
		}
	}
	subject := t.claims.text("sub")
	if !isName(subject, maxSubject) {
		return nil, nil, errToken("its subject is missing or invalid")
	}
	if !isName(externalID, maxExternalID) {
		return nil, nil, assay.Errorf(assay.CodeForbidden, "the token names no organization")
	}
	organizationID, err := p.organization(ctx, externalID)
	if err != nil {
		return nil, nil, err
	}
	if organizationID == "" {
		return nil, nil, assay.Errorf(assay.CodeForbidden, "the token names an organization that is not known here")
	}
	if !verified {
		p.keys.remember(externalID, hash, fetch)
	}
	scopes := []assay.Scope{assay.ScopeRead, assay.ScopeAgent}
	if p.cfg.AdminClaim != "" && t.claims.contains(p.cfg.AdminClaim, p.cfg.AdminValue) {
		scopes = assay.Scopes()
	}
	return t, &assay.Principal{OrganizationID: organizationID, Subject: subject, User: true, Scopes: scopes}, nil
}

// contains reports whether a claim equals value or is an array that contains it. Claims are compared if they are strings
// or booleans.
func (o object) contains(claim, value string) bool {
	var one any
	if json.Unmarshal(o[claim], &one) != nil {
		return false
	}
	is := func(v any) bool {
		switch v := v.(type) {
		case string:
			return v == value
		case bool:
			return v && value == "true" || !v && value == "false"
		default:
			return false
		}
	}
	if all, ok := one.([]any); ok {
		return slices.ContainsFunc(all, is)
	}
	return is(one)
}

// isName reports whether s is valid as a name or an id: not empty, at most longest bytes, and without control
// characters, which stores and logs may not accept.
func isName(s string, longest int) bool {
	return s != "" && len(s) <= longest && !strings.ContainsFunc(s, unicode.IsControl)
}

// checkSignature verifies the signature against the provider's keys. If the key may be missing, checkSignature
// requests one fetch, and verifies the signature again if the keys were fetched since. It returns the fetch of the key.
func (p *Provider) checkSignature(ctx context.Context, t *token) (fetch int, err error) {
	checked := 0 // the fetch whose keys were compared
	for asked := false; ; asked = true {
		keys, fetch := p.keys.find(t.keyID)
		if fetch != checked {
			signed, err := p.signed(ctx, t, keys)
			if signed || err != nil {
				return fetch, err
			}
		}
		checked = fetch
		switch {
		case fetch > 0 && len(keys) > 0 && t.keyID != "":
			return 0, errToken("its signature does not match")
		case asked && fetch == 0:
			return 0, assay.Errorf(assay.CodeUnavailable, "the identity provider's keys are not known yet")
		case asked:
			return 0, errToken("it is signed with a key that is not the provider's")
		}
		if err := p.keys.renew(ctx); err != nil {
			return 0, err
		}
	}
}

// signatures is the key of the turns of signatures.
const signatures = "signatures"

// signed reports whether one of the keys signed a token. Anyone may have sent the token, so all take turns as one
// organization, and forged tokens delay each other. Pages without a session, which are assay.Anonymous, do not delay them.
func (p *Provider) signed(ctx context.Context, t *token, keys []jose.JSONWebKey) (bool, error) {
	if len(keys) == 0 {
		return false, nil
	}
	if err := p.cfg.CPU.Acquire(ctx, signatures); err != nil {
		return false, &assay.Error{Code: assay.CodeUnavailable, Message: "too many tokens are waiting to be verified", Err: err}
	}
	defer p.cfg.CPU.Release(signatures)
	return t.signedWithOne(keys), nil
}

// organization returns the id of the organization with an external id, or "" if there is none. A change in the store
// is visible within three seconds. Concurrent requests for an external id share one lookup, so that many requests of an
// organization do not delay others.
func (p *Provider) organization(ctx context.Context, externalID string) (string, error) {
	if m := p.remembered(externalID, p.cfg.Now()); m != nil {
		return m.organizationID, nil
	}
	var err error
	select {
	case r := <-p.lookups.DoChan(externalID, func() (any, error) { return p.findOrganization(context.WithoutCancel(ctx), externalID) }):
		if r.Err == nil {
			return r.Val.(string), nil
		}
		err = r.Err
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	return "", &assay.Error{Code: assay.CodeUnavailable, Message: "organizations cannot be looked up at the moment", Err: err}
}

// findOrganization is organization without the cache.
func (p *Provider) findOrganization(ctx context.Context, externalID string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	found := &membership{asOf: p.cfg.Now()}
	o, err := p.cfg.Organizations.FindOrganizationByExternalID(ctx, externalID)
	switch {
	case err == nil:
		found.organizationID = o.ID
	case assay.ErrorCode(err) != assay.CodeNotFound:
		return "", err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.organizations.put(externalID, found)
	return found.organizationID, nil
}

// remembered returns the cached result of a lookup if it is fresh, else nil.
func (p *Provider) remembered(externalID string, now time.Time) *membership {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.organizations.get(externalID)
	if m == nil {
		return nil
	}
	if age := now.Sub(m.asOf); age < 0 || age >= cacheTTL {
		return nil
	}
	return m
}

// errToken returns a CodeInvalidToken error with a reason. The reason must not contain any part of the token.
func errToken(reason string) error {
	return assay.Errorf(assay.CodeInvalidToken, "the token is not valid: %s", reason)
}
