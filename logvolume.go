// SPDX-License-Identifier: Apache-2.0

package assay

import (
	"context"
	"time"
)

// Severity is a range of OpenTelemetry severity numbers, the breakdown of log volume. Source:
// https://opentelemetry.io/docs/specs/otel/logs/data-model/#field-severitynumber
type Severity uint8

// The severities, in API order.
const (
	SeverityTrace       Severity = iota // 1 to 4
	SeverityDebug                       // 5 to 8
	SeverityInfo                        // 9 to 12
	SeverityWarn                        // 13 to 16
	SeverityError                       // 17 to 20
	SeverityFatal                       // 21 to 24
	SeverityUnspecified                 // 0, and values not defined by the specification
	SeverityCount
)

var severityNames = [SeverityCount]string{"TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL", "UNSPECIFIED"}

// String returns the name used in the API and in the label severity of logs_severity_total, such as "INFO".
func (s Severity) String() string {
	if s < SeverityCount {
		return severityNames[s]
	}
	return severityNames[SeverityUnspecified]
}

// SeverityOf returns the severity for the severity number of a log record.
func SeverityOf(number int32) Severity {
	if number < 1 || number > 24 {
		return SeverityUnspecified
	}
	return Severity((number - 1) / 4)
}

// SeverityCounts holds numbers of log records by severity.
type SeverityCounts [SeverityCount]uint64

// Total returns the sum.
func (c *SeverityCounts) Total() uint64 {
	var n uint64
	for _, v := range c {
		n += v
	}
	return n
}

// Add adds o to c.
func (c *SeverityCounts) Add(o *SeverityCounts) {
	for s, v := range o {
		c[s] += v
	}
}

// LogVolumePeriod is the period of a log volume query.
type LogVolumePeriod string

// LogVolumePeriods returns the periods, shortest first.
func LogVolumePeriods() []LogVolumePeriod {
	return []LogVolumePeriod{"1h", "6h", "12h", "24h", "7d", "30d"}
}

// Duration returns the length of the period, or 0 for an unknown period.
func (p LogVolumePeriod) Duration() time.Duration {
	switch p {
	case "1h":
		return time.Hour
	case "6h":
		return 6 * time.Hour
	case "12h":
		return 12 * time.Hour
	case "24h":
		return 24 * time.Hour
	case "7d":
		return 7 * 24 * time.Hour
	case "30d":
		return 30 * 24 * time.Hour
	default:
		return 0
	}
}

// LogVolume is the number of log records that an organization sent in a period.
type LogVolume struct {
	Period     LogVolumePeriod
	Start, End time.Time
	Counts     SeverityCounts
	Series     []LogVolumePoint // oldest first; the sum of the points is Counts
}

// LogVolumePoint is one step of the time series.
type LogVolumePoint struct {
	Start  time.Time // start of the step
	Counts SeverityCounts
}

// LogVolumeReader reads log volume. Implementations must be safe for concurrent use.
type LogVolumeReader interface {
	// LogVolume returns CodeUpstream if the metrics store is unreachable, fails or times out, CodeUnavailable if the
	// log records are in assay's store and it fails, and CodeInvalid for an unknown period.
	LogVolume(ctx context.Context, organizationID string, period LogVolumePeriod) (*LogVolume, error)
}

// LogRecords holds the log records that an organization sent in a minute or an hour.
type LogRecords struct {
	Start  time.Time     // start of the minute or hour, UTC
	Span   time.Duration // a minute or an hour
	Counts SeverityCounts
}

const (
	// LogMinutesRetention is the retention of log records by minute. Older records are stored by hour.
	LogMinutesRetention = 2 * 24 * time.Hour
	// LogHoursRetention is the retention of log records by hour, equal to the longest period.
	LogHoursRetention = 30 * 24 * time.Hour
)

// LogRecordStore stores the numbers of accepted log records over time. The transaction that accepts records adds them to
// the minute in which it began. Implementations must be safe for concurrent use.
type LogRecordStore interface {
	// LogRecords returns the log records of an organization in [from, to), oldest first: the minutes that begin in that
	// range and the hours that overlap it. Minutes that begin in the same step, counted from from, are merged and have
	// the start of the first minute with records. from and to are rounded up to whole seconds. An unknown organization
	// has no records.
	LogRecords(ctx context.Context, organizationID string, from, to time.Time, step time.Duration) ([]LogRecords, error)

	// ImportLogRecords adds, in one transaction, the records that begin before all stored records of the organization,
	// and ignores the others. So it is idempotent.
	ImportLogRecords(ctx context.Context, organizationID string, records []LogRecords) error
}
