// SPDX-License-Identifier: Apache-2.0

package assay

import (
	"context"
	"time"
)

// Severity is a range of OpenTelemetry's severity numbers, the way log volume is
// broken down. Source: https://opentelemetry.io/docs/specs/otel/logs/data-model/#field-severitynumber
type Severity uint8

// The severities, in the order in which the API shows them.
const (
	SeverityTrace       Severity = iota // 1 to 4
	SeverityDebug                       // 5 to 8
	SeverityInfo                        // 9 to 12
	SeverityWarn                        // 13 to 16
	SeverityError                       // 17 to 20
	SeverityFatal                       // 21 to 24
	SeverityUnspecified                 // 0, and what the specification does not know
	SeverityCount
)

var severityNames = [SeverityCount]string{"TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL", "UNSPECIFIED"}

// String returns the name that the API and the label severity of
// logs_severity_total have, such as "INFO".
func (s Severity) String() string {
	if s < SeverityCount {
		return severityNames[s]
	}
	return severityNames[SeverityUnspecified]
}

// SeverityOf returns the severity of a log record's severity number.
func SeverityOf(number int32) Severity {
	if number < 1 || number > 24 {
		return SeverityUnspecified
	}
	return Severity((number - 1) / 4)
}

// SeverityCounts are numbers of log records by severity.
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

// LogVolumePeriod is how far log volume looks back.
type LogVolumePeriod string

// LogVolumePeriods returns the periods, shortest first.
func LogVolumePeriods() []LogVolumePeriod {
	return []LogVolumePeriod{"1h", "6h", "12h", "24h", "7d", "30d"}
}

// Duration returns the length of the period, 0 for an unknown one.
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

// LogVolume is how many log records an organization sent in a period.
type LogVolume struct {
	Period     LogVolumePeriod
	Start, End time.Time
	Counts     SeverityCounts
	Series     []LogVolumePoint // oldest first; the counts add up to Counts
}

// LogVolumePoint is one step of a series.
type LogVolumePoint struct {
	Start  time.Time // of the step
	Counts SeverityCounts
}

// LogVolumeReader answers how many log records there were. Implementations may be
// used concurrently.
type LogVolumeReader interface {
	// LogVolume returns CodeUpstream when the metrics store cannot be reached, failed
	// or did not answer in time, and CodeInvalid for an unknown period.
	LogVolume(ctx context.Context, organizationID string, period LogVolumePeriod) (*LogVolume, error)
}

// LogRecordStore keeps how many log records were accepted. Implementations may be
// used concurrently.
type LogRecordStore interface {
	// LogRecords returns the log records ever accepted, by organization id. An
	// organization that sent none may be missing.
	LogRecords(ctx context.Context) (map[string]SeverityCounts, error)
}
