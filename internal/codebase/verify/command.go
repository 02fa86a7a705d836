// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
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

// suggest returns a command that runs the tests of the changed modules. If no module changed, it returns the command
// for the module in the root, or "" if there is none. A file belongs to the module in the nearest directory with a
// manifest.
func suggest(ctx context.Context, before, after fs.FS) (string, error) {
	changed, err := changedFiles(ctx, before, after)
	if err != nil {
		return "", err
	}
	var parts, dirs []string
	for _, name := range changed {
		if len(dirs) == maxModules {
			break
		}
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		dir, command := module(after, path.Dir(name))
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
		_, command := module(after, ".")
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

// changedFiles returns the regular files that differ between two trees: first those in after, then those only in
// before.
func changedFiles(ctx context.Context, before, after fs.FS) (changed []string, err error) {
	walk := func(tree, other fs.FS, compare bool) error {
		return fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case ctx.Err() != nil:
				return context.Cause(ctx)
			case d.IsDir() && d.Name() == ".git":
				return fs.SkipDir
			case !d.Type().IsRegular():
				return nil
			}
			same, err := sameFile(tree, other, name, compare)
			if err == nil && !same {
				changed = append(changed, name)
			}
			return err
		})
	}
	if err := walk(after, before, true); err != nil {
		return nil, err
	}
	return changed, walk(before, after, false)
}

// sameFile reports whether the other tree has the file. If compare is set, the contents must be equal, too.
func sameFile(tree, other fs.FS, name string, compare bool) (bool, error) {
	info, err := fs.Lstat(other, name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil || !compare {
		return err == nil, err
	}
	if !info.Mode().IsRegular() {
		return false, nil
	}
	a, err := tree.Open(name)
	if err != nil {
		return false, err
	}
	defer a.Close()
	b, err := other.Open(name)
	if err != nil {
		return false, err
	}
	defer b.Close()
	var x, y [32 << 10]byte
	for {
		n, errA := io.ReadFull(a, x[:])
		m, errB := io.ReadFull(b, y[:])
		switch {
		case !bytes.Equal(x[:n], y[:m]):
			return false, nil
		case ended(errA) && ended(errB):
			return true, nil
		case errA != nil && !ended(errA), errB != nil && !ended(errB):
			return false, errors.Join(errA, errB)
		}
	}
}

func ended(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }
