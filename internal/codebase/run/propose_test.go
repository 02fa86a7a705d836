// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"encoding/json"
	"errors"
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
	"assay/internal/llm"
	"assay/internal/llm/llmtest"
	"assay/internal/review"
	"assay/internal/review/worker"
)

const modelKey = "sk-test-0123456789abcdefghij"

// withModel returns a model with scripted replies, and a function that configures workers to use it.
func withModel(t *testing.T, w *world) (*llmtest.Server, func(*Config)) {
	server := llmtest.New(t)
	client, err := llm.New(llm.Config{Kind: llm.Anthropic, URL: server.URL, Model: "some/model", APIKey: modelKey})
	require.NoError(t, err)
	t.Cleanup(client.CloseIdleConnections)
	return server, func(c *Config) {
		c.Verifier = w
		c.Proposer = &propose.Proposer{Model: client, Price: propose.Price{Input: 1, Output: 10}, Run: assay.ModelUsage{Tokens: 100_000}, Day: assay.ModelUsage{Tokens: 1_000_000}}
	}
}

// logLine returns the line of the log statement in shop.go after mechanical fixes.
func logLine(t *testing.T, w *world, ids ...string) int {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "shop.go"), []byte(shop), 0o600))
	text := shop
	if len(ids) > 0 {
		made, err := w.made(t.Context(), dir, worker.Change{Fix: ids})
		require.NoError(t, err)
		text = string(made.Patch.Files[0].After)
	}
	before, _, found := strings.Cut(text, "slog.InfoContext")
	require.True(t, found)
	return strings.Count(before, "\n") + 1
}

func edits(line int, text string) llmtest.Call {
	arguments, err := json.Marshal(map[string]any{"file": "shop.go", "first_line": line, "last_line": line, "text": text})
	if err != nil {
		return llmtest.Call{Name: err.Error()}
	}
	return llmtest.Call{Name: "edit", Arguments: string(arguments)}
}

const mended = "\tslog.InfoContext(ctx, \"ordered\")"

var verifies = llmtest.Call{Name: "verify", Arguments: "{}"}

// TestModelFix: mechanical fixes come first, the model fixes the remaining findings, and both are published.
func TestModelFix(t *testing.T) {
	w, found := newShop(t)
	model, with := withModel(t, w)
	line := logLine(t, w, found["span-name-dynamic"])
	model.Script(
		llmtest.Reply{Calls: []llmtest.Call{edits(line, "\tslog.InfoContext(ctx, \"ordered by \"+email)"), verifies}, Input: 2000, Output: 100},
		llmtest.Reply{Calls: []llmtest.Call{edits(line, mended), verifies}, Input: 2100, Output: 100},
	)
	tests, verified := 0, w.verified
	w.verified = func(ctx context.Context, o verify.Options) (*verify.Result, error) {
		text, err := os.ReadFile(filepath.Join(o.After, "shop.go"))
		if err != nil || !strings.Contains(string(text), mended+"\n") || strings.Contains(string(text), `"order "+id`) || !slices.Contains(o.Rules, "LOG-003") {
			return nil, errors.Join(err, errors.New(string(text)))
		}
		tests++
		return verified(ctx, o)
	}
	id := w.scheduleFix(found["span-name-dynamic"], found["sensitive-log"])
	w.start("a", with)
	w.wait(id, assay.RunCompleted)
	r := w.result(id)
	require.ElementsMatch(t, []string{found["span-name-dynamic"], found["sensitive-log"]}, r.Fixed)
	require.Empty(t, r.Left)
	require.Equal(t, 2, r.FindingCount)
	require.Equal(t, verify.Verified, r.Verification.Status)
	require.Equal(t, 1, tests, "a change that was verified is not verified again")
	require.Equal(t, "some/model", r.Model.Name)
	require.Equal(t, []propose.Attempt{{FindingID: found["sensitive-log"], Fixed: true, Verifications: 2}}, r.Model.Attempts)
	require.Equal(t, propose.Usage{Input: 4100, Output: 200, Total: 4300, Cost: 0.0061, Turns: 2}, r.Model.Usage)

	stored, err := w.store.Patch(t.Context(), w.organization, id)
	require.NoError(t, err)
	require.Contains(t, string(stored), "-\tslog.InfoContext(ctx, \"ordered\", \"email\", email)\n+"+mended)
	require.Contains(t, string(stored), `-	ctx, span := otel.Tracer("shop").Start(ctx, "order "+id)`)
	require.Len(t, w.published, 1)
	require.Contains(t, string(w.published[0].Files[0].Content), mended)
	require.Contains(t, w.published[0].Body, "A language model (`some/model`) proposed")
	require.Equal(t, "proposed 7 open", w.fixes()["sensitive-log"])

	events, _, err := w.store.RunEvents(t.Context(), w.organization, id, -1, 1000)
	require.NoError(t, err)
	var kinds []string
	for _, e := range events {
		require.NotContains(t, e.Message+string(e.Payload), modelKey)
		if e.Name == "agent" {
			var payload propose.Event
			require.NoError(t, json.Unmarshal(e.Payload, &payload))
			require.Equal(t, "change", e.Phase)
			kinds = append(kinds, strings.TrimSpace(payload.Type+" "+payload.ToolName))
		}
	}
	turn := []string{"message", "tool_call edit", "tool_result edit", "tool_call verify", "tool_result verify"}
	require.Equal(t, append(slices.Clone(turn), turn...), kinds)
}

