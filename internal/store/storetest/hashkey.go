// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/delta"
	"assay/internal/rules/catalog"
)

// HashOf returns a hash that differs between the hash keys of organizations.
func HashOf(t testing.TB, st Store, organizationID string) uint64 {
	t.Helper()
	k := must(st.HashKey(t.Context(), organizationID))(t)
	return k.Sum64(delta.DomainMetric, nil)
}

func (s *suite) TestHashKeyRace(t *testing.T) {
	a, b := s.organization(), s.organization()
	var keys [8]delta.HashKey
	s.race(len(keys), "", func(i int, st Store) (_ bool, err error) {
		keys[i], err = st.HashKey(s.ctx(), a)
		return true, err
	})
	want := HashOf(t, s, a)
	for _, k := range keys {
		require.Equal(t, want, k.Sum64(delta.DomainMetric, nil), "the first caller creates it")
	}
	require.NotEqual(t, want, HashOf(t, s, b))
	code(t, assay.CodeNotFound, errOf(s.HashKey(s.ctx(), unknownID)))

	require.NoError(t, s.Store.Close())
	s.Store = s.handle()
	require.Equal(t, want, HashOf(t, s, a), "after a restart")
}

// TestWideClaims stores claims whose keys differ only in their upper half.
func (s *suite) TestWideClaims(t *testing.T) {
	org := s.organization()
	a, b := delta.ServiceID(org, named("a")), delta.ServiceID(org, named("b"))
	now := bucket(epoch)
	claim := func(name string, high, value uint64) {
		s.commit(one(org, named(name), func(f *delta.Service) {
			for _, r := range []catalog.Rule{catalog.MET003, catalog.RES002} {
				f.AddClaim(delta.Claim{Rule: r, Key: delta.Hash128{High: high, Low: 7}, Value: value}, delta.ClaimFact{Last: now})
			}
		}))
	}
	contested := func(id string) [4]uint64 {
		t.Helper()
		met := must(delta.CountClaims(s.ctx(), s.ClaimCounter(org, catalog.MET003, 0)))(t)
		res := must(delta.CountClaims(s.ctx(), s.ClaimCounter(org, catalog.RES002, 0)))(t)
		own := must(s.ServiceClaims(s.ctx(), org, id, 0, 0))(t)
		require.EqualValues(t, 1, met[id].Claims)
		return [4]uint64{met[id].Contested, res[id].Contested, own[catalog.MET003].Contested, own[catalog.RES002].Contested}
	}
	claim("a", 1, 1)
	claim("b", 2, 2)
	require.Equal(t, [4]uint64{}, contested(a))
	require.Equal(t, [4]uint64{}, contested(b))
	// Within a service the existing claim stays.
	claim("a", 2, 1)
	require.Equal(t, [4]uint64{}, contested(a))
	claim("c", 2, 3)
	require.Equal(t, [4]uint64{}, contested(a))
	require.Equal(t, [4]uint64{1, 1, 1, 1}, contested(b))
}

// OldOrganization is the id of the organization that TestUpgraded reads. Its facts are of services named a
// and b in OldBucket: units 10 and 11 of metric 77 (MET-003), days 20000 and 20001 with log records and 20000
// with DEBUG records of a, a set of SPA-003 and one of MET-001 of a with the key 0, both OldSet, and
// OldSeries of a.
const OldOrganization = "01234567-89ab-4cde-8f01-23456789abcd"

// OldBucket is the bucket of those facts.
var OldBucket = bucket(epoch)

// OldSeries is an encoded delta.Series of three hashes that are not keyed.
func OldSeries() []byte {
	b := binary.AppendUvarint([]byte{1, 1}, uint64(OldBucket))
	for n := range uint64(3) {
		b = append(binary.LittleEndian.AppendUint64(b, (n+1)<<60), 0)
	}
	return b
}

// OldSet is an encoded delta.Set of two hashes.
func OldSet() []byte {
	return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64([]byte{1}, 5), 6)
}

