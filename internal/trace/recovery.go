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
	entries []forgotten // entries to delete
	marks   []uint64    // numbers of entries that mark the journal as taken, which stay
	marked  bool        // the last of them is of this process
	next    uint64
	newest  int64 // arrival of the owner's last entry
	taken   int64 // time of the last entry of another process
	open    bool  // some entry was written by the owner

	chunk           []*openTrace // traces that move in the current transaction
	forgotten       int          // entries that it deletes, once all traces have moved
	partialRecorded bool         // the possibility of partial traces was recorded
	ended           bool
}

// Recovery returns an empty Recovery. It may hold as much memory as a, so that what other organizations hold in a drops no
// traces of an organization within its share. Where both do not fit, a drops those of the largest organization.
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
		r.open = r.open || h.flags&flagTaken == 0
		r.has(e.Seq, len(e.Data), h.flags&flagTaken != 0, empty)
	}
	return nil
}

// has records an entry of the journal. The first one that another process has written stays, and so does the empty one that
// each process writes first: they have the numbers with which the owner, or a process that was suspended while it moved
// traces, would continue.
func (r *Recovery) has(seq uint64, bytes int, taken, empty bool) {
	if taken && (empty || len(r.marks) == 0) {
		r.marks = append(r.marks, seq)
	} else {
		r.entries = append(r.entries, forgotten{seq, bytes})
	}
	r.next = seq + 1
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
	if h.flags&flagTaken == 0 {
		r.newest = max(r.newest, h.arrival)
	} else {
		r.taken = max(r.taken, h.arrival)
	}
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

// AllMoved reports whether all traces had already been moved, and since when. Such a journal consists of entries that stop
// its writers from continuing if they resume. Adopting from it deletes them, too.
func (r *Recovery) AllMoved() (since time.Time, ok bool) {
	return time.Unix(0, r.taken), !r.open && len(r.a.traces) == 0
}

// Ended reports whether a transaction that deletes the last entries has committed.
func (r *Recovery) Ended() bool { return r.ended }

// incomplete returns the organizations whose spans were sampled out, by number in the given Assembler, with the time
// since which such spans may have arrived elsewhere (Unix nanoseconds). It returns nothing once a transaction with
// that information has committed.
func (r *Recovery) incomplete(in *Assembler) map[uint32]int64 {
	if r.partialRecorded || !r.Claimed() {
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

// Claimed reports whether a transaction has marked the journal as taken, or it consists of marks. A process whose number
// the mark has, the owner or one that adopts the journal as well, can no longer change it. But it may have done so since
// the journal was read: another Recovery has to read it again, and to Continue after the mark.
func (r *Recovery) Claimed() bool {
	_, over := r.AllMoved()
	return r.marked || over
}

// Continue reports whether the last entry read is the mark of an earlier Recovery of this process, with this number. If not,
// another process goes on with the journal.
func (r *Recovery) Continue(mark uint64) bool {
	r.marked = r.Last() == mark
	return r.marked
}

// journal returns the changes to the journal when the chunk moves: it closes the traces there. The first change only marks the
// journal as taken. Without traces, it deletes entries, in their order, so that no entry is left whose traces a deleted one closes.
// Of a journal that consists of marks, it deletes them.
func (r *Recovery) journal(e *encoder, now time.Time, holder string) delta.Journal {
	j := delta.Journal{Name: r.Name, Holder: holder}
	h := r.a.header(now)
	h.flags |= flagTaken
	_, over := r.AllMoved()
	if !r.Claimed() {
		e.mark(h)
	} else if len(r.chunk) > 0 {
		e.note(r.a, h, nil, r.chunk)
	} else {
		r.forgotten = forgettable(r.entries, 0, 0)
		for _, x := range r.entries[:r.forgotten] {
			j.Forget = append(j.Forget, x.seq)
		}
		if over && r.forgotten == len(r.entries) {
			j.Forget = append(j.Forget, r.marks...)
		}
	}
	j.Append = appendEntries(nil, r.next, e.entries)
	return j
}

// commit records that the chunk has moved in a transaction that wrote the given entries to the journal.
func (r *Recovery) commit(written []encoded) {
	r.partialRecorded = r.Claimed()
	r.ended = r.partialRecorded && len(r.chunk) == 0 && r.forgotten == len(r.entries)
	for _, t := range r.chunk {
		r.a.remove(t)
	}
	r.chunk, r.entries, r.forgotten = r.chunk[:0], r.entries[r.forgotten:], 0
	for i := range written {
		r.has(r.next, len(written[i].data), true, !r.marked)
		r.marked = true
	}
}
