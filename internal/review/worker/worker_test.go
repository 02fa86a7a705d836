// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/internal/review"
)

// TestList checks that the response has the files that a review reads, and the configurations with findings.
func TestList(t *testing.T) {
	const kubernetes, other = "apiVersion: v1\nkind: ConfigMap\n", "steps:\n- run: x\n"
	configurations := map[string]string{
		"k8s/deploy.yaml": kubernetes, "compose.yaml": "services:\n  shop:\n    image: x\n", "chart/values.yaml": "image: x\n", "src/main/resources/application.yaml": "a: b\n",
		"collector.yaml": "receivers:\n  otlp:\nexporters:\n  otlp:\nservice:\n  pipelines:\n    traces:\n      receivers: [otlp]\n      exporters: [otlp]\n",
	}
	others := map[string]string{
		"drone.yml": other, "codemagic.yaml": other, "wercker.yml": other, "buildkite.yml": other, "codefresh.yml": other, "semaphore.yml": other, "action.yml": other, "Taskfile.yml": other,
		"skaffold.yaml": "apiVersion: skaffold/v4\n", "gitlab-ci.yml": other, "Dockerfile": "FROM x\n", "app.Dockerfile": "FROM x\n", "Pipfile": "", "Gemfile": "", "app.csproj": "<Project/>",
		"gradle/libs.versions.toml": "", "requirements-otel.txt": "a==1\n", "pom.xml": "<project/>", "go.mod": "module m\n", "package.json": "{}", "build.gradle": "", "main.go": "package main\n",
	}
	dir := t.TempDir()
	r := &Response{Report: &review.Report{}}
	req := &Request{Options: review.Options{Root: dir}}
	var want []string
	for _, files := range []map[string]string{configurations, others} {
		for name, text := range files {
			path := filepath.Join(dir, name)
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o750))
			require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
			for _, id := range []string{name, name + " again"} {
				r.Findings = append(r.Findings, review.Finding{ID: id, Locations: []review.Location{{File: name}}})
				req.Fix = append(req.Fix, id)
			}
			if configurations[name] != "" {
				want = append(want, name)
			}
		}
	}
	r.Findings = append(r.Findings, review.Finding{ID: "of a file that is gone", Locations: []review.Location{{File: "gone.yaml"}}})
	require.NoError(t, r.list(t.Context(), req))
	require.ElementsMatch(t, want, r.Configurations)
	require.IsIncreasing(t, r.Configurations)
	require.Subset(t, r.Paths, r.Configurations)
	require.Contains(t, r.Paths, "main.go")
	req.Fix, r.Configurations = nil, nil
	require.NoError(t, r.list(t.Context(), req))
	require.Empty(t, r.Configurations)
}
