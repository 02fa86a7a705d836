// SPDX-License-Identifier: Apache-2.0

package trace

import "hash/maphash"

// maxNames bounds one table of names.
const maxNames = 1 << 15

// names gives the span names of an organization small numbers. A full table is
// replaced by a new one for the traces opened from then on, and goes when the last of
// its own closes.
type names struct {
	numbers map[uint64]uint32 // by hash; nil: full
	texts   []string          // from 1; none are changed once they are there
	bytes   int               // roughly what the table takes
	traces  int               // open traces that refer to it
}

// nameBytes is what a name takes besides its text.
const nameBytes = 64

func newNames() *names {
	return &names{numbers: make(map[uint64]uint32), texts: []string{""}}
}

func (n *names) full() bool { return len(n.texts) >= maxNames || n.numbers == nil }

// intern returns the number of a name; 0, the empty name, for a new one when the
// table is full, and for one whose hash is another's.
func (n *names) intern(hash uint64, name string) uint32 {
	i, ok := n.numbers[hash]
	if ok && n.texts[i] != name {
		return 0
	}
	if !ok && name != "" && !n.full() {
		i = uint32(len(n.texts))
		n.numbers[hash] = i
		n.texts = append(n.texts, name)
		n.bytes += nameBytes + len(name)
	}
	return i
}

// forget empties the table for good.
func (n *names) forget() { n.numbers, n.texts, n.bytes = nil, nil, 0 }

// text returns a name by its number.
func (n *names) text(i uint32) string {
	if int(i) >= len(n.texts) {
		return ""
	}
	return n.texts[i]
}

// nameSeed keys the hashes of names that come from a journal.
var nameSeed = maphash.MakeSeed()

// nameHash returns the hash of such a name. It is of this process.
func nameHash(name string) uint64 { return maphash.String(nameSeed, name) }
