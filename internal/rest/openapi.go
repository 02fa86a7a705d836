// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"assay"
)

// Version is the version of the interface.
const Version = "1.0"

// The paths of the document below the base path.
const (
	specJSON = "/openapi.json"
	specYAML = "/openapi.yaml"
)

const description = `Telemetry quality of one organization: its services with their instrumentation scores, the insights
that say what to fix, what its telemetry amounts to and costs, and the codebase agent that repairs it. The organization follows from
the credential; no request names it.

Every response is JSON. A success has ` + "`data`" + ` and ` + "`meta`" + `, a list also ` + "`links`" + `; a failure has ` + "`error`" + `
and ` + "`meta`" + `. That holds for an unknown path (404) and for a method that a path does not have (405) as well. What the server's
log says about a request is found by ` + "`meta.trace_id`" + ` and by the response's header ` + "`X-Request-Id`" + `, which is that of the request,
else the trace id.

Query parameters that are not declared are ignored, an empty one counts as absent, a repeated one is a 400. Each bad
parameter has its own entry in ` + "`error.details`" + `. Checks come in this order: credential (401), permission (403), form of the
request (400), existence (404), configuration (503).`

// The names of the security schemes.
const (
	schemeKey  = "apiKey"
	schemeUser = "jwt"
)

var tags = []*huma.Tag{
	{Name: tagServices, Description: "What sends telemetry, and how good it is."},
	{Name: tagInsights, Description: "What to fix, and how."},
	{Name: tagOrganization, Description: "The caller's organization."},
	{Name: tagAnalytics, Description: "How much telemetry there is, and what it costs. Worked out anew for every request."},
	{Name: tagAgent, Description: "Operations of the codebase agent, a system of its own. A call is authenticated here and sent on with a " +
		"short-lived token instead of its credential. Query parameters go on unchanged and are not checked here. What the agent answers is the `data` of the response; " +
		"its fields are the agent's."},
}

// The tags group the operations.
const (
	tagServices     = "Services"
	tagInsights     = "Insights"
	tagOrganization = "Organization"
	tagAnalytics    = "Analytics"
	tagAgent        = "Agent"
)

// schemaDescriptions say what the schemas are.
var schemaDescriptions = map[string]string{
	"Failure":                "The body of every response that is not a success.",
	"FailureError":           "What went wrong.",
	"Forwarded":              "A response with what the codebase agent answered.",
	"ForwardedMeta":          "Accompanies a response of the codebase agent.",
	"Insight":                "One finding about one service.",
	"InsightSummary":         "A text about one insight that a language model wrote.",
	"InsightType":            "What a kind of insight is about, and how to fix it.",
	"InstrumentationScore":   "A service's score at one moment.",
	"LatestVersion":          "The version of a service that was seen last.",
	"Links":                  "Paths, with query, to the pages of a list.",
	"ListInsight":            "A page of insights.",
	"ListMeta":               "Accompanies a page of a list.",
	"ListService":            "A page of services.",
	"LogVolume":              "How many log records an organization sent in a period.",
	"LogVolumePoint":         "One step of a series.",
	"Meta":                   "Accompanies every response.",
	"Organization":           "The caller's organization.",
	"OrganizationScore":      "The instrumentation quality score of an organization.",
	"Service":                "One monitored service.",
	"ServiceAnalytics":       "What an organization's services sent and cost in a period.",
	"ServiceCost":            "What one service sent and costs, all its versions together.",
	"SeverityCounts":         "Numbers of log records by severity.",
	"SeverityVolume":         "The log records of one severity.",
	"SingleInsight":          "A response with an insight.",
	"SingleInsightSummary":   "A response with the summary of an insight.",
	"SingleLogVolume":        "A response with log volume.",
	"SingleOrganization":     "A response with the organization.",
	"SingleService":          "A response with a service.",
	"SingleServiceAnalytics": "A response with service analytics.",
	"Tier":                   "A subscription.",
}

