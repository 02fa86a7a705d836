// SPDX-License-Identifier: Apache-2.0

package check

import (
	"bytes"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"assay/internal/review/configfile"
	"assay/internal/review/instrumentation"
	"assay/internal/review/syntax"
)

var uninstrumentedServer = &Check{
	ID:       "uninstrumented-server",
	Title:    "Server, consumer or database client is not instrumented",
	Category: Correctness,
	Severity: Medium,
	Why: "Requests that a server without instrumentation receives have no span, and the traces of its callers end there. " +
		"Queries of a client without instrumentation show up as unexplained time.",
	Fix: "Add the instrumentation of the library, such as `otelhttp` or `otelgrpc` in Go, or the automatic instrumentation of the language: " +
		"`@opentelemetry/auto-instrumentations-node`, `opentelemetry-instrument`, the Java agent. " +
		"The check reports one place for each library and service, and a suggestion if the repository does not use OpenTelemetry at all. " +
		"Instrumentation in a package of the repository counts for the projects that use the package.",
	Source: func(p *Pass, u *instrumentation.Uses) {
		if u.File.ImportsAny("github.com/prometheus/client_golang/prometheus/promhttp", "net/http/pprof", "expvar") {
			return // a server for operators
		}
		local := sync.OnceValue(func() bool { return listensLocally(u) })
		for _, b := range u.Boundaries {
			switch b.Kind {
			case "http server", "grpc server", "queue consumer", "database client":
				if b.Kind == "http server" && (operational(u, b.Node) || b.Node.Has(loopback) || local()) {
					continue
				}
				p.Keep(boundaryFact{
					Finding: Finding{
						Subject: b.Kind + " " + b.Library, About: b.Library,
						Message: fmt.Sprintf("Nothing instruments this %s (`%s`).", b.Kind, b.Library),
					}.at(u, b.Node),
					kind: b.Kind, library: b.Library, instrumented: b.Instrumented, client: assignedTo(b.Node),
				})
			}
		}
	},
	Related: func(kept any) []string {
		texts := []string{"telemetry", "otel", "trace", "Trace", "tracing", "zipkin", "skywalking", "apm", "relic", "entry"}
		if bareServer(kept.(boundaryFact)) {
			texts = append(texts, "express", "fastify", "koa", "hapi", "nestjs", "gin", "echo", "fiber")
		}
		return texts
	},
	Repository: func(p *RepositoryPass) { checkBoundaries(p) },
}

type boundaryFact struct {
	Finding
	kind, library string
	client        string // the variable, "" if there is none
	instrumented  bool
}

// Facts are the facts in a source file about the instrumentation of its project. Like values that a check keeps, they
// do not refer to the file's tree or source.
type Facts struct {
	file      string
	libraries []string    // that the file instruments
	imports   []string    // modules that may belong to another project of the repository
	telemetry []string    // modules of OpenTelemetry
	vendors   []string    // of other tracers
	manual    set         // kinds of spans that the code starts: "server", "consumer"
	clients   []clientUse // in spans
}

// FactsOf returns the facts about the instrumentation of a file's project.
func FactsOf(u *instrumentation.Uses) *Facts {
	f := &Facts{file: u.File.Path, libraries: u.Instrumented, manual: set{}}
	unknown := clientUse{any: true}
	var around []*instrumentation.Span // that calls of clients may be in
	for _, s := range u.Spans {
		switch s.Kind {
		case "server", "consumer":
			f.manual[s.Kind] = true
		case "client":
			f.clients = append(f.clients, unknown)
		case "", "producer":
			around = append(around, s)
		default: // a variable, as in an interceptor for both sides
			f.clients = append(f.clients, unknown)
			if u.File.Language == syntax.Go {
				f.manual["server"] = true
			}
		}
	}
	if wrapped := wrappedInSpans(u); len(around)+len(wrapped) > 0 {
		f.clients = append(f.clients, clientsIn(u, around, wrapped))
	}
	for kind, mark := range spanKinds { // also find the kind in an option that a variable holds
		if mark.Match(u.File.Source) {
			f.manual[kind] = true
		}
	}
	for _, i := range u.File.Imports {
		switch u.File.Language {
		case syntax.Python:
			if i.Member != "" && i.Member != "*" { // which may be a module
				i.Path += "." + i.Member
			}
		case syntax.JavaScript, syntax.TypeScript:
			if !strings.HasPrefix(i.Path, "../") {
				continue
			}
		case syntax.Java:
			continue
		}
		f.imports = append(f.imports, i.Path)
	}
	for _, i := range u.File.Imports {
		if isTelemetryModule(i.Path) {
			f.telemetry = append(f.telemetry, i.Path)
			if wrapper.MatchString(i.Path) && !strings.HasPrefix(i.Path, "go.opentelemetry.io/") {
				f.clients = append(f.clients, unknown)
			}
		} else if v, ok := vendorOfImport(u.File.Language, i.Path); ok {
			f.vendors = append(f.vendors, v)
		}
	}
	vendor := len(f.vendors) > 0 || u.File.ImportsAny(tracingModules...)
	if vendor && serverTracing.Match(u.File.Source) || len(u.Spans) > 0 && extracts(u) { // the span of a request without a kind
		f.manual["server"] = true
	}
	calls := func(of string) bool {
		return u.File.Root.Has(func(n *syntax.Node) bool {
			return n.Kind == syntax.Call && strings.HasPrefix(strings.ToLower(name(n)), of)
		})
	}
	if vendor && calls("extract") && (calls("startspan") || calls("start_span") || calls("start_active_span") || calls("buildspan")) {
		f.manual["server"], f.manual["consumer"] = true, true
	}
	return f
}

