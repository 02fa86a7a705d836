// SPDX-License-Identifier: Apache-2.0

package receive

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"sync"
	"time"

	"google.golang.org/grpc"

	"assay"
	"assay/internal/connlimit"
	"assay/internal/fair"
	"assay/internal/wire"
)

// The defaults of Config.
const (
	DefaultMaxPacked      = 16 << 20
	DefaultMaxUnpacked    = 64 << 20
	DefaultInFlightBytes  = 256 << 20
	DefaultArrivalTimeout = 30 * time.Second
	DefaultAnswerTimeout  = 10 * time.Second
	DefaultMaxConnections = 2048
)

const (
	// maxRequests limits the requests in flight, and with it what the transports
	// buffer outside of the budget: some streamWindow per request.
	maxRequests = 1024
	// maxEnding limits the requests that had to give way and have not ended yet.
	maxEnding = 256
	// streamWindow is how many bytes an HTTP/2 client may send ahead of what was read of its request.
	streamWindow = 128 << 10
	// maxHeaderBytes bounds the headers of a request, for HTTP the request line included.
	maxHeaderBytes = 16 << 10
	// headerSlop is how many bytes net/http reads past http.Server.MaxHeaderBytes.
	headerSlop = 4096
	// maxStreams bounds the requests at a time on one gRPC connection, maxHTTPStreams those
	// on one HTTP/2 connection of OTLP/HTTP, each with its headers in memory until its
	// answer has been written.
	maxStreams     = 128
	maxHTTPStreams = 8
	// idleTimeout ends connections without a request.
	idleTimeout = 5 * time.Minute
	// pingAfter and pingTimeout end HTTP/2 connections that are dead, or on which
	// a frame takes longer than both to arrive.
	pingAfter   = 20 * time.Second
	pingTimeout = 10 * time.Second
	// maxWait is how long a request waits for memory in all.
	maxWait = 2 * time.Second
	// drainGrace is how long a body may go on arriving once Shutdown was called.
	drainGrace = time.Second
)

// Ingester judges and commits one request. Implementations may be used
// concurrently.
type Ingester interface {
	// Ingest returns after the commit. body is the uncompressed protobuf request;
	// it is only read, and not kept after Ingest returns. A warning that is not
	// empty is told to the sender as a partial success with nothing rejected.
	//
	// A *wire.Error or a code of package assay decides on the answer: malformed
	// input and assay.CodeInvalid are the sender's fault, assay.CodeUnavailable and the
	// end of ctx ask the sender to try again, anything else is logged and told as an
	// internal error without its text.
	Ingest(ctx context.Context, organizationID string, signal wire.Signal, body []byte) (warning string, err error)
}

// Authenticate finds out who sent the value of an Authorization header from an
// address; both may be empty. Errors have an *assay.Error in their chain. Whether the
// caller may send telemetry is not its concern. It may be called concurrently.
type Authenticate func(ctx context.Context, authorization, remoteAddr string) (*assay.Principal, error)

// Config says what a Receiver needs. Zero numbers mean the defaults.
type Config struct {
	Authenticate Authenticate // required
	Ingester     Ingester     // required

	MaxPacked   int64 // bytes of a compressed body
	MaxUnpacked int64 // bytes of an uncompressed body, as sent or unpacked

	// InFlightBytes is the memory for the bodies of all requests at a time, of both
	// transports. It has to hold one body of the largest size, packed and unpacked.
	// The default is raised where the limits above ask for it.
	InFlightBytes int64

	// MaxRate is how many bytes of uncompressed telemetry each organization may send a
	// second, on average over MaxUnpacked or ten seconds of it, whichever is more. 0
	// means no limit.
	MaxRate int64

	// MaxConnections is how many connections each transport has at most. See package
	// connlimit for what happens at the limit.
	MaxConnections int

	ArrivalTimeout time.Duration // for a request's header and body to arrive
	AnswerTimeout  time.Duration // for everything else

	// TLS is used on both transports. nil means plain text.
	TLS *tls.Config

	// Observe is called once for each request of a known signal, after its end. nil
	// means nobody watches. It has to return quickly and may be called concurrently.
	Observe func(Event)

	Logger *slog.Logger // nil means slog.Default
}

