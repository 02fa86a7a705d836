// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"bytes"
	"context"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"assay/internal/lists"
	"assay/internal/review/patch"
	"assay/internal/review/syntax"
	"assay/internal/review/treesitter"
)

// script is a file of a unit in JavaScript, TypeScript, Python or Java. In languages without types, the kind of a value
// comes from its definition in the file, or from its name: "span" and "parentSpan" are spans, "tracer" is a tracer.
type script struct {
	unit   *scriptUnit
	f      *syntax.File
	table  *scriptTable
	used   map[string]string     // names of the API by their name in the file
	taken  map[string]bool       // names that the file declares or uses
	done   map[*syntax.Node]bool // nodes that an edit covers
	kinds  map[*syntax.Node]valueKind
	hoists map[*syntax.Node]string // kinds of spans by the call that starts them
	gone   map[*syntax.Node]bool   // statements that are removed
	failed map[int]bool            // lines with a step
	setup  bool                    // the file needs the added module
	java   *javaFile
	before []edit // insertions of statements
	work   int
	after  []byte

	settings map[string]*syntax.Node       // calls that make parts of the setup, by their variable
	exporter *syntax.Node                  // registered exporter, in JavaScript
	names    map[string]int                // the number of uses of each name
	scopes   map[*syntax.Node]bool         // assignments that become with statements, in Python
	helpers  map[string]string             // functions of added modules: their names in the file
	tracers  map[*syntax.Node]bool         // uses of the Datadog tracer that keep its name
	inlined  map[*syntax.Node]*syntax.Node // literals by the only use of their variable

	inferring map[*syntax.Node]bool // parameters whose kind is being inferred
	optional  map[*syntax.Node]bool // parameters that some calls leave out

	// Of Python.
	pairs   map[*syntax.Node]*pairedSpan // spans that start and end in one block, by both calls
	parents map[*syntax.Node]string      // remote parents of the spans of a tracer, by the call that starts them
	config  string                       // name in the file of the added module's class
	sys     bool                         // the file needs the module sys
	types   map[string]string            // types of the API by the name in the file
	numbers map[string]int               // last numbers of generated names
}

// valueKind is the kind of a value.
type valueKind uint8

const (
	unknownValue valueKind = iota
	libraryValue
	tracerValue
	spanValue
	contextValue
	scopeValue // in Python; its member span is the span
)

// scriptUnit is an npm package, a Python project or a build of Java.
type scriptUnit struct {
	*migration
	dirs     map[string]bool // directories of all units of the language
	dir      string
	files    []*script
	blocked  bool
	rooted   bool // a span without an explicit parent is a root, even if there is a current span
	notes    []patch.Step
	created  map[string][]byte
	packages map[string]bool // packages that the migrated code needs
	java     *javaUnit

	census bool // it uses OpenCensus, in JavaScript or Python

	// Of Python.
	zipkin   bool            // it uses zipkin-js or py_zipkin
	tracer   string          // settings of the first tracer
	service  string          // service of the first span that names one
	imported map[string]bool // names that files of the unit import

	modules   map[string]bool         // names of the modules that use the library
	functions map[string]*functionUse // set by functionUses
}

// scriptSource is a file before it is parsed.
type scriptSource struct {
	name   string
	source []byte
}

// scriptTable is the table of a language.
type scriptTable struct {
	languages []syntax.Language
	manifests []string
	libraries []string                 // modules that a migration replaces
	prefixes  []string                 // prefixes of modules without rows, such as modules based on libraries
	methods   []string                 // calls in files that use spans without an import of a library
	kinds     []syntax.Kind            // of the nodes that call may replace
	prepare   func(u *scriptUnit) bool // runs before rewriting; reports whether a file uses a library; may be nil
	hoist     func(s *script, block *syntax.Node)
	call      func(s *script, c *syntax.Node) (string, bool)
	imports   func(s *script) ([]edit, bool)
	manifest  func(u *scriptUnit)
}

