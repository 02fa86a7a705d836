// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"assay"
	"assay/internal/delta"
	"assay/internal/rules/catalog"
)

// of returns a resource of an organization's service.
func of(organization, service string) *Resource {
	k := assay.ServiceKey{Name: service}
	return &Resource{Service: k, Hash: delta.ServiceHash(organization, k), Attributes: `{"service.name":"` + organization + "/" + service + `"}`}
}

// wide returns a trace whose orphan, internal and short spans fail every rule for every service, in alternating order
// of services.
func wide(trace, services, spans int) []Span {
	resources := make([]*Resource, services)
	for i := range resources {
		resources[i] = resource(fmt.Sprint("service ", i))
	}
	list := make([]Span, spans)
	for i := range list {
		list[i] = span(trace, i+1, 1_000_000_000+i, resources[i%services])
		list[i].Internal, list[i].Short = true, true
	}
	return list
}

// TestEvaluationIsLinear counts steps: they grow with the sum of spans and services, not with the product.
func TestEvaluationIsLinear(t *testing.T) {
	for _, c := range []struct{ services, spans, ids int }{
		{1, 4000, 4000},
		{100, 4000, 4000},
		{2000, 4000, 4000},
		{9000, 36_000, 36_000},
		{20_000, 40_000, 40_000},
		{1, 4000, 1},
		{2000, 4000, 1},
		{20_000, 40_000, 20_000},
	} {
		a := NewAssembler(Config{Memory: 1 << 30})
		list := wide(1, c.services, c.spans)
		for i := range list {
			list[i].SpanID = spanID(1 + i%c.ids)
		}
		a.Add(t0, org, list)
		pieces, more := a.Evaluate(t.Context(), Due{All: true})
		require.Len(t, pieces, 1)
		require.False(t, more)
		require.LessOrEqual(t, a.evaluator.steps, uint64(4*(c.services+c.spans)), "%+v", c)
		require.LessOrEqual(t, len(pieces[0].items), maxTraceItems)
		pieces[0].Release()
	}
}

// TestPiecesAreBounded: a Piece is limited by count, and a large trace gets its own Piece.
func TestPiecesAreBounded(t *testing.T) {
	a := NewAssembler(Config{Memory: 1 << 30})
	for i := range 40 {
		list := wide(i, 500, 1000)
		for j := range list { // distinct services in each trace
			k := assay.ServiceKey{Name: fmt.Sprint(list[j].Resource.Service.Name, " of ", i)}
			list[j].Resource = &Resource{Service: k, Hash: delta.ServiceHash(org, k)}
		}
		a.Add(t0, org, list)
	}
	a.Add(t0, "other", wide(1, 3, 100))
	for closed := 0; closed < 41; {
		pieces, _ := a.Evaluate(t.Context(), Due{All: true})
		require.NotEmpty(t, pieces)
		for _, p := range pieces {
			require.Less(t, p.Rows(), maxPieceServices+500+2)
			closed += p.Traces()
		}
	}
}

// TestEvidenceIsBounded: new evidence counts as rows, and a trace has evidence of a limited number of services.
func TestEvidenceIsBounded(t *testing.T) {
	const services = 3 * maxTraceEvidence
	filter := delta.NewFilter(20)
	a := NewAssembler(Config{Memory: 1 << 30, Filter: filter})
	evaluate := func(trace int) (*Piece, *delta.Delta) {
		list := wide(trace, services, services)
		for i := range list {
			list[i].ParentID = spanID(1 << 20)
			list[i].Name, list[i].NameHash = "op", nameHash("op")
		}
		a.Add(t0, org, list)
		pieces, more := a.Evaluate(t.Context(), Due{All: true})
		require.Len(t, pieces, 1)
		require.False(t, more)
		x := a.Transaction()
		x.Begin(t0)
		d := x.Close(pieces[0])
		x.Commit()
		pieces[0].Release()
		return pieces[0], d
	}
	p, d := evaluate(1)
	require.Equal(t, 1+services+maxTraceEvidence*delta.EvidenceRows, p.Rows())
	examples, items := 0, 0
	for _, s := range d.Organizations[org].Services {
		require.Equal(t, delta.Count{Observed: 1, Failed: 1}, s.Verdicts[0].Counts[catalog.SPA002])
		if s.Examples[catalog.SPA002] != nil {
			examples++
		}
		items += len(s.Items)
	}
	require.Equal(t, maxTraceEvidence, examples)
	require.GreaterOrEqual(t, items, maxTraceEvidence)
	for _, h := range d.Remember {
		filter.Add(h)
	}
	p, _ = evaluate(2)
	require.Equal(t, 1+services, p.Rows(), "no new evidence")
}

