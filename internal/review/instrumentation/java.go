// SPDX-License-Identifier: Apache-2.0

package instrumentation

import (
	"cmp"
	"slices"
	"strings"

	"assay/internal/review/syntax"
)

var javaAPI = &api{
	modules:   []string{"io.opentelemetry"},
	foreign:   []string{"io.opentracing", "datadog.trace", "brave", "zipkin2", "co.elastic.apm", "com.newrelic", "io.micrometer.tracing", "org.springframework.cloud.sleuth", "io.opencensus", "io.sentry"},
	end:       "end",
	errors:    []string{"recordException"},
	status:    "setStatus",
	statusOK:  func(n *syntax.Node) bool { return n.Text == "OK" || n.Text == "UNSET" },
	loggers:   []string{"org.slf4j", "java.util.logging", "org.apache.logging.log4j", "org.apache.log4j", "org.jboss.logging", "com.google.common.flogger", "org.apache.commons.logging"},
	keepsSpan: []string{"with", "setParent", "storeInContext", "wrap"},
	services:  []string{"org.springframework", "jakarta", "javax.servlet", "javax.ws.rs", "io.quarkus", "io.micronaut", "io.grpc", "io.opentelemetry", "org.slf4j", "lombok", "java.util.logging", "org.apache.logging"},
	commands:  []string{"picocli", "com.beust.jcommander", "org.apache.commons.cli"},
}

func findJava(u *Uses) {
	j := java{newFinder(u, javaAPI)}
	for _, i := range u.File.Imports {
		if rest, ok := strings.CutPrefix(i.Path, "io.opentelemetry.instrumentation."); ok {
			rest, _, _ = strings.Cut(rest, ".")
			if !slices.Contains([]string{"annotations", "api"}, rest) {
				j.Instrumented = append(j.Instrumented, rest)
			}
		}
	}
	for n := range u.File.Root.All() {
		switch n.Kind {
		case syntax.Call:
			j.build(n)
		case syntax.Decorator:
			j.annotation(n)
		}
	}
	j.lives()
	for n := range u.File.Root.All() {
		switch n.Kind {
		case syntax.Call:
			j.call(n)
		case syntax.New:
			j.boundary(n, javaClasses)
		}
	}
	j.wrapped(j.attributes)
	j.unset()
}

// unset adds the attributes that the file creates without setting them on a target, such as in a field of type
// Attributes.
func (j java) unset() {
	if !j.File.ImportsAny("io.opentelemetry.api.common") {
		return
	}
	known := map[*syntax.Node]bool{}
	for _, a := range j.Attributes {
		known[a.Node] = true
	}
	for n := range j.File.Root.All(syntax.Call) {
		switch recv, m := n.Method(); {
		case m == "of" && recv != nil && recv.Text == "Attributes" && n.Arg(0) != nil && !known[n.Arg(0)]:
			j.attributes(n, Attribute{})
		case m == "put" && len(n.Args()) == 2 && !known[n]:
			if _, root := chain(n); root != nil && root.Kind == syntax.Name && root.Text == "Attributes" {
				j.set(Attribute{Node: n, Key: n.Arg(0), Value: n.Arg(1)})
			}
		}
	}
}

type java struct{ *finder }

// chain returns the calls of a method chain from first to last, and the expression at the start of the chain.
func chain(last *syntax.Node) (calls []*syntax.Node, root *syntax.Node) {
	root = last
	for root != nil && root.Kind == syntax.Call {
		calls = append(calls, root)
		root, _ = root.Method()
	}
	slices.Reverse(calls)
	return calls, root
}

// builder returns the calls of the chain that ends with n, and the calls on the variable that holds the builder.
func (j java) builder(n *syntax.Node) []*syntax.Node {
	calls, root := chain(n)
	if root == nil || root.Kind != syntax.Name || len(calls) > 0 && j.File.Definition(root) == nil {
		return calls
	}
	def := j.File.Definition(root)
	if def == nil || def.Value() == nil || def.Value().Kind != syntax.Call {
		return calls
	}
	if _, m := def.Value().Method(); m == "build" || !strings.HasPrefix(m, "set") && !strings.HasPrefix(m, "add") && !strings.Contains(strings.ToLower(m), "builder") {
		return calls // not a builder
	}
	first, _ := chain(def.Value())
	var between []*syntax.Node
	if fn := n.Enclosing(syntax.Func); fn != nil {
		for c := range fn.All(syntax.Call) {
			if c.Start < n.Start && c.Start > def.Start && c.Callee().Kind == syntax.Member && c.Callee().Children[0].Text == root.Text && c.Callee().Children[0].Kind == syntax.Name {
				between = append(between, c)
			}
		}
	}
	return slices.Concat(first, between, calls)
}

