// SPDX-License-Identifier: Apache-2.0

package instrumentation

import (
	"regexp"
	"slices"
	"strings"

	"assay/internal/review/syntax"
)

// Import paths of OpenTelemetry packages.
const (
	goOTel      = "go.opentelemetry.io/otel"
	goAttribute = "go.opentelemetry.io/otel/attribute"
	goSemconv   = "go.opentelemetry.io/otel/semconv"
	goMetric    = "go.opentelemetry.io/otel/metric"
	goResource  = "go.opentelemetry.io/otel/sdk/resource"
	goTrace     = "go.opentelemetry.io/otel/trace"
	goContrib   = "go.opentelemetry.io/contrib/"
	goLog       = "go.opentelemetry.io/otel/log"
)

var goAPI = &api{
	modules: []string{goOTel, "go.opentelemetry.io/contrib"},
	foreign: []string{
		"github.com/opentracing", "go.opencensus.io", "gopkg.in/DataDog", "github.com/DataDog", "github.com/openzipkin",
		"go.elastic.co", "github.com/newrelic", "runtime/trace", "golang.org/x/net/trace", "github.com/getsentry",
	},
	end:      "End",
	errors:   []string{"RecordError"},
	status:   "SetStatus",
	statusOK: func(n *syntax.Node) bool { return n.Text == "Ok" || n.Text == "Unset" },
	loggers: []string{
		"log", "log/slog", "github.com/sirupsen/logrus", "go.uber.org/zap", "github.com/rs/zerolog", "k8s.io/klog",
		"github.com/go-logr/logr", "github.com/golang/glog", "github.com/charmbracelet/log", "github.com/apex/log",
	},
	keepsSpan: []string{"ContextWithSpan"},
	services: []string{
		"net/http", "github.com/gin-gonic/gin", "github.com/labstack/echo", "github.com/gofiber/fiber", "github.com/go-chi/chi", "google.golang.org/grpc",
		"log/slog", "go.uber.org/zap", "github.com/rs/zerolog", "github.com/sirupsen/logrus", goOTel,
	},
	commands: []string{"flag", "github.com/spf13", "github.com/urfave/cli", "github.com/alecthomas/kong", "github.com/AlecAivazis/survey", "golang.org/x/term"},
}

func findGo(u *Uses) {
	g := golang{newFinder(u, goAPI), map[string]bool{}}
	g.imports()
	for n := range u.File.Root.All(syntax.Call) {
		switch recv, name := n.Method(); {
		case name == "End" && len(n.Args()) == 0 && recv != nil && recv.Kind == syntax.Name:
			g.ended[recv.Text] = true
		case n.Arg(0) != nil && n.Arg(0).Kind == syntax.Name && spanFinisher.MatchString(name):
			g.ended[n.Arg(0).Text] = true
		}
	}
	for n := range u.File.Root.All() {
		switch n.Kind {
		case syntax.Call:
			g.call(n)
		case syntax.Object:
			g.literal(n)
		case syntax.Assign: // logger.Level = logrus.DebugLevel
			if t := n.Targets()[0]; t.Kind == syntax.Member && t.Text == "Level" && n.Value() != nil && g.loggerLevel(n.Value()) {
				g.level(n.Value())
			}
		}
	}
	g.lives()
	for n := range u.File.Root.All(syntax.Call, syntax.Object) {
		g.attribute(n)
	}
	g.wrapped(g.pairs)
}

type golang struct {
	*finder
	ended map[string]bool // variables with a call that ends them
}

func (g golang) imports() {
	for _, i := range g.File.Imports {
		rest, ok := strings.CutPrefix(i.Path, goContrib+"instrumentation/")
		if !ok {
			continue
		}
		if at := strings.LastIndex(rest, "/otel"); at > 0 {
			g.Instrumented = append(g.Instrumented, rest[:at])
		}
	}
}

func under(path, prefix string) bool {
	rest, ok := strings.CutPrefix(path, prefix)
	return ok && (rest == "" || rest[0] == '/')
}

