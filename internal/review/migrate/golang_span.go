// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"slices"
	"strconv"
	"strings"
)

// uses returns the uses of an object in the file.
func (r *goRewriter) uses(o types.Object) []*ast.Ident {
	if r.usage == nil {
		r.usage = map[types.Object][]*ast.Ident{}
		for n := range ast.Preorder(r.f.tree) {
			if id, ok := n.(*ast.Ident); ok && r.info.Uses[id] != nil {
				r.usage[r.info.Uses[id]] = append(r.usage[r.info.Uses[id]], id)
			}
		}
	}
	return r.usage[o]
}

// prepare collects data about the file before it is rewritten: variables for the span of a context, unneeded tracers,
// slices of start options, and samplers.
func (r *goRewriter) prepare() {
	for n := range ast.Preorder(r.f.tree) {
		switch n := n.(type) {
		case *ast.AssignStmt:
			if len(n.Rhs) != 1 {
				continue
			}
			r.findUnneeded(n)
			if lit, ok := n.Rhs[0].(*ast.CompositeLit); ok && len(n.Lhs) == 1 {
				r.findOptions(n.Lhs[0], lit.Elts)
			}
			switch _, name := r.call(n.Rhs[0]); name {
			case "ot.SpanFromContext", "zipkin.SpanFromContext", "oc.FromContext", "dd.SpanFromContext":
				if o := r.object(n.Lhs[0]); o != nil {
					r.found[o] = true
				}
			}
		case *ast.CallExpr:
			if r.symbol(n.Fun) == "oc.ApplyConfig" {
				r.sampler[r.function(n)] = n
			}
		case *ast.ValueSpec:
			if len(n.Names) == 1 && len(n.Values) == 0 && r.function(n) != nil {
				r.findOptions(n.Names[0], nil)
			}
		}
	}
}

// optionSlice is a local slice of start options. A parent among them becomes a separate variable.
type optionSlice struct {
	parent string // the name of that variable, "" for none
	more   bool   // the slice has options other than a parent
}

// findOptions records a local slice of options that is only appended to and passed to starts, with at most one parent.
func (r *goRewriter) findOptions(def ast.Expr, list []ast.Expr) {
	o := r.defined(def)
	if o == nil {
		return
	}
	if t, ok := o.Type().(*types.Slice); !ok || !fromSource(t.Elem()) {
		return
	}
	options, parents := &optionSlice{}, 0
	add := func(e ast.Expr) string {
		optionKind := goStartOptions[r.optionSymbol(e)].kind
		if optionKind == "parent" || optionKind == "server" {
			parents++
		}
		options.more = options.more || optionKind != "parent"
		return optionKind
	}
	for _, e := range list {
		add(e)
	}
	for _, id := range r.uses(o) {
		switch p := r.parents[id].(type) {
		case *ast.AssignStmt:
			if r.appended(p) == nil {
				return
			}
		case *ast.CallExpr:
			if row := goRows[r.symbol(p.Fun)]; p.Ellipsis.IsValid() && row.starts() {
				continue
			}
			if s, ok := r.parents[p].(*ast.AssignStmt); !ok || r.appended(s) == nil || p.Args[0] != ast.Expr(id) {
				return
			}
			for _, e := range p.Args[1:] {
				if optionKind := add(e); (optionKind == "parent" || optionKind == "server") && r.repeated(p, def) {
					return
				}
			}
		default:
			return
		}
	}
	if parents > 1 {
		return
	}
	if parents == 1 {
		options.parent = r.fresh("parentContext")
	}
	r.options[o] = options
}

// repeated reports whether a node may run repeatedly, or later, in the scope of a definition: in a loop, a function
// literal or a labeled statement.
func (r *goRewriter) repeated(n, def ast.Node) bool {
	for n = r.parents[n]; n != nil && (def.Pos() < n.Pos() || n.End() < def.End()); n = r.parents[n] {
		switch n.(type) {
		case *ast.ForStmt, *ast.RangeStmt, *ast.FuncLit, *ast.LabeledStmt:
			return true
		}
	}
	return false
}

// appended returns the values that a statement x = append(x, ...) appends to a variable, nil for other statements.
func (r *goRewriter) appended(s *ast.AssignStmt) []ast.Expr {
	if len(s.Lhs) != 1 || len(s.Rhs) != 1 || s.Tok != token.ASSIGN {
		return nil
	}
	c, ok := s.Rhs[0].(*ast.CallExpr)
	if !ok || len(c.Args) < 2 || c.Ellipsis.IsValid() || r.object(s.Lhs[0]) == nil || r.object(c.Args[0]) != r.object(s.Lhs[0]) {
		return nil
	}
	if _, ok := r.object(c.Fun).(*types.Builtin); !ok {
		return nil
	}
	return c.Args[1:]
}

