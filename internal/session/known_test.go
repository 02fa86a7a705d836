// SPDX-License-Identifier: Apache-2.0

package session

import (
	"encoding/binary"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay"
)

// found returns the organizations for which sessions were looked up.
func (b *broken) found() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.lookups)
}

// TestLookupsTakeTurns checks that the lookup of a session that was found before is queued under its
// organization, as is the lookup of a key that signs in. Lookups of made-up cookies are queued as one organization.
func TestLookupsTakeTurns(t *testing.T) {
	f := newFixture(t, false, nil)
	secret, _ := f.key(f.org, "a", time.Time{}, assay.ScopeRead)
	u, err := url.Parse(f.server.URL)
	require.NoError(t, err)
	b := f.browser()
	b.signIn(secret)
	require.Equal(t, []string{f.org}, f.store.keys)
	before := len(f.store.found())
	b.page()
	b.page()
	stranger := f.browser()
	stranger.Jar.SetCookies(u, []*http.Cookie{{Name: sessionCookie, Value: newSecret().String(), Path: "/"}})
	stranger.page()
	stranger.page()
	require.Equal(t, []string{f.org, f.org, assay.Anonymous, assay.Anonymous}, f.store.found()[before:])
	hash := tokenOf(t, b).hash()
	require.NoError(t, f.store.DeleteSession(t.Context(), hash))
	b.page()
	b.page()
	require.Equal(t, []string{f.org, assay.Anonymous}, f.store.found()[before+4:])
}

func TestKnownSessionsAreBounded(t *testing.T) {
	var k knownSessions
	var hash [32]byte
	for i := range uint64(maxKnown + 10) {
		binary.LittleEndian.PutUint64(hash[:], i)
		k.set(hash, "org")
		require.Equal(t, "org", k.organization(hash))
	}
	require.Len(t, k.organizations, maxKnown)
	k.set(hash, "")
	require.Equal(t, assay.Anonymous, k.organization(hash))
}
