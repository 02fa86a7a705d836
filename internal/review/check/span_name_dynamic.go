// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"assay/internal/codebase/redact"
	"assay/internal/review/instrumentation"
	"assay/internal/review/syntax"
)

var spanNameDynamic = &Check{
	ID:       "span-name-dynamic",
	Title:    "Span name is built from variables",
	Category: Volume,
	Severity: High,
	Rules:    []string{"SPA-003"},
	Why: "A span name identifies a class of operations. A name with an id, a path or user input in it gives every request a class of its own: " +
		"backends cannot aggregate the spans, and metrics generated from spans get one time series for each name.",
	Fix: "Use a constant name, such as `process order`, and record the variables as attributes. A name may contain the method, the route template, " +
		"or the name of the operation or table, because these have few values. " +
		"The check reports a suggestion if the variable has many values in most programs, but not in all.",
	Fixable: true,
	Source: func(p *Pass, u *instrumentation.Uses) {
		seen := map[[2]int]bool{}
		report := func(name *syntax.Node, s *instrumentation.Span) {
			built := buildsName(u, name)
			if built == nil || seen[[2]int{built.Start, built.End}] {
				return
			}
			seen[[2]int{built.Start, built.End}] = true
			part, severity := variablePart(u, built)
			if part == nil || s != nil && helper(u, s, part) {
				return
			}
			parts := constantParts(u, built)
			f := Finding{
				Severity: severity,
				Subject:  parts,
				Message:  fmt.Sprintf("The span name contains `%s`, so that the number of names is not limited.", brief(u, part)),
				Names:    Names{SpanName: parts},
			}
			if s != nil {
				f.Names.ScopeName = s.Scope
				if severity == "" {
					f.Fix = p.constantName(u, s, built)
				}
			}
			if a := part.Enclosing(syntax.Assign); a != nil && a.Text == "+=" && !part.Within(built) {
				built = a
			}
			p.mark(u, built, f)
		}
		for _, s := range u.Spans {
			if s.Name != nil {
				report(s.Name, s)
			}
		}
		for _, name := range slices.Concat(u.Renames, u.WrappedNames, formattedNames(u)) {
			report(name, nil)
		}
	},
}

// formattedNames returns the results of functions that format the span names of instrumentation:
// WithSpanNameFormatter(func...).
func formattedNames(u *instrumentation.Uses) []*syntax.Node {
	if u.File.Language != syntax.Go {
		return nil
	}
	var names []*syntax.Node
	for n := range u.File.Root.All(syntax.Call) {
		if name(n) != "WithSpanNameFormatter" || n.Arg(0) == nil {
			continue
		}
		f := n.Arg(0)
		if f.Kind == syntax.Name {
			if def := u.File.Definition(f); def != nil && def.Kind == syntax.Assign {
				f = def.Value()
			}
		}
		if f.Kind != syntax.Func {
			continue
		}
		for c := range direct(f.Body(), syntax.Return) {
			if len(c.Children) == 1 {
				names = append(names, c.Children[0])
			}
		}
	}
	return names
}

// helper reports whether a function starts a span and returns it to callers, which pass the variable part of the name.
func helper(u *instrumentation.Uses, s *instrumentation.Span, part *syntax.Node) bool {
	if !s.Escapes || s.Start.Parent == nil || s.Start.Parent.Kind != syntax.Return {
		return false
	}
	def := u.File.Definition(part)
	return def != nil && def.Kind == syntax.Param
}

// formatters are functions that build a text from a format and values.
var formatters = setOf("sprintf sprint sprintln format formatted join concat")

// buildsName returns the expression that builds a name: n, or the value of the variable n. It returns nil for other
// names.
func buildsName(u *instrumentation.Uses, n *syntax.Node) *syntax.Node {
	for range 3 {
		if rawAddress(u, n) {
			return n
		}
		switch n.Kind {
		case syntax.Template:
			return n
		case syntax.Operator:
			if len(n.Children) != 2 {
				return nil
			}
			if _, ok := u.Known(n.Children[0]); n.Text == "+" || n.Text == "%" && ok {
				return n
			}
			return nil
		case syntax.Call:
			if formatters[strings.ToLower(name(n))] && len(n.Args()) > 0 {
				return n
			}
			return builder(n)
		case syntax.Name:
			def := u.File.Definition(n)
			if def == nil || def.Kind != syntax.Assign || len(def.Targets()) != 1 || n.Within(def) {
				return nil
			}
			if def.Text == "+=" {
				return appended(u, def)
			}
			n = def.Value()
		default:
			return nil
		}
	}
	return nil
}

