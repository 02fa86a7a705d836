// SPDX-License-Identifier: Apache-2.0

package remedy

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"assay"
	"assay/internal/rules/catalog"
	"assay/internal/rules/sensitive"
)

// detect searches a string, a number, a list or a map as the rules do, and returns the innermost key of the finding.
func detect(key string, value any) (kind sensitive.Kind, at string) {
	switch v := value.(type) {
	case string:
		return sensitive.Named([]byte(key), []byte(v)), key
	case float64:
		return sensitive.Integer([]byte(key), int64(v)), key
	case []any:
		flag := false
		for _, item := range v {
			text, isText := item.(string)
			if flag && isText {
				if kind = sensitive.FlagValue([]byte(text)); kind != sensitive.None {
					return kind, key
				}
			}
			if kind, at = detect(key, item); kind != sensitive.None {
				return kind, at
			}
			flag = isText && sensitive.Flag([]byte(text))
		}
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if kind = sensitive.Key([]byte(k)); kind != sensitive.None {
				return kind, sensitive.Redacted
			}
			if kind, at = detect(k, v[k]); kind != sensitive.None {
				return kind, at
			}
		}
	}
	return sensitive.None, ""
}

// finding returns the findings of a record with a value in a place, as in evidence.
func finding(where string, p place, value any) string {
	kind, at := detect("", value)
	if kind == sensitive.None {
		return ""
	}
	if attributes, isMap := value.(map[string]any); isMap && p.isMap { // evidence has the outermost key
		for _, k := range slices.Backward(slices.Sorted(maps.Keys(attributes))) {
			if kind, _ := detect("", map[string]any{k: attributes[k]}); kind != sensitive.None {
				at = sensitive.Clean([]byte(k))
			}
		}
	}
	if at != "" {
		where += ": " + at
	}
	text, _ := json.Marshal([]map[string]string{{"where": where, "kind": kind.String()}})
	return string(text)
}

// The statements that snippets have, as the transform processor reads them.
var (
	literal   = `("(?:\\.|[^"\\])*")`
	statement = regexp.MustCompile(`^(replace_pattern|replace_all_patterns|delete_key|set)\(([a-z._]+), (?:"(key|value)", )?` + literal + `(?:, ` + literal + `)?\)(?: where (.*))?$`)
	patterns  = make(map[string]*regexp.Regexp)
)

func unquote(t *testing.T, s string) string {
	text, err := strconv.Unquote(s)
	require.NoError(t, err, s)
	return text
}

// execute returns the value in a place after a statement.
func execute(t *testing.T, text string, p place, value any) any {
	m := statement.FindStringSubmatch(text)
	require.NotNil(t, m, text)
	require.Equal(t, p.path, m[2])
	argument := unquote(t, m[4])
	replace := func(s string) string {
		if patterns[argument] == nil {
			patterns[argument] = regexp.MustCompile(argument)
		}
		return patterns[argument].ReplaceAllString(s, unquote(t, m[5]))
	}
	attributes, isMap := value.(map[string]any)
	s, isString := value.(string)
	switch {
	case m[1] == "replace_pattern" && isString:
		return replace(s)
	case m[1] == "set" && !isString && !isMap:
		return argument
	case m[1] == "delete_key" && isMap:
		if _, isString := attributes[argument].(string); !isString || m[6] == "" {
			delete(attributes, argument)
		}
	case m[1] == "replace_all_patterns" && isMap:
		for k, v := range maps.Clone(attributes) {
			if s, isString := v.(string); isString && m[3] == "value" {
				attributes[k] = replace(s)
			} else if m[3] == "key" {
				delete(attributes, k)
				attributes[replace(k)] = v
			}
		}
	}
	return value
}

// redact masks the values under a key at any level, as the redaction processor does.
func redact(value any, key *regexp.Regexp) {
	switch v := value.(type) {
	case []any:
		for _, item := range v {
			redact(item, key)
		}
	case map[string]any:
		for k, item := range v {
			if key.MatchString(k) {
				v[k] = "****"
			} else {
				redact(item, key)
			}
		}
	}
}

// config is the configuration in a section on masking.
type config struct {
	Processors map[string]map[string]any
}

func parse(t *testing.T, text string) (c config) {
	t.Helper()
	code := block.FindStringSubmatch(text)
	require.NotNil(t, code, text)
	require.NoError(t, yaml.Unmarshal([]byte(strings.ReplaceAll(code[2], "$$", "$")), &c))
	return c
}

