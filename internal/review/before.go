// SPDX-License-Identifier: Apache-2.0

package review

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"assay/internal/lists"
	"assay/internal/review/check"
	"assay/internal/review/configfile"
	"assay/internal/review/syntax"
)

// identity identifies a finding of a changed file across versions.
type identity struct{ check, file, symbol, subject string }

func identityOf(f *check.Finding) identity {
	return identity{f.Check.ID, f.File, f.Symbol, f.Subject}
}

// loose returns the identity without the symbol, because the function around the place may have been renamed.
func (i identity) loose() identity {
	i.symbol = ""
	return i
}

func (p *place) identity() identity {
	return identity{p.Check, p.Locations[0].File, p.Detail.Symbol, p.Detail.Subject}
}

// old reports whether a finding is on lines that did not change. Such a finding is reported only if it is new.
func (p *place) old() bool { return p.unchanged && !p.hidden }

// reveal marks findings that the earlier version does not have as changed, so that they are reported.
func reveal(places []*place, before []identity) {
	left := map[identity]int{}
	for _, id := range before {
		left[id]++
	}
	matches := func(p *place) bool {
		id := p.identity()
		if left[id] == 0 {
			return false
		}
		left[id]--
		return true
	}
	unmatched := lists.Filter(places, func(p *place) bool { return p.old() && !matches(p) })
	for _, p := range places {
		if !p.unchanged {
			matches(p)
		}
	}
	loose := map[identity]int{}
	for id, n := range left {
		loose[id.loose()] += n
	}
	for _, p := range unmatched {
		if id := p.identity().loose(); loose[id] > 0 {
			loose[id]--
		} else {
			p.unchanged = false
		}
	}
}

// before returns the review of the committed version of a changed file, under its present path. It returns an empty
// review for a new file, and nil if the version cannot be reviewed.
func (r *run) before(f file) *pass {
	r.mu.Lock()
	review := r.earlier[f.path]
	if review == nil {
		review = sync.OnceValue(func() *pass { return r.reviewBefore(f) })
		if r.earlier == nil {
			r.earlier = map[string]func() *pass{}
		}
		r.earlier[f.path] = review
	}
	r.mu.Unlock()
	return review()
}

func (r *run) reviewBefore(f file) (p *pass) {
	// Failures in the committed version are not errors of the report. Constants of other files have their present
	// values.
	p = &pass{run: &run{ctx: r.ctx, parser: r.parser, root: r.root, constants: r.constants, wrappers: r.wrappers}, file: f, checks: r.checks, report: true}
	name, ok := r.since.before[f.path]
	if !ok {
		return p
	}
	source, err := r.since.read(r.ctx, name)
	if errors.Is(err, errTooLarge) {
		return nil
	}
	if err != nil {
		r.note(f.path, "cannot read the file of the commit: "+cause(err))
		return nil
	}
	defer func() {
		if failure := recover(); failure != nil { // a defect of a parser or check
			r.note(f.path, fmt.Sprintf("the review of this file of the commit failed: %v", failure))
			p = nil
		}
	}()
	if skipContent(f.language, source) != "" {
		return p
	}
	p.source = source
	if f.language == syntax.Unknown || configfile.InSource(f.path) {
		p.config()
	}
	if f.language != syntax.Unknown {
		p.sourceFile()
	}
	if len(p.run.errors) > 0 {
		return nil // its earlier findings are unknown
	}
	suppressed := p.run.suppressed(f.path, source)
	lines := &text{source: source, lines: lineStarts(source)}
	for i := range p.found {
		start, _ := within(&p.found[i], source)
		if line, _ := lines.position(start); !slices.Contains(suppressed[line], p.found[i].Check.ID) {
			p.identities = append(p.identities, identityOf(&p.found[i]))
		}
	}
	p.source, p.found = nil, nil
	return p
}

// repositoryBefore returns the findings of a check of the whole repository in the commit. It returns false if the
// committed version of a changed file cannot be reviewed.
func (r *run) repositoryBefore(i int, c *check.Check) (found []identity, ok bool) {
	present := make(map[string]bool, len(r.files))
	changed := []file{}
	kept := map[string][]any{}
	var facts []*check.Facts
	for at, f := range r.files {
		present[f.path] = true
		if len(r.since.changes[f.path]) > 0 {
			changed = append(changed, f)
			continue
		}
		kept[f.path] = r.kept[i][at]
		facts = append(facts, r.shared[at])
	}
	for name := range r.since.before {
		if !present[name] && skipInside(name) == "" && skipName(name) == "" {
			changed = append(changed, file{name, syntax.LanguageOf(name)})
		}
	}
	configs := slices.DeleteFunc(slices.Clone(r.configs), func(f *configfile.File) bool { return len(r.since.changes[f.Path]) > 0 })
	for _, f := range changed {
		if r.ctx.Err() != nil {
			return nil, false
		}
		if c.Source == nil && f.language != syntax.Unknown {
			continue
		}
		p := r.before(f)
		if p == nil {
			return nil, false
		}
		kept[f.path] = p.kept[c]
		facts = append(facts, p.shared)
		configs = append(configs, p.configs...)
	}
	slices.SortStableFunc(configs, func(a, b *configfile.File) int { return cmp.Compare(a.Path, b.Path) })
	if r.coverageBefore == nil && c.Source != nil { // otherwise, facts are incomplete
		r.coverageBefore = r.coverageOf(facts, configs)
	}
	for _, list := range examine(c, inOrder(kept), configs, r.coverageBefore) {
		for i := range list {
			found = append(found, identityOf(&list[i]))
		}
	}
	return found, true
}

// inOrder returns the values of files in the order of their paths.
func inOrder(kept map[string][]any) (all []any) {
	for _, name := range slices.Sorted(maps.Keys(kept)) {
		all = append(all, kept[name]...)
	}
	return all
}