// builder returns the parts of new StringBuilder("a").append(b).toString() as a Template, nil for other calls.
func builder(n *syntax.Node) *syntax.Node {
	built := &syntax.Node{Kind: syntax.Template, Start: n.Start, End: n.End, Parent: n.Parent}
	at, method := n.Method()
	if method != "toString" {
		return nil
	}
	for at != nil && at.Kind == syntax.Call && len(built.Children) < maxNameParts {
		recv, method := at.Method()
		if method != "append" || len(at.Args()) != 1 {
			return nil
		}
		built.Children = slices.Insert(built.Children, 0, at.Args()[0])
		at = recv
	}
	if at == nil || at.Kind != syntax.New || name(at) != "StringBuilder" && name(at) != "StringBuffer" || len(built.Children) == 0 {
		return nil
	}
	built.Children = slices.Insert(built.Children, 0, at.Args()...)
	return built
}

// appended returns the parts of a variable after the last assignment that appends to it, as a Template.
func appended(u *instrumentation.Uses, last *syntax.Node) *syntax.Node {
	built := &syntax.Node{Kind: syntax.Template, Start: last.Start, End: last.End, Parent: last.Parent}
	for def := last; def != nil && def.Kind == syntax.Assign && len(def.Targets()) == 1 && len(built.Children) < maxNameParts; {
		built.Children = slices.Insert(built.Children, 0, def.Value())
		if def.Text != "+=" {
			break
		}
		def = u.File.Definition(&syntax.Node{Kind: syntax.Name, Start: def.Start - 1, Text: def.Targets()[0].Text, Parent: def.Parent})
	}
	return built
}

var (
	// boundedWords name values that are few in number and usual in span names.
	boundedWords = setOf(`method verb operation op action route pattern template kind type rpc handler endpoint function func fn stage phase
		level mode component prefix suffix table collection topic queue destination driver protocol version scope namespace service package pkg
		class classname module plugin provider system status command cmd step layer tool model backend qualname language direction role
		procedure tablename operationname methodname servicename spanname typename functionname basename funcname routepath stmttype verbname
		const constant category signal agent hook field property relation middleware graph workflow cache bucket binding vendor propertykey fieldname resourcetype engine adapter source sourcetype
		attempt attemptnumber retry code statuscode env environment platform locale strategy callee decorator resolver activity job task scheme exchange channel stream controller
		modulepath importpath methodpath handlerpath urlpattern routerpath matchedpath pathtemplate urltemplate classpath routeid operationid routingkey envkey configkey fieldkey entitytype eventtype`)
	// unboundedWords name values that differ for each request, user or object.
	unboundedWords = setOf(`id ids uuid guid uid url uri path email user username customer order session request query sql statement token
		address addr ip timestamp time date now number num i j idx count hash filename file message msg body text title sku slug
		input host hostname search term prompt question account cart href requesturi pathinfo pathname argv args payload len uuidv4 uuid4 uuid7 nanoid ulid objectid namespacedname`)
	// variedWords name values that are often many in number.
	variedWords = setOf(`ref reference arg key remote dest digest sha commit image summary description desc tenant org organization item product payment
		invoice device folder dir directory error err reason exception param params parameter symbol amount price duration size port offset cursor
		content data repo repository value val person student patient phone city zip zipcode postcode`)
	// namedThings are things that are many in number, but whose names are few.
	namedThings = setOf("prompt query request message msg statement input session order text index value val error err exception data item key arg param parameter count number time account repository repo")
	// representations are last words for another representation of the same value.
	representations = setOf("name string str text value val raw label display full short normalized originalname")
	// kinds are words before "id" for ids with few values.
	kinds = setOf("template type model action event tool plugin provider category rule stage partition shard worker thread process queue topic agent handler chain feature flag region resource permission")
)

// variety is an estimate of the number of values of an expression.
type variety uint8

