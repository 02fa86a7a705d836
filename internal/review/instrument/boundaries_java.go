// SPDX-License-Identifier: Apache-2.0

package instrument

import (
	"bytes"
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"assay"
	"assay/internal/lists"
	"assay/internal/review/configfile"
	"assay/internal/review/patch"
	"assay/internal/review/syntax"
	"assay/internal/review/treesitter"
)

// javaProject is a Java service to which a change adds spans.
type javaProject struct {
	*service
	files    []*javaFile
	agent    bool // the program runs with the Java agent
	starter  bool // the program has the Spring Boot starter, which also starts spans for annotated methods of beans
	global   javaGlobal
	spanned  map[string][]string // classes with a method that has a span, by the name of the method
	types    map[string]bool     // full names of the types in the tables
	packages map[string]bool     // packages of these types
	helper   *javaClass
	sections map[string]bool
	count    int
	note     string // open step to record if there are changes, "" for none
	blocked  bool   // no change is possible before the step in note is done
}

// javaClass is the helper class.
type javaClass struct {
	path, pkg, name string
	source          []byte // nil if it does not exist yet
}

// javaFile is a file of a service in Java.
type javaFile struct {
	*source
	project  *javaProject
	changes  []javaChange
	spans    map[*syntax.Node]bool // functions and loops that contain spans
	bodies   map[*syntax.Node]bool // bodies of spans; true unless the span is of a server or consumer
	changed  map[javaLocal]bool    // variables and fields that are assigned more than once
	locals   map[javaLocal]bool    // local variables
	calls    map[string]string     // destinations by method of a client
	names    map[string][]string   // unused names of variables by the first choice
	wrapped  map[*syntax.Node]bool // functions and loops to which the change adds a span
	packages []string              // packages of the tables that the file imports with *, nil before the first resolve
}

// javaChange holds the edits that add a span to a boundary.
type javaChange struct {
	line    int
	what    string
	section string
	edits   []udiff.Edit // "\x00" stands for the helper class
	lines   []udiff.Edit // insertions of whole lines
	step    string       // additional indentation of the lines at indents
	indents []int        // offsets of lines
}

// javaBoundaries adds spans and metrics to the handlers, consumers and client calls of a Java service that have no
// instrumentation. It reports whether the service can have spans.
func (s *service) javaBoundaries() (bool, error) {
	types, marks := javaTables()
	p := &javaProject{service: s, types: types, packages: map[string]bool{}, sections: map[string]bool{}, spanned: map[string][]string{}}
	for name := range types {
		p.packages[name[:strings.LastIndexByte(name, '.')]] = true
	}
	files, err := s.parsed(marks...)
	if err != nil {
		return false, err
	}
	for _, f := range files {
		p.files = append(p.files, &javaFile{
			source: f, project: p, calls: map[string]string{}, names: map[string][]string{}, wrapped: map[*syntax.Node]bool{},
		})
	}
	if len(files) == 0 || !p.setup() {
		return false, nil
	}
	p.findHelper()
	for _, f := range p.files {
		f.findSpans()
	}
	for _, f := range p.files {
		if err := s.ctx.Err(); err != nil {
			return false, err
		}
		if (p.helper == nil || f.Path != p.helper.path) && !f.extends() {
			f.walk()
		}
		if f.Exhausted() {
			return false, assay.Errorf(assay.CodeUnprocessable, "%s: %w", f.Path, treesitter.ErrTooComplex)
		}
	}
	if !p.agent && !p.starter {
		p.others()
	}
	p.apply()
	return true, nil
}

var (
	// javaVendors lists the artifacts of vendors' tracers and of the tracing APIs before OpenTelemetry.
	javaVendors = []string{
		"com.datadoghq:dd-", "co.elastic.apm:", "com.newrelic.agent.java:", "io.sentry:", "com.appdynamics", "com.instana:", "com.dynatrace.oneagent", "com.amazonaws:aws-xray-recorder",
		"org.apache.skywalking:", "io.opentracing", "io.jaegertracing:", "io.opencensus:", "io.zipkin.brave:", "io.micrometer:micrometer-tracing-bridge-brave", "org.springframework.cloud:spring-cloud-starter-sleuth",
		"org.springframework.cloud:spring-cloud-starter-zipkin", "com.lightstep.tracer:",
	}
	javaVendorImports = []string{"datadog.trace", "co.elastic.apm", "com.newrelic", "io.sentry", "io.opentracing", "io.opencensus", "brave"}
	javaVendorAgents  = []string{"dd-java-agent", "elastic-apm-agent", "newrelic.jar", "newrelic-agent", "skywalking-agent", "appdynamics"}
	// javaStarter is the starter for Spring Boot, and javaStarted lists the libraries that it instruments.
	javaStarter = "io.opentelemetry.instrumentation:opentelemetry-spring-boot-starter"
	javaStarted = []string{"jdbc", "servlet", "spring-kafka", "spring-scheduling"}
	// javaFrameworks lists artifacts that set up telemetry without the agent.
	javaFrameworks = []string{
		"io.opentelemetry.instrumentation:opentelemetry-spring-boot", "org.springframework.boot:spring-boot-starter-opentelemetry", "io.quarkus:quarkus-opentelemetry",
		"io.micrometer:micrometer-tracing-bridge-otel", "io.micronaut.tracing:",
	}
	javaSDK = []string{"io.opentelemetry:opentelemetry-sdk", "io.opentelemetry:opentelemetry-exporter"}
	// javaRegister lists the calls that register an SDK as the global instance.
	javaRegister = [][]byte{[]byte("buildAndRegisterGlobal"), []byte("GlobalOpenTelemetry.set"), []byte("setResultAsGlobal"), []byte("AutoConfiguredOpenTelemetrySdk.initialize")}
)

