// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay/internal/review"
	"assay/internal/review/migrate"
	"assay/internal/review/patch"
	"assay/internal/review/treesitter"
)

var update = flag.Bool("update", false, "rewrite testdata and the tables of docs/migration.md")

var parser = sync.OnceValues(func() (*treesitter.Parser, error) { return review.NewParser(context.Background(), "") })

// migrated returns the patch for the files of a directory.
func migrated(t testing.TB, dir string) *patch.Patch {
	t.Helper()
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	p, err := parser()
	require.NoError(t, err)
	var files []string
	require.NoError(t, fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			files = append(files, path)
		}
		return err
	}))
	slices.Sort(files)
	out, err := migrate.Make(t.Context(), root, p, files)
	require.NoError(t, err)
	return out
}

// write writes files to a new directory.
func write(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	return dir
}

func describe(t testing.TB, p *patch.Patch) string {
	t.Helper()
	var b bytes.Buffer
	for _, s := range p.Steps {
		state := "done"
		if s.Open {
			state = "open"
		}
		fmt.Fprintf(&b, "%s: %s:%d: %s\n", state, s.File, s.Line, s.Text)
	}
	require.NoError(t, p.Diff(&b))
	return b.String()
}

// TestGoldenRace migrates projects that use every row of the tables, and compares steps and patches. A second migration
// changes nothing, and applying the patch with git gives the same files.
func TestGoldenRace(t *testing.T) {
	dirs, err := filepath.Glob("testdata/*-*")
	require.NoError(t, err)
	more, err := filepath.Glob("../../../e2e/testdata/migrate/*-*")
	require.NoError(t, err)
	for _, dir := range append(dirs, more...) {
		name := filepath.Base(dir)
		if strings.HasSuffix(name, ".diff") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			work := t.TempDir()
			require.NoError(t, os.CopyFS(work, os.DirFS(dir)))
			p := migrated(t, work)
			got := describe(t, p)
			golden := filepath.Join("testdata", name+".diff")
			if *update {
				require.NoError(t, os.WriteFile(golden, []byte(got), 0o644))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			require.Equal(t, string(want), got)
			require.NotEmpty(t, p.Files)

			var diff bytes.Buffer
			require.NoError(t, p.Diff(&diff))
			cmd := exec.CommandContext(t.Context(), "git", "apply", "--whitespace=nowarn", "-")
			cmd.Dir, cmd.Stdin = work, &diff
			cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(work))
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", out)
			parsers, err := parser()
			require.NoError(t, err)
			for _, f := range p.Files {
				applied, err := os.ReadFile(filepath.Join(work, filepath.FromSlash(f.Path)))
				require.NoError(t, err)
				require.Equal(t, string(f.After), string(applied))
				require.True(t, patch.Parses(t.Context(), parsers, f.Path, f.After), f.Path)
			}
			again := migrated(t, work)
			require.Empty(t, again.Files)
			require.Empty(t, again.Steps)

			crlf := map[string]string{}
			source := os.DirFS(dir)
			require.NoError(t, fs.WalkDir(source, ".", func(path string, d fs.DirEntry, err error) error {
				if err != nil || !d.Type().IsRegular() {
					return err
				}
				text, err := fs.ReadFile(source, path)
				crlf[path] = "\uFEFF" + strings.ReplaceAll(string(text), "\n", "\r\n")
				return err
			}))
			w := migrated(t, write(t, crlf))
			require.Equal(t, p.Steps, w.Steps, "with a byte order mark, and lines that end in CR LF")
			require.Len(t, w.Files, len(p.Files))
			for i, f := range p.Files {
				want := string(f.After)
				if _, exists := crlf[f.Path]; exists {
					want = "\uFEFF" + strings.ReplaceAll(want, "\n", "\r\n")
				}
				require.Equal(t, crlf[f.Path], string(w.Files[i].Before), f.Path)
				require.Equal(t, want, string(w.Files[i].After), f.Path)
			}
		})
	}
}

