// SPDX-License-Identifier: Apache-2.0

package propose

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/llm"
	"assay/internal/llm/llmtest"
	"assay/internal/review/patch"
)

// each runs a test for a finding with each provider, and for a boundary.
func each(t *testing.T, test func(t *testing.T, f *fixture)) {
	for _, kind := range []string{llm.OpenAI, llm.Anthropic, "boundary"} {
		t.Run(kind, func(t *testing.T) {
			var f *fixture
			if kind == "boundary" {
				f = newFixture(t, llm.OpenAI)
				f.Finding, f.Step = nil, boundary()
			} else {
				f = newFixture(t, kind)
			}
			test(t, f)
			f.untouched()
		})
	}
}

// boundary is a step at the line of the finding.
func boundary() *patch.Step {
	return &patch.Step{
		File: "shop.go", Line: 4, Text: "Instrument the consumer of `" + mail + "`", Open: true, Boundary: patch.Boundary{SpanKind: "consumer", Library: "example.com/queue"},
	}
}

// TestFix: a model reads files, makes a mistake and repairs it.
func TestFix(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		f.model.Script(
			llmtest.Reply{Text: "I look.", Calls: []llmtest.Call{call("list", "prefix", ""), call("read", "file", "shop.go", "first_line", 1, "last_line", 99)}, Input: 1000, Output: 50},
			says(call("search", "text", "email", "prefix", "")),
			says(edit("shop.go", 4, 4, "\tlog(\"ordered\", \"email\", \"***\")\n"), verifies),
			says(mends, verifies),
		)
		want, system, document := Attempt{FindingID: "otel-000000000001"}, fixText, "sensitive-log"
		if f.Finding == nil {
			want, system, document = Attempt{File: "shop.go", Line: 4, Library: "example.com/queue"}, instrumentText, `"span_kind": "consumer"`
		}
		want.Fixed, want.Verifications = true, 2
		a := f.propose()
		require.Equal(t, &want, a)
		require.True(t, f.Tried(*a))
		files := f.patch()
		require.Len(t, files, 1)
		require.Equal(t, "shop.go", files[0].Path)
		require.Equal(t, strings.Replace(shop, ", \"email\", email", "", 1), string(files[0].After))
		require.Len(t, f.checked, 2)

		asked := f.model.Requests()
		require.Len(t, asked, 4)
		require.Equal(t, []string{"list", "read", "search", "edit", "verify"}, asked[0].Tools)
		require.Contains(t, asked[0].System, strings.TrimSpace(system))
		require.Contains(t, asked[0].User, document)
		require.Contains(t, asked[0].User, "Keep messages. Ask [redacted]")
		listed, read := asked[1].Results[0], asked[1].Results[1]
		for _, name := range []string{"shop.go", "shop_test.go", "config.go", "deploy.yaml"} {
			require.Contains(t, listed, name+"\n")
		}
		for _, name := range []string{".env", ".git", "secrets.yaml", "prod.env", "link", "vendor", "ignored", "large.go"} {
			require.NotContains(t, listed, name)
		}
		require.Contains(t, read, "4\t\tlog(\"ordered\", \"email\", email)\n")
		require.Contains(t, asked[2].Results[2], "shop.go:4\t")
		require.Contains(t, asked[3].Results[4], "still has this finding")
		mark, _, _ := strings.Cut(strings.TrimPrefix(read, "<<< "), "\n")
		require.Len(t, mark, 26)
		require.Contains(t, asked[0].System, "<<< "+mark)

		require.Equal(t, 4, f.usage.Turns)
		require.Equal(t, 1003, f.usage.Input)
		require.Equal(t, 53, f.usage.Output)
		require.Equal(t, 1056, f.usage.Total)
		require.InDelta(t, (1003*3+53*15)/1e6, f.usage.Cost, 1e-9)
		require.EqualValues(t, 1056, f.spent.Tokens, "the day has what was used, not what was estimated")
		require.Equal(t, []string{"message", "tool_call", "tool_result", "tool_call", "tool_result", "message", "tool_call"}, types(f.events[:7]))
		require.Equal(t, "I look.", f.events[0].Preview)
		require.Equal(t, 1050, f.events[0].Usage.Total)
		require.Equal(t, "read", f.events[3].ToolName)
		require.Equal(t, len(read), f.events[4].Bytes)
	})
}

func types(events []Event) (all []string) {
	for _, e := range events {
		all = append(all, e.Type)
	}
	return all
}

