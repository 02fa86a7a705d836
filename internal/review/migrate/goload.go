// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"assay/internal/review/syntax"
)

//go:embed stubs/sources.txt stubs/targets.txt
var stubFiles embed.FS

// stubs returns the declarations of packages by import path. sources are the packages that a migration replaces,
// targets packages of migrated code and of the standard library.
var stubs = sync.OnceValue(func() (s struct{ sources, targets map[string]string }) {
	s.sources, s.targets = readStubs("stubs/sources.txt"), readStubs("stubs/targets.txt")
	return s
})

func readStubs(name string) map[string]string {
	text, err := stubFiles.ReadFile(name)
	if err != nil {
		return nil
	}
	out := map[string]string{}
	for part := range strings.SplitSeq(string(text), "\n-- ") {
		if p, source, ok := strings.Cut(part, " --\n"); ok {
			out[p] = source
		}
	}
	return out
}

// goFile is a Go file of a module.
type goFile struct {
	path   string
	source []byte
	tree   *ast.File
	broken bool        // it has syntax errors, too deep nesting or too large constants
	info   *types.Info // of the last type check of the file
	pkg    *types.Package
	// result
	edits  []edit
	after  []byte
	errors []string
}

// goModule is a Go module. Its types come from its source and the stubs; types of other packages are unknown.
type goModule struct {
	dir, path string
	fset      *token.FileSet
	files     []*goFile
	packages  map[string]*goPackage // by import path
	checked   time.Time             // the deadline for the type check
}

// goPackage is a package of a module or a stub.
type goPackage struct {
	dir   string
	files []*goFile // without external tests
	tests []*goFile // files of the external test package
	types *types.Package
	state int // 0 not checked, 1 being checked, 2 checked
	err   error
}

// parse parses a file of the module.
func (m *goModule) parse(name string, source []byte) *goFile {
	tree, err := parser.ParseFile(m.fset, name, source, parser.ParseComments|parser.SkipObjectResolution)
	return &goFile{path: name, source: source, tree: tree, broken: err != nil || syntax.TooDeep(tree)}
}

// arrange groups files by package.
func (m *goModule) arrange(files []*goFile) {
	m.files, m.packages = files, map[string]*goPackage{}
	leaveLargeConstants(files)
	for _, f := range files {
		if f.broken || f.tree.Name == nil {
			continue
		}
		dir := directory(f.path)
		p := m.importPath(dir)
		if m.packages[p] == nil {
			m.packages[p] = &goPackage{dir: dir}
		}
		if strings.HasSuffix(f.path, "_test.go") && strings.HasSuffix(f.tree.Name.Name, "_test") {
			m.packages[p].tests = append(m.packages[p].tests, f)
		} else {
			m.packages[p].files = append(m.packages[p].files, f)
		}
	}
}

func (m *goModule) importPath(dir string) string {
	return path.Join(m.path, strings.TrimPrefix(strings.TrimPrefix(dir, m.dir), "/"))
}

// check checks the types of all packages and their tests. go/types cannot be stopped, and takes exponential time for
// some types: when the context or deadline ends, check returns and a goroutine continues. The caller must not use the
// module then.
func (m *goModule) check(ctx context.Context) error {
	ctx, cancel := context.WithDeadline(ctx, m.checked)
	defer cancel()
	if err := ctx.Err(); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- m.checkPackages(ctx) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (m *goModule) checkPackages(ctx context.Context) error {
	for _, p := range slices.Sorted(maps.Keys(m.packages)) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if _, err := m.Import(p); err != nil && errors.Is(err, errPanic) {
			return err
		}
	}
	for p, pkg := range m.packages {
		inPackage := func(f *goFile) bool { return strings.HasSuffix(f.path, "_test.go") }
		if slices.ContainsFunc(pkg.files, inPackage) {
			own := slices.DeleteFunc(slices.Clone(pkg.files), func(f *goFile) bool { return !inPackage(f) })
			if _, err := m.types(p, pkg.files, own); err != nil {
				return err
			}
		}
		if len(pkg.tests) > 0 {
			if _, err := m.types(p+"_test", pkg.tests, pkg.tests); err != nil {
				return err
			}
		}
	}
	return nil
}

var (
	errPanic  = errors.New("the types of the module cannot be checked")
	errNoStub = errors.New("the package is not read")
)

