// SPDX-License-Identifier: Apache-2.0

package trace

// maxNames bounds one table of names.
const maxNames = 1 << 15

// names gives span names small numbers. A full table is replaced by a new one
// for the traces opened from then on, and goes when the last of its own closes.
type names struct {
	numbers map[uint64]uint32 // by hash
	texts   []string
	bytes   int // roughly what the table takes
	traces  int // open traces that refer to it
}

// nameBytes is what a name takes besides its text.
const nameBytes = 64

func newNames() *names {
	return &names{numbers: make(map[uint64]uint32), texts: []string{""}}
}

func (n *names) full() bool { return len(n.texts) >= maxNames }

// intern returns the number of a name; 0, the empty name, for a new one when the
// table is full or there is no room.
func (n *names) intern(hash uint64, name string, room bool) uint32 {
	i, ok := n.numbers[hash]
	if !ok && name != "" && room && !n.full() {
		i = uint32(len(n.texts))
		n.numbers[hash] = i
		n.texts = append(n.texts, name)
		n.bytes += nameBytes + len(name)
	}
	return i
}
