// SPDX-License-Identifier: Apache-2.0

package merge

import (
	"slices"

	"assay/internal/delta"
)

// MaxClaimValues limits the values that a store keeps for one key and service, to the newest
// ones. Two are enough for a conflict; the others are evidence. The values of LOG-001 are
// days, so the calendar limits them.
const MaxClaimValues = delta.MaxItems

// ClaimCounts counts the claims of one rule in an organization by service. Services are
// identified by their rows. The caller passes the number of keys of each service to Keys,
// and the claims of keys that may be contested to Claim, key by key. A service has at
// least as many keys as contested ones.
type ClaimCounts struct {
	bySvc map[int64]*delta.ClaimCount
	texts int // bytes of texts in bySvc

	// The key of the current claims.
	key      delta.Hash128
	text     string
	values   map[int64]string // texts by value
	services map[int64]bool
}

// maxClaimTexts limits the texts of contested keys and their values, in bytes. Services of one
// organization share it. Beyond it, keys are counted and not shown as evidence.
const maxClaimTexts = 8 << 20

// Keys sets the number of keys that a service claims.
func (c *ClaimCounts) Keys(svc int64, n uint64) {
	if n > 0 {
		c.of(svc).Claims = n
	}
}

// of returns the count of a service.
func (c *ClaimCounts) of(svc int64) *delta.ClaimCount {
	count := c.bySvc[svc]
	if count == nil {
		if c.bySvc == nil {
			c.bySvc = make(map[int64]*delta.ClaimCount)
		}
		count = new(delta.ClaimCount)
		c.bySvc[svc] = count
	}
	return count
}

// Claim adds a value that a service claims for a key. The claims of a key must be
// consecutive.
func (c *ClaimCounts) Claim(key delta.Hash128, value, svc int64, keyText, valueText string) {
	if c.services == nil || c.key != key {
		c.settle()
		c.key, c.text, c.values, c.services = key, keyText, make(map[int64]string), make(map[int64]bool)
	}
	c.values[value] = valueText
	c.services[svc] = true
}

// settle counts the current key.
func (c *ClaimCounts) settle() {
	if len(c.values) < 2 {
		return
	}
	// The texts are the same for all services of the key. Both may be many, so each service
	// is given only those that it may keep.
	shown, size := c.texts < maxClaimTexts, len(c.text)
	var texts []string
	if shown {
		for _, text := range c.values {
			texts, _ = smallest(texts, text)
		}
	}
	for _, text := range texts {
		size += len(text)
	}
	kept := false
	for svc := range c.services {
		count := c.of(svc)
		count.Contested++
		if !shown {
			continue
		}
		var added bool
		count.Keys, added = smallest(count.Keys, c.text)
		kept = kept || added
		for _, text := range texts {
			count.Values, added = smallest(count.Values, text)
			kept = kept || added
		}
	}
	if kept {
		c.texts += size
	}
}

// BySvc returns the counts of the services with claims. The caller adds no more claims
// afterwards.
func (c *ClaimCounts) BySvc() map[int64]*delta.ClaimCount {
	c.settle()
	for _, count := range c.bySvc {
		count.Claims = max(count.Claims, count.Contested)
		count.Keys, count.Values = textsOf(count.Keys), textsOf(count.Values)
	}
	return c.bySvc
}

// smallest adds a text to a sorted list that keeps its delta.MaxItems smallest texts. It
// reports whether the list has changed.
func smallest(list []string, text string) ([]string, bool) {
	i, found := slices.BinarySearch(list, text)
	if found || i >= delta.MaxItems {
		return list, false
	}
	if len(list) == delta.MaxItems {
		list = list[:delta.MaxItems-1]
	}
	return slices.Insert(list, i, text), true
}

// textsOf returns nil for a list of one empty text: rules without texts leave them empty.
// Next to other texts, an empty text has a meaning, such as no unit.
func textsOf(list []string) []string {
	if len(list) == 1 && list[0] == "" {
		return nil
	}
	return list
}
