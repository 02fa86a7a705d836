// SPDX-License-Identifier: Apache-2.0

package remedy

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"assay/internal/rules/semconv"
)

// records are the records with attributes, by signal_type.
var records = map[string]struct{ list, path, name string }{
	"TRACES":  {"trace_statements", "span.attributes", "spans"},
	"METRICS": {"metric_statements", "datapoint.attributes", "data points"},
	"LOGS":    {"log_statements", "log.attributes", "log records"},
}

// collectorSnippet matches the first configuration of the Collector in a text.
var collectorSnippet = regexp.MustCompile("(?s)(\n### Collector\n).*?\n```yaml\n.*?```\n")

// forKeys adapts a text to the keys in the evidence: the advice for each, and the statements for the Collector.
// Deprecated keys are renamed; misplaced ones are moved to their level.
func forKeys(text string, attributes, resource map[string]any, deprecated bool) string {
	list, _ := attributes["attribute_keys"].(string)
	signal, _ := attributes["signal_type"].(string)
	var keys []string
	record, known := records[signal]
	if json.Unmarshal([]byte(list), &keys) != nil || !known {
		return text
	}
	var steps, ofRecords, ofResource strings.Builder
	for _, key := range keys {
		if !plainKey.MatchString(key) || strings.Contains(key, redacted) {
			continue
		}
		a, successor := semconv.Find([]byte(key)), semconv.Successor(key)
		path, name, statements := record.path, record.name, &ofRecords
		if resource[key] != nil && (deprecated || a.MisplacedOnResource()) {
			path, name, statements = "resource.attributes", "the resource", &ofResource
		}
		var step, to string
		switch {
		case deprecated && successor != "":
			step, to = "rename it to `"+successor+"`", path+"["+quoteOTTL(successor)+"]"
		case deprecated:
			step = "remove it"
		case a.MisplacedOnRecord():
			step, to = "set it on the resource", "resource.attributes["+quoteOTTL(key)+"]"
		case statements == &ofResource:
			step = "set it for each operation, or remove it"
		default:
			continue
		}
		fmt.Fprintf(&steps, "- `%s` on %s: %s\n", key, name, step)
		if to != "" {
			from := path + "[" + quoteOTTL(key) + "]"
			fmt.Fprintf(statements, "      - %s\n", quoteYAML(fmt.Sprintf("set(%s, %s) where %[1]s == nil and %[2]s != nil", to, from)))
		}
		fmt.Fprintf(statements, "      - %s\n", quoteYAML("delete_key("+path+", "+quoteOTTL(key)+")"))
	}
	if steps.Len() == 0 {
		return text
	}
	snippet := "${1}\nFor the keys that were found:\n\n```yaml\nprocessors:\n"
	if ofRecords.Len() > 0 {
		snippet += "  transform/keys:\n    error_mode: ignore\n    " + record.list + ":\n" + ofRecords.String()
	}
	if ofResource.Len() > 0 {
		snippet += "  transform/resource_keys:\n    error_mode: ignore\n    trace_statements: &keys\n" + ofResource.String() +
			"    metric_statements: *keys\n    log_statements: *keys\n"
	}
	text = collectorSnippet.ReplaceAllString(text, snippet+"```\n")
	return strings.Replace(text, "### SDK\n", "### SDK\n\nThe keys that were found:\n\n"+steps.String(), 1)
}
