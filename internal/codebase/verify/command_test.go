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
		before, after files
		want          string
	}{
		"nothing":          {files{"a.go": "a"}, files{"a.go": "b"}, ""},
		"Go":               {files{"go.mod": "", "a.go": "a"}, files{"go.mod": "", "a.go": "b"}, "go test ./..."},
		"npm":              {nil, files{"package.json": `{"scripts": {"test": "jest"}}`}, "npm test --silent"},
		"npm without test": {nil, files{"package.json": `{"scripts": {"test": "echo \"Error: no test specified\" && exit 1"}}`, "setup.py": ""}, "python3 -m pytest -q"},
		"broken manifest":  {nil, files{"package.json": `{"scripts": []}`}, ""},
		"Maven":            {nil, files{"pom.xml": ""}, "mvn --offline --batch-mode --quiet test"},
		"Gradle":           {nil, files{"app/build.gradle.kts": "", "app/a.java": ""}, "(cd ./'app' && gradle --offline --no-daemon test)"},
		"nearest": {
			files{"go.mod": "", "web/package.json": `{"scripts": {"test": "jest"}}`, "web/src/a.js": "a"},
			files{"go.mod": "", "web/package.json": `{"scripts": {"test": "jest"}}`, "web/src/a.js": "b"},
			"(cd ./'web' && npm test --silent)",
		},
		"several": {
			files{"a/go.mod": "", "b/go.mod": "", "c/go.mod": "", "c/x.go": ""},
			files{"a/go.mod": "", "a/x.go": "", "b/go.mod": "", "b/y/x.go": "", "c/go.mod": "", "c/x.go": ""},
			"(cd ./'a' && go test ./...) && (cd ./'b' && go test ./...)",
		},
		"deleted":  {files{"go.mod": "", "a/x.go": ""}, files{"go.mod": ""}, "go test ./..."},
		"other":    {files{"go.mod": "", "Dockerfile": "a"}, files{"go.mod": "", "Dockerfile": "b"}, "go test ./..."},
		"quoted":   {nil, files{"a'; rm -rf b/go.mod": ""}, `(cd ./'a'\''; rm -rf b' && go test ./...)`},
		"metadata": {files{".git/go.mod": ""}, files{".git/x/go.mod": "b"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			tree := func(f files) fstest.MapFS {
				m := fstest.MapFS{}
				for name, text := range f {
					m[name] = &fstest.MapFile{Data: []byte(text)}
				}
				return m
			}
			got, err := suggest(t.Context(), tree(c.before), tree(c.after))
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}

func TestPath(t *testing.T) {
	t.Setenv("PATH", "/usr/local/go/bin:/home/bin:/opt/jdk/bin:relative:/usr/bin:/usrx")
	require.Equal(t, "/usr/local/go/bin:/opt/jdk/bin:/usr/bin:/usr/local/bin:/usr/bin:/bin", (&Verifier{ReadOnly: []string{"/opt/jdk/"}}).path())
}
