// SPDX-License-Identifier: Apache-2.0

package remedy

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/internal/rules/catalog"
)

func TestKeysOfTheEvidence(t *testing.T) {
	for _, c := range []struct {
		rule             catalog.Rule
		signal, keys     string
		resource         map[string]any
		want, statements []string
	}{
		{
			catalog.DeprecatedAttributes, "TRACES", `["deployment.environment","http.method"]`,
			map[string]any{"deployment.environment": "staging"},
			[]string{
				"- `deployment.environment` on the resource: rename it to `deployment.environment.name`\n- `http.method` on spans: rename it to `http.request.method`\n",
				"    metric_statements: *keys\n",
			},
			[]string{
				`set(span.attributes["http.request.method"], span.attributes["http.method"]) where span.attributes["http.request.method"] == nil and span.attributes["http.method"] != nil`,
				`delete_key(span.attributes, "http.method")`,
				`set(resource.attributes["deployment.environment.name"], resource.attributes["deployment.environment"]) where resource.attributes["deployment.environment.name"] == nil and resource.attributes["deployment.environment"] != nil`,
				`delete_key(resource.attributes, "deployment.environment")`,
			},
		},
		{
			catalog.RES004, "LOGS", `["os.type","url.path"]`,
			map[string]any{"url.path": "/"},
			[]string{"- `os.type` on log records: set it on the resource\n- `url.path` on the resource: set it for each operation, or remove it\n"},
			[]string{
				`set(resource.attributes["os.type"], log.attributes["os.type"]) where resource.attributes["os.type"] == nil and log.attributes["os.type"] != nil`,
				`delete_key(log.attributes, "os.type")`, `delete_key(resource.attributes, "url.path")`,
			},
		},
		{catalog.RES004, "LOGS", `["[redacted]","x\"y"]`, nil, []string{`log.attributes["host.name"]`}, nil},
		{catalog.RES004, "", `["os.type"]`, nil, []string{`log.attributes["host.name"]`}, nil},
	} {
		a := attributes(c.resource)
		a["attribute_keys"], a["signal_type"] = c.keys, c.signal
		require.False(t, Fixed(c.rule.Info(), a))
		text := For(c.rule.Info(), a)
		for _, want := range c.want {
			require.Contains(t, text, want)
		}
		if c.statements == nil {
			continue
		}
		var statements []string
		for line := range strings.Lines(text) {
			if s, ok := strings.CutPrefix(strings.TrimSpace(line), "- '"); ok {
				statements = append(statements, strings.TrimSuffix(s, "'"))
			}
		}
		require.Equal(t, c.statements, statements)
		_, collector, _ := strings.Cut(text, "### Collector")
		parse(t, collector)
		require.NotContains(t, collector, "http.status_code")
		require.NotContains(t, collector, "host.name")
	}
}

// TestEnvironmentUnderItsFormerKey: a service that copies the line stays in its environment.
func TestEnvironmentUnderItsFormerKey(t *testing.T) {
	text := For(catalog.RES007.Info(), attributes(map[string]any{"deployment.environment": "staging $x"}))
	require.Contains(t, text, "deployment.environment.name=staging%20%24x\"\n")
	require.NotContains(t, text, "=production")
}
