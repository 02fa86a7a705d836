// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"assay/internal/delta"
	"assay/internal/rules/catalog"
)

// disk simulates a store of journals and verdicts.
type disk struct {
	journals map[string]map[uint64][]byte
	verdicts delta.Delta
}

// commit is one transaction: it applies everything, or returns an error and applies nothing.
func (d *disk) commit(facts *delta.Delta, journals []delta.Journal) error {
	for _, j := range journals {
		for seq := range d.journals[j.Name] {
			if seq >= j.Next {
				return delta.ErrJournalConflict
			}
		}
	}
	if d.journals == nil {
		d.journals = make(map[string]map[uint64][]byte)
	}
	for _, j := range journals {
		if d.journals[j.Name] == nil {
			d.journals[j.Name] = make(map[uint64][]byte)
		}
		for _, e := range j.Append {
			d.journals[j.Name][e.Seq] = bytes.Clone(e.Data) // the writer reuses its memory
		}
		for _, seq := range j.Forget {
			delete(d.journals[j.Name], seq)
		}
	}
	if facts != nil {
		d.verdicts.Merge(facts)
	}
	return nil
}

func (d *disk) read(name string) (entries []delta.JournalEntry) {
	for _, seq := range slices.Sorted(maps.Keys(d.journals[name])) {
		entries = append(entries, delta.JournalEntry{Seq: seq, Data: d.journals[name][seq]})
	}
	return entries
}

// process simulates a process: an Assembler with a journal.
type process struct {
	tb   rapid.TB
	name string
	disk *disk
	a    *Assembler
	x    *Transaction

	verdicts *delta.Delta // of the current transaction
}

func start(tb rapid.TB, d *disk, name string, cfg Config) *process {
	a := NewAssembler(cfg)
	return &process{tb: tb, name: name, disk: d, a: a, x: a.Transaction()}
}

// transact runs one transaction with the given outcome.
func (p *process) transact(now time.Time, end outcome, do func(x *Transaction)) {
	p.tb.Helper()
	require.NoError(p.tb, p.try(now, end, do))
}

// try runs one transaction with the given outcome, which fails if another process has written to the journals. If that
// process has taken over the journal, p begins another one.
func (p *process) try(now time.Time, end outcome, do func(x *Transaction)) error {
	p.tb.Helper()
	next := p.a.Next()
	p.x.Begin(now)
	p.verdicts = new(delta.Delta)
	do(p.x)
	journals := p.x.Journals(p.name, "holder")
	if end == fails {
		return nil
	}
	err := p.disk.commit(p.verdicts, journals)
	if err == nil && end == succeeds {
		p.x.Commit()
		return nil
	}
	for _, e := range p.disk.read(p.name) {
		if e.Seq < next {
			continue
		}
		taken, err := p.a.Replay(now, e)
		require.NoError(p.tb, err)
		if taken {
			p.a.Abandon(now)
			p.name += "+"
			break
		}
	}
	p.x.Begin(now)
	return err
}

// adoptSome adopts traces, at most a number of them, as if the others did not fit into the transaction.
func adoptSome(x *Transaction, r *Recovery, most int) {
	x.Adopt(r)
	if len(r.chunk) <= most {
		return
	}
	r.chunk = r.chunk[:most]
	x.adoptedSpans.reset()
	x.unsampled = 0
	for _, t := range r.chunk {
		x.adoptTrace(t)
	}
	x.adoptResources()
}

type outcome int

const (
	succeeds outcome = iota
	fails
	unknown // it committed, but the client got an error
)

func (p *process) add(now time.Time, spans ...Span) {
	p.tb.Helper()
	p.transact(now, succeeds, func(x *Transaction) { x.Add(org, spans) })
}

func (p *process) expire(now time.Time) {
	p.tb.Helper()
	p.transact(now, succeeds, p.closeDue)
}

// closing closes the due traces. It returns their verdicts and whether more are due.
func closing(x *Transaction, due Due) (*delta.Delta, bool) {
	d := new(delta.Delta)
	var all []*Piece
	for {
		pieces, more := x.a.Evaluate(context.Background(), due)
		for _, p := range pieces {
			d.Merge(x.Close(p))
		}
		all = append(all, pieces...)
		if !more || due.Limit != nil {
			for _, p := range all {
				p.Release()
			}
			return d, more
		}
	}
}

func (p *process) closeDue(x *Transaction) {
	d, _ := closing(x, Due{Now: x.now})
	p.verdicts.Merge(d)
}

func (p *process) closeAll(x *Transaction) {
	d, _ := closing(x, Due{Now: x.now, All: true})
	p.verdicts.Merge(d)
}

// beginSweep begins a sweep of every organization.
func (p *process) beginSweep() {
	for _, o := range p.a.tenants {
		o.ledger.beginSweep(o.started.front)
	}
}

// sweeping reports whether entries of an organization are swept.
func (p *process) sweeping() bool {
	return slices.ContainsFunc(p.a.tenants, func(o *tenant) bool { return o.ledger.sweeping })
}

// sweep moves some traces as if the journal were oversized.
func (p *process) sweep(now time.Time, end outcome) {
	p.tb.Helper()
	p.beginSweep()
	p.transact(now, end, func(*Transaction) {})
}

// recover reads the journal of another process.
func (p *process) recover(name string) *Recovery {
	p.tb.Helper()
	r := p.a.Recovery(name)
	require.NoError(p.tb, r.Read(p.disk.read(name)))
	require.Zero(p.tb, r.Damaged)
	return r
}

// adopt takes over the journal of another process completely.
func (p *process) adopt(now time.Time, name string) {
	p.tb.Helper()
	for r := p.recover(name); !r.Ended(); {
		p.transact(now, succeeds, func(x *Transaction) { x.Adopt(r) })
	}
}

