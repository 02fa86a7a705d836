// SPDX-License-Identifier: Apache-2.0

package check

import (
	"bytes"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"assay/internal/lists"
	"assay/internal/review/configfile"
	"assay/internal/review/instrumentation"
	"assay/internal/review/syntax"
)

var vendorInstrumentation = &Check{
	ID:       "vendor-instrumentation",
	Title:    "Instrumentation is not OpenTelemetry's",
	Category: Governance,
	Severity: Low,
	Why: "OpenTracing, OpenCensus and the Jaeger clients are archived and no longer maintained. A vendor's tracer sends only to that vendor, in its own format and with its own attribute names. " +
		"Where it runs beside OpenTelemetry, traces break at each boundary between the two.",
	Fix: "Migrate to the OpenTelemetry API and SDK. The shims for OpenTracing and OpenCensus let both run in one process during the migration.",
	Config: func(p *Pass, f *configfile.File) {
		if isDeployment(f) {
			p.vendorAgents(f)
			return
		}
		// A shim depends on the library that it replaces. Directory.Packages.props only sets versions of packages.
		if f.Kind != configfile.Manifest || isShim(f.Path) || strings.EqualFold(path.Base(f.Path), "Directory.Packages.props") {
			return
		}
		bridged := bridges(f.Dependencies)
		for _, d := range f.Dependencies {
			v, ok := vendorOf(f.Ecosystem, d.Name)
			if !ok || d.Indirect || d.Development || bridged[v] {
				continue
			}
			p.in(f, d.Start, d.End, Finding{Subject: d.Name, Message: fmt.Sprintf("`%s` is instrumentation of %s.", d.Name, v)})
		}
	},
	Source: func(p *Pass, u *instrumentation.Uses) {
		if isShim(u.File.Path) {
			return
		}
		names := lists.Map(u.File.Imports, func(i syntax.Import) configfile.Dependency { return configfile.Dependency{Name: i.Path} })
		bridged := bridges(names)
		seen := map[string]bool{}
		for _, i := range u.File.Imports {
			v, ok := vendorOfImport(u.File.Language, i.Path)
			if !ok || bridged[v] || seen[v] || i.Node == nil {
				continue
			}
			seen[v] = true
			p.At(u, i.Node, Finding{Subject: i.Path, Message: fmt.Sprintf("`%s` is instrumentation of %s.", i.Path, v)})
		}
	},
}

// javaAgent matches the option of the JVM for an agent, javaAgents the files of agents.
var (
	javaAgent  = regexp.MustCompile(`-javaagent:[^\s"',]+\.jar`)
	javaAgents = []struct {
		vendor string
		file   *regexp.Regexp
	}{
		{"Datadog", regexp.MustCompile(`(?i)dd-java-agent|dd-trace`)},
		{"New Relic", regexp.MustCompile(`(?i)newrelic`)},
		{"Elastic APM", regexp.MustCompile(`(?i)elastic-apm|elasticapm`)},
		{"AppDynamics", regexp.MustCompile(`(?i)appdynamics|appagent|AppServerAgent`)},
		{"SkyWalking", regexp.MustCompile(`(?i)skywalking`)},
	}
)

// vendorAgents reports the Java agents of vendors that a deployment file starts.
func (p *Pass) vendorAgents(f *configfile.File) {
	report := func(text string, start, end int) {
		for _, a := range javaAgents {
			if a.file.MatchString(text) {
				p.in(f, start, end, Finding{Subject: a.vendor, Message: fmt.Sprintf("`%s` is instrumentation of %s.", text, a.vendor)})
				return
			}
		}
	}
	if f.YAML == nil {
		for _, m := range javaAgent.FindAllIndex(f.Source, 32) {
			if line := f.Source[bytes.LastIndexByte(f.Source[:m[0]], '\n')+1:]; bytes.TrimLeft(line, " \t")[0] != '#' {
				report(string(f.Source[m[0]:m[1]]), m[0], m[1])
			}
		}
		return
	}
	configfile.Walk(f.YAML, func(_ []string, _, value *yaml.Node) {
		for _, n := range slices.Concat(configfile.Items(value), []*yaml.Node{value}) {
			if text := javaAgent.FindString(configfile.Text(n)); text != "" {
				start, end := f.Range(n)
				report(text, start, end)
			}
		}
	})
}

