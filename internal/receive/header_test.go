// SPDX-License-Identifier: Apache-2.0

package receive_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"

	"assay/internal/receive"
)

// TestHeaderList: the server accepts 16 KiB of metadata, as on the other listeners. It refuses more with a status, up to
// what proxies forward.
func TestHeaderList(t *testing.T) {
	s := start(t, receive.Config{})
	conn, err := grpc.NewClient(s.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer conn.Close()
	export := func(size int) error {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", goodKey, "x", strings.Repeat("x", size))
		_, err := ptraceotlp.NewGRPCClient(conn).Export(ctx, ptraceotlp.NewExportRequest())
		return err
	}
	require.NoError(t, export(12<<10))
	require.Equal(t, codes.ResourceExhausted, status.Code(export(17<<10)))
	require.Equal(t, codes.ResourceExhausted, status.Code(export(34<<10)))
	require.Equal(t, codes.Internal, status.Code(export(37<<10)), "the client knows the limit of the server's library")
}
