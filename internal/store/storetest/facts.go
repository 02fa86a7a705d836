// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"assay"
	"assay/internal/delta"
	"assay/internal/rules/catalog"
)

func (s *suite) TestFacts(t *testing.T) {
	ctx := s.ctx()
	org := s.organization()
	key := assay.ServiceKey{Namespace: "shop", Name: "cart", Environment: "prod", Version: "1.2"}
	id := delta.ServiceID(org, key)
	hour := bucket(epoch.Add(-2 * time.Hour))
	example := func(at time.Time, trace byte) *delta.Example {
		return &delta.Example{TimeUnixNano: uint64(at.UnixNano()), Signal: delta.Logs, TraceID: [16]byte{trace}, ResourceAttributes: `{"a":"b"}`, SamplingRate: 0.25}
	}
	early, late := epoch.Add(-2*time.Hour), epoch.Add(-time.Hour)
	newest := example(late.Add(time.Nanosecond), 1)
	s.commit(one(org, key, func(f *delta.Service) {
		f.Seen(uint64(late.UnixNano()))
		f.Counts(hour)[catalog.RES001].Add(delta.Count{Observed: 5, Failed: 2})
		f.AddUsage(hour, delta.Traces, delta.Usage{Items: 10, Bytes: 1 << 40})
		f.AddExample(catalog.RES001, newest)
		f.AddItem(delta.Item{Rule: catalog.RES001, List: delta.MissingAttribute, Text: "service.instance.id"}, hour)
	}))
	fresh := s.facts(org, id)
	s.clock.advance(time.Minute)
	s.commit(one(org, key, func(f *delta.Service) {
		f.Seen(uint64(early.UnixNano()))
		f.Counts(hour)[catalog.RES001].Add(delta.Count{Observed: 1})
		f.Counts(hour + 3600)[catalog.DeprecatedAttributes].Add(delta.Count{Observed: 1, Failed: 1})
		f.AddUsage(hour+3600, delta.Traces, delta.Usage{Items: 1, Bytes: 1})
		f.AddUsage(hour, delta.Logs, delta.Usage{Items: 7, Bytes: 70})
		f.AddExample(catalog.RES001, example(late, 9))
		f.AddExample(catalog.LOG003, example(late, 9))
	}))
	got := s.facts(org, id)
	require.Greater(t, got.Revision, fresh.Revision)
	want := &delta.Facts{
		Service: assay.Service{
			ID: id, OrganizationID: org, ServiceKey: key,
			FirstSeenAt: micro(early), LastSeenAt: micro(late), CreatedAt: micro(epoch), UpdatedAt: micro(s.clock.now()),
		},
		Revision: got.Revision,
		Items:    map[delta.Item]delta.Bucket{{Rule: catalog.RES001, List: delta.MissingAttribute, Text: "service.instance.id"}: hour},
	}
	want.Totals[catalog.RES001] = delta.Count{Observed: 6, Failed: 2}
	want.Totals[catalog.DeprecatedAttributes] = delta.Count{Observed: 1, Failed: 1}
	want.Examples[catalog.RES001] = newest
	want.Examples[catalog.LOG003] = example(late, 9)
	require.Empty(t, cmp.Diff(want, got))

	require.Equal(t, map[string]*assay.ServiceUsage{id: {
		Service: assay.Service{ID: id, OrganizationID: org, ServiceKey: key, FirstSeenAt: micro(early), LastSeenAt: micro(late)},
		Traces:  assay.SignalUsage{Items: 11, Bytes: 1<<40 + 1}, Logs: assay.SignalUsage{Items: 7, Bytes: 70},
	}}, s.usage(org))
	for _, all := range []bool{false, true} {
		require.Equal(t, []string{id}, must(s.UnscoredServices(ctx, org, all))(t))
	}

	// A commit without changes changes nothing.
	s.clock.advance(time.Minute)
	s.commit(one(org, key, func(f *delta.Service) {
		f.Seen(uint64(late.UnixNano()))
		f.AddExample(catalog.RES001, example(late, 9))
		f.AddItem(delta.Item{Rule: catalog.RES001, List: delta.MissingAttribute, Text: "service.instance.id"}, hour)
	}))
	require.Equal(t, got, s.facts(org, id))
	s.commit(nil)
	s.commit(new(delta.Delta))

	require.Empty(t, must(s.Facts(ctx, org, nil, 0))(t))
	fs := must(s.Facts(ctx, org, []string{unknownID, id, "x"}, hour+1))(t)
	require.Len(t, fs, 1)
	require.Empty(t, fs[0].Items, "evidence before the window")
}