func (m *migration) scripts(ctx context.Context) error {
	for _, table := range []*scriptTable{javaScriptTable(), pythonTable(), javaTable()} {
		dirs := m.manifests(table.manifests...)
		if table.languages[0] == syntax.Java {
			dirs = m.javaBuilds(dirs)
		}
		units := m.sources(dirs, table.languages...)
		for _, dir := range slices.Sorted(maps.Keys(units)) {
			if err := m.scriptUnit(ctx, table, dirs, dir, units[dir]); err != nil {
				return err
			}
		}
	}
	return nil
}

// isSource reports whether a module belongs to a source library, and whether the table has rows for it.
func (t *scriptTable) isSource(module string) (source, known bool) {
	if syntax.Below(module, t.libraries) {
		return true, true
	}
	for _, p := range t.prefixes {
		if rest, ok := strings.CutPrefix(module, p); ok && (rest == "" || !isWord(rest[0])) {
			return true, false
		}
	}
	return false, false
}

// isSource reports whether a module belongs to a source library.
func (s *script) isSource(module string) bool {
	source, _ := s.table.isSource(module)
	return source
}

func isWord(c byte) bool { return c == '_' || '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z' }

func (m *migration) scriptUnit(ctx context.Context, table *scriptTable, dirs map[string]bool, dir string, names []string) error {
	u := &scriptUnit{migration: m, dirs: dirs, dir: dir, created: map[string][]byte{}, packages: map[string]bool{}, imported: map[string]bool{}, modules: map[string]bool{}}
	var rest []scriptSource
	size := 0
	for _, name := range names {
		source, err := m.read(name)
		if err != nil {
			continue // reviews report unreadable files
		}
		if size += len(source); size > maxUnit {
			m.open(name, 0, "The project is larger than %d MiB: it is not migrated.", maxUnit>>20)
			return nil
		}
		for _, names := range pyImported.FindAllSubmatch(source, -1) {
			for _, name := range bytes.FieldsFunc(names[1], func(r rune) bool { return r > 0x7f || !isWord(byte(r)) }) {
				u.imported[string(name)] = true
			}
		}
		if !mentions(source, table.libraries) && !mentions(source, table.prefixes) && !mentions(source, table.methods) {
			rest = append(rest, scriptSource{name, source})
			continue
		}
		if err := u.add(ctx, table, name, source); err != nil {
			return err
		}
	}
	relevant := slices.ContainsFunc(u.files, (*script).imports)
	if relevant {
		if err := u.addUsers(ctx, table, rest); err != nil {
			return err
		}
	}
	if table.prepare != nil && table.prepare(u) {
		relevant = true
	}
	if !relevant {
		u.onlyCommands(table)
		return nil
	}
	for _, s := range u.files {
		if s.f.Broken {
			if s.imports() {
				s.blockAt(nil, "The file has syntax errors.")
			}
			continue
		}
		s.run()
	}
	unit := dir
	for _, name := range slices.Backward(table.manifests) {
		if file := path.Join(dir, name); slices.Contains(m.paths, file) {
			unit = file
		}
	}
	if u.blocked {
		m.open(unit, 0, "The project is not migrated: other steps name what no table knows. Its files share spans, so they are migrated together.")
		return nil
	}
	for _, s := range u.files {
		if s.f.Exhausted() {
			m.open(s.f.Path, 0, "The project is not migrated: %v.", treesitter.ErrTooComplex)
			return nil
		}
		if s.after != nil && !patch.Parses(ctx, m.parser, s.f.Path, s.after) {
			m.open(s.f.Path, 0, "The project is not migrated: the file would no longer parse.")
			return nil
		}
	}
	for name := range u.created {
		if slices.Contains(m.paths, name) {
			m.open(name, 0, "The migration adds this file, but it exists.")
			return nil
		}
	}
	changed := false
	for _, s := range u.files {
		if s.after != nil {
			changed = m.change(s.f.Path, s.f.Source, s.after) || changed
		}
	}
	if !changed {
		return nil
	}
	m.step(patch.Step{File: unit, Text: "The project is migrated to OpenTelemetry."})
	for _, name := range slices.Sorted(maps.Keys(u.created)) {
		m.patch.Files = append(m.patch.Files, patch.Create(name, u.created[name]))
		m.step(patch.Step{File: name, Text: "Functions that the migrated code calls."})
	}
	table.manifest(u)
	for _, s := range u.notes {
		m.step(s)
	}
	return nil
}

