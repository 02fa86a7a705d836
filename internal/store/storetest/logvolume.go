// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/delta"
	"assay/internal/rules/catalog"
)

// logRecords is a delta with log records of one severity.
func logRecords(org string, severity assay.Severity, n uint64) *delta.Delta {
	d := new(delta.Delta)
	d.Organization(org).LogRecords[severity] = n
	return d
}

// logged returns all log records of an organization.
func (s *suite) logged(st Store, org string) []assay.LogRecords {
	s.t.Helper()
	return must(st.LogRecords(s.ctx(), org, time.Unix(0, 0), epoch.AddDate(10, 0, 0), time.Minute))(s.t)
}

// minute is the log records of the minute that a moment lies in.
func minute(at time.Time, counts assay.SeverityCounts) assay.LogRecords {
	return assay.LogRecords{Start: at.UTC().Truncate(time.Minute), Span: time.Minute, Counts: counts}
}

// hour is the log records of the hour that a moment lies in.
func hour(at time.Time, counts assay.SeverityCounts) assay.LogRecords {
	return assay.LogRecords{Start: at.UTC().Truncate(time.Hour), Span: time.Hour, Counts: counts}
}

func info(n uint64) assay.SeverityCounts { return assay.SeverityCounts{assay.SeverityInfo: n} }

// TestLogRecords adds records through two handles, in groups, to two minutes.
func (s *suite) TestLogRecords(t *testing.T) {
	a, b, silent := s.organization(), s.organization(), s.organization()
	s.seen(silent, named("a"), catalog.RES001, false)
	require.Empty(t, s.logged(s, a))

	other := s.handle()
	want := make(map[string][]assay.LogRecords)
	for half := range 2 {
		var counts [2]assay.SeverityCounts
		for i := range uint64(6) {
			group := new(delta.Delta)
			for severity := range assay.SeverityCount {
				for n, org := range []string{a, b} {
					add := []uint64{i + 1, uint64(severity) << 40}[n]
					group.Merge(logRecords(org, severity, add))
					counts[n][severity] += add
				}
			}
			st := []Store{s, other}[i%2]
			require.NoError(t, st.Commit(s.ctx(), s.clock.now(), nil, func([]bool) *delta.Delta { return group }))
			for n, org := range []string{a, b} {
				want[org] = append(want[org][:half], minute(epoch.Add(time.Duration(half)*time.Minute), counts[n]))
				require.Equal(t, want[org], s.logged(other, org))
			}
			s.clock.advance(10 * time.Second)
		}
	}
	require.Empty(t, s.logged(s, silent))
	require.Empty(t, s.logged(s, unknownID))
	require.Empty(t, s.logged(s, "x"))

	// A failed commit adds nothing.
	d := logRecords(a, assay.SeverityInfo, 5)
	d.Merge(logRecords(unknownID, assay.SeverityInfo, 5))
	code(t, assay.CodeNotFound, s.Commit(s.ctx(), s.clock.now(), nil, func([]bool) *delta.Delta { return d }))
	require.Equal(t, want[a], s.logged(s, a))

	// A repeated request counts once.
	request := []delta.Request{{OrganizationID: silent, Hash: [16]byte{1}}}
	for range 2 {
		require.NoError(t, s.Commit(s.ctx(), s.clock.now(), request, func(fresh []bool) *delta.Delta {
			if !fresh[0] {
				return nil
			}
			return logRecords(silent, assay.SeverityInfo, 7)
		}))
		require.Equal(t, []assay.LogRecords{minute(s.clock.now(), info(7))}, s.logged(other, silent))
	}

	require.NoError(t, other.Close())
	require.NoError(t, s.Store.Close())
	s.Store = s.handle()
	require.Equal(t, want[a], s.logged(s, a), "after a restart")
	require.Equal(t, want[b], s.logged(s, b), "after a restart")
}

// TestLogRecordRange reads parts of minutes and hours.
func (s *suite) TestLogRecordRange(t *testing.T) {
	org := s.organization()
	noon := epoch.UTC().Truncate(time.Hour)
	stored := []assay.LogRecords{
		hour(noon.Add(-time.Hour), info(1)), minute(noon, info(2)), minute(noon.Add(time.Minute), assay.SeverityCounts{0: 3, 6: 4}),
	}
	require.NoError(t, s.ImportLogRecords(s.ctx(), org, stored))
	both := minute(noon, assay.SeverityCounts{3, 0, 2, 0, 0, 0, 4})
	for _, c := range []struct {
		from, to, step time.Duration // from and to after noon
		want           []assay.LogRecords
	}{
		{-24 * time.Hour, 24 * time.Hour, time.Minute, stored},
		{-24 * time.Hour, -time.Hour, time.Minute, nil},
		{-24 * time.Hour, -time.Hour + time.Millisecond, time.Minute, stored[:1]},
		{-time.Second, 0, time.Minute, stored[:1]},
		{0, time.Millisecond, time.Minute, stored[1:2]},
		{0, time.Minute, time.Minute, stored[1:2]},
		{0, time.Minute + time.Millisecond, time.Minute, stored[1:]},
		{time.Millisecond, time.Hour, time.Minute, stored[2:]},
		{time.Minute, time.Hour, time.Minute, stored[2:]},
		{time.Minute + time.Millisecond, time.Hour, time.Minute, nil},
		{0, time.Hour, 2 * time.Minute, []assay.LogRecords{both}},
		{-time.Minute, time.Hour, 2 * time.Minute, stored},
		{-time.Minute + time.Millisecond, time.Hour, 2 * time.Minute, []assay.LogRecords{stored[0], both}},
		{-168 * time.Hour, time.Hour, 168 * time.Minute, []assay.LogRecords{stored[0], both}},
	} {
		got := must(s.LogRecords(s.ctx(), org, noon.Add(c.from), noon.Add(c.to), c.step))(t)
		require.Equal(t, c.want, got, "from %v to %v by %v", c.from, c.to, c.step)
	}
}

