// SPDX-License-Identifier: Apache-2.0

package configfile

import (
	"bytes"
	"encoding/base64"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// compose reads the services of a Compose file and their environment.
func (f *File) compose() {
	for name, s := range Pairs(Get(f.YAML, "services")) {
		if !isMapping(s) || f.full() {
			continue
		}
		service := Service{Name: name.Value, Image: Text(Get(s, "image"))}
		service.Start, service.End = f.Range(name)
		if b := Get(s, "build"); b != nil {
			dir := Text(b)
			if isMapping(b) {
				dir = Text(Get(b, "context"))
				if file := Text(Get(b, "dockerfile")); strings.Contains(file, "/") && !path.IsAbs(file) {
					dir = path.Join(dir, path.Dir(file)) // the context is often the whole repository
				}
			}
			if literal(dir) && !strings.Contains(dir, "://") {
				service.Build = path.Join(path.Dir(f.Path), dir)
			}
			service.Image = ""
		}
		f.addService(service)
		f.environment(name.Value, Get(s, "environment"))
	}
}

// environment reads the variables of a service from a mapping, a list of "NAME=value", or a list of mappings with name
// and value.
func (f *File) environment(service string, n *yaml.Node) {
	for name, value := range Pairs(n) {
		if f.full() {
			return
		}
		f.variable(service, name.Value, value)
	}
	for _, item := range Items(n) {
		if f.full() {
			return
		}
		item = Resolve(item)
		if item == nil {
			continue
		}
		if item.Kind == yaml.MappingNode {
			if name := Text(Get(item, "name")); name != "" {
				if value := Get(item, "value"); value != nil {
					f.variable(service, name, value)
				} else {
					v := Variable{Service: service, Name: name}
					v.Start, v.End = f.Range(item)
					f.addVariable(v)
				}
			}
			continue
		}
		name, value, given := strings.Cut(Text(item), "=")
		if name == "" {
			continue
		}
		v := Variable{Service: service, Name: name, Value: value, Literal: given && literal(value)}
		v.Start, v.End = f.Range(item)
		if at := bytes.IndexByte(f.Source[v.Start:v.End], '='); at >= 0 {
			v.Start += at + 1
			if item.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0 && v.End > v.Start {
				v.End--
			}
		}
		f.addVariable(v)
	}
}

func (f *File) variable(service, name string, value *yaml.Node) {
	v := Variable{Service: service, Name: name}
	v.Start, v.End = f.Range(value)
	if r := Resolve(value); r != nil && r.Kind == yaml.ScalarNode && r.Tag != "!!null" {
		v.Value, v.Literal = r.Value, literal(r.Value)
	}
	f.addVariable(v)
}

// kubernetes reads an object: its containers and variables, or the elements of a List. It adds the Collector
// configurations in the object.
func (p *yamlParser) kubernetes(n *yaml.Node, depth int) {
	kind := Text(Get(n, "kind"))
	if kind == "List" && depth == 0 {
		for _, item := range Items(Get(n, "items")) {
			if isMapping(item) && len(p.files) < maxDocuments {
				p.kubernetes(Resolve(item), 1)
			}
		}
		return
	}
	f := p.add(Kubernetes, n)
	name := Text(Get(n, "metadata", "name"))
	f.Name = kind + "/" + name
	pod := Get(n, "spec", "template", "spec")
	switch kind {
	case "Pod":
		pod = Get(n, "spec")
	case "CronJob":
		pod = Get(n, "spec", "jobTemplate", "spec", "template", "spec")
	case "ConfigMap":
		for key, value := range Pairs(Get(n, "data")) {
			switch {
			case variableName.MatchString(key.Value):
				f.variable(name, key.Value, value)
			case loggingNames.MatchString(key.Value):
				p.logging(f, key.Value, value)
			default:
				p.nest(value, p.ifCollector(f))
			}
		}
	case "Kustomization", "Component":
		p.kustomization(f)
	case "Secret":
		f.secret(name, Get(n, "stringData"), false)
		f.secret(name, Get(n, "data"), true)
	case "Instrumentation": // the OpenTelemetry Operator adds the variables to containers
		if strings.HasPrefix(Text(Get(n, "apiVersion")), "opentelemetry.io/") {
			f.environment(name, Get(n, "spec", "env"))
			for _, language := range Pairs(Get(n, "spec")) {
				f.environment(name, Get(language, "env"))
			}
		}
	case "OpenTelemetryCollector":
		config := Get(n, "spec", "config")
		if isMapping(config) {
			p.collector(f, config)
		} else {
			p.nest(config, p.ifCollector(f))
		}
	}
	containers := slices.Concat(Items(Get(pod, "containers")), Items(Get(pod, "initContainers")))
	for _, c := range containers {
		if f.full() {
			break
		}
		at := Get(c, "name")
		s := Service{Name: Text(at), Image: Text(Get(c, "image"))}
		if s.Name == "" {
			continue
		}
		s.Start, s.End = f.Range(at)
		if len(containers) == 1 && name != "" {
			s.Name = name // the only container often has a generic name such as "app" or "main"
		}
		f.addService(s)
		f.environment(s.Name, Get(c, "env"))
	}
}

var variableName = regexp.MustCompile(`^[A-Z][A-Z0-9_]*$`)

// kustomization reads the variables of the ConfigMaps and Secrets that Kustomize generates.
func (p *yamlParser) kustomization(f *File) {
	f.Name = "Kustomization/"
	for _, generators := range []string{"configMapGenerator", "secretGenerator"} {
		for _, g := range Items(Get(f.YAML, generators)) {
			f.environment(Text(Get(g, "name")), Get(g, "literals"))
		}
	}
}

// logging adds the configuration of a logger in a ConfigMap, such as application.yaml.
func (p *yamlParser) logging(outer *File, name string, text *yaml.Node) {
	add := func(n *yaml.Node) *File {
		f := p.add(Logging, n)
		f.Name = outer.Name + "/" + name
		return f
	}
	if yamlNames.MatchString(name) {
		p.nest(text, func(n *yaml.Node) { add(n).springYAML() })
		return
	}
	if start, end, ok := p.block(text); ok {
		f := add(nil)
		f.Source = p.source[:end]
		_ = f.logging(strings.ToLower(name), start) // a text that does not parse is not a configuration
		f.Source = p.source
	}
}

// ifCollector returns a function that adds a nested document of f if it is a Collector configuration.
func (p *yamlParser) ifCollector(f *File) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if IsCollector(n) {
			p.collector(f, n)
		}
	}
}

