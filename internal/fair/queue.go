// SPDX-License-Identifier: Apache-2.0

package fair

import (
	"slices"
	"sync"
)

// Queue holds items of keys for one consumer. The consumer gets items of the keys in turn,
// and those of one key in order. Items have weights, and the queue is limited in both items
// and weight: see Shares. It may be used concurrently.
//
// The empty key is the consumer's own. It takes turns with the others, but its items are
// neither limited nor counted against the others: the callers bound them.
type Queue[T comparable] struct {
	ready chan struct{} // holds a token while there is something to take, or was

	mu    sync.Mutex
	len   int
	count *Shares              // of items, those of the empty key excepted
	load  *Shares              // of weight, likewise
	keys  map[string]*items[T] // those with items
	turn  []*items[T]          // the next one first
}

type items[T comparable] struct {
	taken int // weight, by the Take in hand
	key   string
	list  []weighed[T]
}

type weighed[T comparable] struct {
	item   T
	weight int
}

// NewQueue returns a Queue for at most n items, of at most that weight together.
func NewQueue[T comparable](n, weight int) *Queue[T] {
	return &Queue[T]{
		ready: make(chan struct{}, 1), count: NewShares(int64(n)), load: NewShares(int64(weight)), keys: make(map[string]*items[T]),
	}
}

// Push adds an item and reports whether there is room for it. When the queue is full, the
// newest items of the key that holds most give way. They are returned and are in the queue no
// longer. An item heavier than the queue's limit needs an empty queue.
func (q *Queue[T]) Push(key string, item T, weight int) (evicted []T, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if evicted, ok = q.makeRoom(key, q.charge(weight)); !ok {
		return nil, false
	}
	k := q.keys[key]
	if k == nil {
		k = &items[T]{key: key}
		q.keys[key] = k
		q.turn = append(q.turn, k)
	}
	k.list = append(k.list, weighed[T]{item, weight})
	q.account(key, 1, weight)
	q.wake()
	return evicted, true
}

// makeRoom evicts items so that one of a key fits, or evicts none and returns false.
func (q *Queue[T]) makeRoom(key string, charge int64) (evicted []T, ok bool) {
	if key == "" {
		return nil, true
	}
	byCount, _ := q.count.GivesWay(key, 1)
	byLoad, _ := q.load.GivesWay(key, charge)
	if byCount == key || byLoad == key {
		return nil, false
	}
	for {
		loser, full := q.count.GivesWay(key, 1)
		if !full {
			loser, full = q.load.GivesWay(key, charge)
		}
		if !full {
			return evicted, true
		}
		k := q.keys[loser]
		evicted = append(evicted, q.remove(k, len(k.list)-1))
	}
}

// Remove removes an item of a key and reports whether it was still queued. The consumer may
// wait for the queue to be empty: Ready receives, though there may be nothing to take.
func (q *Queue[T]) Remove(key string, item T) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	k := q.keys[key]
	if k == nil {
		return false
	}
	i := slices.IndexFunc(k.list, func(w weighed[T]) bool { return w.item == item })
	if i < 0 {
		return false
	}
	q.remove(k, i)
	q.wake()
	return true
}

func (q *Queue[T]) remove(k *items[T], i int) T {
	w := k.list[i]
	k.list = slices.Delete(k.list, i, i+1)
	q.account(k.key, -1, w.weight)
	if len(k.list) == 0 {
		delete(q.keys, k.key)
		q.turn = slices.DeleteFunc(q.turn, func(o *items[T]) bool { return o == k })
	}
	return w.item
}

// Ready receives when there are items to take.
func (q *Queue[T]) Ready() <-chan struct{} { return q.ready }

// Take returns items until their weights reach budget, and at least one if there is one.
// The keys get the same part of the budget by turns, and what one does not need goes to
// the others, so that many light items do not wait for a few heavy ones.
func (q *Queue[T]) Take(budget int) []T {
	q.mu.Lock()
	defer q.mu.Unlock()
	var taken []T
	for _, k := range q.turn {
		k.taken = 0
	}
	for part := 0; budget > 0 && len(q.turn) > 0; {
		part += max(1, budget/len(q.turn))
		for passed := 0; budget > 0 && passed < len(q.turn); {
			k := q.turn[0]
			q.turn = q.turn[1:]
			if k.taken >= part {
				q.turn = append(q.turn, k)
				passed++
				continue
			}
			passed = 0
			first := k.list[0]
			k.list[0] = weighed[T]{} // do not keep it alive
			k.list = k.list[1:]
			q.account(k.key, -1, first.weight)
			taken = append(taken, first.item)
			k.taken += first.weight
			budget -= first.weight
			if len(k.list) > 0 {
				q.turn = append(q.turn, k)
			} else {
				delete(q.keys, k.key)
			}
		}
	}
	if q.len > 0 {
		q.wake()
	} else {
		select {
		case <-q.ready:
		default:
		}
	}
	return taken
}

// Len returns how many items wait.
func (q *Queue[T]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.len
}

// Keys returns how many keys have items that wait.
func (q *Queue[T]) Keys() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.keys)
}

// account adds an item of a key, or removes it where n is -1.
func (q *Queue[T]) account(key string, n, weight int) {
	q.len += n
	if key != "" {
		q.count.Add(key, int64(n))
		q.load.Add(key, int64(n)*q.charge(weight))
	}
}

// charge returns the weight that an item counts with.
func (q *Queue[T]) charge(weight int) int64 { return min(int64(weight), q.load.Capacity()) }

func (q *Queue[T]) wake() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}
