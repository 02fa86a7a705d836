// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"bytes"
	"cmp"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"assay/internal/review/syntax"
)

// javaFile holds the data that the migration collects about a Java file.
type javaFile struct {
	refs    []javaRef                                  // uses of classes of source libraries
	idents  map[string]bool                            // other identifiers outside of imports
	more    []edit                                     // edits of types, and around statements with scopes
	blocks  map[*syntax.Node]map[string][]*syntax.Node // declarations by name, by the node that holds them
	types   map[*syntax.Node]string                    // of expressions, set by typeOf
	scopes  map[*syntax.Node]string                    // names of added variables, by the declaration they belong to
	locals  map[*syntax.Node]map[string]bool           // names of added variables, by function
	imports [][2]int                                   // ranges of the import statements
	setups  map[*syntax.Node]*javaSetup                // of the Jaeger client or Brave, by the call that makes a tracer
	removed [][2]int                                   // ranges of statements that are removed
}

// javaRef is a use of a class of a source library.
type javaRef struct {
	class      string // qualified name
	start, end int
	known      bool         // a table has the class
	node       *syntax.Node // set in an expression, nil in a type
}

// javaUnit has the classes of a build by their simple names.
type javaUnit struct {
	classes map[string][]*javaClass
	methods map[string]bool // names of the methods that files of the unit declare
	used    map[string]bool // classes of source libraries that files of the unit name
	setups  int             // calls that make a tracer
	agent   *bool           // set by hasJavaAgent
}

// javaClass is a class of a unit.
type javaClass struct {
	s    *script
	node *syntax.Node
}

// javaPrepare indexes the classes of a unit and finds the uses of the source libraries.
func javaPrepare(u *scriptUnit) bool {
	u.java = &javaUnit{classes: map[string][]*javaClass{}, methods: map[string]bool{}, used: map[string]bool{}}
	relevant := false
	for _, s := range u.files {
		s.java = &javaFile{
			idents: map[string]bool{}, blocks: map[*syntax.Node]map[string][]*syntax.Node{}, types: map[*syntax.Node]string{},
			scopes: map[*syntax.Node]string{}, locals: map[*syntax.Node]map[string]bool{}, setups: map[*syntax.Node]*javaSetup{},
		}
		for n := range s.f.Root.All() {
			switch n.Kind {
			case syntax.Class:
				if n.Text != "" {
					u.java.classes[n.Text] = append(u.java.classes[n.Text], &javaClass{s, n})
				}
			case syntax.Func:
				u.java.methods[n.Text] = true
			}
		}
	}
	built := u.hasSettings(u.dir) || slices.ContainsFunc(u.paths, func(f string) bool { return directory(f) == u.dir && slices.Contains(javaManifests, path.Base(f)) })
	for _, s := range u.files {
		s.javaRefs()
		s.javaRename()
		relevant = relevant || len(s.java.refs) > 0
		for _, r := range s.java.refs {
			u.java.used[r.class] = true
		}
		if path.Base(s.f.Path) == "module-info.java" {
			s.blockAt(nil, "The modules that the file requires are in no table.")
		}
		if !built && len(s.java.refs) > 0 {
			s.blockAt(&syntax.Node{Start: s.java.refs[0].start}, "The file belongs to no build of Maven or Gradle.")
		}
	}
	for _, s := range u.files {
		if !s.f.Broken {
			s.javaSetups()
		}
	}
	if relevant {
		u.javaOthers()
	}
	return relevant
}

// maxOthers is the maximum number of files and directories that javaOthers visits.
const maxOthers = 50_000

// javaOthers blocks a unit whose files in other JVM languages use a source library. Reviews do not list such files.
func (u *scriptUnit) javaOthers() {
	seen := 0
	_ = fs.WalkDir(u.root.FS(), cmp.Or(u.dir, "."), func(name string, d fs.DirEntry, err error) error {
		if seen++; seen > maxOthers {
			return fs.SkipAll
		}
		switch {
		case err != nil: // reviews report unreadable files
			return nil //nolint:nilerr // continue with the other files
		case d.IsDir() && slices.Contains([]string{".git", ".gradle", "build", "node_modules", "target"}, d.Name()):
			return fs.SkipDir
		case !d.Type().IsRegular() || !slices.Contains([]string{".kt", ".scala", ".groovy"}, path.Ext(name)):
			return nil
		}
		if source, err := u.read(name); err == nil && mentions(source, javaLibraryPackages) {
			u.blocked = true
			u.open(name, 0, "The file uses the old library in a language that has no table.")
		}
		return nil
	})
}

