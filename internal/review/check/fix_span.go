// SPDX-License-Identifier: Apache-2.0

package check

import (
	"bytes"
	"cmp"
	"strings"

	"assay/internal/lists"
	"assay/internal/review/instrumentation"
	"assay/internal/review/syntax"
)

// endSpan returns the edits that end a span on every path: defer in Go, with in Python, try and finally in JavaScript
// and Java. The edits remove the existing calls that end it. It returns nil for code of another form, and for a file
// that could not be parsed completely.
func (p *Pass) endSpan(u *instrumentation.Uses, fn *syntax.Node, s *instrumentation.Span) []Edit {
	if u.File.Broken || !p.maySearch() || s.Variable == "" || s.Variable == "_" || strings.ContainsAny(s.Variable, ".[") {
		return nil
	}
	for _, o := range u.Spans {
		if o != s && o.Variable == s.Variable && o.Func() == fn {
			return nil
		}
	}
	w := enclosure{source: u.File.Source, skip: map[int]bool{}}
	a := s.Start.Assignment()
	if fn.Has(func(n *syntax.Node) bool {
		return n.Kind == syntax.Assign && n != a && n.Start > s.Start.Start && assigns(n, s.Variable)
	}) {
		return nil // the variable is assigned again
	}
	scope := fn // the node at whose end the span will end
	if a != nil && u.File.Language != syntax.Go {
		scope = a.Parent
	}
	for _, e := range s.Ends {
		if in := e.Enclosing(syntax.Func); in != fn && !deferred(in, fn) {
			return nil // a callback ends it
		}
		if !w.removeEnd(u, fn, e) || worksAfter(e, scope) {
			return nil
		}
	}
	switch {
	case a == nil && s.Body != nil && s.Body.Kind == syntax.Func && u.File.Language != syntax.Go && u.File.Language != syntax.Python:
		body := s.Body.Body()
		if body == nil || body.Kind != syntax.Block || len(body.Children) == 0 {
			return nil
		}
		return w.tryFinally(body, body.Children, s.Variable)
	case a == nil || a.Parent == nil || a.Parent.Kind != syntax.Block || a.Value() != s.Start:
		return nil
	}
	rest := lists.Filter(a.Parent.Children, func(c *syntax.Node) bool { return c.Start >= a.End })
	switch u.File.Language {
	case syntax.Go:
		for p := a.Parent; p != nil && p != fn; p = p.Parent {
			if p.Kind == syntax.Loop {
				return nil
			}
		}
		_, end, ok := wholeLines(w.source, a.Start, a.End)
		if !ok {
			return nil
		}
		return append(w.edits, Edit{Start: end, End: end, Text: w.indent(a.Start) + "defer " + s.Variable + ".End()\n"})
	case syntax.Python:
		callee := s.Start.Callee()
		if len(rest) == 0 || callee.Kind != syntax.Member || callee.Text != "start_span" || !w.indentAll(a.Parent, rest, w.pythonUnit(a)) {
			return nil
		}
		at := callee.End - len(callee.Text)
		return append(w.edits,
			Edit{Start: a.Start, End: s.Start.Start, Text: "with "},
			Edit{Start: at, End: callee.End, Text: "start_as_current_span"},
			Edit{Start: a.End, End: a.End, Text: " as " + s.Variable + ":"})
	default:
		if len(rest) == 0 {
			return nil
		}
		return w.tryFinally(a.Parent, rest, s.Variable)
	}
}

// briefCalls are functions, in addition to pureCalls, that take so little time that a span may include them.
var briefCalls = setOf("err errorf new wrap wrapf withstack unwrap is as append set status println printf print info infof warn warnf debug debugf errorw infow")

// worksAfter reports whether a function or block may take time after a statement: a span that ends with the block would
// be longer.
func worksAfter(statement, scope *syntax.Node) bool {
	for n := statement; n.Parent != nil; n = n.Parent {
		if n.Parent.Kind == syntax.Loop && n.Parent != scope {
			return true
		}
		if n.Parent.Kind == syntax.Block {
			for _, c := range n.Parent.Children {
				if c.Start < n.End {
					continue
				}
				if c.Has(works) {
					return true
				}
				if c.Kind == syntax.Return || c.Kind == syntax.Throw {
					return false
				}
			}
		}
		if n.Parent == scope {
			return false
		}
	}
	return false
}

