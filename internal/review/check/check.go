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

// Severities has all severities, the worst first.
var Severities = []Severity{Critical, High, Medium, Low, Suggestion}

// The categories of findings.
const (
	SensitiveData = "Sensitive Data"
	Volume        = "Volume"
	Correctness   = "Coverage & Correctness"
	Governance    = "Governance"
)

// Check is one check. Its functions are called by several goroutines at a time, for different files.
type Check struct {
	ID       string // kebab-case, as in `assay-ignore: ID`
	Title    string // the defect, without a full stop: "Span name is built from variables"
	Category string
	Severity Severity
	Rules    []string // the Instrumentation Score rules that the finding leads to
	Why      string   // its cost, in Markdown
	Fix      string   // how to fix it, in Markdown
	Fixable  bool     // a mechanical fix exists
	Masked   bool     // the range of a finding is a secret: reports show asterisks in its place

	// Source is called for each source file. Config is called for each manifest, deployment, SDK or Collector
	// configuration file. Repository is called once, after them. Any of them may be nil.
	Source     func(*Pass, *instrumentation.Uses)
	Config     func(*Pass, *configfile.File)
	Repository func(*RepositoryPass)
	// Related returns texts of which another source file must contain one to matter for a value that Source kept, none
	// if no other file matters. A review of changed lines reads only these files for Repository. Without it, it reads
	// all files as soon as Source kept a value of one that changed.
	Related func(kept any) []string
}

// Finding is one place that a check reports.
type Finding struct {
	Check    *Check
	Severity Severity
	File     string
	// Start and End are the byte range to mark in the file. The first line of the range is the finding's line.
	Start, End int
	// Subject is the subject of the finding, without position: a span name, an attribute key, a metric name, a
	// component. It is part of the finding's identity, so it stays when lines move. It never holds a sensitive value.
	Subject string
	// About follows the title of the check in the title of the finding; default the subject. It is not part of the identity.
	About string
	// Symbol is the function, class, service or document around the place, "" if none is. It is part of the
	// identity as well.
	Symbol  string
	Message string // one sentence about the defect
	// Names are names that appear in telemetry. They join the finding to insights.
	Names Names
	// Fix is the mechanical fix: edits of this file, none if there is none.
	Fix []Edit
}

// Names are the names that the telemetry of a place has.
type Names struct {
	AttributeKey, MetricName, SpanName, ScopeName, Service string
}

// Limits of the texts of a finding, in bytes, whatever the names in the code.
const (
	MaxName = 256 // of a name in a report: telemetry keeps no longer ones
	// MaxText limits the other texts, and names as checks report them: to take sensitive data out of a name needs what
	// follows it.
	MaxText = 4 * MaxName
	maxFix  = 16 << 10 // of the texts of its edits: a longer fix is none
)

// Cut returns a text of at most limit bytes, which ends in an ellipsis if it was longer.
func Cut(s string, limit int) string { return safetext.Cut(s, limit-len("…")) }

// Edit replaces a byte range of a file.
type Edit struct {
	Start, End int
	Text       string
}

// Pass is the input of a check for one file, and collects its findings.
type Pass struct {
	Check  *Check
	report func(Finding)
	keep   func(any)
	fixes  int
}

// maxFixes bounds the fixes of one check in one file that need a search through the file, so that the work stays linear.
const maxFixes = 100

// mayFix reports whether one more such fix may be made.
func (p *Pass) mayFix() bool {
	p.fixes++
	return p.fixes <= maxFixes
}

// NewPass returns the Pass of a check for one file. It calls report and keep on the goroutine of the check.
func NewPass(c *Check, report func(Finding), keep func(any)) *Pass {
	return &Pass{Check: c, report: report, keep: keep}
}

// Keep keeps a value of a file for the check's Repository function. It must not refer to the file's tree or source,
// which are gone by then.
func (p *Pass) Keep(v any) { p.keep(v) }

// Report reports a finding. It fills in the check, and its severity if the finding has none, and cuts long texts.
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

// At reports a node of a source file.
func (p *Pass) At(u *instrumentation.Uses, n *syntax.Node, f Finding) {
	f.File, f.Start, f.End = u.File.Path, n.Start, n.End
	f.Symbol = cmp.Or(f.Symbol, Symbol(n))
	p.Report(f)
}

// Symbol returns the names of the functions and classes around a node, outermost first, with dots between them. It leaves
// out the outermost ones of a long symbol.
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

// RepositoryPass is the input of a check for the whole repository, and collects its findings.
type RepositoryPass struct {
	Pass
	Kept    []any              // the data that the check kept, in the order of paths
	Configs []*configfile.File // all configuration files, in the order of paths
}

// All returns the checks in the order of the documentation.
func All() []*Check { return all }
