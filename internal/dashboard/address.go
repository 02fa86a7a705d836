// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"cmp"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"assay"
)

// address is the path and the query of a list. It contains all choices of the user, so that lists can be bookmarked
// and shared.
type address struct {
	path     string
	query    url.Values
	fragment string // such as #changes, where its links lead on the page
}

func (q *request) address() address { return address{path: q.r.URL.Path, query: q.r.URL.Query()} }

// get returns a parameter; "" when it is not there or repeated.
func (a address) get(name string) string {
	if v := a.query[name]; len(v) == 1 {
		return v[0]
	}
	return ""
}

// maxValues is how often a parameter may be repeated; more are not read.
const maxValues = 20

// all returns the values of a parameter that may be repeated, or have several with
// commas between them, as the API's.
func (a address) all(name string) []string {
	var values []string
	for _, v := range a.query[name] {
		for one := range strings.SplitSeq(v, ",") {
			if one != "" && !slices.Contains(values, one) && len(values) < maxValues {
				values = append(values, one)
			}
		}
	}
	return values
}

// with returns the address with a parameter set, or removed if value is "", on the first page.
func (a address) with(name, value string) string {
	changed := url.Values{}
	for k, v := range a.query {
		v = slices.DeleteFunc(slices.Clone(v), func(s string) bool { return s == "" })
		if k != name && k != pageParam && len(v) > 0 && len(v) <= maxValues {
			changed[k] = v
		}
	}
	if value != "" {
		changed.Set(name, value)
	}
	return a.path + encoded(changed) + a.fragment
}

// without returns the address without a parameter.
func (a address) without(name string) address {
	a.query = maps.Clone(a.query)
	a.query.Del(name)
	return a
}

func encoded(query url.Values) string {
	if len(query) == 0 {
		return ""
	}
	return "?" + query.Encode()
}

const (
	pageParam = "page"
	maxPage   = 100_000
)

// page returns the page number in the address, from 1.
func (a address) page() int {
	n, err := strconv.Atoi(a.get(pageParam))
	if err != nil || n < 1 || n > maxPage {
		return 1
	}
	return n
}

func (a address) slice(size int) assay.Page {
	return assay.Page{Limit: size, Offset: (a.page() - 1) * size}
}

// pager is the pagination of a list.
type pager struct {
	First, Last, Total int // items shown, from 1; Last is 0 when none is
	Previous, Next     string
	Page, Pages        int
}

func (a address) pager(size, shown, total int) pager {
	n := a.page()
	p := pager{Total: total, Page: n, Pages: (total + size - 1) / size}
	if shown > 0 {
		p.First = (n-1)*size + 1
		p.Last = p.First + shown - 1
	}
	if n > 1 {
		p.Previous = a.with(pageParam, strconv.Itoa(min(n-1, max(1, p.Pages))))
		if n == 2 || p.Pages <= 1 {
			p.Previous = a.with(pageParam, "")
		}
	}
	if n < p.Pages {
		p.Next = a.with(pageParam, strconv.Itoa(n+1))
	}
	return p
}

// beyond reports whether the address names a page after the last one, because the list has become shorter. Previous is
// then the last page.
func (p pager) beyond() bool { return p.Last == 0 && p.Total > 0 && p.Previous != "" }

// option is one choice of a filter.
type option struct {
	Value, Label string
	Chosen       bool
}

func options(chosen string, all ...option) []option {
	for i := range all {
		all[i].Chosen = all[i].Value == chosen
	}
	return all
}

// sorting holds the orders of a list, one of them selected. The prefix - means descending. "" is the default order.
type sorting []option

// sorts returns the orders of a list, with the order of the address selected.
func (a address) sorts(all []option) (sorting, error) {
	s := sorting(options(a.get(sortParam), slices.Clone(all)...))
	if s.order() == nil {
		return nil, assay.Errorf(assay.CodeInvalid, "The list cannot be sorted by that.")
	}
	return s, nil
}

// order returns the selected order, or nil.
func (s sorting) order() *option {
	if i := slices.IndexFunc(s, func(o option) bool { return o.Chosen }); i >= 0 {
		return &s[i]
	}
	return nil
}

// field returns the field by which the list is sorted. otherwise is the default order, with its sign.
func (s sorting) field(otherwise string) (field string, descending bool) {
	return strings.CutPrefix(cmp.Or(s.order().Value, otherwise), "-")
}

// column is the head of a column. A list can be sorted by its field By; "" is none.
type column struct {
	Label, By, Class string

	// Filled by columns.
	Link      string
	Direction string // ascending or descending when the list is sorted by it, else ""
}

// columns fills column heads. A head links to the first order of its field, or to the opposite order if the list is
// sorted by that field.
func (a address) columns(s sorting, otherwise string, all ...column) []column {
	by, descending := s.field(otherwise)
	for i := range all {
		c := &all[i]
		if c.By == "" {
			continue
		}
		if c.By == by {
			c.Direction = "ascending"
			if descending {
				c.Direction = "descending"
			}
		}
		for _, o := range s {
			if field, down := strings.CutPrefix(cmp.Or(o.Value, otherwise), "-"); field == c.By && (by != field || down != descending) {
				c.Link = a.with(sortParam, o.Value)
				break
			}
		}
	}
	return all
}
