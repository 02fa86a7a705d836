// SPDX-License-Identifier: Apache-2.0

package summary

import (
	"fmt"
	"html"
	"regexp"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"
	nethtml "golang.org/x/net/html"

	"assay/internal/rules/sensitive"
)

// markdown parses CommonMark without extensions. GitHub's extensions do not change the
// meaning of the output: none of its lines can become part of a table.
var markdown = goldmark.New()

// maxNested limits the nesting of lists and quotes. Deeper ones are flattened.
const maxNested = 5

// rewrite parses Markdown and writes it again from safe elements, without emphasis if flat is set. prose reports
// whether it contains text besides headings.
func rewrite(source string, hosts map[string]bool, flat bool) (result string, prose bool) {
	doc := markdown.Parser().Parse(text.NewReader([]byte(source)))
	if only, ok := doc.FirstChild().(*ast.FencedCodeBlock); ok && doc.ChildCount() == 1 {
		// Some models put the whole answer into a block of code.
		switch string(only.Language([]byte(source))) {
		case "markdown", "md":
			source = string(only.Lines().Value([]byte(source)))
			doc = markdown.Parser().Parse(text.NewReader([]byte(source)))
		}
	}
	w := writer{source: []byte(source), hosts: hosts, flat: flat}
	var b strings.Builder
	for _, block := range w.document(doc) {
		if b.Len()+len(block.sep)+len(block.text) > maxContent {
			break
		}
		if b.Len() > 0 {
			b.WriteString(block.sep)
		}
		b.WriteString(block.text)
		prose = prose || !block.heading && hasText(block.text)
	}
	return b.String(), prose
}

// writer writes the nodes of a document.
type writer struct {
	source []byte
	hosts  map[string]bool
	flat   bool // no emphasis
}

// block is a part of a document. A document is truncated only between blocks.
type block struct {
	sep     string // before it, unless it is the first
	text    string
	heading bool
}

func (w *writer) document(doc ast.Node) []block {
	var all []block
	for n := doc.FirstChild(); n != nil; n = n.NextSibling() {
		if list, ok := n.(*ast.List); ok {
			sep := "\n\n"
			for _, item := range w.items(list, 1) {
				all = append(all, block{sep: sep, text: item})
				sep = separator(list)
			}
			continue
		}
		_, heading := n.(*ast.Heading)
		if t := w.block(n, 0); t != "" {
			all = append(all, block{sep: "\n\n", text: t, heading: heading})
		}
	}
	return all
}

func separator(l *ast.List) string {
	if l.IsTight {
		return "\n"
	}
	return "\n\n"
}

// block returns a block without a trailing newline, or "" if it is omitted.
func (w *writer) block(n ast.Node, depth int) string {
	switch n := n.(type) {
	case *ast.Heading:
		t := w.line(n)
		if t == "" {
			return ""
		}
		if strings.HasSuffix(t, "#") { // would end the heading
			t = t[:len(t)-1] + `\#`
		}
		return strings.Repeat("#", n.Level) + " " + t
	case *ast.Paragraph, *ast.TextBlock:
		return w.line(n)
	case *ast.List:
		return strings.Join(w.items(n, depth+1), separator(n))
	case *ast.Blockquote:
		inner := w.blocks(n, depth+1, "\n\n")
		if depth >= maxNested || inner == "" {
			return inner
		}
		return indent(inner, "> ", "> ")
	case *ast.FencedCodeBlock:
		return w.code(string(n.Language(w.source)), string(n.Lines().Value(w.source)))
	case *ast.CodeBlock:
		return w.code("", string(n.Lines().Value(w.source)))
	case *ast.HTMLBlock:
		raw := string(n.Lines().Value(w.source))
		if n.HasClosure() {
			raw += string(n.ClosureLine.Value(w.source))
		}
		return w.escape(textOfHTML(raw), true, "")
	default: // a thematic break, or a definition of a reference
		return ""
	}
}

// blocks returns the blocks of a container. sep separates a list from the block before
// it.
func (w *writer) blocks(n ast.Node, depth int, sep string) string {
	var b strings.Builder
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		t := w.block(c, depth)
		if t == "" {
			continue
		}
		if b.Len() > 0 {
			if _, list := c.(*ast.List); list {
				b.WriteString(sep)
			} else {
				b.WriteString("\n\n")
			}
		}
		b.WriteString(t)
	}
	return b.String()
}

