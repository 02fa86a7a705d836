// SPDX-License-Identifier: Apache-2.0

package agentstub

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// label is part of every resource, so that nobody takes it for real.
type label struct {
	StandIn standIn `json:"stand_in"`
}

// standIn is always true.
type standIn struct{}

// MarshalJSON implements json.Marshaler.
func (standIn) MarshalJSON() ([]byte, error) { return []byte("true"), nil }

// response is a success.
type response struct {
	data  any
	total *int // of a list
	links *links
}

// links are paths below the backend's URL to the pages of a list.
type links struct {
	Self  string `json:"self"`
	First string `json:"first,omitempty"`
	Prev  string `json:"prev,omitempty"`
	Next  string `json:"next,omitempty"`
	Last  string `json:"last,omitempty"`
}

// list is a response with a whole list.
func list[T any](items []T) response {
	total := len(items)
	return response{data: items, total: &total}
}

type meta struct {
	Timestamp time.Time `json:"timestamp"`
	Total     *int      `json:"total,omitempty"`
}

// refusal is an error as the caller sees it.
type refusal struct {
	status     int
	code       string
	message    string
	details    map[string]string // by field or parameter
	retryAfter time.Duration     // 0: not said
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

// refuse returns an error with the code of its status.
func refuse(status int, message string) *refusal {
	return &refusal{status: status, code: codes[status], message: message}
}

// write answers a request and returns the status.
func (s *server) write(w http.ResponseWriter, r *http.Request, answer response, err error) int {
	if err != nil {
		return s.writeError(w, r, err)
	}
	m := meta{Timestamp: s.now(), Total: answer.total}
	// Without the timestamp, which would make every answer a new one.
	unchanging, err := json.Marshal([]any{answer.data, answer.total, answer.links})
	if err != nil {
		return s.writeError(w, r, err)
	}
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		sum := sha256.Sum256(unchanging)
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
		Data  any    `json:"data"`
		Meta  meta   `json:"meta"`
		Links *links `json:"links,omitempty"`
	}{answer.data, m, answer.links})
}

func (s *server) writeError(w http.ResponseWriter, r *http.Request, err error) int {
	refused, ok := errors.AsType[*refusal](err)
	if !ok {
		s.cfg.Logger.ErrorContext(r.Context(), "stand-in failed", "error", err)
		refused = refuse(http.StatusInternalServerError, "the stand-in failed")
	}
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
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(document); err != nil {
		s.cfg.Logger.ErrorContext(r.Context(), "stand-in cannot encode its answer", "error", err)
		w.WriteHeader(http.StatusInternalServerError)
		return http.StatusInternalServerError
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	w.Write(body.Bytes())
	return status
}

// hasTag tells whether one of the entity tags is tag, by weak comparison. Source:
// RFC 9110, section 13.1.2.
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