func (g golang) call(n *syntax.Node) {
	recv, name := n.Method()
	if name == "" {
		return
	}
	module := g.module(recv)
	switch {
	case name == "Start" && len(n.Args()) >= 2 && module == "" && g.tracer(recv):
		g.start(n, recv)
	case spanCallback.MatchString(name) && len(n.Args()) >= 3 && g.ofProject(n, recv, module):
		g.callback(n)
	case g.starter(n, recv, module, name) != "":
		g.add(&Span{Start: n, Name: n.Arg(1), Context: n.Arg(0), Variable: g.starter(n, recv, module, name)})
	case module == goResource:
		g.resource(n, name)
	case module != "":
		g.packageCall(n, module, name)
	case name == "SetName" && len(n.Args()) == 1:
		g.rename(recv, n.Arg(0))
	case strings.HasPrefix(name, "Consume") || strings.HasSuffix(name, "Subscribe") || strings.HasPrefix(name, "ReceiveMessage"):
		g.consumer(n, recv, name)
	case (name == "SetLevel" || name == "Level" || name == "Set") && len(n.Args()) == 1 && g.loggerLevel(n.Arg(0)):
		g.level(n.Arg(0)) // of a logger
	case instrumentKind(name) != "" && n.Arg(0) != nil && g.meter(recv):
		g.instrument(n, recv, instrumentKind(name))
	}
	g.log(n, recv, name)
}

// tracer reports whether an expression is a tracer of OpenTelemetry.
func (g golang) tracer(n *syntax.Node) bool {
	return g.provided(n, "Tracer", "tracer", goTrace)
}

// meter reports whether an expression is a meter of OpenTelemetry.
func (g golang) meter(n *syntax.Node) bool {
	return g.provided(n, "Meter", "meter", goMetric)
}

// provided reports whether an expression is the result of a provider's method: a call of the method, a variable that
// holds the result or has its type, or a variable from another file with a typical name.
func (g golang) provided(n *syntax.Node, method, name, module string) bool {
	if n == nil {
		return false
	}
	if n.Kind == syntax.Call {
		recv, m := n.Method()
		path := g.module(recv)
		return m == method && under(path, goOTel) || path == "" && strings.EqualFold(m, name)
	}
	if n.Kind != syntax.Name && n.Kind != syntax.Member {
		return false
	}
	if def := g.File.Definition(n); def != nil {
		if def.Type != "" {
			pkg, typ, ok := strings.Cut(strings.TrimPrefix(def.Type, "*"), ".")
			i, imported := g.File.Imported(pkg)
			return ok && typ == method && imported && under(i.Path, module)
		}
		if v := def.Value(); v != nil && v != n && v.Kind == syntax.Call && v.Start < n.Start {
			return g.provided(v, method, name, module)
		}
	}
	if g.foreign(n) {
		return false
	}
	return strings.Contains(strings.ToLower(n.Text), name)
}

// spanFinisher matches functions of a project that end a span.
var spanFinisher = regexp.MustCompile(`^([fF]inish|[eE]nd)([A-Z][A-Za-z]*)?$`)

// starterName matches functions of a project that start a span.
var starterName = regexp.MustCompile(`^([sS]tart|([sS]tart|[nN]ew|[bB]egin|[cC]reate)[A-Za-z]*(Span|Trace)[A-Za-z]*|[tT]race[A-Z][A-Za-z]*)$`)

// spanCallback matches functions of a project that run a callback in a span.
var spanCallback = regexp.MustCompile(`^([wW]ith|[rR]un(In|With)|[iI]n|[tT]race)(New)?Span$`)

// callback adds the span of a function of the project that runs a callback in a span: WithSpan(ctx, "name", func...).
func (g golang) callback(n *syntax.Node) {
	for _, a := range n.Args()[2:] {
		if a.Kind == syntax.Func {
			s := &Span{Start: n, Name: n.Arg(1), Context: n.Arg(0), Body: a, EndsItself: true, RecordsErrors: true}
			g.add(s)
			s.Escapes = false // the call returns the result of the callback, not the span
			return
		}
	}
}