// applyMasks follows the remedies until nothing is found in a place.
func applyMasks(t *testing.T, signal assay.Signal, where string, p place, value any) any {
	const kinds = 8 // more than one value has
	for range kinds {
		findings := finding(where, p, value)
		if findings == "" {
			return value
		}
		text := masking(signal, findings)
		if strings.Contains(text, nestedKey) {
			return value
		}
		c := parse(t, text)
		list, _ := c.Processors["transform/mask"][statementLists[signal]].([]any)
		for _, s := range list {
			value = execute(t, s.(string), p, value)
		}
		keys, _ := c.Processors["redaction/mask"]["blocked_key_patterns"].([]any)
		for _, k := range keys {
			redact(value, regexp.MustCompile(k.(string)))
		}
	}
	t.Errorf("%s in %s", finding(where, p, value), value)
	return value
}

// TestMasksRemoveFindings follows the remedies for every kind in every place. Nothing is found afterwards, and JSON stays
// JSON.
func TestMasksRemoveFindings(t *testing.T) {
	type sample struct {
		Key, Kind string
		Value     any
	}
	var samples []sample
	for _, m := range masks {
		samples = append(samples, sample{"", m.kind, m.example})
	}
	examples := len(samples)
	for _, name := range []string{"corpus.jsonl", "holdout.jsonl"} {
		data, err := os.ReadFile(filepath.Join("..", "sensitive", "testdata", name))
		require.NoError(t, err)
		for line := range bytes.Lines(data) {
			var s sample
			require.NoError(t, json.Unmarshal(line, &s))
			if s.Kind != "none" {
				samples = append(samples, s)
			}
		}
	}
	for signal, own := range placesOf {
		all := maps.Clone(own)
		maps.Copy(all, scopePlaces)
		for where, p := range all {
			for i, s := range samples {
				if i >= examples && (signal != assay.SignalLog || where != "attribute" && where != "body") {
					break
				}
				text, _ := s.Value.(string)
				values := []any{s.Value}
				switch {
				case p.isMap:
					values = []any{map[string]any{s.Key: s.Value}, map[string]any{"a": []any{map[string]any{s.Key: s.Value}}}}
					if s.Key == "" {
						values = []any{map[string]any{"note": s.Value}, map[string]any{"a": []any{s.Value}}, map[string]any{text: ""}}
					}
				case s.Key != "" && where == "body":
					values = []any{map[string]any{s.Key: s.Value}, []any{map[string]any{"a": map[string]any{s.Key: s.Value}}}}
				case s.Key != "":
					continue
				case where == "body":
					values = append(values, []any{s.Value})
				}
				for _, v := range values {
					masked := applyMasks(t, signal, where, p, v)
					if _, isText := v.(string); isText && strings.ContainsAny(text[:1], "{[") && json.Valid([]byte(text)) {
						require.True(t, json.Valid([]byte(masked.(string))), "%s\n%s", text, masked)
					}
				}
			}
		}
	}
}

// TestMasksKeepTheRest: the whole secret goes, and the name and the form of the text stay.
func TestMasksKeepTheRest(t *testing.T) {
	p := placesOf[assay.SignalLog]["body"]
	for text, want := range map[string]string{
		`Cookie: theme=dark; id=a3f4Wa`:                           `Cookie: [redacted]`,
		`Set-Cookie: lang=en; sid=S3cr3tSid; Path=/`:              `Set-Cookie: [redacted]`,
		`Authorization: Digest username="u1", response="6629fa"`:  `Authorization: [redacted]`,
		`{"h":"Authorization: abc123==","b":"c"}`:                 `{"h":"Authorization: [redacted]","b":"c"}`,
		`{"user":"u","password":"correct horse battery"}`:         `{"user":"u","password":"[redacted]"}`,
		`{"password":"ab,c&d}e;f\"gh","b":1}`:                     `{"password":"[redacted]","b":1}`,
		`{"body":"{\"password\":\"hunt\\\"er2x\",\"b\":1}"}`:      `{"body":"{\"password\":\"[redacted]\",\"b\":1}"}`,
		`{"l":"{\"m\":\"{\\\"token\\\":\\\"a\\\\\\\"b\\\"}\"}"}`:  `{"l":"{\"m\":\"{\\\"token\\\":\\\"[redacted]\\\"}\"}"}`,
		`{"msg":"token='abc","z":"it's"}`:                         `{"msg":"token='[redacted]","z":"it's"}`,
		`{"args":["--password","abc"],"cvv":123}`:                 `{"args":["--password","[redacted]"],"cvv":0}`,
		`{"a":true,"token":true,"secret":"x1"}`:                   `{"a":true,"token":true,"secret":"[redacted]"}`,
		`{'password': 'hunter2x'}`:                                `{'password': '[redacted]'}`,
		`secret='Multi Word Phrase' at 5`:                         `secret='[redacted]' at 5`,
		`password=ab;cd9Ef&user=1`:                                `password=[redacted]&user=1`,
		`password%3Dhunter2`:                                      `password%3D[redacted]`,
		`user[password]=abc x`:                                    `user[password]=[redacted] x`,
		`aws.secret.access.key=abc`:                               `aws.secret.access.key=[redacted]`,
		`https://bob:hun@ter2@example.com/`:                       `https://bob:***@example.com/`,
		`{"headers":{"Authorization":"Bearer abcdef1234567890"}}`: `{"headers":{"Authorization":"Bearer [redacted]"}}`,
		`{"pan":4242424242424242,"m":"to\nada@example.org"}`:      `{"pan":0,"m":"to\n[redacted]"}`,
		`to DE89%203704%200044%200532%200130%2000`:                `to [redacted]`,
		`xapp-1-A02-q7Zx2Lm9Vb4Nc8Rt`:                             `[redacted]`,
	} {
		require.Equal(t, want, applyMasks(t, assay.SignalLog, "body", p, text))
	}
}

