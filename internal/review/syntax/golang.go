// SPDX-License-Identifier: Apache-2.0

package syntax

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"path"
	"regexp"
	"strconv"
	"strings"

	"assay/internal/lists"
	"assay/internal/review/treesitter"
)

// ParseGo parses a Go file. A file with syntax errors gives the tree of the parts that parse, and is Broken. The error
// is treesitter.ErrTooComplex for a file that is TooDeep.
func ParseGo(name string, source []byte) (*File, error) {
	fset := token.NewFileSet()
	tree, err := parser.ParseFile(fset, name, source, parser.ParseComments|parser.SkipObjectResolution)
	if _, syntax := errors.AsType[scanner.ErrorList](err); err != nil && (!syntax || tree == nil) {
		return nil, err
	}
	if TooDeep(tree) {
		return nil, treesitter.ErrTooComplex
	}
	f := &File{Path: name, Language: Go, Source: source, Broken: err != nil, Unparsed: err != nil}
	g := golang{f: f, base: int(tree.FileStart)}
	if tree.Name != nil {
		f.Package = tree.Name.Name
	}
	for _, i := range tree.Imports {
		if p, err := strconv.Unquote(i.Path.Value); err == nil {
			imp := Import{Path: p, Name: importName(p), Node: g.node(Other, i)}
			if i.Name != nil {
				imp.Name = i.Name.Name
			}
			f.Imports = append(f.Imports, imp)
		}
	}
	for _, group := range tree.Comments {
		for _, c := range group.List {
			f.Comments = append(f.Comments, Comment{int(c.Pos()) - g.base, int(c.End()) - g.base})
		}
	}
	f.Root = &Node{Kind: Block, End: len(source)}
	for _, d := range tree.Decls {
		f.Root.Children = append(f.Root.Children, g.decl(d)...)
	}
	return f.finish(), nil
}

// TooDeep reports whether a Go file nests more deeply than 1,000 nodes. The work of analyzing a file, including the
// positions of its nodes, grows with the square of the depth.
func TooDeep(tree *ast.File) bool {
	deepest := 0
	ast.PreorderStack(tree, nil, func(_ ast.Node, around []ast.Node) bool {
		deepest = max(deepest, len(around)+1)
		return true
	})
	return deepest > maxDepth
}

var majorVersion = regexp.MustCompile(`^v[0-9]+$`)

// importName guesses the name of the package at an import path: the last element without a major version, "go-", "-go"
// and ".go".
func importName(p string) string {
	base := path.Base(p)
	if majorVersion.MatchString(base) {
		base = path.Base(path.Dir(p))
	}
	base, _, _ = strings.Cut(base, ".v")
	base = strings.ReplaceAll(strings.TrimSuffix(base, ".go"), "-", "_")
	return strings.TrimSuffix(strings.TrimPrefix(base, "go_"), "_go")
}

// golang translates the tree of go/ast.
type golang struct {
	f    *File
	base int
}

func (g golang) node(kind Kind, n ast.Node, children ...*Node) *Node {
	return g.span(kind, n.Pos(), n.End(), children...)
}

func (g golang) span(kind Kind, start, end token.Pos, children ...*Node) *Node {
	size := len(g.f.Source)
	from := min(max(int(start)-g.base, 0), size)
	return &Node{Kind: kind, Start: from, End: min(max(int(end)-g.base, from), size), Children: children}
}

func (n *Node) text(s string) *Node { n.Text = s; return n }

func (n *Node) typed(s string) *Node { n.Type = s; return n }

func (g golang) code(e ast.Expr) string {
	if e == nil {
		return ""
	}
	n := g.node(Other, e)
	return g.f.Code(n)
}

