// SPDX-License-Identifier: Apache-2.0

package instrument

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"assay/internal/review/configfile"
	"assay/internal/review/patch"
	"assay/internal/review/syntax"
)

var (
	// nodeAutomatic are packages that instrument all supported libraries.
	nodeAutomatic = []string{
		nodePackage, "@splunk/otel", "@vercel/otel", "@elastic/opentelemetry-node", "@honeycombio/opentelemetry-node", "@azure/monitor-opentelemetry", "@grafana/",
		"@hyperdx/node-opentelemetry", "@uptrace/node", "@dash0/opentelemetry", "@aws/aws-distro-opentelemetry-node-autoinstrumentation", "@lightstep/opentelemetry-launcher-node",
	}
	// nodeManual are packages of an SDK without automatic instrumentation.
	nodeManual = []string{"@opentelemetry/sdk-node", "@opentelemetry/sdk-trace-node", "@opentelemetry/sdk-trace-base"}
	// nodeTracers are packages of other tracers.
	nodeTracers = []string{
		"dd-trace", "elastic-apm-node", "newrelic", "@sentry/", "applicationinsights", "@instana/", "@appsignal/nodejs", "@google-cloud/trace-agent", "skyapm-nodejs",
		"opentracing", "jaeger-client", "zipkin",
	}
	// nodeFrameworks are frameworks with their own setup of OpenTelemetry.
	nodeFrameworks = []string{"next", "nuxt", "react-scripts", "@angular/core", "electron"}
)

// nodeCode is the code of a service in JavaScript or TypeScript whose boundaries are wrapped.
type nodeCode struct {
	*service
	manifest *configfile.File
	module   bool // "type": "module"
	auto     bool // automatic instrumentation covers the libraries that it knows
	packages []string
	sources  []*source
	byPath   map[string]*source
	spanning map[string]bool // names of functions that start spans

	variables map[*source]map[string]*syntax.Node // values of the variables of files, without variables of functions
	own       map[*source]*nodeNames

	names      map[string]*nodeBoundary // by library and name
	methods    map[string][]*nodeBoundary
	decorated  []*nodeBoundary
	parametric string                // a file in which a router is mounted below a path with parameters
	noted      map[string]bool       // libraries of nodeLeft with a step
	options    map[*syntax.Node]bool // objects with options that were read
	count      int
}

// nodeNames holds the names that a file declares, without its imports.
type nodeNames struct {
	functions map[string][]*syntax.Node // functions and classes by name, without methods
	globals   map[string]*syntax.Node   // the first declaration of each of nodeGlobals
}

// nodeGlobals are the global names that identify boundaries.
var nodeGlobals = []string{fetched, "require"}

// namesOf returns the names of a file.
func namesOf(f *source) *nodeNames {
	names := &nodeNames{functions: map[string][]*syntax.Node{}, globals: map[string]*syntax.Node{}}
	for n := range f.Root.All() {
		switch n.Kind {
		case syntax.Func, syntax.Class:
			if n.Text != "" && (n.Kind == syntax.Class || n.Parent.Kind != syntax.Class && n.Parent.Kind != syntax.Object) {
				names.functions[n.Text] = append(names.functions[n.Text], n)
				names.bind(n.Text, n)
			}
		case syntax.Param:
			names.bind(n.Text, n)
			for _, c := range n.Children {
				if n.Text == "" {
					names.pattern(c, n)
				}
			}
		case syntax.Assign, syntax.Declare:
			if n.Kind == syntax.Assign && creates(n.Value()) {
				continue
			}
			for _, t := range n.Targets() {
				names.pattern(t, n)
			}
		}
	}
	return names
}

// bind records a node that binds a name.
func (s *nodeNames) bind(name string, n *syntax.Node) {
	if slices.Contains(nodeGlobals, name) && s.globals[name] == nil {
		s.globals[name] = n
	}
}

// pattern binds the names in a target or pattern.
func (s *nodeNames) pattern(target, n *syntax.Node) {
	for name := range target.Names() {
		if name.Kind == syntax.Name {
			s.bind(name.Text, n)
		}
	}
}

// creates reports whether an expression creates a function require.
func creates(n *syntax.Node) bool {
	_, name := n.Called()
	return name == "createRequire"
}

