// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"bytes"
	"maps"
	"path"
	"slices"
	"strings"

	"assay/internal/review/configfile"
)

// oldPackage reports whether a dependency belongs to a migrated library.
func oldPackage(name string) bool {
	switch name {
	case "opentracing", "jaeger-client", "dd-trace", "@types/jaeger-client", "zipkin", "zipkin-context-cls", "zipkin-transport-http", // npm
		"ddtrace", "py-zipkin": // PyPI
		return true
	}
	return strings.HasPrefix(name, "@opencensus/") || name == "opencensus" || strings.HasPrefix(name, "opencensus-")
}

// dependencies returns the dependencies of a manifest, and its source. It returns nil if the manifest cannot be read.
func (u *scriptUnit) dependencies(name string) ([]configfile.Dependency, []byte) {
	if !slices.Contains(u.paths, name) {
		return nil, nil
	}
	source, err := u.read(name)
	if err != nil {
		return nil, nil
	}
	files, err := configfile.Parse(name, source)
	if err != nil || len(files) != 1 {
		return nil, nil
	}
	return files[0].Dependencies, source
}

// replacement returns the old dependencies of a manifest, and the needed packages that the manifest lacks.
func (u *scriptUnit) replacement(list []configfile.Dependency) (old []configfile.Dependency, missing []string) {
	missing = slices.Sorted(maps.Keys(u.packages))
	for _, d := range list {
		missing = slices.DeleteFunc(missing, func(p string) bool { return p == d.Name })
		if oldPackage(d.Name) {
			old = append(old, d)
		}
	}
	return old, missing
}

// jsonManifest replaces the old dependencies of a package.json, at the place of the first that is not a development
// dependency.
func (u *scriptUnit) jsonManifest(name string) {
	list, source := u.dependencies(name)
	if source == nil {
		u.open(name, 0, "Replace the dependencies of the old libraries by those of OpenTelemetry.")
		return
	}
	old, add := u.replacement(list)
	for i, p := range add {
		add[i] = `"` + p + `": "` + npmVersions[p] + `"`
	}
	slices.SortFunc(old, func(a, b configfile.Dependency) int { return a.Start - b.Start })
	main := slices.IndexFunc(old, func(d configfile.Dependency) bool { return !d.Development })
	if main < 0 && len(add) > 0 {
		u.open(name, 0, "Add the dependencies %s.", strings.Join(add, ", "))
	}
	var edits []edit
	for i := 0; i < len(old); {
		first, replaced := i, i == main
		for i++; i < len(old) && strings.Trim(string(source[old[i-1].End:old[i].Start]), " \t\r\n") == ","; i++ {
			replaced = replaced || i == main
		}
		start, end := old[first].Start, old[i-1].End
		if replaced && len(add) > 0 {
			indent := lineIndent(source, start)
			separator := ", "
			if bytes.HasPrefix(bytes.TrimLeft(source[lineStart(source, start):], " \t"), source[start:old[first].End]) {
				separator = ",\n" + indent
			}
			edits = append(edits, edit{start, end, strings.Join(add, separator)})
			continue
		}
		// Remove the entries with the comma after them, or with the comma before them.
		rest := bytes.TrimLeft(source[end:], " \t\r\n")
		if len(rest) > 0 && rest[0] == ',' {
			end = len(source) - len(rest) + 1
			edits = append(edits, lineEdit(source, start, end))
			continue
		}
		for start > 0 && strings.IndexByte(" \t\r\n", source[start-1]) >= 0 {
			start--
		}
		if start > 0 && source[start-1] == ',' {
			start--
		}
		edits = append(edits, edit{start, end, ""})
	}
	sortEdits(edits)
	after := []byte(replace(source, 0, len(source), edits))
	if _, err := configfile.Parse(name, after); err != nil {
		u.open(name, 0, "Replace the dependencies of the old libraries by %s.", strings.Join(add, ", "))
		return
	}
	u.change(name, source, after)
	u.open(name, 0, "Run `npm install`: the lock file needs the network.")
}

func lineStart(source []byte, at int) int { return bytes.LastIndexByte(source[:at], '\n') + 1 }

func lineIndent(source []byte, at int) string {
	line := source[lineStart(source, at):]
	return string(line[:len(line)-len(bytes.TrimLeft(line, " \t"))])
}

// requirementFiles are the manifests of a Python project.
func (u *scriptUnit) requirementFiles() []string {
	var out []string
	for _, f := range u.paths {
		base := path.Base(f)
		if directory(f) == u.dir && (strings.HasPrefix(base, "requirements") && (strings.HasSuffix(base, ".txt") || strings.HasSuffix(base, ".in")) || base == "pyproject.toml" || base == "Pipfile" || base == "setup.cfg") {
			out = append(out, f)
		}
	}
	return out
}
