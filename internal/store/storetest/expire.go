// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/delta"
	"assay/internal/lists"
	"assay/internal/rules/catalog"
	"assay/internal/store/connpool"
	"assay/internal/store/query"
)

func (s *suite) expire(start, metrics delta.Bucket) {
	s.t.Helper()
	require.NoError(s.t, s.Expire(s.ctx(), s.clock.now(), start, metrics))
	require.Equal(s.t, start, must(s.ExpiredBefore(s.ctx()))(s.t))
}

func (s *suite) rows() map[string]int64 {
	s.t.Helper()
	st := must(s.Stats(s.ctx()))(s.t)
	rows := make(map[string]int64)
	for _, t := range st.Tables {
		switch t.Name {
		case "memory", "goose_db_version", "service_counts", "insight_counts": // the store's own
		case "log_records": // of older programs
		default:
			rows[t.Name] = t.Rows
		}
	}
	return rows
}

// scored marks all services of an organization as scored.
func (s *suite) scored(org string) {
	s.t.Helper()
	ids := must(s.UnscoredServices(s.ctx(), org, false))(s.t)
	results := lists.Map(ids, func(id string) delta.Result { return delta.Result{ServiceID: id, Revision: s.facts(org, id).Revision} })
	require.NoError(s.t, s.SaveScores(s.ctx(), delta.Fence{}, org, results))
	require.Empty(s.t, s.unscored(org))
}

func (s *suite) unscored(org string) []string {
	s.t.Helper()
	return must(s.UnscoredServices(s.ctx(), org, false))(s.t)
}

// TestExpire moves the window over more rows than one transaction deletes.
func (s *suite) TestExpire(t *testing.T) {
	const services, hours = 60, 100
	org := s.organization()
	last := bucket(epoch)
	first := last - (hours-1)*3600
	// Service i was seen in every hour h with h%(i+1) == 0.
	d := new(delta.Delta)
	for i := range services {
		f := d.Organization(org).Service(named(fmt.Sprint(i)))
		f.Seen(uint64(epoch.UnixNano()))
		for h := 0; h < hours; h += i + 1 {
			b := first + delta.Bucket(h)*3600
			f.Counts(b)[catalog.RES001].Add(delta.Count{Observed: uint64(h + 1), Failed: uint64(i)})
			f.Counts(b)[catalog.SPA002].Add(delta.Count{Observed: 1})
			f.AddUsage(b, delta.Logs, delta.Usage{Items: uint64(h), Bytes: 1})
			f.AddItem(delta.Item{Rule: catalog.RES001, List: delta.SpanNames, Text: fmt.Sprint(h % 10)}, b)
		}
	}
	s.commit(d)
	s.scored(org)
	check := func(kept int) {
		t.Helper()
		usage := s.usage(org)
		for i := range services {
			var want, spans delta.Count
			var sent assay.SignalUsage
			items := make(map[delta.Item]delta.Bucket)
			for h := 0; h < hours; h += i + 1 {
				if h >= kept {
					want.Add(delta.Count{Observed: uint64(h + 1), Failed: uint64(i)})
					spans.Observed++
					sent.Items, sent.Bytes = sent.Items+uint64(h), sent.Bytes+1
					items[delta.Item{Rule: catalog.RES001, List: delta.SpanNames, Text: fmt.Sprint(h % 10)}] = first + delta.Bucket(h)*3600
				}
			}
			id := delta.ServiceID(org, named(fmt.Sprint(i)))
			got := s.facts(org, id)
			require.Equal(t, want, got.Totals[catalog.RES001], "service %d", i)
			require.Equal(t, spans, got.Totals[catalog.SPA002], "service %d", i)
			require.Equal(t, sent.Items > 0 || sent.Bytes > 0, usage[id] != nil, "service %d", i)
			if usage[id] != nil {
				require.Equal(t, sent, usage[id].Logs, "service %d", i)
			}
			require.Equal(t, len(items), len(got.Items), "service %d", i)
			for it, b := range items {
				require.Equal(t, b, got.Items[it], "service %d item %v", i, it)
			}
		}
	}
	check(0)
	s.expire(first, first)
	check(0)
	require.Empty(t, s.unscored(org), "nothing left the window")

	s.expire(first+3600, first+3600)
	check(1)
	require.Len(t, s.unscored(org), services, "the first hour had all of them")
	s.scored(org)
	s.expire(first+2*3600, first+2*3600)
	require.Equal(t, []string{delta.ServiceID(org, named("0"))}, s.unscored(org), "the second hour had one")
	check(2)
	s.scored(org)
	s.expire(first+2*3600, first+2*3600)
	require.Empty(t, s.unscored(org), "once is enough")
	check(2)

	// Usage expires as well, and does not make a service unscored.
	s.commit(one(org, named("sent"), func(f *delta.Service) { f.AddUsage(first, delta.Traces, delta.Usage{Items: 1, Bytes: 1}) }))
	s.scored(org)
	s.expire(first+2*3600, first+2*3600)
	require.Empty(t, s.unscored(org))
	require.NotContains(t, s.usage(org), delta.ServiceID(org, named("sent")))

	// The store accepts late data, and the next expiry deletes it.
	s.commit(one(org, named("0"), func(f *delta.Service) {
		f.Counts(first)[catalog.RES001].Add(delta.Count{Observed: 9})
		f.AddItem(delta.Item{Rule: catalog.RES001, List: delta.SpanNames, Text: "late"}, first)
	}))
	late := s.facts(org, delta.ServiceID(org, named("0")))
	s.expire(first+2*3600, first+2*3600)
	require.EqualValues(t, late.Totals[catalog.RES001].Observed-9, s.facts(org, late.Service.ID).Totals[catalog.RES001].Observed)
	check(2)

	s.expire(first+50*3600, first+50*3600)
	check(50)
	s.clock.advance(hours * time.Hour)
	s.expire(last+3600, last+3600)
	check(hours)
	rows := s.rows()
	require.Zero(t, rows["hours"])
	require.Zero(t, rows["items"])
	require.EqualValues(t, services+1, rows["services"])
	ids := must(s.UnscoredServices(s.ctx(), org, true))(t)
	s.scored(org)
	require.NotEmpty(t, ids)
	require.Empty(t, must(s.UnscoredServices(s.ctx(), org, true))(t), "nothing to score any more")
}

