// SPDX-License-Identifier: Apache-2.0

package assaytest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strings"

	"google.golang.org/grpc"
)

// Key is an API key for --bootstrap-api-key.
const Key = "assay_sk_Tests0_000102030405060708090a0b0c0d0e0f"

// Config describes a server.
type Config struct {
	Binary  string    // path of the program; "": Binary
	Dir     string    // data directory, and HOME
	Args    []string  // of `assay serve`, after those that Start adds; the last value of a flag counts
	Environ []string  // NAME=VALUE; the server has nothing else but HOME
	Stdout  io.Writer // nil: Server.Stdout
	Log     *Output   // standard error; nil for a new one
}

// Server is a running `assay serve`, on loopback ports of its own. It may be used
// concurrently.
type Server struct {
	*Process
	Dir    string  // data directory
	Stdout *Output // standard output, unless Config has a writer for it

	Root     string // URL of the REST listener
	REST     string // URL of the REST API, without /v1
	OTLPHTTP string // URL of the OTLP/HTTP listener
	OTLPGRPC string // host and port of the OTLP/gRPC listener

	Client *http.Client     // uncompressed, waits for answers as long as Limit
	Conn   *grpc.ClientConn // to OTLPGRPC, as Dial returns it

	binary  string
	environ []string
}

// Start starts a server and waits until it listens. Close ends it.
func Start(ctx context.Context, cfg Config) (s *Server, err error) {
	if cfg.Binary == "" {
		if cfg.Binary, err = Binary(); err != nil {
			return nil, err
		}
	}
	if cfg.Log == nil {
		cfg.Log = new(Output)
	}
	before := cfg.Log.len()
	s = &Server{
		Dir: cfg.Dir, Stdout: new(Output), binary: cfg.Binary, environ: cfg.Environ,
		Client: &http.Client{Timeout: Limit, Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 32}},
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), cfg.Binary, append([]string{
		"serve", "--data-dir", cfg.Dir, "--log-format", "json",
		"--http-address", "127.0.0.1:0", "--otlp-grpc-address", "127.0.0.1:0", "--otlp-http-address", "127.0.0.1:0",
	}, cfg.Args...)...)
	cmd.Env = append([]string{"HOME=" + cfg.Dir}, cfg.Environ...)
	cmd.Stdout, cmd.Stderr = cfg.Stdout, cfg.Log
	if cfg.Stdout == nil {
		cmd.Stdout = s.Stdout
	}
	if s.Process, err = StartProcess("assay", cmd, cfg.Log); err != nil {
		return nil, err
	}
	err = Await(ctx, Limit, PollInterval, func() error {
		switch {
		case s.readAddresses(cfg.Log.from(before)):
			return nil
		case !s.Running():
			return nil // without addresses
		}
		return errors.New("it does not listen")
	})
	if err == nil && s.Root == "" {
		err = errors.New("it ended")
	}
	if err == nil {
		s.Conn, err = Dial(s.OTLPGRPC)
	}
	if err != nil {
		s.Process.Kill()
		return nil, s.Explain(fmt.Errorf("start a server: %w", err))
	}
	return s, nil
}

// readAddresses reads from a log where the server listens.
func (s *Server) readAddresses(log string) bool {
	for line := range strings.Lines(log) {
		var l struct{ Msg, Rest, OTLP_HTTP, OTLP_GRPC string }
		if json.Unmarshal([]byte(line), &l) == nil && l.Msg == "assay serves" {
			s.REST, s.OTLPHTTP, s.OTLPGRPC = l.Rest, "http://"+l.OTLP_HTTP, l.OTLP_GRPC
			s.Root = strings.TrimSuffix(l.Rest, "/api")
			return true
		}
	}
	return false
}

// Ready returns nil when the server says that it is ready.
func (s *Server) Ready(ctx context.Context) error {
	_, err := Get(ctx, s.Client, s.Root+"/readyz", "")
	return err
}

// AwaitReady waits until the server is ready.
func (s *Server) AwaitReady(ctx context.Context) error {
	if err := Await(ctx, Limit, PollInterval, func() error { return s.Ready(ctx) }); err != nil {
		return s.Explain(fmt.Errorf("the server is not ready: %w", err))
	}
	return nil
}

// Metrics reads the metrics of the server from /metrics.
func (s *Server) Metrics(ctx context.Context) (Metrics, error) {
	r, err := Get(ctx, s.Client, s.Root+"/metrics", "")
	if err != nil {
		return nil, err
	}
	return ParseMetrics(string(r.Body))
}

// Close kills the server unless it has ended, and closes the connections to it.
func (s *Server) Close() {
	s.Disconnect()
	s.Kill()
}

// Disconnect closes the connections to the server that are idle, and Conn.
func (s *Server) Disconnect() {
	s.Client.CloseIdleConnections()
	_ = s.Conn.Close() // nothing waits for it
}

// Stop closes the connections and ends the server as Process.Stop does.
func (s *Server) Stop() error {
	s.Disconnect()
	return s.Process.Stop()
}

// Result is how a run of a program ended.
type Result struct {
	Code           int
	Stdout, Stderr string
}

// Run runs the program to its end with an environment of HOME, which is also the working
// directory, and environ. An exit code other than 0 is no error.
func Run(ctx context.Context, binary, home string, environ []string, stdin string, args ...string) (Result, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Dir, cmd.Env = home, append([]string{"HOME=" + home}, environ...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &stdout, &stderr
	err := cmd.Run()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		return Result{}, fmt.Errorf("run %s: %w", binary, err)
	}
	return Result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}, nil
}

// Command runs a command of the program on the server's data directory, in the server's
// environment, and returns its output. An exit code other than 0 is an error.
func (s *Server) Command(ctx context.Context, args ...string) (string, error) {
	r, err := Run(ctx, s.binary, s.Dir, s.environ, "", append(args, "--data-dir", s.Dir)...)
	if err == nil && r.Code != 0 {
		err = fmt.Errorf("assay %s: exit code %d: %s", args[0], r.Code, r.Stderr)
	}
	return strings.TrimSpace(r.Stdout), err
}

// FreeAddress returns a loopback address on which nothing listens.
func FreeAddress(ctx context.Context) (string, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
