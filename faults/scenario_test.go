// SPDX-License-Identifier: Apache-2.0

//go:build linux

package faults

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"assay/internal/assaytest"
	"assay/internal/store/postgres"
	"assay/internal/store/sqlite"
)

// readyLimit is the maximum time until a replica is ready after a fault has ended. It applies to the long
// form, which runs alone on the machine.
const readyLimit = 10 * time.Second

// plan describes a scenario: its load, its fleet and its faults.
type plan struct {
	load  *Load
	every time.Duration // interval between rounds
	fleet FleetConfig   // Program and Organizations are filled in
	idle  string        // --trace-idle; "": traces stay open until all requests are acknowledged
	// withheld allows SPA-002 to be evaluated less often than without faults: a replica does not evaluate it
	// for a trace whose beginning may be with another replica.
	withheld bool

	before func(s *scenario) // runs before the first request; may be nil
	breaks func(s *scenario)

	// closing injects faults after the last acknowledgement, while the last traces are still open. It may be
	// nil.
	closing func(s *scenario)
}

// scenario is a running plan.
type scenario struct {
	*testing.T
	*Report
	ctx    context.Context
	load   *Load
	fleet  *Fleet
	ledger *Ledger
	plan   plan
}

// outcome is the state after a load.
type outcome struct {
	states   map[string]*State
	verdicts Verdicts
}

// Values of --trace-idle: traces close soon or do not close during the scenario.
const (
	soon  = "500ms"
	never = "10m"
)

// run sends the load of a plan while its faults are injected. After the last acknowledgement, the state that
// clients see and the content of the store must equal the outcome that reference returns. A nil reference
// skips this comparison.
func run(t *testing.T, p plan, reference func(*testing.T) *outcome) *outcome {
	binary, err := assaytest.FaultsBinary()
	require.NoError(t, err)
	ctx := t.Context()
	s := &scenario{
		T: t, Report: NewReport(strings.TrimPrefix(t.Name(), "Test"), func(line string) { t.Log(line) }),
		ctx: ctx, load: p.load, ledger: NewLedger(), plan: p,
	}
	p.fleet.Program, p.fleet.Organizations = binary, p.load.Config.Organizations
	if p.fleet.Data == "" {
		p.fleet.Data = t.TempDir()
	}
	idle := p.idle
	if idle == "" {
		idle = never
	}
	p.fleet.Args = append([]string{"--score-interval", "500ms", "--commit-interval", "20ms", "--trace-idle", idle}, p.fleet.Args...)
	s.fleet, err = StartFleet(ctx, p.fleet)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, s.fleet.Close())
		if t.Failed() {
			s.keepLogs()
		}
	})
	s.Store, s.Replicas, s.Seed, s.Requests = "sqlite", len(s.fleet.Replicas), p.load.Config.Seed, p.load.Requests()
	if p.fleet.Database != "" {
		s.Store = "postgres"
	}
	s.Event("%d requests for %d replicas", s.Requests, s.Replicas)

	if p.before != nil {
		p.before(s)
	}
	watching, stopWatching := context.WithCancel(ctx)
	defer stopWatching()
	var watch, send sync.WaitGroup
	watch.Go(func() {
		for _, wrong := range s.fleet.Watch(watching) {
			s.Fail("%s", wrong)
		}
	})
	sender, err := NewSender(s.fleet.Targets(), s.fleet.Keys, s.ledger)
	require.NoError(t, err)
	defer sender.Close()
	sending, stopSending := context.WithCancel(ctx)
	defer send.Wait()
	defer stopSending()
	send.Go(func() {
		if err := sender.Send(sending, p.load, p.every); err != nil {
			s.Fail("send: %v", err)
		}
	})
	if p.breaks != nil {
		p.breaks(s)
	}
	send.Wait()
	s.Event("acknowledged %d; halves of a trace up to %.1f s apart", s.ledger.Acknowledged(), s.ledger.Apart().Seconds())
	if p.closing != nil {
		p.closing(s)
	}
	if p.idle == "" {
		s.evaluateTraces()
	}
	s.check(s.fleet.AwaitTraces(s.ctx))
	var want *outcome
	if reference != nil {
		want = reference(t)
	}
	got := s.settle(want)
	stopWatching()
	watch.Wait()
	s.check(s.fleet.Terminate())
	got.verdicts, err = s.verdicts()
	s.check(err)
	if want != nil { // Compare once more after shutdown: replicas must not have written anything else.
		for _, wrong := range s.unlike(got.verdicts, want.verdicts) {
			s.Fail("%s", wrong)
		}
	}
	for _, wrong := range s.ledger.Balance() {
		s.Fail("%s", wrong)
	}
	var table strings.Builder
	require.NoError(t, s.ledger.Print(&table))
	path, err := s.End(s.ledger, *reports)
	require.NoError(t, err)
	t.Logf("%s: %.0f s, faults: %v, ready after at most %.2f s; %s\n%s", s.Scenario, s.Seconds, s.Faults, s.Ready.Longest, path, &table)
	require.Empty(t, s.Wrong)
	return got
}