// TestMisbehaviour: the changes of models that violate the rules are undone.
func TestMisbehaviour(t *testing.T) {
	read := func(file string) llmtest.Call { return call("read", "file", file, "first_line", 1, "last_line", 9) }
	var outside, fixed, ranges, texts, wrong []llmtest.Call
	for _, file := range []string{"../data.go", "/etc/passwd", "link.go", "linked/data.go", ".env", "./.env", "prod.env", "secrets.yaml", ".github/workflows/ci.yml", ".git/config", "vendor/a.go", "ignored.go", "new.go", "shop.go/", "./shop.go", "", "large.go", "binary.go"} {
		outside = append(outside, read(file), edit(file, 1, 1, "package hacked"))
	}
	for _, file := range []string{"shop_test.go", "helper.go", "go.mod", "package.json", "jest.config.js", "azure-pipelines.yml", "app.pb.go", "main.go", "deploy.yaml"} {
		fixed = append(fixed, edit(file, 1, 1, ""), edit(file, 1, 0, "x\n"))
	}
	for _, r := range [][2]int{{0, 0}, {-1, 3}, {3, 1}, {1, 8}, {9, 9}, {1, 1 << 40}, {1 << 40, 1 << 40}} {
		ranges = append(ranges, edit("shop.go", r[0], r[1], "x"))
	}
	for _, text := range []string{
		"// assay-ignore: sensitive-log", "const k = \"" + "AKIA" + "IOSFODNN7EXAMPLZ\"", "// mail eve@evil.io", "x \u202e y", "x\x00", "a[redacted]b", strings.Repeat("x", maxText+1),
		"import (\n\t\"testing\"\n)", "// Code generated by x. DO NOT EDIT.", strings.Repeat("x\n", maxChangedLines+1),
	} {
		texts = append(texts, edit("shop.go", 1, 0, text))
	}
	texts = append(texts, edit("config.go", 3, 3, "x"), edit("config.go", 5, 5, "x"), edit("config.go", 10, 10, "x"), edit("wide.go", 3, 3, "x"), edit("wide.go", 5, 5, "x"))
	wrong = append(
		wrong, llmtest.Call{Name: "edit", Arguments: `{"file": "shop.go", `}, llmtest.Call{Name: "edit", Arguments: `[1]`}, llmtest.Call{Name: "read", Arguments: `{"file": 7}`},
		llmtest.Call{Name: "read", Arguments: `{"path": "shop.go"}`}, llmtest.Call{Name: "edit", Arguments: `{"file":"shop.go","first_line":1,"last_line":7}`},
		llmtest.Call{Name: "edit", Arguments: ""}, call("shell", "command", "cat /etc/passwd"), call("write", "file", "x"), call(""), call("search", "text", "", "prefix", ""),
		call("read", "file", "shop.go", "first_line", 1.5, "last_line", 2), verifies, edit("shop.go", 1, 1, strings.Repeat("\n", maxArguments+1)),
	)
	done := llmtest.Reply{Text: "Done."}
	for name, c := range map[string]struct {
		script  []llmtest.Reply
		reason  string
		refused bool // each call fails
	}{
		"paths":            {in(outside), "proposes no change", true},
		"fixed files":      {in(fixed), "proposes no change", true},
		"ranges":           {in(ranges), "proposes no change", true},
		"texts":            {in(texts), "proposes no change", true},
		"arguments":        {in(wrong), "proposes no change", true},
		"injection":        {[]llmtest.Reply{says(read("main.go")), says(read(".env"), call("search", "text", "TOKEN", "prefix", "")), says(edit("README.md", 1, 0, "TOKEN"))}, "proposes no change", false},
		"probing":          {[]llmtest.Reply{says(call("search", "text", password[:4], "prefix", ""), call("search", "text", pem[:4], "prefix", "")), says(read("config.go"), read("deploy.yaml"))}, "proposes no change", false},
		"nothing":          {[]llmtest.Reply{{Empty: true}}, "proposes no change", false},
		"gives up":         {[]llmtest.Reply{{Text: "I cannot."}}, "proposes no change", false},
		"unverified":       {[]llmtest.Reply{says(edit("shop.go", 1, 0, "// a\n")), done, done}, "not verified", false},
		"undone":           {[]llmtest.Reply{says(mends, edit("shop.go", 4, 4, "\tlog(\"ordered\", \"email\", email)")), done}, "proposes no change", false},
		"repairs":          {repeat(maxRepairs+1, func(i int) llmtest.Reply { return says(edit("shop.go", 1, 0, fmt.Sprintf("// %d\n", i)), verifies) }), "after 3 repairs: the review still has this finding", false},
		"verify again":     {append([]llmtest.Reply{says(edit("shop.go", 1, 0, "// a\n"), verifies)}, repeat(maxTurns, func(int) llmtest.Reply { return says(verifies) })...), "did not finish", false},
		"loop":             {repeat(maxTurns, func(int) llmtest.Reply { return says(read("shop.go")) }), "did not finish within 40", false},
		"too many lines":   {repeat(maxTurns, func(i int) llmtest.Reply { return says(edit("shop.go", 1, 0, strings.Repeat("// a\n", 7))) }), "did not finish", false},
		"too many calls":   {[]llmtest.Reply{says(many(1000, read("shop.go"))...), done}, "proposes no change", false},
		"too large":        {[]llmtest.Reply{{Text: strings.Repeat("a", 2<<20)}}, "too large", false},
		"no end":           {[]llmtest.Reply{{Text: "half", Finish: "length", Input: 9, Output: 9}}, "without its end", false},
		"refusal":          {[]llmtest.Reply{{Refuse: "no " + password}}, "a refusal", false},
		"no JSON":          {[]llmtest.Reply{{Raw: "the key is " + apiKey}}, "cannot be read", false},
		"wrong key":        {[]llmtest.Reply{{Status: 401, Raw: `{"error": {"message": "key ` + apiKey + `"}}`}}, "status 401", false},
		"unavailable":      {repeat(retries+1, func(int) llmtest.Reply { return llmtest.Reply{Status: 503} }), "status 503", false},
		"broken":           {repeat(retries+1, func(int) llmtest.Reply { return llmtest.Reply{Break: true} }), "failed: the connection failed", false},
		"impossible usage": {[]llmtest.Reply{{Text: "I cannot.", Input: -5, Output: 1 << 62}}, "proposes no change", false},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, f *fixture) {
				f.model.Script(c.script...)
				f.model.Always(done)
				a := f.propose()
				require.False(t, a.Fixed)
				require.Contains(t, a.Reason, c.reason)
				require.Empty(t, f.patch(), "what was not verified is undone")
				require.NotContains(t, a.Reason, "127.0.0.1")
				for _, e := range f.events {
					if c.refused && e.Type == "tool_result" {
						require.NotContains(t, e.Preview, "<<<", "it was refused")
					}
				}
				require.LessOrEqual(t, len(f.model.Requests()), maxTurns)
				require.Positive(t, f.usage.Turns)
				require.GreaterOrEqual(t, f.usage.Total, 0)
				require.Equal(t, name == "wrong key" || name == "unavailable" || name == "broken", a.Final)
			})
		})
	}
}

