// SPDX-License-Identifier: Apache-2.0

package check

import (
	"testing"

	"github.com/stretchr/testify/require"

	"assay/internal/review/configfile"
)

func TestCollectorReleases(t *testing.T) {
	const (
		config  = "receivers:\n  otlp:\nexporters:\n  logging:\nservice:\n  pipelines:\n    traces:\n      receivers: [otlp]\n      exporters: [logging]\n"
		contrib = "otel/opentelemetry-collector-contrib:"
	)
	compose := func(images ...string) string {
		text := "services:\n"
		for i, image := range images {
			text += "  s" + string(rune('a'+i)) + ":\n    image: " + image + "\n"
		}
		return text
	}
	for name, tt := range map[string]struct {
		files    map[string]string // beside otel/config.yaml
		want     string
		severity Severity
		fixed    bool
	}{
		"none":                    {nil, "", High, true},
		"same directory":          {map[string]string{"otel/compose.yaml": compose(contrib + "0.64.0")}, "v0.64.0", Low, false},
		"directory above":         {map[string]string{"compose.yaml": compose(contrib + "v0.98.0")}, "v0.98.0", Low, true},
		"nearest directory":       {map[string]string{"compose.yaml": compose(contrib + "0.64.0"), "otel/compose.yaml": compose(contrib + "0.120.0")}, "v0.120.0", High, true},
		"another directory":       {map[string]string{"other/compose.yaml": compose(contrib + "0.64.0")}, "", High, true},
		"the newest of several":   {map[string]string{"compose.yaml": compose(contrib+"0.64.0", "otel/opentelemetry-collector:0.100.0")}, "v0.100.0", Low, true},
		"a digest":                {map[string]string{"compose.yaml": compose(contrib + "0.64.0@sha256:1f2c")}, "v0.64.0", Low, false},
		"latest":                  {map[string]string{"compose.yaml": compose(contrib+"latest", contrib+"0.64.0")}, "", High, true},
		"no tag":                  {map[string]string{"compose.yaml": compose(contrib+"0.64.0", "otel/opentelemetry-collector")}, "", High, true},
		"a variable":              {map[string]string{"compose.yaml": compose(contrib + "${VERSION:-0.64.0}")}, "", High, true},
		"an image of others":      {map[string]string{"compose.yaml": compose("example/aws-otel-collector:v0.43.0", "otel/demo:1.10.0")}, "", High, true},
		"the image in Kubernetes": {map[string]string{"otel/d.yaml": "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: c\nspec:\n  template:\n    spec:\n      containers:\n        - name: c\n          image: " + contrib + "0.64.0\n"}, "v0.64.0", Low, false},
		"Helm values":             {map[string]string{"otel/values.yaml": "image:\n  repository: otel/opentelemetry-collector-k8s\n  tag: 0.64.0\n"}, "v0.64.0", Low, false},
	} {
		t.Run(name, func(t *testing.T) {
			var configs []*configfile.File
			parse := func(path, text string) []*configfile.File {
				files, err := configfile.Parse(path, []byte(text))
				require.NoError(t, err)
				configs = append(configs, files...)
				return files
			}
			collector := parse("otel/config.yaml", config)[0]
			releases := collectorReleases{}
			for path, text := range tt.files {
				for _, f := range parse(path, text) {
					releases.add(f)
				}
			}
			require.Equal(t, tt.want, releases.of(collector))
			var found []Finding
			pass := NewPass(collectorConfig, func(f Finding) { found = append(found, f) }, nil)
			collectorConfig.Repository(&RepositoryPass{Pass: *pass, Configs: configs})
			for _, f := range found {
				if f.Subject == "removed exporters/logging" {
					require.Equal(t, tt.severity, f.Severity)
					require.Equal(t, tt.fixed, f.Fix != nil)
					return
				}
			}
			require.Fail(t, "no finding")
		})
	}
}
