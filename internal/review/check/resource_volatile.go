// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"assay/internal/review/configfile"
	"assay/internal/review/instrumentation"
	"assay/internal/review/syntax"
)

var resourceVolatile = &Check{
	ID:       "resource-volatile",
	Title:    "Resource of metrics has command lines, addresses or descriptions",
	Category: Volume,
	Severity: Low,
	Rules:    []string{"MET-007"},
	Why: "Most backends make the attributes of the resource part of the identity of each time series. When a command line, an address or a description changes, " +
		"all time series of the service end and new ones begin.",
	Fix: "Enable only the detectors that are needed, and for metrics those with stable values. In Go name the parts instead of `resource.WithProcess()` and `resource.WithOS()`: " +
		"`resource.WithOSType()`, `resource.WithProcessRuntimeName()`. For Node.js set `OTEL_NODE_RESOURCE_DETECTORS=env,host,serviceinstance`. In the Collector leave `host.ip`, `host.mac` and `os.description` disabled.",
	Source: func(p *Pass, u *instrumentation.Uses) {
		if u.File.ImportsAny("go.opentelemetry.io/otel/sdk/metric", "@opentelemetry/sdk-metrics", "@opentelemetry/sdk-node", "opentelemetry.sdk.metrics", "io.opentelemetry.sdk.metrics") {
			p.Keep(metricsFile(u.File.Path))
		}
		functions := map[*syntax.Node]providers{}
		for _, r := range u.Resources {
			for _, d := range r.Detectors {
				if name := detectorName(d); volatileDetectors[name] != "" && !ofOtherSignals(d, functions) {
					message := fmt.Sprintf("The detector `%s` puts %s on the resource of metrics.", name, volatileDetectors[name])
					p.Keep(Finding{Subject: name, Message: message}.at(u, d))
				}
			}
		}
	},
	Repository: func(p *RepositoryPass) {
		ps := projectsOf(p.Configs)
		metrics := map[*project]bool{}
		for _, k := range p.Kept {
			if file, ok := k.(metricsFile); ok {
				metrics[ps.of(string(file))] = true
			}
		}
		for _, k := range p.Kept {
			if f, ok := k.(Finding); ok && metrics[ps.of(f.File)] {
				p.Report(f)
			}
		}
		for _, f := range p.Configs {
			p.volatileConfig(f)
		}
	},
}

// otherProviders matches the constructors of providers of traces and logs.
var otherProviders = regexp.MustCompile(`^(New|Sdk|Node|Basic|Web)?(Tracer|Logger)Provider$`)

// ofOtherSignals reports whether a detector belongs to a resource that its function passes only to a provider of traces
// or logs. functions caches the providers of functions.
func ofOtherSignals(detector *syntax.Node, functions map[*syntax.Node]providers) bool {
	fn := detector.Enclosing(syntax.Func)
	if fn == nil {
		return false
	}
	in, ok := functions[fn]
	if !ok {
		in = providersIn(fn)
		functions[fn] = in
	}
	resource := ""
	for at := detector; at != fn; at = at.Parent {
		if at.Kind == syntax.Assign {
			resource = at.Targets()[0].Text
		}
	}
	return in.others && !in.metrics && resource != "" && !in.returned[resource]
}

// providers are the providers that a function creates.
type providers struct {
	metrics, others bool
	returned        map[string]bool // variables that the function returns
}

func providersIn(fn *syntax.Node) providers {
	in := providers{returned: map[string]bool{}}
	for n := range fn.All() {
		switch n.Kind {
		case syntax.Call, syntax.New:
			in.others = in.others || otherProviders.MatchString(name(n))
		case syntax.Name, syntax.Member:
			in.metrics = in.metrics || strings.Contains(n.Text, "MeterProvider") || n.Text == "NodeSDK"
			if n.Parent.Kind == syntax.Return {
				in.returned[n.Text] = true
			}
		}
	}
	return in
}

