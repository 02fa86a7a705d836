// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"assay"
	"assay/internal/safetext"
)

// agentRoot is where the forwarded operations lie below the base path.
const agentRoot = "/v1/agent"

// agentOperation is an operation that the agent backend carries out.
type agentOperation struct {
	method   string
	path     string // below agentRoot
	callers  callers
	id       string
	summary  string
	purpose  string
	params   []*huma.Param // of the query; the backend checks them
	statuses []int         // besides 401, 403, 500, 502 and 503, which all have
}

// callers says which credentials an operation takes.
type callers int

const (
	anyone callers = iota // a user's session or an API key
	users                 // a user's session
)

// agentOperations are the operations below agentRoot.
var agentOperations = []agentOperation{
	{
		"GET", "/admin/installations", users, "list-agent-installations",
		"List installations", "Admin listing of installations.",
		nil, nil,
	},
	{
		"POST", "/codebase/partner/migrate/execute", anyone, "execute-partner-migration",
		"Start a partner migration", "Triggers a partner migration run. The agent determines the migration from the codebase, and whether the plan and the organization allow it.",
		nil, nil,
	},
	{
		"GET", "/codebase/findings", anyone, "list-codebase-findings",
		"List findings of a run", "Findings filtered by execution and status.",
		[]*huma.Param{
			queryText("executionId", "Only findings of this run.", exampleExecutionID),
			queryEnum("status", "Only findings with this status.", "active", "resolved", "all"),
		},
		[]int{400},
	},
	{
		"POST", "/codebase/fix/execute", anyone, "execute-codebase-fix",
		"Start a fix", "Triggers a codebase fix run.",
		nil, nil,
	},
	{
		"POST", "/codebase/instrumentation/execute", anyone, "execute-codebase-instrumentation",
		"Start an instrumentation", "Triggers a codebase instrumentation run.",
		nil, nil,
	},
	{
		"POST", "/codebase/review/execute", anyone, "execute-codebase-review",
		"Start a review", "Triggers a codebase review run.",
		nil, nil,
	},
	{
		"GET", "/executions", anyone, "list-executions",
		"List runs", "Paginated runs.",
		[]*huma.Param{
			queryInt("limit", "Maximum number of runs.", 50, 100, 20),
			queryInt("offset", "Number of runs to skip.", 0, unlimited, 40),
			queryText("status", "Only runs with this status.", "completed"),
			queryText("repositoryId", "Only runs on this repository.", exampleRepository),
			queryList("executionType", "Comma-separated kinds of runs.", "review", "partner-migrate-execute"),
		},
		nil,
	},
	{
		"GET", "/executions/{execution_id}", anyone, "get-execution",
		"Get a run", "One run: summary, current phase, ordered phases, event timeline (for polling clients).",
		nil,
		[]int{404},
	},
	{
		"GET", "/executions/{execution_id}/agent-events", anyone, "list-agent-events",
		"List the events of a run", "Append-only agent-event timeline ordered by seq. To poll, send the last seq that was seen as `afterSeq`.",
		[]*huma.Param{
			queryInt("afterSeq", "Only events whose seq is greater.", none, unlimited, 17),
			queryInt("limit", "Maximum number of events.", none, unlimited, 100),
		},
		[]int{404},
	},
	{
		"GET", "/findings", anyone, "list-findings",
		"List findings", "Paginated findings for the organization.",
		[]*huma.Param{
			queryList("severity", "Comma-separated severities.", "critical", "high"),
			queryList("category", "Comma-separated categories.", "Sensitive Data", "Volume"),
			queryInt("page", "Number of the page.", 1, unlimited, 2),
			queryInt("page_size", "Findings on a page.", 50, 100, 20),
		},
		[]int{400},
	},
	{
		"GET", "/findings/summary", anyone, "get-findings-summary",
		"Count findings", "Counts of active findings, faceted by severity and category.",
		nil,
		[]int{400},
	},
	{
		"POST", "/onboarding/repos", users, "activate-onboarding-repositories",
		"Activate repositories", "Activates the selected repositories and completes onboarding.",
		nil,
		[]int{400, 409},
	},
	{
		"POST", "/onboarding/session", users, "create-onboarding-session",
		"Begin onboarding", "Creates an onboarding session; returns an installation URL of a source-hosting app.",
		nil,
		[]int{429},
	},
	{
		"GET", "/onboarding/status", users, "get-onboarding-status",
		"Get the state of onboarding", "Current onboarding state and repository counts.",
		nil, nil,
	},
	{
		"GET", "/repositories", anyone, "list-repositories",
		"List repositories", "Repositories nested under installations, for the active organization.",
		nil, nil,
	},
	{
		"GET", "/repositories/{repository_id}", anyone, "get-repository",
		"Get a repository", "Repository state, instrumentation metadata and active findings.",
		nil,
		[]int{404},
	},
	{
		"PATCH", "/repositories/{repository_id}", anyone, "update-repository",
		"Activate or deactivate a repository", "Activates or deactivates the repository; the organization's repository limit is enforced on activation.",
		nil,
		[]int{400, 404, 409, 413, 422},
	},
	{
		"GET", "/repositories/{repository_id}/settings", users, "get-repository-settings",
		"Get the settings of a repository", "Custom review and fix instructions of the repository.",
		nil, nil,
	},
}

