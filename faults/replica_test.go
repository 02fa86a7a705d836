// SPDX-License-Identifier: Apache-2.0

//go:build linux

package faults

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"

	"assay/internal/assaytest"
)

// Replica is a process of a fleet that can be stopped and restarted. Methods that change its state must not
// be called concurrently.
type Replica struct {
	Name     string
	OTLPHTTP *Proxy // clients connect to these
	OTLPGRPC *Proxy
	Database *Proxy // nil without a database server

	config assaytest.Config // its log collects the output of all processes

	mu     sync.Mutex
	server *assaytest.Server // nil: not running
}

// Start starts the replica and waits until it listens. The arguments are appended to the configured ones. It
// retries a failed start like a supervisor: on a busy machine, or without its database, a server exits after
// some seconds.
func (r *Replica) Start(ctx context.Context, args ...string) error {
	cfg := r.config
	cfg.Args = append(slices.Clip(cfg.Args), args...)
	var s *assaytest.Server
	if err := assaytest.Await(ctx, assaytest.Limit, slowPollInterval, func() (err error) {
		s, err = assaytest.Start(ctx, cfg)
		return err
	}); err != nil {
		return fmt.Errorf("replica %s: %w", r.Name, err)
	}
	r.mu.Lock()
	r.server = s
	r.mu.Unlock()
	r.OTLPHTTP.SetTarget(strings.TrimPrefix(s.OTLPHTTP, "http://"))
	r.OTLPGRPC.SetTarget(s.OTLPGRPC)
	return nil
}

// running returns the running server or nil.
func (r *Replica) running() *assaytest.Server {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.server
}

// gone detaches the proxies from a server that has exited.
func (r *Replica) gone() {
	r.OTLPHTTP.SetTarget("")
	r.OTLPGRPC.SetTarget("")
	r.mu.Lock()
	defer r.mu.Unlock()
	r.server = nil
}

// Kill stops the replica with SIGKILL.
func (r *Replica) Kill() {
	if s := r.running(); s != nil {
		s.Close()
		r.gone()
	}
}

// Terminate stops the replica with SIGTERM. It returns an error if the exit code is not 0.
func (r *Replica) Terminate() error {
	s := r.running()
	if s == nil {
		return nil
	}
	err := s.Stop()
	r.gone()
	if err != nil {
		return fmt.Errorf("replica %s: %w", r.Name, err)
	}
	return nil
}

// Freeze suspends the process with SIGSTOP until Thaw.
func (r *Replica) Freeze() error { return r.signal(syscall.SIGSTOP) }

// Thaw resumes a frozen replica.
func (r *Replica) Thaw() error { return r.signal(syscall.SIGCONT) }

func (r *Replica) signal(s syscall.Signal) error {
	p := r.running()
	if p == nil {
		return fmt.Errorf("replica %s: %w", r.Name, errDown)
	}
	return p.Signal(s)
}

// close kills the replica and closes its proxies.
func (r *Replica) close() {
	r.Kill()
	for _, p := range []*Proxy{r.OTLPHTTP, r.OTLPGRPC, r.Database} {
		if p != nil {
			p.Close()
		}
	}
}
