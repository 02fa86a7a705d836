// SPDX-License-Identifier: Apache-2.0

package instrument

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"go/format"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"assay"
	"assay/internal/review/configfile"
	"assay/internal/review/patch"
	"assay/internal/review/syntax"
	"assay/internal/review/treesitter"
)

// Kind is the extent of the instrumentation.
type Kind string

// The kinds of instrumentation.
const (
	// Minimum adds telemetry without changes of the application's logic: automatic instrumentation, the setup of the
	// SDK, and resource attributes.
	Minimum Kind = "minimum"
	// General adds the Minimum, and instruments servers, consumers and clients in the code that have no automatic
	// instrumentation.
	General Kind = "general"
)

// Limits of a change.
const (
	maxConfigBytes = 16 << 20 // total size of manifests and deployment files
	maxProjects    = 200
	maxSteps       = 2_000
)

// ErrNoService is the error of Make for a repository without a service that can be instrumented.
var ErrNoService = assay.Errorf(assay.CodeUnprocessable, "no manifest of this repository describes a service in Go, JavaScript, Python or Java")

// Make returns the patch that instruments the services of a repository. The patch has a step for each change and an
// open step for each manual task. Files lists the paths that a review reads, sorted. Name is the name of the
// repository, which a service in the root has if its manifest has no name. Make is idempotent: the patch for a patched
// repository is empty.
//
// It returns ErrNoService if there is no service.
func Make(ctx context.Context, root *os.Root, parser *treesitter.Parser, files []string, kind Kind, name string) (*patch.Patch, error) {
	p := &plan{ctx: ctx, root: root, parser: parser, kind: kind, name: name, paths: files, served: map[string][]string{}, named: map[container]bool{}, files: map[string]*patch.File{}}
	if err := p.read(); err != nil {
		return nil, err
	}
	services := 0
	for _, s := range p.services() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		instrumented, err := s.instrument()
		if err != nil {
			return nil, err
		}
		if !instrumented {
			continue
		}
		services++
		if s.unnamed {
			s.leave(s.manifests[0].Path, 0, "Replace the name `service`: neither the manifest nor its directory has a name that deployment files can have")
		}
	}
	if services == 0 && len(p.patch.Steps) == 0 {
		return nil, ErrNoService
	}
	return p.finish()
}

// plan is a patch that is being made.
type plan struct {
	ctx     context.Context
	root    *os.Root
	parser  *treesitter.Parser
	kind    Kind
	name    string // name of the repository
	paths   []string
	configs []*configfile.File
	aside   []*configfile.File // manifests of packages only

	projects map[string]bool                 // directories of projects
	contexts map[string][]string             // directories that Compose files build with a Dockerfile, by its path
	graph    *configfile.Graph               // nil before the first use
	sources  map[configfile.Project][]string // files by project
	members  map[configfile.Project]*service // projects that services use
	searched int                             // packages whose callers are searched for the start of the SDK
	served   map[string][]string             // Go packages with servers, consumers, jobs or databases, by directory of the module
	named    map[container]bool              // containers of deployment files that are assigned to a service
	files    map[string]*patch.File
	patch    patch.Patch
}

// container is a container of a deployment file, by the path of the file and the offset of its name.
type container struct {
	file  string
	start int
}

// service is a directory with manifests of one ecosystem.
type service struct {
	*plan
	dir       string
	name      string
	unnamed   bool // name is the placeholder "service"
	deployed  bool // an image or a container gets the name
	manifests []*configfile.File
	gradle    []configfile.Dependency // plugins and version catalog entries that its Gradle scripts use
	started   []started               // Go programs that start the SDK
	setUps    *place                  // where the code sets up the SDK, nil before it is read
	start     *sdkStart               // nil before the code is read
}

// started holds the path of a Go program's file that starts the SDK, and the path of the added file with the setup.
type started struct{ program, setup string }

