// SPDX-License-Identifier: Apache-2.0

package check

import (
	"bytes"
	"cmp"
	"regexp"
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
	return remove(u.File, n)
}

// remove returns the edits that remove neighbouring attributes of a list, or code around one, or nil. It also removes
// the code around them that has no purpose without them, unless it cannot be removed.
func remove(f *syntax.File, nodes ...*syntax.Node) []Edit {
	p := nodes[0].Parent
	if p == nil {
		return nil
	}
	if onlyParts(p, nodes) {
		if edits := remove(f, p); edits != nil {
			return edits
		}
	}
	if leavesUnused(f, nodes) {
		return nil
	}
	if p.Kind == syntax.Call && name(p) == "of" && f.Language == syntax.Java { // Attributes.of(key, value, ...)
		if len(p.Args()) != 2 || p.Callee().Kind != syntax.Member {
			return nil
		}
		return []Edit{{Start: p.Callee().Children[0].End, End: p.End, Text: ".empty()"}}
	}
	if p.Kind == syntax.Call && len(p.Args()) == 1+len(nodes) && nodes[0] == p.Args()[1] && f.Code(p.Callee()) == "append" {
		return removeAppend(f, p)
	}
	start, end, ok := removal(f, nodes)
	if !ok {
		return nil
	}
	return []Edit{{Start: start, End: end}}
}

// onlyParts reports whether the node around some nodes has no purpose without them: a call that only passes them on, or the
// object of these attributes at the end of a call, c.add(1, {key: value}).
func onlyParts(p *syntax.Node, nodes []*syntax.Node) bool {
	switch p.Kind {
	case syntax.Call:
		return wrappers[name(p)] && len(p.Args()) == len(nodes) && nodes[0] != p.Callee()
	case syntax.Object:
		call := p.Parent
		if len(p.Children) != len(nodes) || call == nil {
			return false
		}
		switch call.Kind {
		case syntax.Argument: // attributes={key: value}
			return call.Text == "attributes"
		case syntax.Pair: // {attributes: {key: value}}
			return call.Children[0].Text == "attributes"
		}
		if call.Kind != syntax.Call || p == call.Callee() {
			return false
		}
		args := call.Args()
		return args[len(args)-1] == p && (len(args) > 1 || wrappers[name(call)])
	case syntax.Argument, syntax.Pair:
		return nodes[0].Kind == syntax.Object
	}
	return false
}

// JoinRemovals makes fixes that remove neighbouring elements of a list or calls of a chain equal: each of them then removes
// all of these, with the code around them that has no purpose without them. If the fixes were made separately, a comma
// or the emptied list would stay.
func JoinRemovals(f *syntax.File, fixes [][]Edit) {
	for joined := true; joined; {
		joined = false
		removed := make([][]*syntax.Node, len(fixes)) // by each fix
		by := make(map[*syntax.Node][]int)            // the fixes that remove an element
		for i, edits := range fixes {
			removed[i] = removedElements(f, edits)
			for _, n := range removed[i] {
				by[n] = append(by[n], i)
			}
		}
		for _, nodes := range removed {
			if len(nodes) == 0 || by[nodes[0]] == nil {
				continue
			}
			all := siblings(nodes[0])
			start := slices.Index(all, nodes[0])
			end := start + len(nodes)
			for start > 0 && by[all[start-1]] != nil {
				start--
			}
			for end < len(all) && by[all[end]] != nil {
				end++
			}
			var edits []Edit
			if end-start > len(nodes) {
				edits = remove(f, all[start:end]...)
			}
			for _, n := range all[start:end] {
				for _, i := range by[n] {
					if edits != nil {
						fixes[i], joined = edits, true
					}
				}
				delete(by, n)
			}
		}
	}
}

