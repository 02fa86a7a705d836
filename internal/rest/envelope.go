// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"net/url"
	"strconv"
	"time"

	"assay"
)

// timestamp formats a time for the API: RFC 3339 in UTC with at most microseconds.
func timestamp(t time.Time) string {
	return t.UTC().Truncate(time.Microsecond).Format(time.RFC3339Nano)
}

// Meta accompanies every response. Total and HasMore are set for a page of a list.
type Meta struct {
	Timestamp string `json:"timestamp"`
	TraceID   string `json:"trace_id"`
	Total     *int64 `json:"total,omitempty"`
	HasMore   *bool  `json:"has_more,omitempty"`
}

// Links are paths, with query, to the pages of a list.
type Links struct {
	Self  string `json:"self"`
	First string `json:"first"`
	Last  string `json:"last"`
	Next  string `json:"next,omitempty"`
	Prev  string `json:"prev,omitempty"`
}

// Failure is the body of every error response.
type Failure struct {
	Error FailureError `json:"error"`
	Meta  Meta         `json:"meta"`
}

// FailureError describes an error. Details maps names of fields or parameters to
// messages.
type FailureError struct {
	Code    assay.Code        `json:"code"`
	Message string            `json:"message"`
	Details map[string]string `json:"details,omitempty"`
}

// page is a part of a list with links to other pages.
type page struct {
	total   int64
	hasMore bool
	links   Links
}

// newPage computes the links of a page. query holds the parameters of the request;
// newPage overwrites its limit and offset.
func newPage(path string, query url.Values, p assay.Page, items, total int) *page {
	link := func(offset int) string {
		query.Set("limit", strconv.Itoa(p.Limit))
		query.Set("offset", strconv.Itoa(offset))
		return path + "?" + query.Encode()
	}
	last := 0
	if total > 0 {
		last = (total - 1) / p.Limit * p.Limit
	}
	l := Links{Self: link(p.Offset), First: link(0), Last: link(last)}
	// Subtract, because offset may be so large that a sum overflows.
	hasMore := p.Offset < total-items && items > 0
	if hasMore {
		l.Next = link(p.Offset + p.Limit)
	}
	if p.Offset > 0 && total > 0 {
		// Past the end, the previous page is the last one.
		l.Prev = link(max(0, min(p.Offset-p.Limit, last)))
	}
	return &page{total: int64(total), hasMore: hasMore, links: l}
}