// openAPI is what the document says besides its operations and schemas.
func (s *server) openAPI() huma.Config {
	return huma.Config{OpenAPI: &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info: &huma.Info{
			Title: "Telemetry Quality Insights", Version: Version, Description: description,
			Contact: &huma.Contact{Name: "assay"},
			License: &huma.License{Name: "Apache License 2.0", Identifier: "Apache-2.0"},
		},
		Servers: []*huma.Server{{
			URL:         cmp.Or(strings.TrimRight(s.cfg.PublicURL, "/")+s.base, "/"),
			Description: "This installation.",
		}},
		Tags: tags,
		Components: &huma.Components{
			Schemas:   huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer),
			Responses: map[string]*huma.Response{},
			Parameters: map[string]*huma.Param{
				"IfNoneMatch": {
					Name: "If-None-Match", In: "header",
					Description: "Entity tags of what the client has.",
					Schema:      &huma.Schema{Type: huma.TypeString, Examples: []any{exampleETag}},
				},
				"IfModifiedSince": {
					Name: "If-Modified-Since", In: "header",
					Description: "Time of what the client has.",
					Schema:      &huma.Schema{Type: huma.TypeString, Examples: []any{"Sat, 21 Nov 2026 09:30:00 GMT"}},
				},
			},
			SecuritySchemes: map[string]*huma.SecurityScheme{
				schemeKey: {
					Type: "http", Scheme: "bearer",
					Description: "An API key, `<prefix>_sk_<id>_<secret>`. It needs the scope that an operation names. Keep it out of client-side code, version control and logs.",
				},
				schemeUser: {
					Type: "http", Scheme: "bearer", BearerFormat: "JWT",
					Description: "A user's session token of the identity provider that this installation trusts. It has every scope but `ingest`.",
				},
			},
		},
	}}
}

// document adds an operation to the OpenAPI document. example is the body of a
// success.
func (s *server) document(op operation, params []*huma.Param, response *huma.Schema, example any) *huma.Operation {
	ok := &huma.Response{
		Description: "Success.",
		Content:     map[string]*huma.MediaType{"application/json": {Schema: response, Example: example}},
	}
	responses := map[string]*huma.Response{"200": ok}
	if !op.Volatile {
		ok.Headers = map[string]*huma.Param{"ETag": headerETag()}
		responses["304"] = s.refer(http.StatusNotModified)
		params = append(slices.Clone(params), &huma.Param{Ref: "#/components/parameters/IfNoneMatch"})
	}
	if len(params) > 0 {
		responses["400"] = s.refer(http.StatusBadRequest)
	}
	for _, status := range append([]int{
		http.StatusUnauthorized, http.StatusForbidden, http.StatusRequestEntityTooLarge,
		http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusServiceUnavailable,
	}, op.Errors...) {
		responses[strconv.Itoa(status)] = s.refer(status)
	}
	o := &huma.Operation{
		Method: op.Method, Path: op.Path, OperationID: op.ID,
		Summary: op.Summary, Description: op.Description + "\n\n" + needs(op), Tags: []string{op.Tag},
		Parameters: params, Responses: responses, Security: security(op),
	}
	s.api.OpenAPI().AddOperation(o)
	s.documented = append(s.documented, o)
	return o
}

// needs says who may use an operation.
func needs(op operation) string {
	if op.UsersOnly {
		return "Needs a user's session. An API key is answered with 403."
	}
	return fmt.Sprintf("An API key needs the scope `%s`.", op.Scope)
}

// security names the schemes that an operation takes. OpenAPI lists scopes for
// OAuth alone.
func security(op operation) []map[string][]string {
	if op.UsersOnly {
		return []map[string][]string{{schemeUser: {}}}
	}
	return []map[string][]string{{schemeKey: {}}, {schemeUser: {}}}
}

func headerETag() *huma.Param {
	return &huma.Param{
		Description: "Weak entity tag of everything but meta.",
		Schema:      &huma.Schema{Type: huma.TypeString, Examples: []any{exampleETag}},
	}
}

