// SPDX-License-Identifier: Apache-2.0

package receive_test

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"

	"assay/internal/receive"
)

// TestFrames: frames without telemetry have a rate on the connections of gRPC, with and without TLS.
func TestFrames(t *testing.T) {
	known := httptest.NewTLSServer(nil) // provides the certificate
	known.Close()
	client := known.Client().Transport.(*http.Transport).TLSClientConfig
	client.NextProtos, client.ServerName = []string{"h2"}, "example.com"
	for name, config := range map[string]*tls.Config{"plain": nil, "TLS": {Certificates: known.TLS.Certificates}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, err := receive.New(receive.Config{Authenticate: authenticate, Ingester: &ingester{}, TLS: config})
				require.NoError(t, err)
				listener := make(pipeListener, 1)
				served := make(chan error, 1)
				go func() { served <- r.Serve(receive.GRPC, listener) }()
				var sender net.Conn
				sender, server := net.Pipe()
				listener <- server
				if config != nil {
					sender = tls.Client(sender, client)
				}
				go func() { _, _ = io.Copy(io.Discard, sender) }()

				began := time.Now()
				sent := bufio.NewWriter(sender)
				_, err = sent.WriteString(http2.ClientPreface)
				require.NoError(t, err)
				framer := http2.NewFramer(sent, nil)
				require.NoError(t, framer.WriteSettings())
				for range runtime.GOMAXPROCS(0) << 16 { // of 13 bytes
					require.NoError(t, framer.WriteWindowUpdate(0, 1))
				}
				require.NoError(t, sent.Flush())
				require.Greater(t, time.Since(began), 2*time.Second)

				require.NoError(t, sender.Close())
				close(listener)
				require.ErrorIs(t, <-served, net.ErrClosed)
				require.NoError(t, r.Shutdown(t.Context()))
			})
		})
	}
}

// TestShutdownDuringHandshake: a connection that sends nothing does not delay the shutdown.
func TestShutdownDuringHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := receive.New(receive.Config{Authenticate: authenticate, Ingester: &ingester{}})
		require.NoError(t, err)
		listener := make(pipeListener, 1)
		served := make(chan error, 1)
		go func() { served <- r.Serve(receive.GRPC, listener) }()
		_, server := net.Pipe()
		listener <- server
		synctest.Wait()

		began := time.Now()
		time.AfterFunc(time.Millisecond, func() { close(listener) })
		require.NoError(t, r.Shutdown(t.Context()))
		require.Less(t, time.Since(began), 5*time.Second)
		require.NoError(t, <-served)
	})
}
