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
	"assay/internal/review/treesitter"
)

// Kind is the extent of the instrumentation.
type Kind string

// The kinds of instrumentation.
const (
	// Minimum adds telemetry without a change of the application's logic: automatic instrumentation, the setup of the SDK,
	// and the attributes of the resource.
	Minimum Kind = "minimum"
	// General adds instrumentation of servers and clients in the code as well, where nothing does that automatically.
	General Kind = "general"
)

// Limits of a change.
const (
	maxConfigBytes = 16 << 20 // of manifests and deployment files
	maxProjects    = 200
	maxSteps       = 2_000
)

// Make returns the patch that instruments the services of a repository, with a step for each part of it and for each task
// that it leaves to people. The files are those that a review reads, sorted. A service in the root whose manifest has no name
// gets the name of the repository. Make is idempotent: the patch for a repository with the patch is empty.
//
// The error has the code assay.CodeUnprocessable if the repository has no service that can be instrumented.
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
		return nil, assay.Errorf(assay.CodeUnprocessable, "no manifest of this repository describes a service in Go, JavaScript, Python or Java")
	}
	return p.finish()
}

// plan is a patch that is being made.
type plan struct {
	ctx     context.Context
	root    *os.Root
	parser  *treesitter.Parser
	kind    Kind
	name    string // of the repository
	paths   []string
	configs []*configfile.File
	sources map[string]map[string][]string // files by ecosystem and directory of the manifest
	served  map[string][]string            // packages with servers, consumers, jobs or databases, by the directory of the module in Go
	named   map[container]bool             // containers of deployment files that have a service
	files   map[string]*patch.File
	patch   patch.Patch
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
	unnamed   bool // name is none of the repository
	manifests []*configfile.File
	gradle    []configfile.Dependency // plugins of its Gradle scripts, and entries that they use of a version catalog
	started   []started               // programs in Go that start the SDK
}

// started is a file of a program in Go that starts the SDK, and the added file with its setup.
type started struct{ program, setup string }

// read reads manifests and deployment files.
func (p *plan) read() error {
	size := 0
	for _, name := range p.paths {
		if err := p.ctx.Err(); err != nil {
			return err
		}
		if !configfile.Candidate(name) || aside(name) {
			continue
		}
		text, err := patch.Read(p.root, name)
		if err != nil {
			continue // a review reports it
		}
		if size += len(text); size > maxConfigBytes {
			return assay.Errorf(assay.CodeUnprocessable, "the manifests and deployment files have more than %d bytes", maxConfigBytes)
		}
		if found, err := configfile.Parse(name, text); err == nil {
			p.configs = append(p.configs, found...)
		} else if bytes.HasPrefix(text, []byte("\ufeff")) && path.Base(name) == "package.json" {
			p.leave(name, 0, "The project is left: the manifest begins with a byte order mark")
		}
	}
	return nil
}

// aside reports whether a file is a manifest of a package, which does not say where a service is.
func aside(name string) bool { return path.Base(name) == "setup.py" }

// services returns the directories with manifests of the languages, in the order of their paths. A directory with manifests of
// several ecosystems may have a service in each.
func (p *plan) services() []*service {
	type project struct{ dir, ecosystem string }
	var all []*service
	found := map[project]*service{}
	for _, f := range p.configs {
		if !isProject(f) || !slices.Contains([]string{configfile.Go, configfile.NPM, configfile.PyPI, configfile.Maven}, f.Ecosystem) {
			continue
		}
		dir := projectDir(f)
		s := found[project{dir, f.Ecosystem}]
		if s == nil {
			if len(all) == maxProjects {
				p.leave("", 0, fmt.Sprintf("More than %d directories have a manifest: the others are left", maxProjects))
				break
			}
			name := p.serviceName(f)
			s = &service{plan: p, dir: dir, name: cmp.Or(name, "service"), unnamed: name == ""}
			found[project{dir, f.Ecosystem}] = s
			all = append(all, s)
		}
		s.manifests = append(s.manifests, f)
		s.gradle = append(s.gradle, p.gradleDependencies(f)...)
	}
	return all
}

// isProject reports whether a file is the manifest of a project. A version catalog of Gradle has versions for several ones.
func isProject(f *configfile.File) bool {
	return f.Kind == configfile.Manifest && path.Base(f.Path) != catalogName
}

// projectDir returns the directory of the project that a manifest describes.
func projectDir(f *configfile.File) string {
	dir := path.Dir(f.Path)
	if f.Ecosystem == configfile.PyPI && path.Base(dir) == "requirements" {
		return path.Dir(dir)
	}
	return dir
}

// names are where manifests name their project.
var names = map[string]*regexp.Regexp{
	"go.mod":         regexp.MustCompile(`(?m)^module\s+"?[^\s"]*?([^\s"/]+)(?:/v\d+)?"?\s*$`),
	"package.json":   regexp.MustCompile(`"name"\s*:\s*"(?:@[^/"]+/)?([^"/]+)"`),
	"pyproject.toml": regexp.MustCompile(`(?m)^name\s*=\s*["']([^"']+)["']`),
	"setup.cfg":      regexp.MustCompile(`(?m)^name\s*=\s*(\S+)`),
	"pom.xml":        regexp.MustCompile(`(?s)^(?:<parent>.*?</parent>|.)*?<artifactId>\s*([^<\s]+)`),
}

