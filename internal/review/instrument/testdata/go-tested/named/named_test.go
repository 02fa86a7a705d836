// SPDX-License-Identifier: Apache-2.0

package named

import "testing"

type instrumentation int

func TestFetch(t *testing.T) {
	if _, err := Fetch(t.Context(), ":"); err == nil {
		t.Error(instrumentation(1))
	}
}
