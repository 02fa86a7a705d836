// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
)

const waitLimit = time.Minute

// TestDurableBuffer starts the Collector of durable-buffer.yaml before three replicas. One accepts its
// requests immediately, one rejects the first ones, and one is unavailable until the Collector has been
// restarted. Each trace arrives completely at one replica. Accepted requests are not repeated, and repeated
// requests have the same bytes.
func TestDurableBuffer(t *testing.T) {
	environment(t)
	t.Setenv("ASSAY_INSECURE", "true")
	file, intake := bufferConfig(t)
	replicas := []*replica{{}, {refuse: 2}, {}}
	addresses := []string{freeAddress(t), freeAddress(t), freeAddress(t)}
	for i, a := range addresses {
		t.Setenv(fmt.Sprintf("ASSAY_REPLICA_%d", i), a)
	}
	replicas[0].serve(t, addresses[0])
	replicas[1].serve(t, addresses[1])

	stop := runCollector(t, file)
	sent := manyTraces()
	conn, err := grpc.NewClient(intake, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer conn.Close()
	_, err = ptraceotlp.NewGRPCClient(conn).Export(t.Context(), ptraceotlp.NewExportRequestFromTraces(sent), grpc.WaitForReady(true))
	require.NoError(t, err, "acknowledged while a replica is away")
	require.Eventually(t, func() bool { return replicas[0].taken() == 1 && replicas[1].taken() == 1 }, waitLimit, 10*time.Millisecond)
	require.Zero(t, replicas[2].taken())
	stop()

	replicas[2].serve(t, addresses[2])
	stop = runCollector(t, file)
	require.Eventually(t, func() bool { return replicas[2].taken() == 1 }, waitLimit, 10*time.Millisecond)
	stop()

	where := map[pcommon.TraceID]int{}
	spans := 0
	for i, r := range replicas {
		require.Len(t, r.requests, 1+map[int]int{1: 2}[i], "replica %d", i)
		for _, repeated := range r.requests[1:] {
			require.True(t, bytes.Equal(r.requests[0], repeated), "the bytes of a repeated request")
		}
		request := ptraceotlp.NewExportRequest()
		require.NoError(t, request.UnmarshalProto(r.requests[0]))
		for _, rs := range request.Traces().ResourceSpans().All() {
			for _, ss := range rs.ScopeSpans().All() {
				for _, span := range ss.Spans().All() {
					spans++
					first, ok := where[span.TraceID()]
					require.True(t, !ok || first == i, "the trace %s is at two replicas", span.TraceID())
					where[span.TraceID()] = i
				}
			}
		}
	}
	require.Equal(t, sent.SpanCount(), spans)
}

// replica is a server that records the requests that it receives.
type replica struct {
	mu       sync.Mutex
	refuse   int // number of requests to reject as retryable
	accepted int
	requests [][]byte // including rejected ones
}

func (r *replica) taken() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.accepted
}

func (r *replica) serve(t *testing.T, address string) {
	l, err := net.Listen("tcp", address)
	require.NoError(t, err)
	s := grpc.NewServer(grpc.ForceServerCodecV2(rawCodec{}), grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		var request []byte
		if err := stream.RecvMsg(&request); err != nil {
			return err
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.requests = append(r.requests, request)
		if r.refuse > 0 {
			r.refuse--
			return status.Error(codes.Unavailable, "unavailable")
		}
		r.accepted++
		return stream.SendMsg(new([]byte))
	}))
	t.Cleanup(s.Stop)
	go func() { _ = s.Serve(l) }() // until Stop
}

// rawCodec passes messages through unchanged.
type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*v.(*[]byte))}, nil
}

func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

// runCollector returns when the Collector runs; stop returns when it has ended.
func runCollector(t *testing.T, file string) (stop func()) {
	s := settings()
	s.DisableGracefulShutdown = true // no signals
	s.ConfigProviderSettings.ResolverSettings.URIs = []string{"file:" + file}
	c, err := otelcol.NewCollector(s)
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- c.Run(t.Context()) }()
	require.Eventually(t, func() bool {
		if c.GetState() == otelcol.StateRunning {
			return true
		}
		select {
		case err := <-ended:
			require.NoError(t, err)
			require.Fail(t, "the Collector has ended")
		default:
		}
		return false
	}, waitLimit, 10*time.Millisecond)
	return func() {
		c.Shutdown()
		require.NoError(t, <-ended)
	}
}

// bufferConfig writes durable-buffer.yaml with unused addresses. It returns the file and the OTLP/gRPC
// address.
func bufferConfig(t *testing.T) (file, intake string) {
	text, err := os.ReadFile("../collector/durable-buffer.yaml")
	require.NoError(t, err)
	intake = freeAddress(t)
	config := string(text)
	for _, r := range [][2]string{
		{"0.0.0.0:4317", intake},
		{"0.0.0.0:4318", freeAddress(t)},
		{"127.0.0.1:14317", freeAddress(t)},
		{"127.0.0.1:14318", freeAddress(t)},
		{"127.0.0.1:14319", freeAddress(t)},
		{"\nservice:\n", "\nservice:\n  telemetry: {metrics: {level: none}, logs: {level: error, disable_stacktrace: true}}\n"},
	} {
		require.Contains(t, config, r[0])
		config = strings.ReplaceAll(config, r[0], r[1])
	}
	file = filepath.Join(t.TempDir(), "config.yaml")
	require.NoError(t, os.WriteFile(file, []byte(config), 0o600))
	return file, intake
}

// freeAddress returns an address without a listener.
func freeAddress(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

// manyTraces returns traces of two services each.
func manyTraces() ptrace.Traces {
	traces := ptrace.NewTraces()
	for service := range 2 {
		rs := traces.ResourceSpans().AppendEmpty()
		rs.Resource().Attributes().PutStr("service.name", fmt.Sprintf("service-%d", service))
		spans := rs.ScopeSpans().AppendEmpty().Spans()
		for i := range uint64(300) {
			var trace pcommon.TraceID
			binary.BigEndian.PutUint64(trace[8:], (i+1)*0x9e3779b97f4a7c15)
			span := spans.AppendEmpty()
			span.SetTraceID(trace)
			span.SetSpanID(pcommon.SpanID{byte(service + 1), byte(i >> 8), byte(i), 1})
			span.SetName("work")
		}
	}
	return traces
}
