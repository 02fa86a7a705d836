// SPDX-License-Identifier: Apache-2.0

package instrument

import (
	"bytes"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"assay/internal/review/configfile"
	"assay/internal/review/patch"
	"assay/internal/review/syntax"
)

// javaMetrics holds the metric that the operations of a section record.
var javaMetrics = map[string]string{
	"process": "messaging.process.duration", "headers": "messaging.process.duration", "kafka": "messaging.process.duration", "jms": "messaging.process.duration",
	"handler": "http.server.request.duration", "servlet": "http.server.request.duration", "client": "http.client.request.duration", "database": "db.client.operation.duration",
}

// others records an open step for each library of javaOthers that has no instrumentation.
func (p *javaProject) others() {
	seen := map[string]bool{}
	for _, f := range p.files {
		for _, o := range javaOthers {
			if seen[o.what] || len(f.uses.Spans) > 0 || !f.ImportsAny(o.pkg) || o.artifact != "" && p.covers(strings.TrimPrefix(o.artifact, "opentelemetry-"), false) {
				continue
			}
			seen[o.what] = true
			line := 0
			for _, i := range f.Imports {
				if line == 0 && strings.HasPrefix(i.Path+".", o.pkg+".") {
					line = f.LineOf(i.Node.Start)
				}
			}
			use := "the Java agent"
			if o.artifact != "" {
				use = "`io.opentelemetry.instrumentation:" + o.artifact + "`, or the Java agent"
			}
			p.leave(f.Path, line, "Nothing instruments the "+o.what+": use "+use)
		}
	}
}

// apply turns the recorded changes into edits of the files, the helper class and the manifest.
func (p *javaProject) apply() {
	files := slices.DeleteFunc(slices.Clone(p.files), func(f *javaFile) bool { return len(f.changes) == 0 })
	if len(files) == 0 {
		return
	}
	if p.note != "" {
		p.leave(p.manifests[0].Path, 0, p.note)
	}
	if p.blocked {
		return
	}
	if p.starter {
		p.annotate(files)
		return
	}
	p.place(files)
	if module := slices.IndexFunc(p.paths(), func(name string) bool { return path.Base(name) == "module-info.java" }); module >= 0 {
		p.leave(p.paths()[module], 0, "No spans are added to the code: its module has to require `io.opentelemetry.api` and `io.opentelemetry.context` first")
		return
	}
	if p.helper == nil {
		p.leave(files[0].Path, 0, "No spans are added to the code: the names `"+strings.Join(javaHelperNames, "` and `")+"` are taken")
		return
	}
	present, own := p.present()
	changed := false
	for _, f := range files {
		var starts, ends []udiff.Edit // at the same offset, an inner change starts after an outer change and ends before it
		lines, steps := map[int]string{}, map[int]string{}
		imports, ok := f.importOf(strings.TrimPrefix(p.helper.pkg+"."+p.helper.name, "."))
		if !ok {
			p.leave(f.Path, 0, "No spans are added to the file: its imports leave no place for the class `"+p.helper.name+"`")
			continue
		}
		for _, c := range f.changes {
			if !own && slices.ContainsFunc(slices.Collect(maps.Keys(javaClosure(map[string]bool{c.section: true}))), func(s string) bool { return !present[s] }) {
				p.leave(f.Path, c.line, "Add a span to the "+c.what+": the class `"+p.helper.name+"` was changed, and has no method for it")
				continue
			}
			p.sections[c.section] = true
			for i, e := range c.edits {
				e.New = strings.ReplaceAll(e.New, "\x00", p.helper.name)
				if i == 0 {
					starts = append(starts, e)
				} else {
					ends = append(ends, e)
				}
			}
			for _, e := range c.lines {
				lines[e.Start] += strings.ReplaceAll(e.New, "\x00", p.helper.name)
				steps[e.Start] += ""
			}
			for _, at := range c.indents {
				steps[at] += c.step
			}
			text := "Add a span to the " + c.what
			if m := javaMetrics[c.section]; m != "" {
				text = "Add a span and `" + m + "` to the " + c.what
			}
			p.did(f.Path, c.line, text)
		}
		edits := imports
		for at, step := range steps {
			edits = append(edits, udiff.Edit{Start: at, End: at, New: lines[at] + step})
		}
		if len(starts)+len(steps) == 0 {
			continue
		}
		slices.Reverse(ends)
		changed = true
		p.file(f.Path, f.Source).Edits = slices.Concat(edits, starts, ends)
	}
	if changed {
		p.writeHelper(present)
		p.requireAPI()
	}
}

