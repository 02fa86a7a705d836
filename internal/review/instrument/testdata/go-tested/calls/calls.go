// SPDX-License-Identifier: Apache-2.0

// Package calls gives functions the results of others.
package calls

import (
	"context"
	"io"
	"net/http"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"example.com/tested/calls/options"
)

func address() string { return "http://localhost:8081" }

func page() (url, contentType string, body io.Reader) {
	return address(), "text/plain", strings.NewReader("page")
}

func target() (string, grpc.DialOption) {
	return "localhost:8082", grpc.WithTransportCredentials(insecure.NewCredentials())
}

func limit() grpc.ServerOption { return grpc.MaxSendMsgSize(1 << 20) }

func limits() (grpc.ServerOption, grpc.ServerOption) { return limit(), limit() }

func all() []grpc.ServerOption { return []grpc.ServerOption{limit()} }

// Send sends requests.
func Send(ctx context.Context) {
	_, _ = http.Post(page())
	_, _ = http.Get(address())
	_, _ = http.Post(address(), "text/plain", strings.NewReader(""))
}

// Dial returns clients.
func Dial() (clients [2]*grpc.ClientConn) {
	clients[0], _ = grpc.NewClient(target())
	clients[1], _ = grpc.NewClient(address(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	return clients
}

// Servers returns servers.
func Servers() []*grpc.Server {
	return []*grpc.Server{
		grpc.NewServer(),
		grpc.NewServer(limit()),
		grpc.NewServer((limits())),
		grpc.NewServer(options.One()),
		grpc.NewServer(options.Two()),
		grpc.NewServer(grpc.MaxConcurrentStreams(1)),
		grpc.NewServer(func() (a, b grpc.ServerOption) { return limits() }()),
		grpc.NewServer(limit(), limit()),
		grpc.NewServer(all()...),
	}
}
