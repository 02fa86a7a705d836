// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"slices"
	"strings"

	"assay/internal/review/instrumentation"
	"assay/internal/review/syntax"
	"assay/internal/rules/sensitive"
)

var sensitiveAttribute = &Check{
	ID:       "sensitive-attribute",
	Title:    "Attribute holds sensitive data",
	Category: SensitiveData,
	Severity: Critical,
	Rules:    []string{"SPA-006", "MET-008", "RES-010"},
	Why: "Telemetry has more readers and more copies than the data that it describes. A credential in an attribute must be rotated, and personal " +
		"data in it is subject to the same laws as in the database.",
	Fix:     "Remove the attribute, or record an opaque id, such as `user.id`, a hash, or whether the value is present. Rotate a credential that has been recorded.",
	Fixable: true,
	Source: func(p *Pass, u *instrumentation.Uses) {
		for _, a := range u.Attributes {
			what := sensitiveAttributeValue(u, a)
			if what == "" {
				continue
			}
			subject := shown(u, a.Name, a.Key)
			if sensitive.Key([]byte(a.Name)) != sensitive.None {
				subject = brief(u, a.Key)
			}
			f := Finding{
				Subject: subject,
				Message: fmt.Sprintf("The %s attribute `%s` holds %s.", a.On, subject, what),
				Names:   attributeNames(u, a),
			}
			if what == "the body of a request" { // it may have no personal data
				f.Severity = Suggestion
			} else {
				f.Fix = p.removeAttribute(u, a)
			}
			p.mark(u, a.Node, f)
		}
	},
}

// flags are the methods that create attributes of booleans and floating-point numbers.
var flags = setOf("bool boolean float64 double boolkey doublekey booleankey boolslice")

// sensitiveAttributeValue returns the kind of sensitive data in the value of an attribute, "" for none.
func sensitiveAttributeValue(u *instrumentation.Uses, a *instrumentation.Attribute) string {
	key := a.Name
	if flags[strings.ToLower(name(a.Node))] || a.Key.Kind == syntax.Call && flags[strings.ToLower(name(a.Key))] {
		return ""
	}
	if a.Value == nil {
		return sensitiveKey(key)
	}
	if s, ok := u.Known(a.Value); ok { // apply the rules for telemetry to a literal
		if kind := sensitive.Named([]byte(key), []byte(s)); kind != sensitive.None && (kind != sensitive.NamedSecret || sensitiveKey(key) != "") {
			return "sensitive data"
		}
		return ""
	}
	if a.Value.Kind == syntax.Param || a.Value.Kind == syntax.Func { // @SpanAttribute("key") on a parameter
		if a.Value.Kind == syntax.Param && plainType(a.Value.Type) {
			return ""
		}
		what := sensitiveKey(key)
		if what == "" && a.Value.Kind == syntax.Param && strings.HasSuffix(a.Value.Type, "String") {
			what = sensitiveWords(words(a.Value.Text))
		}
		return what
	}
	what := sensitiveKey(key)
	if slices.Contains([]string{"int", "int64", "intslice", "int64slice", "longkey"}, strings.ToLower(name(a.Node))) && sensitive.Integer([]byte(key), 1) == sensitive.None {
		what = ""
	}
	if what != "" && (!hides(u, a.Value) || bareID(a.Value) && unlikeIDs[what] || what == "a person's name" && last(words(name(a.Value))) == "name") {
		if noSecret(u, key, a.Value) || otherSession(u, key, a.Value) {
			return ""
		}
		return what
	}
	if strings.HasPrefix(strings.ToLower(name(a.Node)), "int") {
		return ""
	}
	switch what := exposes(u, a.Value); {
	case what == "a token" && otherToken(key):
		return ""
	case what != "":
		return what
	}
	if what := whole(u, a.Value); withCredentials[what] && !hides(u, a.Value) {
		if w := append(words(key), words(u.File.Code(a.Value))...); what == "a header map" && (csvLike.any(w) || ofMessages.any(w)) {
			return ""
		}
		return what
	}
	return ""
}

// withCredentials are the results of whole for values that hold credentials or personal data in most programs.
var withCredentials = map[string]bool{"a header map": true, "the cookies of a request": true, "the environment": true, "the body of a request": true}

// ofMessages are words in names of messages of a queue and of their attributes. Their headers are rarely credentials.
var ofMessages = setOf("message messages messaging msg delivery record amqp rabbitmq")

// unlikeIDs are kinds of data that are never ids. If a key names such data, a variable named id may hold it
// nevertheless.
var unlikeIDs = map[string]bool{"an e-mail address": true, "a phone number": true, "a password": true}

// bareID reports whether a value is a variable named id, without another word.
func bareID(n *syntax.Node) bool { return n.Kind == syntax.Name && strings.EqualFold(n.Text, "id") }

// cryptoWords are last words of names for cryptocurrency tokens.
var cryptoWords = setOf("addr address contract symbol price balance amount pair supply decimals")

// unrelatedToken reports whether the name of a value is that of a token that gives no access.
func unrelatedToken(n *syntax.Node) bool {
	w := words(name(n))
	return last(w) == "token" && tokenWords.any(w[:len(w)-1]) || cryptoWords[last(w)]
}

// attributeNames returns the names in the telemetry of an attribute.
func attributeNames(u *instrumentation.Uses, a *instrumentation.Attribute) Names {
	n := Names{AttributeKey: a.Name}
	if a.Span != nil {
		n.SpanName, n.ScopeName = spanName(u, a.Span), a.Span.Scope
	}
	if a.Instrument != nil {
		n.MetricName, n.ScopeName = a.Instrument.Metric, a.Instrument.Scope
	}
	return n
}
