// SPDX-License-Identifier: Apache-2.0

package logvolume

import (
	"context"
	"time"

	"assay"
)

// Embedded reads log volume from the store, which counts log records in the transaction that accepts them. It is safe
// for concurrent use.
//
// The store keeps minutes: a record counts at the start of the minute of its transaction. After two days it keeps
// hours, whose records count evenly over their minutes.
//
// LogVolume returns CodeUnavailable if the store fails.
type Embedded struct {
	store assay.LogRecordStore
	now   func() time.Time
}

var _ assay.LogVolumeReader = (*Embedded)(nil)

// NewEmbedded returns an Embedded. now is the end of periods.
func NewEmbedded(store assay.LogRecordStore, now func() time.Time) *Embedded {
	return &Embedded{store: store, now: now}
}

// LogVolume implements assay.LogVolumeReader.
func (e *Embedded) LogVolume(ctx context.Context, organizationID string, period assay.LogVolumePeriod) (*assay.LogVolume, error) {
	v, err := newVolume(period, e.now())
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	// The clock of another replica may be slightly ahead.
	records, err := e.store.LogRecords(ctx, organizationID, v.Start, v.End.Add(time.Minute), step(v))
	if err != nil {
		return nil, &assay.Error{Code: assay.CodeUnavailable, Message: "the log records could not be counted", Err: err}
	}
	for i := range records {
		add(v, &records[i])
	}
	for i := range v.Series {
		v.Counts.Add(&v.Series[i].Counts)
	}
	return v, nil
}

// add adds the records of a minute or an hour to the steps of its minutes.
func add(v *assay.LogVolume, r *assay.LogRecords) {
	first, last := stepOf(v, r.Start), stepOf(v, r.Start.Add(r.Span-time.Minute))
	if first == last {
		if first >= 0 {
			v.Series[first].Counts.Add(&r.Counts)
		}
		return
	}
	minutes := make([]float64, last-first+1) // in each of the steps
	for at := r.Start; at.Before(r.Start.Add(r.Span)); at = at.Add(time.Minute) {
		minutes[stepOf(v, at)-first]++
	}
	for severity, n := range r.Counts {
		for i, share := range apportion(n, minutes) {
			if first+i >= 0 {
				v.Series[first+i].Counts[severity] += share
			}
		}
	}
}

// stepOf returns the index of the step that contains a time: -1 before the period, and the last one after it.
func stepOf(v *assay.LogVolume, at time.Time) int {
	if at.Before(v.Start) {
		return -1
	}
	return min(int(at.Sub(v.Start)/step(v)), points-1)
}