// TestFiles checks the text of a file of a migrated project.
func TestFiles(t *testing.T) {
	golang := func(imports, code string) map[string]string {
		return map[string]string{
			"go.mod": "module example.com/shop\n\ngo 1.22\n\nrequire (\n\tgithub.com/opentracing/opentracing-go v1.2.0\n\tgithub.com/uber/jaeger-client-go v2.30.0+incompatible\n\tgopkg.in/DataDog/dd-trace-go.v1 v1.60.0\n)\n",
			"a.go":   "package a\n\nimport (\n" + imports + ")\n\n" + code,
		}
	}
	for name, tt := range map[string]struct {
		files    map[string]string
		file     string
		has, not []string
	}{
		"a copy of headers": {
			map[string]string{"requirements.txt": "opentracing\n", "a.py": "import opentracing\nfrom opentracing import Format\n\n\ndef f(tracer, request, other):\n    opentracing.tracer.extract(Format.HTTP_HEADERS, dict(request.headers))\n    opentracing.tracer.extract(Format.HTTP_HEADERS, dict(other))\n    opentracing.tracer.extract(Format.HTTP_HEADERS, dict(a=other))\n    opentracing.tracer.extract(Format.HTTP_HEADERS, other)\n"},
			"a.py",
			[]string{"propagate.extract(request.headers)\n", "propagate.extract(dict(other))\n", "propagate.extract(dict(a=other))\n", "propagate.extract(other)\n"},
			nil,
		},
		"the tracer of Datadog before another import that is removed": {
			map[string]string{"requirements.txt": "ddtrace\n", "a.py": "import os\nfrom ddtrace import tracer\nfrom ddtrace.ext import SpanTypes\n\n\n@tracer.wrap('work', span_type=SpanTypes.WEB)\ndef work(n):\n    return os.name\n"},
			"a.py",
			[]string{"import os\nfrom opentelemetry import trace\n\ntracer = trace.get_tracer(__name__)\n\n\n@tracer.start"},
			nil,
		},
		"the tracer of Datadog after another import that is removed": {
			map[string]string{"requirements.txt": "ddtrace\n", "a.py": "import ddtrace\nfrom ddtrace import tracer as dd\nimport os\n\n\n@dd.wrap()\ndef f():\n    ddtrace.tracer.current_span().set_tag(os.name, 1)\n"},
			"a.py",
			[]string{"from opentelemetry import trace\nimport os\n\ndd = trace.get_tracer(__name__)\n\n\n@dd.start"},
			nil,
		},
		"a file that imports the tracer of another one, Python": {
			map[string]string{
				"requirements.txt": "ddtrace\n",
				"pkg/__init__.py":  "",
				"pkg/t.py":         "from ddtrace import tracer\n",
				"pkg/u.py":         "from pkg.t import tracer\n\n\ndef f():\n    with tracer.trace(\"f\"):\n        pass\n",
			},
			"pkg/u.py",
			[]string{"with tracer.start_as_current_span(\"f\"):"},
			nil,
		},
		"a file that imports a tracer through a package, Python": {
			map[string]string{
				"requirements.txt": "ddtrace\n",
				"pkg/__init__.py":  "from .t import tracer\n",
				"pkg/t.py":         "from ddtrace import tracer\n",
				"u.py":             "from pkg import tracer\n\n\ndef f():\n    with tracer.trace(\"f\"):\n        pass\n",
			},
			"u.py",
			[]string{"with tracer.start_as_current_span(\"f\"):"},
			nil,
		},
		"a file that imports the tracer of another one, JavaScript": {
			map[string]string{
				"package.json":  "{\"name\": \"s\", \"dependencies\": {\"dd-trace\": \"^5\", \"opentracing\": \"1\", \"zipkin\": \"1\"}}\n",
				"lib/tracer.js": "const tracer = require('dd-trace').init({ service: 's' })\nmodule.exports = tracer\n",
				"lib/u.js":      "const tracer = require('./tracer')\nmodule.exports = () => tracer.trace('x', () => 1)\n",
			},
			"lib/u.js",
			[]string{"const { local } = require('./opentelemetry-local')", "local(tracer, 'x', () => 1, {})"},
			nil,
		},
		"a tracer with another name": {
			map[string]string{
				"package.json":  "{\"name\": \"s\", \"dependencies\": {\"dd-trace\": \"^5\", \"opentracing\": \"1\", \"zipkin\": \"1\"}}\n",
				"lib/tracer.js": "import dd from 'dd-trace';\nexport const tracer = dd.init({ service: 's' });\n",
				"lib/index.js":  "export { tracer } from './tracer.js';\n",
				"u.js":          "import { tracer as apm } from './lib/index.js';\nexport const f = () => apm.trace('x', () => 1);\n",
			},
			"u.js",
			[]string{"import { local } from './opentelemetry-local.js'", "local(apm, 'x', () => 1, {})"},
			nil,
		},
		"the tracer of zipkin in another file": {
			map[string]string{
				"package.json": "{\"name\": \"s\", \"dependencies\": {\"dd-trace\": \"^5\", \"opentracing\": \"1\", \"zipkin\": \"1\"}}\n",
				"tracer.js":    "const { Tracer, ExplicitContext, ConsoleRecorder } = require('zipkin')\nmodule.exports = new Tracer({ ctxImpl: new ExplicitContext(), recorder: new ConsoleRecorder(), localServiceName: 's' })\n",
				"u.js":         "const tracer = require('./tracer')\nmodule.exports = (f) => tracer.local('x', f)\n",
			},
			"u.js",
			[]string{"const { local } = require('./opentelemetry-local')", "local(tracer, 'x', f)"},
			nil,
		},
		"a span that a file without an import names": {
			map[string]string{
				"package.json": "{\"name\": \"s\", \"dependencies\": {\"dd-trace\": \"^5\", \"opentracing\": \"1\", \"zipkin\": \"1\"}}\n",
				"tracer.js":    "const { globalTracer } = require('opentracing')\nexports.start = (name) => globalTracer().startSpan(name)\n",
				"u.js":         "module.exports = (span) => span.log({ event: 'x' })\n",
			},
			"u.js",
			[]string{"span.addEvent('x')"},
			nil,
		},
		"finish of other values stays": {
			map[string]string{
				"requirements.txt": "opentracing\n",
				"t.py":             "import opentracing\nfrom bar import Bar\n\n\ndef f():\n    bar = Bar()\n    with opentracing.tracer.start_active_span('a'):\n        bar.finish()\n",
			},
			"t.py",
			[]string{"        bar.finish()\n"},
			nil,
		},
		"a reference by its class": {
			map[string]string{
				"package.json": "{\"dependencies\": {\"opentracing\": \"1\"}}\n",
				"a.js":         "const { Reference, REFERENCE_CHILD_OF, globalTracer } = require('opentracing')\nexports.f = (parentSpan) => globalTracer().startSpan('a', { references: [new Reference(REFERENCE_CHILD_OF, parentSpan.context())] })\n",
				"b.js":         "const opentracing = require('opentracing')\nexports.f = (parentSpan) => opentracing.globalTracer().startSpan('a', { references: [new opentracing.Reference(opentracing.REFERENCE_FOLLOWS_FROM, parentSpan.context())] })\n",
			},
			"a.js",
			[]string{"const { ROOT_CONTEXT, trace } = require('@opentelemetry/api')", ".startSpan('a', {}, trace.setSpan(ROOT_CONTEXT, parentSpan))"},
			[]string{"REFERENCE", "opentracing"},
		},
		"a parent that all calls pass, JavaScript": {
			map[string]string{
				"package.json": "{\"dependencies\": {\"opentracing\": \"1\"}}\n",
				"a.js":         "const { globalTracer } = require('opentracing')\nconst tracer = globalTracer()\nfunction child (parent, other) {\n  parent.setTag('a', 1)\n  tracer.startSpan('child', { childOf: parent }).finish()\n  tracer.startSpan('x', { childOf: other }).finish()\n  if (other) child(parent, other)\n}\nmodule.exports = { child }\n",
				"b.js":         "const { globalTracer } = require('opentracing')\nconst { child } = require('./a')\nexports.f = () => {\n  const s = globalTracer().startSpan('root')\n  child(s, s.context())\n  s.finish()\n}\n",
			},
			"a.js",
			[]string{"parent.setAttribute('a', 1)", "startSpan('child', {}, trace.setSpan(ROOT_CONTEXT, parent))", "startSpan('x', {}, other)"},
			nil,
		},
		"the context of a parent of an unknown type, JavaScript": {
			map[string]string{
				"package.json": "{\"dependencies\": {\"opentracing\": \"1\"}}\n",
				"a.js":         "const { globalTracer } = require('opentracing')\nexports.default = (parent) => {\n  globalTracer().startSpan('a', { childOf: parent.context() }).finish()\n  parent.finish()\n}\n",
			},
			"a.js",
			[]string{"startSpan('a', {}, trace.setSpan(ROOT_CONTEXT, parent)).end()", "  parent.end()"},
			nil,
		},
		"a parent that all calls pass, Python": {
			map[string]string{
				"requirements.txt": "opentracing\n",
				"a.py":             "import opentracing\n\n\nclass A:\n    def child(self, parent, other=None):\n        opentracing.tracer.start_span('a', child_of=parent).finish()\n        opentracing.tracer.start_span('b', child_of=other).finish()\n\n    def f(self, parent):\n        opentracing.tracer.start_span('c', child_of=parent.context).finish()\n",
				"b.py":             "import opentracing\nfrom a import A\n\n\ndef f():\n    with opentracing.tracer.start_active_span('root') as scope:\n        A().child(scope.span)\n        A().child(scope.span, other=scope.span)\n",
			},
			"a.py",
			[]string{"start_span('a', context=trace.set_span_in_context(parent)).end()", "start_span('b', context=trace.set_span_in_context(other) if other else None).end()", "start_span('c', context=trace.set_span_in_context(parent)).end()"},
			nil,
		},
		"baggage that is set in a with statement, Python": {
			map[string]string{
				"requirements.txt": "opentracing\n",
				"a.py":             "import opentracing\n\ntracer = opentracing.global_tracer()\n\n\ndef f(greeting):\n    with tracer.start_active_span('a') as scope:\n        if greeting:\n            scope.span.set_baggage_item('greeting', greeting)\n        with open('b') as b:\n            return scope.span.get_baggage_item('greeting')\n",
			},
			"a.py",
			[]string{"from opentelemetry import baggage, context, trace\n", "            context.attach(baggage.set_baggage('greeting', greeting))\n", "return baggage.get_baggage('greeting')\n"},
			nil,
		},
		"baggage of a remote parent, Python": {
			map[string]string{
				"requirements.txt": "opentracing\n",
				"a.py":             "import opentracing\n\ntracer = opentracing.global_tracer()\n\n\ndef f(request):\n    span_ctx = tracer.extract('http_headers', request.headers)\n    with tracer.start_active_span('a', child_of=span_ctx) as scope:\n        return scope.span.get_baggage_item('greeting')\n",
			},
			"a.py",
			[]string{"return baggage.get_baggage('greeting', context=span_ctx)\n"},
			nil,
		},
		"baggage of a remote parent, JavaScript": {
			map[string]string{
				"package.json": "{\"dependencies\": {\"opentracing\": \"1\"}}\n",
				"a.js":         "const { globalTracer, FORMAT_HTTP_HEADERS } = require('opentracing')\nconst tracer = globalTracer()\nexports.f = (req) => {\n  const parent = tracer.extract(FORMAT_HTTP_HEADERS, req.headers)\n  const span = tracer.startSpan('a', { childOf: parent })\n  const greeting = span.getBaggageItem('greeting') || 'Hello'\n  span.finish()\n  return greeting\n}\n",
			},
			"a.js",
			[]string{"const greeting = propagation.getBaggage(parent)?.getEntry('greeting')?.value || 'Hello'\n"},
			nil,
		},
		"metrics of OpenCensus beside its traces": {
			golang("\t\"context\"\n\n\t\"go.opencensus.io/stats\"\n\t\"go.opencensus.io/tag\"\n\t\"go.opencensus.io/trace\"\n",
				"var hits = stats.Int64(\"hits\", \"Hits\", stats.UnitDimensionless)\n\nfunc f(ctx context.Context) {\n\tctx, span := trace.StartSpan(ctx, \"a\")\n\tdefer span.End()\n\tctx, _ = tag.New(ctx)\n\tstats.Record(ctx, hits.M(1))\n}\n"),
			"a.go",
			[]string{"\"go.opencensus.io/stats\"\n", "\tctx, span := otel.Tracer(", "\tstats.Record(ctx, hits.M(1))\n"},
			[]string{"opencensus.io/trace"},
		},
		"baggage of a remote parent, Go": {
			golang("\t\"net/http\"\n\n\t\"github.com/opentracing/opentracing-go\"\n\t\"github.com/opentracing/opentracing-go/ext\"\n",
				"func f(tracer opentracing.Tracer, r *http.Request) string {\n\tsc, _ := tracer.Extract(opentracing.HTTPHeaders, opentracing.HTTPHeadersCarrier(r.Header))\n\tspan := tracer.StartSpan(\"format\", ext.RPCServerOption(sc))\n\tdefer span.Finish()\n\tgreeting := span.BaggageItem(\"greeting\")\n\tif greeting == \"\" {\n\t\tgreeting = \"Hello\"\n\t}\n\treturn greeting\n}\n"),
			"a.go",
			[]string{"\t_, span := tracer.Start(sc, \"format\", ", "\tgreeting := baggage.FromContext(sc).Member(\"greeting\").Value()\n"},
			[]string{"opentracing"},
		},
		"carriers that are made before": {
			golang("\t\"net/http\"\n\n\t\"github.com/opentracing/opentracing-go\"\n\t\"google.golang.org/grpc/metadata\"\n",
				"func inject(sc opentracing.SpanContext, h http.Header) (opentracing.TextMapCarrier, error) {\n\tm := make(opentracing.TextMapCarrier)\n\tif err := opentracing.GlobalTracer().Inject(sc, opentracing.TextMap, m); err != nil {\n\t\treturn nil, err\n\t}\n\theaders := opentracing.HTTPHeadersCarrier(h)\n\t_ = opentracing.GlobalTracer().Inject(sc, opentracing.HTTPHeaders, headers)\n\tm.Set(\"a\", \"b\")\n\treturn m, nil\n}\n\nfunc f(h map[string]string) (metadata.MD, error) {\n\tcarrier := opentracing.TextMapCarrier(h)\n\tsc, err := opentracing.GlobalTracer().Extract(opentracing.TextMap, carrier)\n\tif err != nil {\n\t\treturn nil, err\n\t}\n\tspan := opentracing.StartSpan(\"a\", opentracing.ChildOf(sc))\n\tdefer span.Finish()\n\tif err := carrier.ForeachKey(func(k, v string) error { return nil }); err != nil {\n\t\treturn nil, err\n\t}\n\treturn metadata.New(carrier), nil\n}\n\nfunc g(md metadata.MD) {\n\tsc, _ := opentracing.GlobalTracer().Extract(opentracing.HTTPHeaders, opentracing.HTTPHeadersCarrier(md.Copy()))\n\tspan := opentracing.StartSpan(\"a\", opentracing.ChildOf(sc))\n\tspan.Finish()\n}\n"),
			"a.go",
			[]string{
				"\tm := make(propagation.MapCarrier)\n\totel.GetTextMapPropagator().Inject(sc, m)\n\theaders := propagation.HeaderCarrier(h)\n\totel.GetTextMapPropagator().Inject(sc, headers)\n\tm.Set(\"a\", \"b\")\n",
				"\tcarrier := propagation.MapCarrier(h)\n\tsc := otel.GetTextMapPropagator().Extract(context.Background(), carrier)\n",
				"if err := forEachKey(carrier, func(k, v string) error { return nil }); err != nil {", "metadata.New(carrier)",
				"sc := otel.GetTextMapPropagator().Extract(context.Background(), propagation.HeaderCarrier(md.Copy()))",
			},
			[]string{"opentracing"},
		},
		"a kind that is set late, Go": {
			golang("\t\"github.com/opentracing/opentracing-go\"\n\t\"github.com/opentracing/opentracing-go/ext\"\n",
				"func f(s opentracing.Span, kind string) {\n\ts.SetTag(\"span.kind\", \"client\")\n\ts.SetTag(string(ext.SpanKind), ext.SpanKindRPCServerEnum)\n\ts.SetTag(\"span.kind\", kind)\n\text.SpanKindRPCClient.Set(s)\n\text.SpanKind.Set(s, ext.SpanKindProducerEnum)\n}\n"),
			"a.go",
			[]string{
				"\ts.SetAttributes(attribute.String(\"span.kind\", \"client\"))\n\ts.SetAttributes(attribute.String(\"span.kind\", \"server\"))\n\ts.SetAttributes(attribute.String(\"span.kind\", kind))\n",
				"\ts.SetAttributes(attribute.String(\"span.kind\", \"client\"))\n\ts.SetAttributes(attribute.String(\"span.kind\", \"producer\"))\n}",
			},
			nil,
		},
		"a kind that is set late, JavaScript": {
			map[string]string{
				"package.json": "{\"dependencies\": {\"opentracing\": \"1\"}}\n",
				"a.js":         "const { Tags } = require('opentracing')\nexports.f = (span, kind) => {\n  span.setTag(Tags.SPAN_KIND, Tags.SPAN_KIND_RPC_CLIENT)\n  span.setTag('span.kind', kind)\n}\n",
			},
			"a.js",
			[]string{"  span.setAttribute('span.kind', 'client')\n  span.setAttribute('span.kind', kind)\n"},
			[]string{"opentracing"},
		},
		"a kind that is set late, Python": {
			map[string]string{
				"requirements.txt": "opentracing\n",
				"a.py":             "import opentracing\nfrom opentracing.ext import tags\n\n\ndef f(kind):\n    span = opentracing.tracer.active_span\n    span.set_tag(tags.SPAN_KIND, tags.SPAN_KIND_RPC_CLIENT)\n    span.set_tag(\"span.kind\", kind)\n",
			},
			"a.py",
			[]string{"    span.set_attribute(\"span.kind\", \"client\")\n    span.set_attribute(\"span.kind\", kind)\n"},
			[]string{"opentracing", "tags"},
		},
		"an error with a traceback": {
			map[string]string{
				"requirements.txt": "ddtrace\n",
				"a.py":             "from ddtrace import tracer\n\n\ndef f():\n    with tracer.trace('a') as span:\n        try:\n            g()\n        except ValueError as e:\n            span.error = 1\n            span.set_traceback()\n",
			},
			"a.py",
			[]string{"        except ValueError as e:\n            span.record_exception(e)\n            span.set_status(trace.StatusCode.ERROR, str(e))\n"},
			nil,
		},
		"a kind that is set late, Java": {
			javaCode("Span s = tracer.buildSpan(\"a\").start();\nif (span == s) {\ns.setTag(\"span.kind\", \"client\");\n}\nTags.SPAN_KIND.set(span, Tags.SPAN_KIND_SERVER);"),
			"A.java",
			[]string{"\ns.setAttribute(\"span.kind\", \"client\");\n", "\nspan.setAttribute(\"span.kind\", \"server\");\n"},
			[]string{"Tags"},
		},
		"parents that may be undefined in TypeScript": {
			map[string]string{
				"package.json": "{\"dependencies\": {\"dd-trace\": \"5\"}}\n",
				"a.ts":         "import tracer, { Span } from 'dd-trace';\nexport function active(parentSpan: Span | undefined, request: { span?: Span }) {\n  tracer.startSpan('a', { childOf: tracer.scope().active() ?? undefined }).finish();\n  tracer.startSpan('b', { childOf: parentSpan }).finish();\n  tracer.startSpan('c', { childOf: request.span || undefined }).finish();\n  const span = tracer.scope().active();\n  tracer.startSpan('d', { childOf: span }).finish();\n  tracer.inject(tracer.scope().active(), 'text_map', {});\n}\nexport function given(parentSpan: Span, other?: Span) {\n  const span = tracer.startSpan('e', { childOf: parentSpan });\n  tracer.startSpan('f', { childOf: span }).finish();\n  tracer.startSpan('g', { childOf: span.context() }).finish();\n}\n",
			},
			"a.ts",
			[]string{
				".startSpan('a', {}, context.active()).end()", ".startSpan('b', {}, parentSpan ? trace.setSpan(ROOT_CONTEXT, parentSpan) : ROOT_CONTEXT).end()",
				".startSpan('c', {}, request.span ? trace.setSpan(ROOT_CONTEXT, request.span) : ROOT_CONTEXT).end()",
				"const span = trace.getActiveSpan();", ".startSpan('d', {}, span ? trace.setSpan(ROOT_CONTEXT, span) : ROOT_CONTEXT).end()", "propagation.inject(context.active(), {})",
				".startSpan('e', {}, trace.setSpan(ROOT_CONTEXT, parentSpan));", ".startSpan('f', {}, trace.setSpan(ROOT_CONTEXT, span)).end()", ".startSpan('g', {}, trace.setSpan(ROOT_CONTEXT, span)).end()",
			},
			nil,
		},
		"caught errors in TypeScript": {
			map[string]string{
				"package.json": "{\"dependencies\": {\"opentracing\": \"^0.14.7\"}}\n",
				"a.ts":         "import { globalTracer } from 'opentracing';\nexport function f(work: () => void) {\n  const span = globalTracer().startSpan('a');\n  try {\n    work();\n  } catch (e) {\n    span.setTag('error', e);\n    span.log({ event: 'error', 'error.object': e });\n  }\n}\n",
			},
			"a.ts",
			[]string{"    span.recordException(e as Error);\n", "message: (e as Error).message });\n    span.recordException(e as Error);\n"},
			nil,
		},
		"a span of two that may be undefined": {
			map[string]string{
				"package.json": "{\"dependencies\": {\"dd-trace\": \"5\"}}\n",
				"a.js":         "const tracer = require('dd-trace');\nexports.f = (parentSpan) => tracer.startSpan('a', { childOf: parentSpan || tracer.scope().active() });\n",
			},
			"a.js",
			[]string{"trace.setSpan(ROOT_CONTEXT, parentSpan || trace.getActiveSpan())"},
			nil,
		},
		"the logger and the metrics of the Jaeger client": {
			golang("\t\"log\"\n\n\t\"github.com/opentracing/opentracing-go\"\n\t\"github.com/uber/jaeger-client-go\"\n\tjaegercfg \"github.com/uber/jaeger-client-go/config\"\n\tjaegerlog \"github.com/uber/jaeger-client-go/log\"\n\t\"github.com/uber/jaeger-lib/metrics\"\n",
				"func f() {\n\tcfg := jaegercfg.Configuration{ServiceName: \"s\", Sampler: &jaegercfg.SamplerConfig{Type: jaeger.SamplerTypeConst, Param: 1}}\n\ttracer, closer, err := cfg.NewTracer(\n\t\tjaegercfg.Logger(jaegerlog.StdLogger),\n\t\tjaegercfg.Metrics(metrics.NullFactory),\n\t)\n\tif err != nil {\n\t\tlog.Fatal(err)\n\t}\n\tdefer closer.Close()\n\topentracing.SetGlobalTracer(tracer)\n}\n"),
			"a.go",
			[]string{"_, closer, err := newTracer(\"s\", sdktrace.WithSampler("},
			[]string{"jaeger-", "opentracing"},
		},
		"an error of the environment that a later statement needs": {
			golang("\t\"io\"\n\t\"log\"\n\n\t\"github.com/opentracing/opentracing-go\"\n\tjaegercfg \"github.com/uber/jaeger-client-go/config\"\n",
				"type adapter struct{}\n\nfunc (adapter) Error(string) {}\nfunc (adapter) Infof(string, ...any) {}\n\nvar closer io.Closer\n\nfunc f() {\n\tcfg, err := jaegercfg.FromEnv()\n\tif err != nil {\n\t\tlog.Fatal(err)\n\t}\n\tlogger := adapter{}\n\tvar tracer opentracing.Tracer\n\ttracer, closer, err = cfg.NewTracer(jaegercfg.Logger(logger))\n\tif err != nil {\n\t\tlog.Fatal(err)\n\t}\n\topentracing.SetGlobalTracer(tracer)\n}\n"),
			"a.go",
			[]string{"\tvar err error\n\t_ = adapter{}\n", "tracer, closer, err = newTracer(\"\")"},
			[]string{"jaeger-", "FromEnv"},
		},
		"a controller of mocks beside spans": {
			golang("\t\"context\"\n\n\t\"github.com/golang/mock/gomock\"\n\t\"github.com/opentracing/opentracing-go\"\n",
				"func f(ctx context.Context, t gomock.TestReporter) {\n\tctrl := gomock.NewController(t)\n\tdefer ctrl.Finish()\n\tspan, _ := opentracing.StartSpanFromContext(ctx, \"a\")\n\tdefer span.Finish()\n}\n"),
			"a.go",
			[]string{"defer ctrl.Finish()", "defer span.End()"},
			nil,
		},
		"an import that only the agent's address uses": {
			golang("\t\"net\"\n\t\"os\"\n\n\t\"gopkg.in/DataDog/dd-trace-go.v1/ddtrace/tracer\"\n",
				"func f() {\n\ttracer.Start(tracer.WithService(\"x\"), tracer.WithAgentAddr(net.JoinHostPort(os.Getenv(\"DD_AGENT_HOST\"), \"8126\")))\n\tdefer tracer.Stop()\n\ts := tracer.StartSpan(\"a\")\n\ts.Finish()\n}\n"),
			"a.go",
			[]string{"otel.Tracer"},
			[]string{"\"net\"", "\"os\""},
		},
		"an import that only the removed test of an error uses": {
			golang("\t\"errors\"\n\t\"net/http\"\n\n\t\"github.com/opentracing/opentracing-go\"\n",
				"func f(req *http.Request) {\n\tsc, err := opentracing.GlobalTracer().Extract(opentracing.HTTPHeaders, opentracing.HTTPHeadersCarrier(req.Header))\n\tif err != nil && !errors.Is(err, opentracing.ErrSpanContextNotFound) {\n\t\tpanic(err)\n\t}\n\tspan := opentracing.GlobalTracer().StartSpan(\"do\", opentracing.ChildOf(sc))\n\tspan.Finish()\n}\n"),
			"a.go",
			[]string{"\"net/http\"", "otel.Tracer"},
			[]string{"\"errors\""},
		},
		"a field for the error of an injection": {
			golang("\t\"github.com/opentracing/opentracing-go\"\n",
				"type client struct{ err error }\n\nfunc (c *client) f(span opentracing.Span, headers opentracing.TextMapCarrier) {\n\tc.err = opentracing.GlobalTracer().Inject(span.Context(), opentracing.TextMap, headers)\n\tif c.err != nil {\n\t\tpanic(c.err)\n\t}\n}\n"),
			"a.go",
			[]string{".Inject(", "c.err = error(nil)"},
			nil,
		},
		"a returned tracer of Zipkin": {
			golang("\t\"github.com/openzipkin/zipkin-go\"\n\tzipkinhttp \"github.com/openzipkin/zipkin-go/reporter/http\"\n",
				"func f() (*zipkin.Tracer, error) {\n\treporter := zipkinhttp.NewReporter(\"http://zipkin:9411/api/v2/spans\")\n\tendpoint, _ := zipkin.NewEndpoint(\"shop\", \"\")\n\treturn zipkin.NewTracer(reporter, zipkin.WithLocalEndpoint(endpoint))\n}\n"),
			"a.go",
			[]string{"(trace.Tracer, error)", "return newServiceTracer(\"shop\")"},
			nil,
		},
		"an import that other code uses stays": {
			golang("\t\"errors\"\n\t\"log\"\n\t\"net/http\"\n\n\t\"github.com/opentracing/opentracing-go\"\n",
				"var errInject = errors.New(\"inject\")\n\nfunc f(span opentracing.Span, req *http.Request) {\n\tif err := opentracing.GlobalTracer().Inject(span.Context(), opentracing.HTTPHeaders, opentracing.HTTPHeadersCarrier(req.Header)); err != nil {\n\t\tlog.Printf(\"inject: %v\", err)\n\t}\n}\n"),
			"a.go",
			[]string{"\"errors\"", "\"net/http\""},
			[]string{"\"log\""},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := migrated(t, write(t, tt.files))
			i := slices.IndexFunc(p.Files, func(f patch.File) bool { return f.Path == tt.file })
			require.GreaterOrEqual(t, i, 0, "%s", describe(t, p))
			for _, text := range tt.has {
				require.Contains(t, string(p.Files[i].After), text)
			}
			for _, text := range tt.not {
				require.NotContains(t, string(p.Files[i].After), text)
			}
		})
	}
}

