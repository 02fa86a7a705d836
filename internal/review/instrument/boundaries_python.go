// SPDX-License-Identifier: Apache-2.0

package instrument

import (
	"bytes"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"assay"
	"assay/internal/review/configfile"
	"assay/internal/review/patch"
	"assay/internal/review/syntax"
	"assay/internal/review/treesitter"
)

// Limits of the boundaries that get code.
const (
	maxFileBoundaries    = 100
	maxServiceBoundaries = 500
)

// pythonVendors are tracers that are not added to: distributions, and modules.
var (
	pythonVendors       = []string{"ddtrace", "elastic-apm", "newrelic", "sentry-sdk", "instana", "appdynamics", "aws-xray-sdk", "lightstep", "signalfx-tracing", "apache-skywalking", "scout-apm", "opentracing", "jaeger-client", "opencensus", "py-zipkin"}
	pythonVendorModules = []string{"ddtrace", "elasticapm", "newrelic", "sentry_sdk", "instana", "appdynamics", "aws_xray_sdk", "lightstep", "signalfx_tracing", "skywalking", "scout_apm", "opentracing", "jaeger_client", "opencensus", "py_zipkin"}
)

// pythonAutomatic are the dependencies with which `opentelemetry-instrument` or a call of their own instruments libraries.
var pythonAutomatic = []string{"opentelemetry-distro", "azure-monitor-opentelemetry", "splunk-opentelemetry", "elastic-opentelemetry", "aws-opentelemetry-distro", "logfire"}

const pythonPackagePrefix = "opentelemetry-instrumentation-"

// pythonBoundaries adds spans and metrics to handlers, consumers and calls of a service in Python that nothing instruments.
// It reports whether the service has OpenTelemetry.
func (s *service) pythonBoundaries() (bool, error) {
	p := &pythonService{service: s, installed: map[string]bool{}, missing: map[string]bool{}, manual: map[string]bool{}, known: map[string]bool{}, modules: map[string][]*pythonFile{}}
	if !p.dependencies() {
		return false, nil
	}
	for _, name := range s.paths() {
		p.known[name] = true
		for dir := path.Dir(name); !p.known[dir]; dir = path.Dir(dir) {
			p.known[dir] = true
		}
	}
	sources, err := s.parsed(pythonMarks()...)
	if err != nil {
		return false, err
	}
	for _, f := range sources {
		if f.ImportsAny(pythonVendorModules...) {
			s.leave(f.Path, 0, "Nothing is added to the code of the service: the file uses the tracer of another vendor")
			return true, nil
		}
		for _, library := range f.uses.Instrumented {
			p.installed[strings.ReplaceAll(library, "_", "-")] = true
		}
	}
	if p.installed["auto"] {
		p.all = true
	}
	for _, f := range sources {
		file, module := p.index(f), strings.TrimSuffix(path.Base(f.Path), ".py")
		p.files, p.modules[module] = append(p.files, file), append(p.modules[module], file)
	}
	for _, f := range p.files {
		f.middleware()
	}
	for _, f := range p.files {
		if err := s.ctx.Err(); err != nil {
			return false, err
		}
		f.find()
		if f.Exhausted() {
			return false, assay.Errorf(assay.CodeUnprocessable, "%s: %w", f.Path, treesitter.ErrTooComplex)
		}
	}
	if p.count > maxServiceBoundaries {
		s.leave(p.manifest.Path, 0, fmt.Sprintf("The service has %d boundaries without spans: those after the first %d are left", p.count, maxServiceBoundaries))
	}
	install := "Install and set up"
	if p.automatic {
		install = "Install"
	}
	for _, name := range slices.Sorted(maps.Keys(p.missing)) {
		s.leave(p.manifest.Path, 0, install+" `"+pythonPackagePrefix+name+"`, which instruments a library that the code uses")
	}
	p.change()
	return true, nil
}

