// SPDX-License-Identifier: Apache-2.0

package instrument_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/review"
	"assay/internal/review/instrument"
	"assay/internal/review/patch"
)

// golden compares a text with a golden file, or writes it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", "javascript", name)
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(got), 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

// TestJavaScriptBoundaries compares the patches of services in JavaScript and TypeScript. A second run changes nothing.
func TestJavaScriptBoundaries(t *testing.T) {
	parser := newParser(t)
	for _, name := range []string{"esm", "commonjs", "typescript", "left"} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), name)
			require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "javascript", name))))
			p, root, err := makePatch(t, parser, dir, instrument.General)
			require.NoError(t, err)
			golden(t, name+".golden", describePatch(t, p))
			require.NoError(t, p.Apply(root))
			for _, f := range p.Files {
				require.True(t, patch.Parses(t.Context(), parser, f.Path, f.After), f.Path)
			}
			again, _, err := makePatch(t, parser, dir, instrument.General)
			require.NoError(t, err)
			require.Empty(t, again.Files)
		})
	}
}

// describePatch returns the steps and the diff of a patch.
func describePatch(t *testing.T, p *patch.Patch) string {
	var b strings.Builder
	for _, s := range p.Steps {
		fmt.Fprintf(&b, "%s %s:%d %s\n", map[bool]string{false: "did ", true: "left"}[s.Open], s.File, s.Line, s.Text)
	}
	b.WriteString("\n")
	require.NoError(t, p.Diff(&b))
	return b.String()
}

// TestJavaScriptTelemetry runs programs before and after their instrumentation, with packages that stand for the libraries. The
// output is the same, and the spans and metrics are those of the golden file.
func TestJavaScriptTelemetry(t *testing.T) {
	parser := newParser(t)
	modules, err := filepath.Abs(filepath.Join("..", "..", "..", "bin", "tools", "otel-node", "node_modules", "@opentelemetry"))
	require.NoError(t, err)
	for name, program := range map[string]string{"esm": "src/main.js", "commonjs": "main.js"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "javascript", name))))
			require.NoError(t, os.CopyFS(filepath.Join(dir, "node_modules"), os.DirFS(filepath.Join("testdata", "javascript", "stubs"))))
			require.NoError(t, os.Symlink(modules, filepath.Join(dir, "node_modules", "@opentelemetry")))
			record, err := os.ReadFile(filepath.Join("testdata", "javascript", "record.cjs"))
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "record.cjs"), record, 0o600))
			run := func() (output, telemetry string) {
				cmd := exec.CommandContext(t.Context(), "node", "--require", "./record.cjs", program)
				cmd.Dir = dir
				cmd.Env = append(os.Environ(), "TELEMETRY=telemetry.txt")
				out, err := cmd.CombinedOutput()
				require.NoError(t, err, "%s", out)
				text, err := os.ReadFile(filepath.Join(dir, "telemetry.txt"))
				require.NoError(t, err)
				return string(out), string(text)
			}
			before, telemetry := run()
			require.Empty(t, telemetry)
			p, root, err := makePatch(t, parser, dir, instrument.General)
			require.NoError(t, err)
			require.NoError(t, p.Apply(root))
			after, telemetry := run()
			require.Equal(t, before, after)
			golden(t, name+".telemetry.golden", telemetry)
		})
	}
}

// TestJavaScriptReview: a review of instrumented code has no findings that the code did not have before.
func TestJavaScriptReview(t *testing.T) {
	parser := newParser(t)
	for _, name := range []string{"esm", "commonjs", "typescript", "left"} {
		dir := t.TempDir()
		require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "javascript", name))))
		find := func() map[string]bool {
			report, err := review.Run(t.Context(), review.Options{Root: dir, Parser: parser})
			require.NoError(t, err)
			found := map[string]bool{}
			for _, f := range report.Findings {
				found[f.Check+" "+f.Locations[0].File+" "+f.DisplayTitle] = true
			}
			return found
		}
		before := find()
		p, root, err := makePatch(t, parser, dir, instrument.General)
		require.NoError(t, err)
		require.NoError(t, p.Apply(root))
		for id := range find() {
			require.True(t, before[id], id)
		}
	}
}

// FuzzJavaScriptBoundaries changes hostile code. What parsed before parses afterwards, and a second run changes nothing.
func FuzzJavaScriptBoundaries(f *testing.F) {
	for _, name := range []string{"esm/src/main.js", "commonjs/main.js", "typescript/src/main.ts", "typescript/src/mail/queue.ts", "left/src/other.js", "left/src/spans.js"} {
		text, err := os.ReadFile(filepath.Join("testdata", "javascript", filepath.FromSlash(name)))
		require.NoError(f, err)
		f.Add(string(text), filepath.Ext(name) == ".ts", strings.HasPrefix(name, "commonjs"))
	}
	for _, text := range []string{
		"import{CronJob}from'cron';new CronJob('',()=>new CronJob('',()=>{}))", "require('http').createServer(require('express')())", "#!x\nlet x=require('koa'),y=new x\n",
		"import a from 'fastify';a()()`x`;fetch`${fetch(fetch)}`", "const{Consumer:c}=require('sqs-consumer');const o={handleMessage(){},handleMessage};c.create(o);c.create(o)",
		"'use strict';const q=new(require('bull'))('a');q.process(q.process(q))",
	} {
		f.Add(text, false, true)
	}
	parser := newParser(f)
	f.Fuzz(func(t *testing.T, text string, typescript, manual bool) {
		if len(text) > 64<<10 {
			return
		}
		dir := t.TempDir()
		name, sdk := "main.js", "@opentelemetry/auto-instrumentations-node"
		if typescript {
			name = "main.ts"
		}
		if manual {
			sdk = "@opentelemetry/sdk-node"
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "package.json"), fmt.Appendf(nil, `{"dependencies": {"%s": "1", "express": "5"}}`, sdk), 0o600))
		p, root, err := makePatch(t, parser, dir, instrument.General)
		if err != nil {
			require.Equal(t, assay.CodeUnprocessable, assay.ErrorCode(err))
			return
		}
		for _, f := range p.Files {
			require.True(t, patch.Parses(t.Context(), parser, f.Path, f.After), f.Path)
		}
		require.NoError(t, p.Apply(root))
		again, _, err := makePatch(t, parser, dir, instrument.General)
		require.NoError(t, err)
		require.Empty(t, again.Files)
	})
}