// TestDependencies requires that steps name the dependencies that a migration does not replace, and no packages that
// nothing needs.
func TestDependencies(t *testing.T) {
	const java = "import io.opentracing.Span;\nimport io.opentracing.util.GlobalTracer;\n\nclass A {\n    void f() {\n        Span span = GlobalTracer.get().buildSpan(\"f\").start();\n        span.finish();\n    }\n}\n"
	for name, tt := range map[string]struct {
		files     map[string]string
		want, not string // in steps
	}{
		"a requirement by URL": {map[string]string{"requirements.txt": "flask\ngit+https://github.com/DataDog/dd-trace-py@v0.29.0#egg=ddtrace\n", "a.py": "import os\nimport ddtrace\n\nprint(os.name)\n"}, "requirements.txt:0: Remove the dependencies of the old libraries: the requirements name none in a form that is read.", "Install the packages"},
		"the shim": {
			map[string]string{
				"requirements.txt": "flask\nopentelemetry-opentracing-shim\n",
				"a.py":             "import opentracing\nfrom opentelemetry.shim.opentracing_shim import create_tracer\n\nopentracing.set_global_tracer(create_tracer(provider))\n\nwith opentracing.tracer.start_active_span('a'):\n    pass\n",
			}, "requirements.txt:2: Remove opentelemetry-opentracing-shim with the code that uses it", "Remove the dep",
		},
		"the shim in code": {
			map[string]string{
				"requirements.txt": "opentracing\n",
				"a.py":             "import opentracing\nfrom opentelemetry.shim.opentracing_shim import create_tracer\n\nopentracing.set_global_tracer(create_tracer(provider))\n\nwith opentracing.tracer.start_active_span('a'):\n    pass\n",
			}, "a.py:2: Remove the OpenTracing shim", "Remove the dep",
		},
		"a requirement":   {map[string]string{"requirements.txt": "ddtrace\n", "a.py": "from ddtrace import tracer\n\nwith tracer.trace('a'):\n    pass\n"}, "Install the packages of OpenTelemetry (opentelemetry-api, ", "Remove the dep"},
		"names in Gradle": {map[string]string{"build.gradle": "dependencies {\n    implementation group: 'io.opentracing', name: 'opentracing-util', version: '0.33.0'\n    implementation group: 'io.opentracing.contrib', name: 'opentracing-spring-jaeger-starter', version: '3.1.2'\n}\n", "src/main/java/A.java": java}, "build.gradle:3: io.opentracing.contrib:opentracing-spring-jaeger-starter is in no table", "Add the dep"},
	} {
		t.Run(name, func(t *testing.T) {
			p := migrated(t, write(t, tt.files))
			var steps strings.Builder
			for _, s := range p.Steps {
				fmt.Fprintf(&steps, "%s:%d: %s\n", s.File, s.Line, s.Text)
			}
			require.Contains(t, steps.String(), tt.want)
			require.NotContains(t, steps.String(), tt.not)
		})
	}
}

