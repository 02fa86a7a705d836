// SPDX-License-Identifier: Apache-2.0

package check

import (
	"bytes"
	"fmt"
	"iter"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"assay/internal/review/instrumentation"
	"assay/internal/review/syntax"
)

// name returns the last name of an expression: x for x, a.x, x(...), a.x(...) and await x.
func name(n *syntax.Node) string {
	for n != nil {
		switch n.Kind {
		case syntax.Name, syntax.Member:
			return n.Text
		case syntax.Call, syntax.New, syntax.Await, syntax.Spread:
			if len(n.Children) == 0 {
				return ""
			}
			n = n.Children[0]
		default:
			return ""
		}
	}
	return ""
}

// nameStart returns the offset of the name in the callee of a call of a method, otherwise the start of the call.
func nameStart(f *syntax.File, call *syntax.Node) int {
	if c := call.Callee(); c.Kind == syntax.Member {
		if at := c.End - len(c.Text); at > c.Start && string(f.Source[at:c.End]) == c.Text {
			return at
		}
	}
	return call.Start
}

// marked is like at. For a call in a chain, a().f(...), the range begins at f, because f may be on another line than a.
func (f Finding) marked(u *instrumentation.Uses, n *syntax.Node) Finding {
	f = f.at(u, n)
	if n.Kind == syntax.Call && n.Callee().Kind == syntax.Member && n.Callee().Children[0].Inner(syntax.Member).Kind == syntax.Call {
		f.Start = nameStart(u.File, n)
	}
	return f
}

// mark reports a finding at a node. For a call in a chain, it marks only that call.
func (p *Pass) mark(u *instrumentation.Uses, n *syntax.Node, f Finding) { p.Report(f.marked(u, n)) }

// literal returns the string literal of an expression: the expression itself, or the literal in the definition of a
// constant of this file. It returns n if there is none.
func literal(u *instrumentation.Uses, n *syntax.Node) *syntax.Node {
	at, _ := trace(u, n)
	return at
}

// trace is like literal, and also returns the names on the way to the literal: b and a for "b = a" and `a = "x"`.
func trace(u *instrumentation.Uses, n *syntax.Node) (at *syntax.Node, names []*syntax.Node) {
	at = n
	for range 4 {
		switch at.Kind {
		case syntax.String:
			return at, names
		case syntax.Call: // attribute.Key("k"), stringKey("k")
			if a := at.Arg(0); a != nil && len(at.Args()) == 1 {
				at = a
				continue
			}
			return n, nil
		case syntax.Name, syntax.Member:
			def := u.File.Definition(at)
			if u.File.Element(at) != nil || def == nil || def.Kind != syntax.Assign || def.Value() == nil || len(def.Targets()) != 1 || def.Targets()[0].Kind == syntax.Object {
				return n, nil // such as const {at} = require("m")
			}
			names = append(names, at)
			at = def.Value()
		default:
			return n, nil
		}
	}
	return n, nil
}

// rename returns the edit that replaces the text of a string literal. It returns nil for a literal with escape
// sequences, a prefix or long quotes.
func rename(u *instrumentation.Uses, n *syntax.Node, to string) []Edit {
	if n.Kind != syntax.String || n.End-n.Start != len(n.Text)+2 || u.File.Code(n)[1:n.End-n.Start-1] != n.Text {
		return nil
	}
	return []Edit{{Start: n.Start + 1, End: n.End - 1, Text: to}}
}

// renameTelemetry returns the edit that renames an attribute or metric where its key or name is defined. all returns the
// keys or names in a file. It returns nil for a constant that has other uses, or that other files may use.
func (p *Pass) renameTelemetry(u *instrumentation.Uses, n *syntax.Node, to string, all func(*instrumentation.Uses) []*syntax.Node) []Edit {
	at, names := trace(u, n)
	if len(names) == 0 {
		return rename(u, at, to)
	}
	if !p.maySearch() {
		return nil
	}
	uses := map[*syntax.Node]bool{}
	for _, key := range all(u) {
		_, names := trace(u, key)
		for _, name := range names {
			uses[name] = true
		}
	}
	for _, name := range names {
		def := u.File.Definition(name)
		if visible(u.File, def) && !attributeKey(def) || u.File.Root.Has(func(c *syntax.Node) bool {
			return (c.Kind == syntax.Name || c.Kind == syntax.Member) && c.Text == name.Text && c != def.Targets()[0] && !uses[c] &&
				(c.Kind == syntax.Member || u.File.Definition(c) == def)
		}) {
			return nil
		}
	}
	return rename(u, at, to)
}

