// SPDX-License-Identifier: Apache-2.0

// Package wire provides typed, read-only views over the bytes of OTLP export requests. It does not unmarshal them.
//
// Each view is a plain struct with a Decode method. Decode walks one message once, sets the scalar fields and records
// where the repeated fields are. The caller decodes only the embedded messages that it needs:
//
//	entries, err := wire.Request(body)
//	for m, ok := entries.Next(); ok; m, ok = entries.Next() {
//		var entry wire.ResourceEntry
//		err := entry.Decode(m)
//		...
//	}
//
// # Memory
//
// Decode copies and allocates nothing. Byte slices alias the request, with their capacity cut to their length, and
// are valid as long as the request is. The one exception is a singular message that was sent in several pieces:
// decoding joins the pieces. Do not modify a request while views of it are in use. Views are not synchronized; any
// number of goroutines may read one request, each with its own views. Decode overwrites its receiver completely, so a
// variable can be reused for all records.
//
// # Validation
//
// Decode checks its own level: tags, lengths, the wire types of known fields, the size of ids, and packed numbers. It
// does not check the embedded messages that it returns; their own Decode does. Three small messages are part of their
// parent's view and are checked with it: Span.status, the data of a metric down to the list of its data points, and
// the value of a key-value pair down to the list of its items. Validate checks a whole request, ValidateKeyValue one
// attribute, and ValidateValue one value such as a log body. All three limit the nesting of values to MaxDepth. If
// Validate accepts a request, no Decode fails on it.
//
// # Protobuf semantics
//
// Field order does not matter. The last occurrence of a scalar or of a oneof member wins. The occurrences of a
// singular message are merged. Packed and unpacked numbers may be mixed. Unknown fields are skipped, including
// balanced groups. Strings are not checked for UTF-8. An id of all zeros counts as absent, because OTLP defines it as
// invalid. Errors are of type *Error and report the byte offset of the fault in the request.
package wire
