// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"fmt"
	"go/ast"
	"go/constant"
	"go/format"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"

	"assay/internal/lists"
	"assay/internal/review/patch"
	"assay/internal/review/syntax"
)

// goUnit is the migration of a Go module.
type goUnit struct {
	*migration
	*goModule
	helpers map[string]map[string]bool // names of needed goHelpers, by directory
	notes   []patch.Step               // added if the module is migrated
	starts  map[*goPackage]bool        // whether a package starts the Datadog tracer, set by startsHere
	blocked bool

	service   *string               // service of the Datadog tracer, set by datadogService
	functions map[string]goFunction // by full name, set by declaration
	makers    map[string]bool       // whether a function's result is a tracer from NewTracer, set by makesTracer
}

// goFunction is the declaration of a function.
type goFunction struct {
	file *goFile
	decl *ast.FuncDecl
}

// maxCheck is the time limit for checking the types of all modules.
const maxCheck = 3 * time.Minute

func (m *migration) golang(ctx context.Context) error {
	deadline := time.Now().Add(maxCheck)
	modules := m.manifests("go.mod")
	units := m.sources(modules, syntax.Go)
	for _, dir := range slices.Sorted(maps.Keys(units)) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := m.goModule(ctx, dir, units[dir], modules[dir], deadline); err != nil {
			return err
		}
	}
	return nil
}

// goModule migrates the module of a directory. deadline limits the check of its types.
func (m *migration) goModule(ctx context.Context, dir string, names []string, manifest bool, deadline time.Time) error {
	u := &goUnit{migration: m, goModule: &goModule{dir: dir, fset: token.NewFileSet(), checked: deadline}, helpers: map[string]map[string]bool{}, starts: map[*goPackage]bool{}, makers: map[string]bool{}}
	var files []*goFile
	size, relevant := 0, false
	for _, name := range names {
		source, err := m.read(name)
		if err != nil {
			continue // reviews report unreadable files
		}
		if size += len(source); size > maxUnit {
			m.open(name, 0, "The module is larger than %d MiB: it is not migrated.", maxUnit>>20)
			return nil
		}
		f := u.parse(name, source)
		files = append(files, f)
		relevant = relevant || f.imported(isGoSource)
		if f.imported(isGoMetrics) {
			u.notes = append(u.notes, patch.Step{File: f.path, Text: "The metrics of OpenCensus stay: its views have no counterpart in code. Replace them by instruments of OpenTelemetry.", Open: true})
		}
	}
	if !relevant {
		for _, s := range u.notes {
			u.step(s)
		}
		return nil
	}
	mod := path.Join(dir, "go.mod")
	var manifestText []byte
	if manifest {
		var err error
		if manifestText, err = m.read(mod); err != nil {
			manifest = false
		}
	}
	if !manifest {
		for _, f := range files {
			if f.imported(isGoSource) {
				m.open(f.path, 0, "The file belongs to no Go module: it is not migrated.")
			}
		}
		return nil
	}
	if line, old := unstable(mod, manifestText); old != "" {
		m.open(mod, line, "The module requires %s, whose API has changed since: it is not migrated.", old)
		return nil
	}
	u.path = modfile.ModulePath(manifestText)
	u.arrange(files)
	for _, f := range files {
		if f.broken && f.imported(isGoSource) {
			u.block(f, nil, "The file has syntax errors, or nests too deeply.")
		}
	}
	if err := u.check(ctx); err != nil {
		if ctx.Err() == nil {
			m.open(mod, 0, "The types of the module cannot be checked: it is not migrated.")
		}
		return ctx.Err()
	}
	var changed []*goFile
	for _, f := range files {
		if f.info == nil || f.tree == nil {
			continue
		}
		r := newGoRewriter(u, f)
		r.run()
		if len(r.f.edits) > 0 {
			changed = append(changed, f)
		}
	}
	if u.blocked {
		m.open(mod, 0, "The module is not migrated: other steps name what no table knows. Its packages share spans, so they are migrated together.")
		return nil
	}
	if len(changed) == 0 {
		return nil
	}
	return u.finish(ctx, changed, mod, manifestText)
}

// unstable returns the first requirement of an OpenTelemetry module at v0 that has a stable release, with its line. It
// returns 0 and "" if there is none. Code for v0, including code of dependencies, does not compile with the version
// that a migration adds.
func unstable(file string, manifest []byte) (line int, requirement string) {
	f, err := modfile.Parse(file, manifest, nil)
	if err != nil {
		return 0, "" // goMod reports it
	}
	for _, r := range f.Require {
		if v := goVersions[r.Mod.Path]; v != "" && semver.Major(v) != "v0" && semver.Major(r.Mod.Version) == "v0" {
			return r.Syntax.Start.Line, r.Mod.String()
		}
	}
	return 0, ""
}