// setOptions returns the lines that replace a definition of options, or an append to them.
func (r *goRewriter) setOptions(name *ast.Ident, list []ast.Expr) ([]string, int) {
	options := r.options[r.object(name)]
	var s starting
	for _, o := range list {
		if !r.option(&s, o) || s.name != "" {
			r.fail(o, "%s is in no table as an option in a slice.", r.brief(o))
			return nil, 0
		}
	}
	args, slice := strings.Join(s.options(r), ", "), "[]"+r.use("trace")+".SpanStartOption"
	define := r.info.Defs[name] != nil
	var lines []string
	switch {
	case s.parent != "" && define:
		lines = append(lines, options.parent+" := "+s.parent)
	case s.parent != "":
		lines = append(lines, options.parent+" = "+s.parent)
	case options.parent != "" && define:
		lines = append(lines, options.parent+" := "+r.use("context")+".Background()")
	}
	switch {
	case !options.more || args == "" && !define:
	case args == "":
		lines = append(lines, "var "+name.Name+" "+slice)
	case define:
		lines = append(lines, name.Name+" := "+slice+"{"+args+"}")
	default:
		lines = append(lines, fmt.Sprintf("%s = append(%[1]s, %s)", name.Name, args))
	}
	return lines, 1
}

// findUnneeded records the variables of a definition that are used only in calls without need for a tracer, or as the
// logger or metrics of the Jaeger client. It records none if a definition of several variables would keep none.
func (r *goRewriter) findUnneeded(s *ast.AssignStmt) {
	named := 0
	var unneeded []types.Object
	for _, e := range s.Lhs {
		o := r.defined(e)
		if o == nil || isBlank(e) {
			continue
		}
		named++
		if uses := r.uses(o); len(uses) > 0 && !slices.ContainsFunc(uses, func(id *ast.Ident) bool {
			switch p := r.parents[id].(type) {
			case *ast.CallExpr:
				name := r.symbol(p.Fun)
				return name != "jaegercfg.Logger" && name != "jaegercfg.Metrics" && (name != "ot.SetGlobalTracer" || !fromSource(o.Type()))
			case *ast.SelectorExpr:
				name := r.symbol(p)
				return name != "ot.Tracer.Inject" && name != "ot.Tracer.Extract" && name != "zipkin.Tracer.Extract" || !fromSource(o.Type())
			}
			return true
		}) {
			unneeded = append(unneeded, o)
		}
	}
	if len(s.Lhs) == 1 || named > len(unneeded) {
		for _, o := range unneeded {
			r.unneeded[o] = true
		}
	}
}

// function returns the function around a node, or nil.
func (r *goRewriter) function(n ast.Node) ast.Node {
	for n = r.parents[n]; n != nil; n = r.parents[n] {
		switch n.(type) {
		case *ast.FuncDecl, *ast.FuncLit:
			return n
		}
	}
	return nil
}

// hoist finds the statements that set the kind of a span, if the same list starts the span. The start sets the kind
// instead.
func (r *goRewriter) hoist(list []ast.Stmt) {
	starts := map[types.Object]*ast.CallExpr{}
	for _, s := range list {
		if a, ok := s.(*ast.AssignStmt); ok && len(a.Rhs) == 1 {
			c, name := r.call(a.Rhs[0])
			if row := goRows[name]; c == nil || !row.starts() {
				continue
			}
			if o := r.object(a.Lhs[0]); o != nil {
				starts[o] = c
			}
			continue
		}
		x, ok := s.(*ast.ExprStmt)
		if !ok {
			continue
		}
		span, kind := r.setsKind(x.X)
		if kind == "" {
			continue
		}
		if c := starts[r.object(span)]; c != nil && r.kinds[c] == "" {
			r.kinds[c] = kind
			r.removed[s] = true
			r.mark(s)
		}
	}
}

// setsKind returns the span and the kind of a call that sets the kind of a span. The kind is "" for other expressions.
func (r *goRewriter) setsKind(e ast.Expr) (span ast.Expr, kind string) {
	c, name := r.call(e)
	switch {
	case name == "ot.Tag.Set" && len(c.Args) == 1:
		return c.Args[0], strings.TrimPrefix(goStartOptions[r.symbol(method(c))].kind, "kind ")
	case name == "otext.spanKindTagName.Set" && len(c.Args) == 2:
		kind, _ = r.known(c.Args[1])
		return c.Args[0], kind
	case (name == "ot.Span.SetTag" || name == "dd.Span.SetTag") && len(c.Args) == 2:
		if key, _ := r.known(c.Args[0]); key == "span.kind" {
			kind, _ = r.known(c.Args[1])
			return method(c), kind
		}
	}
	return nil, ""
}