// attributeKey reports whether a variable or constant has the type of attribute keys.
func attributeKey(def *syntax.Node) bool {
	return def.Type == "attribute.Key" || def.Value().Kind == syntax.Call && strings.HasSuffix(name(def.Value()), "Key")
}

// exports matches the export clauses of JavaScript, which are not in the tree.
var exports = regexp.MustCompile(`export\s*\{([^}]*)\}`)

// visible reports whether other files can use a variable or constant.
func visible(f *syntax.File, def *syntax.Node) bool {
	if def.Enclosing(syntax.Func) != nil && def.Targets()[0].Kind == syntax.Name {
		return false
	}
	start := bytes.LastIndexByte(f.Source[:def.Start], '\n') + 1
	written := strings.Fields(string(f.Source[start:def.Targets()[0].Start]))
	switch f.Language {
	case syntax.JavaScript, syntax.TypeScript:
		return def.Parent != f.Root || def.Targets()[0].Kind != syntax.Name || slices.Contains(written, "export") ||
			slices.ContainsFunc(exports.FindAllSubmatch(f.Source, -1), func(m [][]byte) bool {
				return slices.Contains(strings.FieldsFunc(string(m[1]), func(r rune) bool { return r == ',' || unicode.IsSpace(r) }), def.Targets()[0].Text)
			})
	case syntax.Python:
		return !strings.HasPrefix(def.Targets()[0].Text, "_")
	case syntax.Java:
		return !slices.Contains(written, "private")
	default:
		return true
	}
}

// spanName returns the name of a span, "" if it is unknown.
func spanName(u *instrumentation.Uses, s *instrumentation.Span) string {
	text, _ := u.Known(s.Name)
	return text
}

// spanFinding returns a finding about a span.
func spanFinding(u *instrumentation.Uses, s *instrumentation.Span, message string) Finding {
	named := spanName(u, s)
	return Finding{Subject: shown(u, named, s.Name), Message: message, Names: Names{SpanName: named, ScopeName: s.Scope}}
}

// metricFinding returns a finding about a metric with a known name.
func metricFinding(i *instrumentation.Instrument, format string, args ...any) Finding {
	return Finding{Subject: i.Metric, Message: fmt.Sprintf(format, args...), Names: Names{MetricName: i.Metric, ScopeName: i.Scope}}
}

// isError reports whether an expression is named like an error.
func isError(n *syntax.Node) bool {
	if n == nil || n.Kind != syntax.Name && n.Kind != syntax.Member {
		return false
	}
	w := last(words(n.Text))
	return w == "err" || w == "error" || w == "exc" || w == "exception" || w == "e" || w == "ex" || strings.HasSuffix(w, "err")
}

// mentions reports whether an expression uses a name.
func mentions(n *syntax.Node, text string) bool {
	return n.Has(func(c *syntax.Node) bool { return (c.Kind == syntax.Name || c.Kind == syntax.Member) && c.Text == text })
}

// has reports whether is returns true for one of the nodes.
func has(nodes iter.Seq[*syntax.Node], is func(*syntax.Node) bool) bool {
	for n := range nodes {
		if is(n) {
			return true
		}
	}
	return false
}

// calls returns the calls in a node, without calls in nested functions.
func calls(n *syntax.Node) []*syntax.Node {
	return slices.Collect(direct(n, syntax.Call))
}

// direct yields n and the nodes below it, without nested functions. If kinds are given, it yields only nodes of these
// kinds.
func direct(n *syntax.Node, kinds ...syntax.Kind) iter.Seq[*syntax.Node] {
	return without(n, func(c *syntax.Node) bool { return c.Kind == syntax.Func && c != n }, kinds...)
}

// without yields n and the nodes below it. It leaves out nodes for which skip returns true and the nodes below them. If
// kinds are given, it yields only nodes of these kinds.
func without(n *syntax.Node, skip func(*syntax.Node) bool, kinds ...syntax.Kind) iter.Seq[*syntax.Node] {
	return func(yield func(*syntax.Node) bool) {
		stack := []*syntax.Node{n}
		for len(stack) > 0 {
			c := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			if skip(c) {
				continue
			}
			if (len(kinds) == 0 || slices.Contains(kinds, c.Kind)) && !yield(c) {
				return
			}
			for _, d := range slices.Backward(c.Children) {
				stack = append(stack, d)
			}
		}
	}
}
