// SPDX-License-Identifier: Apache-2.0

package instrument_test

import (
	"context"
	"flag"
	"fmt"
	"go/format"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/modfile"

	"assay"
	"assay/internal/review"
	"assay/internal/review/instrument"
	"assay/internal/review/patch"
	"assay/internal/review/treesitter"
)

var update = flag.Bool("update", false, "write the golden files")

// The tests share a parser, because loading the grammars takes seconds.
var shared = sync.OnceValues(func() (*treesitter.Parser, error) { return review.NewParser(context.Background(), "") })

func newParser(t testing.TB) *treesitter.Parser {
	p, err := shared()
	require.NoError(t, err)
	return p
}

// makePatch returns the patch for a directory.
func makePatch(t testing.TB, parser *treesitter.Parser, dir string, kind instrument.Kind) (*patch.Patch, *os.Root, error) {
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, root.Close()) })
	files, err := review.ListFiles(t.Context(), root, nil, false)
	require.NoError(t, err)
	p, err := instrument.Make(t.Context(), root, parser, files, kind, filepath.Base(dir))
	return p, root, err
}

// TestMake compares the patches for the directories in testdata, and makes them a second time, which changes nothing.
func TestMake(t *testing.T) {
	parser := newParser(t)
	for _, name := range []string{"services", "modules", "kubernetes", "shared"} {
		for _, kind := range []instrument.Kind{instrument.Minimum, instrument.General} {
			t.Run(name+"/"+string(kind), func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), name)
				require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join("testdata", name))))
				p, root, err := makePatch(t, parser, dir, kind)
				require.NoError(t, err)
				var got strings.Builder
				for _, s := range p.Steps {
					fmt.Fprintf(&got, "%s %s:%d %s\n", map[bool]string{false: "did ", true: "left"}[s.Open], s.File, s.Line, s.Text)
				}
				got.WriteString("\n")
				require.NoError(t, p.Diff(&got))
				golden := filepath.Join("testdata", name+"."+string(kind)+".golden")
				if *update {
					require.NoError(t, os.WriteFile(golden, []byte(got.String()), 0o600))
				}
				want, err := os.ReadFile(golden)
				require.NoError(t, err)
				require.Equal(t, string(want), got.String())

				require.NoError(t, p.Apply(root))
				for _, f := range p.Files {
					if filepath.Ext(f.Path) == ".go" {
						formatted, err := format.Source(f.After)
						require.NoError(t, err)
						require.Equal(t, string(formatted), string(f.After))
					}
				}
				again, _, err := makePatch(t, parser, dir, kind)
				require.NoError(t, err)
				require.Empty(t, again.Files)
			})
		}
	}
}

// TestMakeNothing: a repository without a service is an error that says so.
func TestMakeNothing(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"name":"lib","dependencies":{"lodash":"4"}}`), 0o600))
	_, _, err := makePatch(t, newParser(t), dir, instrument.Minimum)
	require.Equal(t, assay.CodeUnprocessable, assay.ErrorCode(err))
}

// TestNames: a service in the root of a repository has the name of its manifest or of the repository.
func TestNames(t *testing.T) {
	for _, tt := range []struct {
		repository, manifest, text, want string
		left                             bool
	}{
		{"shop", "requirements.txt", "flask\n", "shop", false},
		{"shop", "pyproject.toml", "[project]\nname = \"cart\"\ndependencies = [\"flask\"]\n", "cart", false},
		{"my shop", "requirements.txt", "flask\n", "service", true},
	} {
		dir := filepath.Join(t.TempDir(), tt.repository)
		require.NoError(t, os.Mkdir(dir, 0o700))
		for name, text := range map[string]string{tt.manifest: tt.text, "Dockerfile": "FROM python:3.12\nCMD [\"flask\", \"run\"]\n"} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
		}
		p, _, err := makePatch(t, newParser(t), dir, instrument.Minimum)
		require.NoError(t, err)
		var diff strings.Builder
		require.NoError(t, p.Diff(&diff))
		require.Contains(t, diff.String(), "OTEL_SERVICE_NAME=\""+tt.want+"\" ")
		require.Equal(t, tt.left, slices.ContainsFunc(p.Steps, func(s patch.Step) bool { return s.Open && strings.HasPrefix(s.Text, "Replace the name") }))
	}
}

// TestNameStep: a step names a service in Node.js or Python that no image, container or file of its directory names.
func TestNameStep(t *testing.T) {
	const (
		express = `{"name": "orders", "scripts": {"start": "node a.js"}, "dependencies": {"express": "5"}}`
		script  = `{"name": "orders", "scripts": {"start": "OTEL_SERVICE_NAME=orders node a.js"}, "dependencies": {"express": "5"}}`
		watched = `{"name": "orders", "scripts": {"start": "nodemon a.js"}, "dependencies": {"express": "5"}}`
		node    = "FROM node:22\nCMD [\"npm\", \"start\"]\n"
		unknown = "FROM node:22\nCMD [\"node\", \"a.js\"]\n"
		flask   = "FROM python:3.12\nCMD [\"flask\", \"run\"]\n"
		pod     = "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: orders\nspec:\n  template:\n    spec:\n      containers:\n        - name: orders\n          image: orders:1\n"
	)
	for name, tt := range map[string]struct {
		files map[string]string
		want  bool
	}{
		"Node.js":                           {map[string]string{"package.json": express}, true},
		"Node.js, no known start":           {map[string]string{"package.json": watched}, true},
		"Node.js, an image":                 {map[string]string{"package.json": express, "Dockerfile": node}, false},
		"Node.js, an image that is left":    {map[string]string{"package.json": watched, "Dockerfile": unknown}, true},
		"Node.js, a container":              {map[string]string{"package.json": express, "compose.yaml": "services:\n  web:\n    build: .\n"}, false},
		"Node.js, a container, no build":    {map[string]string{"package.json": express, "compose.yaml": "services:\n  web:\n    image: node:22\n"}, true},
		"Node.js, a script":                 {map[string]string{"package.json": script}, false},
		"Node.js, variables":                {map[string]string{"package.json": express, ".env": "OTEL_SERVICE_NAME=orders\n"}, false},
		"Python":                            {map[string]string{"requirements.txt": "flask\n"}, true},
		"Python, an image":                  {map[string]string{"requirements.txt": "flask\n", "Dockerfile": flask}, false},
		"Python, a container in Kubernetes": {map[string]string{"requirements.txt": "flask\n", "k8s.yaml": pod}, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "orders")
			p := apply(t, dir, instrument.Minimum, tt.files)
			again, _, err := makePatch(t, newParser(t), dir, instrument.Minimum)
			require.NoError(t, err)
			for _, p := range []*patch.Patch{p, again} {
				require.Equal(t, tt.want, slices.ContainsFunc(p.Steps, func(s patch.Step) bool {
					return s.Open && strings.HasPrefix(s.Text, "Set `OTEL_SERVICE_NAME=orders` where the program is started")
				}))
			}
		})
	}
}

// TestContainers: a container that overrides the command of its image is instrumented, or a step says so.
func TestContainers(t *testing.T) {
	const (
		python     = "FROM python:3.12\nCMD [\"flask\", \"run\"]\n"
		entryPoint = "FROM python:3.12\nENTRYPOINT [\"celery\"]\n"
		left       = "it overrides the command of the image"
	)
	pod := "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\nspec:\n  template:\n    spec:\n      containers:\n        - name: web\n          image: shop:1\n          "
	for name, tt := range map[string]struct {
		dockerfile, file, text string
		want                   []string // in the diff; none if a step leaves the container
	}{
		"a text":                  {python, "compose.yaml", "command: celery worker", []string{"+    command: opentelemetry-instrument celery worker"}},
		"a quoted text":           {python, "compose.yaml", "command: 'celery worker'", []string{"+    command: 'opentelemetry-instrument celery worker'"}},
		"a list":                  {python, "compose.yaml", "command: [celery, worker]", []string{"+    command: [opentelemetry-instrument, celery, worker]"}},
		"lines":                   {python, "compose.yaml", "command:\n      - 'celery'\n      - worker", []string{"+      - 'opentelemetry-instrument'"}},
		"an entry point":          {python, "compose.yaml", "entrypoint: [/usr/bin/python3, app.py]\n    command: [worker]", []string{"+    entrypoint: [opentelemetry-instrument, /usr/bin/python3, app.py]"}},
		"arguments":               {entryPoint, "compose.yaml", "command: [beat]", []string{"     command: [beat]"}},
		"another entry point":     {entryPoint, "compose.yaml", "entrypoint: flask run", []string{"+    entrypoint: opentelemetry-instrument flask run"}},
		"a shell":                 {python, "compose.yaml", "command: sh -c 'flask run'", nil},
		"a folded text":           {python, "compose.yaml", "command: >\n      celery worker", nil},
		"a shared command":        {python, "compose.yaml", "<<: *shared", nil},
		"Kubernetes":              {python, "web.yaml", "command: [\"flask\", \"run\"]", []string{"+          command: [\"opentelemetry-instrument\", \"flask\", \"run\"]"}},
		"Kubernetes, lines":       {python, "web.yaml", "args:\n            - flask\n            - run", []string{"+            - opentelemetry-instrument\n             - flask"}},
		"Node.js":                 {"FROM node:22\nCMD [\"npm\", \"start\"]\n", "compose.yaml", "command: node worker.js", []string{"+      NODE_OPTIONS: \"--require @opentelemetry"}},
		"Node.js, the same":       {"FROM node:22\nCMD [\"npm\", \"start\"]\n", "compose.yaml", "command: npm start", []string{"     command: npm start"}},
		"Node.js, another script": {"FROM node:22\nCMD [\"npm\", \"start\"]\n", "compose.yaml", "command: npm run worker", nil},
		"Node.js, in the image":   {"FROM node:22\nCOPY . .\nRUN npm ci\nCMD [\"node\", \"a.js\"]\n", "compose.yaml", "command: npm run worker", []string{"+    NODE_OPTIONS=", "     command: npm run worker"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "shop")
			require.NoError(t, os.Mkdir(dir, 0o700))
			files := map[string]string{"Dockerfile": tt.dockerfile, tt.file: "x-shared: &shared\n  command: celery worker\nservices:\n  worker:\n    build: .\n    " + tt.text + "\n", "requirements.txt": "flask\ncelery\n"}
			if tt.file != "compose.yaml" {
				files[tt.file] = pod + tt.text + "\n"
			}
			if strings.Contains(tt.dockerfile, "node") {
				delete(files, "requirements.txt")
				files["package.json"] = `{"scripts": {"start": "node server.js"}, "dependencies": {"express": "5"}}`
			}
			for name, text := range files {
				require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
			}
			p, root, err := makePatch(t, newParser(t), dir, instrument.Minimum)
			require.NoError(t, err)
			var diff strings.Builder
			require.NoError(t, p.Diff(&diff))
			for _, want := range tt.want {
				require.Contains(t, diff.String(), want)
			}
			require.Equal(t, tt.want == nil, slices.ContainsFunc(p.Steps, func(s patch.Step) bool { return s.Open && strings.HasSuffix(s.Text, left) }))
			require.NoError(t, p.Apply(root))
			again, _, err := makePatch(t, newParser(t), dir, instrument.Minimum)
			require.NoError(t, err)
			require.Empty(t, again.Files)
		})
	}
}

// TestPods: each container of a pod that runs the image of the service is named once.
func TestPods(t *testing.T) {
	const (
		own   = "        - name: web\n          image: registry/shop:1\n"
		more  = "        - name: worker\n          image: registry/shop:1\n          args: [flask, worker]\n"
		other = "        - name: proxy\n          image: envoyproxy/envoy:v1.30\n"
	)
	for name, tt := range map[string]struct {
		initial, containers string
		want                int // named containers
	}{
		"one":               {"", own, 1},
		"two of one image":  {"", own + more, 2},
		"another image":     {"", other + own, 1},
		"an init container": {"      initContainers:\n" + strings.ReplaceAll(more, "worker", "migrate"), own, 1},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "shop")
			p := apply(t, dir, instrument.Minimum, map[string]string{
				"requirements.txt": "flask\n", "Dockerfile": "FROM python:3.12\nCMD [\"flask\", \"run\"]\n",
				"web.yaml": "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\nspec:\n  template:\n    spec:\n" + tt.initial + "      containers:\n" + tt.containers,
			})
			for _, f := range p.Files {
				if f.Path == "web.yaml" {
					require.Equal(t, tt.want, strings.Count(string(f.After), "name: OTEL_SERVICE_NAME"), "%s", f.After)
				}
			}
		})
	}
}

// TestImages: only images of the service are changed, and only services of Compose files with such an image are named.
func TestImages(t *testing.T) {
	const (
		nginx   = "FROM nginx:1.27\nCMD [\"nginx\", \"-g\", \"daemon off;\"]\n"
		node    = "FROM node:22\nCOPY . .\nRUN npm ci\nCMD [\"node\", \"server.js\"]\n"
		flask   = "FROM python:3.12\nCOPY . .\nRUN pip install -r requirements.txt\nCMD [\"flask\", \"run\"]\n"
		worker  = "FROM python:3.12\nCOPY . .\nRUN pip install pika\nCMD [\"python\", \"worker.py\"]\n"
		build   = "FROM golang:1.26 AS build\nCOPY . .\nRUN go build -o /app .\nFROM scratch\nCOPY --from=build /app /app\nCMD [\"/app\"]\n"
		java    = "FROM eclipse-temurin:21-jre\nCOPY shop.jar /shop.jar\nCMD [\"java\", \"-jar\", \"/shop.jar\"]\n"
		express = `{"name": "shop", "dependencies": {"express": "5"}}`
		pom     = "<project><artifactId>shop</artifactId><dependencies><dependency><groupId>org.springframework.boot</groupId><artifactId>spring-boot-starter-web</artifactId></dependency></dependencies></project>"
	)
	goFiles := map[string]string{"go.mod": "module example.com/shop\n\ngo 1.26\n", "main.go": "package main\n\nimport \"net/http\"\n\nfunc main() { _ = http.ListenAndServe(\":1\", nil) }\n"}
	for name, tt := range map[string]struct {
		files map[string]string
		want  []string // Dockerfiles that are changed or have a step, and services of compose.yaml that are named
	}{
		"a proxy beside Node.js":        {map[string]string{"package.json": express, "Dockerfile": node, "nginx/Dockerfile": nginx, "compose.yaml": "services:\n  web:\n    build: .\n  proxy:\n    build: ./nginx\n"}, []string{"Dockerfile", "web"}},
		"a proxy beside Java":           {map[string]string{"pom.xml": pom, "Dockerfile": java, "nginx/Dockerfile": nginx}, []string{"Dockerfile"}},
		"a proxy beside Go":             {map[string]string{"go.mod": goFiles["go.mod"], "main.go": goFiles["main.go"], "Dockerfile": build, "nginx/Dockerfile": nginx, "compose.yaml": "services:\n  web:\n    build: .\n  proxy:\n    build: ./nginx\n"}, []string{"web"}},
		"a proxy in the directory":      {map[string]string{"package.json": express, "Dockerfile": node, "nginx.Dockerfile": nginx, "compose.yaml": "services:\n  web:\n    build: .\n  proxy:\n    build:\n      context: .\n      dockerfile: nginx.Dockerfile\n"}, []string{"Dockerfile", "web"}},
		"another program":               {map[string]string{"api/requirements.txt": "flask\n", "api/Dockerfile": flask, "worker/Dockerfile": worker}, []string{"api/Dockerfile"}},
		"other requirements":            {map[string]string{"api/requirements.txt": "flask\n", "api/Dockerfile": flask, "worker/Dockerfile": strings.Replace(flask, "requirements.txt", "deps/base.txt", 1)}, []string{"api/Dockerfile"}},
		"the program, in a directory":   {map[string]string{"requirements.txt": "flask\n", "docker/Dockerfile": flask}, []string{"docker/Dockerfile"}},
		"the program, of requirements":  {map[string]string{"requirements/requirements.txt": "flask\n", "Dockerfile": strings.Replace(flask, "-r ", "-r requirements/", 1)}, []string{"Dockerfile"}},
		"the context":                   {map[string]string{"package.json": express, "lint/package.json": "{}", "docker/web.Dockerfile": node, "compose.yaml": "services:\n  web:\n    build:\n      context: .\n      dockerfile: docker/web.Dockerfile\n"}, []string{"docker/web.Dockerfile", "web"}},
		"another context":               {map[string]string{"package.json": express, "mock/Dockerfile": node, "compose.yaml": "services:\n  mock:\n    build: mock\n"}, nil},
		"a base of the language":        {map[string]string{"package.json": express, "Dockerfile": "FROM registry.example.com/base/node-22:1\nCMD [\"./start.sh\"]\n"}, []string{"Dockerfile"}},
		"a base of no language":         {map[string]string{"package.json": express, "Dockerfile": "FROM debian:12\nRUN apt-get install -y nodejs\nCMD [\"sh\", \"-c\", \"exec node server.js\"]\n"}, []string{"Dockerfile"}},
		"Go, in a directory":            {map[string]string{"go.mod": goFiles["go.mod"], "main.go": goFiles["main.go"], "docker/Dockerfile": build, "compose.yaml": "services:\n  web:\n    build:\n      context: .\n      dockerfile: docker/Dockerfile\n"}, []string{"web"}},
		"a program of another manifest": {map[string]string{"package.json": express, "worker/package.json": express, "worker/Dockerfile": node, "compose.yaml": "services:\n  worker:\n    build:\n      context: .\n      dockerfile: worker/Dockerfile\n"}, []string{"worker", "worker/Dockerfile"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			p := apply(t, filepath.Join(t.TempDir(), "shop"), instrument.Minimum, tt.files)
			for _, s := range p.Steps {
				if s.Open && strings.HasSuffix(s.File, "Dockerfile") {
					got = append(got, s.File)
				}
			}
			for _, f := range p.Files {
				switch {
				case strings.HasSuffix(f.Path, "Dockerfile"):
					got = append(got, f.Path)
				case f.Path == "compose.yaml":
					for _, named := range regexp.MustCompile(`OTEL_SERVICE_NAME: "(\w+)"`).FindAllStringSubmatch(string(f.After), -1) {
						got = append(got, named[1])
					}
				}
			}
			slices.Sort(got)
			require.Equal(t, tt.want, got)
		})
	}
}

// TestOptions: options of a runtime that an image or a container sets already stay, and a step names a container whose
// options replace those of its image.
func TestOptions(t *testing.T) {
	const (
		node    = "FROM node:20\nCOPY . .\nRUN npm ci\nENV NODE_OPTIONS=--max-old-space-size=512\nCMD [\"node\", \"a.js\"]\n"
		java    = "FROM eclipse-temurin:21-jre\nENV JAVA_TOOL_OPTIONS=-Xmx1g\nCMD [\"java\", \"-jar\", \"/shop.jar\"]\n"
		express = `{"name": "shop", "scripts": {"start": "node a.js"}, "dependencies": {"express": "5"}}`
		gradle  = "dependencies {\n    implementation 'org.springframework.boot:spring-boot-starter-web:3.2.0'\n}\n"
		pod     = "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: shop\nspec:\n  template:\n    spec:\n      containers:\n        - name: shop\n          image: shop:1\n          env:\n            - {name: NODE_OPTIONS, value: --max-old-space-size=300}\n"
		step    = "the container sets other options, which replace those of the image"
	)
	for name, tt := range map[string]struct {
		files map[string]string
		want  string // in the Dockerfile
		left  bool
	}{
		"Node.js":                {map[string]string{"package.json": express, "Dockerfile": node}, "NODE_OPTIONS=\"$NODE_OPTIONS --require @opentelemetry/auto-instrumentations-node/register\"\n", false},
		"Node.js, Compose":       {map[string]string{"package.json": express, "Dockerfile": node, "compose.yaml": "services:\n  shop:\n    build: .\n    environment:\n      NODE_OPTIONS: --max-old-space-size=256\n"}, "NODE_OPTIONS=\"$NODE_OPTIONS --", true},
		"Node.js, Kubernetes":    {map[string]string{"package.json": express, "Dockerfile": node, "k8s.yaml": pod}, "NODE_OPTIONS=\"$NODE_OPTIONS --", true},
		"Node.js, the same":      {map[string]string{"package.json": express, "Dockerfile": node, "k8s.yaml": strings.Replace(pod, "--max", "--require @opentelemetry/auto-instrumentations-node/register --max", 1)}, "NODE_OPTIONS=\"$NODE_OPTIONS --", false},
		"Node.js, npm start":     {map[string]string{"package.json": express, "Dockerfile": "FROM node:20\nCMD [\"npm\", \"start\"]\n", "k8s.yaml": pod}, "OTEL_SERVICE_NAME=\"shop\"\n", false},
		"Node.js, a container":   {map[string]string{"package.json": express, "Dockerfile": "FROM node:20\nCMD [\"npm\", \"start\"]\n", "k8s.yaml": pod + "          command: [node, b.js]\n"}, "OTEL_SERVICE_NAME=\"shop\"\n", true},
		"Java":                   {map[string]string{"build.gradle": gradle, "Dockerfile": java}, "JAVA_TOOL_OPTIONS=\"$JAVA_TOOL_OPTIONS -javaagent:/opt/", false},
		"Java, Compose":          {map[string]string{"build.gradle": gradle, "Dockerfile": java, "compose.yaml": "services:\n  shop:\n    build: .\n    environment:\n      - JAVA_TOOL_OPTIONS=-Xmx2g\n"}, "JAVA_TOOL_OPTIONS=\"$JAVA_TOOL_OPTIONS -javaagent:", true},
		"Java, no own options":   {map[string]string{"build.gradle": gradle, "Dockerfile": java, "compose.yaml": "services:\n  shop:\n    build: .\n"}, "JAVA_TOOL_OPTIONS=\"$JAVA_TOOL_OPTIONS -javaagent:", false},
		"Java, other Java agent": {map[string]string{"build.gradle": gradle, "Dockerfile": strings.Replace(java, "-jar", "-javaagent:a.jar\", \"-jar", 1), "compose.yaml": "services:\n  shop:\n    build: .\n    environment:\n      JAVA_TOOL_OPTIONS: -Xmx2g\n"}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "shop")
			p := apply(t, dir, instrument.Minimum, tt.files)
			dockerfile, err := os.ReadFile(filepath.Join(dir, "Dockerfile"))
			require.NoError(t, err)
			require.Contains(t, string(dockerfile), tt.want)
			again, _, err := makePatch(t, newParser(t), dir, instrument.Minimum)
			require.NoError(t, err)
			for _, p := range []*patch.Patch{p, again} {
				require.Equal(t, tt.left, slices.ContainsFunc(p.Steps, func(s patch.Step) bool { return s.Open && strings.HasSuffix(s.Text, step) }))
			}
		})
	}
}

// TestESModules: programs of ES modules load the hooks of their imports, of a package that the manifest names.
func TestESModules(t *testing.T) {
	const (
		hooks = "--experimental-loader=@opentelemetry/instrumentation/hook.mjs --require @opentelemetry/auto-instrumentations-node/register"
		named = `"@opentelemetry/instrumentation": "^0.`
		step  = "the program loads its hooks"
	)
	for name, tt := range map[string]struct {
		manifest, command string
		want              []string // in the diff
		no                []string
		left              bool
	}{
		"a module":              {`{"type": "module", "scripts": {"start": "node a.js"}, "dependencies": {"express": "5"}}`, `"node", "a.js"`, []string{`"node ` + hooks + ` a.js"`, `NODE_OPTIONS="$NODE_OPTIONS ` + hooks, named}, nil, false},
		"a script of a module":  {`{"scripts": {"start": "node a.mjs"}, "dependencies": {"express": "5"}}`, `"npm", "start"`, []string{`"node ` + hooks + ` a.mjs"`, named}, nil, false},
		"an image of a module":  {`{"scripts": {"start": "node a.js"}, "dependencies": {"express": "5"}}`, `"node", "a.mjs"`, []string{`"node --require @opentelemetry/auto-instrumentations-node/register a.js"`, `NODE_OPTIONS="$NODE_OPTIONS ` + hooks, named}, nil, false},
		"an image of a script":  {`{"scripts": {"start": "node a.js", "worker": "node b.mjs"}, "dependencies": {"express": "5"}}`, `"npm", "run", "worker"`, []string{`NODE_OPTIONS="$NODE_OPTIONS ` + hooks, named}, nil, false},
		"CommonJS":              {`{"scripts": {"start": "node a.js"}, "dependencies": {"express": "5"}}`, `"node", "a.js"`, []string{`NODE_OPTIONS="$NODE_OPTIONS --require`}, []string{named, "loader"}, false},
		"an SDK of the project": {`{"type": "module", "scripts": {"start": "node a.js"}, "dependencies": {"express": "5", "@opentelemetry/auto-instrumentations-node": "^0.50.0"}}`, `"npm", "start"`, []string{`"node ` + hooks + ` a.js"`}, []string{named}, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := apply(t, filepath.Join(t.TempDir(), "shop"), instrument.Minimum, map[string]string{"package.json": tt.manifest, "Dockerfile": "FROM node:20\nCOPY . .\nRUN npm ci\nCMD [" + tt.command + "]\n"})
			var diff strings.Builder
			require.NoError(t, p.Diff(&diff))
			for _, want := range tt.want {
				require.Contains(t, diff.String(), want)
			}
			for _, no := range tt.no {
				require.NotContains(t, diff.String(), no)
			}
			require.Equal(t, tt.left, slices.ContainsFunc(p.Steps, func(s patch.Step) bool { return s.Open && strings.HasSuffix(s.Text, step) }))
		})
	}
}