// finish checks the types of the migrated module and adds the changed and created files to the patch. If the result
// would not compile, it adds only a step.
func (u *goUnit) finish(ctx context.Context, changed []*goFile, mod string, manifest []byte) error {
	created, ok := u.helperFiles()
	if !ok {
		return nil
	}
	for _, f := range changed {
		sortEdits(f.edits)
		f.after = withoutUnusedImports(f, []byte(replace(f.source, 0, len(f.source), f.edits)))
	}
	after := &goModule{dir: u.dir, path: u.path, fset: token.NewFileSet(), checked: u.checked}
	var files []*goFile
	for _, f := range u.files {
		text := f.source
		if f.after != nil {
			text = f.after
		}
		file := after.parse(f.path, text)
		if f.after != nil && file.broken {
			u.open(f.path, 0, "The module is not migrated: the file would no longer parse.")
			return nil
		}
		files = append(files, file)
	}
	for _, c := range created {
		files = append(files, after.parse(c.Path, c.After))
	}
	after.arrange(files)
	if err := after.check(ctx); err != nil {
		if ctx.Err() == nil {
			u.open(mod, 0, "The module is not migrated: the types of the result cannot be checked.")
		}
		return ctx.Err()
	}
	if e := newError(u.goModule, after); e != "" {
		u.open(mod, 0, "The module is not migrated, because the result would not compile: %s.", e)
		return nil
	}
	u.step(patch.Step{File: mod, Text: fmt.Sprintf("Go files that are migrated to OpenTelemetry: %d.", len(changed))})
	for _, f := range changed {
		if formatted, err := format.Source(f.source); err == nil && string(formatted) == string(f.source) {
			if formatted, err = format.Source(f.after); err == nil {
				f.after = formatted
			}
		}
		u.change(f.path, f.source, f.after)
	}
	u.patch.Files = append(u.patch.Files, created...)
	for _, c := range created {
		u.step(patch.Step{File: c.Path, Text: "Functions that the migrated code calls."})
	}
	used := map[string]bool{}
	for _, f := range changed {
		imports(u.goModule.parse(f.path, f.after), used)
	}
	for _, c := range created {
		imports(u.goModule.parse(c.Path, c.After), used)
	}
	u.goMod(mod, manifest, used)
	for _, s := range u.notes {
		u.step(s)
	}
	return nil
}

func imports(f *goFile, into map[string]bool) {
	for _, i := range f.tree.Imports {
		if p, err := strconv.Unquote(i.Path.Value); err == nil {
			into[p] = true
		}
	}
}

// withoutUnusedImports returns the new text of a file without the imports that only the old text uses.
func withoutUnusedImports(f *goFile, text []byte) []byte {
	fset := token.NewFileSet()
	tree, err := parser.ParseFile(fset, "", text, parser.SkipObjectResolution)
	if err != nil {
		return text
	}
	was, is := patch.Packages(f.tree), patch.Packages(tree)
	unused := map[string]bool{}
	for _, spec := range f.tree.Imports {
		if name := f.importName(spec); was[name] && !is[name] {
			unused[spec.Path.Value] = true
		}
	}
	var edits []edit
	for _, spec := range tree.Imports {
		if unused[spec.Path.Value] {
			edits = append(edits, lineEdit(text, fset.PositionFor(spec.Pos(), false).Offset, fset.PositionFor(spec.End(), false).Offset))
		}
	}
	return []byte(replace(text, 0, len(text), edits))
}

// lineEdit returns the edit that removes a range, and its lines if nothing else is on them.
func lineEdit(source []byte, start, end int) edit {
	s, e := start, end
	for s > 0 && (source[s-1] == ' ' || source[s-1] == '\t') {
		s--
	}
	for e < len(source) && (source[e] == ' ' || source[e] == '\t' || source[e] == '\r') {
		e++
	}
	if (s == 0 || source[s-1] == '\n') && (e == len(source) || source[e] == '\n') {
		e = min(e+1, len(source))
		if s > 1 && source[s-2] == '\n' && e < len(source) && source[e] == '\n' {
			e++ // keep one of two blank lines
		}
		return edit{s, e, ""}
	}
	return edit{start, end, ""}
}

// block marks the module as not migrated, and adds a step with the reason.
func (u *goUnit) block(f *goFile, n ast.Node, format string, args ...any) {
	u.blocked = true
	line := 0
	if n != nil {
		line = u.fset.PositionFor(n.Pos(), false).Line
	}
	u.open(f.path, line, format, args...)
}

// goRewriter rewrites a file.
type goRewriter struct {
	unit    *goUnit
	f       *goFile
	info    *types.Info
	parents map[ast.Node]ast.Node
	done    map[*ast.Ident]bool      // names of source libraries that an edit covers
	imports map[string]string        // the new imports: path to name
	taken   map[string]bool          // names that the file or its package declares
	removed map[ast.Stmt]bool        // statements that hoist merges into a start
	kinds   map[*ast.CallExpr]string // kinds of spans that a later statement sets
	found   map[types.Object]bool    // variables for the span of a context, which may have none
	// unneeded are the tracer variables that are used only to set the global tracer or for propagation, which is
	// global.
	unneeded map[types.Object]bool
	options  map[types.Object]*optionSlice // by local variable
	sampler  map[ast.Node]*ast.CallExpr    // calls of ApplyConfig, by function
	configs  map[types.Object]*jaegerSetup // configurations of the Jaeger client, by variable
	usage    map[types.Object][]*ast.Ident // set by uses
	tired    bool                          // maxGoWork is exceeded
	failed   map[int]bool                  // lines with a step
	work     int
}

func newGoRewriter(u *goUnit, f *goFile) *goRewriter {
	r := &goRewriter{
		unit: u, f: f, info: f.info, parents: map[ast.Node]ast.Node{}, done: map[*ast.Ident]bool{}, imports: map[string]string{},
		taken: map[string]bool{}, removed: map[ast.Stmt]bool{}, kinds: map[*ast.CallExpr]string{}, found: map[types.Object]bool{}, unneeded: map[types.Object]bool{}, options: map[types.Object]*optionSlice{},
		sampler: map[ast.Node]*ast.CallExpr{}, configs: map[types.Object]*jaegerSetup{}, failed: map[int]bool{},
	}
	ast.PreorderStack(f.tree, nil, func(n ast.Node, stack []ast.Node) bool {
		if len(stack) > 0 {
			r.parents[n] = stack[len(stack)-1]
		}
		if id, ok := n.(*ast.Ident); ok && f.info.Defs[id] != nil {
			r.taken[id.Name] = true
		}
		return true
	})
	if f.pkg != nil {
		for _, name := range f.pkg.Scope().Names() {
			r.taken[name] = true
		}
	}
	return r
}

