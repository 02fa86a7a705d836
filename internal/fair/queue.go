// SPDX-License-Identifier: Apache-2.0

package fair

import (
	"slices"
	"sync"
)

// Queue holds items of keys for one consumer. The consumer receives items of the keys in turn, and the items of a key
// in the order of the queue. Items have weights, and the queue is limited in both items and weight; see Shares. It is safe for
// concurrent use.
//
// The empty key is for the consumer's own items. It takes turns with the other keys, but its items are neither
// limited nor counted against the others: the callers limit them.
type Queue[T comparable] struct {
	ready chan struct{} // holds a token if there are or were items to take

	mu    sync.Mutex
	len   int
	count *Shares              // items, except items of the empty key
	load  *Shares              // weight, except that of the empty key
	keys  map[string]*items[T] // keys with items
	order []*items[T]          // keys in the order of service
}

type items[T comparable] struct {
	taken  int // weight taken by the current Take
	weight int // of list
	key    string
	list   []weighed[T]
}

type weighed[T comparable] struct {
	item   T
	weight int
}

// NewQueue returns a Queue for at most n items with at most the given total weight.
func NewQueue[T comparable](n, weight int) *Queue[T] {
	return &Queue[T]{
		ready: make(chan struct{}, 1), count: NewShares(int64(n)), load: NewShares(int64(weight)), keys: make(map[string]*items[T]),
	}
}

// Push adds an item and reports whether there was room for it. If the queue is full, the newest items of the key that
// holds most are evicted and returned. An item heavier than the limit of the queue needs an empty queue.
func (q *Queue[T]) Push(key string, item T, weight int) (evicted []T, ok bool) {
	return q.push(key, item, weight, false)
}

// PushFirst is Push, but adds the item before the other items of the key.
func (q *Queue[T]) PushFirst(key string, item T, weight int) (evicted []T, ok bool) {
	return q.push(key, item, weight, true)
}

func (q *Queue[T]) push(key string, item T, weight int, first bool) (evicted []T, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if evicted, ok = q.makeRoom(key, q.charge(weight)); !ok {
		return nil, false
	}
	k := q.keys[key]
	if k == nil {
		k = &items[T]{key: key}
		q.keys[key] = k
		q.order = append(q.order, k)
	}
	at := len(k.list)
	if first {
		at = 0
	}
	k.list = slices.Insert(k.list, at, weighed[T]{item, weight})
	q.account(k, 1, weight)
	q.wake()
	return evicted, true
}

// makeRoom evicts items so that an item of a key fits. If that is impossible, it evicts none and returns false.
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

// Remove removes an item of a key and reports whether it was still queued. Ready receives afterwards even if the
// queue is empty, for a consumer that waits for that.
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
	q.account(k, -1, w.weight)
	if len(k.list) == 0 {
		delete(q.keys, k.key)
		q.order = slices.DeleteFunc(q.order, func(o *items[T]) bool { return o == k })
	}
	return w.item
}

// Ready receives when there may be items to take.
func (q *Queue[T]) Ready() <-chan struct{} { return q.ready }

// Take returns items up to a total weight of budget, and at least one if the queue is not empty. The keys get equal
// parts of the budget in turn. The unused part of a key goes to the others, so that many light items do not wait for
// a few heavy ones.
func (q *Queue[T]) Take(budget int) []T {
	q.mu.Lock()
	defer q.mu.Unlock()
	var taken []T
	for _, k := range q.order {
		k.taken = 0
	}
	for part := 0; budget > 0 && len(q.order) > 0; {
		part += max(1, budget/len(q.order))
		for passed := 0; budget > 0 && passed < len(q.order); {
			k := q.order[0]
			q.order = q.order[1:]
			if k.taken >= part {
				q.order = append(q.order, k)
				passed++
				continue
			}
			passed = 0
			first := k.list[0]
			k.list[0] = weighed[T]{} // release the item
			k.list = k.list[1:]
			q.account(k, -1, first.weight)
			taken = append(taken, first.item)
			k.taken += first.weight
			budget -= first.weight
			if len(k.list) > 0 {
				q.order = append(q.order, k)
			} else {
				delete(q.keys, k.key)
			}
		}
	}
	q.settle()
	return taken
}

// TakeLight returns all items of the keys with a weight of at most light each, up to a total weight of budget. It
// returns nothing if there are no other keys. So the consumer can serve light keys without waiting for the items of heavy
// keys, which take longer.
func (q *Queue[T]) TakeLight(light, budget int) []T {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !slices.ContainsFunc(q.order, func(k *items[T]) bool { return k.weight > light }) {
		return nil
	}
	var taken []T
	q.order = slices.DeleteFunc(q.order, func(k *items[T]) bool {
		if k.weight > light || k.weight > budget {
			return false
		}
		budget -= k.weight
		for _, w := range k.list {
			taken = append(taken, w.item)
			q.account(k, -1, w.weight)
		}
		delete(q.keys, k.key)
		return true
	})
	q.settle()
	return taken
}

// settle makes Ready receive if there are items, and not otherwise.
func (q *Queue[T]) settle() {
	if q.len > 0 {
		q.wake()
		return
	}
	select {
	case <-q.ready:
	default:
	}
}

// Len returns the number of queued items.
func (q *Queue[T]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.len
}

// Keys returns the number of keys with queued items.
func (q *Queue[T]) Keys() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.keys)
}

// account records the addition of an item of a key, or its removal if n is -1.
func (q *Queue[T]) account(k *items[T], n, weight int) {
	q.len += n
	k.weight += n * weight
	if k.key != "" {
		q.count.Add(k.key, int64(n))
		q.load.Add(k.key, int64(n)*q.charge(weight))
	}
}

// charge returns the weight charged for an item.
func (q *Queue[T]) charge(weight int) int64 { return min(int64(weight), q.load.Capacity()) }

func (q *Queue[T]) wake() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}
