// SPDX-License-Identifier: Apache-2.0

package remedy

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"assay"
	"assay/internal/rules/sensitive"
)

// mask replaces one kind of sensitive data.
type mask struct {
	kind         string // of package sensitive
	replacements []replacement
	example      string // before the mask: never shown, because it would look like a leak
}

// replacement replaces the matches of a pattern in the syntax of RE2. It keeps the text around the secret, so that JSON
// stays JSON.
type replacement struct{ pattern, with string }

// redacted replaces a secret in a text. The detector reads it as redacted. A number of JSON becomes 0.
const redacted = sensitive.Redacted

const (
	// wordStart matches the text before a secret, in the first group.
	wordStart = `(^|\\[bfnrt]|\\u[0-9A-Fa-f]{4}|%[0-9A-Fa-f]{2}|\[[0-9;]*m|[^A-Za-z0-9])`
	// number matches the text before a number in JSON, in the first group.
	number = `("\s*:\s*|[\[,]\s*)`
	// secretNames match the ends of the names of secrets, lineNames the names of values that extend to the end of a line.
	secretNames = `(?:passw(?:or)?d|pwd|secret|token|(?:api|access|private)[-_. ]?key|session[-_. ]?id|ssn|credit[-_. ]?card|card[-_. ]?number|cvv|iban|patient[-_. ]?id|diagnosis|insurance[-_. ]?id)`
	lineNames   = `(?:authorization|cookie)`
	// separator matches the text between a name and its value, with colors of a terminal.
	separator = `(?:[ \t]|(?:\x1b|\\+u001b)\[[0-9;]*m)*(?:=>|[=:]|%3[AD]|\\+u003[ad])(?:[ \t]|(?:\x1b|\\+u001b)\[[0-9;]*m)*`
	// bracket matches the end of a name in brackets, or in encoded quotation marks, and keyEnd that of any name in quotation
	// marks or brackets.
	bracket = `(?:\]|%5D|%22|\\+u0022)`
	keyEnd  = `(?:\\*["'\x60]|\]|%22|%5D|\\+u0022)`
	// quoted matches the quotation mark before a value, in a group for each form, and the value. In JSON in a string, the
	// number of backslashes before a quotation mark shows whether it ends the value. A value in single quotes ends before the
	// end of the JSON string around it.
	quoted = `(?:(b?")(?:[^"\\]|\\.)+|([bu]?')(?:[^'"\\]|\\.|"[^,:}\]\s'])+|(\x60)[^\x60"]+` +
		`|(\\")(?:[^"\\]|\\+[^"\\]|(?:\\{4})*\\{3}")+|(\\{3}")(?:[^"\\]|\\+[^"\\]|(?:\\{8})*\\{7}")+|(\\{7}")(?:[^"\\]|\\+[^"\\]|(?:\\{16})*\\{15}")+` +
		`|(\\+')(?:[^'"\\]|\\+[^'"\\])+|(%22)(?:[^%\s"'&]|%[013-9A-F][0-9A-F]|%2[013-9A-F])+|(\\+u0022)(?:[^"\\]|\\+[^"\\u]|\\+u(?:[^0]|0[^0]|00[^2]|002[^2]))+)`
	// unquoted matches the rest of an unquoted value, which a quotation mark, a space or & ends.
	unquoted = `(?:[^\s"'\x60&\\]|\\+[^\s"'\x60\\])`
)