// serverTracing matches the middleware, interceptors and handlers that instrument a server for tracers other than
// OpenTelemetry.
var serverTracing = regexp.MustCompile(`\b(OpenTracing(Stream)?ServerInterceptor|nethttp\.Middleware\w*|TraceServer|ocgrpc\.ServerHandler|ochttp\.Handler|` +
	`zipkinhttp\.NewServerMiddleware|zipkingrpc\.NewServerHandler|middleware\.Tracer|FlaskTrac(ing|er)|expressMiddleware)\b`)

// tracingModules are modules that instrument servers for other tracers, in addition to the modules of vendors.
var tracingModules = []string{"github.com/grpc-ecosystem/grpc-opentracing", "github.com/go-kit/kit/tracing", "github.com/weaveworks/common/middleware"}

// spanKinds match the kinds of spans of servers and consumers, in the spellings of all languages.
var spanKinds = map[string]*regexp.Regexp{
	"server":   regexp.MustCompile(`\bSpanKind(Server\b|\.(SERVER|Server)\b)`),
	"consumer": regexp.MustCompile(`\bSpanKind(Consumer\b|\.(CONSUMER|Consumer)\b)`),
}

// extracts reports whether a file extracts the context of a caller from the headers of a request:
// propagator.Extract(ctx, propagation.HeaderCarrier(r.Header)).
func extracts(u *instrumentation.Uses) bool {
	return u.File.Root.Has(func(n *syntax.Node) bool {
		return n.Kind == syntax.Call && strings.EqualFold(name(n), "extract") && (len(n.Args()) > 1 || u.File.Language == syntax.Python) && slices.ContainsFunc(n.Args(), func(a *syntax.Node) bool {
			return a.Has(func(c *syntax.Node) bool {
				return c.Kind == syntax.Member && strings.HasPrefix(strings.ToLower(c.Text), "header") && setOf("r req request")[name(c.Children[0])]
			})
		})
	})
}

func isTelemetryModule(path string) bool {
	return strings.Contains(path, "opentelemetry") || strings.Contains(path, "otel")
}

// automatic are prefixes of dependencies that instrument all libraries that they support.
var automatic = []string{
	"@opentelemetry/auto-instrumentations-node", "@opentelemetry/auto-instrumentations-web", "opentelemetry-distro", "opentelemetry-bootstrap",
	"io.opentelemetry.instrumentation:opentelemetry-spring-boot", "io.opentelemetry.instrumentation:opentelemetry-instrumentation-annotations",
	"org.springframework.boot:spring-boot-starter-opentelemetry", "io.quarkus:quarkus-opentelemetry", "io.micrometer:micrometer-tracing-bridge-otel",
	"io.opentelemetry.javaagent", "opentelemetry-instrumentation-all", "splunk-opentelemetry", "@splunk/otel", "@vercel/otel", "@azure/monitor-opentelemetry",
	"azure-monitor-opentelemetry", "applicationinsights", "logfire", "@sentry/node", "sentry-sdk", "@honeycombio/opentelemetry-node", "honeycomb-opentelemetry",
	"elastic-opentelemetry", "@elastic/opentelemetry-node", "@grafana/", "OpenTelemetry.AutoInstrumentation", "io.micronaut.tracing", "aws-opentelemetry-distro",
	"@hyperdx/node-opentelemetry", "hyperdx-opentelemetry", "@uptrace/node", "uptrace", "@dash0/opentelemetry", "@aws/aws-distro-opentelemetry", "@pydantic/logfire-node",
	"@sentry/nestjs", "@sentry/bun", "opentelemetry-launcher", "@lightstep/opentelemetry-launcher-node",
}

