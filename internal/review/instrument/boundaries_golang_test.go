// SPDX-License-Identifier: Apache-2.0

package instrument_test

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/format"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"golang.org/x/mod/modfile"

	"assay/internal/review"
	"assay/internal/review/instrument"
)

// goPrograms are the directories in testdata with modules in Go.
var goPrograms = []string{"go-consumers", "go-data", "go-clients", "go-chi", "go-mux", "go-echo", "go-fiber", "go-connect", "go-programs", "go-tested"}

// TestGoBoundaries compares the patches for modules in Go, and makes them a second time, which changes nothing. A
// review of the changed code finds nothing that is not instrumented, apart from what the patch leaves.
func TestGoBoundaries(t *testing.T) {
	parser := newParser(t)
	for _, name := range goPrograms {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), name)
			require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join("testdata", name))))
			p, root, err := makePatch(t, parser, dir, instrument.General)
			require.NoError(t, err)
			var got strings.Builder
			for _, s := range p.Steps {
				fmt.Fprintf(&got, "%s %s:%d %s\n", map[bool]string{false: "did ", true: "left"}[s.Open], s.File, s.Line, s.Text)
			}
			got.WriteString("\n")
			require.NoError(t, p.Diff(&got))
			golden := filepath.Join("testdata", name+".golden")
			if *update {
				require.NoError(t, os.WriteFile(golden, []byte(got.String()), 0o600))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			require.Equal(t, string(want), got.String())

			require.NoError(t, p.Apply(root))
			for _, f := range p.Files {
				if filepath.Ext(f.Path) == ".go" {
					formatted, err := format.Source(f.After)
					require.NoError(t, err)
					require.Equal(t, string(formatted), string(f.After))
					require.Empty(t, variableErrors(t, f.After), f.Path)
				}
			}
			again, _, err := makePatch(t, parser, dir, instrument.General)
			require.NoError(t, err)
			require.Empty(t, again.Files)
			report, err := review.Run(t.Context(), review.Options{Root: dir, Only: []string{"uninstrumented-server", "span-not-ended", "span-error-unrecorded"}, Parser: parser})
			require.NoError(t, err)
			require.Empty(t, report.Findings)
		})
	}
}

// TestGoAgain: code that is added to an instrumented module is instrumented too, and nothing else changes.
func TestGoAgain(t *testing.T) {
	parser := newParser(t)
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS("testdata/go-clients")))
	p, root, err := makePatch(t, parser, dir, instrument.General)
	require.NoError(t, err)
	require.NoError(t, p.Apply(root))
	added := "package main\n\nimport (\n\t\"net/http\"\n\n\t\"github.com/redis/go-redis/v9\"\n)\n\nvar (\n\tother = &http.Client{}\n\tcache = redis.NewClient(nil)\n)\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "other.go"), []byte(added), 0o600))
	p, _, err = makePatch(t, parser, dir, instrument.General)
	require.NoError(t, err)
	var changed []string
	for _, f := range p.Files {
		changed = append(changed, f.Path)
		if f.Path == "other.go" {
			require.Contains(t, string(f.After), "&http.Client{Transport: instrumentation.Transport(nil)}")
			require.Contains(t, string(f.After), "instrumentation.Redis(redis.NewClient(nil))")
		}
	}
	require.Equal(t, []string{"internal/instrumentation/redis.go", "other.go"}, changed)
}

// TestGoLimits: a file and a module with more servers and clients than a change takes are named once.
func TestGoLimits(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	write("go.mod", "module example.com/shop\n\ngo 1.26.0\n")
	write("main.go", "package main\n\nimport \"net/http\"\n\nfunc main() { _ = http.ListenAndServe(\"\", nil) }\n")
	const files, clients = 6, 101
	for i := range files {
		write(fmt.Sprintf("client%02d.go", i), "package main\n\nimport \"net/http\"\n\nvar _ = []*http.Client{\n"+strings.Repeat("\t{},\n\tnew(http.Client),\n\tpointer(http.Client{}),\n", clients)+"}\n")
	}
	p, _, err := makePatch(t, newParser(t), dir, instrument.General)
	require.NoError(t, err)
	file, module := 0, 0
	for _, s := range p.Steps {
		if s.Text == "More than 100 servers and clients in one file: the others are left" {
			file++
		}
		if s.Text == "More than 500 servers and clients in the module `example.com/shop`: the others are left" {
			module++
		}
	}
	require.Equal(t, []int{5, 1}, []int{file, module})
}

// goStubs are the modules in testdata/go-stubs that stand for those of a program.
var goStubs = map[string]string{
	"kafka": "github.com/segmentio/kafka-go", "sarama": "github.com/IBM/sarama", "amqp": "github.com/rabbitmq/amqp091-go", "nats": "github.com/nats-io/nats.go",
	"aws": "github.com/aws/aws-sdk-go-v2", "sqs": "github.com/aws/aws-sdk-go-v2/service/sqs", "cron": "github.com/robfig/cron/v3",
	"otelhttp": "go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp", "otelgrpc": "go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc",
}

