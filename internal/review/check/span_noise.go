// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"slices"
	"strings"

	"assay/internal/review/instrumentation"
	"assay/internal/review/syntax"
)

var spanNoise = &Check{
	ID:       "span-noise",
	Title:    "Span adds volume without information",
	Category: Volume,
	Severity: Suggestion,
	Rules:    []string{"SPA-001", "SPA-005"},
	Why: "A span in a loop creates one span for each iteration, and a span around a helper that only computes lasts microseconds. " +
		"A span around a call that an instrumentation library covers duplicates the library's span. " +
		"Such spans hide the spans that explain the request, and cost as much.",
	Fix: "Start one span around the loop and record the number of iterations as an attribute. Remove the span of a helper or of an instrumented call, or record an event on the span around it.",
	Source: func(p *Pass, u *instrumentation.Uses) {
		perFunction := map[*syntax.Node]int{}
		for _, s := range u.Spans {
			fn := s.Func()
			if fn == nil || s.Name == nil && s.Body != fn || s.Escapes {
				continue
			}
			if perFunction[fn]++; perFunction[fn] > maxSpans {
				continue
			}
			f := spanFinding(u, s, "")
			f.Subject = cmp.Or(f.Subject, fn.Text)
			switch {
			case s.Kind == "" && s.Name != nil && inLoop(s):
				f.Message = "The loop starts a span in each round."
			case s.Kind == "" && pureHelper(fn, s) && !namedByCaller(u, s):
				f.Message = "The function of the span only computes."
			default:
				if libraries := repeats(u, s); libraries != nil {
					f.Message = "The span repeats the span of an instrumented call."
					p.Keep(repeatedFact{f.at(u, s.Start), libraries})
				}
				continue
			}
			p.At(u, s.Start, f)
		}
	},
	Repository: reportRepeated,
	Related:    func(any) []string { return []string{"telemetry", "otel"} },
}

// namedByCaller reports whether a function starts a span with the name in a parameter, for the work of its caller:
// observe(name, supplier).
func namedByCaller(u *instrumentation.Uses, s *instrumentation.Span) bool {
	if s.Name == nil {
		return false
	}
	def := u.File.Definition(s.Name)
	return def != nil && def.Kind == syntax.Param
}

// unitsOfWork are words for units of work that a consumer handles, or for attempts: both are worth a span.
var unitsOfWork = setOf(`msg msgs message messages event events job jobs task tasks batch batches request requests req delivery deliveries attempt attempts retry retries record
	records tick ticker ticks conn update updates notification notifications command commands work stream chan channel queue ch poll test tests tc
	migration migrations step steps stage stages phase chunk page pages plugin hook`)

// inLoop reports whether a loop over items starts a span in each iteration. It returns false for endless loops and
// loops over messages, where each iteration is a unit of work.
func inLoop(s *instrumentation.Span) bool {
	n := s.Start.Enclosing(syntax.Loop, syntax.Func)
	for n != nil && n.Kind == syntax.Func && n.Parent != nil && n.Parent.Kind == syntax.Call && n.Parent.Callee() == n { // func() { ... }()
		n = n.Enclosing(syntax.Loop, syntax.Func)
	}
	if n == nil || !s.Start.Within(n.Body()) {
		return false
	}
	header, each := n.Children[:len(n.Children)-1], false
	if n.Kind == syntax.Func { // the callback of forEach
		if n.Parent == nil || n.Parent.Kind != syntax.Call || name(n.Parent) != "forEach" || n.Body().Kind != syntax.Block {
			return false
		}
		recv, _ := n.Parent.Method()
		if recv == nil {
			return false
		}
		header, each = append([]*syntax.Node{recv}, n.Params()...), true
	}
	if endless(header) || unitsOfWork.any(words(subjectOf(s))) {
		return false
	}
	for _, h := range header {
		each = each || h.Kind == syntax.Assign
		for c := range h.All() {
			if (c.Kind == syntax.Name || c.Kind == syntax.Member) && unitsOfWork.any(words(c.Text)) || c.Kind == syntax.Await || c.Kind == syntax.Call && !pure[strings.ToLower(name(c))] {
				return false
			}
		}
	}
	if !each || !smallThings(header) && worksFar(s, n.Body()) {
		return false
	}
	// An iteration that leaves the loop after the start is the only one with a span.
	leaves := slices.ContainsFunc(n.Body().Children, func(c *syntax.Node) bool {
		return c.Start > s.Start.Start && (c.Kind == syntax.Return || c.Kind == syntax.Jump && c.Text == "break")
	})
	return !leaves
}

// small are words for objects that are many in number. A span for each of them is noise.
var small = setOf(`item items row rows line lines entry entries element elements field fields value values product products order orders user users
	customer customers word words number numbers point points`)

// smallThings reports whether a loop iterates over objects that are many in number.
func smallThings(header []*syntax.Node) bool {
	return slices.ContainsFunc(header, func(h *syntax.Node) bool {
		return h.Has(func(c *syntax.Node) bool {
			return (c.Kind == syntax.Name || c.Kind == syntax.Member) && small[last(words(c.Text))]
		})
	})
}

