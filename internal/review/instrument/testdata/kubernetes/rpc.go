// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"

	rpc "google.golang.org/grpc"
)

func serve(options []rpc.ServerOption) error {
	_ = rpc.NewServer(rpc.MaxRecvMsgSize(1048576))
	_ = rpc.NewServer(options...)
	return http.ListenAndServeTLS(":443", "cert", "key", nil)
}