// setup determines how the service sets up telemetry, and reports whether a change can add spans.
func (p *javaProject) setup() bool {
	m := p.manifests[0]
	vendor, is := p.has(javaVendors...)
	for _, f := range p.files {
		for _, i := range f.Imports {
			if !is && slices.ContainsFunc(javaVendorImports, func(v string) bool { return strings.HasPrefix(i.Path+".", v+".") }) {
				vendor, is = i.Path, true
			}
		}
	}
	for _, f := range p.dockerfiles(runtimeJava) {
		for _, a := range javaVendorAgents {
			if !is && mentions(f, a) {
				vendor, is = a, true
			}
		}
	}
	if is {
		p.leave(m.Path, 0, "No spans are added to the code: `"+vendor+"` traces the program")
		return false
	}
	setups := slices.Concat(javaSDKs, javaVendors)
	if _, own := p.has(setups...); !own {
		if _, shared := p.setUpBy(setups...); shared {
			return false // s.java says so
		}
	}
	if _, p.starter = p.has(javaStarter); p.starter {
		return true
	}
	if found, ok := p.has(javaFrameworks...); ok {
		p.leave(m.Path, 0, "No spans are added to the code: use `@WithSpan` for jobs and consumers that `"+found+"` does not know")
		return false
	}
	p.global = javaAgentGlobal
	if old := p.oldAPI(); old != "" {
		p.note, p.blocked = "No spans are added to the code: they need version 1.32 of the OpenTelemetry API or a newer one, and "+old, true
	}
	if p.agent = p.startsAgent(); p.agent {
		return true
	}
	sdk, ok := p.has(javaSDK...)
	registers := false
	for _, f := range p.files {
		ok = ok || f.ImportsAny("io.opentelemetry.sdk")
		registers = registers || slices.ContainsFunc(javaRegister, func(t []byte) bool { return bytes.Contains(f.Source, t) })
	}
	if !ok {
		_, p.agent = p.has(javaServers...) // s.java adds the agent
		return p.agent
	}
	switch {
	case p.blocked:
	case p.apiMinor() >= 57 && registers:
		p.global = javaSDKGlobal
	case !registers:
		p.note, p.blocked = "No spans are added to the code: register the SDK of `"+cmp.Or(sdk, "io.opentelemetry.sdk")+"` as the global one first, with `buildAndRegisterGlobal`", true
	default:
		p.note = "Register the SDK before the program handles or calls anything: with versions of the API before 1.57, the first span otherwise makes `GlobalOpenTelemetry.set` fail"
	}
	return true
}

// oldAPI reports, as a clause for a step, where the build sets a version of the OpenTelemetry API before 1.32, which
// has no bucket advice for histograms. It returns "" if no such version is known.
func (p *javaProject) oldAPI() string {
	switch minor := p.apiMinor(); {
	case minor >= 32:
		return ""
	case minor >= 0:
		return fmt.Sprintf("the manifest has 1.%d", minor)
	}
	if boot, ok := p.springBoot(); ok && boot >= "3." && boot < "3.3" {
		return "Spring Boot " + boot + " sets an older one"
	}
	return ""
}

// startsAgent reports whether a build or deployment file starts the Java agent of OpenTelemetry.
func (p *javaProject) startsAgent() bool {
	own := append(p.dockerfiles(runtimeJava), p.manifests...)
	return slices.ContainsFunc(p.configs, func(f *configfile.File) bool {
		if (f.Kind == configfile.Manifest || f.Kind == configfile.Dockerfile) && !slices.Contains(own, f) {
			return false
		}
		return mentions(f, "opentelemetry-javaagent") || mentions(f, "instrumentation.opentelemetry.io/inject-java")
	})
}

var javaMinor = regexp.MustCompile(`^1\.(\d{1,4})\b`)

// apiMinor returns the minor version of the OpenTelemetry API in the manifest, -1 if there is none.
func (p *javaProject) apiMinor() int {
	for _, d := range p.dependencies() {
		if v := javaMinor.FindStringSubmatch(d.Version); v != nil && strings.HasPrefix(d.Name, "io.opentelemetry:opentelemetry-") {
			n, _ := strconv.Atoi(v[1])
			return n
		}
	}
	return -1
}

var (
	javaHelperNames = []string{"Telemetry", "ServiceTelemetry"}
	javaPackage     = regexp.MustCompile(`(?m)^package ([\w.]+);`)
)

// findHelper sets helper if an earlier run has added the class.
func (p *javaProject) findHelper() {
	for _, f := range p.files {
		if name := strings.TrimSuffix(path.Base(f.Path), ".java"); slices.Contains(javaHelperNames, name) && bytes.Contains(f.Source, []byte(javaHelperMark)) {
			p.helper = &javaClass{f.Path, f.Package, name, f.Source}
			return
		}
	}
}

// findSpans records the functions, loops and bodies with spans.
func (j *javaFile) findSpans() {
	j.spans, j.bodies = map[*syntax.Node]bool{}, map[*syntax.Node]bool{}
	around := func(n *syntax.Node) {
		for ; n != nil; n = n.Enclosing(syntax.Func, syntax.Loop) {
			if j.spans[n] {
				return
			}
			if n.Kind == syntax.Func || n.Kind == syntax.Loop {
				j.spans[n] = true
			}
			if class := n.Enclosing(syntax.Class); n.Kind == syntax.Func && class != nil && class.Text != "" && n.Text != "" {
				j.project.spanned[n.Text] = append(j.project.spanned[n.Text], class.Text)
			}
		}
	}
	for _, s := range j.uses.Spans {
		around(s.Start)
		if s.Body != nil {
			around(s.Body)
			j.bodies[s.Body] = j.bodies[s.Body] || s.Kind != "server" && s.Kind != "consumer"
		}
	}
	for n := range j.Root.All() {
		switch n.Kind {
		case syntax.Call:
			if receiver, name := n.Method(); j.isHelper(receiver) && slices.Contains([]string{"job", "process", "server"}, name) {
				around(n)
			}
		case syntax.Decorator:
			if n.Parent.Kind == syntax.Func && strings.HasSuffix(j.annotation(n), ".annotation.Observed") {
				around(n.Parent)
			}
		}
	}
}