// pythonMarks returns texts that the files with boundaries have.
func pythonMarks() []string {
	marks := []string{".execute(", "http.server", "google.cloud", "SpanKind."} // connections of other modules, and spans
	for root := range pythonBoundaryTable {
		if root != "http" && root != "google" { // which many files have
			marks = append(marks, root)
		}
	}
	return marks
}

// pythonService is a service whose boundaries are looked for.
type pythonService struct {
	*service
	manifest  *configfile.File // that has OpenTelemetry
	all       bool             // every library that has a package is instrumented
	automatic bool             // installed packages instrument without code
	installed map[string]bool  // packages after their prefix
	missing   map[string]bool  // packages that would instrument a library
	manual    map[string]bool  // kinds of spans that code outside of handlers starts, such as a middleware
	known     map[string]bool  // files of the service, and their directories
	files     []*pythonFile
	modules   map[string][]*pythonFile // by the last part of their names
	count     int
}

// dependencies reads what instruments the service. It reports whether code can be added.
func (p *pythonService) dependencies() bool {
	api := false
	for _, m := range p.manifests {
		if p.service.files[m.Path] != nil { // minimum adds to it
			api, p.automatic, p.manifest = true, true, m
			for _, e := range p.service.files[m.Path].Edits {
				for _, name := range regexp.MustCompile(pythonPackagePrefix+`([a-z0-9-]+)`).FindAllStringSubmatch(e.New, -1) {
					p.installed[name[1]] = true
				}
			}
		}
		for _, d := range m.Dependencies {
			name := strings.ReplaceAll(strings.ToLower(d.Name), "_", "-")
			if slices.Contains(pythonVendors, name) {
				p.leave(m.Path, lineOf(m.Source, d.Start), "Nothing is added to the code of the service: `"+d.Name+"` has a tracer of its own")
				return false
			}
			if d.Development {
				continue
			}
			if library, ok := strings.CutPrefix(name, pythonPackagePrefix); ok {
				p.installed[library] = true
			}
			p.automatic = p.automatic || slices.Contains(pythonAutomatic, name)
			if !api && (p.automatic || name == "opentelemetry-api" || name == "opentelemetry-sdk") {
				api, p.manifest = true, m
			}
		}
	}
	for _, f := range p.dockerfiles("cpython") {
		p.all = p.all || mentions(f, "opentelemetry-bootstrap")
	}
	return api
}

// covered reports whether packages instrument a boundary, or would without a change of the code.
func (p *pythonService) covered(b *pythonBoundary) bool {
	for _, name := range b.packages {
		if name != "" && p.installed[name] {
			return true
		}
	}
	if p.manual[pythonHelpers[b.helper].kind] {
		return true
	}
	first := b.packages[0]
	if first == "" || p.all {
		return first != ""
	}
	if p.automatic || b.form == pythonPackage {
		p.missing[first] = true
		return true
	}
	return false
}

// pythonFile is a file with its edits.
type pythonFile struct {
	*source
	p          *pythonService
	place      pythonPlace
	spans      []int                // where spans start, sorted
	bodies     map[*syntax.Node]int // where code in a span begins
	generators map[*syntax.Node]bool
	functions  map[string][]*syntax.Node
	names      map[string][]*syntax.Node // definitions of variables and parameters, in the order of the source
	attributes map[string][]*syntax.Node // values of attributes of self, without None
	own        map[string]bool           // names that the file imports from the helper module
	ownEnd     int                       // end of the last of them
	edits      []pythonEdit
	helpers    map[string]bool
	steps      []patch.Step
	done       map[*syntax.Node]bool // functions that get a span
	omitted    int
}

// pythonEdit inserts text.
type pythonEdit struct {
	at   int
	text string
}

const pythonHelperModule = "otel_boundaries"

