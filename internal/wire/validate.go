// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"fmt"
)

// MaxDepth is the maximum nesting of arrays and key-value lists in one value. A scalar is not a level: an attribute
// may hold 64 nested arrays, not 65.
const MaxDepth = 64

// Validate checks a whole request of the given signal, including all embedded messages. It returns an *Error for the
// first fault in byte order. Its depth and time are bounded for any input.
func Validate(signal Signal, body []byte) error {
	return new(walk).request(signal, body)
}

// ValidateContext is Validate. When ctx ends, it stops and returns the context's cause.
func ValidateContext(ctx context.Context, signal Signal, body []byte) error {
	w := walk{spend: func(uint64) error {
		if ctx.Err() == nil {
			return nil
		}
		return fmt.Errorf("validate request: %w", context.Cause(ctx))
	}}
	return w.request(signal, body)
}

// ValidateLarge is Validate for only the messages of 256 KiB and more: those that may take long to decode, if they
// consist of many fields. It passes the steps to decode their fields to spend in small amounts, and returns its error.
// Ordinary requests have few fields in such messages.
func ValidateLarge(signal Signal, body []byte, spend func(steps uint64) error) error {
	w := walk{least: largeMessage, spend: spend}
	return w.request(signal, body)
}

// ValidateKeyValue checks one attribute, including nested values. It returns an *Error for the first fault. It passes
// the steps to decode the fields to spend, except for a short text or an integer, and returns its error.
func ValidateKeyValue(m Message, spend func(steps uint64) error) error {
	// Fast path: most attributes are a short key and a short string or an integer, which cannot be malformed.
	if b := m.Bytes; len(b) >= 2 && b[0] == 1<<3|typeLen && b[1] < 0x80 && len(b) >= 4+int(b[1]) {
		if v := b[2+int(b[1]):]; v[0] == 2<<3|typeLen && v[1] < 0x80 && int(v[1]) == len(v)-2 && (shortString(v[2:]) || integer(v[2:])) {
			return nil
		}
	}
	return value(keyValueSchema, m, spend)
}

// ValidateValue checks one AnyValue, such as the body of a log record, including nested values. It returns an *Error
// for the first fault. It passes the steps to decode the fields to spend, except for a short text, and returns its
// error.
func ValidateValue(m Message, spend func(steps uint64) error) error {
	if shortString(m.Bytes) {
		return nil
	}
	return value(anyValueSchema, m, spend)
}

func value(s *schema, m Message, spend func(steps uint64) error) error {
	w := walk{spend: spend}
	if err := w.message(s, m, 0); err != nil {
		return err
	}
	return w.pay()
}

// integer reports whether b is an AnyValue that consists of one integer.
func integer(b []byte) bool {
	if len(b) < 2 || b[0] != 3<<3|typeVarint {
		return false
	}
	_, end := uvarint(b, 1)
	return end == len(b)
}

// shortString reports whether b is an AnyValue that consists of one string shorter than 128 bytes.
func shortString(b []byte) bool {
	return len(b) >= 2 && b[0] == 1<<3|typeLen && b[1] < 0x80 && int(b[1]) == len(b)-2
}

// schema describes a message type for validation.
type schema struct {
	names  names
	nested bool // an ArrayValue or KeyValueList: one level of a value's depth
	fields [17]rule
}

// rule describes the expected encoding of a known field. The zero rule is an unknown field.
type rule struct {
	kind    kind
	message *schema // for kindMessage
	single  bool    // for a message that is no list item
	merged  uint8   // for a message that Decode merges: its number among those of the schema, from 1
}

// maxMerged is the number of messages that Decode merges, per schema.
const maxMerged = 2

type kind uint8

const (
	kindUnknown kind = iota
	kindVarint
	kindFixed32
	kindFixed64
	kindBytes
	kindMessage
	kindTraceID
	kindSpanID
	kindFixed64s // packed or not
	kindVarints  // packed or not
)

var (
	varint  = rule{kind: kindVarint}
	fixed32 = rule{kind: kindFixed32}
	fixed64 = rule{kind: kindFixed64}
	text    = rule{kind: kindBytes}
	traceID = rule{kind: kindTraceID}
	spanID  = rule{kind: kindSpanID}
)

func message(s *schema) rule {
	return rule{kind: kindMessage, message: s}
}

// single returns the rule for a message that is no list item. If it is sent several times, each one is decoded.
func single(s *schema) rule {
	return rule{kind: kindMessage, message: s, single: true}
}

// merged returns the rule for the nth message of a schema that Decode merges.
func merged(n uint8, s *schema) rule {
	return rule{kind: kindMessage, message: s, single: true, merged: n}
}