// TestNodeVersions: the packages fit the version of Node.js that the program runs with.
func TestNodeVersions(t *testing.T) {
	const (
		newest  = "^0.82.0"
		older   = "^0.80.0"
		refused = "Nothing is added: the SDK of today needs Node.js 18.19 or newer, and "
	)
	for name, tt := range map[string]struct {
		engines, image, nvmrc string
		want                  string // the version, or the step
		raise                 string // the version that engines is raised to
	}{
		"nothing":                        {"", "", "", older, ""},
		"an exact version":               {"12", "", "", refused + "the manifest allows 12", ""},
		"an exact version and nvm":       {"12", "", "24", refused + "the manifest allows 12", ""},
		"an upper bound":                 {">=12 <17", "", "", refused + "the manifest allows 12", ""},
		"a lower bound":                  {">=12.0.0", "", "", older, "^18.19.0 || >=20.6.0"},
		"alternatives":                   {"^12 || >=14", "", "", older, "^18.19.0 || >=20.6.0"},
		"a new enough lower bound":       {">=18", "", "", older, ""},
		"a lower bound, an image":        {">=12", "node:22", "", newest, ">=22.15.0"},
		"a lower bound, an old image":    {">=12", "node:14", "22", refused + "the image has 14", ""},
		"a lower bound, latest":          {">=12", "node:alpine", "", newest, ">=22.15.0"},
		"an image without a tag":         {"", "node", "", newest, ""},
		"a stage of the latest":          {"", "node:lts-alpine AS base\nFROM base", "", newest, ""},
		"an image with a codename":       {"", "node:hydrogen", "", older, ""},
		"a lower bound and nvm":          {">=12", "", "v22\n", newest, ">=22.15.0"},
		"a lower bound and the LTS":      {">=12", "", "lts/*\n", newest, ">=22.15.0"},
		"a lower bound and an older nvm": {">=12", "", "16.3\n", refused + "`.nvmrc` has 16", ""},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{"package.json": `{"scripts": {"start": "node a.js"}, "engines": {"node": "` + tt.engines + `"}, "dependencies": {"express": "5"}}`}
			if tt.image != "" {
				files["Dockerfile"] = "FROM " + tt.image + "\nCMD [\"npm\", \"start\"]\n"
			}
			if tt.nvmrc != "" {
				files[".nvmrc"] = tt.nvmrc
			}
			p := apply(t, filepath.Join(t.TempDir(), "shop"), instrument.Minimum, files)
			var steps []string
			raise := ""
			for _, s := range p.Steps {
				steps = append(steps, s.Text)
				if rest, ok := strings.CutPrefix(s.Text, "Raise `engines` to `"); ok {
					raise, _, _ = strings.Cut(rest, "`")
				}
			}
			require.Contains(t, strings.Join(steps, "\n"), tt.want)
			require.Equal(t, tt.raise, raise)
		})
	}
}

// TestCommandsOfNode: an image that starts the program by `node` or by another script than the start script gets
// NODE_OPTIONS, and a step says so of one that starts another program.
func TestCommandsOfNode(t *testing.T) {
	for command, want := range map[string]string{
		`CMD ["npm", "start"]`:                    "script",
		`CMD npm run start`:                       "script",
		`ENTRYPOINT ["yarn", "start"]`:            "script",
		`CMD ["sh", "-c", "exec pnpm -s start"]`:  "script",
		`CMD ["dumb-init", "--", "npm", "start"]`: "script",
		`CMD ["npm", "run", "start:prod"]`:        "script",
		`CMD ["npm", "run", "start:worker"]`:      "options",
		`ENTRYPOINT ["yarn", "worker"]`:           "options",
		`CMD ["pm2-runtime", "pm2.config.js"]`:    "step",
		`ENTRYPOINT ["/docker-entrypoint.sh"]`:    "step",
		`CMD npx prisma deploy && node a.js`:      "step",
		`CMD ["pnpm", "--filter", "x", "start"]`:  "script",
		`CMD ["sh", "-c", "exec node a.js"]`:      "options",
		`CMD node a.js`:                           "options",
	} {
		t.Run(command, func(t *testing.T) {
			p := apply(t, filepath.Join(t.TempDir(), "shop"), instrument.Minimum, map[string]string{
				"package.json": `{"name": "shop", "scripts": {"start": "node a.js", "start:prod": "node b.js", "start:worker": "tsx a.ts", "worker": "node a.js"}, "dependencies": {"express": "5"}}`, "Dockerfile": "FROM node:20\nCOPY . .\nRUN npm ci\n" + command + "\n",
			})
			require.Equal(t, want == "step", slices.ContainsFunc(p.Steps, func(s patch.Step) bool { return s.Open && s.File == "Dockerfile" }))
			require.Equal(t, want != "step", p.Files[0].Path == "Dockerfile")
			if want != "step" {
				require.Contains(t, string(p.Files[0].After), `OTEL_SERVICE_NAME="shop"`)
				require.Equal(t, want == "options", strings.Contains(string(p.Files[0].After), "NODE_OPTIONS"))
			}
		})
	}
}

