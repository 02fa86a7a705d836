// SPDX-License-Identifier: Apache-2.0

package fix

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"assay/internal/review"
	"assay/internal/review/check"
	"assay/internal/review/patch"
	"assay/internal/review/syntax"
	"assay/internal/review/treesitter"
)

// Patch holds the files that fixes change.
type Patch struct {
	patch.Patch
	Fixed []review.Finding `json:"fixed"`
	// Left are the findings whose fix is not in the patch because it overlaps with another one.
	Left []review.Finding `json:"left"`
	// Rejected are the findings whose fix is not in the patch because the file would no longer parse, or because a
	// variable in Go would have no use.
	Rejected []review.Finding `json:"rejected"`
}

// Variables returns the fixed findings whose secrets are now read from environment variables, by the names of the
// variables. Of the findings with one variable, it has the first.
func (p *Patch) Variables() map[string]review.Finding {
	all := map[string]review.Finding{}
	for _, f := range p.Fixed {
		if f.Detail == nil || len(f.Detail.Edits) == 0 {
			continue
		}
		if v := f.Detail.Edits[0].Variable; v != "" && all[v].ID == "" {
			all[v] = f
		}
	}
	return all
}

// file is a file with the fixes that are in the patch.
type file struct {
	patch.File
	parses                bool // the file parses without a fix
	fixed, left, rejected []review.Finding
	tried                 int // total size in bytes of the versions of the file that were parsed
}

// maxTried is the maximum of file.tried. A file of the maximum size, whose fixes make it too large to parse, could
// otherwise be parsed once for each fix.
const maxTried = 128 * patch.MaxFile

// Make returns the patch for the findings of a report on root that have a fix. It makes all edits of a finding or none.
// The files must be as they were when they were reviewed.
func Make(ctx context.Context, root *os.Root, parser *treesitter.Parser, findings []review.Finding) (*Patch, error) {
	byFile := make(map[string][]review.Finding)
	for _, f := range findings {
		if f.Fixable {
			path := f.Locations[0].File
			byFile[path] = append(byFile[path], f)
		}
	}
	p := new(Patch)
	if err := nameVariables(root, byFile); err != nil {
		return nil, err
	}
	for _, path := range slices.Sorted(maps.Keys(byFile)) {
		list := byFile[path]
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		before, err := patch.Read(root, path)
		if err != nil {
			return nil, err
		}
		file := &file{File: patch.File{Path: path, Before: before}, parses: patch.Parses(ctx, parser, path, before)}
		joinRemovals(ctx, parser, path, before, list)
		slices.SortStableFunc(list, func(a, b review.Finding) int { return cmp.Compare(longest(b), longest(a)) })
		if err := file.add(ctx, parser, list); err != nil {
			return nil, err
		}
		p.Left, p.Rejected = append(p.Left, file.left...), append(p.Rejected, file.rejected...)
		if p.Fixed = append(p.Fixed, file.fixed...); len(file.fixed) > 0 {
			p.Files = append(p.Files, file.File)
		}
	}
	p.Sort()
	return p, nil
}

// usedVariable matches the use of an environment variable in a deployment file.
var usedVariable = regexp.MustCompile(`\$(?:\{(?:env:)?)?(\w+)`)

