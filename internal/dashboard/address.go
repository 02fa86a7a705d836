// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"net/url"
	"strconv"

	"assay"
)

// address is the path and the query of a list. Whatever is chosen stands in the
// address bar, so that it can be kept, shared and gone back to.
type address struct {
	path  string
	query url.Values
}

func (q *request) address() address { return address{q.r.URL.Path, q.r.URL.Query()} }

// get returns a parameter; "" when it is not there or repeated.
func (a address) get(name string) string {
	if v := a.query[name]; len(v) == 1 {
		return v[0]
	}
	return ""
}

// with returns the address with a parameter changed, "" for none, and back on the
// first page.
func (a address) with(name, value string) string {
	changed := url.Values{}
	for k, v := range a.query {
		if k != name && k != pageParam && len(v) == 1 && v[0] != "" {
			changed[k] = v
		}
	}
	if value != "" {
		changed.Set(name, value)
	}
	return a.path + encoded(changed)
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

// page returns the number of the page that the address names, from 1.
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

// pager is the way through the pages of a list.
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

// column is the head of a column by which a list can be sorted.
type column struct {
	Label     string
	Link      string
	Direction string // ascending or descending when the list is sorted by it, else ""
	Class     string
}
