// SPDX-License-Identifier: Apache-2.0

package instrumentation

import (
	"bytes"
	"cmp"
	"iter"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"

	"assay/internal/review/syntax"
	"assay/internal/rules/semconv"
)

// logLevel returns the level of a logger's method, and whether the name is the name of such a method. It supports the
// names of Go, JavaScript, Python and Java: Info, Infof, InfoContext, Infow, info, log, warning, Msg. The level is ""
// for methods without a fixed level.
func logLevel(method string) (level string, ok bool) {
	m := strings.ToLower(method)
	switch m {
	case "log", "logattrs", "print", "printf", "println", "msg", "msgf", "send":
		return "", true
	}
	if strings.HasSuffix(method, "S") { // klog.InfoS
		m = strings.TrimSuffix(m, "s")
	}
	for _, suffix := range []string{"context", "f", "ln", "w"} {
		m = strings.TrimSuffix(m, suffix)
	}
	switch m {
	case "trace", "debug", "info", "warn", "error", "fatal", "panic", "dpanic":
	case "http":
		m = "info"
	case "warning", "arn":
		m = "warn"
	case "critical", "exception", "severe":
		m = "error"
	case "fine", "finer", "finest", "verbose", "silly":
		m = "debug"
	default:
		return "", false
	}
	return strings.ReplaceAll(strings.ReplaceAll(m, "dpanic", "panic"), "panic", "fatal"), true
}

// loggerName reports whether a name is typical of a logger variable.
func loggerName(name string) bool {
	switch n := strings.ToLower(strings.Trim(name, "_")); n {
	case "l", "lg", "sugar", "slog", "zap", "zlog", "console", "entry":
		return true
	case "catalog", "dialog", "blog", "changelog", "backlog":
		return false
	default:
		return strings.HasPrefix(n, "log") && (n == "log" || n == "logs" || strings.HasPrefix(n, "logg")) || strings.HasSuffix(n, "log") || strings.HasSuffix(n, "logger")
	}
}

// conventionKeys returns the keys of the semantic conventions, by the result of bare.
var conventionKeys = sync.OnceValue(func() map[string]string {
	keys := map[string]string{}
	for a := range semconv.All() {
		keys[bare(a.Key)] = a.Key
	}
	return keys
})

func bare(s string) string {
	return strings.ToLower(strings.NewReplacer(".", "", "_", "").Replace(s))
}

// conventionKey returns the attribute key of a constant of a semantic conventions package, by the constant's name:
// HTTPRequestMethod, HTTP_REQUEST_METHOD, ATTR_HTTP_REQUEST_METHOD.
func conventionKey(constant string) (string, bool) {
	for _, prefix := range []string{"ATTR_", "SEMATTRS_", "SEMRESATTRS_"} {
		constant = strings.TrimPrefix(constant, prefix)
	}
	key, ok := conventionKeys()[bare(constant)]
	return key, ok
}

// finder finds the uses of telemetry in one file.
type finder struct {
	*Uses
	spans       map[*syntax.Node]*Span         // by the call, and by the Param of the callback that receives the span
	instruments map[string]*Instrument         // by variable
	keyed       map[string][]*syntax.Node      // assignments to elements of a variable: v["key"] = x
	declared    func() map[string]*syntax.Node // the first class with a name, or a function if there is no class
	traces      func() bool                    // whether the file uses OpenTelemetry, or a module of the project for traces
	api         *api
}

// api holds the names of APIs in one language.
type api struct {
	modules   []string                // modules of OpenTelemetry
	foreign   []string                // modules of other tracing libraries
	end       string                  // method that ends a span
	errors    []string                // methods that record an error
	status    string                  // method that sets the status
	statusOK  func(*syntax.Node) bool // whether its argument is the status OK
	loggers   []string                // modules of loggers
	keepsSpan []string                // functions that take a span and do not end it
	services  []string                // modules that only services import
	commands  []string                // modules that only command-line programs import
}

func newFinder(u *Uses, a *api) *finder {
	return &finder{
		Uses: u, spans: map[*syntax.Node]*Span{}, instruments: map[string]*Instrument{}, api: a,
		declared: sync.OnceValue(func() map[string]*syntax.Node {
			declared := map[string]*syntax.Node{}
			for n := range u.File.Root.All(syntax.Class, syntax.Func) {
				if first := declared[n.Text]; first == nil || first.Kind == syntax.Func {
					declared[n.Text] = n
				}
			}
			return declared
		}),
		traces: sync.OnceValue(func() bool {
			return slices.ContainsFunc(u.File.Imports, func(i syntax.Import) bool { return tracingModule.MatchString(i.Path) }) ||
				slices.ContainsFunc(a.modules, func(m string) bool { return bytes.Contains(u.File.Source, []byte(m)) })
		}),
	}
}

// module returns the module that a name refers to: the imported package, or the module of an imported member. It
// returns "" for names that the file does not import, and for local variables.
func (f *finder) module(n *syntax.Node) string {
	if n == nil || n.Kind != syntax.Name {
		return ""
	}
	i, ok := f.File.Imported(n.Text)
	if !ok {
		return ""
	}
	if def := f.File.Definition(n); def != nil && def.Enclosing(syntax.Func) != nil {
		return ""
	}
	return i.Path
}

// foreign reports whether an expression belongs to another tracing library. This is the case if the file imports such a
// library and not OpenTelemetry, or if the expression derives from a module or type of such a library. It follows
// variables and parameters of callbacks.
func (f *finder) foreign(n *syntax.Node) bool {
	if !f.File.ImportsAny(f.api.modules...) && f.File.ImportsAny(f.api.foreign...) {
		return true
	}
	const maxHops = 12
	for hops := 0; n != nil && hops < maxHops; hops++ {
		switch n.Kind {
		case syntax.Call, syntax.New:
			c := n.Callee()
			if module, name := f.origin(c); module != "" {
				return f.fromForeign(module, name)
			}
			if c.Kind != syntax.Member {
				return false
			}
			n = c.Children[0]
			continue
		case syntax.Await:
			n = n.Children[0]
			continue
		case syntax.Name, syntax.Member:
		default:
			return false
		}
		if module, name := f.origin(n); module != "" && (n.Kind == syntax.Member || f.module(n) != "") {
			return f.fromForeign(module, name)
		}
		def := f.File.Definition(n)
		switch {
		case def == nil:
			return false
		case def.Type != "" && !strings.Contains(def.Type, "|"):
			return f.fromForeign(f.typeOf(def.Type))
		case def.Kind == syntax.Param && def.Parent.Kind == syntax.Func: // otherSpan("name", (span) => ...)
			n = def.Parent.Parent
		default:
			n = def.Value()
		}
	}
	return false
}