// Transport is how a request came in.
type Transport string

// The transports.
const (
	GRPC Transport = "grpc"
	HTTP Transport = "http"
)

// Event is what became of one request.
type Event struct {
	RequestID      string // see package requestid
	OrganizationID string // "" where the credential tells none

	Transport Transport
	Signal    wire.Signal
	Outcome   Outcome
	Received  int64 // bytes of the body as sent, as far as they were read
	Unpacked  int64 // bytes of the protobuf request that went to the Ingester, else 0
	Duration  time.Duration
}

// Receiver is the OTLP intake. Its methods may be called concurrently.
type Receiver struct {
	cfg     Config
	log     *slog.Logger
	budget  *budget
	turns   *fair.Semaphore // to unpack
	rates   *rates          // nil: without a limit
	unpack  *unpacker
	grpc    *grpc.Server
	http    *http.Server
	arrival context.Context // ends when bodies must no longer arrive

	connections map[Transport]*connlimit.Limiter // does not change

	endArrival context.CancelFunc
	shutdown   sync.Once
	stopped    chan struct{} // closed when Shutdown is through

	mu     sync.Mutex
	state  state
	active int           // requests between begin and end
	idle   chan struct{} // closed when draining and no request is active
}

// state is where a Receiver is in its life. It only moves forward.
type state uint8

const (
	serving  state = iota
	draining       // no request begins any more
	closed         // no body is handed to the Ingester any more
)

