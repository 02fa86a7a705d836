// SPDX-License-Identifier: Apache-2.0

package treesitter

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
)

var shared *Parser

func TestMain(m *testing.M) {
	var err error
	if shared, err = New(context.Background(), ""); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

var languages = map[Language]string{JavaScript: "JavaScript", TypeScript: "TypeScript", TSX: "TSX", Python: "Python", Java: "Java"}

// expression returns the named nodes of a subtree as an S-expression.
func expression(t *Tree, node int32, source string) string {
	n := t.Nodes[node]
	var b strings.Builder
	if f := t.Field(node); f != "" {
		b.WriteString(f + ":")
	}
	switch {
	case n.Missing:
		return b.String() + "MISSING " + t.Kind(node)
	case n.Next == node+1 && n.Start < n.End:
		return b.String() + source[n.Start:n.End]
	}
	b.WriteString("(" + t.Kind(node))
	for c := range t.Children(node) {
		if t.Nodes[c].Named || t.Nodes[c].Missing {
			b.WriteString(" " + expression(t, c, source))
		}
	}
	return b.String() + ")"
}

func TestTree(t *testing.T) {
	for _, test := range []struct {
		language Language
		source   string
		want     string
	}{
		{JavaScript, "a?.b(c, ...d)", "(program (expression_statement (call_expression function:(member_expression object:a optional_chain:?. property:b) arguments:(arguments c (spread_element d)))))"},
		{JavaScript, "x = <A b={c}/>", "(program (expression_statement (assignment_expression left:x right:(jsx_self_closing_element name:A attribute:(jsx_attribute b (jsx_expression c))))))"},
		{JavaScript, "`é${x}`", "(program (expression_statement (template_string é (template_substitution x))))"},
		{TypeScript, "let a: B = <C>d", "(program (lexical_declaration (variable_declarator name:a type:(type_annotation B) value:(type_assertion (type_arguments C) d))))"},
		{TypeScript, "@D() class E {}", "(program (class_declaration decorator:(decorator (call_expression function:D arguments:(arguments))) name:E body:(class_body)))"},
		{TSX, "const f = () => <p>{g}</p>", "(program (lexical_declaration (variable_declarator name:f value:(arrow_function parameters:(formal_parameters) body:(jsx_element open_tag:(jsx_opening_element name:p) (jsx_expression g) close_tag:(jsx_closing_element name:p))))))"},
		{Python, "with a as b:\n  f(c=1)\n", "(module (with_statement (with_clause (with_item value:(as_pattern a alias:(as_pattern_target b)))) body:(block (expression_statement (call function:f arguments:(argument_list (keyword_argument name:c value:1)))))))"},
		{Python, `f"x{y}"`, `(module (expression_statement (string f" x (interpolation expression:y) ")))`},
		{Java, "class A { @B void c() { d.e(\"f\"); } }", "(program (class_declaration name:A body:(class_body (method_declaration (modifiers (marker_annotation name:B)) type:void name:c parameters:(formal_parameters) body:(block (expression_statement (method_invocation object:d name:e arguments:(argument_list (string_literal f)))))))))"},
		{Java, "int a = ;", "(program (local_variable_declaration type:(integral_type) declarator:(variable_declarator name:a) (ERROR)))"},
		{JavaScript, "", "(program)"},
		{Python, "f(", "(module (ERROR f))"},
	} {
		tree, err := shared.Parse(t.Context(), test.language, []byte(test.source))
		if err != nil {
			t.Errorf("%s %q: %v", languages[test.language], test.source, err)
			continue
		}
		check(t, tree, []byte(test.source))
		if got := expression(tree, 0, test.source); got != test.want {
			t.Errorf("%s %q\n got %s\nwant %s", languages[test.language], test.source, got, test.want)
		}
	}
}

func TestChildByField(t *testing.T) {
	source := []byte("f(x)")
	tree, err := shared.Parse(t.Context(), JavaScript, source)
	if err != nil {
		t.Fatal(err)
	}
	for node := range tree.Nodes {
		if tree.Kind(int32(node)) != "call_expression" {
			continue
		}
		if c := tree.ChildByField(int32(node), "arguments"); c < 0 || tree.Kind(c) != "arguments" || tree.Nodes[c].Start != 1 {
			t.Errorf("arguments: node %d", c)
		}
		if c := tree.ChildByField(int32(node), "body"); c != -1 {
			t.Errorf("body: node %d", c)
		}
		return
	}
	t.Error("no call")
}

// check reports nodes that violate what Node says of its indices and offsets.
func check(t *testing.T, tree *Tree, source []byte) {
	t.Helper()
	if len(tree.Nodes) == 0 || tree.Nodes[0].Parent != -1 || int(tree.Nodes[0].Next) != len(tree.Nodes) {
		t.Fatalf("root of %d nodes: %+v", len(tree.Nodes), tree.Nodes)
	}
	for k, n := range tree.Nodes {
		node := int32(k)
		if n.Start > n.End || int(n.End) > len(source) || n.Next <= node || tree.Kind(node) == "" {
			t.Fatalf("node %d: %+v", k, n)
		}
		if k == 0 {
			continue
		}
		p := tree.Nodes[n.Parent]
		if n.Parent >= node || n.Next > p.Next || n.Start < p.Start || n.End > p.End {
			t.Fatalf("node %d: %+v in %+v", k, n, p)
		}
		// In preorder, a node follows its parent or the subtree of the sibling before it.
		if previous := tree.Nodes[k-1]; n.Parent != node-1 && previous.Next != node {
			t.Fatalf("node %d: %+v after %+v", k, n, previous)
		}
	}
}

// repeat returns 16 KiB: the limits are linear in the size, and a larger source would make the tests slow.
func repeat(s string) string { return strings.Repeat(s, 16<<10/len(s)) }

// hostile has the shapes that cost a parser most.
var hostile = map[string]string{
	"parentheses":       strings.Repeat("(", 200_000) + strings.Repeat(")", 200_000),
	"brackets":          repeat("["),
	"angle brackets":    repeat("<"),
	"backticks":         repeat("`"),
	"templates":         repeat("`${"),
	"conditionals":      repeat("a?b:"),
	"f-strings":         repeat(`f"{`),
	"generics":          repeat("x<y>("),
	"arrow functions":   repeat("(a)=>"),
	"objects":           repeat("{a:"),
	"closing braces":    repeat("} else {"),
	"unclosed catch":    repeat("{ try { } catch { (, e "),
	"invalid UTF-8":     repeat("\xff\xfe\xc0"),
	"zero bytes":        repeat("\x00"),
	"one long line":     repeat("a.b(c,d);"),
	"one long word":     repeat("a"),
	"punctuation":       repeat("@#)(}{][;:'\"\\ a b "),
	"deep indentation":  indentation(150),
	"lambdas":           repeat("lambda:"),
	"nested elements":   repeat("<a>"),
	"adjacent operands": repeat("a "),
	"comments":          "a\n" + repeat("#\n"),
	"continued lines":   "a\n" + repeat("\\\n"),
}

func indentation(depth int) string {
	var b strings.Builder
	for d := range depth {
		b.WriteString(strings.Repeat(" ", d) + "if a:\n")
	}
	return b.String()
}

func TestHostile(t *testing.T) {
	for name, source := range hostile {
		for language, languageName := range languages {
			t.Run(name+"/"+languageName, func(t *testing.T) {
				tree, took, err := shared.parse(t.Context(), language, []byte(source))
				switch {
				case err == nil:
					check(t, tree, []byte(source))
				case !errors.Is(err, ErrTooComplex):
					t.Fatal(err)
				}
				size := uint64(len(source))
				// A count exceeds its limit by at most the step that ends the parse.
				if took.operations > baseOperations+operationsPerByte*size+100 {
					t.Errorf("%d operations", took.operations)
				}
				if took.allocated > baseAllocated+allocatedPerByte*size+maxMemory {
					t.Errorf("%d bytes allocated", took.allocated)
				}
				if took.read > baseRead+readPerByte*size+size {
					t.Errorf("%d bytes read", took.read)
				}
				if took.memory > maxMemory {
					t.Errorf("%d bytes of memory", took.memory)
				}
				if after, err := shared.Parse(t.Context(), language, []byte("f(x)")); err != nil || len(after.Nodes) == 0 {
					t.Errorf("next parse: %v", err)
				}
			})
		}
	}
}

func TestTooComplex(t *testing.T) {
	source := []byte(hostile["closing braces"]) // quadratic in error recovery
	_, first, err := shared.parse(t.Context(), Java, source)
	if !errors.Is(err, ErrTooComplex) {
		t.Fatalf("error %v", err)
	}
	if _, second, _ := shared.parse(t.Context(), Java, source); second.operations != first.operations || second.allocated != first.allocated {
		t.Errorf("work %+v, then %+v", first, second)
	}
}

// TestRead limits what the lexer reads: a step of the parser of Python reads all comments that follow.
func TestRead(t *testing.T) {
	for _, line := range []string{"#\n", "\\\n"} {
		_, took, err := shared.parse(t.Context(), Python, []byte("a\n"+strings.Repeat(line, 64<<10/len(line))))
		if !errors.Is(err, ErrTooComplex) || took.read < baseRead {
			t.Errorf("%q: error %v after %+v", line, err, took)
		}
	}
	if _, err := shared.Parse(t.Context(), Python, []byte("a\n"+strings.Repeat("# the last of many lines that someone has commented out\n", 1000))); err != nil {
		t.Errorf("1,000 lines of comments: %v", err)
	}
}

func TestTooLarge(t *testing.T) {
	if _, err := shared.Parse(t.Context(), Java, make([]byte, MaxSource+1)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("error %v", err)
	}
}

func TestCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := shared.Parse(ctx, Java, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// TestMemory checks that an instance which a source has made large is not kept.
func TestMemory(t *testing.T) {
	source := []byte(strings.Repeat("`", MaxSource))
	if _, took, _ := shared.parse(t.Context(), JavaScript, source); took.memory <= maxIdleMemory {
		t.Fatalf("%d bytes of memory", took.memory)
	}
	for _, i := range shared.idle {
		if size := i.module.Memory().Size(); size > maxIdleMemory {
			t.Errorf("idle instance of %d bytes", size)
		}
	}
}

func TestParseRace(t *testing.T) {
	var group sync.WaitGroup
	for k := range 8 {
		group.Go(func() {
			source := []byte(strings.Repeat("f(x);\n", 100*(k+1)))
			for range 5 {
				tree, err := shared.Parse(t.Context(), JavaScript, source)
				if err != nil {
					t.Error(err)
					return
				}
				if calls := strings.Count(expression(tree, 0, string(source)), "call_expression"); calls != 100*(k+1) {
					t.Errorf("%d calls, want %d", calls, 100*(k+1))
				}
			}
		})
	}
	group.Wait()
}

func TestCache(t *testing.T) {
	dir := t.TempDir()
	for range 2 {
		p, err := New(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		if tree, err := p.Parse(t.Context(), Python, []byte("f(x)")); err != nil || expression(tree, 0, "f(x)") != "(module (expression_statement (call function:f arguments:(argument_list x))))" {
			t.Errorf("parse: %v", err)
		}
		if err := p.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) == 0 {
		t.Errorf("cache: %v, %v", entries, err)
	}
	file := dir + "/file"
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(t.Context(), file); err == nil {
		t.Error("a file as the cache directory: no error")
	}
}

func FuzzParse(f *testing.F) {
	for language := range languages {
		for _, source := range []string{"", "f(`${x}`)", "class A { b = <C>d }", "with a as b:\n\tf(f'{c}')", "{ try { } catch { (, e", "@A(b = \"c\") class D<E> {}", "\xff\x00"} {
			f.Add(uint8(language), []byte(source))
		}
	}
	f.Fuzz(func(t *testing.T, language uint8, source []byte) {
		tree, err := shared.Parse(t.Context(), Language(language)%languageCount, source)
		if err == nil {
			check(t, tree, source)
		} else if !errors.Is(err, ErrTooComplex) && !errors.Is(err, ErrTooLarge) {
			t.Error(err)
		}
	})
}

// TestMapRace fails if the race detector does not see the synchronization of sync.Map, as when a package that is
// compiled without it contributes the code of sync.Map to the program (see RACE in the Makefile).
func TestMapRace(t *testing.T) {
	var values sync.Map
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range 1000 {
				p := new(int)
				*p = i
				if v, _ := values.LoadOrStore(i, p); *v.(*int) != i {
					t.Errorf("got %d instead of %d", *v.(*int), i)
				}
			}
		})
	}
	all.Wait()
}
