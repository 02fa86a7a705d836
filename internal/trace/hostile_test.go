// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/delta"
	"assay/internal/rules/catalog"
)

// large returns a resource with texts of maximum size.
func large(n int) *Resource {
	kib := strings.Repeat("k", 1024)
	k := assay.ServiceKey{Namespace: kib, Name: kib, Environment: kib, Version: kib}
	return &Resource{Service: k, Hash: delta.ServiceHash(org, k), Attributes: fmt.Sprintf("%04095d", n)}
}

// appended returns the entries that a transaction appends to journals, and their size.
func appended(x *Transaction) (entries []delta.JournalEntry, size int) {
	for _, j := range x.Journals("a", "holder") {
		for _, e := range j.Append {
			entries = append(entries, delta.JournalEntry{Seq: e.Seq, Data: bytes.Clone(e.Data)})
			size += len(e.Data)
		}
	}
	return entries, size
}

// TestLargeResourcesAreNotRepeated: traces with very many large resources do not make the journal, a sweep, or an
// adoption much larger than the texts of the resources.
func TestLargeResourcesAreNotRepeated(t *testing.T) {
	const resources, traces = 2048, 80
	a := NewAssembler(Config{Memory: 1 << 30})
	x := a.Transaction()
	var all []delta.JournalEntry
	x.Begin(t0)
	for r := 0; r < resources; r += 64 { // in parts, as a request is added
		var list []Span
		for i := range 64 {
			res := large(r + i)
			for trace := range traces {
				list = append(list, nameless(trace, (r+i)*traces+trace+1, 0, res))
			}
		}
		x.Add(org, list)
	}
	texts := resources * 8 << 10
	spans := resources * traces * recordBytes
	entries, size := appended(x)
	all = append(all, entries...)
	x.Commit()
	require.Less(t, size, 2*(texts+spans))

	a.tenants[0].ledger.beginSweep(a.tenants[0].started.front)
	x.Begin(t0)
	_, size = appended(x)
	require.Less(t, size, 3*(sweptBytes+maxResources*8<<10), "the maximum number of resources of a trace")

	b := NewAssembler(Config{Memory: 1 << 30})
	recovery := b.Recovery("a")
	require.NoError(t, recovery.Read(all))
	require.Zero(t, recovery.Damaged)
	y := b.Transaction()
	for !recovery.Ended() {
		y.Begin(t0)
		y.Adopt(recovery)
		_, size = appended(y)
		y.Commit()
		require.Less(t, size, 3*(adoptedBytes+maxResources*8<<10))
	}
	require.Equal(t, traces, b.Stats().Traces)
}

// TestMemoryOfOthers: an organization is not charged for memory that another one left for reuse.
func TestMemoryOfOthers(t *testing.T) {
	a := NewAssembler(Config{})
	evil, victim := of("evil", "a"), of("victim", "a")
	for i := range 3000 {
		list := make([]Span, 500)
		for j := range list {
			list[j] = nameless(i, j+1, 0, evil)
		}
		a.Add(t0, "evil", list)
	}
	expire(a, t0.Add(time.Minute))
	for i := range 3000 {
		a.Add(t0.Add(time.Minute), "victim", []Span{nameless(i, 1, 0, victim), nameless(i, 2, 1, victim), nameless(i, 3, 1, victim)})
	}
	require.Less(t, a.tenants[a.org("victim")].bytes, 3000*(traceBytes+2*firstRecords*recordBytes+200))
}

// TestRecoveryBesideAnother: sampling ends even while another organization holds most of the memory.
func TestRecoveryBesideAnother(t *testing.T) {
	a := NewAssembler(Config{Memory: 1 << 20})
	n := 0
	add := func(now time.Time, id string, traces int) {
		for range traces {
			n++
			a.Add(now, id, []Span{nameless(n, 1, 0, of(id, "a"))})
		}
	}
	add(t0, "victim", 5000)
	victim := a.tenants[a.org("victim")]
	require.Positive(t, victim.level)
	now := t0.Add(31 * time.Second)
	expire(a, now)
	for now.Sub(t0) < 20*time.Minute {
		now = now.Add(time.Second)
		add(now, "evil", 60)
		add(now, "victim", 1)
		expire(a, now)
	}
	require.Greater(t, a.tenants[a.org("evil")].bytes, a.cfg.Memory/2)
	require.Zero(t, victim.level)
}

