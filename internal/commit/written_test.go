// SPDX-License-Identifier: Apache-2.0

package commit

import (
	"testing"

	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/delta"
	"assay/internal/rules/catalog"
)

// TestWritten: distinct sets and metric series, which are large in a store, count for
// several rows, so that the groups with them are made smaller. So do the spans in journals.
func TestWritten(t *testing.T) {
	d := new(delta.Delta)
	s := d.Organization("org").Service(assay.ServiceKey{Name: "a"})
	require.Equal(t, 1, written(d))
	s.AddClaim(delta.Claim{Rule: catalog.MET003, Key: delta.Hash128{Low: 1}}, delta.ClaimFact{})
	require.Equal(t, 2, written(d))
	s.DistinctSet(delta.DistinctKey{Rule: catalog.MET001, Key: 1}, 0, 10_000, "", "").Add(1)
	require.Equal(t, 2+delta.SetRows, written(d))
	s.Series.Add(1<<20, 0)
	require.Equal(t, 2+delta.SetRows+delta.SeriesRows, written(d))

	d.Journals = []delta.Journal{{
		Append: []delta.JournalEntry{{Seq: 2, Data: make([]byte, 3*journalBytes)}, {Seq: 3}}, Forget: []uint64{1},
	}}
	require.Equal(t, 2+delta.SetRows+delta.SeriesRows+4+1+1, written(d))
}