// vendors are the libraries of other telemetry systems than OpenTelemetry, by ecosystem.
var vendors = map[string][]struct {
	vendor string
	names  *regexp.Regexp
}{
	configfile.Go: {
		{"OpenTracing", regexp.MustCompile(`^github\.com/(opentracing/(opentracing-go|basictracer-go)|opentracing-contrib/)`)},
		{"OpenCensus", regexp.MustCompile(`^(contrib\.)?go\.opencensus\.io(/|$)|^github\.com/census-instrumentation/`)},
		{"Jaeger", regexp.MustCompile(`^github\.com/(uber|jaegertracing)/jaeger-(client-go|lib)`)},
		{"Zipkin", regexp.MustCompile(`^github\.com/(openzipkin/zipkin-go|openzipkin-contrib/)`)},
		{"Datadog", regexp.MustCompile(`^(gopkg\.in/DataDog/dd-trace-go\.v1|github\.com/DataDog/dd-trace-go)`)},
		{"New Relic", regexp.MustCompile(`^github\.com/newrelic/go-agent`)},
		{"Elastic APM", regexp.MustCompile(`^go\.elastic\.co/apm`)},
		{"Instana", regexp.MustCompile(`^github\.com/instana/go-sensor`)},
		{"AWS X-Ray", regexp.MustCompile(`^github\.com/aws/aws-xray-sdk-go`)},
		{"Lightstep", regexp.MustCompile(`^github\.com/lightstep/lightstep-tracer-go`)},
		{"SkyWalking", regexp.MustCompile(`^github\.com/(SkyAPM/go2sky|apache/skywalking-go)`)},
		{"SignalFx", regexp.MustCompile(`^github\.com/signalfx/signalfx-go-tracing`)},
		{"AppDynamics", regexp.MustCompile(`^appdynamics$`)},
	},
	configfile.NPM: {
		{"OpenTracing", regexp.MustCompile(`^(opentracing|express-opentracing)$`)},
		{"OpenCensus", regexp.MustCompile(`^@opencensus/`)},
		{"Jaeger", regexp.MustCompile(`^jaeger-client$`)},
		{"Zipkin", regexp.MustCompile(`^zipkin($|-(instrumentation|transport|context)-)`)},
		{"Datadog", regexp.MustCompile(`^dd-trace$`)},
		{"New Relic", regexp.MustCompile(`^newrelic$|^@newrelic/(next|koa|apollo-server-plugin|aws-sdk)$`)},
		{"Elastic APM", regexp.MustCompile(`^elastic-apm-(node|http-client)$|^@elastic/apm-rum`)},
		{"AppDynamics", regexp.MustCompile(`^appdynamics$`)},
		{"Instana", regexp.MustCompile(`^@instana/(collector|core)$`)},
		{"AWS X-Ray", regexp.MustCompile(`^aws-xray-sdk(-core|-express)?$`)},
		{"Lightstep", regexp.MustCompile(`^lightstep-tracer$`)},
		{"SignalFx", regexp.MustCompile(`^signalfx-tracing$`)},
		{"SkyWalking", regexp.MustCompile(`^skywalking-backend-js$`)},
		{"Google Cloud Trace", regexp.MustCompile(`^@google-cloud/trace-agent$`)},
	},
	configfile.PyPI: {
		{"OpenTracing", regexp.MustCompile(`^(opentracing|basictracer|[a-z-]+-opentracing|opentracing-[a-z-]+)$`)},
		{"OpenCensus", regexp.MustCompile(`^opencensus(-ext-[a-z0-9-]+|-context)?$`)},
		{"Jaeger", regexp.MustCompile(`^jaeger-client$`)},
		{"Zipkin", regexp.MustCompile(`^(py-zipkin|aiozipkin|pyramid-zipkin)$`)},
		{"Datadog", regexp.MustCompile(`^ddtrace$`)},
		{"New Relic", regexp.MustCompile(`^newrelic$`)},
		{"Elastic APM", regexp.MustCompile(`^elastic-apm$`)},
		{"AppDynamics", regexp.MustCompile(`^appdynamics$`)},
		{"Instana", regexp.MustCompile(`^instana$`)},
		{"AWS X-Ray", regexp.MustCompile(`^aws-xray-sdk$`)},
		{"Lightstep", regexp.MustCompile(`^lightstep$`)},
		{"SignalFx", regexp.MustCompile(`^signalfx-tracing$`)},
		{"SkyWalking", regexp.MustCompile(`^apache-skywalking$`)},
	},
	configfile.Maven: {
		{"OpenTracing", regexp.MustCompile(`^io\.opentracing(\.contrib|\.brave)?:`)},
		{"OpenCensus", regexp.MustCompile(`^io\.opencensus:`)},
		{"Jaeger", regexp.MustCompile(`^(io\.jaegertracing|com\.uber\.jaeger):`)},
		{"Zipkin", regexp.MustCompile(`^io\.zipkin\.brave:|^io\.micrometer:micrometer-tracing-bridge-brave$|^org\.springframework\.cloud:spring-cloud-(starter|sleuth)-(sleuth|zipkin)$|^org\.springframework\.cloud:spring-cloud-starter-(sleuth|zipkin)$`)},
		{"Datadog", regexp.MustCompile(`^com\.datadoghq:dd-(trace|java-agent)`)},
		{"New Relic", regexp.MustCompile(`^com\.newrelic\.agent\.java:`)},
		{"Elastic APM", regexp.MustCompile(`^co\.elastic\.apm:`)},
		{"AppDynamics", regexp.MustCompile(`^com\.appdynamics(\.agent)?:`)},
		{"AWS X-Ray", regexp.MustCompile(`^com\.amazonaws:aws-xray-recorder-sdk`)},
		{"SkyWalking", regexp.MustCompile(`^org\.apache\.skywalking:apm-toolkit-(trace|opentracing|micrometer)`)},
		{"Lightstep", regexp.MustCompile(`^com\.lightstep\.tracer:`)},
	},
	configfile.NuGet: {
		{"OpenTracing", regexp.MustCompile(`(?i)^OpenTracing(\.|$)`)},
		{"OpenCensus", regexp.MustCompile(`(?i)^OpenCensus(\.|$)`)},
		{"Jaeger", regexp.MustCompile(`(?i)^Jaeger(\.|$)`)},
		{"Zipkin", regexp.MustCompile(`(?i)^zipkin4net`)},
		{"Datadog", regexp.MustCompile(`(?i)^Datadog\.Trace`)},
		{"New Relic", regexp.MustCompile(`(?i)^NewRelic\.Agent`)},
		{"Elastic APM", regexp.MustCompile(`(?i)^Elastic\.Apm`)},
		{"AWS X-Ray", regexp.MustCompile(`(?i)^AWSXRayRecorder`)},
		{"AppDynamics", regexp.MustCompile(`(?i)^AppDynamics\.`)},
	},
	configfile.RubyGems: {
		{"OpenTracing", regexp.MustCompile(`^opentracing$`)},
		{"OpenCensus", regexp.MustCompile(`^opencensus`)},
		{"Jaeger", regexp.MustCompile(`^jaeger-client$`)},
		{"Zipkin", regexp.MustCompile(`^zipkin-tracer$`)},
		{"Datadog", regexp.MustCompile(`^(ddtrace|datadog)$`)},
		{"New Relic", regexp.MustCompile(`^newrelic_rpm$`)},
		{"Elastic APM", regexp.MustCompile(`^elastic-apm$`)},
		{"AWS X-Ray", regexp.MustCompile(`^aws-xray-sdk$`)},
	},
	configfile.Composer: {
		{"OpenTracing", regexp.MustCompile(`^opentracing/opentracing$`)},
		{"OpenCensus", regexp.MustCompile(`^opencensus/`)},
		{"Jaeger", regexp.MustCompile(`^jonahgeorge/jaeger-client-php$`)},
		{"Zipkin", regexp.MustCompile(`^(openzipkin|jcchavezs)/zipkin`)},
		{"Datadog", regexp.MustCompile(`^datadog/dd-trace$`)},
		{"Elastic APM", regexp.MustCompile(`^(philkra/elastic-apm|nipwaayoni/elastic-apm)`)},
	},
}

