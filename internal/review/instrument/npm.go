// SPDX-License-Identifier: Apache-2.0

package instrument

import (
	"bytes"
	"encoding/json"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"assay/internal/lists"
	"assay/internal/review/configfile"
	"assay/internal/review/patch"
)

const (
	nodePackage = "@opentelemetry/auto-instrumentations-node"
	nodeRequire = "--require " + nodePackage + "/register"
	// nodeLoader lets instrumentation patch the imports of ES modules. Package managers such as pnpm let a program load
	// only the packages that its manifest names.
	nodeLoader = "--experimental-loader=" + nodeHooks + "/hook.mjs "
	nodeHooks  = "@opentelemetry/instrumentation"
)

// nodeServers are packages that only services of Node.js depend on.
var nodeServers = []string{
	"express", "fastify", "koa", "@hapi/hapi", "@nestjs/core", "restify", "connect", "polka", "hono", "@grpc/grpc-js", "socket.io", "ws", "@apollo/server",
	"apollo-server", "apollo-server-express", "apollo-server-fastify", "apollo-server-koa",
	"kafkajs", "amqplib", "bull", "bullmq", "@aws-sdk/client-sqs", "pg", "mysql2", "mongodb", "mongoose", "redis", "ioredis",
}

// nodeSDKs are packages that set up an SDK. A service with one of them is not changed, even if it also uses nodePackage.
var nodeSDKs = []string{
	"@opentelemetry/sdk-node", "@opentelemetry/sdk-trace-node", "@splunk/otel", "@vercel/otel", "@elastic/opentelemetry-node", "@honeycombio/opentelemetry-node",
	"@azure/monitor-opentelemetry", "dd-trace", "elastic-apm-node", "newrelic", "@sentry/node",
}

// startNode matches a script whose last command starts Node.js.
var startNode = regexp.MustCompile(`^((?:[^"'|;]*&& *)?(?:cross-env )?(?:[A-Z][A-Z0-9_]*=\S+ )*)node (.*)$`)

// npmStarts are the names of scripts that start the program.
var npmStarts = []string{"start", "start:prod", "start:production", "start-prod"}

// npmStart matches commands that run a script.
var npmStart = regexp.MustCompile(`(?:^|[ /])(?:npm|yarn|pnpm)(?: -\S+)*(?: run)? (\S+)(?: |$)`)

