// SPDX-License-Identifier: Apache-2.0

package instrument

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/build"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"io"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/aymanbagabas/go-udiff"
	"golang.org/x/mod/modfile"
	xmodule "golang.org/x/mod/module"

	"assay"
	"assay/internal/lists"
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
	goEcho     = goContribs + "github.com/labstack/echo/otelecho"
	goMux      = goContribs + "github.com/gorilla/mux/otelmux"
	goMongo    = goContribs + "go.mongodb.org/mongo-driver/mongo/otelmongo"
	goAWS      = goContribs + "github.com/aws/aws-sdk-go-v2/otelaws"
	goOTelSQL  = "github.com/XSAM/otelsql"
	goPgx      = "github.com/exaring/otelpgx"
	goRedis    = "github.com/redis/go-redis/extra/redisotel/v9"
	goGorm     = "gorm.io/plugin/opentelemetry"
	goConnect  = "connectrpc.com/otelconnect"
	goKotel    = "github.com/twmb/franz-go/plugin/kotel"
	goFiber    = "github.com/gofiber/contrib"
)

// goVersions are the modules that a change may add.
var goVersions = map[string]string{
	goRoot: goOTel,
	goRoot + "/exporters/otlp/otlpmetric/otlpmetrichttp": goOTel,
	goRoot + "/exporters/otlp/otlptrace/otlptracehttp":   goOTel,
	goRoot + "/sdk":        goOTel,
	goRoot + "/sdk/metric": goOTel,
	goRoot + "/metric":     goOTel,
	goRoot + "/trace":      goOTel,
	goContribs + "runtime": goContrib,
	goHTTP:                 goContrib,
	goGRPC:                 goContrib,
	goAWS:                  goContrib,
	goGin:                  goOTelGin,
	goEcho:                 goOTelEcho,
	goMux:                  goOTelMux,
	goMongo:                goOTelMongo,
	goOTelSQL:              goSQL,
	goPgx:                  goOTelPgx,
	goGorm:                 goGormOTel,
	goConnect:              goOTelConnect,
	goKotel:                goFranzOTel,
}

// goReleases are the other modules of OpenTelemetry that belong to the release of goOTel, with their versions in it.
var goReleases = map[string]string{
	goRoot + "/bridge/opentracing":                       goOTel,
	goRoot + "/exporters/otlp/otlplog/otlploggrpc":       goOTelLog,
	goRoot + "/exporters/otlp/otlplog/otlploghttp":       goOTelLog,
	goRoot + "/exporters/otlp/otlpmetric/otlpmetricgrpc": goOTel,
	goRoot + "/exporters/otlp/otlptrace":                 goOTel,
	goRoot + "/exporters/otlp/otlptrace/otlptracegrpc":   goOTel,
	goRoot + "/exporters/prometheus":                     goOTelPrometheus,
	goRoot + "/exporters/stdout/stdoutlog":               goOTelLog,
	goRoot + "/exporters/stdout/stdoutmetric":            goOTel,
	goRoot + "/exporters/stdout/stdouttrace":             goOTel,
	goRoot + "/exporters/zipkin":                         goOTel,
	goRoot + "/log":                                      goOTel,
	goRoot + "/sdk/log":                                  goOTel,
}

// goSetup are the modules that the setup of the SDK needs.
var goSetup = []string{
	goRoot, goRoot + "/sdk", goRoot + "/sdk/metric", goRoot + "/exporters/otlp/otlpmetric/otlpmetrichttp", goRoot + "/exporters/otlp/otlptrace/otlptracehttp", goContribs + "runtime",
}

// goDrivers are the values of db.system.name by the names of drivers of database/sql.
var goDrivers = map[string]string{
	"postgres": "postgresql", "pgx": "postgresql", "mysql": "mysql", "sqlite": "sqlite", "sqlite3": "sqlite", "sqlserver": "microsoft.sql_server", "clickhouse": "clickhouse", "oracle": "oracle.db",
}

// goVendors are prefixes of modules with the tracers of vendors, and with libraries before OpenTelemetry.
var goVendors = []string{
	"gopkg.in/DataDog/dd-trace-go", "github.com/DataDog/dd-trace-go", "github.com/newrelic/go-agent", "go.elastic.co/apm", "github.com/getsentry/sentry-go",
	"github.com/instana/go-sensor", "github.com/signalfx/signalfx-go-tracing", "github.com/honeycombio/beeline-go",
	"github.com/opentracing/opentracing-go", "github.com/uber/jaeger-client-go", "github.com/openzipkin/zipkin-go", "go.opencensus.io",
}