func (s *suite) TestExpireClaims(t *testing.T) {
	org := s.organization()
	a, b := named("a"), named("b")
	idA, idB := delta.ServiceID(org, a), delta.ServiceID(org, b)
	hour := bucket(epoch)
	start, metrics := hour-30*24*3600, hour-14*24*3600
	counts := func(r catalog.Rule) map[string]delta.ClaimCount {
		t.Helper()
		return must(delta.CountClaims(s.ctx(), s.ClaimCounter(org, r, 0)))(t)
	}
	s.commit(claim(org, a, catalog.MET003, 1, 1, metrics-3600))
	s.commit(claim(org, b, catalog.MET003, 1, 2, metrics))
	s.commit(claim(org, a, catalog.MET004, 1, 1, metrics-3600))
	for _, b := range []delta.Bucket{start - 3600, start, hour} {
		s.commit(claim(org, a, catalog.LOG001, delta.KeyLogDay, uint64(b/3600), b))
	}
	// Instances: one contested by two services, one contested long ago, one not.
	s.commit(claim(org, a, catalog.RES002, 1, 1, hour))
	s.commit(claim(org, b, catalog.RES002, 1, 2, hour))
	s.commit(claim(org, a, catalog.RES002, 2, 1, start-3600))
	s.commit(claim(org, a, catalog.RES002, 2, 2, start-3600))
	s.commit(claim(org, a, catalog.RES002, 3, 1, hour))
	s.commit(claim(org, b, catalog.RES002, 3, 1, hour))
	other := s.organization()
	s.commit(claim(other, a, catalog.RES002, 3, 9, hour)) // another organization's does not contest
	s.scored(org)

	require.EqualValues(t, 2, counts(catalog.RES002)[idA].Contested)
	s.expire(start, metrics)
	require.Equal(t, map[string]delta.ClaimCount{idB: {Claims: 1}}, counts(catalog.MET003))
	require.Empty(t, counts(catalog.MET004))
	require.EqualValues(t, 2, s.facts(org, idA).LogDays)
	require.Equal(t, []string{idA}, s.unscored(org), "its days changed")
	s.scored(org)
	require.Equal(t, map[string]delta.ClaimCount{idA: {Claims: 1, Contested: 1}, idB: {Claims: 1, Contested: 1}}, counts(catalog.RES002))
	require.EqualValues(t, 2, must(s.ServiceClaims(s.ctx(), org, idA, start, metrics))(t)[catalog.RES002].Claims)

	revision := must(s.ClaimsRevision(s.ctx(), org))(t)
	s.expire(start, metrics)
	require.Equal(t, revision, must(s.ClaimsRevision(s.ctx(), org))(t))
	s.clock.advance(23 * time.Hour)
	s.commit(claim(org, a, catalog.RES002, 4, 1, hour+23*3600))
	s.scored(org)
	s.clock.advance(time.Hour + time.Second)
	same := must(s.ClaimsRevision(s.ctx(), org))(t)
	s.expire(start, metrics)
	require.Equal(t, map[string]delta.ClaimCount{idA: {Claims: 1, Contested: 1}, idB: {Claims: 1, Contested: 1}}, counts(catalog.RES002))
	require.EqualValues(t, 1, must(s.ServiceClaims(s.ctx(), org, idB, start, metrics))(t)[catalog.RES002].Claims,
		"what nobody contests goes after a day")
	require.NotEqual(t, same, must(s.ClaimsRevision(s.ctx(), org))(t))
	require.Empty(t, s.unscored(org))
	s.clock.advance(30 * 24 * time.Hour)
	s.expire(hour+31*24*3600, hour+31*24*3600)
	require.Zero(t, s.rows()["claims"])
}

