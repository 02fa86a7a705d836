// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"iter"
	"regexp"
	"slices"
	"strings"

	"assay/internal/review/instrumentation"
	"assay/internal/review/syntax"
)

var spanErrorUnrecorded = &Check{
	ID:       "span-error-unrecorded",
	Title:    "Error path does not record the error on the span",
	Category: Correctness,
	Severity: Medium,
	Why: "The span of a failed operation looks like that of a successful one: error rates that are computed from spans are too low, samplers that keep errors drop the trace, " +
		"and the trace does not say what failed.",
	Fix: "Record the error and set the status before leaving: `span.RecordError(err)` and `span.SetStatus(codes.Error, err.Error())`, in one deferred function for all paths or on each path. " +
		"The check takes an exception that the code only logs below the level `error` for handled.",
	Source: func(p *Pass, u *instrumentation.Uses) {
		perFunction := map[*syntax.Node][]*instrumentation.Span{}
		var order []*syntax.Node
		for _, s := range u.Spans {
			fn := s.Func()
			if fn == nil {
				continue
			}
			if perFunction[fn] == nil {
				order = append(order, fn)
			}
			if len(perFunction[fn]) < maxSpans {
				perFunction[fn] = append(perFunction[fn], s)
			}
		}
		for _, fn := range order {
			unrecorded(p, u, fn, perFunction[fn])
		}
	},
}

// unrecorded reports the error paths of a function with spans that do not record the error.
func unrecorded(p *Pass, u *instrumentation.Uses, fn *syntax.Node, spans []*instrumentation.Span) {
	if w := words(fn.Text); len(w) > 0 && inputFunctions[w[0]] || recordsLater(fn, spans) {
		return
	}
	paths := 0
	for n := range pathsOf(u, fn) {
		err, failure := goFailure(u, n)
		branch := n.Kind == syntax.If || n.Kind == syntax.Case && (len(n.Children) == 2 || failure != nil)
		if !branch && n.Kind != syntax.Catch && n.Kind != syntax.Func {
			continue
		}
		if paths++; paths > maxPaths {
			return
		}
		s := spanAround(n, fn, spans)
		if s == nil {
			continue
		}
		body, start := n.Body(), n.Start
		if branch {
			body = n.Children[min(1, len(n.Children)-1)]
		}
		switch {
		case !branch:
			if !catchPath(u, n, fn, s, spans) {
				continue
			}
		case answerPath(u, n):
			if s.RecordsErrors && throwsIn(n.Children[1]) || caughtOutside(n, fn) {
				continue
			}
		case u.File.Language == syntax.Go:
			if s.RecordsErrors || failure == nil || !goErrorPath(u, err, failure) || recordedBefore(u, n, err, fn, s, spans) {
				continue
			}
			if failure != body { // the block of an else
				body, start = failure, failure.Start
			}
		case !callbackPath(u, n):
			continue
		}
		if recordsIn(body, spans) {
			continue
		}
		f := spanFinding(u, s, "The error path leaves the span without recording the error or setting the status.").at(u, n)
		if f.Names.SpanName != "" {
			f.Message = "The error path leaves the span `" + f.Names.SpanName + "` without recording the error or setting the status."
		}
		f.Start, f.End = start, max(start, headEnd(n))
		p.Report(f)
	}
}

// maxPaths limits the error paths of one function that are checked, so that the work stays linear.
const maxPaths = 512

// headEnd returns the end of the head of an If or Catch.
func headEnd(n *syntax.Node) int {
	if n.Kind == syntax.If || n.Kind == syntax.Case && len(n.Children) > 1 {
		return n.Children[0].End
	}
	return n.Body().Start
}

// callbacks are methods whose callback runs during the span of the function around the call.
var callbacks = setOf("with then catch finally")