// automaticMarks are texts in deployment files that show automatic instrumentation.
var automaticMarks = [][]byte{
	[]byte("opentelemetry-javaagent"), []byte("opentelemetry-instrument"), []byte("auto-instrumentations-node"), []byte("instrumentation.opentelemetry.io/inject"),
	[]byte("-javaagent:"), []byte("OTEL_DOTNET_AUTO_HOME"), []byte("ddtrace-run"), []byte("dd-trace/init"), []byte("newrelic-admin"), []byte("beyla"), []byte("otel-go-instrumentation"),
	[]byte("autoinstrumentation-go"), []byte("opentelemetry-ebpf-instrumentation"), []byte("ebpf-instrument"),
	[]byte("skywalking-go-agent"), []byte("skywalking-python"),
}

// clients are the vendors whose libraries do not instrument other libraries. The tracers of other vendors do.
var clients = []string{"OpenTracing", "OpenCensus", "Jaeger", "Zipkin"}

// wrapper matches paths of packages that start spans for their callers.
var wrapper = regexp.MustCompile(`(?i)/(otel|tracing|telemetry|opentelemetry|trace)(/[a-z]+)?$`)

// notService matches paths of programs that are not services, such as commands and scripts.
var notService = regexp.MustCompile(`(?i)(^|/)(cli|commands?|management|migrations?|seeds?|seeders?|mocks?|tools?|scripts?|hack|oauth|bin|util|utils|testutils?|testhelpers?|plugins?)(/|$)`)

// instrumentedProject holds the instrumentation of a project.
type instrumentedProject struct {
	all       bool     // all libraries are instrumented
	telemetry bool     // the code uses OpenTelemetry
	sdk       bool     // of Java. If the code uses only the API, the SDK comes from the agent, which instruments all libraries.
	libraries []string // in lower case: instrumented libraries, and modules of OpenTelemetry
	manual    set      // kinds of spans that the code starts: "server", "consumer"
}

// Coverage is the instrumentation of the projects of a repository.
type Coverage struct {
	projects  *projects
	graph     *configfile.Graph
	byProject map[configfile.Project]*instrumentedProject
	automatic map[*project]bool      // directories whose deployment files instrument all libraries
	unknown   bool                   // a deployment file of an unknown project does
	anywhere  bool                   // the repository uses OpenTelemetry
	vendor    bool                   // the repository uses another tracer
	manual    map[string][]clientUse // clients that may have spans, by directory of the code
}

// ecosystems are the ecosystems of languages.
var ecosystems = map[syntax.Language]string{
	syntax.Go: configfile.Go, syntax.JavaScript: configfile.NPM, syntax.TypeScript: configfile.NPM, syntax.Python: configfile.PyPI, syntax.Java: configfile.Maven,
}

// project returns the project of a source file: the nearest one of its ecosystem. A file without a project belongs to
// the directory ".".
func (c *Coverage) project(file string) configfile.Project {
	ecosystem := ecosystems[syntax.LanguageOf(file)]
	if p, ok := c.graph.Of(path.Dir(file), ecosystem); ok {
		return p
	}
	return configfile.Project{Dir: ".", Ecosystem: ecosystem}
}

// of returns the instrumentation of a project according to its dependencies and the code.
func (c *Coverage) of(p configfile.Project) *instrumentedProject {
	i := c.byProject[p]
	if i == nil {
		i = &instrumentedProject{manual: set{}}
		for _, d := range c.projects.dependencies(p) {
			i.module(d.Name, !d.Indirect)
			for _, vs := range vendors {
				for _, v := range vs {
					i.all = i.all || !slices.Contains(clients, v.vendor) && v.names.MatchString(d.Name)
				}
			}
		}
		c.byProject[p] = i
	}
	return i
}

