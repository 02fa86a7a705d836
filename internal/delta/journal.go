// SPDX-License-Identifier: Apache-2.0

package delta

import "errors"

// ErrJournalLost reports that another holder has taken over a journal. The previous holder must not write to it.
var ErrJournalLost = errors.New("journal taken over by another process")

// ErrJournalConflict reports that the journal has an entry that its writer does not know: an earlier transaction with
// unknown outcome has committed, or another process writes to the journal. The transaction has been rolled back.
var ErrJournalConflict = errors.New("journal has an unknown entry")

// Journal is the change of one transaction to one journal of open traces. A journal holds the state that a replica
// keeps in memory and would lose if it were killed. It belongs to the holder of the lease JournalLease(Name).
type Journal struct {
	Name   string
	Holder string // of the lease
	// Next is the number that follows the last entry that the writer knows. If the journal has an entry with this number or
	// a higher one, the transaction fails with ErrJournalConflict, even if it only deletes.
	Next   uint64
	Append []JournalEntry // with numbers from Next
	Forget []uint64       // sequence numbers of entries that are no longer needed
}

// JournalEntry is one record of a journal. Only its writer interprets Data.
type JournalEntry struct {
	Seq  uint64 // unique in the journal; a duplicate fails with ErrJournalConflict
	Data []byte
}

// JournalLease returns the name of the lease that permits writing to a journal.
func JournalLease(name string) string { return "journal:" + name }