// items returns the items of a list that have content.
func (w *writer) items(l *ast.List, depth int) []string {
	start := l.Start
	if start < 0 || start > 1000 {
		start = 1
	}
	var all []string
	for n := l.FirstChild(); n != nil; n = n.NextSibling() {
		inner := w.blocks(n, depth, separator(l))
		if inner == "" {
			continue
		}
		marker := "- "
		switch {
		case depth > maxNested:
			marker = ""
		case l.IsOrdered():
			marker = fmt.Sprintf("%d. ", start+len(all))
		}
		all = append(all, indent(inner, marker, strings.Repeat(" ", len(marker))))
	}
	return all
}

// indent returns a text with first before its first line and rest before the other lines.
func indent(s, first, rest string) string {
	var b strings.Builder
	for line := range strings.Lines(s) {
		switch {
		case b.Len() == 0:
			b.WriteString(first)
		case line == "\n":
			b.WriteString(strings.TrimRight(rest, " "))
		default:
			b.WriteString(rest)
		}
		b.WriteString(line)
	}
	return b.String()
}

var language = regexp.MustCompile(`^[A-Za-z0-9_+.-]{1,20}$`)

// code returns a code block with a fence that does not occur in the code.
func (w *writer) code(lang, lines string) string {
	lines = w.codeText(strings.TrimRight(lines, "\n"))
	if strings.TrimSpace(lines) == "" {
		return ""
	}
	if !language.MatchString(lang) {
		lang = ""
	}
	fence := strings.Repeat("`", max(3, longestRun(lines, '`')+1))
	return fence + lang + "\n" + lines + "\n" + fence
}

// codeText returns code without URLs of other hosts.
func (w *writer) codeText(s string) string {
	return urlShape.ReplaceAllStringFunc(s, func(u string) string {
		if known := trimURL(u); !linkTo(known, w.hosts) && !ownURL(known) {
			return linkRemoved + u[len(known):]
		}
		return u
	})
}

func longestRun(s string, c byte) int {
	longest, run := 0, 0
	for i := range len(s) {
		if s[i] != c {
			run = 0
			continue
		}
		run++
		longest = max(longest, run)
	}
	return longest
}

// textOfHTML returns the text of a piece of HTML.
func textOfHTML(raw string) string {
	var b strings.Builder
	skip := ""
	for z := nethtml.NewTokenizer(strings.NewReader(raw)); ; {
		switch z.Next() {
		case nethtml.ErrorToken:
			return b.String()
		case nethtml.StartTagToken:
			switch name, _ := z.TagName(); string(name) {
			case "script", "style", "iframe", "noscript", "template", "textarea", "title", "xmp", "noembed", "noframes", "plaintext":
				skip = string(name)
			}
		case nethtml.EndTagToken:
			if name, _ := z.TagName(); string(name) == skip {
				skip = ""
			}
		case nethtml.TextToken:
			if skip == "" {
				b.WriteString(html.UnescapeString(string(z.Raw())))
				b.WriteByte(' ')
			}
		}
	}
}

// piece is a part of a line: a text to be escaped, or Markdown.
type piece struct {
	text   string
	markup bool
}

// line returns the inline content of a block in one line.
func (w *writer) line(n ast.Node) string {
	pieces := w.inline(nil, n)
	// Escape adjacent texts together: each may contain half of a link.
	merged := pieces[:0]
	for _, p := range pieces {
		if last := len(merged) - 1; last >= 0 && !p.markup && !merged[last].markup {
			merged[last].text += p.text
		} else if p.text != "" {
			merged = append(merged, p)
		}
	}
	var b strings.Builder
	for i, p := range merged {
		if p.markup {
			b.WriteString(p.text)
			continue
		}
		next := ""
		if i+1 < len(merged) {
			next = merged[i+1].text
		}
		b.WriteString(w.escape(p.text, b.Len() == 0, next))
	}
	return strings.TrimSpace(b.String())
}

func (w *writer) inline(to []piece, n ast.Node) []piece {
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		switch c := c.(type) {
		case *ast.Text:
			t := string(c.Segment.Value(w.source))
			if !c.IsRaw() {
				t = unescape(t)
			}
			if c.SoftLineBreak() || c.HardLineBreak() {
				t += " "
			}
			to = append(to, piece{text: t})
		case *ast.String:
			to = append(to, piece{text: string(c.Value)})
		case *ast.CodeSpan:
			to = append(to, piece{text: w.codeSpan(c), markup: true})
		case *ast.Emphasis:
			inner := w.inline(nil, c)
			if w.flat || strings.TrimSpace(joined(inner)) == "" {
				to = append(to, inner...)
				continue
			}
			mark := piece{text: strings.Repeat("*", c.Level), markup: true}
			to = append(append(append(to, mark), inner...), mark)
		case *ast.Link:
			label := strings.TrimSpace(joined(w.inline(nil, c)))
			if u := string(c.Destination); hasText(label) && linkTo(u, w.hosts) {
				to = append(to, w.link(label, u))
			} else {
				to = append(to, w.inline(nil, c)...)
			}
		case *ast.AutoLink:
			to = append(to, w.autoLink(c))
		case *ast.RawHTML:
		default: // an image: its text stays
			to = w.inline(to, c)
		}
	}
	return to
}

