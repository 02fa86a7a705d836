// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"path"

	"assay/internal/review/configfile"
	"assay/internal/rules/runtimes"
)

var sdkUnsupportedRuntime = &Check{
	ID:       "sdk-unsupported-runtime",
	Title:    "SDK does not support the language runtime",
	Category: Correctness,
	Severity: High,
	Rules:    []string{"SDK-001"},
	Why: "A release of an SDK is tested with the language runtimes that it names. On an older runtime, it may fail to install or to start, or it may lose telemetry, " +
		"and its maintainers do not fix such failures.",
	Fix: "Raise the runtime to a version that the SDK supports, in the manifest and in the image. If that is not possible, take the last release of the SDK that supports the runtime.",
	Repository: func(p *RepositoryPass) {
		ps := projectsOf(p.Configs)
		images := map[*project][]*configfile.File{}
		for _, f := range p.Configs {
			if f.Kind == configfile.Dockerfile && f.Runtime != "" {
				at := ps.of(f.Path)
				images[at] = append(images[at], f)
			}
		}
		for _, f := range p.Configs {
			if f.Kind != configfile.Manifest {
				continue
			}
			for _, d := range f.Dependencies {
				language, sdk := sdkOf(f, d)
				if language == "" || d.Development || d.Indirect {
					continue
				}
				at := unsupportedRuntime(language, sdk, append([]*configfile.File{f}, images[ps.of(f.Path)]...))
				if at == nil {
					continue
				}
				where := "this file"
				if at != f {
					where = "`" + at.Path + "`"
				}
				p.in(f, d.Start, d.End, Finding{
					Subject: d.Name,
					Message: fmt.Sprintf("Version %s of `%s` does not support %s %s, which %s asks for.", sdk, d.Name, runtimeNames[at.Runtime], at.RuntimeVersion, where),
				})
				break // the other packages of the SDK have the same cause
			}
		}
	},
}

var runtimeNames = map[string]string{"go": "Go", "nodejs": "Node.js", "cpython": "Python", "jvm": "Java", "dotnet": ".NET", "ruby": "Ruby", "php": "PHP"}

// sdkLanguages maps the runtimes of package configfile to values of telemetry.sdk.language.
var sdkLanguages = map[string]string{"go": "go", "nodejs": "nodejs", "cpython": "python", "jvm": "java", "dotnet": "dotnet", "ruby": "ruby", "php": "php"}

// sdkOf returns the language and the minimum version of the SDK that a dependency installs. It returns "" for other
// dependencies, and if the version does not determine the release.
func sdkOf(f *configfile.File, d configfile.Dependency) (language, sdk string) {
	v, ok := parseVersion(d.Version)
	if !ok || !v.compatible() {
		return "", ""
	}
	switch f.Ecosystem + " " + d.Name {
	case "go go.opentelemetry.io/otel/sdk":
		return "go", v.String()
	case "npm @opentelemetry/sdk-trace-node", "npm @opentelemetry/sdk-trace-base", "npm @opentelemetry/sdk-metrics", "npm @opentelemetry/resources":
		return "nodejs", v.String()
	case "npm @opentelemetry/sdk-node", "npm @opentelemetry/sdk-logs": // released with the SDK: 0.200.0 with 2.0.0, 0.27.0 with 1.0.0
		switch {
		case v.minor >= 200:
			return "nodejs", fmt.Sprintf("2.%d.0", v.minor-200)
		case v.minor >= 27:
			return "nodejs", fmt.Sprintf("1.%d.0", v.minor-27)
		}
	case "pypi opentelemetry-sdk":
		return "python", v.String()
	case "maven io.opentelemetry:opentelemetry-sdk", "maven io.opentelemetry:opentelemetry-bom":
		return "java", v.String()
	case "nuget OpenTelemetry":
		return "dotnet", v.String()
	case "rubygems opentelemetry-sdk", "composer open-telemetry/sdk":
		if v.pinned() { // otherwise the installer takes a release for the runtime
			return map[string]string{configfile.RubyGems: "ruby", configfile.Composer: "php"}[f.Ecosystem], v.String()
		}
	}
	return "", ""
}

// unsupportedRuntime returns the first file whose runtime the SDK does not support, nil if there is none.
func unsupportedRuntime(language, sdk string, files []*configfile.File) *configfile.File {
	for _, f := range files {
		if sdkLanguages[f.Runtime] != language || notProduction.MatchString(path.Base(f.Path)) {
			continue
		}
		v, ok := parseVersion(f.RuntimeVersion)
		if !ok {
			continue
		}
		if supported, known := runtimes.Supported([]byte(language), []byte(sdk), []byte(v.latest())); known && !supported {
			return f
		}
	}
	return nil
}
