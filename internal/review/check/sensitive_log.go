// SPDX-License-Identifier: Apache-2.0

package check

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"assay/internal/review/instrumentation"
	"assay/internal/review/syntax"
)

var sensitiveLog = &Check{
	ID:       "sensitive-log",
	Title:    "Log statement writes sensitive data",
	Category: SensitiveData,
	Severity: Critical,
	Rules:    []string{"LOG-003"},
	Why: "Logs are kept longer and read by more people than the data that they describe. A whole request, header map, configuration or environment " +
		"brings the credentials in it into the log.",
	Fix: "Log an opaque id, or the fields that the reader of the log needs. Give types that hold secrets a method that prints them masked. " +
		"Rotate a credential that has been logged.",
	Source: func(p *Pass, u *instrumentation.Uses) {
		script := developerTool.MatchString(u.File.Path) || maintenance.MatchString(u.File.Path)
		for _, l := range u.Logs {
			if script && toTerminal(l.Call) || seeds.MatchString(u.File.Path) {
				continue
			}
			at, what := sensitiveRecord(u, l)
			if at == nil || (what == "a secret" || what == "a key") && missingSecret(u, l.Message) {
				continue
			}
			severity := Critical
			if what == "a whole request" && ownRequest(u, at) {
				severity = Suggestion
			}
			if what == "a secret" && p.maySearch() && structure(at) {
				severity = Suggestion
			}
			subject := brief(u, at)
			p.mark(u, at, Finding{Severity: severity, Subject: what + " " + subject, About: subject, Message: fmt.Sprintf("The log statement writes %s.", what)})
		}
	},
}

// maintenance matches paths of programs that an operator starts by hand.
var maintenance = regexp.MustCompile(`(^|/)(migrations?|seeders?|commands|cli)/|(^|/)seed\.[a-z]+$`)

// seeds matches paths of programs that fill a database with generated data.
var seeds = regexp.MustCompile(`(^|/)seed(s|ers?|ing)?(/|[-_.])`)

// structure reports whether a variable holds a structure, such as a record of a secret, of which the code reads no part that
// holds the secret.
func structure(n *syntax.Node) bool {
	if n.Kind == syntax.Argument || n.Kind == syntax.Pair {
		n = n.Value()
	}
	if n.Kind != syntax.Name {
		return false
	}
	fn := n.Enclosing(syntax.Func)
	for fn != nil && fn.Enclosing(syntax.Func) != nil {
		fn = fn.Enclosing(syntax.Func)
	}
	if fn == nil {
		return false
	}
	found := false
	for c := range fn.All(syntax.Member) {
		if c.Children[0].Kind != syntax.Name || c.Children[0].Text != n.Text || c.Text == "length" || c.Parent.Kind == syntax.Call && c.Parent.Callee() == c {
			continue
		}
		if setOf("value data key secret plaintext payload string token password raw").any(words(c.Text)) {
			return false
		}
		found = true
	}
	return found
}

// toTerminal reports whether a call writes to the terminal of the user.
func toTerminal(call *syntax.Node) bool {
	recv, m := call.Method()
	return recv != nil && recv.Kind == syntax.Name && (recv.Text == "console" || recv.Text == "fmt") || recv == nil && m == "print"
}

// maxParts limits the arguments of a log statement, and the parts of an argument, that are checked.
const maxParts = 64

// sensitiveRecord returns the sensitive part of a log statement and the kind of its data, nil and "" if there is none.
func sensitiveRecord(u *instrumentation.Uses, l instrumentation.Log) (*syntax.Node, string) {
	parts := l.Args
	if l.Message != nil {
		parts = append([]*syntax.Node{l.Message}, parts...)
	}
	for i, a := range parts[:min(len(parts), maxParts)] {
		if at, what := sensitivePart(u, a, 0); at != nil && (i == 0 || what != "a token" || parts[i-1].Kind != syntax.String || !otherToken(parts[i-1].Text)) {
			return at, what
		}
		// "key", value
		if a.Kind == syntax.String && a != l.Message && i+1 < len(parts) && !strings.ContainsAny(a.Text, " %{") {
			if what := sensitiveField(u, a.Text, parts[i+1]); what != "" {
				return parts[i+1], what
			}
		}
	}
	return sensitiveFormat(u, parts)
}