// hidden reports whether a function or class of the file shadows the definition of a name, or the import or global name
// if definition is nil. The scope of a declaration is the enclosing function, that of a named expression the expression.
func (c *nodeCode) hidden(f *source, use, definition *syntax.Node) bool {
	const maxFunctions = 32
	functions := c.own[f].functions[use.Text]
	if len(functions) == 0 || len(functions) > maxFunctions {
		return len(functions) > 0
	}
	var defined *syntax.Node // the function in which the definition is
	if definition != nil {
		defined = definition.Enclosing(syntax.Func)
	}
	return slices.ContainsFunc(functions, func(fn *syntax.Node) bool {
		scope := fn
		if fn.Parent.Kind == syntax.Block {
			scope = fn.Enclosing(syntax.Func)
		}
		if scope == nil {
			return definition == nil
		}
		return use.Within(scope) && (definition == nil || scope != defined && (defined == nil || scope.Within(defined)))
	})
}

// nodeWrap is a range of a file that is an argument of a function of the helpers.
type nodeWrap struct {
	*nodeBoundary
	start, end int
	before     string // the other arguments of the function
}

// javaScriptBoundaries adds spans and metrics to handlers, consumers and calls of a service in JavaScript that nothing
// instruments, and reports whether the service has an SDK that exports them.
func (s *service) javaScriptBoundaries() (bool, error) {
	c := &nodeCode{service: s, manifest: s.manifests[0], noted: map[string]bool{}, options: map[*syntax.Node]bool{}}
	for _, d := range s.dependencies() {
		c.packages = append(c.packages, d.Name)
	}
	for _, used := range s.used() {
		for _, d := range used.dependencies() {
			if !d.Development && d.Name != "@opentelemetry/api" { // which the service needs itself
				c.packages = append(c.packages, d.Name)
			}
		}
	}
	if found, ok := s.has(nodeTracers...); ok {
		if !slices.ContainsFunc(s.patch.Steps, func(step patch.Step) bool {
			return step.File == c.manifest.Path && strings.HasPrefix(step.Text, "Nothing is added")
		}) {
			s.leave(c.manifest.Path, 0, "The code is left: `"+found+"` traces it")
		}
		return false, nil
	} else if _, ok := s.setUpBy(nodeTracers...); ok {
		return false, nil
	}
	_, builds := s.develops(nodeFrameworks...)
	if _, ok := s.has(nodeFrameworks...); ok || builds {
		return false, nil
	}
	_, c.auto = s.has(nodeAutomatic...)
	c.auto = c.auto || c.adds(nodePackage)
	if _, manual := s.has(nodeManual...); !c.auto && !manual {
		return false, nil
	}
	var manifest struct{ Type string }
	if json.Unmarshal(c.manifest.Source, &manifest) != nil {
		return false, nil //nolint:nilerr // the minimum part reports it
	}
	c.module = manifest.Type == "module"
	if err := c.read(); err != nil {
		return false, err
	}
	wraps := map[*source][]nodeWrap{}
	for _, f := range c.sources {
		found := c.find(f)
		if err := s.ctx.Err(); err != nil {
			return false, err
		}
		if f.Exhausted() {
			s.leave(f.Path, 0, "The file is left: it is too complex")
		} else if len(found) > 0 {
			wraps[f] = found
		}
	}
	c.change(wraps)
	return true, nil
}

// adds reports whether the change adds a package to the manifest.
func (c *nodeCode) adds(name string) bool {
	f := c.files[c.manifest.Path]
	return f != nil && slices.ContainsFunc(f.Edits, func(e udiff.Edit) bool { return strings.Contains(e.New, `"`+name+`": `) })
}

// instrumented reports whether a package or an import instruments a library.
func (c *nodeCode) instrumented(b *nodeBoundary) bool {
	return c.auto && b.automatic || slices.ContainsFunc(c.packages, func(name string) bool {
		name = strings.ToLower(name)
		ours := strings.Contains(name, "instrumentation")
		other := (strings.Contains(name, "otel") || strings.Contains(name, "opentelemetry")) && !strings.HasPrefix(name, "@opentelemetry/")
		return (ours || other) && slices.ContainsFunc(b.words, func(w string) bool { return strings.Contains(name, w) })
	})
}