// index returns a file with what it defines.
func (p *pythonService) index(s *source) *pythonFile {
	f := &pythonFile{
		source: s, p: p, bodies: map[*syntax.Node]int{}, generators: map[*syntax.Node]bool{}, functions: map[string][]*syntax.Node{},
		names: map[string][]*syntax.Node{}, attributes: map[string][]*syntax.Node{}, own: map[string]bool{}, helpers: map[string]bool{}, done: map[*syntax.Node]bool{},
	}
	for _, span := range s.uses.Spans {
		f.spans = append(f.spans, span.Start.Start)
		if span.Body != nil {
			if at, ok := f.bodies[span.Body]; !ok || span.Start.Start < at {
				f.bodies[span.Body] = span.Start.Start
			}
		}
	}
	slices.Sort(f.spans)
	for _, i := range s.Imports {
		if path.Ext("."+i.Path) == "."+pythonHelperModule {
			f.own[i.Name] = true
			f.ownEnd = max(f.ownEnd, i.Node.End)
		}
	}
	for n := range s.Root.All() {
		switch {
		case n.Kind == syntax.Await && n.Text == "yield":
			if fn := n.Enclosing(syntax.Func); fn != nil {
				f.generators[fn] = true
			}
		case n.Kind == syntax.Func && n.Text != "":
			f.functions[n.Text] = append(f.functions[n.Text], n)
		case n.Kind == syntax.Param:
			f.names[n.Text] = append(f.names[n.Text], n)
		case n.Kind == syntax.Assign || n.Kind == syntax.Declare:
			for _, t := range n.Targets() {
				f.bind(t, n)
			}
		}
	}
	for _, defs := range f.names { // the body of a comprehension stands before its variables
		slices.SortStableFunc(defs, func(a, b *syntax.Node) int { return a.Start - b.Start })
	}
	return f
}

// find finds the edits of a file.
func (f *pythonFile) find() {
	for n := range f.Root.All() {
		switch n.Kind {
		case syntax.Decorator:
			if n.Parent.Kind == syntax.Func {
				f.decorator(n)
			}
		case syntax.Class:
			f.class(n)
		case syntax.Call:
			f.call(n)
		case syntax.Assign:
			if t := n.Children[0]; len(n.Children) == 2 && n.Text == "=" && t.Kind == syntax.Member {
				if b := f.match(t, pythonAttribute); b != nil {
					f.callback(b, n.Value(), "")
				}
			}
		}
	}
	if f.omitted > 0 {
		f.p.leave(f.Path, 0, fmt.Sprintf("The file has %d boundaries more than the %d that get spans", f.omitted, maxFileBoundaries))
	}
}

// startedKinds match the kinds of spans that a middleware starts.
var startedKinds = map[string]*regexp.Regexp{
	"SERVER":   regexp.MustCompile(`\bSpanKind\.SERVER\b`),
	"CONSUMER": regexp.MustCompile(`\bSpanKind\.CONSUMER\b`),
}

// middleware notes the kinds of spans that the file starts outside of functions that are registered as handlers.
func (f *pythonFile) middleware() {
	if path.Base(f.Path) == pythonHelperFile || !slices.ContainsFunc(slices.Collect(maps.Values(startedKinds)), func(r *regexp.Regexp) bool { return r.Match(f.Source) }) {
		return
	}
	handlers := map[*syntax.Node]bool{}
	for n := range f.Root.All() {
		switch n.Kind {
		case syntax.Decorator:
			c := n.Children[0]
			if c.Kind == syntax.Call {
				c = c.Callee()
			}
			if f.row(c, pythonDecorator) != nil {
				handlers[n.Parent] = true
			}
		case syntax.Call:
			if b := f.row(n.Callee(), pythonCallback, pythonRegistered); b != nil {
				if arg := f.registered(b, n); arg != nil {
					handlers[f.function(arg)] = true
				}
			}
		}
	}
	for kind, mark := range startedKinds {
		if !mark.Match(f.Source) {
			continue
		}
		inside := false
		for _, span := range f.uses.Spans {
			if strings.EqualFold(span.Kind, kind) {
				inside = handlers[span.Start.Enclosing(syntax.Func)]
				if !inside {
					break
				}
			}
		}
		if !inside {
			f.p.manual[kind] = true
		}
	}
}

