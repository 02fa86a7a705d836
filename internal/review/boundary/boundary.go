// SPDX-License-Identifier: Apache-2.0

package boundary

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	"assay/internal/lists"
	"assay/internal/review/configfile"
	"assay/internal/review/instrumentation"
	"assay/internal/review/patch"
	"assay/internal/review/syntax"
	"assay/internal/review/treesitter"
)

// Import paths of Go.
const (
	goAPI     = "go.opentelemetry.io/otel"
	goContrib = "go.opentelemetry.io/contrib/instrumentation/"
)

// file is a source file with its uses of telemetry.
type file struct {
	*syntax.File
	uses  *instrumentation.Uses
	runs  map[*syntax.Node]bool // the code that may run
	words map[string]bool       // the names in the code
}

// Lacks returns why the changed file below root does not add telemetry to a boundary, or "". line is the line of the
// boundary before the change.
//
// The change adds telemetry if it sets up instrumentation of the boundary's library that the boundary did not have. It
// also does if it adds a span of the boundary's kind that the OpenTelemetry API starts and that ends, at one of these
// places:
//   - for a server, consumer or job: in the boundary itself, such as a callback, or in a function that the boundary
//     names or that is registered on its value;
//   - for a consumer: also in the innermost loop or function around a use of the boundary's value, or in a function
//     called there;
//   - for a client or producer: around the boundary's call or, if the call makes a client, around a use of the client,
//     so that the span is current there.
//
// Code counts if it may run: constant conditions and jumps do not exclude it, and functions around it are used.
//
// The change must keep the boundary, all other telemetry, calls and returns. They may move within the file. In Go, it
// must leave no variable or import without a use. It must not set up, replace or turn off the OpenTelemetry SDK of the
// process. Each import that it adds must be used, and be of the standard library or of a dependency in a manifest above
// the file.
func Lacks(ctx context.Context, root *os.Root, parser *treesitter.Parser, name string, before []byte, line int, b patch.Boundary) (string, error) {
	changed, err := patch.Read(root, name)
	if err != nil {
		return "", err
	}
	was, err := parse(ctx, parser, name, before)
	if err != nil {
		return "", err
	}
	is, err := parse(ctx, parser, name, changed)
	if err != nil {
		return "", err
	}
	n := boundaryAt(was, line, b.Library)
	if n == nil {
		return "no call, function, literal or annotation begins on the line of the boundary", nil
	}
	was.run(nil)
	is.run(was)
	same, now := alike(was, n), alike(is, n)
	at := slices.Index(same, n)
	if at < 0 || was.Exhausted() || is.Exhausted() {
		return tooComplex, nil
	}
	if len(same) != len(now) {
		return fmt.Sprintf("the file has %d times the code of the boundary, and had it %d times before: keep the boundary, and add no other code of its name", len(now), len(same)), nil
	}
	if problem := removed(was, is); problem != "" {
		return problem, nil
	}
	if problem := silenced(was, is); problem != "" {
		return problem, nil
	}
	if name := defines(was, is); name != "" {
		return "the file defines a function `" + name + "`, which is the name of one of the API of OpenTelemetry: use the API", nil
	}
	if problem, err := imports(ctx, root, was, is); problem != "" || err != nil {
		return problem, err
	}
	if f := (patch.File{Path: name, Before: before, After: changed}); is.Language == syntax.Go && (!f.TidyGo() || len(f.Edits) > 0) {
		return "a variable or an import has no use, so that the file does not compile", nil
	}
	old, present := reachOf(was, n, b), reachOf(is, now[at], b)
	if problem := lost(was, is); problem != "" {
		return problem, nil
	}
	covered := present.spans() > old.spans() || present.library() && !old.library()
	if was.Exhausted() || is.Exhausted() {
		return tooComplex, nil
	}
	if !covered {
		return fmt.Sprintf("the boundary has no telemetry: start and end a span of kind %s by the API of OpenTelemetry in the handler, in the loop that receives, around the call, or around the uses of the client; or set the instrumentation of `%s` up", b.SpanKind, b.Library), nil
	}
	return "", nil
}

const tooComplex = "the file is too complex to find the boundary in it"

// parse parses a source file without syntax errors and finds its telemetry.
func parse(ctx context.Context, parser *treesitter.Parser, name string, text []byte) (*file, error) {
	f, err := syntax.Parse(ctx, parser, name, syntax.LanguageOf(name), text)
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", name, err)
	}
	return &file{File: f, uses: instrumentation.Find(f, nil)}, nil
}

