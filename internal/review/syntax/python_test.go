// SPDX-License-Identifier: Apache-2.0

package syntax_test

import (
	"slices"
	"testing"

	"assay/internal/review/syntax"
)

func TestPython(t *testing.T) {
	testTranslations(t, []translation{
		{"py", `a.b(c, *d, e=1, **f)`, `Call(a.b, c, Spread(d), Argument[e](1), Spread(f))`},
		{"py", `a[b]["c"][1:2]`, `Index(Index(Index(a, b), "c"), Other(1, 2))`},
		{"py", `f"a{b}c{d!r:>{w}}{{e}}"; f"x"; rf"\d{y}"`, `Template("a", b, "c", d, w, "{e}"); "x"; Template("\\d", y)`},
		{"py", `"a\x41\d" "b" + 'c' + d; "n %s" % x; "n {}".format(y); b'z'; r'\n'`, `Template("aA\\dbc", d); Operator[%]("n %s", x); Call("n {}".format, y); "z"; "\\n"`},
		{"py", "\"\"\"doc\nstring\"\"\"", `"doc\nstring"`},
		{"py", `a = b = c; d, e = f(); g, h = 1, 2; (i, j) = k; l: int = 3; m: str; n += 1; (o := p)`, `Assign[=](a, b, c); Assign[=](d, e, Call(f)); Assign[=](g, 1); Assign[=](h, 2); Assign[=](List(i, j), k); Assign[=]<int>(l, 3); Declare<str>(m); Assign[+=](n, 1); Assign[:=](o, p)`},
		{"py", `a and b or not c; a < b <= c; x not in y; x is not None; -1; a + 1`, `Operator[or](Operator[and](a, b), Operator[not](c)); Operator[< <=](a, b, c); Operator[not in](x, y); Operator[is not](x, Null); Operator[-](1); Operator[+](a, 1)`},
		{"py", `b if a else c; lambda x, *y, z=1: x`, `Conditional(a, b, c); Func(Param[x](), Param[y](), Param[z](1), x)`},
		{"py", `[1, 2]; (3,); {4}; {"a": 1, **b}; True; None`, `List(1, 2); List(3); List(4); Object(Pair("a", 1), Spread(b)); true; Null`},
		{"py", `[f(x) for x in y if z]; {k: v for k, v in d}; sum(g(x) for x in y)`, `Loop(Assign[in](x, y), z, Call(f, x)); Loop(Assign[in](k, v, d), Pair(k, v)); Call(sum, Loop(Assign[in](x, y), Call(g, x)))`},
		{"py", "@a.b(1)\n@c\nasync def f(self, x: int, y: str = 'z', *args, k=1, **kw) -> T:\n    await g()\n    yield 1\n", `Func[f]<T>(Decorator(Call(a.b, 1)), Decorator(c), Param[self](), Param[x]<int>(), Param[y]<str>("z"), Param[args](), Param[k](1), Param[kw](), Block(Await[await](Call(g)), Await[yield](1)))`},
		{"py", "class A(B, metaclass=C):\n    x: int = 1\n    def m(self): pass\n", `Class[A](B, Argument[metaclass](C), Assign[=]<int>(x, 1), Func[m](Param[self](), Block()))`},
		{"py", "if a:\n    b()\nelif c:\n    d()\nelse:\n    e()\n", `If(a, Block(Call(b)), If(c, Block(Call(d)), Block(Call(e))))`},
		{"py", "for a, b in c:\n    break\nelse:\n    d()\nwhile x:\n    continue\n", `Loop(Assign[in](a, b, c), Block(Jump[break]())); Block(Call(d)); Loop(x, Block(Jump[continue]()))`},
		{"py", "async with a() as b, c:\n    d()\nwith (e as f, g() as (h, i)):\n    pass\n", `With(Assign[as](b, Call(a)), c, Block(Call(d))); With(Assign[as](f, e), Assign[as](List(h, i), Call(g)), Block())`},
		{"py", "try:\n    a()\nexcept B as e:\n    raise C from e\nexcept (D, E):\n    raise\nexcept:\n    pass\nelse:\n    f()\nfinally:\n    g()\n", `Try(Block(Call(a)), Catch(Param[e]<B>(), Block(Throw(C, e))), Catch(Block(Throw())), Catch(Block()), Block(Call(f)), Finally(Block(Call(g))))`},
		{"py", "with (a as b):\n    pass\n", `With(Assign[as](b, a), Block())`},
		{"py", "match a:\n    case 1 | 2:\n        b()\n    case C(d) if e:\n        f()\n    case _:\n        pass\n", `Switch(a, Case(Other(1, 2), Block(Call(b))), Case(Other(C, Declare(d)), e, Block(Call(f))), Case(Other(), Block()))`},
		{"py", "match a:\n    case b, [c, *d] if e: pass\n    case {'f': g, **h} | i: pass\n    case J.K | L.M(n=o) as p: pass\n", `Switch(a, Case(Declare(b), List(Declare(c), Spread(Declare(d))), e, Block()), Case(Other(Other("f", Declare(g), Spread(Declare(h))), Declare(i)), Block()), Case(Assign[as](p, Other(J.K, Other(L.M, Other(n, Declare(o))))), Block()))`},
		{"py", "def f():\n    return 1, 2\n", `Func[f](Block(Return(1, 2)))`},
		{"py", "assert a(), 'b'; del c; global d; print(e)", `Other(Call(a), "b"); Other(c); Call(print, e)`},
		{"py", "f(", `Other(f)`},
	})
}

func TestPythonImports(t *testing.T) {
	testImports(t, []translation{
		{"py", "import a, b.c, d.e as f\nfrom g.h import i, j as k\nfrom l import *\nfrom . import m\nfrom .n import (o)\nfrom __future__ import annotations", `a  a; b  b; b.c  ; d.e  f; g.h i i; g.h j k; l * ; . m m; .n o o`},
	})
}

func TestPythonStatements(t *testing.T) {
	f := parse(t, "py", "from __future__ import annotations\nimport a; from b import (\n  c,\n)  # d\ndef e():\n  global f, g\n  def h():\n    nonlocal i\n  import j\n")
	var got []string
	for _, s := range f.Statements {
		text := s.Text + " " + f.Code(s)
		for _, n := range s.Children {
			text += " " + dump(n)
		}
		if s.Parent != nil {
			text += " in " + s.Parent.Text
		}
		got = append(got, text)
	}
	want := []string{"future from __future__ import annotations", "import import a", "import from b import (\n  c,\n)", "global global f, g f g in e", "nonlocal nonlocal i i in h", "import import j in e"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	for _, i := range f.Imports {
		if fn := i.Node.Enclosing(syntax.Func); (i.Name == "j") != (fn != nil) {
			t.Errorf("%s is in %v", i.Name, fn)
		}
	}
}
