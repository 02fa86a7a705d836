// SPDX-License-Identifier: Apache-2.0

// Package instrumentation finds the uses of telemetry in a source file: the spans that it starts and ends, the
// attributes that it sets, the instruments that it creates, and the log records that it writes.
//
// It supports the API of OpenTelemetry and common loggers in each language, with one file per language, so that checks
// do not depend on APIs. It ignores spans, tracers and counters of other libraries: the imports or definitions of the
// file must connect a call to OpenTelemetry.
package instrumentation
