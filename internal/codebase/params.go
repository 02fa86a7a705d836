// SPDX-License-Identifier: Apache-2.0

package codebase

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"assay"
)

// given is the value of a query parameter.
type given struct {
	text string
	err  error // it is not correctly percent-encoded
}

// readQuery parses a query string as the API does: it ignores parameters that no operation reads, and treats a semicolon as
// a plain character.
func readQuery(raw string) map[string][]given {
	all := map[string][]given{}
	for pair := range strings.SplitSeq(raw, "&") {
		name, value, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(name)
		if err != nil {
			continue
		}
		text, err := url.QueryUnescape(value)
		all[name] = append(all[name], given{text, err})
	}
	return all
}

// params parses the parameters of a query and collects errors. An empty parameter counts as absent, an unknown one is
// ignored.
type params struct {
	query   map[string][]given
	details map[string]string
}

func (c *call) params() *params { return &params{query: c.query, details: map[string]string{}} }

// err returns the collected errors as one.
func (p *params) err() error {
	if len(p.details) == 0 {
		return nil
	}
	return assay.Invalid(p.details)
}

func (p *params) text(name string) string {
	switch values := p.query[name]; {
	case len(values) > 1:
		p.details[name] = "must be given once"
	case len(values) == 1 && values[0].err != nil:
		p.details[name] = "is not correctly percent-encoded"
	case len(values) == 1:
		return values[0].text
	}
	return ""
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

// maxOffset is the largest integer that JSON numbers hold exactly. Sums with it do not overflow.
const maxOffset = 1<<53 - 1

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