func (s *suite) TestRequests(t *testing.T) {
	a, b := s.organization(), s.organization()
	commit := func(st Store, requests ...delta.Request) (fresh []bool) {
		t.Helper()
		require.NoError(t, st.Commit(s.ctx(), s.clock.now(), requests, func(f []bool) *delta.Delta {
			fresh = slices.Clone(f)
			return nil
		}))
		return fresh
	}
	one := delta.Request{OrganizationID: a, Signal: delta.Traces, Hash: [16]byte{1}}
	otherHash, otherSignal, otherOrg := one, one, one
	otherHash.Hash[15], otherSignal.Signal, otherOrg.OrganizationID = 1, delta.Logs, b
	require.Empty(t, commit(s))
	require.Equal(t, []bool{true, false, true}, commit(s, one, one, otherHash))
	require.Equal(t, []bool{false, true, true, false}, commit(s, otherHash, otherSignal, otherOrg, one))
	require.Equal(t, []bool{false}, commit(s.handle(), one), "by another process")

	// A replica does not expire the requests of another one by a clock of its own.
	for _, off := range []time.Duration{24 * time.Hour, -24 * time.Hour} {
		for i := range byte(3) {
			skewed := delta.Request{OrganizationID: a, Hash: [16]byte{3, i, byte(off >> 40)}}
			require.NoError(t, s.Commit(s.ctx(), s.clock.now().Add(off), []delta.Request{skewed}, func([]bool) *delta.Delta { return nil }))
		}
		start := bucket(s.clock.now().Add(-assay.DefaultWindow))
		require.NoError(t, s.Expire(s.ctx(), s.clock.now().Add(off), start, start))
	}
	require.Equal(t, []bool{false, false, false, false}, commit(s, one, otherHash, otherSignal, otherOrg))

	expire := func() {
		t.Helper()
		start := bucket(s.clock.now().Add(-assay.DefaultWindow))
		require.NoError(t, s.Expire(s.ctx(), s.clock.now(), start, start))
	}
	s.clock.advance(10 * time.Minute)
	expire()
	require.Equal(t, []bool{false}, commit(s, one))
	s.clock.advance(5*time.Minute + time.Second)
	expire()
	require.Equal(t, []bool{true}, commit(s, one))

	// Commits alone keep the requests from accumulating.
	for i := range 100 {
		s.clock.advance(time.Minute)
		commit(s, delta.Request{OrganizationID: a, Hash: [16]byte{2, byte(i)}})
	}
	require.Less(t, s.rows()["requests"], int64(30))
}

func (s *suite) TestCommitFails(t *testing.T) {
	org := s.organization()
	request := delta.Request{OrganizationID: org, Hash: [16]byte{1}}
	err := s.Commit(s.ctx(), s.clock.now(), []delta.Request{request}, func([]bool) *delta.Delta {
		d := one(org, named("a"), func(f *delta.Service) { f.Counts(0)[catalog.RES001].Observed = 1 })
		d.Merge(one(unknownID, named("a"), func(f *delta.Service) { f.Counts(0)[catalog.RES001].Observed = 1 }))
		return d
	})
	code(t, assay.CodeNotFound, err)
	err = s.Commit(s.ctx(), s.clock.now(), []delta.Request{request, {OrganizationID: unknownID}}, func([]bool) *delta.Delta { return nil })
	code(t, assay.CodeNotFound, err)
	require.Empty(t, must(s.KnownServices(s.ctx(), org))(t), "a failed commit stores nothing")
	require.NoError(t, s.Commit(s.ctx(), s.clock.now(), []delta.Request{request}, func(fresh []bool) *delta.Delta {
		require.Equal(t, []bool{true}, fresh)
		return nil
	}))
}

// setOf is a delta with one distinct set.
func setOf(org string, k assay.ServiceKey, key delta.DistinctKey, last delta.Bucket, limit uint64, values ...uint64) *delta.Delta {
	return one(org, k, func(f *delta.Service) {
		set := f.DistinctSet(key, last, limit, "http.requests", "user.id")
		for _, v := range values {
			set.Add(v)
		}
	})
}

