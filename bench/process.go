// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"assay/internal/assaytest"
)

// processTime returns the processor time that this process has used.
func processTime() (time.Duration, error) {
	var u syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), err
}

// server is a program that runs as a child process: assay, or another receiver of OTLP without a REST API.
type server struct {
	*assaytest.Server
	key       string // API key, "" for another program than assay
	temporary string // directory that stop deletes, "" for none
}

// bootstrapKey is the API key of the servers that this program starts.
const bootstrapKey = assaytest.Key

// startAssay starts assay with its store on disk, in a directory that stop deletes, and waits until it is ready.
func startAssay(ctx context.Context, binary string, args ...string) (*server, error) {
	dir, err := os.MkdirTemp("", "assay-bench-")
	if err != nil {
		return nil, err
	}
	return startIn(ctx, dir, binary, args...)
}

// startIn is startAssay with a directory.
func startIn(ctx context.Context, dir, binary string, args ...string) (*server, error) {
	a, err := assaytest.Start(ctx, assaytest.Config{Binary: binary, Dir: dir, Args: append([]string{"--bootstrap-api-key", bootstrapKey}, args...)})
	if err == nil {
		if err = a.AwaitReady(ctx); err != nil {
			a.Close()
		}
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return &server{Server: a, key: bootstrapKey, temporary: dir}, nil
}

// startFilled is startAssay with a store that fill has written to. It returns how long that took.
func startFilled(
	ctx context.Context, binary string, fill func(ctx context.Context, path string) error, args ...string,
) (s *server, filled time.Duration, err error) {
	// The first start creates the schema, the organization and the key.
	if s, err = startAssay(ctx, binary); err != nil {
		return nil, 0, err
	}
	err = s.Stop()
	began := time.Now()
	if err == nil {
		err = fill(ctx, filepath.Join(s.Dir, "assay.db"))
	}
	if err != nil {
		return nil, 0, errors.Join(fmt.Errorf("fill the store: %w", err), os.RemoveAll(s.Dir))
	}
	filled = time.Since(began)
	s, err = startIn(ctx, s.Dir, binary, args...)
	return s, filled, err
}

// stop terminates the program and waits for it.
func (s *server) stop() error {
	err := s.Stop()
	if s.temporary != "" {
		err = errors.Join(err, os.RemoveAll(s.temporary))
	}
	return err
}

// calm waits until the server is idle.
func (s *server) calm(ctx context.Context) error {
	const look, busy = 2 * time.Second, 100 * time.Millisecond
	for before := time.Duration(-1); ; {
		used, err := s.CPU()
		if err != nil || (before >= 0 && used-before < busy) {
			return err
		}
		before = used
		if err := sleep(ctx, look); err != nil {
			return err
		}
	}
}

// sleep waits for a time, or returns why ctx ended.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// buildCollector builds the module bench/collector and returns the binary.
func buildCollector(ctx context.Context) (string, error) {
	binary, err := filepath.Abs(filepath.Join("bin", "bench-collector"))
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-o", binary, ".")
	cmd.Dir = filepath.Join("bench", "collector")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the Collector: %w\n%s", err, out)
	}
	return binary, nil
}

// startCollector starts an OpenTelemetry Collector with an OTLP receiver and a
// no-op exporter, and waits until it is ready.
func startCollector(ctx context.Context, binary string) (*server, error) {
	if binary == "" {
		var err error
		if binary, err = buildCollector(ctx); err != nil {
			return nil, err
		}
	}
	var addresses [2]string // of gRPC and HTTP
	for i := range addresses {
		var err error
		if addresses[i], err = assaytest.FreeAddress(ctx); err != nil {
			return nil, err
		}
	}
	config := fmt.Sprintf(`
receivers: {otlp: {protocols: {grpc: {endpoint: "%s"}, http: {endpoint: "%s"}}}}
exporters: {nop: {}}
service:
  telemetry: {metrics: {level: none}, logs: {level: error}}
  pipelines: {traces: {receivers: [otlp], exporters: [nop]}}
`, addresses[0], addresses[1])
	ready := func(ctx context.Context) error {
		for _, address := range addresses {
			c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
			if err != nil {
				return err
			}
			_ = c.Close()
		}
		return nil
	}
	conn, err := assaytest.Dial(addresses[0])
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), binary, "--config", "yaml:"+config) // stop ends it
	p, err := assaytest.StartProcess("Collector", cmd, nil)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	s := &server{Server: &assaytest.Server{Process: p, OTLPGRPC: addresses[0], OTLPHTTP: "http://" + addresses[1], Conn: conn, Client: new(http.Client)}}
	if err := assaytest.Await(ctx, assaytest.Limit, assaytest.PollInterval, func() error { return ready(ctx) }); err != nil {
		return nil, errors.Join(s.Explain(err), s.stop())
	}
	return s, nil
}