// MaxClaims is the limit of claims of the stores that the suite opens.
const MaxClaims = 10_000

// TestClaimLimit: an organization stores a limited number of claims. Those that expire make room, by exactly their
// number.
func (s *suite) TestClaimLimit(t *testing.T) {
	org, other := s.organization(), s.organization()
	hour := bucket(epoch)
	stored := func(of string) (n uint64) {
		t.Helper()
		for _, name := range []string{"a", "b", "c", "days"} {
			own, err := s.ServiceClaims(s.ctx(), of, delta.ServiceID(of, named(name)), 0, 0)
			if assay.ErrorCode(err) != assay.CodeServiceNotFound {
				require.NoError(t, err)
			}
			for _, c := range own {
				n += c.Claims
			}
		}
		return n
	}
	next := uint64(0)
	add := func(of, name string, r catalog.Rule, n int, last delta.Bucket) {
		t.Helper()
		s.commit(one(of, named(name), func(f *delta.Service) {
			f.Seen(uint64(epoch.UnixNano()))
			for range n {
				next++
				f.AddClaim(delta.Claim{Rule: r, Key: delta.Hash128{High: 1, Low: delta.Mix(next, 1)}, Value: 1}, delta.ClaimFact{Last: last})
			}
		}))
	}
	const old = 3000 // more than one transaction deletes
	add(org, "a", catalog.RES002, old, hour-100*3600)
	add(org, "b", catalog.MET003, old, hour-100*3600)
	require.EqualValues(t, 2*old, stored(org))
	s.commit(claim(org, named("b"), catalog.MET004, 7, 1, hour))
	for value := range uint64(2 * delta.MaxItems) { // a service keeps the newest values of a key
		s.commit(claim(org, named("b"), catalog.MET004, 7, value, hour))
	}
	add(org, "c", catalog.MET003, MaxClaims, hour)
	require.EqualValues(t, MaxClaims-delta.MaxItems+1, stored(org), "a key counts once")
	add(org, "c", catalog.MET003, 10, hour)
	require.EqualValues(t, MaxClaims-delta.MaxItems+1, stored(org))
	add(other, "a", catalog.MET003, 10, hour)
	require.EqualValues(t, 10, stored(other))
	for _, day := range []uint64{1, 2} { // few, and not compared with others
		s.commit(claim(org, named("days"), catalog.LOG001, delta.KeyLogDay, day, hour))
	}
	require.EqualValues(t, 2, s.facts(org, delta.ServiceID(org, named("days"))).LogDays)

	// Claims of the window go, which are the old ones.
	s.expire(hour-10*3600, hour-10*3600)
	require.EqualValues(t, MaxClaims-delta.MaxItems+1-2*old, stored(org))
	add(org, "a", catalog.RES002, 2*old, hour)
	require.EqualValues(t, MaxClaims-delta.MaxItems+1-2, stored(org), "the days take room")
	require.NoError(t, s.Store.Close())
	s.Store = s.handle()
	add(org, "a", catalog.RES002, 1, hour)
	require.EqualValues(t, MaxClaims-delta.MaxItems+1-2, stored(org), "after a restart")

	// Uncontested instances go after a day.
	s.clock.advance(25 * time.Hour)
	s.expire(hour-10*3600, hour-10*3600)
	left := stored(org)
	require.Less(t, left, uint64(MaxClaims-old))
	add(org, "a", catalog.MET003, MaxClaims, hour)
	require.EqualValues(t, MaxClaims-delta.MaxItems+1-2, stored(org))
	s.clock.advance(100 * 24 * time.Hour)
	now := bucket(s.clock.now())
	s.expire(now-10*3600, now-10*3600)
	require.Zero(t, s.rows()["claims"])
	add(org, "a", catalog.MET003, MaxClaims+1, now)
	require.EqualValues(t, MaxClaims, stored(org))
}