func (s *suite) TestDistinct(t *testing.T) {
	org, key := s.organization(), named("a")
	id := delta.ServiceID(org, key)
	hour := bucket(epoch)
	met := delta.DistinctKey{Rule: catalog.MET001, Hour: int64(hour), Key: 1 << 63}
	count := func(r catalog.Rule) delta.Count { return s.facts(org, id).Totals[r] }

	s.commit(setOf(org, key, met, hour, 4, 1, 2))
	require.Equal(t, delta.Count{Observed: 1}, count(catalog.MET001), "a new set")
	before := s.facts(org, id)
	s.commit(setOf(org, key, met, hour, 4, 2, 1))
	require.Equal(t, before, s.facts(org, id), "nothing new")
	s.commit(setOf(org, key, met, hour, 4, 3))
	require.Equal(t, delta.Count{Observed: 1}, count(catalog.MET001))
	require.Empty(t, s.facts(org, id).Items)
	s.commit(setOf(org, key, met, hour, 4, 3, 4))
	require.Equal(t, delta.Count{Observed: 1, Failed: 1}, count(catalog.MET001), "full now")
	items := map[delta.Item]delta.Bucket{
		{Rule: catalog.MET001, List: delta.MetricNames, Text: "http.requests"}: hour,
		{Rule: catalog.MET001, List: delta.AttributeKeys, Text: "user.id"}:     hour,
	}
	require.Equal(t, items, s.facts(org, id).Items)
	s.commit(setOf(org, key, met, hour, 4, 5))
	s.commit(setOf(org, key, met, hour-60, 4, 6))
	require.Equal(t, delta.Count{Observed: 1, Failed: 1}, count(catalog.MET001), "full once")
	s.commit(setOf(org, key, met, hour+60, 4, 1))
	require.Equal(t, delta.Count{Observed: 2, Failed: 2}, count(catalog.MET001), "full in a newer bucket")
	for it := range items {
		items[it] = hour + 60
	}
	require.Equal(t, items, s.facts(org, id).Items)

	// The delta may know the item from a newer bucket.
	d := setOf(org, key, met, hour+120, 4, 1)
	newer := delta.Item{Rule: catalog.MET001, List: delta.MetricNames, Text: "http.requests"}
	d.Organization(org).Service(key).AddItem(newer, hour+180)
	s.commit(d)
	require.Equal(t, delta.Count{Observed: 3, Failed: 3}, count(catalog.MET001))
	for it := range items {
		items[it] = hour + 120
	}
	items[newer] = hour + 180
	require.Equal(t, items, s.facts(org, id).Items)

	// Sets of other keys, hours and rules are separate.
	otherKey, otherHour := met, met
	otherKey.Key, otherHour.Hour = 2, met.Hour-3600
	s.commit(setOf(org, key, otherKey, hour, 4, 1))
	s.commit(setOf(org, key, otherHour, hour-3600, 4, 2, 3, 4, 5, 6))
	require.Equal(t, delta.Count{Observed: 5, Failed: 4}, count(catalog.MET001))
	s.commit(setOf(org, key, delta.DistinctKey{Rule: catalog.SPA003, Hour: int64(hour)}, hour, 2, 1, 2))
	require.Equal(t, delta.Count{Observed: 1, Failed: 1}, count(catalog.SPA003))
	require.Equal(t, items, s.facts(org, id).Items, "span names come with the delta")

	// More values than a set holds exactly, over many commits.
	big := delta.DistinctKey{Rule: catalog.MET001, Hour: int64(hour), Key: 3}
	for from := uint64(0); from < 5000; from += 500 {
		var values []uint64
		for v := from; v < from+500; v++ {
			values = append(values, delta.Mix(1, v))
		}
		s.commit(setOf(org, key, big, hour, 4000, values...))
	}
	require.Equal(t, delta.Count{Observed: 6, Failed: 5}, count(catalog.MET001))
}

// claim is a delta with one claim.
func claim(org string, k assay.ServiceKey, r catalog.Rule, key, value uint64, last delta.Bucket) *delta.Delta {
	return one(org, k, func(f *delta.Service) {
		fact := delta.ClaimFact{Last: last}
		if r == catalog.MET003 {
			fact.KeyText, fact.ValueText = fmt.Sprintf("metric %d", key), fmt.Sprintf("unit %d", value)
		}
		c := delta.Claim{Rule: r, Key: delta.Hash128{High: 1, Low: key}, Value: value}
		if r == catalog.LOG001 {
			c.Key.High = 0
		}
		f.AddClaim(c, fact)
	})
}