// read parses the manifests and deployment files. It skips files that it cannot read or parse.
func (p *plan) read() error {
	size := 0
	for _, name := range p.paths {
		if err := p.ctx.Err(); err != nil {
			return err
		}
		if !configfile.Candidate(name) {
			continue
		}
		text, err := patch.Read(p.root, name)
		if err != nil {
			continue // a review reports it
		}
		if size += len(text); size > maxConfigBytes {
			return assay.Errorf(assay.CodeUnprocessable, "the manifests and deployment files have more than %d bytes", maxConfigBytes)
		}
		if found, err := configfile.Parse(name, text); err == nil && path.Base(name) == "setup.py" {
			p.aside = append(p.aside, found...)
		} else if err == nil {
			p.configs = append(p.configs, found...)
		} else if bytes.HasPrefix(text, []byte("\ufeff")) && path.Base(name) == "package.json" {
			p.leave(name, 0, "The project is left: the manifest begins with a byte order mark")
		}
	}
	p.projects, p.contexts, p.members, p.sources = map[string]bool{}, map[string][]string{}, map[configfile.Project]*service{}, map[configfile.Project][]string{}
	for _, f := range p.configs {
		if isProject(f) {
			p.projects[configfile.ProjectDir(f)] = true
			p.sources[configfile.Project{Dir: configfile.ProjectDir(f), Ecosystem: f.Ecosystem}] = nil
		}
		if f.Kind == configfile.Compose {
			for _, deployed := range f.Services {
				if context, file := buildOf(f, deployed.Name); file != "" {
					p.contexts[file] = append(p.contexts[file], context)
				}
			}
		}
	}
	for _, name := range p.paths {
		ecosystem := ecosystems[syntax.LanguageOf(name)]
		for dir := range configfile.Above(path.Dir(name)) {
			of := configfile.Project{Dir: dir, Ecosystem: ecosystem}
			if files, ok := p.sources[of]; ok {
				p.sources[of] = append(files, name)
				break
			}
		}
	}
	return nil
}

// services returns the directories with manifests in the order of their paths. A directory has one service per
// ecosystem.
func (p *plan) services() []*service {
	var all []*service
	found := map[configfile.Project]*service{}
	for _, f := range p.configs {
		if !isProject(f) || !slices.Contains([]string{configfile.Go, configfile.NPM, configfile.PyPI, configfile.Maven}, f.Ecosystem) {
			continue
		}
		of := configfile.Project{Dir: configfile.ProjectDir(f), Ecosystem: f.Ecosystem}
		s := found[of]
		if s == nil {
			if len(all) == maxProjects {
				p.leave("", 0, fmt.Sprintf("More than %d directories have a manifest: the others are left", maxProjects))
				break
			}
			name := p.serviceName(f)
			s = &service{plan: p, dir: of.Dir, name: cmp.Or(name, "service"), unnamed: name == ""}
			found[of] = s
			all = append(all, s)
		}
		s.manifests = append(s.manifests, f)
		s.gradle = append(s.gradle, p.gradleDependencies(f)...)
	}
	return all
}

// isProject reports whether a file is the manifest of a project. A version catalog of Gradle belongs to several
// projects.
func isProject(f *configfile.File) bool {
	return f.Kind == configfile.Manifest && path.Base(f.Path) != catalogName
}

// names matches the name of the project in a manifest, by file name of the manifest.
var names = map[string]*regexp.Regexp{
	"go.mod":         regexp.MustCompile(`(?m)^module\s+"?[^\s"]*?([^\s"/]+)(?:/v\d+)?"?\s*$`),
	"package.json":   regexp.MustCompile(`"name"\s*:\s*"(?:@[^/"]+/)?([^"/]+)"`),
	"pyproject.toml": regexp.MustCompile(`(?m)^name\s*=\s*["']([^"']+)["']`),
	"setup.cfg":      regexp.MustCompile(`(?m)^name\s*=\s*(\S+)`),
	"pom.xml":        regexp.MustCompile(`(?s)^(?:<parent>.*?</parent>|.)*?<artifactId>\s*([^<\s]+)`),
}

