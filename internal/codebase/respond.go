// SPDX-License-Identifier: Apache-2.0

package codebase

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"assay"
)

// page is a list with its place in the whole list.
type page[T any] struct {
	Data       []T        `json:"data"`
	Pagination pagination `json:"pagination"`
}

type pagination struct {
	Limit   int  `json:"limit"`
	Offset  int  `json:"offset"`
	Total   int  `json:"total"`
	HasMore bool `json:"hasMore"`
}

// pageOf returns a page. Its items are never null.
func pageOf[T any](items []T, limit, offset, total int) page[T] {
	if items == nil {
		items = []T{}
	}
	return page[T]{items, pagination{Limit: limit, Offset: offset, Total: total, HasMore: offset+len(items) < total}}
}

// moment returns a time as resources show it, nil if it is zero.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC().Truncate(time.Microsecond)
	return &t
}

// some returns a text if it is not empty, else nil.
func some(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

type meta struct {
	Timestamp time.Time `json:"timestamp"`
}

// refusal is an error response.
type refusal struct {
	status     int
	code       string
	message    string
	details    map[string]string // by field or parameter
	retryAfter time.Duration     // 0: no Retry-After
	allow      string            // methods of the path, for a 405
}

func (r *refusal) Error() string { return r.message }

var codes = map[int]string{
	http.StatusBadRequest:            "INVALID_PARAMETERS",
	http.StatusUnauthorized:          "INVALID_TOKEN",
	http.StatusForbidden:             "FORBIDDEN",
	http.StatusNotFound:              "NOT_FOUND",
	http.StatusMethodNotAllowed:      "METHOD_NOT_ALLOWED",
	http.StatusConflict:              "CONFLICT",
	http.StatusRequestEntityTooLarge: "PAYLOAD_TOO_LARGE",
	http.StatusUnprocessableEntity:   "UNPROCESSABLE_ENTITY",
	http.StatusTooManyRequests:       "RATE_LIMIT_EXCEEDED",
	http.StatusInternalServerError:   "INTERNAL_ERROR",
	http.StatusServiceUnavailable:    "SERVICE_UNAVAILABLE",
}

// statuses are those of the coded errors of stores and sources.
var statuses = map[assay.Code]int{
	assay.CodeInvalid:       http.StatusBadRequest,
	assay.CodeForbidden:     http.StatusForbidden,
	assay.CodeNotFound:      http.StatusNotFound,
	assay.CodeConflict:      http.StatusConflict,
	assay.CodeUnprocessable: http.StatusUnprocessableEntity,
	assay.CodeRateLimited:   http.StatusTooManyRequests,
	assay.CodeUnavailable:   http.StatusServiceUnavailable,
}

// refuse returns an error with the code of its status.
func refuse(status int, message string) *refusal {
	return &refusal{status: status, code: codes[status], message: message}
}

// write writes the response to a request and returns the status.
func (s *server) write(w http.ResponseWriter, r *http.Request, data any, err error) int {
	if err != nil {
		return s.writeError(w, r, err)
	}
	// Encode the data alone: the timestamp would change the entity tag of every response.
	var text bytes.Buffer
	if err := encode(&text, data); err != nil {
		return s.writeError(w, r, err)
	}
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		sum := sha256.Sum256(text.Bytes())
		tag := `W/"` + hex.EncodeToString(sum[:12]) + `"`
		w.Header().Set("ETag", tag)
		w.Header().Set("Cache-Control", "private, no-cache")
		w.Header().Set("Vary", "Authorization")
		if hasTag(r.Header.Values("If-None-Match"), tag) {
			w.WriteHeader(http.StatusNotModified)
			return http.StatusNotModified
		}
	}
	return s.writeJSON(w, r, http.StatusOK, struct {
		Data json.RawMessage `json:"data"`
		Meta meta            `json:"meta"`
	}{text.Bytes(), meta{Timestamp: s.now()}})
}

func (s *server) writeError(w http.ResponseWriter, r *http.Request, err error) int {
	refused := s.refusalOf(r.Context(), err)
	h := w.Header()
	if refused.status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", "Bearer")
	}
	if refused.allow != "" {
		h.Set("Allow", refused.allow)
	}
	if refused.retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int((refused.retryAfter+time.Second-1)/time.Second)))
	}
	type failure struct {
		Code    string            `json:"code"`
		Message string            `json:"message"`
		Details map[string]string `json:"details,omitempty"`
	}
	return s.writeJSON(w, r, refused.status, struct {
		Error failure `json:"error"`
		Meta  meta    `json:"meta"`
	}{failure{refused.code, refused.message, refused.details}, meta{Timestamp: s.now()}})
}

func (s *server) writeJSON(w http.ResponseWriter, r *http.Request, status int, document any) int {
	var body bytes.Buffer
	if err := encode(&body, document); err != nil {
		s.cfg.Logger.ErrorContext(r.Context(), "failed to encode a response of the agent", "error", err)
		w.WriteHeader(http.StatusInternalServerError)
		return http.StatusInternalServerError
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	w.Write(body.Bytes())
	return status
}

// refusalOf returns the refusal for an error. Errors of the store and of sources have a code, which is the status.
func (s *server) refusalOf(ctx context.Context, err error) *refusal {
	if refused, ok := errors.AsType[*refusal](err); ok {
		return refused
	}
	status := statuses[assay.ErrorCode(err)]
	if coded, ok := errors.AsType[*assay.Error](err); ok && status != 0 {
		refused := refuse(status, coded.Message)
		refused.details = coded.Details
		if status == http.StatusServiceUnavailable {
			refused.retryAfter = askInterval
		}
		return refused
	}
	if ctx.Err() == nil {
		s.cfg.Logger.ErrorContext(ctx, "agent failed", "error", err)
	}
	return refuse(http.StatusInternalServerError, "the agent failed")
}

func encode(to *bytes.Buffer, document any) error {
	enc := json.NewEncoder(to)
	enc.SetEscapeHTML(false)
	return enc.Encode(document)
}

// hasTag reports whether one of the entity tags equals tag, by weak comparison.
// Source: RFC 9110, section 13.1.2.
func hasTag(fields []string, tag string) bool {
	for _, field := range fields {
		for candidate := range strings.SplitSeq(field, ",") {
			candidate = strings.TrimSpace(candidate)
			if candidate == "*" || strings.TrimPrefix(candidate, "W/") == strings.TrimPrefix(tag, "W/") {
				return true
			}
		}
	}
	return false
}
