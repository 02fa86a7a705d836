// SPDX-License-Identifier: Apache-2.0

//go:build linux

package faults

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"assay/internal/assaytest"
)

// bootstrapKey is the API key of the default organization in an empty store.
const bootstrapKey = assaytest.Key

// DefaultOrganization is the organization that a server creates in an empty store.
const DefaultOrganization = "default"

// FleetConfig configures a Fleet.
type FleetConfig struct {
	Program       string   // path of the program, built with an adjustable clock
	Data          string   // parent of the data directories of the replicas
	Database      string   // URL of an empty PostgreSQL database over TCP; "": SQLite, for one replica
	Replicas      int      // default 1
	Organizations []string // the first is DefaultOrganization
	Args          []string // arguments of `assay serve` for all replicas
	Environ       func(replica int) []string
}

// Fleet is a set of replicas that share one store, each behind proxies.
type Fleet struct {
	Replicas []*Replica
	Keys     map[string]string // API keys with all scopes, by organization

	cfg FleetConfig
}

// StartFleet starts replicas on an empty store and creates the organizations. Call Close to stop them.
func StartFleet(ctx context.Context, cfg FleetConfig) (*Fleet, error) {
	f := &Fleet{cfg: cfg, Keys: map[string]string{DefaultOrganization: bootstrapKey}}
	if err := f.start(ctx); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (f *Fleet) start(ctx context.Context) error {
	for i := range max(1, f.cfg.Replicas) {
		r, err := f.replica(i)
		if r != nil {
			f.Replicas = append(f.Replicas, r)
		}
		if err != nil {
			return err
		}
		if err := r.Start(ctx); err != nil {
			return err
		}
	}
	for _, name := range f.cfg.Organizations {
		if name == DefaultOrganization {
			continue
		}
		if _, err := f.command(ctx, "organization", "create", name); err != nil {
			return err
		}
		key, err := f.command(ctx, "key", "create", "--name", "faults", "--organization", name)
		if err != nil {
			return err
		}
		f.Keys[name] = key
	}
	for i := range f.Replicas {
		if err := f.AwaitReady(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// replica returns a replica that is not running yet. On failure it returns the incomplete replica as well, so
// that the caller can close it.
func (f *Fleet) replica(i int) (r *Replica, err error) {
	name := string(rune('a' + i))
	r = &Replica{Name: name, config: assaytest.Config{Binary: f.cfg.Program, Dir: filepath.Join(f.cfg.Data, name), Log: new(assaytest.Output)}}
	for _, p := range []**Proxy{&r.OTLPHTTP, &r.OTLPGRPC} {
		if *p, err = NewProxy(); err != nil {
			return r, err
		}
	}
	r.config.Args = []string{"--bootstrap-api-key", bootstrapKey}
	if f.cfg.Database != "" {
		u, err := url.Parse(f.cfg.Database)
		if err != nil {
			return r, errors.New("malformed URL of the database")
		}
		if r.Database, err = NewProxy(); err != nil {
			return r, err
		}
		r.Database.SetTarget(u.Host)
		u.Host = r.Database.Address()
		r.config.Args = append(r.config.Args, "--store", u.String(), "--replica-name", name)
	}
	r.config.Args = append(r.config.Args, f.cfg.Args...)
	if f.cfg.Environ != nil {
		r.config.Environ = f.cfg.Environ(i)
	}
	return r, nil
}

// command runs a command of the program on the fleet's store.
func (f *Fleet) command(ctx context.Context, args ...string) (string, error) {
	args = append(args, "--data-dir", f.DataDir())
	if f.cfg.Database != "" {
		args = append(args, "--store", f.cfg.Database)
	}
	r, err := assaytest.Run(ctx, f.cfg.Program, f.cfg.Data, nil, "", args...)
	if err == nil && r.Code != 0 {
		err = fmt.Errorf("assay %s: exit code %d: %s", args[0], r.Code, r.Stderr)
	}
	return strings.TrimSpace(r.Stdout), err
}

// DataDir returns the data directory of the first replica.
func (f *Fleet) DataDir() string { return filepath.Join(f.cfg.Data, "a") }

// Close kills all replicas and closes their proxies.
func (f *Fleet) Close() error {
	for _, r := range f.Replicas {
		r.close()
	}
	return nil
}

// Targets returns the OTLP addresses of the replicas.
func (f *Fleet) Targets() []Target {
	var all []Target
	for _, r := range f.Replicas {
		all = append(all, Target{Name: r.Name, OTLPHTTP: r.OTLPHTTP.Address(), OTLPGRPC: r.OTLPGRPC.Address()})
	}
	return all
}

var errDown = errors.New("not running")

// server returns the server of a replica.
func (f *Fleet) server(i int) (*assaytest.Server, error) {
	s := f.Replicas[i].running()
	if s == nil {
		return nil, fmt.Errorf("replica %s: %w", f.Replicas[i].Name, errDown)
	}
	return s, nil
}

// reader returns a client of the REST API of a replica.
func (f *Fleet) reader(i int) (*reader, error) {
	s, err := f.server(i)
	if err != nil {
		return nil, err
	}
	return &reader{s}, nil
}

// Ready returns nil if the readiness endpoint of a replica answers 200.
func (f *Fleet) Ready(ctx context.Context, i int) error {
	s, err := f.server(i)
	if err != nil {
		return err
	}
	return s.Ready(ctx)
}

// AwaitReady waits until a replica is ready.
func (f *Fleet) AwaitReady(ctx context.Context, i int) error {
	s, err := f.server(i)
	if err != nil {
		return err
	}
	return s.AwaitReady(ctx)
}

// slowPollInterval is the poll interval for conditions that take seconds and are expensive to check.
const slowPollInterval = 400 * time.Millisecond

// States returns the state that a replica shows to clients, by organization.
func (f *Fleet) States(ctx context.Context, i int) (map[string]*State, error) {
	r, err := f.reader(i)
	if err != nil {
		return nil, err
	}
	all := make(map[string]*State)
	for name, key := range f.Keys {
		if all[name], err = r.state(ctx, name, key, f.countsLogs()); err != nil {
			return nil, fmt.Errorf("replica %s: %w", f.Replicas[i].Name, err)
		}
	}
	return all, nil
}

// countsLogs reports whether the replicas read log volume from their store.
func (f *Fleet) countsLogs() bool { return !slices.Contains(f.cfg.Args, "--metrics-store") }

// AwaitStates waits until all replicas show the wanted states. Its error lists the differences.
func (f *Fleet) AwaitStates(ctx context.Context, want map[string]*State) error {
	for i := range f.Replicas {
		var got map[string]*State
		if err := assaytest.Await(ctx, assaytest.Limit, slowPollInterval, func() (err error) {
			if got, err = f.States(ctx, i); err != nil {
				return err
			}
			if wrong := Differences(want, got); len(wrong) != 0 {
				return fmt.Errorf("replica %s differs from the run without faults:\n%s", f.Replicas[i].Name, strings.Join(wrong, "\n"))
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// Metric returns the sum of a metric over its label values, as a replica exposes it.
func (f *Fleet) Metric(ctx context.Context, i int, name string) (sum float64, err error) {
	r, err := f.server(i)
	if err != nil {
		return 0, err
	}
	m, err := r.Metrics(ctx)
	if err != nil {
		return 0, fmt.Errorf("replica %s: %w", f.Replicas[i].Name, err)
	}
	sum, found := m.Sum(name)
	if !found {
		err = fmt.Errorf("replica %s has no metric %s", f.Replicas[i].Name, name)
	}
	return sum, err
}

// AwaitTraces waits until no replica has open traces.
func (f *Fleet) AwaitTraces(ctx context.Context) error {
	for i := range f.Replicas {
		if err := assaytest.Await(ctx, assaytest.Limit, slowPollInterval, func() error {
			open, err := f.Metric(ctx, i, "assay_open_traces")
			if err == nil && open != 0 {
				err = fmt.Errorf("replica %s has %v open traces", f.Replicas[i].Name, open)
			}
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// Terminate stops all replicas with SIGTERM.
func (f *Fleet) Terminate() error {
	errs := make([]error, len(f.Replicas))
	var all sync.WaitGroup
	for i, r := range f.Replicas {
		all.Go(func() { errs[i] = r.Terminate() })
	}
	all.Wait()
	return errors.Join(errs...)
}
