// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"assay"
)

// binder reads the parameters of an operation out of a request. It is made from
// the tags of the struct P: path or query (name), doc, default, enum, minimum,
// maximum, format and pattern as in huma, patternDescription, which is the text for a
// value that does not match, and malformed, the code of a path parameter that
// cannot be anything's id and is answered like an unknown one.
//
// Fields may be string types, slices of them (comma-separated values), int and
// time.Time. A parameter that is absent or empty has its default, else the zero
// value.
type binder[P any] struct {
	params []*param
}

// param is one declared parameter.
type param struct {
	huma.Param
	index     []int // of the field
	fallback  string
	malformed assay.Code
	parse     func(string) (any, string) // value and "", or what is wrong
	normalize bool                       // sort: a leading space is a plus sign
}

// validator is a parameter struct whose fields depend on each other.
type validator interface {
	// validate adds an entry to details for each parameter that is wrong. Fields
	// that could not be read hold the zero value.
	validate(details map[string]string)
}

// newBinder reads the declaration P. It panics on one that makes no sense: that
// is a mistake in this package, and New would not get past it.
func newBinder[P any](r huma.Registry) *binder[P] {
	b := &binder[P]{}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[P]()) {
		if f.Anonymous {
			continue
		}
		b.params = append(b.params, newParam(r, f))
	}
	return b
}

func newParam(r huma.Registry, f reflect.StructField) *param {
	p := &param{index: f.Index, fallback: f.Tag.Get("default"), malformed: assay.Code(f.Tag.Get("malformed"))}
	p.Name, p.In = f.Tag.Get("query"), "query"
	if p.Name == "" {
		p.Name, p.In, p.Required = f.Tag.Get("path"), "path", true
	}
	schema := huma.SchemaFromField(r, f, "")
	schema.Nullable = false
	p.Description, schema.Description = schema.Description, ""
	problem := schema.PatternDescription // huma's own, not a word of JSON Schema
	schema.PatternDescription = ""
	p.Schema = schema
	switch {
	case p.Name == "":
		panic(fmt.Sprintf("rest: field %s has neither a query nor a path tag", f.Name))
	case f.Type.Kind() == reflect.Slice && f.Type.Elem().Kind() == reflect.String:
		p.Explode = new(bool) // false: one parameter, values separated by commas
		p.parse = listParser(f.Type, schema.Items)
	case f.Type == reflect.TypeFor[time.Time]():
		p.parse = parseTime
	case f.Type.Kind() == reflect.Int:
		p.parse = intParser(schema)
	case f.Type.Kind() == reflect.String:
		p.parse = stringParser(f.Type, schema, problem)
		p.normalize = f.Type == reflect.TypeFor[sortOrder]()
	default:
		panic(fmt.Sprintf("rest: parameter %s has type %s", p.Name, f.Type))
	}
	if p.fallback != "" {
		if _, problem := p.parse(p.fallback); problem != "" {
			panic(fmt.Sprintf("rest: default of parameter %s: %s", p.Name, problem))
		}
	}
	return p
}

// document returns the parameters as OpenAPI shows them.
func (b *binder[P]) document() []*huma.Param {
	all := make([]*huma.Param, len(b.params))
	for i, p := range b.params {
		all[i] = &p.Param
	}
	return all
}

// bind returns the parameters of a request and, as a query of the known ones,
// how to ask for the same again. Every parameter that is wrong has an entry in
// the details of the error, which is CodeInvalid. Only when the others are right
// does a malformed path parameter answer with the code that was declared for it.
func (b *binder[P]) bind(r *http.Request) (*P, url.Values, error) {
	var (
		out     P
		v       = reflect.ValueOf(&out).Elem()
		given   = readQuery(r.URL.RawQuery)
		again   = url.Values{}
		details = map[string]string{}
		unknown error
	)
	for _, p := range b.params {
		var raw, problem string
		if p.In == "path" {
			raw = r.PathValue(p.Name)
		} else {
			q := given[p.Name]
			raw, problem = q.value, q.problem
		}
		if problem != "" {
			details[p.Name] = problem
			continue
		}
		if p.normalize {
			raw = plusForSpace(raw)
		}
		if raw != "" && p.In == "query" {
			again.Set(p.Name, raw)
		}
		if raw == "" && p.In == "query" {
			raw = p.fallback
		}
		if raw == "" && p.In == "query" {
			continue
		}
		value, problem := p.parse(raw)
		switch {
		case problem == "":
			v.FieldByIndex(p.index).Set(reflect.ValueOf(value))
		case p.malformed != "":
			unknown = &assay.Error{Code: p.malformed, Message: "there is nothing with this " + p.Name}
		default:
			details[p.Name] = problem
		}
	}
	if c, ok := any(&out).(validator); ok {
		c.validate(details)
	}
	if len(details) > 0 {
		return nil, nil, invalid(details)
	}
	if unknown != nil {
		return nil, nil, unknown
	}
	return &out, again, nil
}

// invalid is the error of a request with wrong parameters.
func invalid(details map[string]string) error {
	return &assay.Error{Code: assay.CodeInvalid, Message: "one or more parameters are not valid", Details: details}
}

// given is a query parameter as it was sent.
type given struct {
	value   string
	problem string // why it cannot be read, "" for none
}

