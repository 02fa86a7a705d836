// SPDX-License-Identifier: Apache-2.0

package receive_test

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"

	"assay/internal/receive"
)

func TestTLS(t *testing.T) {
	known := httptest.NewTLSServer(nil) // provides the certificate
	known.Close()
	client := known.Client().Transport.(*http.Transport).TLSClientConfig
	ing := &ingester{}
	s := start(t, receive.Config{Ingester: ing, TLS: &tls.Config{Certificates: known.TLS.Certificates}})

	transport := &http.Transport{TLSClientConfig: client.Clone()}
	defer transport.CloseIdleConnections()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+s.http+"/v1/traces", strings.NewReader("{}"))
	require.NoError(t, err)
	r.Header = http.Header{"Authorization": {goodKey}, "Content-Type": {"application/json"}}
	response, err := transport.RoundTrip(r)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, 200, response.StatusCode)

	conn, err := grpc.NewClient(s.grpc, grpc.WithTransportCredentials(credentials.NewTLS(client)))
	require.NoError(t, err)
	defer conn.Close()
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", goodKey)
	_, err = ptraceotlp.NewGRPCClient(conn).Export(ctx, ptraceotlp.NewExportRequest())
	require.NoError(t, err)
	require.Len(t, ing.recorded(), 2)
}

// TestOnlyHTTP1 checks that OTLP/HTTP speaks only HTTP/1.1, also with clients that offer HTTP/2.
func TestOnlyHTTP1(t *testing.T) {
	s := start(t, receive.Config{})
	_, err := s.clients[true].Get("http://" + s.http + "/v1/traces")
	require.Error(t, err)

	known := httptest.NewTLSServer(nil) // provides the certificate
	known.Close()
	config := known.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	config.NextProtos = []string{"h2", "http/1.1"}
	s = start(t, receive.Config{TLS: &tls.Config{Certificates: known.TLS.Certificates, NextProtos: []string{"h2", "http/1.1"}}})
	conn, err := tls.Dial("tcp", s.http, config)
	require.NoError(t, err)
	defer conn.Close()
	require.Equal(t, "http/1.1", conn.ConnectionState().NegotiatedProtocol)
}

// TestOptionsOfAll: the handler, which limits requests, responds to OPTIONS *, too.
func TestOptionsOfAll(t *testing.T) {
	s := start(t, receive.Config{})
	r, err := http.NewRequestWithContext(t.Context(), http.MethodOptions, "http://"+s.http, nil)
	require.NoError(t, err)
	r.URL.Opaque = "*"
	response, err := http.DefaultTransport.RoundTrip(r)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusNotFound, response.StatusCode)
}
