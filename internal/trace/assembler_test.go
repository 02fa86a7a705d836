// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/delta"
	"assay/internal/rules/catalog"
)

var t0 = time.Date(2026, 10, 15, 12, 30, 0, 0, time.UTC)

const org = "org"

func resource(name string) *Resource {
	k := assay.ServiceKey{Name: name}
	return &Resource{Service: k, Hash: delta.ServiceHash(org, k), Attributes: `{"service.name":"` + name + `"}`}
}

func traceID(n int) (id [16]byte) {
	binary.BigEndian.PutUint64(id[:], 0xabcdef)
	binary.BigEndian.PutUint64(id[8:], uint64(n))
	return id
}

func spanID(n int) (id [8]byte) {
	binary.BigEndian.PutUint64(id[:], uint64(n))
	return id
}

// span returns a span of a trace. With parent 0 it is a root span.
func span(trace, id, parent int, r *Resource) Span {
	return Span{
		TraceID: traceID(trace), SpanID: spanID(id), ParentID: spanID(parent), Time: uint64(t0.UnixNano()),
		Resource: r, Name: fmt.Sprint("op ", id), NameHash: nameHash(fmt.Sprint("op ", id)),
	}
}

// counts returns the counts of a rule and service in a delta.
func counts(d *delta.Delta, service string, r catalog.Rule) (sum delta.Count) {
	if o := d.Organizations[org]; o != nil {
		if s := o.Services[assay.ServiceKey{Name: service}]; s != nil {
			for i := range s.Verdicts {
				sum.Add(s.Verdicts[i].Counts[r])
			}
		}
	}
	return sum
}

func example(d *delta.Delta, service string, r catalog.Rule) *delta.Example {
	return d.Organizations[org].Services[assay.ServiceKey{Name: service}].Examples[r]
}

func expire(a *Assembler, at time.Time) *delta.Delta {
	d := new(delta.Delta)
	a.Expire(at, 0, d)
	return d
}

func flush(a *Assembler, complete bool) *delta.Delta {
	d := new(delta.Delta)
	a.Flush(0, complete, d)
	return d
}

// requireEmpty fails the test if any state of traces is left.
func requireEmpty(t *testing.T, a *Assembler) {
	t.Helper()
	s := a.Stats()
	require.Zero(t, s.Traces)
	require.Zero(t, s.Spans)
	require.Zero(t, s.Bytes)
	for _, o := range a.tenants {
		require.Zero(t, o.bytes)
		require.Zero(t, o.nameBytes)
		require.Nil(t, o.arrived.front)
		require.Nil(t, o.arrived.back)
		require.Nil(t, o.started.front)
		require.Nil(t, o.started.back)
	}
}

func TestIdleTraceCloses(t *testing.T) {
	a, r := NewAssembler(Config{}), resource("a")
	a.Add(t0, org, []Span{span(1, 1, 0, r)})
	require.True(t, expire(a, t0.Add(30*time.Second-1)).Empty())
	a.Add(t0.Add(20*time.Second), org, []Span{span(1, 2, 1, r)})
	require.True(t, expire(a, t0.Add(50*time.Second-1)).Empty(), "a span defers closing")
	d := expire(a, t0.Add(50*time.Second))
	require.Equal(t, delta.Count{Observed: 1}, counts(d, "a", catalog.SPA001))
	require.Equal(t, delta.Count{Observed: 1}, counts(d, "a", catalog.SPA002))
	require.Equal(t, delta.Count{Observed: 1}, counts(d, "a", catalog.SPA005))
	requireEmpty(t, a)
}

func TestBusyTraceClosesAtTheMaximum(t *testing.T) {
	a, r := NewAssembler(Config{Idle: 30 * time.Second, Max: 10 * time.Minute}), resource("a")
	at := t0
	for i := 1; at.Before(t0.Add(10 * time.Minute)); i++ {
		a.Add(at, org, []Span{span(1, i, 0, r)})
		require.True(t, expire(a, at).Empty())
		at = at.Add(10 * time.Second)
	}
	require.Equal(t, delta.Count{Observed: 1}, counts(expire(a, t0.Add(10*time.Minute)), "a", catalog.SPA001))
	requireEmpty(t, a)

	// Spans that arrive after closing form another trace without their parents.
	a.Add(at, org, []Span{span(1, 999, 1, r)})
	require.Equal(t, delta.Count{Observed: 1, Failed: 1}, counts(expire(a, at.Add(30*time.Second)), "a", catalog.SPA002))
}

