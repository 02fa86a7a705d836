// SPDX-License-Identifier: Apache-2.0

package instrument

import (
	"bytes"
	"fmt"
	"go/parser"
	"go/token"
	"iter"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"assay"
	"assay/internal/review/configfile"
	"assay/internal/review/instrumentation"
	"assay/internal/review/patch"
	"assay/internal/review/syntax"
	"assay/internal/review/treesitter"
)

// source is a file of a service, with its uses of telemetry.
type source struct {
	*syntax.File
	uses *instrumentation.Uses
}

// ecosystems maps a language to the ecosystem of its manifests.
var ecosystems = map[syntax.Language]string{
	syntax.Go: configfile.Go, syntax.JavaScript: configfile.NPM, syntax.TypeScript: configfile.NPM, syntax.Python: configfile.PyPI, syntax.Java: configfile.Maven,
}

// Maximum number of handlers, consumers and calls changed in a file and in a service. A step lists the rest.
const (
	maxFileBoundaries    = 100
	maxServiceBoundaries = 500
)

// maxSourceBytes limits the code of a service that is parsed for boundaries.
const maxSourceBytes = 32 << 20

// project returns the key of the service in the graph of projects.
func (s *service) project() configfile.Project {
	return configfile.Project{Dir: s.dir, Ecosystem: s.manifests[0].Ecosystem}
}

// paths returns the source files of a service: those whose nearest manifest of its kind is its own.
func (s *service) paths() []string { return s.sources[s.project()] }

// nodeImport and pythonImport match imports of modules that may belong to another project.
var (
	nodeImport   = regexp.MustCompile(`\b(?:from|import|require)\b\s*\(?\s*['"](\.\./[^'"\n]+)['"]`)
	pythonImport = regexp.MustCompile(`(?m)^[ \t]*(?:from[ \t]+([A-Za-z_][\w.]*)[ \t]+import[ \t]+\(?[ \t]*(\w+)|import[ \t]+([A-Za-z_][\w.]*))`)
)

// imports returns the imports of a project that may refer to another project.
func (p *plan) imports(of configfile.Project) (all []configfile.Import) {
	s := &service{plan: p, dir: of.Dir, manifests: []*configfile.File{{Ecosystem: of.Ecosystem}}}
	for name, text := range s.code() {
		switch of.Ecosystem {
		case configfile.NPM:
			for _, m := range nodeImport.FindAllSubmatch(text, -1) {
				all = append(all, configfile.Import{File: name, Module: string(m[1])})
			}
		case configfile.PyPI:
			for _, m := range pythonImport.FindAllSubmatch(text, -1) {
				all = append(all, configfile.Import{File: name, Module: strings.Trim(string(m[1])+"."+string(m[2])+string(m[3]), ".")})
			}
		case configfile.Go:
			parsed, err := parser.ParseFile(token.NewFileSet(), "", text, parser.ImportsOnly)
			if err != nil {
				continue
			}
			for _, i := range parsed.Imports {
				module, _ := strconv.Unquote(i.Path.Value)
				all = append(all, configfile.Import{File: name, Module: module})
			}
		}
	}
	return all
}

// code yields the code of the service without tests.
func (s *service) code() iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		size := 0
		for _, name := range s.paths() {
			if s.ctx.Err() != nil {
				return
			}
			text, err := patch.Read(s.root, name)
			if size += len(text); err != nil || size > maxSourceBytes || notCode.MatchString(name) {
				continue
			}
			if !yield(name, text) {
				return
			}
		}
	}
}

// notCode matches files that a running service does not contain, such as tests.
var notCode = regexp.MustCompile(`(?i)(^|/)(tests?|__tests__|spec|e2e|mocks?|__mocks__|fixtures?|testdata|examples?|scripts?|migrations?|bench(marks)?)/|[._-](test|spec|stories|d)\.[cm]?[jt]sx?$|(^|/)(test_[^/]*|[^/]*_test|conftest)\.py$|[^/]Tests?\.java$|\.min\.js$`)

// javaSources is the directory of the code of a project in Java. The directories below it are packages, such as
// com.example.
const javaSources = "src/main/java/"

// parsed returns the source files of a service in JavaScript, TypeScript, Python or Java that contain one of the texts,
// parsed. It leaves out tests, and files with syntax errors. A carriage return alone ends a line for these languages,
// but not for everything that reads the file here: a step names such a file.
//
// The error has the code assay.CodeUnprocessable if a file takes more work than its size allows.
func (s *service) parsed(texts ...string) ([]*source, error) {
	var files []*source
	size := 0
	for _, name := range s.paths() {
		if err := s.ctx.Err(); err != nil {
			return nil, err
		}
		if project, _, ok := strings.Cut(name, javaSources); notCode.MatchString(project) || !ok && notCode.MatchString(name) {
			continue
		}
		text, err := patch.Read(s.root, name)
		if err != nil || !slices.ContainsFunc(texts, func(t string) bool { return bytes.Contains(text, []byte(t)) }) {
			continue // a review reports files that it cannot read
		}
		if bytes.Count(text, []byte("\r")) > bytes.Count(text, []byte("\r\n")) {
			s.leave(name, 0, "The file is left: it has carriage returns without a line feed")
			continue
		}
		if size += len(text); size > maxSourceBytes {
			s.leave(name, 0, fmt.Sprintf("The code with servers and clients has more than %d MiB: the files after this one are left", maxSourceBytes>>20))
			break
		}
		f, err := syntax.Parse(s.ctx, s.parser, name, syntax.LanguageOf(name), text)
		if err != nil || f.Broken {
			if s.ctx.Err() != nil {
				return nil, s.ctx.Err()
			}
			continue
		}
		file := &source{f, instrumentation.Find(f, nil)}
		if f.Exhausted() {
			return nil, assay.Errorf(assay.CodeUnprocessable, "%s: %w", name, treesitter.ErrTooComplex)
		}
		files = append(files, file)
	}
	return files, nil
}

// ranges are the spans of a file.
type ranges struct {
	starts []int       // of the calls that start them, sorted
	bodies map[int]int // of functions and blocks: end by start
}

func newRanges(u *instrumentation.Uses) ranges {
	r := ranges{bodies: map[int]int{}}
	for _, s := range u.Spans {
		r.starts = append(r.starts, s.Start.Start)
		if s.Body != nil {
			r.bodies[s.Body.Start] = max(r.bodies[s.Body.Start], s.Body.End)
		}
	}
	slices.Sort(r.starts)
	return r
}

// inside reports whether a node has a call that starts a span.
func (r ranges) inside(n *syntax.Node) bool {
	at, _ := slices.BinarySearch(r.starts, n.Start)
	return at < len(r.starts) && r.starts[at] < n.End
}

// around reports whether a node is in the body of a span.
func (r ranges) around(n *syntax.Node) bool {
	for p := n.Enclosing(syntax.Func, syntax.Block); p != nil; p = p.Enclosing(syntax.Func, syntax.Block) {
		if end, ok := r.bodies[p.Start]; ok && p.End <= end {
			return true
		}
	}
	return false
}
