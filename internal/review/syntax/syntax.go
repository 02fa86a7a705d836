// SPDX-License-Identifier: Apache-2.0

package syntax

import (
	"iter"
	"path"
	"slices"
	"sort"
	"strings"
)

// Language is a programming language.
type Language uint8

// The languages.
const (
	Unknown Language = iota
	Go
	JavaScript // including JSX
	TypeScript // including TSX
	Python
	Java
)

var languages = [...]string{"", "go", "javascript", "typescript", "python", "java"}

// String returns the language as a value of telemetry.sdk.language, except for "typescript".
func (l Language) String() string { return languages[l] }

// LanguageOf returns the language of a file by its extension.
func LanguageOf(file string) Language {
	switch strings.ToLower(path.Ext(file)) {
	case ".go":
		return Go
	case ".js", ".jsx", ".mjs", ".cjs":
		return JavaScript
	case ".ts", ".tsx", ".mts", ".cts":
		return TypeScript
	case ".py", ".pyi":
		return Python
	case ".java":
		return Java
	}
	return Unknown
}

// Kind is the kind of a node.
type Kind uint8

// The kinds of nodes. "Children" are the contents of Node.Children, "Text" is the content of Node.Text. Some constructs
// have no node, and their operand takes their place: parentheses, type conversions without a call (`x as T`, `x!`,
// `<T>x`, `(T) x` of Java), pointers and addresses (`&x`, `*x`), and expression statements.
const (
	Other  Kind = iota
	Name        // an identifier, this, self, super. Text: the identifier
	Member      // x.y, x?.y, x::y. Text: y. Children: x
	Index       // x[i]. Children: x, the indices
	// Call is f(...), also a tagged template. Children: the callee, the arguments, including trailing lambdas.
	Call
	New    // new T(...). Children: T as Name or Member, the arguments
	String // a string that is known: a literal, or a concatenation of literals. Text: the value
	// Template is a string with variable parts: a template, an f-string or a concatenation. Children: the parts in
	// order, String or expressions.
	Template
	Number // Text: the source
	Bool   // Text: "true" or "false"
	Null   // nil, null, undefined, None
	// Object is a map, dict, object or struct literal. Text: its type in the source, if written. Children: Pair,
	// Spread, Func or expressions.
	Object
	// Pair is key: value in an Object. A name in a pattern with a default is an Operator "=". Children: the key (String
	// for a literal key or field name, otherwise an expression), the value.
	Pair
	// List is an array, slice, tuple or set literal. Text: its element type in the source, if written. Children: the
	// elements.
	List
	Argument // name=value among the arguments of a call. Text: name. Children: the value
	Spread   // ...x, *x, **x. Children: x
	// Assign is an assignment, a declaration with a value, or the header of a loop or a with. Text: the operator ("=",
	// ":=", "+=", "in", "of", "as"). Children: the targets (an Object or List where a pattern destructures), the value
	// last.
	Assign
	Declare // a declaration without a value: a variable or field. Children: the declared names
	// Func is a function, method, constructor or lambda. Text: its name, "" for a lambda. Children: Param, decorators,
	// the body last: a Block, or the expression of a lambda.
	Func
	// Param is a parameter of a Func, including a receiver. Text: its name, "" for a pattern that destructures.
	// Children: decorators, the default, if any, or the pattern.
	Param
	// Class is a class, interface, enum or Go struct type. Text: its name. Children: decorators, superclasses as Name
	// or Member, members, each field after its decorators.
	Class
	Block       // statements. Children: the statements. A file is a Block
	If          // Children: the condition, the consequence, the alternative if there is one
	Conditional // a ? b : c, b if a else c. Children: a, b, c
	Loop        // for, while, do, range, for-of, comprehension. Children: the header's parts, the body last
	Try         // Children: the body, Catch, Finally
	Catch       // Children: Param if named, the body last
	Finally     // Children: the body
	// With is a with of Python or a try-with-resources of Java. Children: Assign or expression for each resource, the
	// body last.
	With
	Switch    // switch, select, match. Children: the subject if any, Case
	Case      // Children: the values, the body (a Block) last
	Return    // Children: the values
	Throw     // throw, raise. Children: the value if any
	Jump      // break, continue, goto. Text: the keyword
	Defer     // defer of Go. Children: the call
	Spawn     // go of Go. Children: the call
	Await     // await x, yield x. Text: the keyword. Children: x
	Operator  // any other operator. Text: the operator as written ("==", "!", "and"). Children: the operands
	Decorator // a decorator or annotation. Children: a Name, Member or Call
)

