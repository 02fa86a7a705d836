// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"

	"assay/internal/rules/catalog"
	"assay/internal/rules/remedy"
)

// remedied is a program with common mistakes and the edits that follow its remediation texts. For an insight
// without an edit, the shell commands of the text run before the program.
type remedied struct {
	file  string
	run   string
	edits map[string][2]string // by insight type: old and new text
}

var remediedPrograms = map[string]remedied{
	"go": {
		file: "main.go", run: "go run .",
		edits: map[string][2]string{
			"deprecated_attributes": {`"http.method"`, `"http.request.method"`},
			"missing_log_severity":  {`r.SetSeverityText("ERROR")`, `r.SetSeverity(log.SeverityError); r.SetSeverityText("ERROR")`},
			"missing_metric_unit":   {`meter.Int64Counter("checkout.requests")`, `meter.Int64Counter("checkout.requests", metric.WithUnit("{request}"))`},
			"sensitive_log_data":    {`"login failed for " + user.Email`, `"login failed for " + user.ID`},
			"sensitive_span_data":   {`attribute.String("user.email", user.Email)`, `attribute.String("user.id", user.ID)`},
			"unbounded_span_names":  {`fmt.Sprint("GET /users/", user.ID)`, `"GET /users/{id}"`},
			"unit_in_metric_name":   {`"checkout.duration.seconds"`, `"checkout.duration"`},
		},
	},
	"node": {
		file: "main.js", run: "node main.js",
		edits: map[string][2]string{
			"deprecated_attributes": {`'http.method'`, `'http.request.method'`},
			"missing_log_severity":  {`severityText: 'ERROR',`, `severityNumber: SeverityNumber.ERROR, severityText: 'ERROR',`},
			"missing_metric_unit":   {`meter.createCounter('checkout.requests')`, `meter.createCounter('checkout.requests', { unit: '{request}' })`},
			"sensitive_log_data":    {"`payment failed for ${user.email}`", "`payment failed for ${user.id}`"},
			"sensitive_span_data":   {`'user.email', user.email`, `'user.id', user.id`},
			"unbounded_span_names":  {"`process order ${order.id}`", `'process order'`},
			"unit_in_metric_name":   {`'checkout.duration.seconds'`, `'checkout.duration'`},
		},
	},
}

// TestRemedies raises programs with common mistakes to a score of 100 by following only their remediation
// texts. Each step follows the text of the first insight, which must not be reported again.
func TestRemedies(t *testing.T) {
	t.Parallel()
	packages, err := filepath.Abs(filepath.Join("..", "bin", "tools", "otel-node"))
	require.NoError(t, err)
	for name, p := range remediedPrograms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "remedy", name))))
			environment := append(os.Environ(), "NODE_PATH="+filepath.Join(packages, "node_modules"))
			var commands []string
			var followed []string
			for {
				score, insights := scoreProgram(t, dir, append(commands, "exec "+p.run), environment)
				t.Logf("score %d; insights: %d; followed: %v", score, len(insights), followed)
				for _, i := range insights {
					require.NotContains(t, followed, i.Name, "the insight is open although its remediation was followed")
				}
				if len(insights) == 0 {
					require.Equal(t, 100, score)
					break
				}
				next := insights[0]
				text := remediation(t, next)
				if edit, ok := p.edits[next.Name]; ok {
					edited(t, filepath.Join(dir, p.file), edit[0], edit[1], text)
				} else {
					commands = append(commands, shell(t, next.Name, text))
				}
				followed = append(followed, next.Name)
			}
			for name := range p.edits {
				require.Contains(t, followed, name)
			}
			require.Subset(t, followed, []string{"missing_deployment_environment", "missing_service_instance_id"})
		})
	}
}

// scoredInsight is an insight in the report of `assay score`.
type scoredInsight struct {
	Name       string         `json:"name"`
	Attributes map[string]any `json:"attributes"`
}

// scoreProgram runs the commands and scores the telemetry that they send.
func scoreProgram(t *testing.T, dir string, commands, environment []string) (score int, insights []scoredInsight) {
	t.Helper()
	sink := startRecorder(t)
	cmd := exec.CommandContext(t.Context(), "sh", "-ec", strings.Join(commands, "\n"))
	cmd.Dir, cmd.Env = dir, append(environment, "OTEL_EXPORTER_OTLP_ENDPOINT="+sink.URL)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	done := runAssay(t, nil, "score", "--format", "json", sink.write(t))
	require.Equal(t, 0, done.Code, done.Stderr)
	var report struct {
		Services []struct {
			Score    int             `json:"score"`
			Insights []scoredInsight `json:"insights"`
		} `json:"services"`
	}
	require.NoError(t, json.Unmarshal([]byte(done.Stdout), &report))
	require.Len(t, report.Services, 1, done.Stdout)
	return report.Services[0].Score, report.Services[0].Insights
}

