// SPDX-License-Identifier: Apache-2.0

// Package wire gives typed, read-only views over the bytes of OTLP export
// requests: what a request says, without unmarshalling it.
//
// Each view is a plain struct with a Decode method. Decode walks one message
// once, fills the scalars and remembers where the repeated fields lie, so a
// caller descends only where it has a question:
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
// Nothing is copied and nothing is allocated: byte slices alias the request,
// with their capacity cut to their length, and live exactly as long as it
// does. The one exception is a singular message that was sent in several
// pieces, which are joined when it is decoded. A request must not be changed
// while views of it are in use. Views are not synchronized; any number of
// goroutines may read one request, each with views of its own. Decode
// overwrites its receiver wholly, so one variable serves for all records.
//
// # What is checked
//
// A Decode checks everything on its own level: tags, lengths, the wire types of
// known fields, the size of ids, and packed numbers. It does not look into the
// embedded messages that it hands out; those are checked by their own
// Decode. Three small messages are part of their parent's view and
// are checked with it: Span.status, the data of a metric down to the list of
// its data points, and the value of a key-value pair down to the list of its items.
// Validate checks a whole request, ValidateKeyValue and ValidateValue one
// attribute or log body, all with MaxDepth as the limit on nested values.
// A request that Validate accepts makes no Decode fail.
//
// # Choices
//
// Field order does not matter. The last occurrence of a scalar, and of a member
// of a oneof, wins; the occurrences of a singular message are merged; packed and
// unpacked numbers may be mixed. Unknown fields are skipped, balanced groups
// included. Strings are not checked for UTF-8. Ids that consist of zeros are
// absent, as OTLP defines them to be invalid. An error is always of type *Error and
// says at which byte of the request the input stopped making sense.
package wire