// setLateKind rewrites a call that sets the kind of a span after the start.
func setLateKind(r *goRewriter, c *ast.CallExpr) ([]string, bool) {
	span, kind := r.setsKind(c)
	if kind == "" {
		r.fail(c, "The kind of the span is not known.")
		return nil, false
	}
	r.mark(c.Fun)
	for _, a := range c.Args[1:] {
		r.mark(a)
	}
	r.note(c, lateKind)
	return []string{r.text(span) + ".SetAttributes(" + r.use("attribute") + `.String("span.kind", ` + strconv.Quote(kind) + "))"}, true
}

// starting holds the options of a span's start.
type starting struct {
	parent, kind, name string
	attributes, extra  []string
}

// optionSymbol returns the symbol of an option of a start.
func (r *goRewriter) optionSymbol(e ast.Expr) string {
	switch x := ast.Unparen(e).(type) {
	case *ast.CallExpr:
		return r.symbol(x.Fun)
	case *ast.CompositeLit:
		if x.Type == nil {
			return ""
		}
		return r.symbol(x.Type)
	}
	return r.symbol(e)
}

// option adds an option of a start. It returns false if the option is in no table.
func (r *goRewriter) option(s *starting, e ast.Expr) bool {
	e = ast.Unparen(e)
	var args []ast.Expr
	var lit *ast.CompositeLit
	switch x := e.(type) {
	case *ast.CallExpr:
		args = x.Args
		r.markName(x.Fun)
	case *ast.CompositeLit:
		if x.Type == nil {
			return false
		}
		lit = x
		r.markName(x.Type)
	default:
		r.markName(e)
	}
	optionKind := goStartOptions[r.optionSymbol(e)].kind
	if optionKind == "map of tags" && len(args) > 0 {
		lit, _ = ast.Unparen(args[0]).(*ast.CompositeLit)
	}
	switch {
	case optionKind == "none":
		return true
	case optionKind == "removed":
		r.mark(e)
		r.note(e, fmt.Sprintf("%s has no counterpart; it is removed.", r.brief(e)))
		return true
	case optionKind == "client" || strings.HasPrefix(optionKind, "kind "):
		return s.setKind(strings.TrimPrefix(optionKind, "kind "))
	case (optionKind == "tags" || optionKind == "map of tags") && lit != nil:
		for _, el := range lit.Elts {
			kv, ok := el.(*ast.KeyValueExpr)
			if !ok || !r.startTag(s, kv.Key, kv.Value) {
				return false
			}
		}
		return true
	case optionKind == "tag" && lit != nil:
		var key, value ast.Expr
		for i, el := range lit.Elts {
			if kv, ok := el.(*ast.KeyValueExpr); ok {
				r.mark(kv.Key)
				if kv.Key.(*ast.Ident).Name == "Key" {
					key = kv.Value
				} else {
					value = kv.Value
				}
			} else if i == 0 {
				key = el
			} else {
				value = el
			}
		}
		return key != nil && value != nil && r.startTag(s, key, value)
	case len(args) == 0:
		return false
	case optionKind == "service":
		service, known := r.known(args[0])
		if known = known && service == r.unit.datadogService(); !known {
			r.fail(e, "The service of a span is not known to be that of the tracer: a span has the service of its resource.")
		}
		r.mark(args[0])
		return known
	case optionKind == "of kind":
		kind, _ := r.known(args[0])
		r.mark(args[0])
		return s.setKind(strings.ToLower(kind))
	case optionKind == "parent" || optionKind == "server":
		if s.parent != "" {
			r.fail(e, "A span has one parent in OpenTelemetry; this one has several references.")
			return false
		}
		s.parent = r.text(args[0])
		return optionKind == "parent" || s.setKind("server")
	case optionKind == "time":
		s.extra = append(s.extra, fmt.Sprintf("%s.WithTimestamp(%s)", r.use("trace"), r.text(args[0])))
		return true
	case optionKind == "tag call":
		return r.startTag(s, args[0], args[1])
	case optionKind == "resource":
		s.name = r.text(args[0])
		return true
	case optionKind == "type":
		value, known := r.known(args[0])
		if kind := datadogTypes[value]; known && kind != "" {
			r.mark(args[0])
			return s.setKind(strings.ToLower(kind))
		}
		s.attributes = append(s.attributes, fmt.Sprintf(`%s.String("span.type", %s)`, r.use("attribute"), r.value(args[0])))
		return true
	}
	return false
}

func (s *starting) setKind(kind string) bool {
	s.kind = cmp.Or(s.kind, spanKinds[kind])
	return s.kind == spanKinds[kind] && s.kind != ""
}

