// SPDX-License-Identifier: Apache-2.0

package instrument

import (
	"regexp"
	"strings"
)

// pythonForm says how a boundary gets its span.
type pythonForm uint8

const (
	pythonDecorator  pythonForm = iota // a decorator: the helper decorates the function below it
	pythonCallback                     // a call that gets a callback: the helper wraps the argument
	pythonAttribute                    // an attribute that gets a callback: the helper wraps the value
	pythonRegistered                   // a call that gets a function by its name: the helper decorates the function
	pythonMethods                      // a base class: the helper decorates methods
	pythonCall                         // a call of a client: the helper wraps the callee
	pythonPackage                      // none: the instrumentation package has more than a helper can know
)

// pythonBoundary is a kind of boundary of a library.
type pythonBoundary struct {
	module string // the first part of the path
	// path matches a qualified name that begins with the imported module. A call of a function or class adds "()".
	path *regexp.Regexp
	form pythonForm
	// packages cover the boundary, named without "opentelemetry-instrumentation-". The first one needs no code.
	packages []string
	helper   string // the function of otel_boundaries.py
	system   string // messaging.system or db.system.name; the kind of the spans of a package
	// argument is the position of the callback or the statement, keyword its name.
	argument int
	keyword  string
	// destination is the position of the name of the queue, -1 if the call has none, queue the keyword.
	destination int
	queue       string
}

const (
	pythonVerbs  = `(get|post|put|patch|delete|head|options)`
	pythonRoutes = `(route|get|post|put|patch|delete|head|options)`
	dbapiCalls   = `\.(cursor\(\)\.)?(execute|executemany)`
)

