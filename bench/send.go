// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
)

// sender sends encoded trace requests. It may be used concurrently.
type sender interface {
	send(ctx context.Context, body []byte) error
	close()
}

// sendAll sends every request of a workload once, some at a time; anything but an
// acknowledgement without reservations is an error.
func sendAll(ctx context.Context, to sender, w *workload) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	var next atomic.Int64
	for range senders {
		group.Go(func() error {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(w.requests) {
					return nil
				}
				if err := to.send(ctx, w.requests[i].body); err != nil {
					return fmt.Errorf("request %d: %w", i, err)
				}
			}
		})
	}
	return group.Wait()
}

type httpSender struct {
	client http.Client
	url    string
	header http.Header
}

func dialHTTP(s *server) (sender, error) {
	h := http.Header{"Content-Type": {"application/x-protobuf"}}
	if s.key != "" {
		h.Set("Authorization", "Bearer "+s.key)
	}
	return &httpSender{
		client: http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: senders}},
		url:    "http://" + s.http + "/v1/traces", header: h,
	}, nil
}

func (h *httpSender) send(ctx context.Context, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header = h.header
	resp, err := h.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return err
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("%s: %q", resp.Status, answer)
	}
	return accepted(answer)
}

// accepted tells whether a response takes everything.
func accepted(response []byte) error {
	if len(response) == 0 {
		return nil
	}
	r := ptraceotlp.NewExportResponse()
	if err := r.UnmarshalProto(response); err != nil {
		return fmt.Errorf("response: %w", err)
	}
	if p := r.PartialSuccess(); p.RejectedSpans() > 0 || p.ErrorMessage() != "" {
		return fmt.Errorf("%d spans rejected: %s", p.RejectedSpans(), p.ErrorMessage())
	}
	return nil
}

func (h *httpSender) close() { h.client.CloseIdleConnections() }

// grpcConnections share the calls, as several exporters would.
const grpcConnections = 4

type grpcSender struct {
	connections []*grpc.ClientConn
	key         string
	next        atomic.Uint64
}

func dialGRPC(s *server) (sender, error) {
	g := &grpcSender{key: s.key}
	for range grpcConnections {
		c, err := grpc.NewClient(s.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithDefaultCallOptions(grpc.ForceCodecV2(bytesCodec{})))
		if err != nil {
			g.close()
			return nil, err
		}
		g.connections = append(g.connections, c)
	}
	return g, nil
}

func (g *grpcSender) send(ctx context.Context, body []byte) error {
	if g.key != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+g.key)
	}
	var answer []byte
	c := g.connections[g.next.Add(1)%grpcConnections]
	err := c.Invoke(ctx, "/opentelemetry.proto.collector.trace.v1.TraceService/Export", body, &answer)
	if err != nil {
		return err
	}
	return accepted(answer)
}

func (g *grpcSender) close() {
	for _, c := range g.connections {
		_ = c.Close() // there is nothing to be lost
	}
}

// bytesCodec passes encoded messages through.
type bytesCodec struct{}

func (bytesCodec) Name() string { return "proto" }

func (bytesCodec) Marshal(v any) (mem.BufferSlice, error) {
	body, ok := v.([]byte)
	if !ok {
		return nil, fmt.Errorf("cannot send %T", v)
	}
	return mem.BufferSlice{mem.SliceBuffer(body)}, nil
}

func (bytesCodec) Unmarshal(data mem.BufferSlice, v any) error {
	answer, ok := v.(*[]byte)
	if !ok {
		return fmt.Errorf("cannot receive %T", v)
	}
	*answer = data.Materialize()
	return nil
}
