// SPDX-License-Identifier: Apache-2.0

package receive

import (
	"cmp"
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
	DefaultMaxCompressed   = 16 << 20
	DefaultMaxUncompressed = 64 << 20
	DefaultInFlightBytes   = 256 << 20
	DefaultArrivalTimeout  = 30 * time.Second
	DefaultAnswerTimeout   = 10 * time.Second
	DefaultMaxConnections  = 2048
)

const (
	// maxRequests limits the requests in flight. It also limits the memory that the transports buffer outside the budget, about
	// one streamWindow per request.
	maxRequests = 1024
	// maxEnding limits the evicted requests that have not ended yet.
	maxEnding = 256
	// streamWindow is the number of bytes that a gRPC client may send before the receiver reads them.
	streamWindow = 128 << 10
	// maxHeaderBytes limits the headers of a request. For HTTP it includes the request line.
	maxHeaderBytes = 16 << 10
	// headerSlop is the number of bytes that net/http reads beyond http.Server.MaxHeaderBytes.
	headerSlop = 4096
	// maxStreams limits the concurrent requests on one gRPC connection. Each holds its headers in memory until its
	// response is written.
	maxStreams = 32
	// idleTimeout closes connections without a request.
	idleTimeout = 5 * time.Minute
	// pingAfter and pingTimeout close dead gRPC connections, and connections on which a frame takes longer than the sum
	// of both.
	pingAfter   = 20 * time.Second
	pingTimeout = 10 * time.Second
	// maxWait limits the total time that a request waits for memory.
	maxWait = 2 * time.Second
	// drainGrace is how long bodies may keep arriving after the call of Shutdown.
	drainGrace = time.Second
)

// Ingester evaluates and commits requests. Implementations must be safe for concurrent use.
type Ingester interface {
	// Ingest returns after the commit. body is the uncompressed protobuf request. Implementations must not modify it
	// or retain it after Ingest returns. A non-empty warning is returned to the sender as a partial success without
	// rejected records.
	//
	// A *wire.Error or an error code of package assay selects the response. Malformed input and assay.CodeInvalid are
	// client errors. assay.CodeUnavailable and the end of ctx are retryable. Any other error is logged, and the
	// sender receives an internal error without its text.
	Ingest(ctx context.Context, organizationID string, signal wire.Signal, body []byte) (warning string, err error)
}

// Authenticate returns the principal for the value of an Authorization header and a remote address. Both may be
// empty. Errors have an *assay.Error in their chain. Authenticate does not check whether the principal may send
// telemetry. It must be safe for concurrent use.
type Authenticate func(ctx context.Context, authorization, remoteAddr string) (*assay.Principal, error)

// Config configures a Receiver. A number of zero selects the default.
type Config struct {
	Authenticate Authenticate // required
	Ingester     Ingester     // required

	MaxCompressed   int64 // maximum size of a compressed body in bytes
	MaxUncompressed int64 // maximum size of an uncompressed body in bytes, as sent or decompressed

	// InFlightBytes is the memory for the bodies of all requests in flight on both transports. It has to hold one
	// body of the maximum size, compressed and uncompressed. The default is raised if the limits above require it.
	InFlightBytes int64

	// MaxRate limits the bytes per second of uncompressed telemetry of each organization. The burst is
	// MaxUncompressed or ten seconds of MaxRate, whichever is larger. 0 means no limit.
	MaxRate int64

	// CPU is used for decompression and transcoding. nil means its own semaphore.
	CPU *fair.Semaphore

	// MaxConnections limits the connections of each transport. See package connlimit for the behavior at the limit.
	MaxConnections int

	ArrivalTimeout time.Duration // limit for the header and body of a request to arrive
	AnswerTimeout  time.Duration // limit for all other work on a request

	// TLS is used on both transports. nil means plain text.
	TLS *tls.Config

	// WrapHTTP, if set, wraps the handler of OTLP/HTTP. It may answer requests itself, such as preflight requests of
	// browsers.
	WrapHTTP func(http.Handler) http.Handler

	// Observe, if set, is called once at the end of each request of a known signal. It must return quickly and be
	// safe for concurrent use.
	Observe func(Event)

	Logger *slog.Logger // nil means slog.Default
}

// Transport is the protocol of a request.
type Transport string

// The transports.
const (
	GRPC Transport = "grpc"
	HTTP Transport = "http"
)

// Event describes the end of one request.
type Event struct {
	RequestID      string // see package requestid
	OrganizationID string // "" if not authenticated

	Transport    Transport
	Signal       wire.Signal
	Outcome      Outcome
	Received     int64 // bytes read of the body as sent
	Uncompressed int64 // bytes of the protobuf request passed to the Ingester, else 0
	Duration     time.Duration
}

// Receiver is the OTLP receiver. Its methods are safe for concurrent use.
type Receiver struct {
	cfg        Config
	log        *slog.Logger
	budget     *budget
	rates      *rates // nil: no limit
	decompress *decompressor
	grpc       *grpc.Server
	http       *http.Server
	arrival    context.Context // ends when bodies may no longer arrive

	connections map[Transport]*connlimit.Limiter // read-only

	endArrival context.CancelFunc
	shutdown   sync.Once
	stopped    chan struct{} // closed when Shutdown is complete

	mu     sync.Mutex
	state  state
	active int           // requests between begin and end
	idle   chan struct{} // closed when draining and no request is active
}

// state is the lifecycle state of a Receiver. It only moves forward.
type state uint8

const (
	serving  state = iota
	draining       // no new requests
	closed         // no body is passed to the Ingester
)

