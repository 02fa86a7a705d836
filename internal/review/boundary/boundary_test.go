// SPDX-License-Identifier: Apache-2.0

package boundary_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/internal/review"
	"assay/internal/review/boundary"
	"assay/internal/review/patch"
	"assay/internal/review/treesitter"
)

func newParser(t testing.TB) *treesitter.Parser {
	parser, err := review.NewParser(t.Context(), "")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, parser.Close(context.Background())) })
	return parser
}

// program is a program with a boundary on the line with the comment "here".
type program struct {
	file, manifest, dependencies string
	boundary                     patch.Boundary
	text                         string
}

var (
	kafkaProgram = program{
		"jobs/main.go", "jobs/go.mod", "module jobs\n\nrequire go.opentelemetry.io/otel v1.47.0\n",
		patch.Boundary{SpanKind: "consumer", Library: "github.com/segmentio/kafka-go"},
		`package main

import (
	"context"

	"github.com/segmentio/kafka-go"
)

func main() {
	reader := kafka.NewReader(kafka.ReaderConfig{Topic: "orders"}) // here
	for {
		m, err := reader.ReadMessage(context.Background())
		if err != nil {
			return
		}
		process(m)
	}
}

func process(m kafka.Message) {}
`,
	}
	serverProgram = program{
		"main.go", "go.mod", "module web\n\nrequire (\n\tgo.opentelemetry.io/otel v1.47.0\n\tgo.opentelemetry.io/contrib/instrumentation/net/http/otelhttp v0.69.0\n)\n",
		patch.Boundary{SpanKind: "server", Library: "net/http"},
		`package main

import "net/http"

func main() {
	server := &http.Server{Addr: ":8080"} // here
	admin := &http.Server{Addr: ":8081"}
	go admin.ListenAndServe()
	server.ListenAndServe()
}
`,
	}
	redisProgram = program{
		"main.go", "go.mod", "module web\n\nrequire go.opentelemetry.io/otel v1.47.0\n",
		patch.Boundary{SpanKind: "client", Library: "github.com/redis/go-redis"},
		`package main

import (
	"context"

	"github.com/redis/go-redis/v9"
)

var db = redis.NewClient(nil) // here

func load(ctx context.Context) string {
	return db.Get(ctx, "k").Val()
}
`,
	}
	scriptProgram = program{
		"src/main.ts", "package.json", `{"dependencies": {"@opentelemetry/api": "1.9.0", "hono": "4.0.0", "got": "14.0.0"}}`,
		patch.Boundary{SpanKind: "server", Library: "hono"},
		`import { Hono } from 'hono';
import got from 'got';
const app = new Hono(); // here
app.get('/orders', async (c) => {
  const answer = await got('http://stock/'); // call
  return c.json(answer);
});
`,
	}
	callProgram = program{
		scriptProgram.file, scriptProgram.manifest, scriptProgram.dependencies,
		patch.Boundary{SpanKind: "client", Library: "got"},
		strings.NewReplacer(" // here", "", "// call", "// here").Replace(scriptProgram.text),
	}
	pythonProgram = program{
		"app.py", "requirements.txt", "opentelemetry-distro==0.60b0\nnats-py==2.0.0\n",
		patch.Boundary{SpanKind: "consumer", Library: "nats"},
		`import nats


async def run(server):
    connection = await nats.connect(server)
    await connection.subscribe("orders", cb=handle)  # here


async def handle(message):
    print(message.data)
`,
	}
	javaProgram = program{
		"src/main/java/Listen.java", "pom.xml", "<project><dependencies><dependency><groupId>io.opentelemetry</groupId><artifactId>opentelemetry-api</artifactId><version>1.50.0</version></dependency></dependencies></project>",
		patch.Boundary{SpanKind: "consumer", Library: "kafka"},
		`import io.opentelemetry.api.trace.Tracer;
import org.springframework.kafka.annotation.KafkaListener;

class Listen {
  private final Tracer tracer;

  @KafkaListener(topics = "orders") // here
  void listen(String message) {
    handle(message);
  }
}
`,
	}
)