func (g golang) decl(d ast.Decl) []*Node {
	switch d := d.(type) {
	case *ast.FuncDecl:
		return []*Node{g.function(d, d.Name.Name, d.Recv, d.Type, d.Body)}
	case *ast.GenDecl:
		var out []*Node
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.ValueSpec:
				out = append(out, g.values(s)...)
			case *ast.TypeSpec:
				if st, ok := s.Type.(*ast.StructType); ok {
					out = append(out, g.node(Class, s, g.fields(st.Fields)...).text(s.Name.Name))
				}
			}
		}
		return out
	}
	return nil
}

func (g golang) values(s *ast.ValueSpec) []*Node {
	typ := g.code(s.Type)
	names := lists.Map(s.Names, func(n *ast.Ident) *Node { return g.expr(n) })
	switch {
	case len(s.Values) == 0:
		return []*Node{g.node(Declare, s, names...).typed(typ)}
	case len(s.Values) == len(names):
		var out []*Node
		for i, v := range s.Values {
			out = append(out, g.span(Assign, s.Names[i].Pos(), v.End(), names[i], g.expr(v)).typed(typ).text("="))
		}
		if len(out) == 1 {
			out[0].Start = int(s.Pos()) - g.base
		}
		return out
	}
	return []*Node{g.node(Assign, s, append(names, g.exprs(s.Values)...)...).typed(typ).text("=")}
}

func (g golang) fields(list *ast.FieldList) []*Node {
	var out []*Node
	for _, field := range list.List {
		names := lists.Map(field.Names, func(n *ast.Ident) *Node { return g.expr(n) })
		if len(names) == 0 {
			names = []*Node{g.expr(field.Type)}
		}
		out = append(out, g.node(Declare, field, names...).typed(g.code(field.Type)))
	}
	return out
}

func (g golang) function(n ast.Node, name string, recv *ast.FieldList, typ *ast.FuncType, body *ast.BlockStmt) *Node {
	fn := g.node(Func, n).text(name)
	for _, list := range []*ast.FieldList{recv, typ.Params} {
		if list == nil {
			continue
		}
		for _, field := range list.List {
			names := field.Names
			if len(names) == 0 {
				names = []*ast.Ident{{NamePos: field.Type.Pos(), Name: "_"}}
			}
			for _, id := range names {
				fn.Children = append(fn.Children, g.span(Param, id.Pos(), field.End()).text(id.Name).typed(g.code(field.Type)))
			}
		}
	}
	if r := typ.Results; r != nil && len(r.List) > 0 {
		fn.Type = g.f.Code(g.span(Other, r.List[0].Pos(), r.List[len(r.List)-1].End()))
	}
	if body == nil {
		fn.Children = append(fn.Children, g.span(Block, n.End(), n.End()))
		return fn
	}
	fn.Children = append(fn.Children, g.block(body))
	return fn
}

func (g golang) block(b *ast.BlockStmt) *Node { return g.node(Block, b, g.stmts(b.List)...) }

func (g golang) stmts(list []ast.Stmt) []*Node {
	var out []*Node
	for _, s := range list {
		out = append(out, g.stmt(s)...)
	}
	return out
}

// one translates a statement that may be nil.
func (g golang) one(s ast.Stmt) []*Node {
	if s == nil {
		return nil
	}
	return g.stmt(s)
}

