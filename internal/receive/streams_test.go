// SPDX-License-Identifier: Apache-2.0

package receive_test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

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

// rawHTTP2 is a client of HTTP/2 that a test controls frame by frame.
type rawHTTP2 struct {
	*http2.Framer
	conn    net.Conn
	out     bytes.Buffer // frames that flush sends
	headers bytes.Buffer
	encoder *hpack.Encoder
}

// newRawHTTP2 returns a client whose first flush begins the connection. The caller adds its settings.
func newRawHTTP2(conn net.Conn) *rawHTTP2 {
	c := &rawHTTP2{conn: conn}
	c.Framer, c.encoder = http2.NewFramer(&c.out, conn), hpack.NewEncoder(&c.headers)
	c.out.WriteString(http2.ClientPreface)
	return c
}

func (c *rawHTTP2) flush() error {
	_, err := c.conn.Write(c.out.Bytes())
	c.out.Reset()
	return err
}

// open adds the header of a request for a path.
func (c *rawHTTP2) open(t testing.TB, id uint32, path string, more ...hpack.HeaderField) {
	t.Helper()
	c.headers.Reset()
	for _, f := range append([]hpack.HeaderField{
		{Name: ":method", Value: "POST"},
		{Name: ":scheme", Value: "http"},
		{Name: ":authority", Value: "test"},
		{Name: ":path", Value: path},
		{Name: "content-type", Value: "application/grpc"},
		{Name: "te", Value: "trailers"},
	}, more...) {
		require.NoError(t, c.encoder.WriteField(f))
	}
	require.NoError(t, c.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.headers.Bytes(), EndHeaders: true}))
}

// pipes is a listener with connections in memory.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if c, ok := <-p; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (p pipes) Close() error   { return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// TestUnreadResponses checks that the server does not read more while a client does not read responses.
func TestUnreadResponses(t *testing.T) {
	r, err := receive.New(receive.Config{Authenticate: authenticate, Ingester: &ingester{}, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	listener := make(pipes)
	var serving sync.WaitGroup
	serving.Go(func() { _ = r.Serve(receive.GRPC, listener) })
	client, server := net.Pipe()
	defer func() {
		_ = client.Close()
		close(listener)
		require.NoError(t, r.Shutdown(t.Context()))
		serving.Wait()
	}()
	listener <- server
	c := newRawHTTP2(client)
	require.NoError(t, c.WriteSettings())
	established := make(chan error)
	go func() {
		var err error
		for acknowledged, updated := false, false; err == nil && !(acknowledged && updated); {
			var f http2.Frame
			f, err = c.ReadFrame()
			switch f := f.(type) {
			case *http2.SettingsFrame:
				acknowledged = acknowledged || f.IsAck()
			case *http2.WindowUpdateFrame:
				updated = true
			}
		}
		established <- err
	}()
	require.NoError(t, c.flush())
	require.NoError(t, <-established)

	c.open(t, 1, "/no/Service")
	require.NoError(t, c.flush())
	_, err = client.Read(make([]byte, 1)) // the server writes, and waits with the rest
	require.NoError(t, err)
	require.NoError(t, client.SetWriteDeadline(time.Now().Add(300*time.Millisecond)))
	sent := 0
	for piece := make([]byte, 1<<10); err == nil && sent < 100; sent++ {
		require.NoError(t, c.WriteData(1, false, piece))
		err = c.flush()
	}
	require.Error(t, err)
	require.LessOrEqual(t, sent, 64)
}

const tracesPath = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"

// TestUnacceptedResponses: a client that does not accept responses, whose windows are closed, loses its connection.
func TestUnacceptedResponses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := receive.New(receive.Config{Authenticate: authenticate, Ingester: &ingester{}, Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		listener := make(pipes)
		var serving sync.WaitGroup
		serving.Go(func() { _ = r.Serve(receive.GRPC, listener) })
		client, server := net.Pipe()
		listener <- server
		c := newRawHTTP2(client)
		require.NoError(t, c.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}))
		c.open(t, 1, tracesPath, hpack.HeaderField{Name: "authorization", Value: goodKey})
		require.NoError(t, c.WriteData(1, true, make([]byte, 5)))
		sent := make(chan error)
		go func() { sent <- c.flush() }()
		began := time.Now()
		var frames []http2.FrameType
		for {
			f, err := c.ReadFrame()
			if err != nil {
				break
			}
			frames = append(frames, f.Header().Type)
			if p, ok := f.(*http2.PingFrame); ok && !p.IsAck() {
				if sent != nil {
					require.NoError(t, <-sent)
					sent = nil
				}
				require.NoError(t, c.WritePing(true, p.Data))
				require.NoError(t, c.flush())
			}
		}
		require.Contains(t, frames, http2.FrameHeaders)
		require.NotContains(t, frames, http2.FrameData)
		require.Equal(t, receive.DefaultArrivalTimeout+2*receive.DefaultAnswerTimeout, time.Since(began).Round(time.Second))
		close(listener)
		require.NoError(t, r.Shutdown(t.Context()))
		serving.Wait()
	})
}

// TestHeaderFields: a call may have as many header fields as clients and proxies send, and not many more.
func TestHeaderFields(t *testing.T) {
	s := start(t, receive.Config{})
	conn, err := grpc.NewClient(s.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer conn.Close()
	call := func(more ...string) codes.Code {
		ctx := metadata.AppendToOutgoingContext(t.Context(), append(more, "authorization", goodKey)...)
		_, err := ptraceotlp.NewGRPCClient(conn).Export(ctx, ptraceotlp.NewExportRequest())
		return status.Code(err)
	}
	var many []string
	for i := range 40 {
		many = append(many, fmt.Sprintf("x-%d", i), "1")
	}
	require.Equal(t, codes.OK, call(many...))
	require.Equal(t, codes.ResourceExhausted, call(append(many, many...)...))
	require.Equal(t, codes.ResourceExhausted, call("grpc-accept-encoding", strings.Repeat("x", 1000)))
}