// TestEvidenceOfLastService: a service that fails has evidence in a trace of many services that do not.
func TestEvidenceOfLastService(t *testing.T) {
	const services = 2 * maxTraceEvidence
	a := NewAssembler(Config{Memory: 1 << 30})
	list := wide(1, services, services)
	for i := range list {
		list[i].ParentID = [8]byte{}
	}
	last := &list[services-1]
	last.ParentID, last.Name, last.NameHash = spanID(1<<20), "op", nameHash("op")
	a.Add(t0, org, list)
	d := new(delta.Delta)
	a.Flush(0, true, d)
	s := d.Organizations[org].Services[last.Resource.Service]
	require.Equal(t, delta.Count{Observed: 1, Failed: 1}, s.Verdicts[0].Counts[catalog.SPA002])
	require.NotNil(t, s.Examples[catalog.SPA002])
	require.Len(t, s.Items, 1)
}

// TestEvidenceNamesDistinctSpans: many spans of one name do not hide the other names.
func TestEvidenceNamesDistinctSpans(t *testing.T) {
	a := NewAssembler(Config{Memory: 1 << 30})
	list := wide(1, 1, 3*delta.MaxItems+2)
	for i := range list {
		list[i].ParentID = spanID(1 << 20)
		name := "op"
		if i >= 3*delta.MaxItems {
			name = fmt.Sprint("op ", i%2)
		}
		list[i].Name, list[i].NameHash = name, nameHash(name)
	}
	a.Add(t0, org, list)
	d := new(delta.Delta)
	a.Flush(0, true, d)
	s := d.Organizations[org].Services[list[0].Resource.Service]
	for _, rule := range ruleOf {
		var names []string
		for it := range s.Items {
			if it.Rule == rule {
				names = append(names, it.Text)
			}
		}
		require.ElementsMatch(t, []string{"op", "op 0", "op 1"}, names)
	}
}

// TestLateSpans: spans that arrive after their trace has closed are another trace, in which the others are missing.
func TestLateSpans(t *testing.T) {
	for _, late := range [][2]Span{
		{span(1, 1, 0, resource("early")), span(1, 2, 1, resource("late"))}, // a child
		{span(1, 2, 1, resource("early")), span(1, 1, 0, resource("late"))}, // a parent
	} {
		a := NewAssembler(Config{})
		var d delta.Delta
		for i := range late {
			now := t0.Add(time.Duration(i) * 31 * time.Second)
			a.Expire(now, 0, &d)
			a.Add(now, org, late[i:i+1])
		}
		a.Flush(0, true, &d)
		both := counts(&d, "early", catalog.SPA002)
		both.Add(counts(&d, "late", catalog.SPA002))
		require.Equal(t, delta.Count{Observed: 1, Failed: 1}, both)
	}
}

// TestEvaluateTakesTurns: an organization with many traces does not delay another.
func TestEvaluateTakesTurns(t *testing.T) {
	a := NewAssembler(Config{Memory: 1 << 30})
	for i := range maxPieceTraces + 100 {
		a.Add(t0, "many", []Span{nameless(i, 1, 0, of("many", "a"))})
	}
	for i := range 2 * maxPieces {
		id := fmt.Sprint("few ", i)
		a.Add(t0, id, []Span{nameless(1, 1, 0, of(id, "a"))})
	}
	seen := make(map[string]int)
	for range 3 {
		pieces, _ := a.Evaluate(t.Context(), Due{All: true})
		require.LessOrEqual(t, len(pieces), maxPieces)
		for _, p := range pieces {
			seen[p.Organization()] += p.Traces()
		}
	}
	require.Len(t, seen, 2*maxPieces+1, "three rounds reach all")
	require.Equal(t, maxPieceTraces+100, seen["many"])
}

// TestStaleVerdicts: changes to a trace after its evaluation are not lost.
func TestStaleVerdicts(t *testing.T) {
	r := resource("a")
	for name, change := range map[string]func(a *Assembler){
		"span arrived": func(a *Assembler) { a.Add(t0, org, []Span{span(1, 2, 1, r)}) },
		"dropped":      func(a *Assembler) { a.drop(opened(a, key{id: traceID(1)})) },
		"id reused":    func(a *Assembler) { a.drop(opened(a, key{id: traceID(1)})); a.Add(t0, org, []Span{span(1, 1, 0, r)}) },
		"memory reused": func(a *Assembler) {
			a.drop(opened(a, key{id: traceID(1)}))
			a.Add(t0, org, []Span{span(2, 1, 0, r)})
		},
		"marked partial": func(a *Assembler) { a.markPartial(a.tenants[0], t0, t0.UnixNano()) },
	} {
		t.Run(name, func(t *testing.T) {
			a := NewAssembler(Config{})
			x := a.Transaction()
			a.Add(t0, org, []Span{span(1, 1, 9, r)})
			pieces, _ := a.Evaluate(t.Context(), Due{All: true})
			change(a)
			open := a.Stats().Traces
			x.Begin(t0)
			require.True(t, x.Close(pieces[0]).Empty())
			x.Commit()
			pieces[0].Release()
			require.Equal(t, open, a.Stats().Traces)
			pieces, _ = a.Evaluate(t.Context(), Due{All: true})
			if open > 0 {
				require.Equal(t, 1, pieces[0].Traces(), "evaluated again")
			} else {
				require.Empty(t, pieces)
			}
		})
	}
}