// joined returns the text of pieces.
func joined(pieces []piece) string {
	var b strings.Builder
	for _, p := range pieces {
		b.WriteString(p.text)
	}
	return b.String()
}

// link returns a link. If its text is a URL, the link shows its destination instead.
func (w *writer) link(label, destination string) piece {
	if urlShape.MatchString(label) {
		return piece{text: "<" + destination + ">", markup: true}
	}
	var b strings.Builder
	escape(&b, strings.Map(unbracket, label), false, "]")
	return piece{text: "[" + b.String() + "](" + destination + ")", markup: true}
}

// unbracket removes characters from a link's text that would need double escaping.
func unbracket(r rune) rune {
	if strings.ContainsRune("[]`*\\", r) {
		return -1
	}
	return r
}

// autoLink returns a link without a text of its own.
func (w *writer) autoLink(n *ast.AutoLink) piece {
	if u := string(n.URL(w.source)); n.AutoLinkType == ast.AutoLinkURL && linkTo(u, w.hosts) {
		return piece{text: "<" + u + ">", markup: true}
	}
	return piece{text: linkRemoved}
}

// codeSpan returns an inline code span, or "" if it is blank.
func (w *writer) codeSpan(n *ast.CodeSpan) string {
	var b strings.Builder
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		if t, ok := c.(*ast.Text); ok {
			b.Write(t.Segment.Value(w.source))
		}
	}
	code := w.codeText(strings.Join(strings.Fields(b.String()), " "))
	if code == "" {
		return ""
	}
	fence := strings.Repeat("`", longestRun(code, '`')+1)
	if strings.HasPrefix(code, "`") || strings.HasSuffix(code, "`") {
		code = " " + code + " "
	}
	return fence + code + fence
}

const entityShape = "&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});"

var (
	entity  = regexp.MustCompile("^" + entityShape)
	escaped = regexp.MustCompile("\\\\[!-/:-@\\[-`{-~]|" + entityShape)
)

// unescape returns the text that a piece of Markdown renders as.
func unescape(s string) string {
	return escaped.ReplaceAllStringFunc(s, func(e string) string {
		if e[0] == '\\' {
			return e[1:]
		}
		return html.UnescapeString(e)
	})
}

var spaces = regexp.MustCompile(`\s+`)

// escape returns one line of Markdown that renders as the given text only. start
// reports whether it begins a block, and next is the text after it. Known URLs become
// autolinks (<URL>), which no parser joins with the text around them.
func (w *writer) escape(s string, start bool, next string) string {
	s = spaces.ReplaceAllString(sensitive.Clean([]byte(plain(s))), " ")
	if start {
		s = strings.TrimLeft(s, " ")
	}
	var b strings.Builder
	done := 0
	for _, at := range urlShape.FindAllStringIndex(s, -1) {
		u := trimURL(s[at[0]:at[1]])
		escape(&b, s[done:at[0]], start && done == 0, "<")
		if linkTo(u, w.hosts) {
			b.WriteString("<" + u + ">")
		} else {
			b.WriteString(linkRemoved)
		}
		done = at[0] + len(u)
	}
	escape(&b, s[done:], start && done == 0, next)
	return b.String()
}

// escape writes a text without URLs.
func escape(b *strings.Builder, s string, start bool, next string) {
	digits := start
	for i := range len(s) {
		c := s[i]
		before, after := byte(' '), byte(' ')
		if i > 0 {
			before = s[i-1]
		}
		switch {
		case i+1 < len(s):
			after = s[i+1]
		case next != "":
			after = next[0]
		}
		switch {
		case strings.IndexByte("\\`*<", c) >= 0,
			c == '_' && !(isWord(before) && isWord(after)),
			c == '&' && entity.MatchString(s[i:]),
			c == '!' && after == '[',
			c == ']' && (after == '(' || after == ':'),
			c == '@' && isWord(after),
			start && i == 0 && strings.IndexByte("#>+-=~|:", c) >= 0,
			digits && i > 0 && (c == '.' || c == ')'):
			b.WriteByte('\\')
		}
		digits = digits && c >= '0' && c <= '9'
		b.WriteByte(c)
	}
}

// isWord reports whether a byte may be part of a word. All non-ASCII bytes may.
func isWord(c byte) bool { return isAlnum(c) || c >= 0x80 }