// paysProgram has a span of other code than the boundary.
var paysProgram = func() program {
	p := kafkaProgram
	p.text = strings.Replace(p.text, "kafka-go\"\n", "kafka-go\"\n\t\"go.opentelemetry.io/otel\"\n\t\"go.opentelemetry.io/otel/trace\"\n", 1) +
		"\nfunc pay(ctx context.Context) {\n\t_, paid := otel.Tracer(\"jobs\").Start(ctx, \"pay\", trace.WithSpanKind(trace.SpanKindClient))\n\tpaid.End()\n}\n"
	return p
}()

// TestLacks has changes that add telemetry to a boundary, and changes that only seem to.
func TestLacks(t *testing.T) {
	const (
		goImports = "\t\"github.com/segmentio/kafka-go\"\n"
		otel      = "\t\"go.opentelemetry.io/otel\"\n\t\"go.opentelemetry.io/otel/trace\"\n"
		consumer  = "_, span := otel.Tracer(\"jobs\").Start(context.Background(), \"process orders\", trace.WithSpanKind(trace.SpanKindConsumer))\n"
		client    = "\tctx, span := otel.Tracer(\"web\").Start(ctx, \"GET\", trace.WithSpanKind(trace.SpanKindClient))\n\tdefer span.End()\n"
		server    = "\n\nfunc traced(next http.Handler) http.Handler {\n\treturn http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {\n\t\tctx, span := otel.Tracer(\"web\").Start(r.Context(), r.Method, trace.WithSpanKind(trace.SpanKindServer))\n\t\tdefer span.End()\n\t\tnext.ServeHTTP(w, r.WithContext(ctx))\n\t})\n}\n"
		webImport = "import \"net/http\"\n"
		tsImport  = "import { Hono } from 'hono';\n"
		tsAPI     = tsImport + "import { SpanKind, trace } from '@opentelemetry/api';\nconst tracer = trace.getTracer('web');\n"
		pyAPI     = "import nats\nfrom opentelemetry import trace\n\ntracer = trace.get_tracer(__name__)\n"
	)
	parser := newParser(t)
	for name, c := range map[string]struct {
		program program
		edits   []string // old and new texts
		want    string   // "" if the change adds telemetry
	}{
		"span in the loop":                        {kafkaProgram, []string{goImports, goImports + otel, "\t\tprocess(m)\n", "\t\t" + consumer + "\t\tprocess(m)\n\t\tspan.End()\n"}, ""},
		"span in a function that gets the reader": {kafkaProgram, []string{goImports, goImports + otel, "\tfor {", "\tconsume(reader)\n}\n\nfunc consume(r *kafka.Reader) {\n\tfor {\n\t\t" + consumer + "\t\tspan.End()", "reader.Read", "r.Read"}, ""},
		"span around the program":                 {kafkaProgram, []string{goImports, goImports + otel, "\treader :=", "\t" + consumer + "\tdefer span.End()\n\treader :="}, "has no telemetry"},
		"span of another kind":                    {kafkaProgram, []string{goImports, goImports + otel, "\t\tprocess(m)\n", "\t\t" + strings.Replace(consumer, "SpanKindConsumer", "SpanKindInternal", 1) + "\t\tprocess(m)\n\t\tspan.End()\n"}, "has no telemetry"},
		"span that does not end":                  {kafkaProgram, []string{goImports, goImports + otel, "\t\tprocess(m)\n", "\t\t" + consumer + "\t\tprocess(m)\n\t\tspan.AddEvent(\"processed\")\n"}, "has no telemetry"},
		"unused variable":                         {kafkaProgram, []string{goImports, goImports + otel, "\t\tprocess(m)\n", "\t\tctx" + strings.TrimPrefix(consumer, "_") + "\t\tprocess(m)\n\t\tspan.End()\n"}, "does not compile"},
		"span elsewhere":                          {kafkaProgram, []string{goImports, goImports + otel, "kafka.Message) {}", "kafka.Message) {}\n\nfunc other() {\n\t" + consumer + "\tspan.End()\n}"}, "has no telemetry"},
		"span of own code":                        {kafkaProgram, []string{"\t\tprocess(m)\n", "\t\t_, span := tracer.Start(nil, \"process\", trace.WithSpanKind(trace.SpanKindConsumer))\n\t\tprocess(m)\n\t\tspan.End()\n"}, "has no telemetry"},
		"boundary removed":                        {kafkaProgram, []string{goImports, goImports + otel, "kafka.NewReader(", "newReader(", "\t\tprocess(m)\n", "\t\t" + consumer + "\t\tspan.End()\n"}, "keep the boundary"},
		"boundary twice":                          {kafkaProgram, []string{"\tfor {", "\tkafka.NewReader(kafka.ReaderConfig{})\n\tfor {"}, "keep the boundary"},
		"unknown dependency":                      {kafkaProgram, []string{goImports, goImports + "\totelkafka \"example.com/otelkafka\"\n", "\tfor {", "\totelkafka.Wrap(reader)\n\tfor {"}, "no manifest"},
		"unused import":                           {kafkaProgram, []string{goImports, goImports + "\t_ \"go.opentelemetry.io/otel\"\n", "\tfor {", "\t_ = reader\n\tfor {"}, "is not used"},
		"comment alone":                           {kafkaProgram, []string{"\tfor {", "\t// traced\n\tfor {"}, "has no telemetry"},

		"spans of other code":                {paysProgram, []string{"\t\tprocess(m)\n", "\t\t" + consumer + "\t\tprocess(m)\n\t\tspan.End()\n"}, ""},
		"span that never starts":             {kafkaProgram, []string{goImports, goImports + otel, "\t\tprocess(m)\n", "\t\tif false {\n\t\t\t" + consumer + "\t\t\tspan.End()\n\t\t}\n\t\tprocess(m)\n"}, "has no telemetry"},
		"span of a branch that is not taken": {kafkaProgram, []string{goImports, goImports + otel, "\t\tprocess(m)\n", "\t\tif true {\n\t\t\tprocess(m)\n\t\t} else {\n\t\t\t" + consumer + "\t\t\tspan.End()\n\t\t}\n"}, "has no telemetry"},
		"span without the loop":              {kafkaProgram, []string{goImports, goImports + otel, "\tfor {\n\t\tm, err := reader.ReadMessage(context.Background())\n\t\tif err != nil {\n\t\t\treturn\n\t\t}\n\t\tprocess(m)\n\t}\n", "\t" + consumer + "\treader.Close()\n\tspan.End()\n"}, "calls of `ReadMessage`"},
		"span of a type of the file":         {kafkaProgram, []string{goImports, goImports + otel, "\tfor {", "\ttracer := none{}\n\tfor {", "\t\tprocess(m)\n", "\t\t" + strings.Replace(consumer, "otel.Tracer(\"jobs\")", "tracer", 1) + "\t\tprocess(m)\n\t\tspan.End()\n\t\totel.SetErrorHandler(nil)\n", "func process", "type none struct{}\n\nfunc (none) Start(ctx context.Context, name string, o any) (context.Context, none) { return ctx, none{} }\nfunc (none) End() {}\n\nfunc process"}, "defines a function `Start`"},
		"Python span that never starts":      {pythonProgram, []string{"import nats\n", pyAPI, "    print(message.data)\n", "    while 0:\n        with tracer.start_as_current_span(\"process orders\", kind=trace.SpanKind.CONSUMER):\n            pass\n    print(message.data)\n"}, "has no telemetry"},
		"TypeScript span that never starts":  {scriptProgram, []string{tsImport, tsAPI, "app.get('/orders'", "app.use((c, next) => {\n  if (false) tracer.startActiveSpan('GET', { kind: SpanKind.SERVER }, async (span) => {\n    span.end();\n  });\n  return next();\n});\napp.get('/orders'"}, "has no telemetry"},
		"Python span in an endless loop":     {pythonProgram, []string{"import nats\n", pyAPI, "    print(message.data)\n", "    while 1:\n        with tracer.start_as_current_span(\"process orders\", kind=trace.SpanKind.CONSUMER):\n            print(message.data)\n        break\n"}, ""},
		"span of other code moved":           {paysProgram, []string{"\t\tprocess(m)\n", "\t\t" + consumer + "\t\tprocess(m)\n\t\tspan.End()\n", "\t_, paid := otel.Tracer(\"jobs\").Start(ctx, \"pay\", trace.WithSpanKind(trace.SpanKindClient))\n\tpaid.End()\n", ""}, "the span of `pay` is removed"},
		"kind of another span":               {paysProgram, []string{"\t\tprocess(m)\n", "\t\t" + consumer + "\t\tprocess(m)\n\t\tspan.End()\n", "SpanKindClient", "SpanKindConsumer"}, "the span of `pay` is removed"},

		"middleware":                      {serverProgram, []string{webImport, "import (\n\t\"net/http\"\n\n" + otel + ")\n", "\":8080\"}", "\":8080\", Handler: traced(http.DefaultServeMux)}", "\tserver.ListenAndServe()\n}\n", "\tserver.ListenAndServe()\n}\n" + server}, ""},
		"middleware of a field":           {serverProgram, []string{webImport, "import (\n\t\"net/http\"\n\n" + otel + ")\n", "\tserver.ListenAndServe()\n}\n", "\tserver.Handler = traced(http.DefaultServeMux)\n\tserver.ListenAndServe()\n}\n" + server}, ""},
		"middleware of another server":    {serverProgram, []string{webImport, "import (\n\t\"net/http\"\n\n" + otel + ")\n", "\":8081\"}", "\":8081\", Handler: traced(http.DefaultServeMux)}", "\tserver.ListenAndServe()\n}\n", "\tserver.ListenAndServe()\n}\n" + server}, "has no telemetry"},
		"library":                         {serverProgram, []string{webImport, "import (\n\t\"net/http\"\n\n\t\"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp\"\n)\n", "\":8080\"}", "\":8080\", Handler: otelhttp.NewHandler(http.DefaultServeMux, \"server\")}"}, ""},
		"library of another server":       {serverProgram, []string{webImport, "import (\n\t\"net/http\"\n\n\t\"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp\"\n)\n", "\":8081\"}", "\":8081\", Handler: otelhttp.NewHandler(http.DefaultServeMux, \"server\")}"}, "has no telemetry"},
		"library in a variable":           {serverProgram, []string{webImport, "import (\n\t\"net/http\"\n\n\t\"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp\"\n)\n", "\tserver :=", "\troot := otelhttp.NewHandler(http.DefaultServeMux, \"server\")\n\tserver :=", "\":8080\"}", "\":8080\", Handler: root}"}, ""},
		"client":                          {redisProgram, []string{"\t\"github.com/redis/go-redis/v9\"\n", "\t\"github.com/redis/go-redis/v9\"\n" + otel, "\treturn db", client + "\treturn db"}, ""},
		"client after the span":           {redisProgram, []string{"\t\"github.com/redis/go-redis/v9\"\n", "\t\"github.com/redis/go-redis/v9\"\n" + otel, "\treturn db", strings.Replace(client, "defer ", "", 1) + "\treturn db"}, "has no telemetry"},
		"client in a function of its own": {redisProgram, []string{"\t\"github.com/redis/go-redis/v9\"\n", "\t\"github.com/redis/go-redis/v9\"\n" + otel, "\treturn db.Get(ctx, \"k\").Val()\n}\n", "\treturn db.Get(ctx, \"k\").Val()\n}\n\nfunc other(ctx context.Context) {\n" + client + "}\n"}, "has no telemetry"},

		"TypeScript middleware":      {scriptProgram, []string{tsImport, tsAPI, "app.get('/orders'", "app.use((c, next) => tracer.startActiveSpan('GET', { kind: SpanKind.SERVER }, async (span) => {\n  await next();\n  span.end();\n}));\napp.get('/orders'"}, ""},
		"TypeScript internal span":   {scriptProgram, []string{tsImport, strings.Replace(tsAPI, "SpanKind, ", "", 1), "app.get('/orders'", "app.use((c, next) => tracer.startActiveSpan('GET', async (span) => {\n  await next();\n  span.end();\n}));\napp.get('/orders'"}, "has no telemetry"},
		"TypeScript span elsewhere":  {scriptProgram, []string{tsImport, tsAPI + "tracer.startActiveSpan('GET', { kind: SpanKind.SERVER }, (span) => span.end());\n"}, "has no telemetry"},
		"TypeScript call":            {callProgram, []string{tsImport, tsAPI, "const answer = await got('http://stock/'); // here\n", "const answer = await tracer.startActiveSpan('GET', { kind: SpanKind.CLIENT }, async (span) => {\n    try {\n      return await got('http://stock/');\n    } finally {\n      span.end();\n    }\n  });\n"}, ""},
		"TypeScript span after call": {callProgram, []string{tsImport, tsAPI, "  return c.json", "  const span = tracer.startSpan('GET', { kind: SpanKind.CLIENT });\n  span.end();\n  return c.json"}, "has no telemetry"},
		"Python handler":             {pythonProgram, []string{"import nats\n", pyAPI, "    print(message.data)\n", "    with tracer.start_as_current_span(\"process orders\", kind=trace.SpanKind.CONSUMER):\n        print(message.data)\n"}, ""},
		"Python other dependency":    {pythonProgram, []string{"import nats\n", pyAPI + "import requests\n", "    print(message.data)\n", "    with tracer.start_as_current_span(\"process orders\", kind=trace.SpanKind.CONSUMER):\n        print(requests, message.data)\n"}, "no manifest"},
		"Python span of the program": {pythonProgram, []string{"import nats\n", pyAPI, "    connection = await nats.connect(server)\n", "    with tracer.start_as_current_span(\"process orders\", kind=trace.SpanKind.CONSUMER):\n        connection = await nats.connect(server)\n"}, "has no telemetry"},
		"Java listener": {javaProgram, []string{
			"import io.opentelemetry.api.trace.Tracer;\n", "import io.opentelemetry.api.trace.SpanKind;\nimport io.opentelemetry.api.trace.Tracer;\n", "    handle(message);\n",
			"    var span = tracer.spanBuilder(\"process orders\").setSpanKind(SpanKind.CONSUMER).startSpan();\n    try (var scope = span.makeCurrent()) {\n      handle(message);\n    } finally {\n      span.end();\n    }\n",
		}, ""},
		"Java annotation without a dependency": {javaProgram, []string{
			"import io.opentelemetry.api.trace.Tracer;\n", "import io.opentelemetry.api.trace.SpanKind;\nimport io.opentelemetry.instrumentation.annotations.WithSpan;\nimport io.opentelemetry.api.trace.Tracer;\n",
			"  @KafkaListener", "  @WithSpan(kind = SpanKind.CONSUMER)\n  @KafkaListener",
		}, "no manifest"},
	} {
		t.Run(name, func(t *testing.T) {
			p, text := c.program, c.program.text
			for i := 0; i < len(c.edits); i += 2 {
				require.Equal(t, 1, strings.Count(text, c.edits[i]), c.edits[i])
				text = strings.Replace(text, c.edits[i], c.edits[i+1], 1)
			}
			dir := t.TempDir()
			for file, text := range map[string]string{p.file: text, p.manifest: p.dependencies} {
				require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, file)), 0o750))
				require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
			}
			root, err := os.OpenRoot(dir)
			require.NoError(t, err)
			defer root.Close()
			require.True(t, patch.Parses(t.Context(), parser, p.file, []byte(text)))
			before, _, found := strings.Cut(p.text, " here\n")
			require.True(t, found)
			got, err := boundary.Lacks(t.Context(), root, parser, p.file, []byte(p.text), strings.Count(before, "\n")+1, p.boundary)
			require.NoError(t, err)
			if c.want == "" {
				require.Empty(t, got)
				return
			}
			require.Contains(t, got, c.want)
			got, err = boundary.Lacks(t.Context(), root, parser, p.file, []byte(p.text), 2, p.boundary)
			require.NoError(t, err)
			require.Contains(t, got, "begins on the line")
		})
	}
}

