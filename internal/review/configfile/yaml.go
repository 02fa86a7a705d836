// SPDX-License-Identifier: Apache-2.0

package configfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// parseYAML returns the documents of a YAML file that are configurations. With an error, it returns the documents
// before it.
func parseYAML(file string, source []byte) ([]*File, error) {
	if template(file, source) {
		if bytes.Contains(source, []byte("OTEL_")) {
			return []*File{{Path: file, Kind: Template, Source: source}}, nil
		}
		return nil, nil
	}
	if bytes.HasPrefix(source, []byte("\xff\xfe")) || bytes.HasPrefix(source, []byte("\xfe\xff")) {
		return nil, errors.New("failed to parse YAML: UTF-16 is not supported")
	}
	p := &yamlParser{file: file, source: source, lines: newLineIndex(source), left: maxYield}
	err := p.documents(source, p.document)
	if err != nil && bytes.Contains(source, []byte("{{")) {
		return nil, nil // template of an unknown tool
	}
	return p.files, err
}

// template reports whether a file is a template of Helm, Jinja or a similar tool.
func template(file string, source []byte) bool {
	if !bytes.Contains(source, []byte("{{")) && !bytes.Contains(source, []byte("{%")) {
		return false
	}
	if strings.Contains("/"+file, "/templates/") {
		return true
	}
	for line := range bytes.Lines(source) {
		if l := bytes.TrimSpace(line); bytes.HasPrefix(l, []byte("{{")) || bytes.HasPrefix(l, []byte("{%")) || bytes.Contains(l, []byte("{{-")) {
			return true
		}
	}
	return false
}

type yamlParser struct {
	file   string
	source []byte
	lines  lineIndex
	files  []*File
	nested int // number of nested documents
	left   int // remaining number of items of the files
}

// documents calls f for each document of source. Positions in source are positions in the file.
func (p *yamlParser) documents(source []byte, f func(*yaml.Node)) error {
	d := yaml.NewDecoder(bytes.NewReader(source))
	for range maxDocuments {
		var doc yaml.Node
		err := decode(d, &doc)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("failed to parse YAML: %w", err)
		}
		if expandedSize(&doc, map[*yaml.Node]int{}) > maxExpanded {
			return fmt.Errorf("failed to parse YAML: its aliases stand for more than %d values", maxExpanded)
		}
		if len(doc.Content) == 1 && doc.Content[0].Kind == yaml.MappingNode {
			f(doc.Content[0])
		}
	}
	return fmt.Errorf("failed to parse YAML: more than %d documents", maxDocuments)
}

// expandedSize returns the number of nodes of a node with all aliases expanded, at most maxExpanded+1. sizes caches the
// result for nodes with an anchor.
func expandedSize(n *yaml.Node, sizes map[*yaml.Node]int) int {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if size, ok := sizes[n]; ok {
		return size
	}
	if n.Anchor != "" {
		sizes[n] = maxExpanded + 1 // result if the node contains itself
	}
	size := 1
	for _, c := range n.Content {
		if size += expandedSize(c, sizes); size > maxExpanded {
			return maxExpanded + 1
		}
	}
	if n.Anchor != "" {
		sizes[n] = size
	}
	return size
}

// decode decodes a document. It converts a panic of the decoder to an error.
func decode(d *yaml.Decoder, doc *yaml.Node) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("invalid document: %v", r)
		}
	}()
	return d.Decode(doc)
}

func (p *yamlParser) add(kind Kind, n *yaml.Node) *File {
	f := &File{Path: p.file, Kind: kind, Source: p.source, YAML: n, lines: p.lines, left: &p.left}
	if len(p.files) < maxDocuments {
		p.files = append(p.files, f)
	}
	return f
}

// document adds a document if it is a configuration. It recognizes most kinds by their content, and Helm values and the
// configuration of Spring Boot by the name of the file.
func (p *yamlParser) document(n *yaml.Node) {
	base := path.Base(p.file)
	switch {
	case Text(Get(n, "apiVersion")) != "" && Text(Get(n, "kind")) != "":
		p.kubernetes(n, 0)
	case strings.HasPrefix(strings.ToLower(base), "kustomization."):
		p.kustomization(p.add(Kubernetes, n))
	case IsCollector(n):
		p.add(Collector, n).Partial = partial(n)
	case isSDK(n):
		p.add(SDK, n)
	case compose(base, n):
		p.add(Compose, n).compose()
		for _, config := range Pairs(Get(n, "configs")) {
			p.nest(Get(config, "content"), func(n *yaml.Node) {
				if IsCollector(n) {
					p.add(Collector, n).Partial = partial(n)
				}
			})
		}
	case valuesNames.MatchString(base):
		p.values(n)
	case loggingNames.MatchString(base):
		p.add(Logging, n).springYAML()
	}
}

func isMapping(n *yaml.Node) bool { n = Resolve(n); return n != nil && n.Kind == yaml.MappingNode }

