// SPDX-License-Identifier: Apache-2.0

package configfile

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// describe renders what a file yields, with the source text of each range.
func describe(files []*File) string {
	var b strings.Builder
	for _, f := range files {
		fmt.Fprintf(&b, "%s", f.Kind)
		for _, s := range []string{f.Name, f.Ecosystem} {
			if s != "" {
				fmt.Fprintf(&b, " %s", s)
			}
		}
		if f.Partial {
			b.WriteString(" partial")
		}
		if f.OnKubernetes {
			b.WriteString(" on kubernetes")
		}
		b.WriteString("\n")
		if f.Runtime != "" {
			fmt.Fprintf(&b, "runtime %s %s [%s]\n", f.Runtime, f.RuntimeVersion, f.Source[f.RuntimeStart:f.RuntimeEnd])
		}
		for _, s := range f.Services {
			fmt.Fprintf(&b, "service %s image=%s build=%s [%s]\n", s.Name, s.Image, s.Build, f.Source[s.Start:s.End])
		}
		for _, v := range f.Environment {
			fmt.Fprintf(&b, "%s:%s=%s %v [%s]\n", v.Service, v.Name, v.Value, v.Literal, f.Source[v.Start:v.End])
		}
		for _, d := range f.Dependencies {
			fmt.Fprintf(&b, "%s %s", d.Name, d.Version)
			for flag, set := range map[string]bool{" development": d.Development, " indirect": d.Indirect, " bom": d.BOM} {
				if set {
					b.WriteString(flag)
				}
			}
			fmt.Fprintf(&b, " [%s]\n", f.Source[d.Start:d.End])
		}
	}
	return b.String()
}