// TestExpireInstances writes more RES-002 claims at once than one transaction reads. Most
// of them are contested and stay.
func (s *suite) TestExpireInstances(t *testing.T) {
	const keys, every = 3600, 9
	org := s.organization()
	hour := bucket(epoch)
	d := new(delta.Delta)
	claim := func(name string, key, value uint64) {
		d.Organization(org).Service(named(name)).AddClaim(delta.Claim{Rule: catalog.RES002, Key: delta.Hash128{High: 1, Low: key}, Value: value}, delta.ClaimFact{Last: hour})
	}
	for key := range uint64(keys) {
		claim("a", key, 1)
		if key%every != 0 {
			claim("b", key, 2)
		}
	}
	s.commit(d)
	s.clock.advance(25 * time.Hour)
	s.expire(hour-24*3600, hour-24*3600)
	const contested = keys - keys/every
	require.EqualValues(t, 2*contested, s.rows()["claims"])
	counts := must(delta.CountClaims(s.ctx(), s.ClaimCounter(org, catalog.RES002, 0)))(t)
	for _, name := range []string{"a", "b"} {
		require.Equal(t, delta.ClaimCount{Claims: contested, Contested: contested}, counts[delta.ServiceID(org, named(name))])
	}
}

func (s *suite) TestExpireSets(t *testing.T) {
	org, key := s.organization(), named("a")
	hour := bucket(epoch)
	set := func(k uint64) delta.DistinctKey {
		return delta.DistinctKey{Rule: catalog.MET001, Hour: int64(hour), Key: k}
	}
	s.commit(setOf(org, key, set(1), hour, 2, 1))
	s.commit(setOf(org, key, set(2), hour, 2, 1, 2))
	s.clock.advance(5 * time.Hour)
	s.commit(setOf(org, key, set(3), hour, 3, 1))
	s.expire(hour-24*3600, hour-24*3600)
	require.EqualValues(t, 3, s.rows()["distinct_sets"])
	s.clock.advance(time.Hour + time.Minute)
	s.expire(hour-24*3600, hour-24*3600)
	require.EqualValues(t, 2, s.rows()["distinct_sets"], "the one not written for six hours")
	s.commit(setOf(org, key, set(3), hour, 3, 2, 3))
	require.EqualValues(t, 2, s.facts(org, delta.ServiceID(org, key)).Totals[catalog.MET001].Failed, "the other one went on")
	s.clock.advance(7 * time.Hour)
	s.expire(hour, hour)
	require.EqualValues(t, 2, s.rows()["distinct_sets"], "full sets stay for the window")
	s.expire(hour+3600, hour+3600)
	require.Zero(t, s.rows()["distinct_sets"])

	// More than one transaction deletes, and more than one reads sets that stay.
	const all, every = 12_000, 3
	d := new(delta.Delta)
	for k := range uint64(all) {
		values := d.Organization(org).Service(key).DistinctSet(set(k), hour, 2, "m", "a")
		values.Add(1)
		if k%every > 0 {
			values.Add(2)
		}
	}
	s.commit(d)
	s.clock.advance(7 * time.Hour)
	s.expire(hour, hour)
	require.EqualValues(t, all-all/every, s.rows()["distinct_sets"])
	s.expire(hour+3600, hour+3600)
	require.Zero(t, s.rows()["distinct_sets"])
}