// add parses a file of the unit.
func (u *scriptUnit) add(ctx context.Context, table *scriptTable, name string, source []byte) error {
	f, err := syntax.Parse(ctx, u.parser, name, syntax.LanguageOf(name), source)
	if err != nil {
		return ctx.Err() // skip a file that cannot be parsed
	}
	s := &script{
		unit: u, f: f, table: table, used: map[string]string{}, taken: map[string]bool{}, done: map[*syntax.Node]bool{},
		kinds: map[*syntax.Node]valueKind{}, hoists: map[*syntax.Node]string{}, gone: map[*syntax.Node]bool{}, failed: map[int]bool{},
		pairs: map[*syntax.Node]*pairedSpan{}, settings: map[string]*syntax.Node{}, parents: map[*syntax.Node]string{}, types: map[string]string{}, numbers: map[string]int{},
		names: map[string]int{}, scopes: map[*syntax.Node]bool{}, helpers: map[string]string{}, tracers: map[*syntax.Node]bool{}, inlined: map[*syntax.Node]*syntax.Node{},
		inferring: map[*syntax.Node]bool{}, optional: map[*syntax.Node]bool{},
	}
	sources := map[string]syntax.Import{}
	for _, i := range f.Imports {
		if known, _ := table.isSource(i.Path); known {
			sources[i.Name] = i
		}
	}
	for n := range f.Root.All() {
		if n.Kind == syntax.Name {
			s.names[n.Text]++
		}
		if n.Kind == syntax.Name && !s.replaced(n, sources[n.Text]) || n.Kind == syntax.Param || n.Kind == syntax.Func && n.Parent.Kind == syntax.Block {
			s.taken[n.Text] = true
		}
	}
	for _, i := range f.Imports {
		source, known := table.isSource(i.Path)
		u.rooted = u.rooted || strings.HasPrefix(i.Path, "dd-trace") || i.Path == "ddtrace"
		if source && !known {
			s.blockAt(i.Node, "The module %s is in no table.", i.Path)
		}
	}
	u.files = append(u.files, s)
	return nil
}

// scriptMethods are method calls in files of JavaScript and Python that use spans without an import of a library.
var scriptMethods = []string{".setTag(", ".set_tag(", ".finish(", ".startSpan(", ".start_span(", ".start_active_span(", ".addTags(", ".log_kv(", ".setOperationName(", "pan.log(", ".toTraceId(", ".toSpanId("}

// pyMethods are such method calls of OpenCensus and py_zipkin in Python.
var pyMethods = []string{
	".add_attribute(", ".add_annotation(", ".end_span(", ".span(", ".add_attribute_to_current_span(", ".set_status(", ".current_span(",
	".update_binary_annotations(", ".add_sa_binary_annotation(", ".override_span_name(",
}

// scriptCalls are the kinds of the nodes that rows of JavaScript and Python replace.
var scriptCalls = []syntax.Kind{syntax.Call, syntax.New, syntax.Member, syntax.Name}

// imports reports whether the file imports a source library.
func (s *script) imports() bool {
	return slices.ContainsFunc(s.f.Imports, func(i syntax.Import) bool { return s.isSource(i.Path) })
}

// blockAt blocks the unit with a reason for a node, or for the file if the node is nil. It returns "" and false, the
// result of a failed rewrite.
func (s *script) blockAt(n *syntax.Node, format string, args ...any) (string, bool) {
	s.unit.blocked = true
	line := 0
	if n != nil {
		line = s.f.LineOf(n.Start)
	}
	if !s.failed[line] {
		s.failed[line] = true
		s.unit.open(s.f.Path, line, format, args...)
	}
	return "", false
}

// fail is like blockAt, and marks the names below the node as covered.
func (s *script) fail(n *syntax.Node, format string, args ...any) (string, bool) {
	s.mark(n)
	return s.blockAt(n, format, args...)
}

// failCall is like blockAt, and marks the names in the callee of a call as covered.
func (s *script) failCall(c *syntax.Node, format string, args ...any) (string, bool) {
	s.mark(c.Callee())
	return s.blockAt(c, format, args...)
}

