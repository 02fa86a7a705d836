// SPDX-License-Identifier: Apache-2.0

//go:build linux

package faults

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Report records the course of a scenario. Its methods are safe for concurrent use.
type Report struct {
	Scenario string    `json:"scenario"`
	Store    string    `json:"store"`
	Replicas int       `json:"replicas"`
	Seed     uint64    `json:"seed"`
	Requests int       `json:"requests"` // of the load
	Began    time.Time `json:"began"`
	Seconds  float64   `json:"seconds"`

	Faults  map[string]int    `json:"faults"`  // by kind
	Ready   Times             `json:"ready"`   // time from the end of a fault until /readyz answers 200
	Events  []Event           `json:"events"`  // in order
	Ledger  []Entry           `json:"ledger"`  // in the order of signals
	Retries map[string]uint64 `json:"retries"` // by cause
	Wrong   []string          `json:"wrong"`   // violations; empty if the scenario passed

	mu  sync.Mutex
	log func(line string)
}

// Event is an entry of a report.
type Event struct {
	Second float64 `json:"second"` // since the start of the scenario
	What   string  `json:"what"`
}

// Times are durations in seconds.
type Times struct {
	Count   int     `json:"count"`
	Mean    float64 `json:"mean"`
	Longest float64 `json:"longest"`
}

// NewReport starts a report. Every event is logged immediately.
func NewReport(scenario string, log func(line string)) *Report {
	return &Report{Scenario: scenario, Began: time.Now().UTC(), Faults: make(map[string]int), Wrong: []string{}, log: log}
}

// Event records an event.
func (r *Report) Event(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := Event{Second: time.Since(r.Began).Seconds(), What: fmt.Sprintf(format, args...)}
	r.Events = append(r.Events, e)
	r.log(fmt.Sprintf("%s %7.2f s: %s", r.Scenario, e.Second, e.What))
}

// Fault records a fault and its kind.
func (r *Report) Fault(kind, format string, args ...any) {
	r.mu.Lock()
	r.Faults[kind]++
	r.mu.Unlock()
	r.Event(format, args...)
}

// ReadyAfter records the time until a replica was ready.
func (r *Report) ReadyAfter(replica string, took time.Duration) {
	r.mu.Lock()
	t := &r.Ready
	t.Mean = (t.Mean*float64(t.Count) + took.Seconds()) / float64(t.Count+1)
	t.Count++
	t.Longest = max(t.Longest, took.Seconds())
	r.mu.Unlock()
	r.Event("%s is ready after %.2f s", replica, took.Seconds())
}

// Fail records a violation.
func (r *Report) Fail(format string, args ...any) {
	r.mu.Lock()
	r.Wrong = append(r.Wrong, fmt.Sprintf(format, args...))
	r.mu.Unlock()
	r.Event(format, args...)
}

// End adds the ledger and writes the report to a file. It returns the file's path.
func (r *Report) End(l *Ledger, dir string) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Seconds = time.Since(r.Began).Seconds()
	r.Ledger, r.Retries = l.Entries(), l.Causes()
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	path := filepath.Join(dir, strings.NewReplacer("/", "-", " ", "-").Replace(r.Scenario)+".json")
	return path, os.WriteFile(path, append(text, '\n'), 0o644)
}
