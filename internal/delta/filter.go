// SPDX-License-Identifier: Apache-2.0

package delta

import (
	"sync/atomic"

	"assay/internal/rules/catalog"
)

// Filter holds hashes of recently committed idempotent facts (claims, evidence items, distinct values), so that facts
// that repeat in every request are not sent to the store again. It evicts at random. An evicted fact is committed
// again, without effect, so an organization that fills the filter costs others only this work. Add facts only after their
// transaction has committed: otherwise a failed commit would lose them.
//
// All organizations share the filter. A hash must cover everything that identifies the fact, including organization,
// service and bucket, and must be keyed by a secret. If the hash of a new fact collides with one in the filter, the
// fact is lost for its bucket. With 64-bit hashes, some bits of which select the slot, that affects one of 2^42 facts
// in a filter of 2^21. A Filter is safe for concurrent use and has a fixed size.
type Filter struct {
	slots []atomic.Uint64
	mask  uint64
}

// NewFilter returns a filter for 2^bits hashes of 8 bytes each.
func NewFilter(bits int) *Filter {
	return &Filter{slots: make([]atomic.Uint64, 1<<bits), mask: 1<<bits - 2}
}

// Has reports whether the filter contains the hash. A nil filter is empty.
func (f *Filter) Has(hash uint64) bool {
	if f == nil {
		return false
	}
	i := hash & f.mask // pairs of slots share one cache line
	return f.slots[i].Load() == hash || f.slots[i+1].Load() == hash
}

// Add adds a hash. It does nothing on a nil filter.
func (f *Filter) Add(hash uint64) {
	if f == nil {
		return
	}
	i := hash & f.mask
	if old := f.slots[i].Load(); old != hash {
		f.slots[i].Store(hash)
		f.slots[i+1].Store(old)
	}
}

// exampleSlot is the minimum interval between two examples of a rule for a service with traffic.
const exampleSlot = 15_000_000_000 // nanoseconds

// AddItem adds an item to s, a service of d, unless the filter contains it for this bucket. serviceHash is the
// ServiceHash of s.
func (d *Delta) AddItem(f *Filter, s *Service, serviceHash uint64, it Item, b Bucket) {
	h := itemHash(serviceHash, it, b)
	if f.Has(h) {
		return
	}
	s.AddItem(it, b)
	d.remember(f, h)
}

// AddExample adds an example to s, a service of d, unless the filter contains one from the same exampleSlot.
func (d *Delta) AddExample(f *Filter, s *Service, serviceHash uint64, r catalog.Rule, e Example) {
	h := exampleHash(serviceHash, r, e.TimeUnixNano)
	if f.Has(h) {
		return
	}
	escaped := e // allocate only when it is stored
	s.AddExample(r, &escaped)
	d.remember(f, h)
}

// HasItem reports whether AddItem would add nothing.
func (f *Filter) HasItem(serviceHash uint64, it Item, b Bucket) bool {
	return f.Has(itemHash(serviceHash, it, b))
}

// HasExample reports whether AddExample would add nothing for an example at a time.
func (f *Filter) HasExample(serviceHash uint64, r catalog.Rule, t uint64) bool {
	return f.Has(exampleHash(serviceHash, r, t))
}

// itemHash is faster than LocalHash(it): requests repeat most evidence.
func itemHash(serviceHash uint64, it Item, b Bucket) uint64 {
	return Mix(Mix(serviceHash, uint64(b)), Mix(HashString(it.Text), uint64(it.Rule)<<8|uint64(it.List)))
}

func exampleHash(serviceHash uint64, r catalog.Rule, t uint64) uint64 {
	return Mix(Mix(serviceHash, uint64(r)), t/exampleSlot)
}

func (d *Delta) remember(f *Filter, hash uint64) {
	if f != nil {
		d.Remember = append(d.Remember, hash)
	}
}