// in returns replies with the calls, as many as a reply may have in each.
func in(calls []llmtest.Call) (all []llmtest.Reply) {
	for len(calls) > 0 {
		n := min(len(calls), maxCalls)
		all = append(all, says(calls[:n]...))
		calls = calls[n:]
	}
	return all
}

func repeat(n int, reply func(int) llmtest.Reply) (all []llmtest.Reply) {
	for i := range n {
		all = append(all, reply(i))
	}
	return all
}

func many(n int, c llmtest.Call) (all []llmtest.Call) {
	for range n {
		all = append(all, c)
	}
	return all
}

// TestRetry: a call with a transient error is retried.
func TestRetry(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		var waited []time.Duration
		f.wait = func(_ context.Context, d time.Duration) error {
			waited = append(waited, d)
			return nil
		}
		f.model.Script(llmtest.Reply{Status: 429, RetryAfter: time.Hour}, llmtest.Reply{Status: 500}, says(mends, verifies))
		require.True(t, f.propose().Fixed)
		require.Equal(t, []time.Duration{maxWait, 2 * time.Second}, waited)
		require.Equal(t, 2, f.usage.Total, "a failed call costs nothing")
	})
}

// TestBudget: no call is made that could exceed a budget.
func TestBudget(t *testing.T) {
	reads := says(call("read", "file", "shop.go", "first_line", 1, "last_line", 9))
	reads.Input, reads.Output = 20_000, 1000
	for name, c := range map[string]struct {
		run, day assay.ModelUsage
		reason   string
		calls    int
	}{
		"tokens of the run": {run: assay.ModelUsage{Tokens: 60_000}, reason: "budget of the run", calls: 3},
		"cost of the run":   {run: assay.ModelUsage{Cost: 300_000}, reason: "budget of the run", calls: 3},
		"tokens of the day": {day: assay.ModelUsage{Tokens: 40_000}, reason: "budget of the day", calls: 2},
		"cost of the day":   {day: assay.ModelUsage{Cost: 200_000}, reason: "budget of the day", calls: 1},
		"nothing":           {run: assay.ModelUsage{Tokens: 1}, reason: "budget of the run", calls: 0},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, f *fixture) {
				f.model.Always(reads)
				f.Run, f.Day = c.run, c.day
				a := f.propose()
				require.Contains(t, a.Reason, c.reason)
				require.True(t, a.Final)
				require.Len(t, f.model.Requests(), c.calls)
				require.EqualValues(t, 21_000*c.calls, f.spent.Tokens)
				require.Equal(t, 21_000*c.calls, f.usage.Total)
			})
		})
	}
	f := newFixture(t, llm.OpenAI)
	f.broke = errStore
	_, err := f.Propose(t.Context(), f.Task)
	require.ErrorIs(t, err, errStore)
	require.Empty(t, f.model.Requests(), "what cannot be counted is not spent")
}

// TestEstimate: the estimate is a token for three ASCII bytes or one other byte, all of them written to a cache.
func TestEstimate(t *testing.T) {
	for text, want := range map[string]int{"": 0, strings.Repeat("abc", 100): 100, strings.Repeat("\U00013000", 100): 400, "aü": 2} {
		for _, r := range []*llm.Request{
			{System: text},
			{Messages: []llm.Message{{Text: text}}},
			{Messages: []llm.Message{{Calls: []llm.Call{{Arguments: text}}}}},
			{Messages: []llm.Message{{Results: []llm.Result{{Text: text}}}}},
			{Tools: []llm.Tool{{Description: text}}},
		} {
			r.MaxTokens = 7
			require.Equal(t, llm.Usage{Input: want, CacheWrite: want, Output: 7}, estimate(r), text)
		}
	}
}

// TestCost: tokens that are written to a cache cost more than other input, and tokens that are read from a cache the
// same.
func TestCost(t *testing.T) {
	for _, c := range []struct {
		used llm.Usage
		want int64
	}{
		{llm.Usage{Input: 1000, Output: 100}, 4500},
		{llm.Usage{Input: 1000, CacheRead: 1000, Output: 100}, 4500},
		{llm.Usage{Input: 1000, CacheWrite: 800, Output: 100}, 5100},
		{llm.Usage{Input: 1000, CacheWrite: 1 << 30, Output: 100}, 5250},
	} {
		p := Price{Input: 3, Output: 15}
		require.Equal(t, assay.ModelUsage{Tokens: 1100, Cost: c.want}, p.amount(c.used))
		var u Usage
		u.add(c.used, p)
		u.add(c.used, p)
		require.InDelta(t, float64(2*c.want)/1e6, u.Cost, 1e-9)
	}
}

// TestHanging: if the provider does not answer, the task ends at the timeout of the call.
func TestHanging(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		f.model.Always(llmtest.Hang)
		f.Timeout = 50 * time.Millisecond
		a := f.propose()
		require.Contains(t, a.Reason, "did not answer within 50ms")
		require.True(t, a.Final)
		require.Positive(t, f.spent.Tokens, "the provider may charge for it")
	})
}

// TestCancelRace: canceling the context ends a task that waits for the provider.
func TestCancelRace(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		f.model.Always(llmtest.Hang)
		f.Timeout = time.Hour
		ctx, cancel := context.WithCancelCause(t.Context())
		stop := errors.New("a caller cancelled the run")
		ended := make(chan error, 1)
		go func() {
			_, err := f.Propose(ctx, f.Task)
			ended <- err
		}()
		require.Eventually(t, func() bool { return len(f.model.Requests()) == 1 }, time.Minute, time.Millisecond)
		cancel(stop)
		require.ErrorIs(t, <-ended, stop)
		require.Empty(t, f.patch())
	})
}

