// SPDX-License-Identifier: Apache-2.0

package instrument

import (
	"bytes"
	"cmp"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/aymanbagabas/go-udiff"
	"go.yaml.in/yaml/v3"

	"assay/internal/lists"
	"assay/internal/review/configfile"
)

// pythonLibraries are the libraries that instrumentation exists for, with the names of its packages after
// "opentelemetry-instrumentation-" (https://github.com/open-telemetry/opentelemetry-python-contrib).
var pythonLibraries = map[string]string{
	"aio-pika": "aio-pika", "aiohttp": "aiohttp-client aiohttp-server", "aiokafka": "aiokafka", "aiopg": "aiopg", "asyncpg": "asyncpg", "boto3": "botocore boto3sqs", "botocore": "botocore",
	"cassandra-driver": "cassandra", "celery": "celery", "confluent-kafka": "confluent-kafka", "django": "django", "elasticsearch": "elasticsearch", "falcon": "falcon", "fastapi": "fastapi",
	"flask": "flask", "grpcio": "grpc", "httpx": "httpx", "jinja2": "jinja2", "kafka-python": "kafka-python", "kafka-python-ng": "kafka-python", "motor": "pymongo", "mysql-connector-python": "mysql", "mysqlclient": "mysqlclient",
	"pika": "pika", "psycopg": "psycopg", "psycopg2": "psycopg2", "psycopg2-binary": "psycopg2", "pymemcache": "pymemcache", "pymongo": "pymongo", "pymssql": "pymssql", "pymysql": "pymysql",
	"pyramid": "pyramid", "redis": "redis", "remoulade": "remoulade", "requests": "requests", "sqlalchemy": "sqlalchemy", "starlette": "starlette", "tornado": "tornado", "tortoise-orm": "tortoiseorm", "urllib3": "urllib3",
}

// pythonModules are the modules of the standard library that instrumentation exists for.
var pythonModules = map[string]*regexp.Regexp{
	"sqlite3": regexp.MustCompile(`(?m)^\s*(import|from)\s+sqlite3\b`),
	"urllib":  regexp.MustCompile(`(?m)^\s*(import\s+urllib\.request|from\s+urllib(\.request\s+import|\s+import\s+[^\n]*\brequest))\b`),
}

// pythonServers are packages that only services depend on.
var pythonServers = []string{
	"aiohttp", "celery", "django", "falcon", "fastapi", "flask", "grpcio", "gunicorn", "hypercorn", "pyramid", "sanic", "starlette", "tornado", "uvicorn", "uwsgi",
	"aio-pika", "aiokafka", "apscheduler", "bottle", "confluent-kafka", "dramatiq", "google-cloud-pubsub", "huey", "kafka-python", "litestar", "nats-py", "paho-mqtt", "pika",
	"quart", "remoulade", "rq", "schedule",
}

var pythonSDKs = []string{"opentelemetry-sdk", "azure-monitor-opentelemetry", "splunk-opentelemetry", "elastic-opentelemetry", "aws-opentelemetry-distro", "logfire", "ddtrace", "elastic-apm", "newrelic", "sentry-sdk"}

// pythonCommands match the commands that `opentelemetry-instrument` can wrap.
var pythonCommands = []string{"python", "python3", "gunicorn", "uvicorn", "hypercorn", "flask", "celery", "fastapi", "waitress-serve"}

const pythonInstrument = "opentelemetry-instrument"

