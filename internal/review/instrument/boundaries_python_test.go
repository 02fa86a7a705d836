// SPDX-License-Identifier: Apache-2.0

package instrument_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/review/instrument"
	"assay/internal/review/patch"
)

// TestPythonBoundaries compares the patch for testdata/python, and makes it a second time, which changes nothing.
func TestPythonBoundaries(t *testing.T) {
	parser := newParser(t)
	dir := filepath.Join(t.TempDir(), "python")
	require.NoError(t, os.CopyFS(dir, os.DirFS("testdata/python")))
	p, root, err := makePatch(t, parser, dir, instrument.General)
	require.NoError(t, err)
	var got strings.Builder
	for _, s := range p.Steps {
		fmt.Fprintf(&got, "%s %s:%d %s\n", map[bool]string{false: "did ", true: "left"}[s.Open], s.File, s.Line, s.Text)
	}
	got.WriteString("\n")
	require.NoError(t, p.Diff(&got))
	golden := filepath.Join("testdata", "python.general.golden")
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(got.String()), 0o600))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), got.String())

	for _, f := range p.Files {
		require.True(t, patch.Parses(t.Context(), parser, f.Path, f.After), f.Path)
	}
	require.NoError(t, p.Apply(root))
	again, _, err := makePatch(t, parser, dir, instrument.General)
	require.NoError(t, err)
	require.Empty(t, again.Files)
}

var serverPort = regexp.MustCompile(`"server.port": \d+`)

// TestPythonBoundariesRun runs a program before and after the change: its output is the same, and its spans and metrics
// are those of the golden file.
func TestPythonBoundariesRun(t *testing.T) {
	stubs, err := filepath.Abs("testdata/python_run/stubs")
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS("testdata/python_run/service")))
	run := func() (output, telemetry string) {
		file := filepath.Join(t.TempDir(), "telemetry")
		cmd := exec.CommandContext(t.Context(), "python3", "-m", "shop.main")
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "PYTHONPATH="+stubs, "PYTHONDONTWRITEBYTECODE=1", "TELEMETRY="+file)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		lines, err := os.ReadFile(file)
		if !errors.Is(err, fs.ErrNotExist) {
			require.NoError(t, err)
		}
		sorted := slices.Sorted(strings.Lines(string(lines))) // the threads of server and client end their spans in any order
		return string(out), serverPort.ReplaceAllString(strings.Join(sorted, ""), `"server.port": 0`)
	}
	before, none := run()
	require.Empty(t, none)
	p, root, err := makePatch(t, newParser(t), dir, instrument.General)
	require.NoError(t, err)
	require.NoError(t, p.Apply(root))
	after, got := run()
	require.Equal(t, before, after)
	golden := filepath.Join("testdata", "python_run.golden")
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(got), 0o600))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

