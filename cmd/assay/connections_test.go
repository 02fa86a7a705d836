// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay/internal/assaytest"
)

// TestConnectionsAreLimited checks that connections with incomplete headers replace each other at the limit,
// on every HTTP listener. They do not replace the connection of a client with a valid key.
func TestConnectionsAreLimited(t *testing.T) {
	const limit, attackers = 16, 300
	cfg := testConfig(t, t.TempDir())
	cfg.MaxConnections, cfg.MetricsAddress = limit, "127.0.0.1:0"
	s, log := startServer(t, cfg)
	dial := func(l net.Listener) net.Conn {
		c, err := net.Dial("tcp", l.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		require.NoError(t, c.SetDeadline(time.Now().Add(assaytest.Limit)))
		return c
	}
	client := dial(s.http)
	answers := bufio.NewReader(client)
	get := func() {
		t.Helper()
		_, err := fmt.Fprintf(client, "GET /api/v1/organization HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer %s\r\n\r\n", testKey)
		require.NoError(t, err)
		res, err := http.ReadResponse(answers, nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, res.StatusCode)
		_, err = io.Copy(io.Discard, res.Body)
		require.NoError(t, err)
	}
	get()
	for name, l := range map[string]net.Listener{"REST": s.http, "metrics": s.metrics, "OTLP/HTTP": s.otlpHTTP, "OTLP/gRPC": s.grpc} {
		t.Run(name, func(t *testing.T) {
			var conns []net.Conn
			for i := range attackers {
				c := dial(l)
				conns = append(conns, c)
				_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\nX-Long: unfinished")
				if i%50 == 0 {
					get()
				}
			}
			for _, c := range conns[:attackers-limit] {
				_, err := io.Copy(io.Discard, c)
				require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "the connection was closed")
			}
			get()
		})
	}
	require.Contains(t, log.String(), `msg="connections for HTTP are at their limit; new ones take the place of idle ones" address=`+s.http.Addr().String())
}