// TestGoConsumersRun runs a program with consumers before and after the change. Its output is the same, and its
// telemetry is that of the conventions.
func TestGoConsumersRun(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "go-consumers"))))
	run, err := os.ReadFile("testdata/go-stubs/run.go")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "orders", "run.go"), run, 0o600))
	manifest, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	require.NoError(t, err)

	received := &received{}
	server := httptest.NewServer(received)
	defer server.Close()
	goModuleFiles(t, dir, "example.com/orders")
	before := goRun(t, dir, server.URL)
	require.Empty(t, received.spans)

	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), manifest, 0o600))
	p, root, err := makePatch(t, newParser(t), dir, instrument.General)
	require.NoError(t, err)
	require.NoError(t, p.Apply(root))
	goModuleFiles(t, dir, "example.com/orders")
	require.Equal(t, before, goRun(t, dir, server.URL))
	slices.Sort(received.spans)
	slices.Sort(received.metrics)

	got := strings.Join(received.spans, "\n") + "\n\n" + strings.Join(received.metrics, "\n") + "\n"
	const golden = "testdata/go-consumers.telemetry"
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(got), 0o600))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

// TestGoTested runs the tests of a module before and after the change.
func TestGoTested(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "go-tested"))))
	manifest, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	require.NoError(t, err)
	run := func() {
		goModuleFiles(t, dir, "example.com/tested")
		tests := exec.CommandContext(t.Context(), "go", "test", "./...")
		tests.Dir, tests.Env = dir, append(os.Environ(), "GOWORK=off", "GOPROXY=off")
		out, err := tests.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	run()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), manifest, 0o600))
	p, root, err := makePatch(t, newParser(t), dir, instrument.General)
	require.NoError(t, err)
	require.NoError(t, p.Apply(root))
	run()
}

// goModuleFiles gives a module the requirements of this one, so that it needs no network, and the stubs.
func goModuleFiles(t *testing.T, dir, name string) {
	text, err := os.ReadFile("../../../go.mod")
	require.NoError(t, err)
	mod, err := modfile.Parse("go.mod", text, nil)
	require.NoError(t, err)
	require.NoError(t, mod.AddModuleStmt(name))
	stubs, err := filepath.Abs("testdata/go-stubs")
	require.NoError(t, err)
	for name, module := range goStubs {
		version := "v1.0.0"
		if strings.HasSuffix(module, "/v3") {
			version = "v3.0.0"
		}
		require.NoError(t, mod.AddRequire(module, version))
		require.NoError(t, mod.AddReplace(module, "", filepath.Join(stubs, name), ""))
	}
	text, err = mod.Format()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), text, 0o600))
	sums, err := os.ReadFile("../../../go.sum")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.sum"), sums, 0o600))
}

// goRun runs a program and returns what it writes.
func goRun(t *testing.T, dir, endpoint string) string {
	var out, failed bytes.Buffer
	program := exec.CommandContext(t.Context(), "go", "run", ".")
	program.Dir, program.Stdout, program.Stderr = dir, &out, &failed
	program.Env = append(os.Environ(), "GOWORK=off", "GOPROXY=off", "OTEL_EXPORTER_OTLP_ENDPOINT="+endpoint, "OTEL_SERVICE_NAME=orders")
	require.NoError(t, program.Run(), "%s", &failed)
	require.Empty(t, failed.String())
	return out.String()
}

// received is a receiver of OTLP that keeps the spans, and the metrics of the program's own scopes.
type received struct {
	mu             sync.Mutex
	spans, metrics []string
}

func (r *received) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	body, err := io.ReadAll(request.Body)
	if err == nil && request.URL.Path == "/v1/traces" {
		err = r.traces(body)
	} else if err == nil {
		err = r.points(body)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
}

func (r *received) traces(body []byte) error {
	traces := ptraceotlp.NewExportRequest()
	if err := traces.UnmarshalProto(body); err != nil {
		return err
	}
	for _, resource := range traces.Traces().ResourceSpans().All() {
		for _, scope := range resource.ScopeSpans().All() {
			for _, span := range scope.Spans().All() {
				r.spans = append(r.spans, fmt.Sprintf("%s | %s | parent %s | %s%s | events %d | %s", span.Name(), span.Kind(), span.ParentSpanID(), attributes(span.Attributes()), status(span), span.Events().Len(), scope.Scope().Name()))
			}
		}
	}
	return nil
}