// notThere matches messages about something that does not exist, or about a secret or key that the program failed to read. They
// contain its name, not its value.
var notThere = regexp.MustCompile(`(?i)\b(not found|no such|does not exist|doesn't exist|unknown)\b|\b(unable|failed|failure|cannot|could not|couldn't|can't|error)\b( to)? (retriev|get|gett|find|fetch|load|read|resolv|access|look)\w*( up)? (\w+ ){0,2}(secret|key)\b`)

// missingSecret reports whether a message is about a missing secret or key.
func missingSecret(u *instrumentation.Uses, message *syntax.Node) bool {
	if message == nil {
		return false
	}
	if text, ok := u.Known(message); ok {
		return notThere.MatchString(text)
	}
	return message.Kind == syntax.Template && slices.ContainsFunc(message.Children, func(c *syntax.Node) bool { return c.Kind == syntax.String && notThere.MatchString(c.Text) })
}

// otherToken reports whether a key names a token that gives no access.
func otherToken(key string) bool {
	return strings.HasSuffix(last(words(key)), "token") && sensitiveKey(key) == ""
}

// fields are functions that create a field of a log record from a key and a value.
var fields = setOf(`string any stringer bytestring str strs interface field f kv value keyvalue entry attr strings reflect object withfield addkeyvalue stringp strp`)

// sensitivePart is sensitiveRecord for an argument of a log statement.
func sensitivePart(u *instrumentation.Uses, n *syntax.Node, depth int) (*syntax.Node, string) {
	if depth > 3 || maskedBy(n.Parent) {
		return nil, ""
	}
	switch n.Kind {
	case syntax.Call:
		args := n.Args()
		if len(args) == 2 && fields[strings.ToLower(name(n))] {
			if key, ok := u.Known(args[0]); ok {
				if what := sensitiveField(u, key, args[1]); what != "" {
					return n, what
				}
				if at, what := sensitivePart(u, args[1], depth+1); at != nil && (what != "a token" || !otherToken(key)) {
					return at, what
				}
				return nil, ""
			}
		}
		if name(n) == "Group" || formatters[strings.ToLower(name(n))] || name(n) == "Fields" || name(n) == "stringify" || name(n) == "dumps" {
			if at, what := sensitiveFormat(u, args); at != nil {
				return at, what
			}
			for _, a := range args {
				if at, what := sensitivePart(u, a, depth+1); at != nil {
					return at, what
				}
			}
		}
	case syntax.Object:
		if what := whole(u, n); what != "" {
			return n, what
		}
		for _, c := range n.Children[:min(len(n.Children), maxParts)] {
			if c.Kind != syntax.Pair {
				continue
			}
			if key, ok := u.Known(c.Children[0]); ok {
				if what := sensitiveField(u, key, c.Value()); what != "" {
					return c, what
				}
			}
			if at, what := sensitivePart(u, c.Value(), depth+1); at != nil {
				return at, what
			}
		}
		return nil, ""
	case syntax.Argument:
		if what := sensitiveField(u, n.Text, n.Value()); what != "" {
			return n, what
		}
		return sensitivePart(u, n.Value(), depth+1)
	case syntax.Template:
		before := ""
		for _, c := range n.Children[:min(len(n.Children), maxParts)] {
			if c.Kind == syntax.String {
				before = c.Text
				continue
			}
			if at, what := sensitivePart(u, c, depth+1); at != nil {
				return at, what
			}
			if m := labelled.FindStringSubmatch(before); m != nil && c.Kind != syntax.Number {
				if what := sensitiveField(u, m[1], c); what != "" {
					return c, what
				}
			}
			before = ""
		}
		return nil, ""
	case syntax.List:
		for _, c := range n.Children[:min(len(n.Children), maxParts)] {
			if at, what := sensitivePart(u, c, depth+1); at != nil {
				return at, what
			}
		}
		return nil, ""
	case syntax.Spread:
		return sensitivePart(u, n.Children[0], depth+1)
	}
	if what := exposes(u, n); what != "" {
		return n, what
	}
	if p := n.Parent; p != nil && p.Kind == syntax.Call && (masking[name(p)] || p.Arg(0) != nil && answers[p.Arg(0).Text]) {
		return nil, ""
	}
	if what := whole(u, n); what != "" {
		return n, what
	}
	return nil, ""
}