func (p *yamlParser) collector(outer *File, n *yaml.Node) *File {
	f := p.add(Collector, n)
	f.Name, f.OnKubernetes, f.Partial = outer.Name, true, partial(n)
	return f
}

func (f *File) secret(name string, data *yaml.Node, encoded bool) {
	for key, value := range Pairs(data) {
		v := Variable{Service: name, Name: key.Value}
		v.Start, v.End = f.Range(value)
		v.Value = Text(value)
		if encoded {
			plain, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(v.Value), ""))
			if err != nil {
				continue
			}
			v.Value = string(plain)
		}
		v.Literal = v.Value != "" && literal(v.Value)
		f.addVariable(v)
	}
}

// values reads Helm values: the variables in them, and the Collector configuration, which is partial because the chart
// of the Collector has defaults.
func (p *yamlParser) values(n *yaml.Node) {
	f := p.add(HelmValues, n)
	Walk(n, func(above []string, key, value *yaml.Node) {
		switch key.Value {
		case "env", "envs", "extraEnv", "extraEnvs", "extraEnvVars", "environment", "envVars", "environmentVariables", "envOverrides":
			service := ""
			for _, name := range slices.Backward(above) {
				if name != "[]" {
					service = name
					break
				}
			}
			f.environment(service, value)
		case "config":
			if IsCollector(Resolve(value)) {
				c := p.collector(f, Resolve(value))
				c.Partial = true
				c.Name = strings.Join(above, ".")
			}
		}
	})
}

// dotenv reads a file of NAME=value lines.
func (f *File) dotenv() {
	offset := 0
	for line := range bytes.Lines(f.Source) {
		f.assignment(line, offset)
		offset += len(line)
	}
}