// TestPythonBoundariesOf compares what is added to small services, "" for nothing, and the reasons of what is left.
func TestPythonBoundariesOf(t *testing.T) {
	parser := newParser(t)
	const sdk = "opentelemetry-sdk==1.44.0\n"
	query := func(before, call string) string {
		return "import sqlite3\n" + before + "\n\ndef load(db=None):\n    " + call + "\n"
	}
	const opened = "db = sqlite3.connect('a')"
	const wrapped = `trace_query(db.execute, "sqlite", "SELECT", "a")("SELECT b FROM a")`
	for name, test := range map[string]struct {
		files map[string]string
		want  string // in the changed file
		left  string
	}{
		"a call":                                       {files: map[string]string{"a.py": "import sqlite3\n" + opened + "\n\ndef load():\n    db.execute(\"SELECT b FROM a\")\n"}, want: wrapped},
		"a parameter":                                  {files: map[string]string{"a.py": query(opened, `db.execute("SELECT b FROM a")`)}},
		"an annotated parameter":                       {files: map[string]string{"a.py": "import sqlite3 as s\n\ndef load(db: s.Connection):\n    db.execute(\"SELECT b FROM a\")\n"}, want: wrapped},
		"another module of that name":                  {files: map[string]string{"a.py": "from . import sqlite3\n\ndef load():\n    sqlite3.connect('a').execute('SELECT 1')\n"}},
		"a call at the start":                          {files: map[string]string{"a.py": "import sqlite3\n" + opened + "\ndb.execute('SELECT 1')\n\ndef main():\n    db.execute('SELECT 1')\n"}},
		"Windows lines":                                {files: map[string]string{"a.py": "import sqlite3\r\n" + opened + "\r\n\r\ndef load():\r\n    db.execute(\"SELECT b FROM a\")\r\n"}, want: "import sqlite3\r\nfrom otel_boundaries import trace_query\r\n"},
		"a docstring and a license":                    {files: map[string]string{"a.py": "# license\n\"\"\"A.\"\"\"\nfrom __future__ import annotations\nimport sqlite3; import os  # (\n" + opened + "\n\ndef load():\n    db.execute('SELECT 1')\n"}, want: "import os  # (\nfrom otel_boundaries import trace_query\ndb ="},
		"an installed package":                         {files: map[string]string{"requirements.txt": sdk + "opentelemetry-instrumentation-sqlite3\n", "a.py": "import sqlite3\n" + opened + "\n\ndef load():\n    db.execute('SELECT 1')\n"}},
		"a package set up by code":                     {files: map[string]string{"b.py": "import sqlite3\nfrom opentelemetry.instrumentation.sqlite3 import SQLite3Instrumentor\nSQLite3Instrumentor().instrument()\n", "a.py": "import sqlite3\n" + opened + "\n\ndef load():\n    db.execute('SELECT 1')\n"}},
		"all packages":                                 {files: map[string]string{"Dockerfile": "FROM python:3.13\nRUN opentelemetry-bootstrap -a install\nCMD python a.py\n", "a.py": "import sqlite3\n" + opened + "\n\ndef load():\n    db.execute('SELECT 1')\n"}},
		"no package of the table":                      {files: map[string]string{"requirements.txt": "opentelemetry-distro\nflask\n", "a.py": "import sqlite3\n" + opened + "\n\ndef load():\n    db.execute('SELECT 1')\n"}, left: "Install `opentelemetry-instrumentation-sqlite3`"},
		"a vendor's tracer":                            {files: map[string]string{"a.py": "import sqlite3\nimport ddtrace\n" + opened + "\n\ndef load():\n    db.execute('SELECT 1')\n"}, left: "the tracer of another vendor"},
		"a module of another origin":                   {files: map[string]string{"otel_boundaries.py": "a = 1\n", "a.py": "import sqlite3\n" + opened + "\n\ndef load():\n    db.execute('SELECT 1')\n"}, left: "not that of an earlier change"},
		"a package started as a program":               {files: map[string]string{"shop/__init__.py": "", "shop/store.py": "", "shop/a.py": "import sqlite3\nimport store\n" + opened + "\n\ndef load():\n    db.execute('SELECT 1')\n"}, left: "does not say from which directory"},
		"a directory without a package":                {files: map[string]string{"shop/store.py": "", "shop/a.py": "import sqlite3\nimport store\n" + opened + "\n\ndef load():\n    db.execute(\"SELECT b FROM a\")\n"}, want: wrapped},
		"single files of an image":                     {files: map[string]string{"Dockerfile": "FROM python:3.13\nCOPY a.py b.py /srv\nCMD [\"python\", \"a.py\"]\n", "a.py": "import sqlite3\n" + opened + "\n\ndef load():\n    db.execute('SELECT 1')\n"}, want: "COPY otel_boundaries.py /srv/\nCOPY a.py b.py /srv\n"},
		"tabs and a comment":                           {files: map[string]string{"a.py": "import bottle\n\nclass A:\n\t@bottle.get('/')  # root\n\t# def b():\n\tdef get():\n\t\tpass\n"}, want: "\t# def b():\n\t@trace_bottle\n\tdef get():\n"},
		"an asynchronous view":                         {files: map[string]string{"a.py": "import sanic\napp = sanic.Sanic('a')\n\n@app.get('/')\n@other\nasync  def get(request):\n    pass\n"}, want: "@other\n@trace_sanic\nasync  def get"},
		"a class as a view":                            {files: map[string]string{"a.py": "import sanic\napp = sanic.Sanic('a')\n\n@app.get('/')\nclass Get:\n    pass\n"}},
		"a decorator that traces":                      {files: map[string]string{"a.py": "import bottle\n\n@bottle.get('/')\n@traced\ndef get():\n    pass\n"}},
		"a callback of another file":                   {files: map[string]string{"a.py": "from aiohttp import web\nfrom views import get, post\nroutes = [web.get('/', get), web.post('/', post)]\n", "views.py": "import aiohttp\nfrom opentelemetry import trace\n\nasync def get(request):\n    with trace.get_tracer('a').start_as_current_span('a'):\n        pass\n\nasync def post(request):\n    pass\n"}, want: "web.get('/', get), web.post('/', trace_aiohttp(post))"},
		"a view of two routes":                         {files: map[string]string{"a.py": "import flask\napp = flask.Flask(__name__)\n\ndef index():\n    pass\n\napp.add_url_rule('/', view_func=index)\napp.add_url_rule('/ping', view_func=index)\napp.add_url_rule('/index', view_func=index)\n"}, want: "@trace_flask\ndef index():\n    pass\n\napp.add_url_rule('/', view_func=index)\napp.add_url_rule('/ping', view_func=index)\napp.add_url_rule('/index', view_func=index)\n"},
		"a view of another file":                       {files: map[string]string{"a.py": "import flask\nfrom views import index\napp = flask.Flask(__name__)\napp.add_url_rule('/', view_func=index)\n", "views.py": "import flask\n\ndef index():\n    pass\n"}, want: "import flask\nfrom otel_boundaries import trace_flask\n\n@trace_flask\ndef index():\n"},
		"a view of another service":                    {files: map[string]string{"a.py": "import flask\nimport views\napp = flask.Flask(__name__)\napp.add_url_rule('/', view_func=views.index)\n"}, left: "`views.index` is left"},
		"handlers without a path":                      {files: map[string]string{"a.py": "from bottle import Bottle, get\napi = Bottle()\n\n@api.get()\ndef a(name):\n    pass\n\n@get\ndef b(name):\n    pass\n\n@api.post('/c')\n@api.get(method='PUT')\ndef c(name):\n    pass\n\ndef d(name):\n    pass\n\napi.route(callback=d)\n"}, left: "`a` is left: its path comes from its parameters\n`b` is left: its path comes from its parameters\n`c` is left: its path comes from its parameters\n`d` is left: its path comes from its parameters\n"},
		"a handler with a path by its name":            {files: map[string]string{"a.py": "from bottle import get\n\n@get(path='/a')\ndef a():\n    pass\n"}, want: "@trace_bottle\ndef a():\n"},
		"queries of variables":                         {files: map[string]string{"a.py": "import duckdb\n\ndef load(rows):\n    return duckdb.sql('SELECT * FROM rows').fetchall()\n"}},
		"a method that calls another":                  {files: map[string]string{"a.py": "import http.server\n\nclass A(http.server.BaseHTTPRequestHandler):\n    def do_GET(self):\n        pass\n    def do_HEAD(self):\n        self.do_GET()\n"}, want: "    @trace_http_server\n    def do_GET(self):\n        pass\n    def do_HEAD"},
		"probes":                                       {files: map[string]string{"a.py": "import bottle\n\n@bottle.get('/healthz')\ndef get():\n    pass\n"}},
		"a package below src":                          {files: map[string]string{"src/shop/__init__.py": "", "src/shop/db/__init__.py": "", "src/shop/db/a.py": "import sqlite3\n" + opened + "\n\ndef load():\n    db.execute('SELECT 1')\n"}, want: "from ..otel_boundaries import trace_query\n"},
		"a program in a package":                       {files: map[string]string{"shop/__init__.py": "", "shop/a.py": "import sqlite3\n" + opened + "\n\ndef load():\n    db.execute('SELECT 1')\n\nif __name__ == '__main__':\n    load()\n"}, left: "does not say from which directory"},
		"a package with a module of an earlier change": {files: map[string]string{"shop/__init__.py": "", "shop/otel_boundaries.py": "def _boundary():\n    pass\n", "shop/b.py": "import shop.a\nimport sqlite3\n" + opened + "\n\ndef load():\n    db.execute('SELECT 1')\n", "a.py": "import bottle\n\n@bottle.get('/')\ndef get():\n    pass\n"}, want: "from shop.otel_boundaries import trace_bottle\n"},
		"a connection of another file":                 {files: map[string]string{"db.py": "import sqlite3\n" + opened + "\n", "a.py": "from db import db\n\ndef load():\n    db.execute(\"SELECT b FROM a\")\n"}, want: wrapped},
		"a module with a connection":                   {files: map[string]string{"shop/__init__.py": "", "shop/db.py": "import sqlite3\n" + opened + "\n", "shop/a.py": "from . import db\n\ndef load():\n    db.db.execute('SELECT 1')\n"}, want: `trace_query(db.db.execute, "sqlite", "SELECT")('SELECT 1')`},
		"a name of two modules":                        {files: map[string]string{"a/db.py": "import sqlite3\n" + opened + "\n", "b/db.py": "db = None  # .execute(\n", "a.py": "from b.db import db\n\ndef load():\n    db.execute('SELECT 1')\n"}},
		"directories of an image":                      {files: map[string]string{"Dockerfile": "FROM python:3.13\nWORKDIR /srv\nCOPY requirements.txt .\nCOPY app/ ./app/\nCMD [\"python\", \"a.py\"]\n", "app/b.py": "", "a.py": "import sqlite3\n" + opened + "\n\ndef load():\n    db.execute('SELECT 1')\n"}, want: "COPY otel_boundaries.py ./\nCOPY app/ ./app/\n"},
		"an image with all files":                      {files: map[string]string{"Dockerfile": "FROM python:3.13\nCOPY requirements.txt .\nCOPY ./ /srv\nCMD [\"python\", \"a.py\"]\n", "a.py": "import sqlite3\n" + opened + "\n\ndef load():\n    db.execute(\"SELECT b FROM a\")\n"}, want: wrapped},
		"a renamed file of an image":                   {files: map[string]string{"Dockerfile": "FROM python:3.13\nCOPY a.py main.py\nCMD [\"python\", \"main.py\"]\n", "a.py": "import sqlite3\n" + opened + "\n\ndef load():\n    db.execute(\"SELECT b FROM a\")\n"}, want: wrapped, left: "Copy `otel_boundaries.py` into the image"},
		"an image of another stage":                    {files: map[string]string{"Dockerfile": "FROM python:3.13\nCOPY --from=build /srv /srv\nCMD [\"python\", \"a.py\"]\n", "a.py": "import sqlite3\n" + opened + "\n\ndef load():\n    db.execute(\"SELECT b FROM a\")\n"}, want: wrapped, left: "Copy `otel_boundaries.py` into the image"},
		"a program that imports the package":           {files: map[string]string{"shop/__init__.py": "", "shop/b.py": "import shop.a\nimport sqlite3\n" + opened + "\n\ndef load():\n    db.execute('SELECT 1')\n", "a.py": "import bottle\nimport shop\n\n@bottle.get('/')\ndef get():\n    pass\n"}, want: "from shop.otel_boundaries import trace_bottle\n"},
		"a program besides the package":                {files: map[string]string{"shop/__init__.py": "", "shop/b.py": "import shop.a\nimport sqlite3\n" + opened + "\n\ndef load():\n    db.execute('SELECT 1')\n", "a.py": "import bottle\n\n@bottle.get('/')\ndef get():\n    pass\n"}, want: "from otel_boundaries import trace_query\n"},
		"a middleware with spans":                      {files: map[string]string{"a.py": "import sanic\napp = sanic.Sanic('a')\n\n@app.get('/')\nasync def get(request):\n    pass\n", "b.py": "from opentelemetry.trace import SpanKind\n\ndef before(request):\n    tracer.start_span('a', kind=SpanKind.SERVER)\n"}},
		"another handler with a span":                  {files: map[string]string{"a.py": "import bottle\nfrom opentelemetry import trace\ntracer = trace.get_tracer('a')\n\n@bottle.get('/')\ndef get():\n    with tracer.start_as_current_span('a', kind=trace.SpanKind.SERVER):\n        pass\n\n@bottle.post('/')\ndef post():\n    pass\n"}, want: "@bottle.get('/')\ndef get():\n    with tracer.start_as_current_span('a', kind=trace.SpanKind.SERVER):\n        pass\n\n@bottle.post('/')\n@trace_bottle\ndef post"},
		"many":                                         {files: map[string]string{"a.py": "import sqlite3\n" + opened + "\n\ndef load():\n" + strings.Repeat("    db.execute(\"SELECT b FROM a\")\n", 102)}, want: strings.Repeat("    "+wrapped+"\n", 100) + strings.Repeat("    db.execute(\"SELECT b FROM a\")\n", 2), left: "The code has 2 boundaries more: at most 100 of a file"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if test.files["requirements.txt"] == "" {
				test.files["requirements.txt"] = sdk
			}
			for name, text := range test.files {
				file := filepath.Join(dir, filepath.FromSlash(name))
				require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o750))
				require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
			}
			p, root, err := makePatch(t, parser, dir, instrument.General)
			require.NoError(t, err)
			var changed, left strings.Builder
			for _, f := range p.Files {
				if !f.Created {
					changed.Write(f.After)
				}
			}
			for _, s := range p.Steps {
				if s.Open {
					left.WriteString(s.Text + "\n")
				}
			}
			if test.want == "" {
				require.Empty(t, changed.String())
			}
			require.Contains(t, changed.String(), test.want)
			require.Contains(t, left.String(), test.left)
			require.NoError(t, p.Apply(root))
			again, _, err := makePatch(t, parser, dir, instrument.General)
			require.NoError(t, err)
			require.Empty(t, again.Files)
		})
	}
}

