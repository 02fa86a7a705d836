// SPDX-License-Identifier: Apache-2.0

package instrument

import (
	"bytes"
	"cmp"
	"embed"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"assay/internal/review/instrumentation"
	"assay/internal/review/patch"
	"assay/internal/review/syntax"
)

// goHelpers holds the files of the helper package. A change adds it for libraries without instrumentation, and for
// instrumentation that is longer than an expression. Each module gets one helper package. It is below internal, so that
// other modules cannot import it. It has a file for each library: a file for a library that the module does not require
// would not compile.
//
//go:embed helpers
var goHelpers embed.FS

// goHelperDir is the directory of the helper package, relative to the module.
const goHelperDir = "internal/instrumentation"

// goHelperNeeds lists the modules and the other helper files that each helper file depends on.
var goHelperNeeds = map[string]struct{ modules, files []string }{
	"instrumentation": {},
	"messaging":       {modules: []string{goRoot, goRoot + "/metric", goRoot + "/trace"}},
	"kafka":           {modules: []string{goRoot}, files: []string{"messaging"}},
	"sarama":          {modules: []string{goRoot}, files: []string{"messaging"}},
	"amqp":            {modules: []string{goRoot}, files: []string{"messaging"}},
	"nats":            {modules: []string{goRoot}, files: []string{"messaging"}},
	"sqs":             {modules: []string{goRoot}, files: []string{"messaging"}},
	"jobs":            {modules: []string{goRoot}},
	"fiber":           {modules: []string{goRoot, goRoot + "/metric", goRoot + "/trace"}},
	"pgx":             {modules: []string{goPgx}},
	"redis":           {modules: []string{goRoot, goRoot + "/metric", goRoot + "/trace"}},
	"gorm":            {modules: []string{goRoot, goGorm}},
	"aws":             {modules: []string{goAWS}},
	"sqlx":            {modules: []string{goRoot, goOTelSQL}},
	"gin":             {modules: []string{goGin}},
	"echo":            {modules: []string{goEcho}},
	"mux":             {modules: []string{goMux}},
	"chi":             {modules: []string{goHTTP}},
	"connect":         {modules: []string{goRoot, goConnect}},
	"kgo":             {modules: []string{goKotel}},
	"kgorecord":       {modules: []string{goRoot}, files: []string{"messaging"}},
	"http":            {modules: []string{goRoot, goRoot + "/trace", goHTTP}},
}

// goForm is how a change instruments a call.
type goForm uint8

const (
	wrapCall      goForm = iota + 1 // F(call)
	wrapArg                         // call(a, F(b))
	replace                         // F(a) instead of call(a)
	addOption                       // call(a, F(), b)
	useMiddleware                   // r.Use(F) after the definition of r
	withCaller                      // F(ctx, a) instead of call(a), if a context is in scope
	transport                       // set the Transport field of an http.Client literal
)

// goCall describes how a change instruments the calls of a function.
type goCall struct {
	kind   string // as in instrumentation.Boundary
	form   goForm
	text   string // F, with %s for the local name of the package; a helper function if helper is set
	helper string // file of the helper package, "" if the code needs none
	at     int    // index of the wrapped argument, or of the added option
	args   int    // number of arguments before the change, for withCaller
	option string // type of the options, for a call that ends with options...
	module string // instrumentation; the call is left if the module sets it up elsewhere
	pkg    string // package that text and option refer to, "" for the package of the function
	wrap   string // helper file with a function that adds middleware to a router that is not assigned to a variable
}

// goCalls holds the calls that a change instruments, by package and function. The argument of the middleware of Gin, Echo
// and mux becomes server.address. If it is "", they take the address from the Host header, as otelhttp does.
var goCalls = map[string]goCall{
	"net/http.Get":      {kind: "http client", form: withCaller, args: 1, text: "Get", helper: "http", module: goHTTP},
	"net/http.Head":     {kind: "http client", form: withCaller, args: 1, text: "Head", helper: "http", module: goHTTP},
	"net/http.Post":     {kind: "http client", form: withCaller, args: 3, text: "Post", helper: "http", module: goHTTP},
	"net/http.PostForm": {kind: "http client", form: withCaller, args: 2, text: "PostForm", helper: "http", module: goHTTP},

	"google.golang.org/grpc.NewServer":   {kind: "grpc server", form: addOption, text: "%s.StatsHandler(otelgrpc.NewServerHandler())", option: "%s.ServerOption", module: goGRPC},
	"google.golang.org/grpc.NewClient":   {kind: "grpc client", form: addOption, at: 1, text: "%s.WithStatsHandler(otelgrpc.NewClientHandler())", option: "%s.DialOption", module: goGRPC},
	"google.golang.org/grpc.Dial":        {kind: "grpc client", form: addOption, at: 1, text: "%s.WithStatsHandler(otelgrpc.NewClientHandler())", option: "%s.DialOption", module: goGRPC},
	"google.golang.org/grpc.DialContext": {kind: "grpc client", form: addOption, at: 2, text: "%s.WithStatsHandler(otelgrpc.NewClientHandler())", option: "%s.DialOption", module: goGRPC},

	"github.com/gin-gonic/gin.Default":   {kind: "http server", form: useMiddleware, text: `otelgin.Middleware("")`, module: goGin, wrap: "gin"},
	"github.com/gin-gonic/gin.New":       {kind: "http server", form: useMiddleware, text: `otelgin.Middleware("")`, module: goGin, wrap: "gin"},
	"github.com/labstack/echo/v4.New":    {kind: "http server", form: useMiddleware, text: `otelecho.Middleware("")`, module: goEcho, wrap: "echo"},
	"github.com/gorilla/mux.NewRouter":   {kind: "http server", form: useMiddleware, text: `otelmux.Middleware("")`, module: goMux, wrap: "mux"},
	"github.com/go-chi/chi/v5.NewRouter": {kind: "http server", form: useMiddleware, text: `otelhttp.NewMiddleware("server")`, module: goHTTP, wrap: "chi"},
	"github.com/go-chi/chi/v5.NewMux":    {kind: "http server", form: useMiddleware, text: `otelhttp.NewMiddleware("server")`, module: goHTTP, wrap: "chi"},
	"github.com/gofiber/fiber/v2.New":    {kind: "http server", form: useMiddleware, text: "Fiber", helper: "fiber", module: "github.com/gofiber/contrib"},
	"github.com/gofiber/fiber/v3.New":    {kind: "http server", form: useMiddleware, text: "Fiber", helper: "fiber", module: "github.com/gofiber/contrib"},

	"database/sql.OpenDB":                                   {kind: "database client", form: replace, text: "otelsql.OpenDB", module: goOTelSQL},
	"github.com/jmoiron/sqlx.Open":                          {kind: "database client", form: replace, text: "OpenSqlx", helper: "sqlx", module: goOTelSQL},
	"github.com/jmoiron/sqlx.Connect":                       {kind: "database client", form: replace, text: "ConnectSqlx", helper: "sqlx", module: goOTelSQL},
	"github.com/jmoiron/sqlx.ConnectContext":                {kind: "database client", form: replace, text: "ConnectSqlxContext", helper: "sqlx", module: goOTelSQL},
	"github.com/jmoiron/sqlx.MustConnect":                   {kind: "database client", form: replace, text: "MustConnectSqlx", helper: "sqlx", module: goOTelSQL},
	"github.com/jackc/pgx/v5.Connect":                       {kind: "database client", form: replace, text: "ConnectPgx", helper: "pgx", module: goPgx},
	"github.com/jackc/pgx/v5.ConnectConfig":                 {kind: "database client", form: wrapArg, at: 1, text: "PgxConfig", helper: "pgx", module: goPgx},
	"github.com/jackc/pgx/v5/pgxpool.New":                   {kind: "database client", form: replace, text: "NewPgxPool", helper: "pgx", module: goPgx},
	"github.com/jackc/pgx/v5/pgxpool.NewWithConfig":         {kind: "database client", form: wrapArg, at: 1, text: "PgxPoolConfig", helper: "pgx", module: goPgx},
	"github.com/redis/go-redis/v9.NewClient":                {kind: "database client", form: wrapCall, text: "Redis", helper: "redis", module: goRedis},
	"github.com/redis/go-redis/v9.NewClusterClient":         {kind: "database client", form: wrapCall, text: "Redis", helper: "redis", module: goRedis},
	"github.com/redis/go-redis/v9.NewUniversalClient":       {kind: "database client", form: wrapCall, text: "Redis", helper: "redis", module: goRedis},
	"github.com/redis/go-redis/v9.NewFailoverClient":        {kind: "database client", form: wrapCall, text: "Redis", helper: "redis", module: goRedis},
	"gorm.io/gorm.Open":                                     {kind: "database client", form: wrapCall, text: "Gorm", helper: "gorm", module: goGorm},
	"go.mongodb.org/mongo-driver/mongo.Connect":             {kind: "database client", form: addOption, at: 1, text: "%s.Client().SetMonitor(otelmongo.NewMonitor())", option: "*%s.ClientOptions", module: goMongo, pkg: "go.mongodb.org/mongo-driver/mongo/options"},
	"github.com/aws/aws-sdk-go-v2/config.LoadDefaultConfig": {kind: "client", form: wrapCall, text: "AWS", helper: "aws", module: goAWS},
	"github.com/twmb/franz-go/pkg/kgo.NewClient":            {kind: "queue consumer", form: addOption, text: "Kgo()", option: "%s.Opt", helper: "kgo", module: goKotel},
}

