// SPDX-License-Identifier: Apache-2.0

package syntax_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"assay/internal/review/syntax"
	"assay/internal/review/treesitter"
)

var parser *treesitter.Parser

func TestMain(m *testing.M) {
	var err error
	if parser, err = treesitter.New(context.Background(), ""); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

var kinds = map[syntax.Kind]string{
	syntax.Other: "Other", syntax.Name: "Name", syntax.Member: "Member", syntax.Index: "Index", syntax.Call: "Call", syntax.New: "New", syntax.String: "String",
	syntax.Template: "Template", syntax.Number: "Number", syntax.Bool: "Bool", syntax.Null: "Null", syntax.Object: "Object", syntax.Pair: "Pair", syntax.List: "List",
	syntax.Argument: "Argument", syntax.Spread: "Spread", syntax.Assign: "Assign", syntax.Declare: "Declare", syntax.Func: "Func", syntax.Param: "Param",
	syntax.Class: "Class", syntax.Block: "Block", syntax.If: "If", syntax.Conditional: "Conditional", syntax.Loop: "Loop", syntax.Try: "Try", syntax.Catch: "Catch",
	syntax.Finally: "Finally", syntax.With: "With", syntax.Switch: "Switch", syntax.Case: "Case", syntax.Return: "Return", syntax.Throw: "Throw", syntax.Jump: "Jump",
	syntax.Defer: "Defer", syntax.Spawn: "Spawn", syntax.Await: "Await", syntax.Operator: "Operator", syntax.Decorator: "Decorator",
}

// dump returns a subtree in one line. Names, strings and numbers are written as they are.
func dump(n *syntax.Node) string {
	var b strings.Builder
	switch n.Kind {
	case syntax.Name, syntax.Number, syntax.Bool:
		return n.Text
	case syntax.String:
		return fmt.Sprintf("%q", n.Text)
	case syntax.Member:
		return dump(n.Children[0]) + "." + n.Text
	case syntax.Null:
		return "Null"
	}
	b.WriteString(kinds[n.Kind])
	if n.Text != "" {
		b.WriteString("[" + n.Text + "]")
	}
	if n.Type != "" {
		b.WriteString("<" + n.Type + ">")
	}
	b.WriteString("(")
	for i, c := range n.Children {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(dump(c))
	}
	return b.String() + ")"
}

// parse parses a source in the language of a file extension, and checks the ranges of its nodes.
func parse(t *testing.T, ext, source string) *syntax.File {
	t.Helper()
	name := "file." + ext
	f, err := syntax.Parse(t.Context(), parser, name, syntax.LanguageOf(name), []byte(source))
	if err != nil {
		t.Fatalf("%s %q: %v", ext, source, err)
	}
	for n := range f.Root.All() {
		if n.Start < 0 || n.Start > n.End || n.End > len(source) {
			t.Errorf("%s %q: %s has the range %d to %d", ext, source, dump(n), n.Start, n.End)
		} else if code := f.Code(n); n != f.Root && code != strings.TrimSpace(code) && n.Kind != syntax.String {
			t.Errorf("%s %q: %s has white space: %q", ext, source, dump(n), code)
		}
	}
	return f
}

// translation is a source and the nodes of its file, separated by "; ".
type translation struct{ ext, source, want string }

func testTranslations(t *testing.T, tests []translation) {
	t.Helper()
	for _, test := range tests {
		f := parse(t, test.ext, test.source)
		var got []string
		for _, n := range f.Root.Children {
			got = append(got, dump(n))
		}
		if got := strings.Join(got, "; "); got != test.want {
			t.Errorf("%s %q\n got %s\nwant %s", test.ext, test.source, got, test.want)
		}
	}
}

func testImports(t *testing.T, tests []translation) {
	t.Helper()
	for _, test := range tests {
		var got []string
		for _, i := range parse(t, test.ext, test.source).Imports {
			got = append(got, fmt.Sprintf("%s %s %s", i.Path, i.Member, i.Name))
		}
		if got := strings.Join(got, "; "); got != test.want {
			t.Errorf("%s %q\n got %s\nwant %s", test.ext, test.source, got, test.want)
		}
	}
}

func TestDefinition(t *testing.T) {
	for _, test := range []struct{ ext, source, use, want string }{
		{"js", `const { a, b: [c = 1] } = d; f(c)`, "c", `Assign[=](Object(Pair("a", a), Pair("b", List(Operator[=](c, 1)))), d)`},
		{"js", `function f({ x }, ...y) { g(x) }`, "x", `Param(Object(Pair("x", x)))`},
		{"ts", `class A { constructor(private t: T) {} m() { f(this.t) } }`, "t", `Declare<T>(t)`},
		{"java", `class A { void m(@B int c) { f(c); } }`, "c", `Param[c]<int>(Decorator(B))`},
		{"js", `do { a = 1; f(a) } while (a = 2)`, "a", `Assign[=](a, 1)`},
		{"py", "def f(*args):\n    with g() as s:\n        f(s)\n", "s", `Assign[as](s, Call(g))`},
	} {
		f := parse(t, test.ext, test.source)
		var got *syntax.Node
		for n := range f.Root.All() {
			if n.Kind == syntax.Call && len(n.Args()) == 1 && n.Args()[0].Text == test.use {
				got = f.Definition(n.Args()[0])
			}
		}
		if got == nil || dump(got) != test.want {
			t.Errorf("%s %q: %v", test.ext, test.source, got)
		}
	}
}

// TestArguments checks that a node without children has no arguments, so that a caller may ask for one before it checks
// the kind.
func TestArguments(t *testing.T) {
	name := parse(t, "py", "f(a)").Root.Children[0].Args()[0]
	if len(name.Args()) != 0 || name.Arg(0) != nil || name.Named("a") != nil {
		t.Errorf("the arguments of %s: %v", dump(name), name.Args())
	}
}

func TestKnown(t *testing.T) {
	f := parse(t, "js", `const { length } = "abc"; const a = "b"; f(length, a)`)
	args := f.Root.Children[2].Args()
	if s, ok := f.Known(args[0]); ok {
		t.Errorf("a property of a string: %q", s)
	}
	if s, ok := f.Known(args[1]); !ok || s != "b" {
		t.Errorf("a constant: %q, %v", s, ok)
	}
}

func TestParameterValue(t *testing.T) {
	f := parse(t, "java", `class A { void m(@B int c) {} }`)
	for n := range f.Root.All() {
		if n.Kind == syntax.Param && n.Value() != nil {
			t.Errorf("an annotation is the default of %s", dump(n))
		}
	}
}

func TestComments(t *testing.T) {
	for ext, source := range map[string]string{"js": "f() // a\n/* b */", "py": "f() # a\n# b\n", "java": "f(); // a\n/** b */"} {
		f := parse(t, ext, source)
		if len(f.Comments) != 2 || len(f.Root.Children) != 1 || f.Broken {
			t.Errorf("%s: comments %v, nodes %d, broken %v", ext, f.Comments, len(f.Root.Children), f.Broken)
		}
	}
}

// TestUnparsed checks which files lack code.
func TestUnparsed(t *testing.T) {
	for _, tt := range []struct {
		name, code string
		want       bool
	}{
		{"a.js", "function f( {\n  span();\n}\nspan();\n", true},
		{"a.ts", "export const x = {{{\nimport { trace } from 'a';\n", true},
		{"a.py", "def f(:\n  pass\nspan()\n", true},
		{"A.java", "class A { void f( { }\n", true},
		{"a.js", "let using = 1;\nusing = 2;\n", false},
		{"a.tsx", "const a = <link href=\"https://example.com/?family=Open&display=swap\" />;\n", false},
		{"a.ts", "const a = styled.div<{ $open: boolean }>`\n  color: red;\n`;\n", false},
		{"a.d.ts", "export declare const a: import('axios').AxiosResponse<{\n  id: string;\n}>;\n", false},
		{"a.py", "match x:\n    case [1, *rest]:\n        print(f'{rest!r:>{width}}')\ntype A[T] = list[T]\n", false},
		{"A.java", "record A(int x) { sealed interface B permits C {} void f(Object o) { switch (o) { case A(var x) when x > 1 -> g(); default -> {} } } }\n", false},
	} {
		f, err := syntax.Parse(t.Context(), parser, tt.name, syntax.LanguageOf(tt.name), []byte(tt.code))
		if err != nil || f.Unparsed != tt.want {
			t.Errorf("%s: unparsed %v, error %v\n%s", tt.name, f.Unparsed, err, tt.code)
		}
	}
	for code, want := range map[string]bool{"package a\n\nfunc f( {\n": true, "package a\n\nfunc f() {}\n": false} {
		f, err := syntax.ParseGo("a.go", []byte(code))
		if err != nil || f.Unparsed != want {
			t.Errorf("unparsed %v, error %v\n%s", f.Unparsed, err, code)
		}
	}
}

// TestBroken checks that a file with an error has the nodes around the error.
func TestBroken(t *testing.T) {
	for ext, source := range map[string]string{"js": "a();\n) (;\nb();\n", "ts": "a();\nlet = ;\nb();\n", "py": "a()\n)\nb()\n", "java": "class A { void m() { a(); ) ; b(); } }"} {
		f := parse(t, ext, source)
		calls := ""
		for n := range f.Root.All() {
			if n.Kind == syntax.Call {
				calls += n.Callee().Text
			}
		}
		if !f.Broken || calls != "ab" {
			t.Errorf("%s: broken %v, calls %q", ext, f.Broken, calls)
		}
	}
}

// TestDepth checks that deep nesting ends the translation and not the program.
func TestDepth(t *testing.T) {
	for _, test := range []struct{ ext, open, close string }{
		{"js", "(", ")"}, {"js", "[", "]"}, {"ts", "f(", ")"}, {"tsx", "<a>", "</a>"}, {"py", "-", ""}, {"py", "[", "]"}, {"java", "{", "}"}, {"java", "!", ""},
	} {
		source := strings.Repeat(test.open, 20_000) + "x" + strings.Repeat(test.close, 20_000)
		f, err := syntax.Parse(t.Context(), parser, "file."+test.ext, syntax.LanguageOf("file."+test.ext), []byte(source))
		if err == nil && !f.Broken {
			t.Errorf("%s %q: not broken", test.ext, test.open)
		}
	}
}

// TestSteps checks that nested walks of a file end, and that steps of a node in no file are not counted.
func TestSteps(t *testing.T) {
	walks := func(n *syntax.Node) (steps int) {
		for range 10_000_000 {
			before := steps
			for range n.All() {
				steps++
			}
			if steps == before {
				return steps
			}
		}
		return steps
	}
	f := parse(t, "py", "a(b)\n")
	if steps := walks(f.Root); !f.Exhausted() || steps > 2<<20 {
		t.Errorf("exhausted %v after %d steps", f.Exhausted(), steps)
	}
	if steps := walks(&syntax.Node{}); steps != 10_000_000 {
		t.Errorf("%d steps", steps)
	}
}

func FuzzParse(f *testing.F) {
	extensions := []string{"js", "ts", "tsx", "py", "java"}
	for i, source := range []string{
		"const { a, b: c = 1 } = await import(`x${y}`); class A { @B() c = d?.e }", "enum A { B = 1 } namespace C {}", "x = <A b={c}>{d}</A>",
		"with a as (b, c):\n  f(f'{d:{e}}', *g, h=1)\ntry:\n  pass\nexcept A as b:\n  pass\n", "class A<B> { @C(d = \"e\") F g = h::i; { try (j k = l()) {} } }",
	} {
		f.Add(uint8(i), []byte(source))
	}
	f.Fuzz(func(t *testing.T, extension uint8, source []byte) {
		name := "file." + extensions[int(extension)%len(extensions)]
		file, err := syntax.Parse(t.Context(), parser, name, syntax.LanguageOf(name), source)
		if err != nil {
			return
		}
		for n := range file.Root.All() {
			if n.Start < 0 || n.Start > n.End || n.End > len(source) {
				t.Errorf("%d from %d to %d", n.Kind, n.Start, n.End)
			}
			file.Code(n)
			file.Definition(n)
			file.Known(n)
			n.Value()
			n.Body()
			n.Params()
			if n.Kind == syntax.Call || n.Kind == syntax.New {
				n.Method()
				n.Arg(0)
				n.Named("a")
			}
		}
	})
}

// TestImportSteps checks that the search for an imported name counts steps.
func TestImportSteps(t *testing.T) {
	f := &syntax.File{Source: make([]byte, 1<<10), Imports: make([]syntax.Import, 16_000)}
	for range 300 { // 1,000 and 2,000 steps each
		f.Imported("x")
		f.ImportsAny("x", "y")
	}
	if f.Exhausted() {
		t.Error("exhausted by few uses")
	}
	for range 500 {
		f.Imported("x")
	}
	if !f.Exhausted() {
		t.Error("not exhausted")
	}
}
