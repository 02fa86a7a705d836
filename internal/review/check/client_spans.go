// SPDX-License-Identifier: Apache-2.0

package check

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"assay/internal/review/instrumentation"
	"assay/internal/review/syntax"
)

// clientUse holds which clients code within spans may use.
type clientUse struct {
	any   bool // the code calls functions that are not known
	words set  // words of the names of objects and functions that the code uses
}

// uses reports whether the code may use the database client of a boundary.
func (c *clientUse) uses(b boundaryFact) bool {
	of := databaseWords
	if keyValues.MatchString(b.library) {
		of = keyValueWords
	}
	return c.any || c.words.any(words(b.client)) || of.any(slices.Collect(maps.Keys(c.words)))
}

// keyValues matches the libraries of key-value stores.
var keyValues = regexp.MustCompile(`(?i)redis|redigo|rueidis|valkey|memcache`)

// Words for the variables of clients: of key-value stores, and of databases.
var (
	keyValueWords = setOf("redis rdb cache caches kv client conn connection pool store storage pipe pipeline")
	databaseWords = setOf(`db dbs database sql pg postgres postgresql mysql mongo client conn connection tx txn transaction trx pool session sessions engine cursor cur stmt
		query queries querier store storage repo repos repository repositories dao orm prisma knex manager em collection collections coll model models`)
)

// clientsIn returns the clients that code of a file in spans may use: the code of spans and functions.
func clientsIn(u *instrumentation.Uses, spans []*instrumentation.Span, functions []*syntax.Node) clientUse {
	c := clientSearch{u: u, clientUse: clientUse{words: set{}}, visited: map[*syntax.Node]bool{}, functions: map[string][]*syntax.Node{}}
	for fn := range u.File.Root.All(syntax.Func) {
		c.functions[fn.Text] = append(c.functions[fn.Text], fn)
	}
	for _, s := range spans {
		switch {
		case c.any || s.Body == nil || s.Escapes:
			c.any = true
		case s.Body.Kind == syntax.Func:
			c.follow(s.Body)
		default:
			c.search(s.Body, s.Start.End)
		}
	}
	for _, fn := range functions {
		c.follow(fn)
	}
	return c.clientUse
}

// spanWrapper matches the names of a project's functions that run code in a span.
var spanWrapper = regexp.MustCompile(`(?i)^(with|in|run|start|create|trace|wrap)\w*span$|^traced?$`)

// wrappedInSpans returns the functions that a file gives to functions that are likely to run them in a span.
func wrappedInSpans(u *instrumentation.Uses) (functions []*syntax.Node) {
	known := map[*syntax.Node]bool{}
	for _, s := range u.Spans {
		known[s.Start] = true
	}
	for n := range u.File.Root.All(syntax.Call) {
		if !known[n] && spanWrapper.MatchString(name(n)) {
			for _, a := range n.Args() {
				if a.Kind == syntax.Func {
					functions = append(functions, a)
				}
			}
		}
	}
	return functions
}

// clientSearch collects the clients that code may use. It follows functions of the file.
type clientSearch struct {
	clientUse
	u         *instrumentation.Uses
	functions map[string][]*syntax.Node
	visited   map[*syntax.Node]bool
	nodes     int
}

// search collects the clients of the calls in a node that begin at an offset or later.
func (c *clientSearch) search(n *syntax.Node, from int) {
	const maxNodes = 50_000
	for call := range n.All() {
		if c.nodes++; c.any || c.nodes > maxNodes {
			c.any = true
			return
		}
		if (call.Kind == syntax.Call || call.Kind == syntax.New) && call.Start >= from {
			c.call(call)
		}
	}
}

// harmless are names of values in the code of spans that are no clients, and of functions of languages.
var harmless = setOf(`span cancel stop done ctx context req request r res resp response w reply err error e ex exc exception log logger logging console json time math string promise object array number
	recover panic delete print println clear super parseint parsefloat boolean isinstance hasattr getattr setattr type repr bytes open iter next reversed id hash round abs format input vars`)

// lookups are methods that are in pure and that clients may have.
var lookups = setOf("get has all filter new")

func (c *clientSearch) call(call *syntax.Node) {
	var names []string
	root := call.Callee()
	for ; root.Kind != syntax.Name && len(root.Children) > 0; root = root.Children[0] {
		names = append(names, root.Text)
	}
	names = append(names, root.Text)
	for _, n := range names {
		c.add(n)
	}
	for _, a := range call.Args() {
		if a.Kind == syntax.Name || a.Kind == syntax.Member {
			c.add(a.Text)
		}
	}
	m := strings.ToLower(name(call))
	_, imported := c.u.File.Imported(root.Text)
	switch def := c.u.File.Definition(root); {
	case spanMethods[m], pure[m] && (len(names) == 1 || !lookups[m]), harmless[strings.ToLower(root.Text)], call.Kind == syntax.New, imported && (def == nil || def.Enclosing(syntax.Func) == nil):
	case len(names) == 1 && def != nil && def.Kind == syntax.Assign && def.Value() != nil && def.Value().Kind == syntax.Func:
		c.follow(def.Value())
	case len(names) == 1 && def != nil: // a parameter, or the result of a call
		c.any = true
	case len(names) == 1, len(names) == 2 && c.receiver(root, call):
		if c.any = len(c.functions[names[0]]) == 0; !c.any {
			for _, fn := range c.functions[names[0]] {
				c.follow(fn)
			}
		}
	case databaseWords.any(words(strings.Join(names[1:], "."))), keyValueWords.any(words(strings.Join(names[1:], "."))): // a client, which may be another one
	case c.u.File.Language == syntax.Go:
		c.any = slices.ContainsFunc(call.Args(), func(a *syntax.Node) bool { return strings.HasSuffix(strings.ToLower(a.Text), "ctx") })
	case c.u.File.Language == syntax.JavaScript, c.u.File.Language == syntax.TypeScript:
		c.any = call.Parent.Kind == syntax.Await
	default:
		c.any = true
	}
}

func (c *clientSearch) add(name string) {
	for _, w := range words(name) {
		c.words[w] = true
	}
}

// receiver reports whether a name is the object of the method around a node.
func (c *clientSearch) receiver(n, at *syntax.Node) bool {
	if c.u.File.Language != syntax.Go {
		return n.Text == "this" || n.Text == "self" || n.Text == "cls"
	}
	def := c.u.File.Definition(n)
	return def != nil && def.Kind == syntax.Param && at.Enclosing(syntax.Func) != nil && def.Parent.Enclosing(syntax.Func) == nil && def.Parent.Params()[0] == def
}

// follow collects the clients of a function.
func (c *clientSearch) follow(fn *syntax.Node) {
	if body := fn.Body(); body == nil {
		c.any = true
	} else if !c.visited[fn] {
		c.visited[fn] = true
		c.search(body, 0)
	}
}