// masking are methods of loggers that let the type of an argument choose its text.
var masking = setOf(`WithRequest Object EmbedObject Stringer Inline WithContext Ctx WithError WithOptions Join join
	New`)

// answers are names of response writers. A function with such an argument writes to the response and not to a log.
var answers = setOf("w rw writer res resp")

// responses are names of the parameter for the response of an HTTP handler.
var responses = setOf("res resp response reply")

// labelled matches the name before a value at the end of a text: "password: ", "token=".
var labelled = regexp.MustCompile(`([\w.-]+)["']?\s*[:=]\s*["'\[(<]?$`)

// sensitiveField returns the kind of sensitive data in a field of a log record by its key.
func sensitiveField(u *instrumentation.Uses, key string, value *syntax.Node) string {
	what := sensitiveKey(key)
	if what == "" || hides(u, value) || abbreviates(u, value, maxConcatenation) || maskedBy(value.Parent) || otherSession(u, key, value) || constant(u, value) || aboutError(value) || packageValue(u, value) ||
		noSecret(u, key, value) {
		return ""
	}
	switch value.Kind {
	case syntax.Name, syntax.Member, syntax.Index, syntax.Template, syntax.Await, syntax.Operator:
		return what
	case syntax.Call: // the result of a function is sensitive only if the function keeps or reads such data
		if recv, _ := value.Method(); recv != nil && len(value.Args()) == 0 && hides(u, recv) { // scopes.toString()
			return ""
		}
		if keeps(value) || accessors[strings.ToLower(name(value))] || exposes(u, value) != "" || getter(value) && what != "a token" {
			return what
		}
	}
	return ""
}

// getter reports whether a call reads a field of an object: card.getNumber().
func getter(call *syntax.Node) bool {
	recv, method := call.Method()
	w := words(method)
	return recv != nil && len(call.Args()) == 0 && len(w) > 1 && w[0] == "get"
}

// aboutError reports whether a value is an error, or its text: err.Error(), str(err), e.getMessage().
func aboutError(value *syntax.Node) bool {
	if value.Kind == syntax.Call {
		if args := value.Args(); len(args) == 1 && keeps(value) {
			return isError(args[0])
		}
		return isError(receiver(value))
	}
	return isError(value) || value.Kind == syntax.Member && isError(value.Children[0])
}

// maskedBy reports whether a call is a method of a logger that masks its argument: WithSensitiveField.
func maskedBy(call *syntax.Node) bool {
	return call != nil && call.Kind == syntax.Call && setOf("sensitive masked redacted redact mask").any(words(name(call)))
}

// otherSession reports whether a field holds the id of a session that gives no access, such as a chat session. The ids
// of HTTP sessions come from a request or its cookie.
func otherSession(u *instrumentation.Uses, key string, value *syntax.Node) bool {
	if w := strings.Join(words(key), ""); !strings.HasSuffix(w, "sessionid") {
		return false
	}
	web := setOf("req request cookie cookies http httpsession servlet")
	inWeb := func(c *syntax.Node) bool {
		return (c.Kind == syntax.Name || c.Kind == syntax.Member) && web.any(words(c.Text))
	}
	return !value.Has(inWeb) && !web.any(words(u.File.Path))
}

// sensitiveFormat returns the first sensitive value of a format string and the kind of its data, by the words before
// its placeholder: "password=%s".
func sensitiveFormat(u *instrumentation.Uses, parts []*syntax.Node) (*syntax.Node, string) {
	for i, f := range parts {
		format, ok := u.Known(f)
		if !ok || len(format) > 4096 {
			continue
		}
		for k, place := range verbs.FindAllStringIndex(format, 32) {
			if v := i + 1 + k; v < len(parts) {
				verb := format[place[1]-1]
				if m := labelled.FindStringSubmatch(format[max(0, place[0]-80):place[0]]); m != nil && strings.IndexByte("sqvw}xX", verb) >= 0 {
					if what := sensitiveField(u, m[1], parts[v]); what != "" {
						return parts[v], what
					}
				}
			}
		}
		break
	}
	return nil, ""
}

