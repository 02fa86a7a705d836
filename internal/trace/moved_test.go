// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"encoding/binary"
	"fmt"
	"maps"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/delta"
	"assay/internal/rules/catalog"
)

// heavyResources returns resources of one service whose texts have 8 KiB each.
func heavyResources(n int) []*Resource {
	part := strings.Repeat("x", 1<<10)
	resources := make([]*Resource, n)
	for i := range resources {
		resources[i] = &Resource{
			Service:    assay.ServiceKey{Namespace: part, Name: part, Environment: part, Version: part},
			Attributes: fmt.Sprintf(`{"a":"%s%d"}`, strings.Repeat("x", 4<<10), i),
		}
	}
	return resources
}

// bytesOf returns the bytes that a transaction writes to the journal of its process.
func bytesOf(x *Transaction) (n int) {
	for _, e := range x.appended {
		n += len(e.Data)
	}
	return n
}

// TestMovedBytes: no transaction writes much more than the limits of a trace when it moves one, in a sweep or from the
// journal of another process, however its spans spread over resources.
func TestMovedBytes(t *testing.T) {
	const most = 32 << 20
	for name, c := range map[string]struct{ spans, resources, names int }{
		"resources in turn": {50_000, 1_000, 1},
		"more spans":        {maxTraceSpans + 100_000, 1, 1},
		"names in turn":     {maxTraceSpans, 127, 2 * maxEntryNames},
		"long names":        {maxTraceSpans, 127, 1 << 15},
	} {
		t.Run(name, func(t *testing.T) {
			resources := heavyResources(c.resources)
			long := strings.Repeat("x", 200)
			d := new(disk)
			p := start(t, d, "a", Config{})
			spans := make([]Span, c.spans)
			for i := range spans {
				spans[i] = Span{TraceID: [16]byte{1}, Resource: resources[i%c.resources], Time: uint64(t0.UnixNano())}
				spans[i].Name = fmt.Sprint(long[:min(len(long), c.names/100)], i%c.names)
				spans[i].NameHash = nameHash(spans[i].Name)
				binary.LittleEndian.PutUint64(spans[i].SpanID[:], uint64(i+1))
				binary.LittleEndian.PutUint64(spans[i].ParentID[:], uint64(i)<<32)
			}
			for len(spans) > 0 {
				part := spans[:min(len(spans), 4<<10)]
				spans = spans[len(part):]
				p.transact(t0, succeeds, func(x *Transaction) { x.Add("o", part) })
			}
			p.beginSweep()
			p.x.Begin(t0)
			p.x.Journals("a", "h")
			require.NotEmpty(t, p.x.moved.groups)
			require.LessOrEqual(t, bytesOf(p.x), most)
			q := start(t, d, "b", Config{})
			r := q.claim(t0, "a")
			q.x.Begin(t0)
			q.x.Adopt(r)
			q.x.Journals("b", "h")
			require.Len(t, r.chunk, 1)
			require.LessOrEqual(t, bytesOf(q.x), most)
		})
	}
}

// sharing adds traces whose spans belong to a few of many heavy resources each, so that the traces share the memory of
// the resources, but little in the entries to which they move.
func sharing(p *process, org string, traces int, resources []*Resource) {
	const each = 100
	for i := range traces {
		spans := make([]Span, each)
		for j := range spans {
			spans[j] = Span{Resource: resources[(i*37+j*(1+i%7))%len(resources)], Time: uint64(t0.UnixNano())}
			binary.LittleEndian.PutUint64(spans[j].TraceID[:], uint64(i+1))
			binary.LittleEndian.PutUint64(spans[j].SpanID[:], uint64(j+1))
		}
		p.transact(t0, succeeds, func(x *Transaction) { x.Add(org, spans) })
	}
}

// TestFutileSweep: a sweep ends when it has written as much as the journal held, and does not begin again at once.
func TestFutileSweep(t *testing.T) {
	p := start(t, new(disk), "a", Config{})
	resources := heavyResources(1_200)
	var spans []Span
	for i, r := range resources { // as in one request
		for j := range 200 / 4 { // traces
			s := Span{Resource: r, Time: uint64(t0.UnixNano())}
			binary.LittleEndian.PutUint64(s.TraceID[:], uint64(4*j+i%4+1))
			binary.LittleEndian.PutUint64(s.SpanID[:], uint64(i*200+j+1))
			spans = append(spans, s)
		}
	}
	p.transact(t0, succeeds, func(x *Transaction) { x.Add("o", spans) })
	l := &p.a.tenants[0].ledger
	before, total := l.bytes, 0
	l.beginSweep(p.a.following(nil))
	for n := 0; l.sweeping; n++ {
		require.Less(t, n, 1000)
		p.x.Begin(t0)
		require.NoError(t, p.disk.commit(nil, p.x.Journals(p.name, "holder")))
		total += bytesOf(p.x)
		p.x.Commit()
	}
	require.True(t, l.futile)
	require.LessOrEqual(t, total, before+4<<20)
	require.False(t, l.oversized(p.a.spans, p.a.bytes, 1))
	require.True(t, l.oversized(p.a.spans/3, p.a.bytes/3, 1), "after most traces have closed")
	p.check()
}

