// SPDX-License-Identifier: Apache-2.0

package configfile

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
)

// Project is a directory with manifests of one ecosystem.
type Project struct{ Dir, Ecosystem string }

// Import is a module that a source file imports, as written.
type Import struct{ File, Module string }

// Graph holds the projects of a repository and the dependencies between them.
type Graph struct {
	projects map[Project][]*File
	named    map[[2]string][]Project // by ecosystem and name of the package
	based    map[[2]string][]Project // by ecosystem and last element of the directory
	modules  map[string]bool         // Python modules by path without extension, and false for the directories above them
	packages map[string][]Project    // Python projects with a package or module of a name, at most two
	imports  func(Project) []Import
	poms     map[*File]*pom
	direct   map[Project][]Project
}

// maxUsed limits the projects that a project depends on.
const maxUsed = 200

// NewGraph returns the graph of a repository. Files are the paths of its source files. Imports returns the imports of a
// project in JavaScript, TypeScript, Python or Go. It is called at most once for each project.
func NewGraph(configs []*File, files []string, imports func(Project) []Import) *Graph {
	g := &Graph{
		projects: map[Project][]*File{}, named: map[[2]string][]Project{}, based: map[[2]string][]Project{}, modules: map[string]bool{}, packages: map[string][]Project{}, imports: imports,
		poms: map[*File]*pom{}, direct: map[Project][]Project{},
	}
	add := func(index map[[2]string][]Project, p Project, name string) {
		if key := [2]string{p.Ecosystem, name}; name != "" && !slices.Contains(index[key], p) {
			index[key] = append(index[key], p)
		}
	}
	for _, f := range configs {
		if f.Kind != Manifest || f.Ecosystem == "" || path.Base(f.Path) == "libs.versions.toml" {
			continue
		}
		p := Project{ProjectDir(f), f.Ecosystem}
		g.projects[p] = append(g.projects[p], f)
		add(g.named, p, g.name(f))
		add(g.based, p, path.Base(p.Dir))
	}
	for _, name := range files {
		module, ok := strings.CutSuffix(name, ".py")
		if !ok {
			continue
		}
		g.modules[module] = true
		for dir := range Above(path.Dir(module)) {
			if !g.modules[dir] { // a module may have the path as well
				g.modules[dir] = false
			}
		}
	}
	for module := range g.modules {
		dir := path.Dir(module)
		for _, p := range []Project{{dir, PyPI}, {path.Dir(dir), PyPI}} {
			name := path.Base(module)
			if len(g.packages[name]) < 2 && (p.Dir == dir || path.Base(dir) == "src") && g.packaged(p) && !slices.Contains(g.packages[name], p) {
				g.packages[name] = append(g.packages[name], p)
			}
		}
	}
	return g
}

// packaged reports whether a Python project describes a package, and not only its requirements.
func (g *Graph) packaged(p Project) bool {
	return slices.ContainsFunc(g.projects[p], func(m *File) bool { return !strings.HasPrefix(path.Base(m.Path), "requirements") })
}

// ProjectDir returns the directory of the project that a manifest describes.
func ProjectDir(f *File) string {
	dir := path.Dir(f.Path)
	if f.Ecosystem == PyPI && path.Base(dir) == "requirements" {
		return path.Dir(dir)
	}
	return dir
}

// Manifests returns the manifests of a project.
func (g *Graph) Manifests(p Project) []*File { return g.projects[p] }

// Of returns the project of an ecosystem that contains a path: the one in the nearest directory.
func (g *Graph) Of(name, ecosystem string) (Project, bool) {
	for dir := range Above(name) {
		if p := (Project{dir, ecosystem}); g.projects[p] != nil {
			return p, true
		}
	}
	return Project{}, false
}

// Uses returns the other projects of the repository that a project depends on, directly or through others: those whose
// package is a dependency, and those whose modules the code imports. The nearest come first.
func (g *Graph) Uses(p Project) []Project {
	all, known := []Project{p}, map[Project]bool{p: true}
	for i := 0; i < len(all); i++ {
		for _, used := range g.uses(all[i]) {
			if len(all) > maxUsed {
				return all[1:]
			}
			if !known[used] {
				known[used] = true
				all = append(all, used)
			}
		}
	}
	return all[1:]
}

