// SPDX-License-Identifier: Apache-2.0

package instrument

import (
	"path"
	"slices"
	"strings"

	"assay/internal/review/configfile"
)

// pythonLibraries are the libraries that an instrumentation exists for, by the name of its package after
// "opentelemetry-instrumentation-" (https://github.com/open-telemetry/opentelemetry-python-contrib).
var pythonLibraries = map[string]string{
	"aio-pika": "aio-pika", "aiohttp": "aiohttp-client", "aiokafka": "aiokafka", "aiopg": "aiopg", "asyncpg": "asyncpg", "boto3": "botocore", "botocore": "botocore",
	"celery": "celery", "confluent-kafka": "confluent-kafka", "django": "django", "elasticsearch": "elasticsearch", "falcon": "falcon", "fastapi": "fastapi",
	"flask": "flask", "grpcio": "grpc", "httpx": "httpx", "jinja2": "jinja2", "kafka-python": "kafka-python", "mysql-connector-python": "mysql", "mysqlclient": "mysqlclient",
	"pika": "pika", "psycopg": "psycopg", "psycopg2": "psycopg2", "psycopg2-binary": "psycopg2", "pymemcache": "pymemcache", "pymongo": "pymongo", "pymysql": "pymysql",
	"pyramid": "pyramid", "redis": "redis", "requests": "requests", "sqlalchemy": "sqlalchemy", "starlette": "starlette", "tornado": "tornado", "urllib3": "urllib3",
}

// pythonServers are the packages by which a service is recognized.
var pythonServers = []string{
	"aiohttp", "celery", "django", "falcon", "fastapi", "flask", "grpcio", "gunicorn", "hypercorn", "pyramid", "sanic", "starlette", "tornado", "uvicorn", "uwsgi",
	"aio-pika", "aiokafka", "confluent-kafka", "kafka-python", "pika",
}

var pythonSDKs = []string{"opentelemetry-distro", "opentelemetry-sdk", "azure-monitor-opentelemetry", "splunk-opentelemetry", "elastic-opentelemetry", "aws-opentelemetry-distro", "logfire", "ddtrace", "elastic-apm", "newrelic", "sentry-sdk"}

// pythonCommands start a program that `opentelemetry-instrument` can start.
var pythonCommands = []string{"python", "python3", "gunicorn", "uvicorn", "hypercorn", "flask", "celery", "fastapi", "waitress-serve"}

const pythonInstrument = "opentelemetry-instrument"

// python instruments a service in Python.
func (s *service) python() (bool, error) {
	exact := func(names []string) (string, bool) {
		for _, m := range s.manifests {
			for _, d := range m.Dependencies {
				if !d.Development && slices.Contains(names, strings.ToLower(d.Name)) {
					return d.Name, true
				}
			}
		}
		return "", false
	}
	if _, server := exact(pythonServers); !server {
		return false, nil
	}
	if found, ok := exact(pythonSDKs); ok && found != "opentelemetry-distro" {
		s.leave(s.manifests[0].Path, 0, "Nothing is added to the program: `"+found+"` sets up telemetry")
		return true, nil
	} else if !ok && !s.addPython() {
		return true, nil
	}
	started := false
	for _, f := range s.dockerfiles("cpython") {
		if mentions(f, pythonInstrument) {
			started = true
			continue
		}
		stage, ok := s.stageOf(f)
		if !ok {
			continue
		}
		i := command(stage, pythonCommands...)
		if i == nil {
			continue
		}
		first := i.words[0]
		if i.exec {
			s.edit(f.Path, f.Source, first.start, first.start, pythonInstrument+`", "`)
		} else {
			s.edit(f.Path, f.Source, first.start, first.start, pythonInstrument+" ")
		}
		s.before(f, stage, "ENV OTEL_SERVICE_NAME="+quoteDocker(s.name)+" \\", "    OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf")
		s.did(f.Path, lineOf(f.Source, i.start), "Start the program with `"+pythonInstrument+"`")
		started = true
	}
	if !started {
		s.leave(s.manifests[0].Path, 0, "Start the program with `"+pythonInstrument+"`, such as `"+pythonInstrument+" python app.py`: no Dockerfile that starts it was found")
	}
	s.deployments(variable{name: "OTEL_EXPORTER_OTLP_PROTOCOL", value: "http/protobuf"})
	return true, nil
}

// addPython adds the dependencies to the first manifest that has any.
func (s *service) addPython() bool {
	add := []string{"opentelemetry-distro", "opentelemetry-exporter-otlp"}
	var m *configfile.File
	for _, f := range s.manifests {
		base := strings.ToLower(path.Base(f.Path))
		development := strings.Contains(base, "dev") || strings.Contains(base, "test") || base == "setup.cfg"
		for _, d := range f.Dependencies {
			if d.Development || development {
				continue
			}
			if m == nil {
				m = f
			}
			if library := pythonLibraries[strings.ToLower(d.Name)]; library != "" && !slices.Contains(add, "opentelemetry-instrumentation-"+library) {
				add = append(add, "opentelemetry-instrumentation-"+library)
			}
		}
	}
	if m == nil {
		s.leave(s.manifests[0].Path, 0, "Install `"+strings.Join(add, "`, `")+"`: the manifest has no dependencies to add them to")
		return false
	}
	slices.Sort(add)
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
		lines := make([]string, len(add))
		for i, name := range add {
			lines[i] = string(m.Source[at]) + name + string(m.Source[at]) + ","
		}
		s.insert(m.Path, m.Source, at, lines, " ")
	default: // a table: name = "version"
		if _, alone := indentOf(m.Source, at); !alone {
			s.leave(m.Path, lineOf(m.Source, at), "Install `"+strings.Join(add, "`, `")+"`: the dependencies have a form that is not edited")
			return false
		}
		lines := make([]string, len(add))
		for i, name := range add {
			lines[i] = name + ` = "*"`
		}
		s.insert(m.Path, m.Source, at, lines, "")
	}
	s.did(m.Path, lineOf(m.Source, at), "Add `"+strings.Join(add, "`, `")+"`")
	for _, lock := range []struct{ file, command string }{{"poetry.lock", "poetry lock"}, {"uv.lock", "uv lock"}, {"Pipfile.lock", "pipenv lock"}, {"pdm.lock", "pdm lock"}} {
		if s.exists(lock.file) {
			s.leave(path.Join(s.dir, lock.file), 0, "Run `"+lock.command+"`, which writes the new dependencies to the lock file")
		}
	}
	return true
}