const (
	goMod  = "module example.com/shop\n\ngo 1.26.0\n\nrequire github.com/opentracing/opentracing-go v1.2.0\n"
	goFile = "package shop\n\nimport (\n\t\"context\"\n\n\t\"github.com/opentracing/opentracing-go\"\n%s)\n\n%s\n\nvar _ context.Context\nvar _ opentracing.Span\n"
)

// TestLeftRace checks that a unit stays unchanged if a part of it is in no table, and that the report names the
// location.
func TestLeftRace(t *testing.T) {
	goCode := func(imports, code string) map[string]string {
		return map[string]string{"go.mod": goMod, "shop.go": fmt.Sprintf(goFile, imports, code)}
	}
	jaegerCode := func(code, result string) map[string]string {
		return goCode("\t\"github.com/uber/jaeger-client-go/config\"\n\t\"io\"\n", "type own struct{ opentracing.Tracer }\n\nfunc make(n string) (opentracing.Tracer, io.Closer, error) {\n\tcfg := config.Configuration{ServiceName: n}\n\treturn "+result+"\n}\n\nfunc f() {\n\t"+code+"\n}")
	}
	goDatadog := func(code string) map[string]string {
		return map[string]string{"go.mod": goMod, "a.go": "package a\n\nimport \"gopkg.in/DataDog/dd-trace-go.v1/ddtrace/tracer\"\n\nfunc f() {\n\t" + code + "\n}\n"}
	}
	js := func(code string) map[string]string {
		return map[string]string{"package.json": `{"dependencies": {"opentracing": "^0.14.7"}}`, "a.js": "const opentracing = require('opentracing')\n" + code + "\n"}
	}
	python := func(code string) map[string]string {
		return map[string]string{"requirements.txt": "opentracing\n", "a.py": "import opentracing\n\ntracer = opentracing.tracer\n" + code + "\n"}
	}
	ddtrace := func(code string) map[string]string {
		return map[string]string{"requirements.txt": "ddtrace\n", "a.py": "from ddtrace import config, tracer\n\n" + code + "\n"}
	}
	jsCensus := func(code string) map[string]string {
		return map[string]string{"package.json": "{}", "a.js": "const tracing = require('@opencensus/nodejs')\nconst { SpanKind } = require('@opencensus/core')\nconst { ZipkinTraceExporter } = require('@opencensus/exporter-zipkin')\n" + code + "\n"}
	}
	datadog := func(code string) map[string]string {
		return map[string]string{"package.json": "{}", "a.js": "let tracer = require('dd-trace')\n" + code + "\n"}
	}
	zipkin := func(code string) map[string]string {
		return map[string]string{"package.json": "{}", "a.js": "const zipkin = require('zipkin')\nconst { Annotation } = require('zipkin')\n" + code + "\n"}
	}
	pyZipkin := func(code string) map[string]string {
		return map[string]string{"requirements.txt": "py_zipkin\n", "a.py": "from py_zipkin.transport import SimpleHTTPTransport\nfrom py_zipkin.zipkin import ZipkinAttrs, zipkin_span\n\n\n\n" + code + "\n"}
	}
	census := func(code string) map[string]string {
		return map[string]string{"requirements.txt": "opencensus\n", "a.py": "from opencensus.trace.print_exporter import PrintExporter\nfrom opencensus.trace.span import SpanKind\nfrom opencensus.trace.span_context import SpanContext\nfrom opencensus.trace.tracer import Tracer\n\n" + code + "\n"}
	}
	for name, tt := range map[string]struct {
		files map[string]string
		want  string
	}{
		"another reference":                           {js("const span = opentracing.globalTracer().startSpan('a', { references: [new opentracing.Reference(kind, parentSpan.context())] })"), "a.js:2: The reference is in no table."},
		"the end of a span of a function, Python":     {python("def start(n):\n    return tracer.start_span(n)\n\ndef f():\n    s = start(\"y\")\n    s.finish()"), "a.py:9: s.finish may be a method of a span"},
		"the end of a span of a function, JavaScript": {js("const start = (n) => opentracing.globalTracer().startSpan(n)\nconst s = start('y')\ns.finish()"), "a.js:4: s.finish may be a method of a span"},
		"the end of a span of another file": {
			map[string]string{"requirements.txt": "opentracing\n", "p/__init__.py": "", "p/t.py": "import opentracing\n\n\ndef start(n):\n    return opentracing.tracer.start_span(n)\n", "p/u.py": "from .t import start\n\n\ndef f():\n    s = start(\"y\")\n    s.finish()\n"},
			"p/u.py:6: s.finish may be a method of a span",
		},
		"a span of another file that needs an import": {
			map[string]string{"requirements.txt": "opentracing\n", "p/__init__.py": "", "p/t.py": "import opentracing\ntracer = opentracing.global_tracer()\n", "p/u.py": "from .t import tracer\n\n\ndef f():\n    return tracer.active_span.context\n"},
			"p/u.py:0: The file uses spans without an import of the library",
		},
		"the scope of a tracer of another file": {
			map[string]string{"package.json": "{}", "tracer.js": "module.exports = require('dd-trace').init()\n", "u.js": "const tracer = require('./tracer')\nmodule.exports = () => tracer.scope().active()?.context().toTraceId()\n"},
			"u.js:2: tracer.scope().active()?.context().toTraceId is in no table.",
		},
		"a call of another file in Java": {
			map[string]string{"pom.xml": "<project><dependencies><dependency><groupId>io.opentracing</groupId><artifactId>opentracing-api</artifactId></dependency></dependencies></project>\n", "src/main/java/a/Tracing.java": "package a;\n\nimport io.opentracing.Tracer;\nimport io.opentracing.util.GlobalTracer;\n\nclass Tracing {\n    static Tracer init() {\n        return GlobalTracer.get();\n    }\n}\n", "src/main/java/a/U.java": "package a;\n\nclass U {\n    void f() {\n        Tracing.init().scopeManager();\n    }\n}\n"},
			"U.java:5: Tracing.init().scopeManager is in no table.",
		},
		"a parent of two kinds":            {js("const f = (parent) => opentracing.globalTracer().startSpan('a', { childOf: parent })\nf(opentracing.globalTracer().startSpan('b'))\nf(spanContext)"), "a.js:2: It is not known whether parent is a span or a context."},
		"a parent of a callback":           {js("const f = (parent) => opentracing.globalTracer().startSpan('a', { childOf: parent })\nf(opentracing.globalTracer().startSpan('b'))\nlist.map(f)"), "a.js:2: It is not known whether parent is a span or a context."},
		"a parent of an exported function": {js("module.exports = function f (parent) { return opentracing.globalTracer().startSpan('a', { childOf: parent }) }"), "a.js:2: It is not known whether parent is a span or a context."},
		"a parent in a spread":             {js("const f = (parent) => opentracing.globalTracer().startSpan('a', { childOf: parent })\nf(...a)"), "a.js:2: It is not known whether parent is a span or a context."},
		"a parent in a spread, Python":     {python("def f(name, parent):\n    return tracer.start_span(name, child_of=parent)\n\nf('a', tracer.start_span('b'))\nf(*args)"), "a.py:5: It is not known whether parent is a span or a context."},
		"a parent in keywords, Python":     {python("def f(name, parent):\n    return tracer.start_span(name, child_of=parent)\n\nf('a', tracer.start_span('b'))\nf('a', **args)"), "a.py:5: It is not known whether parent is a span or a context."},
		"a parent of a decorator, Python":  {python("@app.task\ndef f(parent):\n    return tracer.start_span('a', child_of=parent)\n\nf(tracer.start_span('b'))"), "a.py:6: It is not known whether parent is a span or a context."},
		"a parent of another name, Python": {map[string]string{"requirements.txt": "opentracing\n", "a.py": "import opentracing\n\n\ndef f(parent):\n    return opentracing.tracer.start_span('a', child_of=parent)\n\n\nf(opentracing.tracer.start_span('b'))\n", "b.py": "from a import f as g\n\ng(1)\n"}, "a.py:5: It is not known whether parent is a span or a context."},
		"a context of its own, Python":     {python("def f(request):\n    request.context = g()\n    return tracer.start_span('a', child_of=request.context)"), "a.py:6: It is not known whether request.context is a span or a context."},
		"baggage":                          {goCode("", `func f(s opentracing.Span) { s.SetBaggageItem("a", "b") }`), "shop.go:9: s.SetBaggageItem is in no table."},
		"a type":                           {goCode("", "func f(o opentracing.StartSpanOptions) {}"), "shop.go:9: opentracing.StartSpanOptions is in no table."},
		"an unknown name":                  {goCode("", "var f = opentracing.InitGlobalTracer"), "shop.go:9: opentracing.InitGlobalTracer is in no table."},
		"an unknown package":               {goCode("\t_ \"github.com/opentracing-contrib/go-stdlib/nethttp\"\n", ""), "shop.go:7: The package github.com/opentracing-contrib/go-stdlib/nethttp is in no table."},
		"options in a slice":               {goCode("", "func f(o []opentracing.StartSpanOption) { opentracing.StartSpan(\"a\", o...).Finish() }"), "StartSpan"},
		"two parents":                      {goCode("", "func f(a, b opentracing.SpanContext) {\n\ts := opentracing.StartSpan(\"a\", opentracing.ChildOf(a), opentracing.FollowsFrom(b))\n\ts.Finish()\n}"), "shop.go:10: A span has one parent"},
		"a sampling decision":              {goCode("", "func f(s opentracing.Span) { s.SetTag(\"sampling.priority\", 1) }"), "The tag sampling.priority has no counterpart"},
		"an embedded span":                 {goCode("", "type span struct{ opentracing.Span }"), "shop.go:9: opentracing.Span is in no table."},
		"an own tracer":                    {goCode("", "type own struct{}\n\nfunc (own) StartSpan(n string, o ...opentracing.StartSpanOption) opentracing.Span { return nil }"), "StartSpanOption is in no table."},
		"a method value":                   {goCode("", "func f(s opentracing.Span) func() { return s.Finish }"), "shop.go:9: s.Finish is in no table."},
		"a span for another package":       {goCode("\t\"example.org/lib\"\n", "func f(s opentracing.Span) { lib.Use(s) }"), "shop.go:10: s is passed to lib.Use, a function of a package that is not read."},
		"a span from another package":      {goCode("\t\"example.org/lib\"\n", "func f() { lib.Span().SetTag(\"a\", 1) }"), "lib.Span().SetTag may be a method of a span"},
		"a start in an expression":         {goCode("", "func f(ctx context.Context) context.Context {\n\treturn opentracing.ContextWithSpan(ctx, opentracing.StartSpan(\"a\"))\n}"), "opentracing.StartSpan is part of an expression here"},
		"an import with a dot":             {goCode("\t. \"github.com/opentracing/opentracing-go/ext\"\n", ""), `The import of github.com/opentracing/opentracing-go/ext as "." is in no table.`},
		"syntax errors":                    {goCode("", "func ("), "shop.go:0: The file has syntax errors"},
		"another tracer":                   {goCode("", "func f(t opentracing.Tracer) { opentracing.SetGlobalTracer(t) }"), "shop.go:9: The tracer is not made by the configuration of the Jaeger client"},
		"half a sampler":                   {goCode("\t\"github.com/uber/jaeger-client-go/config\"\n", "func f() {\n\tcfg, _ := config.FromEnv()\n\tcfg.Sampler.Param = 1\n\t_, _ = cfg.InitGlobalTracer(\"a\")\n}"), "shop.go:12: The sampler is in no table"},
		"a setting of one branch":          {goCode("\t\"github.com/uber/jaeger-client-go/config\"\n", "func f(b bool) {\n\tcfg, _ := config.FromEnv()\n\tif b {\n\t\tcfg.ServiceName = \"a\"\n\t}\n\t_, _ = cfg.InitGlobalTracer(\"\")\n}"), "FromEnv is assigned in a way that no table knows."},
		"another setting":                  {goCode("\t\"github.com/uber/jaeger-client-go/config\"\n", "func f() {\n\tcfg, _ := config.FromEnv()\n\tcfg.Disabled = true\n\t_, _ = cfg.InitGlobalTracer(\"\")\n}"), "shop.go:12: The field Disabled of the configuration is in no table."},
		"one of several tracers":           {jaegerCode("a, _, _ := make(\"a\")\n\tb, _, _ := make(\"b\")\n\topentracing.SetGlobalTracer(a)\n\tb.StartSpan(\"c\").Finish()", "cfg.NewTracer()"), "or it is one of several."},
		"a tracer around another":          {jaegerCode("a, _, _ := make(\"a\")\n\topentracing.SetGlobalTracer(a)", "own{}, nil, nil"), "The tracer is not made by the configuration of the Jaeger client"},
		"a parent in a loop":               {goCode("", "func f(l []opentracing.SpanContext) {\n\tvar o []opentracing.StartSpanOption\n\tfor _, c := range l {\n\t\to = append(o, opentracing.ChildOf(c))\n\t}\n\topentracing.StartSpan(\"a\", o...).Finish()\n}"), "opentracing.StartSpanOption is in no table."},
		"two parents in a slice":           {goCode("", "func f(a, b opentracing.SpanContext) {\n\to := []opentracing.StartSpanOption{opentracing.ChildOf(a)}\n\to = append(o, opentracing.ChildOf(b))\n\ts := opentracing.StartSpan(\"a\", o...)\n\ts.Finish()\n}"), "The options of opentracing.StartSpan are a slice"},
		"a parent besides the context":     {goCode("", "func f(ctx context.Context, a opentracing.SpanContext) {\n\to := []opentracing.StartSpanOption{opentracing.ChildOf(a)}\n\ts, _ := opentracing.StartSpanFromContext(ctx, \"a\", o...)\n\ts.Finish()\n}"), "shop.go:11: The span has a parent besides the context."},
		"a slice that others get":          {goCode("", "func g(o []opentracing.StartSpanOption) {}\n\nfunc f() {\n\tvar o []opentracing.StartSpanOption\n\tg(o)\n}"), "shop.go:12: opentracing.StartSpanOption is in no table."},
		"an id for other code":             {map[string]string{"go.mod": goMod, "a.go": "package a\n\nimport (\n\t\"encoding/json\"\n\n\t\"go.opencensus.io/trace\"\n)\n\nvar b, _ = json.Marshal(trace.TraceID{})\n"}, "a.go:9: trace.TraceID{} is passed to json.Marshal"},
		"Datadog: another service":         {goDatadog("tracer.Start(tracer.WithService(\"a\"))\n\ts := tracer.StartSpan(\"b\", tracer.ServiceName(\"c\"))\n\ts.Finish()"), "a.go:7: The service of a span is not known to be that of the tracer"},
		"Datadog: several rules":           {goDatadog("tracer.Start(tracer.WithSamplingRules([]tracer.SamplingRule{tracer.RateRule(1), tracer.RateRule(0)}))"), "a.go:6: tracer.Start is used in a way that no table knows."},
		"Datadog: a resource in a slice":   {goDatadog("o := []tracer.StartSpanOption{tracer.ResourceName(\"a\")}\n\ttracer.StartSpan(\"b\", o...).Finish()"), "a.go:6: tracer.ResourceName(\"...\") is in no table as an option in a slice."},
		"a tracer of a call":               {goCode("", "func g() opentracing.Span { return nil }\n\nfunc f(s opentracing.Span) error { return g().Tracer().Inject(s.Context(), opentracing.TextMap, opentracing.TextMapCarrier{}) }"), "shop.go:11: g().Tracer is in no table."},
		"OpenTelemetry before 1.0":         {map[string]string{"go.mod": goMod + "\nrequire go.opentelemetry.io/otel v0.16.0 // indirect\n", "shop.go": goCode("", "")["shop.go"]}, "The module requires go.opentelemetry.io/otel@v0.16.0, whose API has changed since"},
		"no module":                        {map[string]string{"shop.go": goCode("", "")["shop.go"]}, "shop.go:0: The file belongs to no Go module"},
		"a variable that would be lost":    {goCode("", "func f(t opentracing.Tracer, c opentracing.SpanContext) {\n\tx := opentracing.Binary\n\t_ = t.Inject(c, x, nil)\n}"), "opentracing.Binary is in no table."},
		"JavaScript: references":           {js("const span = opentracing.globalTracer().startSpan('a', { references: both })"), "a.js:2: A span has one parent"},
		"JavaScript: baggage":              {js("exports.f = (span) => span.setBaggageItem('a', 'b')"), "a.js:2: span.setBaggageItem is in no table."},
		"JavaScript: an unknown value":     {js("exports.f = (x) => x.setTag('a', 'b')"), "a.js:2: x.setTag may be a method of a span"},
		"TypeScript: one of two parents":   {map[string]string{"package.json": "{\"dependencies\": {\"dd-trace\": \"5\"}}\n", "a.ts": "import tracer, { Span } from 'dd-trace';\nexport const f = (parentSpan?: Span) => tracer.startSpan('a', { childOf: parentSpan ?? tracer.scope().active() });\n"}, "a.ts:2: parentSpan ?? tracer.scope().active() may be undefined. Assign it to a variable."},
		"JavaScript: an unknown parent":    {js("exports.f = (x) => opentracing.globalTracer().startSpan('a', { childOf: x })"), "a.js:2: It is not known whether x is a span or a context."},
		"JavaScript: tags of a variable":   {js("exports.f = (tags) => opentracing.globalTracer().startSpan('a', { tags: tags })"), "a.js:2: The tags of startSpan are no object literal."},
		"JavaScript: an unknown name":      {js("module.exports = new opentracing.MockTracer()"), "a.js:2: opentracing.MockTracer is in no table"},
		"JavaScript: a branch":             {js("try { f() } catch (e) {\n  if (e) span.setTag('error', e)\n}"), "a.js:3: The tag error has the value e, which no table knows."},
		"JavaScript: a bound function":     {js("const { globalTracer } = opentracing\nglobalTracer().startSpan('a')"), "a.js:3: globalTracer is used in a way that no table knows."},
		"dd-trace: a plugin":               {datadog("tracer.use('express')"), "a.js:2: tracer.use is in no table."},
		"dd-trace: an unknown member":      {datadog("f(tracer.llmobs)"), "a.js:2: tracer.llmobs is in no table"},
		"dd-trace: a setting":              {datadog("tracer.init({ tags })"), "a.js:2: The setting tags of the Datadog tracer is in no table."},
		"dd-trace: options elsewhere":      {datadog("tracer.trace('a', options, f)"), "a.js:2: The options of trace are no object literal."},
		"dd-trace: options of a call":      {datadog("tracer.wrap('a', { tags: x }, f)"), "a.js:2: The tags of wrap are no object literal."},
		"dd-trace: no function":            {datadog("tracer.trace('a', {})"), "a.js:2: The arguments of trace are in no table."},
		"dd-trace: an option":              {datadog("tracer.trace('a', { measured: true }, f)"), "a.js:2: The option measured of trace is in no table."},
		"dd-trace: two services":           {datadog("tracer.trace('a', { service: 'b' }, f)\ntracer.trace('a', { service: 'c' }, f)"), "a.js:3: The span has another service than others"},
		"dd-trace: a scope":                {datadog("const scope = tracer.scope()"), "a.js:2: tracer.scope is in no table."},
		"dd-trace: an assigned tracer":     {datadog("tracer = tracer.init()"), "a.js:2: tracer is in no table, or used in a way that no table knows."},
		"dd-trace: an id":                  {datadog("f(span.context().toTraceId())"), "a.js:2: span.context().toTraceId is in no table."},
		"zipkin-js: an instrumentation":    {zipkin("const { expressMiddleware } = require('zipkin-instrumentation-express')"), "a.js:3: The module zipkin-instrumentation-express is in no table."},
		"zipkin-js: a joined span":         {zipkin("tracer.scoped(() => tracer.join(id))"), "a.js:3: tracer.scoped(() => tracer.join(id)) is in no table"},
		"zipkin-js: an id alone":           {zipkin("const id = tracer.createChildId()"), "a.js:3: tracer.createChildId() is in no table"},
		"zipkin-js: an id that is set":     {zipkin("tracer.setId(tracer.createRootId())"), "a.js:3: tracer.setId(tracer.createRootId()) is in no table"},
		"zipkin-js: no kind":               {zipkin("tracer.scoped(() => {\n  tracer.setId(tracer.createChildId())\n  tracer.recordRpc('a')\n})"), "a.js:4: The kind of the span is not known where it starts."},
		"zipkin-js: an unknown parent":     {zipkin("tracer.letId(tracer.createChildId(x), () => {\n  tracer.recordAnnotation(new Annotation.ClientSend())\n})"), "a.js:3: The parent of the span is not known."},
		"zipkin-js: a name of a branch":    {zipkin("tracer.letId(tracer.createChildId(), () => {\n  if (f) tracer.recordRpc('a')\n  tracer.recordAnnotation(new Annotation.LocalOperationStart('b'))\n})"), "a.js:3: tracer.letId(tracer.createChildId(), () => {... is in no table"},
		"zipkin-js: two services":          {zipkin("const t = new zipkin.Tracer({ localServiceName: 'a' })\nconst u = new zipkin.Tracer({ localServiceName: name })"), "a.js:4: The tracer has another service than spans"},
		"zipkin-js: another service":       {zipkin("tracer.letId(tracer.createChildId(), () => {\n  tracer.recordServiceName('a')\n  tracer.recordServiceName('b')\n})"), "a.js:5: The span has another service than others"},
		"zipkin-js: an address":            {zipkin("tracer.recordAnnotation(new Annotation.LocalAddr({ port: 1 }))"), "a.js:3: tracer.recordAnnotation(new Annotation.LocalAddr({ port: 1 })) is in no table"},
		"zipkin-js: a start elsewhere":     {zipkin("tracer.recordAnnotation(new Annotation.ClientSend())"), "a.js:3: tracer.recordAnnotation(new Annotation.ClientSend()) is in no table"},
		"zipkin-js: an own recorder":       {zipkin("const t = new zipkin.Tracer({ ctxImpl: new zipkin.ExplicitContext(), recorder })"), "a.js:3: recorder is in no table as a part of the setup."},
		"zipkin-js: default tags":          {zipkin("const t = new zipkin.Tracer({ defaultTags: {} })"), "a.js:3: defaultTags: {} is in no table as a part of the setup."},
		"zipkin-js: the current id":        {zipkin("f(tracer.id)"), "a.js:3: tracer.id is in no table"},
		"zipkin-js: an unknown value":      {zipkin("exports.f = (x) => { x.recordBinary('a', 'b') }"), "a.js:3: x.recordBinary(\"...\", \"...\") is in no table"},
		"zipkin-js: a request":             {zipkin("zipkin.Request.addZipkinHeaders(r, id)"), "a.js:3: zipkin.Request is in no table"},
		"zipkin-js: an encoder":            {zipkin("const { jsonEncoder: { JSON_V2 } } = require('zipkin')\nf(JSON_V2)"), "a.js:4: JSON_V2 is used in a way that no table knows."},
		"Python: a choice of spans":        {python("span = tracer.active_span or f()"), "a.py:4: tracer.active_span or f() is in no table: OpenTelemetry always has a current span"},
		"Python: an active scope":          {python("f(tracer.scope_manager.active)"), "a.py:4: tracer.scope_manager is in no table."},
		"Python: a caught scope":           {python("scope = tracer.start_active_span('a')\ntry:\n    f()\nexcept OSError:\n    pass\nfinally:\n    scope.close()"), "a.py:4: start_active_span outside of a with statement is in no table."},
		"Python: a commented scope":        {python("scope = tracer.start_active_span('a')\ntry:\n    f()\nfinally:\n    # why\n    scope.close()"), "a.py:4: start_active_span outside of a with statement is in no table."},
		"Python: tags that change":         {python("def f():\n    t = {'a': 1}\n    t['b'] = 2\n    span = tracer.start_span('a', tags=t)"), "a.py:7: The tags of the span are no dictionary literal."},
		"JavaScript: tags of two spans":    {js("const t = { a: 1 }\nconst span = opentracing.globalTracer().startSpan('a', { tags: t })\nf(t)"), "a.js:3: The tags of startSpan are no object literal."},
		"Python: a scope":                  {python("scope = tracer.start_active_span('a')"), "a.py:4: start_active_span outside of a with statement is in no table."},
		"Python: a type":                   {map[string]string{"requirements.txt": "opentracing\n", "a.py": "from opentracing import SpanContext\n\n\ndef f(c: SpanContext):\n    pass\n"}, "a.py:1: SpanContext is in no table as a type."},
		"ddtrace: a root span":             {ddtrace("tracer.current_root_span()"), "a.py:3: tracer.current_root_span is in no table: OpenTelemetry does not keep"},
		"ddtrace: a wrapped generator":     {ddtrace("@tracer.wrap()\ndef f():\n    yield 1"), "a.py:3: wrap of a generator is in no table."},
		"ddtrace: a wrapped function":      {ddtrace("g = tracer.wrap()(f)"), "a.py:3: wrap outside of the decorators of a function is in no table."},
		"ddtrace: a span alone":            {ddtrace("span = tracer.trace('a')"), "a.py:3: trace outside of a with statement is in no table."},
		"ddtrace: an option":               {ddtrace("span = tracer.start_span('a', activate=True)"), "a.py:3: The option activate of a span is in no table."},
		"ddtrace: two services":            {ddtrace("config.service = 'a'\nwith tracer.trace('a', service='b'):\n    pass"), "a.py:4: The span has another service than others"},
		"ddtrace: a type of a variable":    {ddtrace("with tracer.trace('a', span_type=t):\n    pass"), "a.py:3: The type of the span is not known."},
		"ddtrace: a setting":               {ddtrace("config.flask['a'] = 1"), "a.py:3: config.flask is in no table"},
		"ddtrace: a member":                {ddtrace("f(tracer.agent_url)"), "a.py:3: tracer.agent_url is in no table"},
		"ddtrace: a field":                 {ddtrace("f(span.duration)"), "a.py:3: span.duration is in no table."},
		"ddtrace: no error":                {ddtrace("span.error = 0"), "a.py:3: span.error = 0 is in no table."},
		"ddtrace: tags of a variable":      {ddtrace("span.set_tags(tags)"), "a.py:3: The tags of set_tags are no dictionary literal."},
		"ddtrace: a tag alone":             {ddtrace("span.set_tag('manual.keep')"), "a.py:3: span.set_tag has other arguments than a key and a value."},
		"ddtrace: no exception":            {ddtrace("span.set_traceback()"), "a.py:3: set_traceback outside of an except clause is in no table."},
		"ddtrace: another exception":       {ddtrace("try:\n    f()\nexcept OSError as e:\n    span.set_exc_info(*g())"), "a.py:6: The arguments of set_exc_info are in no table."},
		"ddtrace: a propagator":            {ddtrace("from ddtrace.propagation.http import HTTPPropagator"), "a.py:3: ddtrace.propagation.http.HTTPPropagator is in no table."},
		"py_zipkin: a span alone":          {pyZipkin("s = zipkin_span('a', 'b')"), "a.py:6: A span outside of a with statement or decorator is in no table."},
		"py_zipkin: two services":          {pyZipkin("with zipkin_span('a'), zipkin_span('b'):\n    pass"), "a.py:6: The span has another service than others"},
		"py_zipkin: a storage":             {pyZipkin("with zipkin_span('a', span_storage=s):\n    pass"), "a.py:6: The argument span_storage of a span is in no table."},
		"py_zipkin: an unknown context":    {pyZipkin("with zipkin_span('a', zipkin_attrs=f(), transport_handler=h):\n    pass"), "a.py:6: It is not known whether f() is a context."},
		"py_zipkin: other headers":         {pyZipkin("a = ZipkinAttrs(m['HTTP_X_B3_TRACEID'], m['HTTP_X_B3_SPANID'], None, '0', True)"), "a.py:6: The context is not read from headers"},
		"py_zipkin: an own context":        {pyZipkin("a = ZipkinAttrs('1', '2', None, '0', True)"), "a.py:6: The context is not read from headers"},
		"py_zipkin: tags of a variable":    {pyZipkin("def f(tags):\n    with zipkin_span('a') as span:\n        span.update_binary_annotations(tags)"), "a.py:8: The arguments of span.update_binary_annotations are in no table."},
		"py_zipkin: an unknown value":      {pyZipkin("def f(x):\n    x.update_binary_annotations({})"), "a.py:7: x.update_binary_annotations may be a method of a span"},
		"py_zipkin: a used transport":      {pyZipkin("h = SimpleHTTPTransport('a', 1)\nh.send('')"), "a.py:7: h is used in a way that no table knows."},
		"py_zipkin: a shared transport":    {map[string]string{"requirements.txt": "", "a.py": pyZipkin("h = SimpleHTTPTransport('a', 1)")["a.py"], "b.py": "from a import (\n    h,\n)\n"}, "a.py:6: h is imported by another file."},
		"OpenCensus JS: a rate per root":   {jsCensus("tracing.tracer.startRootSpan({ name: 'a', samplingRate: 1 }, f)"), "a.js:4: samplingRate: 1 is no option of a span that a table knows."},
		"OpenCensus JS: a remote parent":   {jsCensus("tracing.tracer.startRootSpan({ name: 'a', spanContext: c }, f)"), "a.js:4: spanContext: c is no option of a span that a table knows."},
		"OpenCensus JS: other options":     {jsCensus("const o = { name: 'a', kind: 1 }\ntracing.tracer.startRootSpan(o, f)"), "a.js:5: o is no option of a span that a table knows."},
		"OpenCensus JS: a late kind":       {jsCensus("span.kind = SpanKind.CLIENT"), "a.js:4: The kind of a span is set when it starts"},
		"OpenCensus JS: a status":          {jsCensus("span.setStatus(code)"), "a.js:4: The status is not known."},
		"OpenCensus JS: a link":            {jsCensus("span.addLink('a', 'b', 1)"), "a.js:4: span.addLink is in no table"},
		"OpenCensus JS: a context":         {jsCensus("f(span.spanContext)"), "a.js:4: span.spanContext is in no table"},
		"OpenCensus JS: an unknown value":  {jsCensus("exports.f = (x) => x.addAttribute('a', 1)"), "a.js:4: x.addAttribute may be a method of a span"},
		"OpenCensus JS: defaults":          {jsCensus("tracing.start({ defaultAttributes: { a: 1 } })"), "a.js:4: defaultAttributes: { a: 1 } is in no table as a part of the setup."},
		"OpenCensus JS: a configuration":   {jsCensus("tracing.start(config)"), "a.js:4: config is in no table as a part of the setup."},
		"OpenCensus JS: an own exporter":   {jsCensus("tracing.start({ exporter: own })"), "a.js:4: own is in no table as a part of the setup."},
		"OpenCensus JS: a used exporter":   {jsCensus("const e = new ZipkinTraceExporter({})\ne.publish([])"), "a.js:5: e is used in a way that no table knows."},
		"OpenCensus JS: an export":         {jsCensus("export const e = new ZipkinTraceExporter({})"), "a.js:4: e is made in a way that no table knows."},
		"OpenCensus JS: an instance":       {jsCensus("const t = tracing.start()"), "a.js:4: tracing.start is in no table"},
		"OpenCensus JS: the end":           {jsCensus("tracing.stop()"), "a.js:4: tracing.stop is in no table"},
		"OpenCensus JS: statistics":        {jsCensus("const { globalStats } = require('@opencensus/core')\nglobalStats.f()"), "a.js:5: globalStats.f is in no table"},
		"OpenCensus: statistics":           {census("from opencensus.stats import stats"), "a.py:6: The module opencensus.stats is in no table."},
		"OpenCensus: another library":      {census("import opentracing"), "a.py:6: opentracing in a project of OpenCensus is in no table"},
		"OpenCensus: a remote parent":      {census("t = Tracer(span_context=SpanContext(trace_id=i))"), "a.py:6: The arguments of the tracer are in no table."},
		"OpenCensus: a parent elsewhere":   {census("def f(span_context):\n    t = Tracer(span_context=span_context)\n    g(t)"), "a.py:7: The arguments of the tracer are in no table."},
		"OpenCensus: another exporter":     {census("t = Tracer(exporter=own())"), "a.py:6: own() is in no table as a part of the tracer."},
		"OpenCensus: an exporter twice":    {census("if f:\n    e = PrintExporter()\nelse:\n    e = PrintExporter()\nt = Tracer(exporter=e)"), "a.py:9: e has several values"},
		"OpenCensus: a used exporter":      {census("e = PrintExporter()\ne.emit([])"), "a.py:7: e is used in a way that no table knows."},
		"OpenCensus: exporter of a call":   {census("e = PrintExporter(transport=t())\ndef f():\n    return Tracer(exporter=e)"), "a.py:8: e is in no table as a part of the tracer."},
		"OpenCensus: a start alone":        {census("def f():\n    tracer.start_span('a')"), "a.py:7: A span that starts outside of a with statement"},
		"OpenCensus: a span in a line":     {census("if f: tracer.start_span('a'); tracer.end_span()"), "a.py:6: A span that starts outside of a with statement"},
		"OpenCensus: headers in a line":    {census("if f: h = tracer.propagator.to_headers(tracer.span_context)"), "a.py:6: Headers are made in an expression that no table knows."},
		"py_zipkin: tags in a line":        {pyZipkin("with zipkin_span('a') as span: span.update_binary_annotations({'a': 'b', 'error': 'c'})"), "a.py:6: The arguments of span.update_binary_annotations are in no table."},
		"OpenCensus: an end alone":         {census("def f():\n    tracer.end_span()"), "a.py:7: No start of a span in the same block"},
		"OpenCensus: ends of branches":     {census("def f(ok):\n    tracer.start_span('a')\n    if ok:\n        tracer.end_span()"), "a.py:7: A span that starts outside of a with statement"},
		"OpenCensus: a late kind":          {census("def f(span):\n    span.span_kind = SpanKind.CLIENT"), "a.py:7: The kind of a span is set when it starts"},
		"OpenCensus: a status of a value":  {census("def f(span, s):\n    span.set_status(s)"), "a.py:7: The status is not known."},
		"OpenCensus: a link":               {census("def f(span, l):\n    span.add_link(l)"), "a.py:7: span.add_link is in no table."},
		"OpenCensus: attributes":           {census("def f(span):\n    return span.attributes"), "a.py:7: span.attributes is in no table."},
		"OpenCensus: an unknown value":     {census("def f(x):\n    with x.span('a'):\n        pass"), "a.py:7: x.span may be a method of a span or tracer"},
		"OpenCensus: the end of all":       {census("tracer.finish()"), "a.py:6: tracer.finish is in no table."},
		"OpenCensus: headers in a lambda":  {census("f = lambda: tracer.propagator.to_headers(tracer.span_context)"), "a.py:6: Headers are made in an expression that no table knows."},
		"OpenCensus: an own tracer":        {census("class Own(Tracer):\n    pass"), "a.py:6: Tracer is in no table, or used in a way that no table knows."},
		"Java: no build":                   {map[string]string{"A.java": javaCode("")["A.java"]}, "A.java:7: The file belongs to no build of Maven or Gradle."},
		"Java: baggage":                    {javaCode(`span.setBaggageItem("a", "b");`), "A.java:8: span.setBaggageItem is in no table."},
		"Java: two parents":                {javaCode("tracer.buildSpan(\"a\").asChildOf(span).asChildOf(parent).start();"), "A.java:8: A span has one parent"},
		"Java: parents of a variable":      {javaCode("Tracer.SpanBuilder b = tracer.buildSpan(\"a\");\nb.asChildOf(span);\nb.asChildOf(parent);"), "A.java:9: A span has one parent"},
		"Java: parents in a loop":          {javaCode("Tracer.SpanBuilder b = tracer.buildSpan(\"a\");\nfor (;;) b.asChildOf(span);"), "A.java:9: A span has one parent"},
		"Java: an unknown parent":          {javaCode("tracer.buildSpan(\"a\").asChildOf(parents.get(0)).start();"), "A.java:8: It is not known whether parents.get(0) is a span or a context."},
		"Java: an unknown value":           {javaCode(`parents.get(0).setTag("a", 1);`), "A.java:8: parents.get(0).setTag may be a method of a span"},
		"Java: an error with a variable":   {javaCode("Tags.ERROR.set(span, parents.isEmpty());"), "A.java:8: The tag error has a value or a place that no table knows."},
		"Java: a sampling decision":        {javaCode("Tags.SAMPLING_PRIORITY.set(span, 1);"), "A.java:8: The tag sampling.priority has no counterpart"},
		"Java: a large number":             {javaCode("java.math.BigDecimal n = null;\nspan.setTag(\"n\", n);"), "A.java:9: The value n is a BigDecimal, which no attribute is."},
		"Java: fields in a variable":       {javaCode("java.util.Map<String, Object> m = null;\nspan.log(m);"), "A.java:9: The fields of log are no literal map."},
		"Java: a field of any type":        {javaCode(`span.log(Map.of("a", parents.get(0)));`), "A.java:8: The type of the field \"...\" is not known"},
		"Java: a scope without try":        {javaCode(`Scope scope = tracer.buildSpan("a").startActive(true);`), "A.java:8: startActive outside of the first resource of a try statement is in no table."},
		"Java: the span of a scope":        {javaCode("Scope scope = null;\nscope.span();"), "A.java:9: The span of scope is not known"},
		"Java: another carrier":            {javaCode("tracer.inject(parent, Format.Builtin.HTTP_HEADERS, carrier);"), "A.java:8: The carrier carrier is in no table."},
		"Java: a binary format":            {javaCode("tracer.extract(Format.Builtin.BINARY, carrier);"), "A.java:8: The format Format.Builtin.BINARY is in no table."},
		"Java: a span for other code":      {javaCode("lib.use(span);"), "A.java:8: span is passed to lib.use, which is not read."},
		"Java: another tracer":             {javaCode("io.opentracing.mock.MockTracer m = null;"), "A.java:8: io.opentracing.mock.MockTracer is in no table."},
		"Java: an own tracer":              {map[string]string{"pom.xml": javaPOM, "A.java": "import io.opentracing.Tracer;\n\nabstract class A implements Tracer {}\n"}, "A.java:3: io.opentracing.Tracer is in no table, or used"},
		"Java: registration":               {javaCode("io.opentracing.util.GlobalTracer.registerIfAbsent(tracer);"), "A.java:8: The tracer is not made by the configuration of the Jaeger client"},
		"Java: an eager field":             {map[string]string{"pom.xml": javaPOM, "A.java": "import io.opentracing.*;\nimport io.opentracing.util.GlobalTracer;\n\nclass A {\nstatic final Tracer T = GlobalTracer.get();\nvoid f() {\nGlobalTracer.register(new io.jaegertracing.Configuration(\"a\").getTracer());\n}\n}\n"}, "A.java:5: The field is set before the tracer is registered."},
		"Java: another sampler":            {javaCode(`new io.jaegertracing.Configuration("a").withSampler(new io.jaegertracing.Configuration.SamplerConfiguration().withType("ratelimiting")).getTracer();`), "A.java:8: The sampler \"ratelimiting\" is in no table."},
		"Java: a sampler of a variable":    {javaCode(`new io.jaegertracing.Configuration("a").withSampler(new io.jaegertracing.Configuration.SamplerConfiguration().withType("const").withParam(parents.size())).getTracer();`), "A.java:8: The parameter of the sampler is not known."},
		"Java: a configuration elsewhere":  {javaCode(`io.jaegertracing.Configuration c = lib.config(); c.getTracer();`), "A.java:8: The configuration of the tracer has parts that no table knows."},
		"Java: a tracer as a resource":     {javaCode("try (Tracer t = tracer) {\n}"), "A.java:8: The tracer is a resource of a try statement in a way that no table knows."},
		"Brave: a start elsewhere":         {braveCode("Span s = tracer.nextSpan();\ns.name(\"a\").start();"), "A.java:7: tracer.nextSpan is in no table."},
		"Brave: no name":                   {braveCode("tracer.nextSpan().start();"), "A.java:7: The name of the span is not known when it starts."},
		"Brave: a late kind":               {braveCode("span.kind(Span.Kind.CLIENT);"), "A.java:7: span.kind is in no table."},
		"Brave: a scoped span":             {braveCode("ScopedSpan s = tracer.startScopedSpan(\"a\");\ns.finish();"), "A.java:7: startScopedSpan is in the table with a try statement"},
		"Brave: propagation":               {braveCode("tracing.propagation();"), "A.java:7: tracing.propagation is in no table."},
		"Java: an imported method":         {map[string]string{"pom.xml": javaPOM, "A.java": "import static io.opentracing.util.GlobalTracer.get;\n\nclass A {\n    Object o = get();\n}\n"}, "A.java:4: io.opentracing.util.GlobalTracer.get is in no table as an imported name."},
		"OpenCensus: a sampler":            {censusCode("tracer.spanBuilder(\"a\").setSampler(null);"), "A.java:5: tracer.spanBuilder(\"...\").setSampler is in no table."},
		"OpenCensus: a value":              {censusCode("AttributeValue v = AttributeValue.stringAttributeValue(\"b\");\nspan.putAttribute(\"a\", v);"), "A.java:6: The value v is no literal AttributeValue."},
		"OpenCensus: a status":             {censusCode("span.setStatus(span.toString());"), "A.java:5: The status is not known."},
		"OpenCensus: an exporter":          {censusCode("Tracing.getExportComponent();"), "A.java:5: Tracing.getExportComponent is in no table."},
		"Datadog: no agent":                {map[string]string{"pom.xml": javaPOM, "A.java": "import datadog.trace.api.Trace;\n\nclass A {\n    @Trace\n    void f() {}\n}\n"}, "A.java:4: @Trace needs @WithSpan, which the Java agent of OpenTelemetry reads"},
		"Datadog: settings":                {map[string]string{"pom.xml": javaPOM, "Dockerfile": "COPY opentelemetry-javaagent.jar /\n", "A.java": "import datadog.trace.api.Trace;\n\nclass A {\n    @Trace(operationName = \"a\", resourceName = \"b\")\n    void f() {}\n}\n"}, "A.java:4: The annotation has settings that no table knows."},
		"Datadog: a resource":              {javaCode(`tracer.buildSpan("a").withTag("resource.name", "b").start();`), "A.java:8: The resource is the name of the span in OpenTelemetry"},
		"Java: a variable of a lambda":     {javaCode("parents.forEach(s -> s.finish());"), "A.java:8: s.finish may be a method of a library: the type of s is not known."},
		"Java: a variable of a loop":       {javaCode("for (var s : parents) s.finish();"), "A.java:8: s.finish may be a method of a library: the type of s is not known."},
		"Java: a module":                   {map[string]string{"pom.xml": javaPOM, "A.java": javaCode("")["A.java"], "module-info.java": "module a { requires io.opentracing.api; }\n"}, "module-info.java:0: The modules that the file requires are in no table."},
		"Java: Kotlin":                     {map[string]string{"pom.xml": javaPOM, "A.java": javaCode("")["A.java"], "B.kt": "import io.opentracing.Span\n"}, "B.kt:0: The file uses the old library in a language that has no table."},
		"Java: another module":             {map[string]string{"settings.gradle": "", "a/build.gradle": "", "a/A.java": javaCode("span.finish();")["A.java"], "b/build.gradle": "", "b/B.java": javaCode(`span.setBaggageItem("a", "b");`)["A.java"]}, "b/B.java:8: span.setBaggageItem is in no table."},
		"Java: a class literal":            {javaCode("Object o = Format.class;"), "A.java:8: io.opentracing.propagation.Format is in no table"},
		"Java: an unknown import":          {map[string]string{"pom.xml": javaPOM, "A.java": "import io.opentracing.contrib.jdbc.TracingDriver;\n"}, "A.java:1: io.opentracing.contrib.jdbc.TracingDriver is in no table."},
		"Java: another library":            {map[string]string{"pom.xml": javaPOM, "A.java": "import zipkin2.Span;\n"}, "A.java:1: zipkin2.Span is in no table."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := migrated(t, write(t, tt.files))
			require.Empty(t, p.Files)
			require.Contains(t, describe(t, p), tt.want)
		})
	}
}

