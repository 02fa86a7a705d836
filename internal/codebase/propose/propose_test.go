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

// each runs a test with a finding and each provider, and with a boundary.
func each(t *testing.T, test func(t *testing.T, f *fixture)) {
	for _, kind := range []string{llm.OpenAI, llm.Anthropic, "boundary"} {
		t.Run(kind, func(t *testing.T) {
			var f *fixture
			if kind == "boundary" {
				f = newFixture(t, llm.OpenAI)
				f.Finding, f.Step = nil, boundary
			} else {
				f = newFixture(t, kind)
			}
			test(t, f)
			f.untouched()
		})
	}
}

// boundary is a step at the line of the finding.
var boundary = patch.Step{
	File: "shop.go", Line: 4, Text: "Instrument the consumer of `" + mail + "`", Open: true, Boundary: patch.Boundary{SpanKind: "consumer", Library: "example.com/queue"},
}

// TestFix: a model looks around, makes a mistake, repairs it and is done.
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

// TestMisbehaviour has models that do what they must not. No change stays.
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

// TestRetry: a provider that fails for a moment is asked again.
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

// TestHanging: a provider that does not answer ends the task at the timeout of the call.
func TestHanging(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		f.model.Always(llmtest.Reply{Hang: true})
		f.Timeout = 50 * time.Millisecond
		a := f.propose()
		require.Contains(t, a.Reason, "did not answer within 50ms")
		require.True(t, a.Final)
		require.Positive(t, f.spent.Tokens, "the provider may charge for it")
	})
}

// TestCancel: the end of its context ends a task that waits for the provider.
func TestCancel(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		f.model.Always(llmtest.Reply{Hang: true})
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

// TestRevealed: what is hidden stays hidden, whatever the model changes around it.
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
			tree := NewTree(root, []string{c.file}, nil)
			tree.file = c.file
			before, err := tree.show(c.file, 1, 20)
			require.NoError(t, err)
			require.NotContains(t, before, secret)
			if tree.edit(c.file, c.first, c.last, c.edit) != nil {
				return
			}
			after, err := tree.show(c.file, 1, 20)
			require.NoError(t, err)
			require.NotContains(t, after, secret)
			require.NotContains(t, tree.clean("  File \"app.py\"\n    "+secret+"\n"), secret, "in the output of tests")
			files, err := tree.Files()
			require.NoError(t, err)
			resumed := NewTree(root, []string{c.file}, files)
			again, err := resumed.show(c.file, 1, 20)
			require.NoError(t, err)
			require.NotContains(t, again, secret, "after the run has moved to another server")
			found, err := tree.search(t.Context(), secret[:8], "")
			require.NoError(t, err)
			require.NotContains(t, found, secret)
			require.ErrorContains(t, tree.edit(c.file, 1, len(splitLines(tree.changed[c.file])), "x"), "not shown completely")
		})
	}
}

// TestViewedIsLimited: searches end when they have read too much for one task, at the same place whether a file has what the
// model may not see or not.
func TestViewedIsLimited(t *testing.T) {
	dir := t.TempDir()
	text := []byte(strings.Repeat("x := foo(bar)\n", 8_000) + "password = \"Zx9kqP0aa11bb22\"\n")
	var names []string
	for i := range 5 {
		names = append(names, fmt.Sprintf("f%03d.go", i))
		require.NoError(t, os.WriteFile(filepath.Join(dir, names[i]), text, 0o600))
	}
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	for _, query := range []string{"Zx9kqP0aa11bb22", "no such text"} {
		tree := NewTree(root, names, nil)
		tree.viewed = maxViewed - 3*len(text)
		found, err := tree.search(t.Context(), query, "")
		require.NoError(t, err)
		require.Equal(t, "("+errViewed.Error()+")\n", found)
		require.Equal(t, maxViewed+len(text), tree.viewed)
		_, err = tree.show(names[0], 1, 1)
		require.ErrorIs(t, err, errViewed)
		tree.keep()
		_, err = tree.show(names[0], 1, 1)
		require.NoError(t, err, "for the next task")
		_, err = tree.search(t.Context(), "a\nb", "")
		require.Error(t, err)
	}
}