func vendorOf(ecosystem, name string) (string, bool) {
	for _, v := range vendors[ecosystem] {
		if v.names.MatchString(name) {
			return v.vendor, true
		}
	}
	return "", false
}

// importPrefixes maps packages of Python and Java to vendors.
var importPrefixes = map[syntax.Language][]struct{ prefix, vendor string }{
	syntax.Python: {
		{"opentracing", "OpenTracing"},
		{"opencensus", "OpenCensus"},
		{"jaeger_client", "Jaeger"},
		{"py_zipkin", "Zipkin"},
		{"aiozipkin", "Zipkin"},
		{"ddtrace", "Datadog"},
		{"newrelic", "New Relic"},
		{"elasticapm", "Elastic APM"},
		{"appdynamics", "AppDynamics"},
		{"instana", "Instana"},
		{"aws_xray_sdk", "AWS X-Ray"},
		{"lightstep", "Lightstep"},
		{"skywalking", "SkyWalking"},
	},
	syntax.Java: {
		{"io.opentracing", "OpenTracing"},
		{"io.opencensus", "OpenCensus"},
		{"io.jaegertracing", "Jaeger"},
		{"brave", "Zipkin"},
		{"datadog.trace", "Datadog"},
		{"com.newrelic.api.agent", "New Relic"},
		{"co.elastic.apm", "Elastic APM"},
		{"com.appdynamics", "AppDynamics"},
		{"com.amazonaws.xray", "AWS X-Ray"},
		{"org.apache.skywalking.apm.toolkit", "SkyWalking"},
		{"org.springframework.cloud.sleuth", "Zipkin"},
	},
}