// pathsOf yields the nodes of a function, without nested functions except callbacks that run during its span.
func pathsOf(u *instrumentation.Uses, fn *syntax.Node) iter.Seq[*syntax.Node] {
	if u.File.Language != syntax.JavaScript && u.File.Language != syntax.TypeScript {
		return direct(fn.Body())
	}
	own := map[*syntax.Node]bool{} // functions with a span of their own
	from, _ := slices.BinarySearchFunc(u.Spans, fn.Start, func(s *instrumentation.Span, at int) int { return cmp.Compare(s.Start.Start, at) })
	for _, s := range u.Spans[from:] {
		if s.Start.Start > fn.End {
			break
		}
		own[s.Func()] = true
	}
	return without(fn.Body(), func(c *syntax.Node) bool {
		if c.Kind != syntax.Func {
			return false
		}
		first := ""
		if params := c.Params(); len(params) > 0 {
			first = params[0].Text
		}
		call := c.Parent
		if call != nil && call.Kind == syntax.New && name(call) == "Promise" { // code that awaits the promise may record its error
			return own[c] || call.Parent.Kind != syntax.Return && call.Parent.Kind != syntax.Func
		}
		return own[c] || call == nil || call.Kind != syntax.Call || !callbacks[name(call)] && first != "err" && first != "error"
	})
}

// callbackPath reports whether an If in JavaScript is the error path of a callback: if (err) { return done(err); }.
func callbackPath(u *instrumentation.Uses, n *syntax.Node) bool {
	if u.File.Language != syntax.JavaScript && u.File.Language != syntax.TypeScript {
		return false
	}
	err := n.Children[0]
	if err.Kind == syntax.Operator && len(err.Children) == 2 && strings.HasPrefix(err.Text, "!=") && err.Children[1].Kind == syntax.Null {
		err = err.Children[0]
	}
	if !isError(err) || err.Kind != syntax.Name {
		return false
	}
	if def := u.File.Definition(err); def == nil || def.Kind != syntax.Param {
		return false
	}
	return passesError(n.Children[1]) || throwsIn(n.Children[1]) || logsError(u, n.Children[1])
}

// passesError reports whether a block passes an error to a callback: next(err), reject(err), done(err).
func passesError(block *syntax.Node) bool {
	return slices.ContainsFunc(calls(block), func(c *syntax.Node) bool {
		recv, m := c.Method()
		return recv == nil && setOf("next reject done cb callback")[m] && len(c.Args()) > 0 && (isError(c.Args()[0]) || c.Args()[0].Kind == syntax.New)
	})
}

// throwsIn reports whether a block throws.
func throwsIn(block *syntax.Node) bool {
	return has(direct(block), func(c *syntax.Node) bool { return c.Kind == syntax.Throw })
}

// caughtOutside reports whether a Try with a Catch surrounds a node in the same function.
func caughtOutside(n, fn *syntax.Node) bool {
	for p := n; p.Parent != nil && p != fn; p = p.Parent {
		if up := p.Parent; up.Kind == syntax.Try && up.Body() == p && slices.ContainsFunc(up.Children, func(c *syntax.Node) bool { return c.Kind == syntax.Catch }) {
			return true
		}
	}
	return false
}

// answerNames are names of the status of a response from another service.
var answerNames = setOf("ok status statusCode StatusCode status_code getStatusCode is_success isSuccessful IsSuccess")

// answerPath reports whether an If handles a failed response from another service:
// if (!response.ok) { throw new Error("..."); }.
func answerPath(u *instrumentation.Uses, n *syntax.Node) bool {
	if n.Kind != syntax.If {
		return false
	}
	cond, answer := n.Children[0], false
	for c := range cond.All() {
		switch {
		case c.Kind == syntax.Member && answerNames[c.Text] && setOf("response resp res r reply answer result")[strings.ToLower(last(words(name(c.Children[0]))))]:
			answer = true
		case c.Text == "StatusNotFound" || c.Text == "404" || c.Text == "NOT_FOUND" || c.Text == "409" || c.Text == "401" || c.Text == "403" || c.Text == "400":
			return false
		}
	}
	if !answer || cond.Kind != syntax.Operator || cond.Text == "==" || cond.Text == "===" || cond.Text == "&&" || cond.Text == "and" {
		return false
	}
	for c := range direct(n.Children[1]) {
		switch c.Kind {
		case syntax.Throw:
			return len(c.Children) == 0 || !benign(c.Children[0])
		case syntax.Return:
			if len(c.Children) == 0 {
				return logsError(u, n.Children[1])
			}
			if value := c.Children[len(c.Children)-1]; u.File.Language == syntax.Go {
				return errorMaker(value) && !benign(value) || value.Kind == syntax.Call && name(value) == "New" && !benign(value)
			}
			return logsError(u, n.Children[1])
		}
	}
	return false
}

