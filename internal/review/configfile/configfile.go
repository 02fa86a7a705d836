// SPDX-License-Identifier: Apache-2.0

package configfile

import (
	"iter"
	"path"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Kind is the kind of a configuration file.
type Kind string

// The kinds of configuration files.
const (
	Manifest   Kind = "manifest"   // package.json, go.mod, pyproject.toml, setup.py, requirements.txt, pom.xml, build.gradle, *.csproj, Gemfile, composer.json
	Dockerfile Kind = "dockerfile" // Dockerfile, *.Dockerfile, Containerfile
	Compose    Kind = "compose"
	Kubernetes Kind = "kubernetes" // each document of a YAML file with apiVersion and kind
	HelmValues Kind = "helm values"
	Env        Kind = "env"     // .env files
	Logging    Kind = "logging" // logback, Log4j 2, Spring Boot properties
	SDK        Kind = "sdk configuration"
	Collector  Kind = "collector"
	Template   Kind = "template" // template of a deployment file with OTEL_ variables; only Path and Source are set
)

// The ecosystems of manifests.
const (
	Go       = "go"
	NPM      = "npm"
	PyPI     = "pypi"
	Maven    = "maven"
	NuGet    = "nuget"
	RubyGems = "rubygems"
	Composer = "composer"
)

// File is a configuration file or a document of a YAML file. It is read-only and safe for concurrent use.
type File struct {
	Path   string // separated by slashes
	Kind   Kind
	Source []byte // source of the whole file
	// YAML is the mapping of a YAML document, nil for other formats.
	YAML *yaml.Node
	// Name is the name of the document in its file, such as "Deployment/checkout", "" if the document has no name.
	Name string
	// Partial is set for a Collector configuration that may be incomplete: the defaults of a chart or other files may
	// have more settings.
	Partial bool
	// OnKubernetes is set for a Collector configuration in a Kubernetes object or in Helm values.
	OnKubernetes bool
	// Ecosystem names the package registry of a manifest.
	Ecosystem string
	// Dependencies holds the dependencies of a manifest.
	Dependencies []Dependency
	// Environment holds the environment variables of a deployment file, or the levels of a Logging file with the names
	// of loggers.
	Environment []Variable
	// Services holds the containers of a deployment file.
	Services []Service
	// Runtime is the language runtime that a manifest or image requires: "go", "nodejs", "cpython", "jvm", "dotnet",
	// "ruby" or "php". RuntimeVersion is its version as written. RuntimeStart and RuntimeEnd are the range of the
	// declaration.
	Runtime, RuntimeVersion  string
	RuntimeStart, RuntimeEnd int

	lines lineIndex
	left  *int // remaining number of items, shared by the documents of the file
}

// Dependency is a dependency of a manifest.
type Dependency struct {
	Name    string // "group:artifact" for Maven
	Version string // as written, such as "^1.2.3", or the value of a property of the same file; "" if there is none
	// Start and End are the range of the name, including the version if it follows on the same line.
	Start, End  int
	Development bool
	Indirect    bool // marked as indirect in go.mod
	BOM         bool // Maven BOM or Gradle platform
}

// Variable is an environment variable of a service, or the level of a logger.
type Variable struct {
	Service    string // name of the container, Compose service or workload, "" if the file has only one
	Name       string
	Value      string
	Literal    bool // false if the value refers to another variable, a secret or a file
	Left       bool // set in a stage of a Dockerfile that is not part of the image
	Start, End int  // range of the value
}

// Service is a container of a deployment file.
type Service struct {
	Name       string
	Image      string // "" if it is built from source
	Build      string // directory from which it is built, "" if unknown
	Start, End int    // range of its name
}

// Limits per file.
const (
	maxDocuments  = 500       // documents of a YAML file, including nested documents
	maxYield      = 20_000    // sum of variables, services and dependencies
	maxDepth      = 64        // depth of Walk in a YAML document
	maxExpanded   = 1_000_000 // nodes of a YAML document with all aliases expanded
	maxMerged     = 2_000     // pairs of a mapping from aliases and merges
	maxMergeDepth = 8         // depth of aliases and merges
	maxNested     = 16        // nested documents in block scalars
)

var (
	manifestNames = regexp.MustCompile(`(?i)^(package\.json|go\.mod|pyproject\.toml|pipfile|setup\.(cfg|py)|pom\.xml|libs\.versions\.toml|gemfile|composer\.json|directory\.packages\.props|requirements[^/]*\.(txt|in)|build\.gradle(\.kts)?|.*\.(csproj|fsproj|vbproj))$`)
	// requirementNames matches files in a requirements directory.
	requirementNames = regexp.MustCompile(`(?i)(^|/)requirements/[^/]+\.(txt|in)$`)
	dockerNames      = regexp.MustCompile(`(?i)^((docker|container)file([.-].*)?|.*\.(docker|container)file)$`)
	envNames         = regexp.MustCompile(`(?i)^(\.env(\..+)?|.+\.env)$`)
	composeNames     = regexp.MustCompile(`(?i)^(docker-|container-|podman-)?compose([._-].*)?\.ya?ml$`)
	valuesNames      = regexp.MustCompile(`(?i)^(.+[._-])?values([._-].*)?\.ya?ml$`)
	loggingNames     = regexp.MustCompile(`(?i)^(logback[^/]*\.xml|log4j2?[^/]*\.(xml|properties)|application[^/]*\.(properties|ya?ml))$`)
	yamlNames        = regexp.MustCompile(`(?i)\.(ya?ml|json)$`)
)

// Above yields a directory and its parent directories, up to the root of the repository.
func Above(dir string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for yield(dir) && dir != "." && dir != "/" {
			dir = path.Dir(dir)
		}
	}
}