// responseName names the component that describes a status.
func responseName(status int) string {
	return strings.ReplaceAll(http.StatusText(status), " ", "")
}

// refer returns a reference to the component that describes a status, which it
// makes for the first one.
func (s *server) refer(status int) *huma.Response {
	all := s.api.OpenAPI().Components.Responses
	name := responseName(status)
	if all[name] == nil {
		all[name] = describeStatus(s.schemas(), status)
	}
	return &huma.Response{Ref: "#/components/responses/" + name}
}

func describeStatus(r huma.Registry, status int) *huma.Response {
	if status == http.StatusNotModified {
		return &huma.Response{
			Description: "Not Modified: the client already has it. No body.",
			Headers:     map[string]*huma.Param{"ETag": headerETag()},
		}
	}
	var codes []assay.Code
	for code, of := range statuses {
		if of == status {
			codes = append(codes, code)
		}
	}
	slices.Sort(codes)
	resp := &huma.Response{
		Description: http.StatusText(status) + ": " + joinCodes(codes) + ".",
		Content:     map[string]*huma.MediaType{"application/json": describeFailure(r, codes...)},
	}
	switch status {
	case http.StatusUnauthorized:
		resp.Headers = map[string]*huma.Param{"WWW-Authenticate": {
			Description: "The scheme to use.", Schema: &huma.Schema{Type: huma.TypeString, Examples: []any{"Bearer"}},
		}}
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		resp.Headers = map[string]*huma.Param{"Retry-After": {
			Description: "Seconds to wait.", Schema: &huma.Schema{Type: huma.TypeInteger, Examples: []any{5}},
		}}
	}
	return resp
}

// describeFailure describes a failure with one of the codes.
func describeFailure(r huma.Registry, codes ...assay.Code) *huma.MediaType {
	examples := map[string]*huma.Example{}
	for _, c := range codes {
		examples[string(c)] = &huma.Example{Value: exampleFailure(c)}
	}
	schema := schemaOf[Failure](r)
	code := r.Map()["FailureError"].Properties["code"]
	code.AnyOf = []*huma.Schema{
		{Type: huma.TypeString, Enum: anys(slices.Sorted(maps.Keys(statuses)))},
		{Type: huma.TypeString, Pattern: "^[A-Z][A-Z0-9_]*$", Description: "Of a forwarded operation: the agent's own code."},
	}
	return &huma.MediaType{Schema: schema, Examples: examples}
}

func joinCodes(codes []assay.Code) string {
	quoted := make([]string, len(codes))
	for i, c := range codes {
		quoted[i] = "`" + string(c) + "`"
	}
	return strings.Join(quoted, ", ")
}

func anys(codes []assay.Code) []any {
	out := make([]any, len(codes))
	for i, c := range codes {
		out[i] = string(c)
	}
	return out
}

// What examples are made of.
const (
	exampleETag        = `W/"0123456789abcdef0123456789abcdef"`
	exampleTraceID     = "4bf92f3577b34da6a3ce929d0e0e4736"
	exampleServiceID   = "6f0a5b0e-6b5e-5f0c-9d8e-2f1d3c4b5a69"
	exampleInsightID   = "7d0f6f1e-4c55-5b8e-9a3f-0c1d2e3f4a5b"
	exampleOrgID       = "0b6cbb0e-3c0c-4a52-8f0e-1c6c1a7b9d10"
	exampleExecutionID = "run-2f9c41"
	exampleRepository  = "repo-81d5e0"
)

var exampleTime = time.Date(2026, time.November, 21, 9, 30, 0, 123456000, time.UTC)

func exampleMeta() Meta { return Meta{Timestamp: Time(exampleTime), TraceID: exampleTraceID} }