// build records a span or an instrument if n is the last call of its builder.
func (j java) build(n *syntax.Node) {
	_, name := n.Method()
	switch name {
	case "startSpan":
		calls := j.builder(n)
		i := slices.IndexFunc(calls, func(c *syntax.Node) bool { _, m := c.Method(); return m == "spanBuilder" })
		if i < 0 {
			return
		}
		recv, _ := calls[i].Method()
		if j.foreign(recv) || j.own(recv) || calls[i].Arg(0) == nil {
			return
		}
		s := &Span{Start: n, Tracer: recv, Name: calls[i].Arg(0), Scope: j.scope(recv)}
		for _, c := range calls[i+1:] {
			switch _, m := c.Method(); m {
			case "setSpanKind":
				if k := c.Arg(0); k != nil && k.Text != "INTERNAL" {
					s.Kind = strings.ToLower(k.Text)
				}
			case "setParent":
				s.Context = c.Arg(0)
			case "setAttribute":
				if len(c.Args()) == 2 && len(j.Attributes) <= maxAttributes {
					j.set(Attribute{On: OnSpan, Node: c, Key: c.Arg(0), Value: c.Arg(1), Span: s})
				}
			case "setAllAttributes":
				j.attributes(c.Arg(0), Attribute{On: OnSpan, Span: s})
			}
		}
		j.add(s)
	case "build", "buildWithCallback", "buildObserver":
		calls := j.builder(n)
		for i, c := range calls {
			recv, m := c.Method()
			kind := instrumentKind(m)
			if kind == "" || recv == nil || !j.provider(recv, []string{"getMeter", "meterBuilder", "build"}, "meter", "Meter") {
				continue
			}
			in := j.addInstrument(n, kind, c.Arg(0), recv)
			for _, o := range calls[i+1:] {
				switch _, m := o.Method(); m {
				case "setUnit":
					in.Unit = o.Arg(0)
				case "setExplicitBucketBoundariesAdvice":
					in.Boundaries = o.Arg(0)
				}
			}
			return
		}
	}
}

// javaListeners maps the annotations of methods that receive messages to libraries.
var javaListeners = map[string]string{
	"org.springframework.kafka.annotation.KafkaListener": "kafka", "org.springframework.amqp.rabbit.annotation.RabbitListener": "rabbitmq",
	"org.springframework.jms.annotation.JmsListener": "jms", "io.awspring.cloud.sqs.annotation.SqsListener": "sqs",
}

// annotation records the spans of @WithSpan, the attributes of @SpanAttribute, and the boundaries of javaListeners.
func (j java) annotation(n *syntax.Node) {
	a := n.Children[0]
	name := a
	if a.Kind == syntax.Call {
		name = a.Callee()
	}
	owner := n.Parent
	for _, q := range j.qualified(name) {
		if library := javaListeners[q]; library != "" {
			j.Boundaries = append(j.Boundaries, Boundary{Node: n, Kind: "queue consumer", Library: library})
			return
		}
	}
	if owner == nil || !j.File.ImportsAny("io.opentelemetry.instrumentation.annotations", "io.opentelemetry.extension.annotations") {
		return
	}
	switch {
	case name.Text == "WithSpan" && owner.Kind == syntax.Func:
		s := &Span{Start: a, Body: owner, EndsItself: true, RecordsErrors: true}
		if a.Kind == syntax.Call {
			if s.Name = a.Arg(0); s.Name == nil {
				s.Name = a.Named("value")
			}
			if kind := a.Named("kind"); kind != nil && kind.Text != "INTERNAL" {
				s.Kind = strings.ToLower(kind.Text)
			}
		}
		j.Spans = append(j.Spans, s)
	case name.Text == "SpanAttribute" && a.Kind == syntax.Call:
		if key := cmp.Or(a.Arg(0), a.Named("value")); key != nil {
			j.set(Attribute{On: OnSpan, Node: n, Key: key, Value: owner})
		}
	}
}