// goFile is a file of a module.
type goFile struct {
	*source
	sites    []goSite
	tree     *ast.File           // has exact ranges of expressions, unlike the syntax tree
	base     token.Pos           // position of the first byte
	nodes    map[[2]int]ast.Node // calls, literals and selectors by start and end offset
	taken    map[string]bool     // names of the file
	declared map[string]bool     // names declared in the package of the file
	imports  map[string]string   // names of the packages that the edits import, by path
	routers  map[string]bool     // variables of routers; true if the file already adds instrumentation to the router
	removes  bool                // an edit may remove the last use of an import
}

// goSite is a server, consumer or client of a file.
type goSite struct {
	instrumentation.Boundary
	call *goCall // nil if goCalls has none
}

// goGenerated matches the constructors that connect-go generates.
var goGenerated = regexp.MustCompile(`^New[A-Z]\w*(Handler|Client)$`)

// findSites sets the sites of a file: the boundaries that the review found and the calls of goCalls.
func (f *goFile) findSites() {
	known := map[*syntax.Node]int{}
	for i, b := range f.uses.Boundaries {
		known[b.Node] = i
		f.sites = append(f.sites, goSite{Boundary: b})
	}
	add := func(n *syntax.Node, library string, c goCall) {
		if i, ok := known[n]; ok {
			f.sites[i].call = &c
			return
		}
		f.sites = append(f.sites, goSite{instrumentation.Boundary{Node: n, Kind: c.kind, Library: library}, &c})
	}
	for n := range f.Root.All() {
		switch n.Kind {
		case syntax.Call:
			recv, name := n.Method()
			if name == "AddFunc" && len(n.Args()) == 2 && f.ImportsAny("github.com/robfig/cron") {
				add(n, "github.com/robfig/cron", goCall{kind: "scheduled job", form: wrapArg, at: 1, text: "Job", helper: "jobs"})
				continue
			}
			pkg := f.pkg(recv)
			if c, ok := goCalls[pkg+"."+name]; ok {
				add(n, goMajor.ReplaceAllString(pkg, ""), c)
			} else if strings.HasSuffix(path.Base(pkg), "connect") && goGenerated.MatchString(name) && f.connects() {
				c := goCall{kind: "rpc server", form: addOption, at: 1, text: "Connect()", option: "%s.HandlerOption", helper: "connect", module: goConnect, pkg: "connectrpc.com/connect"}
				if strings.HasSuffix(name, "Client") {
					c.kind, c.at, c.option = "rpc client", 2, "%s.ClientOption"
				}
				add(n, "connectrpc.com/connect", c)
			}
		case syntax.Member:
			if n.Text == "DefaultClient" && f.pkg(n.Children[0]) == "net/http" {
				add(n, "net/http", goCall{kind: "http client", form: replace, text: "HTTPClient", helper: "http", module: goHTTP})
			}
		case syntax.Object:
			if pkg, name, ok := strings.Cut(n.Text, "."); ok && name == "Client" && f.local("net/http") == pkg {
				add(n, "net/http", goCall{kind: "http client", form: transport, text: "Transport", helper: "http", module: goHTTP})
			}
		}
	}
	slices.SortStableFunc(f.sites, func(a, b goSite) int { return cmp.Compare(a.Node.Start, b.Node.Start) })
}

// goMajor matches the major version at the end of an import path.
var goMajor = regexp.MustCompile(`/v[0-9]+$`)

// connects reports whether a file imports code that is generated for connect-go: a package in a directory NAMEconnect.
func (f *goFile) connects() bool {
	return slices.ContainsFunc(f.Imports, func(i syntax.Import) bool {
		return strings.HasSuffix(path.Base(i.Path), "connect") && i.Path != "connectrpc.com/connect"
	})
}

// pkg returns the path of the package that a name stands for, "" if it is no package.
func (f *goFile) pkg(n *syntax.Node) string {
	if n == nil || n.Kind != syntax.Name {
		return ""
	}
	i, ok := f.Imported(n.Text)
	if !ok {
		return ""
	}
	if def := f.Definition(n); def != nil && (def.Parent == nil || def.Parent.Kind != syntax.Class) { // not a field
		return ""
	}
	return i.Path
}

// local returns the name of a package in the file, "" if it has none.
func (f *goFile) local(pkg string) string { return imported(f.source, pkg) }

// name returns the local name of a package in the file. If the file does not import the package, it is the last element
// of the path, and the result is false if another declaration has that name.
func (f *goFile) name(pkg string) (string, bool) {
	if name := f.local(pkg); name != "" {
		return name, true
	}
	name := path.Base(pkg)
	return name, f.imports[pkg] != "" || !f.names()[name] && !f.declared[name]
}

