// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
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
	require.Contains(t, log.String(), `msg="connections for HTTP are at their limit; new connections replace idle ones" address=`+s.http.Addr().String())
}

// TestOnlyHTTP1 checks that the listeners for the API and pages speak only HTTP/1.1, also with clients that offer
// HTTP/2.
func TestOnlyHTTP1(t *testing.T) {
	known := httptest.NewTLSServer(nil) // provides the certificate
	known.Close()
	config := known.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	config.NextProtos = []string{"h2", "http/1.1"}
	for _, secure := range []bool{false, true} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		var tlsConfig *tls.Config
		if secure {
			tlsConfig = &tls.Config{Certificates: known.TLS.Certificates}
		}
		srv, limited := newHTTPServer(l, http.NotFoundHandler(), tlsConfig, 10, slog.New(slog.DiscardHandler))
		var serving sync.WaitGroup
		serving.Go(func() { _ = srv.Serve(limited) })
		if secure {
			conn, err := tls.Dial("tcp", l.Addr().String(), config)
			require.NoError(t, err)
			require.Equal(t, "http/1.1", conn.ConnectionState().NegotiatedProtocol)
			require.NoError(t, conn.Close())
		} else {
			var protocols http.Protocols
			protocols.SetUnencryptedHTTP2(true)
			_, err := (&http.Client{Transport: &http.Transport{Protocols: &protocols}}).Get("http://" + l.Addr().String())
			require.Error(t, err)
		}
		require.NoError(t, srv.Close())
		serving.Wait()
	}
}
