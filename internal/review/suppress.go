// SPDX-License-Identifier: Apache-2.0

package review

import (
	"bytes"
	"regexp"
	"slices"
	"sort"

	"assay/internal/review/syntax"
)

// marker begins a suppression in a comment: `assay-ignore: span-noise, context-lost`. Text after the names is a reason.
const marker = "assay-ignore:"

// suppressed returns the names of the suppressed checks of a file by line. A source file with a marker is parsed for
// its comments.
func (r *run) suppressed(name string, source []byte) map[int][]string {
	if !bytes.Contains(source, []byte(marker)) {
		return nil
	}
	if language := syntax.LanguageOf(name); language != syntax.Unknown {
		if tree, err := r.parse(file{path: name, language: language}, source); err == nil {
			return suppressions(source, func(at int) bool { return inComment(tree.Comments, at) })
		}
	}
	return suppressions(source, func(at int) bool { return inLineComment(source, at) })
}

// suppressions returns the names of the suppressed checks by line, from 1. A suppression applies to its line and to
// the next one. It counts if comment reports that its offset is in a comment.
func suppressions(source []byte, comment func(at int) bool) map[int][]string {
	var found map[int][]string
	line, from := 1, 0
	for {
		i := bytes.Index(source[from:], []byte(marker))
		if i < 0 {
			return found
		}
		line += bytes.Count(source[from:from+i], []byte{'\n'})
		at := from + i
		from = at + len(marker)
		if !comment(at) {
			continue
		}
		rest := source[from:min(len(source), from+maxSuppression)]
		if end := bytes.IndexByte(rest, '\n'); end >= 0 {
			rest = rest[:end]
		}
		if found == nil {
			found = map[int][]string{}
		}
		names := checkName.FindAllString(checkNames.FindString(string(rest)), -1)
		found[line] = append(found[line], names...)
		found[line+1] = append(found[line+1], names...)
	}
}

// maxSuppression is the maximum number of bytes before and after a marker that are read from its line.
const maxSuppression = 1 << 10

// inComment reports whether an offset is in one of the comments, which are in the order of the source.
func inComment(comments []syntax.Comment, at int) bool {
	i := sort.Search(len(comments), func(i int) bool { return comments[i].Start > at })
	return i > 0 && at < comments[i-1].End
}

// inLineComment reports whether an offset in a file without a tree is in a comment: a comment begins before it in the
// same line, outside of quotation marks.
func inLineComment(source []byte, at int) bool {
	begin := max(0, at-maxSuppression)
	begin += bytes.LastIndexByte(source[begin:at], '\n') + 1
	line := source[begin:min(len(source), at+maxSuppression)]
	if end := bytes.IndexByte(line[at-begin:], '\n'); end >= 0 {
		line = line[:at-begin+end]
	}
	start := line[:at-begin]
	if bytes.HasPrefix(bytes.TrimSpace(start), []byte("*")) { // within /* */
		return true
	}
	var quote byte
	for i, c := range start {
		switch {
		case c == quote:
			quote = 0
		case quote != 0:
		case slices.ContainsFunc([]string{"#", "//", "/*", "<!--"}, func(open string) bool { return bytes.HasPrefix(start[i:], []byte(open)) }):
			return true
		case (c == '"' || c == '\'') && (i == 0 || !letter(line[i-1])) && bytes.IndexByte(line[i+1:], c) >= 0:
			quote = c
		}
	}
	return false
}

// letter reports whether a byte is a letter. A quotation mark after a letter is an apostrophe.
func letter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// checkNames matches the names at the start of a text, separated by commas, and checkName one of them.
var (
	checkNames = regexp.MustCompile(`^[ \t]*[a-z0-9-]+([ \t]*,[ \t]*[a-z0-9-]+)*`)
	checkName  = regexp.MustCompile(`[a-z0-9-]+`)
)