// TestEnded: reading a file ends with the error of the context after it is canceled.
func TestEnded(t *testing.T) {
	tree := newTree(t, map[string]string{"a.py": "password = \"hunter2-Xq81zz\"\n", "main.py": "x = 1\n"}, "main.py")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := NewTree(ctx, tree.root, tree.files, nil, nil)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, tree.begin(ctx, "a.py"), context.Canceled)
	_, err = tree.show(ctx, "a.py", 1, 1)
	require.ErrorIs(t, err, context.Canceled)
	_, err = tree.clean(ctx, "a.py:1: wrong")
	require.ErrorIs(t, err, context.Canceled)
	require.True(t, tree.Hides(ctx, "a.py", 1))
	require.Empty(t, tree.secrets)
}

// TestRevealed: hidden lines stay hidden, whatever the model changes around them.
func TestRevealed(t *testing.T) {
	const secret = "Zx9kqP0aa11bb22"
	for name, c := range map[string]struct {
		file, text  string
		first, last int
		edit        string
	}{
		"name":     {"app.py", "import x\npassword = (\n    \"" + secret + "\"\n)\nlog(x)\n", 2, 2, "y = ("},
		"before":   {"app.py", "import x\npassword = \\\n    \"" + secret + "\"\nlog(x)\n", 3, 2, "1\ny = \\"},
		"key":      {"app.py", "key = '''-----BEGIN PRIVATE KEY-----\n" + secret + "\n-----END PRIVATE KEY-----'''\nlog(x)\n", 2, 1, "-----END "},
		"block":    {"compose.yaml", "services:\n  a:\n    image: b\n    environment:\n      DB_PASSWORD: |\n        " + secret + "\n", 6, 5, "      A: |"},
		"argument": {"main.go", "package main\n\nfunc main() {\n\tos.Setenv(\"DB_PASSWORD\",\n\t\t\"" + secret + "\")\n}\n", 5, 4, "\t\t\"a\","},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(dir, c.file), []byte(c.text), 0o600))
			root, err := os.OpenRoot(dir)
			require.NoError(t, err)
			defer root.Close()
			tree := mustTree(t, root, []string{c.file}, []string{c.file}, nil)
			tree.file = c.file
			before, err := tree.show(t.Context(), c.file, 1, 20)
			require.NoError(t, err)
			require.NotContains(t, before, secret)
			if tree.edit(t.Context(), c.file, c.first, c.last, c.edit) != nil {
				return
			}
			after, err := tree.show(t.Context(), c.file, 1, 20)
			require.NoError(t, err)
			require.NotContains(t, after, secret)
			require.NotContains(t, cleaned(t, tree, "  File \"app.py\"\n    "+secret+"\n"), secret, "in the output of tests")
			files, err := tree.Files()
			require.NoError(t, err)
			resumed := mustTree(t, root, []string{c.file}, nil, files)
			again, err := resumed.show(t.Context(), c.file, 1, 20)
			require.NoError(t, err)
			require.NotContains(t, again, secret, "after the run has moved to another server")
			found, err := tree.search(t.Context(), secret[:8], "")
			require.NoError(t, err)
			require.NotContains(t, found, secret)
			require.ErrorContains(t, tree.edit(t.Context(), c.file, 1, len(splitLines(tree.changed[c.file])), "x"), "not shown completely")
		})
	}
}

// TestViewedIsLimited: tools fail after reading too much for one task. The limit does not depend on hidden data.
func TestViewedIsLimited(t *testing.T) {
	text := strings.Repeat("x := foo(bar)\n", 8_000) + "password = \"Zx9kqP0aa11bb22\"\n"
	files := map[string]string{}
	for i := range 5 {
		files[fmt.Sprintf("f%03d.go", i)] = text
	}
	for _, query := range []string{"Zx9kqP0aa11bb22", "no such text"} {
		tree := newTree(t, files, "f000.go")
		tree.viewed = maxViewed - 3*cost([]byte(text))
		found, err := tree.search(t.Context(), query, "")
		require.NoError(t, err)
		require.Equal(t, "("+errViewed.Error()+")\n", found)
		require.Equal(t, maxViewed+cost([]byte(text)), tree.viewed)
		_, err = tree.show(t.Context(), "f000.go", 1, 1)
		require.ErrorIs(t, err, errViewed)
		require.ErrorIs(t, tree.edit(t.Context(), "f000.go", 1, 1, "x"), errViewed)
		tree.keep()
		_, err = tree.show(t.Context(), "f000.go", 1, 1)
		require.NoError(t, err, "for the next task")
		_, err = tree.search(t.Context(), "a\nb", "")
		require.Error(t, err)
	}
	for name, c := range map[string]struct {
		text string
		want int // units
	}{
		"text": {strings.Repeat("a\n", unit), 3}, "no text": {strings.Repeat("a\n", unit) + "\x00", 3}, "invalid": {"\xff\n", 1}, "tiny": {"a", 1}, "empty": {"", 1},
		"too large": {strings.Repeat("a", patch.MaxFile+1), 1}, "hidden": {"password = \"" + strings.Repeat("x7", 99) + "\"\n", 1}, "shorter": {"password = \"x7x7x7x7\"\n", 1},
	} {
		t.Run(name, func(t *testing.T) {
			tree := newTree(t, map[string]string{"a.go": c.text, "b.go": ""}, "b.go")
			_, err := tree.search(t.Context(), "no such text", "a.go")
			require.NoError(t, err)
			_, _ = tree.show(t.Context(), "a.go", 1, 1)
			_ = tree.edit(t.Context(), "a.go", 1, 1, "x")
			require.Equal(t, 3*c.want*unit, tree.viewed)
		})
	}
}

