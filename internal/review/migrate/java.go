// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"regexp"
	"strconv"
	"strings"

	"assay/internal/review/syntax"
)

// javaLibraryPackages are the package prefixes of the source libraries.
var javaLibraryPackages = []string{"io.opentracing", "io.jaegertracing", "io.opencensus", "brave", "zipkin2", "datadog.trace"}

func javaTable() *scriptTable {
	return &scriptTable{
		languages: []syntax.Language{syntax.Java},
		manifests: javaManifests,
		libraries: javaLibraryPackages,
		methods:   []string{".setTag(", ".finish(", ".buildSpan(", ".activateSpan(", ".asChildOf(", ".setOperationName(", ".setBaggageItem(", ".nextSpan(", ".putAttribute("},
		kinds:     []syntax.Kind{syntax.Call, syntax.New, syntax.Member, syntax.Name, syntax.Operator, syntax.With, syntax.Decorator},
		prepare:   javaPrepare,
		hoist:     javaHoist,
		call:      javaCall,
		imports:   javaImports,
		manifest:  javaManifest,
	}
}

// javaRow is the replacement of a method of a source library.
type javaRow struct {
	result string // type of the result of the call
	// to is the new call. "$r" is the receiver, "$0" an argument, "@Name" a class of javaTargets, "$scope" the name of
	// the tracer. A row without to and as has no replacement, and only gives the type of the result.
	to  string
	as  func(s *script, c *syntax.Node) (string, bool)
	doc string // replacement in the documentation, for a row with as
}

// javaSource is a class of a source library.
type javaSource struct {
	to    string // replacement in types, "" for none
	super string // superclass, "" for none
}

// javaTargets are the packages of the classes that rows name.
var javaTargets = map[string]string{
	"GlobalOpenTelemetry": "io.opentelemetry.api",
	"OpenTelemetry":       "io.opentelemetry.api",
	"Attributes":          "io.opentelemetry.api.common",
	"Span":                "io.opentelemetry.api.trace",
	"SpanBuilder":         "io.opentelemetry.api.trace",
	"SpanContext":         "io.opentelemetry.api.trace",
	"SpanKind":            "io.opentelemetry.api.trace",
	"StatusCode":          "io.opentelemetry.api.trace",
	"Tracer":              "io.opentelemetry.api.trace",
	"Context":             "io.opentelemetry.context",
	"Scope":               "io.opentelemetry.context",
	"WithSpan":            "io.opentelemetry.instrumentation.annotations",
	"Map":                 "java.util",
	"TimeUnit":            "java.util.concurrent",
}

// javaRowOf returns the row of a method with a number of arguments in a class or its superclasses, or nil.
func javaRowOf(class, method string, arguments int) *javaRow {
	for class != "" {
		if row, ok := javaRows[class+"."+method+"/"+strconv.Itoa(arguments)]; ok {
			return &row
		}
		class = javaClasses[class].super
	}
	return nil
}

// javaUse returns the name in the file for a class of OpenTelemetry or the JDK. It is qualified if the file uses the
// simple name for another class.
func (s *script) javaUse(name string) string {
	from := javaTargets[name]
	class := from + "." + name
	if i, ok := s.f.Imported(name); ok {
		if is, _ := s.table.isSource(i.Path); i.Path == from {
			return name
		} else if !is {
			return class
		}
	}
	if s.java.idents[name] {
		for _, i := range s.f.Imports {
			if i.Member == "*" && i.Path == from && s.javaClassOf(name) == nil {
				return name
			}
		}
		return class
	}
	s.used[class] = name
	return name
}

// javaScope returns the name of the instrumentation scope: the package, or the file name in the default package.
func (s *script) javaScope() string {
	if s.f.Package != "" {
		return strconv.Quote(s.f.Package)
	}
	return strconv.Quote(s.scope())
}

// javaPlaceholder matches a placeholder of javaRow.to, an argument with the dot after it.
var javaPlaceholder = regexp.MustCompile(`@\w+|\$(?:scope|r|\d\.?)`)

// expand fills in the template of a row.
func (s *script) expand(to string, c *syntax.Node) string {
	if !strings.Contains(to, "$r") {
		s.mark(c.Callee())
	}
	return javaPlaceholder.ReplaceAllStringFunc(to, func(p string) string {
		switch {
		case p[0] == '@':
			return s.javaUse(p[1:])
		case p == "$scope":
			return s.javaScope()
		case p == "$r":
			return s.receiverText(c)
		}
		a := c.Args()[p[1]-'0']
		text := s.text(a)
		if len(p) > 2 && a.Kind != syntax.Name && a.Kind != syntax.Member && a.Kind != syntax.Call {
			text = "(" + text + ")"
		}
		return text + p[2:]
	})
}

// javaUnknown maps methods that are rare outside of spans and tracers to their number of arguments.
var javaUnknown = map[string]int{"buildSpan": 1, "activateSpan": 1, "activeSpan": 0, "asChildOf": 1, "setTag": 2, "setOperationName": 1, "setBaggageItem": 2, "ignoreActiveSpan": 0, "nextSpan": 0, "withSpanInScope": 1, "putAttribute": 2}

