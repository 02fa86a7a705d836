// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"assay"
	"assay/internal/lists"
	"assay/internal/review"
	"assay/internal/review/boundary"
	"assay/internal/review/configfile"
	"assay/internal/review/fix"
	"assay/internal/review/instrument"
	"assay/internal/review/migrate"
	"assay/internal/review/patch"
	"assay/internal/review/syntax"
	"assay/internal/review/treesitter"
)

// Request is the input of `assay review-worker`: a review, and at most one change.
type Request struct {
	review.Options
	Change
}

// Change is a change to make; the zero value makes none.
type Change struct {
	Fix        []string        `json:"fix,omitempty"` // ids of findings to fix
	Instrument instrument.Kind `json:"instrument,omitempty"`
	Name       string          `json:"name,omitempty"` // of the repository, for Instrument; "": the name of the directory
	Migrate    bool            `json:"migrate,omitempty"`
	// Parse holds paths of changed files to parse, instead of a change. The response lists the files that do not parse.
	Parse []string `json:"parse,omitempty"`
	// Boundary requests a check that the files of Parse add telemetry to a boundary.
	Boundary *Boundary `json:"boundary,omitempty"`
	// List requests the paths of the files that a review reads, including tests, documentation, examples and fixtures,
	// and the paths of configurations with findings of Fix.
	List bool `json:"list,omitempty"`
}

// Boundary is a boundary in a file, and the file before the change.
type Boundary struct {
	patch.Step
	Before []byte `json:"before"`
}

// None reports whether there is no change to make.
func (c *Change) None() bool { return len(c.Fix)+len(c.Parse) == 0 && c.Instrument == "" && !c.Migrate }

// Response is the output of `assay review-worker`.
type Response struct {
	*review.Report
	Patch *fix.Patch `json:"patch,omitempty"` // nil if there is no change to make
	Diff  []byte     `json:"diff,omitempty"`  // of the patch
	// Broken holds the paths of Change.Parse that cannot be read or parsed.
	Broken []string `json:"broken,omitempty"`
	// Lacks is why the files that can be parsed add no telemetry to Change.Boundary, "" if they do.
	Lacks string `json:"lacks,omitempty"`
	// Paths and Configurations are the sorted results of Change.List. Configurations does not include manifests and
	// Dockerfiles, because they do not configure a running program.
	Paths          []string `json:"paths,omitempty"`
	Configurations []string `json:"configurations,omitempty"`
}

// Serve reviews a directory and makes the patch that the request names. It changes no file. It returns the errors of
// review.Run and of the packages that make the change.
func Serve(ctx context.Context, req *Request) (*Response, error) {
	if !req.None() && req.Parser == nil {
		parser, err := review.NewParser(ctx, req.Cache)
		if err != nil {
			return nil, err
		}
		defer parser.Close(context.WithoutCancel(ctx))
		req.Parser = parser
	}
	report, err := review.Run(ctx, req.Options)
	r := &Response{Report: report}
	if err == nil && req.List {
		err = r.list(ctx, req)
	}
	if err != nil || req.None() {
		return r, err
	}
	if len(req.Parse) > 0 {
		r.Patch = new(fix.Patch)
		err = r.check(ctx, req)
		return r, err
	}
	if r.Patch, err = Make(ctx, req.Change, req.Options, req.Parser, report.Findings); err != nil {
		return nil, err
	}
	var diff bytes.Buffer
	err = r.Patch.Diff(&diff)
	r.Diff = diff.Bytes()
	return r, err
}

// list sets the results of Change.List.
func (r *Response) list(ctx context.Context, req *Request) error {
	root, err := os.OpenRoot(req.Root)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, f := range r.Findings {
		if name := f.Locations[0].File; slices.Contains(req.Fix, f.ID) && configures(root, name) {
			r.Configurations = append(r.Configurations, name)
		}
	}
	slices.Sort(r.Configurations)
	r.Configurations = slices.Compact(r.Configurations)
	r.Paths, err = review.ListFiles(ctx, root, req.Ignore, true)
	return err
}

// configures reports whether a file configures a running program.
func configures(root *os.Root, name string) bool {
	text, err := patch.Read(root, name)
	if err != nil || syntax.LanguageOf(name) != syntax.Unknown {
		return false
	}
	parsed, _ := configfile.Parse(name, text) // the part that can be parsed
	return len(parsed) > 0 && !slices.ContainsFunc(parsed, func(f *configfile.File) bool {
		return f.Kind == configfile.Manifest || f.Kind == configfile.Dockerfile
	})
}

