// SPDX-License-Identifier: Apache-2.0

package instrumentation

import (
	"cmp"
	"slices"
	"strings"

	"assay/internal/review/syntax"
)

var pythonAPI = &api{
	modules:   []string{"opentelemetry"},
	foreign:   []string{"opentracing", "ddtrace", "sentry_sdk", "elasticapm", "newrelic", "opencensus", "py_zipkin", "jaeger_client", "aws_xray_sdk", "langfuse", "agents", "mlflow", "logfire"},
	end:       "end",
	errors:    []string{"record_exception"},
	status:    "set_status",
	statusOK:  pythonStatusOK,
	loggers:   []string{"logging", "structlog", "loguru"},
	keepsSpan: []string{"set_span_in_context", "use_span"},
	services:  []string{"flask", "fastapi", "django", "rest_framework", "starlette", "aiohttp.web", "sanic", "tornado", "quart", "grpc", "celery", "opentelemetry", "logging", "structlog"},
	commands:  []string{"argparse", "click", "typer", "rich", "getpass", "fire"},
}

// pythonStatusOK reports whether an argument of set_status is StatusCode.OK or Status(StatusCode.OK).
func pythonStatusOK(n *syntax.Node) bool {
	if n.Kind == syntax.Call && len(n.Args()) > 0 {
		n = n.Args()[0]
		if n.Kind == syntax.Argument {
			n = n.Value()
		}
	}
	return n.Text == "OK" || n.Text == "UNSET"
}

func findPython(u *Uses) {
	p := python{newFinder(u, pythonAPI)}
	for _, i := range u.File.Imports {
		if rest, ok := strings.CutPrefix(i.Path, "opentelemetry.instrumentation."); ok {
			rest, _, _ = strings.Cut(rest, ".")
			if rest == "auto_instrumentation" {
				rest = "auto"
			}
			p.Instrumented = append(p.Instrumented, rest)
		}
	}
	for n := range u.File.Root.All(syntax.Call) {
		p.start(n)
	}
	p.lives()
	for n := range u.File.Root.All(syntax.Call) {
		p.call(n)
	}
	for n := range u.File.Root.All(syntax.Assign) { // of Django
		if n.Parent == u.File.Root && n.Targets()[0].Text == "LOGGING" {
			p.configLevel(n.Value())
		}
	}
	p.wrapped(p.pairs)
	p.attributeObjects()
}

type python struct{ *finder }

func (p python) start(n *syntax.Node) {
	recv, name := n.Method()
	if recv == nil {
		p.wrapper(n, name)
		return
	}
	switch name {
	case "start_span", "start_as_current_span":
		if argument(n, 0, "name") == nil {
			return
		}
		if !p.provider(recv, []string{"get_tracer"}, "tracer", "Tracer") {
			if !p.ownTracer(recv) {
				p.wrapper(n, name)
			}
			return
		}
		s := &Span{Start: n, Tracer: recv, Name: argument(n, 0, "name"), Scope: p.scope(recv), Context: argument(n, 1, "context")}
		if kind := argument(n, 2, "kind"); kind != nil && kind.Text != "INTERNAL" {
			s.Kind = strings.ToLower(kind.Text)
		}
		if up := n.Parent; name == "start_as_current_span" || up != nil && (up.Kind == syntax.With || up.Kind == syntax.Assign && up.Parent != nil && up.Parent.Kind == syntax.With) {
			p.current(s)
		}
		if attributes := argument(n, 3, "attributes"); attributes != nil {
			p.pairs(attributes, Attribute{On: OnSpan, Span: s})
		}
		escapes := s.Escapes
		p.add(s)
		if s.EndsItself {
			s.Escapes = escapes
		}
	default:
		kind := instrumentKind(name)
		if kind == "" {
			p.wrapper(n, name)
			return
		}
		if !p.provider(recv, []string{"get_meter"}, "meter", "Meter") {
			return
		}
		unit := 1
		if strings.Contains(name, "observable") { // the callbacks precede the unit
			unit = 2
		}
		i := p.addInstrument(n, kind, argument(n, 0, "name"), recv)
		i.Unit = argument(n, unit, "unit")
		i.Boundaries = n.Named("explicit_bucket_boundaries_advisory")
		for _, a := range n.Args() {
			i.Opaque = i.Opaque || a.Kind == syntax.Spread
		}
	}
}

