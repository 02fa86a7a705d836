// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"assay"
)

// params are the parsed parameters of a request: int, string, time.Time and, for a list,
// []string, according to their schemas. An absent or empty parameter has its default, or
// else no value.
type params struct {
	values map[string]any
	query  url.Values // the query parameters as sent
}

// param returns a parameter, the zero value for none.
func param[T any](p params, name string) T {
	v, _ := p.values[name].(T)
	return v
}

// listParam returns a parameter that is a list.
func listParam[T ~string](p params, name string) []T {
	var list []T
	for _, item := range param[[]string](p, name) {
		list = append(list, T(item))
	}
	return list
}

// page returns the requested page of a list.
func (p params) page() assay.Page {
	return assay.Page{Limit: param[int](p, "limit"), Offset: param[int](p, "offset")}
}

// binder parses the parameters of an operation, as the document declares them.
type binder struct {
	*route
	inputs []input
}

// input is a declared parameter of the path or the query.
type input struct {
	name   string
	inPath bool
	needed bool                       // a query parameter that must not be empty
	absent string                     // the value of an empty one
	parse  func(string) (any, string) // returns the value, or a description of the error
}

func newBinder(op *operation, rt *route) *binder {
	b := &binder{route: rt}
	for _, p := range op.Parameters {
		if p.Ref != "" {
			continue // a header field
		}
		in := input{name: p.Name, inPath: p.In == "path", needed: p.Required, parse: parserOf(p)}
		if p.Schema.Default != nil {
			in.absent = queryValue(p.Schema.Default)
			if _, problem := in.parse(in.absent); problem != "" {
				panic(fmt.Sprintf("rest: default of parameter %s: %s", p.Name, problem))
			}
		}
		b.inputs = append(b.inputs, in)
	}
	return b
}

// bind returns the parameters of a request. The error, which is CodeInvalid, has an entry
// in its details for every invalid parameter. If only a path parameter is malformed, the
// error has the code of the route.
func (b *binder) bind(r *http.Request) (params, error) {
	var (
		out     = params{values: map[string]any{}, query: url.Values{}}
		sent    = readQuery(r.URL.RawQuery)
		details = map[string]string{}
		unknown error
	)
	for _, in := range b.inputs {
		q := sent[in.name]
		if in.inPath {
			q = given{value: r.PathValue(in.name)}
		}
		if q.problem != "" {
			details[in.name] = q.problem
			continue
		}
		if q.value != "" && !in.inPath {
			if in.name == "sort" {
				q.value = plusForSpace(q.value)
			}
			out.query.Set(in.name, q.value)
		}
		if q.value == "" && !in.inPath {
			if q.value = in.absent; q.value == "" {
				if in.needed {
					details[in.name] = "is required"
				}
				continue
			}
		}
		value, problem := in.parse(q.value)
		switch {
		case problem == "":
			out.values[in.name] = value
		case in.inPath && b.unknown != "":
			unknown = &assay.Error{Code: b.unknown, Message: "there is nothing with this " + in.name}
		default:
			details[in.name] = problem
		}
	}
	if b.validate != nil {
		b.validate(out, details)
	}
	if len(details) > 0 {
		return params{}, assay.Invalid(details)
	}
	return out, unknown
}

// given is a query parameter as the client sent it.
type given struct {
	value   string
	problem string // why it cannot be parsed, "" if it can
}

// readQuery splits a query string. Unlike net/url, it distinguishes empty, repeated and
// badly escaped parameters, and treats a semicolon as a plain character.
func readQuery(raw string) map[string]given {
	all := map[string]given{}
	for pair := range strings.SplitSeq(raw, "&") {
		if pair == "" {
			continue
		}
		k, v, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(k)
		if err != nil {
			continue // not the name of a declared parameter
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

// plusForSpace restores the plus sign of a sort order that a client did not escape.
func plusForSpace(s string) string {
	if rest, ok := strings.CutPrefix(s, " "); ok {
		return "+" + rest
	}
	return s
}

// parserOf returns the parser for the values of a parameter. It panics on an unsupported
// schema.
func parserOf(p *parameter) func(string) (any, string) {
	s := p.Schema
	switch {
	case slices.Equal(s.Type, types{"integer"}) && s.Minimum != nil && s.Maximum != nil:
		return intParser(int64(*s.Minimum), int64(*s.Maximum))
	case slices.Equal(s.Type, types{"array"}) && len(s.Items.Enum) > 0:
		return listParser(s.Items.Enum)
	case !slices.Equal(s.Type, types{"string"}):
		panic(fmt.Sprintf("rest: parameter %s has a type that the server cannot read", p.Name))
	case s.Format == "date-time":
		return parseTime
	case s.Format == "uuid":
		return parseUUID
	case s.Pattern != "":
		return patternParser(s.Pattern, cmp.Or(patternProblems[p.Name], "must match "+s.Pattern))
	case len(s.Enum) > 0:
		return enumParser(s.Enum)
	case s.MaxLength > 0:
		return textParser(s.MaxLength)
	default:
		panic(fmt.Sprintf("rest: parameter %s has a schema that the server cannot read", p.Name))
	}
}

// patternProblems maps the patterns of parameters to their descriptions in words.
var patternProblems = map[string]string{
	"sort": "must be one of created_at, detected_ts, updated_at, impact, signal_type, with + or nothing (ascending) or - (descending) before it",
}

var integer = regexp.MustCompile(`^-?[0-9]+$`)

func intParser(lo, hi int64) func(string) (any, string) {
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

// textParser accepts texts of at most so many characters.
func textParser(most int) func(string) (any, string) {
	return func(raw string) (any, string) {
		switch {
		case !utf8.ValidString(raw):
			return nil, "must be UTF-8"
		case utf8.RuneCountInString(raw) > most:
			return nil, fmt.Sprintf("must have at most %d characters", most)
		}
		return raw, ""
	}
}

func patternParser(pattern, problem string) func(string) (any, string) {
	form := regexp.MustCompile(pattern)
	return func(raw string) (any, string) {
		if !form.MatchString(raw) {
			return nil, problem
		}
		return raw, ""
	}
}

func enumParser(allowed []string) func(string) (any, string) {
	problem := "must be one of " + strings.Join(allowed, ", ")
	return func(raw string) (any, string) {
		if !slices.Contains(allowed, raw) {
			return nil, problem
		}
		return raw, ""
	}
}

func listParser(allowed []string) func(string) (any, string) {
	problem := "must be a comma-separated list of " + strings.Join(allowed, ", ")
	return func(raw string) (any, string) {
		var list []string
		for item := range strings.SplitSeq(raw, ",") {
			if !slices.Contains(allowed, item) {
				return nil, problem
			}
			if !slices.Contains(list, item) {
				list = append(list, item)
			}
		}
		return list, ""
	}
}

var uuidForm = regexp.MustCompile(`^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$`)

func parseUUID(raw string) (any, string) {
	if !uuidForm.MatchString(raw) {
		return nil, "must be a UUID"
	}
	return strings.ToLower(raw), ""
}

// rfc3339 is stricter than package time, which also accepts one-digit hours and a comma
// before the fraction.
var rfc3339 = regexp.MustCompile(`^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})$`)

// parseTime parses RFC 3339. It accepts a space for the plus sign of an offset, which a
// client may not have escaped. T and Z may be in lower case, as RFC 3339 allows.
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
		t = t.Add(time.Nanosecond) // the zero time means absent
	}
	return t, ""
}