// run sets the edits of the file, or blocks the unit.
func (r *goRewriter) run() {
	for _, spec := range r.f.tree.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil || !isGoSource(p) {
			if name := r.f.importName(spec); err == nil {
				r.taken[name] = true
			}
			continue
		}
		if stubs().sources[p] == "" {
			r.unit.block(r.f, spec, "The package %s is in no table.", p)
		}
		if spec.Name != nil && (spec.Name.Name == "." || spec.Name.Name == "_") {
			r.unit.block(r.f, spec, "The import of %s as %q is in no table.", p, spec.Name.Name)
		}
	}
	r.prepare()
	edits := r.collect(r.f.tree)
	r.verify()
	if len(edits) == 0 && !r.f.imported(isGoSource) || r.unit.blocked {
		return
	}
	var comments [][2]int
	for _, group := range r.f.tree.Comments {
		for _, c := range group.List {
			start, end := r.unit.span(c)
			comments = append(comments, [2]int{start, end})
		}
	}
	r.f.edits = append(append(edits, keepComments(r.f.source, comments, edits)...), r.importEdits()...)
}

// importName returns the name of an import in the file.
func (f *goFile) importName(spec *ast.ImportSpec) string {
	if spec.Name != nil {
		return spec.Name.Name
	}
	if o, ok := f.info.Implicits[spec].(*types.PkgName); ok {
		return o.Imported().Name()
	}
	return path.Base(strings.Trim(spec.Path.Value, "`\""))
}

// use returns the name of a target package in the file. It adds an import if the file has none.
func (r *goRewriter) use(short string) string {
	p := goTargets[short]
	if name := r.imports[p]; name != "" {
		return name
	}
	for _, spec := range r.f.tree.Imports {
		if text, err := strconv.Unquote(spec.Path.Value); err == nil && text == p {
			if name := r.f.importName(spec); name != "_" && name != "." {
				r.imports[p] = name
				return name
			}
		}
	}
	r.imports[p] = r.fresh(short)
	return r.imports[p]
}

// fresh returns a name that the file does not use, and reserves it.
func (r *goRewriter) fresh(name string) string {
	for r.taken[name] {
		name = "otel" + name
	}
	r.taken[name] = true
	return name
}

// importEdits returns the edits that remove the imports of source libraries and add the imports of targets.
func (r *goRewriter) importEdits() []edit {
	var specs []*ast.ImportSpec
	present := map[string]bool{}
	for _, spec := range r.f.tree.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err == nil && isGoSource(p) {
			specs = append(specs, spec)
		} else if spec.Name == nil || spec.Name.Name != "_" && spec.Name.Name != "." {
			present[p] = true
		}
	}
	var std, other []string
	for _, p := range slices.Sorted(maps.Keys(r.imports)) {
		if present[p] {
			continue
		}
		line := strconv.Quote(p)
		if name := r.imports[p]; name != goName(p) {
			line = name + " " + line
		}
		if isStd(p) {
			std = append(std, line)
		} else {
			other = append(other, line)
		}
	}
	var edits []edit
	for _, spec := range specs {
		start, end := r.unit.span(spec)
		if d, ok := r.parents[spec].(*ast.GenDecl); ok && !d.Lparen.IsValid() {
			start, end = r.unit.span(d)
		}
		edits = append(edits, lineEdit(r.f.source, start, end))
	}
	return append(edits, r.addImports(specs, std, other)...)
}

// addImports returns the edits that add import lines: std to the group of the standard library, other at the place of
// the first of specs.
func (r *goRewriter) addImports(specs []*ast.ImportSpec, std, other []string) []edit {
	var block *ast.GenDecl
	for _, d := range r.f.tree.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.IMPORT && g.Lparen.IsValid() {
			block = g
			break
		}
	}
	if block == nil {
		if len(std)+len(other) == 0 {
			return nil
		}
		_, at := r.unit.span(r.f.tree.Name)
		return []edit{{at, at, "\n\n" + importBlock(std, other)}}
	}
	lineOf := func(n ast.Node) int {
		start, _ := r.unit.span(n)
		return lineStart(r.f.source, start)
	}
	isStdSpec := func(s ast.Spec) bool {
		p, _ := strconv.Unquote(s.(*ast.ImportSpec).Path.Value)
		return isStd(p)
	}
	var edits []edit
	insert := func(at int, lines []string, before, after string) {
		if len(lines) > 0 {
			edits = append(edits, edit{at, at, before + "\t" + strings.Join(lines, "\n\t") + "\n" + after})
		}
	}
	first := block.Specs[0]
	after := "" // gofmt sorts a group
	if !isStdSpec(first) {
		after = "\n"
	}
	insert(lineOf(first), std, "", after)
	if i := slices.IndexFunc(specs, func(s *ast.ImportSpec) bool { return r.parents[s] == block }); i >= 0 {
		insert(lineOf(specs[i]), other, "", "")
		return edits
	}
	before := ""
	if isStdSpec(block.Specs[len(block.Specs)-1]) {
		before = "\n"
	}
	insert(r.unit.fset.PositionFor(block.Rparen, false).Offset, other, before, "")
	return edits
}