const (
	few     variety = iota
	unclear         // unknown from the code
	varied          // many, according to a name that sometimes stands for few
	unlimited
)

// maxNameParts limits the parts of an expression that are followed, so that the work stays linear.
const maxNameParts = 8

// variablePart returns the part of a built name that has many values, or nil. The severity is "" for that of the check,
// or Suggestion if the part may have few values.
func variablePart(u *instrumentation.Uses, n *syntax.Node) (*syntax.Node, Severity) {
	var likely *syntax.Node
	for i, c := range flatten(nameParts(n)) {
		if i == 4*maxNameParts {
			break
		}
		switch varietyOf(u, c, 4) {
		case unlimited:
			return c, ""
		case varied:
			likely = cmp.Or(likely, c)
		}
	}
	return likely, Suggestion
}

// nameParts returns the parts from which an expression builds a name.
func nameParts(n *syntax.Node) []*syntax.Node {
	switch n.Kind {
	case syntax.Call:
		parts := n.Args()
		r, m := n.Method()
		if r != nil && (r.Kind == syntax.String || r.Kind == syntax.List || m == "formatted" || strings.EqualFold(m, "concat")) { // "order {}".format(id)
			parts = append([]*syntax.Node{r}, parts...)
		}
		if len(parts) == 0 {
			return []*syntax.Node{n}
		}
		if m == "Sprintf" && parts[0].Kind == syntax.String && !strings.Contains(parts[0].Text, "%[") { // %T writes a type
			formats := verbs.FindAllString(parts[0].Text, len(parts)-1)
			for i, v := range slices.Backward(formats) {
				if strings.HasSuffix(v, "T") {
					parts = slices.Concat(parts[:i+1], parts[i+2:])
				}
			}
		}
		return parts
	case syntax.Member:
		return []*syntax.Node{n}
	case syntax.Operator:
		return operands(n)
	}
	return n.Children
}

// operands returns the expressions that an expression concatenates or formats.
func operands(n *syntax.Node) []*syntax.Node {
	var out []*syntax.Node
	for len(out) < 4*maxNameParts && n.Kind == syntax.Operator && n.Text == "+" && len(n.Children) == 2 {
		out = append(out, n.Children[1])
		n = n.Children[0]
	}
	if len(out) == 0 {
		return n.Children
	}
	out = append(out, n)
	slices.Reverse(out)
	return out
}

// varietyOf estimates the variety of an expression by its names, the definitions of its variables and their types.
func varietyOf(u *instrumentation.Uses, n *syntax.Node, depth int) variety {
	most := func(nodes []*syntax.Node) variety {
		v := few
		for i, c := range nodes {
			if i == maxNameParts || v == unlimited {
				break
			}
			v = max(v, varietyOf(u, c, depth-1))
		}
		return v
	}
	if depth == 0 {
		return unclear
	}
	if constant(u, n) || packageValue(u, n) || routeTemplate(u, n) {
		return few
	}
	switch n.Kind {
	case syntax.Func:
		return few
	case syntax.Template, syntax.List, syntax.Await, syntax.Spread, syntax.Argument:
		return most(n.Children)
	case syntax.Conditional:
		return most(n.Children[min(1, len(n.Children)):])
	case syntax.Operator:
		switch n.Text {
		case "||", "??", "or", "+", "-", "*", "/":
			return most(n.Children)
		}
		return unclear
	case syntax.Call:
		recv, m := n.Method()
		switch lower := strings.ToLower(m); {
		case unboundedCall(n):
			return unlimited
		case len(n.Args()) == 0 && recv != nil && packageValue(u, recv): // Operation.READ.name()
			return few
		case normalizers.any(words(m)):
			return unclear
		case (m == "Itoa" || m == "FormatInt") && len(n.Args()) > 0 && n.Args()[0].Kind == syntax.Name && len(n.Args()[0].Text) == 1:
			return unlimited
		case lower == "append" || formatters[lower]:
			if recv != nil && recv.Kind != syntax.String && u.File.Language != syntax.Go {
				return max(varietyOf(u, recv, depth-1), most(n.Args()))
			}
			return most(n.Args())
		}
	}
	var def *syntax.Node
	if n.Kind == syntax.Name {
		if def = u.File.Definition(n); def != nil && !n.Within(def) && normalized(def) {
			return unclear
		}
	}
	if v := varietyOfWords(describing(n)); v != unclear || n.Kind != syntax.Name {
		return v
	}
	switch {
	case def == nil || n.Within(def):
		return unclear
	case def.Kind == syntax.Param:
		return varietyOfType(def.Type)
	case def.Kind != syntax.Assign || len(def.Targets()) != 1:
		return unclear
	case def.Parent != nil && def.Parent.Kind == syntax.Loop && (def.Value().Kind == syntax.Number || def.Value().Kind == syntax.Call && name(def.Value()) == "range"):
		return unlimited
	case def.Value().Kind == syntax.Number:
		return unclear
	}
	return varietyOf(u, def.Value(), depth-1)
}