// TestImagesOfNode: a container with a command of its own gets NODE_OPTIONS unless its image sets them, whatever other
// images do.
func TestImagesOfNode(t *testing.T) {
	p := apply(t, filepath.Join(t.TempDir(), "shop"), instrument.Minimum, map[string]string{
		"package.json":      `{"name": "shop", "scripts": {"start": "node a.js"}, "dependencies": {"express": "5"}}`,
		"Dockerfile":        "FROM node:20\nCOPY . .\nRUN npm ci\nCMD [\"npm\", \"start\"]\n",
		"Dockerfile.worker": "FROM node:20\nCOPY . .\nRUN npm ci\nCMD node worker.js\n",
		"compose.yaml":      "services:\n  dev:\n    build: .\n    command: [\"node\", \"a.js\"]\n  worker:\n    build:\n      context: .\n      dockerfile: Dockerfile.worker\n    command: [\"node\", \"other.js\"]\n",
	})
	files := map[string]string{}
	for _, f := range p.Files {
		files[f.Path] = string(f.After)
	}
	require.NotContains(t, files["Dockerfile"], "NODE_OPTIONS")
	require.Contains(t, files["Dockerfile.worker"], "NODE_OPTIONS")
	require.Equal(t, 1, strings.Count(files["compose.yaml"], "NODE_OPTIONS"))
	require.Regexp(t, `(?s)dev:.*NODE_OPTIONS.*worker:`, files["compose.yaml"])
}

// TestProgramsOfGo: of several programs those that serve get the setup of the SDK, and a step names those that use
// packages with servers or clients.
func TestProgramsOfGo(t *testing.T) {
	const program = "package main\n\nimport %s\n\nfunc main() {\n\t%s\n}\n"
	p := apply(t, filepath.Join(t.TempDir(), "shop"), instrument.General, map[string]string{
		"go.mod":              "module example.com/shop\n\ngo 1.25\n",
		"cmd/api/main.go":     fmt.Sprintf(program, `"net/http"`, `http.ListenAndServe(":80", http.DefaultServeMux)`),
		"cmd/worker/main.go":  fmt.Sprintf(program, `"example.com/shop/internal/stock"`, "stock.Run()"),
		"cmd/tool/main.go":    fmt.Sprintf(program, `"fmt"`, "fmt.Println()"),
		"cmd/feed/main.go":    fmt.Sprintf(program, `"example.com/shop/internal/feed"`, "feed.Run()"),
		"internal/feed/a.go":  "package feed\n\nimport (\n\t\"context\"\n\t\"net/http\"\n)\n\nfunc load(ctx context.Context) {\n\treq, _ := http.NewRequestWithContext(ctx, \"GET\", \"http://feed\", nil)\n\t_, _ = http.DefaultClient.Do(req)\n}\n",
		"internal/stock/a.go": "package stock\n\nimport \"net/http\"\n\nfunc Run() {\n\thttp.ListenAndServe(\":81\", http.DefaultServeMux)\n}\n",
	})
	var steps []string
	for _, s := range p.Steps {
		if strings.HasPrefix(s.Text, "Start the SDK") || strings.HasPrefix(s.Text, "Set up the SDK") {
			steps = append(steps, s.File+": "+s.Text[:len("Start the SDK")])
		}
	}
	require.Equal(t, []string{"cmd/api/main.go: Start the SDK", "cmd/feed/main.go: Set up the SD", "cmd/worker/main.go: Set up the SD"}, steps)
}

// TestWrappedSDK: no setup is added to a program of Go that calls a library which may set up the SDK.
func TestWrappedSDK(t *testing.T) {
	const (
		sdk      = "\tgo.opentelemetry.io/otel/sdk v1.45.0 // indirect\n"
		exporter = "\tgo.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc v1.45.0 // indirect\n"
	)
	for name, tt := range map[string]struct {
		requires, pkg, call string
		left                bool
	}{
		"a setup":                    {sdk + exporter, "github.com/moov-io/base/telemetry", "telemetry.SetupTelemetry(ctx)", true},
		"a name in another package":  {sdk + exporter, "acme.com/kit", "kit.InitTracing(ctx)", true},
		"a package for telemetry":    {sdk + exporter, "acme.com/kit/telemetry/v2", "telemetry.Init(ctx)", true},
		"a span":                     {sdk + exporter, "acme.com/kit/tracing", "tracing.StartSpan(ctx)", false},
		"no exporter":                {sdk, "acme.com/kit", "kit.InitTracing(ctx)", false},
		"a package of this module":   {sdk + exporter, "acme.com/orders/telemetry", "telemetry.SetupTelemetry(ctx)", false},
		"telemetry of the toolchain": {sdk + exporter, "golang.org/x/telemetry", "telemetry.Start(ctx)", false},
	} {
		t.Run(name, func(t *testing.T) {
			p := apply(t, filepath.Join(t.TempDir(), "orders"), instrument.Minimum, map[string]string{
				"go.mod":  "module acme.com/orders\n\ngo 1.26\n\nrequire (\n" + tt.requires + ")\n",
				"main.go": "package main\n\nimport (\n\t\"net/http\"\n\n\t\"" + tt.pkg + "\"\n)\n\nfunc main() {\n\tdefer " + tt.call + "()\n\thttp.ListenAndServe(\":80\", nil)\n}\n",
			})
			require.Equal(t, tt.left, len(p.Files) == 0)
			require.Equal(t, tt.left, slices.ContainsFunc(p.Steps, func(s patch.Step) bool {
				return s.File == "main.go" && s.Line == 10 && strings.HasPrefix(s.Text, "No setup of the SDK is added: the library")
			}))
		})
	}
}

// TestGoSetupOnce: a step says why no setup is added to the programs of a module, and no other reason.
func TestGoSetupOnce(t *testing.T) {
	const program = "package main\n\nimport \"example.com/shop/web\"\n\nfunc main() { web.Run() }\n"
	p := apply(t, filepath.Join(t.TempDir(), "shop"), instrument.Minimum, map[string]string{
		"go.mod":        "module example.com/shop\n\ngo 1.26\n\nrequire go.opentelemetry.io/otel/sdk v1.45.0\n",
		"cmd/a/main.go": program,
		"cmd/b/main.go": program,
		"web/serve.go":  "package web\n\nimport \"net/http\"\n\nfunc Run() { http.ListenAndServe(\":80\", nil) }\n",
	})
	require.Len(t, p.Steps, 1)
	require.Equal(t, "No setup of the SDK is added: the module requires `go.opentelemetry.io/otel/sdk`", p.Steps[0].Text)
}

// TestProgramNames: a program of Go has the name of its directory, or of its module if that is generic.
func TestProgramNames(t *testing.T) {
	const program = "package main\n\nimport \"net/http\"\n\nfunc main() {\n\thttp.ListenAndServe(\":80\", nil)\n}\n"
	for name, tt := range map[string]struct {
		module string
		want   map[string]string // by directory
	}{
		"the root":           {"acme.com/orders", map[string]string{".": "orders"}},
		"a name":             {"acme.com/orders", map[string]string{"cmd/worker": "worker"}},
		"a generic name":     {"acme.com/orders", map[string]string{"cmd/server": "orders"}},
		"a major version":    {"acme.com/orders/v2", map[string]string{"server": "orders"}},
		"cmd":                {"acme.com/orders", map[string]string{"cmd": "orders"}},
		"two generic names":  {"acme.com/orders", map[string]string{"cmd/server": "orders-server", "cmd/api": "orders-api", "cmd/worker": "worker"}},
		"the root and a cmd": {"acme.com/orders", map[string]string{".": "orders", "cmd/server": "orders-server"}},
		"services":           {"acme.com/shop", map[string]string{"services/cart/cmd/server": "cart", "services/orders/cmd/server": "orders"}},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{"go.mod": "module " + tt.module + "\n\ngo 1.26\n"}
			for dir := range tt.want {
				files[filepath.Join(dir, "main.go")] = program
			}
			got := map[string]string{}
			for _, f := range apply(t, filepath.Join(t.TempDir(), "repository"), instrument.Minimum, files).Files {
				if m := regexp.MustCompile(`"service.name", "(.*)"`).FindSubmatch(f.After); m != nil {
					got[filepath.Dir(f.Path)] = string(m[1])
				}
			}
			require.Equal(t, tt.want, got)
		})
	}
}

// TestGradle: a service is recognized by what its script takes from a version catalog, and by its plugins. The catalog
// is no service.
func TestGradle(t *testing.T) {
	const catalog = `[versions]
spring = "3.2.0"
[libraries]
spring-web = { module = "org.springframework.boot:spring-boot-starter-web", version.ref = "spring" }
kafka_clients = "org.apache.kafka:kafka-clients:3.7.0"
otel-sdk = { group = "io.opentelemetry", name = "opentelemetry-sdk", version = "1.62.0" }
gson = "com.google.code.gson:gson:2.11.0"
[bundles]
messages = ["gson", "kafka_clients"]
[plugins]
spring-boot = { id = "org.springframework.boot", version.ref = "spring" }
`
	for name, tt := range map[string]struct {
		script string
		want   string // "agent", a text of a step, "" for no service
	}{
		"a library":           {`dependencies { implementation(libs.spring.web) }`, "agent"},
		"a library, Groovy":   {"dependencies {\n  api libs.kafka.clients.get()\n}", "agent"},
		"a bundle":            {`dependencies { implementation(libs.bundles.messages) }`, "agent"},
		"a plugin":            {`plugins { id("org.springframework.boot") version "3.2.0" }`, "agent"},
		"a plugin, Groovy":    {`apply plugin: 'org.springframework.boot'`, "agent"},
		"a plugin's alias":    {`plugins { alias(libs.plugins.spring.boot) }`, "agent"},
		"an SDK":              {"dependencies {\n  implementation(libs.spring.web)\n  implementation(libs.otel.sdk)\n}", "Nothing is added to the program: `io.opentelemetry:opentelemetry-sdk` sets up telemetry"},
		"an SDK of tests":     {"dependencies {\n  implementation(libs.spring.web)\n  testImplementation(libs.otel.sdk)\n}", "agent"},
		"another library":     {`dependencies { implementation(libs.gson) }`, ""},
		"tests":               {`dependencies { testImplementation(libs.spring.web) }`, ""},
		"a comment":           {`// implementation(libs.spring.web)`, ""},
		"a plugin of others":  {`plugins { alias(libs.plugins.spring.boot) apply false }`, ""},
		"plugins of projects": {"subprojects {\n  apply plugin: 'org.springframework.boot'\n}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{"api/build.gradle.kts": tt.script + "\n", "gradle/libs.versions.toml": catalog, "api/Dockerfile": "FROM eclipse-temurin:21-jre\nCMD [\"java\", \"-jar\", \"/api.jar\"]\n"}
			dir := filepath.Join(t.TempDir(), "shop")
			if tt.want == "" {
				write(t, dir, files)
				_, _, err := makePatch(t, newParser(t), dir, instrument.Minimum)
				require.Equal(t, assay.CodeUnprocessable, assay.ErrorCode(err))
				return
			}
			p := apply(t, dir, instrument.Minimum, files)
			require.Len(t, p.Steps, 1)
			if tt.want != "agent" {
				require.Equal(t, tt.want, p.Steps[0].Text)
				return
			}
			require.Equal(t, "api/Dockerfile", p.Files[0].Path)
			require.Contains(t, string(p.Files[0].After), `OTEL_SERVICE_NAME="api"`)
		})
	}
}

// TestDevelopment: what only development needs is not there when the program starts.
func TestDevelopment(t *testing.T) {
	for name, tt := range map[string]struct {
		manifest string
		want     string // a step; "" for a change of the script
	}{
		"instrumentation":     {`"dependencies": {"express": "5"}, "devDependencies": {"@opentelemetry/auto-instrumentations-node": "^0.80.0"}`, "Move `@opentelemetry/auto-instrumentations-node` from `devDependencies` to `dependencies`: the program needs it"},
		"the API":             {`"dependencies": {"express": "5"}, "devDependencies": {"@opentelemetry/api": "^1.9.0"}`, "Move `@opentelemetry/api` from `devDependencies` to `dependencies`: the program needs it"},
		"another SDK":         {`"dependencies": {"express": "5"}, "devDependencies": {"@opentelemetry/sdk-node": "^0.200.0"}`, ""},
		"a server of its own": {`"scripts": {"start": "next start"}, "dependencies": {"next": "15", "react": "19"}`, "The project is left: `next` has a setup of its own for OpenTelemetry"},
		"a framework":         {`"dependencies": {"express": "5"}, "devDependencies": {"electron": "^40.0.0"}`, "The project is left: `electron` has a setup of its own for OpenTelemetry"},
	} {
		t.Run(name, func(t *testing.T) {
			p := apply(t, filepath.Join(t.TempDir(), "shop"), instrument.General, map[string]string{"package.json": `{"scripts": {"start": "node a.js"}, ` + tt.manifest + "}\n"})
			require.Equal(t, tt.want == "", len(p.Files) > 0)
			if tt.want != "" {
				require.Equal(t, tt.want, p.Steps[0].Text)
			}
		})
	}
}