// TestModelFails: the mechanical fixes are published even if the model fixes nothing.
func TestModelFails(t *testing.T) {
	for name, c := range map[string]struct {
		reply  llmtest.Reply
		change func(w *world)
		reason string
	}{
		"no change":  {llmtest.Reply{Text: "I cannot."}, nil, "proposes no change"},
		"wrong key":  {llmtest.Reply{Status: 401}, nil, "status 401"},
		"not mended": {llmtest.Reply{Calls: []llmtest.Call{edits(15, "\t_ = 1"), edits(15, "\tslog.InfoContext(ctx, \"ordered\", \"email\", email)\n\t_ = 2"), verifies, edits(16, "\t_ = 3"), verifies, edits(16, "\t_ = 4"), verifies, edits(16, "\t_ = 5"), verifies}}, nil, "after 3 repairs"},
		"not parsed": {llmtest.Reply{Calls: []llmtest.Call{edits(15, "\t{"), verifies, edits(15, "\t("), verifies, edits(15, "\t[)"), verifies, edits(15, "\t(]"), verifies}}, nil, "after 3 repairs"},
		"tests break": {llmtest.Reply{Calls: []llmtest.Call{edits(15, mended), verifies, edits(15, mended+" //"), verifies, edits(15, mended+" // 2"), verifies, edits(15, mended+" // 3"), verifies}}, func(w *world) {
			w.verified = func(_ context.Context, o verify.Options) (*verify.Result, error) {
				text, err := os.ReadFile(filepath.Join(o.After, "shop.go"))
				r := &verify.Result{Status: verify.Verified}
				if strings.Contains(string(text), mended) {
					r.Status, r.Reason, r.Tests.After = verify.Rejected, "after the change, the tests fail with exit code 1", &verify.Tests{Output: "FAIL shop"}
				}
				return r, err
			}
		}, "the tests fail with exit code 1"},
		"not listed": {llmtest.Reply{Calls: []llmtest.Call{edits(15, mended), verifies}}, func(w *world) { // the child lists the files, not the server
			made := w.made
			w.made = func(ctx context.Context, dir string, c worker.Change) (*worker.Response, error) {
				r, err := made(ctx, dir, c)
				if err == nil {
					r.Paths = slices.DeleteFunc(r.Paths, func(p string) bool { return p == "shop.go" })
				}
				return r, err
			}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w, found := newShop(t)
			if c.change != nil {
				c.change(w)
			}
			model, with := withModel(t, w)
			model.Always(c.reply)
			w.start("a", with)
			alone := w.scheduleFix(found["sensitive-log"])
			require.Contains(t, w.wait(alone, assay.RunFailed).Error, c.reason)
			require.Empty(t, w.published)
			require.Len(t, w.result(alone).Model.Attempts, 1, "the run says what was tried")
			if name != "no change" {
				return
			}
			id := w.scheduleFix(found["sensitive-attribute"], found["sensitive-log"])
			w.wait(id, assay.RunCompleted)
			r := w.result(id)
			require.Equal(t, []string{found["sensitive-attribute"]}, r.Fixed)
			require.Equal(t, []string{found["sensitive-log"]}, r.Left)
			require.False(t, r.Model.Attempts[0].Fixed)
			require.Equal(t, verify.Verified, r.Verification.Status)
			require.Len(t, w.published, 1)
			require.Contains(t, string(w.published[0].Files[0].Content), "\"email\", email)")
			require.NotContains(t, w.published[0].Body, "language model")
		})
	}
}