// isHelper reports whether an expression is the helper class.
func (j *javaFile) isHelper(n *syntax.Node) bool {
	return n != nil && n.Kind == syntax.Name && j.project.helper != nil && n.Text == j.project.helper.name
}

// covered reports whether a node is in the body of a span other than a server or consumer span, or in a call of the
// helper class.
func (j *javaFile) covered(n *syntax.Node) bool {
	for p := n.Parent; p != nil; p = p.Parent {
		if j.bodies[p] {
			return true
		}
		if receiver, _ := p.Called(); j.isHelper(receiver) {
			return true
		}
	}
	return false
}

// extends reports whether a class of the file extends or implements a type of the SDK, such as an exporter.
func (j *javaFile) extends() bool {
	if !j.ImportsAny("io.opentelemetry.sdk") {
		return false
	}
	return j.Root.Has(func(n *syntax.Node) bool {
		return n.Kind == syntax.Class && slices.ContainsFunc(n.Children, func(c *syntax.Node) bool {
			return (c.Kind == syntax.Name || c.Kind == syntax.Member) && strings.HasPrefix(j.resolve(j.Code(c)), "io.opentelemetry.sdk.")
		})
	})
}

// walk finds the boundaries of a file and records the changes for them.
func (j *javaFile) walk() {
	for n := range j.Root.All() {
		if len(j.changes) >= maxFileBoundaries || j.project.count >= maxServiceBoundaries {
			j.project.leave(j.Path, j.LineOf(n.Start), fmt.Sprintf("More than %d places in the file or %d in the service need spans: those from here on are left", maxFileBoundaries, maxServiceBoundaries))
			return
		}
		switch n.Kind {
		case syntax.Class:
			j.class(n)
		case syntax.Func:
			j.function(n)
		case syntax.Loop:
			j.loop(n)
		case syntax.Call:
			j.call(n)
		}
	}
}

// class instruments the callback methods of a class.
func (j *javaFile) class(n *syntax.Node) {
	var supers []string
	if p := n.Parent; p != nil && p.Kind == syntax.New {
		supers = append(supers, j.resolve(j.Code(p.Callee())))
	}
	for _, c := range n.Children {
		if c.Kind == syntax.Name || c.Kind == syntax.Member {
			supers = append(supers, j.resolve(j.Code(c)))
		}
	}
	for _, super := range supers {
		cb, ok := javaCallbacks[super]
		if !ok {
			continue
		}
		for _, fn := range n.Children {
			if fn.Kind == syntax.Func && slices.Contains(cb.methods, fn.Text) && len(fn.Params()) == cb.arity {
				j.wrap(fn, nil, cb)
			}
		}
	}
}

// function instruments methods with annotations, and lambdas that are callbacks.
func (j *javaFile) function(fn *syntax.Node) {
	if fn.Text != "" {
		for _, d := range fn.Children {
			if d.Kind == syntax.Decorator {
				if cb, ok := javaAnnotations[j.annotation(d)]; ok {
					j.wrap(fn, d, cb)
					return
				}
			}
		}
		return
	}
	switch p := fn.Parent; p.Kind {
	case syntax.Assign:
		if cb, ok := javaCallbacks[j.resolve(p.Type)]; ok && len(cb.methods) == 1 && len(fn.Params()) == cb.arity {
			j.wrap(fn, nil, cb)
		}
	case syntax.Call:
		_, name := p.Method()
		for _, l := range javaLambdas {
			cb := javaCallbacks[l.callback]
			if l.method != name || len(fn.Params()) != cb.arity || !j.ImportsAny(l.pkg) {
				continue
			}
			first := slices.IndexFunc(p.Args(), func(a *syntax.Node) bool { return a.Kind == syntax.Func && len(a.Params()) == cb.arity })
			if p.Args()[first] == fn {
				j.wrap(fn, nil, cb)
			}
			return
		}
	}
}

// loop instruments loops over records of Kafka.
func (j *javaFile) loop(n *syntax.Node) {
	header := n.Children[0]
	if header.Kind != syntax.Assign || header.Text != ":" || len(header.Targets()) != 1 || j.resolve(header.Type) != "org.apache.kafka.clients.consumer.ConsumerRecord" {
		return
	}
	record := header.Targets()[0].Text
	j.wrap(n, nil, javaCallback{what: "records of Kafka", library: "kafka", agent: true, start: func(*javaFile, javaMethod) javaStart {
		return javaStart{call: "process(" + record + ")", section: "kafka"}
	}})
}