// startTag adds a tag of a start. It returns false if the tag is in no table.
func (r *goRewriter) startTag(s *starting, key, value ast.Expr) bool {
	k, known := r.known(key)
	switch {
	case known && k == "span.kind":
		kind, ok := r.known(value)
		if sym := r.symbol(value); !ok && sym != "" {
			kind, ok = strings.TrimPrefix(goStartOptions[sym].kind, "kind "), true
		}
		r.mark(key)
		r.mark(value)
		s.kind = "" // the tag overrides Datadog's span type
		return ok && s.setKind(kind)
	case known && k == "resource.name":
		r.mark(key)
		s.name = r.text(value)
		return true
	case known && (k == "error" || leftTags[k] != ""):
		r.fail(key, "The tag %s of a start is in no table.", k)
		return false
	}
	s.attributes = append(s.attributes, r.attribute(key, value))
	return true
}

// started returns the call that starts a span with a tracer, a parent context, a name and options.
func (r *goRewriter) started(c *ast.CallExpr, tracer, parent string, name ast.Expr, options []ast.Expr) (string, bool) {
	var s starting
	if c.Ellipsis.IsValid() {
		var slice *optionSlice
		if len(options) == 1 {
			slice = r.options[r.object(options[0])]
		}
		if slice == nil || r.kinds[c] != "" {
			return r.fail(c, "The options of %s are a slice: they are not known.", r.brief(c.Fun))
		}
		s.parent = slice.parent
		if slice.more {
			s.extra = []string{r.text(options[0]) + "..."}
		}
		options = nil
	}
	for _, o := range options {
		if !r.option(&s, o) {
			return r.fail(o, "%s is in no table as an option of %s.", r.brief(o), r.brief(c.Fun))
		}
	}
	if kind := r.kinds[c]; kind != "" {
		s.kind = spanKinds[kind]
		if s.kind == "" {
			return r.fail(c, "The kind %q of the span is in no table.", kind)
		}
	}
	switch {
	case s.parent != "" && parent != "":
		return r.fail(c, "The span has a parent besides the context.")
	case parent == "" && s.parent != "":
		parent = s.parent
	case parent == "":
		parent = r.use("context") + ".Background()"
	}
	spanName := r.text(name)
	if s.name != "" {
		s.attributes = append([]string{fmt.Sprintf(`%s.String("operation.name", %s)`, r.use("attribute"), spanName)}, s.attributes...)
		spanName = s.name
	}
	return tracer + ".Start(" + strings.Join(append([]string{parent, spanName}, s.options(r)...), ", ") + ")", true
}

// options returns the options for Start.
func (s *starting) options(r *goRewriter) []string {
	var args []string
	if s.kind != "" {
		args = append(args, fmt.Sprintf("%s.WithSpanKind(%[1]s.SpanKind%s)", r.use("trace"), s.kind))
	}
	if len(s.attributes) > 0 {
		args = append(args, fmt.Sprintf("%s.WithAttributes(%s)", r.use("trace"), strings.Join(s.attributes, ", ")))
	}
	return append(args, s.extra...)
}

func (r *goRewriter) globalTracer() string { return r.use("otel") + ".Tracer(" + r.scope() + ")" }

func startSpan(r *goRewriter, c *ast.CallExpr) (string, bool) {
	if len(c.Args) == 0 {
		return "", false
	}
	tracer, parent := r.globalTracer, ""
	switch r.symbol(c.Fun) {
	case "ot.Tracer.StartSpan", "zipkin.Tracer.StartSpan":
		tracer = func() string { return r.text(method(c)) }
	case "dd.Span.StartChild":
		parent = fmt.Sprintf("%s.ContextWithSpan(%s.Background(), %s)", r.use("trace"), r.use("context"), r.text(method(c)))
	}
	return r.started(c, tracer(), parent, c.Args[0], c.Args[1:])
}

func startFromContext(r *goRewriter, c *ast.CallExpr) (string, bool) {
	if len(c.Args) < 2 {
		return "", false
	}
	var tracer string
	rest := c.Args[1:]
	if r.symbol(c.Fun) == "ot.StartSpanFromContextWithTracer" {
		tracer, rest = r.text(c.Args[1]), c.Args[2:]
	} else if r.symbol(c.Fun) == "zipkin.Tracer.StartSpanFromContext" {
		tracer = r.text(method(c))
	} else {
		tracer = r.globalTracer()
	}
	if len(rest) == 0 {
		return "", false
	}
	return r.started(c, tracer, r.text(c.Args[0]), rest[0], rest[1:])
}

// value returns the new source of a value, as a literal if it is a constant of a source library.
func (r *goRewriter) value(e ast.Expr) string {
	if v, ok := r.known(e); ok && r.mentionsSource(e) {
		r.mark(e)
		return strconv.Quote(v)
	}
	return r.text(e)
}

