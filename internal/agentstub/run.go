// SPDX-License-Identifier: Apache-2.0

package agentstub

import (
	"slices"
	"strconv"
	"time"
)

// The kinds of runs.
const (
	kindReview          = "review"
	kindFix             = "fix"
	kindInstrumentation = "instrumentation"
	kindMigration       = "partner-migrate-execute"
)

var runKinds = []string{kindReview, kindFix, kindInstrumentation, kindMigration}

// phasesOf are the phases of each kind, in order.
var phasesOf = map[string][]string{
	kindReview:          {"checkout", "scan", "judge", "report"},
	kindFix:             {"checkout", "plan", "change", "verify", "pull_request"},
	kindInstrumentation: {"checkout", "detect", "instrument", "verify", "pull_request"},
	kindMigration:       {"checkout", "detect", "translate", "verify", "pull_request"},
}

// The statuses of runs and of their phases. Only phases are pending or skipped, only
// runs are queued.
const (
	statusQueued    = "queued"
	statusPending   = "pending"
	statusRunning   = "running"
	statusCompleted = "completed"
	statusFailed    = "failed"
	statusSkipped   = "skipped"
)

var runStatuses = []string{statusQueued, statusRunning, statusCompleted, statusFailed}

const defaultBranch = "main"

// run is one run of the agent on a repository. When it starts and ends is known from
// the beginning, and all its events from its start; what has happened by a moment
// follows from the clock.
type run struct {
	id         string
	kind       string
	repository *repository
	branch     string
	wanted     []string // ids of the findings to fix; nil for all
	created    time.Time
	starts     time.Time // when the run before it on the repository has ended
	ends       time.Time
	phase      time.Duration // of each phase

	// What follows is set when the run starts.
	timeline []event // in order of seq and time; seq is the index plus one
	findings []*finding
	outcome  outcome

	done bool // the run has left its traces: outcome is in the repository
}

// outcome is what a run leaves when it has ended.
type outcome struct {
	summary     string
	failure     string // "": it succeeds
	partner     string // what was migrated from
	pullRequest string
}

// event is an entry of a run's timeline.
type event struct {
	label
	Seq         int       `json:"seq"`
	ExecutionID string    `json:"execution_id"`
	Type        string    `json:"type"`
	Phase       *string   `json:"phase"`
	Message     string    `json:"message"`
	FindingID   *string   `json:"finding_id"`
	CreatedAt   time.Time `json:"created_at"`
}

// newRun returns a run that follows those that the repository has.
func newRun(id, kind string, r *repository, now time.Time, phase time.Duration) *run {
	n := &run{id: id, kind: kind, repository: r, branch: defaultBranch, created: now, starts: now, phase: phase}
	if r.lastRun != nil && r.lastRun.ends.After(now) {
		n.starts = r.lastRun.ends
	}
	n.ends = n.starts.Add(time.Duration(n.length()) * phase)
	return n
}

// length returns the number of phases that the run goes through.
func (r *run) length() int {
	if r.repository.broken {
		return 1
	}
	return len(phasesOf[r.kind])
}

func (r *run) status(now time.Time) string {
	switch {
	case now.Before(r.starts):
		return statusQueued
	case now.Before(r.ends):
		return statusRunning
	case r.outcome.failure != "":
		return statusFailed
	}
	return statusCompleted
}

// events returns the part of the timeline that lies before or at a moment.
func (r *run) events(now time.Time) []event {
	n, _ := slices.BinarySearchFunc(r.timeline, now, func(e event, now time.Time) int {
		if e.CreatedAt.After(now) {
			return 1
		}
		return -1
	})
	return r.timeline[:n]
}