// TestFindings that a model cannot or must not fix cost nothing.
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

// TestBoundaries: a boundary is shown at its present line, and one that cannot be instrumented costs nothing.
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
			f.Tree = NewTree(f.Tree.root, f.Tree.files, []patch.File{{Path: "shop.go", After: after}, created})
			f.Finding, f.Step = nil, boundary
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

// TestLost: the change at a boundary keeps the lines of the mechanical instrumentation, wherever it moves them.
func TestLost(t *testing.T) {
	f := newFixture(t, llm.OpenAI)
	after := strings.Replace(shop, "\tlog(", "\tdefer traced()()\n\tlog(", 1)
	f.Tree = NewTree(f.Tree.root, f.Tree.files, []patch.File{{Path: "shop.go", After: []byte(after)}})
	f.Finding, f.Step = nil, boundary
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

// TestSequence: the change for a finding stays when that for the next one fails.
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
			require.NoError(t, f.Tree.edit(c.file, c.first, c.last, c.text))
			require.Equal(t, c.want, string(f.Tree.changed[c.file]))
		})
	}
}

// TestLocked: of the files that a model can read, only the finding's own can be changed, unless it builds or tests code.
func TestLocked(t *testing.T) {
	const kubernetes, other = "apiVersion: v1\nkind: ConfigMap\n", "steps:\n- run: x\n"
	own := map[string]string{
		"src/App.java": "", "web/app.ts": "", "web/app.js": "", "jobs/tasks.py": "", "cmd/main.go": "package main\n", "internal/latest/protest.go": "package latest\n", "src/builder.py": "",
		"k8s/deploy.yaml": kubernetes, "compose.yaml": "services:\n  shop:\n    image: x\n", "chart/values.yaml": "image: x\n", "src/main/resources/application.yaml": "a: b\n",
		"collector.yaml": "receivers:\n  otlp:\nexporters:\n  otlp:\nservice:\n  pipelines:\n    traces:\n      receivers: [otlp]\n      exporters: [otlp]\n",
	}
	build := map[string]string{
		"drone.yml": other, "codemagic.yaml": other, "wercker.yml": other, "buildkite.yml": other, "codefresh.yml": other, "semaphore.yml": other, "action.yml": other, "Taskfile.yml": other,
		"skaffold.yaml": "apiVersion: skaffold/v4\n", "tekton/run.yaml": kubernetes, "ci/pipeline.yaml": kubernetes, "cloudbuild.yaml": other, "gitlab-ci.yml": other,
		"Dockerfile": "FROM x\n", "app.Dockerfile": "FROM x\n", "Pipfile": "", "Gemfile": "", "app.csproj": "<Project/>", "gradle/libs.versions.toml": "", "requirements-otel.txt": "a==1\n", "pom.xml": "<project/>",
		"go.mod": "module m\n", "package.json": "{}", "build.gradle": "", "ci/run.py": "", "scripts/build.py": "", "build.js": "", "Gruntfile.js": "", "gulpfile.mjs": "", "magefile.go": "package main\n",
		"webpack.common.js": "", "rollup.mjs": "", "karma.conf.js": "", "wdio.conf.ts": "", "jest.setup.js": "", "vite.config.ts": "", "src/setupTests.js": "", "spec/a.js": "", "cypress/support/e2e.js": "",
		"testing/helpers.go": "package testing\n", "sitecustomize.py": "", "setup.py": "", "noxfile.py": "", "run_tests.py": "",
	}
	dir := t.TempDir()
	var names []string
	for _, files := range []map[string]string{own, build} {
		for name, text := range files {
			names = append(names, name)
			path := filepath.Join(dir, name)
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o750))
			require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		}
	}
	slices.Sort(names)
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	tree := NewTree(root, names, nil)
	for name := range own {
		require.Equal(t, "only the file that the task names can be changed", tree.Locked(name), name)
		tree.file = name
		require.Empty(t, tree.Locked(name), name)
		tree.file = ""
	}
	for name := range build {
		require.NotEmpty(t, tree.Locked(name), name)
		tree.file = name
		require.NotEmpty(t, tree.Locked(name), name)
		tree.file = ""
	}
}

// TestPrompt: the limits that the prompt names are those of the code.
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
