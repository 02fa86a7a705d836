// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"bytes"
	"cmp"
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"assay"
)

// The paths of the readable rendering of the document, below the base path.
const (
	docsPath  = "/docs"
	docsStyle = "/docs/style.css"
)

// docsPolicy lets the page load its own style sheet and nothing else.
const docsPolicy = "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

//go:embed docs
var docsFiles embed.FS

var docsTemplate = template.Must(template.New("page.html").Funcs(template.FuncMap{
	"prose": prose, "inline": inline, "anchor": anchor, "json": indent,
}).ParseFS(docsFiles, "docs/page.html"))

// docsPage is what the template shows.
type docsPage struct {
	Title, Version, License string
	Description             string
	Base                    string // URL of the API root, as examples have it
	Schemes                 []docsScheme
	Failures                []docsFailure
	Failure                 Failure // an example
	Groups                  []docsGroup
	Schemas                 []docsSchema
}

type docsScheme struct{ Title, Description string }

// docsFailure is a status with the codes that belong to it.
type docsFailure struct {
	Status int
	Text   string
	Codes  []assay.Code
}

// docsGroup is the operations of a tag.
type docsGroup struct {
	Name, Description string
	Operations        []docsOperation
}

type docsOperation struct {
	ID, Method, Path, Summary, Description string
	Callers                                []string
	Parameters                             []docsParameter
	Body                                   *docsBody
	Response                               template.HTML // type of a success
	Statuses                               []docsStatus
	Curl                                   string
	Example                                any    // body of a success
	ExampleNote                            string // "" for none
}

type docsParameter struct {
	Name, In, Description string
	Required              bool
	Type                  template.HTML
	Default               string
}

type docsBody struct {
	Description string
	Required    bool
}