// recordsLater reports whether a deferred function or a Finally may record the errors of all paths.
func recordsLater(fn *syntax.Node, spans []*instrumentation.Span) bool {
	for n := range direct(fn.Body(), syntax.Defer, syntax.Finally) {
		for c := range n.All() {
			switch {
			case c.Kind == syntax.Member && recording[c.Text]:
				return true
			case c.Kind == syntax.Call:
				recv, _ := c.Method()
				for _, a := range c.Args() {
					if (recv == nil || !ofSpan(recv.Text, spans)) && (a.Kind == syntax.Name || a.Kind == syntax.Member) && (isError(a) || ofSpan(a.Text, spans)) {
						return true
					}
				}
			}
		}
	}
	return false
}

// recording are methods that record an error or set the status of a span, in the spellings of all languages.
var recording = setOf(`RecordError SetStatus recordException setStatus record_exception set_status RecordException
	SetError setError recordError`)

// recordedBefore reports whether the code before a condition has recorded the error: in a surrounding error path for the
// same error, if err != nil { span.RecordError(err); if err != nil { return err } }, or in a statement between the assignment of
// the error and the condition, err = record(ctx, err).
func recordedBefore(u *instrumentation.Uses, n, err, fn *syntax.Node, s *instrumentation.Span, spans []*instrumentation.Span) bool {
	gets := func(c *syntax.Node) bool {
		recv, _ := c.Called()
		if recv != nil && recv.Text != s.Variable && ofSpan(recv.Text, spans) {
			return false // it records the error on another span
		}
		return c.Kind == syntax.Call && slices.ContainsFunc(c.Args(), func(a *syntax.Node) bool { return mentions(a, err.Text) })
	}
	if def := u.File.Definition(err); def != nil && def.Kind == syntax.Assign {
		if v := def.Value(); gets(v) && recordsIn(v, spans) {
			return true
		}
		if n.Parent.Kind == syntax.Block {
			for _, c := range n.Parent.Children {
				if c.Start >= def.End && c.End <= n.Start && gets(c) && recordsIn(c, spans) {
					return true
				}
			}
		}
	}
	for at := n; at.Parent != nil && at.Parent != fn; at = at.Parent {
		outer, block := goFailure(u, at.Parent)
		if outer == nil || outer.Text != err.Text || at != block {
			continue
		}
		for _, c := range block.Children {
			if c.Start >= n.Start {
				break
			}
			if c.Kind == syntax.Call && recordsIn(c, spans) {
				return true
			}
		}
	}
	return false
}

func ofSpan(variable string, spans []*instrumentation.Span) bool {
	return variable != "" && variable != "_" && slices.ContainsFunc(spans, func(s *instrumentation.Span) bool { return s.Variable == variable })
}

// recordsIn reports whether the block of an error path records the error. It may also pass the span, or the error with
// a context, to a function that may record it.
func recordsIn(block *syntax.Node, spans []*instrumentation.Span) bool {
	for c := range block.All() {
		switch c.Kind {
		case syntax.Member:
			if recording[c.Text] && !statusOK(c) {
				return true
			}
		case syntax.Call:
			recv, m := c.Method()
			if recv != nil && ofSpan(recv.Text, spans) && !neutral[m] && !recording[m] {
				return true // a method of a wrapper
			}
			var span, ctx, err bool
			for _, a := range c.Args() {
				a = a.Inner(syntax.Spread, syntax.Argument)
				span = span || ofSpan(a.Text, spans)
				ctx = ctx || strings.HasSuffix(strings.ToLower(a.Text), "ctx") || a.Text == "context"
				err = err || isError(a) || a.Kind == syntax.Call && slices.ContainsFunc(a.Args(), isError)
			}
			w := words(m)
			if span || ctx && err && (slices.Contains(w, "error") || slices.Contains(w, "err") || slices.Contains(w, "fail") || slices.Contains(w, "span") || slices.Contains(w, "record") || slices.Contains(w, "trace") || slices.Contains(w, "handle")) &&
				!isLogCall(recv) {
				return true
			}
		}
	}
	return false
}

