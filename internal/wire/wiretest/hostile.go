// SPDX-License-Identifier: Apache-2.0

package wiretest

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"assay/internal/wire"
)

// Spread is how a list distributes its bytes over items.
type Spread uint8

// The spreads.
const (
	One  Spread = iota // one item with all bytes
	Few                // eight items
	Root               // about as many items as each item has bytes
	Many               // items of minimum size
	None               // no item
	spreads
)

// Content is the content of attributes.
type Content uint8

// The contents. From Text on, one attribute uses all bytes of its list.
const (
	Same         Content = iota // a short key and value, always the same
	Distinct                    // unique short keys, without a value
	Values                      // one key, unique values
	Secrets                     // a secret under unique keys
	Emails                      // unique e-mail addresses as keys
	Deprecated                  // a deprecated key, unique values
	Misplaced                   // a resource attribute key, unique values
	FewBad                      // nine secrets in rotation
	Empty                       // no bytes
	Integers                    // one key, unique integers
	Maps                        // nine maps in rotation, of 16 maps of 16 keys without a value
	Patterned                   // unique long keys and names of Hostile.Pattern
	PatternedBad                // nine long keys of Hostile.Pattern in rotation, with e-mail addresses
	Text                        // a text of repeated Hostile.Pattern
	SecretText                  // the same under the name of a secret
	LongKey                     // a key of repeated Hostile.Pattern
	Wide                        // an array of empty values
	Pieces                      // a different value, sent in pieces that are empty arrays
	WideLongKey                 // a key of half the bytes, with an array of integers
	WidePatterns                // an array of strings of Hostile.Pattern
	Map                         // a key-value list
	Nested64                    // arrays nested to the maximum depth
	contents
)

// Detail is the content of records or data points besides their attributes.
type Detail uint8

// The details. A detail of another signal than the record's adds nothing.
const (
	NoDetail   Detail = iota
	Events            // of spans
	Links             // of spans
	Exemplars         // of data points
	Bounds            // of histograms
	Counts            // of histograms
	Buckets           // of exponential histograms
	Quantiles         // of summaries
	Metadata          // of metrics
	Unknown           // fields not defined by OTLP
	Body              // the value of a log record, or the name of a span or metric, of Hostile.Content
	EntityRefs        // of resources
	detailCount
)

// Clock is how record timestamps are chosen.
type Clock uint8

// The clocks.
const (
	Now     Clock = iota // at Hostile.At
	Hours                // cycling through the 719 hours before Hostile.At
	Older                // before the window
	NoClock              // no timestamp
	clocks
)

// Hostile describes requests that may cost more work than their size suggests: which lists are long, and their
// contents. Every value describes well-formed requests. The shares are the part of a level's bytes used for its
// attributes, in eighths.
type Hostile struct {
	Name   string
	Signal wire.Signal
	At     time.Time // timestamp of records; default: a fixed time

	Resources, Scopes, Records, Points, Details Spread

	ResourceShare, ScopeShare, RecordShare, DetailShare uint8

	Content Content
	Detail  Detail
	Clock   Clock
	Pattern string // for texts and long keys

	Gap *Gap // instead of all other content of the resources

	Services bool // a different service for each resource
	Ids      bool // spans have trace and span ids
	Metrics  bool // a different name and unit for each metric
}

// HostileFields is the number of bytes that HostileOf reads.
const HostileFields = 18

// HostileOf returns the Hostile that data encodes, one byte per field. Missing bytes are 0.
func HostileOf(data []byte) Hostile {
	next := func(n int) int {
		if len(data) == 0 {
			return 0
		}
		v := int(data[0]) % n
		data = data[1:]
		return v
	}
	return Hostile{
		Signal:    Signals[next(len(Signals))],
		Resources: Spread(next(int(spreads))), Scopes: Spread(next(int(spreads))), Records: Spread(next(int(spreads))),
		Points: Spread(next(int(spreads))), Details: Spread(next(int(spreads))),
		ResourceShare: uint8(next(8)), ScopeShare: uint8(next(8)), RecordShare: uint8(next(9)), DetailShare: uint8(next(9)),
		Content: Content(next(int(contents))), Detail: Detail(next(int(detailCount))), Clock: Clock(next(int(clocks))),
		Pattern:  Patterns[next(len(Patterns))],
		Services: next(2) > 0, Ids: next(2) > 0, Metrics: next(2) > 0,
	}
}