var (
	requestWords = setOf("req request httprequest")
	configWords  = setOf("config configuration cfg conf settings appconfig")
	// programs are names of objects that hold the configuration of a program. Errors of an HTTP client hold the
	// configuration of the request, with its headers.
	programs = setOf("this self cls app application server process error err e")
	// ownWords before "config" are for the configuration of a program.
	ownWords = setOf("app application global full main my loaded")
)

// whole returns the kind of an expression that holds a whole request, a part of one such as its headers, a
// configuration or the environment, "" for other expressions.
func whole(u *instrumentation.Uses, n *syntax.Node) string {
	for range 6 {
		switch n.Kind {
		case syntax.Await:
			n = n.Children[0]
			continue
		case syntax.New: // new String(bytes)
			if name(n) != "String" || len(n.Args()) == 0 {
				return ""
			}
			n = n.Args()[0]
			continue
		case syntax.Object: // {...process.env}
			if len(n.Children) != 1 || n.Children[0].Kind != syntax.Spread {
				return ""
			}
			n = n.Children[0].Children[0]
			continue
		case syntax.Call:
			recv, m := n.Method()
			args := n.Args()
			switch {
			case m == "Environ" && name(recv) == "os", (m == "getenv" || m == "getProperties") && name(recv) == "System" && len(args) == 0:
				return "the environment"
			case bodyReaders[m] && !slices.ContainsFunc(args, func(a *syntax.Node) bool { return a.Kind != syntax.Argument }) && recv != nil && request(u, recv),
				asyncReaders[u.File.Language][m] && len(args) == 0 && recv != nil && received(u, recv),
				m == "GetRawData" && len(args) == 0 && u.File.Language == syntax.Go, // *gin.Context
				m == "ReadAll" && len(args) == 1 && requestBody(u, args[0]):
				return "the body of a request"
			case m == "header" && len(args) == 0 && recv != nil && asyncReaders[u.File.Language]["text"] && received(u, recv): // Hono
				return "a header map"
			case recv != nil && len(args) == 0 && copiers[m], recv != nil && m == "collect", recv != nil && m == "decode":
				n = recv
				continue
			case (m == "getCookies" || m == "Cookies") && len(args) == 0 && recv != nil && (request(u, recv) || httpRequest(u, recv)):
				return "the cookies of a request"
			case metadataReaders[m] && u.File.ImportsAny(grpcModules...):
				return "a header map"
			case (m == "getHeaders" || m == "GetReqHeaders") && len(args) == 0 || m == "headers" && len(args) == 0 && recv != nil:
				return "a header map"
			case len(args) > 0 && texts[m] || len(args) > 0 && m == "parse" && name(recv) == "JSON":
				n = args[0]
				if m == "Sprintf" {
					n = args[len(args)-1]
				}
				continue
			}
			return ""
		case syntax.Member:
			x := name(n.Children[0])
			lower := strings.ToLower(n.Text)
			switch {
			case n.Text == "environ" && x == "os", n.Text == "env" && x == "process":
				return "the environment"
			case n.Text == "metadata" && x == "call" && u.File.ImportsAny(grpcModules...), (lower == "headers" || lower == "header") && (request(u, n.Children[0]) || response(x)):
				return "a header map"
			case (lower == "body" || lower == "json" || lower == "rawbody") && request(u, n.Children[0]) && u.File.Language != syntax.Go,
				(n.Text == "form" || n.Text == "POST" || n.Text == "data" || n.Text == "values") && request(u, n.Children[0]) && u.File.Language == syntax.Python,
				(n.Text == "Form" || n.Text == "PostForm") && httpRequest(u, n.Children[0]):
				return "the body of a request"
			case (lower == "cookies" || lower == "signedcookies") && request(u, n.Children[0]) && u.File.Language != syntax.Go:
				return "the cookies of a request"
			case n.Text == "META" && request(u, n.Children[0]):
				return "a header map"
			case lower == "request" || lower == "req":
				if p := n.Children[0]; p.Kind == syntax.Name && slices.Contains([]string{"this", "self", "ctx", "c", "context", "error", "err", "info"}, p.Text) && !objectText(u, n) {
					return "a whole request"
				}
			case configWords[lower] && n.Children[0].Kind == syntax.Name && !packageName(u, n.Children[0]) && (u.File.Language == syntax.Go || programs[strings.ToLower(x)]):
				def := u.File.Definition(n)
				if u.File.Language == syntax.Go && (def == nil || def.Type == "") || def != nil && (!programConfig(def.Type) || made(def) && !loadsConfig(def)) {
					return ""
				}
				return "a configuration"
			}
			return ""
		case syntax.Name:
			w := words(n.Text)
			def := u.File.Definition(n)
			switch {
			case packageName(u, n):
				return ""
			case def != nil && def.Kind == syntax.Assign && def.Targets()[0].Text == n.Text && strings.HasPrefix(name(def.Value()), "DumpRequest"), request(u, n):
				if objectText(u, n) {
					return ""
				}
				return "a whole request"
			case def != nil && def.Type == "metadata.MD" && u.File.ImportsAny(grpcModules...):
				return "a header map"
			case headerMap(w, def):
				if ownHeaders(u, n, def) || csvLike.any(words(u.File.Path)) || csvLike.any(w) || hides(u, n) {
					return ""
				}
				return "a header map"
			case len(w) == 1 && configWords[w[0]], len(w) == 2 && configWords[w[1]] && ownWords[w[0]]:
				if def != nil && (last(w) == "settings" && def.Kind == syntax.Param || !programConfig(def.Type) || def.Parent != nil && def.Parent.Kind == syntax.Loop || !loadsConfig(def)) {
					return ""
				}
				return "a configuration"
			}
			if def != nil && def.Kind == syntax.Param {
				return wholeParameter(def)
			}
			return wholeLocal(u, n, def)
		case syntax.Template:
			return ""
		default:
			return ""
		}
	}
	return ""
}

