// SPDX-License-Identifier: Apache-2.0

package check

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"assay/internal/lists"
	"assay/internal/review/configfile"
	"assay/internal/review/instrumentation"
	"assay/internal/review/syntax"
)

var resourceAttributes = &Check{
	ID:       "resource-attributes",
	Title:    "Resource lacks the attributes that identify the service",
	Category: Governance,
	Severity: Medium,
	Rules:    []string{"RES-001", "RES-005", "RES-006", "RES-007"},
	Why: "Without `service.name` all telemetry comes from `unknown_service`. Without `deployment.environment.name` tests and production look the same, " +
		"and without `service.instance.id` the time series of the instances of a service overwrite each other. " +
		"An invalid `service.criticality` is ignored.",
	Fix: "Set `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES=deployment.environment.name=...,service.instance.id=...` where the service is deployed, or give the attributes to the resource of the SDK. " +
		"The check looks at code, deployment files, `.env` files and Collector configurations of the repository, and at the text of templates and kustomizations; a deployment from elsewhere may still set them. " +
		"`service.criticality` is `mission_critical`, `high`, `medium` or `low`.",
	Fixable: true,
	Source: func(p *Pass, u *instrumentation.Uses) {
		former := formerEnvironments(u)
		detects := slices.ContainsFunc(u.File.Root.Children, detectsResources)
		for _, r := range u.Resources {
			if r.Node == nil {
				continue
			}
			_, named := r.Attributes["service.name"]
			fact := resourceFact{
				Finding: Finding{Subject: "resource"}.at(u, r.Node),
				partial: partialResource(u, r.Node) || !named && (detects || contributes(u, r.Node)),
			}
			if r.Opaque {
				fact.keys = append(fact.keys, anyAttribute)
			}
			if u.File.Language == syntax.JavaScript || u.File.Language == syntax.TypeScript { // the serviceinstance detector of NodeSDK is enabled by default
				fact.keys = append(fact.keys, "service.instance.id")
			}
			for key, value := range r.Attributes {
				if former[value] {
					key = "deployment.environment.name" // semconv-deprecated reports it
				}
				fact.keys = append(fact.keys, key)
				text, known := u.Known(value)
				if key == "service.name" && known {
					fact.Names.Service = text
				}
				if key == "service.criticality" && known && !slices.Contains(criticalities, text) {
					p.At(u, value, invalidCriticality())
				}
			}
			slices.Sort(fact.keys)
			for _, d := range r.Detectors {
				if strings.HasPrefix(strings.ToLower(detectorName(d)), "serviceinstance") {
					fact.keys = append(fact.keys, "service.instance.id")
				}
			}
			p.Keep(fact)
		}
	},
	Repository: func(p *RepositoryPass) { checkResources(p) },
}

// formerEnvironments returns the values of attributes with the literal key deployment.environment, the name of
// deployment.environment.name before version 1.27 of the conventions. semconv-deprecated reports these keys.
func formerEnvironments(u *instrumentation.Uses) map[*syntax.Node]bool {
	values := map[*syntax.Node]bool{}
	for _, a := range u.Attributes {
		if a.Name == "deployment.environment" && literal(u, a.Key).Kind == syntax.String {
			values[a.Value] = true
		}
	}
	return values
}

type resourceFact struct {
	Finding // with the literal service.name in Names
	keys    []string
	partial bool // it does not describe a service
}

// benchmarks matches directories of programs that are not services.
var benchmarks = regexp.MustCompile(`(^|/)(benchmarks?|bench|jmh|perf|load-?tests?)/`)

