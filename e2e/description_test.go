// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
)

// description is the OpenAPI document of a running server, read by a validator of
// JSON Schema that has nothing in common with what wrote the document. It counts
// the answers that it has checked.
type description struct {
	doc      map[string]any
	base     string // path of the API's root
	compiler *jsonschema.Compiler

	mu      sync.Mutex
	schemas map[string]*jsonschema.Schema
	seen    map[string]map[int]int // answers by operation and status
}

const descriptionURL = "openapi.json"

// describe reads the document.
func (d *daemon) describe(t *testing.T) *description {
	t.Helper()
	a, err := d.ask(t.Context(), http.MethodGet, d.rest+"/openapi.json", nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, a.status)
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(a.body))
	require.NoError(t, err)
	root, err := url.Parse(d.rest)
	require.NoError(t, err)
	s := &description{
		doc: doc.(map[string]any), base: root.Path, compiler: jsonschema.NewCompiler(),
		schemas: map[string]*jsonschema.Schema{}, seen: map[string]map[int]int{},
	}
	s.compiler.DefaultDraft(jsonschema.Draft2020)
	s.compiler.AssertFormat()
	require.NoError(t, s.compiler.AddResource(descriptionURL, doc))
	return s
}

// operations returns the operations, such as "GET /v1/services".
func (s *description) operations() []string {
	var all []string
	for path, methods := range s.doc["paths"].(map[string]any) {
		for method := range methods.(map[string]any) {
			if upper := strings.ToUpper(method); upper != "PARAMETERS" {
				all = append(all, upper+" "+path)
			}
		}
	}
	slices.Sort(all)
	return all
}

// find returns the operation of a request, "" when the document has none.
func (s *description) find(method, path string) string {
	path = strings.TrimPrefix(path, s.base)
	given := strings.Split(path, "/")
	best := ""
	for template, methods := range s.doc["paths"].(map[string]any) {
		if _, ok := methods.(map[string]any)[strings.ToLower(method)]; !ok {
			continue
		}
		parts := strings.Split(template, "/")
		match := len(parts) == len(given)
		for i := range parts {
			match = match && (parts[i] == given[i] || strings.HasPrefix(parts[i], "{") && given[i] != "")
		}
		// A path in full goes before one with a variable.
		if match && (best == "" || strings.Count(template, "{") < strings.Count(best, "{")) {
			best = method + " " + template
		}
	}
	return best
}

// check validates an answer and counts it. An answer outside of the document's
// operations has to be a failure in the documented shape.
func (s *description) check(method string, u *url.URL, a *answered) error {
	op := s.find(method, u.EscapedPath())
	if method == http.MethodHead || a.status == http.StatusNotModified {
		s.count(op, a.status)
		return nil
	}
	schema, err := s.schema(op, a.status)
	if err != nil {
		return err
	}
	body, err := jsonschema.UnmarshalJSON(bytes.NewReader(a.body))
	if err != nil {
		return fmt.Errorf("%s %s: %d: %w", method, u, a.status, err)
	}
	if err := schema.Validate(body); err != nil {
		return fmt.Errorf("%s %s: %d: %w\n%s", method, u, a.status, err, a.body)
	}
	s.count(op, a.status)
	return nil
}

func (s *description) count(op string, status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen[op] == nil {
		s.seen[op] = map[int]int{}
	}
	s.seen[op][status]++
}

// schema returns that of the answers of an operation with a status.
func (s *description) schema(op string, status int) (*jsonschema.Schema, error) {
	pointer := "/components/schemas/Failure"
	if method, path, ok := strings.Cut(op, " "); ok {
		at := "/paths/" + escapePointer(path) + "/" + strings.ToLower(method) + "/responses/" + strconv.Itoa(status)
		response, ok := s.lookup(at)
		if !ok {
			return nil, fmt.Errorf("the document does not say that %s answers %d", op, status)
		}
		if ref, ok := response["$ref"].(string); ok {
			at = strings.TrimPrefix(ref, "#")
		}
		pointer = at + "/content/application~1json/schema"
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.schemas[pointer]; known != nil {
		return known, nil
	}
	compiled, err := s.compiler.Compile(descriptionURL + "#" + (&url.URL{Path: pointer}).EscapedPath())
	if err != nil {
		return nil, fmt.Errorf("schema %s: %w", pointer, err)
	}
	s.schemas[pointer] = compiled
	return compiled, nil
}

// lookup finds an object of the document by its JSON pointer.
func (s *description) lookup(pointer string) (map[string]any, bool) {
	at := s.doc
	for part := range strings.SplitSeq(pointer[1:], "/") {
		part = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		next, ok := at[part].(map[string]any)
		if !ok {
			return nil, false
		}
		at = next
	}
	return at, true
}

func escapePointer(s string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(s) }

// table shows how often each status of each operation was seen.
func (s *description) table() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	statuses := map[int]bool{}
	width := 0
	for op, by := range s.seen {
		width = max(width, len(op))
		for status := range by {
			statuses[status] = true
		}
	}
	columns := slices.Sorted(maps.Keys(statuses))
	var b strings.Builder
	fmt.Fprintf(&b, "%-*s", width, "")
	for _, status := range columns {
		fmt.Fprintf(&b, " %5d", status)
	}
	for _, op := range slices.Sorted(maps.Keys(s.seen)) {
		name := op
		if op == "" {
			name = "(no operation)"
		}
		fmt.Fprintf(&b, "\n%-*s", width, name)
		for _, status := range columns {
			if n := s.seen[op][status]; n > 0 {
				fmt.Fprintf(&b, " %5d", n)
			} else {
				fmt.Fprintf(&b, " %5s", ".")
			}
		}
	}
	return b.String()
}
