// SPDX-License-Identifier: Apache-2.0

package check_test

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/internal/review"
	"assay/internal/review/check"
	"assay/internal/review/check/checktest"
	"assay/internal/review/treesitter"
	"assay/internal/rules/catalog"
)

var update = flag.Bool("update", false, "rewrite docs/checks.md")

// TestExamples reviews each example of each check and compares the places that the check reports.
func TestExamples(t *testing.T) {
	examples := checktest.Examples(t)
	require.Len(t, examples, len(check.All()), "every check has a file of examples, and every file a check")
	for _, c := range check.All() {
		t.Run(c.ID, func(t *testing.T) {
			t.Parallel()
			positive, negative := 0, 0
			names := map[string]bool{}
			for _, e := range examples[c.ID] {
				if len(e.Findings) > 0 {
					positive++
				} else {
					negative++
				}
				t.Run(e.Name, func(t *testing.T) {
					require.NotEmpty(t, e.Name)
					require.False(t, names[e.Name], "two examples have this name")
					names[e.Name] = true
					r := reviewExample(t, e, c.ID)
					require.Empty(t, r.Errors)
					got := []string{}
					for _, f := range r.Findings {
						got = append(got, fmt.Sprintf("%s:%d", f.Locations[0].File, f.Locations[0].Line))
						require.NotEmpty(t, f.Summary)
					}
					slices.Sort(got)
					want := slices.Sorted(slices.Values(e.Findings))
					require.Equal(t, append([]string{}, want...), got)
				})
			}
			require.NotZero(t, positive, "the check has no example of what it reports")
			require.NotZero(t, negative, "the check has no near miss")
		})
	}
}

// parser has the grammars of all examples.
var parser = sync.OnceValues(func() (*treesitter.Parser, error) { return review.NewParser(context.Background(), "") })

// reviewExample runs one check on the files of an example.
func reviewExample(t *testing.T, e checktest.Example, id string) *review.Report {
	t.Helper()
	dir := t.TempDir()
	for name, text := range e.Files {
		file := filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	}
	p, err := parser()
	require.NoError(t, err)
	r, err := review.Run(t.Context(), review.Options{Root: dir, Only: []string{id}, Parser: p})
	require.NoError(t, err)
	return r
}

// TestTitles checks that the title of a finding is the title of its check followed by the subject.
func TestTitles(t *testing.T) {
	const server = `package main

import (
	"log/slog"
	"net/http"
)

func main() {
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { slog.Info("called", "email", email) })
	_ = http.ListenAndServe(":8080", nil)
}
`
	const resource = `package main

import (
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
)

func main() {
	r := resource.NewSchemaless(semconv.ServiceName("shop"))
	_ = trace.NewTracerProvider(trace.WithResource(r))
}
`
	const compose = `services:
  cart:
    image: cart
    environment:
      OTEL_RESOURCE_ATTRIBUTES: team=shop
`
	for _, c := range []struct{ id, file, text, want string }{
		{"sensitive-log", "main.go", server, "Log statement writes sensitive data: email"},
		{"uninstrumented-server", "main.go", server, "Server, consumer or database client is not instrumented: net/http"},
		{"resource-attributes", "main.go", resource, "Resource lacks the attributes that identify the service: deployment.environment.name, service.instance.id"},
		{"resource-attributes", "compose.yaml", compose, "Resource lacks the attributes that identify the service: cart"},
	} {
		r := reviewExample(t, checktest.Example{Files: map[string]string{c.file: c.text}}, c.id)
		require.NotEmpty(t, r.Findings, c.want)
		require.Equal(t, c.want, r.Findings[0].DisplayTitle)
	}
}

