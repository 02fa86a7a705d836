// SPDX-License-Identifier: Apache-2.0

// Package shopv1connect has the constructors that connect-go generates for a service.
package shopv1connect

import (
	"net/http"

	"connectrpc.com/connect"
)

// NewShopServiceHandler returns a path and a handler.
func NewShopServiceHandler(_ any, _ ...connect.HandlerOption) (string, http.Handler) {
	return "/shop.v1.ShopService/", http.NotFoundHandler()
}

// NewShopServiceClient returns a client.
func NewShopServiceClient(connect.HTTPClient, string, ...connect.ClientOption) any { return nil }
