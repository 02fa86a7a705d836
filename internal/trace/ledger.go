// SPDX-License-Identifier: Apache-2.0

package trace

import "slices"

// entry is what an Assembler knows of an entry of its journal.
type entry struct {
	seq   uint64
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
	entries []*entry // in order; the first one is needed
	needed  int      // of them
	bytes   int      // of those
	spans   int      // in those
	forget  []uint64 // numbers of those that are not needed any more

	// What the last entry said of the sampling.
	level   uint
	lowered int64
	cleared bool // all traces have been dropped since

	// Traces that began up to an entry move to new ones, so that few of them do not
	// keep many entries.
	sweeping bool
	upTo     uint64
	cursor   *openTrace // the next one to look at
	swept    int        // bytes after the last time
}

// add notes an entry that has been committed.
func (l *ledger) add(seq uint64, bytes, spans int, note bool) *entry {
	e := &entry{seq: seq, bytes: bytes, spans: spans, note: note}
	l.entries = append(l.entries, e)
	l.needed++
	l.bytes += bytes
	l.spans += spans
	l.next = seq + 1
	return e
}

// release says that a trace with spans in the entry is no longer open, or has them
// elsewhere.
func (l *ledger) release(e *entry) {
	if e.refs--; e.refs == 0 && !e.note {
		l.drop(e)
	}
}

func (l *ledger) drop(e *entry) {
	e.gone = true
	l.needed--
	l.bytes -= e.bytes
	l.spans -= e.spans
	l.forget = append(l.forget, e.seq)
}

// trim drops what nobody needs at the beginning.
func (l *ledger) trim() {
	n := 0
	for _, e := range l.entries {
		if !e.gone && e.refs > 0 {
			break
		}
		if !e.gone {
			l.drop(e)
		}
		n++
	}
	if n > 0 {
		clear(l.entries[:n])
		l.entries = l.entries[n:]
	}
	if len(l.entries) > 2*l.needed+64 {
		l.entries = slices.DeleteFunc(l.entries, func(e *entry) bool { return e.gone })
	}
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
	case l.needed > smallEntries && l.needed > spans/16:
		return true
	case l.bytes <= smallBytes:
		return false
	case l.spans > 2*spans:
		return true
	default: // many small entries repeat names and resources
		return l.bytes > 2*bytes && l.bytes > 2*l.swept
	}
}