// javaBuilds returns the root directories of the builds for the directories with build files. Gradle settings make all
// build files below them one build; reviews do not list settings files.
func (m *migration) javaBuilds(dirs map[string]bool) map[string]bool {
	all := maps.Clone(dirs)
	for dir := range dirs {
		for dir != "" {
			if dir = directory(dir); m.hasSettings(dir) {
				all[dir] = true
			}
		}
	}
	return outermost(all)
}

// hasSettings reports whether a directory contains Gradle settings.
func (m *migration) hasSettings(dir string) bool {
	return slices.ContainsFunc([]string{"settings.gradle", "settings.gradle.kts"}, func(name string) bool {
		info, err := m.root.Stat(path.Join(dir, name))
		return err == nil && info.Mode().IsRegular()
	})
}

// javaToken matches a comment, a text block, a string, a character, a word or any other character.
var javaToken = regexp.MustCompile(`(?s)//[^\n]*|/\*.*?(?:\*/|\z)|"""(?:\\.|[^\\])*?(?:"""|\\?\z)|"(?:\\.|[^"\\\n])*["\n]?|'(?:\\.|[^'\\\n])*['\n]?|([\w$[:^ascii:]]+)|[^ \t\r\n]`)

// javaTokens yields the identifiers of a source outside of comments and strings. dotted reports whether the identifier
// follows a dot.
func javaTokens(source []byte, yield func(start, end int, dotted bool)) {
	last := byte(0)
	for _, m := range javaToken.FindAllSubmatchIndex(source, -1) {
		c := source[m[0]]
		if c == '/' && m[1] > m[0]+1 { // a comment
			continue
		}
		if m[2] >= 0 && (c < '0' || c > '9') {
			yield(m[0], m[1], last == '.')
		}
		last = c
	}
}

// javaRefs finds the uses of classes of source libraries.
func (s *script) javaRefs() {
	source := s.f.Source
	for _, i := range s.f.Imports {
		end := i.Node.End
		for end < len(source) && source[end] != ';' {
			end++
		}
		s.java.imports = append(s.java.imports, [2]int{lineStart(source, i.Node.Start), min(end+1, len(source))})
	}
	nodes := map[int]*syntax.Node{}
	for n := range s.f.Root.All(syntax.Name) {
		if n.End > n.Start {
			nodes[n.Start] = n
		}
	}
	until, statement := 0, 0
	javaTokens(source, func(start, end int, dotted bool) {
		for statement < len(s.java.imports) && s.java.imports[statement][1] <= start {
			statement++
		}
		if dotted || start < until || statement < len(s.java.imports) && s.java.imports[statement][0] <= start {
			return
		}
		class, stop, known := s.javaClassAt(start, end)
		if class == "" {
			s.java.idents[string(source[start:end])] = true
			return
		}
		until = stop
		node := nodes[start]
		if node != nil {
			for node.Parent != nil && node.Parent.Kind == syntax.Member && node.Parent.End <= stop {
				node = node.Parent
			}
			if p := node.Parent; p != nil && p.Kind == syntax.Member && p.Text == "class" {
				node = nil
			}
		}
		s.java.refs = append(s.java.refs, javaRef{class, start, stop, known, node})
	})
	for _, r := range s.java.refs {
		if r.node != nil {
			s.java.types[r.node] = "class " + r.class
		}
	}
}

// javaMember matches a member access.
var javaMember = regexp.MustCompile(`^[ \t\r\n]*\.[ \t\r\n]*([\w$]+)`)

// javaClassAt returns the source library's class that is named at an offset, the end of the name, and whether a table
// has the class. It returns "" for other names.
func (s *script) javaClassAt(start, end int) (class string, stop int, known bool) {
	source := s.f.Source
	if class = s.javaImported(string(source[start:end])); class != "" {
		_, known = javaClasses[class]
	}
	name := string(source[start:end])
	stop = end
	if class == "" && name != "io" && name != "brave" && name != "zipkin2" && name != "datadog" {
		return "", 0, false
	}
	for at := end; ; {
		m := javaMember.FindSubmatchIndex(source[at:])
		if m == nil {
			break
		}
		part := string(source[at+m[2] : at+m[3]])
		at += m[1]
		if name = name + "." + part; class != "" {
			name = class + "." + part
		}
		if _, ok := javaClasses[name]; ok {
			class, stop, known = name, at, true
			continue
		}
		if class != "" {
			break
		}
		if isUpper(part) {
			if s.isSource(name) {
				return name, at, false
			}
			break
		}
	}
	return class, stop, known
}

