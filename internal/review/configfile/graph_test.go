// SPDX-License-Identifier: Apache-2.0

package configfile

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestGraph checks which other projects of a repository a project uses.
func TestGraph(t *testing.T) {
	for name, tt := range map[string]struct {
		files   map[string]string // sources have their imports, separated by spaces
		project Project
		want    []string
	}{
		"npm by path": {map[string]string{
			"a/package.json": `{"name":"a","dependencies":{"x":"file:../b","y":"link:../c","z":"workspace:../d","b":"^1.0.0","t":"file:../t.tgz"}}`,
			"b/package.json": `{"name":"other"}`, "c/package.json": `{}`, "d/package.json": `{}`, "package.json": `{"name":"root"}`,
		}, Project{"a", NPM}, []string{"b", "c", "d"}},
		"npm by name, through others, and once": {map[string]string{
			"a/package.json": `{"dependencies":{"@shop/b":"workspace:*","lodash":"4"}}`,
			"b/package.json": `{"name":"@shop/b","devDependencies":{"@shop/c":"*"}}`,
			"c/package.json": `{"name":"@shop/c","dependencies":{"@shop/b":"1.0.0"}}`,
		}, Project{"a", NPM}, []string{"b", "c"}},
		"npm with a name of several packages": {map[string]string{
			"a/package.json": `{"dependencies":{"b":"*"}}`, "b/package.json": `{"name":"b"}`, "c/package.json": `{"name":"b"}`,
		}, Project{"a", NPM}, nil},
		"a relative import": {map[string]string{
			"package.json": `{}`, "a/package.json": `{}`, "a/src/main.ts": "../lib/x ../../shared/telemetry", "b/package.json": `{"dependencies":{"a":"file:../a"}}`,
		}, Project{"b", NPM}, []string{"a", "."}},
		"requirements": {map[string]string{
			"a/requirements.txt": "flask\n-e ../b[extra]\nc @ file:../c ; python_version > '3'\n./d\n-r ../e/requirements/base.txt # all\n-r base.txt\n-e git+https://example.com/f\n../f\n",
			"b/setup.py":         "setup(name='b')\n", "c/pyproject.toml": "", "a/d/setup.cfg": "", "e/requirements/base.txt": "", "f/package.json": `{}`,
		}, Project{"a", PyPI}, []string{"b", "c", "a/d", "e"}},
		"pyproject": {map[string]string{
			"a/pyproject.toml":    "[project]\nname = \"a\"\ndependencies = [\"my_lib>=1\"]\n[tool.uv.sources]\nmy-lib = { workspace = true }\n[tool.poetry.dependencies]\nx = { path = \"../x\", develop = true }\n",
			"libs/pyproject.toml": "[project]\nname = \"my.lib\"\n", "x/pyproject.toml": "[tool.poetry]\nname = \"y\"\n",
		}, Project{"a", PyPI}, []string{"libs", "x"}},
		"imports of Python": {map[string]string{
			"requirements.txt": "", "a/requirements.txt": "redis\n", "a/app/main.py": "app.config libs.obs.setup other redis .near queue web",
			"a/app/config.py": "", "libs/obs/setup.py": "", "libs/obs/requirements.txt": "", "o/pyproject.toml": "", "o/src/other/__init__.py": "",
			"redis/pyproject.toml": "", "redis/redis/client.py": "", "q/pyproject.toml": "", "q/queue.py": "", "web/requirements.txt": "", "web/web.py": "",
			"b/pyproject.toml": "", "b/app/config.py": "",
		}, Project{"a", PyPI}, []string{"libs/obs", "o"}},
		"a module of the root": {map[string]string{
			"requirements.txt": "", "common/log.py": "", "a/requirements.txt": "", "a/main.py": "common.log.get",
		}, Project{"a", PyPI}, []string{"."}},
		"modules of Go": {map[string]string{
			"a/go.mod": "module example.com/a\nrequire (\n\texample.com/b v0.0.0\n\texample.com/d v1.0.0 // indirect\n)\nreplace example.com/b => ../b\n",
			"b/go.mod": "module example.com/b\n", "c/go.mod": "module example.com/c\n", "d/go.mod": "module example.com/d\n", "a/main.go": "fmt example.com/b/x example.com/c/y/z",
		}, Project{"a", Go}, []string{"b", "c"}},
		"Gradle": {map[string]string{
			"a/build.gradle":          "dependencies {\n  implementation project(':libs:b')\n  testImplementation project(':t')\n  api(project(path: ':c'))\n  // compile project(':t')\n}\nproject(':t') { }\n",
			"libs/b/build.gradle.kts": "dependencies {\n  api(projects.libs.dataStore)\n}\n", "libs/data-store/build.gradle.kts": "", "t/build.gradle": "", "x/c/build.gradle": "",
		}, Project{"a", Maven}, []string{"libs/b", "x/c", "libs/data-store"}},
		"Maven": {map[string]string{
			"pom.xml": `<project><groupId>g</groupId><artifactId>parent</artifactId><dependencies><dependency><groupId>g</groupId><artifactId>base</artifactId></dependency></dependencies>
				<dependencyManagement><dependencies><dependency><groupId>g</groupId><artifactId>c</artifactId></dependency></dependencies></dependencyManagement></project>`,
			"a/pom.xml": `<project><parent><groupId>g</groupId><artifactId>parent</artifactId></parent><artifactId>a</artifactId><dependencies>
				<dependency><groupId>${project.groupId}</groupId><artifactId>b</artifactId></dependency><dependency><groupId>g</groupId><artifactId>t</artifactId><scope>test</scope></dependency>
				<dependency><groupId>other</groupId><artifactId>c</artifactId></dependency></dependencies></project>`,
			"b/pom.xml":    `<project><parent><groupId>g</groupId><artifactId>parent</artifactId></parent><artifactId>b</artifactId></project>`,
			"c/pom.xml":    `<project><groupId>g</groupId><artifactId>c</artifactId></project>`,
			"t/pom.xml":    `<project><groupId>g</groupId><artifactId>t</artifactId></project>`,
			"base/pom.xml": `<project><groupId>g</groupId><artifactId>base</artifactId></project>`,
		}, Project{"a", Maven}, []string{"b", "base"}},
	} {
		t.Run(name, func(t *testing.T) {
			var configs []*File
			for _, file := range slices.Sorted(maps.Keys(tt.files)) {
				found, err := Parse(file, []byte(tt.files[file]))
				require.NoError(t, err)
				configs = append(configs, found...)
			}
			var g *Graph
			g = NewGraph(configs, slices.Sorted(maps.Keys(tt.files)), func(p Project) (all []Import) {
				for file, text := range tt.files {
					ecosystem := map[string]string{".ts": NPM, ".py": PyPI, ".go": Go}[path.Ext(file)]
					if at, ok := g.Of(path.Dir(file), ecosystem); ok && at == p && path.Base(file) != "setup.py" {
						for module := range strings.FieldsSeq(text) {
							all = append(all, Import{file, module})
						}
					}
				}
				return all
			})
			var got []string
			for _, used := range g.Uses(tt.project) {
				require.Equal(t, tt.project.Ecosystem, used.Ecosystem)
				got = append(got, used.Dir)
			}
			require.Equal(t, tt.want, got)
		})
	}
}