// statusOK reports whether a member is the method of a call that sets the status to OK or unset.
func statusOK(m *syntax.Node) bool {
	call := m.Parent
	if call == nil || call.Kind != syntax.Call || call.Callee() != m || len(call.Args()) == 0 {
		return false
	}
	ok := false
	for c := range call.Args()[0].All() {
		switch c.Text {
		case "OK", "Ok", "UNSET", "Unset":
			ok = true
		case "ERROR", "Error":
			return false
		}
	}
	return ok
}

// isLogCall reports whether the receiver of a call is named like a logger.
func isLogCall(recv *syntax.Node) bool {
	w := last(words(name(recv)))
	return strings.HasPrefix(w, "log") || w == "slog" || w == "zap" || w == "klog"
}

// neutral are methods of a span that record no error.
var neutral = setOf(`End end SetAttributes setAttribute setAttributes set_attribute set_attributes AddEvent addEvent
	add_event SetName updateName update_name SpanContext spanContext getSpanContext IsRecording isRecording is_recording
	get_span_context AddLink TracerProvider makeCurrent setAllAttributes`)

// spanAround returns the last span that starts before a node and has not ended there, in the order of statements.
func spanAround(n, fn *syntax.Node, spans []*instrumentation.Span) *instrumentation.Span {
	var found *instrumentation.Span
	for _, s := range spans {
		if s.Body == nil || stored(s) || s.Body != fn && (!n.Within(s.Body) || n.Start < s.Start.End) {
			continue
		}
		if slices.ContainsFunc(s.Ends[:min(len(s.Ends), maxSpans)], func(e *syntax.Node) bool {
			if e.Start > n.Start || e.Enclosing(syntax.Func) != fn || e.Enclosing(syntax.Defer, syntax.Finally) != nil {
				return false
			}
			b := e.Enclosing(syntax.Block)
			return b == nil || n.Within(b)
		}) {
			continue
		}
		if found == nil || s.Start.Start > found.Start.Start {
			found = s
		}
	}
	return found
}

// validators are words in names of functions that check or read input.
var validators = setOf(`validate valid validation verify ensure check assert parse atoi bind decode unmarshal sanitize normalize authorize authenticate
	parseint parsefloat parsebool parseuint parseform decodejson readjson require`)

// looksUp reports whether a call of a function named check gets a context and looks something up: checkIndex(ctx, id).
func looksUp(call *syntax.Node, w []string) bool {
	return w[0] == "check" && len(w) > 1 && !decisions.any(w) && call.Arg(0) != nil && strings.HasSuffix(strings.ToLower(call.Arg(0).Text), "ctx")
}

// decisions are words in names of functions whose errors reject the caller.
var decisions = setOf("auth authz authn authorization access permission permissions claims valid request limit limits quota allowed")

// inputFunctions are first words in names of functions whose errors are about invalid input.
var inputFunctions = setOf("validate verify parse decode unmarshal")

// goFailure returns the error that a node in Go compares with nil, and the block for an error: the block of an If or
// Case for `err != nil`, the else of an If for `err == nil`, or the default of a switch with a Case for it. It returns
// nil for other nodes.
func goFailure(u *instrumentation.Uses, n *syntax.Node) (err, block *syntax.Node) {
	if u.File.Language != syntax.Go {
		return nil, nil
	}
	switch {
	case n.Kind == syntax.If || n.Kind == syntax.Case && len(n.Children) == 2:
		err, failed := asksForError(n.Children[0])
		switch {
		case err != nil && failed:
			return err, n.Children[1]
		case err != nil && len(n.Children) == 3 && n.Children[2].Kind == syntax.Block:
			return err, n.Children[2]
		}
	case n.Kind == syntax.Case && len(n.Children) == 1 && n.Parent.Kind == syntax.Switch:
		for _, c := range n.Parent.Children {
			if c.Kind == syntax.Case && len(c.Children) == 2 {
				if err, failed := asksForError(c.Children[0]); err != nil && !failed {
					return err, n.Children[0]
				}
			}
		}
	}
	return nil, nil
}

