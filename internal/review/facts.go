// SPDX-License-Identifier: Apache-2.0

package review

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"assay/internal/lists"
	"assay/internal/review/configfile"
	"assay/internal/review/syntax"
)

// maxNames is the maximum number of services and of SDKs in a summary.
const maxNames = 100

// facts collects facts about the telemetry of the code.
type facts struct {
	traits    trait
	languages map[syntax.Language]int // files
	services  map[string]bool
	sdks      map[string]bool
}

func (f *facts) add(language syntax.Language, traits trait, services []string, configs []*configfile.File) {
	if f.languages == nil {
		f.languages, f.services, f.sdks = map[syntax.Language]int{}, map[string]bool{}, map[string]bool{}
	}
	f.traits |= traits
	if language != syntax.Unknown {
		f.languages[language]++
	}
	for _, s := range services {
		if len(s) <= 256 && s != "" && len(f.services) < maxNames {
			f.services[s] = true
		}
	}
	for _, c := range configs {
		if c.Kind == configfile.SDK {
			f.traits |= traitOTel
		}
		for _, d := range c.Dependencies {
			sdk, traits := dependency(d.Name)
			if !sdk && (d.Indirect || d.Development) {
				continue
			}
			f.traits |= traits
			if sdk && len(f.sdks) < maxNames && len(d.Name)+len(d.Version) <= 256 {
				f.sdks[strings.TrimSpace(d.Name+" "+d.Version)] = true
			}
		}
		for _, v := range c.Environment {
			if v.Name == "JAVA_TOOL_OPTIONS" && strings.Contains(v.Value, "opentelemetry-javaagent") || v.Name == "NODE_OPTIONS" && strings.Contains(v.Value, "auto-instrumentations") {
				f.traits |= traitOTel | traitAutomatic
			}
		}
	}
}

// dependency reports whether a dependency is an API, SDK or agent for telemetry, and returns its traits.
func dependency(name string) (sdk bool, traits trait) {
	n := strings.ToLower(name)
	switch {
	case strings.Contains(n, "opentelemetry") || strings.HasPrefix(n, "open-telemetry/"): // Composer
		traits = traitOTel
		switch {
		case automatic.MatchString(n):
			traits |= traitAutomatic
		case strings.Contains(n, "instrumentation"):
			return false, traits | traitLibrary
		}
		return otelParts.MatchString(n), traits
	case otherClients.MatchString(n):
		return true, traitVendor
	}
	return false, 0
}

// Parts of names in lower case: of APIs, SDKs and agents of OpenTelemetry, and of the clients of other systems.
var (
	automatic    = regexp.MustCompile(`auto-?instrumentation|javaagent|^opentelemetry-distro$|^open-telemetry/opentelemetry-auto-`)
	otelParts    = regexp.MustCompile(`[./-](api|sdk)|^opentelemetry$|^opentelemetry\.extensions\.hosting$|opentelemetry\.io/otel|distro|javaagent|auto-?instrumentation|exporter`)
	otherClients = regexp.MustCompile(`opentracing|opencensus|jaeger-client|zipkin|dd-?trace|elastic-apm|newrelic`)
)

// serviceNames returns the names of services in an environment variable.
func serviceNames(v configfile.Variable) []string {
	switch v.Name {
	case "OTEL_SERVICE_NAME":
		return []string{v.Value}
	case "OTEL_RESOURCE_ATTRIBUTES":
		for pair := range strings.SplitSeq(v.Value, ",") {
			if name, ok := strings.CutPrefix(strings.TrimSpace(pair), "service.name="); ok {
				return []string{name}
			}
		}
	}
	return nil
}

// configuredServices returns the names of services in the configuration of an SDK.
func configuredServices(f *configfile.File) (names []string) {
	resource := configfile.Get(f.YAML, "resource")
	add := func(name string) {
		if !strings.Contains(name, "$") { // from the environment
			names = append(names, name)
		}
	}
	attributes := configfile.Get(resource, "attributes")
	add(configfile.Text(configfile.Get(attributes, "service.name"))) // in the first versions of the format
	for _, a := range configfile.Items(attributes) {
		if configfile.Text(configfile.Get(a, "name")) == "service.name" {
			add(configfile.Text(configfile.Get(a, "value")))
		}
	}
	list := configfile.Variable{Name: "OTEL_RESOURCE_ATTRIBUTES", Value: configfile.Text(configfile.Get(resource, "attributes_list"))}
	for _, name := range serviceNames(list) {
		add(name)
	}
	return names
}

// instrumentation returns the summary.
func (f *facts) instrumentation() Instrumentation {
	i := Instrumentation{
		OTelPresent: f.traits&traitOTel != 0, Signals: []string{}, Types: []string{}, Languages: []string{},
		DetectedSDKs: append([]string{}, slices.Sorted(maps.Keys(f.sdks))...), Services: append([]string{}, slices.Sorted(maps.Keys(f.services))...),
	}
	for _, t := range []struct {
		trait trait
		name  string
		list  *[]string
	}{
		{traitTraces, "traces", &i.Signals},
		{traitMetrics, "metrics", &i.Signals},
		{traitLogs, "logs", &i.Signals},
		{traitTraces | traitMetrics | traitLogs, "manual", &i.Types},
		{traitLibrary, "library", &i.Types},
		{traitAutomatic, "automatic", &i.Types},
		{traitVendor, "vendor", &i.Types},
	} {
		if f.traits&t.trait != 0 {
			*t.list = append(*t.list, t.name)
		}
	}
	byFiles := slices.SortedFunc(maps.Keys(f.languages), func(a, b syntax.Language) int {
		return cmp.Or(cmp.Compare(f.languages[b], f.languages[a]), cmp.Compare(a, b))
	})
	for _, l := range byFiles {
		i.Languages = append(i.Languages, l.String())
	}
	i.Summary = i.text()
	return i
}

var languageNames = map[string]string{"go": "Go", "javascript": "JavaScript", "typescript": "TypeScript", "python": "Python", "java": "Java"}

// text describes the instrumentation in one or two sentences.
func (i *Instrumentation) text() string {
	code := "The repository has no code in a language that a review reads."
	if len(i.Languages) > 0 {
		names := lists.Map(i.Languages, func(l string) string { return languageNames[l] })
		code = "The code is in " + and(names) + "."
	}
	switch {
	case i.OTelPresent && len(i.Signals) > 0:
		code += fmt.Sprintf(" It uses OpenTelemetry for %s, with %s instrumentation.", and(i.Signals), and(i.Types))
	case i.OTelPresent:
		code += " It uses OpenTelemetry."
	case slices.Contains(i.Types, "vendor"):
		code += " It uses the client of another telemetry system and not OpenTelemetry."
	default:
		code += " It does not use OpenTelemetry."
	}
	return code
}

// and joins words: "a, b and c".
func and(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}