// normalizers are words in names of functions that replace the variable parts of a path.
var normalizers = setOf("normalize normalized normalise template templatize route pattern sanitize parameterize placeholder")

// normalized reports whether a variable holds a path without its variable parts, or the index of a loop with few
// iterations.
func normalized(def *syntax.Node) bool {
	if def.Kind != syntax.Assign || def.Value() == nil || def.Value().Kind != syntax.Call {
		return false
	}
	v := def.Value()
	if def.Parent != nil && def.Parent.Kind == syntax.Loop && name(v) == "range" && len(v.Args()) == 1 {
		return v.Args()[0].Kind == syntax.Number && len(v.Args()[0].Text) == 1
	}
	return normalizers.any(words(name(v)))
}

// routes are names of objects that describe a route.
var routes = setOf("route routeoptions routerule urlrule resolvermatch matchedroute currentroute routematch")

// routeTemplate reports whether an expression is the template of a route although its name is that of a URL or path:
// request.routeOptions.url, scope["route"].path, Gin's c.FullPath() and Echo's c.Path().
func routeTemplate(u *instrumentation.Uses, n *syntax.Node) bool {
	switch n.Kind {
	case syntax.Call:
		recv, m := n.Method()
		return recv != nil && len(n.Args()) == 0 && (m == "FullPath" && u.File.ImportsAny("github.com/gin-gonic/gin") || m == "Path" && recv.Kind == syntax.Name && u.File.ImportsAny("github.com/labstack/echo"))
	case syntax.Member:
		if l := strings.ToLower(n.Text); l != "url" && l != "path" && l != "uri" {
			return false
		}
		x := n.Children[0]
		of := name(x)
		if x.Kind == syntax.Index && len(x.Children) == 2 && x.Children[1].Kind == syntax.String {
			of = x.Children[1].Text
		}
		return routes[strings.Join(words(of), "")]
	}
	return false
}

// varietyOfWords estimates the variety of a value by the words of its name.
func varietyOfWords(w []string) variety {
	in := func(s set, word string) bool { return s[word] || s[strings.TrimSuffix(word, "s")] }
	named := false
	for len(w) > 0 {
		l, before := w[len(w)-1], ""
		if len(w) > 1 {
			before = w[len(w)-2]
		}
		switch {
		case before != "" && boundedWords[before+l], in(boundedWords, l), l == "id" && kinds[before]:
			return few
		case l == "number" && boundedWords[before], l == "key" && boundedWords[before] && before != "cache" && before != "bucket": // attempt.number, tool_key
			return few
		case before != "" && representations[l]:
			named = named || l == "name"
			w = w[:len(w)-1]
			continue
		case named && in(namedThings, l):
			return unclear
		case in(unboundedWords, l), unboundedWords[before+l]:
			return unlimited
		case in(variedWords, l):
			return varied
		}
		break
	}
	return unclear
}

// varietyOfType estimates the variety of a value by its declared type.
func varietyOfType(t string) variety {
	w := words(t)
	switch {
	case setOf("uuid guid url uri instant date datetime localdate path file").any(w) && !setOf("template pattern").any(w):
		return unlimited
	case boundedWords[last(w)] && last(w) != "": // HttpMethod, Operation
		return few
	}
	return unclear
}

