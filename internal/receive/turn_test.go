// SPDX-License-Identifier: Apache-2.0

package receive_test

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/receive"
)

// addressed is a connection in memory with an address of its own.
type addressed struct {
	net.Conn
	n int
}

func (c addressed) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: c.n} }

// TestRequestsInTurn: the requests of an organization that wait for their turn take no places of requests whose organization
// is not known yet.
func TestRequestsInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		known := make(chan struct{})
		r, err := receive.New(receive.Config{
			Authenticate: func(_ context.Context, authorization, _ string) (*assay.Principal, error) {
				if authorization == "Bearer slow" {
					<-known
				}
				return &assay.Principal{OrganizationID: authorization, Scopes: []assay.Scope{assay.ScopeIngest}}, nil
			},
			Ingester: &ingester{}, Logger: slog.New(slog.DiscardHandler),
		})
		require.NoError(t, err)
		listener := make(pipes)
		var serving, clients sync.WaitGroup
		serving.Go(func() { _ = r.Serve(receive.HTTP, listener) })
		n := 0
		request := func(key string) func() int {
			client, server := net.Pipe()
			n++
			listener <- addressed{server, n}
			status := make(chan int, 1)
			clients.Go(func() {
				defer client.Close()
				_, _ = fmt.Fprintf(client, "POST /v1/logs HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\nAuthorization: Bearer %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", key)
				resp, err := http.ReadResponse(bufio.NewReader(client), nil)
				if err != nil {
					status <- 0
					return
				}
				_ = resp.Body.Close()
				status <- resp.StatusCode
			})
			return func() int { return <-status }
		}
		slow := request("slow")
		synctest.Wait()
		for range 4 {
			for range 500 {
				request("flood")
			}
			synctest.Wait()
		}
		close(known)
		require.Equal(t, http.StatusOK, slow())
		clients.Wait()
		close(listener)
		require.NoError(t, r.Shutdown(t.Context()))
		serving.Wait()
	})
}
