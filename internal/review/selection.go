// SPDX-License-Identifier: Apache-2.0

package review

import (
	"bytes"
	"slices"

	"assay/internal/review/syntax"
)

// trait is a property of a source file that is visible in its bytes.
type trait uint16

// The traits. A file without any is not parsed.
const (
	traitCandidate trait = 1 << iota // may log, serve or call: a check may report it
	traitOTel                        // uses OpenTelemetry
	traitTraces
	traitMetrics
	traitLogs
	traitLibrary   // sets up instrumentation libraries
	traitAutomatic // sets up automatic instrumentation
	traitVendor    // uses another tracer or metrics client
)

// terms holds texts by language and trait. A file that contains one of the texts has the trait. A scan searches for
// each text once, so its time is linear in the size of the file.
var terms = func() map[syntax.Language]map[trait][][]byte {
	javaScript := map[trait]string{
		traitOTel:      "@opentelemetry/",
		traitTraces:    "@opentelemetry/sdk-trace|getTracer(|TracerProvider|traceExporter",
		traitMetrics:   "@opentelemetry/sdk-metrics|getMeter(|MeterProvider|metricReader",
		traitLogs:      "@opentelemetry/api-logs|@opentelemetry/sdk-logs",
		traitLibrary:   "@opentelemetry/instrumentation-",
		traitAutomatic: "auto-instrumentations-node|auto-instrumentations-web",
		traitVendor:    "opentracing|@opencensus/|jaeger-client|zipkin|dd-trace|elastic-apm-node|newrelic|@sentry/",
		traitCandidate: `tracer|meter|span|Span|console.|logger|log.|winston|pino|bunyan|log4js|express|fastify|` +
			`koa|nestjs|hapi|createServer|grpc|kafkajs|amqplib|bullmq|@aws-sdk/|'pg'|"pg"|mysql|mongo|` +
			`redis|prisma|typeorm|sequelize|knex|hono|restify|axios`,
	}
	all := map[syntax.Language]map[trait][][]byte{}
	for language, traits := range map[syntax.Language]map[trait]string{
		syntax.Go: {
			traitOTel:    "go.opentelemetry.io/",
			traitTraces:  "go.opentelemetry.io/otel/trace|.Tracer(",
			traitMetrics: "go.opentelemetry.io/otel/metric|.Meter(|go.opentelemetry.io/otel/sdk/metric",
			traitLogs: "go.opentelemetry.io/otel/log|go.opentelemetry.io/contrib/bridges/|" +
				"go.opentelemetry.io/otel/sdk/log",
			traitLibrary:   "go.opentelemetry.io/contrib/instrumentation/",
			traitAutomatic: "go.opentelemetry.io/auto",
			traitVendor: "github.com/opentracing/|go.opencensus.io|github.com/uber/jaeger-client-go|" +
				"github.com/openzipkin/|github.com/DataDog/|gopkg.in/DataDog/|go.elastic.co/apm|" +
				"github.com/newrelic/|github.com/getsentry/",
			traitCandidate: `tracer|Tracer|meter|span|Span|"log"|"log/slog"|ogger|logrus|zap|zerolog|log.|logr|` +
				`"net/http"|google.golang.org/grpc|gin-gonic|labstack/echo|gofiber|go-chi|gorilla/mux|` +
				`kafka|sarama|"database/sql"|redis|mongo-driver|jackc/pgx|amqp|nats-io|service/sqs|` +
				`fasthttp|kataras/iris|redigo|jmoiron/sqlx|gorm.io|gocql`,
		},
		syntax.JavaScript: javaScript,
		syntax.TypeScript: javaScript,
		syntax.Python: {
			traitOTel:      "opentelemetry",
			traitTraces:    "opentelemetry.trace|import trace|get_tracer|TracerProvider",
			traitMetrics:   "opentelemetry.metrics|get_meter|MeterProvider",
			traitLogs:      "opentelemetry._logs|opentelemetry.sdk._logs|LoggerProvider",
			traitLibrary:   "opentelemetry.instrumentation",
			traitAutomatic: "auto_instrumentation",
			traitVendor:    "opentracing|opencensus|jaeger_client|py_zipkin|ddtrace|elasticapm|newrelic|sentry_sdk",
			traitCandidate: "tracer|meter|span|logging|logger|log.|loguru|structlog|print(|flask|Flask|fastapi|django|" +
				"aiohttp|tornado|starlette|grpc|uvicorn|celery|kafka|pika|psycopg|pymysql|pymongo|redis|" +
				"sqlalchemy|asyncpg|boto|http.server|mysql|MySQLdb|falcon|sanic|quart|litestar|motor",
		},
		syntax.Java: {
			traitOTel:      "io.opentelemetry",
			traitTraces:    "io.opentelemetry.api.trace|getTracer(|SdkTracerProvider|WithSpan",
			traitMetrics:   "io.opentelemetry.api.metrics|getMeter(|SdkMeterProvider",
			traitLogs:      "io.opentelemetry.api.logs|SdkLoggerProvider",
			traitLibrary:   "io.opentelemetry.instrumentation",
			traitAutomatic: "AutoConfiguredOpenTelemetrySdk",
			traitVendor: "io.opentracing|io.opencensus|io.jaegertracing|zipkin2|brave.|datadog.trace|co.elastic.apm|" +
				"com.newrelic|io.sentry",
			traitCandidate: "racer|eter|Span|ogger|log.|log4j|LOG.|Slf4j|System.out|springframework|HttpServer|HttpServlet|" +
				"jakarta.ws|javax.ws|io.grpc|vertx|Kafka|java.sql|jedis|lettuce|MongoClient|rabbitmq|" +
				"DataSource|System.err|javalin|jetty|undertow|datastax|RabbitListener|JmsListener|" +
				"SqsListener",
		},
	} {
		all[language] = map[trait][][]byte{}
		for t, texts := range traits {
			all[language][t] = bytes.Split([]byte(texts), []byte("|"))
		}
	}
	return all
}()

// scan returns the traits of a source file.
func scan(language syntax.Language, source []byte) trait {
	var found trait
	for t, texts := range terms[language] {
		if slices.ContainsFunc(texts, func(text []byte) bool { return bytes.Contains(source, text) }) {
			found |= t
		}
	}
	if found&traitOTel == 0 {
		found &^= traitTraces | traitMetrics | traitLogs | traitLibrary | traitAutomatic
	}
	return found
}
