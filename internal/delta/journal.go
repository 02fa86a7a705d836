// SPDX-License-Identifier: Apache-2.0

package delta

import "errors"

// ErrJournalLost says that another holder has taken a journal over, so that nothing
// may be written to it any more.
var ErrJournalLost = errors.New("the journal has been taken over")

// ErrJournalConflict says that an entry to be appended has the number of one that the
// journal holds: what this writer did not know to be committed has been, or another
// one writes to the journal. Nothing of the transaction is stored.
var ErrJournalConflict = errors.New("the journal has an entry of that number")

// Journal is what a transaction writes to one journal of open traces. A journal
// holds what the memory of a replica would lose if the replica were killed; it
// belongs to whoever holds the lease JournalLease(Name).
type Journal struct {
	Name   string
	Holder string // of the lease
	Append []JournalEntry
	Forget []uint64 // sequence numbers of entries that are no longer needed
}

// JournalEntry is one record of a journal. What is in it only its writer knows.
type JournalEntry struct {
	Seq  uint64 // one of its kind in the journal, or else the transaction fails with ErrJournalConflict
	Data []byte
}

// JournalLease returns the name of the lease whose holder may write a journal.
func JournalLease(name string) string { return "journal:" + name }
