// SPDX-License-Identifier: Apache-2.0

package fair

import "sync"

// Queue holds items of keys for one consumer, who gets them from each key in turn
// and of one key in order. It may be used concurrently.
type Queue[T any] struct {
	max   int
	ready chan struct{} // holds a token while there is something to take

	mu   sync.Mutex
	n    int
	keys map[string]*items[T] // those with items
	turn []*items[T]          // the next one first
}

type items[T any] struct {
	key  string
	list []T
}

// NewQueue returns a Queue for at most max items.
func NewQueue[T any](max int) *Queue[T] {
	return &Queue[T]{max: max, ready: make(chan struct{}, 1), keys: make(map[string]*items[T])}
}

// Push adds an item unless the queue is full or the key has more items than there
// is room left; it tells which.
func (q *Queue[T]) Push(key string, item T) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	k := q.keys[key]
	if q.n >= q.max || k != nil && len(k.list) >= q.max-q.n {
		return false
	}
	if k == nil {
		k = &items[T]{key: key}
		q.keys[key] = k
		q.turn = append(q.turn, k)
	}
	k.list = append(k.list, item)
	q.n++
	q.wake()
	return true
}

// Ready receives when there are items to take.
func (q *Queue[T]) Ready() <-chan struct{} { return q.ready }

// Take returns items of the keys in turn until their weights reach budget, at least
// one where there is one.
func (q *Queue[T]) Take(budget int, weight func(T) int) []T {
	q.mu.Lock()
	defer q.mu.Unlock()
	var taken []T
	for budget > 0 && len(q.turn) > 0 {
		k := q.turn[0]
		item := k.list[0]
		k.list = k.list[1:]
		taken = append(taken, item)
		budget -= weight(item)
		q.n--
		q.turn = q.turn[1:]
		if len(k.list) > 0 {
			q.turn = append(q.turn, k)
		} else {
			delete(q.keys, k.key)
		}
	}
	if q.n > 0 {
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
	return q.n
}

func (q *Queue[T]) wake() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}