// nameVariables gives the environment variables that replace different secrets different names: it adds the name of the
// service, and then a number. A name that the file uses already may have another value.
func nameVariables(root *os.Root, byFile map[string][]review.Finding) error {
	type variable struct {
		*check.Edit
		secret string
		used   map[string]bool // in the file
	}
	type value struct{ name, secret string }
	var all []variable
	secrets := map[string]map[string]bool{} // by the name of the variable
	for _, path := range slices.Sorted(maps.Keys(byFile)) {
		var before []byte
		used := map[string]bool{}
		for i, f := range byFile[path] {
			if len(f.Detail.Edits) == 0 || f.Detail.Edits[0].Variable == "" {
				continue
			}
			if before == nil {
				var err error
				if before, err = patch.Read(root, path); err != nil {
					return err
				}
				for _, m := range usedVariable.FindAllSubmatch(before, -1) {
					used[string(m[1])] = true
				}
			}
			e := f.Detail.Edits[0]
			if e.Start < 0 || e.End < e.Start || e.End > len(before) {
				continue
			}
			detail := *f.Detail
			detail.Edits = []check.Edit{e}
			byFile[path][i].Detail = &detail
			secret := strings.Trim(string(before[e.Start:e.End]), `"'`)
			all = append(all, variable{&detail.Edits[0], secret, used})
			if secrets[e.Variable] == nil {
				secrets[e.Variable] = map[string]bool{}
			}
			secrets[e.Variable][secret] = true
		}
	}
	named := map[string]string{}   // secrets by the name of the variable
	numbered := map[value]string{} // names with a number, by the name before it
	next := map[string]int{}       // by the name before the number
	for _, v := range all {
		free := func(name string) bool {
			secret, ok := named[name]
			return !v.used[name] && (!ok || secret == v.secret)
		}
		name := v.Variable
		if v.Service != "" && (len(secrets[name]) > 1 || !free(name)) {
			name = check.VariableName(v.Service) + "_" + name
		}
		if base := (value{name, v.secret}); !free(name) {
			for name = numbered[base]; name == "" || !free(name); {
				next[base.name]++
				name = base.name + "_" + strconv.Itoa(1+next[base.name])
			}
			numbered[base] = name
		}
		named[name] = v.secret
		v.Text, v.Variable = strings.Replace(v.Text, v.Variable, name, 1), name
	}
	return nil
}

// joinRemovals joins the fixes that remove neighbouring attributes.
func joinRemovals(ctx context.Context, parser *treesitter.Parser, path string, before []byte, findings []review.Finding) {
	language := syntax.LanguageOf(path)
	if language == syntax.Unknown || len(findings) < 2 {
		return
	}
	f, err := syntax.Parse(ctx, parser, path, language, before)
	if err != nil {
		return
	}
	fixes := make([][]check.Edit, len(findings))
	for i, f := range findings {
		fixes[i] = f.Detail.Edits
	}
	if check.JoinRemovals(f, fixes); f.Exhausted() {
		return
	}
	for i := range findings {
		detail := *findings[i].Detail
		detail.Edits = fixes[i]
		findings[i].Detail = &detail
	}
}

// add adds the fixes of findings that do not overlap with fixes of the file. If the file would no longer parse, it adds
// each half of the findings separately, up to maxTried.
func (f *file) add(ctx context.Context, parser *treesitter.Parser, findings []review.Finding) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if f.tried > maxTried {
		f.rejected = append(f.rejected, findings...)
		return nil
	}
	next := *f
	next.fixed, next.left = slices.Clone(f.fixed), slices.Clone(f.left)
	for _, finding := range findings {
		if next.fits(finding) {
			next.fixed = append(next.fixed, finding)
		} else {
			next.left = append(next.left, finding)
		}
	}
	next.merge()
	if err := next.Apply(); err != nil {
		return err
	}
	f.tried += len(next.After)
	next.tried = f.tried
	valid := !f.parses || patch.Parses(ctx, parser, f.Path, next.After)
	if valid && syntax.LanguageOf(f.Path) == syntax.Go {
		valid = next.TidyGo()
	}
	switch half := len(findings) / 2; {
	case valid:
		*f = next
	case half == 0:
		f.rejected = append(f.rejected, findings...)
	default:
		if err := f.add(ctx, parser, findings[:half]); err != nil {
			return err
		}
		return f.add(ctx, parser, findings[half:])
	}
	return nil
}

// fits reports whether the fix of a finding lies in the file and does not overlap with another fix.
func (f *file) fits(finding review.Finding) bool {
	for _, e := range finding.Detail.Edits {
		if e.Start < 0 || e.End < e.Start || e.End > len(f.Before) {
			return false
		}
	}
	return !slices.ContainsFunc(f.fixed, func(other review.Finding) bool { return f.overlap(finding.Detail.Edits, other.Detail.Edits) })
}

