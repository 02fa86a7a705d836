// SPDX-License-Identifier: Apache-2.0

package assay

import "slices"

// Principal is who makes a request, as its credential tells.
type Principal struct {
	OrganizationID string
	Subject        string  // "key:<key id>" or an identity provider's subject
	User           bool    // a person's session at an identity provider, not an API key
	Scopes         []Scope // of an API key; a user has ScopeRead and ScopeAgent
}

// Allows tells whether the principal has the scope.
func (p *Principal) Allows(s Scope) bool { return slices.Contains(p.Scopes, s) }