const javaPOM = "<project></project>"

// javaCode is a Java project with statements from line 8 on.
func javaCode(code string) map[string]string {
	return map[string]string{"pom.xml": javaPOM, "A.java": `import io.opentracing.*;
import io.opentracing.propagation.*;
import io.opentracing.tag.Tags;
import java.util.*;

class A {
    void f(Tracer tracer, Span span, SpanContext parent, List<Span> parents) {
` + code + `
    }
}
`}
}

// braveCode is a Java project with statements of Brave from line 7 on.
func braveCode(code string) map[string]string {
	return map[string]string{"pom.xml": javaPOM, "A.java": `import brave.*;
import brave.propagation.TraceContext;
import brave.sampler.Sampler;

class A {
    void f(Tracing tracing, Tracer tracer, Span span) {
` + code + `
    }
}
`}
}

// censusCode is a Java project with statements of OpenCensus from line 5 on.
func censusCode(code string) map[string]string {
	return map[string]string{"pom.xml": javaPOM, "A.java": `import io.opencensus.trace.*;

class A {
    void f(Tracer tracer, Span span) {
` + code + `
    }
}
`}
}

// TestUnits migrates each unit independently: one that cannot be migrated does not block another, and a
// project without an old library gets no step.
func TestUnits(t *testing.T) {
	files := map[string]string{"plain/go.mod": "module example.com/plain\n", "plain/a.go": "package plain\n", "plain/b.js": "span.finish()\n"}
	for dir, code := range map[string]string{"good": "func f(s opentracing.Span) { s.Finish() }", "bad": `func f(s opentracing.Span) { s.SetBaggageItem("a", "b") }`} {
		files[dir+"/go.mod"], files[dir+"/shop.go"] = goMod, fmt.Sprintf(goFile, "", code)
	}
	p := migrated(t, write(t, files))
	var names []string
	for _, f := range p.Files {
		names = append(names, f.Path)
	}
	require.Equal(t, []string{"good/go.mod", "good/shop.go"}, names)
	for _, s := range p.Steps {
		require.NotContains(t, s.File, "plain")
	}
}

