// SPDX-License-Identifier: Apache-2.0

package fair

import (
	"slices"
	"sync"
)

// Queue holds items of keys for one consumer, who gets them from each key in turn
// and of one key in order. Items have weights. It may be used concurrently.
type Queue[T comparable] struct {
	room  load          // what the queue holds at most
	ready chan struct{} // holds a token while there is something to take, or was

	mu    sync.Mutex
	total load
	keys  map[string]*items[T] // those with items
	turn  []*items[T]          // the next one first
}

// load is a number of items and what they weigh together.
type load struct{ n, weight int }

func (l *load) add(n, weight int) { l.n, l.weight = l.n+n, l.weight+weight }

type items[T comparable] struct {
	key   string
	total load
	list  []weighed[T]
}

type weighed[T comparable] struct {
	item   T
	weight int
}

// NewQueue returns a Queue for at most n items, which weigh at most so much together.
func NewQueue[T comparable](n, weight int) *Queue[T] {
	return &Queue[T]{room: load{n, weight}, ready: make(chan struct{}, 1), keys: make(map[string]*items[T])}
}

// Push adds an item unless there is no room for it or the key has more than there is
// room left, of items or weight; it tells which. An empty queue takes any item.
func (q *Queue[T]) Push(key string, item T, weight int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	k := q.keys[key]
	left := load{q.room.n - q.total.n, q.room.weight - q.total.weight}
	if q.total.n > 0 && (left.n <= 0 || left.weight < weight) || k != nil && (k.total.n >= left.n || k.total.weight >= left.weight) {
		return false
	}
	if k == nil {
		k = &items[T]{key: key}
		q.keys[key] = k
		q.turn = append(q.turn, k)
	}
	k.list = append(k.list, weighed[T]{item, weight})
	k.total.add(1, weight)
	q.total.add(1, weight)
	q.wake()
	return true
}

// Remove takes an item of a key back and tells whether it was still there. Nobody has
// to take it any more, which its consumer may be waiting to know: Ready receives, though
// there may be nothing to take.
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
	weight := k.list[i].weight
	k.list = slices.Delete(k.list, i, i+1)
	k.total.add(-1, -weight)
	q.total.add(-1, -weight)
	if len(k.list) == 0 {
		delete(q.keys, key)
		q.turn = slices.DeleteFunc(q.turn, func(o *items[T]) bool { return o == k })
	}
	q.wake()
	return true
}

// Ready receives when there are items to take.
func (q *Queue[T]) Ready() <-chan struct{} { return q.ready }

// Take returns items of the keys in turn until their weights reach budget, at least
// one where there is one.
func (q *Queue[T]) Take(budget int) []T {
	q.mu.Lock()
	defer q.mu.Unlock()
	var taken []T
	for budget > 0 && len(q.turn) > 0 {
		k := q.turn[0]
		first := k.list[0]
		k.list[0] = weighed[T]{} // what is taken is not held any more
		k.list = k.list[1:]
		k.total.add(-1, -first.weight)
		q.total.add(-1, -first.weight)
		taken = append(taken, first.item)
		budget -= first.weight
		q.turn = q.turn[1:]
		if len(k.list) > 0 {
			q.turn = append(q.turn, k)
		} else {
			delete(q.keys, k.key)
		}
	}
	if q.total.n > 0 {
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
	return q.total.n
}

func (q *Queue[T]) wake() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}
