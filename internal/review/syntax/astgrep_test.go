// SPDX-License-Identifier: Apache-2.0

//go:build astgrep

package syntax_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"testing"

	"assay/internal/review/syntax"
	"assay/internal/review/treesitter"
)

var (
	astGrep   = flag.String("ast-grep", "", "ast-grep program")
	directory = flag.String("directory", "", "directory with source files")
)

// callRules find the calls of each language.
const callRules = `
{id: js, language: JavaScript, rule: {kind: call_expression}}
---
{id: ts, language: TypeScript, rule: {kind: call_expression}}
---
{id: tsx, language: Tsx, rule: {kind: call_expression}}
---
{id: py, language: Python, rule: {kind: call}}
---
{id: java, language: Java, rule: {any: [{kind: method_invocation}, {kind: explicit_constructor_invocation}]}}
`

// TestCallSites compares the calls in all files of a directory with the calls that ast-grep finds. Both parse with
// tree-sitter, but in different builds and versions. It leaves out files that one of them cannot parse.
func TestCallSites(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), *astGrep, "scan", "--no-ignore", "vcs", "--json=stream", "--inline-rules", callRules, *directory).Output()
	if err != nil {
		t.Fatalf("run ast-grep: %v", err)
	}
	type site struct{ start, end int }
	files := map[string]map[site]bool{}
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var m struct {
			File  string
			Range struct{ ByteOffset struct{ Start, End int } }
		}
		if err := d.Decode(&m); err != nil {
			t.Fatal(err)
		}
		if files[m.File] == nil {
			files[m.File] = map[site]bool{}
		}
		files[m.File][site{m.Range.ByteOffset.Start, m.Range.ByteOffset.End}] = true
	}
	type result struct{ files, calls, missing, extra, broken int }
	results := map[syntax.Language]*result{}
	for name, want := range files {
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		language := syntax.LanguageOf(name)
		if language == syntax.Unknown || len(source) > treesitter.MaxSource {
			continue
		}
		if results[language] == nil {
			results[language] = &result{}
		}
		r := results[language]
		f, err := syntax.Parse(t.Context(), parser, name, language, source)
		if err != nil || f.Broken {
			r.broken++
			continue
		}
		r.files++
		r.calls += len(want)
		for n := range f.Root.All() {
			if n.Kind != syntax.Call || language == syntax.Java && n.Parent.Kind == syntax.Decorator {
				continue
			}
			s := site{n.Start, n.End}
			if !want[s] {
				r.extra++
				t.Logf("%s: not found by ast-grep: %.80q", name, f.Code(n))
			}
			delete(want, s)
		}
		r.missing += len(want)
		for s := range want {
			t.Logf("%s: found by ast-grep only: %.80q", name, source[s.start:s.end])
		}
	}
	if len(results) == 0 {
		t.Fatal("no calls found")
	}
	for language, r := range results {
		t.Logf("%s: %d calls in %d files, %d missing, %d extra, %d files not compared", language, r.calls, r.files, r.missing, r.extra, r.broken)
		if r.missing+r.extra > 0 {
			t.Errorf("%s: %d differences", language, r.missing+r.extra)
		}
	}
}
