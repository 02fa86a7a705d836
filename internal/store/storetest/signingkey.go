// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay"
)

func signingKey(id string) *assay.SigningKey {
	return &assay.SigningKey{ID: id, Public: []byte("public half of " + id), Private: []byte("\x00private half\xff of " + id)}
}

// signingKeys requires that a handle has exactly these keys.
func (s *suite) signingKeys(st Store, want ...*assay.SigningKey) {
	s.t.Helper()
	got := must(st.FindSigningKeys(s.ctx()))(s.t)
	if len(want) == 0 {
		require.Empty(s.t, got)
		return
	}
	require.Equal(s.t, want, got)
}

func (s *suite) TestCredentialKey(t *testing.T) {
	claim := func(st Store, fingerprint int64, replace bool, want int64) {
		t.Helper()
		require.Equal(t, want, must(st.ClaimCredentialKey(s.ctx(), fingerprint, replace))(t))
	}
	claim(s, 1, false, 1)
	claim(s, 2, false, 1)
	claim(s.handle(), 2, true, 2)
	claim(s, 1, false, 2)
}

func (s *suite) TestSigningKeys(t *testing.T) {
	ctx := s.ctx()
	s.signingKeys(s)
	a, b, c := signingKey("a"), signingKey("c"), signingKey("b") // the order is not that of ids
	require.NoError(t, s.CreateSigningKey(ctx, a))
	require.Equal(t, micro(epoch), a.CreatedAt)
	late := signingKey("late")
	code(t, assay.CodeConflict, s.CreateSigningKey(ctx, late))
	require.Zero(t, late.CreatedAt)
	s.signingKeys(s, a)

	// Nor that of a clock, which may go back.
	s.clock.advance(-time.Hour)
	require.NoError(t, s.RotateSigningKey(ctx, b))
	a.RetiredAt = b.CreatedAt
	require.Equal(t, micro(s.clock.now()), b.CreatedAt)
	s.clock.advance(time.Hour)
	require.NoError(t, s.RotateSigningKey(ctx, c))
	b.RetiredAt = c.CreatedAt
	s.signingKeys(s, a, b, c)

	// A failed call changes nothing.
	code(t, assay.CodeConflict, s.RotateSigningKey(ctx, signingKey(a.ID)))
	code(t, assay.CodeConflict, s.RotateSigningKey(ctx, signingKey(c.ID)))
	code(t, assay.CodeConflict, s.CreateSigningKey(ctx, late))
	s.signingKeys(s, a, b, c)

	sealed := []byte("sealed")
	require.NoError(t, s.ReplacePrivateKey(ctx, b.ID, b.Private, sealed))
	require.NoError(t, s.ReplacePrivateKey(ctx, b.ID, b.Private, []byte("too late")))
	require.NoError(t, s.ReplacePrivateKey(ctx, "nobody", b.Private, sealed))
	b.Private = sealed
	s.signingKeys(s, a, b, c)

	require.NoError(t, s.DeleteSigningKeys(ctx, a.RetiredAt))
	s.signingKeys(s, a, b, c)
	require.NoError(t, s.DeleteSigningKeys(ctx, a.RetiredAt.Add(time.Second)))
	s.signingKeys(s, b, c)
	require.NoError(t, s.DeleteSigningKeys(ctx, epoch.AddDate(100, 0, 0)))
	s.signingKeys(s, c)
	code(t, assay.CodeConflict, s.CreateSigningKey(ctx, late))

	d := signingKey("d")
	require.NoError(t, s.RotateSigningKey(ctx, d))
	c.RetiredAt = d.CreatedAt
	s.signingKeys(s.handle(), c, d)
	require.EqualValues(t, 2, s.rows()["signing_keys"])
	require.NoError(t, s.Store.Close())
	s.Store = s.handle()
	s.signingKeys(s, c, d)
}

// TestSigningKeyOfNone rotates without an existing key.
func (s *suite) TestSigningKeyOfNone(t *testing.T) {
	k := signingKey("k")
	require.NoError(t, s.RotateSigningKey(s.ctx(), k))
	s.signingKeys(s, k)
	code(t, assay.CodeConflict, s.CreateSigningKey(s.ctx(), signingKey("first")))
}

// TestSigningKeyRace: two processes start concurrently and then rotate concurrently.
func (s *suite) TestSigningKeyRace(t *testing.T) {
	const callers = 8
	require.Equal(t, 1, s.race(callers, assay.CodeConflict, func(i int, st Store) (bool, error) {
		return true, st.CreateSigningKey(s.ctx(), signingKey(fmt.Sprint("first ", i)))
	}))
	s.race(callers, "", func(i int, st Store) (bool, error) {
		return true, st.RotateSigningKey(s.ctx(), signingKey(fmt.Sprint("next ", i)))
	})
	keys := must(s.FindSigningKeys(s.ctx()))(t)
	require.Len(t, keys, 1+callers)
	for i, k := range keys {
		require.Equal(t, i == len(keys)-1, k.RetiredAt.IsZero(), "only the last one is not retired")
	}
}
