// SPDX-License-Identifier: Apache-2.0

package instrument

import (
	"bytes"
	"cmp"
	_ "embed"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"assay/internal/review/patch"
	"assay/internal/review/syntax"
)

// nodeHelpers is the name of the file with the functions that instrumented code calls.
const nodeHelpers = "otel-helpers"

//go:embed helpers_javascript.js
var nodeHelperParts string

func isNodeHelper(name string) bool {
	return strings.TrimSuffix(path.Base(name), path.Ext(name)) == nodeHelpers
}

// change wraps the nodes, imports the helper functions, and adds the file with them.
func (c *nodeCode) change(wraps map[*source][]nodeWrap) {
	sources := slices.DeleteFunc(slices.Clone(c.sources), func(f *source) bool { return len(wraps[f]) == 0 })
	if len(sources) == 0 {
		return
	}
	h, ok := c.helper(sources)
	if !ok {
		return
	}
	uses := map[string]bool{}
	for _, f := range sources {
		functions := map[string]bool{}
		for _, w := range wraps[f] {
			functions[w.wrap] = true
		}
		if !c.imports(f, h, slices.Sorted(maps.Keys(functions)), wraps[f][0].start) {
			continue
		}
		for _, w := range wraps[f] {
			uses[w.wrap] = true
			switch {
			case w.library == fetched:
				c.edit(f.Path, f.Source, w.start, w.end, w.wrap)
			case w.start == w.end:
				c.edit(f.Path, f.Source, w.start, w.end, w.before)
			default:
				c.surround(f.Path, f.Source, w.start, w.end, w.wrap+"("+w.before, ")")
			}
			c.did(f.Path, f.LineOf(w.start), strings.Replace(nodeSteps[w.wrap], "%s", w.library, 1))
		}
	}
	if len(uses) == 0 {
		return
	}
	c.write(h, uses)
	api := `"@opentelemetry/api": "` + nodeAPI20 + `"`
	if !c.moves(c.manifest, []string{api}) && !slices.Contains(c.packages, "@opentelemetry/api") && !c.adds("@opentelemetry/api") {
		if !c.addDependencies(c.manifest, api) {
			c.leave(c.manifest.Path, 0, "Install `@opentelemetry/api`: the manifest has no dependencies to add it to")
		}
	}
}

// nodeHelper is the file with the functions that instrumented code calls.
type nodeHelper struct {
	path       string
	source     []byte // nil for a new file
	typescript bool
	commonJS   bool
}

// The header of the helpers declares these names, which the functions use. A formatter may change the quotes.
var (
	importedAPI   = regexp.MustCompile(`(?m)^import \* as otel from ['"]@opentelemetry/api['"]`)
	requiredAPI   = regexp.MustCompile(`(?m)^const otel = require\(['"]@opentelemetry/api['"]\)`)
	scopeConstant = regexp.MustCompile(`(?m)^const scope = ['"]`)
)

// helper returns the file with the helpers: the existing one of the service, or a new one in the language of the files
// that use it.
func (c *nodeCode) helper(users []*source) (h nodeHelper, ok bool) {
	for _, name := range c.paths() {
		if !isNodeHelper(name) {
			continue
		}
		text, err := patch.Read(c.root, name)
		imported, required := importedAPI.Match(text), requiredAPI.Match(text)
		if err != nil || imported == required || !scopeConstant.Match(text) {
			c.leave(name, 0, "The code is left: this file has the name of the one with the functions to call")
			return h, false
		}
		return nodeHelper{name, text, syntax.LanguageOf(name) == syntax.TypeScript, required}, true
	}
	folder, extension := "", ""
	for i, f := range users {
		first, _, below := strings.Cut(strings.TrimPrefix(f.Path, strings.TrimPrefix(c.dir+"/", "./")), "/")
		if !below || i > 0 && first != folder {
			first = ""
		}
		folder = first
		if folder == "" {
			break
		}
	}
	for _, f := range users {
		h.typescript = h.typescript || f.Language == syntax.TypeScript
		h.commonJS = h.commonJS || !c.modular(f)
		extension = path.Ext(f.Path)
	}
	switch {
	case h.typescript:
		h.commonJS, extension = false, ".ts"
	case h.commonJS && c.module:
		extension = ".cjs"
	case h.commonJS || c.module || extension != ".mjs":
		extension = ".js"
	}
	h.path = path.Join(c.dir, folder, nodeHelpers+extension)
	return h, true
}