// FuzzMake migrates arbitrary sources. A migration ends, and its result parses.
func FuzzMake(f *testing.F) {
	for _, pattern := range []string{"testdata/*-*/*", "../../../e2e/testdata/migrate/*-*/*"} {
		files, err := filepath.Glob(pattern)
		require.NoError(f, err)
		for _, path := range files {
			if text, err := os.ReadFile(path); err == nil && slices.Contains([]string{".go", ".js", ".py", ".java"}, filepath.Ext(path)) {
				f.Add(filepath.Ext(path), string(text))
			}
		}
	}
	f.Fuzz(func(t *testing.T, ext, text string) {
		if !slices.Contains([]string{".go", ".js", ".mjs", ".ts", ".py", ".java"}, ext) {
			return
		}
		p := migrated(t, write(t, map[string]string{"go.mod": goMod, "package.json": "{}", "requirements.txt": "", "pom.xml": javaPOM, "a" + ext: text}))
		parsers, err := parser()
		require.NoError(t, err)
		for _, file := range p.Files {
			require.True(t, patch.Parses(t.Context(), parsers, file.Path, file.After), "%s", file.After)
		}
	})
}

// TestMutations migrates projects with faults: parts of a file are lost, duplicated or swapped. Every changed
// file still parses.
func TestMutations(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	dirs, err := filepath.Glob("testdata/*-*")
	require.NoError(t, err)
	more, err := filepath.Glob("../../../e2e/testdata/migrate/*-*")
	require.NoError(t, err)
	parsers, err := parser()
	require.NoError(t, err)
	changed := 0
	for _, dir := range append(dirs, more...) {
		files, err := filepath.Glob(filepath.Join(dir, "*.*"))
		require.NoError(t, err)
		for _, path := range files {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			if filepath.Ext(path) == ".json" || strings.HasSuffix(dir, ".diff") {
				continue
			}
			for range 12 {
				work := t.TempDir()
				require.NoError(t, os.CopyFS(work, os.DirFS(dir)))
				mutated := slices.Clone(text)
				for range 1 + random.IntN(3) {
					if len(mutated) == 0 {
						break
					}
					from := random.IntN(len(mutated))
					to := min(len(mutated), from+1+random.IntN(40))
					part := string(mutated[from:to])
					switch random.IntN(3) {
					case 0:
						mutated = slices.Delete(mutated, from, to)
					case 1:
						mutated = slices.Insert(mutated, random.IntN(len(mutated)), []byte(part)...)
					default:
						mutated = slices.Insert(slices.Delete(mutated, from, to), random.IntN(len(mutated)-len(part)+1), []byte(part)...)
					}
				}
				require.NoError(t, os.WriteFile(filepath.Join(work, filepath.Base(path)), mutated, 0o644))
				p := migrated(t, work)
				changed += len(p.Files)
				for _, f := range p.Files {
					require.True(t, patch.Parses(t.Context(), parsers, f.Path, f.After), "%s\n%s", mutated, f.After)
				}
			}
		}
	}
	require.NotZero(t, changed)
}

