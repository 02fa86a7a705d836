// SPDX-License-Identifier: Apache-2.0

// Package otlpjson transcodes OTLP/JSON requests into the protobuf bytes that package wire reads, so the rest of the
// server handles one format.
//
// The transcoder streams. pdata's JSON reader does not fit: it builds the whole request in memory to marshal it
// again, reports errors without an offset in the request, allows values to nest 10,000 levels deep, and silently
// stops at an empty object key or after the first value.
//
// The transcoder accepts what OTLP/JSON and the protobuf JSON mapping allow, and both forms where they differ: field
// names in lowerCamelCase or snake_case, enums as numbers or names, integers as numbers or strings, ids in upper-case
// or lower-case hex, bytes in standard or URL base64 with or without padding. Unknown fields are skipped, null means
// absent, and duplicate keys follow the protobuf rule for duplicate fields.
package otlpjson
