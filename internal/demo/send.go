// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"time"

	collogspb "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	colmetricspb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
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

// request is a request of one signal.
type request struct {
	signal string // as in the path of OTLP/HTTP
	proto.Message
}

// requests returns a request for each signal that the batch contains.
func (b *batch) requests() []request {
	var all []request
	if len(b.Traces.ResourceSpans) > 0 {
		all = append(all, request{"traces", b.Traces})
	}
	if len(b.Metrics.ResourceMetrics) > 0 {
		all = append(all, request{"metrics", b.Metrics})
	}
	if len(b.Logs.ResourceLogs) > 0 {
		all = append(all, request{"logs", b.Logs})
	}
	return all
}

// json encodes the request as OTLP/JSON, which is the JSON encoding of protobuf with numbers of enums and with
// hexadecimal ids.
func (r request) json() ([]byte, error) {
	m := r.Message
	if traces, ok := m.(*coltracepb.ExportTraceServiceRequest); ok {
		traces = proto.CloneOf(traces)
		for _, resource := range traces.ResourceSpans {
			for _, scope := range resource.ScopeSpans {
				for _, s := range scope.Spans {
					s.TraceId, s.SpanId, s.ParentSpanId = hexadecimal(s.TraceId), hexadecimal(s.SpanId), hexadecimal(s.ParentSpanId)
				}
			}
		}
		m = traces
	}
	return protojson.MarshalOptions{UseEnumNumbers: true}.Marshal(m)
}

// hexadecimal returns the bytes that protobuf's JSON encoding, base64, represents by the id's hexadecimal digits.
// An id has a multiple of four digits, so it needs no padding.
func hexadecimal(id []byte) []byte {
	b, _ := base64.StdEncoding.DecodeString(hex.EncodeToString(id))
	return b
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
	switch m := r.Message.(type) {
	case *coltracepb.ExportTraceServiceRequest:
		_, err = coltracepb.NewTraceServiceClient(s.conn).Export(ctx, m)
	case *colmetricspb.ExportMetricsServiceRequest:
		_, err = colmetricspb.NewMetricsServiceClient(s.conn).Export(ctx, m)
	case *collogspb.ExportLogsServiceRequest:
		_, err = collogspb.NewLogsServiceClient(s.conn).Export(ctx, m)
	}
	return err
}

func (s *sender) post(ctx context.Context, t transport, r request) error {
	body, err := proto.Marshal(r.Message)
	contentType := "application/x-protobuf"
	if t == overJSON {
		body, err = r.json()
		contentType = "application/json"
	}
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