// partialResource reports whether a resource does not describe a service: a detector or provider contributes it to
// another resource, or it is in a benchmark or in code for development.
func partialResource(u *instrumentation.Uses, n *syntax.Node) bool {
	if benchmarks.MatchString(u.File.Path) {
		return true
	}
	for at := n.Enclosing(syntax.Func, syntax.Class, syntax.If); at != nil; at = at.Enclosing(syntax.Func, syntax.Class, syntax.If) {
		switch at.Kind {
		case syntax.Func:
			if at.Text == "detect" || at.Text == "Detect" {
				return true
			}
		case syntax.Class:
			if detectsResources(at) {
				return true
			}
		case syntax.If:
			compares := func(c *syntax.Node) bool { return c.Kind == syntax.Operator && c.Text != "==" && c.Text != "===" }
			developing := func(c *syntax.Node) bool {
				return (c.Kind == syntax.Name || c.Kind == syntax.Member) && setOf("dev development debug local").any(words(c.Text))
			}
			if n.Within(at.Children[1]) && !at.Children[0].Has(compares) && at.Children[0].Has(developing) {
				return true
			}
		}
	}
	return false
}

// detectsResources reports whether a node is a class that is a detector or provider of resources.
func detectsResources(class *syntax.Node) bool {
	return class.Kind == syntax.Class && slices.ContainsFunc(class.Children, func(c *syntax.Node) bool {
		x := name(c)
		return (c.Kind == syntax.Name || c.Kind == syntax.Member) && (strings.HasSuffix(x, "ResourceProvider") || strings.HasSuffix(x, "ResourceDetector"))
	})
}

// contributes reports whether a resource is merged into a parameter of the function, or is returned by a resource
// class: CloudFoundryResource.
func contributes(u *instrumentation.Uses, n *syntax.Node) bool {
	if call := n.Parent; call != nil && call.Kind == syntax.Call {
		recv, m := call.Method()
		if m == "merge" && recv != nil && recv.Kind == syntax.Name && recv != n {
			def := u.File.Definition(recv)
			return def != nil && def.Kind == syntax.Param
		}
	}
	if n.Parent == nil || n.Parent.Kind != syntax.Return {
		return false
	}
	class := n.Enclosing(syntax.Class)
	return class != nil && strings.HasSuffix(class.Text, "Resource")
}

var criticalities = []string{"mission_critical", "high", "medium", "low"}

func invalidCriticality() Finding {
	return Finding{
		Subject: "service.criticality", Names: Names{AttributeKey: "service.criticality"},
		Message: "The value of `service.criticality` is none of mission_critical, high, medium and low.",
	}
}

// anyAttribute is in a set of attributes that are not all known, so that none is missing.
const anyAttribute = "*"

// requiredAttributes are the attributes that each service needs, the most important first.
var requiredAttributes = []string{"service.name", "deployment.environment.name", "service.instance.id"}

// missing returns the required attributes that no set contains.
func missing(sets ...set) []string {
	return lists.Filter(requiredAttributes, func(k string) bool {
		return !slices.ContainsFunc(sets, func(s set) bool { return s[anyAttribute] || s[k] })
	})
}

// deployed holds the resource attributes that deployment files set for a service.
type deployed struct {
	keys   set
	name   string
	place  *configfile.Variable // the variable to change
	file   *configfile.File
	image  string
	others []string // other services that lack the same attributes at the same place
	// automatic is set if the file starts the service with automatic instrumentation, which gets attributes only from
	// the environment.
	automatic bool
}