// Node is a node of the tree. Its methods count their steps, like methods of File.
type Node struct {
	Kind       Kind
	depth      uint16 // below the root
	Start, End int    // byte offsets in the source
	Text       string // depends on Kind
	// Type is the declared type in the source, for Param, Assign and Declare; the result types for Func. The first
	// Param of a Go method is its receiver.
	Type     string
	Parent   *Node
	Children []*Node

	file *File // nil for a node that is in no tree
}

// Import is an imported module or a name of it.
type Import struct {
	Path   string // the module, such as "@opentelemetry/api" or "io.opentelemetry.api.trace"
	Member string // the imported name, "" for the whole module, "*" for all names
	Name   string // the name in this file, "" if it has none
	Node   *Node  // the range of the path or statement; in Python, one of File.Statements or below one
}

// Comment is a comment, with its delimiters.
type Comment struct {
	Start, End int
}

// File is a parsed file. It is not safe for concurrent use: its methods and its nodes' methods count their steps.
type File struct {
	Path     string // in the review, with slashes
	Language Language
	Source   []byte
	Package  string // Go's and Java's package
	Root     *Node  // a Block
	Imports  []Import
	Comments []Comment
	// Statements are the statements of Python that are not in the tree, in source order. Text is "import", "global",
	// "nonlocal", or "future" for an import of __future__. Parent is the function around the statement, or nil.
	// Children are the names of global and nonlocal.
	Statements []*Node
	// Broken is set when parts of the file could not be parsed. The tree has the other parts.
	Broken bool
	// Unparsed is set when the tree lacks code. In JavaScript and TypeScript, an error within one line sets only
	// Broken: the grammars lack parts of the languages, such as entities in JSX.
	Unparsed bool

	lines []int // offsets of line starts
	names map[string][]*Node
	steps int
}

// finish sets parents, depths and the index of names, and removes nodes that are too deep. Every adapter calls it last.
func (f *File) finish() *File {
	f.names = map[string][]*Node{}
	stack := []*Node{f.Root}
	for len(stack) > 0 {
		n := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		n.file = f
		if n.depth == maxDepth && len(n.Children) > 0 {
			n.Kind, n.Text, n.Children, f.Broken, f.Unparsed = Other, "", nil, true, true
		}
		for _, c := range slices.Backward(n.Children) {
			c.Parent, c.depth = n, n.depth+1
			stack = append(stack, c)
		}
		switch n.Kind {
		case Assign, Declare:
			for _, t := range n.Targets() {
				f.bind(t, n)
			}
		case Param:
			if n.Text != "" {
				f.names[n.Text] = append(f.names[n.Text], n)
			}
			for _, c := range n.Children {
				if n.Text == "" && c.Kind != Decorator {
					f.bind(c, n)
				}
			}
		}
	}
	for _, defs := range f.names { // the tree has the condition of a do loop before its body
		slices.SortStableFunc(defs, func(a, b *Node) int { return a.Start - b.Start })
	}
	f.lines = append(f.lines, 0)
	for i, b := range f.Source {
		if b == '\n' {
			f.lines = append(f.lines, i+1)
		}
	}
	return f
}

// bind adds the names in a target or pattern of a definition to the index.
func (f *File) bind(target, def *Node) {
	for n := range target.Names() {
		f.names[n.Text] = append(f.names[n.Text], def)
	}
}

// LineOf returns the line of an offset, from 1.
func (f *File) LineOf(offset int) int { return sort.SearchInts(f.lines, offset+1) }