// boundaryAt returns the code of the boundary on a line, or nil. If no known boundary of the library begins there, it
// is the first code on the line that has a codeName.
func boundaryAt(f *file, line int, library string) *syntax.Node {
	at := func(n *syntax.Node) bool { return f.LineOf(n.Start) == line }
	for _, b := range f.uses.Boundaries {
		if b.Library == library && at(b.Node) {
			return handler(b.Node)
		}
	}
	starts := spanStarts(f)
	for n := range f.Root.All() {
		if codeName(n) != "" && !starts[n] && at(n) {
			return handler(n)
		}
	}
	return nil
}

// handler returns the function that an annotation is on, otherwise n.
func handler(n *syntax.Node) *syntax.Node {
	for up := n; up != nil && (up == n || up.Kind == syntax.Decorator); up = up.Parent {
		if up.Kind == syntax.Decorator && up.Parent != nil && up.Parent.Kind == syntax.Func {
			return up.Parent
		}
	}
	return n
}

// codeName returns the name that identifies the code of a boundary, "" for other code.
func codeName(n *syntax.Node) string {
	switch n.Kind {
	case syntax.Call, syntax.New:
		c := n.Callee()
		if c.Kind == syntax.Member && c.Children[0].Kind == syntax.Name {
			return c.Children[0].Text + "." + c.Text
		}
		return c.Text
	case syntax.Func, syntax.Object:
		return n.Text
	case syntax.Decorator:
		return "@"
	default:
		return ""
	}
}

// alike returns the code of a file with the kind and codeName of a node, in order. Calls that start spans are left out.
func alike(f *file, n *syntax.Node) []*syntax.Node {
	name, starts := codeName(n), spanStarts(f)
	return lists.Filter(slices.Collect(f.Root.All(n.Kind)), func(c *syntax.Node) bool { return codeName(c) == name && !starts[c] })
}

// spanStarts returns the calls that start spans.
func spanStarts(f *file) map[*syntax.Node]bool {
	starts := map[*syntax.Node]bool{}
	for _, s := range f.uses.Spans {
		starts[s.Start] = true
	}
	return starts
}

// removed returns a problem if a change removes telemetry of a file, otherwise "".
func removed(was, is *file) string {
	carry := func(f *file) int {
		return len(lists.Filter(f.uses.Boundaries, func(b instrumentation.Boundary) bool { return b.Instrumented && f.runs[b.Node] }))
	}
	instruments := func(f *file) int {
		return len(lists.Filter(f.uses.Instruments, func(i *instrumentation.Instrument) bool { return f.runs[i.Call] }))
	}
	for _, library := range was.uses.Instrumented {
		if !slices.Contains(is.uses.Instrumented, library) {
			return "the instrumentation of a library is removed: keep all telemetry"
		}
	}
	spans := map[spanKey]int{}
	for _, s := range is.uses.Spans {
		if is.runs[s.Start] {
			spans[keyOf(is, s)]++
		}
	}
	for _, s := range was.uses.Spans {
		if !was.runs[s.Start] {
			continue
		}
		k := keyOf(was, s)
		if spans[k]--; spans[k] < 0 {
			return fmt.Sprintf("a span, such as the one of line %d before the change, is removed or moved: keep all telemetry", was.LineOf(s.Start.Start))
		}
	}
	if instruments(is) < instruments(was) || carry(is) < carry(was) {
		return "telemetry of the file is removed: keep all of it"
	}
	return ""
}

// spanKey identifies a span before and after a change.
type spanKey struct{ function, kind, name string }

func keyOf(f *file, s *instrumentation.Span) spanKey {
	k := spanKey{kind: s.Kind}
	if s.Name != nil {
		k.name = f.Code(s.Name)
	}
	for up := s.Start.Enclosing(syntax.Func); up != nil && k.function == ""; up = up.Enclosing(syntax.Func) {
		k.function = nameOf(up)
	}
	return k
}

// reach is the code that belongs to a boundary.
type reach struct {
	*file
	node     *syntax.Node
	boundary patch.Boundary
	made     bool                  // the file's uses list the boundary: its call makes a server, consumer or client
	value    *syntax.Node          // the variable or field that gets the boundary's value, nil if none does
	code     map[*syntax.Node]bool // the boundary, and code that registers functions on its value
	names    map[string]bool       // names in code, and in the values of variables that code names
	users    map[*syntax.Node]bool // loops and functions that use the value, and function literals that they call
	callees  map[string]bool       // names of functions that users call
}