// wrapper adds the span of a context manager of the project that ends the span and records its errors:
// with trace_call("name") as span.
func (p python) wrapper(n *syntax.Node, name string) {
	up := n.Parent
	if up == nil || up.Kind != syntax.Assign || up.Parent == nil || up.Parent.Kind != syntax.With || p.foreign(n) {
		return
	}
	lower := strings.ToLower(name)
	if t := up.Targets()[0]; t.Kind != syntax.Name || !strings.HasSuffix(t.Text, "span") || !strings.Contains(lower, "span") && !strings.Contains(lower, "trace") ||
		n.Arg(0) == nil || n.Arg(0).Kind != syntax.String && n.Arg(0).Kind != syntax.Template {
		return
	}
	s := &Span{Start: n, Name: n.Arg(0), Variable: up.Targets()[0].Text, Body: up.Parent.Body(), EndsItself: true, RecordsErrors: true}
	p.add(s)
	s.Escapes = false
}

// current sets the fields of a span of start_as_current_span, which a with statement or a decorator starts.
func (p python) current(s *Span) {
	on := func(name string) bool {
		v := s.Start.Named(name)
		return v == nil || v.Text != "False" && v.Text != "false"
	}
	s.RecordsErrors = on("record_exception") && on("set_status_on_exception")
	s.EndsItself = on("end_on_exit")
	switch up := s.Start.Parent; {
	case up == nil:
	case up.Kind == syntax.Decorator:
		s.Body = up.Parent
	case up.Kind == syntax.With:
		s.Body = up.Body()
	case up.Kind == syntax.Assign && up.Parent != nil && up.Parent.Kind == syntax.With:
		s.Body = up.Parent.Body()
		if t := up.Targets()[0]; t.Kind == syntax.Name {
			s.Variable = t.Text
		}
	default: // an ExitStack, or a context manager in a variable
		s.Escapes = true
	}
}

// pythonModules holds the functions and classes that create a server, a consumer or a client.
var pythonModules = boundaryTable([][3]string{
	{"http server", "flask", "flask.Flask"},
	{"http server", "fastapi", "fastapi.FastAPI"},
	{"http server", "starlette", "starlette.applications.Starlette"},
	{"http server", "sanic", "sanic.Sanic"},
	{"http server", "quart", "quart.Quart"},
	{"http server", "django", "django.core.wsgi.get_wsgi_application django.core.asgi.get_asgi_application"},
	{"http server", "falcon", "falcon.App falcon.asgi.App"},
	{"http server", "http.server", "http.server.HTTPServer http.server.ThreadingHTTPServer"},
	{"http server", "litestar", "litestar.Litestar"},
	{"http server", "tornado", "tornado.web.Application"},
	{"http server", "aiohttp", "aiohttp.web.Application"},
	{"grpc server", "grpc", "grpc.server grpc.aio.server"},
	{"queue consumer", "pika", "pika.SelectConnection pika.BlockingConnection"},
	{"queue consumer", "kafka", "kafka.KafkaConsumer"},
	{"queue consumer", "confluent_kafka", "confluent_kafka.Consumer"},
	{"queue consumer", "celery", "celery.Celery"},
	{"queue consumer", "aiokafka", "aiokafka.AIOKafkaConsumer"},
	{"queue consumer", "aio_pika", "aio_pika.connect_robust"},
	{"database client", "psycopg2", "psycopg2.pool.SimpleConnectionPool psycopg2.pool.ThreadedConnectionPool psycopg2.connect"},
	{"database client", "mysql", "mysql.connector.connect"},
	{"database client", "mysqlclient", "MySQLdb.connect"},
	{"database client", "redis", "redis.StrictRedis redis.Redis.from_url redis.Redis redis.from_url redis.asyncio.Redis redis.asyncio.from_url"},
	{"database client", "aioredis", "aioredis.from_url"},
	{"database client", "sqlalchemy", "flask_sqlalchemy.SQLAlchemy sqlalchemy.ext.asyncio.create_async_engine sqlalchemy.create_engine"},
	{"database client", "psycopg", "psycopg.connect psycopg_pool.ConnectionPool psycopg_pool.AsyncConnectionPool"},
	{"database client", "pymysql", "pymysql.connect"},
	{"database client", "asyncpg", "asyncpg.connect asyncpg.create_pool"},
	{"database client", "pymongo", "motor.motor_asyncio.AsyncIOMotorClient pymongo.MongoClient"},
})