func javaCall(s *script, n *syntax.Node) (string, bool) {
	switch n.Kind {
	case syntax.Call:
		return s.javaInvoke(n)
	case syntax.New:
		if t := s.typeOf(n); isLibrary(s, t) {
			return s.fail(n, "%s is in no table.", s.brief(n))
		}
		s.passed(n)
	case syntax.Operator:
		return s.javaNull(n)
	case syntax.Decorator:
		return s.javaAnnotation(n)
	case syntax.With:
		return s.javaResource(n)
	case syntax.Name, syntax.Member:
		if n.Parent != nil && (n.Parent.Kind == syntax.Call && n.Parent.Children[0] == n || n.Parent.Kind == syntax.New && n.Parent.Children[0] == n) {
			return "", false
		}
		if name, ok := s.javaStatic(n); ok {
			if value, ok := javaConstants[name]; ok && javaConstantType(name) == "String" {
				s.mark(n)
				return strconv.Quote(value), true
			}
			return s.fail(n, "%s is in no table, or used in a way that no table knows.", s.brief(n))
		}
		if n.Kind == syntax.Member && isLibrary(s, s.typeOf(n.Children[0])) && n.Text != "class" { // a method reference
			of := s.typeOf(n.Children[0])
			if row := javaRowOf(of, n.Text, 0); row != nil && strings.HasPrefix(row.to, "$r.") && strings.HasSuffix(s.f.Code(n), "::"+n.Text) {
				to := strings.TrimSuffix(strings.TrimPrefix(row.to, "$r."), "()")
				return replace(s.f.Source, n.Start, n.End-len(n.Text), s.collect(n.Children[0])) + to, true
			}
			return s.fail(n, "%s is in no table.", s.brief(n))
		}
	}
	return "", false
}

// isLibrary reports whether a type belongs to a source library.
func isLibrary(s *script, t string) bool {
	return s.isSource(strings.TrimPrefix(t, "class "))
}

// javaInvoke rewrites a call.
func (s *script) javaInvoke(c *syntax.Node) (string, bool) {
	receiver, name := c.Method()
	args := c.Args()
	if receiver == nil {
		for _, i := range s.f.Imports {
			if _, ok := javaClasses[i.Path]; ok && (i.Name == name || i.Member == "*" && javaRowOf(i.Path, name, len(args)) != nil) {
				return s.fail(c, "%s.%s is in no table as an imported name.", i.Path, name)
			}
		}
		s.passed(c)
		return "", false
	}
	of := s.typeOf(receiver)
	class := strings.TrimPrefix(of, "class ")
	if isLibrary(s, class) {
		row := javaRowOf(class, name, len(args))
		switch {
		case row == nil || row.to == "" && row.as == nil:
			return s.fail(c, "%s is in no table.", s.brief(c.Callee()))
		case row.as != nil:
			return row.as(s, c)
		}
		return s.expand(row.to, c), true
	}
	if arity, ok := javaUnknown[name]; ok && len(args) == arity && of == "" {
		return s.fail(c, "%s may be a method of a span or tracer: what it is called on is not known.", s.brief(c.Callee()))
	}
	if of == "" && s.suspect(receiver, name, len(args)) {
		return s.fail(c, "%s may be a method of a library: the type of %s is not known.", s.brief(c.Callee()), s.brief(receiver))
	}
	if name == "finish" && of == "" && receiver.Kind == syntax.Name && spanNames.MatchString(receiver.Text) {
		return s.fail(c, "%s may be a method of a span: what it is called on is not known.", s.brief(c.Callee()))
	}
	s.passed(c)
	return "", false
}

// suspect reports whether a call on a variable of unknown type, such as a lambda parameter, may be of a library method
// that the migration changes.
func (s *script) suspect(receiver *syntax.Node, name string, arguments int) bool {
	if receiver.Kind != syntax.Name {
		return false
	}
	if _, d := s.javaDefinition(receiver); d == nil {
		return false
	}
	for class := range s.unit.java.used {
		if row := javaRowOf(class, name, arguments); row != nil && row.to != "$r."+name+"()" {
			return true
		}
	}
	return false
}

// passed blocks the unit if a call passes a value of a source library to code outside of the unit and the JDK.
func (s *script) passed(c *syntax.Node) {
	for _, a := range c.Args() {
		if a.Kind == syntax.Call || a.Kind == syntax.Name || a.Kind == syntax.Member || a.Kind == syntax.New {
			if t := s.typeOf(a); isLibrary(s, t) && !strings.HasPrefix(t, "class ") && !s.javaReads(c) {
				s.fail(a, "%s is passed to %s, which is not read.", s.brief(a), s.brief(c.Callee()))
				return
			}
		}
	}
}

// javaReads reports whether a call is of the unit, the JDK or a statically imported test library.
func (s *script) javaReads(c *syntax.Node) bool {
	if c.Kind == syntax.New {
		name := s.javaType(s.f.Code(c.Callee()))
		return s.javaClassOf(name) != nil || s.ofJDK(name)
	}
	receiver, name := c.Method()
	if name == "this" || name == "super" || s.unit.java.methods[name] {
		return true
	}
	if receiver == nil {
		i, ok := s.f.Imported(name)
		return ok && (strings.HasPrefix(i.Path, "java.") || strings.HasPrefix(i.Path, "org.junit.") || strings.HasPrefix(i.Path, "org.assertj."))
	}
	return s.ofJDK(strings.TrimPrefix(s.typeOf(receiver), "static "))
}

// ofJDK reports whether a simple name is of a class in java.lang, or imported from the JDK.
func (s *script) ofJDK(name string) bool {
	if i, ok := s.f.Imported(name); ok {
		return strings.HasPrefix(i.Path, "java.")
	}
	switch name {
	case "String", "StringBuilder", "System", "Thread", "ThreadLocal", "Object":
		return true
	}
	for _, i := range s.f.Imports {
		if i.Member == "*" && i.Path == "java.util" && (strings.HasSuffix(name, "List") || strings.HasSuffix(name, "Map") || strings.HasSuffix(name, "Set") || name == "Optional" || name == "Objects") {
			return true
		}
	}
	return false
}
