// SPDX-License-Identifier: Apache-2.0

package check

import (
	"bytes"
	"slices"
	"strings"

	"assay/internal/review/instrumentation"
	"assay/internal/review/syntax"
)

// pureCalls are functions without side effects, whose calls a fix may remove.
var pureCalls = setOf(`string str tostring error sprintf sprint format join valueof string() message geterror getmessage header get getheader getenv
	url geturl uri geturi getrequesturi path getpath stringify repr len int float bool query formvalue value name trim strip lower upper
	tolowercase touppercase itoa formatint now`)

// wrappers are functions that take attributes and only pass them on.
var wrappers = setOf("WithAttributes SetAttributes WithAttributeSet NewSet setAttributes set_attributes")

// removeAttribute returns the edits that remove an attribute. It returns nil if the removal would change more than the
// attribute, or if the file would no longer compile.
func (p *Pass) removeAttribute(u *instrumentation.Uses, a *instrumentation.Attribute) []Edit {
	n := a.Node
	if a.Value == nil || n == nil || !p.maySearch() {
		return nil
	}
	for c := range a.Value.All() {
		switch c.Kind {
		case syntax.Call:
			called := name(c)
			getter := u.File.Language == syntax.Java && len(c.Args()) == 0 && (strings.HasPrefix(called, "get") || strings.HasPrefix(called, "is"))
			if !getter && !pureCalls[strings.ToLower(called)] {
				return nil
			}
		case syntax.New, syntax.Await, syntax.Assign, syntax.Func:
			return nil
		}
	}
	// Remove the code around the attribute that has no purpose without it as well, unless it cannot be removed.
	parts := []*syntax.Node{n}
	for ; n.Parent != nil && onlyPart(n); n = n.Parent {
		parts = append(parts, n.Parent)
	}
	for _, n := range slices.Backward(parts) {
		if edits := removePart(u, n); edits != nil {
			return edits
		}
	}
	return nil
}

// removePart returns the edits that remove an attribute, or the code around one, or nil.
func removePart(u *instrumentation.Uses, n *syntax.Node) []Edit {
	if leavesUnused(u, n) {
		return nil
	}
	if of := n.Parent; of != nil && of.Kind == syntax.Call && name(of) == "of" && u.File.Language == syntax.Java { // Attributes.of(key, value, ...)
		if len(of.Args()) != 2 || of.Callee().Kind != syntax.Member {
			return nil
		}
		return []Edit{{Start: of.Callee().Children[0].End, End: of.End, Text: ".empty()"}}
	}
	if of := n.Parent; of != nil && of.Kind == syntax.Call && len(of.Args()) == 2 && n == of.Args()[1] && u.File.Code(of.Callee()) == "append" {
		return removeAppend(u, of)
	}
	start, end, ok := removal(u.File, n)
	if !ok {
		return nil
	}
	return []Edit{{Start: start, End: end}}
}

// onlyPart reports whether the node around a node has no purpose without it: a call that only passes it on, or the object of a
// single attribute at the end of a call, c.add(1, {key: value}).
func onlyPart(n *syntax.Node) bool {
	switch p := n.Parent; p.Kind {
	case syntax.Call:
		return wrappers[name(p)] && len(p.Args()) == 1 && n != p.Callee()
	case syntax.Object:
		call := p.Parent
		if len(p.Children) != 1 || call == nil {
			return false
		}
		if call.Kind == syntax.Argument { // attributes={key: value}
			return call.Text == "attributes"
		}
		if call.Kind != syntax.Call || p == call.Callee() {
			return false
		}
		args := call.Args()
		return args[len(args)-1] == p && (len(args) > 1 || wrappers[name(call)])
	case syntax.Argument:
		return n.Kind == syntax.Object
	}
	return false
}

// removeAppend returns the edits that replace append(list, attribute) with list, or that remove a statement that
// assigns append(list, attribute) to list.
func removeAppend(u *instrumentation.Uses, n *syntax.Node) []Edit {
	list, assign := n.Args()[0], n.Parent
	if assign != nil && assign.Kind == syntax.Assign && assign.Text == "=" && len(assign.Targets()) == 1 && u.File.Code(assign.Targets()[0]) == u.File.Code(list) {
		start, end, ok := removal(u.File, assign)
		if !ok || leavesUnused(u, assign) {
			return nil
		}
		return []Edit{{Start: start, End: end}}
	}
	return []Edit{{Start: n.Start, End: list.Start}, {Start: list.End, End: n.End}}
}

