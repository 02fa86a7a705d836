// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay/internal/delta"
	"assay/internal/rules/catalog"
	"assay/internal/store/inspect"
)

func (s *suite) TestStats(t *testing.T) {
	st := must(s.Stats(s.ctx()))(t)
	require.Zero(t, st.Services())
	require.True(t, st.Oldest.IsZero())
	require.True(t, st.Newest.IsZero())
	require.Zero(t, st.Span())

	org := s.organization()
	s.organization()
	s.seen(org, named("a"), catalog.RES001, true)
	s.seen(org, named("b"), catalog.RES001, false)
	hour := bucket(epoch)
	s.commit(one(org, named("a"), func(f *delta.Service) { f.Counts(hour - 2*3600)[catalog.RES001].Add(delta.Count{Observed: 1}) }))
	s.commit(one(org, named("a"), func(f *delta.Service) { f.Counts(hour + 3600)[catalog.RES001].Add(delta.Count{Observed: 1}) }))
	st = must(s.Stats(s.ctx()))(t)
	require.EqualValues(t, 2, st.Organizations())
	require.EqualValues(t, 2, st.Services())
	require.True(t, st.Newest.Equal((hour + 3600).Time()), "%v", st.Newest)
	require.True(t, st.Oldest.Equal((hour - 2*3600).Time()), "%v", st.Oldest)
	require.Equal(t, 4*time.Hour, st.Span())
	require.Positive(t, st.PerServiceMonth())

	require.True(t, slices.IsSortedFunc(st.Tables, func(a, b inspect.Table) int { return strings.Compare(a.Name, b.Name) }))
	var bytes int64
	for _, table := range st.Tables {
		bytes += table.Bytes
	}
	require.Positive(t, st.Table("hours").Bytes)
	require.GreaterOrEqual(t, st.Bytes, bytes)
	require.LessOrEqual(t, st.Free+st.Log, st.Bytes)
	require.Equal(t, inspect.Table{Name: "none"}, st.Table("none"))
}

func (s *suite) TestSchema(t *testing.T) {
	schema := must(s.Schema(s.ctx()))(t)
	require.NoError(t, schema.Check())
	require.Positive(t, schema.Version)
	require.Equal(t, schema.Known, schema.Version)
	require.Positive(t, schema.CompatibleSince, "the migrations record the compatible versions")
	require.LessOrEqual(t, schema.CompatibleSince, schema.Version)
	require.Equal(t, schema, must(s.Stats(s.ctx()))(t).Schema)
}
