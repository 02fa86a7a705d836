// SPDX-License-Identifier: Apache-2.0

package instrument

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/aymanbagabas/go-udiff"
	"golang.org/x/mod/modfile"
	xmodule "golang.org/x/mod/module"
	"golang.org/x/mod/semver"

	"assay"
	"assay/internal/lists"
	"assay/internal/review/configfile"
	"assay/internal/review/patch"
)

// goModules is the prefix of the modules of OpenTelemetry.
const goModules = "go.opentelemetry.io/"

// goEnough returns the oldest version of a module with the API that a change uses.
func goEnough(module string) string {
	switch {
	case module == goRoot+"/sdk":
		return "v1.43.0" // resource.WithService
	case strings.HasPrefix(module, goRoot):
		return "v1.28.0"
	case strings.HasPrefix(module, goContribs):
		return "v0.53.0" // of the same release
	}
	return goVersion(module)
}

// draft is the state of a plan before a change that may be discarded.
type draft struct {
	files map[string]*patch.File
	steps int
}

func (p *plan) draft() draft { return draft{maps.Clone(p.files), len(p.patch.Steps)} }

// discard drops the changes since a draft and their steps. The changes must be in other files than those before. Steps
// about boundaries are kept.
func (p *plan) discard(d draft) {
	p.files = d.files
	kept := slices.DeleteFunc(slices.Clone(p.patch.Steps[d.steps:]), func(s patch.Step) bool { return s.Boundary == patch.Boundary{} })
	p.patch.Steps = append(p.patch.Steps[:d.steps], kept...)
}

// require adds modules to go.mod. A module that is required in a version new enough keeps it. raised reports whether the
// change needs a newer Go than the module has. blocked, if it is not "", says why the modules cannot be added.
func (s *service) require(m *configfile.File, modules []string) (raised bool, blocked string, err error) {
	f, err := modfile.Parse(m.Path, m.Source, nil)
	if err != nil {
		return false, "", assay.Errorf(assay.CodeUnprocessable, "read %s: it has a syntax error", m.Path)
	}
	required := slices.Clone(f.Require)
	index := func(module string) int {
		return slices.IndexFunc(required, func(r *modfile.Require) bool { return r.Mod.Path == module })
	}
	older := func(module, version string) bool {
		i := index(module)
		return i < 0 || semver.Compare(required[i].Mod.Version, version) < 0
	}
	modules = slices.Compact(slices.Sorted(slices.Values(modules)))
	var names []string
	add := lists.Filter(modules, func(module string) bool { return older(module, goEnough(module)) })
	if len(add) > 0 { // the added modules need the release of goOTel, and modules of several releases do not belong together
		for _, r := range f.Require {
			if module := r.Mod.Path; (!r.Indirect || slices.Contains(modules, module)) && (module == goRoot || strings.HasPrefix(module, goRoot+"/")) && goVersion(module) != "" && older(module, goVersion(module)) {
				add = append(add, module)
			}
		}
		slices.Sort(add)
		add = slices.Compact(add)
		if why := conflict(f); why != "" {
			return false, "The module is left: " + why + ". Run `go get " + strings.Join(withVersions(add), " ") + "`, make the module build with these versions, and instrument it again", nil
		}
	}
	for _, module := range slices.Compact(slices.Sorted(slices.Values(slices.Concat(modules, add)))) {
		r := &modfile.Require{Mod: xmodule.Version{Path: module, Version: goVersion(module)}}
		switch i := index(module); {
		case i < 0:
			required = append(required, r)
		case slices.Contains(add, module):
			required[i] = r
		case required[i].Indirect:
			required[i] = &modfile.Require{Mod: required[i].Mod}
		default:
			continue
		}
		names = append(names, "`"+module+"`")
	}
	if len(names) == 0 {
		return false, "", nil
	}
	f.SetRequireSeparateIndirect(required)
	f.Cleanup()
	after, err := f.Format()
	if err != nil {
		return false, "", fmt.Errorf("format %s: %w", m.Path, err)
	}
	if end := newline(m.Source); end != "\n" {
		after = bytes.ReplaceAll(bytes.ReplaceAll(after, []byte(end), []byte("\n")), []byte("\n"), []byte(end))
	}
	s.file(m.Path, m.Source).Edits = udiff.Lines(string(m.Source), string(after))
	s.did(m.Path, 0, "Require "+strings.Join(names, ", "))
	note := "Run `go mod tidy`, which adds what these modules require to go.mod and go.sum"
	raised = len(add) > 0 && (f.Go == nil || semver.Compare("v"+f.Go.Version, "v"+goRelease) < 0)
	if raised && f.Go != nil {
		note += " and raises the Go version of the module from " + f.Go.Version + " to " + goRelease
	}
	if s.exists("vendor/modules.txt") {
		note += ". Then run `go mod vendor`"
	}
	s.leave(m.Path, 0, note)
	if len(add) > 0 {
		s.raiseWorkspace()
	}
	return raised, "", nil
}

// conflict returns why a module may not build with the release of goOTel, "" if no reason is known.
func conflict(f *modfile.File) string {
	for _, r := range f.Replace {
		if strings.HasPrefix(r.Old.Path, goModules) || goVersions[r.Old.Path] != "" {
			return "go.mod replaces `" + r.Old.Path + "`"
		}
	}
	for _, e := range f.Exclude {
		if goVersion(e.Mod.Path) == e.Mod.Version {
			return "go.mod excludes `" + e.Mod.String() + "`"
		}
	}
	for _, r := range f.Require {
		module, version, known := r.Mod.Path, r.Mod.Version, goVersion(r.Mod.Path)
		switch {
		case !strings.HasPrefix(module, goModules) || semver.Major(version) != "v0":
		case known != "" && semver.Major(known) != "v0":
			return "it requires `" + module + "` " + version + ", whose API has changed since"
		case known == "" && !r.Indirect:
			return "it requires `" + module + "` " + version + ", which may not fit the release of OpenTelemetry that the change needs"
		}
	}
	return ""
}

// withVersions returns the arguments of `go get` for modules.
func withVersions(modules []string) []string {
	return lists.Map(modules, func(module string) string { return module + "@" + goVersion(module) })
}

// raiseWorkspace adds a step if the Go version in the go.work file of a module is older than the added modules require.
func (s *service) raiseWorkspace() {
	for dir := range configfile.Above(s.dir) {
		name := path.Join(dir, "go.work")
		text, err := patch.Read(s.root, name)
		if err == nil {
			work, err := modfile.ParseWork(name, text, nil)
			if err == nil && work.Go != nil && semver.Compare("v"+work.Go.Version, "v"+goRelease) < 0 &&
				slices.ContainsFunc(work.Use, func(u *modfile.Use) bool { return path.Join(dir, u.Path) == s.dir }) {
				s.leave(name, lineOf(text, work.Go.Syntax.Start.Byte), "Run `go work use` after `go mod tidy` in the modules: it raises the Go version of the workspace from "+work.Go.Version+" to theirs")
			}
			return
		}
	}
}

// goVersion returns the version in which a change requires a module, or "" if unknown.
func goVersion(module string) string { return cmp.Or(goVersions[module], goReleases[module]) }
