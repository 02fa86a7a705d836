// SPDX-License-Identifier: Apache-2.0

package instrument

import (
	"bytes"
	"encoding/json"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/mod/semver"

	"assay/internal/lists"
	"assay/internal/review/configfile"
)

var (
	// goImage matches a Go image: its name, its version, and the rest of its tag. goOfficial is the name of the
	// official image.
	goImage    = regexp.MustCompile(`^(.*\bgolang:)(1\.\d+(?:\.\d+)?)([@-].*)?$`)
	goOfficial = regexp.MustCompile(`^(?:docker\.io/)?(?:library/)?golang:$`)
	// goCommand matches a command that compiles, in the forms of a shell and of a JSON array.
	goCommand = regexp.MustCompile(`\bgo[ \t]+(?:build|install|run)\b(?:\\\r?\n|[^&|;\r\n])*|"go",[ \t]*"(?:build|install|run)"[^\]\r\n]*`)
	// goSource matches a file of Go in such a command.
	goSource  = regexp.MustCompile(`[ \t"'](?:\./)?([\w./-]+\.go)\b`)
	imageCopy = regexp.MustCompile(`(?im)^[ \t]*(?:COPY|ADD)[ \t]+((?:\\\r?\n|[^\r\n])*)`)
	imageArg  = regexp.MustCompile(`(?im)^[ \t]*ARG[ \t]+(\w+)=["']?([^\s"']+)`)
	// goFetches matches commands that write go.sum.
	goFetches = regexp.MustCompile(`\bgo (?:get|mod tidy)\b`)
	withoutC  = regexp.MustCompile(`CGO_ENABLED[= ]"?0`)
)

// goImages adjusts the images of a module to the change: the Go version, if the change raises it, and the files that the
// images compile and copy.
func (s *service) goImages(m *configfile.File, raised bool) {
	images := s.dockerfiles(runtimeGo)
	for _, f := range images {
		if raised {
			s.raiseImage(f)
		}
		s.compileSetup(f)
		s.copyAdded(f, m)
	}
	for _, f := range s.configs {
		if !raised || f.Kind != configfile.Dockerfile || slices.Contains(images, f) || !s.near(path.Dir(f.Path)) {
			continue
		}
		for _, stage := range olderStages(f) {
			s.leave(f.Path, lineOf(f.Source, stage.start), "Use Go "+goMinor+" or newer if the image compiles a program of `"+m.Path+"`, whose added modules need it: `"+stage.base+"` is older")
		}
	}
}

// near reports whether a directory contains the module, or is in it and in no nested module.
func (s *service) near(dir string) bool {
	if dir == "." || strings.HasPrefix(s.dir, dir+"/") {
		return true
	}
	for dir := range configfile.Above(dir) {
		if slices.ContainsFunc(s.configs, func(f *configfile.File) bool { return f.Ecosystem == configfile.Go && path.Dir(f.Path) == dir }) {
			return dir == s.dir
		}
	}
	return s.dir == "."
}

// goMinor is goRelease in the form of image tags.
var goMinor = strings.TrimSuffix(goRelease, ".0")

// goStage is a stage of an image with an older Go than goRelease.
type goStage struct {
	start, end  int    // the range of its base
	base        string // as written
	image, rest string // its name, and its tag after the version
	last        bool
}

// olderStages returns the stages whose Go is older than the added modules require. It omits those that download the
// required toolchain.
func olderStages(f *configfile.File) (older []goStage) {
	if mentions(f, "GOTOOLCHAIN=auto") {
		return nil
	}
	args := map[string]string{}
	for _, m := range imageArg.FindAllSubmatch(f.Source, -1) {
		args[string(m[1])] = string(m[2])
	}
	found := dockerStage.FindAllSubmatchIndex(f.Source, -1)
	for i, at := range found {
		base := string(f.Source[at[2]:at[3]])
		image := goImage.FindStringSubmatch(os.Expand(base, func(name string) string { return args[name] }))
		if image != nil && semver.Compare("v"+image[2], "v"+goRelease) < 0 {
			older = append(older, goStage{at[2], at[3], base, image[1], image[3], i == len(found)-1})
		}
	}
	return older
}

// raiseImage raises the version of Go in an image, or adds a step. The newer image may have a newer Debian: a program
// that is linked with its C library does not start in a later stage with an older one.
func (s *service) raiseImage(f *configfile.File) {
	for _, stage := range olderStages(f) {
		line := lineOf(f.Source, stage.start)
		if goOfficial.MatchString(stage.image) && !strings.Contains(stage.base, "$") && (stage.rest == "-alpine" || stage.rest == "" && (stage.last || withoutC.Match(f.Source))) {
			s.edit(f.Path, f.Source, stage.start, stage.end, stage.image+goMinor+stage.rest)
			s.did(f.Path, line, "Compile the program with Go "+goMinor+", which the added modules need")
		} else {
			s.leave(f.Path, line, "Compile the program with Go "+goMinor+" or newer, which the added modules need: the change does not know which image takes the place of `"+stage.base+"`")
		}
	}
}