func (s *suite) TestClaims(t *testing.T) {
	ctx := s.ctx()
	org, other := s.organization(), s.organization()
	a, b, c := named("a"), named("b"), named("c")
	idA, idB, idC := delta.ServiceID(org, a), delta.ServiceID(org, b), delta.ServiceID(org, c)
	now := bucket(epoch)
	counts := func(r catalog.Rule, since delta.Bucket) map[string]delta.ClaimCount {
		t.Helper()
		return must(delta.CountClaims(ctx, s.ClaimCounter(org, r, since)))(t)
	}
	revision := func() uint64 {
		t.Helper()
		return must(s.ClaimsRevision(ctx, org))(t)
	}
	require.Empty(t, counts(catalog.MET003, 0))
	start := revision()
	s.commit(claim(org, a, catalog.MET003, 1, 10, now-7200))
	s.commit(claim(org, a, catalog.MET003, 1<<63, 10, now))
	s.commit(claim(org, b, catalog.MET003, 1, 10, now))
	s.commit(claim(other, c, catalog.MET003, 1, 11, now))
	s.commit(claim(org, c, catalog.MET004, 1, 11, now))
	first := revision()
	require.NotEqual(t, start, first)
	require.Equal(t, map[string]delta.ClaimCount{idA: {Claims: 2}, idB: {Claims: 1}}, counts(catalog.MET003, 0),
		"other organizations and rules do not conflict")

	s.commit(claim(org, c, catalog.MET003, 1, 11, now-3600))
	contested := delta.ClaimCount{Claims: 1, Contested: 1, Keys: []string{"metric 1"}, Values: []string{"unit 10", "unit 11"}}
	contestedA := contested
	contestedA.Claims = 2
	require.Equal(t, map[string]delta.ClaimCount{idA: contestedA, idB: contested, idC: contested}, counts(catalog.MET003, 0))
	require.Equal(t, map[string]delta.ClaimCount{idA: {Claims: 1}, idB: contested, idC: contested}, counts(catalog.MET003, now-3600),
		"earlier claims are not counted")
	require.Equal(t, map[string]delta.ClaimCount{idA: {Claims: 1}, idB: {Claims: 1}}, counts(catalog.MET003, now))

	second := revision()
	require.NotEqual(t, first, second)
	s.commit(claim(org, c, catalog.MET003, 1, 11, now-3600))
	s.commit(claim(org, c, catalog.MET003, 1, 11, now-7200))
	require.Equal(t, second, revision(), "nothing moved")
	s.commit(claim(org, c, catalog.MET003, 1, 11, now))
	require.NotEqual(t, second, revision())
	require.Equal(t, contested, counts(catalog.MET003, now)[idC])

	// A service can contradict itself, and rules without texts have none.
	s.commit(claim(org, a, catalog.RES002, 5, 1, now))
	s.commit(claim(org, a, catalog.RES002, 5, 2, now))
	require.Equal(t, map[string]delta.ClaimCount{idA: {Claims: 1, Contested: 1}}, counts(catalog.RES002, 0))

	// An empty text next to another one has a meaning.
	for unit, text := range []string{"", "ms"} {
		s.commit(one(org, b, func(f *delta.Service) {
			f.AddClaim(delta.Claim{Rule: catalog.MET003, Key: delta.Hash128{High: 1, Low: 77}, Value: uint64(unit)}, delta.ClaimFact{Last: now, KeyText: "m", ValueText: text})
		}))
	}
	require.Equal(t, delta.ClaimCount{Claims: 2, Contested: 2, Keys: []string{"m", "metric 1"}, Values: []string{"", "ms", "unit 10", "unit 11"}},
		counts(catalog.MET003, now)[idB])

	// Of many conflicts, the smallest texts.
	for key := uint64(100); key < 130; key++ {
		s.commit(claim(org, c, catalog.MET003, key, key, now))
		s.commit(claim(org, c, catalog.MET003, key, key+1, now))
	}
	many := counts(catalog.MET003, now)[idC]
	require.EqualValues(t, 31, many.Claims)
	require.EqualValues(t, 31, many.Contested)
	require.Len(t, many.Keys, delta.MaxItems)
	require.Len(t, many.Values, delta.MaxItems)
	require.True(t, slices.IsSorted(many.Keys))
	require.Equal(t, "metric 1", many.Keys[0])
	require.Equal(t, "unit 10", many.Values[0])

	// LOG-001 counts days.
	for day := uint64(20000); day < 20005; day++ {
		s.commit(claim(org, a, catalog.LOG001, delta.KeyLogDay, day, delta.Bucket(day*86400)))
	}
	s.commit(claim(org, a, catalog.LOG001, delta.KeyDebugDay, 20003, 20003*86400))
	fs := must(s.Facts(ctx, org, []string{idA}, 20001*86400))(t)
	require.EqualValues(t, 4, fs[0].LogDays)
	require.EqualValues(t, 1, fs[0].DebugDays)

	names := must(s.KnownMetricNames(ctx, org))(t)
	require.ElementsMatch(t, []uint64{1, 1 << 63}, names[a])
	require.ElementsMatch(t, []uint64{1, 77}, names[b])
	require.Len(t, names[c], 31)
	require.Len(t, names, 3)
	code(t, assay.CodeNotFound, errOf(s.ClaimsRevision(ctx, unknownID)))
	code(t, assay.CodeNotFound, errOf(delta.CountClaims(ctx, s.ClaimCounter(unknownID, catalog.MET003, 0))))
}