// Candidate reports whether Parse may find a configuration in a file with this path.
func Candidate(file string) bool {
	base := path.Base(file)
	for _, names := range []*regexp.Regexp{manifestNames, dockerNames, envNames, loggingNames} {
		if names.MatchString(base) {
			return true
		}
	}
	if requirementNames.MatchString(file) {
		return true
	}
	lower := strings.ToLower(base)
	return strings.HasSuffix(lower, ".yaml") || strings.HasSuffix(lower, ".yml") ||
		strings.HasSuffix(lower, ".json") && (strings.Contains(lower, "otel") || strings.Contains(lower, "collector"))
}

// InSource reports whether a source file with this path is also a manifest. Other source files may only have the name
// of a configuration, such as dockerfile.go.
func InSource(file string) bool { return strings.EqualFold(path.Base(file), "setup.py") }

// Parse returns the configurations in a file, one for each document of a YAML file. It returns none for a file that no
// check reads. If a YAML file has an error, Parse returns the error and the documents before it. The result refers to
// source.
func Parse(file string, source []byte) ([]*File, error) {
	if !Candidate(file) {
		return nil, nil
	}
	base := path.Base(file)
	f := &File{Path: file, Source: source}
	var err error
	switch {
	case manifestNames.MatchString(base), requirementNames.MatchString(file):
		f.Kind = Manifest
		err = f.manifest(strings.ToLower(base))
	case dockerNames.MatchString(base):
		f.Kind = Dockerfile
		f.dockerfile()
	case envNames.MatchString(base):
		f.Kind = Env
		f.dotenv()
	case loggingNames.MatchString(base) && !yamlNames.MatchString(base):
		f.Kind = Logging
		err = f.logging(strings.ToLower(base), 0)
	default:
		return parseYAML(file, source)
	}
	if err != nil {
		return nil, err
	}
	return []*File{f}, nil
}

// full counts an item and reports whether the file has more items than maxYield.
func (f *File) full() bool {
	if f.left == nil {
		f.left = new(maxYield)
	}
	*f.left--
	return *f.left < 0
}

func (f *File) addVariable(v Variable) {
	if !f.full() {
		f.Environment = append(f.Environment, v)
	}
}

func (f *File) addService(s Service) {
	if !f.full() {
		f.Services = append(f.Services, s)
	}
}

func (f *File) addDependency(d Dependency) {
	if !f.full() {
		f.Dependencies = append(f.Dependencies, d)
	}
}

// literal reports whether a value contains no reference to a variable or template expression.
func literal(value string) bool {
	for i := range len(value) {
		switch value[i] {
		case '$':
			if i+1 < len(value) && (value[i+1] == '{' || value[i+1] == '(' || value[i+1] == '_' || isLetter(value[i+1])) {
				return false
			}
		case '{', '%', '<':
			if strings.HasPrefix(value[i:], "{{") || strings.HasPrefix(value[i:], "<%") || strings.HasPrefix(value[i:], "%%") {
				return false
			}
		}
	}
	return true
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
