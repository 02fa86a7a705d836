// SPDX-License-Identifier: Apache-2.0

package receive_test

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"

	"assay/internal/receive"
)

// TestStreams: a gRPC connection may have few calls at a time, whose headers are in memory
// while the client does not read. Clients make the others wait.
func TestStreams(t *testing.T) {
	s := start(t, receive.Config{})
	raw, err := net.Dial("tcp", s.grpc)
	require.NoError(t, err)
	defer raw.Close()
	require.NoError(t, raw.SetDeadline(time.Now().Add(time.Minute)))
	_, err = io.WriteString(raw, http2.ClientPreface)
	require.NoError(t, err)
	framer := http2.NewFramer(raw, raw)
	require.NoError(t, framer.WriteSettings())
	frame, err := framer.ReadFrame()
	require.NoError(t, err)
	settings, ok := frame.(*http2.SettingsFrame)
	require.True(t, ok)
	limit, ok := settings.Value(http2.SettingMaxConcurrentStreams)
	require.True(t, ok)
	require.LessOrEqual(t, limit, uint32(32))

	conn, err := grpc.NewClient(s.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer conn.Close()
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", goodKey)
	var wg sync.WaitGroup
	errs := make([]error, 200)
	for i := range errs {
		wg.Go(func() { _, errs[i] = ptraceotlp.NewGRPCClient(conn).Export(ctx, ptraceotlp.NewExportRequest()) })
	}
	wg.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
}
