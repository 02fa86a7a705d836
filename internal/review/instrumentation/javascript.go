// SPDX-License-Identifier: Apache-2.0

package instrumentation

import (
	"regexp"
	"slices"
	"strings"

	"assay/internal/review/syntax"
)

var javaScriptAPI = &api{
	modules: []string{"@opentelemetry"},
	foreign: []string{"opentracing", "dd-trace", "@sentry", "elastic-apm-node", "newrelic", "zipkin", "jaeger-client", "@google-cloud/trace-agent", "applicationinsights"},
	end:     "end",
	errors:  []string{"recordException"},
	status:  "setStatus",
	statusOK: func(n *syntax.Node) bool {
		if n.Kind == syntax.Object {
			n = n.Get("code")
		}
		return n != nil && (n.Kind == syntax.Member && (n.Text == "OK" || n.Text == "UNSET") || n.Kind == syntax.Number && (n.Text == "0" || n.Text == "1"))
	},
	loggers:   []string{"winston", "pino", "bunyan", "loglevel", "log4js", "signale", "consola", "tslog", "npmlog"},
	keepsSpan: []string{"setSpan", "with"},
}

func findJavaScript(u *Uses) {
	j := javaScript{newFinder(u, javaScriptAPI), map[string]bool{}, map[string]bool{}, map[string]bool{}}
	for _, i := range u.File.Imports {
		if i.Path == "@opentelemetry/auto-instrumentations-node" || i.Path == "@opentelemetry/auto-instrumentations-web" {
			j.Instrumented = append(j.Instrumented, "auto")
		} else if rest, ok := strings.CutPrefix(i.Path, "@opentelemetry/instrumentation-"); ok {
			j.Instrumented = append(j.Instrumented, rest)
		}
	}
	for n := range u.File.Root.All(syntax.Call) {
		recv, name := n.Method()
		switch {
		case recv == nil:
		case recv.Kind == syntax.Name && name == "end" && len(n.Args()) == 0:
			j.ended[recv.Text] = true
		case recv.Kind == syntax.Name && (name == "finish" || name == "setTag" || name == "addTags"):
			j.finished[recv.Text] = true
		case name == "startActiveSpan" && len(n.Args()) > 1 && slices.ContainsFunc(n.Args()[:len(n.Args())-1], func(a *syntax.Node) bool { return a.Kind == syntax.Func }):
			j.wrappers[u.File.Code(recv)] = true
		}
	}
	for n := range u.File.Root.All() {
		switch n.Kind {
		case syntax.Call:
			j.start(n)
		case syntax.New:
			j.construct(n)
		}
	}
	j.lives()
	for n := range u.File.Root.All(syntax.Call) {
		j.call(n)
	}
	j.wrapped(j.pairs)
	j.attributeObjects()
}

type javaScript struct {
	*finder
	ended    map[string]bool // variables with a call of end
	finished map[string]bool // variables with a call of a method of OpenTracing spans
	wrappers map[string]bool // tracers that take options after the callback: wrappers that end their spans
}

func (j javaScript) tracer(n *syntax.Node) bool {
	return j.provider(n, []string{"getTracer"}, "tracer", "Tracer")
}

func (j javaScript) meter(n *syntax.Node) bool {
	return j.provider(n, []string{"getMeter"}, "meter", "Meter")
}

// start records a call that starts a span or creates an instrument.
func (j javaScript) start(n *syntax.Node) {
	recv, name := n.Method()
	switch {
	case recv != nil && (name == "startSpan" || name == "startActiveSpan") && n.Arg(0) != nil && j.tracer(recv):
		j.startSpan(n, recv, name)
	case javaScriptStarter.MatchString(name) && n.Arg(0) != nil && !j.ownTracer(recv):
		j.wrapper(n)
	case instrumentKind(name) != "" && j.meter(recv):
		i := j.addInstrument(n, instrumentKind(name), n.Arg(0), recv)
		if options := j.value(n.Arg(1)); options != nil {
			i.Unit, i.Boundaries = options.Get("unit"), options.Get("advice").Get("explicitBucketBoundaries")
			i.Opaque = options.Kind != syntax.Object || slices.ContainsFunc(options.Children, func(c *syntax.Node) bool { return c.Kind != syntax.Pair })
		}
	}
}