// masks has one mask for every kind of package sensitive, in its order.
var masks = []mask{
	{"email", []replacement{{
		`(^|\\[bfnrt]|\\u[0-9A-Fa-f]{4}|\[[0-9;]*m|%[013-9A-Fa-f][0-9A-Fa-f]|%2[^BbDdEe]|[^A-Za-z0-9._+\x{80}-\x{10FFFF}-])` +
			`(?:[A-Za-z0-9._+\x{80}-\x{10FFFF}-]|%2[BbDdEe]|%5[Ff])+(?:@|%40)(?:[A-Za-z0-9\x{80}-\x{10FFFF}-]+\.)+[A-Za-z\x{80}-\x{10FFFF}]{2,}`,
		"${1}" + redacted,
	}}, "reset for ada@shop.example.org"},
	{"payment_card", []replacement{
		{number + `[2-9][0-9]{12,18}\b`, "${1}0"},
		{wordStart + `(?:[2-9][0-9]{3}(?:(?:[ +-]|%20)?[0-9]{4}){3}|3[0-9]{3}(?:[ +-]|%20)?[0-9]{6}(?:[ +-]|%20)?[0-9]{4,5})\b`, "${1}" + redacted},
		{wordStart + `[2-9](?:(?:[ +-]|%20)?[0-9]){12,18}\b`, "${1}" + redacted},
	}, "paid with 4111 1111 1111 1111"},
	shape("ssn", `[0-9]{3}-[0-9]{2}-[0-9]{4}\b`, "applicant 536-90-4399"),
	shape("iban", `[A-Za-z]{2}[0-9]{2}(?:(?:[ +-]|%20)?[A-Za-z0-9]{4}){2,7}(?:(?:[ +-]|%20)?[A-Za-z0-9]{1,4})?\b`, "transfer to DE89 3704 0044 0532 0130 00"),
	{"national_id", []replacement{
		{number + `[0-9]{7,15}\b`, "${1}0"},
		{wordStart + `[A-Za-z]{0,6}[0-9](?:[./+-]?[0-9A-Za-z]| [0-9]){6,20}\b`, "${1}" + redacted},
	}, "issued for 2 55 08 14 168 025 38 today"},
	{"tax_id", []replacement{
		{number + `[0-9]{7,15}\b`, "${1}0"},
		{wordStart + `[A-Za-z]{0,6}[0-9](?:[./-]?[0-9A-Za-z]| [0-9]){6,17}\b`, "${1}" + redacted},
	}, "cpf=529.982.247-25"},
	{"bearer_token", []replacement{{`(?i)(bearer(?:%20|[: \t])+)[A-Za-z0-9._~+/=-]{16,}`, "${1}" + redacted}}, "sent Bearer f3b0c44298fc1c149afbf4c8996fb924"},
	{"basic_credentials", []replacement{{`((?i:basic)(?:%20|[: \t])+)[A-Za-z0-9+/_-]*[A-Z0-9+/_-][A-Za-z0-9+/=_-]*`, "${1}" + redacted}}, "sent Basic YWRhOmNvcnJlY3QtaG9yc2U="},
	shape("jwt", `e[yw][A-Za-z0-9_-]+\.[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]*){1,3}`, "session eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl"),
	shape("aws_key", `(?:AKIA|ASIA)[A-Z0-9]{16}\b`, "signed with AKIAQX7M2P4R6T8V0Z3B"),
	shape("secret_key", `sk-[A-Za-z0-9_-]{16,}`, "model called with sk-q7Zx2Lm9Vb4Nc8Rt3Yw6Hd1K"),
	shape("github_token", `(?:gh[a-z]_|github_pat_)[A-Za-z0-9_-]{16,}`, "cloned with ghp_q7Zx2Lm9Vb4Nc8Rt3Yw6Hd1Kf5Js0Pg2Ae4U"),
	shape("gitlab_token", `gl[a-z]{2,8}-[A-Za-z0-9_.-]{16,}`, "cloned with glpat-q7Zx2Lm9Vb4Nc8Rt3Yw6"),
	shape("slack_token", `(?:xox[a-z]|xapp)-[A-Za-z0-9_-]{10,}`, "posted with xoxb-294857610384-q7Zx2Lm9Vb4Nc8Rt"),
	shape("stripe_key", `(?:(?:sk|rk)_(?:live|test)|whsec)_[A-Za-z0-9_-]{10,}`, "charged with sk_live_q7Zx2Lm9Vb4Nc8Rt3Yw6Hd1K"),
	shape("google_key", `(?:AIza[A-Za-z0-9_-]{35}|ya29\.[A-Za-z0-9_-]{16,}|GOCSPX-[A-Za-z0-9_-]{16,})`, "geocoded with AIzaSyq7Zx2Lm9Vb4Nc8Rt3Yw6Hd1Kf5Js0Pg2A"),
	{"private_key", []replacement{{
		`-----BEGIN [A-Z0-9 ]*PRIVATE KEY[A-Z0-9 ]*-----(?:(?:[^"\\]|\\+[^"\\])*?-----END [A-Z0-9 ]*-----|(?:[^"\\]|\\+[^"\\])*)`, redacted,
	}}, "loaded -----BEGIN PRIVATE KEY-----\nMIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgq7Zx2Lm9Vb4Nc8Rt\n-----END PRIVATE KEY-----"},
	{"url_password", []replacement{
		{`(://[^\s/?#:"'<>\x60\\]*:)[^\s/?#"'<>\x60\\]+@`, "${1}***@"},
		{`([A-Za-z0-9]:)[^\s"']+@((?:tcp|unix)\()`, "${1}***@${2}"}, // a data source name of MySQL
		{`(?i)(%3A%2F%2F[^\s"'&]*?%3A)(?:[^\s"'&%]|%[^2-4]|%2[^0F3]|%3[^F]|%4[^0])+%40`, "${1}***%40"},
	}, "connect to postgres://app:c0rrect-h0rse@db/shop"},
	{"named_secret", []replacement{
		{
			`(?i)((?:` + secretNames + `|` + lineNames + `)` + keyEnd + `{0,2}` + separator + `\[?` +
				`|["'\x60]--?[\w.-]*(?:` + secretNames + `|` + lineNames + `)\\*["'\x60][ \t]*,[ \t]*)` + quoted,
			"${1}${2}${3}${4}${5}${6}${7}${8}${9}${10}" + redacted,
		},
		{`(?i)((?:ssn|credit[-_. ]?card|card[-_. ]?number|cvv|patient[-_. ]?id|insurance[-_. ]?id)\\*["']\s*:\s*)[1-9][0-9]*\b`, "${1}0"},
		// To the end of the line, with the quoted parameters of a scheme.
		{
			`(?i)(` + lineNames + bracket + `*` + separator + `)(?:[a-z]+[ \t]+["'])?(?:[^"'\x60\r\n\\{]|\\+[^"'\x60\r\n\\])` +
				`(?:=\\*"(?:[^",}\]\\\s][^"\\\r\n]*)?\\*"|[^"'\x60\r\n\\]|\\+[^"'\x60\r\n\\])*`, "${1}" + redacted,
		},
		{`(?i)(` + secretNames + bracket + `*` + separator + `)(?:[a-z0-9_.]+\([bu]?\\*["'][^"'\\]*\\*["']|[^\s"'\x60&\\{]` + unquoted + `*)`, "${1}" + redacted},
		// After a quoted name, all but the literals of JSON.
		{`(?i)((?:` + secretNames + `|` + lineNames + `)` + keyEnd + `{1,2}` + separator + `)[^\s"'\x60&\\{\[,}\]]*[^\s"'\x60&\\{\[,}\]0-9.+truefalsn-]` + unquoted + `*`, "${1}" + redacted},
	}, "login failed, password=c0rrect-h0rse"},
}

