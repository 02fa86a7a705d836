// SPDX-License-Identifier: Apache-2.0

package agentstub

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// readQuery reads a query string. It is strict where net/url would drop what it
// cannot read.
func readQuery(raw string) (url.Values, error) {
	query, err := url.ParseQuery(raw)
	if err != nil {
		return nil, invalid(map[string]string{"query": "is not a well-formed query string"})
	}
	return query, nil
}

func invalid(details map[string]string) error {
	err := refuse(http.StatusBadRequest, "one or more parameters are not valid")
	err.details = details
	return err
}

// params reads the parameters of a query and gathers what is wrong with them. An
// empty parameter counts as absent, an unknown one is ignored.
type params struct {
	query   url.Values
	details map[string]string
}

func (c *call) params() *params { return &params{query: c.query, details: map[string]string{}} }

// err returns the error about everything that is wrong.
func (p *params) err() error {
	if len(p.details) == 0 {
		return nil
	}
	return invalid(p.details)
}

func (p *params) text(name string) string {
	values := p.query[name]
	if len(values) > 1 {
		p.details[name] = "must be given once"
	}
	if len(values) != 1 {
		return ""
	}
	return values[0]
}

func (p *params) integer(name string, fallback, least, most int) int {
	text := p.text(name)
	if text == "" {
		return fallback
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		p.details[name] = "must be an integer from " + number(least) + " to " + number(most)
		return fallback
	}
	return n
}

func (p *params) enum(name, fallback string, values ...string) string {
	text := p.text(name)
	if text == "" {
		return fallback
	}
	if !slices.Contains(values, text) {
		p.details[name] = "must be one of " + strings.Join(values, ", ")
	}
	return text
}

// list reads a comma-separated list of the values; nil means that there is none.
func (p *params) list(name string, values ...string) []string {
	var items []string
	for item := range strings.SplitSeq(p.text(name), ",") {
		item = strings.TrimSpace(item)
		switch {
		case item == "":
		case !slices.Contains(values, item):
			p.details[name] = "must be a comma-separated list of " + strings.Join(values, ", ")
		default:
			items = append(items, item)
		}
	}
	return items
}

// clip returns the items of a page.
func clip[T any](items []T, offset, limit int) []T {
	offset = min(offset, len(items))
	return items[offset : offset+min(limit, len(items)-offset)]
}

// linkTo returns a path with the query of the call, in which some parameters are set
// to numbers.
func (c *call) linkTo(path string, numbers map[string]int) string {
	query := url.Values{}
	for name, values := range c.query {
		query[name] = values
	}
	for name, n := range numbers {
		query.Set(name, number(n))
	}
	if len(query) == 0 {
		return path
	}
	return path + "?" + query.Encode()
}