// isStd reports whether a package belongs to the standard library.
func isStd(p string) bool {
	first, _, _ := strings.Cut(p, "/")
	return !strings.Contains(first, ".")
}

// importBlock returns an import declaration with a group for the standard library.
func importBlock(std, other []string) string {
	var groups []string
	for _, lines := range [][]string{std, other} {
		if len(lines) > 0 {
			groups = append(groups, "\t"+strings.Join(lines, "\n\t")+"\n")
		}
	}
	return "import (\n" + strings.Join(groups, "\n") + ")"
}

// goName returns the default name of the package at an import path.
func goName(p string) string {
	for short, target := range goTargets {
		if target == p && short != "sdktrace" {
			return short
		}
	}
	return path.Base(p)
}

// object returns the object that an expression names.
func (r *goRewriter) object(e ast.Expr) types.Object {
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		return r.info.ObjectOf(e)
	case *ast.SelectorExpr:
		return r.info.ObjectOf(e.Sel)
	}
	return nil
}

// symbol returns the symbol of a source library that an expression refers to, such as "ot.StartSpan" or
// "ot.Span.SetTag". It returns "" for other expressions.
func (r *goRewriter) symbol(e ast.Expr) string {
	if c, ok := ast.Unparen(e).(*ast.CallExpr); ok { // the result of a call, such as b3.InjectHTTP(req)
		if name := r.symbol(c.Fun); name != "" {
			return name + "()"
		}
		return ""
	}
	o := r.object(e)
	if o == nil || o.Pkg() == nil {
		return ""
	}
	short := goSources[o.Pkg().Path()]
	if short == "" {
		return ""
	}
	if f, ok := o.(*types.Func); ok && f.Signature().Recv() != nil {
		return short + "." + typeName(f.Signature().Recv().Type()) + "." + o.Name()
	}
	if v, ok := o.(*types.Var); ok && v.IsField() {
		if s, ok := ast.Unparen(e).(*ast.SelectorExpr); ok && r.info.Selections[s] != nil {
			return short + "." + typeName(r.info.Selections[s].Recv()) + "." + o.Name()
		}
	}
	return short + "." + o.Name()
}

func typeName(t types.Type) string {
	if p, ok := types.Unalias(t).(*types.Pointer); ok {
		t = p.Elem()
	}
	if n, ok := types.Unalias(t).(*types.Named); ok {
		return n.Obj().Name()
	}
	return ""
}

// fromSource reports whether a type belongs to a source library, or is a pointer, slice, array, map or channel with
// such elements.
func fromSource(t types.Type) bool {
	for range 8 {
		switch x := types.Unalias(t).(type) {
		case *types.Pointer:
			t = x.Elem()
		case *types.Slice:
			t = x.Elem()
		case *types.Array:
			t = x.Elem()
		case *types.Map:
			t = x.Elem()
		case *types.Chan:
			t = x.Elem()
		case *types.Named:
			return x.Obj().Pkg() != nil && goSources[x.Obj().Pkg().Path()] != ""
		default:
			return false
		}
	}
	return false
}

// mark marks all names below a node as covered by an edit.
func (r *goRewriter) mark(n ast.Node) {
	for n := range ast.Preorder(n) {
		if id, ok := n.(*ast.Ident); ok {
			r.done[id] = true
		}
	}
}

// markName marks the name that an expression refers to.
func (r *goRewriter) markName(e ast.Expr) {
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		r.done[e] = true
	case *ast.SelectorExpr:
		r.done[e.Sel] = true
		if id, ok := e.X.(*ast.Ident); ok {
			if _, ok := r.info.Uses[id].(*types.PkgName); ok {
				r.done[id] = true
			}
		}
	}
}

// fail blocks the unit with a reason for a node, and marks the names below the node as covered. It returns "" and
// false, the result of a failed rewrite.
func (r *goRewriter) fail(n ast.Node, format string, args ...any) (string, bool) {
	line := r.unit.fset.PositionFor(n.Pos(), false).Line
	if !r.failed[line] { // the first reason is closest to the cause
		r.unit.block(r.f, n, format, args...)
		r.failed[line] = true
	}
	r.mark(n)
	return "", false
}

// code returns the source of a node.
func (r *goRewriter) code(n ast.Node) string {
	start, end := r.unit.span(n)
	return string(r.f.source[start:end])
}

// brief returns the source of a node for a step. It is short and leaves out the content of strings, which may be
// secret.
func (r *goRewriter) brief(n ast.Node) string {
	var edits []edit
	for n := range ast.Preorder(n) {
		if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
			start, end := r.unit.span(l)
			edits = append(edits, edit{start, end, `"..."`})
		}
	}
	start, end := r.unit.span(n)
	return shorten(replace(r.f.source, start, end, edits))
}

// text returns the new source of a node.
func (r *goRewriter) text(n ast.Node) string {
	start, end := r.unit.span(n)
	r.work += (end - start) / 32 // calls within calls copy their text at every level
	return replace(r.f.source, start, end, r.collect(n))
}

// maxGoWork is the maximum number of node visits per file. Rows may visit arguments repeatedly.
const maxGoWork = 20_000_000

// inspect visits the nodes below a node until maxGoWork is reached.
func (r *goRewriter) inspect(n ast.Node, visit func(ast.Node) bool) {
	ast.Inspect(n, func(n ast.Node) bool { return r.working() && visit(n) })
}

// working counts the visit of a node. It reports whether maxGoWork is not exceeded, and otherwise blocks the unit.
func (r *goRewriter) working() bool {
	if r.work++; r.work > maxGoWork && !r.tired {
		r.tired = true
		r.fail(r.f.tree.Name, "The file needs too much work.")
	}
	return !r.tired
}