// asksForError returns the error that a condition compares with nil, and whether the condition holds if there is an
// error. It returns nil for other conditions.
func asksForError(cond *syntax.Node) (err *syntax.Node, failed bool) {
	if cond.Kind != syntax.Operator || cond.Text != "!=" && cond.Text != "==" || len(cond.Children) != 2 || cond.Children[1].Kind != syntax.Null || !isError(cond.Children[0]) {
		return nil, false
	}
	return cond.Children[0], cond.Text == "!="
}

// goErrorPath reports whether a block is an error path that leaves the function: `if err != nil { return err }`.
func goErrorPath(u *instrumentation.Uses, err, block *syntax.Node) bool {
	if def := u.File.Definition(err); def != nil && def.Kind == syntax.Assign {
		v := def.Value()
		if strings.HasSuffix(name(v), "FromString") {
			return false
		}
		if w := words(name(v)); v.Kind == syntax.Call && validators.any(w) && !looksUp(v, w) && (!slices.Contains(w, "decode") && !slices.Contains(w, "unmarshal") || mentionsInput(v)) {
			return false
		}
		if recv, m := v.Called(); recv != nil && recv.Text == "ctx" && m == "Err" {
			return false
		}
	}
	returns := false
	for c := range without(block, func(c *syntax.Node) bool { return c.Kind == syntax.Func || benignBranch(c) }) {
		switch c.Kind {
		case syntax.Return:
			if len(c.Children) == 0 {
				returns = returns || logsError(u, block)
				continue
			}
			value := c.Children[len(c.Children)-1]
			if value.Kind == syntax.Null || value.Kind == syntax.Bool {
				continue
			}
			if benign(value) {
				return false
			}
			returns = returns || mentions(value, err.Text) || isError(value) || errorMaker(value)
		case syntax.Name, syntax.Member:
			if benignNames[c.Text] {
				return false
			}
		}
	}
	return returns
}

// benignBranch reports whether an If handles missing data or invalid input. The code after it handles other errors:
// if errors.Is(err, sql.ErrNoRows) { return nil }.
func benignBranch(n *syntax.Node) bool {
	if n.Kind != syntax.If || len(n.Children) != 2 || n.Children[0].Kind == syntax.Operator && n.Children[0].Text != "==" || !benign(n.Children[0]) {
		return false
	}
	body := n.Children[1].Children
	return len(body) > 0 && body[len(body)-1].Kind == syntax.Return
}

// errorMaker reports whether a call creates an error.
func errorMaker(n *syntax.Node) bool {
	if n.Kind != syntax.Call {
		return false
	}
	w := words(name(n))
	return slices.Contains(w, "error") || slices.Contains(w, "errorf") || slices.Contains(w, "wrap") || slices.Contains(w, "wrapf")
}

// benignNames are names of errors and statuses for missing data, invalid input or denied access.
var benignNames = setOf(`InvalidArgument NotFound AlreadyExists ErrNotFound StatusBadRequest StatusNotFound
	StatusUnauthorized StatusForbidden StatusConflict ErrNoRows Unauthenticated PermissionDenied
	StatusUnprocessableEntity FailedPrecondition`)

// benign reports whether an expression refers to an error about missing data or invalid input.
func benign(n *syntax.Node) bool {
	for c := range n.All(syntax.Name, syntax.Member) {
		if benignNames[c.Text] {
			return true
		}
		w := strings.Join(words(c.Text), " ")
		if strings.Contains(w, "not found") || strings.Contains(w, "notfound") || strings.Contains(w, "invalid") || strings.Contains(w, "bad request") || strings.Contains(w, "validation") {
			return true
		}
	}
	return false
}

