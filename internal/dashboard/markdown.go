// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"bytes"
	"html/template"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	gmhtml "github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// topHeading is the top level of headings in a text. The page uses the levels above.
const topHeading = 3

// converter converts Markdown to HTML. It omits raw HTML and unsafe link targets, as goldmark does by default. It
// replaces images, which would be loaded from elsewhere, by their text. Every code block gets a copy button.
var converter = goldmark.New(goldmark.WithRendererOptions(
	renderer.WithNodeRenderers(util.Prioritized(blocks{gmhtml.NewConfig()}, 100)),
))

// markdown returns a text as HTML.
func markdown(source string) template.HTML {
	return rendered([]byte(source), parsed([]byte(source)))
}

// findingText returns a text with names from a repository as HTML. It replaces links by their text.
func findingText(source string) template.HTML {
	doc := parsed([]byte(source))
	var links []ast.Node
	_ = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // which never fails
		if entering && (n.Kind() == ast.KindLink || n.Kind() == ast.KindAutoLink) {
			links = append(links, n)
		}
		return ast.WalkContinue, nil
	})
	for _, n := range links {
		if a, ok := n.(*ast.AutoLink); ok {
			n.Parent().InsertBefore(n.Parent(), n, ast.NewString(a.Label([]byte(source))))
		}
		for n.FirstChild() != nil {
			n.Parent().InsertBefore(n.Parent(), n, n.FirstChild())
		}
		n.Parent().RemoveChild(n.Parent(), n)
	}
	return rendered([]byte(source), doc)
}

func parsed(source []byte) ast.Node {
	return converter.Parser().Parse(text.NewReader(source), parser.WithContext(parser.NewContext()))
}

func rendered(source []byte, n ast.Node) template.HTML {
	orderHeadings(n)
	var b bytes.Buffer
	if err := converter.Renderer().Render(&b, source, n); err != nil { // only writing can fail, and a buffer takes all
		return template.HTML("<pre>" + template.HTMLEscapeString(string(source)) + "</pre>")
	}
	return template.HTML(b.String())
}

// orderHeadings moves the headings of a text below the headings of the page, none more than
// one level below the one before.
func orderHeadings(doc ast.Node) {
	var all []*ast.Heading
	top := 6
	_ = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // which never fails
		if h, ok := n.(*ast.Heading); ok && entering {
			all, top = append(all, h), min(top, h.Level)
		}
		return ast.WalkContinue, nil
	})
	before := topHeading - 1
	for _, h := range all {
		h.Level = min(topHeading+h.Level-top, before+1, 6)
		before = h.Level
	}
}

// section is a part of a text under a heading.
type section struct {
	Title string
	Body  template.HTML
}

// sections splits a text at its headings of the third level. Remediations have one for the SDK and one for the
// Collector. The text before the first heading is the introduction.
func sections(source string) (intro template.HTML, parts []section) {
	const mark = "### "
	var title string
	var body strings.Builder
	end := func() {
		switch {
		case title != "":
			parts = append(parts, section{title, markdown(body.String())})
		case strings.TrimSpace(body.String()) != "":
			intro = markdown(body.String())
		}
		body.Reset()
	}
	fenced := false
	for line := range strings.Lines(source) {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		}
		if t, ok := strings.CutPrefix(line, mark); ok && !fenced {
			end()
			title = strings.TrimSpace(t)
			continue
		}
		body.WriteString(line)
	}
	end()
	return intro, parts
}

// blocks renders code and images.
type blocks struct{ gmhtml.Config }

// RegisterFuncs implements renderer.NodeRenderer.
func (b blocks) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindFencedCodeBlock, func(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			writeCode(w, string(n.(*ast.FencedCodeBlock).Language(source)), string(n.Lines().Value(source)))
		}
		return ast.WalkContinue, nil
	})
	r.Register(ast.KindCodeBlock, func(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			writeCode(w, "", string(n.Lines().Value(source)))
		}
		return ast.WalkContinue, nil
	})
	// The children of an image are its text.
	r.Register(ast.KindImage, func(util.BufWriter, []byte, ast.Node, bool) (ast.WalkStatus, error) { return ast.WalkContinue, nil })
}

// languages are the display names of the languages of code.
var languages = map[string]string{
	"sh": "Shell", "go": "Go", "python": "Python", "js": "JavaScript", "ts": "TypeScript", "java": "Java", "yaml": "YAML",
	"csharp": "C#", "ruby": "Ruby", "php": "PHP", "xml": "XML", "json": "JSON", "dockerfile": "Dockerfile", "properties": "Properties",
}

func writeCode(w util.BufWriter, language, text string) {
	_, _ = w.WriteString(string(code(languages[language], text))) // into memory
}

// code returns a block of code with its title, "" for none, and a button that copies
// it. It can be scrolled by keyboard.
func code(title, text string) template.HTML {
	text = strings.TrimRight(text, "\n")
	label := "Code"
	if title != "" {
		label = title
	}
	label = template.HTMLEscapeString(label)
	return template.HTML(`<div class="code"><div class="code-head"><span>` + template.HTMLEscapeString(title) + `</span>` +
		`<button type="button" class="copy" data-copy hidden>Copy</button></div>` +
		`<pre tabindex="0" role="region" aria-label="` + label + `"><code>` + template.HTMLEscapeString(text) + `</code></pre></div>`)
}
