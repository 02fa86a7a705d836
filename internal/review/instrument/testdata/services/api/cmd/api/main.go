// SPDX-License-Identifier: Apache-2.0

package main

import (
	"database/sql"
	"log"
	"net/http"

	_ "github.com/lib/pq"
	"google.golang.org/grpc"
)

func main() {
	db, err := sql.Open("postgres", "x")
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /orders/{id}", func(w http.ResponseWriter, r *http.Request) { db.PingContext(r.Context()) })
	g := grpc.NewServer()
	defer g.Stop()
	log.Fatal(http.ListenAndServe(":8080", mux))
}