// TestClockGoesBack: traces do not wait for the clock to return to its old value.
func TestClockGoesBack(t *testing.T) {
	a := NewAssembler(Config{})
	r := resource("a")
	a.Add(t0, org, []Span{span(1, 1, 0, r)})
	back := t0.Add(-time.Hour)
	a.Add(back, org, []Span{span(2, 1, 0, r)})
	require.Zero(t, counts(expire(a, back), "a", catalog.SPA001))
	a.Add(back.Add(20*time.Second), org, []Span{span(3, 1, 0, r)})
	require.EqualValues(t, 2, counts(expire(a, back.Add(30*time.Second)), "a", catalog.SPA001).Observed)
	require.EqualValues(t, 1, counts(expire(a, back.Add(50*time.Second)), "a", catalog.SPA001).Observed)
	requireEmpty(t, a)
}

// TestSamplingAfterClockGoesBack: the time of the last decrease of the sampling level does not stay in the future, also
// without open traces. The later time of a concurrent transaction stays.
func TestSamplingAfterClockGoesBack(t *testing.T) {
	for ahead, want := range map[time.Duration]time.Duration{time.Hour: 0, time.Second: time.Second} {
		a := NewAssembler(Config{})
		o := a.tenants[a.org(org)]
		o.lowered, a.initial.lowered = t0.Add(ahead).UnixNano(), t0.Add(ahead).UnixNano()
		expire(a, t0)
		require.Equal(t, t0.Add(want).UnixNano(), o.lowered)
		require.Equal(t, t0.Add(want).UnixNano(), a.initial.lowered)
	}
}

// TestListsKeepTheirOrder closes traces one by one while others receive spans.
func TestListsKeepTheirOrder(t *testing.T) {
	a, r := NewAssembler(Config{Idle: 10 * time.Second}), resource("a")
	for i := range 5 {
		a.Add(t0.Add(time.Duration(i)*time.Second), org, []Span{span(i, 1, 0, r)})
	}
	a.Add(t0.Add(5*time.Second), org, []Span{span(0, 2, 0, r), span(2, 2, 0, r), span(4, 2, 0, r)})
	require.EqualValues(t, 1, counts(expire(a, t0.Add(11*time.Second)), "a", catalog.SPA001).Observed, "trace 1")
	require.EqualValues(t, 1, counts(expire(a, t0.Add(13*time.Second)), "a", catalog.SPA001).Observed, "trace 3")
	require.EqualValues(t, 3, counts(expire(a, t0.Add(15*time.Second)), "a", catalog.SPA001).Observed, "the others")
	requireEmpty(t, a)
}

func TestOrganizationsDoNotMix(t *testing.T) {
	a, r := NewAssembler(Config{}), resource("a")
	a.Add(t0, org, []Span{span(1, 2, 1, r)})
	a.Add(t0, "other", []Span{span(1, 1, 0, r)})
	d := flush(a, true)
	require.EqualValues(t, 1, counts(d, "a", catalog.SPA002).Failed)
	require.Len(t, d.Organizations, 2)
}

func TestIncompleteFlush(t *testing.T) {
	a, r := NewAssembler(Config{}), resource("a")
	var list []Span
	for i := range 11 {
		s := span(1, i+1, 99, r)
		s.Internal = true
		list = append(list, s)
	}
	a.Add(t0, org, list)
	d := flush(a, false)
	require.Equal(t, delta.Count{Observed: 1, Failed: 1}, counts(d, "a", catalog.SPA001))
	require.Equal(t, delta.Count{Observed: 1}, counts(d, "a", catalog.SPA005))
	require.Equal(t, delta.Count{}, counts(d, "a", catalog.SPA002), "the parents may still arrive")
	requireEmpty(t, a)
}

func TestWindowStart(t *testing.T) {
	a, r := NewAssembler(Config{}), resource("a")
	old := span(1, 1, 0, r)
	old.Time = 100
	a.Add(t0, org, []Span{old})
	d := new(delta.Delta)
	a.Flush(101, true, d)
	require.True(t, d.Empty())
	requireEmpty(t, a)

	newer := span(1, 2, 0, r)
	newer.Time = 200
	a.Add(t0, org, []Span{newer, old})
	a.Flush(200, true, d)
	require.EqualValues(t, 1, counts(d, "a", catalog.SPA001).Observed, "the newest span determines the time")
}