// readQuery splits a query string. Unlike net/url it keeps apart what was sent
// empty, repeated or badly escaped, and takes a semicolon for the character it is.
func readQuery(raw string) map[string]given {
	all := map[string]given{}
	for pair := range strings.SplitSeq(raw, "&") {
		if pair == "" {
			continue
		}
		k, v, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(k)
		if err != nil {
			continue // no declared parameter has such a name
		}
		if _, ok := all[name]; ok {
			all[name] = given{problem: "must not be repeated"}
			continue
		}
		value, err := url.QueryUnescape(v)
		if err != nil {
			all[name] = given{problem: "is not correctly percent-encoded"}
			continue
		}
		all[name] = given{value: value}
	}
	return all
}

// plusForSpace gives back the plus sign of a sort order that a client did not
// escape.
func plusForSpace(s string) string {
	if rest, ok := strings.CutPrefix(s, " "); ok {
		return "+" + rest
	}
	return s
}

var integer = regexp.MustCompile(`^-?[0-9]+$`)

func intParser(s *huma.Schema) func(string) (any, string) {
	if s.Minimum == nil || s.Maximum == nil {
		panic("rest: an integer parameter needs a minimum and a maximum")
	}
	lo, hi := int64(*s.Minimum), int64(*s.Maximum)
	return func(raw string) (any, string) {
		if !integer.MatchString(raw) {
			return nil, "must be an integer"
		}
		n, err := strconv.ParseInt(raw, 10, 64)
		if err != nil || n < lo || n > hi {
			return nil, fmt.Sprintf("must be between %d and %d", lo, hi)
		}
		return int(n), ""
	}
}

func stringParser(t reflect.Type, s *huma.Schema, patternProblem string) func(string) (any, string) {
	convert := func(raw string) any { return reflect.ValueOf(raw).Convert(t).Interface() }
	switch {
	case s.Format == "uuid":
		return func(raw string) (any, string) {
			if !uuidForm.MatchString(raw) {
				return nil, "must be a UUID"
			}
			return convert(strings.ToLower(raw)), ""
		}
	case s.Pattern != "":
		form := regexp.MustCompile(s.Pattern)
		return func(raw string) (any, string) {
			if !form.MatchString(raw) {
				return nil, patternProblem
			}
			return convert(raw), ""
		}
	case len(s.Enum) > 0:
		allowed, text := enumOf(s)
		return func(raw string) (any, string) {
			if !slices.Contains(allowed, raw) {
				return nil, "must be one of " + text
			}
			return convert(raw), ""
		}
	default:
		return func(raw string) (any, string) { return convert(raw), "" }
	}
}

var uuidForm = regexp.MustCompile(`^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$`)

func listParser(t reflect.Type, items *huma.Schema) func(string) (any, string) {
	allowed, text := enumOf(items)
	return func(raw string) (any, string) {
		list := reflect.MakeSlice(t, 0, len(allowed))
		seen := make([]string, 0, len(allowed))
		for item := range strings.SplitSeq(raw, ",") {
			if !slices.Contains(allowed, item) {
				return nil, "must be a comma-separated list of " + text
			}
			if !slices.Contains(seen, item) {
				seen = append(seen, item)
				list = reflect.Append(list, reflect.ValueOf(item).Convert(t.Elem()))
			}
		}
		return list.Interface(), ""
	}
}

func enumOf(s *huma.Schema) (allowed []string, text string) {
	for _, e := range s.Enum {
		allowed = append(allowed, e.(string))
	}
	if allowed == nil {
		panic("rest: a list parameter needs an enum")
	}
	return allowed, strings.Join(allowed, ", ")
}

// rfc3339 is stricter than package time, which also takes one-digit hours and a
// comma before the fraction.
var rfc3339 = regexp.MustCompile(`^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})$`)

// parseTime reads RFC 3339. The plus sign of an offset may have arrived as a
// space; T and Z may be in lower case, as RFC 3339 allows.
func parseTime(raw string) (any, string) {
	const offset = len("+00:00")
	if i := len(raw) - offset; i >= 0 && raw[i] == ' ' {
		raw = raw[:i] + "+" + raw[i+1:]
	}
	raw = strings.ToUpper(raw)
	t, err := time.Parse(time.RFC3339, raw)
	if err != nil || !rfc3339.MatchString(raw) {
		return nil, "must be an RFC 3339 time such as 2026-11-21T09:30:00Z"
	}
	if t.IsZero() {
		t = t.Add(time.Nanosecond) // the zero time stands for a parameter that is absent
	}
	return t, ""
}

// sortOrder is a sort field with an optional sign before it: plus or none for
// ascending, minus for descending.
type sortOrder string

// split returns the field and the direction.
func (s sortOrder) split() (field assay.InsightSort, descending bool) {
	return assay.InsightSort(strings.TrimLeft(string(s), "+-")), strings.HasPrefix(string(s), "-")
}

// offset is the offset parameter of every list.
type offset struct {
	// The maximum is 2^53-1, the largest integer that every JSON reader keeps exact.
	Offset int `query:"offset" minimum:"0" maximum:"9007199254740991" default:"0" doc:"Number of items to skip." example:"50"`
}

// pager is the parameter struct of a list.
type pager interface {
	page() assay.Page
}
