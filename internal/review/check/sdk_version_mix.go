// SPDX-License-Identifier: Apache-2.0

package check

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"assay/internal/review/configfile"
)

var sdkVersionMix = &Check{
	ID:       "sdk-version-mix",
	Title:    "OpenTelemetry packages have versions that do not belong together",
	Category: Correctness,
	Severity: Medium,
	Why: "The API, the SDK and the exporters of a language are released together and tested only together. With versions of several releases, a package may be installed twice, " +
		"so that spans do not reach the exporter, or the program fails to start because one package calls a function that another lacks.",
	Fix: "Set the packages to the versions of one release. Where the language has a bill of materials (Java) or a package that brings the others (`@opentelemetry/sdk-node`), take the versions from it. " +
		"The mechanical fix raises versions in requirements files, Maven, Gradle and .NET projects. Elsewhere, the lock file must change as well: " +
		"use `go get`, `npm install` or similar.",
	Fixable: true,
	Config: func(p *Pass, f *configfile.File) {
		if f.Kind != configfile.Manifest {
			return
		}
		switch f.Ecosystem {
		case configfile.Go:
			p.sameMinor(f, isGoCore)
		case configfile.NPM:
			p.mixedNPM(f)
		case configfile.PyPI:
			p.mixedPython(f)
		case configfile.Maven:
			p.mixedJava(f)
		case configfile.NuGet:
			p.sameMinor(f, isDotnetCore)
		}
	},
}

// goCore are the stable modules of go.opentelemetry.io/otel, which are released together (versions.yaml of
// open-telemetry/opentelemetry-go, module set stable-v1).
var goCore = []string{
	"go.opentelemetry.io/otel", "go.opentelemetry.io/otel/metric", "go.opentelemetry.io/otel/trace",
	"go.opentelemetry.io/otel/sdk", "go.opentelemetry.io/otel/sdk/metric", "go.opentelemetry.io/otel/bridge/opencensus",
	"go.opentelemetry.io/otel/bridge/opentracing", "go.opentelemetry.io/otel/exporters/stdout/stdoutmetric",
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc", "go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp",
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace", "go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc",
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp", "go.opentelemetry.io/otel/exporters/stdout/stdouttrace",
	"go.opentelemetry.io/otel/exporters/zipkin",
}

// isGoCore reports whether a dependency is a direct dependency on a stable version of a module in goCore. Modules had
// versions 0.x before they were stable.
func isGoCore(d configfile.Dependency) bool {
	return !d.Indirect && slices.Contains(goCore, d.Name) && !strings.HasPrefix(d.Version, "v0.")
}

func isDotnetCore(d configfile.Dependency) bool {
	return slices.Contains([]string{
		"OpenTelemetry", "OpenTelemetry.Api", "OpenTelemetry.Api.ProviderBuilderExtensions", "OpenTelemetry.Extensions.Hosting",
		"OpenTelemetry.Exporter.OpenTelemetryProtocol", "OpenTelemetry.Exporter.Console", "OpenTelemetry.Exporter.InMemory",
	}, d.Name)
}

// release is a major and minor version, with the first package that has it and the number of such packages.
type release struct {
	version
	name     string
	packages int
}

// releaseOf returns the release of most packages for which of returns true, and the newest if several have as many
// packages.
func releaseOf(f *configfile.File, of func(configfile.Dependency, version) bool) release {
	counts := map[[2]int]*release{}
	var best release
	for _, d := range f.Dependencies {
		v, ok := parseVersion(d.Version)
		if !ok || !of(d, v) {
			continue
		}
		r := counts[[2]int{v.major, v.minor}]
		if r == nil {
			r = &release{version: v, name: d.Name}
			counts[[2]int{v.major, v.minor}] = r
		}
		r.packages++
		if r.packages > best.packages || r.packages == best.packages && newer(r.version, best.version) {
			best = *r
		}
	}
	return best
}