// compileSetup adds the setup of the SDK to commands that compile single files.
func (s *service) compileSetup(f *configfile.File) {
	for _, command := range goCommand.FindAllIndex(f.Source, -1) {
		line := f.Source[bytes.LastIndexByte(f.Source[:command[0]], '\n')+1 : command[0]]
		if bytes.HasPrefix(bytes.TrimSpace(line), []byte("#")) {
			continue
		}
		for _, at := range goSource.FindAllSubmatchIndex(f.Source[command[0]:command[1]], -1) {
			from, to := command[0]+at[2], command[0]+at[3]
			name := string(f.Source[from:to])
			programs := s.programs(name)
			i := slices.IndexFunc(s.started, func(p started) bool { return slices.Contains(programs, p.program) })
			if i < 0 {
				continue
			}
			if len(programs) > 1 {
				s.leave(f.Path, lineOf(f.Source, from), "Compile the package in place of `"+name+"`: the setup of the SDK is in a file of its own")
				continue
			}
			setup := strings.TrimSuffix(string(f.Source[command[0]+at[0]+1:to]), path.Base(name)) + path.Base(s.started[i].setup)
			if f.Source[command[0]] == '"' {
				s.edit(f.Path, f.Source, to, to, `", "`+setup)
			} else {
				s.edit(f.Path, f.Source, to, to, " "+setup)
			}
			s.did(f.Path, lineOf(f.Source, from), "Compile `"+path.Base(setup)+"` with the program")
		}
	}
}

// programs returns the files of the module with a path that ends in name.
func (s *service) programs(name string) []string {
	return lists.Filter(s.paths(), func(file string) bool { return strings.HasSuffix("/"+file, path.Join("/", name)) })
}

// copyAdded adds a step for an image that copies only parts of the module and lacks added files.
func (s *service) copyAdded(f *configfile.File, m *configfile.File) {
	sources, ok := copiedSources(f)
	if !ok {
		return
	}
	for context := range configfile.Above(s.dir) {
		if has := func(name string) bool { return copied(sources, below(context, name)) }; has(m.Path) {
			var missing []string
			for _, name := range s.addedTo(has) {
				if !has(name) {
					missing = append(missing, "`"+below(context, name)+"`")
				}
			}
			if sum := path.Join(s.dir, "go.sum"); !has(sum) && !s.exists("vendor/modules.txt") && !goFetches.Match(f.Source) {
				missing = append(missing, "`"+below(context, sum)+"`")
			}
			if len(missing) > 0 {
				s.leave(f.Path, 0, "Copy "+strings.Join(missing, ", ")+" to the image: the program needs what the change adds, and the image copies only parts of the module")
			}
			return
		}
	}
}

// addedTo returns the added files that the changed files of an image need. has reports whether the image has a file.
func (s *service) addedTo(has func(name string) bool) (names []string) {
	for _, name := range s.paths() {
		if file := s.files[name]; file != nil && has(name) && bytes.Contains(file.After, []byte("/"+goHelperDir+`"`)) {
			names = append(names, path.Join(s.dir, goHelperDir))
			break
		}
	}
	for _, p := range s.started {
		if has(p.program) {
			names = append(names, p.setup)
		}
	}
	return names
}

// copiedSources returns the paths that an image copies from its build context. It returns false if they are unknown.
func copiedSources(f *configfile.File) (sources []string, ok bool) {
	for _, m := range imageCopy.FindAllSubmatch(f.Source, -1) {
		text := string(m[1])
		words := strings.Fields(strings.ReplaceAll(text, "\\", " "))
		for len(words) > 0 && strings.HasPrefix(words[0], "--") {
			words = words[1:]
		}
		switch {
		case strings.Contains(text, "--from="):
			continue
		case len(words) < 2 || strings.ContainsAny(text, "$<"):
			return nil, false
		case strings.HasPrefix(words[0], "["):
			if json.Unmarshal([]byte(strings.Join(words, " ")), &words) != nil || len(words) == 0 {
				return nil, false
			}
		}
		for _, source := range words[:len(words)-1] {
			sources = append(sources, strings.TrimPrefix(path.Clean("/"+source), "/"))
		}
	}
	return sources, !mentions(f, "type=bind")
}

// copied reports whether the sources of an image include a file or directory, or a directory above it.
func copied(sources []string, name string) bool {
	for name := range configfile.Above(name) {
		if slices.ContainsFunc(sources, func(source string) bool {
			ok, err := path.Match(source, name)
			return source == "" || ok && err == nil
		}) {
			return true
		}
	}
	return false
}

// below returns a path relative to a directory above it.
func below(dir, name string) string {
	if dir == "." {
		return name
	}
	return strings.TrimPrefix(name, dir+"/")
}