func (r *received) points(body []byte) error {
	metrics := pmetricotlp.NewExportRequest()
	if err := metrics.UnmarshalProto(body); err != nil {
		return err
	}
	for _, resource := range metrics.Metrics().ResourceMetrics().All() {
		for _, scope := range resource.ScopeMetrics().All() {
			if !strings.HasPrefix(scope.Scope().Name(), "example.com/") {
				continue
			}
			for _, m := range scope.Metrics().All() {
				for _, p := range m.Histogram().DataPoints().All() {
					r.metrics = append(r.metrics, fmt.Sprintf("%s | %s | %v | count %d | %s", m.Name(), m.Unit(), p.ExplicitBounds().AsRaw(), p.Count(), attributes(p.Attributes())))
				}
			}
		}
	}
	return nil
}

func attributes(m pcommon.Map) string {
	var all []string
	for key, value := range m.All() {
		all = append(all, key+"="+value.AsString())
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func status(span ptrace.Span) string {
	if span.Status().Code() == ptrace.StatusCodeUnset {
		return ""
	}
	return " | " + span.Status().Code().String() + " " + span.Status().Message()
}

// TestGoLeft: what is instrumented already stays as it is, and what cannot be instrumented safely is left with a
// reason.
func TestGoLeft(t *testing.T) {
	const (
		manifestText = "module example.com/shop\n\ngo 1.26.0\n\nrequire example.com/any v1.0.0\n"
		loop         = "package main\n\nimport (\n\t\"context\"\n\n\t\"github.com/segmentio/kafka-go\"\n)\n\nfunc main() { _, _ = read(context.Background(), kafka.NewReader(kafka.ReaderConfig{})) }\n\n" +
			"func read(ctx context.Context, r *kafka.Reader) (n int, err error) {\n\tfor {\n\t\tm, err := r.ReadMessage(ctx)\n\t\tif err != nil {\n\t\t\tERROR\n\t\t}\n\t\tBODY\n\t}\n}\n\nfunc handle(ctx context.Context, m kafka.Message) (int, error) { return 0, nil }\n"
		server = "package main\n\nimport (\n\t\"net/http\"\nIMPORT)\n\nfunc main() {\n\tBODY\n}\n"
	)
	kafka := func(failed, body string) string {
		return strings.NewReplacer("ERROR", failed, "BODY", body).Replace(loop)
	}
	http := func(imports, body string) string {
		return strings.NewReplacer("IMPORT", imports, "BODY", body).Replace(server)
	}
	get := func(body string) string {
		return http("\t\"context\"\n", "_ = http.ListenAndServe(\":80\", nil)") + "\nfunc get(ctx context.Context) {\n\t" + body + "\n}\n"
	}
	grpc := func(body string) string {
		return http("\n\t\"google.golang.org/grpc\"\n", body+"\n\t_ = http.ListenAndServe(\":80\", nil)")
	}
	const whyUnknown = "the change knows no instrumentation for it, or not for this form of code"
	const otelhttp = "\n\t\"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp\"\n"
	parser := newParser(t)
	for _, test := range []struct {
		name, source string
		manifest     string            // instead of that with one dependency
		files        map[string]string // others
		left         string            // part of a step
		added, not   string            // parts of the changed file
	}{
		{name: "goroutine", source: kafka("return 0, err", "go func() { _, _ = handle(ctx, m) }()"), left: "another goroutine processes the message"},
		{name: "channel", source: kafka("return 0, err", "messages <- m"), left: "another goroutine processes the message"},
		{name: "goto", source: kafka("return 0, err", "if len(m.Value) == 0 {\n\t\t\tgoto end\n\t\t}\n\t\t_, _ = handle(ctx, m)"), left: "the code leaves it by goto"},
		{name: "two results", source: kafka("return 0, err", "return handle(ctx, m)"), left: "the results of its return are computed after the message is processed"},
		{name: "two values", source: kafka("return 0, err", "return 0, nil"), added: "processing.End()\n\t\treturn 0, nil"},
		{name: "no exit", source: kafka("println(err)", "_, _ = handle(ctx, m)"), left: "the loop does not end its pass when no message was read"},
		{name: "context changes", source: kafka("return 0, err", "ctx = context.WithValue(ctx, 1, m)"), left: "the code assigns another value to `ctx`"},
		{name: "name", source: kafka("return 0, err", "processing, _ := handle(ctx, m)\n\t\t_ = processing"), left: "the name `processing` is taken in this function"},
		{name: "outer label", source: kafka("return 0, err", "inner:\n\t\tfor {\n\t\t\tbreak inner\n\t\t}\n\t\t_, _ = handle(ctx, m)"), added: "break inner\n\t\t}\n\t\t_, _ = handle(ctx, m)\n\t\tprocessing.End()"},
		{name: "panic", source: kafka("return 0, err", "panic(m)"), left: "the program ends with the message"},
		{name: "terminating", source: kafka("return 0, err", "switch n {\n\t\tcase 1:\n\t\t\treturn 1, nil\n\t\tdefault:\n\t\t\tcontinue\n\t\t}"), added: "_, processing := instrumentation.ProcessKafka(ctx, m)\n\t\tswitch n {\n\t\tcase 1:\n\t\t\tprocessing.End()\n\t\t\treturn 1, nil\n\t\tdefault:\n\t\t\tprocessing.End()\n\t\t\tcontinue\n\t\t}\n\t}"},
		{name: "context again", source: kafka("return 0, err", "ctx, err := context.WithValue(ctx, 1, m), err\n\t\t_, _ = handle(ctx, m)"), left: "the code declares `ctx` again"},
		{name: "context with timeout", source: kafka("return 0, err", "ctx, cancel := context.WithCancel(ctx)\n\t\t_, _ = handle(ctx, m)\n\t\tcancel()"), added: "ctx, processing := instrumentation.ProcessKafka(ctx, m)\n\t\tctx, cancel :="},
		{name: "field", source: kafka("return 0, err", "s := struct{ ctx int }{ctx: 1}\n\t\tprintln(s.ctx)"), added: "_, processing :="},
		{name: "parameter", source: kafka("return 0, err", "func(ctx context.Context) { _, _ = handle(ctx, m) }(nil)"), added: "_, processing :="},
		{name: "inner block", source: kafka("return 0, err", "if true {\n\t\t\tctx := context.TODO()\n\t\t\t_, _ = handle(ctx, m)\n\t\t}"), added: "_, processing :="},
		{name: "name in the package", source: kafka("return 0, err", "_, _ = handle(ctx, m)"), files: map[string]string{"other.go": "package main\n\nvar instrumentation int\n"}, left: "the name `instrumentation` is taken in this package"},
		{name: "span", source: strings.Replace(kafka("return 0, err", "ctx, span := tracer.Start(ctx, \"process\")\n\t\t_, _ = handle(ctx, m)\n\t\tspan.End()"), "import (", "import (\n\t\"go.opentelemetry.io/otel\"", 1) + "\nvar tracer = otel.Tracer(\"shop\")\n", not: "instrumentation"},
		{name: "package exists", source: kafka("return 0, err", "_, _ = handle(ctx, m)"), files: map[string]string{"internal/instrumentation/own.go": "package instrumentation\n"}, left: "the package `internal/instrumentation` exists"},
		{name: "vendor", source: kafka("return 0, err", "_, _ = handle(ctx, m)"), manifest: strings.Replace(manifestText, "example.com/any v1.0.0", "gopkg.in/DataDog/dd-trace-go.v1 v1.70.0", 1), left: "No server or client is instrumented", not: "instrumentation"},
		{name: "goto into the code", source: kafka("goto next", "_, _ = handle(ctx, m)\n\tnext:\n\t\tprintln()"), left: "a goto before it leads into it", not: "processing"},
		{name: "no error", source: kafka("return 0, err", "if e := decode(m); e != nil {\n\t\t\tprintln(e)\n\t\t}\n\t\t_, _ = handle(ctx, m)"), added: "processing :=", not: "Fail("},
		{name: "error of another name", source: kafka("return 0, err", "if _, handleErr := handle(ctx, m); handleErr != nil {\n\t\t\tprintln(handleErr)\n\t\t}"), added: "processing.Fail(handleErr)"},
		{name: "method Exit", source: kafka("return 0, err", "_, _ = handle(ctx, m)\n\t\tlock.Exit()"), added: "lock.Exit()\n\t\tprocessing.End()"},
		{name: "end of the program", source: kafka("return 0, err", "_, _ = handle(ctx, m)\n\t\tos.Exit(1)"), left: "the program ends with the message"},
		{name: "loop variable with the name of a context", source: get("for _, ctx := range targets {\n\t\t_, _ = http.Get(ctx.URL)\n\t}"), left: "its function has no context with the span of the caller", not: "instrumentation.Get"},
		{name: "parameter with the name of a context", source: get("func(ctx string) { _, _ = http.Get(ctx) }(\"\")"), left: "its function has no context with the span of the caller", not: "instrumentation.Get"},
		{name: "variable with the name of a context", source: get("var ctx = \"\"\n\t_, _ = http.Get(ctx)"), left: "its function has no context with the span of the caller", not: "instrumentation.Get"},
		{name: "derived context", source: get("ctx, span := tracer.Start(ctx, \"\")\n\tdefer span.End()\n\tif true {\n\t\tctx, cancel := context.WithTimeout(ctx, 1)\n\t\tdefer cancel()\n\t\t_, _ = http.Get(\"\")\n\t\t_ = ctx\n\t}"), added: "instrumentation.Get(ctx, \"\")"},
		{name: "same name in another function", source: get("func(ctx string) { println(ctx) }(\"\")\n\t_, _ = http.Get(\"\")"), added: "instrumentation.Get(ctx, \"\")"},
		{name: "path that is code", source: kafka("return 0, err", "_, _ = handle(ctx, m)"), manifest: strings.Replace(manifestText, "example.com/shop", "\"example.com/a\\\"\\n\\nfunc init() { panic(1) }\\n\\nconst b = \\\"\"", 1), left: "the path of the module is not valid", not: "panic"},
		{name: "handler variable", source: http(otelhttp, "h := otelhttp.NewHandler(http.NewServeMux(), \"shop\")\n\t_ = http.ListenAndServe(\":80\", h)"), not: "\"server\""},
		{name: "other handler", source: http(otelhttp, "http.Handle(\"/\", otelhttp.NewHandler(http.NotFoundHandler(), \"shop\"))\n\t_ = http.ListenAndServe(\":80\", nil)"), left: "the module sets `go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp` up in another place", not: "\"server\""},
		{name: "pointer handler", source: http("", "_ = http.ListenAndServe(\":80\", (&http.ServeMux{}))"), added: "otelhttp.NewHandler((&http.ServeMux{}), \"server\")"},
		{name: "name of package", source: http("", "otelhttp := http.NewServeMux()\n\t_ = http.ListenAndServe(\":80\", otelhttp)"), left: "the name `otelhttp` is taken in this package"},
		{name: "server without handler", source: http("", "s := http.Server{}\n\ts.Handler = http.NotFoundHandler()\n\t_ = s.ListenAndServe()"), left: "its handler is set in another place"},
		{name: "transport set", source: http("", "c := &http.Client{}\n\tc.Transport = &http.Transport{}\n\t_, _ = c.Get(\"\")\n\t_ = http.ListenAndServe(\":80\", nil)"), left: "the module uses the transport of a client in another place"},
		{name: "transport in another file", source: http("", "_ = &http.Client{}\n\t_ = http.ListenAndServe(\":80\", nil)"), files: map[string]string{"store/tune.go": "package store\n\nimport \"net/http\"\n\nfunc tune(c *http.Client) { c.Transport.(*http.Transport).MaxIdleConns = 10 }\n"}, left: "the module uses the transport of a client in another place", not: "instrumentation.Transport"},
		{name: "connection of a driver", source: http("\t\"database/sql\"\n", "_, _ = sql.Open(\"pgx\", \"\")\n\t_ = http.ListenAndServe(\":80\", nil)"), files: map[string]string{"store/copy.go": "package store\n\nfunc load(c conn) error { return c.Raw(func(driver any) error { return nil }) }\n"}, left: "the module uses its driver or a connection of it", not: "otelsql"},
		{name: "driver", source: http("\t\"github.com/jmoiron/sqlx\"\n", "db, _ := sqlx.Open(\"pgx\", \"\")\n\t_ = db.Driver()\n\t_ = http.ListenAndServe(\":80\", nil)"), left: "the module uses its driver or a connection of it", not: "OpenSqlx"},
		{name: "Gorm with its plugin", source: http("\n\t\"gorm.io/gorm\"\n\t\"gorm.io/plugin/opentelemetry/tracing\"\n", "db, _ := gorm.Open(nil)\n\t_ = db.Use(tracing.NewPlugin())\n\t_ = http.ListenAndServe(\":80\", nil)"), left: "the module sets `gorm.io/plugin/opentelemetry` up in another place", not: "instrumentation.Gorm"},
		{name: "statement of Gorm", source: http("\t\"database/sql\"\n\n\t\"gorm.io/gorm\"\n", "db, _ := sql.Open(\"pgx\", \"\")\n\t(&gorm.DB{}).Raw(\"SELECT 1\").Scan(db)\n\t_ = http.ListenAndServe(\":80\", nil)"), added: "otelsql.Open("},
		{name: "default changes", source: http("", "http.DefaultTransport = &http.Transport{}\n\t_ = &http.Client{}\n\t_ = http.ListenAndServe(\":80\", nil)"), left: "the module changes a default of `net/http`"},
		{name: "comparison with the default client", source: get("c := http.DefaultClient\n\t_ = c == http.DefaultClient\n\t_, _ = http.Get(\"\")"), left: "the module or a test of it uses `http.DefaultClient` in a form of code that the change does not know", not: "internal/instrumentation"},
		{name: "default client as a key", source: get("_ = map[*http.Client]int{http.DefaultClient: 1}\n\t_, _ = http.DefaultClient.Get(\"\")"), left: "the module or a test of it uses `http.DefaultClient` in a form of code that the change does not know", not: "internal/instrumentation"},
		{name: "field of the default client", source: get("println(http.DefaultClient.Timeout)\n\tc := http.DefaultClient\n\t_ = c"), left: "the module or a test of it uses `http.DefaultClient` in a form of code that the change does not know", not: "internal/instrumentation"},
		{name: "address of the default client", source: get("c := &http.DefaultClient\n\t_ = c"), left: "the module or a test of it uses `http.DefaultClient` in a form of code that the change does not know", not: "internal/instrumentation"},
		{name: "default client in another package", source: get("_, _ = http.DefaultClient.Get(\"\")"), files: map[string]string{"api/api.go": "package api\n\nimport \"net/http\"\n\nfunc Is(c *http.Client) bool { return c == http.DefaultClient }\n"}, left: "the module or a test of it uses `http.DefaultClient` in a form of code that the change does not know", not: "internal/instrumentation"},
		{name: "default client that is passed on", source: get("c := http.DefaultClient\n\tload(http.DefaultClient, []*http.Client{http.DefaultClient}, api{http.DefaultClient}, api{client: http.DefaultClient})\n\t_, _ = c, http.DefaultClient\n\t_, _ = (*http.DefaultClient).Get(\"\")"), not: "http.DefaultClient"},
		{name: "default client in a test", source: get("_, _ = http.DefaultClient.Get(\"\")\n\t_, _ = http.Get(\"\")\n\t_ = &http.Client{}"), files: map[string]string{"main_test.go": "package main\n\nimport (\n\t\"net/http\"\n\t\"testing\"\n)\n\nfunc TestGet(*testing.T) { http.DefaultClient.Transport = fake{} }\n"}, left: "the module or a test of it uses `http.DefaultClient` in a form of code that the change does not know", added: "&http.Client{Transport: instrumentation.Transport(nil)}", not: "instrumentation.Get"},
		{name: "default client as an argument in a test", source: get("load(http.DefaultClient)"), files: map[string]string{"main_test.go": "package main_test\n\nimport (\n\t\"net/http\"\n\t\"testing\"\n)\n\nfunc TestGet(t *testing.T) { require.Same(t, http.DefaultClient, client()) }\n"}, left: "the module or a test of it uses `http.DefaultClient` in a form of code that the change does not know", not: "internal/instrumentation"},
		{name: "call of the default client in a test", source: get("load(http.DefaultClient)"), files: map[string]string{"main_test.go": "package main\n\nimport (\n\t\"net/http\"\n\t\"testing\"\n)\n\nfunc TestGet(*testing.T) { _, _ = http.DefaultClient.Get(\"\") }\n"}, added: "load(instrumentation.HTTPClient)"},
		{name: "default transport in a test", source: get("load(http.DefaultClient)"), files: map[string]string{"main_test.go": "package main\n\nimport (\n\t\"net/http\"\n\t\"testing\"\n)\n\nfunc TestGet(*testing.T) { http.DefaultTransport = fake{} }\n"}, added: "load(instrumentation.HTTPClient)"},
		{name: "results of another package", source: grpc("_ = grpc.NewServer(options.All())"), left: whyUnknown, not: "otelgrpc"},
		{name: "results of a method", source: grpc("_ = grpc.NewServer(o.all())"), left: whyUnknown, not: "otelgrpc"},
		{name: "results of a variable", source: grpc("one := all\n\t_ = grpc.NewServer(one())"), files: map[string]string{"one.go": "package main\n\nfunc one() grpc.ServerOption { return nil }\n"}, left: whyUnknown, not: "otelgrpc"},
		{name: "results by system", source: grpc("_ = grpc.NewServer(one())"), files: map[string]string{"a.go": "package main\n\nfunc one() grpc.ServerOption { return nil }\n", "b.go": "package main\n\nfunc one() (a, b grpc.ServerOption) { return nil, nil }\n"}, left: whyUnknown, not: "otelgrpc"},
		{name: "result of another file", source: grpc("_ = grpc.NewServer(one())"), files: map[string]string{"one.go": "package main\n\nfunc one() grpc.ServerOption { return nil }\n"}, added: "grpc.NewServer(grpc.StatsHandler(otelgrpc.NewServerHandler()), one())"},
		{name: "conversion", source: grpc("_, _ = grpc.NewClient(address(\"a\"))"), files: map[string]string{"address.go": "package main\n\ntype address = string\n"}, added: "grpc.NewClient(address(\"a\"), grpc.WithStatsHandler(otelgrpc.NewClientHandler()))"},
		{name: "option and results", source: grpc("_, _ = grpc.NewClient(target(), insecure())"), added: "grpc.NewClient(target(), grpc.WithStatsHandler(otelgrpc.NewClientHandler()), insecure())"},
		{name: "options after another argument", source: grpc("_ = grpc.NewServer(first, options...)"), left: whyUnknown, not: "otelgrpc"},
		{name: "results for http.PostForm", source: get("_, _ = http.PostForm(form())"), left: whyUnknown, not: "internal/instrumentation"},
		{name: "name in a test", source: get("_, _ = http.Get(\"\")"), files: map[string]string{"main_test.go": "package main\n\nconst (\n\tother = iota\n\tinstrumentation\n)\n"}, left: "the name `instrumentation` is taken in this package", not: "internal/instrumentation"},
		{name: "name of a type in the package", source: get("_, _ = http.Get(\"\")"), files: map[string]string{"other.go": "package main\n\ntype instrumentation interface{ Get() }\n"}, left: "the name `instrumentation` is taken in this package", not: "internal/instrumentation"},
		{name: "name in generated code", source: get("_, _ = http.Get(\"\")"), files: map[string]string{"zz_generated.go": "package main\n\nfunc otelhttp() {}\n"}, left: "the name `otelhttp` is taken in this package", not: "otelhttp"},
		{name: "name of an import and a method in a test", source: get("_, _ = http.Get(\"\")"), files: map[string]string{"main_test.go": "package main\n\nimport instrumentation \"testing\"\n\ntype none struct{}\n\nfunc (none) otelhttp(*instrumentation.T) {}\n"}, added: "instrumentation.Get(ctx, \"\")"},
		{name: "name in a test of another package", source: get("_, _ = http.Get(\"\")"), files: map[string]string{"main_test.go": "package main_test\n\nfunc instrumentation() {}\n"}, added: "instrumentation.Get(ctx, \"\")"},
		{name: "setup in a test", source: http("", "_ = http.ListenAndServe(\":80\", nil)"), files: map[string]string{"main_test.go": "package main\n\nfunc startTelemetry() {}\n"}, left: "No setup of the SDK is added: the program has a function `startTelemetry`", not: "startTelemetry"},
		{name: "name that the setup imports", source: http("", "_ = http.ListenAndServe(\":80\", nil)"), files: map[string]string{"main_test.go": "package main\n\nvar trace = true\n"}, left: "No setup of the SDK is added: it imports `trace`, and this name is taken in this package", not: "startTelemetry"},
		{name: "timeout of default", source: http("\t\"time\"\n", "http.DefaultClient.Timeout = time.Second\n\t_ = http.ListenAndServe(\":80\", nil)"), left: "the module changes a default of `net/http`"},
		{
			name: "one of two clients", added: "grpc.NewClient(\"b\", grpc.WithStatsHandler(otelgrpc.NewClientHandler()))", not: "grpc.NewClient(\"a\", grpc.WithStatsHandler(otelgrpc.NewClientHandler()), grpc",
			source: http("\n\t\"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc\"\n\t\"google.golang.org/grpc\"\n", "_, _ = grpc.NewClient(\"a\", grpc.WithStatsHandler(otelgrpc.NewClientHandler()))\n\t_, _ = grpc.NewClient(\"b\")\n\t_ = http.ListenAndServe(\":80\", nil)"),
		},
		{
			name: "options in another place", left: "the module sets `go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc` up in another place", not: "append(",
			source: http("\n\t\"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc\"\n\t\"google.golang.org/grpc\"\n", "options := []grpc.DialOption{grpc.WithStatsHandler(otelgrpc.NewClientHandler())}\n\t_, _ = grpc.NewClient(\"a\", options...)\n\t_ = http.ListenAndServe(\":80\", nil)"),
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			manifest := test.manifest
			if manifest == "" {
				manifest = manifestText
			}
			files := map[string]string{"go.mod": manifest, "main.go": test.source}
			for name, text := range test.files {
				files[name] = text
			}
			for name, text := range files {
				require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o750))
				require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
			}
			p, root, err := makePatch(t, parser, dir, instrument.General)
			require.NoError(t, err)
			var steps strings.Builder
			for _, s := range p.Steps {
				if s.Open {
					steps.WriteString(s.Text + "\n")
				}
			}
			require.Contains(t, steps.String(), test.left)
			require.NoError(t, p.Apply(root))
			after, err := os.ReadFile(filepath.Join(dir, "main.go"))
			require.NoError(t, err)
			require.Contains(t, string(after), test.added)
			if test.not != "" {
				require.NotContains(t, string(after), test.not)
			}
			require.Subset(t, variableErrors(t, []byte(test.source)), variableErrors(t, after))
			again, _, err := makePatch(t, parser, dir, instrument.General)
			require.NoError(t, err)
			require.Empty(t, again.Files)
		})
	}
}