// TestSearchIsBlind: the result and the recorded values of a search do not depend on hidden text.
func TestSearchIsBlind(t *testing.T) {
	for _, query := range []string{"hunter2-Xq81zz", "hunter2-Xq81zy"} {
		tree := newTree(t, map[string]string{"a.go": "package a\n", "b.go": "package a\n\nfunc f() {\n\tos.Setenv(\"DB_PASSWORD\", \"hunter2-Xq81zz\")\n}\n"}, "a.go")
		found, err := tree.search(t.Context(), query, "")
		require.NoError(t, err)
		require.Equal(t, "no line", found)
		require.Contains(t, tree.views, "b.go")
		require.Equal(t, 2*unit, tree.viewed)
		require.Empty(t, tree.secrets)
		require.Equal(t, "undefined: DB_PASSWORD", cleaned(t, tree, "undefined: DB_PASSWORD"))
		found, err = tree.search(t.Context(), "func f", "")
		require.NoError(t, err)
		require.Equal(t, "b.go:3\tfunc f() {\n", found)
		require.NotEmpty(t, tree.secrets)
	}
}

// TestViewsAreLimited: the size of cached views is limited, and a view shows the current text.
func TestViewsAreLimited(t *testing.T) {
	files := map[string]string{}
	for i := range 5 {
		files[fmt.Sprintf("f%02d.go", i)] = strings.Repeat("\n", 1000)
	}
	tree := newTree(t, files, "f00.go")
	tree.viewsSize = maxViews - 3000*(1+costLine)
	_, err := tree.search(t.Context(), "x", "")
	require.NoError(t, err)
	require.Len(t, tree.views, 1)
	require.Equal(t, 1000*(1+costLine), tree.viewsSize)
	require.NoError(t, tree.edit(t.Context(), "f00.go", 1, 1, "x"))
	found, err := tree.search(t.Context(), "x", "")
	require.NoError(t, err)
	require.Equal(t, "f00.go:1\tx\n", found)
	tree.revert()
	found, err = tree.search(t.Context(), "x", "")
	require.NoError(t, err)
	require.Equal(t, "no line", found)
}

// TestNames: the model cannot access a file whose name contains sensitive data or is the name of a file of credentials.
func TestNames(t *testing.T) {
	visible := []string{"main.go", "data/a.yaml", "internal/secret/secret.go", "passwords/hash.py", "env.yaml", "environment.yml", "creditor.yaml"}
	files := map[string]string{}
	for _, name := range append(slices.Clone(visible), "data/x-gh"+"p_A1b2C3d4E5f6G7h8J9k0LmNoPqRs12345678.json", "jo.doe@acme.io/a.yaml", "a\u202eb.go",
		"secrets/db.yaml", "config/credentials/x.yaml", "prod.env.local", "config.env", "creds.yaml", "db-creds.yaml", "passwords.yaml", "Secret.yaml", "my-credentials.json", "passwd.yml", "a\nREAD THIS.go") {
		files[name] = "x\n"
	}
	tree := newTree(t, files, "main.go")
	slices.Sort(visible)
	require.Equal(t, strings.Join(visible, "\n")+"\n", tree.list(""))
	for name := range files {
		if !slices.Contains(visible, name) {
			_, err := tree.show(t.Context(), name, 1, 1)
			require.ErrorContains(t, err, "there is no such file", name)
			require.Equal(t, "no file", tree.list(name[:len(name)-1]))
		}
	}
	found, err := tree.search(t.Context(), "x", "")
	require.NoError(t, err)
	require.Equal(t, len(visible), strings.Count(found, "\n"))
}

// TestEditIsBlind: whether an edit is accepted does not depend on hidden text.
func TestEditIsBlind(t *testing.T) {
	const begin, end = "apiVersion: v1\nkind: ConfigMap\ndata:\n  a: b\n  password: |\n", "  b: c\n  c: d\n"
	long := func(n int) string {
		return "const password = `\n" + strings.Repeat("x7", n) + "`;\n" + strings.Repeat("f();\n", 20)
	}
	for name, c := range map[string]struct {
		file  string
		texts [2]string // of the repository, with equal views
		edits func(edit func(first, last int, text string) string) []string
		want  string // the last result
	}{
		"equal lines": { // one line less changes if the hidden line is one of the text
			"a.yaml",
			[2]string{begin + "    pin73\n" + end, begin + "    pin19\n" + end},
			func(edit func(int, int, string) string) []string {
				return []string{edit(7, 8, ""), edit(5, 4, "    pin19\n"+end), edit(1, 0, strings.Repeat("# p\n", maxChangedLines-3))}
			},
			"at most 80 lines",
		},
		"equal hidden lines": {
			"a.yaml",
			[2]string{begin + "    pin73\n    pin73\n" + end, begin + "    pin73\n    pin19\n" + end},
			func(edit func(int, int, string) string) []string {
				return []string{edit(5, 4, strings.Repeat("# p\n", maxChangedLines)), edit(5, 5, "")}
			},
			"",
		},
		"size": {
			"a.py",
			[2]string{"password = (\n  \"" + strings.Repeat("x7", 9) + "\"\n)\n" + strings.Repeat("#\n", 1000), "password = (\n  \"" + strings.Repeat("x7", 99) + "\"\n)\n" + strings.Repeat("#\n", 1000)},
			func(edit func(int, int, string) string) (results []string) {
				for n := maxText; n > 1; {
					r := edit(1, 0, strings.Repeat("#", n-1)+"\n")
					if results = append(results, r); r != "" {
						n /= 2
					}
				}
				return results
			},
			"at most 32768 bytes",
		},
		"average line": {
			"a.js",
			[2]string{long(300), long(3000)},
			func(edit func(int, int, string) string) (results []string) {
				for range 3 {
					results = append(results, edit(1, 0, strings.Repeat("#", maxText-1)+"\n"))
				}
				return results
			},
			"reviews would skip",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var results [2][]string
			var shown [2]string
			for i, text := range c.texts {
				tree := newTree(t, map[string]string{c.file: text}, c.file)
				shown[i], _ = tree.show(t.Context(), c.file, 1, 10)
				results[i] = c.edits(func(first, last int, text string) string {
					if err := tree.edit(t.Context(), c.file, first, last, text); err != nil {
						return err.Error()
					}
					return ""
				})
			}
			require.Equal(t, shown[0], shown[1])
			require.Equal(t, results[0], results[1])
			last := results[0][len(results[0])-1]
			require.Contains(t, last, c.want)
			require.Equal(t, c.want == "", last == "", last)
		})
	}
	tree := newTree(t, map[string]string{"a.yaml": begin + "    pin73\n" + end}, "a.yaml")
	require.NoError(t, tree.edit(t.Context(), "a.yaml", 1, 0, strings.Repeat("# p\n", maxChangedLines)), "hidden lines are no change")
	tree.revert()
	require.Empty(t, tree.changed)
	require.NoError(t, tree.begin(t.Context(), "a.yaml"))
	require.NoError(t, tree.edit(t.Context(), "a.yaml", 4, 4, "  a: x"))
	require.NoError(t, tree.edit(t.Context(), "a.yaml", 4, 4, "  a: b"))
	require.False(t, tree.differs(), "an edit that is undone is no change")
	large := newTree(t, map[string]string{"a.py": strings.Repeat("#\n", patch.MaxFile/2)}, "a.py")
	require.Contains(t, large.Locked("a.py"), "too large")
}

