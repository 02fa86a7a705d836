// SPDX-License-Identifier: Apache-2.0

package configfile

import (
	"bytes"
	"cmp"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
	"golang.org/x/mod/modfile"
)

// manifest reads the dependencies and the runtime of a manifest. base is its file name in lower case.
func (f *File) manifest(base string) error {
	switch {
	case base == "go.mod":
		f.Ecosystem = Go
		return f.goMod()
	case base == "package.json":
		f.Ecosystem = NPM
		return f.json(map[string]bool{"dependencies": false, "devDependencies": true, "optionalDependencies": false}, "engines", "node", "nodejs")
	case base == "composer.json":
		f.Ecosystem = Composer
		return f.json(map[string]bool{"require": false, "require-dev": true}, "require", "php", "php")
	case base == "pyproject.toml", base == "pipfile":
		f.Ecosystem = PyPI
		return f.pythonTOML()
	case base == "libs.versions.toml":
		f.Ecosystem = Maven
		return f.versionCatalog()
	case base == "pom.xml":
		f.Ecosystem = Maven
		return f.xml()
	case strings.HasSuffix(base, "proj"), base == "directory.packages.props":
		f.Ecosystem = NuGet
		return f.xml()
	case base == "gemfile":
		f.Ecosystem = RubyGems
		f.gemfile()
	case strings.HasPrefix(base, "build.gradle"):
		f.Ecosystem = Maven
		f.gradle()
	case base == "setup.cfg":
		f.Ecosystem = PyPI
		f.setupCFG()
	case base == "setup.py":
		f.Ecosystem = PyPI
		f.setupPy()
	default:
		f.Ecosystem = PyPI
		f.requirements()
	}
	return nil
}

func (f *File) setRuntime(name, version string, start, end int) {
	f.Runtime, f.RuntimeVersion, f.RuntimeStart, f.RuntimeEnd = name, version, start, end
}

func (f *File) goMod() error {
	m, err := modfile.ParseLax(f.Path, f.Source, nil)
	if err != nil {
		return errors.New("failed to parse go.mod: syntax error")
	}
	if m.Go != nil {
		f.setRuntime("go", m.Go.Version, m.Go.Syntax.Start.Byte, m.Go.Syntax.End.Byte)
	}
	for _, r := range m.Require {
		f.addDependency(Dependency{
			Name: r.Mod.Path, Version: r.Mod.Version, Indirect: r.Indirect,
			Start: r.Syntax.Start.Byte, End: r.Syntax.End.Byte,
		})
	}
	return nil
}

// json reads the dependencies in the top-level objects of sections, and the version of the runtime at runtimeKey in
// runtimeSection. The value of a section reports whether its dependencies are for development.
func (f *File) json(sections map[string]bool, runtimeSection, runtimeKey, runtime string) error {
	d := json.NewDecoder(bytes.NewReader(f.Source))
	d.UseNumber()
	var path []string // keys of the open objects and arrays
	var isArray []bool
	key, keyStart := "", -1
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) && len(path) == 0 {
			return nil
		}
		if err != nil {
			return fmt.Errorf("failed to parse JSON: %w", err)
		}
		end := int(d.InputOffset())
		switch t := token.(type) {
		case json.Delim:
			switch t {
			case '{', '[':
				path, isArray = append(path, key), append(isArray, t == '[')
				key, keyStart = "", -1
			default:
				path, isArray = path[:len(path)-1], isArray[:len(isArray)-1]
				key, keyStart = "", -1
			}
			continue
		case string:
			if len(isArray) > 0 && !isArray[len(isArray)-1] && keyStart < 0 {
				key, keyStart = t, max(0, end-len(t)-2)
				continue
			}
			if len(path) == 2 && keyStart >= 0 && !isArray[1] {
				if development, ok := sections[path[1]]; ok && !(runtimeSection == path[1] && key == runtimeKey) {
					f.addDependency(Dependency{Name: key, Version: t, Start: keyStart, End: end, Development: development})
				}
				if path[1] == runtimeSection && key == runtimeKey {
					f.setRuntime(runtime, t, keyStart, end)
				}
			}
		}
		keyStart = -1
	}
}

// requirement matches a line of requirements.txt, or an element of a list of requirements.
var requirement = regexp.MustCompile(`^\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[[^\]]*\])?\s*\(?((?:===|==|~=|>=|<=|!=|<|>)[^;#)]*)?`)

