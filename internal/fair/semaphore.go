// SPDX-License-Identifier: Apache-2.0

package fair

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Semaphore limits the number of concurrent holders. Of the waiting keys, the one with the fewest holders is admitted
// next, so a key within its share waits for at most one holder to end, and for other keys within their share. Keys
// with the same number of holders take turns, as do Enter and Acquire for a key. The callers limit the number of
// waiters. It is safe for concurrent use.
type Semaphore struct {
	n      int     // maximum holders
	each   int     // maximum holders per key
	recent *Recent // set for a semaphore of CPUs

	mu    sync.Mutex
	free  int
	keys  map[string]*holders // keys with holders or waiters
	order []*holders          // waiting keys in the order of service
}

// holders is the state of one key.
type holders struct {
	held    int
	waiting []chan struct{} // each closed when admitted
	first   int             // of waiting, those of Enter, before those of Acquire
	entered bool            // Enter had the last turn
}

// next returns the index in waiting of the next to admit. Enter and Acquire take turns.
func (h *holders) next() int {
	if h.entered && h.first < len(h.waiting) {
		return h.first
	}
	return 0
}

func (h *holders) remove(i int) {
	if i < h.first {
		h.first--
	}
	h.waiting = slices.Delete(h.waiting, i, i+1)
}

// NewSemaphore returns a Semaphore for n holders in total and at most each holders per key. Both must be at least 1.
func NewSemaphore(n, each int) *Semaphore {
	return &Semaphore{n: max(n, 1), each: max(each, 1), free: max(n, 1), keys: make(map[string]*holders)}
}

// NewCPU returns a Semaphore for work that uses one of so many CPUs. A key that is alone may use all of them. While
// several keys are active (see Recent), a key with a holder is admitted only if one CPU stays without holders, and a
// key without holders is admitted up to twice the number of CPUs. So work that is not admitted here, such as a commit,
// does not wait for the CPU behind the work of one key. now is time.Now, except in tests.
func NewCPU(cpus int, now func() time.Time) *Semaphore {
	s := NewSemaphore(2*cpus, cpus)
	s.recent = NewRecent(now)
	return s
}

// Acquire waits until a holder of the key is admitted, or returns the cause when ctx ends. Each successful Acquire
// needs a Release.
func (s *Semaphore) Acquire(ctx context.Context, key string) error {
	return s.wait(ctx, key, s.request(key, false))
}

func (s *Semaphore) wait(ctx context.Context, key string, admitted <-chan struct{}) error {
	if admitted == nil {
		return nil
	}
	select {
	case <-admitted:
		return nil
	case <-ctx.Done():
	}
	if !s.abandon(key, admitted) {
		s.Release(key) // admitted in the meantime
	}
	return context.Cause(ctx)
}

// Enter is Acquire for a short part of a response. It takes turns with the waiting Acquires of the organization, however
// many they are. leave is the Release. A nil Semaphore, and requests without an organization, have no limit.
func (s *Semaphore) Enter(ctx context.Context, organization string) (leave func(), err error) {
	if s == nil || organization == "" {
		return func() {}, nil
	}
	if err := s.wait(ctx, organization, s.request(organization, true)); err != nil {
		return nil, err
	}
	return func() { s.Release(organization) }, nil
}

// Release releases a holder of the key.
func (s *Semaphore) Release(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.keys[key]
	h.held--
	s.free++
	s.forget(key, h)
	s.admit()
}

// request admits a holder at once and returns nil, or returns a channel to wait for.
// first is for a holder that takes turns with the others that wait for the key.
func (s *Semaphore) request(key string, first bool) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.recent != nil {
		s.recent.Note(key)
	}
	h := s.keys[key]
	if h == nil {
		h = new(holders)
		s.keys[key] = h
	}
	// No other waiting key can be admitted, otherwise it would have been.
	if len(h.waiting) == 0 && s.admits(h) {
		s.take(h)
		return nil
	}
	if len(h.waiting) == 0 {
		s.order = append(s.order, h)
	}
	c := make(chan struct{})
	if first {
		h.waiting = slices.Insert(h.waiting, h.first, c)
		h.first++
	} else {
		h.waiting = append(h.waiting, c)
	}
	return c
}

// abandon stops waiting. It returns false if c has already been admitted.
func (s *Semaphore) abandon(key string, c <-chan struct{}) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.keys[key]
	i := slices.IndexFunc(h.waiting, func(w chan struct{}) bool { return w == c })
	if i < 0 {
		return false
	}
	h.remove(i)
	if len(h.waiting) == 0 {
		s.order = slices.DeleteFunc(s.order, func(o *holders) bool { return o == h })
	}
	s.forget(key, h)
	return true
}

// admits reports whether a key may have another holder.
func (s *Semaphore) admits(h *holders) bool {
	switch {
	case s.free == 0 || h.held >= s.each:
		return false
	case s.recent == nil || h.held == 0 || s.n-s.free < s.each-1:
		return true
	default:
		return !s.recent.Several()
	}
}

func (s *Semaphore) take(h *holders) {
	s.free--
	h.held++
}

// admit assigns the free slots to the keys with the fewest holders.
func (s *Semaphore) admit() {
	for s.free > 0 {
		next := -1
		for i, h := range s.order {
			if (next < 0 || h.held < s.order[next].held) && s.admits(h) {
				next = i
			}
		}
		if next < 0 {
			return
		}
		h := s.order[next]
		s.take(h)
		i := h.next()
		close(h.waiting[i])
		h.entered = i < h.first
		h.remove(i)
		s.order = slices.Delete(s.order, next, next+1)
		if len(h.waiting) > 0 {
			s.order = append(s.order, h)
		}
	}
}

func (s *Semaphore) forget(key string, h *holders) {
	if h.held == 0 && len(h.waiting) == 0 {
		delete(s.keys, key)
	}
}