var (
	// grpcModules are the modules of gRPC whose metadata has the headers of a call.
	grpcModules = []string{"google.golang.org/grpc", "@grpc/grpc-js", "grpc"}
	// metadataReaders are functions and methods that return the metadata of a call.
	metadataReaders = setOf("FromIncomingContext FromOutgoingContext invocation_metadata getMap")
)

// wholeLocal returns the kind of the value that a function assigns to a variable before a use, unless it removes parts of the
// value. A request or configuration that has another name is often a part of one.
func wholeLocal(u *instrumentation.Uses, n, def *syntax.Node) string {
	if def == nil || def.Kind != syntax.Assign || def.Text == "+=" || def.Start >= n.Start || n.Within(def) || hides(u, n) {
		return ""
	}
	targets, v := def.Targets(), def.Value().Inner(syntax.Await)
	at := targets[0]
	if loop := def.Parent; loop != nil && loop.Kind == syntax.Loop { // for name, value := range r.Header
		at = targets[len(targets)-1]
		if len(targets) < 2 || n.Enclosing(syntax.If, syntax.Switch, syntax.Loop) != loop {
			return ""
		}
	}
	fn := def.Enclosing(syntax.Func)
	if v.Kind == syntax.Name { // bounds the depth: a value is no other variable
		if requestParts[n.Text] != "" && u.File.Language != syntax.Python && request(u, v) && bytes.ContainsRune(u.File.Source[def.Start:v.Start], '{') { // const { body } = req
			return requestParts[n.Text]
		}
		return ""
	}
	if at.Kind != syntax.Name || at.Text != n.Text || fn != n.Enclosing(syntax.Func) && fn == nil {
		return ""
	}
	if fn == nil {
		fn = u.File.Root
	}
	what := whole(u, v)
	if what == "" || what == "a whole request" || what == "a configuration" || changed(fn, def, n) {
		return ""
	}
	return what
}

