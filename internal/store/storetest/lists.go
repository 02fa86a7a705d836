// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/delta"
	"assay/internal/rules/catalog"
)

// ListStore is what pages for people ask of a store.
type ListStore interface {
	assay.SessionStore
	assay.ServiceLister
	assay.OverviewStore
	ServiceClaims(ctx context.Context, organizationID, serviceID string, since, metricSince delta.Bucket) (map[catalog.Rule]delta.ClaimCount, error)
}

// lists is a store under test that is a ListStore, too.
type lists struct {
	*suite
	ListStore
}

// RunLists runs the part of the suite that is about ListStore.
func RunLists(t *testing.T, make func(t testing.TB, now func() time.Time) Opener) {
	for _, part := range []struct {
		name string
		run  func(t *testing.T, s *lists)
	}{
		{"Sessions", testSessions},
		{"SessionKeys", testSessionKeys},
		{"SessionLimits", testSessionLimits},
		{"SessionRace", testSessionRace},
		{"ServiceRows", testServiceRows},
		{"ServiceCounts", testServiceCounts},
		{"ServiceVersions", testServiceVersions},
		{"Courses", testCourses},
		{"ScoreGroups", testScoreGroups},
		{"ServiceClaims", testServiceClaims},
		{"ListIsolation", testListIsolation},
	} {
		t.Run(part.name, func(t *testing.T) {
			s := newSuite(t, make)
			st, ok := s.Store.(ListStore)
			require.True(t, ok)
			part.run(t, &lists{s, st})
		})
	}
}
