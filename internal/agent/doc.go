// SPDX-License-Identifier: Apache-2.0

// Package agent is the gateway to the agent backend, the system that runs codebase reviews, fixes, instrumentation and
// migrations. It forwards a call unchanged, except that a token signed by assay replaces the caller's credential. It
// does not trust the backend: every phase has a timeout, every size has a limit, and only JSON is passed to the
// caller.
//
// A backend that is down or slow affects only calls to it: the calls in flight and the memory of their responses are
// limited. After consecutive failures of the calls of an organization, a circuit breaker refuses its calls until a
// probe succeeds.
package agent
