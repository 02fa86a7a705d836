// SPDX-License-Identifier: Apache-2.0

//go:build linux

package faults

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// bootstrapKey is the key of the organization that an empty store is given.
const bootstrapKey = "assay_sk_fau1Ts_00112233445566778899aabbccddeeff"

// DefaultOrganization is the organization that an empty store is given.
const DefaultOrganization = "default"

// FleetConfig says what a Fleet is.
type FleetConfig struct {
	Program       string   // path, as Build made it
	Dir           string   // for logs
	Data          string   // where each replica has a data directory; default Dir
	Database      string   // URL of an empty PostgreSQL database over TCP; "": SQLite, for one replica
	Replicas      int      // default 1
	Organizations []string // the first is DefaultOrganization
	Args          []string // of `assay serve`, for all
	Environ       func(replica int) []string
}

// Fleet is replicas of the program on one store, behind proxies.
type Fleet struct {
	Replicas []*Replica
	Keys     map[string]string // of all scopes, by organization

	cfg  FleetConfig
	http *http.Client
}

// StartFleet starts replicas on an empty store and makes the organizations. Close
// ends it.
func StartFleet(ctx context.Context, cfg FleetConfig) (*Fleet, error) {
	if cfg.Data == "" {
		cfg.Data = cfg.Dir
	}
	f := &Fleet{
		cfg: cfg, Keys: map[string]string{DefaultOrganization: bootstrapKey},
		http: &http.Client{Transport: &http.Transport{DisableCompression: true}},
	}
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

// replica returns a replica that does not run yet, also where it fails half-way.
func (f *Fleet) replica(i int) (r *Replica, err error) {
	name := string(rune('a' + i))
	r = &Replica{Name: name, program: f.cfg.Program, log: filepath.Join(f.cfg.Dir, name+".log")}
	for _, p := range []**Proxy{&r.OTLPHTTP, &r.OTLPGRPC} {
		if *p, err = NewProxy(); err != nil {
			return r, err
		}
	}
	r.args = []string{
		"serve", "--http-address", "127.0.0.1:0", "--otlp-grpc-address", "127.0.0.1:0", "--otlp-http-address", "127.0.0.1:0",
		"--bootstrap-api-key", bootstrapKey, "--log-format", "json", "--data-dir", filepath.Join(f.cfg.Data, name),
	}
	if f.cfg.Database != "" {
		u, err := url.Parse(f.cfg.Database)
		if err != nil {
			return r, errors.New("the URL of the database cannot be read")
		}
		if r.Database, err = NewProxy(); err != nil {
			return r, err
		}
		r.Database.SetTarget(u.Host)
		u.Host = r.Database.Address()
		r.args = append(r.args, "--store", u.String(), "--replica-name", name)
	}
	r.args = append(r.args, f.cfg.Args...)
	if f.cfg.Environ != nil {
		r.environ = f.cfg.Environ(i)
	}
	return r, nil
}

// command runs a command of the program on the fleet's store.
func (f *Fleet) command(ctx context.Context, args ...string) (string, error) {
	args = append(args, "--data-dir", f.DataDir())
	if f.cfg.Database != "" {
		args = append(args, "--store", f.cfg.Database)
	}
	return runCommand(ctx, f.cfg.Program, f.cfg.Dir, args...)
}

// DataDir returns where the first replica keeps its data.
func (f *Fleet) DataDir() string { return filepath.Join(f.cfg.Data, "a") }

// Close ends everything at once.
func (f *Fleet) Close() error {
	for _, r := range f.Replicas {
		r.close()
	}
	f.http.CloseIdleConnections()
	return nil
}

// Targets returns where clients send.
func (f *Fleet) Targets() []Target {
	var all []Target
	for _, r := range f.Replicas {
		all = append(all, Target{Name: r.Name, OTLPHTTP: r.OTLPHTTP.Address(), OTLPGRPC: r.OTLPGRPC.Address()})
	}
	return all
}

var errDown = errors.New("it does not run")

// reader reads the REST API of a replica.
func (f *Fleet) reader(i int) (*reader, error) {
	p := f.Replicas[i].running()
	if p == nil {
		return nil, fmt.Errorf("replica %s: %w", f.Replicas[i].Name, errDown)
	}
	return &reader{client: f.http, url: p.rest}, nil
}

// Ready asks a replica whether it is ready: nil when it answers 200.
func (f *Fleet) Ready(ctx context.Context, i int) error {
	_, err := f.page(ctx, i, "/readyz")
	return err
}

// page reads what a replica serves beside its API, without a credential.
func (f *Fleet) page(ctx context.Context, i int, path string) (string, error) {
	p := f.Replicas[i].running()
	if p == nil {
		return "", errDown
	}
	r := reader{client: f.http, url: p.root}
	text, err := r.text(ctx, "", path)
	return string(text), err
}

// AwaitReady waits until a replica is ready.
func (f *Fleet) AwaitReady(ctx context.Context, i int) error {
	if err := await(ctx, startTimeout, often, func() error { return f.Ready(ctx, i) }); err != nil {
		return fmt.Errorf("replica %s is not ready: %w\n%s", f.Replicas[i].Name, err, tail(f.Replicas[i].log))
	}
	return nil
}

// How often something is asked again: what takes a moment, and what takes seconds and
// is more work to ask.
const (
	often  = 20 * time.Millisecond
	seldom = 400 * time.Millisecond
)

// await asks until there is no error any more, and returns the last one when there
// still is one in the end.
func await(ctx context.Context, within, every time.Duration, ask func() error) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for {
		err := ask()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(every):
		}
	}
}