// Code returns the source of a node.
func (f *File) Code(n *Node) string {
	f.steps += (n.End - n.Start) / 64
	return string(f.Source[n.Start:n.End])
}

// Imported returns the import that a name refers to.
func (f *File) Imported(name string) (Import, bool) {
	f.steps += len(f.Imports) / 16
	for _, i := range f.Imports {
		if i.Name == name && name != "" {
			return i, true
		}
	}
	return Import{}, false
}

// ImportsAny reports whether the file imports one of the modules, or a module below one of them.
func (f *File) ImportsAny(modules ...string) bool {
	f.steps += len(f.Imports) * len(modules) / 16
	return slices.ContainsFunc(f.Imports, func(i Import) bool { return Below(i.Path, modules) })
}

// Below reports whether the path of a module is one of modules, or continues one after a '/' or '.'.
func Below(module string, modules []string) bool {
	return slices.ContainsFunc(modules, func(m string) bool {
		rest, ok := strings.CutPrefix(module, m)
		return ok && (rest == "" || rest[0] == '/' || rest[0] == '.')
	})
}

// The limit of steps per file is baseSteps and stepsPerByte for each byte of source. A step of a method of File or Node
// is the visit of a node, or the reading of some source. Reviews of public modules take up to 8 steps per byte.
const (
	baseSteps    = 1 << 20
	stepsPerByte = 50
)

// Exhausted reports whether the methods of the file and its nodes have taken too many steps. All then ends early, so
// findings are incomplete.
func (f *File) Exhausted() bool { return f.steps > baseSteps+stepsPerByte*len(f.Source) }

// count counts steps. It reports whether more are allowed. A node that is in no file has no limit.
func (n *Node) count(steps int) bool {
	if n.file == nil {
		return true
	}
	n.file.steps += steps
	return !n.file.Exhausted()
}

// Definition returns the Assign, Declare or Param that defines a name: the last one before the use in the innermost
// function or the file, otherwise one after the use and outside of functions. It returns nil for names of other files.
// Members are found by their last name in the whole file: the use `this.tracer` finds `this.tracer = ...` and the field
// `tracer`.
func (f *File) Definition(use *Node) *Node {
	if use.Kind != Name && use.Kind != Member {
		return nil
	}
	defs := f.names[use.Text]
	at := sort.Search(len(defs), func(i int) bool { return defs[i].Start > use.Start })
	var best *Node
	depth := -1
	for i := at - 1; i >= 0 && i >= at-maxDefinitions; i-- {
		if d := f.depth(defs[i], use); d > depth {
			best, depth = defs[i], d
		}
	}
	for i := at; best == nil && i < len(defs) && i < at+maxDefinitions; i++ {
		if use.Kind == Member && defs[i].Kind != Param || defs[i].Enclosing(Func) == nil {
			best = defs[i]
		}
	}
	return best
}

// maxDefinitions is the maximum number of definitions considered for a use, so that the work stays linear.
const maxDefinitions = 32

// depth returns the number of functions around a definition that is in scope at a later use, -1 if it is not in scope.
func (f *File) depth(def, use *Node) int {
	if use.Kind == Member {
		if def.Kind == Param {
			return -1
		}
		return 0
	}
	scope := def.Enclosing(Func)
	if scope == nil {
		return 0
	}
	if !use.Within(scope) {
		return -1
	}
	d := 0
	for s := scope; s != nil; s = s.Enclosing(Func) {
		d++
	}
	return d
}

// Known returns the value of a string: a literal, a name or member whose only value in the file is a literal, or an
// element of a constant object.
func (f *File) Known(n *Node) (string, bool) {
	for range 4 { // const a = b
		switch n.Kind {
		case String:
			return n.Text, true
		case Name, Member, Index:
			if v := f.Element(n); v != nil {
				n = v
				continue
			}
			if n.Kind == Member && len(n.Children) == 1 && n.Children[0].Kind == Name {
				if _, ok := f.Imported(n.Children[0].Text); ok {
					return "", false
				}
			}
			v := f.Value(n)
			if v == nil {
				return "", false
			}
			n = v
		default:
			return "", false
		}
	}
	return "", false
}