// pythonPatched returns the patch for a service of files with code in Python, and the files after it, which have to
// compile.
func pythonPatched(t *testing.T, files []string) (p *patch.Patch, after []string) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "requirements.txt"), []byte("opentelemetry-sdk\n"), 0o600))
	name := func(i int) string { return filepath.Join(dir, fmt.Sprintf("a%d.py", i)) }
	for i, text := range files {
		require.NoError(t, os.WriteFile(name(i), []byte(text), 0o600))
	}
	p, root, err := makePatch(t, newParser(t), dir, instrument.General)
	require.NoError(t, err)
	require.NoError(t, p.Apply(root))
	out, err := exec.CommandContext(t.Context(), "python3", "-m", "compileall", "-q", dir).CombinedOutput()
	require.NoError(t, err, string(out))
	for i := range files {
		text, err := os.ReadFile(name(i))
		require.NoError(t, err)
		after = append(after, string(text))
	}
	return p, after
}

// TestPythonNames compares where a call of requests.get is one of the module that the file imports.
func TestPythonNames(t *testing.T) {
	wrapped := []string{ // each CALL
		"def f(u):\n    CALL\n",
		"def f(u, r=lambda requests: requests):\n    CALL\n",
		"def f(u):\n    import requests\n    CALL\n",
		"def f(u):\n    try:\n        import requests\n    except ImportError:\n        from q import requests\n    CALL\n",
		"def f(u):\n    [requests for requests in u]\n    CALL\n",
		"def f(u):\n    def g():\n        requests = u\n    CALL\n",
		"def f(u):\n    def g(requests): pass\n    from q import requests as r\n    CALL\n",
		"def f(u):\n    def g():\n        CALL\n    import requests\n    g()\n",
		"def f(u):\n    global r\n    import q as r\n    CALL\n",
		"def f(u):\n    match u:\n        case [a, *b] | {'requests': a, **b} if CALL: pass\n",
		"def f(u):\n    match u:\n        case requests.Response(requests=a): CALL\n",
		"class A:\n    def requests(self, u):\n        CALL\n",
		"class A:\n    @f\n    def g(self, u):\n        def requests(): pass\n\n    def h(self, u):\n        CALL\n",
	}
	left := []string{
		"def f(requests, u):\n    CALL\n",
		"def f(*requests):\n    CALL\n",
		"def f(u):\n    return lambda requests: CALL\n",
		"def f(u):\n    import other as requests\n    CALL\n",
		"def f(u):\n    from q import requests\n    CALL\n",
		"def f(u):\n    from q import requests\n    def g():\n        CALL\n",
		"def f(u):\n    def g():\n        CALL\n    from q import requests\n    g()\n",
		"def f(u):\n    def g():\n        return CALL\n    requests = u\n    return g()\n",
		"def f(u):\n    if u:\n        from q import requests\n    CALL\n",
		"def f(u):\n    global requests\n    requests = u\n\ndef g(u):\n    CALL\n",
		"def f(u):\n    CALL\n\ndef g(u):\n    global requests\n    from q import requests\n",
		"def f(u):\n    requests = __import__('requests')\n    def g():\n        nonlocal requests\n        requests = u\n    CALL\n",
		"def f(u):\n    match u:\n        case requests: CALL\n",
		"def f(u):\n    match u:\n        case 1, *requests: CALL\n",
		"def f(u):\n    match u:\n        case {'a': [requests]}: CALL\n",
		"def f(u):\n    match u:\n        case {'a': 1, **requests}: CALL\n",
		"def f(u):\n    match u:\n        case A(b=requests): CALL\n",
		"def f(u):\n    match u:\n        case A() | B() as requests if CALL: pass\n",
		"def f(u):\n    match u:\n        case [requests, 1] | requests: CALL\n",
		"def f(u):\n    try: pass\n    except E as requests: CALL\n",
		"def f(u):\n    try: pass\n    except (E, F) as requests: CALL\n",
		"def f(u):\n    with u as requests: CALL\n",
		"def f(u):\n    with (u as requests): CALL\n",
		"def f(u):\n    with u as (a, requests), u: CALL\n",
		"async def f(u):\n    async with u as requests: CALL\n",
		"def f(u):\n    for requests in u: CALL\n",
		"def f(u):\n    for a, (b, *requests) in u: CALL\n",
		"async def f(u):\n    async for requests in u: CALL\n",
		"def f(u):\n    if (requests := u): CALL\n",
		"def f(u):\n    [a for a in u if (requests := a)]\n    CALL\n",
		"def f(u):\n    return [CALL for requests in u]\n",
		"def f(u):\n    return {a: CALL for a, requests in u}\n",
		"def f(u):\n    return (CALL for a in u for requests in a if CALL)\n",
		"async def f(u):\n    return {CALL async for requests in u}\n",
		"def f(u):\n    def requests(): pass\n    CALL\n",
		"def f(u):\n    CALL\n\nclass requests: pass\n",
		"def f(u):\n    requests: A = u\n    CALL\n",
		"def f(u):\n    (requests) = [a, b] = u\n    CALL\n",
	}
	var files []string
	for _, e := range append(wrapped, left...) {
		files = append(files, "import requests\n\n"+strings.ReplaceAll(e, "CALL", "requests.get(u)"))
	}
	_, after := pythonPatched(t, files)
	for i, e := range wrapped {
		require.Equal(t, "import requests\nfrom otel_boundaries import trace_http\n\n"+strings.ReplaceAll(e, "CALL", `trace_http(requests.get, "GET")(u)`), after[i])
	}
	for i := range left {
		require.Equal(t, files[len(wrapped)+i], after[len(wrapped)+i])
	}
}

