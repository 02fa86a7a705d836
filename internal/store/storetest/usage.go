// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/delta"
	"assay/internal/rules/catalog"
)

// records is a delta with log records of one severity.
func records(org string, severity assay.Severity, n uint64) *delta.Delta {
	d := new(delta.Delta)
	d.Organization(org).LogRecords[severity] = n
	return d
}

func testLogRecords(t *testing.T, s *suite) {
	counted := func(st Store) map[string]assay.SeverityCounts {
		t.Helper()
		got, err := st.LogRecords(s.ctx())
		require.NoError(t, err)
		return got
	}
	a, b, silent := s.organization(), s.organization(), s.organization()
	s.seen(silent, named("a"), catalog.RES001, false)
	require.Empty(t, counted(s))

	// Whatever the handle and the group, all of it is there.
	other := s.handle()
	want := make(map[string]assay.SeverityCounts)
	for i := range uint64(6) {
		group := new(delta.Delta)
		for severity := range assay.SeverityCount {
			for org, n := range map[string]uint64{a: i + 1, b: uint64(severity) << 40} {
				group.Merge(records(org, severity, n))
				counts := want[org]
				counts[severity] += n
				want[org] = counts
			}
		}
		st := []Store{s, other}[i%2]
		require.NoError(t, st.Commit(s.ctx(), s.clock.now(), nil, func([]bool) *delta.Delta { return group }))
		require.Equal(t, want, counted(s))
	}

	// What a failed commit added is not there, and an expiry takes nothing away.
	d := records(a, assay.SeverityInfo, 5)
	d.Merge(records(unknownID, assay.SeverityInfo, 5))
	code(t, assay.CodeNotFound, s.Commit(s.ctx(), s.clock.now(), nil, func([]bool) *delta.Delta { return d }))
	s.clock.advance(200 * 24 * time.Hour)
	now := bucket(s.clock.now())
	s.expire(now, now)
	require.Equal(t, want, counted(s))
	require.ElementsMatch(t, []string{a, b}, slices.Collect(maps.Keys(counted(s))))

	require.NoError(t, other.Close())
	require.NoError(t, s.Store.Close())
	s.Store = s.handle()
	require.Equal(t, want, counted(s), "after a restart")
}
