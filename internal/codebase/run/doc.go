// SPDX-License-Identifier: Apache-2.0

// Package run executes the agent's runs.
//
// Runs are rows of the store. Each process has a Worker that claims them by lease, one at a time for a repository
// (worker.go). A run has phases (phases.go). The changes of a phase are one transaction with its events, so that a run
// whose process dies continues with the phase that has not ended, in another process, and loses and repeats no event.
// Clones are per process: a run that moves fetches its commit again, and the review of a commit always finds the same.
//
// A fix, instrumentation or migration (change.go) has the child process make a patch, verifies it and publishes it
// (describe.go has the text). If a language model is configured, it changes the code for the findings and the boundaries
// that are left (propose.go). Its changes are saved with the run, so that a process that continues the run does not pay for
// it again.
//
// A review (review.go) reads the repository in a child process (scanner.go) and joins its findings to the insights
// of the telemetry (correlate.go).
package run