// python instruments a service in Python.
func (s *service) python() bool {
	if _, server := s.has(pythonServers...); !server {
		return false
	}
	images := s.dockerfiles(runtimePython)
	setups := slices.Concat(pythonSDKs, pythonVendors)
	found, ok := s.has(append(setups, pythonDistro)...)
	if found != pythonDistro {
		if found, own := s.setUpBy(setups...); own {
			s.leave(s.manifests[0].Path, 0, "Nothing is added to the program: "+found+" sets up telemetry")
			return true
		}
	}
	if file, line := s.setUpIn(); file != "" && !slices.ContainsFunc(images, func(f *configfile.File) bool { return mentions(f, pythonInstrument) }) {
		s.leave(file, line, setUpHere)
		return true
	} else if !ok && !s.addPython() {
		return true
	}
	settings, django := "", false
	if _, django = s.has("django"); django {
		settings = s.djangoSettings()
	}
	started := false
	var unknown *configfile.File // does not start a known program
	for _, f := range images {
		if mentions(f, pythonInstrument) {
			started = true
			continue
		}
		stage, ok := s.stageOf(f)
		if !ok {
			continue
		}
		i, first := command(stage, pythonCommands...)
		if i == nil {
			unknown = cmp.Or(unknown, f)
			continue
		}
		variables := []string{"ENV OTEL_SERVICE_NAME=" + quoteDocker(s.name) + " \\", "    OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf"}
		if django && !mentions(f, djangoVariable) {
			if settings == "" {
				s.leave(f.Path, lineOf(f.Source, i.start), "Start the program with `"+pythonInstrument+"`"+djangoStep)
				started = true
				continue
			}
			variables = append(variables[:1], variables[1]+" \\", "    "+djangoVariable+"="+quoteDocker(settings))
		}
		if withoutPrograms(f) {
			s.leave(f.Path, lineOf(f.Source, i.start), "Copy `"+pythonInstrument+"` to the image and start the program with it: the image has the packages of another stage, not their programs")
			started = true
			continue
		}
		program := pythonInstrument
		if virtualEnvironment.MatchString(first.text) { // which PATH may lack
			program = path.Dir(first.text) + "/" + pythonInstrument
		}
		if i.exec {
			s.edit(f.Path, f.Source, first.start, first.start, program+`", "`)
		} else {
			s.edit(f.Path, f.Source, first.start, first.start, program+" ")
		}
		s.before(f, stage, variables...)
		s.did(f.Path, lineOf(f.Source, i.start), "Start the program with `"+pythonInstrument+"`")
		started = true
	}
	s.deployments(images, func(f *configfile.File, _ string, container *yaml.Node) []variable {
		add, ok := s.startPython(f, container, images, django, settings)
		started = started || ok
		return add
	}, variable{name: "OTEL_EXPORTER_OTLP_PROTOCOL", value: "http/protobuf"})
	if !started {
		file, reason := s.manifests[0].Path, "no Dockerfile that starts it was found"
		if unknown != nil {
			file, reason = unknown.Path, "the program that the image starts is not known"
		}
		text := "Start the program with `" + pythonInstrument + "`, such as `" + pythonInstrument + " python app.py`: " + reason
		if django {
			text += ". Set `" + djangoVariable + "` for it: the instrumentation of Django reads it before the program sets it"
		}
		s.leave(file, 0, text)
	}
	s.leaveName(images)
	return true
}

var (
	// virtualEnvironment matches programs of a virtual environment or of a user.
	virtualEnvironment = regexp.MustCompile(`(venv|env|\.local)/bin/[^/]+$`)
	pythonPackages     = regexp.MustCompile(`(/site-packages|/lib/python[\d.]*)/?$`)
	pythonPrograms     = regexp.MustCompile(`(^|/)bin(/|$)`)
	pythonInstalls     = regexp.MustCompile(`\b(pip3?|uv|poetry|pipenv|pdm)\b`)
)

// withoutPrograms reports whether an image copies the packages of another stage without their programs.
func withoutPrograms(f *configfile.File) bool {
	image := imageOf(instructions(f))
	sources := copies(image)
	return slices.ContainsFunc(sources, pythonPackages.MatchString) && !slices.ContainsFunc(sources, pythonPrograms.MatchString) &&
		!slices.ContainsFunc(image, func(i instruction) bool {
			return i.keyword == "RUN" && pythonInstalls.Match(f.Source[i.start:i.end])
		})
}

// startPython instruments a container that overrides the command of its image. It returns the variables that the
// container needs, and reports whether the command starts the program.
func (s *service) startPython(f *configfile.File, container *yaml.Node, images []*configfile.File, django bool, settings string) (add []variable, ok bool) {
	started, entry := overridden(f, container)
	if started == nil {
		return nil, false
	}
	programs := append([]string{pythonInstrument}, pythonCommands...)
	kept, set := 0, 0 // images whose entry point starts the program, and images with the settings of Django
	for _, image := range images {
		stage, _ := lastStage(image)
		if slices.ContainsFunc(stage, func(i instruction) bool {
			return i.keyword == "ENTRYPOINT" && len(i.words) > 0 && slices.Contains(programs, path.Base(i.words[0].text))
		}) {
			kept++
		}
		if edited := s.files[image.Path]; mentions(image, djangoVariable) || edited != nil && slices.ContainsFunc(edited.Edits, func(e udiff.Edit) bool { return strings.Contains(e.New, djangoVariable) }) {
			set++
		}
	}
	if !entry && kept > 0 && kept == len(images) {
		return nil, false
	}
	words := commandWords(started)
	if strings.Contains(strings.Join(words, " "), pythonInstrument) {
		return nil, true
	}
	reason := ": it overrides the command of the image"
	if django && set < max(len(images), 1) && !mentions(f, djangoVariable) {
		if reason = djangoStep; settings != "" && configfile.Get(container, "env_file") == nil && configfile.Get(container, "envFrom") == nil {
			add = []variable{{name: djangoVariable, value: settings}}
		}
	}
	if !entry && kept > 0 || len(words) == 0 || !slices.Contains(pythonCommands, path.Base(words[0])) || reason == djangoStep && add == nil || !s.prefix(f, container, started, pythonInstrument) {
		s.leave(f.Path, started.Line, "Start the program of the container with `"+pythonInstrument+"`"+reason)
		return nil, false
	}
	return add, true
}

