// SPDX-License-Identifier: Apache-2.0

package check

import (
	"bytes"
	"regexp"
	"slices"
	"strings"

	"assay/internal/review/instrumentation"
	"assay/internal/review/syntax"
	"assay/internal/rules/semconv"
	"assay/internal/rules/sensitive"
)

var (
	placeholders = regexp.MustCompile(`%[-+# 0-9.]*[a-zA-Z]|\{[^{}]*\}`)
	gaps         = regexp.MustCompile(`([/:#=_.,-])\s+([/:#=_.,-])`) // separators around a removed variable
)

// constantName returns the edits that give a span a constant name, and record the variables of the former name as
// attributes. It returns nil for code of another form, and if an attribute would hold sensitive data.
func (p *Pass) constantName(u *instrumentation.Uses, s *instrumentation.Span, built *syntax.Node) []Edit {
	create := s.Name.Parent
	if !p.maySearch() || built != s.Name || create == nil || create.Kind != syntax.Call {
		return nil
	}
	if s.Tracer == nil {
		return nil // a function of the project, with its own parameters
	}
	if built.Kind == syntax.Operator && built.Text == "+" {
		return nil // a constant may be the only use of its package, and Go does not compile unused imports
	}
	parts := flatten(nameParts(built))
	var formats []string // of parts[1:], in Go
	if u.File.Language == syntax.Go && built.Kind == syntax.Call {
		parts = built.Args() // with those of %T
		if formats = sprintfVerbs(u, built); formats == nil {
			return nil
		}
	}
	var text strings.Builder
	var keys, values []string
	for i, part := range parts {
		if known, ok := u.Known(part); ok {
			text.WriteString(known + " ")
			continue
		}
		key := variableKey(u, part)
		if key == "" {
			return nil
		}
		value := u.File.Code(part)
		if formats != nil {
			if strings.HasSuffix(formats[i-1], "T") {
				key += ".type"
			}
			value = sprint(formats[i-1], value)
		}
		if at := slices.Index(keys, key); at >= 0 && values[at] == value {
			continue
		} else if at >= 0 {
			return nil // one attribute cannot hold both
		}
		keys, values = append(keys, key), append(values, value)
	}
	spaced := placeholders.ReplaceAllString(text.String(), " ")
	if strings.Contains(spaced, "://") || slices.ContainsFunc(gaps.FindAllStringSubmatch(spaced, -1), func(m []string) bool { return m[1] != m[2] }) {
		return nil // a URL, or parts without a meaning of their own: pkg-%d.apk
	}
	name := gaps.ReplaceAllString(spaced, "$1")
	name = strings.TrimLeft(strings.TrimRight(strings.Join(strings.Fields(name), " "), " /:#=_.,-([{<"), " :#=_.,-)]}>")
	if name == "" || len(keys) == 0 || strings.ContainsAny(name, "\\\"'`") || strings.ContainsAny(strings.Join(values, ""), "\n") {
		return nil
	}
	quote := quoteOf(u.File, u.File.Code(built))
	edits, ok := withAttributes(u, create, built, keys, values, quote)
	if !ok {
		return nil
	}
	return append(edits, Edit{Start: built.Start, End: built.End, Text: quote + name + quote})
}

// sprintfVerbs returns the verbs of the arguments of a call of fmt.Sprintf. It returns nil for other functions, and for
// formats whose verbs do not correspond to the arguments one by one.
func sprintfVerbs(u *instrumentation.Uses, n *syntax.Node) []string {
	format, ok := u.Known(n.Arg(0))
	all := verbs.FindAllString(format, len(n.Args()))
	if !ok || u.File.Code(n.Callee()) != "fmt.Sprintf" || strings.Contains(format, "%%") || len(all) != len(n.Args())-1 ||
		slices.ContainsFunc(all, func(v string) bool { return strings.ContainsAny(v, "[*{") }) {
		return nil
	}
	return all
}

// sprint returns Go code for the text of a value as Sprintf writes it with a verb, without quotes.
func sprint(verb, value string) string {
	switch verb {
	case "%s", "%v", "%d", "%t", "%q":
		return "fmt.Sprint(" + value + ")"
	}
	return `fmt.Sprintf("` + verb + `", ` + value + ")"
}

// quoteOf returns the quotation mark for a string that replaces code: the mark that the code uses. For code without
// one, such as a template, it returns the usual mark at the beginning of the file.
func quoteOf(f *syntax.File, code string) string {
	const beginning = 16 << 10
	if f.Language == syntax.Go || f.Language == syntax.Java {
		return `"`
	}
	single, double := strings.Count(code, "'"), strings.Count(code, `"`)
	if single+double == 0 {
		start := f.Source[:min(len(f.Source), beginning)]
		single, double = bytes.Count(start, []byte("'")), bytes.Count(start, []byte(`"`))
	}
	if single > double {
		return "'"
	}
	return `"`
}