// modular reports whether a file is an ES module.
func (c *nodeCode) modular(f *source) bool {
	switch path.Ext(f.Path) {
	case ".mjs", ".mts":
		return true
	case ".cjs", ".cts":
		return false
	}
	return c.module || slices.ContainsFunc(f.Imports, func(i syntax.Import) bool { return static(f, i) })
}

// static reports whether an import is a static import declaration.
func static(f *source, i syntax.Import) bool {
	at := i.Node.Start
	return i.Node.Kind == syntax.Other && !bytes.HasSuffix(bytes.TrimRight(f.Source[:at], " \t\r\n"), []byte("(")) // of import x = require("y")
}

// imports adds an import of the functions that a file lacks. The first of them is used at an offset. It returns false if
// the file cannot be changed.
func (c *nodeCode) imports(f *source, h nodeHelper, functions []string, used int) bool {
	typescript := f.Language == syntax.TypeScript
	if typescript != h.typescript {
		c.leave(f.Path, 0, "The file is left: `"+h.path+"` is not in its language")
		return false
	}
	modular := c.modular(f)
	if typescript && !slices.ContainsFunc(f.Imports, func(i syntax.Import) bool { return static(f, i) }) {
		c.leave(f.Path, 0, "The file is left: it has no `import`")
		return false
	}
	if !modular && !h.commonJS {
		c.leave(f.Path, 0, "The file is left: it cannot load the ES module `"+h.path+"` with `require`")
		return false
	}
	missing := slices.DeleteFunc(slices.Clone(functions), func(name string) bool {
		i, ok := f.Imported(name)
		return ok && isNodeHelper(i.Path+".js") || ok && isNodeHelper(i.Path)
	})
	if len(missing) == 0 {
		return true
	}
	if own := c.own[f].globals["require"]; own != nil && !modular {
		c.leave(f.Path, f.LineOf(own.Start), "The file is left: it uses the name `require` for something else")
		return false
	}
	for _, name := range missing {
		if i, ok := f.Imported(name); ok {
			c.leave(f.Path, f.LineOf(i.Node.Start), "The file is left: it uses the name `"+name+"` for something else")
			return false
		}
	}
	for n := range f.Root.All() {
		if slices.Contains(missing, n.Text) && (n.Kind == syntax.Name || n.Kind == syntax.Param || n.Kind == syntax.Func || n.Kind == syntax.Class) {
			c.leave(f.Path, f.LineOf(n.Start), "The file is left: it uses the name `"+n.Text+"` for something else")
			return false
		}
	}
	specifier := c.specifier(f, h, modular)
	if !plainSpecifier.MatchString(specifier) {
		c.leave(f.Path, 0, "The file is left: the path of `"+h.path+"` has characters that an import cannot name")
		return false
	}
	q, end := quoteOf(f), semicolon(f)
	line := "const { " + strings.Join(missing, ", ") + " } = require(" + q + specifier + q + ")" + end
	if modular {
		line = "import { " + strings.Join(missing, ", ") + " } from " + q + specifier + q + end
	}
	at, before, ok := importPosition(f, modular, used)
	if !ok {
		c.leave(f.Path, 0, "The file is left: no line was found for `"+line+"`")
		return false
	}
	if before {
		c.edit(f.Path, f.Source, at, at, line+newline(f.Source))
	} else {
		c.edit(f.Path, f.Source, at, at, newline(f.Source)+line)
	}
	return true
}

// plainSpecifier matches paths that need no escaping between quotes.
var plainSpecifier = regexp.MustCompile(`^[\w ./@()\[\]-]+$`)

// required reports whether a statement loads modules: const x = require("y"), require("y").config().
func required(n *syntax.Node) bool {
	if n.Kind == syntax.Assign {
		n = n.Value()
	}
	for n.Kind == syntax.Call || n.Kind == syntax.Member {
		if n.Children[0].Kind == syntax.Name {
			return n.Kind == syntax.Call && n.Children[0].Text == "require"
		}
		n = n.Children[0]
	}
	return false
}

