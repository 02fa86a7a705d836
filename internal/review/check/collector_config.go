// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"golang.org/x/mod/semver"

	"assay/internal/lists"
	"assay/internal/review/configfile"
)

// collectorSections are the sections of a Collector configuration that define components.
var collectorSections = []string{"receivers", "processors", "exporters", "connectors", "extensions"}

// removedComponent is a component that was removed from the Collector: the first release without it, and its
// replacement.
type removedComponent struct{ since, instead string }

// removedComponents are the components that were removed from the core and contrib distributions, by section and by the
// type that componentType returns. Sources: the history of distributions/otelcol-contrib/manifest.yaml in
// open-telemetry/opentelemetry-collector-releases, and the changelog of the Collector for logging (v0.111.0) and
// memory_ballast.
var removedComponents = map[string]map[string]removedComponent{
	"receivers": {
		"opencensus":        {"0.132.0", "the `otlp` receiver"},
		"prometheusexec":    {"0.54.0", "the `prometheus` receiver"},
		"sapm":              {"0.133.0", "the `otlp` receiver"},
		"signalfx":          {"0.157.0", "the `otlp` receiver"},
		"jmx":               {"0.154.0", "the JMX Metric Scraper or the Java agent"},
		"bigip":             {"0.146.0", ""},
		"dotnetdiagnostics": {"0.75.0", "the runtime instrumentation of .NET"},
	},
	"processors": {
		"k8stagger":      {"0.37.0", "the `k8sattributes` processor"},
		"spanmetrics":    {"0.96.0", "the `spanmetrics` connector"},
		"servicegraph":   {"0.94.0", "the `servicegraph` connector"},
		"routing":        {"0.120.0", "the `routing` connector"},
		"datadog":        {"0.94.0", "the `datadog` connector"},
		"remoteobserver": {"0.90.0", "the `remotetap` processor"},
		"queuedretry":    {"0.19.0", "`sending_queue` and `retry_on_failure` of the exporter"},
	},
	"exporters": {
		"logging":                  {"0.111.0", "the `debug` exporter"},
		"jaeger":                   {"0.86.0", "the `otlp` exporter: Jaeger receives OTLP"},
		"jaegerthrift":             {"0.86.0", "the `otlp` exporter: Jaeger receives OTLP"},
		"opencensus":               {"0.132.0", "the `otlp` exporter"},
		"loki":                     {"0.131.0", "the `otlphttp` exporter: Loki receives OTLP"},
		"sapm":                     {"0.147.0", "the `otlphttp` exporter"},
		"carbon":                   {"0.141.0", ""},
		"skywalking":               {"0.105.0", "the `otlp` exporter"},
		"instana":                  {"0.110.0", "the `otlp` exporter"},
		"dynatrace":                {"0.99.0", "the `otlphttp` exporter"},
		"elastic":                  {"0.57.0", "the `otlp` or `elasticsearch` exporter"},
		"f5cloud":                  {"0.96.0", "the `otlphttp` exporter"},
		"humio":                    {"0.72.0", "the `otlphttp` exporter"},
		"honeycomb":                {"0.57.0", "the `otlp` exporter"},
		"newrelic":                 {"0.52.0", "the `otlp` exporter"},
		"parquet":                  {"0.87.0", "the `file` exporter"},
		"stackdriver":              {"0.50.0", "the `googlecloud` exporter"},
		"tanzuobservability":       {"0.93.0", ""},
		"awsprometheusremotewrite": {"0.57.0", "the `prometheusremotewrite` exporter with the `sigv4auth` extension"},
	},
	"extensions": {
		"memoryballast": {"0.108.0", "the environment variable `GOMEMLIMIT`"},
		"fluentbit":     {"0.54.0", ""},
	},
}

// remoteExporters are exporters that send one request for each request that they receive, unless the pipeline or their
// queue batches.
var remoteExporters = []string{"otlp", "otlphttp", "otlpgrpc", "zipkin", "jaeger", "splunkhec", "datadog", "clickhouse", "googlecloud", "coralogix", "loki", "azuremonitor", "kafka", "influxdb"}

