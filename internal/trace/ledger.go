// SPDX-License-Identifier: Apache-2.0

package trace

// entry is the Assembler's state of one journal entry. An entry holds spans of one organization, or it is a note, which
// closes traces or changes the sampling of earlier entries.
type entry struct {
	of    *tenant // whose spans it holds; nil: a note
	bytes int
	spans int
	refs  int  // open traces with spans in the entry
	gone  bool // no longer needed
}

// ledger tracks which journal entries are still needed. An entry with spans is needed while one of its traces is
// open, and a note while an earlier entry is needed.
type ledger struct {
	next    uint64   // number of the next entry
	entries []entry  // from the first needed entry to next
	bytes   int      // of needed entries
	notes   int      // of which notes
	spans   int      // in needed entries
	forget  []uint64 // numbers of entries no longer needed

	// A sweep moves the traces that began up to an entry to new entries, so that a few traces do not keep many
	// entries alive.
	sweeping bool
	upTo     uint64
	cursor   *openTrace // next trace of the sweep
	before   int        // bytes when the sweep began
	moved    int        // bytes that the sweep has written

	// The last sweep.
	swept      int  // bytes after it
	sweptSpans int  // spans in memory after it
	futile     bool // it ended early
}

// add records the next committed entry.
func (l *ledger) add(of *tenant, bytes, spans int) {
	l.entries = append(l.entries, entry{of: of, bytes: bytes, spans: spans})
	l.count(of, bytes)
	l.spans += spans
	l.next++
}

// count adds to the size of the needed entries of an organization, or of notes.
func (l *ledger) count(of *tenant, bytes int) {
	l.bytes += bytes
	if of != nil {
		of.journal += bytes
	} else {
		l.notes += bytes
	}
}

// at returns an entry by number.
func (l *ledger) at(seq uint64) *entry {
	return &l.entries[seq-(l.next-uint64(len(l.entries)))]
}

// release records that a trace with spans in an entry has closed or moved.
func (l *ledger) release(seq uint64) {
	e := l.at(seq)
	if e.refs--; e.refs == 0 {
		l.drop(seq)
	}
}

func (l *ledger) drop(seq uint64) {
	e := l.at(seq)
	e.gone = true
	l.count(e.of, -e.bytes)
	l.spans -= e.spans
	l.forget = append(l.forget, seq)
}

// trim removes unneeded entries from the front.
func (l *ledger) trim() {
	first, n := l.next-uint64(len(l.entries)), 0
	for ; n < len(l.entries); n++ {
		e := &l.entries[n]
		if !e.gone && e.refs > 0 {
			break
		}
		if !e.gone {
			l.drop(first + uint64(n))
		}
	}
	l.entries = l.entries[n:]
}

// A journal below these limits is never swept.
const (
	smallBytes   = 16 << 20
	smallEntries = 4096
)

// beginSweep begins a sweep with the first open trace.
func (l *ledger) beginSweep(first *openTrace) {
	l.sweeping, l.upTo, l.cursor, l.before, l.moved = true, l.next-1, first, l.bytes, 0
}

// endSweep ends a sweep that has visited all traces, or has written more than the journal held before: traces that
// share names and resources in memory can take more in other entries.
func (l *ledger) endSweep(spans int) {
	l.futile = l.moved > l.before
	if l.futile || l.cursor == nil {
		l.sweeping, l.cursor, l.swept, l.sweptSpans = false, nil, l.bytes, spans
	}
}

// oversized reports whether the journal is much larger than its content, the given number of spans and bytes in memory.
func (l *ledger) oversized(spans, bytes int) bool {
	switch {
	case l.futile && l.bytes < 2*l.swept && spans > l.sweptSpans/2: // another one would be, too
		return false
	case len(l.entries) > smallEntries && len(l.entries) > spans/16:
		return true
	case l.bytes <= smallBytes:
		return false
	case l.spans > 2*spans:
		return true
	default: // many small entries repeat names and resources
		return l.bytes > 2*bytes && l.bytes > 2*l.swept
	}
}