// read parses the files that use the libraries or telemetry.
func (c *nodeCode) read() (err error) {
	texts := []string{"startSpan", "startActiveSpan", "SpanKind.", "db.system", "@opentelemetry/instrumentation", "enableOpenTelemetryTracing", "getNodeAutoInstrumentations"}
	c.names, c.methods = map[string]*nodeBoundary{}, map[string][]*nodeBoundary{}
	quoted := func(library string) {
		texts = append(texts, "'"+library+"'", `"`+library+`"`)
	}
	for i := range nodeBoundaries {
		b := &nodeBoundaries[i]
		if c.instrumented(b) {
			continue
		}
		if b.library == fetched {
			texts = append(texts, "fetch(")
		} else {
			quoted(b.library)
			if name, ok := strings.CutPrefix(b.library, "node:"); ok && name != "sqlite" {
				quoted(name)
			}
		}
		for _, name := range b.names {
			c.names[b.library+" "+name] = b
		}
		if b.decorators != nil {
			c.decorated = append(c.decorated, b)
		} else if b.method != "" {
			c.methods[b.method] = append(c.methods[b.method], b)
			for _, event := range b.on {
				texts = append(texts, "on('"+event+"'", `on("`+event+`"`)
			}
			if b.on == nil && !b.loose {
				texts = append(texts, "."+b.method+"(")
			}
		} else if b.library == fetched {
			c.names[fetched] = b
		}
	}
	for library, b := range nodeLeft {
		if !c.instrumented(&b.nodeBoundary) {
			quoted(library)
		}
	}
	if c.sources, err = c.parsed(texts...); err != nil {
		return err
	}
	c.sources = slices.DeleteFunc(c.sources, func(f *source) bool { return isNodeHelper(f.Path) })
	c.spanning, c.byPath, c.variables = map[string]bool{}, map[string]*source{}, map[*source]map[string]*syntax.Node{}
	c.own = map[*source]*nodeNames{}
	manualDatabase, manualServer := "", ""
	for _, f := range c.sources {
		c.byPath[f.Path], c.own[f] = f, namesOf(f)
		for _, i := range f.Imports {
			c.packages = append(c.packages, i.Path)
		}
		for _, s := range f.uses.Spans {
			for fn := s.Start.Enclosing(syntax.Func); fn != nil; fn = fn.Enclosing(syntax.Func) {
				c.spanning[functionName(fn)] = true
			}
		}
		c.auto = c.auto || slices.Contains(f.uses.Instrumented, "auto")
		if bytes.Contains(f.Source, []byte("db.system")) || bytes.Contains(f.Source, []byte("ATTR_DB_SYSTEM")) {
			manualDatabase = f.Path
		}
		if bytes.Contains(f.Source, []byte("SpanKind.SERVER")) {
			manualServer = f.Path
		}
		if mounted.Match(f.Source) {
			c.parametric = f.Path
		}
		if bytes.Contains(f.Source, []byte("enableOpenTelemetryTracing")) {
			c.packages = append(c.packages, "pubsub-opentelemetry")
		}
	}
	delete(c.spanning, "")
	left := func(b *nodeBoundary) bool {
		return c.instrumented(b) || manualDatabase != "" && b.wrap == "traceDatabase" || manualServer != "" && strings.Contains(nodeSteps[b.wrap], "server span")
	}
	c.decorated = slices.DeleteFunc(c.decorated, left)
	maps.DeleteFunc(c.names, func(_ string, b *nodeBoundary) bool { return left(b) })
	for name := range c.methods {
		c.methods[name] = slices.DeleteFunc(c.methods[name], left)
	}
	if manualDatabase != "" {
		c.leave(manualDatabase, 0, "Calls of databases are left: the code starts spans for them itself")
	}
	return nil
}

// functionName returns the name of a function, or of the variable or property that holds it.
func functionName(fn *syntax.Node) string {
	if fn.Text != "" || fn.Parent == nil {
		return fn.Text
	}
	switch p := fn.Parent; p.Kind {
	case syntax.Assign, syntax.Pair:
		return p.Children[0].Text
	}
	return ""
}