// TestPythonFormattedStrings leaves code in f-strings, where quotes end the literal before Python 3.12.
func TestPythonFormattedStrings(t *testing.T) {
	code := "import requests, pika\nc = pika.BlockingConnection().channel()\ndef work(*args): pass\n\ndef f(u):\n" +
		"    f\"{requests.get(u)}\"\n" +
		"    rf'{requests.get(u)!r:>{requests.get(u)}}'\n" +
		"    f\"\"\"\n{(\n  requests.get(u).text)}\"\"\"\n" +
		"    f'{u} {[requests.get(v) for v in u]}'\n" +
		"    f'{u(f\"{requests.get(u)}\")}'\n" +
		"    'a' f'{requests.get(u)}'\n" +
		"    'a' + f'{u + requests.get(u).text + \"b\"}'\n" +
		"    f'{(lambda: requests.get(u))()}'\n" +
		"    f'{c.basic_consume(\"orders\", work)}'\n"
	others := "    f'{u}' + CALL.text + '{'\n    '{' + (CALL.text)\n    u({CALL.text + 'a': f'{u}'})\n    '{}'.format(CALL)\n"
	p, after := pythonPatched(t, []string{code + strings.ReplaceAll(others, "CALL", "requests.get(u)")})
	want := strings.Replace(code, "\n", "\nfrom otel_boundaries import trace_http\n", 1) + strings.ReplaceAll(others, "CALL", `trace_http(requests.get, "GET")(u)`)
	require.Equal(t, []string{want}, after)
	lines := map[string][]int{}
	for _, s := range p.Steps {
		if s.File == "a0.py" && s.Open {
			lines[s.Text] = append(lines[s.Text], s.Line)
		}
	}
	require.Equal(t, map[string][]int{
		"The call of `requests.get` is left: before Python 3.12, quotes end the f-string around it": {6, 7, 10, 11, 12, 13, 14, 15},
		"`work` is left: before Python 3.12, quotes end the f-string around it":                     {16},
	}, lines)
}

