// SPDX-License-Identifier: Apache-2.0

package assay

import "context"

// AgentCall is a caller's request to the agent backend. It does not contain the caller's credential.
type AgentCall struct {
	Operation string // its name, such as list-findings
	Caller    *Principal
	TraceID   string // of the response to the caller
	Method    string // GET also for HEAD
	Path      string // relative to the backend's URL, with a leading slash, escaped as sent
	Query     string // without the question mark, as sent; may be malformed
	// Header holds the headers to forward, with canonical keys: Accept, Content-Type, If-Modified-Since,
	// If-None-Match, Traceparent, User-Agent and X-Request-Id, if sent.
	Header map[string][]string
	Body   []byte // one JSON value; nil for none
}

// AgentAnswer is the response of the agent backend to a successful call.
type AgentAnswer struct {
	NotModified  bool   // the caller's copy is current; Data, Total and Links are not set
	Data         []byte // one JSON value; nil for none
	Total        *int64 // number of items in all pages; nil if unknown
	Links        []byte // a JSON object of the backend's own links; nil for none
	ETag         string // "" for none
	LastModified string // "" for none
}

// AgentBackend is the system for codebase review, fix, instrumentation and migration runs. Implementations must be
// safe for concurrent use.
type AgentBackend interface {
	// Forward forwards a call on behalf of its caller. If the backend refuses the call, the error has the code for
	// the backend's status, its message and its details. CodeUpstream reports a failed exchange, and CodeUnavailable
	// an unreachable backend. If an error has a method RetryAfter() time.Duration, it returns the delay before a
	// retry. If it has a method BackendCode() string, it returns the backend's own error code, or "": upper-case
	// letters, digits and underscores.
	Forward(ctx context.Context, c *AgentCall) (*AgentAnswer, error)
}
