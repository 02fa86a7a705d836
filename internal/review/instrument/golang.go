// SPDX-License-Identifier: Apache-2.0

package instrument

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/aymanbagabas/go-udiff"
	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"

	"assay"
	"assay/internal/review/configfile"
	"assay/internal/review/instrumentation"
	"assay/internal/review/patch"
	"assay/internal/review/syntax"
	"assay/internal/review/treesitter"
)

// Paths of modules and packages.
const (
	goRoot     = "go.opentelemetry.io/otel"
	goContribs = "go.opentelemetry.io/contrib/instrumentation/"
	goHTTP     = goContribs + "net/http/otelhttp"
	goGRPC     = goContribs + "google.golang.org/grpc/otelgrpc"
	goGin      = goContribs + "github.com/gin-gonic/gin/otelgin"
	goOTelSQL  = "github.com/XSAM/otelsql"
)

// goVersions are the modules that a change may add.
var goVersions = map[string]string{
	goRoot: goOTel,
	goRoot + "/exporters/otlp/otlpmetric/otlpmetrichttp": goOTel,
	goRoot + "/exporters/otlp/otlptrace/otlptracehttp":   goOTel,
	goRoot + "/sdk":        goOTel,
	goRoot + "/sdk/metric": goOTel,
	goContribs + "runtime": goContrib,
	goHTTP:                 goContrib,
	goGRPC:                 goContrib,
	goGin:                  goOTelGin,
	goOTelSQL:              goSQL,
}

// goSetup are the modules that the setup of the SDK needs.
var goSetup = []string{
	goRoot, goRoot + "/sdk", goRoot + "/sdk/metric", goRoot + "/exporters/otlp/otlpmetric/otlpmetrichttp", goRoot + "/exporters/otlp/otlptrace/otlptracehttp", goContribs + "runtime",
}

// goDrivers are the values of db.system.name by the names of drivers of database/sql.
var goDrivers = map[string]string{
	"postgres": "postgresql", "pgx": "postgresql", "mysql": "mysql", "sqlite": "sqlite", "sqlite3": "sqlite", "sqlserver": "microsoft.sql_server", "clickhouse": "clickhouse", "oracle": "oracle.db",
}

// golang instruments a service in Go.
func (s *service) golang(m *configfile.File) (bool, error) {
	var files []*source
	for _, name := range s.paths() {
		if err := s.ctx.Err(); err != nil {
			return false, err
		}
		text, err := patch.Read(s.root, name)
		if err != nil {
			continue // a review says so
		}
		if f, err := syntax.ParseGo(name, text); err == nil && !f.Broken {
			if u := instrumentation.Find(f, nil); f.Package == "main" || len(u.Boundaries) > 0 {
				files = append(files, &source{f, u})
			}
		}
	}
	mains, boundaries := 0, 0
	for _, f := range files {
		if mainOf(f.File) != nil {
			mains++
		}
		boundaries += len(f.uses.Boundaries)
	}
	if mains == 0 || boundaries == 0 {
		return false, nil // a library, or programs that serve nothing
	}
	var added []string
	if found, ok := s.has(goRoot+"/sdk", "go.opentelemetry.io/contrib/otelconf", "gopkg.in/DataDog/dd-trace-go", "github.com/DataDog/dd-trace-go"); ok {
		s.leave(m.Path, 0, "No setup of the SDK is added: the module requires `"+found+"`")
	} else {
		for _, f := range files {
			if start := mainOf(f.File); start != nil && (mains == 1 || serves(files, path.Dir(f.Path))) && s.setUp(f, start) {
				added = goSetup
			}
		}
	}
	if s.kind == General {
		for _, f := range files {
			added = append(added, s.wrap(f)...)
		}
	}
	for _, f := range files {
		if f.Exhausted() {
			return false, assay.Errorf(assay.CodeUnprocessable, "%s: %w", f.Path, treesitter.ErrTooComplex)
		}
	}
	if len(added) > 0 {
		if err := s.require(m, added); err != nil {
			return false, err
		}
	}
	s.deployments()
	return true, nil
}

// serves reports whether a package has a server or client of its own.
func serves(files []*source, dir string) bool {
	return slices.ContainsFunc(files, func(f *source) bool { return path.Dir(f.Path) == dir && len(f.uses.Boundaries) > 0 })
}

// mainOf returns the function main of a program, or nil.
func mainOf(f *syntax.File) *syntax.Node {
	if f.Package != "main" {
		return nil
	}
	for _, n := range f.Root.Children {
		if n.Kind == syntax.Func && n.Text == "main" && len(n.Params()) == 0 && n.Body() != nil {
			return n
		}
	}
	return nil
}

