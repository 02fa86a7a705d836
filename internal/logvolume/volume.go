// SPDX-License-Identifier: Apache-2.0

package logvolume

import (
	"time"

	"assay"
)

// points is the number of steps of every period.
const points = 60

// queryTimeout is the total timeout of a call.
const queryTimeout = 5 * time.Second

// newVolume returns the empty volume of the period that ends at end. Point i stands for
// (Start + i steps, Start + i+1 steps].
func newVolume(period assay.LogVolumePeriod, end time.Time) (*assay.LogVolume, error) {
	length := period.Duration()
	if length <= 0 {
		return nil, assay.Errorf(assay.CodeInvalid, "unknown period %q", string(period))
	}
	end = end.UTC().Truncate(time.Millisecond)
	v := &assay.LogVolume{Period: period, Start: end.Add(-length), End: end, Series: make([]assay.LogVolumePoint, points)}
	for i := range v.Series {
		v.Series[i].Start = v.Start.Add(time.Duration(i) * step(v))
	}
	return v, nil
}

func step(v *assay.LogVolume) time.Duration { return v.End.Sub(v.Start) / points }

var severities = func() map[string]assay.Severity {
	m := make(map[string]assay.Severity, assay.SeverityCount)
	for s := range assay.SeverityCount {
		m[s.String()] = s
	}
	return m
}()

// severityOf returns the severity of a label value.
func severityOf(label string) assay.Severity {
	if s, ok := severities[label]; ok {
		return s
	}
	return assay.SeverityUnspecified
}

// upstream returns the error of a failed metrics store. The cause is for logs and must contain neither credentials nor
// the store's response.
func upstream(message string, cause error) error {
	return &assay.Error{Code: assay.CodeUpstream, Message: message, Err: cause}
}