func checkResources(p *RepositoryPass) {
	ps := projectsOf(p.Configs)
	code := map[*project]set{}             // from SDK setup, and from deployment files of the project
	facts := map[*project][]resourceFact{} // to report
	everywhere := set{}                    // from the Collector, and from deployment files of unknown projects
	services := map[string]*deployed{}     // by name, or by directory for services without a name
	order := []*deployed{}
	var names []string // names of services in code, in the order of files
	in := func(at *project) set {
		if code[at] == nil {
			code[at] = set{}
		}
		return code[at]
	}
	for _, k := range p.Kept {
		f := k.(resourceFact)
		at := ps.of(f.File)
		in(at).add(f.keys...)
		if !f.partial {
			facts[at] = append(facts[at], f)
		}
		names = append(names, f.Names.Service)
	}
	for _, f := range p.Configs {
		switch f.Kind {
		case configfile.Collector:
			givenByCollector(f, everywhere)
		case configfile.SDK:
			p.sdkResource(f, in(ps.of(f.Path)))
		case configfile.Logging:
			givenBySpring(f, in(ps.of(f.Path)))
		}
		if f.Kind == configfile.Template || strings.HasPrefix(configfile.Text(configfile.Get(f.YAML, "apiVersion")), "kustomize.") {
			givenByText(f, everywhere)
		}
		if !isDeployment(f) {
			continue
		}
		injects := f.Kind == configfile.Kubernetes && strings.HasPrefix(f.Name, "Instrumentation/") // the operator sets the variables in other workloads
		if injects || bytes.Contains(f.Source, []byte("instrumentation.opentelemetry.io/inject")) { // the operator sets these attributes
			everywhere.add("service.name", "service.instance.id")
		}
		automatic := slices.ContainsFunc(automaticMarks, func(m []byte) bool { return bytes.Contains(f.Source, m) })
		images := map[string]string{}
		for _, s := range f.Services {
			images[s.Name] = s.Image
		}
		owners := map[string]*project{}
		for i := range f.Environment {
			v := &f.Environment[i]
			keys := given(v)
			if len(keys) == 0 && !telemetryVariable(v.Name) {
				continue
			}
			if injects || strings.HasPrefix(f.Name, "Kustomization/") { // a ConfigMap of several services
				everywhere.add(keys...)
				continue
			}
			at, looked := owners[v.Service]
			if !looked {
				at, _ = ps.deploys(f, v.Service)
				owners[v.Service] = at
			}
			known := at != nil
			if known && code[at] != nil {
				code[at].add(keys...)
			} else if v.Service == "" || !known && len(facts) > 0 && !slices.Contains(names, v.Service) {
				everywhere.add(keys...)
			}
			id := cmp.Or(v.Service, path.Dir(f.Path))
			d := services[id]
			if d == nil {
				d = &deployed{name: v.Service, keys: set{}}
				services[id] = d
				order = append(order, d)
			}
			d.keys.add(keys...)
			if known && code[at] != nil {
				d.keys.add(anyAttribute)
			}
			d.automatic = d.automatic || automatic
			if d.place == nil || v.Name == "OTEL_RESOURCE_ATTRIBUTES" || v.Name == "OTEL_SERVICE_NAME" && d.place.Name != "OTEL_RESOURCE_ATTRIBUTES" {
				d.place, d.file = v, f
			}
			if images[v.Service] != "" {
				d.image = images[v.Service]
			}
			if v.Name == "OTEL_RESOURCE_ATTRIBUTES" && v.Literal {
				p.criticality(f, v)
			}
		}
	}
	for _, at := range slices.SortedFunc(maps.Keys(facts), func(a, b *project) int { return strings.Compare(a.dir, b.dir) }) {
		p.reportCode(facts[at], missing(code[at], everywhere))
	}
	type lack struct {
		place *configfile.File
		start int
		keys  string
	}
	sharing := map[lack]*deployed{} // the first service at the place of a variable, which services may share through an anchor
	var first []*deployed
	for _, d := range order {
		if slices.Contains(names, d.name) && d.name != "" {
			continue
		}
		at := lack{d.file, d.place.Start, strings.Join(missing(d.keys, everywhere), ",")}
		if other := sharing[at]; other != nil {
			other.others = append(other.others, d.name)
			continue
		}
		sharing[at] = d
		first = append(first, d)
	}
	for _, d := range first {
		p.reportDeployment(d, missing(d.keys, everywhere), len(facts) > 0)
	}
}

func lacks(keys []string) (Severity, string) {
	severity := Medium
	switch keys[0] {
	case "service.name":
		severity = High
	case "service.instance.id":
		severity = Suggestion // deployments often add it
	}
	return severity, "`" + strings.Join(keys, "`, `") + "`"
}