// npm instruments a service of Node.js.
func (s *service) npm(m *configfile.File) bool {
	var manifest struct {
		Name, Type string
		Scripts    map[string]string
	}
	if err := json.Unmarshal(m.Source, &manifest); err != nil {
		s.leave(m.Path, 0, "The project is left: the manifest has members of types that npm rejects")
		return true
	}
	starts := map[string][]string{} // parts of the commands by the names of scripts
	for _, name := range npmStarts {
		if m := startNode.FindStringSubmatch(manifest.Scripts[name]); m != nil {
			starts[name] = m
		}
	}
	_, server := s.has(nodeServers...)
	_, renders := s.has("next", "nuxt")
	images := slices.DeleteFunc(s.dockerfiles(runtimeNode), installsOther)
	if !server && !renders && (starts["start"] == nil || len(images) == 0 && s.ends()) {
		return false
	}
	framework, ok := s.has(nodeFrameworks...)
	if !ok {
		framework, ok = s.develops(nodeFrameworks...) // for frameworks that build the program
	}
	if ok {
		s.leave(m.Path, 0, "The project is left: `"+framework+"` has a setup of its own for OpenTelemetry")
		return true
	}
	scripts := map[string]bool{} // of ES modules
	for name, script := range manifest.Scripts {
		scripts[name] = strings.Contains(script, ".mjs")
	}
	modules := func(command string) bool {
		return manifest.Type == "module" || strings.Contains(command, ".mjs") || slices.ContainsFunc(strings.Fields(command), func(word string) bool { return scripts[word] })
	}
	options := func(command string) string {
		if modules(command) {
			return nodeLoader + nodeRequire
		}
		return nodeRequire
	}
	found, own := s.setUpBy(slices.Concat(nodeSDKs, nodeTracers)...)
	_, sdk := s.has(nodePackage)
	if !own && !sdk {
		found, own = s.setUpBy(nodePackage)
	}
	if own {
		s.leave(m.Path, 0, "Nothing is added to the program: "+found+" sets up telemetry")
		return true
	}
	if file, line := s.setUpIn(); file != "" { // with the packages of a directory above
		s.leave(file, line, setUpHere)
		return true
	}
	var add []string
	raise := ""
	if !sdk {
		add, raise, ok = s.nodePackages(m, slices.ContainsFunc(npmStarts, func(name string) bool { return starts[name] != nil && modules(manifest.Scripts[name]) }) || slices.ContainsFunc(images, func(f *configfile.File) bool { return modules(commandOf(f)) }))
		if !ok {
			return true
		}
	}
	hooks := func(options string) { // Node.js finds only packages that the project itself has
		if sdk && strings.HasPrefix(options, nodeLoader) && !slices.ContainsFunc(m.Dependencies, func(d configfile.Dependency) bool { return d.Name == nodeHooks }) {
			s.leave(m.Path, 0, "Install `"+nodeHooks+"` in the version that `"+nodePackage+"` requires: the program loads its hooks")
		}
	}
	started, loads := false, false // by something that is found, and by something that loads the package
	// Dockerfiles whose images start the instrumentation, and those of them that use NODE_OPTIONS.
	inImage, inOptions := map[string]bool{}, map[string]bool{}
	for _, name := range npmStarts {
		start := starts[name]
		if start == nil {
			continue
		}
		if strings.Contains(start[2], nodePackage) {
			started, loads = true, true
			continue
		}
		if strings.Contains(start[2], "--import") {
			continue
		}
		if from, end, ok := member(m.Source, "scripts", name); ok {
			s.edit(m.Path, m.Source, from, end, quoteJSON(start[1]+"node "+options(start[2])+" "+start[2]))
			hooks(options(start[2]))
			run := "npm run " + name
			if name == "start" {
				run = "npm start"
			}
			s.did(m.Path, lineOf(m.Source, from), "Start automatic instrumentation with the program: `"+run+"`")
			started, loads = true, true
		}
	}
	for _, f := range images {
		if mentions(f, nodePackage) || mentions(f, "OTEL_SERVICE_NAME") {
			started, inImage[f.Path], inOptions[f.Path] = true, mentions(f, nodePackage), setsVariable(f, "NODE_OPTIONS", nodePackage)
			loads = loads || inImage[f.Path]
			continue
		}
		stage, ok := s.stageOf(f)
		if !ok {
			continue
		}
		command := strings.Fields(commandOf(f))
		if run := npmStart.FindStringSubmatch(commandOf(f)); run != nil && slices.ContainsFunc(command, func(word string) bool { return starts[word] != nil }) {
			if line, ok := s.before(f, stage, "ENV OTEL_SERVICE_NAME="+quoteDocker(s.name)); ok {
				s.did(f.Path, line, "Name the service")
			}
			continue
		}
		started = true
		variable := "`NODE_OPTIONS=" + strconv.Quote(options(commandOf(f))) + "`"
		if !s.installed(f) {
			s.leave(f.Path, 0, "Install `"+nodePackage+"` in the image and start the program with "+variable+": no instruction installs the packages of this manifest in the working directory of the image")
			inImage[f.Path] = true
			continue
		}
		if !startsNode(stage, manifest.Scripts) {
			s.leave(f.Path, 0, "Start the program of the image with "+variable+": the command of the image is neither `node` nor a script of this manifest")
			inImage[f.Path] = true
			continue
		}
		if line, ok := s.before(f, stage, "ENV OTEL_SERVICE_NAME="+quoteDocker(s.name)+" \\", "    NODE_OPTIONS="+quoteOptions("NODE_OPTIONS", options(commandOf(f)))); ok {
			hooks(options(commandOf(f)))
			s.did(f.Path, line, "Start automatic instrumentation with the program of the image")
			loads, inImage[f.Path], inOptions[f.Path] = true, true, true
		}
	}
	s.deployments(images, func(f *configfile.File, image string, container *yaml.Node) []variable {
		known := slices.ContainsFunc(images, func(f *configfile.File) bool { return f.Path == image })
		of := func(started map[string]bool) bool { // whether the image of the container is one of them
			if known {
				return started[image]
			}
			return slices.Contains(slices.Collect(maps.Values(started)), true)
		}
		command, _ := overridden(f, container)
		words := commandWords(command)
		options := options(strings.Join(words, " "))
		switch {
		case of(inOptions):
			return []variable{{name: "NODE_OPTIONS", value: options, mark: nodePackage, image: true}}
		case command == nil || of(inImage) || slices.ContainsFunc(words, func(word string) bool { return word == "start" || starts[word] != nil }):
		case len(words) > 0 && path.Base(words[0]) == "node":
			loads = true
			return []variable{{name: "NODE_OPTIONS", value: options, mark: nodePackage}}
		default:
			s.leave(f.Path, command.Line, "Start the program of the container with `NODE_OPTIONS="+strconv.Quote(options)+"`: it overrides the command of the image")
		}
		return nil
	})
	install := "Install " + strings.ReplaceAll(strings.Join(add, ", "), `"`, "`")
	start := " the program with `NODE_OPTIONS=" + strconv.Quote(options("")) + "`: no script and no Dockerfile that starts it was found"
	switch {
	case loads && len(add) > 0:
		s.addDependencies(m, add...)
		s.locks(nodeWorkspace, []lock{{"package-lock.json", "npm install"}, {"yarn.lock", "yarn install"}, {"pnpm-lock.yaml", "pnpm install"}, {"bun.lock", "bun install"}})
	case !started && s.required(manifest.Name) && !slices.ContainsFunc(npmStarts, func(name string) bool { return manifest.Scripts[name] != "" }):
		return false // a library, which runs in the programs of other packages
	case !started && len(add) > 0:
		s.leave(m.Path, 0, install+" and start"+start)
	case !started && !loads:
		s.leave(m.Path, 0, "Start"+start)
	case len(add) > 0:
		s.leave(m.Path, 0, install+": the program needs them when it starts as other steps say")
	}
	if raise != "" {
		s.leave(m.Path, lineOf(m.Source, m.RuntimeStart), raise)
	}
	s.leaveName(images)
	return true
}