func (f *File) requirement(text []byte, offset int, development bool) {
	m := requirement.FindSubmatchIndex(text)
	if m == nil {
		return
	}
	d := Dependency{Name: pythonName(string(text[m[2]:m[3]])), Start: offset + m[2], End: offset + m[3], Development: development}
	if m[4] >= 0 {
		version := bytes.TrimRight(text[m[4]:m[5]], " \t\r\n\\")
		d.Version, d.End = string(version), offset+m[4]+len(version)
	}
	f.addDependency(d)
}

var separators = regexp.MustCompile(`[-_.]+`)

// pythonName returns the normalized name of a Python distribution.
func pythonName(name string) string {
	return strings.ToLower(separators.ReplaceAllString(name, "-"))
}

func (f *File) requirements() {
	development := strings.Contains(strings.ToLower(f.Path), "dev") || strings.Contains(strings.ToLower(f.Path), "test")
	offset := 0
	for line := range bytes.Lines(f.Source) {
		if !bytes.Contains(line, []byte("://")) {
			f.requirement(line, offset, development)
		}
		offset += len(line)
	}
}

// setupCFG reads install_requires and python_requires of setup.cfg.
func (f *File) setupCFG() {
	offset, key := 0, ""
	for line := range bytes.Lines(f.Source) {
		switch trimmed := bytes.TrimSpace(line); {
		case len(trimmed) == 0 || trimmed[0] == '#' || trimmed[0] == ';':
		case line[0] != ' ' && line[0] != '\t':
			key = ""
			if name, value, ok := bytes.Cut(line, []byte("=")); ok {
				key = strings.TrimSpace(string(name))
				if key == "python_requires" {
					v := strings.TrimSpace(string(value))
					f.setRuntime("cpython", v, offset, offset+len(bytes.TrimRight(line, "\r\n")))
				}
			}
		case key == "install_requires":
			f.requirement(line, offset, false)
		}
		offset += len(line)
	}
}

var (
	installRequires = regexp.MustCompile(`\binstall_requires\s*=\s*\[`)
	pythonRequires  = regexp.MustCompile(`\bpython_requires\s*=\s*["']([^"'\n]+)["']`)
)

// setupPy reads install_requires and python_requires of setup.py, if they are literals.
func (f *File) setupPy() {
	if m := pythonRequires.FindSubmatchIndex(f.Source); m != nil {
		f.setRuntime("cpython", string(f.Source[m[2]:m[3]]), m[0], m[1])
	}
	m := installRequires.FindIndex(f.Source)
	if m == nil {
		return
	}
	for i := m[1]; i < len(f.Source) && f.Source[i] != ']' && !f.full(); i++ {
		switch c := f.Source[i]; c {
		case '#':
			i += lineEnd(f.Source[i:])
		case '"', '\'':
			text := f.Source[i+1:]
			end := bytes.IndexByte(text[:lineEnd(text)], c)
			if end < 0 {
				return
			}
			f.requirement(text[:end], i+1, false)
			i += end + 1
		}
	}
}

// maxTOMLPath is the maximum length in bytes of the path of a key-value pair.
const maxTOMLPath = 1000

// toml calls pair for each key-value pair with its full path. It skips paths longer than maxTOMLPath. An inline table
// is a value.
func (f *File) toml(pair func(p *unstable.Parser, path []string, value *unstable.Node, start int)) error {
	p := &unstable.Parser{}
	p.Reset(f.Source)
	var table []string
	tableSize := 0
	for p.NextExpression() {
		e := p.Expression()
		var keys []string
		start, size := -1, 0
		for k := e.Key(); k.Next(); {
			if start < 0 {
				start = int(k.Node().Raw.Offset)
			}
			if size += len(k.Node().Data) + 1; size <= maxTOMLPath {
				keys = append(keys, string(k.Node().Data))
			}
		}
		switch e.Kind {
		case unstable.Table, unstable.ArrayTable:
			table, tableSize = keys, size
		case unstable.KeyValue:
			if tableSize+size <= maxTOMLPath {
				pair(p, append(table[:len(table):len(table)], keys...), e.Value(), max(start, 0))
			}
		}
	}
	if p.Error() != nil {
		return errors.New("failed to parse TOML: syntax error")
	}
	return nil
}