// TestEvaluateRace runs all operations concurrently. Each span is in exactly one verdict.
func TestEvaluateRace(t *testing.T) {
	a := NewAssembler(Config{Memory: 1 << 30})
	x := a.Transaction()
	const rounds, traces = 300, 50
	ids := []string{"one", "two"}
	done := make(chan struct{})
	pieces := make(chan *Piece, 2)
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(pieces)
		for {
			found, more := a.Evaluate(context.Background(), Due{All: true})
			for _, p := range found {
				pieces <- p
			}
			select {
			case <-done:
				if len(found) == 0 && !more {
					return
				}
			default:
			}
		}
	})
	var d delta.Delta
	closePiece := func(p *Piece) {
		x.Begin(t0)
		v := x.Close(p)
		x.Commit()
		p.Release()
		d.Merge(v)
	}
	for i := range rounds {
		x.Begin(t0)
		for _, id := range ids {
			var list []Span
			for j := range 20 {
				list = append(list, span((i*7+j)%traces, 1+i*20+j, 1_000_000+i, of(id, "a")))
			}
			x.Add(id, list)
		}
		x.Commit()
		select {
		case p := <-pieces:
			closePiece(p)
		default:
		}
	}
	close(done)
	for p := range pieces {
		closePiece(p)
	}
	wg.Wait()
	x.Begin(t0) // for traces that changed after their last evaluation
	v, _ := closing(x, Due{All: true})
	x.Commit()
	d.Merge(v)
	requireEmpty(t, a)
	for _, id := range ids {
		var sum delta.Count
		for _, v := range d.Organizations[id].Services[assay.ServiceKey{Name: "a"}].Verdicts {
			sum.Add(v.Counts[catalog.SPA002])
		}
		require.Equal(t, delta.Count{Observed: rounds * 20, Failed: rounds * 20}, sum)
	}
}

// TestFailedVerdict: a trace is dropped after its verdict has failed several times while other transactions
// committed.
func TestFailedVerdict(t *testing.T) {
	a := NewAssembler(Config{})
	a.Add(t0, org, []Span{span(1, 1, 0, resource("a")), span(2, 1, 0, resource("a"))})
	fail := func(now time.Time, commits uint64) (drop, ok bool) {
		pieces, _ := a.Evaluate(t.Context(), Due{Now: now, Limit: func(string) int { return 1 }})
		if len(pieces) == 0 {
			return false, false
		}
		defer pieces[0].Release()
		require.Equal(t, traceID(1), pieces[0].traces[0].id)
		drop = pieces[0].Failed(now, commits)
		if drop {
			x := a.Transaction()
			pieces[0].Drop()
			x.Begin(now)
			require.True(t, x.Close(pieces[0]).Empty())
			x.Commit()
		}
		return drop, true
	}
	now := t0.Add(30 * time.Second)
	for range 10 { // the store accepts no transaction
		drop, ok := fail(now, 7)
		require.True(t, ok)
		require.False(t, drop)
	}
	drop, _ := fail(now, 8)
	require.False(t, drop)
	pieces, _ := a.Evaluate(t.Context(), Due{Now: now})
	require.Equal(t, traceID(2), pieces[0].traces[0].id, "other traces are not delayed")
	require.Equal(t, 1, pieces[0].Traces())
	pieces[0].Release()
	now = now.Add(30 * time.Second)
	drop, ok := fail(now, 9)
	require.True(t, ok)
	require.True(t, drop)
	require.Equal(t, 1, a.Stats().Traces)
}

