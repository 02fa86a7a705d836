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
	entries []forgotten
	mark    uint64 // number of the last entry that only marks the journal as taken
	marked  bool   // the last entry is of this process
	next    uint64
	newest  int64  // arrival of the owner's last entry
	taken   int64  // time of the last entry of another process
	open    bool   // some entry was written by the owner
	dropped uint64 // spans that do not fit into memory

	chunk           []*openTrace // traces that move in the current transaction
	forgotten       int          // entries that it deletes, once all traces have moved
	partialRecorded bool         // the possibility of partial traces was recorded
	ended           bool
}

// Recovery returns an empty Recovery. It has the same memory limit as a, so an organization within its share loses no
// traces because others use memory of a. If both do not fit together, a drops traces of the largest organization.
func (a *Assembler) Recovery(name string) *Recovery {
	return &Recovery{Name: name, a: NewAssembler(a.cfg), next: 1}
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
		empty := false
		if err == nil {
			r.a.cfg.Seed = h.seed
			var note bool
			note, err = r.a.replay(h, rest, true)
			empty = note && len(r.a.scratch.states) == 0
		}
		if err == nil {
			r.add(h)
		}
		if err != nil {
			r.Damaged++
		}
		taken := h.flags&flagTaken != 0
		r.open = r.open || !taken
		if taken && empty {
			r.mark = e.Seq
		}
		r.has(e.Seq, len(e.Data))
	}
	return nil
}

// has records an entry of the journal.
func (r *Recovery) has(seq uint64, bytes int) {
	r.entries = append(r.entries, forgotten{seq, bytes})
	r.next = seq + 1
}

// add adds the spans of the current entry.
func (r *Recovery) add(h header) {
	at, b := time.Unix(0, h.arrival), &r.a.scratch
	for i := range b.groups {
		g := &b.groups[i]
		if h.flags&flagReplaces != 0 && !g.continued {
			if t := r.a.traces.get(g.key, g.hash); t != nil {
				r.a.remove(t)
			}
		}
		if g.sampledOut {
			r.dropped += uint64(g.n)
		}
	}
	r.a.apply(at, b)
	if h.flags&flagTaken == 0 {
		r.newest = max(r.newest, h.arrival)
	} else {
		r.taken = max(r.taken, h.arrival)
	}
	if r.a.full() {
		before, levels := r.a.dropped, make([]uint, len(r.a.tenants))
		for i, o := range r.a.tenants {
			levels[i] = o.level
		}
		r.a.shed(at, math.MaxInt)
		r.dropped += r.a.dropped - before
		for i, o := range r.a.tenants {
			if o.level > levels[i] {
				o.floor = o.level
			}
		}
	}
}

// Last returns the number of the last entry read.
func (r *Recovery) Last() uint64 { return r.next - 1 }

// Traces returns the number of traces that have not moved.
func (r *Recovery) Traces() int { return r.a.traces.len }

// AllMoved reports whether all traces had already been moved, and since when. The last entry of such a journal stops its
// writers from continuing if they resume. Adopting from it deletes that one, too.
func (r *Recovery) AllMoved() (since time.Time, ok bool) {
	return time.Unix(0, r.taken), !r.open && r.a.traces.len == 0
}

// Ended reports whether a transaction that deletes the last entries has committed.
func (r *Recovery) Ended() bool { return r.ended }

// incomplete returns the organizations whose spans were sampled out, by number in the given Assembler, with the time
// since which such spans may have arrived elsewhere (Unix nanoseconds). It returns nothing once a transaction with
// that information has committed.
func (r *Recovery) incomplete(in *Assembler) map[uint32]int64 {
	if _, over := r.AllMoved(); over || r.partialRecorded || !r.marked {
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

// Claimed reports whether a transaction has marked the journal as taken, or all traces had been moved. The owner and
// other processes that adopt the journal can no longer change it, because they have read it up to an earlier entry (see
// delta.Journal.Next). They may have changed it between the reading and the mark, so another Recovery has to read it
// again and Continue after the mark.
func (r *Recovery) Claimed() bool {
	_, over := r.AllMoved()
	return r.marked || over
}

// Continue reports whether the last entry read is the mark of an earlier Recovery of this process, with this number. If
// not, another process has taken the journal over.
func (r *Recovery) Continue(mark uint64) bool {
	r.marked = r.Last() == mark
	return r.marked
}

// journal returns the changes to the journal when the chunk moves: it closes the traces there. The first change only marks the
// journal as taken, in place of an earlier mark. Without traces, it deletes entries, in their order, so that no entry is left
// whose traces a deleted one closes.
func (r *Recovery) journal(e *encoder, now time.Time, holder string) delta.Journal {
	j := delta.Journal{Name: r.Name, Holder: holder, Next: r.next}
	h := r.a.header(now)
	h.flags |= flagTaken
	if !r.Claimed() {
		e.mark(h)
		if r.mark != 0 {
			j.Forget = append(j.Forget, r.mark)
		}
	} else if len(r.chunk) > 0 {
		e.note(r.a, h, nil, r.chunk)
	} else {
		old := r.old()
		r.forgotten = forgettable(old, 0, 0)
		for _, x := range old[:r.forgotten] {
			j.Forget = append(j.Forget, x.seq)
		}
	}
	j.Append = appendEntries(nil, r.next, e.entries)
	return j
}

// old returns the entries to delete once all traces have moved. The last one stays if other processes may have read the
// journal recently: its number stops them from continuing with what they have read.
func (r *Recovery) old() []forgotten {
	if r.marked {
		return r.entries[:max(0, len(r.entries)-1)]
	}
	return r.entries
}

// commit records that the chunk has moved in a transaction that wrote the given entries to the journal. It returns the number
// of spans that were dropped because the journal did not fit into memory, once.
func (r *Recovery) commit(written []encoded) (dropped uint64) {
	if r.Claimed() {
		dropped, r.dropped = r.dropped, 0
	}
	r.partialRecorded = r.Claimed()
	r.ended = r.partialRecorded && len(r.chunk) == 0 && r.forgotten == len(r.old())
	for _, t := range r.chunk {
		r.a.remove(t)
	}
	r.chunk, r.entries, r.forgotten = r.chunk[:0], r.entries[r.forgotten:], 0
	for i := range written {
		r.has(r.next, len(written[i].data))
		r.marked = true
	}
	return dropped
}
