// SPDX-License-Identifier: Apache-2.0

package instrument

import (
	"regexp"
	"slices"
	"strings"

	"assay/internal/review/syntax"
)

// pythonName is a name in a function or comprehension, or in the module, for which scope is nil.
type pythonName struct {
	name  string
	scope *syntax.Node
}

// pythonScope returns the function or comprehension whose variables code can use, nil for the module. Decorators,
// parameters and their defaults are outside of a function.
func pythonScope(n *syntax.Node) *syntax.Node {
	for s := n.Enclosing(syntax.Func, syntax.Loop); s != nil; s = s.Enclosing(syntax.Func, syntax.Loop) {
		if body := s.Body(); s.Kind == syntax.Func && n.Start >= body.Start || s.Kind == syntax.Loop && body.Kind != syntax.Block {
			return s
		}
	}
	return nil
}

// define records a definition of a name in a scope, and in the outer scope if the name is declared global or nonlocal.
func (f *pythonFile) define(name string, def, scope *syntax.Node) {
	note := func(scope *syntax.Node) {
		key := pythonName{name, scope}
		f.names[key] = append(f.names[key], def)
	}
	note(scope)
	switch f.outer[pythonName{name, scope}] {
	case "global":
		if scope != nil {
			note(nil)
		}
	case "nonlocal":
		for scope = pythonScope(scope); scope != nil; scope = pythonScope(scope) {
			note(scope)
		}
	}
}

// bind records a definition of the names in a target.
func (f *pythonFile) bind(target, def, scope *syntax.Node) {
	switch target.Kind {
	case syntax.Name:
		f.define(target.Text, def, scope)
	case syntax.Member:
		if v := def.Value(); v != nil && v.Kind != syntax.Null && ofSelf(target) {
			f.attributes[target.Text] = append(f.attributes[target.Text], v)
		}
	case syntax.List, syntax.Spread:
		for _, c := range target.Children {
			f.bind(c, def, scope)
		}
	}
}

// bindImport records the name of an import. Further imports of a name in the same scope are alternatives to the first.
func (f *pythonFile) bindImport(i syntax.Import) {
	scope := i.Node.Enclosing(syntax.Func)
	switch _, known := f.imports[i.Name]; {
	case i.Name == "":
	case scope != nil && len(f.names[pythonName{i.Name, scope}]) == 0:
		f.local[i.Node] = i
		f.define(i.Name, i.Node, scope)
	case scope == nil && !known:
		f.imports[i.Name] = i
	}
}

// ofSelf reports whether an expression is a member of self or cls.
func ofSelf(n *syntax.Node) bool {
	return n.Kind == syntax.Member && n.Children[0].Kind == syntax.Name && (n.Children[0].Text == "self" || n.Children[0].Text == "cls")
}

// definition returns the last definition of a name before a use, otherwise the first one after it: in the scope of the
// use, or those around that. It returns nil if there is none, or only an import of the module.
func (f *pythonFile) definition(name string, use *syntax.Node) *syntax.Node {
	for scope := pythonScope(use); ; scope = pythonScope(scope) {
		defs := f.names[pythonName{name, scope}]
		at, _ := slices.BinarySearchFunc(defs, use.Start, func(d *syntax.Node, at int) int { return d.Start - at })
		switch {
		case len(defs) > 0:
			return defs[max(at-1, 0)]
		case scope == nil:
			return nil
		}
	}
}

// imported returns the import that a use of a name refers to.
func (f *pythonFile) imported(name string, use *syntax.Node) (i syntax.Import, ok bool) {
	if def := f.definition(name, use); def != nil {
		i, ok = f.local[def]
	} else {
		i, ok = f.imports[name]
	}
	return i, ok
}

// Limits for following a name to the module that defines it.
const (
	maxQualified = 10  // names
	maxName      = 100 // bytes
)

// qualified returns the qualified name of an expression, from the imported module on, with "()" for calls: the name
// `db` after db = sqlite3.connect("a") is "sqlite3.connect()". It returns "" if it is unknown.
func (f *pythonFile) qualified(n *syntax.Node, depth int) string {
	if depth > maxQualified || len(n.Text) > maxName {
		return ""
	}
	after := func(base, more string) string {
		if base == "" {
			return ""
		}
		return base + more
	}
	switch n.Kind {
	case syntax.Name:
		if i, ok := f.imported(n.Text, n); ok {
			if named := f.p.variable(i.Path, i.Member, depth); named != "" {
				return named
			}
			return dotted(i)
		}
		if def := f.definition(n.Text, n); def != nil {
			return f.defined(def, n, depth)
		}
	case syntax.Member:
		if base := n.Children[0]; base.Kind == syntax.Name {
			if i, ok := f.imported(base.Text, base); ok {
				module := i.Path
				if i.Member != "" {
					module += "." + i.Member
				}
				if named := f.p.variable(module, n.Text, depth); named != "" {
					return named
				}
			}
		}
		if ofSelf(n) {
			if values := f.attributes[n.Text]; len(values) == 1 {
				return f.qualified(values[0], depth+1)
			}
			return ""
		}
		return after(f.qualified(n.Children[0], depth+1), "."+n.Text)
	case syntax.Call:
		return after(f.qualified(n.Callee(), depth+1), "()")
	case syntax.Await:
		if n.Text == "await" && len(n.Children) == 1 {
			return f.qualified(n.Children[0], depth+1)
		}
	}
	return ""
}

// variable returns the qualified name of a variable of another module of the service.
func (p *pythonService) variable(module, name string, depth int) string {
	files := p.modules[module[strings.LastIndexByte(module, '.')+1:]]
	if len(files) != 1 {
		return ""
	}
	if def := files[0].globals[name]; def != nil {
		return files[0].qualified(def.Value(), depth+1)
	}
	return ""
}

// dotted returns the module, or the member of one, that is imported, "" for one of the package of the file.
func dotted(i syntax.Import) string {
	switch {
	case strings.HasPrefix(i.Path, "."):
		return ""
	case i.Member == "":
		return i.Path
	}
	return i.Path + "." + i.Member
}

// dottedName matches a name, possibly with dots, as an annotation, also in quotation marks.
var dottedName = regexp.MustCompile(`^["']?([A-Za-z_]\w*)((?:\.\w+)*)["']?$`)

// defined returns the qualified name of the value that a definition binds to a name.
func (f *pythonFile) defined(def, use *syntax.Node, depth int) string {
	if def.Kind == syntax.Func || def.Start > use.Start && def.Enclosing(syntax.Func) != nil {
		return "" // the type of a function is the type of its result
	}
	if m := dottedName.FindStringSubmatch(def.Type); m != nil {
		if i, ok := f.imported(m[1], def); ok && dotted(i) != "" {
			return dotted(i) + m[2] + "()"
		}
	}
	if def.Kind != syntax.Assign || def.Text == "in" || use.Within(def) {
		return ""
	}
	for _, t := range def.Targets() {
		if t.Kind == use.Kind && t.Text == use.Text {
			return f.qualified(def.Value(), depth+1)
		}
	}
	return ""
}