// use adds an import of a package unless the file imports it. Its name must be free.
func (f *goFile) use(pkg string) {
	if f.local(pkg) == "" {
		f.imports[pkg] = path.Base(pkg)
	}
}

// names returns the names of the file.
func (f *goFile) names() map[string]bool {
	if f.taken != nil {
		return f.taken
	}
	f.taken = map[string]bool{}
	for n := range f.Root.All(syntax.Name, syntax.Param, syntax.Func) {
		f.taken[n.Text] = true
	}
	for _, i := range f.Imports {
		f.taken[i.Name] = true
	}
	return f.taken
}

// exact returns the go/ast node of a call, literal or selector, nil if there is none. Ranges in go/ast are exact. In
// the syntax tree, the range of a literal lacks a leading &, and the range of an expression lacks its type assertion.
func (f *goFile) exact(n *syntax.Node) ast.Node {
	if !f.parse() {
		return nil
	}
	return f.nodes[[2]int{n.Start, n.End}]
}

// parse parses the file with go/parser and reports whether it succeeded.
func (f *goFile) parse() bool {
	if f.tree != nil {
		return true
	}
	tree, err := parser.ParseFile(token.NewFileSet(), "", f.Source, parser.SkipObjectResolution)
	if err != nil {
		return false
	}
	f.tree, f.base, f.nodes = tree, tree.FileStart, map[[2]int]ast.Node{}
	for n := range ast.Preorder(tree) {
		switch n.(type) {
		case *ast.CallExpr, *ast.CompositeLit, *ast.SelectorExpr:
			f.nodes[[2]int{f.at(n.Pos()), f.at(n.End())}] = n
		}
	}
	return true
}

// at returns the offset of a position.
func (f *goFile) at(p token.Pos) int { return min(max(int(p-f.base), 0), len(f.Source)) }

// text returns the source of a node.
func (f *goFile) text(n ast.Node) string { return string(f.Source[f.at(n.Pos()):f.at(n.End())]) }

// around returns the edits that insert text before and after a node.
func (f *goFile) around(n ast.Node, before, after string) []udiff.Edit {
	return []udiff.Edit{{Start: f.at(n.Pos()), End: f.at(n.Pos()), New: before}, {Start: f.at(n.End()), End: f.at(n.End()), New: after}}
}

// goModule holds the data that the files of a module share.
type goModule struct {
	dir       string                     // directory of the module
	path      string                     // import path of the module
	elsewhere map[string]bool            // instrumentation that the module sets up outside the sites, by key of side
	routers   map[string]int             // number of routers by library
	changed   bool                       // the module assigns to http.DefaultClient, http.DefaultTransport or a field of them
	shared    bool                       // a use of http.DefaultClient does not allow another client in its place
	drivers   bool                       // the module uses a database/sql driver or raw connection, which instrumentation wraps
	tunes     bool                       // the module sets the transport of a client or asserts its type
	server    bool                       // a server of net/http has instrumentation
	consumed  map[string]bool            // libraries with message processing code in the module
	consumers map[string]bool            // directories with consumer spans
	handles   map[string]bool            // directories that register handlers on http.DefaultServeMux
	added     []string                   // modules that the change requires
	helpers   map[string]bool            // files of the helper package that the change needs
	blocked   bool                       // the module has a different package in goHelperDir
	routing   map[string]bool            // directories with routers
	imports   map[string]map[string]bool // directories that packages import, by directory
	mains     []string                   // directories of programs
	sites     int                        // number of visited servers, consumers and clients
	fiber     string                     // major version of fiber
	declared  map[string]map[string]bool // names that packages declare, by directory
	starts    place                      // the first call that may set up the SDK in a library
	single    map[string]bool            // whether a call of a function or type has one result, by directory and name
}

// declare records the declarations and imports of a file of the module. It returns the names of its package found so
// far.
func (m *goModule) declare(f *syntax.File) map[string]bool {
	dir := path.Dir(f.Path)
	if f.Package == "main" && !slices.Contains(m.mains, dir) {
		m.mains = append(m.mains, dir)
	}
	for _, i := range f.Imports {
		if rest, ok := strings.CutPrefix(i.Path, m.path+"/"); ok {
			if m.imports[dir] == nil {
				m.imports[dir] = map[string]bool{}
			}
			m.imports[dir][path.Join(m.dir, rest)] = true
		}
	}
	return m.names(f.Path, f.Source)
}

// names records the names that a file declares in its package and returns the names of the package found so far. Files
// of an external test package are skipped.
func (m *goModule) names(name string, text []byte) map[string]bool {
	dir := path.Dir(name)
	declared := m.declared[dir]
	if declared == nil {
		declared = map[string]bool{}
		m.declared[dir] = declared
	}
	tree, err := parser.ParseFile(token.NewFileSet(), "", text, parser.SkipObjectResolution)
	if err != nil || strings.HasSuffix(name, "_test.go") && strings.HasSuffix(tree.Name.Name, "_test") {
		return declared
	}
	called := func(id *ast.Ident, one bool) { // files with different build constraints may declare a function differently
		declared[id.Name] = true
		key := path.Join(dir, id.Name)
		was, seen := m.single[key]
		m.single[key] = one && (was || !seen)
	}
	for _, d := range tree.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				called(d.Name, d.Type.Results.NumFields() == 1)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					called(s.Name, true)
				case *ast.ValueSpec:
					for _, id := range s.Names {
						called(id, false)
					}
				}
			}
		}
	}
	return declared
}

// beside records declarations and uses of http.DefaultClient in files that a review skips: tests and generated code.
func (s *service) beside(m *goModule) error {
	reviewed := map[string]bool{}
	for _, name := range s.paths() {
		reviewed[name] = true
	}
	size := 0
	for _, dir := range slices.Sorted(maps.Keys(m.declared)) {
		entries, err := fs.ReadDir(s.root.FS(), dir)
		if err != nil {
			continue // a review reports files that it cannot read
		}
		for _, e := range entries {
			if err := s.ctx.Err(); err != nil {
				return err
			}
			name := path.Join(dir, e.Name())
			if path.Ext(name) != ".go" || reviewed[name] {
				continue
			}
			text, err := patch.Read(s.root, name)
			if err != nil {
				continue
			}
			if size += len(text); size > maxSourceBytes {
				s.leave(name, 0, fmt.Sprintf("The tests and the generated code have more than %d MiB: names that files from this one on declare may be taken", maxSourceBytes>>20))
				return nil
			}
			m.names(name, text)
			if !bytes.Contains(text, []byte("DefaultClient")) {
				continue
			}
			parsed, err := syntax.ParseGo(name, text)
			if err != nil {
				m.shared = true
				continue
			}
			m.defaults(&goFile{source: &source{File: parsed}}, strings.HasSuffix(name, "_test.go") || parsed.ImportsAny("testing"))
			m.shared = m.shared || parsed.Exhausted()
		}
	}
	return nil
}

