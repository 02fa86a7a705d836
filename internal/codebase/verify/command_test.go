// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func TestSuggest(t *testing.T) {
	type files map[string]string
	for name, c := range map[string]struct {
		tree    files
		changed []string
		want    string
	}{
		"nothing":          {files{"a.go": ""}, []string{"a.go"}, ""},
		"no change":        {files{"go.mod": ""}, nil, "go test ./..."},
		"Go":               {files{"go.mod": "", "a.go": ""}, []string{"a.go"}, "go test ./..."},
		"npm":              {files{"package.json": `{"scripts": {"test": "jest"}}`}, []string{"package.json"}, "npm test --silent"},
		"npm without test": {files{"package.json": `{"scripts": {"test": "echo \"Error: no test specified\" && exit 1"}}`, "setup.py": ""}, []string{"setup.py"}, "python3 -m pytest -q"},
		"broken manifest":  {files{"package.json": `{"scripts": []}`}, []string{"package.json"}, ""},
		"Maven":            {files{"pom.xml": ""}, []string{"pom.xml"}, "mvn --offline --batch-mode --quiet test"},
		"Gradle":           {files{"app/build.gradle.kts": "", "app/a.java": ""}, []string{"app/a.java"}, "(cd ./'app' && gradle --offline --no-daemon test)"},
		"nearest": {
			files{"go.mod": "", "web/package.json": `{"scripts": {"test": "jest"}}`, "web/src/a.js": ""},
			[]string{"web/src/a.js"},
			"(cd ./'web' && npm test --silent)",
		},
		"several": {
			files{"a/go.mod": "", "a/x.go": "", "b/go.mod": "", "b/y/x.go": "", "c/go.mod": "", "c/x.go": ""},
			[]string{"a/x.go", "b/y/x.go"},
			"(cd ./'a' && go test ./...) && (cd ./'b' && go test ./...)",
		},
		"other":  {files{"go.mod": "", "Dockerfile": ""}, []string{"Dockerfile"}, "go test ./..."},
		"quoted": {files{"a'; rm -rf b/go.mod": ""}, []string{"a'; rm -rf b/go.mod"}, `(cd ./'a'\''; rm -rf b' && go test ./...)`},
	} {
		t.Run(name, func(t *testing.T) {
			tree := fstest.MapFS{}
			for name, text := range c.tree {
				tree[name] = &fstest.MapFile{Data: []byte(text)}
			}
			got, err := suggest(t.Context(), tree, c.changed)
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}

func TestPath(t *testing.T) {
	t.Setenv("PATH", "/usr/local/go/bin:/home/bin:/opt/jdk/bin:relative:/usr/bin:/usrx")
	require.Equal(t, "/usr/local/go/bin:/opt/jdk/bin:/usr/bin:/usr/local/bin:/usr/bin:/bin", (&Verifier{ReadOnly: []string{"/opt/jdk/"}}).path())
}
