// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"

	"assay/internal/review/configfile"
	"assay/internal/review/instrumentation"
	"assay/internal/review/syntax"
	"assay/internal/safetext"
)

// Severity is the severity of a finding.
type Severity string

// The severities, the worst first.
const (
	Critical   Severity = "critical"
	High       Severity = "high"
	Medium     Severity = "medium"
	Low        Severity = "low"
	Suggestion Severity = "suggestion"
)

// Severities lists all severities, the worst first.
var Severities = []Severity{Critical, High, Medium, Low, Suggestion}

// The categories of findings.
const (
	SensitiveData = "Sensitive Data"
	Volume        = "Volume"
	Correctness   = "Coverage & Correctness"
	Governance    = "Governance"
)

// Check is a check of a review. Several goroutines may call its functions at the same time, for different files.
type Check struct {
	ID       string // kebab-case, as in `assay-ignore: ID`
	Title    string // the defect, without a full stop: "Span name is built from variables"
	Category string
	Severity Severity
	Rules    []string // Instrumentation Score rules that the defect may violate
	Why      string   // why the defect matters, in Markdown
	Fix      string   // how to fix it, in Markdown
	Fixable  bool     // a mechanical fix exists
	Masked   bool     // the range of a finding is a secret: reports mask it with asterisks

	// Source is called for each source file. Config is called for each manifest, deployment, SDK or Collector
	// configuration file. Repository is called once, after them. Any of them may be nil.
	Source     func(*Pass, *instrumentation.Uses)
	Config     func(*Pass, *configfile.File)
	Repository func(*RepositoryPass)
	// Related returns search texts for a value that Source kept. Another source file matters for the value only if it
	// contains one of the texts. A review of changed lines reads only these files for Repository. If Related is nil, it
	// reads all files once Source has kept a value of a changed file.
	Related func(kept any) []string
}

// Finding is a place in a file that a check reports.
type Finding struct {
	Check    *Check
	Severity Severity
	File     string
	// Start and End are the byte range to mark in the file. The first line of the range is the finding's line.
	Start, End int
	// Subject is the name that the finding is about: a span name, an attribute key, a metric name or a component. It is
	// part of the finding's identity, so it contains no position, which changes when lines move. It never holds a
	// sensitive value.
	Subject string
	// About follows the title of the check in the title of the finding. It defaults to Subject, and is not part of the
	// identity.
	About string
	// Symbol is the function, class, service or document that contains the place, "" if there is none. It is part of
	// the identity as well.
	Symbol  string
	Message string // one sentence about the defect
	// Names are the names of the place in telemetry. They link the finding to insights.
	Names Names
	// Fix is the mechanical fix: edits of this file, or nil.
	Fix []Edit
}

// Names are the names in the telemetry that a place creates.
type Names struct {
	AttributeKey, MetricName, SpanName, ScopeName, Service string
}

// Limits for the texts of a finding, in bytes.
const (
	MaxName = 256 // for a name in a report, as for names in stored telemetry
	// MaxText limits the other texts, and names as checks report them. Reports remove sensitive data from a name before
	// they cut it to MaxName, because the detection needs the text after the data.
	MaxText = 4 * MaxName
	maxFix  = 16 << 10 // for the texts of all edits: Report drops a longer fix
)

// Cut cuts a text to at most limit bytes, and ends it with an ellipsis if it was longer.
func Cut(s string, limit int) string { return safetext.Cut(s, limit-len("…")) }

// Edit replaces a byte range of a file.
type Edit struct {
	Start, End int
	Text       string
	// Variable is the environment variable that Text reads in place of a secret, "" for other edits. Service is the
	// service that reads it, which makes another name unique.
	Variable, Service string
}

// Pass is the context of a check for one file. It receives the findings and the values to keep.
type Pass struct {
	Check    *Check
	report   func(Finding)
	keep     func(any)
	searches int
}

// maxSearches limits the searches of one check through one file for fixes and severities, so that the work stays
// linear.
const maxSearches = 100

// maySearch counts a search through the file for a fix or a severity, and reports whether it is within maxSearches.
func (p *Pass) maySearch() bool {
	p.searches++
	return p.searches <= maxSearches
}

// NewPass returns the Pass of a check for one file. The Pass calls report and keep on the goroutine of the check.
func NewPass(c *Check, report func(Finding), keep func(any)) *Pass {
	return &Pass{Check: c, report: report, keep: keep}
}

// Keep stores a value for the check's Repository function. The value must not refer to the file's tree or source, which
// are released before.
func (p *Pass) Keep(v any) { p.keep(v) }

// Report reports a finding. It sets the check, and the severity of the check if the finding has none. It cuts long
// texts and drops a long fix.
func (p *Pass) Report(f Finding) {
	for _, s := range []*string{
		&f.Subject, &f.About, &f.Symbol, &f.Message, &f.Names.AttributeKey, &f.Names.MetricName, &f.Names.SpanName, &f.Names.ScopeName, &f.Names.Service,
	} {
		*s = Cut(*s, MaxText)
	}
	size := 0
	for _, e := range f.Fix {
		size += len(e.Text)
	}
	if size > maxFix {
		f.Fix = nil
	}
	f.Check = p.Check
	f.Severity = cmp.Or(f.Severity, p.Check.Severity)
	p.report(f)
}

// At reports a finding at a node of a source file.
func (p *Pass) At(u *instrumentation.Uses, n *syntax.Node, f Finding) { p.Report(f.at(u, n)) }

// at returns the finding with the place of a node.
func (f Finding) at(u *instrumentation.Uses, n *syntax.Node) Finding {
	f.File, f.Start, f.End, f.Symbol = u.File.Path, n.Start, n.End, Symbol(n)
	return f
}

// Symbol returns the names of the functions and classes around a node, outermost first, separated by dots. It omits the
// outermost names once the symbol is longer than MaxText.
func Symbol(n *syntax.Node) string {
	name := ""
	for p := n; p != nil && len(name) <= MaxText; p = p.Enclosing(syntax.Func, syntax.Class) {
		if (p.Kind == syntax.Func || p.Kind == syntax.Class) && p.Text != "" {
			if name != "" {
				name = "." + name
			}
			name = p.Text + name
		}
	}
	return name
}

// RepositoryPass is the context of a check for the whole repository.
type RepositoryPass struct {
	Pass
	Kept    []any              // the values that the check kept, in the order of paths
	Configs []*configfile.File // all configuration files, in the order of paths
	// Coverage returns the instrumentation of the projects. All checks share it.
	Coverage func() *Coverage
}

// All returns the checks in the order of the documentation.
func All() []*Check { return all }
