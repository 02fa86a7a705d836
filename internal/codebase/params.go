// SPDX-License-Identifier: Apache-2.0

package codebase

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"assay"
)

// readQuery parses a query string. Unlike net/url it returns an error for invalid pairs.
func readQuery(raw string) (url.Values, error) {
	query, err := url.ParseQuery(raw)
	if err != nil {
		return nil, invalid(map[string]string{"query": "is not a well-formed query string"})
	}
	return query, nil
}

func invalid(details map[string]string) error {
	err := refuse(http.StatusBadRequest, assay.DescribeDetails(details))
	err.details = details
	return err
}

// params parses the parameters of a query and collects errors. An empty parameter counts as absent, an unknown one is
// ignored.
type params struct {
	query   url.Values
	details map[string]string
}

func (c *call) params() *params { return &params{query: c.query, details: map[string]string{}} }

// err returns the collected errors as one.
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

// list parses a comma-separated list of the values; nil means that the parameter is absent.
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

// maxOffset prevents overflow of sums with an offset.
const maxOffset = 1_000_000_000

// id parses the id of a resource; "" means that the parameter is absent.
func (p *params) id(name string) string {
	text := p.text(name)
	if text == "" {
		return ""
	}
	id, ok := canonicalID(text)
	if !ok {
		p.details[name] = "must be a UUID"
	}
	return id
}

func number(n int) string { return strconv.Itoa(n) }