func newGoModule(dir, module string) *goModule {
	return &goModule{
		dir: dir, path: module, elsewhere: map[string]bool{}, routers: map[string]int{}, consumed: map[string]bool{}, consumers: map[string]bool{},
		handles: map[string]bool{}, helpers: map[string]bool{}, declared: map[string]map[string]bool{}, single: map[string]bool{}, routing: map[string]bool{}, imports: map[string]map[string]bool{},
	}
}

func (m *goModule) helper() string { return m.path + "/" + goHelperDir }

// instruments reports whether a package is instrumentation of libraries, or the helper package.
func (m *goModule) instruments(pkg string) bool {
	return strings.HasPrefix(pkg, goContribs) && !strings.HasPrefix(pkg, goContribs+"runtime") && !strings.HasPrefix(pkg, goContribs+"host") || pkg == m.helper() ||
		slices.ContainsFunc(goOthers, func(p string) bool { return strings.HasPrefix(pkg, p) })
}

// goOthers lists path prefixes of instrumentation outside of OpenTelemetry's contrib repository.
var goOthers = []string{
	goOTelSQL, goPgx, goRedis, goConnect, goKotel, goGorm, goFiber, "github.com/riandyrn/otelchi", "github.com/dnwe/otelsarama",
	"github.com/uptrace/opentelemetry-go-extra/otel",
}

// mentions reports whether code below a node uses instrumentation of libraries.
func (m *goModule) mentions(f *goFile, n *syntax.Node) bool {
	return n.Has(func(c *syntax.Node) bool { return c.Kind == syntax.Name && m.instruments(f.pkg(c)) })
}

// side returns the key of goModule.elsewhere for the instrumentation of a site, by its module or package. Packages that
// instrument both servers and clients have a key for each.
func side(module, kind string) string {
	switch module {
	case goHTTP, goGRPC:
		return module + kind[strings.LastIndexByte(kind, ' '):]
	case goGorm + "/tracing":
		return goGorm
	}
	return module
}

// clientSide matches the functions that instrument clients in packages that instrument both servers and clients.
var clientSide = regexp.MustCompile(`(?i)client|transport`)

// defaults records the uses of DefaultClient, DefaultTransport and DefaultServeMux of net/http in a file. A test may
// set http.DefaultTransport, because the added clients read it for each request.
func (m *goModule) defaults(f *goFile, test bool) {
	if f.local("net/http") == "" {
		return
	}
	for n := range f.Root.All() {
		switch n.Kind {
		case syntax.Assign:
			for _, t := range n.Targets() {
				for ; t.Kind == syntax.Member && !test; t = t.Children[0] {
					m.changed = m.changed || f.pkg(t.Children[0]) == "net/http" && (t.Text == "DefaultClient" || t.Text == "DefaultTransport")
				}
			}
		case syntax.Call:
			if recv, name := n.Method(); !test && (name == "Handle" || name == "HandleFunc") && f.pkg(recv) == "net/http" {
				m.handles[path.Dir(f.Path)] = true
			}
		case syntax.Member:
			if n.Text == "DefaultClient" && f.pkg(n.Children[0]) == "net/http" {
				m.shared = m.shared || !f.calls(n) && (test || !f.passes(n))
			}
		}
	}
}

// calls reports whether n is only the receiver of a method call.
func (f *goFile) calls(n *syntax.Node) bool {
	p := n.Parent
	return p.Kind == syntax.Member && p.Parent.Kind == syntax.Call && p.Parent.Callee() == p
}

// passes reports whether the value of n is only assigned, passed or returned.
func (f *goFile) passes(n *syntax.Node) bool {
	if bytes.HasSuffix(bytes.TrimRight(f.Source[:n.Start], " \t\r\n("), []byte("&")) {
		return false
	}
	switch p := n.Parent; p.Kind {
	case syntax.Assign, syntax.Pair:
		return p.Value() == n
	case syntax.Call, syntax.Return, syntax.List, syntax.Object:
		return true
	}
	return false
}

// wrapped records whether a file uses database drivers or transports, which instrumentation wraps.
func (m *goModule) wrapped(f *goFile) {
	m.tunes = m.tunes || f.local("net/http") != "" && sets(f, "Transport") || bytes.Contains(f.Source, []byte(".Transport.("))
	for n := range f.Root.All(syntax.Call) {
		switch recv, name := n.Method(); {
		case recv == nil:
		case name == "Driver":
			m.drivers = m.drivers || len(n.Args()) == 0
		case name == "Raw" && len(n.Args()) == 1: // sql.Conn.Raw takes a function, Raw of Gorm a string
			arg := n.Arg(0)
			m.drivers = m.drivers || arg.Kind == syntax.Func || arg.Kind != syntax.String && !f.ImportsAny("gorm.io/gorm")
		}
	}
}

// survey collects the data of the module from its files.
func (s *service) survey(m *goModule, files []*goFile) {
	for _, f := range files {
		dir := path.Dir(f.Path)
		own := map[*syntax.Node]bool{}
		for _, site := range f.sites {
			if f.manages(site) {
				if name := router(site.Node); name != "" {
					f.routers[name] = false
				}
			} else if site.Kind == "http server" && site.Library == "net/http" {
				m.server = m.server || m.covered(f, site)
			} else if site.call != nil && (site.call.form == useMiddleware || site.Kind == "rpc server") {
				m.routers[site.Library]++
				m.routing[dir] = true
				if name := router(site.Node); name != "" {
					f.routers[name] = false
				}
			}
			own[site.Node] = true
		}
		for _, span := range f.uses.Spans {
			m.consumers[dir] = m.consumers[dir] || span.Kind == "consumer"
		}
		for n := range f.Root.All() {
			pkg := f.pkg(n)
			if !m.instruments(pkg) {
				continue
			}
			inside := false
			for p := n.Parent; p != nil && !inside && p.Kind != syntax.Block; p = p.Parent {
				inside = own[p]
				if p.Kind == syntax.Call && f.used(p) != "" {
					inside, f.routers[f.used(p)] = true, true
				}
			}
			if !inside && pkg != m.helper() {
				kind := " server"
				if n.Parent.Kind == syntax.Member && clientSide.MatchString(n.Parent.Text) {
					kind = " client"
				}
				m.elsewhere[side(pkg, kind)] = true
			}
		}
	}
}

// routed reports whether a program that imports the package in dir has a router. If the module has too many programs,
// it reports whether any package has a router.
func (m *goModule) routed(dir string) bool {
	const maxPrograms = 50
	for i, program := range m.mains {
		if i == maxPrograms {
			return len(m.routing) > 0
		}
		seen, has := map[string]bool{program: true}, false
		for queue := []string{program}; len(queue) > 0; queue = queue[1:] {
			has = has || m.routing[queue[0]]
			for next := range m.imports[queue[0]] {
				if !seen[next] {
					seen[next] = true
					queue = append(queue, next)
				}
			}
		}
		if seen[dir] && has {
			return true
		}
	}
	return false
}