// setUp adds the setup of the SDK to a program.
func (s *service) setUp(f *source, start *syntax.Node) bool {
	dir := path.Dir(f.Path)
	file := path.Join(dir, "telemetry.go")
	if _, err := s.root.Lstat(file); err == nil {
		if file = path.Join(dir, "otel_setup.go"); s.existsAt(file) {
			s.leave(f.Path, 0, "No setup of the SDK is added: the files `telemetry.go` and `otel_setup.go` exist")
			return false
		}
	}
	if !free(f, "startTelemetry") {
		s.leave(f.Path, 0, "No setup of the SDK is added: the program has a function `startTelemetry`")
		return false
	}
	body := start.Body()
	at := body.Start + 1
	if body.Start >= len(f.Source) || f.Source[body.Start] != '{' {
		return false
	}
	name := s.name
	if dir != s.dir && path.Base(dir) != "cmd" {
		name = path.Base(dir) // cmd/NAME
	}
	text := strings.Replace(goTelemetry, "%NAME%", strconv.Quote(name), 1)
	p := patch.Create(file, []byte(text))
	s.files[file] = &p
	s.did(file, 0, "Set the SDK up: traces and metrics by OTLP over HTTP, configured by `OTEL_*` variables; metrics of the Go runtime")
	end := newline(f.Source)
	statement := "\tdefer startTelemetry()()" + end
	if bytes.HasPrefix(f.Source[at:], []byte(end)) {
		at += len(end)
		statement += end
	} else {
		statement = end + statement
	}
	s.edit(f.Path, f.Source, at, at, statement)
	line, _ := f.Position(start.Start)
	s.did(f.Path, line, "Start the SDK when the program starts, and send what is left when it ends")
	for c := range start.All() {
		if c.Kind == syntax.Call {
			if code := f.Code(c.Callee()); code == "os.Exit" || strings.HasPrefix(code, "log.Fatal") {
				line, _ := f.Position(c.Start)
				s.leave(f.Path, line, "`"+code+"` ends the program without the deferred calls: telemetry of the last seconds is lost then")
				break
			}
		}
	}
	return true
}

func (p *plan) existsAt(name string) bool {
	_, err := p.root.Lstat(name)
	return err == nil
}

// require adds modules to go.mod.
func (s *service) require(m *configfile.File, modules []string) error {
	f, err := modfile.Parse(m.Path, m.Source, nil)
	if err != nil {
		return assay.Errorf(assay.CodeUnprocessable, "read %s: it has a syntax error", m.Path)
	}
	slices.Sort(modules)
	var names []string
	for _, module := range slices.Compact(modules) {
		i := slices.IndexFunc(f.Require, func(r *modfile.Require) bool { return r.Mod.Path == module })
		if i >= 0 && semver.Compare(f.Require[i].Mod.Version, goVersions[module]) >= 0 {
			continue
		}
		if err := f.AddRequire(module, goVersions[module]); err != nil {
			return fmt.Errorf("require %s: %w", module, err)
		}
		names = append(names, "`"+module+"`")
	}
	if len(names) == 0 {
		return nil
	}
	f.SetRequireSeparateIndirect(f.Require)
	f.Cleanup()
	after, err := f.Format()
	if err != nil {
		return fmt.Errorf("format %s: %w", m.Path, err)
	}
	s.file(m.Path, m.Source).Edits = udiff.Lines(string(m.Source), string(after))
	s.did(m.Path, 0, "Require "+strings.Join(names, ", "))
	note := "Run `go mod tidy`, which adds what these modules require to go.mod and go.sum"
	if f.Go != nil && semver.Compare("v"+f.Go.Version, "v"+goRelease) < 0 {
		note += " and raises the Go version of the module from " + f.Go.Version + " to " + goRelease
	}
	s.leave(m.Path, 0, note)
	return nil
}

