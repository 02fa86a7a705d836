// SPDX-License-Identifier: Apache-2.0

package logvolume

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay"
)

// counts returns counts from the least severe on.
func counts(n ...uint64) (c assay.SeverityCounts) {
	copy(c[:], n)
	return c
}

// records is a store of the log records of organizations, by id.
type records map[string][]assay.LogRecords

// LogRecords implements assay.LogRecordStore.
func (r records) LogRecords(_ context.Context, organizationID string, from, to time.Time, _ time.Duration) (found []assay.LogRecords, err error) {
	for _, l := range r[organizationID] {
		if l.Start.Add(l.Span).After(from) && l.Start.Before(to) && (l.Span == time.Hour || !l.Start.Before(from)) {
			found = append(found, l)
		}
	}
	return found, nil
}

// ImportLogRecords implements assay.LogRecordStore.
func (records) ImportLogRecords(context.Context, string, []assay.LogRecords) error {
	return errors.ErrUnsupported
}

var testEnd = time.Date(2026, time.November, 22, 12, 34, 56, 789e6, time.UTC)

func TestEmbedded(t *testing.T) {
	t.Parallel()
	minute := func(at time.Time, n uint64) assay.LogRecords {
		return assay.LogRecords{Start: at.Truncate(time.Minute), Span: time.Minute, Counts: counts(0, n)}
	}
	hour := func(at time.Time, n uint64) assay.LogRecords {
		return assay.LogRecords{Start: at.Truncate(time.Hour), Span: time.Hour, Counts: counts(0, n)}
	}
	aligned := testEnd.Truncate(time.Hour)
	for name, c := range map[string]struct {
		end     time.Time
		records []assay.LogRecords
		period  assay.LogVolumePeriod
		want    map[int]uint64 // by step
	}{
		"nothing":                    {testEnd, nil, "24h", nil},
		"this minute":                {testEnd, []assay.LogRecords{minute(testEnd, 3)}, "1h", map[int]uint64{59: 3}},
		"the minute that just began": {aligned, []assay.LogRecords{minute(aligned, 3)}, "1h", map[int]uint64{59: 3}},
		"a clock that is ahead":      {testEnd, []assay.LogRecords{minute(testEnd.Add(time.Minute), 3)}, "1h", map[int]uint64{59: 3}},
		"a clock that is far ahead":  {testEnd, []assay.LogRecords{minute(testEnd.Add(3*time.Minute), 3)}, "1h", nil},
		"every minute": {testEnd, []assay.LogRecords{
			minute(testEnd.Add(-61*time.Minute), 1), minute(testEnd.Add(-60*time.Minute), 2), minute(testEnd.Add(-59*time.Minute), 3),
			minute(testEnd.Add(-58*time.Minute), 4), minute(testEnd.Add(-time.Minute), 5), minute(testEnd, 6),
		}, "1h", map[int]uint64{0: 3, 1: 4, 58: 5, 59: 6}},
		"whole minutes": {aligned, []assay.LogRecords{
			minute(aligned.Add(-61*time.Minute), 1), minute(aligned.Add(-60*time.Minute), 2), minute(aligned.Add(-time.Minute), 3),
		}, "1h", map[int]uint64{0: 2, 59: 3}},
		"steps of several minutes": {aligned, []assay.LogRecords{
			minute(aligned.Add(-24*time.Hour), 1), minute(aligned.Add(-24*time.Hour+23*time.Minute), 2), minute(aligned.Add(-24*time.Hour+24*time.Minute), 4),
		}, "24h", map[int]uint64{0: 3, 1: 4}},
		"an hour in one step": {aligned, []assay.LogRecords{hour(aligned.Add(-3*24*time.Hour), 7)}, "30d", map[int]uint64{54: 7}},
		// A step of 168 minutes ends after its first 20.
		"an hour in two steps": {aligned.Add(20 * time.Minute), []assay.LogRecords{hour(aligned.Add(-84*time.Hour), 61)}, "7d", map[int]uint64{29: 20, 30: 41}},
		// 35 of its minutes are before the start.
		"an hour that a period begins in": {testEnd, []assay.LogRecords{hour(testEnd.Add(-7*24*time.Hour), 60)}, "7d", map[int]uint64{0: 25}},
		"an hour before":                  {testEnd, []assay.LogRecords{hour(testEnd.Add(-7*24*time.Hour-time.Hour), 60)}, "7d", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := NewEmbedded(records{"a": c.records, "b": {minute(testEnd, 99)}}, func() time.Time { return c.end })
			v, err := e.LogVolume(t.Context(), "a", c.period)
			require.NoError(t, err)
			require.Equal(t, c.end, v.End)
			require.Equal(t, c.end.Add(-c.period.Duration()), v.Start)
			require.Len(t, v.Series, points)
			var total uint64
			got := make(map[int]uint64)
			for i, p := range v.Series {
				require.Equal(t, v.Start.Add(time.Duration(i)*c.period.Duration()/points), p.Start)
				if n := p.Counts.Total(); n > 0 {
					got[i] = n
				}
				total += p.Counts[assay.SeverityDebug]
			}
			if c.want == nil {
				c.want = map[int]uint64{}
			}
			require.Equal(t, c.want, got)
			require.Equal(t, counts(0, total), v.Counts)
		})
	}
	_, err := NewEmbedded(records{}, time.Now).LogVolume(t.Context(), "a", "2h")
	require.Equal(t, assay.CodeInvalid, assay.ErrorCode(err))
}

// failing is a store that is not available.
type failing struct{ records }

func (failing) LogRecords(ctx context.Context, _ string, _, _ time.Time, _ time.Duration) ([]assay.LogRecords, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestEmbeddedFails(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := NewEmbedded(failing{}, time.Now).LogVolume(ctx, "a", "1h")
	require.Equal(t, assay.CodeUnavailable, assay.ErrorCode(err))
	require.ErrorIs(t, err, context.Canceled)
}