// Element returns the value in an object literal that a member or index reads, or nil: `KEYS.email` and `KEYS["email"]`
// for an object that the file gives a name outside of functions. For `Keys.EMAIL.value` of a Python enum it returns the
// value of the member.
func (f *File) Element(n *Node) *Node {
	key := n.Text
	switch {
	case n.Kind == Member && len(n.Children) == 1:
	case n.Kind == Index && len(n.Children) == 2 && n.Children[1].Kind == String:
		key = n.Children[1].Text
	default:
		return nil
	}
	of := n.Children[0]
	if f.Language == Python && key == "value" && of.Kind == Member { // Keys.EMAIL.value
		if v := f.Value(of); v != nil && v.Kind == String && v.Parent.Enclosing(Func, Class) != nil && v.Parent.Enclosing(Func, Class).Kind == Class {
			return v
		}
		return nil
	}
	o := f.Element(of)
	if of.Kind == Name {
		o = f.Value(of)
	}
	if o != nil && o.Kind == Call && len(o.Children) == 2 && o.Callee().Text == "freeze" { // Object.freeze({})
		o = o.Children[1]
	}
	if o == nil || o.Kind != Object || o.Enclosing(Func) != nil || slices.ContainsFunc(o.Children, func(c *Node) bool { return c.Kind == Spread }) {
		return nil
	}
	for _, def := range f.names[key][:min(len(f.names[key]), maxDefinitions)] {
		if def.Kind == Assign && slices.ContainsFunc(def.Targets(), func(t *Node) bool { return t.Kind == Member && t.Children[0].Text == of.Text }) {
			return nil // the element is assigned
		}
	}
	return o.Get(key)
}

// Value returns the value of a name or member that has exactly one value in the file, otherwise nil.
func (f *File) Value(n *Node) *Node {
	if n.Kind != Name && n.Kind != Member {
		return nil
	}
	defs := f.names[n.Text]
	if len(defs) != 1 || defs[0].Kind != Assign || len(defs[0].Children) != 2 || defs[0].Children[0].Text != n.Text || defs[0].Within(n) {
		return nil
	}
	return defs[0].Value()
}

// All returns n and the nodes below it in source order, or only the nodes of the given kinds. It ends early when the
// file is [File.Exhausted].
func (n *Node) All(kinds ...Kind) iter.Seq[*Node] {
	return func(yield func(*Node) bool) {
		stack := [][]*Node{{n}} // siblings to visit
		for last := 0; last >= 0; last = len(stack) - 1 {
			if len(stack[last]) == 0 {
				stack = stack[:last]
				continue
			}
			n := stack[last][0]
			stack[last] = stack[last][1:]
			if !n.count(1) || (len(kinds) == 0 || slices.Contains(kinds, n.Kind)) && !yield(n) {
				return
			}
			stack = append(stack, n.Children)
		}
	}
}

// Has reports whether is returns true for n or a node below it.
func (n *Node) Has(is func(*Node) bool) bool {
	for c := range n.All() {
		if is(c) {
			return true
		}
	}
	return false
}

// Names returns the names and members in a target or pattern, in source order.
func (n *Node) Names() iter.Seq[*Node] {
	return func(yield func(*Node) bool) { n.eachName(yield) }
}

// eachName yields the names of a target or pattern. It reports whether iteration continues.
func (n *Node) eachName(yield func(*Node) bool) bool {
	switch n.Kind {
	case Name, Member:
		return yield(n)
	case Object, List, Spread:
		return !slices.ContainsFunc(n.Children, func(c *Node) bool { return !c.eachName(yield) })
	case Pair:
		return n.Value().eachName(yield)
	case Operator: // a name or pattern with a default
		return n.Text != "=" || n.Children[0].eachName(yield)
	}
	return true
}

