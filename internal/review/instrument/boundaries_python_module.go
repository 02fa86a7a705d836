// SPDX-License-Identifier: Apache-2.0

package instrument

import (
	"bytes"
	_ "embed"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"assay/internal/review/patch"
	"assay/internal/review/syntax"
)

// pythonHelperSource is the module that the edits call. Two blank lines are between its parts. A service gets those that
// it uses.
//
//go:embed otel_boundaries.py
var pythonHelperSource string

const pythonHelperFile = pythonHelperModule + ".py"

// change makes the edits of the files, and the module that they import. It reports whether it made any.
func (p *pythonService) change() bool {
	type place struct{ dir, module string }
	roots := map[string][]*pythonFile{} // by the directory that programs import from
	packages := map[*pythonFile]string{}
	for _, f := range p.files {
		if len(f.edits) == 0 {
			continue
		}
		root, pkg, ok := p.importRoot(f)
		if !ok {
			p.leave(f.Path, 0, "The boundaries of the file are left: the code does not say from which directory it imports modules")
			continue
		}
		if name := f.conflict(); name != "" {
			p.leave(f.Path, 0, "The boundaries of the file are left: it has a name `"+name+"` of its own")
			continue
		}
		roots[root] = append(roots[root], f)
		packages[f] = pkg
	}
	changed := false
	for _, root := range slices.Sorted(maps.Keys(roots)) {
		files := roots[root]
		at := place{root, pythonHelperModule}
		if pkg := packages[files[0]]; pkg != "" && !slices.ContainsFunc(files, func(f *pythonFile) bool { return packages[f] != pkg }) && !p.known[path.Join(root, pythonHelperFile)] {
			at = place{path.Join(root, pkg), pkg + "." + pythonHelperModule}
		}
		needed := map[string]bool{}
		for _, f := range files {
			for name := range f.helpers {
				needed[name] = true
			}
		}
		if !p.helper(path.Join(at.dir, pythonHelperFile), needed) {
			continue
		}
		for _, f := range files {
			f.apply(at.module)
		}
		changed = true
	}
	return changed
}

// importRoot returns the directory from which the modules of a file are imported, and the package of the file below it, ""
// for none.
func (p *pythonService) importRoot(f *pythonFile) (root, pkg string, ok bool) {
	dir := path.Dir(f.Path)
	if bytes.Contains(f.Source, []byte("sys.path")) {
		return "", "", false
	}
	exists := func(dir, module string) bool {
		return p.known[path.Join(dir, module+".py")] || p.known[path.Join(dir, module)]
	}
	relative := false
	var modules []string
	for _, i := range f.Imports {
		first, _, _ := strings.Cut(i.Path, ".")
		relative = relative || first == ""
		if first != "" && first != pythonHelperModule {
			modules = append(modules, first)
		}
	}
	top := ""
	for d := dir; p.known[path.Join(d, "__init__.py")]; d = path.Dir(d) {
		top = d
	}
	if top != "" {
		root = path.Dir(top)
		if top == p.dir || slices.ContainsFunc(modules, func(m string) bool { return exists(dir, m) && !exists(root, m) }) {
			return "", "", false // started as a program of the package's directory, or imported from outside of the service
		}
		return root, path.Base(top), true
	}
	for d := dir; ; d = path.Dir(d) {
		if slices.ContainsFunc(modules, func(m string) bool { return exists(d, m) }) {
			return d, "", true
		}
		if d == p.dir || d == "." || d == "/" {
			break
		}
	}
	if relative {
		return p.dir, "", dir != p.dir
	}
	return dir, "", dir == p.dir || dir == path.Join(p.dir, "src")
}

// conflict returns a name of the helpers that the file uses for something else.
func (f *pythonFile) conflict() string {
	for name := range f.helpers {
		if !f.own[name] && regexp.MustCompile(`\b`+name+`\b`).Match(f.Source) {
			return name
		}
	}
	return ""
}