// uses returns the projects that a project depends on directly, possibly itself.
func (g *Graph) uses(p Project) []Project {
	if all, ok := g.direct[p]; ok {
		return all
	}
	var all []Project
	known := map[Project]bool{}
	add := func(used Project, ok bool) {
		if ok && !known[used] {
			known[used] = true
			all = append(all, used)
		}
	}
	for _, m := range g.projects[p] {
		switch p.Ecosystem {
		case NPM:
			for _, d := range m.Dependencies { // those for development too: bundlers include them
				if local := npmPath.FindStringSubmatch(d.Version); local != nil {
					used := Project{path.Join(p.Dir, local[1]+local[2]), NPM}
					add(used, g.projects[used] != nil)
				} else {
					add(g.only(g.named, NPM, d.Name))
				}
			}
		case Go:
			for _, d := range m.Dependencies {
				if !d.Indirect {
					add(g.only(g.named, Go, d.Name))
				}
			}
		case PyPI:
			for _, d := range m.Dependencies {
				if !d.Development {
					add(g.only(g.named, PyPI, d.Name))
				}
			}
			for _, name := range pythonPaths(m) {
				add(g.Of(path.Join(path.Dir(m.Path), name), PyPI))
			}
		case Maven:
			for _, name := range g.artifacts(m) {
				add(g.only(g.named, Maven, name))
			}
			for _, name := range gradleProjects(m) {
				add(g.subproject(p, name))
			}
		}
	}
	if len(g.projects) > 1 {
		for _, i := range g.imports(p) {
			add(g.imported(p, i))
		}
	}
	g.direct[p] = all
	return all
}

// only returns the project with a name if one project has it.
func (g *Graph) only(index map[[2]string][]Project, ecosystem, name string) (Project, bool) {
	if found := index[[2]string{ecosystem, name}]; len(found) == 1 {
		return found[0], true
	}
	return Project{}, false
}

// imported returns the project that has an imported module.
func (g *Graph) imported(p Project, i Import) (Project, bool) {
	switch p.Ecosystem {
	case NPM:
		if strings.HasPrefix(i.Module, ".") {
			return g.Of(path.Join(path.Dir(i.File), i.Module), NPM)
		}
	case Go:
		for name := range Above(i.Module) {
			if used, ok := g.only(g.named, Go, name); ok {
				return used, true
			}
		}
	case PyPI:
		return g.pythonImported(p, i)
	}
	return Project{}, false
}

// standardNames are packages and modules of Python's standard library whose names programs also give to their own.
var standardNames = strings.Fields(`asyncio calendar code collections concurrent email html http importlib json logging multiprocessing platform queue secrets select signal site
	sqlite3 statistics test token trace types typing unittest urllib uuid xml`)

// pythonImported returns the project that has a module. A module is a file or directory in one of the directories above
// the file that imports it, or in the directory src there, otherwise a package of one other project.
func (g *Graph) pythonImported(p Project, i Import) (Project, bool) {
	first, _, _ := strings.Cut(i.Module, ".")
	name := pythonName(first)
	if first == "" || slices.ContainsFunc(g.projects[p], func(m *File) bool {
		return slices.ContainsFunc(m.Dependencies, func(d Dependency) bool { return d.Name == name })
	}) {
		return Project{}, false // a relative import, or a dependency
	}
	standard := slices.Contains(standardNames, first)
	for dir := range Above(path.Dir(i.File)) {
		for _, root := range []string{dir, path.Join(dir, "src")} {
			if _, ok := g.modules[path.Join(root, first)]; !ok {
				continue
			}
			module := path.Join(root, strings.ReplaceAll(i.Module, ".", "/"))
			for !g.modules[module] && !g.modules[path.Join(module, "__init__")] && len(module) > len(root) {
				module = path.Dir(module) // the last parts may be names in the module
			}
			if used, ok := g.Of(module, PyPI); used == p || len(module) > len(root) && !standard {
				return used, ok
			}
		}
	}
	if standard {
		return Project{}, false
	}
	if found := g.packages[first]; len(found) == 1 {
		return found[0], true
	}
	return Project{}, false
}

var (
	npmPath      = regexp.MustCompile(`^(?:file|link|portal):(.+)|^workspace:(\..*)`)
	pythonNames  = regexp.MustCompile(`(?m)^name\s*=\s*["']?([A-Za-z0-9][\w.-]*)`)
	setupName    = regexp.MustCompile(`\bname\s*=\s*["']([\w.-]+)`)
	pythonPath   = regexp.MustCompile(`\bpath\s*=\s*["'](\.[^"'\n]*)["']`)
	includedPath = regexp.MustCompile(`(?m)^[ \t]*(?:(-r|--requirement|-e|--editable)[ =][ \t]*)?(?:[\w.-]+[ \t]*(?:\[[^\]\n]*\])?[ \t]*@[ \t]*)?(file:)?([^\s\[#;@:$]+)(?:\[[^\]\n]*\])?[ \t]*(?:[#;].*)?\r?$`)
	gradleRef    = regexp.MustCompile(`(?m)^[ \t]*([A-Za-z]\w*)[ \t(]+(?:project[ \t]*\([ \t]*(?:path[ \t]*[:=][ \t]*)?["']:([\w.:-]+)["']|projects\.([A-Za-z][\w.]*))`)
	gradleTests  = regexp.MustCompile(`(?i)^(test|androidTest|jmh)`)
	camelHumps   = regexp.MustCompile(`([a-z0-9])([A-Z])`)
)