// check compares the ledger with the journal.
func (p *process) check() {
	p.tb.Helper()
	left := maps.Clone(p.disk.journals[p.name])
	for _, e := range p.a.journal.forget {
		delete(left, e.seq)
	}
	size, needed := 0, 0
	for _, o := range p.a.tenants {
		l := &o.ledger
		bytes, spans, held := 0, 0, 0
		for _, e := range l.entries {
			if !e.gone {
				require.Contains(p.tb, left, e.seq)
				require.Len(p.tb, left[e.seq], e.bytes)
				bytes, spans, needed = bytes+e.bytes, spans+e.spans, needed+1
			}
		}
		require.Equal(p.tb, []int{bytes, spans}, []int{l.bytes, l.spans})
		refs := make(map[uint64]int)
		for t := o.started.front; t != nil; t = t.started.next {
			held += len(t.records)
			require.NotEmpty(p.tb, t.entries)
			for _, at := range t.entries {
				require.False(p.tb, l.at(at).gone)
				refs[at]++
			}
		}
		require.Equal(p.tb, held, o.spans)
		for i, e := range l.entries {
			require.Equal(p.tb, refs[l.first+uint64(i)], e.refs)
		}
		size += bytes
		for t := o.started.front; t != nil && t.started.next != nil; t = t.started.next {
			require.LessOrEqual(p.tb, t.first, t.started.next.first)
		}
	}
	require.Len(p.tb, left, needed)
	require.Equal(p.tb, size, p.a.journal.bytes)
}

// contents returns the traces that a process with sufficient memory would recover from a journal.
func (p *process) contents(name string) map[string]string {
	p.tb.Helper()
	cfg := p.a.cfg
	cfg.Memory = math.MaxInt / 2
	r := NewAssembler(cfg).Recovery(name)
	require.NoError(p.tb, r.Read(p.disk.read(name)))
	require.Zero(p.tb, r.Damaged)
	return describe(r.a)
}

// describe returns the process-independent state by trace.
func describe(a *Assembler) map[string]string {
	traces := make(map[string]string)
	resources := make(map[*Resource]uint64)
	var b []byte
	for t := range allOpened(a) {
		k := t.key
		b = fmt.Append(b[:0], t.level, t.partial, t.first, t.time)
		for _, r := range t.records {
			res := t.resources[r.resource]
			if resources[res] == 0 {
				resources[res] = delta.HashString(fmt.Sprint(res.Service, res.ParentsOnly, res.Attributes))
			}
			b = append(b, ' ')
			b = strconv.AppendUint(b, r.id, 16)
			b = append(b, ' ')
			b = strconv.AppendUint(b, r.parent, 16)
			b = append(b, byte('0'+r.flags), ' ')
			b = append(b, t.names.text(r.name)...)
			b = append(b, '/')
			b = strconv.AppendUint(b, resources[res], 16)
		}
		traces[t.of.id+string(k.id[:])] = string(b)
	}
	return traces
}

// mirrored fails the test unless the journal matches the memory.
func (p *process) mirrored(now time.Time) {
	p.tb.Helper()
	for len(p.a.unrecorded()) > 0 || len(p.a.journal.forget) > forgetEntries { // dropped traces are recorded later
		p.transact(now, succeeds, func(*Transaction) {})
	}
	want, got := describe(p.a), p.contents(p.name)
	for k, text := range want {
		if got[k] != text {
			p.tb.Fatalf("trace %x: got %.500s, want %.500s", k, got[k], text)
		}
	}
	require.Equal(p.tb, len(want), len(got))
}

var ruleIDs = []catalog.Rule{catalog.SPA001, catalog.SPA002, catalog.SPA005}

// tallies returns the counts of all trace rules by service.
func tallies(d *delta.Delta, services ...string) map[string][]delta.Count {
	m := make(map[string][]delta.Count)
	for _, s := range services {
		for _, r := range ruleIDs {
			m[s] = append(m[s], counts(d, s, r))
		}
	}
	return m
}

// TestJournalAgainstUndisturbed kills processes, fails transactions, and makes outcomes of transactions unknown, while
// another organization fills the memory. The verdicts must equal those of an undisturbed process with enough memory. No
// trace of the other organization is evaluated without its beginning.
func TestJournalAgainstUndisturbed(t *testing.T) {
	resources := []*Resource{resource("a"), resource("b"), {ParentsOnly: true}}
	resources = append(resources, &Resource{Service: resources[0].Service, Hash: resources[0].Hash, Attributes: "another"})
	rapid.Check(t, func(rt *rapid.T) {
		n := func(label string, limit int) int { return rapid.IntRange(0, limit).Draw(rt, label) }
		cfg := Config{Idle: 10 * time.Second, Max: 40 * time.Second}
		d, still, undisturbed, now := new(disk), NewAssembler(cfg), new(delta.Delta), t0
		lives, flooded, flood, floodAt, most := 0, 0, 0, t0, 30
		if n("short of memory", 1) == 1 {
			cfg.Memory, most = 256<<10, 10
		}
		p := start(rt, d, "0", cfg)
		spans := func() (list []Span) {
			for range n("spans", most) {
				s := span(n("trace", 4), 1+n("id", 30), n("parent", 30), resources[n("resource", len(resources)-1)])
				s.Internal, s.Short, s.Time = n("internal", 1) == 0, n("short", 1) == 0, uint64(now.UnixNano())
				list = append(list, s)
			}
			return list
		}
		rt.Repeat(map[string]func(*rapid.T){
			"": func(*rapid.T) {
				p.check()
				if n("look", 2) == 0 {
					p.mirrored(now)
				}
			},
			"spans": func(rt *rapid.T) {
				one, other, end := spans(), spans(), outcome(n("outcome", 2))
				closes := n("closes", 3) == 0
				p.transact(now, end, func(x *Transaction) {
					if closes {
						p.closeDue(x)
					}
					for range 1 + n("repeats", 1) {
						x.Restart()
						x.Add(org, one)
						x.Add("other", other)
						if end != succeeds {
							x.Journals("unused", "holder")
						}
					}
					x.Restart()
					x.Add(org, one)
					x.Add("other", other)
				})
				if end == fails { // retried by the sender
					p.transact(now, succeeds, func(x *Transaction) {
						if closes {
							p.closeDue(x)
						}
						x.Add(org, one)
						x.Add("other", other)
					})
				}
				if closes {
					still.Expire(now, 0, undisturbed)
				}
				still.Add(now, org, one)
				still.Add(now, "other", other)
			},
			"time": func(rt *rapid.T) { now = now.Add(time.Duration(n("seconds", 6)) * time.Second) },
			"close": func(rt *rapid.T) {
				p.transact(now, outcome(n("outcome", 2)), p.closeDue)
				p.expire(now)
				still.Expire(now, 0, undisturbed)
			},
			"flood": func(*rapid.T) {
				var list []Span
				for i := range flood {
					if now.Sub(floodAt) < cfg.Idle {
						list = append(list, span(flooded-i, 2, 1, resources[0]))
					}
				}
				flood, floodAt = n("flood", 300), now
				for range flood {
					flooded++
					list = append(list, span(flooded, 1, 0, resources[0]))
				}
				p.transact(now, succeeds, func(x *Transaction) { x.Add("loud", list) })
			},
			"sweep": func(*rapid.T) { p.sweep(now, outcome(n("outcome", 2))) },
			"kill": func(rt *rapid.T) {
				dead := p.name
				lives++
				p = start(rt, d, fmt.Sprint(lives), cfg)
				// Some spans of the second half may arrive before the first half is taken over.
				if early := spans(); n("early", 1) == 0 {
					p.add(now, early...)
					still.Add(now, org, early)
				}
				if n("halfway", 1) == 0 { // another process is killed after adopting a part
					r := p.recover(dead)
					for i := 0; i < 2 && !r.Ended(); i++ {
						p.transact(now, succeeds, func(x *Transaction) { adoptSome(x, r, max(1, r.Traces()/2)) })
					}
					half := p.name
					lives++
					p = start(rt, d, fmt.Sprint(lives), cfg)
					p.adopt(now, half)
				}
				p.adopt(now, dead)
				if since, over := p.recover(dead).AllMoved(); len(d.journals[dead]) > 0 {
					require.True(rt, over)
					require.WithinDuration(rt, now, since, 0)
				}
				for _, o := range still.tenants {
					for t := o.started.front; t != nil; t = t.started.next { // no spans could arrive
						t.last = now.UnixNano()
						o.arrived.moveToBack(t)
					}
				}
			},
		})
		p.transact(now, succeeds, p.closeAll)
		still.Flush(0, true, undisturbed)
		require.Equal(rt, tallies(undisturbed, "a", "b"), tallies(&d.verdicts, "a", "b"))
		loud := &delta.Delta{Organizations: map[string]*delta.Organization{org: d.verdicts.Organizations["loud"]}}
		require.Zero(rt, counts(loud, "a", catalog.SPA002).Failed)
		delete(d.verdicts.Organizations, "loud")
		require.Equal(rt, len(undisturbed.Organizations), len(d.verdicts.Organizations))
		p.transact(now, succeeds, func(*Transaction) {})
		if cfg.Memory == 0 { // nothing is sampled
			require.Empty(rt, d.journals[p.name], "unneeded entries are removed")
			require.False(rt, p.a.Pending())
		}
	})
}