// Patterns are texts whose repetition makes a careless detector scan the same bytes many times.
var Patterns = []string{
	"x", "a@", "a%40b.", "password=", "token=\\\"***", "cookie: ", "cookie:token:cookie:%(***", "token={", "PWD=/", "4111 ", "1234567890123 ", "DE12 ", "eyJ", "sk-a-", "ghp_", "-----BEGIN ",
	"xoxb-", "Bearer a-", "://a:b", "%3A%2F%2F", "%3A", "%3D", "key%3A", "%5D%3A(", "x:@tcp(", "token=arn:", "_", "-", "=", "é@", "\x00", "http.request.header.", "glpat-", "-----BEGIN PRIVATE KEY",
	nested, "A", "AKIA", "\"-sin", "%3A%2f%2f", "\"password\":\"-----BEGIN AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
}

// nested is a text in which each replacement of a secret makes another one.
const nested = "\"token=\xa9"

// Request returns the body of a request of about size bytes.
func (h Hostile) Request(size int) []byte {
	if h.At.IsZero() {
		h.At = time.Unix(1<<30, 0)
	}
	if h.Pattern == "" {
		h.Pattern = "x"
	}
	b := &hostileBuilder{Hostile: &h, at: uint64(h.At.UnixNano())}
	return b.list(h.Resources, size, 1, b.entry)
}

type hostileBuilder struct {
	*Hostile
	at uint64
	n  uint64 // counter for unique values
}

func lenField(dst []byte, number protowire.Number, b []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(dst, number, protowire.BytesType), b)
}

func fixed64Field(dst []byte, number protowire.Number, v uint64) []byte {
	return protowire.AppendFixed64(protowire.AppendTag(dst, number, protowire.Fixed64Type), v)
}

// list returns a repeated field whose items take budget bytes in total.
func (b *hostileBuilder) list(s Spread, budget int, number protowire.Number, item func(budget int) []byte) []byte {
	var out []byte
	each := func(n, budget int) []byte {
		for range n {
			out = lenField(out, number, item(budget))
		}
		return out
	}
	switch s {
	case None:
		return nil
	case One:
		return each(1, budget)
	case Few:
		return each(8, budget/8)
	case Root:
		n := 1 + int(math.Sqrt(float64(budget)))
		return each(n, budget/n)
	default:
		for first := true; first || len(out) < budget; first = false {
			out = lenField(out, number, item(0))
		}
		return out
	}
}

// short returns a unique short text.
func (b *hostileBuilder) short() []byte {
	const digits = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ012345678_"
	b.n++
	var text []byte
	for n := b.n; n > 0; n /= uint64(len(digits)) {
		text = append(text, digits[n%uint64(len(digits))])
	}
	return text
}

func (b *hostileBuilder) pattern(budget int) []byte {
	return []byte(strings.Repeat(b.Pattern, 1+budget/len(b.Pattern)))
}

// attributes returns attributes that take share eighths of budget bytes, at least one, or none if share is 0. It also
// returns the rest of the budget.
func (b *hostileBuilder) attributes(number protowire.Number, share uint8, budget int) (out []byte, left int) {
	if share == 0 {
		return nil, budget
	}
	spend := budget * int(share) / 8
	if b.Content >= Text {
		out = lenField(nil, number, b.attribute(max(0, spend-16)))
	} else {
		out = b.list(Many, spend, number, b.attribute)
	}
	return out, max(0, budget-len(out))
}