// all reports whether all libraries of a file are instrumented.
func (c *Coverage) all(file string) bool {
	return c.unknown || c.automatic[c.projects.of(file)] || c.of(c.project(file)).all
}

// CoverageOf returns the instrumentation of the projects of a repository, according to their dependencies, the code and
// the deployment files. files are the paths of all files. Any of facts may be nil.
func CoverageOf(facts []*Facts, configs []*configfile.File, files []string) *Coverage {
	imports := map[configfile.Project][]configfile.Import{}
	c := &Coverage{
		projects:  projectsOf(configs),
		graph:     configfile.NewGraph(configs, files, func(at configfile.Project) []configfile.Import { return imports[at] }),
		byProject: map[configfile.Project]*instrumentedProject{}, automatic: map[*project]bool{}, manual: map[string][]clientUse{},
	}
	for _, f := range facts {
		if f == nil { // the file was not parsed
			continue
		}
		at, dir := c.project(f.file), path.Dir(f.file)
		for _, m := range f.imports {
			imports[at] = append(imports[at], configfile.Import{File: f.file, Module: m})
		}
		i := c.of(at)
		for _, l := range f.libraries {
			i.all = i.all || l == "auto"
			i.libraries = append(i.libraries, strings.ToLower(l))
		}
		for _, m := range f.telemetry {
			i.telemetry, c.anywhere = true, true
			i.module(m, true)
		}
		for _, v := range f.vendors {
			i.all, c.vendor = i.all || !slices.Contains(clients, v), true
		}
		maps.Copy(i.manual, f.manual)
		c.manual[dir] = append(c.manual[dir], f.clients...)
	}
	uses, own := map[configfile.Project][]configfile.Project{}, map[configfile.Project]instrumentedProject{}
	for _, f := range configs {
		for _, d := range f.Dependencies {
			c.anywhere = c.anywhere || isTelemetryModule(strings.ToLower(d.Name)) && !d.Indirect
		}
		at := configfile.Project{Dir: configfile.ProjectDir(f), Ecosystem: f.Ecosystem}
		if _, known := uses[at]; !known && c.graph.Manifests(at) != nil {
			uses[at] = c.graph.Uses(at)
			own[at] = *c.of(at)
			c.of(at).manual = maps.Clone(own[at].manual)
		}
		if isDeployment(f) && slices.ContainsFunc(automaticMarks, func(m []byte) bool { return bytes.Contains(f.Source, m) }) {
			if at, known := c.projects.deploys(f, ""); known {
				c.automatic[at] = true
			} else {
				c.unknown = true // which services the file runs
			}
		}
	}
	for at, used := range uses {
		for _, u := range used {
			c.of(at).add(own[u])
		}
	}
	var run []configfile.Project // packages run in the applications that use them
	for at, used := range uses {
		if c.of(at).all || c.automatic[c.projects.byDirectory[at.Dir]] {
			run = append(run, used...)
		}
	}
	for _, u := range run {
		c.of(u).all = true
	}
	return c
}

func checkBoundaries(p *RepositoryPass) {
	c := p.Coverage()
	deployed, frameworks := map[*project]bool{}, map[configfile.Project]bool{}
	carry := map[[2]string]bool{} // file and library of servers that are instrumented, possibly in one of two branches
	for _, f := range p.Configs {
		if at, known := c.projects.deploys(f, ""); known && f.Kind == configfile.Dockerfile {
			deployed[at] = true
		}
	}
	for _, k := range p.Kept {
		b := k.(boundaryFact)
		if b.kind == "http server" && !bareServer(b) {
			frameworks[c.project(b.File)] = true
		}
		if b.instrumented {
			carry[[2]string{b.File, b.library}] = true
		}
	}
	seen := map[string]bool{}
	for _, k := range p.Kept {
		b := k.(boundaryFact)
		at := c.project(b.File)
		i, manifests := c.of(at), c.graph.Manifests(at)
		if bareServer(b) && frameworks[at] { // the server that a framework runs on
			continue
		}
		if !deployed[c.projects.of(b.File)] && isLibrary(manifests) && (b.kind == "database client" || !i.telemetry) {
			continue // the application that uses it instruments its clients
		}
		if slices.ContainsFunc(manifests, func(m *configfile.File) bool {
			name := packageTitle.FindSubmatch(m.Source)
			return path.Base(m.Path) == "package.json" && name != nil && notProduction.Match(name[1])
		}) {
			continue
		}
		id := at.Ecosystem + " " + at.Dir + " " + b.kind + " " + b.library
		if carry[[2]string{b.File, b.library}] || seen[id] || notProduction.MatchString(b.File) || notService.MatchString(b.File) {
			continue
		}
		switch none := "none " + at.Ecosystem + " " + at.Dir; {
		case c.all(b.File) || (i.telemetry || c.anywhere || c.vendor) && !i.sdk && at.Ecosystem == configfile.Maven || i.covers(b.library, b.kind) || b.kind == "database client" && slices.ContainsFunc(c.manual[path.Dir(b.File)], func(c clientUse) bool { return c.uses(b) }):
			continue
		case !i.telemetry && !c.anywhere:
			if b.kind == "database client" || seen[none] {
				continue
			}
			b.Severity = Suggestion
			seen[none] = true
		}
		seen[id] = true
		p.Report(b.Finding)
	}
}