// collect returns the edits of a node.
func (r *goRewriter) collect(root ast.Node) []edit {
	var edits []edit
	add := func(n ast.Node, text string) {
		start, end := r.unit.span(n)
		edits = append(edits, edit{start, end, text})
	}
	ast.Inspect(root, func(n ast.Node) bool {
		if !r.working() {
			return false
		}
		switch n := n.(type) {
		case *ast.BlockStmt:
			edits = append(edits, r.statements(n.List)...)
			return false
		case *ast.CaseClause:
			for _, e := range n.List {
				edits = append(edits, r.collect(e)...)
			}
			edits = append(edits, r.statements(n.Body)...)
			return false
		case *ast.CommClause:
			if n.Comm != nil {
				edits = append(edits, r.collect(n.Comm)...)
			}
			edits = append(edits, r.statements(n.Body)...)
			return false
		case *ast.ImportSpec:
			return false
		case *ast.AssignStmt: // in the header of an if, for or switch
			if lines, n2 := r.statement([]ast.Stmt{n}); n2 == 1 && len(lines) == 1 {
				add(n, lines[0])
				return false
			}
		case *ast.ValueSpec: // at package level
			if text, ok := r.valueSpec(n); ok {
				add(n, text)
				return false
			}
		case ast.Expr:
			if text, ok := r.expression(n); ok {
				add(n, text)
				return false
			}
		}
		return true
	})
	sortEdits(edits)
	return edits
}

// statements returns the edits of a list of statements.
func (r *goRewriter) statements(list []ast.Stmt) []edit {
	r.hoist(list)
	var edits []edit
	for i := 0; i < len(list); {
		s := list[i]
		start, end := r.unit.span(s)
		if r.removed[s] {
			edits = append(edits, lineEdit(r.f.source, start, end))
			i++
			continue
		}
		lines, n := r.statement(list[i:])
		if n == 0 {
			edits = append(edits, r.collect(s)...)
			i++
			continue
		}
		_, end = r.unit.span(list[i+n-1])
		if len(lines) == 0 {
			edits = append(edits, lineEdit(r.f.source, start, end))
		} else {
			edits = append(edits, edit{start, end, strings.Join(lines, "\n"+lineIndent(r.f.source, start))})
		}
		i += n
	}
	return edits
}

// call returns the call and its symbol if an expression is a call of a source library.
func (r *goRewriter) call(e ast.Expr) (*ast.CallExpr, string) {
	if c, ok := ast.Unparen(e).(*ast.CallExpr); ok {
		return c, r.symbol(c.Fun)
	}
	return nil, ""
}

// statement returns the lines that replace the first n statements of a list. n is 0 if no row applies.
func (r *goRewriter) statement(list []ast.Stmt) (lines []string, n int) {
	switch s := list[0].(type) {
	case *ast.ExprStmt:
		if lines, ok := r.chain(s.X); ok {
			return lines, 1
		}
		c, name := r.call(s.X)
		if row := goRows[name]; row.isStatement() {
			if lines, ok := r.called(c, row); ok {
				r.markName(c.Fun)
				return lines, 1
			}
			r.fail(c, "%s is used in a way that no table knows.", r.brief(c.Fun))
		}
	case *ast.DeferStmt:
		c, name := r.call(s.Call)
		if row := goRows[name]; row.isStatement() && row.to == "" {
			if lines, ok := r.called(c, row); ok && len(lines) == 1 && !strings.HasPrefix(lines[0], "if ") {
				r.markName(c.Fun)
				return []string{"defer " + lines[0]}, 1
			}
			r.fail(c, "%s is deferred in a way that no table knows.", r.brief(c.Fun))
		}
	case *ast.AssignStmt:
		if len(s.Rhs) != 1 {
			return nil, 0
		}
		c, name := r.call(s.Rhs[0])
		if row := goRows[name]; row.assign != nil || row.call != nil {
			if lines, n := r.assign(s, c, row, list[1:]); n > 0 {
				r.markName(c.Fun)
				return lines, n
			}
			if row.to == "" {
				r.fail(c, "%s is assigned in a way that no table knows.", r.brief(c.Fun))
			}
			return nil, 0
		}
		if r.config(s) || r.set(s) {
			return nil, 1
		}
		if name, ok := s.Lhs[0].(*ast.Ident); ok && len(s.Lhs) == 1 && r.options[r.object(name)] != nil {
			if lit, ok := s.Rhs[0].(*ast.CompositeLit); ok {
				r.mark(lit.Type)
				return r.setOptions(name, lit.Elts)
			}
			return r.setOptions(name, r.appended(s))
		}
		if len(s.Lhs) == 1 && r.unneeded[r.defined(s.Lhs[0])] {
			if name == "ot.GlobalTracer" || c == nil && r.symbol(s.Rhs[0]) != "" {
				r.mark(s)
				return nil, 1
			}
			return []string{"_ = " + r.text(s.Rhs[0])}, 1
		}
	case *ast.DeclStmt:
		d, ok := s.Decl.(*ast.GenDecl)
		if !ok || len(d.Specs) != 1 || d.Lparen.IsValid() {
			return nil, 0
		}
		if v, ok := d.Specs[0].(*ast.ValueSpec); ok {
			if r.options[r.info.Defs[v.Names[0]]] != nil {
				r.mark(v.Type)
				return r.setOptions(v.Names[0], nil)
			}
			if text, ok := r.valueSpec(v); ok {
				return []string{"var " + text}, 1
			}
		}
	case *ast.ReturnStmt:
		if len(s.Results) != 1 {
			return nil, 0
		}
		c, name := r.call(s.Results[0])
		if row := goRows[name]; row.call != nil {
			if lines, ok := r.returned(c, row); ok {
				r.markName(c.Fun)
				return lines, 1
			}
			r.fail(c, "%s is returned in a way that no table knows.", r.brief(c.Fun))
		}
	case *ast.IfStmt:
		init, ok := s.Init.(*ast.AssignStmt)
		if !ok || len(init.Rhs) != 1 || s.Else != nil {
			return nil, 0
		}
		if c, name := r.call(init.Rhs[0]); goRows[name].old == "err" && len(init.Lhs) == 1 && r.isError(s.Cond, init.Lhs[0]) {
			if text, ok := goRows[name].call(r, c); ok {
				r.markName(c.Fun)
				r.mark(s.Body)
				return []string{text}, 1
			}
			r.fail(c, "%s has an argument that no table knows.", r.brief(c.Fun))
		}
	}
	return nil, 0
}