var collectorConfig = &Check{
	ID:       "collector-config",
	Title:    "Collector configuration is invalid or unsafe",
	Category: Correctness,
	Severity: Medium,
	Rules:    []string{"RES-003"},
	Why: "A Collector does not start with a pipeline that names an undefined component, or with a component that its release no longer has. " +
		"Without `memory_limiter` as the first processor, a burst of telemetry makes it run out of memory, and the telemetry that it holds is lost. " +
		"Without batching, it sends one request for each request that it receives. The `debug` exporter at `detailed` verbosity writes all telemetry to the log of the Collector, " +
		"with the personal data in it. `insecure_skip_verify` accepts any certificate. Without `k8s.pod.uid` telemetry cannot be joined with the pod that sent it.",
	Fix: "Define the components that the pipelines use, and remove unused components. Replace components that were removed from the Collector with their successors. " +
		"Put `memory_limiter` first in each pipeline. Set `sending_queue: {batch: {}}` of the exporters, or put the `batch` processor last. " +
		"Set `verbosity: basic`. Give the certificate authority as `ca_file`. On Kubernetes use the `k8sattributes` processor with `k8s.pod.uid`. " +
		"The check takes the release of the Collector from the image in the same file or directory, or in the nearest directory above. Where the release still has a component, its removal is of low severity.",
	Fixable: true,
	Repository: func(p *RepositoryPass) {
		byDirectory := map[string]*collectorDirectory{}
		var files []*collectorFile
		releases := collectorReleases{}
		podUID := false
		for _, f := range p.Configs {
			releases.add(f)
			for _, v := range f.Environment {
				podUID = podUID || strings.Contains(v.Value, "k8s.pod.uid=")
			}
			if f.Kind != configfile.Collector {
				continue
			}
			c := readCollector(f)
			files = append(files, c)
			dir := path.Dir(f.Path)
			if byDirectory[dir] == nil {
				byDirectory[dir] = &collectorDirectory{used: set{}, defined: set{}}
			}
			c.directory = byDirectory[dir]
			c.directory.add(c)
			podUID = podUID || len(c.ofType("processors", "k8sattributes")) > 0
		}
		for _, c := range files {
			c.release = releases.of(c.file)
			c.check(&p.Pass, podUID)
		}
	},
}

// collectorFile is a Collector configuration with its definitions of components and references to them.
type collectorFile struct {
	file      *configfile.File
	defined   map[string]component // by "section id"
	opaque    set                  // sections whose content is unknown: ${file:receivers.yaml}
	used      set                  // "section id"
	pipelines []collectorPipeline
	directory *collectorDirectory
	release   string // of the Collector that reads the file, such as "v0.98.0", "" if it is unknown
	renames   int
}

// component is the definition of a component.
type component struct {
	section, id string
	key, value  *yaml.Node
}

// collectorDirectory holds the definitions and references of the Collector configurations of one directory, because a
// Collector may merge them.
type collectorDirectory struct {
	used, defined set // "section id", and "section" for a section whose content is unknown
	parts         int // partial configurations
}

func (d *collectorDirectory) add(c *collectorFile) {
	maps.Copy(d.used, c.used)
	maps.Copy(d.defined, c.opaque)
	for id := range c.defined {
		d.defined[id] = true
	}
	if c.file.Partial {
		d.parts++
	}
}

type collectorPipeline struct {
	name, key                        *yaml.Node // the keys of the pipeline and of its processors, the latter nil if it has none
	receivers, processors, exporters []*yaml.Node
	opaque                           bool // the content of a list is unknown
}

// maxRenames limits the components of a file that are renamed, because each rename searches all pipelines.
const maxRenames = 100