// mentionsSource reports whether an expression has a name of a source library.
func (r *goRewriter) mentionsSource(e ast.Expr) bool {
	found := false
	r.inspect(e, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && !found {
			o := r.info.Uses[id]
			found = o != nil && o.Pkg() != nil && goSources[o.Pkg().Path()] != ""
		}
		return !found
	})
	return found
}

// key returns the source of the key of an attribute.
func (r *goRewriter) key(e ast.Expr) string {
	k, ok := r.known(e)
	if !ok {
		return r.text(e)
	}
	if renamed := attributeKey(k); renamed != k || r.mentionsSource(e) {
		r.mark(e)
		return strconv.Quote(renamed)
	}
	return r.text(e)
}

// attribute returns the attribute for a key and a value.
func (r *goRewriter) attribute(key, value ast.Expr) string {
	return r.typed(r.key(key), r.value(value), r.info.TypeOf(value))
}

// typed returns the attribute for a value of type t. An added function converts values of unknown types at run time.
func (r *goRewriter) typed(key, value string, t types.Type) string {
	of := func(function, value string) string {
		return fmt.Sprintf("%s.%s(%s, %s)", r.use("attribute"), function, key, value)
	}
	if t != nil {
		t = types.Default(t)
		switch b, _ := t.Underlying().(*types.Basic); {
		case b == nil:
			if s, ok := t.(*types.Slice); ok && types.Identical(s.Elem(), types.Typ[types.String]) {
				return of("StringSlice", value)
			}
		case types.Implements(t, stringer) || types.Implements(t, errorType):
		case attributeTypes[b.Kind()].function != "":
			to := attributeTypes[b.Kind()]
			if _, named := types.Unalias(t).(*types.Named); named || types.Typ[b.Kind()].Name() != to.takes {
				value = to.takes + "(" + value + ")"
			}
			return of(to.function, value)
		}
	}
	return r.helper("spanAttribute") + "(" + key + ", " + value + ")"
}

// attributeTypes are the functions that make attributes of basic types, and the types of their arguments.
var attributeTypes = map[types.BasicKind]struct{ function, takes string }{
	types.String:  {"String", "string"},
	types.Bool:    {"Bool", "bool"},
	types.Int:     {"Int", "int"},
	types.Int8:    {"Int", "int"},
	types.Int16:   {"Int", "int"},
	types.Int32:   {"Int", "int"},
	types.Int64:   {"Int64", "int64"},
	types.Uint8:   {"Int", "int"},
	types.Uint16:  {"Int", "int"},
	types.Uint32:  {"Int64", "int64"},
	types.Float32: {"Float64", "float64"},
	types.Float64: {"Float64", "float64"},
}

// stringer and errorType are the interfaces of values that tracers convert to text.
var (
	stringer  = method0("String")
	errorType = types.Universe.Lookup("error").Type().Underlying().(*types.Interface)
)

func method0(name string) *types.Interface {
	result := types.NewTuple(types.NewVar(token.NoPos, nil, "", types.Typ[types.String]))
	f := types.NewFunc(token.NoPos, nil, name, types.NewSignatureType(nil, nil, nil, nil, result, false))
	return types.NewInterfaceType([]*types.Func{f}, nil).Complete()
}

// isTypeError reports whether the type of an expression is known and implements error.
func (r *goRewriter) isTypeError(e ast.Expr) bool {
	t := r.info.TypeOf(e)
	return t != nil && t != types.Typ[types.Invalid] && types.Implements(t, errorType)
}

// tag returns the replacement of a tag that is set on a span: an attribute, or the lines of other statements.
func (r *goRewriter) tag(span string, key, value ast.Expr, t types.Type) (attribute string, lines []string, ok bool) {
	k, known := r.known(key)
	if known && leftTags[k] != "" {
		r.fail(key, "The tag %s has no counterpart: %s.", k, leftTags[k])
		return "", nil, false
	}
	switch {
	case known && k == "span.kind":
		r.note(key, lateKind)
		if kind, ok := r.known(value); ok {
			r.mark(key)
			r.mark(value)
			return r.typed(strconv.Quote(k), strconv.Quote(kind), types.Typ[types.String]), nil, true
		}
	case known && (k == "resource.name" || k == "span.name"):
		r.mark(key)
		return "", []string{span + ".SetName(" + r.value(value) + ")"}, true
	case known && k == "error":
		r.mark(key)
		set := span + ".SetStatus(" + r.use("codes") + ".Error, "
		v := r.info.Types[value].Value
		switch {
		case v != nil && v.Kind() == constant.Bool && constant.BoolVal(v):
			return "", []string{set + `"")`}, true
		case v != nil && v.Kind() == constant.String:
			return "", []string{set + r.value(value) + ")"}, true
		case r.isTypeError(value):
			return "", r.recordError(span, value), true
		case v == nil && t != nil && types.Identical(t.Underlying(), types.Typ[types.Bool]):
			return "", []string{"if " + r.text(value) + " {", "\t" + set + `"")`, "}"}, true
		case v == nil && t != nil && types.Identical(t.Underlying(), types.Typ[types.String]):
			return "", []string{set + r.text(value) + ")"}, true
		}
		r.fail(value, "The tag error has the value %s, which no table knows.", r.brief(value))
		return "", nil, false
	}
	text := r.value(value)
	if lit, ok := ast.Unparen(value).(*ast.BasicLit); ok && lit.Kind == token.INT {
		t = types.Typ[types.Int]
	}
	if c, ok := ast.Unparen(value).(*ast.CallExpr); ok && len(c.Args) == 1 && t != nil && r.info.Types[c.Fun].IsType() && types.Identical(r.info.TypeOf(c.Fun), t) {
		if b, ok := t.(*types.Basic); ok && (b.Kind() == types.Uint16 || b.Kind() == types.Uint32) {
			text = r.value(c.Args[0]) // typed adds the conversion
			if inner, ok := r.info.TypeOf(c.Args[0]).(*types.Basic); ok && inner.Info()&types.IsInteger != 0 {
				t = inner
			}
		}
	}
	return r.typed(r.key(key), text, t), nil, true
}