// javaImported returns the class of a source library that is imported with a simple name, or "".
func (s *script) javaImported(name string) string {
	for _, i := range s.f.Imports {
		if !s.isSource(i.Path) {
			continue
		}
		class := i.Path + "." + name
		_, known := javaClasses[class]
		if i.Name == name && (known || !isUpper(i.Path[strings.LastIndexByte(i.Path, '.')+1:])) || i.Member == "*" && known && !s.javaDeclares(name) {
			return class
		}
	}
	return ""
}

// javaDeclares reports whether a simple name refers to another class in the file, in its imports or in its package.
func (s *script) javaDeclares(name string) bool {
	if i, ok := s.f.Imported(name); ok {
		return !s.isSource(i.Path)
	}
	return slices.ContainsFunc(s.unit.java.classes[name], func(c *javaClass) bool {
		return c.s == s || c.s.f.Package == s.f.Package && c.node.Parent == c.s.f.Root
	})
}

// merge adds the edits of j.more that lie in a node and overlap no other edit.
func (j *javaFile) merge(root *syntax.Node, edits []edit) []edit {
	n := len(edits)
	i := 0
	for _, e := range j.more[lower(j.more, root.Start):] {
		if e.start > root.End || e.end > root.End {
			break
		}
		for i < n && edits[i].end <= e.start {
			i++
		}
		if i < n && edits[i].start < e.end {
			continue
		}
		edits = append(edits, e)
	}
	if len(edits) > n {
		sortEdits(edits)
	}
	return edits
}

// lower returns the index of the first edit that begins at or after an offset.
func lower(edits []edit, start int) int {
	at, _ := slices.BinarySearchFunc(edits, start, func(e edit, start int) int { return e.start - start })
	return at
}

// javaType returns the type that a type expression names: the qualified class of a source library, "[]" for an array,
// otherwise the last name. It returns "" for an unknown type.
func (s *script) javaType(code string) string {
	for {
		open, end := strings.IndexByte(code, '<'), strings.LastIndexByte(code, '>')
		if open < 0 || end < open {
			break
		}
		code = code[:open] + code[end+1:]
	}
	code = strings.Join(strings.Fields(code), "")
	switch {
	case code == "" || code == "var" || strings.ContainsAny(code, "@|&("):
		return ""
	case strings.HasSuffix(code, "[]") || strings.HasSuffix(code, "..."):
		return "[]"
	}
	head, rest, nested := strings.Cut(code, ".")
	class := s.javaImported(head)
	if class != "" && nested {
		class += "." + rest
	}
	if class == "" {
		if s.isSource(code) {
			class = code
		}
	}
	if class != "" {
		return class
	}
	return code[strings.LastIndexByte(code, '.')+1:]
}

// javaClassOf returns the class of the unit with a simple name, or nil.
func (s *script) javaClassOf(name string) *javaClass {
	classes := s.unit.java.classes[name]
	if len(classes) == 1 {
		return classes[0]
	}
	for _, c := range classes {
		i, ok := s.f.Imported(name)
		if ok && i.Path == c.s.f.Package || !ok && c.s.f.Package == s.f.Package {
			return c
		}
	}
	return nil
}

// declared returns the declarations that a node holds, by name. Names of methods end in "()".
func (s *script) declared(holder *syntax.Node) map[string][]*syntax.Node {
	if names, ok := s.java.blocks[holder]; ok {
		return names
	}
	names := map[string][]*syntax.Node{}
	for _, c := range holder.Children {
		switch c.Kind {
		case syntax.Param:
			names[c.Text] = append(names[c.Text], c)
		case syntax.Assign, syntax.Declare:
			if c.Type != "" && c.Targets()[0].Kind == syntax.Name {
				names[c.Targets()[0].Text] = append(names[c.Targets()[0].Text], c)
			}
		case syntax.Func:
			if holder.Kind == syntax.Class {
				names[c.Text+"()"] = append(names[c.Text+"()"], c)
			}
		}
	}
	s.java.blocks[holder] = names
	return names
}

