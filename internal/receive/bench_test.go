// SPDX-License-Identifier: Apache-2.0

package receive_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"

	"assay/internal/receive"
	"assay/internal/wire"
	"assay/internal/wire/wiretest"
)

// spans is the number of spans in each request of the benchmarks.
const spans = 1000

type discard struct{}

func (discard) Ingest(context.Context, string, wire.Signal, []byte) (string, error) { return "", nil }

// measure also reports the CPU time of the process, including the client, per million spans.
func measure(b *testing.B, body []byte, send func() error) {
	require.NoError(b, send())
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	before := cpu(b)
	for b.Loop() {
		if err := send(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric((cpu(b)-before)/float64(b.N)*1e6/spans, "cpu-s/Mspan")
}

func cpu(b *testing.B) float64 {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

func benchmarkBody() []byte {
	return wiretest.MarshalTraces(wiretest.Traces(wiretest.Size{Resources: 1, Scopes: 1, Records: spans, Attributes: 10}))
}

func BenchmarkHTTP(b *testing.B) {
	s := start(b, receive.Config{Ingester: discard{}})
	body := benchmarkBody()
	for _, compression := range compressions {
		if compression.name == "identity" {
			continue
		}
		b.Run(compression.name, func(b *testing.B) {
			client := newClient(b, false)
			compressed := compression.compress(body)
			measure(b, body, func() error {
				r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, "http://"+s.http+"/v1/traces", bytes.NewReader(compressed))
				if err != nil {
					return err
				}
				r.Header = http.Header{"Authorization": {goodKey}, "Content-Type": {"application/x-protobuf"}}
				if compression.encoding != "" {
					r.Header["Content-Encoding"] = []string{compression.encoding}
				}
				response, err := client.Do(r)
				if err != nil {
					return err
				}
				_, _ = io.Copy(io.Discard, response.Body)
				if response.StatusCode != http.StatusOK {
					return fmt.Errorf("answered %s", response.Status)
				}
				return response.Body.Close()
			})
		})
	}
}

// bytesCodec sends bytes unmodified.
type bytesCodec struct{}

func (bytesCodec) Name() string { return "proto" }

func (bytesCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

func (bytesCodec) Unmarshal(mem.BufferSlice, any) error { return nil }

func benchmarkGRPC(b *testing.B, address string) {
	body := benchmarkBody()
	for _, compressor := range []string{"identity", "gzip", "zstd"} {
		b.Run(compressor, func(b *testing.B) {
			conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()),
				grpc.WithDefaultCallOptions(grpc.UseCompressor(compressor), grpc.ForceCodecV2(bytesCodec{})))
			require.NoError(b, err)
			defer conn.Close()
			ctx := metadata.AppendToOutgoingContext(b.Context(), "authorization", goodKey)
			measure(b, body, func() error { return conn.Invoke(ctx, methods[wire.Traces], body, nil) })
		})
	}
}

func BenchmarkGRPC(b *testing.B) {
	benchmarkGRPC(b, start(b, receive.Config{Ingester: discard{}}).grpc)
}

// BenchmarkGRPCUnmarshalled measures the minimum work of an OpenTelemetry Collector: receiving with the gRPC library
// and unmarshalling with pdata.
func BenchmarkGRPCUnmarshalled(b *testing.B) {
	server := grpc.NewServer(grpc.MaxRecvMsgSize(64 << 20))
	ptraceotlp.RegisterGRPCServer(server, &unmarshalled{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	done := make(chan error)
	go func() { done <- server.Serve(l) }()
	defer func() {
		server.Stop()
		require.NoError(b, <-done)
	}()
	benchmarkGRPC(b, l.Addr().String())
}

type unmarshalled struct {
	ptraceotlp.UnimplementedGRPCServer
}

func (*unmarshalled) Export(context.Context, ptraceotlp.ExportRequest) (ptraceotlp.ExportResponse, error) {
	return ptraceotlp.NewExportResponse(), nil
}
