// SPDX-License-Identifier: Apache-2.0

package migrate

// The versions for manifests. The tests run the versions of Go modules and npm packages. The Go modules were current in
// November 2026; the npm packages were the newest for Node.js 20.

// goVersions are the versions of Go modules.
var goVersions = map[string]string{
	"go.opentelemetry.io/otel":       "v1.47.0",
	"go.opentelemetry.io/otel/sdk":   "v1.47.0",
	"go.opentelemetry.io/otel/trace": "v1.47.0",

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp": "v1.47.0",
}

// npmVersions are the versions of npm packages.
var npmVersions = map[string]string{
	"@opentelemetry/api":                      "^1.9.1",
	"@opentelemetry/exporter-trace-otlp-http": "^0.223.1",
	"@opentelemetry/resources":                "^2.12.0",
	"@opentelemetry/sdk-trace-node":           "^2.12.0",
}

// pypiVersions are the versions of Python packages: the oldest versions with the functions that the migrated code
// calls.
var pypiVersions = map[string]string{
	"opentelemetry-api":                      ">=1.23",
	"opentelemetry-distro":                   ">=0.44b0",
	"opentelemetry-exporter-otlp":            ">=1.23",
	"opentelemetry-exporter-otlp-proto-http": ">=1.23",
	"opentelemetry-sdk":                      ">=1.23",
}

// mavenVersions are the versions of Maven artifacts, as contained in the Java agent of an instrumentation run.
var mavenVersions = map[string]string{
	"io.opentelemetry:opentelemetry-api":                         "1.62.0",
	"io.opentelemetry:opentelemetry-exporter-otlp":               "1.62.0",
	"io.opentelemetry:opentelemetry-sdk-extension-autoconfigure": "1.62.0",

	"io.opentelemetry.instrumentation:opentelemetry-instrumentation-annotations": "2.28.1",
}
