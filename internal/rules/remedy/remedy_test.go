// SPDX-License-Identifier: Apache-2.0

package remedy

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/rules/catalog"
	"assay/internal/rules/sensitive"
)

func attributes(resource map[string]any, more ...string) map[string]any {
	text, _ := json.Marshal(resource)
	a := map[string]any{"resource_attributes": string(text)}
	if len(more) > 0 {
		a["findings"] = more[0]
	}
	return a
}

var block = regexp.MustCompile("(?ms)^```([a-z]+)\n(.*?)^```$")

// noCode lists the types whose remedy is no code.
var noCode = []catalog.Rule{catalog.RES003, catalog.QuotaExceeded, catalog.SDK001}

func TestLanguageFirst(t *testing.T) {
	for _, r := range catalog.All() {
		info := r.Info()
		t.Run(info.Name, func(t *testing.T) {
			for sdk, language := range languageOf {
				text := For(info, attributes(map[string]any{"telemetry.sdk.language": sdk}))
				first := block.FindStringSubmatch(text)
				if !slices.Contains(noCode, r) {
					require.Equal(t, language, first[1], sdk)
				}
				require.ElementsMatch(t, block.FindAllString(strings.ReplaceAll(info.Remediation, "service.namespace", ""), -1),
					block.FindAllString(strings.ReplaceAll(text, "service.namespace", ""), -1))
				require.NotContains(t, text, "\n\n\n")
			}
			for _, unknown := range []any{"", "rust", "go`", 7, nil} {
				require.Equal(t, info.Remediation, For(info, attributes(map[string]any{"telemetry.sdk.language": unknown})))
			}
			for _, malformed := range []map[string]any{nil, {"resource_attributes": 7}, {"resource_attributes": "{"}, {"findings": "{"}, {"findings": 1}} {
				require.Equal(t, info.Remediation, For(info, malformed))
			}
		})
	}
}

func TestVariableIsComplete(t *testing.T) {
	resource := map[string]any{
		"service.namespace": "shop, 'new'", "service.version": "1.4.2+b$(id)`x`", "deployment.environment.name": "prod",
		"service.criticality": "[redacted]", "service.instance.id": "constant", "host.name": "a",
	}
	const known = `service.namespace=shop%2C%20%27new%27,service.version=1.4.2+b%24%28id%29%60x%60`
	for r, want := range map[catalog.Rule]string{
		catalog.RES001: `export OTEL_RESOURCE_ATTRIBUTES="${OTEL_RESOURCE_ATTRIBUTES:+$OTEL_RESOURCE_ATTRIBUTES,}` + known + `,deployment.environment.name=prod,service.instance.id=$(cat /proc/sys/kernel/random/uuid)"`,
		catalog.RES003: `    value: ` + known + `,deployment.environment.name=prod,k8s.pod.uid=$(POD_UID)`,
		catalog.RES002: `    value: ` + known + `,deployment.environment.name=prod,service.instance.id=$(POD_NAME)`,
		catalog.RES006: `export OTEL_RESOURCE_ATTRIBUTES="${OTEL_RESOURCE_ATTRIBUTES:+$OTEL_RESOURCE_ATTRIBUTES,}` + known + `,deployment.environment.name=prod,service.criticality=high"`,
		catalog.RES007: `export OTEL_RESOURCE_ATTRIBUTES="${OTEL_RESOURCE_ATTRIBUTES:+$OTEL_RESOURCE_ATTRIBUTES,}` + known + `,deployment.environment.name=production"`,
	} {
		info := r.Info()
		require.Contains(t, strings.Split(For(info, attributes(resource)), "\n"), want, info.ID)
	}
	long := map[string]any{"service.version": strings.Repeat("x", maxValueBytes+1), "service.namespace": 7}
	require.Equal(t, catalog.RES001.Info().Remediation, For(catalog.RES001.Info(), attributes(long)))
}

// Every assignment of the variable in a text extends what is there.
func TestEveryAssignmentIsCompleted(t *testing.T) {
	for _, r := range catalog.All() {
		text := r.Info().Remediation
		for _, line := range strings.Split(text, "\n") {
			if strings.Contains(line, "export "+variable) || strings.Contains(line, "name: "+variable) {
				require.Regexp(t, assigned, text, line)
			}
		}
		require.Len(t, assigned.FindAllString(text, -1), strings.Count(text, "export "+variable)+strings.Count(text, "name: "+variable), r.Info().Name)
	}
}

func TestMasks(t *testing.T) {
	var kinds []string
	for k := sensitive.Email; k.String() != "unknown"; k++ {
		kinds = append(kinds, k.String())
	}
	var have []string
	for _, m := range masks {
		have = append(have, m.kind)
		t.Run(m.kind, func(t *testing.T) {
			require.Equal(t, m.kind, sensitive.Text([]byte(m.example)).String())
			masked := m.apply(m.example)
			require.NotEqual(t, m.example, masked)
			shown := masking(assay.SignalLog, `[{"where":"body","kind":"`+m.kind+`"}]`)
			require.Contains(t, shown, oneLine(masked))
			prose, _, _ := strings.Cut(shown, "```")
			require.Equal(t, sensitive.None, sensitive.Text([]byte(prose)), "the remedy itself has sensitive data")
			require.Equal(t, sensitive.None, sensitive.Text([]byte(masked)), masked)
		})
	}
	require.Equal(t, kinds, have)
}

// TestMaskingIsMadeOnce: the masks of a kind are not made again for each insight. A page has many.
func TestMaskingIsMadeOnce(t *testing.T) {
	const findings = `[{"where":"body","kind":"email"},{"where":"attribute: user.password","kind":"named_secret"}]`
	require.NotEmpty(t, masking(assay.SignalLog, findings))
	require.Less(t, testing.AllocsPerRun(100, func() { masking(assay.SignalLog, findings) }), 100.0)
}