// TestRevertKeepsHidden: undoing a change restores the hidden lines.
func TestRevertKeepsHidden(t *testing.T) {
	tree := newTree(t, map[string]string{"a.py": "password = (\n    \"Zx9kqP0aa11bb22\"\n)\nf(\n)\n"}, "a.py")
	require.NoError(t, tree.edit(t.Context(), "a.py", 5, 4, "    \"a_guess\""))
	before, err := tree.show(t.Context(), "a.py", 1, 9)
	require.NoError(t, err)
	tree.keep()
	require.NoError(t, tree.begin(t.Context(), "a.py"))
	require.NoError(t, tree.edit(t.Context(), "a.py", 1, 1, "x = ("))
	tree.revert()
	after, err := tree.show(t.Context(), "a.py", 1, 9)
	require.NoError(t, err)
	require.Equal(t, before, after)
}

// TestClean: the values in hidden lines are removed from the output of tests and compilers.
func TestClean(t *testing.T) {
	const secret = "hunter2-Xq81zz"
	junk := strings.Builder{}
	for i := range 12_000 {
		fmt.Fprintf(&junk, "password = \"junk%05dX\"\n", i)
	}
	for name, c := range map[string]struct {
		file, text   string // of a file other than the file of the task
		own          bool   // it is the file of the task
		read         bool
		output, want string
	}{
		"own":               {"a.py", "password = (\n    \"" + secret + "\"\n)\n", true, false, "got " + secret, "got [redacted]"},
		"own after junk":    {"a.py", junk.String() + "password = (\n    \"" + secret + "\"\n)\n", true, false, "got " + secret, "got [redacted]"},
		"read":              {"a.py", "password = (\n    \"" + secret + "\"\n)\n", false, true, "got " + secret, "got [redacted]"},
		"not read":          {"a.py", "password = (\n    \"a-b-c-d-e\"\n)\n", false, false, "got a-b-c-d-e", "got a-b-c-d-e"},
		"named":             {"src/a.py", "password = (\n    \"" + secret + "\"\n)\n", false, false, "File \"/w/src/a.py\", line 2\n    " + secret, "File \"/w/src/a.py\", line 2\n    [redacted]"},
		"named from below":  {"src/a.py", "password = (\n    \"" + secret + "\"\n)\n", false, false, "a.py:2: " + secret, "a.py:2: [redacted]"},
		"named from beside": {"src/a.py", "password = (\n    \"" + secret + "\"\n)\n", false, false, "../src/a.py:2: " + secret, "../src/a.py:2: [redacted]"},
		"the line":          {"a.py", "password = (\n    'ab1c'   \n)\n", true, false, "> 2 |     'ab1c'", "> 2 |     [redacted]"},
		"common word":       {"a.py", "x = {\"password\": \"letmein\"}\n", true, false, "E  x = {\"password\": \"letmein\"}", "E  [redacted]"},
		"escaped":           {"a.py", "password = (\n    \"hunter2\\\"Xq8\\x31zz\"\n)\n", true, false, "got hunter2\"Xq81zz, hunter2\\\"Xq8\\x31zz", "got [redacted], [redacted]"},
		"escaped quote":     {"a.py", "password = (\n    'hunter2\\'Xq81zz'\n)\n", true, false, "got hunter2'Xq81zz", "got [redacted]"},
		"several lines":     {"a.py", "password = (\n    \"hunter2\\nXq81zz-x\"\n)\n", true, false, "got hunter2-\n  Xq81zz-x", "got [redacted]-\n  [redacted]"},
		"no literal":        {"Dockerfile", "FROM x\nENV DB_PASS=hunter3-Xq81zz\n", true, false, "ENV was hunter3-Xq81zz", "ENV was [redacted]"},
		"last field":        {"run.sh", "mysql --user root --password correcthorse\n", true, false, "got correcthorse", "got [redacted]"},
		"between fields":    {"a.xml", "<a><password>x81zz</password><b>c</b></a>\n", true, false, "got x81zz", "got [redacted]"},
		"after a colon":     {"a.yaml", "db_password: correcthorse # the old one\n", true, false, "got correcthorse", "got [redacted]"},
		"apostrophe":        {"a.yaml", "db_password:\tcorrecthorse\t# don't change\n", true, false, "got correcthorse", "got [redacted]"},
		"quotes and no end": {"a.go", "// password = hunter2-Xq81zz " + strings.Repeat("\\\"'a'", 20_000) + "\n", true, false, "got \\\"'a'", "got \\\"'a'"},
		"long line":         {"a.py", "password = (\n    \"" + secret + "\", \"" + strings.Repeat("y8", 300) + "\"\n)\n", true, false, "got " + secret + strings.Repeat("y8", 300), "got [redacted][redacted]"},
	} {
		t.Run(name, func(t *testing.T) {
			files, own := map[string]string{c.file: c.text, "main.py": "x = 1\n"}, "main.py"
			if c.own {
				own = c.file
			}
			tree := newTree(t, files, own)
			if c.read {
				_, err := tree.show(t.Context(), c.file, 1, 1)
				require.NoError(t, err)
			}
			require.Equal(t, c.want, cleaned(t, tree, c.output))
		})
	}
	tree := newTree(t, map[string]string{"c.py": "password = (\n    \"" + secret + "\"\n)\n", "main.py": ""}, "main.py")
	for i := range 20 {
		tree.secrets[strings.Repeat("x", maxSecret-i)] = true
		tree.secretsSize += maxSecret
	}
	require.Equal(t, "c.py [redacted]", cleaned(t, tree, "c.py "+secret))
	tree.secretsSize = maxSecrets + 1
	require.Equal(t, "[redacted]", cleaned(t, tree, "c.py "+secret), "with too many of them, nothing is shown")
	tree.keep()
	require.Equal(t, "c.py [redacted]", cleaned(t, tree, "c.py "+secret), "in the next task")
}