// find returns the nodes to wrap in a file, in source order. It returns none if the context ends.
func (c *nodeCode) find(f *source) []nodeWrap {
	var found []nodeWrap
	starts := map[int]bool{}
	functions := map[string]*syntax.Node{}
	for n := range f.Root.All(syntax.Func) {
		functions[functionName(n)] = n
	}
	delete(functions, "")
	for _, i := range f.Imports {
		b, ok := nodeLeft[i.Path]
		if !ok || c.noted[i.Path] || len(f.uses.Spans) > 0 {
			continue
		}
		c.noted[i.Path] = true
		if !c.instrumented(&b.nodeBoundary) {
			c.leave(f.Path, f.LineOf(i.Node.Start), b.text)
		}
	}
	spans := newRanges(f.uses)
	browser := c.names[fetched] != nil && c.inBrowser(f)
	removes := removed.Match(f.Source)
	full := func(at int) bool {
		switch {
		case c.count == maxServiceBoundaries:
			c.leave("", 0, fmt.Sprintf("The service %s has more than %d handlers and clients: the others are left", c.name, maxServiceBoundaries))
		case len(found) == maxFileBoundaries:
			c.leave(f.Path, f.LineOf(at), fmt.Sprintf("The file has more than %d handlers and clients: the others are left", maxFileBoundaries))
		default:
			c.count++
			return false
		}
		return true
	}
	for n := range f.Root.All() {
		if n.Kind == syntax.Class {
			for _, w := range c.decorate(f, n, spans) {
				if full(w.start) {
					return found
				}
				found = append(found, w)
			}
		}
		if n.Kind != syntax.Call && n.Kind != syntax.New {
			continue
		}
		if c.ctx.Err() != nil {
			return nil
		}
		b, maker := c.match(f, n)
		if b == nil || slices.ContainsFunc(n.Args(), func(a *syntax.Node) bool { return a.Kind == syntax.Object && a.Get("telemetry") != nil }) {
			continue
		}
		for _, target := range c.targets(f, n, b, maker) {
			if starts[target.Start] || c.covered(n, target, b, functions, spans, browser) {
				continue
			}
			switch why := unfit(f, b, target, functions, removes); {
			case why != "":
				c.leaveHandler(f, target.Start, b, why)
				continue
			case b.library == fetched && c.own[f].globals[fetched] != nil:
				c.leaveBoundary(f.Path, f.LineOf(n.Start), patch.Boundary{SpanKind: nodeKinds[b.wrap], Library: fetched}, "The call of `fetch` is left: the file gives this name to something else as well")
				continue
			case full(target.Start):
				return found
			}
			starts[target.Start] = true
			found = append(found, nodeWrap{b, target.Start, target.End, c.arguments(f, n, b, maker, target)})
		}
	}
	return found
}

// browserPath matches paths of code for browsers.
var browserPath = regexp.MustCompile(`(?i)(^|/)(public|static|assets|www|browser|client|frontend)/|\.[jt]sx$`)

// inBrowser reports whether a file is code for browsers: it has such a path, uses a global variable of browsers, or
// fetches a URL without a host.
func (c *nodeCode) inBrowser(f *source) bool {
	if browserPath.MatchString(strings.TrimPrefix(f.Path, c.dir+"/")) {
		return true
	}
	for n := range f.Root.All() {
		switch n.Kind {
		case syntax.Member:
			object := n.Children[0]
			if object.Kind == syntax.Name && (object.Text == "document" || object.Text == "window") && f.Definition(object) == nil {
				return true
			}
		case syntax.Call:
			if a := n.Arg(0); a != nil && n.Callee().Kind == syntax.Name && n.Callee().Text == fetched && hostless.Match(f.Source[a.Start:min(a.End, a.Start+3)]) {
				return true
			}
		}
	}
	return false
}

// hostless matches the beginning of a string literal with a URL without a host.
var hostless = regexp.MustCompile("^['\"`]/[^/]")

// covered reports whether a call needs no span: the code starts one, or the call is a fetch in a browser.
func (c *nodeCode) covered(n, target *syntax.Node, b *nodeBoundary, functions map[string]*syntax.Node, spans ranges, browser bool) bool {
	switch {
	case b.library == fetched:
		return spans.around(n) || browser
	case b.place == wholeCall:
		return traces(n.Parent)
	case traces(target) || spans.inside(target):
		return true
	}
	fn := functions[target.Text]
	return target.Kind != syntax.Func && (c.spanning[target.Text] || fn != nil && spans.inside(fn))
}

// leaveHandler adds a step for a handler that is not wrapped.
func (c *nodeCode) leaveHandler(f *source, at int, b *nodeBoundary, why string) {
	c.leaveBoundary(f.Path, f.LineOf(at), patch.Boundary{SpanKind: nodeKinds[b.wrap], Library: b.library}, "The handler of `"+b.library+"` is left: "+why)
}

