// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"crypto/sha256"

	"assay/internal/fair"
)

// maxVerified is the number of tokens that are remembered, shared by the organizations.
const maxVerified = 4096

// verifiedTokens remembers hashes of tokens whose signatures were verified. When it is full, the organization with the
// most tokens loses its least recently used one, so that no organization displaces the tokens of others that have fewer.
// It is not safe for concurrent use.
type verifiedTokens struct {
	shares *fair.Shares
	tokens map[string]*cache[[sha256.Size]byte, struct{}] // by organization
}

func newVerifiedTokens() *verifiedTokens {
	return &verifiedTokens{shares: fair.NewShares(maxVerified), tokens: make(map[string]*cache[[sha256.Size]byte, struct{}])}
}

func (v *verifiedTokens) has(organization string, hash [sha256.Size]byte) bool {
	c := v.tokens[organization]
	return c != nil && c.get(hash) != nil
}

func (v *verifiedTokens) add(organization string, hash [sha256.Size]byte) {
	if v.has(organization, hash) {
		return
	}
	if loser, full := v.shares.GivesWay(organization, 1); full {
		if c := v.tokens[loser]; c == nil { // so many organizations have one token each, most of them expired
			*v = *newVerifiedTokens()
		} else {
			c.evict()
			if v.shares.Add(loser, -1); c.len() == 0 {
				delete(v.tokens, loser)
			}
		}
	}
	c := v.tokens[organization]
	if c == nil {
		c = newCache[[sha256.Size]byte, struct{}](maxVerified)
		v.tokens[organization] = c
	}
	c.put(hash, new(struct{}))
	v.shares.Add(organization, 1)
}