// call instruments calls of clients, and calls that register a handler or job.
func (j *javaFile) call(n *syntax.Node) {
	receiver, name := n.Method()
	if receiver == nil {
		return
	}
	args := n.Args()
	switch name {
	case "scheduleAtFixedRate", "scheduleWithFixedDelay":
		if of := j.typeOf(receiver); len(args) == 4 && (of == "java.util.concurrent.ScheduledExecutorService" || of == "java.util.concurrent.ScheduledThreadPoolExecutor") {
			j.argument(args[0], "run", "runs of the job", "task", "\x00.job("+strconv.Quote(j.taskName(args[0]))+", ")
		}
		return
	case "createContext":
		if of := j.typeOf(receiver); len(args) == 2 && strings.HasPrefix(of, "com.sun.net.httpserver.") && !j.project.covers("java-http-server", true) {
			j.argument(args[1], "handle", "requests of the server", "handler", "\x00.server(")
		}
		return
	case "setHandler":
		if of := j.typeOf(receiver); len(args) == 1 && of == "com.sun.net.httpserver.HttpContext" && !j.project.covers("java-http-server", true) {
			j.argument(args[0], "handle", "requests of the server", "handler", "\x00.server(")
		}
		return
	case "send", "sendAsync":
		if len(args) == 2 && j.typeOf(receiver) == "java.net.http.HttpClient" && !j.project.covers("java-http-client", true) && !j.covered(n) {
			line := j.LineOf(n.Start)
			if between := j.Source[receiver.End:args[0].Start]; bytes.ContainsAny(between, "\n/") {
				j.project.leave(j.Path, line, "Add a span to the request: the call is on several lines")
				return
			}
			j.change(line, "requests of `java.net.http`", "client",
				udiff.Edit{Start: n.Start, End: n.Start, New: "\x00." + name + "("}, udiff.Edit{Start: receiver.End, End: args[0].Start, New: ", "})
		}
		return
	}
	c, ok := javaClients[j.typeOf(receiver)]
	if !ok || !slices.Contains(strings.Fields(c.methods), name) || j.project.covers(c.library, c.agent) || j.covered(n) {
		return
	}
	j.query(n, receiver, name, c)
}

// covers reports whether a library has instrumentation: from the agent, if it supports the library, from the starter,
// or from library instrumentation in the manifest.
func (p *javaProject) covers(library string, agent bool) bool {
	if p.agent && agent || p.starter && slices.Contains(javaStarted, library) {
		return true
	}
	_, ok := p.has("io.opentelemetry.instrumentation:opentelemetry-" + library)
	return ok
}

// argument wraps the handler or job in arg with a call of the helper class, unless its method has a span.
func (j *javaFile) argument(arg *syntax.Node, method, what, section, open string) {
	value := arg
	for range 3 {
		def := (*syntax.Node)(nil)
		if value.Kind == syntax.Name && value.Text != "this" {
			def = j.Definition(value)
		}
		if def == nil || def.Kind != syntax.Assign {
			break
		}
		value = def.Value()
	}
	class, name := "", method
	if c := arg.Enclosing(syntax.Class); c != nil {
		class = c.Text
	}
	line := j.LineOf(arg.Start)
	switch value.Kind {
	case syntax.Null:
		return
	case syntax.Call:
		if receiver, _ := value.Method(); j.isHelper(receiver) {
			return
		}
		class = ""
	case syntax.Func:
		if j.spans[value] {
			return
		}
		name = ""
	case syntax.New:
		last := value.Children[len(value.Children)-1]
		if last.Kind == syntax.Class && slices.ContainsFunc(last.Children, func(m *syntax.Node) bool { return j.spans[m] }) {
			return
		}
		class = j.Code(value.Callee())
	case syntax.Member: // this::poll, or a field
		name = value.Text
		if !strings.Contains(j.Code(value), "::") {
			class, name = "", method
		}
	case syntax.Name:
		if value.Text != "this" {
			class = ""
		}
	}
	switch of, has := j.project.spanned[name]; {
	case slices.Contains(of, class):
		return
	case has && class == "":
		j.project.leave(j.Path, line, "Add a span to the "+what+" if they have none: `"+of[0]+"."+name+"` may be what runs, and has one")
		return
	}
	j.change(line, what, section, udiff.Edit{Start: arg.Start, End: arg.Start, New: open}, udiff.Edit{Start: arg.End, End: arg.End, New: ")"})
}

// query adds a span to a database call.
func (j *javaFile) query(n, receiver *syntax.Node, name string, c javaClient) {
	line := j.LineOf(n.Start)
	var sql *syntax.Node
	operation, collection := "", ""
	switch c.query {
	case -2:
		operation = strings.ToUpper(name)
	case -1:
		prepared := receiver
		if def := j.Definition(receiver); prepared.Kind != syntax.Call && def != nil {
			prepared = def.Value()
		}
		if prepared != nil && prepared.Kind == syntax.Call && c.system == "" {
			sql = prepared.Arg(0)
		}
	default:
		sql = n.Arg(c.query)
	}
	if sql != nil {
		text, known := j.uses.Known(sql)
		if !known && sql.Kind == syntax.Template && len(sql.Children) > 0 && sql.Children[0].Kind == syntax.String {
			if words := strings.Fields(sql.Children[0].Text); len(words) > 0 {
				text, known = words[0], true
			}
		}
		if known {
			operation, collection = javaSummary(text)
		}
	}
	body := udiff.Edit{Start: n.Start, End: n.Start, New: "() -> "}
	end := udiff.Edit{Start: n.End, End: n.End, New: ")"}
	why := cmp.Or(j.throws(n, c), j.infers(n, name, c))
	if why == "" {
		if why = j.captures(n); why != "" && javaReferred(n, name) { // a method reference evaluates its receiver immediately
			why = ""
			body.New = ""
			end = udiff.Edit{Start: n.Callee().End - len(name) - 1, End: n.End, New: "::" + name + ")"}
		}
	}
	if why != "" {
		j.project.leaveBoundary(j.Path, line, patch.Boundary{SpanKind: "client", Library: c.library}, "Add a span to the call of `"+name+"`: "+why)
		return
	}
	system := c.system
	if system == "" {
		system = j.project.database()
	}
	open := "\x00.database(" + strconv.Quote(system) + ", " + javaLiteral(operation) + ", " + javaLiteral(collection) + ", "
	body.New = open + body.New
	j.change(line, "call of `"+name+"`", "database", body, end)
}