// attributes adds the attributes of an expression of type Attributes: Attributes.of(k, v, ...), a builder, or a
// variable.
func (j java) attributes(n *syntax.Node, a Attribute) {
	if n = j.value(n); n != nil && n.Kind == syntax.Name {
		a.Value = n
		j.passed = append(j.passed, a)
		return
	}
	if n == nil || n.Kind != syntax.Call || len(j.Attributes) > maxAttributes {
		return
	}
	for _, c := range j.builder(n) {
		recv, m := c.Method()
		args := c.Args()
		switch {
		case m == "of" && recv != nil && recv.Text == "Attributes":
			for i := 0; i+1 < len(args); i += 2 {
				a.Node, a.Key, a.Value = args[i], args[i], args[i+1]
				j.set(a)
			}
		case m == "put" && len(args) >= 2:
			a.Node, a.Key, a.Value = c, args[0], args[1]
			j.set(a)
		}
	}
}

// javaClasses holds the classes and methods that create a server, a consumer or a client.
var javaClasses = boundaryTable([][3]string{
	{"http server", "spring", "org.springframework.boot.SpringApplication.run org.springframework.boot.SpringApplication"},
	{"http server", "spring", "org.springframework.boot.builder.SpringApplicationBuilder"},
	{"http server", "vertx", "io.vertx.core.Vertx.createHttpServer"},
	{"http server", "javalin", "io.javalin.Javalin.create"},
	{"http server", "java-http-server", "com.sun.net.httpserver.HttpServer.create"},
	{"http server", "jetty", "org.eclipse.jetty.server.Server"},
	{"http server", "undertow", "io.undertow.Undertow.builder"},
	{"grpc server", "grpc", "io.grpc.ServerBuilder.forPort io.grpc.Grpc.newServerBuilderForPort io.grpc.netty.NettyServerBuilder.forPort"},
	{"grpc server", "grpc", "io.grpc.netty.NettyServerBuilder.forAddress"},
	{"queue consumer", "kafka", "org.apache.kafka.clients.consumer.KafkaConsumer org.apache.kafka.streams.KafkaStreams"},
	{"database client", "jdbc", "com.zaxxer.hikari.HikariDataSource java.sql.DriverManager.getConnection"},
	{"database client", "jedis", "redis.clients.jedis.Jedis redis.clients.jedis.JedisPool redis.clients.jedis.JedisPooled"},
	{"database client", "lettuce", "io.lettuce.core.RedisClient.create"},
	{"database client", "mongo", "com.mongodb.client.MongoClients.create"},
	{"database client", "cassandra", "com.datastax.oss.driver.api.core.CqlSession.builder"},
})