// ofProject reports whether a call is a call of a function of the project. If the packages of the repository are not
// known, it assumes so in files that use OpenTelemetry. The package of a method is the package of its receiver's type.
func (g golang) ofProject(n, recv *syntax.Node, module string) bool {
	if under(module, goOTel) || g.foreign(n) {
		return false
	}
	if module == "" && recv != nil {
		if def := g.File.Definition(recv); def != nil && def.Type != "" {
			module, _ = g.typeOf(def.Type)
		} else if v := g.value(recv); v != recv && v.Kind == syntax.Call {
			module, _ = g.origin(v.Callee())
		}
	}
	if module == "" {
		return true
	}
	if g.packages != nil {
		if own, known := g.packages.Own(module); known {
			return own
		}
	}
	return g.File.ImportsAny(goOTel)
}

// starter returns the variable of the span if a call starts a span by a function of the project, and "" otherwise: ctx,
// span := tracing.StartSpan(ctx, "name"), in either order. It decides by the names of the function and its results, and
// by the code in the file that ends the span.
func (g golang) starter(n, recv *syntax.Node, module, name string) string {
	p := n.Parent
	if len(n.Args()) == 0 || !starterName.MatchString(name) || p == nil || p.Kind != syntax.Assign || len(p.Targets()) != 2 || p.Value() != n ||
		!g.ofProject(n, recv, module) {
		return ""
	}
	span, ctx := "", false
	for _, t := range p.Targets() {
		switch lower := strings.ToLower(t.Text); {
		case t.Kind != syntax.Name:
		case g.ended[t.Text] && (lower == "sp" || strings.HasSuffix(lower, "span")):
			span = t.Text
		case t.Text == "_", strings.HasSuffix(lower, "ctx"), strings.HasSuffix(lower, "context"):
			ctx = true
		}
	}
	if !ctx {
		return ""
	}
	return span
}

func (g golang) start(n, recv *syntax.Node) {
	s := &Span{Start: n, Tracer: recv, Name: n.Arg(1), Context: n.Arg(0), Scope: g.scope(recv)}
	for _, o := range n.Args()[2:] {
		if _, m := o.Called(); m == "WithSpanKind" && o.Arg(0) != nil {
			s.Kind = strings.ToLower(strings.TrimPrefix(o.Arg(0).Text, "SpanKind"))
			if s.Kind == "internal" {
				s.Kind = ""
			}
		}
	}
	g.add(s)
}

func (g golang) instrument(n, recv *syntax.Node, kind string) {
	i := g.addInstrument(n, kind, n.Arg(0), recv)
	for _, o := range n.Args()[1:] {
		if o.Kind != syntax.Call {
			i.Opaque = true
			continue
		}
		switch _, m := o.Method(); m {
		case "WithUnit":
			i.Unit = o.Arg(0)
		case "WithExplicitBucketBoundaries":
			i.Boundaries = o
		case "WithDescription":
		default:
			i.Opaque = i.Opaque || !strings.HasPrefix(m, "With")
		}
	}
}