// apply makes the edits of a file and imports the helpers.
func (f *pythonFile) apply(module string) {
	for _, e := range f.edits {
		f.p.edit(f.Path, f.Source, e.at, e.at, e.text)
	}
	f.p.patch.Steps = append(f.p.patch.Steps, f.steps...)
	var names []string
	for name := range f.helpers {
		if !f.own[name] {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return
	}
	slices.Sort(names)
	list := strings.Join(names, ", ")
	if f.ownEnd > 0 {
		f.p.edit(f.Path, f.Source, f.ownEnd, f.ownEnd, ", "+list)
		return
	}
	at, end := f.importsEnd(), newline(f.Source)
	text := "from " + module + " import " + list + end
	if at > 0 && f.Source[at-1] != '\n' {
		text = end + text
	}
	f.p.edit(f.Path, f.Source, at, at, text)
}

// importsEnd returns the offset of the line after the last import before the code of a module.
func (f *pythonFile) importsEnd() int {
	at, code := 0, len(f.Source)
	for i, n := range f.Root.Children {
		if i > 0 || n.Kind != syntax.String {
			code = n.Start
			break
		}
		at = f.lineAfter(n.End)
	}
	for at < code && f.Source[at] == '#' { // an interpreter, an encoding, a license
		at = f.lineAfter(at)
	}
	last, depth, continued := at, 0, false
	for at < code {
		next := f.lineAfter(at)
		line, _, _ := bytes.Cut(f.Source[at:next], []byte{'#'})
		if continued || bytes.HasPrefix(line, []byte("import ")) || bytes.HasPrefix(line, []byte("from ")) {
			depth += bytes.Count(line, []byte{'('}) - bytes.Count(line, []byte{')'})
			continued = depth > 0 || bytes.HasSuffix(bytes.TrimRight(line, "\r\n"), []byte{'\\'})
			last = next
		}
		at = next
	}
	return last
}

// lineAfter returns the offset of the line after that of an offset.
func (f *pythonFile) lineAfter(at int) int {
	if i := bytes.IndexByte(f.Source[at:], '\n'); i >= 0 {
		return at + i + 1
	}
	return len(f.Source)
}

var (
	helperName = regexp.MustCompile(`(?m)^(?:def|class) (\w+)|^(\w+) = `)
	importOf   = regexp.MustCompile(`(?m)^import (\S+)\n`)
)

// pythonHelpersOf returns the parts of the helper module that functions need, in their order.
func pythonHelpersOf(needed map[string]bool) (header string, parts []string, names []string) {
	all := strings.Split(strings.TrimSuffix(pythonHelperSource, "\n"), "\n\n\n")
	header, all = all[0], all[1:]
	use := make([]bool, len(all))
	for i := len(all) - 1; i >= 0; i-- { // a part uses those before it
		m := helperName.FindStringSubmatch(all[i])
		uses := regexp.MustCompile(`\b` + m[1] + m[2] + `\b`)
		use[i] = needed[m[1]+m[2]]
		for j := i + 1; j < len(all) && !use[i]; j++ {
			use[i] = use[j] && uses.MatchString(all[j])
		}
	}
	for i, part := range all {
		if use[i] {
			m := helperName.FindStringSubmatch(part)
			parts, names = append(parts, part), append(names, m[1]+m[2])
		}
	}
	return header, parts, names
}

// helper adds the module with the functions, or those that it lacks. It reports whether the service has them now.
func (p *pythonService) helper(name string, needed map[string]bool) bool {
	header, parts, names := pythonHelpersOf(needed)
	if !p.known[name] {
		body := strings.Join(parts, "\n\n\n") + "\n"
		header = importOf.ReplaceAllStringFunc(header, func(line string) string {
			if module := importOf.FindStringSubmatch(line)[1]; strings.Contains(body, module+".") {
				return line
			}
			return ""
		})
		created := patch.Create(name, []byte(header+"\n\n\n"+body))
		p.service.files[name] = &created
		p.did(name, 0, "Add the functions that the code calls")
		p.copies(name)
		return true
	}
	text, err := patch.Read(p.root, name)
	if err != nil || !bytes.Contains(text, []byte("def _boundary(")) {
		p.leave(name, 0, "The boundaries of the service are left: the file is not that of an earlier change")
		return false
	}
	var missing []string
	for i, part := range parts {
		if !regexp.MustCompile(`(?m)^(?:(?:def|class) ` + names[i] + `\b|` + names[i] + ` = )`).Match(text) {
			missing = append(missing, part)
		}
	}
	if len(missing) == 0 {
		return true
	}
	body := strings.Join(missing, "\n\n\n")
	imports := ""
	for _, m := range importOf.FindAllStringSubmatch(header, -1) {
		if strings.Contains(body, m[1]+".") && !bytes.Contains(text, []byte("import "+m[1]+"\n")) {
			imports += m[0]
		}
	}
	if at := bytes.Index(text, []byte("\nimport ")); at >= 0 && imports != "" {
		p.edit(name, text, at+1, at+1, imports)
	}
	p.edit(name, text, len(text), len(text), "\n\n"+body+"\n")
	p.did(name, lineOf(text, len(text)), "Add the functions that the code calls")
	return true
}

// copies adds the module to images that copy single files.
func (p *pythonService) copies(name string) {
	for _, f := range p.dockerfiles("cpython") {
		stage, ok := lastStage(f)
		for _, i := range stage {
			if !ok || i.keyword != "COPY" || len(i.words) < 2 || path.Dir(name) != path.Dir(f.Path) || !slices.ContainsFunc(i.words[:len(i.words)-1], func(w word) bool {
				return path.Ext(w.text) == ".py" && path.Dir(w.text) == "."
			}) || strings.HasPrefix(i.words[0].text, "--from") {
				continue
			}
			to := i.words[len(i.words)-1].text
			if path.Ext(to) == ".py" {
				to = path.Dir(to)
			}
			s := "COPY " + path.Base(name) + " " + strings.TrimSuffix(to, "/") + "/"
			p.insert(f.Path, f.Source, i.start, []string{s}, newline(f.Source))
			p.did(f.Path, lineOf(f.Source, i.start), "Copy `"+path.Base(name)+"` into the image")
			break
		}
	}
}