// attribute returns a KeyValue.
func (b *hostileBuilder) attribute(budget int) []byte {
	str := func(s []byte) []byte { return lenField(nil, 1, s) }
	kv := func(key, value []byte) []byte { return lenField(lenField(nil, 1, key), 2, value) }
	switch b.Content {
	case Same:
		return kv([]byte("k"), str([]byte("v")))
	case Distinct:
		return lenField(nil, 1, b.short())
	case Values:
		return kv([]byte("k"), str(b.short()))
	case Secrets:
		return kv(append(b.short(), ".password"...), str([]byte("hunter2")))
	case Emails:
		return lenField(nil, 1, append(b.short(), "@a.de"...))
	case Deprecated:
		return kv([]byte("http.url"), str(b.short()))
	case Misplaced:
		return kv([]byte("host.id"), str(b.short()))
	case FewBad:
		b.n++
		return kv([]byte{byte('a' + b.n%9), '.', 'p', 'w', 'd'}, str([]byte("x9-y")))
	case Integers:
		b.n++
		return kv([]byte("k"), protowire.AppendVarint(protowire.AppendTag(nil, 3, protowire.VarintType), b.n))
	case Maps:
		b.n++
		var m []byte
		for range 2 {
			var list []byte
			for i := range byte(16) {
				list = lenField(list, 1, lenField(lenField(nil, 1, []byte{'a' + i}), 2, m))
			}
			m = lenField(nil, 6, list)
		}
		return kv([]byte{byte('a' + b.n%9)}, m)
	case Patterned:
		return kv(b.patterned(b.short()), str([]byte("v")))
	case PatternedBad:
		b.n++
		return kv(b.patterned([]byte{byte('a' + b.n%9)}), str([]byte("a@b.de")))
	case Text:
		return kv([]byte("k"), str(b.pattern(budget)))
	case SecretText:
		return kv([]byte("password"), str(b.pattern(budget)))
	case LongKey:
		return kv(b.pattern(budget), str([]byte("v")))
	case Wide:
		return kv([]byte("k"), lenField(nil, 5, []byte(strings.Repeat("\x0a\x00", 1+budget/2))))
	case Pieces:
		b.n++
		pieces := []byte(strings.Repeat("\x2a\x00", 1+budget/2))
		return kv([]byte("k"), protowire.AppendVarint(protowire.AppendTag(pieces, 31, protowire.VarintType), b.n))
	case WideLongKey:
		return kv(append(b.pattern(budget/2), ".token"...), lenField(nil, 5, []byte(strings.Repeat("\x0a\x02\x18\x01", 1+budget/8))))
	case WidePatterns:
		item := str([]byte(b.Pattern))
		return kv([]byte("k"), lenField(nil, 5, []byte(strings.Repeat(string(lenField(nil, 1, item)), 1+budget/(len(item)+2)))))
	case Map:
		return kv([]byte("k"), lenField(nil, 6, b.list(Many, budget, 1, func(int) []byte { return kv(b.short(), nil) })))
	case Nested64:
		// Fill the innermost level with the budget.
		v := []byte(strings.Repeat("\x0a\x00", 1+budget/2))
		for range wire.MaxDepth - 1 {
			v = lenField(nil, 1, lenField(nil, 5, v))
		}
		return kv([]byte("k"), lenField(nil, 5, v))
	default:
		return nil
	}
}

// value returns an AnyValue with the content of an attribute.
func (b *hostileBuilder) value(budget int) []byte {
	kv := b.attribute(budget)
	for len(kv) > 0 {
		number, _, n := protowire.ConsumeField(kv)
		if number == 2 {
			_, _, tag := protowire.ConsumeTag(kv)
			v, _ := protowire.ConsumeBytes(kv[tag:])
			return v
		}
		kv = kv[n:]
	}
	return nil
}

// patterned returns prefix and a pattern that is as long as evidence may be before it is cut.
func (b *hostileBuilder) patterned(prefix []byte) []byte {
	return append(append(prefix, ' '), b.pattern(1000)...)
}

// name returns a text with the content of an attribute.
func (b *hostileBuilder) name(budget int) []byte {
	switch b.Content {
	case Text, LongKey:
		return b.pattern(budget)
	case Patterned:
		return b.patterned(b.short())
	}
	return b.short()
}

func (b *hostileBuilder) entry(budget int) []byte {
	if b.Gap != nil {
		b.n++
		return b.Gap.message(b.n, budget)
	}
	name := []byte("s")
	if b.Services {
		name = b.short()
	}
	resource := lenField(nil, 1, lenField(lenField(nil, 1, []byte("service.name")), 2, lenField(nil, 1, name)))
	if b.Clock == NoClock && !b.Services {
		resource = nil // the minimum size
	}
	if b.Detail == EntityRefs {
		resource = append(resource, b.list(b.Details, budget/2, 3, func(n int) []byte {
			return []byte(strings.Repeat("\x1a\x00", n/2))
		})...)
	}
	attributes, left := b.attributes(1, b.ResourceShare, budget)
	resource = append(resource, attributes...)
	var out []byte
	if len(resource) > 0 {
		out = lenField(nil, 1, resource)
	}
	return append(out, b.list(b.Scopes, left, 2, b.scoped)...)
}

