// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"container/list"
	"time"

	"assay"
)

// entry is what a lookup found.
type entry struct {
	id      string
	key     *assay.APIKey // nil: there is no such key
	asOf    time.Time     // when the lookup began
	touched time.Time     // newest last use that was handed to the writer
}

// cache keeps the most recently used entries. It is not safe for concurrent use.
type cache struct {
	capacity int
	order    *list.List // of *entry, most recently used first
	byID     map[string]*list.Element
}

func newCache(capacity int) *cache {
	return &cache{capacity: capacity, order: list.New(), byID: make(map[string]*list.Element)}
}

// get returns the entry of an id, whatever its age, or nil.
func (c *cache) get(id string) *entry {
	el, ok := c.byID[id]
	if !ok {
		return nil
	}
	c.order.MoveToFront(el)
	return el.Value.(*entry)
}

func (c *cache) put(e *entry) {
	if el, ok := c.byID[e.id]; ok {
		el.Value = e
		c.order.MoveToFront(el)
		return
	}
	if c.order.Len() >= c.capacity {
		c.remove(c.order.Back().Value.(*entry).id)
	}
	c.byID[e.id] = c.order.PushFront(e)
}

func (c *cache) remove(id string) {
	if el, ok := c.byID[id]; ok {
		c.order.Remove(el)
		delete(c.byID, id)
	}
}

func (c *cache) len() int { return c.order.Len() }
