// SPDX-License-Identifier: Apache-2.0

package report

import (
	"io"
	"regexp"
	"strings"

	"assay/internal/safetext"
)

// blockKind is a kind of Markdown block in the texts of the catalog.
type blockKind int

const (
	paragraph blockKind = iota
	heading
	listItem
	code
)

// block is one block of a Markdown text.
type block struct {
	kind  blockKind
	level int      // level of a heading, from 1
	text  string   // one line; empty for code
	lines []string // lines of code
}

// parseBlocks parses the Markdown of the catalog: headings, paragraphs, flat lists with hyphens, and fenced code.
// Everything else is a paragraph.
func parseBlocks(text string) []block {
	var blocks []block
	open := false // the last block accepts further lines
	fenced := false
	for line := range strings.SplitSeq(text, "\n") {
		switch trimmed := strings.TrimSpace(line); {
		case strings.HasPrefix(trimmed, "```"):
			if fenced = !fenced; fenced {
				blocks = append(blocks, block{kind: code})
			}
			open = false
		case fenced:
			last := &blocks[len(blocks)-1]
			last.lines = append(last.lines, strings.ReplaceAll(line, "\t", "    "))
		case trimmed == "":
			open = false
		case strings.HasPrefix(line, "#"):
			hashes := len(line) - len(strings.TrimLeft(line, "#"))
			blocks = append(blocks, block{kind: heading, level: hashes, text: strings.TrimSpace(line[hashes:])})
			open = false
		case strings.HasPrefix(line, "- "):
			blocks = append(blocks, block{kind: listItem, text: trimmed[2:]})
			open = true
		case open:
			blocks[len(blocks)-1].text += " " + trimmed
		default:
			blocks = append(blocks, block{kind: paragraph, text: trimmed})
			open = true
		}
	}
	return blocks
}

var markdownLink = regexp.MustCompile(`\[([^\]]+)\]\(([^)\s]+)\)`)

// plain converts inline Markdown to plain text: links become text and URL, code keeps its backticks.
func plain(s string) string {
	return strings.ReplaceAll(markdownLink.ReplaceAllString(s, "$1 <$2>"), "**", "")
}

// helpLink returns the URL of the last link in a Markdown text, or "".
func helpLink(s string) string {
	links := markdownLink.FindAllStringSubmatch(s, -1)
	if len(links) == 0 {
		return ""
	}
	return links[len(links)-1][2]
}

// Markdown writes trusted Markdown, such as a text of the catalog, for a terminal.
func Markdown(w io.Writer, text string, opt Options) error {
	p := &prose{opt: opt}
	p.blocks(parseBlocks(text), "")
	_, err := io.WriteString(w, p.b.String())
	return err
}

// prose writes blocks of text.
type prose struct {
	b   strings.Builder
	opt Options
}

func (p *prose) line(s string) {
	p.b.WriteString(safetext.LogLine(strings.TrimRight(s, " ")))
	p.b.WriteByte('\n')
}

// wrapped writes a wrapped text with the prefix first on the first line and rest on the others.
func (p *prose) wrapped(first, rest, text string) {
	for i, l := range wrap(text, p.opt.width()-columns(rest)) {
		if i == 0 {
			p.line(first + l)
		} else {
			p.line(rest + l)
		}
	}
}

func (p *prose) blocks(blocks []block, indent string) {
	for i, b := range blocks {
		if i > 0 && (b.kind != listItem || blocks[i-1].kind != listItem) {
			p.line("")
		}
		switch b.kind {
		case heading:
			text := plain(b.text)
			if b.level <= 2 && !p.opt.Color {
				text = strings.ToUpper(text)
			}
			p.line(indent + p.opt.style(bold, text))
		case paragraph:
			p.wrapped(indent, indent, plain(b.text))
		case listItem:
			p.wrapped(indent+"- ", indent+"  ", plain(b.text))
		case code:
			for _, l := range b.lines {
				p.line(indent + "    " + p.opt.style(dim, l))
			}
		}
	}
}

// style is an SGR sequence of ECMA-48.
type style string

const (
	bold   style = "1"
	dim    style = "2"
	red    style = "1;31"
	green  style = "32"
	yellow style = "33"
	cyan   style = "36"
)

// style applies a style to a text if color is enabled.
func (o Options) style(s style, text string) string {
	if !o.Color || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}

// maxStepLines is the maximum number of code lines or list items in a first step.
const maxStepLines = 6

// short returns a block with its code truncated for a first step.
func (b block) short() block {
	if len(b.lines) > maxStepLines {
		b.lines = append(b.lines[:maxStepLines:maxStepLines], "...")
	}
	return b
}

// firstStep returns the first paragraph of a remediation and, if it ends in a colon, the block that it introduces.
func firstStep(remediation string) []block {
	blocks := parseBlocks(remediation)
	for i, b := range blocks {
		if b.kind == heading {
			continue
		}
		step := []block{b.short()}
		if !strings.HasSuffix(b.text, ":") {
			return step
		}
		for _, next := range blocks[i+1:] {
			switch {
			case next.kind == code && len(step) == 1:
				return append(step, next.short())
			case next.kind == listItem && len(step) <= maxStepLines:
				step = append(step, next)
			default:
				return step
			}
		}
		return step
	}
	return nil
}