type metricsFile string // the path of a file that sets up metrics

// volatileDetectors maps detectors of Go, JavaScript, Python and Java to the volatile attributes that they add.
var volatileDetectors = map[string]string{
	"WithProcess": "the command line and a description of the runtime", "WithProcessCommandArgs": "the command line",
	"WithProcessRuntimeDescription": "a description of the runtime", "WithOS": "a description of the operating system", "WithOSDescription": "a description of the operating system",
	"processDetector": "the command line", "processDetectorSync": "the command line",
	"ProcessResourceDetector": "the command line",
	"ProcessResource":         "the command line", "ProcessResourceProvider": "the command line", "ProcessRuntimeResource": "a description of the runtime",
	"OsResource": "a description of the operating system", "OsResourceProvider": "a description of the operating system",
}

// detectorName returns the name of a detector: a function, a class, or the receiver of X.get().
func detectorName(n *syntax.Node) string {
	for range 3 {
		if n.Kind == syntax.Call || n.Kind == syntax.New || n.Kind == syntax.Member && (n.Text == "get" || n.Text == "create") {
			n = n.Children[0]
		}
	}
	if n.Kind == syntax.Name || n.Kind == syntax.Member {
		return n.Text
	}
	return ""
}

// volatileConfig reports the variables and settings that enable detectors with volatile attributes.
func (p *RepositoryPass) volatileConfig(f *configfile.File) {
	for _, v := range f.Environment {
		if v.Name != "OTEL_NODE_RESOURCE_DETECTORS" && v.Name != "OTEL_EXPERIMENTAL_RESOURCE_DETECTORS" {
			continue
		}
		detectors := strings.Split(v.Value, ",")
		if slices.Contains(detectors, "process") || slices.Contains(detectors, "all") {
			p.in(f, v.Start, v.End, Finding{
				Subject: strings.TrimSpace(v.Service + " " + v.Name), Names: Names{Service: v.Service, AttributeKey: "process.command_args"},
				Message: fmt.Sprintf("`%s` enables the `process` detector, which puts the command line on the resource of metrics.", v.Name),
			})
		}
	}
	switch f.Kind {
	case configfile.SDK:
		detection := configfile.Get(f.YAML, "resource", "detection/development")
		if detection == nil || configfile.Get(f.YAML, "meter_provider") == nil || configfile.Get(detection, "attributes", "excluded") != nil {
			return
		}
		for _, d := range configfile.Items(configfile.Get(detection, "detectors")) {
			for key := range configfile.Pairs(d) {
				if key.Value == "process" {
					p.node(f, key, Finding{Subject: "process", Names: Names{AttributeKey: "process.command_args"}, Message: "The `process` detector puts the command line on the resource of metrics."})
				}
			}
		}
	case configfile.Collector:
		c := readCollector(f)
		for _, d := range c.ofType("processors", "resourcedetection") {
			metrics := slices.ContainsFunc(c.pipelines, func(p collectorPipeline) bool {
				return componentType(p.name.Value) == "metrics" && slices.ContainsFunc(p.processors, func(n *yaml.Node) bool { return configfile.Text(n) == d.id })
			})
			if !metrics {
				continue
			}
			configfile.Walk(d.value, func(above []string, key, value *yaml.Node) {
				if len(above) > 0 && above[len(above)-1] == "resource_attributes" && slices.Contains(volatileAttributes, key.Value) && configfile.Text(configfile.Get(value, "enabled")) == "true" {
					p.node(f, key, Finding{
						Subject: d.id + " " + key.Value, Names: Names{AttributeKey: key.Value},
						Message: fmt.Sprintf("The processor `%s` puts `%s` on the resource of metrics.", d.id, key.Value),
					})
				}
			})
		}
	}
}

// volatileAttributes are the attributes of rule MET-007.
var volatileAttributes = []string{"host.ip", "host.mac", "process.command_args", "process.command_line", "process.runtime.description", "os.description"}