// TestClaimBound lets one service claim ever new values of one key, as a
// histogram with random bounds does.
func (s *suite) TestClaimBound(t *testing.T) {
	org := s.organization()
	now := bucket(epoch)
	const n = 100
	for i := range uint64(n) {
		last := now
		if i < 2 {
			last += 3600
		}
		s.commit(claim(org, named("a"), catalog.MET004, 1, i, last))
		s.commit(claim(org, named("a"), catalog.LOG001, delta.KeyLogDay, i, delta.Bucket(i*86400)))
	}
	rows := s.rows()
	require.LessOrEqual(t, rows["claims"], int64(n+delta.MaxItems))
	require.GreaterOrEqual(t, rows["claims"], int64(n+2), "days are not bounded")
	counts := must(delta.CountClaims(s.ctx(), s.ClaimCounter(org, catalog.MET004, now+3600)))(t)
	require.Equal(t, delta.ClaimCount{Claims: 1, Contested: 1}, counts[delta.ServiceID(org, named("a"))], "the newest stay")

	// All at once, of a new service.
	d := new(delta.Delta)
	for i := range uint64(n) {
		d.Merge(claim(org, named("b"), catalog.MET004, 1, i, now))
	}
	s.commit(d)
	require.EqualValues(t, n+2*delta.MaxItems, s.rows()["claims"])
}

func (s *suite) TestItems(t *testing.T) {
	org, key := s.organization(), named("a")
	hour := bucket(epoch)
	add := func(list delta.List, text string, b delta.Bucket) {
		s.commit(one(org, key, func(f *delta.Service) {
			f.AddItem(delta.Item{Rule: catalog.MET002, List: list, Text: text}, b)
		}))
	}
	want := make(map[delta.Item]delta.Bucket)
	for i := range 50 {
		text := fmt.Sprintf("%02d", (i*37)%50)
		add(delta.MetricNames, text, hour)
		if text < "20" {
			want[delta.Item{Rule: catalog.MET002, List: delta.MetricNames, Text: text}] = hour
		}
	}
	add(delta.Findings, "50", hour)
	want[delta.Item{Rule: catalog.MET002, List: delta.Findings, Text: "50"}] = hour
	require.Equal(t, want, s.facts(org, delta.ServiceID(org, key)).Items)
	add(delta.MetricNames, "07", hour+3600)
	add(delta.MetricNames, "08", hour-3600)
	want[delta.Item{Rule: catalog.MET002, List: delta.MetricNames, Text: "07"}] = hour + 3600
	require.Equal(t, want, s.facts(org, delta.ServiceID(org, key)).Items, "the newest bucket")
}

// fact is one fact, added to a delta of any organization.
type fact func(d *delta.Delta, org string)

