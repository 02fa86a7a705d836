// SPDX-License-Identifier: Apache-2.0

package fair

// Shares accounts for a resource of fixed capacity that keys share, and decides which
// key gives way when it is full: the one that holds most ("push-out": Thareja and
// Agrawala, "On the design of optimal policy for sharing finite buffers", 1984).
//
// The share of a key is the capacity divided by the number of keys that hold something,
// the asking key included. While there is room, a key may hold more than its share. When
// there is no room, a key gets what it asks for as long as it stays within its share, and
// only keys above their share give way.
//
// Amounts are in the unit of the capacity, such as bytes, rows or connections. Shares only
// counts: the caller evicts and reports the change with Add. Shares has no lock; the caller
// guards it with the one that guards the resource. Add costs O(log keys) and allocates
// nothing once there were as many keys before.
type Shares struct {
	capacity, total int64
	keys            map[string]*share
	// heap has the keys that hold something, the largest first. Removed entries stay
	// behind its length, to be used again.
	heap []*share
}

// share is what one key holds.
type share struct {
	key   string
	held  int64
	index int // in heap
}

// NewShares returns the account of a resource of which nothing is held yet.
func NewShares(capacity int64) *Shares {
	return &Shares{capacity: capacity, keys: make(map[string]*share)}
}

// Add adds n to what a key holds. n is negative when the key gives something back; a key
// that gives back more than it holds, holds nothing. Add does not check the capacity: see
// GivesWay.
func (s *Shares) Add(key string, n int64) {
	k := s.keys[key]
	if k == nil {
		if n <= 0 {
			return
		}
		k = s.insert(key)
	}
	n = max(n, -k.held)
	k.held += n
	s.total += n
	switch {
	case k.held == 0:
		s.remove(k)
	case n > 0:
		s.up(k.index)
	default:
		s.down(k.index)
	}
}

// Capacity returns the capacity.
func (s *Shares) Capacity() int64 { return s.capacity }

// Total returns what all keys hold together.
func (s *Shares) Total() int64 { return s.total }

// Held returns what a key holds.
func (s *Shares) Held(key string) int64 {
	if k := s.keys[key]; k != nil {
		return k.held
	}
	return 0
}

// Keys returns how many keys hold something.
func (s *Shares) Keys() int { return len(s.heap) }

// Largest returns the key that holds most and what it holds, which is 0 when no key holds
// anything. Of keys that hold the same amount it is the first in byte order.
func (s *Shares) Largest() (key string, held int64) {
	if len(s.heap) == 0 {
		return "", 0
	}
	return s.heap[0].key, s.heap[0].held
}

// GivesWay returns which key gives way so that key can have n more, and reports whether
// one has to: while there is room for n, none has to.
//
// If it returns another key, the caller evicts something of that key, at least one unit,
// and asks again. That key holds more than its share, and more than the asking key is
// going to hold. Evicting as often as GivesWay asks for it makes room.
//
// If it returns the asking key itself, the caller refuses the request, or evicts something
// older of the same key. This happens only if the key would be above its share and no
// eviction from keys that hold more than it would then hold can make room.
func (s *Shares) GivesWay(key string, n int64) (loser string, full bool) {
	need := n - (s.capacity - s.total)
	if need <= 0 {
		return "", false
	}
	then := s.Held(key) + n
	if then > s.capacity || s.excess(0, then, need) < need {
		return key, true
	}
	return s.heap[0].key, true
}

// excess returns by how much the keys of the heap from i down exceed an amount together, or
// a sum of at least enough. It visits few of them: those above the amount, until it has
// enough.
func (s *Shares) excess(i int, amount, enough int64) int64 {
	if i >= len(s.heap) || enough <= 0 || s.heap[i].held <= amount {
		return 0
	}
	sum := s.heap[i].held - amount
	sum += s.excess(2*i+1, amount, enough-sum)
	return sum + s.excess(2*i+2, amount, enough-sum)
}

func (s *Shares) insert(key string) *share {
	last := len(s.heap)
	if last < cap(s.heap) {
		s.heap = s.heap[:last+1]
	} else {
		s.heap = append(s.heap, nil)
	}
	if s.heap[last] == nil {
		s.heap[last] = new(share)
	}
	k := s.heap[last]
	*k = share{key: key, index: last}
	s.keys[key] = k
	return k
}

func (s *Shares) remove(k *share) {
	i, last := k.index, len(s.heap)-1
	s.swap(i, last)
	delete(s.keys, k.key)
	k.key = ""
	s.heap = s.heap[:last]
	if i < last {
		s.down(i)
		s.up(i)
	}
}

// before reports whether the entry i belongs before the entry j.
func (s *Shares) before(i, j int) bool {
	a, b := s.heap[i], s.heap[j]
	return a.held > b.held || a.held == b.held && a.key < b.key
}

func (s *Shares) swap(i, j int) {
	s.heap[i], s.heap[j] = s.heap[j], s.heap[i]
	s.heap[i].index, s.heap[j].index = i, j
}

func (s *Shares) up(i int) {
	for i > 0 && s.before(i, (i-1)/2) {
		s.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
}

func (s *Shares) down(i int) {
	for {
		first := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(s.heap); child++ {
			if s.before(child, first) {
				first = child
			}
		}
		if first == i {
			return
		}
		s.swap(i, first)
		i = first
	}
}
