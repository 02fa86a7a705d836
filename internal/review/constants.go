// SPDX-License-Identifier: Apache-2.0

package review

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/mod/modfile"

	"assay/internal/review/instrumentation"
	"assay/internal/review/syntax"
)

// Limits of the lookup of constants.
const (
	maxPackages     = 2_000    // packages whose constants are read
	maxPackageBytes = 8 << 20  // bytes of the Go files of a package
	maxConstants    = 10_000   // constants of a package
	maxOperands     = 5        // nested operators and references of a constant
	maxGoMod        = 64 << 10 // bytes of a go.mod file
)

// constants looks up the string constants of the Go packages below a root. It reads each package once, when one of its
// constants is first looked up. It is safe for concurrent use.
type constants struct {
	root    *os.Root
	modules map[string]string   // directory of a go.mod file, "" for the root: path of the module
	files   map[string][]string // Go files by directory, "" for the root

	mu     sync.Mutex
	values map[string]func() map[string]instrumentation.Constant // by directory
}

// newConstants returns the constants of the packages that contain the files.
func newConstants(root *os.Root, files []file) *constants {
	c := &constants{root: root, modules: map[string]string{}, files: map[string][]string{}, values: map[string]func() map[string]instrumentation.Constant{}}
	for _, f := range files {
		dir := directory(f.path)
		switch {
		case path.Base(f.path) == "go.mod":
			if text, err := readFile(root, f.path, maxGoMod); err == nil {
				if m := modfile.ModulePath(text); m != "" {
					c.modules[dir] = m
				}
			}
		case strings.HasSuffix(f.path, ".go"):
			c.files[dir] = append(c.files[dir], f.path)
		}
	}
	return c
}

// directory returns the directory of a path, "" for the root.
func directory(name string) string {
	if dir := path.Dir(name); dir != "." {
		return dir
	}
	return ""
}

// packages are the packages that the files of a directory refer to.
type packages struct {
	*constants
	wrappers *wrappers
	dir      string
	language syntax.Language
}

// Constant looks up a constant. If module is empty, it is a constant of the directory's package, otherwise of the
// package with this import path in the same module.
func (p packages) Constant(module, name string) (instrumentation.Constant, bool) {
	dir := p.dir
	if module != "" {
		var ok bool
		if dir, ok = p.resolve(p.dir, module); !ok {
			return instrumentation.Constant{}, false
		}
	}
	value, ok := p.load(dir)[name]
	return value, ok
}

// Own reports whether a package belongs to a module of the repository. known is false if the repository has no modules.
func (p packages) Own(module string) (own, known bool) {
	for _, m := range p.modules {
		if rest, ok := strings.CutPrefix(module, m); ok && (rest == "" || rest[0] == '/') {
			return true, true
		}
	}
	return false, len(p.modules) > 0
}

// resolve returns the directory of an import path in the module of the directory from.
func (c *constants) resolve(from, importPath string) (string, bool) {
	for dir := from; ; dir = directory(dir) {
		if module, ok := c.modules[dir]; ok {
			rest, ok := strings.CutPrefix(importPath, module)
			if !ok || rest != "" && rest[0] != '/' {
				return "", false
			}
			return strings.TrimPrefix(path.Join(dir, rest), "/"), true
		}
		if dir == "" {
			return "", false
		}
	}
}

// load returns the constants of the package in a directory.
func (c *constants) load(dir string) map[string]instrumentation.Constant {
	c.mu.Lock()
	once, ok := c.values[dir]
	if !ok && len(c.values) < maxPackages {
		once = sync.OnceValue(func() map[string]instrumentation.Constant { return c.read(dir) })
		c.values[dir] = once
	}
	c.mu.Unlock()
	if once == nil {
		return nil
	}
	return once()
}

func (c *constants) read(dir string) (values map[string]instrumentation.Constant) {
	defer func() {
		if recover() != nil { // a defect of the parser: the constants are unknown
			values = nil
		}
	}()
	exprs, keys := map[string]ast.Expr{}, map[string]bool{}
	size := 0
	for _, name := range c.files[dir] {
		source, err := readFile(c.root, filepath.FromSlash(name), maxFileSize)
		if size += len(source); err != nil || size > maxPackageBytes {
			continue
		}
		tree, _ := parser.ParseFile(token.NewFileSet(), name, source, parser.SkipObjectResolution)
		if tree == nil {
			continue
		}
		for _, d := range tree.Decls {
			if g, ok := d.(*ast.GenDecl); ok && (g.Tok == token.CONST || g.Tok == token.VAR) {
				declared(exprs, keys, g)
			}
		}
	}
	values = map[string]instrumentation.Constant{}
	for name, e := range exprs {
		if s, ok := constant(e, exprs, maxOperands); ok {
			values[name] = instrumentation.Constant{Value: s, Key: keys[name]}
		}
	}
	return values
}

// declared adds the expressions of constants, and of variables that hold an attribute key. It records in keys whether a
// name has the type of attribute keys.
func declared(exprs map[string]ast.Expr, keys map[string]bool, g *ast.GenDecl) {
	for _, s := range g.Specs {
		v, ok := s.(*ast.ValueSpec)
		if !ok || len(v.Values) != len(v.Names) {
			continue
		}
		for i, e := range v.Values {
			call, ok := e.(*ast.CallExpr)
			key := ok && keyConversion(call)
			if key {
				e = call.Args[0]
			}
			key = key || keyType(v.Type)
			if (g.Tok == token.CONST || key) && len(exprs) < maxConstants {
				exprs[v.Names[i].Name], keys[v.Names[i].Name] = e, key
			}
		}
	}
}

// keyConversion reports whether a call is attribute.Key("...").
func keyConversion(call *ast.CallExpr) bool { return len(call.Args) == 1 && keyType(call.Fun) }

// keyType reports whether an expression is the type attribute.Key.
func keyType(e ast.Expr) bool {
	f, ok := e.(*ast.SelectorExpr)
	if !ok || f.Sel.Name != "Key" {
		return false
	}
	pkg, ok := f.X.(*ast.Ident)
	return ok && pkg.Name == "attribute"
}

// constant returns the value of a string literal, a constant, or a concatenation of them, nested at most depth deep.
func constant(e ast.Expr, exprs map[string]ast.Expr, depth int) (string, bool) {
	if depth == 0 {
		return "", false
	}
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind != token.STRING {
			return "", false
		}
		s, err := strconv.Unquote(e.Value)
		return s, err == nil
	case *ast.ParenExpr:
		return constant(e.X, exprs, depth-1)
	case *ast.Ident:
		if next, ok := exprs[e.Name]; ok {
			return constant(next, exprs, depth-1)
		}
	case *ast.BinaryExpr:
		if e.Op != token.ADD {
			return "", false
		}
		a, ok := constant(e.X, exprs, depth-1)
		if !ok {
			return "", false
		}
		b, ok := constant(e.Y, exprs, depth-1)
		return a + b, ok && len(a)+len(b) <= 1<<10
	}
	return "", false
}