// works reports whether an expression or statement may take time.
func works(n *syntax.Node) bool {
	switch n.Kind {
	case syntax.Loop, syntax.Await:
		return true
	case syntax.Call:
		called := strings.ToLower(name(n))
		return !briefCalls[called] && !pureCalls[called]
	}
	return false
}

// enclosure collects the edits that enclose statements in a block.
type enclosure struct {
	source []byte
	edits  []Edit
	skip   map[int]bool // start offsets of the lines that are removed
}

// removeEnd removes a call that ends a span. It returns false if the call is not a statement on a line of its own.
func (w *enclosure) removeEnd(u *instrumentation.Uses, fn, call *syntax.Node) bool {
	p := call.Parent
	if call.Kind != syntax.Call || len(call.Args()) > 0 || p == nil || p.Kind != syntax.Block || call.Enclosing(syntax.Func) != fn || u.File.Language == syntax.Python && len(p.Children) < 2 {
		return false
	}
	start, end, ok := wholeLines(w.source, call.Start, call.End)
	if !ok {
		return false
	}
	w.skip[start] = true
	w.edits = append(w.edits, Edit{Start: start, End: end})
	return true
}

func (w *enclosure) lineStart(at int) int { return bytes.LastIndexByte(w.source[:at], '\n') + 1 }

// indent returns the white space at the start of the line of an offset.
func (w *enclosure) indent(at int) string {
	line := w.source[w.lineStart(at):]
	return string(line[:len(line)-len(bytes.TrimLeft(line, " \t"))])
}

// pythonUnit returns the indentation of one level at a Python statement.
func (w *enclosure) pythonUnit(n *syntax.Node) string {
	unit := "    "
	if bytes.Contains(w.source, []byte("\n\t")) {
		unit = "\t"
	}
	if of := n.Parent.Parent; of != nil { // the owner of the block
		if u, ok := strings.CutPrefix(w.indent(n.Start), w.indent(of.Start)); ok && u != "" {
			unit = u
		}
	}
	return unit
}

// tryFinally returns the edits that enclose the last statements of a block in a try whose finally ends a span.
func (w *enclosure) tryFinally(block *syntax.Node, rest []*syntax.Node, variable string) []Edit {
	indent := w.indent(rest[0].Start)
	unit := strings.TrimPrefix(indent, w.indent(block.Start))
	if unit == "" || unit == indent && w.indent(block.Start) != "" {
		return nil
	}
	for _, c := range rest {
		if c.Kind == syntax.Func || c.Kind == syntax.Class {
			return nil // earlier code may use the declaration
		}
	}
	if !w.indentAll(block, rest, unit) {
		return nil
	}
	start := w.lineStart(rest[0].Start)
	_, end, _ := wholeLines(w.source, start, rest[len(rest)-1].End)
	for i := range w.edits {
		if e := &w.edits[i]; e.Start == start && e.End == start {
			e.Text = indent + "try {\n" + e.Text
			start = -1
		}
	}
	if start >= 0 {
		w.edits = append(w.edits, Edit{Start: start, End: start, Text: indent + "try {\n"})
	}
	return append(w.edits, Edit{Start: end, End: end, Text: indent + "} finally {\n" + indent + unit + variable + ".end();\n" + indent + "}\n"})
}

// indentAll indents the lines of statements. It returns false if they share lines with other code, or if they contain a
// string of several lines, which would change.
func (w *enclosure) indentAll(block *syntax.Node, rest []*syntax.Node, unit string) bool {
	// Start at the beginning of the line, because the node of a statement may lack "const" or a type.
	start := w.lineStart(rest[0].Start)
	_, end, ok := wholeLines(w.source, start, rest[len(rest)-1].End)
	if !ok || start <= block.Start && block.Parent != nil {
		return false
	}
	for _, c := range block.Children {
		if c.Start < rest[0].Start && c.End > start {
			return false
		}
	}
	for _, c := range rest {
		for n := range c.All() {
			if (n.Kind == syntax.String || n.Kind == syntax.Template) && bytes.IndexByte(w.source[n.Start:n.End], '\n') >= 0 {
				return false
			}
		}
	}
	for at := start; at < end; {
		line := bytes.IndexByte(w.source[at:], '\n') + 1
		line = cmp.Or(line, end-at)
		if len(bytes.TrimSpace(w.source[at:at+line])) > 0 && !w.skip[at] {
			w.edits = append(w.edits, Edit{Start: at, End: at, Text: unit})
		}
		at += line
	}
	return true
}
