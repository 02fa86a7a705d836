// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"assay"
	"assay/internal/agent"
	"assay/internal/auth"
	"assay/internal/auth/sign"
	"assay/internal/connlimit"
	"assay/internal/dashboard"
	"assay/internal/engine"
	"assay/internal/lease"
	"assay/internal/logvolume"
	"assay/internal/receive"
	"assay/internal/rest"
	"assay/internal/score"
	"assay/internal/summary"
	"assay/internal/telemetry"
	"assay/internal/tlsreload"
	"assay/internal/trace"
	"assay/internal/usage"
)

// Limits of the HTTP listeners.
const (
	arrivalTimeout = 30 * time.Second // for header and body of a request
	answerTimeout  = time.Minute      // for reading a request and writing its answer
	idleTimeout    = 2 * time.Minute  // between requests of a connection

	// maxHeader is for the request line and the header of a request: 16 KiB, of which
	// net/http adds the last 4096 bytes itself.
	maxHeader = 16<<10 - 4096
)

type serveCmd struct{ serverConfig }

// Run serves until SIGINT or SIGTERM; a second signal ends the program at once.
func (c *serveCmd) Run(e *environment) error {
	own, err := startTelemetry(e, &c.serverConfig)
	if err != nil {
		return usageError{err}
	}
	logger := own.Logger()
	for _, w := range e.warnings {
		logger.Warn("configuration", "warning", w)
	}
	ctx, stop := signal.NotifyContext(e.ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	reload := make(chan os.Signal, 1)
	signal.Notify(reload, syscall.SIGHUP)
	defer signal.Stop(reload)
	limitMemory(e, &c.serverConfig)
	s := newServer(c.serverConfig, own)
	_, terminal := terminalWidth(e.stdout)
	s.keyToFile = !terminal
	if err := s.start(ctx); err != nil {
		if ctx.Err() != nil {
			logger.Info("stopped before the start was complete")
			return nil
		}
		return err
	}
	switch {
	case s.madeKey == "":
	case s.keyToFile:
		logger.Info("wrote the API key of the first organization to a file; move it to where secrets are kept", "organization", firstOrganization, "file", c.bootstrapKeyPath())
	default:
		if _, err := fmt.Fprintf(e.stdout, "API key of the organization %s, shown this once: %s\n", firstOrganization, string(s.madeKey)); err != nil {
			logger.Error("the new API key could not be printed; make another one with `assay key create`", "error", err)
		}
	}
	logger.Info("assay serves", "version", version(), "dashboard", s.dashboardURL(), "rest", s.restURL(), "otlp_grpc", s.grpcAddr(), "otlp_http", s.otlpHTTPAddr(), "metrics", s.metricsURL())

	failure := s.await(ctx, reload)
	stop() // the next signal has its default effect
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.ShutdownTimeout)
	defer cancel()
	if err := s.shutdown(end); err != nil {
		return errors.Join(failure, fmt.Errorf("shut down: %w", err))
	}
	logger.Info("stopped")
	return failure
}

// await returns when ctx ends, or with the failure of a listener. At each signal to
// reload the certificate is read again, which happens every few seconds anyway.
func (s *server) await(ctx context.Context, reload <-chan os.Signal) error {
	for {
		select {
		case <-ctx.Done():
			s.logger.Info("shutting down", "timeout", s.cfg.ShutdownTimeout)
			return nil
		case err := <-s.failed:
			s.logger.Error("shutting down after a failure", "error", err)
			return err
		case <-reload:
			if s.certificate != nil {
				s.certificate.Reload(ctx)
			}
		}
	}
}

// startTelemetry begins what a server tells about itself.
func startTelemetry(e *environment, c *serverConfig) (*telemetry.Telemetry, error) {
	return telemetry.Start(e.ctx, telemetry.Config{Version: version(), Log: e.stderr, LogFormat: c.LogFormat, LogLevel: c.LogLevel, AccessLog: c.AccessLog})
}

// memoryBeside is what a server takes beside open traces: the bodies of requests,
// caches and what the collector of garbage has not collected.
const memoryBeside = 768 << 20

