// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/internal/codebase/source/gittest"
	"assay/internal/llm/llmtest"
)

// TestModelFix has a language model fix what mechanical fixes leave: its first change does not compile, the second one is
// verified by the tests in the sandbox and pushed.
func TestModelFix(t *testing.T) {
	t.Parallel()
	files := fixture(t, "go")
	files["log.go"] = "package shop\n\nimport \"log/slog\"\n\n// Welcome logs a new customer.\nfunc Welcome(name, email string) {\n\tslog.Info(\"welcome\", \"email\", email)\n}\n"
	host := startGit(t, files)
	model := llmtest.New(t)
	edit := func(text string) llmtest.Call {
		return llmtest.Call{Name: "edit", Arguments: fmt.Sprintf(`{"file":"log.go","first_line":7,"last_line":7,"text":%q}`, text)}
	}
	verify := llmtest.Call{Name: "verify", Arguments: "{}"}
	model.Script(
		llmtest.Reply{Calls: []llmtest.Call{edit("\tslog.Inform(\"welcome\")"), verify}, Input: 3000, Output: 100},
		llmtest.Reply{Calls: []llmtest.Call{edit("\tslog.Info(\"welcome\")"), verify}, Input: 4000, Output: 100},
	)
	key := "sk-test-0123456789abcdefghij"
	flags := append(goDirs(t, filepath.Join("testdata", "fix", "go")), "--bootstrap-api-key", bootstrapKey, "--agent-allow-private-hosts", "--agent-source-ca", host.CA,
		"--agent-model-provider", "openai", "--agent-model", "some-model", "--agent-model-url", model.URL, "--agent-model-api-key", key, "--agent-model-price", "1,10", "--agent-model-budget", "100000,1.50")
	r := host.connect(t, startDaemon(t, t.TempDir(), flags...))
	var listed struct {
		Data []struct {
			ID    string `json:"finding_id"`
			Check string `json:"check"`
		} `json:"data"`
	}
	r.call("GET", "/findings", "", &listed)
	found := map[string]string{}
	for _, f := range listed.Data {
		found[f.Check] = f.ID
	}
	require.Contains(t, found, "sensitive-log")
	fixed, id := r.fix(found["span-name-dynamic"], found["sensitive-log"])
	require.Equal(t, "verified", fixed.Result.Verification.Status, fixed.Result.Verification.Reason)
	require.ElementsMatch(t, []string{found["span-name-dynamic"], found["sensitive-log"]}, fixed.Result.Fixed)
	require.Equal(t, "log.go\nshop.go", gittest.Git(t, host.dir, "diff", "--name-only", "main", fixed.Result.Branch))
	require.Contains(t, gittest.Git(t, host.dir, "show", fixed.Result.Branch+":log.go"), "\tslog.Info(\"welcome\")\n")

	asked := model.Requests()
	require.Len(t, asked, 2)
	require.Contains(t, asked[1].Results[1], "undefined: slog.Inform", "the model sees why the tests fail")
	var events struct {
		Sessions []struct{ Usage map[string]float64 }
		Events   []struct{ Payload json.RawMessage }
	}
	r.call("GET", "/executions/"+id+"/agent-events?limit=500", "", &events)
	usage := events.Sessions[0].Usage
	require.InDelta(t, 7200, usage["totalTokens"], 0)
	require.InDelta(t, 0.009, usage["costTotal"], 1e-9)
	require.InDelta(t, 2, usage["turnCount"], 0)
	text, err := json.Marshal(events)
	require.NoError(t, err)
	require.Contains(t, string(text), `"toolName":"edit"`)
	require.NotContains(t, string(text), key)
}