// TestPythonImports compares where files import the functions.
func TestPythonImports(t *testing.T) {
	const (
		load     = "\n\ndef load(u):\n    requests.get(u)\n"
		added    = "from otel_boundaries import trace_http\n"
		occupied = "The boundaries of the file are left: other code is on the lines of its docstring and imports"
		returns  = "The file is left: it has carriage returns without a line feed"
	)
	examples := []struct{ before, after, left string }{ // what stands before and after the import, or why the file is left
		{"", "import requests; A = '''\nb\n'''\n", ""},
		{"# a\n", "import requests; A = '''\nb\n'''\n", ""},
		{"import os\n", "import requests; A = '''\nb\n'''\n", ""},
		{"'''a'''; A = '''\nb\n'''\nimport requests", "", occupied},
		{"'''a'''; import requests\n", "A = '''\nb\n'''\n", ""},
		{"'''a'''\n", "import requests; A = 1\n", ""},
		{"from __future__ import annotations\n", "import requests; A = 1\n", ""},
		{"from __future__ import annotations; import requests; A = '''\n'''", "", occupied},
		{"from __future__ import annotations\n", "try:\n    import requests\nexcept ImportError:\n    pass", ""},
		{"", "import requests; pass\n", ""},
		{"import os, \\\n  requests;  # '''\n", "A = '''\nimport b\n'''\n", ""},
		{"import requests\nfrom os import (path,  # )\n  sep\n)\n", "A = '''\nimport b\n'''\n", ""},
		{"\ufeff# a\n", "if True:\n    import requests\n", ""},
		{"\ufeff", "if True:\n    import requests\n", ""},
		{"import requests\nA = '''\r'''\n", "", returns},
		{"import requests  # a\rA = '''\nb\n'''\n", "", returns},
	}
	var files []string
	for _, e := range examples {
		files = append(files, e.before+e.after+load)
	}
	p, after := pythonPatched(t, files)
	steps := map[string]string{}
	for _, s := range p.Steps {
		if s.Open {
			steps[s.File] += s.Text
		}
	}
	for i, e := range examples {
		want := e.before + e.after + load
		if e.left == "" {
			want = e.before + added + e.after + strings.Replace(load, "requests.get(", `trace_http(requests.get, "GET")(`, 1)
		}
		require.Equal(t, want, after[i])
		require.Equal(t, e.left, steps[fmt.Sprintf("a%d.py", i)], want)
	}
}

