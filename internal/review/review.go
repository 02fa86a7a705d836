// SPDX-License-Identifier: Apache-2.0

package review

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"assay/internal/lists"
	"assay/internal/review/check"
	"assay/internal/review/configfile"
	"assay/internal/review/instrumentation"
	"assay/internal/review/syntax"
	"assay/internal/review/treesitter"
)

// Limits of a review.
const (
	maxBytes       = 1 << 30  // of all files
	maxConfigBytes = 16 << 20 // of configuration files, which stay in memory for the whole review
	maxFindings    = 10_000
	maxKept        = 500_000 // values that checks keep for the whole repository
	maxErrors      = 100
	maxRelated     = 100 // texts of Check.Related to search for in a file
)

// Options are the options of a review. Their JSON form is the input of `assay review-worker`.
type Options struct {
	Root  string   `json:"root"`            // directory; nothing outside of it is read
	Paths []string `json:"paths,omitempty"` // files and directories below the root, with slashes; empty: the root
	// Since is a Git reference. If it is set, the report has only findings on lines that changed since then, and
	// findings that the changes introduce on other lines.
	Since   string   `json:"since,omitempty"`
	Only    []string `json:"only,omitempty"`    // checks to run; empty: all
	Disable []string `json:"disable,omitempty"` // checks to skip
	Ignore  []string `json:"ignore,omitempty"`  // patterns as in .gitignore for files to skip

	// Cache is a directory for the compiled grammars of the languages other than Go, "" for none. The process executes
	// its content, so no other user may be able to write to it.
	Cache string `json:"cache,omitempty"`
	// Parser holds these grammars. If it is nil, Run loads them when it needs them.
	Parser *treesitter.Parser `json:"-"`

	// Progress is called with the number of files that are done and their total. Several goroutines call it at the same
	// time. It may be nil.
	Progress func(done, total int) `json:"-"`
	// Checks are the checks to choose from; nil: all.
	Checks []*check.Check `json:"-"`
}

// InputError is an error in the options: an unknown check, a path that cannot be read, or an unknown reference.
type InputError struct{ error }

// Unwrap returns the cause.
func (e InputError) Unwrap() error { return e.error }

// Run reviews a directory. It returns an InputError for invalid options, and the error of the context when that ends.
// All other failures are in the report.
func Run(ctx context.Context, opt Options) (*Report, error) {
	checks, err := opt.checks()
	if err != nil {
		return nil, InputError{err}
	}
	// Check the type first: OpenRoot would block on a named pipe.
	if info, err := os.Stat(opt.Root); err == nil && !info.IsDir() {
		return nil, InputError{fmt.Errorf("%s is not a directory", opt.Root)}
	}
	root, err := os.OpenRoot(opt.Root)
	if err != nil {
		return nil, InputError{err}
	}
	defer root.Close()
	r := &run{ctx: ctx, root: root, checks: checks, progress: opt.Progress, kept: make([]map[int][]any, len(checks))}
	if opt.Since != "" {
		if r.since, err = changedSince(ctx, opt.Root, opt.Since); err != nil {
			if _, ok := errors.AsType[gitError](err); ok {
				err = InputError{err}
			}
			return nil, err
		}
	}
	w := newWalk(root, opt.Ignore, r.note)
	if err := w.list(ctx, slices.Concat(opt.Paths, map[bool][]string{true: {"."}}[len(opt.Paths) == 0])); err != nil {
		if ctx.Err() == nil {
			err = InputError{err}
		}
		return nil, err
	}
	r.files, r.skipped = w.files, w.skipped
	r.shared = make([]*check.Facts, len(r.files))
	r.constants, r.wrappers = newConstants(root, w.files), newWrappers(r)
	r.parser = func() (*treesitter.Parser, error) { return opt.Parser, nil }
	if opt.Parser == nil {
		var own *treesitter.Parser
		r.parser = sync.OnceValues(func() (_ *treesitter.Parser, err error) {
			own, err = NewParser(ctx, opt.Cache)
			return own, err
		})
		defer func() {
			if own != nil {
				_ = own.Close(context.WithoutCancel(ctx))
			}
		}()
	}
	if err := r.review(ctx); err != nil {
		return nil, err
	}
	return r.report(), nil
}

// IsCheck reports whether a check has the id.
func IsCheck(id string) bool {
	return slices.ContainsFunc(check.All(), func(c *check.Check) bool { return c.ID == id })
}

