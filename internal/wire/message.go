// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"fmt"
)

// Message is an embedded message that has not been decoded. The zero value is an empty message.
type Message struct {
	// Bytes is the encoded message. It aliases the request, with its capacity cut to its length, or is a copy of
	// several pieces.
	Bytes []byte
	// Offset is the offset of Bytes in the request. For a message joined from several pieces it is the offset of the
	// first piece.
	Offset int
}

// Error reports malformed input.
type Error struct {
	// Offset is the byte offset in the request. In a message joined from several pieces it counts from the start of
	// the first piece.
	Offset int
	// Field is the message and field name from the protobuf definition, such as "Span.attributes". An unknown field
	// has its number instead of a name. If the number cannot be read, Field is the message name only.
	Field string
	// Reason describes the fault. It contains no request content except lengths.
	Reason string
}

// Error returns the offset, field and reason in one line.
func (e *Error) Error() string {
	return fmt.Sprintf("byte %d: %s: %s", e.Offset, e.Field, e.Reason)
}

// names holds the field names of one message type by field number, and the name of the type at index 0.
type names []string

// fail returns the error for the field at m.Bytes[i], which the caller's switch did not accept. It returns nil for a
// well-formed unknown field.
func (m Message) fail(i int, tag uint64, n names) error {
	if tag != 0 && (tag>>3 >= uint64(len(n)) || n[tag>>3] == "") {
		return nil
	}
	at, name, reason := explain(m.Bytes, i, n)
	return &Error{Offset: m.Offset + at, Field: n.field(name), Reason: reason}
}

// reject returns the error for the known field at m.Bytes[i].
func (m Message) reject(i, number int, n names, reason string) error {
	return &Error{Offset: m.Offset + i, Field: n.field(n[number]), Reason: reason}
}

func (n names) field(name string) string {
	if name == "" {
		return n[0]
	}
	return n[0] + "." + name
}

// sub returns the embedded message m.Bytes[lo:hi].
func (m Message) sub(lo uint64, hi int) Message {
	return Message{Bytes: m.Bytes[lo:hi:hi], Offset: m.Offset + int(lo)}
}

// largeMessage is the size from which a message may take long to decode, see ValidateLarge.
const largeMessage = 256 << 10

// merge adds a further occurrence to the singular message m, which is zero for none. Protobuf merges several
// occurrences, and the merge of encoded messages is their concatenation. No encoder writes several, so merge returns
// false instead of making a large message of them.
func (m *Message) merge(next Message) bool {
	if m.Bytes == nil {
		*m = next
		return true
	}
	if len(m.Bytes)+len(next.Bytes) >= largeMessage {
		return false
	}
	m.Bytes = append(m.Bytes, next.Bytes...) // a copy: no capacity is left in the request
	return true
}

// run records the occurrences of one message field during a walk.
type run struct {
	first, last int // from the tag of the first occurrence to the end of the last
	count       int
}

// add records the occurrence at b[i:end].
func (r run) add(i, end int) run {
	if r.count == 0 {
		r.first = i
	}
	r.last = end
	r.count++
	return r
}

// extend records the occurrence at b[i:end] and, in a tight loop, all occurrences that follow it directly. It returns
// the end of the last one.
func (r run) extend(b []byte, i, end int) (run, int) {
	if r.count == 0 {
		r.first = i
	}
	r.count++
	tag := b[i]
	if tag < 0x80 {
		for len(b)-end >= 2 && b[end] == tag {
			n := int(b[end+1])
			next := end + 2 + n
			if n >= 0x80 {
				if len(b)-end < 3 || b[end+2] >= 0x80 {
					break
				}
				next = end + 3 + n&0x7f + int(b[end+2])<<7
			}
			if next > len(b) {
				break
			}
			end = next
			r.count++
		}
	}
	r.last = end
	return r, end
}

// repeated returns the view of the run as field number of m.
func (r run) repeated(m Message, number uint8) Repeated {
	if r.count == 0 {
		return Repeated{}
	}
	return Repeated{
		rest:   m.Bytes[r.first:r.last:r.last],
		offset: uint32(m.Offset + r.first),
		count:  uint32(r.count),
		tag:    number<<3 | typeLen,
	}
}

// Repeated iterates over the occurrences of one repeated field in the order they were sent. Decode has checked the
// framing, so Next cannot fail. The zero value is empty. A copy iterates independently, starting at the position of
// the original.
type Repeated struct {
	rest   []byte // from the tag of the next occurrence to the end of the last one
	offset uint32 // of rest in the request, which is at most MaxBody
	passed uint32 // see Passed
	count  uint32
	tag    uint8 // repeated message fields in OTLP have numbers below 16
}

// Len returns the number of remaining occurrences.
func (r Repeated) Len() int {
	return int(r.count)
}

// Passed returns the number of other fields that Next has passed between the occurrences. Encoders write the
// occurrences of a field one after another, but need not. A group counts for each byte.
func (r Repeated) Passed() uint64 {
	return uint64(r.passed)
}

// Next returns the next occurrence, or false at the end. For a repeated string the message is the string.
func (r *Repeated) Next() (Message, bool) {
	b := r.rest
	if len(b) < 2 { // no occurrence is shorter
		return Message{}, false
	}
	if end := 2 + int(b[1]); b[0] == r.tag && b[1] < 0x80 && end <= len(b) {
		m := Message{Bytes: b[2:end:end], Offset: int(r.offset) + 2}
		r.rest = b[end:]
		r.offset += uint32(end)
		r.count--
		return m, true
	}
	return r.nextSlow()
}

// nextSlow is the slow path of Next: long messages, and other fields in between.
func (r *Repeated) nextSlow() (Message, bool) {
	for i := 0; i < len(r.rest); {
		tag, v, end := field(r.rest, i)
		if tag == 0 {
			break // the request was modified after Decode
		}
		if tag == uint64(r.tag) {
			m := Message{Bytes: r.rest[v:end:end], Offset: int(r.offset) + int(v)}
			r.rest = r.rest[end:]
			r.offset += uint32(end)
			r.count--
			return m, true
		}
		r.passed++
		if tag&7 == typeStartGroup {
			r.passed += uint32(end - i)
		}
		i = end
	}
	*r = Repeated{passed: r.passed}
	return Message{}, false
}