// sameMinor reports the packages whose major or minor version is not that of most packages.
func (p *Pass) sameMinor(f *configfile.File, of func(configfile.Dependency) bool) {
	pinned := func(d configfile.Dependency, v version) bool { return v.pinned() && of(d) }
	r := releaseOf(f, pinned)
	for _, d := range f.Dependencies {
		if v, ok := parseVersion(d.Version); ok && pinned(d, v) && (v.major != r.major || v.minor != r.minor) {
			p.mixed(f, d, fmt.Sprintf("`%s` %s and `%s` %s are of different releases.", d.Name, v, r.name, r.version), p.raise(f, d, v, r.version, r.version.String()+r.version.suffix)...)
		}
	}
}

func newer(a, b version) bool {
	return a.major > b.major || a.major == b.major && a.minor > b.minor
}

func (p *Pass) mixed(f *configfile.File, d configfile.Dependency, message string, fix ...Edit) {
	p.in(f, d.Start, d.End, Finding{Subject: d.Name, Message: message, Fix: fix})
}

// maxDependency limits the search for the version of a dependency, in bytes.
const maxDependency = 1000

// raise returns the edit that raises a pinned dependency to a newer version, written as text. It returns nil for an
// older version, because it may lack functions or not exist for the package. It also returns nil if the ecosystem has
// lock files, because these would have to change as well.
func (p *Pass) raise(f *configfile.File, d configfile.Dependency, from, to version, text string) []Edit {
	locked := f.Ecosystem == configfile.Go || f.Ecosystem == configfile.NPM || f.Ecosystem == configfile.PyPI && !strings.HasSuffix(f.Path, ".txt")
	if locked || !newer(to, from) || d.Version == "" || to.patch < 0 || !p.maySearch() {
		return nil
	}
	if from.suffix != "" && to.suffix == "" || from.suffix == "" && to.suffix != "" {
		return nil // the package may be stable in only one of the versions
	}
	rest := f.Source[d.Start:min(d.Start+maxDependency, len(f.Source))]
	if i := bytes.Index(rest, []byte("</dependency>")); i >= 0 && f.Ecosystem == configfile.Maven {
		rest = rest[:i]
	} else if i := bytes.IndexByte(rest, '\n'); i >= 0 {
		rest = rest[:i]
	}
	at := bytes.LastIndex(rest, []byte(d.Version))
	number := versionText.FindStringSubmatchIndex(d.Version)
	if at < 0 || number == nil {
		return nil
	}
	at += d.Start
	return []Edit{{Start: at + number[4], End: at + number[11], Text: text}}
}

// The packages of open-telemetry/opentelemetry-js. Stable packages have versions 1.x and 2.x. Experimental packages are
// released with them as 0.x: 0.200.0 with 2.0.0, 0.57.0 with 1.30.0.
var (
	jsStable       = regexp.MustCompile(`^@opentelemetry/(core|resources|sdk-metrics|sdk-trace-base|sdk-trace-node|sdk-trace-web|context-async-hooks|context-zone|context-zone-peer-dep|exporter-jaeger|exporter-zipkin|propagator-b3|propagator-jaeger|shim-opentracing)$`)
	jsExperimental = regexp.MustCompile(`^@opentelemetry/(api-logs|sdk-node|sdk-logs|exporter-(trace|metrics|logs)-otlp-(http|grpc|proto)|exporter-prometheus|otlp-[a-z-]+|opentelemetry-browser-detector|instrumentation|instrumentation-(http|grpc|fetch|xml-http-request)|shim-opencensus|web-common|sampler-jaeger-remote)$`)
)