// drawFact draws from small ranges, so that facts meet.
func drawFact(t *rapid.T) fact {
	key := named(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "service"))
	b := bucket(epoch) + delta.Bucket(rapid.IntRange(0, 3).Draw(t, "hour"))*3600
	r := rapid.SampledFrom([]catalog.Rule{catalog.RES001, catalog.MET003, catalog.DeprecatedAttributes}).Draw(t, "rule")
	n := rapid.Uint64Range(0, 40).Draw(t, "n")
	var add func(f *delta.Service)
	switch rapid.IntRange(0, 7).Draw(t, "kind") {
	case 0:
		add = func(f *delta.Service) { f.Counts(b)[r].Add(delta.Count{Observed: n + 1, Failed: n / 2}) }
	case 1:
		add = func(f *delta.Service) {
			f.AddUsage(b, delta.Signal(n%uint64(delta.SignalCount)), delta.Usage{Items: n + 1, Bytes: n * n})
		}
	case 2:
		e := &delta.Example{
			TimeUnixNano: uint64(b)*1e9 + n%2, TraceID: [16]byte{byte(n % 3)}, Signal: delta.Signal(n % 2),
			ResourceAttributes: fmt.Sprint(n % 4), SamplingRate: float64(n%5) / 4,
		}
		add = func(f *delta.Service) { f.AddExample(r, e) }
	case 3:
		add = func(f *delta.Service) {
			f.AddItem(delta.Item{Rule: r, List: delta.SpanNames, Text: fmt.Sprintf("%02d", n)}, b)
		}
	case 4:
		c := delta.Claim{Rule: rapid.SampledFrom([]catalog.Rule{catalog.MET003, catalog.RES002, catalog.LOG001}).Draw(t, "claim"), Key: delta.Hash128{High: 1, Low: 1 + n%2}, Value: n}
		add = func(f *delta.Service) {
			f.AddClaim(c, delta.ClaimFact{Last: b, KeyText: fmt.Sprint(c.Key), ValueText: fmt.Sprint(c.Value)})
		}
	case 5:
		k := delta.DistinctKey{Rule: catalog.MET001, Hour: int64(b), Key: n % 2}
		add = func(f *delta.Service) {
			f.DistinctSet(k, b, 4, fmt.Sprintf("metric %d", k.Key), "key").Add(n % 8)
		}
	case 6:
		add = func(f *delta.Service) { f.Series.Add(delta.Mix(1, n), b) }
	default:
		add = func(f *delta.Service) { f.Seen(uint64(b)*1e9 + n*500) }
	}
	return func(d *delta.Delta, org string) { add(d.Organization(org).Service(key)) }
}

// TestAnyOrder commits the same facts to two organizations, in another order and
// grouping, and compares all visible state.
func (s *suite) TestAnyOrder(t *testing.T) {
	s.clock.advance(6 * time.Hour)
	rapid.Check(t, func(rt *rapid.T) {
		seen := rapid.SliceOfN(rapid.Custom(drawFact), 1, 60).Draw(rt, "facts")
		orgs := [2]string{s.organization(), s.organization()}
		for i, order := range [2][]fact{seen, rapid.Permutation(seen).Draw(rt, "order")} {
			for len(order) > 0 {
				n := rapid.IntRange(1, len(order)).Draw(rt, "group")
				group := new(delta.Delta)
				for _, f := range order[:n] {
					d := new(delta.Delta)
					f(d, orgs[i])
					group.Merge(d)
				}
				order = order[n:]
				s.commit(group)
			}
		}
		if diff := cmp.Diff(s.observe(orgs[0]), s.observe(orgs[1]), cmpopts.EquateEmpty()); diff != "" {
			rt.Fatalf("state depends on the order of commits:\n%s", diff)
		}
		start := bucket(epoch) + delta.Bucket(rapid.IntRange(0, 4).Draw(rt, "expired hours"))*3600
		require.NoError(rt, s.Expire(s.ctx(), s.clock.now(), start, start))
		if diff := cmp.Diff(s.observe(orgs[0]), s.observe(orgs[1]), cmpopts.EquateEmpty()); diff != "" {
			rt.Fatalf("state after expiry depends on the order of commits:\n%s", diff)
		}
	})
}

// observed is the visible state of a service, without ids and revisions.
type observed struct {
	Facts  delta.Facts
	Usage  *assay.ServiceUsage
	Claims [3]map[catalog.Rule]delta.ClaimCount // since three buckets
	Names  []uint64
}