// exampleMessages are what the codes come with, as the API says it.
var exampleMessages = map[assay.Code]string{
	assay.CodeInvalid:            "one or more parameters are not valid",
	assay.CodeMissingCredentials: "the Authorization header is missing",
	assay.CodeInvalidAPIKey:      "the API key is not valid",
	assay.CodeInvalidToken:       "the token is not valid",
	assay.CodeForbidden:          `this credential does not have the scope "read"`,
	assay.CodeNotFound:           "there is nothing at this path",
	assay.CodeServiceNotFound:    "service not found",
	assay.CodeInsightNotFound:    "insight not found",
	assay.CodeConflict:           "the repository is being changed",
	assay.CodeTooLarge:           "the body is longer than 1048576 bytes",
	assay.CodeUnprocessable:      "the repository cannot be activated",
	assay.CodeRateLimited:        "too many requests with this credential",
	assay.CodeInternal:           generalMessage(http.StatusInternalServerError),
	assay.CodeUpstream:           generalMessage(http.StatusBadGateway),
	assay.CodeUnavailable:        generalMessage(http.StatusServiceUnavailable),
}

func exampleFailure(c assay.Code) Failure {
	f := Failure{Error: FailureError{Code: c, Message: exampleMessages[c]}, Meta: exampleMeta()}
	if c == assay.CodeInvalid {
		f.Error.Details = map[string]string{"limit": "must be between 1 and 100"}
	}
	return f
}

// exampleLinks are the links of a list's first page with one item.
func (s *server) exampleLinks(path string, params []*huma.Param) Links {
	limit := 1
	for _, p := range params {
		if n, ok := p.Schema.Default.(int); ok && p.Name == "limit" {
			limit = n
		}
	}
	return newPage(s.base+examplePath(path, params), url.Values{}, assay.Page{Limit: limit}, 1, 1).links
}

// examplePath fills the wildcards of a path with the examples of its parameters.
func examplePath(path string, params []*huma.Param) string {
	for _, p := range params {
		if p.In == "path" {
			path = strings.ReplaceAll(path, "{"+p.Name+"}", fmt.Sprint(p.Schema.Examples[0]))
		}
	}
	return path
}

// publish serves the document and its rendering, which do not change any more. They
// are written down when they are first asked for.
func (s *server) publish() {
	doc := s.api.OpenAPI()
	for name, schema := range s.schemas().Map() {
		schema.Description = schemaDescriptions[name]
	}
	s.file(specJSON, "application/json", func() ([]byte, error) { return json.MarshalIndent(doc, "", "  ") })
	s.file(specYAML, "application/yaml", doc.YAML)
	s.file(docsPath, "text/html; charset=utf-8", s.docs, "Content-Security-Policy", docsPolicy, "Referrer-Policy", "no-referrer")
	s.file(docsStyle, "text/css; charset=utf-8", func() ([]byte, error) { return docsFiles.ReadFile("docs/style.css") })
}

// file serves the same bytes to everyone, without a credential. header holds
// names and values of further header fields.
func (s *server) file(path, contentType string, write func() ([]byte, error), header ...string) {
	content := sync.OnceValues(func() (*content, error) {
		body, err := write()
		return &content{body, pack(body, true), entityTag(body, nil, nil)}, err
	})
	s.methods[path] = append(s.methods[path], http.MethodGet)
	s.mux.HandleFunc("GET "+s.base+path, func(_ http.ResponseWriter, r *http.Request) {
		x := exchangeOf(r.Context())
		c, err := content()
		if err != nil {
			x.fail(err)
			return
		}
		h := x.Header()
		h.Set("ETag", c.tag)
		h.Set("Cache-Control", "no-cache")
		for i := 0; i+1 < len(header); i += 2 {
			h.Set(header[i], header[i+1])
		}
		if matches(r.Header.Values("If-None-Match"), c.tag) {
			x.WriteHeader(http.StatusNotModified)
			return
		}
		body := c.body
		if x.gzips(len(body)) {
			body = c.packed // once, since everybody may ask
		}
		x.write(http.StatusOK, contentType, body)
	})
}

// content is what file serves.
type content struct {
	body   []byte
	packed []byte // body in gzip
	tag    string
}
