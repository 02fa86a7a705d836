// SPDX-License-Identifier: Apache-2.0

package wire

import "fmt"

// Signal is the kind of an export request. The zero value is not a signal.
type Signal uint8

// The signals that have an export request of their own.
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

// ValueKind is the type of a Value, or of the number of a data point or exemplar.
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

var valueKinds = [...]string{"empty", "string", "bool", "int", "double", "array", "keyvalues", "bytes"}

// String returns the kind as one lower-case word.
func (k ValueKind) String() string {
	if int(k) < len(valueKinds) {
		return valueKinds[k]
	}
	return fmt.Sprintf("ValueKind(%d)", uint8(k))
}

// MetricType is the type of a metric's data.
type MetricType uint8

// The metric types. MetricEmpty is a metric without data, or with data of a type that OTLP does not define yet.
const (
	MetricEmpty MetricType = iota
	MetricGauge
	MetricSum
	MetricHistogram
	MetricExponentialHistogram
	MetricSummary
)

var metricTypes = [...]string{"empty", "gauge", "sum", "histogram", "exponentialhistogram", "summary"}

// String returns the type as one lower-case word.
func (t MetricType) String() string {
	if int(t) < len(metricTypes) {
		return metricTypes[t]
	}
	return fmt.Sprintf("MetricType(%d)", uint8(t))
}
