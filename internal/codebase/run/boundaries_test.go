// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/codebase/propose"
	"assay/internal/codebase/source"
	"assay/internal/codebase/verify"
	"assay/internal/llm/llmtest"
	"assay/internal/review/patch"
	"assay/internal/review/worker"
)

// queueProgram has a server, which the mechanical instrumentation knows, and a consumer, which it leaves.
var queueProgram = map[string]string{
	"go.mod": "module jobs\n\ngo 1.26\n\nrequire github.com/confluentinc/confluent-kafka-go/v2 v2.14.0\n",
	"main.go": `package main

import (
	"context"
	"net/http"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
)

func main() {
	go http.ListenAndServe(":8080", nil)
	receive(context.Background(), kafka.ConfigMap{})
}

func receive(ctx context.Context, cfg kafka.ConfigMap) {
	consumer, _ := kafka.NewConsumer(&cfg)
	for ctx.Err() == nil {
		m, err := consumer.ReadMessage(-1)
		if err != nil {
			return
		}
		process(m)
	}
}
`,
	"process.go": "package main\n\nimport \"github.com/confluentinc/confluent-kafka-go/v2/kafka\"\n\nfunc process(m *kafka.Message) {}\n",
}

// newQueue returns a world whose repository has queueProgram, and the texts of its files after the mechanical
// instrumentation.
func newQueue(t *testing.T, files map[string]string) (*world, map[string]string) {
	w, _ := newShop(t)
	write := func(dir string) (err error) {
		for name, text := range files {
			err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
		}
		return err
	}
	w.checkout = func(_ context.Context, _ source.Want, dir string) (*source.Checkout, error) {
		return &source.Checkout{Dir: dir, DefaultBranch: "main", Commit: strings.Repeat("b", 40)}, write(dir)
	}
	w.verified = func(context.Context, verify.Options) (*verify.Result, error) {
		return &verify.Result{Status: verify.TestsPass, Reason: "telemetry proves nothing"}, nil
	}
	dir := t.TempDir()
	require.NoError(t, write(dir))
	made, err := w.made(t.Context(), dir, worker.Change{Instrument: "general"})
	require.NoError(t, err)
	after := maps.Clone(files)
	for _, f := range made.Patch.Files {
		after[f.Path] = string(f.After)
	}
	return w, after
}

func (w *world) scheduleInstrumentation(kind string) string {
	r, _, err := w.store.ScheduleRun(w.t.Context(), &assay.Run{
		OrganizationID: w.organization, RepositoryID: w.repository.ID, InstallationID: w.repository.InstallationID, RepositoryName: w.repository.FullName,
		Type: assay.RunInstrumentation, Status: assay.RunPending, Trigger: assay.TriggerManual, Input: json.RawMessage(`{"type":"` + kind + `"}`),
	})
	require.NoError(w.t, err)
	return r.ID
}

// replaces returns the edit that replaces the one line of a file that contains a text.
func replaces(t *testing.T, text, file, line, by string) llmtest.Call {
	require.Equal(t, 1, strings.Count(text, line), "%q in %s", line, text)
	before, _, _ := strings.Cut(text, line)
	number := strings.Count(before, "\n") + 1
	arguments, err := json.Marshal(map[string]any{"file": file, "first_line": number, "last_line": number, "text": by})
	require.NoError(t, err)
	return llmtest.Call{Name: "edit", Arguments: string(arguments)}
}

const (
	otelImport   = "\t\"github.com/confluentinc/confluent-kafka-go/v2/kafka\"\n\t\"go.opentelemetry.io/otel\"\n\t\"go.opentelemetry.io/otel/trace\""
	consumerSpan = "\t\t_, span := otel.Tracer(\"jobs\").Start(ctx, \"process orders\", trace.WithSpanKind(trace.SpanKindConsumer))\n\t\tprocess(m)\n"
)

// traced returns the calls that add a span to the loop of a file, with its text after the mechanical instrumentation.
func traced(t *testing.T, text, file string) []llmtest.Call {
	return []llmtest.Call{replaces(t, text, file, "\t\tprocess(m)\n", consumerSpan+"\t\tspan.End()"), replaces(t, text, file, "\t\"github.com/confluentinc/confluent-kafka-go/v2/kafka\"\n", otelImport)}
}