// IsCollector reports whether a mapping is a complete or partial Collector configuration.
func IsCollector(n *yaml.Node) bool {
	pipelines := false
	for name, pipeline := range Pairs(Get(n, "service", "pipelines")) {
		signal, _, _ := strings.Cut(name.Value, "/")
		pipelines = pipelines || slices.Contains([]string{"traces", "metrics", "logs", "profiles"}, signal) && isMapping(pipeline)
	}
	receivers, processors, exporters := isMapping(Get(n, "receivers")), isMapping(Get(n, "processors")), isMapping(Get(n, "exporters"))
	return pipelines || exporters && (receivers || processors) || receivers && processors
}

// partial reports whether a Collector configuration lacks required parts: pipelines, receivers or exporters.
func partial(n *yaml.Node) bool {
	return Get(n, "service", "pipelines") == nil || Get(n, "receivers") == nil || Get(n, "exporters") == nil
}

func isSDK(n *yaml.Node) bool {
	keys := []string{"tracer_provider", "meter_provider", "logger_provider", "resource", "propagator", "instrumentation/development", "disabled", "attribute_limits"}
	return Text(Get(n, "file_format")) != "" && slices.ContainsFunc(keys, func(key string) bool { return Get(n, key) != nil })
}

func compose(base string, n *yaml.Node) bool {
	services := Get(n, "services")
	if !isMapping(services) {
		return false
	}
	if composeNames.MatchString(base) {
		return true
	}
	for _, s := range Pairs(services) {
		if Get(s, "image") == nil && Get(s, "build") == nil {
			return false
		}
	}
	return len(Resolve(services).Content) > 0
}

// Resolve returns the target of an alias, and n for other nodes. n and the result may be nil.
func Resolve(n *yaml.Node) *yaml.Node {
	for range maxMergeDepth {
		if n == nil || n.Kind != yaml.AliasNode {
			return n
		}
		n = n.Alias
	}
	return nil
}

// Get returns the value at a path of keys, nil if there is none. It follows aliases and merges.
func Get(n *yaml.Node, path ...string) *yaml.Node {
	for _, key := range path {
		var found *yaml.Node
		for k, v := range Pairs(n) {
			if k.Value == key {
				found = v
				break
			}
		}
		if found == nil {
			return nil
		}
		n = found
	}
	return Resolve(n)
}

// Text returns the value of a scalar, "" for null and other nodes.
func Text(n *yaml.Node) string {
	if n = Resolve(n); n != nil && n.Kind == yaml.ScalarNode && n.Tag != "!!null" {
		return n.Value
	}
	return ""
}

// Pairs yields the keys and values of a mapping, and then those of the mappings that it merges. An overridden key may
// be yielded again: its first value is valid. Pairs yields nothing for other nodes.
func Pairs(n *yaml.Node) iter.Seq2[*yaml.Node, *yaml.Node] {
	return func(yield func(key, value *yaml.Node) bool) {
		left := maxMerged
		pairs(n, 0, &left, yield)
	}
}

func pairs(n *yaml.Node, depth int, left *int, yield func(key, value *yaml.Node) bool) bool {
	own := depth == 0 && n != nil && n.Kind == yaml.MappingNode // the pairs of an alias count toward maxMerged
	n = Resolve(n)
	if n == nil || n.Kind != yaml.MappingNode || depth > maxMergeDepth {
		return true
	}
	merges := false
	for i := 0; i+1 < len(n.Content); i += 2 {
		if *left--; *left < 0 && !own {
			return false
		}
		if n.Content[i].Tag == "!!merge" {
			merges = true
		} else if !yield(n.Content[i], n.Content[i+1]) {
			return false
		}
	}
	if own {
		*left = maxMerged
	}
	for i := 0; merges && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Tag != "!!merge" {
			continue
		}
		from := Items(n.Content[i+1])
		if from == nil {
			from = n.Content[i+1 : i+2]
		}
		for _, m := range from {
			if !pairs(m, depth+1, left, yield) {
				return false
			}
		}
	}
	return true
}

// Items returns the elements of a sequence, none for other nodes.
func Items(n *yaml.Node) []*yaml.Node {
	if n = Resolve(n); n != nil && n.Kind == yaml.SequenceNode {
		return n.Content
	}
	return nil
}

// Walk calls f for each pair of a mapping and of its descendants, with the keys on the path to the pair. It does not
// follow aliases.
func Walk(n *yaml.Node, f func(path []string, key, value *yaml.Node)) { walk(n, nil, f) }

func walk(n *yaml.Node, path []string, f func(path []string, key, value *yaml.Node)) {
	if n == nil || len(path) > maxDepth {
		return
	}
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			f(path, n.Content[i], n.Content[i+1])
			walk(n.Content[i+1], append(path, n.Content[i].Value), f)
		}
	case yaml.SequenceNode:
		for _, c := range n.Content {
			walk(c, append(path, "[]"), f)
		}
	}
}