// golang instruments a service in Go.
func (s *service) golang(m *configfile.File) (bool, error) {
	module := newGoModule(s.dir, modfile.ModulePath(m.Source))
	files, err := s.goFiles(module)
	if err != nil {
		return false, err
	}
	programs, boundaries := lists.Filter(files, func(f *goFile) bool { return mainOf(f.File) != nil }), 0
	for _, f := range files {
		boundaries += f.serves()
	}
	if slices.ContainsFunc(programs, func(f *goFile) bool { return f.builtFor("linux") }) { // generators, for example, need build tags
		programs = slices.DeleteFunc(programs, func(f *goFile) bool { return !f.builtFor("linux", "windows", "darwin") })
	}
	dirs := lists.Map(programs, func(f *goFile) string { return path.Dir(f.Path) })
	slices.Sort(dirs)
	dirs = slices.Compact(dirs)
	mains := len(dirs)
	if boundaries > 0 && mains == 0 && s.kind == General && s.required(module.path) {
		s.leave(m.Path, 0, "The servers and clients of the module are left: its programs are in other modules")
	}
	serving := boundaries > 0
	if mains > 0 && !serving {
		if serving, err = s.servesElsewhere(m, files); err != nil {
			return false, err
		}
	}
	if mains == 0 || !serving {
		return false, nil // a library, or programs that serve nothing
	}
	before := s.draft()
	vendor, traced := s.setUpBy(goVendors...)
	since, old := s.requiresOld()
	var added []string
	found, own := s.setUpBy(append([]string{goRoot + "/sdk", "go.opentelemetry.io/contrib/otelconf"}, goVendors...)...)
	switch {
	case own:
		s.leave(m.Path, 0, "No setup of the SDK is added: the module requires "+found)
	case old:
		s.leave(m.Path, 0, "No setup of the SDK is added: "+since)
	case module.starts.file != "":
		own = true
		s.leave(module.starts.file, module.starts.line, "No setup of the SDK is added: the library that this code calls may set it up")
	default:
		names := s.programNames(lists.Filter(dirs, func(dir string) bool { return mains == 1 || serves(files, dir) }))
		for _, f := range programs {
			if name, ok := names[path.Dir(f.Path)]; ok && s.setUp(f, mainOf(f.File), name) {
				added = goSetup
			}
		}
	}
	started := len(added) > 0
	if !started && !own && !old && mains > 1 {
		s.leave(m.Path, 0, "No setup of the SDK is added: the module has several programs, and the servers of none are in its package main")
	}
	switch {
	case s.kind != General || module.path == "":
	case xmodule.CheckImportPath(module.path) != nil:
		s.leave(m.Path, 0, "No server or client is instrumented: the path of the module is not valid")
	case traced:
		s.leave(m.Path, 0, "No server or client is instrumented: "+vendor+" traces them")
	case old:
		s.leave(m.Path, 0, "No server or client is instrumented: "+since)
	default:
		added = append(added, s.goBoundaries(module, files)...)
	}
	for _, f := range programs {
		if started && mains > 1 && !serves(files, path.Dir(f.Path)) && s.uses(module, files, f) {
			s.leave(f.Path, lineOf(f.Source, mainOf(f.File).Start), "Set up the SDK if the program is a service: its servers and clients are in other packages")
		}
	}
	for _, f := range files {
		if f.Exhausted() {
			return false, assay.Errorf(assay.CodeUnprocessable, "%s: %w", f.Path, treesitter.ErrTooComplex)
		}
	}
	if err := s.ctx.Err(); err != nil {
		return false, err
	}
	if len(added) > 0 {
		switch raised, blocked, err := s.require(m, added); {
		case err != nil:
			return false, err
		case blocked != "":
			s.discard(before)
			s.leave(m.Path, 0, blocked)
			return true, nil
		default:
			s.goImages(m, raised)
		}
	}
	if !own && !old {
		s.deployments(s.dockerfiles(runtimeGo), nil)
	}
	return true, nil
}

