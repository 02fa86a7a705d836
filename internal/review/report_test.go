// SPDX-License-Identifier: Apache-2.0

package review

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCovers(t *testing.T) {
	for name, tt := range map[string]struct {
		failed Error
		want   bool
	}{
		"the file":          {Error{File: "dir/a.go"}, false},
		"its directory":     {Error{File: "dir"}, false},
		"the root":          {Error{File: "."}, false},
		"the whole review":  {Error{}, false},
		"the check":         {Error{Check: "metric-unit"}, false},
		"another file":      {Error{File: "dir/b.go"}, true},
		"another directory": {Error{File: "di"}, true},
		"another check":     {Error{Check: "metric-unit-conflict"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := Report{Errors: []Error{tt.failed}}
			require.Equal(t, tt.want, r.Covers("dir/a.go", "metric-unit"))
		})
	}
	require.True(t, new(Report).Covers("a.go", "metric-unit"))
}

func TestSDKConfigurationIsOpenTelemetry(t *testing.T) {
	r := review(t, Options{Root: tree(t, map[string]string{"otel.yaml": "file_format: \"1.0\"\ntracer_provider: {processors: []}\n"})})
	require.True(t, r.Instrumentation.OTelPresent)
}

// TestManifestsAreOpenTelemetry checks that the manifests of all ecosystems show the SDKs.
func TestManifestsAreOpenTelemetry(t *testing.T) {
	for _, c := range []struct {
		file, text  string
		sdks, types []string
		present     bool
	}{
		{"a.csproj", `<Project><ItemGroup><PackageReference Include="OpenTelemetry" Version="1.9.0"/></ItemGroup></Project>`, []string{"OpenTelemetry 1.9.0"}, nil, true},
		{"a.csproj", `<Project><ItemGroup><PackageReference Include="OpenTelemetry.Api" Version="1.9.0"/></ItemGroup></Project>`, []string{"OpenTelemetry.Api 1.9.0"}, nil, true},
		{"a.csproj", `<Project><ItemGroup><PackageReference Include="OpenTelemetry.AutoInstrumentation" Version="1.9.0"/></ItemGroup></Project>`, []string{"OpenTelemetry.AutoInstrumentation 1.9.0"}, []string{"automatic"}, true},
		{"composer.json", `{"require": {"open-telemetry/sdk": "^1.2"}}`, []string{"open-telemetry/sdk ^1.2"}, nil, true},
		{"composer.json", `{"require": {"open-telemetry/opentelemetry-auto-slim": "^1.2"}}`, nil, []string{"automatic"}, true},
		{"Gemfile", "gem 'opentelemetry-sdk', '1.0'\n", []string{"opentelemetry-sdk 1.0"}, nil, true},
		{"package.json", `{"dependencies": {"@opentelemetry/instrumentation-http": "1.0.0"}}`, nil, []string{"library"}, true},
		{"package.json", `{"devDependencies": {"@opentelemetry/instrumentation-http": "1.0.0"}}`, nil, nil, false},
		{"requirements/base.txt", "opentelemetry-sdk==1.38.0\n", []string{"opentelemetry-sdk ==1.38.0"}, nil, true},
		{"setup.py", "setup(install_requires=['opentelemetry-sdk==1.38.0'])\n", []string{"opentelemetry-sdk ==1.38.0"}, nil, true},
		{"go.mod", "module a\n\nrequire go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp v0.60.0 // indirect\n", nil, nil, false},
		{"composer.json", `{"require": {"opencart/sdk": "1"}}`, nil, nil, false},
	} {
		i := review(t, Options{Root: tree(t, map[string]string{c.file: c.text})}).Instrumentation
		require.Equal(t, append([]string{}, c.sdks...), i.DetectedSDKs, c.text)
		require.Equal(t, append([]string{}, c.types...), i.Types, c.text)
		require.Equal(t, c.present, i.OTelPresent, c.text)
	}
}

// TestConfiguredServices checks that the configuration of an SDK shows its service.
func TestConfiguredServices(t *testing.T) {
	for text, want := range map[string][]string{
		"attributes:\n  - {name: service.name, value: shop}":                     {"shop"},
		"attributes:\n    service.name: shop":                                    {"shop"},
		"attributes_list: team=a,service.name=shop":                              {"shop"},
		"attributes:\n  - {name: service.name, value: \"${OTEL_SERVICE_NAME}\"}": {},
		"attributes: []": {},
	} {
		r := review(t, Options{Root: tree(t, map[string]string{"otel.yaml": "file_format: \"0.4\"\nresource:\n  " + text + "\n"})})
		require.Equal(t, want, r.Instrumentation.Services, text)
	}
}