// recordError returns the lines that record an error if it is not nil.
func (r *goRewriter) recordError(span string, err ast.Expr) []string {
	e := r.text(err)
	test := "if " + e + " != nil {"
	if !simple(err) {
		test, e = "if err := "+e+"; err != nil {", "err"
	}
	lines := []string{
		span + ".RecordError(" + e + ")",
		span + ".SetStatus(" + r.use("codes") + ".Error, " + e + ".Error())",
	}
	for n := r.parents[err]; n != nil; n = r.parents[n] {
		if i, ok := n.(*ast.IfStmt); ok && r.isError(i.Cond, err) && i.Body.Pos() < err.Pos() && err.End() <= i.Body.End() {
			return lines
		}
	}
	return []string{test, "\t" + lines[0], "\t" + lines[1], "}"}
}

// chain rewrites a chain of SetTag and SetOperationName, such as span.SetTag(a, b).SetTag(c, d).
func (r *goRewriter) chain(e ast.Expr) ([]string, bool) {
	var calls []*ast.CallExpr
	for {
		c, name := r.call(e)
		if (name != "ot.Span.SetTag" || len(c.Args) != 2) && (name != "ot.Span.SetOperationName" || len(c.Args) != 1) {
			break
		}
		calls = append([]*ast.CallExpr{c}, calls...)
		e = method(c)
	}
	if len(calls) < 2 || !simple(e) {
		return nil, false
	}
	span := r.text(e)
	var lines, attributes []string
	for _, c := range calls {
		if len(c.Args) == 1 {
			r.markName(c.Fun)
			lines = append(lines, span+".SetName("+r.text(c.Args[0])+")")
			continue
		}
		a, more, ok := r.tag(span, c.Args[0], c.Args[1], r.info.TypeOf(c.Args[1]))
		if !ok {
			return nil, false
		}
		r.markName(c.Fun)
		lines = append(lines, more...)
		if a != "" {
			attributes = append(attributes, a)
		}
	}
	if len(attributes) > 0 {
		lines = append([]string{span + ".SetAttributes(" + strings.Join(attributes, ", ") + ")"}, lines...)
	}
	return lines, true
}

func (r *goRewriter) setTag(span ast.Expr, key, value ast.Expr, t types.Type) ([]string, bool) {
	a, lines, ok := r.tag(r.text(span), key, value, t)
	switch {
	case !ok:
		return nil, false
	case a != "":
		return []string{r.text(span) + ".SetAttributes(" + a + ")"}, true
	case len(lines) > 1 && !simple(span):
		r.fail(span, "The span of a tag is the result of a call.")
		return nil, false
	}
	return lines, true
}

func setTag(r *goRewriter, c *ast.CallExpr) ([]string, bool) {
	if len(c.Args) != 2 {
		return nil, false
	}
	t := r.info.TypeOf(c.Args[1])
	if r.symbol(c.Fun) == "zipkin.Span.Tag" {
		t = types.Typ[types.String]
	}
	return r.setTag(method(c), c.Args[0], c.Args[1], t)
}

// setExtTag rewrites ext.HTTPMethod.Set(span, value).
func setExtTag(r *goRewriter, c *ast.CallExpr) ([]string, bool) {
	if len(c.Args) != 2 {
		return nil, false
	}
	key := method(c)
	t := r.info.TypeOf(c.Args[1])
	switch r.symbol(c.Fun) { // the method determines the type of the value
	case "otext.StringTagName.Set", "zipkin.Tag.Set":
		t = types.Typ[types.String]
	case "otext.Uint16TagName.Set":
		t = types.Typ[types.Uint16]
	case "otext.Uint32TagName.Set":
		t = types.Typ[types.Uint32]
	case "otext.BoolTagName.Set":
		t = types.Typ[types.Bool]
	}
	return r.setTag(c.Args[0], key, c.Args[1], t)
}

