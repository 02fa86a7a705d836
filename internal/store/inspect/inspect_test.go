// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		version, known, since int64
		err                   string
		older                 bool
	}{
		{7, 7, 7, "", false},
		{7, 7, 0, "", false},
		{9, 7, 7, "", false},
		{9, 7, 3, "", false},
		{9, 7, 8, "for programs that know 8 or newer, and this one knows 7", false},
		{9, 7, 0, "schema version 9, this program knows 7; use a newer program", false},
		{6, 7, 3, "migrate the store first", true},
		{0, 7, 0, "no schema yet", true},
	} {
		err := Schema{c.version, c.known, c.since}.Check()
		if c.err == "" {
			require.NoError(t, err, c)
			continue
		}
		require.ErrorContains(t, err, c.err)
		var schema *SchemaError
		require.ErrorAs(t, err, &schema)
		require.Equal(t, c.older, schema.Older(), c)
	}
}

func TestPerServiceMonth(t *testing.T) {
	require.Zero(t, new(Stats).PerServiceMonth())
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	s := Stats{
		Oldest: at, Newest: at.Add(11 * time.Hour),
		Tables: []Table{{Name: "hours", Rows: 20, Bytes: 1000}, {Name: "services", Rows: 10, Bytes: 5000}},
	}
	require.EqualValues(t, 10, s.Services())
	require.Zero(t, s.Organizations())
	require.Equal(t, 12*time.Hour, s.Span())
	require.EqualValues(t, (1000*60+5000)/10, s.PerServiceMonth())
	s.Oldest, s.Newest = time.Time{}, time.Time{}
	require.Zero(t, s.Span())
	require.EqualValues(t, 600, s.PerServiceMonth())
}