// registered returns the argument with the function that a call registers, nil if there is none.
func (f *pythonFile) registered(b *pythonBoundary, call *syntax.Node) *syntax.Node {
	if arg := call.Named(b.keyword); arg != nil {
		return arg
	}
	return call.Arg(b.argument)
}

// bind notes the definition of the names in a target.
func (f *pythonFile) bind(target, def *syntax.Node) {
	switch target.Kind {
	case syntax.Name:
		f.names[target.Text] = append(f.names[target.Text], def)
	case syntax.Member:
		if v := def.Value(); v != nil && v.Kind != syntax.Null && ofSelf(target) {
			f.attributes[target.Text] = append(f.attributes[target.Text], v)
		}
	case syntax.List, syntax.Spread:
		for _, c := range target.Children {
			f.bind(c, def)
		}
	}
}

// ofSelf reports whether a member is one of the object or the class of a method.
func ofSelf(n *syntax.Node) bool {
	return n.Kind == syntax.Member && n.Children[0].Kind == syntax.Name && (n.Children[0].Text == "self" || n.Children[0].Text == "cls")
}

// definition returns the last definition of a variable before a use: in the function around it, or those around that. It
// returns nil if there is none.
func (f *pythonFile) definition(use *syntax.Node) *syntax.Node {
	const maxDefinitions = 32
	all := f.names[use.Text]
	at, _ := slices.BinarySearchFunc(all, use.Start, func(d *syntax.Node, at int) int { return d.Start - at })
	for scope := use.Enclosing(syntax.Func); ; scope = scope.Enclosing(syntax.Func) {
		for i := at - 1; i >= max(0, at-maxDefinitions); i-- {
			if all[i].Enclosing(syntax.Func) == scope {
				return all[i]
			}
		}
		if scope == nil {
			break
		}
	}
	for _, d := range all[at:min(len(all), at+maxDefinitions)] { // a variable of the module that is defined after the function
		if d.Enclosing(syntax.Func) == nil {
			return d
		}
	}
	return nil
}

// match returns the row of the table for an expression, nil if there is none or something covers it.
func (f *pythonFile) match(n *syntax.Node, forms ...pythonForm) *pythonBoundary {
	if b := f.row(n, forms...); b != nil && !f.p.covered(b) {
		return b
	}
	return nil
}

// row returns the row of the table for an expression, nil if there is none.
func (f *pythonFile) row(n *syntax.Node, forms ...pythonForm) *pythonBoundary {
	named := f.qualified(n, 0)
	root, _, _ := strings.Cut(named, ".")
	rows := pythonBoundaryTable[root]
	for i := range rows {
		if b := &rows[i]; slices.Contains(forms, b.form) && b.path.MatchString(named) {
			return b
		}
	}
	return nil
}

// Limits of what is followed to the module that a name comes from.
const (
	maxQualified = 10  // names
	maxName      = 100 // bytes
)