func (s *suite) TestExpireServices(t *testing.T) {
	org := s.organization()
	id := s.seen(org, named("old"), catalog.RES001, true)
	s.commit(claim(org, named("old"), catalog.MET003, 1, 1, bucket(epoch)))
	s.commit(setOf(org, named("old"), delta.DistinctKey{Rule: catalog.MET001, Hour: int64(bucket(epoch))}, bucket(epoch), 1, 1))
	s.commit(one(org, named("old"), func(f *delta.Service) {
		f.AddExample(catalog.RES001, &delta.Example{TimeUnixNano: 1, ResourceAttributes: "{}"})
		f.AddItem(delta.Item{Rule: catalog.RES001, Text: "x"}, bucket(epoch))
	}))
	s.insight(org, id, catalog.RES001)
	require.NoError(t, s.SaveScores(s.ctx(), delta.Fence{}, org, []delta.Result{{ServiceID: id, Revision: 1, Score: score(1), NewRow: true}}))
	s.commit(one(org, named("timeless"), func(f *delta.Service) {
		f.AddClaim(delta.Claim{Rule: catalog.LOG001, Key: delta.Hash128{Low: 1}}, delta.ClaimFact{})
	}))
	// Its records are old, but it sent them lately.
	s.commit(one(org, named("late"), func(f *delta.Service) {
		f.Seen(1)
		f.AddUsage(bucket(epoch)+25*24*3600, delta.Logs, delta.Usage{Items: 1, Bytes: 1})
	}))

	day := func(n int) {
		t.Helper()
		s.clock.advance(time.Duration(n) * 24 * time.Hour)
		now := bucket(s.clock.now())
		s.expire(now-10*24*3600, now-10*24*3600)
	}
	day(29)
	rows := s.rows()
	require.EqualValues(t, 3, rows["services"])
	require.EqualValues(t, 1, rows["insights"])
	require.Zero(t, rows["scores"], "scores before the window")
	young := s.seen(org, named("young"), catalog.RES001, false)
	require.NotEqual(t, id, young)
	s.commit(one(org, named("young"), func(f *delta.Service) { f.Seen(uint64(s.clock.now().UnixNano())) }))
	day(2)
	require.ElementsMatch(t, []assay.ServiceKey{named("young"), named("late")}, must(s.KnownServices(s.ctx(), org))(t))
	day(5)
	rows = s.rows()
	require.EqualValues(t, 1, rows["services"])
	for _, table := range []string{"insights", "scores", "claims", "distinct_sets", "examples", "items", "hours"} {
		require.Zero(t, rows[table], table)
	}
	o := must(s.FindOrganizationByID(s.ctx(), org))(t)
	require.Zero(t, o.ActiveInsightsCount)
	require.Equal(t, 1, o.ServicesCount)
	_, total := must2(s.FindInsights(s.ctx(), assay.InsightFilter{OrganizationID: org, Page: assay.Page{Limit: 1}}))(t)
	require.Zero(t, total)

	// It may return under the same id.
	require.Equal(t, id, s.seen(org, named("old"), catalog.RES001, true))
	require.Empty(t, s.facts(org, id).Insights)
}