// States reads what clients of a replica see, by organization.
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

// countsLogs tells whether a replica knows the log volume: with a store of its own, one
// that is alone does.
func (f *Fleet) countsLogs() bool {
	return f.cfg.Database == "" && !slices.Contains(f.cfg.Args, "--metrics-store")
}

// AwaitStates waits until all replicas show what is wanted, and tells what they show
// instead when they do not.
func (f *Fleet) AwaitStates(ctx context.Context, within time.Duration, want map[string]*State) error {
	for i := range f.Replicas {
		var got map[string]*State
		if err := await(ctx, within, seldom, func() (err error) {
			if got, err = f.States(ctx, i); err != nil {
				return err
			}
			if wrong := Differences(want, got); len(wrong) != 0 {
				return fmt.Errorf("replica %s shows what a run without faults does not:\n%s", f.Replicas[i].Name, strings.Join(wrong, "\n"))
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
	text, err := f.page(ctx, i, "/metrics")
	if err != nil {
		return 0, err
	}
	found := false
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, name)
		if !ok || rest[0] != ' ' && rest[0] != '{' {
			continue
		}
		fields := strings.Fields(line)
		v, err := strconv.ParseFloat(fields[len(fields)-1], 64)
		if err != nil {
			return 0, fmt.Errorf("replica %s: %s: %w", f.Replicas[i].Name, name, err)
		}
		sum += v
		found = true
	}
	if !found {
		return 0, fmt.Errorf("replica %s has no metric %s", f.Replicas[i].Name, name)
	}
	return sum, nil
}

// AwaitTraces waits until no trace is open anywhere.
func (f *Fleet) AwaitTraces(ctx context.Context, within time.Duration) error {
	for i := range f.Replicas {
		if err := await(ctx, within, seldom, func() error {
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

// Terminate ends all replicas with SIGTERM.
func (f *Fleet) Terminate(ctx context.Context) error {
	errs := make([]error, len(f.Replicas))
	var all sync.WaitGroup
	for i, r := range f.Replicas {
		all.Go(func() { errs[i] = r.Terminate(ctx) })
	}
	all.Wait()
	return errors.Join(errs...)
}