func TestParse(t *testing.T) {
	for _, tc := range []struct{ path, source, want string }{
		{"go.mod", "module x\n\ngo 1.22\n\nrequire (\n\tgo.opentelemetry.io/otel v1.28.0\n\tgo.opencensus.io v0.24.0 // indirect\n)\n", `manifest go
runtime go 1.22 [go 1.22]
go.opentelemetry.io/otel v1.28.0 [go.opentelemetry.io/otel v1.28.0]
go.opencensus.io v0.24.0 indirect [go.opencensus.io v0.24.0]
`},
		{"web/package.json", `{
  "name": "x", "keywords": ["dependencies", {"a": "b"}],
  "engines": {"node": ">=18"},
  "dependencies": {"@opentelemetry/api": "^1.9.0"},
  "devDependencies": {"jest": "29.0.0"}
}`, `manifest npm
runtime nodejs >=18 ["node": ">=18"]
@opentelemetry/api ^1.9.0 ["@opentelemetry/api": "^1.9.0"]
jest 29.0.0 development ["jest": "29.0.0"]
`},
		{"composer.json", `{"require": {"php": ">=8.1", "open-telemetry/sdk": "^1.0"}}`, `manifest composer
runtime php >=8.1 ["php": ">=8.1"]
open-telemetry/sdk ^1.0 ["open-telemetry/sdk": "^1.0"]
`},
		{"requirements.txt", "# comment\nopentelemetry_sdk==1.20.0  # pinned\n-r base.txt\nflask[async]>=2,<3; python_version > '3'\nhttps://x/y.whl\nddtrace\n", `manifest pypi
opentelemetry-sdk ==1.20.0 [opentelemetry_sdk==1.20.0]
flask >=2,<3 [flask[async]>=2,<3]
ddtrace  [ddtrace]
`},
		{"pyproject.toml", "[project]\nrequires-python = \">=3.8\"\ndependencies = [\n  \"opentelemetry-api==1.20.0\",\n  'flask',\n]\n[tool.poetry.dependencies]\npython = \"^3.9\"\nopentelemetry-sdk = {version = \"1.21.0\", extras = [\"a\"]}\n[tool.poetry.group.dev.dependencies]\npytest = \"^8\"\n", `manifest pypi
runtime cpython ^3.9 [python = "^3.9"]
opentelemetry-api ==1.20.0 [opentelemetry-api==1.20.0]
flask  [flask]
opentelemetry-sdk 1.21.0 [opentelemetry-sdk = {version = "1.21.0"]
pytest ^8 development [pytest = "^8"]
`},
		{"Pipfile", "[packages]\nopentelemetry-sdk = \"==1.20.0\"\n[requires]\npython_version = \"3.7\"\n", `manifest pypi
runtime cpython 3.7 [python_version = "3.7"]
opentelemetry-sdk ==1.20.0 [opentelemetry-sdk = "==1.20.0"]
`},
		{"setup.cfg", "[options]\npython_requires = >=3.6\ninstall_requires =\n    opentelemetry-api == 1.12.0\n    flask\nzip_safe = no\n", `manifest pypi
runtime cpython >=3.6 [python_requires = >=3.6]
opentelemetry-api == 1.12.0 [opentelemetry-api == 1.12.0]
flask  [flask]
`},
		{"setup.py", "from setuptools import setup\nsetup(\n    python_requires='>=3.7',\n    install_requires=[\n        \"opentelemetry-api==1.30.0\",  # ']'\n        'flask[async]>=2', *more,\n    ],\n    extras_require={'a': ['b']},\n)\n", `manifest pypi
runtime cpython >=3.7 [python_requires='>=3.7']
opentelemetry-api ==1.30.0 [opentelemetry-api==1.30.0]
flask >=2 [flask[async]>=2]
`},
		{"setup.py", "setup(install_requires=['a, b", "manifest pypi\n"},
		{"requirements/base.txt", "opentelemetry-sdk==1.38.0\n", `manifest pypi
opentelemetry-sdk ==1.38.0 [opentelemetry-sdk==1.38.0]
`},
		{"requirements/test.txt", "pytest\n", `manifest pypi
pytest  development [pytest]
`},
		{"docs/base.txt", "opentelemetry-sdk==1.38.0\n", ""},
		{"pom.xml", `<project><properties><otel.version>1.30.0</otel.version><java.version>1.8</java.version></properties>
<dependencies><dependency>
  <groupId>io.opentelemetry</groupId>
  <artifactId>opentelemetry-api</artifactId>
  <version>${otel.version}</version>
</dependency></dependencies></project>`, `manifest maven
runtime jvm 8 [<java.version>1.8</java.version>]
io.opentelemetry:opentelemetry-api 1.30.0 [<artifactId>opentelemetry-api</artifactId>]
`},
		{"build.gradle.kts", "val otel = \"1.30.0\"\njava { toolchain { languageVersion.set(JavaLanguageVersion.of(17)) } }\ndependencies {\n  implementation(platform(\"io.opentelemetry:opentelemetry-bom:$otel\"))\n  // implementation(\"a:b:1\")\n  testImplementation(\"c:d:2\")\n}\n", `manifest maven
runtime jvm 17 [JavaLanguageVersion.of(17)]
io.opentelemetry:opentelemetry-bom 1.30.0 bom ["io.opentelemetry:opentelemetry-bom:$otel"]
c:d 2 development ["c:d:2"]
`},
		{"build.gradle", "def otel = '1.30.0'\ndependencies {\n  implementation group: 'io.opentracing', name: 'opentracing-api', version: '0.33.0'\n  // implementation group: 'a', name: 'b'\n  testImplementation(group: 'io.opentelemetry', name: 'opentelemetry-api', version: otel)\n  exclude group: 'c', module: 'd'\n}\n", `manifest maven
io.opentracing:opentracing-api 0.33.0 [group: 'io.opentracing', name: 'opentracing-api', version: '0.33.0']
io.opentelemetry:opentelemetry-api 1.30.0 development [group: 'io.opentelemetry', name: 'opentelemetry-api', version: otel]
`},
		{"gradle/libs.versions.toml", "[versions]\notel = \"1.30.0\"\n[libraries]\napi = { module = \"io.opentelemetry:opentelemetry-api\", version.ref = \"otel\" }\nsdk = \"io.opentelemetry:opentelemetry-sdk:1.31.0\"\n", `manifest maven
io.opentelemetry:opentelemetry-api 1.30.0 [api]
io.opentelemetry:opentelemetry-sdk 1.31.0 [sdk]
`},
		{"a.csproj", `<Project><PropertyGroup><TargetFramework>net6.0</TargetFramework><V>1.9.0</V></PropertyGroup>
<ItemGroup><PackageReference Include="OpenTelemetry" Version="$(V)" /></ItemGroup></Project>`, `manifest nuget
runtime dotnet 6.0 [<TargetFramework>net6.0</TargetFramework>]
OpenTelemetry 1.9.0 [<PackageReference Include="OpenTelemetry" Version="$(V)" />]
`},
		{"Gemfile", "ruby '3.1.2'\ngem 'ddtrace', '~> 1.0'\ngroup :test do\n  gem 'rspec'\nend\n", `manifest rubygems
runtime ruby 3.1.2 [ruby '3.1.2']
ddtrace ~> 1.0 [gem 'ddtrace', '~> 1.0']
rspec  development [gem 'rspec']
`},
		{"Dockerfile", "ARG V=16\nFROM node:${V}-alpine AS base\nFROM base\nENV A=1 B=\"two words\" \\\n    C=$A\n# comment\nENV LOG_LEVEL debug\n", `dockerfile
runtime nodejs 16 [base]
:A=1 true [1]
:B=two words true ["two words"]
:C=$A false [$A]
:LOG_LEVEL=debug true [debug]
`},
		{"Dockerfile.prod", "FROM golang:1.22 AS build\nFROM gcr.io/distroless/static\n", "dockerfile\n"},
		{".env", "# c\nexport A=\"x y\" # z\nB=${A}\nC=plain # comment\nnot a line\n", `env
:A=x y true ["x y"]
:B=${A} false [${A}]
:C=plain true [plain]
`},
		{"deploy/compose.yaml", "x-env: &env\n  LOG: info\nservices:\n  web:\n    build: ../web\n    environment:\n      <<: *env\n      KEY: \"${KEY}\"\n  db:\n    image: postgres\n    environment:\n      - A=b\n      - 'C=d e'\n      - PASSED\n", `compose
service web image= build=web [web]
service db image=postgres build= [db]
web:KEY=${KEY} false ["${KEY}"]
web:LOG=info true [info]
db:A=b true [b]
db:C=d e true [d e]
db:PASSED= false [PASSED]
`},
		{"compose.yml", "services:\n  collector:\n    image: otel\nconfigs:\n  relay:\n    content: |\n      receivers: {otlp: }\n      exporters:\n        debug:\n      service: {pipelines: {traces: {receivers: [otlp], exporters: [debug]}}}\n", `compose
service collector image=otel build= [collector]
collector
`},
		{"k8s.yaml", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: shop}\nspec:\n  template:\n    spec:\n      containers:\n      - name: app\n        image: shop:1\n        env:\n        - name: A\n          value: \"1\"\n        - name: B\n          valueFrom: {secretKeyRef: {name: s, key: b}}\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata: {b: aGVsbG8=}\n", `kubernetes Deployment/shop
service shop image=shop:1 build= [app]
shop:A=1 true ["1"]
shop:B= false [name: B]
kubernetes Secret/s
s:b=hello true [aGVsbG8=]
`},
		{"map.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c\ndata:\n  LEVEL: debug\n  relay: |\n    receivers: {otlp: }\n    exporters:\n      debug:\n    service: {pipelines: {traces: {receivers: [otlp], exporters: [debug]}}}\n", `kubernetes ConfigMap/c
c:LEVEL=debug true [debug]
collector ConfigMap/c on kubernetes
`},
		{"values.yaml", "web:\n  env:\n  - name: A\n    value: é1\nconfig:\n  exporters: {otlp: {endpoint: x}}\n  receivers: {otlp: }\n", `helm values
web:A=é1 true [é1]
collector partial on kubernetes
`},
		{"otel.yaml", "file_format: \"0.4\"\nresource:\n  attributes: []\n", "sdk configuration\n"},
		{"a/logback.xml", "<configuration><root level=\"DEBUG\"><appender-ref ref=\"x\"/></root><logger name=\"a.b\"><level value=\"info\"/></logger></configuration>", `logging
:root=DEBUG true [DEBUG]
:a.b=info true [info]
`},
		{"application.yml", "logging:\n  level:\n    root: DEBUG\n    org.hibernate: trace\n", `logging
:root=DEBUG true [DEBUG]
:org.hibernate=trace true [trace]
`},
		// No configurations.
		{"templates/deployment.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: {{ .Values.name }}}\n", ""},
		{"templates/deployment.yaml", "env:\n- {name: OTEL_SERVICE_NAME, value: {{ .Values.name }}}\n", "template\n"},
		{"x.yaml", "{{- if .A }}\napiVersion: v1\nkind: Pod\n{{- end }}\n", ""},
		{"alertmanager.yaml", "receivers:\n- name: x\nroute: {}\n", ""},
		{"openapi.yaml", "openapi: 3.0.0\npaths: {}\n", ""},
		{"README.md", "services:", ""},
	} {
		files, err := Parse(tc.path, []byte(tc.source))
		require.NoError(t, err, tc.path)
		require.Equal(t, tc.want, describe(files), tc.path)
	}
}