// TestNothingGrows runs the same load for days and expects the size of the store to
// become constant.
func (s *suite) TestNothingGrows(t *testing.T) {
	org := s.organization()
	const window = 12 * 3600
	repo := s.repository(org)
	require.NoError(t, s.StartOnboarding(s.ctx(), org))
	// Deliveries are kept for longer than this test's days; see TestDeliveryOrder and TestDeliveryLimits.
	hook := s.webhook(org, func(w *assay.Webhook) { w.Enabled = false })
	require.NoError(t, s.AddTestDelivery(s.ctx(), &assay.WebhookDelivery{OrganizationID: org, WebhookID: hook.ID, Status: assay.DeliveryFailed, CompletedAt: s.clock.now()}))
	run := func(hours int) {
		t.Helper()
		for range hours {
			now := s.clock.now()
			hour := bucket(now)
			n := uint64(hour)
			holder := fmt.Sprint("process ", n)
			s.acquire(s, holder, leaseTTL, "replica:"+holder, delta.JournalLease("a"))
			requests := []delta.Request{{OrganizationID: org, Hash: [16]byte{byte(n / 3600), byte(n / 3600 >> 8), byte(n / 3600 >> 16)}}}
			require.NoError(t, s.Commit(s.ctx(), now, requests, func([]bool) *delta.Delta {
				d := &delta.Delta{Journals: []delta.Journal{
					{Name: "a", Holder: holder, Next: n, Append: []delta.JournalEntry{entry(n, "x")}, Forget: []uint64{n - 3600}},
				}}
				for i := range 3 {
					f := d.Organization(org).Service(named(fmt.Sprint(i)))
					f.Seen(uint64(now.UnixNano()))
					f.Counts(hour)[catalog.RES001].Add(delta.Count{Observed: 1, Failed: 1})
					f.AddUsage(hour, delta.Traces, delta.Usage{Items: 1, Bytes: 1})
					f.AddExample(catalog.RES001, &delta.Example{TimeUnixNano: uint64(now.UnixNano()), ResourceAttributes: "{}"})
					f.AddItem(delta.Item{Rule: catalog.RES001, Text: fmt.Sprint(n)}, hour)
					f.AddClaim(delta.Claim{Rule: catalog.RES002, Key: delta.Hash128{High: 1, Low: n}, Value: uint64(i % 2)}, delta.ClaimFact{Last: hour})
					f.AddClaim(delta.Claim{Rule: catalog.RES002, Key: delta.Hash128{High: 1, Low: n + 1}, Value: 1}, delta.ClaimFact{Last: hour})
					f.AddClaim(delta.Claim{Rule: catalog.MET003, Key: delta.Hash128{High: 1, Low: n}, Value: n}, delta.ClaimFact{Last: hour, KeyText: "k", ValueText: "v"})
					f.AddClaim(delta.Claim{Rule: catalog.LOG001, Key: delta.Hash128{Low: delta.KeyLogDay}, Value: n / 86400}, delta.ClaimFact{Last: hour})
					f.DistinctSet(delta.DistinctKey{Rule: catalog.MET001, Hour: int64(hour), Key: 1}, hour, 1, "m", "a").Add(1)
					f.DistinctSet(delta.DistinctKey{Rule: catalog.MET001, Hour: int64(hour), Key: 2}, hour, 9, "m", "a").Add(1)
					f.Series.Add(delta.Mix(1, n), hour)
				}
				d.Organization(org).LogRecords[assay.SeverityInfo] = 1
				f := d.Organization(org).Service(named(fmt.Sprintf("version %d", n)))
				f.Seen(uint64(now.UnixNano()))
				f.Counts(hour)[catalog.RES001].Add(delta.Count{Observed: 1})
				return d
			}))
			ids := s.unscored(org)
			var results []delta.Result
			for _, id := range ids {
				sc := score(10)
				sc.CalculatedAt = micro(now)
				results = append(results, delta.Result{ServiceID: id, Revision: 1 << 40, Score: sc, NewRow: true, Insights: []*assay.Insight{newInsight(org, id, catalog.RES001)}})
			}
			require.NoError(t, s.SaveScores(s.ctx(), delta.Fence{}, org, results))
			for _, r := range results {
				in := r.Insights[0]
				k := assay.SummaryKey{OrganizationID: org, InsightID: in.ID, Evidence: [32]byte{byte(n / 3600)}}
				require.NoError(t, s.SaveSummary(s.ctx(), k, &assay.InsightSummary{InsightID: in.ID, GeneratedAt: now}))
				require.NoError(t, errOf(s.TakeSummaryCall(s.ctx(), org, now, 10)))
				require.NoError(t, errOf(s.SpendModel(s.ctx(), org, now, assay.ModelUsage{Tokens: 1}, assay.ModelUsage{})))
			}
			mean := 10.0
			require.NoError(t, s.SaveOrganizationScore(s.ctx(), delta.Fence{}, org, &mean, now))
			require.NoError(t, errOf(s.APIKeyPrefix(s.ctx(), fmt.Sprint("prefix", n))))
			require.NoError(t, s.CreateSession(s.ctx(), newSession(org, fmt.Sprint("session ", n), now)))
			require.NoError(t, s.SaveOnboardingState(s.ctx(), &assay.OnboardingState{Hash: [32]byte{byte(n / 3600), byte(n / 3600 >> 8)}, OrganizationID: org, ExpiresAt: now}))
			require.NoError(t, s.RotateSigningKey(s.ctx(), signingKey(fmt.Sprint("key ", n))))
			require.NoError(t, s.DeleteSigningKeys(s.ctx(), now.Add(-2*time.Hour)))
			for i := range 3 { // more than the limit for two days
				found := finding(i, "low")
				found.InsightIDs = []string{unknownID}
				run := s.started(repo, holder)
				require.NoError(t, s.SaveReview(s.ctx(), holder, run, repo, []*assay.CodeFinding{found}))
				require.NoError(t, s.SavePatch(s.ctx(), holder, run.ID, []byte("patch")))
				run.Status = assay.RunCompleted
				require.NoError(t, s.UpdateRun(s.ctx(), holder, run, []assay.RunEvent{{Name: "note"}}))
			}
			s.expire(hour-window, hour-window/2)
			s.clock.advance(time.Hour)
		}
	}
	run(2 * 24)
	full := s.rows()
	full["log_volume"] += 24 // periods of 30 days; see TestExpireLogRecords
	run(24)
	require.Equal(t, full, s.rows())
	for table, n := range full {
		if table != "api_keys" {
			require.Positive(t, n, "%s is not looked at", table)
		}
	}
}

