// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/http"

	"github.com/gorilla/mux"
)

func main() {
	router := mux.NewRouter()
	router.HandleFunc("/items/{id}", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "item", mux.Vars(r)["id"])
	})
	server := &http.Server{
		Addr:    ":8080",
		Handler: router,
	}
	fmt.Println(server.ListenAndServe())
}
