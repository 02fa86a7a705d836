// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"assay/internal/assaytest"
	"assay/internal/wire"
)

// sender sends encoded trace requests. It is safe for concurrent use.
type sender struct {
	send  func(ctx context.Context, body []byte) error
	close func()
}

// sendAll sends every request of a workload once, several concurrently. Any response
// except a complete acceptance is an error.
func sendAll(ctx context.Context, to *sender, w *workload) error {
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

func dialHTTP(s *server) (*sender, error) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: senders}}
	send := func(ctx context.Context, body []byte) error {
		r, err := assaytest.Post(ctx, client, s.OTLPHTTP, s.key, wire.Traces, body)
		switch {
		case err != nil:
			return err
		case r.Status != http.StatusOK:
			return fmt.Errorf("status %d: %q", r.Status, r.Body)
		}
		return accepted(r.Body)
	}
	return &sender{send, client.CloseIdleConnections}, nil
}

// accepted reports whether a response accepts all records.
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

// grpcConnections share the calls, as with several exporters.
const grpcConnections = 4

func dialGRPC(s *server) (*sender, error) {
	var connections []*grpc.ClientConn
	var next atomic.Uint64
	g := &sender{
		send: func(ctx context.Context, body []byte) error {
			answer, err := assaytest.Export(ctx, connections[next.Add(1)%grpcConnections], s.key, wire.Traces, body)
			if err != nil {
				return err
			}
			return accepted(answer)
		},
		close: func() {
			for _, c := range connections {
				_ = c.Close() // no data can be lost
			}
		},
	}
	for range grpcConnections {
		c, err := assaytest.Dial(s.OTLPGRPC)
		if err != nil {
			g.close()
			return nil, err
		}
		connections = append(connections, c)
	}
	return g, nil
}
