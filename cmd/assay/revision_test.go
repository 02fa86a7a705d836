// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/delta"
	"assay/internal/store/sqlite"
)

func TestRevision(t *testing.T) {
	s, err := sqlite.Open(t.Context(), sqlite.Config{})
	require.NoError(t, err)
	defer s.Close()
	r := newRevised(s)
	var ids []string
	for _, name := range []string{"a", "b"} {
		o := &assay.Organization{Name: name, Tier: assay.TierFree}
		require.NoError(t, r.CreateOrganization(t.Context(), o))
		ids = append(ids, o.ID)
	}
	now := time.Now()
	commit := func(id string) func() error {
		return func() error {
			return r.Commit(t.Context(), now, nil, func([]bool) *delta.Delta {
				d := new(delta.Delta)
				d.Organization(id).Service(assay.ServiceKey{Name: "x"}).Seen(uint64(now.UnixNano()))
				return d
			})
		}
	}
	const gone = "00000000-0000-4000-8000-000000000000"
	mean := 50.0
	for name, change := range map[string]struct {
		do    func() error
		moves [2]bool
	}{
		"commit":             {commit(ids[0]), [2]bool{true, false}},
		"empty commit":       {func() error { return r.Commit(t.Context(), now, nil, func([]bool) *delta.Delta { return nil }) }, [2]bool{}},
		"scores":             {func() error { return r.SaveScores(t.Context(), delta.Fence{}, ids[1], nil) }, [2]bool{false, true}},
		"organization score": {func() error { return r.SaveOrganizationScore(t.Context(), delta.Fence{}, ids[1], &mean, now) }, [2]bool{false, true}},
		"expiry":             {func() error { return r.Expire(t.Context(), now, 0, 0) }, [2]bool{true, true}},
		"read":               {func() error { _, err := r.FindOrganizations(t.Context()); return err }, [2]bool{}},
	} {
		before := [2]uint64{r.Revision(ids[0]), r.Revision(ids[1])}
		require.NoError(t, change.do(), name)
		for i, id := range ids {
			require.Equal(t, change.moves[i], r.Revision(id) != before[i], "%s: organization %d", name, i)
		}
	}
	before := r.Revision(gone)
	require.Error(t, commit(gone)())
	require.NotEqual(t, before, r.Revision(gone), "who cannot tell whether it was committed says that it was")
}
