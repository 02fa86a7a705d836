// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"bytes"
	"maps"
	"regexp"
	"slices"
	"strings"

	"assay/internal/review/syntax"
)

// javaImport matches an import statement that can be replaced.
var javaImport = regexp.MustCompile(`^import\s+(?:static\s+)?[\w$.]+(?:\s*\.\s*\*)?\s*;$`)

// javaRename adds the edits that rename types of the source libraries. It runs before calls are rewritten.
func (s *script) javaRename() {
	for _, r := range s.java.refs {
		if r.node != nil || !r.known {
			continue
		}
		if to := javaClasses[r.class].to; to != "" {
			name := s.javaUse(to)
			if name != string(s.f.Source[r.start:r.end]) {
				s.java.more = append(s.java.more, edit{r.start, r.end, name})
			}
		}
	}
}

// javaImports replaces the imports of source libraries.
func javaImports(s *script) ([]edit, bool) {
	for _, r := range s.java.refs {
		switch {
		case slices.ContainsFunc(s.java.removed, func(e [2]int) bool { return e[0] <= r.start && r.end <= e[1] }):
		case r.known && (r.node == nil && javaClasses[r.class].to != "" || r.node != nil && s.done[r.node]):
		case !r.known:
			s.blockAt(&syntax.Node{Start: r.start}, "%s is in no table.", r.class)
		default:
			s.blockAt(&syntax.Node{Start: r.start}, "%s is in no table, or used in a way that no table knows.", r.class)
		}
	}
	source := s.f.Source
	var lines []string
	for _, class := range slices.Sorted(maps.Keys(s.used)) {
		if i, ok := s.f.Imported(s.used[class]); !ok || i.Path+"."+i.Member != class {
			lines = append(lines, "import "+class+";")
		}
	}
	var edits []edit
	first, last := -1, 0
	plain := false // whether first is not a static import
	for k, i := range s.f.Imports {
		at := s.java.imports[k]
		last = max(last, at[1])
		if !s.isSource(i.Path + "." + i.Member) {
			continue
		}
		_, class := javaClasses[i.Path+"."+i.Member]
		_, member := javaClasses[i.Path]
		if !class && !member && (i.Member != "*" || !javaPackage(i.Path)) {
			s.blockAt(i.Node, "%s.%s is in no table.", i.Path, i.Member)
			continue
		}
		code := source[at[0]:at[1]]
		if !javaImport.Match(code) {
			s.blockAt(i.Node, "The import of %s has a form that no table knows.", i.Path)
			continue
		}
		if static := bytes.Contains(code, []byte("static ")); first < 0 || !static && !plain {
			first, plain = len(edits), !static
		}
		edits = append(edits, lineEdit(source, at[0], at[1]))
	}
	if len(lines) == 0 || s.unit.blocked {
		return edits, !s.unit.blocked
	}
	text := strings.Join(lines, "\n")
	if first >= 0 {
		edits[first] = edit{edits[first].start, edits[first].end, text + "\n"}
		if source[edits[first].end-1] != '\n' { // other code is on the line
			edits[first].text = text
		}
		return edits, true
	}
	if last == 0 {
		if i := bytes.Index(source, []byte("package "+s.f.Package)); s.f.Package != "" && i >= 0 {
			last = i + bytes.IndexByte(source[i:], ';') + 1
			text = "\n" + text
		} else {
			return []edit{{0, 0, text + "\n\n"}}, true
		}
	}
	return append(edits, edit{last, last, "\n" + text}), true
}

// javaPackage reports whether a table has classes of a package.
func javaPackage(name string) bool {
	for class := range javaClasses {
		if rest, ok := strings.CutPrefix(class, name+"."); ok && !strings.Contains(rest, ".") {
			return true
		}
	}
	return false
}
