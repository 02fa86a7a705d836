// SPDX-License-Identifier: Apache-2.0

package instrument

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"assay/internal/lists"
	"assay/internal/review/configfile"
)

// variable is an environment variable of a deployment file.
type variable struct {
	name, value string
	field       string // field of the pod with the value, for Kubernetes; replaces value
	mark        string // text that identifies the value among options of a runtime; a container whose options lack it needs a step
	image       bool   // the image sets the variable, so containers inherit it
}

// environment is the variable with which a Compose file names its environment.
const environment = "deployment.environment.name=${DEPLOYMENT_ENVIRONMENT:-development}"

// deployments adds the variables of the service to Compose files and Kubernetes objects. more are further variables for
// the language. starts, if it is not nil, instruments a container that overrides the command of its image, and returns
// the variables that it needs. Its argument image is the Dockerfile of the container, or "" if unknown. images are the
// Dockerfiles of the service.
func (s *service) deployments(images []*configfile.File, starts func(f *configfile.File, image string, container *yaml.Node) []variable, more ...variable) {
	if starts == nil {
		starts = func(*configfile.File, string, *yaml.Node) []variable { return nil }
	}
	staged := make(map[string]stages, len(images))
	for _, f := range images {
		staged[f.Path] = stagesOf(f)
	}
	for _, f := range s.configs {
		written := generated.Match(f.Source[:min(len(f.Source), headerBytes)])
		for _, deployed := range f.Services {
			key := container{f.Path, deployed.Start}
			if s.named[key] {
				continue
			}
			switch f.Kind {
			case configfile.Compose:
				if !s.builds(f, deployed, images) {
					continue
				}
				if written {
					s.leave(f.Path, 0, generatedStep)
					continue
				}
				container := child(configfile.Get(f.YAML, "services"), deployed.Name)
				target, other := s.target(f, deployed, staged)
				if other {
					continue
				}
				s.named[key], s.deployed = true, true
				var added []variable
				if command, _ := overridden(f, container); target == "" || command != nil && s.manifests[0].Ecosystem == configfile.PyPI {
					_, image := buildOf(f, deployed.Name)
					added = starts(f, image, container)
				} else {
					s.leave(f.Path, lineOf(f.Source, deployed.Start), "Start the program of the container as that of the image: the container is built from the stage `"+target+"`, which stays as it is")
				}
				s.variables(f, deployed.Name, container, "environment", slices.Concat([]variable{
					{name: "OTEL_SERVICE_NAME", value: deployed.Name},
					{name: "OTEL_RESOURCE_ATTRIBUTES", value: environment},
					{name: "OTEL_EXPORTER_OTLP_ENDPOINT", value: "${OTEL_EXPORTER_OTLP_ENDPOINT:-http://host.docker.internal:4318}"},
				}, more, added))
			case configfile.Kubernetes:
				if container := s.container(f, deployed); container != nil && written {
					s.leave(f.Path, 0, generatedStep)
				} else if container != nil {
					s.named[key], s.deployed = true, true
					s.variables(f, deployed.Name, container, "env", slices.Concat([]variable{
						{name: "OTEL_SERVICE_NAME", value: s.name},
						{name: "OTEL_POD_UID", field: "metadata.uid"}, // before the variable that refers to it
						{name: "OTEL_RESOURCE_ATTRIBUTES", value: "k8s.pod.uid=$(OTEL_POD_UID)"},
					}, more, starts(f, "", container)))
					s.leave(f.Path, lineOf(f.Source, deployed.Start), "Add `deployment.environment.name` to `OTEL_RESOURCE_ATTRIBUTES`, and set `OTEL_EXPORTER_OTLP_ENDPOINT` to the address of your Collector: no file of the repository says which they are")
				}
			}
		}
	}
}