// TestProjects: a project is a service if it has a server of its ecosystem, and its manifest changes if its start does.
func TestProjects(t *testing.T) {
	const (
		packages = "Install `@opentelemetry/api`: `^1.10.0`, `@opentelemetry/auto-instrumentations-node`: `^0.82.0` and start the program with"
		python   = "FROM python:3.12\nCOPY . .\nRUN pip install .\nCMD [\"flask\", \"run\"]\n"
		compose  = "services:\n  web:\n    build: .\n"
	)
	pyproject := "[project]\nname = \"web\"\ndependencies = [\n  \"flask==2.3.2\",\n  \"redis==4.6.0\",\n]\n"
	for name, tt := range map[string]struct {
		files map[string]string
		want  string // changed files, "" for no service
		left  string // beginning of the only step that is left beside the name, "" for none
	}{
		"a client beside a service":          {map[string]string{"package.json": `{"dependencies": {"react": "18"}}`, "pyproject.toml": pyproject, "Dockerfile": python, "compose.yaml": compose}, "Dockerfile compose.yaml pyproject.toml", ""},
		"a service of each":                  {map[string]string{"package.json": `{"scripts": {"start": "node a.js"}, "engines": {"node": "24"}, "dependencies": {"express": "5"}}`, "pyproject.toml": pyproject, "Dockerfile": python, "compose.yaml": compose}, "Dockerfile compose.yaml package.json pyproject.toml", ""},
		"a client of a server's protocol":    {map[string]string{"package.json": `{"dependencies": {"vue": "3", "socket.io-client": "4", "pg-format": "1"}}`}, "", ""},
		"a library with a server":            {map[string]string{"package.json": `{"engines": {"node": "24"}, "dependencies": {"express": "5"}}`}, "", packages},
		"a script":                           {map[string]string{"package.json": `{"scripts": {"start": "node a.js"}, "engines": {"node": "24"}, "dependencies": {"axios": "1"}}`, "a.js": "axios.get(url).then((r) => console.log(r.data));\n"}, "", ""},
		"a server without a framework":       {map[string]string{"package.json": `{"scripts": {"start": "node a.js"}, "engines": {"node": "24"}, "dependencies": {"axios": "1"}}`, "a.js": "http.createServer(handle).listen(80);\n"}, "package.json", ""},
		"a program that a container starts":  {map[string]string{"package.json": `{"engines": {"node": "24"}, "dependencies": {"express": "5"}}`, "compose.yaml": compose + "    command: node a.js\n"}, "compose.yaml package.json", ""},
		"a package of an organization":       {map[string]string{"package.json": `{"scripts": {"start": "node a.js"}, "dependencies": {"@sentry/bun": "10"}}`}, "", "Nothing is added to the program: `@sentry/bun`"},
		"a package beside one that traces":   {map[string]string{"package.json": `{"scripts": {"start": "node a.js"}, "engines": {"node": "24"}, "dependencies": {"express": "5", "newrelic-pino": "1"}}`}, "package.json", ""},
		"a library of another project":       {map[string]string{"package.json": `{"dependencies": {"@shop/db": "*"}}`, "db/package.json": `{"name": "@shop/db", "engines": {"node": "24"}, "dependencies": {"pg": "8"}}`}, "", ""},
		"a service whose types others use":   {map[string]string{"package.json": `{"dependencies": {"@shop/db": "*"}}`, "db/package.json": `{"name": "@shop/db", "scripts": {"start": "tsx a.ts"}, "engines": {"node": "24"}, "dependencies": {"pg": "8"}}`}, "", packages},
		"packages that are installed before": {map[string]string{"package.json": `{"dependencies": {"express": "5", "@opentelemetry/auto-instrumentations-node": "^0.82.0"}}`}, "", "Start the program with `NODE_OPTIONS="},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "shop")
			if tt.want == "" && tt.left == "" {
				write(t, dir, tt.files)
				_, _, err := makePatch(t, newParser(t), dir, instrument.Minimum)
				require.Equal(t, assay.CodeUnprocessable, assay.ErrorCode(err))
				return
			}
			p := apply(t, dir, instrument.Minimum, tt.files)
			var files, left []string
			for _, f := range p.Files {
				files = append(files, f.Path)
				require.LessOrEqual(t, strings.Count(string(f.After), "OTEL_SERVICE_NAME"), 1)
				require.False(t, strings.Contains(string(f.After), "NODE_OPTIONS") && tt.files["Dockerfile"] != "")
			}
			for _, s := range p.Steps {
				if s.Open && !strings.HasPrefix(s.Text, "Set `OTEL_SERVICE_NAME=") { // see TestNameStep
					left = append(left, s.Text)
				}
			}
			require.Equal(t, tt.want, strings.Join(files, " "))
			require.True(t, tt.left == "" && left == nil || len(left) == 1 && strings.HasPrefix(left[0], tt.left), left)
		})
	}
}

// TestOwnSetup: a program whose code sets up the SDK stays as it is, also with packages that instrument automatically.
func TestOwnSetup(t *testing.T) {
	const (
		node     = `{"scripts": {"start": "node a.js"}, "dependencies": {"@opentelemetry/auto-instrumentations-node": "^0.80.0", "@opentelemetry/sdk-node": "^0.222.0", "express": "5"}}`
		packages = "flask\nopentelemetry-distro\nopentelemetry-sdk\n"
		setup    = "from opentelemetry import trace\n\ntrace.set_tracer_provider(TracerProvider())\n"
		image    = "FROM python:3.12\nCOPY . .\nRUN pip install -r requirements.txt\nCMD [\"python\", \"app.py\"]\n"
		compose  = "services:\n  web:\n    build: .\n"
	)
	for name, tt := range map[string]struct {
		files map[string]string
		want  string // the step; "" for a change
	}{
		"Node.js":            {map[string]string{"package.json": node, "Dockerfile": "FROM node:22\nCOPY . .\nRUN npm ci\nCMD [\"node\", \"a.js\"]\n", "compose.yaml": compose}, "package.json:0 Nothing is added to the program: `@opentelemetry/sdk-node` sets up telemetry"},
		"Python":             {map[string]string{"requirements.txt": packages, "app.py": setup, "Dockerfile": image, "compose.yaml": compose}, "app.py:3 Nothing is added to the program: this code sets up the SDK"},
		"Python, in a test":  {map[string]string{"requirements.txt": packages, "tests/test_app.py": setup, "Dockerfile": image}, ""},
		"Python, not at all": {map[string]string{"requirements.txt": packages, "app.py": "import flask\n", "Dockerfile": image}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := apply(t, filepath.Join(t.TempDir(), "shop"), instrument.Minimum, tt.files)
			require.Equal(t, tt.want == "", len(p.Files) > 0)
			if tt.want != "" {
				require.Len(t, p.Steps, 1)
				require.Equal(t, tt.want, fmt.Sprintf("%s:%d %s", p.Steps[0].File, p.Steps[0].Line, p.Steps[0].Text))
			}
		})
	}
}

// TestSharedSetup: a service stays as it is if a package of the repository that it depends on sets up the SDK. Without
// the dependency, or without a call that starts the SDK, it changes.
func TestSharedSetup(t *testing.T) {
	const (
		nodeLib   = `{"name": "@shop/telemetry", "dependencies": {"@opentelemetry/sdk-node": "^0.222.0"}}`
		flask     = "FROM python:3.12\nCOPY . .\nRUN pip install -r requirements.txt\nCMD [\"flask\", \"run\"]\n"
		tomcat    = "FROM tomcat:11\nCMD [\"catalina.sh\", \"run\"]\n"
		pythonLib = "[project]\nname = \"shop-telemetry\"\ndependencies = [\"opentelemetry-sdk\"]\n"
		goLib     = "module example.com/telemetry\n\nrequire go.opentelemetry.io/otel/sdk v1.40.0\n"
		goService = "module example.com/api\n\ngo 1.26.0\n"
		server    = "package main\n\nimport \"net/http\"\n\nfunc main() { _ = http.ListenAndServe(\":80\", nil) }\n"
		starter   = "<dependency><groupId>org.springframework</groupId><artifactId>spring-web</artifactId></dependency>"
	)
	node := func(dependencies string) string {
		return `{"name": "api", "scripts": {"start": "node a.js"}, "engines": {"node": "24"}, "dependencies": {"express": "5"` + dependencies + `}}`
	}
	pom := func(name, dependencies string) string {
		return "<project><groupId>shop</groupId><artifactId>" + name + "</artifactId><dependencies>" + dependencies + "</dependencies></project>"
	}
	const (
		tracing    = "export class Tracing {\n  constructor() { new NodeSDK().start(); }\n}\n"
		typed      = "import type { Tracing } from './tracing';\nexport interface Worker { tracing: Tracing }\n"
		nodeStarts = "api/package.json Nothing is added to the program: `@opentelemetry/sdk-node` of `telemetry/package.json` sets up telemetry"
	)
	unstarted := func(files ...string) map[string]string { // the service uses the package without starting its SDK
		all := map[string]string{"telemetry/package.json": nodeLib, "api/package.json": node(`, "@shop/telemetry": "workspace:*"`)}
		for i := 0; i+1 < len(files); i += 2 {
			all[files[i]] = files[i+1]
		}
		return all
	}
	for name, tt := range map[string]struct {
		files map[string]string
		uses  map[string]string // with the dependency, or the call that starts the SDK
		want  string            // the step
	}{
		"a function": {
			unstarted("telemetry/a.js", "exports.startTelemetry = () => { new NodeSDK().start(); };\n", "api/a.js", "const telemetry = require('@shop/telemetry');\ntelemetry.log();\n"),
			map[string]string{"api/a.js": "const telemetry = require('@shop/telemetry');\ntelemetry.startTelemetry();\n"},
			nodeStarts,
		},
		"a class": {
			unstarted("telemetry/tracing.ts", tracing, "telemetry/worker.ts", typed, "telemetry/index.ts", "export { Tracing } from './tracing';\n"),
			map[string]string{"api/a.ts": "import { Tracing } from '@shop/telemetry';\nnew Tracing();\n"},
			nodeStarts,
		},
		"a class with another name": {
			unstarted("telemetry/tracing.ts", tracing),
			map[string]string{"api/a.ts": "import { Tracing as T } from '@shop/telemetry';\nnew T();\n"},
			nodeStarts,
		},
		"a class with a superclass": {
			unstarted("telemetry/tracing.ts", tracing),
			map[string]string{"telemetry/tracing.ts": "export class Tracing extends Plugin {\n  constructor() { new NodeSDK().start(); }\n}\n"},
			nodeStarts,
		},
		"a static field": {
			unstarted("telemetry/tracing.ts", tracing),
			map[string]string{"telemetry/tracing.ts": "export class Tracing {\n  static sdk = new NodeSDK();\n}\n"},
			nodeStarts,
		},
		"a default export": {
			unstarted("telemetry/tracing.ts", "export function start() { new NodeSDK().start(); }\n"),
			map[string]string{"telemetry/tracing.ts": "export default function start() { new NodeSDK().start(); }\n"},
			nodeStarts,
		},
		"an exported function": {
			unstarted("telemetry/a.js", "exports.startTelemetry = () => { new NodeSDK().start(); };\n"),
			map[string]string{"telemetry/a.js": "module.exports = () => { new NodeSDK().start(); };\n"},
			nodeStarts,
		},
		"a callback": {
			unstarted("telemetry/a.js", "const plugin = { startTelemetry() { new NodeSDK().start(); } };\n"),
			map[string]string{"telemetry/a.js": "define({ startTelemetry() { new NodeSDK().start(); } });\n"},
			nodeStarts,
		},
		"started by the package": {
			unstarted("telemetry/tracing.ts", tracing),
			map[string]string{"telemetry/start.ts": "import { Tracing } from './tracing';\nnew Tracing();\n"},
			nodeStarts,
		},
		"started by another package": {
			unstarted("telemetry/tracing.ts", tracing, "web/package.json", `{"name": "web", "dependencies": {"@shop/telemetry": "workspace:*"}}`, "api/package.json", node(`, "web": "workspace:*"`)),
			map[string]string{"web/web.ts": "import { Tracing } from '@shop/telemetry';\nexport const serve = () => new Tracing();\n"},
			nodeStarts,
		},
		"a function in Python": {
			map[string]string{"libs/telemetry/pyproject.toml": pythonLib, "libs/telemetry/t.py": "def set_up():\n    trace.set_tracer_provider(TracerProvider())\n", "api/requirements.txt": "flask\n-e ../libs/telemetry\n", "api/app.py": "import t\n", "api/Dockerfile": flask},
			map[string]string{"api/app.py": "import t\nt.set_up()\n"},
			"api/requirements.txt Nothing is added to the program: `opentelemetry-sdk` of `libs/telemetry/pyproject.toml` sets up telemetry",
		},
		"a decorated function in Python": {
			map[string]string{"libs/telemetry/pyproject.toml": pythonLib, "libs/telemetry/t.py": "def set_up():\n    trace.set_tracer_provider(TracerProvider())\n", "api/requirements.txt": "flask\n-e ../libs/telemetry\n", "api/app.py": "import t\n", "api/Dockerfile": flask},
			map[string]string{"libs/telemetry/t.py": "@signal.connect\ndef set_up():\n    trace.set_tracer_provider(TracerProvider())\n"},
			"api/requirements.txt Nothing is added to the program: `opentelemetry-sdk` of `libs/telemetry/pyproject.toml` sets up telemetry",
		},
		"npm": {
			map[string]string{"telemetry/package.json": nodeLib, "api/package.json": node("")},
			map[string]string{"api/package.json": node(`, "@shop/telemetry": "workspace:*"`)},
			"api/package.json Nothing is added to the program: `@opentelemetry/sdk-node` of `telemetry/package.json` sets up telemetry",
		},
		"npm, automatic": {
			map[string]string{"telemetry/package.json": `{"dependencies": {"@opentelemetry/auto-instrumentations-node": "^0.80.0"}}`, "api/package.json": node("")},
			map[string]string{"api/package.json": node(`, "telemetry": "file:../telemetry"`)},
			"api/package.json Nothing is added to the program: `@opentelemetry/auto-instrumentations-node` of `telemetry/package.json` sets up telemetry",
		},
		"npm, an import": {
			map[string]string{"package.json": `{"dependencies": {"dd-trace": "5"}}`, "trace.js": "", "api/package.json": node(""), "api/src/a.js": ""},
			map[string]string{"api/src/a.js": "import '../../trace.js';\n"},
			"api/package.json Nothing is added to the program: `dd-trace` of `package.json` sets up telemetry",
		},
		"npm, code": {
			map[string]string{"package.json": nodeLib, "shared/package.json": "{}", "shared/telemetry.ts": "export const sdk = new NodeSDK();\n", "api/package.json": node(""), "api/src/a.ts": ""},
			map[string]string{"api/src/a.ts": "import { sdk } from '../../shared/telemetry';\n"},
			"shared/telemetry.ts Nothing is added to the program: this code sets up the SDK",
		},
		"Maven, code": {
			map[string]string{"telemetry/pom.xml": pom("telemetry", ""), "telemetry/src/main/java/T.java": "class T { Object sdk = OpenTelemetrySdk.builder().build(); }\n", "api/pom.xml": pom("api", starter), "api/Dockerfile": tomcat},
			map[string]string{"api/pom.xml": pom("api", starter+"<dependency><groupId>shop</groupId><artifactId>telemetry</artifactId></dependency>")},
			"telemetry/src/main/java/T.java Nothing is added to the program: this code sets up the SDK",
		},
		"Python": {
			map[string]string{"libs/telemetry/pyproject.toml": pythonLib, "api/requirements.txt": "flask\n", "api/Dockerfile": flask},
			map[string]string{"api/requirements.txt": "flask\n-e ../libs/telemetry\n"},
			"api/requirements.txt Nothing is added to the program: `opentelemetry-sdk` of `libs/telemetry/pyproject.toml` sets up telemetry",
		},
		"Python, an import": {
			map[string]string{"libs/telemetry/setup.py": "setup(install_requires=['opentelemetry-sdk'])\n", "libs/telemetry/shop_telemetry/__init__.py": "", "api/requirements.txt": "flask\n", "api/app.py": "import flask\n", "api/Dockerfile": flask},
			map[string]string{"api/app.py": "import flask\nfrom shop_telemetry import setup\n"},
			"api/requirements.txt Nothing is added to the program: `opentelemetry-sdk` of `libs/telemetry/setup.py` sets up telemetry",
		},
		"Python, code": {
			map[string]string{"libs/telemetry/pyproject.toml": "[project]\nname = \"telemetry\"\n", "libs/telemetry/telemetry.py": "trace.set_tracer_provider(provider)\n", "api/requirements.txt": "flask\nopentelemetry-distro\n", "api/Dockerfile": flask},
			map[string]string{"api/requirements.txt": "flask\nopentelemetry-distro\n./../libs/telemetry\n"},
			"libs/telemetry/telemetry.py Nothing is added to the program: this code sets up the SDK",
		},
		"Go": {
			map[string]string{"telemetry/go.mod": goLib, "api/go.mod": goService, "api/main.go": server},
			map[string]string{"api/go.mod": goService + "\nrequire example.com/telemetry v0.0.0\n\nreplace example.com/telemetry => ../telemetry\n"},
			"api/go.mod No setup of the SDK is added: the module requires `go.opentelemetry.io/otel/sdk` of `telemetry/go.mod`",
		},
		"Go, a workspace": {
			map[string]string{"go.work": "go 1.26.0\n\nuse (\n\t./api\n\t./telemetry\n)\n", "telemetry/go.mod": goLib, "api/go.mod": goService, "api/main.go": server},
			map[string]string{"api/main.go": strings.Replace(server, "\"net/http\"", "(\n\t_ \"example.com/telemetry/setup\"\n\t\"net/http\"\n)", 1)},
			"api/go.mod No setup of the SDK is added: the module requires `go.opentelemetry.io/otel/sdk` of `telemetry/go.mod`",
		},
		"Maven": {
			map[string]string{"telemetry/pom.xml": pom("telemetry", "<dependency><groupId>io.opentelemetry</groupId><artifactId>opentelemetry-sdk</artifactId></dependency>"), "api/pom.xml": pom("api", starter), "api/Dockerfile": tomcat},
			map[string]string{"api/pom.xml": pom("api", starter+"<dependency><groupId>${project.groupId}</groupId><artifactId>telemetry</artifactId></dependency>")},
			"api/pom.xml Nothing is added to the program: `io.opentelemetry:opentelemetry-sdk` of `telemetry/pom.xml` sets up telemetry",
		},
		"Gradle": {
			map[string]string{"telemetry/build.gradle": "dependencies {\n  api libs.otel\n}\n", "gradle/libs.versions.toml": "[libraries]\notel = \"io.opentelemetry:opentelemetry-sdk:1.50.0\"\n", "api/build.gradle": "dependencies {\n  implementation 'io.grpc:grpc-netty:1.70.0'\n}\n", "api/Dockerfile": tomcat},
			map[string]string{"api/build.gradle": "dependencies {\n  implementation 'io.grpc:grpc-netty:1.70.0'\n  implementation project(':telemetry')\n}\n"},
			"api/build.gradle Nothing is added to the program: `io.opentelemetry:opentelemetry-sdk` of `telemetry/build.gradle` sets up telemetry",
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.NotEmpty(t, apply(t, filepath.Join(t.TempDir(), "shop"), instrument.Minimum, tt.files).Files)
			maps.Copy(tt.files, tt.uses)
			for _, kind := range []instrument.Kind{instrument.Minimum, instrument.General} {
				p := apply(t, filepath.Join(t.TempDir(), "shop"), kind, tt.files)
				var steps []string
				for _, s := range p.Steps {
					steps = append(steps, s.File+" "+s.Text)
				}
				require.Contains(t, steps, tt.want)
				if kind == instrument.Minimum {
					require.Empty(t, p.Files)
				}
			}
		})
	}
}