// called returns the lines that replace a call that is a statement.
func (r *goRewriter) called(c *ast.CallExpr, row goRow) ([]string, bool) {
	if row.stmt != nil {
		return row.stmt(r, c)
	}
	text, ok := row.call(r, c)
	return []string{text}, ok
}

// assign returns the lines that replace an assignment of the results of a call, as goRow.assign does.
func (r *goRewriter) assign(s *ast.AssignStmt, c *ast.CallExpr, row goRow, rest []ast.Stmt) ([]string, int) {
	if row.assign != nil {
		return row.assign(r, s, c, rest)
	}
	old := strings.Split(row.old, ", ")
	if len(s.Lhs) != len(old) {
		return nil, 0
	}
	text, ok := row.call(r, c)
	if !ok {
		return nil, 0
	}
	left := renamed(row.new, func(name string) string { return r.text(s.Lhs[slices.Index(old, name)]) })
	if left != "" {
		text = left + " " + s.Tok.String() + " " + text
	}
	if !row.losesError() {
		return []string{text}, 1
	}
	err := s.Lhs[len(old)-1]
	n := r.errorTest(err, s, rest)
	switch {
	case n > 0 || isBlank(err):
		return []string{text}, 1 + n
	case left == "":
		return []string{text, fmt.Sprintf("%s %s error(nil)", r.text(err), s.Tok)}, 1
	}
	return []string{left + ", " + r.text(err) + strings.TrimPrefix(text, left) + ", error(nil)"}, 1
}

// returned returns the lines that replace a return of the results of a call.
func (r *goRewriter) returned(c *ast.CallExpr, row goRow) ([]string, bool) {
	text, ok := row.call(r, c)
	free := func(name string) string { return r.free(c, name) }
	switch {
	case row.old == row.new:
		return []string{"return " + text}, ok
	case row.new == "":
		return []string{text, "return nil"}, ok
	case row.losesError():
		return []string{"return " + text + ", nil"}, ok
	}
	return []string{renamed(row.new, free) + " := " + text, "return " + renamed(row.old, free)}, ok
}

// renamed returns a list of results with other names, except for the blank ones.
func renamed(results string, name func(string) string) string {
	return strings.Join(lists.Map(strings.Split(results, ", "), func(result string) string {
		if result == "_" || result == "" {
			return result
		}
		return name(result)
	}), ", ")
}

// free returns a variable name, based on name, that the function around a node does not use.
func (r *goRewriter) free(n ast.Node, name string) string {
	fn := r.function(n)
	if fn == nil {
		return name
	}
	used := map[string]bool{}
	r.inspect(fn, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			used[id.Name] = true
		}
		return true
	})
	for used[name] {
		name = "new" + strings.ToUpper(name[:1]) + name[1:]
	}
	return name
}

// valueSpec returns the new source of a variable whose value is a call that starts a span.
func (r *goRewriter) valueSpec(v *ast.ValueSpec) (string, bool) {
	if len(v.Names) != 1 || len(v.Values) != 1 {
		return "", false
	}
	c, name := r.call(v.Values[0])
	if c == nil || goRows[name].old != "span" {
		return "", false
	}
	text, ok := goRows[name].call(r, c)
	if !ok {
		return r.fail(c, "%s has an option that no table knows.", r.brief(c.Fun))
	}
	r.markName(c.Fun)
	if v.Type != nil {
		r.mark(v.Type)
	}
	return "_, " + v.Names[0].Name + " = " + text, true
}

// isErrorTest reports whether a statement is an if without else that tests an error.
func (r *goRewriter) isErrorTest(s ast.Stmt, err ast.Expr) bool {
	test, ok := s.(*ast.IfStmt)
	return ok && test.Init == nil && test.Else == nil && r.isError(test.Cond, err)
}

// isError reports whether a condition is err != nil, or begins with err != nil &&.
func (r *goRewriter) isError(cond, err ast.Expr) bool {
	b, ok := ast.Unparen(cond).(*ast.BinaryExpr)
	if !ok {
		return false
	}
	if b.Op == token.LAND {
		return r.isError(b.X, err)
	}
	x, ok := ast.Unparen(b.X).(*ast.Ident)
	y, isNil := ast.Unparen(b.Y).(*ast.Ident)
	return ok && isNil && b.Op == token.NEQ && y.Name == "nil" && r.object(x) != nil && r.object(x) == r.object(err)
}