func reachOf(f *file, n *syntax.Node, b patch.Boundary) *reach {
	r := &reach{file: f, node: n, boundary: b, code: map[*syntax.Node]bool{n: true}, names: map[string]bool{}}
	r.made = slices.ContainsFunc(f.uses.Boundaries, func(b instrumentation.Boundary) bool { return b.Node == n })
	all := n // with the calls of a chain: newServer().get("/", handler)
	for up := n.Parent; up != nil && (up.Kind == syntax.Await || up.Kind == syntax.Member || up.Kind == syntax.Call && up.Callee() == all); up = up.Parent {
		if all = up; up.Kind == syntax.Call {
			r.code[up] = true
		}
	}
	if up := all.Parent; up != nil && up.Kind == syntax.Assign && up.Value() == all {
		if t := up.Targets()[0]; t.Kind == syntax.Name || t.Kind == syntax.Member {
			r.value = t
		}
	}
	for c := range f.Root.All() {
		if f.runs[c] && r.registers(c) {
			r.code[c] = true
		}
	}
	for c := range r.code {
		r.mention(c)
	}
	for c := range f.Root.All() { // mux = traced(mux)
		if f.runs[c] && c.Kind == syntax.Assign && c.Value() != all && c.Value().Kind != syntax.Func && slices.ContainsFunc(c.Targets(), func(t *syntax.Node) bool { return t.Kind == syntax.Name && r.names[t.Text] }) {
			r.mention(c.Value())
		}
	}
	return r
}

func (r *reach) mention(n *syntax.Node) {
	for c := range n.All() {
		if r.runs[c] && (c.Kind == syntax.Name || c.Kind == syntax.Member) {
			r.names[c.Text] = true
		}
	}
}

// registers reports whether code calls a method of the boundary's value, passes the value to a call, or sets a field of
// it: app.use(handler), instrument(app), server.Handler = handler.
func (r *reach) registers(n *syntax.Node) bool {
	switch n.Kind {
	case syntax.Call:
		recv, _ := n.Method()
		return r.holds(recv) || slices.ContainsFunc(n.Args(), r.holds)
	case syntax.Assign:
		t := n.Targets()[0]
		return t.Kind == syntax.Member && r.holds(t.Children[0])
	default:
		return false
	}
}

// holds reports whether an expression has the name of the variable or field that holds the boundary's value.
func (r *reach) holds(n *syntax.Node) bool {
	return n != nil && r.value != nil && n != r.value && (n.Kind == syntax.Name || n.Kind == syntax.Member) && n.Text == r.value.Text
}

// spans returns the number of spans for the requests or messages of the boundary.
func (r *reach) spans() (n int) {
	if !r.ImportsAny(telemetryAPI[r.Language]...) {
		return 0
	}
	o := newOrigins(r.file)
	for _, s := range r.uses.Spans {
		kind := s.Kind
		kind = cmp.Or(kind, "internal")
		if kind != r.boundary.SpanKind || !r.runs[s.Start] || !s.EndsItself && !slices.ContainsFunc(s.Ends, func(end *syntax.Node) bool { return r.runs[end] }) || !o.recorded(s) {
			continue
		}
		var belongs bool
		switch kind {
		case "client", "producer":
			belongs = r.surrounds(s)
		case "consumer":
			belongs = r.handles(s) || r.beside(s)
		default:
			belongs = r.handles(s)
		}
		if belongs {
			n++
		}
	}
	return n
}

// startNames are the names of the functions of the OpenTelemetry API that start spans.
var startNames = []string{"Start", "startSpan", "startActiveSpan", "start_span", "start_as_current_span", "spanBuilder"}

// defines returns the first of startNames for which a change adds a function to the file, or "".
func defines(was, is *file) string {
	count := func(f *file) map[string]int {
		all := map[string]int{}
		for n := range f.Root.All(syntax.Func) {
			all[nameOf(n)]++
			if up := n.Parent; up.Kind == syntax.Pair { // { startSpan: () => ... }
				all[up.Children[0].Text]++
			}
		}
		return all
	}
	before, after := count(was), count(is)
	for _, name := range startNames {
		if after[name] > before[name] {
			return name
		}
	}
	return ""
}

// telemetryAPI are the modules of the OpenTelemetry API.
var telemetryAPI = map[syntax.Language][]string{
	syntax.Go: {goAPI}, syntax.JavaScript: {"@opentelemetry/api"}, syntax.TypeScript: {"@opentelemetry/api"}, syntax.Python: {"opentelemetry"}, syntax.Java: {"io.opentelemetry"},
}

