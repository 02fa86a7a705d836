// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/http"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
)

func items() http.Handler {
	r := chi.NewRouter()
	r.Get("/{id}", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "item", chi.URLParam(r, "id"))
	})
	return r
}

func main() {
	r := chi.NewRouter()
	r.Use(middleware.Recoverer)
	r.Mount("/items", items())
	fmt.Println(http.ListenAndServe(":8080", r))
}