// javaReferred reports whether a call can become a method reference: its receiver is a name directly before the method,
// it has no arguments, and the compiler infers the type of its result.
func javaReferred(n *syntax.Node, name string) bool {
	callee, p, fn := n.Callee(), n.Parent, n.Enclosing(syntax.Func)
	if fn == nil || fn.Type == "" || len(n.Args()) > 0 || callee.Children[0].Kind != syntax.Name || callee.Children[0].End != callee.End-len(name)-1 {
		return false
	}
	of := map[string]string{"executeQuery": "ResultSet", "executeUpdate": "int", "execute": "boolean"}[name]
	switch p.Kind {
	case syntax.Block:
		return of != ""
	case syntax.Assign:
		return p.Type == of || of == "ResultSet"
	case syntax.Return:
		return fn.Type == of
	}
	return false
}

// database returns the system of the JDBC driver in the manifest, "other_sql" if there is none or several.
func (p *javaProject) database() string {
	system := ""
	for _, d := range javaDrivers {
		if _, ok := p.has(d.artifact); ok && system != d.system {
			if system != "" {
				return "other_sql"
			}
			system = d.system
		}
	}
	return cmp.Or(system, "other_sql")
}

// throws returns a reason if a call may throw exceptions of several types, for which the compiler cannot infer a common
// type, and "" otherwise.
func (j *javaFile) throws(n *syntax.Node, c javaClient) string {
	checked := strings.HasPrefix(c.methods, jdbcMethods)
	for call := range n.All() {
		if call.Kind == syntax.New || call.Kind == syntax.Call && call != n && !slices.Contains(javaSafe, call.Callee().Text) {
			if !checked && !j.handlesSeveral(n) {
				break
			}
			return "`" + call.Callee().Text + "` may throw another exception"
		}
	}
	return ""
}

// handlesSeveral reports whether code may throw checked exceptions of several types: the enclosing try statements and
// the throws clause of the method name several types, and none of them is Exception or Throwable.
func (j *javaFile) handlesSeveral(n *syntax.Node) bool {
	var types []string
	for p := n.Parent; p != nil; n, p = p, p.Parent {
		if p.Kind == syntax.Try && p.Body() == n {
			for _, c := range p.Children[1:min(len(p.Children), maxHandlers)] {
				if c.Kind == syntax.Catch && c.Children[0].Kind == syntax.Param {
					types = append(types, strings.Split(c.Children[0].Type, "|")...)
				}
			}
		}
		if p.Kind == syntax.Func {
			if throws := javaThrows.FindSubmatch(j.Source[max(p.Start, p.Body().Start-maxThrows):p.Body().Start]); throws != nil {
				types = append(types, strings.Split(string(throws[1]), ",")...)
			}
			break
		}
	}
	count := 0
	for _, t := range types {
		switch t = strings.TrimSpace(t); t {
		case "Exception", "Throwable":
			return false
		case "RuntimeException", "JedisException": // unchecked
		default:
			count++
		}
	}
	return count > 1
}

// Limits of handlesSeveral: children of a try statement, and bytes before the body of a method.
const (
	maxHandlers = 20
	maxThrows   = 1000
)

// javaThrows matches the throws clause of a method.
var javaThrows = regexp.MustCompile(`\)\s*throws\s+([\w.,\s]+)$`)

// javaSafe lists methods that throw no checked exception other than SQLException.
var javaSafe = []string{
	"getConnection", "prepareStatement", "prepareCall", "createStatement", "concat", "format", "formatted", "join", "name", "replace", "strip", "stripIndent", "substring", "toLowerCase",
	"toString", "toUpperCase", "trim", "valueOf",
}

// infers returns a reason if the compiler may infer a different type, such as the wrapper class of a primitive type, or
// none for a call that becomes the body of a lambda. It returns "" otherwise.
func (j *javaFile) infers(n *syntax.Node, name string, c javaClient) string {
	p := n.Parent
	template := c.methods == templateMethods && strings.HasPrefix(name, "query")
	switch {
	case name == "query" && template && p.Kind == syntax.Block:
		return "it may return nothing"
	case template && (p.Kind == syntax.Assign && strings.Contains(" boolean int long float double ", " "+p.Type+" ") || p.Kind != syntax.Assign && p.Kind != syntax.Return && p.Kind != syntax.Block):
		return "the compiler may not infer its type"
	case template || name == "executeQuery" || name == "run" || c.system == "cassandra" || c.system == "redis" && slices.Contains(strings.Fields(jedisObjects), name):
		return ""
	}
	const why = "the compiler may take its result for another type"
	switch before := j.before(n.Start); {
	case p.Kind == syntax.Call || p.Kind == syntax.New || p.Kind == syntax.Conditional || p.Kind == syntax.Assign && p.Type == "var":
		return why
	case p.Kind == syntax.Operator && (p.Text == "==" || p.Text == "!=") && !slices.ContainsFunc(p.Children, func(o *syntax.Node) bool { return o.Kind == syntax.Number || o.Kind == syntax.Bool }):
		return why
	case p.Kind != syntax.Block && bytes.HasSuffix(before, []byte(")")): // a cast
		return why
	}
	return ""
}

// before returns the code before an expression, without trailing white space, comments and opening parentheses.
func (j *javaFile) before(at int) []byte {
	for {
		code := bytes.TrimRight(j.Source[:at], " \t\f\r\n(")
		i, ok := slices.BinarySearchFunc(j.Comments, len(code), func(c syntax.Comment, end int) int { return cmp.Compare(c.End, end) })
		if !ok {
			return code
		}
		at = j.Comments[i].Start
	}
}

// javaLocal is the name of a local variable in an outermost method, nil outside of methods.
type javaLocal struct {
	method *syntax.Node
	name   string
}

// javaOutermost returns the outermost function around a node, nil if there is none.
func javaOutermost(n *syntax.Node) (fn *syntax.Node) {
	for p := n.Enclosing(syntax.Func); p != nil; p = p.Enclosing(syntax.Func) {
		fn = p
	}
	return fn
}