// nameless returns span without its name.
func nameless(trace, id, parent int, r *Resource) Span {
	return Span{TraceID: traceID(trace), SpanID: spanID(id), ParentID: spanID(parent), Time: uint64(t0.UnixNano()), Resource: r}
}

// TestEntries: decoding an encoded entry returns the original.
func TestEntries(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := func(label string, limit int) int { return rapid.IntRange(0, limit).Draw(rt, label) }
		text := rapid.StringN(0, 40, 300)
		var resources []*Resource
		for range 1 + n("resources", 40) {
			r := resource(text.Draw(rt, "service"))
			r.Attributes, r.ParentsOnly, r.Service.Version = text.Draw(rt, "attributes"), n("parentsOnly", 1) == 0, text.Draw(rt, "version")
			resources = append(resources, r)
		}
		p := start(rt, new(disk), "a", Config{})
		ids := 1 + n("ids", 60)
		for range 1 + n("requests", 3) {
			var list []Span
			for range n("spans", 100) {
				s := span(n("trace", 3), n("id", ids), n("parent", ids), resources[n("resource", len(resources)-1)])
				s.Name = text.Draw(rt, "name")
				s.NameHash = nameHash(s.Name)
				s.Internal, s.Short = n("internal", 1) == 0, n("short", 1) == 0
				s.Time = rapid.Uint64().Draw(rt, "time")
				list = append(list, s)
			}
			p.transact(t0, succeeds, func(x *Transaction) {
				x.Add(org, list)
				x.Add("other", list)
			})
			p.check()
			p.mirrored(t0)
		}
	})
}

// TestLargeTransaction needs several entries, and several for one of its traces.
func TestLargeTransaction(t *testing.T) {
	p := start(t, new(disk), "a", Config{Memory: 1 << 30})
	var list []Span
	var resources []*Resource
	for i := range 100 {
		r := resource(fmt.Sprint("s", i))
		r.Attributes = strings.Repeat("x", 3000)
		resources = append(resources, r)
	}
	for i := range 90_000 {
		s := nameless(i%100, i+1, i/2, resources[i%100])
		if i < 70_000 {
			s.TraceID = traceID(7777)
		}
		if i%10 == 0 {
			s.Name = fmt.Sprint("name ", i%3000)
			s.NameHash = nameHash(s.Name)
		}
		list = append(list, s)
	}
	p.add(t0, list...)
	require.Greater(t, len(p.disk.journals["a"]), 1)
	for _, data := range p.disk.journals["a"] {
		require.Less(t, len(data), 2*entryBytesAimed)
	}
	p.check()
	p.mirrored(t0)
	next := start(t, p.disk, "b", Config{Memory: 1 << 30})
	next.adopt(t0, "a")
	next.check()
	next.mirrored(t0)
	require.Equal(t, p.a.Stats().Spans, next.a.Stats().Spans)
	next.sweep(t0, succeeds)
	next.check()
	next.mirrored(t0)
	next.sweep(t0, unknown)
	next.check()
	next.mirrored(t0)
	next.transact(t0, succeeds, next.closeAll)
	require.Empty(t, next.contents("b"))
}

// TestManyClosings needs several notes.
func TestManyClosings(t *testing.T) {
	p := start(t, new(disk), "a", Config{Memory: 1 << 30})
	r := resource("a")
	const n = 65_000
	list := make([]Span, 0, n+1)
	for i := range n {
		list = append(list, span(i, 1, 0, r))
	}
	p.add(t0, list...)
	p.add(t0.Add(20*time.Second), span(n-1, 2, 1, r)) // keeps its entries alive
	p.expire(t0.Add(30 * time.Second))
	require.Equal(t, 1, p.a.Stats().Traces)
	require.EqualValues(t, n-1, counts(&p.disk.verdicts, "a", catalog.SPA001).Observed)
	p.check()
	p.mirrored(t0)
	require.GreaterOrEqual(t, len(p.disk.journals["a"]), 4)
}

