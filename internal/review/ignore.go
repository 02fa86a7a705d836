// SPDX-License-Identifier: Apache-2.0

package review

import (
	"path"
	"strings"
)

// pattern is one line of a .gitignore file. It matches bytes, as in Git. Character classes with names ([[:alpha:]])
// never match.
type pattern struct {
	elements []glob // of the path
	base     string // directory of the file below the root, "" for the root
	above    string // path from the directory of the file to the root, for a file above the root
	negated  bool
	dirOnly  bool
	baseName bool // matches the last element of the path
}

// glob is a pattern for one element of a path, or "**" for any number of elements.
type glob struct {
	text    string
	literal string // the end of the names that match
	star    bool   // any text may precede literal
	special bool   // it has other special characters
}

func newGlob(text string) glob {
	literal, star := strings.CutPrefix(text, "*")
	return glob{text, literal, star, strings.ContainsAny(literal, `*?[\`)}
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
		if strings.HasSuffix(line, "/**") { // the contents of the directory, not the directory
			line += "/*"
		}
		if line != "" && validGlob(line) {
			for text := range strings.SplitSeq(plainSlashes(line), "/") {
				p.elements = append(p.elements, newGlob(text))
			}
			patterns = append(patterns, p)
		}
	}
	return patterns
}

// IsPattern reports whether Options.Ignore may contain the text: a line of a .gitignore file that is valid for Git as
// well. In a .gitignore file, an invalid pattern matches nothing.
func IsPattern(line string) bool {
	if strings.ContainsAny(line, "\n\r") {
		return false
	}
	return len(parseIgnore(line, "", "")) == 1 || strings.TrimSpace(line) == "" || line[0] == '#'
}

// validGlob reports whether the character classes and escapes of a glob are complete.
func validGlob(glob string) bool {
	for glob != "" {
		switch glob[0] {
		case '[':
			_, rest, ok := class(glob, 0)
			if !ok {
				return false
			}
			glob = rest
		case '\\':
			if len(glob) == 1 {
				return false
			}
			glob = glob[2:]
		default:
			glob = glob[1:]
		}
	}
	return true
}

// plainSlashes returns a valid glob without the backslashes before slashes, which have no effect. Character classes
// contain no slashes.
func plainSlashes(glob string) string {
	if !strings.Contains(glob, `\/`) {
		return glob
	}
	var b strings.Builder
	for i := 0; i < len(glob); i++ {
		if glob[i] == '\\' {
			if i++; glob[i] != '/' {
				b.WriteByte('\\')
			}
		}
		b.WriteByte(glob[i])
	}
	return b.String()
}

// class reports whether the character class at the start of a glob contains a byte, and returns the rest of the glob.
// ok is false if the class does not end within the element of the path.
func class(glob string, c byte) (contains bool, rest string, ok bool) {
	rest = glob[1:]
	negated := rest != "" && (rest[0] == '^' || rest[0] == '!')
	if negated {
		rest = rest[1:]
	}
	next := func() (c byte, ok bool) {
		rest = strings.TrimPrefix(rest, `\`)
		if rest == "" || rest[0] == '/' {
			return 0, false
		}
		c, rest = rest[0], rest[1:]
		return c, true
	}
	for first := true; first || rest == "" || rest[0] != ']'; first = false {
		low, ok := next()
		high := low
		if ok && len(rest) > 1 && rest[0] == '-' && rest[1] != ']' {
			rest = rest[1:]
			high, ok = next()
		}
		if !ok {
			return false, "", false
		}
		contains = contains || low <= c && c <= high
	}
	return contains != negated, rest[1:], true
}

// matcher matches paths with patterns, in a limited number of steps: about one for each character that it compares.
type matcher struct {
	left int // remaining steps
}

// ignored reports whether the patterns exclude a path. The last pattern that matches decides. Once no steps remain, no
// pattern matches.
func (m *matcher) ignored(patterns []pattern, name string, dir bool) bool {
	for i := len(patterns) - 1; i >= 0 && m.left > 0; i-- {
		if p := &patterns[i]; m.match(p, name, dir) {
			return !p.negated
		}
	}
	return false
}

func (m *matcher) match(p *pattern, name string, dir bool) bool {
	m.left -= 1 + len(name)/64
	switch {
	case p.dirOnly && !dir:
		return false
	case p.baseName:
		return m.element(p.elements[0], path.Base(name))
	case p.base != "" && strings.HasPrefix(name, p.base) && name[len(p.base):] != "" && name[len(p.base)] == '/':
		name = name[len(p.base)+1:]
	}
	if p.above != "" {
		name = path.Join(p.above, name)
		m.left -= len(name) / 8
	}
	// Try the shortest path for each "**", and the next longer one for the last "**" if the rest does not match.
	elements := p.elements
	var after []glob // the elements after the last "**"
	var from string  // the path that they are compared with
	for name != "" {
		if m.left <= 0 {
			return false
		}
		if len(elements) > 0 && elements[0].text == "**" {
			elements = elements[1:]
			after, from = elements, name
			continue
		}
		first, rest, _ := strings.Cut(name, "/")
		if len(elements) > 0 && m.element(elements[0], first) {
			elements, name = elements[1:], rest
			continue
		}
		if after == nil {
			return false
		}
		m.left--
		_, from, _ = strings.Cut(from, "/")
		elements, name = after, from
	}
	for len(elements) > 0 && elements[0].text == "**" {
		elements = elements[1:]
	}
	return len(elements) == 0
}

// element reports whether a glob matches one element of a path.
func (m *matcher) element(g glob, name string) bool {
	if !g.special {
		return name == g.literal || g.star && strings.HasSuffix(name, g.literal)
	}
	glob := g.text
	after, from := "", "" // the glob after the last "*", and the name that it is compared with
	star := false
	for name != "" {
		if m.left--; m.left <= 0 {
			return false
		}
		if glob != "" && glob[0] == '*' {
			if glob = strings.TrimLeft(glob, "*"); glob == "" {
				return true
			}
			after, from, star = glob, name, true
			continue
		}
		if rest, ok := m.character(glob, name[0]); ok {
			glob, name = rest, name[1:]
			continue
		}
		if !star {
			return false
		}
		from = from[1:]
		glob, name = after, from
	}
	return strings.TrimLeft(glob, "*") == ""
}

// character reports whether the first part of a glob matches a byte, and returns the rest of the glob.
func (m *matcher) character(glob string, c byte) (rest string, ok bool) {
	if glob == "" {
		return "", false
	}
	switch glob[0] {
	case '?':
		return glob[1:], true
	case '[':
		contains, rest, _ := class(glob, c)
		m.left -= len(glob) - len(rest)
		return rest, contains
	case '\\':
		glob = glob[1:]
	}
	return glob[1:], glob[0] == c
}
