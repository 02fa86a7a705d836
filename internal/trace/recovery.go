// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"errors"
	"math"
	"time"

	"assay/internal/delta"
)

// Recovery holds the open traces of another process's journal, to be moved to the journal of this process. It is not
// safe for concurrent use.
type Recovery struct {
	// Name of the journal.
	Name string
	// Damaged is the number of unreadable entries. Their content is lost.
	Damaged int

	a       *Assembler
	entries []uint64 // numbers of all entries
	next    uint64
	newest  int64 // arrival
	open    bool  // some entry was written by the owner

	chunk           []*openTrace // traces that move in the current transaction
	partialRecorded bool         // the possibility of partial traces was recorded
	ended           bool
}

// Recovery returns an empty Recovery. Its memory is the unused part of the budget of a, but at least a quarter of the
// budget.
func (a *Assembler) Recovery(name string) *Recovery {
	a.mu.Lock()
	defer a.mu.Unlock()
	cfg := a.cfg
	cfg.Memory = max(cfg.Memory-a.bytes, cfg.Memory/4)
	return &Recovery{Name: name, a: NewAssembler(cfg), next: 1}
}

// Read reads the next entries of the journal. It returns an error if they have an unknown version; the caller must
// leave the journal to a process that knows it.
func (r *Recovery) Read(entries []delta.JournalEntry) error {
	for i := range entries {
		e := &entries[i]
		h, rest, err := decodeHeader(e.Data)
		if errors.Is(err, errVersion) {
			return err
		}
		if err == nil {
			r.a.cfg.Seed = h.seed
			_, err = r.a.replay(h, rest, true)
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

// add adds the spans of the current entry.
func (r *Recovery) add(h header) {
	at, b := time.Unix(0, h.arrival), &r.a.scratch
	for i := range b.groups {
		if g := &b.groups[i]; h.flags&flagReplaces != 0 && !g.continued && r.a.traces[g.key] != nil {
			r.a.remove(r.a.traces[g.key])
		}
	}
	r.a.apply(at, b)
	r.newest = max(r.newest, h.arrival)
	if r.a.full() {
		r.a.shed(at, math.MaxInt)
		for _, o := range r.a.tenants {
			o.floor = o.level
		}
	}
}

// Last returns the number of the last entry read.
func (r *Recovery) Last() uint64 { return r.next - 1 }

// Traces returns the number of traces that have not moved.
func (r *Recovery) Traces() int { return len(r.a.traces) }

// AllMoved reports whether all traces had already been moved, and since when. Such a journal consists of a last entry
// that stops its writer from continuing if it resumes. Adopting from it deletes that entry, too.
func (r *Recovery) AllMoved() (since time.Time, ok bool) {
	return time.Unix(0, r.newest), !r.open && len(r.a.traces) == 0
}

// Ended reports whether a transaction with the last traces has committed.
func (r *Recovery) Ended() bool { return r.ended }

// incomplete returns the organizations whose spans were sampled out, by number in the given Assembler, with the time
// since which such spans may have arrived elsewhere (Unix nanoseconds). It returns nothing once a transaction with
// that information has committed.
func (r *Recovery) incomplete(in *Assembler) map[uint32]int64 {
	if r.partialRecorded {
		return nil
	}
	var since map[uint32]int64
	for _, o := range r.a.tenants {
		if o.level == 0 && !o.mayBePartial(time.Unix(0, r.newest), r.a.cfg.Idle) {
			continue
		}
		if since == nil {
			since = make(map[uint32]int64)
		}
		since[in.org(o.id)] = r.newest
	}
	return since
}

// journal returns the changes to the journal when the chunk moves.
func (r *Recovery) journal(e *encoder, now time.Time, holder string) delta.Journal {
	j := delta.Journal{Name: r.Name, Holder: holder}
	_, over := r.AllMoved()
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

// commit records that the chunk has moved in a transaction that wrote the given number of entries to the journal.
func (r *Recovery) commit(written int) {
	r.partialRecorded, r.ended = true, len(r.chunk) == len(r.a.traces)
	for _, t := range r.chunk {
		r.a.remove(t)
	}
	r.chunk = r.chunk[:0]
	for range written {
		r.entries = append(r.entries, r.next)
		r.next++
	}
}