// farVerbs are first words in names of functions that call other services, or read and write data.
var farVerbs = setOf(`fetch send publish query execute exec request post put upload download save commit invoke dispatch insert update delete read write call connect
	produce poll load store open scan sync push pull import export deploy install`)

// worksFar reports whether an iteration does more than compute: it waits, passes the context of the span on, or calls
// other services.
func worksFar(s *instrumentation.Span, body *syntax.Node) bool {
	ctx := ""
	if p := s.Start.Parent; p != nil && p.Kind == syntax.Assign && len(p.Targets()) == 2 && p.Targets()[0].Text != "_" {
		ctx = p.Targets()[0].Text
	}
	after := s.Start.End
	if s.Body != nil && s.Body.Kind == syntax.Func {
		body, after = s.Body, s.Body.Start
	}
	for c := range body.All() {
		if c.Start < after {
			continue
		}
		switch c.Kind {
		case syntax.Await:
			return true
		case syntax.Call:
			if w := words(name(c)); len(w) > 0 && farVerbs[w[0]] {
				return true
			}
			for _, a := range c.Args() {
				if ctx != "" && a.Kind == syntax.Name && a.Text == ctx {
					return true
				}
			}
		}
	}
	return false
}

// pure are functions that only compute.
var pure = setOf(`len cap append make min max abs copy new string int float64 int64 str bool list dict set tuple sorted sum any all range enumerate zip map filter
	toupper tolower trimspace trim split join replace replaceall contains hasprefix hassuffix sprintf sprint itoa format upper lower strip startswith endswith
	touppercase tolowercase substring indexof push slice concat keys values entries items isinstance round floor ceil sqrt pow parseint tofixed tostring
	equals charat length size isempty valueof append errorf get has fields title repeat index trimprefix trimsuffix trimleft trimright`)

// spanMethods are calls that create or describe the span.
var spanMethods = setOf(`start end setattributes setattribute set_attribute set_attributes addevent add_event recorderror recordexception record_exception setstatus set_status
	withattributes string int int64 bool float64 stringslice withspankind startspan startactivespan start_span start_as_current_span spanbuilder tracer gettracer get_tracer
	makecurrent close settimestamp setspankind spanfromcontext stringer status`)

// subjectOf returns the constant name of a span, "" if it has none.
func subjectOf(s *instrumentation.Span) string {
	if s.Name != nil && s.Name.Kind == syntax.String {
		return s.Name.Text
	}
	return ""
}

// stores are words in names of sources of values: a cache, a repository, a client.
var stores = setOf(`repo repository cache db database store storage client api session conn connection redis service svc dao http requests axios objects manager provider registry
	backend remote queue pool mapper gateway tx txn transaction snapshot snap bucket kv leveldb badger bolt`)

// reads reports whether a method that is pure for a value in memory reads from a store: repository.get(id),
// requests.get(url). It also reports whether the function is a wrapper, which calls the method of the same name of a member.
func reads(call *syntax.Node, method string) bool {
	switch method {
	case "get", "has", "filter", "all", "keys", "values", "replace", "append", "contains", "index", "set", "len", "size":
	default:
		return false
	}
	if recv, m := call.Method(); recv != nil && recv.Kind == syntax.Member {
		for fn := call.Enclosing(syntax.Func); fn != nil; fn = fn.Enclosing(syntax.Func) {
			if fn.Text == m {
				return true
			}
		}
	}
	for n, _ := call.Method(); n != nil; {
		if stores.any(words(name(n))) {
			return true
		}
		if len(n.Children) == 0 {
			return false
		}
		n = n.Children[0]
	}
	return false
}

// entryPoints are words in decorators of functions that a framework calls.
var entryPoints = setOf("route get post put delete patch mapping path task tool listener command handler api")

// pureHelper reports whether the function of a span has few statements and calls only functions that compute.
func pureHelper(fn *syntax.Node, s *instrumentation.Span) bool {
	if fn.Text == "" && s.Body != fn || fn.Body() == nil || fn.Body().Kind != syntax.Block || len(fn.Body().Children) > 12 {
		return false
	}
	if slices.ContainsFunc(fn.Children, func(c *syntax.Node) bool {
		return c.Kind == syntax.Decorator && entryPoints.any(words(name(c.Children[0])))
	}) {
		return false
	}
	works := false
	for c := range fn.Body().All() {
		switch c.Kind {
		case syntax.Call, syntax.New:
			m := strings.ToLower(name(c))
			if spanMethods[m] || c == s.Start {
				continue
			}
			if !pure[m] || reads(c, m) || slices.ContainsFunc(c.Args(), func(a *syntax.Node) bool { return strings.HasSuffix(strings.ToLower(a.Text), "ctx") }) {
				return false
			}
			works = true
		case syntax.Await, syntax.Spawn, syntax.Throw:
			return false
		case syntax.Operator:
			if c.Text == "<-" {
				return false
			}
			works = true
		case syntax.Template, syntax.Loop:
			works = true
		}
		if c.Start < s.Start.Start && c.Kind == syntax.Func {
			return false
		}
	}
	for c := range direct(fn.Body(), syntax.Return) {
		if len(c.Children) > 0 {
			return works || c.Children[0].Kind == syntax.Member || c.Children[0].Kind == syntax.Index
		}
	}
	return false
}