// requestParts maps the names of the properties of a request in JavaScript to kinds of data.
var requestParts = map[string]string{"body": "the body of a request", "cookies": "the cookies of a request", "headers": "a header map"}

// wholeParameter returns the kind of a parameter that a framework fills with a part of the request, by its annotation. The
// value of another type than a text or map may print as masked.
func wholeParameter(param *syntax.Node) string {
	t, _, _ := strings.Cut(param.Type, "<")
	for _, c := range param.Children {
		if c.Kind != syntax.Decorator {
			continue
		}
		switch name(c.Children[0]) {
		case "RequestBody":
			if setOf("String Map Object JsonNode")[t] {
				return "the body of a request"
			}
		case "RequestHeader":
			if setOf("Map MultiValueMap HttpHeaders")[t] {
				return "a header map"
			}
		}
	}
	return ""
}

// changed reports whether a function may change a value between its definition and a use: it assigns or deletes a part, or
// passes it to a method or function as a statement.
func changed(fn, def, use *syntax.Node) bool {
	of := func(c *syntax.Node) bool { return c.Inner(syntax.Index, syntax.Member).Text == use.Text }
	for c := range fn.All() {
		if c.Start < def.End || c.Start >= use.Start {
			continue
		}
		switch c.Kind {
		case syntax.Assign:
			if slices.ContainsFunc(c.Targets(), of) {
				return true
			}
		case syntax.Call:
			recv, m := c.Method()
			w := words(m)
			if recv != nil && of(recv) && setOf("pop del delete set add update clear remove setdefault").any(w) ||
				setOf("redact mask scrub sanitize strip clean filter delete").any(w) && slices.ContainsFunc(c.Args(), of) {
				return true
			}
		case syntax.Operator:
			if (c.Text == "delete" || c.Text == "del") && slices.ContainsFunc(c.Children, of) {
				return true
			}
		}
	}
	return false
}

// ownHeaders reports whether a function fills a header map by itself and sets no credentials: headers = {}.
func ownHeaders(u *instrumentation.Uses, n, def *syntax.Node) bool {
	if def == nil || def.Kind != syntax.Assign || def.Value().Kind != syntax.Object || def.Enclosing(syntax.Func) == nil {
		return false
	}
	harmless := func(key *syntax.Node) bool {
		text, ok := u.Known(key)
		return ok && sensitiveKey(text) == ""
	}
	if slices.ContainsFunc(def.Value().Children, func(c *syntax.Node) bool {
		return c.Kind == syntax.Pair && !harmless(c.Children[0]) || c.Kind == syntax.Spread
	}) {
		return false
	}
	for c := range def.Enclosing(syntax.Func).All(syntax.Assign, syntax.Call) {
		if c.Kind == syntax.Call {
			if recv, m := c.Method(); recv != nil && recv.Text == n.Text && m == "update" || m == "assign" && c.Arg(0) != nil && c.Arg(0).Text == n.Text {
				return false
			}
			continue
		}
		for _, t := range c.Targets() {
			if t.Kind == syntax.Index && t.Children[0].Text == n.Text && (len(t.Children) != 2 || !harmless(t.Children[1])) ||
				t.Kind == syntax.Member && t.Children[0].Text == n.Text && sensitiveKey(t.Text) != "" {
				return false
			}
		}
	}
	return true
}

// asyncReaders are methods that return the body of a request: of Starlette, and of the requests of the Fetch API.
var asyncReaders = map[syntax.Language]set{
	syntax.Python: setOf("json body form"), syntax.JavaScript: setOf("json text formData"), syntax.TypeScript: setOf("json text formData"),
}

// received reports whether an expression is a request that a handler gets. A variable that is named req often holds the
// response of a client.
func received(u *instrumentation.Uses, n *syntax.Node) bool {
	if n.Kind == syntax.Member && request(u, n) { // c.req
		return setOf("c ctx context")[n.Children[0].Text] && u.File.Language != syntax.Python
	}
	def := u.File.Definition(n)
	return n.Kind == syntax.Name && request(u, n) && def != nil && def.Kind == syntax.Param
}

