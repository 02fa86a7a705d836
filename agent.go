// SPDX-License-Identifier: Apache-2.0

package assay

import "context"

// AgentCall is a request for the agent backend, as its caller made it. The caller's
// credential is not part of it.
type AgentCall struct {
	Operation string // its name, such as list-findings
	Caller    *Principal
	TraceID   string // of the response to the caller
	Method    string // GET stands for HEAD as well
	Path      string // below the backend's URL: begins with a slash, escaped as it was sent
	Query     string // without the question mark, as it was sent; it may not parse
	// Header has what goes along to the backend: Accept, Content-Type,
	// If-Modified-Since, If-None-Match, Traceparent, User-Agent and X-Request-Id, as
	// far as they were sent. Its keys are canonical.
	Header map[string][]string
	Body   []byte // one JSON value; nil for none
}

// AgentAnswer is what the agent backend said to a call that succeeded.
type AgentAnswer struct {
	NotModified  bool   // the caller has it already; Data, Total and Links are not set
	Data         []byte // one JSON value; nil for none
	Total        *int64 // of the items in all pages, where the backend says it
	Links        []byte // a JSON object of the backend's own links; nil for none
	ETag         string // "" for none
	LastModified string // "" for none
}

// AgentBackend is the system that owns codebase review, fix, instrumentation and
// migration runs. Implementations may be used concurrently.
type AgentBackend interface {
	// Forward sends a call on in its caller's name. A refusal has the code that
	// belongs to the backend's status, its message and its details. CodeUpstream
	// means that the exchange failed, CodeUnavailable that the backend cannot be
	// reached. An error with a method RetryAfter() time.Duration says when to try again,
	// and one with a method BackendCode() string has the backend's own name for its
	// refusal, "" for none: upper-case letters, digits and underscores.
	Forward(ctx context.Context, c *AgentCall) (*AgentAnswer, error)
}