// leaveName adds a step that names the service, unless an image, a container or a file of its directory does. The edit of
// a script cannot: the name would replace that of each container that runs the script.
func (s *service) leaveName(images []*configfile.File) {
	const name = "OTEL_SERVICE_NAME"
	if !s.deployed && !slices.ContainsFunc(s.configs, func(f *configfile.File) bool {
		return mentions(f, name) && (s.dir == "." || strings.HasPrefix(f.Path, s.dir+"/") || slices.Contains(images, f))
	}) {
		s.leave(s.manifests[0].Path, 0, "Set `"+name+"="+s.name+"` where the program is started: no image and no deployment file names the service")
	}
}

// generated matches the header of a generated deployment file.
var generated = regexp.MustCompile(`(?im)^#.*\b(auto-?generated|generated (by|from)|do not (manually )?edit)\b`)

const (
	headerBytes   = 2 << 10
	generatedStep = "The file is left: it says that it is generated. Set the variables of its services in what it is generated from"
)

// builds reports whether a service of a Compose file is built from the directory of the service, or by one of its
// Dockerfiles.
func (s *service) builds(f *configfile.File, deployed configfile.Service, images []*configfile.File) bool {
	_, file := buildOf(f, deployed.Name)
	named := func(f *configfile.File) bool { return f.Path == file }
	if slices.ContainsFunc(images, named) {
		return true
	}
	i := slices.IndexFunc(s.configs, named)
	if i >= 0 && s.configs[i].Runtime != "" && s.configs[i].Runtime != s.runtime().name {
		return false
	}
	// A Dockerfile with another name may be for another program, such as the proxy of the service.
	return deployed.Build == s.dir && (path.Base(file) == "Dockerfile" || i < 0)
}

// dockerStage matches the beginning of a stage: its base and its name.
var dockerStage = regexp.MustCompile(`(?im)^[ \t]*FROM[ \t]+(?:--\S+[ \t]+)*(\S+)(?:[ \t]+AS[ \t]+(\S+))?[ \t\r]*$`)

// stages holds the stages of a Dockerfile.
type stages struct {
	bases map[string]string // images, by the names of stages in lower case
	last  string
}

func stagesOf(f *configfile.File) stages {
	found := stages{bases: map[string]string{}}
	for _, m := range dockerStage.FindAllSubmatch(f.Source, -1) {
		base, stage := strings.ToLower(string(m[1])), strings.ToLower(string(m[2]))
		found.bases[stage] = cmp.Or(found.bases[base], base)
		found.last = stage
	}
	return found
}

// target returns the build target of a Compose service if it is not the last stage of its Dockerfile, the only stage
// that is instrumented. It returns "" otherwise, and for Go, whose binaries contain their dependencies. other reports
// whether the base of the target lacks the runtime of the service. images has the stages of the Dockerfiles by path.
func (s *service) target(f *configfile.File, deployed configfile.Service, images map[string]stages) (name string, other bool) {
	target := configfile.Text(configfile.Get(f.YAML, "services", deployed.Name, "build", "target"))
	_, file := buildOf(f, deployed.Name)
	image, found := images[file]
	runtime := s.runtime()
	if target == "" || !found || runtime.base == nil {
		return "", false
	}
	base, known := image.bases[strings.ToLower(target)]
	if !known || image.last == strings.ToLower(target) {
		return "", false
	}
	return target, !strings.Contains(base, "$") && !runtime.base.MatchString(base)
}

// buildOf returns the build context and the Dockerfile of a service in a Compose file, or "" if unknown.
func buildOf(f *configfile.File, name string) (context, file string) {
	build := configfile.Get(f.YAML, "services", name, "build")
	context = configfile.Text(build)
	if context == "" {
		context = configfile.Text(configfile.Get(build, "context"))
		file = configfile.Text(configfile.Get(build, "dockerfile"))
	}
	if build == nil || strings.ContainsAny(context+file, "$:") || path.IsAbs(context) || path.IsAbs(file) {
		return "", ""
	}
	context = path.Join(path.Dir(f.Path), context)
	return context, path.Join(context, cmp.Or(file, "Dockerfile"))
}