// TestUpgraded upgrades a store with facts of a version without keyed hashes. The services send the same
// telemetry again.
func TestUpgraded(t *testing.T, st Store) {
	org, ctx := OldOrganization, t.Context()
	a, b := delta.ServiceID(org, named("a")), delta.ServiceID(org, named("b"))
	key := must(st.HashKey(ctx, org))(t)
	require.Equal(t, key.Sum64(delta.DomainUnit, nil), func() uint64 {
		again := must(st.HashKey(ctx, org))(t)
		return again.Sum64(delta.DomainUnit, nil)
	}())
	counts := func(since delta.Bucket) map[string]delta.ClaimCount {
		t.Helper()
		return must(delta.CountClaims(ctx, st.ClaimCounter(org, catalog.MET003, since)))(t)
	}
	facts := func() *delta.Facts {
		t.Helper()
		fs := must(st.Facts(ctx, org, []string{a}, 0))(t)
		require.Len(t, fs, 1)
		return fs[0]
	}
	series := func() uint64 {
		t.Helper()
		usage := must(st.FindUsage(ctx, org))(t)
		for _, u := range usage {
			if u.Service.ID == a {
				return u.ActiveSeries
			}
		}
		return 0
	}
	names := func() []uint64 {
		t.Helper()
		known := must(st.KnownMetricNames(ctx, org))(t)
		return known[named("a")]
	}
	old := delta.ClaimCount{Claims: 1, Contested: 1, Keys: []string{"metric 77"}, Values: []string{"unit 10", "unit 11"}}
	require.Equal(t, map[string]delta.ClaimCount{a: old, b: old}, counts(0), "the conflict stays until it leaves the window")
	require.EqualValues(t, 2, facts().LogDays)
	require.EqualValues(t, 1, facts().DebugDays)
	require.EqualValues(t, 3, series())
	require.Empty(t, names(), "a quota does not count names twice")

	// The services have agreed on a unit in the meantime, and send the rest again.
	again := func() {
		t.Helper()
		name := key.Sum128(delta.DomainMetric, []byte("metric 77"))
		d := new(delta.Delta)
		for _, service := range []string{"a", "b"} {
			f := d.Organization(org).Service(named(service))
			f.AddClaim(delta.Claim{Rule: catalog.MET003, Key: name, Value: key.Sum64(delta.DomainUnit, []byte("unit 10"))},
				delta.ClaimFact{Last: OldBucket + 3600, KeyText: "metric 77", ValueText: "unit 10"})
		}
		f := d.Organization(org).Service(named("a"))
		f.AddUsage(OldBucket, delta.Metrics, delta.Usage{Items: 1, Bytes: 1})
		for _, day := range []uint64{20001, 20002} {
			f.AddClaim(delta.Claim{Rule: catalog.LOG001, Key: delta.Hash128{Low: delta.KeyLogDay}, Value: day}, delta.ClaimFact{Last: OldBucket + 3600})
		}
		f.AddClaim(delta.Claim{Rule: catalog.LOG001, Key: delta.Hash128{Low: delta.KeyDebugDay}, Value: 20000}, delta.ClaimFact{Last: OldBucket + 3600})
		for _, k := range []delta.DistinctKey{{Rule: catalog.SPA003, Key: delta.KeySpanNames}, {Rule: catalog.MET001, Key: 9}} {
			k.Hour = int64(OldBucket)
			set := f.DistinctSet(k, OldBucket, 3, "metric 77", "key")
			set.Add(5) // with the values of the old sets it would be full
			set.Add(7)
		}
		f.Series.Add(1<<60, OldBucket)
		f.Series.Add(2<<60, OldBucket)
		require.NoError(t, st.Commit(ctx, epoch, nil, func([]bool) *delta.Delta { return d }))
	}
	for range 2 {
		again()
		require.EqualValues(t, 1, counts(0)[a].Contested, "of the old conflict")
		require.Equal(t, map[string]delta.ClaimCount{a: {Claims: 1}, b: {Claims: 1}}, counts(OldBucket+3600), "no new one")
		require.EqualValues(t, 3, facts().LogDays)
		require.EqualValues(t, 1, facts().DebugDays)
		require.EqualValues(t, 2, series(), "none counts twice")
		require.Equal(t, []uint64{key.Sum128(delta.DomainMetric, []byte("metric 77")).Low}, names())
		for _, r := range []catalog.Rule{catalog.SPA003, catalog.MET001} {
			require.Equal(t, delta.Count{Observed: 1}, facts().Totals[r], "the sets are not united")
		}
	}
	own := must(st.ServiceClaims(ctx, org, a, 0, OldBucket+3600))(t)
	require.Equal(t, map[catalog.Rule]delta.ClaimCount{catalog.MET003: {Claims: 1}}, own)

	// Old facts expire with the window.
	require.NoError(t, st.Expire(ctx, epoch, 0, OldBucket+3600))
	require.Equal(t, map[string]delta.ClaimCount{a: {Claims: 1}, b: {Claims: 1}}, counts(0))
}