// TestCloseSomeAtATime: the oldest traces close first, and Evaluate reports whether more are due.
func TestCloseSomeAtATime(t *testing.T) {
	a, d := NewAssembler(Config{}), new(delta.Delta)
	x := a.Transaction()
	at := func(seconds int) time.Time { return t0.Add(time.Duration(seconds) * time.Second) }
	services := []*Resource{resource("a"), resource("b"), resource("c"), {ParentsOnly: true}}
	add := func(seconds, trace int) {
		x.Begin(at(seconds))
		x.Add(org, []Span{span(trace, seconds+1, 0, services[trace%4])})
		x.Commit()
	}
	for s := 0; s < 605; s += 5 {
		add(s, 0) // up to the maximum age
	}
	for i := range 5 {
		add(600+i, 1+i)
	}
	now := at(634)
	seen := func() (n []uint64) {
		for _, s := range []string{"a", "b", "c"} {
			n = append(n, counts(d, s, catalog.SPA001).Observed)
		}
		return n
	}
	some := func(most int, ends outcome) (more bool) {
		x.Begin(now)
		verdicts, more := closing(x, Due{Now: now, Limit: func(string) int { return most }})
		if ends == fails {
			return more
		}
		d.Merge(verdicts)
		x.Commit()
		return more
	}
	require.True(t, some(2, succeeds))
	require.Equal(t, []uint64{1, 1, 0}, seen(), "the first two that became idle")
	require.True(t, some(2, fails))
	require.True(t, some(2, succeeds))
	require.Equal(t, []uint64{1, 1, 1}, seen())
	require.False(t, some(3, succeeds))
	require.Equal(t, []uint64{2, 2, 1}, seen())
	requireEmpty(t, a)
}

// TestBytesOfASpan checks the documented size of a span in an entry.
func TestBytesOfASpan(t *testing.T) {
	p := start(t, new(disk), "a", Config{})
	services := []*Resource{resource("frontend"), resource("cart"), resource("checkout")}
	var list []Span
	for i := range 20_000 {
		s := span(i/10, i+1, i-i%10+(i+i%10)/2%10+1, services[i%3])
		s.Time += uint64(i) * 12345
		s.Name = fmt.Sprint("GET /api/", i%30)
		s.NameHash = nameHash(s.Name)
		list = append(list, s)
	}
	p.add(t0, list...)
	perSpan := float64(p.a.journal.bytes) / float64(len(list))
	t.Logf("%.1f bytes a span", perSpan)
	require.Less(t, perSpan, 20.0)
}

// TestOversizedJournalIsSwept: a long trace among many short ones does not keep their spans.
func TestOversizedJournalIsSwept(t *testing.T) {
	cfg := Config{Idle: 5 * time.Second, Max: time.Hour}
	p := start(t, new(disk), "a", cfg)
	var services []*Resource
	for i := range 40 {
		r := resource(fmt.Sprint("s", i))
		r.Attributes = strings.Repeat("x", 4000)
		services = append(services, r)
	}
	now, most := t0, 0
	for i := range 400 {
		now = now.Add(time.Second)
		list := []Span{span(1, i+1, i, services[0])}
		for j := 1; j < len(services); j++ {
			list = append(list, span(100+100*i+j, j, 0, services[j]))
		}
		p.transact(now, succeeds, func(x *Transaction) {
			p.closeDue(x)
			x.Add(org, list)
		})
		size := 0
		for _, data := range p.disk.journals["a"] {
			size += len(data)
		}
		most = max(most, size)
	}
	p.check()
	p.mirrored(now)
	require.Greater(t, most, smallBytes, "the journal must have been swept")
	require.Less(t, most, smallBytes+1<<20)
	require.Len(t, opened(p.a, key{id: traceID(1)}).records, 400)
	p.transact(now, succeeds, p.closeAll)
	require.Equal(t, delta.Count{Observed: 399}, counts(&p.disk.verdicts, "s0", catalog.SPA002))
}

// TestLargeResources: traces of many services with large resources are sampled if their journal is too large even
// after a sweep.
func TestLargeResources(t *testing.T) {
	const budget = 24 << 20
	p := start(t, new(disk), "a", Config{Memory: budget})
	resources := make([]*Resource, 4000)
	for i := range resources {
		resources[i] = resource(fmt.Sprint("s", i))
		resources[i].Attributes = strings.Repeat("x", 3800)
	}
	size := func() (n int) {
		for _, data := range p.disk.journals["a"] {
			n += len(data)
		}
		return n
	}
	id := 0
	for p.a.Stats().SamplingRate == 1 {
		require.Less(t, id, 20_000)
		var list []Span
		for range 1500 {
			id++
			list = append(list, span(id, 1, 0, resources[id*7919%len(resources)]))
		}
		p.add(t0, list...)
		require.Less(t, size(), 4*budget)
	}
	require.Less(t, p.a.Stats().Bytes, budget)
	for p.sweeping() {
		p.add(t0)
	}
	p.check()
	p.mirrored(t0)
}

// TestManySmallEntries: a journal with a span of one trace in every transaction is swept, too.
func TestManySmallEntries(t *testing.T) {
	p := start(t, new(disk), "a", Config{Idle: time.Hour, Max: time.Hour})
	r := resource("a")
	for i := range smallEntries + 500 {
		one, other := span(1, i+1, 0, r), span(i, 1, 0, r)
		one.Name, one.NameHash = other.Name, other.NameHash
		p.add(t0, one, other)
		require.Less(t, len(p.disk.journals["a"]), smallEntries+100)
	}
	p.check()
	p.mirrored(t0)
}

// small configures an Assembler that runs short of memory.
var small = Config{Memory: 150 << 10, Idle: 10 * time.Second, Max: 40 * time.Second, Seed: 5}

