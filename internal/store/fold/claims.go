// SPDX-License-Identifier: Apache-2.0

package fold

import (
	"slices"

	"assay/internal/delta"
)

// ClaimCounts sums up the claims of one rule in an organization by service, which
// are named by their rows. It is told first how many keys each service claims, and
// then who claims what of the keys that may be contested, key by key.
type ClaimCounts struct {
	bySvc map[int64]*delta.ClaimCount

	// The key that claims are told of.
	key      delta.Hash128
	text     string
	values   map[int64]string // texts by value
	services map[int64]bool
}

// Keys tells how many keys a service claims.
func (c *ClaimCounts) Keys(svc int64, n uint64) {
	if n == 0 {
		return
	}
	if c.bySvc == nil {
		c.bySvc = make(map[int64]*delta.ClaimCount)
	}
	c.bySvc[svc] = &delta.ClaimCount{Claims: n}
}

// Claim tells that a service gives a key a value. A key's claims come one after the
// other.
func (c *ClaimCounts) Claim(key delta.Hash128, value, svc int64, keyText, valueText string) {
	if c.services == nil || c.key != key {
		c.settle()
		c.key, c.text, c.values, c.services = key, keyText, make(map[int64]string), make(map[int64]bool)
	}
	c.values[value] = valueText
	c.services[svc] = true
}

// settle counts the key that claims were told of.
func (c *ClaimCounts) settle() {
	if len(c.values) < 2 {
		return
	}
	for svc := range c.services {
		count := c.bySvc[svc]
		if count == nil {
			continue
		}
		count.Contested++
		count.Keys = smallest(count.Keys, c.text)
		for _, text := range c.values {
			count.Values = smallest(count.Values, text)
		}
	}
}

// BySvc returns the counts of the services that claim something. Nothing can be told
// afterwards.
func (c *ClaimCounts) BySvc() map[int64]*delta.ClaimCount {
	c.settle()
	for _, count := range c.bySvc {
		count.Keys, count.Values = textsOf(count.Keys), textsOf(count.Values)
	}
	return c.bySvc
}

// smallest adds a text to a sorted list that keeps its delta.MaxItems smallest.
func smallest(list []string, text string) []string {
	i, found := slices.BinarySearch(list, text)
	if found || i >= delta.MaxItems {
		return list
	}
	list = slices.Insert(list, i, text)
	return list[:min(len(list), delta.MaxItems)]
}

// textsOf returns nil for a list that says nothing: rules without texts leave
// them empty. Beside others an empty text tells something, such as no unit.
func textsOf(list []string) []string {
	if len(list) == 1 && list[0] == "" {
		return nil
	}
	return list
}