// checks returns the checks to run.
func (o *Options) checks() ([]*check.Check, error) {
	all := o.Checks
	if all == nil {
		all = check.All()
	}
	for _, id := range slices.Concat(o.Only, o.Disable) {
		if !slices.ContainsFunc(all, func(c *check.Check) bool { return c.ID == id }) {
			names := lists.Map(all, func(c *check.Check) string { return c.ID })
			return nil, fmt.Errorf("there is no check %q; the checks are %s", id, strings.Join(names, ", "))
		}
	}
	var selected []*check.Check
	for _, c := range all {
		if (len(o.Only) == 0 || slices.Contains(o.Only, c.ID)) && !slices.Contains(o.Disable, c.ID) {
			selected = append(selected, c)
		}
	}
	return selected, nil
}

// run is a review in progress.
type run struct {
	ctx       context.Context
	parser    func() (*treesitter.Parser, error)
	root      *os.Root
	checks    []*check.Check
	since     *since // nil: report all lines
	related   []relation
	files     []file
	constants *constants
	wrappers  *wrappers
	progress  func(done, total int)

	mu      sync.Mutex // guards the fields below
	skipped map[string]int
	errors  []Error
	dropped int // errors beyond maxErrors
	read    int
	parsed  int
	bytes   int
	done    int
	places  []*place
	keptN   int
	kept    []map[int][]any // by check, then file
	shared  []*check.Facts  // by file
	limits  map[string]bool
	configs []*configfile.File
	size    int // of configs
	facts   facts
	earlier map[string]func() *pass // reviews of the committed versions of changed files, by path

	coverage, coverageBefore func() *check.Coverage // of the present state, and of the commit once it is needed
}

// note adds an error to the report.
func (r *run) note(file, message string) { r.add(Error{File: file, Message: message}) }

func (r *run) add(e Error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.errors) >= maxErrors {
		r.dropped++
		return
	}
	e.Message = check.Cut(e.Message, check.MaxText)
	r.errors = append(r.errors, e)
}

// limit records that a limit was reached, once for each message.
func (r *run) limit(message string) {
	r.mu.Lock()
	reached := r.limits[message]
	if r.limits == nil {
		r.limits = map[string]bool{}
	}
	r.limits[message] = true
	r.mu.Unlock()
	if !reached {
		r.note("", message)
	}
}

// review checks the files, then the whole repository. With Options.Since, it parses an unchanged source file only for
// the checks of the whole repository that need it.
func (r *run) review(ctx context.Context) error {
	for i := range r.checks {
		r.kept[i] = map[int][]any{}
	}
	var first, later []int
	for i, f := range r.files {
		if r.since == nil || f.language == syntax.Unknown || len(r.since.changes[f.path]) > 0 {
			first = append(first, i)
		} else {
			later = append(later, i)
		}
	}
	if err := r.each(ctx, first, r.checks, true); err != nil {
		return err
	}
	if len(later) > 0 {
		r.related = r.relations()
		if err := r.each(ctx, later, nil, false); err != nil {
			return err
		}
	}
	slices.SortStableFunc(r.configs, func(a, b *configfile.File) int { return cmp.Compare(a.Path, b.Path) })
	r.coverage = r.coverageOf(r.shared, r.configs)
	for i, c := range r.checks {
		if err := ctx.Err(); err != nil {
			return err
		}
		if c.Repository != nil {
			r.repository(i, c)
		}
	}
	return ctx.Err()
}

// relation selects the unchanged source files that a check of the whole repository needs.
type relation struct {
	check *check.Check
	all   bool
	texts [][]byte // the file has to contain one of them
}

// relations returns which unchanged files the checks need. The changed files must have been reviewed.
func (r *run) relations() []relation {
	config := slices.ContainsFunc(r.configs, func(c *configfile.File) bool { return len(r.since.changes[c.Path]) > 0 })
	var relations []relation
	for i, c := range r.checks {
		if c.Source == nil || c.Repository == nil || !config && len(r.kept[i]) == 0 {
			continue
		}
		texts := map[string]bool{}
		for _, kept := range r.kept[i] {
			for _, v := range kept {
				if c.Related == nil {
					continue
				}
				for _, text := range c.Related(v) {
					texts[text] = true
				}
			}
		}
		n := relation{check: c, all: config || c.Related == nil || len(texts) > maxRelated}
		for text := range texts {
			n.texts = append(n.texts, []byte(text))
		}
		if n.all || len(n.texts) > 0 {
			relations = append(relations, n)
		}
	}
	return relations
}

// needed returns the checks of the whole repository that need an unchanged source file.
func (r *run) needed(source []byte) []*check.Check {
	var checks []*check.Check
	for _, n := range r.related {
		if n.all || slices.ContainsFunc(n.texts, func(text []byte) bool { return bytes.Contains(source, text) }) {
			checks = append(checks, n.check)
		}
	}
	return checks
}