// qualified returns what an expression stands for, from the imported module on, with "()" for calls: the name `db` after
// db = sqlite3.connect("a") is "sqlite3.connect()". It returns "" if that is unknown.
func (f *pythonFile) qualified(n *syntax.Node, depth int) string {
	if depth > maxQualified || len(n.Text) > maxName {
		return ""
	}
	after := func(base, more string) string {
		if base == "" {
			return ""
		}
		return base + more
	}
	switch n.Kind {
	case syntax.Name:
		if def := f.definition(n); def != nil {
			return f.defined(def, n, depth)
		}
		if i, ok := f.Imported(n.Text); ok && i.Member != "" {
			if named := f.p.variable(i.Path, i.Member, depth); named != "" {
				return named
			}
		}
		return f.imported(n.Text)
	case syntax.Member:
		if base := n.Children[0]; base.Kind == syntax.Name && f.definition(base) == nil {
			if i, ok := f.Imported(base.Text); ok {
				module := i.Path
				if i.Member != "" {
					module += "." + i.Member
				}
				if named := f.p.variable(module, n.Text, depth); named != "" {
					return named
				}
			}
		}
		if ofSelf(n) {
			if values := f.attributes[n.Text]; len(values) == 1 {
				return f.qualified(values[0], depth+1)
			}
			return ""
		}
		return after(f.qualified(n.Children[0], depth+1), "."+n.Text)
	case syntax.Call:
		return after(f.qualified(n.Callee(), depth+1), "()")
	case syntax.Await:
		if n.Text == "await" && len(n.Children) == 1 {
			return f.qualified(n.Children[0], depth+1)
		}
	}
	return ""
}

// variable returns what a variable of another module of the service stands for.
func (p *pythonService) variable(module, name string, depth int) string {
	files := p.modules[module[strings.LastIndexByte(module, '.')+1:]]
	if len(files) != 1 {
		return ""
	}
	for _, def := range slices.Backward(files[0].names[name]) {
		if def.Parent == files[0].Root && def.Kind == syntax.Assign && len(def.Children) == 2 && def.Children[0].Kind == syntax.Name {
			return files[0].qualified(def.Value(), depth+1)
		}
	}
	return ""
}

// imported returns the module or the member of one that a name is imported as.
func (f *pythonFile) imported(name string) string {
	i, ok := f.Imported(name)
	switch {
	case !ok || strings.HasPrefix(i.Path, "."):
		return ""
	case i.Member == "":
		return i.Path
	}
	return i.Path + "." + i.Member
}

// dottedName is a type of an annotation whose instances are known.
var dottedName = regexp.MustCompile(`^["']?([A-Za-z_]\w*)((?:\.\w+)*)["']?$`)

// defined returns what a definition gives a name.
func (f *pythonFile) defined(def, use *syntax.Node, depth int) string {
	if m := dottedName.FindStringSubmatch(def.Type); m != nil {
		if base := f.imported(m[1]); base != "" {
			return base + m[2] + "()"
		}
	}
	if def.Kind != syntax.Assign || def.Text == "in" || use.Within(def) {
		return ""
	}
	for _, t := range def.Targets() {
		if t.Kind == use.Kind && t.Text == use.Text {
			return f.qualified(def.Value(), depth+1)
		}
	}
	return ""
}

// decorator decorates the function below a decorator that registers it.
func (f *pythonFile) decorator(d *syntax.Node) {
	named := d.Children[0]
	var call *syntax.Node
	if named.Kind == syntax.Call {
		named, call = named.Callee(), named
	}
	b := f.match(named, pythonDecorator)
	if b == nil {
		return
	}
	if call != nil && f.probe(call) {
		return
	}
	helper := b.helper
	if b.helper == "trace_task" {
		helper += "(" + strconv.Quote(b.system) + f.destination(b, call) + ")"
	}
	f.decorate(b, d.Parent, d, helper)
}

// probes are routes of requests that orchestrators and monitoring send, which are not worth spans.
var probes = regexp.MustCompile(`(?i)^/?(healthz?|health[-_]?check|ready|readyz|readiness|live|livez|liveness|ping|metrics)/?$`)

// probe reports whether a call registers a handler of probes.
func (f *pythonFile) probe(call *syntax.Node) bool {
	return slices.ContainsFunc(call.Args(), func(a *syntax.Node) bool {
		route, ok := f.Known(a)
		return ok && probes.MatchString(route)
	})
}