// limitMemory has the garbage collected in time to stay under a gibibyte with the
// default settings, unless the user says something else.
// Source: https://go.dev/doc/gc-guide#Memory_limit
func limitMemory(e *environment, c *serverConfig) {
	if e.getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryBeside + int64(c.TraceMemory))
	}
}

// server is the program: everything that runs between start and shutdown.
type server struct {
	cfg     serverConfig
	own     *telemetry.Telemetry
	logger  *slog.Logger
	madeKey auth.Secret // made by start for an empty store, else ""

	keyToFile bool // a key that is made is written to the data directory

	failed chan error // gets the first failure of a listener

	http, grpc, otlpHTTP, metrics net.Listener // metrics is nil without a listener of its own

	certificate *tlsreload.Certificate // nil: plain text

	store     *revised // nil before it is open
	replica   *lease.Coordinator
	provider  *auth.Provider // nil: none is configured
	auth      *auth.Authenticator
	signIns   *auth.Authenticator // of the dashboard; nil where it is not served
	pages     *dashboard.Handler  // nil where it is not served
	records   *logvolume.Counter
	embedded  *logvolume.Embedded // nil: log volume is kept elsewhere, or nowhere
	remote    *logvolume.Remote   // nil: it is not kept at another server
	summaries *summary.Summarizer // nil: no model is configured
	analyst   *usage.Analyst
	signer    *sign.Signer
	gateway   *agent.Gateway // nil: no agent backend is configured
	engine    *engine.Engine
	receiver  *receive.Receiver
	servers   []*http.Server

	draining  atomic.Bool
	readiness readiness
	stopLoop  context.CancelFunc // of what runs beside requests
	loops     sync.WaitGroup
	serving   sync.WaitGroup

	stopReplica context.CancelFunc // gives up what this replica holds; after everything else
	replicating sync.WaitGroup

	closeOnce sync.Once
	closeErr  error
}

// newServer returns a server that has not started. cfg has no problems. The server
// ends what it tells about itself when it is shut down.
func newServer(cfg serverConfig, own *telemetry.Telemetry) *server {
	return &server{cfg: cfg, own: own, logger: own.Logger(), failed: make(chan error, 1), stopLoop: func() {}, stopReplica: func() {}}
}

// start listens and runs. ctx is for starting alone; shutdown ends the server.
// When start fails, everything is closed.
func (s *server) start(ctx context.Context) (err error) {
	defer func() {
		if err != nil {
			end, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.ShutdownTimeout)
			defer cancel()
			err = errors.Join(err, s.shutdown(end))
		}
	}()
	if s.certificate, err = s.cfg.certificate(s.logger); err != nil {
		return err
	}
	var tlsConfig *tls.Config // nil: plain text
	if s.certificate != nil {
		tlsConfig = s.certificate.TLS()
		if err := s.own.WatchCertificate(s.certificate); err != nil {
			return err
		}
	}
	if err := s.listen(ctx); err != nil {
		return err
	}
	if err := s.cfg.protect(); err != nil {
		s.logger.WarnContext(ctx, "others than the owner may read some of the data directory", "error", err)
	}
	opened, err := openStore(ctx, &s.cfg.storeConfig, openMigrate, s.logger)
	if err != nil {
		return err
	}
	s.store = newRevised(opened)
	if err := s.join(ctx); err != nil {
		return err
	}
	if err := s.identify(); err != nil {
		return err
	}
	if err := s.openLogVolume(ctx); err != nil {
		return err
	}
	if err := s.openSummaries(); err != nil {
		return err
	}
	if err := s.openAgent(ctx); err != nil {
		return err
	}
	if s.analyst, err = usage.New(usage.Config{Store: s.store, Prices: s.cfg.prices(), Window: s.cfg.Window, Now: s.replica.Now}); err != nil {
		return err
	}
	name, err := s.cfg.replicaName()
	if err != nil {
		return err
	}
	s.engine = engine.New(engine.Config{
		Store:          s.store,
		Window:         s.cfg.Window,
		Step:           s.cfg.WindowStep,
		CommitInterval: s.cfg.CommitInterval,
		Trace:          trace.Config{Idle: s.cfg.TraceIdle, Max: s.cfg.TraceMax, Memory: int(s.cfg.TraceMemory)},
		Journal:        &engine.JournalConfig{Name: name, Store: s.store, Leases: s.replica},
		MaxServices:    s.cfg.MaxServices,
		MaxMetricNames: s.cfg.MaxMetricNames,
		Replicas:       s.replica.Replicas,
		Committed:      s.committed,
		Now:            s.replica.Now,
		Logger:         s.logger,
	})
	s.receiver, err = receive.New(receive.Config{
		Authenticate:   s.auth.Authenticate,
		Ingester:       s.engine,
		MaxPacked:      int64(s.cfg.MaxPackedBytes),
		MaxUnpacked:    int64(s.cfg.MaxUnpackedBytes),
		MaxRate:        int64(s.cfg.MaxIngestRate),
		MaxConnections: s.cfg.MaxConnections,
		TLS:            tlsConfig,
		Observe:        s.own.Observe,
		Logger:         s.logger,
	})
	if err != nil {
		return err
	}
	if err := s.own.Watch(s.engine, s.receiver); err != nil {
		return err
	}
	if err := s.own.WatchReady(s.isReady); err != nil {
		return err
	}
	pages, err := s.openDashboard()
	if err != nil {
		return err
	}
	s.runLoops()
	s.serve(s.own.MetricsHandler(), pages, tlsConfig)
	return nil
}

