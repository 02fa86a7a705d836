// SPDX-License-Identifier: Apache-2.0

package fair

import (
	"context"
	"slices"
	"sync"
)

// Semaphore admits a number of holders at a time. Of the keys that wait, the one with the
// fewest holders is admitted next, so that a key within its share waits for at most one holder
// to end and for other keys within theirs. Keys with as many holders take turns. The callers
// bound the number of those that wait. It may be used concurrently.
type Semaphore struct {
	each int // holders of one key

	mu   sync.Mutex
	free int
	keys map[string]*holders // those that hold something or wait
	turn []*holders          // that wait, the next one first
}

// holders are those of one key.
type holders struct {
	held    int
	waiting []chan struct{} // closed when admitted
}

// NewSemaphore returns a Semaphore for n holders, of one key at most each. Both are
// at least 1.
func NewSemaphore(n, each int) *Semaphore {
	return &Semaphore{each: max(each, 1), free: max(n, 1), keys: make(map[string]*holders)}
}

// Acquire waits until a holder of the key is admitted, or returns the cause of the
// end of ctx. Release ends what it returned nil for.
func (s *Semaphore) Acquire(ctx context.Context, key string) error {
	admitted := s.request(key)
	if admitted == nil {
		return nil
	}
	select {
	case <-admitted:
		return nil
	case <-ctx.Done():
	}
	if !s.abandon(key, admitted) {
		s.Release(key) // was admitted meanwhile
	}
	return context.Cause(ctx)
}

// Release ends a holder of the key.
func (s *Semaphore) Release(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.keys[key]
	h.held--
	s.free++
	s.forget(key, h)
	s.admit()
}

// request admits a holder at once and returns nil, or returns what to wait for.
func (s *Semaphore) request(key string) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.keys[key]
	if h == nil {
		h = new(holders)
		s.keys[key] = h
	}
	// No waiting key could be admitted, or it would have been.
	if s.free > 0 && h.held < s.each {
		s.free--
		h.held++
		return nil
	}
	if len(h.waiting) == 0 {
		s.turn = append(s.turn, h)
	}
	c := make(chan struct{})
	h.waiting = append(h.waiting, c)
	return c
}

// abandon stops waiting. It returns false when c has been admitted.
func (s *Semaphore) abandon(key string, c <-chan struct{}) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.keys[key]
	i := slices.IndexFunc(h.waiting, func(w chan struct{}) bool { return w == c })
	if i < 0 {
		return false
	}
	h.waiting = slices.Delete(h.waiting, i, i+1)
	if len(h.waiting) == 0 {
		s.turn = slices.DeleteFunc(s.turn, func(o *holders) bool { return o == h })
	}
	s.forget(key, h)
	return true
}

// admit gives what is free to the keys with the fewest holders.
func (s *Semaphore) admit() {
	for s.free > 0 {
		next := -1
		for i, h := range s.turn {
			if h.held < s.each && (next < 0 || h.held < s.turn[next].held) {
				next = i
			}
		}
		if next < 0 {
			return
		}
		h := s.turn[next]
		s.free--
		h.held++
		close(h.waiting[0])
		h.waiting = slices.Delete(h.waiting, 0, 1)
		s.turn = slices.Delete(s.turn, next, next+1)
		if len(h.waiting) > 0 {
			s.turn = append(s.turn, h)
		}
	}
}

func (s *Semaphore) forget(key string, h *holders) {
	if h.held == 0 && len(h.waiting) == 0 {
		delete(s.keys, key)
	}
}