// goServers holds the functions that create a server, a consumer or a client.
var goServers = boundaryTable([][3]string{
	{"http server", "net/http", "net/http.ListenAndServe net/http.ListenAndServeTLS net/http.Serve"},
	{"http server", "github.com/gin-gonic/gin", "github.com/gin-gonic/gin.Default github.com/gin-gonic/gin.New"},
	{"http server", "github.com/labstack/echo", "github.com/labstack/echo/v4.New"},
	{"http server", "github.com/gofiber/fiber", "github.com/gofiber/fiber/v2.New github.com/gofiber/fiber/v3.New"},
	{"http server", "github.com/valyala/fasthttp", "github.com/valyala/fasthttp.ListenAndServe"},
	{"http server", "github.com/kataras/iris", "github.com/kataras/iris/v12.New github.com/kataras/iris/v12.Default"},
	{"grpc server", "google.golang.org/grpc", "google.golang.org/grpc.NewServer"},
	{"queue consumer", "github.com/segmentio/kafka-go", "github.com/segmentio/kafka-go.NewReader"},
	{"queue consumer", "github.com/IBM/sarama", "github.com/IBM/sarama.NewConsumerGroup github.com/IBM/sarama.NewConsumer"},
	{"queue consumer", "github.com/Shopify/sarama", "github.com/Shopify/sarama.NewConsumerGroup github.com/Shopify/sarama.NewConsumer"},
	{"queue consumer", "github.com/confluentinc/confluent-kafka-go", "github.com/confluentinc/confluent-kafka-go/kafka.NewConsumer"},
	{"queue consumer", "github.com/confluentinc/confluent-kafka-go", "github.com/confluentinc/confluent-kafka-go/v2/kafka.NewConsumer"},
	{"database client", "database/sql", "database/sql.Open database/sql.OpenDB github.com/jmoiron/sqlx.Open github.com/jmoiron/sqlx.Connect"},
	{"database client", "database/sql", "github.com/jmoiron/sqlx.MustConnect"},
	{"database client", "github.com/go-redis/redis", "github.com/go-redis/redis/v8.NewClient github.com/go-redis/redis/v8.NewClusterClient"},
	{"database client", "github.com/gomodule/redigo", "github.com/gomodule/redigo/redis.Dial"},
	{"database client", "github.com/jackc/pgx", "github.com/jackc/pgx/v4.Connect github.com/jackc/pgx/v4/pgxpool.Connect github.com/jackc/pgx/v5/pgxpool.NewWithConfig"},
	{"database client", "github.com/jackc/pgx", "github.com/jackc/pgx/v5.Connect github.com/jackc/pgx/v5/pgxpool.New"},
	{"database client", "gorm.io/gorm", "gorm.io/gorm.Open"},
	{"database client", "github.com/redis/go-redis", "github.com/redis/go-redis/v9.NewClusterClient github.com/redis/go-redis/v9.NewUniversalClient"},
	{"database client", "github.com/redis/go-redis", "github.com/redis/go-redis/v9.NewClient"},
	{"database client", "github.com/gocql/gocql", "github.com/gocql/gocql.NewCluster"},
	{"database client", "go.mongodb.org/mongo-driver", "go.mongodb.org/mongo-driver/mongo.Connect go.mongodb.org/mongo-driver/v2/mongo.Connect"},
})

// goConsumers lists the methods that receive messages, by the library and the path of the package in it.
var goConsumers = []struct{ library, path, methods string }{
	{"github.com/rabbitmq/amqp091-go", "", "Consume ConsumeWithContext"},
	{"github.com/streadway/amqp", "", "Consume"},
	{"github.com/nats-io/nats.go", "", "Subscribe QueueSubscribe PullSubscribe"},
	{"github.com/aws/aws-sdk-go-v2", "/service/sqs", "ReceiveMessage"},
	{"github.com/aws/aws-sdk-go", "/service/sqs", "ReceiveMessage ReceiveMessageWithContext"},
}

// consumer adds a call that receives messages.
func (g golang) consumer(n, recv *syntax.Node, name string) {
	if recv == nil || len(n.Args()) == 0 || strings.HasSuffix(name, "Subscribe") && (len(n.Args()) > 3 || n.Arg(0).Text == "ctx") {
		return
	}
	for _, c := range goConsumers {
		if slices.Contains(strings.Fields(c.methods), name) && g.File.ImportsAny(c.library+c.path) {
			g.Boundaries = append(g.Boundaries, Boundary{Node: n, Kind: "queue consumer", Library: c.library})
			return
		}
	}
}

// contributed reports whether a name refers to a package of OpenTelemetry's contrib repository.
func (g golang) contributed(n *syntax.Node) bool {
	return n.Kind == syntax.Name && strings.HasPrefix(g.module(n), goContrib)
}