// TestDjango: a program of Django starts with the name of its settings, which its instrumentation reads before the
// program sets it.
func TestDjango(t *testing.T) {
	const (
		image   = "FROM python:3.12\nCOPY . .\nRUN pip install -r requirements.txt\nCMD [\"gunicorn\", \"shop.wsgi\"]\n"
		manage  = "import os\n\nos.environ.setdefault(\"DJANGO_SETTINGS_MODULE\", \"shop.settings\")\n"
		added   = "    DJANGO_SETTINGS_MODULE=\"shop.settings\"\n"
		command = "opentelemetry-instrument"
		step    = "and with `DJANGO_SETTINGS_MODULE` in its environment: the instrumentation of Django reads it before the program sets it"
	)
	for name, tt := range map[string]struct {
		files    map[string]string
		want, no string // in changed files but the manifest
		left     bool
	}{
		"an image":              {map[string]string{"manage.py": manage, "shop/wsgi.py": strings.ReplaceAll(manage, `"`, "'"), "Dockerfile": image}, added, "", false},
		"an image with it":      {map[string]string{"manage.py": manage, "Dockerfile": strings.Replace(image, "COPY", "ENV DJANGO_SETTINGS_MODULE=shop.production\nCOPY", 1)}, command, added, false},
		"an assignment":         {map[string]string{"manage.py": "os.environ['DJANGO_SETTINGS_MODULE'] = 'shop.settings'\n", "Dockerfile": image}, added, "", false},
		"several settings":      {map[string]string{"manage.py": manage, "shop/wsgi.py": strings.Replace(manage, "shop.settings", "shop.production", 1), "Dockerfile": image}, "", command, true},
		"no settings":           {map[string]string{"manage.py": "", "Dockerfile": image}, "", command, true},
		"a command":             {map[string]string{"manage.py": manage, "Dockerfile": image, "compose.yaml": "services:\n  web:\n    build: .\n    command: python manage.py runserver\n"}, "    command: opentelemetry-instrument python manage.py runserver\n", "DJANGO_SETTINGS_MODULE: ", false},
		"a command alone":       {map[string]string{"manage.py": manage, "Dockerfile": strings.TrimSuffix(image, "CMD [\"gunicorn\", \"shop.wsgi\"]\n"), "compose.yaml": "services:\n  web:\n    build: .\n    command: python manage.py runserver\n"}, "      DJANGO_SETTINGS_MODULE: \"shop.settings\"\n", "", false},
		"a file of variables":   {map[string]string{"manage.py": manage, "Dockerfile": strings.TrimSuffix(image, "CMD [\"gunicorn\", \"shop.wsgi\"]\n"), "compose.yaml": "services:\n  web:\n    build: .\n    env_file: .env\n    command: python manage.py runserver\n"}, "", command, true},
		"a command of settings": {map[string]string{"manage.py": "", "Dockerfile": image, "compose.yaml": "services:\n  web:\n    build: .\n    command: python manage.py runserver\n    environment:\n      DJANGO_SETTINGS_MODULE: a.b\n"}, "    command: opentelemetry-instrument python", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			tt.files["requirements.txt"] = "Django\n"
			dir := filepath.Join(t.TempDir(), "shop")
			p := apply(t, dir, instrument.Minimum, tt.files)
			var got strings.Builder
			for _, f := range p.Files {
				if f.Path != "requirements.txt" {
					got.Write(f.After)
				}
			}
			require.Contains(t, got.String(), tt.want)
			if tt.no != "" {
				require.NotContains(t, got.String(), tt.no)
			}
			require.Equal(t, tt.left, slices.ContainsFunc(p.Steps, func(s patch.Step) bool { return s.Open && strings.HasSuffix(s.Text, step) }))
			again, _, err := makePatch(t, newParser(t), dir, instrument.Minimum)
			require.NoError(t, err)
			require.Empty(t, again.Files)
		})
	}
}

// TestStartedByContainer: no step asks for what a Compose file does.
func TestStartedByContainer(t *testing.T) {
	p := apply(t, filepath.Join(t.TempDir(), "shop"), instrument.Minimum, map[string]string{"requirements.txt": "celery\n", "Dockerfile": "FROM python:3.12\nCOPY . .\nRUN pip install -r requirements.txt\n", "compose.yaml": "services:\n  worker:\n    build: .\n    command: celery worker\n"})
	require.NotContains(t, fmt.Sprint(p.Steps), "no Dockerfile")
}

// TestImagesWithoutPackages: an image that does not have what the change adds still starts its program as before.
func TestImagesWithoutPackages(t *testing.T) {
	const (
		express = `{"name": "shop", "dependencies": {"express": "5"}}`
		build   = "FROM node:22 AS build\nWORKDIR /app\nCOPY . .\nRUN npm ci && npm run build\n"
		start   = "CMD [\"node\", \"dist/main.js\"]\n"
		install = "FROM python:3.12 AS build\nCOPY requirements.txt .\nRUN pip install -r requirements.txt\n"
		flask   = "CMD [\"flask\", \"run\"]\n"
		lib     = "COPY --from=build /usr/local/lib/python3.12/site-packages /usr/local/lib/python3.12/site-packages\n"
	)
	for name, tt := range map[string]struct {
		manifest, dockerfile string
		want                 string // in the Dockerfile; "" if it stays as it is
	}{
		"a bundle":                    {express, build + "FROM node:22\nCOPY --from=build /app/dist ./dist\n" + start, ""},
		"a bundle of a workspace":     {express, "FROM node:22\nCOPY dist/api api\nRUN npm --prefix api --omit=dev install\n" + start, ""},
		"a bundle and its packages":   {express, build + "FROM node:22\nCOPY --from=build /app/dist ./dist\nCOPY --from=build /app/node_modules ./node_modules\n" + start, "NODE_OPTIONS"},
		"a bundle and its manifest":   {express, build + "FROM node:22\nCOPY package.json .\nRUN npm ci\nCOPY --from=build /app/dist ./dist\n" + start, "NODE_OPTIONS"},
		"a bundle, with a mount":      {express, build + "FROM node:22\nRUN --mount=type=bind,source=package.json,target=package.json npm ci\nCOPY --from=build /app/dist ./dist\n" + start, "NODE_OPTIONS"},
		"a bundle on a stage":         {express, build + "FROM build\nCOPY --from=build /app/dist ./dist\n" + start, "NODE_OPTIONS"},
		"all of a stage":              {express, build + "FROM node:22\nWORKDIR /app\nCOPY --from=build /app /app\n" + start, "NODE_OPTIONS"},
		"all of a stage, elsewhere":   {express, build + "FROM node:22\nWORKDIR /app\nCOPY --from=build /app /app/api\n" + start, ""},
		"a stage that installs":       {express, "FROM node:22 AS base\nWORKDIR /srv\nFROM base AS deps\nCOPY package*.json ./\nRUN cd /srv && npm ci\nFROM base\nCOPY --from=deps /srv/node_modules /srv/node_modules\nCOPY . .\n" + start, "NODE_OPTIONS"},
		"a global program":            {express, "FROM node:22\nCOPY . .\nRUN npm i -g pm2\n" + start, ""},
		"packages on a base stage":    {"flask\n", "FROM python:3.12 AS base\nFROM base AS build\nCOPY requirements.txt .\nRUN pip install -r requirements.txt\nFROM base\n" + lib + "COPY . .\n" + flask, ""},
		"packages":                    {"flask\n", install + "FROM python:3.12\n" + lib + "COPY . .\n" + flask, ""},
		"packages and programs":       {"flask\n", install + "FROM python:3.12\n" + lib + "COPY --from=build /usr/local/bin /usr/local/bin\nCOPY . .\n" + flask, `CMD ["opentelemetry-instrument", "flask", "run"]`},
		"packages on a stage":         {"flask\n", install + "FROM build\n" + lib + "COPY . .\n" + flask, `CMD ["opentelemetry-instrument", "flask", "run"]`},
		"a virtual environment":       {"flask\n", install + "FROM python:3.12\nCOPY --from=build /opt/venv /opt/venv\nCMD [\"/opt/venv/bin/flask\", \"run\"]\n", `CMD ["/opt/venv/bin/opentelemetry-instrument", "/opt/venv/bin/flask", "run"]`},
		"a virtual environment, text": {"flask\n", install + "CMD .venv/bin/flask run\n", "CMD .venv/bin/opentelemetry-instrument .venv/bin/flask run"},
		"a path of the system":        {"flask\n", install + "CMD [\"/usr/bin/python3\", \"a.py\"]\n", `CMD ["opentelemetry-instrument", "/usr/bin/python3", "a.py"]`},
	} {
		t.Run(name, func(t *testing.T) {
			manifest := map[bool]string{true: "package.json", false: "requirements.txt"}[tt.manifest == express]
			p := apply(t, filepath.Join(t.TempDir(), "shop"), instrument.Minimum, map[string]string{manifest: tt.manifest, "Dockerfile": tt.dockerfile})
			require.Equal(t, tt.want == "", slices.ContainsFunc(p.Steps, func(s patch.Step) bool { return s.Open && s.File == "Dockerfile" }))
			require.Equal(t, tt.want != "", len(p.Files) > 0 && p.Files[0].Path == "Dockerfile")
			require.True(t, tt.want == "" || strings.Contains(string(p.Files[0].After), tt.want))
			require.False(t, tt.manifest == express && tt.want == "" && len(p.Files) > 0) // a manifest with packages that nothing loads
		})
	}
}

// TestEntryPoints: the program of an image is what its last entry point and command start together.
func TestEntryPoints(t *testing.T) {
	for commands, want := range map[string]string{ // "": a step
		"ENTRYPOINT [\"python\", \"-m\"]\nCMD [\"flask\", \"run\"]\n":                  `ENTRYPOINT ["opentelemetry-instrument", "python", "-m"]` + "\n" + `CMD ["flask", "run"]`,
		"CMD [\"flask\", \"run\"]\nENTRYPOINT [\"gunicorn\"]\nCMD [\"app:app\"]\n":     `ENTRYPOINT ["opentelemetry-instrument", "gunicorn"]`,
		"ENTRYPOINT [\"tini\", \"--\"]\nCMD [\"flask\", \"run\"]\n":                    `CMD ["opentelemetry-instrument", "flask", "run"]`,
		"ENTRYPOINT [\"./entrypoint.sh\"]\nCMD [\"flask\", \"run\"]\n":                 `CMD ["opentelemetry-instrument", "flask", "run"]`,
		"ENTRYPOINT [\"uv\", \"run\", \"python\", \"-m\"]\nCMD [\"flask\", \"run\"]\n": "",
		"ENTRYPOINT ./start.sh\nCMD [\"flask\", \"run\"]\n":                            "",
		"ENTRYPOINT [\"./entrypoint.sh\"]\n":                                           "",
		"CMD exec gunicorn app:app\n":                                                  "CMD exec opentelemetry-instrument gunicorn app:app",
		"ENTRYPOINT exec flask run\n":                                                  "ENTRYPOINT exec opentelemetry-instrument flask run",
	} {
		t.Run(commands, func(t *testing.T) {
			p := apply(t, filepath.Join(t.TempDir(), "shop"), instrument.Minimum, map[string]string{
				"requirements.txt": "flask\ngunicorn\n", "Dockerfile": "FROM python:3.12\nRUN pip install -r requirements.txt\nCOPY . .\n" + commands,
			})
			require.Equal(t, want == "", slices.ContainsFunc(p.Steps, func(s patch.Step) bool {
				return s.Open && s.File == "Dockerfile" && strings.HasPrefix(s.Text, "Start the program with")
			}))
			if want == "" {
				require.NotEqual(t, "Dockerfile", p.Files[0].Path)
			} else {
				require.Contains(t, string(p.Files[0].After), want)
			}
		})
	}
}