func (s *script) note(n *syntax.Node, text string) {
	s.unit.notes = append(s.unit.notes, patch.Step{File: s.f.Path, Line: s.f.LineOf(n.Start), Text: text, Open: true})
}

func (s *script) run() {
	for n := range s.f.Root.All(syntax.Block) {
		s.table.hoist(s, n)
	}
	edits := s.collect(s.f.Root)
	more, ok := s.table.imports(s)
	if !ok || s.unit.blocked {
		return
	}
	comments := lists.Map(s.f.Comments, func(c syntax.Comment) [2]int { return [2]int{c.Start, c.End} })
	edits = append(edits, keepComments(s.f.Source, comments, edits)...)
	edits = append(edits, s.before...)
	if edits = append(edits, more...); len(edits) == 0 {
		return
	}
	sortEdits(edits)
	for i, e := range edits[1:] {
		if e.start < edits[i].end {
			s.unit.blocked = true
			s.unit.open(s.f.Path, s.f.LineOf(e.start), "The changes of the line overlap.")
			return
		}
	}
	s.after = []byte(replace(s.f.Source, 0, len(s.f.Source), edits))
}

// use returns the name in the file for a name of the API, which it imports.
func (s *script) use(name string) string {
	local := name
	for s.taken[local] {
		if s.f.Language == syntax.Python {
			local = "otel_" + local
		} else {
			local = "otel" + strings.ToUpper(local[:1]) + local[1:]
		}
	}
	s.used[local] = name
	return local
}

// brief returns the source of a node for a step: short, and without the content of strings, which may be secret.
func (s *script) brief(n *syntax.Node) string {
	var edits []edit
	for c := range n.All(syntax.String) {
		if c.End-c.Start > 1 && !s.isKey(c) {
			edits = append(edits, edit{c.Start, c.End, `"..."`})
		}
	}
	sortEdits(edits)
	return shorten(replace(s.f.Source, n.Start, n.End, edits))
}

// isKey reports whether a string is the key of a pair.
func (s *script) isKey(n *syntax.Node) bool {
	return n.Parent != nil && n.Parent.Kind == syntax.Pair && n.Parent.Children[0] == n
}

func (s *script) text(n *syntax.Node) string {
	s.work += (n.End - n.Start) / 32 // calls within calls copy their text at every level
	return replace(s.f.Source, n.Start, n.End, s.collect(n))
}

// receiverText returns the new source of the receiver of a method call. It keeps parentheses, "!" and "?".
func (s *script) receiverText(c *syntax.Node) string {
	m := c.Callee()
	s.work += (m.End - m.Start) / 32
	text := replace(s.f.Source, m.Start, m.End-len(m.Text), s.collect(m.Children[0]))
	return strings.TrimSuffix(strings.TrimRight(text, " \t\r\n"), ".")
}

// collect returns the edits of a node and the nodes below it.
func (s *script) collect(root *syntax.Node) []edit {
	var edits []edit
	stack := []*syntax.Node{root}
	for len(stack) > 0 {
		n := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if s.work++; s.work > maxGoWork {
			s.blockAt(nil, "The file nests too deeply.")
			return nil
		}
		if s.gone[n] {
			edits = append(edits, s.statementEdit(n))
			continue
		}
		if slices.Contains(s.table.kinds, n.Kind) {
			if text, ok := s.table.call(s, n); ok {
				if text == "" {
					edits = append(edits, s.statementEdit(n))
				} else {
					edits = append(edits, edit{n.Start, n.End, text})
				}
				continue
			}
		}
		for _, c := range slices.Backward(n.Children) {
			stack = append(stack, c)
		}
	}
	sortEdits(edits)
	if s.java != nil {
		edits = s.java.merge(root, edits)
	}
	return edits
}