func TestParseErrors(t *testing.T) {
	for path, source := range map[string]string{
		"package.json":   `{"dependencies": {`,
		"go.mod":         "module\n(\n",
		"pyproject.toml": "[project\n",
		"pom.xml":        "<project><!-",
		"compose.yaml":   "services:\n\t- x: [",
	} {
		_, err := Parse(path, []byte(source))
		require.Error(t, err, path)
	}
}

// TestPositions checks offsets in wide characters, in a document within a document, and behind line separators.
func TestPositions(t *testing.T) {
	source := strings.Repeat("# ünïcödé\n", 3) + "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata:\n  \"ключ\": v\n  relay: |\n" +
		"      # " + strings.Repeat("é", 200) + "\n      exporters:\n        debug: {note: \"" + strings.Repeat("é", 200) + "\", verbosity: detailed}\n      receivers: {otlp: }\n"
	files, err := Parse("a.yaml", []byte(source))
	require.NoError(t, err)
	require.Len(t, files, 2)
	n := Get(files[1].YAML, "exporters", "debug", "verbosity")
	start, end := files[1].Range(n)
	require.Equal(t, "detailed", source[start:end])
}

// TestHostile checks that aliases, merges and nesting cannot make a small file large.
func TestHostile(t *testing.T) {
	services := func(levels int) []byte {
		var b strings.Builder
		b.WriteString("x0: &x0 {environment: {A: b}, image: y, LOG: debug}\n")
		for i := range levels {
			fmt.Fprintf(&b, "x%d: &x%d {<<: [%s]}\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*x%d,", i), 20), ","))
		}
		b.WriteString("services:\n")
		for i := range 200 {
			fmt.Fprintf(&b, "  s%d: *x%d\n", i, levels)
		}
		return []byte(b.String())
	}
	files, err := Parse("compose.yaml", services(2))
	require.NoError(t, err)
	require.Len(t, files, 1)
	require.LessOrEqual(t, len(files[0].Environment), maxYield)

	pipelines := "x: &x [" + strings.Repeat("a,", 60_000) + "]\nreceivers: {a: }\nexporters: {a: }\nservice:\n  pipelines:\n" + strings.Repeat("    traces: {receivers: *x}\n", 6000)
	for path, source := range map[string][]byte{
		"compose.yaml": services(29),
		"a.yaml":       []byte("receivers: &a {a: *a}\nexporters: {a: }\n"),
		"b.yaml":       []byte(pipelines),
	} {
		files, err = Parse(path, source)
		require.ErrorContains(t, err, "aliases", path)
		require.Empty(t, files)
	}

	for path, source := range map[string]string{
		"a.yaml":         strings.Repeat("{a: ", 100_000),
		"b.yaml":         strings.Repeat("- ", 200_000),
		"c.yaml":         "a: &a [*a]\nservices: &s\n  <<: *s\n  x: *s\n",
		"d.yaml":         strings.Repeat("---\na: 1\n", 20_000),
		"package.json":   strings.Repeat(`{"a":`, 100_000),
		"pom.xml":        strings.Repeat("<dependency>", 40_000),
		"pyproject.toml": "a = " + strings.Repeat("[", 200_000),
		"Dockerfile":     "ENV " + strings.Repeat("A=\\\n", 100_000),
	} {
		_, _ = Parse(path, []byte(source)) // it returns
	}
}