// TestFindings: a finding that the model cannot or must not fix causes no call.
func TestFindings(t *testing.T) {
	for name, c := range map[string]struct {
		check, file string
		line        int
		reason      string
	}{
		"secret":    {"secret-in-config", "deploy.yaml", 6, "sensitive data"},
		"test":      {"sensitive-log", "shop_test.go", 5, "test"},
		"manifest":  {"sdk-unsupported-runtime", "go.mod", 1, "built or tested"},
		"migration": {"vendor-instrumentation", "shop.go", 1, "migration run"},
		"hidden":    {"secret-in-config", ".env", 1, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, llm.OpenAI)
			f.Finding.Check, f.Finding.Locations[0].File, f.Finding.Locations[0].Line = c.check, c.file, c.line
			require.Contains(t, f.propose().Reason, c.reason)
			require.Empty(t, f.model.Requests())
		})
	}
}

// TestBoundaries: a boundary is shown at its current line, and a boundary that cannot be instrumented causes no call.
func TestBoundaries(t *testing.T) {
	created := patch.Create("telemetry.go", []byte("package shop\n\nfunc start() {}\n"))
	for name, c := range map[string]struct {
		before, after string // of shop.go, by the mechanical change
		file          string
		line          int
		want          string // in the reason, or in the first message
	}{
		"unchanged":   {file: "shop.go", line: 4, want: `"line": 4`},
		"lines above": {before: "func handle", after: "// a\n// b\nfunc handle", file: "shop.go", line: 4, want: `"line": 6`},
		"lines below": {before: "func log", after: "// a\nfunc log", file: "shop.go", line: 4, want: `"line": 4`},
		"fewer lines": {before: "package shop\n\n", after: "package shop\n", file: "shop.go", line: 4, want: `"line": 3`},
		"the line":    {before: "\"ordered\"", after: "\"order\"", file: "shop.go", line: 4, want: "has changed the line"},
		"created":     {file: "telemetry.go", line: 3, want: `"line": 3`},
		"test":        {file: "shop_test.go", line: 5, want: "built or tested"},
		"secret":      {file: "config.go", line: 5, want: "sensitive data"},
		"missing":     {file: "none.go", line: 1, want: "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, llm.OpenAI)
			after := []byte(strings.Replace(shop, c.before, c.after, 1))
			f.Tree = mustTree(t, f.Tree.root, f.Tree.files, nil, []patch.File{{Path: "shop.go", After: after}, created})
			f.Finding, f.Step = nil, boundary()
			f.Step.File, f.Step.Line = c.file, c.line
			f.model.Script(says(call("read", "file", "telemetry.go", "first_line", 1, "last_line", 9), edit("telemetry.go", 1, 0, "// x\n")))
			f.model.Always(llmtest.Reply{Text: "I cannot."})
			a := f.propose()
			if asked := f.model.Requests(); len(asked) > 0 {
				require.Contains(t, asked[0].User, c.want)
				require.Contains(t, asked[1].Results[0], "3\tfunc start() {}")
			} else {
				require.Contains(t, a.Reason, c.want)
			}
			files, err := f.Tree.Files()
			require.NoError(t, err)
			require.Equal(t, created, files[len(files)-1])
			if c.before != "" {
				require.Equal(t, string(after), string(files[0].After))
			}
			f.untouched()
		})
	}
}

// TestLost: a change at a boundary must keep the lines of the mechanical instrumentation, but may move them.
func TestLost(t *testing.T) {
	f := newFixture(t, llm.OpenAI)
	after := strings.Replace(shop, "\tlog(", "\tdefer traced()()\n\tlog(", 1)
	f.Tree = mustTree(t, f.Tree.root, f.Tree.files, nil, []patch.File{{Path: "shop.go", After: []byte(after)}})
	f.Finding, f.Step = nil, boundary()
	f.model.Script(
		says(edit("shop.go", 4, 5, "\tlog(\"ordered\")"), verifies),
		says(edit("shop.go", 4, 4, "\tif true {\n\t\tdefer traced()()\n\t\tlog(\"ordered\")\n\t}"), verifies),
	)
	a := f.propose()
	require.True(t, a.Fixed, a.Reason)
	require.Equal(t, 2, a.Verifications)
	require.Contains(t, f.model.Requests()[1].Results[1], "has to stay:\ndefer traced()()")
	require.Len(t, f.checked, 1, "what removes the line is not tested")
}

