// SPDX-License-Identifier: Apache-2.0

package instrumentation

import (
	"regexp"
	"slices"
	"strings"

	"assay/internal/review/syntax"
)

// Wrapper describes a function of the project that passes parameters on to telemetry. The parameters are positions in
// Params, -1 if there is none.
type Wrapper struct {
	Params     []string // the names of the parameters, without a receiver
	SpanName   int
	Key, Value int // of one attribute
	Attributes int // an object with attributes
	On         Target
}

// Wrappers returns the functions and methods of the file that pass parameters on to telemetry, by name. It omits names
// of several functions.
func (u *Uses) Wrappers() map[string]Wrapper {
	all := map[string]Wrapper{}
	functions := map[string]*syntax.Node{}
	add := func(fn *syntax.Node, set func(*Wrapper)) {
		name := functionName(fn)
		if name == "" || len(all) > maxWrappers || functions[name] != nil && functions[name] != fn {
			delete(all, name)
			return
		}
		w, ok := all[name]
		if !ok && functions[name] != nil {
			return
		}
		if functions[name] = fn; !ok {
			w = Wrapper{Params: u.parameters(fn), SpanName: -1, Key: -1, Value: -1, Attributes: -1}
		}
		set(&w)
		all[name] = w
	}
	names := slices.Clone(u.Renames)
	for _, s := range u.Spans {
		names = append(names, s.Name)
	}
	for _, n := range names {
		if p := u.parameter(n); p != nil {
			add(p.Parent, func(w *Wrapper) { w.SpanName = slices.Index(w.Params, p.Text) })
		}
	}
	for _, a := range u.Attributes {
		if key, value := u.parameter(a.Key), u.parameter(unconverted(a.Value)); key != nil && value != nil && key != value && key.Parent == value.Parent {
			add(key.Parent, func(w *Wrapper) {
				w.Key, w.Value, w.On = slices.Index(w.Params, key.Text), slices.Index(w.Params, value.Text), a.On
			})
		} else if p := u.iterated(a.Key); p != nil {
			add(p.Parent, func(w *Wrapper) { w.Attributes, w.On = slices.Index(w.Params, p.Text), a.On })
		}
	}
	for _, o := range u.passed {
		if p := u.parameter(o.Value); p != nil {
			add(p.Parent, func(w *Wrapper) { w.Attributes, w.On = slices.Index(w.Params, p.Text), o.On })
		}
	}
	return all
}

// maxWrappers limits the wrappers of a file.
const maxWrappers = 500

// functionName returns the name of a function, or of the variable that holds it, "" if there is none.
func functionName(fn *syntax.Node) string {
	if a := fn.Parent; fn.Text == "" && a != nil && (a.Kind == syntax.Assign || a.Kind == syntax.Pair) {
		return a.Children[0].Text
	}
	return fn.Text
}

// parameters returns the names of the parameters of a function, without a receiver.
func (u *Uses) parameters(fn *syntax.Node) (names []string) {
	params := fn.Params()
	switch u.File.Language {
	case syntax.Go:
		if code := strings.TrimPrefix(u.File.Code(fn), "func"); strings.HasPrefix(strings.TrimSpace(code), "(") && fn.Text != "" {
			params = params[1:]
		}
	case syntax.Python:
		if len(params) > 0 && (params[0].Text == "self" || params[0].Text == "cls") {
			params = params[1:]
		}
	}
	for _, p := range params {
		names = append(names, p.Text)
	}
	return names
}

// parameter returns the parameter of a named function that a name refers to, or nil.
func (u *Uses) parameter(n *syntax.Node) *syntax.Node {
	if n == nil || n.Kind != syntax.Name {
		return nil
	}
	p := u.File.Definition(n)
	if p == nil || p.Kind != syntax.Param || p.Text == "" || p.Parent == nil || p.Parent.Kind != syntax.Func || functionName(p.Parent) == "" {
		return nil
	}
	return p
}

// iterated returns the parameter of a named function whose keys a loop assigns to a name, or nil: attributes in "for key,
// value in attributes.items()".
func (u *Uses) iterated(key *syntax.Node) *syntax.Node {
	if key.Kind != syntax.Name {
		return nil
	}
	def := u.File.Definition(key)
	if def == nil || def.Kind != syntax.Assign || def.Parent == nil || def.Parent.Kind != syntax.Loop {
		return nil
	}
	n := def.Value()
	for n.Kind == syntax.Call { // Object.entries(attributes), attributes.items()
		recv, name := n.Method()
		if !iterates.MatchString(name) {
			return nil
		}
		if n = n.Arg(0); n == nil {
			n = recv
		}
		if n == nil {
			return nil
		}
	}
	return u.parameter(n)
}