func setOperationName(r *goRewriter, c *ast.CallExpr) ([]string, bool) {
	return []string{r.fill("$x.SetName($0)", c)}, len(c.Args) == 1
}

func finishWithOptions(r *goRewriter, c *ast.CallExpr) ([]string, bool) {
	lit, ok := ast.Unparen(c.Args[0]).(*ast.CompositeLit)
	if !ok || len(lit.Elts) > 1 {
		return nil, false
	}
	r.mark(lit.Type)
	options := ""
	for _, e := range lit.Elts {
		kv, ok := e.(*ast.KeyValueExpr)
		if !ok || r.code(kv.Key) != "FinishTime" {
			return nil, false
		}
		r.mark(kv.Key)
		options = r.use("trace") + ".WithTimestamp(" + r.text(kv.Value) + ")"
	}
	return []string{r.text(method(c)) + ".End(" + options + ")"}, true
}

// logFields rewrites span.LogFields(log.String(key, value), ...).
func logFields(r *goRewriter, c *ast.CallExpr) ([]string, bool) {
	if c.Ellipsis.IsValid() {
		return nil, false
	}
	span, event := r.text(method(c)), ""
	var attributes, lines []string
	for _, a := range c.Args {
		f, name := r.call(a)
		name, ok := strings.CutPrefix(name, "otlog.")
		if !ok || len(f.Args) == 0 {
			return nil, false
		}
		r.markName(f.Fun)
		key, _ := r.known(f.Args[0])
		switch {
		case name == "Event":
			event = r.value(f.Args[0])
		case name == "Message":
			attributes = append(attributes, r.typed(`"message"`, r.value(f.Args[0]), types.Typ[types.String]))
		case name == "Error" && simple(f.Args[0]):
			lines = append(lines, span+".RecordError("+r.text(f.Args[0])+")")
		case name == "Error" || len(f.Args) != 2:
			return nil, false
		case name == "String" && key == "event":
			event = r.value(f.Args[1])
		default:
			t := r.info.TypeOf(f.Args[1])
			if basic := logTypes[name]; basic != types.Invalid {
				t = types.Typ[basic]
			}
			attributes = append(attributes, r.typed(r.key(f.Args[0]), r.value(f.Args[1]), t))
		}
	}
	if len(lines) > 0 && !simple(method(c)) {
		return nil, false
	}
	if len(lines) > 0 && len(attributes) == 0 && (event == "" || event == `"error"`) {
		return lines, true
	}
	return append(lines, r.event(span, event, attributes)), true
}

// logTypes are the types of log fields by the function that makes the field.
var logTypes = map[string]types.BasicKind{
	"String": types.String, "Bool": types.Bool, "Int": types.Int, "Int32": types.Int32, "Int64": types.Int64,
	"Uint32": types.Uint32, "Float32": types.Float32, "Float64": types.Float64,
}

// event returns the statement that adds an event.
func (r *goRewriter) event(span, name string, attributes []string) string {
	name = cmp.Or(name, `"log"`)
	if len(attributes) == 0 {
		return span + ".AddEvent(" + name + ")"
	}
	return fmt.Sprintf("%s.AddEvent(%s, %s.WithAttributes(%s))", span, name, r.use("trace"), strings.Join(attributes, ", "))
}

func logKV(r *goRewriter, c *ast.CallExpr) ([]string, bool) {
	if c.Ellipsis.IsValid() || len(c.Args)%2 != 0 {
		return nil, false
	}
	event := ""
	var attributes []string
	for i := 0; i < len(c.Args); i += 2 {
		if key, _ := r.known(c.Args[i]); key == "event" {
			t := r.info.TypeOf(c.Args[i+1])
			if t == nil || !types.Identical(types.Default(t).Underlying(), types.Typ[types.String]) {
				return nil, false
			}
			event = r.value(c.Args[i+1])
			continue
		}
		attributes = append(attributes, r.attribute(c.Args[i], c.Args[i+1]))
	}
	return []string{r.event(r.text(method(c)), event, attributes)}, true
}

func logError(r *goRewriter, c *ast.CallExpr) ([]string, bool) {
	if len(c.Args) != 2 || !simple(c.Args[0]) || !simple(c.Args[1]) {
		return nil, false
	}
	return r.recordError(r.text(c.Args[0]), c.Args[1]), true
}