// javaScriptStarter matches functions of a project that start a span.
var javaScriptStarter = regexp.MustCompile(`^(start|create|begin|with|record|trace|runIn|runWith|in)([A-Z][A-Za-z]*)?Span$`)

// wrapper adds the span of a function of the project that starts a span. A function with a callback ends the span and
// records its errors. Otherwise, the file must end the span by its variable.
func (j javaScript) wrapper(n *syntax.Node) {
	if j.foreign(n) || n.Arg(0).Kind != syntax.String && n.Arg(0).Kind != syntax.Template && n.Arg(0).Kind != syntax.Operator {
		return
	}
	s := &Span{Start: n, Name: n.Arg(0)}
	if i := slices.IndexFunc(n.Args(), func(a *syntax.Node) bool { return a.Kind == syntax.Func }); i >= 0 {
		s.Body, s.EndsItself, s.RecordsErrors = n.Args()[i], true, true
		if p := s.Body.Params(); len(p) > 0 {
			s.Variable = p[0].Text
			j.spans[p[0]] = s
		}
	} else if v := assigned(n); !j.ended[v] || !strings.HasSuffix(strings.ToLower(v), "span") {
		return
	}
	j.add(s)
	s.Escapes = s.Escapes && !s.EndsItself // the call returns the result of the callback, not the span
}

func (j javaScript) startSpan(n, recv *syntax.Node, name string) {
	s := &Span{Start: n, Tracer: recv, Name: n.Arg(0), Scope: j.scope(recv)}
	if v := assigned(n); v != "" && j.finished[v] && !j.ended[v] {
		return
	}
	var options *syntax.Node
	switch s.Name.Kind {
	case syntax.Object: // a wrapper of the tracer: startSpan({name: "n"})
		options = s.Name
	case syntax.Func: // startActiveSpan(callback, {name: "n"})
		options = j.value(n.Arg(1))
	}
	if options != nil {
		if s.Name = options.Get("name"); s.Name == nil {
			return
		}
	} else if s.Name.Kind == syntax.Func {
		return
	}
	if name == "startSpan" && options != nil {
		s.Context = options.Get("context")
	} else if name == "startSpan" {
		options, s.Context = j.value(n.Arg(1)), n.Arg(2)
	} else {
		args := n.Args()
		if i := slices.IndexFunc(args, func(a *syntax.Node) bool { return a.Kind == syntax.Func }); i >= 0 {
			s.Body = args[i]
			s.EndsItself = j.wrappers[j.File.Code(recv)]
			s.RecordsErrors = s.EndsItself
			if p := s.Body.Params(); len(p) > 0 {
				s.Variable = p[0].Text
				j.spans[p[0]] = s
			}
		} else {
			s.Escapes = true // the callback is defined elsewhere
		}
		if len(args) > 2 && options == nil {
			options = j.value(args[1])
		}
		if len(args) > 3 {
			s.Context = args[2]
		}
	}
	if options.Get("childOf") != nil || options.Get("tags") != nil || options.Get("references") != nil {
		return // options of OpenTracing
	}
	if kind := options.Get("kind"); kind != nil && !strings.EqualFold(kind.Text, "internal") {
		s.Kind = strings.ToLower(kind.Text)
	}
	j.pairs(options.Get("attributes"), Attribute{On: OnSpan, Span: s})
	escapes := s.Escapes
	j.add(s)
	if s.Body != nil && s.Body.Kind == syntax.Func {
		s.Escapes = escapes // the call returns the result of the callback, not the span
	}
}

