// SPDX-License-Identifier: Apache-2.0

package assay

import (
	"context"
	"slices"
)

// Principal is the authenticated identity of a request.
type Principal struct {
	OrganizationID string
	Subject        string  // "key:<key id>" or an identity provider's subject
	User           bool    // authenticated by an identity provider, not by an API key
	Scopes         []Scope // scopes of the API key; ScopeRead and ScopeAgent for a user, all scopes for an administrator
}

// Allows reports whether the principal has the scope.
func (p *Principal) Allows(s Scope) bool { return slices.Contains(p.Scopes, s) }

// Anonymous stands for an organization in the context of work for requests without an accepted credential, or whose
// credential is to be looked up. It is not the id of one.
const Anonymous = "anonymous"

// organizationKey is the context key of an organization id.
type organizationKey struct{}

// WithOrganization returns a context for work on behalf of an organization, or of Anonymous. Stores use it to share
// their connections between organizations. Work of the server itself has none. It grants no permissions.
func WithOrganization(ctx context.Context, organizationID string) context.Context {
	return context.WithValue(ctx, organizationKey{}, organizationID)
}

// OrganizationOf returns the id set by WithOrganization, or "".
func OrganizationOf(ctx context.Context) string {
	id, _ := ctx.Value(organizationKey{}).(string)
	return id
}