// TestModelInstruments: the mechanical instrumentation comes first, the model instruments the remaining boundaries,
// and both are verified and published.
func TestModelInstruments(t *testing.T) {
	w, after := newQueue(t, queueProgram)
	model, with := withModel(t, w)
	var options []verify.Options
	w.verified = func(_ context.Context, o verify.Options) (*verify.Result, error) {
		options = append(options, o)
		r := &verify.Result{Status: verify.TestsPass, Reason: "telemetry proves nothing"}
		r.Tests.After = &verify.Tests{Passed: true}
		return r, nil
	}
	text := after["main.go"]
	require.Contains(t, text, "otelhttp.NewHandler", "the mechanical change moves the lines")
	model.Script(
		llmtest.Reply{Calls: []llmtest.Call{replaces(t, text, "main.go", "\t\tprocess(m)\n", "\t\t// traced\n\t\tprocess(m)"), verifies}, Input: 2000, Output: 100},
		llmtest.Reply{Calls: append([]llmtest.Call{replaces(t, strings.Replace(text, "\t\tprocess", "\n\t\tprocess", 1), "main.go", "\t\tprocess(m)\n", consumerSpan+"\t\tspan.End()")},
			traced(t, text, "main.go")[1], verifies), Input: 2100, Output: 100},
	)
	w.start("a", with)
	id := w.scheduleInstrumentation("general")
	run := w.wait(id, assay.RunCompleted)
	require.Empty(t, run.Error)

	asked := model.Requests()
	require.Len(t, asked, 2)
	require.Contains(t, asked[0].User, `"span_kind": "consumer"`)
	number := strings.Count(text[:strings.Index(text, "\tconsumer, _ := ")], "\n") + 1
	require.Contains(t, asked[0].User, fmt.Sprintf(`"line": %d`, number))
	require.Contains(t, asked[1].Results[1], "the boundary has no telemetry")
	require.Len(t, options, 2, "what the facts refuse is not tested, and what was verified is not verified again")
	require.True(t, options[0].Installs)
	require.False(t, options[1].Installs, "the tests of the mechanical change pass: they have its dependencies")

	r := w.result(id)
	require.Equal(t, []propose.Attempt{{File: "main.go", Line: 16, Library: "github.com/confluentinc/confluent-kafka-go", Fixed: true, Verifications: 2}}, r.Model.Attempts)
	require.Equal(t, 2, r.Model.Usage.Turns)
	require.Contains(t, r.Steps, patch.Step{
		File: "main.go", Line: 16, Text: "Instrument the consumer of `github.com/confluentinc/confluent-kafka-go` as the language model proposed",
		Boundary: patch.Boundary{SpanKind: "consumer", Library: "github.com/confluentinc/confluent-kafka-go"},
	})
	require.Equal(t, verify.TestsPass, r.Verification.Status)
	stored, err := w.store.Patch(t.Context(), w.organization, id)
	require.NoError(t, err)
	require.Contains(t, string(stored), "+\t\tspan.End()\n")
	require.Contains(t, string(stored), "+++ b/telemetry.go\n")
	require.Len(t, w.published, 1)
	require.Contains(t, w.published[0].Body, "A language model (`some/model`) proposed the changes at these places")
	require.Contains(t, w.published[0].Body, "- `main.go:16`\n")
	require.True(t, slices.ContainsFunc(w.published[0].Files, func(f source.File) bool {
		return f.Path == "main.go" && strings.Contains(string(f.Content), "span.End()") && strings.Contains(string(f.Content), "defer startTelemetry()()")
	}))
	events, _, err := w.store.RunEvents(t.Context(), w.organization, id, -1, 1000)
	require.NoError(t, err)
	agent := 0
	for _, e := range events {
		require.NotContains(t, e.Message+string(e.Payload), modelKey)
		if e.Name == "agent" {
			require.Equal(t, "instrument", e.Phase)
			agent++
		}
	}
	require.Equal(t, 12, agent)

	w.wait(w.scheduleInstrumentation("minimum"), assay.RunCompleted)
	require.Len(t, model.Requests(), 2, "the minimum uses no model")
}