// javaScriptModules holds the functions and classes that create a server, a consumer or a client.
var javaScriptModules = boundaryTable([][3]string{
	{"http server", "express", "express"},
	{"http server", "fastify", "fastify fastify.fastify"},
	{"http server", "koa", "koa"},
	{"http server", "@hapi/hapi", "@hapi/hapi.server"},
	{"http server", "http", "http.createServer node:http.createServer https.createServer"},
	{"http server", "@nestjs/core", "@nestjs/core.NestFactory.create"},
	{"http server", "hono", "hono.Hono"},
	{"http server", "restify", "restify.createServer"},
	{"grpc server", "@grpc/grpc-js", "@grpc/grpc-js.Server"},
	{"queue consumer", "@nestjs/microservices", "@nestjs/core.NestFactory.createMicroservice"},
	{"queue consumer", "bullmq", "bullmq.Worker"},
	{"queue consumer", "kafkajs", "kafkajs.Kafka"},
	{"queue consumer", "amqplib", "amqplib.connect"},
	{"database client", "@prisma/client", "@prisma/client.PrismaClient"},
	{"database client", "typeorm", "typeorm.DataSource typeorm.createConnection"},
	{"database client", "sequelize", "sequelize.Sequelize sequelize"},
	{"database client", "knex", "knex knex.knex"},
	{"database client", "mysql", "mysql.createPool mysql.createConnection"},
	{"database client", "mysql2", "mysql2/promise.createConnection mysql2/promise.createPool mysql2.createConnection mysql2.createPool"},
	{"database client", "ioredis", "ioredis.Redis ioredis"},
	{"database client", "pg", "pg.Pool pg.Client"},
	{"database client", "mongodb", "mongodb.MongoClient"},
	{"database client", "mongoose", "mongoose.connect"},
	{"database client", "redis", "redis.createClient"},
})

// construct records the resource, the provider without a resource, or the boundary that a constructor creates.
func (j javaScript) construct(n *syntax.Node) {
	_, name := n.Method()
	j.boundary(n, javaScriptModules)
	switch name {
	case "Resource":
		if j.File.ImportsAny("@opentelemetry/resources") {
			j.merged(n)
		}
	case "NodeSDK":
		j.provided(n, "serviceName")
	case "NodeTracerProvider", "BasicTracerProvider", "WebTracerProvider", "MeterProvider", "LoggerProvider":
		if module, _ := j.origin(n.Callee()); j.File.ImportsAny("@opentelemetry") && (module == "" || strings.HasPrefix(module, "@opentelemetry/")) {
			j.provided(n, "")
		}
	case "Logger", "Kafka":
	}
}

// provided records a provider that is created without a resource.
func (j javaScript) provided(n *syntax.Node, serviceName string) {
	r := Resource{Node: n, Attributes: map[string]*syntax.Node{}, FromEnvironment: strings.HasPrefix(n.Callee().Text, "NodeSDK")}
	options := j.value(n.Arg(0))
	if detectors := options.Get("resourceDetectors"); detectors != nil && detectors.Kind == syntax.List {
		r.Detectors = detectors.Children
	}
	switch {
	case options == nil:
	case options.Kind != syntax.Object:
		r.Opaque = true
	case options.Get("resource") != nil && !j.withoutAttributes(options.Get("resource"), "defaultResource", "emptyResource", "default", "empty"):
		if r.Detectors == nil {
			return // the call that creates the resource is recorded
		}
		r = Resource{Detectors: r.Detectors}
	default:
		if v := options.Get(serviceName); v != nil && serviceName != "" {
			r.Attributes["service.name"] = v
		}
		for _, c := range options.Children {
			r.Opaque = r.Opaque || c.Kind != syntax.Pair
		}
	}
	j.Resources = append(j.Resources, r)
}