// TestCatalogSnippetsMask runs the statements for log bodies that a text of the catalog has for all services.
func TestCatalogSnippetsMask(t *testing.T) {
	_, collector, _ := strings.Cut(catalog.LOG003.Info().Remediation, "### Collector")
	c := parse(t, collector)
	for text, want := range map[string]string{
		`{"password":"a \"b\" c","x":"token=ab;c","pan":4242424242424242}`: `{"password":"[redacted]","x":"token=[redacted]","pan":0}`,
		`Cookie: theme=dark; id=a3f4Wa`:                                    `Cookie: [redacted]`,
		`Authorization: Digest username="u1", response="6629fa"`:           `Authorization: [redacted]`,
		`login password='a b' ok`:                                          `login password=[redacted] ok`,
	} {
		var value any = text
		for _, s := range c.Processors["transform/named_secrets"]["log_statements"].([]any) {
			value = execute(t, s.(string), place{"log.body", false}, value)
		}
		require.Equal(t, want, value)
	}
}

func TestMaskingIsForThePlace(t *testing.T) {
	for _, c := range []struct {
		signal          assay.Signal
		where, kind     string
		want, wantNever string
	}{
		{assay.SignalTrace, "event attribute: exception.message", "email", "replace_all_patterns(spanevent.attributes, ", "span.attributes"},
		{assay.SignalTrace, "event attribute: x.token", "named_secret", `delete_key(spanevent.attributes, "x.token")`, "replace"},
		{assay.SignalTrace, "scope attribute: owner", "email", "replace_all_patterns(scope.attributes, ", "span.attributes"},
		{assay.SignalTrace, "resource attribute: owner", "email", "metric_statements: *mask\n    log_statements: *mask\n", "span.attributes"},
		{assay.SignalTrace, "link attribute: x", "email", "cannot change attributes of links", "```"},
		{assay.SignalMetric, "exemplar attribute: x", "email", "OTEL_METRICS_EXEMPLAR_FILTER=always_off", "```"},
		{assay.SignalMetric, "metric description", "email", "replace_pattern(metric.description, ", "datapoint"},
		{assay.SignalLog, "attribute: acme.pan", "payment_card", `delete_key(log.attributes, "acme.pan") where not IsString(log.attributes["acme.pan"])`, "resource"},
		{assay.SignalLog, "attribute: db.statement", "named_secret", `replace_all_patterns(log.attributes, `, `delete_key(log.attributes, "db.statement")'`},
		{assay.SignalLog, "body: email", "email", `'^email\z'`, "transform"},
		{assay.SignalLog, "body", "email", "replace_pattern(log.body, ", "redaction"},
		{assay.SignalLog, `attribute: x") or true #`, "named_secret", "replace_all_patterns(log.attributes, ", "or true"},
	} {
		text := masking(c.signal, `[{"where":`+strconv.Quote(c.where)+`,"kind":"`+c.kind+`"}]`)
		require.Contains(t, text, c.want, c.where)
		require.NotContains(t, text, c.wantNever, c.where)
	}
	text := masking(assay.SignalTrace, `[{"where":"span name","kind":"email"},{"where":"event name","kind":"email"}]`)
	require.Equal(t, 2, strings.Count(text, "      - statements:\n          - "), text)
	for _, none := range []string{`[]`, `{`, `[{"where":"body","kind":"new_kind"}]`, `[{"where":"y","kind":"email"}]`} {
		require.Empty(t, masking(assay.SignalLog, none))
	}
}
