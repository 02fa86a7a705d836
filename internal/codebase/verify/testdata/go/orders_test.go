// SPDX-License-Identifier: Apache-2.0

package orders

import "testing"

func TestTotal(t *testing.T) {
	if n := Total(1, 2); n != 3 {
		t.Fatalf("total is %d", n)
	}
	if err := Send(Total(1, 2)); err != nil {
		t.Fatal(err)
	}
}