// TestJournalSampled repeatedly runs short of memory and kills the process. No trace that SPA-002 evaluates lacks its
// beginning.
func TestJournalSampled(t *testing.T) {
	dropped, evaluated := uint64(0), uint64(0)
	for seed := range uint64(8) {
		rng := rand.New(rand.NewPCG(seed, 1))
		d, r, now, lives, id := new(disk), resource("a"), t0, 0, 0
		p := start(t, d, "0", small)
		type open struct{ trace, spans int }
		var traces []open
		next := func() (list []Span) { // a span of each trace; its parent has arrived before
			for i := range traces {
				traces[i].spans++
				list = append(list, span(traces[i].trace, traces[i].spans, traces[i].spans-1, r))
			}
			return list
		}
		for range 30 {
			now = now.Add(time.Duration(rng.IntN(6)) * time.Second)
			list := next()
			begin := rng.IntN(20)
			if rng.IntN(4) == 0 {
				begin += rng.IntN(500)
			}
			for range begin {
				id++
				list = append(list, span(id, 1, 0, r))
				traces = append(traces, open{id, 1})
			}
			end := outcome(rng.IntN(3))
			p.transact(now, end, func(x *Transaction) {
				p.closeDue(x)
				x.Add(org, list)
			})
			if end == fails {
				p.add(now, list...)
			}
			p.check()
			p.mirrored(now)
			require.LessOrEqual(t, p.a.Stats().Bytes, small.Memory)
			if rng.IntN(8) == 0 {
				dead := p.name
				lives++
				dropped += p.a.Stats().Dropped
				cfg := small
				cfg.Seed += uint64(lives)
				p = start(t, d, fmt.Sprint(lives), cfg)
				if rng.IntN(2) == 0 {
					p.add(now, next()...)
				}
				p.adopt(now, dead)
				p.check()
				p.mirrored(now)
			}
			traces = slices.DeleteFunc(traces, func(o open) bool { return o.spans > 3 || rng.IntN(3) == 0 })
			if rng.IntN(8) == 0 {
				now = now.Add(time.Duration(rng.IntN(120)) * time.Second)
				traces = nil // later spans would be late
			}
		}
		p.transact(now, succeeds, p.closeAll)
		c := counts(&d.verdicts, "a", catalog.SPA002)
		require.Zero(t, c.Failed, "seed %d", seed)
		evaluated += c.Observed
	}
	require.Greater(t, dropped, uint64(500))
	require.Greater(t, evaluated, uint64(500))
}

// TestRecoveryFitsIntoMemory takes over from a process with more memory.
func TestRecoveryFitsIntoMemory(t *testing.T) {
	d := new(disk)
	p := start(t, d, "large", Config{Memory: 64 << 20})
	fill := func(p *process, from, n int) {
		r := resource("a")
		var list []Span
		for i := from; i < from+n; i++ {
			list = append(list, span(i, 1, 0, r), span(i, 2, 1, r))
		}
		p.add(t0, list...)
	}
	fill(p, 0, 20_000)
	var late []Span // some of these traces are dropped while reading
	for i := range 20_000 {
		late = append(late, span(i, 3, 2, resource("b")))
	}
	p.add(t0, late...)
	next := start(t, d, "small", Config{Memory: 2 << 20, Seed: 9})
	fill(next, 50_000, 1000)
	r := next.a.Recovery("large")
	for _, e := range d.read("large") {
		require.NoError(t, r.Read([]delta.JournalEntry{e}))
		require.LessOrEqual(t, r.a.Stats().Bytes, 2<<20)
	}
	require.Equal(t, uint64(len(d.journals["large"])), r.Last())
	require.Positive(t, r.Traces())
	next.adopt(t0.Add(time.Second), "large")
	next.check()
	next.mirrored(t0)
	require.LessOrEqual(t, next.a.Stats().Bytes, 2<<20)
	require.Greater(t, next.a.Stats().Traces, 1500)
	require.LessOrEqual(t, next.a.Stats().Traces, 5000)
	require.EqualValues(t, 3*20_000+2*1000, uint64(next.a.Stats().Spans)+next.a.Stats().Dropped)

	// A trace opened since the last sign of life of the other process may have begun there.
	next.add(t0.Add(2*time.Second), span(99_999, 2, 1, resource("late")))
	next.transact(t0.Add(3*time.Second), succeeds, next.closeAll)
	require.Zero(t, counts(&d.verdicts, "a", catalog.SPA002).Failed)
	require.Zero(t, counts(&d.verdicts, "b", catalog.SPA002).Failed)
	require.Zero(t, counts(&d.verdicts, "late", catalog.SPA002).Observed)
}

// TestAdoptionDrops: spans of traces that a process does not adopt, because they are not in its sample, count as dropped.
func TestAdoptionDrops(t *testing.T) {
	d, r := new(disk), resource("a")
	old, next := start(t, d, "old", Config{}), start(t, d, "new", Config{})
	for i := range 100 {
		old.add(t0, span(i, 1, 0, r))
	}
	next.a.initial.level = 2
	next.adopt(t0, "old")
	s := next.a.Stats()
	require.Less(t, s.Spans, 100)
	require.EqualValues(t, 100, uint64(s.Spans)+s.Dropped)
}

// TestAdoptionDropsNothing: spans beyond the limit of a trace, which the other process has dropped, do not count again.
func TestAdoptionDropsNothing(t *testing.T) {
	d, r := new(disk), resource("a")
	old, next := start(t, d, "old", Config{}), start(t, d, "new", Config{})
	spans := make([]Span, maxTraceSpans*2/3)
	for i := range spans {
		spans[i] = nameless(1, i+1, 0, r)
	}
	old.add(t0, spans...)
	old.add(t0, spans...)
	require.NotZero(t, old.a.Stats().Dropped)
	next.adopt(t0, "old")
	require.Equal(t, maxTraceSpans, next.a.Stats().Spans)
	require.Zero(t, next.a.Stats().Dropped)
}

// TestAdoptedRate: evidence states the rate at which another process has sampled a trace.
func TestAdoptedRate(t *testing.T) {
	d, r := new(disk), resource("a")
	old := start(t, d, "old", Config{})
	var list []Span
	for i := range 64 * (maxInternalSpans + 1) {
		s := span(i%64, i+1, 0, r)
		s.Internal = true
		list = append(list, s)
	}
	old.add(t0, list...)
	old.a.raise(old.a.tenants[0])
	old.a.raise(old.a.tenants[0])
	old.add(t0)
	next := start(t, d, "new", Config{})
	next.adopt(t0, "old")
	require.Equal(t, old.a.traces.len, next.a.traces.len)
	next.transact(t0, succeeds, next.closeAll)
	require.InDelta(t, 0.25, example(&d.verdicts, "a", catalog.SPA001).SamplingRate, 0)
}

