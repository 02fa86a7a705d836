// SPDX-License-Identifier: Apache-2.0

package auth

import "container/list"

// cache is an LRU cache. It is not safe for concurrent use.
type cache[K comparable, V any] struct {
	capacity int
	order    *list.List // of *item[K, V], most recently used first
	items    map[K]*list.Element
}

type item[K comparable, V any] struct {
	key   K
	value *V
}

func newCache[K comparable, V any](capacity int) *cache[K, V] {
	return &cache[K, V]{capacity: capacity, order: list.New(), items: make(map[K]*list.Element)}
}

// get returns the value of a key, or nil.
func (c *cache[K, V]) get(key K) *V {
	el, ok := c.items[key]
	if !ok {
		return nil
	}
	c.order.MoveToFront(el)
	return el.Value.(*item[K, V]).value
}

// put stores a value. If the cache is full, put evicts the least recently used value.
func (c *cache[K, V]) put(key K, value *V) {
	if el, ok := c.items[key]; ok {
		el.Value.(*item[K, V]).value = value
		c.order.MoveToFront(el)
		return
	}
	if c.order.Len() >= c.capacity {
		c.evict()
	}
	c.items[key] = c.order.PushFront(&item[K, V]{key, value})
}

// evict removes the least recently used value. There must be one.
func (c *cache[K, V]) evict() { c.remove(c.order.Back().Value.(*item[K, V]).key) }

func (c *cache[K, V]) remove(key K) {
	if el, ok := c.items[key]; ok {
		c.order.Remove(el)
		delete(c.items, key)
	}
}

func (c *cache[K, V]) len() int { return c.order.Len() }
