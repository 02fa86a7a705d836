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
	maxRequest        = 4 << 20 // bytes, uncompressed
	maxConnections    = 64
	maxServices       = 50
	maxMetricNames    = 1_000 // of a service
	traceMemory       = 64 << 20
	portGRPC          = 4317
	portHTTP          = 4318
	requestOverhead   = 100 // bytes that a stored request needs besides its own
	organizationInRun = "tests"
)

// receiver stores the telemetry of one run of the tests.
type receiver struct {
	*receive.Receiver
	servers sync.WaitGroup

	mu       sync.Mutex
	begun    int // requests, also invalid ones
	requests []offline.Input
	bytes    int
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
		r.servers.Go(func() { _ = r.Serve(t, listeners[i]) })
	}
}

var errTooMuch = assay.Errorf(assay.CodeTooLarge, "the tests send too much telemetry")

// admit admits a request to the limits, before its body is read and uncompressed.
func (r *receiver) admit(context.Context, string, string) (*assay.Principal, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.begun == maxRequests {
		r.dropped = true
	}
	if r.dropped {
		return nil, errTooMuch
	}
	r.begun++
	return &assay.Principal{OrganizationID: organizationInRun, Scopes: []assay.Scope{assay.ScopeIngest}}, nil
}

// Ingest implements receive.Ingester.
func (r *receiver) Ingest(_ context.Context, _ string, signal wire.Signal, body []byte) (string, error) {
	if err := wire.Validate(signal, body); err != nil {
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

// close stops the receiver and returns what it received, and whether there was more.
func (r *receiver) close() ([]offline.Input, bool) {
	_ = r.Shutdown(context.Background()) // ends: the senders are dead
	r.servers.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.requests, r.dropped
}

// evaluate evaluates telemetry by the rules.
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
