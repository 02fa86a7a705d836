// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"bytes"
	"cmp"
	"embed"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"

	"assay"
	"assay/internal/httpreply"
	"assay/internal/lists"
)

// docsPolicy allows the page to load only its own style sheet.
const docsPolicy = "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

//go:embed docs
var docsFiles embed.FS

var docsTemplate = template.Must(template.New("page.html").Funcs(template.FuncMap{
	"prose": prose, "inline": inline, "anchor": anchor, "json": shownJSON,
}).ParseFS(docsFiles, "docs/page.html"))

// docsPage is the data of the template.
type docsPage struct {
	Title, Version, License string
	Description             string
	Base                    string // URL of the API root in examples
	Schemes                 []docsScheme
	Failures                []docsFailure
	Failure                 *yaml.Node // an example
	Groups                  []docsGroup
	Schemas                 []docsSchema
}

type docsScheme struct{ Title, Description string }

// docsFailure is a status with its error codes.
type docsFailure struct {
	Status int
	Text   string
	Codes  []assay.Code
}

// docsGroup holds the operations of a tag.
type docsGroup struct {
	Name, Description string
	Operations        []docsOperation
}

type docsOperation struct {
	*operation
	Method, Path string
	Callers      []string
	Parameters   []docsParameter
	Response     template.HTML // type of a success
	Statuses     []docsStatus
	Curl         string
	Example      *yaml.Node // body of a success
	ExampleNote  string     // "" for none
}

type docsParameter struct {
	Name, In, Description string
	Required              bool
	Type                  template.HTML
	Default               string
}

type docsStatus struct {
	Status string // "default" for all other statuses
	Text   string
	Anchor string // "" for none
}

type docsSchema struct {
	Name, Description string
	Type              template.HTML // "" for an object
	Fields            []docsField
}

type docsField struct {
	Name, Description string
	Optional          bool
	Type              template.HTML
}

// docs returns the rendered document.
func (d *document) docs(base string) ([]byte, error) {
	var b bytes.Buffer
	err := docsTemplate.Execute(&b, d.page(base))
	return b.Bytes(), err
}

// page returns the data of the template. base is the URL of the API root.
func (d *document) page(base string) *docsPage {
	p := &docsPage{
		Title: d.Info.Title, Version: d.Info.Version, License: d.Info.License.Name, Description: d.Info.Description, Base: base,
		Schemes: []docsScheme{
			{"API key", d.Components.SecuritySchemes[schemeKey].Description},
			{"User's session", d.Components.SecuritySchemes[schemeUser].Description},
		},
		Failures: docsFailures(),
	}
	bad := d.Components.Responses["BadRequest"].Content["application/json"].Examples[string(assay.CodeInvalid)].Value
	p.Failure = &bad
	for _, tag := range d.Tags {
		g := docsGroup{Name: tag.Name, Description: tag.Description}
		for _, o := range d.operations {
			if o.Tags[0] == tag.Name {
				g.Operations = append(g.Operations, d.docsOperation(base, o))
			}
		}
		p.Groups = append(p.Groups, g)
	}
	for _, name := range slices.Sorted(maps.Keys(d.Components.Schemas)) {
		p.Schemas = append(p.Schemas, docsSchemaOf(name, d.Components.Schemas[name]))
	}
	return p
}

func docsFailures() []docsFailure {
	codes := map[int][]assay.Code{}
	for code, status := range statuses {
		codes[status] = append(codes[status], code)
	}
	var all []docsFailure
	for status, of := range codes {
		slices.Sort(of)
		all = append(all, docsFailure{status, http.StatusText(status), of})
	}
	slices.SortFunc(all, func(a, b docsFailure) int { return a.Status - b.Status })
	return all
}

