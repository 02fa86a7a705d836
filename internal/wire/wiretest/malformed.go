// SPDX-License-Identifier: Apache-2.0

package wiretest

import (
	"fmt"
	"iter"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"assay/internal/wire"
)

// Damaged yields damaged forms of body, each with a name: truncated at each byte, each bit flipped, each byte
// doubled. Some forms are well-formed by chance. The yielded slice is reused for the next form.
func Damaged(body []byte) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for i := range body {
			if !yield(fmt.Sprintf("cut at %d", i), body[:i:i]) {
				return
			}
		}
		buf := slices.Clone(body)
		for i := range buf {
			for bit := range 8 {
				buf[i] ^= 1 << bit
				if !yield(fmt.Sprintf("bit %d of byte %d flipped", bit, i), buf) {
					return
				}
				buf[i] ^= 1 << bit
			}
		}
		for i := range body {
			buf = append(buf[:0], body[:i+1]...)
			buf = append(buf, body[i:]...)
			if !yield(fmt.Sprintf("byte %d doubled", i), buf) {
				return
			}
		}
	}
}

// Nested returns an encoded KeyValue whose value is a string inside depth arrays. If mixed, every other level is a
// key-value list.
func Nested(depth int, mixed bool) []byte {
	// Build from the end, because each level is prefixed with a length.
	total := make([]byte, 0, 64+depth*24)
	prepend := func(number protowire.Number, n int) int {
		var head []byte
		head = protowire.AppendTag(head, number, protowire.BytesType)
		head = protowire.AppendVarint(head, uint64(n))
		slices.Reverse(head)
		total = append(total, head...)
		return n + len(head)
	}
	total = append(total, 'x')
	n := prepend(1, 1) // string_value
	for i := range depth {
		if mixed && i%2 == 1 {
			n = prepend(2, n) // KeyValue.value
			n = prepend(1, n) // KeyValueList.values
			n = prepend(6, n) // kvlist_value
			continue
		}
		n = prepend(1, n) // ArrayValue.values
		n = prepend(5, n) // array_value
	}
	prepend(2, n)
	total = append(total, 'k')
	prepend(1, 1)
	slices.Reverse(total)
	return total
}

// InResource returns a request of any signal with one resource that has the given encoded attribute.
func InResource(keyValue []byte) []byte {
	resource := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), keyValue)
	entry := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), resource)
	return protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), entry)
}

// InRecord returns a request with one record (span, metric or log record) that consists of the given encoded fields.
func InRecord(fields []byte) []byte {
	scope := protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), fields)
	entry := protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), scope)
	return protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), entry)
}

// Signals are the three signals, for tests that range over them.
var Signals = []wire.Signal{wire.Traces, wire.Metrics, wire.Logs}
