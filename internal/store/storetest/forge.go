// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"crypto/sha256"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay"
)

// TestConnectedInstallations finds installations and repositories of several organizations by their names at a source
// host, and changes what webhooks and processes with the same credential change.
func (s *suite) TestConnectedInstallations(t *testing.T) {
	ctx := s.ctx()
	var all []*assay.Installation
	var repos []*assay.Repository
	for n, provider := range []string{"github", "github", "gitlab"} {
		i := &assay.Installation{OrganizationID: s.organization(), Provider: provider, ExternalID: "42", Account: odd, OwnerID: int64(n) << 40, Status: assay.InstallationActive, Credential: []byte{byte(n)}}
		require.NoError(t, s.SaveInstallation(ctx, i))
		all = append(all, i)
		repos = append(repos, s.repositories(i, "acme/shop", "acme/idle")[0])
		require.NoError(t, errOf(s.ActivateRepositories(ctx, i.OrganizationID, []string{repos[n].ID}, true, 10)))
	}
	s.installation(s.organization()) // without an external id

	connected := must(s.ConnectedInstallations(ctx, "github", "42"))(t)
	require.Equal(t, all[:2], connected)
	for _, id := range []string{"", "43"} {
		require.Empty(t, must(s.ConnectedInstallations(ctx, "github", id))(t))
	}
	ids := func(provider, name string) (found []string) {
		t.Helper()
		connected := must(s.ConnectedRepositories(ctx, provider, name))(t)
		for _, r := range connected {
			found = append(found, r.ID)
		}
		return found
	}
	require.Equal(t, []string{repos[0].ID, repos[1].ID}, ids("github", "acme/shop"))
	require.Equal(t, []string{repos[2].ID}, ids("gitlab", "acme/shop"))
	require.Empty(t, ids("github", "acme/idle"), "it is not active")
	require.Empty(t, ids("gitea", "acme/shop"))

	due := func() int {
		t.Helper()
		found := must(s.DueRepositories(ctx, s.clock.now().Add(-time.Hour), 10))(t)
		return len(found)
	}
	require.Equal(t, 3, due())
	first := all[0]
	require.NoError(t, s.SetInstallationState(ctx, first.OrganizationID, first.ID, assay.InstallationSuspended, odd+strings.Repeat("x", assay.MaxMessageBytes)))
	require.Equal(t, 2, due(), "suspended")
	repos[1].Access = assay.AccessDenied
	require.NoError(t, s.SaveRepositories(ctx, repos[1].OrganizationID, []*assay.Repository{repos[1]}))
	require.Equal(t, 1, due(), "denied")
	code(t, assay.CodeNotFound, s.SetInstallationState(ctx, all[1].OrganizationID, first.ID, assay.InstallationActive, ""))

	// One of several processes replaces a credential.
	require.Equal(t, 1, s.race(8, "", func(n int, st Store) (bool, error) {
		return st.ReplaceCredential(ctx, first.OrganizationID, first.ID, []byte{0}, []byte{100, byte(n)})
	}))
	require.False(t, must(s.ReplaceCredential(ctx, all[1].OrganizationID, first.ID, []byte{0}, []byte{1}))(t))
	found := must(s.Installations(ctx, first.OrganizationID))(t)
	require.Equal(t, assay.InstallationSuspended, found[0].Status)
	require.Len(t, found[0].Credential, 2)
}

// TestOnboardingStates takes states once, until they expire.
func (s *suite) TestOnboardingStates(t *testing.T) {
	ctx := s.ctx()
	org, other := s.organization(), s.organization()
	hash := func(n int) [32]byte { return sha256.Sum256([]byte(strconv.Itoa(n))) }
	save := func(org string, n int, life time.Duration) *assay.OnboardingState {
		t.Helper()
		state := &assay.OnboardingState{Hash: hash(n), OrganizationID: org, Provider: "gitea", Verifier: odd, CreatedBy: odd, Write: n%2 == 0, ExpiresAt: s.clock.now().Add(life).Truncate(time.Microsecond)}
		require.NoError(t, s.SaveOnboardingState(ctx, state))
		return state
	}
	first := save(org, 0, time.Minute)
	code(t, assay.CodeConflict, s.SaveOnboardingState(ctx, first))
	code(t, assay.CodeNotFound, s.SaveOnboardingState(ctx, &assay.OnboardingState{Hash: hash(99), OrganizationID: unknownID}))
	code(t, assay.CodeInvalid, s.SaveOnboardingState(ctx, &assay.OnboardingState{Hash: hash(99), OrganizationID: org, CreatedBy: strings.Repeat("x", assay.MaxCodeTextBytes+1)}))
	for range 2 {
		found := must(s.OnboardingState(ctx, first.Hash, s.clock.now()))(t)
		require.Equal(t, first, found)
	}
	code(t, assay.CodeNotFound, errOf(s.OnboardingState(ctx, first.Hash, first.ExpiresAt)))
	code(t, assay.CodeNotFound, errOf(s.TakeOnboardingState(ctx, first.Hash, first.ExpiresAt)))

	require.Equal(t, 1, s.race(8, assay.CodeNotFound, func(_ int, st Store) (bool, error) {
		found, err := st.TakeOnboardingState(ctx, first.Hash, s.clock.now())
		return err == nil && found.OrganizationID == org, err
	}))

	// An organization keeps the newest, and takes none of another.
	save(other, 1000, time.Minute)
	for n := range assay.MaxOnboardingStates + 1 {
		save(org, n+1, time.Duration(n+1)*time.Minute)
	}
	code(t, assay.CodeNotFound, errOf(s.OnboardingState(ctx, hash(1), s.clock.now())))
	for _, n := range []int{2, assay.MaxOnboardingStates + 1, 1000} {
		require.NoError(t, errOf(s.OnboardingState(ctx, hash(n), s.clock.now())), n)
	}
	before := s.clock.now()
	require.NoError(t, s.ExpireCodebase(ctx, before.Add(150*time.Second)))
	code(t, assay.CodeNotFound, errOf(s.OnboardingState(ctx, hash(2), before)))
	require.NoError(t, errOf(s.OnboardingState(ctx, hash(3), before)))
}
