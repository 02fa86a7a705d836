// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"

	"assay"
	"assay/internal/offline"
	"assay/internal/receive"
	"assay/internal/report"
	"assay/internal/wire"
)

// Limits of the telemetry of one run of the tests.
const (
	maxTelemetry      = 32 << 20 // bytes, uncompressed
	maxRequests       = 20_000
	maxInvalid        = 2_000    // requests that are not stored, including those in flight
	maxTraffic        = 64 << 20 // bytes of all connections in both directions
	maxRequest        = 4 << 20  // bytes, uncompressed
	maxConnections    = 64
	maxServices       = 50
	maxMetricNames    = 1_000 // of a service
	traceMemory       = 64 << 20
	portGRPC          = 4317
	portHTTP          = 4318
	requestOverhead   = 100     // bytes that a stored request takes in addition to its body
	connectOverhead   = 2 << 10 // bytes of traffic that are counted for a connection, in addition to its data
	organizationInRun = "tests"
)

// receiver stores the telemetry of one run of the tests.
type receiver struct {
	*receive.Receiver
	servers sync.WaitGroup

	mu       sync.Mutex
	begun    int // requests, including invalid ones
	requests []offline.Input
	bytes    int
	traffic  int
	dropped  bool
}

func newReceiver() (*receiver, error) {
	r := &receiver{}
	var err error
	r.Receiver, err = receive.New(receive.Config{
		Authenticate: r.admit,
		Ingester:     r, MaxCompressed: maxRequest, MaxUncompressed: maxRequest, InFlightBytes: 4 * maxRequest, MaxConnections: maxConnections,
		Logger: slog.New(slog.DiscardHandler),
	})
	return r, err
}

// serve accepts telemetry on the listeners for portHTTP and portGRPC.
func (r *receiver) serve(listeners []net.Listener) {
	for i, t := range []receive.Transport{receive.HTTP, receive.GRPC} {
		r.servers.Go(func() { _ = r.Serve(t, &listener{listeners[i], r}) })
	}
}

// listener is a listener that counts the traffic of its connections. It closes the connections and itself at
// maxTraffic, since rejected requests use CPU time of the server, which has no other limit.
type listener struct {
	net.Listener
	receiver *receiver
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if !l.receiver.count(connectOverhead) {
		_, _ = c.Close(), l.Listener.Close()
		return nil, net.ErrClosed
	}
	return &conn{c, l.receiver}, nil
}

type conn struct {
	net.Conn
	receiver *receiver
}

// Read implements net.Conn.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if !c.receiver.count(n) {
		_ = c.Close()
		return 0, errTooMuch
	}
	return n, err
}

// Write implements net.Conn.
func (c *conn) Write(p []byte) (int, error) {
	if !c.receiver.count(len(p)) {
		_ = c.Close()
		return 0, errTooMuch
	}
	return c.Conn.Write(p)
}

// count counts traffic, and reports whether it is within maxTraffic.
func (r *receiver) count(bytes int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.traffic += bytes; r.traffic > maxTraffic {
		r.dropped = true
	}
	return r.traffic <= maxTraffic
}

var errTooMuch = assay.Errorf(assay.CodeTooLarge, "the tests send too much telemetry")

// admit applies the limits to a request before its body is read and uncompressed. It is the authentication of the
// receiver.
func (r *receiver) admit(context.Context, string, string) (*assay.Principal, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.begun == maxRequests || r.begun-len(r.requests) >= maxInvalid {
		r.dropped = true
	}
	if r.dropped {
		return nil, errTooMuch
	}
	r.begun++
	return &assay.Principal{OrganizationID: organizationInRun, Scopes: []assay.Scope{assay.ScopeIngest}}, nil
}

// Ingest implements receive.Ingester.
func (r *receiver) Ingest(ctx context.Context, _ string, signal wire.Signal, body []byte) (string, error) {
	if err := wire.ValidateContext(ctx, signal, body); err != nil {
		return "", err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	size := len(body) + requestOverhead
	if r.dropped || r.bytes+size > maxTelemetry {
		r.dropped = true
		return "", errTooMuch
	}
	r.bytes += size
	r.requests = append(r.requests, offline.Input{Name: signal.String(), Signal: signal, Request: append(make([]byte, 0, len(body)), body...)})
	return "", nil
}

// close stops the receiver. It returns the stored requests, and whether others were dropped.
func (r *receiver) close() ([]offline.Input, bool) {
	_ = r.Shutdown(context.Background()) // does not block, since the senders have exited
	r.servers.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.requests, r.dropped
}

// evaluate evaluates telemetry with the rules. Without requests, it returns an empty report.
func evaluate(ctx context.Context, requests []offline.Input) (*report.Report, error) {
	if len(requests) == 0 {
		return &report.Report{}, nil
	}
	r, err := offline.Score(ctx, offline.Config{
		Inputs: requests, MaxServices: maxServices, MaxMetricNames: maxMetricNames, TraceMemory: traceMemory, MaxRequest: maxRequest,
	})
	if err != nil {
		return nil, fmt.Errorf("evaluate the telemetry of the tests: %w", err)
	}
	return r, nil
}