// apiTypes lists types of the OpenTelemetry API whose names also exist in other libraries.
var apiTypes = []string{"Tracer", "Meter", "Span", "SpanBuilder"}

// fromForeign reports whether a name in a module belongs to another tracing library: the module is such a library, or
// the name is one of apiTypes and the module is neither OpenTelemetry nor relative. Go ignores apiTypes, because
// functions may have these names.
func (f *finder) fromForeign(module, name string) bool {
	if syntax.Below(module, f.api.foreign) {
		return true
	}
	return f.File.Language != syntax.Go && slices.Contains(apiTypes, name) && module != "" && !strings.HasPrefix(module, ".") &&
		!syntax.Below(module, f.api.modules)
}

// typeOf returns the module and the name of a declared type. The module is "" if the file does not import the type.
func (f *finder) typeOf(t string) (module, name string) {
	t = strings.TrimLeft(t, "*&")
	first, _, _ := strings.Cut(t, ".")
	at := strings.LastIndexByte(t, '.')
	name = t[at+1:]
	if i, ok := f.File.Imported(first); ok {
		if at < 0 && i.Member != "" && i.Member != "default" { // import { Span as Current }
			name = i.Member
		}
		return i.Path, name
	}
	if f.File.Language == syntax.Java && at >= 0 { // io.opentracing.Tracer
		return t[:at], name
	}
	return "", name
}

// called returns the receiver and the name of the called function. For an imported function with an alias, it returns
// the original name.
func (f *finder) called(n *syntax.Node) (recv *syntax.Node, name string) {
	recv, name = n.Method()
	if recv == nil && f.module(n.Callee()) != "" {
		if i, _ := f.File.Imported(name); i.Member != "" && i.Member != "default" {
			name = i.Member
		}
	}
	return recv, name
}

// named reports whether the last name of an expression contains a word, ignoring case. For calls, it is the name of the
// callee.
func named(n *syntax.Node, word string) bool {
	return n != nil && strings.Contains(strings.ToLower(name(n.Inner(syntax.Call, syntax.Await))), word)
}

// value returns the value that the definition of a name assigns. It returns the node itself for other expressions.
func (f *finder) value(n *syntax.Node) *syntax.Node {
	if n == nil || n.Kind != syntax.Name && n.Kind != syntax.Member {
		return n
	}
	if def := f.File.Definition(n); def != nil && def.Kind == syntax.Assign && len(def.Targets()) == 1 && def.Value() != nil {
		return def.Value()
	}
	return n
}

// provider reports whether an expression is the result of a provider's method, such as a tracer: a call of one of the
// methods, a variable that holds the result or has one of the types, or a variable with the word in its name.
func (f *finder) provider(n *syntax.Node, methods []string, word string, types ...string) bool {
	if n == nil || f.foreign(n) || f.own(n) {
		return false
	}
	if v := f.value(n); v.Kind == syntax.Call {
		_, m := f.called(v)
		return slices.Contains(methods, m) || strings.Contains(strings.ToLower(m), word) && !strings.Contains(strings.ToLower(m), "provider")
	}
	if n.Kind != syntax.Name && n.Kind != syntax.Member {
		return false
	}
	if def := f.File.Definition(n); def != nil && def.Type != "" && len(types) > 0 && !strings.Contains(def.Type, "|") {
		t := def.Type[strings.LastIndexAny(def.Type, ". ")+1:]
		return slices.Contains(types, t)
	}
	return named(n, word) && !named(n, "provider")
}

// own reports whether a tracer or meter is the program's own: an instance of a class that the file declares or imports
// from a relative module, or a variable of a type that the file declares. In Java, it is also a variable of any other
// type than OpenTelemetry's. The results of functions, and classes of modules with a name such as tracing, are not,
// because projects wrap OpenTelemetry with these.
func (f *finder) own(n *syntax.Node) bool {
	if n == nil || f.File.Language == syntax.Go {
		return false
	}
	if def := f.File.Definition(n); def != nil && def.Type != "" && def.Type != "var" && def.Type != "val" && !strings.Contains(def.Type, "|") {
		module, name := f.typeOf(def.Type)
		if module == "" && f.ownClass(name) {
			return true
		}
		if f.File.Language == syntax.Java {
			is, _ := f.apiType(def.Type)
			return !is && (module != "" || !slices.Contains(apiTypes, name))
		}
	}
	v := f.value(n)
	if v.Kind != syntax.New && v.Kind != syntax.Call {
		return false
	}
	c := v.Callee()
	if module, name := f.origin(c); module != "" {
		return strings.HasPrefix(module, ".") && !tracingModule.MatchString(module) && (v.Kind == syntax.New || name != "" && unicode.IsUpper(rune(name[0])))
	}
	return c.Kind == syntax.Name && f.ownClass(c.Text)
}

// ownClass reports whether the file declares a class that does not extend a class of OpenTelemetry.
func (f *finder) ownClass(name string) bool {
	n := f.declared()[name]
	return n != nil && n.Kind == syntax.Class && !slices.ContainsFunc(n.Children, func(c *syntax.Node) bool {
		if c.Kind != syntax.Name && c.Kind != syntax.Member {
			return false
		}
		is, _ := f.apiType(f.File.Code(c))
		return is
	})
}

// ownTracer reports whether an expression is a tracer of the program's own by its name or the name of its class.
func (f *finder) ownTracer(n *syntax.Node) bool {
	return f.own(n) && (named(n, "tracer") || named(f.value(n), "tracer"))
}

// scope returns the instrumentation scope of a tracer or meter, "" if it is not known.
func (f *finder) scope(n *syntax.Node) string {
	for range 3 {
		if n == nil {
			return ""
		}
		if n.Kind == syntax.Call {
			s, _ := f.Known(n.Arg(0))
			return s
		}
		v := f.value(n)
		if v == n {
			return ""
		}
		n = v
	}
	return ""
}

// assigned returns the variable to which the result of a call is assigned, also through await, "" if there is none.
func assigned(n *syntax.Node) string {
	p := n.Assignment()
	if p == nil {
		return ""
	}
	t := p.Targets()[len(p.Targets())-1] // ctx, span := ...
	if t.Kind != syntax.Name && t.Kind != syntax.Member {
		return ""
	}
	return t.Text
}

