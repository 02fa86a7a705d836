// SPDX-License-Identifier: Apache-2.0

package trace

// entry is the state of one journal entry. It holds spans, or it is a note, which closes traces or changes the sampling of
// earlier entries.
type entry struct {
	seq   uint64 // its number in the journal
	bytes int
	spans int
	refs  int // open traces with spans in the entry
	note  bool
	gone  bool // no longer needed
}

// journal is the state of the journal. Its last entry is not deleted while an earlier one is needed: a process that takes the
// journal over continues with the next number, so that a transaction of the owner fails.
type journal struct {
	next   uint64      // number of the next entry
	bytes  int         // of needed entries
	forget []forgotten // entries no longer needed
}

// forgotten is an entry to be deleted.
type forgotten struct {
	seq   uint64
	bytes int
}

// Limits of the entries that one transaction deletes: the store reads them before.
const (
	forgetBytes   = 8 << 20
	forgetEntries = 1 << 12
)

// forgettable returns the number of entries to delete for a transaction that appends so many bytes and entries, at least one
// if there is any. It is more than the transaction appends, so that deleting keeps up.
func forgettable(list []forgotten, bytes, entries int) (n int) {
	most := max(forgetBytes, 2*bytes)
	for n < min(len(list), max(forgetEntries, 2*entries)) && (n == 0 || most >= list[n].bytes) {
		most -= list[n].bytes
		n++
	}
	return n
}

// ledger tracks which journal entries of one organization are still needed. An entry with spans is needed while one of
// its traces is open, and a note while an earlier entry of the organization is needed.
type ledger struct {
	first   uint64  // position of the first of entries; traces refer to positions
	entries []entry // from the first needed one
	bytes   int     // of needed entries
	spans   int     // in needed entries

	// A sweep moves the traces that began up to a position to new entries, so that a few traces do not keep many
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

// forgets reports whether there is an entry to delete.
func (j *journal) forgets() bool {
	return len(j.forget) > 1 || len(j.forget) == 1 && !j.last(j.forget[0])
}

// last reports whether an entry is the last one and stays.
func (j *journal) last(e forgotten) bool { return e.seq == j.next-1 && j.bytes > 0 }

// add records the next committed entry of an organization. It returns the position.
func (j *journal) add(o *tenant, bytes, spans int, note bool) uint64 {
	l := &o.ledger
	l.entries = append(l.entries, entry{seq: j.next, bytes: bytes, spans: spans, note: note})
	l.bytes += bytes
	l.spans += spans
	j.bytes += bytes
	j.next++
	return l.end() - 1
}

// end returns the position after the last entry.
func (l *ledger) end() uint64 { return l.first + uint64(len(l.entries)) }

// at returns the entry at a position.
func (l *ledger) at(position uint64) *entry { return &l.entries[position-l.first] }

// release records that a trace with spans in an entry has closed or moved.
func (j *journal) release(o *tenant, position uint64) {
	e := o.ledger.at(position)
	if e.refs--; e.refs == 0 {
		j.drop(o, e)
	}
}

func (j *journal) drop(o *tenant, e *entry) {
	e.gone = true
	o.ledger.bytes -= e.bytes
	o.ledger.spans -= e.spans
	j.bytes -= e.bytes
	j.forget = append(j.forget, forgotten{e.seq, e.bytes})
}

// trim removes unneeded entries of an organization from the front. If partial is set, dropped traces may still receive
// spans, so it keeps the last note: a process that reads the journal would otherwise treat the rest of a trace as
// whole.
func (j *journal) trim(o *tenant, partial bool) {
	l, n := &o.ledger, 0
	last := len(l.entries) - 1
	for last >= 0 && l.entries[last].gone {
		last--
	}
	for ; n < len(l.entries); n++ {
		e := &l.entries[n]
		if !e.gone && (e.refs > 0 || n == last && e.note && partial) {
			break
		}
		if !e.gone {
			j.drop(o, e)
		}
	}
	l.entries, l.first = l.entries[n:], l.first+uint64(n)
}

// The journals of organizations are not swept while their total is below these limits.
const (
	smallBytes   = 16 << 20
	smallEntries = 4096
)

// beginSweep begins a sweep with the first open trace.
func (l *ledger) beginSweep(first *openTrace) {
	l.sweeping, l.upTo, l.cursor, l.before, l.moved = true, l.end()-1, first, l.bytes, 0
}

// endSweep ends a sweep that has visited all traces, or has written more than the organization's entries held before:
// traces that share names and resources in memory can take more in other entries.
func (l *ledger) endSweep(spans int) {
	l.futile = l.moved > l.before
	if l.futile || l.cursor == nil {
		l.sweeping, l.cursor, l.swept, l.sweptSpans = false, nil, l.bytes, spans
	}
}

// oversized reports whether the entries of an organization are much larger than their content, the given number of
// spans and bytes in memory. sharing is the number of organizations that share the limits.
func (l *ledger) oversized(spans, bytes, sharing int) bool {
	switch {
	case l.futile && l.bytes < 2*l.swept && spans > l.sweptSpans/2: // another sweep would be futile, too
		return false
	case len(l.entries) > max(smallEntries/sharing, smallEntries/64) && len(l.entries) > spans/16:
		return true
	case l.bytes <= max(smallBytes/sharing, smallBytes/64):
		return false
	case l.spans > 2*spans:
		return true
	default: // many small entries repeat names and resources
		return l.bytes > 2*bytes && l.bytes > 2*l.swept
	}
}