// decorate returns decorators for the handlers among the methods of a class.
func (c *nodeCode) decorate(f *source, class *syntax.Node, spans ranges) (found []nodeWrap) {
	for _, b := range c.decorated {
		if !f.ImportsAny(b.library) {
			continue
		}
		processor, processes := c.decorator(f, class, b.library, []string{"Processor"})
		for _, fn := range class.Children {
			if fn.Kind != syntax.Func {
				continue
			}
			mark, marked := c.decorator(f, fn, b.library, b.decorators)
			if !marked && (b.method == "" || b.method != fn.Text || !processes) {
				continue
			}
			if spans.inside(fn) || slices.ContainsFunc(fn.Children, func(d *syntax.Node) bool {
				return d.Kind == syntax.Decorator && telling.Match(f.Source[d.Start:min(d.End, d.Start+64)])
			}) {
				continue
			}
			if b.callback && len(fn.Params()) > 1 {
				c.leaveHandler(f, fn.Start, b, "it ends by a callback")
				continue
			}
			text := "@" + b.wrap + "(" + c.decoration(f, b, fn, mark, processor) + ")"
			if indent, alone := indentOf(f.Source, fn.Start); alone {
				text += newline(f.Source) + indent
			} else {
				text += " "
			}
			found = append(found, nodeWrap{b, fn.Start, fn.Start, text})
		}
	}
	return found
}

// decorator returns the call of a decorator of a library that a class or method has, nil if it is not a call, and
// whether there is one.
func (c *nodeCode) decorator(f *source, n *syntax.Node, library string, names []string) (call *syntax.Node, ok bool) {
	for _, d := range n.Children {
		if d.Kind != syntax.Decorator || len(d.Children) == 0 {
			continue
		}
		expression := d.Children[0]
		if expression.Kind == syntax.Call {
			call, expression = expression, expression.Callee()
		}
		if module, name, ok := c.origin(f, expression); ok && module == library && slices.Contains(names, name) {
			return call, true
		}
		call = nil
	}
	return nil, false
}

// decoration returns the arguments of the decorator of a method that has a decorator of the library, or whose class has
// one.
func (c *nodeCode) decoration(f *source, b *nodeBoundary, method, mark, processor *syntax.Node) string {
	q := quoteOf(f)
	if b.wrap == "TracedJob" {
		if name := c.decoratedName(f, mark); name != nil {
			if code := destination(f, name); code != "undefined" {
				return code
			}
		}
		if plainText.MatchString(method.Text) {
			return q + method.Text + q
		}
		return q + "job" + q
	}
	var queue *syntax.Node
	if processor != nil {
		if queue = processor.Arg(0); queue != nil && queue.Kind == syntax.Object {
			queue = queue.Get("name")
		}
	}
	return q + b.system + q + ", " + destination(f, queue)
}

// decoratedName returns the name that the decorator of a scheduled job gives it, or nil: @Cron(TIME, {name: NAME}),
// @Interval(NAME, TIME), @Timeout(NAME, TIME).
func (c *nodeCode) decoratedName(f *source, mark *syntax.Node) *syntax.Node {
	if mark == nil || mark.Arg(1) == nil {
		return nil
	}
	if options := mark.Arg(1); options.Kind == syntax.Object {
		return options.Get("name")
	}
	if _, decorator, _ := c.origin(f, mark.Callee()); decorator == "Cron" {
		return nil
	}
	return mark.Arg(0)
}

// telling matches names of functions that probably start spans.
var telling = regexp.MustCompile(`(?i)trac(e|ing)|span|otel|telemetry|instrument`)

// traces reports whether an expression calls a function whose name matches telling.
func traces(n *syntax.Node) bool {
	return n != nil && n.Kind == syntax.Call && (n.Callee().Kind == syntax.Name || n.Callee().Kind == syntax.Member) && telling.MatchString(n.Callee().Text)
}

// match returns the boundary of a call, or nil. For a method call it also returns the construction of the receiver.
func (c *nodeCode) match(f *source, n *syntax.Node) (b *nodeBoundary, maker *syntax.Node) {
	if module, name, ok := c.origin(f, n.Callee()); ok {
		if b := c.names[module+" "+name]; b != nil {
			return b, nil
		}
	} else if callee := n.Callee(); callee.Kind == syntax.Name && callee.Text == fetched && n.Kind == syntax.Call && f.Definition(callee) == nil && !c.hidden(f, callee, nil) {
		return c.names[fetched], nil
	}
	receiver, method := n.Method()
	if receiver == nil || n.Kind != syntax.Call {
		return nil, nil
	}
	for _, b := range c.methods[method] {
		if len(b.on) > 0 {
			if event := n.Arg(0); event == nil || event.Kind != syntax.String || !slices.Contains(b.on, event.Text) {
				continue
			}
		}
		maker := c.made(f, receiver, b.library)
		if maker != nil || f.ImportsAny(b.library) && (b.loose || b.library == "ws" && connected(f.File, receiver)) {
			return b, maker
		}
	}
	return nil, nil
}