// destination returns the argument with the name of a queue, "" if the code does not say it.
func (f *pythonFile) destination(b *pythonBoundary, call *syntax.Node) string {
	if call == nil {
		return ""
	}
	n := call.Named(b.queue)
	if n == nil && b.destination >= 0 {
		n = call.Arg(b.destination)
	}
	if n == nil {
		return ""
	}
	if name, ok := f.Known(n); ok && plainQueue.MatchString(name) {
		return ", " + strconv.Quote(name)
	}
	return ""
}

// plainQueue is a name of a queue without wildcards.
var plainQueue = regexp.MustCompile(`^[\w./:-]{1,128}$`)

// decorate adds a decorator to a function: below the decorator that registers it, if there is one.
func (f *pythonFile) decorate(b *pythonBoundary, fn, registers *syntax.Node, helper string) {
	if f.done[fn] || f.spanIn(fn) || f.traced(fn) {
		return
	}
	f.done[fn] = true
	if f.generators[fn] {
		f.leave(fn, "`"+fn.Text+"` is left: it is a generator, which runs after it returns")
		return
	}
	at, ok := f.def(fn)
	if !ok {
		return
	}
	line := at
	if registers != nil && !bytes.HasPrefix(f.Source[at:], []byte("async")) {
		last := -1
		for i, c := range fn.Children {
			if c.Kind == syntax.Decorator && f.registers(c, b) {
				last = i
			}
		}
		if next := fn.Children[last+1]; next.Kind == syntax.Decorator {
			at = next.Start
		}
	}
	indent, alone := indentOf(f.Source, at)
	if !alone {
		return
	}
	f.add(b, line, "`"+fn.Text+"`", pythonEdit{at, "@" + helper + newline(f.Source) + indent})
}

// registers reports whether a decorator is one of those of a boundary.
func (f *pythonFile) registers(d *syntax.Node, b *pythonBoundary) bool {
	n := d.Children[0]
	if n.Kind == syntax.Call {
		n = n.Callee()
	}
	return b.path.MatchString(f.qualified(n, 0))
}

// def returns the offset of `def` or `async def`.
func (f *pythonFile) def(fn *syntax.Node) (int, bool) {
	at := fn.Start
	for _, c := range fn.Children {
		if c.Kind == syntax.Decorator {
			at = c.End
		}
	}
	m := defKeyword.FindIndex(f.Source[at:fn.End])
	if m == nil {
		return 0, false
	}
	for m[0] < m[1] && f.Source[at+m[0]] != 'd' && f.Source[at+m[0]] != 'a' {
		line := bytes.IndexByte(f.Source[at+m[0]:], '\n')
		if next := f.Source[at+m[0]]; next == '#' {
			m[0] += line
		} else {
			m[0]++
		}
	}
	return at + m[0], true
}

// defKeyword matches what stands before the name of a function: comments between decorators too.
var defKeyword = regexp.MustCompile(`^(\s|#[^\n]*\n)*(async\s+)?def\b`)

// traced reports whether a function has a decorator that starts spans.
func (f *pythonFile) traced(fn *syntax.Node) bool {
	return slices.ContainsFunc(fn.Children, func(c *syntax.Node) bool { return c.Kind == syntax.Decorator && tracing.MatchString(f.Code(c)) })
}

// tracing matches decorators that start spans.
var tracing = regexp.MustCompile(`(?i)^@[\w.]*(trace|tracing|span|instrument|otel|telemetry|monitor)`)

// spanIn reports whether a span starts in a function.
func (f *pythonFile) spanIn(fn *syntax.Node) bool {
	i, _ := slices.BinarySearch(f.spans, fn.Start)
	return i < len(f.spans) && f.spans[i] < fn.End
}

// inSpan reports whether code runs in a span that the file starts.
func (f *pythonFile) inSpan(n *syntax.Node) bool {
	for up := n; up != nil; up = up.Parent {
		if at, ok := f.bodies[up]; ok && (at < n.Start || up.Kind == syntax.Func) {
			return true
		}
	}
	return false
}

