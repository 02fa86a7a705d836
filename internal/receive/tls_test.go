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

	for _, http2 := range []bool{false, true} {
		var protocols http.Protocols
		protocols.SetHTTP1(!http2)
		protocols.SetHTTP2(http2)
		transport := &http.Transport{TLSClientConfig: client.Clone(), Protocols: &protocols}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+s.http+"/v1/traces", strings.NewReader("{}"))
		require.NoError(t, err)
		r.Header = http.Header{"Authorization": {goodKey}, "Content-Type": {"application/json"}}
		response, err := transport.RoundTrip(r)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, 200, response.StatusCode)
		require.Equal(t, http2, response.ProtoMajor == 2)
		transport.CloseIdleConnections()
	}

	conn, err := grpc.NewClient(s.grpc, grpc.WithTransportCredentials(credentials.NewTLS(client)))
	require.NoError(t, err)
	defer conn.Close()
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", goodKey)
	_, err = ptraceotlp.NewGRPCClient(conn).Export(ctx, ptraceotlp.NewExportRequest())
	require.NoError(t, err)
	require.Len(t, ing.recorded(), 3)
}