// annotate adds the annotations to the files. The starter of Spring contains their artifact.
func (p *javaProject) annotate(files []*javaFile) {
	for _, f := range files {
		var edits []udiff.Edit
		for _, class := range []string{"io.opentelemetry.api.trace.SpanKind", "io.opentelemetry.instrumentation.annotations.WithSpan"} {
			name := class[strings.LastIndexByte(class, '.')+1:]
			imported, ok := f.importOf(class)
			if ok = ok && (len(imported) == 0 || !javaHasWord(f.Source, name)); !ok {
				p.leave(f.Path, 0, "No annotations are added to the file: its imports leave no place for `"+name+"`, or it has another one")
				edits = nil
				break
			}
			edits = append(edits, imported...)
		}
		if edits == nil && !f.ImportsAny("io.opentelemetry.instrumentation.annotations") {
			continue
		}
		for _, c := range f.changes {
			edits = append(edits, c.edits...)
			p.did(f.Path, c.line, "Add `@WithSpan` to the method for "+c.what)
		}
		p.file(f.Path, f.Source).Edits = edits
	}
}

// place sets the path, package and name of a new helper class. Its package is the common package of the files, or the
// package of the first file. It clears helper if a file cannot use the existing class, or if all names are taken.
func (p *javaProject) place(files []*javaFile) {
	if p.helper != nil {
		if slices.ContainsFunc(files, func(f *javaFile) bool {
			i, imported := f.Imported(p.helper.name)
			return javaHasWord(f.Source, p.helper.name) && f.Package != p.helper.pkg && (!imported || i.Path != p.helper.pkg)
		}) {
			p.helper = nil
		}
		return
	}
	first := files[0]
	if i := slices.IndexFunc(files, func(f *javaFile) bool { return f.Package != "" }); i >= 0 {
		first = files[i]
	}
	pkg := strings.Split(first.Package, ".")
	for _, f := range files {
		if f.Package == "" {
			continue
		}
		other := strings.Split(f.Package, ".")
		n := 0
		for n < len(pkg) && n < len(other) && pkg[n] == other[n] {
			n++
		}
		pkg = pkg[:n]
	}
	dir, name := path.Dir(first.Path), strings.Join(pkg, ".")
	root, ok := strings.CutSuffix("/"+dir, "/"+strings.ReplaceAll(first.Package, ".", "/"))
	if !ok || len(pkg) < 2 || first.Package == "" {
		name = first.Package
	} else {
		dir = strings.TrimPrefix(path.Join(root, path.Join(pkg...)), "/")
	}
	for _, class := range javaHelperNames {
		taken := p.existsAt(path.Join(dir, class+".java")) || slices.ContainsFunc(files, func(f *javaFile) bool {
			return javaHasWord(f.Source, class) || p.existsAt(path.Join(path.Dir(f.Path), class+".java"))
		})
		if !taken {
			p.helper = &javaClass{path: path.Join(dir, class+".java"), pkg: name, name: class}
			return
		}
	}
}

// present returns the sections of the helper class, and whether its source is unchanged since a change added it.
func (p *javaProject) present() (sections map[string]bool, own bool) {
	sections = map[string]bool{}
	if p.helper.source == nil {
		return sections, true
	}
	text := strings.ReplaceAll(string(p.helper.source), "\r\n", "\n")
	if strings.Contains(text, "getOrNoop") {
		p.global = javaSDKGlobal
	} else {
		p.global = javaAgentGlobal
	}
	fill := strings.NewReplacer("%CLASS%", p.helper.name, "%GET%", p.global.get)
	for _, s := range javaSections() {
		if s.name == "core" || strings.Contains(text, fill.Replace(s.text)) {
			sections[s.name] = true
		}
	}
	return sections, slices.ContainsFunc([]string{"jakarta", "javax"}, func(ee string) bool {
		return javaHelper(p.helper.pkg, p.helper.name, p.name, sections, ee, p.global) == text
	})
}

