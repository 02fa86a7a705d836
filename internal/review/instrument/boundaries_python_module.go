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

	"assay/internal/review/configfile"
	"assay/internal/review/patch"
	"assay/internal/review/syntax"
)

// pythonHelperSource is the module with the helpers. Two blank lines separate its parts. A service gets the parts that
// it uses.
//
//go:embed otel_boundaries.py
var pythonHelperSource string

const pythonHelperFile = pythonHelperModule + ".py"

// pythonPlace is where a file imports modules from.
type pythonPlace struct {
	root     string // the directory that programs import from
	pkg      string // the package below it, "" for none
	relative bool   // the file can import relative to its package
}

// change applies the edits of the files and adds the modules that they import.
func (p *pythonService) change() {
	roots := map[string][]*pythonFile{}
	for _, f := range p.files {
		if len(f.edits) == 0 {
			continue
		}
		var ok bool
		if f.place, ok = p.importPlace(f); !ok {
			p.leave(f.Path, 0, "The boundaries of the file are left: the code does not say from which directory it imports modules")
			continue
		}
		if name := f.conflict(); name != "" {
			p.leave(f.Path, 0, "The boundaries of the file are left: it has a name `"+name+"` of its own")
			continue
		}
		if f.importAt, ok = f.importsEnd(); !ok {
			p.leave(f.Path, 0, "The boundaries of the file are left: other code is on the lines of its docstring and imports")
			continue
		}
		roots[f.place.root] = append(roots[f.place.root], f)
	}
	for _, root := range slices.Sorted(maps.Keys(roots)) {
		files := roots[root]
		needed := map[string]bool{}
		for _, f := range files {
			maps.Copy(needed, f.helpers)
		}
		pkg := p.helperPackage(root, files)
		if !p.helper(path.Join(root, pkg, pythonHelperFile), needed) {
			continue
		}
		for _, f := range files {
			f.apply(pkg)
		}
	}
}

// helperPackage returns the package below a directory for the helpers of files, "" for the directory itself. It is the
// package of an earlier change, or the only package of the files if the other files import it already.
func (p *pythonService) helperPackage(root string, files []*pythonFile) string {
	pkg := ""
	for _, f := range files {
		if p.known[path.Join(root, f.place.pkg, pythonHelperFile)] {
			return f.place.pkg
		}
		pkg = max(pkg, f.place.pkg)
	}
	for _, f := range files {
		if f.place.pkg != pkg && (f.place.pkg != "" || !f.ImportsAny(pkg)) {
			return ""
		}
	}
	return pkg
}

// importPlace returns the directory from which a file imports modules, and whether the code determines it.
func (p *pythonService) importPlace(f *pythonFile) (place pythonPlace, ok bool) {
	dir := path.Dir(f.Path)
	if bytes.Contains(f.Source, []byte("sys.path")) {
		return place, false
	}
	exists := func(dir, module string) bool {
		return p.known[path.Join(dir, module+".py")] || p.known[path.Join(dir, module)]
	}
	var modules []string
	for _, i := range f.Imports {
		first, _, _ := strings.Cut(i.Path, ".")
		place.relative = place.relative || first == ""
		if first != "" && first != pythonHelperModule {
			modules = append(modules, first)
		}
	}
	top := ""
	for d := dir; p.known[path.Join(d, "__init__.py")]; d = path.Dir(d) {
		top = d
	}
	if top != "" {
		place.root, place.pkg = path.Dir(top), path.Base(top)
		if top == p.dir || slices.ContainsFunc(modules, func(m string) bool { return exists(dir, m) && !exists(place.root, m) }) {
			return place, false // imported from outside of the service, or started in the directory of the package
		}
		if place.relative || slices.Contains(modules, place.pkg) {
			return place, true
		}
		place.relative = true
		return place, !bytes.Contains(f.Source, []byte("__main__"))
	}
	for d := range configfile.Above(dir) {
		if slices.ContainsFunc(modules, func(m string) bool { return exists(d, m) }) {
			place.root = d
			return place, true
		}
		if d == p.dir {
			break
		}
	}
	if place.relative {
		place.root = p.dir
		return place, dir != p.dir
	}
	place.root = dir
	return place, dir == p.dir || dir == path.Join(p.dir, "src")
}

// module returns how a file imports the helpers of a package, "" for those beside it.
func (f *pythonFile) module(pkg string) string {
	switch {
	case pkg == "":
		return pythonHelperModule
	case f.place.pkg == pkg && f.place.relative:
		below := strings.TrimPrefix(path.Dir(f.Path), path.Join(f.place.root, pkg))
		return strings.Repeat(".", 1+strings.Count(below, "/")) + pythonHelperModule
	}
	return pkg + "." + pythonHelperModule
}

