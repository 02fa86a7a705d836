// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"bytes"
	"context"
	"path"
	"regexp"
	"slices"
	"strings"

	"assay/internal/review/syntax"
)

// moduleName returns the name of a file in imports: its base name, or the name of its directory for an index file.
func moduleName(file string) string {
	name := strings.TrimSuffix(path.Base(file), path.Ext(file))
	if name == "index" || name == "__init__" {
		name = path.Base(path.Dir(file))
	}
	return name
}

var (
	pyImports = regexp.MustCompile(`(?m)^[ \t]*(?:from[ \t]+\S+[ \t]+import[ \t]+(?:\([^()]*\)|[^\n(]*)|import[ \t][^\n]*)`)
	jsImports = regexp.MustCompile(`(?:\bfrom\s*|\bimport\s*\(?\s*|\brequire\s*\(\s*)['"\x60]([^'"\x60\n]+)['"\x60]`)
	words     = regexp.MustCompile(`[A-Za-z_][\w]*`)
)

// addUsers parses the files that import a module that uses the library, directly or through modules that re-export it:
// tracers and spans of such modules are of the library.
func (u *scriptUnit) addUsers(ctx context.Context, table *scriptTable, rest []scriptSource) error {
	for _, s := range u.files {
		if s.imports() {
			u.modules[moduleName(s.f.Path)] = true
		}
	}
	for added := true; added; {
		added = false
		var left []scriptSource
		for _, f := range rest {
			if !u.uses(f) {
				left = append(left, f)
				continue
			}
			if err := u.add(ctx, table, f.name, f.source); err != nil {
				return err
			}
			if name := moduleName(f.name); passesOn(f) && !u.modules[name] {
				u.modules[name], added = true, true
			}
		}
		rest = left
	}
	return nil
}

// uses reports whether a file names one of u.modules: in an import, or anywhere in Java.
func (u *scriptUnit) uses(f scriptSource) bool {
	switch syntax.LanguageOf(f.name) {
	case syntax.Java:
		return u.namesModule(f.source)
	case syntax.Python:
		if slices.ContainsFunc(pyImports.FindAll(f.source, -1), u.namesModule) {
			return true
		}
	default:
		for _, i := range jsImports.FindAllSubmatch(f.source, -1) {
			if at := string(i[1]); strings.Contains(at, "/") || at[0] == '.' {
				if strings.HasPrefix(at, ".") {
					at = path.Join(path.Dir(f.name), at)
				}
				if u.modules[path.Base(at)] || u.modules[moduleName(at)] {
					return true
				}
			}
		}
	}
	return false
}

func (u *scriptUnit) namesModule(source []byte) bool {
	return slices.ContainsFunc(words.FindAll(source, -1), func(w []byte) bool { return u.modules[string(w)] })
}

// passesOn reports whether a file may re-export its imports.
func passesOn(f scriptSource) bool {
	base := path.Base(f.name)
	return strings.HasPrefix(base, "__init__.") || strings.HasPrefix(base, "index.") ||
		syntax.LanguageOf(f.name) != syntax.Python && (bytes.Contains(f.source, []byte("export {")) || bytes.Contains(f.source, []byte("export *")))
}

// hasModule reports whether an import refers to a module that uses the library.
func (u *scriptUnit) hasModule(at string) bool {
	if strings.Contains(at, "/") {
		return u.modules[path.Base(at)] || u.modules[moduleName(at)]
	}
	return u.modules[at[strings.LastIndexByte(at, '.')+1:]]
}

// ofUnit reports whether a value is the result of a function that the file declares or imports from a module that uses
// the library.
func (s *script) ofUnit(n *syntax.Node) bool {
	if d := s.f.Definition(n); n.Kind == syntax.Name && d != nil && d.Kind == syntax.Assign && len(d.Children) == 2 && !n.Within(d) {
		n = d.Value()
	}
	if n.Kind == syntax.Await && len(n.Children) == 1 {
		n = n.Children[0]
	}
	if n.Kind != syntax.Call {
		return false
	}
	callee := n.Callee().Inner(syntax.Member)
	if callee.Kind != syntax.Name {
		return false
	}
	if i, ok := s.f.Imported(callee.Text); ok {
		return s.unit.hasModule(i.Path)
	}
	return s.imports() && n.Callee() == callee && s.defines(callee)
}

// defines reports whether the file defines a function with the name.
func (s *script) defines(name *syntax.Node) bool {
	if d := s.f.Definition(name); d != nil {
		return d.Kind == syntax.Assign && d.Value().Kind == syntax.Func
	}
	return s.f.Root.Has(func(n *syntax.Node) bool { return n.Kind == syntax.Func && n.Text == name.Text })
}