// alone reports whether the repository has no other project.
func (s *service) alone() bool { return len(s.projects) == 1 && s.projects[s.dir] }

// container returns the container of a workload if it runs an image named like the service, otherwise nil.
func (s *service) container(f *configfile.File, deployed configfile.Service) *yaml.Node {
	image, _, _ := strings.Cut(path.Base(deployed.Image), ":")
	image, _, _ = strings.Cut(image, "@")
	if image != s.name && image != path.Base(s.dir) {
		return nil
	}
	for _, pod := range []*yaml.Node{configfile.Get(f.YAML, "spec", "template", "spec"), configfile.Get(f.YAML, "spec", "jobTemplate", "spec", "template", "spec")} {
		for _, c := range configfile.Items(configfile.Get(pod, "containers")) {
			if start, _ := f.Range(configfile.Get(c, "name")); start == deployed.Start { // names of several pods may be the same
				return c
			}
		}
	}
	return nil
}

// overridden returns the command with which a container overrides that of its image, or nil, and reports whether it
// overrides the entry point.
func overridden(f *configfile.File, container *yaml.Node) (command *yaml.Node, entry bool) {
	keys := []string{"command", "args"}
	if f.Kind == configfile.Compose {
		keys = []string{"entrypoint", "command"}
	}
	for i, key := range keys {
		if n := configfile.Get(container, key); configfile.Text(n) != "" || len(configfile.Items(n)) > 0 {
			if own := child(container, key); own != nil {
				n = own
			}
			return n, i == 0
		}
	}
	return nil, false
}

// commandWords returns the words of the command of a container.
func commandWords(command *yaml.Node) []string {
	return append(strings.Fields(configfile.Text(command)), lists.Map(configfile.Items(command), configfile.Text)...)
}

// prefix inserts a program before the command of a container. It returns false if the command is shared by a YAML
// anchor or in a form that cannot be edited.
func (s *service) prefix(f *configfile.File, container, command *yaml.Node, program string) bool {
	first := command
	if command.Kind == yaml.SequenceNode {
		first = command.Content[0]
	}
	if first.Kind != yaml.ScalarNode || first.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 || command.Anchor != "" || first.Anchor != "" ||
		container.Kind != yaml.MappingNode || container.Anchor != "" || !slices.Contains(container.Content, command) {
		return false
	}
	start, _ := f.Range(first)
	quote := ""
	if first.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0 {
		quote = string(f.Source[start])
	}
	switch dash := bytes.LastIndexByte(f.Source[:start], '-'); {
	case command.Kind == yaml.ScalarNode:
		start += len(quote)
		s.edit(f.Path, f.Source, start, start, program+" ")
	case command.Style&yaml.FlowStyle != 0:
		s.edit(f.Path, f.Source, start, start, quote+program+quote+", ")
	case dash < 0 || len(bytes.TrimSpace(f.Source[dash+1:start])) > 0:
		return false
	default:
		s.insert(f.Path, f.Source, dash, []string{"- " + quote + program + quote}, newline(f.Source)+column(f, first))
	}
	s.did(f.Path, lineOf(f.Source, start), "Start the program of the container with `"+program+"`")
	return true
}