// nodeStays matches code of programs that run until they are stopped: servers, consumers, jobs.
var nodeStays = regexp.MustCompile(`\b(createServer|createSecureServer|[lL]isten|[sS]erve|setInterval|setTimeout|[sS]ubscribe|[cC]onsume|schedule|watch)\s*\(|\b(while|for)\s*\(\s*(true|1|;\s*;)\s*\)|\.on\(|\bnew \w*(Server|Worker|Consumer|Socket|Cron\w*)\b`)

// ends reports whether the service is a script that exits by itself. It returns false if the repository has none of the
// service's code.
func (s *service) ends() (found bool) {
	for _, text := range s.code() {
		if nodeStays.Match(text) {
			return false
		}
		found = true
	}
	return found
}

var (
	// installsNode matches a command that installs the packages of a manifest. elsewhere matches options that make it
	// install them in another directory.
	installsNode = regexp.MustCompile(`^((then|else|do|[A-Z_]+=\S*) )*((npm|pnpm) (ci|i|install)\b|yarn( install)?( -|$)|bun (i|install)\b)`)
	elsewhere    = regexp.MustCompile(` (-g|--global|--prefix|-C|--dir|--cwd)\b`)
	separators   = regexp.MustCompile(`&&|;|\|\|`)
)

// installsOther reports whether an image copies no files of the project and only runs a program that npm installs.
func installsOther(f *configfile.File) bool {
	stages := instructions(f)
	has := func(matches func(i instruction) bool) bool {
		return slices.ContainsFunc(stages, func(stage []instruction) bool { return slices.ContainsFunc(stage, matches) })
	}
	return has(func(i instruction) bool { return i.keyword == "RUN" && elsewhere.Match(f.Source[i.start:i.end]) }) &&
		!has(func(i instruction) bool { return i.keyword == "COPY" || i.keyword == "ADD" })
}

// nodeImage holds the contents of a stage of a Dockerfile, by directory.
type nodeImage struct {
	work                string // the working directory
	manifests, packages map[string]bool
}

// maxDirectories limits the directories of an image that are tracked.
const maxDirectories = 100

