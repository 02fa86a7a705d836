// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"bytes"
	"slices"
	"strings"

	"assay/internal/review/syntax"
)

// functionUse holds the uses of the functions and methods with one name in the files of a unit.
type functionUse struct {
	calls []functionCall
	other bool // a use that is no call, such as a callback or an import under another name
	set   bool // a function or member with the name is defined
}

func (u *functionUse) defined() bool { return u != nil && u.set }

// maxCalls is the maximum number of calls of a function from which the types of its parameters are inferred.
const maxCalls = 1000

// functionCall is a call of a function in a file.
type functionCall struct {
	file *script
	call *syntax.Node
}

// functionUses returns the uses of functions and methods by name.
func (u *scriptUnit) functionUses() map[string]*functionUse {
	if u.functions != nil {
		return u.functions
	}
	u.functions = map[string]*functionUse{}
	of := func(name string) *functionUse {
		if u.functions[name] == nil {
			u.functions[name] = &functionUse{}
		}
		return u.functions[name]
	}
	for _, s := range u.files {
		for _, i := range s.f.Imports {
			if i.Member != i.Name {
				of(i.Member).other = true
			}
		}
		for n := range s.f.Root.All() {
			switch {
			case n.Kind == syntax.Func && n.Text != "", n.Kind == syntax.Member && n.Parent != nil && n.Parent.Kind == syntax.Assign && n.Parent.Value() != n:
				of(n.Text).set = true
			}
			switch {
			case n.Kind == syntax.Call && s.mayBeFunction(n.Callee()):
				of(n.Callee().Text).calls = append(of(n.Callee().Text).calls, functionCall{s, n})
			case n.Kind == syntax.Pair && n.Children[0].Kind == syntax.String && n.Value().Kind != syntax.Func && n.Value().Text != n.Children[0].Text:
				of(n.Children[0].Text).other = true
			case s.mayBeFunction(n) && !named(n):
				of(n.Text).other = true
			}
		}
	}
	return u.functions
}

// mayBeFunction reports whether a node is a member, or a name that is no parameter and no variable with a value other
// than a function or an import.
func (s *script) mayBeFunction(n *syntax.Node) bool {
	if n.Kind != syntax.Name {
		return n.Kind == syntax.Member
	}
	d := s.f.Definition(n)
	if d == nil || n.Within(d) {
		return true
	}
	if d.Kind != syntax.Assign {
		return false
	}
	_, function := d.Value().Called()
	return d.Value().Kind == syntax.Func || function == "require"
}

// named reports whether a node calls or defines a function of its name, or exports it under the same name.
func named(n *syntax.Node) bool {
	p := n.Parent
	switch {
	case p == nil:
		return false
	case p.Kind == syntax.Call:
		return p.Callee() == n
	case p.Kind == syntax.Pair:
		return p.Children[0].Text == n.Text
	case p.Kind == syntax.Assign && len(p.Children) == 2:
		return p.Value().Kind == syntax.Func || p.Value().Text == n.Text && p.Children[0].Text == n.Text
	}
	return false
}

// functionName returns the name by which a function is called, or "" if it has none that other code uses for sure.
func (s *script) functionName(f *syntax.Node) string {
	switch before := bytes.TrimRight(s.f.Source[:f.Start], " \t\r\n"); {
	case bytes.HasSuffix(before, []byte("default")), f.Text == "constructor", strings.HasPrefix(f.Text, "__"), bytes.Contains(s.f.Source, []byte(f.Text+" as ")) && f.Text != "",
		slices.ContainsFunc(f.Children, func(n *syntax.Node) bool { return n.Kind == syntax.Decorator }):
		return ""
	case f.Text != "":
		return f.Text
	}
	switch p := f.Parent; {
	case p == nil:
	case p.Kind == syntax.Assign && len(p.Children) == 2 && p.Children[0].Text != "exports":
		return p.Children[0].Text
	case p.Kind == syntax.Pair && p.Children[0].Kind == syntax.String:
		return p.Children[0].Text
	}
	return ""
}

// paramKind returns the kind of a parameter: that of the values that all calls of its function in the unit pass, or of a
// span if its context is used.
func (s *script) paramKind(d *syntax.Node, depth int) valueKind {
	k, ok := s.kinds[d]
	if !ok && !s.inferring[d] {
		s.inferring[d] = true
		if k = s.passedKind(d, depth); k == unknownValue && s.isParent(d) {
			k = spanValue
		}
		delete(s.inferring, d)
		s.kinds[d] = k
	}
	return k
}

// passedKind returns the kind of the values that all calls of a function pass to a parameter. Calls may leave it out.
func (s *script) passedKind(d *syntax.Node, depth int) valueKind {
	f := d.Parent
	if f == nil || f.Kind != syntax.Func || d.Text == "" || bytes.HasPrefix(s.f.Source[d.Start:], []byte("*")) || bytes.HasPrefix(s.f.Source[d.Start:], []byte("...")) {
		return unknownValue
	}
	uses := s.unit.functionUses()[s.functionName(f)]
	if uses == nil || uses.other || len(uses.calls) > maxCalls {
		return unknownValue
	}
	params := f.Params()
	at, method := slices.Index(params, d), s.f.Language == syntax.Python && (params[0].Text == "self" || params[0].Text == "cls")
	kind := unknownValue
	for _, c := range uses.calls {
		i := at
		if method && c.call.Callee().Kind == syntax.Member {
			i--
		}
		arg := c.call.Named(d.Text)
		if arg == nil && i >= 0 {
			arg = c.call.Arg(i)
		}
		if slices.ContainsFunc(c.call.Args(), func(a *syntax.Node) bool { return a.Kind == syntax.Spread }) || i < 0 {
			return unknownValue
		}
		if arg == nil || arg.Kind == syntax.Null || arg.Kind == syntax.Name && arg.Text == "undefined" {
			s.optional[d] = true
			continue
		}
		if arg.Kind == syntax.Name && c.file.inferring[c.file.f.Definition(arg)] {
			continue // a recursive call
		}
		k := c.file.kindAt(arg, depth+1)
		if k == unknownValue || kind != unknownValue && k != kind {
			return unknownValue
		}
		kind = k
	}
	return kind
}

// contextOf returns X for X.context() in JavaScript and X.context in Python, otherwise nil. Only spans have it, unless
// code of the unit defines or sets another context.
func (s *script) contextOf(n *syntax.Node) *syntax.Node {
	of, name := n.Called()
	if s.f.Language == syntax.Python && n.Kind == syntax.Member {
		of, name = n.Children[0], n.Text
	} else if s.f.Language == syntax.Python || len(n.Args()) > 0 {
		return nil
	}
	if name != "context" || of == nil || of.Kind != syntax.Name || s.unit.functionUses()["context"].defined() {
		return nil
	}
	return of
}

// isParent reports whether the context of a parameter is the parent of a span, or is injected.
func (s *script) isParent(d *syntax.Node) bool {
	return d.Parent != nil && d.Parent.Has(func(n *syntax.Node) bool {
		of, p := s.contextOf(n), n.Parent
		if of == nil || of.Text != d.Text || s.f.Definition(of) != d {
			return false
		}
		_, method := p.Called()
		return p.Kind == syntax.Pair && p.Children[0].Text == "childOf" || p.Kind == syntax.Argument && p.Text == "child_of" || slices.Contains([]string{"childOf", "followsFrom", "inject"}, method)
	})
}