// TestCompiledRequirements: a step names the command that writes the file of all dependencies.
func TestCompiledRequirements(t *testing.T) {
	for name, tt := range map[string]struct{ text, want string }{
		"alone":       {"# This file was autogenerated by uv via the following command:\n#    uv export -o requirements.txt\nflask==3.0.0\n", "Add the new dependencies to what `uv export -o requirements.txt` reads: it writes this file"},
		"uv":          {"# This file was autogenerated by uv via the following command:\n#    uv pip compile requirements.in -o requirements.txt\nflask==3.0.0\n", "Run `uv pip compile requirements.in -o requirements.txt`, which writes the new dependencies to the file"},
		"pip-compile": {"#\n# This file is autogenerated by pip-compile with Python 3.12\n# by the following command:\n#\n#    pip-compile requirements.in\n#\nflask==3.0.0\n", "Run `pip-compile requirements.in`, which writes the new dependencies to the file"},
		"a person":    {"# Run pip-compile.\nflask==3.0.0\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{"requirements.in": "flask\n", "requirements.txt": tt.text}
			if name == "alone" {
				delete(files, "requirements.in")
			}
			p := apply(t, filepath.Join(t.TempDir(), "shop"), instrument.Minimum, files)
			i := slices.IndexFunc(p.Steps, func(s patch.Step) bool { return s.File == "requirements.txt" && strings.HasSuffix(s.Text, "file") })
			require.Equal(t, tt.want == "", i < 0)
			if i >= 0 {
				require.Equal(t, tt.want, p.Steps[i].Text)
			}
		})
	}
}

// TestTracers: a program with a tracer, or with OpenTelemetry before its first stable version, stays as it is.
func TestTracers(t *testing.T) {
	program := "package main\n\nimport \"net/http\"\n\nfunc main() { _ = http.ListenAndServe(\":1\", http.NewServeMux()) }\n"
	module := func(requires string) map[string]string {
		return map[string]string{"go.mod": "module example.com/shop\n\ngo 1.26.0\n\nrequire " + requires + "\n", "main.go": program, "Dockerfile": "FROM golang:1.26\nRUN go build -o /app\n", "compose.yaml": "services:\n  web:\n    build: .\n"}
	}
	pom := func(group, artifact string) map[string]string {
		return map[string]string{"pom.xml": "<project><artifactId>shop</artifactId><dependencies><dependency><groupId>org.springframework.boot</groupId><artifactId>spring-boot-starter-web</artifactId></dependency><dependency><groupId>" + group + "</groupId><artifactId>" + artifact + "</artifactId></dependency></dependencies></project>", "Dockerfile": "FROM eclipse-temurin:21-jre\nCMD [\"java\", \"-jar\", \"/shop.jar\"]\n"}
	}
	for name, tt := range map[string]struct {
		files map[string]string
		want  []string // steps; nil for a change
	}{
		"Go, the SDK":      {module("go.opentelemetry.io/otel/sdk v1.44.0"), []string{"No setup of the SDK is added: the module requires `go.opentelemetry.io/otel/sdk`"}},
		"Go, indirect":     {module("go.opentelemetry.io/otel/sdk v1.44.0 // indirect"), nil},
		"Go, OpenTracing":  {module("github.com/opentracing/opentracing-go v1.2.0"), []string{"No server or client is instrumented: `github.com/opentracing/opentracing-go` traces them", "No setup of the SDK is added: the module requires `github.com/opentracing/opentracing-go`"}},
		"Go, OpenCensus":   {module("go.opencensus.io v0.24.0 // indirect"), nil},
		"Go, before 1.0":   {module("go.opentelemetry.io/otel v0.2.0"), []string{"No server or client is instrumented: the module requires `go.opentelemetry.io/otel` v0.2.0, whose API has changed since", "No setup of the SDK is added: the module requires `go.opentelemetry.io/otel` v0.2.0, whose API has changed since"}},
		"Node.js, Instana": {map[string]string{"package.json": `{"scripts": {"start": "node a.js"}, "dependencies": {"express": "5", "@instana/collector": "5"}}`}, []string{"Nothing is added to the program: `@instana/collector` sets up telemetry"}},
		"Python, Instana":  {map[string]string{"requirements.txt": "flask\ninstana\n"}, []string{"Nothing is added to the code of the service: `instana` has a tracer of its own", "Nothing is added to the program: `instana` sets up telemetry"}},
		"Java, Sleuth":     {pom("org.springframework.cloud", "spring-cloud-starter-sleuth"), []string{"Nothing is added to the program: `org.springframework.cloud:spring-cloud-starter-sleuth` sets up telemetry"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := apply(t, filepath.Join(t.TempDir(), "shop"), instrument.General, tt.files)
			if tt.want == nil {
				require.NotEmpty(t, p.Files)
				return
			}
			var got []string
			for _, s := range p.Steps {
				if s.Open {
					got = append(got, s.Text)
				}
			}
			slices.Sort(got)
			if name == "Go, the SDK" { // its servers are instrumented
				require.Subset(t, got, tt.want)
				require.False(t, slices.ContainsFunc(p.Files, func(f patch.File) bool { return f.Path == "compose.yaml" }))
				return
			}
			require.Equal(t, tt.want, got)
			require.Empty(t, p.Files)
		})
	}
}

// TestTargets: a container that is built from another stage than the last one does not start what the image starts.
func TestTargets(t *testing.T) {
	const (
		image = "FROM node:22 AS assets\nCMD [\"npm\", \"run\", \"watch\"]\nFROM python:3.12 AS base\nCOPY . .\nRUN pip install -r requirements.txt\nFROM base AS dev\nCMD [\"python\", \"app.py\"]\nFROM base AS final\nCMD [\"gunicorn\", \"app:app\"]\n"
		step  = "Start the program of the container as that of the image: the container is built from the stage `dev`, which stays as it is"
	)
	for name, tt := range map[string]struct {
		service     string
		named, left bool
	}{
		"the last stage":      {"      target: final\n", true, false},
		"no stage":            {"", true, false},
		"another stage":       {"      target: dev\n", true, true},
		"a command":           {"      target: dev\n    command: python app.py\n", true, false},
		"another program":     {"      target: assets\n", false, false},
		"a stage of an image": {"      target: DEV\n", true, true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "shop")
			p := apply(t, dir, instrument.Minimum, map[string]string{"requirements.txt": "flask\n", "Dockerfile": image, "compose.yaml": "services:\n  web:\n    build:\n      context: .\n" + tt.service})
			text, err := os.ReadFile(filepath.Join(dir, "compose.yaml"))
			require.NoError(t, err)
			require.Equal(t, tt.named, strings.Contains(string(text), "OTEL_SERVICE_NAME"))
			require.Equal(t, tt.left, slices.ContainsFunc(p.Steps, func(s patch.Step) bool { return strings.EqualFold(s.Text, step) }))
		})
	}
}

// TestScripts: the scripts that start the program start its instrumentation, whatever they run before.
func TestScripts(t *testing.T) {
	const options = "--require @opentelemetry/auto-instrumentations-node/register "
	for name, tt := range map[string]struct{ scripts, want string }{
		"start":              {`"start": "node a.js"`, `"start": "node ` + options + `a.js"`},
		"of production":      {`"start": "nest start", "start:prod": "node dist/main"`, `"start": "nest start", "start:prod": "node ` + options + `dist/main"`},
		"both":               {`"start": "node a.js", "start:prod": "NODE_ENV=production node b.js"`, `"start": "node ` + options + `a.js", "start:prod": "NODE_ENV=production node ` + options + `b.js"`},
		"a build before":     {`"start": "npm run build && node dist/server.js"`, `"start": "npm run build && node ` + options + `dist/server.js"`},
		"a program before":   {`"start": "node migrate.js && node server.js"`, `"start": "node migrate.js && node ` + options + `server.js"`},
		"variables":          {`"start": "cross-env NODE_ENV=production node server.js"`, `"start": "cross-env NODE_ENV=production node ` + options + `server.js"`},
		"quotes":             {`"start": "sh -c 'npm run build && node server.js'"`, ""},
		"another program":    {`"start": "nodemon server.js"`, ""},
		"not of the program": {`"start:dev": "node server.js"`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := apply(t, filepath.Join(t.TempDir(), "shop"), instrument.Minimum, map[string]string{"package.json": `{"scripts": {` + tt.scripts + `}, "dependencies": {"express": "5"}}`})
			if tt.want != "" {
				require.Contains(t, string(p.Files[0].After), tt.want)
			}
			require.Equal(t, tt.want == "", len(p.Files) == 0)
			require.Equal(t, tt.want == "", slices.ContainsFunc(p.Steps, func(s patch.Step) bool { return strings.Contains(s.Text, " and start the program with") }))
		})
	}
}

// TestGeneratedDeployments: a file that a program writes is left.
func TestGeneratedDeployments(t *testing.T) {
	const (
		compose = "services:\n  web:\n    build: .\n"
		pod     = "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: shop\nspec:\n  template:\n    spec:\n      containers:\n        - name: shop\n          image: shop:1\n"
	)
	for header, left := range map[string]bool{
		"": false,
		"# WARNING: This file is autogenerated. Do not manually edit.\n": true,
		"# Generated by kompose, DO NOT EDIT\n":                          true,
		"# Edit this file.\n":                                            false,
	} {
		t.Run(header, func(t *testing.T) {
			p := apply(t, filepath.Join(t.TempDir(), "shop"), instrument.Minimum, map[string]string{"requirements.txt": "flask\n", "Dockerfile": "FROM python:3.12\nCMD [\"flask\", \"run\"]\n", "compose.yaml": header + compose, "k8s.yaml": header + pod})
			for _, name := range []string{"compose.yaml", "k8s.yaml"} {
				require.Equal(t, !left, slices.ContainsFunc(p.Files, func(f patch.File) bool { return f.Path == name }))
				require.Equal(t, left, slices.ContainsFunc(p.Steps, func(s patch.Step) bool { return s.File == name && strings.HasPrefix(s.Text, "The file is left") }))
			}
		})
	}
}

// TestBaseStarts: a step has the instructions for an image whose base starts the program, and no step says that there
// is none.
func TestBaseStarts(t *testing.T) {
	p := apply(t, filepath.Join(t.TempDir(), "shop"), instrument.Minimum, map[string]string{"build.gradle": "dependencies {\n    implementation 'org.springframework.boot:spring-boot-starter-web:3.2.0'\n}\n", "Dockerfile": "FROM fabric8/java-jboss-openjdk8-jdk\nCOPY shop.jar .\n"})
	require.Len(t, p.Steps, 1)
	require.Regexp(t, "^Add to the image what starts the program: `ADD [^`]*` and `ENV OTEL_SERVICE_NAME=\"shop\" JAVA_TOOL_OPTIONS=[^`]*`: no CMD or ENTRYPOINT was found$", p.Steps[0].Text)
}

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		name = filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o700))
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	}
}

// TestManyImages checks that the work is linear in the services, each of which has an image.
func TestManyImages(t *testing.T) {
	parser := newParser(t)
	work := func(n int) float64 {
		files := map[string]string{}
		for i := range n {
			dir := fmt.Sprintf("s%d/", i)
			files[dir+"package.json"] = `{"scripts": {"start": "node a.js"}, "engines": {"node": "24"}, "dependencies": {"express": "5"}}`
			files[dir+"Dockerfile"] = "FROM node:24\nCOPY . .\nRUN npm ci\n" + strings.Repeat("ENV A=1\n", 20) + "CMD [\"node\", \"a.js\"]\n"
		}
		dir := t.TempDir()
		write(t, dir, files)
		return testing.AllocsPerRun(1, func() {
			p, _, err := makePatch(t, parser, dir, instrument.General)
			require.NoError(t, err)
			require.Len(t, p.Files, 2*n)
		})
	}
	require.Less(t, work(200), 8*work(50))
}

// TestLocks: a step names the lock file of the service or of its workspace.
func TestLocks(t *testing.T) {
	const (
		express = `{"name": "api", "scripts": {"start": "node a.js"}, "dependencies": {"express": "5"}}`
		flask   = "[project]\nname = \"api\"\ndependencies = [\"flask\"]\n"
	)
	for name, tt := range map[string]struct {
		files map[string]string
		want  []string // files and commands of steps
	}{
		"own":              {map[string]string{"apps/api/package.json": express, "apps/api/package-lock.json": "{}"}, []string{"apps/api/package-lock.json npm install"}},
		"npm":              {map[string]string{"package.json": `{"workspaces": ["apps/*"]}`, "apps/api/package.json": express, "package-lock.json": "{}"}, []string{"package-lock.json npm install"}},
		"pnpm":             {map[string]string{"package.json": "{}", "pnpm-workspace.yaml": "packages: ['apps/*']\n", "apps/api/package.json": express, "pnpm-lock.yaml": "a: b\n"}, []string{"pnpm-lock.yaml pnpm install"}},
		"own in a root":    {map[string]string{"package.json": `{"workspaces": ["apps/*"]}`, "apps/api/package.json": express, "apps/api/yarn.lock": "", "package-lock.json": "{}"}, []string{"apps/api/yarn.lock yarn install"}},
		"another project":  {map[string]string{"package.json": `{"devDependencies": {"prettier": "3"}}`, "apps/api/package.json": express, "package-lock.json": "{}"}, nil},
		"uv":               {map[string]string{"pyproject.toml": "[tool.uv.workspace]\nmembers = [\"apps/*\"]\n", "apps/api/pyproject.toml": flask, "uv.lock": "version = 1\n"}, []string{"uv.lock uv lock"}},
		"two of one space": {map[string]string{"package.json": `{"workspaces": ["apps/*"]}`, "apps/api/package.json": express, "apps/web/package.json": express, "package-lock.json": "{}"}, []string{"package-lock.json npm install"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, s := range apply(t, filepath.Join(t.TempDir(), "shop"), instrument.Minimum, tt.files).Steps {
				if command, ok := strings.CutSuffix(s.Text, "`, which writes the new dependencies to the lock file"); ok {
					got = append(got, s.File+" "+strings.TrimPrefix(command, "Run `"))
				}
			}
			require.Equal(t, tt.want, got)
		})
	}
}

// apply writes files and changes them. A second patch is empty.
func apply(t *testing.T, dir string, kind instrument.Kind, files map[string]string) *patch.Patch {
	t.Helper()
	write(t, dir, files)
	p, root, err := makePatch(t, newParser(t), dir, kind)
	require.NoError(t, err)
	require.NoError(t, p.Apply(root))
	again, _, err := makePatch(t, newParser(t), dir, kind)
	require.NoError(t, err)
	require.Empty(t, again.Files)
	return p
}

