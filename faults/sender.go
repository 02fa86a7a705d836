// SPDX-License-Identifier: Apache-2.0

//go:build linux

package faults

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"assay/internal/wire"
)

const (
	attemptTimeout = 5 * time.Second // the Collector's default
	firstBackoff   = 50 * time.Millisecond
	maxBackoff     = time.Second
	maxAnswer      = 1 << 20

	// Requests under way at a time: for each replica those with spans of its
	// shards, and for all together the rest.
	tracesInFlight = 8
	othersInFlight = 16
)

// Target is where a replica takes telemetry.
type Target struct {
	Name     string
	OTLPHTTP string // host and port
	OTLPGRPC string // host and port
}

// Sender sends loads to replicas as Collectors do: the same bytes, after an error
// that is not for good, until they are acknowledged. Spans go to the replica of
// their shard, always, and wait for it; anything else to another one than before.
type Sender struct {
	ledger  *Ledger
	keys    map[string]string // by organization
	targets []*target
	next    atomic.Uint64
}

type target struct {
	Target
	client *http.Client
	conn   *grpc.ClientConn
}

// NewSender returns a sender; Close ends it. Keys are of scope ingest, by organization.
func NewSender(targets []Target, keys map[string]string, ledger *Ledger) (*Sender, error) {
	s := &Sender{ledger: ledger, keys: keys}
	for _, t := range targets {
		conn, err := grpc.NewClient(t.OTLPGRPC, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithConnectParams(grpc.ConnectParams{
				Backoff:           backoff.Config{BaseDelay: firstBackoff, Multiplier: 1.6, Jitter: 0.2, MaxDelay: maxBackoff},
				MinConnectTimeout: attemptTimeout,
			}))
		if err != nil {
			s.Close()
			return nil, fmt.Errorf("connect to %s: %w", t.OTLPGRPC, err)
		}
		s.targets = append(s.targets, &target{
			Target: t, conn: conn,
			client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: tracesInFlight + othersInFlight}},
		})
	}
	return s, nil
}

// Close gives the connections up.
func (s *Sender) Close() {
	for _, t := range s.targets {
		t.client.CloseIdleConnections()
		t.conn.Close()
	}
}

// Send sends a load, a round every so often, and returns when all of it is
// acknowledged or refused, or ctx has ended.
func (s *Sender) Send(ctx context.Context, l *Load, every time.Duration) error {
	queues := make([]chan *Request, len(s.targets)+1) // the last one for what may go anywhere
	for i := range queues {
		queues[i] = make(chan *Request, l.Requests())
	}
	var senders sync.WaitGroup
	for i, queue := range queues {
		n := tracesInFlight
		if i == len(s.targets) {
			n = othersInFlight
		}
		for range n {
			senders.Go(func() {
				for r := range queue {
					s.deliver(ctx, r)
				}
			})
		}
	}
	ticker := time.NewTicker(max(every, time.Nanosecond))
	defer ticker.Stop()
	for _, round := range l.Rounds {
		for _, r := range round {
			if r.Shard >= 0 {
				queues[r.Shard%len(s.targets)] <- r
			} else {
				queues[len(s.targets)] <- r
			}
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
	for _, queue := range queues {
		close(queue)
	}
	senders.Wait()
	return ctx.Err()
}

// deliver sends a request until it is acknowledged, and some once more after that.
func (s *Sender) deliver(ctx context.Context, r *Request) {
	if ctx.Err() != nil {
		return
	}
	s.ledger.sent(r)
	if !s.until(ctx, r) {
		return
	}
	s.ledger.acknowledged(r)
	if r.Again {
		s.ledger.sentAgain(r)
		s.until(ctx, r)
	}
}

// until sends a request until it is acknowledged; false when it never was.
func (s *Sender) until(ctx context.Context, r *Request) bool {
	wait := firstBackoff
	for {
		err := s.attempt(ctx, s.choose(r), r)
		if err == nil {
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		retry, ok := errors.AsType[*retryable](err)
		if !ok {
			s.ledger.refuse(r, err)
			return false
		}
		s.ledger.retried(r, retry.cause)
		jittered := time.Duration(float64(wait) * (0.5 + rand.Float64()))
		select {
		case <-time.After(max(jittered, retry.after)):
		case <-ctx.Done():
			return false
		}
		wait = min(2*wait, maxBackoff)
	}
}

// choose returns where a request goes next.
func (s *Sender) choose(r *Request) *target {
	n := uint64(len(s.targets))
	if r.Shard >= 0 {
		return s.targets[uint64(r.Shard)%n]
	}
	return s.targets[s.next.Add(1)%n]
}

// retryable is a failure after which the same bytes are sent again.
type retryable struct {
	cause string        // in a word
	after time.Duration // asked for by the server, 0 when it did not
}

func (e *retryable) Error() string { return e.cause }

func (s *Sender) attempt(ctx context.Context, t *target, r *Request) error {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	if r.GRPC {
		return t.call(ctx, s.keys[r.Organization], r)
	}
	return t.post(ctx, s.keys[r.Organization], r)
}

// post sends over OTLP/HTTP. What may be sent again follows the OTLP specification.
func (t *target) post(ctx context.Context, key string, r *Request) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+t.OTLPHTTP+"/v1/"+r.Signal.String(), bytes.NewReader(r.Body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := t.client.Do(req)
	if err != nil {
		return &retryable{cause: causeOf(err)}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	switch resp.StatusCode {
	case http.StatusOK:
		if err != nil { // it may have said that some of it was refused
			return &retryable{cause: causeOf(err)}
		}
		return complete(body)
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After")) // 0 where there is none
		return &retryable{cause: strconv.Itoa(resp.StatusCode), after: time.Duration(seconds) * time.Second}
	default:
		return fmt.Errorf("%s answered %s: %q", t.Name, resp.Status, body)
	}
}

// complete checks that a success is one of all records, without a warning.
func complete(body []byte) error {
	if len(body) != 0 {
		return fmt.Errorf("acknowledged in part: %q", body)
	}
	return nil
}

func causeOf(err error) string {
	if timeout, ok := errors.AsType[net.Error](err); errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) || ok && timeout.Timeout() {
		return "no answer"
	}
	return "connection"
}

var methods = map[wire.Signal]string{
	wire.Traces:  "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
	wire.Metrics: "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
	wire.Logs:    "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
}

// call sends over OTLP/gRPC. What may be sent again follows the OTLP specification.
func (t *target) call(ctx context.Context, key string, r *Request) error {
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+key)
	var answer []byte
	err := t.conn.Invoke(ctx, methods[r.Signal], r.Body, &answer, grpc.ForceCodecV2(rawCodec{}))
	if err == nil {
		return complete(answer)
	}
	s, _ := status.FromError(err)
	var after time.Duration
	told := false
	for _, d := range s.Details() {
		if info, ok := d.(*errdetails.RetryInfo); ok {
			after, told = info.GetRetryDelay().AsDuration(), true
		}
	}
	switch s.Code() {
	case codes.Canceled, codes.DeadlineExceeded, codes.Aborted, codes.OutOfRange, codes.Unavailable, codes.DataLoss:
	case codes.ResourceExhausted:
		if !told {
			return fmt.Errorf("%s answered %w", t.Name, err)
		}
	default:
		return fmt.Errorf("%s answered %w", t.Name, err)
	}
	return &retryable{cause: s.Code().String(), after: after}
}

// rawCodec sends and receives bytes as they are.
type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}