// expression returns the new source of an expression. It returns false if no row applies.
func (r *goRewriter) expression(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.CallExpr:
		name := r.symbol(e.Fun)
		if name == "" {
			return "", false
		}
		row := goRows[name]
		switch {
		case row.expr != nil:
			text, ok := row.expr(r, e)
			if !ok {
				return r.fail(e, "%s is used in a way that no table knows.", r.brief(e.Fun))
			}
			r.markName(e.Fun)
			return text, true
		case row.to != "" && !row.value:
			r.markName(e.Fun)
			return r.fill(row.to, e), true
		case row.call != nil || row.stmt != nil || row.assign != nil:
			r.fail(e, "%s is part of an expression here: no table knows that form.", r.brief(e.Fun))
		}
	case *ast.StarExpr:
		if to := goPointers[r.symbol(e.X)]; to != "" && r.isType(e.X) {
			r.markName(e.X)
			return r.fill(to, nil), true
		}
	case *ast.SelectorExpr:
		return r.name(e)
	case *ast.Ident:
		if r.unneeded[r.info.Defs[e]] {
			return "_", true
		}
		return r.name(e)
	case *ast.CompositeLit:
		if e.Type != nil {
			if row := goRows[r.symbol(e.Type)]; row.literal != nil {
				if text, ok := row.literal(r, e); ok {
					r.markName(e.Type)
					return text, true
				}
			}
		}
	case *ast.BinaryExpr:
		y, ok := ast.Unparen(e.Y).(*ast.Ident)
		if x := r.object(e.X); ok && y.Name == "nil" && x != nil && r.found[x] && (e.Op == token.EQL || e.Op == token.NEQ) {
			not := ""
			if e.Op == token.EQL {
				not = "!"
			}
			return not + r.code(e.X) + ".SpanContext().IsValid()", true
		}
	}
	return "", false
}

func (r *goRewriter) isType(e ast.Expr) bool { return r.info.Types[e].IsType() }

// name returns the new source of a type or value of a source library.
func (r *goRewriter) name(e ast.Expr) (string, bool) {
	symbol := r.symbol(e)
	if symbol == "" {
		return "", false
	}
	if _, pointer := goPointers[symbol]; pointer && r.isType(e) && isStruct(r.info.TypeOf(e)) {
		return "", false
	}
	row := goRows[symbol]
	if !row.value || row.to == "" {
		return "", false
	}
	if s, ok := r.parents[e].(*ast.Field); ok && len(s.Names) == 0 && r.embedded(s) {
		return "", false // embedding adds the methods of the type
	}
	r.markName(e)
	return r.fill(row.to, e), true
}

// embedded reports whether a field without a name is embedded in a struct or interface.
func (r *goRewriter) embedded(f *ast.Field) bool {
	switch r.parents[r.parents[f]].(type) {
	case *ast.StructType, *ast.InterfaceType:
		return true
	}
	return false
}

func isStruct(t types.Type) bool {
	if t == nil {
		return false
	}
	_, ok := t.Underlying().(*types.Struct)
	return ok
}

// goPlaceholder matches a placeholder of a template.
var goPlaceholder = regexp.MustCompile(`@\w+|\$(?:scope|[x*\d])`)

// fill fills in a template: @name is a package, $0 to $9 are arguments, $* all arguments, $x the receiver, $scope the
// instrumentation scope.
func (r *goRewriter) fill(template string, e ast.Expr) string {
	call, _ := e.(*ast.CallExpr)
	if call != nil {
		e = call.Fun
	}
	return goPlaceholder.ReplaceAllStringFunc(template, func(p string) string {
		switch {
		case p[0] == '@':
			return r.use(p[1:])
		case p == "$scope":
			return r.scope()
		case p == "$*":
			return r.list(call, 0)
		case p == "$x":
			if s, ok := ast.Unparen(e).(*ast.SelectorExpr); ok {
				return r.text(s.X)
			}
		case int(p[1]-'0') < len(call.Args):
			return r.text(call.Args[p[1]-'0'])
		}
		return ""
	})
}

// list returns the new source of the arguments of a call from an index.
func (r *goRewriter) list(c *ast.CallExpr, from int) string {
	text := strings.Join(lists.Map(c.Args[from:], func(e ast.Expr) string { return r.text(e) }), ", ")
	if c.Ellipsis.IsValid() {
		text += "..."
	}
	return text
}

// scope returns the name of the instrumentation scope: the path of the package.
func (r *goRewriter) scope() string {
	return strconv.Quote(r.unit.importPath(directory(r.f.path)))
}

// known returns the value of a string constant.
func (r *goRewriter) known(e ast.Expr) (string, bool) {
	if v := r.info.Types[e].Value; v != nil && v.Kind() == constant.String {
		return constant.StringVal(v), true
	}
	return "", false
}

// method returns the receiver of a method call, or nil.
func method(c *ast.CallExpr) ast.Expr {
	if s, ok := ast.Unparen(c.Fun).(*ast.SelectorExpr); ok {
		return s.X
	}
	return nil
}

// simple reports whether an expression is a name or a chain of fields, so that its evaluation has no side effects.
func simple(e ast.Expr) bool {
	for {
		switch x := ast.Unparen(e).(type) {
		case *ast.Ident:
			return true
		case *ast.SelectorExpr:
			e = x.X
		default:
			return false
		}
	}
}

