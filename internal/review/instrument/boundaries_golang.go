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

// goHelpers are the files of the package that a change adds for libraries without instrumentation, and for instrumentation
// that is longer than an expression. A module gets one package for all of its packages, below internal, so that nothing
// else can depend on it. It has a file for each library, because the files of one that the module does not require would not compile.
//
//go:embed helpers
var goHelpers embed.FS

// goHelperDir is the directory of that package, below the module.
const goHelperDir = "internal/instrumentation"

// goHelperNeeds are the modules that the files need, and the files.
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
	replace                         // F instead of the function
	addOption                       // call(a, F(), b)
	useMiddleware                   // r.Use(F) after the definition of r
	withCaller                      // F(ctx, a) instead of call(a), where the function has a context
	transport                       // a literal of http.Client gets a transport
)

// goCall is how a change instruments the calls of a function.
type goCall struct {
	kind   string // as in instrumentation.Boundary
	form   goForm
	text   string // F, with %s for the local name of the package; a function of the helper if there is one
	helper string // file of the helper, "" if the code needs none
	at     int    // the argument that is wrapped, or before which an option stands
	args   int    // number of arguments of a function that gets the context before them
	option string // type of the options, for a call that ends with a list of them
	module string // the instrumentation; a module that uses it in another way is left
	pkg    string // the package that text names, if it is not that of the function
	wrap   string // file of the helper with a function that adds middleware to a router that no statement defines
}

// goCalls are the calls that a change instruments, by package and function.
var goCalls = map[string]goCall{
	"net/http.Get":      {kind: "http client", form: withCaller, args: 1, text: "Get", helper: "http", module: goHTTP},
	"net/http.Head":     {kind: "http client", form: withCaller, args: 1, text: "Head", helper: "http", module: goHTTP},
	"net/http.Post":     {kind: "http client", form: withCaller, args: 3, text: "Post", helper: "http", module: goHTTP},
	"net/http.PostForm": {kind: "http client", form: withCaller, args: 2, text: "PostForm", helper: "http", module: goHTTP},

	"google.golang.org/grpc.NewServer":   {kind: "grpc server", form: addOption, text: "%s.StatsHandler(otelgrpc.NewServerHandler())", option: "%s.ServerOption", module: goGRPC},
	"google.golang.org/grpc.NewClient":   {kind: "grpc client", form: addOption, at: 1, text: "%s.WithStatsHandler(otelgrpc.NewClientHandler())", option: "%s.DialOption", module: goGRPC},
	"google.golang.org/grpc.Dial":        {kind: "grpc client", form: addOption, at: 1, text: "%s.WithStatsHandler(otelgrpc.NewClientHandler())", option: "%s.DialOption", module: goGRPC},
	"google.golang.org/grpc.DialContext": {kind: "grpc client", form: addOption, at: 2, text: "%s.WithStatsHandler(otelgrpc.NewClientHandler())", option: "%s.DialOption", module: goGRPC},

	"github.com/gin-gonic/gin.Default":   {kind: "http server", form: useMiddleware, text: `otelgin.Middleware("server")`, module: goGin, wrap: "gin"},
	"github.com/gin-gonic/gin.New":       {kind: "http server", form: useMiddleware, text: `otelgin.Middleware("server")`, module: goGin, wrap: "gin"},
	"github.com/labstack/echo/v4.New":    {kind: "http server", form: useMiddleware, text: `otelecho.Middleware("server")`, module: goEcho, wrap: "echo"},
	"github.com/gorilla/mux.NewRouter":   {kind: "http server", form: useMiddleware, text: `otelmux.Middleware("server")`, module: goMux, wrap: "mux"},
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
	tree     *ast.File // with the exact ranges of expressions
	base     token.Pos // of its first byte
	nodes    map[[2]int]ast.Node
	taken    map[string]bool           // names of the file
	declared map[string]bool           // names that the files of its package declare
	imports  map[string]string         // names by path, of packages that edits use
	routers  map[string]bool           // variables of routers; set if the file adds instrumentation to them
	others   map[string][]*syntax.Node // declarations by name, apart from those of contexts that derive from the one of the same name
	removes  bool                      // edits may leave an import without a use
}

// goSite is a server, consumer or client of a file.
type goSite struct {
	instrumentation.Boundary
	call *goCall // nil if none is known
}