// TestAdoptedMemoryIsAccounted: adopted traces are charged like received ones, and nothing is charged after they
// close.
func TestAdoptedMemoryIsAccounted(t *testing.T) {
	d, r := new(disk), resource("a")
	large := make([]Span, adoptedBytes/recordBytes) // more than one transaction adopts
	for i := range large {
		large[i] = nameless(1, i+1, 0, r)
	}
	own := []Span{span(2, 1, 0, r), span(2, 2, 1, resource("b")), span(3, 1, 0, resource("c"))}
	old := start(t, d, "old", Config{})
	old.add(t0, large...)
	old.add(t0, own...)
	took := old.a.Stats().Bytes
	next := start(t, d, "new", Config{})
	next.add(t0, span(3, 2, 1, r)) // continues here, in the memory of this process
	before := next.a.Stats().Bytes
	for r := next.recover("old"); !r.Ended(); {
		next.transact(t0, fails, func(x *Transaction) { x.Adopt(r) })
		next.transact(t0, succeeds, func(x *Transaction) { x.Adopt(r) })
	}
	require.Equal(t, 3, next.a.Stats().Traces)
	require.InDelta(t, before+took, next.a.Stats().Bytes, 4096)
	next.expire(t0.Add(time.Hour))
	requireEmpty(t, next.a)
}

// TestMarkPartialOnce: when traces are adopted in several transactions, traces opened after the first are not marked
// partial because of the later ones.
func TestMarkPartialOnce(t *testing.T) {
	d, r := new(disk), resource("a")
	p := start(t, d, "old", Config{Memory: 64 << 20})
	p.a.initial.level = 1
	var list []Span
	for i := range 66_000 {
		list = append(list, nameless(i, 1, 0, r), nameless(i, 2, 1, r))
	}
	p.add(t0, list...)
	traces := p.a.Stats().Traces
	next := start(t, d, "new", Config{})
	next.adopt(t0, "old")
	require.Greater(t, next.a.journal.next, uint64(4), "more than one transaction")
	next.transact(t0, succeeds, next.closeAll)
	require.Equal(t, delta.Count{Observed: uint64(traces)}, counts(&d.verdicts, "a", catalog.SPA002))
}

// TestTooLargeInJournal: a trace too large for the budget is dropped, also from the journal.
func TestTooLargeInJournal(t *testing.T) {
	p, r := start(t, new(disk), "a", Config{Memory: 64 << 10}), resource("a")
	id := 0 // one in a million, kept at every sampling level
	o := p.a.tenants[p.a.org(org)]
	for o.level = maxLevel; !p.a.keeps(o, traceID(id)); {
		id++
	}
	for i := 0; o.lowered == 0; i++ {
		require.Less(t, i, 10_000)
		p.add(t0, span(id, i+1, i, r))
	}
	p.check()
	p.mirrored(t0)
	require.Empty(t, p.contents("a"))
}

// TestOldOwner: a process that resumes after its journal was taken over finds out.
func TestOldOwner(t *testing.T) {
	d, r := new(disk), resource("a")
	old := start(t, d, "old", Config{})
	old.add(t0, span(1, 1, 0, r))
	old.add(t0, span(2, 1, 0, r))
	other := start(t, d, "new", Config{})
	recovery := other.recover("old")
	for !recovery.Ended() {
		other.transact(t0, succeeds, func(x *Transaction) { x.Adopt(recovery) })
	}

	old.x.Begin(t0)
	old.x.Add(org, []Span{span(1, 2, 1, r)})
	require.ErrorIs(t, d.commit(nil, old.x.Journals("old", "holder")), delta.ErrJournalConflict)
	taken, err := old.a.Replay(t0, d.read("old")[0])
	require.NoError(t, err)
	require.True(t, taken)
	old.a.Abandon(t0)
	requireEmpty(t, old.a)
	old.name = "old again"
	old.add(t0.Add(time.Second), span(1, 2, 1, r))
	old.check()
	old.mirrored(t0.Add(time.Second))
	old.transact(t0.Add(time.Minute), succeeds, old.closeDue)
	require.Equal(t, delta.Count{Observed: 1}, counts(&d.verdicts, "a", catalog.SPA001))
	require.Zero(t, counts(&d.verdicts, "a", catalog.SPA002).Observed, "the rest of an adopted trace")

	// Only a note is left, which is removed in the end, too.
	recovery = other.recover("old")
	since, over := recovery.AllMoved()
	require.True(t, over)
	require.Equal(t, t0, since.UTC())
	require.Len(t, d.journals["old"], 1)
	other.transact(t0, succeeds, func(x *Transaction) { x.Adopt(recovery) })
	require.Empty(t, d.journals["old"])
}

// TestPartialStaysPartial: a trace that lost its beginning in another process stays partial here.
func TestPartialStaysPartial(t *testing.T) {
	d, r := new(disk), resource("a")
	old, other := start(t, d, "old", Config{}), start(t, d, "new", Config{})
	other.add(t0.Add(-time.Second), span(1, 4, 3, r)) // before the old process was suspected dead
	old.a.initial.lowered = t0.UnixNano()
	old.add(t0, span(1, 3, 2, r))
	other.adopt(t0.Add(time.Hour), "old")
	other.mirrored(t0.Add(time.Hour))
	other.transact(t0.Add(time.Hour), succeeds, other.closeAll)
	require.Equal(t, delta.Count{Observed: 1}, counts(&d.verdicts, "a", catalog.SPA001))
	require.Zero(t, counts(&d.verdicts, "a", catalog.SPA002))
}