// name returns the name of the package that a manifest describes, "" if it has none.
func (g *Graph) name(f *File) string {
	switch base := strings.ToLower(path.Base(f.Path)); base {
	case "go.mod":
		return modfile.ModulePath(f.Source)
	case "package.json":
		var manifest struct{ Name string }
		_ = json.Unmarshal(f.Source, &manifest) // a name before members of wrong types counts
		return manifest.Name
	case "pyproject.toml", "setup.cfg", "setup.py":
		names := pythonNames
		if base == "setup.py" {
			names = setupName
		}
		if m := names.FindSubmatch(f.Source); m != nil {
			return pythonName(string(m[1]))
		}
	case "pom.xml":
		if p := g.pom(f); p.Artifact != "" {
			return p.group() + ":" + p.Artifact
		}
	}
	return ""
}

// pythonPaths returns the directories and files of the repository that a manifest installs from, relative to it.
func pythonPaths(f *File) (all []string) {
	switch base := strings.ToLower(path.Base(f.Path)); {
	case strings.HasSuffix(base, ".txt"), strings.HasSuffix(base, ".in"):
		for _, m := range includedPath.FindAllSubmatch(f.Source, maxYield) {
			if len(m[1]) > 0 || len(m[2]) > 0 || m[3][0] == '.' {
				all = append(all, string(m[3]))
			}
		}
	case base == "pyproject.toml", base == "pipfile":
		for _, m := range pythonPath.FindAllSubmatch(f.Source, maxYield) {
			all = append(all, string(m[1]))
		}
	}
	return all
}

// gradleProjects returns the paths of projects that a Gradle script has as dependencies, without those of tests.
func gradleProjects(f *File) (all []string) {
	if !strings.HasPrefix(path.Base(f.Path), "build.gradle") {
		return nil
	}
	for _, m := range gradleRef.FindAllSubmatch(f.Source, maxYield) {
		name := strings.ReplaceAll(string(m[2]), ":", "/")
		if name == "" { // projects.libs.commonUtils
			name = strings.ToLower(camelHumps.ReplaceAllString(strings.ReplaceAll(string(m[3]), ".", "/"), "$1-$2"))
		}
		if !gradleTests.Match(m[1]) {
			all = append(all, name)
		}
	}
	return all
}

// subproject returns the project of a Gradle build by its path in the build.
func (g *Graph) subproject(p Project, name string) (Project, bool) {
	for dir := range Above(p.Dir) {
		if used := (Project{path.Join(dir, name), Maven}); g.projects[used] != nil {
			return used, true
		}
	}
	return g.only(g.based, Maven, path.Base(name))
}

// pom is a POM of Maven.
type pom struct {
	Group    string `xml:"groupId"`
	Artifact string `xml:"artifactId"`
	Parent   struct {
		Group    string `xml:"groupId"`
		Artifact string `xml:"artifactId"`
	} `xml:"parent"`
	Dependencies []struct {
		Group    string `xml:"groupId"`
		Artifact string `xml:"artifactId"`
		Scope    string `xml:"scope"`
	} `xml:"dependencies>dependency"`
}

func (p *pom) group() string {
	if p.Group == "" {
		return p.Parent.Group
	}
	return p.Group
}

func (g *Graph) pom(f *File) *pom {
	p := g.poms[f]
	if p == nil {
		p = &pom{}
		if path.Base(f.Path) == "pom.xml" {
			d := xml.NewDecoder(bytes.NewReader(f.Source))
			d.Strict = false
			d.CharsetReader = func(_ string, r io.Reader) (io.Reader, error) { return r, nil }
			_ = d.Decode(p) // a broken POM has the part before the error
		}
		g.poms[f] = p
	}
	return p
}

// artifacts returns the dependencies of a POM and of its parents in the repository, without those of tests. Those that
// name the group by a property have the group of the POM.
func (g *Graph) artifacts(f *File) (all []string) {
	const maxParents = 8
	own := g.pom(f).group()
	for range maxParents {
		p := g.pom(f)
		for _, d := range p.Dependencies {
			if strings.HasPrefix(d.Group, "${") {
				d.Group = own
			}
			if d.Scope != "test" {
				all = append(all, d.Group+":"+d.Artifact)
			}
		}
		parent, ok := g.only(g.named, Maven, p.Parent.Group+":"+p.Parent.Artifact)
		if !ok {
			break
		}
		i := slices.IndexFunc(g.projects[parent], func(m *File) bool { return path.Base(m.Path) == "pom.xml" })
		if i < 0 {
			break
		}
		f = g.projects[parent][i]
	}
	return all
}
