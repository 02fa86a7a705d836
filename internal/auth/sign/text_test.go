// SPDX-License-Identifier: Apache-2.0

package sign

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSignText checks that every replica verifies a text that another one signed, for the same purpose and
// while the key is published.
func TestSignText(t *testing.T) {
	c := new(clock)
	store := open(t, "", c.now)
	one, other := newSigner(t, Config{Store: store, Now: c.now}), newSigner(t, Config{Store: store, Now: c.now})
	signed, err := one.SignText("test", "1.a-b_c")
	require.NoError(t, err)
	require.True(t, strings.HasSuffix(signed, ".1.a-b_c"), signed)
	text, ok := other.VerifyText("test", signed)
	require.True(t, ok)
	require.Equal(t, "1.a-b_c", text)

	token := one.mustSign(t)
	for _, forged := range []string{"", ".", "..", signed + "x", "x" + signed, signed[:len(signed)-1], strings.Replace(signed, ".1.", ".2.", 1), "1.a-b_c", token} {
		_, ok := other.VerifyText("test", forged)
		require.False(t, ok, forged)
	}
	_, ok = other.VerifyText("tes", signed)
	require.False(t, ok, "of another purpose")
	_, ok = other.VerifyText("", signed)
	require.False(t, ok)
}