// installed reports whether an image has the packages of a manifest in its working directory, where Node.js finds them.
func (s *service) installed(f *configfile.File) bool {
	stages := instructions(f)
	images := make([]nodeImage, len(stages))
	for n, stage := range stages {
		m := nodeImage{"/", map[string]bool{}, map[string]bool{}}
		if base := stageNamed(stages[:n], baseOf(stage)); base >= 0 {
			m = nodeImage{images[base].work, maps.Clone(images[base].manifests), maps.Clone(images[base].packages)}
		}
		for _, i := range stage {
			switch words := withoutOptions(i.words); {
			case len(words) == 0:
			case i.keyword == "WORKDIR":
				m.work = m.resolve(words[0].text)
			case i.keyword == "RUN":
				m.run(lists.Map(words, func(w word) string { return w.text }), i.option("--mount") != "" && bytes.Contains(f.Source[i.start:i.end], []byte("package.json")))
			case (i.keyword == "COPY" || i.keyword == "ADD") && len(words) > 1:
				var packages map[string]bool
				if from := stageNamed(stages[:n], i.option("--from")); from >= 0 {
					packages = images[from].packages
				}
				for _, w := range words[:len(words)-1] {
					m.copy(path.Clean(w.text), m.resolve(words[len(words)-1].text), s.dir, i.option("--from") != "", packages)
				}
			}
		}
		images[n] = m
	}
	return len(images) > 0 && images[len(images)-1].packages[images[len(images)-1].work]
}

// resolve returns the path of a directory in the image.
func (m *nodeImage) resolve(dir string) string {
	if !path.IsAbs(dir) && !strings.HasPrefix(dir, "$") {
		dir = path.Join(m.work, dir)
	}
	return path.Join("/", dir)
}

// run notes the directories in which commands install the packages of a manifest.
func (m *nodeImage) run(words []string, mounted bool) {
	at := m.work
	for _, command := range separators.Split(strings.Join(words, " "), -1) {
		command = strings.TrimSpace(command)
		if dir, ok := strings.CutPrefix(command, "cd "); ok {
			at = m.resolve(dir)
		}
		if installsNode.MatchString(command) && !elsewhere.MatchString(command) && (m.manifests[at] || mounted) {
			m.packages[at] = true
		}
	}
}

// copy records the files that the image gets from the directory of the service, or from another stage with packages.
func (m *nodeImage) copy(source, dest, service string, staged bool, packages map[string]bool) {
	if len(m.manifests)+len(m.packages) > maxDirectories {
		return
	}
	dir, base := path.Split(source)
	switch own := slices.Contains([]string{".", "/", service}, path.Clean(dir)); {
	case base == "node_modules" && path.Base(dest) == base:
		m.packages[path.Dir(dest)] = true
	case staged:
		for at := range packages {
			if rest, ok := strings.CutPrefix(at+"/", strings.TrimSuffix(path.Join("/", source), "/")+"/"); ok {
				m.packages[path.Join(dest, rest)] = true
			}
		}
	case slices.Contains([]string{".", "/", service}, source):
		m.manifests[dest] = true
	case own && strings.HasPrefix(base, "package") && !strings.Contains(base, "lock"):
		if path.Base(dest) == base {
			dest = path.Dir(dest)
		}
		m.manifests[dest] = true
	}
}

// wrappers start the program that follows them.
var wrappers = []string{"sh", "bash", "-c", "-lc", "exec", "dumb-init", "tini", "--", "-g", "cross-env"}

// startsNode reports whether an image starts Node.js or a script of the manifest. If the entry point is another
// program, it is expected to run CMD.
func startsNode(stage []instruction, scripts map[string]string) bool {
	starts := map[string]bool{} // by instruction; the last one counts
	for _, i := range stage {
		words := i.command()
		n := slices.IndexFunc(words, func(w string) bool { return !slices.Contains(wrappers, path.Base(w)) && !strings.Contains(w, "=") })
		if i.keyword != "CMD" && i.keyword != "ENTRYPOINT" || n < 0 {
			continue
		}
		run := npmStart.FindStringSubmatch(strings.Join(words[n:], " "))
		starts[i.keyword] = path.Base(words[n]) == "node" || run != nil && scripts[run[1]] != "" && strings.HasPrefix(strings.Join(words[n:], " "), strings.TrimSpace(run[0]))
		if i.keyword == "ENTRYPOINT" && !i.exec && !starts[i.keyword] {
			return false
		}
	}
	return starts["ENTRYPOINT"] || starts["CMD"]
}

