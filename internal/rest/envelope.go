// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"net/url"
	"reflect"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"assay"
)

// Time is a timestamp as the API shows it: RFC 3339 in UTC with at most
// microseconds.
type Time time.Time

// MarshalJSON cuts below the microsecond.
func (t Time) MarshalJSON() ([]byte, error) {
	return time.Time(t).UTC().AppendFormat(nil, `"2006-01-02T15:04:05.999999Z"`), nil
}

// UnmarshalJSON is the reverse, for clients written in Go.
func (t *Time) UnmarshalJSON(b []byte) error { return (*time.Time)(t).UnmarshalJSON(b) }

// Schema describes a timestamp.
func (Time) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{
		Type: huma.TypeString, Format: "date-time",
		Description: "RFC 3339, UTC, at most microseconds.",
		Examples:    []any{"2026-11-21T09:30:00.123456Z"},
	}
}

// Meta accompanies every response.
type Meta struct {
	Timestamp Time   `json:"timestamp" doc:"When the response was made."`
	TraceID   string `json:"trace_id" minLength:"32" maxLength:"32" doc:"Trace id of the request: that of its traceparent header, else a new one." example:"4bf92f3577b34da6a3ce929d0e0e4736"`
}

// ListMeta accompanies a page of a list.
type ListMeta struct {
	Meta
	Total   int  `json:"total" minimum:"0" doc:"Number of items in all pages." example:"112"`
	HasMore bool `json:"has_more" doc:"Whether items follow after this page." example:"true"`
}

// Links are paths, with query, to the pages of a list.
type Links struct {
	Self  string `json:"self" doc:"This page." example:"/api/v1/services?limit=50&offset=50"`
	First string `json:"first" doc:"The first page." example:"/api/v1/services?limit=50&offset=0"`
	Last  string `json:"last" doc:"The last page, the first one of an empty list." example:"/api/v1/services?limit=50&offset=100"`
	Next  string `json:"next,omitempty" doc:"The page after this one, where there is one." example:"/api/v1/services?limit=50&offset=100"`
	Prev  string `json:"prev,omitempty" doc:"The page before this one, where there is one." example:"/api/v1/services?limit=50&offset=0"`
}

// Single documents a response with one resource; encode writes it.
type Single[D any] struct {
	Data D    `json:"data" doc:"The resource."`
	Meta Meta `json:"meta" doc:"About the response."`
}

// List documents a response with a page of resources; encode writes it.
type List[D any] struct {
	Data  []D      `json:"data" nullable:"false" doc:"The items of the page."`
	Meta  ListMeta `json:"meta" doc:"About the response and the list."`
	Links Links    `json:"links" doc:"Paths to the pages."`
}

// Failure is the body of every response that is not a success.
type Failure struct {
	Error FailureError `json:"error" doc:"What went wrong."`
	Meta  Meta         `json:"meta" doc:"About the response."`
}

// FailureError says what went wrong.
type FailureError struct {
	Code    assay.Code        `json:"code" doc:"Machine-readable code." example:"INVALID_PARAMETERS"`
	Message string            `json:"message" doc:"Text for people." example:"one or more parameters are not valid"`
	Details map[string]string `json:"details,omitempty" doc:"Text by the name of the field or parameter it is about." example:"{\"limit\":\"must be between 1 and 100\"}"`
}

// page is a part of a list with what leads to the others.
type page struct {
	total   int
	hasMore bool
	links   Links
}

// newPage works out the links of a page. query holds the parameters of the
// request; its limit and offset are overwritten.
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
	// Compared this way round, because offset may be so large that a sum with it overflows.
	hasMore := p.Offset < total-items && items > 0
	if hasMore {
		l.Next = link(p.Offset + p.Limit)
	}
	if p.Offset > 0 && total > 0 {
		// Past the end, the page before is the last one.
		l.Prev = link(max(0, min(p.Offset-p.Limit, last)))
	}
	return &page{total: total, hasMore: hasMore, links: l}
}

// schemaOf returns a reference to the schema of T.
func schemaOf[T any](r huma.Registry) *huma.Schema {
	return r.Schema(reflect.TypeFor[T](), true, "")
}

// nullable returns the schema of T or null.
func nullable[T any](r huma.Registry, description string) *huma.Schema {
	return &huma.Schema{
		AnyOf:       []*huma.Schema{schemaOf[T](r), {Type: "null"}},
		Description: description,
	}
}
