// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"errors"
	"time"

	"assay/internal/delta"
)

// Recovery is the open traces that a process left in its journal, to be moved to the
// journal of another one. It must not be used concurrently.
type Recovery struct {
	// Name of the journal.
	Name string
	// Damaged is how many entries could not be read. What they say is lost.
	Damaged int

	a         *Assembler
	resources known
	heirs     map[*Resource]*Resource
	entries   []uint64 // numbers of all entries
	next      uint64
	newest    int64 // arrival
	open      bool  // some entry is its owner's

	chunk []*openTrace // that move in the transaction in hand
	told  bool         // that traces may lack their beginning
	ended bool
}

// Recovery returns a Recovery that has read nothing yet. Its memory is what a has
// left, or a quarter of the budget if that is more.
func (a *Assembler) Recovery(name string) *Recovery {
	a.mu.Lock()
	defer a.mu.Unlock()
	cfg := a.cfg
	cfg.Memory = max(cfg.Memory-a.bytes, cfg.Memory/4)
	return &Recovery{Name: name, a: NewAssembler(cfg), resources: make(known), heirs: make(map[*Resource]*Resource), next: 1}
}

// Read takes the next entries of the journal. An error says that they are of a version
// that this program does not know, so that the journal must be left to others.
func (r *Recovery) Read(entries []delta.JournalEntry) error {
	for i := range entries {
		e := &entries[i]
		h, rest, err := decodeHeader(e.Data)
		if errors.Is(err, errVersion) {
			return err
		}
		if err == nil {
			r.a.cfg.Seed = h.seed
			_, err = r.a.replay(h, rest, r.resources, true)
		}
		if err == nil {
			r.add(h)
		}
		if err != nil {
			r.Damaged++
		}
		r.open = r.open || h.flags&flagTaken == 0
		r.entries, r.next = append(r.entries, e.Seq), e.Seq+1
	}
	return nil
}

// add adds the spans of the entry in hand.
func (r *Recovery) add(h header) {
	at, b := time.Unix(0, h.arrival), &r.a.scratch
	for i := range b.groups {
		if g := &b.groups[i]; h.flags&flagReplaces != 0 && !g.goesOn && r.a.traces[g.key] != nil {
			r.a.remove(r.a.traces[g.key])
		}
	}
	r.a.apply(at, b)
	r.newest = max(r.newest, h.arrival)
	if r.a.bytes > r.a.cfg.Memory {
		r.a.shed(at)
		for _, o := range r.a.tenants {
			o.floor = o.level
		}
	}
}

// heir returns the copy of a resource that traces refer to where they move: both
// Assemblers count who refers to theirs.
func (r *Recovery) heir(of *Resource) *Resource {
	h := r.heirs[of]
	if h == nil {
		h = &Resource{Service: of.Service, Hash: of.Hash, Unjudged: of.Unjudged, Attributes: of.Attributes}
		r.heirs[of] = h
	}
	return h
}

// Last returns the number of the last entry read.
func (r *Recovery) Last() uint64 { return r.next - 1 }

// Traces returns how many traces have not moved.
func (r *Recovery) Traces() int { return len(r.a.traces) }

// Over tells whether all traces had moved before, and since when. Nothing is left of
// such a journal but a last entry, which keeps its writer, should that come to life
// again, from going on as though nothing had happened. To adopt from it is to
// forget that, too.
func (r *Recovery) Over() (since time.Time, ok bool) {
	return time.Unix(0, r.newest), !r.open && len(r.a.traces) == 0
}

// Ended tells whether a transaction with all that was left has committed.
func (r *Recovery) Ended() bool { return r.ended }

// incomplete returns the organizations, by their numbers in another Assembler, of which
// spans were sampled out, and since when those may have arrived elsewhere (Unix
// nanoseconds), as long as no transaction with that has committed.
func (r *Recovery) incomplete(in *Assembler) map[uint32]int64 {
	if r.told {
		return nil
	}
	var since map[uint32]int64
	for _, o := range r.a.tenants {
		if o.level == 0 && !o.suspects(time.Unix(0, r.newest), r.a.cfg.Idle) {
			continue
		}
		if since == nil {
			since = make(map[uint32]int64)
		}
		since[in.org(o.id)] = r.newest
	}
	return since
}

// journal returns what to write to the journal when the chunk moves away.
func (r *Recovery) journal(e *encoder, now time.Time, holder string) delta.Journal {
	j := delta.Journal{Name: r.Name, Holder: holder}
	_, over := r.Over()
	last := len(r.chunk) == len(r.a.traces)
	if last {
		j.Forget = r.entries
	}
	if over {
		return j
	}
	h := r.a.header(now)
	h.flags |= flagTaken
	if last {
		e.note(r.a, h, nil, nil)
	} else {
		e.note(r.a, h, nil, r.chunk)
	}
	j.Append = appendEntries(nil, r.next, e.entries)
	return j
}

// commit notes that the chunk has moved, in a transaction that wrote so many entries
// to the journal.
func (r *Recovery) commit(written int) {
	r.told, r.ended = true, len(r.chunk) == len(r.a.traces)
	for _, t := range r.chunk {
		r.a.remove(t)
	}
	r.chunk = r.chunk[:0]
	for range written {
		r.entries = append(r.entries, r.next)
		r.next++
	}
}