var (
	// goStart matches functions that set up the SDK, by name. goStartIn matches the others of packages that goStarter
	// matches.
	goStart   = regexp.MustCompile(`^(Setup|SetUp|Init|Start|Configure)\w*(Telemetry|Tracing|Tracer|O[Tt]el|O[Pp]en[Tt]elemetry|Observability)`)
	goStartIn = regexp.MustCompile(`^(Setup|SetUp|Init|Initialize|Configure|Start)$`)
	goStarter = regexp.MustCompile(`(^|/)(telemetry|tracing|otel|opentelemetry|observability)$`)
)

// startOf returns the first call of a file that may set up the SDK in a library: a function such as SetupTelemetry, of a
// package of another module. It returns the zero place if there is none.
func (m *goModule) startOf(f *syntax.File) place {
	for n := range f.Root.All(syntax.Call) {
		recv, name := n.Method()
		if recv == nil || recv.Kind != syntax.Name || !goStart.MatchString(name) && !goStartIn.MatchString(name) {
			continue
		}
		i, ok := f.Imported(recv.Text)
		first, _, _ := strings.Cut(i.Path, "/")
		if !ok || !strings.Contains(first, ".") || i.Path == m.path || strings.HasPrefix(i.Path, m.path+"/") || strings.HasPrefix(i.Path, "go.opentelemetry.io/") || first == "golang.org" {
			continue
		}
		if goStart.MatchString(name) || goStarter.MatchString(goMajor.ReplaceAllString(i.Path, "")) {
			return place{f.Path, f.LineOf(n.Start)}
		}
	}
	return place{}
}

// requiresOld reports whether the module requires a version of OpenTelemetry before its first stable one. The API of
// the version that a change needs is another one, so it does not raise the version.
func (s *service) requiresOld() (reason string, ok bool) {
	for _, d := range s.dependencies() {
		if !d.Indirect && strings.HasPrefix(d.Version, "v0.") && strings.HasPrefix(goVersions[d.Name], "v1.") && strings.HasPrefix(d.Name, goRoot) {
			return "the module requires `" + d.Name + "` " + d.Version + ", whose API has changed since", true
		}
	}
	return "", false
}

// required reports whether another project of the repository requires a module or package.
func (s *service) required(module string) bool {
	return slices.ContainsFunc(s.configs, func(f *configfile.File) bool {
		return f.Ecosystem == s.manifests[0].Ecosystem && slices.ContainsFunc(f.Dependencies, func(d configfile.Dependency) bool { return d.Name == module })
	})
}

// servesElsewhere reports whether programs import a package of another module of the repository that has servers,
// consumers, jobs or databases.
func (s *service) servesElsewhere(m *configfile.File, files []*goFile) (bool, error) {
	for _, other := range s.configs {
		if other.Ecosystem != configfile.Go {
			continue
		}
		name, dir := modfile.ModulePath(other.Source), path.Dir(other.Path)
		if !slices.ContainsFunc(m.Dependencies, func(d configfile.Dependency) bool { return d.Name == name }) {
			continue
		}
		packages, ok := s.served[dir]
		if !ok {
			found, err := (&service{plan: s.plan, dir: dir, manifests: []*configfile.File{other}}).goFiles(newGoModule(dir, name))
			if err != nil {
				return false, err
			}
			for _, f := range found {
				if f.serves() > 0 {
					packages = append(packages, path.Join(name, strings.TrimPrefix(path.Join("/", path.Dir(f.Path)), path.Join("/", dir))))
				}
			}
			s.served[dir] = packages
		}
		if slices.ContainsFunc(files, func(f *goFile) bool {
			return slices.ContainsFunc(f.Imports, func(i syntax.Import) bool { return slices.Contains(packages, i.Path) })
		}) {
			return true, nil
		}
	}
	return false, nil
}

