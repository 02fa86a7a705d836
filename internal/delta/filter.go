// SPDX-License-Identifier: Apache-2.0

package delta

import (
	"sync/atomic"

	"assay/internal/rules/catalog"
)

// Filter remembers hashes of idempotent facts (claims, evidence items, distinct
// values) that were committed lately, so that the ones repeated with every
// request are not sent to the store again. It forgets at random: a forgotten fact
// is committed once more and changes nothing. Only facts whose transaction has
// committed may be added, else a failed commit would lose them for good.
//
// All organizations share it. A hash must cover everything that identifies the fact,
// its organization, service and bucket included, and must be keyed by a secret. A fact
// whose hash is in the filter already, for another one, is lost in its bucket: with
// hashes of 64 bits, of which some choose the slot, that happens to one of 2^42 facts
// in a filter of 2^21. A Filter may be used concurrently; its size is fixed.
type Filter struct {
	slots []atomic.Uint64
	mask  uint64
}

// NewFilter returns a filter of 2^bits hashes, 8 bytes each.
func NewFilter(bits int) *Filter {
	return &Filter{slots: make([]atomic.Uint64, 1<<bits), mask: 1<<bits - 2}
}

// Has tells whether the hash was added and not forgotten. A nil filter has none.
func (f *Filter) Has(hash uint64) bool {
	if f == nil {
		return false
	}
	i := hash & f.mask // pairs of slots share one cache line
	return f.slots[i].Load() == hash || f.slots[i+1].Load() == hash
}

// Add adds a hash. On a nil filter it does nothing.
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

// exampleSlot is how often a rule's example is renewed for a service while it is
// live; insights show evidence that is at most a minute old.
const exampleSlot = 15_000_000_000 // nanoseconds

// AddItem adds an item to s, a service of d, unless the filter knows it in this
// bucket. serviceHash
// is of ServiceHash.
func (d *Delta) AddItem(f *Filter, s *Service, serviceHash uint64, it Item, b Bucket) {
	h := Mix(Mix(serviceHash, uint64(b)), LocalHash(it))
	if f.Has(h) {
		return
	}
	s.AddItem(it, b)
	d.remember(f, h)
}

// AddExample adds an example to s, a service of d, unless the filter knows one of
// about the same time.
func (d *Delta) AddExample(f *Filter, s *Service, serviceHash uint64, r catalog.Rule, e Example) {
	h := Mix(Mix(serviceHash, uint64(r)), e.TimeUnixNano/exampleSlot)
	if f.Has(h) {
		return
	}
	kept := e // only now does it have to outlive the call
	s.AddExample(r, &kept)
	d.remember(f, h)
}

func (d *Delta) remember(f *Filter, hash uint64) {
	if f != nil {
		d.Remember = append(d.Remember, hash)
	}
}