// Arguments of queryInt.
const (
	none      = -1 // no default
	unlimited = 0  // no maximum
)

func queryText(name, doc, example string) *huma.Param {
	return queryParam(name, doc, &huma.Schema{Type: huma.TypeString, Examples: []any{example}})
}

func queryEnum(name, doc string, values ...string) *huma.Param {
	s := &huma.Schema{Type: huma.TypeString, Examples: []any{values[0]}}
	for _, v := range values {
		s.Enum = append(s.Enum, v)
	}
	return queryParam(name, doc, s)
}

func queryList(name, doc string, examples ...string) *huma.Param {
	p := queryParam(name, doc, &huma.Schema{
		Type: huma.TypeArray, Items: &huma.Schema{Type: huma.TypeString}, Examples: []any{examples},
	})
	p.Explode = new(bool) // false: one parameter, values separated by commas
	return p
}

func queryInt(name, doc string, fallback, maximum, example int) *huma.Param {
	s := &huma.Schema{Type: huma.TypeInteger, Examples: []any{example}}
	if fallback != none {
		s.Default = fallback
	}
	if maximum != unlimited {
		m := float64(maximum)
		s.Maximum = &m
	}
	return queryParam(name, doc, s)
}

func queryParam(name, doc string, s *huma.Schema) *huma.Param {
	return &huma.Param{Name: name, In: "query", Description: doc, Schema: s}
}

// agentIDs describes the wildcards of the paths.
var agentIDs = map[string]struct{ doc, example string }{
	"execution_id":  {"Id of the run.", exampleExecutionID},
	"repository_id": {"Id of the repository.", exampleRepository},
}

// wildcards returns the names of the wildcards of the path.
func (o *agentOperation) wildcards() []string {
	var names []string
	for segment := range strings.SplitSeq(o.path, "/") {
		if name, ok := strings.CutPrefix(segment, "{"); ok {
			names = append(names, strings.TrimSuffix(name, "}"))
		}
	}
	return names
}

// Forwarded documents a response to a forwarded operation; forwarded writes it.
type Forwarded struct {
	Data  any            `json:"data" doc:"What the agent answered: any JSON value, null when it answered with no body."`
	Meta  ForwardedMeta  `json:"meta" doc:"About the response."`
	Links map[string]any `json:"links,omitempty" doc:"The agent's own links, where it gives some." example:"{\"next\":\"/executions?offset=50\"}"`
}

// ForwardedMeta accompanies a response to a forwarded operation.
type ForwardedMeta struct {
	Meta
	Total *int64 `json:"total,omitempty" doc:"Number of items in all pages, where the agent says it." example:"112"`
}