// inline returns the text of a key's value in an inline table, and its end offset in the source.
func inline(value *unstable.Node, key string) (string, int) {
	if value.Kind != unstable.InlineTable {
		return "", 0
	}
	for it := value.Children(); it.Next(); {
		kv := it.Node()
		var keys []string
		for k := kv.Key(); k.Next(); {
			keys = append(keys, string(k.Node().Data))
		}
		if v := kv.Value(); strings.Join(keys, ".") == key && v.Kind == unstable.String {
			return string(v.Data), int(v.Raw.Offset + v.Raw.Length)
		}
	}
	return "", 0
}

func (f *File) pythonTOML() error {
	return f.toml(func(p *unstable.Parser, path []string, value *unstable.Node, start int) {
		joined := strings.ToLower(strings.Join(path, "."))
		end := start + len(path[len(path)-1])
		if value.Raw.Length > 0 {
			end = int(value.Raw.Offset + value.Raw.Length)
		}
		switch {
		case joined == "project.requires-python":
			f.setRuntime("cpython", string(value.Data), start, end)
		case joined == "project.dependencies", strings.HasPrefix(joined, "project.optional-dependencies."), strings.HasPrefix(joined, "dependency-groups."):
			for it := value.Children(); it.Next(); {
				if n := it.Node(); n.Kind == unstable.String {
					f.requirement(n.Data, int(n.Raw.Offset)+1, joined != "project.dependencies" && !strings.HasPrefix(joined, "project."))
				}
			}
		case len(path) > 1 && isPythonTable(strings.ToLower(strings.Join(path[:len(path)-1], "."))):
			version := ""
			if value.Kind == unstable.String {
				version = string(value.Data)
			} else if v, at := inline(value, "version"); v != "" {
				version, end = v, at
			}
			name := path[len(path)-1]
			if name == "python" || name == "python_version" || name == "python_full_version" {
				f.setRuntime("cpython", version, start, end)
				return
			}
			if path[0] == "requires" {
				return
			}
			development := strings.Contains(joined, "dev") || strings.Contains(joined, "group")
			f.addDependency(Dependency{Name: pythonName(name), Version: version, Start: start, End: end, Development: development})
		}
	})
}

// isPythonTable reports whether a table of pyproject.toml (Poetry) or Pipfile contains dependencies or requirements as
// pairs.
func isPythonTable(table string) bool {
	return slices.Contains([]string{"tool.poetry.dependencies", "tool.poetry.dev-dependencies", "packages", "dev-packages", "requires"}, table) ||
		strings.HasPrefix(table, "tool.poetry.group.") && strings.HasSuffix(table, ".dependencies")
}

// versionCatalog reads the libraries of Gradle's libs.versions.toml.
func (f *File) versionCatalog() error {
	versions := map[string]string{}
	type library struct {
		d   Dependency
		ref string
	}
	var libraries []library
	err := f.toml(func(p *unstable.Parser, path []string, value *unstable.Node, start int) {
		if len(path) != 2 {
			return
		}
		end := start + len(path[1])
		switch path[0] {
		case "versions":
			if value.Kind == unstable.String {
				versions[path[1]] = string(value.Data)
			}
		case "libraries":
			l := library{d: Dependency{Start: start, End: end}}
			if value.Kind == unstable.String {
				parts := strings.SplitN(string(value.Data), ":", 3)
				if len(parts) < 2 {
					return
				}
				l.d.Name = parts[0] + ":" + parts[1]
				if len(parts) == 3 {
					l.d.Version = parts[2]
				}
			} else {
				module, _ := inline(value, "module")
				if module == "" {
					group, _ := inline(value, "group")
					name, _ := inline(value, "name")
					module = group + ":" + name
				}
				l.d.Name = module
				l.d.Version, _ = inline(value, "version")
				l.ref, _ = inline(value, "version.ref")
			}
			l.d.BOM = strings.HasSuffix(l.d.Name, "-bom") || strings.HasSuffix(l.d.Name, "-bom-alpha")
			if len(libraries) < maxYield {
				libraries = append(libraries, l)
			}
		}
	})
	for _, l := range libraries {
		if l.ref != "" {
			l.d.Version = versions[l.ref]
		}
		f.addDependency(l.d)
	}
	return err
}