// statementEdit returns the edit that removes a statement with its semicolon.
func (s *script) statementEdit(n *syntax.Node) edit {
	start, end := n.Start, n.End
	if s.java != nil && n.Kind == syntax.Assign {
		for _, before := range []string{n.Type, "final"} {
			if rest, ok := bytes.CutSuffix(bytes.TrimRight(s.f.Source[:start], " \t\r\n"), []byte(before)); ok {
				start = len(rest)
			}
		}
	}
	if end < len(s.f.Source) && s.f.Source[end] == ';' {
		end++
	}
	if at := s.declares(start); n.Kind == syntax.Assign && s.f.Language != syntax.Python && s.java == nil && at >= 0 {
		start = at
	}
	if s.isBranch(n) {
		return edit{start, end, "{}"}
	}
	if b := n.Parent; s.f.Language == syntax.Python && b != nil && b.Kind == syntax.Block && b.Parent != nil {
		s.gone[n] = true
		if !slices.ContainsFunc(b.Children, func(c *syntax.Node) bool { return !s.gone[c] }) {
			return edit{start, end, "pass"}
		}
	}
	if rest := bytes.TrimLeft(s.f.Source[end:], " "); s.java == nil && (bytes.HasPrefix(rest, []byte("#")) || bytes.HasPrefix(rest, []byte("//"))) {
		end = len(s.f.Source) - len(rest)
	}
	return lineEdit(s.f.Source, start, end)
}

// isBranch reports whether a statement is in a branch or a case without braces.
func (s *script) isBranch(n *syntax.Node) bool {
	b := n.Parent
	return s.f.Language != syntax.Python && b != nil && b.Kind == syntax.Block && b.Parent != nil && s.f.Source[b.Start] != '{'
}

var (
	spanNames    = regexp.MustCompile(`(?i)(^|_)span$|[a-z]Span$`)
	tracerNames  = regexp.MustCompile(`(?i)tracer$`)
	contextNames = regexp.MustCompile(`(?i)(span|parent|wire)_?(ctx|context)$|^zipkin_attrs$`)
)

// kind infers the kind of a value from the file.
func (s *script) kind(n *syntax.Node) valueKind { return s.kindAt(n, 0) }

func (s *script) kindAt(n *syntax.Node, depth int) valueKind {
	if n == nil || depth > 16 {
		return unknownValue
	}
	if k, ok := s.kinds[n]; ok {
		return k
	}
	k := s.infer(n, depth)
	s.kinds[n] = k
	return k
}

func (s *script) infer(n *syntax.Node, depth int) valueKind {
	switch n.Kind {
	case syntax.Name, syntax.Member:
		if n.Kind == syntax.Member && n.Text == "span" && s.kindAt(n.Children[0], depth+1) == scopeValue {
			return spanValue
		}
		if n.Kind == syntax.Name {
			if i, ok := s.f.Imported(n.Text); ok {
				if !s.isSource(i.Path) && tracerNames.MatchString(i.Member) && s.unit.hasModule(i.Path) {
					return tracerValue
				}
				if s.isSource(i.Path) {
					if isDatadog(i) || tracerNames.MatchString(n.Text) && i.Member != "initTracer" && (i.Member == "" || i.Member == "default" || i.Member == "tracer") {
						return tracerValue
					}
					return libraryValue
				}
			}
		}
		if d := s.f.Definition(n); d != nil && d.Kind == syntax.Assign && len(d.Children) == 2 && d.Children[0].Text == n.Text && !n.Within(d) {
			if k := s.kindAt(d.Value(), depth+1); k != unknownValue {
				return k
			}
		}
		if d := s.f.Definition(n); n.Kind == syntax.Name && d != nil && d.Kind == syntax.Param {
			if f := d.Parent; f.Kind == syntax.Func && f.Parent != nil && f.Parent.Kind == syntax.Call {
				if _, name := f.Parent.Method(); name == "startRootSpan" || name == "trace" && s.unit.rooted && f.Params()[0] == d {
					return spanValue
				}
			}
			if i, ok := s.f.Imported(d.Type); ok && s.isSource(i.Path) && i.Member == "Span" {
				return spanValue
			} else if ok && s.isSource(i.Path) && i.Member == "Tracer" {
				return tracerValue
			}
			if k := s.paramKind(d, depth); k != unknownValue {
				return k
			}
		}
		switch {
		case tracerNames.MatchString(n.Text):
			return tracerValue
		case contextNames.MatchString(n.Text):
			return contextValue
		case spanNames.MatchString(n.Text):
			return spanValue
		}
	case syntax.Call:
		receiver, name := n.Method()
		if receiver == nil && name == "require" && len(n.Args()) == 1 && n.Args()[0].Kind == syntax.String {
			switch module := n.Args()[0].Text; {
			case module == "dd-trace":
				return tracerValue
			case s.isSource(module):
				return libraryValue
			}
		}
		switch name {
		case "start_active_span":
			return scopeValue
		case "createChildId", "createRootId", "startChildSpan", "zipkin_span", "zipkin_client_span", "zipkin_server_span", "startSpan", "start_span", "setTag", "addTags", "set_tag", "active", "current_span", "trace", "current_root_span", "get_current_span":
			return spanValue
		case "enter_context":
			if len(n.Args()) == 1 {
				return s.kindAt(n.Args()[0], depth+1)
			}
		case "span":
			if k := s.kindAt(receiver, depth+1); k == tracerValue || k == spanValue {
				return spanValue
			}
		case "globalTracer", "global_tracer", "initTracer", "init", "initialize_tracer", "get_opencensus_tracer", "Tracer":
			return tracerValue
		case "extract", "from_headers", "extract_zipkin_attrs_from_headers", "ZipkinAttrs":
			return contextValue
		case "context":
			if s.kindAt(receiver, depth+1) == spanValue {
				return contextValue
			}
		}
	case syntax.New:
		if s.jsClass(n) == "Tracer" {
			return tracerValue
		}
	case syntax.Operator:
		if len(n.Children) == 2 && (n.Text == "||" || n.Text == "??" || n.Text == "or") {
			return s.kindAt(n.Children[0], depth+1)
		}
	case syntax.Await:
		if len(n.Children) == 1 {
			return s.kindAt(n.Children[0], depth+1)
		}
	}
	return unknownValue
}