// origin returns the module and the exported name that an expression refers to: "pg" and "Pool" for Pool, pg.Pool and
// require("pg").Pool. The name of a default export, and of the module itself, is empty.
func (c *nodeCode) origin(f *source, n *syntax.Node) (module, name string, ok bool) {
	var parts []string
	for range 8 {
		switch n.Kind {
		case syntax.Member:
			if n.Text != "default" {
				parts = append(parts, n.Text)
			}
			n = n.Children[0]
			continue
		case syntax.Call:
			if receiver, method := n.Method(); method == "verbose" && receiver != nil { // of sqlite3
				n = receiver
				continue
			}
			if !c.loads(f, n) || n.Arg(0) == nil || n.Arg(0).Kind != syntax.String {
				return "", "", false
			}
			module = n.Arg(0).Text
		case syntax.Name:
			def := f.Definition(n)
			if c.hidden(f, n, def) {
				return "", "", false
			}
			i, imported := f.Imported(n.Text)
			if imported && i.Node.Kind == syntax.Call && i.Node.Callee().Text == "require" && !c.loads(f, i.Node) {
				return "", "", false
			}
			if imported && (def == nil || def.Kind == syntax.Assign && i.Node.Within(def)) {
				module = i.Path
				if i.Member != "" && i.Member != "default" && i.Member != "*" {
					parts = append(parts, i.Member)
				}
				break
			}
			if def == nil || def.Kind != syntax.Assign || len(def.Children) != 2 || def.Children[0].Kind != syntax.Name {
				return "", "", false
			}
			n = def.Value()
			continue
		default:
			return "", "", false
		}
		if module == "http" || module == "https" {
			module = "node:" + module
		}
		slices.Reverse(parts)
		return module, strings.Join(parts, "."), true
	}
	return "", "", false
}

// loads reports whether a call loads a module with require.
func (c *nodeCode) loads(f *source, call *syntax.Node) bool {
	callee := call.Callee()
	if callee.Kind != syntax.Name || callee.Text != "require" {
		return false
	}
	def := f.Definition(callee)
	return !c.hidden(f, callee, def) && (def == nil || def.Kind == syntax.Assign && creates(def.Value()))
}

// made returns the first call or construction of a library that leads to an expression, such as new Kafka() for
// kafka.consumer(), or nil. The expression may be a variable that another file of the service exports.
func (c *nodeCode) made(f *source, n *syntax.Node, library string) *syntax.Node {
	for range 8 {
		switch n.Kind {
		case syntax.Call, syntax.New:
			if module, _, ok := c.origin(f, n.Callee()); ok && module == library {
				return n
			}
			if args := n.Args(); nodeSteps[n.Callee().Text] != "" && len(args) > 0 {
				n = args[len(args)-1] // the value that the helpers return
				continue
			}
			n = n.Callee()
		case syntax.Await:
			if len(n.Children) == 0 {
				return nil
			}
			n = n.Children[0]
		case syntax.Name, syntax.Member:
			if n.Kind == syntax.Member && n.Children[0].Text != "this" {
				n = n.Children[0]
				continue
			}
			def := f.Definition(n)
			if n.Kind == syntax.Name && c.hidden(f, n, def) {
				return nil
			}
			if i, ok := f.Imported(n.Text); ok && n.Kind == syntax.Name && relative(i.Path) && (def == nil || i.Node.Within(def)) {
				if f, n = c.exported(f, i); n == nil {
					return nil
				}
				continue
			}
			switch {
			case def == nil:
				return nil
			case def.Kind == syntax.Assign && len(def.Children) == 2 && !def.Within(n):
				n = def.Value()
			default:
				name, _, _ := strings.Cut(def.Type, "<")
				root, _, _ := strings.Cut(name, ".")
				if i, ok := f.Imported(root); ok && i.Path == library {
					return def
				}
				return nil
			}
		default:
			return nil
		}
	}
	return nil
}