// listen takes all addresses, so that one in use is told before anything else happens.
func (s *server) listen(ctx context.Context) error {
	var lc net.ListenConfig
	for _, l := range []struct {
		listener *net.Listener
		flag     string
		address  string
	}{
		{&s.http, "http-address", s.cfg.HTTPAddress},
		{&s.grpc, "otlp-grpc-address", s.cfg.OTLPGRPCAddress},
		{&s.otlpHTTP, "otlp-http-address", s.cfg.OTLPHTTPAddress},
		{&s.metrics, "metrics-address", s.cfg.MetricsAddress},
	} {
		if l.address == "" {
			continue
		}
		var err error
		if *l.listener, err = lc.Listen(ctx, "tcp", l.address); err != nil {
			return fmt.Errorf("--%s: %w", l.flag, err)
		}
	}
	return nil
}

// runLoops starts what runs beside requests.
func (s *server) runLoops() {
	ctx, cancel := context.WithCancel(context.Background())
	s.stopLoop = cancel
	scorer := score.New(score.Config{
		Store: s.store, Leases: s.replica, Window: s.cfg.Window, Step: s.cfg.WindowStep, Interval: s.cfg.ScoreInterval,
		Now: s.replica.Now, Skew: s.replica.Skew, Logger: s.logger,
	})
	s.loops.Go(func() { s.engine.Run(ctx) })
	s.loops.Go(func() { scorer.Run(ctx) })
	s.loops.Go(func() { s.refreshQuota(ctx) })
	s.loops.Go(func() { s.watchLogVolume(ctx) })
	s.loops.Go(func() { s.signer.Run(ctx) })
	if s.embedded != nil {
		s.loops.Go(func() { s.embedded.Run(ctx) })
	}
	if s.provider != nil {
		s.loops.Go(func() { s.provider.Run(ctx) })
	}
	if s.certificate != nil {
		s.loops.Go(func() { s.certificate.Run(ctx) })
	}
}

// refreshQuota makes room for new services and metric names when the window has
// moved and the store forgot old ones.
func (s *server) refreshQuota(ctx context.Context) {
	ticker := time.NewTicker(s.cfg.WindowStep)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if err := s.engine.Refresh(ctx); err != nil && ctx.Err() == nil {
				s.logger.ErrorContext(ctx, "the limits of services and metric names could not be brought up to date", "error", err)
			}
		}
	}
}

