// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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

// server is a program that runs as a child process.
type server struct {
	*assaytest.Process
	assay *assaytest.Server // nil for another program

	rest, grpc, http string // addresses; rest is assay's only
	key              string // API key, "" for none
	dir              string // directory that stop deletes, "" for none
}

// bootstrapKey is the API key of the servers that this program starts.
const bootstrapKey = assaytest.Key

// startAssay starts assay with its store on disk, and waits until it is ready. Without a dir, it has one that stop deletes.
func startAssay(ctx context.Context, binary, dir string, args ...string) (s *server, err error) {
	own := ""
	if dir == "" {
		if own, err = os.MkdirTemp("", "assay-bench-"); err != nil {
			return nil, err
		}
		defer func() {
			if err != nil {
				err = errors.Join(err, os.RemoveAll(own))
			}
		}()
		dir = own
	}
	a, err := assaytest.Start(ctx, assaytest.Config{Binary: binary, Dir: dir, Args: append([]string{"--bootstrap-api-key", bootstrapKey}, args...)})
	if err != nil {
		return nil, err
	}
	if err := a.AwaitReady(ctx); err != nil {
		a.Close()
		return nil, err
	}
	return &server{
		Process: a.Process, assay: a, key: bootstrapKey, dir: own,
		rest: strings.TrimPrefix(a.Root, "http://"), http: strings.TrimPrefix(a.OTLPHTTP, "http://"), grpc: a.OTLPGRPC,
	}, nil
}

// startFilled starts assay in a directory of its own, with a store that fill has written to. It returns how long that
// took.
func startFilled(
	ctx context.Context, binary string, fill func(ctx context.Context, path string) error, args ...string,
) (s *server, filled time.Duration, err error) {
	dir, err := os.MkdirTemp("", "assay-bench-")
	if err != nil {
		return nil, 0, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	// The first start creates the schema, the organization and the key.
	if s, err = startAssay(ctx, binary, dir); err != nil {
		return nil, 0, err
	}
	if err := s.stop(); err != nil {
		return nil, 0, err
	}
	began := time.Now()
	if err := fill(ctx, filepath.Join(dir, "assay.db")); err != nil {
		return nil, 0, fmt.Errorf("fill the store: %w", err)
	}
	filled = time.Since(began)
	if s, err = startAssay(ctx, binary, dir, args...); err != nil {
		return nil, 0, err
	}
	s.dir = dir
	return s, filled, nil
}

// stop terminates the program and waits for it.
func (s *server) stop() error {
	if s.dir != "" {
		defer os.RemoveAll(s.dir)
	}
	if s.assay != nil {
		return s.assay.Stop()
	}
	return s.Stop()
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
	s := new(server)
	for _, a := range []*string{&s.grpc, &s.http} {
		var err error
		if *a, err = assaytest.FreeAddress(ctx); err != nil {
			return nil, err
		}
	}
	config := fmt.Sprintf(`
receivers: {otlp: {protocols: {grpc: {endpoint: "%s"}, http: {endpoint: "%s"}}}}
exporters: {nop: {}}
service:
  telemetry: {metrics: {level: none}, logs: {level: error}}
  pipelines: {traces: {receivers: [otlp], exporters: [nop]}}
`, s.grpc, s.http)
	ready := func(ctx context.Context) error {
		for _, address := range []string{s.grpc, s.http} {
			c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
			if err != nil {
				return err
			}
			_ = c.Close()
		}
		return nil
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), binary, "--config", "yaml:"+config) // stop ends it
	var err error
	if s.Process, err = assaytest.StartProcess("Collector", cmd, nil); err != nil {
		return nil, err
	}
	if err := assaytest.Await(ctx, assaytest.Limit, assaytest.PollInterval, func() error { return ready(ctx) }); err != nil {
		return nil, errors.Join(s.Explain(err), s.stop())
	}
	return s, nil
}
