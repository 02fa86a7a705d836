// SPDX-License-Identifier: Apache-2.0

package shop

import (
	"context"
	"fmt"
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	flush, err := Setup(context.Background())
	if err != nil {
		panic(err)
	}
	code := m.Run()
	if err := flush(context.Background()); err != nil {
		panic(err)
	}
	os.Exit(code)
}

func TestOrder(t *testing.T) {
	for n := range 1200 {
		if items := Order(context.Background(), fmt.Sprint(n), "jane.doe@shop.example.com", "tea", "milk"); items != 2 {
			t.Fatalf("%d items", items)
		}
	}
}