// variables adds the variables that a container lacks.
func (s *service) variables(f *configfile.File, name string, container *yaml.Node, key string, add []variable) {
	add = slices.DeleteFunc(add, func(v variable) bool {
		i := slices.IndexFunc(f.Environment, func(e configfile.Variable) bool { return e.Name == v.name && e.Service == name })
		if i >= 0 && v.mark != "" && !strings.Contains(f.Environment[i].Value, v.mark) {
			s.leave(f.Path, lineOf(f.Source, f.Environment[i].Start), "Add `"+v.value+"` to `"+v.name+"`: the container sets other options, which replace those of the image")
		}
		return i >= 0 || v.image
	})
	leave := func(line int, why string) { s.leave(f.Path, line, "Set "+listOf(add)+": the "+why) }
	if container != nil && container.Kind == yaml.AliasNode {
		leave(container.Line, "service is an alias of another one")
		return
	}
	if len(add) == 0 || container == nil || container.Kind != yaml.MappingNode || len(container.Content) == 0 {
		return
	}
	if container.Style&yaml.FlowStyle != 0 {
		leave(container.Line, "file writes the service on one line")
		return
	}
	first, env := container.Content[0], (*yaml.Node)(nil)
	for i := 0; i+1 < len(container.Content); i += 2 {
		switch name, value := container.Content[i], container.Content[i+1]; {
		case name.Tag == "!!merge" || container.Anchor != "" || name.Value == key && (value.Kind == yaml.AliasNode || value.Anchor != ""):
			leave(name.Line, "file shares variables between services")
			return
		case name.Value == key:
			env = value
		}
	}
	entries := kubernetesEntry
	if f.Kind == configfile.Compose {
		entries = mappingEntry
	}
	at := first
	var lines []string
	switch {
	case env == nil:
		lines = append([]string{key + ":"}, indented(entries(add))...)
	case env.Style&yaml.FlowStyle != 0 || len(env.Content) == 0:
		leave(env.Line, "file writes the variables on one line")
		return
	default:
		if env.Kind == yaml.SequenceNode && f.Kind == configfile.Compose {
			entries = listEntry
		}
		at = env.Content[0]
		lines = entries(add)
	}
	start, _ := f.Range(at)
	if env != nil && env.Kind == yaml.SequenceNode {
		item := start
		if start = bytes.LastIndexByte(f.Source[:start], '-'); start < 0 || bytes.Contains(f.Source[start:item], []byte("\n")) {
			return
		}
	}
	s.insert(f.Path, f.Source, start, lines, newline(f.Source)+column(f, at))
	for _, v := range add {
		if v.name == "OTEL_SERVICE_NAME" {
			name = v.value
		}
	}
	s.did(f.Path, lineOf(f.Source, start), "Name the service `"+name+"` by "+listOf(add))
}

