// SPDX-License-Identifier: Apache-2.0

// Package agent is the gateway to the agent backend, the system that owns codebase
// review, fix, instrumentation and migration runs. It sends a call on as it came,
// with a token of assay in place of the caller's credential, and trusts nothing
// that comes back: every phase has a deadline, every size a limit, and what is
// passed to the caller is JSON.
//
// A backend that is down or slow costs its callers an answer and nobody else
// anything: calls in flight and the memory of their answers are bounded, and after a
// row of failures a circuit breaker refuses calls until one of them gets through.
package agent