// mentionsInput reports whether a call reads the input of a request.
func mentionsInput(n *syntax.Node) bool {
	for c := range n.All() {
		if c.Kind == syntax.Member && c.Text == "Body" && setOf("resp res response").any(words(name(c.Children[0]))) {
			return false // the response of another service: json.NewDecoder(resp.Body)
		}
		if (c.Kind == syntax.Name || c.Kind == syntax.Member) && setOf("req request body input payload r params args").any(words(c.Text)) {
			return true
		}
	}
	return false
}

// serverErrors are status codes for a failure of the server.
var serverErrors = setOf("StatusInternalServerError StatusBadGateway StatusServiceUnavailable INTERNAL_SERVER_ERROR SC_INTERNAL_SERVER_ERROR HTTP_500_INTERNAL_SERVER_ERROR BAD_GATEWAY SERVICE_UNAVAILABLE 500 502 503")

// logsError reports whether a block logs at the error level, or responds to a request with a server error.
func logsError(u *instrumentation.Uses, block *syntax.Node) bool {
	for c := range direct(block, syntax.Return) {
		values := c.Children
		if len(values) == 1 && values[0].Kind == syntax.List {
			values = values[0].Children
		}
		if len(values) > 1 && values[1].Kind == syntax.Number && serverErrors[values[1].Text] { // Flask: return body, 500
			return true
		}
	}
	for _, c := range calls(block) {
		switch m := name(c); {
		case m == "internalServerError" || m == "HttpResponseServerError" || m == "printStackTrace",
			m == "onError" && len(c.Args()) == 1 && !benign(c.Args()[0]), // of a StreamObserver
			m == "set_code" && len(c.Args()) == 1 && c.Args()[0].Text == "INTERNAL":
			return true
		}
		for _, a := range c.Args() {
			if a.Kind == syntax.Argument { // status=500
				a = a.Value()
			}
			if serverErrors[a.Text] {
				return true
			}
		}
	}
	from, _ := slices.BinarySearchFunc(u.Logs, block.Start, func(l instrumentation.Log, at int) int { return cmp.Compare(l.Call.Start, at) })
	for _, l := range u.Logs[from:] {
		if l.Call.Start >= block.End {
			break
		}
		if recv, _ := l.Call.Method(); l.Level == "error" || (l.Printed || recv != nil && recv.Text == "console") && mentionsError(l) {
			return true
		}
	}
	return false
}

// mentionsError reports whether a log statement writes an error.
func mentionsError(l instrumentation.Log) bool {
	return slices.ContainsFunc(l.Call.Args(), func(a *syntax.Node) bool {
		return a.Has(func(c *syntax.Node) bool { return c.Kind == syntax.Name && isError(c) })
	})
}

// expected are parts of names of exceptions for missing data, invalid input or control flow.
var expected = []string{
	"notfound", "doesnotexist", "validation", "noresult", "keyerror", "indexerror", "stopiteration", "badrequest", "illegalargument", "numberformat",
	"importerror", "modulenotfound", "attributeerror", "valueerror", "cancelled", "interrupted", "filenotfound", "nosuchelement", "unauthorized", "forbidden",
}

// catchPath reports whether a Catch, or the callback of a promise's catch, is an error path: it throws and the span
// does not record exceptions by itself, it passes the error on, it returns a failure, or it logs the error.
func catchPath(u *instrumentation.Uses, n, fn *syntax.Node, s *instrumentation.Span, spans []*instrumentation.Span) bool {
	if n.Kind == syntax.Func && (name(n.Parent) != "catch" || len(n.Params()) == 0 || !awaited(n.Parent, s)) {
		return false
	}
	head := strings.ToLower(string(u.File.Source[n.Start:n.Body().Start]))
	if slices.ContainsFunc(expected, func(t string) bool { return strings.Contains(head, t) }) {
		return false
	}
	throws := false
	for c := range direct(n.Body()) {
		if c.Kind == syntax.Assign && c.Targets()[0].Kind == syntax.Member && isError(c.Value()) && recordsMember(u, c.Targets()[0].Text) {
			return false // other code records the member
		}
		if c.Kind == syntax.Throw {
			throws = true
			if len(c.Children) > 0 && benign(c.Children[0]) {
				return false
			}
		}
	}
	if throws {
		return !s.RecordsErrors && !caughtOutside(n, fn)
	}
	if passesError(n.Body()) || marksError(n.Body(), spans) || swallows(u, n) {
		return true
	}
	return logsError(u, n.Body()) && (n.Kind == syntax.Func || leaves(n))
}

