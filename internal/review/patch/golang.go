// SPDX-License-Identifier: Apache-2.0

package patch

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"

	"github.com/aymanbagabas/go-udiff"

	"assay/internal/review/syntax"
)

// TidyGo removes the imports that have no use after the edits of a Go file, because the file would not compile. It
// returns false if the edits leave a variable without a use, or if the file is too complex.
func (f *File) TidyGo() bool {
	before, errBefore := syntax.ParseGo(f.Path, f.Before)
	after, errAfter := syntax.ParseGo(f.Path, f.After)
	if errBefore != nil || errAfter != nil || unused(after) > unused(before) {
		return false
	}
	packages := func(source []byte) map[string]bool {
		tree, err := parser.ParseFile(token.NewFileSet(), "", source, parser.SkipObjectResolution)
		if err != nil && tree == nil {
			return nil
		}
		return Packages(tree) // partial if broken
	}
	was, is := packages(f.Before), packages(f.After)
	if before.Exhausted() || after.Exhausted() {
		return false
	}
	changed := false
	for _, i := range before.Imports {
		if !was[i.Name] || is[i.Name] {
			continue
		}
		f.Edits = append(f.Edits, removeImport(f.Before, i.Node))
		changed = true
	}
	if !changed {
		return true
	}
	return f.Apply() == nil
}

// removeImport returns the edit that removes an import, with its line if nothing else is on it.
func removeImport(source []byte, n *syntax.Node) udiff.Edit {
	start := bytes.LastIndexByte(source[:n.Start], '\n') + 1
	end := len(source)
	if line := bytes.IndexByte(source[n.End:], '\n'); line >= 0 {
		end = n.End + line + 1
	}
	before, after := bytes.TrimSpace(source[start:n.Start]), bytes.TrimSpace(source[n.End:end])
	switch {
	case (len(before) == 0 || string(before) == "import") && (len(after) == 0 || bytes.HasPrefix(after, []byte("//"))):
		return udiff.Edit{Start: start, End: end}
	case bytes.HasPrefix(after, []byte(";")): // import ("a"; "b")
		end = n.End + bytes.IndexByte(source[n.End:], ';') + 1
		return udiff.Edit{Start: n.Start, End: end + len(source[end:]) - len(bytes.TrimLeft(source[end:], " \t"))}
	case bytes.HasSuffix(before, []byte(";")):
		return udiff.Edit{Start: bytes.LastIndexByte(source[:n.Start], ';'), End: n.End}
	}
	return udiff.Edit{Start: n.Start, End: n.End}
}

// Packages returns the names before a dot in a Go file. It includes names in types, which have no nodes in package
// syntax.
func Packages(tree *ast.File) map[string]bool {
	all := map[string]bool{}
	for n := range ast.Preorder(tree) {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok {
				all[x.Name] = true
			}
		}
	}
	return all
}

// names counts the occurrences of names below a node.
func names(root *syntax.Node) map[string]int {
	count := make(map[string]int)
	for n := range root.All(syntax.Name) {
		count[n.Text]++
	}
	return count
}

// unused counts the local variables that occur in their function only in their definition.
func unused(f *syntax.File) (n int) {
	functions := make(map[*syntax.Node]map[string]int)
	for def := range f.Root.All() {
		if def.Kind != syntax.Declare && (def.Kind != syntax.Assign || def.Text != ":=") {
			continue
		}
		fn := def.Enclosing(syntax.Func)
		if fn == nil {
			continue
		}
		count, ok := functions[fn]
		if !ok {
			count = names(fn)
			functions[fn] = count
		}
		for _, t := range def.Targets() {
			if t.Kind == syntax.Name && t.Text != "_" && count[t.Text] == 1 {
				n++
			}
		}
	}
	return n
}