// removedElements returns the elements of a list or the calls of a chain that edits remove, if they do nothing else.
func removedElements(f *syntax.File, edits []Edit) []*syntax.Node {
	if len(edits) != 1 || edits[0].Text != "" {
		return nil
	}
	e, p := edits[0], f.Root
	for i := 0; i >= 0; {
		i = slices.IndexFunc(p.Children, func(c *syntax.Node) bool {
			return c.Start <= e.Start && e.End <= c.End && (c.Start < e.Start || e.End < c.End)
		})
		if i >= 0 {
			p = p.Children[i]
		}
	}
	for _, all := range [][]*syntax.Node{elements(p), chain(p)} {
		nodes := slices.DeleteFunc(slices.Clone(all), func(n *syntax.Node) bool { return n.End <= e.Start || e.End < n.End })
		if len(nodes) > 0 && slices.Equal(remove(f, nodes...), edits) {
			return nodes
		}
	}
	return nil
}

// siblings returns the list or the chain that contains a node.
func siblings(n *syntax.Node) []*syntax.Node {
	if all := elements(n.Parent); slices.Contains(all, n) {
		return all
	}
	for setter(n) && n.Parent.Kind == syntax.Member && setter(n.Parent.Parent) {
		n = n.Parent.Parent
	}
	return chain(n)
}

// elements returns the elements of a list, or the arguments of a call.
func elements(p *syntax.Node) []*syntax.Node {
	switch p.Kind {
	case syntax.Call, syntax.New:
		return p.Args()
	case syntax.Object, syntax.List:
		return p.Children
	}
	return nil
}

// chain returns the calls of a chain that end with a call and record something, span.setAttribute(x).addEvent(y).
func chain(n *syntax.Node) (all []*syntax.Node) {
	for ; setter(n); n = n.Callee().Children[0] {
		all = append(all, n)
	}
	slices.Reverse(all)
	return all
}

var setters = regexp.MustCompile("^(set|add|put|record|update)")

func setter(n *syntax.Node) bool {
	return n.Kind == syntax.Call && n.Callee().Kind == syntax.Member && len(n.Callee().Children) == 1 && setters.MatchString(n.Callee().Text)
}

// removeAppend returns the edits that replace append(list, attribute) with list, or that remove a statement that
// assigns append(list, attribute) to list.
func removeAppend(f *syntax.File, n *syntax.Node) []Edit {
	list, assign := n.Args()[0], n.Parent
	if assign != nil && assign.Kind == syntax.Assign && assign.Text == "=" && len(assign.Targets()) == 1 && f.Code(assign.Targets()[0]) == f.Code(list) {
		start, end, ok := removal(f, []*syntax.Node{assign})
		if !ok || leavesUnused(f, []*syntax.Node{assign}) {
			return nil
		}
		return []Edit{{Start: start, End: end}}
	}
	return []Edit{{Start: n.Start, End: list.Start}, {Start: list.End, End: n.End}}
}