// captures returns the reason why an expression cannot become the body of a lambda, "" if it can.
func (j *javaFile) captures(n *syntax.Node) string {
	fn := n.Enclosing(syntax.Func, syntax.Class)
	if fn == nil || fn.Kind != syntax.Func || fn.Type == "" && fn.Text != "" {
		return "it is in a constructor or initializer"
	}
	if j.changed == nil {
		j.variables()
	}
	method := javaOutermost(n)
	for c := range n.All() {
		switch c.Kind {
		case syntax.Assign:
			return "it assigns a variable"
		case syntax.Name:
			if !j.changed[javaLocal{method, c.Text}] || c.Parent.Kind == syntax.Call && c.Parent.Callee() == c {
				continue
			}
			if def := j.Definition(c); def == nil || def.Enclosing(syntax.Func) != nil || j.locals[javaLocal{method, c.Text}] {
				return "`" + c.Text + "` gets several values, and a lambda cannot read it"
			}
		}
	}
	return ""
}

// variables records the local variables of the file, and the variables that are assigned after their declaration.
func (j *javaFile) variables() {
	j.changed, j.locals = map[javaLocal]bool{}, map[javaLocal]bool{}
	var method *syntax.Node // the outermost function around a node
	for n := range j.Root.All() {
		if method != nil && n.Start >= method.End {
			method = nil
		}
		switch n.Kind {
		case syntax.Func:
			method = cmp.Or(method, n)
		case syntax.Param:
			j.locals[javaLocal{method, n.Text}] = true
		case syntax.Declare, syntax.Assign:
			for _, t := range n.Targets() {
				switch {
				case n.Type != "":
					j.locals[javaLocal{method, t.Text}] = true
				case n.Kind == syntax.Assign && n.Text != ":" && t.Kind == syntax.Name:
					j.changed[javaLocal{method, t.Text}] = true
				}
			}
		case syntax.Operator:
			switch {
			case n.Text == "instanceof": // the tree does not contain the pattern
				for _, name := range javaWord.FindAllString(string(j.Source[n.Children[0].End:n.End]), -1) {
					j.locals[javaLocal{method, name}] = true
				}
			case (strings.Contains(n.Text, "++") || strings.Contains(n.Text, "--")) && len(n.Children) == 1 && n.Children[0].Kind == syntax.Name:
				j.changed[javaLocal{method, n.Children[0].Text}] = true
			}
		case syntax.Name:
			if n.Parent.Kind == syntax.Other { // a pattern in a switch
				j.locals[javaLocal{method, n.Text}] = true
			}
		}
	}
}

// javaWord matches names and keywords.
var javaWord = regexp.MustCompile(`[\pL_$][\pL\pN_$]*`)

// change records the edits that add a span. With the starter of Spring, it leaves an open step unless the edits add an
// annotation.
func (j *javaFile) change(line int, what, section string, edits ...udiff.Edit) {
	if j.project.starter && section != javaAnnotated {
		j.project.leave(j.Path, line, "Add a span to the "+what+": the starter of Spring does not know the library, and `@WithSpan` is for methods of beans")
		return
	}
	j.project.count++
	j.changes = append(j.changes, javaChange{line: line, what: what, section: section, edits: edits})
}

// wrap adds an operation around the body of a method, lambda or loop.
func (j *javaFile) wrap(fn, annotation *syntax.Node, cb javaCallback) {
	if j.project.covers(cb.library, cb.agent) || j.spans[fn] || j.covered(fn) {
		return
	}
	line := j.LineOf(fn.Start)
	leave := func(why string) {
		j.project.leaveBoundary(j.Path, line, patch.Boundary{SpanKind: cb.spanKind(), Library: cb.library}, "Add a span to the "+cb.what+": "+why)
	}
	body := fn.Body()
	if body == nil || body.End <= body.Start+1 || fn.Kind == syntax.Func && body.Kind == syntax.Block && body.Start == fn.End {
		return // no body
	}
	source := j.Source
	expression := body.Kind == syntax.Call // lambda without a block
	if !expression && (body.Kind != syntax.Block || source[body.Start] != '{' || source[body.End-1] != '}') {
		leave("the body is no block")
		return
	}
	if javaAsynchronous.MatchString(fn.Type) || bytes.Contains(source[body.Start:body.End], []byte(".startAsync(")) {
		leave("it goes on after the method returns")
		return
	}
	params := lists.Map(fn.Params(), func(p *syntax.Node) string { return p.Text })
	if slices.Contains(params, "") {
		leave("a parameter has no name")
		return
	}
	nested := 0 // a lambda cannot redeclare variables of the enclosing method, so each level has other names
	for p := fn.Parent; p != nil; p = p.Parent {
		if j.wrapped[p] {
			nested++
		}
	}
	variable, failure := j.free(nested, "telemetry", "operation", "traced"), j.free(nested, "error", "failure", "thrown")
	if variable == "" || failure == "" {
		leave("the names for its variables are taken in this file")
		return
	}
	start := cb.start(j, javaMethod{fn, annotation, params})
	if j.project.starter {
		j.annotate(fn, cb, start)
		return
	}
	end := newline(source)
	lineStart := bytes.LastIndexByte(source[:body.Start], '\n') + 1
	indent := string(source[lineStart : lineStart+len(source[lineStart:body.Start])-len(bytes.TrimLeft(source[lineStart:body.Start], " \t"))])
	step := "    "
	if strings.HasPrefix(indent, "\t") {
		step = "\t"
	} else if len(body.Children) > 0 {
		if inner, alone := indentOf(source, body.Children[0].Start); alone && strings.HasPrefix(inner, indent) && len(inner) > len(indent) {
			step = inner[len(indent):]
		}
	}
	indent += strings.Repeat(step, nested)
	open := indent + step + "\x00 " + variable + " = \x00." + start.call + ";" + end + indent + step + "try {" + end
	rest := indent + step + "} catch (Throwable " + failure + ") {" + end +
		indent + step + step + variable + ".fail(" + failure + ");" + end +
		indent + step + step + "throw " + failure + ";" + end +
		indent + step + "} finally {" + end +
		indent + step + step + variable + ".close(" + start.close + ");" + end +
		indent + step + "}" + end
	if expression {
		j.wrapped[fn] = true
		j.change(line, cb.what, start.section,
			udiff.Edit{Start: body.Start, End: body.Start, New: "{" + end + open + indent + step + step},
			udiff.Edit{Start: body.End, End: body.End, New: ";" + end + rest + indent + "}"})
		return
	}
	inside := source[body.Start+1 : body.End-1]
	first := bytes.IndexByte(inside, '\n')
	if first < 0 { // { handle(message); }
		left := len(inside) - len(bytes.TrimLeft(inside, " \t"))
		right := max(len(bytes.TrimRight(inside, " \t")), left)
		if bytes.Contains(inside, []byte("//")) {
			leave("the body has a comment on its line")
			return
		}
		j.wrapped[fn] = true
		j.change(line, cb.what, start.section,
			udiff.Edit{Start: body.Start + 1, End: body.Start + 1 + left, New: end + open + indent + step + step},
			udiff.Edit{Start: body.Start + 1 + right, End: body.End - 1, New: end + rest + indent})
		return
	}
	head := bytes.TrimSpace(inside[:first])
	last := bytes.LastIndexByte(inside, '\n') + 1
	if len(head) > 0 && !bytes.HasPrefix(head, []byte("//")) || len(bytes.TrimSpace(inside[last:])) > 0 {
		leave("its braces share lines with code")
		return
	}
	j.wrapped[fn] = true
	from, to := body.Start+1+first+1, body.Start+1+last
	j.change(line, cb.what, start.section)
	c := &j.changes[len(j.changes)-1]
	c.lines = []udiff.Edit{{Start: from, End: from, New: open}, {Start: to, End: to, New: rest}}
	c.step, c.indents = step, j.indented(body, from, to)
}