func (d *document) docsOperation(base string, o *operation) docsOperation {
	out := docsOperation{operation: o, Method: o.method, Path: o.path}
	if !o.usersOnly() {
		out.Callers = append(out.Callers, "API key")
	}
	out.Callers = append(out.Callers, "user's session")
	for _, p := range o.Parameters {
		if name, ok := strings.CutPrefix(p.Ref, "#/components/parameters/"); ok {
			p = d.Components.Parameters[name]
		}
		shown := docsParameter{Name: p.Name, In: p.In, Description: p.Description, Required: p.Required, Type: docsType(p.Schema)}
		if p.Schema.Default != nil {
			shown.Default = queryValue(p.Schema.Default)
		}
		out.Parameters = append(out.Parameters, shown)
	}
	for _, status := range slices.Sorted(maps.Keys(o.Responses)) {
		shown := docsStatus{Status: status}
		if n, err := strconv.Atoi(status); err == nil {
			shown.Text = http.StatusText(n)
			if n >= http.StatusBadRequest {
				shown.Anchor = "status-" + status
			}
		} else {
			shown.Text = d.Components.Responses[strings.TrimPrefix(o.Responses[status].Ref, "#/components/responses/")].Description
		}
		out.Statuses = append(out.Statuses, shown)
	}
	ok := o.success().Content["application/json"]
	out.Response, out.Example = docsType(ok.Schema), &ok.Example
	for _, name := range slices.Sorted(maps.Keys(ok.Examples))[:min(1, len(ok.Examples))] {
		first := ok.Examples[name]
		out.Example, out.ExampleNote = &first.Value, first.Summary
	}
	out.Curl = docsCurl(base, o)
	return out
}

// docsCurl returns a command that sends a request. Its query has the first two parameters
// without a default.
func docsCurl(base string, o *operation) string {
	var query []string
	for _, p := range o.Parameters {
		if p.In == "query" && p.Schema.Default == nil && len(query) < 2 {
			query = append(query, p.Name+"="+strings.ReplaceAll(queryValue(p.Schema.Examples[0]), " ", "%20"))
		}
	}
	target := base + o.path
	for _, p := range o.Parameters {
		if p.In == "path" {
			target = strings.ReplaceAll(target, "{"+p.Name+"}", fmt.Sprint(p.Schema.Examples[0]))
		}
	}
	if len(query) > 0 {
		target += "?" + strings.Join(query, "&")
	}
	credential := "$ASSAY_API_KEY"
	if len(o.Security) == 1 {
		credential = "$USER_TOKEN"
	}
	lines := []string{`curl -H "Authorization: Bearer ` + credential + `"`}
	if o.method != http.MethodGet {
		lines = append(lines, "-X "+o.method)
	}
	if o.RequestBody != nil && o.RequestBody.Required {
		lines = append(lines, "-H 'Content-Type: application/json' -d '{}'")
	}
	return strings.Join(append(lines, "'"+target+"'"), " \\\n  ")
}

// queryValue formats a value as a query parameter.
func queryValue(v any) string {
	list, ok := v.([]any)
	if !ok {
		return fmt.Sprint(v)
	}
	items := lists.Map(list, func(item any) string { return fmt.Sprint(item) })
	return strings.Join(items, ",")
}