// TestSequence: the change for a finding is kept if the next task fails.
func TestSequence(t *testing.T) {
	f := newFixture(t, llm.Anthropic)
	f.model.Script(says(mends, verifies), says(edit("shop.go", 4, 4, "x"), edit("config.go", 1, 0, "// x")), llmtest.Reply{Text: "I give up."})
	require.True(t, f.propose().Fixed)
	f.problem = func(string) (string, error) { return "no", nil }
	require.False(t, f.propose().Fixed)
	files := f.patch()
	require.Len(t, files, 1)
	require.Equal(t, strings.Replace(shop, ", \"email\", email", "", 1), string(files[0].After))
	f.untouched()
}

func TestEdit(t *testing.T) {
	for name, c := range map[string]struct {
		file        string
		first, last int
		text, want  string
	}{
		"replace":    {"main.go", 4, 4, "func another() {}", "package shop\n\n" + strings.Split(files["main.go"], "\n")[2] + "\nfunc another() {}\n"},
		"insert":     {"app.go", 2, 1, "b\n", "a\nb\n"},
		"remove":     {"dos.go", 2, 3, "", "package shop\r\n"},
		"CRLF":       {"dos.go", 3, 3, "func a() {}\nfunc b() {}\n", "package shop\r\n\r\nfunc a() {}\r\nfunc b() {}\r\n"},
		"no newline": {"end.go", 2, 1, "b", "a\nb\n"},
		"empty":      {"empty.go", 1, 0, "a", "a\n"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, llm.OpenAI)
			f.Tree.files = append(f.Tree.files, "app.go", "empty.go", "end.go")
			f.Tree.changed["app.go"], f.Tree.changed["end.go"], f.Tree.changed["empty.go"] = []byte("a\n"), []byte("a"), []byte{}
			slices.Sort(f.Tree.files)
			f.Tree.file = c.file
			require.NoError(t, f.Tree.edit(t.Context(), c.file, c.first, c.last, c.text))
			require.Equal(t, c.want, string(f.Tree.changed[c.file]))
		})
	}
}

// TestLocked: the model can change only the file of the finding, unless that file builds or tests code.
func TestLocked(t *testing.T) {
	own := []string{
		"src/App.java", "web/app.ts", "web/app.js", "jobs/tasks.py", "cmd/main.go", "internal/latest/protest.go", "src/builder.py", "src/setup.ts", "src/global.ts", "maker.py", "make.go", "make-order.ts",
		"k8s/deploy.yaml", "compose.yaml", "chart/values.yaml", "src/main/resources/application.yaml", "collector.yaml",
	}
	build := []string{
		"tekton/run.yaml", "ci/pipeline.yaml", "cloudbuild.yaml", "azure-pipelines.yml",
		"ci/run.py", "scripts/build.py", "build.js", "Gruntfile.js", "gulpfile.mjs", "magefile.go", "webpack.common.js", "rollup.mjs", "karma.conf.js", "wdio.conf.ts", "jest.setup.js", "vite.config.ts",
		"src/setupTests.js", "spec/a.js", "cypress/support/e2e.js", "testing/helpers.go", "sitecustomize.py", "setup.py", "noxfile.py", "run_tests.py",
		"esbuild.mjs", "web/esbuild.ts", "rspack.js", "magefiles/release.go", "setup-jest.ts", "setupJest.js", "globalSetup.ts", "global-setup.ts", "global-teardown.js", "buildSrc/src/A.java", "pavement.py",
		"wscript.py", "make.js", "Makefile.js", "postinstall.js", "preinstall.cjs", "internal/testutil/db.go", "testhelpers/db.py", "__mocks__/fs.js",
	}
	// Files that the review recognizes as build files, and not by their names.
	other := []string{"drone.yml", "action.yml", "skaffold.yaml", "Dockerfile", "app.Dockerfile", "Pipfile", "app.csproj", "gradle/libs.versions.toml", "requirements-otel.txt", "pom.xml", "go.mod", "package.json", "build.gradle"}
	files := map[string]string{}
	for _, name := range slices.Concat(own, build, other) {
		files[name] = "x\n"
	}
	tree := newTree(t, files, "")
	tree.configurations = slices.Concat(own, build)
	for _, name := range own {
		require.Equal(t, "only the file that the task names can be changed", tree.Locked(name), name)
		tree.file = name
		require.Empty(t, tree.Locked(name), name)
		tree.file = ""
	}
	for _, name := range slices.Concat(build, other) {
		require.NotEmpty(t, tree.Locked(name), name)
		tree.file = name
		require.NotEmpty(t, tree.Locked(name), name)
		tree.file = ""
	}
}

// TestPrompt: the limits in the prompt are the limits of the code.
func TestPrompt(t *testing.T) {
	for _, text := range []string{promptText, fixText, instrumentText} {
		require.NotContains(t, strings.NewReplacer("{{task}}", "", "{{mark}}", "").Replace(text), "{{")
	}
	for _, want := range []string{strconv.Itoa(maxChangedLines) + " removed and added lines", "at most three times"} {
		require.Contains(t, promptText, want)
	}
	require.Equal(t, 3, maxRepairs)
	require.Contains(t, tools[1].Description, strconv.Itoa(maxReadLines))
	require.Contains(t, tools[2].Description, strconv.Itoa(maxMatches))
}
