// SPDX-License-Identifier: Apache-2.0

package boundary

import (
	"bytes"
	"cmp"
	"slices"

	"assay/internal/review/syntax"
)

// use is how code uses the value of an expression: not at all, directly, such as in a call or return, or by assigning
// it to a variable.
type use struct {
	is bool     // it is used directly
	by variable // it is used if this variable is
}

var (
	dropped = use{}
	used    = use{is: true}
)

// variable is a name that a scope declares. The zero value is no variable.
type variable struct {
	scope *syntax.Node
	name  string
}

// running finds the code of a file that may run: all code except code that constant conditions or jumps exclude, and
// functions without a use. It visits each node once.
type running struct {
	*file
	before   *file                // the file before the change, nil if that file is visited
	known    map[string]bool      // names that the file before the change declares outside of functions
	declares map[variable]bool    // variables, functions and classes
	assigns  []*syntax.Node       // assignments that may not declare a variable
	changes  map[string]bool      // variables that are changed in place
	values   map[*syntax.Node]any // results of constant, by expression
	used     map[variable]bool
	waiting  map[variable][]*syntax.Node // functions, classes and names that run once the variable is used
	queue    []*syntax.Node              // nodes of waiting whose variable is used
}

// run sets f.runs and f.words. before is the file before the change, nil if f is that file.
func (f *file) run(before *file) {
	f.runs, f.words = map[*syntax.Node]bool{}, map[string]bool{}
	r := &running{
		file: f, before: before, known: map[string]bool{}, declares: map[variable]bool{}, changes: map[string]bool{},
		values: map[*syntax.Node]any{}, used: map[variable]bool{}, waiting: map[variable][]*syntax.Node{},
	}
	before = cmp.Or(before, f)
	outside(before.Root, r.known)
	for n := range f.Root.All() {
		r.collect(n)
	}
	for _, i := range f.Imports {
		r.declares[variable{f.Root, i.Name}] = true
	}
	for _, n := range r.assigns {
		if t := n.Targets()[0]; t.Kind == syntax.Name && r.resolve(t).scope == nil && f.Language != syntax.Java && (f.Language != syntax.Go || !isResult(n, t.Text)) {
			r.declares[variable{r.scope(n), t.Text}] = true
		}
	}
	r.visit(f.Root, dropped)
	for len(r.queue) > 0 {
		n := r.queue[0]
		r.queue = r.queue[1:]
		if n.Kind == syntax.Name {
			r.use(r.resolve(n))
		} else if !f.runs[n] {
			f.runs[n] = true
			r.all(n.Children, used)
		}
	}
}

// outside adds the names that code declares outside of functions to names.
func outside(n *syntax.Node, names map[string]bool) {
	for _, c := range n.Children {
		switch c.Kind {
		case syntax.Func, syntax.Class:
			names[c.Text] = true
			continue
		case syntax.Assign, syntax.Declare:
			for _, t := range c.Targets() {
				names[t.Text] = true
			}
		}
		outside(c, names)
	}
}

// collect records the names of a node, and its declarations.
func (r *running) collect(n *syntax.Node) {
	switch n.Kind {
	case syntax.Name:
		r.words[n.Text] = true
		if n.Start > 0 && r.Source[n.Start-1] == '&' { // an address in Go
			r.changes[n.Text] = true
		}
	case syntax.Operator:
		if (n.Text == "++" || n.Text == "--") && len(n.Children) == 1 {
			r.changes[n.Children[0].Text] = true
		}
	case syntax.Func, syntax.Class:
		if n.Text != "" && n.Parent.Kind == syntax.Block {
			r.declares[variable{r.scope(n), n.Text}] = true
		}
	case syntax.Param:
		if n.Text != "" {
			r.declares[variable{r.scope(n), n.Text}] = true
		}
		for _, c := range n.Children {
			r.pattern(r.scope(n), c)
		}
	case syntax.Assign, syntax.Declare:
		if scope := r.introduces(n); scope != nil {
			for _, t := range n.Targets() {
				r.pattern(scope, t)
			}
		} else {
			r.assigns = append(r.assigns, n)
		}
	}
}

// pattern records the names that a target or a pattern declares.
func (r *running) pattern(scope, target *syntax.Node) {
	for n := range target.Names() {
		if n.Kind == syntax.Name {
			r.declares[variable{scope, n.Text}] = true
		}
	}
}

// introduces returns the scope of the variables that an assignment or declaration declares, or nil if it is unknown.
func (r *running) introduces(n *syntax.Node) *syntax.Node {
	scope := r.scope(n)
	if r.Language == syntax.Python || n.Kind == syntax.Declare || n.Type != "" || n.Text != "=" || scope == r.Root || n.Parent.Kind == syntax.Loop {
		return scope
	}
	before := bytes.TrimRight(r.Source[max(0, n.Start-64):n.Start], " \t\r\n")
	switch {
	case r.Language != syntax.Go && bytes.HasSuffix(before, []byte("var")):
		return n.Enclosing(syntax.Func)
	case slices.ContainsFunc([]string{"const", "let", "using", "var", ","}, func(word string) bool { return bytes.HasSuffix(before, []byte(word)) }):
		return scope
	default:
		return nil
	}
}