var (
	anyValueSchema = &schema{names: anyValueNames}
	keyValueSchema = &schema{names: keyValueNames}
	resourceSchema = &schema{names: resourceNames}
	scopeSchema    = &schema{names: scopeNames}
	exemplarSchema = &schema{names: exemplarNames}
	tracesSchema   = &schema{names: requestNames}
	metricsSchema  = &schema{names: requestNames}
	logsSchema     = &schema{names: requestNames}
)

// init links the schemas. A package-level initializer cannot, because values contain themselves.
func init() {
	attribute := message(keyValueSchema)
	keyValueSchema.fields = [17]rule{1: text, 2: single(anyValueSchema), 3: varint}
	anyValueSchema.fields = [17]rule{
		1: text, 2: varint, 3: varint, 4: fixed64,
		5: single(&schema{names: arrayNames, nested: true, fields: [17]rule{1: message(anyValueSchema)}}),
		6: single(&schema{names: kvlistNames, nested: true, fields: [17]rule{1: attribute}}),
		7: text, 8: varint,
	}
	resourceSchema.fields = [17]rule{
		1: attribute, 2: varint,
		3: message(&schema{names: entityNames, fields: [17]rule{1: text, 2: text, 3: text, 4: text}}),
	}
	scopeSchema.fields = [17]rule{1: text, 2: text, 3: attribute, 4: varint}
	exemplarSchema.fields = [17]rule{2: fixed64, 3: fixed64, 4: spanID, 5: traceID, 6: fixed64, 7: attribute}

	tracesSchema.fields[1] = entries(&schema{names: spanNames, fields: [17]rule{
		1: traceID, 2: spanID, 3: text, 4: spanID, 5: text, 6: varint, 7: fixed64, 8: fixed64, 9: attribute, 10: varint,
		11: message(&schema{names: eventNames, fields: [17]rule{1: fixed64, 2: text, 3: attribute, 4: varint}}), 12: varint,
		13: message(&schema{names: linkNames, fields: [17]rule{1: traceID, 2: spanID, 3: text, 4: attribute, 5: varint, 6: fixed32}}),
		14: varint,
		15: single(&schema{names: statusNames, fields: [17]rule{2: text, 3: varint}}), 16: fixed32,
	}})
	logsSchema.fields[1] = entries(&schema{names: logNames, fields: [17]rule{
		1: fixed64, 2: varint, 3: text, 5: merged(1, anyValueSchema), 6: attribute, 7: varint, 8: fixed32, 9: traceID,
		10: spanID, 11: fixed64, 12: text,
	}})
	metricsSchema.fields[1] = entries(metricSchema())
}

// entries returns the rule for resource entries with records of the given type.
func entries(record *schema) rule {
	scoped := &schema{names: scopedNames, fields: [17]rule{1: merged(1, scopeSchema), 2: message(record), 3: text}}
	return message(&schema{names: entryNames, fields: [17]rule{1: merged(1, resourceSchema), 2: message(scoped), 3: text}})
}

func metricSchema() *schema {
	attribute, exemplar := message(keyValueSchema), message(exemplarSchema)
	number := message(&schema{names: numberPointNames, fields: [17]rule{
		2: fixed64, 3: fixed64, 4: fixed64, 5: exemplar, 6: fixed64, 7: attribute, 8: varint,
	}})
	histogram := message(&schema{names: histogramPointNames, fields: [17]rule{
		2: fixed64, 3: fixed64, 4: fixed64, 5: fixed64, 6: {kind: kindFixed64s}, 7: {kind: kindFixed64s}, 8: exemplar,
		9: attribute, 10: varint, 11: fixed64, 12: fixed64,
	}})
	buckets := &schema{names: bucketNames, fields: [17]rule{1: varint, 2: {kind: kindVarints}}}
	exponential := message(&schema{names: exponentialPointNames, fields: [17]rule{
		1: attribute, 2: fixed64, 3: fixed64, 4: fixed64, 5: fixed64, 6: varint, 7: fixed64, 8: merged(1, buckets), 9: merged(2, buckets),
		10: varint, 11: exemplar, 12: fixed64, 13: fixed64, 14: fixed64,
	}})
	summary := message(&schema{names: summaryPointNames, fields: [17]rule{
		2: fixed64, 3: fixed64, 4: fixed64, 5: fixed64,
		6: message(&schema{names: quantileNames, fields: [17]rule{1: fixed64, 2: fixed64}}),
		7: attribute, 8: varint,
	}})
	return &schema{names: metricNames, fields: [17]rule{
		1: text, 2: text, 3: text,
		5:  single(&schema{names: gaugeNames, fields: [17]rule{1: number}}),
		7:  single(&schema{names: sumNames, fields: [17]rule{1: number, 2: varint, 3: varint}}),
		9:  single(&schema{names: histogramNames, fields: [17]rule{1: histogram, 2: varint}}),
		10: single(&schema{names: exponentialHistogramNames, fields: [17]rule{1: exponential, 2: varint}}),
		11: single(&schema{names: summaryNames, fields: [17]rule{1: summary}}),
		12: attribute,
	}}
}

