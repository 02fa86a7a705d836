// SPDX-License-Identifier: Apache-2.0

package sign

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/auth"
	"assay/internal/auth/seal"
)

// Two secrets.
var (
	secretA = auth.Secret(bytes.Repeat([]byte{0xa7}, secretSize))
	secretB = auth.Secret(bytes.Repeat([]byte{0xb3}, secretSize))
)

func vaultOf(t testing.TB, secret auth.Secret) *vault {
	t.Helper()
	v, err := newVault(secret)
	require.NoError(t, err)
	return v
}

func TestOpen(t *testing.T) {
	for _, secret := range []auth.Secret{"", secretA} {
		v := vaultOf(t, secret)
		k, err := v.generate()
		require.NoError(t, err)
		require.Equal(t, secret != "", Sealed(k))
		private, err := v.open(k)
		require.NoError(t, err)
		require.True(t, ed25519.Verify(k.Public, []byte("x"), ed25519.Sign(private, []byte("x"))))
		require.Equal(t, secret == "", bytes.Contains(k.Private, private.Seed()), "unencrypted only without a secret")
	}

	v := vaultOf(t, secretA)
	sealed, err := v.generate()
	require.NoError(t, err)
	clear, err := vaultOf(t, "").generate()
	require.NoError(t, err)
	with := func(k *assay.SigningKey, change func(*assay.SigningKey)) *assay.SigningKey {
		c := *k
		c.Public, c.Private = bytes.Clone(k.Public), bytes.Clone(k.Private)
		change(&c)
		return &c
	}
	for name, c := range map[string]struct {
		secret auth.Secret
		key    *assay.SigningKey
		want   error
	}{
		"no secret":       {"", sealed, seal.ErrNoSecret},
		"another secret":  {secretB, sealed, seal.ErrOtherSecret},
		"another id":      {secretA, with(sealed, func(k *assay.SigningKey) { k.ID = clear.ID }), seal.ErrOtherSecret},
		"a changed byte":  {secretA, with(sealed, func(k *assay.SigningKey) { k.Private[20] ^= 1 }), seal.ErrOtherSecret},
		"cut":             {secretA, with(sealed, func(k *assay.SigningKey) { k.Private = k.Private[:10] }), seal.ErrOtherSecret},
		"short seed":      {"", with(clear, func(k *assay.SigningKey) { k.Private = k.Private[:32] }), errMalformed},
		"unknown format":  {secretA, with(sealed, func(k *assay.SigningKey) { k.Private[0] = 3 }), errMalformed},
		"nothing":         {secretA, with(sealed, func(k *assay.SigningKey) { k.Private = nil }), errMalformed},
		"another's half":  {"", with(clear, func(k *assay.SigningKey) { k.Private[5] ^= 1 }), errHalves},
		"public of other": {secretA, with(sealed, func(k *assay.SigningKey) { k.Public = clear.Public }), errHalves},
	} {
		_, err := vaultOf(t, c.secret).open(c.key)
		require.ErrorIs(t, err, c.want, name)
	}
}

// TestSecretOfAStore migrates a store from unencrypted to encrypted keys, with missing, wrong and changed
// secrets.
func TestSecretOfAStore(t *testing.T) {
	var log journal
	now := new(clock)
	store := open(t, "", now.now)
	start := func(secret auth.Secret) (*Signer, error) {
		return New(t.Context(), Config{Store: store, Issuer: testIssuer, Audience: testAudience, Secret: secret, Now: now.now, Logger: log.logger()})
	}
	allSealed := func() bool {
		t.Helper()
		keys, err := store.FindSigningKeys(t.Context())
		require.NoError(t, err)
		require.NotEmpty(t, keys)
		for _, k := range keys {
			if !Sealed(k) {
				return false
			}
		}
		return true
	}

	clear, err := start("")
	require.NoError(t, err)
	rotate(t, Rotation{Store: store, Now: now.now})
	require.False(t, allSealed())
	stored, err := store.FindSigningKeys(t.Context())
	require.NoError(t, err)

	// The next start with a secret encrypts the key, which does not change. Servers without the secret
	// continue.
	with, err := start(secretA)
	require.NoError(t, err)
	require.True(t, allSealed())
	require.Equal(t, kid(t, clear.mustSign(t)), kid(t, with.mustSign(t)))
	require.NoError(t, clear.refresh(t.Context()))
	require.Equal(t, kid(t, with.mustSign(t)), kid(t, clear.mustSign(t)))

	for _, wrong := range []auth.Secret{"", secretB} {
		_, err = start(wrong)
		require.ErrorContains(t, err, "secret key file", "not to be started")
		_, err = Rotate(t.Context(), Rotation{Store: store, Secret: wrong, Now: now.now})
		require.ErrorContains(t, err, "secret key file")
	}

	// So does a rotation.
	now.advance(retention + settled)
	rotate(t, Rotation{Store: store, Secret: secretA, Now: now.now})
	require.True(t, allSealed())
	require.NoError(t, with.refresh(t.Context()))
	now.advance(settling)
	old := kid(t, with.mustSign(t))

	// After a change of the secret, servers with the old one publish the new key and sign with the old key.
	// Servers with the new one sign with the new key.
	next := rotate(t, Rotation{Store: store, Secret: secretB, ReplaceSecret: true, Now: now.now})
	require.NoError(t, with.refresh(t.Context()))
	now.advance(settling)
	require.Equal(t, old, kid(t, with.mustSign(t)))
	require.Contains(t, with.kids(t), next)
	changed, err := start(secretB)
	require.NoError(t, err)
	require.Equal(t, next, kid(t, changed.mustSign(t)))
	require.Equal(t, with.kids(t), changed.kids(t))
	_, err = start(secretA)
	require.ErrorContains(t, err, "another secret")
	require.Equal(t, 1, strings.Count(log.String(), "key_id="+next+" error"), log.String())

	// Neither logs nor errors contain a secret or a key.
	output := log.String() + err.Error()
	for _, k := range stored {
		seed := k.Private[1:]
		for _, secret := range []string{string(seed), hex.EncodeToString(seed), base64.StdEncoding.EncodeToString(seed), base64.RawURLEncoding.EncodeToString(seed)} {
			require.NotContains(t, output, secret)
		}
	}
	for _, secret := range []auth.Secret{secretA, secretB} {
		require.NotContains(t, output, string(secret))
		require.NotContains(t, output, hex.EncodeToString([]byte(secret)))
	}
}