// TestOwners checks which service a trace of several services is attributed to.
func TestOwners(t *testing.T) {
	x, y, z := resource("x"), resource("y"), resource("z")
	short := func(n, from int, r *Resource) (list []Span) {
		for i := range n {
			s := span(1, from+i, 0, r)
			s.Short = true
			list = append(list, s)
		}
		return list
	}
	for _, c := range []struct {
		name  string
		spans [][]Span
		owner string
	}{
		{"the most short spans", [][]Span{short(8, 1, x), short(9, 100, y), short(7, 200, z)}, "y"},
		{"a tie goes to the first by name", [][]Span{{span(1, 900, 0, y)}, short(11, 100, y), short(11, 1, x)}, "x"},
		{"20 are within the limit", [][]Span{short(10, 1, x), short(10, 100, y)}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := NewAssembler(Config{})
			for _, list := range c.spans {
				a.Add(t0, org, list)
			}
			d := flush(a, true)
			for _, service := range []string{"x", "y", "z"} {
				want := uint64(0)
				if service == c.owner {
					want = 1
				}
				require.Equal(t, want, counts(d, service, catalog.SPA005).Failed, service)
			}
		})
	}
}

func TestParentsOnlySpans(t *testing.T) {
	a, r := NewAssembler(Config{}), resource("a")
	overflow := &Resource{ParentsOnly: true}
	a.Add(t0, org, []Span{span(1, 1, 9, overflow), span(1, 2, 1, r), span(2, 1, 5, overflow)})
	d := flush(a, true)
	require.Equal(t, delta.Count{Observed: 1}, counts(d, "a", catalog.SPA002))
	require.Len(t, d.Organizations[org].Services, 1)
}

func TestDuplicatesAndMissingIDs(t *testing.T) {
	a, r := NewAssembler(Config{}), resource("a")
	none := span(1, 0, 0, r)
	none.TraceID = [16]byte{}
	a.Add(t0, org, []Span{none})
	require.Zero(t, a.Stats().Traces, "a span without a trace id is ignored")

	a.Add(t0, org, []Span{span(1, 1, 0, r), span(1, 1, 0, r), span(1, 0, 0, r), span(1, 2, 1, r), span(1, 2, 1, r)})
	require.Equal(t, delta.Count{Observed: 2}, counts(flush(a, true), "a", catalog.SPA002))
	requireEmpty(t, a)
}

// TestParentSearch compares the linear and the indexed search for parents.
func TestParentSearch(t *testing.T) {
	for _, n := range []int{smallTrace - 1, smallTrace, smallTrace + 1, 500} {
		a, r := NewAssembler(Config{}), resource("a")
		var list []Span
		for i := range n {
			list = append(list, span(1, i+1, i, r))
		}
		list[n-1].ParentID = spanID(5000)
		a.Add(t0, org, list)
		d := flush(a, true)
		require.Equal(t, delta.Count{Observed: uint64(n - 1), Failed: 1}, counts(d, "a", catalog.SPA002), "%d spans", n)
		require.Equal(t, traceID(1), example(d, "a", catalog.SPA002).TraceID)
		items := d.Organizations[org].Services[assay.ServiceKey{Name: "a"}].Items
		require.Contains(t, items, delta.Item{Rule: catalog.SPA002, List: delta.SpanNames, Text: fmt.Sprint("op ", n)})
		require.Len(t, items, 1)
	}
}

// TestMemoryIsAccounted: when all traces have closed, no memory is charged.
func TestMemoryIsAccounted(t *testing.T) {
	a := NewAssembler(Config{Memory: 100 << 10, Idle: 5 * time.Second, Max: 20 * time.Second})
	r := rand.New(rand.NewPCG(1, 2))
	now := t0
	for range 3000 {
		now = now.Add(time.Duration(r.IntN(1000)) * time.Millisecond)
		var list []Span
		for range r.IntN(60) {
			res := resource(fmt.Sprint("s", r.IntN(40)))
			list = append(list, span(r.IntN(200), 1+r.IntN(50), r.IntN(50), res))
		}
		a.Add(now, org, list)
		require.LessOrEqual(t, a.Stats().Bytes, 100<<10)
		a.Expire(now, 0, new(delta.Delta))
	}
	require.Positive(t, a.Stats().Dropped, "the budget was exceeded at times")
	require.Positive(t, a.Stats().Traces)
	flush(a, true)
	requireEmpty(t, a)
}