// wrap adds instrumentation to the servers and clients of a file and returns the modules for it.
func (s *service) wrap(f *source) (modules []string) {
	imports := map[string]string{}
	replaced := false
	for n, b := range f.uses.Boundaries {
		if n == maxBoundaries || s.ctx.Err() != nil {
			s.leave(f.Path, 0, fmt.Sprintf("More than %d servers and clients in one file: the others are left", maxBoundaries))
			break
		}
		if b.Instrumented || b.Library == "github.com/gin-gonic/gin" && imported(f, goGin) != "" || b.Node.Kind != syntax.Call && b.Node.Kind != syntax.Object {
			continue
		}
		w, known := goWrapper(f, b)
		line, _ := f.Position(b.Node.Start)
		if !known {
			s.leave(f.Path, line, fmt.Sprintf("Instrument the %s of `%s`: the change knows no instrumentation for it, or not for this form of code", b.Kind, b.Library))
			continue
		}
		if !free(f, path.Base(w.module)) {
			s.leave(f.Path, line, fmt.Sprintf("Instrument the %s of `%s`: the name `%s` is taken in this file", b.Kind, b.Library, path.Base(w.module)))
			continue
		}
		for _, e := range w.edits {
			s.edit(f.Path, f.Source, e.Start, e.End, e.New)
		}
		imports[w.module] = path.Base(w.module)
		if len(w.edits) > 1 && w.module == goOTelSQL {
			imports[goRoot+"/attribute"] = "attribute"
			modules = append(modules, goRoot)
		}
		replaced = replaced || w.module == goOTelSQL
		s.did(f.Path, line, fmt.Sprintf("Instrument the %s of `%s` by `%s`", b.Kind, b.Library, w.module))
		modules = append(modules, w.module)
	}
	if len(imports) == 0 {
		return nil
	}
	if e, ok := importEdit(f.File, imports); ok {
		s.edit(f.Path, f.Source, e.Start, e.End, e.New)
	}
	if replaced { // sql.Open may have been the only use of its package
		c := s.file(f.Path, f.Source)
		if c.Apply() != nil || !c.TidyGo() {
			delete(s.files, f.Path)
			s.leave(f.Path, 0, "The file is left: it would not compile")
			return nil
		}
	}
	return modules
}

// maxBoundaries limits the servers and clients of a file that are instrumented.
const maxBoundaries = 100

// wrapper is the instrumentation of a server or client.
type wrapper struct {
	module string
	edits  []udiff.Edit
}

// goWrapper returns the instrumentation of a boundary.
func goWrapper(f *source, b instrumentation.Boundary) (wrapper, bool) {
	n := b.Node
	around := func(x *syntax.Node) wrapper {
		if x.Kind == syntax.Null {
			return wrapper{goHTTP, []udiff.Edit{{Start: x.Start, End: x.End, New: `otelhttp.NewHandler(http.DefaultServeMux, "server")`}}}
		}
		return wrapper{goHTTP, []udiff.Edit{{Start: x.Start, End: x.Start, New: "otelhttp.NewHandler("}, {Start: x.End, End: x.End, New: `, "server")`}}}
	}
	if n.Kind == syntax.Object {
		if h := n.Get("Handler"); h != nil && b.Library == "net/http" {
			return around(h), true
		}
		return wrapper{}, false
	}
	_, called := n.Method()
	args := n.Args()
	open := n.Callee().End + 1
	if open >= len(f.Source) || f.Source[open-1] != '(' { // type arguments
		return wrapper{}, false
	}
	if slices.ContainsFunc(args, func(a *syntax.Node) bool { return a.Kind == syntax.Spread }) {
		return wrapper{}, false // nothing can stand beside it
	}
	switch b.Library + "." + called {
	case "net/http.ListenAndServe", "net/http.Serve":
		if len(args) == 2 && (args[1].Kind != syntax.Null || imported(f, "net/http") == "http") {
			return around(args[1]), true
		}
	case "net/http.ListenAndServeTLS":
		if len(args) == 4 && (args[3].Kind != syntax.Null || imported(f, "net/http") == "http") {
			return around(args[3]), true
		}
	case "google.golang.org/grpc.NewServer":
		if grpc := imported(f, "google.golang.org/grpc"); grpc != "" {
			option := grpc + ".StatsHandler(otelgrpc.NewServerHandler())"
			if len(args) > 0 {
				option += ", "
			}
			return wrapper{goGRPC, []udiff.Edit{{Start: open, End: open, New: option}}}, true
		}
	case "database/sql.Open":
		if len(args) == 2 {
			w := wrapper{goOTelSQL, []udiff.Edit{{Start: n.Callee().Start, End: n.Callee().End, New: "otelsql.Open"}}}
			if driver, known := f.uses.Known(args[0]); known && goDrivers[driver] != "" && (imported(f, goRoot+"/attribute") != "" || free(f, "attribute")) {
				attribute := cmp.Or(imported(f, goRoot+"/attribute"), "attribute")
				w.edits = append(w.edits, udiff.Edit{Start: args[1].End, End: args[1].End, New: ", otelsql.WithAttributes(" + attribute + `.String("db.system.name", "` + goDrivers[driver] + `"))`})
			}
			return w, true
		}
	case "github.com/gin-gonic/gin.Default", "github.com/gin-gonic/gin.New":
		return middleware(f, n, goGin, "otelgin")
	}
	return wrapper{}, false
}