// agent registers the forwarded operations.
func (s *server) agent() {
	for _, a := range agentOperations {
		op := operation{
			Method: a.method, Path: agentRoot + a.path, ID: a.id, Tag: tagAgent,
			Scope: assay.ScopeAgent, UsersOnly: a.callers == users,
			Summary: a.summary, Description: a.purpose,
			Errors:  append([]int{http.StatusBadGateway}, a.statuses...),
			Timeout: slowTimeout, Volatile: true,
		}
		wildcards := a.wildcards()
		if len(wildcards) > 0 || a.method != http.MethodGet {
			op.Errors = append(op.Errors, http.StatusBadRequest)
		}
		s.handle(op, s.documentAgent(op, &a, wildcards), func(hc huma.Context) {
			x := exchangeOf(hc.Context())
			answer, _, err := s.serve(x, op, func(ctx context.Context, c *call) (any, *page, error) {
				answer, err := s.forward(ctx, c, &a, wildcards)
				return answer, nil, err
			})
			if err != nil {
				x.fail(err)
				return
			}
			x.forwarded(answer.(*assay.AgentAnswer))
		})
	}
}

// documentAgent is document for a forwarded operation.
func (s *server) documentAgent(op operation, a *agentOperation, wildcards []string) *huma.Operation {
	o := s.document(op, nil, schemaOf[Forwarded](s.schemas()), nil)
	for _, name := range wildcards {
		id := agentIDs[name]
		o.Parameters = append(o.Parameters, &huma.Param{
			Name: name, In: "path", Required: true, Description: id.doc,
			Schema: &huma.Schema{Type: huma.TypeString, MinLength: new(1), Examples: []any{id.example}},
		})
	}
	o.Parameters = append(o.Parameters, a.params...)
	total := int64(1)
	o.Responses["200"].Content["application/json"].Examples = map[string]*huma.Example{
		"object": {Summary: "an object, its fields are the agent's", Value: Forwarded{Data: exampleAgentData, Meta: ForwardedMeta{Meta: exampleMeta()}}},
		"page":   {Summary: "a page of a list, the fields of its items are the agent's", Value: Forwarded{Data: []any{exampleAgentData}, Meta: ForwardedMeta{Meta: exampleMeta(), Total: &total}}},
	}
	o.Responses["default"] = &huma.Response{Ref: "#/components/responses/" + agentRefusal}
	responses := s.api.OpenAPI().Components.Responses
	if responses[agentRefusal] == nil {
		responses[agentRefusal] = &huma.Response{
			Description: "Another refusal of the agent: its 400, 403, 404, 409, 413, 422 or 429 is passed on to the caller.",
			Content: map[string]*huma.MediaType{"application/json": describeFailure(s.schemas(),
				assay.CodeInvalid, assay.CodeForbidden, assay.CodeNotFound, assay.CodeConflict, assay.CodeTooLarge, assay.CodeUnprocessable, assay.CodeRateLimited)},
		}
	}
	switch a.method {
	case http.MethodGet:
		o.Responses["304"] = s.refer(http.StatusNotModified)
		o.Parameters = append(o.Parameters,
			&huma.Param{Ref: "#/components/parameters/IfNoneMatch"}, &huma.Param{Ref: "#/components/parameters/IfModifiedSince"})
	case http.MethodPost:
		o.RequestBody = requestBody(false, "Any JSON, or nothing.", &huma.Schema{Description: "Its fields are the agent's."})
	case http.MethodPatch:
		o.RequestBody = requestBody(true, "A JSON object.", &huma.Schema{
			Type: huma.TypeObject, AdditionalProperties: true, Description: "Its fields are the agent's.",
		})
	}
	return o
}

// agentRefusal names the component that describes what the agent may refuse
// besides the statuses of an operation.
const agentRefusal = "AgentRefusal"

var exampleAgentData = map[string]any{"id": exampleExecutionID}

func requestBody(required bool, doc string, schema *huma.Schema) *huma.RequestBody {
	return &huma.RequestBody{
		Required: required, Description: doc + " It is passed on as it is.",
		Content: map[string]*huma.MediaType{"application/json": {Schema: schema, Example: map[string]any{}}},
	}
}