// declaredType matches the name of a declared type: Order for *shop.Order.
var declaredType = regexp.MustCompile(`^\*?(?:\w+\.)*([A-Z]\w*)$`)

// variableKey returns the attribute key for a variable or field. It returns "" for other expressions, and for a key
// that names sensitive data or is deprecated. In place of a variable with one letter, the key has the name of its type.
func variableKey(u *instrumentation.Uses, n *syntax.Node) string {
	var w []string
	for at := n; ; at = at.Children[0] {
		if at.Kind != syntax.Name && at.Kind != syntax.Member || at.Kind == syntax.Member && len(at.Children) != 1 {
			return ""
		}
		if at == n || len(at.Text) > 1 && at.Text != "self" && at.Text != "this" && len(w) < 3 {
			w = append(words(at.Text), w...)
		} else if def := u.File.Definition(at); len(at.Text) == 1 && def != nil {
			if m := declaredType.FindStringSubmatch(def.Type); m != nil {
				w = append(words(m[1]), w...)
			}
		}
		if at.Kind == syntax.Name {
			break
		}
	}
	key := strings.ToLower(strings.Join(w, "."))
	if sensitive.Key([]byte(key)) != sensitive.None || personalWords.any(w) || semconv.Find([]byte(key)).Deprecated {
		return ""
	}
	return key
}

// personalWords are words in names of variables that a fix does not record as attributes.
var personalWords = setOf(`email mail password passwd pwd secret token key card ssn phone address name username login user customer account
	auth authorization cookie session iban ip query sql body text message url uri`)

// withAttributes returns the edits that add attributes to the call that starts a span. It returns false if the call has
// another form.
func withAttributes(u *instrumentation.Uses, create, built *syntax.Node, keys, values []string, quote string) ([]Edit, bool) {
	pairs := make([]string, len(keys))
	join := func(format func(key, value string) string) string {
		for i := range keys {
			pairs[i] = format(keys[i], values[i])
		}
		return strings.Join(pairs, ", ")
	}
	switch u.File.Language {
	case syntax.Go:
		attribute, first, ok := goImport(u.File, "go.opentelemetry.io/otel/attribute")
		if !ok {
			return nil, false
		}
		trace, second, ok := goImport(u.File, "go.opentelemetry.io/otel/trace")
		if !ok {
			return nil, false
		}
		text := join(func(key, value string) string { return attribute + `.String("` + key + `", ` + value + ")" })
		return append(append(first, second...), Edit{Start: built.End, End: built.End, Text: ", " + trace + ".WithAttributes(" + text + ")"}), true
	case syntax.JavaScript, syntax.TypeScript:
		text := join(func(key, value string) string { return quote + key + quote + ": " + value })
		if options := create.Arg(1); options != nil && options.Kind != syntax.Func {
			return nil, false
		}
		return []Edit{{Start: built.End, End: built.End, Text: ", { attributes: { " + text + " } }"}}, true
	case syntax.Python:
		if slices.ContainsFunc(create.Args()[1:], func(a *syntax.Node) bool { return a.Kind != syntax.Argument || a.Text == "attributes" }) {
			return nil, false
		}
		text := join(func(key, value string) string { return quote + key + quote + ": " + value })
		return []Edit{{Start: built.End, End: built.End, Text: ", attributes={" + text + "}"}}, true
	case syntax.Java:
		var text strings.Builder
		for i := range keys {
			text.WriteString(`.setAttribute("` + keys[i] + `", String.valueOf(` + values[i] + "))")
		}
		return []Edit{{Start: create.End, End: create.End, Text: text.String()}}, true
	}
	return nil, false
}

// goImport returns the name of an OpenTelemetry package in a Go file, and the edit that adds the import if it is
// missing. It returns false if the name is taken, or if there is no group of imports to add it to.
func goImport(f *syntax.File, path string) (name string, edits []Edit, ok bool) {
	const family = "go.opentelemetry.io/otel"
	name = path[strings.LastIndexByte(path, '/')+1:]
	after := -1
	for _, i := range f.Imports {
		if i.Path == path {
			return i.Name, nil, i.Name != "_" && i.Name != "."
		}
		if i.Name == name {
			return "", nil, false
		}
		if !strings.HasPrefix(i.Path, family) || i.Path > path && after >= 0 {
			continue
		}
		start, end, alone := wholeLines(f.Source, i.Node.Start, i.Node.End)
		switch {
		case !alone:
		case i.Path > path:
			after = start
		default:
			after = end
		}
	}
	for n := range f.Root.All(syntax.Name) {
		if n.Text == name {
			return "", nil, false // a variable has the name
		}
	}
	if after < 0 {
		return "", nil, false
	}
	return name, []Edit{{Start: after, End: after, Text: "\t\"" + path + "\"\n"}}, true
}