func (g golang) stmt(s ast.Stmt) []*Node {
	switch s := s.(type) {
	case *ast.ExprStmt:
		return []*Node{g.expr(s.X)}
	case *ast.DeclStmt:
		return g.decl(s.Decl)
	case *ast.AssignStmt:
		if len(s.Lhs) == len(s.Rhs) && len(s.Lhs) > 1 {
			var out []*Node
			for i := range s.Lhs {
				out = append(out, g.span(Assign, s.Lhs[i].Pos(), s.Rhs[i].End(), g.expr(s.Lhs[i]), g.expr(s.Rhs[i])).text(s.Tok.String()))
			}
			return out
		}
		return []*Node{g.node(Assign, s, append(g.exprs(s.Lhs), g.exprs(s.Rhs)...)...).text(s.Tok.String())}
	case *ast.IncDecStmt:
		return []*Node{g.node(Operator, s, g.expr(s.X)).text(s.Tok.String())}
	case *ast.ReturnStmt:
		return []*Node{g.node(Return, s, g.exprs(s.Results)...)}
	case *ast.BranchStmt:
		return []*Node{g.node(Jump, s).text(s.Tok.String())}
	case *ast.DeferStmt:
		return []*Node{g.node(Defer, s, g.expr(s.Call))}
	case *ast.GoStmt:
		return []*Node{g.node(Spawn, s, g.expr(s.Call))}
	case *ast.BlockStmt:
		return []*Node{g.block(s)}
	case *ast.LabeledStmt:
		return g.stmt(s.Stmt)
	case *ast.SendStmt:
		return []*Node{g.node(Operator, s, g.expr(s.Chan), g.expr(s.Value)).text("<-")}
	case *ast.IfStmt:
		n := g.node(If, s, g.expr(s.Cond), g.block(s.Body))
		if s.Else != nil {
			n.Children = append(n.Children, g.stmt(s.Else)...)
		}
		return append(g.one(s.Init), n)
	case *ast.ForStmt:
		n := g.node(Loop, s)
		n.Children = append(n.Children, g.one(s.Init)...)
		if s.Cond != nil {
			n.Children = append(n.Children, g.expr(s.Cond))
		}
		n.Children = append(append(n.Children, g.one(s.Post)...), g.block(s.Body))
		return []*Node{n}
	case *ast.RangeStmt:
		x := g.expr(s.X)
		var header *Node
		if s.Key == nil { // for range x
			header = g.span(Assign, s.X.Pos(), s.X.End(), &Node{Kind: Name, Start: x.Start, End: x.Start, Text: "_"}, x).text("=")
		} else {
			header = g.span(Assign, s.Key.Pos(), s.X.End(), g.expr(s.Key)).text(s.Tok.String())
			if s.Value != nil {
				header.Children = append(header.Children, g.expr(s.Value))
			}
			header.Children = append(header.Children, x)
		}
		return []*Node{g.node(Loop, s, header, g.block(s.Body))}
	case *ast.SwitchStmt:
		n := g.node(Switch, s)
		if s.Tag != nil {
			n.Children = append(n.Children, g.expr(s.Tag))
		}
		n.Children = append(n.Children, g.cases(s.Body)...)
		return append(g.one(s.Init), n)
	case *ast.TypeSwitchStmt:
		return append(g.one(s.Init), g.node(Switch, s, append(g.one(s.Assign), g.cases(s.Body)...)...))
	case *ast.SelectStmt:
		return []*Node{g.node(Switch, s, g.cases(s.Body)...)}
	}
	return nil
}

func (g golang) cases(b *ast.BlockStmt) []*Node {
	var out []*Node
	for _, s := range b.List {
		var c *Node
		var body []ast.Stmt
		switch s := s.(type) {
		case *ast.CaseClause:
			c, body = g.node(Case, s, g.exprs(s.List)...), s.Body
		case *ast.CommClause:
			c, body = g.node(Case, s, g.one(s.Comm)...), s.Body
		default:
			continue
		}
		block := &Node{Kind: Block, Start: c.End, End: c.End, Children: g.stmts(body)}
		if len(body) > 0 {
			block.Start = min(int(body[0].Pos())-g.base, c.End)
		}
		c.Children = append(c.Children, block)
		out = append(out, c)
	}
	return out
}

func (g golang) exprs(list []ast.Expr) []*Node {
	return lists.Map(list, g.expr)
}

