// SPDX-License-Identifier: Apache-2.0

package review

import (
	"bytes"
	"regexp"
	"slices"
)

// marker begins a suppression in a comment: `assay-ignore: span-noise, context-lost`. Text after the names is a reason.
const marker = "assay-ignore:"

// suppressions returns the names of the suppressed checks by line, from 1. A suppression applies to its line and to
// the next one.
func suppressions(source []byte) map[int][]string {
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
		begin := bytes.LastIndexByte(source[max(0, at-maxSuppression):at], '\n') + 1 + max(0, at-maxSuppression)
		if !comment(source[begin:at]) {
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

// maxSuppression is the maximum number of bytes before and after the marker in its line that count.
const maxSuppression = 1 << 10

// comment reports whether a line that starts like this is in a comment.
func comment(start []byte) bool {
	if bytes.HasPrefix(bytes.TrimSpace(start), []byte("*")) { // within /* */
		return true
	}
	return slices.ContainsFunc([]string{"#", "//", "/*", "<!--"}, func(open string) bool { return bytes.Contains(start, []byte(open)) })
}

// checkNames matches the names at the start of a text, separated by commas, and checkName one of them.
var (
	checkNames = regexp.MustCompile(`^[ \t]*[a-z0-9-]+([ \t]*,[ \t]*[a-z0-9-]+)*`)
	checkName  = regexp.MustCompile(`[a-z0-9-]+`)
)
