// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"assay"
	"assay/internal/safetext"
)

const (
	gzipOver = 1 << 10 // bytes; smaller bodies are sent as they are

	// retryAfter is what a client is told to wait while a dependency is away.
	retryAfter = 5 * time.Second
)

// exchange is one request and the response to it.
type exchange struct {
	http.ResponseWriter
	s       *server
	r       *http.Request
	traceID string
	wrote   bool // the response has begun
}

func (x *exchange) WriteHeader(status int) {
	x.wrote = true
	x.ResponseWriter.WriteHeader(status)
}

func (x *exchange) Write(b []byte) (int, error) {
	x.wrote = true
	return x.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (x *exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }

func (x *exchange) meta() Meta {
	return Meta{Timestamp: Time(x.s.now()), TraceID: x.traceID}
}

// succeed answers 200 with data, or 304 when tagged and the client already has it.
// pg is nil for a single resource, and for data that is rendered already.
func (x *exchange) succeed(data any, pg *page, tagged bool) {
	r, ok := data.(*rendered)
	if !ok {
		var err error
		if r, err = render(data, pg); err != nil {
			x.fail(err)
			return
		}
	}
	h := x.Header()
	h.Add("Vary", "Authorization")
	h.Set("Cache-Control", "private, no-cache")
	if tagged {
		tag := r.tag()
		h.Set("ETag", tag)
		if matches(x.r.Header.Values("If-None-Match"), tag) {
			h.Add("Vary", "Accept-Encoding")
			x.WriteHeader(http.StatusNotModified)
			return
		}
	}
	end, err := r.end(x.meta())
	if err != nil {
		x.fail(err)
		return
	}
	parts := [][]byte{r.begin, end}
	if x.gzips(len(r.begin) + len(end)) {
		parts = r.gzip(end)
	}
	x.write(http.StatusOK, "application/json", parts...)
}

// encode appends v as JSON on one line.
func encode(b *bytes.Buffer, v any) error {
	switch v := v.(type) {
	case Insight:
		return v.encode(b)
	case []Insight:
		return encodeInsights(b, v)
	default:
		return encodeAny(b, v)
	}
}

func encodeAny(b *bytes.Buffer, v any) error { return safetext.EncodeJSON(b, v, "") }

// matches tells whether the If-None-Match fields name tag, compared weakly as
// RFC 9110 says. What does not parse ends the list.
func matches(fields []string, tag string) bool {
	tag = strings.TrimPrefix(tag, "W/")
	rest := strings.Join(fields, ",")
	for {
		rest = strings.TrimLeft(rest, " \t,")
		if strings.HasPrefix(rest, "*") {
			return true
		}
		rest = strings.TrimPrefix(rest, "W/")
		if !strings.HasPrefix(rest, `"`) {
			return false
		}
		end := strings.IndexByte(rest[1:], '"')
		if end < 0 {
			return false
		}
		if rest[:end+2] == tag {
			return true
		}
		rest = rest[end+2:]
	}
}

// statuses maps the codes to the statuses of responses.
var statuses = map[assay.Code]int{
	assay.CodeInvalid:            http.StatusBadRequest,
	assay.CodeMissingCredentials: http.StatusUnauthorized,
	assay.CodeInvalidAPIKey:      http.StatusUnauthorized,
	assay.CodeInvalidToken:       http.StatusUnauthorized,
	assay.CodeForbidden:          http.StatusForbidden,
	assay.CodeNotFound:           http.StatusNotFound,
	assay.CodeServiceNotFound:    http.StatusNotFound,
	assay.CodeInsightNotFound:    http.StatusNotFound,
	assay.CodeMethodNotAllowed:   http.StatusMethodNotAllowed,
	assay.CodeConflict:           http.StatusConflict,
	assay.CodeTooLarge:           http.StatusRequestEntityTooLarge,
	assay.CodeUnprocessable:      http.StatusUnprocessableEntity,
	assay.CodeRateLimited:        http.StatusTooManyRequests,
	assay.CodeInternal:           http.StatusInternalServerError,
	assay.CodeUpstream:           http.StatusBadGateway,
	assay.CodeUnavailable:        http.StatusServiceUnavailable,
}

// fail answers with an error. The text of an internal error, and of what caused a
// failure of a dependency, goes to the log and never to the client.
func (x *exchange) fail(err error) {
	code := assay.ErrorCode(err)
	if code == assay.CodeInternal && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)) {
		code = assay.CodeUnavailable // out of time
	}
	status, ok := statuses[code]
	if !ok {
		code, status = assay.CodeInternal, http.StatusInternalServerError
	}
	f := Failure{Error: FailureError{Code: code}, Meta: x.meta()}
	var e *assay.Error
	if errors.As(err, &e) && code != assay.CodeInternal {
		f.Error.Message, f.Error.Details = e.Message, e.Details
	}
	var named interface{ BackendCode() string }
	if errors.As(err, &named) && named.BackendCode() != "" {
		f.Error.Code = assay.Code(named.BackendCode())
	}
	if status >= http.StatusInternalServerError {
		x.log(status, err)
		if e == nil || e.Err != nil || f.Error.Message == "" {
			f.Error.Message = generalMessage(status)
		}
	}
	h := x.Header()
	h.Del("ETag")
	h.Set("Cache-Control", "no-store")
	switch status {
	case http.StatusUnauthorized:
		h.Set("WWW-Authenticate", "Bearer")
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		after := retryAfter
		var retry interface{ RetryAfter() time.Duration }
		if errors.As(err, &retry) {
			after = retry.RetryAfter()
		}
		h.Set("Retry-After", strconv.Itoa(max(1, int(math.Ceil(after.Seconds())))))
	}
	var body bytes.Buffer
	_ = encode(&body, f) // strings and a time: cannot fail
	x.send(status, "application/json", body.Bytes())
}