// shape returns the mask of a kind with one form.
func shape(kind, pattern, example string) mask {
	return mask{kind, []replacement{{wordStart + pattern, "${1}" + redacted}}, example}
}

// plainKey matches the keys that a statement may name.
var plainKey = regexp.MustCompile(`^[\pL\pN_./:\[\] -]{1,128}$`)

// place is a place of findings in the language of the transform processor: a string, or a map of attributes.
type place struct {
	path  string
	isMap bool
}

var (
	statementLists = map[assay.Signal]string{assay.SignalLog: "log_statements", assay.SignalTrace: "trace_statements", assay.SignalMetric: "metric_statements"}

	placesOf = map[assay.Signal]map[string]place{
		assay.SignalLog: {"attribute": {"log.attributes", true}, "body": {"log.body", false}, "event name": {"log.event_name", false}},
		assay.SignalTrace: {
			"attribute": {"span.attributes", true}, "event attribute": {"spanevent.attributes", true}, "event name": {"spanevent.name", false},
			"span name": {"span.name", false}, "status message": {"span.status.message", false}, "resource attribute": {"resource.attributes", true},
		},
		assay.SignalMetric: {
			"data point attribute": {"datapoint.attributes", true},
			"metric name":          {"metric.name", false}, "metric description": {"metric.description", false}, "metric unit": {"metric.unit", false},
		},
	}
	scopePlaces = map[string]place{"scope attribute": {"scope.attributes", true}, "scope name": {"scope.name", false}, "scope version": {"scope.version", false}}

	// unmaskable are the places that the Collector cannot mask.
	unmaskable = map[string]string{
		"link attribute":     "The Collector cannot change attributes of links. Remove them at their source.",
		"exemplar attribute": "Most versions of the Collector cannot change exemplars. Disable them with `OTEL_METRICS_EXEMPLAR_FILTER=always_off`.",
	}
)