// keepLogs writes the logs of the replicas next to the report.
func (s *scenario) keepLogs() {
	for _, r := range s.fleet.Replicas {
		path := filepath.Join(*reports, strings.NewReplacer("/", "-", " ", "-").Replace(s.Scenario)+"-"+r.Name+".log")
		require.NoError(s, os.MkdirAll(*reports, 0o755))
		require.NoError(s, os.WriteFile(path, []byte(r.config.Log.String()), 0o644))
		s.Logf("the log of %s: %s", r.Name, path)
	}
}

// check records an error as a violation.
func (s *scenario) check(err error) {
	s.Helper()
	if err != nil {
		s.Fail("%v", err)
	}
}

// evaluateTraces restarts all replicas with a short --trace-idle.
func (s *scenario) evaluateTraces() {
	s.Helper()
	require.NoError(s, s.fleet.Terminate())
	errs := make([]error, len(s.fleet.Replicas))
	var all sync.WaitGroup
	for i, r := range s.fleet.Replicas {
		all.Go(func() { errs[i] = r.Start(s.ctx, "--trace-idle", soon) })
	}
	all.Wait()
	require.NoError(s, errors.Join(errs...))
	s.Event("restarted with a short --trace-idle")
}

// settle waits until all traces are evaluated, including those of killed replicas, and clients see the wanted
// state. It returns the state that they see.
func (s *scenario) settle(want *outcome) *outcome {
	s.Helper()
	if want != nil {
		s.check(assaytest.Await(s.ctx, assaytest.Limit, slowPollInterval, func() error {
			got, err := s.verdicts()
			if err != nil {
				return err
			}
			if wrong := s.unlike(got, want.verdicts); len(wrong) != 0 {
				return fmt.Errorf("the store differs from the run without faults:\n%s", strings.Join(wrong, "\n"))
			}
			return nil
		}))
		s.check(s.fleet.AwaitTraces(s.ctx))
		s.check(s.fleet.AwaitStates(s.ctx, want.states))
	} else {
		s.check(assaytest.Await(s.ctx, assaytest.Limit, slowPollInterval, s.scored))
	}
	states, err := s.fleet.States(s.ctx, 0)
	require.NoError(s, err)
	s.ledger.Count(states)
	s.totals(states)
	return &outcome{states: states}
}

// unlike returns the differences between verdicts.
func (s *scenario) unlike(got, want Verdicts) []string {
	if s.plan.withheld {
		want = maps.Clone(want)
		for service, rules := range want {
			rules = maps.Clone(rules)
			w, g := rules["SPA-002"], got[service]["SPA-002"]
			if g.Observed <= w.Observed && g.Failed <= w.Failed && (g.Failed > 0) == (w.Failed > 0) {
				rules["SPA-002"] = g
			}
			want[service] = rules
		}
	}
	return got.Differences(want)
}

