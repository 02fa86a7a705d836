// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/docs"

	"assay/internal/rest/resttest"
)

func TestOpenAPI(t *testing.T) {
	f := newFixture(t)
	a := f.do(t, "GET", "/api/openapi.yaml")
	require.Equal(t, "application/yaml", a.Header().Get("Content-Type"))
	require.Equal(t, docs.OpenAPI, a.Body.String())

	a = f.do(t, "GET", "/api/openapi.json")
	require.Equal(t, "application/json", a.Header().Get("Content-Type"))
	var doc struct {
		OpenAPI string
		Info    struct{ Version string }
		Servers []struct{ URL string }
		Paths   map[string]map[string]struct {
			Description string
			Security    []map[string][]string
			Responses   map[string]any
			Parameters  []struct {
				Name, In string
				Required bool
				Schema   map[string]any
			}
		}
	}
	require.NoError(t, json.Unmarshal(a.Body.Bytes(), &doc))
	require.Equal(t, "3.1.0", doc.OpenAPI)
	require.Equal(t, "1.0", doc.Info.Version)
	require.Equal(t, "/api", doc.Servers[0].URL)
	op := doc.Paths["/v1/insights"]["get"]
	require.Equal(t, []map[string][]string{{"apiKey": {}}, {"jwt": {}}}, op.Security)
	require.Contains(t, op.Description, "`read`")
	require.Equal(t, []map[string][]string{{"jwt": {}}}, doc.Paths["/v1/agent/onboarding/status"]["get"].Security)
	for _, status := range []string{"200", "304", "400", "401", "403", "413", "429", "500", "503"} {
		require.Contains(t, op.Responses, status)
	}
	require.Equal(t, "limit", op.Parameters[0].Name)
	require.Equal(t, map[string]any{"type": "integer", "format": "int64", "minimum": 1.0, "maximum": 100.0, "default": 20.0, "examples": []any{20.0}}, op.Parameters[0].Schema)
	require.Equal(t, 304, f.do(t, "GET", "/api/openapi.json", "If-None-Match", a.Header().Get("ETag")).Code)

	public := newFixture(t, func(c *Config) { c.BasePath, c.PublicURL = "/x/y", "https://assay.example.com/" })
	require.NoError(t, json.Unmarshal(public.do(t, "GET", "/x/y/openapi.json").Body.Bytes(), &doc))
	require.Equal(t, "https://assay.example.com/x/y", doc.Servers[0].URL)
	body := public.do(t, "GET", "/x/y/openapi.yaml").Body.String()
	require.Contains(t, body, "url: https://assay.example.com/x/y\n")
	require.Contains(t, body, "self: /x/y/v1/insights?limit=20")
}

// TestDocumentedReferencesExist finds a misspelt component.
func TestDocumentedReferencesExist(t *testing.T) {
	f := newFixture(t)
	var doc map[string]any
	require.NoError(t, json.Unmarshal(f.do(t, "GET", "/api/openapi.json").Body.Bytes(), &doc))
	refs := 0
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, x := range v {
				walk(x)
			}
		case map[string]any:
			for k, x := range v {
				if ref, ok := x.(string); k == "$ref" && ok {
					refs++
					var at any = doc
					for part := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
						at = at.(map[string]any)[part]
					}
					require.NotNil(t, at, ref)
				}
				walk(x)
			}
		}
	}
	walk(doc)
	require.Greater(t, refs, 40)
}

func TestExamplesAreValid(t *testing.T) {
	n, err := contract().CheckExamples()
	require.NoError(t, err)
	require.Greater(t, n, 200)
}