// goGenerated matches the constructors that connect-go generates.
var goGenerated = regexp.MustCompile(`^New[A-Z]\w*(Handler|Client)$`)

// findSites adds the servers, consumers and clients of a file to those that a review knows.
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
	if def := f.Definition(n); def != nil && (def.Parent == nil || def.Parent.Kind != syntax.Class) { // the name of a field is no variable
		return ""
	}
	return i.Path
}

// local returns the name of a package in the file, "" if it has none.
func (f *goFile) local(pkg string) string { return imported(f.source, pkg) }

// name returns the name that a package has in the file when it is imported. It fails if another thing has that name.
func (f *goFile) name(pkg string) (string, bool) {
	if name := f.local(pkg); name != "" {
		return name, true
	}
	name := path.Base(pkg)
	return name, f.imports[pkg] != "" || !f.names()[name] && !f.declared[name]
}

// use imports a package that has a free name.
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

// exact returns the go/ast node of a call or literal. The ranges of its parts are exact, while a part in the syntax tree lacks
// the & before a literal, and a type assertion.
func (f *goFile) exact(n *syntax.Node) ast.Node {
	if !f.parse() {
		return nil
	}
	return f.nodes[[2]int{n.Start, n.End}]
}

// parse parses the file for edits.
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

// around returns the edits that put text around a node.
func (f *goFile) around(n ast.Node, before, after string) []udiff.Edit {
	return []udiff.Edit{{Start: f.at(n.Pos()), End: f.at(n.Pos()), New: before}, {Start: f.at(n.End()), End: f.at(n.End()), New: after}}
}

// goModule holds the data of a module that its files share.
type goModule struct {
	dir       string                     // of the module
	path      string                     // of the module
	elsewhere map[string]bool            // instrumentation that code sets up in a way that the change does not know
	routers   map[string]int             // number of routers by library
	changed   bool                       // http.DefaultClient or http.DefaultTransport is changed
	shared    bool                       // http.DefaultClient is used in a way in which another client cannot take its place
	drivers   bool                       // code uses a driver of database/sql or one of its connections, which instrumentation wraps
	tunes     bool                       // code sets the transport of a client, or asserts its type
	server    bool                       // a server of net/http has instrumentation
	consumed  map[string]bool            // libraries whose messages are processed by code that was found
	consumers map[string]bool            // directories with spans of consumers
	handles   map[string]bool            // directories with handlers of http.DefaultServeMux
	added     []string                   // modules
	helpers   map[string]bool            // files of the package of helpers that the change needs
	blocked   bool                       // another package has its directory
	routing   map[string]bool            // directories with routers
	imports   map[string]map[string]bool // directories that packages import, by directory
	mains     []string                   // directories of programs
	sites     int                        // servers, consumers and clients that were visited
	fiber     string                     // version of fiber
	declared  map[string]map[string]bool // names that packages declare, by directory
	single    map[string]bool            // whether calls of functions and types have one result, by directory and name
}

// declare records the declarations and imports of a file of the module, and returns the names of its package.
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