// remediation returns the remediation text of an insight.
func remediation(t *testing.T, i scoredInsight) string {
	t.Helper()
	for _, r := range catalog.All() {
		if info := r.Info(); info.Name == i.Name {
			return remedy.For(info, i.Attributes)
		}
	}
	require.Fail(t, "unknown insight type", i.Name)
	return ""
}

var (
	shellBlock = regexp.MustCompile("(?s)\n```sh\n(.*?)```")
	word       = regexp.MustCompile(`[A-Za-z][\w.]*`)
)

// shell returns the commands of a remediation text that do not require a code change.
func shell(t *testing.T, name, text string) string {
	t.Helper()
	_, after, found := strings.Cut(text, "Without a change of the code:")
	require.True(t, found, "%s: the text has no commands", name)
	m := shellBlock.FindStringSubmatch(after)
	require.NotNil(t, m, name)
	return m[1]
}

// edited replaces text in a file. Each word that the edit adds must be in the remediation text or in the
// program.
func edited(t *testing.T, path, before, after, text string) {
	t.Helper()
	program, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(program), before), before)
	known := word.FindAllString(text+string(program), -1)
	for _, w := range word.FindAllString(after, -1) {
		require.True(t, slices.Contains(known, w), "the remediation does not have %q, which the program needs:\n%s", w, text)
	}
	require.NoError(t, os.WriteFile(path, []byte(strings.Replace(string(program), before, after, 1)), 0o600))
}

// recorder is an OTLP receiver that records requests as OTLP/JSON, one per line.
type recorder struct {
	*httptest.Server
	mu    sync.Mutex
	lines []byte
}

func startRecorder(t *testing.T) *recorder {
	t.Helper()
	s := &recorder{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		line, err := otlpJSON(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.lines = append(append(s.lines, line...), '\n')
	}))
	t.Cleanup(s.Close)
	return s
}

// write writes the requests to a file.
func (s *recorder) write(t *testing.T) (path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	path = filepath.Join(t.TempDir(), "telemetry.jsonl")
	require.NoError(t, os.WriteFile(path, s.lines, 0o600))
	return path
}

// otlpJSON returns the body of an export request as JSON.
func otlpJSON(r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	var request interface {
		UnmarshalProto([]byte) error
		UnmarshalJSON([]byte) error
		MarshalJSON() ([]byte, error)
	}
	switch r.URL.Path {
	case "/v1/traces":
		x := ptraceotlp.NewExportRequest()
		request = &x
	case "/v1/metrics":
		x := pmetricotlp.NewExportRequest()
		request = &x
	case "/v1/logs":
		x := plogotlp.NewExportRequest()
		request = &x
	default:
		return nil, fmt.Errorf("unexpected path %q", r.URL.Path)
	}
	unmarshal := request.UnmarshalProto
	if strings.Contains(r.Header.Get("Content-Type"), "json") {
		unmarshal = request.UnmarshalJSON
	}
	if err := unmarshal(body); err != nil {
		return nil, err
	}
	return request.MarshalJSON()
}

// snippets returns the code of all remediations in a language, by insight type.
func snippets(language string) map[string]string {
	all := make(map[string]string)
	block := regexp.MustCompile("(?s)```" + language + "\n(.*?)```")
	for _, r := range catalog.All() {
		for i, m := range block.FindAllStringSubmatch(r.Info().Remediation, -1) {
			all[fmt.Sprint(r.Info().Name, i)] = m[1]
		}
	}
	return all
}

// TestNodeSnippets runs the JavaScript of all remediations with OpenTelemetry's packages. internal/rules/remedy
// compiles the Go code.
func TestNodeSnippets(t *testing.T) {
	t.Parallel()
	runSnippets(t, "js", "node", filepath.Join("testdata", "remedy", "snippets.js"))
}

// TestPythonSnippets compiles the Python code of all remediations.
func TestPythonSnippets(t *testing.T) {
	t.Parallel()
	runSnippets(t, "python", "python3", "-c", "import json, sys\nfor name, code in json.load(sys.stdin).items(): compile(code, name, 'exec')")
}

// runSnippets passes the snippets of a language as JSON to a program.
func runSnippets(t *testing.T, language, program string, args ...string) {
	t.Helper()
	all := snippets(language)
	require.Greater(t, len(all), 20)
	text, err := json.Marshal(all)
	require.NoError(t, err)
	packages, err := filepath.Abs(filepath.Join("..", "bin", "tools", "otel-node", "node_modules"))
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Stdin, cmd.Env = bytes.NewReader(text), append(os.Environ(), "NODE_PATH="+packages)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Empty(t, string(out))
}
