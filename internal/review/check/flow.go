// SPDX-License-Identifier: Apache-2.0

package check

import (
	"bytes"
	"slices"
	"strings"

	"assay/internal/review/syntax"
)

// The states of a span on a path through a function. A set of paths may be in several states.
const (
	none   = 0
	closed = 1 << iota // not started, ended, or certain to be ended
	open
)

// flow follows the paths through the statements of one function, without nested functions.
type flow struct {
	file  *syntax.File
	start *syntax.Node
	name  string // the variable of the span
	ends  map[*syntax.Node]bool

	leaks     bool  // a path leaves the span open
	unsure    bool  // the paths are unknown: labels, goto
	handlers  int   // number of Try nodes with a Catch around the current node
	thrown    []int // states at a Throw, for each Try around the current node
	breaks    []int // states at a break, for each loop and switch around the current node
	continues []int // states at a continue, for each entry of breaks, -1 for a switch
}

// leaksSpan reports whether a path from the start of a span to the end of a function does not end the span.
func leaksSpan(file *syntax.File, fn, start *syntax.Node, name string, ends map[*syntax.Node]bool) bool {
	f := flow{file: file, start: start, name: name, ends: ends}
	state := closed
	if start.Enclosing(syntax.Func) != fn { // the function is the callback that gets the span
		state = open
	}
	if f.run(fn.Body(), state)&open != 0 {
		f.leaks = true
	}
	return f.leaks && !f.unsure
}

// exits are calls that end the process.
var exits = setOf("exit _exit fatal fatalf fatalln panic panicf goexit abort")

// run returns the states after a node for the states before it. No state means that no path reaches the end of the
// node.
func (f *flow) run(n *syntax.Node, in int) int {
	if in == none || n == nil {
		return none
	}
	switch n.Kind {
	case syntax.Func:
		return in
	case syntax.Call:
		out := f.all(n.Children, in)
		switch {
		case f.ends[n]:
			return closed
		case n == f.start:
			return open
		case exits[strings.ToLower(name(n))]:
			return none
		}
		return out
	case syntax.Defer:
		if n.Has(func(c *syntax.Node) bool { return f.ends[c] }) {
			return closed
		}
		return in
	case syntax.Spawn:
		return in
	case syntax.Assign:
		out := f.all(n.Children, in)
		if out&open != 0 && f.overwrites(n) {
			f.leaks = true
			return closed
		}
		return out
	case syntax.If:
		return f.branch(n, in)
	case syntax.Conditional:
		in = f.run(n.Children[0], in)
		return f.run(n.Children[1], in) | f.run(n.Children[len(n.Children)-1], in)
	case syntax.Loop:
		return f.loop(n, in)
	case syntax.Switch:
		return f.choose(n, in)
	case syntax.Try:
		return f.try(n, in)
	case syntax.Return:
		if f.all(n.Children, in)&open != 0 {
			f.leaks = true
		}
		return none
	case syntax.Throw:
		in = f.all(n.Children, in)
		if f.handlers > 0 {
			f.thrown[len(f.thrown)-1] |= in
		} else if in&open != 0 {
			f.leaks = true
		}
		return none
	case syntax.Jump:
		f.jump(n, in)
		return none
	}
	return f.all(n.Children, in)
}

func (f *flow) all(nodes []*syntax.Node, in int) int {
	for _, c := range nodes {
		in = f.run(c, in)
	}
	return in
}

// overwrites reports whether an assignment may replace the span in its variable. A declaration in another block is
// another variable, and a path takes only one of two branches.
func (f *flow) overwrites(n *syntax.Node) bool {
	if n == f.start.Assignment() || !assigns(n, f.name) || mentions(n.Value(), f.name) {
		return false
	}
	block, started := n.Enclosing(syntax.Block), f.start.Enclosing(syntax.Block)
	switch f.file.Language {
	case syntax.Go:
		if n.Text == ":=" && block != started {
			return false
		}
	case syntax.JavaScript, syntax.TypeScript:
		before := bytes.TrimRight(f.file.Source[:n.Start], " \t\r\n")
		if slices.ContainsFunc([]string{"const", "let", "var", ","}, func(s string) bool { return bytes.HasSuffix(before, []byte(s)) }) {
			return false
		}
	case syntax.Java:
		if n.Type != "" {
			return false
		}
	}
	return n.Within(started) || f.start.Within(block)
}

// assigns reports whether an assignment sets a variable.
func assigns(assign *syntax.Node, variable string) bool {
	return (assign.Text == "=" || assign.Text == ":=" || assign.Text == "as") &&
		slices.ContainsFunc(assign.Targets(), func(t *syntax.Node) bool { return t.Kind == syntax.Name && t.Text == variable })
}

// branch follows an If. If the condition refers to the span, or is the condition under which the span started, the
// other branch has no span.
func (f *flow) branch(n *syntax.Node, in int) int {
	cond := n.Children[0]
	in = f.run(cond, in)
	other := in
	if other&open != 0 && (mentions(cond, f.name) || f.startedUnder(cond)) {
		other = closed
	}
	out := f.run(n.Children[1], in)
	if len(n.Children) > 2 {
		return out | f.run(n.Children[2], other)
	}
	return out | other
}

func (f *flow) startedUnder(cond *syntax.Node) bool {
	code := f.file.Code(cond)
	p := f.start.Enclosing(syntax.If)
	for i := 0; p != nil && i < 8; i++ {
		if f.file.Code(p.Children[0]) == code {
			return true
		}
		p = p.Enclosing(syntax.If)
	}
	return false
}