// TestGoReleases: all modules of OpenTelemetry that a module requires get the versions of one release.
func TestGoReleases(t *testing.T) {
	const otel = "go.opentelemetry.io/otel"
	for name, tt := range map[string]struct{ required, want []string }{
		"an exporter":            {[]string{otel + " v1.28.0", otel + "/exporters/otlp/otlptrace/otlptracegrpc v1.28.0", otel + "/sdk v1.28.0"}, []string{otel + " v1.47.0", otel + "/exporters/otlp/otlptrace/otlptracegrpc v1.47.0", otel + "/sdk v1.47.0"}},
		"a module before 1.0":    {[]string{otel + "/exporters/prometheus v0.50.0", otel + "/sdk v1.28.0"}, []string{otel + "/exporters/prometheus v0.69.0", otel + "/sdk v1.47.0"}},
		"a newer one, and other": {[]string{otel + "/exporters/jaeger v1.17.0", otel + "/sdk v1.48.0"}, []string{otel + "/exporters/jaeger v1.17.0", otel + "/sdk v1.48.0"}},
		"an indirect one":        {[]string{otel + "/exporters/zipkin v1.28.0 // indirect", otel + "/sdk v1.28.0"}, []string{otel + "/exporters/zipkin v1.28.0 // indirect", otel + "/sdk v1.47.0"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			apply(t, dir, instrument.General, map[string]string{
				"go.mod":  "module example.com/a\n\ngo 1.26.0\n\nrequire (\n\t" + strings.Join(tt.required, "\n\t") + "\n)\n",
				"main.go": "package main\n\nimport \"net/http\"\n\nfunc main() { _ = http.ListenAndServe(\":1\", http.NewServeMux()) }\n",
			})
			text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
			require.NoError(t, err)
			for _, want := range tt.want {
				require.Contains(t, string(text), want+"\n")
			}
		})
	}
}

// TestGoNewEnough: modules that have what a change uses keep their versions, and become requirements of the code.
func TestGoNewEnough(t *testing.T) {
	dir := t.TempDir()
	p := apply(t, dir, instrument.General, map[string]string{
		"go.mod":  "module example.com/a\n\ngo 1.25.0\n\nrequire (\n\tgo.opentelemetry.io/contrib/instrumentation/net/http/otelhttp v0.70.0\n\tgo.opentelemetry.io/otel v1.45.0\n\tgo.opentelemetry.io/otel/sdk v1.45.0\n)\n\nrequire go.opentelemetry.io/otel/trace v1.45.0 // indirect\n\nreplace go.opentelemetry.io/otel/log => go.opentelemetry.io/otel/log v0.16.0\n",
		"main.go": "package main\n\nimport (\n\t\"context\"\n\t\"net/http\"\n)\n\nfunc main() { _ = http.ListenAndServe(\":1\", http.NewServeMux()) }\n\nfunc get(ctx context.Context) { _, _ = http.Get(\"\") }\n",
	})
	text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	require.NoError(t, err)
	require.NotContains(t, string(text), "v1.47.0")
	require.Contains(t, string(text), "go.opentelemetry.io/otel/trace v1.45.0\n")
	require.False(t, slices.ContainsFunc(p.Steps, func(s patch.Step) bool { return strings.Contains(s.Text, "raises the Go version") }))
}

// TestGoConflicts: a module that may not build with the release of OpenTelemetry that the change needs is left, with
// what to run.
func TestGoConflicts(t *testing.T) {
	const otel = "go.opentelemetry.io/otel"
	for name, tt := range map[string]struct{ required, more, why, get string }{
		"a replaced module":        {otel + "/sdk v1.43.0", "replace " + otel + "/log => " + otel + "/log v0.16.0", "go.mod replaces `" + otel + "/log`", "otelhttp@v0.72.0 " + otel + "/sdk@v1.47.0`"},
		"an unknown contribution":  {"go.opentelemetry.io/contrib/processors/baggagecopy v0.11.0\n\t" + otel + "/sdk v1.43.0", "", "it requires `go.opentelemetry.io/contrib/processors/baggagecopy` v0.11.0, which may not fit", "otelhttp@v0.72.0"},
		"logs before 1.0":          {otel + "/sdk v1.43.0\n\t" + otel + "/log v0.14.0 // indirect", "", "it requires `" + otel + "/log` v0.14.0, whose API has changed since", "otelhttp@v0.72.0"},
		"logs in the code":         {otel + "/sdk v1.43.0\n\t" + otel + "/log v0.14.0", "", "it requires `" + otel + "/log` v0.14.0, whose API has changed since", "otelhttp@v0.72.0"},
		"an excluded version":      {otel + "/sdk v1.43.0", "exclude " + otel + " v1.47.0", "go.mod excludes `" + otel + "@v1.47.0`", "otelhttp@v0.72.0"},
		"the setup of the SDK too": {"google.golang.org/grpc v1.76.0", "replace " + otel + " => ../otel", "go.mod replaces `" + otel + "`", otel + "/sdk@v1.47.0"},
	} {
		t.Run(name, func(t *testing.T) {
			p := apply(t, t.TempDir(), instrument.General, map[string]string{
				"go.mod":       "module example.com/a\n\ngo 1.26.0\n\nrequire (\n\t" + tt.required + "\n)\n\n" + tt.more + "\n",
				"main.go":      "package main\n\nimport \"net/http\"\n\nfunc main() { _ = http.ListenAndServe(\":1\", http.NewServeMux()) }\n",
				"compose.yaml": "services:\n  a:\n    build: .\n",
			})
			require.Empty(t, p.Files)
			require.Len(t, p.Steps, 1)
			require.True(t, strings.HasPrefix(p.Steps[0].Text, "The module is left: "+tt.why), p.Steps[0].Text)
			require.Contains(t, p.Steps[0].Text, "Run `go get ")
			require.Contains(t, p.Steps[0].Text, tt.get)
		})
	}
}

// TestGoConstraints: the setup of the SDK is built where the program is. A program that is not built for Linux is left.
func TestGoConstraints(t *testing.T) {
	const main = "package main\n\nimport \"net/http\"\n\nfunc main() { _ = http.ListenAndServe(\":1\", nil) }\n"
	for name, tt := range map[string]struct {
		files map[string]string
		setup string // file of the setup, "" for none
		line  string // first line of it
		left  string // file with a step
	}{
		"none":                    {map[string]string{"main.go": main}, "telemetry.go", "package main", ""},
		"systems with Linux":      {map[string]string{"main.go": "// Copyright\n\n//go:build !windows\n\n" + main}, "telemetry.go", "//go:build !windows", ""},
		"cgo":                     {map[string]string{"main.go": "//go:build cgo\n\n" + main}, "telemetry.go", "//go:build cgo", ""},
		"systems without Linux":   {map[string]string{"app.go": "//go:build windows || darwin\n\n" + main}, "", "", "app.go"},
		"the name":                {map[string]string{"main_windows.go": main}, "", "", "main_windows.go"},
		"the name, Linux":         {map[string]string{"main_linux.go": main}, "telemetry_linux.go", "package main", ""},
		"two systems":             {map[string]string{"main_linux.go": main, "main_windows.go": main}, "telemetry_linux.go", "package main", "main_windows.go"},
		"a tag":                   {map[string]string{"main.go": "//go:build enterprise\n\n" + main}, "", "", "main.go"},
		"a program that is run":   {map[string]string{"main.go": main, "gen.go": "//go:build ignore\n\n" + main}, "telemetry.go", "package main", ""},
		"the form before Go 1.17": {map[string]string{"main.go": "// +build !windows\n\n" + main}, "", "", "main.go"},
	} {
		t.Run(name, func(t *testing.T) {
			tt.files["go.mod"] = "module example.com/a\n\ngo 1.26.0\n"
			p := apply(t, t.TempDir(), instrument.Minimum, tt.files)
			var setup, line, left string
			for _, f := range p.Files {
				if f.Created {
					setup = f.Path
					line, _, _ = strings.Cut(string(f.After), "\n")
				}
			}
			for _, s := range p.Steps {
				if s.Open && strings.HasPrefix(s.Text, "No setup of the SDK is added: ") && s.File != "go.mod" {
					left += s.File
				}
			}
			require.Equal(t, []string{tt.setup, tt.line, tt.left}, []string{setup, line, left})
		})
	}
}

// TestGoImages: an image compiles the changed program, or a step says what it lacks.
func TestGoImages(t *testing.T) {
	const (
		program = "package main\n\nimport \"net/http\"\n\nfunc main() { _ = http.ListenAndServe(\":1\", nil) }\n"
		client  = "package main\n\nimport (\n\t\"context\"\n\t\"net/http\"\n)\n\nfunc get(ctx context.Context) { _, _ = http.Get(\"\") }\n"
		older   = "Compile the program with Go 1.26 or newer"
	)
	for name, tt := range map[string]struct {
		image string
		want  string // part of the image
		left  string // beginning of a step, "" for none
	}{
		"a package":                {"FROM golang:1.26\nCOPY . .\nRUN go build -o /app .\n", "RUN go build -o /app .\n", ""},
		"a file":                   {"FROM golang:1.26\nCOPY . .\nRUN CGO_ENABLED=0 go build \\\n  -o /app ./main.go && rm -r /go\n", "-o /app ./main.go ./telemetry.go && rm", ""},
		"files":                    {"FROM golang:1.26\nCOPY . .\nRUN go build -o /app main.go client.go\n", "main.go telemetry.go client.go\n", ""},
		"a command":                {"FROM golang:1.26\nCOPY . .\nCMD [\"go\", \"run\", \"main.go\", \"serve\"]\n", "CMD [\"go\", \"run\", \"main.go\", \"telemetry.go\", \"serve\"]", ""},
		"here-documents":           {"FROM golang:1.26\nCOPY . .\nRUN <<EOF\nset -e\ngo build -o /app main.go\nEOF\n", "-o /app main.go telemetry.go\n", ""},
		"another file":             {"FROM golang:1.26\nCOPY . .\nRUN go run gen.go && go build -o /app\n", "go run gen.go && go build -o /app\n", ""},
		"a file of two":            {"FROM golang:1.26\nCOPY . .\nRUN go run version.go\nRUN cd cmd && go build -o /app main.go\n", "go build -o /app main.go\n", "Compile the package in place of `main.go`"},
		"an old image":             {"FROM golang:1.18\nCOPY . .\nRUN go build -o /app .\n", "FROM golang:1.26\n", ""},
		"old Alpine":               {"FROM --platform=$BUILDPLATFORM golang:1.18.3-alpine AS build\nCOPY . .\nRUN go build -o /app .\nFROM alpine\nCOPY --from=build /app /app\n", "golang:1.26-alpine AS build\n", ""},
		"an old image without C":   {"FROM golang:1.25 AS build\nENV CGO_ENABLED=0\nCOPY . .\nRUN go build -o /app .\nFROM scratch\nCOPY --from=build /app /app\n", "FROM golang:1.26 AS build\n", ""},
		"the C library":            {"FROM golang:1.18 AS build\nCOPY . .\nRUN go build -o /app .\nFROM debian:bullseye\nCOPY --from=build /app /app\n", "FROM golang:1.18 AS build\n", older},
		"an old Debian":            {"FROM golang:1.18-buster\nCOPY . .\nRUN go build -o /app .\n", "FROM golang:1.18-buster\n", older},
		"a variable":               {"ARG GO=1.20\nFROM golang:${GO}-alpine\nCOPY . .\nRUN go build -o /app .\n", "FROM golang:${GO}-alpine\n", older},
		"a new variable":           {"ARG GO=1.26\nFROM golang:${GO}-alpine\nCOPY . .\nRUN go build -o /app .\n", "FROM golang:${GO}-alpine\n", ""},
		"a toolchain":              {"FROM golang:1.21\nENV GOTOOLCHAIN=auto\nCOPY . .\nRUN go build -o /app .\n", "FROM golang:1.21\n", ""},
		"parts":                    {"FROM golang:1.26\nCOPY go.mod .\nCOPY [\"*.go\", \"./\"]\nRUN go build -o /app .\n", "", "Copy `internal/instrumentation`, `go.sum` to the image"},
		"files that are copied":    {"FROM golang:1.26\nCOPY go.* ./\nCOPY main.go client.go ./\nCOPY internal internal\nRUN go build -o /app .\n", "", "Copy `telemetry.go` to the image"},
		"a directory":              {"FROM golang:1.26\nCOPY go.mod go.sum ./\nCOPY ./ ./\nRUN go build -o /app .\n", "", ""},
		"what the build downloads": {"FROM golang:1.26\nCOPY go.mod *.go ./\nCOPY internal/ internal\nRUN go get && go build -o /app .\n", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			files := map[string]string{"go.mod": "module example.com/a\n\ngo 1.20\n", "main.go": program, "client.go": client, "Dockerfile": tt.image}
			if strings.Contains(tt.image, "cd cmd") {
				files["cmd/main.go"] = "package main\n\nfunc main() {}\n"
				files["main.go"] = program + "\nvar _ = http.ListenAndServe(\":2\", nil)\n"
			}
			p := apply(t, dir, instrument.General, files)
			text, err := os.ReadFile(filepath.Join(dir, "Dockerfile"))
			require.NoError(t, err)
			require.Contains(t, string(text), tt.want)
			left := ""
			for _, s := range p.Steps {
				if s.Open && s.File == "Dockerfile" {
					left += s.Text
				}
			}
			require.True(t, left == "" == (tt.left == "") && strings.HasPrefix(left, tt.left), left)
		})
	}
}

// TestGoOtherImages: a step names an image that may compile a module whose Go the change raises.
func TestGoOtherImages(t *testing.T) {
	const image = "FROM golang:1.22-alpine\nCOPY . .\nRUN make\n"
	p := apply(t, t.TempDir(), instrument.Minimum, map[string]string{
		"a/go.mod":              "module example.com/a\n\ngo 1.22\n",
		"a/main.go":             "package main\n\nimport \"net/http\"\n\nfunc main() { _ = http.ListenAndServe(\":1\", nil) }\n",
		"b/go.mod":              "module example.com/b\n\ngo 1.22\n",
		"Dockerfile":            image,
		"a/build/Dockerfile":    image,
		"b/Dockerfile":          image,
		"new.Dockerfile":        "FROM golang:1.26\nRUN make\n",
		"a/build/py.Dockerfile": "FROM python:3.12\n",
	})
	var left []string
	for _, s := range p.Steps {
		if strings.HasPrefix(s.Text, "Use Go 1.26 or newer if the image compiles a program of `a/go.mod`") {
			left = append(left, s.File)
		}
	}
	require.Equal(t, []string{"Dockerfile", "a/build/Dockerfile"}, left)
}

