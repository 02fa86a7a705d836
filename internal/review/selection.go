// SPDX-License-Identifier: Apache-2.0

package review

import (
	"bytes"

	"assay/internal/review/syntax"
)

// trait is what the bytes of a source file say about its telemetry.
type trait uint16

// The traits. A file without any is not parsed.
const (
	traitCandidate trait = 1 << iota // may log, serve or call: a check may report it
	traitOTel                        // uses OpenTelemetry
	traitTraces
	traitMetrics
	traitLogs
	traitLibrary   // sets up instrumentation libraries
	traitAutomatic // sets up instrumentation of everything
	traitVendor    // uses another tracer or metrics client
)

// term is a text that gives a file a trait.
type term struct {
	text  string
	trait trait
}

// terms has the terms of each language. A scan looks for each of them once, so its time is linear in the file.
var terms = map[syntax.Language][]term{
	syntax.Go: {
		{"go.opentelemetry.io/", traitOTel},
		{"go.opentelemetry.io/otel/trace", traitTraces},
		{".Tracer(", traitTraces},
		{"go.opentelemetry.io/otel/metric", traitMetrics},
		{".Meter(", traitMetrics},
		{"go.opentelemetry.io/otel/sdk/metric", traitMetrics},
		{"go.opentelemetry.io/otel/log", traitLogs},
		{"go.opentelemetry.io/contrib/bridges/", traitLogs},
		{"go.opentelemetry.io/otel/sdk/log", traitLogs},
		{"go.opentelemetry.io/contrib/instrumentation/", traitLibrary},
		{"go.opentelemetry.io/auto", traitAutomatic},
		{"github.com/opentracing/", traitVendor},
		{"go.opencensus.io", traitVendor},
		{"github.com/uber/jaeger-client-go", traitVendor},
		{"github.com/openzipkin/", traitVendor},
		{"github.com/DataDog/", traitVendor},
		{"gopkg.in/DataDog/", traitVendor},
		{"go.elastic.co/apm", traitVendor},
		{"github.com/newrelic/", traitVendor},
		{"github.com/getsentry/", traitVendor},
		{"tracer", traitCandidate},
		{"Tracer", traitCandidate},
		{"meter", traitCandidate},
		{"span", traitCandidate},
		{"Span", traitCandidate},
		{`"log"`, traitCandidate},
		{`"log/slog"`, traitCandidate},
		{"ogger", traitCandidate},
		{"logrus", traitCandidate},
		{"zap", traitCandidate},
		{"zerolog", traitCandidate},
		{"log.", traitCandidate},
		{"logr", traitCandidate},
		{`"net/http"`, traitCandidate},
		{"google.golang.org/grpc", traitCandidate},
		{"gin-gonic", traitCandidate},
		{"labstack/echo", traitCandidate},
		{"gofiber", traitCandidate},
		{"go-chi", traitCandidate},
		{"gorilla/mux", traitCandidate},
		{"kafka", traitCandidate},
		{"sarama", traitCandidate},
		{`"database/sql"`, traitCandidate},
		{"redis", traitCandidate},
		{"mongo-driver", traitCandidate},
		{"jackc/pgx", traitCandidate},
		{"amqp", traitCandidate},
	},
	syntax.JavaScript: javaScriptTerms,
	syntax.TypeScript: javaScriptTerms,
	syntax.Python: {
		{"opentelemetry", traitOTel},
		{"opentelemetry.trace", traitTraces},
		{"import trace", traitTraces},
		{"get_tracer", traitTraces},
		{"TracerProvider", traitTraces},
		{"opentelemetry.metrics", traitMetrics},
		{"get_meter", traitMetrics},
		{"MeterProvider", traitMetrics},
		{"opentelemetry._logs", traitLogs},
		{"opentelemetry.sdk._logs", traitLogs},
		{"LoggerProvider", traitLogs},
		{"opentelemetry.instrumentation", traitLibrary},
		{"auto_instrumentation", traitAutomatic},
		{"opentracing", traitVendor},
		{"opencensus", traitVendor},
		{"jaeger_client", traitVendor},
		{"py_zipkin", traitVendor},
		{"ddtrace", traitVendor},
		{"elasticapm", traitVendor},
		{"newrelic", traitVendor},
		{"sentry_sdk", traitVendor},
		{"tracer", traitCandidate},
		{"meter", traitCandidate},
		{"span", traitCandidate},
		{"logging", traitCandidate},
		{"logger", traitCandidate},
		{"log.", traitCandidate},
		{"loguru", traitCandidate},
		{"structlog", traitCandidate},
		{"print(", traitCandidate},
		{"flask", traitCandidate},
		{"Flask", traitCandidate},
		{"fastapi", traitCandidate},
		{"django", traitCandidate},
		{"aiohttp", traitCandidate},
		{"tornado", traitCandidate},
		{"starlette", traitCandidate},
		{"grpc", traitCandidate},
		{"uvicorn", traitCandidate},
		{"celery", traitCandidate},
		{"kafka", traitCandidate},
		{"pika", traitCandidate},
		{"psycopg", traitCandidate},
		{"pymysql", traitCandidate},
		{"pymongo", traitCandidate},
		{"redis", traitCandidate},
		{"sqlalchemy", traitCandidate},
		{"asyncpg", traitCandidate},
		{"boto", traitCandidate},
	},
	syntax.Java: {
		{"io.opentelemetry", traitOTel},
		{"io.opentelemetry.api.trace", traitTraces},
		{"getTracer(", traitTraces},
		{"SdkTracerProvider", traitTraces},
		{"WithSpan", traitTraces},
		{"io.opentelemetry.api.metrics", traitMetrics},
		{"getMeter(", traitMetrics},
		{"SdkMeterProvider", traitMetrics},
		{"io.opentelemetry.api.logs", traitLogs},
		{"SdkLoggerProvider", traitLogs},
		{"io.opentelemetry.instrumentation", traitLibrary},
		{"AutoConfiguredOpenTelemetrySdk", traitAutomatic},
		{"io.opentracing", traitVendor},
		{"io.opencensus", traitVendor},
		{"io.jaegertracing", traitVendor},
		{"zipkin2", traitVendor},
		{"brave.", traitVendor},
		{"datadog.trace", traitVendor},
		{"co.elastic.apm", traitVendor},
		{"com.newrelic", traitVendor},
		{"io.sentry", traitVendor},
		{"racer", traitCandidate},
		{"eter", traitCandidate},
		{"Span", traitCandidate},
		{"ogger", traitCandidate},
		{"log.", traitCandidate},
		{"LOG.", traitCandidate},
		{"Slf4j", traitCandidate},
		{"System.out", traitCandidate},
		{"springframework", traitCandidate},
		{"HttpServer", traitCandidate},
		{"HttpServlet", traitCandidate},
		{"jakarta.ws", traitCandidate},
		{"javax.ws", traitCandidate},
		{"io.grpc", traitCandidate},
		{"vertx", traitCandidate},
		{"Kafka", traitCandidate},
		{"java.sql", traitCandidate},
		{"jedis", traitCandidate},
		{"lettuce", traitCandidate},
		{"MongoClient", traitCandidate},
		{"rabbitmq", traitCandidate},
		{"DataSource", traitCandidate},
	},
}