// New returns a Receiver. Call Serve to accept connections.
func New(cfg Config) (*Receiver, error) {
	if cfg.Authenticate == nil || cfg.Ingester == nil {
		return nil, errors.New("receive: Authenticate and Ingester are required")
	}
	setDefault(&cfg.MaxCompressed, DefaultMaxCompressed)
	setDefault(&cfg.MaxUncompressed, DefaultMaxUncompressed)
	largest := cfg.MaxCompressed + 2*cfg.MaxUncompressed // decompression may have to copy to a larger buffer
	setDefault(&cfg.InFlightBytes, max(DefaultInFlightBytes, largest))
	setDefault(&cfg.ArrivalTimeout, DefaultArrivalTimeout)
	setDefault(&cfg.AnswerTimeout, DefaultAnswerTimeout)
	setDefault(&cfg.MaxConnections, DefaultMaxConnections)
	if cfg.MaxCompressed < 0 || cfg.MaxUncompressed < 0 || cfg.MaxRate < 0 || cfg.MaxConnections < 0 || cfg.ArrivalTimeout < 0 || cfg.AnswerTimeout < 0 {
		return nil, errors.New("receive: limits and timeouts must not be negative")
	}
	if cfg.InFlightBytes < largest {
		return nil, fmt.Errorf("receive: limit of %d bytes in flight is below the %d bytes that the largest request needs", cfg.InFlightBytes, largest)
	}
	if cfg.CPU == nil {
		cfg.CPU = fair.NewCPU(runtime.GOMAXPROCS(0), time.Now)
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	decompress, err := newDecompressor(cfg.MaxUncompressed)
	if err != nil {
		return nil, err
	}
	r := &Receiver{
		cfg:        cfg,
		log:        cfg.Logger,
		budget:     newBudget(cfg.InFlightBytes, largest, maxRequests),
		decompress: decompress,
		stopped:    make(chan struct{}),
		idle:       make(chan struct{}),
	}
	r.connections = map[Transport]*connlimit.Limiter{GRPC: r.limiter(GRPC), HTTP: r.limiter(HTTP)}
	if cfg.MaxRate > 0 {
		r.rates = newRates(cfg.MaxRate, max(10*cfg.MaxRate, cfg.MaxUncompressed))
	}
	r.arrival, r.endArrival = context.WithCancel(context.Background())
	r.grpc = r.newGRPCServer()
	r.http = r.newHTTPServer()
	return r, nil
}

func setDefault[T int | int64 | time.Duration](v *T, value T) {
	*v = cmp.Or(*v, value)
}

// Serve accepts OTLP connections of transport t on l until Shutdown, then returns nil. HTTP means HTTP/1.1,
// with or without TLS. Serve closes l.
func (r *Receiver) Serve(t Transport, l net.Listener) error {
	defer func() { _ = l.Close() }() // a server that was shut down before Serve does not close it
	limiter := r.connections[t]
	if limiter == nil {
		return fmt.Errorf("receive: unknown transport %q", t)
	}
	var err error
	if t == GRPC {
		err = r.grpc.Serve(limiter.Listener(l))
	} else {
		err = r.http.Serve(limiter.HTTPListener(l, r.cfg.TLS))
	}
	if errors.Is(err, grpc.ErrServerStopped) || errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// limiter returns the connection limiter of a transport.
func (r *Receiver) limiter(t Transport) *connlimit.Limiter {
	return connlimit.New(connlimit.Config{Limit: r.cfg.MaxConnections, Full: func(closed, refused uint64) {
		r.log.LogAttrs(context.Background(), slog.LevelWarn, "connections for OTLP are at their limit; new connections replace idle ones",
			slog.String("transport", string(t)), slog.Int("limit", r.cfg.MaxConnections), slog.Uint64("closed", closed), slog.Uint64("refused", refused))
	}})
}

// Connections returns the connection statistics of a transport, see connlimit.Limiter.Stats.
func (r *Receiver) Connections(t Transport) (open int, closed, refused uint64) {
	return r.connections[t].Stats()
}

// Requests returns the number of requests in flight.
func (r *Receiver) Requests() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.active
}

// BytesInFlight returns the bytes of memory that bodies in flight hold.
func (r *Receiver) BytesInFlight() int64 { return r.budget.held() }

// Shutdown stops the receiver. New requests are refused as retryable. Bodies may keep arriving for one second.
// Requests that have arrived are completed and answered. If ctx ends first, Shutdown closes all connections and
// returns the cause. After Shutdown has returned, no further body is passed to the Ingester, but an Ingest call
// interrupted by ctx may still be running. Shutdown may be called before Serve and more than once.
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
	return fmt.Errorf("receive: shut down: %w", context.Cause(ctx))
}

// drain shuts the servers down gracefully.
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
	// The remaining connections have no request. Both servers would wait for some of them, such as new silent ones,
	// longer than the responses need.
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
	for _, l := range r.connections { // Stop of gRPC waits for connections in a handshake, and does not close them
		l.CloseAll()
	}
	r.grpc.Stop()
	_ = r.http.Close() // the error is from a listener that is already closed
}

// begin admits a request. alone reports whether no other one is in flight on its connection: it is admitted even if
// other organizations have filled the server with requests that have not ended yet. Each successful begin needs an end.
func (r *Receiver) begin(alone bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state != serving {
		return errDraining
	}
	if r.active >= maxRequests+maxEnding && !alone {
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

// open reports whether bodies may still be passed to the Ingester.
func (r *Receiver) open() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state != closed
}