// Import returns the types of a package of the module or of a stub. It implements types.Importer.
func (m *goModule) Import(name string) (*types.Package, error) {
	if name == "unsafe" {
		return types.Unsafe, nil
	}
	p := m.packages[name]
	if p == nil {
		source := cmp.Or(stubs().sources[name], stubs().targets[name])
		if source == "" {
			return nil, errNoStub
		}
		p = &goPackage{files: []*goFile{m.parse(name, []byte(source))}}
		if stubs().sources[name] == "" {
			p.err = errNoStub
		}
		m.packages[name] = p
	}
	switch p.state {
	case 1:
		return nil, errors.New("import cycle")
	case 0:
		p.state = 1
		files := slices.DeleteFunc(slices.Clone(p.files), func(f *goFile) bool { return strings.HasSuffix(f.path, "_test.go") })
		pkg, err := m.types(name, files, files)
		if err != nil {
			return nil, err
		}
		p.types, p.state = pkg, 2
	}
	return p.types, p.err
}

// types checks the types of files as one package, and stores the result in own.
func (m *goModule) types(name string, files, own []*goFile) (pkg *types.Package, err error) {
	defer func() {
		if recover() != nil {
			pkg, err = nil, errPanic
		}
	}()
	info := &types.Info{
		Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{},
		Selections: map[*ast.SelectorExpr]*types.Selection{}, Implicits: map[ast.Node]types.Object{},
	}
	byName := map[string]*goFile{}
	var trees []*ast.File
	for _, f := range files {
		trees = append(trees, f.tree)
		byName[f.path] = f
	}
	for _, f := range own {
		f.errors = nil
	}
	stub := cmp.Or(stubs().sources[name], stubs().targets[name]) != ""
	conf := types.Config{
		Importer: m, FakeImportC: true, IgnoreFuncBodies: stub, Sizes: types.SizesFor("gc", "amd64"),
		Error: func(err error) {
			if e, ok := errors.AsType[types.Error](err); ok {
				if f := byName[m.fset.PositionFor(e.Pos, false).Filename]; f != nil && slices.Contains(own, f) {
					f.errors = append(f.errors, e.Msg)
				}
			}
		},
	}
	pkg, _ = conf.Check(name, m.fset, trees, info) // the errors are in the files
	for _, f := range own {
		f.info, f.pkg = info, pkg
	}
	return pkg, nil
}

// span returns the offsets of a node in its file.
func (m *goModule) span(n ast.Node) (start, end int) {
	return m.fset.PositionFor(n.Pos(), false).Offset, m.fset.PositionFor(n.End(), false).Offset
}

var (
	qualified = regexp.MustCompile(`"(?:[^"\s]*/)?([^"\s/]+)"\.`)
	// missing matches errors about members of standard library types that the stubs leave out.
	missing = regexp.MustCompile(`undefined \(type \*?(http|url|time|os|context|io)\.\w+ has no field or method`)
)

// typeErrors returns the type errors of the files of the module, except for those about packages that are not read.
func (m *goModule) typeErrors() (all []string) {
	for _, f := range m.files {
		for _, e := range f.errors {
			e = qualified.ReplaceAllString(e, "$1.") // the path is present only if names are ambiguous
			if !strings.HasPrefix(e, "could not import ") && !missing.MatchString(e) {
				all = append(all, f.path+": "+e)
			}
		}
	}
	return all
}

// newError returns a type error that a change introduces in the module, with its file, or "".
func newError(before, after *goModule) string {
	old := map[string]int{}
	for _, e := range before.typeErrors() {
		old[e]++
	}
	for _, e := range after.typeErrors() {
		if old[e]--; old[e] < 0 {
			return e
		}
	}
	return ""
}

// imported reports whether the file imports a path that a predicate accepts.
func (f *goFile) imported(is func(string) bool) bool {
	if f.tree == nil {
		return false
	}
	return slices.ContainsFunc(f.tree.Imports, func(i *ast.ImportSpec) bool {
		p, err := strconv.Unquote(i.Path.Value)
		return err == nil && is(p)
	})
}

// mentions reports whether a source contains one of the texts.
func mentions(source []byte, texts []string) bool {
	return slices.ContainsFunc(texts, func(t string) bool { return bytes.Contains(source, []byte(t)) })
}