// djangoVariable is the variable with the settings module of Django. The instrumentation reads the settings before the
// program starts. Without the variable it configures empty settings, and the program fails.
const (
	djangoVariable = "DJANGO_SETTINGS_MODULE"
	djangoStep     = " and with `" + djangoVariable + "` in its environment: the instrumentation of Django reads it before the program sets it"
)

// djangoModule matches the place where a program names its settings.
var djangoModule = regexp.MustCompile(djangoVariable + `["'](?:\s*,|\]\s*=)\s*["']([A-Za-z_][\w.]*)["']`)

// djangoSettings returns the settings module if all programs of the service name the same one, otherwise "".
func (s *service) djangoSettings() (module string) {
	for _, text := range s.code() {
		for _, m := range djangoModule.FindAllSubmatch(text, -1) {
			if name := string(m[1]); module == "" {
				module = name
			} else if module != name {
				return ""
			}
		}
	}
	return module
}

// standardLibrary returns the modules of the standard library with instrumentation that the code imports.
func (s *service) standardLibrary() (modules []string) {
	for _, text := range s.code() {
		for module, imports := range pythonModules {
			if !slices.Contains(modules, module) && imports.Match(text) {
				modules = append(modules, module)
			}
		}
	}
	return modules
}

// compiledBy matches the header of a requirements file that a tool compiled, with the command to compile it again.
var compiledBy = regexp.MustCompile(`\A(?:#[^\n]*\n){0,5}#[ \t]+((?:uv (?:pip compile|export)|pip-compile|poetry export)\b[ \w./=:,@-]*)\r?\n`)

// addPython adds the dependencies to the first manifest that lists dependencies.
func (s *service) addPython() bool {
	add := []string{pythonDistro, "opentelemetry-exporter-otlp"}
	var m *configfile.File
	for _, f := range s.manifests {
		base := strings.ToLower(path.Base(f.Path))
		development := strings.Contains(base, "dev") || strings.Contains(base, "test")
		for _, d := range f.Dependencies {
			if d.Development || development {
				continue
			}
			m = cmp.Or(m, f)
			for _, library := range strings.Fields(pythonLibraries[strings.ToLower(d.Name)]) {
				add = append(add, pythonPackagePrefix+library)
			}
		}
	}
	for _, library := range s.standardLibrary() {
		add = append(add, pythonPackagePrefix+library)
	}
	slices.Sort(add)
	add = slices.Compact(add)
	if m == nil {
		s.leave(s.manifests[0].Path, 0, "Install `"+strings.Join(add, "`, `")+"`: the manifest has no dependencies to add them to")
		return false
	}
	end := newline(m.Source)
	first := m.Dependencies[slices.IndexFunc(m.Dependencies, func(d configfile.Dependency) bool { return !d.Development })]
	at := first.Start
	switch base := strings.ToLower(path.Base(m.Path)); {
	case strings.HasSuffix(base, ".txt"), strings.HasSuffix(base, ".in"):
		text := strings.Join(add, end) + end
		if n := len(m.Source); n > 0 && m.Source[n-1] != '\n' {
			text = end + text
		}
		s.edit(m.Path, m.Source, len(m.Source), len(m.Source), text)
		at = len(m.Source)
	case at > 0 && strings.IndexByte(`"'`, m.Source[at-1]) >= 0, strings.IndexByte(`"'`, m.Source[at]) >= 0: // an element of a list
		if strings.IndexByte(`"'`, m.Source[at]) < 0 {
			at--
		}
		lines := lists.Map(add, func(name string) string { return string(m.Source[at]) + name + string(m.Source[at]) + "," })
		s.insert(m.Path, m.Source, at, lines, " ")
	case base == "setup.cfg": // a line of its own for each
		s.insert(m.Path, m.Source, at, add, "")
	default: // a table: name = "version"
		if _, alone := indentOf(m.Source, at); !alone {
			s.leave(m.Path, lineOf(m.Source, at), "Install `"+strings.Join(add, "`, `")+"`: the dependencies have a form that is not edited")
			return false
		}
		lines := lists.Map(add, func(name string) string { return name + ` = "*"` })
		s.insert(m.Path, m.Source, at, lines, "")
	}
	s.did(m.Path, lineOf(m.Source, at), "Add `"+strings.Join(add, "`, `")+"`")
	for _, f := range s.manifests {
		switch found := compiledBy.FindSubmatch(f.Source); {
		case found == nil:
		case f == m:
			s.leave(f.Path, 0, "Add the new dependencies to what `"+string(bytes.TrimSpace(found[1]))+"` reads: it writes this file")
		default:
			s.leave(f.Path, 0, "Run `"+string(bytes.TrimSpace(found[1]))+"`, which writes the new dependencies to the file")
		}
	}
	s.locks(pythonWorkspace, []lock{{"poetry.lock", "poetry lock"}, {"uv.lock", "uv lock"}, {"Pipfile.lock", "pipenv lock"}, {"pdm.lock", "pdm lock"}})
	return true
}