// removal returns the range to remove with neighbouring nodes: whole lines for a statement or nodes on lines of their own,
// and the commas of elements of a list. It returns false if the code around the nodes has another form.
func removal(f *syntax.File, nodes []*syntax.Node) (start, end int, ok bool) {
	first, last := nodes[0], nodes[len(nodes)-1]
	p := last.Parent
	if p == nil {
		return 0, 0, false
	}
	switch p.Kind {
	case syntax.Block:
		if len(chain(last)) > len(nodes) {
			return first.Callee().Children[0].End, last.End, true
		}
		if len(p.Children) < 2 && f.Language == syntax.Python {
			return 0, 0, false
		}
		return wholeLines(f.Source, last.Start, last.End)
	case syntax.Member: // a chain of calls: a.b(x).c(y)
		if first.Kind == syntax.Call && first.Callee().Kind == syntax.Member && len(first.Callee().Children) == 1 {
			return first.Callee().Children[0].End, last.End, true
		}
		return 0, 0, false
	}
	all := elements(p)
	i := slices.Index(all, first)
	if i < 0 {
		return 0, 0, false
	}
	before, after := all[:i], all[i+len(nodes):]
	comma := commaEnd(f, last.End)
	if comma > last.End || len(nodes) == len(all) {
		if start, end, ok = wholeLines(f.Source, first.Start, comma); ok {
			return start, end, true
		}
	}
	switch {
	case len(after) > 0: // with the comma and the space after them
		end, ok := restOfLine(f, comma) // with the comments that end their line
		if !ok || end == comma {
			end = comma + spaces(f.Source[comma:], " \t\r\n")
		}
		return first.Start, end, comma > last.End && skipComments(f, comma) == after[0].Start
	case len(before) > 0: // with the comma before them
		previous := before[len(before)-1].End
		separator := commaEnd(f, previous)
		if separator == previous || skipComments(f, separator) != first.Start {
			return 0, 0, false
		}
		if comments, ok := restOfLine(f, separator); ok && comments > separator { // of the line before, whose comma stays
			end, _ = restOfLine(f, comma)
			if from, to, ok := wholeLines(f.Source, first.Start, end); ok {
				return from, to, f.Language != syntax.Java
			}
			return first.Start, end, f.Language != syntax.Java
		}
		if start = separator - 1; spaces(f.Source[previous:], " \t\r\n") == start-previous {
			start = previous
		}
		end, _ = restOfLine(f, last.End)
		return start, end, true
	}
	if f.Language == syntax.Go {
		return first.Start, comma, p.Kind == syntax.List
	}
	return p.Start + 1, p.End - 1, p.Kind == syntax.Object || p.Kind == syntax.List
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
	block := bytes.HasPrefix(after, []byte("/*")) && bytes.Index(after, []byte("*/")) == len(after)-2
	if len(after) > 0 && !block && !bytes.HasPrefix(after, []byte("//")) && !bytes.HasPrefix(after, []byte("#")) {
		return 0, 0, false
	}
	return from, end + line + 1, true
}

// commaEnd returns the offset after the comma that follows end, possibly after comments, or end if there is none.
func commaEnd(f *syntax.File, end int) int {
	if at := skipComments(f, end); at < len(f.Source) && f.Source[at] == ',' {
		return at + 1
	}
	return end
}

// spaces returns the number of bytes of white space at the beginning of a text.
func spaces(text []byte, space string) int { return len(text) - len(bytes.TrimLeft(text, space)) }

// commentAt returns the end of the comment that begins at an offset.
func commentAt(f *syntax.File, start int) (end int, ok bool) {
	i, ok := slices.BinarySearchFunc(f.Comments, start, func(c syntax.Comment, start int) int { return cmp.Compare(c.Start, start) })
	if !ok {
		return 0, false
	}
	return f.Comments[i].End, true
}

// skipComments returns the offset of the first code at or after an offset.
func skipComments(f *syntax.File, at int) int {
	for {
		at += spaces(f.Source[at:], " \t\r\n")
		end, ok := commentAt(f, at)
		if !ok {
			return at
		}
		at = end
	}
}

// restOfLine returns the end of the comments that directly follow an offset on its line, and whether the line has no
// other code after it.
func restOfLine(f *syntax.File, at int) (end int, ok bool) {
	for {
		next := at + spaces(f.Source[at:], " \t\r")
		if next == len(f.Source) || f.Source[next] == '\n' {
			return at, true
		}
		end, ok := commentAt(f, next)
		if !ok || bytes.Contains(f.Source[next:end], []byte("\n")) {
			return at, false
		}
		at = end
	}
}

// leavesUnused reports whether the removal of neighbouring nodes leaves a variable of a Go file without a use, which does
// not compile.
func leavesUnused(f *syntax.File, nodes []*syntax.Node) bool {
	if f.Language != syntax.Go {
		return false
	}
	start, end := nodes[0].Start, nodes[len(nodes)-1].End
	for _, n := range nodes {
		for c := range n.All(syntax.Name) {
			def := f.Definition(c)
			if def == nil || def.Kind != syntax.Assign && def.Kind != syntax.Declare {
				continue
			}
			fn := def.Enclosing(syntax.Func)
			if fn == nil {
				continue
			}
			if !fn.Has(func(other *syntax.Node) bool {
				return other.Kind == syntax.Name && other.Text == c.Text && (other.Start < start || end < other.End) && !other.Within(def) && f.Definition(other) == def
			}) {
				return true
			}
		}
	}
	return false
}
