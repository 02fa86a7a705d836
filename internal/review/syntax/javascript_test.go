// SPDX-License-Identifier: Apache-2.0

package syntax_test

import "testing"

func TestJavaScript(t *testing.T) {
	testTranslations(t, []translation{
		{"js", `a.b?.c(d, ...e)`, `Call(a.b.c, d, Spread(e))`},
		{"js", `a["b"][0]`, `Index(Index(a, "b"), 0)`},
		{"js", `new a.B(c)`, `New(a.B, c)`},
		{"js", "f(`x`, `x${y}z\\n${w}`); tag`q${r}`", `Call(f, "x", Template("x", y, "z\n", w)); Call(tag, Template("q", r))`},
		{"js", `"a\u0041\x42\u{43}" + 'b'; "x" + y + 'z'; 1 + 2`, `"aABCb"; Template("x", y, "z"); Operator[+](1, 2)`},
		{"js", `(a ? b : c) ?? !d`, `Operator[??](Conditional(a, b, c), Operator[!](d))`},
		{"js", `let u, v = 1; x += 2; i++`, `Declare(u); Assign[=](v, 1); Assign[+=](x, 2); Operator[++](i)`},
		{"js", `const { a, b: c = 1, ...d } = e, [f, , g] = h`, `Assign[=](Object(Pair("a", a), Pair("b", Operator[=](c, 1)), Spread(d)), e); Assign[=](List(f, g), h)`},
		{"js", `({ a, b: 1, 'c-d': 2, [e]: 3, f() {}, ...g, 5: null })`, `Object(Pair("a", a), Pair("b", 1), Pair("c-d", 2), Pair(e, 3), Func[f](Block()), Spread(g), Pair("5", Null))`},
		{"js", `async function f(a, b = 1, { c }, ...d) { return await g() }`, `Func[f](Param[a](), Param[b](1), Param(Object(Pair("c", c))), Param[d](), Block(Return(Await[await](Call(g)))))`},
		{"js", `a => b; (a, b) => { return }; function* g() { yield 1 }`, `Func(Param[a](), b); Func(Param[a](), Param[b](), Block(Return())); Func[g](Block(Await[yield](1)))`},
		{"js", `class A extends B.C { #x = 1; static y; constructor() { super() } get z() { return this.#x } }`, `Class[A](B.C, Assign[=](#x, 1), Declare(y), Func[constructor](Block(Call(super))), Func[z](Block(Return(this.#x))))`},
		{"js", `if (a) b(); else if (c) { d() } else e()`, `If(a, Block(Call(b)), If(c, Block(Call(d)), Block(Call(e))))`},
		{"js", `for (let i = 0; i < 1; i++) f(); for (const a of b) {} for (k in o) {} while (x) y(); do { z() } while (w)`, `Loop(Assign[=](i, 0), Operator[<](i, 1), Operator[++](i), Block(Call(f))); Loop(Assign[of](a, b), Block()); Loop(Assign[in](k, o), Block()); Loop(x, Block(Call(y))); Loop(w, Block(Call(z)))`},
		{"js", `switch (a) { case 1: case "b": f(); break; default: g() }`, `Switch(a, Case(1, Block()), Case("b", Block(Call(f), Jump[break]())), Case(Block(Call(g))))`},
		{"js", `try { f() } catch (e) { throw e } finally { g() } try {} catch {}`, `Try(Block(Call(f)), Catch(Param[e](), Block(Throw(e))), Finally(Block(Call(g)))); Try(Block(), Catch(Block()))`},
		{"js", `l: for (;;) { continue }`, `Loop(Block(Jump[continue]()))`},
		{"js", `export const a = 1; export default f; export { a }`, `Assign[=](a, 1); f`},
		{"js", `x = <A b={c()} d="e" {...f}>text {g()}</A>`, `Assign[=](x, Other(Other(Other(Other(Call(c))), Other("e"), Other(Spread(f))), Other(Call(g))))`},
		{"js", `void 0, typeof a; /x/.test(b); undefined`, `Operator[void](0); Operator[typeof](a); Call(Other().test, b); Null`},
		{"js", `a(() => b(), async ({ c }) => d)`, `Call(a, Func(Call(b)), Func(Param(Object(Pair("c", c))), d))`},
		{"ts", `const a: B<C> = <D>e as F; g!.h satisfies I; f<T>(x)`, `Assign[=]<B<C>>(a, e); g.h; Call(f, x)`},
		{"ts", `@D({ a: 1 }) export class A<T> extends B<T> implements C { @E() m(@P() x: string, y?: number): void {} @F z: G = 1; constructor(private readonly s: S) {} }`, `Class[A](Decorator(Call(D, Object(Pair("a", 1)))), B, C, Func[m]<void>(Decorator(Call(E)), Param[x]<string>(Decorator(Call(P))), Param[y]<number>(), Block()), Decorator(F), Assign[=]<G>(z, 1), Func[constructor](Param[s]<S>(), Block()), Declare<S>(s))`},
		{"ts", `interface A extends B { c: D; e(): F } type X = Y; enum E { P, Q = "q" } declare const z: number; abstract class K { abstract m(): void }`, `Class[A](B, Declare<D>(c), Func[e]<F>(Block())); Class[E](Declare(P), Assign[=](Q, "q")); Class[K](Func[m]<void>(Block()))`},
		{"ts", `namespace N { f() } function g(this: T, { a }: O = {}) {}`, `Block(Call(f)); Func[g](Param[this]<T>(), Param<O>(Operator[=](Object(Pair("a", a)), Object())), Block())`},
		{"tsx", `const f = (p: P) => <a.b>{p.q}</a.b>`, `Assign[=](f, Func(Param[p]<P>(), Other(Other(), Other(p.q))))`},
		{"js", `f(`, `Other(f)`},
	})
}

func TestJavaScriptImports(t *testing.T) {
	testImports(t, []translation{
		{"js", `import a, { b, c as d, "e f" as g } from "m"; import * as h from 'n'; import "o"`, `m default a; m b b; m c d; m e f g; n  h; o  `},
		{"js", `const a = require("m"), { b, c: d } = require("n"); const e = require("o").f; require("p/q"); const { g } = await import("r")`, `m  a; n  ; n b b; n c d; o f e; p/q  ; r  ; r g g`},
		{"ts", `import type { A } from "m"; import b = require("n"); export * from "o"`, `m A A; n  b; o  `},
	})
}