// coordinates matches a quoted group:artifact:version in a Gradle script, and gradleNamed the form with named
// arguments.
var (
	coordinates = regexp.MustCompile(`["']([A-Za-z0-9_.-]+:[A-Za-z0-9_.-]+)(?::([^"'@:]*))?[^"']*["']`)
	gradleNamed = regexp.MustCompile(`\bgroup\s*[:=]\s*["']([A-Za-z0-9_.-]+)["']\s*,\s*name\s*[:=]\s*["']([A-Za-z0-9_.-]+)["'](?:\s*,\s*version\s*[:=]\s*["']?([^"',)\s]*)["']?)?`)
)

var (
	gradleVariable = regexp.MustCompile(`(?m)^\s*(?:ext\.|def\s+|val\s+|set\()?["']?([A-Za-z][A-Za-z0-9_.]*)["']?\s*[,=]\s*["']([0-9][^"'$]*)["']`)
	gradleJava     = regexp.MustCompile(`JavaLanguageVersion\.of\((\d+)\)|(?:source|target)Compatibility\s*=?\s*(?:JavaVersion\.VERSION_)?["']?(?:1[._])?(\d+)`)
	gradleScope    = regexp.MustCompile(`(?i)\b(test|androidTest|jmh)[A-Za-z]*\s*[( ]`)
)

func (f *File) gradle() {
	versions := map[string]string{}
	for _, m := range gradleVariable.FindAllSubmatch(f.Source, maxYield) {
		versions[string(m[1])] = string(m[2])
	}
	if m := gradleJava.FindSubmatchIndex(f.Source); m != nil {
		for i := 2; i < len(m); i += 2 {
			if m[i] >= 0 {
				f.setRuntime("jvm", string(f.Source[m[i]:m[i+1]]), m[0], m[1])
			}
		}
	}
	offset := 0
	for line := range bytes.Lines(f.Source) {
		if trimmed := bytes.TrimSpace(line); !bytes.HasPrefix(trimmed, []byte("//")) {
			add := func(m []int, name string, version int) {
				before := line[:m[0]]
				d := Dependency{Name: name, Start: offset + m[0], End: offset + m[1], Development: gradleScope.Match(before)}
				if m[version] >= 0 {
					d.Version = gradleVersion(string(line[m[version]:m[version+1]]), versions)
				}
				d.BOM = bytes.Contains(before, []byte("latform")) || strings.HasSuffix(name, "-bom") || bytes.Contains(before, []byte("mavenBom"))
				f.addDependency(d)
			}
			for _, m := range coordinates.FindAllSubmatchIndex(line, 4) {
				add(m, string(line[m[2]:m[3]]), 4)
			}
			if m := gradleNamed.FindSubmatchIndex(line); m != nil {
				add(m, string(line[m[2]:m[3]])+":"+string(line[m[4]:m[5]]), 6)
			}
		}
		offset += len(line)
	}
}

// gradleVersion returns the version that a text or the variable with this name contains.
func gradleVersion(version string, variables map[string]string) string {
	if name, ok := strings.CutPrefix(version, "$"); ok {
		return variables[strings.Trim(name, "{}")]
	}
	if v, ok := variables[version]; ok {
		return v
	}
	return version
}

var gem = regexp.MustCompile(`^\s*gem\s*\(?\s*["']([A-Za-z0-9_.-]+)["'](?:\s*,\s*["']([^"']+)["'])?`)

var rubyVersion = regexp.MustCompile(`^\s*ruby\s*\(?\s*["']([^"']+)["']`)

func (f *File) gemfile() {
	offset := 0
	development := false
	for line := range bytes.Lines(f.Source) {
		trimmed := bytes.TrimSpace(line)
		if bytes.HasPrefix(trimmed, []byte("group ")) {
			development = !bytes.Contains(trimmed, []byte(":production"))
		} else if bytes.Equal(trimmed, []byte("end")) {
			development = false
		}
		if m := gem.FindSubmatchIndex(line); m != nil {
			d := Dependency{Name: string(line[m[2]:m[3]]), Start: offset + m[0], End: offset + m[1], Development: development}
			if m[4] >= 0 {
				d.Version = string(line[m[4]:m[5]])
			}
			d.Start += len(line[m[0]:m[1]]) - len(bytes.TrimLeft(line[m[0]:m[1]], " \t"))
			f.addDependency(d)
		} else if m := rubyVersion.FindSubmatchIndex(line); m != nil {
			f.setRuntime("ruby", string(line[m[2]:m[3]]), offset+m[0], offset+m[1])
		}
		offset += len(line)
	}
}

