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
	"time"

	"assay"
	"assay/internal/httpreply"
	"assay/internal/requestid"
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
	return page[T]{nonNil(items), pagination{Limit: limit, Offset: offset, Total: total, HasMore: offset+len(items) < total}}
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
	TraceID   string    `json:"trace_id"`
}

func (s *server) meta(r *http.Request) meta { return meta{s.now(), requestid.TraceID(r.Context())} }

// codeSignature is a code that the API itself does not have.
const codeSignature assay.Code = "INVALID_SIGNATURE"

// statuses has the status of each error of operations, stores and sources.
var statuses = map[assay.Code]int{
	assay.CodeInvalid:            http.StatusBadRequest,
	assay.CodeMissingCredentials: http.StatusUnauthorized,
	assay.CodeInvalidToken:       http.StatusUnauthorized,
	codeSignature:                http.StatusUnauthorized,
	assay.CodeForbidden:          http.StatusForbidden,
	assay.CodeNotFound:           http.StatusNotFound,
	assay.CodeMethodNotAllowed:   http.StatusMethodNotAllowed,
	assay.CodeConflict:           http.StatusConflict,
	assay.CodeTooLarge:           http.StatusRequestEntityTooLarge,
	assay.CodeUnprocessable:      http.StatusUnprocessableEntity,
	assay.CodeRateLimited:        http.StatusTooManyRequests,
	assay.CodeUnavailable:        http.StatusServiceUnavailable,
}

// write writes the response to a request and returns the status.
func (s *server) write(w http.ResponseWriter, r *http.Request, organization string, data any, err error) int {
	var body []byte
	var tag string
	if err == nil {
		body, tag, err = s.encode(r, organization, data)
	}
	if err != nil {
		return s.writeError(w, r, err)
	}
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		w.Header().Set("ETag", tag)
		w.Header().Set("Cache-Control", "private, no-cache")
		w.Header().Set("Vary", "Authorization")
		if httpreply.Matches(r, tag) {
			w.WriteHeader(http.StatusNotModified)
			return http.StatusNotModified
		}
	}
	return writeBody(w, http.StatusOK, body)
}

// encode returns the body of a response and its entity tag, while the organization holds a slot of the CPUs.
func (s *server) encode(r *http.Request, organization string, data any) (body []byte, tag string, err error) {
	leave, err := s.cfg.CPU.Enter(r.Context(), organization)
	if err != nil {
		return nil, "", err
	}
	defer leave()
	var b bytes.Buffer
	b.WriteString(`{"data":`)
	begin := b.Len()
	if err := encode(&b, data); err != nil {
		return nil, "", err
	}
	// Only the data: the timestamp would change the entity tag of every response.
	sum := sha256.Sum256(b.Bytes()[begin:])
	b.WriteString(`,"meta":`)
	_ = encode(&b, s.meta(r)) // a time and a string: cannot fail
	b.WriteString("}")
	return b.Bytes(), `W/"` + hex.EncodeToString(sum[:12]) + `"`, nil
}

func (s *server) writeError(w http.ResponseWriter, r *http.Request, err error) int {
	status, refused := s.refusal(r.Context(), err)
	switch status {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", "Bearer")
	case http.StatusServiceUnavailable:
		retryAfter(w.Header(), askInterval)
	}
	type failure struct {
		Code    assay.Code        `json:"code"`
		Message string            `json:"message"`
		Details map[string]string `json:"details,omitempty"`
	}
	return s.writeJSON(w, r, status, struct {
		Error failure `json:"error"`
		Meta  meta    `json:"meta"`
	}{failure{refused.Code, refused.Message, refused.Details}, s.meta(r)})
}

// retryAfter sets Retry-After, in whole seconds.
func retryAfter(h http.Header, wait time.Duration) {
	h.Set("Retry-After", strconv.Itoa(int((wait+time.Second-1)/time.Second)))
}

func (s *server) writeJSON(w http.ResponseWriter, r *http.Request, status int, document any) int {
	var body bytes.Buffer
	if err := encode(&body, document); err != nil {
		s.cfg.Logger.ErrorContext(r.Context(), "failed to encode a response of the agent", "error", err)
		w.WriteHeader(http.StatusInternalServerError)
		return http.StatusInternalServerError
	}
	return writeBody(w, status, body.Bytes())
}

func writeBody(w http.ResponseWriter, status int, body []byte) int {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	w.Write(body)
	return status
}

// refusal returns the status and the error with which a request is refused. Errors without a status are logged.
func (s *server) refusal(ctx context.Context, err error) (int, *assay.Error) {
	if coded, ok := errors.AsType[*assay.Error](err); ok && statuses[coded.Code] != 0 {
		return statuses[coded.Code], coded
	}
	if ctx.Err() != nil {
		return http.StatusServiceUnavailable, assay.Errorf(assay.CodeUnavailable, "the request was not answered in time")
	}
	s.cfg.Logger.ErrorContext(ctx, "agent failed", "error", err)
	return http.StatusInternalServerError, assay.Errorf(assay.CodeInternal, "the agent failed")
}

func encode(to *bytes.Buffer, document any) error {
	enc := json.NewEncoder(to)
	enc.SetEscapeHTML(false)
	return enc.Encode(document)
}