// TestHeaviestIsRelieved: traces that would make the journal large are sampled, and not those of the organization that
// holds most memory.
func TestHeaviestIsRelieved(t *testing.T) {
	p := start(t, new(disk), "a", Config{Memory: 4 << 20})
	r := resource("victim")
	for i := range 2_000 {
		p.add(t0, span(i+1, 1, 0, r))
	}
	sharing(p, "attacker", 100, heavyResources(100))
	for range 20 {
		p.transact(t0, succeeds, func(*Transaction) {})
	}
	victim, attacker := p.a.tenants[p.a.org(org)], p.a.tenants[p.a.org("attacker")]
	require.Zero(t, victim.level)
	require.NotZero(t, attacker.level)
	require.LessOrEqual(t, p.a.texts, textsPerByte*p.a.cfg.Memory)
	total := 0
	for _, o := range p.a.tenants {
		texts := 0
		for u := o.started.front; u != nil; u = u.started.next {
			texts += u.texts
		}
		require.Equal(t, texts, o.texts)
		total += texts
	}
	require.Equal(t, total, p.a.texts)
}

// TestJournalOfOne: spans beyond the limits of a trace, which take no memory, fill no more of the journal than its limit,
// and no other organization is sampled for them, even if it holds more memory.
func TestJournalOfOne(t *testing.T) {
	const memory, traces = 16 << 20, 5_000
	d := new(disk)
	p := start(t, d, "a", Config{Memory: memory})
	victim, attacker := p.a.tenants[p.a.org(org)], p.a.tenants[p.a.org("attacker")]
	resources := make([]*Resource, 50)
	for i := range resources {
		resources[i] = resource(fmt.Sprint("victim ", i))
		resources[i].Attributes = strings.Repeat("x", 1<<10)
	}
	for i := range traces {
		var spans []Span
		for n := range 5 {
			spans = append(spans, span(i+1, n+1, 0, resources[(i+n)%len(resources)]))
		}
		p.add(t0, spans...)
	}
	heavy := heavyResources(127)
	for i := range 24 { // a sweep moves one of them in a transaction
		var spans []Span
		for n, r := range heavy {
			spans = append(spans, span(i+1, n+1, 0, r))
		}
		p.transact(t0, succeeds, func(x *Transaction) { x.Add("attacker", spans) })
	}
	now, size, most := t0, 0, 0
	for n := range 100 {
		now = now.Add(100 * time.Millisecond)
		var spans []Span
		for i, r := range heavyResources(6 * 128) {
			r.Attributes += fmt.Sprint(n)
			spans = append(spans, span(99, n<<10+i, 0, r))
			size += r.Texts()
		}
		p.transact(now, succeeds, func(x *Transaction) { x.Add("attacker", spans) })
		most = max(most, p.a.journal.bytes)
		require.Zero(t, victim.level)
	}
	require.Greater(t, size, 6*journalPerByte*memory)
	require.Less(t, most, journalPerByte*memory+16<<20)
	require.NotZero(t, attacker.level)
	p.check()
	q := start(t, d, "b", Config{})
	q.adopt(now, "a")
	for i := range traces {
		require.NotNil(t, opened(q.a, key{org: q.a.org(org), id: traceID(i + 1)}))
	}
}