// importPosition returns the end of the line of the last import at the beginning of a file, or the beginning of the
// line of the first statement. The value of require cannot be used before it.
func importPosition(f *source, modular bool, used int) (at int, before, ok bool) {
	var first, code *syntax.Node // statements: any, and one that imports nothing
	for _, n := range f.Root.Children {
		if n.Kind == syntax.String {
			continue // "use strict"
		}
		first = cmp.Or(first, n)
		if !required(n) || n.End > used {
			code = n
			break
		}
		if end, clean := lineEnd(f.Source, n.End); clean && !modular {
			at, ok = end, true
		}
	}
	for _, i := range f.Imports {
		if !modular || !static(f, i) || code != nil && i.Node.End > code.Start && ok {
			continue
		}
		if end, clean := lineEnd(f.Source, i.Node.End); clean {
			at, ok = end, true
		}
	}
	if ok || first == nil {
		return at, false, ok
	}
	at = bytes.LastIndexByte(f.Source[:first.Start], '\n') + 1
	return at, true, beginning.Match(f.Source[at:first.Start])
}

// beginning matches the code before the first node of a statement.
var beginning = regexp.MustCompile(`^\s*((export )?(const|let|var) )?$`)

// lineEnd returns the end of the line of an offset, and whether no code follows the offset there but the end of its
// statement.
func lineEnd(source []byte, at int) (end int, clean bool) {
	end = len(source)
	if n := bytes.IndexByte(source[at:], '\n'); n >= 0 {
		end = at + n
		if end > at && source[end-1] == '\r' {
			end--
		}
	}
	return end, statementEnd.Match(source[at:end])
}

var statementEnd = regexp.MustCompile(`^\)?\s*;?\s*(//[^\x{2028}\x{2029}]*)?$`)

// specifier returns the path by which a file imports the helpers.
func (c *nodeCode) specifier(f *source, h nodeHelper, modular bool) string {
	from, to := strings.Split(path.Dir(f.Path), "/"), strings.Split(path.Dir(h.path), "/")
	for len(from) > 0 && len(to) > 0 && from[0] == to[0] {
		from, to = from[1:], to[1:]
	}
	from, to = slices.DeleteFunc(from, func(s string) bool { return s == "." }), slices.DeleteFunc(to, func(s string) bool { return s == "." })
	up := "./"
	if len(from) > 0 {
		up = strings.Repeat("../", len(from))
	}
	extension := path.Ext(h.path)
	switch {
	case h.typescript:
		extension = c.typeScriptExtension(f)
	case modular && extension == ".js" && slices.ContainsFunc(f.Imports, func(i syntax.Import) bool { return static(f, i) && relative(i.Path) && path.Ext(i.Path) == "" }):
		extension = "" // for a bundler
	case !modular && extension == ".js":
		extension = ""
	}
	return up + path.Join(append(to, nodeHelpers)...) + extension
}

func relative(module string) bool {
	return strings.HasPrefix(module, "./") || strings.HasPrefix(module, "../")
}

var nodeResolution = regexp.MustCompile(`(?i)"(module|moduleResolution)"\s*:\s*"(node(16|18|20)|nodenext)"`)

// typeScriptExtension returns the file extension for imports: that of other imports in the file, or in the first file of
// the service that imports another one, or the one that the project's configuration requires.
func (c *nodeCode) typeScriptExtension(f *source) string {
	if extension, ok := importedExtension(f); ok {
		return extension
	}
	for _, g := range c.sources[:min(len(c.sources), 100)] {
		if extension, ok := importedExtension(g); ok && g.Language == syntax.TypeScript {
			return extension
		}
	}
	config, err := patch.Read(c.root, path.Join(c.dir, "tsconfig.json"))
	switch {
	case err != nil && !c.exists("tsconfig.json"):
		return ".ts" // Node.js runs it
	case nodeResolution.Match(config):
		return ".js"
	}
	return ""
}