// removal returns the range to remove with a node: whole lines for a statement or a node on lines of its own, and the
// comma of an element of a list. It returns false if the code around the node has another form.
func removal(f *syntax.File, n *syntax.Node) (start, end int, ok bool) {
	p := n.Parent
	if p == nil {
		return 0, 0, false
	}
	switch p.Kind {
	case syntax.Block:
		if len(p.Children) < 2 && f.Language == syntax.Python {
			return 0, 0, false
		}
		return wholeLines(f.Source, n.Start, n.End)
	case syntax.Member: // a chain of calls: a.b(x).c(y)
		if len(n.Children) > 0 && n.Kind == syntax.Call && n.Callee().Kind == syntax.Member && len(n.Callee().Children) == 1 {
			return n.Callee().Children[0].End, n.End, true
		}
		return 0, 0, false
	case syntax.Call, syntax.Object, syntax.List, syntax.New:
		siblings := p.Children
		if p.Kind == syntax.Call || p.Kind == syntax.New {
			siblings = p.Args()
		}
		for i, s := range siblings {
			if s != n {
				continue
			}
			switch {
			case i+1 < len(siblings): // with the comma and the space after it
				if s, e, ok := wholeLines(f.Source, n.Start, commaEnd(f.Source, n.End)); ok {
					return s, e, true
				}
				return n.Start, siblings[i+1].Start, onlyCommas(f.Source[n.End:siblings[i+1].Start])
			case i > 0: // with the comma before it
				if e := commaEnd(f.Source, n.End); e > n.End {
					if s, e, ok := wholeLines(f.Source, n.Start, e); ok {
						return s, e, true
					}
				}
				return siblings[i-1].End, n.End, onlyCommas(f.Source[siblings[i-1].End:n.Start])
			}
			if s, e, ok := wholeLines(f.Source, n.Start, commaEnd(f.Source, n.End)); ok {
				return s, e, true
			}
			return p.Start + 1, p.End - 1, f.Language != syntax.Go && (p.Kind == syntax.Object || p.Kind == syntax.List)
		}
	}
	return 0, 0, false
}

// wholeLines extends a range to whole lines. It returns false if the lines contain other code.
func wholeLines(source []byte, start, end int) (int, int, bool) {
	from := bytes.LastIndexByte(source[:start], '\n') + 1
	if len(bytes.TrimSpace(source[from:start])) > 0 {
		return 0, 0, false
	}
	rest := source[end:]
	line := bytes.IndexByte(rest, '\n')
	if line < 0 {
		line = len(rest) - 1
	}
	after := bytes.TrimSpace(rest[:line+1])
	after = bytes.TrimSpace(bytes.TrimPrefix(after, []byte(";")))
	if len(after) > 0 && !bytes.HasPrefix(after, []byte("//")) && !bytes.HasPrefix(after, []byte("#")) {
		return 0, 0, false
	}
	return from, end + line + 1, true
}

// commaEnd returns the offset after the comma that follows end, or end if there is none.
func commaEnd(source []byte, end int) int {
	rest := bytes.TrimLeft(source[end:], " \t")
	if len(rest) > 0 && rest[0] == ',' {
		return len(source) - len(rest) + 1
	}
	return end
}

func onlyCommas(text []byte) bool { return len(bytes.Trim(text, " \t\r\n,")) == 0 }

// leavesUnused reports whether the removal of a node leaves a variable of a Go file without a use, which does not
// compile.
func leavesUnused(u *instrumentation.Uses, n *syntax.Node) bool {
	if u.File.Language != syntax.Go {
		return false
	}
	for c := range n.All(syntax.Name) {
		def := u.File.Definition(c)
		if def == nil || def.Kind != syntax.Assign && def.Kind != syntax.Declare {
			continue
		}
		fn := def.Enclosing(syntax.Func)
		if fn == nil {
			continue
		}
		if !fn.Has(func(other *syntax.Node) bool {
			return other.Kind == syntax.Name && other.Text == c.Text && !other.Within(n) && !other.Within(def) && u.File.Definition(other) == def
		}) {
			return true
		}
	}
	return false
}