// TestModelTakeover kills a worker that has paid for a change. Another one continues and pays for nothing again.
func TestModelTakeover(t *testing.T) {
	for _, phase := range []string{"second finding", "verify", "publish"} {
		t.Run(phase, func(t *testing.T) {
			w, found := newShop(t)
			checkout := w.checkout
			w.checkout = func(ctx context.Context, want source.Want, dir string) (*source.Checkout, error) {
				made, err := checkout(ctx, want, dir)
				return made, errors.Join(err, os.WriteFile(filepath.Join(dir, "other.go"), []byte(strings.Replace(shop, "handle", "other", 1)), 0o600))
			}
			ids := []string{found["sensitive-log"]}
			for _, f := range findingsOf(t, w) {
				if f.Check == "sensitive-log" && f.Locations[0].File == "other.go" {
					ids = append(ids, f.ID)
				}
			}
			require.Len(t, ids, 2)
			model, with := withModel(t, w)
			began := make(chan struct{}, 1)
			hang := func(ctx context.Context) error {
				began <- struct{}{}
				<-ctx.Done()
				return ctx.Err()
			}
			other := llmtest.Call{Name: "edit", Arguments: strings.Replace(edits(15, mended).Arguments, "shop.go", "other.go", 1)}
			first := llmtest.Reply{Calls: []llmtest.Call{other, verifies}, Input: 100, Output: 10}
			second := llmtest.Reply{Calls: []llmtest.Call{edits(15, mended), verifies}, Input: 200, Output: 20}
			model.Script(first, second)
			verified, calls := w.verified, 0
			w.verified = func(ctx context.Context, o verify.Options) (*verify.Result, error) {
				if calls++; phase == "second finding" && calls == 2 {
					return nil, hang(ctx)
				}
				return verified(ctx, o)
			}
			id := w.scheduleFix(ids...)
			stop := w.start("a", func(c *Config) {
				with(c)
				c.Renew, c.Store = time.Hour, &deaf{c.Store}
				switch phase {
				case "verify":
					c.Store = &unsaved{c.Store, hang}
				case "publish":
					c.Sources = &stuck{w, hang}
				}
			})
			<-began
			if phase == "second finding" {
				model.Script(second) // the first one is paid for
			}
			w.set(func() { w.verified = verified })
			w.clock.move(DefaultLease + time.Second)
			w.start("b", with)
			w.wait(id, assay.RunCompleted)
			stop()
			r := w.result(id)
			require.ElementsMatch(t, ids, r.Fixed)
			require.Len(t, r.Model.Attempts, 2)
			want := 2
			if phase == "second finding" {
				want = 3
			}
			require.Len(t, model.Requests(), want)
			for _, f := range w.published[len(w.published)-1].Files {
				require.Contains(t, string(f.Content), mended, f.Path)
			}
			require.Len(t, w.published[len(w.published)-1].Files, 2)
			require.Equal(t, verify.Verified, r.Verification.Status)
		})
	}
}

// findingsOf returns the findings of the repository.
func findingsOf(t *testing.T, w *world) []review.Finding {
	dir := t.TempDir()
	_, err := w.checkout(t.Context(), source.Want{}, dir)
	require.NoError(t, err)
	r, err := w.review(t.Context(), dir)
	require.NoError(t, err)
	return r.Findings
}

// unsaved is the store of a worker that is killed before it saves the end of phase verify.
type unsaved struct {
	assay.CodebaseStore
	hang func(context.Context) error
}

func (u *unsaved) UpdateRun(ctx context.Context, holder string, r *assay.Run, events []assay.RunEvent) error {
	if len(events) == 1 && events[0].Phase == "verify" && events[0].Transition == "completed" {
		return u.hang(ctx)
	}
	return u.CodebaseStore.UpdateRun(ctx, holder, r, events)
}

// TestModelTime: a model leaves time for the rest of the run.
func TestModelTime(t *testing.T) {
	w, found := newShop(t)
	model, with := withModel(t, w)
	model.Always(llmtest.Hang)
	made := w.made
	w.made = func(ctx context.Context, dir string, c worker.Change) (*worker.Response, error) {
		w.clock.move(DefaultTimeout/2 + time.Second)
		return made(ctx, dir, c)
	}
	w.start("a", func(c *Config) {
		with(c)
		c.Store = &deaf{c.Store}
	})
	id := w.scheduleFix(found["sensitive-attribute"], found["sensitive-log"])
	w.wait(id, assay.RunCompleted)
	require.Equal(t, errModelTime.Error(), w.result(id).Model.Attempts[0].Reason)
	require.Len(t, w.published, 1)
}
