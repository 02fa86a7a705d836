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
)

// mask replaces one kind of sensitive data.
type mask struct {
	kind    string // of package sensitive
	pattern string // RE2
	with    string
	example string // before the mask: never shown, because a reader could not tell it from a leak
}

// masks has one mask for every kind of package sensitive, in its order.
var masks = []mask{
	{"email", `[A-Za-z0-9._%+-]+(@|%40)([A-Za-z0-9-]+\.)+[A-Za-z]{2,}`, "[email]", "reset for ada@shop.example.org"},
	{"payment_card", `\b[0-9]([ -]?[0-9]){12,18}\b`, "[card]", "paid with 4111 1111 1111 1111"},
	{"ssn", `\b[0-9]{3}-[0-9]{2}-[0-9]{4}\b`, "[ssn]", "applicant 536-90-4399"},
	{"iban", `\b[A-Z]{2}[0-9]{2}( ?[A-Za-z0-9]{4}){2,7}( ?[A-Za-z0-9]{1,4})?\b`, "[iban]", "transfer to DE89 3704 0044 0532 0130 00"},
	{"national_id", `\b[A-Za-z]{0,6}[0-9]([./+-]?[0-9A-Za-z]| [0-9]){6,20}\b`, "[id]", "issued for 2 55 08 14 168 025 38 today"},
	{"tax_id", `\b[A-Za-z]{0,6}[0-9]([./-]?[0-9A-Za-z]| [0-9]){6,17}\b`, "[tax id]", "cpf=529.982.247-25"},
	{"bearer_token", `(?i)\bbearer\s+[A-Za-z0-9._~+/=-]{16,}`, "[token]", "sent Bearer f3b0c44298fc1c149afbf4c8996fb924"},
	{"basic_credentials", `(?i)\bbasic\s+[A-Za-z0-9+/=_-]{8,}`, "[credentials]", "sent Basic YWRhOmNvcnJlY3QtaG9yc2U="},
	{"jwt", `\be[yw][A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*`, "[jwt]", "session eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl"},
	{"aws_key", `\b(AKIA|ASIA)[A-Z0-9]{16}\b`, "[aws key]", "signed with AKIAQX7M2P4R6T8V0Z3B"},
	{"secret_key", `\bsk-[A-Za-z0-9_-]{16,}`, "[key]", "model called with sk-q7Zx2Lm9Vb4Nc8Rt3Yw6Hd1K"},
	{"github_token", `\b(gh[a-z]_|github_pat_)[A-Za-z0-9_]{16,}`, "[github token]", "cloned with ghp_q7Zx2Lm9Vb4Nc8Rt3Yw6Hd1Kf5Js0Pg2Ae4U"},
	{"gitlab_token", `\bgl[a-z]{2,8}-[A-Za-z0-9_.-]{16,}`, "[gitlab token]", "cloned with glpat-q7Zx2Lm9Vb4Nc8Rt3Yw6"},
	{"slack_token", `\bxox[a-z]-[A-Za-z0-9-]{10,}`, "[slack token]", "posted with xoxb-294857610384-q7Zx2Lm9Vb4Nc8Rt"},
	{"stripe_key", `\b((sk|rk)_(live|test)|whsec)_[A-Za-z0-9]{16,}`, "[stripe key]", "charged with sk_live_q7Zx2Lm9Vb4Nc8Rt3Yw6Hd1K"},
	{"google_key", `\b(AIza[A-Za-z0-9_-]{35}|ya29\.[A-Za-z0-9_-]{16,}|GOCSPX-[A-Za-z0-9_-]{16,})`, "[google key]", "geocoded with AIzaSyq7Zx2Lm9Vb4Nc8Rt3Yw6Hd1Kf5Js0Pg2A"},
	{"private_key", `-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*?)(-----END [A-Z ]*PRIVATE KEY-----|\z)`, "[private key]", "loaded -----BEGIN PRIVATE KEY-----\nMIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgq7Zx2Lm9Vb4Nc8Rt\n-----END PRIVATE KEY-----"},
	{"url_password", `:[^/\s:@]+@`, ":***@", "connect to postgres://app:c0rrect-h0rse@db/shop"},
	{
		"named_secret",
		`(?i)(passw(or)?d|pwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|authorization|cookie|session[_-]?id|ssn|credit[_-]?card|card[_-]?number|cvv|iban|patient[_-]?id|diagnosis|insurance[_-]?id)"?\s*[=:]\s*"?[^\s",;&}]+`,
		"[secret]", "login failed, password=c0rrect-h0rse",
	},
}