func TestManyResourcesInOneTrace(t *testing.T) {
	a := NewAssembler(Config{Memory: 1 << 30})
	list := make([]*Resource, maxResources+100)
	for i := range list {
		list[i] = resource(fmt.Sprint("s", i%100))
		list[i].Attributes = fmt.Sprintf("%0100d", i)
	}
	for i, r := range list {
		s := span(1, i+1, 0, r)
		s.Internal = true
		a.Add(t0, org, []Span{s})
	}
	for i, r := range list[:1000] { // found in the index
		a.Add(t0, org, []Span{span(1, 100_000+i, 0, r)})
	}
	require.Len(t, opened(a, key{id: traceID(1)}).resources, maxResources)
	require.Greater(t, a.Stats().Bytes, maxResources*100)
	d := flush(a, true)
	require.EqualValues(t, 1, counts(d, "s7", catalog.SPA001).Failed)
	requireEmpty(t, a)
}

// fill opens n traces of two spans. The second span has no parent in the trace.
func fill(a *Assembler, at time.Time, from, n int, r *Resource) {
	for i := from; i < from+n; i++ {
		a.Add(at, org, []Span{span(i, 1, 0, r), span(i, 2, 77, r)})
	}
}

func TestShedding(t *testing.T) {
	const budget = 1 << 20
	a, r := NewAssembler(Config{Memory: budget}), resource("a")
	fill(a, t0, 0, 20_000, r)
	s := a.Stats()
	require.LessOrEqual(t, s.Bytes, budget)
	require.Less(t, s.SamplingRate, 1.0)
	require.EqualValues(t, 40_000, uint64(s.Spans)+s.Dropped, "each span is kept or counted as dropped")
	require.Equal(t, 2*s.Traces, s.Spans, "whole traces only")
	require.InDelta(t, 1, float64(budget)/float64(s.Bytes), 1.5, "drops little more than necessary")

	d := flush(a, true)
	c := counts(d, "a", catalog.SPA002)
	require.EqualValues(t, s.Traces, c.Observed)
	require.Equal(t, s.SamplingRate, example(d, "a", catalog.SPA002).SamplingRate, "evidence shows the sampling rate")
	requireEmpty(t, a)
}

func TestSheddingIsByTrace(t *testing.T) {
	a, r := NewAssembler(Config{Memory: 200 << 10}), resource("a")
	for round := range 3 {
		for i := range 2000 {
			a.Add(t0, org, []Span{span(i, round+1, 0, r)})
		}
	}
	require.Less(t, a.Stats().SamplingRate, 1.0)
	for tr := range allOpened(a) {
		k := tr.key
		require.True(t, a.keeps(tr.of, k.id))
		require.Len(t, tr.records, 3, "a kept trace is complete")
	}
}

func TestSeedSelectsKeptTraces(t *testing.T) {
	kept := func(seed uint64) (ids []int) {
		a := NewAssembler(Config{Memory: 100 << 10, Seed: seed})
		fill(a, t0, 0, 2000, resource("a"))
		for i := range 2000 {
			if opened(a, key{id: traceID(i)}) != nil {
				ids = append(ids, i)
			}
		}
		return ids
	}
	require.Equal(t, kept(1), kept(1))
	require.NotEqual(t, kept(1), kept(2))
}

// TestOneTraceTooLarge: the budget holds even if a single trace exceeds it.
func TestOneTraceTooLarge(t *testing.T) {
	const budget = 64 << 10
	a, r := NewAssembler(Config{Memory: budget}), resource("a")
	for i := range 50_000 {
		a.Add(t0, org, []Span{span(1, i+1, i, r)})
		require.LessOrEqual(t, a.Stats().Bytes, budget)
	}
	require.Equal(t, delta.Count{}, counts(flush(a, true), "a", catalog.SPA002), "the rest of a dropped trace")
	requireEmpty(t, a)
}

