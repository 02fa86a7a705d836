// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

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

const description = `Telemetry quality of one organization: its services with their instrumentation
scores, and the insights that say what to fix. The organization follows from the credential; no
request names it.

Every response is JSON. A success has ` + "`data`" + ` and ` + "`meta`" + `, a list also ` + "`links`" + `; a failure has
` + "`error`" + ` and ` + "`meta`" + `. Query parameters that are not declared are ignored, an empty one counts as absent,
a repeated one is a 400. Each bad parameter has its own entry in ` + "`error.details`" + `.`

// openAPI is what the document says besides its operations and schemas.
func (s *server) openAPI() huma.Config {
	server := cmp.Or(strings.TrimRight(s.cfg.PublicURL, "/")+s.base, "/")
	registry := huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer)
	return huma.Config{OpenAPI: &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info:    &huma.Info{Title: "Telemetry Quality Insights", Version: Version, Description: description},
		Servers: []*huma.Server{{URL: server}},
		Tags: []*huma.Tag{
			{Name: "Services", Description: "What sends telemetry, and how good it is."},
			{Name: "Insights", Description: "What to fix."},
			{Name: "Organization", Description: "The caller's organization."},
		},
		Components: &huma.Components{
			Schemas:    registry,
			Responses:  errorResponses(registry),
			Parameters: map[string]*huma.Param{"IfNoneMatch": paramIfNoneMatch()},
			SecuritySchemes: map[string]*huma.SecurityScheme{"bearer": {
				Type: "http", Scheme: "bearer",
				Description: "An API key, `<prefix>_sk_<id>_<secret>`. The name beside the scheme of an operation is the scope that the key needs.",
			}},
		},
	}}
}

func headerETag() *huma.Param {
	return &huma.Param{
		Description: "Weak entity tag of everything but meta.",
		Schema:      &huma.Schema{Type: huma.TypeString, Examples: []any{`W/"0123456789abcdef0123456789abcdef"`}},
	}
}

func paramIfNoneMatch() *huma.Param {
	return &huma.Param{
		Name: "If-None-Match", In: "header",
		Description: "Entity tags of what the client has.",
		Schema:      &huma.Schema{Type: huma.TypeString},
	}
}

// responseName names the component that describes a status.
func responseName(status int) string {
	return strings.ReplaceAll(http.StatusText(status), " ", "")
}

// errorResponses describes every status of the error table, and 304.
func errorResponses(r huma.Registry) map[string]*huma.Response {
	failure := schemaOf[Failure](r)
	byStatus := map[int][]assay.Code{}
	for code, status := range statuses {
		byStatus[status] = append(byStatus[status], code)
	}
	out := map[string]*huma.Response{responseName(http.StatusNotModified): {
		Description: "The client already has it. No body.",
		Headers:     map[string]*huma.Param{"ETag": headerETag()},
	}}
	all := slices.Sorted(maps.Keys(statuses))
	r.Map()["FailureError"].Properties["code"].Enum = anys(all)
	for status, codes := range byStatus {
		slices.Sort(codes)
		examples := map[string]*huma.Example{}
		for _, c := range codes {
			examples[string(c)] = &huma.Example{Value: exampleFailure(c)}
		}
		resp := &huma.Response{
			Description: http.StatusText(status) + ": " + joinCodes(codes) + ".",
			Content:     map[string]*huma.MediaType{"application/json": {Schema: failure, Examples: examples}},
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
		out[responseName(status)] = resp
	}
	return out
}

func exampleFailure(c assay.Code) map[string]any {
	e := map[string]any{"code": c, "message": strings.ToLower(http.StatusText(statuses[c]))}
	if c == assay.CodeInvalid {
		e["message"] = "one or more parameters are not valid"
		e["details"] = map[string]string{"limit": "must be between 1 and 100"}
	}
	return map[string]any{
		"error": e,
		"meta":  map[string]any{"timestamp": "2026-11-21T09:30:00.123456Z", "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736"},
	}
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

// publish serves the document, which does not change any more. It panics when it
// cannot be written down: that is a mistake in this package.
func (s *server) publish() {
	doc := s.api.OpenAPI()
	asJSON, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		panic(fmt.Sprintf("rest: OpenAPI document: %v", err))
	}
	asYAML, err := doc.YAML()
	if err != nil {
		panic(fmt.Sprintf("rest: OpenAPI document: %v", err))
	}
	s.file(specJSON, "application/json", asJSON)
	s.file(specYAML, "application/yaml", asYAML)
}

// file serves the same bytes to everyone, without a credential.
func (s *server) file(path, contentType string, body []byte) {
	tag := entityTag(body, nil, nil)
	s.methods[path] = append(s.methods[path], http.MethodGet)
	s.mux.HandleFunc("GET "+s.base+path, func(_ http.ResponseWriter, r *http.Request) {
		x := exchangeOf(r.Context())
		h := x.Header()
		h.Set("ETag", tag)
		h.Set("Cache-Control", "no-cache")
		if matches(r.Header.Values("If-None-Match"), tag) {
			x.WriteHeader(http.StatusNotModified)
			return
		}
		x.send(http.StatusOK, contentType, body)
	})
}