// handles reports whether a span is in code that the boundary runs.
func (r *reach) handles(s *instrumentation.Span) bool {
	for up := s.Start; up != nil; up = up.Parent {
		if up.Kind == syntax.Func && r.names[nameOf(up)] || r.code[up] && (up.Kind == syntax.Func || s.Start.Enclosing(syntax.Func).Within(up)) {
			return true
		}
	}
	return false
}

// nameOf returns the name of a function, or of the variable that holds it.
func nameOf(fn *syntax.Node) string {
	if up := fn.Parent; fn.Text == "" && up != nil && up.Kind == syntax.Assign && up.Value() == fn {
		return up.Targets()[0].Text
	}
	return fn.Text
}

// beside reports whether the innermost loop or function around a span uses the boundary's value, or is called by such a
// loop or function.
func (r *reach) beside(s *instrumentation.Span) bool {
	if r.users == nil {
		r.findUsers()
	}
	around := s.Start.Enclosing(syntax.Loop, syntax.Func)
	return around != nil && (r.users[around] || around.Kind == syntax.Func && nameOf(around) != "" && r.callees[nameOf(around)])
}

// findUsers sets users and callees.
func (r *reach) findUsers() {
	r.users, r.callees = map[*syntax.Node]bool{}, map[string]bool{}
	for c := range r.Root.All() {
		if r.runs[c] && r.holds(c) && c.Enclosing(syntax.Defer) == nil {
			if around := c.Enclosing(syntax.Loop, syntax.Func); around != nil {
				r.users[around] = true
			}
		}
	}
	for c := range r.Root.All(syntax.Call) {
		if !r.runs[c] || c.Parent.Kind == syntax.Defer || !r.users[c.Enclosing(syntax.Loop, syntax.Func)] {
			continue
		}
		if callee := c.Callee(); callee.Kind == syntax.Func {
			r.users[callee] = true
		} else {
			r.callees[callee.Text] = true
		}
	}
}

// surrounds reports whether a span is current at the boundary's call. If the call makes a client, the span has to be
// current at a use of the client.
func (r *reach) surrounds(s *instrumentation.Span) bool {
	if s.Body == nil {
		return false
	}
	if !r.made {
		return r.current(s, r.node)
	}
	return s.Body.Has(func(c *syntax.Node) bool { return r.holds(c) && r.runs[c] && r.current(s, c) })
}

// current reports whether a span is current where n runs, in the same function.
func (r *reach) current(s *instrumentation.Span, n *syntax.Node) bool {
	if s.Body.Kind != syntax.Func && n.Start < s.Start.End {
		return false
	}
	return n.Enclosing(syntax.Func) == s.Func() && n.Within(s.Body) && (s.EndsItself || slices.ContainsFunc(s.Ends, func(end *syntax.Node) bool {
		return r.runs[end] && (end.Start >= n.End || end.Enclosing(syntax.Defer, syntax.Finally) != nil)
	}))
}

// library reports whether instrumentation of the boundary's library is set up for the boundary.
func (r *reach) library() bool {
	if r.Language == syntax.Go && slices.ContainsFunc(r.uses.Boundaries, func(b instrumentation.Boundary) bool { return b.Node == r.node && b.Instrumented }) {
		return true
	}
	for _, library := range r.uses.Instrumented {
		if library != r.boundary.Library && !strings.HasPrefix(library, r.boundary.Library+"/") {
			continue
		}
		for _, i := range r.Imports {
			if r.Language != syntax.Go && i.Name != "" && strings.Contains(i.Path, library) && calls(r.file, i.Name) ||
				r.Language == syntax.Go && strings.HasPrefix(i.Path, goContrib+library+"/") && r.names[i.Name] {
				return true
			}
		}
	}
	return false
}

// calls reports whether a file calls an imported function or class, or a method of one.
func calls(f *file, name string) bool {
	for n := range f.Root.All(syntax.Call, syntax.New) {
		if !f.runs[n] {
			continue
		}
		if c := n.Callee(); c.Text == name || c.Kind == syntax.Member && c.Children[0].Text == name {
			return true
		}
	}
	return false
}

