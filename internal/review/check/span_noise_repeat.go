// SPDX-License-Identifier: Apache-2.0

package check

import (
	"slices"
	"strings"

	"assay/internal/review/instrumentation"
	"assay/internal/review/syntax"
)

// repeatedFact is a span around a single call of a client. It repeats the span of the client if the client is
// instrumented.
type repeatedFact struct {
	Finding
	libraries []string // words of the instrumentation that covers the call
}

// callWords are words in span names that describe the call of a client and not its purpose.
var callWords = setOf(`http https get post put delete patch request call fetch api rest rpc grpc db database sql query select insert update postgres postgresql pg mysql redis
	mongo mongodb cache execute exec set client axios requests httpx jdbc`)

// repeats returns the libraries whose instrumentation already has a span for the code in a manual span. It returns none
// if the span contains more than one call of a client, or if its name adds information.
func repeats(u *instrumentation.Uses, s *instrumentation.Span) []string {
	named := subjectOf(s)
	if named == "" || s.Kind == "server" || s.Kind == "consumer" || !callWords.any(words(named)) {
		return nil
	}
	body := s.Body
	if body == nil || body.Kind == syntax.Func && body.Body() == nil {
		return nil
	}
	var libraries []string
	nodes := 0
	for c := range body.All() {
		if nodes++; nodes > 400 {
			return nil
		}
		switch c.Kind {
		case syntax.Spawn, syntax.Loop:
			return nil
		case syntax.Call, syntax.New:
			m := strings.ToLower(name(c))
			if c == s.Start || c.Start < s.Start.Start && c.End < s.Start.End || spanMethods[m] || passive[m] || pure[m] && !reads(c, m) && clientLibraries(u, c) == nil || errorMaker(c) ||
				c.Kind == syntax.New && strings.HasSuffix(m, "error") || isLogCall(receiver(c)) {
				continue
			}
			found := clientLibraries(u, c)
			if found == nil || libraries != nil {
				return nil
			}
			libraries = found
		}
	}
	return libraries
}

// receiver returns the receiver of a method call, or nil.
func receiver(call *syntax.Node) *syntax.Node {
	recv, _ := call.Method()
	return recv
}

// passive are functions that prepare a call of a client, or read its response.
var passive = setOf(`json text data raise_for_status newrequestwithcontext newrequest withcontext add header headers close readall all one first scalar scalars fetchone fetchall
	fetchmany one_or_none scalar_one_or_none cursor result getbody body message getmessage closing uri build of create print printf println bind`)

// clientCalls are calls of clients that instrumentation covers, by language. A row has the modules that the first name of
// the callee may come from (in Java, the types of the receiver), the last words of the receiver's name, the methods,
// modules of which the file imports one, and words of the instrumentation. An empty column allows everything.
var clientCalls = map[syntax.Language][][5]string{
	syntax.JavaScript: {
		{"fetch undici", "", "", "", "undici instrumentation-fetch"},
		{"axios got node-fetch superagent", "", "", "", "@opentelemetry/instrumentation-http"},
		{"", "pool client db conn connection pg", "query execute", "pg", "instrumentation-pg"},
		{"", "pool client db conn connection pg", "query execute", "mysql2", "instrumentation-mysql2"},
		{"", "pool client db conn connection pg", "query execute", "mysql", "instrumentation-mysql"},
		{"", "redis cache", "get set del hget hset expire", "ioredis", "instrumentation-ioredis"},
		{"", "redis cache", "get set del hget hset expire", "redis", "instrumentation-redis"},
	},
	syntax.Python: {
		{"requests", "", "get post put delete patch head request", "", "instrumentation.requests instrumentation-requests"},
		{"httpx", "", "get post put delete patch head request", "", "instrumentation.httpx instrumentation-httpx"},
		{"", "session db conn connection engine", "execute", "sqlalchemy", "instrumentation.sqlalchemy instrumentation-sqlalchemy"},
		{"", "cursor cur conn connection", "execute", "psycopg2 psycopg", "instrumentation.psycopg instrumentation-psycopg"},
		{"", "redis client cache r", "get set delete hget hset expire", "redis", "instrumentation.redis instrumentation-redis"},
	},
	syntax.Go: {
		{"", "client http", "Do", "go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp", "otelhttp"},
		{"", "db", `QueryContext QueryRowContext ExecContext PingContext PrepareContext GetContext SelectContext NamedExecContext
			DoContext InvokeContext PublishWithContext`, "", "otelsql splunksql otelsqlx"},
		{"", "rdb redis", "Get Set Del HGet HSet", "", "redisotel"},
	},
	syntax.Java: {{"RestTemplate JdbcTemplate NamedParameterJdbcTemplate HttpClient", "", "", "", "opentelemetry-spring-boot"}},
}

// clientLibraries returns words of the instrumentation that covers a call of a client, nil for other calls.
func clientLibraries(u *instrumentation.Uses, call *syntax.Node) []string {
	recv, m := call.Method()
	i, _ := u.File.Imported(firstName(call))
	module, language := i.Path, u.File.Language
	switch {
	case language == syntax.TypeScript:
		language = syntax.JavaScript
	case language == syntax.Java && recv != nil:
		if def := u.File.Definition(recv); def != nil {
			module = def.Type[strings.LastIndex(def.Type, ".")+1:]
		}
	case m == "Do" && !mentionsTransport(u):
		return nil
	}
	if recv == nil && m == "fetch" {
		module = m
	}
	allows := func(column, word string) bool { return column == "" || slices.Contains(strings.Fields(column), word) }
	for _, c := range clientCalls[language] {
		if allows(c[0], module) && allows(c[1], last(words(name(recv)))) && allows(c[2], m) && (c[3] == "" || u.File.ImportsAny(strings.Fields(c[3])...)) {
			return strings.Fields(c[4])
		}
	}
	return nil
}

// firstName returns the first name of the callee of a call: axios for axios.get(...).
func firstName(call *syntax.Node) string {
	if n := call.Callee().Inner(syntax.Member); n.Kind == syntax.Name {
		return n.Text
	}
	return ""
}

// mentionsTransport reports whether a file wraps the transport of its HTTP clients.
func mentionsTransport(u *instrumentation.Uses) bool {
	return u.File.Root.Has(func(n *syntax.Node) bool {
		return n.Kind == syntax.Call && name(n) == "NewTransport" && firstName(n) == "otelhttp"
	})
}

// reportRepeated reports the spans that repeat spans of instrumentation.
func reportRepeated(p *RepositoryPass) {
	for _, k := range p.Kept {
		f, covered := k.(repeatedFact), p.Coverage()
		i := covered.of(covered.project(f.File))
		if !covered.all(f.File) && !slices.ContainsFunc(f.libraries, func(l string) bool {
			return l == "otelhttp" || slices.ContainsFunc(i.libraries, func(have string) bool { return strings.Contains(have, l) })
		}) {
			continue
		}
		p.Report(f.Finding)
	}
}