func (p *Pass) mixedNPM(f *configfile.File) {
	// Compare with the major versions of the stable packages, or with the release of most experimental packages.
	majors := map[int]string{}
	for _, d := range f.Dependencies {
		if v, ok := parseVersion(d.Version); ok && v.compatible() && jsStable.MatchString(d.Name) {
			majors[v.major] = d.Name
		}
	}
	experimental := releaseOf(f, func(d configfile.Dependency, v version) bool {
		return v.compatible() && v.major == 0 && jsExperimental.MatchString(d.Name)
	})
	for _, d := range f.Dependencies {
		v, ok := parseVersion(d.Version)
		if !ok || !v.compatible() {
			continue
		}
		switch {
		case jsStable.MatchString(d.Name):
			if other, ok := majors[v.major+1]; ok && v.major >= 1 {
				p.mixed(f, d, fmt.Sprintf("`%s` %s and `%s` %d.x are of different releases.", d.Name, v, other, v.major+1))
			} else if v.major == 1 && experimental.minor >= 200 {
				p.mixed(f, d, fmt.Sprintf("`%s` %s does not belong to `%s` %s, which is released with 2.x.", d.Name, v, experimental.name, experimental.version))
			}
		case v.major == 0 && jsExperimental.MatchString(d.Name):
			if other, ok := majors[2]; ok && v.minor < 200 && v.minor > 0 {
				p.mixed(f, d, fmt.Sprintf("`%s` %s does not belong to `%s` 2.x, which is released with 0.200 and later.", d.Name, v, other))
			} else if v.minor != experimental.minor {
				p.mixed(f, d, fmt.Sprintf("`%s` %s and `%s` %s are of different releases.", d.Name, v, experimental.name, experimental.version))
			}
		}
	}
}

// The packages of opentelemetry-python. Stable packages have versions 1.N.x. Other packages, and those in
// opentelemetry-python-contrib, are released with them as 0.(N+21)bX: 0.33b0 with 1.12.0, 0.48b0 with 1.27.0.
var (
	pythonStable = regexp.MustCompile(`^opentelemetry-(api|sdk|proto|exporter-otlp|exporter-otlp-proto-(http|grpc|common)|exporter-zipkin.*|propagator-b3|propagator-jaeger)$`)
	pythonBeta   = regexp.MustCompile(`^opentelemetry-(instrumentation.*|semantic-conventions|distro|util-http|exporter-prometheus|test-utils)$`)
)

const pythonBetaOffset = 21

func (p *Pass) mixedPython(f *configfile.File) {
	p.sameMinor(f, func(d configfile.Dependency) bool { return pythonStable.MatchString(d.Name) })
	stable := releaseOf(f, func(d configfile.Dependency, v version) bool { return v.pinned() && pythonStable.MatchString(d.Name) })
	for _, d := range f.Dependencies {
		v, ok := parseVersion(d.Version)
		if !ok || !v.pinned() || v.major != 0 || !strings.HasPrefix(v.suffix, "b") || !pythonBeta.MatchString(d.Name) {
			continue
		}
		if stable.major == 1 && stable.minor >= 12 && v.minor != stable.minor+pythonBetaOffset {
			to := version{minor: stable.minor + pythonBetaOffset, patch: 0, suffix: "b" + strconv.Itoa(max(stable.patch, 0))}
			p.mixed(f, d, fmt.Sprintf("`%s` 0.%d%s does not belong to `%s` %s, which is released with 0.%db0.", d.Name, v.minor, v.suffix, stable.name, stable.version, stable.minor+pythonBetaOffset), p.raise(f, d, v, to, fmt.Sprintf("0.%d%s", to.minor, to.suffix))...)
		}
	}
}

// mixedJava compares the artifacts of group io.opentelemetry and their BOM. It ignores artifacts whose last release was
// earlier.
func (p *Pass) mixedJava(f *configfile.File) {
	ended := regexp.MustCompile(`opentelemetry-(semconv|extension-|exporter-jaeger|exporter-zipkin|aws-|proto|opencensus-shim|sdk-extension-(aws|resources|jfr|autoconfigure-spi))`)
	core := func(d configfile.Dependency) bool {
		return strings.HasPrefix(d.Name, "io.opentelemetry:") && !d.Development && !ended.MatchString(d.Name)
	}
	p.sameMinor(f, core)
}
