// SPDX-License-Identifier: Apache-2.0

package external_test

import (
	"testing"

	"example.com/tested/external"
)

type instrumentation int

func TestFetch(t *testing.T) {
	if _, err := external.Fetch(t.Context(), ":"); err == nil {
		t.Error(instrumentation(1))
	}
}