// javaDefinition returns the declaration of a variable or field, and the file that contains it, or nil.
func (s *script) javaDefinition(n *syntax.Node) (*script, *syntax.Node) {
	for p := n.Parent; p != nil; p = p.Parent {
		if p.Kind == syntax.Class {
			if in, d := s.member(&javaClass{s, p}, n.Text, 0); d != nil {
				return in, d
			}
			continue
		}
		for _, d := range s.declared(p)[n.Text] {
			if d.Start < n.Start && !n.Within(d) {
				return s, d
			}
		}
	}
	return nil, nil
}

// member returns the field of a class or its superclasses, or the method for a name that ends in "()".
func (s *script) member(c *javaClass, name string, depth int) (*script, *syntax.Node) {
	if s.work++; c == nil || depth > 16 || s.work > maxGoWork {
		return nil, nil
	}
	if d := c.s.declared(c.node)[name]; len(d) > 0 {
		for _, other := range d[1:] {
			if other.Type != d[0].Type {
				return nil, nil
			}
		}
		return c.s, d[0]
	}
	for _, super := range c.node.Children {
		if super.Kind == syntax.Name || super.Kind == syntax.Member {
			if in, d := s.member(c.s.javaClassOf(super.Text), name, depth+1); d != nil {
				return in, d
			}
		}
	}
	return nil, nil
}

// typeOf returns the type of an expression as javaType does. For the name of a class it returns "class " and the class
// if the class is of a source library, otherwise "static " and the name.
func (s *script) typeOf(n *syntax.Node) string {
	if n == nil {
		return ""
	}
	if t, ok := s.java.types[n]; ok {
		return t
	}
	s.java.types[n] = "" // while it is inferred
	if s.work++; s.work > maxGoWork {
		return ""
	}
	var t string
	if cast, ok := s.cast(n); ok {
		t = s.javaType(cast)
	} else {
		t = s.javaInfer(n)
	}
	s.java.types[n] = t
	return t
}

// cast returns the type to which an expression is cast, and whether there is a cast.
func (s *script) cast(n *syntax.Node) (string, bool) {
	if p := n.Parent; p != nil && p.Start == n.Start && p.Kind != syntax.Operator && p.Kind != syntax.Conditional && p.Kind != syntax.Assign && p.Kind != syntax.Block {
		return "", false
	}
	before := bytes.TrimRight(s.f.Source[max(0, n.Start-200):n.Start], " \t\r\n")
	if len(before) == 0 || before[len(before)-1] != ')' {
		return "", false
	}
	open := bytes.LastIndexByte(before, '(')
	if open < 0 {
		return "", false
	}
	code := string(before[open+1 : len(before)-1])
	for _, c := range []byte(code) {
		if !isWord(c) && !strings.ContainsRune("$.<>[], ?", rune(c)) {
			return "", false
		}
	}
	head := bytes.TrimRight(before[:open], " \t\r\n")
	if len(head) > 0 && (isWord(head[len(head)-1]) || head[len(head)-1] == ')') && !bytes.HasSuffix(head, []byte("return")) {
		return "", false
	}
	return code, code != ""
}

// declaredType returns the type of a declaration.
func (s *script) declaredType(in *script, d *syntax.Node) string {
	if t := in.javaType(d.Type); t != "" || d.Kind != syntax.Assign || d.Type != "var" || d.Text == ":" {
		return t
	}
	return in.typeOf(d.Value())
}