// TestAllocated compares what files allocate with their size: paths, references and texts are not copied for each line.
func TestAllocated(t *testing.T) {
	const n = 50_000
	for name, test := range map[string]struct{ path, source string }{
		"long table":         {"pyproject.toml", "[a" + strings.Repeat(".a", n) + "]\n" + strings.Repeat("b=1\n", n)},
		"long key":           {"pyproject.toml", "[" + strings.Repeat("a", n) + "]\n" + strings.Repeat("b=1\n", n)},
		"long pairs":         {"libs.versions.toml", strings.Repeat("a"+strings.Repeat(".a", n/100)+"=1\n", 100)},
		"long argument":      {"Dockerfile", "ARG a=" + strings.Repeat("/", n) + "\nFROM " + strings.Repeat("$a", 480) + "\n"},
		"nested arguments":   {"Dockerfile", "ARG a=" + strings.Repeat("/", 100) + "\n" + strings.Repeat("ARG a=$a$a$a$a$a$a$a$a\nFROM $a\n", n/50)},
		"repeated arguments": {"Dockerfile", "ARG a=" + strings.Repeat("/", 900) + "\n" + strings.Repeat("FROM "+strings.Repeat("$a", 400)+"\n", 100)},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := Parse(test.path, []byte(test.source))
			runtime.ReadMemStats(&after)
			require.NoError(t, err)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(100*len(test.source)))
		})
	}
}

