// SPDX-License-Identifier: Apache-2.0

package trace

import "hash/maphash"

// maxNames limits one table of names.
const maxNames = 1 << 15

// names numbers the span names of an organization. A full table is replaced by a new one for traces opened
// afterwards, and is released when the last of its own traces closes.
type names struct {
	numbers map[uint64]uint32 // by hash; nil: full
	texts   []string          // from 1; append-only
	bytes   int               // approximate size of the table
	traces  int               // open traces that use the table
}

// nameBytes is the size of a name besides its text.
const nameBytes = 64

func newNames() *names {
	return &names{numbers: make(map[uint64]uint32), texts: []string{""}}
}

func (n *names) full() bool { return len(n.texts) >= maxNames || n.numbers == nil }

// intern returns the number of a name. It returns 0, the empty name, for a new name in a full table and for a name
// whose hash collides with another.
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

// forget empties the table permanently.
func (n *names) forget() { n.numbers, n.texts, n.bytes = nil, nil, 0 }

// text returns a name by number.
func (n *names) text(i uint32) string { return nameText(n.texts, i) }

// nameText returns a name by number, or "" if texts has none.
func nameText(texts []string, i uint32) string {
	if int(i) >= len(texts) {
		return ""
	}
	return texts[i]
}

// nameSeed is the hash key for names from a journal.
var nameSeed = maphash.MakeSeed()

// nameHash returns the hash of a name from a journal, valid in this process only.
func nameHash(name string) uint64 { return maphash.String(nameSeed, name) }
