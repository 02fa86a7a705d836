// SPDX-License-Identifier: Apache-2.0

package query

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCollect(t *testing.T) {
	var rows []*int
	failed := errors.New("failed")
	add := collect(&rows, func(Row) (*int, error) { return nil, failed })
	require.ErrorIs(t, add(nil), failed)
	require.Empty(t, rows, "callers convert the rows before they look at the error")
}
