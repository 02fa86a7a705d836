// SPDX-License-Identifier: Apache-2.0

package seal

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/internal/auth"
)

func TestBox(t *testing.T) {
	secret := auth.Secret(strings.Repeat("s", 32))
	box, err := New(secret, "one")
	require.NoError(t, err)
	require.True(t, box.Encrypts())
	sealed := box.Seal(nil, "id", []byte("swordfish"))
	require.NotContains(t, string(sealed), "swordfish")
	require.NotEqual(t, sealed, box.Seal(nil, "id", []byte("swordfish")))
	text, err := box.Open("id", sealed)
	require.NoError(t, err)
	require.Equal(t, "swordfish", string(text))

	none, err := New("", "one")
	require.NoError(t, err)
	require.False(t, none.Encrypts())
	other, err := New(secret, "two")
	require.NoError(t, err)
	changed := append([]byte{}, sealed...)
	changed[20] ^= 1
	for name, open := range map[string]func() ([]byte, error){
		"another id":      func() ([]byte, error) { return box.Open("di", sealed) },
		"another purpose": func() ([]byte, error) { return other.Open("id", sealed) },
		"no secret":       func() ([]byte, error) { return none.Open("id", sealed) },
		"changed":         func() ([]byte, error) { return box.Open("id", changed) },
		"cut":             func() ([]byte, error) { return box.Open("id", sealed[:5]) },
		"nothing":         func() ([]byte, error) { return box.Open("id", nil) },
		"with a prefix":   func() ([]byte, error) { return box.Open("id", append([]byte{9}, sealed...)) },
	} {
		text, err := open()
		require.Error(t, err, name)
		require.Nil(t, text, name)
	}
}
