// SPDX-License-Identifier: Apache-2.0

// Package instrumentation finds the uses of telemetry in a source file: the spans it starts and ends, the attributes
// it sets, the instruments it creates, the log records it writes.
//
// It knows the API of OpenTelemetry and of common loggers in each language, one file a language. Checks read its
// facts and do not know APIs. Only calls that the file's imports or definitions tie to OpenTelemetry count: spans,
// tracers and counters of other libraries are not OpenTelemetry's.
package instrumentation
