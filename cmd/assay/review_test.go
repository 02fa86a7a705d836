// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"encoding/xml"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/internal/report"
	"assay/internal/review"
	"assay/internal/safetext"
)

// reviewed returns a repository with one finding of severity high and one of severity critical.
func reviewed(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "cart"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "cart", "cart.go"), []byte(`package cart

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
)

func handle(ctx context.Context, id, email string) {
	_, span := otel.Tracer("cart").Start(ctx, "GET /cart/"+id)
	defer span.End()
	span.SetAttributes(attribute.String("user.email", email))
}
`), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "quiet.go"), []byte("package quiet\n"), 0o644))
	return dir
}

func TestReviewExitCodes(t *testing.T) {
	dir := reviewed(t)
	file := filepath.Join(dir, "cart", "cart.go")
	for _, c := range []struct {
		name   string
		args   []string
		code   int
		stderr string
	}{
		{name: "directory", args: []string{dir}},
		{name: "file", args: []string{file}},
		{name: "several", args: []string{file, filepath.Join(dir, "quiet.go")}},
		{name: "fail on higher", args: []string{"--only", "span-name-dynamic", "--fail-on", "critical", dir}},
		{name: "fail on same", args: []string{"--only", "span-name-dynamic", "--fail-on", "high", dir}, code: 1, stderr: "findings of severity high or worse: 1"},
		{name: "fail on lower", args: []string{"--disable", "sensitive-attribute", "--fail-on", "Suggestion", dir}, code: 1, stderr: "suggestion or worse: "},
		{name: "missing path", args: []string{filepath.Join(dir, "missing")}, code: 2, stderr: "missing"},
		{name: "one missing path", args: []string{file, filepath.Join(dir, "missing")}, code: 2, stderr: "missing"},
		{name: "unknown check", args: []string{"--only", "bogus", dir}, code: 2, stderr: `there is no check "bogus"`},
		{name: "unknown disabled check", args: []string{"--disable", "span-name-dynamic,bogus", dir}, code: 2, stderr: `"bogus"`},
		{name: "bad severity", args: []string{"--fail-on", "grave", dir}, code: 2, stderr: "--fail-on"},
		{name: "no reference", args: []string{"--since", "", dir}, code: 2, stderr: "--since: the Git reference is empty"},
		{name: "no repository", args: []string{"--since", "HEAD", dir}, code: 2, stderr: "git"},
		{name: "option as a reference", args: []string{"--since=--output=x", dir}, code: 2, stderr: "is not a Git reference"},
		{name: "no path", code: 2, stderr: "path"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := call{}.run(append([]string{"review"}, c.args...)...)
			require.Equal(t, c.code, r.code, r.stderr)
			require.Contains(t, r.stderr, c.stderr)
			if c.stderr == "" {
				require.Empty(t, r.stderr)
			}
			if c.code < 2 {
				require.Contains(t, r.stdout, "span-name-dynamic")
				require.NotContains(t, r.stdout, "\x1b", "colour without a terminal")
			} else {
				require.Empty(t, r.stdout)
			}
		})
	}
}

func TestReviewFormats(t *testing.T) {
	dir := reviewed(t)
	for format, check := range map[string]func(string){
		"text": func(s string) { require.Contains(t, s, "\ncritical ") },
		"json": func(s string) {
			var r review.Report
			require.NoError(t, json.Unmarshal([]byte(s), &r))
			var got []string
			for _, f := range r.Findings {
				got = append(got, f.Check)
				require.Equal(t, "cart/cart.go", f.Locations[0].File)
				require.Nil(t, f.Detail)
			}
			require.Equal(t, []string{"span-name-dynamic", "sensitive-attribute"}, got)
			require.Equal(t, []string{"traces"}, r.Instrumentation.Signals)
		},
		"markdown": func(s string) { require.Contains(t, s, "<b>cart/cart.go</b>") },
		"junit":    func(s string) { require.NoError(t, xml.Unmarshal([]byte(s), new(struct{}))) },
		"sarif":    func(s string) { require.Contains(t, s, `"startLine": 11`) },
	} {
		r := runBinary(t, "", "review", "--format", format, dir)
		require.Zero(t, r.code, r.stderr)
		check(r.stdout)

		out := filepath.Join(t.TempDir(), "report")
		toFile := runBinary(t, "", "review", "--format", format, "--output", out, dir)
		require.Zero(t, toFile.code, toFile.stderr)
		require.Empty(t, toFile.stdout)
		text, err := os.ReadFile(out)
		require.NoError(t, err)
		require.Equal(t, r.stdout, string(text), format)
	}
	r := call{}.run("review", "--output", "/does/not/exist/report", dir)
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.stderr, "write the report")
}

