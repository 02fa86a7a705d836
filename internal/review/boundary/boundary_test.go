// SPDX-License-Identifier: Apache-2.0

package boundary_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/internal/review"
	"assay/internal/review/boundary"
	"assay/internal/review/patch"
	"assay/internal/review/treesitter"
)

// The tests share a parser, because loading the grammars takes seconds.
var shared = sync.OnceValues(func() (*treesitter.Parser, error) { return review.NewParser(context.Background(), "") })

func newParser(t testing.TB) *treesitter.Parser {
	p, err := shared()
	require.NoError(t, err)
	return p
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

var (
	kafkaJSProgram = program{
		"src/jobs.js", "package.json", `{"dependencies": {"@opentelemetry/api": "1.9.0", "kafkajs": "2.0.0"}}`,
		patch.Boundary{SpanKind: "consumer", Library: "kafkajs"},
		`const { Kafka } = require('kafkajs');

async function main() {
  const consumer = new Kafka({ brokers: [] }).consumer({ groupId: 'jobs' }); // here
  await consumer.subscribe({ topic: 'orders' });
  await consumer.run({
    eachMessage: async ({ message }) => {
      const order = JSON.parse(message.value);
      if (!order) return 'empty';
      return order;
    },
  });
}

main().catch(console.error);
`,
	}
	jobProgram = program{
		"src/main/java/Jobs.java", "pom.xml", javaProgram.dependencies,
		patch.Boundary{SpanKind: "consumer", Library: "kafka"},
		`import java.time.Duration;
import org.apache.kafka.clients.consumer.KafkaConsumer;

class Jobs {
  private final Store store = new Store();

  void receive(java.util.Properties settings) {
    var consumer = new KafkaConsumer<String, String>(settings); // here
    while (true) {
      for (var message : consumer.poll(Duration.ofSeconds(1))) {
        if (message.value() == null) {
          continue;
        }
        store.save(message.value());
      }
    }
  }
}
`,
	}
	webProgram = program{
		"web/main.go", "web/go.mod", "module web\n\nrequire go.opentelemetry.io/otel v1.47.0\n",
		patch.Boundary{SpanKind: "server", Library: "net/http"},
		`package main

import (
	"errors"
	"net/http"
)

var errEmpty = errors.New("empty")

func main() {
	http.ListenAndServe(":8080", http.HandlerFunc(order)) // here
}

func order(w http.ResponseWriter, r *http.Request) {
	if err := load(r); err != nil {
		http.Error(w, err.Error(), 500)
		return
	}
	w.WriteHeader(204)
}

func load(r *http.Request) error {
	if r.FormValue("id") == "" {
		return errEmpty
	}
	return store(r.Context(), r.FormValue("id"))
}
`,
	}
	bottleProgram = program{
		"app.py", "requirements.txt", "opentelemetry-distro==0.60b0\nbottle==0.13\n",
		patch.Boundary{SpanKind: "server", Library: "bottle"},
		`from bottle import Bottle

app = Bottle()


@app.get("/orders")  # here
def orders():
    order = load()
    if order is None:
        raise KeyError("order")
    return order
`,
	}
)

// paysProgram has a span that does not belong to the boundary.
var paysProgram = func() program {
	p := kafkaProgram
	p.text = strings.Replace(p.text, "kafka-go\"\n", "kafka-go\"\n\t\"go.opentelemetry.io/otel\"\n\t\"go.opentelemetry.io/otel/trace\"\n", 1) +
		"\nfunc pay(ctx context.Context) {\n\t_, paid := otel.Tracer(\"jobs\").Start(ctx, \"pay\", trace.WithSpanKind(trace.SpanKindClient))\n\tpaid.End()\n}\n"
	return p
}()

// quietProgram has a tracer that records nothing.
var quietProgram = func() program {
	p := kafkaProgram
	p.text = strings.Replace(p.text, "kafka-go\"\n", "kafka-go\"\n\tquiet \"go.opentelemetry.io/otel/trace/noop\"\n", 1) + "\nvar tracer = quiet.NewTracerProvider().Tracer(\"jobs\")\n"
	return p
}()

// TestLacks checks changes that add telemetry to a boundary, and changes that only seem to.
func TestLacks(t *testing.T) {
	const (
		goImports = "\t\"github.com/segmentio/kafka-go\"\n"
		otel      = "\t\"go.opentelemetry.io/otel\"\n\t\"go.opentelemetry.io/otel/trace\"\n"
		consumer  = "_, span := otel.Tracer(\"jobs\").Start(context.Background(), \"process orders\", trace.WithSpanKind(trace.SpanKindConsumer))\n"
		client    = "\tctx, span := otel.Tracer(\"web\").Start(ctx, \"GET\", trace.WithSpanKind(trace.SpanKindClient))\n\tdefer span.End()\n"
		server    = "\n\nfunc traced(next http.Handler) http.Handler {\n\treturn http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {\n\t\tctx, span := otel.Tracer(\"web\").Start(r.Context(), r.Method, trace.WithSpanKind(trace.SpanKindServer))\n\t\tdefer span.End()\n\t\tnext.ServeHTTP(w, r.WithContext(ctx))\n\t})\n}\n"
		tsSpan    = "  tracer.startActiveSpan('GET /orders', { kind: SpanKind.SERVER }, async (span) => { span.end(); });\n"
		tsBody    = "  const answer = await got('http://stock/'); // call\n  return c.json(answer);\n"
		jsImport  = "const { Kafka } = require('kafkajs');\n"
		jsAPI     = jsImport + "const { SpanKind, trace } = require('@opentelemetry/api');\nconst tracer = trace.getTracer('jobs');\n"
		jsBody    = "      const order = JSON.parse(message.value);\n      if (!order) return 'empty';\n      return order;\n"
		pyBody    = "    order = load()\n    if order is None:\n        raise KeyError(\"order\")\n    return order\n"

		javaImports = "import java.time.Duration;\n"
		javaAPI     = "import io.opentelemetry.api.GlobalOpenTelemetry;\nimport io.opentelemetry.api.trace.SpanKind;\nimport io.opentelemetry.api.trace.Tracer;\n" + javaImports
		javaClass   = "class Jobs {\n"
		javaTracer  = javaClass + "  private final Tracer tracer = GlobalOpenTelemetry.getTracer(\"jobs\");\n"

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
		"span without the loop":              {kafkaProgram, []string{goImports, goImports + otel, "\tfor {\n\t\tm, err := reader.ReadMessage(context.Background())\n\t\tif err != nil {\n\t\t\treturn\n\t\t}\n\t\tprocess(m)\n\t}\n", "\t" + consumer + "\treader.Close()\n\tspan.End()\n"}, "calls, such as the one"},
		"span of a type of the file":         {kafkaProgram, []string{goImports, goImports + otel, "\tfor {", "\ttracer := none{}\n\tfor {", "\t\tprocess(m)\n", "\t\t" + strings.Replace(consumer, "otel.Tracer(\"jobs\")", "tracer", 1) + "\t\tprocess(m)\n\t\tspan.End()\n\t\totel.SetErrorHandler(nil)\n", "func process", "type none struct{}\n\nfunc (none) Start(ctx context.Context, name string, o any) (context.Context, none) { return ctx, none{} }\nfunc (none) End() {}\n\nfunc process"}, "defines a function `Start`"},
		"Python span that never starts":      {pythonProgram, []string{"import nats\n", pyAPI, "    print(message.data)\n", "    while 0:\n        with tracer.start_as_current_span(\"process orders\", kind=trace.SpanKind.CONSUMER):\n            pass\n    print(message.data)\n"}, "has no telemetry"},
		"TypeScript span that never starts":  {scriptProgram, []string{tsImport, tsAPI, "app.get('/orders'", "app.use((c, next) => {\n  if (false) tracer.startActiveSpan('GET', { kind: SpanKind.SERVER }, async (span) => {\n    span.end();\n  });\n  return next();\n});\napp.get('/orders'"}, "has no telemetry"},
		"Python span in an endless loop":     {pythonProgram, []string{"import nats\n", pyAPI, "    print(message.data)\n", "    while 1:\n        with tracer.start_as_current_span(\"process orders\", kind=trace.SpanKind.CONSUMER):\n            print(message.data)\n        break\n"}, ""},
		"span of other code moved":           {paysProgram, []string{"\t\tprocess(m)\n", "\t\t" + consumer + "\t\tprocess(m)\n\t\tspan.End()\n", "\t_, paid := otel.Tracer(\"jobs\").Start(ctx, \"pay\", trace.WithSpanKind(trace.SpanKindClient))\n\tpaid.End()\n", ""}, "a span, such as the one of line"},
		"kind of another span":               {paysProgram, []string{"\t\tprocess(m)\n", "\t\t" + consumer + "\t\tprocess(m)\n\t\tspan.End()\n", "SpanKindClient", "SpanKindConsumer"}, "a span, such as the one of line"},

		// Spans that never start, or that nothing records.
		"Go package of another name":      {kafkaProgram, []string{goImports, goImports + "\tquiet \"go.opentelemetry.io/otel/trace/noop\"\n\t\"go.opentelemetry.io/otel/trace\"\n", "\t\tprocess(m)\n", "\t\t" + strings.Replace(consumer, "otel.Tracer(\"jobs\")", "quiet.NewTracerProvider().Tracer(\"a\")", 1) + "\t\tprocess(m)\n\t\tspan.End()\n"}, "turns off telemetry of the whole process"},
		"Go package that was there":       {quietProgram, []string{goImports, goImports + otel, "\t\tprocess(m)\n", "\t\t" + strings.Replace(consumer, "otel.Tracer(\"jobs\")", "tracer", 1) + "\t\tprocess(m)\n\t\tspan.End()\n\t\totel.Handle(nil)\n"}, "has no telemetry"},
		"Go literal":                      {kafkaProgram, []string{goImports, goImports + otel, "\t\tprocess(m)\n", "\t\ttracer := fake{start}\n\t\t" + strings.Replace(consumer, "otel.Tracer(\"jobs\")", "tracer", 1) + "\t\tprocess(m)\n\t\tspan.End()\n\t\totel.Handle(nil)\n", "func process", "type fake struct {\n\tStart func(context.Context, string, ...trace.SpanStartOption) (context.Context, trace.Span)\n}\n\nfunc start(ctx context.Context, _ string, _ ...trace.SpanStartOption) (context.Context, trace.Span) {\n\treturn ctx, trace.SpanFromContext(ctx)\n}\n\nfunc process"}, "has no telemetry"},
		"Go literal with a key":           {kafkaProgram, []string{goImports, goImports + "\t\"go.opentelemetry.io/otel/trace\"\n", "\t\tprocess(m)\n", "\t\ttracer := struct{ Start func(context.Context, string, trace.SpanStartOption) (context.Context, trace.Span) }{Start: func(c context.Context, _ string, _ trace.SpanStartOption) (context.Context, trace.Span) { return c, trace.SpanFromContext(c) }}\n\t\t" + strings.Replace(consumer, "otel.Tracer(\"jobs\")", "tracer", 1) + "\t\tprocess(m)\n\t\tspan.End()\n"}, "function `Start`"},
		"Go function that is not called":  {kafkaProgram, []string{goImports, goImports + otel, "\t\tprocess(m)\n", "\t\tprocess(m)\n\t\ttraced := func() {\n\t\t\t" + consumer + "\t\t\tspan.End()\n\t\t}\n\t\t_ = traced\n"}, "has no telemetry"},
		"Go call that is removed":         {kafkaProgram, []string{goImports, goImports + otel, "\t\tprocess(m)\n", "\t\t" + consumer + "\t\tspan.End()\n\t\t_ = m\n"}, "calls, such as the one"},
		"Go call that never runs":         {kafkaProgram, []string{goImports, goImports + otel, "\t\tprocess(m)\n", "\t\t" + consumer + "\t\tif false {\n\t\t\tprocess(m)\n\t\t}\n\t\tspan.End()\n"}, "before the change, are removed, or no longer run"},
		"Go comparison of constants":      {kafkaProgram, []string{goImports, goImports + otel, "\t\tprocess(m)\n", "\t\tif 1 == 2 {\n\t\t\t" + consumer + "\t\t\tspan.End()\n\t\t}\n\t\tprocess(m)\n"}, "has no telemetry"},
		"Go constant of the change":       {kafkaProgram, []string{goImports, goImports + otel, "\t\tprocess(m)\n", "\t\tconst on = !true\n\t\tif on {\n\t\t\t" + consumer + "\t\t\tspan.End()\n\t\t}\n\t\tprocess(m)\n"}, "has no telemetry"},
		"Go case of a constant":           {kafkaProgram, []string{goImports, goImports + otel, "\t\tprocess(m)\n", "\t\tprocess(m)\n\t\tswitch false {\n\t\tcase true:\n\t\t\t" + consumer + "\t\t\tspan.End()\n\t\t}\n"}, "has no telemetry"},
		"Go case without a subject":       {kafkaProgram, []string{goImports, goImports + otel, "\t\tprocess(m)\n", "\t\tswitch {\n\t\tcase false:\n\t\t\t" + consumer + "\t\t\tspan.End()\n\t\tdefault:\n\t\t\tprocess(m)\n\t\t}\n"}, "has no telemetry"},
		"Go after a jump":                 {kafkaProgram, []string{goImports, goImports + otel, "\t\tprocess(m)\n", "\t\tprocess(m)\n\t\tcontinue\n\t\t" + consumer + "\t\tspan.End()\n"}, "has no telemetry"},
		"Go end that never runs":          {kafkaProgram, []string{goImports, goImports + otel, "\t\tprocess(m)\n", "\t\t" + consumer + "\t\tprocess(m)\n\t\tif false {\n\t\t\tspan.End()\n\t\t}\n"}, "has no telemetry"},
		"Go provider":                     {kafkaProgram, []string{goImports, goImports + otel, "\t\tprocess(m)\n", "\t\totel.SetTracerProvider(nil)\n\t\t" + consumer + "\t\tprocess(m)\n\t\tspan.End()\n"}, "turns off telemetry of the whole process"},
		"Go environment":                  {kafkaProgram, []string{goImports, "\t\"os\"\n\n" + goImports + otel, "\t\tprocess(m)\n", "\t\tos.Setenv(\"OTEL_SDK_DISABLED\", \"true\")\n\t\t" + consumer + "\t\tprocess(m)\n\t\tspan.End()\n"}, "turns off telemetry of the whole process"},
		"Go span that is skipped":         {paysProgram, []string{"\t\tprocess(m)\n", "\t\t" + consumer + "\t\tprocess(m)\n\t\tspan.End()\n", "\t_, paid :=", "\treturn\n\t_, paid :="}, "a span, such as the one of line"},
		"TypeScript object":               {scriptProgram, []string{tsImport, tsImport + "import { SpanKind } from '@opentelemetry/api';\nconst tracer = { startActiveSpan: (a, b, f) => f({ end() {} }) };\n", "  const answer", tsSpan + "  const answer"}, "function `startActiveSpan`"},
		"TypeScript proxy":                {scriptProgram, []string{tsImport, tsImport + "import { SpanKind } from '@opentelemetry/api';\nconst tracer = new Proxy({}, { get: () => () => 0 });\n", "  const answer", tsSpan + "  const answer"}, "has no telemetry"},
		"TypeScript proxy by a function":  {scriptProgram, []string{tsImport, tsImport + "import { SpanKind, trace } from '@opentelemetry/api';\nconst getTracer = () => new Proxy(trace, {});\nconst tracer = getTracer();\n", "  const answer", tsSpan + "  const answer"}, "has no telemetry"},
		"TypeScript class of the API":     {scriptProgram, []string{tsImport, tsImport + "import { SpanKind, ProxyTracer } from '@opentelemetry/api';\nconst tracer = new ProxyTracer(null, 'x');\n", "  const answer", tsSpan + "  const answer"}, "has no telemetry"},
		"TypeScript arrow function":       {scriptProgram, []string{tsImport, tsAPI, "  const answer", "  const unused = () => " + tsSpan + "  const answer"}, "has no telemetry"},
		"TypeScript name of another":      {scriptProgram, []string{tsImport, tsAPI, "  const answer", "  {\n    const c = () => " + tsSpan + "  }\n  const answer"}, "has no telemetry"},
		"TypeScript arrow in an object":   {scriptProgram, []string{tsImport, tsAPI, "  const answer", "  const unused = { run: [() => " + strings.TrimSuffix(tsSpan, ";\n") + "] };\n  const answer"}, "has no telemetry"},
		"TypeScript functions in a row":   {scriptProgram, []string{tsImport, tsAPI, "  const answer", "  function a() { b(); }\n  function b() { a(); " + tsSpan + "  }\n  const answer"}, "has no telemetry"},
		"TypeScript call that never runs": {scriptProgram, []string{tsImport, tsAPI, "  const answer", "  const traced = () => " + tsSpan + "  if (0) traced();\n  const answer"}, "has no telemetry"},
		"TypeScript short circuit":        {scriptProgram, []string{tsImport, tsAPI, "  const answer", "  false && " + tsSpan + "  const answer"}, "has no telemetry"},
		"TypeScript other short circuit":  {scriptProgram, []string{tsImport, tsAPI, "  const answer", "  1 > 0 || " + tsSpan + "  const answer"}, "has no telemetry"},
		"TypeScript conditional":          {scriptProgram, []string{tsImport, tsAPI, "  const answer", "  const z = true ? 0 : " + tsSpan + "  const answer"}, "has no telemetry"},
		"TypeScript negation":             {scriptProgram, []string{tsImport, tsAPI, "  const answer", "  if (!true) { " + tsSpan + " }\n  const answer"}, "has no telemetry"},
		"TypeScript loop over nothing":    {scriptProgram, []string{tsImport, tsAPI, "  const answer", "  for (const x of []) { " + tsSpan + " }\n  const answer"}, "has no telemetry"},
		"TypeScript catch of nothing":     {scriptProgram, []string{tsImport, tsAPI, "  const answer", "  try {} catch { " + tsSpan + " }\n  const answer"}, "has no telemetry"},
		"TypeScript disable":              {scriptProgram, []string{tsImport, tsAPI + "trace.disable();\n", "  const answer", tsSpan + "  const answer"}, "turns off telemetry of the whole process"},
		"TypeScript disable by an index":  {scriptProgram, []string{tsImport, tsAPI + "trace['disable']();\n", "  const answer", tsSpan + "  const answer"}, "turns off telemetry of the whole process"},
		"TypeScript disable by a pattern": {scriptProgram, []string{tsImport, tsAPI + "const { disable: stop } = trace;\nstop();\n", "  const answer", tsSpan + "  const answer"}, "turns off telemetry of the whole process"},
		"TypeScript function of the API":  {scriptProgram, []string{tsImport, tsAPI + "trace.getTracer = got;\n", "  const answer", tsSpan + "  const answer"}, "turns off telemetry of the whole process"},
		"TypeScript global provider":      {scriptProgram, []string{tsImport, tsAPI + "trace.setGlobalTracerProvider(null);\n", "  const answer", tsSpan + "  const answer"}, "turns off telemetry of the whole process"},
		"TypeScript answer":               {scriptProgram, []string{tsImport, tsAPI, "  return c.json(answer);", tsSpan + "  return answer;"}, "calls, such as the one"},
		"TypeScript return":               {scriptProgram, []string{tsImport, tsAPI, "  return c.json(answer);", tsSpan + "  c.json(answer);"}, "a return or throw, such as the one of line 6 before the change, is removed"},
		"TypeScript answer of no request": {scriptProgram, []string{tsImport, tsAPI, "  return c.json(answer);", tsSpan + "  return answer;\n  return c.json(answer);"}, "before the change, are removed, or no longer run"},
		"JavaScript value":                {kafkaJSProgram, []string{jsImport, jsAPI, "      return order;\n", "      return tracer.startActiveSpan('process', { kind: SpanKind.CONSUMER }, async (span) => {\n        span.end();\n      });\n"}, "a value of line 10 before the change is no longer returned"},
		"JavaScript module of no tracer":  {kafkaJSProgram, []string{jsImport, jsImport + "const { SpanKind } = require('@opentelemetry/api');\nconst tracer = require('node:module').tracer;\n", "      return order;\n", "      tracer.startSpan('process', { kind: SpanKind.CONSUMER }).end();\n      return order;\n"}, "has no telemetry"},
		"Python function":                 {pythonProgram, []string{"import nats\n", pyAPI, "    print(message.data)\n", "    def unused():\n        with tracer.start_as_current_span('process', kind=trace.SpanKind.CONSUMER):\n            pass\n    print(message.data)\n"}, "has no telemetry"},
		"Python lambda":                   {pythonProgram, []string{"import nats\n", pyAPI, "    print(message.data)\n", "    unused = lambda: tracer.start_span('process', kind=trace.SpanKind.CONSUMER).end()\n    print(message.data)\n"}, "has no telemetry"},
		"Python empty range":              {pythonProgram, []string{"import nats\n", pyAPI, "    print(message.data)\n", "    for _ in range(0):\n        with tracer.start_as_current_span('process', kind=trace.SpanKind.CONSUMER):\n            pass\n    print(message.data)\n"}, "has no telemetry"},
		"Python for the types":            {pythonProgram, []string{"import nats\n", strings.Replace(pyAPI, "\n\n", "\nfrom typing import TYPE_CHECKING\n\n", 1), "    print(message.data)\n", "    if TYPE_CHECKING or not True:\n        with tracer.start_as_current_span('process', kind=trace.SpanKind.CONSUMER):\n            pass\n    print(message.data)\n"}, "has no telemetry"},
		"Python type":                     {pythonProgram, []string{"import nats\n", "import nats\nfrom opentelemetry.trace import SpanKind\n\nbase = type('T', (), {'__getattr__': lambda s, n: print})\ntracer = base()\n", "    print(message.data)\n", "    with tracer.start_as_current_span('process', kind=SpanKind.CONSUMER):\n        print(message.data)\n"}, "has no telemetry"},
		"Python provider":                 {pythonProgram, []string{"import nats\n", "import nats\nfrom opentelemetry.trace import NoOpTracerProvider as Provider, SpanKind\n\ntracer = Provider().get_tracer('x')\n", "    print(message.data)\n", "    with tracer.start_as_current_span('process', kind=SpanKind.CONSUMER):\n        print(message.data)\n"}, "turns off telemetry of the whole process"},
		"Python shutdown":                 {pythonProgram, []string{"import nats\n", pyAPI, "    print(message.data)\n", "    trace.get_tracer_provider().shutdown()\n    with tracer.start_as_current_span('process', kind=trace.SpanKind.CONSUMER):\n        print(message.data)\n"}, "turns off telemetry of the whole process"},
		"Python attribute":                {pythonProgram, []string{"import nats\n", pyAPI, "    print(message.data)\n", "    getattr(trace, 'set_tracer_provider')(None)\n    with tracer.start_as_current_span('process', kind=trace.SpanKind.CONSUMER):\n        print(message.data)\n"}, "turns off telemetry of the whole process"},
		"Python error":                    {bottleProgram, []string{"import Bottle\n", "import Bottle\n" + strings.TrimPrefix(pyAPI, "import nats\n"), "    order = load()\n    if order is None:\n        raise KeyError(\"order\")\n", "    with tracer.start_as_current_span('GET /orders', kind=trace.SpanKind.SERVER):\n        order = load()\n        KeyError(\"order\")\n"}, "a return or throw, such as the one of line 10"},
		"Java function":                   {jobProgram, []string{javaImports, javaAPI, javaClass, javaTracer, "        store.save(message.value());\n", "        Runnable unused = () -> tracer.spanBuilder(\"process\").setSpanKind(SpanKind.CONSUMER).startSpan().end();\n        store.save(message.value());\n"}, "has no telemetry"},
		"Java class":                      {jobProgram, []string{javaImports, javaAPI, javaClass, javaTracer, "        store.save(message.value());\n", "        class Unused { void run() { tracer.spanBuilder(\"process\").setSpanKind(SpanKind.CONSUMER).startSpan().end(); } }\n        store.save(message.value());\n"}, "has no telemetry"},
		"Java constant":                   {jobProgram, []string{javaImports, javaAPI, javaClass, javaTracer, "        store.save(message.value());\n", "        if (2 < 1) {\n          tracer.spanBuilder(\"process\").setSpanKind(SpanKind.CONSUMER).startSpan().end();\n        }\n        store.save(message.value());\n"}, "has no telemetry"},
		"Java rule":                       {jobProgram, []string{javaImports, javaAPI, javaClass, javaTracer, "        store.save(message.value());\n", "        switch (1) {\n          case 2 -> tracer.spanBuilder(\"process\").setSpanKind(SpanKind.CONSUMER).startSpan().end();\n        }\n        store.save(message.value());\n"}, "has no telemetry"},
		"Java no tracer":                  {jobProgram, []string{javaImports, strings.Replace(javaAPI, "import java.time", "import io.opentelemetry.api.OpenTelemetry;\nimport java.time", 1), javaClass, javaTracer, "        store.save(message.value());\n", "        OpenTelemetry.noop().getTracer(\"jobs\").spanBuilder(\"process\").setSpanKind(SpanKind.CONSUMER).startSpan().end();\n        store.save(message.value());\n"}, "turns off telemetry of the whole process"},
		"Java global":                     {jobProgram, []string{javaImports, javaAPI, javaClass, javaTracer, "        store.save(message.value());\n", "        GlobalOpenTelemetry.set(null);\n        tracer.spanBuilder(\"process\").setSpanKind(SpanKind.CONSUMER).startSpan().end();\n        store.save(message.value());\n"}, "turns off telemetry of the whole process"},
		"Java call":                       {jobProgram, []string{javaImports, javaAPI, javaClass, javaTracer, "        store.save(message.value());\n", "        tracer.spanBuilder(\"process\").setSpanKind(SpanKind.CONSUMER).startSpan().end();\n        message.value();\n"}, "calls, such as the one"},

		// Forms of telemetry that do not change the behavior of the code.
		"Go call in place":            {kafkaProgram, []string{goImports, goImports + otel, "\t\tprocess(m)\n", "\t\tfunc() {\n\t\t\t" + consumer + "\t\t\tdefer span.End()\n\t\t\tprocess(m)\n\t\t}()\n"}, ""},
		"Go function of the change":   {kafkaProgram, []string{goImports, goImports + otel, "\t\tprocess(m)\n", "\t\ttraced(m)\n", "func process", "func traced(m kafka.Message) {\n\t" + consumer + "\tdefer span.End()\n\tprocess(m)\n}\n\nfunc process"}, ""},
		"Go function of the loop":     {kafkaProgram, []string{goImports, goImports + otel, "\t\tprocess(m)\n", "\t\thandle := func() {\n\t\t\t" + consumer + "\t\t\tdefer func() { span.End() }()\n\t\t\tprocess(m)\n\t\t}\n\t\thandle()\n"}, ""},
		"Go loop in a function":       {kafkaProgram, []string{goImports, goImports + otel, "reader := kafka.NewReader(kafka.ReaderConfig{Topic: \"orders\"}) // here\n\tfor {", "reader := kafka.NewReader(kafka.ReaderConfig{Topic: \"orders\"})\n\treceive(reader)\n}\n\nfunc receive(reader *kafka.Reader) {\n\tfor {", "\t\tprocess(m)\n", "\t\t" + consumer + "\t\tprocess(m)\n\t\tspan.End()\n"}, ""},
		"Go context of the span":      {kafkaProgram, []string{goImports, goImports + otel, "\t\tm, err := reader.ReadMessage(context.Background())\n", "\t\tctx := context.TODO()\n\t\tm, err := reader.ReadMessage(ctx)\n", "\t\tprocess(m)\n", "\t\t_, span := otel.Tracer(\"jobs\").Start(ctx, \"process orders\", trace.WithSpanKind(trace.SpanKindConsumer))\n\t\tprocess(m)\n\t\tspan.End()\n"}, ""},
		"Go handler":                  {webProgram, []string{"\t\"net/http\"\n", "\t\"net/http\"\n\n" + otel, "http.ResponseWriter, r *http.Request) {\n", "http.ResponseWriter, r *http.Request) {\n\tctx, span := tracer().Start(r.Context(), \"POST\", trace.WithSpanKind(trace.SpanKindServer))\n\tdefer span.End()\n\tr = r.WithContext(ctx)\n", "func load", "func tracer() trace.Tracer {\n\treturn otel.Tracer(\"web\")\n}\n\nfunc load"}, ""},
		"Go handler around another":   {webProgram, []string{"\t\"net/http\"\n", "\t\"net/http\"\n\n" + otel, "http.HandlerFunc(order)", "traced(http.HandlerFunc(order))", "func load", strings.TrimSpace(server) + "\n\nfunc load"}, ""},
		"Go tracer of a literal":      {webProgram, []string{"\t\"net/http\"\n", "\t\"net/http\"\n\n" + otel, "http.ResponseWriter, r *http.Request) {\n", "http.ResponseWriter, r *http.Request) {\n\t_, span := telemetry.tracer.Start(r.Context(), \"POST\", trace.WithSpanKind(trace.SpanKindServer))\n\tdefer span.End()\n", "func load", "var telemetry = struct{ tracer trace.Tracer }{otel.Tracer(\"web\")}\n\nfunc load"}, ""},
		"Go error of a span":          {webProgram, []string{"\t\"net/http\"\n", "\t\"net/http\"\n\n" + otel, "http.ResponseWriter, r *http.Request) {\n", "http.ResponseWriter, r *http.Request) {\n\t_, span := otel.Tracer(\"web\").Start(r.Context(), \"POST\", trace.WithSpanKind(trace.SpanKindServer))\n\tdefer span.End()\n", "\t\treturn errEmpty\n", "\t\terr := errEmpty\n\t\ttrace.SpanFromContext(r.Context()).RecordError(err)\n\t\treturn err\n"}, ""},
		"TypeScript handler":          {scriptProgram, []string{tsImport, tsAPI, tsBody, "  return tracer.startActiveSpan('GET /orders', { kind: SpanKind.SERVER }, async (span) => {\n    try {\n      const answer = await got('http://stock/');\n      return c.json(answer);\n    } catch (error) {\n      span.recordException(error as Error);\n      throw error;\n    } finally {\n      span.end();\n    }\n  });\n"}, ""},
		"TypeScript try and finally":  {scriptProgram, []string{tsImport, tsAPI, tsBody, "  const span = tracer.startSpan('GET /orders', { kind: SpanKind.SERVER });\n  try {\n    const answer = await got('http://stock/');\n    const response = c.json(answer);\n    return response;\n  } finally {\n    span.end();\n  }\n"}, ""},
		"TypeScript body in function": {scriptProgram, []string{tsImport, tsAPI, tsBody, "  return tracer.startActiveSpan('GET /orders', { kind: SpanKind.SERVER }, (span) => orders(c).finally(() => span.end()));\n", "});\n", "});\n\nasync function orders(c: any) {\n" + tsBody + "}\n"}, ""},
		"TypeScript wrapper":          {scriptProgram, []string{"});\n", "}));\n", tsImport, tsAPI + "const traced = (name: string, handler: any) => async (c: any) => {\n  return tracer.startActiveSpan(name, { kind: SpanKind.SERVER }, async (span) => {\n    try {\n      return await handler(c);\n    } finally {\n      span.end();\n    }\n  });\n};\n", "'/orders', async (c)", "'/orders', traced('GET /orders', async (c)"}, ""},
		"TypeScript lazy tracer":      {scriptProgram, []string{tsImport, tsImport + "import { SpanKind, trace } from '@opentelemetry/api';\nlet found: any;\nfunction getTracer() {\n  found = found ?? trace.getTracer('web');\n  return found;\n}\n", "  const answer", strings.Replace(tsSpan, "tracer", "getTracer()", 1) + "  const answer"}, ""},
		"TypeScript class":            {scriptProgram, []string{tsImport, tsImport + "import { SpanKind, trace } from '@opentelemetry/api';\nclass Telemetry {\n  private tracer = trace.getTracer('web');\n  async run(handler: any) {\n    const span = this.tracer.startSpan('GET', { kind: SpanKind.SERVER });\n    try {\n      return await handler();\n    } finally {\n      span.end();\n    }\n  }\n}\nconst telemetry = new Telemetry();\n", tsBody, "  return telemetry.run(async () => {\n" + tsBody + "  });\n"}, ""},
		"JavaScript handler":          {kafkaJSProgram, []string{jsImport, jsAPI, jsBody, "      return tracer.startActiveSpan('process', { kind: SpanKind.CONSUMER }, async (span) => {\n        try {\n" + jsBody + "        } finally {\n          span.end();\n        }\n      });\n"}, ""},
		"JavaScript body in function": {kafkaJSProgram, []string{jsBody, "      const span = tracer.startSpan('process', { kind: SpanKind.CONSUMER });\n      try {\n        return handle(message);\n      } finally {\n        span.end();\n      }\n", jsImport, jsAPI + "\nfunction handle(message) {\n" + jsBody + "}\n"}, ""},
		"JavaScript function of span": {kafkaJSProgram, []string{jsImport, jsAPI, jsBody, "      const handle = async (span) => {\n" + jsBody + "      };\n      return tracer.startActiveSpan('process', { kind: SpanKind.CONSUMER }, async (span) => handle(span).finally(() => span.end()));\n"}, ""},
		"Python try and finally":      {pythonProgram, []string{"import nats\n", pyAPI, "    print(message.data)\n", "    span = tracer.start_span(\"process orders\", kind=trace.SpanKind.CONSUMER)\n    try:\n        with trace.use_span(span):\n            print(message.data)\n    finally:\n        span.end()\n"}, ""},
		"Python body in function":     {pythonProgram, []string{"import nats\n", pyAPI, "    print(message.data)\n", "    with tracer.start_as_current_span(\"process orders\", kind=trace.SpanKind.CONSUMER):\n        show(message)\n\n\ndef show(message):\n    print(message.data)\n"}, ""},
		"Python function handed on":   {pythonProgram, []string{"import nats\n", pyAPI, "    print(message.data)\n", "    with tracer.start_as_current_span(\"process orders\", kind=trace.SpanKind.CONSUMER):\n        measured(print, message.data)\n\n\ndef measured(function, *args):\n    return function(*args)\n"}, ""},
		"Python function within":      {pythonProgram, []string{"import nats\n", pyAPI, "    print(message.data)\n", "    def show():\n        with tracer.start_as_current_span(\"process orders\", kind=trace.SpanKind.CONSUMER):\n            print(message.data)\n\n    show()\n"}, ""},
		"Python with block":           {bottleProgram, []string{"import Bottle\n", "import Bottle\n" + strings.TrimPrefix(pyAPI, "import nats\n"), pyBody, "    with tracer.start_as_current_span(\"GET /orders\", kind=trace.SpanKind.SERVER):\n" + strings.ReplaceAll(pyBody, "    ", "        ")}, ""},
		"Python decorator":            {bottleProgram, []string{"import Bottle\n", "import Bottle\n" + strings.TrimPrefix(pyAPI, "import nats\n"), "def orders", "@tracer.start_as_current_span(\"GET /orders\", kind=trace.SpanKind.SERVER)\ndef orders"}, ""},
		"Java try with resources":     {jobProgram, []string{javaImports, javaAPI, javaClass, javaTracer, "        store.save(message.value());\n", "        var span = tracer.spanBuilder(\"process\").setSpanKind(SpanKind.CONSUMER).startSpan();\n        try (var scope = span.makeCurrent()) {\n          store.save(message.value());\n        } catch (RuntimeException e) {\n          span.recordException(e);\n          throw e;\n        } finally {\n          span.end();\n        }\n"}, ""},
		"Java method":                 {jobProgram, []string{javaImports, javaAPI, javaClass, javaTracer, "        store.save(message.value());\n", "        save(message.value());\n", "  void receive", "  private void save(String value) {\n    var builder = tracer.spanBuilder(\"process\").setSpanKind(SpanKind.CONSUMER);\n    var span = builder.startSpan();\n    try (var scope = span.makeCurrent()) {\n      store.save(value);\n    } finally {\n      span.end();\n    }\n  }\n\n  void receive"}, ""},
		"Java lambda":                 {jobProgram, []string{javaImports, javaAPI, javaClass, javaTracer, "        store.save(message.value());\n", "        Runnable save = () -> store.save(message.value());\n        var span = tracer.spanBuilder(\"process\").setSpanKind(SpanKind.CONSUMER).startSpan();\n        try {\n          save.run();\n        } finally {\n          span.end();\n        }\n"}, ""},

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

// TestLacksManifests checks that no manifest is read after too many bytes of other files.
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

// TestLacksQuotes checks that no problem quotes code of the file: a model may not see all of it.
func TestLacksQuotes(t *testing.T) {
	const secret = "letmein"
	parser := newParser(t)
	for name, c := range map[string]struct{ before, old, new, want string }{
		"value":      {"  return {'password': '" + secret + "'};\n", "  return {", "  return 'password';\n  return {", "of line 6 before the change is no longer returned"},
		"return":     {"  return'" + secret + "';\n", "  return'", "  throw 1;\n  return'", "such as the one of line 6"},
		"throw":      {"  throw'" + secret + "';\n", "  throw'", "  return 1;\n  throw'", "such as the one of line 6"},
		"call":       {"  x['" + secret + "'](); '" + secret + "'();\n", "  x[", "  return;\n  x[", "before the change, are removed"},
		"import":     {"const password =\n  '" + secret + "';\n", "const password =\n", "import password from\n", "the import of line 7"},
		"dependency": {"const password =\n  '" + secret + "';\n", "const password =\n", "password();\nimport password from\n", "the dependency of the import of line 8"},
		"setting":    {"const password = `\n" + secret + "`;\n", "const password = `\n", "const password = `OTEL_\n", "such as that of line 6"},
	} {
		t.Run(name, func(t *testing.T) {
			// The first lines are a boundary.
			before := "// a\nconst { Kafka } = require('kafkajs');\nconst consumer = new Kafka({}).consumer({});\nconsumer.run({});\nfunction f(x) {\n" + c.before + "}\nf();\n"
			if strings.HasPrefix(c.before, "const") { // at the top
				before = strings.Replace(strings.Replace(before, "function f(x) {\n", "f();\n", 1), "}\nf();\n", "", 1)
			}
			dir := t.TempDir()
			require.Contains(t, before, c.old)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "a.js"), []byte(strings.Replace(before, c.old, c.new, 1)), 0o600))
			root, err := os.OpenRoot(dir)
			require.NoError(t, err)
			defer root.Close()
			problem, err := boundary.Lacks(t.Context(), root, parser, "a.js", []byte(before), 3, patch.Boundary{SpanKind: "consumer", Library: "kafkajs"})
			require.NoError(t, err)
			require.Contains(t, problem, c.want)
			require.NotContains(t, problem, secret)
		})
	}
}

// TestLacksSpan checks that a line that starts a span is not the line of a boundary.
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

// FuzzLacks compares hostile files. It does not panic, and equal files add no telemetry.
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
		if string(before) == string(after) {
			require.NotEmpty(t, problem)
			require.NotContains(t, problem, "keep")
		}
	})
}