var (
	// bodyReaders are methods that return the body of a request.
	bodyReaders = setOf("get_json get_data getParameterMap getReader getInputStream")
	// copiers are methods that return a copy of their receiver, or its content.
	copiers = setOf("decode copy Clone clone to_dict items entries lines readAllBytes toString String")
	// texts are functions that return their argument in another form.
	texts = setOf("dict str repr stringify dumps loads String valueOf Marshal Sprint Sprintf inspect pformat toString string fromEntries entries")
)

// requestBody reports whether an expression is the Body of a request of net/http, or a reader that limits it.
func requestBody(u *instrumentation.Uses, n *syntax.Node) bool {
	if n.Kind == syntax.Call {
		switch args := n.Args(); {
		case name(n) == "LimitReader" && len(args) == 2:
			n = args[0]
		case name(n) == "MaxBytesReader" && len(args) == 3:
			n = args[1]
		}
	}
	return n.Kind == syntax.Member && n.Text == "Body" && httpRequest(u, n.Children[0])
}

// httpRequest reports whether an expression is a request of net/http by its declared type.
func httpRequest(u *instrumentation.Uses, n *syntax.Node) bool {
	if n.Kind == syntax.Call { // echo.Context
		return name(n) == "Request" && len(n.Args()) == 0 && u.File.Language == syntax.Go && receiver(n) != nil
	}
	def := u.File.Definition(n)
	return def != nil && strings.HasSuffix(def.Type, "http.Request") || n.Kind == syntax.Member && n.Text == "Request" && u.File.Language == syntax.Go
}

// made reports whether a definition is the result of a call.
func made(def *syntax.Node) bool {
	if def.Kind != syntax.Assign {
		return false
	}
	v := def.Value().Inner(syntax.Await)
	return v.Kind == syntax.Call || v.Kind == syntax.New
}

// loadsConfig reports whether the definition of a configuration is a parameter, or the result of a function that loads
// it.
func loadsConfig(def *syntax.Node) bool {
	if def.Kind != syntax.Assign {
		return true
	}
	v := def.Value().Inner(syntax.Await)
	return made(def) && (programConfig(name(v)) && name(v) != "dict" || setOf("load read parse new default from init must env decode unmarshal safe").any(words(name(v))) || v.Callee().Kind == syntax.Name && strings.HasPrefix(strings.ToLower(v.Callee().Text), "get")) ||
		v.Kind == syntax.Object && def.Enclosing(syntax.Func) == nil
}

// programConfig reports whether a declared type may be the configuration of a program: Config, config.Config, Settings.
func programConfig(t string) bool {
	t = strings.ToLower(strings.TrimLeft(t, "*&: "))
	pkg, typ, ok := strings.Cut(t, ".")
	if !ok {
		pkg, typ = "", pkg
	}
	switch typ {
	case "", "any", "dict", "object", "map", "config", "configuration", "settings", "appconfig", "appsettings", "properties":
		return pkg == "" || strings.Contains(pkg, "conf") || strings.Contains(pkg, "cfg") || strings.Contains(pkg, "setting")
	}
	return false
}

var csvLike = setOf("kafka csv table column columns row rows parquet sheet tar file block blocks chain markdown page merkle")

// request reports whether an expression is a whole request of HTTP or RPC.
func request(u *instrumentation.Uses, n *syntax.Node) bool {
	switch n.Kind {
	case syntax.Name:
		w := words(n.Text)
		def := u.File.Definition(n)
		if def != nil && def.Type != "" {
			t := strings.ToLower(strings.TrimLeft(def.Type, "*&"))
			switch {
			case t == "string" || t == "str" || strings.Contains(t, "reconcile") || strings.Contains(t, "[]") || plainType(t):
				return false
			case strings.HasSuffix(t, "http.request"), t == "httpservletrequest":
				return true
			}
		}
		if def != nil && def.Kind == syntax.Assign && (requestText(def) || n.Text == "req" && def.Parent != nil && def.Parent.Kind == syntax.Loop) {
			return false // a text, or a requirement
		}
		return requestWords[strings.Join(w, "")] && !packageName(u, n)
	case syntax.Member:
		return requestWords[strings.ToLower(n.Text)]
	case syntax.Call:
		return httpRequest(u, n)
	}
	return false
}