const nestedKey = "The Collector can mask the keys of a body, but not the keys of maps in it."

// masked has the texts on masking a kind.
type masked struct {
	example   string
	arguments []string // of the functions of statements: pattern and replacement
}

// maskedKinds returns the texts on masking each kind. It is computed once, because a page has a text for each of its insights.
var maskedKinds = sync.OnceValue(func() map[string]masked {
	all := make(map[string]masked)
	for _, m := range masks {
		made := masked{example: fmt.Sprintf("- `%s`: a text reads `%s` afterwards", m.kind, oneLine(m.apply(m.example)))}
		for _, r := range m.replacements {
			made.arguments = append(made.arguments, quoteOTTL(r.pattern)+", "+quoteOTTL(r.with))
		}
		all[m.kind] = made
	}
	return all
})

// masking returns a section with a mask for every finding of an insight.
func masking(signal assay.Signal, findings string) string {
	var found []struct{ Where, Kind string }
	if json.Unmarshal([]byte(findings), &found) != nil {
		return ""
	}
	var s snippet
	var notes []string
	for _, f := range found {
		kind, known := maskedKinds()[f.Kind]
		where, key, _ := strings.Cut(f.Where, ": ")
		p, ok := placesOf[signal][where]
		if !ok {
			p, ok = scopePlaces[where]
		}
		switch {
		case !known:
		case ok:
			if where == "body" && strings.Contains(key, redacted) {
				notes = append(notes, nestedKey+"\n")
			}
			s.mask(p, key, f.Kind, kind)
			s.resource = s.resource || where == "resource attribute"
		case unmaskable[where] != "":
			notes = append(notes, unmaskable[where]+"\n")
		}
	}
	if len(s.examples) > 0 {
		notes = append(notes, s.text(statementLists[signal]))
	}
	if len(notes) == 0 {
		return ""
	}
	slices.Sort(notes)
	return "\n\n### Masking\n\n" + strings.TrimSuffix(strings.Join(slices.Compact(notes), "\n"), "\n")
}

// snippet is a configuration of the Collector that masks findings.
type snippet struct {
	examples []string
	groups   []group
	bodyKeys []string // patterns of keys at any level of a body
	resource bool     // the statements are for the resource, in all signals
}

// group is the statements of a context. A list with statements of several contexts would run all of them in the
// innermost one, so a span without events would be left out.
type group struct {
	context    string
	statements []string
}