// goFiles returns the files of a module with a function main, a server or client, or instrumentation.
func (s *service) goFiles(m *goModule) ([]*goFile, error) {
	var files []*goFile
	_, sdk := s.has(goRoot + "/sdk") // also of other modules
	_, exports := s.has(goRoot + "/exporters/")
	size := 0
	for _, name := range s.paths() {
		if err := s.ctx.Err(); err != nil {
			return nil, err
		}
		text, err := patch.Read(s.root, name)
		if err != nil || path.Dir(name) == path.Join(s.dir, goHelperDir) {
			continue // a review reports files that it cannot read
		}
		parsed, err := syntax.ParseGo(name, text)
		if err != nil || parsed.Broken {
			continue
		}
		if sdk && exports && m.starts.file == "" && !notCode.MatchString(name) {
			m.starts = m.startOf(parsed)
		}
		f := &goFile{source: &source{parsed, instrumentation.Find(parsed, nil)}, imports: map[string]string{}, routers: map[string]bool{}}
		keep := parsed.Package == "main" || len(f.uses.Boundaries) > 0
		f.declared = m.declare(parsed)
		if s.kind == General {
			m.defaults(f, false)
			m.wrapped(f)
			if !notCode.MatchString(name) {
				f.findSites()
			}
			keep = keep || len(f.sites) > 0 || parsed.ImportsAny(goConsuming...) || instruments(parsed)
		}
		if !keep {
			continue
		}
		if size += len(text); size > maxSourceBytes {
			s.leave(name, 0, fmt.Sprintf("The code with servers and clients has more than %d MiB: the files after this one are left", maxSourceBytes>>20))
			break
		}
		files = append(files, f)
	}
	return files, s.beside(m)
}

// instruments reports whether a file imports OpenTelemetry.
func instruments(f *syntax.File) bool {
	return slices.ContainsFunc(f.Imports, func(i syntax.Import) bool {
		return strings.Contains(i.Path, "otel") || strings.Contains(i.Path, "opentelemetry")
	})
}

// serves returns the number of servers, consumers, jobs and databases of a file. Clients alone are no service.
func (f *goFile) serves() int {
	n := len(f.uses.Boundaries)
	for _, site := range f.sites {
		if site.call != nil && !strings.HasSuffix(site.Kind, "client") {
			n++
		}
	}
	return n
}

// serves reports whether a package has a server or client of its own.
func serves(files []*goFile, dir string) bool {
	return slices.ContainsFunc(files, func(f *goFile) bool { return path.Dir(f.Path) == dir && f.serves() > 0 })
}

// uses reports whether a file imports a package of its module with servers or clients, or one that the change adds
// spans to.
func (s *service) uses(m *goModule, files []*goFile, f *goFile) bool {
	return slices.ContainsFunc(f.Imports, func(i syntax.Import) bool {
		dir, ok := strings.CutPrefix(i.Path, m.path+"/")
		dir = path.Join(s.dir, dir)
		return ok && (serves(files, dir) || slices.ContainsFunc(files, func(f *goFile) bool { return path.Dir(f.Path) == dir && s.plan.files[f.Path] != nil }))
	})
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

// matches reports whether a build without tags has a file.
func matches(name string, source []byte, goos, goarch string) bool {
	c := build.Context{GOOS: goos, GOARCH: goarch, Compiler: "gc", CgoEnabled: true, ReleaseTags: build.Default.ReleaseTags}
	c.OpenFile = func(string) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(source)), nil }
	ok, err := c.MatchFile("", name)
	return ok && err == nil
}

// builtFor reports whether a build for one of the systems has the file.
func (f *goFile) builtFor(systems ...string) bool {
	return slices.ContainsFunc(systems, func(goos string) bool { return matches(path.Base(f.Path), f.Source, goos, "amd64") })
}

// constraint returns the build constraint of a file: the end of its name, and its line with a blank one. why, if it is
// not "", says why a file with the same constraint cannot be added.
func (f *goFile) constraint() (suffix, line, why string) {
	parsed, err := parser.ParseFile(token.NewFileSet(), "", f.Source, parser.ImportsOnly|parser.ParseComments)
	if err != nil || !f.builtFor("linux") {
		return "", "", "a build for Linux without build tags leaves this file out"
	}
	old := false
	for _, g := range parsed.Comments {
		for _, c := range g.List {
			switch {
			case c.Pos() > parsed.Package:
			case constraint.IsGoBuild(c.Text):
				line = c.Text + "\n\n"
			case constraint.IsPlusBuild(c.Text):
				old = true
			}
		}
	}
	if name := strings.TrimSuffix(path.Base(f.Path), ".go"); !matches(name+".go", []byte("package main\n"), "none", "none") {
		for _, end := range []string{"_linux_amd64", "_linux", "_amd64"} {
			if strings.HasSuffix(name, end) {
				suffix = end
				break
			}
		}
	}
	if old && line == "" {
		why = "the build constraint of this file has the form `// +build`"
	}
	return suffix, line, why
}

