// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	logspb "go.opentelemetry.io/proto/otlp/logs/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"assay/internal/delta"
	"assay/internal/rules/catalog"
	"assay/internal/rules/rulestest"
)

// TestFindings checks the place and the kind of sensitive data.
func TestFindings(t *testing.T) {
	attributes := rulestest.Attrs("user.mail", mail, "db.password", "hunter22", "n", 4111111111111111, "nested", rulestest.Attrs("ssn", 123456789))
	scope := &commonpb.InstrumentationScope{Name: mail, Version: mail, Attributes: rulestest.Attrs("owner", mail)}
	r := rulestest.Service("a", "contact", mail)

	span := rulestest.Span(1, 1, 0, func(s *tracepb.Span) {
		s.Name, s.Status, s.Attributes = mail, &tracepb.Status{Message: mail}, attributes
		s.Events = []*tracepb.Span_Event{{Name: mail, Attributes: attributes[:1]}}
		s.Links = []*tracepb.Span_Link{{Attributes: attributes[:1]}}
	})
	s := factsOf(t, "a", rulestest.Traces(rulestest.ScopeSpans(r, scope, span)))
	require.Equal(t, []string{
		"attribute: db.password\nsecret", "attribute: n\ncard", "attribute: nested\nssn", "attribute: user.mail\nemail",
		"event attribute: user.mail\nemail", "event name\nemail", "link attribute: user.mail\nemail",
		"scope attribute: owner\nemail", "scope name\nemail", "scope version\nemail", "span name\nemail", "status message\nemail",
	}, kinds(texts(s, catalog.SPA006, delta.Findings)))
	require.Equal(t, []string{"resource attribute: contact\nemail"}, kinds(texts(s, catalog.RES010, delta.Findings)))
	require.Equal(t, delta.Count{Observed: 1, Failed: 1}, total(s, catalog.SPA006), "one span, however much is in it")
	require.NotContains(t, texts(s, catalog.SPA006, delta.SpanNames)[0], mail)

	m := rulestest.Gauge(mail, "{"+mail+"}", rulestest.Point(rulestest.T0, "user.mail", mail))
	m.Description = mail
	m.GetGauge().DataPoints[0].Exemplars = []*metricspb.Exemplar{{FilteredAttributes: attributes[:1]}}
	entry := rulestest.Metrics(r, m)
	entry.ScopeMetrics[0].Scope = scope
	s = factsOf(t, "a", rulestest.MetricsRequest(entry))
	require.Equal(t, []string{
		"data point attribute: user.mail\nemail", "exemplar attribute: user.mail\nemail", "metric description\nemail", "metric name\nemail", "metric unit\nemail",
		"scope attribute: owner\nemail", "scope name\nemail", "scope version\nemail",
	}, kinds(texts(s, catalog.MET008, delta.Findings)))
	require.NotContains(t, fmt.Sprint(s.Claims, s.Items), mail)

	logs := rulestest.Logs(r, rulestest.Log(rulestest.Attrs("user", rulestest.Attrs("password", "hunter22")), func(r *logspb.LogRecord) {
		r.Attributes, r.EventName = attributes[:1], mail
	}), rulestest.Log(mail))
	logs.ScopeLogs[0].Scope = scope
	s = factsOf(t, "a", rulestest.LogsRequest(logs))
	require.Equal(t, []string{
		"attribute: user.mail\nemail", "body\nemail", "body: password\nsecret", "event name\nemail",
		"scope attribute: owner\nemail", "scope name\nemail", "scope version\nemail",
	}, kinds(texts(s, catalog.LOG003, delta.Findings)))
}

// kinds shortens findings: the detector has tests for the names of kinds.
func kinds(list []string) []string {
	for i, text := range list {
		where, kind, _ := strings.Cut(text, delta.FindingSeparator)
		switch {
		case strings.Contains(kind, "mail"):
			kind = "email"
		case strings.Contains(kind, "card"):
			kind = "card"
		case strings.Contains(kind, "ssn"), strings.Contains(kind, "social"), strings.Contains(where, "nested"):
			kind = "ssn"
		default:
			kind = "secret"
		}
		list[i] = where + "\n" + kind
	}
	return list
}

func TestKeysInEvidence(t *testing.T) {
	set := func(s *tracepb.Span) {
		s.Attributes = rulestest.Attrs("host.name", "h", "http.method", "GET", "container.id", "c", "my.key", "x")
		s.Events = []*tracepb.Span_Event{{Attributes: rulestest.Attrs("http.url", "x", "host.id", "x")}}
	}
	s := factsOf(t, "a", rulestest.Traces(rulestest.Spans(rulestest.Service("a", "url.full", "x", "http.scheme", "x"), rulestest.Span(1, 1, 0, set))))
	require.Equal(t, []string{"container.id", "host.name", "url.full"}, texts(s, catalog.RES004, delta.AttributeKeys))
	require.Equal(t, delta.Count{Observed: 2, Failed: 2}, total(s, catalog.RES004), "the resource and the span")
	require.Subset(t, texts(s, catalog.DeprecatedAttributes, delta.AttributeKeys), []string{"http.scheme", "http.method", "http.url"})
	require.Equal(t, []string{"GET /cart"}, texts(s, catalog.RES004, delta.SpanNames))
}