// swallows reports whether a Catch of any exception returns a failure: false, or an object with an error or a success
// field.
func swallows(u *instrumentation.Uses, n *syntax.Node) bool {
	if n.Kind != syntax.Catch {
		return false
	}
	head := string(u.File.Source[n.Start:n.Body().Start])
	if u.File.Language != syntax.JavaScript && u.File.Language != syntax.TypeScript && !anyException.MatchString(head) {
		return false
	}
	if try := n.Parent; slices.ContainsFunc(calls(try.Body()), func(c *syntax.Node) bool { return validators.any(words(name(c))) }) {
		return false
	}
	for c := range direct(n.Body(), syntax.Return) {
		if len(c.Children) == 0 {
			continue
		}
		switch v := c.Children[len(c.Children)-1]; v.Kind {
		case syntax.Bool:
			return strings.EqualFold(v.Text, "false")
		case syntax.Object:
			return v.Get("error") != nil || v.Get("success") != nil
		}
	}
	return false
}

// anyException matches the head of a Catch of any exception.
var anyException = regexp.MustCompile(`^except\s*:|\b(Exception|Throwable|RuntimeException|BaseException)\b`)

// awaited reports whether a function awaits, stores or returns the promise of a chain of calls, or ends the span in the
// chain.
func awaited(call *syntax.Node, s *instrumentation.Span) bool {
	top := call
	for top.Parent != nil && (top.Parent.Kind == syntax.Member && top.Parent.Children[0] == top || top.Parent.Kind == syntax.Call && top.Parent.Callee() == top) {
		top = top.Parent
	}
	if up := top.Parent; up != nil && (up.Kind == syntax.Return || up.Kind == syntax.Await || up.Kind == syntax.Assign || up.Kind == syntax.Func) {
		return true
	}
	return slices.ContainsFunc(s.Ends[:min(len(s.Ends), maxSpans)], func(e *syntax.Node) bool { return e.Within(top) })
}

// marksError reports whether a block marks the span as failed without recording the error: it sets an
// attribute such as error, or adds an event.
func marksError(block *syntax.Node, spans []*instrumentation.Span) bool {
	return slices.ContainsFunc(calls(block), func(c *syntax.Node) bool {
		recv, m := c.Method()
		if recv == nil || !ofSpan(recv.Text, spans) || c.Arg(0) == nil || c.Arg(0).Kind != syntax.String {
			return false
		}
		return slices.Contains([]string{"addEvent", "add_event", "AddEvent", "setAttribute", "set_attribute"}, m) && setOf("error failed failure exception").any(words(c.Arg(0).Text))
	})
}

// recordsMember reports whether a file records the error that a member holds.
func recordsMember(u *instrumentation.Uses, member string) bool {
	return u.File.Root.Has(func(n *syntax.Node) bool {
		return n.Kind == syntax.Call && recording[name(n)] && slices.ContainsFunc(n.Args(), func(a *syntax.Node) bool { return mentions(a, member) })
	})
}

// ending reports whether a statement ends a span or closes a scope.
func ending(n *syntax.Node) bool {
	return n.Kind == syntax.Call && len(n.Args()) == 0 && setOf("end close")[name(n)]
}

// leaves reports whether a Catch ends the work of the function: it returns, or nothing but the end
// of a span follows the Try.
func leaves(n *syntax.Node) bool {
	if has(direct(n.Body()), func(c *syntax.Node) bool { return c.Kind == syntax.Return }) {
		return true
	}
	for at := n.Parent; at != nil && at.Parent != nil; at = at.Parent { // code may follow the If around a branch
		switch up := at.Parent; up.Kind {
		case syntax.Func:
			return true
		case syntax.Loop, syntax.Case:
			return false
		case syntax.Block:
			if slices.ContainsFunc(up.Children, func(c *syntax.Node) bool { return c.Start > at.Start && !ending(c) }) {
				return false
			}
		}
	}
	return true
}