// add adds a span and sets its variable and body if they are not set.
func (f *finder) add(s *Span) {
	s.Variable = cmp.Or(s.Variable, assigned(s.Start))
	if s.Body == nil {
		s.Body = s.Start.Enclosing(syntax.Block)
	}
	if p := s.Start.Parent; p != nil && (p.Kind == syntax.Return || p.Kind == syntax.Pair || p.Kind == syntax.List ||
		p.Kind == syntax.Call && p.Callee() != s.Start) {
		s.Escapes = true
	}
	f.Spans = append(f.Spans, s)
	f.spans[s.Start] = s
}

// lives sets Ends, Errors and Escapes of the spans from the uses of their variables.
func (f *finder) lives() {
	held := map[*syntax.Node]map[string][]*Span{} // by function and variable
	var functions []*syntax.Node
	for _, s := range f.Spans {
		if s.Variable == "" || s.Variable == "_" {
			continue
		}
		within := cmp.Or(s.Func(), f.File.Root)
		if held[within] == nil {
			held[within] = map[string][]*Span{}
			functions = append(functions, within)
		}
		held[within][s.Variable] = append(held[within][s.Variable], s)
	}
	const maxNodes = 4 << 20 // nested functions with spans are walked several times
	nodes := 0
	for _, fn := range functions {
		if nodes > maxNodes {
			for _, spans := range held[fn] {
				for _, s := range spans {
					s.Escapes = true
				}
			}
			continue
		}
		for n := range fn.All() {
			if nodes++; n.Kind == syntax.Name || n.Kind == syntax.Member {
				if spans := held[fn][n.Text]; spans != nil {
					f.use(n, spans)
				}
			} else if n.Kind == syntax.Call && f.endsCurrent(n) {
				for _, spans := range held[fn] {
					for _, s := range spans {
						s.Escapes = s.Escapes || s.Start.Start < n.Start
					}
				}
			}
		}
	}
}

// endsCurrent reports whether a call ends a span that it reads from a context: trace.SpanFromContext(ctx).End(). This
// may be a span that a variable holds.
func (f *finder) endsCurrent(n *syntax.Node) bool {
	recv, m := n.Method()
	return m == f.api.end && recv != nil && recv.Kind == syntax.Call && f.spanOf(recv) == nil && f.isSpan(recv)
}

// use records a use of a variable that holds a span. It applies to the span that the variable holds at n, or to all
// spans that the variable may hold.
func (f *finder) use(n *syntax.Node, spans []*Span) {
	const maxSpans = 16 // number of spans before a use that share a variable
	end, _ := slices.BinarySearchFunc(spans, n.Start+1, func(s *Span, at int) int { return cmp.Compare(s.Start.Start, at) })
	var owner *Span
	if n.Kind == syntax.Name {
		owner = f.spanOf(n)
		if owner != nil && !n.Within(owner.Start.Enclosing(syntax.Block)) {
			owner = nil // the span may have been started in a branch
		}
	}
	for _, s := range spans[max(0, end-maxSpans):end] {
		if owner != nil && owner != s { // another span with this name
			continue
		}
		p := n.Parent
		switch p.Kind {
		case syntax.Member:
			f.method(s, p)
		case syntax.Call, syntax.New:
			if p.Children[0] == n {
				break
			}
			_, m := p.Method()
			if !slices.Contains(f.api.keepsSpan, m) || f.Leaves(p) {
				s.Escapes = true
			}
			if p.Kind == syntax.Call && p.Arg(0) == n && len(p.Args()) > 1 && spanFinisher.MatchString(m) { // finish(span, err)
				s.Ends, s.Errors = append(s.Ends, p), append(s.Errors, p)
			}
		case syntax.Return, syntax.Pair, syntax.List, syntax.Object, syntax.Argument, syntax.Spread:
			s.Escapes = true
		case syntax.Assign:
			if p.Value() == n && !blank(p) {
				s.Escapes = true
			}
		case syntax.Operator:
			if sends(n) {
				s.Escapes = true
			}
		}
	}
}

// sends reports whether an expression is sent on a channel.
func sends(n *syntax.Node) bool {
	p := n.Parent
	return p.Kind == syntax.Operator && p.Text == "<-" && len(p.Children) == 2 && p.Children[1] == n
}

// maxContexts is the maximum number of context variables that leaves follows.
const maxContexts = 3

// contextMakers matches functions and methods that derive a context, or an object with a context, from a context.
var contextMakers = regexp.MustCompile(`^([wW]ith(Value|Cancel|Timeout|Deadline|Context|UserContext)|ContextWith\w+|SetContext|Clone|set(Span|Value|Baggage)|set_(span_in_context|value|baggage)|storeInContext|attach|makeCurrent|wrap)$`)

// Leaves reports whether a context with a span is returned, stored or sent, so that other code may end the span.
func (u *Uses) Leaves(context *syntax.Node) bool { return u.leaves(context, maxContexts) }

// variable is a variable with a context, as leaves follows it.
type variable struct {
	within *syntax.Node // the function
	name   string
	hops   int
}

// leaves reports whether n, a context with a span, is returned, stored or sent, so that other code may end the span.
func (u *Uses) leaves(n *syntax.Node, hops int) bool {
	for p := n.Parent; p != nil; n, p = p, p.Parent {
		switch p.Kind {
		case syntax.Return, syntax.Pair, syntax.List, syntax.Object, syntax.Spread, syntax.Func:
			return true
		case syntax.Argument, syntax.Await, syntax.Conditional:
		case syntax.Operator:
			if sends(n) {
				return true
			}
		case syntax.Member: // a method of the context
			if c := p.Parent; c == nil || c.Kind != syntax.Call || c.Callee() != p || p.Text != "with" && !contextMakers.MatchString(p.Text) {
				return false
			}
			p = p.Parent
		case syntax.Call:
			if _, m := p.Method(); p.Callee() == n || !contextMakers.MatchString(m) {
				return false
			}
		case syntax.Assign:
			if p.Value() != n || blank(p) {
				return false
			}
			t := p.Targets()[0]
			if t.Kind != syntax.Name {
				return true
			}
			within := p.Enclosing(syntax.Func)
			if within == nil || hops == 0 {
				return hops == 0
			}
			return u.lastLeaving(variable{within, t.Text, hops - 1}) >= p.End
		default:
			return false
		}
	}
	return false
}