func noopTracer(r *goRewriter, lit *ast.CompositeLit) (string, bool) {
	return r.fill("@noop.NewTracerProvider().Tracer($scope)", nil), len(lit.Elts) == 0
}

// carrier returns the carrier for a carrier of headers or a map of OpenTracing or Datadog.
func (r *goRewriter) carrier(e ast.Expr) (string, bool) {
	t := r.info.TypeOf(e)
	if c, _ := r.call(e); c != nil && r.unknown(t) { // a conversion of a value of unknown type
		t = r.info.TypeOf(c.Fun)
	}
	return r.text(e), t != nil && isCarrier(t)
}

// baggageItem rewrites span.BaggageItem(key) if the parent of the span is an extracted context, which has its baggage.
func baggageItem(r *goRewriter, c *ast.CallExpr) (string, bool) {
	if start, name := r.call(r.assigned(method(c))); start != nil && (name == "ot.StartSpan" || name == "ot.Tracer.StartSpan") && len(start.Args) == 2 {
		option, name := r.call(start.Args[1])
		if (name == "ot.ChildOf" || name == "otext.RPCServerOption") && len(option.Args) == 1 && r.function(c) == r.function(start) {
			parent := option.Args[0]
			if _, name := r.call(r.assigned(parent)); name == "ot.Tracer.Extract" {
				return r.use("baggage") + ".FromContext(" + r.text(parent) + ").Member(" + r.text(c.Args[0]) + ").Value()", true
			}
		}
	}
	return r.fail(c, "%s is in no table: the context that has the baggage is not known.", r.brief(c.Fun))
}

// assigned returns the only value of a local variable, or nil.
func (r *goRewriter) assigned(e ast.Expr) ast.Expr {
	id, ok := e.(*ast.Ident)
	if !ok || r.object(id) == nil {
		return nil
	}
	of := r.object(id)
	for _, use := range r.uses(of) {
		if a, ok := r.parents[use].(*ast.AssignStmt); ok && slices.ContainsFunc(a.Lhs, func(e ast.Expr) bool { return e == use }) {
			return nil
		}
		if u, ok := r.parents[use].(*ast.UnaryExpr); ok && u.Op == token.AND {
			return nil
		}
	}
	for def, o := range r.info.Defs {
		if a, ok := r.parents[def].(*ast.AssignStmt); ok && o == of && a.Lhs[0] == def && len(a.Rhs) == 1 {
			return a.Rhs[0]
		}
	}
	return nil
}

// forEachKey rewrites carrier.ForeachKey(handler).
func forEachKey(r *goRewriter, c *ast.CallExpr) (string, bool) {
	return r.helper("forEachKey") + "(" + r.text(method(c)) + ", " + r.text(c.Args[0]) + ")", len(c.Args) == 1
}

// propagated returns the arguments of Inject or Extract without the format, which must be a text format. before is the
// number of arguments before the format.
func (r *goRewriter) propagated(c *ast.CallExpr, before int) ([]ast.Expr, bool) {
	args := c.Args
	// Propagators are global, so the tracer is not needed.
	if tracer, name := r.call(method(c)); name == "ot.GlobalTracer" || name == "ot.Span.Tracer" && simple(method(tracer)) {
		r.mark(tracer)
	}
	if len(args) != before+2 {
		return args, len(args) == before+1
	}
	switch r.symbol(args[before]) {
	case "ot.HTTPHeaders", "ot.TextMap":
		r.mark(args[before])
		return append(args[:before:before], args[before+1]), true
	}
	return nil, false
}

func inject(r *goRewriter, c *ast.CallExpr) (string, bool) {
	args, ok := r.propagated(c, 1)
	if !ok {
		return "", false
	}
	to, ok := r.carrier(args[1])
	return fmt.Sprintf("%s.GetTextMapPropagator().Inject(%s, %s)", r.use("otel"), r.text(args[0]), to), ok
}

// errorTest returns 1 if the next statement tests an error and no other statement uses it, otherwise 0.
func (r *goRewriter) errorTest(err ast.Expr, def *ast.AssignStmt, rest []ast.Stmt) int {
	o := r.object(err)
	if o == nil || len(rest) == 0 || r.defined(err) == nil || !r.isErrorTest(rest[0], err) {
		return 0
	}
	start, end := def.Pos(), rest[0].End()
	for _, id := range r.uses(o) {
		if id.Pos() < start || id.Pos() >= end {
			return 0
		}
	}
	r.mark(rest[0])
	return 1
}

func extract(r *goRewriter, c *ast.CallExpr) (string, bool) {
	args, ok := r.propagated(c, 0)
	if !ok {
		return "", false
	}
	from, ok := r.carrier(args[0])
	return fmt.Sprintf("%s.GetTextMapPropagator().Extract(%s.Background(), %s)", r.use("otel"), r.use("context"), from), ok
}