// TestModelLeaves: if a model does not instrument the boundary correctly, the mechanical change is published alone, and
// the step reports the attempt.
func TestModelLeaves(t *testing.T) {
	for name, c := range map[string]struct {
		calls  func(t *testing.T, text string) []llmtest.Call
		reason string
	}{
		"nothing": {func(*testing.T, string) []llmtest.Call { return nil }, "proposes no change"},
		"another file": {func(t *testing.T, _ string) []llmtest.Call {
			return []llmtest.Call{
				replaces(t, queueProgram["process.go"], "process.go", "package main", "package other"), replaces(t, "module x\n", "go.mod", "module x", "module hacked"),
				replaces(t, "package main\n", "telemetry.go", "package main", "package hacked"), replaces(t, "x", "../main.go", "x", "y"),
			}
		}, "proposes no change"},
		"no telemetry": {func(t *testing.T, text string) []llmtest.Call {
			return []llmtest.Call{replaces(t, text, "main.go", "\t\tprocess(m)\n", "\t\tprocess(m) // traced")}
		}, "the boundary has no telemetry"},
		"no boundary": {func(t *testing.T, text string) []llmtest.Call {
			return append(traced(t, text, "main.go")[:1], replaces(t, text, "main.go", "\tconsumer, _ := ", "\tvar consumer *kafka.Consumer"), traced(t, text, "main.go")[1])
		}, "keep the boundary"},
		"other telemetry removed": {func(t *testing.T, text string) []llmtest.Call {
			return append(traced(t, text, "main.go")[:1], replaces(t, text, "main.go", "otelhttp.NewHandler", "\tgo http.ListenAndServe(\":8080\", nil)"), replaces(t, text, "main.go", "/otelhttp\"", ""))
		}, "removes a line of the mechanical instrumentation"},
		"not parsed": {func(t *testing.T, text string) []llmtest.Call {
			return []llmtest.Call{replaces(t, text, "main.go", "\t\tprocess(m)\n", "\t\tprocess(m")}
		}, "does not parse"},
		"unknown dependency": {func(t *testing.T, text string) []llmtest.Call {
			calls := traced(t, text, "main.go")
			calls[1].Arguments = strings.Replace(calls[1].Arguments, `otel/trace\"`, `otel/trace\"\n\t_ \"example.com/evil\"`, 1)
			return calls
		}, "is not used"},
		"a finding": {func(t *testing.T, text string) []llmtest.Call {
			calls := traced(t, text, "main.go")
			calls[0].Arguments = strings.Replace(calls[0].Arguments, `\"process orders\"`, `\"process \"+string(m.Key)`, 1)
			return calls
		}, "or has new ones"},
		"tests": {func(t *testing.T, text string) []llmtest.Call { return traced(t, text, "main.go") }, "the tests fail"},
	} {
		t.Run(name, func(t *testing.T) {
			w, after := newQueue(t, queueProgram)
			w.verified = func(_ context.Context, o verify.Options) (*verify.Result, error) {
				text, err := os.ReadFile(filepath.Join(o.After, "main.go"))
				r := &verify.Result{Status: verify.TestsPass}
				if strings.Contains(string(text), "span.End()") {
					r.Status, r.Reason = verify.Rejected, "after the change, the tests fail with exit code 1"
				}
				return r, err
			}
			model, with := withModel(t, w)
			if calls := c.calls(t, after["main.go"]); len(calls) > 0 {
				again := llmtest.Call{Name: "edit", Arguments: `{"file":"main.go","first_line":1,"last_line":0,"text":"// again\n"}`} // repairs nothing
				model.Script(llmtest.Reply{Calls: append(calls, verifies)}, llmtest.Reply{Calls: []llmtest.Call{again, verifies}},
					llmtest.Reply{Calls: []llmtest.Call{again, verifies}}, llmtest.Reply{Calls: []llmtest.Call{again, verifies}})
				if c.reason == "proposes no change" {
					model.Script(llmtest.Reply{Calls: calls})
				}
			}
			model.Always(llmtest.Reply{Text: "I cannot."})
			w.start("a", with)
			id := w.scheduleInstrumentation("general")
			w.wait(id, assay.RunCompleted)
			r := w.result(id)
			require.Len(t, r.Model.Attempts, 1)
			require.False(t, r.Model.Attempts[0].Fixed)
			require.Empty(t, r.Model.Patch)
			at := slices.IndexFunc(r.Steps, func(s patch.Step) bool { return s.Boundary.SpanKind == "consumer" })
			require.True(t, r.Steps[at].Open)
			require.Contains(t, r.Steps[at].Text, "The language model did not instrument it: ")
			require.Contains(t, r.Steps[at].Text, r.Model.Attempts[0].Reason)
			events, _, err := w.store.RunEvents(t.Context(), w.organization, id, -1, 1000)
			require.NoError(t, err)
			var told string
			for _, e := range events {
				told += e.Message + "\n"
			}
			require.Contains(t, told, c.reason)
			require.Len(t, w.published, 1)
			require.NotContains(t, w.published[0].Body, "proposed the changes")
			require.Contains(t, w.published[0].Body, "The language model did not instrument it")
			for _, f := range w.published[0].Files {
				require.Equal(t, after[f.Path], string(f.Content))
			}
		})
	}
}