type docsStatus struct {
	Status string // "default" for any other
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

// docs returns the rendering.
func (s *server) docs() ([]byte, error) {
	var b bytes.Buffer
	err := docsTemplate.Execute(&b, s.docsPage())
	return b.Bytes(), err
}

func (s *server) docsPage() *docsPage {
	doc := s.api.OpenAPI()
	p := &docsPage{
		Title: doc.Info.Title, Version: doc.Info.Version, License: doc.Info.License.Name, Description: doc.Info.Description,
		Base: cmp.Or(strings.TrimRight(s.cfg.PublicURL, "/"), "http://localhost:8080") + s.base,
		Schemes: []docsScheme{
			{"API key", doc.Components.SecuritySchemes[schemeKey].Description},
			{"User's session", doc.Components.SecuritySchemes[schemeUser].Description},
		},
		Failures: docsFailures(),
		Failure:  exampleFailure(assay.CodeInvalid),
	}
	for _, tag := range doc.Tags {
		g := docsGroup{Name: tag.Name, Description: tag.Description}
		for _, o := range s.documented {
			if o.Tags[0] == tag.Name {
				g.Operations = append(g.Operations, docsOperationOf(doc, p.Base, o))
			}
		}
		p.Groups = append(p.Groups, g)
	}
	for name, schema := range s.schemas().Map() {
		p.Schemas = append(p.Schemas, docsSchemaOf(name, schema))
	}
	slices.SortFunc(p.Schemas, func(a, b docsSchema) int { return strings.Compare(a.Name, b.Name) })
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

func docsOperationOf(doc *huma.OpenAPI, base string, o *huma.Operation) docsOperation {
	out := docsOperation{
		ID: o.OperationID, Method: o.Method, Path: o.Path, Summary: o.Summary, Description: o.Description,
	}
	for _, scheme := range o.Security {
		if _, ok := scheme[schemeKey]; ok {
			out.Callers = append(out.Callers, "API key")
		}
		if _, ok := scheme[schemeUser]; ok {
			out.Callers = append(out.Callers, "user's session")
		}
	}
	for _, p := range o.Parameters {
		if name, ok := strings.CutPrefix(p.Ref, "#/components/parameters/"); ok {
			p = doc.Components.Parameters[name]
		}
		d := docsParameter{Name: p.Name, In: p.In, Description: p.Description, Required: p.Required, Type: docsType(p.Schema)}
		if p.Schema.Default != nil {
			d.Default = queryValue(p.Schema.Default)
		}
		out.Parameters = append(out.Parameters, d)
	}
	if o.RequestBody != nil {
		out.Body = &docsBody{Description: o.RequestBody.Description, Required: o.RequestBody.Required}
	}
	for status, r := range o.Responses {
		d := docsStatus{Status: status}
		if n, err := strconv.Atoi(status); err == nil {
			d.Text = http.StatusText(n)
			if n >= http.StatusBadRequest {
				d.Anchor = "status-" + status
			}
		} else {
			d.Text = doc.Components.Responses[strings.TrimPrefix(r.Ref, "#/components/responses/")].Description
		}
		out.Statuses = append(out.Statuses, d)
	}
	slices.SortFunc(out.Statuses, func(a, b docsStatus) int { return strings.Compare(a.Status, b.Status) })
	ok := o.Responses["200"].Content["application/json"]
	out.Response, out.Example = docsType(ok.Schema), ok.Example
	for _, name := range slices.Sorted(maps.Keys(ok.Examples))[:min(1, len(ok.Examples))] {
		out.Example, out.ExampleNote = ok.Examples[name].Value, ok.Examples[name].Summary
	}
	out.Curl = docsCurl(base, o)
	return out
}

// docsCurl returns a command that sends a request. Of the query it has the first
// two parameters without a default.
func docsCurl(base string, o *huma.Operation) string {
	var query []string
	for _, p := range o.Parameters {
		if p.In == "query" && p.Schema.Default == nil && len(query) < 2 {
			query = append(query, p.Name+"="+strings.ReplaceAll(queryValue(p.Schema.Examples[0]), " ", "%20"))
		}
	}
	target := base + examplePath(o.Path, o.Parameters)
	if len(query) > 0 {
		target += "?" + strings.Join(query, "&")
	}
	credential := "$ASSAY_API_KEY"
	if len(o.Security) == 1 {
		credential = "$USER_TOKEN"
	}
	lines := []string{`curl -H "Authorization: Bearer ` + credential + `"`}
	if o.Method != http.MethodGet {
		lines = append(lines, "-X "+o.Method)
	}
	if o.RequestBody != nil && o.RequestBody.Required {
		lines = append(lines, "-H 'Content-Type: application/json' -d '{}'")
	}
	return strings.Join(append(lines, "'"+target+"'"), " \\\n  ")
}

// queryValue writes a value as a query parameter has it.
func queryValue(v any) string {
	r := reflect.ValueOf(v)
	if r.Kind() != reflect.Slice {
		return fmt.Sprint(v)
	}
	items := make([]string, r.Len())
	for i := range items {
		items[i] = fmt.Sprint(r.Index(i).Interface())
	}
	return strings.Join(items, ",")
}

func docsSchemaOf(name string, s *huma.Schema) docsSchema {
	out := docsSchema{Name: name, Description: s.Description}
	if s.Type != huma.TypeObject {
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

// docsType says in words what a schema allows, with links to the schemas it
// refers to.
func docsType(s *huma.Schema) template.HTML {
	if name, ok := strings.CutPrefix(s.Ref, "#/components/schemas/"); ok {
		return template.HTML(fmt.Sprintf(`<a href="#schema-%[1]s">%[1]s</a>`, template.HTMLEscapeString(name)))
	}
	if len(s.AnyOf) > 0 {
		all := make([]string, len(s.AnyOf))
		for i, a := range s.AnyOf {
			all[i] = string(docsType(a))
		}
		return template.HTML(strings.Join(all, " or "))
	}
	if s.Type == huma.TypeArray {
		return "array of " + docsType(s.Items)
	}
	words := cmp.Or(s.Type, "any JSON")
	if s.Format != "" && s.Type == huma.TypeString {
		words += ", " + s.Format
	}
	if s.Minimum != nil && s.Maximum != nil && *s.Maximum <= 100 {
		words += fmt.Sprintf(", %v to %v", *s.Minimum, *s.Maximum)
	} else if s.Maximum != nil && *s.Maximum <= 100 {
		words += fmt.Sprintf(", at most %v", *s.Maximum)
	}
	if s.Nullable {
		words += " or null"
	}
	out := template.HTMLEscapeString(words)
	if len(s.Enum) > 0 {
		values := make([]string, len(s.Enum))
		for i, e := range s.Enum {
			values[i] = "<code>" + template.HTMLEscapeString(fmt.Sprint(e)) + "</code>"
		}
		out += ": " + strings.Join(values, " ")
	}
	return template.HTML(out)
}

// indent writes an example as JSON, its fields in the order of their declaration.
func indent(v any) (string, error) {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(v)
	return strings.TrimSuffix(b.String(), "\n"), err
}

// prose turns the paragraphs of a description into HTML.
func prose(text string) template.HTML {
	var b strings.Builder
	for p := range strings.SplitSeq(text, "\n\n") {
		b.WriteString("<p>" + string(inline(p)) + "</p>")
	}
	return template.HTML(b.String())
}

// inline turns the code spans of a description into HTML.
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

// anchor makes a fragment of a name.
func anchor(name string) string {
	return strings.ToLower(strings.ReplaceAll(name, " ", "-"))
}