// commandOf returns the words of the commands of an image.
func commandOf(f *configfile.File) string {
	var words []string
	stage, _ := lastStage(f)
	for _, i := range stage {
		words = append(words, i.command()...)
	}
	return strings.Join(words, " ")
}

var (
	// nodeLatest matches images of Node.js whose tag has no version.
	nodeLatest = regexp.MustCompile(`^(docker\.io/)?(library/)?node(:(latest|lts|current|alpine|slim|(lts|current)-[a-z]+))?$`)
	// nodeOpen matches ranges of versions without an upper bound.
	nodeOpen = regexp.MustCompile(`^([^<]*>[^<]*|\*?)$`)
)

// latest is the version of a runtime that is always the newest one.
const latest = "latest"

// nodeRuntime returns the version of Node.js that the program runs with, as written, and a text with its source. The
// version is "" if no image and no file of a version manager has one, and the range of the manifest only excludes older
// ones.
func (s *service) nodeRuntime(m *configfile.File) (version, says string) {
	for _, f := range s.dockerfiles(runtimeNode) {
		if image := imageOf(instructions(f)); f.RuntimeVersion != "" {
			version, says = f.RuntimeVersion, "the image has "
		} else if len(image) > 0 && nodeLatest.MatchString(baseOf(image)) {
			version = latest
		}
	}
	if version != "" {
		return version, says
	}
	if !nodeOpen.MatchString(m.RuntimeVersion) {
		return m.RuntimeVersion, "the manifest allows "
	}
	for dir := range configfile.Above(s.dir) {
		for _, name := range []string{".nvmrc", ".node-version"} {
			text, err := patch.Read(s.root, path.Join(dir, name))
			switch version := string(bytes.TrimSpace(text)); {
			case err != nil:
			case version == "node" || version == "lts/*":
				return latest, ""
			case firstNumber(version) > 0:
				return version, "`" + name + "` has "
			}
		}
	}
	if firstNumber(m.RuntimeVersion) < 18 {
		return "", ""
	}
	return m.RuntimeVersion, "the manifest allows "
}

// nodePackages returns the dependencies to add, with those for ES modules, and the text of a step if the manifest allows
// versions of Node.js that they do not support. It returns false if they cannot be added.
func (s *service) nodePackages(m *configfile.File, modules bool) (add []string, raise string, ok bool) {
	api, auto, hooks, needs := nodeAPI20, nodeAuto20, nodeHooks20, "^18.19.0 || >=20.6.0"
	runtime, says := s.nodeRuntime(m)
	if major := firstNumber(runtime); runtime == latest || major >= 23 || major == 22 && !strings.Contains(runtime, ".") {
		api, auto, hooks, needs = nodeAPI, nodeAuto, nodeHooksVersion, ">=22.15.0"
	} else if major > 0 && major < 18 {
		s.leave(m.Path, 0, "Nothing is added: the SDK of today needs Node.js 18.19 or newer, and "+says+strconv.Itoa(major))
		return nil, "", false
	}
	if major := firstNumber(m.RuntimeVersion); nodeOpen.MatchString(m.RuntimeVersion) && major > 0 && major < firstNumber(needs) {
		raise = "Raise `engines` to `" + needs + "`: the SDK needs it, and the manifest allows Node.js " + strconv.Itoa(major)
	}
	add = []string{`"@opentelemetry/api": "` + api + `"`, `"` + nodePackage + `": "` + auto + `"`}
	if modules {
		add = append(add, `"`+nodeHooks+`": "`+hooks+`"`)
	}
	if s.moves(m, add) {
		return nil, "", false
	}
	if len(installed(m)) == 0 {
		s.leave(m.Path, 0, "Install "+strings.ReplaceAll(strings.Join(add, ", "), `"`, "`")+": the manifest has no dependencies to add them to")
		return nil, "", false
	}
	return add, raise, true
}

// lock is a lock file and the command that updates it.
type lock struct{ file, command string }

