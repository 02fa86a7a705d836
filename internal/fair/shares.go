// SPDX-License-Identifier: Apache-2.0

package fair

// Shares accounts for a resource of fixed capacity that keys share, and selects the key that gives way when it is
// full: the one that holds most ("push-out": Thareja and Agrawala, "On the design of optimal policy for sharing
// finite buffers", 1984).
//
// The share of a key is the capacity divided by the number of keys that hold something, including the requesting key.
// While there is room, a key may hold more than its share. When there is no room, a key gets what it requests as long
// as it stays within its share, and only keys above their share give way.
//
// Amounts are in the unit of the capacity, such as bytes, rows or connections. Shares only counts: the caller evicts
// and reports the change with Add. It is not safe for concurrent use; the caller guards it with the lock of the
// resource. Add takes O(log keys) and does not allocate unless the number of keys reaches a new maximum.
type Shares struct {
	capacity, total int64
	keys            map[string]*share
	// heap holds the keys with a positive amount as a max-heap. Removed entries stay beyond its length for reuse.
	heap []*share
}

// share is the amount held by one key.
type share struct {
	key   string
	held  int64
	index int // in heap
}

// NewShares returns an account in which no key holds anything.
func NewShares(capacity int64) *Shares {
	return &Shares{capacity: capacity, keys: make(map[string]*share)}
}

// Add adds n to the amount of a key. n is negative for a release. The amount does not drop below 0. Add does not
// check the capacity: see GivesWay.
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

// Total returns the sum of all amounts.
func (s *Shares) Total() int64 { return s.total }

// Held returns the amount of a key.
func (s *Shares) Held(key string) int64 {
	if k := s.keys[key]; k != nil {
		return k.held
	}
	return 0
}

// Keys returns the number of keys with a positive amount.
func (s *Shares) Keys() int { return len(s.heap) }

// Largest returns the key with the largest amount and the amount, or 0 if no key holds anything. Ties are resolved by
// byte order.
func (s *Shares) Largest() (key string, held int64) {
	if len(s.heap) == 0 {
		return "", 0
	}
	return s.heap[0].key, s.heap[0].held
}

// GivesWay reports whether a key has to give way for n more of key, and which one. While there is room for n, no key
// has to.
//
// If it returns another key, the caller evicts at least one unit of that key and calls GivesWay again. The returned
// key holds more than its share, and more than the requesting key will hold. Repeated evictions make room.
//
// If it returns the requesting key, the caller refuses the request or evicts an older item of the same key. This
// happens only if the key would exceed its share, and evictions from keys that hold more than it would then hold
// cannot make room.
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

// excess returns the total by which the keys of the heap below i exceed an amount. It stops when the sum reaches
// enough, and visits only keys above the amount.
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