func generalMessage(status int) string {
	switch status {
	case http.StatusBadGateway:
		return "a system that this service depends on failed"
	case http.StatusServiceUnavailable:
		return "a system that this service depends on is not available"
	default:
		return "an internal error occurred"
	}
}

func (x *exchange) log(status int, err error) {
	level := slog.LevelWarn
	if status == http.StatusInternalServerError {
		level = slog.LevelError
	}
	if x.r.Context().Err() != nil {
		level = slog.LevelDebug // the client went away, nothing is wrong here
	}
	attrs := []any{"method", x.r.Method, "path", x.r.URL.Path, "status", status, "trace_id", x.traceID, "error", err}
	var e *assay.Error
	if errors.As(err, &e) && e.Err != nil { // the text of an Error may leave it out
		attrs = append(attrs, "cause", e.Err)
	}
	x.s.cfg.Logger.Log(x.r.Context(), level, "request failed", attrs...)
}

// recover answers 500 to a request whose handler panicked.
func (x *exchange) recover() {
	v := recover()
	if v == nil {
		return
	}
	if v == http.ErrAbortHandler { // wanted: end the connection
		panic(v)
	}
	x.s.cfg.Logger.ErrorContext(x.r.Context(), "handler panicked",
		"method", x.r.Method, "path", x.r.URL.Path, "trace_id", x.traceID, "panic", v, "stack", string(debug.Stack()))
	if x.wrote { // too late for another response, and half of one must not look whole
		panic(http.ErrAbortHandler)
	}
	x.fail(&assay.Error{Code: assay.CodeInternal, Message: "handler panicked"})
}

// send answers with a body.
func (x *exchange) send(status int, contentType string, body []byte) {
	if x.gzips(len(body)) {
		body = pack(body, true)
	}
	x.write(status, contentType, body)
}

// gzips tells whether a body of that length is sent with gzip, and sets the header
// fields that say so.
func (x *exchange) gzips(length int) bool {
	x.Header().Add("Vary", "Accept-Encoding")
	if length <= gzipOver || !acceptsGzip(x.r.Header.Values("Accept-Encoding")) {
		return false
	}
	x.Header().Set("Content-Encoding", "gzip")
	return true
}

// write writes the response. A response to HEAD has the header of one to GET.
func (x *exchange) write(status int, contentType string, parts ...[]byte) {
	length := 0
	for _, p := range parts {
		length += len(p)
	}
	h := x.Header()
	h.Set("Content-Type", contentType)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Length", strconv.Itoa(length))
	x.WriteHeader(status)
	if x.r.Method == http.MethodHead {
		return
	}
	for _, p := range parts {
		_, _ = x.Write(p) // the client may be gone, and nobody is left to tell
	}
}

// acceptsGzip tells whether the Accept-Encoding fields allow gzip and do not
// prefer no encoding.
func acceptsGzip(fields []string) bool {
	var zip, star, identity float64 = -1, -1, -1 // not named
	for coding := range strings.SplitSeq(strings.Join(fields, ","), ",") {
		name, params, _ := strings.Cut(coding, ";")
		q := quality(params)
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "gzip", "x-gzip":
			zip = max(zip, q)
		case "*":
			star = q
		case "identity":
			identity = q
		}
	}
	if zip < 0 {
		zip = star
	}
	return zip > 0 && zip >= identity
}

// quality returns the q parameter, 1 without one, 0 when it is malformed.
func quality(params string) float64 {
	for p := range strings.SplitSeq(params, ";") {
		name, value, ok := strings.Cut(p, "=")
		if !ok || !strings.EqualFold(strings.TrimSpace(name), "q") {
			continue
		}
		q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if err != nil || !(q >= 0 && q <= 1) {
			return 0
		}
		return q
	}
	return 1
}