func TestRelaxing(t *testing.T) {
	a, r := NewAssembler(Config{Memory: 300 << 10, Idle: 30 * time.Second, Max: 10 * time.Minute}), resource("a")
	fill(a, t0, 0, 900, r)
	require.Equal(t, 0.5, a.Stats().SamplingRate)
	now := t0.Add(30 * time.Second)
	expire(a, now) // memory use is low from here on
	require.Equal(t, 0.5, a.Stats().SamplingRate)
	expire(a, now.Add(time.Minute-1))
	require.Equal(t, 0.5, a.Stats().SamplingRate, "only after a period of low memory use")
	now = now.Add(time.Minute)
	expire(a, now)
	require.Equal(t, 1.0, a.Stats().SamplingRate)

	// Traces dropped before may still receive spans.
	fill(a, now.Add(time.Second), 5000, 10, r)
	d := expire(a, now.Add(31*time.Second))
	require.EqualValues(t, 10, counts(d, "a", catalog.SPA001).Observed)
	require.Zero(t, counts(d, "a", catalog.SPA002).Observed, "a trace that may lack its beginning has no orphans")
	fill(a, now.Add(31*time.Second), 6000, 10, r)
	require.EqualValues(t, 10, counts(flush(a, true), "a", catalog.SPA002).Failed)
}

func TestSamplingStaysUnderLoad(t *testing.T) {
	a, r := NewAssembler(Config{Memory: 300 << 10, Idle: time.Hour, Max: 10 * time.Minute}), resource("a")
	fill(a, t0, 0, 900, r)
	a.relax(t0)
	a.relax(t0.Add(time.Hour))
	require.Equal(t, 0.5, a.Stats().SamplingRate)
}

// TestNamesAreDroppedFirst: names are dropped from evidence before spans are dropped.
func TestNamesAreDroppedFirst(t *testing.T) {
	a, r := NewAssembler(Config{Memory: 1 << 20}), resource("a")
	for i := range 20_000 {
		s := span(i%50, i+1, 99_999, r)
		s.Name = strings.Repeat("n", 200) + fmt.Sprint(i)
		s.NameHash = nameHash(s.Name)
		a.Add(t0, org, []Span{s})
		require.LessOrEqual(t, a.Stats().Bytes, 1<<20)
	}
	require.Equal(t, 20_000, a.Stats().Spans, "names are dropped before spans")
	d := flush(a, true)
	require.EqualValues(t, 20_000, counts(d, "a", catalog.SPA002).Failed)
	requireEmpty(t, a)
	a.Add(t0, org, []Span{span(1, 1, 9, r)})
	require.Contains(t, flush(a, true).Organizations[org].Services[assay.ServiceKey{Name: "a"}].Items,
		delta.Item{Rule: catalog.SPA002, List: delta.SpanNames, Text: "op 1"}, "names fit again")
}

func TestAddRace(t *testing.T) {
	a := NewAssembler(Config{Memory: 1 << 20})
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			r := resource(fmt.Sprint("w", w))
			for i := range 3000 {
				a.Add(t0.Add(time.Duration(i)*time.Millisecond), org, []Span{span(i, w+1, 0, r), span(i, 100+w, w+1, r)})
				if i%100 == 0 {
					a.Expire(t0.Add(time.Duration(i)*time.Millisecond), 0, new(delta.Delta))
					a.Stats()
				}
			}
		})
	}
	wg.Wait()
	flush(a, true)
	requireEmpty(t, a)
}

// BenchmarkAdd adds and closes traces of ten spans of three services.
func BenchmarkAdd(b *testing.B) {
	a := NewAssembler(Config{})
	services := []*Resource{resource("a"), resource("b"), resource("c")}
	batch := make([]Span, 0, 100)
	for i := range 100 {
		s := span(i/10, i+1, i-i%10+1, services[i%3])
		if i%10 == 0 {
			s.ParentID = [8]byte{}
		}
		batch = append(batch, s)
	}
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		for i := range batch {
			binary.BigEndian.PutUint64(batch[i].TraceID[8:], uint64(n*10+i/10))
		}
		a.Add(t0, org, batch)
		if n++; n%100 == 0 {
			a.Flush(0, true, new(delta.Delta))
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n*len(batch)), "ns/span")
}
