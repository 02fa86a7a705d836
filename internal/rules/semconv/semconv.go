// SPDX-License-Identifier: Apache-2.0

package semconv

import (
	"bytes"
	"iter"
	"maps"
	"slices"
	"strings"
)

// Version is the version of the semantic conventions the registry was taken from.
const Version = "1.44.0"

// Level is a set of the kinds of telemetry on which the conventions place an
// attribute. The empty set means that no convention places it.
type Level uint8

// The kinds of telemetry. Log stands for log records and events.
const (
	Resource Level = 1 << iota
	Span
	Log
	Metric
)

// Attribute is one entry of the registry.
type Attribute struct {
	// Key is the attribute's name; for a template, the part before the
	// variable rest, without the dot between them.
	Key string
	// Levels is the set of kinds of telemetry on which the conventions place the attribute.
	Levels Level
	// Deprecated is set when the registry marks the attribute as renamed or obsolete. It is
	// not set for an attribute that moved to another registry, as those under gen_ai.
	Deprecated bool
	// Replaced is set when the registry deprecates the attribute without one successor, as http.host.
	Replaced bool
	// Successor is the key that replaces a renamed attribute, empty for none. For a
	// template, it is the part before the variable rest.
	Successor string
	// Template is set when Key is a prefix, as in http.request.header.<name>.
	Template bool
}

// maxKeyLen is the length of the longest key, in bytes; words are the keys without a dot.
var maxKeyLen, words = func() (n int, words []string) {
	for key := range attributes {
		n = max(n, len(key))
		if !strings.Contains(key, ".") {
			words = append(words, key)
		}
	}
	return n, words
}()

// Lookup returns the attribute with exactly this key. Deprecated attributes
// are found; templates are not, as their bare prefix is no attribute key.
func Lookup(key []byte) (Attribute, bool) {
	if len(key) > maxKeyLen || bytes.IndexByte(key, '.') < 0 && !slices.Contains(words, string(key)) { // avoids hashing it
		return Attribute{}, false
	}
	a, ok := attributes[string(key)]
	return a, ok
}

// templateLens has the lengths of the templates' prefixes, up to the longest.
var templateLens = func() (lens []bool) {
	for prefix := range templates {
		lens = append(lens, make([]bool, max(len(prefix)+1-len(lens), 0))...)
		lens[len(prefix)] = true
	}
	return lens
}()

// LookupTemplate returns the template of a key and the rest of the key, as a slice of
// key. A template matches a key that consists of its prefix, a dot and a non-empty rest.
// The longest matching prefix wins.
func LookupTemplate(key []byte) (a Attribute, rest []byte, ok bool) {
	for i := min(len(key)-2, len(templateLens)-1); i > 0; i-- {
		if key[i] != '.' || !templateLens[i] {
			continue
		}
		if a, ok = templates[string(key[:i])]; ok {
			return a, key[i+1:], true
		}
	}
	return Attribute{}, nil, false
}

// MisplacedOnResource reports whether a resource must not have the attribute: the
// conventions place it, but not on resources (rule RES-004).
func (a Attribute) MisplacedOnResource() bool { return a.Levels != 0 && a.Levels&Resource == 0 }

// MisplacedOnRecord reports whether a span or a log record must not have the attribute:
// the conventions place it on resources only (rule RES-004).
func (a Attribute) MisplacedOnRecord() bool { return a.Levels == Resource }

// Find returns the attribute with this key, or else the template that matches it, or else
// the zero Attribute.
func Find(key []byte) Attribute {
	if a, ok := Lookup(key); ok {
		return a
	}
	a, _, _ := LookupTemplate(key)
	return a
}

// All returns the attributes of the registry, without templates, in no order.
func All() iter.Seq[Attribute] { return maps.Values(attributes) }

// Successor returns the key that replaces the deprecated key, and "" if the registry names
// none.
func Successor(key string) string {
	if a, ok := Lookup([]byte(key)); ok {
		return a.Successor
	}
	if a, rest, ok := LookupTemplate([]byte(key)); ok && a.Successor != "" {
		return a.Successor + "." + string(rest)
	}
	return ""
}