// pythonBoundaryTable has the boundaries by the first part of their paths.
var pythonBoundaryTable = func() map[string][]pythonBoundary {
	table := map[string][]pythonBoundary{}
	add := func(module, path string, b pythonBoundary) {
		b.path = regexp.MustCompile(`^` + regexp.QuoteMeta(module) + path + `$`)
		root := regexp.MustCompile(`^\w+`).FindString(module)
		b.module = root
		table[root] = append(table[root], b)
	}
	none := []string{""}

	// Servers.
	web := func(packages []string, helper, keyword string, at int) (decorated, registered pythonBoundary) {
		return pythonBoundary{packages: packages, helper: helper},
			pythonBoundary{form: pythonCallback, packages: packages, helper: helper, argument: at, keyword: keyword, destination: -1}
	}
	decorated, registered := web([]string{"flask", "wsgi"}, "trace_flask", "view_func", 2)
	add("flask", `\.(Flask|Blueprint)\(\)\.`+pythonRoutes, decorated)
	registered.form = pythonRegistered // an endpoint accepts one view only: each of its rules has to name the same function
	add("flask", `\.(Flask|Blueprint)\(\)\.add_url_rule`, registered)
	decorated, registered = web([]string{"", "asgi"}, "trace_quart", "view_func", 2)
	add("quart", `\.(Quart|Blueprint)\(\)\.`+pythonRoutes, decorated)
	registered.form = pythonRegistered
	add("quart", `\.(Quart|Blueprint)\(\)\.add_url_rule`, registered)
	decorated, registered = web([]string{"", "wsgi"}, "trace_bottle", "callback", 2)
	add("bottle", `\.((Bottle|default_app|app)\(\)\.)?`+pythonRoutes, decorated)
	add("bottle", `\.((Bottle|default_app|app)\(\)\.)?`+pythonRoutes, registered)
	decorated, registered = web([]string{"", "asgi", "sanic"}, "trace_sanic", "handler", 0)
	add("sanic", `(\.blueprints)?\.(Sanic|Blueprint)\(\)\.`+pythonRoutes, decorated)
	add("sanic", `(\.blueprints)?\.(Sanic|Blueprint)\(\)\.add_route`, registered)
	decorated, registered = web([]string{"aiohttp-server"}, "trace_aiohttp", "handler", 1)
	add("aiohttp.web", `\.RouteTableDef\(\)\.`+pythonVerbs, decorated)
	add("aiohttp.web", `\.`+pythonVerbs, registered)
	add("aiohttp.web", `\.Application\(\)\.router\.add_`+pythonVerbs, registered)
	registered.argument = 2
	add("aiohttp.web", `\.(route|Application\(\)\.router\.add_route)`, registered)
	add("http.server", `\.(BaseHTTPRequestHandler|SimpleHTTPRequestHandler)`, pythonBoundary{form: pythonMethods, packages: none, helper: "trace_http_server"})

	// Clients of HTTP.
	for _, library := range []string{"requests", "httpx"} {
		client := pythonBoundary{form: pythonCall, packages: []string{library, "urllib3"}, helper: "trace_http"} // requests calls urllib3
		add(library, `\.((Session|session|Client|AsyncClient)\(\)\.)?(get|post|put|patch|delete|head|options|request)`, client)
	}
	add("urllib.request", `\.urlopen`, pythonBoundary{form: pythonCall, packages: []string{"urllib"}, helper: "trace_urlopen"})

	// Databases. DuckDB is omitted: it resolves table names to variables of the calling function, and a wrapper would be
	// that function.
	for _, d := range []struct{ module, path, system, packages string }{
		{"sqlite3", `\.(connect|Connection)\(\)` + dbapiCalls, "sqlite", "sqlite3"},
		{"psycopg2", `\.connect\(\)` + dbapiCalls, "postgresql", "psycopg2"},
		{"psycopg", `\.(connect|Connection\(\)|AsyncConnection\.connect)\(\)` + dbapiCalls, "postgresql", "psycopg"},
		{"asyncpg", `\.(connect|create_pool|Connection|Pool)\(\)\.(acquire\(\)\.)?(execute|executemany|fetch|fetchrow|fetchval)`, "postgresql", "asyncpg"},
		{"pymysql", `\.(connect|Connection)\(\)` + dbapiCalls, "mysql", "pymysql"},
		{"mysql.connector", `\.connect\(\)` + dbapiCalls, "mysql", "mysql"},
		{"MySQLdb", `\.connect\(\)` + dbapiCalls, "mysql", "mysqlclient"},
		{"cassandra.cluster", `\.Cluster\(\)\.connect\(\)\.execute`, "cassandra", "cassandra"},
		{"oracledb", `\.(connect|connect_async|create_pool|Connection)\(\)(\.acquire\(\))?` + dbapiCalls, "oracle.db", ""},
		{"clickhouse_driver", `\.(Client|connect)\(\)\.(cursor\(\)\.)?(execute|execute_iter|query_dataframe)`, "clickhouse", ""},
		{"clickhouse_connect", `\.(get_client|get_async_client)\(\)\.(query|command|query_df|query_np|raw_query)`, "clickhouse", ""},
		{"neo4j", `\.(GraphDatabase|AsyncGraphDatabase)\.driver\(\)\.(session\(\)\.run|execute_query)`, "neo4j", ""},
	} {
		packages := []string{d.packages, "dbapi"}
		add(d.module, d.path, pythonBoundary{form: pythonCall, packages: packages, helper: "trace_query", system: d.system, keyword: "query"})
	}

	// Consumers.
	callback := func(packages []string, helper string, at int, keyword string, destination int, queue string) pythonBoundary {
		return pythonBoundary{form: pythonCallback, packages: packages, helper: helper, argument: at, keyword: keyword, destination: destination, queue: queue}
	}
	add("nats", `\.(connect\(\)|NATS\(\)|aio\.client\.Client\(\))(\.jetstream\(\))?\.subscribe`, callback(none, "trace_nats", 2, "cb", 0, "subject"))
	add("nats", `\.(connect\(\)|NATS\(\)|aio\.client\.Client\(\))(\.jetstream\(\))?\.publish`, pythonBoundary{form: pythonCall, packages: none, helper: "trace_nats_publish", queue: "subject"})
	add("paho.mqtt.client", `\.Client\(\)\.message_callback_add`, callback(none, "trace_mqtt", 1, "callback", 0, "sub"))
	add("paho.mqtt.client", `\.Client\(\)\.on_message`, pythonBoundary{form: pythonAttribute, packages: none, helper: "trace_mqtt", destination: -1})
	add("google.cloud.pubsub_v1", `(\.subscriber(\.client)?)?\.(SubscriberClient|Client)\(\)\.subscribe`, callback(none, "trace_pubsub", 1, "callback", -1, ""))
	add("pika", `\.(BlockingConnection|SelectConnection)\(\)\.channel\(\)\.basic_consume`, callback([]string{"pika"}, "trace_pika", 1, "on_message_callback", 0, "queue"))

	// Tasks and scheduled jobs.
	task := func(module, path string, destination int, queue string) {
		add(module, path, pythonBoundary{packages: none, helper: "trace_task", system: module, destination: destination, queue: queue})
	}
	task("dramatiq", `\.actor`, -1, "queue_name")
	task("huey", `(\.contrib\.djhuey|(\.\w+)*\.\w*Huey\(\))\.(db_)?(task|periodic_task)`, -1, "")
	task("rq", `(\.decorators)?\.job`, 0, "queue")
	add("apscheduler.schedulers", `\.\w+\.\w+Scheduler\(\)\.scheduled_job`, pythonBoundary{packages: none, helper: "trace_job"})
	add("apscheduler.schedulers", `\.\w+\.\w+Scheduler\(\)\.add_job`, pythonBoundary{form: pythonRegistered, packages: none, helper: "trace_job", keyword: "func"})
	add("schedule", `\.(Scheduler\(\)\.)?every\(\)[\w.()]*\.do`, pythonBoundary{form: pythonRegistered, packages: none, helper: "trace_job", keyword: "job_func"})
	add("schedule", `\.repeat`, pythonBoundary{packages: none, helper: "trace_job"})

	// Libraries with instrumentation packages.
	for _, p := range []struct{ module, path, names, kind string }{
		{"fastapi", `\.FastAPI`, "fastapi asgi", "SERVER"},
		{"starlette.applications", `\.Starlette`, "starlette asgi", "SERVER"},
		{"django.core.wsgi", `\.get_wsgi_application`, "django wsgi", "SERVER"},
		{"django.core.asgi", `\.get_asgi_application`, "django asgi", "SERVER"},
		{"falcon", `(\.asgi)?\.App`, "falcon wsgi asgi", "SERVER"},
		{"tornado.web", `\.Application`, "tornado", "SERVER"},
		{"grpc", `(\.aio)?\.server`, "grpc", "SERVER"},
		{"celery", `\.Celery`, "celery", "CONSUMER"},
		{"kafka", `\.KafkaConsumer`, "kafka-python kafka", "CONSUMER"},
		{"confluent_kafka", `\.Consumer`, "confluent-kafka", "CONSUMER"},
		{"aiokafka", `\.AIOKafkaConsumer`, "aiokafka", "CONSUMER"},
		{"aio_pika", `\.connect(_robust)?`, "aio-pika", "CONSUMER"},
		{"aiohttp", `\.ClientSession`, "aiohttp-client", "CLIENT"},
		{"urllib3", `\.PoolManager`, "urllib3", "CLIENT"},
		{"boto3", `\.(client|resource|Session)`, "botocore", "CLIENT"},
		{"pymongo", `\.MongoClient`, "pymongo", "CLIENT"},
		{"redis", `(\.asyncio)?\.(Redis|StrictRedis|from_url)(\.from_url)?`, "redis", "CLIENT"},
		{"sqlalchemy", `(\.ext\.asyncio)?\.create_(async_)?engine`, "sqlalchemy", "CLIENT"},
	} {
		add(p.module, p.path, pythonBoundary{form: pythonPackage, packages: strings.Fields(p.names), system: p.kind})
	}
	return table
}()