// lastLeaving returns the position of the last use of a variable that leaves reports, -1 if there is none.
func (u *Uses) lastLeaving(v variable) int {
	if last, ok := u.leaving[v]; ok {
		return last
	}
	if u.leaving == nil {
		u.leaving, u.names = map[variable]int{}, map[*syntax.Node]map[string][]*syntax.Node{}
	}
	if u.names[v.within] == nil {
		u.names[v.within] = map[string][]*syntax.Node{}
		for n := range v.within.All(syntax.Name) {
			u.names[v.within][n.Text] = append(u.names[v.within][n.Text], n)
		}
	}
	last := -1
	for _, n := range u.names[v.within][v.name] {
		if n.Start > last && u.leaves(n, v.hops) {
			last = n.Start
		}
	}
	u.leaving[v] = last
	return last
}

// blank reports whether an Assign discards its value: _ = span.
func blank(assign *syntax.Node) bool {
	return !slices.ContainsFunc(assign.Targets(), func(t *syntax.Node) bool { return t.Kind != syntax.Name || t.Text != "_" })
}

// method records the use of a member of a span: span.name.
func (f *finder) method(s *Span, m *syntax.Node) {
	use := m
	if m.Parent.Kind == syntax.Call && m.Parent.Callee() == m {
		use = m.Parent
	}
	switch {
	case m.Text == f.api.end:
		s.Ends = append(s.Ends, use) // or a method value, as in t.Cleanup(span.End)
	case slices.Contains(f.api.errors, m.Text):
		s.Errors = append(s.Errors, use)
	case use != m && slices.Contains(f.api.keepsSpan, m.Text): // span.storeInContext(context)
		s.Escapes = s.Escapes || f.Leaves(use)
	case m.Text == f.api.status:
		if use == m || use.Arg(0) == nil || !f.api.statusOK(use.Arg(0)) {
			s.Errors = append(s.Errors, use)
		}
	case use != m: // chains: span.setAttribute("k", v).end()
		if p := use.Parent; p != nil && p.Kind == syntax.Member && p.Children[0] == use {
			f.method(s, p)
		}
	}
}

// spanOf returns the span to which an expression evaluates, nil if it is not known.
func (f *finder) spanOf(n *syntax.Node) *Span {
	for range 3 {
		if n == nil {
			return nil
		}
		if s := f.spans[n]; s != nil {
			return s
		}
		switch n.Kind {
		case syntax.Await:
			n = n.Children[0]
			continue
		case syntax.Call: // a chain: span.setAttribute("k", v).setAttribute(...)
			n, _ = n.Method()
			continue
		case syntax.Name, syntax.Member:
		default:
			return nil
		}
		def := f.File.Definition(n)
		if def == nil {
			return nil
		}
		if s := f.spans[def]; s != nil {
			return s
		}
		if n = def.Value(); n == nil {
			return nil
		}
	}
	return nil
}

// isSpan reports whether an expression is a span of OpenTelemetry: a span that the file starts, the current span, a
// variable with the type or value of a span, or a variable with "span" in its name whose value may be a span.
func (f *finder) isSpan(n *syntax.Node) bool {
	const maxHops = 4
	return f.isSpanBy(n, maxHops)
}

func (f *finder) isSpanBy(n *syntax.Node, hops int) bool {
	if n == nil || hops == 0 {
		return false
	}
	if f.spanOf(n) != nil {
		return true
	}
	if script := f.File.Language == syntax.JavaScript || f.File.Language == syntax.TypeScript; f.foreign(n) || script && !f.traces() {
		return false // a variable named span may be an HTML element
	}
	if n.Kind == syntax.Call {
		recv, m := f.called(n)
		switch m {
		case "getActiveSpan", "getSpan", "get_current_span", "current", "SpanFromContext", "fromContext":
			return named(recv, "span") || named(recv, "trace") || m != "current" && m != "fromContext" || recv == nil && strings.HasSuffix(f.module(n.Callee()), ".Span")
		}
		return recv != nil && strings.HasPrefix(strings.ToLower(m), "set") && f.isSpanBy(recv, hops)
	}
	def := f.ownDefinition(n)
	if def == nil {
		return named(n, "span")
	}
	if def.Type != "" {
		if is, known := f.spanType(def.Type); known {
			return is
		}
	}
	v := def.Value()
	if v == nil || def.Kind == syntax.Assign && (len(def.Children) > 2 || def.Text == "as" || def.Children[0].Text != n.Text) {
		return named(n, "span") && !f.ofOther(def)
	}
	each := def.Text == "in" || def.Text == "of" || def.Text == ":" // v is the collection of a loop
	return !each && f.isSpanBy(v, hops-1) || named(n, "span") && (def.Kind == syntax.Param || f.mayBeSpan(v, hops-1))
}

// tracingModule matches names of modules and variables for traces.
var tracingModule = regexp.MustCompile(`(?i)telemetry|\botel|trac(e|er|ing)|span|observab|instrument|monitor`)

// ownDefinition returns the definition of a name or member, nil if there is none. The definition of a member must
// belong to the same object: this.span = ..., or a field of its class.
func (f *finder) ownDefinition(n *syntax.Node) *syntax.Node {
	def := f.File.Definition(n)
	switch {
	case def == nil:
		return nil
	case n.Kind == syntax.Name:
		if fn := n.Enclosing(syntax.Func); fn != nil && n.Parent == def { // this.span = span
			if i := slices.IndexFunc(fn.Params(), func(p *syntax.Node) bool { return p.Text == n.Text }); i >= 0 {
				return fn.Params()[i]
			}
		}
		return def
	}
	owner := n.Children[0]
	if def.Parent != nil && def.Parent.Kind == syntax.Class {
		d := f.File.Definition(owner)
		if owner.Text == "this" || owner.Text == "self" || d != nil && strings.TrimLeft(d.Type, "*&") == def.Parent.Text {
			return def
		}
	} else if t := def.Targets()[0]; t.Kind == syntax.Member && t.Children[0].Text == owner.Text {
		return def
	}
	return nil
}

// optional matches the parts of a type that make it optional, and final, quotes and closing brackets.
var optional = regexp.MustCompile(`\s*\|\s*(undefined|null|None)\b|\b(undefined|null|None)\s*\|\s*|^(typing\.)?Optional[\[<]|^final\s+|["'\]>]`)