// router returns the variable to which a statement assigns a call, "" if there is none.
func router(call *syntax.Node) string {
	def := call.Parent
	if def == nil || def.Kind != syntax.Assign || len(def.Targets()) != 1 || def.Value() != call || def.Targets()[0].Kind != syntax.Name {
		return ""
	}
	return def.Targets()[0].Text
}

// used returns the router of this file to which a call adds middleware, "" if there is none.
func (f *goFile) used(call *syntax.Node) string {
	recv, name := call.Method()
	if name != "Use" || recv == nil || recv.Kind != syntax.Name {
		return ""
	}
	if _, ok := f.routers[recv.Text]; !ok {
		return ""
	}
	return recv.Text
}

// Names of servers, routers and functions, and addresses, for metrics, health checks or management only.
var (
	managing  = regexp.MustCompile(`(?i)^(start|run|serve|listen|new|setup|init)?_?(metrics?|management|mgmt|health|healthz|healthcheck|probes?)_?((http|grpc)?_?(server|srv|router|mux|handler|listener|endpoint)s?)?$`)
	managedAt = regexp.MustCompile(`(?i)(metrics?|management|mgmt|health|healthz|healthcheck|probes?)[._]?(server)?[._]?(port|addr|bind|listen)`)
)

// manages reports whether a server or router only has metrics, health checks or the management of the program, by its
// name, its address, or that of the function around it. Spans of them would be those of scrapes and probes.
func (f *goFile) manages(site goSite) bool {
	n := site.Node
	if site.Kind != "http server" && site.Kind != "grpc server" {
		return false
	}
	for in := n.Enclosing(syntax.Func); in != nil; in = in.Enclosing(syntax.Func) {
		if managing.MatchString(in.Text) {
			return true
		}
	}
	def := n.Assignment()
	if def != nil && slices.ContainsFunc(def.Targets(), func(t *syntax.Node) bool { return managing.MatchString(t.Text) }) {
		return true
	}
	if site.Library != "net/http" {
		return def != nil && f.served(def, f.manages)
	}
	h, at := handler(n), n.Get("Addr")
	if n.Kind == syntax.Call {
		at = n.Arg(0)
	}
	if h != nil && h.Kind == syntax.Call {
		recv, _ := h.Method()
		if strings.HasSuffix(f.pkg(recv), "/promhttp") {
			return true
		}
	}
	return h != nil && h.Kind == syntax.Name && managing.MatchString(h.Text) || at != nil && managedAt.MatchString(f.Code(at))
}

// covered reports whether a site has instrumentation.
func (m *goModule) covered(f *goFile, site goSite) bool {
	n := site.Node
	if site.Instrumented || m.mentions(f, n) {
		return true
	}
	for p := n.Parent; p != nil && (p.Kind == syntax.Call || p.Kind == syntax.Spread); p = p.Parent { // n may be an argument
		if p.Kind == syntax.Call && m.mentions(f, p.Callee()) {
			return true
		}
	}
	if site.call != nil && site.call.form == useMiddleware && f.routers[router(n)] {
		return true
	}
	if site.Kind == "http server" && site.Library == "net/http" {
		return m.mentionsValue(f, handler(n), 4)
	}
	return false
}

// mentionsValue reports whether an expression, or a definition of it in this file, uses instrumentation. Depth limits
// the number of definitions.
func (m *goModule) mentionsValue(f *goFile, n *syntax.Node, depth int) bool {
	if n == nil || depth == 0 {
		return false
	}
	if m.mentions(f, n) {
		return true
	}
	def := f.Definition(n)
	return def != nil && def.Kind == syntax.Assign && m.mentionsValue(f, def.Value(), depth-1)
}

// handler returns the handler of a server of net/http, nil if it has none.
func handler(n *syntax.Node) *syntax.Node {
	if n.Kind == syntax.Object {
		return n.Get("Handler")
	}
	if args := n.Args(); len(args) == 2 || len(args) == 4 {
		return args[len(args)-1]
	}
	return nil
}

// goBoundaries instruments the servers, consumers and clients of a module. It returns the modules that the change
// requires.
func (s *service) goBoundaries(m *goModule, files []*goFile) []string {
	if text, err := patch.Read(s.root, path.Join(s.dir, goHelperDir, "instrumentation.go")); err != nil || !bytes.HasPrefix(text, goPackageComment) {
		m.blocked = s.exists(goHelperDir)
	}
	s.survey(m, files)
	for _, f := range files {
		s.consumers(m, f)
	}
	for _, f := range files {
		s.wrap(m, f)
		s.finishGo(f)
	}
	for name := range m.helpers {
		s.addHelper(m, name)
	}
	return m.added
}

// goPackageComment is the start of the helper package, which identifies it.
var goPackageComment = []byte("// Package instrumentation has the spans and metrics of this module's servers, clients and consumers,")

// addHelper adds a file of the helper package unless it exists.
func (s *service) addHelper(m *goModule, name string) {
	file := path.Join(s.dir, goHelperDir, name+".go")
	if s.existsAt(file) {
		return
	}
	text, err := goHelpers.ReadFile("helpers/" + name + ".go.txt")
	if err != nil {
		return
	}
	version := []string{"%V%", "v3", "%CTX%", "fiber.Ctx", "%CONTEXT%", "Context", "%SCHEME%", "Scheme"}
	if m.fiber == "v2" {
		version = []string{"%V%", "v2", "%CTX%", "*fiber.Ctx", "%CONTEXT%", "UserContext", "%SCHEME%", "Protocol"}
	}
	p := patch.Create(file, []byte(strings.NewReplacer(append(version, `"%SCOPE%"`, strconv.Quote(m.helper()))...).Replace(string(text))))
	s.files[file] = &p
	s.did(file, 0, "Add what the instrumentation of this module's code calls")
}

// need records that the change needs a file of the helper package, and the files and modules that it depends on.
func (m *goModule) need(name string) {
	if m.helpers[name] {
		return
	}
	m.helpers[name], m.helpers["instrumentation"] = true, true
	m.added = append(m.added, goHelperNeeds[name].modules...)
	for _, other := range goHelperNeeds[name].files {
		m.need(other)
	}
}

// wrap instruments the servers and clients of a file.
func (s *service) wrap(m *goModule, f *goFile) {
	for i, site := range f.sites {
		if i == maxFileBoundaries || s.ctx.Err() != nil {
			s.leave(f.Path, 0, fmt.Sprintf("More than %d servers and clients in one file: the others are left", maxFileBoundaries))
			break
		}
		if m.sites++; m.sites > maxServiceBoundaries {
			s.leave("", 0, fmt.Sprintf("More than %d servers and clients in the module `%s`: the others are left", maxServiceBoundaries, m.path))
			break
		}
		if m.covered(f, site) || f.manages(site) || site.Node.Kind != syntax.Call && site.Node.Kind != syntax.Object && site.Node.Kind != syntax.Member {
			continue
		}
		dir := path.Dir(f.Path)
		if site.Kind == "queue consumer" && site.call == nil && (m.consumed[site.Library] || m.consumers[dir]) {
			continue // s.consumers handled its messages, or they have spans
		}
		line := f.LineOf(site.Node.Start)
		what := fmt.Sprintf("Instrument the %s of `%s`", site.Kind, site.Library)
		edits, by, why := m.instrument(f, site)
		switch {
		case why != "":
			s.leaveBoundary(f.Path, line, patch.Boundary{SpanKind: site.SpanKind(), Library: site.Library}, what+": "+why)
		case len(edits) > 0:
			for _, e := range edits {
				s.edit(f.Path, f.Source, e.Start, e.End, e.New)
			}
			s.did(f.Path, line, what+" by `"+by+"`")
		}
	}
}

