// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSchema(t *testing.T) {
	url, err := server.NewDatabase(t.Context())
	require.NoError(t, err)
	_, err = Open(t.Context(), Config{URL: url})
	require.ErrorContains(t, err, "migrate the store first")
	s, err := Open(t.Context(), Config{URL: url, Migrate: true})
	require.NoError(t, err)
	require.NoError(t, s.Close())
}
