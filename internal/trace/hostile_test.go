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

// large returns a resource with as many texts as one may have.
func large(n int) *Resource {
	kib := strings.Repeat("k", 1024)
	k := assay.ServiceKey{Namespace: kib, Name: kib, Environment: kib, Version: kib}
	return &Resource{Service: k, Hash: delta.ServiceHash(org, k), Attributes: fmt.Sprintf("%04095d", n)}
}

// appended returns the bytes of what a transaction appends to journals.
func appended(x *Transaction) (entries []delta.JournalEntry, size int) {
	for _, j := range x.Journals("a", "holder") {
		for _, e := range j.Append {
			entries = append(entries, delta.JournalEntry{Seq: e.Seq, Data: bytes.Clone(e.Data)})
			size += len(e.Data)
		}
	}
	return entries, size
}

// TestLargeResourcesAreNotRepeated: traces that refer to very many large resources do not
// make the journal, moving entries within it, or adopting it much larger than their texts.
func TestLargeResourcesAreNotRepeated(t *testing.T) {
	const resources, traces = 2048, 80
	a := NewAssembler(Config{Memory: 1 << 30})
	x := a.Transaction()
	var all []delta.JournalEntry
	x.Begin(t0)
	for r := 0; r < resources; r += 64 { // as parts of a request are added
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

	a.ledger.sweeping, a.ledger.upTo, a.ledger.cursor = true, a.ledger.next-1, a.following(nil)
	x.Begin(t0)
	_, size = appended(x)
	require.Less(t, size, 3*(sweptBytes+maxResources*8<<10), "a trace has so many resources at most")

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

// TestMemoryOfOthers: an organization is not charged for what another one left to be used
// again.
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

// TestRecoveryBesideAnother: sampling ends though another organization holds most of the
// memory.
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

// TestOverdueTraceCloses: a span with each transaction does not put off the end of a trace
// that has reached its maximum age.
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

// TestUnjudgedResourcesOfOrganizations: what is shared by evaluators is charged to none.
func TestUnjudgedResourcesOfOrganizations(t *testing.T) {
	a, shared := NewAssembler(Config{}), &Resource{Unjudged: true}
	for i := range 10 {
		a.Add(t0.Add(time.Duration(i)*time.Second), fmt.Sprint("org ", i%3), []Span{nameless(i, 1, 0, shared)})
	}
	flush(a, true)
	requireEmpty(t, a)
}