// javaAnnotated is the section of changes that add annotations. They need no helper class.
const javaAnnotated = "annotation"

// javaUnproxied matches the modifiers of methods that Spring cannot proxy.
var javaUnproxied = regexp.MustCompile(`\b(private|static)\b`)

// annotate adds @WithSpan to a method of a bean.
func (j *javaFile) annotate(fn *syntax.Node, cb javaCallback, start javaStart) {
	line := j.LineOf(fn.Start)
	annotation := "@WithSpan(value = " + strconv.Quote(start.name) + ", kind = SpanKind.CONSUMER)"
	switch indent, alone := indentOf(j.Source, fn.Start); {
	case start.name == "" || !alone:
		j.change(line, cb.what, "")
	case javaUnproxied.Match(j.Source[fn.Start:fn.Body().Start]):
		j.project.leave(j.Path, line, "Add a span to the "+cb.what+": `@WithSpan` has no effect on private and static methods")
	default:
		j.change(line, cb.what, javaAnnotated, udiff.Edit{Start: fn.Start, End: fn.Start, New: annotation + newline(j.Source) + indent})
	}
}

// indented returns the offsets of the lines in a range that have to be indented in a wrapped body. It skips blank lines
// and lines that begin in a text block.
func (j *javaFile) indented(body *syntax.Node, from, to int) (lines []int) {
	var blocks []*syntax.Node
	if bytes.Contains(j.Source[from:to], []byte(`"""`)) {
		for n := range body.All() {
			if (n.Kind == syntax.String || n.Kind == syntax.Template) && strings.Contains(j.Code(n), `"""`) {
				blocks = append(blocks, n)
			}
		}
	}
	for at := from; at < to; {
		size := bytes.IndexByte(j.Source[at:to], '\n') + 1
		for len(blocks) > 0 && blocks[0].End <= at {
			blocks = blocks[1:]
		}
		if len(bytes.TrimSpace(j.Source[at:at+size])) > 0 && (len(blocks) == 0 || at <= blocks[0].Start) {
			lines = append(lines, at)
		}
		at += size
	}
	return lines
}

// free returns the i-th of the names that the file does not use, "" if there are fewer.
func (j *javaFile) free(i int, names ...string) string {
	free, ok := j.names[names[0]]
	if !ok {
		free = slices.DeleteFunc(slices.Clone(names), func(n string) bool { return javaHasWord(j.Source, n) })
		j.names[names[0]] = free
	}
	if i >= len(free) {
		return ""
	}
	return free[i]
}

// javaHasWord reports whether a text contains an identifier.
func javaHasWord(text []byte, word string) bool {
	return regexp.MustCompile(`(^|[^\w$])` + word + `($|[^\w$])`).Match(text)
}

// resolve returns the full name of a type, "" if it is not imported. Imports with * count for types of the tables.
func (j *javaFile) resolve(text string) string {
	text, _, _ = strings.Cut(text, "<")
	text = strings.TrimSpace(text)
	if strings.Contains(text, ".") {
		return text
	}
	if i, ok := j.Imported(text); ok {
		return i.Path + "." + i.Member
	}
	if j.packages == nil {
		j.packages = []string{}
		for _, i := range j.Imports {
			if i.Member == "*" && j.project.packages[i.Path] && !slices.Contains(j.packages, i.Path) {
				j.packages = append(j.packages, i.Path)
			}
		}
	}
	for _, pkg := range j.packages {
		if j.project.types[pkg+"."+text] {
			return pkg + "." + text
		}
	}
	return ""
}