// merge sets the edits from the fixes. It makes equal edits once, such as of one import, and drops edits of text that
// another fix removes. Added lines get the line endings of the file.
func (f *file) merge() {
	lines := bytes.Count(f.Before, []byte("\n"))
	returns := lines > 0 && bytes.Count(f.Before, []byte("\r\n")) == lines
	var all []udiff.Edit
	seen := map[udiff.Edit]bool{}
	for _, finding := range f.fixed {
		for _, e := range finding.Detail.Edits {
			if returns {
				e.Text = strings.ReplaceAll(strings.ReplaceAll(e.Text, "\r\n", "\n"), "\n", "\r\n")
			}
			if edit := (udiff.Edit{Start: e.Start, End: e.End, New: e.Text}); !seen[edit] {
				seen[edit] = true
				all = append(all, edit)
			}
		}
	}
	// A removal precedes the edits in it.
	slices.SortStableFunc(all, func(a, b udiff.Edit) int { return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(b.End, a.End)) })
	f.Edits = nil
	var removals []udiff.Edit // that may remove bytes at or after the start of the current edit
	for _, e := range all {
		removals = slices.DeleteFunc(removals, func(r udiff.Edit) bool { return r.End < e.Start })
		if slices.ContainsFunc(removals, func(r udiff.Edit) bool { return f.removes(r, e) }) {
			continue
		}
		f.Edits = append(f.Edits, e)
		if e.New == "" {
			removals = append(removals, e)
		}
	}
}

// overlap reports whether two fixes cannot both be made.
func (f *file) overlap(a, b []check.Edit) bool {
	for _, x := range a {
		for _, y := range b {
			if f.editsOverlap(udiff.Edit{Start: x.Start, End: x.End, New: x.Text}, udiff.Edit{Start: y.Start, End: y.End, New: y.Text}) {
				return true
			}
		}
	}
	return f.addsLines(a, b) || f.addsLines(b, a)
}

// editsOverlap reports whether two edits conflict: they change common bytes and neither removes the text that the other
// changes, or one indents a line and the other inserts text at the start of the line.
func (f *file) editsOverlap(a, b udiff.Edit) bool {
	switch {
	case f.removes(a, b) || f.removes(b, a):
		return false
	case a.Start == a.End && b.Start == b.End:
		return a.Start == b.Start && (indents(a.New) || indents(b.New))
	case a.Start == a.End:
		return f.cuts(b, a)
	case b.Start == b.End:
		return f.cuts(a, b)
	}
	return a != b && a.Start < b.End && b.Start < a.End
}

// removes reports whether an edit removes the bytes that another edit changes, or the lines that it indents.
func (f *file) removes(e, other udiff.Edit) bool {
	switch {
	case e.New != "" || e.Start == e.End:
		return false
	case other.Start < other.End:
		return e.Start <= other.Start && other.End <= e.End
	}
	return e.Start < other.Start && other.End < e.End || e.Start == other.Start && f.lines(e) && indents(other.New)
}

// cuts reports whether an edit of a range conflicts with an insertion: within the range, after the part of a line that
// the edit removes, or in the first line that it removes.
func (f *file) cuts(e, insertion udiff.Edit) bool {
	switch insertion.Start {
	case e.Start:
		return e.New == "" && f.lines(e) && !strings.HasSuffix(insertion.New, "\n")
	case e.End:
		return e.New == "" && !f.lines(e)
	}
	return e.Start < insertion.Start && insertion.Start < e.End
}

// lines reports whether the range of an edit consists of whole lines.
func (f *file) lines(e udiff.Edit) bool {
	return (e.Start == 0 || f.Before[e.Start-1] == '\n') && e.End > 0 && f.Before[e.End-1] == '\n'
}

// indents reports whether a text is an indentation.
func indents(text string) bool { return text != "" && strings.Trim(text, " \t") == "" }

// addsLines reports whether a fix adds lines between or after lines that another fix indents. The added lines would
// lack the indentation.
func (f *file) addsLines(a, indenting []check.Edit) bool {
	start, end := len(f.Before), 0
	for _, e := range indenting {
		if e.Start == e.End && indents(e.Text) {
			start, end = min(start, e.Start), max(end, e.Start+bytes.IndexByte(f.Before[e.Start:], '\n')+1)
		}
	}
	return slices.ContainsFunc(a, func(e check.Edit) bool { return start < e.Start && e.Start <= end && strings.Contains(e.Text, "\n") })
}

// longest returns the length of the longest range that the fix of a finding replaces.
func longest(f review.Finding) (n int) {
	for _, e := range f.Detail.Edits {
		n = max(n, e.End-e.Start)
	}
	return n
}