// Reasons why a server or client is left.
const (
	whyUnknown = "the change knows no instrumentation for it, or not for this form of code"
	whyDefault = "the module changes a default of `net/http`"
	whyShared  = "the module or a test of it uses `http.DefaultClient` in a form of code that the change does not know"
	whyBlocked = "the package `" + goHelperDir + "` exists"
	whyDrivers = "the module uses its driver or a connection of it, which the instrumentation wraps"
)

// taken returns the reason why code is left if the local name of a package is not free.
func taken(pkg string) string { return "the name `" + path.Base(pkg) + "` is taken in this package" }

// instrument returns the edits that instrument a site and the module that they use, or the reason why the site is left.
// It returns neither edits nor a reason for a site that needs no instrumentation.
func (m *goModule) instrument(f *goFile, site goSite) (edits []udiff.Edit, by, why string) {
	c := site.call
	switch {
	case c != nil:
	case site.Library == "net/http":
		edits, why = m.httpServer(f, site)
		return edits, goHTTP, why
	case site.Library == "database/sql":
		edits, why = m.openSQL(f, site.Node)
		return edits, goOTelSQL, why
	case site.Kind == "queue consumer" && slices.ContainsFunc(goConsuming, func(p string) bool { return strings.HasPrefix(p, site.Library) }):
		return nil, "", "no code was found that processes its messages one by one"
	default:
		return nil, "", whyUnknown
	}
	switch {
	case c.module != "" && m.elsewhere[side(c.module, c.kind)]:
		return nil, "", "the module sets `" + c.module + "` up in another place, which may cover it"
	case c.module == goOTelSQL && m.drivers:
		return nil, "", whyDrivers
	case m.server && (c.kind == "rpc server" || c.form == useMiddleware):
		return nil, "", "" // the server has spans already
	}
	if c.form == useMiddleware && c.wrap != "" && !defined(site.Node) {
		wrapped := *c
		wrapped.form, wrapped.helper, wrapped.text = wrapCall, c.wrap, strings.ToUpper(c.wrap[:1])+c.wrap[1:]
		if why := m.below(f, site); why != "" {
			return nil, "", why
		}
		c, site.call = &wrapped, &wrapped
	}
	text := c.text
	name, by := path.Base(c.module), c.module
	pkg := c.module
	if c.helper != "" {
		if m.blocked {
			return nil, "", whyBlocked
		}
		pkg, name = m.helper(), ""
		by = goHelperDir
	}
	edits, local, why := m.edits(f, site)
	if why != "" || len(edits) == 0 {
		return nil, "", why
	}
	used, ok := f.name(pkg)
	if !ok {
		return nil, "", taken(pkg)
	}
	f.use(pkg)
	if c.pkg != "" && local != "" {
		f.use(c.pkg)
	}
	if c.helper != "" {
		text = used + "." + text
		m.need(c.helper)
	} else {
		text = strings.Replace(text, name+".", used+".", 1)
		m.added = append(m.added, c.module)
	}
	for i := range edits {
		edits[i].New = strings.NewReplacer("%F", strings.ReplaceAll(text, "%s", local), "%s", local).Replace(edits[i].New)
	}
	f.removes = f.removes || c.form == replace || c.form == withCaller
	return edits, by, ""
}

// edits returns the edits of a site and the local name of the package that they use, or the reason why the site is
// left. In the edits, %F stands for the instrumentation and %s for the local name.
func (m *goModule) edits(f *goFile, site goSite) (edits []udiff.Edit, local, why string) {
	c, n := site.call, site.Node
	if n.Kind == syntax.Member { // http.DefaultClient
		switch {
		case m.changed:
			return nil, "", whyDefault
		case f.ofRPC(n):
			return nil, "", ""
		case m.shared:
			return nil, "", whyShared
		}
		return []udiff.Edit{{Start: n.Start, End: n.End, New: "%F"}}, "", ""
	}
	if c.form == transport {
		if !f.ofRPC(n) {
			edits, why = m.transport(f, n)
		}
		return edits, "", why
	}
	call, ok := f.exact(n).(*ast.CallExpr)
	if !ok {
		return nil, "", whyUnknown
	}
	args := call.Args
	switch c.form {
	case wrapCall:
		return f.around(call, "%F(", ")"), "", ""
	case wrapArg:
		if c.at >= len(args) || call.Ellipsis.IsValid() {
			return nil, "", whyUnknown
		}
		if c.helper == "jobs" {
			return f.around(args[c.at], "%F("+fmt.Sprintf("%q", goJobName(n.Args()[c.at]))+", ", ")"), "", ""
		}
		return f.around(args[c.at], "%F(", ")"), "", ""
	case replace:
		if _, ok := call.Fun.(*ast.SelectorExpr); !ok {
			return nil, "", whyUnknown
		}
		return []udiff.Edit{{Start: f.at(call.Fun.Pos()), End: f.at(call.Fun.End()), New: "%F"}}, "", ""
	case withCaller:
		caller := f.caller(n)
		switch {
		case m.changed:
			return nil, "", whyDefault
		case m.shared:
			return nil, "", whyShared
		case len(args) != c.args:
			return nil, "", whyUnknown
		case caller == "":
			return nil, "", "its function has no context with the span of the caller"
		}
		at := f.at(call.Lparen) + 1
		return []udiff.Edit{{Start: f.at(call.Fun.Pos()), End: f.at(call.Fun.End()), New: "%F"}, {Start: at, End: at, New: caller + ", "}}, "", ""
	case useMiddleware:
		return m.middleware(f, site)
	}
	if ellipsis := call.Ellipsis.IsValid(); ellipsis && c.at != len(args)-1 || !ellipsis && m.several(f, n, args) {
		return nil, "", whyUnknown
	}
	switch {
	case c.pkg == "":
		if recv, _ := n.Method(); recv != nil {
			local = recv.Text
		}
	case strings.Contains(c.text, "%s") || call.Ellipsis.IsValid():
		if local, ok = f.name(c.pkg); !ok {
			return nil, "", taken(c.pkg)
		}
	}
	switch {
	case call.Ellipsis.IsValid():
		at := f.at(call.Ellipsis) + len("...")
		start := f.at(args[c.at].Pos())
		return []udiff.Edit{{Start: start, End: start, New: "append([]" + c.option + "{%F}, "}, {Start: at, End: at, New: ")..."}}, local, ""
	case c.at < len(args):
		start, option := f.at(args[c.at].Pos()), "%F, "
		if indent, alone := indentOf(f.Source, start); alone {
			option = "%F," + newline(f.Source) + indent
		}
		return []udiff.Edit{{Start: start, End: start, New: option}}, local, ""
	case c.at > len(args):
		return nil, "", whyUnknown
	case len(args) > 0:
		at := f.at(args[len(args)-1].End())
		return []udiff.Edit{{Start: at, End: at, New: ", %F"}}, local, ""
	}
	at := f.at(call.Lparen) + 1
	return []udiff.Edit{{Start: at, End: at, New: "%F"}}, local, ""
}