// Range returns the byte range of a node in the file: of a scalar with its quotes, and of other nodes the rest of their
// first line.
func (f *File) Range(n *yaml.Node) (start, end int) {
	start = f.lines.offset(f.Source, n.Line, n.Column)
	rest := f.Source[start:]
	for len(rest) > 0 && (rest[0] == '&' && n.Anchor != "" || rest[0] == '!') {
		skip := bytes.IndexAny(rest, " \t\r\n")
		if skip < 0 {
			skip = len(rest)
		}
		rest = bytes.TrimLeft(rest[skip:], " \t")
	}
	start = len(f.Source) - len(rest)
	line := len(bytes.TrimRight(rest[:lineEnd(rest)], " \t\r"))
	if n.Kind != yaml.ScalarNode {
		return start, start + line
	}
	switch {
	case n.Style&yaml.DoubleQuotedStyle != 0:
		for i := 1; i < len(rest); i++ {
			switch rest[i] {
			case '\\':
				i++
			case '"':
				return start, start + i + 1
			}
		}
	case n.Style&yaml.SingleQuotedStyle != 0:
		for i := 1; i < len(rest); i++ {
			if rest[i] == '\'' {
				if i+1 < len(rest) && rest[i+1] == '\'' {
					i++
					continue
				}
				return start, start + i + 1
			}
		}
	case bytes.HasPrefix(rest, []byte(n.Value)):
		return start, start + len(n.Value)
	}
	return start, start + line
}

func lineEnd(s []byte) int {
	if i := bytes.IndexByte(s, '\n'); i >= 0 {
		return i
	}
	return len(s)
}

// block returns the range of the lines in a block scalar ("key: |"). It returns false for other nodes, for a template, and
// beyond maxNested.
func (p *yamlParser) block(n *yaml.Node) (start, end int, ok bool) {
	n = Resolve(n)
	if n == nil || n.Kind != yaml.ScalarNode || n.Style&yaml.LiteralStyle == 0 || p.nested >= maxNested || n.Line >= len(p.lines.starts) {
		return 0, 0, false
	}
	start = p.lines.starts[n.Line] // the line after the header
	end, indent := start, -1
	for end < len(p.source) {
		line := p.source[end:min(len(p.source), end+lineEnd(p.source[end:])+1)]
		text := bytes.TrimLeft(line, " ")
		if len(bytes.TrimSpace(text)) > 0 {
			if indent < 0 {
				indent = len(line) - len(text)
			}
			if indent == 0 || len(line)-len(text) < indent {
				break
			}
		}
		end += len(line)
	}
	if template("", p.source[start:end]) {
		return 0, 0, false
	}
	p.nested++
	return start, end, true
}

// nest calls f for the YAML documents in a block scalar. It parses the block with blanks in place of the text before it,
// so that positions are positions in the file.
func (p *yamlParser) nest(n *yaml.Node, f func(*yaml.Node)) {
	start, end, ok := p.block(n)
	if !ok {
		return
	}
	source := bytes.Repeat([]byte{' '}, end)
	for i := range start {
		if c := p.source[i]; c == '\n' || c == '\r' {
			source[i] = c
		}
	}
	copy(source[start:], p.source[start:end])
	_ = p.documents(source, f) // a text that does not parse is not a configuration
}

// lineIndex converts a line and column of the YAML parser, which counts columns in characters, to a byte offset.
type lineIndex struct {
	starts []int
	marks  map[int][]int // for lines with multi-byte characters, the offset of every 64th character
}

const markDistance = 64

func newLineIndex(source []byte) lineIndex {
	x := lineIndex{marks: map[int][]int{}}
	i := 0
	if bytes.HasPrefix(source, []byte("\xef\xbb\xbf")) {
		i = 3
	}
	x.starts = append(x.starts, i)
	wide, column := false, 0
	var marks []int
	for i < len(source) {
		if column%markDistance == 0 {
			marks = append(marks, i)
		}
		r, size := rune(source[i]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRune(source[i:])
			wide = true
		}
		i += size
		column++
		if r == '\r' && i < len(source) && source[i] == '\n' {
			continue
		}
		if r == '\n' || r == '\r' || r == '\u0085' || r == '\u2028' || r == '\u2029' {
			if wide {
				x.marks[len(x.starts)-1] = marks
			}
			x.starts = append(x.starts, i)
			wide, column, marks = false, 0, nil
		}
	}
	if wide {
		x.marks[len(x.starts)-1] = marks
	}
	return x
}

// offset returns the byte offset of a line and column, which start at 1.
func (x lineIndex) offset(source []byte, line, column int) int {
	if line < 1 || line > len(x.starts) {
		return len(source)
	}
	at := x.starts[line-1] + column - 1
	if marks := x.marks[line-1]; marks != nil {
		i := min((column-1)/markDistance, len(marks)-1)
		at = marks[i]
		for n := column - 1 - i*markDistance; n > 0 && at < len(source); n-- {
			_, size := utf8.DecodeRune(source[at:])
			at += size
		}
	}
	return max(0, min(at, len(source)))
}