// assignment reads a line NAME=value, whose value may have quotes and a trailing comment.
func (f *File) assignment(line []byte, offset int) {
	at := bytes.IndexByte(line, '=')
	if at < 0 {
		return
	}
	name := strings.TrimPrefix(strings.TrimSpace(string(line[:at])), "export ")
	if !envName.MatchString(name) {
		return
	}
	start, value := at+1, bytes.TrimRight(line[at+1:], " \t\r\n")
	for len(value) > 0 && (value[0] == ' ' || value[0] == '\t') {
		value, start = value[1:], start+1
	}
	v := Variable{Name: name, Start: offset + start, End: offset + start + len(value)}
	if len(value) > 0 && (value[0] == '"' || value[0] == '\'') {
		if end := bytes.IndexByte(value[1:], value[0]); end >= 0 {
			v.Value, v.End = string(value[1:1+end]), v.Start+end+2
			v.Literal = value[0] == '\'' || literal(v.Value)
			f.addVariable(v)
			return
		}
	}
	if end := bytes.Index(value, []byte(" #")); end >= 0 {
		value = bytes.TrimRight(value[:end], " \t")
		v.End = v.Start + len(value)
	}
	v.Value, v.Literal = string(value), literal(string(value))
	f.addVariable(v)
}

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*$`)

// images maps the last part of a base image's name to its language runtime.
var images = map[string]string{
	"node": "nodejs", "nodejs": "nodejs", "python": "cpython", "golang": "go", "ruby": "ruby", "php": "php",
	"openjdk": "jvm", "eclipse-temurin": "jvm", "amazoncorretto": "jvm", "ibm-semeru-runtimes": "jvm", "sapmachine": "jvm", "zulu-openjdk": "jvm",
	"dotnet/aspnet": "dotnet", "dotnet/runtime": "dotnet", "dotnet/runtime-deps": "dotnet", "dotnet/sdk": "dotnet",
	"distroless/nodejs": "nodejs",
}

var imageVersion = regexp.MustCompile(`^(?:open-|ubi\d+-)?v?(\d+(?:\.\d+)*)`)

// stage is a stage of a Dockerfile.
type stage struct {
	runtime, version string
	base             int // index of the stage on which it is based, -1 for an image
	first            int // index of its first variable in File.Environment
}

// stages holds the stages of a Dockerfile.
type stages struct {
	all     []stage
	aliases map[string]int
}

// leave sets Left of the variables whose stage is neither the last stage nor one of its base stages.
func (s *stages) leave(f *File) {
	used := map[int]bool{}
	for i := len(s.all) - 1; i >= 0; i = s.all[i].base { // base stages have a smaller index
		used[i] = true
	}
	for i, end := len(s.all)-1, len(f.Environment); i >= 0; i, end = i-1, s.all[i].first {
		for v := s.all[i].first; v < end; v++ {
			f.Environment[v].Left = !used[i]
		}
	}
}

// Instruction is an instruction of a Dockerfile.
type Instruction struct {
	Keyword    string // in upper case
	Start, End int    // range of the instruction
	// Args follows the keyword in the source. It has blanks in place of comments and of the ends of continued lines.
	Args []byte
}

var (
	dockerInstruction = regexp.MustCompile(`(?m)^[ \t]*([^\s#]\S*)((?:[^\n]*\\[ \t]*\r?\n(?:[ \t]*(?:#.*)?\r?\n)*)*[^\n]*)`)
	// lineContinuation matches the end of a continued line, and the comments that follow it.
	lineContinuation = regexp.MustCompile(`\\[ \t]*\r?\n(?:[ \t]*(?:#.*)?\r?\n)*`)
)

// Instructions returns the instructions of a Dockerfile.
func (f *File) Instructions() (all []Instruction) {
	for _, m := range dockerInstruction.FindAllSubmatchIndex(f.Source, -1) {
		args := lineContinuation.ReplaceAllFunc(f.Source[m[4]:m[5]], func(end []byte) []byte { return bytes.Repeat([]byte{' '}, len(end)) })
		args = bytes.TrimRight(args, " \t\r")
		all = append(all, Instruction{strings.ToUpper(string(f.Source[m[2]:m[3]])), m[2], m[4] + len(args), args})
	}
	return all
}

// dockerfile reads the ENV instructions and the language runtime of the last stage's image.
func (f *File) dockerfile() {
	args := map[string]string{}
	all := &stages{aliases: map[string]int{}}
	for _, i := range f.Instructions() {
		f.instruction(i, args, all)
	}
	all.leave(f)
}

func (f *File) instruction(i Instruction, args map[string]string, all *stages) {
	rest, offset := i.Args, i.Start+len(i.Keyword)
	switch i.Keyword {
	case "ARG":
		if name, value, ok := strings.Cut(strings.TrimSpace(string(rest)), "="); ok && len(args) < 100 {
			args[name] = expand(strings.Trim(value, `"'`), args)
		}
	case "FROM":
		fields := strings.Fields(string(rest))
		for len(fields) > 0 && strings.HasPrefix(fields[0], "--") {
			fields = fields[1:]
		}
		if len(fields) == 0 {
			return
		}
		image := expand(fields[0], args)
		next := stage{base: -1, first: len(f.Environment)}
		if base, known := all.aliases[image]; known {
			next.runtime, next.version, next.base = all.all[base].runtime, all.all[base].version, base
		} else {
			next.runtime, next.version = imageRuntime(image)
		}
		if len(fields) == 3 && strings.EqualFold(fields[1], "as") && len(all.aliases) < 100 {
			all.aliases[fields[2]] = len(all.all)
		}
		all.all = append(all.all, next)
		f.Runtime, f.RuntimeVersion = next.runtime, next.version // "" for an image without a runtime
		f.RuntimeStart = offset + bytes.Index(rest, []byte(fields[0]))
		f.RuntimeEnd = f.RuntimeStart + len(fields[0])
	case "ENV":
		f.env(rest, offset)
	}
}

// maxReference is the maximum length in bytes of an image reference.
const maxReference = 1000

// expand replaces references to args in a text by their values. It returns "" if the result is longer than
// maxReference.
func expand(text string, args map[string]string) string {
	size := len(text)
	if size <= maxReference && strings.Contains(text, "$") {
		text = os.Expand(text, func(name string) string {
			value, ok := args[name]
			if !ok {
				return "${" + name + "}"
			}
			if size += len(value); size > maxReference {
				return ""
			}
			return value
		})
	}
	if size > maxReference {
		return ""
	}
	return text
}

// env reads the arguments of ENV: pairs NAME=value, or one name and its value.
func (f *File) env(rest []byte, offset int) {
	first := bytes.Fields(rest)
	if len(first) == 0 {
		return
	}
	if !bytes.Contains(first[0], []byte("=")) {
		name := string(first[0])
		at := bytes.Index(rest, first[0]) + len(first[0])
		value := bytes.TrimSpace(rest[at:])
		start := offset + at + len(rest[at:]) - len(bytes.TrimLeft(rest[at:], " \t"))
		f.addVariable(Variable{Name: name, Value: strings.Trim(string(value), `"'`), Literal: literal(string(value)), Start: start, End: min(start+len(value), len(f.Source))})
		return
	}
	for i := 0; i < len(rest); {
		if rest[i] == ' ' || rest[i] == '\t' || rest[i] == '\n' || rest[i] == '\r' {
			i++
			continue
		}
		end, quote := i, byte(0)
		for end < len(rest) {
			c := rest[end]
			if quote == 0 && (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
				break
			}
			switch {
			case c == '\\':
				end++
			case quote == 0 && (c == '"' || c == '\''):
				quote = c
			case c == quote:
				quote = 0
			}
			end++
		}
		end = min(end, len(rest))
		if at := bytes.IndexByte(rest[i:end], '='); at > 0 {
			value := string(rest[i+at+1 : end])
			f.addVariable(Variable{
				Name: string(rest[i : i+at]), Value: strings.Trim(value, `"'`), Literal: literal(value),
				Start: offset + i + at + 1, End: offset + end,
			})
		}
		i = end
	}
}

// imageRuntime returns the language runtime of an image reference and its version, "" for an unknown image.
func imageRuntime(image string) (runtime, version string) {
	image, _, _ = strings.Cut(image, "@")
	name, tag := image, ""
	if at := strings.LastIndexByte(image, ':'); at > strings.LastIndexByte(image, '/') {
		name, tag = image[:at], image[at+1:]
	}
	parts := strings.Split(name, "/")
	base := parts[len(parts)-1]
	if len(parts) > 1 {
		if r := images[strings.Join(parts[len(parts)-2:], "/")]; r != "" {
			return r, tagVersion(tag)
		}
	}
	if rest, ok := strings.CutPrefix(base, "nodejs"); ok && slices.Contains(parts, "distroless") {
		return "nodejs", tagVersion(rest)
	}
	if r := images[base]; r != "" {
		return r, tagVersion(tag)
	}
	return "", ""
}

func tagVersion(tag string) string {
	if m := imageVersion.FindStringSubmatch(tag); m != nil {
		return m[1]
	}
	return ""
}
