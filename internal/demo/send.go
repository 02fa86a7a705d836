// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
)

// transport is the OTLP transport of a service.
type transport int

const (
	overGRPC transport = iota
	overHTTP           // protobuf
	overJSON           // over HTTP
)

// sendTimeout limits one request.
const sendTimeout = 10 * time.Second

// sender sends batches. It is safe for concurrent use.
type sender struct {
	authorization string
	url           string // of OTLP/HTTP, without the path
	client        *http.Client
	conn          *grpc.ClientConn
}

func newSender(cfg Config) (*sender, error) {
	conn, err := grpc.NewClient(cfg.GRPCAddress, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", cfg.GRPCAddress, err)
	}
	return &sender{
		authorization: "Bearer " + string(cfg.Key),
		url:           "http://" + cfg.HTTPAddress,
		client:        &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: len(fleet)}, Timeout: sendTimeout},
		conn:          conn,
	}, nil
}

func (s *sender) close() {
	s.client.CloseIdleConnections()
	s.conn.Close()
}

// encoder is a request of any signal.
type encoder interface {
	MarshalProto() ([]byte, error)
	MarshalJSON() ([]byte, error)
}

// request is a request of one signal.
type request struct {
	signal string // as in the path of OTLP/HTTP
	encoder
}

// requests returns a request for each signal that the batch contains.
func (b *batch) requests() []request {
	var all []request
	if b.traces.SpanCount() > 0 {
		all = append(all, request{"traces", ptraceotlp.NewExportRequestFromTraces(b.traces)})
	}
	if b.metrics.DataPointCount() > 0 {
		all = append(all, request{"metrics", pmetricotlp.NewExportRequestFromMetrics(b.metrics)})
	}
	if b.logs.LogRecordCount() > 0 {
		all = append(all, request{"logs", plogotlp.NewExportRequestFromLogs(b.logs)})
	}
	return all
}

// send sends the signals of a batch one after the other.
func (s *sender) send(ctx context.Context, t transport, b *batch) error {
	for _, r := range b.requests() {
		var err error
		if t == overGRPC {
			err = s.export(ctx, r)
		} else {
			err = s.post(ctx, t, r)
		}
		if err != nil {
			return fmt.Errorf("send %s: %w", r.signal, err)
		}
	}
	return nil
}

func (s *sender) export(ctx context.Context, r request) error {
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(ctx, "authorization", s.authorization), sendTimeout)
	defer cancel()
	var err error
	switch e := r.encoder.(type) {
	case ptraceotlp.ExportRequest:
		_, err = ptraceotlp.NewGRPCClient(s.conn).Export(ctx, e)
	case pmetricotlp.ExportRequest:
		_, err = pmetricotlp.NewGRPCClient(s.conn).Export(ctx, e)
	case plogotlp.ExportRequest:
		_, err = plogotlp.NewGRPCClient(s.conn).Export(ctx, e)
	}
	return err
}

func (s *sender) post(ctx context.Context, t transport, r request) error {
	encode, contentType := r.MarshalProto, "application/x-protobuf"
	if t == overJSON {
		encode, contentType = r.MarshalJSON, "application/json"
	}
	body, err := encode()
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v1/"+r.signal, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", contentType)
	req.Header.Set("Authorization", s.authorization)
	resp, err := s.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<20)); err != nil {
		return fmt.Errorf("read response: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("server responded with %s", resp.Status)
	}
	return nil
}
