// SPDX-License-Identifier: Apache-2.0

package syntax_test

import "testing"

func TestJava(t *testing.T) {
	testTranslations(t, []translation{
		{"java", `a.b().c(d, "e"); f(); this.g = super.h(); i[0]++;`, `Call(Call(a.b).c, d, "e"); Call(f); Assign[=](this.g, Call(super.h)); Operator[++](Index(i, 0))`},
		{"java", `new A<B>(c); new D.E() { void f() {} }; new int[] { 1, 2 }; new String[n];`, `New(A, c); New(D.E, Class(Func[f]<void>(Block()))); List[int](1, 2); List[String](n)`},
		{"java", `String s = "a\u0041" + "b" + c + 'd';`, `Assign[=]<String>(s, Template("aAb", c, "d"))`},
		{"java", "x = \"\"\"\n    a\n      b\\n\n    \"\"\";", `Assign[=](x, "a\n  b\n\n")`},
		{"java", `int a = 1, b; final var c = (D) e; f += g;`, `Assign[=]<int>(a, 1); Declare<int>(b); Assign[=]<var>(c, e); Assign[+=](f, g)`},
		{"java", `x = a ? b : !c; y = d instanceof E; z = F.class; w = null; v = true;`, `Assign[=](x, Conditional(a, b, Operator[!](c))); Assign[=](y, Operator[instanceof](d)); Assign[=](z, F.class); Assign[=](w, Null); Assign[=](v, true)`},
		{"java", `f(x -> y, (a, b) -> { return a; }, (C d) -> e, G::h, this::i, J::new);`, `Call(f, Func(Param[x](), y), Func(Param[a](), Param[b](), Block(Return(a))), Func(Param[d]<C>(), e), G.h, this.i, J.new)`},
		{"java", `@A package b.c; @D("e") @F(g = 1, h = {"i"}) class J<T> extends K<T> implements L, M.N { @O private final P q = r(); static { s(); } J(@T("u") int v) { this(1); } @Override public W m(X... y) throws Z { return null; } abstract void n(); }`, `Class[J](Decorator(Call(D, "e")), Decorator(Call(F, Argument[g](1), Argument[h](List("i")))), K, L, M.N, Decorator(O), Assign[=]<P>(q, Call(r)), Block(Call(s)), Func[J](Param[v]<int>(Decorator(Call(T, "u"))), Block(Call(this, 1))), Func[m]<W>(Decorator(Override), Param[y]<X>(), Block(Return(Null))), Func[n]<void>(Block()))`},
		{"java", `interface A extends B { int C = 1; void d(); default void e() {} } enum F { G, H("i") { void j() {} }; K l; } record M(@N String o) {} @interface P { String q() default "r"; }`, `Class[A](B, Assign[=]<int>(C, 1), Func[d]<void>(Block()), Func[e]<void>(Block())); Class[F](Declare(G), Assign[=](H, New(, "i", Class(Func[j]<void>(Block())))), Declare<K>(l)); Class[M](Decorator(N), Declare<String>(o)); Class[P](Func[q]<String>(Block()))`},
		{"java", `if (a) b(); else if (c) { d(); } else e();`, `If(a, Block(Call(b)), If(c, Block(Call(d)), Block(Call(e))))`},
		{"java", `for (int i = 0; i < 1; i++) f(); for (A a : b) {} while (x) y(); do { z(); } while (w); l: for (;;) break;`, `Loop(Assign[=]<int>(i, 0), Operator[<](i, 1), Operator[++](i), Block(Call(f))); Loop(Assign[:]<A>(a, b), Block()); Loop(x, Block(Call(y))); Loop(w, Block(Call(z))); Loop(Block(Jump[break]()))`},
		{"java", `switch (a) { case 1: case B: f(); break; default: g(); } x = switch (y) { case 1, 2 -> z(); default -> { yield 3; } };`, `Switch(a, Case(1, Block()), Case(B, Block(Call(f), Jump[break]())), Case(Block(Call(g)))); Assign[=](x, Switch(y, Case(1, 2, Block(Call(z))), Case(Block(Other(3)))))`},
		{"java", `try (A b = c(); d) { e(); } catch (F | G h) { throw h; } finally { i(); } try (J k = l()) { } try { } finally { }`, `Try(Block(With(Assign[=]<A>(b, Call(c)), d, Block(Call(e)))), Catch(Param[h]<F | G>(), Block(Throw(h))), Finally(Block(Call(i)))); With(Assign[=]<J>(k, Call(l)), Block()); Try(Block(), Finally(Block()))`},
		{"java", `synchronized (a) { b(); } assert c : d; return;`, `Other(a, Block(Call(b))); Other(c, d); Return()`},
		{"java", `class A { void b() { c(`, `Other(A, b, Other(), c)`},
	})
}

func TestJavaImports(t *testing.T) {
	testImports(t, []translation{
		{"java", "package p.q; import a.b.C; import a.d.*; import static e.F.g; import static h.I.*;", `a.b C C; a.d * ; e.F g g; h.I * `},
	})
	if f := parse(t, "java", "package p.q; class A {}"); f.Package != "p.q" {
		t.Errorf("package %q", f.Package)
	}
}
