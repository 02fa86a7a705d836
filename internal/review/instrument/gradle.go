// SPDX-License-Identifier: Apache-2.0

package instrument

import (
	"bytes"
	"path"
	"regexp"
	"slices"
	"strings"

	"assay/internal/review/configfile"
)

// catalogName is the name of a version catalog of Gradle, in a directory gradle.
const catalogName = "libs.versions.toml"

var (
	gradlePlugin  = regexp.MustCompile(`\b(?:id|apply plugin:|apply\(plugin ?=)[ (]*["']([\w.-]+)["']`)
	gradleAlias   = regexp.MustCompile(`\blibs\.[A-Za-z][\w.]*`)
	gradleTest    = regexp.MustCompile(`(?i)\b(test|androidTest|jmh)[A-Za-z]*\s*[( ]`)
	catalogPlugin = regexp.MustCompile(`(?m)^\s*["']?([\w-]+)["']?\s*=\s*(?:\{[^}\n]*\bid\s*=\s*)?["']([\w.-]+)(?::[^"':\n]*)?["']`)
	catalogBundle = regexp.MustCompile(`(?m)^\s*["']?([\w-]+)["']?\s*=\s*\[([^\]]*)\]`)
)

// gradleDependencies returns the plugins that a Gradle script applies, named by their marker artifacts, and the
// libraries that the script uses from a version catalog.
func (p *plan) gradleDependencies(f *configfile.File) []configfile.Dependency {
	if !strings.HasPrefix(path.Base(f.Path), "build.gradle") {
		return nil
	}
	var all []configfile.Dependency
	plugin := func(id string) { all = append(all, configfile.Dependency{Name: id + ":" + id + ".gradle.plugin"}) }
	others := bytes.Contains(f.Source, []byte("subprojects")) // the script may apply plugins to subprojects only
	aliases := map[string]bool{}                              // aliases in the script; true if only tests use the alias
	for line := range bytes.Lines(f.Source) {
		if bytes.HasPrefix(bytes.TrimSpace(line), []byte("//")) || bytes.Contains(line, []byte("apply false")) || bytes.Contains(line, []byte("apply(false)")) {
			continue
		}
		for _, m := range gradlePlugin.FindAllSubmatch(line, 4) {
			if bytes.HasPrefix(m[0], []byte("id")) || !others {
				plugin(string(m[1]))
			}
		}
		for _, m := range gradleAlias.FindAllSubmatchIndex(line, 4) {
			alias, test := strings.TrimPrefix(string(line[m[0]:m[1]]), "libs."), gradleTest.Match(line[:m[0]])
			alias = strings.TrimSuffix(alias, ".get")
			if before, ok := aliases[alias]; !ok || before {
				aliases[alias] = test
			}
		}
	}
	catalog := p.catalog(path.Dir(f.Path))
	if catalog == nil || len(aliases) == 0 {
		return all
	}
	accessor := strings.NewReplacer("-", ".", "_", ".", `"`, "", "'", "").Replace
	for _, m := range catalogPlugin.FindAllSubmatch(catalog.Source, -1) {
		if _, ok := aliases["plugins."+accessor(string(m[1]))]; ok {
			plugin(string(m[2]))
		}
	}
	for _, m := range catalogBundle.FindAllSubmatch(catalog.Source, -1) {
		test, ok := aliases["bundles."+accessor(string(m[1]))]
		if !ok {
			continue
		}
		for name := range strings.SplitSeq(string(m[2]), ",") {
			name = accessor(strings.TrimSpace(name))
			if before, ok := aliases[name]; !ok || before {
				aliases[name] = test
			}
		}
	}
	for _, d := range catalog.Dependencies {
		if test, ok := aliases[accessor(string(catalog.Source[d.Start:d.End]))]; ok {
			all = append(all, configfile.Dependency{Name: d.Name, Version: d.Version, BOM: d.BOM, Development: test})
		}
	}
	return all
}

// catalog returns the version catalog of the build that contains a directory, nil if there is none.
func (p *plan) catalog(dir string) *configfile.File {
	for dir := range configfile.Above(dir) {
		name := path.Join(dir, "gradle", catalogName)
		if i := slices.IndexFunc(p.configs, func(f *configfile.File) bool { return f.Path == name }); i >= 0 {
			return p.configs[i]
		}
	}
	return nil
}
