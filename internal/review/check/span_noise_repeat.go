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

// clientLibraries returns words of the instrumentation that covers a call of a client, nil for other calls.
func clientLibraries(u *instrumentation.Uses, call *syntax.Node) []string {
	recv, m := call.Method()
	root := recv
	for root != nil && root.Kind == syntax.Member && root.Children[0].Kind != syntax.Call {
		root = root.Children[0]
	}
	module := ""
	if n := firstName(call); n != "" {
		if i, ok := u.File.Imported(n); ok {
			module = i.Path
		}
	}
	of := last(words(name(recv)))
	switch u.File.Language {
	case syntax.JavaScript, syntax.TypeScript:
		switch {
		case recv == nil && m == "fetch", module == "undici":
			return []string{"undici", "instrumentation-fetch"}
		case module == "axios" || module == "got" || module == "node-fetch" || module == "superagent":
			return []string{"@opentelemetry/instrumentation-http"}
		case (m == "query" || m == "execute") && setOf("pool client db conn connection pg").any([]string{of}):
			for _, l := range []string{"pg", "mysql2", "mysql"} {
				if u.File.ImportsAny(l) {
					return []string{"instrumentation-" + l}
				}
			}
		case setOf("redis cache").any([]string{of}) && setOf("get set del hget hset expire")[m]:
			switch {
			case u.File.ImportsAny("ioredis"):
				return []string{"instrumentation-ioredis"}
			case u.File.ImportsAny("redis"):
				return []string{"instrumentation-redis"}
			}
		}
	case syntax.Python:
		switch {
		case module == "requests" && setOf("get post put delete patch head request")[m]:
			return []string{"instrumentation.requests", "instrumentation-requests"}
		case module == "httpx" && setOf("get post put delete patch head request")[m]:
			return []string{"instrumentation.httpx", "instrumentation-httpx"}
		case m == "execute" && setOf("session db conn connection engine").any([]string{of}) && u.File.ImportsAny("sqlalchemy"):
			return []string{"instrumentation.sqlalchemy", "instrumentation-sqlalchemy"}
		case m == "execute" && setOf("cursor cur conn connection").any([]string{of}) && u.File.ImportsAny("psycopg2", "psycopg"):
			return []string{"instrumentation.psycopg", "instrumentation-psycopg"}
		case setOf("redis client cache r").any([]string{of}) && setOf("get set delete hget hset expire")[m] && u.File.ImportsAny("redis"):
			return []string{"instrumentation.redis", "instrumentation-redis"}
		}
	case syntax.Go:
		switch {
		case m == "Do" && setOf("client http").any([]string{of}) && u.File.ImportsAny("go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp") && mentionsTransport(u):
			return []string{"otelhttp"}
		case contextCalls[m] && strings.HasSuffix(m, "Context") && m != "NewRequestWithContext" && of == "db":
			return []string{"otelsql", "splunksql", "otelsqlx"}
		case setOf("rdb redis").any([]string{of}) && setOf("Get Set Del HGet HSet")[m]:
			return []string{"redisotel"}
		}
	case syntax.Java:
		def := u.File.Definition(orEmpty(recv))
		if def == nil {
			return nil
		}
		switch def.Type[strings.LastIndex(def.Type, ".")+1:] {
		case "RestTemplate", "JdbcTemplate", "NamedParameterJdbcTemplate", "HttpClient":
			return []string{"opentelemetry-spring-boot"}
		}
	}
	return nil
}

// orEmpty returns n, or an empty node for nil.
func orEmpty(n *syntax.Node) *syntax.Node {
	if n == nil {
		return &syntax.Node{}
	}
	return n
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
		i := covered.of(covered.projects.of(f.File))
		if !i.all && !slices.ContainsFunc(f.libraries, func(l string) bool {
			return l == "otelhttp" || slices.ContainsFunc(i.libraries, func(have string) bool { return strings.Contains(have, l) })
		}) {
			continue
		}
		p.Report(f.Finding)
	}
}
