// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"context"
	"encoding/json"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// maxManifest is the maximum number of bytes that are read of a manifest.
const maxManifest = 1 << 20

// maxModules limits the directories in which tests run.
const maxModules = 8

// manifest is a file that suggests a command.
type manifest struct {
	name    string
	command string
	ok      func(text []byte) bool // whether the command applies; nil: always
}

// manifests are the known manifests in order of preference.
var manifests = []manifest{
	{"go.mod", "go test ./...", nil},
	{"package.json", "npm test --silent", hasTestScript},
	{"pyproject.toml", "python3 -m pytest -q", nil},
	{"setup.py", "python3 -m pytest -q", nil},
	{"pytest.ini", "python3 -m pytest -q", nil},
	{"requirements.txt", "python3 -m pytest -q", nil},
	{"pom.xml", "mvn --offline --batch-mode --quiet test", nil},
	{"build.gradle", "gradle --offline --no-daemon test", nil},
	{"build.gradle.kts", "gradle --offline --no-daemon test", nil},
}

// hasTestScript reports whether a package.json has a script for tests other than the one that `npm init` writes.
func hasTestScript(text []byte) bool {
	var p struct {
		Scripts map[string]string `json:"scripts"`
	}
	return json.Unmarshal(text, &p) == nil && p.Scripts["test"] != "" && !strings.Contains(p.Scripts["test"], "no test specified")
}

// suggest returns a command that runs the tests of the modules of changed files. If there is none, it returns the command
// for the module in the root, or "". A file belongs to the module in the nearest directory with a manifest.
func suggest(ctx context.Context, tree fs.FS, changed []string) (string, error) {
	var parts, dirs []string
	for _, name := range changed {
		if len(dirs) == maxModules {
			break
		}
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		dir, command := module(tree, path.Dir(name))
		if command == "" || slices.Contains(dirs, dir) {
			continue
		}
		dirs = append(dirs, dir)
		if dir != "." {
			command = "(cd ./" + quote(dir) + " && " + command + ")"
		}
		parts = append(parts, command)
	}
	if len(parts) == 0 {
		_, command := module(tree, ".")
		return command, nil
	}
	return strings.Join(parts, " && "), nil
}

// module returns the nearest directory with a manifest, from dir upwards, and the command for it.
func module(tree fs.FS, dir string) (string, string) {
	for ; ; dir = path.Dir(dir) {
		for _, m := range manifests {
			text, err := read(tree, path.Join(dir, m.name))
			if err == nil && (m.ok == nil || m.ok(text)) {
				return dir, m.command
			}
		}
		if dir == "." {
			return "", ""
		}
	}
}

func read(tree fs.FS, name string) ([]byte, error) {
	f, err := tree.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxManifest))
}

// quote quotes a word for the shell.
func quote(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }
