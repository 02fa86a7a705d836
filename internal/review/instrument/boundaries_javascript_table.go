// SPDX-License-Identifier: Apache-2.0

package instrument

// nodeBoundary is a call of a library that registers a handler or creates a client.
type nodeBoundary struct {
	library string
	// names are the functions and classes of the library that are called. The empty name is the default export.
	names []string
	// method is the method that is called instead, of an object that the library makes. on has the events if the method
	// registers handlers of events.
	method string
	on     []string
	loose  bool // the receiver is not traced to the library

	// decorators mark methods that are handlers, or classes in which the method is one.
	decorators []string

	wrap    string    // the function of the helpers: traceProcess, traceJob, traceDatabase, ...
	system  string    // of the messages or the database
	place   nodePlace // of the wrapped node
	index   int       // of the argument, for oneArgument and members
	options []string  // the members with handlers
	named   int       // the index of the argument with the name of the destination, -1 for none
	maker   bool      // the first argument of the receiver's constructor has this name

	callback bool // a handler with a second parameter ends when it calls this

	automatic bool     // automatic instrumentation covers the library
	words     []string // parts of the names of packages that instrument the library
}

// nodeKinds are the kinds of spans by the function that starts them.
var nodeKinds = map[string]string{
	"traceProcess": "consumer", "TracedProcess": "consumer", "traceJob": "internal", "TracedJob": "internal", "traceDatabase": "client", "traceFetch": "client",
	"traceProducer": "producer", "traceExpress": "server", "traceFastify": "server", "traceKoa": "server", "traceHandler": "server",
}

// nodePlace selects the part of a call that is wrapped.
type nodePlace uint8

const (
	wholeCall    nodePlace = iota // the call
	oneArgument                   // the argument at the index
	lastArgument                  // the last argument that can be a function
	members                       // members of the object in the argument at the index
)

const fetched = "fetch" // the global function

// nodeBoundaries are the libraries whose boundaries are wrapped.
var nodeBoundaries = []nodeBoundary{
	{library: "bullmq", names: []string{"Worker"}, wrap: "traceProcess", system: "bullmq", place: oneArgument, index: 1, named: 0, words: []string{"bullmq"}},
	{library: "bull", method: "process", wrap: "traceProcess", system: "bull", place: lastArgument, named: -1, words: []string{"-bull"}, maker: true, callback: true},
	{library: "bee-queue", method: "process", wrap: "traceProcess", system: "bee-queue", place: lastArgument, named: -1, words: []string{"bee-queue"}, maker: true, callback: true},
	{library: "pg-boss", method: "work", wrap: "traceProcess", system: "pgboss", place: lastArgument, named: 0, words: []string{"pg-boss", "pgboss"}},
	{library: "sqs-consumer", names: []string{"Consumer.create"}, wrap: "traceProcess", system: "aws_sqs", place: members, options: []string{"handleMessage", "handleMessageBatch"}, named: -1, words: []string{"sqs-consumer"}},
	{library: "@google-cloud/pubsub", method: "on", on: []string{"message"}, wrap: "traceProcess", system: "gcp_pubsub", place: oneArgument, index: 1, named: -1, words: []string{"pubsub"}},
	{library: "@azure/service-bus", method: "subscribe", wrap: "traceProcess", system: "servicebus", place: members, options: []string{"processMessage"}, named: -1, words: []string{"azure-sdk"}},
	{library: "mqtt", method: "on", on: []string{"message"}, wrap: "traceProcess", system: "mqtt", place: oneArgument, index: 1, named: -1, words: []string{"mqtt"}},
	{library: "ws", method: "on", on: []string{"message"}, wrap: "traceProcess", system: "websocket", place: oneArgument, index: 1, named: -1, words: []string{"-ws", "websocket"}},
	{library: "kafkajs", method: "run", loose: true, wrap: "traceProcess", system: "kafka", place: members, options: []string{"eachMessage", "eachBatch"}, named: -1, automatic: true, words: []string{"kafkajs"}},
	{library: "amqplib", method: "consume", loose: true, wrap: "traceProcess", system: "rabbitmq", place: oneArgument, index: 1, named: 0, automatic: true, words: []string{"amqp"}},

	{library: "bullmq", names: []string{"Queue"}, wrap: "traceProducer", system: "bullmq", words: []string{"bullmq"}},
	{library: "bull", names: []string{""}, wrap: "traceProducer", system: "bull", words: []string{"-bull"}},
	{library: "kafkajs", method: "producer", wrap: "traceProducer", system: "kafka", named: -1, automatic: true, words: []string{"kafkajs"}},

	{library: "node-cron", names: []string{"schedule"}, wrap: "traceJob", place: oneArgument, index: 1, named: -1, words: []string{"cron"}},
	{library: "cron", names: []string{"CronJob"}, wrap: "traceJob", place: oneArgument, index: 1, named: -1, words: []string{"cron"}},
	{library: "cron", names: []string{"CronJob.from"}, wrap: "traceJob", place: members, options: []string{"onTick"}, named: -1, words: []string{"cron"}},
	{library: "node-schedule", names: []string{"scheduleJob"}, wrap: "traceJob", place: lastArgument, named: -1, words: []string{"schedule"}},

	{library: "@nestjs/schedule", decorators: []string{"Cron", "Interval", "Timeout"}, wrap: "TracedJob", words: []string{"schedule"}},
	{library: "@nestjs/bull", decorators: []string{"Process"}, wrap: "TracedProcess", system: "bull", words: []string{"-bull"}, callback: true},
	{library: "@nestjs/bullmq", decorators: []string{"Processor"}, method: "process", wrap: "TracedProcess", system: "bullmq", words: []string{"bullmq"}},

	{library: "better-sqlite3", names: []string{""}, wrap: "traceDatabase", system: "sqlite", words: []string{"sqlite"}},
	{library: "sqlite3", names: []string{"Database"}, wrap: "traceDatabase", system: "sqlite", words: []string{"sqlite"}},
	{library: "node:sqlite", names: []string{"DatabaseSync"}, wrap: "traceDatabase", system: "sqlite", words: []string{"sqlite"}},
	{library: "pg", names: []string{"Pool", "Client"}, wrap: "traceDatabase", system: "postgresql", automatic: true, words: []string{"-pg"}},
	{library: "mysql2", names: []string{"createPool", "createConnection"}, wrap: "traceDatabase", system: "mysql", automatic: true, words: []string{"mysql2"}},
	{library: "mysql2/promise", names: []string{"createPool", "createConnection"}, wrap: "traceDatabase", system: "mysql", automatic: true, words: []string{"mysql2"}},

	{library: "express", names: []string{""}, wrap: "traceExpress", automatic: true, words: []string{"-http"}},
	{library: "koa", names: []string{""}, wrap: "traceKoa", automatic: true, words: []string{"-http"}},
	{library: "fastify", names: []string{"", "fastify"}, wrap: "traceFastify", automatic: true, words: []string{"-http", "fastify"}},
	{library: "node:http", names: []string{"createServer"}, wrap: "traceHandler", place: lastArgument, named: -1, automatic: true, words: []string{"-http"}},
	{library: "node:https", names: []string{"createServer"}, wrap: "traceHandler", place: lastArgument, named: -1, automatic: true, words: []string{"-http"}},
	{library: fetched, wrap: "traceFetch", automatic: true, words: []string{"undici"}},
}

// nodeLeft are libraries whose calls are not wrapped, with the step for them.
var nodeLeft = map[string]struct {
	nodeBoundary
	text string
}{
	"@prisma/client": {nodeBoundary{words: []string{"prisma"}}, "Prisma has its own instrumentation: add `@prisma/instrumentation` to the setup of the SDK"},
	"nats":           {nodeBoundary{words: []string{"nats"}}, "Start a span for each message of NATS in the loops over subscriptions, with the context that `propagation.extract` reads from its headers"},
	"neo4j-driver":   {nodeBoundary{words: []string{"neo4j"}}, "Start a span around each `run` of a session of Neo4j: its results arrive after the call"},

	"@grpc/grpc-js": {nodeBoundary{automatic: true, words: []string{"-grpc"}}, "Add `@opentelemetry/instrumentation-grpc` to the setup of the SDK"},
	"@hapi/hapi":    {nodeBoundary{automatic: true, words: []string{"-http"}}, "Add `@opentelemetry/instrumentation-http` and `@opentelemetry/instrumentation-hapi` to the setup of the SDK"},
	"@nestjs/core":  {nodeBoundary{automatic: true, words: []string{"-http"}}, "Add `@opentelemetry/instrumentation-http` and `@opentelemetry/instrumentation-nestjs-core` to the setup of the SDK"},
	"axios":         {nodeBoundary{automatic: true, words: []string{"-http"}}, "Add `@opentelemetry/instrumentation-http`, which covers `axios`, to the setup of the SDK"},
	"got":           {nodeBoundary{automatic: true, words: []string{"-http"}}, "Add `@opentelemetry/instrumentation-http`, which covers `got`, to the setup of the SDK"},
	"hono":          {nodeBoundary{automatic: true, words: []string{"-http", "hono"}}, "Add `@hono/otel` to the application"},
	"ioredis":       {nodeBoundary{automatic: true, words: []string{"ioredis"}}, "Add `@opentelemetry/instrumentation-ioredis` to the setup of the SDK"},
	"mongodb":       {nodeBoundary{automatic: true, words: []string{"mongodb"}}, "Add `@opentelemetry/instrumentation-mongodb` to the setup of the SDK"},
	"mongoose":      {nodeBoundary{automatic: true, words: []string{"mongo"}}, "Add `@opentelemetry/instrumentation-mongodb` to the setup of the SDK"},
	"redis":         {nodeBoundary{automatic: true, words: []string{"-redis"}}, "Add `@opentelemetry/instrumentation-redis` to the setup of the SDK"},
	"undici":        {nodeBoundary{automatic: true, words: []string{"undici"}}, "Add `@opentelemetry/instrumentation-undici` to the setup of the SDK"},
}

// nodeSteps are the texts of steps by the function of the helpers, with %s for the library.
var nodeSteps = map[string]string{
	"traceProcess":  "Start a consumer span for each message of `%s`, and record `messaging.process.duration`",
	"traceProducer": "Start a producer span for each call that sends messages of `%s`, and record `messaging.client.operation.duration`",
	"traceJob":      "Start a span for each run of the job of `%s`",
	"TracedProcess": "Start a consumer span for each message of `%s`, and record `messaging.process.duration`",
	"TracedJob":     "Start a span for each run of the job of `%s`",
	"traceDatabase": "Start a client span for each statement of `%s` in a trace, and record `db.client.operation.duration`",
	"traceExpress":  "Start a server span for each request of `%s`, and record `http.server.request.duration`",
	"traceKoa":      "Start a server span for each request of `%s`, and record `http.server.request.duration`",
	"traceFastify":  "Start a server span for each request of `%s`, and record `http.server.request.duration`",
	"traceHandler":  "Start a server span for each request of `%s`, and record `http.server.request.duration`",
	"traceFetch":    "Start a client span for each `%s`, and record `http.client.request.duration`",
}