// TestSweepsOfOne: traces of one organization that grow when they move do not keep the entries of another in the journal.
func TestSweepsOfOne(t *testing.T) {
	const memory = 16 << 20
	p := start(t, new(disk), "a", Config{Memory: memory})
	attacker := func(spans []Span) {
		p.transact(t0, succeeds, func(x *Transaction) { x.Add("attacker", spans) })
	}
	heavy := heavyResources(1_200)
	var spans []Span
	for n, r := range heavy { // as in one request: each resource once
		for i := range 150 {
			if delta.Mix(uint64(n), uint64(i))%12 == 0 {
				spans = append(spans, nameless(i+1, n+2, 0, r))
			}
		}
	}
	attacker(spans)
	now, most, futile := t0, 0, false
	for n := range 600 {
		now = now.Add(100 * time.Millisecond)
		if n%150 == 149 { // keep the traces open
			spans = spans[:0]
			for i := range 150 {
				spans = append(spans, nameless(i+1, n<<16+1, 0, heavy[i*37%len(heavy)]))
			}
			attacker(spans)
		}
		var request []Span
		for i, r := range heavyResources(20) { // one long trace, and short ones
			request = append(request, span(1, n<<8+i, 0, r), span(100_000+n*20+i, 1, 0, r))
		}
		p.transact(now, succeeds, func(x *Transaction) {
			p.closeDue(x)
			x.Add(org, request)
		})
		victim := p.a.tenants[p.a.org(org)]
		require.Zero(t, victim.level)
		most = max(most, victim.ledger.bytes)
		futile = futile || p.a.tenants[p.a.org("attacker")].ledger.futile
	}
	require.True(t, futile)
	require.Less(t, most, 2*memory)
	p.check()
}

// TestForgetIsLimited: a transaction deletes a limited part of what is no longer needed.
func TestForgetIsLimited(t *testing.T) {
	d := new(disk)
	p := start(t, d, "a", Config{Idle: time.Minute})
	size := func(name string) (n int) {
		for _, data := range d.journals[name] {
			n += len(data)
		}
		return n
	}
	for i := range 20 {
		var spans []Span
		for n, r := range heavyResources(200) {
			spans = append(spans, span(i+1, n+1, 0, r))
		}
		p.add(t0, spans...)
	}
	full := size("a")
	require.Greater(t, full, 2*forgetBytes)
	other := start(t, d, "b", Config{})
	r := other.recover("a")
	for n := 0; !r.Ended(); n++ {
		before := size("a")
		other.transact(t0, succeeds, func(x *Transaction) { x.Adopt(r) })
		require.GreaterOrEqual(t, size("a"), before-forgetBytes)
	}
	require.Len(t, d.journals["a"], 1)
	other.check()
	require.Equal(t, 20, other.a.traces.len)

	other.transact(t0, succeeds, other.closeAll)
	for other.a.Pending() {
		before := size("b")
		other.transact(t0, succeeds, func(*Transaction) {})
		require.GreaterOrEqual(t, size("b"), before-forgetBytes)
	}
	require.Empty(t, d.journals["b"])
}

// TestAdoptionShares: an organization within its share of the memory loses no trace of a journal that is read while others
// fill the memory.
func TestAdoptionShares(t *testing.T) {
	const memory, traces = 16 << 20, 12_000
	d := new(disk)
	p := start(t, d, "a", Config{Memory: memory})
	r := resource("a")
	for i := range traces { // below half of the memory
		p.add(t0, span(i+1, 1, 0, r))
	}
	q := start(t, d, "b", Config{Memory: memory})
	var spans []Span
	for i := range 27_000 {
		spans = append(spans, span(i+1, 1, 0, r))
	}
	q.transact(t0, succeeds, func(x *Transaction) { x.Add("attacker", spans) })
	q.adopt(t0.Add(time.Second), "a")
	require.Zero(t, q.a.tenants[q.a.org(org)].level)
	require.NotZero(t, q.a.tenants[q.a.org("attacker")].level)
	for i := range traces {
		require.NotNil(t, opened(q.a, key{org: q.a.org(org), id: traceID(i + 1)}))
	}
}

// TestDiscardedReturns: of traces that were discarded, a process that reads the journal before it is smaller does not
// take the rest for whole traces.
func TestDiscardedReturns(t *testing.T) {
	d := new(disk)
	p := start(t, d, "a", Config{Memory: 16 << 20})
	r := resource("a")
	const traces = 20_000
	var roots, children []Span
	for i := range traces {
		s := span(i+1, 2, 0, r)
		if i < 10 {
			roots = append(roots, span(i+1, 1, 0, r)) // in an entry of the first traces only
			s = span(i+1, 2, 1, r)
		}
		children = append(children, s)
	}
	p.add(t0, roots...)
	p.add(t0, children...)
	p.a.discard(p.a.tenants[0], t0) // as Commit does when the journal is too large
	for range 3 {
		p.transact(t0, succeeds, func(*Transaction) {})
		q := start(t, &disk{journals: map[string]map[uint64][]byte{"a": maps.Clone(d.journals["a"])}}, "b", Config{})
		q.adopt(t0, "a")
		q.transact(t0, succeeds, q.closeAll)
		require.Zero(t, counts(&q.disk.verdicts, "a", catalog.SPA002).Failed)
	}
}