// names records the names that a file declares in its package, and returns all names of the package. Tests of an external
// test package declare none in it.
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
	called := func(id *ast.Ident, one bool) { // files for several systems may declare a function in several ways
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

// beside records the declarations and uses in files that a review does not read: tests and generated code.
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

// instruments reports whether a package instruments libraries.
func (m *goModule) instruments(pkg string) bool {
	return strings.HasPrefix(pkg, goContribs) && !strings.HasPrefix(pkg, goContribs+"runtime") && !strings.HasPrefix(pkg, goContribs+"host") || pkg == m.helper() ||
		slices.ContainsFunc(goOthers, func(p string) bool { return strings.HasPrefix(pkg, p) })
}

// goOthers are paths of packages apart from the contributions that instrument libraries.
var goOthers = []string{
	goOTelSQL, goPgx, goRedis, goConnect, goKotel, goGorm, goFiber, "github.com/riandyrn/otelchi", "github.com/dnwe/otelsarama",
	"github.com/uptrace/opentelemetry-go-extra/otel",
}

// mentions reports whether code below a node uses instrumentation of libraries.
func (m *goModule) mentions(f *goFile, n *syntax.Node) bool {
	return n.Has(func(c *syntax.Node) bool { return c.Kind == syntax.Name && m.instruments(f.pkg(c)) })
}

// side returns the key of goModule.elsewhere for the instrumentation of a site: packages with instrumentation of both
// servers and clients have one for each.
func side(module, kind string) string {
	if module == goHTTP || module == goGRPC {
		return module + kind[strings.LastIndexByte(kind, ' '):]
	}
	return module
}

// clientSide matches functions of these packages that instrument clients.
var clientSide = regexp.MustCompile(`(?i)client|transport`)

// defaults records the uses of the defaults of net/http in a file. A test may set http.DefaultTransport: added clients use the
// transport that is the default when they send a request.
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

// calls reports whether code only calls a method of a variable.
func (f *goFile) calls(n *syntax.Node) bool {
	p := n.Parent
	return p.Kind == syntax.Member && p.Parent.Kind == syntax.Call && p.Parent.Callee() == p
}

// passes reports whether code only gives the value of a variable to other code.
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

// wrapped records the uses of drivers and transports, which instrumentation wraps.
func (m *goModule) wrapped(f *goFile) {
	m.tunes = m.tunes || f.local("net/http") != "" && sets(f, "Transport") || bytes.Contains(f.Source, []byte(".Transport.("))
	for n := range f.Root.All(syntax.Call) {
		switch recv, name := n.Method(); {
		case recv == nil:
		case name == "Driver":
			m.drivers = m.drivers || len(n.Args()) == 0
		case name == "Raw" && len(n.Args()) == 1: // of sql.Conn; that of Gorm has a string
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
			if site.Kind == "http server" && site.Library == "net/http" {
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

// routed reports whether a program with a package has a router.
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

// router returns the variable that a statement defines by a call, "" if it defines none.
func router(call *syntax.Node) string {
	def := call.Parent
	if def == nil || def.Kind != syntax.Assign || len(def.Targets()) != 1 || def.Value() != call || def.Targets()[0].Kind != syntax.Name {
		return ""
	}
	return def.Targets()[0].Text
}

// used returns the router of this file to which a call adds middleware.
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

// covered reports whether a site has instrumentation.
func (m *goModule) covered(f *goFile, site goSite) bool {
	n := site.Node
	if site.Instrumented || m.mentions(f, n) {
		return true
	}
	for p := n.Parent; p != nil && (p.Kind == syntax.Call || p.Kind == syntax.Spread); p = p.Parent { // an argument of a helper
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

// mentionsValue reports whether the code that gives an expression its value in this file uses instrumentation.
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

// goBoundaries instruments the servers, consumers and clients of a module and returns the modules that this needs.
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

// goPackageComment is how the package of helpers starts.
var goPackageComment = []byte("// Package instrumentation has the spans and metrics of this module's servers, clients and consumers,")

// addHelper adds a file of the package of helpers.
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

// need records a file of the helper package, and the files that it depends on.
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

// wrap adds instrumentation to the servers and clients of a file.
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
		if m.covered(f, site) || site.Node.Kind != syntax.Call && site.Node.Kind != syntax.Object && site.Node.Kind != syntax.Member {
			continue
		}
		dir := path.Dir(f.Path)
		if site.Kind == "queue consumer" && site.call == nil && (m.consumed[site.Library] || m.consumers[dir]) {
			continue // its messages are processed in spans
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

// Reasons to leave a server or client.
const (
	whyUnknown = "the change knows no instrumentation for it, or not for this form of code"
	whyDefault = "the module changes a default of `net/http`"
	whyShared  = "the module or a test of it uses `http.DefaultClient` in a form of code that the change does not know"
	whyBlocked = "the package `" + goHelperDir + "` exists"
	whyDrivers = "the module uses its driver or a connection of it, which the instrumentation wraps"
)

// taken is the reason to leave code in which a package would have the name of another thing.
func taken(pkg string) string { return "the name `" + path.Base(pkg) + "` is taken in this package" }

// instrument returns the edits that instrument a site, the module that they use, and why it is left. A server that needs none has
// neither edits nor a reason.
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

// edits returns the edits of a call, in which %F stands for the instrumentation and %s for the local name of a package,
// that name, and why the call is left.
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

// several reports whether the only argument of a call may be several values: the results of another call, of a function that is
// neither one of this module with one result nor one of the package of the first, whose functions return one option.
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

// goJobName returns the name of the span of a scheduled job: its function.
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

// callers are expressions of the context of a request, by the type of a parameter.
var callers = map[string]string{
	"context.Context": "", "*http.Request": ".Context()", "*gin.Context": ".Request.Context()", "echo.Context": ".Request().Context()", "*echo.Context": ".Request().Context()",
}

// caller returns the expression of the context of the function around a call, "" if it has none.
func (f *goFile) caller(n *syntax.Node) string {
	for fn := n.Enclosing(syntax.Func); fn != nil; fn = fn.Enclosing(syntax.Func) {
		for _, p := range fn.Params() {
			if method, ok := callers[p.Type]; ok && p.Text != "_" && !f.redeclared(p, fn, n) {
				return p.Text + method
			}
		}
	}
	return ""
}

// redeclared reports whether the name of a parameter may refer to another variable at a node: a function around the node
// declares the name, and the value is not known to be a context.
func (f *goFile) redeclared(p, fn, n *syntax.Node) bool {
	if f.others == nil {
		f.others = map[string][]*syntax.Node{}
		for d := range f.Root.All() {
			switch d.Kind {
			case syntax.Param:
				f.others[d.Text] = append(f.others[d.Text], d)
			case syntax.Declare, syntax.Assign: // also by var
				for _, t := range d.Targets() {
					if !f.derives(d, t.Text) {
						f.others[t.Text] = append(f.others[t.Text], d)
					}
				}
			}
		}
	}
	return slices.ContainsFunc(f.others[p.Text], func(d *syntax.Node) bool {
		around := d.Enclosing(syntax.Func)
		return d != p && around != nil && d.Within(fn) && n.Within(around)
	})
}

// derives reports whether a statement assigns a context to a name, or a value derived from that of the name.
func (f *goFile) derives(assign *syntax.Node, name string) bool {
	if assign.Kind != syntax.Assign || assign.Value().Kind != syntax.Call {
		return false
	}
	recv, method := assign.Value().Method()
	is := func(n *syntax.Node) bool { return n != nil && n.Kind == syntax.Name && n.Text == name }
	return f.pkg(recv) == "context" || method == "Start" && is(assign.Value().Arg(0)) || method == "WithContext" && (is(recv) || is(assign.Value().Arg(0)))
}

// defined reports whether a statement of a function, alone on its lines, defines a router.
func defined(n *syntax.Node) bool {
	name := router(n)
	return name != "" && name != "_" && n.Parent.Parent != nil && n.Parent.Parent.Kind == syntax.Block && n.Parent.Parent.Parent != nil
}

// below returns why a router that may be below another one is left, "" if it is not.
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

// mounts reports whether the router that a call makes is the handler of a server of this file.
func (f *goFile) mounts(call *syntax.Node) bool {
	return slices.ContainsFunc(f.sites, func(s goSite) bool {
		h := (*syntax.Node)(nil)
		if s.Kind == "http server" && s.Library == "net/http" {
			h = handler(s.Node)
		}
		return h != nil && f.Definition(h) == call.Parent
	})
}

// httpServer returns the edits that instrument a server of net/http.
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

// defaultMux returns the edit that replaces a handler of nil.
func (m *goModule) defaultMux(f *goFile, n ast.Node) []udiff.Edit {
	pkg := f.local("net/http")
	if pkg == "" {
		return nil
	}
	return []udiff.Edit{{Start: f.at(n.Pos()), End: f.at(n.End()), New: "%s.NewHandler(" + pkg + `.DefaultServeMux, "server")`}}
}

// named sets the name of the package that edits use.
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

// openSQL returns the edits that replace sql.Open.
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

// transport returns the edits that instrument a literal of http.Client, in which %F stands for the function of the helper.
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

// sets reports whether a file assigns a value to a field.
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

// addField returns the edit that adds a field to a literal, nil if its fields have no names.
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

// finishGo adds the imports of a file that is changed, and removes those that it leaves without a use.
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

// drop leaves a file.
func (s *service) drop(f *goFile, why string) {
	delete(s.files, f.Path)
	s.patch.Steps = slices.DeleteFunc(s.patch.Steps, func(step patch.Step) bool { return step.File == f.Path && !step.Open })
	s.leave(f.Path, 0, "The file is left: "+why)
}