// TestDroppedWhileSweeping: a trace that is dropped during a sweep does not reappear.
func TestDroppedWhileSweeping(t *testing.T) {
	p, r := start(t, new(disk), "a", Config{}), resource("a")
	list := make([]Span, 0, 2*sweptBytes/recordBytes+2)
	for i := range cap(list) {
		list = append(list, nameless(i%2, i+1, 0, r))
	}
	p.add(t0, list...)
	p.sweep(t0, succeeds)
	require.NotNil(t, p.a.tenants[0].ledger.cursor, "the second trace waits")
	p.a.drop(p.a.tenants[0].ledger.cursor)
	p.transact(t0, succeeds, func(*Transaction) {})
	p.transact(t0, succeeds, func(*Transaction) {})
	require.False(t, p.sweeping())
	p.check()
	require.Len(t, p.contents("a"), 1)
}

// TestTwoRecover: if two processes move one journal, one succeeds.
func TestTwoRecover(t *testing.T) {
	d, r := new(disk), resource("a")
	start(t, d, "old", Config{}).add(t0, span(1, 2, 1, r))
	one, two := start(t, d, "one", Config{}), start(t, d, "two", Config{})
	mine, theirs := one.recover("old"), two.recover("old")
	one.transact(t0, succeeds, func(x *Transaction) { x.Adopt(mine) })
	two.x.Begin(t0)
	two.x.Adopt(theirs)
	require.ErrorIs(t, d.commit(nil, two.x.Journals("two", "holder")), delta.ErrJournalConflict)
	two.x.Begin(t0)
	for !mine.Ended() {
		one.transact(t0, succeeds, func(x *Transaction) { x.Adopt(mine) })
	}
	require.Empty(t, two.contents("two"))
	require.Len(t, one.contents("one"), 1)
}

// TestForeignEntries: damaged entries are skipped, and unknown versions are left to other processes.
func TestForeignEntries(t *testing.T) {
	d, r := new(disk), resource("a")
	p := start(t, d, "a", Config{})
	p.add(t0, span(1, 1, 0, r))
	p.add(t0, span(2, 1, 0, r))
	whole := d.journals["a"][1]
	d.journals["a"][1] = whole[:len(whole)-1]
	recovery := p.a.Recovery("a")
	require.NoError(t, recovery.Read(d.read("a")))
	require.Equal(t, 1, recovery.Damaged)
	require.Equal(t, 1, recovery.Traces())
	_, err := p.a.Replay(t0, delta.JournalEntry{Seq: 3, Data: d.journals["a"][1]})
	require.ErrorIs(t, err, errEntry)

	newer := append([]byte{entryVersion + 1}, d.journals["a"][2][1:]...)
	err = p.a.Recovery("a").Read([]delta.JournalEntry{{Seq: 1, Data: newer}})
	require.ErrorIs(t, err, errVersion)
	_, err = p.a.Replay(t0, delta.JournalEntry{Seq: 3, Data: newer})
	require.ErrorIs(t, err, errVersion)
	d.journals["a"][1] = whole
	p.check()
}

// TestPending: Pending reports true when a transaction is necessary.
func TestPending(t *testing.T) {
	r := resource("a")
	p := start(t, new(disk), "a", Config{Memory: 300 << 10})
	require.False(t, p.a.Pending())
	p.add(t0, span(1, 1, 0, r))
	require.False(t, p.a.Pending())
	p.expire(t0.Add(30 * time.Second))
	require.True(t, p.a.Pending(), "the entry still exists")
	p.expire(t0.Add(31 * time.Second))
	require.False(t, p.a.Pending())
	require.Empty(t, p.disk.journals["a"])

	list := make([]Span, 2000)
	for i := range list {
		list[i] = span(i, 1, 0, r)
	}
	p.add(t0.Add(time.Hour), list...)
	require.True(t, p.a.Pending(), "the sampling is not in the journal")
	p.expire(t0.Add(time.Hour))
	p.check()
	p.mirrored(t0)
}

// TestTransactionsDoNotAllocate: transactions do not allocate in the steady state.
func TestTransactionsDoNotAllocate(t *testing.T) {
	for name, journaled := range map[string]bool{"with a journal": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			a := NewAssembler(Config{Idle: time.Second})
			x, services := a.Transaction(), []*Resource{resource("a"), resource("b"), resource("c")}
			batch := make([]Span, 0, 1000)
			for i := range cap(batch) {
				batch = append(batch, span(i/10, i+1, i-i%10+1, services[i%3]))
			}
			now, n := t0, 0
			run := func() {
				now = now.Add(100 * time.Millisecond)
				for i := range batch {
					n := n*len(batch) + i/10
					batch[i].TraceID[8], batch[i].TraceID[9], batch[i].TraceID[10], batch[i].TraceID[11] = byte(n>>24), byte(n>>16), byte(n>>8), byte(n)
				}
				n++
				x.Begin(now)
				_, _ = closing(x, Due{Now: now})
				x.Add(org, batch)
				if journaled {
					x.Journals("a", "holder")
				}
				x.Commit()
			}
			for range 50 {
				run()
			}
			perSpan := testing.AllocsPerRun(30, run) / float64(len(batch))
			t.Logf("%.4f allocations per span", perSpan)
			require.Less(t, perSpan, 0.04) // a Piece and its verdicts allocate
		})
	}
}