// TestEntriesOfOne: an entry of the journal holds spans of one organization, in whatever order they are added.
func TestEntriesOfOne(t *testing.T) {
	p := start(t, new(disk), "a", Config{})
	r := resource("a")
	p.transact(t0, succeeds, func(x *Transaction) {
		for i := range 30 {
			x.Add(fmt.Sprint(i%3), []Span{span(i+1, 1, 0, r), span(i/10+1, i+2, 0, r)})
		}
	})
	require.EqualValues(t, 4, p.a.journal.next)
	p.check()
	require.Len(t, p.contents("a"), p.a.traces.len)
	for _, o := range p.a.tenants {
		require.NotZero(t, o.ledger.bytes)
		for o.started.front != nil {
			p.a.drop(o.started.front)
		}
		require.Zero(t, o.ledger.bytes)
	}
}

// TestReadResources: a journal that is read keeps only the resources of open traces in memory.
func TestReadResources(t *testing.T) {
	d := new(disk)
	p := start(t, d, "a", Config{Memory: 1 << 30})
	size := 0
	for n := range 14 { // below smallBytes, so that nothing is swept
		spans := make([]Span, 0, 128)
		for i, r := range heavyResources(cap(spans)) {
			r.Attributes += fmt.Sprint(n)
			spans = append(spans, span(9, n*cap(spans)+i+1, 0, r))
		}
		p.add(t0, spans...)
	}
	r := start(t, new(disk), "b", Config{}).a.Recovery("a")
	heap := func() int {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	entries, before := d.read("a"), heap()
	for _, e := range entries {
		size += len(e.Data)
		require.NoError(t, r.Read([]delta.JournalEntry{e}))
	}
	require.Zero(t, r.Damaged)
	require.Equal(t, 1, r.Traces())
	require.Greater(t, size, 14<<20)
	require.Less(t, heap()-before, size/4)
	runtime.KeepAlive(entries)
	runtime.KeepAlive(r)
}

// TestCopiesOfResources: copies of a resource, of which requests may have a new one each, count as one.
func TestCopiesOfResources(t *testing.T) {
	p := start(t, new(disk), "a", Config{})
	add := func(n int, name string) {
		r := resource(name)
		r.Attributes = strings.Repeat("x", 8<<10)
		s := span(1, n+1, 0, r)
		s.Internal = true
		p.add(t0, s)
	}
	add(0, "first")
	charged := p.a.bytes
	for n := range 300 {
		add(n+1, "first")
	}
	require.Less(t, p.a.bytes, charged+300*256)
	for n := range 20 {
		add(n+400, "late")
	}
	require.Len(t, opened(p.a, key{org: p.a.org(org), id: traceID(1)}).resources, 2)
	p.mirrored(t0)
	p.transact(t0, succeeds, p.closeAll)
	require.Equal(t, delta.Count{Observed: 1, Failed: 1}, counts(&p.disk.verdicts, "late", catalog.SPA001))
	require.Empty(t, p.a.tenants[p.a.org(org)].resources)
	require.Zero(t, p.a.texts)
}

// TestNamesOfOthers: many names of one organization do not take the place of those of another in the journal.
func TestNamesOfOthers(t *testing.T) {
	d := new(disk)
	p := start(t, d, "a", Config{})
	attacker, victim := make([]Span, 0, 2*maxEntryNames), []Span{span(7, 1, 0, resource("a"))}
	for i := range cap(attacker) {
		s := span(i%9, i+1, 0, resource("b"))
		s.Name, s.NameHash = fmt.Sprint("name ", i), uint64(i+1)
		attacker = append(attacker, s)
	}
	p.transact(t0, succeeds, func(x *Transaction) {
		x.Add("attacker", attacker)
		x.Add(org, victim)
	})
	q := start(t, d, "b", Config{})
	q.adopt(t0, "a")
	u := opened(q.a, key{org: q.a.org(org), id: traceID(7)})
	require.Equal(t, victim[0].Name, u.names.text(u.records[0].name))
	names := map[string]bool{}
	for u := range allOpened(q.a) {
		for _, r := range u.records {
			names[u.names.text(r.name)] = true
		}
	}
	require.Len(t, names, len(attacker)+1)
}