// TestOverdueTraceCloses: a span in each transaction does not defer the closing of a trace that has reached its
// maximum age.
func TestOverdueTraceCloses(t *testing.T) {
	a := NewAssembler(Config{})
	x, r := a.Transaction(), resource("a")
	a.Add(t0, org, []Span{span(1, 1, 9, r)})
	for s := 10; s < 700; s += 10 {
		a.Add(t0.Add(time.Duration(s)*time.Second), org, []Span{span(1, 1+s, 0, r)})
	}
	now := t0.Add(11 * time.Minute)
	pieces, _ := a.Evaluate(t.Context(), Due{Now: now})
	require.Len(t, pieces, 1)
	a.Add(now, org, []Span{span(1, 5000, 0, r)})
	x.Begin(now)
	d := x.Close(pieces[0])
	x.Commit()
	pieces[0].Release()
	require.EqualValues(t, 1, counts(d, "a", catalog.SPA002).Failed)
	requireEmpty(t, a)
}

// TestParentsOnlyResourcesOfOrganizations: resources shared by evaluators are charged to no organization.
func TestParentsOnlyResourcesOfOrganizations(t *testing.T) {
	a, shared := NewAssembler(Config{}), &Resource{ParentsOnly: true}
	for i := range 10 {
		a.Add(t0.Add(time.Duration(i)*time.Second), fmt.Sprint("org ", i%3), []Span{nameless(i, 1, 0, shared)})
	}
	flush(a, true)
	requireEmpty(t, a)
}

// TestSheddingInSteps: a commit drops a number of traces that depends on what it added, not on the number of open
// traces. Until a trace is dropped, it neither closes nor gets spans, so no part of a trace is evaluated.
func TestSheddingInSteps(t *testing.T) {
	const each, many = 1000, 40_000
	p := start(t, new(disk), "a", Config{Memory: 16 << 20})
	r, now := resource("a"), t0
	batch := func(from int) {
		var list []Span
		for i := range each {
			list = append(list, nameless(from+i, 1, 99, r))
		}
		p.add(now, list...)
	}
	n := 0
	for ; p.a.tenants == nil || p.a.tenants[0].level == 0; n += each {
		require.Less(t, n, 2*many)
		batch(n)
	}
	require.Greater(t, p.a.traces.len, 2*(shedTraces+each))
	require.True(t, p.a.Shedding())
	require.True(t, p.a.Pending())

	left := n - each // a trace that is to be dropped
	for ; p.a.keeps(p.a.tenants[0], traceID(left)); left-- {
		require.Positive(t, left)
	}
	p.add(now, nameless(left, 2, 99, r))
	require.Len(t, opened(p.a, key{id: traceID(left)}).records, 1)
	pieces, _ := p.a.Evaluate(t.Context(), Due{Now: now, All: true})
	for _, piece := range pieces {
		for i := range piece.traces {
			require.True(t, p.a.keeps(piece.tenant, piece.traces[i].id))
		}
		piece.Release()
	}
	for commits := 0; p.a.Shedding(); commits++ {
		require.Less(t, commits, 2*many/shedTraces)
		before, traces := p.a.Stats().Dropped, p.a.traces.len
		batch(n)
		n += each
		after := p.a.Stats()
		require.LessOrEqual(t, after.Dropped-before, uint64(shedTraces+2*each+each))
		require.Less(t, p.a.traces.len, traces+each)
		require.Less(t, after.Bytes, p.a.cfg.Memory+p.a.cfg.Memory/8)
	}
	require.LessOrEqual(t, p.a.Stats().Bytes, p.a.cfg.Memory)
	for tr := range allOpened(p.a) {
		k := tr.key
		require.True(t, p.a.keeps(tr.of, k.id))
	}
	p.check()
	p.mirrored(now)
}