// TestGoBlocks: requirements are added to the block of those that the code imports.
func TestGoBlocks(t *testing.T) {
	const (
		indirect = "github.com/stretchr/objx v0.5.2 // indirect\n"
		sdk      = "\tgo.opentelemetry.io/otel/sdk v1.47.0\n"
	)
	for name, tt := range map[string]struct{ required, before, after string }{
		"two blocks":   {"require (\n\tgithub.com/labstack/echo v3.3.10+incompatible\n)\n\nrequire (\n\t" + indirect + ")\n", sdk, indirect},
		"a line after": {"require github.com/labstack/echo v3.3.10+incompatible\n\nrequire (\n\t" + indirect + ")\n", sdk, indirect},
		"one block":    {"require (\n\tgithub.com/labstack/echo v3.3.10+incompatible\n\t" + indirect + ")\n", sdk, indirect},
		"an indirect":  {"require (\n\tgithub.com/labstack/echo v3.3.10+incompatible\n)\n\nrequire (\n\t" + indirect + "\tgo.opentelemetry.io/otel/sdk v1.40.0 // indirect\n)\n", sdk, indirect},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "shop")
			apply(t, dir, instrument.Minimum, map[string]string{"go.mod": "module example.com/a\n\ngo 1.26.0\n\n" + tt.required, "main.go": "package main\n\nimport \"net/http\"\n\nfunc main() { _ = http.ListenAndServe(\":1\", nil) }\n"})
			text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
			require.NoError(t, err)
			_, rest, ok := strings.Cut(string(text), tt.before)
			require.True(t, ok, string(text))
			require.Contains(t, rest, tt.after)
		})
	}
}

// TestForms: manifests keep their form, and a step says what is left of it.
func TestForms(t *testing.T) {
	const program = "package main\n\nimport \"net/http\"\n\nfunc main() { _ = http.ListenAndServe(\":1\", nil) }\n"
	for name, tt := range map[string]struct {
		files     map[string]string
		want, no  string // in the first file by name
		step      string
		unchanged bool
	}{
		"CRLF in go.mod":           {map[string]string{"go.mod": "module example.com/a // a\r\n\r\ngo 1.26.0\r\n", "main.go": program}, "\tgo.opentelemetry.io/otel v1.47.0\r\n", "[^\r]\n", "", false},
		"LF in go.mod":             {map[string]string{"go.mod": "module example.com/a\n\ngo 1.26.0\n", "main.go": program}, "\tgo.opentelemetry.io/otel v1.47.0\n", "\r", "", false},
		"vendored modules":         {map[string]string{"go.mod": "module example.com/a\n\ngo 1.26.0\n", "main.go": program, "vendor/modules.txt": ""}, "", "", "Then run `go mod vendor`", false},
		"a mark in package.json":   {map[string]string{"package.json": "\ufeff{\"dependencies\": {\"express\": \"5\"}}"}, "", "", "byte order mark", true},
		"requirements of setup":    {map[string]string{"setup.cfg": "[options]\ninstall_requires =\n    aiohttp>=3.9\n    schedule\n"}, "=\n    opentelemetry-distro\n    opentelemetry-exporter-otlp\n    opentelemetry-instrumentation-aiohttp-client\n    opentelemetry-instrumentation-aiohttp-server\n    aiohttp>=3.9\n    schedule\n", "", "", false},
		"requirements beside them": {map[string]string{"requirements.txt": "flask\n", "setup.cfg": "[options]\ninstall_requires =\n    flask\n"}, "opentelemetry-distro\n", "", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			p := apply(t, dir, instrument.Minimum, tt.files)
			require.Equal(t, tt.unchanged, len(p.Files) == 0)
			text, err := os.ReadFile(filepath.Join(dir, slices.Min(slices.Collect(maps.Keys(tt.files)))))
			require.NoError(t, err)
			require.Contains(t, string(text), tt.want)
			if tt.no != "" {
				require.NotRegexp(t, tt.no, string(text))
			}
			require.True(t, slices.ContainsFunc(p.Steps, func(s patch.Step) bool { return strings.Contains(s.Text, tt.step) }))
		})
	}
}

// TestGoWorkspace: a program whose server is in another module of the repository is a service. Steps name what is left
// of the other module and of the workspace.
func TestGoWorkspace(t *testing.T) {
	const (
		library = "package httpx\n\nimport \"net/http\"\n\nfunc Serve(h http.Handler) error { return http.ListenAndServe(\":80\", h) }\n"
		program = "package main\n\nimport \"example.com/httpx\"\n\nfunc main() { _ = httpx.Serve(nil) }\n"
		used    = "go 1.22\n\nuse (\n\t./orders\n\t./httpx\n)\n"
	)
	for name, tt := range map[string]struct {
		requirement, library, work string
		program, served, raise     bool // the program is changed; steps name the other module, and the workspace
	}{
		"another package":            {"\nrequire example.com/httpx v0.0.0\n", "package httpx\n\nfunc Serve(any) error { return nil }\n", used, false, true, false},
		"a workspace":                {"\nrequire example.com/httpx v0.0.0\n", library, used, true, true, true},
		"a workspace of a new Go":    {"\nrequire example.com/httpx v0.0.0\n", library, strings.Replace(used, "1.22", "1.26.0", 1), true, true, false},
		"a workspace of others":      {"\nrequire example.com/httpx v0.0.0\n", library, "go 1.22\n\nuse ./httpx\n", true, true, false},
		"no workspace":               {"\nrequire example.com/httpx v0.0.0\n\nreplace example.com/httpx => ../httpx\n", library, "", true, true, false},
		"a library without a server": {"\nrequire example.com/httpx v0.0.0\n", "package httpx\n\nfunc Serve(any) error { return nil }\n", used, false, false, false},
		"another library":            {"", library, used, false, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			files := map[string]string{
				"orders/go.mod": "module example.com/orders\n\ngo 1.22\n" + tt.requirement, "orders/main.go": program,
				"httpx/go.mod": "module example.com/httpx\n\ngo 1.22\n", "httpx/serve.go": tt.library,
			}
			if tt.work != "" {
				files["go.work"] = tt.work
			}
			if name == "another package" {
				files["httpx/server/server.go"] = strings.Replace(library, "httpx", "server", 1)
			}
			write(t, dir, files)
			p, root, err := makePatch(t, newParser(t), dir, instrument.General)
			if !tt.program && !tt.served {
				require.Equal(t, assay.CodeUnprocessable, assay.ErrorCode(err))
				return
			}
			require.NoError(t, err)
			changed := func(name string) bool {
				return slices.ContainsFunc(p.Files, func(f patch.File) bool { return f.Path == name })
			}
			left := func(file, text string) bool {
				return slices.ContainsFunc(p.Steps, func(s patch.Step) bool { return s.Open && s.File == file && strings.Contains(s.Text, text) })
			}
			require.Equal(t, tt.program, changed("orders/telemetry.go"))
			require.False(t, changed("httpx/serve.go"))
			require.Equal(t, tt.served, left("httpx/go.mod", "The servers and clients of the module are left"))
			require.Equal(t, tt.raise, left("go.work", "Run `go work use`"))
			require.NoError(t, p.Apply(root))
			again, _, err := makePatch(t, newParser(t), dir, instrument.General)
			require.NoError(t, err)
			require.Empty(t, again.Files)
		})
	}
}

// TestGoMain: a formatted program stays formatted, whatever its main function is like.
func TestGoMain(t *testing.T) {
	const setup = "\tdefer startTelemetry()()\n"
	for name, tt := range map[string]struct{ body, want string }{
		"lines":            {"{\n\tprintln(1)\n}", "{\n" + setup + "\n\tprintln(1)\n}"},
		"one line":         {"{ println(1) }", "{\n" + setup + "\tprintln(1)\n}"},
		"a comment":        {"{ // start\n\tprintln(1)\n}", "{ // start\n" + setup + "\n\tprintln(1)\n}"},
		"a block comment":  {"{ /* start */ println(1) }", "{\n" + setup + "\t/* start */ println(1)\n}"},
		"a blank line":     {"{\n\n\tprintln(1)\n}", "{\n" + setup + "\n\tprintln(1)\n}"},
		"nothing":          {"{}", "{\n" + setup + "}"},
		"no format":        {"{\n  println(1)\n}", "{\n" + setup + "\n  println(1)\n}"},
		"no format, blank": {"{\n\n  println(1)\n}", "{\n" + setup + "\n  println(1)\n}"},
		"CRLF":             {"{\r\n\tprintln(1)\r\n}", "{\r\n\tdefer startTelemetry()()\r\n\r\n\tprintln(1)\r\n}"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			end := "\n"
			if strings.Contains(tt.body, "\r") {
				end = "\r\n"
			}
			files := map[string]string{"go.mod": "module example.com/a\n\ngo 1.26\n", "main.go": "package main" + end + end + "func main() " + tt.body + end, "serve.go": "package main\n\nimport \"net/http\"\n\nvar err = http.ListenAndServe(\"\", nil)\n"}
			for name, text := range files {
				require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
			}
			p, root, err := makePatch(t, newParser(t), dir, instrument.Minimum)
			require.NoError(t, err)
			require.NoError(t, p.Apply(root))
			got, err := root.ReadFile("main.go")
			require.NoError(t, err)
			require.Equal(t, "package main"+end+end+"func main() "+tt.want+end, string(got))
		})
	}
}

// TestGoVersions: the modules that this program has itself are added in the same versions.
func TestGoVersions(t *testing.T) {
	text, err := os.ReadFile("../../../go.mod")
	require.NoError(t, err)
	mod, err := modfile.Parse("go.mod", text, nil)
	require.NoError(t, err)
	own := map[string]string{}
	for _, r := range mod.Require {
		own[r.Mod.Path] = r.Mod.Version
	}
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS("testdata/services/api")))
	p, _, err := makePatch(t, newParser(t), dir, instrument.General)
	require.NoError(t, err)
	compared := 0
	for _, f := range p.Files {
		if f.Path != "go.mod" {
			continue
		}
		mod, err := modfile.Parse("go.mod", f.After, nil)
		require.NoError(t, err)
		for _, r := range mod.Require {
			if v := own[r.Mod.Path]; v != "" && strings.HasPrefix(r.Mod.Path, "go.opentelemetry.io/") {
				require.Equal(t, v, r.Mod.Version, r.Mod.Path)
				compared++
			}
		}
	}
	require.GreaterOrEqual(t, compared, 6)
}

// TestGin: the instrumentation of Gin has no version of the release of the others.
func TestGin(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module shop\n\ngo 1.26\n\nrequire github.com/gin-gonic/gin v1.11.0\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte("package main\n\nimport \"github.com/gin-gonic/gin\"\n\nfunc main() {\n\tr := gin.New()\n\t_ = r.Run()\n}\n"), 0o600))
	p, _, err := makePatch(t, newParser(t), dir, instrument.General)
	require.NoError(t, err)
	var diff strings.Builder
	require.NoError(t, p.Diff(&diff))
	require.Contains(t, diff.String(), "+\tgo.opentelemetry.io/contrib/instrumentation/github.com/gin-gonic/gin/otelgin v0.71.0\n")
	require.Contains(t, diff.String(), "+\tr.Use(otelgin.Middleware(")
}

// FuzzMake changes hostile manifests and deployment files without a panic, and what parsed before parses afterwards.
func FuzzMake(f *testing.F) {
	for _, name := range []string{"services/web/package.json", "services/web/Dockerfile", "services/jobs/requirements.txt", "modules/poetry/pyproject.toml", "modules/pep621/pyproject.toml", "services/compose.yaml", "kubernetes/deployment.yaml", "kubernetes/go.mod", "kubernetes/main.go"} {
		text, err := os.ReadFile(filepath.Join("testdata", filepath.FromSlash(name)))
		require.NoError(f, err)
		f.Add(filepath.Base(name), text)
	}
	parser := newParser(f)
	f.Fuzz(func(t *testing.T, name string, text []byte) {
		if name != filepath.Base(name) || name == "." || name == ".." || strings.ContainsAny(name, "/\\\x00") || len(name) > 100 || len(text) > 64<<10 {
			return
		}
		dir := t.TempDir()
		require.NoError(t, os.CopyFS(dir, os.DirFS("testdata/services/web")))
		if os.WriteFile(filepath.Join(dir, name), text, 0o600) != nil {
			return
		}
		p, root, err := makePatch(t, parser, dir, instrument.General)
		if err != nil {
			require.Equal(t, assay.CodeUnprocessable, assay.ErrorCode(err))
			return
		}
		for _, f := range p.Files {
			if !f.Created && patch.Parses(t.Context(), parser, f.Path, f.Before) {
				require.True(t, patch.Parses(t.Context(), parser, f.Path, f.After), f.Path)
			}
		}
		require.NoError(t, p.Apply(root))
	})
}

// TestLinear: the work for code of twice the size is about twice as much. Allocations stand for the work, because their
// number does not depend on the machine.
func TestLinear(t *testing.T) {
	parser := newParser(t)
	for name, files := range map[string]func(n int) map[string]string{
		"parameters of channels in Go": func(n int) map[string]string {
			return map[string]string{"go.mod": "module example.com/shop\n\ngo 1.26.0\n", "main.go": "package main\n\nimport (\n\t\"net/http\"\n\n\tamqp \"github.com/rabbitmq/amqp091-go\"\n)\n\n" +
				"func main() { _ = http.ListenAndServe(\"\", nil) }\n\nfunc receive(" + strings.Repeat("_ chan amqp.Delivery, ", n) + "a []int) {\n" + strings.Repeat("\tfor range a {\n\t}\n", n) + "}\n"}
		},
		"imports of packages in Java": func(n int) map[string]string {
			calls := strings.Repeat("        b.c();\n", n)
			return map[string]string{"pom.xml": javaSDKPOM, "Setup.java": javaSetup, "Store.java": "package shop;\n\nimport java.sql.Statement;\n" + strings.Repeat("import com.example.packages.with.long.names.*;\n", n) +
				"\nclass Store {\n    void run(B b) {\n" + calls + "    }\n}\n"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			work := func(n int) float64 {
				dir := t.TempDir()
				for name, text := range files(n) {
					require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
				}
				return testing.AllocsPerRun(1, func() {
					_, _, err := makePatch(t, parser, dir, instrument.General)
					require.NoError(t, err)
				})
			}
			require.Less(t, work(2000), 3*work(1000))
		})
	}
}

// TestOtherPrograms: an image with nothing of the project but a program that npm installs stays as it is, as do its
// containers.
func TestOtherPrograms(t *testing.T) {
	p := apply(t, filepath.Join(t.TempDir(), "shop"), instrument.Minimum, map[string]string{
		"package.json":       `{"name": "shop", "scripts": {"start": "node a.js"}, "dependencies": {"express": "5"}}`,
		"maildev.Dockerfile": "FROM node:24\nRUN npm i -g maildev\nCMD maildev\n",
		"compose.yaml":       "services:\n  maildev:\n    build:\n      context: .\n      dockerfile: maildev.Dockerfile\n",
	})
	require.Len(t, p.Files, 1)
	require.Equal(t, "package.json", p.Files[0].Path)
}