func (j java) call(n *syntax.Node) {
	j.boundary(n, javaClasses)
	recv, name := n.Method()
	if (name == "setAttribute" || name == "setAllAttributes") && j.isBuilder(recv) || j.spanCall(n, recv, name, j.attributes) {
		return
	}
	switch name {
	case "stringKey", "longKey", "doubleKey", "booleanKey", "stringArrayKey":
		if n.Arg(0) != nil && j.File.ImportsAny("io.opentelemetry.api.common") && n.Parent != nil && n.Parent.Kind == syntax.Assign {
			j.Keys = append(j.Keys, n.Arg(0))
		}
	case "add", "record", "set":
		i := j.instrumentOf(recv)
		callback, observes := j.observes(recv, "buildWithCallback")
		if at := slices.IndexFunc(j.Instruments, func(i *Instrument) bool { return i.Call == callback }); observes && at >= 0 {
			i = j.Instruments[at]
		}
		if len(n.Args()) >= 2 && (i != nil || j.File.ImportsAny("io.opentelemetry") && (named(recv, "counter") || named(recv, "histogram") || named(recv, "gauge") || named(recv, "measurement") || observes || j.isInstrument(recv))) {
			j.attributes(n.Arg(1), Attribute{On: OnMetric, Instrument: i})
		}
	case "basicConsume":
		if recv != nil && j.File.ImportsAny("com.rabbitmq.client") {
			j.Boundaries = append(j.Boundaries, Boundary{Node: n, Kind: "queue consumer", Library: "rabbitmq"})
		}
	case "createHttpServer":
		if recv != nil && j.File.ImportsAny("io.vertx") {
			j.Boundaries = append(j.Boundaries, Boundary{Node: n, Kind: "http server", Library: "vertx"})
		}
	case "create", "build":
		if recv != nil && j.File.ImportsAny("io.opentelemetry.sdk") {
			j.setup(n, recv, name)
		}
	case "setLevel", "setRootLevel":
		if l := n.Arg(len(n.Args()) - 1); (name == "setRootLevel" || len(n.Args()) == 1) && (named(recv, "log") || named(recv, "configurator") || named(recv, "root")) {
			j.level(l)
		}
	case "get":
		if recv != nil && strings.HasSuffix(recv.Text, "Resource") && j.File.ImportsAny("io.opentelemetry.instrumentation.resources", "io.opentelemetry.sdk.extension.resources") {
			j.Resources = append(j.Resources, Resource{Detectors: []*syntax.Node{n}})
		}
	case "put", "putCloseable":
		if recv != nil && (recv.Text == "MDC" || recv.Text == "ThreadContext") {
			j.Logs = append(j.Logs, Log{Call: n, Args: n.Args()})
		}
	case "println", "printf", "print":
		if recv != nil && recv.Kind == syntax.Member && (recv.Text == "out" || recv.Text == "err") && recv.Children[0].Text == "System" {
			j.addPrint(n)
		}
	default:
		if j.addLog(n, recv, name) {
			l := &j.Logs[len(j.Logs)-1]
			if name == "log" && l.Message != nil && l.Message.Kind == syntax.Member && len(l.Args) > 0 { // logger.log(Level.INFO, message)
				l.Level, _ = logLevel(l.Message.Text)
				l.Message, l.Args = l.Args[0], l.Args[1:]
			}
		}
	}
}

// isBuilder reports whether an expression is a span builder. build records the attributes of builders.
func (j java) isBuilder(n *syntax.Node) bool {
	if named(n, "builder") {
		return true
	}
	calls, root := chain(n)
	if root != nil && root.Kind == syntax.Name && named(root, "builder") {
		return true
	}
	return slices.ContainsFunc(calls, func(c *syntax.Node) bool { _, m := c.Method(); return m == "spanBuilder" }) &&
		!slices.ContainsFunc(calls, func(c *syntax.Node) bool { _, m := c.Method(); return m == "startSpan" })
}

// setup records resources, and providers without a resource.
func (j java) setup(n, recv *syntax.Node, name string) {
	calls := j.builder(n)
	_, root := chain(n)
	r := Resource{Node: n, Attributes: map[string]*syntax.Node{}}
	collect := func(a *syntax.Node) {
		from := len(j.Attributes)
		j.attributes(a, Attribute{On: OnResource})
		r.Opaque = len(j.Attributes) == from
		for _, a := range j.Attributes[from:] {
			if a.Name != "" {
				r.Attributes[a.Name] = a.Value
			} else {
				r.Opaque = true
			}
		}
	}
	switch {
	case name == "create" && recv.Text == "Resource":
		collect(n.Arg(0))
		for p := n.Parent; p != nil && p.Kind == syntax.Call; p = p.Parent {
			if _, m := p.Method(); m == "merge" {
				r.FromEnvironment = true // Resource.getDefault() reads the environment
			}
		}
	case root != nil && root.Text == "Resource":
		collect(n)
	case root != nil && slices.Contains([]string{"SdkTracerProvider", "SdkMeterProvider", "SdkLoggerProvider"}, root.Text):
		if slices.ContainsFunc(calls, func(c *syntax.Node) bool {
			_, m := c.Method()
			return (m == "setResource" || m == "addResource") && !j.withoutAttributes(c.Arg(0), "getDefault", "empty")
		}) {
			return
		}
	case root != nil && root.Text == "AutoConfiguredOpenTelemetrySdk":
		r.FromEnvironment = true
	default:
		return
	}
	j.Resources = append(j.Resources, r)
}
