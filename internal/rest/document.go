// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"

	"assay/docs"
)

// Names that the document uses.
const (
	schemeKey  = "apiKey"
	schemeUser = "jwt"

	tagAgent = "Agent" // of operations that the agent backend serves
)

// document is the part of the OpenAPI document that the server reads.
type document struct {
	Info struct {
		Title, Version, Description string
		License                     struct{ Name string }
	}
	Tags       []struct{ Name, Description string }
	Paths      map[string]map[string]*operation // by path and method in lower case
	Components struct {
		Parameters      map[string]*parameter
		Responses       map[string]*response
		Schemas         map[string]*schema
		SecuritySchemes map[string]struct{ Description string } `yaml:"securitySchemes"`
	}

	operations []*operation // by path and method
}

// operation is an operation of the document.
type operation struct {
	method, path string

	ID                   string `yaml:"operationId"`
	Summary, Description string
	Tags                 []string
	Security             []map[string][]string
	Administrators       bool `yaml:"x-administrators"` // of API keys, only those with the scope admin
	Parameters           []*parameter
	RequestBody          *struct {
		Description string
		Required    bool
	} `yaml:"requestBody"`
	Responses map[string]*response // by status
}

type parameter struct {
	Ref                   string `yaml:"$ref"`
	Name, In, Description string
	Required              bool
	Schema                *schema
}

type response struct {
	Ref         string `yaml:"$ref"`
	Description string
	Content     map[string]struct {
		Schema   *schema
		Example  yaml.Node
		Examples map[string]struct {
			Summary string
			Value   yaml.Node
		}
	}
}

type schema struct {
	Ref              string `yaml:"$ref"`
	Type             types
	Description      string
	Format, Pattern  string
	Enum             []string
	Minimum, Maximum *int
	MaxLength        int `yaml:"maxLength"`
	Default          any
	Examples         []any
	Items            *schema
	AnyOf            []*schema `yaml:"anyOf"`
	Properties       map[string]*schema
	Required         []string
}

// types are the types that a schema allows.
type types []string

// UnmarshalYAML reads one type or a list of them.
func (t *types) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		*t = types{n.Value}
		return nil
	}
	return n.Decode((*[]string)(t))
}

// documentText returns the document for a server with this URL and base path.
func documentText(serverURL, base string) string {
	return strings.NewReplacer(
		": /api/v1/", ": "+(&url.URL{Path: base}).EscapedPath()+"/v1/", // the links in examples
		"\n    url: /api\n", "\n    url: "+scalar(serverURL)+"\n",
	).Replace(docs.OpenAPI)
}

// sharedDocument is the document of no particular server. It is read-only.
var sharedDocument = sync.OnceValue(func() *document { return parseDocument(docs.OpenAPI) })

// parseDocument panics on a malformed document, which is part of the program.
func parseDocument(text string) *document {
	d := new(document)
	if err := yaml.Unmarshal([]byte(text), d); err != nil {
		panic(fmt.Sprintf("rest: OpenAPI document: %v", err))
	}
	for path, item := range d.Paths {
		for method, o := range item {
			o.path, o.method = path, strings.ToUpper(method)
			d.operations = append(d.operations, o)
		}
	}
	slices.SortFunc(d.operations, func(a, b *operation) int {
		return cmp.Or(strings.Compare(a.path, b.path), strings.Compare(a.method, b.method))
	})
	return d
}

// scalar returns text as YAML, quoted if necessary.
func scalar(text string) string {
	out, _ := yaml.Marshal(text) // a string: cannot fail
	return strings.TrimSpace(string(out))
}

// operation returns the operation with an id. It panics if there is none.
func (d *document) operation(id string) *operation {
	for _, o := range d.operations {
		if o.ID == id {
			return o
		}
	}
	panic("rest: the OpenAPI document has no operation " + id)
}

// usersOnly reports whether the operation rejects API keys.
func (o *operation) usersOnly() bool {
	return !slices.ContainsFunc(o.Security, func(s map[string][]string) bool { _, ok := s[schemeKey]; return ok })
}

// success returns the response of a success.
func (o *operation) success() *response { return cmp.Or(o.Responses["200"], o.Responses["201"]) }

// tagged reports whether responses have an entity tag.
func (o *operation) tagged() bool { return o.Responses["304"] != nil }

// wildcards returns the names of the wildcards of the path.
func (o *operation) wildcards() []string {
	var names []string
	for _, p := range o.Parameters {
		if p.In == "path" {
			names = append(names, p.Name)
		}
	}
	return names
}

// documentJSON converts the document from YAML to JSON.
func documentJSON(text string) ([]byte, error) {
	var n yaml.Node
	if err := yaml.Unmarshal([]byte(text), &n); err != nil {
		return nil, err
	}
	return indentedJSON(n.Content[0])
}

// indentedJSON returns a value as JSON. Keys keep their order.
func indentedJSON(n *yaml.Node) ([]byte, error) {
	var b bytes.Buffer
	err := json.Indent(&b, appendJSON(nil, n), "", "  ")
	return b.Bytes(), err
}

func appendJSON(b []byte, n *yaml.Node) []byte {
	switch n.Kind {
	case yaml.MappingNode:
		b = append(b, '{')
		for i := 0; i < len(n.Content); i += 2 {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendText(b, n.Content[i].Value), ':')
			b = appendJSON(b, n.Content[i+1])
		}
		return append(b, '}')
	case yaml.SequenceNode:
		b = append(b, '[')
		for i, item := range n.Content {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendJSON(b, item)
		}
		return append(b, ']')
	}
	if slices.Contains([]string{"!!int", "!!float", "!!bool", "!!null"}, n.ShortTag()) {
		return append(b, n.Value...)
	}
	return appendText(b, n.Value)
}

func appendText(b []byte, text string) []byte {
	var out bytes.Buffer
	_ = encode(&out, text) // a string: cannot fail
	return append(b, out.Bytes()...)
}