// scope returns the scope of a declaration: in Python the function around it, otherwise the nearest block or other
// scope.
func (r *running) scope(n *syntax.Node) *syntax.Node {
	var up *syntax.Node
	if r.Language == syntax.Python {
		up = n.Enclosing(syntax.Func)
	} else {
		up = n.Enclosing(syntax.Block, syntax.Func, syntax.Loop, syntax.Catch, syntax.With)
	}
	up = cmp.Or(up, r.Root)
	return up
}

// resolve returns the variable that a name refers to, or no variable.
func (r *running) resolve(n *syntax.Node) variable {
	at := n
	if r.Language == syntax.Python && n.Parent.Kind == syntax.Param { // a default is evaluated outside of the function
		at = n.Parent.Parent
	}
	for at != r.Root {
		at = r.scope(at)
		if v := (variable{at, n.Text}); r.declares[v] {
			return v
		}
	}
	return variable{}
}

func (r *running) all(nodes []*syntax.Node, how use) {
	for _, n := range nodes {
		r.visit(n, how)
	}
}

// visit visits code that runs. It reports whether the code after it in the same block does not run.
func (r *running) visit(n *syntax.Node, how use) (ends bool) {
	if n.Kind == syntax.Func || n.Kind == syntax.Class {
		r.declare(n, how)
		return false
	}
	r.runs[n] = true
	c := n.Children
	switch n.Kind {
	case syntax.Name:
		r.mention(n, how)
	case syntax.Member, syntax.Object, syntax.List, syntax.Argument, syntax.Spread, syntax.Template:
		r.all(c, how)
	case syntax.Index:
		r.visit(c[0], how)
		r.all(c[1:], used)
	case syntax.Pair:
		r.visit(c[0], dropped)
		r.all(c[1:], how)
	case syntax.Assign:
		r.all(n.Targets(), dropped)
		r.visit(n.Value(), r.held(n))
	case syntax.Declare:
		r.all(c, dropped)
	case syntax.Operator:
		r.operator(n, how)
	case syntax.Conditional, syntax.If:
		return r.branch(n, how)
	case syntax.Loop:
		r.loop(n)
	case syntax.Switch:
		r.choose(n)
	case syntax.Try:
		return r.try(n)
	case syntax.Block:
		return r.block(n)
	case syntax.Return, syntax.Throw, syntax.Jump:
		r.all(c, used)
		return n.Text != "fallthrough"
	default:
		r.all(c, used)
	}
	return false
}

// mention records the use of a name.
func (r *running) mention(n *syntax.Node, how use) {
	switch {
	case how.is:
		r.use(r.resolve(n))
	case how != dropped:
		r.wait(n, how.by)
	}
}

func (r *running) use(v variable) {
	if v != (variable{}) && !r.used[v] {
		r.used[v] = true
		r.queue = append(r.queue, r.waiting[v]...)
		delete(r.waiting, v)
	}
}

// wait queues a node once a variable is used.
func (r *running) wait(n *syntax.Node, v variable) {
	if r.used[v] {
		r.queue = append(r.queue, n)
	} else {
		r.waiting[v] = append(r.waiting[v], n)
	}
}

// declare handles a function or class, whose code runs if it is used. These count as used: methods, functions and
// classes with decorators, and names that existed outside of functions before the change, because other files may use
// them.
func (r *running) declare(n *syntax.Node, how use) {
	around := n.Enclosing(syntax.Func, syntax.Class)
	switch {
	case n.Kind == syntax.Class && r.Language == syntax.Go, around != nil && around.Kind == syntax.Class,
		slices.ContainsFunc(n.Children, func(c *syntax.Node) bool { return c.Kind == syntax.Decorator }):
		how = used
	case n.Parent.Kind == syntax.Block && n.Text != "" && !how.is:
		how = use{by: variable{r.scope(n), n.Text}}
		if around == nil && r.known[n.Text] || r.Language == syntax.Go && (n.Text == "init" || bytes.HasPrefix(r.Source[n.Start:], []byte("func ("))) {
			how = used
		}
	}
	switch {
	case how.is:
		r.queue = append(r.queue, n)
	case how != dropped:
		r.wait(n, how.by)
	}
}

// held returns how code uses the value of an assignment.
func (r *running) held(n *syntax.Node) use {
	t := n.Targets()
	switch {
	case n.Parent.Kind != syntax.Block || n.Text != "=" && n.Text != ":=" || len(t) != 1 || t[0].Kind != syntax.Name:
		return used
	case t[0].Text == "_":
		return dropped
	}
	v := r.resolve(t[0])
	if v.scope == nil || v.scope == r.Root && r.known[v.name] { // other files or callers may use it
		return used
	}
	return use{by: v}
}