func (b *hostileBuilder) scoped(budget int) []byte {
	attributes, left := b.attributes(3, b.ScopeShare, budget)
	var out []byte
	if len(attributes) > 0 {
		out = lenField(out, 1, attributes)
	}
	return append(out, b.list(b.Records, left, 2, b.record)...)
}

func (b *hostileBuilder) record(budget int) []byte {
	switch b.Signal {
	case wire.Traces:
		return b.span(budget)
	case wire.Metrics:
		return b.metric(budget)
	default:
		return b.log(budget)
	}
}

// time returns the time field of a record, or nil without a clock.
func (b *hostileBuilder) time(number protowire.Number) []byte {
	at := b.at
	switch b.Clock {
	case Hours:
		b.n++
		at -= b.n % 719 * uint64(time.Hour)
	case Older:
		at -= uint64(10_000 * time.Hour)
	case NoClock:
		return nil
	}
	return fixed64Field(nil, number, at)
}

// unknown returns fields with a number that OTLP does not define.
func (b *hostileBuilder) unknown(budget int) []byte {
	return []byte(strings.Repeat("\xb8\x3e\x01", 1+budget/3)) // field 999
}

func (b *hostileBuilder) span(budget int) []byte {
	out := b.time(8)
	if b.Ids {
		id := binary.BigEndian.AppendUint64(make([]byte, 8), b.n+1)
		b.n++
		out = lenField(lenField(out, 1, id), 2, id[8:])
	}
	attributes, left := b.attributes(9, b.RecordShare, budget)
	out = append(out, attributes...)
	switch b.Detail {
	case Events:
		out = append(out, b.list(b.Details, left, 11, func(n int) []byte {
			a, _ := b.attributes(3, b.DetailShare, n)
			return a
		})...)
	case Links:
		out = append(out, b.list(b.Details, left, 13, func(n int) []byte {
			a, _ := b.attributes(4, b.DetailShare, n)
			return a
		})...)
	case Body:
		out = lenField(out, 5, b.name(left))
	case Unknown:
		out = append(out, b.unknown(left)...)
	}
	return out
}

func (b *hostileBuilder) log(budget int) []byte {
	out := b.time(1)
	attributes, left := b.attributes(6, b.RecordShare, budget)
	out = append(out, attributes...)
	switch b.Detail {
	case Body:
		out = lenField(out, 5, b.value(left))
	case Unknown:
		out = append(out, b.unknown(left)...)
	}
	return out
}

func (b *hostileBuilder) metric(budget int) []byte {
	name := []byte("m")
	var out []byte
	if b.Metrics {
		name = b.short()
		out = lenField(out, 3, name)
	}
	if b.Detail == Body {
		out = lenField(lenField(nil, 2, b.short()), 3, []byte("ms"))
		name = b.name(budget / 2)
	}
	out = lenField(out, 1, name)
	if b.Detail == Metadata {
		metadata, left := b.attributes(12, max(1, b.DetailShare), budget)
		out, budget = append(out, metadata...), left
	}
	data, attributes, at := protowire.Number(5), protowire.Number(7), protowire.Number(3) // a gauge
	switch b.Detail {
	case Bounds, Counts:
		data, attributes = 9, 9
	case Buckets:
		data, attributes = 10, 1
	case Quantiles:
		data = 11
	}
	points := b.list(b.Points, budget, 1, func(n int) []byte {
		point := b.time(at)
		list, left := b.attributes(attributes, b.RecordShare, n)
		if b.Clock == NoClock && len(list) == 0 && b.Detail == NoDetail {
			return nil
		}
		point = append(point, list...)
		switch b.Detail {
		case Exemplars:
			point = append(point, b.list(b.Details, left, 5, func(n int) []byte {
				a, _ := b.attributes(7, b.DetailShare, n)
				return a
			})...)
		case Bounds:
			var bounds []byte
			b.n++
			for i := range 1 + left/8 {
				bounds = protowire.AppendFixed64(bounds, math.Float64bits(float64(i)+float64(b.n)))
			}
			point = lenField(point, 7, bounds)
		case Counts: // not packed
			point = append(point, []byte(strings.Repeat("\x31\x00\x00\x00\x00\x00\x00\x00\x00", 1+left/9))...)
		case Buckets:
			point = lenField(point, 8, lenField(nil, 2, []byte(strings.Repeat("\x00", 1+left))))
		case Quantiles:
			point = append(point, []byte(strings.Repeat("\x32\x00", 1+left/2))...)
		case Unknown:
			point = append(point, b.unknown(left)...)
		}
		return point
	})
	return lenField(out, data, points)
}