// imports returns a problem in the imports that a change adds, or "".
func imports(ctx context.Context, root *os.Root, was, is *file) (string, error) {
	var dependencies []string
	read := false
	names := map[string]bool{}
	for n := range is.Root.All() {
		switch n.Kind {
		case syntax.Name:
			names[n.Text] = true
		case syntax.Object, syntax.List, syntax.Param, syntax.Assign, syntax.Declare, syntax.Func:
			typ := n.Type
			if n.Kind == syntax.Object || n.Kind == syntax.List {
				typ = n.Text
			}
			for _, word := range identifier.FindAllString(typ, -1) {
				names[word] = true
			}
		}
	}
	parts := map[*syntax.Node]bool{} // imports with names: const { trace } = require("@opentelemetry/api")
	for _, i := range is.Imports {
		parts[i.Node] = parts[i.Node] || i.Name != ""
	}
	for _, i := range is.Imports {
		if slices.ContainsFunc(was.Imports, func(o syntax.Import) bool { return o.Path == i.Path && o.Name == i.Name }) {
			continue
		}
		if i.Name == "" && !parts[i.Node] || i.Name != "" && !names[i.Name] || i.Name == "_" || i.Name == "." {
			return fmt.Sprintf("the import of line %d is not used", is.LineOf(i.Node.Start)), nil
		}
		if standard(is.Language, i.Path) {
			continue
		}
		if !read {
			var err error
			if dependencies, err = dependenciesOf(ctx, root, is.Path); err != nil {
				return "", err
			}
			read = true
		}
		if !slices.ContainsFunc(dependencies, func(d string) bool { return provides(is.Language, d, i.Path) }) {
			return fmt.Sprintf("no manifest above the file names the dependency of the import of line %d", is.LineOf(i.Node.Start)), nil
		}
	}
	return "", nil
}

// pythonStandard are the modules of Python's standard library that instrumentation uses.
var pythonStandard = []string{"contextlib", "functools", "logging", "os", "time", "typing"}

// standard reports whether an import is of the standard library, or of a file of the project by a relative path.
func standard(l syntax.Language, module string) bool {
	first, _, _ := strings.Cut(module, "/")
	switch l {
	case syntax.Go:
		return !strings.Contains(first, ".")
	case syntax.Python:
		return strings.HasPrefix(module, ".") || slices.Contains(pythonStandard, module)
	case syntax.Java:
		return strings.HasPrefix(module, "java.")
	default:
		return strings.HasPrefix(module, ".") || strings.HasPrefix(module, "node:")
	}
}

var identifier = regexp.MustCompile(`[\p{L}_$][\p{L}\p{N}_$]*`)

var separators = regexp.MustCompile(`[-_.]+`)

// provides reports whether a dependency contains a module, by their names.
func provides(l syntax.Language, dependency, module string) bool {
	under := func(prefix, separator string) bool {
		return module == prefix || strings.HasPrefix(module, prefix+separator)
	}
	switch l {
	case syntax.Python:
		if name, ok := strings.CutPrefix(separators.ReplaceAllString(dependency, "-"), "opentelemetry-"); ok {
			// Each package of OpenTelemetry requires the API.
			return under("opentelemetry."+strings.ReplaceAll(name, "-", "."), ".") || module == "opentelemetry" ||
				slices.ContainsFunc([]string{"trace", "metrics", "propagate", "context"}, func(m string) bool { return under("opentelemetry."+m, ".") })
		}
		return under(strings.ReplaceAll(dependency, "-", "_"), ".")
	case syntax.Java:
		// Each artifact of OpenTelemetry requires the API. Packages below the group of the API are of other artifacts.
		group, _, _ := strings.Cut(dependency, ":")
		return strings.HasPrefix(group, "io.opentelemetry") && (under("io.opentelemetry.api", ".") || under("io.opentelemetry.context", ".")) ||
			group != "io.opentelemetry" && under(group, ".")
	default:
		return under(dependency, "/")
	}
}

// maxConfigBytes is the maximum total size of the files that dependenciesOf reads.
const maxConfigBytes = 16 << 20

// dependenciesOf returns the names of the dependencies in the manifests above a file, nearest first. It stops reading
// after maxConfigBytes.
func dependenciesOf(ctx context.Context, root *os.Root, name string) (all []string, err error) {
	size := 0
	for dir := range configfile.Above(path.Dir(name)) {
		entries, err := fs.ReadDir(root.FS(), dir)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			file := path.Join(dir, e.Name())
			if !configfile.Candidate(file) {
				continue
			}
			text, err := patch.Read(root, file)
			if err != nil {
				continue // reviews report unreadable files
			}
			if size += len(text); size > maxConfigBytes {
				return all, nil
			}
			found, _ := configfile.Parse(file, text) // a broken file gives the part that parses
			for _, f := range found {
				if f.Kind != configfile.Manifest {
					continue
				}
				for _, d := range f.Dependencies {
					all = append(all, d.Name)
				}
			}
		}
	}
	return all, nil
}
