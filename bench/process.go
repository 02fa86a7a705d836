// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// processTime returns the processor time that this process has used.
func processTime() (time.Duration, error) {
	var u syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), err
}

// server is a program that runs as a child process.
type server struct {
	name   string
	cmd    *exec.Cmd
	output bytes.Buffer // of both streams, to be read once exited is closed
	exited chan struct{}

	rest, grpc, http string // addresses; rest is assay's only
	key              string // API key, "" for none
	dir              string // to delete at the end, "" for none
}

const (
	startTimeout = 20 * time.Second
	stopTimeout  = 20 * time.Second
	pollInterval = 50 * time.Millisecond
)

// launch starts a program and waits until ready returns nil.
func launch(ctx context.Context, s *server, ready func(context.Context) error, binary string, args ...string) error {
	// Stopping it is the caller's, also when ctx ends.
	s.cmd = exec.CommandContext(context.WithoutCancel(ctx), binary, args...)
	s.cmd.Stdout, s.cmd.Stderr = &s.output, &s.output
	s.exited = make(chan struct{})
	if err := s.cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", s.name, err)
	}
	go func() {
		_ = s.cmd.Wait() // how it ended shows in its state
		close(s.exited)
	}()
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-s.exited:
			return fmt.Errorf("%s ended at its start: %s\n%s", s.name, s.cmd.ProcessState, s.output.Bytes())
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("%s is not ready: %w", s.name, err), s.stop())
		case <-time.After(pollInterval):
		}
	}
}

// stop ends the program and waits for its end.
func (s *server) stop() error {
	if s.dir != "" {
		defer os.RemoveAll(s.dir)
	}
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop %s: %w", s.name, err)
	}
	select {
	case <-s.exited:
	case <-time.After(stopTimeout):
		_ = s.cmd.Process.Kill()
		<-s.exited
		return fmt.Errorf("%s did not stop within %s:\n%s", s.name, stopTimeout, s.output.Bytes())
	}
	if !s.cmd.ProcessState.Success() {
		return fmt.Errorf("%s: %s\n%s", s.name, s.cmd.ProcessState, s.output.Bytes())
	}
	return nil
}

// explain adds how the program ended to an error that may come from that.
func (s *server) explain(err error) error {
	select {
	case <-s.exited:
		return fmt.Errorf("%w\n%s ended: %s\n%s", err, s.name, s.cmd.ProcessState, s.output.Bytes())
	default:
		return fmt.Errorf("%s: %w", s.name, err)
	}
}

// freeAddress returns a loopback address on which nobody listens.
func freeAddress(ctx context.Context) (string, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// bootstrapKey is the API key of the servers that this program starts.
const bootstrapKey = "assay_sk_Bench0_000102030405060708090a0b0c0d0e0f"

// startAssay starts assay with its store on disk in dir.
func startAssay(ctx context.Context, binary, dir string, args ...string) (*server, error) {
	s := &server{name: "assay", key: bootstrapKey}
	for _, a := range []*string{&s.rest, &s.grpc, &s.http} {
		var err error
		if *a, err = freeAddress(ctx); err != nil {
			return nil, err
		}
	}
	ready := func(ctx context.Context) error { return get(ctx, "http://"+s.rest+"/readyz", "", io.Discard) }
	return s, launch(ctx, s, ready, binary, append([]string{
		"serve", "--data-dir", dir, "--http-address", s.rest, "--otlp-grpc-address", s.grpc, "--otlp-http-address", s.http,
		"--bootstrap-api-key", s.key, "--log-level", "error",
	}, args...)...)
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
// no-op exporter.
func startCollector(ctx context.Context, binary string) (*server, error) {
	if binary == "" {
		var err error
		if binary, err = buildCollector(ctx); err != nil {
			return nil, err
		}
	}
	s := &server{name: "Collector"}
	for _, a := range []*string{&s.grpc, &s.http} {
		var err error
		if *a, err = freeAddress(ctx); err != nil {
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
	return s, launch(ctx, s, ready, binary, "--config", "yaml:"+config)
}

// get reads a URL into w; any status but 200 is an error.
func get(ctx context.Context, url, key string, w io.Writer) error {
	return getWith(ctx, http.DefaultClient, url, key, w)
}

func getWith(ctx context.Context, client *http.Client, url, key string, w io.Writer) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		return fmt.Errorf("GET %s: %s: %s", url, resp.Status, text)
	}
	_, err = io.Copy(w, resp.Body)
	return err
}

// clockTick is the unit of times in /proc on every platform that Go runs on.
const clockTick = 10 * time.Millisecond

// cpu returns the processor time that the program has used, in steps of a
// clockTick.
func (s *server) cpu() (time.Duration, error) {
	text, err := os.ReadFile(s.proc("stat"))
	if err != nil {
		return 0, fmt.Errorf("read the processor time of %s (only Linux has it): %w", s.name, err)
	}
	// The second field is the name in parentheses and may hold anything; user and
	// system time are fields 14 and 15.
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, fmt.Errorf("%s: %q is too short", s.proc("stat"), text)
	}
	user, err1 := strconv.Atoi(fields[11])
	system, err2 := strconv.Atoi(fields[12])
	return time.Duration(user+system) * clockTick, errors.Join(err1, err2)
}

// resident returns the memory that the program holds, and the most that it held,
// in bytes.
func (s *server) resident() (now, most int64, err error) {
	text, err := os.ReadFile(s.proc("status"))
	if err != nil {
		return 0, 0, fmt.Errorf("read the memory of %s (only Linux has it): %w", s.name, err)
	}
	for line := range strings.Lines(string(text)) {
		name, rest, _ := strings.Cut(line, ":")
		kib, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
		switch name {
		case "VmRSS":
			now, err = strconv.ParseInt(kib, 10, 64)
		case "VmHWM":
			most, err = strconv.ParseInt(kib, 10, 64)
		}
		if err != nil {
			return 0, 0, err
		}
	}
	return now << 10, most << 10, nil
}

func (s *server) proc(file string) string {
	return filepath.Join("/proc", strconv.Itoa(s.cmd.Process.Pid), file)
}
