// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"time"

	"assay"
	"assay/internal/fair"
	"assay/internal/netguard"
)

// Defaults of Config.
const (
	DefaultTimeout        = 30 * time.Second
	DefaultConnectTimeout = 2 * time.Second
	DefaultBodyTimeout    = 15 * time.Second
	DefaultMaxInFlight    = 1024
)

// Config configures a Gateway. URL and Sign are required.
type Config struct {
	// URL is the URL of the backend, http or https. Its path, if any, is the prefix of the path of each call.
	URL string

	// Sign returns a token that identifies the caller to the backend. It is called once for each call.
	Sign func(ctx context.Context, caller *assay.Principal) (string, error)

	// Timeout limits the time until the header of the backend's response arrives, including retries. Default:
	// DefaultTimeout.
	Timeout time.Duration
	// ConnectTimeout limits the time to connect, and separately the TLS handshake. Default: DefaultConnectTimeout.
	ConnectTimeout time.Duration
	// BodyTimeout limits the time to read the body of a response after its header. Default: DefaultBodyTimeout.
	BodyTimeout time.Duration

	// MaxInFlight limits the calls in flight, which the organizations share: see fair.Limiter. Default:
	// DefaultMaxInFlight.
	MaxInFlight int

	// CPU limits how many responses are parsed at a time, by organization; nil: no limit.
	CPU *fair.Semaphore

	// Transport replaces the connection to the backend, for an agent in this process (package inprocess). The fields below have
	// no effect then.
	Transport http.RoundTripper

	CAFile   string // CA certificates for the backend in PEM; "" for those of the system
	CertFile string // client certificate in PEM; read again for each connection
	KeyFile  string // private key of the client certificate in PEM

	// Wrap wraps the transport for traces and metrics. nil: the transport is not wrapped.
	Wrap func(http.RoundTripper) http.RoundTripper
	// Observe is called after every call. It may be nil. It is called concurrently and must return soon.
	Observe func(Event)

	Now    func() time.Time // default time.Now
	Logger *slog.Logger     // default: none
}

// Gateway forwards calls to the backend. It implements assay.AgentBackend and is safe for concurrent use.
type Gateway struct {
	cfg       Config
	base      *url.URL
	transport http.RoundTripper
	idle      func() // closes idle connections
	breaker   breaker
	inFlight  *fair.Limiter // by organization
	memory    *fair.Limiter // bytes of large responses, by organization
	maxBody   int           // bytes of a response, uncompressed
	after     func(d time.Duration, f func()) timer
}

// timer is the part of time.Timer that the gateway uses.
type timer interface {
	Reset(d time.Duration) bool
	Stop() bool
}

func afterFunc(d time.Duration, f func()) timer { return time.AfterFunc(d, f) }

var _ assay.AgentBackend = (*Gateway)(nil)

// New returns a Gateway. It does not connect to the backend, which may be down.
func New(cfg Config) (*Gateway, error) {
	base, err := parseBase(cfg.URL)
	if err != nil {
		return nil, fmt.Errorf("URL of the agent backend: %w", err)
	}
	if cfg.Sign == nil {
		return nil, errors.New("agent backend: Sign is required")
	}
	cfg.Timeout = cmp.Or(max(cfg.Timeout, 0), DefaultTimeout)
	cfg.ConnectTimeout = cmp.Or(max(cfg.ConnectTimeout, 0), DefaultConnectTimeout)
	cfg.BodyTimeout = cmp.Or(max(cfg.BodyTimeout, 0), DefaultBodyTimeout)
	cfg.MaxInFlight = cmp.Or(max(cfg.MaxInFlight, 0), DefaultMaxInFlight)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	transport, idle := cfg.Transport, func() {}
	if transport == nil {
		t, err := newTransport(&cfg)
		if err != nil {
			return nil, fmt.Errorf("agent backend: %w", err)
		}
		transport, idle = t, t.CloseIdleConnections
	}
	g := &Gateway{
		cfg: cfg, base: base, transport: transport, idle: idle,
		inFlight: fair.NewLimiter(int64(cfg.MaxInFlight)), memory: fair.NewLimiter(maxMemory), maxBody: maxBody, after: afterFunc,
	}
	if cfg.Wrap != nil {
		g.transport = cfg.Wrap(transport)
	}
	if cfg.Transport == nil && base.Scheme == "http" && !netguard.IsLoopback(base.Hostname()) {
		cfg.Logger.Warn("the URL of the agent backend is not https: requests and tokens are not encrypted", "host", base.Host)
	}
	return g, nil
}

// Close closes idle connections. Further calls are possible.
func (g *Gateway) Close() { g.idle() }

// Forward implements assay.AgentBackend. If ctx is canceled because the caller disconnected, the call does not count as
// a failure of the backend. If the deadline of ctx passes, it does.
func (g *Gateway) Forward(ctx context.Context, c *assay.AgentCall) (*assay.AgentAnswer, error) {
	target, err := g.target(c.Path, c.Query)
	if err != nil {
		return nil, err
	}
	began := g.cfg.Now()
	r := g.admit(ctx, c, target)
	g.record(ctx, c, &r, g.cfg.Now().Sub(began))
	return r.answer, r.err
}