func (g golang) packageCall(n *syntax.Node, module, name string) {
	if module == goAttribute && name == "Key" && n.Arg(0) != nil && n.Parent.Kind != syntax.Member {
		g.Keys = append(g.Keys, n.Arg(0))
	}
	if b, ok := goServers[module+"."+name]; ok {
		b.Node, b.Instrumented = n, n.Has(g.contributed)
		if p := n.Parent; p != nil && p.Kind == syntax.Call { // instrumentation.Redis(redis.NewClient())
			if recv, _ := p.Method(); strings.HasSuffix(g.module(recv), "/instrumentation") {
				b.Instrumented = true
			}
		}
		g.Boundaries = append(g.Boundaries, b)
		return
	}
	switch module + "." + name {
	case "github.com/sirupsen/logrus.SetLevel", "github.com/rs/zerolog.SetGlobalLevel", "log/slog.SetLogLoggerLevel", "go.uber.org/zap.NewAtomicLevelAt":
		g.level(n.Arg(0))
	case "go.uber.org/zap/zapcore.NewCore":
		g.level(n.Arg(2))
	case "go.uber.org/zap.NewDevelopment", "go.uber.org/zap.NewDevelopmentConfig":
		g.LogLevels = append(g.LogLevels, LogLevel{Node: n, Level: "debug", Conditional: conditional(n)})
	case "go.opentelemetry.io/otel/sdk/trace.NewTracerProvider", "go.opentelemetry.io/otel/sdk/metric.NewMeterProvider", "go.opentelemetry.io/otel/sdk/log.NewLoggerProvider":
		r := Resource{Node: n, FromEnvironment: true}
		for _, o := range n.Args() {
			if o.Kind != syntax.Call {
				r.Opaque = true
				continue
			}
			if _, m := o.Method(); m == "WithResource" && !g.withoutAttributes(o.Arg(0), "Default", "Environment", "Empty") {
				return // the call that creates the resource is recorded
			}
		}
		g.Resources = append(g.Resources, r)
	case "go.opentelemetry.io/contrib/otelconf.NewSDK":
		g.Resources = append(g.Resources, Resource{Node: n, Opaque: true, FromEnvironment: true})
	}
}

func (g golang) resource(n *syntax.Node, name string) {
	switch name {
	case "New", "NewWithAttributes", "NewSchemaless":
	default:
		if p := n.Parent; strings.HasPrefix(name, "With") && (p.Kind != syntax.Call || p.Callee().Text == "append") { // in a slice of options
			g.Resources = append(g.Resources, Resource{Detectors: []*syntax.Node{n}})
		}
		return
	}
	r := Resource{Node: n, Attributes: map[string]*syntax.Node{}}
	args := n.Args()
	if len(args) > 0 && name != "NewSchemaless" {
		args = args[1:]
	}
	if p := n.Parent; p != nil && p.Kind == syntax.Call { // resource.Merge(resource.Default(), ...)
		for _, a := range p.Args() {
			if _, m := a.Called(); m == "Default" || m == "Environment" {
				r.FromEnvironment = true
			}
		}
	}
	for _, a := range args {
		if a.Kind != syntax.Call {
			r.Opaque = true
			continue
		}
		recv, m := a.Method()
		switch {
		case g.module(recv) == goResource && m == "WithAttributes":
			for _, kv := range a.Args() {
				g.resourceAttribute(&r, kv)
			}
		case g.module(recv) == goResource && m == "WithFromEnv":
			r.FromEnvironment = true
		case g.module(recv) == goResource && (m == "WithSchemaURL" || m == "WithTelemetrySDK"):
		case g.module(recv) == goResource:
			r.Detectors = append(r.Detectors, a)
		default:
			g.resourceAttribute(&r, a)
		}
	}
	g.Resources = append(g.Resources, r)
}

func (g golang) resourceAttribute(r *Resource, n *syntax.Node) {
	key, value, ok := g.keyValue(n)
	if !ok {
		r.Opaque = true
		return
	}
	if s, known := g.Key(key); known {
		r.Attributes[s] = value
	} else {
		r.Opaque = true
	}
}

// goMethods lists the functions and methods that create an attribute from a key and a value.
var goMethods = []string{"String", "Bool", "Int", "Int64", "Float64", "Stringer", "StringSlice", "BoolSlice", "IntSlice", "Int64Slice", "Float64Slice"}