// TestSharesOfMemory: an organization below its share keeps all its spans and is not sampled, whatever another
// organization sends.
func TestSharesOfMemory(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := func(label string, low, high int) int { return rapid.IntRange(low, high).Draw(rt, label) }
		const budget = 256 << 10
		a := NewAssembler(Config{Memory: budget, Seed: uint64(n("seed", 0, 1000))})
		greedy := n("greedy", 1, 3)
		modest := of("modest", "a")
		sent := 0
		for i := range n("rounds", 5, 40) {
			for g := range greedy {
				id := fmt.Sprint("greedy ", g)
				var list []Span
				for range n("spans", 0, 400) {
					s := span(n("trace", 0, 3000), n("id", 1, 50), n("parent", 0, 50), of(id, fmt.Sprint("s", n("service", 0, 5))))
					s.Name = fmt.Sprintf("%0*d", n("length", 1, 200), n("name", 0, 5000))
					s.NameHash = nameHash(s.Name)
					list = append(list, s)
				}
				a.Add(t0.Add(time.Duration(i)*time.Second), id, list)
				require.LessOrEqual(rt, a.Stats().Bytes, budget)
			}
			if a.tenants[a.org("modest")].bytes < budget/(greedy+1)/2 {
				s := span(i, 1+i, 99, modest)
				a.Add(t0.Add(time.Duration(i)*time.Second), "modest", []Span{s})
				sent++
			}
			o := a.tenants[a.org("modest")]
			require.Zero(rt, o.level)
			require.Zero(rt, o.lowered)
		}
		d := flush(a, true)
		s := d.Organizations["modest"].Services[assay.ServiceKey{Name: "a"}]
		require.EqualValues(rt, sent, s.Verdicts[0].Counts[catalog.SPA002].Failed)
		require.NotEmpty(rt, s.Items, "its names are there, too")
	})
}

// TestRecoveryAfterAFlood: minutes after flooding, an organization keeps all its traces again. No other organization
// was sampled.
func TestRecoveryAfterAFlood(t *testing.T) {
	a := NewAssembler(Config{Memory: 1 << 20})
	for i := range 100_000 {
		a.Add(t0, "flood", []Span{nameless(i, 1, 0, of("flood", "a"))})
	}
	require.Less(t, a.Stats().SamplingRate, 0.5)
	now := t0
	for now.Sub(t0) < 15*time.Minute {
		now = now.Add(time.Second)
		expire(a, now)
	}
	require.Equal(t, 1.0, a.Stats().SamplingRate)
}

// TestJournalOfVersion1 reads a journal of version 1: two organizations with the same service name and trace id, and
// sampling that went up and down.
func TestJournalOfVersion1(t *testing.T) {
	b, err := os.ReadFile("testdata/journal-v1.json")
	require.NoError(t, err)
	var old struct {
		Entries  []delta.JournalEntry
		Contents map[string]string
	}
	require.NoError(t, json.Unmarshal(b, &old))
	next := start(t, new(disk), "new", Config{})
	next.disk.journals = map[string]map[uint64][]byte{"old": {}}
	for _, e := range old.Entries {
		next.disk.journals["old"][e.Seq] = e.Data
	}
	r := next.recover("old")
	got := make(map[string]string)
	for tr := range allOpened(r.a) {
		k := tr.key
		s := fmt.Sprint(tr.level, " ", tr.partial, " ", tr.first, " ", tr.time)
		for _, x := range tr.records {
			res := tr.resources[x.resource]
			require.Equal(t, delta.ServiceHash(tr.of.id, res.Service), res.Hash, "hashes are valid in this process")
			s += fmt.Sprintf(" %x %x %d %s %s", x.id, x.parent, x.flags, tr.names.text(x.name), res.Attributes)
		}
		got[tr.of.id+fmt.Sprintf(" %x", k.id)] = s
	}
	require.Equal(t, old.Contents, got)
	next.adopt(t0.Add(time.Minute), "old")
	next.check()
	next.mirrored(t0.Add(time.Minute))
}

// TestNamesAndServicesAreSeparate: verdicts contain nothing of another organization, even with equal traces,
// services and names.
func TestNamesAndServicesAreSeparate(t *testing.T) {
	d := new(disk)
	p := start(t, d, "a", Config{})
	p.transact(t0, succeeds, func(x *Transaction) {
		for _, id := range []string{"one", "two"} {
			s := span(1, 1, 9, of(id, "same"))
			s.Name = "name of " + id // hashes that collide
			s.NameHash = 42
			x.Add(id, []Span{s})
		}
	})
	check := func(p *process) {
		t.Helper()
		for _, id := range []string{"one", "two"} {
			s := p.disk.verdicts.Organizations[id].Services[assay.ServiceKey{Name: "same"}]
			require.Equal(t, `{"service.name":"`+id+`/same"}`, s.Examples[catalog.SPA002].ResourceAttributes)
			require.Equal(t, map[delta.Item]delta.Bucket{
				{Rule: catalog.SPA002, List: delta.SpanNames, Text: "name of " + id}: delta.BucketOf(uint64(t0.UnixNano()), time.Hour),
			}, s.Items)
		}
	}
	next := start(t, d, "b", Config{}) // another process reads the journal
	next.adopt(t0, "a")
	next.expire(t0.Add(time.Minute))
	check(next)
}