// TestDocumentIsComplete requires an example of every parameter and every success,
// and a description of every schema, property and parameter.
func TestDocumentIsComplete(t *testing.T) {
	f := newFixture(t)
	for _, o := range f.h.doc.operations {
		require.NotEmpty(t, o.Summary, o.ID)
		require.NotEmpty(t, o.Description, o.ID)
		require.NotEmpty(t, o.Tags, o.ID)
		ok := o.success().Content["application/json"]
		require.True(t, !ok.Example.IsZero() || len(ok.Examples) > 0, o.ID)
		for _, p := range o.Parameters {
			if p.Ref == "" {
				require.NotEmpty(t, p.Description, "%s %s", o.ID, p.Name)
				require.NotEmpty(t, p.Schema.Examples, "%s %s", o.ID, p.Name)
			}
		}
	}
	for name, s := range f.h.doc.Components.Schemas {
		require.NotEmpty(t, s.Description, name)
		for property, p := range s.Properties {
			require.NotEmpty(t, p.Description, "%s %s", name, property)
		}
	}
	codes := map[string]string{} // to the component that describes their status
	for name, r := range f.h.doc.Components.Responses {
		for code := range r.Content["application/json"].Examples {
			if name != "AgentRefusal" {
				codes[code] = name
			}
		}
	}
	require.Len(t, codes, len(statuses)-1, "every code but the one that no operation answers with")
	known := f.h.doc.Components.Schemas["FailureError"].Properties["code"].AnyOf[0].Enum
	require.Len(t, known, len(statuses))
	for code, status := range statuses {
		require.Contains(t, known, string(code))
		if name := codes[string(code)]; name != "" {
			require.Equal(t, strings.ReplaceAll(http.StatusText(status), " ", ""), name)
		}
	}
}

// TestStatusTable compares the document with the status table of the original interface's description, row by row. It has
// 27 operations; the others are additions.
func TestStatusTable(t *testing.T) {
	original := []string{
		"list-services", "get-service", "list-service-insights", "list-insights", "get-insight", "get-insight-summary",
		"get-organization", "get-log-volume", "get-service-analytics",
		"list-agent-installations", "execute-partner-migration", "list-codebase-findings", "execute-codebase-fix",
		"execute-codebase-instrumentation", "execute-codebase-review", "list-executions", "get-execution", "list-agent-events",
		"list-findings", "get-findings-summary", "activate-onboarding-repositories", "create-onboarding-session",
		"get-onboarding-status", "list-repositories", "get-repository", "update-repository", "get-repository-settings",
	}
	all := slices.DeleteFunc(contract().Operations(), func(o *resttest.Operation) bool { return !slices.Contains(original, o.ID) })
	ids := func(pick func(id, path string) bool) []string {
		var out []string
		for _, o := range all {
			if pick(o.ID, o.Path) {
				out = append(out, o.ID)
			}
		}
		return out
	}
	everything := ids(func(string, string) bool { return true })
	agent := ids(func(_, path string) bool { return strings.HasPrefix(path, "/v1/agent/") })
	require.Len(t, everything, 27)
	require.Len(t, agent, 18)
	for status, where := range map[string][]string{
		"200": everything,
		"400": {
			"get-log-volume", "get-service-analytics", "list-insights", "get-insight", "get-insight-summary",
			"list-codebase-findings", "list-findings", "get-findings-summary", "update-repository", "activate-onboarding-repositories",
		},
		"401": everything,
		"403": everything, // of the agent operations all but three triggers; here a key without the scope as well
		"404": {
			"get-insight", "get-insight-summary", "get-service", "list-service-insights",
			"get-execution", "list-agent-events", "get-repository", "update-repository",
		},
		"409": {"activate-onboarding-repositories", "update-repository"},
		"413": {"update-repository"},
		"422": {"update-repository"},
		"429": {"create-onboarding-session"},
		"500": {"get-service-analytics", "list-insights", "get-insight", "get-insight-summary", "get-organization"},
		"502": append([]string{"get-log-volume"}, agent...),
		"503": append([]string{"get-log-volume", "get-insight-summary"}, agent...),
	} {
		for _, o := range all {
			if slices.Contains(where, o.ID) {
				require.Contains(t, o.Statuses, status, o.ID)
			}
		}
	}
}