// requestText reports whether a definition assigns a text, or an object that the code fills itself, such as an example
// for a query.
func requestText(def *syntax.Node) bool {
	v := def.Value()
	switch v.Kind {
	case syntax.String, syntax.Template:
		return true
	case syntax.Call:
		return formatters[strings.ToLower(name(v))]
	case syntax.New:
		return len(v.Args()) == 0
	}
	return def.Text == "+="
}

// objectText reports whether JavaScript makes a text of an object: "[object Object]".
func objectText(u *instrumentation.Uses, n *syntax.Node) bool {
	script := u.File.Language == syntax.JavaScript || u.File.Language == syntax.TypeScript
	p := n.Parent
	return script && p != nil && (p.Kind == syntax.Template || p.Kind == syntax.Operator && p.Text == "+")
}

// namedRequests are types of Java whose text is the name of the class, or the method and the path.
var namedRequests = setOf("httpservletrequest servletrequest serverhttprequest serverrequest webrequest")

// ownRequest reports whether a request may be another one than an HTTP request from a caller: the program may create
// it, or its type is not one of HTTP. The text of a request has no headers in Python, and of namedRequests.
func ownRequest(u *instrumentation.Uses, n *syntax.Node) bool {
	for c := range n.All() {
		if w := strings.Join(words(c.Text), ""); c.Kind != syntax.Name || !requestWords[w] || w == "httprequest" {
			continue
		}
		def := u.File.Definition(c)
		if def == nil {
			return true
		}
		t, _, _ := strings.Cut(strings.ToLower(def.Type), "<")
		switch u.File.Language {
		case syntax.JavaScript, syntax.TypeScript:
			if t == "" {
				return def.Kind != syntax.Param || !answered(def)
			}
			return !strings.Contains(t, "http") && !slices.Contains([]string{"request", "req", "express.request", "fastifyrequest"}, t)
		case syntax.Python:
			return true
		default:
			return !strings.Contains(t, "http") && t != "*gin.context" || namedRequests[t]
		}
	}
	return u.File.Language == syntax.Python && n.Kind == syntax.Member
}

// answered reports whether the function with a parameter has a parameter for the response too: (req, res) => {}.
func answered(param *syntax.Node) bool {
	fn := param.Enclosing(syntax.Func)
	return fn != nil && slices.ContainsFunc(fn.Params(), func(p *syntax.Node) bool { return responses[p.Text] })
}

func response(x string) bool {
	return slices.Contains([]string{"res", "resp", "response", "r"}, strings.ToLower(x))
}

func packageName(u *instrumentation.Uses, n *syntax.Node) bool {
	_, ok := u.File.Imported(n.Text)
	return ok && u.File.Definition(n) == nil && u.File.Language == syntax.Go
}

var (
	// headerOwners are words before "headers" for headers of HTTP or RPC.
	headerOwners = setOf("http https request req response res incoming outgoing raw all auth authorization forwarded forward upstream client extra default custom api grpc proxy base common merged final")
	// mapTypes are words in names of types that may be maps.
	mapTypes = setOf("map dict record any object mapping multi metadata")
)

// headerMap reports whether a variable with these words in its name holds the headers of a request, and not those of a
// table or block, or their number. The declared type takes precedence over the name.
func headerMap(w []string, def *syntax.Node) bool {
	if l := last(w); l != "headers" && l != "header" || setOf("security cors").any(w) { // a server sets these
		return false
	}
	if def != nil && def.Type != "" && def.Type != "var" {
		t, _, _ := strings.Cut(strings.TrimLeft(def.Type, "*&: "), "<")
		t, _, _ = strings.Cut(t, "[")
		tw := words(t[strings.LastIndex(t, ".")+1:])
		if len(tw) == 0 {
			return false
		}
		switch last(tw) {
		case "headers":
			return len(tw) == 1 || headerOwners.any(tw)
		case "header": // http.Header, but not a class with the fields of a protocol's header
			return len(tw) == 1
		}
		return last(w) == "headers" && mapTypes.any(tw)
	}
	return last(w) == "headers" && (len(w) == 1 || headerOwners.any(w))
}