// goGeneric are names of directories that do not tell a program from those of other modules.
var goGeneric = []string{"api", "app", "apps", "backend", "bin", "cmd", "daemon", "main", "server", "service", "services", "src", "svc", "web"}

// programNames returns the names of programs by their directories. A program has the name of its directory, or of the
// closest one above it whose name is not generic, or of the module. If programs share a name, those in a directory with
// a generic name have its name too: orders-server.
func (s *service) programNames(dirs []string) map[string]string {
	names, programs := map[string]string{}, map[string]int{}
	for _, dir := range dirs {
		name := s.name
		for above := range configfile.Above(dir) {
			if above == s.dir {
				break
			}
			if !slices.Contains(goGeneric, path.Base(above)) {
				name = path.Base(above)
				break
			}
		}
		names[dir] = name
		programs[name]++
	}
	for dir, name := range names {
		if programs[name] > 1 && dir != s.dir && name != path.Base(dir) {
			names[dir] = name + "-" + path.Base(dir)
		}
	}
	return names
}

// setUp adds the setup of the SDK to a program.
func (s *service) setUp(f *goFile, start *syntax.Node, name string) bool {
	suffix, condition, why := f.constraint()
	if why != "" {
		s.leave(f.Path, 0, "No setup of the SDK is added: "+why)
		return false
	}
	dir := path.Dir(f.Path)
	file := path.Join(dir, "telemetry"+suffix+".go")
	if s.existsAt(file) {
		if file = path.Join(dir, "otel_setup"+suffix+".go"); s.existsAt(file) {
			s.leave(f.Path, 0, "No setup of the SDK is added: the files `telemetry"+suffix+".go` and `otel_setup"+suffix+".go` exist")
			return false
		}
	}
	if f.names()["startTelemetry"] || f.declared["startTelemetry"] {
		s.leave(f.Path, 0, "No setup of the SDK is added: the program has a function `startTelemetry`")
		return false
	}
	if i := slices.IndexFunc(goTelemetryImports, func(name string) bool { return f.declared[name] }); i >= 0 {
		s.leave(f.Path, 0, "No setup of the SDK is added: it imports `"+goTelemetryImports[i]+"`, and this name is taken in this package")
		return false
	}
	body := start.Body()
	at := body.Start + 1
	if body.Start >= len(f.Source) || f.Source[body.Start] != '{' {
		return false
	}
	text := condition + strings.Replace(goTelemetry, "%NAME%", strconv.Quote(name), 1)
	p := patch.Create(file, []byte(text))
	s.files[file] = &p
	s.started = append(s.started, started{f.Path, file})
	s.did(file, 0, "Set the SDK up: traces and metrics by OTLP over HTTP, configured by `OTEL_*` variables; metrics of the Go runtime")
	end := newline(f.Source)
	statement := "\tdefer startTelemetry()()" + end
	rest, after, more := bytes.Cut(f.Source[at:], []byte("\n"))
	switch text := bytes.TrimSpace(rest); {
	case more && (len(text) == 0 || bytes.HasPrefix(text, []byte("//"))):
		at += len(rest) + 1
		if next, _, _ := bytes.Cut(after, []byte("\n")); len(bytes.TrimSpace(next)) > 0 {
			statement += end
		}
	default:
		statement = end + statement
	}
	s.edit(f.Path, f.Source, at, at, statement)
	s.did(f.Path, f.LineOf(start.Start), "Start the SDK when the program starts, and send what is left when it ends")
	for c := range start.All(syntax.Call) {
		if code := f.Code(c.Callee()); code == "os.Exit" || strings.HasPrefix(code, "log.Fatal") {
			s.leave(f.Path, f.LineOf(c.Start), "`"+code+"` ends the program without the deferred calls: telemetry of the last seconds is lost then")
			break
		}
	}
	return true
}

func (p *plan) existsAt(name string) bool {
	_, err := p.root.Lstat(name)
	return err == nil
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

// goTelemetryImports are the names of the packages that the setup of the SDK imports.
var goTelemetryImports = []string{
	"context", "errors", "slog", "time", "runtime", "otel", "attribute", "otlpmetrichttp", "otlptracehttp", "propagation", "metric", "resource", "trace",
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