// several reports whether the only argument of a call may have several values, because it is a call itself. Functions
// of this module that have one result, and functions of the package of the outer call, which return one option, have
// one value.
func (m *goModule) several(f *goFile, n *syntax.Node, args []ast.Expr) bool {
	if len(args) != 1 {
		return false
	}
	if _, ok := ast.Unparen(args[0]).(*ast.CallExpr); !ok || n.Arg(0).Kind != syntax.Call {
		return false
	}
	recv, name := n.Arg(0).Method()
	if recv == nil {
		callee := n.Arg(0).Callee()
		return f.Definition(callee) != nil || !m.single[path.Join(path.Dir(f.Path), name)] && (name != "new" || f.declared[name])
	}
	of, _ := n.Method()
	pkg := f.pkg(recv)
	if rest, own := strings.CutPrefix(pkg+"/", m.path+"/"); own {
		return !m.single[path.Join(m.dir, rest, name)]
	}
	return pkg == "" || pkg != f.pkg(of)
}

// ofRPC reports whether an RPC client uses the HTTP client.
func (f *goFile) ofRPC(n *syntax.Node) bool {
	return slices.ContainsFunc(f.sites, func(s goSite) bool { return s.Kind == "rpc client" && s.Node == n.Parent })
}

// goJobName returns the span name of a scheduled job: the name of its function.
func goJobName(n *syntax.Node) string {
	if n.Kind == syntax.Func && n.Body().Kind == syntax.Block && len(n.Body().Children) == 1 {
		if n = n.Body().Children[0]; n.Kind == syntax.Call {
			n = n.Callee()
		}
	}
	if n.Kind == syntax.Name || n.Kind == syntax.Member {
		return n.Text
	}
	return "scheduled job"
}

// callers maps the type of a parameter to the suffix that makes it an expression of the request's context.
var callers = map[string]string{
	"context.Context": "", "*http.Request": ".Context()", "*gin.Context": ".Request.Context()", "echo.Context": ".Request().Context()", "*echo.Context": ".Request().Context()",
}

// caller returns an expression of the context in the functions around a call, "" if they have none.
func (f *goFile) caller(n *syntax.Node) string {
	for fn := n.Enclosing(syntax.Func); fn != nil; fn = fn.Enclosing(syntax.Func) {
		for _, p := range fn.Params() {
			if method, ok := callers[p.Type]; ok && p.Text != "_" && !f.redeclared(p, n) {
				return p.Text + method
			}
		}
	}
	return ""
}

// redeclared reports whether the name of a parameter refers to another variable at a node, which may not be a context.
func (f *goFile) redeclared(p, n *syntax.Node) bool {
	def := f.Definition(&syntax.Node{Kind: syntax.Name, Text: p.Text, Start: n.Start, Parent: n.Parent})
	return def != p && (def == nil || !f.derives(def, p.Text))
}

// derives reports whether a statement assigns to a name a context, or a value derived from the name's previous value.
func (f *goFile) derives(assign *syntax.Node, name string) bool {
	if assign.Kind != syntax.Assign || assign.Value().Kind != syntax.Call {
		return false
	}
	recv, method := assign.Value().Method()
	is := func(n *syntax.Node) bool { return n != nil && n.Kind == syntax.Name && n.Text == name }
	return f.pkg(recv) == "context" || method == "Start" && is(assign.Value().Arg(0)) || method == "WithContext" && (is(recv) || is(assign.Value().Arg(0)))
}

// defined reports whether a statement in a function assigns a router to a variable.
func defined(n *syntax.Node) bool {
	name := router(n)
	return name != "" && name != "_" && n.Parent.Parent != nil && n.Parent.Parent.Kind == syntax.Block && n.Parent.Parent.Parent != nil
}

// below returns the reason why a router is left that may be mounted in another router, "" if it is not left.
func (m *goModule) below(f *goFile, site goSite) string {
	if m.routers[site.Library] > 1 && (strings.HasSuffix(site.Library, "/mux") || strings.HasSuffix(site.Library, "/chi") || strings.HasSuffix(site.Library, "/fiber")) && !f.mounts(site.Node) {
		return "the module has several routers, and this one may be below another"
	}
	return ""
}

// middleware returns the edit that adds middleware to a router.
func (m *goModule) middleware(f *goFile, site goSite) (edits []udiff.Edit, local, why string) {
	n := site.Node
	if !defined(n) {
		return nil, "", whyUnknown
	}
	name := router(n)
	if why := m.below(f, site); why != "" {
		return nil, "", why
	}
	if site.call.helper == "fiber" {
		recv, _ := n.Method()
		version := path.Base(f.pkg(recv))
		if m.fiber != "" && m.fiber != version {
			return nil, "", "the module has two versions of it"
		}
		m.fiber = version
	}
	indent, alone := indentOf(f.Source, n.Parent.Start)
	if !alone {
		return nil, "", whyUnknown
	}
	return []udiff.Edit{{Start: n.Parent.End, End: n.Parent.End, New: newline(f.Source) + indent + name + ".Use(%F)"}}, "", ""
}

// mounts reports whether the router that a call creates is the handler of a server in this file.
func (f *goFile) mounts(call *syntax.Node) bool {
	return f.served(call.Parent, func(goSite) bool { return true })
}

// served reports whether the handler that a statement defines is that of a server in this file, for which is is true.
func (f *goFile) served(def *syntax.Node, is func(goSite) bool) bool {
	return slices.ContainsFunc(f.sites, func(s goSite) bool {
		h := (*syntax.Node)(nil)
		if s.Kind == "http server" && s.Library == "net/http" {
			h = handler(s.Node)
		}
		return h != nil && f.Definition(h) == def && is(s)
	})
}