// rawAddress reports whether an expression is the complete URL or path of a request.
func rawAddress(u *instrumentation.Uses, n *syntax.Node) bool {
	switch n.Kind {
	case syntax.Member:
		x := n.Children[0]
		switch strings.ToLower(n.Text) {
		case "url", "originalurl", "path", "requesturi", "pathname", "path_info", "full_path", "path_qs":
			return request(u, x) || x.Kind == syntax.Name && x.Text == "r" && u.File.Language == syntax.Go ||
				x.Kind == syntax.Member && strings.EqualFold(x.Text, "url") && rawAddress(u, x)
		}
	case syntax.Call:
		recv, m := n.Method()
		return recv != nil && len(n.Args()) == 0 && (m == "getRequestURI" || m == "getRequestURL" || m == "getPathInfo" || m == "getServletPath" ||
			(m == "toString" || m == "String" || m == "getPath") && rawAddress(u, recv) || (m == "Path" || m == "OriginalURL") && fiberContext(u, recv))
	}
	return false
}

// fiberContext reports whether a variable is declared as the context of a request in Fiber.
func fiberContext(u *instrumentation.Uses, n *syntax.Node) bool {
	def := u.File.Definition(n)
	return n.Kind == syntax.Name && def != nil && strings.HasSuffix(def.Type, "fiber.Ctx")
}

// reshapers are methods whose result is another spelling of their receiver.
var reshapers = setOf("trim strip lower upper tolower toupper tolowercase touppercase trimspace sanitize quote escape tostring string str text")

// describing returns the words that describe the value of an expression.
func describing(n *syntax.Node) []string {
	var after []string // words for the members that are read
	for range 4 {
		switch n.Kind {
		case syntax.Call:
			recv, m := n.Method()
			w := words(m)
			if m == "TypeOf" || m == "type" || m == "getClass" {
				return append([]string{"type"}, after...)
			}
			if len(w) > 1 && (w[0] == "get" || w[0] == "to" || w[0] == "display") {
				w = w[1:]
			}
			lower := strings.ToLower(m)
			switch {
			case m == "getattr" && n.Arg(1) != nil:
				if a := n.Arg(1).Text; a == "__name__" || a == "__qualname__" {
					return []string{"qualname"}
				}
				return append(words(name(n.Arg(0))), words(n.Arg(1).Text)...)
			case (keeps(n) || lower == "base" || lower == "basename") && len(n.Args()) > 0 && (recv == nil || recv.Kind != syntax.String):
				n = n.Args()[0]
				continue
			case recv != nil && recv.Kind != syntax.String && (reshapers[lower] || keeps(n)):
				n = recv
				continue
			case recv != nil && recv.Kind != syntax.String && (m == "getSimpleName" || m == "getName" || m == "Name" || m == "name"):
				after = append([]string{"name"}, after...)
				n = recv
				continue
			}
			return append(w, after...)
		case syntax.Member:
			w := words(n.Text)
			switch {
			case name(n.Children[0]) == "constructor":
				return []string{"class"}
			case n.Text == "__name__" || n.Text == "__qualname__":
				return []string{"qualname"}
			}
			if l := last(w); len(w) == 1 && (representations[l] || l == "path" || l == "number" || l == "id") {
				w = append(words(name(n.Children[0])), w...)
			}
			return append(w, after...)
		case syntax.Name:
			return append(words(n.Text), after...)
		case syntax.Index:
			if len(n.Children) == 2 && n.Children[1].Kind == syntax.String {
				return append(append(words(name(n.Children[0])), words(n.Children[1].Text)...), after...)
			}
			n = n.Children[0]
		case syntax.Await, syntax.Spread, syntax.Argument:
			if len(n.Children) == 0 {
				return nil
			}
			n = n.Children[0]
		default:
			return nil
		}
	}
	return nil
}

// unboundedCall reports whether an expression creates an id or time.
func unboundedCall(n *syntax.Node) bool {
	if n.Kind != syntax.Call {
		return false
	}
	recv, method := n.Method()
	w := words(method)
	if recv != nil && idPackages[recv.Text] && idMakers.any(w) { // uuid.NewString()
		return true
	}
	return setOf("uuid randomuuid uuid4 uuidv4 uuidv7 nanoid tokenhex tokenurlsafe ulid now timestamp randint random unixnano currenttimemillis nanotime").any(append(w, strings.Join(w, "")))
}