// begin decides what a run will do, by what is there at its start.
func (o *organization) begin(r *run) {
	repository := r.repository
	switch {
	case repository.broken:
		r.outcome = outcome{failure: "the repository has no branch " + r.branch, summary: "The repository could not be checked out."}
	case r.kind == kindReview:
		r.findings = o.review(repository, r)
		r.outcome.summary = "Reviewed " + repository.fullName() + ": " + count(len(r.findings), "finding") + "."
	case r.kind == kindFix:
		for _, f := range o.activeFindings(repository) {
			if r.wanted == nil || slices.Contains(r.wanted, f.id) {
				r.findings = append(r.findings, f)
			}
		}
		r.outcome.summary = "Fixed " + count(len(r.findings), "finding") + " of " + repository.fullName() + "."
		r.open(len(r.findings) > 0)
	case r.kind == kindInstrumentation:
		r.outcome.summary = repository.fullName() + " is instrumented already."
		if !repository.instrumented {
			r.outcome.summary = "Instrumented " + repository.fullName() + " with OpenTelemetry for " + repository.language + "."
		}
		r.open(!repository.instrumented)
	case r.kind == kindMigration:
		r.outcome.summary = repository.fullName() + " has nothing to migrate."
		if r.outcome.partner = repository.partner; r.outcome.partner != "" {
			r.outcome.summary = "Migrated " + repository.fullName() + " from " + r.outcome.partner + " to OpenTelemetry."
		}
		r.open(r.outcome.partner != "")
	}
	r.write()
}

// open gives the run a pull request where it changed something.
func (r *run) open(changed bool) {
	if changed {
		r.repository.pulls++
		r.outcome.pullRequest = r.repository.url() + "/pull/" + strconv.Itoa(r.repository.pulls)
	}
}

// write writes the timeline.
func (r *run) write() {
	say := func(at time.Time, kind, phase, message string, about *finding) {
		e := event{Seq: len(r.timeline) + 1, ExecutionID: r.id, Type: kind, Message: message, CreatedAt: at}
		if phase != "" {
			e.Phase = &phase
		}
		if about != nil {
			e.FindingID = &about.id
		}
		r.timeline = append(r.timeline, e)
	}
	say(r.starts, "execution.started", "", "The "+r.kind+" run on "+r.repository.fullName()+" has started.", nil)
	phases := phasesOf[r.kind][:r.length()]
	for i, phase := range phases {
		from := r.starts.Add(time.Duration(i) * r.phase)
		to := from.Add(r.phase)
		last := i == len(phases)-1
		say(from, "phase.started", phase, "The phase "+phase+" has started.", nil)
		say(from.Add(r.phase/2), "agent.message", phase, "Working on "+phase+".", nil)
		if last {
			verb, kind := "Found: ", "finding.reported"
			if r.kind == kindFix {
				verb, kind = "Resolved: ", "finding.resolved"
			}
			for _, f := range r.findings {
				say(to, kind, phase, verb+kinds[f.kind].title+".", f)
			}
		}
		if last && r.outcome.failure != "" {
			say(to, "phase.failed", phase, "The phase "+phase+" has failed: "+r.outcome.failure+".", nil)
		} else {
			say(to, "phase.completed", phase, "The phase "+phase+" is completed.", nil)
		}
	}
	if r.outcome.failure != "" {
		say(r.ends, "execution.failed", "", r.outcome.summary, nil)
	} else {
		say(r.ends, "execution.completed", "", r.outcome.summary, nil)
	}
}

// finish leaves the traces of a run that has ended.
func (o *organization) finish(r *run) {
	r.done = true
	if r.outcome.failure != "" {
		return
	}
	switch r.kind {
	case kindReview:
		for _, f := range r.findings {
			if !slices.Contains(o.findings, f) {
				o.findings = append(o.findings, f)
			}
		}
	case kindFix:
		for _, f := range r.findings {
			f.resolved = r.ends
		}
	case kindInstrumentation:
		r.repository.instrumented = true
	case kindMigration:
		if r.outcome.partner != "" {
			r.repository.partner, r.repository.instrumented = "", true
		}
	}
}

func number(n int) string { return strconv.Itoa(n) }

// count returns a number of things in words.
func count(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return number(n) + " " + thing
}