// TestLacksManifests: a manifest is not read behind too many bytes of others.
func TestLacksManifests(t *testing.T) {
	dir := t.TempDir()
	const before, after = "import nats\n\nx = nats.connect()\n", "import nats\nimport opentelemetry\nopentelemetry.a\nx = nats.connect()\n"
	require.NoError(t, os.Mkdir(filepath.Join(dir, "a"), 0o750))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a", "a.py"), []byte(after), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "requirements.txt"), []byte("opentelemetry-api\n"), 0o600))
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	parser := newParser(t)
	lacks := func() string {
		problem, err := boundary.Lacks(t.Context(), root, parser, "a/a.py", []byte(before), 3, patch.Boundary{SpanKind: "producer", Library: "nats"})
		require.NoError(t, err)
		return problem
	}
	require.Contains(t, lacks(), "the boundary has no telemetry")
	for i := range 33 {
		comment := "#" + strings.Repeat(" ", patch.MaxFile-1)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "a", fmt.Sprintf("requirements-%d.txt", i)), []byte(comment), 0o600))
	}
	require.Contains(t, lacks(), "no manifest")
}

// TestLacksSpan: a line that starts a span is not that of a boundary.
func TestLacksSpan(t *testing.T) {
	dir := t.TempDir()
	text := "package main\n\nimport \"go.opentelemetry.io/otel\"\n\nfunc main() {\n\t_, span := otel.Tracer(\"a\").Start(nil, \"a\")\n\tspan.End()\n}\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(text), 0o600))
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	parser := newParser(t)
	for line := range 12 {
		problem, err := boundary.Lacks(t.Context(), root, parser, "main.go", []byte(text), line, patch.Boundary{SpanKind: "internal"})
		require.NoError(t, err)
		require.NotEmpty(t, problem, "line %d", line)
	}
}

// FuzzLacks compares hostile files without a panic, and equal ones add nothing.
func FuzzLacks(f *testing.F) {
	programs := []program{kafkaProgram, serverProgram, redisProgram, scriptProgram, pythonProgram, javaProgram}
	for i, p := range programs {
		f.Add(uint8(i), []byte(p.text), []byte(strings.Replace(p.text, "order", "item", 1)), []byte(p.dependencies), uint8(6))
	}
	parser := newParser(f)
	f.Fuzz(func(t *testing.T, program uint8, before, after, manifest []byte, line uint8) {
		p := programs[int(program)%len(programs)]
		name := filepath.Base(p.file)
		if len(before)+len(after) > 32<<10 || !patch.Parses(t.Context(), parser, name, before) || !patch.Parses(t.Context(), parser, name, after) {
			return
		}
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), after, 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(dir, filepath.Base(p.manifest)), manifest, 0o600))
		root, err := os.OpenRoot(dir)
		require.NoError(t, err)
		defer root.Close()
		problem, err := boundary.Lacks(t.Context(), root, parser, name, before, int(line), p.boundary)
		require.NoError(t, err)
		require.True(t, problem != "" || string(before) != string(after))
	})
}