// TestSecretsInTexts checks that no text of a finding contains the value of a secret in the code.
func TestSecretsInTexts(t *testing.T) {
	const value = "Zq81k7Qm2Lp4"
	const java = "import org.slf4j.*;\nclass A { static final Logger log = LoggerFactory.getLogger(\"x\");\n  void f() { log.info(\"pw {}\", %s); }\n}\n"
	const python = "import logging, os\nlog = logging.getLogger(__name__)\nlog.info(\"pw %%s\", %s)\n"
	const script = "import pino from 'pino';\nconst log = pino();\nlog.info(%s);\n"
	const span = "import { trace } from '@opentelemetry/api';\nconst span = trace.getTracer('x').startSpan(%s);\n"
	for _, c := range []struct{ id, file, text, expression, title string }{
		{"sensitive-log", "a.go", "package a\n\nimport \"log\"\n\nfunc f() { log.Printf(\"pw %%s\", %s) }\n", `getEnv("DB_PASSWORD", "Zq81k7Qm2Lp4")`, `getEnv("DB_PASSWORD", ***)`},
		{"sensitive-log", "A.java", java, `System.getProperty("db.password", "Zq81k7Qm2Lp4")`, `System.getProperty("db.password", ***)`},
		{"sensitive-log", "a.py", python, `os.getenv("DB_PASSWORD", "Zq81k7Qm2Lp4")`, `os.getenv("DB_PASSWORD", ***)`},
		{"sensitive-log", "a.py", python, `password or "Zq81k7Qm2Lp4"`, `password or ***`},
		{"sensitive-log", "a.py", python, `settings.get("a-very-long-name-of-a-section", password or "Zq81k7Qm2Lp4")`, ``},
		{"sensitive-log", "a.ts", script, `'pw', process.env.DB_PASSWORD || 'Zq81k7Qm2Lp4'`, `process.env.DB_PASSWORD || ***`},
		{"sensitive-log", "a.ts", script, `{ password: req.password ?? 'Zq81k7Qm2Lp4' }, 'x'`, `password: req.password ?? ***`},
		{"span-name-dynamic", "a.ts", span, "`login ${userId} ${process.env.DB_PASSWORD || 'Zq81k7Qm2Lp4'}`", ``},
		{"span-name-dynamic", "a.ts", span, "`login ${find(userId, 'Zq81k7Qm2Lp4', password)}`", ``},
	} {
		r := reviewExample(t, checktest.Example{Files: map[string]string{c.file: fmt.Sprintf(c.text, c.expression)}}, c.id)
		if c.title != "" {
			require.Len(t, r.Findings, 1, c.expression)
			require.Equal(t, "Log statement writes sensitive data: "+c.title, r.Findings[0].DisplayTitle)
		}
		text, err := json.Marshal(r)
		require.NoError(t, err)
		require.NotContains(t, string(text), value, c.expression)
	}
}

func TestTexts(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range check.All() {
		t.Run(c.ID, func(t *testing.T) {
			require.Regexp(t, `^[a-z]+(-[a-z]+)*$`, c.ID)
			require.False(t, seen[c.ID], "two checks have this name")
			seen[c.ID] = true
			require.Regexp(t, `^[A-Z].*[^.]$`, c.Title)
			require.Contains(t, []string{check.SensitiveData, check.Volume, check.Correctness, check.Governance}, c.Category)
			require.Contains(t, check.Severities, c.Severity)
			require.NotEmpty(t, c.Why)
			require.NotEmpty(t, c.Fix)
			require.True(t, c.Source != nil || c.Config != nil || c.Repository != nil, "the check has no code")
			for _, id := range c.Rules {
				_, ok := catalog.ByID(id)
				require.True(t, ok, "there is no rule %s", id)
			}
		})
	}
}

const checksIntro = `# Checks

<!-- Generated from the checks: make generate. -->

[` + "`assay review`" + `](cli.md#assay-review) runs these checks on source code, manifests, deployment files and configurations. A comment
` + "`assay-ignore: CHECK`" + ` on the line of a finding or on the line above suppresses the finding; several names are separated by
commas. ` + "`--disable`" + ` turns a check off. "Code" is Go, JavaScript, TypeScript, Python and Java; ` + "[`assay fix`]" + `(cli.md#assay-fix) applies
the fixes that need no decision.

A finding has an id that stays while the check, the path, the function around the place and the subject (such as the key of an
attribute) stay. Line numbers are not part of it. Equal findings of a file are numbered in their order.

Directories of tests, documentation, examples and fixtures, vendored, generated, minified and binary files, and files over 512 KiB
are not reviewed. Neither are files that ` + "`.gitignore`" + ` excludes.
`

// TestDocument compares docs/checks.md with the checks.
func TestDocument(t *testing.T) {
	var b strings.Builder
	b.WriteString(checksIntro)
	examples := checktest.Examples(t)
	b.WriteString("\n| Check | What it reports | Category | Severity | Rules | Found in | Fix |\n|---|---|---|---|---|---|---|\n")
	for _, c := range check.All() {
		fixable := ""
		if c.Fixable {
			fixable = "`assay fix`"
		}
		fmt.Fprintf(&b, "| [`%s`](#%s) | %s | %s | %s | %s | %s | %s |\n", c.ID, c.ID, c.Title, c.Category, c.Severity, strings.Join(c.Rules, ", "), strings.Join(foundIn(examples[c.ID]), ", "), fixable)
	}
	writeCorpus(t, &b)
	for _, c := range check.All() {
		fmt.Fprintf(&b, "\n## %s\n\n%s.\n\n%s\n\n### How to fix %s\n\n%s\n", c.ID, c.Title, strings.TrimSpace(c.Why), c.ID, strings.TrimSpace(c.Fix))
		writeExample(&b, examples[c.ID], "Reported", func(e checktest.Example) bool { return len(e.Findings) > 0 })
		writeExample(&b, examples[c.ID], "Not reported", func(e checktest.Example) bool { return len(e.Findings) == 0 })
	}
	const file = "../../../docs/checks.md"
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(b.String()), 0o644))
	}
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, b.String(), string(text), "docs/checks.md differs from the checks: run make generate")
}