// mark marks the names below a node as covered by an edit.
func (s *script) mark(n *syntax.Node) {
	for c := range n.All() {
		s.done[c] = true
	}
}

// tagOf returns the value of a literal, or of a constant of the file or a library, such as a tag key.
func (s *script) tagOf(n *syntax.Node) (string, bool) {
	if v, ok := s.f.Known(n); ok {
		return v, true
	}
	if n.Kind != syntax.Name && n.Kind != syntax.Member {
		return "", false
	}
	i, ok := s.sourceImport(n)
	if !ok {
		return "", false
	}
	name := n.Text
	if i.Member != "" && n.Kind == syntax.Name {
		name = i.Member
	}
	v, ok := tagConstants[name]
	return v, ok
}

// tagConstants are the values of tag constants in JavaScript and Python.
var tagConstants = map[string]string{
	"SPAN_KIND": "span.kind", "SPAN_KIND_RPC_CLIENT": "client", "SPAN_KIND_RPC_SERVER": "server",
	"SPAN_KIND_MESSAGING_PRODUCER": "producer", "SPAN_KIND_MESSAGING_CONSUMER": "consumer", "SPAN_KIND_PRODUCER": "producer", "SPAN_KIND_CONSUMER": "consumer",
	"ERROR": "error", "COMPONENT": "component", "SAMPLING_PRIORITY": "sampling.priority",
	"PEER_SERVICE": "peer.service", "PEER_HOSTNAME": "peer.hostname", "PEER_ADDRESS": "peer.address", "PEER_HOST_IPV4": "peer.ipv4", "PEER_HOST_IPV6": "peer.ipv6", "PEER_PORT": "peer.port",
	"HTTP_URL": "http.url", "HTTP_METHOD": "http.method", "HTTP_STATUS_CODE": "http.status_code",
	"DB_INSTANCE": "db.instance", "DB_STATEMENT": "db.statement", "DB_TYPE": "db.type", "DB_USER": "db.user", "DATABASE_INSTANCE": "db.instance", "DATABASE_STATEMENT": "db.statement", "DATABASE_TYPE": "db.type", "DATABASE_USER": "db.user",
	"MESSAGE_BUS_DESTINATION": "message_bus.destination",
	"FORMAT_HTTP_HEADERS":     "http_headers", "FORMAT_TEXT_MAP": "text_map", "FORMAT_BINARY": "binary",
	"CACHE": "cache", "GRPC": "grpc", "HTTP": "http", "SQL": "sql", "TEMPLATE": "template", "WEB": "web", "WORKER": "worker",
	"CLIENT": "client", "SERVER": "server", "UNSPECIFIED": "internal", "LOCAL": "internal", "PRODUCER": "producer", "CONSUMER": "consumer",
	"HTTP_HEADERS": "http_headers", "TEXT_MAP": "text_map", "BINARY": "binary",
}