func (s *script) javaInfer(n *syntax.Node) string {
	switch n.Kind {
	case syntax.String, syntax.Template:
		return "String"
	case syntax.Bool:
		return "boolean"
	case syntax.Number:
		switch text := strings.ToLower(n.Text); {
		case strings.HasPrefix(text, "0x"), strings.HasSuffix(text, "l"):
			return "long"
		case strings.ContainsAny(text, ".efd"):
			return "double"
		}
		return "int"
	case syntax.New:
		return s.javaType(s.f.Code(n.Callee()))
	case syntax.Conditional:
		if t := s.typeOf(n.Children[1]); t != "" {
			return t
		}
		return s.typeOf(n.Children[2])
	case syntax.Assign:
		return s.typeOf(n.Children[0])
	case syntax.Operator:
		if len(n.Children) == 2 && strings.Contains("+-*/%", n.Text) {
			a, b := s.typeOf(n.Children[0]), s.typeOf(n.Children[1])
			for _, t := range []string{"String", "double", "Double", "float", "long", "Long", "int", "Integer"} {
				if a == t && b != "" || b == t && a != "" {
					return strings.ToLower(t[:1]) + t[1:]
				}
			}
			return ""
		}
		if slices.Contains([]string{"!", "&&", "||", "==", "!=", "<", ">", "<=", ">=", "instanceof"}, n.Text) {
			return "boolean"
		}
	case syntax.Name:
		if n.Text == "this" {
			if c := n.Enclosing(syntax.Class); c != nil {
				return c.Text
			}
			return ""
		}
		if in, d := s.javaDefinition(n); d != nil {
			return s.declaredType(in, d)
		}
		if class, ok := s.javaStatic(n); ok {
			return javaConstantType(class)
		}
		if s.javaClassOf(n.Text) != nil || isUpper(n.Text) && !strings.Contains(n.Text, "_") {
			return "static " + n.Text
		}
	case syntax.Member:
		if class, ok := s.javaStatic(n); ok {
			return javaConstantType(class)
		}
		if of := s.javaReceiver(n.Children[0]); of != nil {
			if in, d := s.member(of, n.Text, 0); d != nil {
				return s.declaredType(in, d)
			}
		}
	case syntax.Call:
		return s.callType(n)
	}
	return ""
}

// javaReceiver returns the class of the unit that is the type of an expression or that the expression names, or nil.
func (s *script) javaReceiver(n *syntax.Node) *javaClass {
	t := strings.TrimPrefix(s.typeOf(n), "static ")
	if t == "" || strings.Contains(t, ".") {
		return nil
	}
	if n.Kind == syntax.Name && n.Text == "this" {
		return &javaClass{s, n.Enclosing(syntax.Class)}
	}
	return s.javaClassOf(t)
}

func (s *script) callType(c *syntax.Node) string {
	receiver, name := c.Method()
	if receiver == nil {
		if in, d := s.javaMethod(c, name); d != nil {
			return s.declaredType(in, d)
		}
		return ""
	}
	t := strings.TrimPrefix(s.typeOf(receiver), "class ")
	if row := javaRowOf(t, name, len(c.Args())); row != nil {
		return row.result
	}
	if of := s.javaReceiver(receiver); of != nil {
		if in, d := s.member(of, name+"()", 0); d != nil {
			return s.declaredType(in, d)
		}
	}
	switch name {
	case "toString", "getMessage", "getLocalizedMessage", "trim", "toLowerCase", "toUpperCase", "substring":
		return "String"
	case "valueOf", "format", "join":
		if t == "static String" {
			return "String"
		}
	case "size", "length", "hashCode", "intValue", "ordinal":
		return "int"
	case "currentTimeMillis", "nanoTime", "longValue":
		return "long"
	case "doubleValue":
		return "double"
	case "equals", "isEmpty", "contains", "containsKey", "booleanValue":
		return "boolean"
	}
	return ""
}

// javaMethod returns the method that a call without a receiver refers to, or nil.
func (s *script) javaMethod(n *syntax.Node, name string) (*script, *syntax.Node) {
	for p := n.Parent; p != nil; p = p.Parent {
		if p.Kind == syntax.Class {
			if in, d := s.member(&javaClass{s, p}, name+"()", 0); d != nil {
				return in, d
			}
		}
	}
	if i, ok := s.f.Imported(name); ok {
		return s.member(s.javaClassOf(i.Path[strings.LastIndexByte(i.Path, '.')+1:]), name+"()", 0)
	}
	return nil, nil
}

// javaStatic returns the qualified name of the constant of a source library that a name or member refers to.
func (s *script) javaStatic(n *syntax.Node) (string, bool) {
	if n.Kind == syntax.Member {
		if class, ok := strings.CutPrefix(s.typeOf(n.Children[0]), "class "); ok {
			return class + "." + n.Text, true
		}
		return "", false
	}
	if n.Kind != syntax.Name {
		return "", false
	}
	for _, i := range s.f.Imports {
		if _, ok := javaClasses[i.Path]; ok && (i.Member == "*" || i.Name == n.Text) {
			if _, ok := javaConstants[i.Path+"."+n.Text]; ok {
				return i.Path + "." + n.Text, true
			}
		}
	}
	return "", false
}

// isUpper reports whether a name begins with a capital letter, like the name of a class.
func isUpper(name string) bool { return name != "" && 'A' <= name[0] && name[0] <= 'Z' }
