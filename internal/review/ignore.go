// SPDX-License-Identifier: Apache-2.0

package review

import (
	"path"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// pattern is one line of a .gitignore file. Character classes with names ([[:alpha:]]) never match.
type pattern struct {
	glob     string
	base     string // directory of the file below the root, "" for the root
	above    string // path from the directory of the file to the root, for a file above the root
	negated  bool
	dirOnly  bool
	baseName bool // matches the last element of the path
}

// parseIgnore returns the patterns of a .gitignore file in a directory below the root, in their order.
func parseIgnore(text, base, above string) []pattern {
	var patterns []pattern
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimSuffix(line, "\r")
		if trimmed := strings.TrimRight(line, " "); strings.HasSuffix(trimmed, `\`) && trimmed != line {
			line = trimmed + " "
		} else {
			line = trimmed
		}
		if line == "" || line[0] == '#' {
			continue
		}
		p := pattern{base: base, above: above}
		if line[0] == '!' {
			p.negated, line = true, line[1:]
		}
		if strings.HasSuffix(line, "/") {
			p.dirOnly, line = true, strings.TrimRight(line, "/")
		}
		p.baseName = !strings.Contains(line, "/")
		line = strings.TrimPrefix(line, "/")
		if strings.HasSuffix(line, "/**") { // what is in the directory, not the directory
			line += "/*"
		}
		p.glob = escapeBraces(line)
		if p.glob != "" && doublestar.ValidatePattern(p.glob) {
			patterns = append(patterns, p)
		}
	}
	return patterns
}

// IsPattern reports whether Options.Ignore may have the text: a line of a .gitignore file that Git understands too. An
// invalid pattern there matches nothing.
func IsPattern(line string) bool {
	if strings.ContainsAny(line, "\n\r") {
		return false
	}
	return len(parseIgnore(line, "", "")) == 1 || strings.TrimSpace(line) == "" || line[0] == '#'
}

// escapeBraces makes braces literal: they have no meaning in a .gitignore file.
func escapeBraces(glob string) string {
	var b strings.Builder
	for i := 0; i < len(glob); i++ {
		switch glob[i] {
		case '\\':
			b.WriteByte('\\')
			if i++; i < len(glob) {
				b.WriteByte(glob[i])
			}
		case '{', '}':
			b.WriteByte('\\')
			b.WriteByte(glob[i])
		default:
			b.WriteByte(glob[i])
		}
	}
	return b.String()
}

func (p *pattern) match(name string, dir bool) bool {
	if p.dirOnly && !dir {
		return false
	}
	if p.baseName {
		return doublestar.MatchUnvalidated(p.glob, path.Base(name))
	}
	if p.base != "" {
		name = strings.TrimPrefix(name, p.base+"/")
	}
	return doublestar.MatchUnvalidated(p.glob, path.Join(p.above, name))
}

// ignored reports whether the patterns exclude a path. The last pattern that matches decides.
func ignored(patterns []pattern, name string, dir bool) bool {
	for i := len(patterns) - 1; i >= 0; i-- {
		if patterns[i].match(name, dir) {
			return !patterns[i].negated
		}
	}
	return false
}