// Shapes returns hostile requests of each kind known to be expensive.
func Shapes() []Hostile {
	const (
		traces, metrics, logs = wire.Traces, wire.Metrics, wire.Logs
		all, half             = 8, 4 // shares
	)
	shapes := []Hostile{
		{Name: "empty resources", Signal: logs, Resources: Many, Scopes: None, Clock: NoClock},
		{Name: "resources with an empty record", Signal: logs, Resources: Many, Clock: NoClock},
		{Name: "distinct services", Signal: logs, Resources: Many, Services: true},
		{Name: "distinct services of metrics", Signal: metrics, Resources: Many, Services: true, Metrics: true, RecordShare: all, Content: Values},
		{Name: "distinct resources", Signal: logs, Resources: Many, ResourceShare: all, Content: Values},
		{Name: "resources x scopes", Signal: traces, Resources: Root, Scopes: Many, Records: None, Clock: NoClock},
		{Name: "entity references", Signal: traces, Detail: EntityRefs, Details: Many},
		{Name: "distinct resources of maps", Signal: logs, Resources: Root, Services: true, ResourceShare: all, Content: Maps},
		{Name: "resource attributes", Signal: logs, ResourceShare: all, Content: Distinct},
		{Name: "bad resource attributes x records", Signal: logs, Records: Many, ResourceShare: half, Content: Secrets},
		{Name: "empty scopes", Signal: logs, Scopes: Many, Records: None, Clock: NoClock},
		{Name: "distinct scopes x records", Signal: logs, Scopes: Many, ScopeShare: all, Content: Distinct},
		{Name: "bad scope attributes x records", Signal: logs, Records: Many, ScopeShare: half, Content: Secrets},
		{Name: "bad scope attributes x records of all hours", Signal: traces, Records: Many, ScopeShare: half, Content: Emails, Clock: Hours},
		{Name: "bad scope attributes x metrics", Signal: metrics, Records: Many, ScopeShare: half, Content: Deprecated},
		{Name: "empty log records", Signal: logs, Records: Many, Clock: NoClock},
		{Name: "empty spans", Signal: traces, Records: Many, Clock: NoClock},
		{Name: "spans of distinct names and traces", Signal: traces, Records: Many, Ids: true, Detail: Body},
		{Name: "spans of distinct names that take long to clean", Signal: traces, Records: Many, Ids: true, Detail: Body, Content: Patterned, Pattern: nested},
		{Name: "metrics of distinct names that take long to clean", Signal: metrics, Records: Many, Detail: Body, Content: Patterned, Pattern: nested},
		{Name: "resources of distinct keys that take long to clean", Signal: logs, Resources: Many, ResourceShare: all, Content: Patterned, Pattern: nested},
		{Name: "bad resource attributes with keys that take long to clean", Signal: logs, Resources: Root, Services: true, ResourceShare: all, Content: PatternedBad, Pattern: nested},
		{Name: "attributes x records", Signal: logs, Records: Root, RecordShare: all, Content: Distinct},
		{Name: "empty attributes", Signal: logs, RecordShare: all, Content: Empty},
		{Name: "the same attribute", Signal: logs, Records: Root, RecordShare: all, Content: Same},
		{Name: "distinct values", Signal: traces, Records: Root, RecordShare: all, Content: Values},
		{Name: "distinct bad attributes", Signal: logs, Records: Many, RecordShare: all, Content: Secrets},
		{Name: "nine bad attributes in rotation in all hours", Signal: logs, Records: Many, RecordShare: all, Content: FewBad, Clock: Hours},
		{Name: "deprecated keys in all hours", Signal: traces, Records: Many, RecordShare: all, Content: Deprecated, Clock: Hours},
		{Name: "records of all hours", Signal: logs, Records: Many, Clock: Hours},
		{Name: "records of all hours of many services", Signal: logs, Resources: Root, Records: Many, Services: true, Clock: Hours},
		{Name: "events", Signal: traces, Detail: Events, Details: Many},
		{Name: "events x attributes", Signal: traces, Detail: Events, Details: Root, DetailShare: all, Content: Distinct},
		{Name: "links x attributes", Signal: traces, Detail: Links, Details: Many, DetailShare: all, Content: Secrets},
		{Name: "empty metrics", Signal: metrics, Records: Many, Points: None},
		{Name: "distinct metrics and units", Signal: metrics, Records: Many, Metrics: true},
		{Name: "empty data points", Signal: metrics, Points: Many, Clock: NoClock},
		{Name: "data points x distinct keys", Signal: metrics, Points: Many, RecordShare: all, Content: Distinct},
		{Name: "data points x distinct keys in all hours", Signal: metrics, Points: Many, RecordShare: all, Content: Distinct, Clock: Hours},
		{Name: "data points x distinct values", Signal: metrics, Points: Many, RecordShare: all, Content: Values},
		{Name: "data points x attributes", Signal: metrics, Points: Root, RecordShare: all, Content: Distinct},
		{Name: "exemplars", Signal: metrics, Detail: Exemplars, Details: Many, DetailShare: all, Content: Values},
		{Name: "distinct bounds", Signal: metrics, Points: Many, Detail: Bounds},
		{Name: "wide bounds", Signal: metrics, Points: Root, Detail: Bounds},
		{Name: "bucket counts", Signal: metrics, Detail: Counts},
		{Name: "exponential buckets", Signal: metrics, Detail: Buckets},
		{Name: "quantiles", Signal: metrics, Detail: Quantiles},
		{Name: "metadata", Signal: metrics, Detail: Metadata, DetailShare: all, Content: Distinct},
		{Name: "unknown fields", Signal: traces, Detail: Unknown},
		{Name: "array of empty values", Signal: logs, RecordShare: all, Content: Wide},
		{Name: "array of empty values on a resource", Signal: logs, ResourceShare: all, Content: Wide},
		{Name: "array in pieces", Signal: logs, RecordShare: all, Content: Pieces},
		{Name: "array in pieces on resources", Signal: logs, Resources: Root, Services: true, ResourceShare: all, Content: Pieces},
		{Name: "body in pieces", Signal: logs, Records: Root, Detail: Body, Content: Pieces},
		{Name: "metrics with names of separators", Signal: metrics, Records: Root, Detail: Body, Content: Text, Pattern: "_"},
		{Name: "array of integers under a long key", Signal: logs, RecordShare: all, Content: WideLongKey, Pattern: "_"},
		{Name: "array of integers under a long key on a resource", Signal: logs, ResourceShare: all, Content: WideLongKey, Pattern: "_"},
		{Name: "array of texts", Signal: logs, Detail: Body, Content: WidePatterns, Pattern: "--password"},
		{Name: "map", Signal: logs, RecordShare: all, Content: Map},
		{Name: "map on a resource", Signal: logs, ResourceShare: all, Content: Map},
		{Name: "nested values", Signal: logs, RecordShare: all, Content: Nested64},
	}
	for _, pattern := range Patterns {
		shapes = append(shapes,
			Hostile{Name: fmt.Sprintf("text of %q", pattern), Signal: logs, Detail: Body, Content: Text, Pattern: pattern},
			Hostile{Name: fmt.Sprintf("secret of %q", pattern), Signal: logs, RecordShare: all, Content: SecretText, Pattern: pattern})
	}
	return append(shapes, gaps()...)
}