// fuzz checks that all ranges are within the file.
func fuzz(f *testing.F, path string, seeds ...string) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, source []byte) {
		files, _ := Parse(path, source)
		for _, file := range files {
			for _, d := range file.Dependencies {
				require.True(t, 0 <= d.Start && d.Start <= d.End && d.End <= len(source), "%+v", d)
			}
			for _, v := range file.Environment {
				require.True(t, 0 <= v.Start && v.Start <= v.End && v.End <= len(source), "%+v", v)
			}
			for _, s := range file.Services {
				require.True(t, 0 <= s.Start && s.Start <= s.End && s.End <= len(source), "%+v", s)
			}
			require.True(t, 0 <= file.RuntimeStart && file.RuntimeStart <= file.RuntimeEnd && file.RuntimeEnd <= len(source))
		}
	})
}

func FuzzGoMod(f *testing.F) {
	fuzz(f, "go.mod", "module x\ngo 1.22\nrequire a.b/c v1.0.0 // indirect\n")
}

func FuzzJSON(f *testing.F) {
	fuzz(f, "package.json", `{"engines":{"node":"18"},"dependencies":{"a":"1","b":["c"]}}`)
}

func FuzzTOML(f *testing.F) {
	fuzz(f, "pyproject.toml", "[project]\ndependencies=[\"a==1\"]\n[tool.poetry.dependencies]\na={version='1'}\n\"é\\u00e9\"='1'\n")
}

func FuzzVersionCatalog(f *testing.F) {
	fuzz(f, "libs.versions.toml", "[versions]\na='1'\n[libraries]\nb={module='c:d',version.ref='a'}\n")
}

func FuzzXML(f *testing.F) {
	fuzz(f, "pom.xml", "<a><properties><v>1</v></properties><dependency><artifactId>x</artifactId></dependency><PackageReference Include='a'/></a>")
}

func FuzzLogging(f *testing.F) {
	fuzz(f, "logback.xml", "<c><root level='DEBUG'/><logger name='a'><level value='b'/></logger></c>")
}

func FuzzGradle(f *testing.F) {
	fuzz(f, "build.gradle", "def v = '1'\nimplementation \"a:b:$v\"\nsourceCompatibility = 1.8\n")
}

func FuzzGemfile(f *testing.F) { fuzz(f, "Gemfile", "ruby '3'\ngem 'a', '1'\n") }

func FuzzSetup(f *testing.F) {
	fuzz(f, "setup.py", "setup(python_requires='>=3', install_requires=['a==1', # c\n\"b\"])")
}

func FuzzRequirements(f *testing.F) { fuzz(f, "requirements.txt", "a[b]==1 # c\nd\n") }

func FuzzDockerfile(f *testing.F) {
	fuzz(f, "Dockerfile", "ARG A=1\nFROM node:$A AS b\nENV A=\"b c\" \\\n d=e\nENV f g\n")
}

func FuzzEnv(f *testing.F) { fuzz(f, ".env", "A='b'\nexport C=d # e\nF=\"g") }

func FuzzYAML(f *testing.F) {
	fuzz(f, "values.yaml",
		"services: {a: {image: b, environment: [A=b, \"C=d\"]}}",
		"apiVersion: v1\nkind: ConfigMap\ndata:\n  A: |\n    x\n  b: |\n    exporters: {a: }\n    receivers: {b: }\n",
		"a: &a {env: [{name: é, value: !!str 'b'}]}\nc: {<<: *a}\n",
		"file_format: '1'\nresource: {}\n", "\xef\xbb\xbfa: 1\r\nb: \"\\\n\"")
}