// result is the result of a call. Either answer or err is set.
type result struct {
	answer  *assay.AgentAnswer
	err     error
	outcome Outcome
	status  int  // of the backend's response; 0 if there is none
	failed  bool // the breaker counts the call as a failure of the backend
}

// admit makes a call, unless there are too many or the circuit is open.
func (g *Gateway) admit(ctx context.Context, c *assay.AgentCall, target *url.URL) result {
	organization := c.Caller.OrganizationID
	if !g.inFlight.Acquire(organization, 1) {
		return tooMany()
	}
	defer g.inFlight.Release(organization, 1)
	probe, wait := g.breaker.begin(organization, g.cfg.Now())
	if wait > 0 {
		return result{
			outcome: OutcomeOpenCircuit,
			err:     unavailable("the agent backend keeps failing and is left alone for a moment", nil, wait),
		}
	}
	r := g.exchange(ctx, c, target)
	v := verdictUnknown
	switch {
	case r.failed:
		v = verdictFailed
	case r.status != 0:
		v = verdictAlive
	}
	switch g.breaker.end(organization, g.cfg.Now(), probe, v) {
	case circuitOpened:
		g.cfg.Logger.WarnContext(ctx, "the agent backend keeps failing: calls of the organization are refused until one gets through",
			"organization", organization, "failures_in_a_row", maxFailures)
	case circuitClosed:
		g.cfg.Logger.InfoContext(ctx, "the agent backend answers again", "organization", organization)
	}
	return r
}

// exchange sends a call and reads the response, each within its timeout.
func (g *Gateway) exchange(parent context.Context, c *assay.AgentCall, target *url.URL) result {
	token, err := g.cfg.Sign(parent, c.Caller)
	if err != nil {
		return result{outcome: OutcomeUnsigned, err: fmt.Errorf("sign a token for the agent backend: %w", err)}
	}
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	deadline := g.after(g.cfg.Timeout, func() { cancel(errSlow) })
	defer deadline.Stop()

	resp, a, err := g.send(ctx, c, target, token)
	if err != nil {
		return brokenResult(ctx, err, a.connected.Load())
	}
	defer resp.Body.Close()
	deadline.Reset(g.cfg.BodyTimeout)

	b := &bodyReader{memory: g.memory, organization: c.Caller.OrganizationID}
	defer b.release()
	r := g.read(ctx, c, resp, b)
	r.status = resp.StatusCode
	r.failed = r.failed || r.status >= http.StatusInternalServerError
	return r
}

// errSlow is the cancellation cause when a phase exceeds its timeout.
var errSlow = errors.New("out of time")

// brokenResult returns the result of an exchange that failed with err.
func brokenResult(ctx context.Context, err error, connected bool) result {
	slow := context.Cause(ctx) == errSlow || errors.Is(ctx.Err(), context.DeadlineExceeded)
	switch {
	case ctx.Err() != nil && !slow:
		return result{outcome: OutcomeCanceled, err: fmt.Errorf("the caller of the agent backend disconnected: %w", ctx.Err())}
	case !connected:
		return result{
			outcome: OutcomeUnreachable, failed: true,
			err: unavailable("the agent backend cannot be reached", err, defaultRetry),
		}
	case slow:
		return result{
			outcome: OutcomeTimeout, failed: true,
			err: upstream("the agent backend took too long to answer", nil),
		}
	default:
		return result{
			outcome: OutcomeBroken, failed: true,
			err: upstream("the connection to the agent backend broke", err),
		}
	}
}

func tooMany() result {
	return result{
		outcome: OutcomeTooMany,
		err:     unavailable("too many requests are waiting for the agent backend", nil, time.Second),
	}
}

// send sends a call and returns the response when its header has arrived. It retries a GET once if the connection
// broke before any byte of the response.
func (g *Gateway) send(ctx context.Context, c *assay.AgentCall, target *url.URL, token string) (*http.Response, *attempt, error) {
	header := g.header(c, token)
	for second := false; ; second = true {
		a := new(attempt)
		ctx := ctx
		if c.Method == http.MethodGet {
			ctx = a.withoutRetry(ctx)
		}
		req := (&http.Request{
			Method: c.Method, URL: target, Host: target.Host, Header: header,
			Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		}).WithContext(a.traced(ctx))
		if len(c.Body) > 0 {
			setBody(req, c.Body)
		}
		resp, err := g.transport.RoundTrip(req)
		retry := c.Method == http.MethodGet && !second && a.connected.Load() && !a.answered.Load() && ctx.Err() == nil
		if err == nil || !retry {
			return resp, a, err
		}
	}
}

// setBody sets the body of a request. net/http may send it again on another connection if the backend cannot have
// received any of the request.
func setBody(req *http.Request, body []byte) {
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	req.ContentLength = int64(len(body))
	req.GetBody = open
	req.Body, _ = open()
}

// header returns the header of the request to the backend.
func (g *Gateway) header(c *assay.AgentCall, token string) http.Header {
	h := make(http.Header, len(c.Header)+4)
	h["User-Agent"] = noUserAgent
	maps.Copy(h, c.Header)
	h["Authorization"] = []string{"Bearer " + token}
	if len(h["X-Request-Id"]) == 0 {
		h["X-Request-Id"] = []string{c.TraceID}
	}
	return h
}

// noUserAgent prevents net/http from sending its own User-Agent.
var noUserAgent = []string{""}