// apiType returns the name of a declared type, and whether it is a type of OpenTelemetry.
func (f *finder) apiType(t string) (ofAPI bool, name string) {
	t, _, _ = strings.Cut(optional.ReplaceAllString(t, ""), "<") // Histogram<Attributes>
	module, name := f.typeOf(strings.TrimSpace(t))
	all := func(i syntax.Import) bool {
		return i.Member == "*" && i.Name == "" && syntax.Below(i.Path, f.api.modules)
	}
	return syntax.Below(module, f.api.modules) || module == "" && slices.ContainsFunc(f.File.Imports, all) && f.declared()[name] == nil, name
}

// spanType reports whether a declared type is the span type of OpenTelemetry. known is false for types of the project
// with "span" in their names, for type parameters, and for types such as any and object.
func (f *finder) spanType(t string) (is, known bool) {
	ofAPI, name := f.apiType(t)
	module, _ := f.typeOf(t)
	own := module == "" || strings.HasPrefix(module, ".") || f.File.Language == syntax.Go
	lower := strings.ToLower(t)
	switch {
	case ofAPI && (name == "Span" || name == "ReadWriteSpan"):
		return true, true
	case lower == "any", lower == "unknown", lower == "object", lower == "var", len(name) == 1,
		own && strings.Contains(lower, "span") && !strings.Contains(lower, "element"):
		return false, false
	}
	return false, true
}

// ofOther reports whether a definition is the parameter of an iteration callback over values that cannot be spans, by
// mayBeSpan.
func (f *finder) ofOther(def *syntax.Node) bool {
	fn := def.Parent
	if def.Kind != syntax.Param || fn == nil || fn.Kind != syntax.Func || fn.Parent == nil || fn.Parent.Kind != syntax.Call {
		return false
	}
	recv, m := fn.Parent.Method()
	return recv != nil && iteration.MatchString(m) && !f.mayBeSpan(recv, 1)
}

// iteration matches methods that call a function for each value of a collection.
var iteration = regexp.MustCompile(`^(each|forEach|map|flatMap|filter|find|findLast|some|every|ifPresent)$`)

// mayBeSpan reports whether a value may be or contain a span, by the names in the expression and in the values of its
// variables. HTML elements have other names.
func (f *finder) mayBeSpan(v *syntax.Node, hops int) bool {
	for {
		switch v.Kind {
		case syntax.Name, syntax.Member:
			if !tracingModule.MatchString(v.Text) {
				break
			}
			def := f.ownDefinition(v)
			return hops == 0 || def == nil || def.Value() == nil || len(def.Children) != 2 || f.mayBeSpan(def.Value(), hops-1)
		case syntax.Call, syntax.New, syntax.Index, syntax.Await:
		default:
			return true
		}
		if len(v.Children) == 0 {
			return false
		}
		v = v.Children[0]
	}
}

// rename adds a name that code sets on a started span.
func (f *finder) rename(span, name *syntax.Node) {
	if name != nil && f.isSpan(span) {
		f.Renames = append(f.Renames, name)
	}
}

// spanCall adds what a method of a span sets, in JavaScript, Python and Java, and reports whether the name is that of such
// a method. attributes adds the attributes of an expression.
func (f *finder) spanCall(n, recv *syntax.Node, name string, attributes func(*syntax.Node, Attribute)) bool {
	switch name {
	case "updateName", "update_name":
		f.rename(recv, argument(n, 0, "name"))
	case "setAttribute", "set_attribute":
		if value := argument(n, 1, "value"); value != nil && f.isSpan(recv) {
			f.set(Attribute{On: OnSpan, Node: n, Key: argument(n, 0, "key"), Value: value, Span: f.spanOf(recv)})
		}
	case "setAttributes", "set_attributes", "setAllAttributes":
		if f.isSpan(recv) {
			attributes(argument(n, 0, "attributes"), Attribute{On: OnSpan, Span: f.spanOf(recv)})
		}
	case "addEvent", "add_event", "recordException", "record_exception":
		if f.isSpan(recv) {
			attributes(argument(n, 1, "attributes"), Attribute{On: OnEvent, Span: f.spanOf(recv)})
		}
	default:
		return false
	}
	return true
}

// argument returns the argument with a name, or at a position, nil if there is none.
func argument(n *syntax.Node, i int, name string) *syntax.Node {
	if a := n.Named(name); a != nil {
		return a
	}
	return n.Arg(i)
}

// instrumentOf returns the instrument that a variable holds, nil if it is not known.
func (f *finder) instrumentOf(n *syntax.Node) *Instrument {
	if n == nil {
		return nil
	}
	return f.instruments[n.Text]
}

// instrumentTypes matches the types of instruments, and of the parameters of callbacks of observable instruments.
var instrumentTypes = regexp.MustCompile(`^((Long|Double)?(UpDown)?Counter|(Long|Double)?(Histogram|Gauge)|_?Gauge|ObservableResult|BatchObservableResult|Observable(Long|Double)Measurement)$`)

// isInstrument reports whether a variable has the type of an instrument of OpenTelemetry. It follows one assignment,
// such as of a parameter to a field.
func (f *finder) isInstrument(n *syntax.Node) bool {
	for range 2 {
		if n == nil || n.Kind != syntax.Name && n.Kind != syntax.Member {
			return false
		}
		def := f.ownDefinition(n)
		if n.Kind == syntax.Member && def == nil { // a member of another object
			if def = f.File.Definition(n); def != nil && def.Parent.Kind != syntax.Class {
				def = nil
			}
		}
		if def == nil {
			return false
		}
		if def.Type != "" {
			ofAPI, name := f.apiType(def.Type)
			return ofAPI && instrumentTypes.MatchString(name)
		}
		if def.Kind != syntax.Assign || len(def.Children) != 2 {
			return false
		}
		n = def.Value()
	}
	return false
}

// observes returns the call to which a callback with the parameter n is passed. ok reports whether the call is one of
// the methods and n is the first parameter.
func (f *finder) observes(n *syntax.Node, methods ...string) (call *syntax.Node, ok bool) {
	if n == nil || n.Kind != syntax.Name {
		return nil, false
	}
	def := f.File.Definition(n)
	if def == nil || def.Kind != syntax.Param || def.Parent.Kind != syntax.Func || def.Parent.Parent == nil || def.Parent.Parent.Kind != syntax.Call {
		return nil, false
	}
	call = def.Parent.Parent
	_, m := call.Method()
	return call, slices.Contains(methods, m) && def == def.Parent.Params()[0]
}

// noopName matches the names of no-op implementations: of modules, packages, types and functions.
var noopName = regexp.MustCompile(`(^|[^A-Za-z])no_?op([^a-z]|$)|No_?[oO]p|NO_?OP`)