// class decorates the methods of a class that extends a server.
func (f *pythonFile) class(c *syntax.Node) {
	for _, base := range c.Children {
		if base.Kind != syntax.Name && base.Kind != syntax.Member {
			continue
		}
		b := f.match(base, pythonMethods)
		if b == nil {
			continue
		}
		for _, m := range c.Children {
			if m.Kind == syntax.Func && strings.HasPrefix(m.Text, "do_") && !f.delegates(m) {
				f.decorate(b, m, nil, b.helper)
			}
		}
		return
	}
}

// delegates reports whether a method calls another one that gets a span.
func (f *pythonFile) delegates(m *syntax.Node) bool {
	for n := range m.All() {
		if n.Kind == syntax.Call {
			if recv, name := n.Method(); recv != nil && recv.Text == "self" && strings.HasPrefix(name, "do_") {
				return true
			}
		}
	}
	return false
}

// call wraps a call of a client, or a callback among its arguments.
func (f *pythonFile) call(n *syntax.Node) {
	if n.Parent != nil && n.Parent.Kind == syntax.Decorator || n.Callee().Kind != syntax.Member && n.Callee().Kind != syntax.Name {
		return
	}
	b := f.match(n.Callee(), pythonCallback, pythonRegistered, pythonCall, pythonPackage) // the last one notes the package
	if b == nil {
		return
	}
	switch b.form {
	case pythonCallback, pythonRegistered:
		arg := f.registered(b, n)
		if arg == nil || f.probe(n) {
			return
		}
		if b.form == pythonCallback {
			more := ""
			if strings.HasPrefix(pythonHelpers[b.helper].kind, "CONSUMER") {
				more = f.destination(b, n)
			}
			f.callback(b, arg, more)
		} else if fn := f.function(arg); fn != nil && fn.Parent == f.Root {
			f.decorate(b, fn, nil, b.helper)
		} else if arg.Kind == syntax.Name || arg.Kind == syntax.Member {
			f.leave(n, "The job `"+f.Code(arg)+"` is left: it is not a function of this file")
		}
	case pythonCall:
		f.client(b, n)
	}
}

// function returns the function of the file that a name refers to, nil if there is none or more than one.
func (f *pythonFile) function(n *syntax.Node) *syntax.Node {
	found := f.functions[n.Text]
	if len(found) != 1 || n.Kind == syntax.Name && f.definition(n) != nil {
		return nil
	}
	return found[0]
}

// function returns the function of another file that is imported, and the file, nil if they are not known.
func (p *pythonService) function(i syntax.Import) (*syntax.Node, *pythonFile) {
	files := p.modules[i.Path[strings.LastIndexByte(i.Path, '.')+1:]]
	if len(files) != 1 || len(files[0].functions[i.Member]) != 1 {
		return nil, nil
	}
	return files[0].functions[i.Member][0], files[0]
}

// callback wraps a function that a library calls.
func (f *pythonFile) callback(b *pythonBoundary, n *syntax.Node, more string) {
	if n.Kind != syntax.Name && n.Kind != syntax.Member {
		return // such as a function that is made for the call, or that is wrapped already
	}
	fn, in := f.function(n), f
	if i, ok := f.Imported(n.Text); ok && n.Kind == syntax.Name && f.definition(n) == nil {
		fn, in = f.p.function(i)
	} else if fn == nil {
		return // a variable, which may have been wrapped
	}
	if fn != nil {
		if in.done[fn] || in.spanIn(fn) || slices.ContainsFunc(fn.Children, func(c *syntax.Node) bool { return c.Kind == syntax.Decorator }) {
			return // a decorated function may not be what it looks like
		}
		if in.generators[fn] {
			f.leave(n, "`"+fn.Text+"` is left: it is a generator, which runs after it returns")
			return
		}
	}
	f.add(b, n.Start, "`"+f.Code(n)+"`", pythonEdit{n.Start, b.helper + "("}, pythonEdit{n.End, more + ")"})
}

