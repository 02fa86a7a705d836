// SPDX-License-Identifier: Apache-2.0

//go:build linux

package faults

import (
	"context"
	"errors"
	"fmt"
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
	"google.golang.org/grpc/status"

	"assay/internal/assaytest"
)

const (
	attemptTimeout = 5 * time.Second // the Collector's default
	firstBackoff   = 50 * time.Millisecond
	maxBackoff     = time.Second

	// Maximum requests in flight: tracesInFlight to each replica for spans of its shards, othersInFlight to
	// all replicas together for other requests.
	tracesInFlight = 8
	othersInFlight = 16
)

// Target is the OTLP address of a replica.
type Target struct {
	Name     string
	OTLPHTTP string // host and port
	OTLPGRPC string // host and port
}

// Sender sends loads to replicas like a Collector: it repeats the same bytes after a retryable error until
// they are acknowledged. Spans always go to the replica of their shard and wait for it. Other requests go to
// the replicas in turn.
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

// NewSender returns a sender. The keys have the scope ingest, by organization. Call Close to close its
// connections.
func NewSender(targets []Target, keys map[string]string, ledger *Ledger) (*Sender, error) {
	s := &Sender{ledger: ledger, keys: keys}
	for _, t := range targets {
		conn, err := assaytest.Dial(t.OTLPGRPC, grpc.WithConnectParams(grpc.ConnectParams{
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

// Close closes the connections.
func (s *Sender) Close() {
	for _, t := range s.targets {
		t.client.CloseIdleConnections()
		t.conn.Close()
	}
}

// Send sends a load, one round per interval. It returns when all requests are acknowledged or refused, or
// when ctx has ended.
func (s *Sender) Send(ctx context.Context, l *Load, every time.Duration) error {
	queues := make([]chan *Request, len(s.targets)+1) // the last queue is for requests that any replica may receive
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

// deliver sends a request until it is acknowledged, and repeats some requests after that.
func (s *Sender) deliver(ctx context.Context, r *Request) {
	if ctx.Err() != nil {
		return
	}
	s.ledger.sent(r)
	if !s.until(ctx, r) {
		return
	}
	s.ledger.acknowledged(r)
	if r.Repeat {
		s.ledger.repeated(r)
		s.until(ctx, r)
	}
}

// until sends a request until it is acknowledged. It returns false if it was not.
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

// choose returns the replica for the next attempt.
func (s *Sender) choose(r *Request) *target {
	n := uint64(len(s.targets))
	if r.Shard >= 0 {
		return s.targets[uint64(r.Shard)%n]
	}
	return s.targets[s.next.Add(1)%n]
}

// retryable is an error after which the same bytes are sent again.
type retryable struct {
	cause string        // short name
	after time.Duration // delay requested by the server; 0 without one
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

// post sends over OTLP/HTTP. The OTLP specification defines the retryable statuses.
func (t *target) post(ctx context.Context, key string, r *Request) error {
	resp, err := assaytest.Post(ctx, t.client, "http://"+t.OTLPHTTP, key, r.Signal, r.Body)
	if err != nil && (resp == nil || resp.Status == http.StatusOK) { // a partial success is not retryable
		return &retryable{cause: causeOf(err)}
	}
	switch resp.Status {
	case http.StatusOK:
		return complete(resp.Body)
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After")) // 0 without the header
		return &retryable{cause: strconv.Itoa(resp.Status), after: time.Duration(seconds) * time.Second}
	default:
		return fmt.Errorf("%s: status %d: %q", t.Name, resp.Status, resp.Body)
	}
}

// complete checks that a response reports neither rejected records nor a warning.
func complete(body []byte) error {
	if len(body) != 0 {
		return fmt.Errorf("partial success: %q", body)
	}
	return nil
}

func causeOf(err error) string {
	if timeout, ok := errors.AsType[net.Error](err); errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) || ok && timeout.Timeout() {
		return "no answer"
	}
	return "connection"
}

// call sends over OTLP/gRPC. The OTLP specification defines the retryable codes.
func (t *target) call(ctx context.Context, key string, r *Request) error {
	answer, err := assaytest.Export(ctx, t.conn, key, r.Signal, r.Body)
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
			return fmt.Errorf("%s: %w", t.Name, err)
		}
	default:
		return fmt.Errorf("%s: %w", t.Name, err)
	}
	return &retryable{cause: s.Code().String(), after: after}
}
