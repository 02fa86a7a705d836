// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"assay/internal/codebase/sandbox"
	"assay/internal/report"
)

// Defaults of Verifier.
const (
	DefaultMemory    = 2 << 30
	DefaultDisk      = 2 << 30
	DefaultProcesses = 512
	DefaultTime      = 5 * time.Minute
)

// Verifier runs the tests of a repository before and after a change, and compares their results and their telemetry. A
// zero field selects the default. A Verifier is safe for concurrent use.
type Verifier struct {
	Memory    int64         // bytes of all processes of the tests, without their files
	Disk      int64         // bytes of the files of the tests, which are in memory
	Processes int           // maximum number of processes and threads
	Time      time.Duration // time limit of a run of the tests
	ReadOnly  []string      // absolute directories with toolchains and caches, which the tests may read
	Env       []string      // variables for the tests, such as GOMODCACHE
}

// Status is the outcome of a verification.
type Status string

// The outcomes.
const (
	Verified   Status = "verified"   // the tests pass, and so do the rules that the change should fix
	TestsPass  Status = "tests pass" // before and after the change; the telemetry proves no improvement
	Unverified Status = "unverified" // the tests could not run, failed before the change, or lack its dependencies
	Rejected   Status = "rejected"   // a test or a rule that passed fails, or a score falls
)

// Options describes the change to verify.
type Options struct {
	Before, After string   // directories with the repository before and after the change; they are only read
	Changed       []string // paths of the changed files in After, with slashes
	Command       string   // shell command that runs the tests; "" selects a command by the manifests of the changed files
	Rules         []string // ids of the rules that the change should fix; empty if it should add telemetry
	// Installs is set if the change adds dependencies. The tests have no network to install them, so a failure after
	// the change is inconclusive.
	Installs bool
	Progress func(string) // may be nil
}

// Result is the evidence for a change. Texts from the repository and its telemetry are printable and bounded.
type Result struct {
	Status  Status              `json:"status"`
	Reason  string              `json:"reason,omitempty"`
	Command string              `json:"command,omitempty"`
	Tests   report.Pair[*Tests] `json:"tests"` // nil if they did not run, as Telemetry
	Rules   []report.RuleStates `json:"rules"`
	Scores  []report.Scores     `json:"scores"`

	Telemetry report.Pair[*Telemetry] `json:"telemetry"`
}

// Tests is one run of the tests.
type Tests struct {
	Passed   bool    `json:"passed"`
	ExitCode int     `json:"exit_code"`
	Limit    string  `json:"limit,omitempty"` // limit that ended the tests: time, memory or files
	Duration float64 `json:"duration_seconds"`
	Output   string  `json:"output,omitempty"` // the last lines, without secrets
}

// Telemetry is the telemetry that the tests sent.
type Telemetry struct {
	Spans        uint64 `json:"spans"`
	LogRecords   uint64 `json:"log_records"`
	MetricPoints uint64 `json:"metric_points"`
	Dropped      bool   `json:"dropped,omitempty"` // some was dropped because of a limit
}

// Available reports why this machine cannot run tests, or nil if it can.
func (v *Verifier) Available(ctx context.Context) error {
	return (&sandbox.Container{Script: "true", Memory: DefaultMemory, Disk: 1 << 20, Processes: 32, ReadOnly: v.ReadOnly}).Available(ctx)
}

// Verify verifies a change. It returns an error if ctx ends or a directory cannot be read.
func (v *Verifier) Verify(ctx context.Context, o Options) (*Result, error) {
	before, err := os.OpenRoot(o.Before)
	if err != nil {
		return nil, fmt.Errorf("verify the change: %w", err)
	}
	defer before.Close()
	after, err := os.OpenRoot(o.After)
	if err != nil {
		return nil, fmt.Errorf("verify the change: %w", err)
	}
	defer after.Close()
	command := strings.TrimSpace(o.Command)
	if command == "" {
		if command, err = suggest(ctx, after.FS(), o.Changed); err != nil {
			return nil, fmt.Errorf("verify the change: %w", err)
		}
	}
	r := &Result{Status: Unverified, Command: report.Printable(command, maxCommand), Rules: []report.RuleStates{}, Scores: []report.Scores{}}
	if command == "" {
		r.Reason = "no command for tests is configured, and no manifest suggests one"
		return r, nil
	}
	progress := o.Progress
	if progress == nil {
		progress = func(string) {}
	}
	outcomes, err := v.run(ctx, command, progress, before.FS(), after.FS())
	if err != nil && !errors.Is(err, sandbox.ErrUnavailable) {
		return nil, fmt.Errorf("run the tests: %w", err)
	}
	if len(outcomes) > 0 {
		r.Tests.Before, r.Telemetry.Before = outcomes[0].tests, outcomes[0].telemetry()
	}
	switch {
	case err != nil:
		r.Reason = oneLine(err.Error())
	case len(outcomes) == 1:
		r.Reason = "before the change, " + r.Tests.Before.why()
	default:
		r.Tests.After, r.Telemetry.After = outcomes[1].tests, outcomes[1].telemetry()
		r.compare(&o, outcomes[0].report, outcomes[1].report)
	}
	return r, nil
}

// why returns why the tests failed.
func (t *Tests) why() string {
	switch {
	case t.Limit != "":
		return "the tests exceed the limit for " + t.Limit
	case t.ExitCode == 126 || t.ExitCode == 127:
		return "a program that the tests need is missing"
	}
	return fmt.Sprintf("the tests fail with exit code %d", t.ExitCode)
}
