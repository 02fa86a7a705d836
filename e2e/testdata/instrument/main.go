// SPDX-License-Identifier: Apache-2.0

// Command orders is a server without telemetry.
package main

import (
	"fmt"
	"net/http"
	"os"
)

func main() {
	address := ":8080"
	if len(os.Args) > 1 {
		address = os.Args[1]
	}
	if err := http.ListenAndServe(address, routes()); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

func routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /orders/{id}", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, r.PathValue("id"))
	})
	return mux
}