// plainName matches names that need no quotes in a deployment file.
var plainName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// serviceName returns the name of the project, of its directory, or of the repository if the directory is the root. It
// returns "" if these names would need quotes in a deployment file.
func (p *plan) serviceName(f *configfile.File) string {
	if r := names[path.Base(f.Path)]; r != nil {
		if m := r.FindSubmatch(f.Source); m != nil && plainName.Match(m[1]) {
			return string(m[1])
		}
	}
	name := path.Base(configfile.ProjectDir(f))
	if name == "." {
		name = p.name
	}
	if plainName.MatchString(name) {
		return name
	}
	return ""
}

// instrument instruments a service. It reports whether the project is a service.
func (s *service) instrument() (is bool, err error) {
	var boundaries func() (bool, error)
	switch m := s.manifests[0]; m.Ecosystem {
	case configfile.Go:
		return s.golang(m) // includes boundaries
	case configfile.NPM:
		is, boundaries = s.npm(m), s.javaScriptBoundaries
	case configfile.PyPI:
		is, boundaries = s.python(), s.pythonBoundaries
	default:
		is, boundaries = s.java(), s.javaBoundaries
	}
	if s.kind != General {
		return is, nil
	}
	changed, err := boundaries()
	return is || changed, err
}

// has returns the first dependency of the program that matches one of the names, as in depends. It ignores dependencies
// for development and tests, which are not installed in production.
func (s *service) has(names ...string) (name string, ok bool) {
	return s.depends(names, func(d *configfile.Dependency) bool { return !d.Development })
}

// develops is like has for dependencies for development and tests.
func (s *service) develops(names ...string) (name string, ok bool) {
	return s.depends(names, func(d *configfile.Dependency) bool { return d.Development })
}

// depends returns the name of the first dependency that matches one of the names and for which counts is true. Names
// are prefixes. In npm and Python, only names that end with a slash are prefixes.
func (s *service) depends(names []string, counts func(*configfile.Dependency) bool) (name string, ok bool) {
	exact := s.manifests[0].Ecosystem == configfile.NPM || s.manifests[0].Ecosystem == configfile.PyPI
	for _, d := range s.dependencies() {
		if counts(&d) && slices.ContainsFunc(names, func(n string) bool {
			return d.Name == n || strings.HasPrefix(d.Name, n) && (!exact || strings.HasSuffix(n, "/"))
		}) {
			return d.Name, true
		}
	}
	return "", false
}

// setUpBy returns a text for the first dependency that has one of the names, of the service or of a project of the
// repository that it uses. Names are as in depends.
func (s *service) setUpBy(names ...string) (text string, ok bool) {
	for _, at := range append([]*service{s}, s.used()...) {
		name, ok := at.depends(names, func(d *configfile.Dependency) bool {
			return !d.Development && !d.Indirect && (at == s || !strings.HasPrefix(d.Name, "@opentelemetry/") && d.Name != "opentelemetry-sdk" || s.starts(at))
		})
		switch {
		case ok && at == s:
			return "`" + name + "`", true
		case ok:
			return "`" + name + "` of `" + at.manifests[0].Path + "`", true
		}
	}
	return "", false
}

// used returns the projects of the repository that the service uses.
func (s *service) used() (all []*service) {
	if s.graph == nil {
		s.graph = configfile.NewGraph(slices.Concat(s.configs, s.aside), s.plan.paths, s.imports)
	}
	for _, used := range s.graph.Uses(s.project()) {
		at := s.members[used]
		if at == nil {
			at = &service{plan: s.plan, dir: used.Dir, manifests: s.graph.Manifests(used)}
			for _, m := range at.manifests {
				at.gradle = append(at.gradle, s.gradleDependencies(m)...)
			}
			s.members[used] = at
		}
		all = append(all, at)
	}
	return all
}

// dependencies returns the dependencies of the service. Dependencies from a version catalog have no offsets.
func (s *service) dependencies() []configfile.Dependency {
	var all []configfile.Dependency
	for _, m := range s.manifests {
		all = append(all, m.Dependencies...)
	}
	return append(all, s.gradle...)
}

// file returns the changed file with a path. It adds the file with its source if it has no change yet.
func (p *plan) file(name string, source []byte) *patch.File {
	f := p.files[name]
	if f == nil {
		f = &patch.File{Path: name, Before: source}
		p.files[name] = f
	}
	return f
}