func readCollector(f *configfile.File) *collectorFile {
	c := &collectorFile{file: f, defined: map[string]component{}, opaque: set{}, used: set{}}
	for _, section := range collectorSections {
		n := configfile.Get(f.YAML, section)
		if isOpaque(n) {
			c.opaque[section] = true
		}
		for key, value := range configfile.Pairs(n) {
			c.defined[section+" "+key.Value] = component{section, key.Value, key, value}
		}
	}
	for name, pipeline := range configfile.Pairs(configfile.Get(f.YAML, "service", "pipelines")) {
		p := collectorPipeline{name: name}
		for key, value := range configfile.Pairs(pipeline) {
			p.opaque = p.opaque || isOpaque(configfile.Resolve(value))
			items := configfile.Items(value)
			switch key.Value {
			case "receivers":
				p.receivers = items
				c.use(items, "receivers", "connectors") // a connector is a receiver as well
			case "processors":
				p.processors, p.key = items, key
				c.use(items, "processors")
			case "exporters":
				p.exporters = items
				c.use(items, "exporters", "connectors")
			}
		}
		c.pipelines = append(c.pipelines, p)
	}
	c.use(configfile.Items(configfile.Get(f.YAML, "service", "extensions")), "extensions")
	return c
}

// isOpaque reports whether the content of a mapping or list is unknown: ${file:receivers.yaml}.
func isOpaque(n *yaml.Node) bool { return n != nil && n.Kind == yaml.ScalarNode && n.Tag != "!!null" }

func (c *collectorFile) use(items []*yaml.Node, sections ...string) {
	for _, section := range sections {
		for _, n := range items {
			c.used[section+" "+configfile.Text(n)] = true
		}
	}
}

// componentType returns the type of a component's id without underscores: "otlpgrpc" for "otlp_grpc/2". Types were
// renamed to names with underscores ("k8sattributes" to "k8s_attributes"), and both names are valid.
func componentType(id string) string {
	kind, _, _ := strings.Cut(id, "/")
	return strings.ReplaceAll(strings.TrimSpace(kind), "_", "")
}

// typeName returns the type of a component's id as written.
func typeName(id string) string {
	kind, _, _ := strings.Cut(id, "/")
	return kind
}

// ofType returns the definitions of the components of a type in a section.
func (c *collectorFile) ofType(section, kind string) []component {
	return lists.Filter(c.components(), func(d component) bool { return d.section == section && componentType(d.id) == kind })
}

func hasType(items []*yaml.Node, kinds ...string) bool {
	return slices.ContainsFunc(items, func(n *yaml.Node) bool { return slices.Contains(kinds, componentType(configfile.Text(n))) })
}

func (c *collectorFile) check(p *Pass, podUID bool) {
	c.definitions(p)
	c.references(p)
	c.settings(p)
	if !c.file.Partial && !c.overlay() && !notProduction.MatchString(c.file.Path) {
		c.limits(p)
	}
	c.podUID(p, podUID)
}

// overlay reports whether the file is merged over another one: it uses components that only other files define.
func (c *collectorFile) overlay() bool {
	for used := range c.used {
		section, id, _ := strings.Cut(used, " ")
		if _, ok := c.defined[used]; !ok && c.isDefined(section, id) {
			return true
		}
	}
	return false
}

// kind returns the kind of a component for messages: "receiver".
func (d component) kind() string { return d.section[:len(d.section)-1] }

// definitions reports definitions of components that are unused, or that were removed from the Collector.
func (c *collectorFile) definitions(p *Pass) {
	for _, d := range c.components() {
		if removed, ok := removedComponents[d.section][componentType(d.id)]; ok {
			severity := High
			message := fmt.Sprintf("The %s `%s` was removed from the Collector in v%s.", d.kind(), typeName(d.id), removed.since)
			if c.before(removed.since) {
				severity = Low
				message = fmt.Sprintf("The %s `%s` was removed from the Collector in v%s, and the image has %s: after an update, the Collector does not start.",
					d.kind(), typeName(d.id), removed.since, c.release)
			}
			if removed.instead != "" {
				message += " Use " + removed.instead + "."
			}
			p.node(c.file, d.key, Finding{Severity: severity, Subject: "removed " + d.section + "/" + d.id, Message: message, Fix: c.rename(d)})
			continue
		}
		if len(c.pipelines) == 0 || c.file.Partial || c.isUsed(d) {
			continue
		}
		p.node(c.file, d.key, Finding{
			Severity: Low, Subject: "unused " + d.section + "/" + d.id,
			Message: fmt.Sprintf("The %s `%s` is defined and not used by `service`.", d.kind(), d.id),
		})
	}
}

