// SPDX-License-Identifier: Apache-2.0

package instrument

import (
	"regexp"
	"slices"
	"strings"

	"assay/internal/review/syntax"
)

// bind notes the definition of the names in a target.
func (f *pythonFile) bind(target, def *syntax.Node) {
	switch target.Kind {
	case syntax.Name:
		f.names[target.Text] = append(f.names[target.Text], def)
	case syntax.Member:
		if v := def.Value(); v != nil && v.Kind != syntax.Null && ofSelf(target) {
			f.attributes[target.Text] = append(f.attributes[target.Text], v)
		}
	case syntax.List, syntax.Spread:
		for _, c := range target.Children {
			f.bind(c, def)
		}
	}
}

// ofSelf reports whether a member is one of the object or the class of a method.
func ofSelf(n *syntax.Node) bool {
	return n.Kind == syntax.Member && n.Children[0].Kind == syntax.Name && (n.Children[0].Text == "self" || n.Children[0].Text == "cls")
}

// definition returns the last definition of a variable before a use: in the function around it, or those around that. It
// returns nil if there is none.
func (f *pythonFile) definition(use *syntax.Node) *syntax.Node {
	const maxDefinitions = 32
	all := f.names[use.Text]
	at, _ := slices.BinarySearchFunc(all, use.Start, func(d *syntax.Node, at int) int { return d.Start - at })
	for scope := use.Enclosing(syntax.Func); ; scope = scope.Enclosing(syntax.Func) {
		for i := at - 1; i >= max(0, at-maxDefinitions); i-- {
			if all[i].Enclosing(syntax.Func) == scope {
				return all[i]
			}
		}
		if scope == nil {
			break
		}
	}
	for _, d := range all[at:min(len(all), at+maxDefinitions)] { // a variable of the module that is defined after the function
		if d.Enclosing(syntax.Func) == nil {
			return d
		}
	}
	return nil
}

// Limits of what is followed to the module that a name comes from.
const (
	maxQualified = 10  // names
	maxName      = 100 // bytes
)

// qualified returns what an expression stands for, from the imported module on, with "()" for calls: the name `db` after
// db = sqlite3.connect("a") is "sqlite3.connect()". It returns "" if that is unknown.
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
		if def := f.definition(n); def != nil {
			return f.defined(def, n, depth)
		}
		if i, ok := f.Imported(n.Text); ok && i.Member != "" {
			if named := f.p.variable(i.Path, i.Member, depth); named != "" {
				return named
			}
		}
		return f.imported(n.Text)
	case syntax.Member:
		if base := n.Children[0]; base.Kind == syntax.Name && f.definition(base) == nil {
			if i, ok := f.Imported(base.Text); ok {
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

// variable returns what a variable of another module of the service stands for.
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

// imported returns the module or the member of one that a name is imported as.
func (f *pythonFile) imported(name string) string {
	i, ok := f.Imported(name)
	switch {
	case !ok || strings.HasPrefix(i.Path, "."):
		return ""
	case i.Member == "":
		return i.Path
	}
	return i.Path + "." + i.Member
}

// dottedName is a type of an annotation whose instances are known.
var dottedName = regexp.MustCompile(`^["']?([A-Za-z_]\w*)((?:\.\w+)*)["']?$`)

// defined returns what a definition gives a name.
func (f *pythonFile) defined(def, use *syntax.Node, depth int) string {
	if m := dottedName.FindStringSubmatch(def.Type); m != nil {
		if base := f.imported(m[1]); base != "" {
			return base + m[2] + "()"
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
