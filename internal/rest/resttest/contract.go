// SPDX-License-Identifier: Apache-2.0

package resttest

import (
	"bytes"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// documentURL is the base URL for references within the document.
const documentURL = "https://assay.invalid/openapi.json"

// Contract is an OpenAPI 3.1 document. It is safe for concurrent use.
type Contract struct {
	doc        map[string]any
	operations []*Operation

	mu       sync.Mutex // of the next fields
	compiler *jsonschema.Compiler
	schemas  map[string]*jsonschema.Schema // by JSON pointer
}

// Operation is an operation of the document.
type Operation struct {
	ID         string // operationId
	Method     string
	Path       string   // below the server's URL, with wildcards in braces
	Statuses   []string // documented, sorted; one may be "default"
	Security   []string // names of the schemes it takes, sorted
	Parameters []Parameter

	pointer string
}

// Parameter is a declared parameter of an operation.
type Parameter struct {
	Name     string
	In       string // path, query or header
	Required bool
	Example  any // a value that is accepted
}

// Load reads a document in JSON.
func Load(document []byte) (*Contract, error) {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(document))
	if err != nil {
		return nil, fmt.Errorf("OpenAPI document: %w", err)
	}
	doc, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("OpenAPI document: not an object")
	}
	c := &Contract{doc: doc, compiler: jsonschema.NewCompiler(), schemas: map[string]*jsonschema.Schema{}}
	c.compiler.DefaultDraft(jsonschema.Draft2020)
	c.compiler.AssertFormat()
	if err := c.compiler.AddResource(documentURL, doc); err != nil {
		return nil, fmt.Errorf("OpenAPI document: %w", err)
	}
	for path, item := range object(doc["paths"]) {
		for method, o := range object(item) {
			c.operations = append(c.operations, c.operation(strings.ToUpper(method), path, object(o)))
		}
	}
	slices.SortFunc(c.operations, func(a, b *Operation) int {
		return strings.Compare(a.Path+" "+a.Method, b.Path+" "+b.Method)
	})
	return c, nil
}

func (c *Contract) operation(method, path string, o map[string]any) *Operation {
	op := &Operation{
		Method: method, Path: path,
		pointer: pointer("paths", path, strings.ToLower(method)),
	}
	op.ID, _ = o["operationId"].(string)
	for status := range object(o["responses"]) {
		op.Statuses = append(op.Statuses, status)
	}
	for _, s := range list(o["security"]) {
		for name := range object(s) {
			op.Security = append(op.Security, name)
		}
	}
	slices.Sort(op.Statuses)
	slices.Sort(op.Security)
	for i := range list(o["parameters"]) {
		p := object(c.at(c.resolve(op.pointer + pointer("parameters", strconv.Itoa(i)))))
		param := Parameter{}
		param.Name, _ = p["name"].(string)
		param.In, _ = p["in"].(string)
		param.Required, _ = p["required"].(bool)
		if examples := list(object(p["schema"])["examples"]); len(examples) > 0 {
			param.Example = examples[0]
		}
		op.Parameters = append(op.Parameters, param)
	}
	return op
}

// Operations returns all operations by path and method.
func (c *Contract) Operations() []*Operation { return slices.Clone(c.operations) }

// Find returns the operation that answers a method at a path below the server's
// URL, nil for none. HEAD is answered by GET.
func (c *Contract) Find(method, path string) *Operation {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	segments := strings.Split(path, "/")
	for _, op := range c.operations {
		if op.Method == method && slices.EqualFunc(strings.Split(op.Path, "/"), segments, fits) {
			return op
		}
	}
	return nil
}

func fits(declared, sent string) bool {
	return declared == sent || (strings.HasPrefix(declared, "{") && sent != "")
}

// CheckResponse describes how a response differs from the document's declaration of the
// operation: an undocumented status, another content type, or a body or a header field
// that its schema does not allow.
func (c *Contract) CheckResponse(op *Operation, status int, header http.Header, body []byte) error {
	key := strconv.Itoa(status)
	if !slices.Contains(op.Statuses, key) {
		if !slices.Contains(op.Statuses, "default") {
			return fmt.Errorf("%s %s: status %d is not documented", op.Method, op.Path, status)
		}
		key = "default"
	}
	at := c.resolve(op.pointer + pointer("responses", key))
	if err := c.checkResponse(at, header, body); err != nil {
		return fmt.Errorf("%s %s: status %d: %w", op.Method, op.Path, status, err)
	}
	return nil
}