func (s *suite) observe(org string) map[assay.ServiceKey]*observed {
	s.t.Helper()
	ctx := s.ctx()
	state, byID := make(map[assay.ServiceKey]*observed), make(map[string]*observed)
	keys := must(s.KnownServices(ctx, org))(s.t)
	usage := s.usage(org)
	names := must(s.KnownMetricNames(ctx, org))(s.t)
	for _, k := range keys {
		id := delta.ServiceID(org, k)
		o := &observed{Facts: *s.facts(org, id), Usage: usage[id], Names: slices.Sorted(slices.Values(names[k]))}
		o.Facts.Service.ID, o.Facts.Service.OrganizationID, o.Facts.Revision = "", "", 0
		if o.Usage != nil {
			o.Usage.Service.ID, o.Usage.Service.OrganizationID = "", ""
		}
		state[k], byID[id] = o, o
	}
	for i, since := range []delta.Bucket{0, bucket(epoch) + 3600, bucket(epoch) + 3*3600} {
		for _, r := range []catalog.Rule{catalog.MET003, catalog.RES002} {
			counts := must(delta.CountClaims(ctx, s.ClaimCounter(org, r, since)))(s.t)
			for id, c := range counts {
				if byID[id].Claims[i] == nil {
					byID[id].Claims[i] = make(map[catalog.Rule]delta.ClaimCount)
				}
				byID[id].Claims[i][r] = c
			}
		}
	}
	return state
}

func (s *suite) TestConcurrency(t *testing.T) {
	const workers, commits = 8, 25
	org := s.organization()
	handles := []Store{s.Store, s.handle()}
	hour := bucket(epoch)
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		fresh int
		errs  []error
	)
	for w := range workers {
		wg.Go(func() {
			for i := range commits {
				request := delta.Request{OrganizationID: org, Hash: [16]byte{byte(i)}} // every worker sends the same
				var got []bool
				err := handles[w%len(handles)].Commit(s.ctx(), s.clock.now(), []delta.Request{request}, func(f []bool) *delta.Delta {
					got = slices.Clone(f)
					return one(org, named(fmt.Sprint(i%3)), func(f *delta.Service) {
						f.Counts(hour + delta.Bucket(i%2)*3600)[catalog.RES001].Add(delta.Count{Observed: 1, Failed: uint64(w % 2)})
						f.AddItem(delta.Item{Rule: catalog.RES001, List: delta.Units, Text: fmt.Sprint(w)}, hour)
						f.AddClaim(delta.Claim{Rule: catalog.RES002, Key: delta.Hash128{High: 1, Low: 1}, Value: uint64(w)}, delta.ClaimFact{Last: hour})
						f.DistinctSet(delta.DistinctKey{Rule: catalog.SPA003, Hour: int64(hour)}, hour, workers, "", "").Add(uint64(w))
					})
				})
				mu.Lock()
				errs = append(errs, err)
				if len(got) == 1 && got[0] {
					fresh++
				}
				mu.Unlock()
			}
		})
	}
	// Readers and the scorer run concurrently.
	stop := make(chan struct{})
	var readers sync.WaitGroup
	readers.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			_, _, err := handles[1].FindServices(s.ctx(), org, assay.Page{Limit: 10})
			ids, err2 := handles[0].UnscoredServices(s.ctx(), org, false)
			fs, err3 := handles[0].Facts(s.ctx(), org, ids, 0)
			var results []delta.Result
			for _, f := range fs {
				results = append(results, delta.Result{ServiceID: f.Service.ID, Revision: f.Revision, Score: score(50), NewRow: true})
			}
			err4 := handles[0].SaveScores(s.ctx(), delta.Fence{}, org, results)
			mu.Lock()
			errs = append(errs, err, err2, err3, err4)
			mu.Unlock()
		}
	})
	wg.Wait()
	close(stop)
	readers.Wait()
	require.NoError(t, errors.Join(errs...))
	require.Equal(t, commits, fresh, "each request is new to one worker")

	var sum delta.Count
	for i := range 3 {
		f := s.facts(org, delta.ServiceID(org, named(fmt.Sprint(i))))
		sum.Add(f.Totals[catalog.RES001])
		require.Len(t, f.Items, workers)
		require.Equal(t, delta.Count{Observed: 1, Failed: 1}, f.Totals[catalog.SPA003])
	}
	require.Equal(t, delta.Count{Observed: workers * commits, Failed: workers * commits / 2}, sum)
	require.Len(t, must(delta.CountClaims(s.ctx(), s.ClaimCounter(org, catalog.RES002, 0)))(t), 3)
}