// TestRotationEncrypts encrypts unencrypted keys in a rotation, for a server that has the secret as well.
func TestRotationEncrypts(t *testing.T) {
	now := new(clock)
	store := open(t, "", now.now)
	s := newSigner(t, Config{Store: store, Now: now.now})
	rotate(t, Rotation{Store: store, Secret: secretA, Now: now.now})
	keys, err := store.FindSigningKeys(t.Context())
	require.NoError(t, err)
	require.Len(t, keys, 2)
	require.True(t, Sealed(keys[0]) && Sealed(keys[1]))
	require.Equal(t, keys[0].ID, kid(t, s.mustSign(t)))

	sealed := newSigner(t, Config{Store: store, Now: now.now, Secret: secretA})
	rotate(t, Rotation{Store: store, ReplaceSecret: true, Now: now.now})
	require.NoError(t, sealed.refresh(t.Context()))
	keys, err = store.FindSigningKeys(t.Context())
	require.NoError(t, err)
	require.Len(t, keys, 3)
	require.True(t, Sealed(keys[2]), "a running server encrypts a key that came in clear")
}

func TestParseSecret(t *testing.T) {
	raw := []byte("\x00\n0123456789abcdef\xff\xfe\xfd\xfc\xfb\xfa\xf9\xf8\xf7\xf6\xf5\xf4\r\n")
	require.Len(t, raw, secretSize)
	for name, file := range map[string]string{
		"raw":           string(raw),
		"hex":           hex.EncodeToString(raw),
		"upper hex":     strings.ToUpper(hex.EncodeToString(raw)),
		"hex line":      hex.EncodeToString(raw) + "\r\n",
		"base64":        base64.StdEncoding.EncodeToString(raw) + "\n",
		"base64 no pad": base64.RawStdEncoding.EncodeToString(raw),
		"base64url":     " " + base64.URLEncoding.EncodeToString(raw),
	} {
		got, err := ParseSecret([]byte(file))
		require.NoError(t, err, name)
		require.Equal(t, string(raw), string(got), name)
	}
	for name, file := range map[string]string{
		"nothing":      "",
		"white space":  " \n",
		"password":     "swordfish swordfish swordfish!!!",
		"32 digits":    "0123456789abcdef0123456789abcdef",
		"31 bytes":     hex.EncodeToString(raw[:31]),
		"33 bytes":     hex.EncodeToString(raw) + "00",
		"33 raw bytes": string(raw) + "\xff",
		"two lines":    hex.EncodeToString(raw[:16]) + "\n" + hex.EncodeToString(raw[16:]),
	} {
		got, err := ParseSecret([]byte(file))
		require.ErrorIs(t, err, errSecretForm, name)
		require.Empty(t, string(got), name)
		require.NotContains(t, err.Error(), "swordfish")
	}
}

// FuzzOpen opens arbitrary stored forms: none opens except as a key whose halves match, and none panics.
func FuzzOpen(f *testing.F) {
	v := vaultOf(f, secretA)
	for _, w := range []*vault{v, vaultOf(f, "")} {
		k, err := w.generate()
		require.NoError(f, err)
		f.Add(k.ID, k.Public, k.Private)
	}
	f.Add("", []byte{}, []byte{})
	f.Add("x", []byte{}, []byte{formatSealed})
	f.Add("x", make([]byte, 32), append([]byte{formatClear}, make([]byte, 32)...))
	f.Fuzz(func(t *testing.T, id string, public, private []byte) {
		k := &assay.SigningKey{ID: id, Public: public, Private: private}
		opened, err := v.open(k)
		if err != nil {
			require.Nil(t, opened)
			return
		}
		require.True(t, ed25519.Verify(public, []byte("x"), ed25519.Sign(opened, []byte("x"))))
		again, err := v.open(&assay.SigningKey{ID: id, Public: public, Private: v.wrap(id, opened)})
		require.NoError(t, err)
		require.Equal(t, opened, again)
	})
}

// FuzzParseSecret parses arbitrary files: an accepted secret has the right size and equals its hexadecimal
// form.
func FuzzParseSecret(f *testing.F) {
	f.Add([]byte(secretA))
	f.Add([]byte(hex.EncodeToString([]byte(secretA)) + "\n"))
	f.Add([]byte(base64.StdEncoding.EncodeToString([]byte(secretA))))
	f.Add([]byte("==="))
	f.Fuzz(func(t *testing.T, file []byte) {
		got, err := ParseSecret(file)
		if err != nil {
			require.Empty(t, string(got))
			return
		}
		require.Len(t, string(got), secretSize)
		again, err := ParseSecret([]byte(hex.EncodeToString([]byte(got))))
		require.NoError(t, err)
		require.Equal(t, string(got), string(again))
	})
}