// httpServer returns the edits that instrument a server of net/http, or the reason why it is left.
func (m *goModule) httpServer(f *goFile, site goSite) (edits []udiff.Edit, why string) {
	n, h := site.Node, handler(site.Node)
	if m.routed(path.Dir(f.Path)) {
		if h != nil && slices.ContainsFunc(f.sites, func(s goSite) bool {
			return s.call != nil && s.call.form == useMiddleware && s.Node.Parent == f.Definition(h)
		}) {
			return nil, ""
		}
		return nil, "its handler may be a router or handler that has instrumentation of its own"
	}
	if m.elsewhere[goHTTP+" server"] {
		return nil, "the module sets `" + goHTTP + "` up in another place, which may cover it"
	}
	const before, after = "%s.NewHandler(", `, "server")`
	switch x := f.exact(n).(type) {
	case *ast.CompositeLit:
		switch field := fieldOf(x, "Handler"); {
		case field != nil:
			edits = f.around(field.Value, before, after)
			if h.Kind == syntax.Null {
				edits = m.defaultMux(f, field.Value)
			}
		case m.handles[path.Dir(f.Path)] && !sets(f, "Handler") && f.local("net/http") != "":
			edits = f.addField(x, "Handler: "+before+f.local("net/http")+".DefaultServeMux"+after)
		default:
			return nil, "its handler is set in another place"
		}
	case *ast.CallExpr:
		if h == nil || x.Ellipsis.IsValid() {
			return nil, whyUnknown
		}
		last := x.Args[len(x.Args)-1]
		edits = f.around(last, before, after)
		if h.Kind == syntax.Null {
			edits = m.defaultMux(f, last)
		}
	}
	return m.named(f, edits, goHTTP)
}

// defaultMux returns the edit that replaces a nil handler by an instrumented http.DefaultServeMux.
func (m *goModule) defaultMux(f *goFile, n ast.Node) []udiff.Edit {
	pkg := f.local("net/http")
	if pkg == "" {
		return nil
	}
	return []udiff.Edit{{Start: f.at(n.Pos()), End: f.at(n.End()), New: "%s.NewHandler(" + pkg + `.DefaultServeMux, "server")`}}
}

// named replaces %s in edits by the local name of a package and adds its import. It returns a reason if the name is
// taken.
func (m *goModule) named(f *goFile, edits []udiff.Edit, pkg string) (_ []udiff.Edit, why string) {
	if len(edits) == 0 {
		return nil, whyUnknown
	}
	name, ok := f.name(pkg)
	if !ok {
		return nil, taken(pkg)
	}
	f.use(pkg)
	for i := range edits {
		edits[i].New = strings.ReplaceAll(edits[i].New, "%s", name)
	}
	m.added = append(m.added, pkg)
	return edits, ""
}

// openSQL returns the edits that replace sql.Open, or the reason why the call is left.
func (m *goModule) openSQL(f *goFile, n *syntax.Node) (edits []udiff.Edit, why string) {
	call, ok := f.exact(n).(*ast.CallExpr)
	if !ok || len(call.Args) != 2 {
		return nil, whyUnknown
	}
	if m.elsewhere[goOTelSQL] {
		return nil, "the module sets `" + goOTelSQL + "` up in another place, which may cover it"
	}
	if m.drivers {
		return nil, whyDrivers
	}
	edits = []udiff.Edit{{Start: f.at(call.Fun.Pos()), End: f.at(call.Fun.End()), New: "%s.Open"}}
	f.removes = true
	if driver, known := f.uses.Known(n.Args()[0]); known && goDrivers[driver] != "" {
		_, free := f.name(goOTelSQL)
		if attribute, ok := f.name(goRoot + "/attribute"); ok && free {
			f.use(goRoot + "/attribute")
			at := f.at(call.Args[1].End())
			edits = append(edits, udiff.Edit{Start: at, End: at, New: ", %s.WithAttributes(" + attribute + `.String("db.system.name", "` + goDrivers[driver] + `"))`})
			m.added = append(m.added, goRoot)
		}
	}
	return m.named(f, edits, goOTelSQL)
}

// transport returns the edits that instrument an http.Client literal, or the reason why it is left. In the edits, %F
// stands for the helper function.
func (m *goModule) transport(f *goFile, n *syntax.Node) (edits []udiff.Edit, why string) {
	x, ok := f.exact(n).(*ast.CompositeLit)
	if !ok {
		return nil, whyUnknown
	}
	if m.tunes {
		return nil, "the module uses the transport of a client in another place"
	}
	field := fieldOf(x, "Transport")
	if field != nil && n.Get("Transport").Kind != syntax.Null {
		return f.around(field.Value, "%F(", ")"), ""
	}
	if m.changed {
		return nil, whyDefault
	}
	const value = "%F(nil)"
	if field != nil {
		return []udiff.Edit{{Start: f.at(field.Value.Pos()), End: f.at(field.Value.End()), New: value}}, ""
	}
	if edits = f.addField(x, "Transport: "+value); edits == nil {
		return nil, whyUnknown
	}
	return edits, ""
}

// sets reports whether a file has an assignment to a field of this name.
func sets(f *goFile, field string) bool {
	return f.Root.Has(func(n *syntax.Node) bool {
		return n.Kind == syntax.Assign && slices.ContainsFunc(n.Targets(), func(t *syntax.Node) bool { return t.Kind == syntax.Member && t.Text == field })
	})
}

// fieldOf returns a field of a literal, or nil.
func fieldOf(x *ast.CompositeLit, name string) *ast.KeyValueExpr {
	for _, e := range x.Elts {
		if kv, ok := e.(*ast.KeyValueExpr); ok {
			if key, ok := kv.Key.(*ast.Ident); ok && key.Name == name {
				return kv
			}
		}
	}
	return nil
}

// addField returns the edit that adds a field to a composite literal, nil if the literal has no field names.
func (f *goFile) addField(x *ast.CompositeLit, field string) []udiff.Edit {
	if len(x.Elts) == 0 {
		at := f.at(x.Rbrace)
		return []udiff.Edit{{Start: at, End: at, New: field}}
	}
	last, ok := x.Elts[len(x.Elts)-1].(*ast.KeyValueExpr)
	if !ok {
		return nil
	}
	at, join := f.at(last.End()), ", "
	if bytes.IndexByte(f.Source[at:f.at(x.Rbrace)], '\n') >= 0 {
		indent, _ := indentOf(f.Source, f.at(last.Pos()))
		join = "," + newline(f.Source) + indent[:len(indent)-len(strings.TrimLeft(indent, " \t"))]
	}
	return []udiff.Edit{{Start: at, End: at, New: join + field}}
}

// finishGo adds the imports that the edits of a file need and removes unused ones. It drops the file if it would not
// compile.
func (s *service) finishGo(f *goFile) {
	if len(f.imports) == 0 && !f.removes {
		return
	}
	c := s.file(f.Path, f.Source)
	if len(f.imports) > 0 {
		e, ok := importEdit(f.File, f.imports)
		if !ok {
			s.drop(f, "its imports have a form that the change does not know")
			return
		}
		s.edit(f.Path, f.Source, e.Start, e.End, e.New)
	}
	if c.Apply() != nil || f.removes && !c.TidyGo() {
		s.drop(f, "it would not compile")
	}
}

// drop discards the changes of a file and records why.
func (s *service) drop(f *goFile, why string) {
	delete(s.files, f.Path)
	s.patch.Steps = slices.DeleteFunc(s.patch.Steps, func(step patch.Step) bool { return step.File == f.Path && !step.Open })
	s.leave(f.Path, 0, "The file is left: "+why)
}