// replaced reports whether a name refers to an import that a migration removes.
func (s *script) replaced(n *syntax.Node, i syntax.Import) bool {
	if i.Node == nil {
		return false
	}
	d := s.f.Definition(n)
	return d == nil || i.Node.Within(d)
}

// key returns the source of the key of an attribute.
func (s *script) key(n *syntax.Node) string {
	k, known := s.tagOf(n)
	if !known {
		return s.text(n)
	}
	if n.Kind == syntax.String && attributeKey(k) == k {
		return s.f.Code(n)
	}
	if n.Kind != syntax.String && attributeKey(k) == k && !s.ofLibrary(n) {
		return s.text(n)
	}
	s.mark(n)
	return s.quote(attributeKey(k))
}

// ofLibrary reports whether a name or member begins with an import of a source library, or with a name destructured
// from one.
func (s *script) ofLibrary(n *syntax.Node) bool {
	_, ok := s.sourceImport(n)
	return ok
}

// object returns the literal for a variable that hoistObject has removed, otherwise n.
func (s *script) object(n *syntax.Node) *syntax.Node {
	if o := s.inlined[n]; o != nil {
		return o
	}
	return n
}

// partOf returns the call that makes a part of the setup: the value of a removed variable, otherwise n.
func (s *script) partOf(n *syntax.Node) *syntax.Node {
	if made := s.settings[n.Text]; made != nil && n.Kind == syntax.Name {
		return made
	}
	return n
}

// sourceImport returns the import of a source library with which a name or member begins.
func (s *script) sourceImport(n *syntax.Node) (syntax.Import, bool) {
	n = n.Inner(syntax.Member)
	i, ok := s.f.Imported(n.Text)
	if !ok { // const { Tags } = opentracing
		if d := s.f.Definition(n); d != nil && d.Kind == syntax.Assign && d.Value().Kind == syntax.Name {
			i, ok = s.f.Imported(d.Value().Text)
		}
	}
	return i, ok && s.isSource(i.Path)
}