// scored returns nil if the scores are stable: two reads, more than one scoring interval apart, are equal.
func (s *scenario) scored() error {
	before, err := s.fleet.States(s.ctx, 0)
	if err != nil {
		return err
	}
	<-time.After(2 * time.Second)
	after, err := s.fleet.States(s.ctx, 0)
	if err != nil {
		return err
	}
	if moved := Differences(before, after); len(moved) != 0 {
		return errors.New(strings.Join(moved, "\n"))
	}
	return nil
}

// totals compares the totals that clients see of every service with the load.
func (s *scenario) totals(states map[string]*State) {
	s.Helper()
	seen := make(map[Series]uint64)
	bytes := make(map[Series]uint64)
	for organization, state := range states {
		for service, u := range state.Usage {
			for i, signal := range signals {
				if u.Records[i] > 0 {
					seen[Series{organization, service, signal}] = u.Records[i]
				}
				bytes[Series{organization, "", signal}] += u.Bytes[i]
			}
		}
	}
	if diff := cmp.Diff(s.load.Records, seen); diff != "" {
		s.Fail("records sent (-) and seen by clients (+) differ:\n%s", diff)
	}
	if diff := cmp.Diff(s.load.Bytes, bytes); diff != "" {
		s.Fail("bytes sent (-) and seen by clients (+) differ:\n%s", diff)
	}
}

// verdicts reads the verdicts from the fleet's store.
func (s *scenario) verdicts() (Verdicts, error) {
	if database := s.fleet.cfg.Database; database != "" {
		store, err := postgres.Open(s.ctx, postgres.Config{URL: database})
		if err != nil {
			return nil, err
		}
		defer store.Close()
		return ReadVerdicts(s.ctx, store)
	}
	store, err := sqlite.Open(s.ctx, sqlite.Config{Path: filepath.Join(s.fleet.DataDir(), "assay.db")})
	if err != nil {
		return nil, err
	}
	defer store.Close()
	return ReadVerdicts(s.ctx, store)
}

// after waits until a fraction of the load is acknowledged.
func (s *scenario) after(part float64) {
	s.Helper()
	n := uint64(part * float64(s.Requests))
	require.NoError(s, assaytest.Await(s.ctx, 2*assaytest.Limit, assaytest.PollInterval, func() error {
		if got := s.ledger.Acknowledged(); got < n {
			return fmt.Errorf("%d of %d requests are acknowledged", got, n)
		}
		return nil
	}))
}

// ready waits until a replica is ready and records the time since the fault ended.
func (s *scenario) ready(replica int, ended time.Time) {
	s.Helper()
	r := s.fleet.Replicas[replica]
	require.NoError(s, s.fleet.AwaitReady(s.ctx, replica))
	took := time.Since(ended)
	s.ReadyAfter(r.Name, took)
	if *long && took > readyLimit {
		s.Fail("%s is ready after more than %v", r.Name, readyLimit)
	}
}

// kill kills a replica and restarts it.
func (s *scenario) kill(replica int) {
	s.Helper()
	r := s.fleet.Replicas[replica]
	r.Kill()
	s.Fault("kill", "killed %s with %d acknowledged", r.Name, s.ledger.Acknowledged())
	ended := time.Now()
	require.NoError(s, r.Start(s.ctx))
	s.ready(replica, ended)
}

// terminate stops a replica with SIGTERM and restarts it.
func (s *scenario) terminate(replica int) {
	s.Helper()
	r := s.fleet.Replicas[replica]
	before := s.ledger.Acknowledged()
	s.check(r.Terminate())
	s.Fault("terminate", "%s ended after SIGTERM, with %d acknowledged before and %d now", r.Name, before, s.ledger.Acknowledged())
	ended := time.Now()
	require.NoError(s, r.Start(s.ctx))
	s.ready(replica, ended)
}