var (
	// idPackages are packages that create ids.
	idPackages = setOf("uuid ulid xid ksuid shortid cuid")
	// idMakers are words in names of their functions.
	idMakers = setOf("new make generate v1 v4 v7")
)

// flatten returns nodes with templates and lists replaced by their parts, which it does not flatten.
func flatten(nodes []*syntax.Node) []*syntax.Node {
	var out []*syntax.Node
	for _, n := range nodes {
		if n.Kind == syntax.Template || n.Kind == syntax.List {
			out = append(out, n.Children...)
		} else {
			out = append(out, n)
		}
	}
	return out
}

// initialisms are words that Go writes in capitals in any name.
var initialisms = setOf("ID IDS URL URI IP UUID GUID SQL SKU SSN DOB CVV JWT")

// packageValue reports whether an expression looks like a constant: a member of a package, or a name in capitals.
func packageValue(u *instrumentation.Uses, n *syntax.Node) bool {
	if n.Kind == syntax.Member && n.Children[0].Kind == syntax.Name {
		if _, ok := u.File.Imported(n.Children[0].Text); ok && u.File.Definition(n.Children[0]) == nil && !requestWords[n.Children[0].Text] { // request of Flask is a variable
			return true
		}
	}
	return (n.Kind == syntax.Name || n.Kind == syntax.Member) && len(n.Text) > 1 && n.Text == strings.ToUpper(n.Text) &&
		!(n.Kind == syntax.Member && initialisms[n.Text])
}

// constantParts returns a built text with * in place of its variables. It cuts a long text after somewhat more than
// MaxText bytes.
func constantParts(u *instrumentation.Uses, n *syntax.Node) string {
	begin := func(s string) string { return s[:min(len(s), MaxText+1)] }
	parts := n.Children
	if n.Kind == syntax.Call {
		format, ok := u.Known(n.Arg(0))
		if r, m := n.Method(); m == "format" && r != nil {
			format, ok = u.Known(r)
		}
		if !ok {
			return "*"
		}
		return verbs.ReplaceAllString(begin(format), "*")
	}
	if n.Kind == syntax.Operator && n.Text == "%" {
		format, _ := u.Known(parts[0])
		return verbs.ReplaceAllString(begin(format), "*")
	}
	var b strings.Builder
	if n.Kind == syntax.Operator {
		parts = operands(n)
	}
	for _, c := range parts {
		if b.Len() > MaxText {
			break
		}
		if s, ok := u.Known(c); ok {
			b.WriteString(begin(s))
		} else {
			b.WriteByte('*')
		}
	}
	return b.String()
}

// brief returns the source of an expression for a message: on one line, short, and without the values of secrets.
func brief(u *instrumentation.Uses, n *syntax.Node) string {
	s := strings.Join(strings.Fields(withoutSecrets(u, n)), " ")
	const limit = 60
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit], "") + "..."
	}
	return strings.ReplaceAll(s, "`", "'")
}

// shown returns a name or key for a finding: the known text, or the expression if the text is unknown.
func shown(u *instrumentation.Uses, known string, n *syntax.Node) string {
	if known == "" && n != nil {
		return brief(u, n)
	}
	return known
}

// maxStatement limits the statement around an expression that is searched for the names of secrets, in bytes.
const maxStatement = 4 << 10

// withoutSecrets returns the source of an expression with *** in place of literals that may be the values of secrets,
// if the statement around it names one.
func withoutSecrets(u *instrumentation.Uses, n *syntax.Node) string {
	code := u.File.Code(n)
	var literals []*syntax.Node
	for c := range n.All(syntax.String) {
		if c.Start < c.End && redact.MayBeValue(c.Text) {
			literals = append(literals, c)
		}
	}
	if len(literals) == 0 {
		return code
	}
	statement := n
	for p := n.Parent; p != nil && p.Kind != syntax.Block && p.Kind != syntax.Func && p.Kind != syntax.Class && p.End-p.Start <= maxStatement; p = p.Parent {
		statement = p
	}
	if text := u.File.Code(statement); redact.Text(text) == text {
		return code
	}
	for _, c := range slices.Backward(literals) {
		code = code[:c.Start-n.Start] + "***" + code[c.End-n.Start:]
	}
	return code
}