// quote returns a string literal with the quotes that prevail in the file.
func (s *script) quote(v string) string {
	q := strconv.Quote(v)
	if bytes.Count(s.f.Source, []byte{'\''}) >= bytes.Count(s.f.Source, []byte{'"'}) && !strings.ContainsAny(v, `'\`) {
		return "'" + v + "'"
	}
	return q
}

// startMethods are the methods that start spans.
var startMethods = []string{"startSpan", "start_span", "start_active_span", "trace"}

// hoist finds statements that set the kind of a span, if the same block or its with statement starts the span, and
// variables that hold the options or tags of the next start. The start sets them instead.
func (s *script) hoist(block *syntax.Node) {
	starts := map[string]*syntax.Node{}
	assign := func(n *syntax.Node) bool {
		if n.Kind != syntax.Assign || len(n.Children) != 2 {
			return false
		}
		name, value := n.Children[0].Text, n.Value()
		if _, method := value.Called(); slices.Contains(startMethods, method) {
			starts[name] = value
		} else if value.Kind == syntax.Member && value.Text == "span" && starts[value.Children[0].Text] != nil {
			starts[name] = starts[value.Children[0].Text]
		} else if n.Children[0].Kind == syntax.Name {
			delete(starts, name)
		}
		return true
	}
	if w := block.Parent; w != nil && w.Kind == syntax.With {
		for _, n := range w.Children {
			assign(n)
		}
	}
	for i, n := range block.Children {
		if i+1 < len(block.Children) {
			s.hoistObject(n, block.Children[i+1])
		}
		if assign(n) || n.Kind != syntax.Call || len(n.Args()) != 2 {
			continue
		}
		receiver, name := n.Method()
		if receiver != nil && receiver.Kind == syntax.Member && receiver.Text == "span" { // of a scope
			receiver = receiver.Children[0]
		}
		if name != "setTag" && name != "set_tag" || receiver == nil || receiver.Kind != syntax.Name {
			continue
		}
		key, _ := s.tagOf(n.Args()[0])
		kind, ok := s.tagOf(n.Args()[1])
		if c := starts[receiver.Text]; c != nil && key == "span.kind" && ok && spanKinds[kind] != "" {
			s.hoists[c] = kind
			s.gone[n] = true
			s.mark(n)
		}
	}
}

// hoistObject finds a variable with the options or tags of a span, if the start in the next statement is its only use.
func (s *script) hoistObject(n, next *syntax.Node) {
	if n.Kind != syntax.Assign || n.Text != "=" || len(n.Children) != 2 || n.Value().Kind != syntax.Object || s.names[n.Children[0].Text] != 2 ||
		s.f.Value(n.Children[0]) != n.Value() || !s.alone(n) || s.commented(n) {
		return
	}
	calls := []*syntax.Node{next}
	if next.Kind == syntax.With {
		calls = next.Children[:len(next.Children)-1]
	}
	for _, c := range calls {
		if c.Kind == syntax.Assign || c.Kind == syntax.Return && len(c.Children) == 1 {
			c = c.Children[len(c.Children)-1]
		}
		receiver, method := c.Called()
		if !slices.Contains(startMethods, method) || s.kind(receiver) != tracerValue {
			continue
		}
		for i, a := range c.Args() {
			values := []*syntax.Node{a}
			if a.Kind == syntax.Object && i == 1 {
				values = a.Children
			}
			for _, v := range values {
				key := "tags" // options
				if v.Kind == syntax.Pair {
					key = v.Children[0].Text
				} else if v.Kind == syntax.Argument {
					key = v.Text
				} else if i != 1 || s.f.Language == syntax.Python {
					continue
				}
				if v.Kind == syntax.Pair || v.Kind == syntax.Argument {
					v = v.Value()
				}
				if key == "tags" && v.Kind == syntax.Name && v.Text == n.Children[0].Text {
					s.inlined[v], s.gone[n] = n.Value(), true
				}
			}
		}
	}
}

// commented reports whether a node contains comments, which are lost if it is removed.
func (s *script) commented(n *syntax.Node) bool {
	return slices.ContainsFunc(s.f.Comments, func(c syntax.Comment) bool { return n.Start <= c.Start && c.End <= n.End })
}

// alone reports whether an assignment is a separate statement whose variable is not visible in other files.
func (s *script) alone(n *syntax.Node) bool {
	if s.f.Language == syntax.Python {
		return n.Children[0].Kind == syntax.Name && s.ownLines(n) && (n.Enclosing(syntax.Func) != nil || !s.unit.imported[n.Children[0].Text])
	}
	rest := strings.TrimLeft(string(s.f.Source[n.End:min(len(s.f.Source), n.End+64)]), " \t")
	return s.declares(n.Start) >= 0 && (rest == "" || strings.ContainsAny(rest[:1], ";\r\n/"))
}

// left blocks the unit for each use of a source library that no edit covers. It returns true if there is none.
func (s *script) left() bool {
	names := map[string]syntax.Import{}
	for _, i := range s.f.Imports {
		if s.isSource(i.Path) && i.Name != "" {
			names[i.Name] = i
		}
	}
	ok := true
	for n := range s.f.Root.All() {
		if n.Kind == syntax.Name && s.settings[n.Text] != nil && !s.done[n] {
			s.blockAt(n, "%s is used in a way that no table knows.", n.Text)
			ok = false
			continue
		}
		i, imported := names[n.Text]
		if n.Kind != syntax.Name || !imported || s.done[n] || n == i.Node || n.Within(i.Node) {
			continue
		}
		if p := n.Parent; p != nil && (p.Kind == syntax.Assign || p.Kind == syntax.Pair) && i.Node != nil && (i.Node.Within(p) || p.Parent != nil && p.Parent.Parent != nil && i.Node.Within(p.Parent.Parent) && p.Parent.Kind == syntax.Object) {
			continue // the definition of the import
		}
		at := n
		if p := n.Parent; p != nil && p.Kind == syntax.Member {
			at = p
		}
		s.blockAt(at, "%s is in no table, or used in a way that no table knows.", s.brief(at))
		ok = false
	}
	return ok
}
