// SPDX-License-Identifier: Apache-2.0

package instrumentation

import (
	"strings"

	"assay/internal/review/syntax"
)

// Uses holds the uses of telemetry in a file. Its nodes are nodes of File.
type Uses struct {
	File    *syntax.File
	Spans   []*Span
	Renames []*syntax.Node // names that are set on started spans
	// WrappedNames are the span names that are passed to functions of the project that start spans.
	WrappedNames []*syntax.Node
	Attributes   []*Attribute
	Keys         []*syntax.Node // strings that are converted to attribute keys and are not in Attributes
	Instruments  []*Instrument
	Logs         []Log
	LogLevels    []LogLevel
	Resources    []Resource
	Boundaries   []Boundary
	// Instrumented lists the libraries whose instrumentation the file sets up, such as "net/http" or "express". It is
	// "auto" for an SDK that instruments all libraries that it supports.
	Instrumented []string

	packages Packages
	passed   []Attribute                                // variables with attributes, in Value, that are set on a target
	names    map[*syntax.Node]map[string][]*syntax.Node // by function, the names in it by their text
	leaving  map[variable]int                           // the results of lastLeaving
}

// Packages provides facts about the packages of a repository. A module is an import path as in syntax.Import.
type Packages interface {
	// Constant returns a constant string of another file. The module of the file's own package is "".
	Constant(module, name string) (c Constant, ok bool)
	// Wrapper returns a function of another file, or a method of a class. The module of the file's own package is "".
	Wrapper(module, class, name string) (w Wrapper, ok bool)
	// Own reports whether a package belongs to the repository. known is false if the packages of the repository are not
	// known.
	Own(module string) (own, known bool)
}

// Constant is a constant string.
type Constant struct {
	Value string
	Key   bool // its type is the type of attribute keys
}

// Span is a call that starts a span.
type Span struct {
	Start    *syntax.Node // the call or the annotation
	Tracer   *syntax.Node // expression of the tracer; nil if a function of the project or an annotation starts the span
	Name     *syntax.Node // expression of the name; nil for an annotation without a name
	Scope    string       // name of the instrumentation scope, "" if unknown
	Kind     string       // "server", "client", "producer", "consumer"; "" for internal or unknown
	Context  *syntax.Node // argument with the parent context, nil if there is none
	Variable string       // variable or field that holds the span, "" if there is none
	// Body is the code during which the span is active: the Func of a callback or annotation, the Block of a With, or
	// the Block that contains Start.
	Body *syntax.Node
	// EndsItself is set if the API or an annotation ends the span when Body ends.
	EndsItself bool
	// RecordsErrors is set if the API or an annotation records errors that leave Body.
	RecordsErrors bool
	Ends          []*syntax.Node // calls that end the span, including calls in Defer and Finally
	Errors        []*syntax.Node // calls that record an error or set the status to error
	// Escapes is set if other code may end the span: the span is returned, stored, passed to a function, or sent on a
	// channel.
	Escapes bool
}

// Func returns the function whose code the span covers, nil for code outside functions.
func (s *Span) Func() *syntax.Node {
	if s.Body != nil && s.Body.Kind == syntax.Func {
		return s.Body
	}
	return s.Start.Enclosing(syntax.Func)
}

// Target is the kind of object on which an attribute is set.
type Target uint8

// The targets of attributes. OnUnknown is the target of an attribute that the code only creates.
const (
	OnUnknown Target = iota
	OnSpan
	OnEvent
	OnMetric
	OnResource
	OnLog
)

// String returns the name of the target for messages.
func (t Target) String() string {
	return [...]string{"telemetry", "span", "event", "metric", "resource", "log record"}[t]
}

// Attribute is an attribute that code sets.
type Attribute struct {
	On         Target
	Node       *syntax.Node // the code that an edit removes with the attribute: an argument, a pair, or a call
	Key        *syntax.Node // never nil
	Name       string       // the key, "" if it is unknown
	Value      *syntax.Node // nil if it is not visible
	Span       *Span        // nil if unknown
	Instrument *Instrument  // nil if unknown
}

// Instrument is a call that creates a metric instrument.
type Instrument struct {
	Call   *syntax.Node
	Kind   string // "counter", "updowncounter", "histogram", "gauge"
	Name   *syntax.Node
	Metric string       // the name, "" if it is unknown
	Unit   *syntax.Node // nil if none is given
	// Opaque is set if some options are not visible, such as a spread or a variable of another file. They may contain a
	// unit.
	Opaque     bool
	Boundaries *syntax.Node // explicit bucket boundaries, nil if none
	Scope      string
	Variable   string // variable or field that holds the instrument, "" if there is none
}

// Log is a call that writes a log record, or that adds fields to the records of a logger.
type Log struct {
	Call    *syntax.Node
	Level   string         // "trace", "debug", "info", "warn", "error", "fatal"; "" if unknown
	Message *syntax.Node   // nil if none
	Args    []*syntax.Node // other values of the record: format arguments, and fields as a Pair or only their value
	Printed bool           // a service writes it to standard output without a logger
}

// LogLevel is code that configures the level of a logger.
type LogLevel struct {
	Node  *syntax.Node // the range of the level
	Level string       // as in Log
	// Conditional is set if the level depends on a condition, an environment variable or a flag.
	Conditional bool
}

// Resource is code that creates a resource, or that creates a provider without a resource.
type Resource struct {
	Node *syntax.Node // nil for detectors whose resource is created elsewhere
	// Attributes holds the values of attributes with a known key.
	Attributes map[string]*syntax.Node
	Detectors  []*syntax.Node // enabled detectors
	// FromEnvironment is set if the resource has the attributes of OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME.
	FromEnvironment bool
	// Opaque is set if some attributes are not visible.
	Opaque bool
}

// Boundary is code with which a service receives or sends requests or messages: a server, a consumer, a database
// client.
type Boundary struct {
	Node    *syntax.Node
	Kind    string // "http server", "grpc server", "queue consumer", "database client", "http client"
	Library string // module of the library: "net/http", "express", "psycopg2"
	// Instrumented is set if the boundary has instrumentation at its call, such as an otelhttp handler.
	Instrumented bool
}

// SpanKind returns the kind of the boundary's spans: the last word of Kind, such as "server", "client" or "consumer".
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
	return u
}

// Known returns the string value of a literal, a constant of this or another file, or a concatenation of them.
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

// SharedKey reports whether an expression is an attribute key that another file defines: attribute.Key("k").
func (u *Uses) SharedKey(n *syntax.Node) bool {
	c, _ := u.shared(n)
	return c.Key
}

// shared returns the constant of another file to which an expression refers.
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

// joined returns the text of a template or concatenation of literals and constants. It returns false for long texts:
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

// Key returns the attribute key of an expression. The expression has a string value, as in Known, converts a string to
// a key, or is a constant or function of a semantic conventions package, whose name contains the key.
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

// convention returns the attribute key of a constant or function of a semantic conventions package.
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