// exported returns the value of a variable that another file of the service exports, and that file, or nil.
func (c *nodeCode) exported(f *source, i syntax.Import) (*source, *syntax.Node) {
	base := path.Join(path.Dir(f.Path), i.Path)
	stem := strings.TrimSuffix(base, path.Ext(base))
	for _, name := range []string{base, stem + ".ts", base + ".ts", base + ".js", base + "/index.ts", base + "/index.js"} {
		g := c.byPath[name]
		if g == nil {
			continue
		}
		if c.variables[g] == nil {
			c.variables[g] = map[string]*syntax.Node{}
			for _, n := range g.Root.Children {
				if n.Kind == syntax.Assign && len(n.Children) == 2 {
					c.variables[g][n.Children[0].Text] = n.Value() // exports.queue as well
				}
			}
		}
		if i.Member == "" {
			return g, c.variables[g]["exports"] // of module.exports
		}
		return g, c.variables[g][i.Member]
	}
	return nil, nil
}

// connected reports whether a receiver is the parameter of a handler of connections.
func connected(f *syntax.File, receiver *syntax.Node) bool {
	def := f.Definition(receiver)
	if receiver.Kind != syntax.Name || def == nil || def.Kind != syntax.Param || def.Parent == nil || def.Parent.Parent == nil {
		return false
	}
	fn, call := def.Parent, def.Parent.Parent
	if call.Kind != syntax.Call || call.Arg(1) != fn || fn.Children[0] != def {
		return false
	}
	_, method := call.Method()
	return method == "on" && call.Arg(0).Text == "connection"
}

// targets returns the parts of a call that are wrapped.
func (c *nodeCode) targets(f *source, n *syntax.Node, b *nodeBoundary, maker *syntax.Node) []*syntax.Node {
	if b.library == fetched {
		return []*syntax.Node{n.Callee()}
	}
	switch b.place {
	case wholeCall:
		if b.wrap == "traceExpress" && c.parametric != "" {
			c.leave(f.Path, f.LineOf(n.Start), "The application of `express` is left: the routes of routers below paths with parameters, as in `"+c.parametric+"`, are not known")
			return nil
		}
		if n.Parent.Kind == syntax.New && n.Parent.Callee() == n {
			return nil
		}
		return []*syntax.Node{n}
	case oneArgument:
		if a := n.Arg(b.index); a != nil && a.Kind != syntax.Null {
			return []*syntax.Node{a}
		}
	case lastArgument:
		args := n.Args()
		if len(args) == 0 || b.wrap == "traceHandler" && (args[len(args)-1].Kind == syntax.Object || c.application(f, args[len(args)-1])) {
			return nil
		}
		for _, a := range slices.Backward(args) { // options may follow
			if a.Kind == syntax.Func {
				return []*syntax.Node{a}
			}
		}
		return args[len(args)-1:]
	case members:
		object := n.Arg(b.index)
		if object == nil {
			return nil
		}
		if v := f.Value(object); v != nil {
			object = v
		}
		if c.options[object] {
			return nil
		}
		c.options[object] = true
		if object.Kind != syntax.Object {
			if maker != nil || b.method == "" { // otherwise it may be a method of something else
				c.leaveHandler(f, n.Start, b, "its options are in another place")
			}
			return nil
		}
		var found []*syntax.Node
		for _, m := range object.Children {
			name := m.Text // of a method
			if m.Kind == syntax.Pair {
				name = m.Children[0].Text
			}
			switch {
			case !slices.Contains(b.options, name):
			case m.Kind == syntax.Pair && m.Children[0].Start != m.Value().Start:
				found = append(found, m.Value())
			case m.Kind == syntax.Pair || m.Kind == syntax.Func:
				c.leaveHandler(f, m.Start, b, "write it as `"+name+": ...` and run this again")
			}
		}
		return found
	}
	return nil
}

// application reports whether an expression is an application of a framework, which is wrapped itself.
func (c *nodeCode) application(f *source, n *syntax.Node) bool {
	return slices.ContainsFunc([]string{"express", "koa", "fastify"}, func(l string) bool { return c.made(f, n, l) != nil })
}

// mounted matches routers that are mounted below paths with parameters.
var mounted = regexp.MustCompile("\\.use\\(\\s*['\"`][^'\"`\n]*[:*]")

var generator = regexp.MustCompile(`^(async\s+)?function\s*\*`)

// removed matches calls that remove an event handler.
var removed = regexp.MustCompile(`\.(off|removeListener)\(`)