// importedExtension returns the extension in the imports of a file.
func importedExtension(f *source) (string, bool) {
	for _, i := range f.Imports {
		if static(f, i) && relative(i.Path) {
			if extension := path.Ext(i.Path); extension == ".js" || extension == ".ts" {
				return extension, true
			}
			return "", true
		}
	}
	return "", false
}

// quoteOf returns the quotation mark of a file's imports.
func quoteOf(f *source) string {
	for _, i := range f.Imports {
		code := f.Source[i.Node.Start:i.Node.End]
		if n := bytes.IndexAny(code, `'"`); n >= 0 {
			return string(code[n])
		}
	}
	return "'"
}

// semicolon returns the semicolon at the end of a file's imports, "" if they have none.
func semicolon(f *source) string {
	for _, i := range f.Imports {
		end, clean := lineEnd(f.Source, i.Node.End)
		if clean && !bytes.Contains(f.Source[i.Node.End:end], []byte(";")) {
			return ""
		}
	}
	return ";"
}

// helperPart is a part of the helpers.
type helperPart struct {
	name  string
	needs []string
	text  string
}

var (
	partHeader = regexp.MustCompile(`(?m)^// part (\w+)(?:: ([\w ]+))?\n`)
	// typeMark matches a comment with one asterisk, which has a type.
	typeMark = regexp.MustCompile(`/\*([^*/][^\n]*?)\*/`)
	exported = regexp.MustCompile(`(?m)^EXPORT (async )?function (\w+)`)
)

// helperParts returns the parts of a file of helpers, in their order.
func helperParts(source string) (parts []helperPart) {
	headers := partHeader.FindAllStringSubmatchIndex(source, -1)
	for i, h := range headers {
		end := len(source)
		if i+1 < len(headers) {
			end = headers[i+1][0]
		}
		p := helperPart{name: source[h[2]:h[3]], text: source[h[1]:end]}
		if h[4] >= 0 {
			p.needs = strings.Fields(source[h[4]:h[5]])
		}
		parts = append(parts, p)
	}
	return parts
}

// write writes a file with the functions that are used, or adds them to the existing file of the service.
func (c *nodeCode) write(h nodeHelper, uses map[string]bool) {
	parts := helperParts(nodeHelperParts)
	for _, p := range slices.Backward(parts) { // the dependencies of a part precede it
		if uses[p.name] {
			for _, name := range p.needs {
				uses[name] = true
			}
		}
	}
	var b strings.Builder
	for _, p := range parts {
		defined := regexp.MustCompile(`(?m)^(export )?(async )?(function|const) ` + p.name + `\b`)
		if p.name == "header" && h.source == nil || uses[p.name] && !defined.Match(h.source) {
			b.WriteString(p.render(h, c.name))
		}
	}
	text := strings.TrimRight(b.String(), "\n") + "\n"
	switch {
	case h.source == nil:
		created := patch.Create(h.path, []byte(text))
		c.files[h.path] = &created
		c.did(h.path, 0, "Add the functions that start spans and record metrics")
	case b.Len() > 0:
		if !bytes.HasSuffix(h.source, []byte("\n")) {
			text = "\n" + text
		}
		c.edit(h.path, h.source, len(h.source), len(h.source), strings.ReplaceAll("\n"+text, "\n", newline(h.source)))
		c.did(h.path, lineOf(h.source, len(h.source)), "Add functions that start spans and record metrics")
	}
}

// render returns the text of a part in the language of the helpers.
func (p helperPart) render(h nodeHelper, service string) string {
	text := strings.Replace(p.text, "SERVICE", service, 1)
	if h.typescript {
		text = typeMark.ReplaceAllString(text, "$1")
	} else {
		text = typeMark.ReplaceAllString(text, "")
	}
	if !h.commonJS {
		return exported.ReplaceAllString(text, "export ${1}function $2")
	}
	text = strings.Replace(text, "import * as otel from '@opentelemetry/api'", "'use strict';\n\nconst otel = require('@opentelemetry/api')", 1)
	if m := exported.FindStringSubmatch(text); m != nil {
		text = exported.ReplaceAllString(text, "${1}function $2")
		text = strings.TrimRight(text, "\n") + "\nexports." + m[2] + " = " + m[2] + ";\n\n"
	}
	return text
}