// mask adds the statements that mask a kind in a place, under a key if it is not empty.
func (s *snippet) mask(p place, key, name string, kind masked) {
	s.examples = append(s.examples, kind.example)
	plain := plainKey.MatchString(key) && !strings.Contains(key, redacted)
	switch {
	case p.isMap && plain && name == "named_secret" && sensitive.UnderKey([]byte(key)).Secret():
		// The key makes the value a secret, which no pattern for values matches.
		s.add(`delete_key(%s, %s)`, p.path, quoteOTTL(key))
	case p.isMap:
		s.replace(`replace_all_patterns(%s, "value", %s)`, p.path, kind)
		if plain { // a number, or a value with others in it
			s.add(`delete_key(%s, %s) where not IsString(%[1]s[%[2]s])`, p.path, quoteOTTL(key))
		} else {
			s.replace(`replace_all_patterns(%s, "key", %s)`, p.path, kind)
		}
	case plain: // in a body
		s.bodyKeys = append(s.bodyKeys, quoteYAML("^"+regexp.QuoteMeta(key)+`\z`))
	case key != "":
		s.replace(`replace_all_patterns(%s, "key", %s) where IsMap(%[1]s)`, p.path, kind)
	case p.path == "log.body":
		s.replace(`replace_pattern(%s, %s) where IsString(%[1]s)`, p.path, kind)
		s.add(`set(%s, %s) where IsList(%[1]s) or IsInt(%[1]s)`, p.path, quoteOTTL(redacted))
	default:
		s.replace(`replace_pattern(%s, %s)`, p.path, kind)
	}
}

func (s *snippet) replace(format, path string, kind masked) {
	for _, arguments := range kind.arguments {
		s.add(format, path, arguments)
	}
}

// add adds a statement that begins with a path.
func (s *snippet) add(format, path string, args ...any) {
	context, _, _ := strings.Cut(path, ".")
	i := slices.IndexFunc(s.groups, func(g group) bool { return g.context == context })
	if i < 0 {
		i = len(s.groups)
		s.groups = append(s.groups, group{context: context})
	}
	s.groups[i].statements = append(s.groups[i].statements, quoteYAML(fmt.Sprintf(format, append([]any{path}, args...)...)))
}

// text returns the snippet as Markdown. list is the statement list of the signal.
func (s *snippet) text(list string) string {
	var b strings.Builder
	b.WriteString("Until the source is fixed, the Collector can mask what was found in this service:\n\n")
	lines(&b, "", s.examples)
	b.WriteString("\nThe text around a secret stays, and JSON stays valid. Secrets under their name, and other values than strings, are removed.\n\n```yaml\nprocessors:\n")
	if s.resource {
		list = "trace_statements: &mask"
	} else {
		list += ":"
	}
	if len(s.groups) > 0 {
		b.WriteString("  transform/mask:\n    error_mode: ignore\n    " + list + "\n")
	}
	for _, g := range s.groups {
		indent := "      - "
		if len(s.groups) > 1 {
			b.WriteString("      - statements:\n")
			indent = "          - "
		}
		lines(&b, indent, g.statements)
	}
	if s.resource {
		b.WriteString("    metric_statements: *mask\n    log_statements: *mask\n")
	}
	if len(s.bodyKeys) > 0 {
		b.WriteString("  redaction/mask: # at any level of a body\n    allow_all_keys: true\n    redact_all_types: true\n    summary: silent\n    blocked_key_patterns:\n")
		lines(&b, "      - ", s.bodyKeys)
	}
	b.WriteString("```\n")
	return b.String()
}

// lines writes each line once, in the order of the first.
func lines(b *strings.Builder, indent string, list []string) {
	for i, line := range list {
		if !slices.Contains(list[:i], line) {
			b.WriteString(indent + line + "\n")
		}
	}
}

func (m *mask) apply(text string) string {
	for _, r := range m.replacements {
		text = regexp.MustCompile(r.pattern).ReplaceAllString(text, r.with)
	}
	return text
}

func oneLine(text string) string { return strings.ReplaceAll(text, "\n", " ") }

var (
	inOTTL = strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	inYAML = strings.NewReplacer("'", "''", "$", "$$")
)

// quoteOTTL quotes a string literal of the OpenTelemetry Transformation Language.
func quoteOTTL(s string) string { return `"` + inOTTL.Replace(s) + `"` }

// quoteYAML quotes a single-quoted scalar of a Collector configuration, in which a dollar
// sign begins a reference.
func quoteYAML(s string) string { return "'" + inYAML.Replace(s) + "'" }