// child returns the value of a key without resolving an alias.
func child(n *yaml.Node, key string) *yaml.Node {
	n = configfile.Resolve(n)
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

func indented(lines []string) []string {
	for i := range lines {
		lines[i] = "  " + lines[i]
	}
	return lines
}

// column returns as many spaces as precede a node on its line.
func column(f *configfile.File, n *yaml.Node) string {
	start, _ := f.Range(n)
	return strings.Repeat(" ", start-bytes.LastIndexByte(f.Source[:start], '\n')-1)
}

func listOf(variables []variable) string {
	var names []string
	for _, v := range variables {
		if v.field == "" {
			names = append(names, "`"+v.name+"`")
		}
	}
	return strings.Join(names, ", ")
}

func mappingEntry(variables []variable) []string {
	return lists.Map(variables, func(v variable) string { return v.name + ": " + strconv.Quote(v.value) })
}

func listEntry(variables []variable) []string {
	return lists.Map(variables, func(v variable) string { return "- " + strconv.Quote(v.name+"="+v.value) })
}

func kubernetesEntry(variables []variable) (lines []string) {
	for _, v := range variables {
		lines = append(lines, "- name: "+v.name)
		if v.field != "" {
			lines = append(lines, "  valueFrom:", "    fieldRef:", "      fieldPath: "+v.field)
		} else {
			lines = append(lines, "  value: "+strconv.Quote(v.value))
		}
	}
	return lines
}

// runtime holds the patterns that identify the images of a language.
type runtime struct {
	name     string         // configfile.File.Runtime
	programs *regexp.Regexp // words of a command that starts a program of the language
	base     *regexp.Regexp // names of base images
	installs *regexp.Regexp // commands that install the dependencies of a project, besides the names of its manifests; nil if the image needs none
}

var (
	runtimeNode = &runtime{
		"nodejs",
		regexp.MustCompile(`^(node(js)?|npm|npx|yarn|pnpm|pm2(-runtime)?|tsx|ts-node|nodemon)$`),
		regexp.MustCompile(`(^|[/-])node(js)?([:@]|-?\d|$)`),
		regexp.MustCompile(`(?m)\bpackage[*a-z-]*\.json|\b(npm (ci|i|install)|yarn( install)?|pnpm (i|install))[ \t]*(-|[&;\\]|\r?$)`),
	}
	runtimePython = &runtime{
		"cpython",
		regexp.MustCompile(`^(python[\d.]*|` + strings.Join(pythonCommands, "|") + `|` + pythonInstrument + `)$`),
		regexp.MustCompile(`python`),
		regexp.MustCompile(`(?mi)\b(pyproject\.toml|setup\.cfg|pipfile|poetry|uv sync|pipenv|pdm)\b|pip3? install\b.*\s\.(\[|\s|$)`),
	}
	runtimeJava = &runtime{
		"jvm",
		regexp.MustCompile(`^(java|catalina\.sh|.*\.jar)$`),
		regexp.MustCompile(`java|jdk|jre|tomcat|jetty`),
		nil,
	}
	runtimeGo = &runtime{"go", nil, nil, regexp.MustCompile(`golang|\bgo (build|install)\b`)}
)

// runtime returns the patterns for the language of the service.
func (s *service) runtime() *runtime {
	switch s.manifests[0].Ecosystem {
	case configfile.Go:
		return runtimeGo
	case configfile.NPM:
		return runtimeNode
	case configfile.PyPI:
		return runtimePython
	default:
		return runtimeJava
	}
}

// dockerfiles returns the Dockerfiles of the service: those in its directory, those that a Compose file builds from it,
// and in a repository with one project those that install and start it. It omits images of another language, and images
// without a runtime that start another program.
func (s *service) dockerfiles(r *runtime) []*configfile.File {
	return lists.Filter(s.configs, func(f *configfile.File) bool { return f.Kind == configfile.Dockerfile && s.image(f, r) })
}

// image reports whether a Dockerfile builds an image of the service.
func (s *service) image(f *configfile.File, r *runtime) bool {
	dir, contexts := path.Dir(f.Path), s.contexts[f.Path]
	switch {
	case dir == s.dir:
	case s.projects[dir], slices.ContainsFunc(contexts, func(c string) bool { return c != s.dir }), len(contexts) == 0 && !s.alone():
		return false
	}
	stage, ok := lastStage(f)
	installs := r.installs == nil || r.installs.Match(f.Source) || slices.ContainsFunc(s.manifests, func(m *configfile.File) bool {
		return mentions(f, strings.TrimPrefix(m.Path, s.dir+"/"))
	})
	starts := r.programs == nil && installs || slices.ContainsFunc(stage, func(i instruction) bool {
		return r.programs != nil && slices.ContainsFunc(i.command(), func(w string) bool { return r.programs.MatchString(path.Base(w)) })
	})
	base := r.base != nil && r.base.Match(bytes.ToLower(f.Source[f.RuntimeStart:f.RuntimeEnd]))
	if f.Runtime != r.name && (f.Runtime != "" || ok && !starts && !base) {
		return false
	}
	return dir == s.dir || len(contexts) > 0 || (f.Runtime == r.name || r.programs == nil) && starts && installs
}

// imageOf returns the instructions of the base stages of the last stage, followed by its own.
func imageOf(stages [][]instruction) []instruction {
	if len(stages) == 0 {
		return nil
	}
	last := stages[len(stages)-1]
	if n := stageNamed(stages[:len(stages)-1], baseOf(last)); n >= 0 {
		return slices.Concat(imageOf(stages[:n+1]), last)
	}
	return last
}

// baseOf returns the base image or base stage of a stage.
func baseOf(stage []instruction) string {
	if from := withoutOptions(stage[0].words); len(from) > 0 {
		return from[0].text
	}
	return ""
}

// stageNamed returns the index of the stage with a name or a number, -1 if there is none.
func stageNamed(stages [][]instruction, name string) int {
	for n, stage := range slices.Backward(stages) {
		from := withoutOptions(stage[0].words)
		if len(from) == 3 && strings.EqualFold(from[1].text, "AS") && strings.EqualFold(from[2].text, name) || strconv.Itoa(n) == name {
			return n
		}
	}
	return -1
}

// withoutOptions returns the words of an instruction after its options.
func withoutOptions(words []word) []word {
	n := slices.IndexFunc(words, func(w word) bool { return !strings.HasPrefix(w.text, "--") })
	return words[max(n, 0):]
}

// option returns the value of an option of an instruction, "" if it has none.
func (i *instruction) option(name string) string {
	for _, w := range i.words {
		if value, ok := strings.CutPrefix(w.text, name+"="); ok {
			return value
		}
	}
	return ""
}

// copies returns the files that instructions copy to an image.
func copies(image []instruction) (sources []string) {
	for _, i := range image {
		if words := withoutOptions(i.words); len(words) > 0 && (i.keyword == "COPY" || i.keyword == "ADD") {
			sources = append(sources, lists.Map(words[:len(words)-1], func(w word) string { return w.text })...)
		}
	}
	return sources
}

// command returns the words of the command of an instruction. A shell command is split into its words.
func (i *instruction) command() (words []string) {
	if i.keyword != "CMD" && i.keyword != "ENTRYPOINT" {
		return nil
	}
	for _, w := range i.words {
		words = append(words, strings.FieldsFunc(w.text, func(r rune) bool { return strings.ContainsRune(" \t\n\"';&", r) })...)
	}
	return words
}

// instruction is an instruction of a Dockerfile.
type instruction struct {
	keyword    string
	start, end int // without the end of its last line
	words      []word
	exec       bool // the words come from a JSON array
}

// word is an argument with its range, without quotes.
type word struct {
	text       string
	start, end int
}

var dockerKeyword = regexp.MustCompile(`^[A-Z]+$`)

// lastStage returns the instructions of the last stage of a Dockerfile. It returns false if the file cannot be parsed.
func lastStage(f *configfile.File) ([]instruction, bool) {
	all := instructions(f)
	if len(all) == 0 {
		return nil, false
	}
	return all[len(all)-1], true
}

// maxStages is the maximum number of stages of a Dockerfile.
const maxStages = 100

// instructions returns the instructions of a Dockerfile by stage, or nil if the file cannot be parsed.
func instructions(f *configfile.File) [][]instruction {
	if bytes.Contains(f.Source, []byte("<<")) || bytes.Contains(f.Source, []byte("escape=`")) {
		return nil
	}
	var all [][]instruction
	for _, read := range f.Instructions() {
		if !dockerKeyword.MatchString(read.Keyword) || len(read.Args) == 0 {
			return nil
		}
		if read.Keyword == "FROM" || len(all) == 0 {
			all = append(all, nil)
		}
		i := instruction{keyword: read.Keyword, start: read.Start, end: read.End}
		i.read(read.Args)
		all[len(all)-1] = append(all[len(all)-1], i)
	}
	if len(all) > 0 && all[0][0].keyword != "FROM" { // ARG instructions before the first stage
		all = all[1:]
	}
	if len(all) > maxStages {
		return nil
	}
	return all
}

// read parses the words of an instruction after its keyword.
func (i *instruction) read(text []byte) {
	base := i.start + len(i.keyword)
	var list []string
	if trimmed := bytes.TrimSpace(text); len(trimmed) > 0 && trimmed[0] == '[' && json.Unmarshal(trimmed, &list) == nil {
		i.exec = true
		at := 0
		for _, w := range list {
			quoted, err := json.Marshal(w)
			from := bytes.Index(text[at:], quoted)
			if err != nil || from < 0 {
				i.words = nil // written with escapes
				return
			}
			from += at
			at = from + len(quoted)
			i.words = append(i.words, word{text: w, start: base + from + 1, end: base + at - 1})
		}
		return
	}
	for at := 0; at < len(text); {
		n := bytes.IndexFunc(text[at:], func(r rune) bool { return r != ' ' && r != '\t' && r != '\\' && r != '\n' && r != '\r' })
		if n < 0 {
			return
		}
		at += n
		end := bytes.IndexAny(text[at:], " \t\n\r")
		if end < 0 {
			end = len(text) - at
		}
		i.words = append(i.words, word{text: string(text[at : at+end]), start: base + at, end: base + at + end})
		at += end
	}
}

// command returns the instruction of a stage that starts one of the named programs, and the name. If the entry point is
// one of them, CMD has its arguments. Any other entry point is expected to run CMD, unless one of the names follows
// other words in it.
func command(stage []instruction, names ...string) (*instruction, word) {
	var entry, cmd *instruction
	for n := range stage {
		switch i := &stage[n]; i.keyword {
		case "ENTRYPOINT":
			entry = i
		case "CMD":
			cmd = i
		}
	}
	named := func(w word) bool { return slices.Contains(names, path.Base(w.text)) }
	for _, i := range []*instruction{entry, cmd} {
		if i == nil || len(i.words) == 0 {
			continue
		}
		first := i.words[0]
		if !i.exec && first.text == "exec" && len(i.words) > 1 {
			first = i.words[1]
		}
		if named(first) {
			return i, first
		}
		if i == entry && (!i.exec || slices.ContainsFunc(i.words, named)) {
			return nil, word{}
		}
	}
	return nil, word{}
}

// before inserts lines, which name the service, before the instruction that starts the program of an image. It reports
// whether there is one.
func (s *service) before(f *configfile.File, stage []instruction, lines ...string) (line int, ok bool) {
	s.deployed = true
	for _, i := range stage {
		if i.keyword == "CMD" || i.keyword == "ENTRYPOINT" {
			s.insert(f.Path, f.Source, i.start, lines, newline(f.Source))
			return lineOf(f.Source, i.start), true
		}
	}
	text := strings.ReplaceAll(strings.Join(lines, "\n"), " \\\n   ", "")
	s.leave(f.Path, 0, fmt.Sprintf("Add to the image what starts the program: `%s`: no CMD or ENTRYPOINT was found", strings.ReplaceAll(text, "\n", "` and `")))
	return 0, false
}

// stageOf returns the last stage of a Dockerfile. If the file cannot be parsed, it adds a step.
func (s *service) stageOf(f *configfile.File) ([]instruction, bool) {
	stage, ok := lastStage(f)
	if !ok {
		s.leave(f.Path, 0, "The Dockerfile is left: it has parts that are not read, such as here-documents")
	}
	return stage, ok
}

// quoteOptions quotes runtime options as the value of a variable of an image. It keeps the options that the base image
// or an earlier line sets, and appends to them.
func quoteOptions(name, options string) string {
	return `"$` + name + " " + strings.TrimPrefix(quoteDocker(options), `"`)
}

// setsVariable reports whether an image sets a variable to a value that contains a text.
func setsVariable(f *configfile.File, name, text string) bool {
	return slices.ContainsFunc(f.Environment, func(v configfile.Variable) bool { return v.Name == name && strings.Contains(v.Value, text) })
}

// mentions reports whether a deployment file contains a text.
func mentions(f *configfile.File, text string) bool { return bytes.Contains(f.Source, []byte(text)) }
