// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/internal/store/connpool"
	"assay/internal/store/query"
)

// TestEngine checks the contract of an engine that the queries of a store rely on and seldom meet: the steps of a view
// read one snapshot, and the error of a duplicate is recognized and does not quote the value.
func TestEngine(t *testing.T, e query.Engine) {
	const add, value = `INSERT INTO settings (name, value) VALUES ($1, 'x')`, "value-of-the-test"
	insert := func(ctx context.Context, name string) error {
		return e.Update(ctx, connpool.OwnWork, "add a setting", func(tx query.Tx) error {
			b := new(query.Batch)
			b.Exec(add, query.Text(name))
			return tx.Send(ctx, b)
		})
	}
	require.NoError(t, insert(t.Context(), value))
	err := insert(t.Context(), value)
	require.True(t, e.Taken(err), "%v", err)
	for _, err := range []error{err, e.Fail(t.Context(), "add a setting", err)} {
		require.ErrorContains(t, err, "add a setting")
		require.NotContains(t, err.Error(), value)
	}

	var counts [2]int64
	count := func(i int) func(*query.Batch) {
		return func(b *query.Batch) {
			if i == 1 {
				require.NoError(t, insert(t.Context(), "committed between the steps"))
			}
			b.Query(func(r query.Row) error { return r.Scan(&counts[i]) }, `SELECT count(*) FROM settings`)
		}
	}
	require.NoError(t, e.View(t.Context(), connpool.Pages, "count settings", count(0), count(1)))
	require.Positive(t, counts[0])
	require.Equal(t, counts[0], counts[1])
}