// endingContext ends when its error has been read for some times.
type endingContext struct {
	context.Context
	left int
}

func (c *endingContext) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return c.Context.Err()
}

// TestPythonBoundariesEnd: the work for one file ends with its context.
func TestPythonBoundariesEnd(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "requirements.txt"), []byte("opentelemetry-sdk\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.py"), []byte("from bottle import get\n"+strings.Repeat("@get\n", 2000)+"@trace\ndef f(): pass\n"), 0o600))
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	_, err = instrument.Make(&endingContext{t.Context(), 2000}, root, newParser(t), []string{"a.py", "requirements.txt"}, instrument.General, "a")
	require.ErrorIs(t, err, context.Canceled)
}

// TestPythonBoundaryTable has an example of each row of the table: the code after the imports, and what replaces its
// last line.
func TestPythonBoundaryTable(t *testing.T) {
	examples := [][2]string{
		{"from google.cloud import pubsub_v1\ns = pubsub_v1.SubscriberClient()\ns.subscribe(path, callback=work)", "s.subscribe(path, callback=trace_pubsub(work))"},
		{"import pika\nc = pika.BlockingConnection().channel()\nc.basic_consume('orders', work)", `c.basic_consume('orders', trace_pika(work, "orders"))`},
		{"import nats\nasync def run():\n    n = await nats.connect()\n    await n.jetstream().subscribe('orders', cb=work)", `    await n.jetstream().subscribe('orders', cb=trace_nats(work, "orders"))`},
		{"from nats.aio.client import Client as NATS\nasync def run():\n    n = NATS()\n    await n.publish('orders', b'')", `    await trace_nats_publish(n.publish, "orders")('orders', b'')`},
		{"import paho.mqtt.client\nc = paho.mqtt.client.Client()\nc.on_message = work", "c.on_message = trace_mqtt(work)"},
		{"from huey import RedisHuey\nh = RedisHuey()\n@h.task()\ndef f(): pass", "@trace_task(\"huey\")\ndef f(): pass"},
		{"from huey.contrib.djhuey import db_task\n@db_task()\ndef f(): pass", "@trace_task(\"huey\")\ndef f(): pass"},
		{"from rq import job\n@job('low')\ndef f(): pass", "@trace_task(\"rq\", \"low\")\ndef f(): pass"},
		{"from apscheduler.schedulers.asyncio import AsyncIOScheduler\ns = AsyncIOScheduler()\n@s.scheduled_job('cron')\nasync def f(): pass", "@trace_job\nasync def f(): pass"},
		{"import schedule\n@schedule.repeat(schedule.every())\ndef f(): pass", "@trace_job\ndef f(): pass"},
		{"import flask\na = flask.Flask(__name__)\n@a.route('/')\ndef f(): pass", "@trace_flask\ndef f(): pass"},
		{"from quart import Blueprint\na = Blueprint('a', __name__)\n@a.put('/')\nasync def f(): pass", "@trace_quart\nasync def f(): pass"},
		{"from bottle import Bottle\na = Bottle()\na.route('/', callback=work)", "a.route('/', callback=trace_bottle(work))"},
		{"from sanic.blueprints import Blueprint\na = Blueprint('a')\na.add_route(work, '/')", "a.add_route(trace_sanic(work), '/')"},
		{"from aiohttp import web\na = web.Application()\na.router.add_route('GET', '/', work)", "a.router.add_route('GET', '/', trace_aiohttp(work))"},
		{"import aiohttp.web\nr = aiohttp.web.RouteTableDef()\n@r.get('/')\nasync def f(request): pass", "@trace_aiohttp\nasync def f(request): pass"},
		{"from requests import Session\ndef f():\n    with Session() as s:\n        s.request('GET', u)", "        trace_http(s.request)('GET', u)"},
		{"from requests import get as g\ndef f():\n    g(u)", "    trace_http(g, \"GET\")(u)"},
		{"import httpx\nclass A:\n    def __init__(self):\n        self.c = None\n        self.c = httpx.Client()\n    def f(self):\n        self.c.delete(u)", "        trace_http(self.c.delete, \"DELETE\")(u)"},
		{"from urllib import request\ndef f():\n    request.urlopen(u)", "    trace_urlopen(request.urlopen)(u)"},
		{"import sqlite3\ndef f(c: sqlite3.Connection):\n    c.cursor().executemany('INSERT INTO a VALUES (?)', v)", `    trace_query(c.cursor().executemany, "sqlite", "INSERT", "a")('INSERT INTO a VALUES (?)', v)`},
		{"import psycopg2\ndef f():\n    with psycopg2.connect(d) as c, c.cursor() as u:\n        u.execute('UPDATE a SET b = 1')", `        trace_query(u.execute, "postgresql", "UPDATE", "a")('UPDATE a SET b = 1')`},
		{"import psycopg\nasync def f():\n    c = await psycopg.AsyncConnection.connect(d)\n    await c.execute('DELETE FROM a')", `    await trace_query(c.execute, "postgresql", "DELETE", "a")('DELETE FROM a')`},
		{"import asyncpg\nasync def f(p: asyncpg.Pool):\n    return await p.fetchval('SELECT 1')", `    return await trace_query(p.fetchval, "postgresql", "SELECT")('SELECT 1')`},
		{"import pymysql\ndef f():\n    c = pymysql.connect().cursor()\n    c.execute(q)", `    trace_query(c.execute, "mysql")(q)`},
		{"import mysql.connector\ndef f():\n    mysql.connector.connect().cursor().execute(q)", `    trace_query(mysql.connector.connect().cursor().execute, "mysql")(q)`},
		{"import MySQLdb\ndef f():\n    MySQLdb.connect().cursor().execute(q)", `    trace_query(MySQLdb.connect().cursor().execute, "mysql")(q)`},
		{"from cassandra.cluster import Cluster\ns = Cluster().connect()\ndef f():\n    s.execute('SELECT a FROM b.c')", `    trace_query(s.execute, "cassandra", "SELECT", "b.c")('SELECT a FROM b.c')`},
		{"import oracledb\ndef f():\n    oracledb.connect().cursor().execute('MERGE INTO a USING b')", `    trace_query(oracledb.connect().cursor().execute, "oracle.db", "MERGE", "a")('MERGE INTO a USING b')`},
		{"from clickhouse_driver import Client\nc = Client('a')\ndef f():\n    c.execute('SELECT 1')", `    trace_query(c.execute, "clickhouse", "SELECT")('SELECT 1')`},
		{"import clickhouse_connect\nc = clickhouse_connect.get_client()\ndef f():\n    c.query('SELECT 1')", `    trace_query(c.query, "clickhouse", "SELECT")('SELECT 1')`},
		{"from neo4j import GraphDatabase\nd = GraphDatabase.driver(u)\ndef f():\n    with d.session() as s:\n        s.run('MATCH (a) RETURN a')", `        trace_query(s.run, "neo4j")('MATCH (a) RETURN a')`},
	}
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "requirements.txt"), []byte("opentelemetry-sdk\n"), 0o600))
	for i, e := range examples {
		text := "def work(*args):\n    pass\n\n" + e[0] + "\n"
		require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("a%d.py", i)), []byte(text), 0o600))
	}
	p, _, err := makePatch(t, newParser(t), dir, instrument.General)
	require.NoError(t, err)
	changed := map[string]string{}
	for _, f := range p.Files {
		changed[f.Path] = string(f.After)
	}
	for i, e := range examples {
		require.True(t, strings.HasSuffix(changed[fmt.Sprintf("a%d.py", i)], "\n"+e[1]+"\n"), "%s\n%s", e[0], changed[fmt.Sprintf("a%d.py", i)])
	}
}

// FuzzPythonBoundaries changes hostile code: what parsed before parses afterwards, and a second change is empty.
func FuzzPythonBoundaries(f *testing.F) {
	for _, dir := range []string{"testdata/python", "testdata/python_run/service"} {
		require.NoError(f, filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
			if err == nil && filepath.Ext(name) == ".py" {
				text, err := os.ReadFile(name)
				require.NoError(f, err)
				f.Add(text)
			}
			return err
		}))
	}
	parser := newParser(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > 64<<10 {
			return
		}
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "requirements.txt"), []byte("opentelemetry-sdk\n"), 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "a.py"), text, 0o600))
		p, root, err := makePatch(t, parser, dir, instrument.General)
		if err != nil {
			require.Equal(t, assay.CodeUnprocessable, assay.ErrorCode(err))
			return
		}
		for _, f := range p.Files {
			if f.Created || patch.Parses(t.Context(), parser, f.Path, f.Before) {
				require.True(t, patch.Parses(t.Context(), parser, f.Path, f.After), f.Path)
			}
		}
		require.NoError(t, p.Apply(root))
		again, _, err := makePatch(t, parser, dir, instrument.General)
		require.NoError(t, err)
		require.Empty(t, again.Files)
	})
}
