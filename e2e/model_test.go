// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"path/filepath"
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