// pythonHelpers has the kinds of the spans and the metrics of the functions of otel_boundaries.py.
var pythonHelpers = map[string]struct{ kind, metric string }{
	"trace_flask": {"SERVER", "http.server.request.duration"}, "trace_quart": {"SERVER", "http.server.request.duration"},
	"trace_bottle": {"SERVER", "http.server.request.duration"}, "trace_sanic": {"SERVER", "http.server.request.duration"},
	"trace_aiohttp": {"SERVER", "http.server.request.duration"}, "trace_http_server": {"SERVER", "http.server.request.duration"},
	"trace_http": {"CLIENT", "http.client.request.duration"}, "trace_urlopen": {"CLIENT", "http.client.request.duration"},
	"trace_query":        {"CLIENT", "db.client.operation.duration"},
	"trace_nats_publish": {"PRODUCER", "messaging.client.operation.duration"},
	"trace_nats":         {"CONSUMER", "messaging.process.duration"}, "trace_mqtt": {"CONSUMER", "messaging.process.duration"},
	"trace_pubsub": {"CONSUMER", "messaging.process.duration"}, "trace_pika": {"CONSUMER", "messaging.process.duration"},
	"trace_task": {"CONSUMER", "messaging.process.duration"}, "trace_job": {"INTERNAL", ""},
}

// kind returns the kind of the spans of a boundary.
func (b *pythonBoundary) kind() string {
	if b.form == pythonPackage {
		return b.system
	}
	return pythonHelpers[b.helper].kind
}