func (p python) call(n *syntax.Node) {
	p.boundary(n, pythonModules)
	recv, name := n.Method()
	if p.spanCall(n, recv, name, p.pairs) {
		return
	}
	switch name {
	case "dictConfig":
		p.configLevel(n.Arg(0))
	case "add", "record", "set", "observe":
		if sink := n.Arg(0); p.module(recv) == "loguru" && sink != nil && (sink.Text == "stdout" || sink.Text == "stderr") {
			p.level(n.Named("level"))
			return
		}
		i := p.instrumentOf(recv)
		if i != nil || p.File.ImportsAny("opentelemetry") && (named(recv, "counter") || named(recv, "histogram") || named(recv, "gauge") || p.isInstrument(recv)) {
			p.pairs(argument(n, 1, "attributes"), Attribute{On: OnMetric, Instrument: i})
		}
	case "Observation":
		p.pairs(argument(n, 1, "attributes"), Attribute{On: OnMetric})
	case "create", "Resource":
		if (name == "Resource" || recv != nil && recv.Text == "Resource") && p.File.ImportsAny("opentelemetry.sdk") {
			p.addResource(n, argument(n, 0, "attributes"), name == "create")
		}
	case "get_aggregated_resources":
		if detectors := argument(n, 0, "detectors"); detectors != nil && detectors.Kind == syntax.List {
			p.Resources = append(p.Resources, Resource{Detectors: detectors.Children})
		}
	case "TracerProvider", "MeterProvider", "LoggerProvider":
		if p.File.ImportsAny("opentelemetry.sdk") && (n.Named("resource") == nil || p.withoutAttributes(n.Named("resource"), "get_empty")) {
			p.Resources = append(p.Resources, Resource{Node: n, FromEnvironment: true, Opaque: len(n.Args()) > 0 && slices.ContainsFunc(n.Args(), func(a *syntax.Node) bool { return a.Kind == syntax.Spread })})
		}
	case "basicConfig":
		if p.module(recv) == "logging" {
			p.level(n.Named("level"))
		}
	case "make_filtering_bound_logger":
		p.level(n.Arg(0))
	case "receive_message":
		if recv != nil && p.File.ImportsAny("boto3", "aioboto3") {
			p.Boundaries = append(p.Boundaries, Boundary{Node: n, Kind: "queue consumer", Library: "boto3"})
		}
	case "run":
		if p.module(recv) == "uvicorn" {
			p.level(n.Named("log_level"))
		}
	case "setLevel":
		if recv != nil && (loggerName(recv.Text) || recv.Kind == syntax.Call && named(recv, "getlogger") && (recv.Arg(0) == nil || recv.Arg(0).Kind != syntax.String || recv.Arg(0).Text == "")) {
			p.level(n.Arg(0))
		}
	default:
		p.log(n, recv, name)
	}
}

// configLevel adds the level of the root logger in a configuration of the logging module, unless a handler has another
// level.
func (p python) configLevel(config *syntax.Node) {
	config = p.value(config)
	get := func(n *syntax.Node, keys ...string) *syntax.Node {
		for _, key := range keys {
			if n == nil || n.Kind != syntax.Object {
				return nil
			}
			n = n.Get(key)
		}
		return n
	}
	if handlers := get(config, "handlers"); handlers != nil && handlers.Kind == syntax.Object {
		for _, c := range handlers.Children {
			if c.Kind == syntax.Pair && get(c.Value(), "level") != nil && get(c.Value(), "level").Text != "DEBUG" {
				return
			}
		}
	}
	p.level(cmp.Or(get(config, "root", "level"), get(config, "loggers", "", "level")))
}

func (p python) log(n, recv *syntax.Node, name string) {
	if recv == nil && name == "print" {
		p.addPrint(n)
		return
	}
	if !p.addLog(n, recv, name) {
		return
	}
	l := &p.Logs[len(p.Logs)-1]
	if name == "log" && len(l.Args) > 0 && l.Message.Kind != syntax.String && l.Message.Kind != syntax.Template { // logger.log(level, message)
		l.Level, _ = logLevel(l.Message.Text)
		l.Message, l.Args = l.Args[0], l.Args[1:]
	}
	var args []*syntax.Node
	for _, a := range l.Args {
		if a.Kind != syntax.Argument {
			args = append(args, a)
			continue
		}
		switch a.Text {
		case "exc_info", "stack_info", "stacklevel":
		case "extra":
			args = append(args, a.Value())
		default:
			args = append(args, a) // field of structlog
		}
	}
	l.Args = args
	if l.Message != nil && l.Message.Kind == syntax.Operator && l.Message.Text == "%" && len(l.Message.Children) == 2 {
		values := l.Message.Children[1:]
		if values[0].Kind == syntax.List { // "%s %s" % (a, b)
			values = values[0].Children
		}
		l.Args = append(l.Args, values...)
		l.Message = l.Message.Children[0]
	}
}