// writeCorpus writes the verdicts of a reader on findings in public modules, and on places without a finding.
func writeCorpus(t *testing.T, b *strings.Builder) {
	t.Helper()
	modules := map[string]int{}
	for _, row := range readCSV(t, "testdata/corpus_modules.csv") {
		modules[row[0]]++
	}
	type counts struct{ right, wrong, suggested, wrongSuggested, missed int }
	perCheck := map[string]*counts{}
	all := &counts{}
	for _, row := range readCSV(t, "testdata/corpus.csv") {
		require.True(t, slices.ContainsFunc(check.All(), func(c *check.Check) bool { return c.ID == row[4] }), row[4])
		require.NotEmpty(t, row[7], "the verdict has no reason")
		if perCheck[row[4]] == nil {
			perCheck[row[4]] = &counts{}
		}
		for _, n := range []*counts{perCheck[row[4]], all} {
			suggestion := row[5] == string(check.Suggestion)
			switch {
			case row[6] == "missed":
				n.missed++
			case row[6] == "true" && suggestion:
				n.suggested++
			case row[6] == "true":
				n.right++
			case row[6] == "false" && suggestion:
				n.wrongSuggested++
			case row[6] == "false":
				n.wrong++
			default:
				require.Fail(t, "unknown verdict", row[6])
			}
		}
	}
	fmt.Fprintf(b, corpusIntro, modules["go"], modules["npm"], modules["git"])
	line := func(id string, n *counts) {
		fmt.Fprintf(b, "| %s | %d | %s | %d | %s | %d | %s |\n", id, n.right+n.wrong, ratio(n.right, n.wrong), n.suggested+n.wrongSuggested, ratio(n.suggested, n.wrongSuggested),
			n.missed, ratio(n.right+n.suggested, n.missed))
	}
	for _, c := range check.All() {
		n := perCheck[c.ID]
		if n == nil {
			n = &counts{}
		}
		line("`"+c.ID+"`", n)
	}
	line("all", all)
	require.GreaterOrEqual(t, 100*all.right, 95*(all.right+all.wrong))
	require.GreaterOrEqual(t, 100*(all.right+all.suggested), 85*(all.right+all.suggested+all.missed))
}

const corpusIntro = `
## Precision and recall

The checks were run on public code that was not written for them: %d Go modules, %d npm packages, and %d repositories in Go, Java,
JavaScript and Python. A reviewer judged each finding, or an evenly spread sample of 40 where a check has more findings in a module, and
searched the modules for places that the checks miss. The verdicts are in
[corpus.csv](../internal/review/check/testdata/corpus.csv). ` + "`make check-corpus`" + ` downloads the modules and compares.

Precision is the share of the findings with a verdict that are right. Suggestions are counted apart: a check reports as a suggestion
what it cannot decide from the code. Recall is the share of the known places that the check reports. It is an upper bound, because a
search does not find everything. A dash means that the corpus has no such place.

` + "`sensitive-log`" + ` was also run on 102 other public repositories, on some of which its rules were corrected. Of 222 findings that are no
suggestions, 213 are right (0.96), judged by the log statement and the definitions of its values where they were in doubt. These
verdicts are not in the table.

| Check | Findings | Precision | Suggestions | Precision of suggestions | Missed | Recall |
|---|---|---|---|---|---|---|
`

// ratio returns the share of the first number in the sum of both.
func ratio(part, rest int) string {
	if part+rest == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", float64(part)/float64(part+rest))
}

// readCSV returns the rows of a file, without its header.
func readCSV(t *testing.T, name string) [][]string {
	t.Helper()
	f, err := os.Open(name)
	require.NoError(t, err)
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	require.NoError(t, err)
	return rows[1:]
}