// TestImportLogRecords imports log volume from before the first records of the store.
func (s *suite) TestImportLogRecords(t *testing.T) {
	org, other := s.organization(), s.organization()
	s.commit(logRecords(org, assay.SeverityInfo, 1))
	own := minute(epoch, info(1))
	before := []assay.LogRecords{hour(epoch.Add(-50*time.Hour), info(2)), minute(epoch.Add(-time.Hour), assay.SeverityCounts{3, 0, 5})}
	for range 2 {
		require.NoError(t, s.ImportLogRecords(s.ctx(), org, append(before, minute(epoch, info(9)), minute(epoch.Add(time.Hour), info(9)))))
		require.Equal(t, append(before, own), s.logged(s, org))
	}
	require.NoError(t, s.ImportLogRecords(s.ctx(), org, []assay.LogRecords{minute(epoch.Add(-2*time.Hour), info(9))}), "from another replica")
	require.Equal(t, append(before, own), s.logged(s, org))
	require.NoError(t, s.ImportLogRecords(s.ctx(), other, nil))
	require.Empty(t, s.logged(s, other))
	code(t, assay.CodeNotFound, s.ImportLogRecords(s.ctx(), unknownID, before))

	// More records than one transaction of an expiry deletes.
	var many []assay.LogRecords
	for i := range 6000 {
		many = append(many, minute(epoch.Add(time.Duration(i)*time.Minute), info(uint64(i)+1)))
	}
	require.NoError(t, s.ImportLogRecords(s.ctx(), other, many))
	require.Equal(t, many, s.logged(s, other))
}

// TestExpireLogRecords merges minutes into hours, in more than one transaction, and deletes them at the end.
func (s *suite) TestExpireLogRecords(t *testing.T) {
	a, b := s.organization(), s.organization()
	const hours = 50
	begin := epoch.UTC().Truncate(time.Hour)
	var minutes []assay.LogRecords
	for at := begin; at.Before(begin.Add(hours * time.Hour)); at = at.Add(time.Minute) {
		minutes = append(minutes, minute(at, assay.SeverityCounts{1, 2, 3, 4}))
	}
	require.NoError(t, s.ImportLogRecords(s.ctx(), a, minutes))
	require.NoError(t, s.ImportLogRecords(s.ctx(), b, minutes[:1]))
	rows := func() int64 { return s.rows()["log_volume"] }
	expire := func(after time.Duration) {
		t.Helper()
		s.clock.advance(begin.Add(after).Sub(s.clock.now()))
		now := bucket(s.clock.now())
		for range 2 { // the second one finds nothing to do
			s.expire(now, now)
		}
	}

	expire(48*time.Hour + 59*time.Minute)
	require.Equal(t, minutes, s.logged(s, a), "two days, and the hour is not over")
	expire(50 * time.Hour)
	want := append([]assay.LogRecords{
		hour(begin, assay.SeverityCounts{60, 120, 180, 240}), hour(begin.Add(time.Hour), assay.SeverityCounts{60, 120, 180, 240}),
	}, minutes[120:]...)
	require.Equal(t, want, s.logged(s, a))
	require.Equal(t, []assay.LogRecords{hour(begin, assay.SeverityCounts{1, 2, 3, 4})}, s.logged(s, b))

	// Records that a replica with a slow clock added since then are merged as well.
	require.NoError(t, s.Commit(s.ctx(), begin.Add(time.Minute), nil, func([]bool) *delta.Delta {
		return logRecords(b, assay.SeverityTrace, 9)
	}))
	expire(200 * time.Hour)
	require.Equal(t, []assay.LogRecords{hour(begin, assay.SeverityCounts{10, 2, 3, 4})}, s.logged(s, b))
	require.Len(t, s.logged(s, a), hours)
	require.EqualValues(t, hours+1, rows())

	expire(assay.LogHoursRetention + time.Hour - time.Second)
	require.Len(t, s.logged(s, a), hours)
	expire(assay.LogHoursRetention + time.Hour)
	require.Len(t, s.logged(s, a), hours-1)
	require.Empty(t, s.logged(s, b))
	expire(assay.LogHoursRetention + (hours+1)*time.Hour)
	require.Zero(t, rows())
}