// TestHostile checks that the work is bounded for nested calls and for many calls.
func TestHostile(t *testing.T) {
	const n = 10_000
	code := func(text string) string { return fmt.Sprintf(goFile, "", text) }
	nested := "func f(ctx context.Context, s opentracing.Span) context.Context {\n\treturn " +
		strings.Repeat("opentracing.ContextWithSpan(", n) + "ctx" + strings.Repeat(", s)", n) + "\n}"
	many := "func f(s opentracing.Span) {\n" + strings.Repeat("\ts.SetTag(\"a\", 1)\n", n) + "}"
	chain := "func f(s opentracing.Span) {\n\ts" + strings.Repeat(".SetTag(\"a\", 1)", n) + "\n}"
	kinds := "func f(t opentracing.Tracer) {\n" + strings.Repeat("\topentracing.SetGlobalTracer(t)\n", n) + "}"
	doubled := "const s0 = \"0123456789\"\n"
	for i := range 60 {
		doubled += fmt.Sprintf("const s%d = s%d + s%d\n", i+1, i, i)
	}
	for name, files := range map[string]map[string]string{
		"constants":         {"go.mod": goMod, "a.go": code(doubled)},
		"nested":            {"go.mod": goMod, "a.go": code(nested)},
		"many":              {"go.mod": goMod, "a.go": code(many)},
		"chain":             {"go.mod": goMod, "a.go": code(chain)},
		"tracers":           {"go.mod": goMod, "a.go": code(kinds)},
		"JavaScript nested": {"package.json": "{}", "a.js": "require('opentracing')\n" + strings.Repeat("span.setTag('a', ", 900) + "1" + strings.Repeat(")", 900)},
		"JavaScript chain":  {"package.json": "{}", "a.js": "require('opentracing')\nspan" + strings.Repeat(".setTag('a', 1)", 900)},
		"JavaScript names":  {"package.json": "{}", "a.js": "const o = require('opentracing')\n" + strings.Repeat("const { a } = o\n", n)},
		"zipkin-js ids":     {"package.json": "{}", "a.js": "const z = require('zipkin')\n" + strings.Repeat("const id = tracer.createChildId()\n", n)},
		"Python tracers":    {"requirements.txt": "", "a.py": "from opencensus.trace.tracer import Tracer\ndef f(span_context):\n" + strings.Repeat("    t = Tracer(span_context=span_context)\n", n)},
		"Python headers":    {"requirements.txt": "", "a.py": "from py_zipkin.zipkin import create_http_headers\n" + strings.Repeat("f(create_http_headers())\n", n)},
		"Python types":      {"requirements.txt": "", "a.py": strings.Repeat("from opentracing import Span\n", n) + strings.Repeat("a: Span = 1\n", n)},
		"Java nested":       {"pom.xml": javaPOM, "A.java": "import io.opentracing.*;\nclass A { void f(Span span) { span" + strings.Repeat(".setTag(\"a\", f(span", 300) + strings.Repeat("))", 300) + "; } }"},
		"Java chain":        {"pom.xml": javaPOM, "A.java": "import io.opentracing.*;\nclass A { void f(Span span) { span" + strings.Repeat(".setTag(\"a\", 1)", 300) + "; } }"},
		"Java classes":      {"pom.xml": javaPOM, "A.java": "import io.opentracing.*;\nclass A implements A" + strings.Repeat(", A", 30) + " { void f() { x.setTag(1, 2); } }\n"},
		"Java types":        {"pom.xml": javaPOM, "A.java": "import io.opentracing.*;\nclass A {\n" + strings.Repeat("SpanContext a;\n", n) + "}\n"},
		"Java statements":   {"pom.xml": javaPOM, "A.java": "import io.opentracing.*;\nclass A { void f(Span span) {\n" + strings.Repeat("span.setTag(\"a\", 1);\n", n) + "} }\n"},
		"Python nested":     {"requirements.txt": "", "a.py": "import opentracing\n" + strings.Repeat("span.set_tag('a', ", 900) + "1" + strings.Repeat(")", 900)},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			dir := write(t, files)
			root, err := os.OpenRoot(dir)
			require.NoError(t, err)
			defer root.Close()
			p, err := parser()
			require.NoError(t, err)
			_, err = migrate.Make(ctx, root, p, slices.Sorted(maps.Keys(files)))
			require.NoError(t, err)
			require.NoError(t, ctx.Err())
		})
	}
}
