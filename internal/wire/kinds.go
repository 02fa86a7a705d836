// SPDX-License-Identifier: Apache-2.0

package wire

import "fmt"

// Signal is a kind of export request. The zero value is none.
type Signal uint8

// The signals that OTLP carries in requests of their own.
const (
	Traces Signal = iota + 1
	Metrics
	Logs
)

// String returns "traces", "metrics" or "logs".
func (s Signal) String() string {
	switch s {
	case Traces:
		return "traces"
	case Metrics:
		return "metrics"
	case Logs:
		return "logs"
	}
	return fmt.Sprintf("Signal(%d)", uint8(s))
}

// ValueKind says what a Value, or the number of a data point or exemplar, holds.
type ValueKind uint8

// The kinds of values. Numbers are of kind KindEmpty, KindInt or KindDouble.
const (
	KindEmpty ValueKind = iota
	KindString
	KindBool
	KindInt
	KindDouble
	KindArray
	KindKeyValues
	KindBytes
)

// String returns the kind as one lower-case word.
func (k ValueKind) String() string {
	switch k {
	case KindEmpty:
		return "empty"
	case KindString:
		return "string"
	case KindBool:
		return "bool"
	case KindInt:
		return "int"
	case KindDouble:
		return "double"
	case KindArray:
		return "array"
	case KindKeyValues:
		return "keyvalues"
	case KindBytes:
		return "bytes"
	}
	return fmt.Sprintf("ValueKind(%d)", uint8(k))
}

// MetricType says which data a metric holds.
type MetricType uint8

// The metric types. A metric without data, or with data that OTLP does not define
// yet, is of type MetricEmpty.
const (
	MetricEmpty MetricType = iota
	MetricGauge
	MetricSum
	MetricHistogram
	MetricExponentialHistogram
	MetricSummary
)

// String returns the type as one lower-case word.
func (t MetricType) String() string {
	switch t {
	case MetricEmpty:
		return "empty"
	case MetricGauge:
		return "gauge"
	case MetricSum:
		return "sum"
	case MetricHistogram:
		return "histogram"
	case MetricExponentialHistogram:
		return "exponentialhistogram"
	case MetricSummary:
		return "summary"
	}
	return fmt.Sprintf("MetricType(%d)", uint8(t))
}