// serve starts answering on all listeners. pages is the dashboard, nil for none.
func (s *server) serve(metrics, pages http.Handler, tlsConfig *tls.Config) {
	open := metrics                                         // without credential; nil: not on this listener
	var restricted func(organizationID string) http.Handler // nil: not on this listener
	switch {
	case s.metrics != nil:
		open = nil
	case !isLoopback(s.http.Addr()):
		open, restricted = nil, s.own.MetricsOf
		if s.cfg.remote() {
			s.logger.Warn("metrics on --http-address need an API key of scope read and show its organization alone; have the metrics store scrape --metrics-address", "address", s.http.Addr().String())
		}
	}
	api := rest.New(rest.Config{
		BasePath:      s.cfg.BasePath,
		PublicURL:     s.cfg.PublicURL,
		Authenticate:  s.authenticate,
		Services:      s.store,
		Insights:      s.store,
		Organizations: s.store,
		LogVolume:     s.logVolume(),
		Analyst:       s.analyst,
		Summaries:     s.summarizer(),
		Agent:         s.agentBackend(),
		Revision:      s.store.Revision,
		Window:        s.cfg.Window,
		RateLimit:     s.cfg.RateLimit,
		Ready:         s.ready,
		Metrics:       restricted,
		Now:           s.replica.Now,
		Logger:        s.logger,
	})
	s.serveHTTP(s.http, s.own.Middleware(s.handler(api, pages, open, s.signer.JWKS())), tlsConfig)
	if s.metrics != nil {
		mux := http.NewServeMux()
		mux.Handle("GET /metrics", metrics)
		s.serveHTTP(s.metrics, mux, nil)
	}
	s.goServe("OTLP/gRPC", func() error { return s.receiver.Serve(receive.GRPC, s.grpc) })
	s.goServe("OTLP/HTTP", func() error { return s.receiver.Serve(receive.HTTP, s.otlpHTTP) })
}

// authenticate checks the credential of a REST request, whose connection counts for its organization
// then.
func (s *server) authenticate(ctx context.Context, authorization, remoteAddr string) (*assay.Principal, error) {
	p, err := s.auth.Authenticate(ctx, authorization, remoteAddr)
	if err == nil {
		connlimit.Identify(ctx, p.OrganizationID)
	}
	return p, err
}

// connections returns the limiter of the connections to an HTTP listener.
func (s *server) connections(address net.Addr) *connlimit.Limiter {
	return connlimit.New(connlimit.Config{Limit: s.cfg.MaxConnections, Full: func(closed, refused uint64) {
		s.logger.Warn("connections for HTTP are at their limit; new ones take the place of idle ones",
			"address", address.String(), "limit", s.cfg.MaxConnections, "closed", closed, "refused", refused)
	}})
}

func (s *server) serveHTTP(l net.Listener, h http.Handler, tlsConfig *tls.Config) {
	limiter := s.connections(l.Addr())
	l = limiter.Listener(l)
	// Connections are limited, so a connection must not carry many requests: HTTP/1.1 alone.
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	srv := &http.Server{
		Handler:           limiter.Handler(h),
		TLSConfig:         tlsConfig,
		ReadHeaderTimeout: arrivalTimeout,
		ReadTimeout:       arrivalTimeout,
		WriteTimeout:      answerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		Protocols:         &protocols,
		ErrorLog:          slog.NewLogLogger(s.logger.Handler(), slog.LevelDebug),
	}
	s.servers = append(s.servers, srv)
	s.goServe("HTTP", func() error {
		var err error
		if tlsConfig != nil {
			err = srv.ServeTLS(l, "", "")
		} else {
			err = srv.Serve(l)
		}
		if errors.Is(err, http.ErrServerClosed) {
			return nil
		}
		return err
	})
}

func (s *server) goServe(name string, serve func() error) {
	s.serving.Go(func() {
		if err := serve(); err != nil {
			select {
			case s.failed <- fmt.Errorf("serve %s: %w", name, err):
			default:
			}
		}
	})
}

// jwksPath is where the public keys of the tokens that are signed here are.
const jwksPath = "/.well-known/jwks.json"

// isLoopback reports whether only this machine reaches an address.
func isLoopback(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// handler puts what has no place in the API beside it. It is no ServeMux, which
// would redirect paths that the API refuses. pages and metrics may be nil.
func (s *server) handler(api, pages, metrics, jwks http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == jwksPath:
			jwks.ServeHTTP(w, r)
		case r.URL.Path == "/metrics" && metrics != nil && (r.Method == http.MethodGet || r.Method == http.MethodHead):
			metrics.ServeHTTP(w, r)
		case pages != nil && !s.isAPI(r.URL.Path) && forDashboard(r):
			pages.ServeHTTP(w, r)
		case r.URL.Path == "/" && s.basePath() != "" && (r.Method == http.MethodGet || r.Method == http.MethodHead):
			s.index(w)
		default:
			api.ServeHTTP(w, r)
		}
	})
}