// Decoding passes over the fields of a message without a pause. The time to pass over a field is counted in units.
const (
	unitsPerItem   = 1 // a message that is a list item
	unitsPerSingle = 8 // a message that is none
	unitsPerField  = 4 // of any other type, known or not; plus one for each byte of packed integers, and as much for each byte of groups
	unitsPerStep   = 4
	unitsPerSpend  = 1 << 14
	// maxUnits limits a message to four million list items or a million fields of other types. Real ones have some thousands.
	maxUnits = 4 << 20

	tooManyFields = "message has too many fields"
)

// walk is the validation of one request or value.
type walk struct {
	least int                      // smaller messages are not checked
	spend func(steps uint64) error // may be nil
	units int                      // not yet spent
}

// request checks a request.
func (w *walk) request(signal Signal, body []byte) error {
	if len(body) > MaxBody {
		return &Error{Field: requestNames[0], Reason: "request is larger than 2 GiB"}
	}
	m := Message{Bytes: body}
	switch signal {
	case Traces:
		return w.message(tracesSchema, m, 0)
	case Metrics:
		return w.message(metricsSchema, m, 0)
	case Logs:
		return w.message(logsSchema, m, 0)
	}
	return &Error{Field: signal.String(), Reason: "not a signal"}
}

// message checks m. depth is the number of arrays and key-value lists of one value around m. Every occurrence of a
// field is checked, even if a later one replaces it.
func (w *walk) message(s *schema, m Message, depth int) error {
	b := m.Bytes
	if len(b) < w.least {
		return nil
	}
	if s.nested {
		if depth++; depth > MaxDepth {
			return &Error{Offset: m.Offset, Field: s.names[0], Reason: fmt.Sprintf("value is nested more than %d deep", MaxDepth)}
		}
	}
	var sizes [maxMerged + 1]int // of the merged messages so far, plus 1
	units, spent, next := 0, 0, unitsPerSpend
	for i := 0; i < len(b); {
		tag, v, end := field(b, i)
		var r rule
		if number := tag >> 3; number < uint64(len(s.fields)) {
			r = s.fields[number]
		}
		ok := false
		units += unitsPerField
		switch wire := tag & 7; r.kind {
		case kindVarint:
			ok = wire == typeVarint
		case kindFixed32:
			ok = wire == typeFixed32
		case kindFixed64:
			ok = wire == typeFixed64
		case kindBytes:
			ok = wire == typeLen
		case kindMessage:
			if ok = wire == typeLen; ok {
				if units += unitsPerItem - unitsPerField; r.single {
					units += unitsPerSingle - unitsPerItem
				}
				if r.merged > 0 {
					size, n := sizes[r.merged], end-int(v)
					if size > 0 && size-1+n >= largeMessage {
						return m.reject(i, int(tag>>3), s.names, inPieces)
					}
					sizes[r.merged] = max(size, 1) + n
				}
				if err := w.message(r.message, m.sub(v, end), depth); err != nil {
					return err
				}
			}
		case kindTraceID:
			if ok = wire == typeLen; ok {
				if n := end - int(v); n != 0 && n != traceIDSize {
					return m.reject(i, int(tag>>3), s.names, badTraceID)
				}
			}
		case kindSpanID:
			if ok = wire == typeLen; ok {
				if n := end - int(v); n != 0 && n != spanIDSize {
					return m.reject(i, int(tag>>3), s.names, badSpanID)
				}
			}
		case kindFixed64s, kindVarints:
			single := uint8(typeFixed64)
			if r.kind == kindVarints {
				single = typeVarint
				units += end - i
			}
			if ok = wire == uint64(single) || wire == typeLen; ok && wire == typeLen {
				if _, whole := countPacked(b[v:end], single); !whole {
					return m.reject(i, int(tag>>3), s.names, badPacked)
				}
			}
		}
		if !ok {
			if err := m.fail(i, tag, s.names); err != nil {
				return err
			}
			if tag&7 == typeStartGroup {
				units += unitsPerStep * (end - i)
			}
		}
		if units >= next {
			if units > maxUnits {
				return &Error{Offset: m.Offset, Field: s.names[0], Reason: tooManyFields}
			}
			w.units += units - spent
			spent, next = units, units+unitsPerSpend
			if err := w.pay(); err != nil {
				return err
			}
		}
		i = end
	}
	if w.units += units - spent; w.units >= unitsPerSpend {
		return w.pay()
	}
	return nil
}

// pay passes the units to spend.
func (w *walk) pay() error {
	units := w.units
	w.units = 0
	if w.spend == nil {
		return nil
	}
	return w.spend(uint64(units) / unitsPerStep)
}