// before reports whether the Collector is known to be older than a release.
func (c *collectorFile) before(release string) bool {
	return c.release != "" && semver.Compare(c.release, "v"+release) < 0
}

// components returns the definitions in the order of the file.
func (c *collectorFile) components() []component {
	return slices.SortedFunc(maps.Values(c.defined), func(a, b component) int {
		return cmp.Or(cmp.Compare(a.key.Line, b.key.Line), cmp.Compare(a.key.Column, b.key.Column), cmp.Compare(a.section, b.section)) // sections can share an anchor
	})
}

// rename returns the edits that replace the logging exporter with debug. It returns nil for other components, for
// settings that debug does not have, and for a Collector without debug, which v0.86.0 added.
func (c *collectorFile) rename(d component) []Edit {
	if d.section != "exporters" || componentType(d.id) != "logging" || c.before("0.86.0") || c.renames == maxRenames {
		return nil
	}
	c.renames++
	for key := range configfile.Pairs(d.value) {
		if !slices.Contains([]string{"verbosity", "sampling_initial", "sampling_thereafter"}, key.Value) {
			return nil
		}
	}
	name := "debug" + strings.TrimPrefix(d.id, "logging")
	if _, taken := c.defined["exporters "+name]; taken {
		return nil
	}
	nodes := []*yaml.Node{d.key}
	for _, pipeline := range c.pipelines {
		for _, n := range pipeline.exporters {
			if configfile.Text(n) == d.id {
				nodes = append(nodes, n)
			}
		}
	}
	var edits []Edit
	for _, n := range nodes {
		start, end := c.file.Range(n)
		if string(c.file.Source[start:end]) != d.id {
			return nil // quoted, or an alias
		}
		edits = append(edits, Edit{Start: start, End: end, Text: name})
	}
	return edits
}

// isUsed reports whether a configuration of the directory uses a component. It returns true if another configuration is
// partial, because the rest of that one may use the component.
func (c *collectorFile) isUsed(d component) bool {
	others := c.directory.parts
	if c.file.Partial {
		others--
	}
	return others > 0 || c.directory.used[d.section+" "+d.id]
}

func (c *collectorFile) isDefined(section, id string) bool {
	return c.directory.defined[section+" "+id] || c.directory.defined[section]
}

// references reports references to undefined components in pipelines and service.extensions.
func (c *collectorFile) references(p *Pass) {
	if c.file.Partial {
		return
	}
	report := func(section string, n *yaml.Node, connectors bool) {
		id := configfile.Text(n)
		if id == "" || strings.ContainsAny(id, "${") || c.isDefined(section, id) || connectors && c.isDefined("connectors", id) {
			return
		}
		p.node(c.file, n, Finding{
			Severity: High, Subject: "undefined " + section + "/" + id,
			Message: fmt.Sprintf("The %s `%s` is used and not defined: the Collector does not start.", section[:len(section)-1], id),
		})
	}
	for _, pipeline := range c.pipelines {
		for _, n := range pipeline.receivers {
			report("receivers", n, true)
		}
		for _, n := range pipeline.processors {
			report("processors", n, false)
		}
		for _, n := range pipeline.exporters {
			report("exporters", n, true)
		}
	}
	for _, n := range configfile.Items(configfile.Get(c.file.YAML, "service", "extensions")) {
		report("extensions", n, false)
	}
}

