// SPDX-License-Identifier: Apache-2.0

package fix

import (
	"cmp"
	"context"
	"os"
	"slices"

	"github.com/aymanbagabas/go-udiff"

	"assay/internal/review"
	"assay/internal/review/patch"
	"assay/internal/review/syntax"
	"assay/internal/review/treesitter"
)

// Patch holds the files that fixes change.
type Patch struct {
	patch.Patch
	Fixed []review.Finding `json:"fixed"`
	// Left are the findings whose fix is not in the patch: it overlaps with another one, or the file would no longer
	// parse.
	Left []review.Finding `json:"left"`
}

// file is a file with the edits of its fixes.
type file struct{ patch.File }

// Make returns the patch for the findings of a report on root that have a fix. The edits of one finding are made
// together or not at all. The files have to be as they were when they were reviewed.
func Make(ctx context.Context, root *os.Root, parser *treesitter.Parser, findings []review.Finding) (*Patch, error) {
	byFile := make(map[string][]review.Finding)
	for _, f := range findings {
		if f.Fixable {
			path := f.Locations[0].File
			byFile[path] = append(byFile[path], f)
		}
	}
	p := new(Patch)
	for path, list := range byFile {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		before, err := patch.Read(root, path)
		if err != nil {
			return nil, err
		}
		file := file{patch.File{Path: path, Before: before}}
		fixed, left := file.add(list)
		if err := file.Apply(); err != nil {
			return nil, err
		}
		whole := !patch.Parses(ctx, parser, path, before) || patch.Parses(ctx, parser, path, file.After)
		if whole && syntax.LanguageOf(path) == syntax.Go {
			whole = file.TidyGo()
		}
		if !whole {
			p.Left = append(p.Left, list...)
			continue
		}
		p.Left = append(p.Left, left...)
		if p.Fixed = append(p.Fixed, fixed...); len(fixed) > 0 {
			p.Files = append(p.Files, file.File)
		}
	}
	p.Sort()
	return p, nil
}

// add adds the edits of findings that do not overlap with others. Equal edits, such as of one import, count once. What a
// finding removes includes the edits of others in it.
func (f *file) add(findings []review.Finding) (fixed, left []review.Finding) {
	slices.SortStableFunc(findings, func(a, b review.Finding) int { return cmp.Compare(longest(b), longest(a)) })
	for _, finding := range findings {
		var more []udiff.Edit
		fits := true
		for _, e := range finding.Detail.Edits {
			edit := udiff.Edit{Start: e.Start, End: e.End, New: e.Text}
			if slices.ContainsFunc(f.Edits, func(other udiff.Edit) bool {
				return other == edit || other.New == "" && other.Start <= edit.Start && edit.End <= other.End && other.Start < other.End
			}) {
				continue
			}
			fits = fits && 0 <= e.Start && e.Start <= e.End && e.End <= len(f.Before) &&
				!slices.ContainsFunc(f.Edits, func(other udiff.Edit) bool { return overlap(edit, other) })
			more = append(more, edit)
		}
		if !fits {
			left = append(left, finding)
			continue
		}
		fixed = append(fixed, finding)
		f.Edits = append(f.Edits, more...)
	}
	return fixed, left
}

// longest returns the length of the longest range that the fix of a finding replaces.
func longest(f review.Finding) (n int) {
	for _, e := range f.Detail.Edits {
		n = max(n, e.End-e.Start)
	}
	return n
}

// overlap reports whether edits change common bytes. Insertions at one offset do not.
func overlap(a, b udiff.Edit) bool { return a.Start < b.End && b.Start < a.End }
