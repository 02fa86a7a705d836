// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"assay/internal/assaytest"
	"assay/internal/codebase/source/gittest"
)

// bearer adds an API key to requests.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// connectMCP connects the client of the Go SDK.
func connectMCP(t *testing.T, transport mcp.Transport) *mcp.ClientSession {
	t.Helper()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "e2e"}, nil).Connect(t.Context(), transport, nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, session.Close()) })
	return session
}

// callMCP calls a tool and decodes its result.
func callMCP[T any](t *testing.T, s *mcp.ClientSession, tool string, arguments map[string]any) (result T) {
	t.Helper()
	r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
	require.NoError(t, err)
	text := r.Content[0].(*mcp.TextContent).Text
	require.False(t, r.IsError, text)
	require.NoError(t, json.Unmarshal([]byte(text), &result), text)
	return result
}

type mcpServices struct {
	Items []struct {
		ID   string `json:"id"`
		Name string `json:"name"`
	} `json:"items"`
	Total int `json:"total"`
}

// TestMCP tests the servers of `assay mcp` and /mcp with the Go and JavaScript SDKs. Scopes and isolation
// equal those of the API.
func TestMCP(t *testing.T) {
	t.Parallel()
	program, err := assaytest.Binary()
	require.NoError(t, err)
	d := startDaemon(t, t.TempDir(), "--bootstrap-api-key", bootstrapKey)
	other := d.newOrganization(t, "other")
	agentOnly := d.newKey(t, "--scopes", "agent")
	const body = `{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"checkout"}}]},"scopeSpans":[{"spans":[
		{"traceId":"5b8efff798038103d269b633813fc60c","spanId":"eee19b7ec3c1b174","name":"order","kind":2,"startTimeUnixNano":"NOW","endTimeUnixNano":"NOW",
		"attributes":[{"key":"note","value":{"stringValue":"jane.doe@shop.example.com"}}]}]}]}]}`
	a, err := d.ask(t.Context(), http.MethodPost, d.OTLPHTTP+"/v1/traces", []byte(strings.ReplaceAll(body, "NOW", strconv.FormatInt(time.Now().UnixNano(), 10))), "Authorization", "Bearer "+bootstrapKey, "Content-Type", "application/json")
	require.NoError(t, err)
	require.Equal(t, 200, a.Status, string(a.Body))
	eventually(t, func() bool { return slices.Contains(d.failedRules(t, bootstrapKey, "checkout"), "SPA-006") }, "the span is not scored")

	overHTTP := func(key string) *mcp.ClientSession {
		return connectMCP(t, &mcp.StreamableClientTransport{Endpoint: d.Root + "/mcp", HTTPClient: &http.Client{Transport: bearer(key)}, DisableStandaloneSSE: true})
	}
	overStdio := func(args ...string) *mcp.ClientSession {
		return connectMCP(t, &mcp.CommandTransport{Command: exec.Command(program, append([]string{"mcp"}, args...)...), TerminateDuration: assaytest.Limit})
	}
	keyFile := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(keyFile, []byte(bootstrapKey+"\n"), 0o600))
	for name, s := range map[string]*mcp.ClientSession{
		"HTTP": overHTTP(bootstrapKey), "stdio": overStdio("--url", d.REST, "--api-key-file", keyFile),
	} {
		services := callMCP[mcpServices](t, s, "list_services", nil)
		require.Equal(t, 1, services.Total, name)
		require.Equal(t, "checkout", services.Items[0].Name)
		insights := callMCP[struct {
			Items []struct {
				ID string `json:"id"`
			} `json:"items"`
		}](t, s, "list_insights", map[string]any{"service_id": services.Items[0].ID, "impact": "Critical"})
		require.NotEmpty(t, insights.Items)
		insight := callMCP[json.RawMessage](t, s, "get_insight", map[string]any{"id": insights.Items[0].ID})
		require.Contains(t, string(insight), "remediation")
		require.NotContains(t, string(insight), "jane.doe")
		require.Equal(t, "SPA-003", callMCP[struct{ ID string }](t, s, "get_rule", map[string]any{"id": "spa-003"}).ID)
		callMCP[json.RawMessage](t, s, "list_findings", nil)
	}
	require.Zero(t, callMCP[mcpServices](t, overHTTP(other), "list_services", nil).Total, "another organization has no service")
	r, err := overHTTP(agentOnly).CallTool(t.Context(), &mcp.CallToolParams{Name: "list_services"})
	require.NoError(t, err)
	require.True(t, r.IsError)
	require.Contains(t, r.Content[0].(*mcp.TextContent).Text, `does not have the scope "read"`)
	for _, headers := range [][]string{nil, {"Authorization", "Bearer " + keyID(bootstrapKey) + "_wrong"}} {
		a, err := d.ask(t.Context(), http.MethodPost, d.Root+"/mcp", []byte(`{}`), append(headers, "Content-Type", "application/json")...)
		require.NoError(t, err)
		require.Equal(t, 401, a.Status)
	}

	// Local files without a server.
	dir := t.TempDir()
	for name, text := range fixture(t, "go") {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	gittest.Git(t, dir, "init", "--quiet")
	gittest.Git(t, dir, "add", "--all")
	gittest.Git(t, dir, "commit", "--quiet", "--message=first")
	local := overStdio()
	type verdict struct {
		Verdict  string
		Resolved []struct{ Check string }
	}
	require.Equal(t, "same", callMCP[verdict](t, local, "verify_change", map[string]any{"path": dir}).Verdict)
	require.Zero(t, runAssay(t, nil, "fix", dir).Code)
	better := callMCP[verdict](t, local, "verify_change", map[string]any{"path": dir})
	require.Equal(t, "better", better.Verdict)
	require.Len(t, better.Resolved, 2)

	// An independent client implementation.
	client, err := filepath.Abs(filepath.Join("testdata", "mcp", "client.cjs"))
	require.NoError(t, err)
	packages, err := filepath.Abs(filepath.Join("..", "bin", "tools", "mcp-node", "node_modules"))
	require.NoError(t, err)
	for name, environ := range map[string][]string{"HTTP": {"URL=" + d.Root + "/mcp", "KEY=" + bootstrapKey}, "stdio": nil} {
		cmd := exec.CommandContext(t.Context(), "node", client, program, "mcp")
		cmd.Env = append(os.Environ(), append(environ, "NODE_PATH="+packages)...)
		out, err := cmd.Output()
		require.NoError(t, err, "%s: %s", name, out)
		var got struct {
			Server   string
			Tools    []string
			Rule     struct{ ID string }
			Services *mcpServices
		}
		require.NoError(t, json.Unmarshal(out, &got), "%s", out)
		require.Equal(t, "assay", got.Server)
		require.Equal(t, "SPA-003", got.Rule.ID)
		if name == "HTTP" {
			require.Equal(t, 1, got.Services.Total)
		} else {
			require.Contains(t, got.Tools, "verify_change")
		}
	}
}