// merged adds the resource that a call creates, which may be merged into another one.
func (j javaScript) merged(n *syntax.Node) {
	environment := false
	for p := n.Parent; p != nil && (p.Kind == syntax.Call || p.Kind == syntax.Member); p = p.Parent {
		if recv, m := p.Called(); m == "merge" && recv != nil && !recv.Within(n) && !n.Within(recv) {
			environment = named(recv, "default") || recv.Kind == syntax.Call
		}
	}
	j.addResource(n, n.Arg(0), environment)
}

func (j javaScript) call(n *syntax.Node) {
	recv, name := n.Method()
	if name == "resourceFromAttributes" {
		j.merged(n)
		return
	}
	j.boundary(n, javaScriptModules)
	if recv == nil {
		switch module, _ := j.origin(n.Callee()); module {
		case "pino":
			j.levelOption(n.Arg(0))
		case "fastify":
			j.levelOption(j.value(n.Arg(0)).Get("logger"))
		}
		return
	}
	if j.spanCall(n, recv, name, j.pairs) {
		return
	}
	switch name {
	case "setLevel":
		if j.module(recv) == "loglevel" {
			j.level(n.Arg(0))
		}
	case "add", "record", "observe":
		i := j.instrumentOf(recv)
		callback, observes := j.observes(recv, "addCallback", "addBatchObservableCallback")
		switch {
		case name == "observe" && observes:
			if recv, m := callback.Method(); m == "addCallback" {
				i = j.instrumentOf(recv)
			} else if len(n.Args()) > 1 { // observe(instrument, value, attributes)
				j.pairs(n.Arg(2), Attribute{On: OnMetric, Instrument: j.instrumentOf(n.Arg(0))})
				return
			}
		case i == nil && !named(recv, "counter") && !named(recv, "histogram") && (name != "observe" || !named(recv, "result")) && !j.isInstrument(recv),
			i == nil && !j.File.ImportsAny("@opentelemetry"):
			return
		}
		j.pairs(n.Arg(1), Attribute{On: OnMetric, Instrument: i})
	case "emit":
		if record := n.Arg(0); named(recv, "logger") && record != nil && record.Kind == syntax.Object {
			l := Log{Call: n, Message: record.Get("body")}
			if s := record.Get("severityText"); s != nil {
				l.Level, _ = logLevel(s.Text)
			}
			j.pairs(record.Get("attributes"), Attribute{On: OnLog})
			j.Logs = append(j.Logs, l)
		}
	case "configure":
		if config := j.value(n.Arg(0)); named(recv, "log4js") && config != nil && config.Kind == syntax.Object {
			if categories := config.Get("categories"); categories != nil && categories.Kind == syntax.Object {
				j.levelOption(categories.Get("default"))
			}
		}
	case "create", "createMicroservice", "createApplicationContext", "useLogger", "overrideLogger": // of NestJS
		if j.File.ImportsAny("@nestjs") {
			levels := n.Arg(len(n.Args()) - 1)
			if options := j.value(levels); options != nil && options.Kind == syntax.Object {
				levels = options.Get("logger")
			}
			j.levels(levels)
		}
	case "createLogger":
		if named(recv, "winston") || named(recv, "bunyan") {
			j.levelOption(n.Arg(0))
		}
	default:
		if j.addLog(n, recv, name) {
			l := &j.Logs[len(j.Logs)-1]
			if l.Message != nil && l.Message.Kind == syntax.Object && len(l.Args) > 0 { // pino: fields first
				l.Message, l.Args = l.Args[0], append(slices.Clone(l.Args[1:]), l.Message)
			}
			if l.Level == "" && recv.Text == "console" {
				l.Level = "info"
			}
		}
	}
}

func (j javaScript) levelOption(options *syntax.Node) { j.level(j.value(options).Get("level")) }

// levels adds the lowest level in a list of enabled levels.
func (j javaScript) levels(list *syntax.Node) {
	if list = j.value(list); list == nil || list.Kind != syntax.List {
		return
	}
	for _, level := range list.Children {
		if level.Kind == syntax.String && (level.Text == "debug" || level.Text == "verbose") {
			j.level(level)
			return
		}
	}
}