// client wraps what a call in a function calls.
func (f *pythonFile) client(b *pythonBoundary, n *syntax.Node) {
	fn := n.Enclosing(syntax.Func)
	if fn == nil || fn.Text == "main" && fn.Parent == f.Root || f.inSpan(n) {
		return // what runs when the program starts has no request or message that a trace could begin with
	}
	more := ""
	switch b.helper {
	case "trace_http":
		if _, name := n.Method(); name != "request" {
			if i, ok := f.Imported(name); ok && n.Callee().Kind == syntax.Name {
				name = i.Member
			}
			more = ", " + strconv.Quote(strings.ToUpper(name))
		}
	case "trace_query":
		more = ", " + strconv.Quote(b.system)
		statement := n.Named(b.keyword)
		if statement == nil {
			statement = n.Arg(0)
		}
		for _, part := range statementOf(f.statement(statement)) {
			more += ", " + strconv.Quote(part)
		}
	}
	f.add(b, n.Start, "the call of `"+abbreviated(f.Code(n.Callee()))+"`", pythonEdit{n.Callee().Start, b.helper + "("}, pythonEdit{n.Callee().End, more + ")"})
}

// statement returns the text of a statement, as far as it is constant.
func (f *pythonFile) statement(n *syntax.Node) (text string, whole bool) {
	if n == nil {
		return "", false
	}
	if text, ok := f.Known(n); ok {
		return text, true
	}
	if n.Kind == syntax.Template && len(n.Children) > 0 && n.Children[0].Kind == syntax.String {
		return n.Children[0].Text, false
	}
	return "", false
}

var (
	sqlOperation = regexp.MustCompile(`(?i)^\s*(SELECT|INSERT|UPDATE|DELETE|REPLACE|MERGE|CREATE|DROP|ALTER|TRUNCATE|CALL|PRAGMA)\s`)
	sqlTable     = regexp.MustCompile(`(?i)\b(?:FROM|INTO|UPDATE|JOIN|TABLE(?:\s+IF\s+(?:NOT\s+)?EXISTS)?)\s+"?([a-z_][\w.]*)`)
)

// statementOf returns the operation of an SQL statement, and its table if it has one and no other.
func statementOf(text string, whole bool) []string {
	m := sqlOperation.FindStringSubmatch(text)
	if m == nil {
		return nil
	}
	out := []string{strings.ToUpper(m[1])}
	tables := sqlTable.FindAllStringSubmatch(text, 2)
	if whole && len(tables) == 1 && len(tables[0][1]) <= 128 {
		out = append(out, tables[0][1])
	}
	return out
}

// abbreviated returns the first part of code for a step.
func abbreviated(code string) string {
	if line, _, more := strings.Cut(code, "\n"); more || len(line) > 60 {
		return line[:min(len(line), 60)] + "…"
	}
	return code
}

// add adds the edits of a boundary.
func (f *pythonFile) add(b *pythonBoundary, at int, what string, edits ...pythonEdit) {
	f.p.count++
	if f.p.count > maxServiceBoundaries {
		return
	}
	if len(f.steps) == maxFileBoundaries {
		f.omitted++
		return
	}
	f.edits = append(f.edits, edits...)
	f.helpers[b.helper] = true
	h := pythonHelpers[b.helper]
	text := "Add a span of kind " + h.kind
	if h.metric != "" {
		text += " and `" + h.metric + "`"
	}
	line, _ := f.Position(at)
	f.steps = append(f.steps, patch.Step{File: f.Path, Line: line, Text: text + " to " + what + " by `" + b.helper + "`"})
}

func (f *pythonFile) leave(n *syntax.Node, text string) {
	line, _ := f.Position(n.Start)
	f.p.leave(f.Path, line, text)
}
