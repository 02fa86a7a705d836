// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"bytes"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"assay/internal/lists"
	"assay/internal/review/configfile"
)

// datadogCommands match the parts of commands that load the Datadog tracer, by its package.
var datadogCommands = map[string]*regexp.Regexp{
	"dd-trace": regexp.MustCompile(`(?m)^([^#\n]*?)((?:-r|--require|--import|--loader|--experimental-loader)[ =",']+dd-trace\b(?:/[\w./-]+)?|\bdd-trace/[\w./-]+)`),
	"ddtrace":  regexp.MustCompile(`(?m)^([^#\n]*?)(\bddtrace-run\b)`),
}

// commands adds a step for each command of the unit that loads the Datadog tracer: the migration removes its package.
// It reports whether there are any.
func (u *scriptUnit) commands(library string) bool {
	found := false
	for _, name := range u.commandFiles() {
		source, err := u.read(name)
		if err != nil {
			continue
		}
		for _, m := range datadogCommands[library].FindAllSubmatchIndex(source, -1) {
			text := "The command has ddtrace-run: start the process with opentelemetry-instrument instead."
			if command := string(source[m[4]:m[5]]); library == "dd-trace" {
				text = "The command loads " + command[strings.Index(command, library):] + ": load a module that sets up the SDK instead."
			}
			u.open(name, bytes.Count(source[:m[4]], []byte{'\n'})+1, "%s", text)
			found = true
		}
	}
	return found
}

// commandFiles returns the files that may contain commands of a unit: files below its directory, without nested units,
// and files directly in a directory above.
func (u *scriptUnit) commandFiles() []string {
	above := map[string]bool{u.dir: true}
	for dir := u.dir; dir != ""; {
		dir = directory(dir)
		above[dir] = true
	}
	files := lists.Filter(u.paths, func(f string) bool {
		dir, _ := nearest(f, u.dirs)
		return configfile.Candidate(f) && !strings.Contains(path.Base(f), "lock") && (dir == u.dir && within(f, u.dir) || above[directory(f)])
	})
	for dir := range maps.Keys(above) { // reviews do not list Procfiles
		if name := path.Join(dir, "Procfile"); !slices.Contains(files, name) {
			files = append(files, name)
		}
	}
	slices.Sort(files)
	return files
}

// within reports whether a file lies below a directory.
func within(file, dir string) bool { return dir == "" || strings.HasPrefix(file, dir+"/") }

// onlyCommands adds steps for a unit that depends on the Datadog tracer and does not use it in code: for commands that
// load it, or for the dependency.
func (u *scriptUnit) onlyCommands(table *scriptTable) {
	for _, name := range table.manifests {
		list, _ := u.dependencies(path.Join(u.dir, name))
		for _, d := range list {
			if datadogCommands[d.Name] != nil && !u.commands(d.Name) {
				u.open(path.Join(u.dir, name), 0, "The project depends on %s, but no code uses it. Remove it, or replace the command that loads it.", d.Name)
			}
		}
	}
}
