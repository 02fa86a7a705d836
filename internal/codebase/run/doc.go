// SPDX-License-Identifier: Apache-2.0

// Package run executes the runs of the agent.
//
// Runs are rows of the store. Each process has a Worker that claims them by lease, one at a time for a repository
// (worker.go). A run has phases (phases.go). The changes of a phase and its events are stored in one transaction. So if
// a process crashes, another process continues the run with the phase that has not ended, and no event is lost or
// repeated. Clones are per process: a process that takes over a run fetches its commit again, and the review of a
// commit always has the same result.
//
// For a fix, instrumentation or migration (change.go), a child process makes a patch. The run verifies the patch and
// publishes it (describe.go writes the text). If a language model is configured, it changes the code for the remaining
// findings and boundaries (propose.go). Its changes are stored with the run, so that a process that continues the run
// does not pay for them again.
//
// A review (review.go) reads the repository in a child process (scanner.go), and joins its findings to the insights
// from telemetry (correlate.go).
package run