// keyValue returns the key and value of an expression that creates an attribute.
func (g golang) keyValue(n *syntax.Node) (key, value *syntax.Node, ok bool) {
	if n.Kind == syntax.Object {
		k, v := n.Get("Key"), n.Get("Value")
		if len(n.Children) == 2 && k == nil && n.Children[0].Kind != syntax.Pair { // attribute.KeyValue{"k", attribute.StringValue(v)}
			k, v = n.Children[0], n.Children[1]
		}
		if k != nil && v != nil && (n.Text == "attribute.KeyValue" || n.Text == "" && n.Parent != nil && n.Parent.Text == "attribute.KeyValue") {
			if v.Kind == syntax.Call && len(v.Args()) > 0 {
				v = v.Args()[0]
			}
			return k, v, true
		}
		return nil, nil, false
	}
	if n.Kind != syntax.Call {
		return nil, nil, false
	}
	recv, name := n.Method()
	module := g.module(recv)
	switch {
	case (module == goAttribute || module == goLog) && len(n.Args()) == 2 && slices.Contains(goMethods, name):
		return n.Arg(0), n.Arg(1), true
	case g.attributeMaker(n, module, name):
		return n.Arg(0), n.Arg(1), true
	case under(module, goSemconv) && len(n.Args()) == 1:
		return n.Callee(), n.Arg(0), true
	case recv != nil && module == "" && len(n.Args()) == 1 && slices.Contains(goMethods, name) && g.isKey(recv):
		return recv, n.Arg(0), true
	}
	return nil, nil, false
}

// attributeMaker reports whether a call creates an attribute from a key and a value by a function of the project:
// span.SetAttributes(telemetry.StringAttribute("k", v)).
func (g golang) attributeMaker(n *syntax.Node, module, name string) bool {
	if len(n.Args()) != 2 || n.Arg(0).Kind != syntax.String || under(module, goOTel) || n.Parent == nil || n.Parent.Kind != syntax.Call {
		return false
	}
	recv, m := n.Parent.Method()
	return (m == "SetAttributes" && g.isSpan(recv) || m == "WithAttributes" && under(g.module(recv), goOTel)) && attributeMakerName.MatchString(name)
}

// attributeMakerName matches functions that create an attribute.
var attributeMakerName = regexp.MustCompile(`^((String|Bool|Int|Int64|Float64|Any)(Attr|Attribute)?|Attr|Attribute|KeyValue|KV)$`)

// isKey reports whether an expression is an attribute.Key.
func (g golang) isKey(n *syntax.Node) bool {
	switch n.Kind {
	case syntax.Call:
		recv, name := n.Method()
		return name == "Key" && g.module(recv) == goAttribute
	case syntax.Member:
		if under(g.module(n.Children[0]), goSemconv) {
			return true
		}
		if g.module(n.Children[0]) != "" {
			return g.SharedKey(n)
		}
	case syntax.Name:
	default:
		return false
	}
	def := g.File.Definition(n)
	if def == nil {
		return g.SharedKey(n)
	}
	if strings.HasSuffix(def.Type, "attribute.Key") {
		return true
	}
	v := def.Value()
	return v != nil && v.Kind == syntax.Call && v != n && g.isKey(v)
}

// attribute records n if it creates an attribute.
func (g golang) attribute(n *syntax.Node) {
	key, value, ok := g.keyValue(n)
	if !ok {
		return
	}
	a := Attribute{Node: n, Key: key, Value: value}
	g.target(&a, n)
	g.set(a)
}

// target sets the target of an attribute, from the call around it or the uses of the variable that holds it.
func (g golang) target(a *Attribute, n *syntax.Node) {
	for p := n.Parent; p != nil; p = p.Parent {
		switch p.Kind {
		case syntax.Call:
			if g.targetOf(a, p) {
				return
			}
		case syntax.Assign:
			if v := p.Targets()[0]; v.Kind == syntax.Name || v.Kind == syntax.Member {
				g.targetOfUses(a, v)
			}
			return
		case syntax.Func, syntax.Block, syntax.Return:
			return
		}
	}
}