func docsSchemaOf(name string, s *schema) docsSchema {
	out := docsSchema{Name: name, Description: s.Description}
	if !slices.Contains(s.Type, "object") {
		out.Type = docsType(s)
		return out
	}
	names := slices.Clone(s.Required) // as declared
	for _, n := range slices.Sorted(maps.Keys(s.Properties)) {
		if !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	for _, n := range names {
		p := s.Properties[n]
		out.Fields = append(out.Fields, docsField{
			Name: n, Description: p.Description, Optional: !slices.Contains(s.Required, n), Type: docsType(p),
		})
	}
	return out
}

// docsType describes a schema in words, with links to the schemas that it refers to.
func docsType(s *schema) template.HTML {
	if name, ok := strings.CutPrefix(s.Ref, "#/components/schemas/"); ok {
		return template.HTML(fmt.Sprintf(`<a href="#schema-%[1]s">%[1]s</a>`, template.HTMLEscapeString(name)))
	}
	if len(s.AnyOf) > 0 {
		all := lists.Map(s.AnyOf, func(a *schema) string { return string(docsType(a)) })
		return template.HTML(strings.Join(all, " or "))
	}
	if slices.Contains(s.Type, "array") {
		return "array of " + docsType(s.Items)
	}
	words := cmp.Or(strings.Join(s.Type, " or "), "any JSON")
	if s.Format != "" && slices.Equal(s.Type, types{"string"}) {
		words += ", " + s.Format
	}
	if s.Minimum != nil && s.Maximum != nil && *s.Maximum <= 100 {
		words += fmt.Sprintf(", %v to %v", *s.Minimum, *s.Maximum)
	} else if s.Maximum != nil && *s.Maximum <= 100 {
		words += fmt.Sprintf(", at most %v", *s.Maximum)
	}
	out := template.HTMLEscapeString(words)
	if len(s.Enum) > 0 {
		values := lists.Map(s.Enum, func(e string) string { return "<code>" + template.HTMLEscapeString(e) + "</code>" })
		out += ": " + strings.Join(values, " ")
	}
	return template.HTML(out)
}

// prose converts the paragraphs of a description to HTML.
func prose(text string) template.HTML {
	var b strings.Builder
	for p := range strings.SplitSeq(text, "\n\n") {
		b.WriteString("<p>" + string(inline(p)) + "</p>")
	}
	return template.HTML(b.String())
}

// inline converts the code spans of a description to HTML.
func inline(text string) template.HTML {
	var b strings.Builder
	for i, part := range strings.Split(text, "`") {
		part = template.HTMLEscapeString(part)
		if i%2 == 1 {
			part = "<code>" + part + "</code>"
		}
		b.WriteString(part)
	}
	return template.HTML(b.String())
}

// shownJSON returns an example as JSON.
func shownJSON(n *yaml.Node) (string, error) {
	b, err := indentedJSON(n)
	return string(b), err
}

// anchor converts a name to a URL fragment.
func anchor(name string) string {
	return strings.ToLower(strings.ReplaceAll(name, " ", "-"))
}

// publish serves the document and its rendering. The first request generates them; they
// do not change.
func (s *server) publish() {
	root := cmp.Or(strings.TrimRight(s.cfg.PublicURL, "/"), "http://localhost:8080") + s.base
	text := documentText(cmp.Or(strings.TrimRight(s.cfg.PublicURL, "/")+s.base, "/"), s.base)
	s.file("/openapi.json", "application/json", func() ([]byte, error) { return documentJSON(text) })
	s.file("/openapi.yaml", "application/yaml", func() ([]byte, error) { return []byte(text), nil })
	s.file("/docs", "text/html; charset=utf-8", func() ([]byte, error) { return parseDocument(text).docs(root) }, "Content-Security-Policy", docsPolicy, "Referrer-Policy", "no-referrer")
	s.file("/docs/style.css", "text/css; charset=utf-8", func() ([]byte, error) { return docsFiles.ReadFile("docs/style.css") })
}

// file serves the same bytes to all clients, without a credential. header holds
// names and values of further header fields.
func (s *server) file(path, contentType string, write func() ([]byte, error), header ...string) {
	content := sync.OnceValues(write)
	tag := sync.OnceValue(func() string {
		body, _ := content()
		return entityTag(body, nil, nil)
	})
	// Clients without a credential request files, so each is compressed once.
	compressed := sync.OnceValue(func() []byte {
		body, _ := content()
		return httpreply.Gzip(body)
	})
	s.methods[path] = append(s.methods[path], http.MethodGet)
	s.mux.HandleFunc("GET "+s.base+path, func(_ http.ResponseWriter, r *http.Request) {
		x := exchangeOf(r.Context())
		body, err := content()
		if err != nil {
			x.fail(err)
			return
		}
		h := x.Header()
		h.Set("ETag", tag())
		h.Set("Cache-Control", "no-cache")
		for i := 0; i+1 < len(header); i += 2 {
			h.Set(header[i], header[i+1])
		}
		if httpreply.Matches(r, tag()) {
			x.WriteHeader(http.StatusNotModified)
			return
		}
		if httpreply.AcceptsGzip(r) {
			h.Set("Content-Encoding", "gzip")
			body = compressed()
		}
		x.write(http.StatusOK, contentType, body)
	})
}