// check sets the results of Change.Parse and Change.Boundary.
func (r *Response) check(ctx context.Context, req *Request) (err error) {
	root, err := os.OpenRoot(req.Root)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, path := range req.Parse {
		text, err := patch.Read(root, path)
		if err != nil || !patch.Parses(ctx, req.Parser, path, text) {
			r.Broken = append(r.Broken, path)
		}
	}
	if b := req.Boundary; b != nil && len(r.Broken) == 0 && ctx.Err() == nil {
		r.Lacks, err = boundary.Lacks(ctx, root, req.Parser, b.File, b.Before, b.Line, b.Boundary)
	}
	return errors.Join(err, ctx.Err())
}

// Make makes the patch of a change. The findings come from a review with the options.
func Make(ctx context.Context, c Change, opt review.Options, parser *treesitter.Parser, findings []review.Finding) (*fix.Patch, error) {
	root, err := os.OpenRoot(opt.Root)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if len(c.Fix) > 0 {
		findings = slices.DeleteFunc(slices.Clone(findings), func(f review.Finding) bool { return !slices.Contains(c.Fix, f.ID) })
		return fix.Make(ctx, root, parser, findings)
	}
	files, err := review.ListFiles(ctx, root, opt.Ignore, c.Migrate) // tests use migrated code as well
	if err != nil {
		return nil, err
	}
	var made *patch.Patch
	if c.Migrate {
		if made, err = migrate.Make(ctx, root, parser, files); err == nil {
			addVendors(made, findings)
		}
	} else {
		name := c.Name
		if dir, err := filepath.Abs(opt.Root); name == "" && err == nil {
			name = filepath.Base(dir)
		}
		made, err = instrument.Make(ctx, root, parser, files, c.Instrument, name)
	}
	if err != nil {
		return nil, err
	}
	if err := made.Check(root); err != nil {
		return nil, &assay.Error{Code: assay.CodeUnprocessable, Message: err.Error(), Err: err}
	}
	return &fix.Patch{Patch: *made}, nil
}

// tables matches the libraries that a migration has tables for, by the names of packages.
var tables = regexp.MustCompile(`(?i)opentracing|opencensus|census-instrumentation|jaeger|zipkin|brave|sleuth|dd-trace|ddtrace|datadog`)

// ecosystems match the files of the projects that a migration may change.
var ecosystems = []*regexp.Regexp{
	regexp.MustCompile(`\.go$|(^|/)go\.mod$`),
	regexp.MustCompile(`\.[cm]?[jt]sx?$|(^|/)package\.json$`),
	regexp.MustCompile(`\.py$|(^|/)(requirements[^/]*|pyproject\.toml|setup\.cfg|Pipfile)$`),
	regexp.MustCompile(`\.(java|gradle|gradle\.kts)$|(^|/)pom\.xml$`),
}

// addVendors adds a step for each finding about instrumentation of a vendor that the migration says nothing about. A
// step or change in one file of a project is about the others as well.
func addVendors(made *patch.Patch, findings []review.Finding) {
	covered := lists.Map(made.Files, func(f patch.File) string { return f.Path })
	covered = append(covered, lists.Map(made.Steps, func(s patch.Step) string { return s.File })...)
	for _, f := range findings {
		if f.Check != "vendor-instrumentation" || f.Detail == nil {
			continue
		}
		at := f.Locations[0]
		if tables.MatchString(f.Detail.Subject) && slices.ContainsFunc(covered, func(name string) bool { return together(name, at.File) }) {
			continue
		}
		made.Steps = append(made.Steps, patch.Step{File: at.File, Line: at.Line, Open: true, Text: f.Summary + " It is in no table: replace it by OpenTelemetry."})
	}
	made.Sort()
}

// together reports whether two files may be of one project: they have the same ecosystem, and one is in the directory of
// the other or below it.
func together(a, b string) bool {
	x, y := strings.TrimPrefix(path.Dir(a)+"/", "./"), strings.TrimPrefix(path.Dir(b)+"/", "./")
	return (strings.HasPrefix(x, y) || strings.HasPrefix(y, x)) &&
		slices.ContainsFunc(ecosystems, func(e *regexp.Regexp) bool { return e.MatchString(a) && e.MatchString(b) })
}