// NoopName reports whether a name is typical of a no-op implementation of the OpenTelemetry API.
func NoopName(name string) bool { return noopName.MatchString(name) }

// Noop reports whether an expression is a no-op implementation, by its names, the imports that they refer to, and the
// values of its variables.
func (u *Uses) Noop(n *syntax.Node) bool {
	for hops := 0; n != nil && hops < 4; {
		name := n.Text
		switch n.Kind {
		case syntax.Call, syntax.New, syntax.Await, syntax.Index, syntax.Member:
			if n.Kind == syntax.Member && NoopName(name) {
				return true
			}
			if len(n.Children) == 0 {
				return false
			}
			n = n.Children[0]
			continue
		case syntax.Name:
		case syntax.Object: // noop.Tracer{}
			name, _, _ = strings.Cut(name, ".")
		default:
			return false
		}
		if i, ok := u.File.Imported(name); NoopName(name) || ok && (NoopName(i.Path) || NoopName(i.Member)) {
			return true
		}
		def := u.File.Definition(n)
		if def == nil || def.Kind != syntax.Assign {
			return false
		}
		n = def.Value()
		hops++
	}
	return false
}

// instrumentMaker matches the methods of a meter that create an instrument, or a builder of one.
var instrumentMaker = regexp.MustCompile(`^(?:(?:(?:Int64|Float64|create_?)(?:[oO]bservable_?)?)([cC]ounter|[uU]p_?[dD]own_?[cC]ounter|[hH]istogram|[gG]auge)|(counter|upDownCounter|histogram|gauge)Builder)$`)

// instrumentKind returns the kind of the instruments that a method of a meter creates, "" for other methods.
func instrumentKind(method string) string {
	m := instrumentMaker.FindStringSubmatch(method)
	if m == nil {
		return ""
	}
	return strings.ReplaceAll(strings.ToLower(m[1]+m[2]), "_", "")
}

// addInstrument adds the instrument that a call creates. It adds no instruments without a name and no no-op
// instruments.
func (f *finder) addInstrument(call *syntax.Node, kind string, name, meter *syntax.Node) *Instrument {
	i := &Instrument{Call: call, Kind: kind, Name: name, Scope: f.scope(meter)}
	if i.Name == nil || f.Noop(i.Call) {
		return i
	}
	i.Metric, _ = f.Known(name)
	for p := i.Call.Parent; p != nil && p.Kind != syntax.Func && p.Kind != syntax.Block; p = p.Parent {
		switch p.Kind {
		case syntax.Assign:
			if t := p.Targets()[0]; t.Kind == syntax.Name || t.Kind == syntax.Member {
				i.Variable = t.Text
			}
		case syntax.Pair:
			i.Variable = p.Children[0].Text
		default:
			continue
		}
		break
	}
	if i.Variable != "" {
		f.instruments[i.Variable] = i
	}
	f.Instruments = append(f.Instruments, i)
	return i
}

// maxAttributes limits the attributes of a file: many calls may share a variable with many attributes.
const maxAttributes = 50_000

// set adds an attribute, unless an invalid call has no key.
func (f *finder) set(a Attribute) {
	if a.Key == nil {
		return
	}
	a.Name, _ = f.Key(a.Key)
	f.Attributes = append(f.Attributes, &a)
}

// pairs adds the attributes of an object literal or of a variable that holds one. a has their target.
func (f *finder) pairs(object *syntax.Node, a Attribute) {
	if len(f.Attributes) > maxAttributes {
		return
	}
	f.elements(object, a)
	object = f.value(object)
	if object == nil {
		return
	}
	if object.Kind == syntax.Call && object.Arg(0) != nil && object.Arg(0).Kind == syntax.Object && object.Callee().Text == "assign" { // Object.assign({...}, base)
		object = object.Arg(0)
	}
	if object.Kind == syntax.Call && object.Callee().Kind == syntax.Name && object.Callee().Text == "dict" {
		for _, p := range object.Args() {
			if p.Kind == syntax.Argument {
				a.Node, a.Key, a.Value = p, &syntax.Node{Kind: syntax.String, Start: p.Start, End: p.Start + len(p.Text), Text: p.Text, Parent: p}, p.Value()
				f.set(a)
			}
		}
		return
	}
	if object.Kind != syntax.Object {
		a.Value = object
		f.passed = append(f.passed, a)
		return
	}
	for _, p := range object.Children {
		if p.Kind != syntax.Pair {
			continue
		}
		a.Node, a.Key, a.Value = p, p.Children[0], p.Value()
		f.set(a)
	}
}

// elements adds the attributes that assignments before a use add to an object: labels["k"] = v, labels.k = v.
func (f *finder) elements(object *syntax.Node, a Attribute) {
	for n := range f.assignedElements(object) {
		key := elementKey(n.Children[0])
		if _, ok := f.Key(key); ok {
			a.Node, a.Key, a.Value = n, key, n.Value()
			f.set(a)
		}
	}
}

// elementKey returns the key of an element of an object: "k" for labels["k"] and labels.k.
func elementKey(element *syntax.Node) *syntax.Node {
	if element.Kind == syntax.Member {
		return &syntax.Node{Kind: syntax.String, Start: element.End - len(element.Text), End: element.End, Text: element.Text, Parent: element}
	}
	return element.Children[1]
}

// assignedElements yields the assignments before a use of a variable that set elements of its object literal.
func (f *finder) assignedElements(object *syntax.Node) iter.Seq[*syntax.Node] {
	return func(yield func(*syntax.Node) bool) {
		if object == nil || object.Kind != syntax.Name || f.value(object).Kind != syntax.Object {
			return
		}
		if f.keyed == nil {
			f.keyed = map[string][]*syntax.Node{}
			script := f.File.Language == syntax.JavaScript || f.File.Language == syntax.TypeScript
			for n := range f.File.Root.All(syntax.Assign) {
				if n.Text == "=" && len(n.Children) == 2 {
					if t := n.Children[0]; (t.Kind == syntax.Index && len(t.Children) == 2 || t.Kind == syntax.Member && script) && t.Children[0].Kind == syntax.Name {
						f.keyed[t.Children[0].Text] = append(f.keyed[t.Children[0].Text], n)
					}
				}
			}
		}
		const maxElements = 32
		def := f.File.Definition(object)
		for i, n := range f.keyed[object.Text] {
			if i < maxElements && n.Start < object.Start && f.File.Definition(n.Children[0].Children[0]) == def && !yield(n) {
				return
			}
		}
	}
}

