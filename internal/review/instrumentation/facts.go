// SPDX-License-Identifier: Apache-2.0

package instrumentation

import (
	"slices"
	"strings"

	"assay/internal/review/syntax"
)

// Uses are the uses of telemetry in a file. Nodes are nodes of File.
type Uses struct {
	File        *syntax.File
	Spans       []*Span
	Renames     []*syntax.Node // names that spans get after their start
	Attributes  []Attribute
	Keys        []*syntax.Node // names that are made into keys of attributes, apart from those in Attributes
	Instruments []*Instrument
	Logs        []Log
	LogLevels   []LogLevel
	Resources   []Resource
	Boundaries  []Boundary
	// Instrumented has the names of the libraries whose instrumentation the file sets up: "net/http", "express",
	// "auto" for an SDK that instruments every library it knows.
	Instrumented []string

	packages Packages
}

// Packages knows the packages of a repository. Modules are import paths as syntax.Import has them.
type Packages interface {
	// Constant looks up a constant string of another file.
	Constant(module, name string) (c Constant, ok bool)
	// Own reports whether a package is of the repository. It is unknown if the packages of the repository are.
	Own(module string) (own, known bool)
}

// Constant is a constant string.
type Constant struct {
	Value string
	Key   bool // its type is the one of attribute keys
}

// Span is a call that starts a span.
type Span struct {
	Start    *syntax.Node // the Call
	Tracer   *syntax.Node // the expression of the tracer; nil if a function of the project or an annotation starts the span
	Name     *syntax.Node // the expression of the name; nil if an annotation gives none
	Scope    string       // name of the instrumentation scope, "" if unknown
	Kind     string       // "server", "client", "producer", "consumer"; "" for internal or unknown
	Context  *syntax.Node // the parent context that the call gets, nil if none
	Variable string       // the variable or field that holds the span, "" if none does
	// Body is the code during which the span is the current one: a callback's Func, the Block of a With, otherwise the
	// rest of the Block in which the span was started.
	Body *syntax.Node
	// EndsItself is set when the API or an annotation ends the span when Body ends.
	EndsItself bool
	// RecordsErrors is set when the API or an annotation records errors that leave Body.
	RecordsErrors bool
	Ends          []*syntax.Node // calls of end, in Defer and Finally as well
	Errors        []*syntax.Node // calls that record an error or set the status to error
	// Escapes is set when the span is returned, stored in a structure, or handed to code that may end it.
	Escapes bool
}

// Target is the kind of object on which an attribute is set.
type Target uint8

// The targets of attributes. OnUnknown is an attribute that the code makes and hands on.
const (
	OnUnknown Target = iota
	OnSpan
	OnEvent
	OnMetric
	OnResource
	OnLog
)

// String returns the target for a message.
func (t Target) String() string {
	return [...]string{"telemetry", "span", "event", "metric", "resource", "log record"}[t]
}

// Attribute is an attribute that is set.
type Attribute struct {
	On         Target
	Node       *syntax.Node // the range to remove with the attribute: an argument, a pair, or a whole call
	Key        *syntax.Node // never nil
	Value      *syntax.Node // nil if the code does not show it
	Span       *Span        // nil if unknown
	Instrument *Instrument  // nil if unknown
}

// Instrument is a call that creates a metric instrument.
type Instrument struct {
	Call *syntax.Node
	Kind string // "counter", "updowncounter", "histogram", "gauge"
	Name *syntax.Node
	Unit *syntax.Node // nil if none is given
	// Opaque is set when the options are not visible, such as a spread or a variable of another file: a unit may
	// be given there.
	Opaque     bool
	Boundaries *syntax.Node // explicit bucket boundaries, nil if none
	Scope      string
	Variable   string // the variable or field that holds it, "" if none does
}

// Log is a call that writes a log record.
type Log struct {
	Call    *syntax.Node
	Level   string         // "trace", "debug", "info", "warn", "error", "fatal"; "" if unknown
	Message *syntax.Node   // nil if none
	Args    []*syntax.Node // further values of the record: format arguments, fields (Pair, or the value alone)
	Printed bool           // written to the standard output of a service, without a logger
}

// LogLevel is code that configures the level of a logger.
type LogLevel struct {
	Node  *syntax.Node // the range of the level
	Level string       // as in Log
	// Conditional is set when a condition, an environment variable or a flag decides.
	Conditional bool
}

// Resource is SDK setup that gives a resource, or a provider that is set up without one.
type Resource struct {
	Node *syntax.Node // nil for detectors whose resource is made in another place
	// Attributes are those with a known key.
	Attributes map[string]*syntax.Node
	Detectors  []*syntax.Node // detectors that it enables
	// FromEnvironment is set when OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME are read.
	FromEnvironment bool
	// Opaque is set when attributes come from code that is not visible.
	Opaque bool
}

// Boundary is where a service receives or sends: a server, a consumer, a client of a database.
type Boundary struct {
	Node    *syntax.Node
	Kind    string // "http server", "grpc server", "queue consumer", "database client", "http client"
	Library string // the module: "net/http", "express", "psycopg2"
	// Instrumented is set when the call itself carries instrumentation, such as an otelhttp handler.
	Instrumented bool
}