func vendorOfImport(language syntax.Language, path string) (string, bool) {
	switch language {
	case syntax.Go:
		return vendorOf(configfile.Go, path)
	case syntax.JavaScript, syntax.TypeScript:
		parts := strings.SplitN(path, "/", 3)
		if strings.HasPrefix(path, "@") && len(parts) > 1 {
			return vendorOf(configfile.NPM, parts[0]+"/"+parts[1])
		}
		return vendorOf(configfile.NPM, parts[0])
	}
	for _, i := range importPrefixes[language] {
		if rest, ok := strings.CutPrefix(path, i.prefix); ok && (rest == "" || rest[0] == '.') {
			return i.vendor, true
		}
	}
	return "", false
}

var bridgeNames = map[string]*regexp.Regexp{
	"OpenTracing": regexp.MustCompile(`(?i)otel/bridge/opentracing|shim-opentracing|opentracing-shim|opentracing\.shim|opentracingshim|shims\.opentracing|shim\.opentracing`),
	"OpenCensus":  regexp.MustCompile(`(?i)otel/bridge/opencensus|shim-opencensus|opencensus-shim|opencensusshim|shim\.opencensus`),
	"Zipkin":      regexp.MustCompile(`(?i)otel/exporters/zipkin|exporter-zipkin|exporter\.zipkin|exporters?/zipkin`),
	"Jaeger":      regexp.MustCompile(`(?i)otel/exporters/jaeger`),
}

func isShim(file string) bool {
	file = strings.ToLower(file)
	return strings.Contains(file, "shim") || strings.Contains(file, "bridge")
}

// bridges returns the vendors whose libraries are needed by shims or exporters of OpenTelemetry among the dependencies.
func bridges(dependencies []configfile.Dependency) map[string]bool {
	bridged := map[string]bool{}
	for _, d := range dependencies {
		for vendor, names := range bridgeNames {
			if names.MatchString(d.Name) {
				bridged[vendor] = true
			}
		}
	}
	return bridged
}