// New returns a Receiver that serves nobody yet.
func New(cfg Config) (*Receiver, error) {
	if cfg.Authenticate == nil || cfg.Ingester == nil {
		return nil, errors.New("receive: Authenticate and Ingester are required")
	}
	setDefault(&cfg.MaxPacked, DefaultMaxPacked)
	setDefault(&cfg.MaxUnpacked, DefaultMaxUnpacked)
	largest := cfg.MaxPacked + 2*cfg.MaxUnpacked // unpacking may have to move to a larger buffer
	setDefault(&cfg.InFlightBytes, max(DefaultInFlightBytes, largest))
	setDefault(&cfg.ArrivalTimeout, DefaultArrivalTimeout)
	setDefault(&cfg.AnswerTimeout, DefaultAnswerTimeout)
	setDefault(&cfg.MaxConnections, DefaultMaxConnections)
	if cfg.MaxPacked < 0 || cfg.MaxUnpacked < 0 || cfg.MaxRate < 0 || cfg.MaxConnections < 0 || cfg.ArrivalTimeout < 0 || cfg.AnswerTimeout < 0 {
		return nil, errors.New("receive: limits and timeouts must not be negative")
	}
	if cfg.InFlightBytes < largest {
		return nil, fmt.Errorf("receive: %d bytes in flight do not hold the largest request, which needs %d", cfg.InFlightBytes, largest)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	unpack, err := newUnpacker(cfg.MaxUnpacked)
	if err != nil {
		return nil, err
	}
	r := &Receiver{
		cfg:     cfg,
		log:     cfg.Logger,
		budget:  newBudget(cfg.InFlightBytes, largest, maxRequests),
		turns:   fair.NewSemaphore(2*runtime.GOMAXPROCS(0), runtime.GOMAXPROCS(0)),
		unpack:  unpack,
		stopped: make(chan struct{}),
		idle:    make(chan struct{}),
	}
	r.connections = map[Transport]*connlimit.Limiter{GRPC: r.limiter(GRPC), HTTP: r.limiter(HTTP)}
	if cfg.MaxRate > 0 {
		r.rates = newRates(cfg.MaxRate, max(10*cfg.MaxRate, cfg.MaxUnpacked))
	}
	r.arrival, r.endArrival = context.WithCancel(context.Background())
	r.grpc = r.newGRPCServer()
	r.http = r.newHTTPServer()
	return r, nil
}

func setDefault[T int | int64 | time.Duration](v *T, value T) {
	if *v == 0 {
		*v = value
	}
}

// Serve takes OTLP over t from l until Shutdown, then returns nil. HTTP means
// HTTP/1.1 and HTTP/2, also without TLS. Serve closes l.
func (r *Receiver) Serve(t Transport, l net.Listener) error {
	defer func() { _ = l.Close() }() // a server that was shut down before does not
	limiter := r.connections[t]
	if limiter == nil {
		return fmt.Errorf("receive: unknown transport %q", t)
	}
	l = limiter.Listener(l)
	var err error
	switch {
	case t == GRPC:
		err = r.grpc.Serve(l)
	case r.cfg.TLS != nil:
		err = r.http.ServeTLS(l, "", "")
	default:
		err = r.http.Serve(l)
	}
	if errors.Is(err, grpc.ErrServerStopped) || errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// limiter returns the limiter of a transport's connections.
func (r *Receiver) limiter(t Transport) *connlimit.Limiter {
	return connlimit.New(connlimit.Config{Limit: r.cfg.MaxConnections, Full: func(closed, refused uint64) {
		r.log.LogAttrs(context.Background(), slog.LevelWarn, "connections for OTLP are at their limit; new ones take the place of idle ones",
			slog.String("transport", string(t)), slog.Int("limit", r.cfg.MaxConnections), slog.Uint64("closed", closed), slog.Uint64("refused", refused))
	}})
}

// Connections returns the connections of a transport: see connlimit.Limiter.Stats.
func (r *Receiver) Connections(t Transport) (open int, closed, refused uint64) {
	return r.connections[t].Stats()
}

// Requests returns how many requests are being received at the moment.
func (r *Receiver) Requests() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.active
}

// BytesInFlight returns how many bytes of memory bodies hold at the moment.
func (r *Receiver) BytesInFlight() int64 { return r.budget.held() }

// Shutdown ends the intake. From its call on new requests are refused as
// retryable; bodies may arrive for a second more; requests that have arrived are
// finished and answered. When ctx ends first, connections are cut and its error is
// returned. Once Shutdown has returned, no further body goes to the Ingester, though a call
// that ctx cut short may still be running. Shutdown can be called before serving and more than once.
func (r *Receiver) Shutdown(ctx context.Context) error {
	r.shutdown.Do(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.state = draining
		if r.active == 0 {
			close(r.idle)
		}
		go r.drain()
	})
	select {
	case <-r.stopped:
		return nil
	case <-ctx.Done():
	}
	r.mu.Lock()
	r.state = closed
	r.mu.Unlock()
	r.endArrival()
	r.cut()
	return fmt.Errorf("receive: shutting down: %w", context.Cause(ctx))
}

// drain ends the servers gently.
func (r *Receiver) drain() {
	defer close(r.stopped)
	grace := time.AfterFunc(drainGrace, r.endArrival)
	defer grace.Stop()
	defer r.endArrival()

	var servers sync.WaitGroup
	servers.Go(r.grpc.GracefulStop)
	servers.Go(func() { _ = r.http.Shutdown(context.Background()) })
	ended := make(chan struct{})
	go func() {
		servers.Wait()
		close(ended)
	}()
	<-r.idle
	// What is left are connections without a request. Either server would wait for
	// some of them, such as silent new ones, for longer than the answers need to be sent.
	linger := time.NewTimer(drainGrace)
	defer linger.Stop()
	select {
	case <-ended:
	case <-linger.C:
		r.cut()
		<-ended
	}
	r.mu.Lock()
	r.state = closed
	r.mu.Unlock()
}

// cut closes all connections.
func (r *Receiver) cut() {
	r.grpc.Stop()
	_ = r.http.Close() // the error is that of a listener, which is closed by then
}

// begin admits a request, which has to end.
func (r *Receiver) begin() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state != serving {
		return errDraining
	}
	if r.active >= maxRequests+maxEnding {
		return errBusy
	}
	r.active++
	return nil
}

// end ends a request.
func (r *Receiver) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.active--
	if r.state != serving && r.active == 0 {
		close(r.idle)
	}
}

// open tells whether bodies still go to the Ingester.
func (r *Receiver) open() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state != closed
}