// TestModelInstruments has a language model instrument a server that the mechanical instrumentation leaves: its first span has
// the wrong kind, the second one arrives when the tests run in the sandbox.
func TestModelInstruments(t *testing.T) {
	t.Parallel()
	files := fixture(t, "go")
	delete(files, "shop.go")
	files["telemetry.go"] = strings.Replace(files["telemetry.go"], "package shop", "package main", 1)
	files["main.go"] = `package main

import "net/http"

func main() {
	panic(newServer(":8080").ListenAndServe())
}

func newServer(address string) *http.Server {
	server := &http.Server{Addr: address}
	return server
}
`
	test, _, found := strings.Cut(files["shop_test.go"], "func TestOrder")
	require.True(t, found)
	delete(files, "shop_test.go")
	files["main_test.go"] = strings.NewReplacer("package shop", "package main", `"fmt"`, `"cmp"`, `"os"`, "\"net/http\"\n\t\"net/http/httptest\"\n\t\"os\"").Replace(test) + `func TestServer(t *testing.T) {
	handler := cmp.Or(newServer("").Handler, http.Handler(http.DefaultServeMux))
	handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/orders", nil))
}
`
	host := startGit(t, files)
	model := llmtest.New(t)
	edit := func(first, last int, text string) llmtest.Call {
		return llmtest.Call{Name: "edit", Arguments: fmt.Sprintf(`{"file":"main.go","first_line":%d,"last_line":%d,"text":%q}`, first, last, text)}
	}
	middleware := `
func traced(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, span := otel.Tracer("web").Start(r.Context(), r.Method, trace.WithSpanKind(trace.SpanKindInternal))
		defer span.End()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}
`
	verify := llmtest.Call{Name: "verify", Arguments: "{}"}
	model.Script(
		llmtest.Reply{Calls: []llmtest.Call{
			edit(13, 12, middleware), edit(10, 10, "\tserver := &http.Server{Addr: address, Handler: traced(http.DefaultServeMux)}"),
			edit(3, 3, "import (\n\t\"net/http\"\n\n\t\"go.opentelemetry.io/otel\"\n\t\"go.opentelemetry.io/otel/trace\"\n)"), verify,
		}},
		llmtest.Reply{Calls: []llmtest.Call{edit(21, 21, "\t\tctx, span := otel.Tracer(\"web\").Start(r.Context(), r.Method, trace.WithSpanKind(trace.SpanKindServer))"), verify}},
	)
	flags := append(goDirs(t, filepath.Join("testdata", "fix", "go")), "--bootstrap-api-key", bootstrapKey, "--agent-allow-private-hosts", "--agent-source-ca", host.CA,
		"--agent-model-provider", "anthropic", "--agent-model", "some-model", "--agent-model-url", model.URL, "--agent-model-api-key", "sk-test-0123456789abcdefghij")
	r := host.connect(t, startDaemon(t, t.TempDir(), flags...))
	done, id := r.wait("/codebase/instrumentation/execute", fmt.Sprintf(`{"repo_id":%q,"type":"general"}`, r.id))
	asked := model.Requests()
	require.Len(t, asked, 2)
	require.Contains(t, strings.Join(asked[1].Results, "\n"), "start and end a span of kind server")
	require.Equal(t, "verified", done.Result.Verification.Status, done.Result.Verification.Reason)
	require.Contains(t, gittest.Git(t, host.dir, "show", done.Result.Branch+":main.go"), "SpanKindServer")
	var detail struct {
		Result struct {
			Steps []struct {
				File string
				Line int
				Open bool
			}
			Model struct {
				Attempts []struct {
					File          string
					Line          int
					Fixed         bool
					Verifications int
				}
			}
		}
	}
	r.call("GET", "/executions/"+id, "", &detail)
	require.Len(t, detail.Result.Model.Attempts, 1)
	require.Equal(t, 2, detail.Result.Model.Attempts[0].Verifications)
	require.True(t, detail.Result.Model.Attempts[0].Fixed)
	for _, s := range detail.Result.Steps {
		require.Equal(t, s.File != "main.go", s.Open, "%s:%d", s.File, s.Line)
	}
}