// TestGoManagement: servers and routers for metrics, health checks and management get no spans, and others beside them do.
func TestGoManagement(t *testing.T) {
	const (
		imports = "package main\n\nimport (\n\t\"net/http\"\n\n\t\"github.com/go-chi/chi/v5\"\n\t\"github.com/prometheus/client_golang/prometheus/promhttp\"\n\t\"google.golang.org/grpc\"\n)\n\nvar _, _, _ = chi.NewRouter, promhttp.Handler, grpc.NewServer\n\n"
		public  = "\thttp.ListenAndServe(\":80\", public)\n"
	)
	for name, tt := range map[string]struct {
		code string
		want int // instrumented servers and routers
	}{
		"a name":                      {"func main() {\n\tmetricsServer := &http.Server{Handler: public}\n\tmetricsServer.ListenAndServe()\n" + public + "}\n", 1},
		"a field":                     {"func main() {\n\ts.healthServer = &http.Server{Handler: public}\n" + public + "}\n", 1},
		"a name of a domain":          {"func main() {\n\tuserManagementServer := &http.Server{Handler: public}\n\tuserManagementServer.ListenAndServe()\n}\n", 1},
		"a function":                  {"func startMetricsServer() {\n\tgo func() { http.ListenAndServe(\":9090\", public) }()\n}\n\nfunc main() {\n" + public + "}\n", 1},
		"a function with gRPC":        {"func startMetricsServer() {\n\tgrpc.NewServer()\n}\n\nfunc main() {\n\tgrpc.NewServer()\n}\n", 1},
		"a handler":                   {"func main() {\n\thttp.ListenAndServe(\":9090\", promhttp.Handler())\n" + public + "}\n", 1},
		"a handler by name":           {"func main() {\n\thttp.ListenAndServe(\":9090\", probeMux)\n" + public + "}\n", 1},
		"an address":                  {"func main() {\n\thttp.ListenAndServe(cfg.MetricsAddr, public)\n\tserver := http.Server{Addr: fmt.Sprintf(\":%d\", cfg.ManagementPort), Handler: public}\n" + public + "}\n", 1},
		"routers":                     {"func main() {\n\tr := chi.NewRouter()\n\tmr := chi.NewRouter()\n\tserver := http.Server{Addr: \":\" + cfg.MetricsPort, Handler: mr}\n\thttp.ListenAndServe(\":80\", r)\n}\n", 1},
		"a router beside one by name": {"func main() {\n\tr := chi.NewRouter()\n\thealthRouter := chi.NewRouter()\n\tr.Mount(\"/health\", healthRouter)\n\trun(r)\n}\n", 1},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "shop")
			p := apply(t, dir, instrument.General, map[string]string{"go.mod": "module example.com/shop\n\ngo 1.26.0\n", "main.go": imports + tt.code})
			spans := 0
			for _, s := range p.Steps {
				if strings.HasPrefix(s.Text, "Instrument the ") {
					require.False(t, s.Open, s.Text)
					spans++
				}
			}
			require.Equal(t, tt.want, spans)
			again, _, err := makePatch(t, newParser(t), dir, instrument.General)
			require.NoError(t, err)
			require.Empty(t, again.Files)
		})
	}
}

