// SPDX-License-Identifier: Apache-2.0

package trace

// entry is what an Assembler knows of an entry of its journal.
type entry struct {
	bytes int
	spans int
	refs  int  // open traces with spans in it
	note  bool // says something about what entries before it hold
	gone  bool // nobody needs it
}

// ledger knows which entries of a journal are still needed. An entry with spans is
// for as long as one of its traces is open, a note for as long as there is an entry
// before it.
type ledger struct {
	next    uint64   // number of the next entry
	entries []entry  // up to it, from the first one that is needed
	bytes   int      // of those that are needed
	spans   int      // in those that are needed
	forget  []uint64 // numbers of those that are not needed any more

	// Traces that began up to an entry move to new ones, so that few of them do not
	// keep many entries.
	sweeping bool
	upTo     uint64
	cursor   *openTrace // the next one to look at
	swept    int        // bytes after the last time
}

// add notes the next entry, which has been committed.
func (l *ledger) add(bytes, spans int, note bool) {
	l.entries = append(l.entries, entry{bytes: bytes, spans: spans, note: note})
	l.bytes += bytes
	l.spans += spans
	l.next++
}

// at returns an entry by its number.
func (l *ledger) at(seq uint64) *entry {
	return &l.entries[seq-(l.next-uint64(len(l.entries)))]
}

// release says that a trace with spans in an entry is no longer open, or has them
// elsewhere.
func (l *ledger) release(seq uint64) {
	e := l.at(seq)
	if e.refs--; e.refs == 0 {
		l.drop(seq)
	}
}

func (l *ledger) drop(seq uint64) {
	e := l.at(seq)
	e.gone = true
	l.bytes -= e.bytes
	l.spans -= e.spans
	l.forget = append(l.forget, seq)
}

// trim drops what nobody needs at the beginning.
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

// Up to these limits a journal is small, whatever it is for.
const (
	smallBytes   = 16 << 20
	smallEntries = 4096
)

// crowded tells whether the journal is much larger than what it is for, of which
// there are so many spans and bytes in memory.
func (l *ledger) crowded(spans, bytes int) bool {
	switch {
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
