// SPDX-License-Identifier: Apache-2.0

package main

import "net/http"

func main() {
	server := &http.Server{Addr: ":8080", Handler: routes()}
	if err := server.ListenAndServe(); err != nil {
		panic(err)
	}
}

func routes() http.Handler { return nil }
