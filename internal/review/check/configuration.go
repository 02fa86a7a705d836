// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"assay/internal/review/configfile"
)

// in reports a finding in a byte range of a configuration file.
func (p *Pass) in(f *configfile.File, start, end int, finding Finding) {
	finding.File, finding.Start, finding.End = f.Path, start, end
	finding.Symbol = cmp.Or(finding.Symbol, f.Name)
	p.Report(finding)
}

// node reports a finding at a node of a YAML document.
func (p *Pass) node(f *configfile.File, n *yaml.Node, finding Finding) {
	start, end := f.Range(n)
	p.in(f, start, end, finding)
}

// notProduction matches a path, name or namespace with a part that is not for production.
var notProduction = regexp.MustCompile(`(?i)(^|[/._-])(dev|devel|development|local|localhost|test|tests|testing|ci|e2e|debug|demo|example|examples|sample|samples|minikube|kind|k3d|override|overrides|staging|stage|stg|qa|uat|sandbox|playground|tutorial|tutorials|quickstart|benchmark|bench|template)([/._-]|$)`)

// production matches a path or value that names production.
var production = regexp.MustCompile(`(?i)(^|[/._-])(prod|production|prd|live)([/._-]|$)`)

// project is a directory with a manifest. It includes the directories below it that have no manifest.
type project struct {
	dir       string
	manifests []*configfile.File
}

// projects finds the project of a file: the nearest directory above it with a manifest.
type projects struct {
	byDirectory map[string]*project
	byName      map[string]*project // by serviceWords of the directory's name, nil if several directories have it
}

func projectsOf(configs []*configfile.File) *projects {
	ps := &projects{byDirectory: map[string]*project{}, byName: map[string]*project{}}
	for _, f := range configs {
		if f.Kind != configfile.Manifest {
			continue
		}
		dir := configfile.ProjectDir(f)
		if path.Base(f.Path) == "libs.versions.toml" && path.Base(dir) == "gradle" {
			dir = path.Dir(dir)
		}
		p := ps.byDirectory[dir]
		if p == nil {
			p = &project{dir: dir}
			ps.byDirectory[dir] = p
			name := serviceWords(path.Base(dir))
			if _, several := ps.byName[name]; several {
				ps.byName[name] = nil
			} else {
				ps.byName[name] = p
			}
		}
		p.manifests = append(p.manifests, f)
	}
	return ps
}

// of returns the project of a file. A file without a project belongs to the directory ".".
func (ps *projects) of(file string) *project {
	for dir := range configfile.Above(path.Dir(file)) {
		if p := ps.byDirectory[dir]; p != nil {
			return p
		}
	}
	p := &project{dir: "."}
	ps.byDirectory["."] = p
	return p
}

// dependencies returns the dependencies of a project and of the projects of its ecosystem in the directories above it,
// because workspaces, parent POMs and version catalogs declare dependencies there.
func (ps *projects) dependencies(p configfile.Project) []configfile.Dependency {
	const levels = 6 // projects that are written by hand are not nested more deeply
	var all []configfile.Dependency
	n := 0
	for dir := range configfile.Above(p.Dir) {
		if n++; n > levels {
			break
		}
		if at := ps.byDirectory[dir]; at != nil {
			for _, m := range at.manifests {
				if m.Ecosystem == p.Ecosystem {
					all = append(all, m.Dependencies...)
				}
			}
		}
	}
	return all
}

// deploys returns the project of the code that a service of a deployment file runs. It returns false if the project is
// unknown.
func (ps *projects) deploys(f *configfile.File, service string) (*project, bool) {
	if f.Kind == configfile.Dockerfile || f.Kind == configfile.Env {
		if at := ps.of(f.Path); at.dir == path.Dir(f.Path) {
			return at, true
		}
		return nil, false
	}
	for _, s := range f.Services {
		if s.Name == service && s.Build != "" {
			return ps.of(path.Join(s.Build, "Dockerfile")), true
		}
	}
	if service == "" {
		return nil, false
	}
	at := ps.byName[serviceWords(service)]
	return at, at != nil
}

// serviceWords returns a name in lower case without the parts in which the names of services and directories differ:
// separators, and suffixes such as "service".
func serviceWords(name string) string {
	name = strings.ToLower(strings.NewReplacer("-", "", "_", "", ".", "").Replace(name))
	for _, word := range []string{"service", "server", "svc", "app"} {
		if rest := strings.TrimSuffix(name, word); rest != "" {
			name = rest
		}
	}
	return name
}

// isDeployment reports whether a file describes how a program is run.
func isDeployment(f *configfile.File) bool {
	return slices.Contains([]configfile.Kind{configfile.Dockerfile, configfile.Compose, configfile.Kubernetes, configfile.HelmValues, configfile.Env}, f.Kind)
}

// isExample reports whether an environment file is a template: .env.example.
func isExample(f *configfile.File) bool {
	return exampleNames.MatchString(strings.ToLower(path.Base(f.Path)))
}

var exampleNames = regexp.MustCompile(`example|sample|template|dist|defaults|schema`)
