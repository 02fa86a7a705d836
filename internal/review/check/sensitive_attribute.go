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
		for i := range u.Attributes {
			a := &u.Attributes[i]
			key, _ := u.Key(a.Key)
			what := sensitiveAttributeValue(u, a, key)
			if what == "" {
				continue
			}
			subject := key
			if sensitive.Key([]byte(key)) != sensitive.None {
				subject = ""
			}
			if subject == "" {
				subject = brief(u, a.Key)
			}
			p.mark(u, a.Node, Finding{
				Subject: subject,
				Message: fmt.Sprintf("The %s attribute `%s` holds %s.", a.On, subject, what),
				Names:   attributeNames(u, a, key),
				Fix:     p.removeAttribute(u, a),
			})
		}
	},
	Examples: []Example{
		{
			Name: "personal data and credentials by key and by value",
			Files: map[string]string{"login.go": goFile(`
func login(ctx context.Context, user *User, r *http.Request, cardNumber string) {
	_, span := tracer.Start(ctx, "login", trace.WithAttributes(
		attribute.String("user.email", user.Address),
	))
	defer span.End()
	span.SetAttributes(attribute.String("user", user.Email))
	span.SetAttributes(attribute.String("auth", r.Header.Get("Authorization")))
	span.SetAttributes(attribute.String("card", fmt.Sprintf("%v", cardNumber)))
	span.AddEvent("login", trace.WithAttributes(attribute.String("login.password", r.FormValue("pw"))))
}
`)},
			Findings: []string{"login.go:7", "login.go:10", "login.go:11", "login.go:12", "login.go:13"},
		},
		{
			Name: "ids, counts, flags, hashes, masked values and names",
			Files: map[string]string{"login.go": goFile(`
func login(ctx context.Context, user *User, token string, tokens []string) {
	_, span := tracer.Start(ctx, "login")
	defer span.End()
	span.SetAttributes(
		attribute.String("user.id", user.ID),
		attribute.Bool("user.has_email", user.Email != ""),
		attribute.Bool("user.email_verified", user.EmailVerified),
		attribute.String("user.email_hash", sha256Hex(user.Email)),
		attribute.String("user.masked", mask(user.Email)),
		attribute.Int("token.length", len(token)),
		attribute.Int("gen_ai.usage.input_tokens", len(tokens)),
		attribute.String("template.email_name", tpl.Email.Name),
		attribute.String("secret_name", secret.Name),
		attribute.String("next_page_token", page.NextPageToken),
	)
}
`)},
		},
		{
			Name: "names of persons, and credentials in an object that is made a text",
			Files: map[string]string{"login.ts": `import { trace } from '@opentelemetry/api';
export function login(form: Form) {
  const span = trace.getActiveSpan();
  span.setAttribute('user.full_name', form.name);
  span.setAttribute('login', JSON.stringify({ user: form.user, password: form.password }));
  span.setAttribute('login', JSON.stringify({ user: form.id, hasPassword: !!form.password }));
}
`},
			Findings: []string{"login.ts:4", "login.ts:5"},
		},
		{
			Name: "cookies of a session, new passwords, and parameters of annotated methods",
			Files: map[string]string{
				"login.ts": `import { trace } from '@opentelemetry/api';
export function login(req: Request, form: Form) {
  const span = trace.getActiveSpan();
  span.setAttribute('session', req.cookies.session);
  span.setAttribute('theme', req.cookies.theme);
  span.setAttribute('form', form.newPassword);
}
`,
				"Pay.java": `import io.opentelemetry.instrumentation.annotations.SpanAttribute;
import io.opentelemetry.instrumentation.annotations.WithSpan;
class Pay {
  @WithSpan
  void pay(@SpanAttribute("payment.card") String cardNumber, @SpanAttribute("payment.amount") long amount) {}
}
`,
			},
			Findings: []string{"Pay.java:5", "login.ts:4", "login.ts:6"},
		},
	},
}

// flags are the methods that make attributes of flags and numbers with a fraction.
var flags = setOf("bool boolean float64 double boolkey doublekey booleankey boolslice")

// sensitiveAttributeValue returns what sensitive value an attribute holds, "" for none.
func sensitiveAttributeValue(u *instrumentation.Uses, a *instrumentation.Attribute, key string) string {
	if flags[strings.ToLower(name(a.Node))] || a.Key.Kind == syntax.Call && flags[strings.ToLower(name(a.Key))] {
		return ""
	}
	if a.Value == nil {
		return sensitiveKey(key)
	}
	if s, ok := u.Known(a.Value); ok { // a literal is judged as the rules judge the telemetry
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
	if whole := strings.ToLower(name(a.Node)); what != "" && slices.Contains([]string{"int", "int64", "intslice", "int64slice", "longkey"}, whole) {
		if sensitive.Integer([]byte(key), 1) == sensitive.None {
			what = ""
		}
	}
	if what != "" && (!hides(u, a.Value) || what == "a person's name" && last(words(name(a.Value))) == "name") {
		if secretObject(u, words(key)) {
			return ""
		}
		if last(words(key)) == "token" && (languageToken(u, a.Value) || unrelatedToken(a.Value)) {
			return ""
		}
		return what
	}
	if strings.HasPrefix(strings.ToLower(name(a.Node)), "int") {
		return ""
	}
	if what := exposes(u, a.Value); what != "a token" || !otherToken(key) {
		return what
	}
	return ""
}

// cryptoWords are last words of names of what is traded as a token.
var cryptoWords = setOf("addr address contract symbol price balance amount pair supply decimals")

// unrelatedToken reports whether the name of a value says that it is a token without access.
func unrelatedToken(n *syntax.Node) bool {
	w := words(name(n))
	return last(w) == "token" && tokenWords.any(w[:len(w)-1]) || cryptoWords[last(w)]
}

// attributeNames returns what telemetry shows of an attribute.
func attributeNames(u *instrumentation.Uses, a *instrumentation.Attribute, key string) Names {
	n := Names{AttributeKey: key}
	if a.Span != nil {
		n.SpanName, n.ScopeName = spanName(u, a.Span), a.Span.Scope
	}
	if a.Instrument != nil {
		n.MetricName, _ = u.Known(a.Instrument.Name)
		n.ScopeName = a.Instrument.Scope
	}
	return n
}