// Enclosing returns the nearest node above n with one of the kinds, or nil.
func (n *Node) Enclosing(kinds ...Kind) *Node {
	for p := n.Parent; p != nil; p = p.Parent {
		p.count(1)
		if slices.Contains(kinds, p.Kind) {
			return p
		}
	}
	return nil
}

// Inner returns the first node whose kind is not one of kinds: n, its first child, the first child of that child, and
// so on.
func (n *Node) Inner(kinds ...Kind) *Node {
	for slices.Contains(kinds, n.Kind) && len(n.Children) > 0 {
		n = n.Children[0]
	}
	return n
}

// Assignment returns the Assign around an expression, possibly with await between, or nil.
func (n *Node) Assignment() *Node {
	for n = n.Parent; n != nil && n.Kind == Await; {
		n = n.Parent
	}
	if n == nil || n.Kind != Assign {
		return nil
	}
	return n
}

// Within reports whether n is outer or below it.
func (n *Node) Within(outer *Node) bool {
	for ; n != nil; n = n.Parent {
		n.count(1)
		if n == outer {
			return true
		}
	}
	return false
}

// Callee returns the callee of a Call or New.
func (n *Node) Callee() *Node { return n.Children[0] }

// Args returns the arguments of a Call or New. A node without children has none.
func (n *Node) Args() []*Node { return n.Children[min(1, len(n.Children)):] }

// Arg returns argument i, or nil. A keyword Argument is only returned by Named.
func (n *Node) Arg(i int) *Node {
	if args := n.Args(); i >= 0 && i < len(args) && args[i].Kind != Argument {
		return args[i]
	}
	return nil
}

// Named returns the value of the keyword argument with this name, or nil.
func (n *Node) Named(name string) *Node {
	n.count(len(n.Children) / 8)
	for _, a := range n.Args() {
		if a.Kind == Argument && a.Text == name {
			return a.Children[0]
		}
	}
	return nil
}

// Method returns the receiver and the name of a call x.name(...). For name(...), the receiver is nil.
func (n *Node) Method() (receiver *Node, name string) {
	switch c := n.Callee(); c.Kind {
	case Member:
		return c.Children[0], c.Text
	case Name:
		return nil, c.Text
	}
	return nil, ""
}

// Called is like Method for a Call, and returns nil and "" for other nodes.
func (n *Node) Called() (receiver *Node, name string) {
	if n.Kind != Call {
		return nil, ""
	}
	return n.Method()
}

// Targets returns the targets of an Assign or Declare.
func (n *Node) Targets() []*Node {
	if n.Kind == Assign {
		return n.Children[:len(n.Children)-1]
	}
	return n.Children
}

// Value returns the value of an Assign, Pair, Argument or Param with a default, otherwise nil.
func (n *Node) Value() *Node {
	switch n.Kind {
	case Assign, Pair, Argument:
		return n.Children[len(n.Children)-1]
	case Param:
		if last := len(n.Children) - 1; last >= 0 && n.Text != "" && n.Children[last].Kind != Decorator {
			return n.Children[last]
		}
	}
	return nil
}

// Body returns the last child of a Func, Loop, With, Catch, Finally or Case, and the first of a Try.
func (n *Node) Body() *Node {
	if len(n.Children) == 0 {
		return nil
	}
	if n.Kind == Try {
		return n.Children[0]
	}
	return n.Children[len(n.Children)-1]
}

// Params returns the parameters of a Func.
func (n *Node) Params() []*Node {
	n.count(len(n.Children) / 8)
	var params []*Node
	for _, c := range n.Children {
		if c.Kind == Param {
			params = append(params, c)
		}
	}
	return params
}

// Get returns the value of the Pair with this key in an Object, or nil. Other nodes, also nil, have no Pair.
func (n *Node) Get(key string) *Node {
	if n == nil || n.Kind != Object {
		return nil
	}
	n.count(len(n.Children) / 8)
	for _, c := range n.Children {
		if c.Kind == Pair && c.Children[0].Kind == String && c.Children[0].Text == key {
			return c.Value()
		}
	}
	return nil
}