// iterates matches functions and methods that return the elements of a map.
var iterates = regexp.MustCompile(`^(range|list|sorted|items|iteritems|entries|keys|entrySet|keySet)$`)

// conversion matches functions that convert a value to a string.
var conversion = regexp.MustCompile(`^(fmt\.Sprint|[sS]tr(ing)?|String\.valueOf|JSON\.stringify|json\.dumps|Objects\.toString)$`)

// unconverted returns the value that an expression converts to a string.
func unconverted(n *syntax.Node) *syntax.Node {
	if n != nil && n.Kind == syntax.Call && len(n.Args()) == 1 {
		recv, name := n.Method()
		if recv != nil {
			name = recv.Text + "." + name
		}
		if conversion.MatchString(name) {
			return n.Args()[0]
		}
	}
	return n
}

// wrapped adds the names and attributes that the file passes to wrappers, of this file and of others. attributes adds the
// attributes of an expression.
func (f *finder) wrapped(attributes func(*syntax.Node, Attribute)) {
	own := f.Wrappers()
	if len(own) == 0 && f.packages == nil {
		return
	}
	known := map[*syntax.Node]bool{}
	for _, a := range f.Attributes {
		known[a.Node] = true
	}
	for n := range f.File.Root.All(syntax.Call) {
		w, ok := f.wrapper(n, own)
		if !ok {
			continue
		}
		argument := func(i int) *syntax.Node {
			if i < 0 {
				return nil
			}
			return argument(n, i, w.Params[i])
		}
		if name := argument(w.SpanName); name != nil {
			f.WrappedNames = append(f.WrappedNames, name)
		}
		if known[n] || len(f.Attributes) > maxAttributes {
			continue
		}
		if key, value := argument(w.Key), argument(w.Value); key != nil && value != nil && f.parameter(key) == nil {
			f.set(Attribute{On: w.On, Node: n, Key: key, Value: value})
		}
		if object := argument(w.Attributes); object != nil {
			attributes(object, Attribute{On: w.On})
		}
	}
}

// wrapper returns the wrapper that a call calls: a function that the file declares or imports, or a method of an object
// whose class the file declares or imports.
func (f *finder) wrapper(n *syntax.Node, own map[string]Wrapper) (Wrapper, bool) {
	recv, name := n.Method()
	if name == "" {
		return Wrapper{}, false
	}
	module, class := "", ""
	switch i, ok := f.File.Imported(name); {
	case recv == nil && ok && i.Member != "":
		module, name = i.Path, i.Member
	case recv == nil:
	case recv.Text == "this" || recv.Text == "self" || recv.Text == "cls":
	default:
		if module, class = f.classOf(recv); module == "" && class == "" {
			w, ok := own[name]
			return Wrapper{SpanName: w.SpanName, Params: w.Params, Key: -1, Value: -1, Attributes: -1}, ok
		}
	}
	if w, ok := own[name]; ok && module == "" && (class == "" || f.declared()[class] != nil) {
		return w, true
	}
	if f.packages == nil || module == "" && (f.declared()[name] != nil || f.declared()[class] != nil) {
		return Wrapper{}, false
	}
	return f.packages.Wrapper(module, class, name)
}

// classOf returns the module that an object of a call refers to, and the class of the object if it is no module. The
// module of a class of the file's own package is "". Both are "" if they are not known.
func (f *finder) classOf(n *syntax.Node) (module, class string) {
	if n.Kind == syntax.Name {
		if i, ok := f.File.Imported(n.Text); ok && f.module(n) != "" {
			return i.Path, strings.Trim(i.Member, "*")
		}
	}
	if n.Kind != syntax.Name && n.Kind != syntax.Member {
		return "", ""
	}
	def := f.File.Definition(n)
	if def == nil {
		if f.File.Language == syntax.Java && n.Kind == syntax.Name {
			return "", n.Text // a class of the package
		}
		return "", ""
	}
	if def.Type != "" {
		return f.typeOf(def.Type)
	}
	if v := def.Value(); v != nil && (v.Kind == syntax.New || v.Kind == syntax.Call) && def.Kind == syntax.Assign {
		return f.origin(v.Callee())
	}
	return "", ""
}