var javaScriptTerms = []term{
	{"@opentelemetry/", traitOTel},
	{"@opentelemetry/sdk-trace", traitTraces},
	{"getTracer(", traitTraces},
	{"TracerProvider", traitTraces},
	{"traceExporter", traitTraces},
	{"@opentelemetry/sdk-metrics", traitMetrics},
	{"getMeter(", traitMetrics},
	{"MeterProvider", traitMetrics},
	{"metricReader", traitMetrics},
	{"@opentelemetry/api-logs", traitLogs},
	{"@opentelemetry/sdk-logs", traitLogs},
	{"@opentelemetry/instrumentation-", traitLibrary},
	{"auto-instrumentations-node", traitAutomatic},
	{"auto-instrumentations-web", traitAutomatic},
	{"opentracing", traitVendor},
	{"@opencensus/", traitVendor},
	{"jaeger-client", traitVendor},
	{"zipkin", traitVendor},
	{"dd-trace", traitVendor},
	{"elastic-apm-node", traitVendor},
	{"newrelic", traitVendor},
	{"@sentry/", traitVendor},
	{"tracer", traitCandidate},
	{"meter", traitCandidate},
	{"span", traitCandidate},
	{"Span", traitCandidate},
	{"console.", traitCandidate},
	{"logger", traitCandidate},
	{"log.", traitCandidate},
	{"winston", traitCandidate},
	{"pino", traitCandidate},
	{"bunyan", traitCandidate},
	{"log4js", traitCandidate},
	{"express", traitCandidate},
	{"fastify", traitCandidate},
	{"koa", traitCandidate},
	{"nestjs", traitCandidate},
	{"hapi", traitCandidate},
	{"createServer", traitCandidate},
	{"grpc", traitCandidate},
	{"kafkajs", traitCandidate},
	{"amqplib", traitCandidate},
	{"bullmq", traitCandidate},
	{"@aws-sdk/", traitCandidate},
	{"'pg'", traitCandidate},
	{`"pg"`, traitCandidate},
	{"mysql", traitCandidate},
	{"mongo", traitCandidate},
	{"redis", traitCandidate},
	{"prisma", traitCandidate},
	{"axios", traitCandidate},
}

// scan returns the traits of a source file.
func scan(language syntax.Language, source []byte) trait {
	var found trait
	for _, t := range terms[language] {
		if found&t.trait == 0 && bytes.Contains(source, []byte(t.text)) {
			found |= t.trait
		}
	}
	if found&traitOTel == 0 {
		found &^= traitTraces | traitMetrics | traitLogs | traitLibrary | traitAutomatic
	}
	return found
}
