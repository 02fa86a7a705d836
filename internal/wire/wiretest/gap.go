// SPDX-License-Identifier: Apache-2.0

package wiretest

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"assay/internal/wire"
)

// Gap is a message whose lists have two items each, with many other fields between the two.
type Gap struct {
	path  []protowire.Number // of the message in a resource entry
	items string             // one of each list
	after string             // further fields of the message around it
	field string             // of the gap
}

// message returns the content of the nth resource entry, of about size bytes.
func (g *Gap) message(n uint64, size int) []byte {
	m := []byte(g.items + strings.Repeat(g.field, 1+size/len(g.field)) + g.items)
	m = protowire.AppendVarint(protowire.AppendTag(m, 31, protowire.VarintType), n) // no two are the same
	for i := len(g.path) - 1; i >= 0; i-- {
		if m = lenField(nil, g.path[i], m); i == len(g.path)-1 {
			m = append(m, g.after...)
		}
	}
	return m
}

// gaps returns requests with gaps in each message that has lists, in one message and in many.
func gaps() (shapes []Hostile) {
	const (
		pair   = "\x08\x0a\x01k\x12\x03\x0a\x01v" // a short attribute, with its length
		secret = "\x0d\x0a\x03pwd\x12\x06\x0a\x04x9-y"
		double = "\x00\x00\x00\x00\x00\x00\x00\x00"
	)
	for _, place := range []struct {
		name   string
		signal wire.Signal
		path   []protowire.Number
		items  string
		after  string
	}{
		{"a resource entry", wire.Logs, nil, "\x0a\x00\x12\x02\x12\x00", ""},
		{"a resource", wire.Logs, []protowire.Number{1}, "\x0a" + secret + "\x1a\x00", "\x12\x02\x12\x00"},
		{"an entity", wire.Logs, []protowire.Number{1, 3}, "\x1a\x01a\x22\x01a", ""},
		{"a scope entry", wire.Logs, []protowire.Number{2}, "\x0a\x03\x0a\x01s\x12\x00", ""},
		{"a scope", wire.Logs, []protowire.Number{2, 1}, "\x1a" + secret, "\x12\x00"},
		{"a log record", wire.Logs, []protowire.Number{2, 2}, "\x32" + pair + "\x2a\x03\x0a\x01b", ""},
		{"a log body", wire.Logs, []protowire.Number{2, 2, 5}, "\x0a\x0fbob@example.com", ""},
		{"an attribute", wire.Logs, []protowire.Number{2, 2, 6}, secret[1:], ""},
		{"the value of an attribute", wire.Logs, []protowire.Number{2, 2, 6, 2}, "\x0a\x0fbob@example.com", "\x0a\x01k"},
		{"an array", wire.Logs, []protowire.Number{2, 2, 5, 5}, "\x0a\x00", ""},
		{"a map", wire.Logs, []protowire.Number{2, 2, 5, 6}, "\x0a" + pair, ""},
		{"a span", wire.Traces, []protowire.Number{2, 2}, "\x4a" + pair + "\x5a\x00\x6a\x00", ""},
		{"an event", wire.Traces, []protowire.Number{2, 2, 11}, "\x1a" + pair, ""},
		{"a link", wire.Traces, []protowire.Number{2, 2, 13}, "\x22" + pair, ""},
		{"a metric", wire.Metrics, []protowire.Number{2, 2}, "\x62" + pair + "\x2a\x02\x0a\x00", ""},
		{"a gauge", wire.Metrics, []protowire.Number{2, 2, 5}, "\x0a\x00", ""},
		{"a number point", wire.Metrics, []protowire.Number{2, 2, 5, 1}, "\x3a" + pair + "\x2a\x00", ""},
		{"an exemplar", wire.Metrics, []protowire.Number{2, 2, 5, 1, 5}, "\x3a" + pair, ""},
		{"a histogram point", wire.Metrics, []protowire.Number{2, 2, 9, 1}, "\x4a" + pair + "\x42\x00\x31" + double + "\x39" + double, ""},
		{"an exponential point", wire.Metrics, []protowire.Number{2, 2, 10, 1}, "\x0a" + pair + "\x5a\x00\x42\x02\x08\x01\x4a\x02\x08\x01", ""},
		{"exponential buckets", wire.Metrics, []protowire.Number{2, 2, 10, 1, 8}, "\x10\x01", ""},
		{"a summary point", wire.Metrics, []protowire.Number{2, 2, 11, 1}, "\x3a" + pair + "\x32\x00", ""},
	} {
		fields := []struct{ name, field string }{{"groups", "\x7b\x7c"}, {"numbers", "\x78\x01"}, {"empty fields", "\x7a\x00"}}
		if place.name == "a span" { // which has a field 15
			fields[0].field, fields[1].field = "\x8b\x01\x8c\x01", "\x30\x01"
		}
		for i, f := range fields {
			h := Hostile{
				Name: fmt.Sprintf("%s in %s", f.name, place.name), Signal: place.signal,
				Gap: &Gap{place.path, place.items, place.after, f.field},
			}
			shapes = append(shapes, h)
			if i < 2 {
				h.Name, h.Resources = fmt.Sprintf("many x %s in %s", f.name, place.name), Root
				shapes = append(shapes, h)
			}
		}
	}
	return shapes
}