// assignedTo returns the name of the variable or field to which a call is assigned, "" if there is none.
func assignedTo(n *syntax.Node) string {
	if a := n.Assignment(); a != nil {
		return name(a.Targets()[0])
	}
	if p := n.Parent; p != nil && p.Kind == syntax.Pair {
		return p.Children[0].Text
	}
	return ""
}

// bareServer reports whether a server is one of the standard library, on which frameworks run.
func bareServer(b boundaryFact) bool { return b.library == "http" || b.library == "net/http" }

// isLibrary reports whether the manifest of a project describes a package for other programs.
func isLibrary(manifests []*configfile.File) bool {
	for _, m := range manifests {
		switch {
		case path.Base(m.Path) == "package.json":
			if packageEntry.Match(m.Source) && !packagePrivate.Match(m.Source) {
				return true
			}
		case path.Base(m.Path) == "pyproject.toml":
			if bytes.Contains(m.Source, []byte("build-backend")) && (bytes.Contains(m.Source, []byte("classifiers")) || bytes.Contains(m.Source, []byte("optional-dependencies"))) {
				return true
			}
		}
	}
	return false
}

var (
	packageEntry   = regexp.MustCompile(`"(module|exports|types|typings|files|publishConfig)"\s*:`)
	packageTitle   = regexp.MustCompile(`"name"\s*:\s*"([^"]*)"`)
	packagePrivate = regexp.MustCompile(`"private"\s*:\s*true|"start"\s*:`)
)

// forOperators are words in names of files, classes and functions with servers for operators and developers.
var forOperators = setOf(`health healthz healthcheck healthchecks readiness liveness probe probes metrics metric prometheus pprof debug diagnostics devtools inspector
	reflection mock mocks fake stub`)

// listensLocally reports whether a file has a server that listens on a loopback address.
func listensLocally(u *instrumentation.Uses) bool {
	return u.File.Root.Has(func(n *syntax.Node) bool {
		return n.Kind == syntax.Call && name(n) == "listen" && slices.ContainsFunc(n.Args(), loopback)
	})
}

// loopback reports whether an expression is a loopback address.
func loopback(n *syntax.Node) bool {
	return n.Kind == syntax.String && (n.Text == "127.0.0.1" || strings.HasPrefix(n.Text, "127.0.0.1:"))
}

// operational reports whether a server is for operators or developers, by the names around it, or by the names in its
// handler if it has few routes.
func operational(u *instrumentation.Uses, server *syntax.Node) bool {
	base := path.Base(u.File.Path)
	if forOperators.any(words(strings.TrimSuffix(base, path.Ext(base)))) {
		return true
	}
	for at := server.Enclosing(syntax.Func, syntax.Class); at != nil; at = at.Enclosing(syntax.Func, syntax.Class) {
		if forOperators.any(words(at.Text)) {
			return true
		}
	}
	mentions, routes := false, 0
	for n := range server.All() {
		switch n.Kind {
		case syntax.Name, syntax.Member:
			mentions = mentions || forOperators.any(words(n.Text))
		case syntax.String:
			if strings.HasPrefix(n.Text, "/") {
				routes++
				mentions = mentions || forOperators.any(words(n.Text))
			}
		}
	}
	const maxRoutes = 3
	return mentions && routes > 0 && routes <= maxRoutes
}