func (c *Contract) checkResponse(at string, header http.Header, body []byte) error {
	declared := object(c.at(at))
	for name := range object(declared["headers"]) {
		if err := c.checkHeader(at+pointer("headers", name, "schema"), header.Get(name)); err != nil {
			return fmt.Errorf("header %s: %w", name, err)
		}
	}
	content := object(declared["content"])
	if len(content) == 0 {
		if len(body) > 0 {
			return errors.New("a body is not documented")
		}
		return nil
	}
	mediaType, _, err := mime.ParseMediaType(header.Get("Content-Type"))
	if err != nil || content[mediaType] == nil {
		return fmt.Errorf("content type %q is not documented", header.Get("Content-Type"))
	}
	return c.check(at+pointer("content", mediaType, "schema"), body)
}

// checkHeader checks a header field where it was sent.
func (c *Contract) checkHeader(schema, value string) error {
	if value == "" {
		return nil
	}
	if object(c.at(schema))["type"] == "integer" {
		return c.check(schema, []byte(value))
	}
	return c.validate(schema, value)
}

// CheckSchema checks JSON against the component schema of this name.
func (c *Contract) CheckSchema(name string, body []byte) error {
	return c.check(pointer("components", "schemas", name), body)
}

func (c *Contract) check(schema string, body []byte) error {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("body: %w", err)
	}
	return c.validate(schema, v)
}

func (c *Contract) validate(at string, v any) error {
	schema, err := c.schema(at)
	if err != nil {
		return err
	}
	return schema.Validate(v)
}

func (c *Contract) schema(at string) (*jsonschema.Schema, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s, ok := c.schemas[at]; ok {
		return s, nil
	}
	s, err := c.compiler.Compile(documentURL + "#" + at)
	if err != nil {
		return nil, err
	}
	c.schemas[at] = s
	return s, nil
}

// CheckExamples checks every example of the document against its schema and returns the
// number of examples.
func (c *Contract) CheckExamples() (int, error) { return c.checkExamples("", c.doc) }

func (c *Contract) checkExamples(at string, v any) (int, error) {
	var (
		n    int
		errs []error
	)
	check := func(schema, where string, example any) {
		n++
		if err := c.validate(schema, example); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", where, err))
		}
	}
	descend := func(key string, v any) {
		m, err := c.checkExamples(at+pointer(key), v)
		n += m
		errs = append(errs, err)
	}
	switch v := v.(type) {
	case []any:
		for i, x := range v {
			descend(strconv.Itoa(i), x)
		}
	case map[string]any:
		for i, e := range list(v["examples"]) { // of a schema
			check(at, at+pointer("examples", strconv.Itoa(i)), e)
		}
		if v["schema"] != nil { // of a media type, a parameter or a header field
			if e, ok := v["example"]; ok {
				check(at+pointer("schema"), at+pointer("example"), e)
			}
			for name, e := range object(v["examples"]) {
				check(at+pointer("schema"), at+pointer("examples", name), object(e)["value"])
			}
		}
		for key, x := range v {
			if key != "example" && key != "examples" {
				descend(key, x)
			}
		}
	}
	return n, errors.Join(errs...)
}

// resolve follows references from a JSON pointer to the last one.
func (c *Contract) resolve(at string) string {
	for {
		ref, ok := object(c.at(at))["$ref"].(string)
		if !ok {
			return at
		}
		at = strings.TrimPrefix(ref, "#")
	}
}

// at returns the value at a JSON pointer, nil for none.
func (c *Contract) at(at string) any {
	var v any = c.doc
	for _, token := range strings.Split(at, "/")[1:] {
		token = strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
		switch x := v.(type) {
		case map[string]any:
			v = x[token]
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(x) {
				return nil
			}
			v = x[i]
		default:
			return nil
		}
	}
	return v
}

// pointer returns the JSON pointer of the tokens.
// Source: https://www.rfc-editor.org/rfc/rfc6901
func pointer(tokens ...string) string {
	var b strings.Builder
	for _, t := range tokens {
		b.WriteByte('/')
		b.WriteString(strings.ReplaceAll(strings.ReplaceAll(t, "~", "~0"), "/", "~1"))
	}
	return b.String()
}

func object(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

func list(v any) []any {
	l, _ := v.([]any)
	return l
}
