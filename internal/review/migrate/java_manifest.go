// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"bytes"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"assay/internal/lists"
	"assay/internal/review/configfile"
)

// javaManifests are the build files of Maven and Gradle. A build with modules is one unit.
var javaManifests = []string{"pom.xml", "build.gradle", "build.gradle.kts"}

// javaOld are prefixes of the artifacts that a migration replaces. javaKept are prefixes of artifacts that depend on
// them and have no replacement.
var (
	javaOld  = []string{"io.opentracing:", "io.jaegertracing:", "io.opencensus:opencensus-api", "io.opencensus:opencensus-impl", "io.zipkin.brave:brave", "io.zipkin.reporter2:", "com.datadoghq:dd-trace-api", "com.datadoghq:dd-trace-ot"}
	javaKept = []string{"io.opentracing.contrib:", "io.opencensus:opencensus-contrib-", "io.opencensus:opencensus-exporter-", "io.zipkin.brave:brave-instrumentation-"}
)

// gradleDependency is a line of a Gradle script that names one artifact.
var gradleDependency = regexp.MustCompile(`^\s*\w+\s*\(?\s*(?:(?:enforcedP|p)latform\s*\(\s*)?["'][^"']*["'][\s)]*(?://.*)?$`)

// javaManifest replaces the dependencies of the build files of a unit.
func javaManifest(u *scriptUnit) {
	added := map[string]bool{} // directories of manifests that got dependencies
	needed := map[string]map[string]bool{}
	for _, s := range u.files {
		if s.after == nil {
			continue
		}
		packages := []string{"io.opentelemetry:opentelemetry-api"}
		if _, ok := s.used[javaTargets["WithSpan"]+".WithSpan"]; ok {
			packages = append(packages, "io.opentelemetry.instrumentation:opentelemetry-instrumentation-annotations")
		}
		if s.setup {
			packages = append(packages, javaSetupPackages...)
		}
		for dir := directory(s.f.Path); ; dir = directory(dir) {
			if needed[dir] == nil {
				needed[dir] = map[string]bool{}
			}
			for _, p := range packages {
				needed[dir][p] = true
			}
			if dir == u.dir || dir == "" {
				break
			}
		}
	}
	var files []string
	kept := false // whether a dependency stays whose version the BOM of an old library may manage
	for _, name := range u.paths {
		if base := path.Base(name); (slices.Contains(javaManifests, base) || base == "libs.versions.toml") && (u.dir == "" || strings.HasPrefix(name, u.dir+"/")) {
			files = append(files, name)
			list, _ := u.dependencies(name)
			kept = kept || slices.ContainsFunc(list, func(d configfile.Dependency) bool { return ofGroups(javaKept, d.Name) })
		}
	}
	for _, name := range files {
		list, source := u.dependencies(name)
		if source == nil {
			continue
		}
		add := slices.DeleteFunc(slices.Sorted(maps.Keys(needed[directory(name)])), func(p string) bool {
			return slices.ContainsFunc(list, func(d configfile.Dependency) bool { return d.Name == p })
		})
		var old []configfile.Dependency
		for _, d := range list {
			switch {
			case ofGroups(javaKept, d.Name):
				line := 1 + bytes.Count(source[:d.Start], []byte{'\n'})
				u.open(name, line, "%s is in no table: replace it by the instrumentation of OpenTelemetry, or the Java agent.", d.Name)
			case ofGroups(javaOld, d.Name) && !(d.BOM && kept):
				old = append(old, d)
			}
		}
		if len(old) == 0 {
			continue
		}
		after, ok := pomEdits(source, old, add)
		if path.Base(name) != "pom.xml" {
			after, ok = gradleEdits(source, old, add)
		}
		if !ok {
			u.open(name, 0, "Replace the dependencies of the old libraries by %s.", strings.Join(versioned(add), ", "))
		} else {
			u.change(name, source, after)
		}
		added[directory(name)] = true
	}
	if u.java.setups == 0 && !u.hasJavaAgent() && len(files) > 0 {
		u.open(files[0], 0, "No code of the build sets up a tracer: set up the SDK of OpenTelemetry, or start the programs with its Java agent. Containers that inject a tracer need one of OpenTelemetry.")
	}
	for _, s := range u.files {
		if s.after == nil {
			continue
		}
		if _, ok := nearest(s.f.Path, added); !ok {
			u.open(s.f.Path, 0, "Add the dependencies %s where the build has those of the old library.", strings.Join(versioned(slices.Sorted(maps.Keys(needed[u.dir]))), ", "))
			return
		}
	}
}

