// SPDX-License-Identifier: Apache-2.0

package remedy

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"sync"

	"assay/internal/rules/catalog"
)

// Languages are the languages of the code in remediation texts, as in the info strings of
// their fenced blocks, in their order.
var Languages = []string{"go", "java", "js", "python", "csharp"}

// languageOf maps telemetry.sdk.language to the info string of a fenced block.
//
// Source: https://opentelemetry.io/docs/specs/semconv/registry/attributes/telemetry/
var languageOf = map[string]string{
	"go": "go", "java": "java", "nodejs": "js", "webjs": "js", "python": "python", "dotnet": "csharp",
}

// For returns the remediation of an insight type for an insight, in Markdown, from the
// attributes of the insight. Missing and malformed attributes are ignored. What comes from
// telemetry is encoded so that it has no meaning to a shell, to YAML or to Markdown.
func For(info *catalog.Info, attributes map[string]any) string {
	resource := resourceOf(attributes)
	text := templates()[templateKey{info.Name, languageName(resource)}].complete(resource)
	switch info {
	case catalog.DeprecatedAttributes.Info(), catalog.RES004.Info():
		text = forKeys(text, attributes, resource, info != catalog.RES004.Info())
	case catalog.RES007.Info():
		if value, ok := known(resource, "deployment.environment"); ok { // the former key
			text = strings.ReplaceAll(text, "deployment.environment.name=production", "deployment.environment.name="+encode(value))
		}
	}
	if found, ok := attributes["findings"].(string); ok {
		text += masking(info.Signal, found)
	}
	return text
}

// template is the remediation of an insight type with the code in a language first.
type template struct {
	text   string
	places [][]int // submatches of assigned
}

type templateKey struct{ insightType, language string }

// templates returns the templates of all insight types and languages. They are made once: a page has a text for each
// of its insights.
var templates = sync.OnceValue(func() map[templateKey]template {
	all := make(map[templateKey]template)
	for _, r := range catalog.All() {
		for _, language := range append([]string{""}, Languages...) {
			text := In(r.Info(), language)
			all[templateKey{r.Info().Name, language}] = template{text, assigned.FindAllStringSubmatchIndex(text, -1)}
		}
	}
	return all
})

// In returns the remediation of an insight type with the code in a language first. The
// language is one of Languages, or "" for the general order.
func In(info *catalog.Info, language string) string {
	if language == "" {
		return info.Remediation
	}
	return promote(info.Remediation, language)
}

// Fixed reports whether For returns the text of In for an insight.
func Fixed(info *catalog.Info, attributes map[string]any) bool {
	return attributes["findings"] == nil && attributes["attribute_keys"] == nil && !strings.Contains(info.Remediation, variable)
}

// LanguageOf returns which of Languages an insight's telemetry comes from, or "".
func LanguageOf(attributes map[string]any) string { return languageName(resourceOf(attributes)) }

func languageName(resource map[string]any) string {
	name, _ := resource["telemetry.sdk.language"].(string)
	return languageOf[name]
}

// resourceOf returns the resource attributes of an insight's evidence, nil if it has none.
func resourceOf(attributes map[string]any) (resource map[string]any) {
	text, _ := attributes["resource_attributes"].(string)
	if json.Unmarshal([]byte(text), &resource) != nil {
		return nil
	}
	return resource
}

// fenced matches a fenced block and its info string.
var fenced = regexp.MustCompile("(?ms)^```([a-z]+)\n.*?^```\n")

// promote moves the code in a language before the code in other languages, within each
// sequence of blocks without text between them.
func promote(text, language string) string {
	blocks := fenced.FindAllStringSubmatchIndex(text, -1)
	name := func(i int) string { return text[blocks[i][2]:blocks[i][3]] }
	for first := 0; first < len(blocks); {
		end := first + 1
		for end < len(blocks) && slices.Contains(Languages, name(first)) && slices.Contains(Languages, name(end)) &&
			strings.TrimSpace(text[blocks[end-1][1]:blocks[end][0]]) == "" {
			end++
		}
		for i := first + 1; i < end; i++ {
			if name(i) != language {
				continue
			}
			from, at, to := blocks[first][0], blocks[i][0], blocks[i][1]
			return text[:from] + text[at:to] + "\n" + strings.TrimRight(text[from:at], "\n") + "\n" + text[to:]
		}
		first = end
	}
	return text
}