// plainKey matches the attribute keys that a statement may name.
var plainKey = regexp.MustCompile(`^(?:[a-z]+ )?attribute: ([A-Za-z0-9_.-]{1,64})$`)

// fields are the fields of a signal that have text, in the language of the transform
// processor: a string, or a map of attributes.
type fields struct {
	statements string
	text       []string
	maps       []string
}

var fieldsOf = map[assay.Signal]fields{
	assay.SignalLog:    {"log_statements", []string{"log.body"}, []string{"log.attributes", "resource.attributes"}},
	assay.SignalTrace:  {"trace_statements", []string{"span.name", "span.status.message"}, []string{"span.attributes", "resource.attributes"}},
	assay.SignalMetric: {"metric_statements", nil, []string{"datapoint.attributes", "resource.attributes"}},
}

// masked is what masking writes about a kind for the fields of a signal.
type masked struct {
	example    string
	statements []string
}

// maskedKinds returns what masking writes about each of masks for a signal. It is made once: a page has a text for each
// of its insights.
var maskedKinds = sync.OnceValue(func() map[assay.Signal][]masked {
	all := make(map[assay.Signal][]masked)
	for _, m := range masks {
		example := fmt.Sprintf("- `%s`: a text reads `%s` afterwards", m.kind, oneLine(m.apply(m.example)))
		for signal, f := range fieldsOf {
			made := masked{example: example}
			for _, field := range f.text {
				made.statements = append(made.statements, statement(`replace_pattern(%s, %s, %s) where IsString(%s)`, field, quoteOTTL(m.pattern), quoteOTTL(m.with), field))
			}
			for _, field := range f.maps {
				made.statements = append(made.statements, statement(`replace_all_patterns(%s, "value", %s, %s)`, field, quoteOTTL(m.pattern), quoteOTTL(m.with)))
			}
			all[signal] = append(all[signal], made)
		}
	}
	return all
})

// masking returns a section with a mask for every kind in the findings of an insight.
func masking(signal assay.Signal, findings string) string {
	var found []struct{ Where, Kind string }
	if json.Unmarshal([]byte(findings), &found) != nil || len(found) == 0 {
		return ""
	}
	f := fieldsOf[signal]
	var examples, statements []string
	for i, made := range maskedKinds()[signal] {
		in := false
		for _, one := range found {
			if one.Kind != masks[i].kind {
				continue
			}
			in = true
			// The value under a key is a secret because of the key, which no pattern for values matches.
			if key := plainKey.FindStringSubmatch(one.Where); key != nil && one.Kind == "named_secret" {
				for _, fields := range f.maps {
					statements = append(statements, statement(`delete_key(%s, %s)`, fields, quoteOTTL(key[1])))
				}
			}
		}
		if in {
			examples, statements = append(examples, made.example), append(statements, made.statements...)
		}
	}
	if len(examples) == 0 {
		return ""
	}
	slices.Sort(statements)
	return "\n\n### Masking\n\nUntil the source is fixed, the Collector can mask what was found in this service:\n\n" +
		strings.Join(examples, "\n") + "\n\n```yaml\nprocessors:\n  transform/mask:\n    error_mode: ignore\n    " + f.statements + ":\n" +
		strings.Join(slices.Compact(statements), "\n") + "\n```"
}

func statement(format string, args ...any) string {
	return "      - " + quoteYAML(fmt.Sprintf(format, args...))
}

func (m *mask) apply(text string) string {
	return regexp.MustCompile(m.pattern).ReplaceAllLiteralString(text, m.with)
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