// TestGraphBound checks that a chain of projects ends.
func TestGraphBound(t *testing.T) {
	var configs []*File
	for i := range 2 * maxUsed {
		found, err := Parse(fmt.Sprintf("p%d/package.json", i), fmt.Appendf(nil, `{"name":"p%d","dependencies":{"p%d":"*"}}`, i, i+1))
		require.NoError(t, err)
		configs = append(configs, found...)
	}
	g := NewGraph(configs, nil, func(Project) []Import { return nil })
	require.Len(t, g.Uses(Project{"p0", NPM}), maxUsed)
}

// TestGraphHub checks that a project uses at most maxUsed others.
func TestGraphHub(t *testing.T) {
	const n = 3 * maxUsed
	var configs []*File
	all := make([]string, n)
	for i := range n {
		all[i] = fmt.Sprintf(`"p%d": "workspace:*"`, i)
	}
	for i := range n {
		dependencies := `"p0": "workspace:*"`
		if i == 0 {
			dependencies = strings.Join(all, ", ")
		}
		files, err := Parse(fmt.Sprintf("p%d/package.json", i), fmt.Appendf(nil, `{"name": "p%d", "dependencies": {%s}}`, i, dependencies))
		require.NoError(t, err)
		configs = append(configs, files...)
	}
	g := NewGraph(configs, nil, func(Project) []Import { return nil })
	for i := range n {
		require.Len(t, g.Uses(Project{fmt.Sprintf("p%d", i), NPM}), maxUsed)
	}
}