// SpanKind returns the kind of the spans for what the boundary receives or sends: "server", "client", "consumer".
func (b *Boundary) SpanKind() string { return b.Kind[strings.LastIndexByte(b.Kind, ' ')+1:] }

// Find returns the uses of telemetry in a file. Packages may be nil.
func Find(f *syntax.File, packages Packages) *Uses {
	u := &Uses{File: f, packages: packages}
	switch f.Language {
	case syntax.Go:
		findGo(u)
	case syntax.JavaScript, syntax.TypeScript:
		findJavaScript(u)
	case syntax.Python:
		findPython(u)
	case syntax.Java:
		findJava(u)
	}
	u.Attributes = slices.DeleteFunc(u.Attributes, func(a Attribute) bool { return a.Key == nil }) // calls that are not valid
	return u
}

// Known returns the value of an expression that is a literal or a constant, of this file or another one.
func (u *Uses) Known(n *syntax.Node) (string, bool) {
	if n == nil {
		return "", false
	}
	if v := u.File.Value(n); v != nil && joins(v) && u.File.Element(n) == nil {
		n = v
	}
	if joins(n) {
		return u.joined(n)
	}
	return u.constant(n)
}

// constant returns the value of a literal or of a constant.
func (u *Uses) constant(n *syntax.Node) (string, bool) {
	if s, ok := u.File.Known(n); ok {
		return s, true
	}
	c, ok := u.shared(n)
	return c.Value, ok
}

// SharedKey reports whether an expression is an attribute key that another file defines as one: attribute.Key("k").
func (u *Uses) SharedKey(n *syntax.Node) bool {
	c, _ := u.shared(n)
	return c.Key
}

// shared returns the constant of another file that an expression is.
func (u *Uses) shared(n *syntax.Node) (Constant, bool) {
	if u.packages == nil {
		return Constant{}, false
	}
	switch {
	case n.Kind == syntax.Member && len(n.Children) == 1 && n.Children[0].Kind == syntax.Name:
		if i, ok := u.File.Imported(n.Children[0].Text); ok {
			return u.packages.Constant(i.Path, n.Text)
		}
	case n.Kind == syntax.Name && u.File.Definition(n) == nil:
		if i, ok := u.File.Imported(n.Text); ok && i.Member != "" {
			return u.packages.Constant(i.Path, i.Member)
		}
		return u.packages.Constant("", n.Text) // the file's own package
	}
	return Constant{}, false
}

// joins reports whether an expression is a template or a concatenation.
func joins(n *syntax.Node) bool {
	return n.Kind == syntax.Template || n.Kind == syntax.Operator && n.Text == "+"
}

// joined returns the text of a template or concatenation whose parts are literals and constants. Long ones are not known:
// each use of a constant repeats its text.
func (u *Uses) joined(n *syntax.Node) (string, bool) {
	const maxParts, maxBytes = 16, 64 << 10
	var b strings.Builder
	for i, c := range n.Children {
		s, ok := u.constant(c)
		if !ok || i == maxParts || b.Len()+len(s) > maxBytes {
			return "", false
		}
		b.WriteString(s)
	}
	return b.String(), len(n.Children) > 0
}

// Key returns the attribute key of an expression: the result of Known, the argument of a call that makes
// a key, or the key of a constant of the semantic conventions' packages, which is named after it.
func (u *Uses) Key(n *syntax.Node) (string, bool) {
	for range 3 {
		if n == nil {
			return "", false
		}
		if s, ok := u.Known(n); ok {
			return s, true
		}
		switch n.Kind {
		case syntax.Call:
			if a := n.Arg(0); a != nil && len(n.Args()) == 1 && a.Kind == syntax.String { // attribute.Key("k"), stringKey("k")
				return a.Text, true
			}
			n = n.Callee() // semconv.ServiceName("x")
			if n.Kind != syntax.Member && n.Kind != syntax.Name {
				return "", false
			}
			return u.convention(n)
		case syntax.Index: // [ATTR_SERVICE_NAME]: a computed key
			n = n.Children[0]
			continue
		case syntax.Name, syntax.Member:
			if s, ok := u.convention(n); ok {
				return s, true
			}
			def := u.File.Definition(n)
			if def == nil || def.Kind != syntax.Assign {
				return "", false
			}
			n = def.Value()
		default:
			return "", false
		}
	}
	return "", false
}

// convention returns the key of a constant of the semantic conventions' packages.
func (u *Uses) convention(n *syntax.Node) (string, bool) {
	root := n.Inner(syntax.Member)
	i, ok := u.File.Imported(root.Text)
	module := i.Path
	if root != n && i.Member != "" { // from opentelemetry.sdk import resources
		module += "." + i.Member
	}
	if !ok || !strings.Contains(module, "semconv") && !strings.Contains(module, "semantic") && module != "opentelemetry.sdk.resources" {
		return "", false
	}
	name := n.Text
	if root == n && i.Member != "" && i.Member != "*" { // import { ATTR_SERVICE_NAME as NAME }
		name = i.Member
	}
	return conventionKey(strings.TrimSuffix(name, "Key"))
}
