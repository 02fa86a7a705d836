// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"slices"
	"strings"

	"assay/internal/review/instrumentation"
	"assay/internal/review/syntax"
	"assay/internal/rules/semconv"
)

var metricAttributeUnbounded = &Check{
	ID:       "metric-attribute-unbounded",
	Title:    "Metric attribute has no limited set of values",
	Category: Volume,
	Severity: High,
	Rules:    []string{"MET-001"},
	Why: "Each combination of attribute values is a time series of its own. An id, an e-mail address, a URL, a timestamp or a message as the value " +
		"creates a time series for each request or user, in the SDK's memory and in the backend.",
	Fix: "Drop the attribute from the metric and record it on the span, which the metric's exemplars lead to. " +
		"Use the route template instead of the path, and the error's type instead of its message. " +
		"The check reports a suggestion for ids of objects that may be few in number.",
	Fixable: true,
	Source: func(p *Pass, u *instrumentation.Uses) {
		for _, a := range u.Attributes {
			if a.On != instrumentation.OnMetric {
				continue
			}
			kind, severity := unbounded(u, a)
			if kind == "" {
				continue
			}
			subject := shown(u, a.Name, a.Key)
			f := Finding{
				Severity: severity, Subject: subject,
				Message: fmt.Sprintf("The metric attribute `%s` holds %s.", subject, kind),
				Names:   attributeNames(u, a),
			}
			if severity == "" {
				f.Fix = p.removeAttribute(u, a)
			}
			p.mark(u, a.Node, f)
		}
	},
}

var (
	// manyIDs are kinds of objects that are as numerous as requests or users.
	manyIDs = setOf(`user customer order session request req trace span message msg transaction txn correlation account cart product item
		execution invocation event conversation chat ticket invoice payment file document doc visitor visit booking upload download email
		operation op profile contact person employee patient subscriber subscription post comment video asset object record entity resource
		checkout purchase connection conn remote player match game device`)
	// fewIDs are kinds of objects that are few in number, or as numerous as resources.
	fewIDs = setOf(`instance action host node pod container cluster region zone shard partition worker queue cpu core thread process pid disk gpu interface
		datacenter dc group plan type tenant org organization template model service app application channel site store warehouse rack replica
		consumer producer broker client project team slot stage pool chain network topic bucket version build database db schema table
		workspace environment env namespace machine vm volume location country locale language currency category role status feature flag provider
		vendor engine rule policy peer member raft deployment pipeline repository repo runner cell bus port sensor meter collector agent validator`)
)

// unbounded returns the kind of an unbounded value of a metric attribute, and the severity, "" for that of the check.
// For a bounded value, the kind is "".
func unbounded(u *instrumentation.Uses, a *instrumentation.Attribute) (string, Severity) {
	if a.Value == nil || flags[strings.ToLower(name(a.Node))] || constant(u, a.Value) || packageValue(u, a.Value) || routeTemplate(u, a.Value) {
		return "", ""
	}
	if kind := unboundedValue(u, a.Value, 4); kind != "" {
		return kind, ""
	}
	if r, ok := semconv.Lookup([]byte(a.Name)); ok && r.Levels&(semconv.Metric|semconv.Resource) != 0 || hides(u, a.Value) && !idLike(a.Value) {
		return "", ""
	}
	if kind, severity := unboundedName(words(a.Name)); kind != "" {
		return kind, severity
	}
	return unboundedName(valueWords(a.Value))
}

// idLike reports whether an expression only looks like a derived value because its last word is id or a word for an
// address.
func idLike(n *syntax.Node) bool {
	return setOf("id ids source url uri").any([]string{last(words(name(n))), last(valueWords(n))})
}

// valueWords returns the words that describe a value, with those of the receiver before a single word of a member.
func valueWords(n *syntax.Node) []string {
	w := describing(n)
	if n.Kind == syntax.Member && len(w) == 1 {
		w = append(words(name(n.Children[0])), w...)
	}
	return w
}

// unboundedNames are the last words of names of unbounded values.
var unboundedNames = []struct {
	words  set
	before set // one of the words before it, nil for any
	kind   string
}{
	{setOf("userid orderid requestid sessionid customerid traceid spanid transactionid messageid correlationid"), nil, "an id"},
	{setOf("email emailaddress"), nil, "an e-mail address"},
	{setOf("target path"), setOf("http url request uri"), "a URL"},
	{setOf("timestamp"), nil, "a timestamp"},
	{setOf("ip addr address ipaddress"), remote, "the address of a client"},
	{setOf("useragent"), nil, "a user agent"},
	{setOf("agent"), setOf("user"), "a user agent"},
	{setOf("original"), setOf("user agent"), "a user agent"},
	{setOf("stacktrace"), nil, "a message"},
	{setOf("message msg"), setOf("error err exception status"), "a message"},
	{setOf("statement text"), setOf("db query sql"), "a query"},
}