func (g golang) targetOf(a *Attribute, call *syntax.Node) bool {
	recv, name := call.Method()
	module := g.module(recv)
	switch {
	case name == "WithInstrumentationAttributes":
		return true // an attribute of the instrumentation scope
	case name == "SetAttributes" && module == "":
		a.On, a.Span = OnSpan, g.spanOf(recv)
	case g.spans[call] != nil:
		a.On, a.Span = OnSpan, g.spans[call]
	case name == "AddEvent" || name == "RecordError" && module == "":
		a.On, a.Span = OnEvent, g.spanOf(recv)
	case module == goMetric, (name == "Add" || name == "Record" || name == "ObserveInt64" || name == "ObserveFloat64") && module == "" && a.On == OnMetric:
		a.On = OnMetric
		for p := call.Parent; p != nil && p.Kind != syntax.Func; p = p.Parent {
			if p.Kind == syntax.Call {
				if r, _ := p.Method(); r != nil {
					a.Instrument = g.instruments[r.Text]
				}
				break
			}
		}
	case module == goResource:
		a.On = OnResource
	case under(module, goLog), name == "AddAttributes" && module == "" && g.File.ImportsAny(goLog):
		a.On = OnLog
	default:
		return false
	}
	return true
}

// targetOfUses sets the target of an attribute from the uses of its variable in the function that defines the variable.
func (g golang) targetOfUses(a *Attribute, v *syntax.Node) {
	fn := v.Enclosing(syntax.Func)
	if fn == nil {
		return
	}
	for n := range fn.Body().All() {
		if n.Kind != v.Kind || n.Text != v.Text || n == v {
			continue
		}
		for p := n.Parent; p != nil && p.Kind != syntax.Block; p = p.Parent {
			if p.Kind == syntax.Call && g.targetOf(a, p) {
				return
			}
		}
	}
}

// loggerLevel reports whether an expression is the level of a logging module: logrus.DebugLevel.
func (g golang) loggerLevel(n *syntax.Node) bool {
	return n.Kind == syntax.Member && slices.Contains([]string{
		"github.com/sirupsen/logrus", "github.com/rs/zerolog", "go.uber.org/zap", "go.uber.org/zap/zapcore", "log/slog",
	}, g.module(n.Children[0]))
}

// conditional reports whether n is in a conditional statement or expression.
func conditional(n *syntax.Node) bool {
	return n.Enclosing(syntax.If, syntax.Case, syntax.Conditional) != nil
}

func (g golang) literal(n *syntax.Node) {
	typ := n.Text
	switch {
	case strings.HasSuffix(typ, "slog.HandlerOptions"):
		g.level(n.Get("Level"))
	case strings.HasSuffix(typ, "http.Server") && g.File.ImportsAny("net/http"):
		b := Boundary{Node: n, Kind: "http server", Library: "net/http"}
		if h := n.Get("Handler"); h != nil {
			b.Instrumented = h.Has(g.contributed)
		}
		g.Boundaries = append(g.Boundaries, b)
	}
}

// log records a call of a logger. In Go, a context may precede the message, and in Log methods also a level.
func (g golang) log(n, recv *syntax.Node, name string) {
	if (name == "Print" || name == "Printf" || name == "Println") && g.module(recv) == "fmt" {
		g.addPrint(n)
		return
	}
	if name == "log" && n.Arg(0) != nil && n.Arg(0).Kind == syntax.Name && n.Arg(0).Text != "ctx" {
		return // a method of the package without a message: l.log(route, body)
	}
	if !g.addLog(n, recv, name) || g.Logs[len(g.Logs)-1].Message == nil {
		return
	}
	l := &g.Logs[len(g.Logs)-1]
	args := n.Args()
	if len(args) > 0 && (strings.HasSuffix(name, "Context") || name == "LogAttrs" || args[0].Text == "ctx") {
		args = args[1:]
	}
	if (name == "Log" || name == "LogAttrs") && len(args) > 1 {
		args = args[1:]
	}
	chain := l.Args[min(len(l.Args), max(len(n.Args())-1, 0)):]
	l.Message, l.Args = nil, nil
	if len(args) > 0 {
		l.Message, l.Args = args[0], args[1:]
	}
	l.Args = append(slices.Clip(l.Args), chain...)
}
