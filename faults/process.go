// SPDX-License-Identifier: Apache-2.0

//go:build linux

package faults

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	startTimeout = time.Minute
	logShown     = 4 << 10 // bytes of a log in an error
)

// Build builds the program as it is released, but with a clock that can be wrong,
// and puts it at a path.
func Build(ctx context.Context, path string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-tags", "faults", "-o", path, "assay/cmd/assay")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the program: %w\n%s", err, out)
	}
	return nil
}

// process is one run of `assay serve`.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{}

	root               string // URL of the REST listener
	rest               string // URL of the REST API
	otlpHTTP, otlpGRPC string // host and port
}

// startProcess runs the program until it listens. The log is appended to a file.
func startProcess(ctx context.Context, program, logFile string, args, environ []string) (*process, error) {
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	before, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	p := &process{cmd: exec.CommandContext(context.WithoutCancel(ctx), program, args...), ended: make(chan struct{})}
	p.cmd.Env = append([]string{"HOME=" + filepath.Dir(logFile)}, environ...)
	p.cmd.Stderr = log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		defer close(p.ended)
		defer log.Close()
		// The parent that the program ends with is a thread: this one has to live
		// as long as the program.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait() // how it ended shows in its state
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start the program: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for !p.readAddresses(logFile, before) {
		select {
		case <-p.ended:
			return nil, fmt.Errorf("the program ended at its start: %s\n%s", p.cmd.ProcessState, tail(logFile))
		case <-ctx.Done():
			p.kill()
			return nil, fmt.Errorf("the program does not serve: %w\n%s", ctx.Err(), tail(logFile))
		case <-time.After(often):
		}
	}
	return p, nil
}

// readAddresses reads from the log where the program listens.
func (p *process) readAddresses(logFile string, from int64) bool {
	text, err := os.ReadFile(logFile)
	if err != nil || int64(len(text)) < from {
		return false
	}
	for line := range bytes.Lines(text[from:]) {
		var l struct{ Msg, Rest, OTLP_HTTP, OTLP_GRPC string }
		if json.Unmarshal(line, &l) == nil && l.Msg == "assay serves" {
			p.rest, p.otlpHTTP, p.otlpGRPC = l.Rest, l.OTLP_HTTP, l.OTLP_GRPC
			p.root = strings.TrimSuffix(l.Rest, "/api")
			return true
		}
	}
	return false
}

// tail returns the end of a log.
func tail(logFile string) string {
	text, err := os.ReadFile(logFile)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-logShown):])
}

// kill ends the program as a crash would.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.ended
}

// terminate ends the program as an operator would, and returns its exit code.
func (p *process) terminate(ctx context.Context) (int, error) {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return 0, fmt.Errorf("terminate the program: %w", err)
	}
	select {
	case <-p.ended:
		return p.cmd.ProcessState.ExitCode(), nil
	case <-ctx.Done():
		p.kill()
		return 0, fmt.Errorf("the program does not end: %w", ctx.Err())
	}
}

// runCommand runs another command of the program and returns what it prints.
func runCommand(ctx context.Context, program, home string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = []string{"HOME=" + home}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("assay %s: %w\n%s", args[0], err, stderr.String())
	}
	return strings.TrimSpace(stdout.String()), nil
}

// Replica is a process of a fleet that can be ended and started again. Its methods
// must not be called at the same time, but for those that only read.
type Replica struct {
	Name     string
	OTLPHTTP *Proxy // clients send through them
	OTLPGRPC *Proxy
	Database *Proxy // nil without a database server

	program, log string
	args         []string
	environ      []string

	mu      sync.Mutex
	process *process // nil: it does not run
}

// Start runs the replica until it listens, with more arguments than it always has.
func (r *Replica) Start(ctx context.Context, args ...string) error {
	p, err := startProcess(ctx, r.program, r.log, append(append([]string{}, r.args...), args...), r.environ)
	if err != nil {
		return fmt.Errorf("replica %s: %w", r.Name, err)
	}
	r.mu.Lock()
	r.process = p
	r.mu.Unlock()
	r.OTLPHTTP.SetTarget(p.otlpHTTP)
	r.OTLPGRPC.SetTarget(p.otlpGRPC)
	return nil
}

// running returns the process, nil when there is none.
func (r *Replica) running() *process {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.process
}

// gone forgets the process, which has ended.
func (r *Replica) gone() {
	r.OTLPHTTP.SetTarget("")
	r.OTLPGRPC.SetTarget("")
	r.mu.Lock()
	defer r.mu.Unlock()
	r.process = nil
}

// Kill ends the replica with SIGKILL.
func (r *Replica) Kill() {
	if p := r.running(); p != nil {
		p.kill()
		r.gone()
	}
}

// Terminate ends the replica with SIGTERM. Not to exit with 0 is an error.
func (r *Replica) Terminate(ctx context.Context) error {
	p := r.running()
	if p == nil {
		return nil
	}
	code, err := p.terminate(ctx)
	r.gone()
	if err == nil && code != 0 {
		err = fmt.Errorf("it exited with %d", code)
	}
	if err != nil {
		return fmt.Errorf("replica %s: %w\n%s", r.Name, err, tail(r.log))
	}
	return nil
}

// Freeze stops the replica where it is, without its knowing, until Thaw.
func (r *Replica) Freeze() error { return r.signal(syscall.SIGSTOP) }

// Thaw has a frozen replica go on.
func (r *Replica) Thaw() error { return r.signal(syscall.SIGCONT) }

func (r *Replica) signal(s syscall.Signal) error {
	p := r.running()
	if p == nil {
		return fmt.Errorf("replica %s does not run", r.Name)
	}
	if err := p.cmd.Process.Signal(s); err != nil {
		return fmt.Errorf("replica %s: %w", r.Name, err)
	}
	return nil
}

// close ends the replica and its proxies.
func (r *Replica) close() {
	r.Kill()
	for _, p := range []*Proxy{r.OTLPHTTP, r.OTLPGRPC, r.Database} {
		if p != nil {
			p.Close()
		}
	}
}