// attributeObjects adds the attributes of object literals that have a name of attributes and that the file does not set
// on a target: attributes: {"k": v}, trace_attributes = {"k": v}.
func (f *finder) attributeObjects() {
	if !slices.ContainsFunc(f.File.Imports, func(i syntax.Import) bool {
		p := strings.ToLower(i.Path)
		return strings.Contains(p, "telemetry") || strings.Contains(p, "otel") || strings.Contains(p, "tracing")
	}) {
		return
	}
	known := map[*syntax.Node]bool{}
	for _, a := range f.Attributes {
		known[a.Node], known[a.Node.Parent] = true, true
	}
	for n := range f.File.Root.All() {
		if n.Kind == syntax.Assign && n.Text == "=" && len(n.Children) == 2 && !known[n] { // spanAttributes["k"] = v
			if t := n.Children[0]; t.Kind == syntax.Index && len(t.Children) == 2 && attributesName(name(t.Children[0])) {
				if _, ok := f.Key(t.Children[1]); ok {
					f.set(Attribute{Node: n, Key: t.Children[1], Value: n.Value()})
				}
			}
		}
		if n.Kind != syntax.Object || known[n] || n.Parent == nil {
			continue
		}
		var owner *syntax.Node
		switch p := n.Parent; p.Kind {
		case syntax.Call: // setAttributes(span, {"k": v}), traceOperation("name", {"k": v})
			if _, m := p.Method(); p.Arg(1) == n && f.spans[p] == nil && (attributesName(m) || spanCall.MatchString(m)) && dotted(n) {
				f.pairs(n, Attribute{})
			}
			continue
		case syntax.Pair:
			owner = p.Children[0]
		case syntax.Argument:
			owner = p
		case syntax.Assign:
			owner = p.Targets()[0]
		default:
			continue
		}
		if attributesName(owner.Text) {
			f.pairs(n, Attribute{})
		}
	}
}

// dotted reports whether an object has a key with a dot. Attribute keys have dots, names of options have none.
func dotted(object *syntax.Node) bool {
	return slices.ContainsFunc(object.Children, func(p *syntax.Node) bool {
		return p.Kind == syntax.Pair && p.Children[0].Kind == syntax.String && strings.Contains(p.Children[0].Text, ".")
	})
}

// attributesName reports whether a name ends like names of attributes: attributes, spanAttrs, set_attributes.
func attributesName(name string) bool {
	lower := strings.ToLower(name)
	return strings.HasSuffix(lower, "attributes") || strings.HasSuffix(lower, "attrs")
}

// spanCall matches functions of a project that start a span with attributes.
var spanCall = regexp.MustCompile(`(?i)^(start|create|begin|with|trace|record|run)_?[a-z_]*(span|trace|operation)$`)

// name returns the text of a name or member, "" for other expressions.
func name(n *syntax.Node) string {
	if n.Kind == syntax.Name || n.Kind == syntax.Member {
		return n.Text
	}
	return ""
}

// addLog adds a call of a logger and reports whether n is one. The logger comes from a logging module, or its variable
// is named like a logger.
func (f *finder) addLog(n, recv *syntax.Node, name string) bool {
	level, ok := logLevel(name)
	adds := fieldAdder.MatchString(name) && len(n.Args()) > 0 || name == "Logger" && len(n.Args()) == 0 && recv != nil && recv.Kind == syntax.Call
	if !ok && !adds || recv == nil || len(n.Args()) > 0 && strings.EqualFold(name, "send") { // log.Info().Send(), but not logger.send(message)
		return false
	}
	if n.Parent != nil && n.Parent.Kind == syntax.Member { // log.Info().Str("k", v).Msg("..."): the last call writes
		return false
	}
	root := recv
	for (root.Kind == syntax.Call || root.Kind == syntax.Member && !loggerName(root.Text) && !f.madeByLogger(root)) && len(root.Children) > 0 {
		root = root.Children[0]
	}
	if m := f.module(root); m != "" {
		if !syntax.Below(m, f.api.loggers) && !loggerName(root.Text) {
			return false
		}
	} else if !loggerName(root.Text) && !f.madeByLogger(root) {
		return false
	}
	l := Log{Call: n, Level: level}
	args := n.Args()
	switch {
	case adds:
		l.Args = slices.Clip(args)
	case len(args) > 0:
		l.Message, l.Args = args[0], args[1:]
	}
	for c := recv; c.Kind == syntax.Call && c.Callee().Kind == syntax.Member; c = c.Callee().Children[0] {
		_, m := c.Method()
		if !loggerMaker.MatchString(m) {
			l.Args = append(l.Args, c.Args()...) // log.withField("k", v).info(...)
		}
		if l.Level == "" {
			l.Level, _ = logLevel(strings.TrimPrefix(m, "at"))
		}
	}
	f.Logs = append(f.Logs, l)
	return true
}

// addPrint adds a call that writes to standard output, if the file belongs to a service and not to a command-line
// program.
func (f *finder) addPrint(n *syntax.Node) {
	if len(n.Args()) == 0 || !f.File.ImportsAny(f.api.services...) || f.File.ImportsAny(f.api.commands...) {
		return
	}
	f.Logs = append(f.Logs, Log{Call: n, Message: n.Args()[0], Args: n.Args()[1:], Printed: true})
}

// fieldAdder matches methods that return a logger whose records have the fields of the arguments: slog.With("k", v).
var fieldAdder = regexp.MustCompile(`^([wW]ith|[wW]ith_?[fF]ields?|WithValues|bind|child)$`)

// loggerMaker matches functions that return a logger for their arguments: log.FromRequest(r).Info(...).
var loggerMaker = regexp.MustCompile(`^([gG]et|[fF]rom|[fF]or|[nN]ew|[nN]amed|[lL]ogger|[cC]tx)([A-Z].*|$)`)

// madeByLogger reports whether a variable has a type of a logging module, or holds the result of a function of a
// logging module.
func (f *finder) madeByLogger(n *syntax.Node) bool {
	if n.Kind != syntax.Name && n.Kind != syntax.Member {
		return false
	}
	def := f.File.Definition(n)
	if def == nil || len(f.api.loggers) == 0 {
		return false
	}
	module := ""
	if def.Type != "" {
		full := strings.TrimLeft(def.Type, "*&")
		pkg, typ, ok := strings.Cut(full, ".")
		if i, imported := f.File.Imported(pkg); imported && (!ok || strings.HasSuffix(typ, "Logger") || typ == "Entry") {
			module = i.Path
		} else if strings.HasSuffix(full, ".Logger") {
			module = full // java.util.logging.Logger
		}
	}
	if v := def.Value(); module == "" && v != nil && v.Kind == syntax.Call && def.Kind == syntax.Assign {
		module, _ = f.origin(v.Callee())
	}
	return syntax.Below(module, f.api.loggers)
}