// plainName matches names that need no quotes in a deployment file.
var plainName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// serviceName returns the name of the service: the name of the project, of its directory or of the repository. It returns "" for
// none.
func (p *plan) serviceName(f *configfile.File) string {
	if r := names[path.Base(f.Path)]; r != nil {
		if m := r.FindSubmatch(f.Source); m != nil && plainName.Match(m[1]) {
			return string(m[1])
		}
	}
	name := path.Base(projectDir(f))
	if name == "." {
		name = p.name
	}
	if plainName.MatchString(name) {
		return name
	}
	return ""
}

// instrument instruments a service and reports whether there is one.
func (s *service) instrument() (is bool, err error) {
	var boundaries func() (bool, error)
	switch m := s.manifests[0]; m.Ecosystem {
	case configfile.Go:
		return s.golang(m) // boundaries too
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

// has reports whether the program has a dependency with one of the names. Dependencies for development and tests are not installed
// where it runs.
func (s *service) has(names ...string) (name string, ok bool) {
	return s.depends(names, func(d *configfile.Dependency) bool { return !d.Development })
}

// develops is has for dependencies of development and tests.
func (s *service) develops(names ...string) (name string, ok bool) {
	return s.depends(names, func(d *configfile.Dependency) bool { return d.Development })
}

// depends returns the first dependency that counts and has one of the names. They are prefixes, but in npm only those that end with
// a slash.
func (s *service) depends(names []string, counts func(*configfile.Dependency) bool) (name string, ok bool) {
	exact := s.manifests[0].Ecosystem == configfile.NPM
	for _, d := range s.dependencies() {
		if counts(&d) && slices.ContainsFunc(names, func(n string) bool {
			return d.Name == n || strings.HasPrefix(d.Name, n) && (!exact || strings.HasSuffix(n, "/"))
		}) {
			return d.Name, true
		}
	}
	return "", false
}

// dependencies returns the dependencies of the service. Those of a version catalog have no range.
func (s *service) dependencies() []configfile.Dependency {
	var all []configfile.Dependency
	for _, m := range s.manifests {
		all = append(all, m.Dependencies...)
	}
	return append(all, s.gradle...)
}

// file returns a file that is changed.
func (p *plan) file(name string, source []byte) *patch.File {
	f := p.files[name]
	if f == nil {
		f = &patch.File{Path: name, Before: source}
		p.files[name] = f
	}
	return f
}

// edit replaces a range of a file.
func (p *plan) edit(name string, source []byte, start, end int, text string) {
	f := p.file(name, source)
	if e := (udiff.Edit{Start: start, End: end, New: text}); !slices.Contains(f.Edits, e) {
		f.Edits = append(f.Edits, e)
	}
}

// surround inserts text before and after a range of a file. Ranges may end at the same offset.
func (p *plan) surround(name string, source []byte, start, end int, before, after string) {
	f := p.file(name, source)
	f.Edits = append(f.Edits, udiff.Edit{Start: start, End: start, New: before}, udiff.Edit{Start: end, End: end, New: after})
}

// insert inserts lines before the code at an offset: as separate lines if the code starts its line, otherwise joined with it.
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

// did and leave record a part of the change, and a task that is left to people.
func (p *plan) did(name string, line int, text string) {
	p.step(patch.Step{File: name, Line: line, Text: text})
}

func (p *plan) leave(name string, line int, text string) {
	p.step(patch.Step{File: name, Line: line, Text: text, Open: true})
}

// leaveBoundary is leave for code without telemetry that a language model may instrument; boundary.Lacks checks what it does.
// A call, a function, a literal or an annotation begins on the line.
func (p *plan) leaveBoundary(name string, line int, b patch.Boundary, text string) {
	p.step(patch.Step{File: name, Line: line, Text: text, Open: true, Boundary: b})
}

func (p *plan) step(s patch.Step) {
	if len(p.patch.Steps) < maxSteps && !slices.Contains(p.patch.Steps, s) {
		p.patch.Steps = append(p.patch.Steps, s)
	}
}

// finish applies the edits, and formats files of Go. A file that would no longer parse is left.
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

// formatGo formats a changed file of Go if it was formatted.
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

// exists reports whether a file stands in the directory of the service.
func (s *service) exists(name string) bool { return s.existsAt(path.Join(s.dir, name)) }

// lineOf returns the line of an offset, from 1.
func lineOf(source []byte, offset int) int { return bytes.Count(source[:offset], []byte{'\n'}) + 1 }

// indentOf returns the white space before an offset on its line, and whether there is nothing else.
func indentOf(source []byte, offset int) (string, bool) {
	line := source[bytes.LastIndexByte(source[:offset], '\n')+1 : offset]
	return string(line), len(bytes.TrimLeft(line, " \t")) == 0
}
