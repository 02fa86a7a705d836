// SPDX-License-Identifier: Apache-2.0

package instrument

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"assay"
	"assay/internal/review/configfile"
	"assay/internal/review/patch"
	"assay/internal/review/syntax"
	"assay/internal/review/treesitter"
)

// Tracers of other vendors, by distribution and by module. A service with one of them is not changed.
var (
	pythonVendors       = []string{"ddtrace", "elastic-apm", "newrelic", "sentry-sdk", "instana", "appdynamics", "aws-xray-sdk", "lightstep", "signalfx-tracing", "apache-skywalking", "scout-apm", "opentracing", "jaeger-client", "opencensus", "py-zipkin"}
	pythonVendorModules = []string{"ddtrace", "elasticapm", "newrelic", "sentry_sdk", "instana", "appdynamics", "aws_xray_sdk", "lightstep", "signalfx_tracing", "skywalking", "scout_apm", "opentracing", "jaeger_client", "opencensus", "py_zipkin"}
)

// pythonDistro instruments the libraries for which instrumentation packages are installed.
const pythonDistro = "opentelemetry-distro"

// pythonDistributions depend on instrumentation packages.
var pythonDistributions = []string{"azure-monitor-opentelemetry", "splunk-opentelemetry", "elastic-opentelemetry", "aws-opentelemetry-distro", "logfire"}

const pythonPackagePrefix = "opentelemetry-instrumentation-"

var pythonPackageName = regexp.MustCompile(pythonPackagePrefix + `([a-z0-9-]+)`)

// pythonBoundaries adds spans and metrics to handlers, consumers and calls of a service in Python that nothing
// instruments. It reports whether the service has OpenTelemetry.
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
		p.count += file.existing
		p.files, p.modules[module] = append(p.files, file), append(p.modules[module], file)
	}
	for _, f := range p.files {
		f.middleware()
	}
	for _, f := range p.files {
		if err := f.find(); err != nil {
			return false, err
		}
		if f.Exhausted() {
			return false, assay.Errorf(assay.CodeUnprocessable, "%s: %w", f.Path, treesitter.ErrTooComplex)
		}
	}
	if p.omitted > 0 {
		s.leave(p.manifest.Path, 0, fmt.Sprintf("The code has %d boundaries more: at most %d of a file and %d of a service get spans", p.omitted, maxFileBoundaries, maxServiceBoundaries))
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

// pythonMarks returns texts of which a file with boundaries contains at least one.
func pythonMarks() []string {
	marks := []string{".execute(", "http.server", "google.cloud", "SpanKind."} // connections of other modules, and spans
	for root := range pythonBoundaryTable {
		if root != "http" && root != "google" { // which many files have
			marks = append(marks, root)
		}
	}
	return marks
}

// pythonService is a service during the search for its boundaries.
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
	count     int                      // boundaries that get spans
	omitted   int                      // those above the limits
}

// dependencies reads the instrumentation of the service from its manifests. It reports whether code can be added.
func (p *pythonService) dependencies() bool {
	api := false
	for _, m := range p.manifests {
		if p.service.files[m.Path] != nil { // minimum adds to it
			api, p.automatic, p.manifest = true, true, m
			for _, e := range p.service.files[m.Path].Edits {
				for _, name := range pythonPackageName.FindAllStringSubmatch(e.New, -1) {
					p.installed[name[1]] = true
				}
			}
		}
	}
	manifests := slices.Clone(p.manifests)
	for _, used := range p.used() {
		manifests = append(manifests, used.manifests...)
	}
	for i, m := range manifests {
		own := i < len(p.manifests)
		for _, d := range m.Dependencies {
			name := strings.ReplaceAll(strings.ToLower(d.Name), "_", "-")
			if slices.Contains(pythonVendors, name) {
				if own {
					p.leave(m.Path, lineOf(m.Source, d.Start), "Nothing is added to the code of the service: `"+d.Name+"` has a tracer of its own")
				}
				return false
			}
			if d.Development {
				continue
			}
			if library, ok := strings.CutPrefix(name, pythonPackagePrefix); ok {
				p.installed[library] = true
			}
			p.all = p.all || slices.Contains(pythonDistributions, name)
			p.automatic = p.automatic || p.all || name == pythonDistro
			if own && !api && (p.automatic || name == "opentelemetry-api" || name == "opentelemetry-sdk") {
				api, p.manifest = true, m
			}
		}
	}
	for _, f := range p.dockerfiles(runtimePython) {
		p.all = p.all || mentions(f, "opentelemetry-bootstrap")
	}
	return api
}