func TestReviewPaths(t *testing.T) {
	dir := reviewed(t)
	t.Chdir(dir)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"."}, "cart/cart.go"},
		{[]string{"cart"}, "cart.go"},
		{[]string{"cart/cart.go"}, "cart/cart.go"},
		{[]string{"cart", "quiet.go"}, "cart/cart.go"},
		{[]string{filepath.Join(dir, "cart"), "./quiet.go"}, "cart/cart.go"},
	} {
		r := call{}.run(append([]string{"review"}, c.args...)...)
		require.Zero(t, r.code, r.stderr)
		require.Equal(t, c.want, strings.SplitN(r.stdout, "\n", 2)[0], c.args)
	}
	t.Chdir(t.TempDir())
	r := call{}.run("review", filepath.Join(dir, "cart", "cart.go"), filepath.Join(dir, "quiet.go"))
	require.Zero(t, r.code, r.stderr)
	require.True(t, strings.HasPrefix(r.stdout, "cart/cart.go\n"), r.stdout)
}

// TestSARIFPaths checks that SARIF has paths below the Git work tree, which code scanning resolves, on every machine.
func TestSARIFPaths(t *testing.T) {
	dir := reviewed(t)
	in := filepath.Join(dir, "cart", "in.jsonl")
	require.NoError(t, os.WriteFile(in, []byte(recording(t)), 0o600))
	outside := file(t, "in.jsonl", recording(t))
	check := func(args []string, want string) {
		t.Helper()
		r := call{}.run(append(args, "--format", "sarif")...)
		require.Zero(t, r.code, r.stderr)
		var uris []string
		for _, m := range regexp.MustCompile(`"artifactLocation": \{\s+"uri": "([^"]+)",?(\s+"uriBaseId": "SRCROOT")?`).FindAllStringSubmatch(r.stdout, -1) {
			require.Equal(t, strings.HasPrefix(m[1], "file:///"), m[2] == "")
			uris = append(uris, m[1])
		}
		require.Equal(t, []string{want}, slices.Compact(uris), args)
		require.NotContains(t, r.stdout, dir)
	}
	t.Chdir(filepath.Join(dir, "cart"))
	check([]string{"review", "."}, "cart.go")
	check([]string{"review", dir}, "cart/cart.go")
	check([]string{"score", in}, "in.jsonl")
	check([]string{"score", outside}, "file://"+outside)
	require.NoError(t, os.Mkdir(filepath.Join(dir, ".git"), 0o755))
	check([]string{"review", "."}, "cart/cart.go")
	check([]string{"review", dir}, "cart/cart.go")
	check([]string{"review", "cart.go"}, "cart/cart.go")
	check([]string{"score", in}, "cart/in.jsonl")
	t.Chdir(t.TempDir())
	check([]string{"review", filepath.Join(dir, "cart")}, "cart/cart.go")
}

// TestReviewHidesNothing checks that a name in a repository cannot control the terminal or be displayed
// differently from its content.
func TestReviewHidesNothing(t *testing.T) {
	const hostile = "shop\u009b31m\u202eevil\u2066\x1b[31m\ufeff\U000e0041\u2028\x7f.go"
	dir := reviewed(t)
	require.NoError(t, os.Rename(filepath.Join(dir, "cart", "cart.go"), filepath.Join(dir, "cart", hostile)))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "-rf.go"), []byte("package \x1b[31m\u202e; import \"log\""), 0o644))
	for _, format := range report.Formats() {
		r := call{}.run("review", "--format", format, "--fail-on", "low", dir)
		require.Contains(t, r.stdout, "span-name-dynamic", r.stderr)
		for _, c := range r.stdout + r.stderr {
			require.False(t, safetext.Hidden(c) && c != '\n' && c != '\t', "%s: %U in %s", format, c, r.stdout)
		}
	}
}

// TestReviewWorker checks that a server's process has the details that the command does not print.
func TestReviewWorker(t *testing.T) {
	dir := reviewed(t)
	options, err := json.Marshal(review.Options{Root: dir, Disable: []string{"sensitive-attribute"}})
	require.NoError(t, err)
	r := runBinary(t, string(options), "review-worker")
	require.Zero(t, r.code, r.stderr)
	var out review.Report
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &out))
	require.Len(t, out.Findings, 1)
	require.Equal(t, "handle", out.Findings[0].Detail.Symbol)
	for _, in := range []string{"", "{", `{"bogus": 1}`, `{"root": "/does/not/exist"}`} {
		require.Equal(t, exitUsage, runBinary(t, in, "review-worker").code, in)
	}
	require.NotContains(t, call{}.run("--help").stdout, "review-worker")
}
