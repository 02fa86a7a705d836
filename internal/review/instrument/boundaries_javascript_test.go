// SPDX-License-Identifier: Apache-2.0

package instrument_test

import (
	"context"
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
	"assay/internal/review/treesitter"
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

// TestJavaScriptTelemetry runs programs before and after their instrumentation, with packages that stand for the
// libraries. The output is the same, and the spans and metrics are those of the golden file.
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
			require.NoError(t, os.Mkdir(filepath.Join(dir, "test"), 0o700)) // no code of the program
			require.NoError(t, os.WriteFile(filepath.Join(dir, "test", "record.cjs"), record, 0o600))
			run := func() (output, telemetry string) {
				cmd := exec.CommandContext(t.Context(), "node", "--require", "./test/record.cjs", program)
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

// makeFiles returns the patch for a directory with files.
func makeFiles(t *testing.T, parser *treesitter.Parser, files map[string]string) *patch.Patch {
	dir := t.TempDir()
	for name, text := range files {
		file := filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}
	p, _, err := makePatch(t, parser, dir, instrument.General)
	require.NoError(t, err)
	return p
}

const (
	autoManifest = `{"dependencies": {"@opentelemetry/api": "1", "@opentelemetry/auto-instrumentations-node": "1"}}`
	bareManifest = `{"dependencies": {"@opentelemetry/api": "1", "@opentelemetry/sdk-node": "1"}}`
	cronJob      = "new CronJob('* * * * *', () => {})"
)

// TestJavaScriptImports compares how files import the functions, by the module systems of files and projects.
func TestJavaScriptImports(t *testing.T) {
	parser := newParser(t)
	module := strings.Replace(autoManifest, "{", `{"type": "module", `, 1)
	for name, c := range map[string]struct {
		files        map[string]string
		helper, want string
	}{
		"CommonJS":             {map[string]string{"package.json": autoManifest, "a.js": "const { CronJob } = require('cron');\n" + cronJob}, "otel-helpers.js", "require('cron');\nconst { traceJob } = require('./otel-helpers');\n"},
		"strict, no semicolon": {map[string]string{"package.json": autoManifest, "lib/a.js": "'use strict'\n\nconst { CronJob } = require(\"cron\")\n" + cronJob}, "lib/otel-helpers.js", "require(\"cron\")\nconst { traceJob } = require(\"./otel-helpers\")\n"},
		"module":               {map[string]string{"package.json": module, "a.js": "import { CronJob } from 'cron';\n" + cronJob}, "otel-helpers.js", "from 'cron';\nimport { traceJob } from './otel-helpers.js';\n"},
		"mjs":                  {map[string]string{"package.json": autoManifest, "a.mjs": "import { CronJob } from 'cron';\n" + cronJob}, "otel-helpers.mjs", "import { traceJob } from './otel-helpers.mjs';\n"},
		"cjs in a module":      {map[string]string{"package.json": module, "a.cjs": "const { CronJob } = require('cron');\n" + cronJob}, "otel-helpers.cjs", "const { traceJob } = require('./otel-helpers.cjs');\n"},
		"bundler":              {map[string]string{"package.json": autoManifest, "a.js": "import { CronJob } from 'cron';\nimport b from './b';\n" + cronJob}, "otel-helpers.js", "import { traceJob } from './otel-helpers';\n"},
		"both systems": {
			map[string]string{"package.json": autoManifest, "src/a.js": "const { CronJob } = require('cron');\n" + cronJob, "src/b/c.mjs": "import { CronJob } from 'cron';\n" + cronJob},
			"src/otel-helpers.js",
			"import { traceJob } from '../otel-helpers.js';\n",
		},
		"types stripped":              {map[string]string{"package.json": autoManifest, "a.ts": "import { CronJob } from 'cron';\n" + cronJob}, "otel-helpers.ts", "import { traceJob } from './otel-helpers.ts';\n"},
		"compiler":                    {map[string]string{"package.json": autoManifest, "tsconfig.json": `{"compilerOptions": {"module": "commonjs"}}`, "a.ts": "import { CronJob } from 'cron';\n" + cronJob}, "otel-helpers.ts", "import { traceJob } from './otel-helpers';\n"},
		"CRLF":                        {map[string]string{"package.json": autoManifest, "a.js": "// a\r\nconst { CronJob } = require('cron');\r\n" + cronJob + "\r\n"}, "otel-helpers.js", "require('cron');\r\nconst { traceJob } = require('./otel-helpers');\r\n"},
		"import and a template":       {map[string]string{"package.json": module, "a.js": "import b from 'b';\nimport { CronJob } from 'cron'; const s = `\n`;\n" + cronJob}, "otel-helpers.js", "import b from 'b';\nimport { traceJob } from './otel-helpers.js';\nimport { CronJob }"},
		"require and a template":      {map[string]string{"package.json": autoManifest, "a.js": "const { CronJob } = require('cron'); const s = `\n`;\n" + cronJob}, "otel-helpers.js", "const { traceJob } = require('./otel-helpers');\nconst { CronJob }"},
		"line separator in a comment": {map[string]string{"package.json": module, "a.js": "import b from 'b';\nimport { CronJob } from 'cron'; // \u2028const s = `\n`;\n" + cronJob}, "otel-helpers.js", "import b from 'b';\nimport { traceJob } from './otel-helpers.js';\nimport { CronJob }"},
		"import and code":             {map[string]string{"package.json": autoManifest, "a.js": "#!/usr/bin/env node\n// a\nconst { CronJob } = require('cron'), b = 1;\n" + cronJob}, "otel-helpers.js", "// a\nconst { traceJob } = require('./otel-helpers');\nconst { CronJob }"},
	} {
		t.Run(name, func(t *testing.T) {
			p := makeFiles(t, parser, c.files)
			var texts strings.Builder
			created := ""
			for _, f := range p.Files {
				if f.Created {
					created = f.Path
				} else {
					texts.Write(f.After)
				}
			}
			require.Equal(t, c.helper, created)
			require.Contains(t, texts.String(), c.want)
		})
	}
}

// TestJavaScriptJobs: the span of a job has the name that the program gives the job, or what says most about it.
func TestJavaScriptJobs(t *testing.T) {
	const body = "async () => { await f(); await g(); }"
	for name, c := range map[string]struct{ file, code, want string }{
		"option":                        {"index.js", "require('node-cron').schedule('1 * * * *', " + body + ", { name: 'mails' })", "traceJob('mails', "},
		"member":                        {"index.js", "require('cron').CronJob.from({ cronTime: '1 * * * *', name: 'mails', onTick: () => f() })", "traceJob('mails', "},
		"argument":                      {"index.js", "require('node-schedule').scheduleJob('mails', '1 * * * *', () => f())", "traceJob('mails', "},
		"variable":                      {"index.js", "for (const n of ['a']) require('node-schedule').scheduleJob(n, '1 * * * *', () => q.add(n))", "traceJob(n, "},
		"call as a name":                {"index.js", "require('node-schedule').scheduleJob(n(), '1 * * * *', () => f())", "traceJob('f', "},
		"function":                      {"index.js", "require('node-cron').schedule('1 * * * *', function mails() { f(); g(); })", "traceJob('mails', "},
		"file":                          {"mails.js", "require('node-cron').schedule('1 * * * *', " + body + ")", "traceJob('mails', "},
		"schedule":                      {"index.js", "require('node-cron').schedule('1 * * * *', " + body + ")", "traceJob('1 * * * *', "},
		"schedule of members":           {"main.js", "require('cron').CronJob.from({ cronTime: '1 * * * *', onTick: " + body + " })", "traceJob('1 * * * *', "},
		"second argument":               {"main.js", "require('node-schedule').scheduleJob(n(), '1 * * * *', " + body + ")", "traceJob('1 * * * *', "},
		"NestJS, option":                {"nest.ts", "import { Cron } from '@nestjs/schedule';\nconst NAME = 'mails';\nclass Jobs {\n  @Cron('0 0 * * *', { name: 'mails' })\n  run() {}\n}", "@TracedJob('mails')\n"},
		"NestJS, constant":              {"nest.ts", "import { Cron } from '@nestjs/schedule';\nconst NAME = 'mails';\nclass Jobs {\n  @Cron('0 0 * * *', { name: NAME })\n  run() {}\n}", "@TracedJob(NAME)\n"},
		"NestJS, argument":              {"nest.ts", "import { Interval } from '@nestjs/schedule';\nconst NAME = 'mails';\nclass Jobs {\n  @Interval('mails', 1000)\n  run() {}\n}", "@TracedJob('mails')\n"},
		"NestJS, alias":                 {"nest.ts", "import { Timeout as After } from '@nestjs/schedule';\nconst NAME = 'mails';\nclass Jobs {\n  @After('mails', 500)\n  run() {}\n}", "@TracedJob('mails')\n"},
		"NestJS, method":                {"nest.ts", "import { Cron } from '@nestjs/schedule';\nconst NAME = 'mails';\nclass Jobs {\n  @Cron('0 0 * * *', { timeZone: 'UTC' })\n  run() {}\n}", "@TracedJob('run')\n"},
		"NestJS, time":                  {"nest.ts", "import { Interval } from '@nestjs/schedule';\nconst NAME = 'mails';\nclass Jobs {\n  @Interval(1000)\n  run() {}\n}", "@TracedJob('run')\n"},
		"NestJS, options of a variable": {"nest.ts", "import { Cron } from '@nestjs/schedule';\nconst NAME = 'mails';\nclass Jobs {\n  @Cron('0 0 * * *', options)\n  run() {}\n}", "@TracedJob('run')\n"},
		"NestJS, call":                  {"nest.ts", "import { Cron } from '@nestjs/schedule';\nconst NAME = 'mails';\nclass Jobs {\n  @Cron('0 0 * * *', { name: n() })\n  run() {}\n}", "@TracedJob('run')\n"},
		"nothing":                       {"main.js", "require('node-cron').schedule(time, " + body + ")", "traceJob('main', "},
	} {
		t.Run(name, func(t *testing.T) {
			p := makeFiles(t, newParser(t), map[string]string{"package.json": autoManifest, c.file: c.code + ";\n"})
			var text strings.Builder
			for _, f := range p.Files {
				if f.Path == c.file {
					text.Write(f.After)
				}
			}
			require.Contains(t, text.String(), c.want)
		})
	}
}

// TestJavaScriptLeft: what other tracers and the code's own spans cover stays as it is, and so does what cannot be
// wrapped. A step says why.
func TestJavaScriptLeft(t *testing.T) {
	parser := newParser(t)
	code := "const { CronJob } = require('cron');\n" + cronJob + ";\n"
	for name, c := range map[string]struct {
		files map[string]string
		step  string // "" for none
	}{
		"tracer of a vendor":        {map[string]string{"package.json": `{"dependencies": {"dd-trace": "5", "express": "5"}}`, "a.js": code}, "Nothing is added to the program: `dd-trace` sets up telemetry"},
		"tracer beside an SDK":      {map[string]string{"package.json": `{"dependencies": {"@instana/collector": "5", "@opentelemetry/auto-instrumentations-node": "1", "express": "5"}}`, "a.js": code}, "Nothing is added to the program: `@instana/collector` sets up telemetry"},
		"framework with its setup":  {map[string]string{"package.json": `{"dependencies": {"next": "15", "express": "5"}}`, "a.js": code}, "The project is left: `next` has a setup of its own for OpenTelemetry"},
		"spans of databases":        {map[string]string{"package.json": autoManifest, "a.js": "const D = require('better-sqlite3');\nconst d = new D('a');\nspan.setAttribute('db.system.name', 'sqlite');"}, "Calls of databases are left: the code starts spans for them itself"},
		"spans of requests":         {map[string]string{"package.json": bareManifest, "a.js": "const app = require('express')();\ntracer.startSpan('GET', { kind: SpanKind.SERVER });"}, ""},
		"span around a request":     {map[string]string{"package.json": bareManifest, "a.js": "const { trace } = require('@opentelemetry/api');\nconst tracer = trace.getTracer('a');\ntracer.startActiveSpan('a', async (span) => { await fetch('http://b'); span.end(); });"}, ""},
		"fetch of the project":      {map[string]string{"package.json": bareManifest, "a.js": "const fetch = require('./fetch');\nfetch('http://b');"}, ""},
		"fetch of browsers, path":   {map[string]string{"package.json": bareManifest, "public/a.js": "fetch('http://b');", "src/b.jsx": "fetch('http://b');"}, ""},
		"fetch of browsers, page":   {map[string]string{"package.json": bareManifest, "a.js": "fetch('http://b');\ndocument.title = 'a';", "b.js": "fetch('http://b');\nwindow.open('c');"}, ""},
		"fetch without a host":      {map[string]string{"package.json": bareManifest, "a.js": "fetch(`/api/${id}`);\nfetch('http://b');"}, ""},
		"setup in code":             {map[string]string{"package.json": bareManifest, "a.js": "require('express')();\nconst { getNodeAutoInstrumentations } = require('@opentelemetry/auto-instrumentations-node');"}, ""},
		"instrumentation in code":   {map[string]string{"package.json": bareManifest, "a.js": "require('express')();\nnew (require('@opentelemetry/instrumentation-http').HttpInstrumentation)();"}, ""},
		"instrumentation elsewhere": {map[string]string{"package.json": bareManifest, "a.js": "const r = require('ioredis');"}, "Add `@opentelemetry/instrumentation-ioredis` to the setup of the SDK"},
		"router with parameters":    {map[string]string{"package.json": bareManifest, "a.js": "const app = require('express')();\napp.use('/tenants/:id', router);"}, "The application of `express` is left: the routes of routers below paths with parameters, as in `a.js`, are not known"},
		"another file of that name": {map[string]string{"package.json": autoManifest, "a.js": code, "otel-helpers.js": "exports.a = 1;"}, "The code is left: this file has the name of the one with the functions to call"},
		"helpers of the project":    {map[string]string{"package.json": autoManifest, "a.js": code, "otel-helpers.js": "const { trace } = require('@opentelemetry/api');\nexports.tracer = trace.getTracer('a');"}, "The code is left: this file has the name of the one with the functions to call"},
		"helpers of TypeScript":     {map[string]string{"package.json": autoManifest, "a.js": code, "otel-helpers.ts": "import * as otel from '@opentelemetry/api';\nconst scope = 'a';"}, "The file is left: `otel-helpers.ts` is not in its language"},
		"helpers of ES modules":     {map[string]string{"package.json": autoManifest, "a.js": code, "otel-helpers.mjs": "import * as otel from '@opentelemetry/api';\nconst scope = 'a';"}, "The file is left: it cannot load the ES module `otel-helpers.mjs` with `require`"},
		"script in TypeScript":      {map[string]string{"package.json": autoManifest, "a.ts": code}, "The file is left: it has no `import`"},
		"telemetry of the library":  {map[string]string{"package.json": autoManifest, "a.js": "const { Worker } = require('bullmq');\nnew Worker('a', async () => {}, { telemetry });"}, ""},
		"test":                      {map[string]string{"package.json": autoManifest, "test/a.js": code, "a.test.js": code}, ""},
		"handler that is removed":   {map[string]string{"package.json": autoManifest, "a.js": "const client = require('mqtt').connect();\nclient.on('message', f);\nclient.off('message', f);"}, "The handler of `mqtt` is left: the file removes handlers, which have to be the same functions"},
		"method of options":         {map[string]string{"package.json": bareManifest, "a.js": "const { Kafka } = require('kafkajs');\nconsumer.run({ async eachMessage(payload) {} });"}, "The handler of `kafkajs` is left: write it as `eachMessage: ...` and run this again"},
		"quote in a path":           {map[string]string{"package.json": autoManifest, "a.js": code, "x');f('/otel-helpers.js": "const otel = require('@opentelemetry/api');\nconst scope = 'a';"}, "The file is left: the path of `x');f('/otel-helpers.js` has characters that an import cannot name"},
		"carriage returns":          {map[string]string{"package.json": autoManifest, "a.js": code + "// a\rconst s = `\n`;\n"}, "The file is left: it has carriage returns without a line feed"},
		"file of another process":   {map[string]string{"package.json": autoManifest, "a.js": "const { Worker } = require('bullmq');\nnew Worker('a', './b.js');"}, "The handler of `bullmq` is left: it runs in a process of its own, from another file"},
	} {
		t.Run(name, func(t *testing.T) {
			p := makeFiles(t, parser, c.files)
			for _, f := range p.Files {
				require.Equal(t, "package.json", f.Path)
			}
			var left []string
			for _, s := range p.Steps {
				if s.Open && !strings.HasPrefix(s.Text, "Start the program with") && !strings.HasPrefix(s.Text, "Nothing is added to the program: `@opentelemetry") {
					left = append(left, s.Text)
				}
			}
			if c.step == "" {
				require.Empty(t, left)
			} else {
				require.Equal(t, []string{c.step}, left)
			}
		})
	}
}

// TestJavaScriptNames compares where global names and those of libraries stand for something else.
func TestJavaScriptNames(t *testing.T) {
	parser := newParser(t)
	const another = "The call of `fetch` is left: the file gives this name to something else as well"
	for name, c := range map[string]struct {
		code, want string // want is "" for what is left
		step       string
	}{
		"function":                       {"export const a = () => fetch('http://b');\nasync function fetch(u) { return u; }", "", ""},
		"exported function":              {"export async function fetch(u) { return u; }\nexport const a = () => fetch('http://b');", "", ""},
		"class":                          {"class fetch {}\nfetch('http://b');", "", ""},
		"function in a function":         {"function a() { return fetch('http://b'); function fetch(u) { return u; } }", "", ""},
		"function around a function":     {"function a() { return () => fetch('http://b'); function fetch(u) { return u; } }", "", ""},
		"class in a function":            {"function a() { class fetch {} return fetch('http://b'); }", "", ""},
		"name of an expression":          {"const a = function fetch(u) { return u ? fetch(u - 1) : 0; };", "", ""},
		"variable after a closure":       {"function a() { const b = () => fetch('http://b'); const fetch = x; return b(); }", "", another},
		"function in another function":   {"function a() { function fetch(u) {} }\nfetch('http://b');", "", another},
		"expression beside":              {"const a = { b: function fetch(u) {} };\nfetch('http://b');", "", another},
		"parameter of another function":  {"function a({ b: [fetch] }) {}\nfetch('http://b');", "", another},
		"parameter with a default":       {"function a({ fetch = x } = {}) {}\nfetch('http://b');", "", another},
		"catch of another function":      {"function a() { try {} catch (fetch) {} }\nfetch('http://b');", "", another},
		"destructuring elsewhere":        {"function a() { const { b: { fetch }, ...c } = x; }\nfetch('http://b');", "", another},
		"import":                         {"import { a as fetch } from './a.js';\nfetch('http://b');", "", ""},
		"methods":                        {"class A { fetch(u) { return fetch(u); } }\nconst b = { fetch(u) { return u.fetch(u); }, c: { fetch: 1 } };", "return traceFetch(u); }", ""},
		"require of a bundle":            {"(function (require, module) { const { Pool } = require('pg'); new Pool(); })(a, b);", "", ""},
		"function require":               {"const { Pool } = require('pg');\nnew Pool();\nnew (require('pg').Client)();\nfunction require(a) { return a; }", "", ""},
		"member require":                 {"const pg = a.require('pg');\nnew pg.Pool();", "", ""},
		"require elsewhere":              {"const { Pool } = require('pg');\nnew Pool();\nfunction a(require) {}", "", "The file is left: it uses the name `require` for something else"},
		"createRequire":                  {"import { createRequire } from 'module';\nconst require = createRequire(import.meta.url);\nconst { Pool } = require('pg');\nnew Pool();", "traceDatabase('postgresql', new Pool());", ""},
		"import of a name with require":  {"import { requireUser } from './a.js';\nfetch('http://b');", "import { traceFetch } from './otel-helpers.js';\ntraceFetch", ""},
		"class of a library's name":      {"const { Pool } = require('pg');\nfunction a() { class Pool {} return new Pool(); }", "", ""},
		"function of a library's name":   {"import { Pool } from 'pg';\nfunction a() { return new Pool(); function Pool() {} }", "", ""},
		"expression of a library's name": {"import { Pool } from 'pg';\nmodule.exports = class Pool { static a() { return new Pool(); } };", "", ""},
		"library's name elsewhere":       {"const { Pool } = require('pg');\nnew Pool();\nfunction a() { class Pool {} }", "traceDatabase('postgresql', new Pool());", ""},
		"function around a require":      {"function Pool() { const { Pool } = require('pg'); return new Pool(); }", "return traceDatabase('postgresql', new Pool());", ""},
		"function of a variable's name":  {"const { Kafka } = require('kafkajs');\nfunction consumer() { const consumer = new Kafka({}).consumer({}); consumer.run({ eachMessage: async () => {} }); }", "eachMessage: traceProcess('kafka', undefined, async () => {})", ""},
		"receiver of a function's name":  {"const Queue = require('bull');\nconst q = new Queue('a');\nfunction a() { q.process(async () => {}); function q() {} }\nq.name;", "q.process(async () => {})", ""},
		"name of the functions":          {"import { traceFetch } from './a.js';\nfetch('http://b');\nexport { traceFetch };", "", "The file is left: it uses the name `traceFetch` for something else"},
	} {
		t.Run(name, func(t *testing.T) {
			p := makeFiles(t, parser, map[string]string{"package.json": bareManifest, "a.js": c.code})
			var changed, left []string
			for _, f := range p.Files {
				if f.Path == "a.js" {
					changed = append(changed, string(f.After))
				}
			}
			for _, s := range p.Steps {
				if s.File == "a.js" && s.Open {
					left = append(left, s.Text)
				}
			}
			if c.want == "" {
				require.Empty(t, changed)
			} else {
				require.Len(t, changed, 1)
				require.Contains(t, changed[0], c.want)
			}
			require.Equal(t, c.step, strings.Join(left, "\n"))
		})
	}
}

// TestJavaScriptFiles wraps handlers of what another file makes.
func TestJavaScriptFiles(t *testing.T) {
	p := makeFiles(t, newParser(t), map[string]string{
		"package.json":     autoManifest,
		"src/queues.ts":    "import Queue from 'bull';\nexport const mails = new Queue('mails');\nexport const other = { process() {} };\n",
		"src/mail/work.ts": "import { mails, other as others } from '../queues.js';\nmails.process(async (job) => job.data);\nothers.process(async () => {});\n",
		"src/client.ts":    "import { connect } from 'mqtt';\nconst client = connect('mqtt://a');\nexport { client };\n",
		"src/topics.ts":    "import { client } from './client.js';\nclient.on('message', (topic) => console.log(topic));\n",
	})
	after := map[string]string{}
	for _, f := range p.Files {
		after[f.Path] = string(f.After)
	}
	delete(after, "src/otel-helpers.ts")
	require.Equal(t, map[string]string{
		"src/queues.ts":    "import Queue from 'bull';\nimport { traceProducer } from './otel-helpers.js';\nexport const mails = traceProducer('bull', 'mails', new Queue('mails'));\nexport const other = { process() {} };\n",
		"src/mail/work.ts": "import { mails, other as others } from '../queues.js';\nimport { traceProcess } from '../otel-helpers.js';\nmails.process(traceProcess('bull', 'mails', async (job) => job.data));\nothers.process(async () => {});\n",
		"src/topics.ts":    "import { client } from './client.js';\nimport { traceProcess } from './otel-helpers.js';\nclient.on('message', traceProcess('mqtt', undefined, (topic) => console.log(topic)));\n",
	}, after)
}

// TestJavaScriptNested wraps a client within a handler that ends at the same offset.
func TestJavaScriptNested(t *testing.T) {
	p := makeFiles(t, newParser(t), map[string]string{
		"package.json": bareManifest,
		"a.js":         "const cron = require('node-cron');\nconst { Pool } = require('pg');\ncron.schedule('* * * * *', () => new Pool());\n",
	})
	require.Equal(t, "a.js", p.Files[0].Path)
	require.Contains(t, string(p.Files[0].After), "cron.schedule('* * * * *', traceJob('a', () => traceDatabase('postgresql', new Pool())));\n")
}

// TestJavaScriptExtended adds to a service what was written since the first run.
func TestJavaScriptExtended(t *testing.T) {
	parser := newParser(t)
	dir := t.TempDir()
	for name, text := range map[string]string{"package.json": autoManifest, "a.js": "const { CronJob } = require('cron');\n" + cronJob + ";\n"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	run := func() *patch.Patch {
		p, root, err := makePatch(t, parser, dir, instrument.General)
		require.NoError(t, err)
		require.NoError(t, p.Apply(root))
		return p
	}
	run()
	file := filepath.Join(dir, "a.js")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, append(text, "const { Worker } = require('bullmq');\nnew Worker('a', async () => {});\nnew CronJob('1 * * * *', () => rotate());\n"...), 0o600))
	p := run()
	require.Len(t, p.Files, 2)
	require.Equal(t, `const { CronJob } = require('cron');
const { traceJob } = require('./otel-helpers');
const { traceProcess } = require('./otel-helpers');
new CronJob('* * * * *', traceJob('a', () => {}));
const { Worker } = require('bullmq');
new Worker('a', traceProcess('bullmq', 'a', async () => {}));
new CronJob('1 * * * *', traceJob('rotate', () => rotate()));
`, string(p.Files[0].After))
	helpers := string(p.Files[1].After)
	require.Equal(t, 1, strings.Count(helpers, "function observe("))
	require.Contains(t, helpers, "exports.traceJob = traceJob;\n\n/** Returns a function that records durations")
	require.True(t, strings.HasSuffix(helpers, "exports.traceProcess = traceProcess;\n"))
	require.Empty(t, run().Files)
}

// TestJavaScriptLimits bounds the boundaries of a file and of a service.
func TestJavaScriptLimits(t *testing.T) {
	files := map[string]string{"package.json": autoManifest}
	for n := range 6 {
		files[fmt.Sprintf("%d.js", n)] = "const { CronJob } = require('cron');\n" + strings.Repeat(cronJob+";\n", 101)
	}
	p := makeFiles(t, newParser(t), files)
	wrapped, limits := 0, map[string]int{}
	for _, f := range p.Files {
		wrapped += strings.Count(string(f.After), "traceJob('")
	}
	for _, s := range p.Steps {
		if s.Open {
			limits[s.Text]++
		}
	}
	require.Equal(t, 500, wrapped)
	require.Equal(t, 4, limits["The file has more than 100 handlers and clients: the others are left"])
	require.Equal(t, 1, limits["The service 001 has more than 500 handlers and clients: the others are left"])
}

// checkedContext counts the calls of Err.
type checkedContext struct {
	context.Context
	checks int
}

func (c *checkedContext) Err() error {
	c.checks++
	return c.Context.Err()
}

// TestJavaScriptContext checks the context at the calls of a file.
func TestJavaScriptContext(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"package.json": bareManifest, "a.js": "const { CronJob } = require('cron');\n" + strings.Repeat("f();\n", 1000)} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	ctx := &checkedContext{Context: t.Context()}
	_, err = instrument.Make(ctx, root, newParser(t), []string{"a.js", "package.json"}, instrument.General, "a")
	require.NoError(t, err)
	require.Greater(t, ctx.checks, 1000)
}

// FuzzJavaScriptBoundaries changes hostile code. What parsed before parses afterwards, and a second run changes
// nothing.
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