// writeHelper creates the helper class, or adds the sections that it lacks.
func (p *javaProject) writeHelper(present map[string]bool) {
	ee := "jakarta"
	for _, f := range p.files {
		if len(f.changes) > 0 && f.ImportsAny("javax.servlet", "javax.jms") || f.Path == p.helper.path && f.ImportsAny("javax.servlet", "javax.jms") {
			ee = "javax"
		}
	}
	maps.Copy(p.sections, present)
	text := javaHelper(p.helper.pkg, p.helper.name, p.name, p.sections, ee, p.global)
	if p.helper.source == nil {
		created := patch.Create(p.helper.path, []byte(text))
		p.service.files[created.Path] = &created
		p.did(p.helper.path, 0, "Add the class that starts spans and records durations by the semantic conventions")
		return
	}
	missing := slices.ContainsFunc(slices.Collect(maps.Keys(javaClosure(p.sections))), func(s string) bool { return !present[s] })
	if missing {
		if bytes.Contains(p.helper.source, []byte("\r\n")) {
			text = strings.ReplaceAll(text, "\n", "\r\n")
		}
		p.file(p.helper.path, p.helper.source).Edits = udiff.Lines(string(p.helper.source), text)
		p.did(p.helper.path, 0, "Add methods for further operations")
	}
}

// importOf returns the edit that imports a class, none if the file needs no import. It returns false if there is no
// place for the import.
func (j *javaFile) importOf(class string) ([]udiff.Edit, bool) {
	at := max(0, strings.LastIndexByte(class, '.'))
	pkg, name := class[:at], strings.TrimPrefix(class[at:], ".")
	if i, ok := j.Imported(name); j.Package == pkg || ok && i.Path == pkg {
		return nil, true
	}
	if pkg == "" {
		return nil, false
	}
	end := newline(j.Source)
	line := "import " + class + ";" + end
	after := -1
	for _, i := range j.Imports {
		start := bytes.LastIndexByte(j.Source[:i.Node.Start], '\n') + 1
		text := j.Source[start:i.Node.Start]
		switch string(bytes.TrimRight(text, " \t")) {
		case "import":
		case "import static":
			continue
		default:
			return nil, false
		}
		if i.Path+"."+i.Member > class {
			return []udiff.Edit{{Start: start, End: start, New: line}}, true
		}
		after = i.Node.End
	}
	if after < 0 {
		m := javaPackage.FindIndex(j.Source)
		if m == nil || slices.ContainsFunc(j.Comments, func(c syntax.Comment) bool { return c.Start < m[0] && m[0] < c.End }) {
			return nil, false
		}
		after, line = m[1], end+line
	}
	size := bytes.IndexByte(j.Source[after:], '\n')
	if size < 0 || len(bytes.Trim(j.Source[after:after+size], "; \t\r")) > 0 {
		return nil, false
	}
	return []udiff.Edit{{Start: after + size + 1, End: after + size + 1, New: line}}, true
}

var (
	// javaManagers lists BOMs that set the version of the OpenTelemetry API.
	javaManagers = []string{"io.opentelemetry:opentelemetry-bom", "io.opentelemetry.instrumentation:opentelemetry-instrumentation-bom", "io.quarkus.platform:quarkus-bom", "io.quarkus:quarkus-bom", "io.micronaut.platform:"}
	// springBoot matches the dependency management of Spring Boot in a build file, with its version.
	springBoot = regexp.MustCompile(`(?s)<parent>\s*<groupId>org\.springframework\.boot</groupId>\s*<artifactId>spring-boot-starter-parent</artifactId>\s*<version>\s*(\d+\.\d+)|` +
		`<artifactId>spring-boot-dependencies</artifactId>\s*<version>\s*(\d+\.\d+)|org\.springframework\.boot["']\)?\s*version\s*\(?["'](\d+\.\d+)`)
	// gradleImplementation matches a line of a Gradle script with one implementation dependency.
	gradleImplementation = regexp.MustCompile(`^([ \t]*)implementation([ (]*)(["'])[^"']*["'](\)?)[ \t]*\r?$`)
)