// basePath returns the path of the API's root without a slash at its end.
func (s *server) basePath() string { return strings.TrimRight(s.cfg.BasePath, "/") }

// index says where the API is.
func (s *server) index(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	// The client may be gone; there is nobody to tell.
	_ = json.NewEncoder(w).Encode(map[string]string{
		"name":    "assay",
		"version": version(),
		"api":     s.basePath() + "/v1",
		"openapi": s.basePath() + "/openapi.json",
		"docs":    s.basePath() + "/docs",
		"jwks":    jwksPath,
	})
}

// shutdown stops the intake, finishes what was accepted and closes the store. It
// gives up what is not done when ctx ends and says so. It can be called more than
// once; later calls return the error of the first.
func (s *server) shutdown(ctx context.Context) error {
	s.closeOnce.Do(func() { s.closeErr = s.close(ctx) })
	return s.closeErr
}

func (s *server) close(ctx context.Context) error {
	s.draining.Store(true)
	var errs []error
	intake, cancel := halfOf(ctx) // what it leaves is for commits
	defer cancel()
	var stopping sync.WaitGroup
	stops := make([]error, 1+len(s.servers))
	if s.receiver != nil {
		stopping.Go(func() { stops[0] = s.receiver.Shutdown(intake) })
	}
	for i, srv := range s.servers {
		stopping.Go(func() {
			if stops[1+i] = srv.Shutdown(intake); stops[1+i] != nil {
				srv.Close()
			}
		})
	}
	stopping.Wait()
	errs = append(errs, stops...)
	for _, l := range []net.Listener{s.http, s.grpc, s.otlpHTTP, s.metrics} {
		if l != nil {
			l.Close() // those that served are closed already
		}
	}
	s.stopLoop()
	errs = append(errs, waitFor(ctx, &s.loops, "scoring"), waitFor(ctx, &s.serving, "the listeners"))
	if s.engine != nil {
		errs = append(errs, s.engine.Close(ctx))
	}
	if s.embedded != nil {
		errs = append(errs, s.embedded.Close())
	}
	if s.remote != nil {
		s.remote.Close()
	}
	if s.summaries != nil {
		s.summaries.Close()
	}
	if s.pages != nil {
		s.pages.Close()
	}
	if s.gateway != nil {
		s.gateway.Close()
	}
	for _, a := range []*auth.Authenticator{s.auth, s.signIns} {
		if a != nil {
			a.Close()
		}
	}
	s.stopReplica()
	errs = append(errs, waitFor(ctx, &s.replicating, "the release of leases"))
	if s.store != nil {
		errs = append(errs, s.store.Close())
	}
	s.own.Shutdown(ctx)
	return errors.Join(errs...)
}

// halfOf returns a context that ends half-way to the end of ctx.
func halfOf(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Until(deadline)/2)
}

func waitFor(ctx context.Context, wg *sync.WaitGroup, what string) error {
	done := make(chan struct{})
	go func() {
		wg.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s did not end in time: %w", what, ctx.Err())
	}
}

func (s *server) grpcAddr() string     { return s.grpc.Addr().String() }
func (s *server) otlpHTTPAddr() string { return s.otlpHTTP.Addr().String() }

// rootURL is where a client on this machine reaches the REST listener.
func (s *server) rootURL() string {
	scheme := "http"
	if s.cfg.TLSCert != "" {
		scheme = "https"
	}
	return scheme + "://" + s.http.Addr().String()
}

// restURL is the root of the REST API.
func (s *server) restURL() string { return s.rootURL() + s.basePath() }

func (s *server) metricsURL() string {
	if s.metrics != nil {
		return "http://" + s.metrics.Addr().String() + "/metrics"
	}
	return s.rootURL() + "/metrics"
}