// Document describes OTLP/JSON requests that may cost more work to parse than their size suggests: an item repeated
// within brackets.
type Document struct {
	Name              string
	Signal            wire.Signal
	Open, Item, Close string
	Separator         string // default: a comma
}

// Request returns a request of about size bytes.
func (d Document) Request(size int) []byte {
	separator := d.Separator
	if separator == "" {
		separator = ","
	}
	doc := make([]byte, 0, size+len(d.Open)+len(d.Item)+len(d.Close))
	doc = append(doc, d.Open...)
	for first := true; first || len(doc) < size; first = false {
		if !first && separator != "-" {
			doc = append(doc, separator...)
		}
		doc = append(doc, d.Item...)
	}
	return append(doc, d.Close...)
}

// Documents returns hostile documents of each kind known to be expensive.
func Documents() []Document {
	const (
		records, endRecords = `{"resourceLogs":[{"scopeLogs":[{"logRecords":[`, `]}]}]}`
		point, endPoint     = `{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"histogram":{"dataPoints":[{`, `}]}}]}]}]}`
		bounds, counts      = `"explicitBounds":[`, `"bucketCounts":[`
		body, endBody       = records + `{"body":`, `}` + endRecords
		array, endArray     = `{"arrayValue":{"values":[`, `]}}`
	)
	number := func(name, item string) Document {
		return Document{Name: name, Signal: wire.Metrics, Open: point + bounds, Item: item, Close: "]" + endPoint}
	}
	inBody := func(name, open, item, end string) Document {
		return Document{Name: name, Signal: wire.Logs, Open: body + open, Item: item, Close: end + endBody}
	}
	text := func(name, item string) Document {
		d := inBody(name, `{"stringValue":"`, item, `"}`)
		d.Separator = "-"
		return d
	}
	return []Document{
		{Name: "empty records", Signal: wire.Logs, Open: records, Item: `{}`, Close: endRecords},
		{Name: "null records", Signal: wire.Logs, Open: records, Item: `null`, Close: endRecords},
		{Name: "white space", Signal: wire.Logs, Open: records + `{}`, Item: " \n\t ", Separator: " ", Close: endRecords},
		number("short numbers", "0"),
		number("numbers of all digits", "1.7976931348623157e308"),
		number("numbers halfway between two doubles", "4503599627370496.5"),
		number("long numbers halfway between two doubles", "9007199254740992.9999999999999999"),
		number("subnormal numbers", "1e-320"),
		number("long subnormal numbers", "2.4703282292062327208e-324"),
		number("numbers with exponents", "1e23"),
		number("long numbers", "1."+strings.Repeat("9", 100_000)),
		number("numbers as texts", `"0.5"`),
		{Name: "integers", Signal: wire.Metrics, Open: point + counts, Item: "18446744073709551615", Close: "]" + endPoint},
		{Name: "integers with exponents", Signal: wire.Metrics, Open: point + counts, Item: "0.0000000001e10", Close: "]" + endPoint},
		{Name: "long zeros", Signal: wire.Metrics, Open: point + counts, Item: "0." + strings.Repeat("0", 100_000) + "e1000000", Close: "]" + endPoint},
		{Name: "enums", Signal: wire.Logs, Open: records, Item: `{"severityNumber":"SEVERITY_NUMBER_UNSPECIFIED"}`, Close: endRecords},
		text("escapes", `\n`),
		text("long escapes", `\ud83d\ude00`),
		text("halves of surrogates", `\ud83d`),
		inBody("bytes", `{"bytesValue":"`+strings.Repeat("A", 4)+`","arrayValue":{"values":[`, `{"bytesValue":"__8="}`, `]}}`),
		inBody("unknown fields", `{`, `"a":1`, `}`),
		inBody("unknown arrays", `{`, `"a":[[[[[[[[[[]]]]]]]]]]`, `}`),
		inBody("unknown arrays of maximum depth", `{`, `"a":`+strings.Repeat("[", 10_000)+strings.Repeat("]", 10_000), `}`),
		inBody("duplicate keys", `{`, `"kvlistValue":{}`, `}`),
		inBody("keys with escapes", `{`, `"\u0061rrayValue":{}`, `}`),
		inBody("values around values", strings.Repeat(array, 63), `{"stringValue":"`+strings.Repeat("x", 1000)+`"}`, strings.Repeat(endArray, 63)),
		inBody("many values around values", `{"arrayValue":{"values":[`, strings.Repeat(array, 60)+`{"stringValue":"`+strings.Repeat("x", 100)+`"}`+strings.Repeat(endArray, 60), `]}}`),
		{Name: "trace ids", Signal: wire.Logs, Open: records, Item: `{"traceId":"00112233445566778899aabbccddeeff"}`, Close: endRecords},
	}
}