// passedOn are the header fields of a request that go to the backend.
var passedOn = []string{"Accept", "Content-Type", "If-Modified-Since", "If-None-Match", "Traceparent", "User-Agent", "X-Request-Id"}

// forward checks a request for the agent backend and has it answered there.
func (s *server) forward(ctx context.Context, c *call, a *agentOperation, wildcards []string) (*assay.AgentAnswer, error) {
	details := map[string]string{}
	for _, name := range wildcards {
		if id := c.Request.PathValue(name); strings.Contains(id, "/") || id == "." || id == ".." {
			details[name] = "must not hold a slash or be a dot segment"
		}
	}
	if len(details) > 0 {
		return nil, invalid(details)
	}
	body, err := readJSON(c.Request, a.method)
	if err != nil {
		return nil, err
	}
	if s.cfg.Agent == nil {
		return nil, assay.Errorf(assay.CodeUnavailable, "the agent backend is not configured")
	}
	header := map[string][]string{}
	for _, name := range passedOn {
		if v := c.Request.Header[name]; len(v) > 0 {
			header[name] = slices.Clone(v)
		}
	}
	return s.cfg.Agent.Forward(ctx, &assay.AgentCall{
		Operation: a.id, Caller: c.Principal, TraceID: c.TraceID,
		Method: a.method, Path: s.agentPath(c.Request), Query: c.Request.URL.RawQuery,
		Header: header, Body: body,
	})
}

// agentPath returns what follows agentRoot in the path of a request, escaped as it
// was sent. Segments are counted, because a client may escape those of the root too.
func (s *server) agentPath(r *http.Request) string {
	segments := strings.Split(r.URL.EscapedPath(), "/")
	return "/" + strings.Join(segments[1+strings.Count(s.base+agentRoot, "/"):], "/")
}

// readJSON reads the body of a forwarded request. A PATCH needs a JSON object,
// another method but GET may have any JSON or nothing.
func readJSON(r *http.Request, method string) ([]byte, error) {
	if method == http.MethodGet {
		return nil, nil
	}
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxBody))
	if err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return nil, errTooLong()
		}
		return nil, &assay.Error{Code: assay.CodeInvalid, Message: "the body did not arrive", Err: err}
	}
	switch object := method == http.MethodPatch; {
	case len(body) == 0 && !object:
		return nil, nil
	case !json.Valid(body):
		return nil, invalid(map[string]string{"body": "must be JSON"})
	case object && bytes.TrimLeft(body, " \t\r\n")[0] != '{':
		return nil, invalid(map[string]string{"body": "must be a JSON object"})
	default:
		return body, nil
	}
}

// forwarded answers with what the agent backend said.
func (x *exchange) forwarded(a *assay.AgentAnswer) {
	h := x.Header()
	h.Add("Vary", "Authorization")
	h.Set("Cache-Control", "private, no-cache")
	if a.ETag != "" {
		// Weak, because meta and the encoding differ between responses with the same data.
		h.Set("ETag", "W/"+strings.TrimPrefix(a.ETag, "W/"))
	}
	if a.LastModified != "" {
		h.Set("Last-Modified", a.LastModified)
	}
	if a.NotModified {
		h.Add("Vary", "Accept-Encoding")
		x.WriteHeader(http.StatusNotModified)
		return
	}
	var body bytes.Buffer
	body.Grow(len(a.Data) + len(a.Links) + 256)
	body.WriteString(`{"data":`)
	if len(a.Data) > 0 {
		body.Write(a.Data)
	} else {
		body.WriteString("null")
	}
	body.WriteString(`,"meta":`)
	if err := encode(&body, ForwardedMeta{Meta: x.meta(), Total: a.Total}); err != nil {
		x.fail(err)
		return
	}
	if a.Links != nil {
		body.WriteString(`,"links":`)
		body.Write(a.Links)
	}
	body.WriteByte('}')
	x.send(http.StatusOK, "application/json", safetext.JSON(body.Bytes()))
}