// foundIn returns the kinds of files in which a check reports its examples.
func foundIn(examples []checktest.Example) (list []string) {
	code, configuration := false, false
	for _, e := range examples {
		for _, place := range e.Findings {
			switch path.Ext(places.FindStringSubmatch(place)[1]) {
			case ".go", ".js", ".ts", ".py", ".java":
				code = true
			default:
				configuration = true
			}
		}
	}
	if code {
		list = append(list, "code")
	}
	if configuration {
		list = append(list, "configuration")
	}
	return list
}

var fences = map[string]string{".go": "go", ".js": "js", ".ts": "ts", ".py": "python", ".java": "java", ".yaml": "yaml", ".yml": "yaml", ".json": "json", ".mod": "go-mod", ".xml": "xml", ".toml": "toml"}

// places matches the line number in a place of an example.
var places = regexp.MustCompile(`^(.*):(\d+)$`)

// writeExample writes the first example of a kind.
func writeExample(b *strings.Builder, examples []checktest.Example, label string, is func(checktest.Example) bool) {
	i := slices.IndexFunc(examples, is)
	if i < 0 {
		return
	}
	e := examples[i]
	fmt.Fprintf(b, "\n%s: %s", label, e.Name)
	if len(e.Findings) > 0 {
		var where []string
		for _, p := range e.Findings {
			if m := places.FindStringSubmatch(p); m != nil {
				where = append(where, fmt.Sprintf("`%s` line %s", m[1], m[2]))
			}
		}
		fmt.Fprintf(b, " (%s)", strings.Join(where, ", "))
	}
	b.WriteString(".\n")
	for _, name := range slices.Sorted(maps.Keys(e.Files)) {
		if len(e.Files) > 1 {
			fmt.Fprintf(b, "\n`%s`:\n", name)
		}
		fmt.Fprintf(b, "\n```%s\n%s\n```\n", fences[path.Ext(name)], strings.TrimRight(e.Files[name], "\n"))
	}
}

// TestFormerEnvironment checks that a finding about a service says that it sets the environment under its former name.
func TestFormerEnvironment(t *testing.T) {
	const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  containers:\n  - name: web\n    env:\n    - {name: OTEL_RESOURCE_ATTRIBUTES, value: 'service.name=web,%s=production'}\n"
	for key, former := range map[string]bool{"deployment.environment": true, "service.version": false} {
		r := reviewExample(t, checktest.Example{Files: map[string]string{"pod.yaml": fmt.Sprintf(pod, key)}}, "resource-attributes")
		require.Len(t, r.Findings, 1)
		require.Equal(t, former, strings.Contains(r.Findings[0].Summary, "It sets `deployment.environment`"), r.Findings[0].Summary)
	}
}

// TestSeverity checks that a finding is a suggestion if the code does not prove it.
func TestSeverity(t *testing.T) {
	const python = "import logging\nlogger = logging.getLogger(__name__)\ndef f(request%s):\n    logger.info('%%s', request)\n"
	const java = "import org.slf4j.*;\nclass A { static final Logger log = LoggerFactory.getLogger(\"x\");\n  void f(%s request) { log.info(\"{}\", request); }\n}\n"
	const script = "import pino from 'pino';\nconst log = pino();\nexport const f = (%s) => { log.info({ req }); };\n"
	for _, c := range []struct {
		id, file, text string
		want           check.Severity
	}{
		{"sensitive-log", "a.py", fmt.Sprintf(python, ""), check.Suggestion},
		{"sensitive-log", "a.py", fmt.Sprintf(python, ": Request"), check.Suggestion},
		{"sensitive-log", "A.java", fmt.Sprintf(java, "Request"), check.Suggestion},
		{"sensitive-log", "A.java", fmt.Sprintf(java, "HttpServletRequest"), check.Suggestion},
		{"sensitive-log", "A.java", fmt.Sprintf(java, "ServerHttpRequest"), check.Suggestion},
		{"sensitive-log", "A.java", fmt.Sprintf(java, "FullHttpRequest"), check.Critical},
		{"sensitive-log", "a.ts", fmt.Sprintf(script, "req"), check.Suggestion},
		{"sensitive-log", "a.ts", fmt.Sprintf(script, "req, res"), check.Critical},
		{"sensitive-log", "a.ts", fmt.Sprintf(script, "req: Request<Params>"), check.Critical},
		{"sensitive-log", "a.go", "package a\n\nimport (\n\t\"log\"\n\t\"net/http\"\n)\n\nfunc f(req *http.Request) { log.Print(req) }\n", check.Critical},
		{"sensitive-log", "a.go", "package a\n\nimport \"log\"\n\nfunc f(req any) { log.Print(req) }\n", check.Suggestion},
		{"sensitive-log", "a.go", "package a\n\nimport \"log\"\n\nfunc f(all []any) {\n\tfor _, secret := range all {\n\t\tlog.Print(secret)\n\t\tdrop(secret.Reference)\n\t}\n}\n", check.Suggestion},
		{"sensitive-log", "a.go", "package a\n\nimport \"log\"\n\nfunc f(all []any) {\n\tfor _, secret := range all {\n\t\tlog.Print(secret)\n\t\tuse(secret.ID, secret.Value)\n\t}\n}\n", check.Critical},
		{"uninstrumented-server", "main.go", "package main\n\nimport (\n\t\"net/http\"\n\n\t_ \"github.com/opentracing/opentracing-go\"\n)\n\nfunc main() { http.ListenAndServe(\":80\", nil) }\n", check.Suggestion},
		{"uninstrumented-server", "main.go", "package main\n\nimport (\n\t\"net/http\"\n\n\t_ \"go.opentelemetry.io/otel\"\n)\n\nfunc main() { http.ListenAndServe(\":80\", nil) }\n", check.Medium},
	} {
		r := reviewExample(t, checktest.Example{Files: map[string]string{c.file: c.text}}, c.id)
		require.Len(t, r.Findings, 1, c.text)
		require.Equal(t, string(c.want), string(r.Findings[0].Severity), c.text)
	}
}

