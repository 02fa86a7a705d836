// SPDX-License-Identifier: Apache-2.0

package logvolume

import (
	"context"
	"time"

	"assay"
)

// points is the number of steps of every period.
const points = 60

// queryTimeout is how long an answer may take in total.
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

// severityOf returns the severity of a label's value.
func severityOf(label string) assay.Severity {
	if s, ok := severities[label]; ok {
		return s
	}
	return assay.SeverityUnspecified
}

// places bounds how many queries are under way at once.
type places chan struct{}

// take waits for a place until ctx ends. The caller gives it back by release.
func (p places) take(ctx context.Context) error {
	select {
	case p <- struct{}{}:
		return nil
	case <-ctx.Done():
		return upstream("too many queries of log volume are under way", ctx.Err())
	}
}

func (p places) release() { <-p }

// upstream is the failure of a metrics store. The cause is for logs and must hold
// neither credentials nor what the store answered.
func upstream(message string, cause error) error {
	return &assay.Error{Code: assay.CodeUpstream, Message: message, Err: cause}
}