// reportCode reports missing attributes at the resource of a project with the most attributes.
func (p *RepositoryPass) reportCode(facts []resourceFact, keys []string) {
	if len(keys) == 0 {
		return
	}
	best := facts[0]
	for _, f := range facts[1:] {
		if len(f.keys) > len(best.keys) {
			best = f
		}
	}
	severity, list := lacks(keys)
	best.Severity, best.About, best.Names.AttributeKey = severity, strings.Join(keys, ", "), keys[0]
	best.Message = fmt.Sprintf("The resource has no %s, and no deployment file of the repository sets it. The deployment may still do so.", list)
	p.Report(best.Finding)
}

func (p *RepositoryPass) reportDeployment(d *deployed, keys []string, code bool) {
	if len(keys) == 0 || isExample(d.file) || notProduction.MatchString(d.file.Path) || collectorImages.MatchString(d.image) || collectorImages.MatchString(d.name) {
		return
	}
	if d.file.Kind == configfile.HelmValues && d.place.Name != "OTEL_RESOURCE_ATTRIBUTES" || d.file.Kind == configfile.Env || d.file.Kind == configfile.Dockerfile {
		return // templates and other files may set them
	}
	if keys[0] == "service.name" && code {
		keys = keys[1:] // the code of the service may set it
		if len(keys) == 0 {
			return
		}
	}
	severity, list := lacks(keys)
	if d.place.Name != "OTEL_RESOURCE_ATTRIBUTES" && d.place.Name != "OTEL_SERVICE_NAME" && !d.automatic {
		severity = Suggestion // the image may set them
	}
	var fix []Edit
	shared := func(v configfile.Variable) bool { return v.Start == d.place.Start && v.Service != d.name }
	if keys[0] == "service.name" && d.place.Name == "OTEL_RESOURCE_ATTRIBUTES" && d.place.Literal && d.name != "" && d.place.Value != "" && !slices.ContainsFunc(d.file.Environment, shared) {
		end := d.place.End
		if c := d.file.Source[end-1]; c == '"' || c == '\'' {
			end--
		}
		fix = []Edit{{Start: end, End: end, Text: ",service.name=" + d.name}}
	}
	former := ""
	if d.keys["deployment.environment"] && slices.Contains(keys, "deployment.environment.name") {
		former = " It sets `deployment.environment`, the name of `deployment.environment.name` before version 1.27 of the semantic conventions."
	}
	name := cmp.Or(d.name, path.Base(d.file.Path))
	message := fmt.Sprintf("The service `%s` gets no %s.", name, list)
	if len(d.others) > 0 {
		message = fmt.Sprintf("The services `%s` get no %s.", strings.Join(append([]string{name}, d.others...), "`, `"), list)
	}
	p.in(d.file, d.place.Start, d.place.End, Finding{
		Severity: severity, Subject: strings.TrimSpace(d.name + " resource"), About: name, Names: Names{AttributeKey: keys[0], Service: d.name}, Fix: fix,
		Message: message + former,
	})
}

// collectorImages matches images and names of programs that receive telemetry.
var collectorImages = regexp.MustCompile(`collector|otelcol|otel-agent|jaeger|grafana|tempo|prometheus|loki|alloy`)

// telemetryVariable reports whether a variable shows that the service uses an OpenTelemetry SDK.
func telemetryVariable(name string) bool {
	return slices.Contains([]string{"OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES", "OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER", "OTEL_LOGS_EXPORTER"}, name) ||
		strings.HasPrefix(name, "OTEL_EXPORTER_OTLP_") && strings.HasSuffix(name, "ENDPOINT")
}

// given returns the attributes that a variable sets.
func given(v *configfile.Variable) (keys []string) {
	switch v.Name {
	case "OTEL_SERVICE_NAME":
		return []string{"service.name"}
	case "OTEL_RESOURCE_ATTRIBUTES":
		for pair := range strings.SplitSeq(v.Value, ",") {
			key, _, ok := strings.Cut(pair, "=")
			if !ok && strings.TrimSpace(pair) != "" || strings.Contains(key, "$") || v.Value == "" && !v.Literal {
				key = anyAttribute
			}
			keys = append(keys, strings.TrimSpace(key))
		}
	}
	return keys
}