// variableErrors returns the errors that a compiler finds in a file without the packages that it imports: names that
// are declared twice or not used. Syntax errors fail the test.
func variableErrors(t *testing.T, source []byte) (found []string) {
	if len(source) == 0 {
		return nil
	}
	fset := token.NewFileSet()
	tree, err := parser.ParseFile(fset, "", source, parser.SkipObjectResolution)
	require.NoError(t, err)
	config := types.Config{
		Importer: importer.ForCompiler(fset, "none", func(string) (io.ReadCloser, error) { return nil, os.ErrNotExist }),
		Error: func(err error) {
			if e, ok := errors.AsType[types.Error](err); ok && variableError.MatchString(e.Msg) {
				found = append(found, e.Msg)
			}
		},
	}
	_, _ = config.Check("shop", fset, []*ast.File{tree}, nil) // the errors are in found
	return found
}

var variableError = regexp.MustCompile(`declared and not used|no new variables|redeclared|imported and not used|missing return|assignment mismatch`)

// FuzzGoBoundaries changes hostile code without a panic, and what parsed before parses afterwards.
func FuzzGoBoundaries(f *testing.F) {
	for _, name := range goPrograms {
		err := filepath.WalkDir(filepath.Join("testdata", name), func(file string, _ os.DirEntry, err error) error {
			if err == nil && filepath.Ext(file) == ".go" {
				text, err := os.ReadFile(file)
				require.NoError(f, err)
				f.Add(text)
			}
			return err
		})
		require.NoError(f, err)
	}
	own := newParser(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > 64<<10 {
			return
		}
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module example.com/shop\n\ngo 1.26.0\n"), 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte("package main\n\nimport \"net/http\"\n\nfunc main() { _ = http.ListenAndServe(\"\", nil) }\n"), 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "code.go"), text, 0o600))
		p, _, err := makePatch(t, own, dir, instrument.General)
		if err != nil {
			return
		}
		for _, file := range p.Files {
			if filepath.Ext(file.Path) != ".go" {
				continue
			}
			require.Subset(t, variableErrors(t, file.Before), variableErrors(t, file.After), file.Path)
			require.Equal(t, bytes.Count(file.Before, []byte("%F")), bytes.Count(file.After, []byte("%F")))
		}
	})
}