// TestLogLevels checks that the finding about a default level in code names the variable that overrides the level.
func TestLogLevels(t *testing.T) {
	const python, script = "import logging\nimport os\n", "const log = require('loglevel');\nlog.setLevel('debug');\n"
	const java = "import org.apache.logging.log4j.*;\nimport org.apache.logging.log4j.core.config.Configurator;\nclass Main {\n  void run() {\n    Configurator.setRootLevel(Level.DEBUG);\n%s  }\n}\n"
	golang := func(body string) string {
		return "package a\n\nimport (\n\t\"os\"\n\n\t\"github.com/sirupsen/logrus\"\n)\n\nfunc f() {\n\tlogrus.SetLevel(logrus.DebugLevel)\n" + body + "}\n"
	}
	const everywhere = "The code sets the log level to DEBUG wherever it runs."
	for _, c := range []struct{ file, text, want string }{
		{"a.go", golang(""), everywhere},
		{"a.go", golang("\tdefer logrus.SetLevel(logrus.InfoLevel)\n"), everywhere},
		{"a.go", golang("\tif text, ok := os.LookupEnv(\"APP_LOG_LEVEL\"); ok {\n\t\tif level, err := logrus.ParseLevel(text); err == nil {\n\t\t\tlogrus.SetLevel(level)\n\t\t}\n\t}\n"), "APP_LOG_LEVEL"},
		{"a.go", golang("}\n\nfunc configure(c *Config) {\n\tlogrus.SetLevel(c.Verbosity)\n"), "c.Verbosity"},
		{"a.py", python + "logging.basicConfig(level=logging.DEBUG)\nlogging.getLogger('sql').setLevel(logging.WARNING)\n", everywhere},
		{"a.py", python + "logging.basicConfig(level=logging.DEBUG)\nif 'LOG_LEVEL' in os.environ:\n    logging.getLogger().setLevel(os.environ['LOG_LEVEL'])\n", "LOG_LEVEL"},
		{"a.js", script + "log.setLevel('debug');\n", everywhere},
		{"a.js", script + "if (process.env.LOG_LEVEL) log.setLevel(process.env.LOG_LEVEL);\n", "LOG_LEVEL"},
		{"A.java", fmt.Sprintf(java, "    Configurator.setLevel(\"org.acme\", Level.toLevel(\"INFO\"));\n"), everywhere},
		{"A.java", fmt.Sprintf(java, "    String level = System.getenv(\"LOG_LEVEL\");\n    if (level != null) {\n      Configurator.setRootLevel(Level.toLevel(level));\n    }\n"), "LOG_LEVEL"},
	} {
		r := reviewExample(t, checktest.Example{Files: map[string]string{c.file: c.text}}, "log-debug-production")
		require.NotEmpty(t, r.Findings, c.text)
		f := r.Findings[0]
		if c.want == everywhere {
			require.Equal(t, everywhere, f.Summary, c.text)
			require.Equal(t, "high", string(f.Severity), c.text)
			continue
		}
		require.Equal(t, "The default log level is DEBUG. `"+c.want+"` can set another level.", f.Summary, c.text)
		require.Equal(t, "suggestion", string(f.Severity), c.text)
	}
}
