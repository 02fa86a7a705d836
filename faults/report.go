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

// Report is what is written about a scenario. Its methods may be used concurrently.
type Report struct {
	Scenario string    `json:"scenario"`
	Store    string    `json:"store"`
	Replicas int       `json:"replicas"`
	Seed     uint64    `json:"seed"`
	Requests int       `json:"requests"` // of the load
	Began    time.Time `json:"began"`
	Seconds  float64   `json:"seconds"`

	Faults  map[string]int    `json:"faults"`  // by kind
	Ready   Times             `json:"ready"`   // from a fault's end until /readyz answers 200
	Events  []Event           `json:"events"`  // in their order
	Ledger  []Entry           `json:"ledger"`  // a signal after the other
	Retries map[string]uint64 `json:"retries"` // by what had come of the attempt before
	Wrong   []string          `json:"wrong"`   // what is not as it has to be; empty when all is well

	mu  sync.Mutex
	log func(line string)
}

// Event is something that happened.
type Event struct {
	Second float64 `json:"second"` // of the scenario
	What   string  `json:"what"`
}

// Times are durations in seconds.
type Times struct {
	Count   int     `json:"count"`
	Mean    float64 `json:"mean"`
	Longest float64 `json:"longest"`
}

// NewReport begins a report. Every event is a line for log at once.
func NewReport(scenario string, log func(line string)) *Report {
	return &Report{Scenario: scenario, Began: time.Now().UTC(), Faults: make(map[string]int), Wrong: []string{}, log: log}
}

// Event writes down what happened.
func (r *Report) Event(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := Event{Second: time.Since(r.Began).Seconds(), What: fmt.Sprintf(format, args...)}
	r.Events = append(r.Events, e)
	r.log(fmt.Sprintf("%s %7.2f s: %s", r.Scenario, e.Second, e.What))
}

// Fault writes down that something was broken.
func (r *Report) Fault(kind, format string, args ...any) {
	r.mu.Lock()
	r.Faults[kind]++
	r.mu.Unlock()
	r.Event(format, args...)
}

// ReadyAfter writes down how long a replica took until it was ready again.
func (r *Report) ReadyAfter(replica string, took time.Duration) {
	r.mu.Lock()
	t := &r.Ready
	t.Mean = (t.Mean*float64(t.Count) + took.Seconds()) / float64(t.Count+1)
	t.Count++
	t.Longest = max(t.Longest, took.Seconds())
	r.mu.Unlock()
	r.Event("%s is ready after %.2f s", replica, took.Seconds())
}

// Fail writes down what is not as it has to be.
func (r *Report) Fail(format string, args ...any) {
	r.mu.Lock()
	r.Wrong = append(r.Wrong, fmt.Sprintf(format, args...))
	r.mu.Unlock()
	r.Event(format, args...)
}

// End writes the ledger down and the report to a file, whose path it returns.
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