// criticality reports an invalid service.criticality in OTEL_RESOURCE_ATTRIBUTES.
func (p *RepositoryPass) criticality(f *configfile.File, v *configfile.Variable) {
	for pair := range strings.SplitSeq(v.Value, ",") {
		if key, value, _ := strings.Cut(pair, "="); strings.TrimSpace(key) == "service.criticality" && !slices.Contains(criticalities, value) {
			finding := invalidCriticality()
			finding.Symbol = v.Service
			p.in(f, v.Start, v.End, finding)
		}
	}
}

// sdkResource adds the attributes of the resource in an SDK configuration, and reports an invalid service.criticality.
func (p *RepositoryPass) sdkResource(f *configfile.File, s set) {
	resource := configfile.Get(f.YAML, "resource")
	if configfile.Get(resource, "attributes_list") != nil || configfile.Get(resource, "detection/development") != nil {
		s.add(anyAttribute)
	}
	for _, a := range configfile.Items(configfile.Get(resource, "attributes")) {
		key, value := configfile.Text(configfile.Get(a, "name")), configfile.Get(a, "value")
		s.add(key)
		if text := configfile.Text(value); key == "service.criticality" && !strings.Contains(text, "$") && !slices.Contains(criticalities, text) && value != nil {
			p.node(f, value, invalidCriticality())
		}
	}
}

// givenByCollector adds the attributes that the processors of a Collector set on the resources of all services.
func givenByCollector(f *configfile.File, s set) {
	for name, processor := range configfile.Pairs(configfile.Get(f.YAML, "processors")) {
		switch componentType(name.Value) {
		case "resource", "attributes":
			for _, list := range []string{"attributes", "actions"} {
				for _, a := range configfile.Items(configfile.Get(processor, list)) {
					switch configfile.Text(configfile.Get(a, "action")) {
					case "insert", "upsert":
						s.add(configfile.Text(configfile.Get(a, "key")))
					}
				}
			}
		case "transform":
			start, _ := f.Range(name)
			for _, key := range requiredAttributes {
				if bytes.Contains(f.Source[start:], []byte(`"`+key+`"`)) {
					s.add(key)
				}
			}
		}
	}
}

// givenByText adds the attributes that a template or the patches of a kustomization set on unknown services.
func givenByText(f *configfile.File, s set) {
	if bytes.Contains(f.Source, []byte("OTEL_SERVICE_NAME")) {
		s.add("service.name")
	}
	if !bytes.Contains(f.Source, []byte("OTEL_RESOURCE_ATTRIBUTES")) {
		return
	}
	named := lists.Filter(requiredAttributes, func(key string) bool { return bytes.Contains(f.Source, []byte(key+"=")) })
	if len(named) == 0 { // the value is in another file
		named = []string{anyAttribute}
	}
	s.add(named...)
}

// givenBySpring adds the attributes that application.properties and application.yaml set for the starters of Spring and
// Quarkus.
func givenBySpring(f *configfile.File, s set) {
	for name, key := range map[string]string{
		"spring.application.name": "service.name", "quarkus.application.name": "service.name", "otel.service.name": "service.name",
		"service.name": "service.name", "deployment.environment.name": "deployment.environment.name", "service.instance.id": "service.instance.id",
	} {
		if bytes.Contains(f.Source, []byte(name)) {
			s.add(key)
		}
	}
	if configfile.Text(configfile.Get(f.YAML, "spring", "application", "name")) != "" || configfile.Text(configfile.Get(f.YAML, "otel", "service", "name")) != "" {
		s.add("service.name")
	}
	if configfile.Get(f.YAML, "otel", "resource", "attributes") != nil {
		s.add(anyAttribute)
	}
}