func (g golang) expr(e ast.Expr) *Node {
	switch e := e.(type) {
	case *ast.Ident:
		switch e.Name {
		case "nil":
			return g.node(Null, e)
		case "true", "false":
			return g.node(Bool, e).text(e.Name)
		}
		return g.node(Name, e).text(e.Name)
	case *ast.BasicLit:
		if e.Kind != token.STRING {
			return g.node(Number, e).text(e.Value)
		}
		if s, err := strconv.Unquote(e.Value); err == nil {
			return g.node(String, e).text(s)
		}
	case *ast.ParenExpr:
		return g.expr(e.X)
	case *ast.StarExpr:
		return g.expr(e.X)
	case *ast.UnaryExpr:
		if e.Op == token.AND {
			return g.expr(e.X)
		}
		return g.node(Operator, e, g.expr(e.X)).text(e.Op.String())
	case *ast.SelectorExpr:
		return g.node(Member, e, g.expr(e.X)).text(e.Sel.Name)
	case *ast.IndexExpr:
		return g.node(Index, e, g.expr(e.X), g.expr(e.Index))
	case *ast.IndexListExpr:
		return g.node(Index, e, append([]*Node{g.expr(e.X)}, g.exprs(e.Indices)...)...)
	case *ast.SliceExpr:
		n := g.node(Index, e, g.expr(e.X))
		for _, i := range []ast.Expr{e.Low, e.High, e.Max} {
			if i != nil {
				n.Children = append(n.Children, g.expr(i))
			}
		}
		return n
	case *ast.TypeAssertExpr:
		return g.expr(e.X)
	case *ast.CallExpr:
		n := g.node(Call, e, append([]*Node{g.expr(e.Fun)}, g.exprs(e.Args)...)...)
		if e.Ellipsis.IsValid() && len(e.Args) > 0 {
			last := n.Children[len(n.Children)-1]
			n.Children[len(n.Children)-1] = &Node{Kind: Spread, Start: last.Start, End: int(e.Ellipsis) - g.base + 3, Children: []*Node{last}}
		}
		return n
	case *ast.BinaryExpr:
		x, y := g.expr(e.X), g.expr(e.Y)
		if e.Op == token.ADD {
			if n := concat(g.node(Template, e), x, y); n != nil {
				return n
			}
		}
		return g.node(Operator, e, x, y).text(e.Op.String())
	case *ast.CompositeLit:
		return g.composite(e)
	case *ast.KeyValueExpr:
		key := g.expr(e.Key)
		return g.node(Pair, e, key, g.expr(e.Value))
	case *ast.FuncLit:
		return g.function(e, "", nil, e.Type, e.Body)
	}
	return g.node(Other, e)
}

func (g golang) composite(e *ast.CompositeLit) *Node {
	switch t := e.Type.(type) {
	case *ast.ArrayType:
		return g.node(List, e, g.exprs(e.Elts)...).text(g.code(t.Elt))
	case *ast.MapType:
		return g.node(Object, e, g.exprs(e.Elts)...).text(g.code(t))
	}
	n := g.node(Object, e, g.exprs(e.Elts)...).text(g.code(e.Type))
	for _, c := range n.Children { // the name of a field is not a variable
		if c.Kind == Pair && c.Children[0].Kind == Name {
			c.Children[0].Kind = String
		}
	}
	return n
}

// concat makes n the concatenation a + b: a String if both are strings, a Template if one is a string or Template.
// Otherwise it returns nil. It flattens nested Templates.
func concat(n, a, b *Node) *Node {
	stringy := func(n *Node) bool { return n.Kind == String || n.Kind == Template }
	if !stringy(a) && !stringy(b) {
		return nil
	}
	if a.Kind == String && b.Kind == String {
		n.Kind, n.Text = String, a.Text+b.Text
		return n
	}
	n.Kind = Template
	if a.Kind == Template {
		n.Children = a.Children // a is discarded, and long chains stay linear
	} else {
		n.Children = []*Node{a}
	}
	if b.Kind == Template {
		n.Children = append(n.Children, b.Children...)
	} else {
		n.Children = append(n.Children, b)
	}
	return n
}