// requireAPI adds the OpenTelemetry API to the manifest, unless the service uses it already.
func (p *javaProject) requireAPI() {
	if slices.ContainsFunc(p.files, func(f *javaFile) bool { return f.Path != p.helper.path && f.ImportsAny("io.opentelemetry.api") }) {
		return
	}
	version := javaAPI
	for _, d := range p.dependencies() {
		switch {
		case d.Development || d.BOM:
		case d.Name == "io.opentelemetry:opentelemetry-api" || d.Name == "io.opentelemetry:opentelemetry-sdk": // depends on the API
			return
		case strings.HasPrefix(d.Name, "io.opentelemetry:opentelemetry-") && javaMinor.MatchString(d.Version):
			version = d.Version
		}
	}
	if _, ok := p.has(javaManagers...); ok {
		version = ""
	}
	if boot, ok := p.springBoot(); ok && boot >= "3." {
		version = "" // Spring Boot sets it
	}
	for _, m := range p.manifests {
		for _, d := range m.Dependencies {
			if d.Development || d.BOM {
				continue
			}
			at, text, ok := pomDependency(m, d, version)
			if path.Base(m.Path) != "pom.xml" {
				at, text, ok = gradleDependency(m, d, version)
			}
			if ok {
				p.edit(m.Path, m.Source, at, at, text)
				p.did(m.Path, lineOf(m.Source, at), "Add the dependency `io.opentelemetry:opentelemetry-api`")
				return
			}
		}
	}
	p.leave(p.manifests[0].Path, 0, "Add the dependency `io.opentelemetry:opentelemetry-api:"+javaAPI+"`: the manifest has no dependencies to add it to")
}

// springBoot returns the version of Spring Boot that manages the dependency versions of the service.
func (p *javaProject) springBoot() (string, bool) {
	for dir := range configfile.Above(p.dir) {
		for _, f := range p.configs {
			if f.Kind != configfile.Manifest || f.Ecosystem != configfile.Maven || path.Dir(f.Path) != dir {
				continue
			}
			if m := springBoot.FindSubmatch(f.Source); m != nil {
				return string(bytes.Join(m[1:], nil)), true
			}
		}
	}
	return "", false
}

// pomDependency returns the offset and the element that add the API to a POM before a dependency. It returns false for
// a dependency of dependencyManagement, a plugin or a profile.
func pomDependency(m *configfile.File, d configfile.Dependency, version string) (at int, text string, ok bool) {
	before := m.Source[:d.Start]
	at = bytes.LastIndex(before, []byte("<dependency>"))
	for _, around := range []string{"dependencyManagement", "plugin", "profile"} {
		if bytes.Count(before, []byte("<"+around+">")) != bytes.Count(before, []byte("</"+around+">")) {
			return 0, "", false
		}
	}
	if at < 0 {
		return 0, "", false
	}
	elements := []string{"<groupId>io.opentelemetry</groupId>", "<artifactId>opentelemetry-api</artifactId>"}
	if version != "" {
		elements = append(elements, "<version>"+version+"</version>")
	}
	indent, alone := indentOf(m.Source, at)
	if !alone {
		return at, "<dependency>" + strings.Join(elements, "") + "</dependency>", true
	}
	step, own := indentOf(m.Source, at+len("<dependency>")+len(m.Source[at+len("<dependency>"):])-len(bytes.TrimLeft(m.Source[at+len("<dependency>"):], " \t\r\n")))
	if !own {
		step = indent + "  "
	}
	end := newline(m.Source)
	return at, "<dependency>" + end + step + strings.Join(elements, end+step) + end + indent + "</dependency>" + end + indent, true
}

// gradleDependency returns the offset and the line that add the API to a Gradle script before an implementation
// dependency. It returns false for other dependencies.
func gradleDependency(m *configfile.File, d configfile.Dependency, version string) (at int, text string, ok bool) {
	at = bytes.LastIndexByte(m.Source[:d.Start], '\n') + 1
	line, _, _ := bytes.Cut(m.Source[at:], []byte("\n"))
	g := gradleImplementation.FindSubmatch(line)
	if g == nil {
		return 0, "", false
	}
	name := "io.opentelemetry:opentelemetry-api"
	if version != "" {
		name += ":" + version
	}
	return at, string(g[1]) + "implementation" + string(g[2]) + string(g[3]) + name + string(g[3]) + string(g[4]) + newline(m.Source), true
}