// unfit returns why a handler cannot be wrapped, "" if it can. removes reports whether the file removes handlers.
func unfit(f *source, b *nodeBoundary, handler *syntax.Node, functions map[string]*syntax.Node, removes bool) string {
	if b.place == wholeCall {
		return ""
	}
	switch handler.Kind {
	case syntax.Func, syntax.Name, syntax.Member, syntax.Call:
	case syntax.String, syntax.Template:
		return "it runs in a process of its own, from another file"
	default:
		return "it is not a function or the name of one"
	}
	fn := handler
	if handler.Kind != syntax.Func {
		fn = functions[handler.Text]
	}
	switch {
	case len(b.on) > 0 && handler.Kind != syntax.Func && removes:
		return "the file removes handlers, which have to be the same functions"
	case fn != nil && generator.Match(f.Source[fn.Start:min(fn.End, fn.Start+64)]):
		return "it is a generator"
	case b.callback && fn == nil:
		return "it is in another place, and may end by a callback"
	case b.callback && len(fn.Params()) > 1:
		return "it ends by a callback"
	}
	return ""
}

// plainText matches strings that need no escaping between quotes.
var plainText = regexp.MustCompile(`^[\w .:/@{}*#$-]{1,100}$`)

// arguments returns the arguments of a helper function that precede the wrapped code.
func (c *nodeCode) arguments(f *source, n *syntax.Node, b *nodeBoundary, maker, target *syntax.Node) string {
	q := quoteOf(f)
	switch b.wrap {
	case "traceDatabase":
		return q + b.system + q + ", "
	case "traceJob":
		return jobName(f, n, b, target) + ", "
	case "traceProcess", "traceProducer":
	default:
		return ""
	}
	var name *syntax.Node
	switch {
	case b.named >= 0:
		name = n.Arg(b.named)
	case b.maker && (maker.Kind == syntax.New || maker.Kind == syntax.Call):
		name = maker.Arg(0)
		if name != nil && name.Kind != syntax.String {
			name = nil // maybe not in scope here
		}
	}
	if name == target {
		name = nil
	}
	return q + b.system + q + ", " + destination(f, name) + ", "
}

// destination returns the code for the name of a destination, or "undefined" if evaluating the expression may have
// side effects.
func destination(f *source, name *syntax.Node) string {
	switch {
	case name == nil:
	case name.Kind == syntax.String && plainText.MatchString(name.Text):
		return quoteOf(f) + name.Text + quoteOf(f)
	case reference(name):
		return f.Code(name)
	}
	return "undefined"
}

// reference reports whether an expression is a name or a member of one, which has no side effects.
func reference(n *syntax.Node) bool { return n.Inner(syntax.Member).Kind == syntax.Name }

// generic are file names that do not describe a job.
var generic = []string{"app", "index", "main", "server"}

// jobName returns the code for the name of a scheduled job: the name in the program, or the name of its function, of
// the function that it calls, of the variable that holds the job, or of the file, or the schedule.
func jobName(f *source, n *syntax.Node, b *nodeBoundary, handler *syntax.Node) string {
	schedule := n.Arg(0)
	var given *syntax.Node
	if b.library == "node-schedule" && len(n.Args()) > 2 {
		given, schedule = n.Arg(0), n.Arg(1)
	}
	for _, a := range n.Args() {
		if name := a.Get("name"); name != nil {
			given = name
		}
		if time := a.Get("cronTime"); time != nil {
			schedule = time
		}
	}
	if code := destination(f, given); code != "undefined" {
		return code
	}
	names := []string{handler.Text}
	if handler.Kind == syntax.Func {
		names[0] = functionName(handler)
		if names[0] == "onTick" {
			names[0] = ""
		}
		body := handler.Body()
		if body.Kind == syntax.Block && len(body.Children) == 1 {
			body = body.Children[0]
		}
		for (body.Kind == syntax.Await || body.Kind == syntax.Return) && len(body.Children) == 1 {
			body = body.Children[0]
		}
		if body.Kind == syntax.Call {
			if receiver, called := body.Method(); receiver == nil || receiver.Text != "console" {
				names = append(names, called)
			}
		}
	}
	if p := n.Parent; p != nil && p.Kind == syntax.Assign {
		names = append(names, p.Children[0].Text)
	}
	stem, _, _ := strings.Cut(path.Base(f.Path), ".")
	if !slices.Contains(generic, stem) {
		names = append(names, stem)
	}
	if schedule != nil && schedule.Kind == syntax.String {
		names = append(names, schedule.Text)
	}
	for _, name := range append(names, stem) {
		if plainText.MatchString(name) {
			return quoteOf(f) + name + quoteOf(f)
		}
	}
	return quoteOf(f) + "job" + quoteOf(f)
}