// annotation returns the full name of an annotation.
func (j *javaFile) annotation(d *syntax.Node) string {
	name := d.Children[0]
	if name.Kind == syntax.Call {
		name = name.Callee()
	}
	return j.resolve(j.Code(name))
}

// javaDestination matches destinations and routes that need no escaping and can be a part of a span name.
var javaDestination = regexp.MustCompile(`^[A-Za-z0-9._/*:-]{1,200}$`)

// element returns the value of an element of an annotation, or of its element "value". It returns "" unless the value
// is a single constant string that javaDestination matches.
func (j *javaFile) element(d *syntax.Node, name string) string {
	c := d.Children[0]
	if c.Kind != syntax.Call {
		return ""
	}
	v := cmp.Or(c.Named(name), c.Named("value"), c.Arg(0))
	if v != nil && v.Kind == syntax.List && len(v.Children) == 1 {
		v = v.Children[0]
	}
	if text, ok := j.uses.Known(v); ok && javaDestination.MatchString(text) {
		return text
	}
	return ""
}

// subscribed returns the constant argument of the calls of a method, "" if the calls have different or other arguments.
func (j *javaFile) subscribed(method string, argument int) string {
	if to, ok := j.calls[method]; ok {
		return to
	}
	to, several := "", false
	for n := range j.Root.All(syntax.Call) {
		if receiver, name := n.Method(); receiver == nil || name != method || n.Arg(argument) == nil {
			continue
		}
		text, ok := j.uses.Known(n.Arg(argument))
		several = several || !ok || to != "" && to != text || !javaDestination.MatchString(text)
		to = text
	}
	if several {
		to = ""
	}
	j.calls[method] = to
	return to
}

// typeOf returns the full name of the type of an expression, "" if it is not known.
func (j *javaFile) typeOf(n *syntax.Node) string {
	for range 4 {
		if n == nil {
			return ""
		}
		switch n.Kind {
		case syntax.New:
			return j.resolve(j.Code(n.Callee()))
		case syntax.Call:
			return j.made(n)
		}
		def := j.Definition(n)
		if def == nil {
			return ""
		}
		if def.Type != "" && def.Type != "var" {
			return j.resolve(def.Type)
		}
		n = def.Value()
	}
	return ""
}

// made returns the full name of the type that a call returns, "" if it is not known.
func (j *javaFile) made(n *syntax.Node) string {
	_, name := n.Method()
	if of := javaMakers[name]; of != "" && j.ImportsAny(of[:strings.LastIndexByte(of, '.')]) {
		return of
	}
	root := n
	for range 32 {
		if root.Kind == syntax.Call && root.Callee().Kind == syntax.Member {
			root = root.Callee().Children[0]
		}
	}
	switch of := j.resolve(root.Text); {
	case root.Kind != syntax.Name:
	case name == "build" && of == "java.net.http.HttpClient", name == "create" && strings.HasPrefix(of, "com.sun.net.httpserver.Http"):
		return of
	case name == "createContext" && j.ImportsAny("com.sun.net.httpserver"):
		return "com.sun.net.httpserver.HttpContext"
	}
	return ""
}

// className returns the full name of the class around a node, without anonymous classes.
func (j *javaFile) className(n *syntax.Node) string {
	name := ""
	for c := n.Enclosing(syntax.Class); c != nil; c = c.Enclosing(syntax.Class) {
		if c.Text != "" {
			name = strings.TrimSuffix(c.Text+"$"+name, "$")
		}
	}
	return strings.TrimPrefix(j.Package+"."+name, ".")
}

// functionName returns the full name of a method. For lambdas and methods of anonymous classes, it returns the name of
// the enclosing method.
func (j *javaFile) functionName(fn *syntax.Node) string {
	for fn.Text == "" || fn.Parent.Kind == syntax.Class && fn.Parent.Text == "" {
		outer := fn.Enclosing(syntax.Func)
		if outer == nil {
			break
		}
		fn = outer
	}
	return j.className(fn) + "." + cmp.Or(fn.Text, "run")
}

// taskName returns the full name of the method that a job runs.
func (j *javaFile) taskName(task *syntax.Node) string {
	called := task
	if task.Kind == syntax.Func {
		called = task.Body()
		if called.Kind == syntax.Block && len(called.Children) == 1 {
			called = called.Children[0]
		}
	}
	var receiver *syntax.Node
	name := ""
	switch {
	case called.Kind == syntax.Call:
		receiver, name = called.Method()
	case called.Kind == syntax.Member && strings.Contains(j.Code(called), "::"):
		receiver, name = called.Children[0], called.Text
	case called.Kind == syntax.New && called.Children[len(called.Children)-1].Kind != syntax.Class && javaIdentifier.MatchString(j.Code(called.Callee())):
		class := j.Code(called.Callee())
		return cmp.Or(j.resolve(class), strings.TrimPrefix(j.Package+"."+class, ".")) + ".run"
	}
	if name != "" && (receiver == nil || receiver.Kind == syntax.Name && receiver.Text == "this") {
		return j.className(task) + "." + name
	}
	if name != "" && receiver.Kind == syntax.Name {
		if def := j.Definition(receiver); def != nil && javaIdentifier.MatchString(def.Type) && def.Type != "var" {
			return cmp.Or(j.resolve(def.Type), strings.TrimPrefix(j.Package+"."+def.Type, ".")) + "." + name
		} else if def == nil && receiver.Text[0] >= 'A' && receiver.Text[0] <= 'Z' {
			return cmp.Or(j.resolve(receiver.Text), strings.TrimPrefix(j.Package+"."+receiver.Text, ".")) + "." + name
		}
	}
	if fn := task.Enclosing(syntax.Func); fn != nil {
		return j.functionName(fn)
	}
	return j.className(task) + ".run"
}

var javaIdentifier = regexp.MustCompile(`^[A-Za-z_]\w*$`)
