// SPDX-License-Identifier: Apache-2.0

// Package otlpjson turns OTLP/JSON requests into the protobuf bytes that
// package wire reads, so that there is one path behind the edge.
//
// It is a streaming transcoder of its own: pdata's JSON reader builds the whole
// request in memory only for it to be marshalled again, reports errors without an offset in the
// request, lets values nest 10,000 deep, and stops in silence at an empty object key or
// after the first value.
//
// It reads what OTLP/JSON and the protobuf JSON mapping allow, and is lenient where they
// differ: field names in lowerCamelCase or snake_case, enums as numbers or names, integers
// as numbers or strings, ids in hex of either case, bytes in standard or URL base64 with or without padding. Unknown fields are
// skipped, null is absent, duplicate keys follow protobuf's rule for duplicate fields.
package otlpjson