// settings reports unsafe and deprecated settings of components in use and of the service.
func (c *collectorFile) settings(p *Pass) {
	for _, d := range c.components() {
		kind := componentType(d.id)
		if !c.isUsed(d) && len(c.pipelines) > 0 && !c.file.Partial {
			continue
		}
		if d.section == "exporters" && kind == "debug" {
			if v := configfile.Get(d.value, "verbosity"); configfile.Text(v) == "detailed" && !notProduction.MatchString(c.file.Path) {
				start, end := c.file.Range(v)
				p.in(c.file, start, end, Finding{
					Subject: "detailed " + d.id, Fix: []Edit{{Start: start, End: end, Text: "basic"}},
					Message: fmt.Sprintf("The exporter `%s` writes all telemetry in full to the log of the Collector.", d.id),
				})
			}
		}
		if kind == "kubeletstats" || kind == "prometheus" || kind == "receivercreator" {
			continue // they read from kubelets, whose certificates are usually self-signed
		}
		insecure := set{} // settings without TLS
		configfile.Walk(d.value, func(above []string, key, value *yaml.Node) {
			if key.Value == "insecure" && configfile.Text(value) == "true" {
				insecure[strings.Join(above, ".")] = true
			}
		})
		configfile.Walk(d.value, func(above []string, key, value *yaml.Node) {
			if key.Value == "insecure_skip_verify" && configfile.Text(value) == "true" && !insecure[strings.Join(above, ".")] {
				p.node(c.file, key, Finding{
					Severity: High, Subject: "insecure_skip_verify " + d.section + "/" + d.id,
					Message: fmt.Sprintf("The %s `%s` does not verify the certificate of its peer.", d.kind(), d.id),
				})
			}
		})
	}
	// The changelog of the Collector: deprecated in v0.111.0, ignored since v0.123.0.
	for key, value := range configfile.Pairs(configfile.Get(c.file.YAML, "service", "telemetry", "metrics")) {
		if key.Value == "address" && configfile.Text(value) != "" && !c.before("0.111.0") {
			p.node(c.file, key, Finding{
				Severity: Low, Subject: "deprecated service/telemetry/metrics/address",
				Message: "The setting `service.telemetry.metrics.address` is ignored since v0.123.0. Use `readers`.",
			})
		}
	}
}

// fed reports whether a pipeline gets its telemetry only from connectors. The pipelines in front of these limit memory
// and batch.
func (c *collectorFile) fed(pipeline collectorPipeline) bool {
	for _, n := range pipeline.receivers {
		if _, ok := c.defined["connectors "+configfile.Text(n)]; !ok {
			return false
		}
	}
	return len(pipeline.receivers) > 0
}

// place returns the node to mark for a missing processor: the key of the processors, or of the pipeline.
func (pipeline collectorPipeline) place() *yaml.Node { return cmp.Or(pipeline.key, pipeline.name) }

// limits reports pipelines without memory_limiter or batching. According to processor/README.md of the Collector,
// memory_limiter must be the first processor.
func (c *collectorFile) limits(p *Pass) {
	var unlimited []collectorPipeline
	extension := len(c.ofType("extensions", "memorylimiter")) > 0
	for _, pipeline := range c.pipelines {
		switch {
		case pipeline.opaque:
		case hasType(pipeline.processors, "memorylimiter"):
			if !hasType(pipeline.processors[:1], "memorylimiter") {
				at := pipeline.processors[slices.IndexFunc(pipeline.processors, func(n *yaml.Node) bool { return hasType([]*yaml.Node{n}, "memorylimiter") })]
				p.node(c.file, at, Finding{
					Subject: "memory_limiter order " + pipeline.name.Value,
					Message: fmt.Sprintf("`memory_limiter` is not the first processor of the pipeline `%s`: the processors before it are not limited.", pipeline.name.Value),
				})
			}
		case !c.fed(pipeline) && !extension:
			unlimited = append(unlimited, pipeline)
		}
	}
	unbatched := c.unbatched()
	var message string
	if len(unlimited) > 0 {
		message = "Nothing limits the memory of " + pipelineNames(unlimited) + ": `memory_limiter` is missing. "
	}
	if len(unbatched) > 0 {
		message += "Nothing makes batches in " + pipelineNames(unbatched) + ": set `sending_queue.batch` of the exporters, or add the `batch` processor."
	}
	// Report one finding for both.
	if first := slices.Concat(unlimited, unbatched); len(first) > 0 {
		subject := "memory_limiter missing"
		if len(unlimited) == 0 {
			subject = "no batching"
		}
		p.node(c.file, first[0].place(), Finding{Severity: Low, Subject: subject, Message: strings.TrimSpace(message)})
	}
}

