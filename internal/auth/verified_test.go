// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestVerifiedTokensOfOrganizations: an organization with many tokens does not displace those of another one.
func TestVerifiedTokensOfOrganizations(t *testing.T) {
	hash := func(n int) [sha256.Size]byte { return sha256.Sum256(binary.AppendVarint(nil, int64(n))) }
	v := newVerifiedTokens()
	for n := range maxVerified {
		v.add("large", hash(n))
	}
	require.True(t, v.has("large", hash(0)))
	require.False(t, v.has("small", hash(0)), "a token is of one organization")
	v.add("small", hash(0))
	require.True(t, v.has("small", hash(0)))
	require.False(t, v.has("large", hash(1)), "its least recently used one")
	for n := range 2 * maxVerified {
		v.add("large", hash(maxVerified+n))
	}
	require.True(t, v.has("small", hash(0)))
	require.EqualValues(t, maxVerified, v.shares.Total())
	require.EqualValues(t, maxVerified-1, v.tokens["large"].len())
	for n := range maxVerified {
		v.add("small", hash(n))
	}
	require.EqualValues(t, maxVerified/2, v.shares.Held("large"), "half each")
	v.add("small", hash(0))
	require.EqualValues(t, maxVerified, v.shares.Total(), "a token counts once")

	v = newVerifiedTokens()
	for n := range maxVerified {
		v.add(strconv.Itoa(n), hash(n))
	}
	v.add("one more", hash(0))
	require.True(t, v.has("one more", hash(0)))
	require.EqualValues(t, 1, v.shares.Total())
}