// unboundedName returns the kind of an unbounded value by the words of its name.
func unboundedName(w []string) (string, Severity) {
	if len(w) == 0 || hidingWords.any(w[:len(w)-1]) {
		return "", ""
	}
	before := last(w[:len(w)-1])
	switch l := last(w); l {
	case "id", "ids":
		switch {
		case manyIDs[before]:
			return "an id", ""
		case before == "" || fewIDs[before]:
			return "", ""
		}
		return "an id", Suggestion
	case "uuid", "guid":
		if fewIDs[before] {
			return "", ""
		}
		return "an id", ""
	case "url", "uri":
		if setOf("base server schema endpoint registry api")[before] {
			return "", ""
		}
		return "a URL", ""
	default:
		for _, n := range unboundedNames {
			if n.words[l] && (n.before == nil || n.before[before]) {
				return n.kind, ""
			}
		}
		return "", ""
	}
}

// remote are words before "address" for the address of a client.
var remote = setOf("client remote user visitor caller sender")

// unboundedValue returns the kind of an unbounded value by its expression: a time, a new id, the text of an error, the
// path of a request.
func unboundedValue(u *instrumentation.Uses, n *syntax.Node, depth int) string {
	if depth == 0 {
		return ""
	}
	switch n.Kind {
	case syntax.Name:
		if def := u.File.Definition(n); def != nil && def.Kind == syntax.Assign && len(def.Targets()) == 1 && !n.Within(def) {
			return unboundedValue(u, def.Value(), depth-1)
		}
	case syntax.Member:
		x := n.Children[0]
		lower := strings.ToLower(n.Text)
		switch {
		case (lower == "path" || lower == "requesturi" || lower == "rawquery") && (name(x) == "URL" || name(x) == "url" || request(u, x)) && name(x) != "route",
			(lower == "url" || lower == "originalurl") && request(u, x), lower == "requesturi":
			return "a URL"
		case (lower == "message" || lower == "stack") && isError(x):
			return "a message"
		case (n.Text == "ip" || n.Text == "remote_addr" || n.Text == "RemoteAddr") && (request(u, x) || httpRequest(u, x) || name(x) == "ctx"):
			return "the address of a client"
		}
	case syntax.Call:
		recv, m := n.Method()
		switch {
		case recv != nil && isError(recv) && slices.Contains([]string{"Error", "getMessage", "toString", "getLocalizedMessage"}, m) && len(n.Args()) == 0:
			return "a message"
		case slices.Contains([]string{"str", "String", "repr"}, m) && recv == nil && len(n.Args()) == 1 && isError(n.Args()[0]):
			return "a message"
		case m == "getRequestURI" || m == "getRequestURL":
			return "a URL"
		case len(n.Args()) == 0 && recv != nil && (m == "getRemoteAddr" || m == "ClientIP" || m == "RealIP"):
			return "the address of a client"
		case len(n.Args()) == 0 && recv != nil && m == "UserAgent", len(n.Args()) == 1 && accessors[strings.ToLower(m)] && strings.EqualFold(n.Args()[0].Text, "User-Agent"):
			return "a user agent"
		case m == "String" && recv != nil && recv.Kind == syntax.Member && (recv.Text == "URL" || recv.Text == "Url"):
			return "a URL"
		case unboundedCall(n) && m != "hash":
			return "a value that is new each time"
		case recv != nil && m == "time" && name(recv) == "time" && len(n.Args()) == 0: // of Python
			return "a timestamp"
		case recv != nil && (timeName(name(recv)) || timeType(u, recv) || unboundedCall(recv) || recv.Kind == syntax.New && name(recv) == "Date" && len(recv.Args()) == 0) && slices.Contains([]string{"String", "Format", "Unix", "UnixNano", "UnixMilli", "isoformat", "toISOString", "timestamp", "getTime", "toString"}, m):
			return "a timestamp"
		case keeps(n):
			for _, a := range n.Args() {
				if kind := unboundedValue(u, a, depth-1); kind != "" {
					return kind
				}
			}
			if recv != nil && len(n.Args()) == 0 {
				return unboundedValue(u, recv, depth-1)
			}
		}
	case syntax.Template, syntax.Await, syntax.Conditional:
		for _, c := range n.Children[:min(len(n.Children), 8)] {
			if kind := unboundedValue(u, c, depth-1); kind != "" {
				return kind
			}
		}
	}
	return ""
}

// timeType reports whether a variable is declared as a point in time.
func timeType(u *instrumentation.Uses, n *syntax.Node) bool {
	if n.Kind != syntax.Name && n.Kind != syntax.Member {
		return false
	}
	def := u.File.Definition(n)
	return def != nil && setOf("Time Instant Date datetime LocalDateTime OffsetDateTime ZonedDateTime")[def.Type[strings.LastIndex(def.Type, ".")+1:]]
}

// timeName reports whether a name is for a point in time.
func timeName(s string) bool {
	w := words(s)
	return last(w) == "timestamp" || last(w) == "at" && len(w) > 1 || last(w) == "date" && len(w) > 1
}