func TestEvidenceIsBounded(t *testing.T) {
	var list []*tracepb.Span
	for i := range 200 {
		list = append(list, rulestest.Span(i+1, 1, 0, func(s *tracepb.Span) {
			s.Kind, s.Name = tracepb.Span_SPAN_KIND_CLIENT, fmt.Sprint("op ", i)
		}))
	}
	s := factsOf(t, "a", rulestest.Traces(rulestest.Spans(rulestest.Service("a"), list...)))
	require.Len(t, texts(s, catalog.SPA004, delta.SpanNames), delta.MaxItems)
	require.EqualValues(t, 200, total(s, catalog.SPA004).Failed)
}

// TestShownResource: resource attributes are shown as JSON, redacted and of limited size.
func TestShownResource(t *testing.T) {
	shown := func(more ...any) map[string]any {
		s := factsOf(t, "a", rulestest.Traces(rulestest.Spans(rulestest.Service("a", append(more, "service.criticality", "?!")...), rulestest.Span(1, 1, 0))))
		text := s.Examples[catalog.RES006].ResourceAttributes
		require.LessOrEqual(t, len(text), maxAttributesJSON)
		for _, secret := range []string{mail, "hunter22", "4111111111111111", "123456789"} {
			require.NotContains(t, text, secret)
		}
		var object map[string]any
		require.NoError(t, json.Unmarshal([]byte(text), &object), text)
		return object
	}
	o := shown("contact", mail, "db.password", "hunter22", "n", 4111111111111111, "ssn", 123456789, "list", []any{"--password", "hunter22", 5, mail},
		"map", rulestest.Attrs("password", "hunter22", "ok", true), "double", 1.5, "none", nil, "bytes", []byte(mail), "text", "plain", mail, "by key")
	require.Equal(t, "a", o["service.name"])
	require.Equal(t, "plain", o["text"])
	require.Equal(t, 1.5, o["double"])
	require.Nil(t, o["none"])
	require.Equal(t, map[string]any{"password": redacted, "ok": true}, o["map"])

	// Detection ignores doubles, most integers and nested values under the name of a secret; evidence does not show them.
	nested := rulestest.Attrs("value", "hunter22", "n", 5, "x", 0.5, "ok", true, "token", rulestest.Attrs("deep", []any{"hunter22"}), "iban", nil)
	hidden := map[string]any{"value": redacted, "n": redacted, "x": redacted, "ok": redacted, "token": map[string]any{"deep": []any{redacted}}, "iban": nil}
	for name, tt := range map[string]struct{ value, want any }{
		"db.password": {nested, hidden},
		"api_key":     {[]any{nested, 7, "hunter22"}, []any{hidden, redacted, redacted}},
		"credentials.secret": {
			rulestest.Attrs("tax_id", "hunter22", "nif", 5, "x", rulestest.Attrs("national_id", "hunter22")),
			map[string]any{"tax_id": redacted, "nif": redacted, "x": map[string]any{"national_id": redacted}},
		},
		"password":      {12345678, redacted},
		"secret":        {1234567.5, redacted},
		"token":         {false, redacted},
		"ssn":           {123456789.0, redacted},
		"customer.card": {4111111111111111.0, redacted},
		"card.and.half": {4111111111111111.5, redacted},
		"authorization": {rulestest.Attrs("scheme", "Digest", "parameter", "hunter22"), map[string]any{"scheme": "Digest", "parameter": redacted}},
		"args": {
			[]any{"--password", []any{"hunter22"}, "--token", 12345678, "--secret", rulestest.Attrs("x", "hunter22"), "-v", 7},
			[]any{"--password", redacted, "--token", redacted, "--secret", redacted, "-v", 7.0},
		},
		"password.length": {8, 8.0},
		"nif":             {rulestest.Attrs("n", 5, "s", "12345678Z"), map[string]any{"n": 5.0, "s": redacted}},
		"huge":            {1e300, 1e300},
	} {
		require.Equal(t, tt.want, shown(name, tt.value)[name], name)
	}

	require.NotContains(t, shown("first", "1", "big", strings.Repeat("x", 5000), "last", "2")["big"], strings.Repeat("x", 600))
	require.NotEmpty(t, shown("password", strings.Repeat("hunter22", 1000)), "a secret longer than the displayed text")
	var many []any
	for i := range 1000 {
		many = append(many, fmt.Sprint("key", i), strings.Repeat("v", 50))
	}
	require.Greater(t, len(shown(many...)), 20)
	require.Equal(t, "1", shown("twice", "1", "twice", "2")["twice"], "the first counts")
}