func (f *flow) loop(n *syntax.Node, in int) int {
	header, body := n.Children[:len(n.Children)-1], n.Body()
	within := f.start.Within(body)
	in = f.all(header, in)
	f.breaks, f.continues = append(f.breaks, none), append(f.continues, none)
	out := f.run(body, in)
	last := len(f.breaks) - 1
	out |= f.continues[last]
	broken := f.breaks[last]
	f.breaks, f.continues = f.breaks[:last], f.continues[:last]
	if within && out&open != 0 {
		f.leaks = true // the next iteration starts another span
	}
	if endless(header) {
		return broken
	}
	return in | out | broken
}

// endless reports whether a loop ends only by a jump.
func endless(header []*syntax.Node) bool {
	return len(header) == 0 || len(header) == 1 && (header[0].Kind == syntax.Bool && strings.EqualFold(header[0].Text, "true") || header[0].Kind == syntax.Number && header[0].Text == "1")
}

func (f *flow) choose(n *syntax.Node, in int) int {
	f.breaks, f.continues = append(f.breaks, none), append(f.continues, -1)
	fallsThrough := f.file.Language != syntax.Go && f.file.Language != syntax.Python
	complete := f.file.Language == syntax.Go && bytes.HasPrefix(f.file.Source[n.Start:], []byte("select"))
	out, next := none, none
	for _, c := range n.Children {
		if c.Kind != syntax.Case {
			in = f.run(c, in)
			continue
		}
		values := c.Children[:len(c.Children)-1]
		if len(values) == 0 || len(values) == 1 && (values[0].Text == "_" || values[0].Text == "default") {
			complete = true
		}
		after := f.run(c.Body(), f.all(values, in)|next)
		if fallsThrough {
			next = after
		} else {
			out |= after
		}
	}
	last := len(f.breaks) - 1
	out |= next | f.breaks[last]
	f.breaks, f.continues = f.breaks[:last], f.continues[:last]
	if !complete {
		out |= in
	}
	return out
}

func (f *flow) try(n *syntax.Node, in int) int {
	var catches []*syntax.Node
	var finally *syntax.Node
	for _, c := range n.Children[1:] {
		switch c.Kind {
		case syntax.Catch:
			catches = append(catches, c)
		case syntax.Finally:
			finally = c
		}
	}
	if f.endsIn(finally) {
		// A Finally that ends the span does so on each path, even under a condition on the span.
		return f.tryEnding(n, in)
	}
	f.handlers += min(len(catches), 1)
	f.thrown = append(f.thrown, none)
	out := f.run(n.Body(), in)
	failed := f.thrown[len(f.thrown)-1]
	f.thrown = f.thrown[:len(f.thrown)-1]
	f.handlers -= min(len(catches), 1)
	if f.start.Within(n.Body()) && !f.guarded(n.Body()) {
		if f.mayThrow(n.Body()) {
			failed |= open // an exception after the start
		}
	} else {
		failed |= in
	}
	if len(catches) == 0 {
		failed = none
	}
	for _, c := range catches {
		out |= f.run(c.Body(), failed)
	}
	if finally != nil {
		return f.run(finally.Body(), out)
	}
	return out
}

// endsIn reports whether a Finally ends the span.
func (f *flow) endsIn(finally *syntax.Node) bool {
	return finally != nil && finally.Has(func(c *syntax.Node) bool { return f.ends[c] })
}

// guarded reports whether the code after the start of the span is in a nested Try whose Finally ends the span.
func (f *flow) guarded(body *syntax.Node) bool {
	return body.Has(func(c *syntax.Node) bool { return c.Kind == syntax.Finally && c.Start > f.start.Start && f.endsIn(c) })
}

// mayThrow reports whether the code between the start of the span and its last end calls anything but methods of the
// span.
func (f *flow) mayThrow(body *syntax.Node) bool {
	last := f.start.End
	for c := range direct(body) {
		if f.ends[c] {
			last = max(last, c.Start)
		}
	}
	if last == f.start.End {
		return true
	}
	return has(direct(body), func(c *syntax.Node) bool {
		if c.Kind != syntax.Call && c.Kind != syntax.New && c.Kind != syntax.Await || c.Start < f.start.End || c.Start >= last {
			return false
		}
		c = c.Inner(syntax.Call, syntax.Member) // span.setAttribute("n", 1).setStatus(...)
		return c.Kind != syntax.Name || c.Text != f.name
	})
}

// tryEnding follows a Try whose Finally ends the span: no path out of it leaves the span open.
func (f *flow) tryEnding(n *syntax.Node, in int) int {
	leaks := f.leaks
	depth := len(f.breaks)
	f.handlers++
	f.thrown = append(f.thrown, none)
	out := none
	for _, c := range n.Children {
		if c.Kind == syntax.Finally {
			continue
		}
		state := in
		if c.Kind == syntax.Catch {
			c, state = c.Body(), closed
		}
		out |= f.run(c, state)
	}
	f.handlers--
	f.thrown = f.thrown[:len(f.thrown)-1]
	f.leaks = leaks
	for i := range depth { // jumps out of the Try run Finally
		f.breaks[i], f.continues[i] = settled(f.breaks[i]), settled(f.continues[i])
	}
	return settled(out)
}

func settled(state int) int {
	if state > none {
		return closed
	}
	return state
}

func (f *flow) jump(n *syntax.Node, in int) {
	if code := strings.TrimSuffix(strings.TrimSpace(f.file.Code(n)), ";"); code != n.Text || n.Text == "goto" {
		f.unsure = true // a label
		return
	}
	switch n.Text {
	case "break":
		if i := len(f.breaks) - 1; i >= 0 {
			f.breaks[i] |= in
		}
	case "continue":
		for i := len(f.continues) - 1; i >= 0; i-- {
			if f.continues[i] >= 0 { // not a switch
				f.continues[i] |= in
				return
			}
		}
	default: // fallthrough
		f.unsure = true
	}
}