// TestExpirePassesOver lets the expiry of a store meet values that cannot be decoded. It
// reports them and deletes all others. e is the engine of st, and prefix begins its errors.
func TestExpirePassesOver(t *testing.T, st Store, e query.Engine, prefix string) {
	s := &suite{Store: st, t: t, clock: new(clock)}
	org, hour := s.organization(), bucket(epoch)
	old := hour - 24*3600
	d := new(delta.Delta)
	names := []string{"broken", "whole", "total"}
	for _, name := range names {
		f := d.Organization(org).Service(named(name))
		for _, at := range []delta.Bucket{old, hour} {
			f.Counts(at)[catalog.RES001].Observed = 1
		}
		f.AddItem(delta.Item{Rule: catalog.RES001, Text: "x"}, old)
		f.Series.Add(1, old)
		f.AddClaim(delta.Claim{Rule: catalog.MET003, Key: delta.Hash128{High: 1, Low: 1}, Value: 1}, delta.ClaimFact{Last: old})
	}
	s.commit(d)
	const ofService = ` WHERE svc = (SELECT svc FROM services WHERE name = $2)`
	for _, broken := range []struct{ update, service string }{
		{`UPDATE hours SET tally = $1` + ofService + ` AND bucket < (SELECT max(bucket) FROM hours)`, "broken"},
		{`UPDATE items SET facts = $1` + ofService, "broken"},
		{`UPDATE series SET facts = $1` + ofService, "broken"},
		{`UPDATE services SET tally = $1` + ofService, "total"},
	} {
		var n int64
		st := query.Statement{SQL: broken.update, Args: []any{[]byte{0xff}, query.Text(broken.service)}, Changed: &n}
		require.NoError(t, e.Update(s.ctx(), connpool.OwnWork, "break a row", func(tx query.Tx) error {
			return tx.Send(s.ctx(), &query.Batch{Statements: []query.Statement{st}})
		}))
		require.EqualValues(t, 1, n)
	}
	err := s.Expire(s.ctx(), epoch, hour, hour)
	for _, what := range []string{"delete old counts: counts of service ", "delete old items: service ", "delete old series: service "} {
		require.ErrorContains(t, err, prefix+what)
	}
	left := s.rows()
	require.EqualValues(t, len(names), left["hours"], "those in the window")
	require.EqualValues(t, 1, left["items"], "the one that cannot be read")
	require.EqualValues(t, 1, left["series"])
	require.Zero(t, left["claims"])
	require.EqualValues(t, 1, s.facts(org, delta.ServiceID(org, named("whole"))).Totals[catalog.RES001].Observed)

	// The counts are deleted. The rows that stay are reported again.
	err = s.Expire(s.ctx(), epoch, hour, hour)
	require.ErrorContains(t, err, "delete old items")
	require.NotContains(t, err.Error(), "counts")
}