// FuzzEntry decodes arbitrary entries. What decodes is unchanged after encoding and decoding again.
func FuzzEntry(f *testing.F) {
	p := start(f, new(disk), "a", Config{})
	r := resource("a")
	var list []Span
	for i := range 40 {
		list = append(list, span(i/30, i%37, i/2, r))
	}
	p.add(t0, list...)
	p.a.tenants[0].lowered = t0.UnixNano()
	p.transact(t0.Add(time.Minute), succeeds, p.closeDue)
	p.add(t0.Add(time.Minute), list...)
	next := start(f, p.disk, "b", Config{})
	next.adopt(t0.Add(2*time.Minute), "a")
	for _, name := range []string{"a", "b"} {
		for _, e := range p.disk.read(name) {
			f.Add(e.Data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		a := NewAssembler(Config{})
		h, rest, err := decodeHeader(data)
		if err != nil {
			require.True(t, errors.Is(err, errEntry) || errors.Is(err, errVersion))
			return
		}
		var b bundle
		closed, err := b.decode(a, h, rest)
		if err != nil {
			require.ErrorIs(t, err, errEntry)
			return
		}
		if len(b.groups) > 0 && len(b.names) <= maxEntryNames {
			var e encoder
			e.bundle(a, h, &b)
			var again bundle
			for i := range e.entries {
				head, rest, err := decodeHeader(e.entries[i].data)
				require.NoError(t, err)
				require.Equal(t, written(h), head)
				var part bundle
				_, err = part.decode(a, head, rest)
				require.NoError(t, err)
				again = part
			}
			if len(e.entries) == 1 {
				require.Equal(t, spansOf(&b), spansOf(&again))
			}
		}
		var e encoder
		traces := make([]*openTrace, len(closed))
		for i, k := range closed {
			traces[i] = &openTrace{key: k}
		}
		e.note(a, h, nil, traces)
		if len(e.entries) == 1 {
			head, rest, err := decodeHeader(e.entries[0].data)
			require.NoError(t, err)
			require.Equal(t, written(h), head)
			again, err := new(bundle).decode(a, head, rest)
			require.NoError(t, err)
			require.Equal(t, closed, again)
		}
		again := NewAssembler(Config{})
		again.Transaction()
		taken, err := again.Replay(t0, delta.JournalEntry{Seq: 1, Data: data})
		require.NoError(t, err)
		require.Equal(t, h.flags&flagTaken != 0, taken)
		require.NoError(t, a.Recovery("a").Read([]delta.JournalEntry{{Seq: math.MaxInt64, Data: data}}))
	})
}

// written returns a header that was encoded and decoded.
func written(h header) header {
	h.version, h.old = entryVersion, state{}
	return h
}

// spansOf describes each span of a bundle.
func spansOf(b *bundle) (list []string) {
	for i := range b.groups {
		g := &b.groups[i]
		if g.n == 0 {
			continue
		}
		list = append(list, fmt.Sprint(g.key, g.n, g.time, g.moved, g.opened, g.level, g.partial))
		it := g.first
		for range g.n {
			x := &b.items[it]
			r := b.resources[x.resource]
			list = append(list, fmt.Sprintf("%x %x %q %d %v", x.id, x.parent, b.names[x.name].text, x.flags, *r))
			it = x.next
		}
	}
	return list
}

// BenchmarkTransaction adds and closes traces of ten spans of three services that arrive in pieces, 6,000 spans per
// transaction.
func BenchmarkTransaction(b *testing.B) {
	for _, journaled := range []bool{false, true} {
		b.Run(fmt.Sprint("journal=", journaled), func(b *testing.B) {
			a := NewAssembler(Config{Idle: 2 * time.Second})
			x, services := a.Transaction(), []*Resource{resource("a"), resource("b"), resource("c")}
			requests := make([][]Span, 30)
			for i := range requests {
				for j := range 200 { // every third trace continues in the next request
					s := span(0, i*200+j+1, i*200+j-j%10+1, services[i%3])
					s.Name = fmt.Sprint("name ", j%20)
					s.NameHash = nameHash(s.Name)
					requests[i] = append(requests[i], s)
				}
			}
			now, n, bytes := t0, 0, 0
			b.ReportAllocs()
			for b.Loop() {
				n++
				for i := range requests {
					for j := range requests[i] {
						id := n*600 + i*20 + j/10 - j/10%3/2*20
						binary.LittleEndian.PutUint64(requests[i][j].TraceID[8:], uint64(id)*0x9e3779b97f4a7c15)
					}
				}
				now = now.Add(100 * time.Millisecond)
				x.Begin(now)
				if n%10 == 0 {
					_, _ = closing(x, Due{Now: now})
				}
				for i := range requests {
					x.Add(org, requests[i])
				}
				if journaled {
					for _, j := range x.Journals("a", "holder") {
						for _, e := range j.Append {
							bytes += len(e.Data)
						}
					}
				}
				x.Commit()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n*6000), "ns/span")
			b.ReportMetric(float64(bytes)/float64(n*6000), "B/span")
		})
	}
}

// TestAdoptionWithinShare: an organization was sampled, then another one filled the memory, then the first one opened
// few traces without being sampled. The process that adopts the journal keeps these traces.
func TestAdoptionWithinShare(t *testing.T) {
	const (
		flooder = "flooder"
		traces  = 1000
	)
	d := new(disk)
	p := start(t, d, "a", Config{Memory: 16 << 20})
	r := resource("a")
	send := func(now time.Time, id string, from, n int) {
		spans := make([]Span, n)
		for i := range spans {
			spans[i] = span(from+i, 1, 0, r)
		}
		p.transact(now, succeeds, func(x *Transaction) { x.Add(id, spans) })
	}
	more := func(now time.Time, id string, wanted func(key) bool) {
		var spans []Span
		for open := range allOpened(p.a) {
			k := open.key
			if open.of.id == id && wanted(k) {
				s := span(1, int(now.Sub(t0)/time.Second)+2, 1, r)
				s.TraceID = k.id
				spans = append(spans, s)
			}
		}
		p.transact(now, succeeds, func(x *Transaction) { x.Add(id, spans) })
	}
	level := func(id string) uint { return p.a.tenants[p.a.org(id)].level }

	send(t0, org, 1, 24_000)
	require.Zero(t, level(org), "alone")
	first := key{}
	for s := 5; s <= 130; s += 5 {
		now := t0.Add(time.Duration(s) * time.Second)
		switch s {
		case 5:
			send(now, flooder, 1, 12_000)
			require.EqualValues(t, 1, level(org), "above its share")
			for n := 1; opened(p.a, first) == nil; n++ {
				first = key{org: p.a.org(org), id: traceID(n)}
			}
		case 45:
			send(now, flooder, 50_000, 34_000)
			require.NotZero(t, level(flooder))
		}
		more(now, org, func(k key) bool { return k == first })
		if s%20 == 5 {
			more(now, flooder, func(key) bool { return true })
		}
		p.expire(now)
	}
	require.Zero(t, level(org), "within its share")
	now := t0.Add(131 * time.Second)
	send(now, org, 1_000_000, traces)

	q := start(t, d, "b", Config{Memory: 16 << 20})
	q.adopt(now.Add(time.Second), "a")
	kept := 0
	for n := range traces {
		if opened(q.a, key{org: q.a.org(org), id: traceID(1_000_000 + n)}) != nil {
			kept++
		}
	}
	require.Equal(t, traces, kept)
}