// verify blocks the unit for each use of a source library that no edit covers, and for each library value that leaves
// the module in a call or assignment.
func (r *goRewriter) verify() {
	blocked := map[ast.Node]bool{}
	ast.Inspect(r.f.tree, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.Ident:
			o := r.info.Uses[n]
			if o == nil || r.done[n] {
				return true
			}
			if p, ok := o.(*types.PkgName); ok {
				s, selected := r.parents[n].(*ast.SelectorExpr)
				if isGoSource(p.Imported().Path()) && selected && !r.done[s.Sel] && stubs().sources[p.Imported().Path()] != "" {
					r.unit.block(r.f, n, "%s is in no table.", r.brief(s))
					blocked[s.Sel] = true
				}
				return true
			}
			if o.Pkg() == nil || goSources[o.Pkg().Path()] == "" || blocked[n] {
				return true
			}
			if s, ok := r.parents[n].(*ast.SelectorExpr); ok && s.Sel == n {
				if r.isPackage(s.X) && !r.done[s.X.(*ast.Ident)] {
					return true // reported with its package
				}
				r.unit.block(r.f, n, "%s is in no table.", r.brief(s))
			} else {
				r.unit.block(r.f, n, "%s is in no table.", n.Name)
			}
		case *ast.CallExpr:
			r.leaving(n)
		case *ast.KeyValueExpr:
			if lit, ok := r.parents[n].(*ast.CompositeLit); ok && r.unknown(r.info.TypeOf(lit)) && fromSource(r.info.TypeOf(n.Value)) {
				r.unit.block(r.f, n, "%s gets a value of the library, and its type is of a package that is not read.", r.brief(n.Key))
			}
		case *ast.AssignStmt:
			for i := range n.Lhs {
				if len(n.Lhs) == len(n.Rhs) && n.Tok == token.ASSIGN && r.unknown(r.info.TypeOf(n.Lhs[i])) && !isBlank(n.Lhs[i]) && fromSource(r.info.TypeOf(n.Rhs[i])) {
					r.unit.block(r.f, n, "%s gets a value of the library, and its type is of a package that is not read.", r.brief(n.Lhs[i]))
				}
			}
		}
		return true
	})
}

func isBlank(e ast.Expr) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == "_"
}

func (r *goRewriter) isPackage(e ast.Expr) bool {
	id, ok := e.(*ast.Ident)
	if !ok {
		return false
	}
	_, ok = r.info.Uses[id].(*types.PkgName)
	return ok
}

func (r *goRewriter) unknown(t types.Type) bool {
	return t == nil || t == types.Typ[types.Invalid]
}

// leaving blocks the unit for a call that passes a value of a source library to a function of unknown type, and for a
// call that may be of a span method on a value of unknown type.
func (r *goRewriter) leaving(c *ast.CallExpr) {
	if !r.unknown(r.info.TypeOf(c.Fun)) {
		return
	}
	for _, a := range c.Args {
		if t := r.info.TypeOf(a); fromSource(t) && !r.covered(a) && !(isID(t) && r.prints(c)) && !(isCarrier(t) && r.takesMap(c)) {
			r.unit.block(r.f, a, "%s is passed to %s, a function of a package that is not read.", r.brief(a), r.brief(c.Fun))
		}
	}
	if s, ok := c.Fun.(*ast.SelectorExpr); ok && goSpanMethods[s.Sel.Name] && !r.isPackage(s.X) && r.f.imported(isGoSource) && !r.done[s.Sel] && !r.mocks(s.X) {
		r.unit.block(r.f, c, "%s may be a method of a span: the type of %s is not known.", r.brief(c.Fun), r.brief(s.X))
	}
}

// mocks reports whether an expression is a gomock controller: its Finish does not end a span.
func (r *goRewriter) mocks(e ast.Expr) bool {
	c, ok := r.assigned(e).(*ast.CallExpr)
	if !ok {
		return false
	}
	p, name := r.qualified(c)
	return path.Base(p) == "gomock" && name == "NewController"
}

// isID reports whether a type is a trace or span id, whose text stays the same.
func isID(t types.Type) bool {
	name := typeName(t)
	_, pointer := types.Unalias(t).(*types.Pointer)
	return !pointer && (name == "TraceID" || name == "SpanID")
}

// isCarrier reports whether a type is a carrier of headers or a map. Its underlying type stays the same.
func isCarrier(t types.Type) bool {
	n, ok := types.Unalias(t).(*types.Named)
	if !ok || n.Obj().Pkg() == nil {
		return false
	}
	name := n.Obj().Name()
	return goSources[n.Obj().Pkg().Path()] != "" && (name == "TextMapCarrier" || name == "HTTPHeadersCarrier")
}

// qualified returns the package and the name of a function that is called with the name of its package, otherwise "".
func (r *goRewriter) qualified(c *ast.CallExpr) (pkg, name string) {
	s, ok := c.Fun.(*ast.SelectorExpr)
	if !ok || !r.isPackage(s.X) {
		return "", ""
	}
	return r.info.Uses[s.X.(*ast.Ident)].(*types.PkgName).Imported().Path(), s.Sel.Name
}

// takesMap reports whether a call is of a package of the standard library or of metadata of gRPC, which take maps and
// know no carriers.
func (r *goRewriter) takesMap(c *ast.CallExpr) bool {
	p, _ := r.qualified(c)
	return p == "google.golang.org/grpc/metadata" || p != "" && isStd(p)
}

// prints reports whether a call is of package fmt or log, which only format their arguments.
func (r *goRewriter) prints(c *ast.CallExpr) bool {
	p, _ := r.qualified(c)
	return p == "fmt" || p == "log"
}

// covered reports whether a row replaces an expression of a source library's type with an expression of a plain type.
func (r *goRewriter) covered(e ast.Expr) bool {
	c, name := r.call(e)
	return c != nil && goRows[name].to != "" && goRows[name].plain
}