// each reviews files on all processors. It starts no file after a limit was reached.
func (r *run) each(ctx context.Context, files []int, checks []*check.Check, report bool) error {
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for _, i := range files {
		if ctx.Err() != nil || r.full() {
			break
		}
		group.Go(func() error {
			r.file(i, checks, report)
			r.mu.Lock()
			r.done++
			done := r.done
			r.mu.Unlock()
			if r.progress != nil {
				r.progress(done, len(r.files))
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}

// full reports whether a limit of the whole review was reached, and records it.
func (r *run) full() bool {
	r.mu.Lock()
	size, findings := r.bytes, len(r.places)
	r.mu.Unlock()
	switch {
	case size > maxBytes:
		r.limit(fmt.Sprintf("the files have more than %d bytes: the remaining files are not read", maxBytes))
	case findings > maxFindings:
		r.limit(fmt.Sprintf("more than %d findings: the remaining findings are not reported", maxFindings))
	default:
		return false
	}
	return true
}

// file reads one file and runs checks on it. A panic of a parser or check is an error of the file.
func (r *run) file(i int, checks []*check.Check, report bool) {
	f := r.files[i]
	defer func() {
		if p := recover(); p != nil {
			r.note(f.path, fmt.Sprintf("the review of this file failed: %v", p))
		}
	}()
	source, err := readFile(r.root, f.path, maxFileSize)
	if err != nil {
		if errors.Is(err, errTooLarge) {
			r.skip(skipLarge)
		} else {
			r.note(f.path, "cannot read the file: "+cause(err))
		}
		return
	}
	if reason := skipContent(f.language, source); reason != "" {
		r.skip(reason)
		return
	}
	p := &pass{run: r, index: i, file: f, source: source, checks: checks, report: report}
	if f.language == syntax.Unknown || configfile.InSource(f.path) {
		p.config()
	}
	if f.language != syntax.Unknown {
		if !report {
			p.checks = r.needed(source)
		}
		p.sourceFile()
	}
	p.finish()
}

func (r *run) skip(reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.skipped[reason]++
}

// pass is the review of one file.
type pass struct {
	run    *run
	index  int
	file   file
	source []byte
	checks []*check.Check
	report bool // report findings, and do not only keep values

	parsed  bool
	found   []check.Finding
	configs []*configfile.File
	kept    map[*check.Check][]any
	shared  *check.Facts
	traits  trait
	names   []string // names of services

	identities []identity // of findings in an earlier version
}

// of returns the Pass of a check.
func (p *pass) of(c *check.Check) *check.Pass {
	return check.NewPass(c, func(f check.Finding) {
		if p.report && len(p.found) <= maxFindings {
			p.found = append(p.found, f)
		}
	}, func(v any) {
		if p.kept == nil {
			p.kept = map[*check.Check][]any{}
		}
		p.kept[c] = append(p.kept[c], v)
	})
}

func (p *pass) sourceFile() {
	p.traits = scan(p.file.language, p.source)
	if p.traits == 0 || len(p.checks) == 0 {
		return
	}
	tree, err := p.run.parse(p.file, p.source)
	if err != nil {
		p.run.note(p.file.path, "cannot parse the file: "+err.Error())
		return
	}
	p.parsed = true
	if tree.Unparsed && p.report {
		p.run.note(p.file.path, "cannot parse parts of the file")
	}
	uses := instrumentation.Find(tree, packages{p.run.constants, p.run.wrappers, directory(p.file.path), p.file.language})
	for _, res := range uses.Resources {
		if name, ok := uses.Known(res.Attributes["service.name"]); ok {
			p.names = append(p.names, name)
		}
	}
	for _, c := range p.checks {
		if c.Source != nil {
			c.Source(p.of(c), uses)
		}
	}
	p.shared = check.FactsOf(uses)
	if tree.Exhausted() {
		p.found, p.kept, p.shared, p.names = nil, nil, nil, nil
		p.run.note(p.file.path, "cannot review the file: "+treesitter.ErrTooComplex.Error())
	}
}

func (p *pass) config() {
	var err error
	if p.configs, err = configfile.Parse(p.file.path, p.source); err != nil && !bytes.Contains(p.source, []byte("{{")) { // a template is not YAML
		p.run.note(p.file.path, "cannot parse the file: "+err.Error())
	}
	p.parsed = slices.ContainsFunc(p.configs, func(f *configfile.File) bool { return f.Kind != configfile.Template })
	for _, c := range p.configs {
		for _, v := range c.Environment {
			if v.Literal {
				p.names = append(p.names, serviceNames(v)...)
			}
		}
		if c.Kind == configfile.SDK {
			p.names = append(p.names, configuredServices(c)...)
		}
		for _, ch := range p.checks {
			if ch.Config != nil {
				ch.Config(p.of(ch), c)
			}
		}
	}
}

// finish adds the results of the file to the run.
func (p *pass) finish() {
	r := p.run
	places := r.locate(p.file.path, p.source, p.found)
	if r.since != nil && len(r.since.changes[p.file.path]) > 0 && slices.ContainsFunc(places, (*place).old) {
		if before := r.before(p.file); before != nil {
			reveal(places, before.identities)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.read++
	r.bytes += len(p.source)
	if p.parsed {
		r.parsed++
	}
	r.places = append(r.places, places...)
	for i, c := range r.checks {
		if kept := p.kept[c]; len(kept) > 0 && r.keptN+len(kept) <= maxKept {
			r.kept[i][p.index] = kept
			r.keptN += len(kept)
		}
	}
	r.shared[p.index] = p.shared
	if len(p.configs) > 0 && r.size+len(p.source) <= maxConfigBytes {
		r.configs = append(r.configs, p.configs...)
		r.size += len(p.source)
	}
	r.facts.add(p.file.language, p.traits, p.names, p.configs)
}

// locate returns the places of the findings in a file. It marks suppressed findings as hidden, and findings on lines
// that did not change as unchanged. It returns nil after the end of the context.
func (r *run) locate(name string, source []byte, found []check.Finding) []*place {
	if len(found) == 0 {
		return nil
	}
	t, err := newText(r.ctx, source, found)
	if err != nil {
		return nil
	}
	suppressed := r.suppressed(name, source)
	places := make([]*place, len(found))
	for i := range found {
		p := newPlace(&found[i], t)
		p.hidden = slices.Contains(suppressed[p.line()], p.Check)
		p.unchanged = r.since != nil && !r.since.changes.touch(name, p.line(), p.Detail.EndLine)
		places[i] = p
	}
	return places
}

// repository runs a check of the whole repository.
func (r *run) repository(i int, c *check.Check) {
	defer func() {
		if p := recover(); p != nil {
			r.add(Error{Check: c.ID, Message: fmt.Sprintf("the check %s failed: %v", c.ID, p)})
		}
	}()
	var kept []any
	for _, file := range slices.Sorted(maps.Keys(r.kept[i])) {
		kept = append(kept, r.kept[i][file]...)
	}
	var places []*place
	for name, list := range examine(c, kept, r.configs, r.coverage) {
		source, err := readFile(r.root, name, maxFileSize)
		if err != nil {
			r.note(name, "cannot read the file: "+cause(err))
			continue
		}
		places = append(places, r.locate(name, source, list)...)
	}
	if r.since != nil && slices.ContainsFunc(places, (*place).old) {
		if before, ok := r.repositoryBefore(i, c); ok {
			reveal(places, before)
		}
	}
	r.places = append(r.places, places...)
}

// examine returns the findings of a check of the whole repository, by file.
func examine(c *check.Check, kept []any, configs []*configfile.File, coverage func() *check.Coverage) map[string][]check.Finding {
	found := map[string][]check.Finding{}
	n := 0
	c.Repository(&check.RepositoryPass{
		Pass: *check.NewPass(c, func(f check.Finding) {
			if n++; n <= maxFindings {
				found[f.File] = append(found[f.File], f)
			}
		}, func(any) {}),
		Kept: kept, Configs: configs, Coverage: coverage,
	})
	return found
}

// coverageOf returns a function that returns the instrumentation of the projects, for the checks to share.
func (r *run) coverageOf(facts []*check.Facts, configs []*configfile.File) func() *check.Coverage {
	return sync.OnceValue(func() *check.Coverage {
		return check.CoverageOf(facts, configs, lists.Map(r.files, func(f file) string { return f.path }))
	})
}

// report returns the report of a run that has ended.
func (r *run) report() *Report {
	findings := settle(r.places)
	if len(findings) > maxFindings {
		findings = findings[:maxFindings]
		r.limit(fmt.Sprintf("more than %d findings: the remaining findings are not reported", maxFindings))
	}
	if r.keptN >= maxKept || r.size >= maxConfigBytes {
		r.limit("the repository is too large for checks of the whole repository: their findings are incomplete")
	}
	slices.SortStableFunc(r.errors, func(a, b Error) int { return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Message, b.Message)) })
	if r.dropped > 0 {
		r.errors = append(r.errors, Error{Message: fmt.Sprintf("%d more errors", r.dropped)})
	}
	files := Files{Read: r.read, Parsed: r.parsed, SkippedByReason: r.skipped}
	for _, n := range r.skipped {
		files.Skipped += n
	}
	return &Report{Instrumentation: r.facts.instrumentation(), Findings: findings, Files: files, Errors: append([]Error{}, r.errors...), Checks: r.checks}
}