// xml reads the dependencies and the runtime of a POM or a .NET project file.
func (f *File) xml() error {
	d := xml.NewDecoder(bytes.NewReader(f.Source))
	d.Strict = false
	d.CharsetReader = func(_ string, r io.Reader) (io.Reader, error) { return r, nil }
	properties := map[string]string{}
	var path []string
	var texts []string // texts of the open elements
	var starts []int
	var open *Dependency // dependency of the open <dependency> element
	group, artifact, scope, kind := "", "", "", ""
	for {
		start := int(d.InputOffset())
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("failed to parse XML: %w", err)
		}
		end := int(d.InputOffset())
		switch t := token.(type) {
		case xml.StartElement:
			path, texts, starts = append(path, t.Name.Local), append(texts, ""), append(starts, start)
			switch t.Name.Local {
			case "dependency":
				open = &Dependency{Start: start, End: end}
				group, artifact, scope, kind = "", "", "", ""
			case "PackageReference", "PackageVersion":
				if name := cmp.Or(attribute(t, "Include"), attribute(t, "Update")); name != "" {
					f.addDependency(Dependency{Name: name, Version: attribute(t, "Version"), Start: start, End: end})
				}
			}
		case xml.CharData:
			if len(texts) > 0 && len(texts[len(texts)-1]) < 1000 {
				texts[len(texts)-1] += string(t[:min(len(t), 1000)])
			}
		case xml.EndElement:
			if len(path) == 0 {
				continue
			}
			name, text := path[len(path)-1], strings.TrimSpace(texts[len(texts)-1])
			parent := ""
			if len(path) > 1 {
				parent = path[len(path)-2]
			}
			begin := starts[len(starts)-1]
			path, texts, starts = path[:len(path)-1], texts[:len(texts)-1], starts[:len(starts)-1]
			switch {
			case parent == "dependency" && open != nil:
				switch name {
				case "groupId":
					group = text
				case "artifactId":
					artifact = text
					open.Start, open.End = begin, end
				case "version":
					open.Version = text
				case "scope":
					scope = text
				case "type":
					kind = text
				}
			case name == "dependency" && open != nil:
				open.Name = group + ":" + artifact
				open.Development = scope == "test"
				open.BOM = scope == "import" || kind == "pom"
				f.addDependency(*open)
				open = nil
			case parent == "PackageReference" && name == "Version" && len(f.Dependencies) > 0:
				f.Dependencies[len(f.Dependencies)-1].Version = text
			case parent == "properties":
				if len(properties) < maxYield {
					properties[name] = text
				}
				switch name {
				case "java.version", "maven.compiler.release", "maven.compiler.target", "maven.compiler.source":
					f.setRuntime("jvm", strings.TrimPrefix(text, "1."), begin, end)
				}
			case parent == "PropertyGroup":
				if version, ok := strings.CutPrefix(text, "net"); ok && (name == "TargetFramework" || name == "TargetFrameworks" && !strings.Contains(text, ";")) {
					version, _, _ = strings.Cut(version, "-")
					version = strings.TrimPrefix(version, "coreapp")
					if !strings.HasPrefix(version, "standard") {
						if len(version) >= 2 && !strings.Contains(version, ".") { // net472
							version = strings.Join(strings.Split(version, ""), ".")
						}
						f.setRuntime("dotnet", version, begin, end)
					}
				}
				if len(properties) < maxYield {
					properties[name] = text
				}
			}
		}
	}
	for i := range f.Dependencies {
		v := f.Dependencies[i].Version
		if len(v) > 3 && v[0] == '$' && (v[1] == '{' || v[1] == '(') {
			f.Dependencies[i].Version = properties[v[2:len(v)-1]]
		}
	}
	if strings.HasPrefix(f.RuntimeVersion, "${") {
		f.RuntimeVersion = properties[strings.Trim(f.RuntimeVersion, "${}")]
	}
	return nil
}
