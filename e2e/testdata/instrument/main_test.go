// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestOrder(t *testing.T) {
	w := httptest.NewRecorder()
	routes().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/orders/7", nil))
	if w.Body.String() != "7\n" {
		t.Fatal(w.Body.String())
	}
}