func pipelineNames(pipelines []collectorPipeline) string {
	if len(pipelines) == 1 {
		return fmt.Sprintf("the pipeline `%s`", pipelines[0].name.Value)
	}
	names := lists.Map(pipelines, func(p collectorPipeline) string { return "`" + p.name.Value + "`" })
	return "the pipelines " + strings.Join(names[:min(len(names), 8)], ", ")
}

// unbatched returns the pipelines that send telemetry without batching. According to the README of exporterhelper,
// sending_queue does not batch by default.
func (c *collectorFile) unbatched() []collectorPipeline {
	var lacking []collectorPipeline
	lacks := set{} // exporters without batching
	for _, d := range c.defined {
		if d.section == "exporters" {
			lacks[d.id] = slices.Contains(remoteExporters, componentType(d.id)) && !batches(d.value)
		}
	}
	for _, pipeline := range c.pipelines {
		if pipeline.opaque || c.fed(pipeline) || hasType(pipeline.processors, "batch", "queuebatch") || componentType(pipeline.name.Value) == "profiles" {
			continue
		}
		if slices.ContainsFunc(pipeline.exporters, func(n *yaml.Node) bool { return lacks[configfile.Text(n)] }) {
			lacking = append(lacking, pipeline)
		}
	}
	return lacking
}

// batches reports whether an exporter batches, or may batch because its settings are unknown.
func batches(exporter *yaml.Node) bool {
	if isOpaque(configfile.Resolve(exporter)) {
		return true
	}
	for key := range configfile.Pairs(configfile.Get(exporter, "sending_queue")) {
		if key.Value == "batch" {
			return true
		}
	}
	return configfile.Get(exporter, "batcher") != nil && configfile.Text(configfile.Get(exporter, "batcher", "enabled")) != "false"
}

// podUID reports k8sattributes processors whose extract.metadata omits the uid, and a Collector on Kubernetes that
// receives telemetry of applications and adds no attributes of their pods. elsewhere reports whether another
// configuration adds the uid.
func (c *collectorFile) podUID(p *Pass, elsewhere bool) {
	processors := c.ofType("processors", "k8sattributes")
	for _, d := range processors {
		metadata := configfile.Get(d.value, "extract", "metadata")
		if metadata == nil || metadata.Kind != yaml.SequenceNode || configfile.Text(configfile.Get(d.value, "passthrough")) == "true" || !c.isUsed(d) {
			continue
		}
		if !slices.ContainsFunc(metadata.Content, func(n *yaml.Node) bool { return configfile.Text(n) == "k8s.pod.uid" }) {
			p.node(c.file, d.key, Finding{
				Subject: "k8s.pod.uid " + d.id, Names: Names{AttributeKey: "k8s.pod.uid"},
				Message: fmt.Sprintf("The processor `%s` does not extract `k8s.pod.uid`.", d.id),
			})
		}
	}
	if len(processors) > 0 || elsewhere || !c.file.OnKubernetes || c.file.Partial {
		return
	}
	for _, pipeline := range c.pipelines {
		if !pipeline.opaque && hasType(pipeline.receivers, "otlp") {
			p.node(c.file, pipeline.place(), Finding{
				Subject: "k8s.pod.uid", Names: Names{AttributeKey: "k8s.pod.uid"},
				Message: fmt.Sprintf("The pipeline `%s` runs on Kubernetes and adds no `k8s.pod.uid`: the `k8sattributes` processor is missing.", pipeline.name.Value),
			})
			return
		}
	}
}
