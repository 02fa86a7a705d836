// SPDX-License-Identifier: Apache-2.0

package assay

import (
	"context"
	"slices"
)

// Principal is who makes a request, as its credential tells.
type Principal struct {
	OrganizationID string
	Subject        string  // "key:<key id>" or an identity provider's subject
	User           bool    // a person's session at an identity provider, not an API key
	Scopes         []Scope // of an API key; a user has ScopeRead and ScopeAgent
}

// Allows tells whether the principal has the scope.
func (p *Principal) Allows(s Scope) bool { return slices.Contains(p.Scopes, s) }

// organizationKey is the key of an organization's id in a context.
type organizationKey struct{}

// WithOrganization returns a context for work that an organization has asked for. Stores
// share their connections between organizations by it; it grants nothing.
func WithOrganization(ctx context.Context, organizationID string) context.Context {
	return context.WithValue(ctx, organizationKey{}, organizationID)
}

// OrganizationOf returns the id that WithOrganization was given, or "".
func OrganizationOf(ctx context.Context) string {
	id, _ := ctx.Value(organizationKey{}).(string)
	return id
}