func (s *suite) TestDurability(t *testing.T) {
	ctx := s.ctx()
	org := s.organization()
	st := must(s.open())(t)
	hour := bucket(epoch)
	request := delta.Request{OrganizationID: org, Hash: [16]byte{1}}
	require.NoError(t, st.Commit(ctx, s.clock.now(), []delta.Request{request}, func([]bool) *delta.Delta {
		d := one(org, named("a"), func(f *delta.Service) {
			f.Seen(uint64(epoch.UnixNano()))
			f.Counts(hour)[catalog.RES001].Add(delta.Count{Observed: 3, Failed: 1})
			f.AddUsage(hour, delta.Metrics, delta.Usage{Items: 1, Bytes: 2})
			f.AddExample(catalog.RES001, &delta.Example{TimeUnixNano: 5, ResourceAttributes: "{}"})
			f.AddItem(delta.Item{Rule: catalog.RES001, List: delta.Units, Text: "x"}, hour)
		})
		d.Merge(claim(org, named("a"), catalog.MET003, 1, 2, hour))
		d.Merge(setOf(org, named("a"), delta.DistinctKey{Rule: catalog.MET001, Hour: int64(hour)}, hour, 3, 1, 2))
		d.Merge(seriesOf(org, named("a"), hour, 0, 5))
		return d
	}))
	id := delta.ServiceID(org, named("a"))
	in := newInsight(org, id, catalog.RES001)
	require.NoError(t, st.SaveScores(ctx, delta.Fence{}, org, []delta.Result{{ServiceID: id, Revision: 1, Score: score(12.5), NewRow: true, Insights: []*assay.Insight{in}}}))
	before := s.observe(org)
	rows := s.rows()
	require.NoError(t, st.Close())
	require.NoError(t, s.Store.Close())

	s.Store = s.handle()
	require.Equal(t, before, s.observe(org))
	require.Equal(t, rows, s.rows())
	require.NoError(t, s.Commit(ctx, s.clock.now(), []delta.Request{request}, func(fresh []bool) *delta.Delta {
		require.Equal(t, []bool{false}, fresh)
		return setOf(org, named("a"), delta.DistinctKey{Rule: catalog.MET001, Hour: int64(hour)}, hour, 3, 3)
	}))
	require.Equal(t, delta.Count{Observed: 1, Failed: 1}, s.facts(org, id).Totals[catalog.MET001], "the set went on")
}

// TestContext makes calls with an ended context.
func (s *suite) TestContext(t *testing.T) {
	org := s.organization()
	id := s.seen(org, named("a"), catalog.RES001, true)
	in := s.insight(org, id, catalog.RES001)
	ctx, cancel := context.WithCancel(s.ctx())
	cancel()
	for name, call := range map[string]func() error{
		"Ping":   func() error { return s.Ping(ctx) },
		"Commit": func() error { return s.Commit(ctx, epoch, nil, func([]bool) *delta.Delta { return nil }) },
		"Expire": func() error { return s.Expire(ctx, epoch, 0, 0) },
		"Facts":  func() error { return errOf(s.Facts(ctx, org, []string{id}, 0)) },
		"FindInsights": func() error {
			return errOf3(s.FindInsights(ctx, assay.InsightFilter{OrganizationID: org, Page: assay.Page{Limit: 1}}))
		},
		"FindAPIKey":  func() error { return errOf(s.FindAPIKey(ctx, "aaaaaa")) },
		"LogRecords":  func() error { return errOf(s.LogRecords(ctx, org, epoch, epoch, time.Minute)) },
		"FindUsage":   func() error { return errOf(s.FindUsage(ctx, org)) },
		"MuteInsight": func() error { return s.MuteInsight(ctx, in.ID, "") },
	} {
		require.ErrorIs(t, call(), context.Canceled, name)
	}

	// A commit that is cancelled in the middle leaves nothing behind.
	before := s.facts(org, id)
	ctx, cancel = context.WithCancel(s.ctx())
	err := s.Commit(ctx, epoch, nil, func([]bool) *delta.Delta {
		cancel()
		return one(org, named("a"), func(f *delta.Service) { f.Counts(0)[catalog.RES001].Observed = 1 })
	})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, before, s.facts(org, id))
}
