// SPDX-License-Identifier: Apache-2.0

package fair

import (
	"sync"
	"time"
)

// sharedFor is how long two keys count as active concurrently. Many organizations send once a minute.
const sharedFor = 2 * time.Minute

// Recent reports whether several keys have been active lately. While only one is, it may use all of a resource. It is
// safe for concurrent use.
type Recent struct {
	now func() time.Time

	mu      sync.Mutex
	key     string    // the last one
	changed time.Time // when key changed last; zero: never
}

// NewRecent returns a Recent without any activity. now is time.Now, except in tests.
func NewRecent(now func() time.Time) *Recent { return &Recent{now: now} }

// Note records that a key is active. The empty key is ignored.
func (r *Recent) Note(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if key == "" || key == r.key {
		return
	}
	if r.key != "" {
		r.changed = r.now()
	}
	r.key = key
}

// Several reports whether more than one key has been active in the last two minutes.
func (r *Recent) Several() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.changed.IsZero() && r.now().Sub(r.changed) < sharedFor
}
