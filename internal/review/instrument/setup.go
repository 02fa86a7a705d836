// SPDX-License-Identifier: Apache-2.0

package instrument

import (
	"bytes"
	"regexp"
	"slices"
	"strings"

	"assay/internal/review/configfile"
	"assay/internal/review/syntax"
)

// setups match code that sets up the SDK of a program, by ecosystem.
var setups = map[string]*regexp.Regexp{
	configfile.NPM:   regexp.MustCompile(`\bnew (NodeSDK|NodeTracerProvider)\b`),
	configfile.PyPI:  regexp.MustCompile(`\bset_(tracer|meter)_provider\s*\(`),
	configfile.Maven: regexp.MustCompile(`\b(AutoConfiguredOpenTelemetrySdk|OpenTelemetrySdk\s*\.builder|SdkTracerProvider\s*\.builder)\b`),
}

const setUpHere = "Nothing is added to the program: this code sets up the SDK"

// place is a line of a file.
type place struct {
	file string
	line int
}

// setUpIn returns the place where the service, or a project that it uses, sets up the SDK. It returns "" if there is
// none.
func (s *service) setUpIn() (file string, line int) {
	for _, at := range append([]*service{s}, s.used()...) {
		if found := at.ownSetUp(); found.file != "" && (at == s || s.starts(at)) {
			return found.file, found.line
		}
	}
	return "", 0
}

// ownSetUp returns the place in the service's own code that sets up the SDK.
func (s *service) ownSetUp() place {
	if s.setUps == nil {
		s.setUps = &place{}
		for name, text := range s.code() {
			if at := setups[s.manifests[0].Ecosystem].FindIndex(text); at != nil {
				s.setUps = &place{name, lineOf(text, at[0])}
				break
			}
		}
	}
	return *s.setUps
}

// maxStarters limits the packages of a repository whose callers are searched for the start of the SDK.
const maxStarters = 8

// sdkStart holds the functions and classes of a package that set up the SDK.
type sdkStart struct {
	names []string                    // none if the SDK may start without a call by name
	calls map[configfile.Project]bool // whether the code of a project names one of them
}

// starts reports whether a program of the service may start the SDK that a used package sets up. It returns false if
// only functions and classes set up the SDK, and neither the service nor a package refers to them.
func (s *service) starts(at *service) bool {
	names := at.startedBy()
	return len(names) == 0 || slices.ContainsFunc(append([]*service{s}, s.used()...), func(by *service) bool {
		calls, known := at.start.calls[by.project()]
		if !known {
			calls = by.names(names)
			at.start.calls[by.project()] = calls
		}
		return calls
	})
}

// startedBy returns the functions and classes that set up the SDK.
func (s *service) startedBy() []string {
	if s.start != nil {
		return s.start.names
	}
	s.start = &sdkStart{calls: map[configfile.Project]bool{}}
	ecosystem := s.manifests[0].Ecosystem
	if ecosystem != configfile.NPM && ecosystem != configfile.PyPI || s.searched == maxStarters { // Java has containers that create classes
		return nil
	}
	var names []string
	for name, text := range s.code() {
		found := setups[ecosystem].FindAllIndex(text, -1)
		if found == nil {
			continue
		}
		f, err := syntax.Parse(s.ctx, s.parser, name, syntax.LanguageOf(name), text)
		if err != nil || f.Broken {
			return nil
		}
		for _, at := range found {
			var in *syntax.Node
			for n := range f.Root.All() {
				if n.Start <= at[0] && at[0] < n.End {
					in = n
				}
			}
			starter := ""
			if in != nil && !f.Exhausted() {
				starter = declaration(f, in)
			}
			if starter == "" {
				return nil
			}
			names = append(names, starter)
		}
	}
	if len(names) > 0 {
		s.searched++
	}
	s.start.names = names
	return names
}

// names reports whether the code refers to one of the functions and classes outside of their declarations.
func (s *service) names(declarations []string) bool {
	for name, text := range s.code() {
		has := func(after string) bool {
			return slices.ContainsFunc(declarations, func(d string) bool { return bytes.Contains(text, []byte(d+after)) })
		}
		if !has("") {
			continue
		}
		f, err := syntax.Parse(s.ctx, s.parser, name, syntax.LanguageOf(name), text)
		if err != nil || f.Broken || has(" as ") { // another name
			return true
		}
		for n := range f.Root.All(syntax.Name, syntax.Member) {
			defines := (n.Parent.Kind == syntax.Assign || n.Parent.Kind == syntax.Declare) && slices.Contains(n.Parent.Targets(), n)
			if slices.Contains(declarations, n.Text) && !defines && declaration(f, n) != n.Text {
				return true
			}
		}
		if f.Exhausted() {
			return true
		}
	}
	return false
}

// declaration returns the name of the top-level function or class that contains a node. It returns "" if the node runs
// when the module is loaded, or in code that can be called without this name.
func declaration(f *syntax.File, n *syntax.Node) string {
	var outer *syntax.Node
	called := false
	for p := n.Enclosing(syntax.Func, syntax.Class); p != nil; p = p.Enclosing(syntax.Func, syntax.Class) {
		outer, called = p, called || p.Kind == syntax.Func
	}
	if !called || slices.ContainsFunc(outer.Children, func(c *syntax.Node) bool { // a framework calls what it decorates or derives
		return outer.Kind == syntax.Func && c.Kind == syntax.Decorator || outer.Kind == syntax.Class && (c.Kind == syntax.Name || c.Kind == syntax.Member)
	}) {
		return ""
	}
	in, name := outer.Parent, outer.Text
	switch in.Kind {
	case syntax.Assign:
		target := f.Code(in.Children[0])
		name = in.Children[0].Text
		if exported := strings.TrimPrefix(strings.TrimPrefix(target, "module."), "exports."); exported != name || name == "exports" {
			return ""
		}
	case syntax.Pair:
		name = in.Children[0].Text
	}
	for in.Kind == syntax.Pair || in.Kind == syntax.Object {
		in = in.Parent
	}
	if in.Kind != syntax.Assign && in != f.Root || bytes.HasSuffix(bytes.TrimSpace(f.Source[:outer.Start]), []byte("default")) {
		return ""
	}
	return name
}