// Declarations of a workspace in the manifest of its root.
var (
	nodeWorkspace   = regexp.MustCompile(`"workspaces"\s*:`)
	pythonWorkspace = regexp.MustCompile(`(?m)^\[tool\.uv\.workspace\]`)
)

// locks adds steps to update the lock files of the service: those in its directory, or else in the root of its
// workspace.
func (s *service) locks(workspace *regexp.Regexp, locks []lock) {
	for dir := range configfile.Above(s.dir) {
		found := false
		if dir == s.dir || s.existsAt(path.Join(dir, "pnpm-workspace.yaml")) || slices.ContainsFunc(s.configs, func(f *configfile.File) bool {
			return isProject(f) && path.Dir(f.Path) == dir && f.Ecosystem == s.manifests[0].Ecosystem && workspace.Match(f.Source)
		}) {
			for _, l := range locks {
				if name := path.Join(dir, l.file); s.existsAt(name) {
					s.leave(name, 0, "Run `"+l.command+"`, which writes the new dependencies to the lock file")
					found = true
				}
			}
		}
		if found {
			return
		}
	}
}

// moves adds a step for each new dependency that a manifest already has as a development dependency, and reports whether
// there are any. npm omits such a dependency in production, even if "dependencies" names it too.
func (s *service) moves(m *configfile.File, entries []string) bool {
	found := false
	for _, d := range m.Dependencies {
		if d.Development && slices.ContainsFunc(entries, func(e string) bool { return strings.HasPrefix(e, `"`+d.Name+`"`) }) {
			s.leave(m.Path, lineOf(m.Source, d.Start), "Move `"+d.Name+"` from `devDependencies` to `dependencies`: the program needs it")
			found = true
		}
	}
	return found
}

// installed returns the dependencies of package.json that are installed with the program.
func installed(m *configfile.File) []configfile.Dependency {
	from, _, ok := member(m.Source, "dependencies")
	return lists.Filter(m.Dependencies, func(d configfile.Dependency) bool { return ok && !d.Development && d.Start > from })
}

// addDependencies adds entries to the dependencies of package.json, sorted by name. Existing entries are not changed.
func (s *service) addDependencies(m *configfile.File, entries ...string) bool {
	before := installed(m)
	if len(before) == 0 {
		return false
	}
	entries = slices.DeleteFunc(entries, func(e string) bool {
		return slices.ContainsFunc(before, func(d configfile.Dependency) bool { return strings.HasPrefix(e, `"`+d.Name+`"`) })
	})
	for _, e := range entries {
		at := before[0].Start
		for _, d := range before {
			if name := "\"" + d.Name; name < e {
				at = -1
				continue
			}
			if at < 0 || d.Start < at {
				at = d.Start
			}
			break
		}
		if at < 0 {
			at = before[0].Start // sorted by npm when it installs them
		}
		s.insert(m.Path, m.Source, at, []string{e + ","}, " ")
	}
	s.did(m.Path, lineOf(m.Source, before[0].Start), "Add "+strings.ReplaceAll(strings.Join(entries, ", "), `"`, "`"))
	return true
}

// member returns the range of the value at a path of member names in a JSON object.
func member(source []byte, names ...string) (start, end int, ok bool) {
	d := json.NewDecoder(bytes.NewReader(source))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return 0, 0, false
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return 0, 0, false
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return 0, 0, false
		}
		if key != names[0] {
			continue
		}
		end = int(d.InputOffset())
		start = end - len(value)
		if len(names) == 1 {
			return start, end, true
		}
		from, to, ok := member(value, names[1:]...)
		return start + from, start + to, ok
	}
	return 0, 0, false
}

func quoteJSON(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(s) != nil {
		return `""`
	}
	return strings.TrimSpace(b.String())
}

// quoteDocker quotes the value of a variable.
func quoteDocker(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, `$`, `\$`, "\n", " ", "\r", " ").Replace(s) + `"`
}

func newline(source []byte) string {
	if bytes.Contains(source, []byte("\r\n")) {
		return "\r\n"
	}
	return "\n"
}

var number = regexp.MustCompile(`\d+`)

// firstNumber returns the first number in a version or version range, or 0.
func firstNumber(version string) int {
	n, err := strconv.Atoi(number.FindString(version))
	if err != nil {
		return 0
	}
	return n
}