// conflict returns a name of the helpers that the file defines itself, or "".
func (f *pythonFile) conflict() string {
	for name := range f.helpers {
		if !f.own[name] && regexp.MustCompile(`\b`+name+`\b`).Match(f.Source) {
			return name
		}
	}
	return ""
}

// apply applies the edits of a file and imports the helpers of a package.
func (f *pythonFile) apply(pkg string) {
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
	at, end := f.importAt, newline(f.Source)
	text := "from " + f.module(pkg) + " import " + list + end
	if at == len(f.Source) && !bytes.HasSuffix(f.Source, []byte{'\n'}) {
		text = end + text
	}
	f.p.edit(f.Path, f.Source, at, at, text)
}

// importsEnd returns the offset of the line after the last import before the code of a module, otherwise that after its
// docstring and the comments that follow. It returns false if other code is on a line before the offset.
func (f *pythonFile) importsEnd() (at int, ok bool) {
	code := len(f.Source)
	if bytes.HasPrefix(f.Source, []byte("\ufeff")) {
		at = len("\ufeff")
	}
	ok = true
	for i, n := range f.Root.Children {
		if i > 0 || n.Kind != syntax.String {
			code = n.Start
			break
		}
		at, ok = f.lineAfter(n.End)
	}
	for at < code && f.Source[at] == '#' { // an interpreter, an encoding, a license
		at, _ = f.lineAfter(at)
	}
	for _, n := range f.Statements {
		if n.Start > code {
			break
		}
		switch next, alone := f.lineAfter(n.End); {
		case alone:
			at, ok = next, true
		case n.Text == "future": // which has to precede other imports
			ok = false
		}
	}
	return at, ok
}

// afterCode matches a line after its code.
var afterCode = regexp.MustCompile(`^[ \t\f]*;?[ \t\f]*(#.*)?\r?$`)

// lineAfter returns the offset of the line after the one with an offset, and whether no code follows the offset on its
// line.
func (f *pythonFile) lineAfter(at int) (next int, alone bool) {
	line, _, more := bytes.Cut(f.Source[at:], []byte{'\n'})
	next = at + len(line)
	if more {
		next++
	}
	return next, afterCode.Match(line)
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
		for _, m := range p.manifests {
			if bytes.Contains(m.Source, []byte("py-modules")) || bytes.Contains(m.Source, []byte("py_modules")) {
				p.leave(m.Path, 0, "Add `"+pythonHelperModule+"` to the modules of the distribution, unless it is in a package")
			}
		}
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

// copies adds the module to images that copy only parts of the service.
func (p *pythonService) copies(name string) {
	for _, f := range p.dockerfiles(runtimePython) {
		stage, ok := lastStage(f)
		if !ok || path.Dir(name) != path.Dir(f.Path) {
			continue
		}
		code, all := p.codeOf(stage)
		if all {
			continue
		}
		to := ""
		if code != nil {
			from := path.Clean(code.words[len(code.words)-2].text)
			switch to = path.Clean(code.words[len(code.words)-1].text); {
			case path.Ext(from) == ".py" && path.Ext(to) != ".py":
			case path.Base(from) == path.Base(to):
				to = path.Dir(to)
			default: // another name in the image
				code = nil
			}
		}
		if code == nil {
			p.leave(f.Path, 0, "Copy `"+path.Base(name)+"` into the image, beside the code of the service")
			continue
		}
		p.insert(f.Path, f.Source, code.start, []string{"COPY " + path.Base(name) + " " + strings.TrimSuffix(to, "/") + "/"}, newline(f.Source))
		p.did(f.Path, lineOf(f.Source, code.start), "Copy `"+path.Base(name)+"` into the image")
	}
}

// codeOf returns the last instruction of an image that copies code of the service, and whether one copies all files.
func (p *pythonService) codeOf(stage []instruction) (code *instruction, all bool) {
	for n := range stage {
		i := &stage[n]
		if i.keyword != "COPY" && i.keyword != "ADD" || len(i.words) < 2 || slices.ContainsFunc(i.words, func(w word) bool { return strings.HasPrefix(w.text, "--from") }) {
			continue
		}
		for _, w := range i.words[:len(i.words)-1] {
			switch from := path.Clean(w.text); {
			case from == "." || strings.Contains(from, "*.py"):
				return nil, true
			case path.Ext(from) == ".py" || p.known[path.Join(p.dir, from)]:
				code = i
			}
		}
	}
	return code, false
}