// origin returns the module and the member that a callee refers to: "http" and "createServer" for http.createServer.
// The member is "" for the module itself and its default export.
func (f *finder) origin(callee *syntax.Node) (module, name string) {
	switch callee.Kind {
	case syntax.Call: // require("knex")({...})
		if callee.Callee().Text == "require" && callee.Arg(0) != nil {
			return callee.Arg(0).Text, ""
		}
	case syntax.Name:
		i, ok := f.File.Imported(callee.Text)
		if !ok {
			return "", ""
		}
		if i.Member == "default" {
			i.Member = ""
		}
		return i.Path, i.Member
	case syntax.Member:
		x := callee.Children[0]
		if x.Kind == syntax.Member && x.Children[0].Kind == syntax.Name { // import tornado.web
			if i, ok := f.File.Imported(x.Children[0].Text); ok && i.Member == "" && f.File.Language == syntax.Python {
				return x.Children[0].Text + "." + x.Text, callee.Text
			}
		}
		if x.Kind == syntax.Call && x.Callee().Text == "require" && x.Arg(0) != nil {
			return x.Arg(0).Text, callee.Text
		}
		if x.Kind == syntax.Name {
			if i, ok := f.File.Imported(x.Text); ok {
				if i.Member != "" && i.Member != "default" && i.Member != "*" {
					i.Path += "." + i.Member
				}
				return i.Path, callee.Text
			}
		}
	}
	return "", ""
}

// mentionsTelemetry reports whether an argument contains a name that is typical of instrumentation, such as of a
// middleware or an interceptor.
func mentionsTelemetry(n *syntax.Node) bool {
	return n.Has(func(c *syntax.Node) bool {
		lower := strings.ToLower(c.Text)
		return (c.Kind == syntax.Name || c.Kind == syntax.Member) &&
			(strings.Contains(lower, "telemetry") || strings.Contains(lower, "otel") || strings.Contains(lower, "tracing") || strings.Contains(lower, "instrumentation"))
	})
}

// level adds the level of a logger, a name or a string, if it is debug or trace.
func (f *finder) level(n *syntax.Node) {
	script := f.File.Language == syntax.JavaScript || f.File.Language == syntax.TypeScript
	if n == nil || n.Kind != syntax.String && (n.Kind != syntax.Member || script && !strings.Contains(strings.ToLower(name(n.Children[0])), "level")) {
		return // also process.env.DEBUG
	}
	if level, _ := logLevel(strings.Replace(n.Text, "Level", "", 1)); level == "debug" || level == "trace" {
		f.LogLevels = append(f.LogLevels, LogLevel{Node: n, Level: level, Conditional: conditional(n)})
	}
}

// boundaryTable returns boundaries by the qualified name of the function, class or method that creates them. A row has
// a kind, a library and names separated by spaces.
func boundaryTable(rows [][3]string) map[string]Boundary {
	table := map[string]Boundary{}
	for _, row := range rows {
		for name := range strings.FieldsSeq(row[2]) {
			table[name] = Boundary{Kind: row[0], Library: row[1]}
		}
	}
	return table
}

// boundary adds a server, consumer or client if the table contains the callee of a call.
func (f *finder) boundary(n *syntax.Node, table map[string]Boundary) {
	for _, name := range f.qualified(n.Callee()) {
		if b, ok := table[name]; ok {
			b.Node = n
			b.Instrumented = slices.ContainsFunc(n.Args(), mentionsTelemetry)
			f.Boundaries = append(f.Boundaries, b)
			return
		}
	}
}

// qualified returns the possible qualified names of an expression: express, http.createServer. A Java file with imports
// of whole packages has several, unless it declares the name itself.
func (f *finder) qualified(n *syntax.Node) []string {
	if module, name := f.origin(n); module != "" {
		return []string{strings.TrimSuffix(module+"."+name, ".")}
	}
	if f.File.Language != syntax.Java {
		return nil
	}
	const maxParts, maxPackages = 8, 32
	name := ""
	for i := 0; i < maxParts && n.Kind == syntax.Member; i++ {
		name = "." + n.Text + name
		n = n.Children[0]
	}
	if n.Kind != syntax.Name || n.Text == "" || f.File.Definition(n) != nil || f.declared()[n.Text] != nil {
		return nil
	}
	name = n.Text + name
	names := []string{name} // the name may begin with a package
	for _, i := range f.File.Imports {
		if i.Member == "*" && len(names) < maxPackages {
			names = append(names, i.Path+"."+name)
		}
	}
	return names
}

// withoutAttributes reports whether a resource is the result of one of the SDK's functions, called without arguments.
func (f *finder) withoutAttributes(resource *syntax.Node, functions ...string) bool {
	v := f.value(resource)
	if v == nil || v.Kind != syntax.Call || len(v.Args()) > 0 {
		return false
	}
	recv, m := v.Method()
	return slices.Contains(functions, m) && (recv == nil || named(recv, "resource") || strings.HasSuffix(f.module(recv), "resource"))
}

// addResource adds the resource that a call creates with the attributes of an object literal, or of a variable that holds
// one.
func (f *finder) addResource(call, attributes *syntax.Node, environment bool) {
	r := Resource{Node: call, Attributes: map[string]*syntax.Node{}, FromEnvironment: environment}
	object := f.value(attributes)
	for n := range f.assignedElements(attributes) { // attributes[SERVICE_NAME] = name
		if key, ok := f.Key(elementKey(n.Children[0])); ok {
			r.Attributes[key] = n.Value()
		} else {
			r.Opaque = true
		}
	}
	if object == nil || object.Kind != syntax.Object || len(f.Attributes) > maxAttributes {
		r.Opaque = object != nil
	} else {
		for _, c := range object.Children {
			if c.Kind != syntax.Pair {
				r.Opaque = true
				continue
			}
			if key, ok := f.Key(c.Children[0]); ok {
				r.Attributes[key] = c.Value()
			} else {
				r.Opaque = true
			}
		}
		f.pairs(object, Attribute{On: OnResource})
	}
	f.Resources = append(f.Resources, r)
}