// covered reports whether a package instruments a boundary, or would if it were installed.
func (p *pythonService) covered(b *pythonBoundary) bool {
	for _, name := range b.packages {
		if name != "" && p.installed[name] {
			return true
		}
	}
	if p.manual[b.kind()] {
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
	spans      ranges
	bodies     map[*syntax.Node]int // where code in a span begins
	generators map[*syntax.Node]bool
	functions  map[string][]*syntax.Node
	names      map[pythonName][]*syntax.Node  // definitions of the names of functions, comprehensions and the module, in the order of the source
	outer      map[pythonName]string          // names that functions declare global or nonlocal
	imports    map[string]syntax.Import       // of the module
	local      map[*syntax.Node]syntax.Import // of functions, by their definitions in names
	globals    map[string]*syntax.Node        // last assignments of variables on the top level
	attributes map[string][]*syntax.Node      // values of attributes of self, without None
	own        map[string]bool                // names that the file imports from the helper module
	existing   int                            // their uses, by boundaries of an earlier change
	ownEnd     int                            // end of the last of them
	importAt   int                            // where the file can import the helpers
	edits      []pythonEdit
	helpers    map[string]bool
	steps      []patch.Step
	done       map[*syntax.Node]bool // functions that have been looked at as handlers
}

// pythonEdit inserts text.
type pythonEdit struct {
	at   int
	text string
}

const pythonHelperModule = "otel_boundaries"

// index returns a file with its definitions.
func (p *pythonService) index(s *source) *pythonFile {
	f := &pythonFile{
		source: s, p: p, spans: newRanges(s.uses), bodies: map[*syntax.Node]int{}, generators: map[*syntax.Node]bool{}, functions: map[string][]*syntax.Node{}, globals: map[string]*syntax.Node{},
		names: map[pythonName][]*syntax.Node{}, outer: map[pythonName]string{}, imports: map[string]syntax.Import{}, local: map[*syntax.Node]syntax.Import{},
		attributes: map[string][]*syntax.Node{}, own: map[string]bool{}, helpers: map[string]bool{}, done: map[*syntax.Node]bool{},
	}
	for _, span := range s.uses.Spans {
		if span.Body != nil {
			if at, ok := f.bodies[span.Body]; !ok || span.Start.Start < at {
				f.bodies[span.Body] = span.Start.Start
			}
		}
	}
	for _, i := range s.Imports {
		if path.Ext("."+i.Path) == "."+pythonHelperModule {
			f.own[i.Name] = true
			f.ownEnd = max(f.ownEnd, i.Node.End)
		}
	}
	for _, statement := range s.Statements {
		for _, n := range statement.Children {
			f.outer[pythonName{n.Text, statement.Parent}] = statement.Text
		}
	}
	for _, i := range s.Imports {
		f.bindImport(i)
	}
	for n := range s.Root.All() {
		switch {
		case n.Kind == syntax.Name && f.own[n.Text]:
			f.existing++
		case n.Kind == syntax.Await && n.Text == "yield":
			if fn := n.Enclosing(syntax.Func); fn != nil {
				f.generators[fn] = true
			}
		case (n.Kind == syntax.Func || n.Kind == syntax.Class) && n.Text != "":
			if n.Kind == syntax.Func {
				f.functions[n.Text] = append(f.functions[n.Text], n)
			}
			if within := n.Enclosing(syntax.Func, syntax.Class); within == nil || within.Kind == syntax.Func {
				f.define(n.Text, n, pythonScope(n))
			}
		case n.Kind == syntax.Param && n.Parent.Kind == syntax.Func:
			f.define(n.Text, n, n.Parent)
		case n.Kind == syntax.Param:
			f.define(n.Text, n, pythonScope(n))
		case n.Kind == syntax.Assign || n.Kind == syntax.Declare:
			scope := pythonScope(n)
			for n.Text == ":=" && scope != nil && scope.Kind == syntax.Loop { // a comprehension has its own variables only
				scope = pythonScope(scope)
			}
			for _, t := range n.Targets() {
				f.bind(t, n, scope)
			}
			if n.Parent == s.Root && n.Kind == syntax.Assign && len(n.Children) == 2 && n.Children[0].Kind == syntax.Name {
				f.globals[n.Children[0].Text] = n
			}
		}
	}
	for _, defs := range f.names { // imports are bound before other definitions
		slices.SortStableFunc(defs, func(a, b *syntax.Node) int { return a.Start - b.Start })
	}
	return f
}

// find collects the edits of a file.
func (f *pythonFile) find() error {
	for n := range f.Root.All() {
		if err := f.p.ctx.Err(); err != nil {
			return err
		}
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
	return nil
}

// startedKinds match the span kind in calls that start spans.
var startedKinds = map[string]*regexp.Regexp{
	"SERVER":   regexp.MustCompile(`\bSpanKind\.SERVER\b`),
	"CONSUMER": regexp.MustCompile(`\bSpanKind\.CONSUMER\b`),
}

// middleware records the kinds of spans that the file starts outside of registered handlers.
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