// isResult reports whether a name is in the result types of a Go function around a node, as a named result is.
func isResult(n *syntax.Node, name string) bool {
	for up := n.Enclosing(syntax.Func); up != nil; up = up.Enclosing(syntax.Func) {
		if slices.Contains(identifier.FindAllString(up.Type, -1), name) {
			return true
		}
	}
	return false
}

func (r *running) operator(n *syntax.Node, how use) {
	first, runs := n.Children[:min(1, len(n.Children))], true
	switch n.Text {
	case "&&", "and":
		runs = truth(r.constant(n.Children[0])) != no
	case "||", "or":
		runs = truth(r.constant(n.Children[0])) != yes
	case "??":
		v := r.constant(n.Children[0])
		runs = v == nil || v == null{}
	case "=", "<-": // the default of a pattern; a channel
		how = used
	default:
		how = dropped
	}
	r.all(first, how)
	if runs {
		r.all(n.Children[len(first):], how)
	}
}

func (r *running) branch(n *syntax.Node, how use) (ends bool) {
	r.visit(n.Children[0], dropped)
	is := truth(r.constant(n.Children[0]))
	ends = is == no || r.visit(n.Children[1], how)
	if is == yes {
		return ends
	}
	last := false
	for _, c := range n.Children[2:] { // else if a := b; a
		last = r.visit(c, how)
	}
	return last && ends
}

func (r *running) loop(n *syntax.Node) {
	body := n.Body()
	for _, h := range n.Children[:len(n.Children)-1] {
		r.visit(h, dropped)
		if h.Start > body.Start && r.Language != syntax.Python { // do {} while (false)
			continue
		}
		over := h // the operand of the loop, or its condition
		if h.Kind == syntax.Assign {
			if over = h.Value(); h.Text == "=" || h.Text == ":=" && over.Kind != syntax.List {
				continue
			}
		}
		if truth(r.constant(over)) == no || over.Kind == syntax.List && len(over.Children) == 0 {
			return
		}
	}
	r.visit(body, used)
}

// choose visits the cases of a switch. If the subject is constant, cases of other constants do not run.
func (r *running) choose(n *syntax.Node) {
	cases := n.Children
	var subject any
	switch {
	case len(cases) > 0 && cases[0].Kind != syntax.Case:
		r.visit(cases[0], dropped)
		subject, cases = r.constant(cases[0]), cases[1:]
	case r.Language == syntax.Go:
		subject = true
	}
	taken := func(c *syntax.Node) bool {
		return slices.ContainsFunc(c.Children[:len(c.Children)-1], func(v *syntax.Node) bool { return r.constant(v) == subject })
	}
	never := func(c *syntax.Node) bool {
		return !slices.ContainsFunc(c.Children[:len(c.Children)-1], func(v *syntax.Node) bool { x := r.constant(v); return x == nil || x == subject })
	}
	sure := subject != nil && slices.ContainsFunc(cases, func(c *syntax.Node) bool { return c.Kind == syntax.Case && taken(c) })
	for _, c := range cases {
		if c.Kind != syntax.Case {
			r.visit(c, used)
			continue
		}
		r.runs[c] = true
		r.all(c.Children[:len(c.Children)-1], used)
		if subject == nil || !never(c) || len(c.Children) == 1 && !sure {
			r.visit(c.Body(), used)
		}
	}
}

func (r *running) try(n *syntax.Node) (ends bool) {
	ends = r.visit(n.Body(), dropped)
	for _, c := range n.Children[1:] {
		switch {
		case c.Kind == syntax.Catch:
			// Look at the source, because imports have no nodes.
			if code := bytes.Trim(r.Source[n.Body().Start:n.Body().End], "{} \t\r\n"); len(code) > 0 {
				r.runs[c] = true
				r.all(c.Children[:len(c.Children)-1], used)
				ends = r.visit(c.Body(), dropped) && ends
			}
		case c.Kind == syntax.Finally && len(c.Children) > 0:
			r.runs[c] = true
			ends = r.visit(c.Body(), dropped) || ends
		default:
			r.visit(c, dropped)
		}
	}
	return ends
}

func (r *running) block(n *syntax.Node) (ends bool) {
	for _, c := range n.Children {
		if ends && (c.Kind != syntax.Func || c.Text == "") { // a function is declared before the block runs
			continue
		}
		how := dropped
		if r.Language == syntax.Java && n.Parent != nil && n.Parent.Kind == syntax.Case || // case 1 -> value
			n.Parent == nil && bytes.HasSuffix(bytes.TrimSpace(r.Source[max(0, c.Start-16):c.Start]), []byte("export default")) {
			how = used
		}
		last := r.visit(c, how)
		if r.Language != syntax.Python || c.Kind != syntax.Block { // not the block of a loop's else
			ends = last || ends
		}
	}
	return ends
}