// edit adds an edit that replaces a range of a file, unless the file has the same edit.
func (p *plan) edit(name string, source []byte, start, end int, text string) {
	f := p.file(name, source)
	if e := (udiff.Edit{Start: start, End: end, New: text}); !slices.Contains(f.Edits, e) {
		f.Edits = append(f.Edits, e)
	}
}

// surround inserts text before and after a range of a file. Unlike edit, it keeps equal edits, so that several ranges
// can end at the same offset.
func (p *plan) surround(name string, source []byte, start, end int, before, after string) {
	f := p.file(name, source)
	f.Edits = append(f.Edits, udiff.Edit{Start: start, End: start, New: before}, udiff.Edit{Start: end, End: end, New: after})
}

// insert inserts lines before the code at an offset. If other code precedes it on the line, the lines are joined by
// join.
func (p *plan) insert(name string, source []byte, at int, lines []string, join string) {
	indent, alone := indentOf(source, at)
	end := newline(source)
	if alone {
		at -= len(indent)
		p.edit(name, source, at, at, indent+strings.Join(lines, end+indent)+end)
		return
	}
	p.edit(name, source, at, at, strings.Join(lines, join)+join)
}

// did records a step for a change.
func (p *plan) did(name string, line int, text string) {
	p.step(patch.Step{File: name, Line: line, Text: text})
}

// leave records an open step for a manual task.
func (p *plan) leave(name string, line int, text string) {
	p.step(patch.Step{File: name, Line: line, Text: text, Open: true})
}

// leaveBoundary is like leave for a boundary that a language model may instrument; boundary.Lacks checks the result. A
// call, a function, a literal or an annotation must begin on the line.
func (p *plan) leaveBoundary(name string, line int, b patch.Boundary, text string) {
	p.step(patch.Step{File: name, Line: line, Text: text, Open: true, Boundary: b})
}

func (p *plan) step(s patch.Step) {
	if len(p.patch.Steps) < maxSteps && !slices.Contains(p.patch.Steps, s) {
		p.patch.Steps = append(p.patch.Steps, s)
	}
}

// finish applies the edits, formats Go files and returns the patch. It drops the edits of a file that would no longer
// parse.
func (p *plan) finish() (*patch.Patch, error) {
	for _, f := range p.files {
		if !f.Created {
			if err := f.Apply(); err != nil {
				return nil, err
			}
			formatGo(f)
			if bytes.Equal(f.Before, f.After) {
				continue
			}
			if !patch.Parses(p.ctx, p.parser, f.Path, f.After) && patch.Parses(p.ctx, p.parser, f.Path, f.Before) {
				p.patch.Steps = slices.DeleteFunc(p.patch.Steps, func(s patch.Step) bool { return s.File == f.Path && !s.Open })
				p.leave(f.Path, 0, "The file is left: it would no longer parse")
				continue
			}
		}
		p.patch.Files = append(p.patch.Files, *f)
	}
	p.patch.Sort()
	return &p.patch, nil
}

// formatGo formats a changed Go file if it was formatted before.
func formatGo(f *patch.File) {
	if path.Ext(f.Path) != ".go" {
		return
	}
	if was, err := format.Source(f.Before); err != nil || !bytes.Equal(was, f.Before) {
		return
	}
	if after, err := format.Source(f.After); err == nil {
		f.Edits, f.After = udiff.Lines(string(f.Before), string(after)), after
	}
}

// exists reports whether the directory of the service has a file.
func (s *service) exists(name string) bool { return s.existsAt(path.Join(s.dir, name)) }

// lineOf returns the line number of an offset, starting at 1.
func lineOf(source []byte, offset int) int { return bytes.Count(source[:offset], []byte{'\n'}) + 1 }

// indentOf returns the text before an offset on its line, and whether it is only white space.
func indentOf(source []byte, offset int) (string, bool) {
	line := source[bytes.LastIndexByte(source[:offset], '\n')+1 : offset]
	return string(line), len(bytes.TrimLeft(line, " \t")) == 0
}