// ofGroups reports whether the name of an artifact begins with one of groups.
func ofGroups(groups []string, name string) bool {
	return slices.ContainsFunc(groups, func(g string) bool { return strings.HasPrefix(name, g) })
}

// versioned returns artifacts with their versions.
func versioned(artifacts []string) []string {
	return lists.Map(artifacts, func(a string) string { return a + ":" + mavenVersions[a] })
}

// pomEdits replaces the elements of dependencies in a POM, and removes them from dependencyManagement: the new
// dependencies have versions.
func pomEdits(source []byte, old []configfile.Dependency, add []string) ([]byte, bool) {
	var edits []edit
	placed := len(add) == 0
	for _, d := range old {
		start := bytes.LastIndex(source[:d.Start], []byte("<dependency>"))
		size := bytes.Index(source[d.End:], []byte("</dependency>"))
		if start < 0 || size < 0 {
			return nil, false
		}
		end := d.End + size + len("</dependency>")
		managed := bytes.Count(source[:start], []byte("<dependencyManagement>")) > bytes.Count(source[:start], []byte("</dependencyManagement>"))
		plugin := bytes.Count(source[:start], []byte("<plugin>")) > bytes.Count(source[:start], []byte("</plugin>"))
		if plugin {
			return nil, false
		}
		if placed || managed || d.Development {
			edits = append(edits, lineEdit(source, start, end))
			continue
		}
		placed = true
		indent := lineIndent(source, start)
		step := strings.TrimPrefix(lineIndent(source, d.Start), indent)
		var elements []string
		for _, a := range add {
			group, artifact, _ := strings.Cut(a, ":")
			elements = append(elements, "<dependency>\n"+indent+step+"<groupId>"+group+"</groupId>\n"+indent+step+"<artifactId>"+artifact+"</artifactId>\n"+
				indent+step+"<version>"+mavenVersions[a]+"</version>\n"+indent+"</dependency>")
		}
		edits = append(edits, edit{start, end, strings.Join(elements, "\n"+indent)})
	}
	sortEdits(edits)
	after := []byte(replace(source, 0, len(source), edits))
	_, err := configfile.Parse("pom.xml", after)
	return after, err == nil && (placed || onlyManaged(source, old))
}

// onlyManaged reports whether all dependencies are in dependencyManagement or for tests.
func onlyManaged(source []byte, old []configfile.Dependency) bool {
	return !slices.ContainsFunc(old, func(d configfile.Dependency) bool {
		before := source[:d.Start]
		return !d.Development && bytes.Count(before, []byte("<dependencyManagement>")) == bytes.Count(before, []byte("</dependencyManagement>"))
	})
}

// gradleEdits replaces the lines of dependencies in a Gradle script.
func gradleEdits(source []byte, old []configfile.Dependency, add []string) ([]byte, bool) {
	var edits []edit
	placed := len(add) == 0
	for _, d := range old {
		start := lineStart(source, d.Start)
		end := d.End
		for end < len(source) && source[end] != '\n' {
			end++
		}
		if !gradleDependency.Match(bytes.TrimSuffix(source[start:end], []byte{'\r'})) {
			return nil, false
		}
		if placed || d.Development || d.BOM {
			edits = append(edits, lineEdit(source, start, end))
			continue
		}
		placed = true
		var lines []string
		quote := string(source[d.Start])
		for _, a := range versioned(add) {
			lines = append(lines, string(source[start:d.Start])+quote+a+quote+string(source[d.End:end]))
		}
		edits = append(edits, edit{start, end, strings.Join(lines, "\n")})
	}
	sortEdits(edits)
	return []byte(replace(source, 0, len(source), edits)), placed
}

// javaSetupPackages are the artifacts that OpenTelemetrySetup needs.
var javaSetupPackages = []string{"io.opentelemetry:opentelemetry-exporter-otlp", "io.opentelemetry:opentelemetry-sdk-extension-autoconfigure"}