// middleware adds a statement after the definition of a router.
func middleware(f *source, n *syntax.Node, module, name string) (wrapper, bool) {
	def := n.Parent
	if def == nil || def.Kind != syntax.Assign || len(def.Targets()) != 1 || def.Targets()[0].Kind != syntax.Name || def.Value() != n || def.Parent == nil || def.Parent.Kind != syntax.Block || def.Parent.Parent == nil {
		return wrapper{}, false
	}
	indent, alone := indentOf(f.Source, def.Start)
	if !alone {
		return wrapper{}, false
	}
	statement := newline(f.Source) + indent + def.Targets()[0].Text + ".Use(" + name + ".Middleware(\"server\"))"
	return wrapper{module, []udiff.Edit{{Start: def.End, End: def.End, New: statement}}}, true
}

// imported returns the name of a package in a file, "" if it has none.
func imported(f *source, module string) string {
	for _, i := range f.Imports {
		if i.Path == module && i.Name != "_" && i.Name != "." {
			return i.Name
		}
	}
	return ""
}

// free reports whether no other thing in a file has a name.
func free(f *source, name string) bool {
	for n := range f.Root.All() {
		if n.Kind == syntax.Name && n.Text == name || n.Kind == syntax.Param && n.Text == name || n.Kind == syntax.Func && n.Text == name {
			return false
		}
	}
	return !slices.ContainsFunc(f.Imports, func(i syntax.Import) bool { return i.Name == name })
}

// importEdit adds imports in a group of their own at the end of the first declaration.
func importEdit(f *syntax.File, imports map[string]string) (udiff.Edit, bool) {
	parsed, err := parser.ParseFile(token.NewFileSet(), "", f.Source, parser.ImportsOnly)
	if err != nil {
		return udiff.Edit{}, false
	}
	var paths []string
	for p := range imports {
		if !slices.ContainsFunc(parsed.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == strconv.Quote(p) }) {
			paths = append(paths, strconv.Quote(p))
		}
	}
	if len(paths) == 0 {
		return udiff.Edit{}, false
	}
	slices.Sort(paths)
	end := newline(f.Source)
	for _, d := range parsed.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.IMPORT {
			continue
		}
		if g.Lparen.IsValid() {
			at := int(g.Rparen) - 1
			if indent, alone := indentOf(f.Source, at); alone {
				return udiff.Edit{Start: at - len(indent), End: at - len(indent), New: end + "\t" + strings.Join(paths, end+"\t") + end}, true
			}
			continue
		}
		from, to := int(g.Specs[0].Pos())-1, int(g.Specs[0].End())-1
		spec := string(f.Source[from:to])
		if rest := f.Source[to:]; bytes.HasPrefix(bytes.TrimLeft(rest, " \t"), []byte("\n")) || bytes.HasPrefix(bytes.TrimLeft(rest, " \t"), []byte("\r\n")) {
			return udiff.Edit{Start: from, End: to, New: "(" + end + "\t" + spec + end + end + "\t" + strings.Join(paths, end+"\t") + end + ")"}, true
		}
	}
	return udiff.Edit{}, false
}

// goTelemetry is the setup of the SDK.
const goTelemetry = `package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/runtime"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
)

// startTelemetry sends traces and metrics of the program by OTLP. OTEL_EXPORTER_OTLP_ENDPOINT,
// OTEL_RESOURCE_ATTRIBUTES and the other variables of the OpenTelemetry SDK configure it. The returned function sends
// what is left.
func startTelemetry() (stop func()) {
	ctx := context.Background()
	var ends []func(context.Context) error
	stop = func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		var err error
		for _, end := range ends {
			err = errors.Join(err, end(ctx))
		}
		if err != nil {
			slog.Error("failed to send telemetry", "error", err)
		}
	}
	res, err := resource.New(ctx,
		resource.WithService(), // a name for the program, and an id for the instance
		resource.WithAttributes(attribute.String("service.name", %NAME%)),
		resource.WithFromEnv(), // OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES
		resource.WithTelemetrySDK(),
	)
	if err != nil {
		slog.Warn("failed to read some attributes of the resource", "error", err)
	}
	otel.SetTextMapPropagator(propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{}))
	if exporter, err := otlptracehttp.New(ctx); err != nil {
		slog.Error("failed to set traces up", "error", err)
	} else {
		provider := trace.NewTracerProvider(trace.WithBatcher(exporter), trace.WithResource(res))
		otel.SetTracerProvider(provider)
		ends = append(ends, provider.Shutdown)
	}
	if exporter, err := otlpmetrichttp.New(ctx); err != nil {
		slog.Error("failed to set metrics up", "error", err)
	} else {
		provider := metric.NewMeterProvider(metric.WithReader(metric.NewPeriodicReader(exporter)), metric.WithResource(res))
		otel.SetMeterProvider(provider)
		ends = append(ends, provider.Shutdown)
		if err := runtime.Start(); err != nil {
			slog.Error("failed to observe the Go runtime", "error", err)
		}
	}
	return stop
}
`