// TestModelAlone: without a mechanical change, a run publishes the change of the model, or fails if there is none.
func TestModelAlone(t *testing.T) {
	files := map[string]string{
		"go.mod":     strings.Replace(queueProgram["go.mod"], "require ", "require go.opentelemetry.io/otel/sdk v1.47.0\n\nrequire go.opentelemetry.io/otel v1.47.0\n\nrequire ", 1),
		"main.go":    strings.Replace(queueProgram["main.go"], "\tgo http.ListenAndServe(\":8080\", nil)\n", "", 1),
		"process.go": queueProgram["process.go"],
	}
	files["main.go"] = strings.Replace(files["main.go"], "\t\"net/http\"\n", "", 1)
	w, after := newQueue(t, files)
	require.Equal(t, files, after)
	model, with := withModel(t, w)
	model.Always(llmtest.Reply{Text: "I cannot."})
	w.start("a", with)
	require.Equal(t, "there is nothing to change mechanically, and the language model has instrumented nothing: the model proposes no change",
		w.wait(w.scheduleInstrumentation("general"), assay.RunFailed).Error)
	model.Script(llmtest.Reply{Calls: append(traced(t, files["main.go"], "main.go"), verifies)})
	id := w.scheduleInstrumentation("general")
	w.wait(id, assay.RunCompleted)
	require.Equal(t, 1, w.result(id).FilesChanged)
	require.Len(t, w.published, 1)
}

// TestInstrumentationTakeover kills a worker that has paid for the change at a boundary. Another one continues and pays
// for nothing again.
func TestInstrumentationTakeover(t *testing.T) {
	for _, phase := range []string{"saved patch", "second boundary", "verify", "publish"} {
		t.Run(phase, func(t *testing.T) {
			files := map[string]string{"other.go": strings.NewReplacer("func receive(", "func other(", "\t\"net/http\"\n", "", "func main() {\n\tgo http.ListenAndServe(\":8080\", nil)\n\treceive(context.Background(), kafka.ConfigMap{})\n}\n\n", "").Replace(queueProgram["main.go"])}
			maps.Copy(files, queueProgram)
			w, after := newQueue(t, files)
			model, with := withModel(t, w)
			began := make(chan struct{}, 1)
			hang := func(ctx context.Context) error {
				began <- struct{}{}
				<-ctx.Done()
				return ctx.Err()
			}
			first := llmtest.Reply{Calls: append(traced(t, after["main.go"], "main.go"), verifies), Input: 100, Output: 10}
			second := llmtest.Reply{Calls: append(traced(t, after["other.go"], "other.go"), verifies), Input: 200, Output: 20}
			model.Script(first, second)
			verified, calls := w.verified, 0
			w.verified = func(ctx context.Context, o verify.Options) (*verify.Result, error) {
				if calls++; phase == "second boundary" && calls == 3 { // the first one is of the mechanical change
					return nil, hang(ctx)
				}
				return verified(ctx, o)
			}
			id := w.scheduleInstrumentation("general")
			stop := w.start("a", func(c *Config) {
				with(c)
				c.Renew, c.Store = time.Hour, &deaf{c.Store}
				switch phase {
				case "saved patch":
					c.Store = &unnoted{c.Store, hang}
				case "verify":
					c.Store = &unsaved{c.Store, hang}
				case "publish":
					c.Sources = &stuck{w, hang}
				}
			})
			<-began
			want := 2
			switch phase {
			case "saved patch":
				model.Script(first, second) // the patch is not the one of the result
				want = 3
			case "second boundary":
				model.Script(second) // the first one is paid for
				want = 3
			}
			w.set(func() { w.verified = verified })
			w.clock.move(DefaultLease + time.Second)
			w.start("b", with)
			w.wait(id, assay.RunCompleted)
			stop()
			r := w.result(id)
			require.Len(t, r.Model.Attempts, 2)
			require.True(t, r.Model.Attempts[0].Fixed && r.Model.Attempts[1].Fixed)
			require.Len(t, model.Requests(), want)
			done := 0
			for _, s := range r.Steps {
				if s.Boundary != (patch.Boundary{}) {
					require.False(t, s.Open, s.Text)
					done++
				}
			}
			require.Equal(t, 2, done)
			for _, p := range w.published {
				require.Equal(t, w.published[0], p, "one branch with one commit")
			}
			for _, f := range w.published[0].Files {
				switch f.Path {
				case "main.go", "other.go":
					require.Contains(t, string(f.Content), "span.End()", f.Path)
				default:
					require.Equal(t, after[f.Path], string(f.Content), f.Path)
				}
			}
			require.Len(t, w.published[0].Files, 4)
		})
	}
}

// unnoted is the store of a worker that is killed after saving a patch, and before saving the result of the run.
type unnoted struct {
	assay.CodebaseStore
	hang func(context.Context) error
}

func (u *unnoted) UpdateRun(ctx context.Context, holder string, r *assay.Run, events []assay.RunEvent) error {
	if len(events) == 1 && strings.HasPrefix(events[0].Message, "The language model has instrumented") {
		return u.hang(ctx)
	}
	return u.CodebaseStore.UpdateRun(ctx, holder, r, events)
}
