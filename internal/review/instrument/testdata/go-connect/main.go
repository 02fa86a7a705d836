// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/http"

	"connectrpc.com/connect"

	"example.com/connect/gen/shop/v1/shopv1connect"
)

func serve(options ...connect.HandlerOption) error {
	mux := http.NewServeMux()
	mux.Handle(shopv1connect.NewShopServiceHandler(shop{}))
	path, handler := shopv1connect.NewShopServiceHandler(shop{}, options...)
	mux.Handle("/v2"+path, handler)
	return http.ListenAndServe(":8080", mux)
}

type shop struct{}

func main() {
	_ = shopv1connect.NewShopServiceClient(http.DefaultClient, "http://localhost:8080")
	fmt.Println(serve())
}