// module records a dependency, or an import of OpenTelemetry. The project's own code uses only direct dependencies.
func (i *instrumentedProject) module(name string, direct bool) {
	for _, a := range automatic {
		if strings.HasPrefix(name, a) {
			i.all = true
		}
	}
	if lower := strings.ToLower(name); isTelemetryModule(lower) {
		i.telemetry = i.telemetry || direct
		i.sdk = i.sdk || strings.HasPrefix(lower, "io.opentelemetry.sdk") || strings.HasPrefix(lower, "io.opentelemetry:opentelemetry-sdk") || strings.HasPrefix(lower, "io.opentelemetry:opentelemetry-exporter")
		i.libraries = append(i.libraries, lower)
	}
}

// add adds the instrumentation of a project that the project uses. Whether the own code uses OpenTelemetry stays as it
// is.
func (i *instrumentedProject) add(used instrumentedProject) {
	i.all, i.sdk = i.all || used.all, i.sdk || used.sdk
	i.libraries = append(i.libraries, used.libraries...)
	maps.Copy(i.manual, used.manual)
}

// covers reports whether a library is instrumented: the code starts spans of the kind, or the name of a module contains
// a word for the library.
func (i *instrumentedProject) covers(library, kind string) bool {
	if i.manual[strings.Fields(kind)[1]] { // "server", "consumer"
		return true
	}
	words := libraryWords(library)
	if kind == "http server" {
		words = append(words, "@opentelemetry/instrumentation-http") // for all servers of Node.js
	}
	return slices.ContainsFunc(i.libraries, func(l string) bool {
		return l == strings.ToLower(library) || strings.HasSuffix(l, "/"+strings.ToLower(library)) ||
			slices.ContainsFunc(words, func(w string) bool { return strings.Contains(l, w) })
	})
}

// libraryWords returns the words that the instrumentation of a library may have in its name.
func libraryWords(library string) []string {
	name := strings.ToLower(library)
	words := map[string][]string{
		"net/http": {"otelhttp", "otelchi", "otelmux", "otelgin", "otelecho", "otelfiber", "otelrestful", "otelconnect", "runtime/otel", "grpc-gateway"},
		"http":     {"instrumentation-http", "-express", "-koa", "-fastify", "-hapi"}, "https": {"instrumentation-http"},
		"starlette": {"starlette", "fastapi", "instrumentation.asgi", "instrumentation-asgi"}, "fastapi": {"fastapi", "instrumentation.asgi", "instrumentation-asgi"},
		"litestar": {"litestar", "instrumentation.asgi", "instrumentation-asgi"}, "quart": {"quart", "instrumentation.asgi", "instrumentation-asgi"},
		"flask": {"flask", "instrumentation.wsgi", "instrumentation-wsgi"}, "django": {"django", "instrumentation.wsgi", "instrumentation-wsgi", "instrumentation.asgi", "instrumentation-asgi"},
		"falcon":  {"falcon", "instrumentation.wsgi", "instrumentation-wsgi"},
		"typeorm": {"typeorm", "instrumentation-pg", "instrumentation-mysql", "instrumentation-mongodb"}, "sequelize": {"sequelize", "instrumentation-pg", "instrumentation-mysql"},
		"knex": {"knex", "instrumentation-pg", "instrumentation-mysql"}, "@prisma/client": {"prisma"}, "@nestjs/microservices": {"nestjs", "kafkajs", "amqplib", "instrumentation-grpc"},
		"boto3": {"boto", "aws"}, "github.com/aws/aws-sdk-go-v2": {"otelaws"}, "github.com/aws/aws-sdk-go": {"otelaws", "aws"},
		"github.com/rabbitmq/amqp091-go": {"amqp", "rabbit"}, "github.com/streadway/amqp": {"amqp", "rabbit"}, "github.com/nats-io/nats.go": {"nats"},
		"database/sql": {"otelsql", "splunksql", "otelgorm", "gorm.io/plugin/opentelemetry", "otelsqlx", "otelpgx", "bunotel", "otelent"},
	}[name]
	if words != nil {
		return words
	}
	for _, part := range strings.FieldsFunc(name, func(r rune) bool { return r == '/' || r == '@' || r == '.' || r == ':' }) {
		switch part {
		case "github", "com", "org", "io", "google", "golang", "go", "net", "http", "v2", "v4", "v5", "jackc", "gopkg", "in":
			continue
		}
		part = strings.TrimSuffix(strings.TrimPrefix(part, "go-"), "-go")
		if len(part) > 1 {
			words = append(words, part)
		}
	}
	return words
}
